//! Scenarios, one behaviour each.

use std::time::Duration;

use super::cluster::{Cluster, LEASE, MS, id};
use crate::election::tests::Election;
use crate::election::{Alarm, ChangeError, LossReason, Term};
use crate::time::Time;

pub(super) const SECOND: Duration = Duration::from_secs(1);

pub(super) fn led(seed: u64, voters: usize) -> (Cluster, usize) {
    let mut cluster = Cluster::new(seed, voters);
    cluster.start_all();
    assert!(cluster.run_until(SECOND * 2, |cluster| cluster.leader().is_some()), "nobody leads");
    let leader = cluster.leader().expect("there is one");
    (cluster, leader)
}

#[test]
fn electorates_of_every_size_elect_one_leader_within_a_second() {
    for voters in [1, 2, 3, 5, 7] {
        for seed in 0..20 {
            let mut cluster = Cluster::new(seed, voters);
            cluster.start_all();
            assert!(cluster.run_until(SECOND, |p| p.leader().is_some()), "{voters} voters, seed {seed}");
            cluster.run_for(SECOND * 20);
            assert_eq!(cluster.leaders.len(), 1, "one leader for good, {voters} voters, seed {seed}");
            cluster.assert_safe();
        }
    }
}

#[test]
fn a_dead_leader_is_succeeded_in_a_higher_term_within_its_lease_and_a_second() {
    for seed in 0..50 {
        let (mut cluster, leader) = led(seed, 5);
        cluster.run_for(SECOND * 3);
        cluster.crash(leader);
        let before = cluster.now;
        assert!(cluster.run_until(LEASE + SECOND, |p| p.leader().is_some()), "seed {seed}");
        assert_ne!(cluster.leader(), Some(leader));
        assert_eq!(cluster.leaders.len(), 2, "the first candidate wins, seed {seed} {}", cluster.now - before);
        cluster.assert_safe();
    }
}

#[test]
fn voters_that_are_far_from_each_other_do_not_stand_in_each_others_way() {
    // The nodes are so far apart that an attempt takes several times longer than the spread of the candidates.
    let (mut took, far) = (Vec::new(), (45 * MS, 55 * MS));
    for seed in 0..100 {
        let mut cluster = Cluster::new(seed, 5);
        cluster.delay = far;
        cluster.start_all();
        assert!(cluster.run_until(SECOND * 10, |p| p.leader().is_some()), "seed {seed}");
        cluster.run_for(SECOND * 3);
        let leader = cluster.leader().expect("there is one");
        cluster.crash(leader);
        let before = cluster.now;
        assert!(cluster.run_until(LEASE * 4, |p| p.leader().is_some()), "seed {seed}");
        took.push(Duration::from_nanos(cluster.now - before));
        cluster.assert_safe();
    }
    took.sort_unstable();
    // Three questions and a renewal, there and back.
    let (most, budget) = (took[took.len() - 1], LEASE + Duration::from_millis(50 + 4 * 120));
    assert!(most <= budget, "{most:?} of {budget:?}; half of them within {:?}", took[took.len() / 2]);
}

#[test]
fn a_candidate_that_reaches_too_few_does_not_keep_another_from_standing_for_long() {
    for seed in 0..50 {
        let (mut cluster, leader) = led(seed, 5);
        cluster.run_for(SECOND);
        cluster.crash(leader);
        let rest: Vec<usize> = (0..5).filter(|node| *node != leader).collect();
        let lowest = *rest.iter().min_by_key(|node| cluster.nodes[**node].identity).expect("some");
        let others: Vec<usize> = rest.into_iter().filter(|node| *node != lowest).collect();
        // The voter with the lowest identity is heard by all, and hears one of them alone.
        for other in &others[1..] {
            cluster.cut.insert((*other, lowest));
        }
        let is_led = |p: &Cluster| p.leader().is_some_and(|now| others.contains(&now));
        assert!(cluster.run_until(LEASE * 2 + SECOND, is_led), "seed {seed}");
        cluster.assert_safe();
    }
}

