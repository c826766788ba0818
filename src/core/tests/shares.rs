//! Tables that everybody shares: one host, or one network, does not fill them for the others.

use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv6Addr, SocketAddr};
use std::time::Duration;

use super::limits::{Alone, TELLER, member};
use super::net::{Net, address, ms};
use crate::core::counters::DropReason;
use crate::core::doors::{Input, LinkEvent, LinkId, Output};
use crate::core::limits::{
    ADMISSION_INTERVAL, MAX_CALLS, MAX_CALLS_FOR_OTHERS, MAX_CALLS_PER_HOST, MAX_DENIALS, MAX_JOINERS,
    MAX_JOINERS_PER_HOST, MAX_NAME_PROBES, MAX_NAME_PROBES_PER_HOST, MAX_REACHED_PER_HOST, MAX_VIEWS_SERVED,
    MIN_QUESTION_BYTES,
};
use crate::core::member::{Record, Run, Status};
use crate::core::settings::Profile;
use crate::core::wire::{Header, Message, Nonce, Packet, PacketBuilder};

fn v4(host: u8, port: usize) -> SocketAddr {
    SocketAddr::from(([12, 0, host, 1], 1_000 + port as u16))
}

/// Returns an address of a network of 48 bits, one of 64 bits in it, and a host in that.
fn v6(network: u16, subnet: u16, host: u16, port: usize) -> SocketAddr {
    let ip = Ipv6Addr::new(0x2001, 0xdb8, network, subnet, 0, 0, 0, host);
    SocketAddr::new(IpAddr::V6(ip), 1_000 + port as u16)
}

fn joiner(nth: usize, at: SocketAddr) -> Record {
    Record { address: at, ..member(nth, Status::Joining) }
}

fn is_welcome(told: &[Message]) -> bool {
    matches!(told, [Message::Welcome { .. }])
}

/// Has joiners come from these addresses, no faster than they may; returns the number of those that are let in.
fn come(alone: &mut Alone, at: impl Iterator<Item = SocketAddr>) -> usize {
    let mut count = 0;
    for (nth, at) in at.enumerate() {
        if nth % 100 == 0 {
            alone.now = alone.now + ADMISSION_INTERVAL / 2;
        }
        count += usize::from(is_welcome(&alone.joins(&joiner(nth, at))));
    }
    count
}

#[test]
fn one_ipv6_host_does_not_fill_the_waiting_room() {
    let mut alone = Alone::new(0);
    let all = (0..MAX_JOINERS).map(|nth| v6(1, 1, (nth % 8) as u16, nth));
    assert_eq!(come(&mut alone, all), MAX_JOINERS_PER_HOST, "all addresses of 64 bits are one host");
    alone.now = alone.now + ADMISSION_INTERVAL;
    assert!(is_welcome(&alone.joins(&joiner(70_000, v6(2, 1, 1, 0)))), "another host is let in");
}

#[test]
fn in_a_full_waiting_room_the_longest_idle_of_the_most_crowded_network_gives_way() {
    let mut alone = Alone::new(0);
    let parts = MAX_JOINERS / MAX_JOINERS_PER_HOST;
    let all = (0..MAX_JOINERS).map(|nth| v6(1, (nth % parts) as u16, 1, nth));
    assert_eq!(come(&mut alone, all), MAX_JOINERS);
    alone.now = alone.now + ADMISSION_INTERVAL;
    let waits = |told: &[Message]| matches!(told, [Message::Wait { .. }]);
    let told = alone.joins(&joiner(80_000, v6(1, 99, 1, 0)));
    assert!(is_welcome(&told), "a host of that network that has nobody: {told:?}");
    let is_held = |alone: &Alone, nth: usize| alone.core.joiners.contains(member(nth, Status::Joining).run);
    assert!(!is_held(&alone, 0), "who was heard last so long ago");
    let told = alone.joins(&joiner(70_000, v6(2, 1, 1, 0)));
    assert!(is_welcome(&told), "another network: {told:?}");
    assert!(!is_held(&alone, 1) && is_held(&alone, 2), "the next one");
    let told = alone.joins(&joiner(90_000, v6(1, 3, 1, 9)));
    assert!(waits(&told), "one more of the crowded ones: {told:?}");
    assert_eq!(alone.core.counts()[Status::Joining.index()], MAX_JOINERS);
    assert!(is_held(&alone, 70_000) && is_held(&alone, 80_000));
}

