//! Histories that random runs seldom produce, played step by step: each breaks safety if its rule is left out.

use std::time::Duration;

use super::cluster::{Cluster, LEASE, MS, id};
use super::scenarios::{SECOND, led};
use crate::election::flaw::Flaw;
use crate::election::tests::Election;
use crate::election::{Body, ElectionMessage, NumberedView, Role, Term, ViewRef};

const MOMENT: Duration = Duration::from_micros(100);

fn is_leading(cluster: &Cluster, node: usize) -> bool {
    let election = cluster.nodes[node].election.as_ref();
    election.is_some_and(|election| matches!(election.role, Role::Leading(_)))
}

fn step_until(cluster: &mut Cluster, holds: impl Fn(&Cluster) -> bool) {
    assert!(comes_to(cluster, 200_000, holds), "it never comes to that");
}

/// Returns true if this holds after so many moments at most.
fn comes_to(cluster: &mut Cluster, moments: u32, holds: impl Fn(&Cluster) -> bool) -> bool {
    for _ in 0..moments {
        if holds(cluster) {
            return true;
        }
        cluster.run_for(MOMENT);
    }
    holds(cluster)
}

fn newest_on_disk(cluster: &Cluster, node: usize) -> ViewRef {
    cluster.nodes[node].disk.accepted.as_ref().expect("it has formed").reference()
}

fn five(flaw: Option<Flaw>, voters: usize) -> (Cluster, usize) {
    five_by_seed(1, flaw, voters)
}

fn five_by_seed(seed: u64, flaw: Option<Flaw>, voters: usize) -> (Cluster, usize) {
    let mut cluster = Cluster::new(seed, voters);
    cluster.flaw = flaw;
    cluster.start_all();
    assert!(cluster.run_until(SECOND * 2, |cluster| cluster.leader().is_some()));
    cluster.run_for(SECOND);
    let leader = cluster.leader().expect("leads");
    (cluster, leader)
}

#[test]
fn voters_lead_above_the_terms_that_were_led_in_another_way() {
    // Of another generation, at its end, or out of reach: not of this electorate's terms, and no reason to elect
    // nobody.
    let (last, far) = ((1 << 40) - 1, Term::MAX_STEP + 7);
    for (floor, first) in [(12, 13), (Term::beginning_of(1, 5).0, 1), (last, 1), (far, 1), (0, 1)] {
        let mut cluster = Cluster::new(1, 3);
        cluster.floor = Term(floor);
        cluster.start_all();
        assert!(cluster.run_until(SECOND * 2, |cluster| cluster.leader().is_some()));
        let leader = cluster.leader().expect("leads");
        assert_eq!(cluster.leaders.iter().next(), Some((&Term(first), &leader)), "above {floor}");
        assert!(cluster.violations.is_empty(), "{:?}", cluster.violations);
    }
}

#[test]
fn a_voter_that_knows_of_terms_led_in_another_way_does_not_depose_a_leader() {
    let (mut cluster, leader) = five(None, 3);
    cluster.floor = Term(12);
    let follower = (leader + 1) % 3;
    cluster.crash(follower);
    cluster.start(follower);
    cluster.run_for(SECOND * 5);
    assert_eq!((cluster.leader(), cluster.leaders.len()), (Some(leader), 1));
    // Whoever follows, that voter is asked.
    cluster.crash(leader);
    assert!(cluster.run_until(SECOND * 20, |cluster| cluster.leader().is_some_and(|now| now != leader)));
    assert_eq!(cluster.leaders.keys().last(), Some(&Term(13)));
}

