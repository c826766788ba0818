//! Joiners and their sponsors: who has a place, for how long, and what is believed meanwhile.

use std::net::SocketAddr;
use std::time::Duration;

use super::alone::{Alone, TELLER, member};
use super::hostile::packet;
use super::net::{Net, address, ms};
use super::speaker::update;
use headcount_core::limits::MAX_JOIN_WAIT;
use headcount_core::wire::{Message, Nonce, Packet};
use headcount_core::{DropReason, Input, Output, Record, Run, Status, Timing};

const SECOND: Duration = Duration::from_secs(1);
/// A host where no member is.
const ELSEWHERE: usize = 30_000;

/// Has somebody bring the cookie that its run was given where it is, with this record; returns what it is told.
fn asks(alone: &mut Alone, from: SocketAddr, run: Run, record: &Record) -> Vec<Message> {
    alone.now = alone.now + ms(60);
    alone.core.handle(alone.now, Input::Tick);
    alone.outputs();
    let cookie = Some(alone.core.cookie(from, run, alone.now));
    let sent = alone.hand_in(from, run, |packet| {
        packet.push(&Message::Join { nonce: Nonce(1), record: record.clone(), cookie });
        packet.pad_to(256);
    });
    sent.into_iter().map(|(_, message)| message).collect()
}

#[test]
fn a_joiner_is_let_in_under_its_own_run_and_name_as_a_joiner_from_one_place_and_not_with_an_older_record() {
    let mut alone = Alone::new(0);
    let joiner = Record { incarnation: 9, ..member(1, Status::Joining) };
    let (from, run) = (joiner.address, joiner.run);
    let malformed = |alone: &Alone| alone.core.counters().dropped(DropReason::Malformed);
    assert_eq!(asks(&mut alone, from, Run(0xe), &joiner), [], "the record of another run");
    assert_eq!(malformed(&alone), 1);
    assert_eq!(asks(&mut alone, from, run, &Record { status: Status::Up, ..joiner.clone() }), []);
    assert_eq!(malformed(&alone), 2);
    let is_welcome = |told: &[Message]| matches!(told, [Message::Welcome { .. }]);
    let told = asks(&mut alone, from, run, &joiner);
    assert!(is_welcome(&told), "{told:?}");
    // A copy of the process, elsewhere.
    let there = Record { address: address(ELSEWHERE), ..joiner.clone() };
    assert_eq!(asks(&mut alone, there.address, run, &there), []);
    assert_eq!(alone.core.counters().dropped(DropReason::Claimed), 1);
    // A late copy.
    assert_eq!(asks(&mut alone, from, run, &Record { incarnation: 8, ..joiner.clone() }), []);
    assert_eq!(alone.core.counters().dropped(DropReason::Outdated), 1);
    let told = asks(&mut alone, from, run, &joiner);
    assert!(is_welcome(&told), "who asks again is answered again: {told:?}");
    // Nobody was asked whether another name is free.
    let (is_up, other) = (Record { status: Status::Up, ..joiner.clone() }, member(2, Status::Up).id);
    alone.told_from(from, run, &[(None, Record { id: other.clone(), ..is_up.clone() })]);
    assert_eq!(alone.core.record(&other), None);
    alone.told_from(from, run, &[(None, is_up)]);
    assert_eq!(alone.core.record(&joiner.id).map(|held| held.status), Some(Status::Up));
}

#[test]
fn a_joiner_that_has_raised_its_incarnation_does_not_enter_at_the_one_before() {
    let mut alone = Alone::with_teller();
    let joiner = Record { incarnation: 9, ..member(1, Status::Joining) };
    assert!(matches!(alone.joins(&joiner)[..], [Message::Welcome { .. }]));
    alone.told_by(TELLER, &[(None, Record { incarnation: 8, ..member(1, Status::Up) })]);
    assert_eq!(alone.core.record(&joiner.id), None);
    alone.told_by(TELLER, &[(None, Record { incarnation: 9, ..member(1, Status::Up) })]);
    assert_eq!(alone.core.record(&joiner.id).map(|held| held.incarnation), Some(9));
}

#[test]
fn a_joiner_that_is_silent_for_a_down_timeout_gives_its_place_up() {
    let mut alone = Alone::with_teller();
    let joiner = Record {
        timing: Timing::new(ms(60_000), ms(600_000), ms(3_600_000)).expect("good"),
        ..member(1, Status::Joining)
    };
    assert!(matches!(alone.joins(&joiner)[..], [Message::Welcome { .. }]));
    let listed = |alone: &Alone| alone.core.counts()[Status::Joining.index()];
    alone.pass(alone.settings.down_timeout - ms(1));
    assert_eq!(listed(&alone), 1);
    alone.pass(ms(1));
    assert_eq!(listed(&alone), 0);
}

#[test]
fn a_joiner_that_is_told_to_wait_waits_a_few_seconds_at_most() {
    let mut joiner = Alone::new(1);
    joiner.core.handle(joiner.now, Input::SeedAddresses(vec![vec![address(1)]]));
    let asked = joiner.outputs();
    let asks = |output: &Output| match output {
        Output::Transmit { bytes, .. } => Packet::decode(bytes)
            .expect("ours")
            .messages
            .into_iter()
            .find_map(|message| if let Message::Join { nonce, .. } = message { Some(nonce) } else { None }),
        _ => None,
    };
    let nonce = asked.iter().find_map(asks).expect("it asks");
    joiner.hand_in(address(1), Run(0xe), |packet| {
        packet.push(&Message::Wait { nonce, wait_ms: u32::MAX });
    });
    let began = joiner.now;
    loop {
        joiner.now = joiner.core.next_deadline().expect("it goes on");
        assert!(joiner.now.since(began) <= MAX_JOIN_WAIT, "it waits on");
        joiner.core.handle(joiner.now, Input::Tick);
        if joiner.outputs().iter().any(|output| asks(output).is_some()) {
            break;
        }
    }
}

#[test]
fn a_joiner_learns_nothing_of_members_but_by_its_pages() {
    let mut net = Net::alone_with_a_large_view();
    let joiner = net.add("late", 1, &[0]);
    let first = member(100_000, Status::Up);
    net.run_until(SECOND, "pages are under way", |net| net.nodes[joiner].core.record(&first.id).is_some());
    assert!(!net.nodes[joiner].core.is_up());
    let word = packet(first.run, 1, &[update(member(1, Status::Up))]);
    net.input(joiner, Input::Packet { from: first.address, bytes: &word });
    assert_eq!(net.nodes[joiner].core.record(&member(1, Status::Up).id), None);
}
