//! The proof that a node leads now.

use std::time::Duration;

use super::cluster::{Cluster, LEASE, MS, Nanos};
use super::scenarios::{SECOND, led};
use crate::election::flaw::Flaw;
use crate::election::tests::Election;
use crate::election::{Confirmed, Unconfirmed};
use crate::limits::{BARRIER_TIMEOUT, MAX_BARRIERS};

fn confirm(cluster: &mut Cluster, node: usize, ticket: u64) {
    cluster.with(node, |election, context| election.confirm(context, ticket));
}

fn answer(cluster: &Cluster, ticket: u64) -> Option<(Nanos, Result<Confirmed, Unconfirmed>)> {
    let of_it = cluster.confirmations.iter().filter(|(_, answered, _)| *answered == ticket);
    let found: Vec<_> = of_it.map(|(at, _, result)| (*at, *result)).collect();
    assert!(found.len() <= 1, "answered once: {found:?}");
    found.first().copied()
}

#[test]
fn a_leader_is_confirmed_by_a_round_that_began_after_the_question() {
    for voters in [1, 2, 3, 5, 7] {
        let (mut cluster, leader) = led(21, voters);
        cluster.run_for(SECOND);
        cluster.delay = (10 * MS, 10 * MS);
        let asked = cluster.now;
        confirm(&mut cluster, leader, 1);
        if voters > 1 {
            cluster.run_for(Duration::from_millis(19));
            assert_eq!(answer(&cluster, 1), None, "no acknowledgement that was under way before counts");
            cluster.run_for(Duration::from_millis(11));
        }
        let (_, result) = answer(&cluster, 1).expect("after one round trip");
        let confirmed = result.expect("it leads");
        let (term, _) = cluster.nodes[leader].claim.expect("a claim");
        assert_eq!(confirmed.term, term);
        let from = cluster.local(leader, asked);
        assert!(confirmed.until >= from + LEASE * 98 / 100, "the claim lasts from the question at least");
        cluster.assert_safe();
    }
}

/// Returns true if acknowledgements of a renewal that was already under way answer a question.
fn is_confirmed_by_what_was_under_way(flaw: Option<Flaw>) -> bool {
    let (mut cluster, leader) = led(21, 3);
    cluster.run_for(SECOND);
    if let Some(flaw) = flaw {
        cluster.nodes[leader].election.as_mut().expect("it runs").plant(flaw);
    }
    cluster.delay = (10 * MS, 10 * MS);
    cluster.with(leader, Election::renew);
    cluster.run_for(Duration::from_millis(9));
    confirm(&mut cluster, leader, 1);
    cluster.run_for(Duration::from_millis(12));
    answer(&cluster, 1).is_some()
}

#[test]
fn a_round_that_began_before_the_question_confirms_nothing() {
    assert!(!is_confirmed_by_what_was_under_way(None));
    assert!(is_confirmed_by_what_was_under_way(Some(Flaw::ConfirmsByOldRounds)));
}

#[test]
fn who_does_not_lead_is_not_confirmed() {
    let (mut cluster, leader) = led(22, 3);
    let follower = (leader + 1) % 3;
    confirm(&mut cluster, follower, 1);
    assert_eq!(answer(&cluster, 1).expect("at once").1, Err(Unconfirmed::NotLeader));
    cluster.with(leader, Election::resign);
    confirm(&mut cluster, leader, 2);
    assert_eq!(answer(&cluster, 2).expect("at once").1, Err(Unconfirmed::NotLeader));
}

#[test]
fn a_leader_that_a_majority_does_not_hear_is_not_confirmed_although_its_claim_stands() {
    let (mut cluster, leader) = led(23, 5);
    cluster.run_for(SECOND);
    let others: Vec<usize> = (0..5).filter(|node| *node != leader).collect();
    cluster.split(&[&[leader, others[0]], &others[1..]]);
    confirm(&mut cluster, leader, 1);
    cluster.run_for(LEASE / 4);
    assert_eq!((cluster.leader(), answer(&cluster, 1)), (Some(leader), None));
    // The claim runs out before the patience does.
    cluster.run_for(LEASE);
    assert_eq!(answer(&cluster, 1).expect("answered").1, Err(Unconfirmed::Lost));
    cluster.assert_safe();
}

