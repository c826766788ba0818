//! Questions and answers between two cores: whatever one says to the other, and the other to it, all is quiet soon (see
//! the table on the page of `packet`).

use std::time::Duration;

use super::codec::one_of_each;
use super::electing;
use super::net::{Net, address, ms};
use super::saying::say;
use super::speaker::Speaker;
use headcount_core::limits::{LEADER_ANSWER_INTERVAL, MAX_WANTS};
use headcount_core::wire::{Message, Nonce, Span, Update};
use headcount_core::{Profile, Record, Status};

/// The time after which nothing is said any more because of one message.
const SOON: Duration = Duration::from_secs(2);
/// The time in which it is counted whether all is quiet then.
const COUNTED: Duration = Duration::from_secs(4);
/// The greatest number of further packets, of all nodes, because each of two said one message.
const MOST: u64 = 60;

/// Two cores, and their relation to each other.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Pair {
    /// Members whose addresses are proven.
    Proven,
    /// Members of which neither knows that the other is where it says.
    Unproven,
    /// Two clusters of one that never heard of each other.
    Strangers,
}

impl Pair {
    fn meet(self) -> Net {
        if self == Pair::Strangers {
            let mut net = Net::new(Profile::Local);
            net.add("n0", 0, &[]);
            net.add("n1", 1, &[]);
            net.run(Duration::from_secs(13));
            return net;
        }
        let mut net = electing::cluster(3, 3);
        net.run(Duration::from_secs(10));
        if self == Pair::Unproven {
            for (here, there) in [(0, 1), (1, 0)] {
                let run = net.nodes[there].core.me().run;
                net.nodes[here].core.set_proven(run, false);
            }
        }
        net
    }
}

/// Fills a message with what the receiver can answer: names and runs that it knows, and nonces that it gave.
fn told(net: &Net, from: usize, to: usize, message: Message) -> Message {
    let (speaker, receiver) = (&net.nodes[from].core, &net.nodes[to].core);
    let nonce = receiver.nonce(address(from), net.now);
    let third = net.nodes.last().expect("nodes").core.me().run;
    match message {
        Message::Ack { .. } => Message::Ack { nonce },
        Message::WhoAreYou { .. } => Message::WhoAreYou { nonce: Nonce(7), echo: Some(nonce) },
        Message::IAm { .. } => Message::IAm { nonce, record: Record::clone(speaker.me()) },
        Message::HeldStatus { .. } => {
            let Record { run, incarnation, .. } = **receiver.me();
            Message::HeldStatus { run, incarnation, status: Status::Suspect, age_ms: 100 }
        }
        Message::Update(update) => {
            Message::Update(Update { note: update.note, record: receiver.me().with_status(Status::Suspect) })
        }
        Message::Join { .. } => {
            let record = speaker.me().with_status(Status::Joining);
            let cookie = receiver.cookie(address(from), record.run, net.now);
            Message::Join { nonce: Nonce(7), record, cookie: Some(cookie) }
        }
        Message::Pull { pages, .. } => Message::Pull { after: None, pages },
        Message::Want { .. } => Message::Want { buckets: [255; 32] },
        Message::LastHeard { .. } => Message::LastHeard { run: third },
        Message::HeardAt { age_ms, .. } => Message::HeardAt { run: third, age_ms },
        Message::Severed { age_ms, is_sure, .. } => Message::Severed { run: third, age_ms, is_sure },
        Message::Alive { sequence, .. } => Message::Alive { run: third, sequence },
        Message::ReachMe { .. } => Message::ReachMe { nonce: Nonce(7), address: address(from) },
        Message::HaveBroadcasts(_) => {
            Message::HaveBroadcasts(vec![Span { run: speaker.me().run, first: 1, last: 300 }])
        }
        Message::WantBroadcasts(_) => {
            Message::WantBroadcasts(vec![Span { run: receiver.me().run, first: 1, last: 300 }])
        }
        other => other,
    }
}

