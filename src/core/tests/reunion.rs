use std::time::Duration;

use super::net::{Net, address, id, ms};
use headcount_core::limits::SEEDS_ASKED_ALONE;
use headcount_core::{ChangeKind, Command, Contacted, Profile, Reply, Status, StopReason};

fn partition(net: &mut Net, side: usize, is_cut: bool) {
    for a in 0..side {
        for b in side..net.nodes.len() {
            net.cut(a, b, is_cut);
        }
    }
}

#[test]
fn islands_without_common_seeds_are_joined_by_command() {
    let mut net = Net::new(Profile::Default);
    for (name, host, seed) in [("a1", 0, 0), ("a2", 1, 0), ("b1", 10, 10), ("b2", 11, 10)] {
        net.add(name, host, &[seed]);
    }
    net.run(Duration::from_secs(30));
    assert_eq!(net.nodes[0].core.records().count(), 2);
    net.command(1, Command::Join { ticket: 1, addresses: vec![address(11)] });
    net.run_until(Duration::from_secs(4), "one cluster", Net::all_agree);
    assert_eq!(net.nodes[1].replies, [Reply::Joined(vec![(address(11), Contacted::Answered { id: id("b2") })])]);
}

/// Returns two islands of two nodes each, which have no seed in common.
fn islands(profile: Profile) -> Net {
    let mut net = Net::new(profile);
    for (name, host, seed) in [("a1", 0, 0), ("a2", 1, 0), ("b1", 10, 10), ("b2", 11, 10)] {
        net.add(name, host, &[seed]);
    }
    net.run(net.settings.retry_interval * 6);
    for node in &net.nodes {
        assert_eq!(node.core.records().count(), 2, "{profile}");
    }
    net
}

#[test]
fn islands_meet_when_the_seeds_of_one_node_name_another_island() {
    for profile in Profile::ALL {
        for node in 0..4 {
            let mut net = islands(profile);
            let other = if node < 2 { 11 } else { 1 };
            net.nodes[node].seeds.push(address(other));
            let within = net.settings.retry_interval * 2 + Duration::from_secs(2);
            net.run_until(within, "one cluster", Net::all_agree);
        }
    }
}

#[test]
fn seeds_are_looked_up_once_in_a_retry_interval_also_when_all_are_found() {
    for profile in Profile::ALL {
        let mut net = islands(profile);
        net.lookups = 0;
        net.run(net.settings.retry_interval * 100);
        let each = net.lookups / 4;
        assert!((100..=112).contains(&each), "{profile}: {each}");
    }
}

#[test]
fn joining_an_address_where_nobody_is_ends_with_nobody() {
    let mut net = Net::cluster(Profile::Default, 1);
    net.command(0, Command::Join { ticket: 1, addresses: vec![address(99), address(0)] });
    net.run(Duration::from_secs(6));
    let results = vec![(address(99), Contacted::Silent), (address(0), Contacted::Answered { id: id("n0") })];
    assert_eq!(net.nodes[0].replies, [Reply::Joined(results)]);
}

#[test]
fn the_same_name_on_both_sides_of_a_cut_leaves_one() {
    let mut net = Net::cluster(Profile::Local, 4);
    partition(&mut net, 2, true);
    net.run(Duration::from_secs(5));
    let older = net.add("twin", 20, &[0]);
    for other in [2, 3] {
        net.cut(older, other, true);
    }
    net.run(Duration::from_secs(2));
    let newer = net.add("twin", 21, &[2]);
    for other in [0, 1, older] {
        net.cut(newer, other, true);
    }
    net.nodes[newer].stopped.take();
    net.run(Duration::from_secs(2));
    // n2 knows n0's seed only as Down; the newer twin joined on its side.
    assert!(net.nodes[older].core.is_up() && net.nodes[newer].core.is_up(), "{}", net.describe());
    for a in 0..net.nodes.len() {
        for b in 0..net.nodes.len() {
            net.cut(a, b, false);
        }
    }
    // As many members hold the one as the other: which one gives way is told in `twins`.
    net.run_until(Duration::from_secs(10), "one twin is left", |net| {
        let has_given_way = |twin: usize| matches!(net.nodes[twin].stopped, Some(StopReason::NameInUse { .. }));
        has_given_way(older) != has_given_way(newer) && net.all_agree()
    });
}

