//! No storms: whatever answers at once, and whatever it answers, a joiner and its sponsor send a limited number of
//! packets.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::time::Duration;

use super::alone::{Alone, member};
use super::hostile::packet;
use super::net::{Net, address, ms};
use super::reachable::add_at;
use headcount_core::limits::{JOIN_ANSWER_INTERVAL, JOIN_ANSWERS_AT_ONCE};
use headcount_core::wire::{Candidacy, Candidate, Message, Nonce, Packet, Refusal, Seeking};
use headcount_core::{Durable, Input, Output, Profile, Record, Run, Status, Time};

/// The greatest number of questions that a joiner sends in a second.
const MOST_QUESTIONS: usize = 60;
const SECONDS: u64 = 10;
const SEED: usize = 1;

/// The question of a joiner, as its sponsor reads it.
struct Question {
    nth: u64,
    nonce: Nonce,
    record: Record,
    /// The cookie by which the sponsor may ask the joiner in turn.
    cookie: Option<Nonce>,
}

/// Returns the number of questions of a joiner in [`SECONDS`] seconds, if each is answered a millisecond later.
fn questions_asked(answer: impl Fn(&Question) -> Vec<Message>) -> usize {
    let mut joiner = Alone::new(1);
    let mut under_way: VecDeque<(Time, SocketAddr, Vec<u8>)> = VecDeque::new();
    let (mut questions, mut answers, mut cookie) = (0, 0, None);
    joiner.core.handle(joiner.now, Input::SeedAddresses(vec![vec![address(SEED)]]));
    let end = joiner.now + Duration::from_secs(SECONDS);
    let mut due = VecDeque::new();
    loop {
        while let Some(output) = joiner.core.poll() {
            match output {
                Output::Transmit { to, bytes, .. } => {
                    for message in Packet::decode(&bytes).expect("decodes").messages {
                        match message {
                            Message::Challenge { cookie: given, .. } => cookie = Some(given),
                            Message::Pull { .. } => questions += 1,
                            Message::Join { nonce, record, .. } => {
                                (questions, answers) = (questions + 1, answers + 1);
                                let said = answer(&Question { nth: answers, nonce, record, cookie });
                                let bytes = packet(Run(u64::from(to.port())), answers, &said);
                                under_way.push_back((joiner.now + ms(1), to, bytes));
                            }
                            _ => {}
                        }
                    }
                }
                Output::ResolveSeeds => due.push_back(Input::SeedAddresses(vec![vec![address(SEED)]])),
                Output::Persist(Durable { incarnation_bound, .. }) => {
                    due.push_back(Input::Persisted { incarnation_bound, ballot_version: 0 });
                }
                _ => {}
            }
        }
        if let Some(input) = due.pop_front() {
            joiner.core.handle(joiner.now, input);
            continue;
        }
        let arrival = under_way.front().map(|(at, _, _)| *at);
        let Some(next) = arrival.into_iter().chain(joiner.core.next_deadline()).min() else { break };
        if next > end || questions > 10_000 {
            break;
        }
        joiner.now = joiner.now.max(next);
        if arrival == Some(next) {
            let (_, from, bytes) = under_way.pop_front().expect("just seen");
            joiner.core.handle(joiner.now, Input::Packet { from, bytes: &bytes });
        } else {
            joiner.core.handle(joiner.now, Input::Tick);
        }
    }
    assert!(questions > 0, "it asks");
    questions
}

fn sponsor(status: Status) -> Record {
    let mut record = member(1, status);
    (record.run, record.address) = (Run(u64::from(address(SEED).port())), address(SEED));
    record
}

fn assert_no_storm(what: &str, answer: impl Fn(&Question) -> Vec<Message>) {
    let questions = questions_asked(answer);
    assert!(questions <= MOST_QUESTIONS * SECONDS as usize, "{what}: {questions} questions in {SECONDS} s");
}

#[test]
fn a_joiner_whose_questions_are_answered_at_once_asks_so_often_and_no_more() {
    assert_no_storm("a new cookie each time", |question| {
        vec![Message::Reply, Message::Challenge { nonce: question.nonce, cookie: Nonce(question.nth) }]
    });
    assert_no_storm("two cookies by turns", |question| {
        vec![Message::Reply, Message::Challenge { nonce: question.nonce, cookie: Nonce(question.nth % 2) }]
    });
    assert_no_storm("wait no time", |question| {
        vec![Message::Reply, Message::Wait { nonce: question.nonce, wait_ms: 0 }]
    });
    assert_no_storm("behind, however often it is raised", |question| {
        let Question { nonce, ref record, .. } = *question;
        vec![Message::Reply, Message::Behind { nonce, incarnation: record.incarnation }]
    });
    assert_no_storm("ask others", |question| {
        let named = SocketAddr::from(([10, 1, 0, 1], 1_000 + (question.nth % 50_000) as u16));
        vec![Message::Reply, Message::Elsewhere { nonce: question.nonce, members: [Some(named), None, None] }]
    });
    assert_no_storm("unreachable", |question| {
        let Question { nonce, ref record, .. } = *question;
        let refusal = Refusal::Unreachable { advertised: record.address, heard_from: address(3) };
        vec![Message::Reply, Message::Refused { nonce, refusal }]
    });
    assert_no_storm("welcome, and no page", |question| {
        let sponsor = sponsor(Status::Up);
        vec![Message::Reply, Message::Welcome { nonce: question.nonce, sponsor }]
    });
}

