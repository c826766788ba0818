//! Voters that come back after the electorate has changed: a voter that they do not know leads.

use super::ahead::all_follow;
use super::cluster::{Cluster, LEASE, id};
use super::scenarios::{SECOND, led};
use crate::election::tests::Election;
use crate::election::{Alarm, Context, Term};

/// Has a voter voted out or in, and waits for it.
fn change(cluster: &mut Cluster, act: impl FnOnce(&mut Election, &Context<'_>, u64)) {
    let (leader, ticket) = (cluster.leader().expect("led"), cluster.answers.len() as u64);
    cluster.with(leader, |election, context| act(election, context, ticket));
    assert!(cluster.run_until(SECOND * 5, |p| p.answers.len() as u64 > ticket), "it is not answered");
    assert!(matches!(&cluster.answers.last(), Some((_, Ok(_)))), "{:?}", cluster.answers);
    cluster.run_for(SECOND);
}

fn add(cluster: &mut Cluster, new: usize) {
    change(cluster, |election, context, ticket| election.add_voter(context, ticket, id(new)));
}

fn make_lead(cluster: &mut Cluster, next: usize) {
    let (_, term) = cluster.claims()[0];
    change(cluster, |election, context, ticket| election.resign_to(context, ticket, term, Some(&id(next))));
    assert_eq!(cluster.leader(), Some(next));
}

/// Starts a voter again, perhaps as if it had voted for itself in vain above the term of now.
fn come_back(cluster: &mut Cluster, voter: usize, above: Option<u64>) {
    if let Some(above) = above {
        let (term, identity) = (cluster.claims()[0].1, cluster.nodes[voter].identity);
        let disk = &mut cluster.nodes[voter].disk;
        (disk.term, disk.vote) = (Term(term.0 + above), Some(identity));
    }
    cluster.start(voter);
}

/// Returns five voters: one is away, and another one, which has lost its disk meanwhile, leads under another identity.
/// Returns the two as well.
fn led_by_a_known_name(seed: u64) -> (Cluster, usize, usize) {
    let (mut cluster, leader) = led(seed, 5);
    cluster.run_for(SECOND);
    let (away, other) = ((leader + 1) % 5, (leader + 2) % 5);
    cluster.crash(away);
    cluster.wipe(other);
    cluster.start(other);
    cluster.run_for(SECOND);
    change(&mut cluster, |election, context, ticket| election.remove_voter(context, ticket, &id(other)));
    add(&mut cluster, other);
    make_lead(&mut cluster, other);
    (cluster, away, other)
}

fn assert_nobody_is_a_stranger(cluster: &Cluster, to: usize, voter: usize) {
    assert!(
        !cluster.alarms.contains(&(to, Alarm::StrangeVoter { id: id(voter) })),
        "{voter} votes under this identity"
    );
}

#[test]
fn a_voter_that_comes_back_follows_a_leader_whose_name_it_knows_under_another_identity() {
    for (seed, above) in (0..10).flat_map(|seed| [(seed, None), (seed, Some(3))]) {
        let (mut cluster, away, other) = led_by_a_known_name(seed);
        come_back(&mut cluster, away, above);
        assert!(cluster.run_until(LEASE * 3, all_follow), "seed {seed}, {above:?} above");
        assert_nobody_is_a_stranger(&cluster, away, other);
        cluster.assert_safe();
    }
}

#[test]
fn a_voter_that_comes_back_is_enough_to_elect_somebody_where_it_knows_a_name_under_another_identity() {
    for seed in 0..10 {
        let (mut cluster, away, other) = led_by_a_known_name(seed);
        let rest: Vec<usize> = (0..5).filter(|node| ![away, other].contains(node)).collect();
        cluster.crash(rest[0]);
        cluster.crash(rest[1]);
        cluster.with(rest[2], |election, context| election.note_draining(context, [id(rest[2])].into()));
        cluster.run_for(LEASE * 2);
        assert_eq!(cluster.leader(), None);
        come_back(&mut cluster, away, None);
        // It waits for what it has promised.
        assert!(cluster.run_until(LEASE * 3, |p| p.leader().is_some()), "seed {seed}");
        assert_nobody_is_a_stranger(&cluster, away, other);
        cluster.assert_safe();
    }
}

#[test]
fn a_voter_above_a_leader_that_it_does_not_know_is_followed_by_it() {
    for seed in 0..10 {
        let (mut cluster, leader) = led(seed, 3);
        cluster.run_for(SECOND);
        let away = (leader + 1) % 3;
        cluster.crash(away);
        let new = cluster.add(Vec::new());
        cluster.start(new);
        cluster.run_for(SECOND);
        add(&mut cluster, new);
        make_lead(&mut cluster, new);
        come_back(&mut cluster, away, Some(3));
        assert!(cluster.run_until(LEASE * 3, all_follow), "seed {seed}");
        assert_eq!(cluster.leader(), Some(new));
        cluster.assert_safe();
    }
}
