//! Sealed packets that are bound to no receiver: whoever recorded one may have played it here, so that its sender is a
//! stranger, or claims to be a member, whatever its address.

use std::collections::BTreeSet;
use std::time::Duration;

use super::hostile::{evil, packet};
use super::net::{Net, address, ms};
use headcount_core::limits::{MIN_QUESTION_BYTES, QUESTION_INTERVAL};
use headcount_core::wire::{Header, Heartbeat, Message, Nonce, Packet, PacketBuilder, Update};
use headcount_core::{DropReason, Input, Output, Profile, Receiver, Run, Status};

/// Hands n0 an unbound packet from n1's address; returns what n0 sends in return, and to whom.
fn played(net: &mut Net, bytes: &[u8]) -> Vec<(Receiver, Packet, usize)> {
    let (now, core) = (net.now, &mut net.nodes[0].core);
    core.handle(now, Input::UnboundPacket { from: address(1), bytes });
    let mut answers = Vec::new();
    while let Some(output) = core.poll() {
        if let Output::Transmit { to, receiver, bytes } = output {
            assert_eq!(to, address(1));
            answers.push((receiver, Packet::decode(&bytes).expect("decodes"), bytes.len()));
        }
    }
    answers
}

#[test]
fn an_unbound_packet_of_a_member_is_no_sign_of_life_and_brings_no_news() {
    let mut net = Net::cluster(Profile::Local, 3);
    let run = net.nodes[1].core.me().run;
    let signs = net.nodes[0].core.counters().signs_of_life;
    let ghost = Update { note: None, record: evil("ghost", 5, Status::Up) };
    // A number that would leave the member's own far behind.
    let words = [Message::Heartbeat(Heartbeat { stamp: 7, echo: None }), Message::Update(ghost)];
    played(&mut net, &packet(run, 2_000, &words));
    assert_eq!(net.nodes[0].core.counters().signs_of_life, signs);
    assert_eq!(net.nodes[0].core.counters().dropped(DropReason::Claimed), 1);
    assert_eq!(net.status(0, "ghost"), None);
    net.run(ms(3_000));
    assert!(net.nodes[0].core.counters().signs_of_life > signs, "its own packets count as before");
    assert_eq!(net.nodes[0].core.counters().dropped(DropReason::Duplicate), 0);
    net.assert_all_up();
}

#[test]
fn a_member_that_asks_who_is_here_is_told_so_at_its_address_and_no_larger_than_it_asked() {
    let mut net = Net::cluster(Profile::Local, 3);
    let run = net.nodes[1].core.me().run;
    let asks = |run: Run| packet(run, 2_000, &[Message::WhoAreYou { nonce: Nonce(7), echo: None }]);
    let introduces =
        |packet: &Packet| packet.messages.iter().any(|message| matches!(message, Message::IAm { nonce: Nonce(7), .. }));
    let answers = played(&mut net, &asks(run));
    let told: Vec<_> = answers.iter().filter(|(_, packet, _)| introduces(packet)).collect();
    assert_eq!(told.len(), 1, "{answers:?}");
    assert_eq!(told[0].0, Receiver::Run(run), "nobody else reads it");
    assert!(told[0].2 <= MIN_QUESTION_BYTES, "{} bytes", told[0].2);
    // A stranger at the same address is not told who is here, and its answer is for it alone.
    let answers = played(&mut net, &asks(Run(0xbad)));
    assert!(!answers.iter().any(|(_, packet, _)| introduces(packet)), "{answers:?}");
    assert!(answers.iter().all(|(receiver, ..)| *receiver == Receiver::Run(Run(0xbad))), "{answers:?}");
}

