//! Tables that everybody shares: one host, or one network, does not fill them for the others.

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::time::Duration;

use super::alone::{Alone, TELLER, member};
use super::net::{address, ms};
use headcount_core::limits::{ANSWERS_PER_SECOND, MAX_JOIN_ASKERS, MAX_JOINERS, MAX_VIEWS_SERVED, MIN_QUESTION_BYTES};
use headcount_core::wire::{Message, Nonce, Packet};
use headcount_core::{DropReason, Input, Output, Record, Run, Status};

fn v4(host: u8, port: usize) -> SocketAddr {
    SocketAddr::from(([12, 0, host, 1], 1_000 + port as u16))
}

fn joiner(nth: usize, at: SocketAddr) -> Record {
    Record { address: at, ..member(nth, Status::Joining) }
}

fn is_welcome(told: &[Message]) -> bool {
    matches!(told, [Message::Welcome { .. }])
}

#[test]
fn in_a_full_waiting_room_the_longest_idle_joiner_gives_way() {
    let mut alone = Alone::new(0);
    for nth in 0..MAX_JOINERS {
        alone.now = alone.now + ms(1);
        assert!(is_welcome(&alone.joins(&joiner(nth, v4(1, nth)))), "{nth}");
    }
    assert!(is_welcome(&alone.joins(&joiner(70_000, v4(2, 0)))));
    let is_held = |nth: usize| alone.core.holds_joiner(member(nth, Status::Joining).run);
    assert!(!is_held(0) && is_held(1) && is_held(70_000));
}

/// Has somebody bring a cookie; returns all that was sent.
pub(super) fn asks(alone: &mut Alone, record: &Record) -> Vec<(SocketAddr, Message)> {
    asks_from(alone, record.address, record)
}

#[test]
fn answers_to_joiners_that_are_not_let_in_are_kept_from_nobody() {
    let mut alone = Alone::with_teller();
    alone.told_of(0..1, Status::Up);
    let comes = |alone: &mut Alone, nth: u64, at: SocketAddr| {
        let run = Run(0x20_0000 + nth);
        let late = Record { run, address: at, incarnation: 5, ..member(0, Status::Joining) };
        asks(alone, &late).iter().any(|(_, message)| matches!(message, Message::Behind { .. }))
    };
    (0..2 * MAX_JOIN_ASKERS as u64).for_each(|nth| {
        comes(&mut alone, nth, v4((nth % 4) as u8, nth as usize));
    });
    assert!(comes(&mut alone, 5_000, v4(9, 0)), "another host's joiner is told that it is behind");
}

#[test]
fn joiners_that_asked_too_early_are_welcomed_as_soon_as_may_be() {
    let mut alone = seed();
    for nth in 0..2 {
        asks(&mut alone, &joiner(nth, v4(nth as u8, nth)));
    }
    let late = joiner(90_000, v4(9, 0));
    asks(&mut alone, &late);
    let told = founds(&mut alone);
    let is_welcome = |(to, message): &(_, Message)| *to == late.address && matches!(message, Message::Welcome { .. });
    assert!(told.iter().any(is_welcome), "who asked last");
}

/// Returns a core that joins, and has learnt that it is its only seed.
fn seed() -> Alone {
    let mut alone = Alone::new(1);
    let mine = alone.core.me().address;
    alone.core.handle(alone.now, Input::SeedAddresses(vec![vec![mine]]));
    let own = alone.outputs().into_iter().find_map(|output| match output {
        Output::Transmit { to, bytes, .. } if to == mine => Some(bytes),
        _ => None,
    });
    alone.core.handle(alone.now, Input::Packet { from: mine, bytes: &own.expect("it asks itself") });
    alone.outputs();
    alone
}

/// Lets a seed found its cluster; returns what it sent meanwhile.
fn founds(alone: &mut Alone) -> Vec<(SocketAddr, Message)> {
    let until = alone.now + Duration::from_secs(20);
    let mut told = Vec::new();
    while !alone.core.is_up() {
        let deadline = alone.core.next_deadline().filter(|deadline| *deadline <= until).expect("it founds a cluster");
        alone.now = alone.now.max(deadline);
        alone.core.handle(alone.now, Input::Tick);
        for output in alone.outputs() {
            if let Output::Transmit { to, bytes, .. } = output {
                let messages = Packet::decode(&bytes).expect("ours").messages;
                told.extend(messages.into_iter().map(|message| (to, message)));
            }
        }
    }
    told
}

#[test]
fn of_too_many_that_ask_too_early_those_that_gave_up_are_forgotten() {
    let mut alone = seed();
    let waiting = |told: &[Message]| match told {
        [.., Message::NotUp { joiners, .. }] => *joiners as usize,
        _ => panic!("{told:?}"),
    };
    for nth in 0..MAX_JOINERS {
        assert_eq!(waiting(&alone.joins(&member(nth, Status::Joining))), nth + 1);
    }
    alone.now = alone.now + ms(1);
    assert_eq!(waiting(&alone.joins(&member(0, Status::Joining))), MAX_JOINERS, "one goes on asking");
    assert_eq!(waiting(&alone.joins(&member(MAX_JOINERS, Status::Joining))), MAX_JOINERS);
    let told = founds(&mut alone);
    let is_told = |nth| told.iter().any(|(to, _)| *to == member(nth, Status::Joining).address);
    assert_eq!([0, 1, 2, MAX_JOINERS].map(is_told), [true, false, true, true]);
}

