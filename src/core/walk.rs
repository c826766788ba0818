//! Walking past the doubted: neighbours that are probably gone are replaced before their verdict.
//!
//! A member's nearest neighbours on the rings are its observers. If many die or are cut off at once, the neighbours are
//! among them, and so are those behind them: replaced only after its verdict, each would be found out after the one before
//! it. So a node walks: from a neighbour that it doubts it goes on along the ring to the nearest member that answers, and
//! observes that one and all whom it passed.
//!
//! ```text
//!            doubted     doubted    silent so far      answers
//!   me ───────── a ───────── b ───────── c ─────────────── d ───────── e
//!                └────────── observed meanwhile ───────────┘      no concern of mine
//! ```
//!
//! **Doubted** is who is Suspect, whose port refused a link while a probe was in vain, or who was probed in vain at the end of
//! its suspect timeout. All those are passed. Of members of whom nothing is known [`FIRST_REACH`] is passed at first, and
//! [`REACH_GROWTH`] times as many after each pause in which they should have answered: a run of fifty is crossed in three
//! round trips. Where [`WIDE_DOUBT`] of the neighbours are doubted, the others hardly live either, and all are asked at once.
//!
//! **Dates.** Nobody accused whom this node takes over, so they lived when the nearer ones were last heard: their silence
//! counts from then, and those who were cut off together are judged together.
//!
//! Invariants:
//! - Doubt alone accuses nobody: who is taken over is probed, and judged, like any neighbour.
//! - Without doubts nothing here is kept, sent, or computed. Walking costs O(rings × members), at most once per pause.
//! - Who is doubted no more is walked past no more, and whoever is behind it is left alone.
//!
//! Must not know: why somebody is silent.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use super::limits::{FIRST_REACH, MIN_CRASH_PROBE_GAP, REACH_GROWTH, WIDE_DOUBT};
use super::observers::Rings;
use super::time::Time;
use super::timers::Timer;
use super::view::{Slot, View};
use super::{Core, Phase, Status};

/// Whom this node observes beyond its neighbours, and why. Empty while nobody is doubted.
#[derive(Debug, Default)]
pub(super) struct Walk {
    /// Members that this node doubted at the last step.
    doubted: BTreeSet<Slot>,
    /// Everybody on the way from a doubted neighbour to the nearest member that answers, that one included.
    passed: BTreeSet<Slot>,
    /// Those of them that were not heard since the doubts began.
    silent: BTreeSet<Slot>,
    /// Where the ways on the first rings end, for news.
    ends: BTreeSet<Slot>,
    /// Since when neighbours are doubted.
    since: Option<Time>,
    /// How many members of whom nothing is known are passed on each way.
    reach: usize,
    /// When the last step was taken.
    stepped: Option<Time>,
}

impl Walk {
    /// The slot is given up, or holds another process.
    pub(super) fn forget(&mut self, slot: Slot) {
        self.doubted.remove(&slot);
        self.passed.remove(&slot);
        self.silent.remove(&slot);
        self.ends.remove(&slot);
    }

    /// Whether a neighbour is doubted.
    pub(super) fn is_on(&self) -> bool {
        self.since.is_some()
    }

    pub(super) fn passed(&self) -> impl Iterator<Item = Slot> {
        self.passed.iter().copied()
    }

    /// Since when this member is walked past, or to.
    pub(super) fn taken_over_since(&self, slot: Slot) -> Option<Time> {
        self.since.filter(|_| self.passed.contains(&slot))
    }

    pub(super) fn ends(&self) -> impl Iterator<Item = Slot> {
        self.ends.iter().copied()
    }

    pub(super) fn doubted(&self) -> &BTreeSet<Slot> {
        &self.doubted
    }
}

/// One member on a ring, seen from the middle of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Place {
    /// The way to it.
    pub(super) distance: u64,
    pub(super) slot: Slot,
    pub(super) standing: Standing,
}

/// What is known of a member whom a walk comes to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Standing {
    Doubted,
    /// Not heard since the doubts began.
    Unknown,
    /// Heard since.
    Answers,
}

/// One way along a ring.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Path {
    /// In the order of their distance, the end included.
    pub(super) slots: Vec<Slot>,
    /// Whether the last of them answers, or all were passed.
    pub(super) is_finished: bool,
    pub(super) end: Option<Slot>,
}

