//! Voters that are preferred as leaders, and leaders that let their claim run out.

use std::time::Duration;

use super::parliament::{LEASE, Parliament};
use super::scenarios::{SECOND, led};
use crate::core::election::{Election, LeaderPolicy, OnResign};
use crate::core::limits::PREFERENCE_LEASES;

/// Returns voters of these priorities.
fn preferring(seed: u64, priorities: &[u8]) -> Parliament {
    let mut parliament = Parliament::new(seed, priorities.len());
    for (node, priority) in parliament.nodes.iter_mut().zip(priorities) {
        node.policy.priority = *priority;
    }
    parliament.start_all();
    assert!(parliament.run_until(SECOND * 2, |parliament| parliament.leader().is_some()), "nobody leads");
    parliament
}

/// The time for a voter to be preferred, and for the hand-over.
const MOVES: Duration = Duration::from_secs(LEASE.as_secs() * (PREFERENCE_LEASES as u64 + 1));

#[test]
fn the_voter_of_the_highest_priority_that_is_up_leads_in_the_end_and_stays() {
    for seed in 0..30 {
        let mut parliament = preferring(seed, &[0, 7, 3, 255, 7]);
        parliament.run_for(MOVES);
        assert_eq!(parliament.leader(), Some(3), "seed {seed}");
        assert!(parliament.leaders.len() <= 2, "at once, seed {seed}: {:?}", parliament.leaders);
        parliament.crash(3);
        parliament.run_for(LEASE * 2 + MOVES);
        let next = parliament.leader().expect("a successor");
        assert!([1, 4].contains(&next), "seed {seed}: {next}");
        let terms = parliament.leaders.len();
        parliament.run_for(MOVES * 4);
        assert_eq!((parliament.leader(), parliament.leaders.len()), (Some(next), terms), "equals stay, seed {seed}");
        parliament.start(3);
        parliament.run_for(MOVES * 2);
        assert_eq!((parliament.leader(), parliament.leaders.len()), (Some(3), terms + 1), "seed {seed}");
        parliament.assert_safe();
    }
}

#[test]
fn a_preferred_voter_that_comes_and_goes_does_not_lead_at_each_return() {
    for seed in 0..10 {
        let mut parliament = preferring(seed, &[0, 0, 0, 0, 9]);
        parliament.run_for(MOVES);
        parliament.crash(4);
        parliament.run_for(LEASE * 2);
        let (steady, terms) = (parliament.leader().expect("a successor"), parliament.leaders.len());
        for _ in 0..10 {
            parliament.start(4);
            parliament.run_for(LEASE * (PREFERENCE_LEASES - 1));
            assert_eq!(parliament.leader(), Some(steady), "seed {seed}");
            parliament.crash(4);
            parliament.run_for(LEASE * 2);
        }
        assert_eq!((parliament.leader(), parliament.leaders.len()), (Some(steady), terms), "seed {seed}");
        parliament.assert_safe();
    }
}

#[test]
fn a_preferred_voter_gets_leadership_only_after_all_led_work_has_ended() {
    let mut parliament = preferring(3, &[0, 0, 0]);
    let leader = parliament.leader().expect("it leads");
    let preferred = (leader + 1) % 3;
    parliament.crash(preferred);
    parliament.nodes[preferred].policy.priority = 1;
    parliament.start(preferred);
    parliament.ended_work = false;
    let is_resigned = |p: &Parliament| p.losses.iter().any(|(_, node, _)| *node == leader);
    assert!(parliament.run_until(MOVES, is_resigned));
    let (at, ..) = parliament.losses[0];
    assert!(parliament.run_until(LEASE * 2, |p| p.leader().is_some()), "the lease runs out instead");
    assert!(parliament.now - at >= (LEASE / 2).as_nanos() as u64, "nobody may lead while its work goes on");
    parliament.assert_safe();
}

#[test]
fn a_voter_that_cannot_be_elected_is_not_preferred() {
    let mut parliament = preferring(4, &[0, 0, 0]);
    let leader = parliament.leader().expect("it leads");
    let preferred = (leader + 1) % 3;
    parliament.crash(preferred);
    parliament.nodes[preferred].policy.priority = 1;
    parliament.start(preferred);
    // From now on its disk takes nothing new; it goes on acknowledging the view that it has.
    parliament.run_for(SECOND);
    parliament.nodes[preferred].is_disk_full = true;
    parliament.members.push(super::parliament::id(50));
    for node in 0..3 {
        parliament.with(node, Election::members_changed);
    }
    parliament.run_for(MOVES * 3);
    assert_eq!((parliament.leader(), parliament.leaders.len()), (Some(leader), 1));
    parliament.nodes[preferred].is_disk_full = false;
    parliament.run_for(MOVES * 2);
    assert_eq!(parliament.leader(), Some(preferred));
    parliament.assert_safe();
}

#[test]
fn a_preferred_voter_that_dies_again_and_again_does_not_lead_however_fast_it_is_back() {
    for seed in 0..10 {
        let mut parliament = preferring(seed, &[0, 0, 0, 0, 9]);
        parliament.crash(4);
        parliament.run_for(LEASE * 2);
        let (steady, terms) = (parliament.leader().expect("a successor"), parliament.leaders.len());
        for _ in 0..20 {
            parliament.start(4);
            parliament.run_for(LEASE * 3 / 2);
            parliament.crash(4);
            parliament.run_for(LEASE / 10);
        }
        assert_eq!((parliament.leader(), parliament.leaders.len()), (Some(steady), terms), "seed {seed}");
        parliament.start(4);
        parliament.run_for(MOVES * 2);
        assert_eq!(parliament.leader(), Some(4), "seed {seed}: once it stays");
    }
}

#[test]
fn a_leader_that_lets_its_claim_run_out_is_outlived_by_no_answer() {
    for seed in 0..30 {
        for on_resign in OnResign::ALL {
            let (mut parliament, leader) = led(seed, 3);
            let policy = LeaderPolicy { on_resign, ..LeaderPolicy::default() };
            parliament.with(leader, |election, _| election.set_policy(policy));
            parliament.run_for(SECOND + Duration::from_millis(seed * 31));
            let (_, kept) = parliament.nodes[leader].claim.expect("somebody keeps this answer");
            parliament.with(leader, Election::resign);
            assert!(parliament.run_until(LEASE + SECOND, |p| p.leader().is_some()), "seed {seed}");
            let is_over = parliament.local(leader, parliament.now) >= kept;
            assert_eq!(is_over, on_resign == OnResign::Expire, "seed {seed}");
            assert_ne!(parliament.leader(), Some(leader), "seed {seed}");
            // The voters are released, by name, as soon as the claim is over.
            let late = parliament.local(leader, parliament.now).since(kept);
            assert!(late <= Duration::from_millis(100), "seed {seed}: {late:?}");
            parliament.run_for(LEASE * 3);
            parliament.assert_safe();
        }
    }
}
