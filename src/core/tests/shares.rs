//! Tables that everybody shares: one host, or one network, does not fill them for the others.

use std::net::{IpAddr, Ipv6Addr, SocketAddr};
use std::time::Duration;

use super::limits::{Alone, TELLER, member};
use super::net::{Net, address, ms};
use crate::core::counters::DropReason;
use crate::core::doors::{Input, LinkEvent, LinkId, Output};
use crate::core::limits::{
    ADMISSION_INTERVAL, MAX_CALLS, MAX_CALLS_PER_HOST, MAX_DENIALS, MAX_JOINERS, MAX_JOINERS_PER_HOST, MAX_NAME_PROBES,
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
