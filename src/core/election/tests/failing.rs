//! Elections without a leader, and renewals that no majority acknowledges: each is reported once.

use std::time::Duration;

use super::cluster::{Cluster, LEASE, MS};
use super::scenarios::{SECOND, led};
use crate::election::Alarm;

fn reported(cluster: &Cluster, node: usize, sought: &Alarm) -> usize {
    cluster.alarms.iter().filter(|alarm| **alarm == (node, sought.clone())).count()
}

fn failures(cluster: &Cluster) -> Vec<&(usize, Alarm)> {
    let is_failure = |alarm: &Alarm| matches!(alarm, Alarm::ElectionFailed { .. } | Alarm::RenewalFailed);
    cluster.alarms.iter().filter(|(_, alarm)| is_failure(alarm)).collect()
}

#[test]
fn a_leader_that_is_acknowledged_reports_no_failure_however_late_that_is() {
    // Answers take longer than the time after which a renewal is sent again.
    for delay in [(MS / 5, 2 * MS), (45 * MS, 55 * MS)] {
        let mut cluster = Cluster::new(1, 3);
        cluster.delay = delay;
        cluster.start_all();
        assert!(cluster.run_until(SECOND * 10, |p| p.leader().is_some()));
        cluster.alarms.clear();
        cluster.run_for(LEASE * 20);
        assert_eq!(failures(&cluster), Vec::<&(usize, Alarm)>::new(), "{delay:?}");
    }
}

#[test]
fn a_leader_that_nobody_hears_reports_each_interval_without_an_acknowledgement_and_its_end() {
    let (mut cluster, leader) = led(1, 3);
    cluster.run_for(SECOND * 3);
    let others: Vec<usize> = (0..3).filter(|node| *node != leader).collect();
    cluster.split(&[&[leader], &others]);
    assert!(cluster.run_until(LEASE, |p| p.nodes[leader].claim.is_none()));
    // Of the four intervals of a lease the first one is that of the renewal that was acknowledged.
    assert_eq!(reported(&cluster, leader, &Alarm::RenewalFailed), 3);
    cluster.run_for(LEASE * 4);
    assert_eq!(reported(&cluster, leader, &Alarm::RenewalFailed), 3, "it leads no more");
    assert!(reported(&cluster, leader, &Alarm::ElectionFailed { is_answered: false }) >= 2, "it stands in vain");
    assert_eq!(reported(&cluster, leader, &Alarm::ElectionFailed { is_answered: true }), 0);
}

#[test]
fn voters_that_answer_and_do_not_vote_make_an_election_fail_that_was_answered() {
    let (mut cluster, leader) = led(1, 3);
    cluster.run_for(SECOND);
    let [candidate, full] = (0..3).filter(|node| *node != leader).collect::<Vec<_>>()[..] else { panic!("two") };
    cluster.nodes[full].is_disk_full = true;
    cluster.crash(leader);
    // Until the disk is known to be full: a vote that it does not take is not answered.
    cluster.run_for(LEASE * 3);
    cluster.alarms.clear();
    cluster.run_for(LEASE * 3);
    assert!(cluster.leader().is_none());
    assert!(reported(&cluster, candidate, &Alarm::ElectionFailed { is_answered: true }) >= 2, "{:?}", cluster.alarms);
    assert_eq!(reported(&cluster, candidate, &Alarm::ElectionFailed { is_answered: false }), 0);
}

#[test]
fn a_voter_that_does_not_hear_a_leader_that_others_hear_asks_for_no_election() {
    let (mut cluster, leader) = led(1, 3);
    cluster.run_for(SECOND);
    cluster.alarms.clear();
    cluster.cut_pair(leader, (leader + 1) % 3);
    cluster.run_for(LEASE * 6);
    assert_eq!(cluster.leader(), Some(leader));
    assert_eq!(failures(&cluster), Vec::<&(usize, Alarm)>::new());
}

#[test]
fn a_candidate_whom_nobody_acknowledges_once_it_is_elected_has_failed() {
    let is_elected = |cluster: &Cluster, node: usize| cluster.election(node).last_renewal().is_some();
    let elects = |seed| {
        let (mut cluster, leader) = led(seed, 3);
        cluster.run_for(SECOND);
        cluster.crash(leader);
        let others: Vec<usize> = (0..3).filter(|node| *node != leader).collect();
        assert!(cluster.run_until(LEASE * 2, |p| others.iter().any(|node| is_elected(p, *node))));
        let elected = others.into_iter().find(|node| is_elected(&cluster, *node)).expect("one");
        // A look at every five milliseconds sees it in most clusters only after the first acknowledgement.
        cluster.nodes[elected].claim.is_none().then_some((cluster, elected))
    };
    let (mut cluster, elected) = (1..50).find_map(elects).expect("one that is elected, and has no claim yet");
    // Votes were given, and renewals and their acknowledgements are lost.
    cluster.alarms.clear();
    cluster.lose_messages();
    cluster.cut.extend((0..3).flat_map(|a| (0..3).map(move |b| (a, b))));
    assert!(cluster.run_until(LEASE + SECOND, |p| !is_elected(p, elected)));
    assert_eq!(reported(&cluster, elected, &Alarm::ElectionFailed { is_answered: false }), 1);
    assert_eq!(reported(&cluster, elected, &Alarm::RenewalFailed), 0, "it never had a claim");
}

#[test]
fn an_early_renewal_that_is_under_way_when_the_next_one_is_due_has_not_failed() {
    let mut cluster = Cluster::new(1, 3);
    cluster.delay = (45 * MS, 55 * MS);
    cluster.start_all();
    assert!(cluster.run_until(SECOND * 10, |p| p.leader().is_some()));
    cluster.run_for(LEASE);
    let leader = cluster.leader().expect("there is one");
    cluster.alarms.clear();
    let claim = cluster.nodes[leader].timing.claim();
    let is_due_in_a_moment = |p: &Cluster| {
        let left = p.election(leader).claim_left(p.local(leader, p.now)).expect("it leads");
        left + LEASE / 4 < claim + Duration::from_millis(40)
    };
    assert!(cluster.run_until(LEASE, is_due_in_a_moment));
    cluster.with(leader, |election, context| election.confirm(context, 1));
    cluster.run_for(LEASE);
    assert_eq!(failures(&cluster), Vec::<&(usize, Alarm)>::new());
}
