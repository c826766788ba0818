//! The founding of clusters: rings of seeds, candidates that are passed on, and what `join` says of nodes that are not
//! Up.

use std::time::Duration;

use super::net::{Net, address, id, ms};
use headcount_core::{Command, Contacted, Notice, Profile, Reply};

/// Adds a node at each of these hosts, in this order, whose only seed is the next host; each begins so much after the
/// one before it.
fn ring(profile: Profile, hosts: &[usize], stagger: Duration) -> Net {
    let mut net = Net::new(profile);
    add_ring(&mut net, hosts, stagger);
    net
}

fn add_ring(net: &mut Net, hosts: &[usize], stagger: Duration) {
    for (place, host) in hosts.iter().enumerate() {
        let seed = hosts[(place + 1) % hosts.len()];
        net.add(&format!("n{host}"), *host, &[seed]);
        net.run(stagger);
    }
}

fn founders(net: &Net) -> usize {
    net.nodes.iter().filter(|node| node.notices.contains(&Notice::Founded)).count()
}

#[test]
fn a_ring_of_seeds_that_omit_themselves_founds_one_cluster_in_a_moment() {
    for profile in Profile::ALL {
        for hosts in [&[0, 1][..], &[1, 0], &[0, 1, 2], &[1, 2, 0], &[2, 1, 0], &[0, 1, 2, 3, 4], &[3, 1, 4, 0, 2]] {
            let mut net = ring(profile, hosts, Duration::ZERO);
            net.run_until(Duration::from_secs(3), "one cluster", Net::all_agree);
            assert_eq!(founders(&net), 1, "{profile} {hosts:?}");
            let smallest = hosts.iter().position(|host| *host == 0).expect("in it");
            assert!(net.nodes[smallest].notices.contains(&Notice::Founded), "the smallest address founds: {hosts:?}");
        }
    }
}

#[test]
fn a_ring_whose_nodes_start_one_after_the_other_founds_one_cluster() {
    for hosts in [&[0, 1][..], &[1, 0], &[2, 0, 1], &[0, 4, 1, 3, 2], &[4, 3, 2, 1, 0]] {
        for stagger in [ms(100), ms(700), ms(3_000), ms(20_000)] {
            let mut net = ring(Profile::Local, hosts, stagger);
            net.run_until(Duration::from_secs(20), "one cluster", Net::all_agree);
            net.run(Duration::from_secs(10));
            net.assert_all_up();
        }
    }
}

#[test]
fn a_ring_on_a_slow_and_lossy_network_ends_as_one_cluster() {
    for (drop_one_in, latency) in [(0, 100), (10, 1), (5, 20), (3, 5)] {
        for hosts in [&[0, 1][..], &[2, 0, 1], &[3, 1, 4, 0, 2]] {
            let mut net = Net::new(Profile::Local);
            (net.drop_one_in, net.latency) = (drop_one_in, ms(latency));
            add_ring(&mut net, hosts, ms(30));
            net.run(Duration::from_secs(10));
            net.drop_one_in = 0;
            net.run_until(Duration::from_secs(20), "one cluster", Net::all_agree);
        }
    }
}

#[test]
fn a_ring_with_a_dead_node_founds_one_cluster() {
    for dead in 0..5 {
        // Before it has said anything, and after the others have heard of it.
        for lifetime in [ms(0), ms(300)] {
            let hosts = [3, 1, 4, 0, 2];
            let mut net = ring(Profile::Local, &hosts, Duration::ZERO);
            net.run(lifetime);
            net.kill(dead);
            net.run_until(net.settings.retry_interval * 4, "one cluster", Net::all_agree);
            // Of those that waited for one that died meanwhile, two may have waited for long enough.
            assert!(founders(&net) <= 1 + usize::from(lifetime > ms(0)), "without n{}", hosts[dead]);
        }
    }
}

#[test]
fn lists_of_all_kinds_make_one_cluster() {
    // n0 to n4, each with its seeds: some list themselves, some are listed by others, some by nobody.
    let lists: [&[&[usize]]; 6] = [
        &[&[4], &[4], &[4], &[4], &[0, 4]],
        &[&[4], &[4], &[4], &[4], &[0]],
        &[&[1], &[2], &[1], &[2], &[3]],
        &[&[1, 2], &[0, 2], &[0, 1], &[2], &[2, 3]],
        &[&[1, 2], &[0], &[3], &[2], &[0]],
        &[&[1, 2, 3, 4], &[0, 2, 3, 4], &[0, 1, 3, 4], &[0, 1, 2, 4], &[0, 1, 2, 3]],
    ];
    for list in lists {
        let mut net = Net::new(Profile::Local);
        for (host, seeds) in list.iter().enumerate() {
            net.add(&format!("n{host}"), host, seeds);
        }
        net.run_until(Duration::from_secs(3), "one cluster", Net::all_agree);
        assert_eq!(founders(&net), 1, "{list:?}");
    }
}

