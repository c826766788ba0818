//! Directed tests: one rule at a time, in the scene that shows it.

use std::time::Duration;

use super::world::{MS, Nanos, World, name};
use crate::database::Database;
use crate::flaw::Flaw;
use crate::tests::Contender;
use crate::{ContenderAlarm, ContenderInit, ContenderTiming, Output};
use crate::{LeaseName, Outcome, Round, Step, StepRequest};
use headcount_core::election::LossReason;
use headcount_core::{LeadershipState, Time};

pub(super) const LEASE: Duration = Duration::from_secs(15);
pub(super) const RENEWAL: Duration = Duration::from_secs(5);
pub(super) const SECOND: Duration = Duration::from_secs(1);
/// The time that is left of a lease at least when all nodes have seen it, less a second or two.
const MOST_OF_LEASE: Duration = Duration::from_secs(8);

pub(super) fn usual() -> ContenderTiming {
    ContenderTiming::of_lease(LEASE)
}

/// Returns a world of this many nodes, and the one that leads.
pub(super) fn led(seed: u64, nodes: usize, flaw: Option<Flaw>) -> (World, usize) {
    let mut world = World::new(seed, nodes, usual());
    world.flaw = flaw;
    world.start_all();
    assert!(world.run_until(SECOND, |world| world.leader().is_some()), "an empty database is led at once");
    let leader = world.leader().expect("it was there");
    // All nodes have seen it.
    world.run_for(RENEWAL);
    (world, leader)
}

/// Returns a contender that is asked by hand.
pub(super) fn alone(timing: ContenderTiming) -> Contender {
    alone_above(timing, 0)
}

/// Returns a contender that is asked by hand, where voters gave terms up to this one.
pub(super) fn alone_above(timing: ContenderTiming, floor: u64) -> Contender {
    let init = ContenderInit {
        node: name(0),
        timing,
        leases: vec![LeaseName::default()],
        terms: std::collections::BTreeMap::new(),
        floors: std::collections::BTreeMap::from([(LeaseName::default(), floor)]),
        seed: [7; 32],
    };
    Contender::planted(init, Time::ORIGIN, None)
}

pub(super) fn outputs(contender: &mut Contender) -> Vec<Output> {
    std::iter::from_fn(|| contender.poll()).collect()
}

pub(super) fn own_claim(contender: &Contender) -> Option<(u64, Time)> {
    let claim = contender.claims().next().expect("one lease").clone();
    claim.is_me.then(|| (claim.term, claim.valid_until.expect("it has an end")))
}

#[test]
fn a_claim_counts_from_before_its_round_was_handed_out_less_the_margin() {
    let mut contender = alone(usual());
    let mut database = Database::new();
    let round = contender.begin(Time::ORIGIN).expect("the first one is due at once");
    let answer = database.execute(Duration::from_secs(1), &round).expect("it takes writes");
    contender.answered(Time::ORIGIN + SECOND * 2, &answer);
    assert_eq!(own_claim(&contender), Some((1, Time::ORIGIN + LEASE * 98 / 100)));
    let told = outputs(&mut contender);
    let lease = LeaseName::default();
    assert_eq!(told[0], Output::Persist { lease: lease.clone(), term: 1 });
    assert_eq!(told[1], Output::Tell { lease, term: 1, is_released: false });
    contender.tick(Time::ORIGIN + LEASE * 98 / 100);
    assert_eq!(own_claim(&contender), None, "and it ends by itself");
    let reason = |output: &Output| matches!(output, Output::Lost { reason: LossReason::Expired, was_me: true, .. });
    assert!(outputs(&mut contender).iter().any(reason));
}

