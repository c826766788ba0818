//! Rare cases that break things: each of these was a fault once.

use std::sync::Arc;
use std::time::Duration;

use super::cluster::{Cluster, MS, id};
use super::scenarios::{SECOND, led};
use crate::election::tests::Election;
use crate::election::{
    Alarm, Ballot, Body, ElectionMessage, Electorate, Identity, Lineage, NumberedView, Renewal, Term, Voter,
    VoterChange,
};
use crate::limits::EARLIEST_FOUNDING;

#[test]
fn a_voter_on_its_way_out_still_counts_for_the_majority_that_lets_it_go() {
    let (mut cluster, leader) = led(1, 2);
    cluster.run_for(SECOND);
    let other = 1 - leader;
    cluster.with(leader, |election, context| election.remove_voter(context, 1, &id(other)));
    cluster.run_for(SECOND);
    assert!(matches!(&cluster.answers[..], [(1, Ok(one))] if one.voters.len() == 1), "{:?}", cluster.answers);
    cluster.run_for(SECOND * 10);
    assert_eq!((cluster.leader(), cluster.leaders.len()), (Some(leader), 1), "the claim never ended");
    assert!(!cluster.election(other).is_voter(), "who was voted out knows");
    cluster.assert_safe();
}

#[test]
fn a_blank_voter_is_taken_in_after_a_recovery() {
    let (mut cluster, leader) = led(2, 3);
    cluster.run_for(SECOND);
    for node in (0..3).filter(|node| *node != leader) {
        cluster.crash(node);
    }
    cluster.run_for(SECOND * 5);
    cluster.with(leader, |election, context| election.recover(context, 1, Vec::new(), 77, None));
    assert!(cluster.run_until(SECOND * 20, |p| p.leader().is_some()), "{:?}", cluster.answers);
    let new = cluster.add(Vec::new());
    cluster.start(new);
    cluster.run_for(SECOND);
    cluster.with(leader, |election, context| election.add_voter(context, 2, id(new)));
    cluster.run_for(SECOND * 3);
    assert!(matches!(&cluster.answers[..], [(1, Ok(_)), (2, Ok(_))]), "{:?}", cluster.answers);
    cluster.run_for(SECOND * 10);
    assert_eq!(cluster.leader(), Some(leader));
    cluster.assert_safe();
}

#[test]
fn a_leader_that_alone_knows_that_it_is_voted_out_still_stands_to_bring_it_about() {
    let (mut cluster, leader) = led(3, 2);
    cluster.run_for(SECOND);
    let other = 1 - leader;
    cluster.with(leader, |election, context| election.remove_voter(context, 1, &id(leader)));
    let is_changed = |view: &NumberedView| view.electorate.voters.len() == 1;
    cluster.run_up_to(SECOND, |p| p.election(leader).ballot().accepted.as_ref().is_some_and(is_changed));
    cluster.lose_messages();
    cluster.split(&[&[leader], &[other]]);
    cluster.run_for(Duration::from_millis(10));
    cluster.crash_when_written(leader, 0);
    assert!(cluster.nodes[leader].disk.accepted.as_ref().is_some_and(is_changed));
    assert!(!cluster.nodes[other].disk.accepted.as_ref().is_some_and(is_changed));
    cluster.split(&[&[0, 1]]);
    cluster.start(leader);
    // The leader's view is the newest one, so that nobody else is elected; by that view the other voter is the whole
    // electorate.
    assert!(cluster.run_until(SECOND * 20, |p| p.leader() == Some(other)));
    cluster.run_for(SECOND * 10);
    assert_eq!(cluster.leader(), Some(other));
    cluster.assert_safe();
}

