//! A joiner that is to form an electorate, and whoever finds it.

use std::time::Duration;

use super::electing::{SECOND, cluster};
use super::hostile::{packet, send};
use super::net::{Net, address, id, ms};
use super::speaker::mail;
use headcount_core::election::{Descent, ElectorateReport, Lineage, Term};
use headcount_core::limits::{
    EARLIEST_FOUNDING, FINDER_PATIENCE, FOUNDING_RETRIES, MIN_QUESTION_BYTES, MISSING_VOTER_PAUSE,
};
use headcount_core::testing::record;
use headcount_core::wire::{Header, Heartbeat, Message, Nonce, Packet, PacketBuilder};
use headcount_core::{Input, Profile, Record, Run, Status};

/// A host where somebody is who finds others, and another one.
const FINDER: usize = 40;
const ELSEWHERE: usize = 41;
/// A host where nobody is.
const NOBODY: usize = 60;
const FINDERS_RUN: Run = Run(0xf1);

/// Sends a packet of the finder to a node, and returns what the node sends to the finder at once.
fn says(net: &mut Net, sequence: u64, messages: &[Message]) -> Vec<Message> {
    let header = Header { cluster: Header::cluster_hash("test"), run: FINDERS_RUN, sequence, fingerprint: 0 };
    let mut packet = PacketBuilder::new(&header, 1_400);
    assert!(messages.iter().all(|message| packet.push(message)));
    packet.pad_to(MIN_QUESTION_BYTES);
    let bytes = packet.finish();
    net.sent = Some(Vec::new());
    net.input(0, Input::Packet { from: address(FINDER), bytes: &bytes });
    let sent = net.sent.take().expect("kept");
    let to_it = sent.iter().filter(|(_, to, _)| [FINDER, ELSEWHERE].map(address).contains(to));
    to_it.flat_map(|(_, _, bytes)| Packet::decode(bytes).expect("decodes").messages).collect()
}

fn is_asked_to_let_in(answer: &[Message]) -> bool {
    answer.iter().any(|message| matches!(message, Message::Join { .. }))
}

/// Returns the words about an electorate.
fn report() -> Message {
    let (lineage, root) = (Lineage(7), Lineage(7));
    Message::ElectorateReport(ElectorateReport {
        descent: Descent { lineage, root, began: Term(0), founded: EARLIEST_FOUNDING },
        is_sure: true,
    })
}

fn finder() -> Record {
    Record { run: FINDERS_RUN, address: address(FINDER), ..record("n5", 1, Status::Up) }
}

/// Returns a joiner of this name, n0 and n1 being the voters of its configuration; its only seed is not there.
fn lonely(name: &str) -> Net {
    let mut net = Net::new(Profile::Default);
    net.voters = vec![id("n0"), id("n1")];
    net.add(name, 0, &[NOBODY]);
    net.run(ms(200));
    net
}

/// Has the finder introduce itself to a joiner after the joiner asked it to; returns true if it is asked to let it in.
fn is_followed(net: &mut Net, introduce: impl FnOnce(Nonce) -> Vec<Message>) -> bool {
    is_asked_to_let_in(&introduces(net, introduce))
}

/// Has the finder introduce itself to a joiner after the joiner asked it to; returns what it is told then.
fn introduces(net: &mut Net, introduce: impl FnOnce(Nonce) -> Vec<Message>) -> Vec<Message> {
    let answer = says(net, 1, &[Message::WhoAreYou { nonce: Nonce(1), echo: None }]);
    let asked = answer.iter().find_map(|message| match message {
        Message::WhoAreYou { nonce, echo: Some(Nonce(1)) } => Some(*nonce),
        _ => None,
    });
    says(net, 2, &introduce(asked.expect("asked back")))
}

#[test]
fn a_member_that_is_up_and_knows_of_an_electorate_is_asked_from_its_own_address_and_nobody_else() {
    let is_followed_as = |record: Record| {
        is_followed(&mut lonely("n0"), |nonce| vec![report(), Message::IAm { nonce, record: record.clone() }])
    };
    assert!(is_followed_as(finder()));
    for status in [Status::Joining, Status::Suspect, Status::Down] {
        assert!(!is_followed_as(Record { status, ..finder() }), "{status}");
    }
    assert!(!is_followed_as(Record { address: address(ELSEWHERE), ..finder() }), "it has another address");
    assert!(!is_followed_as(Record { run: Run(0xf2), ..finder() }), "another run");
    assert!(!is_followed_as(Record { id: id("n0"), ..finder() }), "of the joiner's name");
    let introduce = |nonce: Nonce| vec![Message::IAm { nonce, record: finder() }];
    assert!(!is_followed(&mut lonely("n0"), introduce), "it knows of no electorate");
    let introduce = |nonce: Nonce| vec![report(), Message::IAm { nonce: Nonce(nonce.0 ^ 1), record: finder() }];
    assert!(!is_followed(&mut lonely("n0"), introduce), "it has not read what was sent to it");
}

#[test]
fn a_joiner_that_forms_no_electorate_goes_on_by_its_seeds_alone() {
    let introduce = |nonce: Nonce| vec![report(), Message::IAm { nonce, record: finder() }];
    assert!(is_followed(&mut lonely("n1"), introduce));
    assert!(!is_followed(&mut lonely("n2"), introduce));
}

#[test]
fn a_joiner_that_its_seed_keeps_waiting_follows_no_finder() {
    let mut net = lonely("n0");
    let nonce_of = |message| if let Message::Join { nonce, .. } = message { Some(nonce) } else { None };
    let nonce = mail(&net, NOBODY).into_iter().find_map(nonce_of).expect("its seed is asked");
    let wait = Message::Wait { nonce, wait_ms: 1_000 };
    send(&mut net, 0, NOBODY, &packet(Run(0xabc), 1, &[Message::Reply, wait]));
    assert!(!is_followed(&mut net, |nonce| vec![report(), Message::IAm { nonce, record: finder() }]));
}

