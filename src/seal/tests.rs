//! The room as a whole: what is sealed is opened to the same bytes once, by those who hold the key, and by nobody else.

use proptest::prelude::*;

use super::*;
use headcount_core::Run;
use headcount_core::wire::{Header, Message, Nonce, Packet, PacketBuilder};

/// A key of its own for each number.
pub(super) fn key(number: u8) -> Key {
    let mut bytes = [number; Key::BYTES];
    bytes[0] = !number;
    Key::from_bytes(&bytes).expect("not of equal bytes")
}

pub(super) fn ring(numbers: &[u8]) -> KeyRing {
    KeyRing::new(numbers.iter().map(|number| key(*number))).expect("a ring")
}

pub(super) const CLUSTER: &str = "test";
pub(super) const RUN: Run = Run(0x0123_4567_89ab_cdef);

fn packet(run: Run, sequence: u64, padding: usize) -> Vec<u8> {
    let header = Header { cluster: Header::cluster_hash(CLUSTER), run, sequence, fingerprint: 9 };
    let mut packet = PacketBuilder::new(&header, 1_400);
    packet.push(&Message::Ack { nonce: Nonce(5) });
    packet.pad_to(padding);
    packet.finish()
}

pub(super) fn anonymous() -> Vec<u8> {
    PacketBuilder::new(&Header::anonymous(Header::cluster_hash(CLUSTER)), 1_400).finish()
}

pub(super) fn opened(sealer: &mut DatagramSealer, ring: &KeyRing, datagram: &[u8]) -> Result<Vec<u8>, SealError> {
    let mut packet = Vec::new();
    match sealer.open(ring, datagram, &mut packet, |_| true)? {
        Opened::Bound | Opened::Unbound => Ok(packet),
        Opened::Clear => Err(SealError::Unsealed),
    }
}

pub(super) fn receiver() -> DatagramSealer {
    DatagramSealer::new(Run(99), CLUSTER)
}

/// The run and the number under which a datagram is sealed: its nonce.
fn nonce_of(datagram: &[u8]) -> (Vec<u8>, u64) {
    let (number, _) = cipher::split_varint(&datagram[16..]).expect("a number");
    (datagram[4..16].to_vec(), number)
}

#[test]
fn a_key_that_is_drawn_is_a_new_one_and_is_read_from_its_own_text() {
    let (one, other) = (Key::generate().expect("drawn"), Key::generate().expect("drawn"));
    assert_ne!(one.bytes(), other.bytes());
    assert_eq!(one.to_base64().parse::<Key>().expect("its text").bytes(), one.bytes());
}

