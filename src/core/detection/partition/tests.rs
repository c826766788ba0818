//! The machine alone: transitions, and what holds after any of them.

use std::collections::BTreeSet;
use std::time::Duration;

use proptest::prelude::*;

use super::{Far, Partition, Report};
use crate::limits::MAX_PARTITION_LOST;
use crate::member::{NodeId, Run};
use crate::settings::{Profile, Settings};
use crate::time::Time;

fn id(run: u64) -> NodeId {
    NodeId::new(&format!("n{run}")).expect("a name")
}

fn names(runs: impl IntoIterator<Item = u64>) -> Vec<NodeId> {
    runs.into_iter().map(id).collect()
}

fn settings() -> Settings {
    Profile::Lan.settings()
}

fn at(ms: u64) -> Time {
    Time::ORIGIN + Duration::from_secs(1_000) + Duration::from_millis(ms)
}

/// Returns a machine in which these members fell silent at once, with `live` members live.
fn silent(runs: impl IntoIterator<Item = u64>, live: usize) -> Partition {
    let mut partition = Partition::new(&settings());
    for run in runs {
        partition.fell_silent(at(0), Run(run), id(run), at(0), live);
    }
    partition
}

fn unreachable(report: Option<Report>) -> Vec<NodeId> {
    match report {
        Some(Report::Suspected(far) | Report::Healed(far)) => far.beside(BTreeSet::new()).0,
        None => Vec::new(),
    }
}

#[test]
fn a_third_of_those_that_were_live_is_a_partition_and_fewer_are_none() {
    for (live, is_enough) in [(6, true), (7, false)] {
        let mut partition = silent([1, 2], live);
        assert_eq!(partition.deadlines().0.is_some(), is_enough, "2 of {live}");
        assert_eq!(partition.gathered(live).is_some(), is_enough, "2 of {live}");
    }
    assert_eq!(silent([1], 2).gathered(2), None, "one alone is none");
}

#[test]
fn the_dead_still_count_among_those_that_were_live() {
    let mut partition = silent([1, 2], 6);
    assert!(partition.gathered(6).is_some());
    assert!(partition.died(Run(1), 6) && partition.died(Run(2), 5));
    // Four are left. Two more are silent now: four of six, and all are named.
    for run in [3, 4] {
        partition.fell_silent(at(100), Run(run), id(run), at(100), 4);
    }
    assert_eq!(unreachable(partition.gathered(4)), names(1..=4));
}

#[test]
fn accusations_gather_for_a_heartbeat_interval_from_the_first_that_is_enough() {
    let mut partition = silent([1], 6);
    assert_eq!(partition.deadlines(), (None, None));
    partition.fell_silent(at(300), Run(2), id(2), at(200), 6);
    let due = at(300) + settings().heartbeat_interval;
    assert_eq!(partition.deadlines().0, Some(due));
    partition.fell_silent(at(900), Run(3), id(3), at(200), 6);
    assert_eq!(partition.deadlines().0, Some(due), "later ones move nothing");
}

#[test]
fn the_first_death_asks_for_the_report_and_those_who_join_it_wait_for_one_another() {
    let mut partition = silent([1, 2], 6);
    assert!(partition.is_due_before_death(), "the first death");
    assert!(partition.gathered(6).is_some());
    partition.died(Run(1), 6);
    assert!(!partition.is_due_before_death(), "nothing has gathered since");
    partition.fell_silent(at(10), Run(3), id(3), at(10), 5);
    assert!(!partition.is_due_before_death(), "reported before");
    assert!(partition.died(Run(3), 5), "it belongs to the partition that was reported");
    assert_eq!(partition.deadlines().0, Some(at(10) + settings().heartbeat_interval));
    assert_eq!(unreachable(partition.gathered(4)), names([1, 2, 3]), "it is named with the others");
}

#[test]
fn silences_further_apart_than_the_window_are_two_stories() {
    let window = settings().suspect_timeout;
    for (gap, is_one) in [(window, true), (window + Duration::from_millis(1), false)] {
        let mut partition = silent([1], 4);
        partition.fell_silent(at(0) + gap, Run(2), id(2), at(0) + gap, 4);
        assert_eq!(partition.gathered(4).is_some(), is_one, "{gap:?} apart");
    }
}

