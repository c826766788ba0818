//! Agreed views that are longer than a packet: in what order their parts may come, and of whom.

use std::net::SocketAddr;

use super::electing::SECOND;
use super::net::{Net, id, ms};
use headcount_core::limits::{MAX_FETCH_TRIES, VIEW_PARTS};
use headcount_core::wire::{Message, Packet, ViewPart, WantView};
use headcount_core::{DropReason, Profile};

const NODES: usize = 120;
const VOTERS: usize = 3;

fn long_name(node: usize) -> String {
    format!("n{node}-{:050}", 0)
}

/// Returns a cluster whose agreed view takes six parts.
fn long_named() -> Net {
    let mut net = Net::new(Profile::Local);
    net.voters = (0..VOTERS).map(|node| id(&long_name(node))).collect();
    for node in 0..NODES {
        net.add(&long_name(node), node, &[0]);
    }
    net.run(SECOND * 15);
    net.assert_all_up();
    net
}

/// Returns the questions of a node for a view, or the rest of one.
fn questions(net: &Net, node: usize) -> Vec<WantView> {
    asked(net, node).into_iter().map(|(_, want)| want).collect()
}

/// Returns whom this node asked for a view, and its questions.
fn asked(net: &Net, node: usize) -> Vec<(usize, WantView)> {
    let sent = net.sent.iter().flatten().filter(|(from, ..)| *from == net.nodes[node].address);
    let number = |at: &SocketAddr| net.nodes.iter().position(|node| node.address == *at).expect("a node");
    let questions = |(_, to, bytes): &(_, SocketAddr, Vec<u8>)| {
        let messages = Packet::decode(bytes).map(|packet| packet.messages).unwrap_or_default();
        let of = |message| if let Message::WantView(want) = message { Some((number(to), want)) } else { None };
        messages.into_iter().filter_map(of).collect::<Vec<_>>()
    };
    sent.flat_map(questions).collect()
}

#[test]
fn parts_of_a_view_may_come_in_any_order() {
    let mut net = long_named();
    net.jitter = ms(20);
    net.sent = Some(Vec::new());
    let late = net.add("late", NODES, &[5]);
    net.run_until(SECOND * 5, "it knows the view", |net| net.nodes[late].core.agreed_view().is_some());
    // Members that have not heard of it yet answer nothing. A member that answers sends all parts, and no rest is asked
    // for.
    let asked = questions(&net, late);
    assert!(!asked.is_empty());
    assert!(asked.iter().all(|want| want.after.is_none()), "all parts of one answer count, whatever overtook them");
}

#[test]
fn a_view_arrives_although_whoever_told_of_it_died_and_voters_hear_no_question() {
    let mut net = long_named();
    let late = NODES;
    for voter in 0..VOTERS {
        net.cut_one_way(late, voter);
    }
    net.latency = ms(20);
    net.sent = Some(Vec::new());
    net.add("late", late, &[5]);
    while questions(&net, late).is_empty() {
        net.run(ms(1));
    }
    // Whoever told of the view dies before it is asked for it, and the voters hear no question.
    let (teller, _) = *asked(&net, late).last().expect("a question");
    net.kill(teller);
    net.run_until(SECOND * 15, "it knows the view", |net| net.nodes[late].core.agreed_view().is_some());
}

/// Returns a cluster, and a newcomer that has just asked for the view.
fn asking() -> (Net, usize) {
    let mut net = long_named();
    let late = NODES;
    net.sent = Some(Vec::new());
    net.add("late", late, &[5]);
    while questions(&net, late).is_empty() {
        net.run(ms(1));
    }
    (net, late)
}

#[test]
fn a_view_that_nobody_sends_is_asked_for_a_few_times_and_no_more() {
    let (mut net, late) = asking();
    for other in 0..NODES {
        net.cut_one_way(late, other);
        net.cut_one_way(other, late);
    }
    net.run(SECOND * 3);
    assert_eq!(questions(&net, late).len(), usize::from(MAX_FETCH_TRIES));
}

#[test]
fn so_many_parts_that_come_before_those_that_they_follow_are_kept() {
    let (mut net, late) = asking();
    let digest = questions(&net, late)[0].digest;
    let (teller, _) = *asked(&net, late).last().expect("a question");
    let run = net.nodes[teller].core.me().run;
    let core = &mut net.nodes[late].core;
    let mut is_kept = |nth: u8| {
        let (after, members) = (Some(id(&format!("m{nth}"))), vec![id(&format!("m{nth}x"))]);
        let part = ViewPart { digest, after, members, more: true, electorate: None, change: None };
        let before = core.counters().dropped(DropReason::Unasked);
        core.hear(run, Message::ViewPart(Box::new(part)));
        core.counters().dropped(DropReason::Unasked) == before
    };
    for nth in 0..VIEW_PARTS {
        assert!(is_kept(nth), "{nth}");
    }
    assert!(!is_kept(VIEW_PARTS), "one more");
}
