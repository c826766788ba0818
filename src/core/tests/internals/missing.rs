//! Missing voters: who is looked for, by whom, and how often.

use std::time::Duration;

use super::electing::{SECOND, cluster, leader};
use super::net::{Net, address, id, ms};
use crate::io::{Command, Input, LinkEvent, Output};
use crate::limits::{
    MAX_SEEDS, MAX_VOTERS, MIN_QUESTION_BYTES, MISSING_VOTER_PAUSE, MISSING_VOTER_QUESTIONS, MISSING_VOTER_SEARCH,
};
use crate::member::{Run, Status};
use crate::settings::Profile;
use crate::wire::{Header, Message, Packet, PacketBuilder};

/// A member that votes nowhere.
const MEMBER: usize = 3;
/// The time for which packets of a process that is gone may still be under way.
const LAST_PACKETS: Duration = Duration::from_millis(100);

/// Returns the number of packets by which these nodes ask at an address who is there, in so long.
fn questions(net: &mut Net, from: &[usize], to: usize, duration: Duration) -> usize {
    sizes_of_questions(net, from, to, duration).len()
}

/// Returns the number of those by which missing voters are looked for. Whoever is lost is looked for besides, once in a
/// retry interval, by larger questions.
fn looks(net: &mut Net, from: &[usize], to: usize, duration: Duration) -> usize {
    let sizes = sizes_of_questions(net, from, to, duration);
    sizes.into_iter().filter(|bytes| *bytes < MIN_QUESTION_BYTES).count()
}

fn sizes_of_questions(net: &mut Net, from: &[usize], to: usize, duration: Duration) -> Vec<usize> {
    net.sent = Some(Vec::new());
    net.run(duration);
    let from: Vec<_> = from.iter().map(|node| net.nodes[*node].address).collect();
    let sent = net.sent.take().expect("kept");
    let asks = |bytes: &[u8]| {
        let messages = Packet::decode(bytes).expect("decodes").messages;
        messages.iter().any(|message| matches!(message, Message::WhoAreYou { .. }))
    };
    let asked = sent.iter().filter(|(by, at, bytes)| *at == address(to) && from.contains(by) && asks(bytes));
    asked.map(|(_, _, bytes)| bytes.len()).collect()
}

/// Checks that so many looks in so long are about as many as all together may take.
#[track_caller]
fn assert_paced(looks: usize, seconds: usize) {
    let most = MISSING_VOTER_QUESTIONS as usize * seconds;
    assert!(looks >= most * 4 / 5 && looks <= most * 5 / 4, "{looks} of {most}");
}

/// Returns five nodes whose only seed, n0, votes as little as `MEMBER` does.
fn beside_a_seed_without_a_vote() -> Net {
    let mut net = Net::new(Profile::Local);
    net.voters = ["n1", "n2", "n4"].map(id).into();
    for i in 0..5 {
        net.add(&format!("n{i}"), i, &[0]);
    }
    net.run(SECOND * 10);
    net.assert_all_up();
    net
}

#[test]
fn a_missing_voter_is_looked_for_by_everybody_also_while_a_majority_is_there() {
    let mut net = cluster(5, 3);
    let gone = (leader(&net).0 + 1) % 3;
    net.kill(gone);
    net.run(SECOND * 10);
    let left: Vec<usize> = (0..5).filter(|node| *node != gone).collect();
    let looks = looks(&mut net, &left, gone, SECOND * 10);
    assert_paced(looks, 10);
}

#[test]
fn who_is_missing_is_looked_for_like_any_other_after_a_while_and_again_with_each_other_one_that_is_gone_or_comes() {
    let mut net = cluster(6, 3);
    net.kill(1);
    let left = [0, 2, 3, 4];
    let packets = |net: &mut Net| {
        net.sent = Some(Vec::new());
        net.run(SECOND * 20);
        let sent = net.sent.take().expect("kept");
        sent.iter().filter(|(_, to, _)| *to == address(1)).count() / 20
    };
    net.run(SECOND * 10);
    let at_first = packets(&mut net);
    net.run(MISSING_VOTER_SEARCH - SECOND * 20);
    let later = packets(&mut net);
    println!("{at_first} packets a second, then {later}");
    assert!(at_first >= later + 15, "{at_first}, then {later}");
    assert_eq!(looks(&mut net, &left, 1, SECOND * 20), 0, "nothing new");
    assert!(questions(&mut net, &left, 1, SECOND * 20) > 0, "like any lost member");
    net.kill(2);
    net.run(SECOND * 10);
    assert!(looks(&mut net, &left, 1, SECOND * 10) > 0, "both may come back blank");
    net.run(MISSING_VOTER_SEARCH);
    assert_eq!(looks(&mut net, &left, 1, SECOND * 10), 0);
}

