//! Links: how they come to stand, cross, break, come back, and how many there are.

use std::time::Duration;

use super::net::*;
use headcount_core::*;

const SECOND: Duration = Duration::from_secs(1);

/// Returns the number of connections of each pair.
fn between_all(net: &Net) -> Vec<usize> {
    let n = net.nodes.len();
    let pairs = (0..n).flat_map(|one| (one + 1..n).map(move |other| (one, other)));
    pairs.map(|(one, other)| net.connections(one, other)).collect()
}

#[test]
fn each_pair_of_neighbours_ends_with_one_link_whoever_opens_it() {
    let net = Net::linked(Profile::Local, 6);
    assert!(between_all(&net).iter().all(|count| *count == 1), "{:?}", between_all(&net));
    assert!(net.running().all(|node| node.core.open_links() == 5));
}

#[test]
fn links_that_cross_become_one() {
    let mut net = Net::linked(Profile::Local, 2);
    for round in 0..30 {
        // Both lose it at once, and both open it again at once: the attempts cross.
        net.reset_links(0, 1);
        net.run(SECOND * 2);
        assert_eq!((net.connections(0, 1), net.nodes[0].core.open_links()), (1, 1), "round {round}");
        assert_eq!(net.nodes[1].core.open_links(), 1, "round {round}");
    }
    assert_eq!(net.reported(0, "n1").last(), Some(&ChangeKind::Joined), "{:?}", net.reported(0, "n1"));
    assert_eq!(net.nodes[0].core.counters().crashes_detected, 0);
}

#[test]
fn a_link_ended_on_purpose_makes_nobody_suspicious() {
    let mut net = Net::linked(Profile::Local, 3);
    net.command(2, Command::Leave);
    net.run(SECOND * 5);
    for node in 0..2 {
        assert_eq!(net.status(node, "n2"), Some(Status::Left(LeaveReason::Graceful)));
        let counters = net.nodes[node].core.counters();
        assert_eq!((counters.links_lost, counters.suspicions_raised), (0, 0));
        assert_eq!(net.nodes[node].core.open_links(), 1);
    }
}

#[test]
fn attempts_come_ever_later_where_links_are_dropped_or_refused() {
    for tcp in [Tcp::Dropped, Tcp::Rejected] {
        let mut net = Net::new(Profile::Local);
        net.lay_wires();
        net.set_tcp(tcp);
        net.add("n0", 0, &[0]);
        net.add("n1", 1, &[0]);
        net.run(SECOND * 60);
        let first = net.attempts_of(0) + net.attempts_of(1);
        net.run(SECOND * 240);
        let later = net.attempts_of(0) + net.attempts_of(1) - first;
        assert!((4..=24).contains(&first), "{tcp:?}: {first} in the first minute");
        assert!((4..=20).contains(&later), "{tcp:?}: {later} in the next four");
        net.assert_all_up();
        net.set_tcp(Tcp::Open);
        net.run(SECOND * 91);
        assert_eq!(net.nodes[0].core.open_links(), 1, "{tcp:?}: it comes back");
    }
}

#[test]
fn a_member_that_is_no_neighbour_any_more_keeps_its_link_for_a_while() {
    let mut net = Net::linked(Profile::Local, 8);
    assert!(net.running().all(|node| node.core.open_links() == 7));
    for host in 8..30 {
        net.add(&format!("n{host}"), host, &[0]);
    }
    net.run(SECOND * 60);
    net.assert_all_up();
    for node in &net.nodes {
        let neighbours = node.observed();
        assert_eq!(node.core.open_links(), neighbours, "only neighbours are linked in the end");
        assert!((5..=20).contains(&neighbours));
    }
}