#[test]
fn a_leader_that_resigns_is_succeeded_at_once() {
    for seed in 0..50 {
        let (mut cluster, leader) = led(seed, 5);
        cluster.run_for(SECOND);
        assert_eq!(cluster.with(leader, Election::resign), Some(true));
        assert_eq!(cluster.leader(), None, "its claim ends at once");
        assert!(cluster.run_until(Duration::from_millis(300), |p| p.leader().is_some()), "seed {seed}");
        assert_ne!(cluster.leader(), Some(leader));
        cluster.assert_safe();
    }
}

#[test]
fn voters_are_not_released_before_all_led_work_has_ended() {
    let (mut cluster, leader) = led(1, 3);
    cluster.ended_work = false;
    cluster.run_for(SECOND);
    cluster.with(leader, Election::resign);
    cluster.run_for(LEASE * 9 / 10);
    assert_eq!(cluster.leader(), None, "nobody may lead while its work goes on");
    assert!(cluster.run_until(LEASE + SECOND, |p| p.leader().is_some()), "the lease runs out instead");
    cluster.assert_safe();
}

#[test]
fn a_leader_without_a_majority_steps_down_before_another_can_begin() {
    for seed in 0..50 {
        let (mut cluster, leader) = led(seed, 5);
        cluster.run_for(SECOND);
        let with_leader: Vec<usize> = [leader, (leader + 1) % 5].to_vec();
        let others: Vec<usize> = (0..5).filter(|node| !with_leader.contains(node)).collect();
        cluster.split(&[&with_leader, &others]);
        assert!(cluster.run_until(LEASE + SECOND, |p| p.leader().is_some_and(|now| others.contains(&now))));
        assert!(cluster.losses.iter().any(|(_, node, why)| *node == leader && *why == LossReason::QuorumLost));
        let second = cluster.leader().expect("leads");
        cluster.split(&[&[0, 1, 2, 3, 4]]);
        cluster.run_for(SECOND * 10);
        assert_eq!(cluster.leader(), Some(second), "healing deposes nobody, seed {seed}");
        assert_eq!(cluster.leaders.len(), 2);
        cluster.assert_safe();
    }
}

#[test]
fn a_majority_that_answers_and_cannot_vote_is_no_majority_and_everybody_knows() {
    for (seed, crashes_one) in (0..10).flat_map(|seed| [(seed, false), (seed, true)]) {
        let (mut cluster, leader) = led(seed, 3);
        cluster.run_for(SECOND);
        let (one, two) = ((leader + 1) % 3, (leader + 2) % 3);
        cluster.nodes[one].is_disk_full = true;
        cluster.nodes[two].is_disk_full = true;
        cluster.crash(leader);
        cluster.start(leader);
        if crashes_one {
            cluster.crash(two);
        }
        let knows = |p: &Cluster, node: usize| p.nodes[node].election.as_ref().is_none_or(|e| !e.reaches_quorum());
        let know = cluster.run_until(LEASE * 4, |p| (0..3).all(|node| knows(p, node)));
        assert!(know, "seed {seed}: {:?}", [0, 1, 2].map(|node| knows(&cluster, node)));
        cluster.run_for(SECOND * 20);
        assert!((0..3).all(|node| knows(&cluster, node)), "it stays said, seed {seed}");
        cluster.nodes[one].is_disk_full = false;
        assert!(cluster.run_until(LEASE * 2, |p| p.leader().is_some()), "seed {seed}");
        cluster.run_for(SECOND);
        for node in [leader, one] {
            assert!(cluster.election(node).reaches_quorum(), "seed {seed}");
        }
        cluster.assert_safe();
    }
}

#[test]
fn without_a_majority_nobody_leads_and_everybody_knows() {
    let (mut cluster, leader) = led(3, 5);
    cluster.run_for(SECOND);
    let survivors: Vec<usize> = (0..5).filter(|node| *node != leader).take(2).collect();
    for node in (0..5).filter(|node| !survivors.contains(node)) {
        cluster.crash(node);
    }
    cluster.run_for(SECOND * 60);
    assert_eq!(cluster.leader(), None);
    for node in survivors {
        let election = cluster.nodes[node].election.as_ref().expect("runs");
        assert!(!election.reaches_quorum());
    }
    for node in 0..5 {
        if cluster.nodes[node].election.is_none() {
            cluster.start(node);
        }
    }
    assert!(cluster.run_until(LEASE * 2, |p| p.leader().is_some()));
    assert!(*cluster.leaders.keys().next_back().expect("two terms") > Term(1));
    cluster.assert_safe();
}

