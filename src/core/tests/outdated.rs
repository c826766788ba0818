//! Claims about leaders that come too late, claim too much, or are of another electorate: they make nobody a leader, and
//! keep nobody in sight that is gone.

use std::time::Duration;

use super::claims::truth;
use super::electing::{SECOND, cluster, leader};
use super::net::{Net, ms};
use super::speaker::{Speaker, old_cluster};
use headcount_core::election::{MAX_LEASE, MIN_LEASE, Term};
use headcount_core::wire::{LeaderClaim, LeaderRenewal, Message};
use headcount_core::{Command, DropReason, Output, Profile};

/// A member that votes nowhere, and is told something.
const HEARER: usize = 4;
/// Another one, which says it.
const TELLER: usize = 5;

/// Has the two voters that do not lead tell a member that one of them leads in the next term, by a claim of this age
/// and lease; returns true if that makes it the leader there, and the number of claims that were refused as malformed.
fn is_elected(age: Duration, lease: Duration) -> (bool, u64) {
    let mut net = cluster(5, 3);
    net.run(SECOND * 5);
    let (first, term) = leader(&net);
    let voters: Vec<usize> = (0..3).filter(|node| *node != first).collect();
    let later = Term(term.0 + 1);
    let claim = LeaderClaim {
        term: later,
        age_ms: age.as_millis() as u64,
        lease_ms: lease.as_millis() as u64,
        ..truth(&net, voters[0])
    };
    let malformed = |net: &Net| net.nodes[HEARER].core.counters().dropped(DropReason::Malformed);
    let before = malformed(&net);
    for voter in voters {
        Speaker::new(voter).says(&mut net, HEARER, &[Message::LeaderClaim(Box::new(claim.clone()))]);
    }
    let mut said = net.nodes[HEARER].leadership.iter().map(|(_, said)| said);
    let is_elected = said.any(|said| matches!(said, Output::LeaderElected { term, .. } if *term == later));
    (is_elected, malformed(&net) - before)
}

#[test]
fn a_leader_is_one_as_long_as_its_lease_lasts() {
    let lease = SECOND * 2;
    assert_eq!(is_elected(Duration::ZERO, lease), (true, 0));
    assert_eq!(is_elected(lease - ms(1), lease), (true, 0));
    for late in [lease, lease + ms(1), lease * 100] {
        assert_eq!(is_elected(late, lease), (false, 0), "{late:?}");
    }
}

#[test]
fn a_lease_that_no_cluster_may_have_makes_nobody_a_leader() {
    for lease in [MIN_LEASE / 2, MAX_LEASE] {
        assert_eq!(is_elected(Duration::ZERO, lease), (true, 0), "{lease:?}");
    }
    for lease in [MIN_LEASE / 2 - ms(1), MAX_LEASE + ms(1), MAX_LEASE * 10_000] {
        assert_eq!(is_elected(Duration::ZERO, lease), (false, 2), "{lease:?}");
    }
}

/// Has the leader and another voter die, so that nobody can be elected, and a member say something about that leader
/// shortly before its lease is over; returns the time by which a hearer shows it for longer.
fn shown_longer_by(claims: impl Fn(&LeaderClaim) -> Vec<Message>) -> Duration {
    let mut net = cluster(6, 3);
    net.run(SECOND * 5);
    let (first, _) = leader(&net);
    let claims = claims(&truth(&net, first));
    for gone in [first, (first + 1) % 3] {
        net.kill(gone);
    }
    // By then the hearer has asked a voter.
    net.run(ms(1_500));
    let until = |net: &Net| net.nodes[HEARER].core.leadership().valid_until.expect("it is shown");
    let before = until(&net);
    Speaker::new(TELLER).says(&mut net, HEARER, &claims);
    let longer = until(&net).since(before);
    net.run(net.lease.lease_duration + longer);
    assert_eq!(net.nodes[HEARER].core.leadership().leader, None);
    longer
}

/// Returns a renewal of this claim, as a pulse tells it.
fn pulse(claim: &LeaderClaim, sequence: u64) -> Message {
    Message::LeaderRenewal(LeaderRenewal {
        lineage: claim.descent.lineage.0 as u32,
        term: claim.term,
        sequence,
        age_ms: 0,
        number: claim.view.number,
        digest: claim.view.digest.0 as u32,
    })
}

