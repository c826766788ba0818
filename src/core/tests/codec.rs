//! The wire: golden bytes, round trips, and bytes that nobody sent.

use std::collections::BTreeSet;
use std::net::SocketAddr;

use proptest::prelude::*;

use super::merging::any_status;
use super::net::{Net, address, id};
use headcount_core::election::{
    Body, ChangeError, Claim, Delta, Descent, Digest, ElectionMessage, Electorate, ElectorateReport, Identity, Lineage,
    Renewal, Roster, Term, Unchanged, ViewRef, Voter, VoterChange,
};
use headcount_core::limits::{MAX_FRAME_BYTES, MAX_MESSAGES_PER_PACKET, MAX_PAYLOAD_BYTES, MAX_SPANS};
use headcount_core::testing::record;
use headcount_core::wire::{
    Broadcast, Candidacy, Candidate, ChangeVoters, Confirmation, DirectMessage, Echo, Header, Heartbeat, LeaderClaim,
    LeaderRenewal, LeaseUpdate, Message, Nonce, Note, Packet, PacketBuilder, PacketError, Purpose, Refusal, Seeking,
    Span, Update, ViewPart, VoterRequest, VotersChanged, WantView,
};
use headcount_core::{
    DetectionMethod, DropReason, Input, NodeId, Payload, Profile, ProtocolRange, Record, Run, Status, Tags, Topic,
};

fn header() -> Header {
    Header { cluster: 0x0403_0201, run: Run(0x0807_0605_0403_0201), sequence: 300, fingerprint: 0x1122_3344_5566_7788 }
}