/// Lets three voters elect, of which the last one does not know of terms that were led in another way; returns who led
/// first, and in which term.
fn first_beside_one_that_knows_less(seed: u64, flaw: Option<Flaw>) -> (usize, Term) {
    let mut cluster = Cluster::new(seed, 3);
    cluster.flaw = flaw;
    for (node, floor) in [(0, 12), (1, 12), (2, 0)] {
        cluster.floor = Term(floor);
        cluster.start(node);
    }
    assert!(cluster.run_until(SECOND * 5, |cluster| cluster.leader().is_some()), "seed {seed}: nobody leads");
    cluster.assert_safe();
    let (term, leader) = cluster.leaders.iter().next().expect("there is one");
    (*leader, *term)
}

#[test]
fn no_term_is_led_that_a_majority_of_the_voters_knows_to_have_been_led_in_another_way_whoever_stands() {
    let first: Vec<(usize, Term)> = (0..30).map(|seed| first_beside_one_that_knows_less(seed, None)).collect();
    assert!(first.iter().all(|(_, term)| *term > Term(12)), "{first:?}");
    assert!(first.iter().any(|(leader, _)| *leader == 2), "who knows less stands as well");
    let planted = |seed| first_beside_one_that_knows_less(seed, Some(Flaw::FloorOfCandidateAlone));
    assert!((0..30).map(planted).any(|(leader, term)| leader == 2 && term < Term(12)));
}

/// Plays figure 8 of Raft with this machine; `None` if chance elects somebody else than the story has it.
fn figure_eight(seed: u64, flaw: Option<Flaw>) -> Option<Vec<String>> {
    let until =
        |cluster: &mut Cluster, holds: &dyn Fn(&Cluster) -> bool| comes_to(cluster, 200_000, holds).then_some(());
    let (mut cluster, one) = five_by_seed(seed, flaw, 5);
    let rest: Vec<usize> = (0..5).filter(|node| *node != one).collect();
    let number = cluster.newest_agreed().expect("a view").number;
    // (a) The first leader proposes a view to one other voter, and dies.
    let two = rest[0];
    cluster.split(&[&[one, two], &[rest[1]], &[rest[2]], &[rest[3]]]);
    cluster.lose_messages();
    cluster.members.push(id(9));
    cluster.with(one, Election::members_changed);
    until(&mut cluster, &|p| newest_on_disk(p, two).number == number + 1)?;
    cluster.crash(one);
    cluster.crash(two);
    // (b) Another leader is elected by voters that have not heard of it, and dies before it tells anybody.
    cluster.split(&[&rest[1..]]);
    until(&mut cluster, &|p| rest[1..].iter().any(|node| is_leading(p, *node)))?;
    let five = *rest[1..].iter().find(|node| is_leading(&cluster, **node)).expect("one of them");
    cluster.split(&[]);
    cluster.lose_messages();
    until(&mut cluster, &|p| newest_on_disk(p, five).term == Term(2))?;
    cluster.crash(five);
    let [three, four] = rest[1..].iter().copied().filter(|node| *node != five).collect::<Vec<_>>()[..] else {
        panic!("two are left")
    };
    if newest_on_disk(&cluster, three).term != Term(1) {
        return None;
    }
    cluster.crash(four);
    // (c) The view's first leader, or the other one that has it, is elected, and brings it to the third.
    cluster.start(one);
    cluster.start(two);
    cluster.split(&[&[one, two, three]]);
    until(&mut cluster, &|p| is_leading(p, one) || is_leading(p, two))?;
    let (first, second) = if is_leading(&cluster, one) { (one, two) } else { (two, one) };
    // The second voter reports what it has from before, and dies before it has it under the new term.
    cluster.nodes[second].is_up = true;
    cluster.write_delay = (20 * MS, 20 * MS);
    let began = cluster.messages;
    until(&mut cluster, &|p| p.messages > began && p.claims().iter().any(|(node, _)| *node == first))?;
    cluster.run_for(Duration::from_millis(4));
    cluster.crash_when_written(second, 0);
    if newest_on_disk(&cluster, second).term != Term(1) {
        return None;
    }
    until(&mut cluster, &|p| newest_on_disk(p, three).number == number + 1)?;
    cluster.run_for(Duration::from_millis(50));
    // (d) The leader of (b) comes back; none of the voters that are left has anything newer.
    cluster.crash(first);
    cluster.crash(three);
    cluster.members = vec![id(0), id(7)];
    for node in [second, four, five] {
        cluster.start(node);
    }
    cluster.split(&[&[second, four, five]]);
    cluster.run_until(SECOND * 20, |p| p.leader() == Some(five)).then_some(())?;
    cluster.run_for(SECOND);
    cluster.with(five, Election::members_changed);
    cluster.run_for(SECOND);
    let has_agreed = cluster.nodes[five].agreed.as_ref().is_some_and(|view| view.number > number);
    has_agreed.then_some(cluster.violations)
}

