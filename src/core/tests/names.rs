//! Names that somebody has: who is told so is told by somebody that may, and lost questions give no name away.

use std::time::Duration;

use super::liars::mail;
use super::net::{Net, address, birth, id, ms};
use crate::core::doors::{CoreInit, Input, StopReason};
use crate::core::member::Run;
use crate::core::settings::Profile;
use crate::core::wire::{Header, Message, PacketBuilder, Refusal};

/// The host of a liar.
const LIAR: usize = 60;

// The sponsor alone does not reach the holder, which the others do.
#[test]
fn questions_that_are_lost_give_nobodys_name_away() {
    let mut net = Net::linked(Profile::Local, 5);
    net.cut(0, 1, true);
    let thief = net.add("n1", 40, &[0]);
    for _ in 0..20 {
        net.run(ms(500));
        assert!(!net.nodes[thief].core.is_up(), "{}", net.describe());
    }
    assert_eq!(net.nodes[1].stopped, None);
    net.cut(0, 1, false);
    let is_refused = |net: &Net| matches!(net.nodes[thief].stopped, Some(StopReason::NameInUse { .. }));
    net.run_until(Duration::from_secs(10), "the holder answers", is_refused);
}

/// Adds a node that comes back, and remembers these addresses.
fn comes_back(net: &mut Net, remembered: Vec<usize>) -> usize {
    let init = CoreInit {
        run: Run(500),
        remembered: remembered.into_iter().map(address).collect(),
        ..birth("back", 1, address(50), &Profile::Local.settings())
    };
    net.add_birth(init, Vec::new())
}

/// Has the liar answer what it was asked last: the name is in use.
fn refuses(net: &mut Net, asker: usize, round: u64) {
    let nonce_of = |message| if let Message::Join { nonce, .. } = message { Some(nonce) } else { None };
    let Some(nonce) = mail(net, LIAR).into_iter().filter_map(nonce_of).next_back() else { return };
    let refusal = Refusal::NameInUse { holder: address(LIAR) };
    let cluster = Header::cluster_hash("test");
    let header = Header { cluster, run: Run(0xbad), sequence: round + 1, fingerprint: 0 };
    let mut packet = PacketBuilder::new(&header, 1_400);
    assert!(packet.push(&Message::Reply) && packet.push(&Message::Refused { nonce, refusal }));
    net.input(asker, Input::Packet { from: address(LIAR), bytes: &packet.finish() });
}

#[test]
fn one_of_those_that_are_remembered_does_not_stop_a_node_that_comes_back() {
    let mut net = Net::cluster(Profile::Local, 2);
    // The members that tell the truth are not heard at first.
    net.cut(1, 2, true);
    let back = comes_back(&mut net, vec![LIAR, 1]);
    for round in 0..20 {
        net.run(ms(100));
        refuses(&mut net, back, round);
        assert_eq!(net.nodes[back].stopped, None, "round {round}");
    }
    assert!(!mail(&net, LIAR).is_empty());
    net.cut(1, 2, false);
    net.run_until(net.settings.retry_interval * 2, "back in its cluster", Net::all_agree);
}

#[test]
fn a_node_that_nobody_else_lets_in_stops_when_it_waited_for_long() {
    let mut net = Net::cluster(Profile::Local, 2);
    let back = comes_back(&mut net, vec![LIAR]);
    let patience = net.settings.retry_interval * 3;
    let began = net.now;
    let mut round = 0;
    while net.nodes[back].stopped.is_none() {
        net.run(ms(100));
        refuses(&mut net, back, round);
        round += 1;
        assert!(net.now.since(began) <= patience + ms(1_000), "{}", net.describe());
    }
    assert!(net.now.since(began) >= patience);
    let holder = address(LIAR);
    assert_eq!(net.nodes[back].stopped, Some(StopReason::NameInUse { id: id("back"), holder }));
}

#[test]
fn a_seed_is_believed_at_once() {
    let mut net = Net::cluster(Profile::Local, 3);
    let second = net.add("n1", 40, &[0]);
    net.run(ms(500));
    assert!(matches!(net.nodes[second].stopped, Some(StopReason::NameInUse { .. })), "{}", net.describe());
}