/// Goes from the nearest of these members to the nearest one that answers, past `reach` unknown ones at most. A nearest
/// one that is not doubted ends the way before it began.
pub(super) fn path(places: &mut Vec<Place>, reach: usize) -> Path {
    let end = places.iter().filter(|place| place.standing == Standing::Answers).map(|place| place.distance).min();
    if let Some(end) = end {
        places.retain(|place| place.distance <= end);
    }
    places.sort_unstable_by_key(|place| place.distance);
    let mut path = Path { is_finished: true, ..Path::default() };
    let Some(Place { standing: Standing::Doubted, .. }) = places.first() else { return path };
    let mut unknown = 0;
    for place in places {
        match place.standing {
            Standing::Unknown if unknown == reach => {
                path.is_finished = false;
                break;
            }
            Standing::Unknown => {
                // It may answer yet.
                path.is_finished = false;
                unknown += 1;
            }
            Standing::Doubted => {}
            Standing::Answers => {
                path.is_finished = true;
                path.end = Some(place.slot);
            }
        }
        path.slots.push(place.slot);
    }
    path
}

/// What one step found.
#[derive(Debug, Default)]
struct Step {
    passed: BTreeSet<Slot>,
    silent: BTreeSet<Slot>,
    ends: BTreeSet<Slot>,
    /// When those who are passed lived, at the least.
    lived: BTreeMap<Slot, Time>,
    /// Those behind somebody whose process seems to be gone.
    behind_crashed: BTreeSet<Slot>,
    is_finished: bool,
}

impl Core {
    /// There may be a new doubt about a member, or an old one may be over.
    pub(super) fn doubts_changed(&mut self, slot: Slot) {
        if self.observes(slot) {
            let pause = if self.observers.walk.is_on() { self.walk_pause() } else { Duration::ZERO };
            let at = self.observers.walk.stepped.map_or(self.now, |stepped| (stepped + pause).max(self.now));
            self.timers.set_by(Timer::Walk, at);
        }
    }

    /// A member was heard: who was walked past, or to, may be the end of the way.
    pub(super) fn heard_on_the_way(&mut self, slot: Slot) {
        if self.observers.walk.silent.remove(&slot) {
            self.doubts_changed(slot);
        }
    }

    /// How long those who were passed have to answer.
    fn walk_pause(&self) -> Duration {
        let rtt = self.neighbours().filter_map(|slot| self.view.entry(slot).peer.rtt()).max().unwrap_or_default();
        self.settings.probe_timeout.min(MIN_CRASH_PROBE_GAP.max(rtt * 3 / 2))
    }

    fn doubted(&self) -> BTreeSet<Slot> {
        let suspected = self.view.counts()[Status::Suspect.index()] > 0;
        let is_suspect = |slot: &Slot| self.view.entry(*slot).status == Status::Suspect;
        let suspects = self.view.live().iter().copied().filter(|slot| suspected && is_suspect(slot));
        let slot_of = |run| self.view.slot_of_run(run);
        let is_silent = |slot: &Slot| self.next_threshold(*slot).is_some_and(|threshold| threshold <= self.now);
        let silent = self.inquiries.in_vain().filter_map(slot_of).filter(is_silent);
        let silent = silent.chain(self.crashes.in_vain().filter_map(slot_of));
        let is_live = |slot: &Slot| *slot != View::ME && self.view.entry(*slot).status.is_live();
        suspects.chain(silent).filter(is_live).collect()
    }