#[test]
fn a_view_counts_in_its_leaders_own_term_only() {
    let played = |flaw| (0..40).filter_map(move |seed| figure_eight(seed, flaw));
    let sound: Vec<Vec<String>> = played(None).collect();
    assert!(sound.len() >= 3 && sound.iter().all(Vec::is_empty), "{} played: {sound:?}", sound.len());
    let violations: Vec<String> = played(Some(Flaw::CountedInLaterTerm)).flatten().collect();
    assert!(violations.iter().any(|why| why.contains("two contents")), "{violations:?}");
}

/// Plays the history that showed Raft's first rule for changing the electorate to be unsafe.
fn two_changes_that_overlap(flaw: Option<Flaw>) -> Vec<String> {
    let (mut cluster, one) = five(flaw, 4);
    let new = cluster.add(Vec::new());
    cluster.start(new);
    let rest: Vec<usize> = (0..4).filter(|node| *node != one).collect();
    // The first leader adds a voter, and only that voter hears of it: all were there when they were asked.
    cluster.with(one, |election, context| election.add_voter(context, 1, id(new)));
    let is_changed = |view: &NumberedView| view.change.is_some();
    cluster.run_up_to(SECOND, |p| p.election(one).ballot().accepted.as_ref().is_some_and(is_changed));
    cluster.split(&[&[one, new], &[rest[0]], &[rest[1]], &[rest[2]]]);
    cluster.lose_messages();
    step_until(&mut cluster, |p| p.nodes[new].disk.accepted.as_ref().is_some_and(is_changed));
    cluster.crash(one);
    cluster.crash(new);
    // The second leader removes a voter; of its two voters, one forgets that it was asked anything.
    cluster.split(&[&rest]);
    step_until(&mut cluster, |p| rest.iter().any(|node| is_leading(p, *node)));
    let two = *rest.iter().find(|node| is_leading(&cluster, **node)).expect("one of them");
    let [three, four] = rest.iter().copied().filter(|node| *node != two).collect::<Vec<_>>()[..] else {
        panic!("two are left")
    };
    cluster.write_delay = (20 * MS, 20 * MS);
    step_until(&mut cluster, |p| p.leader() == Some(two));
    cluster.split(&[&[two, three]]);
    cluster.lose_messages();
    cluster.crash_when_written(four, 0);
    assert_eq!(newest_on_disk(&cluster, four).term, Term(1));
    cluster.with(two, |election, context| election.remove_voter(context, 2, &id(one)));
    cluster.run_for(LEASE * 9 / 10);
    // The first one comes back, with the voter that it added and the one that forgot: three of five.
    for node in [one, new, four] {
        cluster.start(node);
    }
    cluster.split(&[&[two, three], &[one, new, four]]);
    assert!(cluster.run_until(SECOND * 20, |p| p.claims().iter().any(|(node, _)| [one, new].contains(node))));
    cluster.run_for(SECOND);
    cluster.violations
}

#[test]
fn an_electorate_changes_only_after_its_leader_has_settled_its_term() {
    assert_eq!(two_changes_that_overlap(None), [] as [&str; 0]);
    let violations = two_changes_that_overlap(Some(Flaw::UnsettledElectorate));
    assert!(violations.iter().any(|why| why.contains("valid claims")), "{violations:?}");
}