proptest! {
    #[test]
    fn a_packet_comes_out_as_it_went_in_and_only_once(
        sequences in prop::collection::vec(0..2_000u64, 1..40), padding in 0..1_300usize,
    ) {
        let (mut from, mut to, ring) = (DatagramSealer::new(RUN, CLUSTER), receiver(), ring(&[1]));
        for sequence in sequences {
            let packet = if sequence == 0 { anonymous() } else { packet(RUN, sequence, padding) };
            let sealed = from.seal(ring.sealing(), Some(Run(99)), &packet).expect("a packet of ours");
            let longer = sealed.len() - packet.len();
            prop_assert!((MIN_OVERHEAD..=MAX_OVERHEAD).contains(&longer), "{longer}");
            prop_assert_eq!(opened(&mut to, &ring, &sealed), Ok(packet));
            prop_assert_eq!(opened(&mut to, &ring, &sealed), Err(SealError::Replayed));
        }
    }

    #[test]
    fn no_two_datagrams_of_a_run_have_one_nonce(sequences in prop::collection::vec(0..50u64, 1..200)) {
        let (mut from, ring, mut seen) = (DatagramSealer::new(RUN, CLUSTER), ring(&[1]), std::collections::BTreeSet::new());
        for sequence in sequences {
            let packet = if sequence == 0 { anonymous() } else { packet(RUN, sequence, 0) };
            let sealed = from.seal(ring.sealing(), Some(Run(99)), &packet).expect("a packet of ours");
            prop_assert!(seen.insert(nonce_of(&sealed)), "of {sequence}");
        }
    }

    #[test]
    fn a_changed_byte_anywhere_is_noticed(place in 0..200usize, with in 1..=255u8, padding in 0..150usize) {
        let (mut from, ring) = (DatagramSealer::new(RUN, CLUSTER), ring(&[1, 2]));
        let mut sealed = from.seal(ring.sealing(), Some(Run(99)), &packet(RUN, 3, padding)).expect("a packet of ours");
        let place = place % sealed.len();
        sealed[place] ^= with;
        prop_assert!(opened(&mut receiver(), &ring, &sealed).is_err(), "byte {place}");
    }

    #[test]
    fn a_cut_or_lengthened_datagram_is_noticed(length in 0..300usize) {
        let (mut from, ring) = (DatagramSealer::new(RUN, CLUSTER), ring(&[1]));
        let mut sealed = from.seal(ring.sealing(), Some(Run(99)), &packet(RUN, 3, 150)).expect("a packet of ours");
        prop_assume!(length != sealed.len());
        sealed.resize(length, 0);
        prop_assert!(opened(&mut receiver(), &ring, &sealed).is_err());
    }

    #[test]
    fn no_bytes_make_opening_panic(bytes: Vec<u8>, mark in 0..5u8) {
        let ring = ring(&[1]);
        let sealed = [b"HC\x01", &[mark][..], &bytes].concat();
        let _ = opened(&mut receiver(), &ring, &sealed);
        let mut known = sealed.clone();
        if let Some(id) = known.get_mut(12..16) {
            id.copy_from_slice(&ring.sealing().id().0);
        }
        prop_assert!(opened(&mut receiver(), &ring, &known).is_err());
        let mut link = LinkSealer::acceptor(Run(99), CLUSTER, 1, [1; 16]);
        prop_assert!(!matches!(
            link.take(SealMode::Require, &ring, &known),
            Ok(LinkStep::Frame(_) | LinkStep::Clear | LinkStep::Greeted(_))
        ));
    }

    /// A ring behaves like a list of ids without repetition, whatever is done to it.
    #[test]
    fn a_ring_is_a_list_of_keys_the_first_of_which_seals(
        first in 0..12u8, deeds in prop::collection::vec((0..3u8, 0..12u8), 0..60),
    ) {
        let (mut ring, mut model) = (ring(&[first]), vec![key(first).id()]);
        for (deed, number) in deeds {
            let (key, id) = (key(number), key(number).id());
            let place = model.iter().position(|held| *held == id);
            let expected = match (deed, place) {
                (0, Some(_)) => Ok(false),
                (0, None) if model.len() == MAX_KEYS => Err(RingError::Full),
                (0, None) => { model.push(id); Ok(true) }
                (1, None) => Err(RingError::Unknown(id)),
                (1, Some(place)) => { model.remove(place); model.insert(0, id); Ok(place != 0) }
                (_, Some(0)) => Err(RingError::Sealing(id)),
                (_, Some(place)) => { model.remove(place); Ok(true) }
                (_, None) => Ok(false),
            };
            let done = match deed { 0 => ring.add(key), 1 => ring.use_key(id), _ => ring.remove(id) };
            prop_assert_eq!(done, expected);
            prop_assert_eq!(ring.ids(), model.clone());
            prop_assert_eq!(ring.sealing().id(), model[0]);
            let written = KeyFile::default().with(&ring).text();
            prop_assert_eq!(KeyFile::parse(&written).expect("a file").ring().expect("a ring"), ring.clone());
        }
    }

    /// Two members, each anywhere between two rings one rotation step apart, always hear each other.
    #[test]
    fn no_step_of_a_rotation_locks_anybody_out(step in 0..3usize, ahead: bool) {
        let steps = [ring(&[1]), ring(&[1, 2]), ring(&[2, 1]), ring(&[2])];
        let (here, there) = (&steps[step], &steps[step + 1]);
        let (here, there) = if ahead { (there, here) } else { (here, there) };
        let sealed = DatagramSealer::new(RUN, CLUSTER).seal(here.sealing(), Some(Run(99)), &packet(RUN, 1, 0)).expect("a packet of ours");
        prop_assert!(opened(&mut receiver(), there, &sealed).is_ok());
    }
}

