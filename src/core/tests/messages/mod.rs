//! Messages between programs, in virtual time: everybody gets each once, and what does not arrive is said.

mod bounds;
mod broadcasts;
mod letters;
mod limits;

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use super::net::{Net, address, id, ms};
use crate::counters::DropReason;
use crate::envelope::{MessageId, Payload, Topic};
use crate::io::{Command, CommandError, DeliveryKind, Input, Reply};
use crate::limits::{
    ALLOWANCE_INTERVAL, BROADCAST_LIFE, MAX_BYTES_PER_MEMBER, MAX_DIRECT_BYTES, MAX_DIRECT_MESSAGES,
    MAX_DIRECT_UNDER_WAY, MAX_FLOODED_PAYLOAD, MAX_KEPT_MESSAGES, MAX_KEPT_OWN_BYTES, MAX_OPEN_REQUESTS_PER_MEMBER,
    MAX_ORIGINS, MAX_PAYLOAD_BYTES, MAX_SPANS, MAX_UNSPREAD, MESSAGE_WINDOW, ORIGIN_MEMORY, REPAIR_PACKETS,
    SEND_TIMEOUT, SPREAD_PACKETS,
};
use crate::member::{Run, Status};
use crate::settings::Profile;
use crate::wire::{Broadcast, DirectMessage, Header, Message, Packet, PacketBuilder, Purpose, Span};

fn topic(name: &str) -> Topic {
    Topic::new(name).expect("a topic")
}

fn payload(bytes: &[u8]) -> Payload {
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

/// Checks that nobody got anything twice, and that what each counted adds up.
fn assert_sums(net: &Net) {
    for node in &net.nodes {
        let ids: BTreeSet<MessageId> = node.messages.iter().map(|(_, message)| message.id).collect();
        assert_eq!(ids.len(), node.messages.len(), "{} got something twice", node.core.me().id);
        let counted = node.core.counters().messages;
        let taken = counted.delivered + counted.duplicate + counted.dropped;
        assert_eq!(taken, counted.received + counted.delivered_here, "{counted:?}");
    }
}

fn seen(net: &Net) -> usize {
    net.nodes.iter().map(|node| node.messages.len()).sum()
}

/// Sends a packet of messages from one node to another.
fn forge(net: &mut Net, from: usize, to: usize, messages: &[Message]) {
    let core = &mut net.nodes[from].core;
    core.packets.sequence += 1;
    let (run, sequence) = (core.me().run, core.packets.sequence);
    let header = Header { cluster: Header::cluster_hash("test"), run, sequence, fingerprint: core.fingerprint() };
    let mut packet = PacketBuilder::new(&header, 1_400);
    assert!(messages.iter().all(|message| packet.push(message)));
    let source = net.nodes[from].address;
    net.input(to, Input::Packet { from: source, bytes: &packet.finish() });
}

fn broadcast(run: Run, number: u64, age: Duration) -> Message {
    let age_ms = age.as_millis() as u64;
    Message::Broadcast(Box::new(Broadcast { run, number, age_ms, topic: topic("t"), payload: payload(b"x") }))
}
