//! One name, two claimants: two living processes end as one, and a lie ends nobody.

use std::time::Duration;

use super::liars::{ELSEWHERE, Liar, about, mail, old_cluster, update};
use super::net::{Net, address, id, ms};
use crate::core::doors::{Input, StopReason};
use crate::core::member::{Record, Run, Status};
use crate::core::settings::Profile;
use crate::core::wire::{Header, Message, PacketBuilder};

const SECOND: Duration = Duration::from_secs(1);

fn has_lost(net: &Net, node: usize) -> bool {
    matches!(net.nodes[node].stopped, Some(StopReason::NameInUse { .. }))
}

/// Returns islands of members beside each other, and the twin in each; the first side's twin is the older one.
fn islands(sides: [usize; 2], have_common_seeds: bool) -> (Net, [usize; 2]) {
    let mut net = Net::new(Profile::Local);
    let mut twins = [0; 2];
    let mut of: Vec<usize> = Vec::new();
    for side in 0..2 {
        let first = side * 10;
        let seeds = if have_common_seeds { vec![first, 10 - first] } else { vec![first] };
        for i in 0..=sides[side] {
            let is_twin = i == sides[side];
            let name = if is_twin { "twin".to_owned() } else { format!("s{side}n{i}") };
            let node = net.add(&name, first + i, &seeds);
            if is_twin {
                twins[side] = node;
            }
            of.push(side);
            for (other, its_side) in of.iter().enumerate().take(node) {
                net.cut(node, other, *its_side != side);
            }
        }
        net.run(SECOND * 6);
    }
    assert!(net.nodes.iter().all(|node| node.core.is_up()), "{}", net.describe());
    (net, twins)
}

fn heal(net: &mut Net) {
    for a in 0..net.nodes.len() {
        for b in 0..net.nodes.len() {
            net.cut(a, b, false);
        }
    }
}

#[test]
fn two_processes_of_one_name_that_meet_end_as_one() {
    for sides in [[0, 0], [0, 1], [1, 0], [1, 1], [0, 3], [3, 0], [2, 2], [1, 3], [3, 1]] {
        for age in [SECOND, SECOND * 70] {
            let (mut net, twins) = islands(sides, true);
            net.run(age);
            heal(&mut net);
            // Whoever has been Up for long goes by those that it has known for a while: at the latest when all have
            // been here for that long, both sides hear the same members.
            net.run(age + SECOND * 15);
            let lost = twins.map(|twin| has_lost(&net, twin));
            assert!(lost[0] != lost[1], "{sides:?}, {age:?}: {lost:?}\n{}", net.describe());
            assert!(net.all_agree(), "{sides:?}: {}", net.describe());
        }
    }
}

#[test]
fn the_larger_side_keeps_the_name() {
    for (sides, loser) in [([0, 3], 0), ([3, 0], 1), ([1, 3], 0), ([3, 1], 1)] {
        let (mut net, twins) = islands(sides, true);
        heal(&mut net);
        net.run(SECOND * 15);
        assert!(has_lost(&net, twins[loser]), "{sides:?}");
    }
}

#[test]
fn islands_without_common_seeds_have_one_of_a_name_once_they_are_joined() {
    // A node that has been Up for long does not trust members of another island at once.
    for (sides, age) in [([0, 3], 5), ([3, 0], 5), ([2, 2], 5), ([1, 3], 5), ([2, 2], 70), ([0, 3], 70), ([3, 0], 70)] {
        let (mut net, twins) = islands(sides, false);
        net.run(SECOND * age);
        heal(&mut net);
        net.run(SECOND * 5);
        let command = crate::core::Command::Join { ticket: 1, addresses: vec![address(0)] };
        let asker = net.nodes.iter().position(|node| node.address == address(10)).expect("a first of its side");
        net.command(asker, command);
        net.run(SECOND * if age > 60 { 75 } else { 15 });
        let lost = twins.map(|twin| has_lost(&net, twin));
        assert!(lost[0] != lost[1], "{sides:?}: {lost:?}\n{}", net.describe());
    }
}

/// Returns another run of n1's name, above it.
fn thief(net: &Net, host: usize) -> Record {
    let incarnation = net.nodes[1].core.me().incarnation + 10;
    Record { run: Run(0xbad), address: address(host), ..about(net, 1, incarnation, Status::Up) }
}

fn keeps_its_name(net: &Net) {
    assert_eq!(net.nodes[1].stopped, None);
    let run = net.nodes[1].core.me().run;
    for node in net.running() {
        let held = node.core.record(&id("n1")).expect("listed");
        assert_eq!((held.run, held.status), (run, Status::Up), "{}", net.describe());
    }
}

