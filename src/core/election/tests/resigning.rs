//! Leaders that give leadership up while they stay.

use std::time::Duration;

use super::parliament::{LEASE, Parliament, id};
use super::scenarios::{SECOND, led};
use crate::core::election::{ChangeError, Election, LossReason, Term};
use crate::core::member::NodeId;

fn resign_to(parliament: &mut Parliament, node: usize, term: Term, to: Option<&NodeId>) -> Result<(), ChangeError> {
    parliament.answers.clear();
    parliament.with(node, |election, around| election.resign_to(around, 1, term, to));
    let (1, result) = parliament.answers.pop().expect("answered at once") else { panic!("another ticket") };
    result.map(drop)
}

fn term_of(parliament: &Parliament, leader: usize) -> Term {
    parliament.nodes[leader].claim.expect("it leads").0
}

#[test]
fn a_leader_hands_over_to_the_voter_that_was_named_and_stays() {
    for seed in 0..50 {
        let (mut parliament, leader) = led(seed, 5);
        parliament.run_for(SECOND);
        let to = (leader + 1 + seed as usize % 4) % 5;
        let term = term_of(&parliament, leader);
        assert_eq!(resign_to(&mut parliament, leader, term, Some(&id(to))), Ok(()), "seed {seed}");
        assert_eq!(parliament.leader(), None, "its claim ends at once");
        assert!(parliament.run_until(Duration::from_millis(300), |p| p.leader().is_some()), "seed {seed}");
        parliament.run_for(LEASE * 5);
        assert_eq!((parliament.leader(), parliament.leaders.len()), (Some(to), 2), "seed {seed}");
        assert!(parliament.losses.iter().all(|(_, node, why)| *node == leader && *why == LossReason::Resigned));
        parliament.assert_safe();
    }
}

#[test]
fn a_leader_without_a_named_successor_is_succeeded_by_another_voter_at_once() {
    for seed in 0..20 {
        let (mut parliament, leader) = led(seed, 3);
        parliament.run_for(SECOND);
        let term = term_of(&parliament, leader);
        assert_eq!(resign_to(&mut parliament, leader, term, None), Ok(()));
        assert!(parliament.run_until(Duration::from_millis(300), |p| p.leader().is_some()), "seed {seed}");
        assert_ne!(parliament.leader(), Some(leader));
        parliament.assert_safe();
    }
}

#[test]
fn leadership_goes_only_to_a_voter_that_would_be_elected() {
    let (mut parliament, leader) = led(31, 5);
    let stranger = parliament.add(Vec::new());
    parliament.start(stranger);
    parliament.run_for(SECOND);
    let term = term_of(&parliament, leader);
    let (away, follower) = ((leader + 1) % 5, (leader + 2) % 5);
    let resign = |parliament: &mut Parliament, node, term, to| resign_to(parliament, node, term, Some(&id(to)));
    let not_leader = Err(ChangeError::NotLeader);
    assert_eq!(resign(&mut parliament, follower, term, away), not_leader);
    assert_eq!(resign(&mut parliament, leader, Term(term.0 + 1), away), not_leader, "another term was meant");
    let not_voter = Err(ChangeError::NotVoter { id: id(stranger) });
    assert_eq!(resign(&mut parliament, leader, term, stranger), not_voter);
    assert_eq!(resign(&mut parliament, leader, term, leader), Err(ChangeError::LeadsAlready { id: id(leader) }));
    parliament.crash(away);
    parliament.run_for(LEASE);
    let behind = Err(ChangeError::NotCaughtUp { id: id(away) });
    assert_eq!(resign(&mut parliament, leader, term, away), behind, "it is gone");
    // The voter is back, was heard a moment ago, and lacks the newest view.
    parliament.start(away);
    parliament.run_for(SECOND);
    parliament.cut_pair(leader, away);
    parliament.members.push(id(40));
    for node in 0..5 {
        parliament.with(node, Election::members_changed);
    }
    parliament.run_for(LEASE / 5);
    assert_eq!(resign(&mut parliament, leader, term, away), behind, "it is behind");
    assert_eq!(parliament.leader(), Some(leader), "who was refused leads on");
    parliament.cut.clear();
    parliament.run_for(SECOND);
    assert_eq!(resign(&mut parliament, leader, term, away), Ok(()));
    parliament.assert_safe();
}

#[test]
fn a_leader_whose_work_does_not_end_is_succeeded_after_its_lease_by_another() {
    for seed in 0..20 {
        let (mut parliament, leader) = led(seed, 3);
        parliament.ended_work = false;
        parliament.run_for(SECOND);
        let term = term_of(&parliament, leader);
        let to = (leader + 1) % 3;
        assert_eq!(resign_to(&mut parliament, leader, term, Some(&id(to))), Ok(()));
        // The claim was renewed a quarter of a lease ago at most.
        parliament.run_for(LEASE * 7 / 10);
        assert_eq!(parliament.leader(), None, "nobody may lead while its work goes on");
        assert!(parliament.run_until(LEASE + SECOND, |p| p.leader().is_some()), "the lease runs out instead");
        assert_ne!(parliament.leader(), Some(leader), "who did not want to lead lets others stand first, seed {seed}");
        parliament.assert_safe();
    }
}

#[test]
fn a_renewal_that_was_under_way_when_its_leader_resigned_binds_nobody() {
    let (mut parliament, leader) = led(7, 3);
    parliament.run_for(SECOND);
    // The last renewal arrives late, after the release.
    let follower = (leader + 1) % 3;
    let mut late = Vec::new();
    parliament.with(leader, Election::renew);
    parliament.take_words(follower, &mut late);
    assert!(!late.is_empty());
    parliament.with(leader, Election::resign);
    parliament.run_up_to(SECOND, |p| p.election(follower).leader.is_none());
    let ignored = parliament.election(follower).ignored();
    for word in late {
        parliament.with(follower, |election, around| election.heard(around, &id(leader), word));
    }
    assert!(parliament.election(follower).ignored() > ignored);
    assert_eq!(parliament.election(follower).leader, None);
    assert!(parliament.run_until(Duration::from_millis(300), |p| p.leader().is_some()), "nobody waits for a lease");
    parliament.assert_safe();
}
