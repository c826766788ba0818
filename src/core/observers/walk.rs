//! Walking past unresponsive members: neighbours that are probably gone are replaced before their verdict.
//!
//! A member's nearest neighbours on the rings are its observers. If many die or are cut off at once, the neighbours are
//! among them, and so are those behind them: if each were replaced only after its verdict, each would be found out only
//! after the one before it. So a node walks: from a neighbour that does not respond it goes on along the ring to the nearest
//! member that answers, and observes that one and all members that it passed.
//!
//! ```text
//!         unresponsive unresponsive silent so far      answers
//!   me ───────── a ───────── b ───────── c ─────────────── d ───────── e
//!                └────────── observed meanwhile ───────────┘      no concern of mine
//! ```
//!
//! **Unresponsive** members are those that are Suspect, whose port refused a link while a probe was in vain, or that were
//! probed in vain at the end of their suspect timeout. All of them are passed. Of members about which nothing is known,
//! [`FIRST_REACH`] is passed at first, and [`REACH_GROWTH`] times as many after each pause in which they should have
//! answered: a run of fifty is crossed in three round trips. If [`WIDE_OUTAGE`] of the neighbours are unresponsive, the
//! others hardly live either, and all are asked at once.
//!
//! **Dates.** Nobody accused the members that this node takes over, so they lived when the nearer ones were last heard:
//! their silence counts from then, and members that were cut off together are judged together.
//!
//! Invariants:
//! - Walking accuses nobody: a member that is taken over is probed, and judged, like any neighbour.
//! - Without unresponsive members nothing here is kept, sent, or computed. Walking costs O(rings × members), at most once per pause.
//! - A way is the nearest members in their order, none left out.
//! - A member that responds again is walked past no more, and the members behind it are left alone.
//!
//! Must not know: why a member is silent.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use super::graph::{Observers, Shift};
use super::rings::FLOOD_RINGS;
use crate::context::Context;
use crate::limits::{FIRST_REACH, REACH_GROWTH, WIDE_OUTAGE};
use crate::member::{Run, Status};
use crate::time::Time;
use crate::view::{Slot, View};

/// The members that this node observes beyond its neighbours, and why. Empty while nobody is unresponsive.
#[derive(Debug, Clone, Default)]
pub(crate) struct Walk {
    /// The members that were unresponsive at the last step.
    unresponsive: BTreeSet<Slot>,
    /// All members on the way from a unresponsive neighbour to the nearest member that answers, that one included.
    passed: BTreeSet<Slot>,
    /// The members among them that were not heard since neighbours were unresponsive.
    silent: BTreeSet<Slot>,
    /// The ends of the ways on the first rings, for news.
    ends: BTreeSet<Slot>,
    /// The time since when neighbours are unresponsive.
    since: Option<Time>,
    /// The number of members about which nothing is known that are passed on each way.
    reach: usize,
    /// The time at which the last step was taken.
    stepped: Option<Time>,
}

impl Walk {
    /// Forgets a slot that is given up, or holds another process.
    pub(crate) fn forget(&mut self, slot: Slot) {
        self.unresponsive.remove(&slot);
        self.passed.remove(&slot);
        self.silent.remove(&slot);
        self.ends.remove(&slot);
    }

    /// Returns true if a neighbour is unresponsive.
    pub(crate) fn is_on(&self) -> bool {
        self.since.is_some()
    }

    pub(super) fn passed(&self) -> impl Iterator<Item = Slot> {
        self.passed.iter().copied()
    }
    /// Returns the time since when this member is walked past, or to.
    pub(crate) fn taken_over_since(&self, slot: Slot) -> Option<Time> {
        self.since.filter(|_| self.passed.contains(&slot))
    }

    pub(super) fn ends(&self) -> impl Iterator<Item = Slot> {
        self.ends.iter().copied()
    }

    pub(crate) fn unresponsive(&self) -> &BTreeSet<Slot> {
        &self.unresponsive
    }
}

/// The times at which the unresponsive members on one way were heard last, by their suspect timeouts. A member behind them
/// lived then, too, since nobody had accused it; but a slower one would not have been missed yet, and the sign of a
/// quicker one may itself be no more than such a guess.
#[derive(Debug, Default)]
struct Lives {
    /// The times by suspect timeout: there are few different timeouts in one cluster.
    signs: Vec<(Duration, Time)>,
}

