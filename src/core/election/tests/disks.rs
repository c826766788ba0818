//! Electorates that change while a disk fails: an operator who waits for it is told, and nobody else is.

use std::time::Duration;

use super::parliament::{LEASE, MS, Parliament, id};
use super::scenarios::{SECOND, led};
use crate::core::election::flaw::Flaw;
use crate::core::election::{ChangeError, Election};
use crate::core::limits::{CHANGE_TIMEOUT, LEARNING_TIMEOUT, SLOW_DISK_TIMEOUT, STORING_TIMEOUT};
use crate::core::member::NodeId;

/// Commands that change the electorate of three voters; the fourth node does not vote.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Command {
    Remove,
    RemoveLeader,
    Add,
    Replace,
}

pub(super) const COMMANDS: [Command; 4] = [Command::Remove, Command::RemoveLeader, Command::Add, Command::Replace];

pub(super) fn with_newcomer(seed: u64, voters: usize) -> (Parliament, usize) {
    let (mut parliament, leader) = led(seed, voters);
    let new = parliament.add(Vec::new());
    parliament.start(new);
    parliament.run_for(SECOND);
    (parliament, leader)
}

pub(super) fn give(parliament: &mut Parliament, leader: usize, voters: usize, ticket: u64, command: Command) {
    let (other, new) = (id((leader + 1) % voters), id(voters));
    parliament.with(leader, |election, around| match command {
        Command::Remove => election.remove_voter(around, ticket, &other),
        Command::RemoveLeader => election.remove_voter(around, ticket, &id(leader)),
        Command::Add => election.add_voter(around, ticket, new),
        Command::Replace => election.replace_voter(around, ticket, &other, &new),
    });
}

fn voters(parliament: &Parliament, node: usize) -> usize {
    parliament.election(node).electorate().expect("it has formed").voters.len()
}

fn heal(parliament: &mut Parliament) {
    parliament.nodes.iter_mut().for_each(|node| node.is_disk_full = false);
    parliament.run_for(LEASE * 3);
    assert!(parliament.leader().is_some(), "led once the disk works");
    assert!(!parliament.nodes.iter().flat_map(|node| &node.election).any(Election::is_aside));
    parliament.assert_safe();
}

#[test]
fn a_change_that_its_leader_cannot_store_is_put_to_nobody_and_the_other_voters_elect_a_leader() {
    for (seed, command) in (0..5).flat_map(|seed| COMMANDS.map(|command| (seed, command))) {
        let (mut parliament, leader) = with_newcomer(seed, 3);
        parliament.nodes[leader].is_disk_full = true;
        give(&mut parliament, leader, 3, 1, command);
        parliament.run_for(SECOND);
        assert_eq!(parliament.answers, [(1, Err(ChangeError::OwnDisk { id: id(leader) }))], "{command:?}");
        assert_eq!((0..3).map(|node| voters(&parliament, node)).collect::<Vec<_>>(), [3; 3]);
        assert!(parliament.run_until(LEASE * 2, |p| p.leader().is_some()), "{command:?}, seed {seed}");
        let next = parliament.leader().expect("led");
        assert_ne!(next, leader);
        heal(&mut parliament);
        assert_eq!(voters(&parliament, leader), 3, "it was told otherwise");
        let now = parliament.leader().expect("led");
        give(&mut parliament, now, 3, 2, Command::Add);
        assert!(
            parliament.run_until(SECOND * 3, |p| matches!(&p.answers[1..], [(2, Ok(four))] if four.voters.len() == 4))
        );
    }
}

#[test]
fn nobody_hears_of_a_change_while_its_leaders_disk_is_slow() {
    let (mut parliament, leader) = with_newcomer(1, 3);
    // The change is taken back if the write takes longer than this.
    let slow = CHANGE_TIMEOUT.as_nanos() as u64 * 4 / 5;
    parliament.nodes[leader].write_delay = Some((slow, slow));
    give(&mut parliament, leader, 3, 1, Command::Remove);
    assert!(parliament.run_until(LEASE, |p| p.election(leader).awaits_own_disk()), "it is being written");
    for _ in 0..75 {
        parliament.run_for(CHANGE_TIMEOUT / 100);
        assert!(parliament.election(leader).awaits_own_disk() && parliament.leader() == Some(leader));
        for node in (0..4).filter(|node| *node != leader) {
            let newest = parliament.election(node).ballot.accepted.as_ref();
            assert!(newest.is_none_or(|view| view.change.is_none()), "v{node} has heard of it");
        }
    }
    assert!(parliament.run_until(LEASE * 4, |p| matches!(&p.answers[..], [(1, Ok(two))] if two.voters.len() == 2)));
}

#[test]
fn planted_change_that_is_put_before_the_leader_has_stored_it_is_caught() {
    let (mut parliament, leader) = with_newcomer(1, 3);
    parliament.nodes[leader].election.as_mut().expect("it runs").plant(Flaw::ChangeBeforeDisk);
    parliament.nodes[leader].is_disk_full = true;
    give(&mut parliament, leader, 3, 1, Command::Remove);
    assert!(!parliament.run_until(LEASE * 4, |p| p.leader().is_some_and(|now| now != leader)), "somebody leads");
    assert_ne!(parliament.answers, [(1, Err(ChangeError::OwnDisk { id: id(leader) }))]);
}

