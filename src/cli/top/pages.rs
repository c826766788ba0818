//! The pages in the place of the list: one member in full, and the keys.

use std::time::Duration;

use ratatui::Frame;
use ratatui::layout::Rect;
use ratatui::style::{Modifier, Style};
use ratatui::text::{Line, Span};
use ratatui::widgets::{Block, BorderType, Borders, Paragraph, Wrap};

use super::look::{Look, event_line, status_of};
use super::screen::Screen;
use crate::cli::human::{self, NOTHING, plain};
use crate::cli::paint::Tone;

/// The keys, and what they do.
const KEYS: [(&str, &str); 13] = [
    ("↑ ↓  j k", "choose a member"),
    ("PgUp PgDn", "ten at once"),
    ("Home End", "the first, the last"),
    ("Enter", "all about one member"),
    ("/", "show only members with these words: name, address, status, tag"),
    ("Esc", "show all again, or go back"),
    ("s", "sort: worst, name, latest change, longest unheard, slowest"),
    ("l", "show those that left, too"),
    ("e  Tab", "the timeline alone, with dates"),
    ("?", "this page"),
    ("q  Ctrl-C", "quit"),
    ("", ""),
    ("", "HEARD: since its last sign of life. RTT: there and back."),
];

fn panel<'a>(title: String, look: &Look) -> Block<'a> {
    Block::new()
        .borders(Borders::ALL)
        .border_type(BorderType::Rounded)
        .border_style(look.tone(Tone::Faint))
        .title(title)
}

/// Draws the keys.
pub(super) fn help(frame: &mut Frame<'_>, area: Rect, look: &Look) {
    let line = |(key, what): &(&'static str, &'static str)| {
        Line::from(vec![
            Span::styled(format!(" {key:<10} "), Style::new().add_modifier(Modifier::BOLD)),
            Span::raw(*what),
        ])
    };
    let lines: Vec<Line<'_>> = KEYS.iter().map(line).collect();
    frame.render_widget(Paragraph::new(lines).block(panel(" Keys ".to_owned(), look)), area);
}

/// Draws all that is known of the chosen member, and what happened to it.
pub(super) fn detail(frame: &mut Frame<'_>, area: Rect, screen: &Screen, look: &Look) {
    let rows = screen.rows();
    let Some(member) = rows.get(screen.selected_row(&rows)) else { return };
    let or_nothing = |text: Option<String>| text.unwrap_or_else(|| NOTHING.to_owned());
    let status = Span::styled(plain(&status_of(member)), look.tone(Tone::of_status(&member.status)));
    let since = format!("{}, {} ago", look.date_and_time(member.since), human::ago(member.since, look.now));
    let span = |ms| human::duration(Duration::from_millis(ms));
    let sign = |age: Option<u64>, interval: Option<u64>| {
        let before = interval.map_or_else(String::new, |ms| format!(", {} after the one before", span(ms)));
        or_nothing(age.map(|ms| format!("{} ago{before}", span(ms)))).into()
    };
    let is_leader = screen.leader.as_ref().is_some_and(|leader| leader.leader.as_deref() == Some(&*member.id));
    let facts = [
        ("status", status),
        ("since", since.into()),
        ("heard", sign(member.last_heard_ms, member.heard_interval_ms)),
        ("sent", sign(member.last_sent_ms, member.sent_interval_ms)),
        ("round trip", or_nothing(member.rtt_ms.map(|ms| format!("{ms:.2} ms"))).into()),
        ("gossip", plain(&member.address).into()),
        ("api", or_nothing(member.api_address.as_deref().map(plain)).into()),
        ("tags", human::tags(&member.tags).into()),
        ("leads", if is_leader { "yes" } else { "no" }.into()),
        ("run", format!("{}, incarnation {}", plain(&member.run), member.incarnation).into()),
        ("version", plain(&member.version).into()),
    ];
    let fact = |(key, value): (&str, Span<'static>)| {
        Line::from(vec![Span::styled(format!(" {key:<11}"), look.tone(Tone::Faint)), value])
    };
    let mut lines: Vec<Line<'_>> = facts.into_iter().map(fact).collect();
    lines.push(Line::raw(""));
    let own = screen.timeline.iter().filter(|event| event.node.as_deref() == Some(&*member.id));
    lines.extend(own.take(usize::from(area.height)).map(|event| event_line(event, look, true)));
    let name = if member.is_me { format!(" {} (me) ", plain(&member.id)) } else { format!(" {} ", plain(&member.id)) };
    frame.render_widget(Paragraph::new(lines).wrap(Wrap { trim: false }).block(panel(name, look)), area);
}
