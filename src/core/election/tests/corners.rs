//! Rare cases that break things: each of these was a fault once.

use std::sync::Arc;
use std::time::Duration;

use super::parliament::{MS, Parliament, id};
use super::scenarios::{SECOND, led};
use crate::core::election::{
    Alarm, Ballot, Body, Election, Electorate, Identity, Lineage, NumberedView, Renewal, Term, Voter, VoterChange, Word,
};

#[test]
fn a_voter_on_its_way_out_still_counts_for_the_majority_that_lets_it_go() {
    let (mut parliament, leader) = led(1, 2);
    parliament.run_for(SECOND);
    let other = 1 - leader;
    parliament.with(leader, |election, around| election.remove_voter(around, 1, &id(other)));
    parliament.run_for(SECOND);
    assert!(matches!(&parliament.answers[..], [(1, Ok(one))] if one.voters.len() == 1), "{:?}", parliament.answers);
    parliament.run_for(SECOND * 10);
    assert_eq!((parliament.leader(), parliament.leaders.len()), (Some(leader), 1), "the claim never ended");
    assert!(!parliament.election(other).is_voter(), "who was voted out knows");
    parliament.assert_safe();
}

#[test]
fn a_blank_voter_is_taken_in_after_a_recovery() {
    let (mut parliament, leader) = led(2, 3);
    parliament.run_for(SECOND);
    for node in (0..3).filter(|node| *node != leader) {
        parliament.crash(node);
    }
    parliament.run_for(SECOND * 5);
    parliament.with(leader, |election, around| election.recover(around, 1, Vec::new(), 77));
    assert!(parliament.run_until(SECOND * 20, |p| p.leader().is_some()), "{:?}", parliament.answers);
    let new = parliament.add(Vec::new());
    parliament.start(new);
    parliament.run_for(SECOND);
    parliament.with(leader, |election, around| election.add_voter(around, 2, id(new)));
    parliament.run_for(SECOND * 3);
    assert!(matches!(&parliament.answers[..], [(1, Ok(_)), (2, Ok(_))]), "{:?}", parliament.answers);
    parliament.run_for(SECOND * 10);
    assert_eq!(parliament.leader(), Some(leader));
    parliament.assert_safe();
}

#[test]
fn a_leader_that_alone_knows_that_it_is_voted_out_still_stands_to_bring_it_about() {
    let (mut parliament, leader) = led(3, 2);
    parliament.run_for(SECOND);
    let other = 1 - leader;
    parliament.with(leader, |election, around| election.remove_voter(around, 1, &id(leader)));
    let is_changed = |view: &NumberedView| view.electorate.voters.len() == 1;
    parliament.run_up_to(SECOND, |p| p.election(leader).ballot().accepted.as_ref().is_some_and(is_changed));
    parliament.lose_words();
    parliament.split(&[&[leader], &[other]]);
    parliament.run_for(Duration::from_millis(10));
    parliament.crash_when_written(leader, 0);
    assert!(parliament.nodes[leader].disk.accepted.as_ref().is_some_and(is_changed));
    assert!(!parliament.nodes[other].disk.accepted.as_ref().is_some_and(is_changed));
    parliament.split(&[&[0, 1]]);
    parliament.start(leader);
    // The leader's view is the newest one, so that nobody else is elected; by that view the other voter is the whole
    // electorate.
    assert!(parliament.run_until(SECOND * 20, |p| p.leader() == Some(other)));
    parliament.run_for(SECOND * 10);
    assert_eq!(parliament.leader(), Some(other));
    parliament.assert_safe();
}

