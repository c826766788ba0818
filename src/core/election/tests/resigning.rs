//! Leaders that give leadership up while they stay.

use std::time::Duration;

use super::cluster::{LEASE, Cluster, id};
use super::scenarios::{SECOND, led};
use crate::core::election::{ChangeError, Election, LossReason, Term};
use crate::core::member::NodeId;

fn resign_to(cluster: &mut Cluster, node: usize, term: Term, to: Option<&NodeId>) -> Result<(), ChangeError> {
    cluster.answers.clear();
    cluster.with(node, |election, context| election.resign_to(context, 1, term, to));
    let (1, result) = cluster.answers.pop().expect("answered at once") else { panic!("another ticket") };
    result.map(drop)
}

fn term_of(cluster: &Cluster, leader: usize) -> Term {
    cluster.nodes[leader].claim.expect("it leads").0
}

#[test]
fn a_leader_hands_over_to_the_voter_that_was_named_and_stays() {
    for seed in 0..50 {
        let (mut cluster, leader) = led(seed, 5);
        cluster.run_for(SECOND);
        let to = (leader + 1 + seed as usize % 4) % 5;
        let term = term_of(&cluster, leader);
        assert_eq!(resign_to(&mut cluster, leader, term, Some(&id(to))), Ok(()), "seed {seed}");
        assert_eq!(cluster.leader(), None, "its claim ends at once");
        assert!(cluster.run_until(Duration::from_millis(300), |p| p.leader().is_some()), "seed {seed}");
        cluster.run_for(LEASE * 5);
        assert_eq!((cluster.leader(), cluster.leaders.len()), (Some(to), 2), "seed {seed}");
        assert!(cluster.losses.iter().all(|(_, node, why)| *node == leader && *why == LossReason::Resigned));
        cluster.assert_safe();
    }
}

#[test]
fn a_leader_without_a_named_successor_is_succeeded_by_another_voter_at_once() {
    for seed in 0..20 {
        let (mut cluster, leader) = led(seed, 3);
        cluster.run_for(SECOND);
        let term = term_of(&cluster, leader);
        assert_eq!(resign_to(&mut cluster, leader, term, None), Ok(()));
        assert!(cluster.run_until(Duration::from_millis(300), |p| p.leader().is_some()), "seed {seed}");
        assert_ne!(cluster.leader(), Some(leader));
        cluster.assert_safe();
    }
}

#[test]
fn leadership_goes_only_to_a_voter_that_would_be_elected() {
    let (mut cluster, leader) = led(31, 5);
    let stranger = cluster.add(Vec::new());
    cluster.start(stranger);
    cluster.run_for(SECOND);
    let term = term_of(&cluster, leader);
    let (away, follower) = ((leader + 1) % 5, (leader + 2) % 5);
    let resign = |cluster: &mut Cluster, node, term, to| resign_to(cluster, node, term, Some(&id(to)));
    let not_leader = Err(ChangeError::NotLeader);
    assert_eq!(resign(&mut cluster, follower, term, away), not_leader);
    assert_eq!(resign(&mut cluster, leader, Term(term.0 + 1), away), not_leader, "another term was meant");
    let not_voter = Err(ChangeError::NotVoter { id: id(stranger) });
    assert_eq!(resign(&mut cluster, leader, term, stranger), not_voter);
    assert_eq!(resign(&mut cluster, leader, term, leader), Err(ChangeError::LeadsAlready { id: id(leader) }));
    cluster.crash(away);
    cluster.run_for(LEASE);
    let behind = Err(ChangeError::NotCaughtUp { id: id(away) });
    assert_eq!(resign(&mut cluster, leader, term, away), behind, "it is gone");
    // The voter is back, was heard a moment ago, and lacks the newest view.
    cluster.start(away);
    cluster.run_for(SECOND);
    cluster.cut_pair(leader, away);
    cluster.members.push(id(40));
    for node in 0..5 {
        cluster.with(node, Election::members_changed);
    }
    cluster.run_for(LEASE / 5);
    assert_eq!(resign(&mut cluster, leader, term, away), behind, "it is behind");
    assert_eq!(cluster.leader(), Some(leader), "who was refused leads on");
    cluster.cut.clear();
    cluster.run_for(SECOND);
    assert_eq!(resign(&mut cluster, leader, term, away), Ok(()));
    cluster.assert_safe();
}

#[test]
fn a_leader_whose_work_does_not_end_is_succeeded_after_its_lease_by_another() {
    for seed in 0..20 {
        let (mut cluster, leader) = led(seed, 3);
        cluster.ended_work = false;
        cluster.run_for(SECOND);
        let term = term_of(&cluster, leader);
        let to = (leader + 1) % 3;
        assert_eq!(resign_to(&mut cluster, leader, term, Some(&id(to))), Ok(()));
        // The claim was renewed a quarter of a lease ago at most.
        cluster.run_for(LEASE * 7 / 10);
        assert_eq!(cluster.leader(), None, "nobody may lead while its work goes on");
        assert!(cluster.run_until(LEASE + SECOND, |p| p.leader().is_some()), "the lease runs out instead");
        assert_ne!(cluster.leader(), Some(leader), "who did not want to lead lets others stand first, seed {seed}");
        cluster.assert_safe();
    }
}

#[test]
fn a_renewal_that_was_under_way_when_its_leader_resigned_binds_nobody() {
    let (mut cluster, leader) = led(7, 3);
    cluster.run_for(SECOND);
    // The last renewal arrives late, after the release.
    let follower = (leader + 1) % 3;
    let mut late = Vec::new();
    cluster.with(leader, Election::renew);
    cluster.take_words(follower, &mut late);
    assert!(!late.is_empty());
    cluster.with(leader, Election::resign);
    cluster.run_up_to(SECOND, |p| p.election(follower).leader.is_none());
    let ignored = cluster.election(follower).ignored();
    for word in late {
        cluster.with(follower, |election, context| election.receive(context, &id(leader), word));
    }
    assert!(cluster.election(follower).ignored() > ignored);
    assert_eq!(cluster.election(follower).leader, None);
    assert!(cluster.run_until(Duration::from_millis(300), |p| p.leader().is_some()), "nobody waits for a lease");
    cluster.assert_safe();
}
