//! Histories that random runs seldom produce, played step by step: each breaks safety if its rule is left out.

use std::time::Duration;

use super::parliament::{LEASE, MS, Parliament, id};
use super::scenarios::{SECOND, led};
use crate::core::election::flaw::Flaw;
use crate::core::election::{Body, Election, NumberedView, Role, Term, ViewRef, Word};

const MOMENT: Duration = Duration::from_micros(100);

fn is_leading(parliament: &Parliament, node: usize) -> bool {
    let election = parliament.nodes[node].election.as_ref();
    election.is_some_and(|election| matches!(election.role, Role::Leading(_)))
}

fn step_until(parliament: &mut Parliament, holds: impl Fn(&Parliament) -> bool) {
    for _ in 0..200_000 {
        if holds(parliament) {
            return;
        }
        parliament.run_for(MOMENT);
    }
    panic!("it never comes to that");
}

fn newest_on_disk(parliament: &Parliament, node: usize) -> ViewRef {
    parliament.nodes[node].disk.accepted.as_ref().expect("it has formed").reference()
}

fn five(flaw: Option<Flaw>, voters: usize) -> (Parliament, usize) {
    let mut parliament = Parliament::new(1, voters);
    parliament.flaw = flaw;
    parliament.start_all();
    assert!(parliament.run_until(SECOND * 2, |parliament| parliament.leader().is_some()));
    parliament.run_for(SECOND);
    let leader = parliament.leader().expect("leads");
    (parliament, leader)
}

#[test]
fn voters_lead_above_the_terms_that_were_led_in_another_way() {
    // Of another generation, or at its end: not of this electorate's terms, and no reason to elect nobody.
    for (floor, first) in [(12, 13), (Term::beginning_of(1, 5).0, 1), ((1 << 40) - 1, 1), (0, 1)] {
        let mut parliament = Parliament::new(1, 3);
        parliament.floor = Term(floor);
        parliament.start_all();
        assert!(parliament.run_until(SECOND * 2, |parliament| parliament.leader().is_some()));
        let leader = parliament.leader().expect("leads");
        assert_eq!(parliament.leaders.iter().next(), Some((&Term(first), &leader)), "above {floor}");
        assert!(parliament.violations.is_empty(), "{:?}", parliament.violations);
    }
}

#[test]
fn a_voter_that_knows_of_terms_led_in_another_way_does_not_depose_a_leader() {
    let (mut parliament, leader) = five(None, 3);
    parliament.floor = Term(12);
    let follower = (leader + 1) % 3;
    parliament.crash(follower);
    parliament.start(follower);
    parliament.run_for(SECOND * 5);
    assert_eq!((parliament.leader(), parliament.leaders.len()), (Some(leader), 1));
    // Whoever follows is that voter or another one.
    parliament.crash(leader);
    assert!(parliament.run_until(SECOND * 20, |parliament| parliament.leader().is_some_and(|now| now != leader)));
    let last = *parliament.leaders.keys().last().expect("somebody leads");
    let is_of_follower = parliament.leader() == Some(follower);
    assert!(last == Term(if is_of_follower { 13 } else { 2 }), "{last}");
}

