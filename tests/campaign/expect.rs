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

use std::collections::BTreeMap;
use std::time::Duration;

use headcount_core::{NodeId, Output, Run, StopReason};
use headcount_sim::network::Nanos;
use headcount_sim::watch::Upheaval;
use headcount_sim::{World, nanos};

use self::cuts::CutWatch;
use self::deaths::{Death, Doom};
use crate::checks::Checks;
use crate::invariants::Invariant;

/// Time without an upheaval after which all nodes have learnt all there is to learn.
const PEACE: Duration = Duration::from_secs(10);

/// Numbers of judged expectations.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Judged {
    /// Processes whose crash had to be known to all soon.
    pub crashes: usize,
    /// Crashed processes, of these, that had just joined.
    pub recent: usize,
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
        self.recent += other.recent;
        self.mass_crashes += other.mass_crashes;
        self.silences += other.silences;
        self.cuts += other.cuts;
        self.reports += other.reports;
        self.suspicions += other.suspicions;
    }
}

#[derive(Debug, Default)]
pub(crate) struct Expectations {
    upheavals: u64,
    last: Nanos,
    peace: Nanos,
    /// Time of the last upheaval that may break links; `None` if there was none.
    last_for_links: Option<Nanos>,
    links_peace: Nanos,
    deaths: Vec<Death>,
    /// Nodes whose processes are to die soon after they became Up.
    dooms: BTreeMap<usize, Doom>,
    cut: Option<CutWatch>,
    pub(crate) judged: Judged,
}

/// The state of the world at the time of an upheaval, by which it is decided later what was promised.
#[derive(Debug, Clone, Copy)]
struct Began {
    /// Number of upheavals, this one included.
    upheavals: u64,
    /// Time without any upheaval before this one.
    peace: Nanos,
    /// Time without any upheaval that may break links.
    links_peace: Nanos,
    /// True if neither the network nor any process was disturbed.
    is_calm: bool,
}

impl Expectations {
    fn upheaval(&mut self, now: Nanos, breaks_links: bool) {
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

    /// Returns the state of the world, after an upheaval was noted.
    fn began(&self, world: &World) -> Began {
        let is_well = |node: usize| {
            let is_running = world.core(node).is_some();
            world.untroubled_since(node).is_some() && (!is_running || world.undisturbed_since(node).is_some())
        };
        let Self { upheavals, peace, links_peace, .. } = *self;
        let is_calm = world.is_network_calm() && (0..world.nodes()).all(is_well);
        Began { upheavals, peace, links_peace, is_calm }
    }
}

impl Checks {
    /// Takes note of what is about to be done to the world. Returns the time after which a judgement is due.
    pub(crate) fn undergo(&mut self, world: &World, upheaval: Upheaval<'_>) -> Option<Duration> {
        if let Upheaval::Perish { node } = upheaval {
            self.expect_recent(world, node);
            return None;
        }
        let breaks_links = matches!(upheaval, Upheaval::Cut { .. } | Upheaval::Other { breaks_links: true });
        self.expectations.upheaval(nanos(world.now()), breaks_links);
        match upheaval {
            Upheaval::Death { node, is_silent } => self.expect_death(world, node, is_silent),
            Upheaval::Cut { side, lasting } => self.expect_partition(world, side, lasting),
            Upheaval::Doom { node } => {
                self.doom(world, node);
                None
            }
            Upheaval::Perish { .. } | Upheaval::Other { .. } => None,
        }
    }

    /// Returns true if nothing was wrong with a node, or the network, since then.
    fn is_well_since(world: &World, node: usize, since: Nanos) -> bool {
        let is_calm = |at: Option<Nanos>| at.is_some_and(|at| at < since);
        is_calm(world.network_calm_since())
            && is_calm(world.untroubled_since(node))
            && is_calm(world.undisturbed_since(node))
    }

    /// Checks a report of a run as Down: it must not have said goodbye.
    pub(crate) fn gone_missing(&mut self, world: &World, node: usize, subject: usize, run: Run, id: &NodeId) {
        let Some(at) = self.goodbyes.get(&run).copied().filter(|_| self.is_timely) else { return };
        let was_well = world.untroubled_since(subject).is_some_and(|since| since < at);
        // A process that died before it had said goodbye did not leave.
        let has_left = !matches!(world.ended(subject), None | Some(StopReason::Removed));
        let peace = at.saturating_sub(nanos(PEACE));
        if was_well && has_left && Self::is_well_since(world, node, peace) {
            let detail = format!("reports {id} as Down, which said goodbye at {:.1?}", Duration::from_nanos(at));
            self.report(world, Some(node), Invariant::LeaversHaveLeft, detail);
        }
    }

    /// Checks a report of a lost leader: a leader that loses itself must have a reason.
    pub(crate) fn judge_loss(&mut self, world: &World, node: usize, output: &Output) {
        let Output::LeaderLost { leader, term, reason } = output else { return };
        let place = self.place(node);
        let was_asked = place.leave_asked || place.removal_asked;
        if !self.is_timely || leader != world.id(node) || was_asked {
            return;
        }
        let (voters, lease) = (world.options().voters, world.options().lease.lease_duration);
        let since = nanos(world.now()).saturating_sub(nanos(lease * 3 + PEACE));
        let well = (0..voters).filter(|voter| {
            let is_up = world.core(*voter).is_some() && world.up_since(*voter).is_some_and(|up| up < since);
            is_up && Self::is_well_since(world, *voter, since)
        });
        if well.count() * 2 > voters && Self::is_well_since(world, node, since) {
            let detail = format!("lost term {term} ({reason:?}), and nothing was wrong with it or most voters");
            self.report(world, Some(node), Invariant::HealthyLeaderStays, detail);
        }
    }
}