#[test]
fn who_was_voted_out_while_it_was_away_learns_it_when_it_asks() {
    let (mut parliament, leader) = led(4, 5);
    parliament.run_for(SECOND);
    let away = (leader + 1) % 5;
    parliament.crash(away);
    parliament.with(leader, |election, around| election.remove_voter(around, 1, &id(away)));
    parliament.run_for(SECOND);
    // The members change once more, and nobody tells the node of the new view unasked any more.
    parliament.members.push(id(9));
    parliament.with(leader, Election::members_changed);
    parliament.run_for(SECOND);
    parliament.start(away);
    parliament.run_for(SECOND * 5);
    assert!(!parliament.election(away).is_voter());
    let (words, until) = (parliament.words, parliament.now);
    assert_eq!(parliament.election(away).next_deadline(true), None, "it stands no more");
    parliament.run_for(SECOND * 10);
    assert!(parliament.words - words < 4 * 3 * 25, "{} words since {until}", parliament.words - words);
    assert_eq!((parliament.leader(), parliament.leaders.len()), (Some(leader), 1));
    parliament.assert_safe();
}

#[test]
fn far_away_voters_are_not_asked_again_before_they_can_have_answered() {
    let mut parliament = Parliament::new(5, 3);
    parliament.delay = (100 * MS, 110 * MS);
    parliament.start_all();
    assert!(parliament.run_until(SECOND * 10, |p| p.leader().is_some()));
    parliament.run_for(SECOND * 5);
    let before = parliament.words;
    parliament.run_for(SECOND * 10);
    // Twenty renewals, with a few repeated while their answers are under way.
    let words = parliament.words - before;
    assert!(words < 20 * 2 * 2 * 12, "{words} words in ten seconds");
    parliament.assert_safe();
}

fn lineage(parliament: &Parliament, node: usize) -> Lineage {
    parliament.election(node).lineage().expect("it has formed")
}

fn far_view(parliament: &Parliament, node: usize, term: Term, number: u64) -> NumberedView {
    let electorate = parliament.election(node).electorate().expect("it has formed").clone();
    NumberedView::new(term, number, Arc::new([id(1)]), Arc::new(electorate), None)
}

#[test]
fn a_view_of_another_generation_or_with_an_endless_number_is_not_accepted_from_the_network() {
    let (mut parliament, leader) = led(6, 3);
    parliament.run_for(SECOND);
    let voter = (leader + 1) % 3;
    let before = parliament.election(voter).ballot().clone();
    for (term, number) in
        [(Term::beginning_of(3, 1), 9), (Term(Term::beginning_of(3, 1).0 + 1), 9), (Term(7), u64::MAX)]
    {
        let view = far_view(&parliament, voter, term, number);
        parliament.with(voter, |election, around| election.contents(around, &view));
        assert_eq!(*parliament.election(voter).ballot(), before);
    }
    let (root, began) = (lineage(&parliament, voter), Term::beginning_of(1, 1));
    let electorate = Electorate { lineage: Lineage(5), root, began, voters: voters_of(&before) };
    let body = Body::Recovered { electorate, number: u64::MAX };
    let word = Word { from: Identity(5), lineage: Lineage(5), body };
    parliament.with(voter, |election, around| election.heard(around, &id(leader), word));
    assert_eq!(*parliament.election(voter).ballot(), before);
    parliament.assert_safe();
}

fn voters_of(ballot: &Ballot) -> Vec<Voter> {
    ballot.accepted.as_ref().expect("it has formed").electorate.voters.clone()
}

#[test]
fn a_voter_stands_above_the_term_of_the_view_it_has_accepted() {
    let (mut parliament, leader) = led(7, 3);
    parliament.run_for(SECOND);
    let voter = (leader + 1) % 3;
    let view = far_view(&parliament, voter, Term(40), 9);
    // All nodes get it, so that no answer corrects it.
    for node in 0..3 {
        parliament.with(node, |election, around| election.contents(around, &view));
    }
    parliament.crash(leader);
    parliament.run_for(SECOND * 10);
    let (_, term) = parliament.claims()[0];
    assert!(term > Term(40), "{term}");
    parliament.assert_safe();
}

