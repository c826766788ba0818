//! Several addresses change at one moment: pairs, threes, whole clusters, exchanges of addresses, newcomers at an
//! address that was just left, and moves where datagrams do not pass.

use std::time::Duration;

use super::electing;
use super::net::{Net, address, id, ms};
use headcount_core::{ChangeKind, Command, Contacted, Profile, Reply, Status};

/// Has the driver of a node bind another socket, and lose the old one.
fn moves(net: &mut Net, node: usize, host: usize) {
    net.nodes[node].address = address(host);
    net.command(node, Command::SetAddress { ticket: 1, address: address(host) });
}

/// Has these nodes move, one so long after the other.
fn move_all(net: &mut Net, moved: &[(usize, usize)], gap: Duration) {
    for (node, host) in moved {
        moves(net, *node, *host);
        net.run(gap);
    }
}

/// Has these nodes take each other's addresses, each that of the next one.
fn exchange(net: &mut Net, nodes: &[usize]) {
    let addresses: Vec<_> = nodes.iter().map(|node| net.nodes[*node].address).collect();
    for (nth, node) in nodes.iter().enumerate() {
        net.nodes[*node].address = addresses[(nth + 1) % addresses.len()];
    }
    for node in nodes {
        let address = net.nodes[*node].address;
        net.command(*node, Command::SetAddress { ticket: 1, address });
    }
}

/// Returns the pairs of running nodes of which the first does not hold the second as Up where it is.
fn apart(net: &Net) -> Vec<(String, String)> {
    let pairs = net.running().flat_map(|observer| net.running().map(move |other| (observer, other)));
    let is_wrong = |(observer, other): &(&super::net::Node, &super::net::Node)| {
        let held = observer.core.record(&other.core.me().id);
        held.is_none_or(|held| (held.address, held.status) != (other.address, Status::Up))
    };
    let named = |(observer, other): (&super::net::Node, &super::net::Node)| {
        (observer.core.me().id.to_string(), other.core.me().id.to_string())
    };
    pairs.filter(is_wrong).map(named).collect()
}

/// Checks that everybody holds everybody as Up where it is, in the time that is promised, and that this lasts.
#[track_caller]
fn assert_converges(net: &mut Net, case: &str) -> Duration {
    let within = net.settings.retry_interval * 2 + Duration::from_secs(2);
    let (start, until) = (net.now, net.now + within);
    while !apart(net).is_empty() {
        assert!(net.now < until, "{case}: apart after {within:?}: {:?}\n{}", apart(net), net.describe());
        net.run(ms(10));
    }
    let took = net.now.since(start);
    net.run(net.settings.down_timeout * 2);
    assert_eq!(apart(net), [], "{case}: it does not last");
    took
}

#[track_caller]
fn assert_nobody_was_gone(net: &Net, case: &str) {
    for node in &net.nodes {
        let is_gone =
            |kind: ChangeKind| matches!(kind, ChangeKind::DetectedDown(_) | ChangeKind::Left(_) | ChangeKind::Removed);
        let gone: Vec<_> = node.changes.iter().filter(|(_, change)| is_gone(change.kind)).collect();
        assert!(gone.is_empty(), "{case}: at {}: {gone:?}", node.core.me().id);
    }
}

const PROFILES: [Profile; 3] = [Profile::Local, Profile::Lan, Profile::Default];

/// Returns these numbers of nodes, of which a slow profile gets the small ones: it differs by its pace alone.
fn of_these<T: Copy>(profile: Profile, all: &[(usize, T)]) -> Vec<(usize, T)> {
    all.iter().copied().filter(|(n, _)| profile == Profile::Local || *n <= 6).collect()
}

#[test]
fn two_members_that_move_at_one_moment_find_each_other() {
    for profile in PROFILES {
        for (n, gaps) in
            of_these(profile, &[(3, &[0, 200][..]), (4, &[50]), (6, &[0, 50, 100, 200, 300]), (24, &[100])])
        {
            for gap in gaps.iter().copied() {
                let case = format!("{profile}, {n}, {gap} ms apart");
                let mut net = Net::cluster(profile, n);
                net.run(net.settings.heartbeat_interval * 3);
                net.forget_reports();
                move_all(&mut net, &[(n - 2, 70), (n - 1, 71)], ms(gap));
                assert_converges(&mut net, &case);
                assert_nobody_was_gone(&net, &case);
            }
        }
    }
}