#[test]
fn the_dead_are_reaped_everywhere_and_stay_away() {
    let mut net = Net::with_short_memory(4);
    net.forget_reports();
    net.kill(3);
    net.run(Duration::from_secs(59));
    assert_eq!(net.status(0, "n3"), Some(Status::Down));
    net.run(Duration::from_secs(4));
    for observer in 0..3 {
        assert_eq!(net.status(observer, "n3"), None);
        assert_eq!(net.reported(observer, "n3").last(), Some(&ChangeKind::Removed));
        assert_eq!(net.reported(observer, "n3").len(), 3);
    }
    net.run(Duration::from_secs(300));
    assert_eq!(net.nodes[0].core.records().count(), 3);
}

#[test]
fn a_living_node_that_was_buried_refutes_its_tombstone() {
    let mut net = Net::with_short_memory(4);
    partition(&mut net, 3, true);
    net.run(Duration::from_secs(70));
    assert_eq!(net.status(0, "n3"), None, "reaped");
    partition(&mut net, 3, false);
    net.run_until(net.settings.retry_interval * 2 + ms(2_000), "all agree", Net::all_agree);
}

#[test]
fn who_came_to_a_seeds_address_after_the_seed_moved_away_is_looked_for_there() {
    let mut net = Net::cluster(Profile::Local, 3);
    net.run(Duration::from_secs(5));
    net.nodes[0].address = address(70);
    net.command(0, Command::SetAddress { ticket: 1, address: address(70) });
    net.run_until(Duration::from_secs(3), "all know where it is", |net| {
        (1..3).all(|node| net.nodes[node].core.record(&id("n0")).is_some_and(|held| held.address == address(70)))
    });
    net.run(Duration::from_secs(3));
    net.undelivered.clear();
    net.run(net.settings.retry_interval * 3);
    let asked = net.undelivered.iter().filter(|(to, _)| *to == address(0)).count();
    assert!(asked >= 4, "the seed's address is asked {asked} times by two nodes in three intervals");
}

#[test]
fn a_node_that_is_its_own_seed_looks_for_nobody_and_one_that_is_so_by_another_address_asks_there_now_and_then() {
    for (host, elsewhere) in [(0, None), (0, Some(77))] {
        let mut net = Net::new(Profile::Local);
        net.further.extend(elsewhere.map(|elsewhere| (0, address(elsewhere))));
        let seed = elsewhere.unwrap_or(host);
        net.add("a", host, &[seed]);
        net.run_until(net.settings.retry_interval * 8, "it founds", |net| net.nodes[0].core.is_up());
        net.run(net.settings.retry_interval * 8);
        net.sent = Some(Vec::new());
        for _ in 0..200 {
            net.run(net.settings.retry_interval / 10);
            assert!(!net.nodes[0].core.misses_seed(), "it is there itself");
        }
        let asked = net.sent.take().expect("recorded").iter().filter(|(_, to, _)| *to == address(seed)).count();
        assert!(if elsewhere.is_some() { (15..=25).contains(&asked) } else { asked == 0 }, "{asked}");
    }
}

#[test]
fn whoever_sees_nobody_asks_several_missing_seeds_in_an_interval_and_one_beside_others() {
    for (n, each) in [(1, SEEDS_ASKED_ALONE), (2, 1)] {
        let mut net = Net::cluster(Profile::Local, n);
        net.nodes[0].seeds.extend((90..95).map(address));
        net.run(net.settings.retry_interval * 3);
        net.undelivered.clear();
        net.run(net.settings.retry_interval * 10);
        let asked = net.undelivered.len();
        assert!((each * 8..=each * 12).contains(&asked), "{n}: {asked}");
    }
}
