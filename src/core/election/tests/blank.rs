//! Voters that a view names and whose disks are blank: they have voted for nobody, promised nothing, and fetch the
//! view.

use std::time::Duration;

use super::parliament::{Parliament, id};
use super::scenarios::{SECOND, led};
use crate::core::election::{Alarm, Ballot, Electorate, Identity, NumberedView, Voter};

/// Returns voters of which the last one was named by the others and never heard of it; `is_itself`: under the identity
/// that it has.
fn with_a_blank_one(seed: u64, voters: usize, is_itself: bool) -> Parliament {
    let mut parliament = Parliament::empty(seed);
    for _ in 0..voters {
        parliament.add(Vec::new());
    }
    let blank = voters - 1;
    let named = parliament.nodes.iter().map(|node| Voter { id: node.id.clone(), identity: node.identity });
    let mut named: Vec<Voter> = named.collect();
    if !is_itself {
        named[blank].identity = Identity(7);
    }
    let founding = NumberedView::founding(Electorate::founded_by(named));
    for node in &mut parliament.nodes[..blank] {
        node.disk = Ballot { accepted: Some(founding.clone()), ..Ballot::blank(node.identity) };
    }
    parliament.start_all();
    parliament
}

fn is_voter(parliament: &Parliament, node: usize) -> bool {
    parliament.election(node).is_voter()
}

#[test]
fn a_blank_voter_whose_vote_is_needed_fetches_the_view_that_names_it_and_votes() {
    for (seed, voters, gone) in (0..10).flat_map(|seed| [(seed, 2, 0), (seed, 4, 1), (seed, 5, 2)]) {
        let mut parliament = with_a_blank_one(seed, voters, true);
        for node in 0..gone {
            parliament.crash(node);
        }
        assert!(parliament.run_until(SECOND * 5, |p| p.leader().is_some()), "{voters} voters, seed {seed}");
        parliament.run_for(SECOND * 10);
        assert!(is_voter(&parliament, voters - 1));
        assert_eq!(parliament.leaders.len(), 1, "and one leads for good");
        parliament.assert_safe();
    }
}

#[test]
fn a_blank_node_that_is_named_under_another_identity_is_a_stranger_and_never_votes() {
    let mut parliament = with_a_blank_one(1, 2, false);
    parliament.run_for(SECOND * 60);
    assert_eq!(parliament.leader(), None);
    assert_eq!(parliament.nodes[1].disk.vote, None);
    assert!(!is_voter(&parliament, 1) && parliament.alarms.contains(&(1, Alarm::Stranger)), "and says so");
    parliament.assert_safe();
}

/// Runs until an operator's recovery is on disk, and loses every message about it at that moment.
fn lose_the_announcement(parliament: &mut Parliament) {
    for _ in 0..100_000 {
        if !parliament.answers.is_empty() {
            return parliament.lose_words();
        }
        parliament.run_for(Duration::from_micros(100));
    }
    panic!("nothing is recovered");
}

#[test]
fn a_fresh_node_that_never_heard_of_the_recovery_that_names_it_is_led_by_it() {
    for seed in 0..10 {
        let (mut parliament, leader) = led(seed, 3);
        parliament.run_for(SECOND);
        let (one, two) = ((leader + 1) % 3, (leader + 2) % 3);
        parliament.crash(leader);
        parliament.crash(two);
        let fresh = parliament.add(Vec::new());
        parliament.start(fresh);
        parliament.run_for(SECOND * 10);
        parliament.with(one, |election, around| election.recover(around, 1, vec![id(fresh)], 77));
        lose_the_announcement(&mut parliament);
        parliament.crash(fresh);
        parliament.run_for(SECOND);
        parliament.start(fresh);
        assert!(!is_voter(&parliament, fresh), "it knows nothing");
        assert!(parliament.run_until(SECOND * 5, |p| p.leader().is_some()), "seed {seed}: {:?}", parliament.answers);
        parliament.assert_safe();
    }
}

#[test]
fn voters_that_have_not_heard_of_their_generation_are_told_of_it_with_each_question_until_they_speak() {
    for seed in 0..10 {
        let (mut parliament, leader) = led(seed, 5);
        parliament.run_for(SECOND);
        let (one, two) = ((leader + 1) % 5, (leader + 2) % 5);
        for node in (0..5).filter(|node| ![one, two].contains(node)) {
            parliament.crash(node);
        }
        parliament.run_for(SECOND * 10);
        parliament.with(one, |election, around| election.recover(around, 1, vec![id(two)], 77));
        lose_the_announcement(&mut parliament);
        // The node could hear of it by asking itself; the test is not to depend on that.
        parliament.with(two, |election, around| election.put_off(around, SECOND * 60));
        assert!(parliament.run_until(SECOND * 3, |p| p.leader().is_some()), "seed {seed}: {:?}", parliament.answers);
        parliament.run_for(SECOND);
        let words = parliament.words;
        parliament.run_for(SECOND * 10);
        let words = parliament.words - words;
        assert!(words <= 10 * 2 * 2 * 2, "{words} words in ten seconds: a renewal and its answer, twice a second");
        parliament.assert_safe();
    }
}
