//! Questions of joiners that have proven nothing: how many are answered, and who is answered whatever others ask.

use std::net::SocketAddr;

use super::hostile::packet;
use super::limits::{Alone, member};
use super::net::{Net, ms};
use crate::core::counters::DropReason;
use crate::core::doors::Input;
use crate::core::limits::{
    MAX_CONTACTED_JOINS, MAX_CONTACTED_JOINS_PER_HOST, MAX_UNPROVEN_JOINS, MAX_UNPROVEN_JOINS_PER_HOST,
    MIN_QUESTION_BYTES,
};
use crate::core::member::{Record, Run, Status, Tags};
use crate::core::settings::Profile;
use crate::core::wire::{Message, Nonce};

/// A host of the flood's.
fn host(nth: usize, port: usize) -> SocketAddr {
    let [_, a, b, c] = (nth as u32).to_be_bytes();
    SocketAddr::from(([30 + a, b, c, 1], 1_000 + port as u16))
}

/// Has somebody ask to join; returns all that was sent.
fn asks(alone: &mut Alone, from: SocketAddr, record: &Record, cookie: Option<Nonce>) -> Vec<(SocketAddr, Message)> {
    alone.hand_in(from, record.run, |packet| {
        packet.push(&Message::Join { nonce: Nonce(1), record: record.clone(), cookie });
        packet.pad_to(MIN_QUESTION_BYTES);
    })
}

/// Has a made-up run ask from an address; returns true if it is told a cookie.
fn is_challenged(alone: &mut Alone, from: SocketAddr) -> bool {
    let record = Record { run: Run(0xf_0000_0000 + alone.sequence), address: from, ..member(1, Status::Joining) };
    let sent = asks(alone, from, &record, None);
    sent.iter().any(|(to, message)| *to == from && matches!(message, Message::Challenge { .. }))
}

/// Uses up all turns of this moment.
fn flood(alone: &mut Alone) -> usize {
    (0..MAX_UNPROVEN_JOINS + 500).filter(|nth| is_challenged(alone, host(*nth, 0))).count()
}

#[test]
fn joiners_that_have_proven_nothing_are_answered_so_often_per_host_and_in_all() {
    let mut alone = Alone::new(0);
    let of_one =
        (0..MAX_UNPROVEN_JOINS_PER_HOST + 100).filter(|port| is_challenged(&mut alone, host(0, *port))).count();
    assert_eq!(of_one, MAX_UNPROVEN_JOINS_PER_HOST, "one host, whatever the runs and ports");
    assert!(is_challenged(&mut alone, host(1, 0)), "another host");
    let dropped = |alone: &Alone| alone.core.counters().dropped(DropReason::RateLimited);
    let before = dropped(&alone);
    let others = flood(&mut alone);
    assert_eq!(of_one + 1 + others, MAX_UNPROVEN_JOINS, "all hosts");
    assert_eq!(dropped(&alone) - before, (MAX_UNPROVEN_JOINS + 500 - others) as u64);
    alone.now = alone.now + ms(10);
    let later = (0..200).filter(|nth| is_challenged(&mut alone, host(20_000 + nth, 0))).count();
    assert_eq!(later, MAX_UNPROVEN_JOINS / 100, "one by one after that");
    assert!(alone.core.sizes().strangers <= 2 * MAX_UNPROVEN_JOINS, "{:?}", alone.core.sizes());
}

#[test]
fn who_brings_a_cookie_is_let_in_whatever_others_ask() {
    for is_translated in [false, true] {
        let mut alone = Alone::with_teller();
        let joiner = member(77, Status::Joining);
        let sent = asks(&mut alone, joiner.address, &joiner, None);
        let [(_, Message::Challenge { cookie, .. })] = sent[..] else { panic!("{sent:?}") };
        flood(&mut alone);
        assert_eq!(asks(&mut alone, joiner.address, &joiner, None), [], "there is no turn left");
        assert_eq!(asks(&mut alone, joiner.address, &joiner, Some(Nonce(cookie.0 + 1))), [], "nor for a wrong one");
        // The cookie proves the advertised address, wherever it is brought from.
        let from = if is_translated { host(90_000, 9) } else { joiner.address };
        let sent = asks(&mut alone, from, &joiner, Some(cookie));
        assert!(sent.iter().any(|(_, message)| matches!(message, Message::Welcome { .. })), "{sent:?}");
    }
}