#[test]
fn two_members_that_move_at_one_moment_find_each_other_where_packets_are_lost() {
    for seed in 0..8 {
        for gap in [0, 20, 150] {
            let mut net = Net::cluster(Profile::Local, 6);
            net.run(Duration::from_secs(4));
            net.shuffle_losses(seed);
            (net.drop_one_in, net.jitter) = (8, ms(10));
            move_all(&mut net, &[(4, 70), (5, 71)], ms(gap));
            assert_converges(&mut net, &format!("seed {seed}, {gap} ms apart"));
        }
    }
}

#[test]
fn a_cluster_that_is_renumbered_stays_one() {
    for profile in PROFILES {
        for (n, moved) in of_these(profile, &[(4, 3), (6, 3), (6, 5), (12, 11), (24, 16)]) {
            for gap in [0, 100] {
                let case = format!("{profile}, {moved} of {n}, {gap} ms apart");
                let mut net = Net::cluster(profile, n);
                net.run(net.settings.heartbeat_interval * 3);
                let moved: Vec<_> = (n - moved..n).map(|node| (node, 70 + node)).collect();
                move_all(&mut net, &moved, ms(gap));
                assert_converges(&mut net, &case);
            }
        }
    }
}

#[test]
fn members_that_exchange_their_addresses_find_each_other() {
    for profile in PROFILES {
        for (n, count) in of_these(profile, &[(3, 2), (5, 2), (6, 3), (7, 4), (24, 4)]) {
            let (nodes, case) = (n - count..n, format!("{profile}, {count} of {n}"));
            let mut net = Net::cluster(profile, n);
            net.run(net.settings.heartbeat_interval * 3);
            net.forget_reports();
            exchange(&mut net, &nodes.collect::<Vec<_>>());
            assert_converges(&mut net, &case);
            assert_nobody_was_gone(&net, &case);
        }
    }
}

#[test]
fn members_that_exchange_their_addresses_find_each_other_where_packets_are_lost() {
    for seed in 0..8 {
        for nodes in [vec![4, 5], vec![3, 4, 5]] {
            let mut net = Net::cluster(Profile::Local, 6);
            net.run(Duration::from_secs(4));
            net.shuffle_losses(seed);
            (net.drop_one_in, net.jitter) = (8, ms(10));
            exchange(&mut net, &nodes);
            assert_converges(&mut net, &format!("seed {seed}, {nodes:?}"));
        }
    }
}

#[test]
fn a_newcomer_at_an_address_that_was_just_left_finds_who_left_it() {
    for profile in PROFILES {
        for (n, moved) in of_these(profile, &[(2, 1), (3, 2), (6, 4), (6, 1), (24, 9)]) {
            for delay in if n == 6 { &[0, 2, 20, 50, 100, 500][..] } else { &[2, 100] } {
                let case = format!("{profile}, {moved} of {n}, {delay} ms after");
                let mut net = Net::cluster(profile, n);
                net.run(net.settings.heartbeat_interval * 3);
                net.forget_reports();
                moves(&mut net, moved, 70);
                net.run(ms(*delay));
                net.add("late", moved, &[0]);
                assert_converges(&mut net, &case);
                assert_nobody_was_gone(&net, &case);
            }
        }
    }
}

#[test]
fn a_newcomer_that_takes_the_address_before_its_tenant_notices_finds_it() {
    for profile in PROFILES {
        for (n, moved) in of_these(profile, &[(2, 1), (3, 2), (6, 4), (6, 1), (24, 9)]) {
            for notices_after in if n == 6 { &[2, 10, 100, 500, 1_500][..] } else { &[10, 500] } {
                let case = format!("{profile}, {moved} of {n}, {notices_after} ms before");
                let mut net = Net::cluster(profile, n);
                net.run(net.settings.heartbeat_interval * 3);
                net.nodes[moved].address = address(70);
                net.add("late", moved, &[0]);
                net.run(ms(*notices_after));
                moves(&mut net, moved, 70);
                assert_converges(&mut net, &case);
            }
        }
    }
}