/// Some that the leader has sent, and some that it has not.
const RENEWALS: std::ops::Range<u64> = 1..40;

#[test]
fn the_pulse_of_another_electorates_leader_is_none_of_the_known_one() {
    let own = |claim: &LeaderClaim| RENEWALS.map(|sequence| pulse(claim, sequence)).collect();
    assert!(shown_longer_by(own) > SECOND, "a later renewal of its own counts");
    let others = |claim: &LeaderClaim| {
        let renewals = RENEWALS.map(|sequence| pulse(claim, sequence));
        let of_another_line = |renewal| match renewal {
            Message::LeaderRenewal(renewal) => {
                Message::LeaderRenewal(LeaderRenewal { lineage: !renewal.lineage, ..renewal })
            }
            other => other,
        };
        renewals.map(of_another_line).collect()
    };
    assert_eq!(shown_longer_by(others), Duration::ZERO);
}

#[test]
fn who_votes_nowhere_makes_no_earlier_renewal_count_that_seems_to_be_fresh() {
    let earlier =
        |claim: &LeaderClaim| vec![Message::LeaderClaim(Box::new(LeaderClaim { sequence: 1, ..claim.clone() }))];
    assert_eq!(shown_longer_by(earlier), Duration::ZERO);
}

#[test]
fn news_of_a_claim_that_ran_out_brings_it_back_only_if_it_was_renewed_since() {
    for (sequence, leads) in [(1, false), (1_000_000, true)] {
        let mut net = cluster(6, 3);
        net.run(SECOND * 5);
        let (first, _) = leader(&net);
        let claim = truth(&net, first);
        for gone in [first, (first + 1) % 3] {
            net.kill(gone);
        }
        let shown = |net: &Net| net.nodes[HEARER].core.leadership();
        net.run_until(net.lease.lease_duration * 2, "it runs out", |net| shown(net).leader.is_none());
        // On its way since before that, and so seemingly fresh.
        let claims = Message::LeaderClaim(Box::new(LeaderClaim { sequence, age_ms: 0, ..claim }));
        for teller in [(first + 2) % 3, 3, TELLER] {
            Speaker::new(teller).says(&mut net, HEARER, std::slice::from_ref(&claims));
        }
        assert_eq!(shown(&net).leader.is_some(), leads);
    }
}

#[test]
fn a_node_without_elections_hears_of_no_leader_by_voters_whose_lease_is_over() {
    let elsewhere = cluster(4, 3);
    let claim = truth(&elsewhere, leader(&elsewhere).0);
    for (age_ms, is_heard) in [(0, true), (1_999, true), (2_000, false), (60_000, false)] {
        let mut net = old_cluster(Profile::Local, 3);
        let claim = LeaderClaim { age_ms, ..claim.clone() };
        let heard = (true, Some((claim.leader.clone().expect("it names one"), claim.term)));
        Speaker::new(2).says(&mut net, 0, &[Message::LeaderClaim(Box::new(claim))]);
        let expected = if is_heard { vec![heard] } else { Vec::new() };
        assert_eq!(net.nodes[0].voters_heard, expected, "{age_ms} ms");
    }
}

#[test]
fn whoever_stood_still_takes_nobody_for_the_leader_that_was_elected_and_died_meanwhile() {
    for (lived, dead_for) in [(100, 2_000), (1_000, 2_100), (3_000, 5_000)] {
        let mut net = cluster(5, 3);
        let (first, term) = leader(&net);
        let sleeper = 4;
        net.pause(sleeper, true);
        net.command(first, Command::Resign { ticket: 1, to: None });
        let successor = |net: &Net| (0..3).find(|node| *node != first && net.nodes[*node].core.leadership().is_me);
        net.run_until(SECOND, "another one leads", |net| successor(net).is_some());
        let second = successor(&net).expect("it leads");
        net.run(ms(lived));
        // Nobody else is elected.
        net.kill(second);
        net.kill(first);
        net.run(ms(dead_for));
        net.pause(sleeper, false);
        net.run(SECOND * 3);
        let elected: Vec<_> = net.nodes[sleeper]
            .leadership
            .iter()
            .filter(|(_, said)| matches!(said, Output::LeaderElected { term: of, .. } if *of > term))
            .collect();
        assert!(elected.is_empty(), "it lived for {lived} ms and was dead for {dead_for} ms: {elected:?}");
    }
}