#[test]
fn a_missing_voter_is_looked_for_by_many_members_no_more_often_than_by_a_few() {
    let mut net = Net::new(Profile::Local);
    // Each of so many waits for longer than a second between two questions.
    net.settings.retry_interval = SECOND * 5;
    net.voters = (0..3).map(|i| id(&format!("n{i}"))).collect();
    let members = 40;
    for i in 0..members {
        net.add(&format!("n{i}"), i, &[0]);
    }
    net.run(SECOND * 10);
    net.assert_all_up();
    let gone = (leader(&net).0 + 1) % 3;
    net.kill(gone);
    net.run(SECOND * 10);
    let left: Vec<usize> = (0..members).filter(|node| *node != gone).collect();
    let looks = looks(&mut net, &left, gone, SECOND * 10);
    assert_paced(looks, 10);
}

#[test]
fn a_missing_voter_is_asked_by_a_bootstrap_link_once_and_then_by_datagrams_alone() {
    let mut net = cluster(4, 3);
    let gone = (leader(&net).0 + 1) % 3;
    net.kill(gone);
    net.run(SECOND * 10);
    let core = &mut net.nodes[MEMBER].core;
    core.paths.close_bootstraps(&mut core.cx);
    core.out().open_bootstrap(address(gone));
    let opened = std::iter::from_fn(|| core.poll()).find_map(|output| match output {
        Output::OpenLink { link, .. } => Some(link),
        _ => None,
    });
    let link = opened.expect("opened");
    let frames = |net: &Net| net.nodes[MEMBER].core.counters().frames_sent;
    let before = frames(&net);
    net.input(MEMBER, Input::Link { link, event: LinkEvent::Connected });
    assert_eq!(frames(&net), before + 1);
    let asked = questions(&mut net, &[MEMBER], gone, SECOND * 4);
    assert!(asked >= 4 * MISSING_VOTER_QUESTIONS as usize / 4, "{asked}");
    // Whoever is lost is looked for besides, once in a retry interval.
    let copies = frames(&net) - before - 1;
    assert!(copies <= 2 * 4, "{copies} of {asked}");
}

#[test]
fn where_another_member_is_at_the_address_of_a_voter_that_is_gone_nobody_looks_for_that_one() {
    let mut net = cluster(5, 3);
    let gone = if leader(&net).0 == 1 { 2 } else { 1 };
    net.kill(gone);
    net.run(SECOND * 10);
    let left: Vec<usize> = (0..5).filter(|node| *node != gone).collect();
    assert_paced(looks(&mut net, &left, gone, SECOND * 10), 10);
    let another = net.add_unconfigured("another", gone, &[0]);
    net.run(SECOND * 10);
    assert_eq!(net.status(0, "another"), Some(Status::Up));
    for node in left.into_iter().chain([another]) {
        assert_eq!(looks(&mut net, &[node], gone, SECOND * 5), 0, "n{node}");
    }
}

#[test]
fn a_missing_seed_is_looked_for_where_an_electorate_is_known_and_no_more_once_it_is_there() {
    let mut net = beside_a_seed_without_a_vote();
    let left = [1, 2, 3, 4];
    assert_eq!(questions(&mut net, &left, 0, SECOND * 10), 0, "it is there");
    net.command(0, Command::Leave);
    net.run(SECOND * 10);
    let looks = looks(&mut net, &left, 0, SECOND * 10);
    assert_paced(looks, 10);
    net.add("n0", 0, &[1]);
    net.run(SECOND * 10);
    assert_eq!(questions(&mut net, &left, 0, SECOND * 10), 0, "it is there again");
}

#[test]
fn a_member_that_is_heard_from_a_seeds_address_and_has_another_one_is_not_missed() {
    let mut net = Net::new(Profile::Local);
    net.voters = (0..3).map(|i| id(&format!("n{i}"))).collect();
    net.seen_at.insert(address(0), address(60));
    for i in 0..4 {
        net.add(&format!("n{i}"), i, &[60]);
    }
    net.run(SECOND * 30);
    net.assert_all_up();
    let looks = looks(&mut net, &[1, 2, 3], 60, SECOND * 10);
    assert_eq!(looks, 0);
}

#[test]
fn where_no_electorate_was_ever_heard_of_seeds_are_looked_for_like_any_others() {
    let mut net = Net::new(Profile::Local);
    net.voters = (0..3).map(|i| id(&format!("n{i}"))).collect();
    net.add("n0", 0, &[0, 60]);
    net.add("n3", 1, &[0, 60]);
    net.run(SECOND * 10);
    net.assert_all_up();
    let looks = looks(&mut net, &[0, 1], 60, SECOND * 10);
    assert_eq!(looks, 0);
}

#[test]
fn who_knows_that_there_is_an_electorate_and_not_its_voters_looks_for_its_seeds() {
    let mut net = cluster(4, 3);
    (0..4).for_each(|node| net.kill(node));
    // Its disk holds that there was one.
    let late = net.add("n3", 3, &[3, 60]);
    net.run(SECOND * 10);
    assert!(net.nodes[late].core.is_up(), "{}", net.describe());
    assert_eq!(net.nodes[late].core.electorate(), None);
    let asked = questions(&mut net, &[late], 60, SECOND * 10);
    assert!(asked >= 10 * MISSING_VOTER_QUESTIONS as usize / 4, "{asked}");
}

