//! Electorates that change while disks are slow or hang: a slow disk carries the change, and a command that fails names
//! the node whose disk it was, never one that is merely silent.

use std::time::Duration;

use super::cluster::{Cluster, LEASE, MS, Nanos, id};
use super::disks::{COMMANDS, Command, give, with_newcomer};
use super::scenarios::SECOND;
use crate::election::ChangeError;
use crate::election::tests::Election;
use crate::limits::{
    ANSWER_TIMEOUT, CHANGE_TIMEOUT, FORWARD_TIMEOUT, LEARNING_TIMEOUT, SLOW_DISK_TIMEOUT, STORING_TIMEOUT,
};

/// A delay longer than any test.
const FOR_GOOD: Nanos = 3_600_000 * MS;

/// Nodes whose disks are slow.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Slow {
    Leader,
    Others,
    All,
}

fn set_disk(cluster: &mut Cluster, node: usize, write: Nanos) {
    cluster.nodes[node].write_delay = Some((write, write));
}

#[test]
fn slow_disks_change_voters_whosever_they_are() {
    let disks = [Slow::Leader, Slow::Others, Slow::All];
    for (write_ms, slow) in [300, 600, 1_000].into_iter().flat_map(|ms| disks.map(|slow| (ms, slow))) {
        for command in COMMANDS {
            let (mut cluster, leader) = with_newcomer(write_ms, 3);
            for node in 0..4 {
                if slow == Slow::All || (node == leader) == (slow == Slow::Leader) {
                    set_disk(&mut cluster, node, write_ms * MS);
                }
            }
            give(&mut cluster, leader, 3, 1, command);
            cluster.run_until(FORWARD_TIMEOUT, |p| !p.answers.is_empty());
            let what = format!("{command:?}, {slow:?}: {write_ms} ms");
            assert!(matches!(&cluster.answers[..], [(1, Ok(_))]), "{what}: {:?}", cluster.answers);
            cluster.assert_safe();
        }
    }
}

#[test]
fn a_change_on_a_leaders_disk_that_hangs_fails_in_time_with_its_name_and_another_voter_leads() {
    for (seed, is_one_dead) in (0..4).flat_map(|seed| [(seed, false), (seed, true)]) {
        let (mut cluster, leader) = with_newcomer(seed, 3);
        if is_one_dead {
            cluster.crash((leader + 2) % 3);
        }
        set_disk(&mut cluster, leader, FOR_GOOD);
        give(&mut cluster, leader, 3, 1, Command::Add);
        cluster.run_for(SLOW_DISK_TIMEOUT.saturating_sub(ANSWER_TIMEOUT));
        assert_eq!(cluster.answers, [], "it may be slow");
        cluster.run_for(ANSWER_TIMEOUT * 2);
        assert_eq!(cluster.answers, [(1, Err(ChangeError::OwnDisk { id: id(leader) }))], "{is_one_dead}");
        let voters = |node: usize| cluster.election(node).electorate().expect("it has formed").voters.len();
        assert_eq!([leader, (leader + 1) % 3].map(voters), [3; 2]);
        let is_led = cluster.run_until(LEASE * 2, |p| p.leader().is_some_and(|now| now != leader));
        assert_eq!(is_led, !is_one_dead, "whose disk hangs stands aside");
        cluster.assert_safe();
    }
}

#[test]
fn a_command_that_waits_for_the_leaders_own_disk_names_it_and_not_a_voter_that_is_dead() {
    let (mut cluster, leader) = with_newcomer(2, 3);
    set_disk(&mut cluster, leader, FOR_GOOD);
    cluster.crash((leader + 1) % 3);
    cluster.members.push(id(30));
    cluster.with(leader, Election::members_changed);
    cluster.run_for(STORING_TIMEOUT);
    give(&mut cluster, leader, 3, 1, Command::Add);
    cluster.run_for(LEARNING_TIMEOUT + Duration::from_millis(100));
    assert_eq!(cluster.answers, [(1, Err(ChangeError::NotStored { id: id(leader) }))]);
}

#[test]
fn of_two_voters_without_the_view_the_one_that_answers_is_named() {
    for dead in [1, 2] {
        let (mut cluster, leader) = with_newcomer(2, 3);
        let (dead, full) = ((leader + dead) % 3, (leader + 3 - dead) % 3);
        cluster.nodes[full].is_disk_full = true;
        cluster.members.push(id(30));
        cluster.with(leader, Election::members_changed);
        cluster.run_for(STORING_TIMEOUT);
        cluster.crash(dead);
        cluster.members.push(id(31));
        cluster.with(leader, Election::members_changed);
        cluster.run_for(SECOND);
        give(&mut cluster, leader, 3, 1, Command::Add);
        cluster.run_for(LEARNING_TIMEOUT + Duration::from_millis(100));
        assert_eq!(cluster.answers, [(1, Err(ChangeError::NotStored { id: id(full) }))]);
    }
}

/// Returns the time from the command until a removal is taken back that one of the voters acknowledges and does not
/// store.
fn taken_back_after(is_silent_then: bool) -> Duration {
    let (mut cluster, leader) = with_newcomer(4, 3);
    let away = (leader + 2) % 3;
    set_disk(&mut cluster, away, FOR_GOOD);
    give(&mut cluster, leader, 3, 1, Command::Remove);
    let given = cluster.now;
    cluster.run_for(Duration::from_millis(500));
    if is_silent_then {
        cluster.crash_when_written(away, 0);
    }
    cluster.run_until(FORWARD_TIMEOUT, |p| !p.answers.is_empty());
    assert_eq!(cluster.answers, [(1, Err(ChangeError::NotCarried))]);
    assert_eq!(cluster.leader(), Some(leader));
    cluster.assert_safe();
    Duration::from_nanos(cluster.now - given)
}

#[test]
fn a_voter_that_answers_gets_the_time_of_a_slow_disk_and_one_that_falls_silent_does_not() {
    let round = Duration::from_millis(100);
    let answers = taken_back_after(false);
    assert!(SLOW_DISK_TIMEOUT <= answers && answers < SLOW_DISK_TIMEOUT + round, "{answers:?}");
    let silent = taken_back_after(true);
    let most = CHANGE_TIMEOUT + ANSWER_TIMEOUT + round;
    assert!(CHANGE_TIMEOUT <= silent && silent < most, "{silent:?}");
}
