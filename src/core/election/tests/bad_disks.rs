//! Leaders whose disks go bad: leadership passes on in order, to a voter whose disk works.

use std::time::Duration;

use super::cluster::{Cluster, LEASE, id};
use super::scenarios::led;
use crate::election::tests::Election;
use crate::election::{Alarm, ChangeError};
use crate::limits::SLOW_DISK_TIMEOUT;

const MILLISECOND: Duration = Duration::from_millis(1);

/// Gives every voter something to agree on, which is to be written.
fn change_members(cluster: &mut Cluster, member: usize) {
    cluster.members.push(id(member));
    for node in 0..cluster.nodes.len() {
        cluster.with(node, Election::members_changed);
    }
}

/// Waits until an operator has been answered.
fn await_answer(cluster: &mut Cluster) {
    cluster.run_up_to(SLOW_DISK_TIMEOUT * 2, |p| !p.answers.is_empty());
}

/// Has leadership go to a voter whose disk takes nothing so many steps later.
fn with_a_successor_whose_disk_fails(seed: u64, voters: usize, steps: u32) -> (Cluster, usize) {
    let (mut cluster, first) = led(seed, voters);
    cluster.run_for(LEASE);
    let bad = (first + 1) % voters;
    let term = cluster.election(first).term();
    cluster.with(first, |election, context| election.resign_to(context, 1, term, Some(&id(bad))));
    await_answer(&mut cluster);
    cluster.run_for(MILLISECOND / 2 * steps);
    cluster.nodes[bad].is_disk_full = true;
    (cluster, bad)
}

#[test]
fn a_voter_whose_disk_fails_while_it_is_elected_keeps_nobody_from_leading_within_a_lease() {
    for (seed, voters) in (0..8).flat_map(|seed| [3, 5].map(|voters| (seed, voters))) {
        for steps in 0..60 {
            let what = format!("{voters} voters, seed {seed}, {steps} steps");
            let (mut cluster, bad) = with_a_successor_whose_disk_fails(seed, voters, steps);
            assert!(cluster.run_until(LEASE, |p| p.leader().is_some()), "{what}");
            // It may lead as long as nothing is to be written; then it leads no more.
            change_members(&mut cluster, 30);
            assert!(cluster.run_until(LEASE, |p| p.leader().is_some_and(|leader| leader != bad)), "{what}");
            for _ in 0..30 {
                cluster.run_for(LEASE / 10);
                assert!(cluster.leader().is_some_and(|leader| leader != bad), "{what}");
            }
            assert!(cluster.newest_agreed().is_some_and(|view| view.members.contains(&id(30))), "{what}");
            let standings = cluster.election(bad).standings(None).expect("it votes");
            let own = standings.voters.iter().find(|standing| standing.voter.id == id(bad)).expect("listed");
            assert_eq!(own.votes, Some(false), "{what}");
            assert!(cluster.alarms.contains(&(bad, Alarm::Aside)), "{what}: the operator is told");
            cluster.assert_safe();
        }
    }
}

#[test]
fn a_leader_whose_disk_fails_resigns_at_an_operators_command_whatever_it_is_writing() {
    for (seed, voters) in (0..8).flat_map(|seed| [3, 5].map(|voters| (seed, voters))) {
        for steps in 0..40 {
            let what = format!("{voters} voters, seed {seed}, {steps} steps");
            let (mut cluster, first) = led(seed, voters);
            cluster.run_for(LEASE);
            cluster.nodes[first].is_disk_full = true;
            if steps > 0 {
                change_members(&mut cluster, 30);
                cluster.run_for(MILLISECOND / 2 * steps);
            }
            let term = cluster.election(first).term();
            cluster.with(first, |election, context| election.resign_to(context, 1, term, None));
            await_answer(&mut cluster);
            match &cluster.answers[..] {
                [(1, Ok(_))] => {}
                // It has resigned by itself.
                [(1, Err(ChangeError::NotLeader))] if steps > 0 => {}
                answers => panic!("{what}: {answers:?}"),
            }
            assert!(cluster.run_until(LEASE, |p| p.leader().is_some_and(|leader| leader != first)), "{what}");
            cluster.run_for(LEASE * 3);
            assert!(cluster.leader().is_some_and(|leader| leader != first), "{what}");
            cluster.assert_safe();
        }
    }
}

/// Has a disk hang: its writes neither end nor fail.
fn hang(cluster: &mut Cluster, node: usize) {
    let forever = 3_600_000 * super::cluster::MS;
    cluster.nodes[node].write_delay = Some((forever, forever));
}

#[test]
fn a_voter_whose_disk_hangs_while_it_is_elected_is_succeeded_soon_and_one_that_leads_leads_on() {
    for (seed, voters) in (0..8).flat_map(|seed| [3, 5].map(|voters| (seed, voters))) {
        for steps in 0..60 {
            let what = format!("{voters} voters, seed {seed}, {steps} steps");
            let (mut cluster, first) = led(seed, voters);
            cluster.run_for(LEASE);
            let bad = (first + 1) % voters;
            let term = cluster.election(first).term();
            cluster.with(first, |election, context| election.resign_to(context, 1, term, Some(&id(bad))));
            await_answer(&mut cluster);
            cluster.run_for(MILLISECOND / 2 * steps);
            hang(&mut cluster, bad);
            assert!(cluster.run_until(LEASE * 2, |p| p.leader().is_some()), "{what}");
            change_members(&mut cluster, 30);
            cluster.run_for(LEASE * 4);
            assert!(cluster.leader().is_some(), "{what}");
            assert!(cluster.newest_agreed().is_some_and(|view| view.members.contains(&id(30))), "{what}");
            let leader = cluster.leader().expect("led");
            let term = cluster.election(leader).term();
            cluster.answers.clear();
            cluster.with(leader, |election, context| election.resign_to(context, 2, term, None));
            await_answer(&mut cluster);
            assert!(matches!(cluster.answers[..], [(2, Ok(_))]), "{what}: {:?}", cluster.answers);
            assert!(cluster.run_until(LEASE, |p| p.leader().is_some_and(|now| now != leader)), "{what}");
            cluster.assert_safe();
        }
    }
}
