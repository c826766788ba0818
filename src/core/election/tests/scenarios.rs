//! Scenarios, one behaviour each.

use std::time::Duration;

use super::parliament::{LEASE, MS, Parliament, id};
use crate::core::election::{Alarm, ChangeError, Election, LossReason, Term};
use crate::core::time::Time;

pub(super) const SECOND: Duration = Duration::from_secs(1);

pub(super) fn led(seed: u64, voters: usize) -> (Parliament, usize) {
    let mut parliament = Parliament::new(seed, voters);
    parliament.start_all();
    assert!(parliament.run_until(SECOND * 2, |parliament| parliament.leader().is_some()), "nobody leads");
    let leader = parliament.leader().expect("there is one");
    (parliament, leader)
}

#[test]
fn electorates_of_every_size_elect_one_leader_within_a_second() {
    for voters in [1, 2, 3, 5, 7] {
        for seed in 0..20 {
            let mut parliament = Parliament::new(seed, voters);
            parliament.start_all();
            assert!(parliament.run_until(SECOND, |p| p.leader().is_some()), "{voters} voters, seed {seed}");
            parliament.run_for(SECOND * 20);
            assert_eq!(parliament.leaders.len(), 1, "one leader for good, {voters} voters, seed {seed}");
            parliament.assert_safe();
        }
    }
}

#[test]
fn a_dead_leader_is_succeeded_in_a_higher_term_within_its_lease_and_a_second() {
    for seed in 0..50 {
        let (mut parliament, leader) = led(seed, 5);
        parliament.run_for(SECOND * 3);
        parliament.crash(leader);
        let before = parliament.now;
        assert!(parliament.run_until(LEASE + SECOND, |p| p.leader().is_some()), "seed {seed}");
        assert_ne!(parliament.leader(), Some(leader));
        assert_eq!(parliament.leaders.len(), 2, "the first candidate wins, seed {seed} {}", parliament.now - before);
        parliament.assert_safe();
    }
}

#[test]
fn voters_that_are_far_from_each_other_do_not_stand_in_each_others_way() {
    // The nodes are so far apart that an attempt takes several times longer than the spread of the candidates.
    let (mut took, far) = (Vec::new(), (45 * MS, 55 * MS));
    for seed in 0..100 {
        let mut parliament = Parliament::new(seed, 5);
        parliament.delay = far;
        parliament.start_all();
        assert!(parliament.run_until(SECOND * 10, |p| p.leader().is_some()), "seed {seed}");
        parliament.run_for(SECOND * 3);
        let leader = parliament.leader().expect("there is one");
        parliament.crash(leader);
        let before = parliament.now;
        assert!(parliament.run_until(LEASE * 4, |p| p.leader().is_some()), "seed {seed}");
        took.push(Duration::from_nanos(parliament.now - before));
        parliament.assert_safe();
    }
    took.sort_unstable();
    // Three questions and a renewal, there and back.
    let (most, budget) = (took[took.len() - 1], LEASE + Duration::from_millis(50 + 4 * 120));
    assert!(most <= budget, "{most:?} of {budget:?}; half of them within {:?}", took[took.len() / 2]);
}

#[test]
fn a_candidate_that_reaches_too_few_does_not_keep_another_from_standing_for_long() {
    for seed in 0..50 {
        let (mut parliament, leader) = led(seed, 5);
        parliament.run_for(SECOND);
        parliament.crash(leader);
        let rest: Vec<usize> = (0..5).filter(|node| *node != leader).collect();
        let lowest = *rest.iter().min_by_key(|node| parliament.nodes[**node].identity).expect("some");
        let others: Vec<usize> = rest.into_iter().filter(|node| *node != lowest).collect();
        // The voter with the lowest identity is heard by all, and hears one of them alone.
        for other in &others[1..] {
            parliament.cut.insert((*other, lowest));
        }
        let is_led = |p: &Parliament| p.leader().is_some_and(|now| others.contains(&now));
        assert!(parliament.run_until(LEASE * 2 + SECOND, is_led), "seed {seed}");
        parliament.assert_safe();
    }
}

#[test]
fn a_leader_that_resigns_is_succeeded_at_once() {
    for seed in 0..50 {
        let (mut parliament, leader) = led(seed, 5);
        parliament.run_for(SECOND);
        assert_eq!(parliament.with(leader, Election::resign), Some(true));
        assert_eq!(parliament.leader(), None, "its claim ends at once");
        assert!(parliament.run_until(Duration::from_millis(300), |p| p.leader().is_some()), "seed {seed}");
        assert_ne!(parliament.leader(), Some(leader));
        parliament.assert_safe();
    }
}

