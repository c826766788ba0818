//! Deadlines of knowledge: the times by which crashes, silences and cuts must be known to all nodes they concern.
//!
//! Such a time is promised if nothing else goes wrong meanwhile. So each operation on the world counts as an upheaval;
//! one that comes after a time of peace is *expected* to be known by its deadline, and judged then if no other upheaval
//! came since. Judgements are counted, so that a campaign can show that it made any.
//!
//! `deaths` and `cuts` have an expectation each; what is left here are two that need no deadline, of nodes that leave
//! and of leaders.
//!
//! Must not know: how nodes find out.

mod cuts;
mod deaths;

use std::time::Duration;

use self::cuts::CutWatch;
use self::deaths::Death;
use super::{Nanos, World};
use crate::invariants::Invariant;
use crate::random::nanos;
use crate::upheaval::UpheavalContext;
use headcount_core::limits::MAX_LINK_BACKOFF;
use headcount_core::{NodeId, Output, Run, StopReason};

/// Time without an upheaval after which all nodes have learnt all there is to learn.
const PEACE: Duration = Duration::from_secs(10);
/// Time after which links that broke for any reason have been tried again.
const LINKS_PEACE: Duration = Duration::from_secs(MAX_LINK_BACKOFF.as_secs() + 10);

/// Numbers of judged expectations.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Judged {
    /// Processes whose crash had to be known to all soon.
    pub crashes: usize,
    /// Crashed processes, of these, that had just joined.
    pub newborn: usize,
    /// Instants at which most nodes died.
    pub mass_crashes: usize,
    /// Hosts that lost their power.
    pub silences: usize,
    /// Cuts that both sides had to know completely.
    pub cuts: usize,
    /// Reports of cuts that had to be complete.
    pub reports: usize,
    /// Suspicions, each at one observer.
    pub suspicions: usize,
}

impl std::ops::AddAssign for Judged {
    fn add_assign(&mut self, other: Self) {
        self.crashes += other.crashes;
        self.newborn += other.newborn;
        self.mass_crashes += other.mass_crashes;
        self.silences += other.silences;
        self.cuts += other.cuts;
        self.reports += other.reports;
        self.suspicions += other.suspicions;
    }
}

#[derive(Debug, Default)]
pub(super) struct Expectations {
    upheavals: u64,
    last: Nanos,
    peace: Nanos,
    /// Time of the last upheaval that may break links; `None` if there was none.
    last_for_links: Option<Nanos>,
    links_peace: Nanos,
    deaths: Vec<Death>,
    cut: Option<CutWatch>,
    pub(super) judged: Judged,
}

/// A judgement that is due.
#[derive(Debug, Clone, Copy)]
pub(super) enum Due {
    Deaths,
    Cut { upheavals: u64 },
}

impl Expectations {
    /// Takes note of an operation on the world.
    pub(super) fn upheaval(&mut self, now: Nanos, breaks_links: bool) {
        if now != self.last || self.upheavals == 0 {
            self.upheavals += 1;
            self.peace = now - self.last;
            self.links_peace = self.last_for_links.map_or(Nanos::MAX, |last| now - last);
            self.last = now;
        }
        if breaks_links {
            self.last_for_links = Some(now);
        }
    }
}

impl World {
    /// Returns the numbers of judged expectations so far, see [`WorldOptions::timely`](super::WorldOptions::timely).
    pub fn judged(&self) -> Judged {
        self.expectations.judged
    }

    pub(super) fn upheaval(&mut self, breaks_links: bool) {
        self.expectations.upheaval(self.now, breaks_links);
    }

    /// Returns the state of the world, after an upheaval was noted.
    fn began(&self) -> UpheavalContext {
        let Self { expectations, .. } = self;
        let is_well = |node: &super::Node| {
            node.troubles == 0 && node.running().is_none_or(|process| process.undisturbed_since.is_some())
        };
        UpheavalContext {
            upheavals: expectations.upheavals,
            peace: expectations.peace,
            links_peace: expectations.links_peace,
            is_calm: self.network.is_calm() && self.tcp == super::Tcp::Open && self.nodes.iter().all(is_well),
        }
    }

    /// Returns true if all nodes that observe each other have links by now.
    pub fn are_links_up(&self) -> bool {
        let peace = self.expectations.last_for_links.map_or(Nanos::MAX, |last| self.now - last);
        self.tcp == super::Tcp::Open && peace >= nanos(LINKS_PEACE)
    }

    pub(super) fn note_due(&mut self, due: Due) {
        match due {
            Due::Deaths => self.judge_deaths(),
            Due::Cut { upheavals } => self.judge_cut(upheavals),
        }
    }

    /// Returns true if nothing was wrong with a node, or the network, since then.
    fn is_well_since(&self, node: usize, since: Nanos) -> bool {
        let is_calm = |at: Option<Nanos>| at.is_some_and(|at| at < since);
        let place = &self.nodes[node];
        let undisturbed = place.process.as_ref().and_then(|process| process.undisturbed_since);
        is_calm(self.network_calm_since) && is_calm(place.untroubled()) && is_calm(undisturbed)
    }

    /// Checks a report of a run as Down: it must not have said goodbye.
    pub(super) fn gone_missing(&mut self, node: usize, subject: usize, run: Run, id: &NodeId) {
        let Some(at) = self.goodbyes.get(&run).copied().filter(|_| self.options.timely) else { return };
        let was_well = self.nodes[subject].untroubled().is_some_and(|since| since < at);
        // A process that died before it had said goodbye did not leave.
        let has_left = !matches!(self.nodes[subject].ended, None | Some(StopReason::Removed));
        let peace = at.saturating_sub(nanos(PEACE));
        if was_well && has_left && self.is_well_since(node, peace) {
            let detail = format!("reports {id} as Down, which said goodbye at {:.1?}", Duration::from_nanos(at));
            self.report(Some(node), Invariant::LeaversHaveLeft, detail);
        }
    }

    /// Checks a report of a lost leader: a leader that loses itself must have a reason.
    pub(super) fn judge_loss(&mut self, node: usize, output: &Output) {
        let Output::LeaderLost { leader, term, reason } = output else { return };
        let place = &self.nodes[node];
        let was_asked = place.leave_asked || place.removal_asked;
        if !self.options.timely || *leader != place.id || was_asked {
            return;
        }
        let lease = self.options.lease.lease_duration;
        let since = self.now.saturating_sub(nanos(lease * 3 + PEACE));
        let well = (0..self.options.voters).filter(|voter| {
            let is_up =
                self.nodes[*voter].running().is_some_and(|process| process.up_since.is_some_and(|up| up < since));
            is_up && self.is_well_since(*voter, since)
        });
        if well.count() * 2 > self.options.voters && self.is_well_since(node, since) {
            let detail = format!("lost term {term} ({reason:?}), and nothing was wrong with it or most voters");
            self.report(Some(node), Invariant::HealthyLeaderStays, detail);
        }
    }
}