#[test]
fn members_that_notice_late_that_their_addresses_changed_find_each_other() {
    for (first, second) in [(0, 0), (50, 120), (300, 10), (900, 400)] {
        for exchanged in [false, true] {
            let mut net = Net::cluster(Profile::Local, 6);
            net.run(Duration::from_secs(4));
            let hosts = if exchanged { [5, 4] } else { [70, 71] };
            (net.nodes[4].address, net.nodes[5].address) = (address(hosts[0]), address(hosts[1]));
            let mut noticed = [(first, 4, hosts[0]), (second, 5, hosts[1])];
            noticed.sort_unstable();
            net.run(ms(noticed[0].0));
            moves(&mut net, noticed[0].1, noticed[0].2);
            net.run(ms(noticed[1].0 - noticed[0].0));
            moves(&mut net, noticed[1].1, noticed[1].2);
            assert_converges(&mut net, &format!("after {first} and {second} ms, exchanged: {exchanged}"));
        }
    }
}

#[test]
fn a_newcomer_that_was_told_the_old_address_of_a_member_finds_it() {
    for profile in PROFILES {
        for (n, delay) in [(3, 0), (6, 0), (6, 2), (6, 50)] {
            let mut net = Net::cluster(profile, n);
            net.run(net.settings.heartbeat_interval * 3);
            net.add("late", 90, &[0]);
            net.run(ms(delay));
            moves(&mut net, n - 1, 70);
            assert_converges(&mut net, &format!("{profile}, {n}, {delay} ms before"));
        }
    }
}

#[test]
fn three_voters_of_which_two_moved_and_the_third_died_have_a_leader() {
    for exchanged in [false, true] {
        let mut net = electing::cluster(3, 3);
        net.run(Duration::from_secs(5));
        if exchanged {
            exchange(&mut net, &[1, 2]);
        } else {
            move_all(&mut net, &[(1, 70), (2, 71)], Duration::ZERO);
        }
        assert_converges(&mut net, "three voters");
        net.kill(0);
        net.run(Duration::from_secs(8));
        electing::leader(&net);
    }
}

#[test]
fn two_nodes_that_moved_and_know_nobody_else_meet_when_one_is_told_where_the_other_is() {
    for profile in PROFILES {
        for patience in [ms(0), ms(200)] {
            let mut net = Net::cluster(profile, 2);
            net.run(net.settings.heartbeat_interval * 3);
            move_all(&mut net, &[(0, 70), (1, 71)], Duration::ZERO);
            net.run(patience);
            net.nodes[1].replies.clear();
            net.command(1, Command::Join { ticket: 2, addresses: vec![address(70)] });
            net.run_until(Duration::from_secs(5), "answered", |net| !net.nodes[1].replies.is_empty());
            let answered = Reply::Joined(vec![(address(70), Contacted::Answered { id: id("n0") })]);
            assert_eq!(net.nodes[1].replies, [answered]);
            assert_converges(&mut net, &format!("{profile}"));
        }
    }
}

#[test]
fn a_member_that_moves_where_datagrams_do_not_pass_is_found_over_tcp() {
    for profile in [Profile::Local, Profile::Lan] {
        for (n, moved) in [(3, 2), (7, 4), (7, 0)] {
            let mut net = Net::linked(profile, n);
            net.run(net.settings.down_timeout);
            net.block_all_datagrams(true);
            net.run(net.settings.down_timeout * 2);
            assert_eq!(apart(&net), [], "before");
            net.close_links_of(moved);
            moves(&mut net, moved, 70);
            let within = net.settings.down_timeout + net.settings.retry_interval * 8;
            let (case, until) = (format!("{profile}, {moved} of {n}"), net.now + within);
            while !apart(&net).is_empty() {
                assert!(net.now < until, "{case}: {:?}\n{}", apart(&net), net.describe());
                net.run(ms(50));
            }
            net.run(net.settings.down_timeout * 2);
            assert_eq!(apart(&net), [], "{case}: it does not last");
        }
    }
}
