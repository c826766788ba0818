//! News about leases: the way by which they reach everybody, and what somebody who sends too many achieves.

use super::net::{Net, id, ms};
use super::speaker::Speaker;
use headcount_core::limits::{LEASE_UPDATES_PER_SECOND, MAX_LEASE_TERMS, MAX_LEASE_UPDATES, SETTLE};
use headcount_core::wire::{LeaseUpdate, Message};
use headcount_core::{Command, DropReason, Profile};

fn update(term: u64) -> LeaseUpdate {
    LeaseUpdate { lease: id("billing"), node: id("n1"), term, kind: 1, nonce: 0 }
}

#[test]
fn an_update_reaches_every_member_once_also_far_along_the_rings() {
    for members in [2, 5, 60] {
        let mut net = Net::cluster(Profile::Local, members);
        // In a large cluster not everybody is believed at once.
        net.run(if members > 10 { SETTLE + SETTLE } else { ms(0) });
        net.command(1, Command::TellLease(update(7)));
        net.command(1, Command::TellLease(update(7)));
        net.run(ms(300));
        for (node, heard) in net.nodes.iter().map(|node| &node.lease_updates).enumerate() {
            let expected = if node == 1 { vec![] } else { vec![update(7)] };
            assert_eq!(*heard, expected, "node {node} of {members}");
        }
    }
}

#[test]
fn the_update_of_a_newcomer_is_heard_and_goes_no_further() {
    let mut net = Net::cluster(Profile::Local, 5);
    net.run(SETTLE + SETTLE);
    let new = net.add("new", 5, &[0]);
    net.run(ms(3_000));
    net.assert_all_up();
    Speaker::new(new).says(&mut net, 0, &[Message::LeaseUpdate(Box::new(update(7)))]);
    net.run(ms(300));
    let heard: Vec<usize> = net.nodes.iter().map(|node| node.lease_updates.len()).collect();
    assert_eq!(heard, [1, 0, 0, 0, 0, 0]);
    // An update that did not count is not known: it is new when one says it that is believed.
    Speaker::new(1).says(&mut net, 0, &[Message::LeaseUpdate(Box::new(update(7)))]);
    net.run(ms(300));
    assert!(net.nodes.iter().all(|node| !node.lease_updates.is_empty()));
}

#[test]
fn a_newcomer_is_taught_the_terms_that_its_sponsor_knows_and_nobody_passes_them_on() {
    for members in [1, 5, 40] {
        let mut net = Net::cluster(Profile::Local, members);
        for node in 0..members {
            net.command(node, Command::KeepLeaseTerm { lease: id("billing"), term: 5 });
            net.command(node, Command::KeepLeaseTerm { lease: id("billing"), term: 4 });
            net.command(node, Command::KeepLeaseTerm { lease: id("default"), term: 9 });
        }
        let new = net.add("new", members, &[0]);
        net.run_until(ms(3_000), "the newcomer is in", Net::all_agree);
        net.run(ms(1_000));
        let heard = &net.nodes[new].lease_updates;
        let told: Vec<_> = heard.iter().map(|update| (update.lease.as_str(), update.term, update.kind)).collect();
        assert_eq!(told, [("billing", 5, LeaseUpdate::TAUGHT), ("default", 9, LeaseUpdate::TAUGHT)], "of {members}");
        assert!(net.nodes[..members].iter().all(|node| node.lease_updates.is_empty()));
    }
}

#[test]
fn a_newcomer_is_taught_the_terms_of_leaders_whose_updates_its_sponsor_heard() {
    let mut net = Net::cluster(Profile::Local, 5);
    net.run(SETTLE + SETTLE);
    net.command(1, Command::TellLease(update(7)));
    net.run(ms(500));
    net.kill(1);
    net.run(ms(1_000));
    let new = net.add("new", 5, &[0]);
    net.run_until(ms(3_000), "the newcomer is in", Net::all_agree);
    let taught = |update: &LeaseUpdate| (update.kind == LeaseUpdate::TAUGHT).then_some(update.term);
    assert!(net.nodes[new].lease_updates.iter().any(|update| taught(update) == Some(7)));
}

