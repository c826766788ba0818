//! Packets that come again and again: how often they make a node ask, tell, answer, or open a connection.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::time::Duration;

use super::alone::{Alone, TELLER, member, prove};
use super::net::{Net, address, ms};
use headcount_core::limits::{
    CRASH_HEARSAY_INTERVAL, LINK_BACKOFF, MAX_STRANGER_ANSWERS, MIN_CRASH_PROBE_GAP, MIN_QUESTION_BYTES, TOLD_INTERVAL,
};
use headcount_core::wire::{Header, Message, Nonce, Note, Packet, PacketBuilder};
use headcount_core::{DetectionMethod, Input, LinkEvent, Output, Profile, ProtocolRange, Record, Run, Status};

pub(super) const SECOND: Duration = Duration::from_secs(1);

fn count(sent: &[(SocketAddr, Message)], at: SocketAddr, is_it: impl Fn(&Message) -> bool) -> usize {
    sent.iter().filter(|(to, message)| *to == at && is_it(message)).count()
}

fn is_probe(message: &Message) -> bool {
    matches!(message, Message::Probe { .. })
}

#[test]
fn what_one_observer_says_again_and_again_of_a_crash_costs_few_probes_and_connections() {
    let mut alone = Alone::with_teller();
    alone.told_of(0..1, Status::Up);
    let subject = member(0, Status::Up);
    prove(&mut alone, subject.run);
    let (mut probes, mut opened) = (0, 0);
    for _ in 0..400 {
        alone.sequence += 1;
        let header =
            Header { cluster: Header::cluster_hash("test"), run: TELLER, sequence: alone.sequence, fingerprint: 0 };
        let mut packet = PacketBuilder::new(&header, 1_400);
        packet.push(&Message::Severed { run: subject.run, age_ms: 0, is_sure: false });
        alone.core.handle(alone.now, Input::Packet { from: address(19_999), bytes: &packet.finish() });
        let mut due = VecDeque::from(alone.outputs());
        while let Some(output) = due.pop_front() {
            match output {
                Output::Transmit { to, bytes, .. } if to == subject.address => {
                    let messages = Packet::decode(&bytes).expect("ours").messages;
                    probes += messages.iter().filter(|message| is_probe(message)).count();
                }
                Output::OpenLink { link, to } if to == subject.address => {
                    opened += 1;
                    // Nobody refuses it: that proves nothing.
                    alone.core.handle(alone.now, Input::Link { link, event: LinkEvent::Unreachable });
                    due.extend(alone.outputs());
                }
                _ => {}
            }
        }
        alone.now = alone.now + ms(5);
    }
    let most = 2 * (SECOND.as_millis() / MIN_CRASH_PROBE_GAP.as_millis()) as usize;
    // Beside them a case that is closed ends with a probe.
    assert!(probes > most / 2 && probes <= most + 2 * opened, "{probes} in two seconds");
    assert_eq!(opened, 2 / CRASH_HEARSAY_INTERVAL.as_secs() as usize, "connections in two seconds");
}

#[test]
fn nodes_of_other_clusters_versions_and_protocols_are_refused_so_often_and_no_more() {
    let from = |port: u16| SocketAddr::from(([10, 9, 9, 9], 1_000 + port));
    let foreign = |cluster: u32| {
        let header = Header { cluster, run: Run(0xe), sequence: 1, fingerprint: 0 };
        let mut packet = PacketBuilder::new(&header, 1_400);
        packet.push(&Message::WhoAreYou { nonce: Nonce(1), echo: None });
        packet.pad_to(MIN_QUESTION_BYTES);
        packet.finish()
    };
    let mut later = foreign(Header::cluster_hash("test"));
    later[2] += 1;
    for (what, bytes) in [("cluster", foreign(1)), ("version", later)] {
        let mut alone = Alone::with_teller();
        let (mut answers, mut notices) = (0, 0);
        for port in 0..500 {
            alone.core.handle(alone.now, Input::Packet { from: from(port), bytes: &bytes });
            let outputs = alone.outputs();
            answers += outputs.iter().filter(|output| matches!(output, Output::Transmit { .. })).count();
            notices += outputs.iter().filter(|output| matches!(output, Output::Notice(_))).count();
        }
        assert_eq!((answers, notices), (MAX_STRANGER_ANSWERS, 1), "another {what}");
        // They take nothing of who is held as somebody else, and may say so at once.
        alone.told_of(0..1, Status::Up);
        let late = Record { run: Run(0xf), incarnation: 4, ..member(0, Status::Up) };
        let nonce = alone.core.nonce(late.address, alone.now);
        let told = alone.hand_in(late.address, late.run, |packet| {
            packet.push(&Message::IAm { nonce, record: late.clone() });
        });
        assert!(told.iter().any(|(_, message)| matches!(message, Message::WhoAreYou { .. })), "{what}: {told:?}");
    }
    let mut alone = Alone::with_teller();
    let mut answers = 0;
    for port in 0..500 {
        let mut joiner = member(port.into(), Status::Joining);
        (joiner.address, joiner.protocol) = (from(port), ProtocolRange { min: 2, max: 3 });
        let told = alone.joins(&joiner);
        answers += told.iter().filter(|told| matches!(told, Message::Refused { .. })).count();
    }
    assert!((MAX_STRANGER_ANSWERS..=MAX_STRANGER_ANSWERS * 3 / 2).contains(&answers), "another protocol: {answers}");
}

