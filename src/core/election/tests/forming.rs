//! Forming where there may be an electorate already, and where a voter's disk is lost meanwhile.

use std::collections::BTreeSet;
use std::time::Duration;

use super::cluster::{Cluster, id};
use super::scenarios::{SECOND, led};
use crate::election::flaw::Flaw;
use crate::election::{Alarm, Descent, ElectorateReport, Lineage, LostElectorate, Term};
use crate::limits::EARLIEST_FOUNDING;

fn another() -> Descent {
    Descent { lineage: Lineage(77), root: Lineage(77), began: Term(0), founded: EARLIEST_FOUNDING }
}

fn knows(cluster: &mut Cluster, node: usize, sure: Option<Descent>, rumoured: Option<ElectorateReport>) {
    cluster.with(node, |election, context| election.learn_of(context, sure, rumoured));
}

fn lineages(cluster: &Cluster) -> BTreeSet<Lineage> {
    cluster.nodes.iter().filter_map(|node| node.election.as_ref()?.lineage()).collect()
}

#[test]
fn one_voter_that_knows_of_an_electorate_keeps_all_from_forming_another_one() {
    for (seed, knower) in (0..12).map(|seed| (seed, seed as usize % 3)) {
        let mut cluster = Cluster::new(seed, 3);
        cluster.start_all();
        knows(&mut cluster, knower, Some(another()), None);
        cluster.run_for(SECOND * 60);
        assert!(lineages(&cluster).is_empty(), "seed {seed}");
        assert!(cluster.alarms.contains(&(knower, Alarm::ElectorateExists)), "{:?}", cluster.alarms);
        // The node keeps that.
        cluster.crash(knower);
        cluster.start(knower);
        cluster.run_for(SECOND * 60);
        assert!(lineages(&cluster).is_empty() && cluster.election(knower).founded() == Some(another()));
    }
}

/// Returns true if voters form an electorate while one of them knows of another.
fn forms_beside_another(flaw: Option<Flaw>) -> bool {
    let mut cluster = Cluster::new(1, 3);
    cluster.flaw = flaw;
    cluster.start_all();
    knows(&mut cluster, 1, Some(another()), None);
    cluster.run_for(SECOND * 20);
    !lineages(&cluster).is_empty()
}

#[test]
fn no_electorate_is_formed_beside_another() {
    assert!(!forms_beside_another(None));
    assert!(forms_beside_another(Some(Flaw::FormsAnyway)));
}

#[test]
fn a_rumour_of_an_electorate_keeps_voters_from_forming_one_until_it_is_over() {
    for is_sure in [true, false] {
        let mut cluster = Cluster::new(3, 3);
        cluster.start_all();
        knows(&mut cluster, 1, None, Some(ElectorateReport { descent: another(), is_sure }));
        cluster.run_for(SECOND * 20);
        assert!(lineages(&cluster).is_empty());
        knows(&mut cluster, 1, None, None);
        assert!(cluster.run_until(SECOND * 5, |p| p.leader().is_some()));
        assert_eq!(lineages(&cluster).len(), 1);
        assert!(!cluster.alarms.iter().any(|(_, alarm)| *alarm == Alarm::ElectorateExists), "{:?}", cluster.alarms);
    }
}

#[test]
fn a_voter_that_hears_of_its_own_electorate_before_it_has_formed_it_takes_part_in_it() {
    let late = 2;
    let reached = in_runs_where_it_has_not_formed(late, |cluster, seed| {
        let descent = cluster.election(0).founded();
        knows(cluster, late, descent, None);
        cluster.run_for(SECOND * 5);
        assert!((0..3).all(|node| cluster.election(node).is_voter()), "seed {seed}");
        assert!(!cluster.alarms.iter().any(|(_, alarm)| *alarm == Alarm::ElectorateExists), "seed {seed}");
    });
    assert!(reached > 0);
}

#[test]
fn a_voter_that_is_sure_of_another_electorate_does_not_go_over_to_its_own() {
    let late = 2;
    let reached = in_runs_where_it_has_not_formed(late, |cluster, seed| {
        let another = Descent { lineage: Lineage(77), root: Lineage(77), began: Term(0), founded: EARLIEST_FOUNDING };
        knows(cluster, late, Some(another), None);
        cluster.run_for(SECOND * 5);
        assert!(!cluster.election(late).is_voter(), "seed {seed}");
        assert!(cluster.leader().is_some_and(|leader| leader != late), "the others lead, seed {seed}");
    });
    assert!(reached > 0);
}

/// Calls `then` in each run in which others have formed, and `late` has sent its identity and not formed; returns the
/// number of such runs.
fn in_runs_where_it_has_not_formed(late: usize, then: impl Fn(&mut Cluster, u64)) -> usize {
    let has_formed = |cluster: &Cluster, node: usize| cluster.election(node).lineage().is_some();
    let runs = (0..60).filter(|seed| {
        let mut cluster = Cluster::new(*seed, 3);
        cluster.start_all();
        cluster.run_up_to(SECOND, |p| (0..3).any(|node| node != late && has_formed(p, node)));
        let is_such = !has_formed(&cluster, late);
        if is_such {
            then(&mut cluster, *seed);
        }
        is_such
    });
    runs.count()
}

