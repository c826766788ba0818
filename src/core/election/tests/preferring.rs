//! Voters that are preferred as leaders, and leaders that let their claim run out.

use std::time::Duration;

use super::cluster::{Cluster, LEASE, id};
use super::scenarios::{SECOND, led};
use crate::election::tests::Election;
use crate::election::{LeaderPolicy, OnResign};
use crate::limits::{PREFERENCE_LEASES, SLOW_DISK_TIMEOUT};

/// Returns voters of these priorities.
fn preferring(seed: u64, priorities: &[u8]) -> Cluster {
    let mut cluster = Cluster::new(seed, priorities.len());
    for (node, priority) in cluster.nodes.iter_mut().zip(priorities) {
        node.policy.priority = *priority;
    }
    cluster.start_all();
    assert!(cluster.run_until(SECOND * 2, |cluster| cluster.leader().is_some()), "nobody leads");
    cluster
}

/// The time for a voter to be preferred, and for the hand-over.
const MOVES: Duration = Duration::from_secs(LEASE.as_secs() * (PREFERENCE_LEASES as u64 + 1));

#[test]
fn the_voter_of_the_highest_priority_that_is_up_leads_in_the_end_and_stays() {
    for seed in 0..30 {
        let mut cluster = preferring(seed, &[0, 7, 3, 255, 7]);
        cluster.run_for(MOVES);
        assert_eq!(cluster.leader(), Some(3), "seed {seed}");
        assert!(cluster.leaders.len() <= 2, "at once, seed {seed}: {:?}", cluster.leaders);
        cluster.crash(3);
        cluster.run_for(LEASE * 2 + MOVES);
        let next = cluster.leader().expect("a successor");
        assert!([1, 4].contains(&next), "seed {seed}: {next}");
        let terms = cluster.leaders.len();
        cluster.run_for(MOVES * 4);
        assert_eq!((cluster.leader(), cluster.leaders.len()), (Some(next), terms), "equals stay, seed {seed}");
        cluster.start(3);
        cluster.run_for(MOVES * 2);
        assert_eq!((cluster.leader(), cluster.leaders.len()), (Some(3), terms + 1), "seed {seed}");
        cluster.assert_safe();
    }
}

#[test]
fn a_preferred_voter_that_comes_and_goes_does_not_lead_at_each_return() {
    for seed in 0..10 {
        let mut cluster = preferring(seed, &[0, 0, 0, 0, 9]);
        cluster.run_for(MOVES);
        cluster.crash(4);
        cluster.run_for(LEASE * 2);
        let (steady, terms) = (cluster.leader().expect("a successor"), cluster.leaders.len());
        for _ in 0..10 {
            cluster.start(4);
            cluster.run_for(LEASE * (PREFERENCE_LEASES - 1));
            assert_eq!(cluster.leader(), Some(steady), "seed {seed}");
            cluster.crash(4);
            cluster.run_for(LEASE * 2);
        }
        assert_eq!((cluster.leader(), cluster.leaders.len()), (Some(steady), terms), "seed {seed}");
        cluster.assert_safe();
    }
}

#[test]
fn a_preferred_voter_gets_leadership_only_after_all_led_work_has_ended() {
    let mut cluster = preferring(3, &[0, 0, 0]);
    let leader = cluster.leader().expect("it leads");
    let preferred = (leader + 1) % 3;
    cluster.crash(preferred);
    cluster.nodes[preferred].policy.priority = 1;
    cluster.start(preferred);
    cluster.ended_work = false;
    let is_resigned = |p: &Cluster| p.losses.iter().any(|(_, node, _)| *node == leader);
    assert!(cluster.run_until(MOVES, is_resigned));
    let (at, ..) = cluster.losses[0];
    assert!(cluster.run_until(LEASE * 2, |p| p.leader().is_some()), "the lease runs out instead");
    assert!(cluster.now - at >= (LEASE / 2).as_nanos() as u64, "nobody may lead while its work goes on");
    cluster.assert_safe();
}

#[test]
fn a_voter_that_cannot_be_elected_is_not_preferred() {
    let mut cluster = preferring(4, &[0, 0, 0]);
    let leader = cluster.leader().expect("it leads");
    let preferred = (leader + 1) % 3;
    cluster.crash(preferred);
    cluster.nodes[preferred].policy.priority = 1;
    cluster.start(preferred);
    // From now on its disk takes nothing new; it goes on acknowledging the view that it has.
    cluster.run_for(SECOND);
    cluster.nodes[preferred].is_disk_full = true;
    cluster.members.push(id(50));
    for node in 0..3 {
        cluster.with(node, Election::members_changed);
    }
    cluster.run_for(MOVES * 3);
    assert_eq!((cluster.leader(), cluster.leaders.len()), (Some(leader), 1));
    cluster.nodes[preferred].is_disk_full = false;
    cluster.run_for(MOVES * 2);
    assert_eq!(cluster.leader(), Some(preferred));
    cluster.assert_safe();
}

