//! Words about leases: how they reach everybody, and what somebody who sends too many achieves.

use super::liars::Liar;
use super::net::{Net, id, ms};
use crate::core::counters::DropReason;
use crate::core::doors::Command;
use crate::core::limits::{LEASE_WORDS_PER_SECOND, MAX_LEASE_UPDATES, SETTLE};
use crate::core::settings::Profile;
use crate::core::wire::{LeaseUpdate, Message};

fn word(term: u64) -> LeaseUpdate {
    LeaseUpdate { lease: id("billing"), node: id("n1"), term, kind: 1, nonce: 0 }
}

#[test]
fn a_word_reaches_every_member_once_also_far_along_the_rings() {
    for members in [2, 5, 60] {
        let mut net = Net::cluster(Profile::Local, members);
        // In a large cluster not everybody's word counts at once.
        net.run(if members > 10 { SETTLE + SETTLE } else { ms(0) });
        net.command(1, Command::TellLease(word(7)));
        net.command(1, Command::TellLease(word(7)));
        net.run(ms(300));
        for (node, heard) in net.nodes.iter().map(|node| &node.lease_updates).enumerate() {
            let expected = if node == 1 { vec![] } else { vec![word(7)] };
            assert_eq!(*heard, expected, "node {node} of {members}");
        }
    }
}

#[test]
fn the_word_of_a_newcomer_is_heard_and_goes_no_further() {
    let mut net = Net::cluster(Profile::Local, 5);
    net.run(SETTLE + SETTLE);
    let new = net.add("new", 5, &[0]);
    net.run(ms(3_000));
    net.assert_all_up();
    Liar::new(new).says(&mut net, 0, &[Message::LeaseUpdate(Box::new(word(7)))]);
    net.run(ms(300));
    let heard: Vec<usize> = net.nodes.iter().map(|node| node.lease_updates.len()).collect();
    assert_eq!(heard, [1, 0, 0, 0, 0, 0]);
    // The same word of one whose word counts is none that is known.
    Liar::new(1).says(&mut net, 0, &[Message::LeaseUpdate(Box::new(word(7)))]);
    net.run(ms(300));
    assert!(net.nodes.iter().all(|node| !node.lease_updates.is_empty()));
}

#[test]
fn whoever_sends_words_without_end_is_heard_within_bounds_and_others_still_are() {
    let mut net = Net::cluster(Profile::Local, 5);
    let liar = Liar::new(4);
    let many = 3 * MAX_LEASE_UPDATES as u64;
    for term in 0..many {
        liar.says(&mut net, 0, &[Message::LeaseUpdate(Box::new(word(term)))]);
    }
    let heard = net.nodes[0].lease_updates.len();
    assert_eq!(heard, LEASE_WORDS_PER_SECOND as usize);
    assert!(net.nodes[0].core.counters().dropped(DropReason::RateLimited) >= many - heard as u64);
    net.run(ms(1_100));
    net.command(3, Command::TellLease(word(many)));
    net.run(ms(100));
    assert_eq!(net.nodes[0].lease_updates.last(), Some(&word(many)));
}
