//! The state of the screen, and the effects of keys on it.
//!
//! Invariants: the timeline holds at most [`MAX_TIMELINE`] events; the selection is a member's name, so that it stays
//! on it while rows move. A member is shown as it was last: events that are told late, as all are that were kept before
//! this began, change nothing but the timeline. Must not know how anything looks.

use std::cmp::Reverse;
use std::collections::{BTreeMap, VecDeque};
use std::ops::ControlFlow;
use std::time::SystemTime;

use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

use super::feed::{Figures, News};
use crate::cli::paint::worst_first;
use crate::client::EventUpdate;
use crate::json::{Event, Info, Leader, Member, Verdict};

/// The largest number of events on the timeline.
pub(super) const MAX_TIMELINE: usize = 500;
/// The longest filter, in characters.
const MAX_FILTER: usize = 64;
/// The number of rows that a page key moves by.
const PAGE: isize = 10;

/// The order of members.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) enum Order {
    #[default]
    Worst,
    Name,
    Newest,
    Silent,
    Slowest,
}

impl Order {
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Worst => "worst first",
            Self::Name => "by name",
            Self::Newest => "latest change",
            Self::Silent => "longest unheard",
            Self::Slowest => "slowest",
        }
    }

    const fn next(self) -> Self {
        match self {
            Self::Worst => Self::Name,
            Self::Name => Self::Newest,
            Self::Newest => Self::Silent,
            Self::Silent => Self::Slowest,
            Self::Slowest => Self::Worst,
        }
    }
}

/// The part of the screen that takes keys.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) enum Mode {
    #[default]
    List,
    /// A filter is typed.
    Filter,
    /// One member is shown in full.
    Detail,
    /// The timeline has the whole screen.
    Events,
    Help,
}

/// The silence of an agent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Silence {
    /// The time at which it began.
    pub(super) at: SystemTime,
    pub(super) reason: String,
}

/// Everything that is known.
#[derive(Debug)]
pub(super) struct Screen {
    /// The agent's HTTP address.
    pub(super) agent: String,
    pub(super) info: Info,
    pub(super) leader: Option<Leader>,
    /// The agent's judgement; `None` while it is not known.
    pub(super) verdict: Option<Verdict>,
    pub(super) members: BTreeMap<String, Member>,
    /// Time at which the members' ages were read.
    pub(super) read_at: Option<SystemTime>,
    /// The events, latest first.
    pub(super) timeline: VecDeque<Event>,
    /// Set while the stream is broken.
    broken: Option<Silence>,
    /// Set while the agent serves no stream, though it answers.
    unstreamed: Option<Silence>,
    /// Set while polls are not answered.
    unanswered: Option<Silence>,
    pub(super) mode: Mode,
    pub(super) order: Order,
    pub(super) filter: String,
    pub(super) shows_left: bool,
    /// The name of the chosen member.
    pub(super) selected: Option<String>,
    /// The number of events that the timeline is scrolled by.
    pub(super) scrolled: usize,
}

impl Screen {
    pub(super) fn new(agent: String, info: Info) -> Self {
        Self {
            agent,
            info,
            leader: None,
            verdict: None,
            members: BTreeMap::new(),
            read_at: None,
            timeline: VecDeque::new(),
            broken: None,
            unstreamed: None,
            unanswered: None,
            mode: Mode::default(),
            order: Order::default(),
            filter: String::new(),
            shows_left: false,
            selected: None,
            scrolled: 0,
        }
    }

    /// Returns the id before the first event of the agent's run: the timeline begins with all that are still kept.
    pub(super) fn first_event_id(&self) -> String {
        format!("{}-0", self.info.run)
    }

    /// Takes in one item of news.
    pub(super) fn learn(&mut self, news: News, now: SystemTime) {
        match news {
            News::Update(EventUpdate::Event(event)) => self.tell(*event),
            News::Update(EventUpdate::Snapshot(snapshot)) => self.replace(snapshot.members, now),
            News::Update(EventUpdate::Lost { reason }) => lose(&mut self.broken, reason, now),
            News::Unstreamed(reason) => {
                self.broken = None;
                lose(&mut self.unstreamed, reason, now);
            }
            News::Silent(reason) => lose(&mut self.unanswered, reason, now),
            News::Update(EventUpdate::Resumed) => (self.broken, self.unstreamed) = (None, None),
            News::Figures(figures) => {
                self.unanswered = None;
                let Figures { info, leader, verdict, members } = *figures;
                (self.info, self.leader, self.verdict) = (info, Some(leader), verdict);
                self.replace(members, now);
            }
            News::Update(_) | News::Failed(_) | News::Stop => {}
        }
    }