#[test]
fn a_lease_that_somebody_waits_for_is_asked_about_at_once_and_a_claim_is_worth_no_more_by_that() {
    let mut contender = alone(usual());
    let mut database = Database::new();
    let round = contender.begin(Time::ORIGIN).expect("due");
    let answer = database.execute(Duration::ZERO, &round).expect("it takes writes");
    contender.answered(Time::ORIGIN, &answer);
    let now = Time::ORIGIN + SECOND;
    assert_eq!(contender.begin(now), None, "there is time");
    contender.hurry(now, &LeaseName::default(), now + SECOND);
    assert_eq!((contender.begin(now), contender.next_deadline()), (None, Some(now + SECOND)));
    contender.hurry(now, &LeaseName::default(), now);
    contender.hurry(now, &LeaseName::new("nobodys").expect("a name"), now);
    assert_eq!(contender.next_deadline(), Some(now));
    let renewal = contender.begin(now).expect("due by now");
    assert!(matches!(renewal.steps[0].request, StepRequest::Renew { .. }));
    assert_eq!(own_claim(&contender), Some((1, Time::ORIGIN + LEASE * 98 / 100)));
    let answer = database.execute(SECOND, &renewal).expect("it takes writes");
    contender.answered(now, &answer);
    assert_eq!(own_claim(&contender), Some((1, now + LEASE * 98 / 100)));
}

#[test]
fn a_lost_acquisition_is_adopted_and_counts_from_when_it_was_sent() {
    let mut contender = alone(usual());
    let mut database = Database::new();
    let lost = contender.begin(Time::ORIGIN).expect("due");
    database.execute(Duration::ZERO, &lost).expect("it takes writes");
    contender.failed(Time::ORIGIN + SECOND, false);
    let second = Time::ORIGIN + SECOND * 3;
    let round = contender.begin(second).expect("due");
    let answer = database.execute(Duration::from_secs(3), &round).expect("it takes writes");
    assert_eq!(answer.steps[0].outcome, Outcome::Held, "by itself");
    contender.answered(second, &answer);
    assert_eq!(own_claim(&contender), Some((1, Time::ORIGIN + LEASE * 98 / 100)));
    let renewal = contender.begin(second).expect("a claim that is old already is renewed at once");
    let answer = database.execute(Duration::from_secs(3), &renewal).expect("it takes writes");
    contender.answered(second, &answer);
    assert_eq!(own_claim(&contender), Some((1, second + LEASE * 98 / 100)));
}

/// Carries out an acquisition late, after another node was seen to hold the lease, whose commits were then lost;
/// returns true if this node leads by it.
fn leads_by_what_came_late(flaw: Option<Flaw>) -> bool {
    let mut contender = alone(usual());
    if let Some(flaw) = flaw {
        contender.plant(flaw);
    }
    let lease = LeaseName::default();
    contender.heard(Time::ORIGIN, &lease, &name(1), 9, true);
    let lost = contender.begin(Time::ORIGIN).expect("due");
    assert!(matches!(lost.steps[0].request, StepRequest::Acquire { above: 9, .. }), "{lost:?}");
    contender.failed(Time::ORIGIN + SECOND, false);
    // Another node, which has not heard of term 9, leads in term 1.
    let (mut database, mut other) = (Database::new(), alone(usual()));
    let rival = Round { node: name(1), ..other.begin(Time::ORIGIN).expect("due") };
    database.execute(Duration::ZERO, &rival).expect("it takes writes");
    let look = |contender: &mut Contender, database: &mut Database, second: u64| {
        let now = Time::ORIGIN + SECOND * second as u32;
        let round = contender.begin(now).expect("due");
        contender.answered(now, &database.execute(Duration::from_secs(second), &round).expect("it takes writes"));
    };
    look(&mut contender, &mut database, 3);
    database.replace();
    database.execute(Duration::from_secs(4), &lost).expect("it takes writes");
    look(&mut contender, &mut database, 9);
    own_claim(&contender).is_some()
}

#[test]
fn an_acquisition_that_comes_after_somebody_else_was_seen_is_not_led() {
    assert!(!leads_by_what_came_late(None));
    assert!(leads_by_what_came_late(Some(Flaw::AdoptsWhatWasGivenUp)), "planted, it is caught");
}