#[test]
fn addresses_that_this_node_contacted_have_a_share_of_their_own() {
    let mut alone = Alone::with_teller();
    flood(&mut alone);
    let contacted: Vec<SocketAddr> = (0..=MAX_CONTACTED_JOINS_PER_HOST).map(|port| host(90_000, port)).collect();
    for address in &contacted {
        alone.core.expected.note(alone.now, *address);
    }
    let answered = contacted.iter().filter(|address| is_challenged(&mut alone, **address)).count();
    assert_eq!(answered, MAX_CONTACTED_JOINS_PER_HOST, "of one host");
    let others: Vec<SocketAddr> = (0..MAX_CONTACTED_JOINS).map(|nth| host(91_000 + nth, 0)).collect();
    let mut answered_others = 0;
    for address in &others {
        alone.core.expected.note(alone.now, *address);
        answered_others += usize::from(is_challenged(&mut alone, *address));
    }
    assert_eq!(answered + answered_others, MAX_CONTACTED_JOINS, "of all");
}

#[test]
fn what_is_one_too_many_is_not_decoded() {
    let mut alone = Alone::with_teller();
    flood(&mut alone);
    let tags = Tags::new([("a".to_owned(), "b".to_owned())].into()).expect("good tags");
    let record = Record { tags, ..member(5, Status::Joining) };
    let mut bytes = packet(record.run, 1, &[Message::Join { nonce: Nonce(1), record: record.clone(), cookie: None }]);
    let tag = bytes.windows(4).position(|window| window == [1, b'a', 1, b'b']).expect("its tag");
    bytes[tag + 1] = b'=';
    let dropped = |alone: &Alone| {
        [DropReason::Malformed, DropReason::RateLimited].map(|reason| alone.core.counters().dropped(reason))
    };
    let before = dropped(&alone);
    alone.core.handle(alone.now, Input::Packet { from: record.address, bytes: &bytes });
    assert_eq!(dropped(&alone), [before[0], before[1] + 1]);
    alone.core.handle(alone.now + ms(10), Input::Packet { from: record.address, bytes: &bytes });
    assert_eq!(dropped(&alone), [before[0] + 1, before[1] + 1], "and is found out when its turn comes");
}

/// Sends so many made-up joiners to a node, each of another host.
fn invents(net: &mut Net, to: usize, joiners: std::ops::Range<usize>) {
    for nth in joiners {
        let from = host(nth, 0);
        let record = Record { run: Run(0xf_0000_0000 + nth as u64), address: from, ..member(1, Status::Joining) };
        let run = record.run;
        let join = Message::Join { nonce: Nonce(1), record, cookie: None };
        net.input(to, Input::Packet { from, bytes: &packet(run, 1, &[join]) });
    }
}

/// More than twice as many made-up joiners as are answered, of as many hosts.
#[test]
fn an_honest_node_joins_within_seconds_while_others_invent_joiners() {
    let mut net = Net::cluster(Profile::Local, 2);
    let (all_at_once, in_a_millisecond) = (MAX_UNPROVEN_JOINS, MAX_UNPROVEN_JOINS * 5 / 2 / 1_000);
    for node in [0, 1] {
        invents(&mut net, node, 0..all_at_once);
    }
    let joiner = net.add("honest", 50, &[0, 1]);
    let (began, mut nth) = (net.now, all_at_once);
    while !net.nodes[joiner].core.is_up() {
        for node in [0, 1] {
            invents(&mut net, node, nth..nth + in_a_millisecond);
        }
        nth += in_a_millisecond;
        net.run(ms(1));
        assert!(net.now.since(began) <= ms(3_000), "{}", net.describe());
    }
    assert!(net.nodes[0].core.counters().dropped(DropReason::RateLimited) > 0);
    net.run(ms(500));
    assert_eq!(net.status(0, "honest"), Some(Status::Up));
}