#[test]
fn the_same_silent_members_are_reported_once_and_more_of_them_again() {
    let mut partition = silent([1, 2], 6);
    assert_eq!(unreachable(partition.gathered(6)), names([1, 2]));
    assert_eq!(partition.gathered(6), None);
    partition.fell_silent(at(5), Run(3), id(3), at(5), 6);
    assert_eq!(unreachable(partition.gathered(6)), names([1, 2, 3]));
}

#[test]
fn it_is_over_at_once_when_all_are_accounted_for() {
    let mut partition = silent([1, 2], 6);
    partition.gathered(6);
    partition.accounted_for(at(50), Run(1), false);
    partition.accounted_for(at(60), Run(2), true);
    assert_eq!(partition.deadlines().1, Some(at(60)));
    let report = partition.over(at(9));
    assert_eq!(unreachable(report), names([2]), "who is gone for good did not come back");
    assert!(partition.is_idle());
}

#[test]
fn it_is_over_when_too_few_are_missing_for_as_long_as_views_take_to_agree() {
    let patience = settings().retry_interval * 2 + Duration::from_secs(2);
    let mut partition = silent([1, 2, 3], 6);
    partition.gathered(6);
    partition.accounted_for(at(50), Run(1), false);
    assert_eq!(partition.deadlines().1, None, "two of six are still enough");
    partition.accounted_for(at(60), Run(2), false);
    assert_eq!(partition.deadlines().1, Some(at(60) + patience));
    assert_eq!(unreachable(partition.over(at(9))), names([3]));
}

#[test]
fn more_that_go_missing_put_the_end_off() {
    let mut partition = silent([1, 2], 6);
    partition.gathered(6);
    partition.accounted_for(at(50), Run(1), false);
    assert!(partition.deadlines().1.is_some());
    partition.fell_silent(at(60), Run(3), id(3), at(60), 5);
    assert!(partition.gathered(5).is_some());
    assert_eq!(partition.deadlines().1, None);
    assert_eq!(partition.over(at(9)), None, "it is not over");
    assert_eq!(partition.missing().count(), 2);
}

#[test]
fn who_came_back_under_a_lost_name_is_reachable() {
    let mut partition = silent([1, 2], 6);
    partition.gathered(6);
    partition.accounted_for(at(1), Run(1), true);
    partition.accounted_for(at(1), Run(2), true);
    let Some(Report::Healed(far)) = partition.over(at(9)) else { panic!("not over") };
    assert_eq!(far.beside(BTreeSet::from([id(1), id(7)])), (names([2]), names([1, 7])));
}

#[test]
fn a_node_in_no_position_to_report_says_nothing_and_gathers_anew() {
    let mut partition = silent([1, 2], 6);
    assert_eq!(partition.held_back(), None);
    assert_eq!(partition.deadlines(), (None, None));
    partition.fell_silent(at(5), Run(3), id(3), at(5), 6);
    assert!(partition.deadlines().0.is_some());
}

#[test]
fn forgetting_everybody_ends_the_report_and_leaves_nothing_due() {
    let mut partition = silent([1, 2], 6);
    assert_eq!(partition.forget(), None, "nothing was reported");
    let mut partition = silent([1, 2], 6);
    partition.gathered(6);
    assert_eq!(partition.forget().map(|far: Far| far.beside(BTreeSet::new()).0), Some(names([1, 2])));
    assert!(partition.is_idle());
    assert_eq!(partition.deadlines(), (None, None));
}

#[test]
fn nothing_of_before_counts_once_everybody_is_forgotten() {
    let mut partition = silent([1, 2], 6);
    for run in [1, 2] {
        partition.died(Run(run), 6);
    }
    partition.forget();
    assert_eq!(partition.deadlines(), (None, None), "what was about to be reported");
    for run in [3, 4] {
        partition.fell_silent(at(0), Run(run), id(run), at(0), 6);
    }
    assert!(partition.deadlines().0.is_some(), "two of six, as before");
}

