//! Keepsakes: who is given one, and whose are held.

use std::time::Duration;

use super::limits::{Alone, member};
use super::net::Net;
use crate::core::member::{Record, Status};
use crate::core::wire::{Message, Nonce};

/// Has a member ask whether this node is there; returns what it is sent.
fn probed(alone: &mut Alone, by: &Record) -> Vec<Message> {
    let sent = alone.hand_in(by.address, by.run, |packet| {
        packet.push(&Message::Probe { nonce: Nonce(7), doubted: false });
        packet.pad_to(256);
    });
    sent.into_iter().filter(|(to, _)| *to == by.address).map(|(_, message)| message).collect()
}

fn is_given(sent: &[Message]) -> bool {
    sent.iter().any(|message| matches!(message, Message::Keepsake { .. }))
}

/// Has a member answer the question that stands in this answer, and so prove its address.
fn proves(alone: &mut Alone, member: &Record, answer: &[Message]) {
    let asked = answer.iter().find_map(|message| match message {
        Message::Probe { nonce, .. } => Some(*nonce),
        _ => None,
    });
    let nonce = asked.expect("it is asked");
    alone.hand_in(member.address, member.run, |packet| {
        packet.push(&Message::Ack { nonce });
    });
}

#[test]
fn a_keepsake_is_given_to_an_observer_once_its_address_is_proven_and_to_nobody_else() {
    let mut alone = Alone::with_teller();
    alone.told_of(0..200, Status::Up);
    let is_observer = |alone: &Alone, host: usize| {
        let slot = alone.core.view.slot_of_run(member(host, Status::Up).run).expect("a member");
        alone.core.observes(slot)
    };
    for expected in [true, false] {
        let host = (0..200).find(|host| is_observer(&alone, *host) == expected).expect("of 200");
        let member = member(host, Status::Up);
        let answer = probed(&mut alone, &member);
        assert!(!is_given(&answer), "its address is not proven");
        proves(&mut alone, &member, &answer);
        assert_eq!(is_given(&probed(&mut alone, &member)), expected, "an observer: {expected}");
    }
}

#[test]
fn a_keepsake_that_nobody_asked_for_is_not_kept() {
    let mut alone = Alone::with_teller();
    alone.told_of(0..1, Status::Up);
    let (member, before) = (member(0, Status::Up), alone.core.keepsakes.size());
    alone.hand_in(member.address, member.run, |packet| {
        packet.push(&Message::Keepsake { keepsake: Nonce(9) });
    });
    assert_eq!(alone.core.keepsakes.size(), before);
}

#[test]
fn keepsakes_of_runs_that_are_gone_are_forgotten() {
    let mut net = Net::with_short_memory(4);
    net.run(Duration::from_secs(5));
    let held = |net: &Net| net.running().map(|node| node.core.keepsakes.size()).collect::<Vec<_>>();
    assert_eq!(held(&net), [3; 4]);
    net.kill(3);
    net.run(Duration::from_secs(1));
    net.add("n3", 3, &[0]);
    net.run(Duration::from_secs(10));
    assert_eq!(held(&net), [3; 4], "the next run in place of the one before");
    net.kill(4);
    net.run(net.settings.reap_after * 2);
    assert_eq!(held(&net), [2; 3], "forgotten with the member");
}
