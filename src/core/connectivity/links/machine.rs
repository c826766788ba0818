//! The links of a node as a machine: input are events of connections, deadlines, and what the core wishes; output are
//! actions, which whoever drives it carries out in order.
//!
//! ```text
//!                 due                       connected               spoke
//!   Idle ──────────────────────▶ Opening ──────────────▶ Greeting ──────────▶ Open
//!    ▲ │ accept                     │ failed                │ failed            │ lost: Opening at once
//!    │ └──▶ Open                    ▼                       ▼                   │ unlinked, silent, moved, forget
//!    └───────────────────────────(pause)◀───────────────────────────────────────┘
//! ```
//!
//! Invariants:
//! - At most one link per member. Of two that cross, the one opened by the smaller address stays; of two opened by the
//!   other end, the newer.
//! - Every connection that it asks for, or accepts, it also ends, unless it was told that the connection is over.
//! - Every state but Open, and an idle one that nothing is planned for, has a deadline.
//! - Pauses between attempts double up to a bound, and are spread.
//!
//! Must not know: views, packets, timers, randomness, what a broken link means, or what is said over one. It knows members by
//! their runs.

use std::net::SocketAddr;
use std::time::Duration;

use super::io::{Action, Failure, LinkFacts, NeighbourFacts, Parting, Pause, Wish};
use super::table::{Link, State, Table};
use crate::io::LinkId;
use crate::limits::{LINK_BACKOFF, LINK_LINGER, LINK_SETTLE, LINK_TIMEOUT};
use crate::member::Run;
use crate::time::Time;

/// All links, by the member's run.
#[derive(Debug, Clone, Default)]
pub(crate) struct Links {
    table: Table,
    /// The time at which this node became Up among others.
    up_since: Option<Time>,
}

/// Questions that others ask.
impl Links {
    /// Returns the number of entries kept.
    pub(crate) fn size(&self) -> usize {
        self.table.size()
    }

    /// Returns the open link to a member.
    pub(crate) fn open(&self, run: Run) -> Option<LinkId> {
        match self.table.state(run) {
            State::Open(link) => Some(link),
            _ => None,
        }
    }

    /// Returns true if this is the open link to a member at this address.
    pub(crate) fn leads_to(&self, run: Run, link: LinkId, address: SocketAddr) -> bool {
        self.open(run) == Some(link) && self.is_at(run, address)
    }

    /// Returns true if the link to a member leads, or led at last, to this address.
    pub(crate) fn is_at(&self, run: Run, address: SocketAddr) -> bool {
        self.table.get(run).and_then(Link::address) == Some(address)
    }

    /// Returns true if the link to a member is connected and not answered yet.
    pub(crate) fn is_greeting(&self, run: Run) -> bool {
        matches!(self.table.state(run), State::Greeting(_))
    }

    /// Returns true if no link to this member stands or is being opened.
    pub(crate) fn is_idle(&self, run: Run) -> bool {
        self.table.state(run) == State::Idle
    }

    /// Returns the number of open links.
    pub(crate) fn count(&self) -> usize {
        self.table.open()
    }

    /// Returns the time since which the link to a member stands, if it does.
    pub(crate) fn open_since(&self, run: Run) -> Option<Time> {
        self.table.get(run).and_then(Link::open_since)
    }

    /// Returns the member that a link is to.
    pub(crate) fn run_of(&self, link: LinkId) -> Option<Run> {
        self.table.run_of(link)
    }

    /// Returns all members to which there is a link, or was one and another may be planned.
    pub(crate) fn members(&self) -> Vec<Run> {
        self.table.members().collect()
    }
}

/// Plans.
impl Links {
    /// Returns the number of a connection that somebody else opens.
    pub(crate) fn next_number(&mut self) -> LinkId {
        self.table.next_number()
    }

    /// Notes that this node has become Up among others. Its neighbours are planned next.
    pub(crate) fn came_up(&mut self, now: Time) {
        self.up_since = Some(now);
    }

    /// Plans the link to a member that has become a neighbour.
    pub(crate) fn wanted(&self, now: Time, run: Run, neighbour: NeighbourFacts) -> Vec<Action> {
        if !self.is_idle(run) {
            return Vec::new();
        }
        // A member that is news to a newcomer is no newcomer itself.
        let is_newcomer = neighbour.is_news && self.up_since.is_none_or(|up| now.since(up) >= LINK_SETTLE);
        let pause = match (neighbour.is_ours, self.up_since == Some(now)) {
            (true, true) => Pause::at_first(),
            (true, false) if neighbour.is_for_good => Pause::for_good(),
            (true, false) => Pause::settling(),
            (false, _) if is_newcomer => Pause::for_newcomer(),
            (false, _) => Pause::courtesy(),
        };
        vec![Action::WaitAtMost(pause)]
    }

