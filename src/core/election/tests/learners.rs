//! Voters that are to be added: they learn before they count, and cost nothing if they never do.

use std::time::Duration;

use super::cluster::{Cluster, LEASE, id};
use super::scenarios::{SECOND, led};
use crate::election::{Body, ChangeError, ElectionMessage, Term, ViewRef};

/// Returns a led electorate, and a node that does not vote.
fn with_a_newcomer(seed: u64, voters: usize) -> (Cluster, usize, usize) {
    let (mut cluster, leader) = led(seed, voters);
    let new = cluster.add(Vec::new());
    cluster.start(new);
    cluster.run_for(SECOND);
    (cluster, leader, new)
}

fn add(cluster: &mut Cluster, leader: usize, new: usize) {
    cluster.with(leader, |election, context| election.add_voter(context, 1, id(new)));
}

fn voters(cluster: &Cluster, node: usize) -> usize {
    cluster.election(node).electorate().expect("it has formed").voters.len()
}

#[test]
fn a_newcomer_has_the_view_on_its_disk_before_it_is_put_to_the_voters() {
    for seed in 0..10 {
        let (mut cluster, leader, new) = with_a_newcomer(seed, 1);
        cluster.write_delay = (50_000_000, 50_000_000);
        add(&mut cluster, leader, new);
        assert!(cluster.run_until(SECOND * 2, |p| voters(p, leader) == 2));
        assert!(cluster.nodes[new].disk.accepted.is_some());
        cluster.run_for(SECOND);
        assert!(matches!(&cluster.answers[..], [(1, Ok(two))] if two.voters.len() == 2), "{:?}", cluster.answers);
        cluster.run_for(SECOND * 10);
        assert_eq!((cluster.leader(), cluster.leaders.len()), (Some(leader), 1));
        assert!(cluster.losses.is_empty());
        cluster.assert_safe();
    }
}

#[test]
fn a_newcomer_whose_disk_takes_nothing_costs_nothing_and_the_operator_is_told() {
    for voters in [1, 3] {
        let (mut cluster, leader, new) = with_a_newcomer(1, voters);
        cluster.nodes[new].is_disk_full = true;
        add(&mut cluster, leader, new);
        cluster.run_for(SECOND * 10);
        assert_eq!(cluster.answers, [(1, Err(ChangeError::LearnerSilent { id: id(new) }))]);
        assert_eq!((cluster.leader(), cluster.leaders.len()), (Some(leader), 1));
        assert!(cluster.losses.is_empty());
        cluster.nodes[new].is_disk_full = false;
        cluster.run_for(SECOND);
        add(&mut cluster, leader, new);
        cluster.run_for(SECOND * 2);
        assert!(matches!(&cluster.answers[1..], [(1, Ok(_))]), "it may be tried again: {:?}", cluster.answers);
        cluster.assert_safe();
    }
}

#[test]
fn a_newcomer_that_dies_while_it_learns_leaves_a_lone_leader_in_place() {
    let mut learnt = 0;
    for seed in 0..60 {
        let (mut cluster, leader, new) = with_a_newcomer(seed, 1);
        add(&mut cluster, leader, new);
        cluster.run_for(Duration::from_millis(seed));
        cluster.crash(new);
        // The newcomer's acknowledgement may be under way: without it, the newcomer might as well have died a moment
        // later.
        cluster.lose_messages();
        if voters(&cluster, leader) == 1 {
            cluster.run_for(LEASE * 5);
            assert_eq!((cluster.leader(), cluster.leaders.len()), (Some(leader), 1), "seed {seed}");
            assert!(matches!(&cluster.answers[..], [(1, Err(_))]), "seed {seed}: {:?}", cluster.answers);
        } else {
            // The newcomer is needed from the moment at which it is proposed, and is a voter whatever its disk holds.
            learnt += 1;
            cluster.run_for(LEASE * 5);
            cluster.start(new);
            assert!(cluster.run_until(LEASE * 3, |p| p.leader().is_some()), "seed {seed}");
        }
        cluster.assert_safe();
    }
    assert!((5..55).contains(&learnt), "both happen: {learnt}");
}

#[test]
fn a_voter_of_another_electorate_is_not_added() {
    let (mut cluster, leader, new) = with_a_newcomer(4, 3);
    let alone = vec![id(new)];
    cluster.crash(new);
    cluster.nodes[new].configured = alone;
    cluster.split(&[&[0, 1, 2], &[new]]);
    cluster.start(new);
    cluster.run_for(SECOND);
    cluster.cut.clear();
    cluster.violations.clear();
    add(&mut cluster, leader, new);
    cluster.run_for(SECOND * 10);
    assert_eq!(cluster.answers, [(1, Err(ChangeError::LearnerSilent { id: id(new) }))]);
    assert_eq!(voters(&cluster, leader), 3);
}

#[test]
fn a_newcomer_that_has_a_view_of_an_earlier_term_is_not_put_to_the_voters() {
    let (mut cluster, leader, new) = with_a_newcomer(4, 3);
    let earlier = cluster.election(leader).newest().expect("a view");
    let identity = cluster.nodes[new].identity;
    let lineage = cluster.election(leader).lineage().expect("an electorate");
    add(&mut cluster, leader, new);
    cluster.run_up_to(SECOND, |p| p.election(leader).is_learner(identity));
    let (term, sequence) = (earlier.term, cluster.election(leader).last_renewal().expect("it leads"));
    let newest = ViewRef { term: Term(earlier.term.0 - 1), ..earlier };
    let body = Body::RenewalAck { term, sequence, newest, priority: 0 };
    let message = ElectionMessage { from: identity, lineage, body };
    cluster.with(leader, |election, context| {
        election.receive(context, &id(new), message);
        assert!(!election.is_proposing(), "the view on its disk may not be the one that was agreed");
    });
    assert!(cluster.run_until(SECOND * 2, |p| voters(p, leader) == 4), "it learns");
}

#[test]
fn a_voter_whose_disk_is_lost_takes_no_view_in_which_another_identity_has_its_name() {
    for seed in 0..10 {
        let (mut cluster, leader) = led(seed, 3);
        let lost = (leader + 1) % 3;
        cluster.wipe(lost);
        cluster.nodes[lost].configured = Vec::new();
        cluster.start(lost);
        cluster.run_for(LEASE * 3);
        let election = cluster.election(lost);
        assert!(election.electorate().is_none() && election.strange_to().is_some(), "seed {seed}");
    }
}
