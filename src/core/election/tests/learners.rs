//! Voters that are to be added: they learn before they count, and cost nothing if they never do.

use std::time::Duration;

use super::parliament::{LEASE, Parliament, id};
use super::scenarios::{SECOND, led};
use crate::core::election::ChangeError;

/// Returns a led electorate, and a node that does not vote.
fn with_a_newcomer(seed: u64, voters: usize) -> (Parliament, usize, usize) {
    let (mut parliament, leader) = led(seed, voters);
    let new = parliament.add(Vec::new());
    parliament.start(new);
    parliament.run_for(SECOND);
    (parliament, leader, new)
}

fn add(parliament: &mut Parliament, leader: usize, new: usize) {
    parliament.with(leader, |election, around| election.add_voter(around, 1, id(new)));
}

fn voters(parliament: &Parliament, node: usize) -> usize {
    parliament.election(node).electorate().expect("it has formed").voters.len()
}

#[test]
fn a_newcomer_has_the_view_on_its_disk_before_it_is_put_to_the_voters() {
    for seed in 0..10 {
        let (mut parliament, leader, new) = with_a_newcomer(seed, 1);
        parliament.write_delay = (50_000_000, 50_000_000);
        add(&mut parliament, leader, new);
        assert!(parliament.run_until(SECOND * 2, |p| voters(p, leader) == 2));
        assert!(parliament.nodes[new].disk.accepted.is_some());
        parliament.run_for(SECOND);
        assert!(matches!(&parliament.answers[..], [(1, Ok(two))] if two.voters.len() == 2), "{:?}", parliament.answers);
        parliament.run_for(SECOND * 10);
        assert_eq!((parliament.leader(), parliament.leaders.len()), (Some(leader), 1));
        assert!(parliament.losses.is_empty());
        parliament.assert_safe();
    }
}

#[test]
fn a_newcomer_whose_disk_takes_nothing_costs_nothing_and_the_operator_is_told() {
    for voters in [1, 3] {
        let (mut parliament, leader, new) = with_a_newcomer(1, voters);
        parliament.nodes[new].is_disk_full = true;
        add(&mut parliament, leader, new);
        parliament.run_for(SECOND * 10);
        assert_eq!(parliament.answers, [(1, Err(ChangeError::LearnerSilent { id: id(new) }))]);
        assert_eq!((parliament.leader(), parliament.leaders.len()), (Some(leader), 1));
        assert!(parliament.losses.is_empty());
        parliament.nodes[new].is_disk_full = false;
        parliament.run_for(SECOND);
        add(&mut parliament, leader, new);
        parliament.run_for(SECOND * 2);
        assert!(matches!(&parliament.answers[1..], [(1, Ok(_))]), "it may be tried again: {:?}", parliament.answers);
        parliament.assert_safe();
    }
}

#[test]
fn a_newcomer_that_dies_while_it_learns_leaves_a_lone_leader_in_place() {
    let mut learnt = 0;
    for seed in 0..60 {
        let (mut parliament, leader, new) = with_a_newcomer(seed, 1);
        add(&mut parliament, leader, new);
        parliament.run_for(Duration::from_millis(seed));
        parliament.crash(new);
        // The newcomer's acknowledgement may be under way: without it, the newcomer might as well have died a moment
        // later.
        parliament.lose_words();
        if voters(&parliament, leader) == 1 {
            parliament.run_for(LEASE * 5);
            assert_eq!((parliament.leader(), parliament.leaders.len()), (Some(leader), 1), "seed {seed}");
            assert!(matches!(&parliament.answers[..], [(1, Err(_))]), "seed {seed}: {:?}", parliament.answers);
        } else {
            // The newcomer is needed from the moment at which it is proposed, and is a voter whatever its disk holds.
            learnt += 1;
            parliament.run_for(LEASE * 5);
            parliament.start(new);
            assert!(parliament.run_until(LEASE * 3, |p| p.leader().is_some()), "seed {seed}");
        }
        parliament.assert_safe();
    }
    assert!((5..55).contains(&learnt), "both happen: {learnt}");
}

#[test]
fn a_voter_of_another_electorate_is_not_added() {
    let (mut parliament, leader, new) = with_a_newcomer(4, 3);
    let alone = vec![id(new)];
    parliament.crash(new);
    parliament.nodes[new].configured = alone;
    parliament.split(&[&[0, 1, 2], &[new]]);
    parliament.start(new);
    parliament.run_for(SECOND);
    parliament.cut.clear();
    parliament.violations.clear();
    add(&mut parliament, leader, new);
    parliament.run_for(SECOND * 10);
    assert_eq!(parliament.answers, [(1, Err(ChangeError::LearnerSilent { id: id(new) }))]);
    assert_eq!(voters(&parliament, leader), 3);
}
