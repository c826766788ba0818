//! Recoveries by operators: on two sides at once, twice in a row, on both survivors, and where nothing is lost.

use std::time::Duration;

use super::parliament::{LEASE, Parliament, id};
use super::scenarios::{SECOND, led};
use crate::core::election::{Alarm, Body, ChangeError, Descent, Electorate, Lineage, Term, Voter, Word};

/// Returns the voters other than these.
fn others(n: usize, not: &[usize]) -> Vec<usize> {
    (0..n).filter(|node| !not.contains(node)).collect()
}

fn recover(parliament: &mut Parliament, node: usize, ticket: u64, named: &[usize], lineage: u64) {
    let named = named.iter().map(|node| id(*node)).collect();
    parliament.with(node, |election, around| election.recover(around, ticket, named, lineage));
}

/// Returns true if all nodes that are up follow one leader, and are of one lineage.
fn is_one(parliament: &Parliament, nodes: &[usize]) -> bool {
    let lineage = parliament.election(nodes[0]).lineage();
    parliament.claims().len() == 1 && nodes.iter().all(|node| parliament.election(*node).lineage() == lineage)
}

#[test]
fn two_recoveries_on_two_sides_of_a_cut_share_no_term_and_one_of_them_stands_after_it() {
    for (seed, lineages) in (1..20).map(|seed| (seed, [70 + seed, 190 - seed])) {
        let (mut parliament, _) = led(seed, 5);
        parliament.run_for(SECOND);
        parliament.split(&[&[0, 1], &[2, 3], &[4]]);
        parliament.run_for(SECOND * 10);
        recover(&mut parliament, 0, 1, &[1], lineages[0]);
        recover(&mut parliament, 2, 2, &[3], lineages[1]);
        assert!(parliament.run_until(SECOND * 20, |p| p.claims().len() == 2), "{:?}", parliament.answers);
        parliament.run_for(SECOND * 5);
        parliament.split(&[&[0, 1, 2, 3, 4]]);
        // As gossip does now and then.
        for _ in 0..10 {
            let leaders: Vec<usize> = parliament.claims().iter().map(|(node, _)| *node).collect();
            for (one, other) in leaders.iter().flat_map(|one| leaders.iter().map(move |other| (*one, *other))) {
                parliament.with(one, |election, around| election.meet_leader(around, &id(other)));
            }
            parliament.run_for(SECOND);
        }
        assert!(parliament.run_until(SECOND * 30, |p| is_one(p, &[0, 1, 2, 3, 4])), "seed {seed}: both stay");
        // While they were apart both sides had a leader, but not in one term.
        assert!(
            parliament.violations.iter().all(|broken| broken.contains("valid claims")),
            "{:?}",
            parliament.violations
        );
        parliament.violations.clear();
        parliament.run_for(SECOND * 30);
        assert!(is_one(&parliament, &[0, 1, 2, 3, 4]), "seed {seed}");
        parliament.assert_safe();
    }
}

#[test]
fn a_side_that_recovers_after_another_one_died_uses_none_of_its_terms() {
    let (mut parliament, _) = led(4, 5);
    parliament.run_for(SECOND);
    for node in 2..5 {
        parliament.crash(node);
    }
    parliament.run_for(SECOND * 5);
    recover(&mut parliament, 0, 1, &[1], 77);
    assert!(parliament.run_until(SECOND * 20, |p| p.leader().is_some()));
    parliament.run_for(SECOND * 3);
    for node in 0..2 {
        parliament.crash(node);
    }
    for node in [2, 3] {
        parliament.start(node);
    }
    parliament.run_for(SECOND * 5);
    recover(&mut parliament, 2, 2, &[3], 99);
    assert!(parliament.run_until(SECOND * 20, |p| p.leader().is_some()));
    for node in [0, 1, 4] {
        parliament.start(node);
    }
    assert!(parliament.run_until(SECOND * 30, |p| is_one(p, &[0, 1, 2, 3, 4])));
    parliament.run_for(SECOND * 20);
    assert!(is_one(&parliament, &[0, 1, 2, 3, 4]));
    parliament.assert_safe();
}

#[test]
fn the_old_majority_leads_no_more_after_two_recoveries_in_a_row() {
    let (mut parliament, _) = led(5, 5);
    parliament.run_for(SECOND);
    for node in 2..5 {
        parliament.crash(node);
    }
    parliament.run_for(SECOND * 5);
    recover(&mut parliament, 0, 1, &[1], 77);
    assert!(parliament.run_until(SECOND * 20, |p| p.leader().is_some()));
    parliament.crash(1);
    parliament.run_for(SECOND * 5);
    recover(&mut parliament, 0, 2, &[], 99);
    assert!(parliament.run_until(SECOND * 20, |p| p.leader() == Some(0)), "{:?}", parliament.answers);
    parliament.alarms.clear();
    for node in 1..5 {
        parliament.start(node);
    }
    assert!(parliament.run_until(SECOND * 20, |p| is_one(p, &[0, 1, 2, 3, 4])));
    parliament.run_for(SECOND * 60);
    assert!(is_one(&parliament, &[0, 1, 2, 3, 4]));
    assert_eq!(parliament.leader(), Some(0));
    let strange = parliament.alarms.iter().filter(|(_, alarm)| matches!(alarm, Alarm::OtherElectorate { .. })).count();
    assert!(strange < 10, "{strange} alarms");
    parliament.assert_safe();
}

