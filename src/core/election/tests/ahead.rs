//! Voters that have come above their leader's term: their leader follows them there, and all acknowledge it again.

use std::time::Duration;

use rand::RngExt;

use super::cluster::{Cluster, LEASE, MS, id};
use super::scenarios::{SECOND, led};
use crate::election::flaw::Flaw;
use crate::election::{Alarm, Body, ElectionMessage, Renewal, Term, ViewRef};
use crate::limits::MAX_TERMS_BEHIND;

/// Returns true if all voters that run follow the one leader.
pub(super) fn all_follow(cluster: &Cluster) -> bool {
    let claims = cluster.claims();
    let [(leader, term)] = claims[..] else { return false };
    let leader = cluster.nodes[leader].identity;
    let running = cluster.nodes.iter().filter_map(|node| node.election.as_ref());
    running.filter(|election| election.is_voter()).all(|election| {
        election.ballot.term == term && election.volatile.leader == Some(leader) && election.ballot.vote.is_some()
    })
}

/// Restarts the voter as if it had voted for itself, in vain, in a term this far above its leader's.
fn raise(cluster: &mut Cluster, voter: usize, by: u64) {
    cluster.crash(voter);
    let (identity, disk) = (cluster.nodes[voter].identity, &mut cluster.nodes[voter].disk);
    (disk.term, disk.vote) = (Term(disk.term.0 + by), Some(identity));
    cluster.start(voter);
}

#[test]
fn a_leader_follows_a_voter_above_its_term_within_two_leases_and_stays_the_leader() {
    for (seed, by) in (0..20).flat_map(|seed| [(seed, 1), (seed, MAX_TERMS_BEHIND)]) {
        let (mut cluster, leader) = led(seed, [3, 5][(seed % 2) as usize]);
        cluster.run_for(SECOND);
        raise(&mut cluster, (leader + 1) % 3, by);
        let before = cluster.now;
        assert!(!all_follow(&cluster));
        assert!(cluster.run_until(LEASE * 2, all_follow), "seed {seed}, by {by}");
        assert!(cluster.now - before >= LEASE.as_nanos() as u64, "not at the first message");
        assert_eq!((cluster.leader(), cluster.leaders.len()), (Some(leader), 2), "it succeeds itself");
        cluster.run_for(SECOND * 20);
        assert_eq!(cluster.leaders.len(), 2, "once");
        cluster.assert_safe();
    }
}

/// Returns true if a voter that is above its leader's term comes to acknowledge the leader.
fn is_followed(flaw: Option<Flaw>) -> bool {
    let (mut cluster, leader) = led(4, 3);
    cluster.flaw = flaw;
    cluster.run_for(SECOND);
    if let Some(flaw) = flaw {
        cluster.nodes[leader].election.as_mut().expect("it runs").plant(flaw);
    }
    raise(&mut cluster, (leader + 1) % 3, 2);
    cluster.run_until(LEASE * 10, all_follow)
}

#[test]
fn a_leader_that_stays_below_a_voter_is_never_acknowledged_by_it() {
    assert!(is_followed(None));
    assert!(!is_followed(Some(Flaw::StaysBelowItsVoters)));
}

#[test]
fn nobody_leads_for_a_moment_only_while_a_leader_goes_on_above_its_term() {
    let (mut cluster, leader) = led(3, 5);
    cluster.run_for(SECOND);
    raise(&mut cluster, (leader + 1) % 5, 3);
    assert!(cluster.run_until(LEASE * 2, |p| p.leader().is_none()));
    assert!(cluster.run_until(Duration::from_millis(100), |p| p.leader() == Some(leader)), "no promise is waited for");
    cluster.assert_safe();
}

/// Has a leader go on above a voter while its other voter is far away and its first questions are lost; returns true if
/// the voter above it leads before the time of the leader's old claim is past: what the leader led may still be ending.
fn is_overtaken_while_its_work_may_run(seed: u64, flaw: Option<Flaw>) -> bool {
    let (mut cluster, leader) = led(seed, 3);
    (cluster.delay, cluster.write_delay) = ((MS, MS), (MS, MS));
    cluster.run_for(SECOND);
    if let Some(flaw) = flaw {
        cluster.nodes[leader].election.as_mut().expect("it runs").plant(flaw);
    }
    let (above, far) = ((leader + 1) % 3, (leader + 2) % 3);
    raise(&mut cluster, above, 2);
    let mut until = cluster.nodes[leader].claim.expect("it leads").1;
    while let Some((_, newest)) = cluster.nodes[leader].claim {
        until = newest;
        cluster.run_for(Duration::from_micros(100));
    }
    cluster.cut_pair(leader, far);
    cluster.lose_messages();
    cluster.with(above, |election, context| election.put_off(context, Duration::ZERO));
    cluster.wake(above);
    assert!(cluster.run_until(Duration::from_millis(200), |p| p.leader().is_some()), "seed {seed}");
    assert!(cluster.local(leader, cluster.now) < until, "seed {seed}: in time");
    cluster.assert_safe();
    cluster.leader() == Some(above)
}