fn encode(messages: &[Message]) -> Vec<u8> {
    let mut packet = PacketBuilder::new(&header(), 1400);
    for message in messages {
        assert!(packet.push(message));
    }
    packet.finish()
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn word(body: Body) -> ElectionMessage {
    ElectionMessage { from: Identity(1), lineage: Lineage(7), body }
}

fn voter() -> Voter {
    Voter { id: NodeId::new("a").expect("a name"), identity: Identity(0x0102_0304_0506_0708) }
}

fn reference() -> ViewRef {
    ViewRef { term: Term(3), number: 12, digest: Digest(0x0102_0304_0506_0708) }
}

fn delta() -> Delta {
    let names = |name: &str| vec![NodeId::new(name).expect("a name")];
    Delta { base: Digest(1), added: names("new"), removed: names("old"), change: Some(VoterChange::Removed(voter())) }
}

/// A founding on a wall clock.
const FOUNDED: u64 = 1_800_000_000_000;

fn founded() -> ElectorateReport {
    let descent =
        Descent { lineage: Lineage(7), root: Lineage(8), began: Term::beginning_of(1, 300), founded: FOUNDED };
    ElectorateReport { descent, is_sure: true }
}

fn topic(name: &str) -> Topic {
    Topic::new(name).expect("a topic")
}

fn direct(purpose: Purpose) -> Message {
    let payload = Payload::new(b"p").expect("small");
    Message::Direct(Box::new(DirectMessage { number: 300, purpose, payload }))
}

fn changed(result: Result<Electorate, ChangeError>) -> Message {
    Message::VotersChanged(Box::new(VotersChanged { nonce: Nonce(0x0102_0304_0506_0708), result }))
}

/// Returns one message of every kind, in the order of their numbers.
pub(super) fn one_of_each() -> Vec<Message> {
    let mut tagged = record("node-a", 1_700_000_000_000, Status::Suspect);
    tagged.tags = Tags::new([("zone".to_owned(), "eu".to_owned())].into()).expect("good");
    tagged.api_address = Some("10.0.0.1:80".into());
    let up = record("b", 300, Status::Up);
    let nonce = Nonce(0x0102_0304_0506_0708);
    let joiner = record("j", 1, Status::Joining);
    vec![
        Message::Heartbeat(Heartbeat { stamp: 0x1234, echo: Some(Echo { stamp: 0x5678, hold: 0x9abc }) }),
        Message::Reply,
        Message::Update(Update {
            note: Some(Note { age_ms: 10_000, method: DetectionMethod::HeartbeatTimeout }),
            record: tagged,
        }),
        Message::Probe { nonce },
        Message::Ack { nonce },
        Message::HeldStatus { run: Run(9), incarnation: 300, status: Status::Down, age_ms: 15_000 },
        Message::WhoAreYou { nonce, echo: Some(nonce) },
        Message::IAm { nonce, record: up.clone() },
        Message::Join { nonce, record: joiner, cookie: Some(nonce) },
        Message::Challenge { nonce, cookie: nonce },
        Message::Welcome { nonce, sponsor: up.clone() },
        Message::NotUp { nonce, record: up, joiners: 2 },
        Message::Refused { nonce, refusal: Refusal::NameInUse { holder: address(0) } },
        Message::Behind { nonce, incarnation: 300 },
        Message::Wait { nonce, wait_ms: 300 },
        Message::Pull { after: Some(id("a")), pages: 8 },
        Message::Page { after: None, more: true },
        Message::Confirm(Confirmation { record: nonce }),
        Message::Confirmed(Confirmation { record: nonce }),
        Message::Padding(vec![0; 3]),
        Message::LastHeard { run: Run(9) },
        Message::HeardAt { run: Run(9), age_ms: 1_234 },
        Message::Digest { buckets: vec![7; 1_024] },
        Message::Want { buckets: [1; 32] },
        Message::Unlink,
        Message::Severed { run: Run(0x0102_0304_0506_0708), age_ms: 150, is_sure: true },
        Message::Elsewhere {
            nonce,
            members: [
                Some("10.0.0.1:7117".parse().expect("an address")),
                Some("[::1]:7117".parse().expect("an address")),
                None,
            ],
        },
        Message::Alive { run: Run(9), sequence: 300 },
        Message::Election(Box::new(word(Body::Roster(Roster {
            names: 5,
            holds: Some(Identity(6)),
            asks: true,
            founded: Some(founded()),
            newest: Some(reference()),
        })))),
        Message::Election(Box::new(word(Body::Renew(Renewal {
            term: Term(3),
            sequence: 9,
            lease_ms: 15_000,
            claim: Some(Claim { sequence: 8, age_ms: 40 }),
            newest: reference(),
            delta: Some(delta()),
            agreed: Some(reference()),
        })))),
        Message::LeaderClaim(Box::new(LeaderClaim {
            descent: Descent { lineage: Lineage(7), root: Lineage(7), began: Term(0), founded: FOUNDED },
            term: Term(3),
            leader: Some(NodeId::new("a").expect("a name")),
            sequence: 9,
            age_ms: 300,
            lease_ms: 15_000,
            view: reference(),
            delta: Some(delta()),
            answers: Some(Nonce(9)),
        })),
        Message::LeaderRenewal(LeaderRenewal {
            lineage: 0x0102_0304,
            term: Term(3),
            sequence: 9,
            age_ms: 300,
            number: 12,
            digest: 0x0506_0708,
        }),
        Message::WhoLeads { nonce: Nonce(7) },
        Message::WantView(WantView { digest: Digest(8), after: Some(NodeId::new("m").expect("a name")) }),
        Message::ViewPart(Box::new(ViewPart {
            digest: Digest(8),
            after: None,
            members: vec![NodeId::new("a").expect("a name")],
            more: true,
            electorate: Some(Electorate::founded_by(vec![voter()], FOUNDED)),
            change: Some(VoterChange::Added(voter())),
        })),
        Message::ChangeVoters(Box::new(ChangeVoters { nonce, request: VoterRequest::Add(id("d")) })),
        Message::ChangeVoters(Box::new(ChangeVoters { nonce, request: VoterRequest::Remove(id("a")) })),
        Message::ChangeVoters(Box::new(ChangeVoters {
            nonce,
            request: VoterRequest::Resign { term: Term(3), to: Some(id("b")) },
        })),
        changed(Ok(Electorate::founded_by(vec![voter()], FOUNDED))),
        changed(Err(ChangeError::NoChange { reason: Unchanged::VotesAlready })),
        changed(Err(ChangeError::NoAnswer { id: id("d") })),
        changed(Err(ChangeError::NotCaughtUp { id: id("b") })),
        Message::Refused { nonce, refusal: Refusal::Unreachable { advertised: address(0), heard_from: address(1) } },
        Message::Seeking(Seeking {
            asks_seed: true,
            candidacy: Some(Candidacy::Named),
            first: Some(Candidate { candidacy: Candidacy::Listed, address: address(0) }),
        }),
        Message::ReachMe { nonce, address: address(0) },
        Message::Reached { nonce },
        Message::Unheard,
        Message::ElectorateReport(founded()),
        Message::LeaseUpdate(Box::new(LeaseUpdate {
            lease: id("l"),
            node: id("a"),
            term: 300,
            kind: LeaseUpdate::RESIGN,
            nonce: 7,
        })),
        Message::Broadcast(Box::new(Broadcast {
            run: Run(9),
            number: 300,
            age_ms: 40,
            topic: topic("cache"),
            payload: Payload::new(b"k17").expect("small"),
        })),
        Message::HaveBroadcasts(vec![Span { run: Run(9), first: 1, last: 300 }]),
        Message::WantBroadcasts(vec![Span { run: Run(9), first: 2, last: 3 }]),
        direct(Purpose::Tell { topic: topic("jobs") }),
        direct(Purpose::Ask { topic: topic("health"), within_ms: 5_000 }),
        direct(Purpose::Answer { to: 7 }),
        Message::Receipt { number: 300 },
        Message::NextHeartbeat { after_ms: 2_560 },
        Message::HostAnswers { run: Run(9) },
    ]
}

/// The highest number that a message has, of either kind.
const MAX_NUMBER: u64 = u64::MAX / 4;

#[test]
fn the_bytes_of_every_message_are_golden() {
    let golden = include_str!("golden.txt");
    let seen: String = one_of_each()
        .iter()
        .map(|message| format!("{}\n", hex(&encode(std::slice::from_ref(message))[26..])))
        .collect();
    let fixed = format!("{}\n{seen}", hex(&encode(&[])));
    assert_eq!(golden, fixed, "the wire format changed: that breaks running clusters");
}

#[test]
fn every_message_survives_the_round_trip() {
    let messages = one_of_each();
    for message in &messages {
        let packet = Packet::decode(&encode(std::slice::from_ref(message))).expect("decodes");
        assert_eq!(packet.messages, std::slice::from_ref(message));
    }
    let mut packet = PacketBuilder::new(&header(), 1400);
    let up = record("b", 300, Status::Up);
    assert!(packet.push_update(None, &up));
    let decoded = Packet::decode(&packet.finish()).expect("decodes");
    assert_eq!(decoded.messages, [Message::Update(Update { note: None, record: up })], "encoded without a clone");
}

#[test]
fn ipv4_that_is_written_as_ipv6_is_ipv4_once_it_is_read() {
    let (nonce, four) = (Nonce(1), address(0));
    let mapped: SocketAddr = "[::ffff:10.0.0.1]:7117".parse().expect("an address");
    let messages = |at: SocketAddr| {
        let record = |status| Record { address: at, ..record("a", 1, status) };
        let candidate = Candidate { candidacy: Candidacy::Listed, address: at };
        [
            Message::Update(Update { note: None, record: record(Status::Up) }),
            Message::IAm { nonce, record: record(Status::Up) },
            Message::Join { nonce, record: record(Status::Joining), cookie: None },
            Message::NotUp { nonce, record: record(Status::Joining), joiners: 1 },
            Message::Welcome { nonce, sponsor: record(Status::Up) },
            Message::Elsewhere { nonce, members: [Some(at), None, Some(at)] },
            Message::Seeking(Seeking { asks_seed: true, candidacy: None, first: Some(candidate) }),
            Message::ReachMe { nonce, address: at },
            Message::Refused { nonce, refusal: Refusal::NameInUse { holder: at } },
            Message::Refused { nonce, refusal: Refusal::Unreachable { advertised: at, heard_from: at } },
        ]
    };
    for (written, read) in messages(mapped).into_iter().zip(messages(four)) {
        let packet = Packet::decode(&encode(&[written])).expect("decodes");
        assert_eq!(packet.messages, [read]);
    }
}

#[test]
fn what_a_packet_holds_is_found_without_decoding_it() {
    type IsKind = fn(&Message) -> bool;
    let kinds: [(u32, IsKind); 3] = [
        (Message::PAGE_KIND, |message| matches!(message, Message::Page { .. })),
        (Message::ELECTION_KIND, |message| matches!(message, Message::Election(_))),
        (Message::UNLINK_KIND, |message| matches!(message, Message::Unlink)),
    ];
    for (kind, is_kind) in kinds {
        let mut found = 0;
        for message in one_of_each() {
            assert_eq!(
                Packet::holds(&encode(&[Message::Reply, message.clone()]), kind),
                is_kind(&message),
                "{message:?}"
            );
            found += usize::from(is_kind(&message));
        }
        assert!(found > 0, "no message is of kind {kind}");
    }
    assert!(!Packet::holds(b"no packet", Message::PAGE_KIND));
}

#[test]
fn a_heartbeat_fits_into_forty_bytes_after_years_of_packets() {
    let header = Header { sequence: 1 << 34, ..header() };
    let mut packet = PacketBuilder::new(&header, 1400);
    let echo = Some(Echo { stamp: u16::MAX, hold: u16::MAX });
    packet.push(&Message::Heartbeat(Heartbeat { stamp: u16::MAX, echo }));
    assert!(packet.len() <= 40, "{} bytes", packet.len());
}

/// Returns the names of all kinds of messages, as they are declared.
fn declared_kinds() -> &'static [&'static str] {
    /// Takes the names of an enum's variants, and reads nothing.
    struct Names<'a>(&'a mut &'static [&'static str]);
    impl<'de> serde::Deserializer<'de> for Names<'_> {
        type Error = serde::de::value::Error;
        fn deserialize_any<V: serde::de::Visitor<'de>>(self, _: V) -> Result<V::Value, Self::Error> {
            Err(serde::de::Error::custom("no enum"))
        }
        fn deserialize_enum<V: serde::de::Visitor<'de>>(
            self,
            _: &'static str,
            variants: &'static [&'static str],
            _: V,
        ) -> Result<V::Value, Self::Error> {
            *self.0 = variants;
            Err(serde::de::Error::custom("these are its names"))
        }
        serde::forward_to_deserialize_any! {
            bool i8 i16 i32 i64 u8 u16 u32 u64 f32 f64 char str string bytes byte_buf option unit unit_struct newtype_struct
            seq tuple tuple_struct map struct identifier ignored_any
        }
    }
    let mut names: &'static [&'static str] = &[];
    let read: Result<Message, _> = serde::Deserialize::deserialize(Names(&mut names));
    assert!(read.is_err());
    names
}

