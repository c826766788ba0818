//! Links of members that are at another address by now: what leads to the old one is dead, and nobody says so.

use std::time::Duration;

use super::net::*;
use headcount_core::limits::{DIRECT_RETRY, MAX_OPEN_REQUESTS_PER_MEMBER, SENDS_INTO_SILENCE};
use headcount_core::*;

const SECOND: Duration = Duration::from_secs(1);

/// Has a node lose its address, and take this host's.
fn moves(net: &mut Net, node: usize, host: usize) {
    net.rehouse(node, host);
    net.command(node, Command::SetAddress { ticket: 1, address: address(host) });
}

/// Has two nodes take each other's addresses at the same time.
fn exchange(net: &mut Net, one: usize, other: usize) {
    let hosts = [one, other];
    net.rehouse(one, hosts[1]);
    net.rehouse(other, hosts[0]);
    for (node, host) in [(one, hosts[1]), (other, hosts[0])] {
        net.command(node, Command::SetAddress { ticket: 1, address: address(host) });
    }
}

fn is_known_at(net: &Net, node: usize, host: usize) -> bool {
    let name = id(&format!("n{node}"));
    net.running().all(|observer| observer.core.record(&name).is_some_and(|held| held.address == address(host)))
}

fn assert_known_dead_within_a_second(net: &mut Net, node: usize, case: &str) {
    net.kill(node);
    net.run(SECOND);
    for observer in (0..net.nodes.len()).filter(|observer| net.nodes[*observer].stopped.is_none()) {
        assert_eq!(net.status(observer, &format!("n{node}")), Some(Status::Down), "{case} at n{observer}");
    }
}

fn accusations(net: &Net) -> usize {
    let is_accusation = |change: &Change| matches!(change.kind, ChangeKind::DetectedDown(_) | ChangeKind::Suspected);
    net.running().flat_map(|node| &node.changes).filter(|(_, change)| is_accusation(change)).count()
}

fn send(net: &mut Net, from: usize, to: usize) {
    let (topic, payload) = (Topic::new("t").expect("a topic"), Payload::new(b"x").expect("small"));
    net.nodes[from].replies.clear();
    net.command(from, Command::Send { ticket: 9, to: id(&format!("n{to}")), topic, payload });
}

fn is_delivered(net: &Net, from: usize) -> bool {
    matches!(net.nodes[from].replies[..], [Reply::Delivered { .. }])
}

#[test]
fn a_crash_is_known_within_a_second_also_after_a_move() {
    for (profile, n) in [(Profile::Local, 2), (Profile::Local, 5), (Profile::Lan, 5), (Profile::Default, 8)] {
        for (host, wait) in [(70, ms(500)), (70, SECOND * 5), (70, SECOND * 60), (0, SECOND * 5)] {
            let mut net = Net::linked(profile, n);
            net.run(SECOND * 60);
            // Towards a greater or a smaller address than those of the others: either side may have to open the links.
            let (mover, host) = if host == 0 { (0, 70) } else { (1, host) };
            moves(&mut net, mover, host);
            net.run(wait);
            let case = format!("{profile}, {n}, n{mover}, {wait:?}");
            assert!(is_known_at(&net, mover, host), "{case}");
            assert_eq!(accusations(&net), 0, "{case}");
            assert_known_dead_within_a_second(&mut net, mover, &case);
        }
    }
}

/// Returns a cluster with links that has settled, whose nodes are at hosts from 10 on: smaller addresses are free.
fn settled_above_address_zero(profile: Profile, n: usize) -> Net {
    let mut net = Net::new(profile);
    net.lay_wires();
    for i in 0..n {
        net.add(&format!("n{i}"), i + 10, &[10]);
    }
    net.run(SECOND * 70);
    net
}

#[test]
fn a_crash_is_known_within_a_second_after_a_move_to_the_smallest_address() {
    for n in [2, 5] {
        let mut net = settled_above_address_zero(Profile::Default, n);
        moves(&mut net, n - 1, 0);
        net.run(ms(800));
        assert_known_dead_within_a_second(&mut net, n - 1, &format!("{n}"));
    }
}

#[test]
fn a_mover_with_the_smallest_address_keeps_none_of_its_old_links() {
    // It opened all of its links, and would keep each of them rather than one that the other end opens.
    for n in [2, 5] {
        let mut net = settled_above_address_zero(Profile::Default, n);
        moves(&mut net, 0, 5);
        net.run(SECOND * 2);
        send(&mut net, 0, 1);
        net.run_until(ms(500), "delivered", |net| is_delivered(net, 0));
        assert_known_dead_within_a_second(&mut net, 0, &format!("{n}"));
    }
}