#[test]
fn one_disk_that_fails_at_any_step_of_a_change_leaves_a_leader_and_an_answer() {
    for (command, failing) in COMMANDS.into_iter().flat_map(|command| (0..5).map(move |nth| (command, nth))) {
        for after in [0, 1, 2, 3, 4, 5, 6, 8, 10, 13, 17, 25, 60, 250] {
            // Four voters: whichever is removed, the others are enough without the one whose disk fails.
            let (mut parliament, leader) = with_newcomer(after, 4);
            give(&mut parliament, leader, 4, 1, command);
            parliament.run_for(Duration::from_millis(after));
            let failing = if failing == 4 { 4 } else { (leader + failing) % 4 };
            parliament.nodes[failing].is_disk_full = true;
            // Something is to be written before long.
            parliament.members.push(id(30));
            for node in 0..4 {
                parliament.with(node, Election::members_changed);
            }
            let most = LEARNING_TIMEOUT + CHANGE_TIMEOUT * 3 + LEASE * 2;
            let what = format!("{command:?}, the disk of {failing} fails after {after} ms");
            assert!(parliament.run_until(most, |p| !p.answers.is_empty()), "{what}: no answer");
            parliament.run_for(LEASE * 2);
            assert!(parliament.leader().is_some(), "{what}: {:?}", parliament.answers);
            heal(&mut parliament);
            assert_eq!(parliament.answers.len(), 1, "{what}: {:?}", parliament.answers);
        }
    }
}

/// Gives a command to two voters, one of which stores nothing; returns the error, which comes within this time, and
/// that voter.
fn answer_where_one_of_two_stores_nothing(
    is_in_flight: bool,
    within: Duration,
    give: impl FnOnce(&mut Parliament, usize),
) -> (ChangeError, NodeId, Parliament) {
    let (mut parliament, leader) = with_newcomer(3, 2);
    let other = 1 - leader;
    parliament.nodes[other].is_disk_full = true;
    if is_in_flight {
        parliament.members.push(id(30));
        parliament.with(leader, Election::members_changed);
        parliament.run_for(STORING_TIMEOUT * 2);
        assert_eq!(parliament.leader(), Some(leader), "it is answered");
    }
    give(&mut parliament, leader);
    assert!(parliament.run_until(within, |p| !p.answers.is_empty()), "no answer");
    let [(1, Err(error))] = &parliament.answers[..] else { panic!("{:?}", parliament.answers) };
    (error.clone(), id(other), parliament)
}

#[test]
fn a_command_that_waits_for_a_voter_that_stores_nothing_is_refused_with_its_name() {
    for command in COMMANDS {
        let give = |parliament: &mut Parliament, leader: usize| give(parliament, leader, 2, 1, command);
        let most = LEARNING_TIMEOUT + Duration::from_millis(100);
        let (error, other, mut parliament) = answer_where_one_of_two_stores_nothing(true, most, give);
        assert_eq!(error, ChangeError::NotStored { id: other }, "{command:?}");
        heal(&mut parliament);
        assert_eq!(voters(&parliament, parliament.leader().expect("led")), 2, "nothing changed");
    }
    let resign = |parliament: &mut Parliament, leader: usize| {
        let term = parliament.election(leader).term();
        parliament.with(leader, |election, around| election.resign_to(around, 1, term, None));
    };
    let (error, other, parliament) = answer_where_one_of_two_stores_nothing(true, Duration::ZERO, resign);
    assert_eq!(error, ChangeError::NotStored { id: other });
    assert!(parliament.leader().is_some(), "nobody else could lead");
}

#[test]
fn a_change_that_is_neither_made_nor_taken_back_for_a_disk_is_answered_with_the_voters_name_and_settled_later() {
    for command in COMMANDS {
        let most = LEARNING_TIMEOUT + SLOW_DISK_TIMEOUT + STORING_TIMEOUT + Duration::from_millis(MS / 5_000);
        let give = |parliament: &mut Parliament, leader: usize| give(parliament, leader, 2, 1, command);
        let (error, other, mut parliament) = answer_where_one_of_two_stores_nothing(false, most, give);
        assert_eq!(error, ChangeError::Unsettled { id: other.clone() }, "{command:?}");
        let leader = parliament.leader().expect("led");
        parliament.with(leader, |election, around| election.remove_voter(around, 2, &other));
        assert_eq!(parliament.answers[1..], [(2, Err(ChangeError::NotStored { id: other }))], "the next one, at once");
        heal(&mut parliament);
        assert_eq!(parliament.answers.len(), 2, "each is answered once");
        let now = parliament.leader().expect("led");
        let size = voters(&parliament, now);
        parliament.with(now, |election, around| election.add_voter(around, 3, id(2)));
        assert!(parliament.run_until(SECOND * 3, |p| p.answers.len() == 3), "commands are taken again, {size}");
    }
}