#[test]
fn every_kind_that_is_declared_is_known_and_is_among_those_that_are_tested() {
    // Behind the header, and the length, which may take two bytes.
    let kind = |message: &Message| {
        encode(std::slice::from_ref(message))[26..].iter().copied().skip_while(|byte| *byte >= 0x80).nth(1)
    };
    let tested: BTreeSet<u8> = one_of_each().iter().filter_map(kind).collect();
    let declared: Vec<u8> = (0..).zip(declared_kinds()).map(|(kind, _)| kind).collect();
    assert_eq!(tested.into_iter().collect::<Vec<u8>>(), declared, "one of each kind");
    // Those of them are known that survive the round trip; the next one is not.
    let mut bytes = encode(&[]);
    bytes.extend([1, declared.len() as u8]);
    assert_eq!(Packet::decode(&bytes).expect("decodes").unknown, 1);
}

#[test]
fn unknown_kinds_are_skipped_and_counted() {
    let mut bytes = encode(&[Message::Reply]);
    bytes.extend_from_slice(&[4, 200, 1, 7, 7]);
    let packet = Packet::decode(&bytes).expect("decodes");
    assert_eq!((packet.messages, packet.unknown), (vec![Message::Reply], 1));
}

#[test]
fn there_is_one_encoding_of_everything() {
    let good = encode(&[Message::Behind { nonce: Nonce(1), incarnation: 1 }]);
    assert!(Packet::decode(&good).is_ok());
    // The incarnation as a longer varint, the message's length adjusted.
    let mut padded = good.clone();
    let last = padded.pop().expect("not empty");
    padded.extend_from_slice(&[last | 0x80, 0]);
    padded[26] += 1;
    assert_eq!(Packet::decode(&padded), Err(PacketError::Malformed));
    // Bytes behind a message inside its length.
    let mut longer = good;
    longer.push(0);
    longer[26] += 1;
    assert_eq!(Packet::decode(&longer), Err(PacketError::Malformed));
}

