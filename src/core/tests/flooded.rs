//! Honest nodes that come while their cluster is full of members that do not exist: they wait no longer than elsewhere.

use std::net::SocketAddr;
use std::time::Duration;

use super::invention::{AT_ONCE, teller, tells};
use super::liars::update;
use super::limits::{Alone, TELLER, member};
use super::net::{Net, address, id, ms};
use crate::core::limits::{
    MANY_NAMES, MAX_GHOSTS, MAX_REFUSED_NAMES_ASKED, MAX_REFUSED_NAMES_ASKED_PER_HOST, MAX_VIEWS_SERVED,
    MIN_QUESTION_BYTES, NAMES_AT_ONCE, QUESTION_INTERVAL, SYNC_PACKETS,
};
use crate::core::member::tests::record;
use crate::core::member::{Record, Run, Status};
use crate::core::packet::News;
use crate::core::settings::Profile;
use crate::core::view::BUCKETS;
use crate::core::wire::{Message, Nonce};

const OLD: usize = 5;
/// The invented members: more than one member may tell of.
const INVENTED: usize = 10_500;

fn invented(net: &Net, nth: usize) -> Record {
    let mut record = record(&format!("g{nth}"), 1_000_000, Status::Up);
    (record.run, record.timing) = (Run(0xe_0000 + nth as u64), net.settings.timing().expect("good settings"));
    record.address = std::net::SocketAddr::from(([127, 9, (nth / 250) as u8, (nth % 250) as u8], 7117));
    record
}

/// Returns a linked cluster of which everybody has been told of so many members that are not there.
fn flooded(count: usize) -> Net {
    let mut net = Net::linked(Profile::Local, OLD);
    for nth in 0..count {
        for node in 0..OLD {
            let teller = id(&format!("n{}", (node + 1 + nth / NAMES_AT_ONCE as usize) % OLD));
            let record = invented(&net, nth);
            let core = &mut net.nodes[node].core;
            core.now = net.now;
            let from = core.view.slot_of(teller.as_str());
            core.learn(News::told(record), from);
        }
        if nth % 10 == 0 {
            (0..OLD).for_each(|node| net.drain(node));
        }
    }
    (0..OLD).for_each(|node| net.drain(node));
    net.run(ms(1_000));
    let known = net.nodes[0].core.records().count();
    assert!(known >= OLD + count, "all were believed: {known}");
    net
}

fn knows(net: &Net, node: usize, name: &str) -> bool {
    net.status(node, name) == Some(Status::Up)
}

/// Returns the time until a newcomer is Up at all old members, and they at it.
fn joins(net: &mut Net, host: usize) -> Duration {
    let name = format!("j{host}");
    let newcomer = net.add(&name, host, &[0, 1]);
    net.run_until(ms(10_000), "it is in, and knows the old ones", |net| {
        (0..OLD).all(|old| knows(net, old, &name) && knows(net, newcomer, &format!("n{old}")))
    })
}

#[test]
fn newcomers_are_in_as_soon_as_in_a_cluster_without_invented_members() {
    let [quiet, flooded] = [0, INVENTED].map(|count| {
        let mut net = flooded(count);
        (30..36).map(|host| joins(&mut net, host)).max().expect("some")
    });
    assert!(flooded <= 2 * quiet, "{flooded:?}, and {quiet:?} without");
}

#[test]
fn an_island_is_found_within_three_seconds_in_a_cluster_full_of_invented_members() {
    let mut net = flooded(INVENTED);
    let (first, seed) = (net.nodes.len(), 50);
    for nth in 0..5 {
        net.add(&format!("isl{nth}"), seed + nth, &[seed]);
    }
    let is_one = |net: &Net| (first..first + 5).all(|node| (0..5).all(|nth| knows(net, node, &format!("isl{nth}"))));
    net.run_until(ms(5_000), "the island is a cluster", is_one);
    net.add("bridge", 60, &[seed, 0]);
    let old_know = |net: &Net| (0..OLD).all(|old| (0..5).all(|nth| knows(net, old, &format!("isl{nth}"))));
    let island_knows =
        |net: &Net| (first..first + 5).all(|node| (0..OLD).all(|old| knows(net, node, &format!("n{old}"))));
    net.run_until(ms(3_000), "it is one cluster", |net| old_know(net) && island_knows(net));
}