impl Lives {
    fn add(&mut self, pace: Duration, sign: Time) {
        match self.signs.iter_mut().find(|(other, _)| *other == pace) {
            Some((_, last)) => *last = sign.max(*last),
            None => self.signs.push((pace, sign)),
        }
    }

    /// Returns the latest time at which a member of this suspect timeout is known to have lived.
    fn of(&self, pace: Duration) -> Option<Time> {
        self.signs.iter().filter(|(other, _)| *other >= pace).map(|(_, sign)| *sign).max()
    }
}

/// A live member, as it is seen on all ways of one step: looked up once, since there may be very many.
struct Seen {
    slot: Slot,
    name: u64,
    liveness: Liveness,
}

/// The outcome of one step.
#[derive(Debug, Default)]
struct StepOutcome {
    passed: BTreeSet<Slot>,
    silent: BTreeSet<Slot>,
    ends: BTreeSet<Slot>,
    /// The times at which the passed members lived, at the least.
    lived: BTreeMap<Slot, Time>,
    /// The members behind one whose process seems to be gone.
    behind_crashed: BTreeSet<Slot>,
    is_finished: bool,
}

/// The result of one step: the shift in who is observed, and the members to ask.
#[derive(Debug, Default)]
#[must_use]
pub(crate) struct Walked {
    pub(crate) shift: Shift,
    /// The members that the walk comes to for the first time, each with whether it is behind one whose process seems to be
    /// gone. They are asked if they live.
    pub(crate) asked: Vec<(Slot, bool)>,
}

impl Observers {
    /// Returns the time at which a step is due since a member may have become unresponsive, or respond again:
    /// never, if this node does not observe it. Passed members have `pause` to answer.
    pub(crate) fn step_at(&self, now: Time, slot: Slot, pause: Duration) -> Option<Time> {
        let pause = if self.walk.is_on() { pause } else { Duration::ZERO };
        let at = self.walk.stepped.map_or(now, |stepped| (stepped + pause).max(now));
        self.observes(slot).then_some(at)
    }

    /// Notes that a member was heard; returns true if it was walked past and silent: it may be the end of the way.
    pub(crate) fn note_heard_on_the_way(&mut self, slot: Slot) -> bool {
        self.walk.silent.remove(&slot)
    }

    /// Takes the next step, by the members that are `unresponsive` now. Passed members have `pause` to answer.
    pub(crate) fn walk(
        &mut self,
        cx: &Context,
        view: &View,
        unresponsive: BTreeSet<Slot>,
        pause: Duration,
        is_crashed: impl Fn(Run) -> bool,
    ) -> Walked {
        let now = cx.now;
        let others = view.live().len();
        let before = std::mem::take(&mut self.walk);
        let nearest: BTreeSet<Slot> = self.nearest().collect();
        let unresponsive_nearest = nearest.intersection(&unresponsive).count();
        self.walk.unresponsive = unresponsive;
        if !cx.phase.is_up() || unresponsive_nearest == 0 || self.is_full_mesh(others) {
            return Walked { shift: self.renew(cx, view, &BTreeMap::new()), asked: Vec::new() };
        }
        let since = before.since.unwrap_or(now);
        let is_wide = unresponsive_nearest * WIDE_OUTAGE.1 >= nearest.len() * WIDE_OUTAGE.0;
        let has_paused = before.stepped.is_none_or(|stepped| now.since(stepped) >= pause);
        let reach = match before.reach {
            _ if is_wide => usize::MAX,
            0 => FIRST_REACH,
            reach if has_paused => reach.saturating_mul(REACH_GROWTH),
            reach => reach,
        };
        let step = self.step(view, since, reach, is_crashed);
        let walk = &mut self.walk;
        walk.passed.clone_from(&step.passed);
        walk.silent = step.silent;
        walk.ends = step.ends;
        walk.since = Some(since);
        // Once all ways have ended, the next ones begin with small steps.
        walk.reach = if step.is_finished { 0 } else { reach };
        walk.stepped = if has_paused { Some(now) } else { before.stepped };
        let walk_at = (!step.is_finished && reach < others).then_some(now + pause);
        let shift = Shift { walk_at, ..self.renew(cx, view, &step.lived) };
        let is_open = |slot: &Slot| {
            let entry = view.entry(*slot);
            let is_heard = entry.peer.session.as_ref().is_some_and(|session| session.heard >= since);
            entry.status == Status::Up && !self.walk.unresponsive.contains(slot) && !is_heard
        };
        let asked = step.passed.difference(&before.passed).copied().filter(is_open);
        Walked { shift, asked: asked.map(|slot| (slot, step.behind_crashed.contains(&slot))).collect() }
    }