/// Has somebody connect and ask who is here; returns true if that is a call now.
fn calls(alone: &mut Alone, nth: u64, from: SocketAddr) -> bool {
    let link = LinkId::Accepted(nth);
    let bytes = question(nth);
    alone.core.handle(alone.now, Input::Link { link, event: LinkEvent::Frame { from, bytes: &bytes } });
    !alone.outputs().contains(&Output::CloseLink { link })
}

fn question(nth: u64) -> Vec<u8> {
    let header =
        Header { cluster: Header::cluster_hash("test"), run: Run(0xcc_0000 + nth), sequence: 1, fingerprint: 0 };
    let mut packet = PacketBuilder::new(&header, 1_400);
    assert!(packet.push(&Message::WhoAreYou { nonce: Nonce(1), echo: None }));
    packet.pad_to(MIN_QUESTION_BYTES);
    packet.finish()
}

#[test]
fn calls_that_others_made_leave_room_for_own_ones_and_for_those_of_other_hosts() {
    let mut alone = Alone::with_teller();
    let hosts = MAX_CALLS / MAX_CALLS_PER_HOST;
    let made = (0..4 * MAX_CALLS).filter(|nth| calls(&mut alone, *nth as u64, v4((nth % hosts) as u8, *nth))).count();
    assert_eq!(made, MAX_CALLS);
    for host in 0..MAX_CALLS {
        alone.core.call(address(host));
        let opens = |output: &Output| matches!(output, Output::OpenLink { to, .. } if *to == address(host));
        assert!(alone.outputs().iter().any(opens), "own call {host}");
    }
    for host in 0..hosts as u8 {
        assert!(calls(&mut alone, 1_000 + u64::from(host), v4(100 + host, 0)), "another host: {host}");
    }
    assert_eq!(alone.core.calls.len(), 2 * MAX_CALLS);
    assert!(!calls(&mut alone, 2_000, v4(0, 9_999)), "one more of the crowded ones");
    let mut alone = Alone::with_teller();
    let of_one_host = (0..100).filter(|nth| calls(&mut alone, 3_000 + nth, v6(1, 1, *nth as u16, 0))).count();
    assert_eq!(of_one_host, MAX_CALLS_PER_HOST, "all addresses of 64 bits are one host");
}

#[test]
fn a_node_joins_by_calls_while_strangers_hold_as_many_as_there_may_be() {
    let mut net = Net::new(Profile::Local);
    net.lay_wires();
    net.block_all_datagrams(true);
    net.add("n0", 0, &[0]);
    net.run(Duration::from_secs(10));
    let joiner = net.add("n1", 1, &[0]);
    let mut nth = 0;
    for round in 0.. {
        assert!(round < 80, "not in twenty seconds: {}", net.describe());
        for node in [0, joiner] {
            for host in 0..8 {
                for _ in 0..MAX_CALLS_PER_HOST {
                    nth += 1;
                    let (link, bytes) = (LinkId::Accepted((1 << 40) + nth), question(nth));
                    let from = v4(host, nth as usize % 60_000);
                    net.input(node, Input::Link { link, event: LinkEvent::Frame { from, bytes: &bytes } });
                }
            }
        }
        net.run(ms(250));
        if net.nodes[joiner].core.is_up() && net.status(0, "n1") == Some(Status::Up) {
            break;
        }
    }
}

/// Has somebody bring a cookie; returns all that was sent.
pub(super) fn asks(alone: &mut Alone, record: &Record) -> Vec<(SocketAddr, Message)> {
    asks_from(alone, record.address, record)
}