#[test]
fn a_voter_that_was_cut_off_deposes_nobody_when_it_returns() {
    let (mut cluster, leader) = led(5, 5);
    let lost = (leader + 1) % 5;
    let others: Vec<usize> = (0..5).filter(|node| *node != lost).collect();
    cluster.split(&[&others, &[lost]]);
    cluster.run_for(SECOND * 120);
    cluster.split(&[&[0, 1, 2, 3, 4]]);
    cluster.run_for(SECOND * 20);
    assert_eq!((cluster.leader(), cluster.leaders.len()), (Some(leader), 1));
    cluster.assert_safe();
}

#[test]
fn a_paused_leader_finds_its_claim_over_before_it_looks_at_anything() {
    let (mut cluster, leader) = led(6, 3);
    cluster.run_for(SECOND);
    cluster.nodes[leader].paused = true;
    assert!(cluster.run_until(LEASE + SECOND, |p| p.leader().is_some_and(|now| now != leader)));
    cluster.resume(leader);
    assert_eq!(cluster.nodes[leader].claim, None);
    let loss = cluster.losses.iter().find(|(_, node, _)| *node == leader).expect("a loss");
    assert_eq!(loss.2, LossReason::Expired, "who stood still has asked nobody whether there is a quorum");
    assert!(!cluster.quorum.contains(&(leader, false)));
    assert!(!cluster.alarms.contains(&(leader, crate::election::Alarm::RenewalFailed)), "nor asked for one");
    cluster.run_for(SECOND);
    cluster.assert_safe();
}

#[test]
fn changes_of_a_moment_become_one_view_that_everybody_agrees_on() {
    let (mut cluster, _) = led(7, 3);
    cluster.run_for(SECOND * 2);
    let before = cluster.newest_agreed().expect("some view").number;
    for member in [7, 9, 4] {
        cluster.members.push(id(member));
        cluster.members.sort();
        for node in 0..3 {
            cluster.with(node, Election::members_changed);
        }
        cluster.run_for(Duration::from_millis(30));
    }
    cluster.run_for(SECOND * 3);
    let after = cluster.newest_agreed().expect("a view").clone();
    assert_eq!(after.number, before + 1, "three changes, one view");
    assert_eq!(after.members.to_vec(), cluster.members);
    for node in &cluster.nodes {
        assert_eq!(node.agreed.as_ref().map(|view| view.number), Some(after.number));
    }
    cluster.assert_safe();
}

#[test]
fn everybody_restarted_leads_on_in_a_higher_term_after_the_longest_promise() {
    let (mut cluster, _) = led(8, 5);
    cluster.run_for(SECOND * 5);
    for node in 0..5 {
        cluster.crash(node);
    }
    cluster.start_all();
    let began = cluster.now;
    assert!(cluster.run_until(LEASE + SECOND, |p| p.leader().is_some()));
    assert!(cluster.now - began >= LEASE.as_nanos() as u64, "nobody votes before its old promise is over");
    assert_eq!(cluster.leaders.keys().next_back(), Some(&Term(2)));
    cluster.assert_safe();
}