/// Returns the time, in seconds, at which a lease may be taken of which a term was heard while a round was under way.
fn taken_at(flaw: Option<Flaw>) -> u64 {
    let mut contender = alone(usual());
    if let Some(flaw) = flaw {
        contender.plant(flaw);
    }
    let (mut database, lease) = (Database::new(), LeaseName::default());
    // The round is handed out before the report of term 1, and its answer comes after it.
    let round = contender.begin(Time::ORIGIN).expect("due");
    let early = Round {
        steps: round.steps.iter().map(|step| Step { request: StepRequest::Watch, ..step.clone() }).collect(),
        ..round
    };
    contender.heard(Time::ORIGIN + SECOND, &lease, &name(1), 1, false);
    contender.answered(Time::ORIGIN + SECOND, &database.execute(Duration::ZERO, &early).expect("it takes writes"));
    // The leader of term 1 may have renewed until now, when all of it is lost.
    let lost_at = 10;
    for second in lost_at..100 {
        let now = Time::ORIGIN + SECOND * second as u32;
        let Some(round) = contender.begin(now) else { continue };
        if matches!(round.steps[0].request, StepRequest::Acquire { .. }) {
            return second - lost_at;
        }
        contender.answered(now, &database.execute(Duration::from_secs(second), &round).expect("it takes writes"));
    }
    panic!("it is never taken");
}

#[test]
fn what_looks_older_than_it_is_known_to_be_is_waited_for_from_when_it_was_seen_to() {
    assert!(taken_at(None) >= 15, "{}", taken_at(None));
    assert!(taken_at(Some(Flaw::WaitsFromHearsay)) < 15, "planted, it is caught");
}

#[test]
fn an_acquisition_in_a_term_that_was_heard_of_meanwhile_is_neither_led_nor_released() {
    let (mut contender, mut database, lease) = (alone(usual()), Database::new(), LeaseName::default());
    let round = contender.begin(Time::ORIGIN).expect("due");
    // Another node led in term 1, and its commits were lost: a release of that term would look as if it were over.
    contender.heard(Time::ORIGIN, &lease, &name(1), 1, false);
    contender.answered(Time::ORIGIN, &database.execute(Duration::ZERO, &round).expect("it takes writes"));
    assert_eq!(own_claim(&contender), None);
    for second in 1..14 {
        let now = Time::ORIGIN + SECOND * second;
        let Some(round) = contender.begin(now) else { continue };
        assert_eq!(round.steps[0].request, StepRequest::Watch, "in second {second}");
        contender.answered(now, &database.execute(SECOND * second, &round).expect("it takes writes"));
    }
    assert!(database.look(&lease).1.is_some());
}

#[test]
fn an_acquisition_that_is_found_too_late_is_released_and_not_led() {
    let mut contender = alone(usual());
    let mut database = Database::new();
    let lost = contender.begin(Time::ORIGIN).expect("due");
    contender.failed(Time::ORIGIN + SECOND, false);
    // The acquisition arrives when nothing of its claim is left.
    database.execute(LEASE, &lost).expect("it takes writes");
    let late = Time::ORIGIN + LEASE;
    let round = contender.begin(late).expect("due");
    contender.answered(late, &database.execute(LEASE, &round).expect("it takes writes"));
    assert_eq!(own_claim(&contender), None);
    let soon = late + SECOND;
    let release = contender.begin(soon).expect("due");
    assert!(matches!(release.steps[0].request, StepRequest::Release { .. }), "{release:?}");
    contender.answered(soon, &database.execute(LEASE + SECOND, &release).expect("it takes writes"));
    let soon = soon + SECOND;
    let again = contender.begin(soon).expect("due");
    contender.answered(soon, &database.execute(LEASE + SECOND * 2, &again).expect("it takes writes"));
    assert_eq!(own_claim(&contender).map(|(term, _)| term), Some(2));
}

#[test]
fn a_crashed_leader_is_succeeded_within_a_lease_and_a_renewal_interval_without_any_sweep() {
    for seed in 0..50 {
        let (mut world, leader) = led(seed, 5, None);
        world.crash(leader);
        let most = LEASE + RENEWAL + Duration::from_millis(100);
        assert!(world.run_until(most, |world| world.leader().is_some()), "seed {seed}");
        assert_eq!(world.starts.last().map(|(_, _, term)| *term), Some(2));
    }
}

