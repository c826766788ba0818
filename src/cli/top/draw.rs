//! The look of the screen: head, verdict, members, timeline, keys.
//!
//! Invariants: a colour only repeats a word or a sign, so that the screen reads the same without any; every size of
//! terminal is drawn, the smallest with less on it; no text from the network reaches the terminal with control
//! characters.

use std::time::Duration;

use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Margin, Rect};
use ratatui::style::{Modifier, Style};
use ratatui::text::{Line, Span};
use ratatui::widgets::{Block, Borders, Cell, Paragraph, Row, Table, TableState, Wrap};

use super::look::{Look, cut, cut_line, event_line, status_of};
use super::pages;
use super::screen::{Mode, Screen, Silence};
use crate::cli::human::{self, NOTHING, plain};
use crate::cli::paint::Tone;
use crate::json::Member;

/// Below this height there is room for members alone.
const HEIGHT_WITH_EVENTS: u16 = 17;
/// The largest number of lines below the verdict.
const MAX_ADVICE_LINES: usize = 3;
/// Below this width columns are left out, and words are shorter.
const NARROW: u16 = 64;
/// From this width on there is room for causes beside statuses.
const WIDE: u16 = 100;
/// The longest address that is shown in full.
const LONGEST_ADDRESS: usize = 26;
/// Below this height a page has the whole screen but the keys.
const HEIGHT_WITH_HEAD: u16 = 20;

/// Draws the whole screen.
pub(super) fn screen(frame: &mut Frame<'_>, screen: &Screen, look: &Look) {
    let area = frame.area();
    let trouble = trouble(screen, look);
    // A reason that is too long for a line gets a second one, where there is room.
    let banner = trouble.as_ref().map_or(0, |(text, _)| {
        let is_long = text.chars().count() > usize::from(area.width) && area.height >= HEIGHT_WITH_EVENTS;
        if is_long { 2 } else { 1 }
    });
    let events = if area.height >= HEIGHT_WITH_EVENTS { area.height / 3 } else { 0 };
    let (line, advice) = verdict(screen, look, area.width, area.height >= HEIGHT_WITH_EVENTS);
    // Words are not broken: a line may lose the room of one.
    let lines = advice.chars().count().div_ceil(usize::from(area.width).saturating_sub(8).max(1)).min(MAX_ADVICE_LINES);
    let [head, verdict, below, facts, banner, body, timeline, keys] = Layout::vertical([
        Constraint::Length(1),
        Constraint::Length(1),
        Constraint::Length(lines as u16),
        Constraint::Length(1),
        Constraint::Length(banner),
        Constraint::Min(0),
        Constraint::Length(if screen.mode == Mode::Events { 0 } else { events }),
        Constraint::Length(1),
    ])
    .areas(area);
    if matches!(screen.mode, Mode::Help | Mode::Detail) && area.height < HEIGHT_WITH_HEAD {
        let page = Rect { height: area.height.saturating_sub(1), ..area };
        draw_page(frame, page, screen, look);
        return draw_keys(frame, keys, screen, look);
    }
    draw_head(frame, head, screen, look);
    frame.render_widget(Paragraph::new(line), verdict);
    frame.render_widget(Paragraph::new(advice).wrap(Wrap { trim: false }), below.inner(Margin::new(1, 0)));
    frame.render_widget(Paragraph::new(cut_line(facts_line(screen, look), usize::from(facts.width))), facts);
    if let Some((text, tone)) = trouble {
        let text = cut(&text, usize::from(banner.width) * usize::from(banner.height));
        frame.render_widget(Paragraph::new(text).wrap(Wrap { trim: false }).style(look.loud(tone)), banner);
    }
    match screen.mode {
        Mode::Events => draw_events(frame, body, screen, look),
        Mode::Help | Mode::Detail => draw_page(frame, body.union(timeline), screen, look),
        Mode::List | Mode::Filter => {
            draw_members(frame, body, screen, look);
            draw_events(frame, timeline, screen, look);
        }
    }
    draw_keys(frame, keys, screen, look);
}

/// Returns the text and the tone of the banner that says why the screen is not live; `None` if it is.
fn trouble(screen: &Screen, look: &Look) -> Option<(String, Tone)> {
    if let Some(Silence { at, reason }) = &screen.silence() {
        let text = format!(" SILENT for {}, all is old: {}", human::ago(*at, look.now), plain(reason));
        return Some((text, Tone::Bad));
    }
    let reason = screen.unstreamed()?;
    Some((format!(" NO EVENTS, members are asked for: {}", plain(reason)), Tone::Doubtful))
}