#[test]
fn voters_are_not_released_before_all_led_work_has_ended() {
    let (mut parliament, leader) = led(1, 3);
    parliament.ended_work = false;
    parliament.run_for(SECOND);
    parliament.with(leader, Election::resign);
    parliament.run_for(LEASE * 9 / 10);
    assert_eq!(parliament.leader(), None, "nobody may lead while its work goes on");
    assert!(parliament.run_until(LEASE + SECOND, |p| p.leader().is_some()), "the lease runs out instead");
    parliament.assert_safe();
}

#[test]
fn a_leader_without_a_majority_steps_down_before_another_can_begin() {
    for seed in 0..50 {
        let (mut parliament, leader) = led(seed, 5);
        parliament.run_for(SECOND);
        let with_leader: Vec<usize> = [leader, (leader + 1) % 5].to_vec();
        let others: Vec<usize> = (0..5).filter(|node| !with_leader.contains(node)).collect();
        parliament.split(&[&with_leader, &others]);
        assert!(parliament.run_until(LEASE + SECOND, |p| p.leader().is_some_and(|now| others.contains(&now))));
        assert!(parliament.losses.iter().any(|(_, node, why)| *node == leader && *why == LossReason::QuorumLost));
        let second = parliament.leader().expect("leads");
        parliament.split(&[&[0, 1, 2, 3, 4]]);
        parliament.run_for(SECOND * 10);
        assert_eq!(parliament.leader(), Some(second), "healing deposes nobody, seed {seed}");
        assert_eq!(parliament.leaders.len(), 2);
        parliament.assert_safe();
    }
}

#[test]
fn a_majority_that_answers_and_cannot_vote_is_no_majority_and_everybody_knows() {
    for (seed, crashes_one) in (0..10).flat_map(|seed| [(seed, false), (seed, true)]) {
        let (mut parliament, leader) = led(seed, 3);
        parliament.run_for(SECOND);
        let (one, two) = ((leader + 1) % 3, (leader + 2) % 3);
        parliament.nodes[one].is_disk_full = true;
        parliament.nodes[two].is_disk_full = true;
        parliament.crash(leader);
        parliament.start(leader);
        if crashes_one {
            parliament.crash(two);
        }
        let knows = |p: &Parliament, node: usize| p.nodes[node].election.as_ref().is_none_or(|e| !e.reaches_quorum());
        let know = parliament.run_until(LEASE * 4, |p| (0..3).all(|node| knows(p, node)));
        assert!(know, "seed {seed}: {:?}", [0, 1, 2].map(|node| knows(&parliament, node)));
        parliament.run_for(SECOND * 20);
        assert!((0..3).all(|node| knows(&parliament, node)), "it stays said, seed {seed}");
        parliament.nodes[one].is_disk_full = false;
        assert!(parliament.run_until(LEASE * 2, |p| p.leader().is_some()), "seed {seed}");
        parliament.run_for(SECOND);
        for node in [leader, one] {
            assert!(parliament.election(node).reaches_quorum(), "seed {seed}");
        }
        parliament.assert_safe();
    }
}

#[test]
fn without_a_majority_nobody_leads_and_everybody_knows() {
    let (mut parliament, leader) = led(3, 5);
    parliament.run_for(SECOND);
    let survivors: Vec<usize> = (0..5).filter(|node| *node != leader).take(2).collect();
    for node in (0..5).filter(|node| !survivors.contains(node)) {
        parliament.crash(node);
    }
    parliament.run_for(SECOND * 60);
    assert_eq!(parliament.leader(), None);
    for node in survivors {
        let election = parliament.nodes[node].election.as_ref().expect("runs");
        assert!(!election.reaches_quorum());
    }
    for node in 0..5 {
        if parliament.nodes[node].election.is_none() {
            parliament.start(node);
        }
    }
    assert!(parliament.run_until(LEASE * 2, |p| p.leader().is_some()));
    assert!(*parliament.leaders.keys().next_back().expect("two terms") > Term(1));
    parliament.assert_safe();
}

