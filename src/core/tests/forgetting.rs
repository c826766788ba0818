//! The dead are forgotten everywhere in time, and views agree soon, whatever came in which order.

use std::time::Duration;

use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

use super::electing::SECOND;
use super::net::{Net, id, ms};
use headcount_core::{ChangeKind, Profile, Run, Time};

/// Returns true if any node that runs holds a record of this run.
fn is_held(net: &Net, name: &str, run: Run) -> bool {
    net.running().any(|node| node.core.record(&id(name)).is_some_and(|record| record.run == run))
}

/// Lets a network of six forget n5, which dies. One side is cut off for a while at some time, one of the others
/// restarts with an empty disk and its clock set back, and a newcomer joins: before the death, around it, and around
/// the time when the first of them forget. Returns the time from its last sign of life anywhere until n5 was forgotten
/// everywhere.
fn forgotten_after(seed: u64) -> Duration {
    let mut random = ChaCha8Rng::seed_from_u64(seed);
    let mut net = Net::with_short_memory(6);
    net.shuffle_losses(seed);
    net.drop_one_in = [0, 0, 20][random.random_range(0..3)];
    let reap_after = net.settings.reap_after;
    let (dead, restarted) = (5, 1 + seed as usize % 4);
    let run = net.nodes[dead].core.me().run;
    let at = |random: &mut ChaCha8Rng| Time::ORIGIN + ms(random.random_range(5_000..75_000));
    let death = at(&mut random).min(Time::ORIGIN + SECOND * 20);
    let (cut_at, restart_at, join_at) = (at(&mut random), at(&mut random), at(&mut random));
    let healed_at = cut_at + ms(random.random_range(500..60_000));
    // The side of the dead one when the network falls apart.
    let beside: Vec<usize> = (0..5).filter(|_| random.random()).chain([dead]).collect();
    let mut events = [(death, 0), (cut_at, 1), (healed_at, 2), (restart_at, 3), (join_at, 4)];
    events.sort_unstable();
    for (time, event) in events {
        net.run(time.since(net.now));
        match event {
            0 => net.kill(dead),
            1 | 2 => {
                for a in 0..net.nodes.len() {
                    for b in (0..a).filter(|b| beside.contains(&a) != beside.contains(b)) {
                        net.cut(a, b, event == 1);
                    }
                }
            }
            3 => {
                net.kill(restarted);
                net.run(ms([0, 300, 5_000][random.random_range(0..3)]));
                net.add_born(&format!("n{restarted}"), restarted, &[0], 1_000);
            }
            _ => {
                net.add("late", 20, &[0]);
            }
        }
    }
    net.run((death + reap_after * 2).since(net.now));
    assert!(!is_held(&net, "n5", run), "seed {seed}: {}", net.describe());
    let reports = net.running().flat_map(|node| &node.changes);
    let forgotten = reports.filter(|(_, change)| change.record.run == run && change.kind == ChangeKind::Removed);
    forgotten.map(|(at, _)| *at).max().expect("somebody has known it").since(death)
}

#[test]
fn a_dead_member_is_forgotten_everywhere_within_its_time_whatever_came_before_and_after() {
    // Ages travel. But who comes before the death is found out, counts from then: that is within the down timeout.
    let tolerance = Profile::Local.settings().down_timeout;
    for seed in 0..20 {
        let after = forgotten_after(seed);
        assert!(after <= SECOND * 60 + tolerance, "seed {seed}: after {after:?}");
    }
}

#[test]
fn views_agree_within_four_seconds_of_a_restart_with_an_empty_disk_and_a_clock_set_back() {
    for seed in 0..60 {
        let mut random = ChaCha8Rng::seed_from_u64(seed);
        let mut net = Net::cluster(Profile::Lan, 6);
        net.shuffle_losses(seed);
        net.run(ms(random.random_range(0..90_000)));
        let restarted: Vec<usize> = (1..6).filter(|_| random.random_range(0..3) == 0).collect();
        for node in &restarted {
            net.kill(*node);
            net.run(ms([0, 0, 200, 3_000][random.random_range(0..4)]));
        }
        for node in &restarted {
            let set_back = [1, 1_000, 999_999][random.random_range(0..3)];
            net.add_born(&format!("n{node}"), *node, &[0], set_back);
        }
        net.run_until(SECOND * 4, &format!("seed {seed}: views agree"), Net::all_agree);
    }
}
