//! Questions and answers between two cores: whatever one says to the other, and the other to it, all is quiet soon (see
//! the table on the page of `packet`).

use std::time::Duration;

use super::codec::one_of_each;
use super::leadership;
use super::liars::Liar;
use super::net::{Net, address, ms};
use crate::core::member::{Record, Status};
use crate::core::settings::Profile;
use crate::core::wire::{Message, Nonce, Span, Update};

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
        let mut net = leadership::cluster(3, 3);
        net.run(Duration::from_secs(10));
        if self == Pair::Unproven {
            for (here, there) in [(0, "n1"), (1, "n0")] {
                let view = &mut net.nodes[here].core.view;
                let slot = view.slot_of(there).expect("listed");
                view.peer_mut(slot).proven = false;
            }
        }
        net
    }
}

/// Fills a message with what the receiver can answer: names and runs that it knows, and nonces that it gave.
fn told(net: &Net, from: usize, to: usize, message: Message) -> Message {
    let (speaker, receiver) = (&net.nodes[from].core, &net.nodes[to].core);
    let nonce = receiver.prover.nonce(address(from), net.now);
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
            let cookie = receiver.prover.cookie(address(from), record.run, net.now);
            Message::Join { nonce: Nonce(7), record, cookie: Some(cookie) }
        }
        Message::Pull { pages, .. } => Message::Pull { after: None, pages },
        Message::Want { .. } => Message::Want { buckets: [255; 32] },
        Message::LastHeard { .. } => Message::LastHeard { run: third },
        Message::HeardAt { age_ms, .. } => Message::HeardAt { run: third, age_ms },
        Message::Severed { age_ms, is_sure, .. } => Message::Severed { run: third, age_ms, is_sure },
        Message::Alive { sequence, .. } => Message::Alive { run: third, sequence },
        Message::WhoHolds { .. } => Message::WhoHolds { nonce: Nonce(7), id: speaker.me().id.clone() },
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
            Liar::new(from).says(&mut net, to, &[message]);
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

#[test]
fn all_that_two_cores_say_to_each_other_at_one_moment_takes_few_packets() {
    let mut net = leadership::cluster(3, 3);
    net.run(Duration::from_secs(10));
    let before = sent(&net);
    for message in one_of_each() {
        for (from, to) in [(0, 1), (1, 0)] {
            let message = told(&net, from, to, message.clone());
            Liar::new(from).says(&mut net, to, &[message]);
        }
    }
    net.run(ms(2_000));
    let packets = sent(&net) - before;
    assert!(packets <= 20 * MOST, "{packets}");
}
