//! Recoveries by operators: on two sides at once, twice in a row, on both survivors, and where nothing is lost.

use std::time::Duration;

use super::cluster::{Cluster, LEASE, id};
use super::scenarios::{SECOND, led};
use crate::election::flaw::Flaw;
use crate::election::{Alarm, Body, ChangeError, Descent, ElectionMessage, Electorate, Lineage, Term, Voter};
use crate::limits::EARLIEST_FOUNDING;

/// Returns the voters other than these.
fn others(n: usize, not: &[usize]) -> Vec<usize> {
    (0..n).filter(|node| !not.contains(node)).collect()
}

fn recover(cluster: &mut Cluster, node: usize, ticket: u64, named: &[usize], lineage: u64) {
    let named = named.iter().map(|node| id(*node)).collect();
    cluster.with(node, |election, context| election.recover(context, ticket, named, lineage, None));
}

/// Returns true if all nodes that are up follow one leader, and are sure of one electorate.
fn is_one(cluster: &Cluster, nodes: &[usize]) -> bool {
    let founded = cluster.election(nodes[0]).founded();
    cluster.claims().len() == 1 && nodes.iter().all(|node| cluster.election(*node).founded() == founded)
}

#[test]
fn two_recoveries_on_two_sides_of_a_cut_share_no_term_and_one_of_them_stands_after_it() {
    for (seed, lineages) in (1..20).map(|seed| (seed, [70 + seed, 190 - seed])) {
        let (mut cluster, _) = led(seed, 5);
        cluster.run_for(SECOND);
        cluster.split(&[&[0, 1], &[2, 3], &[4]]);
        cluster.run_for(SECOND * 10);
        recover(&mut cluster, 0, 1, &[1], lineages[0]);
        recover(&mut cluster, 2, 2, &[3], lineages[1]);
        assert!(cluster.run_until(SECOND * 20, |p| p.claims().len() == 2), "{:?}", cluster.answers);
        cluster.run_for(SECOND * 5);
        cluster.split(&[&[0, 1, 2, 3, 4]]);
        // As gossip does now and then.
        for _ in 0..10 {
            cluster.gossip();
            cluster.run_for(SECOND);
        }
        assert!(cluster.run_until(SECOND * 30, |p| is_one(p, &[0, 1, 2, 3, 4])), "seed {seed}: both stay");
        // While they were apart both sides had a leader, but not in one term.
        assert!(cluster.violations.iter().all(|broken| broken.contains("valid claims")), "{:?}", cluster.violations);
        cluster.violations.clear();
        cluster.run_for(SECOND * 30);
        assert!(is_one(&cluster, &[0, 1, 2, 3, 4]), "seed {seed}");
        cluster.assert_safe();
    }
}

#[test]
fn a_side_that_recovers_after_another_one_died_uses_none_of_its_terms() {
    let (mut cluster, _) = led(4, 5);
    cluster.run_for(SECOND);
    for node in 2..5 {
        cluster.crash(node);
    }
    cluster.run_for(SECOND * 5);
    recover(&mut cluster, 0, 1, &[1], 77);
    assert!(cluster.run_until(SECOND * 20, |p| p.leader().is_some()));
    cluster.run_for(SECOND * 3);
    for node in 0..2 {
        cluster.crash(node);
    }
    for node in [2, 3] {
        cluster.start(node);
    }
    cluster.run_for(SECOND * 5);
    recover(&mut cluster, 2, 2, &[3], 99);
    assert!(cluster.run_until(SECOND * 20, |p| p.leader().is_some()));
    for node in [0, 1, 4] {
        cluster.start(node);
    }
    assert!(cluster.run_until(SECOND * 30, |p| is_one(p, &[0, 1, 2, 3, 4])));
    cluster.run_for(SECOND * 20);
    assert!(is_one(&cluster, &[0, 1, 2, 3, 4]));
    cluster.assert_safe();
}