#[test]
fn a_voter_that_was_cut_off_deposes_nobody_when_it_returns() {
    let (mut parliament, leader) = led(5, 5);
    let lost = (leader + 1) % 5;
    let others: Vec<usize> = (0..5).filter(|node| *node != lost).collect();
    parliament.split(&[&others, &[lost]]);
    parliament.run_for(SECOND * 120);
    parliament.split(&[&[0, 1, 2, 3, 4]]);
    parliament.run_for(SECOND * 20);
    assert_eq!((parliament.leader(), parliament.leaders.len()), (Some(leader), 1));
    parliament.assert_safe();
}

#[test]
fn a_paused_leader_finds_its_claim_over_before_it_looks_at_anything() {
    let (mut parliament, leader) = led(6, 3);
    parliament.run_for(SECOND);
    parliament.nodes[leader].paused = true;
    assert!(parliament.run_until(LEASE + SECOND, |p| p.leader().is_some_and(|now| now != leader)));
    parliament.resume(leader);
    assert_eq!(parliament.nodes[leader].claim, None);
    let loss = parliament.losses.iter().find(|(_, node, _)| *node == leader).expect("a loss");
    assert_eq!(loss.2, LossReason::Expired, "who stood still has asked nobody whether there is a quorum");
    assert!(!parliament.quorum.contains(&(leader, false)));
    parliament.run_for(SECOND);
    parliament.assert_safe();
}

#[test]
fn changes_of_a_moment_become_one_view_that_everybody_agrees_on() {
    let (mut parliament, _) = led(7, 3);
    parliament.run_for(SECOND * 2);
    let before = parliament.newest_agreed().expect("some view").number;
    for member in [7, 9, 4] {
        parliament.members.push(id(member));
        parliament.members.sort();
        for node in 0..3 {
            parliament.with(node, Election::members_changed);
        }
        parliament.run_for(Duration::from_millis(30));
    }
    parliament.run_for(SECOND * 3);
    let after = parliament.newest_agreed().expect("a view").clone();
    assert_eq!(after.number, before + 1, "three changes, one view");
    assert_eq!(after.members.to_vec(), parliament.members);
    for node in &parliament.nodes {
        assert_eq!(node.agreed.as_ref().map(|view| view.number), Some(after.number));
    }
    parliament.assert_safe();
}

#[test]
fn everybody_restarted_leads_on_in_a_higher_term_after_the_longest_promise() {
    let (mut parliament, _) = led(8, 5);
    parliament.run_for(SECOND * 5);
    for node in 0..5 {
        parliament.crash(node);
    }
    parliament.start_all();
    let began = parliament.now;
    assert!(parliament.run_until(LEASE + SECOND, |p| p.leader().is_some()));
    assert!(parliament.now - began >= LEASE.as_nanos() as u64, "nobody votes before its old promise is over");
    assert_eq!(parliament.leaders.keys().next_back(), Some(&Term(2)));
    parliament.assert_safe();
}

#[test]
fn a_voter_that_lost_its_disk_is_a_stranger_until_it_is_voted_in_again() {
    let (mut parliament, leader) = led(9, 3);
    parliament.run_for(SECOND);
    let lost = (leader + 1) % 3;
    parliament.wipe(lost);
    parliament.start(lost);
    parliament.run_for(SECOND * 3);
    assert!(!parliament.nodes[lost].election.as_ref().expect("runs").is_voter());
    parliament.with(leader, |election, around| election.add_voter(around, 1, id(lost)));
    assert!(matches!(parliament.answers.pop(), Some((1, Err(ChangeError::NoChange { .. })))));
    parliament.with(leader, |election, around| election.remove_voter(around, 2, &id(lost)));
    parliament.run_for(SECOND);
    parliament.with(leader, |election, around| election.add_voter(around, 3, id(lost)));
    parliament.run_for(SECOND * 3);
    let [(2, Ok(two)), (3, Ok(three))] = &parliament.answers[..] else { panic!("{:?}", parliament.answers) };
    assert_eq!((two.voters.len(), three.voters.len()), (2, 3));
    assert!(parliament.nodes[lost].election.as_ref().expect("runs").is_voter());
    // The voter counts: without the third voter, the two are a majority.
    let third = (0..3).find(|node| *node != lost && *node != leader).expect("three");
    parliament.crash(third);
    parliament.run_for(LEASE * 3);
    assert_eq!(parliament.leader(), Some(leader));
    parliament.assert_safe();
}

