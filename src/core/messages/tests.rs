//! The machine by itself: what it sends, delivers and gives up, without a core around it.

use std::sync::Arc;
use std::time::Duration;

use super::*;
use crate::connectivity::Paths;
use crate::detection::LocalHealth;
use crate::envelope::{MessageId, Payload, Topic};
use crate::io::{DeliveryKind, LinkId, OutOfBandBroadcast};
use crate::limits::{DIRECT_RETRY, MAX_FLOODED_PAYLOAD, MAX_NUMBERS_AHEAD, SEND_TIMEOUT};
use crate::member::tests::record;
use crate::member::{NodeId, Run, Status};
use crate::observers::Observers;
use crate::packet::{Packets, Prover};
use crate::random::{Stream, stream};
use crate::settings::Profile;
use crate::view::{Peer, Slot, View, slot_at};
use crate::wire::{Broadcast, Message, Packet, Purpose, Span};

const LINK: Way = Way::Link(LinkId::Opened(7));
const N1: Slot = slot_at(1);
const N2: Slot = slot_at(2);

/// Everything that a machine is lent: the view of node `n0`, in which `n1` and `n2` are Up.
struct Lent {
    cx: Context,
    view: View,
    packets: Packets,
    observers: Observers,
    health: LocalHealth,
    paths: Paths,
}

impl Lent {
    fn new() -> (Self, Messages) {
        let (now, settings) = (Time::ORIGIN, Profile::Lan.settings());
        let mut lent = Self {
            cx: Context::new(now, Run(100), 1, settings.clone(), 0),
            view: View::new(0),
            packets: Packets::new(Prover::new(&mut stream(1, Stream::Prover))),
            observers: Observers::new(settings.observers, 0),
            health: LocalHealth::new(now),
            paths: Paths::new(stream(1, Stream::Paths)),
        };
        lent.cx.phase = Phase::Up;
        for n in 0..3 {
            let mut record = record(&format!("n{n}"), 5, Status::Up);
            (record.run, record.address) = (Run(100 + n), ([127, 0, 0, 1], 1_000 + n as u16).into());
            let record = Arc::new(record);
            let slot = lent.view.insert(Arc::clone(&record), record.hash(), Peer::new(now));
            assert_eq!(slot, slot_at(n as usize));
            lent.view.peer_mut(slot).prove();
        }
        let mut messages = Messages::new(now, stream(1, Stream::Messages));
        messages.begin(now);
        (lent, messages)
    }

    fn out(&mut self) -> Outbox<'_> {
        let Self { cx, view, packets, observers, health, paths } = self;
        Outbox { cx, view, packets, observers, health, paths }
    }

    fn outputs(&mut self) -> Vec<Output> {
        std::iter::from_fn(|| self.cx.next_output()).collect()
    }

    /// Takes out the outputs, and returns the messages of these, by datagrams and links, that are about messages.
    fn sent(&mut self) -> Vec<Message> {
        let bytes = |output| match output {
            Output::Transmit { bytes, .. } | Output::SendFrame { bytes, .. } => Some(bytes),
            _ => None,
        };
        let packets = self.outputs().into_iter().filter_map(bytes);
        let all = packets.flat_map(|bytes| Packet::decode(&bytes).expect("decodes").messages);
        all.filter(|message| !matches!(message, Message::Heartbeat(_))).collect()
    }

    /// Takes out the outputs, and returns the messages to this node's programs.
    fn delivered(&mut self) -> Vec<MessageId> {
        let delivery = |output| if let Output::Message(delivery) = output { Some(delivery.id) } else { None };
        self.outputs().into_iter().filter_map(delivery).collect()
    }
}

fn topic() -> Topic {
    Topic::new("t").expect("a topic")
}

fn payload(bytes: usize) -> Payload {
    Payload::new(&vec![7; bytes]).expect("not too large")
}

fn tell(number: u64) -> DirectMessage {
    DirectMessage { number, purpose: Purpose::Tell { topic: topic() }, payload: payload(1) }
}

fn send(lent: &mut Lent, messages: &mut Messages, to: &str) -> Option<Unlinked> {
    let to = NodeId::new(to).expect("a name");
    messages.command(&mut lent.out(), Command::Send { ticket: 1, to, topic: topic(), payload: payload(1) })
}

fn refusals(lent: &mut Lent) -> Vec<CommandError> {
    let refusal = |output| match output {
        Output::Reply { reply: Reply::Refused(error), .. } => Some(error),
        _ => None,
    };
    lent.outputs().into_iter().filter_map(refusal).collect()
}