#[test]
fn a_joiner_whose_seed_looks_for_a_cluster_asks_so_often_and_no_more() {
    let seeking = |nth: u64, asks_seed| {
        let candidacy = if nth.is_multiple_of(2) { Candidacy::Listed } else { Candidacy::Named };
        let first = SocketAddr::from(([10, 0, 0, 1], 60_000 - (nth % 50_000) as u16));
        let first = Some(Candidate { candidacy: Candidacy::Listed, address: first });
        Message::Seeking(Seeking { asks_seed, candidacy: Some(candidacy), first })
    };
    assert_no_storm("not up, with another candidate each time", |question| {
        let not_up = Message::NotUp { nonce: question.nonce, record: sponsor(Status::Joining), joiners: 1 };
        vec![Message::Reply, seeking(question.nth, false), not_up]
    });
    assert_no_storm("a question in turn, and no answer", |question| {
        let join = Message::Join { nonce: Nonce(7), record: sponsor(Status::Joining), cookie: question.cookie };
        vec![seeking(question.nth, true), join]
    });
}

/// Its datagrams and its bootstrap link come from two ports, so that the sponsor has two cookies for it.
#[test]
fn a_joiner_that_opens_a_bootstrap_link_and_cannot_be_let_in_and_its_sponsor_send_little() {
    let mut net = Net::new(Profile::Default);
    net.lay_wires();
    net.add("n0", 0, &[0]);
    net.run(Duration::from_secs(3));
    net.block_all_datagrams(true);
    let wrong = add_at(&mut net, "wrong", address(77), address(20), address(0));
    net.run(Duration::from_secs(5));
    net.block_all_datagrams(false);
    let sent = |net: &Net| -> Vec<(u64, u64)> {
        let counters = net.nodes.iter().map(|node| node.core.counters());
        counters.map(|counters| (counters.packets_sent, counters.frames_sent)).collect()
    };
    let before = sent(&net);
    assert!(before[wrong].1 > 0, "it opens a bootstrap link");
    net.run(Duration::from_secs(SECONDS));
    for (before, after) in before.into_iter().zip(sent(&net)) {
        let (packets, frames) = (after.0 - before.0, after.1 - before.1);
        assert!(packets <= 200 && frames <= 200, "{packets} datagrams and {frames} frames in {SECONDS} s");
    }
    assert!(!net.nodes[wrong].core.is_up());
}

/// A joiner of an earlier version asks again at once, by both of its ways, with whatever cookie it was given last: each
/// question by the other way brings it another one.
#[test]
fn a_joiner_that_asks_at_once_with_every_cookie_is_answered_so_often_and_no_more() {
    let mut sponsor = Alone::new(0);
    let mut joiner = member(5, Status::Joining);
    let ways = [joiner.address, address(6)];
    joiner.address = address(77);
    let (end, mut answers, mut questions) = (sponsor.now + Duration::from_secs(SECONDS), 0, 0);
    let mut under_way: VecDeque<(Time, SocketAddr, Option<Nonce>)> = VecDeque::new();
    let mut next_try = sponsor.now;
    while sponsor.now < end && questions < 50_000 {
        if next_try <= sponsor.now {
            under_way.extend(ways.map(|way| (sponsor.now, way, None)));
            next_try = next_try + ms(100);
        }
        while under_way.front().is_some_and(|(at, _, _)| *at <= sponsor.now) {
            let (_, from, cookie) = under_way.pop_front().expect("just seen");
            questions += 1;
            let sent = sponsor.hand_in(from, joiner.run, |packet| {
                packet.push(&Message::Join { nonce: Nonce(1), record: joiner.clone(), cookie });
                packet.pad_to(256);
            });
            for (_, message) in sent.into_iter().filter(|(to, _)| ways.contains(to)) {
                answers += 1;
                if let Message::Challenge { cookie, .. } = message {
                    under_way.extend(ways.map(|way| (sponsor.now + ms(1), way, Some(cookie))));
                }
            }
        }
        sponsor.pass(ms(1));
    }
    let steps = SECONDS as u32 * 1_000 / JOIN_ANSWER_INTERVAL.as_millis() as u32;
    let most = ways.len() as u32 * (JOIN_ANSWERS_AT_ONCE + steps);
    assert!(answers <= most && answers > most / 4, "{answers} answers to {questions} questions, {most} at most");
}