#[test]
fn a_new_voter_that_knows_nothing_is_taken_in_and_a_leader_voted_out_resigns() {
    let (mut parliament, leader) = led(10, 3);
    let new = parliament.add(Vec::new());
    parliament.start(new);
    parliament.run_for(SECOND);
    parliament.with(leader, |election, around| election.add_voter(around, 1, id(new)));
    parliament.run_for(SECOND * 2);
    parliament.with(leader, |election, around| election.remove_voter(around, 2, &id(leader)));
    parliament.run_for(SECOND * 2);
    assert!(matches!(&parliament.answers[..], [(1, Ok(_)), (2, Ok(_))]), "{:?}", parliament.answers);
    let second = parliament.leader().expect("a successor");
    assert_ne!(second, leader);
    assert!(parliament.losses.iter().any(|(_, node, why)| *node == leader && *why == LossReason::Resigned));
    parliament.crash(leader);
    parliament.run_for(SECOND * 10);
    assert_eq!(parliament.leader(), Some(second), "who was voted out is not needed");
    parliament.assert_safe();
}

#[test]
fn recovery_is_refused_while_a_majority_answers_and_begins_a_new_generation_when_it_is_lost() {
    let (mut parliament, leader) = led(11, 5);
    parliament.run_for(SECOND);
    let survivors: Vec<usize> = (0..5).filter(|node| *node != leader).take(2).collect();
    let [one, two] = survivors[..] else { panic!("two") };
    parliament.with(one, |election, around| election.recover(around, 1, vec![id(two)], 99));
    parliament.run_for(SECOND * 5);
    assert_eq!(parliament.answers.pop(), Some((1, Err(ChangeError::MajorityAnswers))));
    let lost: Vec<usize> = (0..5).filter(|node| !survivors.contains(node)).collect();
    for node in &lost {
        parliament.crash(*node);
    }
    parliament.run_for(SECOND * 10);
    parliament.with(one, |election, around| election.recover(around, 2, vec![id(two)], 99));
    assert!(parliament.run_until(SECOND * 20, |p| p.leader().is_some()), "{:?}", parliament.answers);
    assert!(matches!(parliament.answers[..], [(2, Ok(_))]), "{:?}", parliament.answers);
    let (_, term) = parliament.claims()[0];
    assert_eq!(term.generation(), 1);
    for node in &lost {
        parliament.start(*node);
    }
    parliament.run_for(SECOND * 60);
    let (now, _) = parliament.claims()[0];
    assert!(survivors.contains(&now), "the old side, now the larger one, leads no more");
    assert!(parliament.leaders.keys().filter(|term| term.generation() == 0).count() <= 3);
    parliament.assert_safe();
}

#[test]
fn two_electorates_formed_by_mistake_refuse_each_other() {
    let mut parliament = Parliament::empty(12);
    for group in [[0, 1], [2, 3]] {
        for _ in group {
            parliament.add(group.iter().map(|node| id(*node)).collect());
        }
    }
    parliament.start_all();
    parliament.nodes[2].is_up = false;
    parliament.nodes[3].is_up = false;
    parliament.run_for(SECOND * 2);
    let leader = parliament.leader().expect("of the first two");
    assert!(leader < 2);
    assert_eq!(parliament.claims().len(), 1);
}

#[test]
fn a_voter_whose_disk_fails_stands_aside_and_a_leader_resigns() {
    let (mut parliament, leader) = led(13, 3);
    parliament.run_for(SECOND);
    parliament.nodes[leader].is_disk_full = true;
    change_members(&mut parliament);
    assert!(parliament.run_until(SECOND, |p| p.leader().is_some_and(|now| now != leader)));
    assert!(parliament.alarms.contains(&(leader, Alarm::Aside)), "until a write gets through");
    parliament.nodes[leader].is_disk_full = false;
    parliament.run_for(SECOND);
    assert!(parliament.alarms.contains(&(leader, Alarm::AsideNoMore)));
    parliament.assert_safe();
}

/// Changes the members, so that the leader proposes a view of them to the voters.
fn change_members(parliament: &mut Parliament) {
    parliament.members.push(id(30 + parliament.members.len()));
    for node in 0..parliament.nodes.len() {
        parliament.with(node, Election::members_changed);
    }
}

fn is_aside(parliament: &Parliament) -> bool {
    (0..parliament.nodes.len()).any(|node| parliament.election(node).is_aside())
}