#[test]
fn a_word_under_the_own_identity_is_a_copy_of_the_own_disk_and_an_alarm() {
    let (mut parliament, leader) = led(8, 3);
    parliament.run_for(SECOND);
    let from = parliament.nodes[leader].identity;
    let newest = parliament.election(leader).ballot().accepted.as_ref().expect("formed").under(Term(9)).reference();
    let renewal =
        Renewal { term: Term(9), sequence: 1, lease_ms: 2_000, claim: None, newest, delta: None, agreed: None };
    let word = Word { from, lineage: lineage(&parliament, leader), body: Body::Renew(renewal) };
    let other = id((leader + 1) % 3);
    parliament.with(leader, |election, around| election.heard(around, &other, word));
    assert_eq!(parliament.leader(), Some(leader));
    assert_eq!(parliament.election(leader).term(), Term(1));
    assert!(parliament.alarms.contains(&(leader, Alarm::Copied { id: other })), "{:?}", parliament.alarms);
}

#[test]
fn nobody_hears_of_a_recovery_before_it_is_on_disk() {
    let (mut parliament, leader) = led(9, 3);
    parliament.run_for(SECOND);
    let voter = (leader + 1) % 3;
    for node in (0..3).filter(|node| *node != voter) {
        parliament.crash(node);
    }
    parliament.run_for(SECOND * 5);
    parliament.write_delay = (3_000 * MS, 3_000 * MS);
    parliament.with(voter, |election, around| election.recover(around, 1, Vec::new(), 77));
    assert!(parliament.run_until(SECOND * 10, |p| p.election(voter).term().generation() == 1));
    parliament.run_for(Duration::from_millis(2_900));
    assert_eq!(parliament.answers, [], "it is not done yet");
    parliament.run_for(Duration::from_millis(200));
    assert!(matches!(parliament.answers[..], [(1, Ok(_))]), "{:?}", parliament.answers);
}

#[test]
fn a_candidate_that_a_voters_newest_view_leaves_out_gets_its_vote() {
    let (mut parliament, _) = led(4031, 3);
    parliament.run_for(SECOND);
    let founding = parliament.election(0).electorate().expect("formed").clone();
    let without = |term, node: usize| {
        let change = VoterChange::Removed(founding.named(&id(node)).expect("a voter").clone());
        let electorate = Arc::new(founding.changed(&change).expect("a change"));
        NumberedView::new(Term(term), 2, Arc::new([id(0)]), electorate, Some(Arc::new(change)))
    };
    // The first leader proposed to remove voter 0, and told voter 2 alone; the next one proposed to remove voter 1, and
    // told voter 1 alone.
    for (node, term, view) in [(0, 2, without(2, 1)), (1, 2, without(2, 1)), (2, 1, without(1, 0))] {
        parliament.crash(node);
        let disk = &mut parliament.nodes[node].disk;
        (disk.term, disk.vote, disk.accepted) = (Term(term), None, Some(view));
        parliament.start(node);
    }
    assert!(parliament.run_until(SECOND * 10, |p| p.leader().is_some()));
    parliament.run_for(SECOND * 5);
    assert_eq!(parliament.newest_agreed().expect("a view").electorate.voters.len(), 2);
    assert!(!parliament.election(1).is_voter());
    parliament.assert_safe();
}

#[test]
fn a_leader_that_was_cut_off_stands_again_as_soon_as_it_is_heard() {
    for seed in 1..20 {
        let (mut parliament, leader) = led(seed, 3);
        parliament.run_for(SECOND);
        let (other, third) = ((leader + 1) % 3, (leader + 2) % 3);
        parliament.crash(third);
        parliament.run_for(SECOND);
        parliament.split(&[&[leader], &[other]]);
        assert!(parliament.run_until(SECOND * 5, |p| p.leader().is_none()));
        parliament.run_for(Duration::from_millis(300));
        parliament.split(&[&[leader, other]]);
        assert!(parliament.run_until(Duration::from_millis(700), |p| p.leader().is_some()), "seed {seed}");
        parliament.run_for(SECOND * 5);
        parliament.assert_safe();
    }
}
