//! Forming where there may be an electorate already, and where a voter's disk is lost meanwhile.

use std::collections::BTreeSet;
use std::time::Duration;

use super::parliament::{Parliament, id};
use super::scenarios::{SECOND, led};
use crate::core::election::flaw::Flaw;
use crate::core::election::{Alarm, Descent, Founded, Lineage, LostElectorate, Term};

fn another() -> Descent {
    Descent { lineage: Lineage(77), root: Lineage(77), began: Term(0) }
}

fn knows(parliament: &mut Parliament, node: usize, sure: Option<Descent>, rumoured: Option<Founded>) {
    parliament.with(node, |election, around| election.knows_of(around, sure, rumoured));
}

fn lineages(parliament: &Parliament) -> BTreeSet<Lineage> {
    parliament.nodes.iter().filter_map(|node| node.election.as_ref()?.lineage()).collect()
}

#[test]
fn one_voter_that_knows_of_an_electorate_keeps_all_from_forming_another_one() {
    for (seed, knower) in (0..12).map(|seed| (seed, seed as usize % 3)) {
        let mut parliament = Parliament::new(seed, 3);
        parliament.start_all();
        knows(&mut parliament, knower, Some(another()), None);
        parliament.run_for(SECOND * 60);
        assert!(lineages(&parliament).is_empty(), "seed {seed}");
        assert!(parliament.alarms.contains(&(knower, Alarm::ElectorateExists)), "{:?}", parliament.alarms);
        // The node keeps that.
        parliament.crash(knower);
        parliament.start(knower);
        parliament.run_for(SECOND * 60);
        assert!(lineages(&parliament).is_empty() && parliament.election(knower).founded() == Some(another()));
    }
}

/// Returns true if voters form an electorate while one of them knows of another.
fn forms_beside_another(flaw: Option<Flaw>) -> bool {
    let mut parliament = Parliament::new(1, 3);
    parliament.flaw = flaw;
    parliament.start_all();
    knows(&mut parliament, 1, Some(another()), None);
    parliament.run_for(SECOND * 20);
    !lineages(&parliament).is_empty()
}

#[test]
fn no_electorate_is_formed_beside_another() {
    assert!(!forms_beside_another(None));
    assert!(forms_beside_another(Some(Flaw::FormsAnyway)));
}

#[test]
fn a_rumour_of_an_electorate_keeps_voters_from_forming_one_until_it_is_over() {
    for is_sure in [true, false] {
        let mut parliament = Parliament::new(3, 3);
        parliament.start_all();
        knows(&mut parliament, 1, None, Some(Founded { descent: another(), is_sure }));
        parliament.run_for(SECOND * 20);
        assert!(lineages(&parliament).is_empty());
        knows(&mut parliament, 1, None, None);
        assert!(parliament.run_until(SECOND * 5, |p| p.leader().is_some()));
        assert_eq!(lineages(&parliament).len(), 1);
        assert!(
            !parliament.alarms.iter().any(|(_, alarm)| *alarm == Alarm::ElectorateExists),
            "{:?}",
            parliament.alarms
        );
    }
}

#[test]
fn a_voter_that_hears_of_its_own_electorate_before_it_has_formed_it_takes_part_in_it() {
    let late = 2;
    let reached = in_runs_where_it_has_not_formed(late, |parliament, seed| {
        let descent = parliament.election(0).founded();
        knows(parliament, late, descent, None);
        parliament.run_for(SECOND * 5);
        assert!((0..3).all(|node| parliament.election(node).is_voter()), "seed {seed}");
        assert!(!parliament.alarms.iter().any(|(_, alarm)| *alarm == Alarm::ElectorateExists), "seed {seed}");
    });
    assert!(reached > 0);
}

#[test]
fn a_voter_that_is_sure_of_another_electorate_does_not_go_over_to_its_own() {
    let late = 2;
    let reached = in_runs_where_it_has_not_formed(late, |parliament, seed| {
        let another = Descent { lineage: Lineage(77), root: Lineage(77), began: Term(0) };
        knows(parliament, late, Some(another), None);
        parliament.run_for(SECOND * 5);
        assert!(!parliament.election(late).is_voter(), "seed {seed}");
        assert!(parliament.leader().is_some_and(|leader| leader != late), "the others lead, seed {seed}");
    });
    assert!(reached > 0);
}

/// Calls `then` in each run in which others have formed, and `late` has sent its identity and not formed; returns the
/// number of such runs.
fn in_runs_where_it_has_not_formed(late: usize, then: impl Fn(&mut Parliament, u64)) -> usize {
    let has_formed = |parliament: &Parliament, node: usize| parliament.election(node).lineage().is_some();
    let runs = (0..60).filter(|seed| {
        let mut parliament = Parliament::new(*seed, 3);
        parliament.start_all();
        parliament.run_up_to(SECOND, |p| (0..3).any(|node| node != late && has_formed(p, node)));
        let is_such = !has_formed(&parliament, late);
        if is_such {
            then(&mut parliament, *seed);
        }
        is_such
    });
    runs.count()
}