    /// Returns the silence of the agent, since its stream broke or its answers ended; `None` while both come.
    pub(super) fn silence(&self) -> Option<Silence> {
        let at = self.broken.iter().chain(&self.unanswered).map(|silence| silence.at).min()?;
        // The latest word of why.
        let latest = self.unanswered.as_ref().or(self.broken.as_ref())?;
        Some(Silence { at, reason: latest.reason.clone() })
    }

    /// Returns the reason why an agent that answers sends no events; `None` if it does, or is silent.
    pub(super) fn unstreamed(&self) -> Option<&str> {
        self.unstreamed.as_ref().filter(|_| self.silence().is_none()).map(|silence| silence.reason.as_str())
    }

    fn replace(&mut self, members: Vec<Member>, now: SystemTime) {
        self.members = members.into_iter().map(|member| (member.id.clone(), member)).collect();
        self.read_at = Some(now);
    }

    fn tell(&mut self, event: Event) {
        let known = event.node.as_ref().and_then(|node| self.members.get(node));
        let is_late = |member: &Member| known.is_some_and(|known| place(member) < place(known));
        match (&event.member, &event.node) {
            (Some(member), _) if is_late(member) => {}
            (_, Some(node)) if event.event == "node_removed" => drop(self.members.remove(node)),
            (Some(member), _) => {
                // Ages and round trips come with figures alone.
                let mut member = member.clone();
                if let Some(known) = known {
                    member.last_heard_ms = member.last_heard_ms.or(known.last_heard_ms);
                    member.heard_interval_ms = member.heard_interval_ms.or(known.heard_interval_ms);
                    member.last_sent_ms = member.last_sent_ms.or(known.last_sent_ms);
                    member.sent_interval_ms = member.sent_interval_ms.or(known.sent_interval_ms);
                    member.rtt_ms = member.rtt_ms.or(known.rtt_ms);
                }
                self.members.insert(member.id.clone(), member);
            }
            _ => {}
        }
        self.timeline.push_front(event);
        self.timeline.truncate(MAX_TIMELINE);
        // A reader of old events stays with them.
        if self.scrolled > 0 {
            self.scrolled = (self.scrolled + 1).min(self.timeline.len().saturating_sub(1));
        }
    }

    /// Returns the members that are listed, in order.
    pub(super) fn rows(&self) -> Vec<&Member> {
        let words: Vec<String> = self.filter.split_whitespace().map(str::to_lowercase).collect();
        let is_listed = |member: &&Member| {
            let asked_for_left = self.shows_left || words.iter().any(|word| word == "left");
            (member.status != "left" || asked_for_left)
                && words.iter().all(|word| text_of(member).contains(word.as_str()))
        };
        let mut rows: Vec<&Member> = self.members.values().filter(is_listed).collect();
        match self.order {
            // The order of the map.
            Order::Name => {}
            Order::Worst => rows.sort_by(|a, b| worst_first(a, b)),
            Order::Newest => rows.sort_by_key(|member| Reverse(member.since)),
            Order::Silent => rows.sort_by_key(|member| Reverse(member.last_heard_ms)),
            Order::Slowest => {
                let rtt = |member: &Member| member.rtt_ms.unwrap_or(-1.0);
                rows.sort_by(|a, b| rtt(b).total_cmp(&rtt(a)));
            }
        }
        rows
    }

    /// Returns the place of the chosen member among the rows; the first one, if it is not listed.
    pub(super) fn selected_row(&self, rows: &[&Member]) -> usize {
        let chosen = self.selected.as_deref();
        chosen.and_then(|id| rows.iter().position(|member| member.id == id)).unwrap_or(0)
    }

    /// Returns the number of members in this status.
    pub(super) fn count(&self, status: &str) -> usize {
        self.members.values().filter(|member| member.status == status).count()
    }