#[test]
fn a_direct_message_asks_for_a_link_and_is_given_up_without_one() {
    let (mut lent, mut messages) = Lent::new();
    assert_eq!(send(&mut lent, &mut messages, "n1"), Some(Unlinked { receiver: N1, number: 1 }));
    assert!(messages.direct.is_any_for(Run(101)) && lent.outputs().is_empty());
    messages.direct.give_up(&mut lent.cx, 1);
    let id = NodeId::new("n1").expect("a name");
    assert_eq!(refusals(&mut lent), [CommandError::NoLink { id }]);
    assert!(!messages.direct.is_any_for(Run(101)));
    assert_eq!(send(&mut lent, &mut messages, "n0"), None, "to itself a node needs none");
    assert_eq!(lent.delivered(), [MessageId::direct(Run(100), 2)]);
}

#[test]
fn a_direct_message_that_waits_is_overdue_until_its_time_is_over() {
    let (mut lent, mut messages) = Lent::new();
    send(&mut lent, &mut messages, "n1");
    lent.cx.now = Time::ORIGIN + DIRECT_RETRY;
    let overdue = Overdue { receiver: Run(101), sent_since: None };
    assert_eq!(messages.direct.on_deadline(&mut lent.cx, 1), Some(overdue));
    assert!(refusals(&mut lent).is_empty());
    lent.cx.now = Time::ORIGIN + SEND_TIMEOUT;
    assert_eq!(messages.direct.on_deadline(&mut lent.cx, 1), None);
    assert_eq!(refusals(&mut lent).len(), 1);
}

#[test]
fn a_repeated_direct_message_is_delivered_once_and_has_a_receipt_each_time() {
    let (mut lent, mut messages) = Lent::new();
    let mut receipts = 0;
    for times in 1..=3 {
        messages.on_direct(&mut lent.out(), N1, LINK, &tell(9));
        receipts += lent.sent().iter().filter(|message| **message == Message::Receipt { number: 9 }).count();
        assert_eq!(receipts, times);
    }
    assert_eq!((lent.cx.counters.messages.delivered, lent.cx.counters.messages.duplicate), (1, 2));
    messages.on_direct(&mut lent.out(), N1, Way::Datagrams, &tell(10));
    assert!(lent.outputs().is_empty(), "it did not come by a link");
    assert_eq!(lent.cx.counters.messages.dropped, 1);
}

#[test]
fn a_request_is_answered_once() {
    let (mut lent, mut messages) = Lent::new();
    let ask = DirectMessage { purpose: Purpose::Ask { topic: topic(), within_ms: 500 }, ..tell(3) };
    messages.on_direct(&mut lent.out(), N2, LINK, &ask);
    let kinds: Vec<DeliveryKind> = lent
        .outputs()
        .into_iter()
        .filter_map(|output| if let Output::Message(delivery) = output { Some(delivery.kind) } else { None })
        .collect();
    assert_eq!(kinds, [DeliveryKind::Request { within: Duration::from_millis(500) }]);
    let request = MessageId::direct(Run(102), 3);
    let mut answer = || messages.command(&mut lent.out(), Command::Answer { ticket: 2, request, payload: payload(1) });
    assert_eq!((answer(), answer()), (Some(Unlinked { receiver: N2, number: 1 }), None));
    assert_eq!(refusals(&mut lent), [CommandError::NoSuchRequest { id: request }]);
}

#[test]
fn a_broadcast_is_sent_on_once_and_never_back() {
    let (mut lent, mut messages) = Lent::new();
    let broadcast = Broadcast { run: Run(102), number: 1, age_ms: 0, topic: topic(), payload: payload(1) };
    for _ in 0..2 {
        messages.on_broadcast(&mut lent.out(), N1, &broadcast);
    }
    let id = MessageId::broadcast(Run(102), 1);
    assert_eq!(lent.delivered(), [id]);
    assert_eq!(messages.next_batch(1_000), [id]);
    assert!(messages.next_batch(1_000).is_empty());
    // One brought it, and the other one said it.
    messages.send_batch(&mut lent.out(), &[id], vec![N1, N2]);
    assert!(lent.outputs().is_empty());
    let said = Command::Broadcast { ticket: 1, topic: topic(), payload: payload(1) };
    messages.command(&mut lent.out(), said);
    let batch = messages.next_batch(1_000);
    lent.outputs();
    messages.send_batch(&mut lent.out(), &batch, vec![N1, N2]);
    let copies = lent.sent().into_iter().filter(|message| matches!(message, Message::Broadcast(_))).count();
    assert_eq!(copies, 2);
}

#[test]
fn a_number_farther_ahead_than_anybody_says_so_much_is_neither_taken_nor_asked_for() {
    let (mut lent, mut messages) = Lent::new();
    let broadcast = |number| Broadcast { run: Run(102), number, age_ms: 0, topic: topic(), payload: payload(1) };
    let too_far = 2 + MAX_NUMBERS_AHEAD;
    for number in [1, too_far, 2] {
        messages.on_broadcast(&mut lent.out(), N1, &broadcast(number));
    }
    let spans = [Span { run: Run(102), first: too_far + 1, last: too_far + 1 }];
    messages.on_have_broadcasts(&mut lent.out(), N1, &spans);
    let asked = lent.sent();
    assert!(asked.is_empty(), "{asked:?}");
    messages.on_broadcast(&mut lent.out(), N1, &broadcast(too_far));
    assert_eq!(lent.cx.counters.messages.delivered, 3, "of a long silence");
    assert_eq!(lent.cx.counters.messages.duplicate, 1);
}