fn succession(seed: u64, flaw: Option<Flaw>) -> Duration {
    let (mut world, leader) = led(seed, 5, flaw);
    world.stop(leader);
    let began = world.now;
    let other = |world: &World| world.leader().is_some_and(|now| now != leader);
    assert!(world.run_until(LEASE * 2, other), "seed {seed}: {:?}", world.violations);
    Duration::from_nanos(world.now - began)
}

#[test]
fn whoever_stops_is_succeeded_by_notification() {
    // In a tenth of the cases led work takes long to end, which is waited for.
    let quick = (0..50).filter(|seed| succession(*seed, None) < Duration::from_millis(100)).count();
    assert!(quick >= 40, "{quick} of 50");
    let quick =
        (0..50).filter(|seed| succession(*seed, Some(Flaw::DeafToReleases)) < Duration::from_millis(100)).count();
    assert!(quick <= 10, "planted deafness to releases is caught: {quick} of 50");
}

#[test]
fn a_release_that_nobody_told_of_is_seen_in_the_row_within_a_renewal_interval() {
    let (mut world, leader) = led(3, 3, None);
    world.nodes[leader].is_mute = true;
    world.nodes[leader].works_on = true;
    world.stop(leader);
    world.end_all_work(leader);
    let other = |world: &World| world.leader().is_some_and(|now| now != leader);
    assert!(world.run_until(RENEWAL + SECOND, other));
}

#[test]
fn work_that_does_not_end_keeps_the_lease_until_it_runs_out() {
    let (mut world, leader) = led(4, 3, None);
    world.nodes[leader].works_on = true;
    world.stop(leader);
    let other = |world: &World| world.leader().is_some_and(|now| now != leader);
    assert!(!world.run_until(MOST_OF_LEASE, other));
    assert_eq!((world.reached.releases, world.nodes[leader].is_stopped), (0, false));
    assert!(world.run_until(LEASE + SECOND, other));
    world.end_all_work(leader);
    world.run_for(RENEWAL + SECOND);
    assert!(world.nodes[leader].is_stopped, "the row is somebody else's: nothing is left to release");
}

#[test]
fn a_store_that_is_down_deposes_at_the_expiry_and_is_led_in_a_higher_term_once_it_is_back() {
    let (mut world, leader) = led(5, 3, None);
    world.is_down = true;
    world.run_for(MOST_OF_LEASE);
    assert_eq!(world.leader(), Some(leader), "failures alone do not depose");
    world.run_for(Duration::from_secs(60));
    assert_eq!(world.leader(), None);
    assert_eq!(world.losses.iter().map(|loss| loss.2).collect::<Vec<_>>(), [LossReason::Expired]);
    let shown = &world.nodes[leader].shown[&world.lease()];
    assert_eq!((shown.state, shown.term, shown.is_me), (LeadershipState::Unavailable, 1, false));
    let is_told = |alarm: &ContenderAlarm| matches!(alarm, ContenderAlarm::Unreachable { .. });
    assert_eq!(world.alarms.iter().filter(|(_, alarm)| is_told(alarm)).count(), 3, "once each");
    world.is_down = false;
    assert!(world.run_until(LEASE + RENEWAL, |world| world.leader().is_some()));
    assert_eq!(world.starts.last().map(|start| start.2), Some(2));
}

/// Returns the tightest figures that are allowed: the lease is hardly longer than two renewal intervals, and an answer
/// may take one.
fn tight() -> ContenderTiming {
    ContenderTiming {
        renewal_interval: Duration::from_millis(7_400),
        statement_timeout: Duration::from_millis(7_400),
        ..usual()
    }
}

/// Returns the number of times that a leader is deposed although of two answers in a row one comes.
fn deposed_by_lost_answers(flaw: Option<Flaw>) -> usize {
    let mut world = World::new(1, 1, tight());
    world.flaw = flaw;
    world.start_all();
    world.network.loses_every_other = true;
    world.run_for(LEASE * 20);
    assert!(world.violations.is_empty(), "{:?}", world.violations);
    world.losses.len()
}