/// Fills these disks and lets a member that does not vote go; returns the leader by 8 s later.
fn leader_after_a_member_went(
    seed: u64,
    voters: usize,
    full: usize,
    flaw: Option<Flaw>,
) -> (Parliament, [Option<usize>; 2]) {
    let (mut parliament, leader) = led(seed, voters);
    parliament.members.push(id(30));
    parliament.with(leader, Election::members_changed);
    parliament.run_for(SECOND);
    if let (Some(flaw), Some(election)) = (flaw, &mut parliament.nodes[leader].election) {
        election.plant(flaw);
    }
    for nth in 0..full {
        parliament.nodes[(leader + nth) % voters].is_disk_full = true;
    }
    parliament.members.retain(|member| *member != id(30));
    parliament.with(leader, Election::members_changed);
    parliament.run_for(SECOND * 8);
    let after = parliament.leader();
    (parliament, [Some(leader), after])
}

#[test]
fn where_too_few_disks_work_to_elect_anybody_a_leader_leads_on_without_agreeing_on_members() {
    for (seed, (voters, full)) in
        (0..10).flat_map(|seed| [(1, 1), (2, 1), (3, 2), (3, 3), (5, 3), (5, 5)].map(|full| (seed, full)))
    {
        let (mut parliament, [before, after]) = leader_after_a_member_went(seed, voters, full, None);
        assert_eq!(before, after, "{full} of {voters} disks are full");
        assert!(parliament.newest_agreed().is_some_and(|view| view.members.contains(&id(30))));
        heal(&mut parliament);
        assert!(parliament.newest_agreed().is_some_and(|view| !view.members.contains(&id(30))));
    }
}

#[test]
fn a_leader_whose_disk_fails_hands_over_to_those_whose_disks_work() {
    for (seed, (voters, full)) in (0..10).flat_map(|seed| [(3, 1), (5, 1), (5, 2)].map(|full| (seed, full))) {
        let (parliament, [before, after]) = leader_after_a_member_went(seed, voters, full, None);
        assert!(after.is_some_and(|after| Some(after) != before && !parliament.nodes[after].is_disk_full));
        assert!(parliament.newest_agreed().is_some_and(|view| !view.members.contains(&id(30))));
        parliament.assert_safe();
    }
}

#[test]
fn planted_leader_that_resigns_although_nobody_else_could_be_elected_is_caught() {
    let (_, [_, after]) = leader_after_a_member_went(1, 3, 3, Some(Flaw::ResignsToNobody));
    assert_eq!(after, None);
}

#[test]
fn a_replacement_whose_second_half_its_leader_cannot_store_is_said_to_be_half_done() {
    let (mut parliament, leader) = with_newcomer(1, 3);
    give(&mut parliament, leader, 3, 1, Command::Replace);
    let is_voter = |p: &Parliament| p.election(3).electorate().is_some_and(|electorate| electorate.voters.len() == 4);
    assert!(parliament.run_until(SECOND * 3, is_voter), "the first half is done");
    for _ in 0..100_000 {
        if parliament.election(leader).is_sounding() {
            break;
        }
        parliament.run_for(Duration::from_micros(50));
    }
    assert!(parliament.election(leader).is_sounding(), "the second half begins");
    parliament.nodes[leader].is_disk_full = true;
    assert!(parliament.run_until(SECOND * 3, |p| !p.answers.is_empty()));
    let (old, new) = (id((leader + 1) % 3), id(3));
    assert_eq!(parliament.answers, [(1, Err(ChangeError::HalfDone { old, new }))]);
    heal(&mut parliament);
}

#[test]
fn where_as_many_vote_as_may_nobody_is_added_and_a_replacement_is_refused_with_the_way_to_do_it() {
    let (mut parliament, leader) = with_newcomer(1, 7);
    let (old, new) = (id((leader + 1) % 7), id(7));
    give(&mut parliament, leader, 7, 1, Command::Replace);
    give(&mut parliament, leader, 7, 2, Command::Add);
    let error = ChangeError::NoRoom { old: old.clone(), new: new.clone() };
    assert_eq!(parliament.answers[0], (1, Err(error.clone())));
    assert!(matches!(&parliament.answers[1..], [(2, Err(ChangeError::NoChange { .. }))]));
    let text = error.to_string();
    assert!(text.contains(&format!("voters remove {old}")) && text.contains(&format!("voters add {new}")), "{text}");
    // That lets the removal through.
    give(&mut parliament, leader, 7, 3, Command::Remove);
    assert!(parliament.run_until(SECOND * 3, |p| p.answers.len() == 3));
    give(&mut parliament, leader, 7, 4, Command::Add);
    assert!(
        parliament.run_until(SECOND * 3, |p| matches!(&p.answers[3..], [(4, Ok(seven))] if seven.voters.len() == 7))
    );
    parliament.assert_safe();
}
