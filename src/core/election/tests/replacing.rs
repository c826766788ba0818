//! A voter in the place of another, by one command; and the standing of the voters, as their leader knows it.

use std::time::Duration;

use super::parliament::{LEASE, Parliament, id};
use super::scenarios::{SECOND, led};
use crate::core::election::{ChangeError, Election, Unchanged};

fn with_newcomers(seed: u64, voters: usize, newcomers: usize) -> (Parliament, usize) {
    let (mut parliament, leader) = led(seed, voters);
    for _ in 0..newcomers {
        let new = parliament.add(Vec::new());
        parliament.start(new);
    }
    parliament.run_for(SECOND);
    (parliament, leader)
}

fn replace(parliament: &mut Parliament, leader: usize, ticket: u64, old: usize, new: usize) {
    parliament.with(leader, |election, around| election.replace_voter(around, ticket, &id(old), &id(new)));
}

fn voters(parliament: &Parliament, node: usize) -> Vec<String> {
    let electorate = parliament.election(node).electorate().expect("it has formed");
    electorate.voters.iter().map(|voter| voter.id.to_string()).collect()
}

#[test]
fn one_command_puts_a_voter_in_the_place_of_another_and_never_lets_the_majority_shrink_before() {
    for (seed, old_leads) in (0..6).flat_map(|seed| [(seed, false), (seed, true)]) {
        let (mut parliament, leader) = with_newcomers(seed, 3, 1);
        let old = if old_leads { leader } else { (leader + 1) % 3 };
        replace(&mut parliament, leader, 1, old, 3);
        assert!(parliament.run_until(SECOND * 3, |p| !p.answers.is_empty()));
        assert!(
            matches!(&parliament.answers[..], [(1, Ok(three))] if three.voters.len() == 3),
            "{:?}",
            parliament.answers
        );
        let fewest = parliament.agreed.values().map(|view| view.electorate.voters.len()).min();
        assert_eq!(fewest, Some(3));
        parliament.run_for(SECOND * 2);
        let now = parliament.leader().expect("led");
        let after = voters(&parliament, now);
        assert!(after.contains(&"v3".to_owned()) && !after.contains(&format!("v{old}")), "{after:?}");
        assert_eq!(now == leader, !old_leads);
        // The command, given again, finds that all is done.
        replace(&mut parliament, now, 2, old, 3);
        assert!(matches!(&parliament.answers[1..], [(2, Ok(_))]), "{:?}", parliament.answers);
        parliament.assert_safe();
    }
}

#[test]
fn a_voter_without_which_nobody_could_be_elected_stays() {
    for (seed, voters) in (0..5).flat_map(|seed| [(seed, 3), (seed, 4), (seed, 5)]) {
        let (mut parliament, leader) = with_newcomers(seed, voters, 0);
        let gone = (voters - 1) / 2;
        let dead: Vec<usize> = (1..=gone).map(|nth| (leader + nth) % voters).collect();
        for node in &dead {
            parliament.crash(*node);
        }
        parliament.run_for(LEASE * 2);
        let other = (leader + voters - 1) % voters;
        if voters == 4 {
            // Three voters are left, two of them alive: one more may be removed.
            parliament.with(leader, |election, around| election.remove_voter(around, 1, &id(other)));
            assert!(parliament.run_until(SECOND * 3, |p| matches!(&p.answers[..], [(1, Ok(_))])));
            continue;
        }
        for (ticket, live) in [(1, leader), (2, other)] {
            parliament.with(leader, |election, around| election.remove_voter(around, ticket, &id(live)));
        }
        replace(&mut parliament, leader, 3, other, dead[0]);
        let is_refused = |answer: &(u64, Result<_, ChangeError>)| matches!(&answer.1, Err(ChangeError::NoMajorityLeft { there, needed, .. }) if there < needed);
        assert_eq!(
            parliament.answers.iter().filter(|answer| is_refused(answer)).count(),
            3,
            "{:?}",
            parliament.answers
        );
        // The dead may be removed, one after the other, and then the living.
        parliament.answers.clear();
        for (ticket, node) in (4..).zip(dead.iter().chain([&other])) {
            parliament.with(leader, |election, around| election.remove_voter(around, ticket, &id(*node)));
            assert!(parliament.run_until(SECOND * 3, |p| p.answers.iter().any(|(answered, _)| *answered == ticket)));
        }
        assert!(parliament.answers.iter().all(|(_, result)| result.is_ok()), "{:?}", parliament.answers);
        assert_eq!(parliament.leader(), Some(leader));
        parliament.assert_safe();
    }
}