#[test]
fn a_voter_whose_disk_is_lost_while_all_form_keeps_nobody_from_leading() {
    for seed in 0..400 {
        let mut cluster = Cluster::new(seed, 3);
        cluster.loss = 0.3;
        cluster.start_all();
        cluster.run_for(Duration::from_millis(seed % 100));
        cluster.wipe(2);
        cluster.run_for(Duration::from_millis(seed % 7));
        cluster.start(2);
        assert!(cluster.run_until(SECOND * 60, |p| p.leader().is_some()), "seed {seed}: {:?}", lineages(&cluster));
        cluster.assert_safe();
    }
}

#[test]
fn an_electorate_that_is_founded_anew_goes_above_all_terms_and_wins_over_voters_that_come_back() {
    let (mut cluster, leader) = led(5, 3);
    cluster.run_for(SECOND);
    let before = cluster.election(leader).term();
    let outsider = cluster.add(Vec::new());
    cluster.start(outsider);
    for node in 0..3 {
        cluster.crash(node);
    }
    cluster.run_for(SECOND * 5);
    let descent = cluster.newest_agreed().expect("agreed").electorate.descent();
    let lost = LostElectorate { descent, number: 7, voters: (0..3).map(id).collect() };
    cluster.with(outsider, |election, context| election.recover(context, 1, Vec::new(), 99, Some(lost.clone())));
    assert!(cluster.run_until(SECOND * 10, |p| p.leader() == Some(outsider)), "{:?}", cluster.answers);
    let term = cluster.election(outsider).term();
    assert!(term > before && term.generation() == before.generation() + 1);
    assert_eq!(cluster.election(outsider).electorate().expect("founded").root, descent.root);
    for node in 0..3 {
        cluster.start(node);
    }
    cluster.run_for(SECOND * 5);
    // The voters of the former electorate learn who leads by now.
    cluster.gossip();
    assert!(cluster.run_until(SECOND * 30, |p| lineages(p).len() == 1), "{:?}", lineages(&cluster));
    cluster.run_for(SECOND * 20);
    assert_eq!(cluster.leader(), Some(outsider));
}

/// Returns the generation in which an outsider leads that founded anew after the second recovery, of which it knows.
fn founded_after_recoveries(flaw: Option<Flaw>) -> u64 {
    let mut cluster = Cluster::empty(1);
    cluster.flaw = flaw;
    let outsider = cluster.add(Vec::new());
    cluster.start(outsider);
    let descent = Descent {
        lineage: Lineage(78),
        root: Lineage(77),
        began: Term::beginning_of(2, 5),
        founded: EARLIEST_FOUNDING,
    };
    let lost = LostElectorate { descent, number: 7, voters: Vec::new() };
    cluster.with(outsider, |election, context| election.recover(context, 1, Vec::new(), 99, Some(lost)));
    assert!(cluster.run_until(SECOND * 10, |p| p.leader() == Some(outsider)), "{:?}", cluster.answers);
    cluster.election(outsider).term().generation()
}

#[test]
fn who_founds_anew_begins_above_every_generation_that_it_knows_of() {
    assert_eq!(founded_after_recoveries(None), 3);
    assert_eq!(founded_after_recoveries(Some(Flaw::FoundsAboveItself)), 1, "below terms that were led");
}

#[test]
fn a_voter_that_is_told_to_found_anew_recovers_as_any_voter_does() {
    let (mut cluster, leader) = led(6, 3);
    cluster.run_for(SECOND);
    let descent = cluster.election(leader).founded().expect("its own");
    let lost = LostElectorate { descent, number: 0, voters: Vec::new() };
    cluster.with(leader, |election, context| election.recover(context, 1, Vec::new(), 99, Some(lost)));
    assert_eq!(cluster.answers.len(), 1);
    assert!(cluster.answers[0].1.is_err(), "its majority answers: {:?}", cluster.answers);
    assert!(!cluster.election(leader).is_founding_anew());
}

#[test]
fn a_voter_that_never_comes_is_named_to_the_operator() {
    let mut cluster = Cluster::new(1, 3);
    cluster.start(0);
    cluster.start(1);
    cluster.run_for(SECOND * 20);
    let missing = |node: usize| (node, Alarm::VotersMissing { ids: vec![id(2)] });
    for node in 0..2 {
        assert!(cluster.alarms.contains(&missing(node)), "{:?}", cluster.alarms);
    }
    cluster.start(2);
    assert!(cluster.run_until(SECOND * 5, |p| p.leader().is_some()));
    let (_, told) = missing(0);
    assert!(told.to_string().contains("v2;"), "{told}");
}

#[test]
fn a_founder_that_does_not_found_is_named_to_the_operator_of_the_others() {
    let mut cluster = Cluster::new(1, 3);
    cluster.start(0);
    cluster.with(0, |election, context| election.set_wall_clock(context, 0));
    cluster.start(1);
    cluster.start(2);
    cluster.run_for(SECOND * 20);
    let waits = |node: usize| (node, Alarm::FounderWaits { id: id(0) });
    assert!(cluster.alarms.contains(&(0, Alarm::ClockBehind)) && !cluster.alarms.contains(&waits(0)));
    assert!(cluster.alarms.contains(&waits(1)) && cluster.alarms.contains(&waits(2)), "{:?}", cluster.alarms);
    cluster.with(0, |election, context| election.set_wall_clock(context, EARLIEST_FOUNDING));
    assert!(cluster.run_until(SECOND * 5, |p| p.leader().is_some()));
}