#[test]
fn a_preferred_voter_gets_nothing_while_an_operator_waits_for_the_one_that_was_named() {
    for seed in 0..10 {
        let (mut cluster, leader) = led(seed, 5);
        cluster.run_for(MOVES);
        let (named, preferred) = ((leader + 1) % 5, (leader + 2) % 5);
        let term = cluster.nodes[leader].claim.expect("it leads").0;
        cluster.nodes[named].is_disk_full = true;
        cluster.with(leader, |election, context| election.resign_to(context, 1, term, Some(&id(named))));
        let policy = LeaderPolicy { priority: 1, ..LeaderPolicy::default() };
        cluster.with(preferred, |election, _| election.policy = policy);
        cluster.run_for(SLOW_DISK_TIMEOUT * 3 / 4);
        assert_eq!((cluster.leader(), cluster.answers.len()), (Some(leader), 0), "seed {seed}: it waits");
        cluster.nodes[named].is_disk_full = false;
        assert!(cluster.run_until(SECOND, |p| p.leader() == Some(named)), "seed {seed}: {:?}", cluster.answers);
        assert!(matches!(cluster.answers[..], [(1, Ok(_))]), "seed {seed}: {:?}", cluster.answers);
        cluster.run_for(MOVES);
        assert_eq!(cluster.leader(), Some(preferred), "seed {seed}: after that it is preferred");
        cluster.assert_safe();
    }
}

#[test]
fn a_preferred_voter_that_dies_again_and_again_does_not_lead_however_fast_it_is_back() {
    for seed in 0..10 {
        let mut cluster = preferring(seed, &[0, 0, 0, 0, 9]);
        cluster.crash(4);
        cluster.run_for(LEASE * 2);
        let (steady, terms) = (cluster.leader().expect("a successor"), cluster.leaders.len());
        for _ in 0..20 {
            cluster.start(4);
            cluster.run_for(LEASE * 3 / 2);
            cluster.crash(4);
            cluster.run_for(LEASE / 10);
        }
        assert_eq!((cluster.leader(), cluster.leaders.len()), (Some(steady), terms), "seed {seed}");
        cluster.start(4);
        cluster.run_for(MOVES * 2);
        assert_eq!(cluster.leader(), Some(4), "seed {seed}: once it stays");
    }
}

#[test]
fn a_leader_that_lets_its_claim_run_out_is_outlived_by_no_answer() {
    for seed in 0..30 {
        for on_resign in OnResign::ALL {
            let (mut cluster, leader) = led(seed, 3);
            let policy = LeaderPolicy { on_resign, ..LeaderPolicy::default() };
            cluster.with(leader, |election, _| election.policy = policy);
            cluster.run_for(SECOND + Duration::from_millis(seed * 31));
            let (_, kept) = cluster.nodes[leader].claim.expect("somebody keeps this answer");
            cluster.with(leader, Election::resign);
            assert!(cluster.run_until(LEASE + SECOND, |p| p.leader().is_some()), "seed {seed}");
            let is_over = cluster.local(leader, cluster.now) >= kept;
            assert_eq!(is_over, on_resign == OnResign::Expire, "seed {seed}");
            assert_ne!(cluster.leader(), Some(leader), "seed {seed}");
            // The voters are released, by name, as soon as the claim is over.
            let late = cluster.local(leader, cluster.now).since(kept);
            assert!(late <= Duration::from_millis(100), "seed {seed}: {late:?}");
            cluster.run_for(LEASE * 3);
            cluster.assert_safe();
        }
    }
}

#[test]
fn a_preferred_voter_that_was_out_of_reach_for_longer_than_a_lease_has_to_keep_up_anew() {
    for seed in 0..10 {
        let (mut cluster, leader) = led(seed, 3);
        let preferred = (leader + 1) % 3;
        let policy = LeaderPolicy { priority: 1, ..LeaderPolicy::default() };
        cluster.with(preferred, |election, _| election.policy = policy);
        cluster.run_for(LEASE / 2);
        cluster.cut_pair(leader, preferred);
        cluster.run_for(LEASE * 3 / 2);
        cluster.cut.clear();
        cluster.run_for(LEASE * 3);
        assert_eq!(cluster.leader(), Some(leader), "seed {seed}: not for four leases yet");
        cluster.run_for(LEASE * 3);
        assert_eq!(cluster.leader(), Some(preferred), "seed {seed}");
        cluster.assert_safe();
    }
}