    /// Takes a key; breaks if the screen is to end.
    pub(super) fn press(&mut self, key: KeyEvent) -> ControlFlow<()> {
        let is_control = key.modifiers.contains(KeyModifiers::CONTROL);
        if is_control && matches!(key.code, KeyCode::Char('c' | 'd')) {
            return ControlFlow::Break(());
        }
        if self.mode == Mode::Filter {
            self.type_filter(key);
            return ControlFlow::Continue(());
        }
        match (key.code, self.mode) {
            (KeyCode::Char('q'), Mode::List) => return ControlFlow::Break(()),
            (KeyCode::Char('q') | KeyCode::Esc, Mode::Detail | Mode::Events | Mode::Help)
            | (KeyCode::Enter, Mode::Detail | Mode::Help)
            | (KeyCode::Char('?' | 'h') | KeyCode::F(1), Mode::Help)
            | (KeyCode::Char('e') | KeyCode::Tab, Mode::Events) => self.mode = Mode::List,
            (KeyCode::Esc, Mode::List) => self.filter.clear(),
            (KeyCode::Char('?' | 'h') | KeyCode::F(1), _) => self.mode = Mode::Help,
            (KeyCode::Char('/'), Mode::List | Mode::Events) => self.mode = Mode::Filter,
            (KeyCode::Char('s'), Mode::List) => self.order = self.order.next(),
            (KeyCode::Char('l'), Mode::List) => self.shows_left = !self.shows_left,
            (KeyCode::Char('e') | KeyCode::Tab, _) => (self.mode, self.scrolled) = (Mode::Events, 0),
            (KeyCode::Enter, Mode::List) if !self.rows().is_empty() => {
                self.step(0);
                self.mode = Mode::Detail;
            }
            (KeyCode::Up | KeyCode::Char('k'), _) => self.step(-1),
            (KeyCode::Down | KeyCode::Char('j'), _) => self.step(1),
            (KeyCode::PageUp, _) => self.step(-PAGE),
            (KeyCode::PageDown | KeyCode::Char(' '), _) => self.step(PAGE),
            (KeyCode::Home | KeyCode::Char('g'), _) => self.step(isize::MIN),
            (KeyCode::End | KeyCode::Char('G'), _) => self.step(isize::MAX),
            _ => {}
        }
        ControlFlow::Continue(())
    }

    fn type_filter(&mut self, key: KeyEvent) {
        match key.code {
            KeyCode::Enter => self.mode = Mode::List,
            KeyCode::Esc => {
                self.filter.clear();
                self.mode = Mode::List;
            }
            KeyCode::Backspace => drop(self.filter.pop()),
            KeyCode::Char('u') if key.modifiers.contains(KeyModifiers::CONTROL) => self.filter.clear(),
            KeyCode::Char(letter) if self.filter.chars().count() < MAX_FILTER => self.filter.push(letter),
            KeyCode::Up => self.step(-1),
            KeyCode::Down => self.step(1),
            _ => {}
        }
    }

    /// Moves the selection, or the timeline if that has the screen.
    fn step(&mut self, by: isize) {
        let moved = |from: usize, rows: usize| from.saturating_add_signed(by).min(rows.saturating_sub(1));
        if self.mode == Mode::Events {
            self.scrolled = moved(self.scrolled, self.timeline.len());
            return;
        }
        let rows = self.rows();
        let to = moved(self.selected_row(&rows), rows.len());
        self.selected = rows.get(to).map(|member| member.id.clone());
    }
}

/// Notes that an agent is silent, and since when.
fn lose(silence: &mut Option<Silence>, reason: String, now: SystemTime) {
    let at = silence.as_ref().map_or(now, |silence| silence.at);
    *silence = Some(Silence { at, reason });
}

/// Returns the place of a member's record among all that there have been of it: later ones count.
fn place(member: &Member) -> (u64, Option<usize>) {
    const RANKS: [&str; 6] = ["joining", "up", "suspect", "leaving", "down", "left"];
    (member.incarnation, RANKS.iter().position(|status| *status == member.status))
}

/// Returns the text in which a member is searched, in lower case.
fn text_of(member: &Member) -> String {
    let mut text = [&*member.id, &*member.address, &*member.status, &*member.version].join(" ");
    for more in [&member.api_address, &member.method, &member.reason].into_iter().flatten() {
        text = text + " " + more;
    }
    for (key, value) in &member.tags {
        text = text + " " + key + "=" + value;
    }
    text.to_lowercase()
}
