//! What one member says of others, in packets of its own; and what becomes of late, doubled and mistaken reports.

use std::time::Duration;

use super::net::{Net, address, id, ms};
use headcount_core::limits::{MIN_QUESTION_BYTES, SETTLE};
use headcount_core::wire::{Message, Note, Packet, PacketBuilder, Update};
use headcount_core::{
    ChangeKind, Command, DetectionMethod, Input, LeaveReason, Notice, Profile, Record, Run, Status, StopReason, Tags,
};

pub(super) const FORCED: Status = Status::Left(LeaveReason::Forced);
const GRACEFUL: Status = Status::Left(LeaveReason::Graceful);
/// A host where no node is; the speaker's second address.
pub(super) const ELSEWHERE: usize = 99;

/// A member that says what it wants: a true one, whose messages are written for it.
pub(super) struct Speaker {
    node: usize,
}

impl Speaker {
    pub(super) fn new(node: usize) -> Self {
        Self { node }
    }

    /// Says messages in one packet, and returns its size.
    pub(super) fn says(&self, net: &mut Net, to: usize, messages: &[Message]) -> usize {
        self.fills(net, to, messages, 1)
    }

    /// Says messages so often, as far as they fit into one packet, and returns its size.
    pub(super) fn fills(&self, net: &mut Net, to: usize, messages: &[Message], most: usize) -> usize {
        let core = &mut net.nodes[self.node].core;
        let header = core.next_header();
        let mut packet = PacketBuilder::new(&header, 1400);
        for nth in 0..most {
            let is_full = !messages.iter().all(|message| packet.push(message));
            assert!(!is_full || nth > 0, "no room");
            if is_full {
                break;
            }
        }
        packet.pad_to(MIN_QUESTION_BYTES);
        let (from, bytes) = (net.nodes[self.node].address, packet.finish());
        net.input(to, Input::Packet { from, bytes: &bytes });
        bytes.len()
    }

    /// Says the same messages to everybody else.
    pub(super) fn says_to_all(&self, net: &mut Net, messages: &[Message]) {
        for to in 0..net.nodes.len() {
            if to != self.node {
                self.says(net, to, messages);
            }
        }
    }
}

pub(super) fn update(record: Record) -> Message {
    let is_dated = matches!(record.status, Status::Suspect | Status::Down | Status::Left(_));
    let note = is_dated.then_some(Note { age_ms: 1, method: DetectionMethod::ConnectionLost });
    Message::Update(Update { note, record })
}

/// Returns the record of a node by its owner, with another status and incarnation.
pub(super) fn about(net: &Net, node: usize, incarnation: u64, status: Status) -> Record {
    Record { incarnation, status, ..Record::clone(net.nodes[node].core.me()) }
}

/// Returns a cluster in which everybody has settled.
pub(super) fn old_cluster(profile: Profile, n: usize) -> Net {
    let mut net = Net::cluster(profile, n);
    net.run(SETTLE + ms(10));
    net.forget_reports();
    net
}

fn is_up_everywhere(net: &Net, name: &str) -> bool {
    net.running().all(|node| node.core.record(&id(name)).is_some_and(|record| record.status == Status::Up))
}

#[test]
fn every_false_death_report_is_refuted_within_a_round_trip() {
    for status in [Status::Suspect, Status::Down, Status::Leaving, GRACEFUL] {
        let mut net = old_cluster(Profile::Default, 30);
        let speaker = Speaker::new(2);
        let lie = update(about(&net, 1, net.nodes[1].core.me().incarnation, status));
        speaker.says_to_all(&mut net, &[lie]);
        net.run_until(ms(200), "refuted", |net| is_up_everywhere(net, "n1"));
    }
}

#[test]
fn an_operator_removes_a_living_member_within_a_second() {
    for n in [2, 3, 5, 30] {
        for age in [ms(0), SETTLE + ms(10)] {
            let mut net = Net::cluster(Profile::Default, n);
            net.run(age);
            net.forget_reports();
            net.command(n - 1, Command::Remove { ticket: 1, id: id("n0"), force: true });
            net.run_until(ms(1_000), "n0 stops", |net| net.nodes[0].stopped == Some(StopReason::Removed));
            net.run(Duration::from_secs(2));
            assert!((1..n).all(|node| net.status(node, "n0") == Some(FORCED)), "{n}: {}", net.describe());
            if n > 2 {
                // Some that are linked to it find it gone first.
                let named = |notice: &Notice| matches!(notice, Notice::MemberRemoved { id, .. } if *id == *"n0");
                let told = (1..n - 1).filter(|node| net.nodes[*node].notices.iter().any(named)).count();
                assert!(told * 2 > n - 2, "the operator reads who says so, at {told} of {}", n - 2);
            }
        }
    }
}

