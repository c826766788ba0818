//! Styles, times and widths: everything about the look that is not on the screen.
//!
//! Invariant: without colours, what is loud is still reversed or bold.

use std::time::SystemTime;

use jiff::Timestamp;
use jiff::tz::TimeZone;
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::Span;

use crate::cli::paint::Tone;

/// The time, and what the terminal can do.
#[derive(Debug, Clone)]
pub(super) struct Look {
    pub(super) now: SystemTime,
    pub(super) zone: TimeZone,
    pub(super) coloured: bool,
}

impl Look {
    pub(super) fn tone(&self, tone: Tone) -> Style {
        let plain = Style::new();
        match tone {
            Tone::Bad => self.colour(Color::Red).add_modifier(Modifier::BOLD),
            Tone::Doubtful => self.colour(Color::Yellow),
            Tone::Good => self.colour(Color::Green),
            Tone::Moving => self.colour(Color::Cyan),
            Tone::Notable => self.colour(Color::Blue),
            Tone::Faint => plain.add_modifier(Modifier::DIM),
            Tone::Plain => plain,
        }
    }

    fn colour(&self, colour: Color) -> Style {
        if self.coloured { Style::new().fg(colour) } else { Style::new() }
    }

    /// Returns the style of a sign that has to be seen from across the room.
    pub(super) fn loud(&self, tone: Tone) -> Style {
        let colour = match tone {
            Tone::Good => Color::Green,
            Tone::Bad => Color::Red,
            Tone::Doubtful => Color::Yellow,
            _ => Color::Gray,
        };
        let bold = Style::new().add_modifier(Modifier::BOLD);
        if self.coloured { bold.bg(colour).fg(Color::Black) } else { bold.add_modifier(Modifier::REVERSED) }
    }

    pub(super) fn time_of_day(&self, at: SystemTime) -> String {
        let timestamp = Timestamp::try_from(at).unwrap_or(Timestamp::UNIX_EPOCH);
        timestamp.to_zoned(self.zone.clone()).strftime("%H:%M:%S").to_string()
    }

    pub(super) fn date_and_time(&self, at: SystemTime) -> String {
        let timestamp = Timestamp::try_from(at).unwrap_or(Timestamp::UNIX_EPOCH);
        timestamp.to_zoned(self.zone.clone()).strftime("%Y-%m-%d %H:%M:%S").to_string()
    }
}

/// Cuts a text to so many columns, and shows that it was cut.
pub(super) fn cut(text: &str, columns: usize) -> String {
    if Span::raw(text).width() <= columns {
        return text.to_owned();
    }
    let mut short = String::new();
    for letter in text.chars() {
        short.push(letter);
        if Span::raw(&short).width() >= columns {
            short.pop();
            break;
        }
    }
    short + "…"
}