#[test]
fn headers_that_are_not_ours_are_told_apart() {
    let good = encode(&[]);
    let with = |at: usize, byte: u8| {
        let mut bytes = good.clone();
        bytes[at] = byte;
        Packet::decode(&bytes)
    };
    assert_eq!(with(0, b'X'), Err(PacketError::Malformed));
    assert_eq!(with(2, 9), Err(PacketError::UnknownVersion { found: 9 }));
    assert_eq!(with(3, 4), Err(PacketError::UnknownKey { found: 4 }));
    for length in 0..good.len() {
        assert_eq!(Packet::decode(&good[..length]), Err(PacketError::Malformed));
    }
}

#[test]
fn records_out_of_bounds_are_malformed() {
    let reject = |message: Message| {
        assert_eq!(Packet::decode(&encode(&[message])), Err(PacketError::Malformed));
    };
    let update = |record, note| Message::Update(Update { note, record });
    let note = Some(Note { age_ms: 1, method: DetectionMethod::HeartbeatTimeout });
    reject(update(record("a", Record::INCARNATION_LIMIT, Status::Up), None));
    reject(update(record("a", 1, Status::Up), note));
    reject(update(record("a", 1, Status::Down), None));
    reject(update(record("a", 1, Status::Joining), None));
    let mut old_and_new = record("a", 1, Status::Up);
    old_and_new.protocol = ProtocolRange { min: 2, max: 1 };
    reject(update(old_and_new, None));
    let mut wordy = record("a", 1, Status::Up);
    wordy.version = "v".repeat(33).into();
    reject(update(wordy, None));
    reject(Message::Pull { after: None, pages: 0 });
    reject(Message::Pull { after: None, pages: 9 });
    let nobody =
        Electorate { lineage: Lineage(1), root: Lineage(1), began: Term(0), founded: FOUNDED, voters: Vec::new() };
    reject(changed(Ok(nobody.clone())));
    let descent = Descent { root: Lineage(7), ..founded().descent };
    reject(Message::ElectorateReport(ElectorateReport { descent, is_sure: true }));
    reject(changed(Ok(Electorate { voters: vec![voter(), voter()], ..nobody })));
    reject(Message::HeldStatus { run: Run(9), incarnation: u64::MAX, status: Status::Down, age_ms: 0 });
}