#[test]
fn whoever_may_have_taken_a_silent_members_place_is_asked_now_and_then_and_told_nothing() {
    let mut net = Net::cluster(Profile::Local, 3);
    let run = net.nodes[2].core.me().run;
    let (mut asked, mut statuses) = (Vec::new(), BTreeSet::new());
    net.kill(2);
    let began = net.now;
    while net.now.since(began) < Duration::from_secs(6) {
        let (now, status) = (net.now + ms(10), net.status(0, "n2").expect("held"));
        let core = &mut net.nodes[0].core;
        if core.next_deadline().is_some_and(|due| due <= now) {
            core.handle(now, Input::Tick);
            while let Some(output) = core.poll() {
                let Output::Transmit { to, receiver, bytes } = output else { continue };
                if to == address(2) && receiver == Receiver::Anybody {
                    assert_ne!(status, Status::Up);
                    statuses.insert(format!("{status}"));
                    let messages = Packet::decode(&bytes).expect("decodes").messages;
                    assert!(matches!(messages[..], [Message::WhoAreYou { .. }, Message::Padding(_)]), "{messages:?}");
                    asked.push(now);
                } else if to == address(2) {
                    assert_eq!(receiver, Receiver::Run(run));
                }
            }
        }
        net.now = now;
    }
    assert_eq!((asked.len() >= 2, statuses.len()), (true, 2), "suspect and down: {asked:?} {statuses:?}");
    assert!(asked.windows(2).all(|pair| pair[1].since(pair[0]) >= QUESTION_INTERVAL), "{asked:?}");
}

#[test]
fn whoever_takes_a_silent_members_place_and_knows_nobody_is_found_where_everything_is_sealed() {
    let mut net = Net::cluster(Profile::Local, 3);
    net.is_sealed = true;
    net.kill(2);
    net.run_until(Duration::from_secs(10), "it is missed", |net| net.status(0, "n2") != Some(Status::Up));
    net.add("heir", 2, &[]);
    net.run_until(Duration::from_secs(20), "its heir is in", |net| {
        [0, 1].iter().all(|node| net.status(*node, "heir") == Some(Status::Up))
    });
}

#[test]
fn of_an_unbound_packet_only_what_needs_no_receiver_is_read() {
    let mut net = Net::cluster(Profile::Local, 3);
    let unread = |net: &Net| net.nodes[0].core.counters().dropped(DropReason::Unread);
    for message in questions(&net) {
        let needs_none = matches!(
            message,
            Message::WhoAreYou { .. } | Message::Join { .. } | Message::ReachMe { .. } | Message::IAm { .. }
        );
        let before = unread(&net);
        let bytes = packet(Run(0xe), 100, std::slice::from_ref(&message));
        net.input(0, Input::UnboundPacket { from: address(77), bytes: &bytes });
        assert_eq!(unread(&net) == before, needs_none, "{message:?}");
        net.run(ms(1_100));
    }
}

#[test]
fn the_nameless_are_answered_nothing_that_needs_a_receiver() {
    for message in [
        Message::Join { nonce: Nonce(1), record: evil("joiner", 5, Status::Joining), cookie: None },
        Message::ReachMe { nonce: Nonce(1), address: address(77) },
    ] {
        let mut net = Net::cluster(Profile::Local, 3);
        net.sent = Some(Vec::new());
        let mut question = PacketBuilder::new(&Header::anonymous(Header::cluster_hash("test")), 1_400);
        assert!(question.push(&message));
        question.pad_to(MIN_QUESTION_BYTES);
        let bytes = question.finish();
        net.input(0, Input::Packet { from: address(77), bytes: &bytes });
        let sent = net.sent.take().expect("kept");
        let is_question = |bytes: &[u8]| {
            Packet::decode(bytes)
                .expect("decodes")
                .messages
                .iter()
                .all(|message| matches!(message, Message::WhoAreYou { .. } | Message::Reply | Message::Padding(_)))
        };
        assert!(
            sent.iter().filter(|(_, to, _)| *to == address(77)).all(|(_, _, bytes)| is_question(bytes)),
            "{message:?}"
        );
    }
}