#[test]
fn a_newcomer_is_taught_the_terms_of_as_many_leases_as_are_kept() {
    let mut net = Net::cluster(Profile::Local, 2);
    for node in 0..2 {
        for lease in 0..=MAX_LEASE_TERMS {
            let lease = id(&format!("a-rather-long-name-of-a-lease-that-makes-for-many-packets-{lease:03}"));
            net.command(node, Command::KeepLeaseTerm { lease, term: 7 });
        }
    }
    let new = net.add("new", 2, &[0]);
    net.run_until(ms(3_000), "the newcomer is in", Net::all_agree);
    assert_eq!(net.nodes[new].lease_updates.len(), MAX_LEASE_TERMS);
}

/// Returns the names of the nodes that believe an update of this node, if it says it now.
fn believers(net: &mut Net, speaker: usize, term: u64) -> Vec<String> {
    net.command(speaker, Command::TellLease(update(term)));
    net.run(ms(500));
    let believes = |node: &&super::net::Node| node.believed_updates.contains(&update(term));
    net.running().filter(believes).map(|node| node.core.me().id.to_string()).collect()
}

#[test]
fn a_member_that_is_restarted_at_its_address_is_believed_at_once_and_nobody_else_is() {
    let mut net = Net::cluster(Profile::Local, 5);
    net.run(SETTLE + SETTLE);
    // Killed or asked to leave; and once more, though it has not settled since.
    for term in 1..4 {
        let place = net.nodes.iter().rposition(|node| node.core.me().id == id("n3")).expect("it was added");
        if term == 1 {
            net.command(place, Command::Leave);
            net.run(ms(1_000));
        }
        net.kill(place);
        net.run(ms(1_000));
        let back = net.add("n3", 3, &[0]);
        net.run_until(ms(3_000), "back", Net::all_agree);
        net.run(ms(500));
        assert_eq!(believers(&mut net, back, term), ["n0", "n1", "n2", "n4"], "{term}");
    }
    // Another name at that address, that name at another address, and somebody new.
    net.kill(4);
    net.run(ms(1_000));
    for (name, host, term) in [("x", 4, 10), ("n4", 94, 11), ("y", 95, 12)] {
        let new = net.add(name, host, &[0]);
        net.run_until(ms(3_000), "in", Net::all_agree);
        net.run(ms(500));
        assert_eq!(believers(&mut net, new, term), [""; 0], "{name} at {host}");
        net.kill(new);
        net.run(ms(1_000));
    }
}

#[test]
fn a_newcomer_that_asks_for_a_resignation_is_told_that_it_is_not_believed() {
    let mut net = Net::cluster(Profile::Local, 5);
    net.run(SETTLE + SETTLE);
    let new = net.add("new", 5, &[0]);
    net.run(ms(3_000));
    let update = LeaseUpdate { lease: id("default"), node: id("new"), term: 7, kind: LeaseUpdate::RESIGN, nonce: 99 };
    net.command(new, Command::TellLease(update.clone()));
    net.run(ms(500));
    let declined = |update: &LeaseUpdate| (update.kind, update.term, update.nonce) == (LeaseUpdate::DECLINED, 7, 99);
    let by: Vec<_> =
        net.nodes[new].lease_updates.iter().filter(|update| declined(update)).map(|update| &update.node).collect();
    assert_eq!(by.len(), 5, "{by:?}");
    assert!(net.nodes[..5].iter().all(|node| !node.lease_updates.iter().any(declined)), "it goes to the asker alone");
}

#[test]
fn whoever_sends_updates_without_end_is_heard_within_bounds_and_others_still_are() {
    let mut net = Net::cluster(Profile::Local, 5);
    let speaker = Speaker::new(4);
    let many = 3 * MAX_LEASE_UPDATES as u64;
    for term in 0..many {
        speaker.says(&mut net, 0, &[Message::LeaseUpdate(Box::new(update(term)))]);
    }
    let heard = net.nodes[0].lease_updates.len();
    assert_eq!(heard, LEASE_UPDATES_PER_SECOND as usize);
    assert!(net.nodes[0].core.counters().dropped(DropReason::RateLimited) >= many - heard as u64);
    net.run(ms(1_100));
    net.command(3, Command::TellLease(update(many)));
    net.run(ms(100));
    assert_eq!(net.nodes[0].lease_updates.last(), Some(&update(many)));
}