#[test]
fn a_replacement_that_never_learns_leaves_everything_as_it_was() {
    let (mut parliament, leader) = with_newcomers(1, 3, 1);
    let before = voters(&parliament, leader);
    parliament.nodes[3].is_disk_full = true;
    replace(&mut parliament, leader, 1, (leader + 1) % 3, 3);
    parliament.run_for(SECOND * 6);
    assert_eq!(parliament.answers, [(1, Err(ChangeError::LearnerSilent { id: id(3) }))]);
    assert_eq!(voters(&parliament, leader), before);
    replace(&mut parliament, leader, 2, 9, 3);
    let no_voter = Err(ChangeError::NoChange { reason: Unchanged::VotesNot });
    assert_eq!(parliament.answers[1..], [(2, no_voter)]);
    parliament.assert_safe();
}

#[test]
fn a_replacement_cut_short_after_its_first_half_says_so_and_is_completed_when_given_again() {
    let (mut parliament, leader) = with_newcomers(2, 3, 1);
    let old = (leader + 1) % 3;
    replace(&mut parliament, leader, 1, old, 3);
    assert!(parliament.run_until(SECOND * 3, |p| p.newest_agreed().is_some_and(|v| v.electorate.voters.len() == 4)));
    parliament.with(leader, Election::resign);
    assert_eq!(parliament.answers, [(1, Err(ChangeError::HalfReplaced { old: id(old), new: id(3) }))]);
    assert!(parliament.run_until(SECOND, |p| p.leader().is_some_and(|now| now != leader)));
    parliament.run_for(SECOND);
    let next = parliament.leader().expect("led");
    replace(&mut parliament, next, 2, old, 3);
    parliament.run_for(SECOND * 2);
    assert!(
        matches!(&parliament.answers[1..], [(2, Ok(three))] if three.voters.len() == 3),
        "{:?}",
        parliament.answers
    );
    parliament.assert_safe();
}

#[test]
fn a_leader_knows_how_its_voters_stand() {
    let (mut parliament, leader) = with_newcomers(3, 3, 1);
    let dead = (leader + 1) % 3;
    parliament.crash(dead);
    parliament.members.push(id(8));
    parliament.with(leader, Election::members_changed);
    parliament.run_for(LEASE + Duration::from_millis(500));
    let standings = parliament.election(leader).standings().expect("it knows");
    let now = parliament.local(leader, parliament.now);
    assert_eq!((standings.acknowledging(now), standings.failure_tolerance(now)), (Some(2), Some(0)));
    for standing in &standings.voters {
        let is_dead = standing.voter.id == id(dead);
        assert_eq!(standings.votes(standing, now), Some(!is_dead));
        assert_eq!(standing.lag, Some(u64::from(is_dead)), "{standing:?}");
        assert_eq!(standing.is_leader, standing.voter.id == id(leader));
    }
    let follower = (leader + 2) % 3;
    let standings = parliament.election(follower).standings().expect("it knows the names");
    assert_eq!((standings.acknowledging(now), standings.failure_tolerance(now)), (None, None));
    for standing in &standings.voters {
        let is_me = standing.voter.id == id(follower);
        assert_eq!(standings.votes(standing, now), is_me.then_some(true), "it knows of itself alone");
    }
    // A learner is listed, and does not vote.
    parliament.nodes[3].is_disk_full = true;
    parliament.with(leader, |election, around| election.add_voter(around, 1, id(3)));
    parliament.run_for(Duration::from_millis(500));
    let standings = parliament.election(leader).standings().expect("it knows");
    let learner = standings.voters.iter().find(|standing| standing.is_learner).expect("it learns");
    assert_eq!((learner.voter.id.clone(), standings.votes(learner, now)), (id(3), Some(false)));
}