/// Has somebody bring a cookie from an address that may be another one than it advertises; returns all that was sent.
fn asks_from(alone: &mut Alone, from: SocketAddr, record: &Record) -> Vec<(SocketAddr, Message)> {
    let cookie = Some(alone.core.cookie(from, record.run, alone.now));
    alone.hand_in(from, record.run, |packet| {
        packet.push(&Message::Join { nonce: Nonce(1), record: record.clone(), cookie });
        packet.pad_to(MIN_QUESTION_BYTES);
    })
}

#[test]
fn of_a_crowd_behind_one_address_nobody_is_called_unreachable_that_was_not_asked() {
    let mut alone = Alone::with_teller();
    let crowd: Vec<Record> = (0..600).map(|nth| joiner(nth, v4(20, 1_000 + nth))).collect();
    let (mut asked, mut refused) = (BTreeSet::new(), BTreeSet::new());
    for _ in 0..3 {
        for (nth, record) in crowd.iter().enumerate() {
            for (to, message) in asks_from(&mut alone, v4(9, nth), record) {
                match message {
                    Message::Challenge { .. } if to == record.address => drop(asked.insert(nth)),
                    Message::Refused { .. } => {
                        assert!(asked.contains(&nth), "{nth} was not asked where it says that it is");
                        refused.insert(nth);
                    }
                    _ => {}
                }
            }
        }
        alone.now = alone.now + Duration::from_millis(600);
    }
    assert!(asked.len() < crowd.len() && !refused.is_empty(), "{} asked, {} refused", asked.len(), refused.len());
}

#[test]
fn members_that_pull_take_no_places_of_joiners() {
    let mut alone = Alone::with_teller();
    alone.introduces(0..3_000);
    for host in 0..2 * MAX_VIEWS_SERVED {
        let puller = member(host, Status::Up);
        alone.core.set_proven(puller.run, true);
        alone.hand_in(puller.address, puller.run, |packet| {
            assert!(packet.push(&Message::Reply) && packet.push(&Message::Pull { after: None, pages: 1 }));
        });
    }
    for nth in 0..MAX_VIEWS_SERVED {
        let newcomer = joiner(90_000 + nth, v4(nth as u8, 9));
        let sent = asks(&mut alone, &newcomer);
        assert!(sent.iter().any(|(_, message)| matches!(message, Message::Welcome { .. })), "{nth}: {sent:?}");
    }
}

#[test]
fn one_members_questions_bring_it_few_packets_and_members_leave_a_share_to_joiners() {
    let mut alone = Alone::with_teller();
    alone.introduces(0..3_000);
    for term in 0..64 {
        let lease = super::net::id(&format!("lease{term}"));
        alone.core.keep_term(lease, term);
    }
    let members: Vec<Run> = (0..100).map(|host| member(host, Status::Up).run).chain([TELLER]).collect();
    for run in &members {
        alone.core.set_proven(*run, true);
    }
    alone.now = alone.now + Duration::from_secs(1);
    let pulls = |alone: &mut Alone, at: SocketAddr, run: Run| {
        let packets = alone.hand_in_and_take_packets(at, run, |packet| {
            assert!(packet.push(&Message::Reply) && packet.push(&Message::Pull { after: None, pages: 8 }));
        });
        packets.iter().filter(|packet| !packet.is_empty()).count()
    };
    let mut of_one = 0;
    for _ in 0..30 {
        of_one += (0..30).map(|_| pulls(&mut alone, address(19_999), TELLER)).sum::<usize>();
        alone.now = alone.now + ms(100);
    }
    let seconds = 3 + 1;
    assert!(of_one > 600 && of_one <= seconds * ANSWERS_PER_SECOND as usize, "{of_one} packets for one member");
    let all: usize = (0..100).map(|host| pulls(&mut alone, member(host, Status::Up).address, members[host])).sum();
    assert!((140..=200).contains(&all), "{all} packets for members");
    let newcomer = joiner(90_000, v4(9, 0));
    let sent = asks(&mut alone, &newcomer);
    assert!(sent.iter().any(|(_, message)| matches!(message, Message::Welcome { .. })), "{sent:?}");
    let got = pulls(&mut alone, newcomer.address, newcomer.run);
    assert!(got >= 8, "{got} packets for a joiner");
    let dropped = alone.core.counters().dropped(DropReason::RateLimited);
    alone.hand_in(address(19_999), TELLER, |packet| {
        let all = Message::Want { buckets: [0xff; 32] };
        assert!(packet.push(&Message::Reply) && packet.push(&all));
    });
    assert_eq!(alone.core.counters().dropped(DropReason::RateLimited), dropped + 1, "a comparison costs nothing then");
}