#[test]
fn one_lost_answer_does_not_cost_the_lease_even_at_the_tightest_figures() {
    assert_eq!(deposed_by_lost_answers(None), 0);
    assert!(deposed_by_lost_answers(Some(Flaw::RenewsLate)) > 0, "planted late renewals are caught");
    assert!(deposed_by_lost_answers(Some(Flaw::ForgetsDrawnTokens)) > 0, "planted forgetfulness is caught");
}

/// Returns the number of runs in which a leader is deposed whose store comes back when a tenth of the claim is left.
fn deposed_at_the_last_moment(flaw: Option<Flaw>) -> usize {
    let deposed = |seed| {
        let (mut world, leader) = led(seed, 2, flaw);
        world.run_until(RENEWAL, |world| {
            world.nodes[leader].held.values().any(|held| held.until > world.local(leader) + LEASE * 97 / 100)
        });
        world.nodes[leader].is_cut = true;
        world.run_for(LEASE * 88 / 100);
        world.nodes[leader].is_cut = false;
        world.run_for(LEASE / 5);
        !world.losses.is_empty()
    };
    (0..40).filter(|seed| deposed(*seed)).count()
}

#[test]
fn a_held_lease_is_tried_for_until_its_end() {
    assert!(deposed_at_the_last_moment(None) <= 8, "{}", deposed_at_the_last_moment(None));
    assert!(deposed_at_the_last_moment(Some(Flaw::PausesPastExpiry)) >= 16, "planted long pauses are caught");
}

#[test]
fn a_server_clock_that_is_put_forward_makes_no_second_leader_and_an_operator_is_told() {
    let is_told = |seed| {
        let (mut world, leader) = led(seed, 3, None);
        // The leader is cut off, so that it cannot be rejected.
        world.nodes[leader].is_cut = true;
        world.database.step_forward(Duration::from_secs(3_600));
        let until = world.valid(leader, &world.lease()).expect("it leads").until;
        let began = world.starts.len();
        assert!(world.run_until(LEASE * 2, |world| world.starts.len() > began));
        assert!(world.local(leader) >= until, "not before the first claim is over");
        let is_it = |alarm: &ContenderAlarm| matches!(alarm, ContenderAlarm::ClockStepped { is_forward: true, .. });
        world.alarms.iter().any(|(_, alarm)| is_it(alarm))
    };
    // A node that has not seen the row between its last renewal and the step cannot know.
    assert!((0..10).filter(|seed| is_told(*seed)).count() >= 5);
}

#[test]
fn a_server_clock_that_is_put_back_by_an_hour_keeps_nobody_from_leading() {
    let is_told = |seed| {
        let (mut world, leader) = led(seed, 3, None);
        world.database.step_back(Duration::from_secs(3_600));
        world.crash(leader);
        assert!(world.run_until(LEASE + RENEWAL + SECOND, |world| world.leader().is_some()));
        let is_it = |alarm: &ContenderAlarm| matches!(alarm, ContenderAlarm::ClockStepped { is_forward: false, .. });
        world.alarms.iter().any(|(_, alarm)| is_it(alarm))
    };
    assert!((0..10).filter(|seed| is_told(*seed)).count() >= 5);
}

#[test]
fn an_empty_database_is_waited_for_and_led_in_a_higher_term() {
    let (mut world, leader) = led(8, 3, None);
    world.nodes[leader].is_cut = true;
    world.lose_commits(None);
    let began = world.now;
    assert!(world.run_until(LEASE * 2, |world| world.starts.len() > 1));
    assert!(Duration::from_nanos(world.now - began) > LEASE * 98 / 100);
    assert_eq!(world.starts.last().map(|start| start.2), Some(2));
    assert!(
        world.alarms.iter().any(|(_, alarm)| matches!(alarm, ContenderAlarm::TermFell { known: 1, stored: 0, .. }))
    );
    assert!(world.violations.is_empty(), "{:?}", world.violations);
}