#[test]
fn who_was_voted_out_while_it_was_away_learns_it_when_it_asks() {
    let (mut cluster, leader) = led(4, 5);
    cluster.run_for(SECOND);
    let away = (leader + 1) % 5;
    cluster.crash(away);
    cluster.with(leader, |election, context| election.remove_voter(context, 1, &id(away)));
    cluster.run_for(SECOND);
    // The members change once more, and nobody tells the node of the new view unasked any more.
    cluster.members.push(id(9));
    cluster.with(leader, Election::members_changed);
    cluster.run_for(SECOND);
    cluster.start(away);
    cluster.run_for(SECOND * 5);
    assert!(!cluster.election(away).is_voter());
    let (messages, until) = (cluster.messages, cluster.now);
    assert_eq!(cluster.election(away).next_deadline(true), None, "it stands no more");
    cluster.run_for(SECOND * 10);
    assert!(cluster.messages - messages < 4 * 3 * 25, "{} messages since {until}", cluster.messages - messages);
    assert_eq!((cluster.leader(), cluster.leaders.len()), (Some(leader), 1));
    cluster.assert_safe();
}

#[test]
fn far_away_voters_are_not_asked_again_before_they_can_have_answered() {
    let mut cluster = Cluster::new(5, 3);
    cluster.delay = (100 * MS, 110 * MS);
    cluster.start_all();
    assert!(cluster.run_until(SECOND * 10, |p| p.leader().is_some()));
    cluster.run_for(SECOND * 5);
    let before = cluster.messages;
    cluster.run_for(SECOND * 10);
    // Twenty renewals, with a few repeated while their answers are under way.
    let messages = cluster.messages - before;
    assert!(messages < 20 * 2 * 2 * 12, "{messages} messages in ten seconds");
    cluster.assert_safe();
}

fn lineage(cluster: &Cluster, node: usize) -> Lineage {
    cluster.election(node).lineage().expect("it has formed")
}

fn far_view(cluster: &Cluster, node: usize, term: Term, number: u64) -> NumberedView {
    let electorate = cluster.election(node).electorate().expect("it has formed").clone();
    NumberedView::new(term, number, Arc::new([id(1)]), Arc::new(electorate), None)
}

#[test]
fn a_view_of_another_generation_or_with_an_endless_number_is_not_accepted_from_the_network() {
    let (mut cluster, leader) = led(6, 3);
    cluster.run_for(SECOND);
    let voter = (leader + 1) % 3;
    let before = cluster.election(voter).ballot().clone();
    for (term, number) in
        [(Term::beginning_of(3, 1), 9), (Term(Term::beginning_of(3, 1).0 + 1), 9), (Term(7), u64::MAX)]
    {
        let view = far_view(&cluster, voter, term, number);
        cluster.with(voter, |election, context| election.contents(context, &view));
        assert_eq!(*cluster.election(voter).ballot(), before);
    }
    let (root, began) = (lineage(&cluster, voter), Term::beginning_of(1, 1));
    let electorate =
        Electorate { lineage: Lineage(5), root, began, founded: EARLIEST_FOUNDING, voters: voters_of(&before) };
    let body = Body::Generation { electorate, number: u64::MAX };
    let message = ElectionMessage { from: Identity(5), lineage: Lineage(5), body };
    cluster.with(voter, |election, context| election.receive(context, &id(leader), message));
    assert_eq!(*cluster.election(voter).ballot(), before);
    cluster.assert_safe();
}

fn voters_of(ballot: &Ballot) -> Vec<Voter> {
    ballot.accepted.as_ref().expect("it has formed").electorate.voters.clone()
}

#[test]
fn a_voter_stands_above_the_term_of_the_view_it_has_accepted() {
    let (mut cluster, leader) = led(7, 3);
    cluster.run_for(SECOND);
    let voter = (leader + 1) % 3;
    let view = far_view(&cluster, voter, Term(40), 9);
    // All nodes get it, so that no answer corrects it.
    for node in 0..3 {
        cluster.with(node, |election, context| election.contents(context, &view));
    }
    cluster.crash(leader);
    cluster.run_for(SECOND * 10);
    let (_, term) = cluster.claims()[0];
    assert!(term > Term(40), "{term}");
    cluster.assert_safe();
}

