//! Deaths that must be known to all in time: of a process, at once; of a host, by the down timeout.
//!
//! Must not know: cuts.

use std::time::Duration;

use super::{Due, LINKS_PEACE, PEACE};
use crate::invariants::Invariant;
use crate::network::Nanos;
use crate::node::PlannedDeath;
use crate::random::nanos;
use crate::world::{Event, World};
use headcount_core::{NodeId, Run};

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
    Newborn,
    Silence,
}

impl World {
    /// Returns the time within which a silence of this node must be known.
    pub(super) fn silence_bound(&self, node: usize) -> Duration {
        let down_timeout = self.nodes[node].settings.down_timeout;
        down_timeout + down_timeout / CLOCK_SHARE + SILENCE_TOLERANCE
    }

    /// Expects the death of a process, by a crash or with its host, to be known in time.
    pub(crate) fn expect_death(&mut self, node: usize, is_silent: bool) {
        let Some(process) = self.nodes[node].process.as_ref() else { return };
        let (run, is_up) = (process.run, process.core.is_up());
        self.upheaval(false);
        if !self.options.timely || !is_up {
            return;
        }
        let began = self.began();
        let is_promised =
            began.is_calm && began.peace >= nanos(PEACE) && (is_silent || began.links_peace >= nanos(LINKS_PEACE));
        if is_promised {
            let kind = if is_silent { DeathKind::Silence } else { DeathKind::Crash };
            let bound = if is_silent { self.silence_bound(node) } else { CRASH_KNOWN };
            self.add_death(node, run, kind, bound);
        }
    }

    fn add_death(&mut self, node: usize, run: Run, kind: DeathKind, bound: Duration) {
        let (at, due, upheavals) = (self.now, self.now + nanos(bound), self.expectations.upheavals);
        self.expectations.deaths.push(Death { node, run, at, due, upheavals, kind });
        self.push_after(bound, Event::Expect(Due::Deaths));
    }

    /// Adds a node whose process dies this long after it became Up.
    pub fn add_doomed_node(&mut self, after: Duration) -> usize {
        self.upheaval(false);
        let began = self.began();
        let node = self.add_node();
        self.nodes[node].doomed = Some(PlannedDeath { after, began });
        node
    }

    /// Takes note that a node is Up or not.
    pub(crate) fn note_up(&mut self, node: usize) {
        let now = self.now;
        let place = &mut self.nodes[node];
        let Some(process) = place.process.as_mut() else { return };
        if !process.core.is_up() {
            process.up_since = None;
        } else if process.up_since.is_none() {
            process.up_since = Some(now);
            let number = process.number;
            if let Some(doom) = place.doomed {
                self.push_after(doom.after, Event::Perish { node, process: number });
            }
        }
    }

    /// Kills a process that was to die soon after it became Up.
    pub(crate) fn perish(&mut self, node: usize) {
        let Some(PlannedDeath { began, .. }) = self.nodes[node].doomed.take() else { return };
        let Some(run) = self.nodes[node].running().map(|process| process.run) else { return };
        let is_alone = self.expectations.upheavals == began.upheavals;
        let is_peace = began.peace >= nanos(PEACE) && began.links_peace >= nanos(LINKS_PEACE);
        self.crash(node);
        if self.options.timely && is_alone && began.is_calm && is_peace {
            self.add_death(node, run, DeathKind::Newborn, CRASH_KNOWN);
        }
    }

    pub(super) fn judge_deaths(&mut self) {
        let now = self.now;
        let mut deaths = std::mem::take(&mut self.expectations.deaths);
        deaths.retain(|death| death.upheavals == self.expectations.upheavals);
        let (due, later): (Vec<Death>, Vec<Death>) = deaths.into_iter().partition(|death| death.due <= now);
        self.expectations.deaths = later;
        let Some(at) = due.first().map(|death| death.at) else { return };
        let left = (0..self.nodes.len()).filter(|node| self.core(*node).is_some()).count();
        let fast = due.iter().filter(|death| death.kind != DeathKind::Silence).count();
        if fast > left && now < at + nanos(MASS_CRASH_KNOWN) {
            let later = due.into_iter().map(|death| Death { due: at + nanos(MASS_CRASH_KNOWN), ..death });
            self.expectations.deaths.extend(later);
            return self.push(at + nanos(MASS_CRASH_KNOWN), Event::Expect(Due::Deaths));
        }
        self.expectations.judged.mass_crashes += usize::from(fast > left);
        for death in due {
            let judged = &mut self.expectations.judged;
            match death.kind {
                DeathKind::Silence => judged.silences += 1,
                DeathKind::Newborn => (judged.newborn, judged.crashes) = (judged.newborn + 1, judged.crashes + 1),
                DeathKind::Crash => judged.crashes += 1,
            }
            let late = self.who_lists(death.run, &self.nodes[death.node].id, death.at);
            if !late.is_empty() {
                let after = Duration::from_nanos(now - death.at);
                let Death { node, kind, .. } = death;
                let detail =
                    format!("{after:.1?} after the end ({kind:?}) of {} it is listed by {late:?}", self.id(node));
                self.report(Some(node), Invariant::DeathIsKnown, detail);
            }
        }
    }

    /// Returns the names of the nodes that have been Up since before then and list this run as live.
    fn who_lists(&self, run: Run, id: &NodeId, since: Nanos) -> Vec<String> {
        let lists = |node: &usize| {
            let process = self.nodes[*node].running()?;
            let held = process.core.record(id).filter(|held| held.run == run && held.status.is_live())?;
            let is_settled = process.up_since.is_some_and(|up| up < since);
            is_settled.then(|| format!("{} as {}", self.nodes[*node].id, held.status))
        };
        (0..self.nodes.len()).filter_map(|node| lists(&node)).collect()
    }
}
