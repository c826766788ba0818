//! What one thing costs: the peers that it goes to, the packets, and the time until the next one, counted exactly.

use super::alone::{Alone, TELLER, member, prove};
use super::electing::SECOND;
use super::net::{address, ms};
use crate::envelope::{Payload, Topic};
use crate::io::{Command, Input, Output};
use crate::limits::{FLOOD_FANOUT, MAX_FLOODED_PAYLOAD, REPAIR_AFTER, REPAIR_PEERS, SPREAD_PACKETS, SYNC_INTERVAL};
use crate::member::Status;
use crate::packet::News;
use crate::timers::Timer;
use crate::wire::{Message, Packet};

/// Takes the packets that were sent, and returns where those went that have such a message.
fn sent_with(alone: &mut Alone, is_it: impl Fn(&Message) -> bool) -> Vec<std::net::SocketAddr> {
    let has_it = |bytes: &[u8]| Packet::decode(bytes).expect("ours").messages.iter().any(&is_it);
    let packets = alone.outputs().into_iter().filter_map(|output| match output {
        Output::Transmit { to, bytes, .. } if has_it(&bytes) => Some(to),
        _ => None,
    });
    packets.collect()
}

/// Returns a core that has proven the addresses of the teller and of so many others.
fn among(others: usize) -> Alone {
    let mut alone = Alone::with_teller();
    prove(&mut alone, TELLER);
    for host in 0..others {
        let peer = member(host, Status::Up);
        alone.core.learn(News::told(peer.clone()), None);
        prove(&mut alone, peer.run);
    }
    alone.outputs();
    alone.pass(SECOND * 5);
    alone
}

/// Has this node's program broadcast a payload of so many bytes.
fn says(alone: &mut Alone, bytes: usize) {
    let topic = Topic::new("t").expect("a topic");
    let payload = Payload::new(&vec![7; bytes]).expect("not too large");
    let command = Command::Broadcast { ticket: 1, topic, payload };
    alone.core.handle(alone.now, Input::Command(command));
    alone.outputs();
}

#[test]
fn in_a_full_mesh_a_relay_sends_news_on_to_so_many_peers() {
    for (others, targets) in [(FLOOD_FANOUT - 1, FLOOD_FANOUT), (FLOOD_FANOUT, FLOOD_FANOUT)] {
        // The teller is one of them, too.
        let mut alone = among(others);
        assert_eq!(alone.core.view.live().len(), others + 1);
        assert_eq!(alone.core.flood_targets(false).len(), targets);
        assert_eq!(alone.core.flood_targets(true).len(), others + 1, "its own news goes to all");
    }
}

#[test]
fn views_that_differ_are_compared_once_in_an_interval() {
    let mut alone = among(0);
    // Gossip more often than that is no reason to compare more often.
    alone.core.cx.settings.gossip_interval = ms(10);
    let syncs_in = |alone: &mut Alone, ticks: u32| {
        let before = alone.core.counters().syncs;
        for _ in 0..ticks {
            alone.pass(ms(10));
            // The fingerprint of these packets is never that of this node; no records are exchanged.
            alone.hand_in(address(19_999), TELLER, |packet| assert!(packet.push(&Message::Reply)));
        }
        alone.core.counters().syncs - before
    };
    syncs_in(&mut alone, 200);
    let intervals = 20;
    let times = syncs_in(&mut alone, intervals * SYNC_INTERVAL.as_millis() as u32 / 10);
    assert!((u64::from(intervals) - 2..=u64::from(intervals) + 1).contains(&times), "{times} in {intervals}");
}

#[test]
fn a_batch_of_broadcasts_is_so_many_packets_to_each_peer_and_the_others_wait_for_the_next() {
    let mut alone = among(0);
    for _ in 0..3 * SPREAD_PACKETS {
        // No two of them fit into one packet.
        says(&mut alone, MAX_FLOODED_PAYLOAD);
    }
    let is_broadcast = |message: &Message| matches!(message, Message::Broadcast(_));
    for batch in 1..=3 {
        alone.core.spread();
        assert_eq!(sent_with(&mut alone, is_broadcast).len(), SPREAD_PACKETS, "batch {batch}");
    }
    alone.core.spread();
    assert_eq!(sent_with(&mut alone, is_broadcast).len(), 0);
}

#[test]
fn what_is_held_of_broadcasts_is_told_so_many_peers() {
    let mut alone = among(9);
    says(&mut alone, 1);
    alone.core.spread();
    alone.now = alone.now + REPAIR_AFTER;
    alone.core.cx.now = alone.now;
    alone.outputs();
    alone.core.fire(Timer::RepairMessages);
    let told = sent_with(&mut alone, |message| matches!(message, Message::HaveBroadcasts(_)));
    assert_eq!(told.len(), REPAIR_PEERS);
}