    fn step(&self, view: &View, since: Time, reach: usize, is_crashed: impl Fn(Run) -> bool) -> StepOutcome {
        let mut step = StepOutcome { is_finished: true, ..StepOutcome::default() };
        let members = self.seen(view, since);
        for ring in 0..self.rings().count() {
            for is_ahead in [true, false] {
                let path = self.path_on(ring, is_ahead, &members, reach);
                step.is_finished &= path.is_finished;
                if ring < FLOOD_RINGS {
                    step.ends.extend(path.end);
                }
                let (mut lives, mut is_behind_crashed) = (Lives::default(), false);
                for slot in path.slots {
                    let entry = view.entry(slot);
                    let pace = entry.record.timing.suspect_timeout();
                    if let Some(lived) = lives.of(pace) {
                        let date = step.lived.entry(slot).or_insert(lived);
                        *date = lived.max(*date);
                    }
                    if is_behind_crashed {
                        step.behind_crashed.insert(slot);
                    }
                    if self.walk.unresponsive.contains(&slot) {
                        lives.add(pace, entry.peer.last_sign());
                    }
                    is_behind_crashed |= is_crashed(entry.record.run);
                    step.passed.insert(slot);
                    if path.end != Some(slot) {
                        step.silent.insert(slot);
                    }
                }
            }
        }
        step
    }

    /// Returns all live members, in the order of the view's list, and what is known of them since neighbours were unresponsive.
    fn seen(&self, view: &View, since: Time) -> Vec<Seen> {
        let unresponsive = &self.walk.unresponsive;
        let seen = |slot: Slot| {
            let entry = view.entry(slot);
            let is_heard = entry.peer.session.as_ref().is_some_and(|session| session.heard >= since);
            let liveness = match is_heard {
                _ if unresponsive.contains(&slot) => Liveness::Unresponsive,
                true => Liveness::Answers,
                false => Liveness::Unknown,
            };
            Seen { slot, name: entry.name_hash, liveness }
        };
        view.live().iter().copied().map(seen).collect()
    }

    fn path_on(&self, ring: usize, is_ahead: bool, members: &[Seen], reach: usize) -> Path {
        let (rings, unresponsive) = (self.rings(), &self.walk.unresponsive);
        if !rings.end(ring, is_ahead).is_some_and(|end| unresponsive.contains(&end)) {
            return Path { is_finished: true, ..Path::default() };
        }
        let place = |seen: &Seen| {
            let Seen { slot, name, liveness } = *seen;
            Place { distance: rings.distance(name, ring, is_ahead), slot, liveness }
        };
        path(&mut members.iter().map(place).collect(), reach)
    }
}

/// A member on a ring, seen from the node that walks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Place {
    /// The distance to it along the ring.
    distance: u64,
    slot: Slot,
    liveness: Liveness,
}

/// The liveness of a member that a walk comes to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Liveness {
    Unresponsive,
    /// The member was not heard since neighbours were unresponsive.
    Unknown,
    /// The member was heard since neighbours were unresponsive.
    Answers,
}

/// A way along a ring.
#[derive(Debug, Default, PartialEq, Eq)]
struct Path {
    /// The members on it, in the order of their distance, the end included.
    slots: Vec<Slot>,
    /// True if the last of them answers, or all were passed.
    is_finished: bool,
    end: Option<Slot>,
}

