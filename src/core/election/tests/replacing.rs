//! A voter in the place of another, by one command; and the standing of the voters, as their leader knows it.

use std::time::Duration;

use super::cluster::{Cluster, LEASE, id};
use super::scenarios::{SECOND, led};
use crate::election::ChangeError;
use crate::election::tests::Election;

fn with_newcomers(seed: u64, voters: usize, newcomers: usize) -> (Cluster, usize) {
    let (mut cluster, leader) = led(seed, voters);
    for _ in 0..newcomers {
        let new = cluster.add(Vec::new());
        cluster.start(new);
    }
    cluster.run_for(SECOND);
    (cluster, leader)
}

fn replace(cluster: &mut Cluster, leader: usize, ticket: u64, old: usize, new: usize) {
    cluster.with(leader, |election, context| election.replace_voter(context, ticket, &id(old), &id(new)));
}

fn voters(cluster: &Cluster, node: usize) -> Vec<String> {
    let electorate = cluster.election(node).electorate().expect("it has formed");
    electorate.voters.iter().map(|voter| voter.id.to_string()).collect()
}

#[test]
fn one_command_puts_a_voter_in_the_place_of_another_and_never_lets_the_majority_shrink_before() {
    for (seed, old_leads) in (0..6).flat_map(|seed| [(seed, false), (seed, true)]) {
        let (mut cluster, leader) = with_newcomers(seed, 3, 1);
        let old = if old_leads { leader } else { (leader + 1) % 3 };
        replace(&mut cluster, leader, 1, old, 3);
        assert!(cluster.run_until(SECOND * 3, |p| !p.answers.is_empty()));
        assert!(matches!(&cluster.answers[..], [(1, Ok(three))] if three.voters.len() == 3), "{:?}", cluster.answers);
        let fewest = cluster.agreed.values().map(|view| view.electorate.voters.len()).min();
        assert_eq!(fewest, Some(3));
        cluster.run_for(SECOND * 2);
        let now = cluster.leader().expect("led");
        let after = voters(&cluster, now);
        assert!(after.contains(&"v3".to_owned()) && !after.contains(&format!("v{old}")), "{after:?}");
        assert_eq!(now == leader, !old_leads);
        // The command, given again, finds that all is done.
        replace(&mut cluster, now, 2, old, 3);
        assert!(matches!(&cluster.answers[1..], [(2, Ok(_))]), "{:?}", cluster.answers);
        cluster.assert_safe();
    }
}

#[test]
fn a_voter_without_which_nobody_could_be_elected_stays() {
    for (seed, voters) in (0..5).flat_map(|seed| [(seed, 3), (seed, 4), (seed, 5)]) {
        let (mut cluster, leader) = with_newcomers(seed, voters, 0);
        let gone = (voters - 1) / 2;
        let dead: Vec<usize> = (1..=gone).map(|nth| (leader + nth) % voters).collect();
        for node in &dead {
            cluster.crash(*node);
        }
        cluster.run_for(LEASE * 2);
        let other = (leader + voters - 1) % voters;
        if voters == 4 {
            // Three voters are left, two of them alive: one more may be removed.
            cluster.with(leader, |election, context| election.remove_voter(context, 1, &id(other)));
            assert!(cluster.run_until(SECOND * 3, |p| matches!(&p.answers[..], [(1, Ok(_))])));
            continue;
        }
        for (ticket, live) in [(1, leader), (2, other)] {
            cluster.with(leader, |election, context| election.remove_voter(context, ticket, &id(live)));
        }
        replace(&mut cluster, leader, 3, other, dead[0]);
        let is_refused = |answer: &(u64, Result<_, ChangeError>)| match &answer.1 {
            Err(ChangeError::NoMajorityLeft { there, needed, .. }) => there < needed,
            _ => false,
        };
        assert_eq!(cluster.answers.iter().filter(|answer| is_refused(answer)).count(), 3, "{:?}", cluster.answers);
        // The dead may be removed, one after the other, and then the living.
        cluster.answers.clear();
        for (ticket, node) in (4..).zip(dead.iter().chain([&other])) {
            cluster.with(leader, |election, context| election.remove_voter(context, ticket, &id(*node)));
            assert!(cluster.run_until(SECOND * 3, |p| p.answers.iter().any(|(answered, _)| *answered == ticket)));
        }
        assert!(cluster.answers.iter().all(|(_, result)| result.is_ok()), "{:?}", cluster.answers);
        assert_eq!(cluster.leader(), Some(leader));
        cluster.assert_safe();
    }
}

