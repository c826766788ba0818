//! The time that a restarted voter waits: as long as something may still bind it, and no longer.

use std::time::Duration;

use super::cluster::{Cluster, LEASE, MS, id};
use super::scenarios::{SECOND, led};
use crate::election::flaw::Flaw;
use crate::election::tests::Election;
use crate::election::{
    Ballot, Body, Context, ElectionInit, ElectionMessage, Electorate, Identity, LeaderPolicy, LeaseTiming,
    NumberedView, Renewal, Term, Voter,
};
use crate::limits::EARLIEST_FOUNDING;
use crate::time::Time;

/// Lets a node leave: it hands over what it leads, says farewell, and is gone with all its writes on disk.
fn leave(cluster: &mut Cluster, node: usize) {
    cluster.with(node, Election::resign);
    cluster.run_until(SECOND, |p| !p.election(node).is_resigning());
    cluster.nodes[node].is_up = false;
    cluster.with(node, Election::status_changed);
    cluster.run_for(Duration::from_millis(50));
    cluster.crash_when_written(node, usize::MAX);
    cluster.nodes[node].is_up = true;
}

fn restart_all(cluster: &mut Cluster, within: Duration, what: &str) {
    let disks: Vec<_> = cluster.nodes.iter().map(|node| (node.disk.term, node.disk.vote, node.disk.promise)).collect();
    cluster.start_all();
    assert!(cluster.run_until(within, |p| p.leader().is_some()), "{what}: nobody leads in time, with {disks:?}");
}

#[test]
fn voters_that_stopped_gracefully_one_after_the_other_elect_at_once_when_they_return() {
    for (seed, voters) in (0..10).flat_map(|seed| [1, 3, 5, 7].map(|voters| (seed, voters))) {
        for leader_at in 0..voters {
            let (mut cluster, _) = led(seed, voters);
            cluster.run_for(SECOND * 3);
            let leader = cluster.leader().expect("leads");
            let mut order: Vec<usize> = (0..voters).filter(|node| *node != leader).collect();
            order.insert(leader_at, leader);
            for node in order {
                leave(&mut cluster, node);
            }
            cluster.run_for(SECOND / 10);
            restart_all(
                &mut cluster,
                LEASE / 3,
                &format!("{voters} voters, leader as number {leader_at}, seed {seed}"),
            );
            cluster.assert_safe();
        }
    }
}

#[test]
fn voters_that_stop_all_at_one_time_elect_at_once_when_they_return() {
    for seed in 0..20 {
        let (mut cluster, leader) = led(seed, 3);
        cluster.run_for(SECOND * 3);
        cluster.with(leader, Election::resign);
        for node in (0..3).filter(|node| *node != leader) {
            cluster.nodes[node].is_up = false;
            cluster.with(node, Election::status_changed);
        }
        cluster.run_for(SECOND / 4);
        for node in 0..3 {
            cluster.crash_when_written(node, usize::MAX);
            cluster.nodes[node].is_up = true;
        }
        restart_all(&mut cluster, LEASE / 3, &format!("seed {seed}"));
        cluster.assert_safe();
    }
}

/// Lets a follower on which the claim rests leave and come back, along with one that hears the leader no more.
fn one_leaves_that_is_needed(seed: u64, flaw: Option<Flaw>) -> Vec<String> {
    let (mut cluster, leader) = led(seed, 3);
    if let Some(flaw) = flaw {
        cluster.nodes[leader].election.as_mut().expect("runs").plant(flaw);
    }
    let (one, two) = ((leader + 1) % 3, (leader + 2) % 3);
    cluster.split(&[&[leader, one], &[two]]);
    // The other voter's promise is over, and the claim rests on the first alone.
    cluster.run_for(LEASE * 2);
    leave(&mut cluster, one);
    cluster.split(&[&[leader], &[one, two]]);
    cluster.start(one);
    assert!(cluster.run_until(LEASE * 3, |p| p.leader().is_some_and(|now| now != leader)));
    cluster.violations
}

#[test]
fn a_voter_that_leaves_is_not_freed_of_a_promise_that_a_claim_rests_on() {
    let of = |flaw| (0..10).flat_map(|seed| one_leaves_that_is_needed(seed, flaw)).collect::<Vec<_>>();
    assert_eq!(of(None), [] as [&str; 0]);
    let violations = of(Some(Flaw::FreesWhoIsNeeded));
    assert!(violations.iter().any(|why| why.contains("valid claims")), "{violations:?}");
}