#[test]
fn a_failed_write_of_anything_but_the_ballot_deposes_nobody() {
    let (mut parliament, leader) = led(17, 3);
    parliament.run_for(SECOND);
    for _ in 0..10 {
        for node in 0..3 {
            // The write of an incarnation's bound, or of addresses, fails: the disk has all of the ballot.
            parliament.with(node, Election::store_failed);
        }
        parliament.run_for(SECOND);
        assert!(!is_aside(&parliament));
    }
    assert_eq!((parliament.leader(), parliament.leaders.len()), (Some(leader), 1));
    assert_eq!(parliament.losses, []);
    let aside = parliament.alarms.iter().filter(|(_, alarm)| matches!(alarm, Alarm::Aside | Alarm::AsideNoMore));
    assert_eq!(aside.count(), 0, "nothing is said that is not so");
    parliament.assert_safe();
}

#[test]
fn with_all_disks_full_the_leader_leads_on_until_it_leaves() {
    let (mut parliament, leader) = led(18, 3);
    parliament.run_for(SECOND);
    for node in 0..3 {
        parliament.nodes[node].is_disk_full = true;
        parliament.with(node, Election::store_failed);
    }
    parliament.run_for(SECOND * 30);
    assert_eq!((parliament.leader(), parliament.leaders.len()), (Some(leader), 1), "renewals write nothing");
    // The disks are known to fail, and now a ballot is pending: the next failure says so.
    change_members(&mut parliament);
    let is_told = |p: &Parliament| p.alarms.contains(&(leader, Alarm::Aside));
    assert!(parliament.run_until(SECOND, is_told), "it cannot write the view that it proposes");
    parliament.run_for(SECOND * 10);
    assert_eq!((parliament.leader(), parliament.leaders.len()), (Some(leader), 1), "nobody else could write a vote");
    parliament.with(leader, Election::resign);
    parliament.run_for(SECOND * 10);
    assert_eq!((parliament.leader(), parliament.leaders.len()), (None, 1), "nobody has written a vote");
    for node in 0..3 {
        parliament.nodes[node].is_disk_full = false;
    }
    assert!(parliament.run_until(SECOND * 5, |p| p.leader().is_some()));
    parliament.run_for(SECOND);
    assert!(!is_aside(&parliament));
    let count = |sought: &Alarm| parliament.alarms.iter().filter(|(_, alarm)| alarm == sought).count();
    assert_eq!(count(&Alarm::Aside), count(&Alarm::AsideNoMore), "{:?}", parliament.alarms);
    parliament.assert_safe();
}

#[test]
fn a_vote_that_the_disk_does_not_take_is_not_given() {
    let (mut parliament, leader) = led(19, 3);
    parliament.run_for(SECOND);
    let full = (leader + 1) % 3;
    parliament.nodes[full].is_disk_full = true;
    parliament.with(full, Election::store_failed);
    let term = parliament.election(full).term();
    parliament.crash(leader);
    parliament.run_for(SECOND * 20);
    assert_eq!(parliament.leader(), None, "one vote of three is on a disk");
    assert_eq!(parliament.nodes[full].disk.term, term);
    assert!(parliament.election(full).is_aside());
    parliament.nodes[full].is_disk_full = false;
    assert!(parliament.run_until(SECOND * 5, |p| p.leader().is_some()), "and then it is");
    parliament.assert_safe();
}

#[test]
fn a_renewal_that_gets_lost_is_sent_again_long_before_the_next_one() {
    let (mut parliament, leader) = led(14, 3);
    parliament.loss = 0.4;
    parliament.run_for(SECOND * 120);
    assert_eq!((parliament.leader(), parliament.leaders.len()), (Some(leader), 1));
    parliament.assert_safe();
}

#[test]
fn a_claim_counts_from_when_the_acknowledged_renewal_was_sent() {
    let mut parliament = Parliament::new(15, 3);
    parliament.delay = (200 * MS, 200 * MS);
    parliament.start_all();
    assert!(parliament.run_until(SECOND * 10, |p| p.leader().is_some()));
    let (leader, _) = parliament.claims()[0];
    let (_, until) = parliament.nodes[leader].claim.expect("leads");
    let left = until.since(parliament.local(leader, parliament.now));
    assert!(left + Duration::from_millis(400) <= LEASE * 98 / 100, "{left:?}");
    assert!(until > Time::ORIGIN);
}
