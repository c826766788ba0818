//! A node's address changes while it runs.

use std::time::Duration;

use super::alone::{Alone, TELLER, member, prove, sent};
use super::net::{Net, address, id, ms};
use super::speaker::old_cluster;
use headcount_core::limits::REACH_ASKED;
use headcount_core::wire::{Message, Nonce};
use headcount_core::{ChangeKind, Command, CommandError, Input, Notice, Profile, Record, Reply, Status};

/// Has the driver of a node bind another socket, and lose the old one.
fn moves(net: &mut Net, node: usize, host: usize) {
    net.nodes[node].address = address(host);
    net.command(node, Command::SetAddress { ticket: 1, address: address(host) });
}

#[test]
fn a_node_that_moves_stays_a_member() {
    for (profile, n) in [(Profile::Local, 2), (Profile::Local, 5), (Profile::Default, 5), (Profile::Local, 40)] {
        let mut net = old_cluster(profile, n);
        let within = net.settings.suspect_timeout;
        moves(&mut net, 1, 70);
        net.run_until(within, "known where it is", |net| {
            net.running().all(|node| node.core.record(&id("n1")).is_some_and(|held| held.address == address(70)))
        });
        assert_eq!(net.nodes[1].replies, [Reply::AddressSet]);
        net.run(within * 2);
        net.assert_all_up();
        for observer in (0..n).filter(|node| *node != 1) {
            let told = net.reported(observer, "n1");
            let is_update =
                |kind: &ChangeKind| matches!(kind, ChangeKind::Updated | ChangeKind::Suspected | ChangeKind::Recovered);
            assert!(told.iter().all(is_update), "{profile} n{observer}: {told:?}");
        }
    }
}

#[test]
fn an_address_that_nobody_can_answer_to_is_refused() {
    let mut net = Net::cluster(Profile::Local, 2);
    for wrong in ["0.0.0.0:7117", "10.0.0.9:0", "224.0.0.1:7117"] {
        let address = wrong.parse().expect("an address");
        net.command(1, Command::SetAddress { ticket: 1, address });
        let refused = Reply::Refused(CommandError::Unreachable { address });
        assert_eq!(net.nodes[1].replies.last(), Some(&refused));
    }
    let mine = net.nodes[1].address;
    let before = net.nodes[1].core.me().incarnation;
    net.command(1, Command::SetAddress { ticket: 1, address: mine });
    assert_eq!(net.nodes[1].replies.last(), Some(&Reply::AddressSet));
    assert_eq!(net.nodes[1].core.me().incarnation, before, "nothing to tell");
}

fn is_known_at(net: &Net, host: usize) -> bool {
    net.running().all(|node| node.core.record(&id("n1")).is_some_and(|held| held.address == address(host)))
}

/// Checks that nobody took node 1 for dead meanwhile.
fn assert_not_gone(net: &Net, case: &str) {
    for observer in (0..net.nodes.len()).filter(|node| *node != 1) {
        let told = net.reported(observer, "n1");
        let is_gone = |kind: &ChangeKind| matches!(kind, ChangeKind::DetectedDown(_) | ChangeKind::Left(_));
        assert!(!told.iter().any(is_gone), "{case}: n{observer}: {told:?}");
    }
}

#[test]
fn a_member_with_links_that_moves_stays_a_member() {
    for (profile, n) in [(Profile::Local, 2), (Profile::Local, 4), (Profile::Local, 8), (Profile::Default, 4)] {
        let mut net = Net::linked(profile, n);
        net.run(Duration::from_secs(60));
        net.forget_reports();
        moves(&mut net, 1, 70);
        net.run_until(net.settings.down_timeout, "known where it is", |net| is_known_at(net, 70));
        net.run(net.settings.down_timeout * 2);
        net.assert_all_up();
        assert_not_gone(&net, &format!("{profile}, {n}"));
    }
}

