//! Elections among voters some of whose disks are slow: a vote that is being written is waited for, so that a majority
//! that is up and connected has a leader within two leases.

use std::time::Duration;

use super::cluster::{LEASE, MS, Nanos};
use super::scenarios::led;
use crate::election::flaw::Flaw;

/// A leader that dies, and the voters that are left.
#[derive(Debug, Clone, Copy)]
struct Death {
    voters: usize,
    /// The number of voters with slow disks among those that are left, which are exactly a majority.
    slow: usize,
    /// The time of a write to a slow disk.
    write: (Nanos, Nanos),
    /// The longest time that a message takes.
    delay: Nanos,
}

const ELECTORATES: [(usize, usize); 6] = [(3, 1), (3, 2), (5, 1), (5, 2), (5, 3), (7, 2)];

/// Kills the leader and all others that may die; returns the time until somebody leads, if it is at most this.
fn elect(seed: u64, death: Death, most: Duration, flaw: Option<Flaw>) -> Option<Duration> {
    let (mut cluster, leader) = led(seed, death.voters);
    cluster.run_for(LEASE);
    cluster.delay.1 = death.delay;
    let others: Vec<usize> = (1..death.voters).map(|nth| (leader + nth) % death.voters).collect();
    let (left, lost) = others.split_at(death.voters / 2 + 1);
    for node in &left[..death.slow] {
        cluster.nodes[*node].write_delay = Some(death.write);
    }
    for node in left {
        if let (Some(flaw), Some(election)) = (flaw, &mut cluster.nodes[*node].election) {
            election.plant(flaw);
        }
    }
    lost.iter().chain([&leader]).for_each(|node| cluster.crash(*node));
    let died = cluster.now;
    let is_led = cluster.run_until(most, |p| p.leader().is_some());
    cluster.assert_safe();
    let terms = cluster.nodes.iter().map(|node| node.disk.term.0).max().unwrap_or(0);
    assert!(flaw.is_some() || terms < 10, "{terms} terms, seed {seed}, {death:?}");
    is_led.then_some(Duration::from_nanos(cluster.now - died))
}

/// Returns the deaths after which nobody leads in time, by their seeds.
fn leaderless(seeds: u64, deaths: &[Death], most: Duration, flaw: Option<Flaw>) -> Vec<(u64, Death)> {
    let runs = deaths.iter().flat_map(|death| (0..seeds).map(move |seed| (seed, *death)));
    runs.filter(|(seed, death)| elect(*seed, *death, most, flaw).is_none()).collect()
}

fn deaths(write_ms: &[(u64, u64)], delay_ms: &[u64]) -> Vec<Death> {
    let ways = write_ms.iter().flat_map(|write| delay_ms.iter().map(move |delay| (write, delay)));
    let of = |((least, most), delay): (&(u64, u64), &u64)| {
        let (write, delay) = ((least * MS, most * MS), delay * MS);
        ELECTORATES.map(|(voters, slow)| Death { voters, slow, write, delay })
    };
    ways.flat_map(of).collect()
}

#[test]
fn disks_as_slow_as_half_a_lease_leave_a_majority_with_a_leader_within_two_leases() {
    let writes = [(100, 100), (200, 200), (250, 250), (500, 500), (700, 700), (800, 800), (40, 200), (100, 700)];
    let leaderless = leaderless(25, &deaths(&writes, &[2, 30]), LEASE * 2, None);
    assert!(leaderless.is_empty(), "{} runs, first {:?}", leaderless.len(), leaderless[0]);
}

#[test]
fn a_disk_slower_than_any_attempt_elects_a_leader_all_the_same() {
    let deaths = deaths(&[(1_000, 1_000), (3_000, 3_000), (600, 3_000)], &[2, 30]);
    let leaderless = leaderless(25, &deaths, LEASE * 2 + Duration::from_secs(5), None);
    assert!(leaderless.is_empty(), "{} runs, first {:?}", leaderless.len(), leaderless[0]);
}

#[test]
fn quick_disks_elect_as_soon_as_the_promises_are_over() {
    let soon = LEASE + Duration::from_millis(100);
    let leaderless = leaderless(50, &deaths(&[(1, 5)], &[2]), soon, None);
    assert!(leaderless.is_empty(), "{} runs, first {:?}", leaderless.len(), leaderless[0]);
}

#[track_caller]
fn is_caught(flaw: Flaw) {
    let deaths = deaths(&[(500, 500), (100, 1_000), (1_000, 1_000)], &[30]);
    let leaderless = leaderless(15, &deaths, LEASE * 2 + Duration::from_secs(1), Some(flaw));
    assert!(!leaderless.is_empty(), "it is found");
    println!("{flaw:?}: {} runs, first {:?}", leaderless.len(), leaderless[0]);
}

#[test]
fn planted_voter_that_moves_on_while_its_vote_is_written_is_caught() {
    is_caught(Flaw::MovesOnWhileWriting);
}

#[test]
fn planted_candidate_that_forgets_late_votes_is_caught() {
    is_caught(Flaw::ForgetsLateVotes);
}

#[test]
fn planted_voter_that_leaves_no_time_to_lead_is_caught() {
    is_caught(Flaw::GivesNoTimeToLead);
}