fn draw_page(frame: &mut Frame<'_>, area: Rect, screen: &Screen, look: &Look) {
    match screen.mode {
        Mode::Detail => pages::detail(frame, area, screen, look),
        _ => pages::help(frame, area, look),
    }
}

/// The first line: the agent asked, its cluster and its address, and how long it has been running.
fn draw_head(frame: &mut Frame<'_>, area: Rect, screen: &Screen, look: &Look) {
    let info = &screen.info;
    let faint = look.tone(Tone::Faint);
    let line = Line::from(vec![
        Span::styled(" cluster ", faint),
        Span::styled(plain(&info.cluster), Style::new().add_modifier(Modifier::BOLD)),
        Span::styled(" seen by ", faint),
        Span::raw(plain(&info.node)),
        Span::styled(format!(" at {}", plain(&screen.agent)), faint),
    ]);
    let used = line.width();
    frame.render_widget(Paragraph::new(line), area);
    let up = format!("up {} ", human::duration(Duration::from_millis(info.uptime_ms)));
    if usize::from(area.width) > used + up.len() {
        frame.render_widget(Paragraph::new(Line::styled(up, faint)).right_aligned(), area);
    }
}

/// Returns the line of the agent's verdict: a word for the cluster as a whole, the number of members that are up of those there
/// are, and the reasons why it is not well. And what goes below it, where there is room: the reasons, if they are too long for the
/// line, and what to do about the worst.
fn verdict(screen: &Screen, look: &Look, width: u16, is_room: bool) -> (Line<'static>, String) {
    let is_lost = screen.silence().is_some();
    let (tone, word) = match &screen.verdict {
        _ if is_lost => (Tone::Plain, "UNKNOWN".to_owned()),
        None => (Tone::Plain, "LOOKING".to_owned()),
        Some(verdict) => (Tone::of_state(&verdict.state), plain(&verdict.state).to_uppercase()),
    };
    let all = screen.members.len() - screen.count("left");
    let when = if is_lost { ", when last heard" } else { "" };
    let of_all = format!(" {} of {all} up{when}", screen.count("up"));
    let reasons = screen.verdict.iter().flat_map(|verdict| &verdict.reasons);
    let why = reasons.clone().map(|it| plain(&it.text)).collect::<Vec<_>>().join("; ");
    let hint = reasons.take(1).filter_map(|it| it.hint.as_deref()).find(|_| is_room && !is_lost).map(plain);
    let hint = hint.map(|hint| format!("→ {hint}")).unwrap_or_default();
    let room = usize::from(width).saturating_sub(word.len() + of_all.len() + 6);
    let is_beside = !is_room || is_lost || why.chars().count() <= room;
    let (beside, below) = if is_beside { (cut(&why, room), hint) } else { (String::new(), format!("{why} {hint}")) };
    let line = Line::from(vec![
        Span::raw(" "),
        Span::styled(format!(" {word} "), look.loud(tone)),
        Span::styled(of_all, Style::new().add_modifier(Modifier::BOLD)),
        Span::styled(format!("  {beside}"), look.tone(if tone == Tone::Plain { Tone::Faint } else { tone })),
    ]);
    (line, cut(&below, (usize::from(width).saturating_sub(8)) * MAX_ADVICE_LINES))
}