#[test]
fn the_neighbours_of_a_mover_have_one_link_to_it_again() {
    for n in [5, 40] {
        let mut net = Net::linked(Profile::Local, n);
        net.run(SECOND * 60);
        for host in [70, 71, 1] {
            moves(&mut net, 1, host);
            net.run(SECOND * 15);
            net.assert_all_up();
            let neighbours = net.nodes[1].observed();
            assert_eq!(net.nodes[1].core.open_links(), neighbours, "{n}: at {host}");
            for other in (0..n).filter(|other| *other != 1) {
                assert_eq!(net.connections(1, other), net.connections(other, 1));
                assert!(net.connections(1, other) <= 1, "{n}: at {host}");
            }
        }
        assert_eq!(accusations(&net), 0, "{n}");
    }
}

#[test]
fn messages_arrive_between_members_that_exchanged_their_addresses() {
    for profile in [Profile::Local, Profile::Default] {
        let mut net = Net::linked(profile, 5);
        net.run(SECOND * 60);
        exchange(&mut net, 3, 4);
        net.run_until(SECOND * 2, "known where they are", |net| is_known_at(net, 3, 4) && is_known_at(net, 4, 3));
        for (from, to) in [(3, 4), (4, 3), (0, 3), (3, 0), (0, 4)] {
            send(&mut net, from, to);
            let took = net.run_until(SECOND * 5, "delivered", |net| is_delivered(net, from));
            assert!(took <= SECOND, "{profile}: n{from} to n{to} took {took:?}");
        }
        net.run(SECOND * 20);
        assert_eq!(accusations(&net), 0, "{profile}");
        // Its port refuses connections that were meant for the other one.
        assert_known_dead_within_a_second(&mut net, 3, &format!("{profile}"));
        assert_eq!(net.status(0, "n4"), Some(Status::Up));
        net.run(SECOND * 20);
        assert!((0..3).all(|node| net.status(node, "n4") == Some(Status::Up)), "{profile}: {}", net.describe());
    }
}

#[test]
fn a_message_that_waits_as_its_receiver_moves_arrives() {
    let mut net = Net::linked(Profile::Local, 5);
    net.run(SECOND * 60);
    net.strand_links(0, 1);
    send(&mut net, 0, 1);
    net.run(ms(10));
    moves(&mut net, 1, 70);
    let took = net.run_until(SECOND * 5, "delivered", |net| is_delivered(net, 0));
    assert!(took <= ms(300), "{took:?}");
    assert_eq!(net.nodes[1].messages.len(), 1);
}

#[test]
fn a_move_while_half_of_the_datagrams_are_blocked_accuses_nobody() {
    for (profile, n) in [(Profile::Local, 10), (Profile::Lan, 6), (Profile::Local, 4)] {
        let mut net = Net::linked(profile, n);
        net.run(SECOND * 60);
        let is_in_half = |node: usize| node.is_multiple_of(2);
        for (from, to) in (0..n).flat_map(|from| (0..n).map(move |to| (from, to))) {
            net.block_datagrams(from, to, is_in_half(from) != is_in_half(to));
        }
        net.run(SECOND * 40);
        assert_eq!(accusations(&net), 0, "{profile}, {n}: before");
        for (mover, host) in [(1, 70), (0, 71)] {
            moves(&mut net, mover, host);
            let within = net.settings.suspect_timeout;
            net.run_until(within, "known where it is", |net| is_known_at(net, mover, host));
            net.run(SECOND * 30);
            net.assert_all_up();
            assert_eq!(accusations(&net), 0, "{profile}, {n}: n{mover}: {}", net.describe());
        }
        assert_known_dead_within_a_second(&mut net, 1, &format!("{profile}, {n}"));
    }
}

#[test]
fn a_link_is_opened_soon_to_where_a_member_is_however_long_it_could_not_be_before() {
    let mut net = Net::new(Profile::Local);
    net.lay_wires();
    net.set_tcp(Tcp::Rejected);
    for host in 0..3 {
        net.add(&format!("n{host}"), host, &[0]);
    }
    net.run(SECOND * 300);
    assert_eq!(net.nodes[0].core.open_links(), 0);
    net.set_tcp(Tcp::Open);
    moves(&mut net, 1, 70);
    net.run_until(SECOND, "linked", |net| net.nodes[1].core.open_links() == 2);
}

#[test]
fn a_message_takes_another_link_if_nothing_comes_by_the_one_that_stands() {
    let mut net = Net::linked(Profile::Local, 3);
    for round in 1..=2 {
        net.strand_links(0, 1);
        send(&mut net, 0, 1);
        let took = net.run_until(SECOND * 5, "delivered", |net| is_delivered(net, 0));
        assert!(took <= DIRECT_RETRY * SENDS_INTO_SILENCE + ms(100), "{took:?}");
        assert_eq!(net.nodes[1].messages.len(), round, "once");
        assert_eq!(net.nodes[0].core.open_links(), 2);
        net.run(SECOND * 20);
    }
    assert_eq!(accusations(&net), 0);
}

