//! How little, and how seldom, an answer goes to an address that nobody proved, however much there is to tell.

use super::alone::{Alone, member, prove};
use super::electing::SECOND;
use super::net::ms;
use crate::io::{Input, Output};
use crate::limits::{ANSWER_INTERVAL, MIN_QUESTION_BYTES};
use crate::member::{Record, Status, Tags};
use crate::packet::News;
use crate::wire::{Header, Message, Nonce, PacketBuilder};

/// Takes what was sent, and returns the size of the largest packet to this member.
fn largest_to(alone: &mut Alone, peer: &Record) -> usize {
    let sizes = alone.outputs().into_iter().filter_map(|output| match output {
        Output::Transmit { to, bytes, .. } if to == peer.address => Some(bytes.len()),
        _ => None,
    });
    sizes.max().unwrap_or(0)
}

/// Has a core hear news of eight members, of which a few fit into the largest packet to an unproven address; returns the
/// size of the packet by which this one is told of them.
fn told_of_many(alone: &mut Alone, peer: &Record, first: u64) -> usize {
    // It holds other records, as it says.
    alone.hand_in(peer.address, peer.run, |packet| packet.pad_to(MIN_QUESTION_BYTES));
    // So few that all observe each other.
    for host in 100..108 {
        let tags = Tags::new([("k".to_owned(), "v".repeat(60))].into()).expect("within bounds");
        alone.core.learn(News::told(Record { tags, incarnation: first, ..member(host, Status::Up) }), None);
    }
    largest_to(alone, peer);
    let slot = alone.core.view.slot_of_run(peer.run).expect("a member");
    alone.core.gossip_to(slot, None);
    largest_to(alone, peer)
}

/// Has a member ask with as large a packet as there is; returns the size of the answer.
fn answer_to(alone: &mut Alone, peer: &Record) -> usize {
    alone.now = alone.now + SECOND;
    largest_to(alone, peer);
    alone.sequence += 1;
    let header =
        Header { cluster: Header::cluster_hash("test"), run: peer.run, sequence: alone.sequence, fingerprint: 0 };
    let mut packet = PacketBuilder::new(&header, 1_400);
    packet.push(&Message::Probe { nonce: Nonce(1) });
    packet.pad_to(1_400);
    alone.core.handle(alone.now, Input::Packet { from: peer.address, bytes: &packet.finish() });
    largest_to(alone, peer)
}

// "Nothing larger than the question goes to an address that has not echoed a nonce of ours in this run."
#[test]
fn an_unproven_address_gets_no_larger_packets_however_much_there_is_to_tell_and_whatever_it_asks() {
    let mut alone = Alone::with_teller();
    alone.told_of(0..1, Status::Up);
    let peer = member(0, Status::Up);
    let pushed = told_of_many(&mut alone, &peer, 100);
    assert!((MIN_QUESTION_BYTES / 2..=MIN_QUESTION_BYTES).contains(&pushed), "{pushed} bytes pushed");
    told_of_many(&mut alone, &peer, 200);
    let answered = answer_to(&mut alone, &peer);
    assert!((1..=MIN_QUESTION_BYTES).contains(&answered), "{answered} bytes answered");
    // Once its address is proven, it is told all that there is to tell.
    prove(&mut alone, peer.run);
    let pushed = told_of_many(&mut alone, &peer, 300);
    assert!(pushed > 2 * MIN_QUESTION_BYTES, "{pushed} bytes pushed");
    told_of_many(&mut alone, &peer, 400);
    let answered = answer_to(&mut alone, &peer);
    assert!(answered > 2 * MIN_QUESTION_BYTES, "{answered} bytes answered");
}

/// Has this member send something every two milliseconds for a second; returns the number of packets to it.
fn answers_in_a_second(alone: &mut Alone, peer: &Record, message: Option<&Message>) -> usize {
    let mut answers = 0;
    for _ in 0..500 {
        let sent = alone.hand_in_and_take_packets(peer.address, peer.run, |packet| {
            assert!(message.is_none_or(|message| packet.push(message)));
            packet.pad_to(MIN_QUESTION_BYTES);
        });
        answers += sent.iter().filter(|packet| packet.iter().any(|(to, _)| *to == peer.address)).count();
        alone.now = alone.now + ms(2);
    }
    answers
}

#[test]
fn a_member_that_is_unproven_or_holds_other_records_is_answered_once_in_an_interval() {
    let most = (SECOND.as_millis() / ANSWER_INTERVAL.as_millis()) as usize;
    let mut alone = Alone::with_teller();
    alone.told_of(0..1, Status::Up);
    let peer = member(0, Status::Up);
    let question = Message::Probe { nonce: Nonce(1) };
    let unproven = answers_in_a_second(&mut alone, &peer, Some(&question));
    assert!((most - 1..=most + 1).contains(&unproven), "{unproven} to an address that nobody proved");
    prove(&mut alone, peer.run);
    alone.now = alone.now + SECOND;
    // The fingerprint of its packets is never that of this node.
    let differing = answers_in_a_second(&mut alone, &peer, None);
    assert!((most - 1..=most + 1).contains(&differing), "{differing} to a member that holds other records");
    assert!(answers_in_a_second(&mut alone, &peer, Some(&question)) >= 500, "what it asks is answered each time");
}
