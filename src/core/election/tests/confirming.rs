//! The proof that a node leads now.

use std::time::Duration;

use super::parliament::{LEASE, MS, Nanos, Parliament};
use super::scenarios::{SECOND, led};
use crate::core::election::flaw::Flaw;
use crate::core::election::{Confirmed, Election, Unconfirmed};
use crate::core::limits::{BARRIER_TIMEOUT, MAX_BARRIERS};

fn confirm(parliament: &mut Parliament, node: usize, ticket: u64) {
    parliament.with(node, |election, around| election.confirm(around, ticket));
}

fn answer(parliament: &Parliament, ticket: u64) -> Option<(Nanos, Result<Confirmed, Unconfirmed>)> {
    let of_it = parliament.confirmations.iter().filter(|(_, answered, _)| *answered == ticket);
    let found: Vec<_> = of_it.map(|(at, _, result)| (*at, *result)).collect();
    assert!(found.len() <= 1, "answered once: {found:?}");
    found.first().copied()
}

#[test]
fn a_leader_is_confirmed_by_a_round_that_began_after_the_question() {
    for voters in [1, 2, 3, 5, 7] {
        let (mut parliament, leader) = led(21, voters);
        parliament.run_for(SECOND);
        parliament.delay = (10 * MS, 10 * MS);
        let asked = parliament.now;
        confirm(&mut parliament, leader, 1);
        if voters > 1 {
            parliament.run_for(Duration::from_millis(19));
            assert_eq!(answer(&parliament, 1), None, "no acknowledgement that was under way before counts");
            parliament.run_for(Duration::from_millis(11));
        }
        let (_, result) = answer(&parliament, 1).expect("after one round trip");
        let confirmed = result.expect("it leads");
        let (term, _) = parliament.nodes[leader].claim.expect("a claim");
        assert_eq!(confirmed.term, term);
        let from = parliament.local(leader, asked);
        assert!(confirmed.until >= from + LEASE * 98 / 100, "the claim lasts from the question at least");
        parliament.assert_safe();
    }
}

/// Returns true if acknowledgements of a renewal that was already under way answer a question.
fn is_confirmed_by_what_was_under_way(flaw: Option<Flaw>) -> bool {
    let (mut parliament, leader) = led(21, 3);
    parliament.run_for(SECOND);
    if let Some(flaw) = flaw {
        parliament.nodes[leader].election.as_mut().expect("it runs").plant(flaw);
    }
    parliament.delay = (10 * MS, 10 * MS);
    parliament.with(leader, Election::renew);
    parliament.run_for(Duration::from_millis(9));
    confirm(&mut parliament, leader, 1);
    parliament.run_for(Duration::from_millis(12));
    answer(&parliament, 1).is_some()
}

#[test]
fn a_round_that_began_before_the_question_confirms_nothing() {
    assert!(!is_confirmed_by_what_was_under_way(None));
    assert!(is_confirmed_by_what_was_under_way(Some(Flaw::ConfirmsByOldRounds)));
}

#[test]
fn who_does_not_lead_is_not_confirmed() {
    let (mut parliament, leader) = led(22, 3);
    let follower = (leader + 1) % 3;
    confirm(&mut parliament, follower, 1);
    assert_eq!(answer(&parliament, 1).expect("at once").1, Err(Unconfirmed::NotLeader));
    parliament.with(leader, Election::resign);
    confirm(&mut parliament, leader, 2);
    assert_eq!(answer(&parliament, 2).expect("at once").1, Err(Unconfirmed::NotLeader));
}

#[test]
fn a_leader_that_a_majority_does_not_hear_is_not_confirmed_although_its_claim_stands() {
    let (mut parliament, leader) = led(23, 5);
    parliament.run_for(SECOND);
    let others: Vec<usize> = (0..5).filter(|node| *node != leader).collect();
    parliament.split(&[&[leader, others[0]], &others[1..]]);
    confirm(&mut parliament, leader, 1);
    parliament.run_for(LEASE / 4);
    assert_eq!((parliament.leader(), answer(&parliament, 1)), (Some(leader), None));
    // The claim runs out before the patience does.
    parliament.run_for(LEASE);
    assert_eq!(answer(&parliament, 1).expect("answered").1, Err(Unconfirmed::Lost));
    parliament.assert_safe();
}

