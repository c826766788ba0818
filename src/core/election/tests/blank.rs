//! Voters that a view names and whose disks are blank: they have voted for nobody, promised nothing, and fetch the
//! view.

use std::time::Duration;

use super::cluster::{Cluster, id};
use super::scenarios::{SECOND, led};
use crate::election::{Alarm, Ballot, Electorate, Identity, NumberedView, Voter};
use crate::limits::EARLIEST_FOUNDING;

/// Returns voters of which the last one was named by the others and never heard of it; `is_itself`: under the identity
/// that it has.
fn with_a_blank_one(seed: u64, voters: usize, is_itself: bool) -> Cluster {
    let mut cluster = Cluster::empty(seed);
    for _ in 0..voters {
        cluster.add(Vec::new());
    }
    let blank = voters - 1;
    let named = cluster.nodes.iter().map(|node| Voter { id: node.id.clone(), identity: node.identity });
    let mut named: Vec<Voter> = named.collect();
    if !is_itself {
        named[blank].identity = Identity(7);
    }
    let founding = NumberedView::founding(Electorate::founded_by(named, EARLIEST_FOUNDING));
    for node in &mut cluster.nodes[..blank] {
        node.disk = Ballot { accepted: Some(founding.clone()), ..Ballot::blank(node.identity) };
    }
    cluster.start_all();
    cluster
}

fn is_voter(cluster: &Cluster, node: usize) -> bool {
    cluster.election(node).is_voter()
}

#[test]
fn a_blank_voter_whose_vote_is_needed_fetches_the_view_that_names_it_and_votes() {
    for (seed, voters, gone) in (0..10).flat_map(|seed| [(seed, 2, 0), (seed, 4, 1), (seed, 5, 2)]) {
        let mut cluster = with_a_blank_one(seed, voters, true);
        for node in 0..gone {
            cluster.crash(node);
        }
        assert!(cluster.run_until(SECOND * 5, |p| p.leader().is_some()), "{voters} voters, seed {seed}");
        cluster.run_for(SECOND * 10);
        assert!(is_voter(&cluster, voters - 1));
        assert_eq!(cluster.leaders.len(), 1, "and one leads for good");
        cluster.assert_safe();
    }
}

#[test]
fn a_blank_node_that_is_named_under_another_identity_is_a_stranger_and_never_votes() {
    let mut cluster = with_a_blank_one(1, 2, false);
    cluster.run_for(SECOND * 60);
    assert_eq!(cluster.leader(), None);
    assert_eq!(cluster.nodes[1].disk.vote, None);
    assert!(!is_voter(&cluster, 1) && cluster.alarms.contains(&(1, Alarm::IdentityMismatch)), "and says so");
    cluster.assert_safe();
}

/// Runs until an operator's recovery is on disk, and loses every message about it at that moment.
fn lose_the_announcement(cluster: &mut Cluster) {
    for _ in 0..100_000 {
        if !cluster.answers.is_empty() {
            return cluster.lose_messages();
        }
        cluster.run_for(Duration::from_micros(100));
    }
    panic!("nothing is recovered");
}

#[test]
fn a_fresh_node_that_never_heard_of_the_recovery_that_names_it_is_led_by_it() {
    for seed in 0..10 {
        let (mut cluster, leader) = led(seed, 3);
        cluster.run_for(SECOND);
        let (one, two) = ((leader + 1) % 3, (leader + 2) % 3);
        cluster.crash(leader);
        cluster.crash(two);
        let fresh = cluster.add(Vec::new());
        cluster.start(fresh);
        cluster.run_for(SECOND * 10);
        cluster.with(one, |election, context| election.recover(context, 1, vec![id(fresh)], 77, None));
        lose_the_announcement(&mut cluster);
        cluster.crash(fresh);
        cluster.run_for(SECOND);
        cluster.start(fresh);
        assert!(!is_voter(&cluster, fresh), "it knows nothing");
        assert!(cluster.run_until(SECOND * 5, |p| p.leader().is_some()), "seed {seed}: {:?}", cluster.answers);
        cluster.assert_safe();
    }
}

#[test]
fn voters_that_have_not_heard_of_their_generation_are_told_of_it_with_each_question_until_they_speak() {
    for seed in 0..10 {
        let (mut cluster, leader) = led(seed, 5);
        cluster.run_for(SECOND);
        let (one, two) = ((leader + 1) % 5, (leader + 2) % 5);
        for node in (0..5).filter(|node| ![one, two].contains(node)) {
            cluster.crash(node);
        }
        cluster.run_for(SECOND * 10);
        cluster.with(one, |election, context| election.recover(context, 1, vec![id(two)], 77, None));
        lose_the_announcement(&mut cluster);
        // The node could hear of it by asking itself; the test is not to depend on that.
        cluster.with(two, |election, context| election.put_off(context, SECOND * 60));
        assert!(cluster.run_until(SECOND * 3, |p| p.leader().is_some()), "seed {seed}: {:?}", cluster.answers);
        cluster.run_for(SECOND);
        let messages = cluster.messages;
        cluster.run_for(SECOND * 10);
        let messages = cluster.messages - messages;
        assert!(
            messages <= 10 * 2 * 2 * 2,
            "{messages} messages in ten seconds: a renewal and its answer, twice a second"
        );
        cluster.assert_safe();
    }
}