/// Introduces members whose names are no hearsay, as they echo to the node.
fn known(alone: &mut Alone, members: std::ops::Range<usize>) {
    alone.introduces(members.clone());
    for host in members {
        let slot = alone.core.view.slot_of_run(member(host, Status::Up).run).expect("it is in");
        alone.core.view.prove(slot);
    }
}

fn names(sent: &[(std::net::SocketAddr, Message)]) -> Vec<String> {
    let name = |message: &Message| match message {
        Message::Update(update) => Some(update.record.id.to_string()),
        _ => None,
    };
    sent.iter().filter_map(|(_, message)| name(message)).collect()
}

fn is_known(name: &str) -> bool {
    name < "m100000"
}

/// Has a member that is proven ask for all records.
fn wants_all(alone: &mut Alone) -> Vec<Vec<String>> {
    alone.pass(ms(1_000));
    let slot = alone.core.view.slot_of_run(TELLER).expect("it is in");
    alone.core.view.prove(slot);
    let want = Message::Want { buckets: [0xff; BUCKETS / 8] };
    let packets = alone.hand_in_and_take_packets(address(19_999), TELLER, |packet| {
        // News besides is for questions alone.
        assert!(packet.push(&Message::Reply) && packet.push(&want));
    });
    packets.iter().map(|packet| names(packet)).filter(|names| !names.is_empty()).collect()
}

#[test]
fn an_answer_to_a_comparison_has_so_many_packets_and_no_more() {
    let mut alone = Alone::with_teller();
    alone.introduces(0..100);
    let whole = wants_all(&mut alone);
    assert!(whole.len() < SYNC_PACKETS && whole.concat().len() >= 100, "all of them");
    alone.introduces(100..2_000);
    assert_eq!(wants_all(&mut alone).len(), SYNC_PACKETS);
}

#[test]
fn members_that_answered_are_told_of_first_while_there_are_many_names_and_the_others_have_a_share() {
    let mut alone = Alone::with_teller();
    known(&mut alone, 0..5);
    alone.told_of(100_000..100_000 + MANY_NAMES - 1, Status::Up);
    let few = wants_all(&mut alone).concat();
    assert!(!few[..7].iter().all(|name| is_known(name)), "in the order of buckets: {:?}", &few[..7]);
    // The one who tells is the last name that there may be.
    alone.told_of(200_000..200_002, Status::Up);
    let many = wants_all(&mut alone).concat();
    let first = many.iter().take_while(|name| is_known(name) || name.starts_with('s')).count();
    assert_eq!(first, 7, "with this node, and the one that asks");
    // More that are known than fit: half of the packets are for the others, and each time others are left out.
    known(&mut alone, 5..1_000);
    let told = wants_all(&mut alone);
    assert!(told[..SYNC_PACKETS / 2].iter().flatten().all(|name| is_known(name) || name.starts_with('s')));
    assert!(!told[SYNC_PACKETS / 2..].iter().flatten().any(|name| is_known(name)));
    assert_ne!(told, wants_all(&mut alone));
}

#[test]
fn a_joiner_is_served_members_that_answered_alone_if_there_are_more_ghosts_than_are_remembered() {
    let mut alone = Alone::with_teller();
    known(&mut alone, 0..5);
    // The teller itself is on hearsay to begin with, as its own sponsor is this node.
    let served = |alone: &mut Alone, host: usize| {
        let joiner = member(host, Status::Joining);
        assert!(matches!(alone.joins(&joiner)[..], [Message::Welcome { .. }]));
        let (mut after, mut all) = (None, Vec::new());
        loop {
            let sent = alone.hand_in(joiner.address, joiner.run, |packet| {
                packet.push(&Message::Pull { after: after.take(), pages: 1 });
            });
            let page = names(&sent);
            let more = sent.iter().any(|(_, message)| matches!(message, Message::Page { more: true, .. }));
            after = page.last().map(|name| id(name));
            all.extend(page);
            alone.now = alone.now + ms(1);
            if !more {
                return all;
            }
        }
    };
    alone.told_of(100_000..100_000 + MAX_GHOSTS - 1, Status::Up);
    assert!(served(&mut alone, 50).len() >= MAX_GHOSTS, "the whole view");
    alone.told_of(300_000..300_003, Status::Up);
    let told = served(&mut alone, 51);
    assert!(told.len() <= 8 && (0..5).all(|host| told.contains(&member(host, Status::Up).id.to_string())), "{told:?}");
}