#[test]
fn a_sealed_packet_has_these_bytes_for_ever() {
    let header = Header { cluster: Header::cluster_hash(CLUSTER), run: RUN, sequence: 300, fingerprint: 9 };
    let mut packet = PacketBuilder::new(&header, 1_400);
    packet.push(&Message::Ack { nonce: Nonce(5) });
    let packet = packet.finish();
    let (mut sender, mut receiver) = (DatagramSealer::new(RUN, CLUSTER), DatagramSealer::new(Run(99), CLUSTER));
    let datagram = sender.seal(&key(1), None, &packet).expect("a packet of ours");
    let clear_header = [b"HC\x01\x01", &[0xef, 0xcd, 0xab, 0x89, 0x67, 0x45, 0x23, 0x01][..]].concat();
    assert_eq!(datagram[..12], clear_header);
    assert_eq!(datagram[12..18], [0x3f, 0x4a, 0xdd, 0x3a, 0xac, 0x02], "the key's id, and the number");
    assert_eq!(
        datagram[18..],
        [
            0x0d, 0x52, 0xfd, 0x8d, 0x21, 0x35, 0xaf, 0xff, 0x88, 0x12, 0x3a, 0x0e, 0x53, 0xd3, 0x18, 0xdc, 0x2b, 0x98,
            0x29, 155, 130, 9, 94, 185, 164, 93, 211, 18, 162, 22, 10, 251, 65, 199, 114,
        ]
    );
    assert_eq!(opened(&mut receiver, &ring(&[1]), &datagram), Ok(packet.clone()));
    assert!(Packet::decode(&packet).is_ok());
}

#[test]
fn nothing_of_another_cluster_is_opened_although_it_has_the_key() {
    let sealed = DatagramSealer::new(RUN, CLUSTER).seal(&key(1), None, &packet(RUN, 1, 0)).expect("a packet of ours");
    let mut elsewhere = DatagramSealer::new(Run(99), "other");
    assert_eq!(opened(&mut elsewhere, &ring(&[1]), &sealed), Err(SealError::Forged));
    assert_eq!(elsewhere.seal(&key(1), None, &packet(Run(99), 1, 0)), None, "of the first cluster");
    let mut acceptor = LinkSealer::acceptor(Run(99), "other", 1, [1; 16]);
    let greeting = LinkSealer::opener(RUN, CLUSTER, 1, [2; 16]).greeting(&key(1));
    let step = acceptor.take(SealMode::Require, &ring(&[1]), &greeting);
    assert_eq!(step, Err(SealError::Forged));
}

#[test]
fn a_sealed_heartbeat_has_at_most_56_bytes() {
    let mut sealer = DatagramSealer::new(RUN, CLUSTER);
    // After years of packets, and with one to a stranger before it.
    for (sequence, most) in [(1, 52), (1_000_000, 54), (250_000_000, 55)] {
        sealer.seal(&key(1), None, &anonymous()).expect("a packet of ours");
        let header = Header { cluster: Header::cluster_hash(CLUSTER), run: RUN, sequence, fingerprint: 9 };
        let mut packet = PacketBuilder::new(&header, 1_400);
        let echo = Some(headcount_core::wire::Echo { stamp: 3, hold: 4 });
        packet.push(&Message::Heartbeat(headcount_core::wire::Heartbeat { stamp: 1, echo }));
        let datagram = sealer.seal(&key(1), None, &packet.finish()).expect("a packet of ours");
        assert!(datagram.len() <= most, "{} bytes at {sequence}", datagram.len());
    }
}