#[test]
fn the_old_majority_leads_no_more_after_two_recoveries_in_a_row() {
    let (mut cluster, _) = led(5, 5);
    cluster.run_for(SECOND);
    for node in 2..5 {
        cluster.crash(node);
    }
    cluster.run_for(SECOND * 5);
    recover(&mut cluster, 0, 1, &[1], 77);
    assert!(cluster.run_until(SECOND * 20, |p| p.leader().is_some()));
    cluster.crash(1);
    cluster.run_for(SECOND * 5);
    recover(&mut cluster, 0, 2, &[], 99);
    assert!(cluster.run_until(SECOND * 20, |p| p.leader() == Some(0)), "{:?}", cluster.answers);
    cluster.alarms.clear();
    for node in 1..5 {
        cluster.start(node);
    }
    assert!(cluster.run_until(SECOND * 20, |p| is_one(p, &[0, 1, 2, 3, 4])));
    cluster.run_for(SECOND * 60);
    assert!(is_one(&cluster, &[0, 1, 2, 3, 4]));
    assert_eq!(cluster.leader(), Some(0));
    let strange = cluster.alarms.iter().filter(|(_, alarm)| matches!(alarm, Alarm::OtherElectorate { .. })).count();
    assert!(strange < 10, "{strange} alarms");
    cluster.assert_safe();
}

#[test]
fn both_survivors_may_recover_and_are_one_electorate_afterwards() {
    for seed in 6..12 {
        let (mut cluster, _) = led(seed, 5);
        cluster.run_for(SECOND);
        for node in 2..5 {
            cluster.crash(node);
        }
        cluster.run_for(SECOND * 5);
        recover(&mut cluster, 0, 1, &[1], 70 + seed);
        recover(&mut cluster, 1, 2, &[0], 90 - seed);
        assert!(cluster.run_until(SECOND * 30, |p| is_one(p, &[0, 1])), "seed {seed}: {:?}", cluster.answers);
        cluster.run_for(SECOND * 20);
        assert!(is_one(&cluster, &[0, 1]), "seed {seed}");
        cluster.assert_safe();
    }
}

#[test]
fn nothing_is_recovered_while_any_voter_hears_a_leader() {
    let (mut cluster, leader) = led(13, 5);
    cluster.run_for(SECOND);
    let followers = others(5, &[leader]);
    // The operator's voter reaches one voter that the leader reaches, and no other.
    let (lonely, bridge) = (followers[0], followers[1]);
    for node in others(5, &[lonely, bridge]) {
        cluster.cut_pair(lonely, node);
    }
    cluster.run_for(SECOND * 10);
    recover(&mut cluster, lonely, 1, &[bridge], 77);
    cluster.run_for(SECOND * 10);
    assert_eq!(cluster.answers, [(1, Err(ChangeError::LeaderHeard { by: id(bridge) }))]);
    assert_eq!(cluster.leader(), Some(leader));
    cluster.assert_safe();
}

#[test]
fn who_was_voted_out_of_a_generation_that_ended_is_taken_into_the_next_one() {
    let (mut cluster, leader) = led(14, 3);
    cluster.run_for(SECOND);
    let [out, lost] = others(3, &[leader])[..] else { panic!("two") };
    cluster.with(leader, |election, context| election.remove_voter(context, 1, &id(out)));
    cluster.run_for(SECOND * 2);
    cluster.crash(lost);
    cluster.run_for(SECOND * 5);
    recover(&mut cluster, leader, 2, &[], 77);
    assert!(cluster.run_until(SECOND * 20, |p| p.leader() == Some(leader)), "{:?}", cluster.answers);
    // The node has an electorate, never stands, and was told of no other generation.
    cluster.with(leader, |election, context| election.add_voter(context, 3, id(out)));
    cluster.run_for(SECOND * 5);
    assert!(matches!(cluster.answers[..], [(1, Ok(_)), (2, Ok(_)), (3, Ok(_))]), "{:?}", cluster.answers);
    assert_eq!(cluster.leader(), Some(leader));
    assert!(cluster.election(out).is_voter());
    cluster.assert_safe();
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
    p.with(me, |election, context| election.recover(context, 1, Vec::new(), 77, None));
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
        p.with(one, |election, context| election.recover(context, 1, vec![id(two)], 77, None));
        assert!(p.run_until(SECOND * 20, |p| p.leader().is_some()), "first {:?}", p.answers);
        p.run_for(SECOND * 2);
        let (down, up) = if p.leader() == Some(one) { (one, two) } else { (two, one) };
        let fresh = p.add(Vec::new());
        p.start(fresh);
        p.crash(down);
        p.run_for(LEASE * 3);
        p.answers.clear();
        p.with(up, |election, context| election.recover(context, 2, vec![id(fresh)], 78, None));
        let mut n = 0;
        while p.answers.is_empty() && n < 200_000 {
            p.run_for(Duration::from_micros(100));
            n += 1;
        }
        assert!(matches!(p.answers[..], [(2, Ok(_))]), "{:?}", p.answers);
        p.lose_messages();
        p.start(down);
        p.run_for(SECOND * 5);
        assert!(p.leader().is_some(), "seed {seed}");
    }
}