#[test]
fn so_many_names_that_are_refused_are_asked_whether_they_are_there_and_who_answers_is_in() {
    let mut alone = Alone::with_teller();
    let run = teller(&mut alone, 7);
    tells(&mut alone, run, 100_000..100_000 + AT_ONCE);
    let asked = |alone: &mut Alone, records: &[Record]| {
        let news: Vec<_> = records.iter().map(|record| update(record.clone())).collect();
        let sent = alone.hand_in(address(19_999), run, |packet| {
            for news in &news {
                assert!(packet.push(news));
            }
        });
        let questions = sent.into_iter().filter_map(|(to, message)| match message {
            Message::WhoAreYou { nonce, .. } => Some((to, nonce)),
            _ => None,
        });
        questions.collect::<Vec<(std::net::SocketAddr, Nonce)>>()
    };
    // On hosts of their own; and then many on one host.
    let ask_all = |alone: &mut Alone, records: Vec<Record>| {
        records.chunks(10).flat_map(|records| asked(alone, records)).collect::<Vec<_>>()
    };
    let hosts =
        |first: usize| (first..first + 2 * MAX_REFUSED_NAMES_ASKED).map(|host| member(host, Status::Up)).collect();
    let questions = ask_all(&mut alone, hosts(300_000));
    assert_eq!(questions.len(), MAX_REFUSED_NAMES_ASKED);
    alone.now = alone.now + QUESTION_INTERVAL * 2;
    let on_one_host = |nth: usize| {
        let mut record = member(400_000 + nth, Status::Up);
        record.address = std::net::SocketAddr::from(([11, 1, 1, 1], 1_000 + nth as u16));
        record
    };
    // The trickle of names is used up first.
    tells(&mut alone, run, 500_000..500_200);
    alone.now = alone.now + QUESTION_INTERVAL;
    tells(&mut alone, run, 510_000..510_064);
    let questions = ask_all(&mut alone, (0..100).map(on_one_host).collect());
    assert_eq!(questions.len(), MAX_REFUSED_NAMES_ASKED_PER_HOST);
    let (to, nonce) = questions[0];
    let record = (0..100).map(on_one_host).find(|record| record.address == to).expect("one of them");
    assert_eq!(alone.core.record(&record.id), None);
    alone.hand_in(to, record.run, |packet| {
        packet.push(&Message::IAm { nonce, record: record.clone() });
    });
    assert!(alone.core.record(&record.id).is_some(), "its own word needs no budget");
}

#[test]
fn a_busy_sponsor_refers_to_members_that_it_has_met_however_many_are_invented() {
    let mut alone = Alone::with_teller();
    alone.introduces(0..3);
    for host in 0..3 {
        let slot = alone.core.view.slot_of_run(member(host, Status::Up).run).expect("a member");
        alone.core.view.prove(slot);
    }
    alone.told_of(100_000..100_000 + MANY_NAMES + 10, Status::Up);
    let ask = |alone: &mut Alone, host: usize, is_proven: bool| {
        let joiner = member(host, Status::Joining);
        let cookie = is_proven.then(|| alone.core.prover.cookie(joiner.address, joiner.run, alone.now));
        let sent = alone.hand_in(joiner.address, joiner.run, |packet| {
            packet.push(&Message::Join { nonce: Nonce(1), record: joiner.clone(), cookie });
            packet.pad_to(MIN_QUESTION_BYTES);
        });
        sent.into_iter().map(|(_, message)| message).next_back()
    };
    for host in 500..500 + MAX_VIEWS_SERVED {
        assert!(matches!(ask(&mut alone, host, true), Some(Message::Welcome { .. })), "{host}");
    }
    let Some(Message::Elsewhere { members, .. }) = ask(&mut alone, 600, false) else { panic!("all places are taken") };
    let met = [0, 1, 2].map(|host| member(host, Status::Up).address);
    let is_met = |at: SocketAddr| met.contains(&at) || at == address(19_999);
    let members: Vec<_> = members.into_iter().flatten().collect();
    assert!(!members.is_empty() && members.iter().all(|at| is_met(*at)), "{members:?}");
}
