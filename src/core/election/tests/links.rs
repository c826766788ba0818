//! Half-dead switches: links of five voters that carry nothing, in every combination of one to three, and partitions.

use std::time::Duration;

use rand::RngExt;

use super::cluster::{LEASE, Cluster};
use super::scenarios::{SECOND, led};

const VOTERS: usize = 5;
/// The longest time until somebody leads: the lease that has to run out, another one for voters that promised something
/// meanwhile, and the election itself.
const MOST: Duration = Duration::from_millis(2 * LEASE.as_millis() as u64 + 1_000);

/// Returns all choices of one to `most` of these.
fn choices<T: Copy>(of: &[T], most: usize) -> Vec<Vec<T>> {
    let mut chosen: Vec<(usize, Vec<T>)> = vec![(0, Vec::new())];
    let mut begin = 0;
    for _ in 0..most {
        let end = chosen.len();
        for at in begin..end {
            let (next, so_far) = chosen[at].clone();
            for (index, one) in of.iter().enumerate().skip(next) {
                chosen.push((index + 1, so_far.iter().copied().chain([*one]).collect()));
            }
        }
        begin = end;
    }
    chosen.into_iter().skip(1).map(|(_, chosen)| chosen).collect()
}

/// Returns five voters with clocks as wrong as they may be, and their leader.
fn five(seed: u64) -> (Cluster, usize) {
    let (mut cluster, leader) = led(seed, VOTERS);
    cluster.run_for(SECOND);
    for node in 0..VOTERS {
        if cluster.rng.random_bool(0.5) {
            // The clock is slow or fast from now on.
            cluster.set_rate(node, [-10_000, 10_000][node % 2]);
        }
    }
    (cluster, leader)
}

fn pairs() -> Vec<(usize, usize)> {
    (0..VOTERS).flat_map(|a| (a + 1..VOTERS).map(move |b| (a, b))).collect()
}

/// Asserts that somebody leads in time and almost always from then on, and leads again in time after healing.
fn stays_led(mut cluster: Cluster, what: &str) {
    assert!(cluster.run_until(MOST, |p| p.leader().is_some()), "{what}: nobody leads at once");
    cluster.run_for(MOST);
    let mut led_for = 0;
    for _ in 0..100 {
        cluster.run_for(Duration::from_millis(100));
        led_for += usize::from(cluster.leader().is_some());
    }
    assert!(led_for >= 95, "{what}: led for {led_for} of 100");
    cluster.cut.clear();
    assert!(cluster.run_until(MOST, |p| p.leader().is_some()), "{what}: nobody leads after healing");
    cluster.assert_safe();
}

#[test]
fn one_to_three_dead_links_of_five_voters_leave_one_leader() {
    let combinations = choices(&pairs(), 3);
    assert_eq!(combinations.len(), 10 + 45 + 120);
    for (seed, links) in combinations.into_iter().enumerate() {
        let (mut cluster, leader) = five(seed as u64);
        cluster.cut = links.iter().flat_map(|(a, b)| [(*a, *b), (*b, *a)]).collect();
        stays_led(cluster, &format!("{links:?}, led by {leader}"));
    }
}

#[test]
fn one_or_two_links_that_are_dead_one_way_leave_one_leader() {
    let one_way: Vec<(usize, usize)> = pairs().into_iter().flat_map(|(a, b)| [(a, b), (b, a)]).collect();
    for (seed, links) in choices(&one_way, 2).into_iter().enumerate() {
        let (mut cluster, leader) = five(seed as u64);
        cluster.cut = links.iter().copied().collect();
        stays_led(cluster, &format!("{links:?}, led by {leader}"));
    }
}

#[test]
fn the_larger_side_of_a_partition_leads_and_no_side_of_three_does() {
    for seed in 0..20 {
        for sizes in [&[3, 2][..], &[2, 2, 1], &[4, 1]] {
            let (mut cluster, _) = five(seed);
            let mut order: Vec<usize> = (0..VOTERS).collect();
            order.rotate_left(seed as usize % VOTERS);
            let mut left = &order[..];
            let groups: Vec<&[usize]> = sizes.iter().map(|size| left.split_off(..*size).expect("enough")).collect();
            cluster.split(&groups);
            cluster.run_for(MOST);
            match cluster.leader() {
                Some(leader) => assert!(sizes[0] > 2 && groups[0].contains(&leader)),
                None => assert!(sizes[0] == 2, "a majority without a leader, seed {seed}"),
            }
            for node in groups[1..].concat() {
                assert!(!cluster.election(node).reaches_quorum(), "{node} of {groups:?} does not know");
            }
            let leader = cluster.leader();
            cluster.split(&[&order]);
            assert!(cluster.run_until(SECOND, |p| p.leader().is_some()), "healed, seed {seed}");
            assert!(leader.is_none() || cluster.leader() == leader, "healing deposes nobody");
            cluster.assert_safe();
        }
    }
}

#[test]
fn a_voter_paused_for_any_time_disturbs_nobody_and_leads_no_longer_than_it_may() {
    for seed in 0..40 {
        let (mut cluster, leader) = five(seed);
        for node in [leader, (leader + 1) % VOTERS] {
            cluster.nodes[node].paused = true;
            let pause = Duration::from_millis(cluster.rng.random_range(0..6_000));
            cluster.run_for(pause);
            cluster.resume(node);
            assert!(cluster.run_until(MOST, |p| p.leader().is_some()), "seed {seed}");
        }
        cluster.assert_safe();
    }
}