/// Returns all kinds of questions that somebody asks whose address is not proven.
fn questions(net: &Net) -> Vec<Message> {
    let other = net.nodes[1].core.me();
    let mut joiner = evil("joiner", 5, Status::Joining);
    joiner.address = address(77);
    vec![
        Message::Probe { nonce: Nonce(1) },
        Message::WhoAreYou { nonce: Nonce(1), echo: None },
        Message::WhoAreYou { nonce: Nonce(1), echo: Some(Nonce(2)) },
        Message::Join { nonce: Nonce(1), record: joiner.clone(), cookie: None },
        Message::Join { nonce: Nonce(1), record: joiner.clone(), cookie: Some(Nonce(2)) },
        Message::ReachMe { nonce: Nonce(1), address: address(77) },
        Message::IAm { nonce: Nonce(1), record: joiner },
        Message::Heartbeat(Heartbeat { stamp: 1, echo: None }),
        Message::Update(Update { note: None, record: (**other).clone() }),
        net.nodes[0].core.digest(),
        Message::Want { buckets: [255; 32] },
        Message::Pull { after: None, pages: 8 },
        Message::LastHeard { run: other.run },
        Message::WhoLeads { nonce: Nonce(7) },
        Message::HeldStatus { run: other.run, incarnation: 9, status: Status::Down, age_ms: 0 },
    ]
}

/// The bytes of the longest and the shortest seal of one packet.
const SEALS: [usize; 2] = [40, 24];

/// Whoever recorded a packet has it answered at most once, and gains nothing by that: under the longest seals that there are,
/// the answers are no longer than the packet under the shortest one.
#[test]
fn no_answer_to_an_unproven_address_is_longer_under_its_seal_than_the_question() {
    let cluster = Header::cluster_hash("test");
    let [longest, shortest] = SEALS;
    let (mut answered, mut longer) = (0, Vec::new());
    for (place, is_bound, size, is_member) in [false, true].into_iter().flat_map(|is_bound| {
        [0, MIN_QUESTION_BYTES, 600].into_iter().flat_map(move |size| {
            [false, true]
                .into_iter()
                .flat_map(move |is_member| (0..15).map(move |place| (place, is_bound, size, is_member)))
        })
    }) {
        let mut net = Net::cluster(Profile::Local, 3);
        net.nodes[0].core.leave_room(longest, longest - shortest);
        let other = net.nodes[1].core.me().run;
        let asks = if is_member { other } else { Run(0xe) };
        let header = Header { cluster, run: asks, sequence: 100, fingerprint: 7 };
        let mut question = PacketBuilder::new(&header, 1_400);
        assert!(question.push(&questions(&net)[place]), "{place}");
        question.pad_to(size);
        let question = question.finish();
        let (now, core, from) = (net.now + ms(1), &mut net.nodes[0].core, address(77));
        let input = if is_bound {
            Input::Packet { from, bytes: &question }
        } else {
            Input::UnboundPacket { from, bytes: &question }
        };
        core.handle(now, input);
        let mut answers = Vec::new();
        while let Some(output) = core.poll() {
            if let Output::Transmit { to, bytes, .. } = output
                && to == from
            {
                answers.push(bytes.len() + longest);
            }
        }
        answered += answers.len();
        let all: usize = answers.iter().sum();
        if all > question.len() + shortest {
            let what = &questions(&net)[place];
            longer.push(format!("{answers:?} bytes for {} (bound: {is_bound}): {what:?}", question.len()));
        }
    }
    assert_eq!(longer, Vec::<String>::new());
    assert!(answered >= 20, "{answered}");
}

#[test]
fn a_member_whose_address_is_not_proven_is_not_told_who_is_here() {
    let mut net = Net::cluster(Profile::Local, 3);
    let run = net.nodes[1].core.me().run;
    net.nodes[0].core.set_proven(run, false);
    let question = packet(run, 2_000, &[Message::WhoAreYou { nonce: Nonce(7), echo: None }]);
    let introduces = |packet: &Packet| packet.messages.iter().any(|message| matches!(message, Message::IAm { .. }));
    assert!(!played(&mut net, &question).iter().any(|(_, packet, _)| introduces(packet)));
    net.run(ms(2_000));
    assert!(played(&mut net, &question).iter().any(|(_, packet, _)| introduces(packet)), "it is, once it has echoed");
}