#[test]
fn a_voter_whose_disk_is_lost_while_all_form_keeps_nobody_from_leading() {
    for seed in 0..400 {
        let mut parliament = Parliament::new(seed, 3);
        parliament.loss = 0.3;
        parliament.start_all();
        parliament.run_for(Duration::from_millis(seed % 100));
        parliament.wipe(2);
        parliament.run_for(Duration::from_millis(seed % 7));
        parliament.start(2);
        assert!(
            parliament.run_until(SECOND * 60, |p| p.leader().is_some()),
            "seed {seed}: {:?}",
            lineages(&parliament)
        );
        parliament.assert_safe();
    }
}

#[test]
fn an_electorate_that_is_founded_anew_goes_above_all_terms_and_wins_over_voters_that_come_back() {
    let (mut parliament, leader) = led(5, 3);
    parliament.run_for(SECOND);
    let before = parliament.election(leader).term();
    let outsider = parliament.add(Vec::new());
    parliament.start(outsider);
    for node in 0..3 {
        parliament.crash(node);
    }
    parliament.run_for(SECOND * 5);
    let descent = parliament.newest_agreed().expect("agreed").electorate.descent();
    let lost = LostElectorate { descent, number: 7, voters: (0..3).map(id).collect() };
    parliament.with(outsider, |election, around| election.found_anew(around, 1, Vec::new(), 99, lost.clone()));
    assert!(parliament.run_until(SECOND * 10, |p| p.leader() == Some(outsider)), "{:?}", parliament.answers);
    let term = parliament.election(outsider).term();
    assert!(term > before && term.generation() == before.generation() + 1);
    assert_eq!(parliament.election(outsider).electorate().expect("founded").root, descent.root);
    for node in 0..3 {
        parliament.start(node);
    }
    parliament.run_for(SECOND * 5);
    // As gossip does: the voters of the former electorate learn who leads by now, and ask that node.
    for node in 0..3 {
        parliament.with(node, |election, around| election.meet_leader(around, &id(outsider)));
    }
    assert!(parliament.run_until(SECOND * 30, |p| lineages(p).len() == 1), "{:?}", lineages(&parliament));
    parliament.run_for(SECOND * 20);
    assert_eq!(parliament.leader(), Some(outsider));
}

/// Returns the generation in which an outsider leads that founded anew after the second recovery, of which it knows.
fn founded_after_recoveries(flaw: Option<Flaw>) -> u64 {
    let mut parliament = Parliament::empty(1);
    parliament.flaw = flaw;
    let outsider = parliament.add(Vec::new());
    parliament.start(outsider);
    let descent = Descent { lineage: Lineage(78), root: Lineage(77), began: Term::beginning_of(2, 5) };
    let lost = LostElectorate { descent, number: 7, voters: Vec::new() };
    parliament.with(outsider, |election, around| election.found_anew(around, 1, Vec::new(), 99, lost));
    assert!(parliament.run_until(SECOND * 10, |p| p.leader() == Some(outsider)), "{:?}", parliament.answers);
    parliament.election(outsider).term().generation()
}

#[test]
fn who_founds_anew_begins_above_every_generation_that_it_knows_of() {
    assert_eq!(founded_after_recoveries(None), 3);
    assert_eq!(founded_after_recoveries(Some(Flaw::FoundsAboveItself)), 1, "below terms that were led");
}

#[test]
fn a_voter_that_is_told_to_found_anew_recovers_as_any_voter_does() {
    let (mut parliament, leader) = led(6, 3);
    parliament.run_for(SECOND);
    let descent = parliament.election(leader).founded().expect("its own");
    let lost = LostElectorate { descent, number: 0, voters: Vec::new() };
    parliament.with(leader, |election, around| election.found_anew(around, 1, Vec::new(), 99, lost));
    assert_eq!(parliament.answers.len(), 1);
    assert!(parliament.answers[0].1.is_err(), "its majority answers: {:?}", parliament.answers);
    assert!(!parliament.election(leader).is_founding_anew());
}

#[test]
fn a_voter_that_never_comes_is_named_to_the_operator() {
    let mut parliament = Parliament::new(1, 3);
    parliament.start(0);
    parliament.start(1);
    parliament.run_for(SECOND * 20);
    let missing = |node: usize| (node, Alarm::VotersMissing { ids: vec![id(2)] });
    for node in 0..2 {
        assert!(parliament.alarms.contains(&missing(node)), "{:?}", parliament.alarms);
    }
    parliament.start(2);
    assert!(parliament.run_until(SECOND * 5, |p| p.leader().is_some()));
    let (_, told) = missing(0);
    assert!(told.to_string().contains("v2;"), "{told}");
}