/// The line of facts: who leads, who agrees, how many there are of each kind.
fn facts_line(screen: &Screen, look: &Look) -> Line<'static> {
    let faint = look.tone(Tone::Faint);
    let mut spans = vec![Span::raw(" ")];
    let mut fact = |key: &str, value: String, tone: Tone| {
        if spans.len() > 1 {
            spans.push(Span::styled("  ·  ", faint));
        }
        if !key.is_empty() {
            spans.push(Span::styled(format!("{key} "), faint));
        }
        spans.push(Span::styled(value, look.tone(tone)));
    };
    match &screen.leader {
        Some(leader) if leader.state == "disabled" => fact("leader", "not elected here".to_owned(), Tone::Faint),
        Some(leader) => {
            let who = leader.leader.as_deref().map_or_else(|| format!("nobody ({})", plain(&leader.state)), plain);
            let tone = if leader.leader.is_some() { Tone::Good } else { Tone::Bad };
            fact("leader", who, tone);
            fact("term", leader.term.to_string(), Tone::Plain);
        }
        None => {}
    }
    if let Some(agreement) = &screen.info.agreement {
        let same = agreement.fingerprints.first().map_or(0, |group| group.count);
        let heard: usize = agreement.fingerprints.iter().map(|group| group.count).sum();
        match agreement.fingerprints.len() {
            0 | 1 => fact("view", format!("shared by {same} of {heard}"), Tone::Good),
            views => fact("view", format!("shared by {same} of {heard}, {views} views"), Tone::Doubtful),
        }
        if agreement.unheard > 0 {
            fact("", format!("{} unheard", agreement.unheard), Tone::Doubtful);
        }
    }
    for status in ["suspect", "down", "joining", "leaving", "left"] {
        let number = screen.count(status);
        if number > 0 {
            fact("", format!("{number} {status}"), Tone::of_status(status));
        }
    }
    Line::from(spans)
}

fn draw_members(frame: &mut Frame<'_>, area: Rect, screen: &Screen, look: &Look) {
    let rows = screen.rows();
    let total = screen.members.values().filter(|member| screen.shows_left || member.status != "left").count();
    let counted = if rows.len() == total { total.to_string() } else { format!("{} of {total}", rows.len()) };
    let mut title = format!(" Members {counted}, {} ", screen.order.name());
    if !screen.filter.is_empty() {
        title = format!("{title}· filter \"{}\" ", plain(&screen.filter));
    }
    let block = Block::new().borders(Borders::TOP).border_style(look.tone(Tone::Faint)).title(heading(title));
    if rows.is_empty() {
        let text =
            if screen.filter.is_empty() { " No member is known yet." } else { " No member matches; Esc shows all." };
        frame.render_widget(Paragraph::new(text).style(look.tone(Tone::Faint)).block(block), area);
        return;
    }
    let is_narrow = area.width < NARROW;
    let longest_name = if is_narrow { 16 } else { usize::from(area.width / 4).clamp(24, 48) };
    let age = screen.read_at.and_then(|at| look.now.duration_since(at).ok()).unwrap_or_default();
    let leader = screen.leader.as_ref().and_then(|leader| leader.leader.as_deref());
    let name_of = |member: &Member| match (member.is_me, leader == Some(&*member.id)) {
        (true, true) => format!("{} (me, leads)", plain(&member.id)),
        (true, false) => format!("{} (me)", plain(&member.id)),
        (false, true) => format!("{} (leads)", plain(&member.id)),
        (false, false) => plain(&member.id),
    };
    let status = |member: &Member| {
        plain(&if area.width < WIDE && !member.draining { member.status.clone() } else { status_of(member) })
    };
    let longest = |length: &dyn Fn(&Member) -> usize, least: usize, most: usize| {
        let width = rows.iter().map(|member| length(member)).max().unwrap_or(0).clamp(least, most);
        Constraint::Length(u16::try_from(width).unwrap_or(u16::MAX))
    };
    let mut widths = vec![
        longest(&|member| name_of(member).chars().count(), 4, longest_name),
        longest(&|member| status(member).chars().count(), 6, 32),
        Constraint::Length(6),
        Constraint::Length(6),
    ];
    let mut head = vec!["NODE", "STATUS", "SINCE", "HEARD"];
    if !is_narrow {
        widths.extend([
            Constraint::Length(8),
            longest(&|member| member.address.len(), 7, LONGEST_ADDRESS),
            Constraint::Fill(1),
        ]);
        head.extend(["RTT", "ADDRESS", "TAGS"]);
    }
    // Two columns for the sign of the selected row, and two between each.
    let taken = widths.iter().map(|width| if let Constraint::Length(width) = width { width + 2 } else { 2 }).sum();
    let room_for_tags = usize::from(area.width.saturating_sub(taken));
    let row = |member: &&Member| {
        let silence = member.last_heard_ms.map(|ms| human::duration(Duration::from_millis(ms) + whole_seconds(age)));
        let tone = Tone::of_status(&member.status);
        let mut cells = vec![
            Cell::from(cut(&name_of(member), longest_name)),
            Cell::from(status(member)).style(look.tone(tone)),
            Cell::from(human::ago(member.since, look.now)),
            Cell::from(silence.unwrap_or_else(|| NOTHING.to_owned())),
        ];
        if !is_narrow {
            cells.push(Cell::from(member.rtt_ms.map_or_else(|| NOTHING.to_owned(), |ms| format!("{ms:.1}ms"))));
            cells.push(Cell::from(cut(&plain(&member.address), LONGEST_ADDRESS)).style(look.tone(Tone::Faint)));
            cells.push(Cell::from(cut(&human::tags(&member.tags), room_for_tags)));
        }
        let row = Row::new(cells);
        if member.status == "left" { row.style(look.tone(Tone::Faint)) } else { row }
    };
    let table = Table::new(rows.iter().map(row), widths)
        .header(Row::new(head).style(look.tone(Tone::Faint)))
        .block(block)
        .column_spacing(2)
        .highlight_symbol("▸ ")
        .highlight_spacing(ratatui::widgets::HighlightSpacing::Always)
        .row_highlight_style(Style::new().add_modifier(Modifier::BOLD));
    let mut state = TableState::new().with_selected(Some(screen.selected_row(&rows)));
    frame.render_stateful_widget(table, area, &mut state);
}