#[test]
fn an_empty_database_is_led_above_the_terms_of_the_disks_after_a_restart_of_all() {
    let (mut world, _) = led(9, 3, None);
    for at in 0..3 {
        world.crash(at);
    }
    world.lose_commits(None);
    world.run_for(SECOND);
    world.start_all();
    assert!(world.run_until(LEASE + SECOND, |world| world.leader().is_some()));
    assert_eq!(world.starts.last().map(|start| start.2), Some(2));
}

#[test]
fn a_restarted_leader_does_not_take_back_its_own_row() {
    let (mut world, leader) = led(10, 1, None);
    world.crash(leader);
    world.start(leader);
    assert!(!world.run_until(MOST_OF_LEASE, |world| world.leader().is_some()));
    assert!(world.run_until(LEASE, |world| world.leader().is_some()));
    assert_eq!((world.starts.last().map(|start| start.2), world.reached.namesakes), (Some(2), 0));
}

#[test]
fn two_agents_with_one_name_lead_one_after_the_other_and_say_so() {
    let mut world = World::new(11, 1, usual());
    world.add(name(0), usual());
    world.start_all();
    world.run_for(LEASE * 2);
    assert!(world.violations.is_empty(), "{:?}", world.violations);
    assert_eq!(world.starts.len(), 1, "a token leads, not a name");
    let told = world.alarms.iter().filter(|(_, alarm)| matches!(alarm, ContenderAlarm::NameTwice { .. })).count();
    assert!(told > 0);
    let alarm = ContenderAlarm::NameTwice { lease: world.lease() };
    assert!(alarm.to_string().contains("rename"));
}

#[test]
fn whoever_resigns_leaves_it_to_others_and_leads_again_in_a_new_term_if_nobody_wants_it() {
    let (mut world, leader) = led(12, 1, None);
    let lease = world.lease();
    world.with(leader, |contender, now| contender.resign(now, &lease));
    let began = world.now;
    assert!(world.run_until(LEASE * 3, |world| world.leader().is_some()));
    assert!(Duration::from_nanos(world.now - began) >= LEASE);
    assert_eq!(world.starts.last().map(|start| start.2), Some(2));
}

#[test]
fn a_drained_leader_hands_over_and_does_not_lead_again_before_it_is_undrained() {
    let (mut world, leader) = led(13, 2, None);
    world.nodes[leader].is_draining = true;
    world.with(leader, |contender, now| contender.set_draining(now, true));
    let other = 1 - leader;
    assert!(world.run_until(LEASE * 2, |world| world.leader() == Some(other)));
    world.crash(other);
    world.run_for(LEASE * 3);
    assert_eq!(world.leader(), None);
    world.nodes[leader].is_draining = false;
    world.with(leader, |contender, now| contender.set_draining(now, false));
    assert!(world.run_until(RENEWAL + SECOND, |world| world.leader() == Some(leader)));
}

#[test]
fn a_higher_term_that_is_heard_of_deposes_at_once() {
    let (mut world, leader) = led(14, 2, None);
    let lease = world.lease();
    world.with(leader, |contender, now| contender.heard(now, &lease, &name(9), 9, false));
    assert_eq!(world.losses.last().map(|loss| loss.2), Some(LossReason::Superseded));
    let began = world.starts.len();
    assert!(world.run_until(LEASE * 3, |world| world.starts.len() > began));
    assert!(world.starts.last().is_some_and(|start| start.2 > 1));
}

#[test]
fn leases_are_added_and_removed_at_run_time_and_keep_their_terms() {
    let (mut world, leader) = led(15, 1, None);
    let billing = LeaseName::new("billing").expect("a name");
    let is_led = |world: &World, lease: &LeaseName| world.valid(0, lease).is_some();
    world.with(leader, |contender, now| contender.add_lease(now, billing.clone()).expect("there is room"));
    assert!(world.run_until(SECOND, |world| is_led(world, &billing)));
    world.with(leader, |contender, now| contender.remove_lease(now, &billing));
    world.run_for(LEASE * 3);
    assert!(!is_led(&world, &billing) && is_led(&world, &LeaseName::default()));
    assert_eq!(world.database.look(&billing), (1, None), "it was released");
    assert_eq!(world.with(leader, |contender, _| contender.claims().count()), Some(1), "and is forgotten");
    world.with(leader, |contender, now| contender.add_lease(now, billing.clone()).expect("there is room"));
    assert!(world.run_until(RENEWAL, |world| is_led(world, &billing)));
    assert!(world.starts.iter().any(|start| start.2 == 2));
}