#[test]
fn a_death_counts_once_and_no_more_when_the_member_is_back() {
    let mut partition = silent([1, 2], 6);
    partition.died(Run(1), 6);
    partition.died(Run(1), 5);
    assert!(partition.gathered(5).is_some(), "two of six");
    let mut partition = silent([1, 2], 6);
    partition.died(Run(1), 6);
    partition.accounted_for(at(1), Run(1), false);
    partition.fell_silent(at(2), Run(3), id(3), at(2), 6);
    assert!(partition.gathered(6).is_some(), "two of six");
}

#[test]
fn who_falls_silent_beside_a_reported_partition_belongs_to_it() {
    let mut partition = silent([1, 2], 6);
    partition.gathered(6);
    partition.fell_silent(at(5), Run(3), id(3), at(5), 6);
    for teller in [None, Some(Run(1)), Some(Run(3)), Some(Run(4))] {
        assert!(
            !partition.is_spoken_of_from_afar(at(9), Run(3), teller)
                && !partition.is_spoken_of_from_afar(at(9), Run(1), teller)
        );
    }
    assert!(partition.is_spoken_of_from_afar(at(9), Run(4), Some(Run(3))));
    assert!(partition.died(Run(3), 6), "although it is not listed yet");
}

#[test]
fn the_far_side_speaks_of_this_one_itself_until_somebody_comes_back_and_by_anybody_from_then_on() {
    let mut partition = silent([1, 2, 3], 8);
    let told = |partition: &Partition, teller| partition.is_spoken_of_from_afar(at(9), Run(4), teller);
    assert!(!told(&partition, Some(Run(1))), "nothing is reported");
    partition.gathered(8);
    assert_eq!([None, Some(Run(1)), Some(Run(5))].map(|teller| told(&partition, teller)), [true, true, false]);
    partition.accounted_for(at(1), Run(1), true);
    assert!(!told(&partition, Some(Run(5))), "one is gone for good");
    partition.accounted_for(at(2), Run(2), false);
    assert!(told(&partition, Some(Run(5))), "one is back");
}

#[test]
fn for_a_suspect_timeout_after_a_partition_reports_about_this_side_may_be_old_ones_of_the_far_side() {
    let mut partition = silent([1, 2, 3], 8);
    partition.gathered(8);
    for run in [1, 2, 3] {
        partition.accounted_for(at(1), Run(run), false);
    }
    assert!(partition.over(at(1)).is_some());
    let window = settings().suspect_timeout;
    for teller in [None, Some(Run(1)), Some(Run(5))] {
        assert!(partition.is_spoken_of_from_afar(at(1) + window - Duration::from_millis(1), Run(4), teller));
        assert!(!partition.is_spoken_of_from_afar(at(1) + window, Run(4), teller));
    }
    partition.fell_silent(at(1), Run(4), id(4), at(1), 8);
    assert!(!partition.is_spoken_of_from_afar(at(1), Run(4), None), "it is silent here, too");
}

#[test]
fn how_many_are_too_few_is_a_matter_of_all_that_were_live_at_any_time() {
    let mut partition = silent([1, 2, 3], 9);
    for run in [1, 2, 3] {
        partition.died(Run(run), 10 - run as usize);
    }
    partition.gathered(6);
    partition.accounted_for(at(50), Run(1), false);
    assert!(partition.deadlines().1.is_some(), "two of nine");
    let mut partition = silent([1, 2], 6);
    partition.gathered(6);
    for run in [3, 4, 5] {
        partition.fell_silent(at(5), Run(run), id(run), at(5), 12);
    }
    assert_eq!(unreachable(partition.gathered(12)), names(1..=5));
    partition.accounted_for(at(50), Run(1), false);
    partition.accounted_for(at(50), Run(2), false);
    let over_at = partition.deadlines().1;
    assert!(over_at.is_some(), "three of twelve");
    partition.accounted_for(at(60), Run(3), false);
    assert_eq!(partition.deadlines().1, over_at, "one fewer does not put it off");
}