    /// The next step.
    pub(super) fn walk(&mut self) {
        let doubted = self.doubted();
        let before = std::mem::take(&mut self.observers.walk);
        let nearest: BTreeSet<Slot> = self.observers.nearest().collect();
        let doubted_nearest = nearest.intersection(&doubted).count();
        self.observers.walk.doubted = doubted;
        let is_walking = std::env::var("BREAK").is_err()
            && matches!(self.phase, Phase::Up)
            && doubted_nearest > 0
            && !self.observers.is_full_mesh(self.view.live().len());
        if !is_walking {
            return self.renew_neighbours(&BTreeMap::new());
        }
        let since = before.since.unwrap_or(self.now);
        let pause = self.walk_pause();
        let is_wide = doubted_nearest * WIDE_DOUBT.1 >= nearest.len() * WIDE_DOUBT.0;
        let has_paused = before.stepped.is_none_or(|stepped| self.now.since(stepped) >= pause);
        let reach = match before.reach {
            _ if is_wide => usize::MAX,
            0 => FIRST_REACH,
            reach if has_paused => reach.saturating_mul(REACH_GROWTH),
            reach => reach,
        };
        let step = self.step(since, reach);
        let walk = &mut self.observers.walk;
        walk.passed.clone_from(&step.passed);
        walk.silent.clone_from(&step.silent);
        walk.ends.clone_from(&step.ends);
        walk.since = Some(since);
        // Once all ways have ended, new doubts begin with small steps.
        walk.reach = if step.is_finished { 0 } else { reach };
        walk.stepped = if has_paused { Some(self.now) } else { before.stepped };
        if !step.is_finished && reach < self.view.live().len() {
            self.timers.set_by(Timer::Walk, self.now + pause);
        }
        self.renew_neighbours(&step.lived);
        for slot in step.passed.difference(&before.passed) {
            self.ask_on_the_way(*slot, since, step.behind_crashed.contains(slot));
        }
    }

    fn step(&self, since: Time, reach: usize) -> Step {
        let mut step = Step { is_finished: true, ..Step::default() };
        for (nth, ring) in self.observers.all_rings().enumerate() {
            let (rings, ring) = ring;
            for is_ahead in [true, false] {
                let path = self.path_on(rings, ring, is_ahead, since, reach);
                step.is_finished &= path.is_finished;
                if nth < super::observers::FLOOD_RINGS {
                    step.ends.extend(path.end);
                }
                let (mut lived, mut is_behind_crashed) = (None, false);
                for slot in path.slots {
                    if let Some(lived) = lived {
                        let date = step.lived.entry(slot).or_insert(lived);
                        *date = lived.max(*date);
                    }
                    if is_behind_crashed {
                        step.behind_crashed.insert(slot);
                    }
                    if self.observers.walk.doubted.contains(&slot) {
                        lived = lived.max(Some(self.view.entry(slot).peer.last_sign));
                    }
                    is_behind_crashed |= self.crashes.is_in_vain(self.view.record(slot).run);
                    step.passed.insert(slot);
                    if path.end != Some(slot) {
                        step.silent.insert(slot);
                    }
                }
            }
        }
        step
    }

    fn path_on(&self, rings: &Rings, ring: usize, is_ahead: bool, since: Time, reach: usize) -> Path {
        let doubted = &self.observers.walk.doubted;
        if !rings.end(ring, is_ahead).is_some_and(|end| doubted.contains(&end)) {
            return Path { is_finished: true, ..Path::default() };
        }
        let standing = |slot: Slot| {
            let heard = || self.view.entry(slot).peer.session.as_ref().map(|session| session.heard);
            if doubted.contains(&slot) {
                Standing::Doubted
            } else if heard().is_some_and(|heard| heard >= since) {
                Standing::Answers
            } else {
                Standing::Unknown
            }
        };
        let on_ring = self.view.live().iter().copied().filter(|slot| rings.holds(&self.view, *slot));
        let mut places: Vec<Place> = on_ring
            .map(|slot| {
                let distance = rings.distance(self.view.entry(slot).name_hash, ring, is_ahead);
                Place { distance, slot, standing: standing(slot) }
            })
            .collect();
        path(&mut places, reach)
    }

    /// A member that the walk comes to for the first time is asked whether it lives; behind a process that died, by a link,
    /// too, which a dead one refuses at once.
    fn ask_on_the_way(&mut self, slot: Slot, since: Time, is_behind_crashed: bool) {
        let entry = self.view.entry(slot);
        if entry.status != Status::Up || self.observers.walk.doubted.contains(&slot) {
            return;
        }
        if entry.peer.session.as_ref().is_some_and(|session| session.heard >= since) {
            return;
        }
        let run = entry.record.run;
        if self.inquiries.probed(run) == 0 {
            self.probe(slot);
        }
        if is_behind_crashed {
            self.look_for_crash(slot);
        }
    }
}