/// Has a member say a message to another at one moment, so often in each of so many packets, as far as there is room;
/// returns the bytes that it said, and the bytes that the other one sent at once, to whatever address.
fn answered(message: &Message, packets: usize, times: usize) -> (usize, usize) {
    let mut net = Pair::Proven.meet();
    for _ in 0..MAX_WANTS {
        say(&mut net, 1, &[7; 200]);
    }
    net.run(SOON);
    let mut message = told(&net, 0, 1, message.clone());
    if let Message::WantView(want) = &mut message {
        want.digest = net.nodes[1].core.agreed_view().expect("a view").reference().digest;
        want.after = None;
    }
    let (mut said, mut heard) = (0, 0);
    for _ in 0..packets {
        net.sent = Some(Vec::new());
        said += Speaker::new(0).fills(&mut net, 1, std::slice::from_ref(&message), times);
        let sent = net.sent.take().expect("kept");
        heard += sent.iter().filter(|(from, ..)| *from == address(1)).map(|(.., bytes)| bytes.len()).sum::<usize>();
    }
    (said, heard)
}

#[test]
fn a_question_that_is_repeated_at_once_brings_little_more_than_it_costs() {
    const PACKETS: usize = 200;
    for message in one_of_each() {
        let (_, once) = answered(&message, 1, 1);
        let (said, at_once) = answered(&message, 1, usize::MAX);
        assert!(at_once <= once + said, "{message:?}: {at_once} bytes to {said} in one packet; {once} to one question");
        let (said, often) = answered(&message, PACKETS, 1);
        let most = 40 * once + 2 * said;
        assert!(often <= most, "{message:?}: {often} bytes to {said}; {once} to one question");
    }
}

#[test]
fn a_member_is_told_who_leads_twice_in_the_time_of_a_question() {
    let mut net = Pair::Proven.meet();
    let mut told = |pause: Duration| {
        net.run(pause);
        net.sent = Some(Vec::new());
        Speaker::new(0).says(&mut net, 1, &[Message::WhoLeads { nonce: Nonce(7) }]);
        net.sent.take().expect("kept").iter().filter(|(_, to, _)| *to == address(0)).count()
    };
    assert_eq!([told(LEADER_ANSWER_INTERVAL), told(Duration::ZERO), told(LEADER_ANSWER_INTERVAL - ms(1))], [1, 0, 0]);
    assert_eq!(told(ms(1)), 1);
}

/// Returns the number of packets and frames that all nodes have sent.
fn sent(net: &Net) -> u64 {
    net.nodes.iter().map(|node| node.core.counters().packets_sent + node.core.counters().frames_sent).sum()
}

/// Has each of two nodes say a message to the other, if there is one; returns the number of packets sent soon, and in
/// the time after that.
fn packets(pair: Pair, message: Option<&Message>) -> (u64, u64) {
    let mut net = pair.meet();
    let before = sent(&net);
    for (from, to) in [(0, 1), (1, 0)] {
        if let Some(message) = message {
            let message = told(&net, from, to, message.clone());
            Speaker::new(from).says(&mut net, to, &[message]);
        }
    }
    net.run(SOON);
    let soon = sent(&net);
    net.run(COUNTED);
    (soon - before, sent(&net) - soon)
}

#[test]
fn whatever_two_cores_say_to_each_other_is_answered_and_then_all_is_quiet() {
    for pair in [Pair::Proven, Pair::Unproven, Pair::Strangers] {
        let usual = packets(pair, None);
        let mut answered = 0;
        for message in one_of_each() {
            let (soon, later) = packets(pair, Some(&message));
            answered += usize::from(soon > usual.0);
            assert!(soon <= usual.0 + MOST, "{pair:?}: {message:?}: {soon} packets, {} without", usual.0);
            // Two strangers may have become one cluster, which is busy with other things.
            let most = if pair == Pair::Strangers { usual.1 + 4 * MOST } else { usual.1 + usual.1 / 4 + 4 };
            assert!(later <= most, "{pair:?}: {message:?}: {later} packets later, {} without", usual.1);
        }
        assert!(answered >= 5, "{pair:?}: {answered} are answered");
    }
}