/// Goes from the nearest of these members to the nearest one that answers, past at most `reach` unknown ones.
/// If the nearest member is not unresponsive, the way is empty.
fn path(places: &mut Vec<Place>, reach: usize) -> Path {
    let end = places.iter().filter(|place| place.liveness == Liveness::Answers).map(|place| place.distance).min();
    if let Some(end) = end {
        places.retain(|place| place.distance <= end);
    }
    places.sort_unstable_by_key(|place| place.distance);
    let mut path = Path { is_finished: true, ..Path::default() };
    let Some(Place { liveness: Liveness::Unresponsive, .. }) = places.first() else { return path };
    let mut unknown = 0;
    for place in places {
        match place.liveness {
            Liveness::Unknown if unknown == reach => {
                path.is_finished = false;
                break;
            }
            Liveness::Unknown => {
                // It may still answer.
                path.is_finished = false;
                unknown += 1;
            }
            Liveness::Unresponsive => {}
            Liveness::Answers => {
                path.is_finished = true;
                path.end = Some(place.slot);
            }
        }
        path.slots.push(place.slot);
    }
    path
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn places(states: &[Liveness]) -> Vec<Place> {
        let place = |(nth, liveness): (usize, &Liveness)| Place {
            distance: (nth as u64 + 1) * 10,
            slot: nth as Slot,
            liveness: *liveness,
        };
        let mut places: Vec<Place> = states.iter().enumerate().map(place).collect();
        // They are listed in the order of the table, not of the ring.
        places.reverse();
        places
    }

    fn liveness() -> impl Strategy<Value = Liveness> {
        prop_oneof![4 => Just(Liveness::Unresponsive), 2 => Just(Liveness::Unknown), 1 => Just(Liveness::Answers)]
    }

    proptest! {
        #[test]
        fn a_way_holds_the_nearest_that_answers_and_all_before_it(
            states in prop::collection::vec(liveness(), 1..60), reach in 1usize..80,
        ) {
            let path = path(&mut places(&states), reach);
            if states[0] != Liveness::Unresponsive {
                prop_assert_eq!(path, Path { is_finished: true, ..Path::default() }, "nobody near is unresponsive");
                return Ok(());
            }
            let whole: Vec<Slot> = (0..path.slots.len() as Slot).collect();
            prop_assert_eq!(&path.slots, &whole, "in order, and nobody is left out");
            let of = |liveness| path.slots.iter().filter(|slot| states[**slot as usize] == liveness).count();
            prop_assert!(of(Liveness::Unknown) <= reach);
            let nearest = states.iter().position(|liveness| *liveness == Liveness::Answers);
            if let Some(end) = path.end {
                prop_assert_eq!(Some(end as usize), nearest);
                prop_assert_eq!(path.slots.last(), Some(&end));
                prop_assert!(path.is_finished);
            } else {
                prop_assert_eq!(of(Liveness::Answers), 0);
                let is_limited = of(Liveness::Unknown) == reach && path.slots.len() < states.len();
                prop_assert!(is_limited || path.slots.len() == states.len());
                prop_assert_eq!(path.is_finished, of(Liveness::Unknown) == 0);
            }
        }
    }

    #[test]
    fn a_run_of_a_thousand_is_crossed_in_six_pauses() {
        let mut known = 1;
        let mut reach = FIRST_REACH;
        let mut pauses = 0;
        while known < 1_000 {
            let states: Vec<Liveness> =
                (0..1_000).map(|nth| if nth < known { Liveness::Unresponsive } else { Liveness::Unknown }).collect();
            known = path(&mut places(&states), reach).slots.len();
            reach *= REACH_GROWTH;
            pauses += 1;
        }
        assert!(pauses <= 6, "{pauses}");
    }

    #[test]
    fn the_latest_sign_of_a_member_as_slow_or_slower_says_when_one_lived() {
        let at = |seconds: u64| Time::ORIGIN + Duration::from_secs(seconds);
        let pace = Duration::from_secs;
        let mut lives = Lives::default();
        lives.add(pace(2), at(50));
        lives.add(pace(2), at(40));
        lives.add(pace(4), at(45));
        assert_eq!(
            [1, 2, 3, 4].map(|slow| lives.of(pace(slow))),
            [Some(at(50)), Some(at(50)), Some(at(45)), Some(at(45))]
        );
        assert_eq!(lives.of(pace(5)), None, "the signs of quicker ones say nothing of it");
    }
}