#[test]
fn a_removal_is_not_undone_by_a_death_in_between() {
    let mut net = Net::cluster(Profile::Local, 3);
    net.cut(0, 1, true);
    net.cut(0, 2, true);
    net.command(0, Command::Remove { ticket: 1, id: id("n2"), force: true });
    let tags = Tags::new([("k".to_owned(), "v".to_owned())].into()).expect("good");
    net.command(2, Command::SetTags { ticket: 1, tags });
    net.run(ms(100));
    net.pause(2, true);
    net.run_until(Duration::from_secs(5), "held as dead", |net| net.status(1, "n2") == Some(Status::Down));
    net.cut(0, 1, false);
    net.cut(0, 2, false);
    net.run(Duration::from_secs(5));
    assert_eq!(net.status(1, "n2"), Some(FORCED), "whoever held it as dead learns it");
    net.pause(2, false);
    net.run(Duration::from_secs(30));
    assert_eq!(net.nodes[2].stopped, Some(StopReason::Removed), "{}", net.describe());
}

#[test]
fn a_refutation_that_waits_for_the_disk_is_one_refutation() {
    let mut net = old_cluster(Profile::Local, 3);
    net.full_disks.insert(1, None);
    let speaker = Speaker::new(2);
    let (run, before) = (net.nodes[1].core.me().run, net.nodes[1].core.counters().refutations);
    let incarnation = net.nodes[1].core.me().incarnation + 100_000;
    net.forget_reports();
    for _ in 0..10 {
        speaker.says(&mut net, 1, &[Message::HeldStatus { run, incarnation, status: Status::Suspect, age_ms: 1 }]);
    }
    assert_eq!(net.nodes[1].core.counters().refutations - before, 1);
    assert!(net.nodes[1].core.health_score() <= 1);
    let told: Vec<_> = net.nodes[1].notices.clone();
    assert_eq!(told, [Notice::Refuted { incarnation: incarnation + 1 }]);
    net.free_disk(1);
    assert_eq!(net.nodes[1].core.me().incarnation, incarnation + 1);
}

#[test]
fn a_death_report_of_another_run_does_not_end_a_living_member() {
    let mut net = old_cluster(Profile::Local, 5);
    let speaker = Speaker::new(2);
    for status in [Status::Down, GRACEFUL, FORCED] {
        let incarnation = net.nodes[1].core.me().incarnation + 5;
        let lie = Record { run: Run(77), ..about(&net, 1, incarnation, status) };
        speaker.says_to_all(&mut net, &[update(lie)]);
        net.run(ms(500));
        assert!(is_up_everywhere(&net, "n1"), "{}", net.describe());
        assert!(net.nodes[1].core.me().incarnation > incarnation, "it said otherwise");
    }
    for observer in [0, 3, 4] {
        let gone = |kind: &ChangeKind| matches!(kind, ChangeKind::DetectedDown(_) | ChangeKind::Left(_));
        assert!(!net.reported(observer, "n1").iter().any(gone));
    }
}

#[test]
fn a_name_that_was_held_at_an_incarnation_far_ahead_is_taken_above_that() {
    let mut net = Net::new(Profile::Local);
    net.settings.reap_after = Duration::from_secs(60);
    for i in 0..2 {
        net.add(&format!("n{i}"), i, &[0]);
    }
    net.run(Duration::from_secs(3));
    // Somebody really lived under it, at an incarnation of its own choice.
    let squatter = net.add_born("name", 5, &[0], 1 << 60);
    net.run_until(ms(2_000), "in", |net| net.nodes[squatter].core.is_up());
    net.kill(squatter);
    net.run(Duration::from_secs(4));
    let honest = net.add("name", 6, &[0]);
    net.run_until(Duration::from_secs(2), "in above that", |net| net.nodes[honest].core.is_up());
    assert!(net.nodes[honest].core.me().incarnation > 1 << 60);
}

/// Returns the messages that reached an address where nobody is.
pub(super) fn mail(net: &Net, host: usize) -> Vec<Message> {
    let to_it = net.undelivered.iter().filter(|(to, _)| *to == address(host));
    to_it.flat_map(|(_, bytes)| Packet::decode(bytes).expect("decodes").messages).collect()
}