#[test]
fn the_largest_payload_fits_into_a_frame_and_round_trips() {
    let payload = Payload::new(&vec![7; MAX_PAYLOAD_BYTES]).expect("the largest");
    for length in [127, 128, 16_383, 16_384, MAX_PAYLOAD_BYTES] {
        let payload = Payload::new(&payload[..length]).expect("not larger");
        let topic = topic(&"t".repeat(Topic::MAX_BYTES));
        let broadcast = Broadcast { run: Run(9), number: MAX_NUMBER, age_ms: 10_000, topic, payload };
        let message = Message::Broadcast(Box::new(broadcast));
        let mut packet = PacketBuilder::new(&header(), MAX_FRAME_BYTES);
        assert!(packet.push(&Message::Reply) && packet.push(&message) && packet.push(&Message::Reply), "{length}");
        let decoded = Packet::decode(&packet.finish()).expect("decodes");
        assert_eq!(decoded.messages, [Message::Reply, message, Message::Reply]);
    }
}

#[test]
fn numbers_and_spans_out_of_bounds_are_malformed() {
    let reject = |message: Message| assert_eq!(Packet::decode(&encode(&[message])), Err(PacketError::Malformed));
    let span = |first, last| Span { run: Run(9), first, last };
    reject(Message::HaveBroadcasts(Vec::new()));
    reject(Message::WantBroadcasts(vec![span(1, 1); MAX_SPANS + 1]));
    assert!(Packet::decode(&encode(&[Message::WantBroadcasts(vec![span(1, 1); MAX_SPANS])])).is_ok());
    for wrong in [span(0, 1), span(2, 1), span(1, MAX_NUMBER + 1)] {
        reject(Message::HaveBroadcasts(vec![wrong]));
    }
    reject(Message::Receipt { number: 0 });
    reject(direct(Purpose::Answer { to: 0 }));
    let payload = Payload::new(b"").expect("small");
    reject(Message::Broadcast(Box::new(Broadcast { run: Run(0), number: 1, age_ms: 0, topic: topic("t"), payload })));
}

#[test]
fn a_packet_of_too_many_messages_is_malformed() {
    let mut bytes = encode(&[]);
    for _ in 0..MAX_MESSAGES_PER_PACKET {
        bytes.extend_from_slice(&[1, 1]);
    }
    assert!(Packet::decode(&bytes).is_ok());
    bytes.extend_from_slice(&[1, 1]);
    assert_eq!(Packet::decode(&bytes), Err(PacketError::Malformed));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]

    #[test]
    fn updates_round_trip(
        name in "[A-Za-z0-9._-]{1,63}", incarnation in 0..Record::INCARNATION_LIMIT, status in any_status(), age_ms: u64,
        tags in prop::collection::btree_map("[a-z]{1,8}", "[a-z]{0,8}", 0..16), port in 1..u16::MAX,
    ) {
        let mut record = record(&name, incarnation, status);
        record.tags = Tags::new(tags).expect("within bounds");
        record.address.set_port(port);
        let is_noted = !matches!(status, Status::Up | Status::Leaving);
        let note = is_noted.then_some(Note { age_ms, method: DetectionMethod::Restarted });
        let message = Message::Update(Update { note, record });
        let packet = Packet::decode(&encode(std::slice::from_ref(&message))).expect("decodes");
        prop_assert_eq!(packet.messages, vec![message]);
    }

    #[test]
    fn any_bytes_decode_or_are_refused(bytes in prop::collection::vec(any::<u8>(), 0..1500)) {
        let _ = Packet::decode(&bytes);
        let mut behind_a_header = encode(&[]);
        behind_a_header.extend_from_slice(&bytes);
        if let Ok(packet) = Packet::decode(&behind_a_header) {
            prop_assert!(packet.messages.len() + packet.unknown <= MAX_MESSAGES_PER_PACKET);
        }
    }
}