#[test]
fn a_ring_of_seeds_that_was_two_islands_is_one_cluster_after_the_cut() {
    let hosts = [0, 1, 2, 3];
    let mut net = Net::new(Profile::Local);
    // n0 and n1 know each other, n2 and n3 do, and n1 has a seed on the far side.
    net.add("n0", 0, &[1]);
    net.add("n1", 1, &[0, 2]);
    net.add("n2", 2, &[3]);
    net.add("n3", 3, &[2]);
    for near in [0, 1] {
        for far in [2, 3] {
            net.cut(near, far, true);
        }
    }
    net.run(Duration::from_secs(10));
    assert_eq!(founders(&net), 2, "{}", net.describe());
    for near in [0, 1] {
        for far in [2, 3] {
            net.cut(near, far, false);
        }
    }
    net.run_until(net.settings.retry_interval * 2 + ms(2_000), "one cluster", Net::all_agree);
    assert_eq!(net.nodes[0].core.records().count(), hosts.len());
}

#[test]
fn a_node_that_is_nobodys_seed_founds_nothing_because_a_command_contacts_it() {
    let mut net = Net::new(Profile::Local);
    let (a, b) = (net.add("a", 0, &[60]), net.add("b", 1, &[61]));
    for (node, other) in [(a, 1), (b, 0)] {
        net.command(node, Command::Join { ticket: 1, addresses: vec![address(other)] });
    }
    net.run(Duration::from_secs(30));
    assert_eq!(founders(&net), 0, "each has a seed that may be a cluster");
}

#[test]
fn strangers_that_call_a_node_their_seed_do_not_found_it_before_its_own_seeds() {
    let mut net = Net::new(Profile::Default);
    // n5 is a seed that waits for its fellow seed n6; n0 is no seed, and has the smaller address.
    net.add("n5", 5, &[5, 6]);
    let plain = net.add("n0", 0, &[5]);
    net.add("stranger", 30, &[0]);
    net.run(Duration::from_secs(20));
    assert!(!net.nodes[plain].notices.contains(&Notice::Founded), "{}", net.describe());
}

#[test]
fn join_tells_who_is_not_up_from_who_does_not_answer() {
    let mut net = Net::new(Profile::Local);
    let lonely = net.add("lonely", 5, &[60]);
    let other = net.add("other", 6, &[61]);
    let up = net.add("up", 7, &[]);
    net.run(Duration::from_secs(10));
    for node in [lonely, up] {
        let addresses = vec![address(6), address(99)];
        net.command(node, Command::Join { ticket: 1, addresses });
    }
    net.run(Duration::from_secs(6));
    for node in [lonely, up] {
        let results = vec![(address(6), Contacted::NotUp { id: Some(id("other")) }), (address(99), Contacted::Silent)];
        assert_eq!(net.nodes[node].replies, [Reply::Joined(results)]);
    }
    assert!(!net.nodes[other].core.is_up());
}

#[test]
fn a_join_command_keeps_its_newest_addresses_however_many_came_before() {
    let mut net = Net::new(Profile::Local);
    let lonely = net.add("lonely", 5, &[60]);
    net.add("up", 7, &[]);
    for i in 0..3 {
        let addresses = (0..40).map(|host| address(100 + 40 * i + host)).collect();
        net.command(lonely, Command::Join { ticket: i as u64, addresses });
        let addresses = (0..40).map(|host| address(100 + 40 * i + host)).collect();
        net.command(lonely, Command::Join { ticket: 10 + i as u64, addresses });
    }
    net.command(lonely, Command::Join { ticket: 20, addresses: vec![address(7)] });
    net.run_until(Duration::from_secs(5), "it joined", |net| net.nodes[lonely].core.is_up());
}

#[test]
fn nobody_is_up_at_an_incarnation_that_is_not_on_disk() {
    for is_full in [false, true] {
        let mut net = Net::new(Profile::Local);
        net.add("n0", 0, &[0]);
        net.run(Duration::from_secs(1) * 3);
        let first = net.add_born("x", 5, &[0], 50_000_000_000);
        net.run(Duration::from_secs(1));
        assert!(net.nodes[first].core.is_up());
        net.kill(first);
        net.run(Duration::from_secs(1) * 10);
        let second = net.nodes.len();
        if is_full {
            net.full_disks.insert(second, None);
        }
        assert_eq!(net.add_born("x", 5, &[0, 5], 1_000_000), second);
        net.run(ms(300));
        net.kill(0);
        net.run(Duration::from_secs(1) * 120);
        assert_eq!(net.nodes[second].core.is_up(), !is_full, "{}", net.describe());
    }
}

#[test]
fn join_tells_the_ports_of_one_host_apart() {
    let mut net = Net::cluster(Profile::Local, 2);
    let other = std::net::SocketAddr::new(address(0).ip(), 9);
    net.command(1, Command::Join { ticket: 1, addresses: vec![address(0), other] });
    net.run_until(Duration::from_secs(8), "it is answered", |net| !net.nodes[1].replies.is_empty());
    let answers = vec![(address(0), Contacted::Answered { id: id("n0") }), (other, Contacted::Silent)];
    assert_eq!(net.nodes[1].replies, [Reply::Joined(answers)]);
}