#[test]
fn a_link_to_a_member_that_has_no_room_for_a_message_stays() {
    let mut net = Net::linked(Profile::Local, 2);
    let before = net.attempts_of(0) + net.attempts_of(1);
    for ticket in 0..=MAX_OPEN_REQUESTS_PER_MEMBER as u64 + 4 {
        let (topic, payload) = (Topic::new("t").expect("a topic"), Payload::new(b"x").expect("small"));
        let timeout = SECOND * 20;
        net.command(0, Command::Request { ticket, to: id("n1"), topic, payload, timeout });
    }
    net.run(SECOND * 15);
    assert_eq!(net.nodes[1].messages.len(), MAX_OPEN_REQUESTS_PER_MEMBER, "it has room for no more");
    assert_eq!(net.attempts_of(0) + net.attempts_of(1), before);
}

#[test]
fn either_end_opens_a_link_within_half_a_second_of_a_move() {
    // Of two, the one with the smaller address is the first; it may be the one that cannot.
    for host in [5, 70] {
        let mut net = settled_above_address_zero(Profile::Default, 2);
        moves(&mut net, 1, host);
        net.set_tcp(Tcp::Dropped);
        let before = [net.attempts_of(0), net.attempts_of(1)];
        let tries = |net: &Net| [net.attempts_of(0) - before[0], net.attempts_of(1) - before[1]];
        net.run_until(ms(100), "the smaller one tries", |net| tries(net) != [0, 0]);
        let smaller = usize::from(host == 5);
        assert_eq!(tries(&net)[smaller], 1, "{host}: {:?}", tries(&net));
        net.run(ms(400));
        assert_eq!(tries(&net), [1, 1], "{host}");
    }
}

#[test]
fn attempts_that_failed_where_a_member_was_put_off_none_where_it_is() {
    let mut net = Net::new(Profile::Local);
    net.lay_wires();
    net.set_tcp(Tcp::Rejected);
    for host in 0..2 {
        net.add(&format!("n{host}"), host, &[0]);
    }
    net.run(SECOND * 300);
    moves(&mut net, 1, 70);
    let before = [net.attempts_of(0), net.attempts_of(1)];
    net.run(SECOND * 5);
    let tries = [net.attempts_of(0) - before[0], net.attempts_of(1) - before[1]];
    assert!(tries.iter().all(|tries| *tries >= 3), "pauses begin anew: {tries:?}");
}

/// Its kernel closes the connection before the process has answered by it.
#[test]
fn a_mover_that_ends_while_its_first_link_is_greeted_is_known_dead_within_a_second() {
    let mut net = settled_above_address_zero(Profile::Default, 2);
    moves(&mut net, 1, 70);
    net.run_until(SECOND, "greeted", |net| net.connections(0, 1) == 1 && net.nodes[0].core.open_links() == 0);
    assert_known_dead_within_a_second(&mut net, 1, "greeted");
}

#[test]
fn whoever_moves_again_where_datagrams_do_not_pass_opens_bootstrap_links_anew_at_once() {
    let mut net = Net::linked(Profile::Lan, 4);
    net.run(SECOND * 60);
    net.block_all_datagrams(true);
    net.run(net.settings.down_timeout * 2);
    for host in [70, 71] {
        moves(&mut net, 1, host);
        let took = net.run_until(SECOND * 5, "known where it is", |net| is_known_at(net, 1, host));
        // A bootstrap link lasts for ten seconds, and no second one is opened meanwhile.
        assert!(took <= SECOND, "{took:?}");
        net.run(SECOND);
    }
    assert_eq!(accusations(&net), 0);
}

#[test]
fn a_connection_that_proved_nothing_ends_as_its_acceptor_moves() {
    let mut net = Net::linked(Profile::Local, 2);
    net.run(SECOND * 60);
    net.reset_links(0, 1);
    net.run_until(SECOND * 5, "connected", |net| net.connections(1, 0) == 1);
    // It is greeted, and its question has not come back yet.
    net.run(ms(2));
    assert_eq!(net.nodes[1].core.open_links(), 0);
    moves(&mut net, 1, 70);
    net.run_until(ms(20), "closed", |net| net.connections(1, 0) == 0);
}

#[test]
fn a_message_waits_for_no_pause_after_a_move() {
    for (mover, sender, host) in [(1, 4, 5), (4, 1, 70)] {
        let mut net = settled_above_address_zero(Profile::Local, 5);
        net.strand_links(sender, mover);
        send(&mut net, sender, mover);
        net.run(ms(10));
        moves(&mut net, mover, host);
        let took = net.run_until(SECOND * 5, "delivered", |net| is_delivered(net, sender));
        // Five round trips: the move, the connection, the proof of the link, the message.
        assert!(took <= ms(20), "n{sender} to n{mover}: {took:?}");
    }
}