#[test]
fn a_voter_that_was_freed_and_comes_back_counts_again() {
    let (mut cluster, leader) = led(6, 3);
    cluster.run_for(SECOND);
    let (one, two) = ((leader + 1) % 3, (leader + 2) % 3);
    leave(&mut cluster, one);
    assert_eq!(cluster.nodes[one].disk.promise, Duration::ZERO);
    cluster.start(one);
    cluster.run_for(SECOND * 2);
    cluster.crash(two);
    cluster.run_for(LEASE * 5);
    assert_eq!((cluster.leader(), cluster.leaders.len()), (Some(leader), 1));
    assert_eq!(cluster.nodes[one].disk.promise, LEASE);
    cluster.assert_safe();
}

#[test]
fn a_shorter_lease_shortens_the_wait_after_a_restart_once_the_longest_promise_is_over() {
    let long = LeaseTiming { lease_duration: SECOND * 60, renewal_interval: SECOND * 15 };
    let short = LeaseTiming { lease_duration: LEASE, renewal_interval: LEASE / 4 };
    let mut cluster = Cluster::new(7, 3);
    for node in &mut cluster.nodes {
        node.timing = long;
    }
    cluster.start_all();
    assert!(cluster.run_until(SECOND * 5, |p| p.leader().is_some()));
    cluster.run_for(SECOND);
    for node in 0..3 {
        cluster.crash(node);
        cluster.nodes[node].timing = short;
    }
    cluster.start_all();
    cluster.run_for(SECOND * 59);
    assert_eq!(cluster.leader(), None, "what was promised is kept");
    assert!(cluster.run_until(SECOND * 5, |p| p.leader().is_some()));
    cluster.run_for(SECOND);
    let version = |cluster: &Cluster, node: usize| cluster.nodes[node].disk.version;
    let versions = [0, 1, 2].map(|node| version(&cluster, node));
    cluster.run_for(SECOND * 55);
    for node in &cluster.nodes {
        assert_eq!(node.disk.promise, SECOND * 60, "it may bind still, for all that this process knows");
    }
    assert_eq!([0, 1, 2].map(|node| version(&cluster, node)), versions, "renewals write nothing");
    cluster.run_for(SECOND * 60);
    assert!(cluster.nodes.iter().all(|node| node.disk.promise == LEASE));
    assert_eq!([0, 1, 2].map(|node| version(&cluster, node)), versions.map(|version| version + 1), "once");
    for node in 0..3 {
        cluster.crash(node);
    }
    restart_all(&mut cluster, LEASE * 2, "with the shorter lease");
    cluster.assert_safe();
}

/// Returns the first of two voters as it starts with this promise on its disk, in a term of the second one.
fn restarted(promise: Duration) -> Election {
    let (me, other) = (Identity(1), Identity(2));
    let voters = [(0, me), (1, other)].map(|(name, identity)| Voter { id: id(name), identity });
    let founding = NumberedView::founding(Electorate::founded_by(voters.into(), EARLIEST_FOUNDING));
    let (term, vote, accepted) = (Term(5), Some(other), Some(founding.under(Term(5))));
    let ballot = Ballot { term, vote, promise, accepted, ..Ballot::blank(me) };
    let timing = LeaseTiming { lease_duration: LEASE, renewal_interval: LEASE / 4 };
    let init = ElectionInit {
        me: id(0),
        timing,
        view_interval: SECOND,
        voters: Vec::new(),
        ballot,
        policy: LeaderPolicy::default(),
        floor: Term(0),
        wall_clock: EARLIEST_FOUNDING,
    };
    Election::planted(init, &after(0, true), None)
}

/// Returns the surroundings of a voter so many tenths of a second after its start.
fn after(tenths: u32, is_up: bool) -> Context<'static> {
    Context { now: Time::ORIGIN + SECOND * tenths / 10, random: 0.5, is_up, members: &Vec::new }
}