#[test]
fn who_lacks_the_key_is_told_which_before_anything_is_decrypted() {
    let sealed = DatagramSealer::new(RUN, CLUSTER).seal(&key(1), None, &packet(RUN, 1, 0)).expect("a packet of ours");
    assert_eq!(opened(&mut receiver(), &ring(&[2]), &sealed), Err(SealError::UnknownKey(key(1).id())));
    let mut short = sealed.clone();
    short.truncate(41);
    assert_eq!(opened(&mut receiver(), &ring(&[1]), &short), Err(SealError::Malformed));
    assert_eq!(opened(&mut receiver(), &ring(&[1]), &packet(RUN, 1, 0)), Err(SealError::Unsealed));
}

#[test]
fn packets_of_others_are_not_sealed_as_ours() {
    let mut sealer = DatagramSealer::new(RUN, CLUSTER);
    assert_eq!(sealer.seal(&key(1), None, &packet(Run(5), 1, 0)), None);
    assert_eq!(sealer.seal(&key(1), None, &Packet::refusal(headcount_core::ProtocolRange::OURS)), None);
    assert_eq!(sealer.seal(&key(1), None, b"HC"), None);
}

#[test]
fn a_packet_without_a_number_costs_no_number_twice() {
    let (mut sealer, ring) = (DatagramSealer::new(RUN, CLUSTER), ring(&[1]));
    let numbers: Vec<u64> = [packet(RUN, 5, 0), anonymous(), anonymous(), packet(RUN, 5, 0), packet(RUN, 6, 0)]
        .iter()
        .map(|packet| nonce_of(&sealer.seal(ring.sealing(), None, packet).expect("ours")).1)
        .collect();
    assert_eq!(numbers, [5, 6, 7, 8, 9]);
}

/// Both ends of a connection, and what they accept.
struct Pair {
    opener: LinkSealer,
    acceptor: LinkSealer,
    ring: KeyRing,
}

impl Pair {
    fn new(number: u64) -> Self {
        let random = [number as u8; 16];
        Self {
            opener: LinkSealer::opener(RUN, CLUSTER, number, random),
            acceptor: LinkSealer::acceptor(Run(99), CLUSTER, number, [!number as u8; 16]),
            ring: ring(&[1]),
        }
    }

    /// Greets; returns the pair, and the opener's greeting.
    fn greeted(number: u64) -> (Self, Vec<u8>) {
        let mut pair = Self::new(number);
        let greeting = pair.opener.greeting(pair.ring.sealing());
        let Ok(LinkStep::Greeted(Some(answer))) = pair.at_acceptor(&greeting) else { panic!("greeted") };
        assert_eq!(pair.at_opener(&answer), Ok(LinkStep::Greeted(None)));
        (pair, greeting)
    }

    fn at_acceptor(&mut self, frame: &[u8]) -> Result<LinkStep, SealError> {
        self.acceptor.take(SealMode::Require, &self.ring, frame)
    }

    fn at_opener(&mut self, frame: &[u8]) -> Result<LinkStep, SealError> {
        self.opener.take(SealMode::Require, &self.ring, frame)
    }
}

#[test]
fn frames_travel_both_ways_in_order() {
    let (mut pair, _) = Pair::greeted(1);
    let key = pair.ring.sealing().clone();
    for number in 0..200_u8 {
        let frame = pair.opener.seal(&key, &[number]).expect("greeted");
        assert_eq!(pair.at_acceptor(&frame), Ok(LinkStep::Frame(vec![number])));
        let frame = pair.acceptor.seal(&key, &[number; 3]).expect("greeted");
        assert_eq!(pair.at_opener(&frame), Ok(LinkStep::Frame(vec![number; 3])));
    }
}