/// Has a member take note that the first two nodes may be gone, which say nothing from now on but a last word so long
/// after that; returns the number of times that it looks for n0 from then on, before it would suspect it.
fn looked_for(net: &mut Net, member: usize, heard_after: Duration) -> usize {
    let runs = [0, 1].map(|gone| net.nodes[gone].core.me().run);
    net.nodes[member].core.cx.now = net.now;
    for (gone, run) in runs.into_iter().enumerate() {
        net.pause(gone, true);
        net.nodes[member].core.tell_lead(|lead, cx| lead.voter_may_be_gone(cx, run));
    }
    net.run(heard_after);
    let (now, core) = (net.now, &mut net.nodes[member].core);
    for run in runs {
        let slot = core.view.slot_of_run(run).expect("known");
        core.view.peer_mut(slot).lived_at(now);
    }
    let asked = questions(net, &[member], 0, ms(550));
    for gone in [0, 1] {
        net.pause(gone, false);
    }
    net.run(SECOND * 5);
    asked
}

#[test]
fn a_voter_is_missing_from_the_moment_at_which_its_link_broke_until_it_is_heard_again() {
    let asked_if_heard = |after| looked_for(&mut cluster(4, 3), MEMBER, after);
    assert!(asked_if_heard(Duration::ZERO) > 0);
    assert!(asked_if_heard(LAST_PACKETS) > 0, "these are its last packets");
    assert_eq!(asked_if_heard(LAST_PACKETS + ms(1)), 0, "it is there");
}

#[test]
fn so_is_a_seed_that_votes_nowhere() {
    let asked_if_heard = |after| looked_for(&mut beside_a_seed_without_a_vote(), MEMBER, after);
    assert!(asked_if_heard(Duration::ZERO) > 0);
    assert_eq!(asked_if_heard(LAST_PACKETS + ms(1)), 0, "it is there");
}

#[test]
fn links_to_voters_that_broke_long_ago_keep_no_new_one_from_being_noticed() {
    let mut net = cluster(4, 3);
    let mut node = 2;
    for _ in 0..=MAX_VOTERS + MAX_SEEDS {
        let run = net.nodes[node].core.me().run;
        net.nodes[MEMBER].core.tell_lead(|lead, cx| lead.voter_may_be_gone(cx, run));
        net.kill(node);
        net.run(SECOND);
        node = net.add("n2", 2, &[MEMBER]);
        net.run(SECOND * 5);
    }
    let asked = looked_for(&mut net, MEMBER, Duration::ZERO);
    assert!(asked > 0, "not asked");
}

#[test]
fn in_a_large_cluster_a_voter_whose_link_broke_is_looked_for_by_its_observers_within_their_own_turn() {
    let mut net = cluster(60, 3);
    let turn = (net.settings.observers + 1) as u32 * SECOND / MISSING_VOTER_QUESTIONS;
    assert!(turn <= ms(550));
    for member in [MEMBER, 20, 40, 59] {
        let asked = looked_for(&mut net, member, Duration::ZERO);
        assert!(asked > 0, "by n{member}");
    }
}

#[test]
fn members_that_miss_voters_at_one_moment_do_not_all_ask_at_once() {
    let members = 20;
    let mut net = cluster(3 + members, 3);
    let all: Vec<usize> = (3..3 + members).collect();
    for voter in 0..3 {
        net.pause(voter, true);
    }
    for voter in [0, 1] {
        let run = net.nodes[voter].core.me().run;
        for member in &all {
            net.nodes[*member].core.tell_lead(|lead, cx| lead.voter_may_be_gone(cx, run));
        }
    }
    // They take turns of half a second and more.
    let asked = questions(&mut net, &all, 0, ms(100));
    assert!(asked <= members / 2, "{asked} of {members}");
}

/// Has a stranger send a packet from a voter's address that is too small to be asked back.
fn stranger_sends(net: &mut Net, from: usize, sequence: u64) {
    let header = Header { cluster: Header::cluster_hash("test"), run: Run(0xbad), sequence, fingerprint: 0 };
    let mut packet = PacketBuilder::new(&header, 1_400);
    packet.push(&Message::Reply);
    let bytes = packet.finish();
    net.input(MEMBER, Input::Packet { from: address(from), bytes: &bytes });
}

#[test]
fn a_stranger_at_a_voters_or_a_seeds_address_is_asked_at_once_and_again_after_a_pause_alone() {
    for net in [cluster(4, 3), beside_a_seed_without_a_vote()] {
        asks_strangers_at_n0(net);
    }
}

fn asks_strangers_at_n0(mut net: Net) {
    net.pause(0, true);
    let asked = |net: &mut Net, packets: u64| {
        let mut count = 0;
        for sequence in 0..packets {
            net.sent = Some(Vec::new());
            stranger_sends(net, 0, sequence + 1);
            count += net.sent.take().expect("kept").iter().filter(|(_, to, _)| *to == address(0)).count();
        }
        count
    };
    assert_eq!(asked(&mut net, 10), 1);
    net.run(MISSING_VOTER_PAUSE - ms(1));
    assert_eq!(asked(&mut net, 10), 0, "it was asked a moment ago");
    net.run(ms(1));
    assert_eq!(asked(&mut net, 10), 1);
}