#[test]
fn a_voter_that_lost_its_disk_is_a_stranger_until_it_is_voted_in_again() {
    let (mut cluster, leader) = led(9, 3);
    cluster.run_for(SECOND);
    let lost = (leader + 1) % 3;
    cluster.wipe(lost);
    cluster.start(lost);
    cluster.run_for(SECOND * 3);
    assert!(!cluster.nodes[lost].election.as_ref().expect("runs").is_voter());
    cluster.with(leader, |election, context| election.add_voter(context, 1, id(lost)));
    assert!(matches!(cluster.answers.pop(), Some((1, Err(ChangeError::NoChange { .. })))));
    cluster.with(leader, |election, context| election.remove_voter(context, 2, &id(lost)));
    cluster.run_for(SECOND);
    cluster.with(leader, |election, context| election.add_voter(context, 3, id(lost)));
    cluster.run_for(SECOND * 3);
    let [(2, Ok(two)), (3, Ok(three))] = &cluster.answers[..] else { panic!("{:?}", cluster.answers) };
    assert_eq!((two.voters.len(), three.voters.len()), (2, 3));
    assert!(cluster.nodes[lost].election.as_ref().expect("runs").is_voter());
    // The voter counts: without the third voter, the two are a majority.
    let third = (0..3).find(|node| *node != lost && *node != leader).expect("three");
    cluster.crash(third);
    cluster.run_for(LEASE * 3);
    assert_eq!(cluster.leader(), Some(leader));
    cluster.assert_safe();
}

#[test]
fn a_new_voter_that_knows_nothing_is_taken_in_and_a_leader_voted_out_resigns() {
    let (mut cluster, leader) = led(10, 3);
    let new = cluster.add(Vec::new());
    cluster.start(new);
    cluster.run_for(SECOND);
    cluster.with(leader, |election, context| election.add_voter(context, 1, id(new)));
    cluster.run_for(SECOND * 2);
    cluster.with(leader, |election, context| election.remove_voter(context, 2, &id(leader)));
    cluster.run_for(SECOND * 2);
    assert!(matches!(&cluster.answers[..], [(1, Ok(_)), (2, Ok(_))]), "{:?}", cluster.answers);
    let second = cluster.leader().expect("a successor");
    assert_ne!(second, leader);
    assert!(cluster.losses.iter().any(|(_, node, why)| *node == leader && *why == LossReason::Resigned));
    cluster.crash(leader);
    cluster.run_for(SECOND * 10);
    assert_eq!(cluster.leader(), Some(second), "who was voted out is not needed");
    cluster.assert_safe();
}

#[test]
fn recovery_waits_for_the_lease_that_its_voter_has_promised_and_says_for_how_long() {
    let (mut cluster, leader) = led(12, 3);
    cluster.run_for(SECOND);
    let left = (leader + 1) % 3;
    for node in (0..3).filter(|node| *node != left) {
        cluster.crash(node);
    }
    cluster.lose_messages();
    let refused_for = |cluster: &mut Cluster| {
        cluster.with(left, |election, context| election.recover(context, 1, Vec::new(), 99, None));
        match cluster.answers.pop() {
            Some((1, Err(ChangeError::LeasePromised { seconds }))) => seconds,
            answer => panic!("{answer:?}"),
        }
    };
    let first = refused_for(&mut cluster);
    assert!((1..=LEASE.as_secs()).contains(&first), "{first} of {LEASE:?}");
    cluster.run_for(SECOND);
    assert!(refused_for(&mut cluster) < first);
    cluster.run_for(LEASE);
    cluster.with(left, |election, context| election.recover(context, 2, Vec::new(), 99, None));
    cluster.run_for(SECOND * 5);
    assert!(matches!(cluster.answers.pop(), Some((2, Ok(_)))), "the promise is over");
    cluster.assert_safe();
}

#[test]
fn recovery_at_a_leader_that_lost_its_majority_says_for_how_long_it_still_leads() {
    let (mut cluster, leader) = led(14, 4);
    cluster.run_for(SECOND);
    let follower = (leader + 1) % 4;
    for node in (0..4).filter(|node| ![leader, follower].contains(node)) {
        cluster.crash(node);
    }
    let refused_for = |cluster: &mut Cluster| {
        cluster.with(leader, |election, context| election.recover(context, 1, vec![id(follower)], 99, None));
        match cluster.answers.pop() {
            Some((1, Err(ChangeError::StillLeads { seconds }))) => seconds,
            answer => panic!("{answer:?}"),
        }
    };
    let first = refused_for(&mut cluster);
    assert!((1..=LEASE.as_secs()).contains(&first), "{first} of {LEASE:?}");
    cluster.run_for(SECOND);
    assert!(refused_for(&mut cluster) < first);
    cluster.run_for(LEASE * 2);
    cluster.with(leader, |election, context| election.recover(context, 2, vec![id(follower)], 99, None));
    cluster.run_for(SECOND * 5);
    assert!(matches!(cluster.answers.pop(), Some((2, Ok(_)))), "its lease and its promise are over");
    cluster.assert_safe();
}

