//! Deaths that must be known to all in time: of a process, at once; of a host, by the down timeout.
//!
//! Must not know: cuts.

use std::time::Duration;

use headcount_core::{NodeId, Run};
use headcount_sim::network::Nanos;
use headcount_sim::{World, nanos};

use super::{Began, Expectations, PEACE};
use crate::checks::Checks;
use crate::invariants::Invariant;

/// "A crash is known within a second".
const CRASH_KNOWN: Duration = Duration::from_secs(1);
/// "Two seconds when most die at once".
const MASS_CRASH_KNOWN: Duration = Duration::from_secs(2);
/// Tolerance beyond the down timeout for a silence: the last packet may have been sent late, and the news travels.
const SILENCE_TOLERANCE: Duration = Duration::from_secs(1);
/// Share of a timeout, as a divisor, that is added for clocks that are slow by one percent at both ends.
const CLOCK_SHARE: u32 = 50;

#[derive(Debug, Clone)]
pub(super) struct Death {
    node: usize,
    run: Run,
    at: Nanos,
    due: Nanos,
    upheavals: u64,
    kind: DeathKind,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum DeathKind {
    Crash,
    RecentMember,
    Silence,
}

/// A process that is to die soon after it became Up.
#[derive(Debug, Clone, Copy)]
pub(super) struct Doom {
    /// The state of the world when it was started.
    began: Began,
    /// True from the moment at which it is about to die, if that is to be known in time.
    is_promised: bool,
}

impl Checks {
    /// Returns the time within which a silence of this node must be known.
    pub(super) fn silence_bound(world: &World, node: usize) -> Duration {
        let down_timeout = world.settings(node).down_timeout;
        down_timeout + down_timeout / CLOCK_SHARE + SILENCE_TOLERANCE
    }

    /// Expects the death of a process, by a crash or with its host, to be known in time. Returns the time after which that is
    /// judged.
    pub(super) fn expect_death(&mut self, world: &World, node: usize, is_silent: bool) -> Option<Duration> {
        let core = world.last_core(node).filter(|core| self.is_timely && core.is_up())?;
        let (run, began) = (core.me().run, self.expectations.began(world));
        let links_peace = nanos(World::LINKS_PEACE);
        let is_promised =
            began.is_calm && began.peace >= nanos(PEACE) && (is_silent || began.links_peace >= links_peace);
        let kind = if is_silent { DeathKind::Silence } else { DeathKind::Crash };
        let bound = if is_silent { Self::silence_bound(world, node) } else { CRASH_KNOWN };
        let expected = is_promised.then(|| self.add_death(world, node, run, kind, bound));
        let recent = self.expectations.dooms.remove(&node).filter(|doom| doom.is_promised);
        expected.or(recent.map(|_| self.add_death(world, node, run, DeathKind::RecentMember, CRASH_KNOWN)))
    }

    fn add_death(&mut self, world: &World, node: usize, run: Run, kind: DeathKind, bound: Duration) -> Duration {
        let at = nanos(world.now());
        let (due, upheavals) = (at + nanos(bound), self.expectations.upheavals);
        self.expectations.deaths.push(Death { node, run, at, due, upheavals, kind });
        bound
    }

    /// Takes note that the process of a node to come is to die soon after it became Up.
    pub(super) fn doom(&mut self, world: &World, node: usize) {
        let began = self.expectations.began(world);
        self.expectations.dooms.insert(node, Doom { began, is_promised: false });
    }

    /// Expects the death of a process that has just become Up to be known in time, if all is as it was when it was started.
    pub(super) fn expect_recent(&mut self, world: &World, node: usize) {
        let Expectations { dooms, upheavals, .. } = &mut self.expectations;
        let Some(doom) = dooms.get_mut(&node).filter(|_| world.core(node).is_some()) else { return };
        let Began { peace, links_peace, is_calm, .. } = doom.began;
        let is_peace = peace >= nanos(PEACE) && links_peace >= nanos(World::LINKS_PEACE);
        doom.is_promised = self.is_timely && *upheavals == doom.began.upheavals && is_calm && is_peace;
    }

    /// Judges the deaths that are due. Returns the time after which others are.
    pub(crate) fn judge_deaths(&mut self, world: &World) -> Option<Duration> {
        let now = nanos(world.now());
        let mut deaths = std::mem::take(&mut self.expectations.deaths);
        deaths.retain(|death| death.upheavals == self.expectations.upheavals);
        let (due, later): (Vec<Death>, Vec<Death>) = deaths.into_iter().partition(|death| death.due <= now);
        self.expectations.deaths = later;
        let at = due.first().map(|death| death.at)?;
        let left = (0..world.nodes()).filter(|node| world.core(*node).is_some()).count();
        let fast = due.iter().filter(|death| death.kind != DeathKind::Silence).count();
        if fast > left && now < at + nanos(MASS_CRASH_KNOWN) {
            let later = due.into_iter().map(|death| Death { due: at + nanos(MASS_CRASH_KNOWN), ..death });
            self.expectations.deaths.extend(later);
            return Some(Duration::from_nanos(at + nanos(MASS_CRASH_KNOWN) - now));
        }
        self.expectations.judged.mass_crashes += usize::from(fast > left);
        for death in due {
            let judged = &mut self.expectations.judged;
            match death.kind {
                DeathKind::Silence => judged.silences += 1,
                DeathKind::RecentMember => (judged.recent, judged.crashes) = (judged.recent + 1, judged.crashes + 1),
                DeathKind::Crash => judged.crashes += 1,
            }
            let late = who_lists(world, death.run, world.id(death.node), death.at);
            if !late.is_empty() {
                let after = Duration::from_nanos(now - death.at);
                let Death { node, kind, .. } = death;
                let detail =
                    format!("{after:.1?} after the end ({kind:?}) of {} it is listed by {late:?}", world.id(node));
                self.report(world, Some(node), Invariant::DeathIsKnown, detail);
            }
        }
        None
    }
}

/// Returns the names of the nodes that have been Up since before then and list this run as live.
fn who_lists(world: &World, run: Run, id: &NodeId, since: Nanos) -> Vec<String> {
    let lists = |node: usize| {
        let held = world.core(node)?.record(id).filter(|held| held.run == run && held.status.is_live())?;
        let is_settled = world.up_since(node).is_some_and(|up| up < since);
        is_settled.then(|| format!("{} as {}", world.id(node), held.status))
    };
    (0..world.nodes()).filter_map(lists).collect()
}