#[test]
fn a_member_is_told_what_it_is_held_as_once_in_an_interval() {
    let mut alone = Alone::with_teller();
    alone.told_of(0..1, Status::Up);
    let note = Note { age_ms: 0, method: DetectionMethod::ConnectionLost };
    alone.told_by(TELLER, &[(Some(note), member(0, Status::Suspect))]);
    let peer = member(0, Status::Up);
    prove(&mut alone, peer.run);
    let mut told = 0;
    for _ in 0..500 {
        let sent = alone.hand_in(peer.address, peer.run, |packet| {
            packet.push(&Message::Probe { nonce: Nonce(1) });
        });
        told += count(&sent, peer.address, |message| matches!(message, Message::HeldStatus { .. }));
        alone.now = alone.now + ms(2);
    }
    let most = (SECOND.as_millis() / TOLD_INTERVAL.as_millis()) as usize;
    assert!((most - 1..=most + 1).contains(&told), "{told}");
}

#[test]
fn a_view_is_served_in_so_many_pages_at_one_moment_however_many_ask() {
    let mut alone = Alone::with_teller();
    alone.introduces(0..2_000);
    (0..100).for_each(|host| prove(&mut alone, member(host, Status::Up).run));
    let mut all = |message: &Message| {
        alone.now = alone.now + SECOND;
        let mut packets = 0;
        for host in 0..100 {
            let peer = member(host, Status::Up);
            let sent = alone.hand_in_and_take_packets(peer.address, peer.run, |packet| {
                assert!(packet.push(&Message::Reply) && packet.push(message));
            });
            packets += sent.iter().filter(|sent| sent.len() > 5).count();
        }
        packets
    };
    // Four megabytes a second, in tenths of one.
    let pulled = all(&Message::Pull { after: None, pages: 8 });
    assert!((200..=300).contains(&pulled), "{pulled} pages");
    let wanted = all(&Message::Want { buckets: [0xff; 32] });
    assert!((200..=300).contains(&wanted), "{wanted} packets");
}

#[test]
fn a_link_that_breaks_as_soon_as_it_stands_is_not_opened_at_once_again_and_again() {
    let mut net = Net::linked(Profile::Local, 2);
    let before = net.attempts_of(0) + net.attempts_of(1);
    for _ in 0..200 {
        net.reset_links(0, 1);
        net.run(ms(10));
    }
    let attempts = net.attempts_of(0) + net.attempts_of(1) - before;
    let most = 4 * (1 + (ms(2_000).as_millis() / LINK_BACKOFF.as_millis()) as usize);
    assert!((1..=most).contains(&attempts), "{attempts} in two seconds");
}

#[test]
fn only_observers_tell_a_member_that_it_is_accused() {
    let mut alone = Alone::with_teller();
    alone.told_of(0..200, Status::Up);
    let observed = |alone: &Alone, host: usize| {
        alone.core.observation(&member(host, Status::Up).id).is_some_and(|seen| seen.is_observed)
    };
    for expected in [true, false] {
        let host = (0..200).find(|host| observed(&alone, *host) == expected).expect("of 200");
        let peer = member(host, Status::Up);
        alone.hand_in(peer.address, peer.run, |_| ());
        let note = Note { age_ms: 60_000, method: DetectionMethod::HeartbeatTimeout };
        let sent = alone.hand_in(address(19_999), TELLER, |packet| {
            assert!(packet.push_update(Some(note), &member(host, Status::Suspect)));
        });
        let told = count(&sent, peer.address, |message| matches!(message, Message::HeldStatus { .. }));
        assert_eq!(
            (told, alone.core.record(&peer.id).map(|held| held.status)),
            (usize::from(expected), Some(Status::Up))
        );
    }
}
