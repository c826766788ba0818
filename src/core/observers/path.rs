//! A way along a ring, past members that are unresponsive to the nearest one that answers.
//!
//! Invariant: a way is the nearest members in their order, none left out.
//!
//! Must not know: why a member is unresponsive, and what becomes of those that are passed.

use crate::view::Slot;

/// A member on a ring, seen from the node that walks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Place {
    /// The distance to it along the ring.
    pub(super) distance: u64,
    pub(super) slot: Slot,
    pub(super) liveness: Liveness,
}

/// The liveness of a member that a walk comes to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Liveness {
    Unresponsive,
    /// The member was not heard since neighbours were unresponsive.
    Unknown,
    /// The member was heard since neighbours were unresponsive.
    Answers,
}

/// A way along a ring.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Path {
    /// The members on it, in the order of their distance, the end included.
    pub(super) slots: Vec<Slot>,
    /// True if the last of them answers, or all were passed.
    pub(super) is_finished: bool,
    pub(super) end: Option<Slot>,
}

/// Goes from the nearest of these members to the nearest one that answers, past at most `reach` unknown ones.
/// If the nearest member is not unresponsive, the way is empty.
pub(super) fn path(places: &mut Vec<Place>, reach: usize) -> Path {
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
    use crate::limits::{FIRST_REACH, REACH_GROWTH};

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
}