#[test]
fn a_question_is_answered_when_the_leader_resigns_and_when_patience_ends() {
    let (mut cluster, leader) = led(24, 3);
    cluster.run_for(SECOND);
    let others: Vec<usize> = (0..3).filter(|node| *node != leader).collect();
    cluster.split(&[&[leader], &others]);
    confirm(&mut cluster, leader, 1);
    cluster.with(leader, Election::resign);
    assert_eq!(answer(&cluster, 1).expect("at once").1, Err(Unconfirmed::Lost));

    let mut cluster = Cluster::new(25, 3);
    for node in &mut cluster.nodes {
        node.timing.lease_duration = BARRIER_TIMEOUT * 4;
        node.timing.renewal_interval = BARRIER_TIMEOUT;
    }
    cluster.start_all();
    assert!(cluster.run_until(SECOND * 10, |cluster| cluster.leader().is_some()));
    cluster.run_for(SECOND);
    let leader = cluster.leader().expect("it leads");
    let others: Vec<usize> = (0..3).filter(|node| *node != leader).collect();
    cluster.split(&[&[leader], &others]);
    confirm(&mut cluster, leader, 1);
    cluster.run_for(BARRIER_TIMEOUT * 99 / 100);
    assert_eq!(answer(&cluster, 1), None);
    cluster.run_for(BARRIER_TIMEOUT / 50);
    assert_eq!(answer(&cluster, 1).expect("in time").1, Err(Unconfirmed::TimedOut));
    assert_eq!(cluster.leader(), Some(leader), "its claim stands all the same");
}

#[test]
fn many_questions_share_a_round_and_too_many_are_turned_away() {
    let (mut cluster, leader) = led(26, 5);
    cluster.run_for(SECOND);
    cluster.delay = (10 * MS, 10 * MS);
    let before = cluster.messages;
    for ticket in 0..=MAX_BARRIERS as u64 {
        confirm(&mut cluster, leader, ticket);
    }
    let last = MAX_BARRIERS as u64;
    assert_eq!(answer(&cluster, last).expect("at once").1, Err(Unconfirmed::Busy));
    cluster.run_for(Duration::from_millis(60));
    for ticket in 0..last {
        assert!(answer(&cluster, ticket).is_some_and(|(_, result)| result.is_ok()), "{ticket}");
    }
    let messages = cluster.messages - before;
    assert!(messages <= 3 * 2 * 4, "two rounds, and perhaps a renewal, of four questions and answers: {messages}");
    confirm(&mut cluster, leader, last + 1);
    cluster.run_for(Duration::from_millis(60));
    assert!(answer(&cluster, last + 1).is_some_and(|(_, result)| result.is_ok()), "there is room again");
}

#[test]
fn a_lost_round_is_repeated_long_before_the_next_renewal() {
    for seed in 0..50 {
        let (mut cluster, leader) = led(seed, 3);
        cluster.run_for(SECOND);
        cluster.lose_messages();
        cluster.loss = 0.5;
        let asked = cluster.now;
        confirm(&mut cluster, leader, 1);
        assert!(cluster.run_until(LEASE, |p| !p.confirmations.is_empty()), "seed {seed}");
        let (at, result) = answer(&cluster, 1).expect("answered");
        if result.is_ok() {
            assert!(at - asked < 1_000 * MS, "seed {seed}: {}", at - asked);
        }
        cluster.assert_safe();
    }
}

#[test]
fn no_confirmation_is_given_after_another_has_led() {
    let (mut confirmed_by_first, mut confirmed_by_others) = (0, 0);
    for seed in 0..40 {
        let (mut cluster, first) = led(seed, 5);
        cluster.loss = 0.2;
        cluster.delay = (MS, 40 * MS);
        let mut ticket = 0;
        let mut asked = Vec::new();
        for round in 0..30 {
            if round % 10 == 9 {
                let leader = cluster.leaders.values().next_back().copied().expect("somebody leads");
                cluster.with(leader, Election::resign);
            }
            let highest = cluster.leaders.keys().next_back().copied();
            for node in 0..5 {
                ticket += 1;
                asked.push((ticket, highest));
                confirm(&mut cluster, node, ticket);
            }
            cluster.run_for(Duration::from_millis(150));
        }
        for (ticket, highest) in asked {
            if let Some((_, Ok(confirmed))) = answer(&cluster, ticket) {
                assert!(Some(confirmed.term) >= highest, "seed {seed}: a later leader was there when it was asked");
                let by_first = cluster.leaders.get(&confirmed.term) == Some(&first);
                *(if by_first { &mut confirmed_by_first } else { &mut confirmed_by_others }) += 1;
            }
        }
        cluster.assert_safe();
    }
    assert!(confirmed_by_first > 100 && confirmed_by_others > 100, "{confirmed_by_first}, {confirmed_by_others}");
}