#[test]
fn who_knows_of_a_later_generation_is_not_taken_into_an_earlier_one() {
    let mut p = Cluster::new(3, 3);
    p.start_all();
    p.split(&[&[0], &[1], &[2]]);
    let later =
        Descent { lineage: Lineage(9), root: Lineage(7), began: Term::beginning_of(2, 5), founded: EARLIEST_FOUNDING };
    p.with(0, |election, context| election.learn_of(context, Some(later), None));
    let voters = vec![Voter { id: id(0), identity: p.nodes[0].identity }];
    let (lineage, root, began, founded) = (Lineage(8), Lineage(7), Term::beginning_of(1, 5), EARLIEST_FOUNDING);
    let electorate = Electorate { lineage, root, began, founded, voters };
    let message = ElectionMessage {
        from: p.nodes[1].identity,
        lineage: Lineage(8),
        body: Body::Generation { electorate, number: 3 },
    };
    p.with(0, |election, context| election.receive(context, &id(1), message));
    p.run_for(SECOND * 10);
    assert_eq!(p.election(0).lineage(), None);
    assert_eq!(p.leader(), None);
}

/// Recovers at a voter whose disk is slow, while another one that is left asks it for its vote; returns true if that
/// one goes over to a generation that is on no disk, and that the first one forgets when it dies.
fn is_told_of_what_is_on_no_disk(seed: u64, flaw: Option<Flaw>) -> bool {
    let (mut cluster, leader) = led(seed, 5);
    cluster.run_for(SECOND);
    let (one, two) = ((leader + 1) % 5, (leader + 2) % 5);
    for node in others(5, &[one, two]) {
        cluster.crash(node);
    }
    cluster.run_for(SECOND * 10);
    if let Some(flaw) = flaw {
        cluster.nodes[one].election.as_mut().expect("it runs").plant(flaw);
    }
    let slow = LEASE.as_nanos() as u64;
    cluster.nodes[one].write_delay = Some((slow, slow));
    recover(&mut cluster, one, 1, &[two], 77);
    let has_begun = |p: &Cluster, node: usize| p.election(node).ballot().term.generation() > 0;
    assert!(cluster.run_until(SECOND * 5, |p| has_begun(p, one)), "seed {seed}: {:?}", cluster.answers);
    for _ in 0..5 {
        cluster.with(two, |election, context| election.put_off(context, Duration::ZERO));
        cluster.wake(two);
        cluster.run_for(LEASE / 10);
    }
    assert_eq!(cluster.nodes[one].disk.term.generation(), 0, "it is being written");
    let is_told = has_begun(&cluster, two);
    // Once it is on disk, it is told.
    assert!(cluster.run_until(LEASE, |p| has_begun(p, two)), "seed {seed}");
    cluster.nodes[one].write_delay = None;
    assert!(cluster.run_until(LEASE * 3, |p| p.leader().is_some()), "seed {seed}");
    cluster.assert_safe();
    is_told
}

#[test]
fn nobody_is_told_of_a_generation_before_it_is_on_the_disk_of_who_tells() {
    for seed in 0..10 {
        assert!(!is_told_of_what_is_on_no_disk(seed, None), "seed {seed}");
    }
    assert!((0..10).any(|seed| is_told_of_what_is_on_no_disk(seed, Some(Flaw::TellsBeforeDisk))));
}
