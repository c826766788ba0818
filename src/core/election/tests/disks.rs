//! Electorates that change while a disk fails: an operator who waits for it is told, and nobody else is.

use std::time::Duration;

use super::cluster::{Cluster, LEASE, MS, id};
use super::scenarios::{SECOND, led};
use crate::election::ChangeError;
use crate::election::flaw::Flaw;
use crate::election::tests::Election;
use crate::limits::{CHANGE_TIMEOUT, LEARNING_TIMEOUT, SLOW_DISK_TIMEOUT, STORING_TIMEOUT};
use crate::member::NodeId;

/// Commands that change the electorate of three voters; the fourth node does not vote.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Command {
    Remove,
    RemoveLeader,
    Add,
    Replace,
}

pub(super) const COMMANDS: [Command; 4] = [Command::Remove, Command::RemoveLeader, Command::Add, Command::Replace];

pub(super) fn with_newcomer(seed: u64, voters: usize) -> (Cluster, usize) {
    let (mut cluster, leader) = led(seed, voters);
    let new = cluster.add(Vec::new());
    cluster.start(new);
    cluster.run_for(SECOND);
    (cluster, leader)
}

pub(super) fn give(cluster: &mut Cluster, leader: usize, voters: usize, ticket: u64, command: Command) {
    let (other, new) = (id((leader + 1) % voters), id(voters));
    cluster.with(leader, |election, context| match command {
        Command::Remove => election.remove_voter(context, ticket, &other),
        Command::RemoveLeader => election.remove_voter(context, ticket, &id(leader)),
        Command::Add => election.add_voter(context, ticket, new),
        Command::Replace => election.replace_voter(context, ticket, &other, &new),
    });
}

fn voters(cluster: &Cluster, node: usize) -> usize {
    cluster.election(node).electorate().expect("it has formed").voters.len()
}

fn heal(cluster: &mut Cluster) {
    cluster.nodes.iter_mut().for_each(|node| node.is_disk_full = false);
    cluster.run_for(LEASE * 3);
    assert!(cluster.leader().is_some(), "led once the disk works");
    assert!(!cluster.nodes.iter().flat_map(|node| &node.election).any(Election::is_aside));
    cluster.assert_safe();
}

#[test]
fn a_change_that_its_leader_cannot_store_is_put_to_nobody_and_the_other_voters_elect_a_leader() {
    for (seed, command) in (0..5).flat_map(|seed| COMMANDS.map(|command| (seed, command))) {
        let (mut cluster, leader) = with_newcomer(seed, 3);
        cluster.nodes[leader].is_disk_full = true;
        give(&mut cluster, leader, 3, 1, command);
        cluster.run_for(SECOND);
        assert_eq!(cluster.answers, [(1, Err(ChangeError::OwnDisk { id: id(leader) }))], "{command:?}");
        assert_eq!((0..3).map(|node| voters(&cluster, node)).collect::<Vec<_>>(), [3; 3]);
        assert!(cluster.run_until(LEASE * 2, |p| p.leader().is_some()), "{command:?}, seed {seed}");
        let next = cluster.leader().expect("led");
        assert_ne!(next, leader);
        heal(&mut cluster);
        assert_eq!(voters(&cluster, leader), 3, "it was told otherwise");
        let now = cluster.leader().expect("led");
        give(&mut cluster, now, 3, 2, Command::Add);
        assert!(
            cluster.run_until(SECOND * 3, |p| matches!(&p.answers[1..], [(2, Ok(four))] if four.voters.len() == 4))
        );
    }
}

#[test]
fn nobody_hears_of_a_change_while_its_leaders_disk_is_slow() {
    let (mut cluster, leader) = with_newcomer(1, 3);
    // The change is taken back if the write takes longer than this.
    let slow = CHANGE_TIMEOUT.as_nanos() as u64 * 4 / 5;
    cluster.nodes[leader].write_delay = Some((slow, slow));
    give(&mut cluster, leader, 3, 1, Command::Remove);
    assert!(cluster.run_until(LEASE, |p| p.election(leader).awaits_own_disk()), "it is being written");
    for _ in 0..75 {
        cluster.run_for(CHANGE_TIMEOUT / 100);
        assert!(cluster.election(leader).awaits_own_disk() && cluster.leader() == Some(leader));
        for node in (0..4).filter(|node| *node != leader) {
            let newest = cluster.election(node).ballot.accepted.as_ref();
            assert!(newest.is_none_or(|view| view.change.is_none()), "v{node} has heard of it");
        }
    }
    assert!(cluster.run_until(LEASE * 4, |p| matches!(&p.answers[..], [(1, Ok(two))] if two.voters.len() == 2)));
}

#[test]
fn planted_change_that_is_put_before_the_leader_has_stored_it_is_caught() {
    let (mut cluster, leader) = with_newcomer(1, 3);
    cluster.nodes[leader].election.as_mut().expect("it runs").plant(Flaw::ChangeBeforeDisk);
    cluster.nodes[leader].is_disk_full = true;
    give(&mut cluster, leader, 3, 1, Command::Remove);
    assert!(!cluster.run_until(LEASE * 4, |p| p.leader().is_some_and(|now| now != leader)), "somebody leads");
    assert_ne!(cluster.answers, [(1, Err(ChangeError::OwnDisk { id: id(leader) }))]);
}