/// Returns the title of a part of the screen: bold, whatever the line that it stands on.
fn heading(title: String) -> Line<'static> {
    Line::styled(title, Style::new().add_modifier(Modifier::BOLD).remove_modifier(Modifier::DIM))
}

/// Ages that were read a moment ago grow by whole seconds, so that they do not flicker.
fn whole_seconds(age: Duration) -> Duration {
    if age < Duration::from_secs(2) { Duration::ZERO } else { Duration::from_secs(age.as_secs()) }
}

fn draw_events(frame: &mut Frame<'_>, area: Rect, screen: &Screen, look: &Look) {
    if area.height == 0 {
        return;
    }
    let shown = screen.timeline.iter().skip(screen.scrolled).take(usize::from(area.height.saturating_sub(1)));
    let is_whole = screen.mode == Mode::Events;
    let title = match screen.scrolled {
        _ if !is_whole => " Events ".to_owned(),
        0 => format!(" Events {}, latest first ", screen.timeline.len()),
        scrolled => format!(" Events {}, {scrolled} later above ", screen.timeline.len()),
    };
    let block = Block::new().borders(Borders::TOP).border_style(look.tone(Tone::Faint)).title(heading(title));
    let line = |event| cut_line(event_line(event, look, is_whole), usize::from(area.width));
    let lines: Vec<Line<'_>> = shown.map(line).collect();
    let none = if screen.unstreamed().is_some() { " No events are served now." } else { " Nothing has happened yet." };
    let lines = if lines.is_empty() { vec![Line::styled(none, look.tone(Tone::Faint))] } else { lines };
    frame.render_widget(Paragraph::new(lines).block(block), area);
}

fn draw_keys(frame: &mut Frame<'_>, area: Rect, screen: &Screen, look: &Look) {
    if screen.mode == Mode::Filter {
        let line = Line::from(vec![
            Span::styled(" / ", Style::new().add_modifier(Modifier::BOLD)),
            Span::raw(plain(&screen.filter)),
            Span::styled(" ", Style::new().add_modifier(Modifier::REVERSED)),
            Span::styled("  Enter keeps it, Esc clears it", look.tone(Tone::Faint)),
        ]);
        return frame.render_widget(Paragraph::new(line), area);
    }
    let keys: &[(&str, &str)] = match screen.mode {
        Mode::Events => &[("↑↓", "scroll"), ("e", "members"), ("?", "help")],
        Mode::Detail => &[("↑↓", "next"), ("Esc", "back"), ("?", "help")],
        Mode::Help => &[("Esc", "back")],
        _ => &[
            ("↵", "detail"),
            ("/", "filter"),
            ("s", "sort"),
            ("e", "events"),
            ("?", "help"),
            ("q", "quit"),
            ("l", "left"),
        ],
    };
    let mut spans = vec![Span::raw(" ")];
    for (key, what) in keys {
        spans.push(Span::styled((*key).to_owned(), Style::new().add_modifier(Modifier::BOLD)));
        spans.push(Span::styled(format!(" {what}  "), look.tone(Tone::Faint)));
    }
    frame.render_widget(Paragraph::new(Line::from(spans)), area);
}