#[test]
fn recovery_is_refused_while_a_majority_answers_and_begins_a_new_generation_when_it_is_lost() {
    let (mut cluster, leader) = led(11, 5);
    cluster.run_for(SECOND);
    let survivors: Vec<usize> = (0..5).filter(|node| *node != leader).take(2).collect();
    let [one, two] = survivors[..] else { panic!("two") };
    cluster.with(one, |election, context| election.recover(context, 1, vec![id(two)], 99, None));
    cluster.run_for(SECOND * 5);
    let refused = cluster.answers.pop();
    assert!(matches!(refused, Some((1, Err(ChangeError::LeasePromised { .. })))), "{refused:?}");
    let lost: Vec<usize> = (0..5).filter(|node| !survivors.contains(node)).collect();
    for node in &lost {
        cluster.crash(*node);
    }
    cluster.run_for(SECOND * 10);
    cluster.with(one, |election, context| election.recover(context, 2, vec![id(two)], 99, None));
    assert!(cluster.run_until(SECOND * 20, |p| p.leader().is_some()), "{:?}", cluster.answers);
    assert!(matches!(cluster.answers[..], [(2, Ok(_))]), "{:?}", cluster.answers);
    let (_, term) = cluster.claims()[0];
    assert_eq!(term.generation(), 1);
    for node in &lost {
        cluster.start(*node);
    }
    cluster.run_for(SECOND * 60);
    let (now, _) = cluster.claims()[0];
    assert!(survivors.contains(&now), "the old side, now the larger one, leads no more");
    assert!(cluster.leaders.keys().filter(|term| term.generation() == 0).count() <= 3);
    cluster.assert_safe();
}

#[test]
fn two_electorates_formed_by_mistake_refuse_each_other() {
    let mut cluster = Cluster::empty(12);
    for group in [[0, 1], [2, 3]] {
        for _ in group {
            cluster.add(group.iter().map(|node| id(*node)).collect());
        }
    }
    cluster.start_all();
    cluster.nodes[2].is_up = false;
    cluster.nodes[3].is_up = false;
    cluster.run_for(SECOND * 2);
    let leader = cluster.leader().expect("of the first two");
    assert!(leader < 2);
    assert_eq!(cluster.claims().len(), 1);
}

#[test]
fn a_voter_whose_disk_fails_stands_aside_and_a_leader_resigns() {
    let (mut cluster, leader) = led(13, 3);
    cluster.run_for(SECOND);
    cluster.nodes[leader].is_disk_full = true;
    change_members(&mut cluster);
    assert!(cluster.run_until(SECOND, |p| p.leader().is_some_and(|now| now != leader)));
    assert!(cluster.alarms.contains(&(leader, Alarm::Aside)), "until a write gets through");
    cluster.nodes[leader].is_disk_full = false;
    cluster.run_for(SECOND);
    assert!(cluster.alarms.contains(&(leader, Alarm::AsideNoMore)));
    cluster.assert_safe();
}

/// Changes the members, so that the leader proposes a view of them to the voters.
fn change_members(cluster: &mut Cluster) {
    cluster.members.push(id(30 + cluster.members.len()));
    for node in 0..cluster.nodes.len() {
        cluster.with(node, Election::members_changed);
    }
}

fn is_aside(cluster: &Cluster) -> bool {
    (0..cluster.nodes.len()).any(|node| cluster.election(node).is_aside())
}