#[test]
fn frames_are_not_repeated_left_out_swapped_reflected_or_moved() {
    let frames = |pair: &mut Pair| {
        let key = pair.ring.sealing().clone();
        [b"a", b"b"].map(|contents| pair.opener.seal(&key, contents).expect("greeted"))
    };
    let (mut pair, _) = Pair::greeted(1);
    let [first, second] = frames(&mut pair);
    assert!(pair.at_acceptor(&first).is_ok());
    assert_eq!(pair.at_acceptor(&first), Err(SealError::Forged), "repeated");
    assert!(pair.at_acceptor(&second).is_err(), "after an error nothing is taken");
    let (mut pair, _) = Pair::greeted(2);
    let [_, second] = frames(&mut pair);
    assert_eq!(pair.at_acceptor(&second), Err(SealError::Forged), "the first was left out");
    let (mut pair, _) = Pair::greeted(3);
    let [first, _] = frames(&mut pair);
    assert_eq!(pair.at_opener(&first), Err(SealError::Forged), "reflected");
    let (mut other, _) = Pair::greeted(4);
    assert_eq!(other.at_acceptor(&first), Err(SealError::Forged), "moved to another connection");
}

#[test]
fn a_recorded_greeting_leads_nowhere() {
    let (mut pair, greeting) = Pair::greeted(1);
    let key = pair.ring.sealing().clone();
    let frame = pair.opener.seal(&key, b"hello").expect("greeted");
    // Each greeting has a value of its own: for another connection, and after a restart of the acceptor.
    for mut again in
        [LinkSealer::acceptor(Run(99), CLUSTER, 2, [3; 16]), LinkSealer::acceptor(Run(100), CLUSTER, 1, [4; 16])]
    {
        let answer = again.take(SealMode::Require, &pair.ring, &greeting);
        assert!(matches!(answer, Ok(LinkStep::Greeted(Some(_)))), "{answer:?}");
        let step = again.take(SealMode::Require, &pair.ring, &frame);
        assert_eq!(step, Err(SealError::Forged), "bound to the value of the one before");
    }
}

#[test]
fn an_answer_to_a_greeting_is_as_long_as_the_greeting_whatever_the_numbers() {
    let numbers = [1, 127, 128, 1 << 32, u64::MAX];
    for (opened, accepted) in numbers.iter().flat_map(|one| numbers.map(|other| (*one, other))) {
        let greeting = LinkSealer::opener(RUN, CLUSTER, opened, [1; 16]).greeting(&key(1));
        let mut acceptor = LinkSealer::acceptor(Run(99), CLUSTER, accepted, [2; 16]);
        let step = acceptor.take(SealMode::Require, &ring(&[1]), &greeting);
        let Ok(LinkStep::Greeted(Some(answer))) = step else { panic!("{step:?}") };
        assert_eq!((answer.len(), greeting.len()), (56, 56), "{opened} {accepted}");
    }
}

#[test]
fn the_first_frame_decides_and_a_clear_one_is_refused_where_sealing_is_required() {
    let clear = packet(RUN, 1, 0);
    for (mode, is_taken) in
        [(SealMode::Off, true), (SealMode::Permit, true), (SealMode::Prefer, true), (SealMode::Require, false)]
    {
        let mut pair = Pair::new(1);
        let step = pair.acceptor.take(mode, &pair.ring, &clear);
        assert_eq!(step, if is_taken { Ok(LinkStep::Clear) } else { Err(SealError::Unsealed) }, "{mode}");
        let greeting = pair.opener.greeting(pair.ring.sealing());
        let step = pair.acceptor.take(mode, &pair.ring, &greeting);
        assert!(!matches!(step, Ok(LinkStep::Greeted(_))), "what began clear stays so: {mode}");
    }
    let mut pair = Pair::new(1);
    pair.opener.greeting(pair.ring.sealing());
    let answer = pair.opener.take(SealMode::Prefer, &pair.ring, &clear);
    assert_eq!(answer, Err(SealError::Unsealed), "who greeted is not talked down to a clear connection");
}

