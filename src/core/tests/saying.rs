//! What programs say to each other, by commands and by packets of a member.

use std::collections::BTreeSet;
use std::time::Duration;

use super::net::{Net, address, id};
use headcount_core::wire::{Broadcast, Message, PacketBuilder};
use headcount_core::{Command, Input, Payload, Run, Status, Topic};

pub(super) fn topic(name: &str) -> Topic {
    Topic::new(name).expect("a topic")
}

pub(super) fn payload(bytes: &[u8]) -> Payload {
    Payload::new(bytes).expect("not too large")
}

pub(super) fn say(net: &mut Net, node: usize, bytes: &[u8]) {
    net.command(node, Command::Broadcast { ticket: 1, topic: topic("t"), payload: payload(bytes) });
}

pub(super) fn send(net: &mut Net, node: usize, to: &str, bytes: &[u8]) {
    net.command(node, Command::Send { ticket: 2, to: id(to), topic: topic("t"), payload: payload(bytes) });
}

pub(super) fn ask(net: &mut Net, node: usize, to: &str, timeout: Duration) {
    let command = Command::Request { ticket: 3, to: id(to), topic: topic("q"), payload: payload(b"?"), timeout };
    net.command(node, command);
}

/// Sends a packet of messages from one node to another.
pub(super) fn forge(net: &mut Net, from: usize, to: usize, messages: &[Message]) {
    let core = &mut net.nodes[from].core;
    let header = core.next_header();
    let mut packet = PacketBuilder::new(&header, 1_400);
    assert!(messages.iter().all(|message| packet.push(message)));
    let source = net.nodes[from].address;
    net.input(to, Input::Packet { from: source, bytes: &packet.finish() });
}

pub(super) fn broadcast(run: Run, number: u64, age: Duration) -> Message {
    let age_ms = age.as_millis() as u64;
    Message::Broadcast(Box::new(Broadcast { run, number, age_ms, topic: topic("t"), payload: payload(b"x") }))
}

/// Has node 0 hear one broadcast of each of so many members, and returns their runs.
pub(super) fn know_broadcasts_of(net: &mut Net, members: usize) -> BTreeSet<u64> {
    let runs: BTreeSet<u64> = (0x10_0000..).take(members).collect();
    for (at, run) in runs.iter().enumerate() {
        let mut record = headcount_core::testing::record(&format!("m{at}"), 5, Status::Up);
        (record.run, record.address) = (Run(*run), address(1_000 + at));
        forge(net, 1, 0, &[Message::Update(headcount_core::wire::Update { note: None, record })]);
    }
    // News of members go first.
    net.run(Duration::from_secs(5));
    for run in &runs {
        forge(net, 1, 0, &[broadcast(Run(*run), 1, Duration::ZERO)]);
    }
    runs
}