#[test]
fn names_that_come_and_go_beside_a_lasting_cut_repeat_the_list_once_in_a_gathering_at_most() {
    let live = 5_000;
    let mut partition = silent(1..live as u64, live);
    assert!(partition.gathered(live).is_some());
    let (mut reports, seconds) = (0, 60);
    for nth in 1..=seconds * 20 {
        let (now, run) = (at(nth * 50), 10_000 + nth % 100);
        partition.fell_silent(now, Run(run), id(run), at(0), live);
        assert!(!partition.is_due_before_death());
        if partition.deadlines().0.is_some_and(|due| due <= now) {
            reports += usize::from(partition.gathered(live).is_some());
        }
        partition.died(Run(run), live);
        partition.accounted_for(now, Run(run), false);
    }
    let most = Duration::from_secs(seconds).as_millis() / settings().heartbeat_interval.as_millis();
    assert!((2..=most as usize).contains(&reports), "{reports} in {seconds} s");
}

#[test]
fn no_more_names_of_the_lost_are_kept_than_the_bound() {
    let live = MAX_PARTITION_LOST as u64 + 10;
    let mut partition = silent(1..live, live as usize);
    partition.gathered(live as usize);
    for run in 1..live {
        partition.accounted_for(at(1), Run(run), true);
    }
    assert_eq!(partition.missing().count(), 0);
    assert_eq!(unreachable(partition.over(at(9))).len(), MAX_PARTITION_LOST);
}

#[derive(Debug, Clone)]
enum Event {
    Silent(u64),
    Dead(u64),
    Back(u64),
    Gone(u64),
    Wait(u64),
}

fn event() -> impl Strategy<Value = Event> {
    let run = 1..8_u64;
    prop_oneof![
        4 => run.clone().prop_map(Event::Silent),
        2 => run.clone().prop_map(Event::Dead),
        2 => run.clone().prop_map(Event::Back),
        1 => run.prop_map(Event::Gone),
        3 => (0..8_000_u64).prop_map(Event::Wait),
    ]
}

proptest! {
    #[test]
    fn reports_grow_or_alternate_and_all_end_once_everybody_is_back(events in prop::collection::vec(event(), 1..60)) {
        let mut partition = Partition::new(&settings());
        let (mut now, mut live) = (at(0), 9_usize);
        let mut reported: Option<Vec<NodeId>> = None;
        let mut dead = BTreeSet::new();
        let mut hear = |report: Option<Report>| {
            match report {
                Some(Report::Suspected(far)) => {
                    let all = far.beside(BTreeSet::new()).0;
                    assert!(all.len() >= 2, "a report names at least two");
                    reported = Some(all);
                }
                Some(Report::Healed(_)) => assert!(reported.take().is_some(), "an end without a beginning"),
                None => {}
            }
            reported.is_some()
        };
        let everybody_back = (1..8).map(Event::Back).chain([Event::Wait(60_000)]);
        for event in events.into_iter().chain(everybody_back) {
            match event {
                Event::Silent(run) => partition.fell_silent(now, Run(run), id(run), now, live),
                Event::Dead(run) => {
                    if partition.is_due_before_death() {
                        let report = partition.gathered(live);
                        hear(report);
                    }
                    partition.died(Run(run), live);
                    live -= usize::from(dead.insert(run));
                }
                Event::Back(run) | Event::Gone(run) => {
                    partition.accounted_for(now, Run(run), matches!(event, Event::Gone(_)));
                    live += usize::from(dead.remove(&run));
                }
                Event::Wait(ms) => {
                    now = now + Duration::from_millis(ms);
                    let (gathered, over) = partition.deadlines();
                    if gathered.is_some_and(|due| due <= now) {
                        let report = partition.gathered(live);
                        hear(report);
                    }
                    if over.is_some_and(|due| due <= now) {
                        let report = partition.over(at(9));
                        hear(report);
                    }
                }
            }
            let is_open = hear(None);
            prop_assert_eq!(is_open, partition.missing().count() > 0 || partition.deadlines().1.is_some() );
        }
        prop_assert!(partition.is_idle(), "{:?}", partition);
    }
}