#[test]
fn one_disk_that_fails_at_any_step_of_a_change_leaves_a_leader_and_an_answer() {
    for (command, failing) in COMMANDS.into_iter().flat_map(|command| (0..5).map(move |nth| (command, nth))) {
        for after in [0, 1, 2, 3, 4, 5, 6, 8, 10, 13, 17, 25, 60, 250] {
            // Four voters: whichever is removed, the others are enough without the one whose disk fails.
            let (mut cluster, leader) = with_newcomer(after, 4);
            give(&mut cluster, leader, 4, 1, command);
            cluster.run_for(Duration::from_millis(after));
            let failing = if failing == 4 { 4 } else { (leader + failing) % 4 };
            cluster.nodes[failing].is_disk_full = true;
            // Something is to be written before long.
            cluster.members.push(id(30));
            for node in 0..4 {
                cluster.with(node, Election::members_changed);
            }
            let most = LEARNING_TIMEOUT + CHANGE_TIMEOUT * 3 + LEASE * 2;
            let what = format!("{command:?}, the disk of {failing} fails after {after} ms");
            assert!(cluster.run_until(most, |p| !p.answers.is_empty()), "{what}: no answer");
            cluster.run_for(LEASE * 2);
            assert!(cluster.leader().is_some(), "{what}: {:?}", cluster.answers);
            heal(&mut cluster);
            assert_eq!(cluster.answers.len(), 1, "{what}: {:?}", cluster.answers);
        }
    }
}

/// Gives a command to two voters, one of which stores nothing; returns the error, which comes within this time, and
/// that voter.
fn answer_where_one_of_two_stores_nothing(
    is_in_flight: bool,
    within: Duration,
    give: impl FnOnce(&mut Cluster, usize),
) -> (ChangeError, NodeId, Cluster) {
    let (mut cluster, leader) = with_newcomer(3, 2);
    let other = 1 - leader;
    cluster.nodes[other].is_disk_full = true;
    if is_in_flight {
        cluster.members.push(id(30));
        cluster.with(leader, Election::members_changed);
        cluster.run_for(STORING_TIMEOUT * 2);
        assert_eq!(cluster.leader(), Some(leader), "it is answered");
    }
    give(&mut cluster, leader);
    assert!(cluster.run_until(within, |p| !p.answers.is_empty()), "no answer");
    let [(1, Err(error))] = &cluster.answers[..] else { panic!("{:?}", cluster.answers) };
    (error.clone(), id(other), cluster)
}

#[test]
fn a_command_that_waits_for_a_voter_that_stores_nothing_is_refused_with_its_name() {
    for command in COMMANDS {
        let give = |cluster: &mut Cluster, leader: usize| give(cluster, leader, 2, 1, command);
        let most = LEARNING_TIMEOUT + Duration::from_millis(100);
        let (error, other, mut cluster) = answer_where_one_of_two_stores_nothing(true, most, give);
        assert_eq!(error, ChangeError::NotStored { id: other }, "{command:?}");
        heal(&mut cluster);
        assert_eq!(voters(&cluster, cluster.leader().expect("led")), 2, "nothing changed");
    }
    let resign = |cluster: &mut Cluster, leader: usize| {
        let term = cluster.election(leader).term();
        cluster.with(leader, |election, context| election.resign_to(context, 1, term, None));
    };
    let (error, other, cluster) = answer_where_one_of_two_stores_nothing(true, Duration::ZERO, resign);
    assert_eq!(error, ChangeError::NotStored { id: other });
    assert!(cluster.leader().is_some(), "nobody else could lead");
}

#[test]
fn a_change_that_is_neither_made_nor_taken_back_for_a_disk_is_answered_with_the_voters_name_and_settled_later() {
    for command in COMMANDS {
        let most = LEARNING_TIMEOUT + SLOW_DISK_TIMEOUT + STORING_TIMEOUT + Duration::from_millis(MS / 5_000);
        let give = |cluster: &mut Cluster, leader: usize| give(cluster, leader, 2, 1, command);
        let (error, other, mut cluster) = answer_where_one_of_two_stores_nothing(false, most, give);
        assert_eq!(error, ChangeError::Unsettled { id: other.clone() }, "{command:?}");
        let leader = cluster.leader().expect("led");
        cluster.with(leader, |election, context| election.remove_voter(context, 2, &other));
        assert_eq!(cluster.answers[1..], [(2, Err(ChangeError::NotStored { id: other }))], "the next one, at once");
        heal(&mut cluster);
        assert_eq!(cluster.answers.len(), 2, "each is answered once");
        let now = cluster.leader().expect("led");
        let size = voters(&cluster, now);
        cluster.with(now, |election, context| election.add_voter(context, 3, id(2)));
        assert!(cluster.run_until(SECOND * 3, |p| p.answers.len() == 3), "commands are taken again, {size}");
    }
}

