//! Voters that have come above their leader's term: their leader follows them there, and all acknowledge it again.

use std::time::Duration;

use rand::RngExt;

use super::parliament::{LEASE, Parliament, id};
use super::scenarios::{SECOND, led};
use crate::core::election::flaw::Flaw;
use crate::core::election::{Alarm, Body, Term, Word};
use crate::core::limits::MAX_TERMS_BEHIND;

/// Returns true if all voters that run follow the one leader.
pub(super) fn all_follow(parliament: &Parliament) -> bool {
    let claims = parliament.claims();
    let [(leader, term)] = claims[..] else { return false };
    let leader = parliament.nodes[leader].identity;
    let running = parliament.nodes.iter().filter_map(|node| node.election.as_ref());
    running.filter(|election| election.is_voter()).all(|election| {
        election.ballot.term == term && election.leader == Some(leader) && election.ballot.vote.is_some()
    })
}

/// Restarts the voter as if it had voted for itself, in vain, in a term this far above its leader's.
fn raise(parliament: &mut Parliament, voter: usize, by: u64) {
    parliament.crash(voter);
    let (identity, disk) = (parliament.nodes[voter].identity, &mut parliament.nodes[voter].disk);
    (disk.term, disk.vote) = (Term(disk.term.0 + by), Some(identity));
    parliament.start(voter);
}

#[test]
fn a_leader_follows_a_voter_above_its_term_within_two_leases_and_stays_the_leader() {
    for (seed, by) in (0..20).flat_map(|seed| [(seed, 1), (seed, MAX_TERMS_BEHIND)]) {
        let (mut parliament, leader) = led(seed, [3, 5][(seed % 2) as usize]);
        parliament.run_for(SECOND);
        raise(&mut parliament, (leader + 1) % 3, by);
        let before = parliament.now;
        assert!(!all_follow(&parliament));
        assert!(parliament.run_until(LEASE * 2, all_follow), "seed {seed}, by {by}");
        assert!(parliament.now - before >= LEASE.as_nanos() as u64, "not at the first word");
        assert_eq!((parliament.leader(), parliament.leaders.len()), (Some(leader), 2), "it succeeds itself");
        parliament.run_for(SECOND * 20);
        assert_eq!(parliament.leaders.len(), 2, "once");
        parliament.assert_safe();
    }
}

/// Returns true if a voter that is above its leader's term comes to acknowledge the leader.
fn is_followed(flaw: Option<Flaw>) -> bool {
    let (mut parliament, leader) = led(4, 3);
    parliament.flaw = flaw;
    parliament.run_for(SECOND);
    if let Some(flaw) = flaw {
        parliament.nodes[leader].election.as_mut().expect("it runs").plant(flaw);
    }
    raise(&mut parliament, (leader + 1) % 3, 2);
    parliament.run_until(LEASE * 10, all_follow)
}

#[test]
fn a_leader_that_stays_below_a_voter_is_never_acknowledged_by_it() {
    assert!(is_followed(None));
    assert!(!is_followed(Some(Flaw::StaysBelowItsVoters)));
}

#[test]
fn nobody_leads_for_a_moment_only_while_a_leader_goes_on_above_its_term() {
    let (mut parliament, leader) = led(3, 5);
    parliament.run_for(SECOND);
    raise(&mut parliament, (leader + 1) % 5, 3);
    assert!(parliament.run_until(LEASE * 2, |p| p.leader().is_none()));
    assert!(
        parliament.run_until(Duration::from_millis(100), |p| p.leader() == Some(leader)),
        "no promise is waited for"
    );
    parliament.assert_safe();
}

#[test]
fn a_leader_moves_for_no_absurd_term_nor_for_a_single_word() {
    let (mut parliament, leader) = led(4, 3);
    parliament.run_for(SECOND);
    let voter = (leader + 1) % 3;
    let say = |parliament: &mut Parliament, term: u64| {
        let (from, lineage) =
            (parliament.nodes[voter].identity, parliament.election(leader).lineage().expect("formed"));
        let word = Word { from, lineage, body: Body::Behind { term: Term(term) } };
        parliament.with(leader, |election, around| election.heard(around, &id(voter), word));
    };
    say(&mut parliament, 2);
    parliament.run_for(LEASE * 3);
    say(&mut parliament, 2);
    parliament.run_for(LEASE * 3);
    let (_, term) = parliament.claims()[0];
    for absurd in [term.0, 0, term.0 + MAX_TERMS_BEHIND + 1, (1 << 40) + 5, (1 << 40) - 1, u64::MAX] {
        for _ in 0..40 {
            say(&mut parliament, absurd);
            parliament.run_for(LEASE / 10);
        }
    }
    assert_eq!((parliament.leader(), parliament.leaders.len()), (Some(leader), 1));
    assert!(parliament.alarms.contains(&(leader, Alarm::TermLimit { id: id(voter) })));
    parliament.assert_safe();
}

#[test]
fn every_voter_acknowledges_its_leader_within_two_leases_after_dead_links() {
    for seed in 0..150 {
        let (mut parliament, _) = led(seed, 5);
        parliament.run_for(SECOND);
        for _ in 0..8 {
            parliament.cut.clear();
            for _ in 0..parliament.rng.random_range(1..=4) {
                let (a, b) = (parliament.rng.random_range(0..5), parliament.rng.random_range(0..5));
                parliament.cut_pair(a, b);
            }
            let pause = parliament.rng.random_range(0..4_000);
            parliament.run_for(Duration::from_millis(pause));
        }
        parliament.cut.clear();
        assert!(parliament.run_until(LEASE * 2, |p| p.leader().is_some()), "seed {seed}: nobody leads");
        assert!(parliament.run_until(LEASE * 2 + SECOND / 2, all_follow), "seed {seed}: somebody is left behind");
        parliament.run_for(LEASE);
        parliament.assert_safe();
    }
}