/// Shows what stores must not do: a sweep that frees leases, while the server's clock is put forward.
#[test]
fn a_sweep_that_frees_an_expired_lease_makes_two_leaders_of_a_stepped_clock() {
    let two_lead = |frees: bool| {
        let (mut world, leader) = led(16, 2, None);
        if frees {
            world.database.let_sweeps_free();
        }
        world.nodes[leader].is_cut = true;
        world.database.step_forward(Duration::from_secs(3_600));
        world.database.sweep(Duration::from_nanos(world.now), usual().row_ttl);
        world.run_for(RENEWAL + SECOND);
        !world.violations.is_empty()
    };
    assert!(two_lead(true), "rows of holders are swept");
    assert!(!two_lead(false));
}

#[test]
fn the_usual_load_is_a_round_of_each_node_in_a_renewal_interval() {
    let (mut world, _) = led(17, 5, None);
    let (before, seconds): (usize, Nanos) = (world.rounds.len(), 100);
    world.run_for(Duration::from_nanos(seconds * 1_000 * MS));
    let rounds = world.rounds.len() - before;
    // Five nodes, twenty intervals, a tenth more for the jitter, and a little for successions.
    assert!((100..=125).contains(&rounds), "{rounds}");
}

#[test]
fn a_leader_does_not_take_its_own_word_or_that_of_another_release_for_a_rival() {
    let mut contender = alone(usual());
    let mut database = Database::new();
    let round = contender.begin(Time::ORIGIN).expect("due");
    contender.answered(Time::ORIGIN, &database.execute(Duration::ZERO, &round).expect("it takes writes"));
    let lease = LeaseName::default();
    contender.heard(Time::ORIGIN, &lease, &name(0), 1, false);
    contender.heard(Time::ORIGIN, &lease, &name(1), 1, true);
    assert_eq!(own_claim(&contender).map(|(term, _)| term), Some(1));
    contender.heard(Time::ORIGIN, &lease, &name(1), 1, false);
    assert_eq!(own_claim(&contender), None);
}

#[test]
fn an_own_row_that_was_expired_by_hand_is_not_called_another_agents() {
    let mut contender = alone(usual());
    let mut database = Database::new();
    let mut now = Time::ORIGIN;
    // A clock that is set ahead expires every lease; then it is set back, and so on.
    for _ in 0..4 {
        for _ in 0..20 {
            now = contender.next_deadline().expect("there is always something to do").max(now);
            if let Some(round) = contender.begin(now) {
                let clock = now.since(Time::ORIGIN);
                contender.answered(now, &database.execute(clock, &round).expect("it takes writes"));
            }
            let told = outputs(&mut contender);
            for output in told {
                match output {
                    Output::AwaitWork { lease, term } => contender.work_ended(now, &lease, term),
                    Output::Alarm(ContenderAlarm::NameTwice { .. }) => panic!("it is alone"),
                    _ => {}
                }
            }
        }
        database.step_forward(LEASE * 2);
    }
}

/// Returns true if a leader leads on that has heard of a higher term.
fn leads_beside_a_higher_term(flaw: Option<Flaw>) -> bool {
    let (mut world, leader) = led(31, 1, flaw);
    let lease = world.lease();
    world.with(leader, |contender, now| contender.heard(now, &lease, &name(7), 2, false));
    world.leader() == Some(leader)
}

#[test]
fn a_leader_that_hears_of_a_higher_term_leads_no_more() {
    assert!(!leads_beside_a_higher_term(None));
    assert!(leads_beside_a_higher_term(Some(Flaw::IgnoresHigherTerms)), "the planted bug is caught");
}