/// Plays figure 8 of Raft with this machine.
fn figure_eight(flaw: Option<Flaw>) -> Vec<String> {
    let (mut parliament, one) = five(flaw, 5);
    let rest: Vec<usize> = (0..5).filter(|node| *node != one).collect();
    let number = parliament.newest_agreed().expect("a view").number;
    // (a) The first leader proposes a view to one other voter, and dies.
    let two = rest[0];
    parliament.split(&[&[one, two], &[rest[1]], &[rest[2]], &[rest[3]]]);
    parliament.lose_words();
    parliament.members.push(id(9));
    parliament.with(one, Election::members_changed);
    step_until(&mut parliament, |p| newest_on_disk(p, two).number == number + 1);
    parliament.crash(one);
    parliament.crash(two);
    // (b) Another leader is elected by voters that have not heard of it, and dies before it tells anybody.
    parliament.split(&[&rest[1..]]);
    step_until(&mut parliament, |p| rest[1..].iter().any(|node| is_leading(p, *node)));
    let five = *rest[1..].iter().find(|node| is_leading(&parliament, **node)).expect("one of them");
    parliament.split(&[]);
    parliament.lose_words();
    step_until(&mut parliament, |p| newest_on_disk(p, five).term == Term(2));
    parliament.crash(five);
    let [three, four] = rest[1..].iter().copied().filter(|node| *node != five).collect::<Vec<_>>()[..] else {
        panic!("two are left")
    };
    assert_eq!(newest_on_disk(&parliament, three).term, Term(1));
    parliament.crash(four);
    // (c) The view's first leader, or the other one that has it, is elected, and brings it to the third.
    parliament.start(one);
    parliament.start(two);
    parliament.split(&[&[one, two, three]]);
    step_until(&mut parliament, |p| is_leading(p, one) || is_leading(p, two));
    let (first, second) = if is_leading(&parliament, one) { (one, two) } else { (two, one) };
    // The second voter reports what it has from before, and dies before it has it under the new term.
    parliament.nodes[second].is_up = true;
    parliament.write_delay = (20 * MS, 20 * MS);
    let began = parliament.words;
    step_until(&mut parliament, |p| p.words > began && p.claims().iter().any(|(node, _)| *node == first));
    parliament.run_for(Duration::from_millis(4));
    parliament.crash_when_written(second, 0);
    assert_eq!(newest_on_disk(&parliament, second).term, Term(1));
    step_until(&mut parliament, |p| newest_on_disk(p, three).number == number + 1);
    parliament.run_for(Duration::from_millis(50));
    // (d) The leader of (b) comes back; none of the voters that are left has anything newer.
    parliament.crash(first);
    parliament.crash(three);
    parliament.members = vec![id(0), id(7)];
    for node in [second, four, five] {
        parliament.start(node);
    }
    parliament.split(&[&[second, four, five]]);
    assert!(parliament.run_until(SECOND * 20, |p| p.leader() == Some(five)), "only it can be elected");
    parliament.run_for(SECOND);
    parliament.with(five, Election::members_changed);
    parliament.run_for(SECOND);
    assert!(parliament.nodes[five].agreed.as_ref().is_some_and(|view| view.number > number));
    parliament.violations
}

#[test]
fn a_view_counts_in_its_leaders_own_term_only() {
    assert_eq!(figure_eight(None), [] as [&str; 0]);
    let violations = figure_eight(Some(Flaw::CountedInLaterTerm));
    assert!(violations.iter().any(|why| why.contains("two contents")), "{violations:?}");
}

/// Plays the history that showed Raft's first rule for changing the electorate to be unsafe.
fn two_changes_that_overlap(flaw: Option<Flaw>) -> Vec<String> {
    let (mut parliament, one) = five(flaw, 4);
    let new = parliament.add(Vec::new());
    parliament.start(new);
    let rest: Vec<usize> = (0..4).filter(|node| *node != one).collect();
    // The first leader adds a voter, and only that voter hears of it: all were there when they were asked.
    parliament.with(one, |election, around| election.add_voter(around, 1, id(new)));
    let is_changed = |view: &NumberedView| view.change.is_some();
    parliament.run_up_to(SECOND, |p| p.election(one).ballot().accepted.as_ref().is_some_and(is_changed));
    parliament.split(&[&[one, new], &[rest[0]], &[rest[1]], &[rest[2]]]);
    parliament.lose_words();
    step_until(&mut parliament, |p| p.nodes[new].disk.accepted.as_ref().is_some_and(is_changed));
    parliament.crash(one);
    parliament.crash(new);
    // The second leader removes a voter; of its two voters, one forgets that it was asked anything.
    parliament.split(&[&rest]);
    step_until(&mut parliament, |p| rest.iter().any(|node| is_leading(p, *node)));
    let two = *rest.iter().find(|node| is_leading(&parliament, **node)).expect("one of them");
    let [three, four] = rest.iter().copied().filter(|node| *node != two).collect::<Vec<_>>()[..] else {
        panic!("two are left")
    };
    parliament.write_delay = (20 * MS, 20 * MS);
    step_until(&mut parliament, |p| p.leader() == Some(two));
    parliament.split(&[&[two, three]]);
    parliament.lose_words();
    parliament.crash_when_written(four, 0);
    assert_eq!(newest_on_disk(&parliament, four).term, Term(1));
    parliament.with(two, |election, around| election.remove_voter(around, 2, &id(one)));
    parliament.run_for(LEASE * 9 / 10);
    // The first one comes back, with the voter that it added and the one that forgot: three of five.
    for node in [one, new, four] {
        parliament.start(node);
    }
    parliament.split(&[&[two, three], &[one, new, four]]);
    assert!(parliament.run_until(SECOND * 20, |p| p.claims().iter().any(|(node, _)| [one, new].contains(node))));
    parliament.run_for(SECOND);
    parliament.violations
}

