//! Leaders that give leadership up while they stay.

use std::collections::BTreeSet;
use std::time::Duration;

use super::cluster::{Cluster, LEASE, id};
use super::scenarios::{SECOND, led};
use crate::election::flaw::Flaw;
use crate::election::tests::Election;
use crate::election::{Body, ChangeError, Identity, LossReason, Role, Term};
use crate::limits::SLOW_DISK_TIMEOUT;
use crate::member::NodeId;
use crate::time::Time;

fn resign_to(cluster: &mut Cluster, node: usize, term: Term, to: Option<&NodeId>) -> Result<(), ChangeError> {
    cluster.answers.clear();
    cluster.with(node, |election, context| election.resign_to(context, 1, term, to));
    cluster.run_up_to(SLOW_DISK_TIMEOUT * 2, |p| !p.answers.is_empty());
    let (1, result) = cluster.answers.pop().expect("answered") else { panic!("another ticket") };
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

/// Has the disks of so many of a leader's four followers fill up, unseen, before an operator wants it to resign.
fn resign_beside_full_disks(seed: u64, full: usize, flaw: Option<Flaw>) -> (Cluster, usize, Result<(), ChangeError>) {
    let (mut cluster, leader) = led(seed, 5);
    cluster.run_for(SECOND);
    for step in 1..=full {
        cluster.nodes[(leader + step) % 5].is_disk_full = true;
    }
    if let Some(flaw) = flaw {
        cluster.with(leader, |election, _| election.plant(flaw));
    }
    let term = term_of(&cluster, leader);
    let result = resign_to(&mut cluster, leader, term, None);
    (cluster, leader, result)
}

#[test]
fn a_leader_resigns_only_if_those_that_would_elect_another_one_have_disks_that_store() {
    for seed in 0..10 {
        for full in 0..=2 {
            let (mut cluster, leader, result) = resign_beside_full_disks(seed, full, None);
            assert_eq!(result, Ok(()), "seed {seed}, {full} full");
            assert!(
                cluster.run_until(LEASE, |p| p.leader().is_some_and(|now| now != leader)),
                "seed {seed}, {full} full"
            );
            cluster.assert_safe();
        }
        let (mut cluster, leader, result) = resign_beside_full_disks(seed, 3, None);
        assert!(matches!(result, Err(ChangeError::NotStored { .. })), "seed {seed}: {result:?}");
        for _ in 0..20 {
            cluster.run_for(LEASE / 4);
            assert_eq!(cluster.leader(), Some(leader), "seed {seed}: it leads on");
        }
        for node in &mut cluster.nodes {
            node.is_disk_full = false;
        }
        cluster.run_for(SECOND * 3);
        let term = term_of(&cluster, leader);
        assert_eq!(resign_to(&mut cluster, leader, term, None), Ok(()), "seed {seed}: there is room");
        cluster.assert_safe();
        let (mut cluster, _, result) = resign_beside_full_disks(seed, 3, Some(Flaw::ResignsUntried));
        assert_eq!(result, Ok(()));
        cluster.run_for(LEASE * 3);
        assert_eq!(cluster.leader(), None, "seed {seed}: what the rule is for");
    }
}

#[test]
fn a_command_to_resign_is_answered_once_whatever_becomes_of_its_leader_meanwhile() {
    for seed in 0..10 {
        for step in 0..40 {
            let (mut cluster, leader) = led(seed, 3);
            cluster.run_for(SECOND);
            let term = term_of(&cluster, leader);
            cluster.answers.clear();
            cluster.with(leader, |election, context| election.resign_to(context, 1, term, None));
            cluster.with(leader, |election, context| election.resign_to(context, 2, term, None));
            cluster.run_for(Duration::from_millis(step) / 4);
            match step % 3 {
                0 => drop(cluster.with(leader, Election::resign)),
                1 => cluster.split(&[&[0], &[1], &[2]]),
                _ => {}
            }
            cluster.run_for(LEASE * 2);
            let answered = |ticket| cluster.answers.iter().filter(|(of, _)| *of == ticket).count();
            assert_eq!((answered(1), answered(2)), (1, 1), "seed {seed}, step {step}: {:?}", cluster.answers);
            cluster.assert_safe();
        }
    }
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
    cluster.take_messages(follower, &mut late);
    assert!(!late.is_empty());
    cluster.with(leader, Election::resign);
    cluster.run_up_to(SECOND, |p| p.election(follower).volatile.leader.is_none());
    let ignored = cluster.election(follower).ignored();
    for message in late {
        cluster.with(follower, |election, context| election.receive(context, &id(leader), message));
    }
    assert!(cluster.election(follower).ignored() > ignored);
    assert_eq!(cluster.election(follower).volatile.leader, None);
    assert!(cluster.run_until(Duration::from_millis(300), |p| p.leader().is_some()), "nobody waits for a lease");
    cluster.assert_safe();
}

/// Has a leader of five resign, after `prepare` has changed what it knows of its voters; returns whom it names to succeed.
fn named_by(prepare: impl Fn(&mut Election, Identity, Time), is_changed: impl Fn(usize) -> bool) -> usize {
    let (mut cluster, leader) = led(5, 5);
    cluster.run_for(SECOND);
    let identities: Vec<Identity> = cluster.nodes.iter().map(|node| node.identity).collect();
    for node in (0..5).filter(|node| *node != leader && is_changed(*node)) {
        let identity = identities[node];
        cluster.with(leader, |election, context| prepare(election, identity, context.now));
    }
    cluster.with(leader, Election::resign);
    let mut messages = Vec::new();
    cluster.take_messages((leader + 1) % 5, &mut messages);
    let named = messages.iter().find_map(|message| match message.body {
        Body::Release { successor, .. } => Some(successor),
        _ => None,
    });
    identities.iter().position(|identity| Some(*identity) == named).expect("somebody is named")
}

#[test]
fn of_the_voters_one_that_has_the_newest_view_and_was_heard_lately_is_named_to_succeed() {
    let (_, leader) = led(5, 5);
    for one in (0..5).filter(|node| *node != leader) {
        let lacks_it = |election: &mut Election, identity, _| {
            let Role::Leading(leading) = &mut election.role else { panic!("it leads") };
            leading.accepted.remove(&identity);
        };
        assert_eq!(named_by(lacks_it, |node| node != one), one, "the others lack the newest view");
        let is_silent = |election: &mut Election, identity, now: Time| {
            let Role::Leading(leading) = &mut election.role else { panic!("it leads") };
            leading.heard.get_mut(&identity).expect("it was heard").last = now - LEASE;
        };
        assert_eq!(named_by(is_silent, |node| node != one), one, "the others were heard a lease ago");
    }
}

#[test]
fn who_gave_leadership_up_lets_others_stand_for_a_lease() {
    for seed in 0..10 {
        let (mut cluster, leader) = led(seed, 3);
        cluster.run_for(SECOND);
        cluster.split(&[&[0], &[1], &[2]]);
        let resigned_at = cluster.local(leader, cluster.now);
        cluster.with(leader, Election::resign);
        cluster.run_for(Duration::from_millis(200));
        let election = cluster.election(leader);
        assert!(matches!(election.role, Role::Follower) && election.stand_at >= resigned_at + LEASE, "seed {seed}");
    }
}

#[test]
fn who_was_named_to_succeed_and_drains_has_to_ask_like_others_once_it_is_undrained() {
    let (mut cluster, leader) = led(3, 3);
    let named = (leader + 1) % 3;
    cluster.with(named, |election, context| {
        election.is_successor = true;
        election.note_draining(context, BTreeSet::from([id(named)]));
        election.note_draining(context, BTreeSet::new());
        assert!(!election.is_successor, "somebody may lead meanwhile");
    });
}