    /// Plans the end of the link to a member that is no neighbour any more.
    pub(crate) fn unwanted(&self, run: Run) -> Vec<Action> {
        if self.is_idle(run) { Vec::new() } else { vec![Action::WaitAtMost(Pause::Exact(LINK_LINGER))] }
    }

    /// Plans a look at a link that the other end is to end.
    pub(crate) fn lingers() -> Vec<Action> {
        vec![Action::Wait(Pause::Exact(LINK_LINGER))]
    }

    /// Takes the next step at a deadline: opens, gives up, or ends the link to a member; `None`: a member that is gone.
    pub(crate) fn due(&mut self, run: Run, facts: Option<LinkFacts>) -> Vec<Action> {
        let Some(facts) = facts else { return self.forget(run) };
        match (facts.wish, self.table.state(run)) {
            (Wish::Observed, State::Open(_)) | (Wish::Theirs, State::Open(LinkId::Accepted(_))) => Vec::new(),
            (Wish::Theirs | Wish::Nobody, _) => self.forget(run),
            (_, State::Idle) => self.dial(run, facts.address),
            (_, State::Opening(link) | State::Greeting(link)) => self.given_up(run, link),
            (Wish::Passing, State::Open(_)) => Self::lingers(),
        }
    }

    /// Opens a link now, unless one is being opened or stands.
    pub(crate) fn ensure(&mut self, run: Run, to: SocketAddr) -> Vec<Action> {
        if self.is_idle(run) { self.dial(run, to) } else { Vec::new() }
    }

    fn dial(&mut self, run: Run, to: SocketAddr) -> Vec<Action> {
        debug_assert!(self.is_idle(run), "{run} has a link");
        if self.table.is_full() {
            let failures = self.table.keep(run).failures();
            return vec![Action::Full, Action::Wait(Pause::after_failures(failures))];
        }
        let link = self.table.next_number();
        self.table.set(run, State::Opening(link));
        self.table.leads_to(run, to);
        vec![Action::Wait(Pause::Exact(LINK_TIMEOUT)), Action::Open(link, to)]
    }

    /// Notes that an attempt failed: the next one comes later.
    fn failed(&mut self, run: Run, how: Failure) -> Vec<Action> {
        let failures = self.table.failed(run);
        vec![Action::Wait(Pause::after_failures(failures)), Action::Failed { how, is_first: failures == 1 }]
    }

    /// Ends an attempt that takes too long, or whose frames make no sense.
    fn given_up(&mut self, run: Run, link: LinkId) -> Vec<Action> {
        let mut actions = vec![Action::Close(link)];
        actions.append(&mut self.failed(run, Failure::ProvesNothing));
        actions
    }
}

/// Events of connections.
impl Links {
    /// Takes note that a connection that this node asked for stands.
    pub(crate) fn connected(&mut self, run: Run, link: LinkId) -> Vec<Action> {
        if self.table.state(run) != State::Opening(link) {
            return Vec::new();
        }
        self.table.set(run, State::Greeting(link));
        vec![Action::Greet(link)]
    }

    /// Takes note that nobody listens at the port.
    pub(crate) fn refused(&mut self, run: Run) -> Vec<Action> {
        self.failed(run, Failure::Refused)
    }

    /// Takes note that nobody answered.
    pub(crate) fn unreachable(&mut self, run: Run) -> Vec<Action> {
        self.failed(run, Failure::ProvesNothing)
    }

    /// Takes note that the other end, or something between, closed a link. One in use is opened again at once, unless
    /// that was tried a moment ago.
    pub(crate) fn closed(&mut self, now: Time, run: Run, facts: Option<LinkFacts>) -> Vec<Action> {
        if self.open(run).is_none() {
            return self.failed(run, Failure::ClosedUnanswered);
        }
        self.table.set(run, State::Idle);
        let mut actions = vec![Action::Broke];
        let was_reopened = self.table.get(run).and_then(Link::reopened);
        actions.append(&mut match facts.filter(|facts| facts.wish.is_ours()) {
            None => self.forget(run),
            Some(_) if was_reopened.is_some_and(|reopened| now.since(reopened) < LINK_BACKOFF) => {
                self.failed(run, Failure::LostAgain)
            }
            Some(facts) => {
                self.table.reopens(now, run);
                // There is room: that of the lost one.
                let mut steps = self.dial(run, facts.address);
                steps.push(Action::Reopening);
                steps
            }
        });
        actions
    }