#[test]
fn a_message_under_the_own_identity_is_a_copy_of_the_own_disk_and_an_alarm() {
    let (mut cluster, leader) = led(8, 3);
    cluster.run_for(SECOND);
    let from = cluster.nodes[leader].identity;
    let newest = cluster.election(leader).ballot().accepted.as_ref().expect("formed").under(Term(9)).reference();
    let renewal =
        Renewal { term: Term(9), sequence: 1, lease_ms: 2_000, claim: None, newest, delta: None, agreed: None };
    let message = ElectionMessage { from, lineage: lineage(&cluster, leader), body: Body::Renew(renewal) };
    let other = id((leader + 1) % 3);
    cluster.with(leader, |election, context| election.receive(context, &other, message));
    assert_eq!(cluster.leader(), Some(leader));
    assert_eq!(cluster.election(leader).term(), Term(1));
    assert!(cluster.alarms.contains(&(leader, Alarm::DuplicateIdentity { id: other })), "{:?}", cluster.alarms);
}

#[test]
fn nobody_hears_of_a_recovery_before_it_is_on_disk() {
    let (mut cluster, leader) = led(9, 3);
    cluster.run_for(SECOND);
    let voter = (leader + 1) % 3;
    for node in (0..3).filter(|node| *node != voter) {
        cluster.crash(node);
    }
    cluster.run_for(SECOND * 5);
    cluster.write_delay = (3_000 * MS, 3_000 * MS);
    cluster.with(voter, |election, context| election.recover(context, 1, Vec::new(), 77, None));
    assert!(cluster.run_until(SECOND * 10, |p| p.election(voter).term().generation() == 1));
    cluster.run_for(Duration::from_millis(2_900));
    assert_eq!(cluster.answers, [], "it is not done yet");
    cluster.run_for(Duration::from_millis(200));
    assert!(matches!(cluster.answers[..], [(1, Ok(_))]), "{:?}", cluster.answers);
}

#[test]
fn a_candidate_that_a_voters_newest_view_leaves_out_gets_its_vote() {
    let (mut cluster, _) = led(4031, 3);
    cluster.run_for(SECOND);
    let founding = cluster.election(0).electorate().expect("formed").clone();
    let without = |term, node: usize| {
        let change = VoterChange::Removed(founding.named(&id(node)).expect("a voter").clone());
        let electorate = Arc::new(founding.changed(&change).expect("a change"));
        NumberedView::new(Term(term), 2, Arc::new([id(0)]), electorate, Some(Arc::new(change)))
    };
    // The first leader proposed to remove voter 0, and told voter 2 alone; the next one proposed to remove voter 1, and
    // told voter 1 alone.
    for (node, term, view) in [(0, 2, without(2, 1)), (1, 2, without(2, 1)), (2, 1, without(1, 0))] {
        cluster.crash(node);
        let disk = &mut cluster.nodes[node].disk;
        (disk.term, disk.vote, disk.accepted) = (Term(term), None, Some(view));
        cluster.start(node);
    }
    assert!(cluster.run_until(SECOND * 10, |p| p.leader().is_some()));
    cluster.run_for(SECOND * 5);
    assert_eq!(cluster.newest_agreed().expect("a view").electorate.voters.len(), 2);
    assert!(!cluster.election(1).is_voter());
    cluster.assert_safe();
}

#[test]
fn a_leader_that_was_cut_off_stands_again_as_soon_as_it_is_heard() {
    for seed in 1..20 {
        let (mut cluster, leader) = led(seed, 3);
        cluster.run_for(SECOND);
        let (other, third) = ((leader + 1) % 3, (leader + 2) % 3);
        cluster.crash(third);
        cluster.run_for(SECOND);
        cluster.split(&[&[leader], &[other]]);
        assert!(cluster.run_until(SECOND * 5, |p| p.leader().is_none()));
        cluster.run_for(Duration::from_millis(300));
        cluster.split(&[&[leader, other]]);
        assert!(cluster.run_until(Duration::from_millis(700), |p| p.leader().is_some()), "seed {seed}");
        cluster.run_for(SECOND * 5);
        cluster.assert_safe();
    }
}