/// Returns random bytes, packets of one message each under this header, and such packets with one bit flipped, in turn.
fn anything(rng: &mut rand_chacha::ChaCha8Rng, i: usize, header: &Header) -> Vec<u8> {
    use rand::{Rng, RngExt};
    if i.is_multiple_of(3) {
        let mut bytes = vec![0; rng.random_range(0..1500)];
        rng.fill_bytes(&mut bytes);
        return bytes;
    }
    let kinds = one_of_each();
    let mut packet = PacketBuilder::new(header, 1400);
    assert!(packet.push(&kinds[rng.random_range(0..kinds.len())]));
    let mut bytes = packet.finish();
    if i % 3 == 1 {
        let at = rng.random_range(0..bytes.len());
        bytes[at] ^= 1 << rng.random_range(0..8);
    }
    bytes
}

#[test]
fn ten_thousand_random_mutated_and_replayed_datagrams_of_strangers_change_nothing() {
    use rand::SeedableRng;
    let mut rng = rand_chacha::ChaCha8Rng::seed_from_u64(4);
    let mut net = Net::cluster(Profile::Default, 3);
    let header = Header { cluster: Header::cluster_hash("test"), ..header() };
    let before = (net.nodes[0].core.fingerprint(), net.nodes[0].core.records().count());
    let counted = net.nodes[0].core.counters().clone();
    for i in 0..10_000usize {
        let bytes = anything(&mut rng, i, &header);
        net.input(0, Input::Packet { from: address(60_000 + i % 500), bytes: &bytes });
    }
    let core = &net.nodes[0].core;
    assert_eq!((core.fingerprint(), core.records().count()), before);
    let dropped = |reason| core.counters().dropped(reason) - counted.dropped(reason);
    assert!(DropReason::ALL.into_iter().map(dropped).sum::<u64>() >= 9_000, "nearly every one of them is counted");
    // The header is right, and so what they say is looked at.
    let (read, strangers) = (dropped(DropReason::Malformed), dropped(DropReason::UnknownRun));
    assert!(dropped(DropReason::OtherCluster) < 500 && strangers > 2_000, "{read} malformed, {strangers} of strangers");
    net.run(std::time::Duration::from_secs(30));
    net.assert_all_up();
}

#[test]
fn ten_thousand_random_and_mutated_datagrams_in_a_members_name_stop_nobody() {
    use rand::SeedableRng;
    let mut rng = rand_chacha::ChaCha8Rng::seed_from_u64(5);
    let mut net = Net::cluster(Profile::Default, 3);
    let run = net.nodes[1].core.me().run;
    let received = net.nodes[0].core.counters().updates_received;
    for i in 0..10_000usize {
        let header = Header { fingerprint: 0, ..net.nodes[1].core.next_header() };
        let bytes = anything(&mut rng, i, &header);
        // Whatever number a mutated one had.
        if net.nodes[0].core.knows(run) {
            net.nodes[0].core.count_from(run, header.sequence);
        }
        net.input(0, Input::Packet { from: address(1), bytes: &bytes });
        net.run(std::time::Duration::from_millis(1));
    }
    assert!(net.nodes[0].core.counters().updates_received > received + 50, "they are read as that member's");
    net.run(std::time::Duration::from_secs(60));
    assert!(net.nodes.iter().all(|node| node.stopped.is_none()), "{}", net.describe());
    for (observer, name) in [(0, "n1"), (0, "n2"), (1, "n0"), (2, "n0")] {
        assert_eq!(net.status(observer, name), Some(Status::Up), "{name} at n{observer}: {}", net.describe());
    }
}