    /// Takes note that a frame came that the member may say.
    pub(crate) fn heard(&mut self, now: Time, run: Run) {
        self.table.heard(now, run);
    }

    /// Takes a link into use once its greeting is answered.
    pub(crate) fn spoke(&mut self, now: Time, run: Run, wish: Wish) -> Vec<Action> {
        match self.table.state(run) {
            State::Greeting(link) => self.opened(now, run, link, wish),
            _ => Vec::new(),
        }
    }

    /// Accepts a link that a member opened and proved: of two that cross, one stays.
    pub(crate) fn accept(&mut self, now: Time, run: Run, link: LinkId, facts: LinkFacts) -> Vec<Action> {
        let mut actions = Vec::new();
        match self.table.state(run) {
            State::Greeting(LinkId::Opened(_)) | State::Open(LinkId::Opened(_)) if facts.is_ours => {
                return vec![Action::Part(link, Parting::Over)];
            }
            State::Idle if self.table.is_full() => {
                return vec![Action::Full, Action::Part(link, Parting::Over)];
            }
            State::Idle => {}
            State::Opening(old) => actions.push(Action::Close(old)),
            State::Greeting(old) | State::Open(old) => actions.push(Action::Part(old, Parting::Over)),
        }
        self.table.leads_to(run, facts.address);
        actions.append(&mut self.opened(now, run, link, facts.wish));
        actions.push(Action::Welcome(link));
        actions
    }

    fn opened(&mut self, now: Time, run: Run, link: LinkId, wish: Wish) -> Vec<Action> {
        self.table.opened(now, run, link);
        let next = if wish == Wish::Observed { Action::Rest } else { Action::Wait(Pause::Exact(LINK_LINGER)) };
        vec![next, Action::Opened]
    }

    /// Takes the goodbye of the other end, after what came with it.
    pub(crate) fn unlinked(&mut self, run: Run, link: LinkId) -> Vec<Action> {
        let mut actions = Vec::new();
        if self.run_of(link) == Some(run) {
            self.table.set(run, State::Idle);
            actions.append(&mut Self::lingers());
        }
        actions.push(Action::Close(link));
        actions
    }

    /// Ends a link whose frame makes no sense.
    pub(crate) fn garbled(&mut self, run: Run, link: LinkId) -> Vec<Action> {
        if self.run_of(link) == Some(run) { self.given_up(run, link) } else { vec![Action::Close(link)] }
    }

    /// Ends a link at whose other end is another process, or none that may speak here.
    pub(crate) fn denied(&mut self, run: Run, link: LinkId) -> Vec<Action> {
        let mut actions = self.failed(run, Failure::ProvesNothing);
        actions.push(Action::Close(link));
        actions
    }
}

/// Ends on purpose.
impl Links {
    /// Ends the link to a member, if there is one, and forgets it.
    pub(crate) fn forget(&mut self, run: Run) -> Vec<Action> {
        let parting = self.table.remove(run).map(|link| Action::Part(link, Parting::Over));
        [Action::Rest].into_iter().chain(parting).chain([Action::Gone]).collect()
    }

    /// Ends a link that leads to where the member, or this node, is no more, and plans the next one soon, if one is wanted:
    /// `is_urgent` if something waits for it. Attempts that failed at the old address do not count.
    pub(crate) fn moved(&mut self, run: Run, why: Parting, facts: LinkFacts, is_urgent: bool) -> Vec<Action> {
        let parting = self.table.remove(run).map(|link| Action::Part(link, why));
        let pause = match facts.is_ours {
            _ if is_urgent => Pause::none(),
            true => Pause::at_first(),
            false => Pause::for_newcomer(),
        };
        let next = facts.wish.is_ours().then_some(Action::Wait(pause));
        [Action::Rest].into_iter().chain(parting).chain([Action::Moved]).chain(next).collect()
    }

    /// Ends a link by which nothing has come for so long, although something was asked at `since`, and opens another one:
    /// a firewall, or a router that forgot it, may have cut it in silence.
    pub(crate) fn silent(
        &mut self,
        now: Time,
        run: Run,
        to: SocketAddr,
        since: Time,
        patience: Duration,
    ) -> Vec<Action> {
        let heard = self.table.get(run).and_then(Link::heard).map_or(since, |heard| heard.max(since));
        let Some(link) = self.open(run).filter(|_| now.since(heard) >= patience) else { return Vec::new() };
        self.table.set(run, State::Idle);
        let mut actions = vec![Action::Part(link, Parting::Over), Action::Silent];
        actions.append(&mut self.dial(run, to));
        actions
    }
}