#[test]
fn a_clear_link_ends_with_the_first_frame_after_sealing_became_required() {
    let mut pair = Pair::new(1);
    assert_eq!(pair.acceptor.take(SealMode::Prefer, &pair.ring, b"HC\x01\0"), Ok(LinkStep::Clear));
    assert_eq!(pair.at_acceptor(b"HC\x01\0"), Err(SealError::Unsealed));
}

#[test]
fn a_link_outlives_the_rotation_of_its_key() {
    let (mut pair, _) = Pair::greeted(1);
    for (ring, by) in [(ring(&[1, 2]), 1), (ring(&[2, 1]), 2), (ring(&[2]), 2)] {
        pair.ring = ring;
        let frame = pair.opener.seal(&key(by), b"x").expect("greeted");
        assert_eq!(pair.at_acceptor(&frame), Ok(LinkStep::Frame(b"x".to_vec())));
    }
    let frame = pair.opener.seal(&key(1), b"x").expect("greeted");
    assert_eq!(pair.at_acceptor(&frame), Err(SealError::UnknownKey(key(1).id())), "the key was removed");
}

/// Opens a datagram as this run; returns whether it was bound.
fn bound_for(run: Run, datagram: &[u8]) -> Result<bool, SealError> {
    let mut packet = Vec::new();
    match DatagramSealer::new(run, CLUSTER).open(&ring(&[1]), datagram, &mut packet, |_| true)? {
        Opened::Bound => Ok(true),
        Opened::Unbound => Ok(false),
        Opened::Clear => Err(SealError::Unsealed),
    }
}

#[test]
fn a_bound_datagram_is_opened_by_its_receiver_alone_and_an_unbound_one_by_all_who_know_that_it_is() {
    let mut sealer = DatagramSealer::new(RUN, CLUSTER);
    let bound = sealer.seal(&key(1), Some(Run(99)), &packet(RUN, 1, 0)).expect("a packet of ours");
    let unbound = sealer.seal(&key(1), None, &packet(RUN, 2, 0)).expect("a packet of ours");
    assert_eq!(bound.len(), unbound.len(), "the receiver does not travel");
    assert_eq!(bound_for(Run(99), &bound), Ok(true));
    for other in [Run(98), Run(0), Run(u64::MAX), RUN] {
        assert_eq!(bound_for(other, &bound), Err(SealError::Misdirected), "{other:?}");
        assert_eq!(bound_for(other, &unbound), Ok(false), "{other:?}");
    }
}

#[test]
fn whatever_is_sealed_names_its_key_also_to_those_that_hold_none() {
    let mut sealer = DatagramSealer::new(RUN, CLUSTER);
    let mut said = |receiver| sealer.seal(&key(1), receiver, &packet(RUN, 1, 0)).expect("a packet of ours");
    let greeting = LinkSealer::opener(RUN, CLUSTER, 1, [1; 16]).greeting(&key(1));
    for sealed in [said(None), said(Some(Run(99))), greeting] {
        assert_eq!(key_id_of(&sealed), Some(key(1).id()));
        assert_eq!(key_id_of(&sealed[..15]), None, "cut off");
    }
    assert_eq!(key_id_of(&packet(RUN, 1, 0)), None);
}

#[test]
fn a_key_is_found_by_its_whole_id() {
    let (ring, id) = (ring(&[1, 2]), key(2).id());
    assert_eq!(ring.find(id), Some(&key(2)));
    for place in 0..KeyId::BYTES {
        let mut other = id;
        other.0[place] ^= 1;
        assert_eq!(ring.find(other), None, "byte {place}");
    }
}