#[test]
fn a_member_that_says_that_it_moves_before_it_does_stays_a_member() {
    for n in [2, 5] {
        let mut net = old_cluster(Profile::Local, n);
        net.run(net.settings.heartbeat_interval * 2);
        net.forget_reports();
        // Its last packets from there say where it will be.
        net.command(1, Command::SetAddress { ticket: 1, address: address(70) });
        net.sent = Some(Vec::new());
        while !net.sent.iter().flatten().any(|(_, to, _)| *to == address(70)) {
            net.run(Duration::from_micros(100));
            assert!(net.sent.as_ref().is_some_and(|sent| sent.len() < 10_000), "it is asked there");
        }
        net.sent = None;
        net.nodes[1].address = address(70);
        net.run_until(net.settings.suspect_timeout, "known where it is", |net| is_known_at(net, 70));
        net.run(net.settings.down_timeout * 2);
        net.assert_all_up();
        assert_not_gone(&net, &format!("{n}"));
    }
}

#[test]
fn an_address_at_which_nobody_reaches_a_node_is_not_in_its_record_and_it_says_so() {
    for n in [2, 6] {
        let mut net = old_cluster(Profile::Local, n);
        let (own, nowhere) = (address(1), address(99));
        net.command(1, Command::SetAddress { ticket: 1, address: nowhere });
        net.run(Duration::from_secs(20));
        net.assert_all_up();
        assert!(net.running().all(|node| node.core.record(&id("n1")).is_some_and(|held| held.address == own)));
        assert_eq!(net.nodes[1].replies, [Reply::Refused(CommandError::NotReached { address: nowhere })]);
        let says_so = |notice: &Notice| match notice {
            Notice::MoveNotReached { kept, address, others } => {
                (*kept, *address) == (own, nowhere) && (1..=REACH_ASKED).contains(&others.len())
            }
            _ => false,
        };
        assert!(net.nodes[1].notices.iter().any(says_so), "{:?}", net.nodes[1].notices);
        for observer in (0..n).filter(|node| *node != 1) {
            assert_eq!(net.reported(observer, "n1"), [], "n{observer} was told nothing");
        }
    }
}

#[test]
fn a_node_that_is_told_its_old_address_again_keeps_it() {
    let mut net = old_cluster(Profile::Local, 3);
    net.command(1, Command::SetAddress { ticket: 1, address: address(99) });
    net.run(ms(100));
    net.command(1, Command::SetAddress { ticket: 2, address: address(1) });
    let refused = Reply::Refused(CommandError::NotReached { address: address(99) });
    assert_eq!(net.nodes[1].replies, [refused, Reply::AddressSet]);
    // Somebody is there by now, but it is over.
    net.run(Duration::from_secs(20));
    assert!(net.nodes[1].notices.iter().all(|notice| !matches!(notice, Notice::MoveNotReached { .. })));
}

#[test]
fn a_node_that_sees_nobody_takes_its_new_address_at_once() {
    let mut net = Net::cluster(Profile::Local, 1);
    moves(&mut net, 0, 70);
    assert_eq!(net.nodes[0].replies, [Reply::AddressSet]);
    assert_eq!(net.nodes[0].core.me().address, address(70));
}

#[test]
fn an_address_is_written_into_the_record_at_the_word_of_who_was_asked_there_alone() {
    let mut alone = Alone::with_teller();
    let (before, wanted) = (alone.core.me().address, address(70));
    alone.core.handle(alone.now, Input::Command(Command::SetAddress { ticket: 1, address: wanted }));
    let nonce_of = |message| if let Message::ReachMe { nonce, .. } = message { Some(nonce) } else { None };
    let asked = sent(&mut alone).into_iter().find_map(|(_, message)| nonce_of(message)).expect("members are asked");
    for (nonce, expected) in [(Nonce(asked.0 ^ 1), before), (asked, wanted)] {
        alone.hand_in(address(19_999), TELLER, |packet| assert!(packet.push(&Message::Reached { nonce })));
        assert_eq!(alone.core.me().address, expected, "{nonce:?}");
    }
}

#[test]
fn who_is_said_to_be_at_another_address_has_that_one_yet_to_prove() {
    let mut alone = Alone::with_teller();
    alone.told_of(0..1, Status::Up);
    let peer = member(0, Status::Up);
    prove(&mut alone, peer.run);
    for (incarnation, address) in [(6, peer.address), (7, address(70))] {
        alone.told_by(TELLER, &[(None, Record { incarnation, address, ..peer.clone() })]);
        let held = alone.core.record(&peer.id).map(|held| (held.incarnation, held.address));
        assert_eq!(held, Some((incarnation, address)));
        assert_eq!(alone.core.is_proven(peer.run), address == peer.address, "{address}");
    }
}