#[test]
fn a_question_is_answered_when_the_leader_resigns_and_when_patience_ends() {
    let (mut parliament, leader) = led(24, 3);
    parliament.run_for(SECOND);
    let others: Vec<usize> = (0..3).filter(|node| *node != leader).collect();
    parliament.split(&[&[leader], &others]);
    confirm(&mut parliament, leader, 1);
    parliament.with(leader, Election::resign);
    assert_eq!(answer(&parliament, 1).expect("at once").1, Err(Unconfirmed::Lost));

    let mut parliament = Parliament::new(25, 3);
    for node in &mut parliament.nodes {
        node.timing.lease_duration = BARRIER_TIMEOUT * 4;
        node.timing.renewal_interval = BARRIER_TIMEOUT;
    }
    parliament.start_all();
    assert!(parliament.run_until(SECOND * 10, |parliament| parliament.leader().is_some()));
    parliament.run_for(SECOND);
    let leader = parliament.leader().expect("it leads");
    let others: Vec<usize> = (0..3).filter(|node| *node != leader).collect();
    parliament.split(&[&[leader], &others]);
    confirm(&mut parliament, leader, 1);
    parliament.run_for(BARRIER_TIMEOUT * 99 / 100);
    assert_eq!(answer(&parliament, 1), None);
    parliament.run_for(BARRIER_TIMEOUT / 50);
    assert_eq!(answer(&parliament, 1).expect("in time").1, Err(Unconfirmed::TimedOut));
    assert_eq!(parliament.leader(), Some(leader), "its claim stands all the same");
}

#[test]
fn many_questions_share_a_round_and_too_many_are_turned_away() {
    let (mut parliament, leader) = led(26, 5);
    parliament.run_for(SECOND);
    parliament.delay = (10 * MS, 10 * MS);
    let before = parliament.words;
    for ticket in 0..=MAX_BARRIERS as u64 {
        confirm(&mut parliament, leader, ticket);
    }
    let last = MAX_BARRIERS as u64;
    assert_eq!(answer(&parliament, last).expect("at once").1, Err(Unconfirmed::Busy));
    parliament.run_for(Duration::from_millis(60));
    for ticket in 0..last {
        assert!(answer(&parliament, ticket).is_some_and(|(_, result)| result.is_ok()), "{ticket}");
    }
    let words = parliament.words - before;
    assert!(words <= 3 * 2 * 4, "two rounds, and perhaps a renewal, of four questions and answers: {words}");
    confirm(&mut parliament, leader, last + 1);
    parliament.run_for(Duration::from_millis(60));
    assert!(answer(&parliament, last + 1).is_some_and(|(_, result)| result.is_ok()), "there is room again");
}

#[test]
fn a_lost_round_is_repeated_long_before_the_next_renewal() {
    for seed in 0..50 {
        let (mut parliament, leader) = led(seed, 3);
        parliament.run_for(SECOND);
        parliament.lose_words();
        parliament.loss = 0.5;
        let asked = parliament.now;
        confirm(&mut parliament, leader, 1);
        assert!(parliament.run_until(LEASE, |p| !p.confirmations.is_empty()), "seed {seed}");
        let (at, result) = answer(&parliament, 1).expect("answered");
        if result.is_ok() {
            assert!(at - asked < 1_000 * MS, "seed {seed}: {}", at - asked);
        }
        parliament.assert_safe();
    }
}

#[test]
fn no_confirmation_is_given_after_another_has_led() {
    for seed in 0..40 {
        let (mut parliament, first) = led(seed, 5);
        parliament.loss = 0.2;
        parliament.delay = (MS, 40 * MS);
        let mut ticket = 0;
        let mut asked = Vec::new();
        for round in 0..30 {
            let node = (first + round) % 5;
            if round % 10 == 9 {
                parliament.with(node, Election::resign);
            }
            let highest = parliament.leaders.keys().next_back().copied();
            for node in 0..5 {
                ticket += 1;
                asked.push((ticket, highest));
                confirm(&mut parliament, node, ticket);
            }
            parliament.run_for(Duration::from_millis(150));
        }
        for (ticket, highest) in asked {
            if let Some((_, Ok(confirmed))) = answer(&parliament, ticket) {
                assert!(Some(confirmed.term) >= highest, "seed {seed}: a later leader was there when it was asked");
            }
        }
        parliament.assert_safe();
    }
}