#[test]
fn nobody_else_leads_before_the_claim_is_over_that_a_leader_gave_up_to_go_on_above_its_voters() {
    for seed in 0..20 {
        assert!(!is_overtaken_while_its_work_may_run(seed, None), "seed {seed}");
    }
    let planted = |seed| is_overtaken_while_its_work_may_run(seed, Some(Flaw::FreesItselfToGoOn));
    assert!((0..20).any(planted));
}

#[test]
fn a_leader_moves_for_no_absurd_term_nor_for_a_single_message() {
    let (mut cluster, leader) = led(4, 3);
    cluster.run_for(SECOND);
    let voter = (leader + 1) % 3;
    let say = |cluster: &mut Cluster, term: u64| {
        let (from, lineage) = (cluster.nodes[voter].identity, cluster.election(leader).lineage().expect("formed"));
        let message = ElectionMessage { from, lineage, body: Body::Behind { term: Term(term) } };
        cluster.with(leader, |election, context| election.receive(context, &id(voter), message));
    };
    say(&mut cluster, 2);
    cluster.run_for(LEASE * 3);
    say(&mut cluster, 2);
    cluster.run_for(LEASE * 3);
    let (_, term) = cluster.claims()[0];
    for absurd in [term.0, 0, term.0 + MAX_TERMS_BEHIND + 1, (1 << 40) + 5, (1 << 40) - 1, u64::MAX] {
        for _ in 0..40 {
            say(&mut cluster, absurd);
            cluster.run_for(LEASE / 10);
        }
    }
    assert_eq!((cluster.leader(), cluster.leaders.len()), (Some(leader), 1));
    assert!(cluster.alarms.contains(&(leader, Alarm::TermLimit { id: id(voter) })));
    cluster.assert_safe();
}

#[test]
fn every_voter_acknowledges_its_leader_within_two_leases_after_dead_links() {
    for seed in 0..150 {
        let (mut cluster, _) = led(seed, 5);
        cluster.run_for(SECOND);
        for _ in 0..8 {
            cluster.cut.clear();
            for _ in 0..cluster.rng.random_range(1..=4) {
                let (a, b) = (cluster.rng.random_range(0..5), cluster.rng.random_range(0..5));
                cluster.cut_pair(a, b);
            }
            let pause = cluster.rng.random_range(0..4_000);
            cluster.run_for(Duration::from_millis(pause));
        }
        cluster.cut.clear();
        assert!(cluster.run_until(LEASE * 2, |p| p.leader().is_some()), "seed {seed}: nobody leads");
        assert!(cluster.run_until(LEASE * 2 + SECOND / 2, all_follow), "seed {seed}: somebody is left behind");
        cluster.run_for(LEASE);
        cluster.assert_safe();
    }
}

/// A voter that lies names the last term of all while nobody leads: whoever believed it could never vote again.
#[test]
fn no_voter_goes_up_by_more_terms_than_time_allows() {
    let last = (1 << 40) - (1 << 20) - 1;
    for far in [Term::MAX_STEP + 1_000, last - 1, last] {
        let (mut cluster, leader) = led(6, 3);
        cluster.run_for(SECOND);
        let (voter, liar) = ((leader + 1) % 3, (leader + 2) % 3);
        cluster.split(&[&[leader], &[voter], &[liar]]);
        cluster.run_for(LEASE * 3);
        let before = cluster.election(voter).ballot.term;
        let (from, lineage) = (cluster.nodes[liar].identity, cluster.election(voter).lineage().expect("formed"));
        let newest = cluster.election(voter).ballot.accepted.as_ref().expect("it led a view").reference();
        let renewal = Renewal {
            term: Term(far),
            sequence: 1,
            lease_ms: LEASE.as_millis() as u64,
            claim: None,
            newest: ViewRef { term: Term(far), ..newest },
            agreed: None,
            delta: None,
        };
        let reply = |attempt| Body::QueryReply { attempt, hears_leader: false, term: Term(far) };
        let lies = [Body::Vote { term: Term(far), newest }, Body::Renew(renewal)];
        for body in lies.into_iter().chain((0..100).map(reply)) {
            let message = ElectionMessage { from, lineage, body };
            cluster.with(voter, |election, context| election.receive(context, &id(liar), message));
        }
        assert!(cluster.alarms.contains(&(voter, Alarm::TermLimit { id: id(liar) })), "{far}");
        assert_eq!(cluster.election(voter).ballot.term, before, "{far}");
        cluster.cut.clear();
        assert!(cluster.run_until(SECOND * 10, |cluster| cluster.leader().is_some()), "{far}");
        assert!(cluster.claims()[0].1.0 < before.0 + 100, "{far}");
        cluster.assert_safe();
    }
}