/// Fills these disks and lets a member that does not vote go; returns the leader by 8 s later.
fn leader_after_a_member_went(
    seed: u64,
    voters: usize,
    full: usize,
    flaw: Option<Flaw>,
) -> (Cluster, [Option<usize>; 2]) {
    let (mut cluster, leader) = led(seed, voters);
    cluster.members.push(id(30));
    cluster.with(leader, Election::members_changed);
    cluster.run_for(SECOND);
    if let (Some(flaw), Some(election)) = (flaw, &mut cluster.nodes[leader].election) {
        election.plant(flaw);
    }
    for nth in 0..full {
        cluster.nodes[(leader + nth) % voters].is_disk_full = true;
    }
    cluster.members.retain(|member| *member != id(30));
    cluster.with(leader, Election::members_changed);
    cluster.run_for(SECOND * 8);
    let after = cluster.leader();
    (cluster, [Some(leader), after])
}

#[test]
fn where_too_few_disks_work_to_elect_anybody_a_leader_leads_on_without_agreeing_on_members() {
    for (seed, (voters, full)) in
        (0..10).flat_map(|seed| [(1, 1), (2, 1), (3, 2), (3, 3), (5, 3), (5, 5)].map(|full| (seed, full)))
    {
        let (mut cluster, [before, after]) = leader_after_a_member_went(seed, voters, full, None);
        assert_eq!(before, after, "{full} of {voters} disks are full");
        assert!(cluster.newest_agreed().is_some_and(|view| view.members.contains(&id(30))));
        heal(&mut cluster);
        assert!(cluster.newest_agreed().is_some_and(|view| !view.members.contains(&id(30))));
    }
}

#[test]
fn a_leader_whose_disk_fails_hands_over_to_those_whose_disks_work() {
    for (seed, (voters, full)) in (0..10).flat_map(|seed| [(3, 1), (5, 1), (5, 2)].map(|full| (seed, full))) {
        let (cluster, [before, after]) = leader_after_a_member_went(seed, voters, full, None);
        assert!(after.is_some_and(|after| Some(after) != before && !cluster.nodes[after].is_disk_full));
        assert!(cluster.newest_agreed().is_some_and(|view| !view.members.contains(&id(30))));
        cluster.assert_safe();
    }
}

#[test]
fn planted_leader_that_resigns_although_nobody_else_could_be_elected_is_caught() {
    let (_, [_, after]) = leader_after_a_member_went(1, 3, 3, Some(Flaw::ResignsToNobody));
    assert_eq!(after, None);
}

#[test]
fn a_replacement_whose_second_half_its_leader_cannot_store_is_said_to_be_half_done() {
    let (mut cluster, leader) = with_newcomer(1, 3);
    give(&mut cluster, leader, 3, 1, Command::Replace);
    let is_voter = |p: &Cluster| p.election(3).electorate().is_some_and(|electorate| electorate.voters.len() == 4);
    assert!(cluster.run_until(SECOND * 3, is_voter), "the first half is done");
    for _ in 0..100_000 {
        if cluster.election(leader).is_sounding() {
            break;
        }
        cluster.run_for(Duration::from_micros(50));
    }
    assert!(cluster.election(leader).is_sounding(), "the second half begins");
    cluster.nodes[leader].is_disk_full = true;
    assert!(cluster.run_until(SECOND * 3, |p| !p.answers.is_empty()));
    let (old, new) = (id((leader + 1) % 3), id(3));
    assert_eq!(cluster.answers, [(1, Err(ChangeError::HalfDone { old, new }))]);
    heal(&mut cluster);
}

#[test]
fn where_as_many_vote_as_may_nobody_is_added_and_a_replacement_is_refused_with_the_way_to_do_it() {
    let (mut cluster, leader) = with_newcomer(1, 7);
    let (old, new) = (id((leader + 1) % 7), id(7));
    give(&mut cluster, leader, 7, 1, Command::Replace);
    give(&mut cluster, leader, 7, 2, Command::Add);
    let error = ChangeError::NoRoom { old: old.clone(), new: new.clone() };
    assert_eq!(cluster.answers[0], (1, Err(error.clone())));
    assert!(matches!(&cluster.answers[1..], [(2, Err(ChangeError::NoChange { .. }))]));
    let text = error.to_string();
    assert!(text.contains(&format!("voters remove {old}")) && text.contains(&format!("voters add {new}")), "{text}");
    // The error's advice lets the removal through.
    give(&mut cluster, leader, 7, 3, Command::Remove);
    assert!(cluster.run_until(SECOND * 3, |p| p.answers.len() == 3));
    give(&mut cluster, leader, 7, 4, Command::Add);
    assert!(cluster.run_until(SECOND * 3, |p| matches!(&p.answers[3..], [(4, Ok(seven))] if seven.voters.len() == 7)));
    cluster.assert_safe();
}