#[test]
fn a_voter_whose_incarnation_is_too_low_is_told_so_by_who_found_it_and_asks_again() {
    let mut net = lonely("n0");
    let answer = introduces(&mut net, |nonce| vec![report(), Message::IAm { nonce, record: finder() }]);
    let nonce_of = |message| if let Message::Join { nonce, .. } = message { Some(nonce) } else { None };
    let nonce = answer.into_iter().find_map(nonce_of).expect("asked to let it in");
    let incarnation = net.nodes[0].core.me().incarnation + 10;
    says(&mut net, 3, &[Message::Reply, Message::Behind { nonce, incarnation }]);
    assert_eq!(net.nodes[0].core.me().incarnation, incarnation + 1);
    net.undelivered.clear();
    net.run(ms(100));
    let asks_again =
        |message: &Message| matches!(message, Message::Join { record, .. } if record.incarnation > incarnation);
    assert!(mail(&net, FINDER).iter().any(asks_again), "{:?}", mail(&net, FINDER));
}

/// Returns how many of so many questions in a row a joiner answers.
fn answered(name: &str, pause: Duration) -> usize {
    let mut net = lonely(name);
    let mut answers = 0;
    for sequence in 1..=5 {
        let question = Message::WhoAreYou { nonce: Nonce(sequence), echo: None };
        answers += usize::from(!says(&mut net, sequence, &[question]).is_empty());
        net.run(pause);
    }
    answers
}

#[test]
fn who_looks_for_a_joiner_is_answered_in_each_interval_if_it_is_to_form_an_electorate_and_once_if_not() {
    assert_eq!(answered("n0", MISSING_VOTER_PAUSE), 5);
    assert_eq!(answered("n2", MISSING_VOTER_PAUSE), 1);
}

#[test]
fn a_bare_heartbeat_is_answered_by_a_joiner_that_is_to_form_an_electorate_with_no_more_bytes() {
    for (name, is_answered) in [("n0", true), ("n2", false)] {
        let mut net = lonely(name);
        let header = Header { cluster: Header::cluster_hash("test"), run: FINDERS_RUN, sequence: 1, fingerprint: 0 };
        let mut packet = PacketBuilder::new(&header, 1_400);
        assert!(packet.push(&Message::Heartbeat(Heartbeat { stamp: 1, echo: None })));
        let bytes = packet.finish();
        net.sent = Some(Vec::new());
        net.input(0, Input::Packet { from: address(FINDER), bytes: &bytes });
        let sent = net.sent.take().expect("kept");
        let answers: Vec<_> = sent.iter().filter(|(_, to, _)| *to == address(FINDER)).collect();
        assert_eq!(answers.len(), usize::from(is_answered), "{name}");
        assert!(answers.iter().all(|(_, _, answer)| answer.len() <= bytes.len()));
    }
}

/// Returns a joiner n0 at the moment at which a member found it, which cannot be reached from then on.
fn found_and_cut_off(seeds: &[usize]) -> (Net, usize) {
    let mut net = cluster(4, 3);
    (0..3).for_each(|node| net.kill(node));
    net.disks.remove("n0");
    net.run(SECOND * 10);
    let blank = net.add("n0", 0, seeds);
    net.is_lost = Some(|bytes| {
        let messages = Packet::decode(bytes).expect("decodes").messages;
        messages.iter().any(|message| matches!(message, Message::Join { .. } | Message::Challenge { .. }))
    });
    net.sent = Some(Vec::new());
    net.run_until(SECOND * 2, "found", |net| {
        let sent = net.sent.as_ref().expect("kept");
        let asks = |bytes: &[u8]| {
            let messages = Packet::decode(bytes).expect("decodes").messages;
            messages.iter().any(|message| matches!(message, Message::Join { .. }))
        };
        sent.iter().any(|(from, to, bytes)| (*from, *to) == (address(0), address(3)) && asks(bytes))
    });
    net.cut(blank, 3, true);
    net.is_lost = None;
    net.sent = None;
    (net, blank)
}

#[test]
fn whoever_found_a_joiner_puts_its_founding_off_for_so_long_and_no_longer() {
    // Without that, it would be alone, and found its cluster in half a second; its patience with others is shorter, too.
    let (mut net, blank) = found_and_cut_off(&[0]);
    assert!(net.settings.retry_interval * FOUNDING_RETRIES < FINDER_PATIENCE);
    net.run(FINDER_PATIENCE - ms(1));
    assert!(!net.nodes[blank].core.is_up(), "it waits for who found it");
    net.run(ms(1));
    assert!(net.nodes[blank].core.is_up(), "it has waited for long enough");
}

#[test]
fn while_a_joiner_waits_for_who_found_it_nobody_else_lets_it_in_who_knows_of_no_electorate() {
    let (mut net, blank) = found_and_cut_off(&[NOBODY]);
    let voters = std::mem::take(&mut net.voters);
    let other = net.add("other", NOBODY, &[]);
    net.voters = voters;
    net.cut(other, 3, true);
    net.run(FINDER_PATIENCE - ms(1));
    assert!(net.nodes[other].core.is_up() && !net.nodes[blank].core.is_up(), "it waits for who found it");
    net.run(SECOND * 2);
    assert!(net.nodes[blank].core.is_up(), "it has waited for long enough");
    assert_eq!(net.status(other, "n0"), Some(Status::Up));
}