#[test]
fn a_leader_tells_no_claim_to_be_younger_than_it_is() {
    for seed in 0..20 {
        let (mut cluster, leader) = led(seed, 3);
        cluster.run_for(Duration::from_micros(1_012_345 + 137 * seed));
        let now = cluster.local(leader, cluster.now);
        cluster.with(leader, Election::renew);
        let mut messages = Vec::new();
        cluster.take_messages((leader + 1) % 3, &mut messages);
        let mut claims = messages.iter().filter_map(|message| match &message.body {
            Body::Renew(renewal) => renewal.claim,
            _ => None,
        });
        let told = Duration::from_millis(claims.next_back().expect("it tells its claim").age_ms);
        let left = cluster.election(leader).claim_left(now).expect("it leads");
        let age = cluster.nodes[leader].timing.claim().saturating_sub(left);
        assert!(told >= age && told < age + Duration::from_millis(1), "seed {seed}: {age:?} old, told to be {told:?}");
    }
}

#[test]
fn of_the_shorter_promises_since_the_longest_one_the_longest_is_kept() {
    let mut voter = restarted(SECOND * 60);
    voter.promise(&after(0, true), SECOND * 2);
    // Just before the longest one is over, a promise that lasts beyond it.
    voter.promise(&after(599, true), SECOND * 3);
    assert!(voter.promise(&after(601, true), SECOND * 2), "the disk learns that the longest one is over");
    assert_eq!(voter.ballot().promise, SECOND * 3, "which this process is bound by until the 63rd second");
}

#[test]
fn a_voter_that_restarted_in_its_leaders_term_and_leaves_before_it_acknowledges_anew_keeps_its_promises() {
    let mut voter = restarted(LEASE);
    let newest = voter.newest().expect("a view");
    let lineage = voter.lineage().expect("an electorate");
    // A longer lease than any before: the disk must have the promise before it is acknowledged.
    let renewal =
        Renewal { term: Term(5), sequence: 9, lease_ms: 3_000, claim: None, newest, delta: None, agreed: None };
    let message = ElectionMessage { from: Identity(2), lineage, body: Body::Renew(renewal) };
    voter.receive(&after(1, true), &id(1), message);
    voter.status_changed(&after(2, false));
    assert_eq!(voter.ballot().promise, SECOND * 3, "the process before may have promised this leader something");
}

#[test]
fn a_lease_with_a_fraction_of_a_millisecond_is_promised_for_no_less_than_it_is_claimed() {
    let mut cluster = Cluster::new(8, 3);
    let lease = Duration::from_micros(500_999);
    for node in &mut cluster.nodes {
        node.timing = LeaseTiming { lease_duration: lease, renewal_interval: Duration::from_millis(100) };
    }
    cluster.start_all();
    assert!(cluster.run_until(SECOND, |p| p.leader().is_some()));
    cluster.run_for(SECOND);
    for node in (0..3).filter(|node| Some(*node) != cluster.leader()) {
        assert!(cluster.nodes[node].disk.promise >= lease);
    }
    cluster.assert_safe();
}

#[test]
fn a_claim_rests_on_promises_that_are_on_disks() {
    for seed in 0..20 {
        let mut p = Cluster::new(seed, 3);
        p.write_delay = (20 * MS, 20 * MS);
        p.start_all();
        p.run_up_to(SECOND * 10, |p| p.leader().is_some());
        assert!(p.leader().is_some());
        let promised = p.nodes.iter().filter(|node| node.disk.promise >= LEASE).count();
        assert!(promised >= 2, "seed {seed}: {promised}");
    }
}

#[test]
fn who_acknowledged_again_is_not_freed_by_an_older_message() {
    let (mut p, leader) = led(6, 3);
    p.run_for(SECOND);
    let one = (leader + 1) % 3;
    let (term, _) = p.nodes[leader].claim.expect("a claim");
    for other in (0..3).filter(|other| *other != one) {
        p.cut.insert((other, one));
    }
    p.nodes[one].is_up = false;
    p.with(one, Election::status_changed);
    let (from, lineage) = (p.nodes[leader].identity, p.election(leader).lineage().expect("one"));
    let message = ElectionMessage { from, lineage, body: Body::Freed { term, sequence: 1 } };
    let name = id(leader);
    p.with(one, |election, context| election.receive(context, &name, message));
    assert_eq!(p.election(one).ballot().promise, LEASE);
}