#[test]
fn what_is_said_in_the_first_millisecond_of_a_newcomer_reaches_it_over_any_hop() {
    let (mut teller, mut messages) = Lent::new();
    messages.command(&mut teller.out(), Command::Broadcast { ticket: 1, topic: topic(), payload: payload(1) });
    teller.cx.now = Time::ORIGIN + Duration::from_micros(20_400);
    let batch = messages.next_batch(1_000);
    teller.outputs();
    messages.send_batch(&mut teller.out(), &batch, vec![N1]);
    let told = teller.sent().into_iter().find_map(|message| match message {
        Message::Broadcast(broadcast) => Some(broadcast),
        _ => None,
    });
    let (mut newcomer, mut messages) = Lent::new();
    // It came Up in the moment before it was said.
    newcomer.cx.now = Time::ORIGIN + Duration::from_micros(20_500);
    messages.on_broadcast(&mut newcomer.out(), N1, &Broadcast { run: Run(102), ..*told.expect("sent") });
    assert_eq!(newcomer.delivered().len(), 1);
}

#[test]
fn of_a_broadcast_out_of_band_and_its_copy_in_a_packet_the_first_is_delivered() {
    let (mut lent, mut messages) = Lent::new();
    let from = lent.view.record(N2).id.clone();
    let out_of_band = |number| {
        let id = MessageId::broadcast(Run(102), number);
        let from = from.clone();
        let direct = OutOfBandBroadcast { id, from, age: Duration::ZERO, topic: topic(), payload: payload(1) };
        Command::Deliver { ticket: 1, direct }
    };
    let packet = |number| Broadcast { run: Run(102), number, age_ms: 0, topic: topic(), payload: payload(1) };
    messages.command(&mut lent.out(), out_of_band(1));
    messages.on_broadcast(&mut lent.out(), N2, &packet(1));
    messages.on_broadcast(&mut lent.out(), N2, &packet(2));
    messages.command(&mut lent.out(), out_of_band(2));
    assert_eq!(lent.delivered(), [1, 2].map(|number| MessageId::broadcast(Run(102), number)));
    assert_eq!(messages.next_batch(1_000).len(), 2, "either is sent on");
}

#[test]
fn what_a_member_holds_is_asked_for_until_it_comes() {
    let (mut lent, mut messages) = Lent::new();
    let spans = [Span { run: Run(102), first: 1, last: 2 }];
    messages.on_have_broadcasts(&mut lent.out(), N1, &spans);
    messages.on_have_broadcasts(&mut lent.out(), N2, &spans);
    assert_eq!(lent.sent(), [Message::WantBroadcasts(spans.to_vec())], "of the first one alone");
    let broadcast = Broadcast { run: Run(102), number: 1, age_ms: 0, topic: topic(), payload: payload(1) };
    messages.on_broadcast(&mut lent.out(), N1, &broadcast);
    lent.outputs();
    lent.cx.now = Time::ORIGIN + Duration::from_secs(1);
    assert!(messages.is_telling_due(lent.cx.now));
    messages.repair(&mut lent.out(), &[]);
    let missing = Span { run: Run(102), first: 2, last: 2 };
    assert_eq!(lent.sent(), [Message::WantBroadcasts(vec![missing])]);
}

#[test]
fn a_large_broadcast_needs_a_link_and_waits_for_it() {
    let (mut lent, mut messages) = Lent::new();
    let large = payload(MAX_FLOODED_PAYLOAD + 1);
    let broadcast = Broadcast { run: Run(102), number: 1, age_ms: 0, topic: topic(), payload: large };
    messages.on_broadcast(&mut lent.out(), N2, &broadcast);
    lent.outputs();
    let spans = [Span { run: Run(102), first: 1, last: 1 }];
    assert!(messages.is_link_needed(&lent.out(), N1, &spans));
    messages.on_want_broadcasts(&mut lent.out(), N1, &spans);
    assert!(lent.outputs().is_empty());
    lent.view.peer_mut(N1).unprove();
    assert!(!messages.is_link_needed(&lent.out(), N1, &spans), "nothing is done for an address that proved nothing");
    let said = Command::Broadcast { ticket: 1, topic: topic(), payload: payload(MAX_FLOODED_PAYLOAD + 1) };
    messages.command(&mut lent.out(), said);
    assert_eq!(refusals(&mut lent), [CommandError::NoLinks]);
}