#[test]
fn a_failed_write_of_anything_but_the_ballot_deposes_nobody() {
    let (mut cluster, leader) = led(17, 3);
    cluster.run_for(SECOND);
    for _ in 0..10 {
        for node in 0..3 {
            // The write of an incarnation's bound, or of addresses, fails: the disk has all of the ballot.
            cluster.with(node, Election::store_failed);
        }
        cluster.run_for(SECOND);
        assert!(!is_aside(&cluster));
    }
    assert_eq!((cluster.leader(), cluster.leaders.len()), (Some(leader), 1));
    assert_eq!(cluster.losses, []);
    let aside = cluster.alarms.iter().filter(|(_, alarm)| matches!(alarm, Alarm::Aside | Alarm::AsideNoMore));
    assert_eq!(aside.count(), 0, "nothing is said that is not so");
    cluster.assert_safe();
}

#[test]
fn with_all_disks_full_the_leader_leads_on_until_it_leaves() {
    let (mut cluster, leader) = led(18, 3);
    cluster.run_for(SECOND);
    for node in 0..3 {
        cluster.nodes[node].is_disk_full = true;
        cluster.with(node, Election::store_failed);
    }
    cluster.run_for(SECOND * 30);
    assert_eq!((cluster.leader(), cluster.leaders.len()), (Some(leader), 1), "renewals write nothing");
    // The disks are known to fail, and now a ballot is pending: the next failure says so.
    change_members(&mut cluster);
    let is_told = |p: &Cluster| p.alarms.contains(&(leader, Alarm::Aside));
    assert!(cluster.run_until(SECOND, is_told), "it cannot write the view that it proposes");
    cluster.run_for(SECOND * 10);
    assert_eq!((cluster.leader(), cluster.leaders.len()), (Some(leader), 1), "nobody else could write a vote");
    cluster.with(leader, Election::resign);
    cluster.run_for(SECOND * 10);
    assert_eq!((cluster.leader(), cluster.leaders.len()), (None, 1), "nobody has written a vote");
    for node in 0..3 {
        cluster.nodes[node].is_disk_full = false;
    }
    assert!(cluster.run_until(SECOND * 5, |p| p.leader().is_some()));
    cluster.run_for(SECOND);
    assert!(!is_aside(&cluster));
    let count = |sought: &Alarm| cluster.alarms.iter().filter(|(_, alarm)| alarm == sought).count();
    assert_eq!(count(&Alarm::Aside), count(&Alarm::AsideNoMore), "{:?}", cluster.alarms);
    cluster.assert_safe();
}

#[test]
fn a_vote_that_the_disk_does_not_take_is_not_given() {
    let (mut cluster, leader) = led(19, 3);
    cluster.run_for(SECOND);
    let full = (leader + 1) % 3;
    cluster.nodes[full].is_disk_full = true;
    cluster.with(full, Election::store_failed);
    let term = cluster.election(full).term();
    cluster.crash(leader);
    cluster.run_for(SECOND * 20);
    assert_eq!(cluster.leader(), None, "one vote of three is on a disk");
    assert_eq!(cluster.nodes[full].disk.term, term);
    assert!(cluster.election(full).is_aside());
    cluster.nodes[full].is_disk_full = false;
    assert!(cluster.run_until(SECOND * 5, |p| p.leader().is_some()), "and then it is");
    cluster.assert_safe();
}

#[test]
fn a_renewal_that_gets_lost_is_sent_again_long_before_the_next_one() {
    let (mut cluster, leader) = led(14, 3);
    cluster.loss = 0.4;
    cluster.run_for(SECOND * 120);
    assert_eq!((cluster.leader(), cluster.leaders.len()), (Some(leader), 1));
    cluster.assert_safe();
}

#[test]
fn a_claim_counts_from_when_the_acknowledged_renewal_was_sent() {
    let mut cluster = Cluster::new(15, 3);
    cluster.delay = (200 * MS, 200 * MS);
    cluster.start_all();
    assert!(cluster.run_until(SECOND * 10, |p| p.leader().is_some()));
    let (leader, _) = cluster.claims()[0];
    let (_, until) = cluster.nodes[leader].claim.expect("leads");
    let left = until.since(cluster.local(leader, cluster.now));
    assert!(left + Duration::from_millis(400) <= LEASE * 98 / 100, "{left:?}");
    assert!(until > Time::ORIGIN);
}