#[test]
fn questions_for_one_name_leave_room_for_those_for_others() {
    let mut alone = Alone::with_teller();
    alone.told_of(0..2, Status::Up);
    let comes = |alone: &mut Alone, name: usize, nth: u64, at: SocketAddr| {
        let holder = member(name, Status::Up);
        let newcomer = Record {
            run: Run(0x20_0000 + nth),
            address: at,
            incarnation: 6,
            status: Status::Joining,
            ..holder.clone()
        };
        let sent = asks(alone, &newcomer);
        sent.iter().any(|(to, message)| *to == holder.address && matches!(message, Message::WhoAreYou { .. }))
    };
    let open = |alone: &Alone| alone.core.name_probes.size();
    let asked = (0..2 * MAX_NAME_PROBES).filter(|nth| comes(&mut alone, 0, *nth as u64, v4(1, *nth))).count();
    assert_eq!((asked, open(&alone)), (1, MAX_NAME_PROBES_PER_HOST), "one question for all of them");
    for nth in 1_000..1_000 + 2 * MAX_NAME_PROBES {
        comes(&mut alone, 0, nth as u64, v4(1 + (nth % 8) as u8, nth));
    }
    assert_eq!(open(&alone), MAX_NAME_PROBES, "several hosts fill the table");
    assert!(comes(&mut alone, 1, 5_000, v4(20, 0)), "another host's newcomer");
    assert!(!comes(&mut alone, 0, 6_000, v4(1, 9_999)), "one more of the first host");
    assert_eq!(open(&alone), MAX_NAME_PROBES);
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
    (0..2 * MAX_DENIALS as u64).for_each(|nth| {
        comes(&mut alone, nth, v4((nth % 4) as u8, nth as usize));
    });
    assert!(comes(&mut alone, 5_000, v4(9, 0)), "another host's joiner is told that it is behind");
}

#[test]
fn joiners_that_asked_too_early_are_welcomed_whoever_else_asked() {
    let mut alone = Alone::new(1);
    let mine = alone.core.me().address;
    alone.core.handle(alone.now, Input::SeedAddresses(vec![vec![mine]]));
    let own = alone.outputs().into_iter().find_map(|output| match output {
        Output::Transmit { to, bytes, .. } if to == mine => Some(bytes),
        _ => None,
    });
    // It learns that it is a seed.
    alone.core.handle(alone.now, Input::Packet { from: mine, bytes: &own.expect("it asks itself") });
    alone.outputs();
    for nth in 0..2 * MAX_JOINERS {
        asks(&mut alone, &joiner(nth, v4((nth % 3) as u8, nth)));
    }
    let late = joiner(90_000, v4(9, 0));
    asks(&mut alone, &late);
    let until = alone.now + Duration::from_secs(20);
    let mut is_welcome = false;
    while !alone.core.is_up() {
        alone.now = alone.core.next_deadline().filter(|deadline| *deadline <= until).expect("it founds a cluster");
        alone.core.handle(alone.now, Input::Tick);
        for output in alone.outputs() {
            if let Output::Transmit { to, bytes, .. } = output {
                let messages = Packet::decode(&bytes).expect("ours").messages;
                is_welcome |=
                    to == late.address && messages.iter().any(|message| matches!(message, Message::Welcome { .. }));
            }
        }
    }
    assert!(is_welcome, "who asked last, and is of another host");
}

#[test]
fn joiners_that_gave_up_leave_their_places_to_others() {
    let mut alone = Alone::new(1);
    let waiting = |told: &[Message]| match told {
        [Message::NotUp { joiners, .. }] => *joiners as usize,
        _ => panic!("{told:?}"),
    };
    for nth in 0..MAX_JOINERS {
        assert_eq!(waiting(&alone.joins(&member(nth, Status::Joining))), nth + 1);
    }
    let patience = alone.core.settings.retry_interval * 2;
    alone.now = alone.now + patience - Duration::from_secs(2);
    assert_eq!(waiting(&alone.joins(&member(MAX_JOINERS - 1, Status::Joining))), MAX_JOINERS, "one goes on asking");
    alone.now = alone.now + Duration::from_secs(2);
    assert_eq!(waiting(&alone.joins(&member(MAX_JOINERS, Status::Joining))), 2);
}