#[test]
fn the_mark_is_sealed_too() {
    let mut sealer = DatagramSealer::new(RUN, CLUSTER);
    let mut bound = sealer.seal(&key(1), Some(Run(99)), &packet(RUN, 1, 0)).expect("a packet of ours");
    let mut unbound = sealer.seal(&key(1), None, &packet(RUN, 2, 0)).expect("a packet of ours");
    std::mem::swap(&mut bound[3], &mut unbound[3]);
    assert_eq!(bound_for(Run(99), &bound), Err(SealError::Forged), "not opened as unbound");
    assert_eq!(bound_for(Run(99), &unbound), Err(SealError::Misdirected), "not opened as bound");
}

#[test]
fn a_sealed_link_has_these_bytes_for_ever() {
    let mut opener = LinkSealer::opener(RUN, CLUSTER, 300, [1; 16]);
    let mut acceptor = LinkSealer::acceptor(Run(99), CLUSTER, 7, [2; 16]);
    let (key, ring) = (key(1), ring(&[1]));
    let hex = |bytes: &[u8]| bytes.iter().map(|byte| format!("{byte:02x}")).collect::<Vec<_>>().concat();
    let greeting = opener.greeting(&key);
    assert_eq!(
        hex(&greeting),
        "48430102efcdab89674523013f4add3a2c0100000000000017489b0a38eaa80c05660978ff70795a63c48631a3d05baca755f5f1e1899271"
    );
    let step = acceptor.take(SealMode::Require, &ring, &greeting);
    let Ok(LinkStep::Greeted(Some(answer))) = step else { panic!("{step:?}") };
    assert_eq!(
        hex(&answer),
        "4843010263000000000000003f4add3a0700000000000000e8f66f3f6a691e6f32454e94e2f50951c42b258a9e6ee0ed877136c69595cc5c"
    );
    assert_eq!(opener.take(SealMode::Require, &ring, &answer), Ok(LinkStep::Greeted(None)));
    let frames = [b"hi", b"hi"].map(|packet| hex(&opener.seal(&key, packet).expect("greeted")));
    assert_eq!(
        frames,
        ["3f4add3a45056824e907af5f629d42c9ac64715f0be5", "3f4add3a0f79818298825bacb46ddbf0caee312289bf"]
    );
    let reply = acceptor.seal(&key, b"yes").expect("greeted");
    assert_eq!(hex(&reply), "3f4add3aa70606c86643326d991596ff82862d9f6da2f9");
}

/// Of equal contents: under one nonce, which is one key stream, they would have equal bytes.
#[test]
fn no_two_frames_have_one_nonce_whatever_their_connection_direction_and_run() {
    let contents = [7; 32];
    let greeted = |ours: Run, theirs: Run, number: u64| {
        let (mut opener, mut acceptor) = (
            LinkSealer::opener(ours, CLUSTER, number, [1; 16]),
            LinkSealer::acceptor(theirs, CLUSTER, number + 1, [2; 16]),
        );
        let greeting = opener.greeting(&key(1));
        let step = acceptor.take(SealMode::Require, &ring(&[1]), &greeting);
        let Ok(LinkStep::Greeted(Some(answer))) = step else { panic!("{step:?}") };
        assert_eq!(opener.take(SealMode::Require, &ring(&[1]), &answer), Ok(LinkStep::Greeted(None)));
        [opener, acceptor]
    };
    let mut seen = std::collections::BTreeSet::new();
    // Each run counts its own connections; the last pair is a node that was restarted.
    for (ours, theirs, number) in [(RUN, Run(99), 1), (RUN, Run(99), 3), (Run(99), RUN, 5), (Run(100), RUN, 1)] {
        for mut end in greeted(ours, theirs, number) {
            for place in 0..3 {
                let frame = end.seal(&key(1), &contents).expect("greeted");
                let is_new = seen.insert(frame[KeyId::BYTES..KeyId::BYTES + contents.len()].to_vec());
                assert!(is_new, "frame {place} between {ours:?} and {theirs:?}, connection {number}");
            }
        }
    }
}

