//! Two electorates that were founded apart: of all that hear of both, in whatever order, one ends, and always the same.

use std::sync::Arc;
use std::time::Duration;

use rand::RngExt;

use super::chaos::{first_seed, seeds};
use super::cluster::{Cluster, LEASE, MS, id};
use super::scenarios::SECOND;
use crate::election::flaw::Flaw;
use crate::election::tests::Election;
use crate::election::{
    Alarm, Ballot, Body, Descent, ElectionMessage, Electorate, Identity, Lineage, NumberedView, Term, Voter,
    VoterChange,
};
use crate::limits::{EARLIEST_FOUNDING, MAX_TERMS_BEHIND};

/// The voters of each electorate; that of the first three was founded first.
const SIDES: [[usize; 3]; 2] = [[0, 1, 2], [3, 4, 5]];

/// Returns two electorates that do not know each other, both led, after so many changes of the leader in each.
fn two(seed: u64, resignations: [u32; 2], flaw: Option<Flaw>) -> Cluster {
    let mut cluster = Cluster::empty(seed);
    cluster.flaw = flaw;
    for (side, resignations) in SIDES.into_iter().zip(resignations) {
        for _ in side {
            let node = cluster.add(side.map(id).to_vec());
            cluster.start(node);
        }
        for nth in 0..=resignations {
            assert!(cluster.run_until(SECOND * 20, |p| leader_of(p, side).is_some()), "seed {seed}");
            cluster.run_for(SECOND);
            if nth < resignations {
                let leader = leader_of(&cluster, side).expect("led");
                cluster.with(leader, Election::resign);
                cluster.run_for(SECOND / 2);
            }
        }
    }
    cluster
}

fn leader_of(cluster: &Cluster, side: [usize; 3]) -> Option<usize> {
    cluster.claims().iter().map(|(node, _)| *node).find(|node| side.contains(node))
}

/// Returns the highest term that voters of this side were elected in.
fn highest(cluster: &Cluster, side: [usize; 3]) -> Term {
    let terms = cluster.led.iter().filter(|(_, node)| side.contains(node)).map(|((_, term), _)| *term);
    terms.max().unwrap_or_default()
}

/// Returns true if the first electorate leads above all terms of the second one, in which nobody votes any more.
fn is_one(cluster: &Cluster, first: &Descent) -> bool {
    let leader = leader_of(cluster, SIDES[0]);
    let is_above = leader.is_some_and(|leader| cluster.election(leader).term() > highest(cluster, SIDES[1]));
    let has_ended = |node: usize| {
        let ballot = cluster.election(node).ballot();
        ballot.accepted.is_none() && ballot.known == Some(*first) && ballot.ended.is_some()
    };
    cluster.claims().len() == 1 && is_above && SIDES[1].into_iter().all(has_ended)
}

fn first_of(cluster: &Cluster) -> Descent {
    cluster.election(0).electorate().map(Electorate::descent).expect("formed")
}

/// Has all hear of both leaders until one electorate is left; returns true if that is so in time.
fn meet(cluster: &mut Cluster) -> bool {
    let first = first_of(cluster);
    (0..20).any(|_| {
        cluster.gossip();
        cluster.run_for(SECOND / 2);
        is_one(cluster, &first)
    })
}

#[test]
fn the_one_that_was_founded_earlier_stands_whatever_the_terms_are_and_leads_above_the_other() {
    for (seed, resignations) in [[0, 0], [2, 0], [0, 2], [1, 1], [0, 5]].into_iter().enumerate() {
        let mut cluster = two(seed as u64, resignations, None);
        assert!(meet(&mut cluster), "{resignations:?}");
        for node in SIDES[1] {
            let by = first_of(&cluster).lineage;
            assert!(cluster.alarms.contains(&(node, Alarm::ElectorateEnded { by })), "{:?}", cluster.alarms);
            cluster.crash(node);
            cluster.start(node);
        }
        cluster.run_for(SECOND * 30);
        let first = first_of(&cluster);
        assert!(is_one(&cluster, &first), "{resignations:?}: what ended stays ended");
        cluster.assert_safe();
    }
}

#[test]
fn an_end_is_told_of_once_it_is_on_disk() {
    let mut cluster = two(1, [0, 0], None);
    let first = first_of(&cluster);
    cluster.nodes[4].write_delay = Some((1_000 * MS, 1_000 * MS));
    cluster.hear_of(4, first, Term(1));
    let says = |cluster: &Cluster| cluster.alarms.iter().any(|(node, _)| *node == 4);
    cluster.run_for(Duration::from_millis(900));
    assert!(!says(&cluster) && cluster.nodes[4].disk.ended.is_none());
    cluster.run_for(Duration::from_millis(200));
    assert!(says(&cluster) && cluster.nodes[4].disk.ended.is_some());
}