#[test]
fn addresses_that_others_want_to_be_reached_at_use_up_no_strangers_questions() {
    let mut alone = Alone::with_teller();
    for nth in 0..5_000 {
        alone.hand_in(v4(1, nth), Run(0xe), |packet| {
            packet.push(&Message::ReachMe { nonce: Nonce(1), address: v4(20 + (nth % 8) as u8, nth) });
            packet.pad_to(MIN_QUESTION_BYTES);
        });
    }
    let sent = alone.hand_in(v4(9, 0), Run(0xf), |packet| {
        packet.push(&Message::WhoAreYou { nonce: Nonce(1), echo: None });
        packet.pad_to(MIN_QUESTION_BYTES);
    });
    assert!(matches!(sent[..], [(_, Message::WhoAreYou { .. })]), "{sent:?}");
    // Nor the turns of joiners that are heard from elsewhere than they advertise.
    let newcomer = joiner(90_000, v4(20, 9));
    let sent = asks_from(&mut alone, v4(9, 1), &newcomer);
    let is_challenge = |message: &Message| matches!(message, Message::Challenge { .. });
    assert!(sent.iter().any(|(to, message)| *to == newcomer.address && is_challenge(message)), "{sent:?}");
}

/// Has somebody bring a cookie from an address that may be another one than it advertises; returns all that was sent.
fn asks_from(alone: &mut Alone, from: SocketAddr, record: &Record) -> Vec<(SocketAddr, Message)> {
    let cookie = Some(alone.core.prover.cookie(from, record.run, alone.now));
    alone.hand_in(from, record.run, |packet| {
        packet.push(&Message::Join { nonce: Nonce(1), record: record.clone(), cookie });
        packet.pad_to(MIN_QUESTION_BYTES);
    })
}

