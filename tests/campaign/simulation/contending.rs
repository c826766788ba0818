//! Whole nodes that contend for a lease: planted bugs that the checks must catch.

use std::sync::atomic::Ordering;
use std::time::Duration;

use headcount_campaign::World;
use headcount_campaign::faults::{LeaseFault, Schedule, Variation};
use headcount_campaign::invariants::Invariant;
use headcount_campaign::{campaign_settings, run_schedule};
use headcount_contender::{Claim, ContenderTiming, Output};
use headcount_core::Command;
use headcount_core::election::LossReason;
use headcount_sim::{LeaseOptions, WorldOptions};

use super::plant::Bug;

const SECOND: Duration = Duration::from_secs(1);
const CONTENDERS: usize = 3;
const NODES: usize = 4;

fn options(seed: u64) -> WorldOptions {
    WorldOptions {
        leases: Some(LeaseOptions::new(CONTENDERS, ContenderTiming::of_lease(SECOND * 2))),
        ..WorldOptions::new(seed, NODES, campaign_settings())
    }
}

/// Returns the promises found broken in a led cluster once the bug is armed, after `act` and a while.
fn found_by(plant: Bug, act: impl FnOnce(&mut World)) -> Vec<Invariant> {
    let armed = plant.alarm();
    let mut world = World::with_bug(options(42), plant);
    world.run_for(SECOND * 6);
    assert!(world.lease_leader().is_some());
    assert_eq!(world.violations(), []);
    armed.store(true, Ordering::Relaxed);
    act(&mut world);
    world.run_for(SECOND * 8);
    world.violations().iter().map(|violation| violation.invariant).collect()
}

fn nothing(_: &mut World) {}

fn crash_the_leader(world: &mut World) {
    assert!(LeaseFault::CrashLeader.apply(world));
}

fn pause_the_leader(world: &mut World) {
    assert!(LeaseFault::PauseLeader(SECOND * 4).apply(world));
}

fn cut_the_leader(world: &mut World) {
    assert!(LeaseFault::CutLeaderFromStore(SECOND * 5, false).apply(world));
}

fn the_leader_leaves(world: &mut World) {
    let leader = world.lease_leader().expect("somebody leads");
    world.command(leader, Command::Leave);
}

fn empty_the_database(world: &mut World) {
    assert!(LeaseFault::Empty.apply(world));
}

#[test]
fn without_a_bug_contenders_break_nothing() {
    for act in [nothing, crash_the_leader, pause_the_leader, cut_the_leader, the_leader_leaves, empty_the_database] {
        assert_eq!(found_by(Bug::default(), act), []);
    }
}

/// Alters what contenders tell of who leads.
fn told(mut alter: impl FnMut(usize, Claim) -> Option<Claim> + Send + 'static) -> Bug {
    Bug::contender(move |node, output| match output {
        Output::Claim(claim) => alter(node, claim).map(Output::Claim).into_iter().collect(),
        other => vec![other],
    })
}

pub(crate) fn two_claims_to_a_lease_at_a_time() -> Vec<Invariant> {
    let plant = told(|_, mut claim| {
        if claim.leader.is_some() && !claim.is_me {
            (claim.is_me, claim.term) = (true, claim.term + 1);
        }
        Some(claim)
    });
    found_by(plant, nothing)
}

pub(crate) fn a_term_of_a_lease_that_two_lead_in() -> Vec<Invariant> {
    let plant = told(|_, mut claim| {
        claim.is_me = claim.leader.is_some();
        Some(claim)
    });
    found_by(plant, nothing)
}

pub(crate) fn a_term_of_a_lease_that_falls() -> Vec<Invariant> {
    let plant = told(|_, mut claim| {
        claim.term = 0;
        Some(claim)
    });
    found_by(plant, nothing)
}

/// Returns a bug by which a leader says for ever that it leads.
fn stubborn() -> Bug {
    let mut has_led = [false; NODES];
    told(move |node, claim| {
        has_led[node] |= claim.is_me;
        (claim.is_me || !has_led[node]).then_some(claim)
    })
}

pub(crate) fn a_claim_to_a_lease_that_does_not_end() -> Vec<Invariant> {
    found_by(stubborn(), |world| {
        // It has renewed.
        world.run_for(SECOND);
        cut_the_leader(world);
    })
}

pub(crate) fn a_leader_that_is_rejected_and_leads_on() -> Vec<Invariant> {
    found_by(stubborn(), |world| {
        world.run_for(SECOND);
        empty_the_database(world);
    })
}

pub(crate) fn a_release_while_led_work_goes_on() -> Vec<Invariant> {
    found_by(Bug::hurried(), the_leader_leaves)
}

/// Returns the promise that the campaign finds broken in a run in which nothing happens.
fn found_in_peace(plant: Bug) -> Option<Invariant> {
    plant.alarm().store(true, Ordering::Relaxed);
    let schedule = Schedule {
        nodes: NODES,
        voters: 0,
        operations: Vec::new(),
        heal_at: SECOND,
        variation: Variation { contenders: CONTENDERS, ..Variation::default() },
    };
    run_schedule(42, &schedule, false, Some(Box::new(plant))).violation.map(|violation| violation.invariant)
}

pub(crate) fn a_lease_that_nobody_leads_by() -> Option<Invariant> {
    assert_eq!(found_in_peace(Bug::default()), None);
    let plant = told(|_, mut claim| {
        claim.is_me = false;
        Some(claim)
    });
    found_in_peace(plant)
}

pub(crate) fn a_leader_that_is_lost_for_nothing() -> Option<Invariant> {
    let mut renewals = 0;
    let plant = Bug::contender(move |_, output| {
        let lost = match &output {
            Output::Claim(Claim { lease, leader: Some(leader), term, is_me: true, .. }) => {
                let (lease, leader, reason) = (lease.clone(), leader.clone(), LossReason::Expired);
                Some(Output::Lost { lease, term: *term, leader, was_me: true, reason })
            }
            _ => None,
        };
        renewals += usize::from(lost.is_some());
        [Some(output), lost.filter(|_| renewals % 4 == 3)].into_iter().flatten().collect()
    });
    found_in_peace(plant)
}

pub(crate) fn a_contender_that_names_another_leader_than_the_database() -> Vec<Invariant> {
    let plant = told(|node, mut claim| {
        if node == 2 && !claim.is_me {
            claim.leader = None;
        }
        Some(claim)
    });
    let other = told(|node, mut claim| {
        if node == 1 && !claim.is_me {
            claim.leader = None;
        }
        Some(claim)
    });
    // One of the two does not lead.
    let found = [found_in_peace(plant), found_in_peace(other)];
    found.into_iter().flatten().collect()
}