#[test]
fn a_recorded_answer_to_a_greeting_is_none_to_another() {
    let mut pair = Pair::new(1);
    let greeting = pair.opener.greeting(pair.ring.sealing());
    let Ok(LinkStep::Greeted(Some(answer))) = pair.at_acceptor(&greeting) else { panic!("greeted") };
    let mut later = LinkSealer::opener(RUN, CLUSTER, 2, [9; 16]);
    later.greeting(pair.ring.sealing());
    assert_eq!(later.take(SealMode::Require, &pair.ring, &answer), Err(SealError::Forged), "of another connection");
    assert_eq!(pair.at_opener(&answer), Ok(LinkStep::Greeted(None)));
}

#[test]
fn no_datagram_is_opened_twice_however_many_came_between() {
    let (ring, mut to, mut sealer) = (ring(&[1]), receiver(), DatagramSealer::new(RUN, CLUSTER));
    let mut said = |sequence, receiver| sealer.seal(&key(1), receiver, &packet(RUN, sequence, 0)).expect("ours");
    let first = [said(1, None), said(2, Some(Run(99)))];
    assert!(first.iter().all(|datagram| opened(&mut to, &ring, datagram).is_ok()));
    for number in [5_000, 100_000, 1 << 50] {
        assert!(opened(&mut to, &ring, &said(number, None)).is_ok());
        for datagram in &first {
            assert_eq!(opened(&mut to, &ring, datagram), Err(SealError::Replayed), "after {number}");
        }
    }
}

#[test]
fn what_is_forged_moves_no_window_and_takes_no_place_in_the_table() {
    let (ring, mut to, mut sealer) = (ring(&[1]), receiver(), DatagramSealer::new(RUN, CLUSTER));
    let mut said = |sequence| sealer.seal(&key(1), None, &packet(RUN, sequence, 0)).expect("ours");
    let (near, far) = (said(1), said(1 << 50));
    for genuine in [&near, &far] {
        // Whoever knows a run and the id of a key can make up any number.
        let mut forged = genuine.clone();
        *forged.last_mut().expect("a tag") ^= 1;
        assert_eq!(opened(&mut to, &ring, &forged), Err(SealError::Forged));
    }
    assert_eq!(to.senders(), 0);
    assert!(opened(&mut to, &ring, &near).is_ok(), "the member itself is heard");
    assert_eq!(to.senders(), 1);
}

#[test]
fn another_format_version_is_told_as_such_and_not_as_a_forgery() {
    let mut datagram =
        DatagramSealer::new(RUN, CLUSTER).seal(&key(1), None, &packet(RUN, 1, 0)).expect("a packet of ours");
    datagram[2] += 1;
    assert_eq!(opened(&mut receiver(), &ring(&[1]), &datagram), Err(SealError::UnknownVersion));
    let mut pair = Pair::new(1);
    let mut greeting = pair.opener.greeting(pair.ring.sealing());
    greeting[2] += 1;
    assert_eq!(pair.at_acceptor(&greeting), Err(SealError::UnknownVersion));
}

#[test]
fn reasons_are_counted_under_their_own_names() {
    let names = [
        (SealError::Unsealed, "unsealed"),
        (SealError::UnknownVersion, "sealed_unknown_version"),
        (SealError::Malformed, "sealed_malformed"),
        (SealError::UnknownKey(key(1).id()), "sealed_unknown_key"),
        (SealError::Forged, "sealed_forged"),
        (SealError::Replayed, "sealed_replayed"),
        (SealError::Misdirected, "sealed_misdirected"),
        (SealError::NotLoopback, "not_loopback"),
    ];
    assert_eq!(names.len(), SealError::COUNT);
    for (error, name) in names {
        assert_eq!(SealError::NAMES[error.index()], name);
    }
}
