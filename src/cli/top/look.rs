//! Styles, times, widths and lines of text: everything about the look that has no place on the screen of its own.
//!
//! Invariant: without colours, what is loud is still reversed or bold.

use std::time::SystemTime;

use jiff::Timestamp;
use jiff::tz::TimeZone;
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::{Line, Span};

use crate::cli::human::plain;
use crate::cli::paint::Tone;
use crate::cli::watch::details;
use crate::json::{Event, Member};

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

/// Cuts a line to so many columns, and shows that it was cut.
pub(super) fn cut_line(line: Line<'static>, columns: usize) -> Line<'static> {
    if line.width() <= columns {
        return line;
    }
    let (mut spans, mut left) = (Vec::new(), columns);
    for span in line.spans {
        if span.width() >= left {
            spans.push(Span::styled(cut(&format!("{} ", span.content), left), span.style));
            break;
        }
        left -= span.width();
        spans.push(span);
    }
    Line::from(spans)
}

/// Returns the status of a member, with its cause if there is one.
pub(super) fn status_of(member: &Member) -> String {
    let why = member.reason.as_deref().or(member.method.as_deref()).or(member.draining.then_some("draining"));
    why.map_or_else(|| member.status.clone(), |why| format!("{} ({why})", member.status))
}

/// Formats one event: time, kind, node, and what else there is to say.
pub(super) fn event_line(event: &Event, look: &Look, with_date: bool) -> Line<'static> {
    let at = if with_date { look.date_and_time(event.at) } else { look.time_of_day(event.at) };
    let mut spans = vec![
        Span::styled(format!(" {at}  "), look.tone(Tone::Faint)),
        Span::styled(format!("{:<19}", plain(&event.event)), look.tone(Tone::of_event(&event.event))),
    ];
    let mut rest: Vec<String> = event.node.as_deref().map(plain).into_iter().collect();
    rest.extend(details(event));
    spans.push(Span::raw(format!(" {}", rest.join("  "))));
    Line::from(spans)
}