#[test]
fn of_a_crowd_behind_one_address_nobody_is_called_unreachable_that_was_not_asked() {
    let mut alone = Alone::with_teller();
    let crowd: Vec<Record> = (0..300).map(|nth| joiner(nth, v4(20, 1_000 + nth))).collect();
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
fn one_host_of_joiners_leaves_others_a_share_of_the_questions_at_advertised_addresses() {
    let mut alone = Alone::with_teller();
    let is_asked = |alone: &mut Alone, from: SocketAddr, record: &Record| {
        let sent = asks_from(alone, from, record);
        sent.iter().any(|(to, message)| *to == record.address && matches!(message, Message::Challenge { .. }))
    };
    let at = |nth: usize| v4(20 + (nth % 50) as u8, nth);
    let asked = (0..1_000).filter(|nth| is_asked(&mut alone, v4(9, *nth), &joiner(*nth, at(*nth)))).count();
    assert_eq!(asked, MAX_REACHED_PER_HOST);
    assert!(is_asked(&mut alone, v4(10, 0), &joiner(90_000, v4(99, 0))), "another host's joiner");
}

#[test]
fn calls_to_addresses_that_strangers_name_leave_room_for_own_ones_and_for_those_of_other_strangers() {
    let mut alone = Alone::with_teller();
    let is_called = |alone: &mut Alone, asker: SocketAddr, at: SocketAddr| {
        alone.core.call_for(asker, at);
        alone.outputs().iter().any(|output| matches!(output, Output::OpenLink { to, .. } if *to == at))
    };
    let named = (0..200).filter(|nth| is_called(&mut alone, v4((nth % 4) as u8, *nth), v4(50, *nth))).count();
    assert_eq!(named, MAX_CALLS_FOR_OTHERS);
    assert!(!is_called(&mut alone, v4(0, 300), v4(50, 300)), "one more of the crowded ones");
    for host in 0..MAX_CALLS {
        alone.core.call(address(host));
        let opens = |output: &Output| matches!(output, Output::OpenLink { to, .. } if *to == address(host));
        assert!(alone.outputs().iter().any(opens), "own call {host}");
    }
    assert!(is_called(&mut alone, v4(9, 0), v4(60, 0)), "another host's");
    assert_eq!(alone.core.calls.len(), MAX_CALLS + MAX_CALLS_FOR_OTHERS);
}

#[test]
fn a_call_that_this_node_has_a_reason_for_gives_way_to_no_strangers() {
    let mut alone = Alone::with_teller();
    for nth in 0..MAX_CALLS_FOR_OTHERS {
        alone.core.call_for(v4(0, nth), v4(50, nth));
    }
    let own = [v4(50, 0), v4(50, MAX_CALLS_FOR_OTHERS - 1)];
    for at in own {
        alone.core.call(at);
    }
    alone.outputs();
    for host in 1..20 {
        alone.core.call_for(v4(host, 0), v4(60, usize::from(host)));
    }
    let ended = alone.outputs().iter().filter(|output| matches!(output, Output::CloseLink { .. })).count();
    assert!(ended > 10, "others gave way: {ended}");
    for at in own {
        assert!((1..=99).any(|nth| alone.core.calls.leads_to(LinkId::Opened(nth), at)), "{at} did not");
    }
}

#[test]
fn calls_for_strangers_do_not_become_own_ones_beyond_as_many_as_there_may_be() {
    let mut alone = Alone::with_teller();
    for host in 0..MAX_CALLS {
        alone.core.call(address(host));
    }
    for turn in 0..3 {
        for nth in 0..MAX_CALLS_FOR_OTHERS {
            let at = v4(50 + turn, nth);
            alone.core.call_for(v4(turn, nth), at);
            alone.core.call(at);
        }
    }
    assert_eq!(alone.core.calls.len(), MAX_CALLS + MAX_CALLS_FOR_OTHERS);
}

#[test]
fn members_that_pull_take_no_places_of_joiners() {
    let mut alone = Alone::with_teller();
    alone.introduces(0..3_000);
    for host in 0..2 * MAX_VIEWS_SERVED {
        let puller = member(host, Status::Up);
        let slot = alone.core.view.slot_of_run(puller.run).expect("a member");
        alone.core.view.prove(slot);
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
fn one_member_does_not_use_up_what_a_node_serves_and_members_leave_a_share_to_joiners() {
    let mut alone = Alone::with_teller();
    alone.introduces(0..3_000);
    for term in 0..64 {
        let lease = super::net::id(&format!("lease{term}"));
        alone.core.lease_updates.keep_term(lease, term);
    }
    let members: Vec<Run> = (0..100).map(|host| member(host, Status::Up).run).chain([TELLER]).collect();
    for run in &members {
        let slot = alone.core.view.slot_of_run(*run).expect("a member");
        alone.core.view.prove(slot);
    }
    alone.now = alone.now + Duration::from_secs(1);
    let pulls = |alone: &mut Alone, at: SocketAddr, run: Run| {
        let packets = alone.hand_in_and_take_packets(at, run, |packet| {
            assert!(packet.push(&Message::Reply) && packet.push(&Message::Pull { after: None, pages: 8 }));
        });
        packets.iter().filter(|packet| !packet.is_empty()).count()
    };
    let of_one: usize = (0..300).map(|_| pulls(&mut alone, address(19_999), TELLER)).sum();
    assert!((40..=100).contains(&of_one), "{of_one} packets for one member");
    let all: usize = (0..100).map(|host| pulls(&mut alone, member(host, Status::Up).address, members[host])).sum();
    assert!((100..=200 - of_one).contains(&all), "{all} packets for all others");
    let newcomer = joiner(90_000, v4(9, 0));
    let sent = asks(&mut alone, &newcomer);
    assert!(sent.iter().any(|(_, message)| matches!(message, Message::Welcome { .. })), "{sent:?}");
    let got = pulls(&mut alone, newcomer.address, newcomer.run);
    assert!(got >= 8, "{got} packets for a joiner");
    let dropped = alone.core.counters().dropped(DropReason::RateLimited);
    alone.hand_in(address(19_999), TELLER, |packet| {
        let all = Message::Want { buckets: [0xff; crate::core::view::BUCKETS / 8] };
        assert!(packet.push(&Message::Reply) && packet.push(&all));
    });
    assert_eq!(alone.core.counters().dropped(DropReason::RateLimited), dropped + 1, "a comparison costs nothing then");
}