#[test]
fn an_electorate_changes_only_after_its_leader_has_settled_its_term() {
    assert_eq!(two_changes_that_overlap(None), [] as [&str; 0]);
    let violations = two_changes_that_overlap(Some(Flaw::UnsettledElectorate));
    assert!(violations.iter().any(|why| why.contains("valid claims")), "{violations:?}");
}

/// Sends requests that are refused, which must not move the term; returns true if the leader is the same as before.
fn outlives_refused_candidates(flaw: Option<Flaw>) -> bool {
    let (mut parliament, leader) = led(3, 3);
    parliament.run_for(SECOND);
    let (stranger, term) = ((leader + 1) % 3, Term(9));
    let newest = parliament.election(stranger).newest().expect("it has formed");
    for node in (0..3).filter(|node| *node != stranger) {
        if let Some(flaw) = flaw {
            parliament.nodes[node].election.as_mut().expect("runs").plant(flaw);
        }
        let (from, lineage) =
            (parliament.nodes[stranger].identity, parliament.election(node).lineage().expect("formed"));
        for body in [Body::PreVote { attempt: 1, term, newest }, Body::Vote { term, newest }] {
            let word = Word { from, lineage, body };
            parliament.with(node, |election, around| election.heard(around, &id(stranger), word));
        }
    }
    parliament.run_for(SECOND * 5);
    parliament.assert_safe();
    parliament.leader() == Some(leader) && parliament.leaders.len() == 1
}

#[test]
fn a_refused_candidate_moves_nobodys_term() {
    assert!(outlives_refused_candidates(None));
    assert!(!outlives_refused_candidates(Some(Flaw::TermFromRefused)));
}

/// Tells the second leader's voters once more that the first one has resigned.
fn release_that_comes_late(flaw: Option<Flaw>) -> Vec<String> {
    let (mut parliament, first) = five(flaw, 5);
    parliament.with(first, Election::resign);
    assert!(parliament.run_until(SECOND, |p| p.leader().is_some()));
    parliament.run_for(SECOND * 4);
    let second = parliament.leader().expect("the successor");
    let others: Vec<usize> = (0..5).filter(|node| ![first, second].contains(node)).collect();
    parliament.split(&[&[first, second], &others]);
    parliament.lose_words();
    let successor = parliament.nodes[others[0]].identity;
    for node in others.iter().rev() {
        let (from, lineage) = (parliament.nodes[first].identity, parliament.election(*node).lineage().expect("formed"));
        let word = Word { from, lineage, body: Body::Release { term: Term(1), successor } };
        parliament.with(*node, |election, around| election.heard(around, &id(first), word));
    }
    assert!(parliament.run_until(LEASE * 2, |p| p.leader().is_some_and(|leader| others.contains(&leader))));
    parliament.violations
}

#[test]
fn only_the_leader_of_the_term_releases() {
    assert_eq!(release_that_comes_late(None), [] as [&str; 0]);
    let violations = release_that_comes_late(Some(Flaw::ReleaseFromThePast));
    assert!(violations.iter().any(|why| why.contains("valid claims")), "{violations:?}");
}

/// Sends a follower everything that a candidate asks, but for the status query, while its promise stands.
fn asked_while_its_promise_stands(flaw: Option<Flaw>) -> bool {
    let (mut parliament, leader) = five(flaw, 3);
    let [candidate, follower] = (0..3).filter(|node| *node != leader).collect::<Vec<_>>()[..] else { panic!("two") };
    let term = Term(parliament.election(leader).term().0 + 1);
    let newest = parliament.election(follower).newest().expect("it has formed");
    let (from, lineage) =
        (parliament.nodes[candidate].identity, parliament.election(follower).lineage().expect("formed"));
    let word = Word { from, lineage, body: Body::Vote { term, newest } };
    parliament.with(follower, |election, around| election.heard(around, &id(candidate), word));
    parliament.election(follower).ballot().vote == Some(from)
}

#[test]
fn a_promise_keeps_a_voter_from_voting_whoever_asks() {
    assert!(!asked_while_its_promise_stands(None));
    assert!(asked_while_its_promise_stands(Some(Flaw::NoPromise)));
}