#[test]
fn a_member_does_not_stop_another_by_claiming_its_name_where_nobody_answers() {
    for n in [3, 5, 40] {
        let mut net = old_cluster(Profile::Local, n);
        let liar = Liar::new(2);
        for _ in 0..5 {
            let claim = update(thief(&net, ELSEWHERE));
            liar.says_to_all(&mut net, &[claim]);
            net.run(SECOND);
        }
        net.run(SECOND * 3);
        keeps_its_name(&net);
    }
}

/// Has the liar answer at its second address as the run that it invented.
fn answer_as(net: &mut Net, rival: &Record, sequence: &mut u64) {
    let questions: Vec<(std::net::SocketAddr, Vec<u8>)> = net
        .sent
        .take()
        .unwrap_or_default()
        .into_iter()
        .filter(|(_, to, _)| *to == rival.address)
        .map(|(from, _, bytes)| (from, bytes))
        .collect();
    net.sent = Some(Vec::new());
    for (to, bytes) in questions {
        let asked = crate::core::wire::Packet::decode(&bytes).expect("decodes").messages;
        for message in asked {
            let Message::WhoAreYou { nonce, .. } = message else { continue };
            *sequence += 1;
            let header =
                Header { cluster: Header::cluster_hash("test"), run: rival.run, sequence: *sequence, fingerprint: 0 };
            let mut packet = PacketBuilder::new(&header, 1400);
            packet.push(&Message::IAm { nonce, record: rival.clone() });
            let to = net.nodes.iter().position(|node| node.address == to).expect("a node");
            let bytes = packet.finish();
            net.input(to, Input::Packet { from: rival.address, bytes: &bytes });
        }
    }
}

#[test]
fn a_member_does_not_stop_another_by_answering_under_its_name() {
    for n in [4, 5, 40] {
        let mut net = old_cluster(Profile::Local, n);
        net.sent = Some(Vec::new());
        let liar = Liar::new(2);
        let mut sequence = 0;
        let rival = thief(&net, ELSEWHERE);
        for _ in 0..100 {
            liar.says_to_all(&mut net, &[update(rival.clone())]);
            for _ in 0..10 {
                net.run(ms(5));
                answer_as(&mut net, &rival, &mut sequence);
            }
        }
        assert!(sequence > 0, "it was asked");
        net.sent = None;
        net.run(SECOND * 5);
        keeps_its_name(&net);
    }
}

#[test]
fn a_stranger_does_not_stop_a_lone_node_by_taking_its_name() {
    let mut net = old_cluster(Profile::Local, 2);
    net.kill(0);
    net.run(SECOND * 5);
    net.sent = Some(Vec::new());
    let mut sequence = 0;
    let rival = thief(&net, ELSEWHERE);
    for _ in 0..50 {
        sequence += 1;
        let header = Header { cluster: Header::cluster_hash("test"), run: rival.run, sequence, fingerprint: 0 };
        let mut packet = PacketBuilder::new(&header, 1400);
        packet.push(&Message::WhoAreYou { nonce: crate::core::wire::Nonce(1), echo: None });
        packet.pad_to(256);
        let bytes = packet.finish();
        net.input(1, Input::Packet { from: rival.address, bytes: &bytes });
        net.run(ms(100));
        answer_as(&mut net, &rival, &mut sequence);
    }
    assert_eq!(net.nodes[1].stopped, None);
    assert!(!mail(&net, ELSEWHERE).is_empty());
}

#[test]
fn a_restart_elsewhere_is_in_as_soon_as_its_name_is_free() {
    for n in [3, 30] {
        for is_noticed in [true, false] {
            let mut net = old_cluster(Profile::Local, n);
            net.kill(1);
            net.run(if is_noticed { SECOND * 4 } else { ms(10) });
            let known = if is_noticed { Duration::ZERO } else { net.settings.down_timeout };
            let reborn = net.add("n1", 50, &[0]);
            net.run_until(known + SECOND * 2, "in everywhere", |net| net.nodes[reborn].core.is_up() && net.all_agree());
        }
    }
}

#[test]
fn a_restart_on_the_same_address_is_in_at_once() {
    let mut net = old_cluster(Profile::Local, 5);
    net.kill(1);
    let reborn = net.add("n1", 1, &[0]);
    net.run_until(ms(500), "in everywhere", |net| net.nodes[reborn].core.is_up() && net.all_agree());
}
