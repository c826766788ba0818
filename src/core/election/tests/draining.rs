//! Voters that drain: they vote, and lead nothing.

use std::collections::BTreeSet;
use std::time::Duration;

use super::cluster::{Cluster, LEASE, id};
use super::scenarios::{SECOND, led};
use crate::election::{ChangeError, LossReason};

/// Lets everybody know which voters drain, as gossip does.
fn drain(cluster: &mut Cluster, draining: &[usize]) {
    let names: BTreeSet<_> = draining.iter().map(|node| id(*node)).collect();
    for node in 0..cluster.nodes.len() {
        cluster.with(node, |election, context| election.note_draining(context, names.clone()));
    }
}

#[test]
fn a_leader_that_drains_hands_over_to_one_that_does_not_and_leads_no_more() {
    for seed in 0..30 {
        let (mut cluster, leader) = led(seed, 5);
        cluster.run_for(SECOND);
        let other = (leader + 1) % 5;
        drain(&mut cluster, &[leader, other]);
        assert_eq!(cluster.leader(), None, "its claim ends at once");
        assert!(cluster.run_until(Duration::from_millis(300), |p| p.leader().is_some()), "seed {seed}");
        cluster.run_for(LEASE * 5);
        let next = cluster.leader().expect("somebody leads");
        assert!(next != leader && next != other, "seed {seed}: {next}");
        assert_eq!(cluster.leaders.len(), 2, "seed {seed}: the successor was a good one");
        assert!(cluster.losses.iter().all(|(_, node, why)| *node == leader && *why == LossReason::Resigned));
        cluster.assert_safe();
    }
}

#[test]
fn where_no_other_voter_may_lead_whoever_gave_leadership_up_leads_again_at_once() {
    for seed in 0..20 {
        for voters in [1, 3] {
            for is_drained in [true, false] {
                let (mut cluster, leader) = led(seed, voters);
                cluster.run_for(SECOND);
                let others: Vec<usize> = (0..voters).filter(|node| *node != leader).collect();
                drain(&mut cluster, &others);
                let term = cluster.nodes[leader].claim.expect("it leads").0;
                if is_drained {
                    drain(&mut cluster, &(0..voters).collect::<Vec<_>>());
                    drain(&mut cluster, &others);
                } else {
                    cluster.with(leader, |election, context| election.resign_to(context, 1, term, None));
                    cluster.run_up_to(SECOND, |p| !p.answers.is_empty());
                }
                assert_eq!(cluster.leader(), None, "seed {seed}: its claim ended");
                assert!(cluster.run_until(LEASE / 4, |p| p.leader() == Some(leader)), "seed {seed}, of {voters}");
                assert!(cluster.nodes[leader].claim.expect("it leads").0 > term);
                cluster.assert_safe();
            }
        }
    }
}

#[test]
fn a_voter_that_drains_votes_for_others() {
    for seed in 0..20 {
        let (mut cluster, leader) = led(seed, 3);
        cluster.run_for(SECOND);
        let (drained, left) = ((leader + 1) % 3, (leader + 2) % 3);
        drain(&mut cluster, &[drained]);
        cluster.run_for(SECOND);
        cluster.crash(leader);
        assert!(cluster.run_until(LEASE * 4, |p| p.leader().is_some()), "seed {seed}");
        assert_eq!(cluster.leader(), Some(left), "seed {seed}");
        cluster.assert_safe();
    }
}

#[test]
fn where_all_voters_drain_nobody_leads_until_one_is_undrained() {
    for seed in 0..20 {
        let (mut cluster, leader) = led(seed, 3);
        cluster.run_for(SECOND);
        drain(&mut cluster, &[0, 1, 2]);
        cluster.run_for(LEASE * 10);
        assert_eq!((cluster.leader(), cluster.leaders.len()), (None, 1), "seed {seed}");
        assert!((0..3).all(|node| cluster.election(node).reaches_quorum()), "no voter is out of reach");
        let undrained = (leader + 1) % 3;
        let others: Vec<usize> = (0..3).filter(|node| *node != undrained).collect();
        drain(&mut cluster, &others);
        assert!(cluster.run_until(LEASE * 4, |p| p.leader().is_some()), "seed {seed}");
        assert_eq!(cluster.leader(), Some(undrained), "seed {seed}");
        cluster.assert_safe();
    }
}

#[test]
fn leadership_is_not_handed_to_a_voter_that_drains() {
    let (mut cluster, leader) = led(7, 3);
    cluster.run_for(SECOND);
    let to = (leader + 1) % 3;
    drain(&mut cluster, &[to]);
    let term = cluster.nodes[leader].claim.expect("it leads").0;
    cluster.answers.clear();
    cluster.with(leader, |election, context| election.resign_to(context, 1, term, Some(&id(to))));
    let refused = cluster.answers.pop().map(|(_, result)| result.map(drop));
    assert_eq!(refused, Some(Err(ChangeError::Draining { id: id(to) })));
    assert_eq!(cluster.leader(), Some(leader));
}

#[test]
fn a_leader_that_is_undrained_before_it_has_given_anything_up_leads_on() {
    let mut waited = 0;
    for seed in 0..10 {
        let (mut cluster, leader) = led(seed, 3);
        cluster.run_for(SECOND);
        let other = id((leader + 1) % 3);
        cluster.with(leader, |election, context| election.remove_voter(context, 1, &other));
        cluster.run_up_to(SECOND, |p| {
            let election = p.election(leader);
            let accepted = election.ballot().accepted.as_ref();
            election.is_changing() && accepted.is_some_and(|view| view.change.is_some())
        });
        drain(&mut cluster, &[leader]);
        let has_claim = cluster.leader() == Some(leader);
        drain(&mut cluster, &[]);
        cluster.run_for(LEASE * 5);
        if has_claim {
            // The change in flight is taken back, or done, and that is all.
            assert_eq!((cluster.leader(), cluster.leaders.len()), (Some(leader), 1), "seed {seed}");
            waited += 1;
        }
        assert!(cluster.leader().is_some(), "seed {seed}");
        cluster.assert_safe();
    }
    assert!(waited > 0, "a change was in flight");
}