/// Sends requests that are refused, which must not move the term; returns true if the leader is the same as before.
fn outlives_refused_candidates(flaw: Option<Flaw>) -> bool {
    let (mut cluster, leader) = led(3, 3);
    cluster.run_for(SECOND);
    let (stranger, term) = ((leader + 1) % 3, Term(9));
    let newest = cluster.election(stranger).newest().expect("it has formed");
    for node in (0..3).filter(|node| *node != stranger) {
        if let Some(flaw) = flaw {
            cluster.nodes[node].election.as_mut().expect("runs").plant(flaw);
        }
        let (from, lineage) = (cluster.nodes[stranger].identity, cluster.election(node).lineage().expect("formed"));
        for body in [Body::PreVote { attempt: 1, term, newest }, Body::Vote { term, newest }] {
            let message = ElectionMessage { from, lineage, body };
            cluster.with(node, |election, context| election.receive(context, &id(stranger), message));
        }
    }
    cluster.run_for(SECOND * 5);
    cluster.assert_safe();
    cluster.leader() == Some(leader) && cluster.leaders.len() == 1
}

#[test]
fn a_refused_candidate_moves_nobodys_term() {
    assert!(outlives_refused_candidates(None));
    assert!(!outlives_refused_candidates(Some(Flaw::TermFromRefused)));
}

/// Tells the second leader's voters once more that the first one has resigned.
fn release_that_comes_late(flaw: Option<Flaw>) -> Vec<String> {
    let (mut cluster, first) = five(flaw, 5);
    cluster.with(first, Election::resign);
    assert!(cluster.run_until(SECOND, |p| p.leader().is_some()));
    cluster.run_for(SECOND * 4);
    let second = cluster.leader().expect("the successor");
    let others: Vec<usize> = (0..5).filter(|node| ![first, second].contains(node)).collect();
    cluster.split(&[&[first, second], &others]);
    cluster.lose_messages();
    let successor = cluster.nodes[others[0]].identity;
    for node in others.iter().rev() {
        let (from, lineage) = (cluster.nodes[first].identity, cluster.election(*node).lineage().expect("formed"));
        let message = ElectionMessage { from, lineage, body: Body::Release { term: Term(1), successor } };
        cluster.with(*node, |election, context| election.receive(context, &id(first), message));
    }
    assert!(cluster.run_until(LEASE * 2, |p| p.leader().is_some_and(|leader| others.contains(&leader))));
    cluster.violations
}

#[test]
fn only_the_leader_of_the_term_releases() {
    assert_eq!(release_that_comes_late(None), [] as [&str; 0]);
    let violations = release_that_comes_late(Some(Flaw::ReleaseFromThePast));
    assert!(violations.iter().any(|why| why.contains("valid claims")), "{violations:?}");
}

/// Sends a follower everything that a candidate asks, but for the status query, while its promise stands.
fn asked_while_its_promise_stands(flaw: Option<Flaw>) -> bool {
    let (mut cluster, leader) = five(flaw, 3);
    let [candidate, follower] = (0..3).filter(|node| *node != leader).collect::<Vec<_>>()[..] else { panic!("two") };
    let term = Term(cluster.election(leader).term().0 + 1);
    let newest = cluster.election(follower).newest().expect("it has formed");
    let (from, lineage) = (cluster.nodes[candidate].identity, cluster.election(follower).lineage().expect("formed"));
    let message = ElectionMessage { from, lineage, body: Body::Vote { term, newest } };
    cluster.with(follower, |election, context| election.receive(context, &id(candidate), message));
    cluster.election(follower).ballot().vote == Some(from)
}

#[test]
fn a_promise_keeps_a_voter_from_voting_whoever_asks() {
    assert!(!asked_while_its_promise_stands(None));
    assert!(asked_while_its_promise_stands(Some(Flaw::NoPromise)));
}