#[test]
fn both_survivors_may_recover_and_are_one_electorate_afterwards() {
    for seed in 6..12 {
        let (mut parliament, _) = led(seed, 5);
        parliament.run_for(SECOND);
        for node in 2..5 {
            parliament.crash(node);
        }
        parliament.run_for(SECOND * 5);
        recover(&mut parliament, 0, 1, &[1], 70 + seed);
        recover(&mut parliament, 1, 2, &[0], 90 - seed);
        assert!(parliament.run_until(SECOND * 30, |p| is_one(p, &[0, 1])), "seed {seed}: {:?}", parliament.answers);
        parliament.run_for(SECOND * 20);
        assert!(is_one(&parliament, &[0, 1]), "seed {seed}");
        parliament.assert_safe();
    }
}

#[test]
fn nothing_is_recovered_while_any_voter_hears_a_leader() {
    let (mut parliament, leader) = led(13, 5);
    parliament.run_for(SECOND);
    let followers = others(5, &[leader]);
    // The operator's voter reaches one voter that the leader reaches, and no other.
    let (lonely, bridge) = (followers[0], followers[1]);
    for node in others(5, &[lonely, bridge]) {
        parliament.cut_pair(lonely, node);
    }
    parliament.run_for(SECOND * 10);
    recover(&mut parliament, lonely, 1, &[bridge], 77);
    parliament.run_for(SECOND * 10);
    assert_eq!(parliament.answers, [(1, Err(ChangeError::LeaderHeard { by: id(bridge) }))]);
    assert_eq!(parliament.leader(), Some(leader));
    parliament.assert_safe();
}

#[test]
fn who_was_voted_out_of_a_generation_that_ended_is_taken_into_the_next_one() {
    let (mut parliament, leader) = led(14, 3);
    parliament.run_for(SECOND);
    let [out, lost] = others(3, &[leader])[..] else { panic!("two") };
    parliament.with(leader, |election, around| election.remove_voter(around, 1, &id(out)));
    parliament.run_for(SECOND * 2);
    parliament.crash(lost);
    parliament.run_for(SECOND * 5);
    recover(&mut parliament, leader, 2, &[], 77);
    assert!(parliament.run_until(SECOND * 20, |p| p.leader() == Some(leader)), "{:?}", parliament.answers);
    // The node has an electorate, never stands, and was told of no other generation.
    parliament.with(leader, |election, around| election.add_voter(around, 3, id(out)));
    parliament.run_for(SECOND * 5);
    assert!(matches!(parliament.answers[..], [(1, Ok(_)), (2, Ok(_)), (3, Ok(_))]), "{:?}", parliament.answers);
    assert_eq!(parliament.leader(), Some(leader));
    assert!(parliament.election(out).is_voter());
    parliament.assert_safe();
}

#[test]
fn a_leader_that_is_heard_while_a_recovery_asks_ends_it() {
    let (mut p, leader) = led(5, 5);
    let me = (leader + 1) % 5;
    for other in (0..5).filter(|node| *node != me) {
        p.cut.insert((me, other));
        p.cut.insert((other, me));
    }
    p.run_for(LEASE * 2);
    p.with(me, |election, around| election.recover(around, 1, Vec::new(), 77));
    assert!(p.answers.is_empty(), "{:?}", p.answers);
    // Messages from this node are lost; the leader's arrive.
    p.cut.remove(&(leader, me));
    p.run_for(SECOND * 10);
    assert!(matches!(p.answers[..], [(1, Err(_))]), "{:?}", p.answers);
    p.assert_safe();
}

#[test]
fn a_second_recovery_whose_announcement_is_lost_is_told_with_each_question() {
    for seed in 0..10 {
        let (mut p, leader) = led(seed, 5);
        p.run_for(SECOND);
        let (one, two) = ((leader + 1) % 5, (leader + 2) % 5);
        for node in (0..5).filter(|node| ![one, two].contains(node)) {
            p.crash(node);
        }
        p.run_for(SECOND * 10);
        p.with(one, |election, around| election.recover(around, 1, vec![id(two)], 77));
        assert!(p.run_until(SECOND * 20, |p| p.leader().is_some()), "first {:?}", p.answers);
        p.run_for(SECOND * 2);
        let (down, up) = if p.leader() == Some(one) { (one, two) } else { (two, one) };
        let fresh = p.add(Vec::new());
        p.start(fresh);
        p.crash(down);
        p.run_for(LEASE * 3);
        p.answers.clear();
        p.with(up, |election, around| election.recover(around, 2, vec![id(fresh)], 78));
        let mut n = 0;
        while p.answers.is_empty() && n < 200_000 {
            p.run_for(Duration::from_micros(100));
            n += 1;
        }
        assert!(matches!(p.answers[..], [(2, Ok(_))]), "{:?}", p.answers);
        p.lose_words();
        p.start(down);
        p.run_for(SECOND * 5);
        assert!(p.leader().is_some(), "seed {seed}");
    }
}

#[test]
fn who_knows_of_a_later_generation_is_not_taken_into_an_earlier_one() {
    let mut p = Parliament::new(3, 3);
    p.start_all();
    p.split(&[&[0], &[1], &[2]]);
    let later = Descent { lineage: Lineage(9), root: Lineage(7), began: Term::beginning_of(2, 5) };
    p.with(0, |election, around| election.knows_of(around, Some(later), None));
    let voters = vec![Voter { id: id(0), identity: p.nodes[0].identity }];
    let electorate = Electorate { lineage: Lineage(8), root: Lineage(7), began: Term::beginning_of(1, 5), voters };
    let word = Word { from: p.nodes[1].identity, lineage: Lineage(8), body: Body::Recovered { electorate, number: 3 } };
    p.with(0, |election, around| election.heard(around, &id(1), word));
    p.run_for(SECOND * 10);
    assert_eq!(p.election(0).lineage(), None);
    assert_eq!(p.leader(), None);
}
