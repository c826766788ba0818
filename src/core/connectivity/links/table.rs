//! The table of links: the one to each member and its state.
//!
//! Invariant: a link that is opened, greeted or in use is found by its number, and by the run of its member.
//!
//! Must not know: when a link is wanted.

use std::collections::BTreeMap;
use std::net::SocketAddr;

use crate::core::doors::LinkId;
use crate::core::member::Run;
use crate::core::time::Time;

/// All links, by the member's run.
#[derive(Debug, Default)]
pub(in crate::core) struct Links {
    pub(super) of: BTreeMap<Run, Link>,
    pub(super) runs: BTreeMap<LinkId, Run>,
    /// Connections that only find out whether anybody listens at a joiner's address.
    pub(super) visits: BTreeMap<LinkId, Run>,
    /// The time at which this node became Up.
    pub(super) up_since: Option<Time>,
    last: u64,
}

#[derive(Debug, Default)]
pub(super) struct Link {
    pub(super) state: State,
    /// The time at which the link last came into use.
    pub(super) opened: Option<Time>,
    /// Attempts that failed in a row.
    pub(super) failures: u32,
    /// Times that an attempt was put off because the member's address was not proven.
    pub(super) unproven: u8,
    /// The time at which a lost link was last opened again at once.
    pub(super) reopened: Option<Time>,
    /// The address that the link leads to: opened to it, or accepted and proven by what was sent there.
    pub(super) home: Option<SocketAddr>,
    /// The time at which the last frame came over a link to this member.
    pub(super) heard: Option<Time>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) enum State {
    /// No link; a timer may be set to open one.
    #[default]
    Idle,
    /// The link was asked for.
    Opening(LinkId),
    /// The link is connected, and not yet answered by the process we mean.
    Greeting(LinkId),
    /// The link is in use.
    Open(LinkId),
}

impl State {
    pub(super) fn link(self) -> Option<LinkId> {
        match self {
            State::Idle => None,
            State::Opening(link) | State::Greeting(link) | State::Open(link) => Some(link),
        }
    }
}

impl Links {
    /// Returns the number of entries kept.
    pub(in crate::core) fn size(&self) -> usize {
        self.of.len() + self.runs.len()
    }

    /// Returns the open link to a member.
    pub(super) fn open(&self, run: Run) -> Option<LinkId> {
        match self.of.get(&run)?.state {
            State::Open(link) => Some(link),
            _ => None,
        }
    }

    /// Returns true if this is the open link to a member at this address.
    pub(in crate::core) fn leads_to(&self, run: Run, link: LinkId, home: SocketAddr) -> bool {
        self.of.get(&run).is_some_and(|held| held.state == State::Open(link) && held.home == Some(home))
    }

    /// Returns the link to a member that is connected and not answered yet.
    pub(in crate::core::connectivity) fn greeting(&self, run: Run) -> Option<LinkId> {
        match self.of.get(&run)?.state {
            State::Greeting(link) => Some(link),
            _ => None,
        }
    }

    /// Returns true if no link to this member stands or is being opened.
    pub(in crate::core::connectivity) fn is_idle(&self, run: Run) -> bool {
        self.of.get(&run).is_none_or(|link| link.state == State::Idle)
    }

    /// Returns the time at which the last frame came over a link to a member.
    pub(super) fn heard_at(&self, run: Run) -> Option<Time> {
        self.of.get(&run).and_then(|link| link.heard)
    }

    pub(super) fn heard(&mut self, run: Run, now: Time) {
        if let Some(link) = self.of.get_mut(&run) {
            link.heard = Some(now);
        }
    }

    pub(super) fn set_home(&mut self, run: Run, home: SocketAddr) {
        self.of.entry(run).or_default().home = Some(home);
    }

    /// Returns the number of open links.
    pub(in crate::core::connectivity) fn count(&self) -> usize {
        self.of.values().filter(|link| matches!(link.state, State::Open(_))).count()
    }

    /// Returns the time since which the link to a member stands, if it does.
    pub(in crate::core::connectivity) fn open_since(&self, run: Run) -> Option<Time> {
        let link = self.of.get(&run)?;
        matches!(link.state, State::Open(_)).then_some(link.opened).flatten()
    }

    /// Returns the number of connections that stand or were asked for, visits included.
    pub(super) fn in_use(&self) -> usize {
        self.runs.len() + self.visits.len()
    }

    pub(super) fn next_id(&mut self) -> LinkId {
        self.last += 1;
        LinkId::Opened(self.last)
    }

    pub(super) fn set(&mut self, run: Run, state: State) {
        let link = self.of.entry(run).or_default();
        if let Some(before) = link.state.link() {
            self.runs.remove(&before);
        }
        link.state = state;
        if let Some(link) = state.link() {
            self.runs.insert(link, run);
        }
    }
}