#[test]
fn a_replacement_that_never_learns_leaves_everything_as_it_was() {
    let (mut cluster, leader) = with_newcomers(1, 3, 1);
    let before = voters(&cluster, leader);
    cluster.nodes[3].is_disk_full = true;
    replace(&mut cluster, leader, 1, (leader + 1) % 3, 3);
    cluster.run_for(SECOND * 6);
    assert_eq!(cluster.answers, [(1, Err(ChangeError::LearnerSilent { id: id(3) }))]);
    assert_eq!(voters(&cluster, leader), before);
    replace(&mut cluster, leader, 2, 9, 3);
    let no_voter = Err(ChangeError::NoSuchVoter { id: id(9) });
    assert_eq!(cluster.answers[1..], [(2, no_voter)]);
    cluster.assert_safe();
}

#[test]
fn a_replacement_cut_short_after_its_first_half_says_so_and_is_completed_when_given_again() {
    let (mut cluster, leader) = with_newcomers(2, 3, 1);
    let old = (leader + 1) % 3;
    replace(&mut cluster, leader, 1, old, 3);
    assert!(cluster.run_until(SECOND * 3, |p| p.newest_agreed().is_some_and(|v| v.electorate.voters.len() == 4)));
    cluster.with(leader, Election::resign);
    assert_eq!(cluster.answers, [(1, Err(ChangeError::HalfReplaced { old: id(old), new: id(3) }))]);
    assert!(cluster.run_until(SECOND, |p| p.leader().is_some_and(|now| now != leader)));
    cluster.run_for(SECOND);
    let next = cluster.leader().expect("led");
    replace(&mut cluster, next, 2, old, 3);
    cluster.run_for(SECOND * 2);
    assert!(matches!(&cluster.answers[1..], [(2, Ok(three))] if three.voters.len() == 3), "{:?}", cluster.answers);
    cluster.assert_safe();
}

#[test]
fn a_leader_knows_how_its_voters_stand() {
    let (mut cluster, leader) = with_newcomers(3, 3, 1);
    let dead = (leader + 1) % 3;
    cluster.crash(dead);
    cluster.members.push(id(8));
    cluster.with(leader, Election::members_changed);
    cluster.run_for(LEASE + Duration::from_millis(500));
    let standings = cluster.election(leader).standings(None).expect("it knows");
    let now = cluster.local(leader, cluster.now);
    assert_eq!((standings.acknowledging(now), standings.failure_tolerance(now)), (Some(2), Some(0)));
    for standing in &standings.voters {
        let is_dead = standing.voter.id == id(dead);
        assert_eq!(standings.votes(standing, now), Some(!is_dead));
        assert_eq!(standing.lag, Some(u64::from(is_dead)), "{standing:?}");
        assert_eq!(standing.is_leader, standing.voter.id == id(leader));
    }
    let follower = (leader + 2) % 3;
    let standings = cluster.election(follower).standings(None).expect("it knows the names");
    assert_eq!((standings.acknowledging(now), standings.failure_tolerance(now)), (None, None));
    for standing in &standings.voters {
        let is_me = standing.voter.id == id(follower);
        assert_eq!(standings.votes(standing, now), is_me.then_some(true), "it knows of itself alone");
    }
    // A learner is listed, and does not vote.
    cluster.nodes[3].is_disk_full = true;
    cluster.with(leader, |election, context| election.add_voter(context, 1, id(3)));
    cluster.run_for(Duration::from_millis(500));
    let standings = cluster.election(leader).standings(None).expect("it knows");
    let learner = standings.voters.iter().find(|standing| standing.is_learner).expect("it learns");
    assert_eq!((learner.voter.id.clone(), standings.votes(learner, now)), (id(3), Some(false)));
}
