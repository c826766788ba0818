//! The table of links: the one to each member and its state, and the numbers of them all.
//!
//! Invariants, asserted after every change:
//! - A link that is opened, greeted or in use is found by its number, and by the run of its member; no other link is.
//! - A state is followed only by those that [`State::may_become`] names.
//! - At most [`MAX_LINKS`] stand or were asked for.
//!
//! Must not know: when a link is wanted.

use std::collections::BTreeMap;
use std::net::SocketAddr;

use crate::io::LinkId;
use crate::limits::MAX_LINKS;
use crate::member::Run;
use crate::time::Time;

/// Links by the member's run, and the runs by number.
#[derive(Debug, Clone, Default)]
pub(super) struct Table {
    links: BTreeMap<Run, Link>,
    runs: BTreeMap<LinkId, Run>,
    last: u64,
}

/// The state of the link to a member, and the history of attempts; there may be no connection now.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Link {
    state: State,
    /// The time at which the link last came into use.
    opened: Option<Time>,
    /// Attempts that failed in a row.
    failures: u32,
    /// The time at which a lost link was last opened again at once.
    reopened: Option<Time>,
    /// The address that the link leads to: opened to it, or accepted and proven by what was sent there.
    address: Option<SocketAddr>,
    /// The time at which the last frame came over a link to this member.
    heard: Option<Time>,
}

/// The stages of a link.
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
    /// Returns the connection, if there is one.
    pub(super) fn link(self) -> Option<LinkId> {
        match self {
            State::Idle => None,
            State::Opening(link) | State::Greeting(link) | State::Open(link) => Some(link),
        }
    }

    /// Returns true if this state may be followed by another one: an own attempt goes step by step, any link may end, and
    /// one that the member opened takes the place of any other.
    fn may_become(self, next: State) -> bool {
        match (self, next) {
            (_, State::Idle) => true,
            (State::Idle, State::Opening(link)) => matches!(link, LinkId::Opened(_)),
            (State::Opening(before), State::Greeting(link)) => link == before,
            (State::Greeting(before), State::Open(link)) if link == before => true,
            (before, State::Open(link)) => matches!(link, LinkId::Accepted(_)) && before.link() != Some(link),
            _ => false,
        }
    }
}

impl Link {
    pub(super) fn failures(&self) -> u32 {
        self.failures
    }

    /// Returns the address that the link leads to, or last led to.
    pub(super) fn address(&self) -> Option<SocketAddr> {
        self.address
    }

    /// Returns the time at which the last frame came.
    pub(super) fn heard(&self) -> Option<Time> {
        self.heard
    }

    /// Returns the time since which the link stands, if it does.
    pub(super) fn open_since(&self) -> Option<Time> {
        matches!(self.state, State::Open(_)).then_some(self.opened).flatten()
    }

    /// Returns the time at which a lost link was last opened again at once.
    pub(super) fn reopened(&self) -> Option<Time> {
        self.reopened
    }
}

/// Looking.
impl Table {
    /// Returns what is kept of the link to a member.
    pub(super) fn get(&self, run: Run) -> Option<&Link> {
        self.links.get(&run)
    }

    pub(super) fn state(&self, run: Run) -> State {
        self.links.get(&run).map(|link| link.state).unwrap_or_default()
    }

    /// Returns the member that a link is to.
    pub(super) fn run_of(&self, link: LinkId) -> Option<Run> {
        self.runs.get(&link).copied()
    }

    /// Returns all members of which a link is kept, or was.
    pub(super) fn members(&self) -> impl Iterator<Item = Run> {
        self.links.keys().copied()
    }

    /// Returns the number of entries kept.
    pub(super) fn size(&self) -> usize {
        self.links.len() + self.runs.len()
    }

    /// Returns the number of links in use.
    pub(super) fn open(&self) -> usize {
        self.links.values().filter(|link| matches!(link.state, State::Open(_))).count()
    }

    /// Returns true if no other connection may be asked for.
    pub(super) fn is_full(&self) -> bool {
        self.runs.len() >= MAX_LINKS
    }
}

/// Changing.
impl Table {
    /// Returns a number that no connection had before.
    pub(super) fn next_number(&mut self) -> LinkId {
        self.last += 1;
        LinkId::Opened(self.last)
    }

    /// Keeps something about the link to a member from now on, even if there is none yet.
    pub(super) fn keep(&mut self, run: Run) -> &Link {
        self.links.entry(run).or_default()
    }

    /// Takes the link to a member to its next state.
    pub(super) fn set(&mut self, run: Run, next: State) {
        let link = self.links.entry(run).or_default();
        debug_assert!(link.state.may_become(next), "{run}: {:?} is not followed by {next:?}", link.state);
        if let Some(before) = link.state.link() {
            self.runs.remove(&before);
        }
        link.state = next;
        if let Some(link) = next.link() {
            self.runs.insert(link, run);
        }
        self.check();
    }

    /// Notes that a link is in use since now: what failed before is forgiven.
    pub(super) fn opened(&mut self, now: Time, run: Run, link: LinkId) {
        self.set(run, State::Open(link));
        let kept = self.links.entry(run).or_default();
        kept.failures = 0;
        kept.opened = Some(now);
    }

    /// Notes where a link leads to.
    pub(super) fn leads_to(&mut self, run: Run, address: SocketAddr) {
        self.links.entry(run).or_default().address = Some(address);
    }

    /// Notes that a frame came.
    pub(super) fn heard(&mut self, now: Time, run: Run) {
        if let Some(link) = self.links.get_mut(&run) {
            link.heard = Some(now);
        }
    }

    /// Notes that one more attempt failed; returns how many have in a row.
    pub(super) fn failed(&mut self, run: Run) -> u32 {
        self.set(run, State::Idle);
        let link = self.links.entry(run).or_default();
        link.failures = link.failures.saturating_add(1);
        link.failures
    }

    /// Notes that a lost link is opened again at once.
    pub(super) fn reopens(&mut self, now: Time, run: Run) {
        self.links.entry(run).or_default().reopened = Some(now);
    }

    /// Forgets the link to a member; returns the connection, if there is one.
    pub(super) fn remove(&mut self, run: Run) -> Option<LinkId> {
        let link = self.links.remove(&run)?.state.link();
        if let Some(link) = link {
            self.runs.remove(&link);
        }
        self.check();
        link
    }

    /// Asserts the invariants in debug builds.
    fn check(&self) {
        if cfg!(debug_assertions) {
            let held = self.links.iter().filter_map(|(run, link)| Some((link.state.link()?, *run)));
            let mut number = 0;
            for (link, run) in held {
                number += 1;
                assert_eq!(self.runs.get(&link), Some(&run), "a link is found by its number");
            }
            assert_eq!(number, self.runs.len(), "no other link is found by a number");
            assert!(self.runs.len() <= MAX_LINKS, "{} connections", self.runs.len());
        }
    }
}
