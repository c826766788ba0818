//! Elections in the world: the birth of voters, the end of led work, the leader by its own clock, and the ability of
//! the running voters to elect one.
//!
//! Must not know: how an election is won.

use std::collections::BTreeSet;
use std::time::Duration;

use super::{Event, Nanos, World};
use crate::node::Process;
use crate::random::nanos;
use headcount_core::election::{Ballot, Electorate, Identity, LeaderPolicy, LossReason, Term};
use headcount_core::{Core, Input, NodeId, Output, QuorumInit};

/// News of a leader.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LeaderNews {
    /// The leader leads from now on.
    Elected,
    /// The leader leads no more.
    Lost(LossReason),
}

/// One event about a leader, as one node reported it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ElectionSighting {
    /// True time of the event.
    pub at: Nanos,
    /// The node that reports.
    pub observer: usize,
    /// Name of the leader.
    pub leader: NodeId,
    /// Term of the leader.
    pub term: Term,
    /// The news.
    pub news: LeaderNews,
}

impl World {
    /// Returns the events about leaders since [`World::watch`].
    pub fn elections_seen(&self) -> &[ElectionSighting] {
        self.elections_seen.as_deref().unwrap_or_default()
    }

    pub(super) fn elections_saw(&mut self, observer: usize, output: Output) {
        let Some(seen) = &mut self.elections_seen else { return };
        let (leader, term, news) = match output {
            Output::LeaderElected { leader, term } => (leader, term, LeaderNews::Elected),
            Output::LeaderLost { leader, term, reason } => (leader, term, LeaderNews::Lost(reason)),
            _ => return,
        };
        seen.push(ElectionSighting { at: self.now, observer, leader, term, news });
    }

    /// Returns the leadership part of a birth; `None` without voters. The ballot is the one on disk, or a blank one
    /// with a fresh identity.
    pub(super) fn quorum_birth(&mut self, node: usize) -> Option<QuorumInit> {
        if self.options.voters == 0 {
            return None;
        }
        let stored = self.nodes[node].disk.stored().and_then(|stored| stored.ballot.clone());
        let ballot = stored.unwrap_or_else(|| Ballot::blank(Identity(self.elections.bits())));
        let voters = self.options.voters_of(node).map(name_of).collect();
        let (timing, policy) = (self.options.lease, LeaderPolicy::default());
        Some(QuorumInit { timing, policy, voters, ballot, floor: Term(0), wall_clock: self.wall_clock(node) })
    }

    /// Draws a clock error, in parts per million, mostly as large as is allowed, because that is where promises break.
    pub(super) fn voter_clock_error(&mut self) -> i64 {
        let most = self.options.voter_clock_error_ppm;
        match self.elections.below(3) {
            0 => most.cast_signed(),
            1 => -most.cast_signed(),
            _ => self.elections.between(0, 2 * most).cast_signed() - most.cast_signed(),
        }
    }

    /// Begins the end of led work, which takes a while.
    pub(super) fn begin_to_end_work(&mut self, node: usize, term: Term) {
        let hangs = self.elections.chance(self.options.hanging_work);
        let most = if hangs { self.options.lease.lease_duration * 3 / 2 } else { self.options.led_work };
        let after = self.elections.duration(Duration::ZERO, most);
        if let Some(process) = self.nodes[node].process.as_ref() {
            let event = Event::WorkEnded { node, process: process.number, term };
            self.push_after(after, event);
        }
    }

    pub(super) fn end_work(&mut self, node: usize, term: Term) {
        self.step(node, Input::WorkEnded { term });
    }

    /// Fills a node's disk for a while: writes fail.
    pub fn fill_disk(&mut self, node: usize, lasting: Duration) {
        self.nodes[node].disk_full_until = self.now.saturating_add(nanos(lasting));
    }

    /// Frees every disk.
    pub(super) fn free_disks(&mut self) {
        for node in &mut self.nodes {
            node.disk_full_until = 0;
        }
    }

    /// Returns true if a node would say itself that it leads if it were asked now.
    pub fn is_leading(&self, node: usize) -> bool {
        self.nodes[node].running().is_some_and(|process| {
            let (told, now) = (process.core.leadership(), process.clock.local(self.now));
            told.is_me && told.valid_until.is_some_and(|until| until > now)
        })
    }

    /// Returns the leader.
    pub fn leader(&self) -> Option<usize> {
        (0..self.nodes.len()).find(|node| self.is_leading(*node))
    }

    /// Returns the time for which a node would still show the leader that it knows, if it heard no more of it; `None`
    /// if it knows none.
    pub fn leader_shown_for(&self, node: usize) -> Option<Duration> {
        let process = self.nodes[node].running()?;
        let (told, now) = (process.core.leadership(), process.clock.local(self.now));
        told.valid_until.filter(|_| told.leader.is_some()).map(|until| until.since(now))
    }

    fn running(&self) -> impl Iterator<Item = &Process> {
        self.nodes.iter().filter_map(|node| node.running())
    }

    /// Returns true if a leader can be elected: enough voters run, with their disks, for a majority of the newest
    /// electorate that any of them has accepted, and of the one before if that changed it.
    pub fn can_elect(&self) -> bool {
        let is_up = |process: &&Process| process.core.is_up() && !process.paused;
        let ballots = || {
            let elections = self.running().filter(is_up).filter_map(|process| process.core.election());
            elections.map(headcount_core::election::Election::ballot)
        };
        let Some(newest) = ballots().filter_map(|ballot| ballot.accepted.as_ref()).max_by_key(|view| view.reference())
        else {
            return self.voters_are_whole();
        };
        let there: BTreeSet<Identity> = ballots().map(|ballot| ballot.identity).collect();
        let carries = |electorate: &Electorate| electorate.has_majority(|identity| there.contains(&identity));
        carries(&newest.electorate) && newest.former_electorate().is_none_or(|former| carries(&former))
    }

    /// Returns true if all voters are Up, which takes the place of a majority as long as no electorate has been formed.
    fn voters_are_whole(&self) -> bool {
        (0..self.options.voters).all(|voter| self.core(voter).is_some_and(Core::is_up))
    }

    /// Describes why not all members name one leader who leads; `None` if they do.
    pub fn leadership_divergence(&self) -> Option<String> {
        let Some(leader) = self.leader() else { return Some("nobody leads".to_owned()) };
        let told = self.nodes[leader].running()?.core.leadership();
        self.running().filter(|process| process.core.is_up()).find_map(|process| {
            let other = process.core.leadership();
            let is_same = other.leader == told.leader && other.term == told.term;
            (!is_same).then(|| {
                let who = &process.core.me().id;
                format!(
                    "{who} says {:?} {} {:?}, not {:?} {}",
                    other.state, other.term, other.leader, told.leader, told.term
                )
            })
        })
    }
}

/// Returns the name of the node with this number.
pub(super) fn name_of(node: usize) -> NodeId {
    NodeId::new(&format!("n{node:05}")).expect("letters and digits")
}