#[test]
fn a_leader_that_hears_of_one_that_stands_stops_at_once_and_nobody_leads_in_its_place_within_its_lease() {
    let mut cluster = two(2, [0, 0], None);
    let leader = leader_of(&cluster, SIDES[1]).expect("led");
    cluster.with(leader, Election::stop_leading);
    assert_eq!(leader_of(&cluster, SIDES[1]), None);
    cluster.run_for(LEASE / 2);
    assert_eq!(leader_of(&cluster, SIDES[1]), None);
    // The other one was never heard of again.
    assert!(cluster.run_until(LEASE * 3, |p| leader_of(p, SIDES[1]).is_some()));
    cluster.assert_safe();
}

/// Runs with faults at random, while anybody may hear of any electorate that was led, however long ago.
fn endures(seed: u64) -> Result<(), String> {
    let mut cluster = two(seed, [0, (seed % 3) as u32], None);
    cluster.loss = [0.0, 0.05, 0.3][(seed % 3) as usize];
    cluster.delay.1 = [2 * MS, 30 * MS, 120 * MS][(seed / 3 % 3) as usize];
    let founded = SIDES.map(|side| cluster.election(side[0]).electorate().expect("formed").descent());
    for _ in 0..40 {
        let (node, other) = (cluster.rng.random_range(0..6), cluster.rng.random_range(0..6));
        match cluster.rng.random_range(0..9) {
            0 => cluster.crash(node),
            1 | 2 => (0..6).for_each(|node| {
                if cluster.nodes[node].election.is_none() {
                    cluster.start(node);
                }
            }),
            3 => cluster.cut_pair(node, other),
            4 => cluster.cut.clear(),
            5 => cluster.gossip(),
            6 => {
                if let Some(leader) = cluster.leader() {
                    cluster.with(leader, Election::resign);
                }
            }
            _ => {
                let told = usize::from(cluster.rng.random_bool(0.5));
                let term = highest(&cluster, SIDES[told]);
                if cluster.nodes[node].election.is_some() {
                    cluster.hear_of(node, founded[told], term);
                }
            }
        }
        let pause = cluster.rng.random_range(0..900);
        cluster.run_for(Duration::from_millis(pause));
        let has_ended = |node: &usize| cluster.nodes[*node].disk.ended.is_some();
        if let Some(node) = SIDES[0].iter().find(|node| has_ended(node)) {
            return Err(format!("the electorate of {node} stands, and ended"));
        }
    }
    cluster.cut.clear();
    cluster.loss = 0.0;
    for node in 0..6 {
        if cluster.nodes[node].election.is_none() {
            cluster.start(node);
        }
    }
    cluster.run_until(SECOND * 20, |p| leader_of(p, SIDES[0]).is_some());
    if !meet(&mut cluster) {
        return Err(format!("two are left: {:?}", cluster.claims()));
    }
    cluster.violations.first().map_or(Ok(()), |broken| Err(broken.clone()))
}

#[test]
fn faults_of_every_kind_leave_the_one_that_stands_alone() {
    let failed = |seed: u64| endures(seed).err().map(|why| (seed, why));
    let failures: Vec<_> = (first_seed()..).take(seeds(60) as usize).filter_map(failed).collect();
    assert!(failures.is_empty(), "{} seeds, first {:?}", failures.len(), failures[0]);
}

#[test]
fn planted_electorates_that_do_not_end_and_leaders_that_stay_below_are_caught() {
    assert!(meet(&mut two(3, [0, 2], None)));
    for flaw in [Flaw::EndsForNone, Flaw::StaysBelowWhatEnded] {
        assert!(!meet(&mut two(3, [0, 2], Some(flaw))), "{flaw:?}");
    }
}

#[test]
fn a_voter_of_one_that_ended_votes_where_it_is_named_though_it_is_above_those_terms_and_keeps_aside_what_ended() {
    let mut cluster = two(5, [0, 3], None);
    let (first, ended) = (first_of(&cluster), cluster.election(4).lineage());
    let term = cluster.election(4).term();
    cluster.with(4, |election, context| election.learn_of(context, Some(first), None));
    cluster.run_for(SECOND);
    let voter = Voter { id: id(4), identity: cluster.nodes[4].identity };
    let formed = cluster.election(0).electorate().expect("formed");
    let named = formed.changed(&VoterChange::Added(voter)).expect("a change");
    let view = NumberedView::new(Term(1), 9, vec![id(0)].into(), Arc::new(named.clone()), None);
    cluster.with(4, |election, context| election.contents(context, &view));
    assert!(cluster.election(4).is_voter() && cluster.election(4).term() == term && term > view.term);
    let (lineage, began) = (Lineage(77), Term::beginning_of(1, 5));
    let body = Body::Generation { electorate: Electorate { lineage, began, ..named }, number: 10 };
    let message = ElectionMessage { from: cluster.nodes[0].identity, lineage, body };
    cluster.with(4, |election, context| election.receive(context, &id(0), message));
    assert_eq!(cluster.election(4).lineage(), Some(lineage), "an operator began it");
    let aside = cluster.election(4).ballot().ended.as_ref().map(|ended| ended.electorate.lineage);
    assert_eq!(aside, ended, "what ended for a stranger is what an operator may want back");
}

