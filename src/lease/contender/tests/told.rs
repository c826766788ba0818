//! The words and figures that a contender gives out, and what it keeps of a lease that it lets go.

use std::time::Duration;

use super::directed::{LEASE, RENEWAL, SECOND, alone, led, outputs, usual};
use super::world::{World, name};
use crate::database::Database;
use crate::tests::Contender;
use crate::{ContenderAlarm, Output};
use crate::{LeaseName, Round, StepRequest};
use headcount_core::election::LossReason;
use headcount_core::{LeadershipState, Time};

#[test]
fn a_lease_that_was_removed_is_led_above_its_old_term_although_the_database_is_an_empty_one_by_then() {
    let (mut world, node) = led(18, 1, None);
    let billing = LeaseName::new("billing").expect("a name");
    world.with(node, |contender, now| contender.add_lease(now, billing.clone()).expect("there is room"));
    assert!(world.run_until(SECOND, |world| world.valid(0, &billing).is_some()));
    world.with(node, |contender, now| contender.remove_lease(now, &billing));
    assert!(world.run_until(SECOND * 5, |world| world.database.look(&billing) == (1, None)), "released at once");
    world.run_for(LEASE);
    assert_eq!(world.with(node, |contender, _| contender.claims().count()), Some(1), "it is forgotten");
    world.lose_commits(None);
    world.with(node, |contender, now| contender.add_lease(now, billing.clone()).expect("there is room"));
    assert!(world.run_until(LEASE * 2, |world| world.valid(0, &billing).is_some()));
    assert_eq!(world.database.look(&billing).0, 2);
}

#[test]
fn a_term_that_fell_and_a_database_that_is_back_are_told_once_each() {
    let (mut world, leader) = led(19, 2, None);
    world.nodes[leader].is_cut = true;
    world.lose_commits(None);
    world.run_for(LEASE * 9 / 10);
    world.nodes[leader].is_cut = false;
    world.run_for(LEASE * 2);
    let told = |world: &World, kind: &str| {
        (0..2).map(|at| world.alarms.iter().filter(|(of, alarm)| *of == at && alarm.kind() == kind).count()).max()
    };
    assert_eq!(told(&world, "term fell"), Some(1), "{:?}", world.alarms);
    assert_eq!(told(&world, "store unreachable"), Some(1), "{:?}", world.alarms);
    assert_eq!(told(&world, "store reachable again"), Some(1), "{:?}", world.alarms);
}

#[test]
fn a_leader_elsewhere_that_gives_up_is_told_of_as_resigned() {
    let (mut other, mut contender, mut database) = (alone(usual()), alone(usual()), Database::new());
    let rival = Round { node: name(1), ..other.begin(Time::ORIGIN).expect("due") };
    database.execute(Duration::ZERO, &rival).expect("it takes writes");
    let round = contender.begin(Time::ORIGIN).expect("due");
    contender.answered(Time::ORIGIN, &database.execute(Duration::ZERO, &round).expect("it takes writes"));
    outputs(&mut contender);
    let lease = LeaseName::default();
    contender.heard(Time::ORIGIN + SECOND, &lease, &name(1), 1, true);
    let reason = LossReason::Resigned;
    let lost = Output::Lost { lease, term: 1, leader: name(1), was_me: false, reason };
    assert!(outputs(&mut contender).contains(&lost));
}

#[test]
fn a_row_that_was_given_up_and_not_released_yet_is_shown_as_nobodys() {
    let (mut contender, mut database, lease) = (alone(usual()), Database::new(), LeaseName::default());
    let round = contender.begin(Time::ORIGIN).expect("due");
    contender.answered(Time::ORIGIN, &database.execute(Duration::ZERO, &round).expect("it takes writes"));
    let now = Time::ORIGIN + SECOND;
    contender.resign(now, &lease);
    contender.hurry(now, &lease, now);
    let round = contender.begin(now).expect("due");
    assert_eq!(round.steps[0].request, StepRequest::Watch, "its work goes on");
    contender.answered(now, &database.execute(SECOND, &round).expect("it takes writes"));
    let claim = contender.claims().next().expect("one lease");
    assert_eq!((claim.state, &claim.leader, claim.term), (LeadershipState::Vacant, &None, 1));
}

#[test]
fn an_acquisition_that_surely_did_not_happen_leaves_nothing_to_release() {
    let mut contender = alone(usual());
    contender.begin(Time::ORIGIN).expect("due");
    contender.failed(Time::ORIGIN, true);
    contender.stop(Time::ORIGIN);
    assert!(outputs(&mut contender).contains(&Output::Stopped));
    let mut contender = alone(usual());
    contender.begin(Time::ORIGIN).expect("due");
    contender.failed(Time::ORIGIN, false);
    contender.stop(Time::ORIGIN);
    assert!(!outputs(&mut contender).contains(&Output::Stopped), "it may have");
    let look = contender.begin(Time::ORIGIN + RENEWAL).expect("due");
    assert_eq!(look.steps[0].request, StepRequest::Watch, "and that is looked at first");
}

#[test]
fn a_term_that_is_heard_of_while_a_round_is_under_way_is_no_lost_commit_and_one_that_is_missing_later_is() {
    let (mut contender, mut database, lease) = (alone(usual()), Database::new(), LeaseName::default());
    contender.set_draining(Time::ORIGIN, true);
    let fell = |contender: &mut Contender| {
        let is_fall = |output: &Output| matches!(output, Output::Alarm(ContenderAlarm::TermFell { .. }));
        outputs(contender).iter().any(is_fall)
    };
    for (begins, is_lost) in [(0, false), (2, true)] {
        let begun = Time::ORIGIN + SECOND * begins;
        contender.hurry(begun, &lease, begun);
        let round = contender.begin(begun).expect("due");
        let answer = database.execute(SECOND * begins, &round).expect("it takes writes");
        if begins == 0 {
            contender.heard(begun + SECOND / 2, &lease, &name(1), 1, false);
        }
        contender.answered(begun + SECOND, &answer);
        assert_eq!(fell(&mut contender), is_lost, "asked at {begins}");
    }
}