#[test]
fn a_generation_of_another_origin_takes_a_voter_that_an_operator_named_and_no_other() {
    for is_named in [false, true] {
        let mut cluster = two(8, [0, 0], None);
        let first = first_of(&cluster);
        let named = if is_named { 4 } else { 0 };
        let voters = vec![Voter { id: id(named), identity: cluster.nodes[named].identity }];
        let (lineage, began) = (Lineage(77), Term::beginning_of(1, 5));
        let electorate = Electorate { lineage, root: first.root, began, founded: first.founded, voters };
        let body = Body::Generation { electorate, number: 10 };
        let message = ElectionMessage { from: cluster.nodes[0].identity, lineage, body };
        cluster.with(4, |election, context| election.receive(context, &id(0), message));
        assert_eq!(cluster.election(4).lineage() == Some(lineage), is_named);
    }
}

#[test]
fn whose_electorate_has_ended_says_so_at_each_start() {
    let mut cluster = two(9, [0, 0], None);
    assert!(meet(&mut cluster));
    cluster.alarms.clear();
    cluster.crash(3);
    cluster.start(3);
    let by = first_of(&cluster).lineage;
    assert!(cluster.alarms.contains(&(3, Alarm::ElectorateEnded { by })), "{:?}", cluster.alarms);
}

#[test]
fn one_word_of_terms_far_ahead_takes_a_leader_a_bounded_step_further() {
    let mut cluster = two(6, [0, 0], None);
    let (leader, before) = (leader_of(&cluster, SIDES[0]).expect("led"), highest(&cluster, SIDES[0]));
    cluster.with(leader, |election, context| election.lead_above(context, Term(1 << 30)));
    assert!(cluster.run_until(SECOND * 20, |p| highest(p, SIDES[0]) > before));
    let after = highest(&cluster, SIDES[0]);
    assert!(after.0 > before.0 + MAX_TERMS_BEHIND && after.0 < before.0 + MAX_TERMS_BEHIND * 2, "{after:?}");
    cluster.assert_safe();
}

#[test]
fn a_voter_that_never_voted_goes_over_to_one_that_gives_way_to_its_own_once() {
    let mut cluster = Cluster::empty(11);
    let founded = |nth: usize| {
        let voters = [1, 2].map(|nth| Voter { id: id(nth), identity: Identity(100 + nth as u64) });
        Electorate::founded_by(voters.to_vec(), EARLIEST_FOUNDING + nth as u64)
    };
    let (first, second) = (founded(1), founded(2));
    let [node, ..] = SIDES[0].map(|_| cluster.add(SIDES[0].map(id).to_vec()));
    let me = cluster.nodes[node].identity;
    let of_mine = |electorate: &Electorate| {
        let change = VoterChange::Added(Voter { id: id(node), identity: me });
        NumberedView::founding(electorate.changed(&change).expect("a change"))
    };
    cluster.nodes[node].disk.accepted = Some(of_mine(&first));
    cluster.start(node);
    let writes = cluster.nodes[node].disk.version;
    for _ in 0..10 {
        cluster.with(node, |election, context| election.learn_of(context, Some(second.descent()), None));
        cluster.run_for(SECOND);
        cluster.with(node, |election, context| election.contents(context, &of_mine(&first)));
        cluster.run_for(SECOND);
    }
    assert_eq!(cluster.election(node).founded().map(|of| of.lineage), Some(first.lineage));
    assert!(cluster.nodes[node].disk.version <= writes + 3, "{}", cluster.nodes[node].disk.version - writes);
}

#[test]
fn who_learnt_in_one_that_ended_or_votes_elsewhere_by_now_says_nothing_of_its_end() {
    let mut cluster = two(9, [0, 0], None);
    assert!(meet(&mut cluster));
    let says = |cluster: &mut Cluster, ballot: Ballot| {
        cluster.alarms.clear();
        cluster.crash(3);
        cluster.nodes[3].disk = ballot;
        cluster.start(3);
        cluster.alarms.iter().any(|(_, alarm)| matches!(alarm, Alarm::ElectorateEnded { .. }))
    };
    let ended = cluster.nodes[3].disk.clone();
    assert!(says(&mut cluster, ended.clone()));
    let learner = Ballot { identity: Identity(1 << 40), ..ended.clone() };
    assert!(!says(&mut cluster, learner));
    let removed = Ballot { accepted: cluster.nodes[0].disk.accepted.clone(), ..ended };
    assert!(!says(&mut cluster, removed), "it was voted in by the other one, and out");
}

#[test]
fn nobody_is_told_of_an_electorate_that_is_not_yet_on_the_disk_of_its_founder() {
    let mut cluster = Cluster::empty(12);
    for _ in SIDES[0] {
        let node = cluster.add(SIDES[0].map(id).to_vec());
        cluster.nodes[node].write_delay = Some((500 * MS, 500 * MS));
        cluster.start(node);
    }
    let is_formed = |cluster: &Cluster| cluster.election(0).founded().is_some();
    assert!(cluster.run_until(SECOND * 20, is_formed));
    assert!(!cluster.election(0).is_stored() && cluster.election(0).electorate_report().is_none());
    cluster.run_for(SECOND);
    assert!(cluster.election(0).electorate_report().is_some_and(|told| told.is_sure));
}
