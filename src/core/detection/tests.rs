//! The detector's steps, one member at a time.

#![allow(clippy::unchecked_time_subtraction, reason = "known figures")]

use std::sync::Arc;
use std::time::Duration;

use super::indirect_probe::HeardElsewhere;
use super::{Detector, DetectorFacts, DetectorStep, LocalHealth};
use crate::connectivity::Paths;
use crate::context::{Context, Phase};
use crate::counters::DropReason;
use crate::io::{Notice, Output};
use crate::limits::{MAX_DAMPING, MIN_PAUSE};
use crate::member::{DetectionMethod, LeaveReason, Record, Run, Status};
use crate::observers::Observers;
use crate::packet::{Outbox, Packets, Prover};
use crate::random::{Stream, stream};
use crate::settings::{Settings, Timing};
use crate::time::Time;
use crate::view::{Peer, Slot, View, slot_at};
use crate::wire::{Echo, Heartbeat, Message};

mod deaf;
mod host;
mod indirect;

/// The member that is judged; it was last heard when time began.
const IT: Slot = slot_at(1);
const ITS_RUN: Run = Run(2);
/// Another one, which observes it, too, where there are so many.
const WITNESS: Slot = slot_at(2);
const WITNESS_RUN: Run = Run(3);

/// A node with members, which all observe each other.
struct World {
    cx: Context,
    view: View,
    packets: Packets,
    observers: Observers,
    health: LocalHealth,
    paths: Paths,
    settings: Settings,
    detector: Detector,
    now: Time,
}

impl World {
    fn new() -> Self {
        Self::with(1)
    }

    /// Returns a node with so many members.
    fn with(members: u64) -> Self {
        let settings = Settings::default();
        let mut world = Self {
            cx: Context::new(Time::ORIGIN, Run(1), 1, settings.clone(), 0),
            view: View::new(1),
            packets: Packets::new(Prover::new(&mut stream(1, Stream::Prover))),
            observers: Observers::new(settings.observers, 1),
            health: LocalHealth::new(Time::ORIGIN),
            paths: Paths::new(stream(1, Stream::Paths)),
            detector: Detector::new(stream(1, Stream::Detector)),
            now: Time::ORIGIN,
            settings,
        };
        world.cx.phase = Phase::Up;
        for run in 1..=1 + members {
            let slot = world.meet(run);
            _ = world.observers.place_anew(&world.cx, &world.view, slot);
        }
        world
    }

    /// Lists another member; it is observed by nobody.
    fn meet(&mut self, run: u64) -> Slot {
        let record = crate::member::tests::record(&format!("n{run}"), 1, Status::Up);
        let record = Arc::new(Record { run: Run(run), ..record });
        self.view.insert(Arc::clone(&record), record.hash(), Peer::new(Time::ORIGIN))
    }

    fn at(&mut self, after: Duration) -> &mut Self {
        self.now = Time::ORIGIN + after;
        (self.cx.now, self.cx.arrived) = (self.now, self.now);
        self
    }

    fn changes(&mut self, slot: Slot, record: Record) {
        let record = Arc::new(record);
        self.view.replace(slot, Arc::clone(&record), record.hash(), None);
        self.view.peer_mut(slot).accused((record.status == Status::Suspect).then_some(self.now));
    }

    fn becomes(&mut self, status: Status) {
        self.changes(IT, self.view.record(IT).with_status(status));
    }

    /// Has a member heard at so long after time began.
    fn hears(&mut self, slot: Slot, after: Duration) {
        self.view.peer_mut(slot).receive(Time::ORIGIN + after, 1, 0);
    }

    fn detector_facts(&self) -> DetectorFacts<'_> {
        let Self { view, observers, health, settings, now, .. } = self;
        DetectorFacts { now: *now, view, observers, health, settings }
    }

    fn judge_as(&mut self, is_up: bool, are_rivals_met: bool) -> Option<DetectorStep> {
        let Self { view, observers, health, settings, now, .. } = self;
        let facts = DetectorFacts { now: *now, view, observers, health, settings };
        self.detector.judge(facts, IT, is_up, |_| are_rivals_met)
    }

    /// Returns the time at which it is judged next, as a judgement now says.
    fn watched_until(&mut self) -> Option<Time> {
        assert_eq!(self.judge(), Some(DetectorStep::Watch));
        self.detector_facts().threshold(IT)
    }

    fn judge(&mut self) -> Option<DetectorStep> {
        self.judge_as(true, false)
    }

    /// Judges it so often, as one who comes late does.
    fn judge_times(&mut self, times: usize) {
        (0..times).for_each(|_| _ = self.judge());
    }

    fn witnesses(&mut self) -> Vec<Slot> {
        let mut witnesses = self.detector.witnesses(self.now, &self.view, &self.observers, IT);
        witnesses.sort_unstable();
        witnesses
    }

    /// Has a witness answer that it heard a member so long ago, as soon as it was asked.
    fn answers(&mut self, witness: Slot, about: Run, age: Duration) -> Option<HeardElsewhere> {
        let Self { cx, view, packets, observers, health, paths, detector, .. } = self;
        let mut out = Outbox { cx, view, packets, observers, health, paths };
        detector.heard_at(&mut out, witness, about, age.as_millis() as u64)
    }

    /// Takes out the notices.
    fn notices(&mut self) -> Vec<Notice> {
        let outputs = std::iter::from_fn(|| self.cx.next_output());
        outputs.filter_map(|output| if let Output::Notice(notice) = output { Some(notice) } else { None }).collect()
    }
}

#[test]
fn who_is_not_up_judges_nobody_and_who_was_heard_is_looked_at_later() {
    let mut world = World::new();
    let suspect = world.settings.suspect_timeout;
    let probed = suspect - world.settings.probe_timeout * 6;
    world.at(suspect * 3);
    assert_eq!(world.judge_as(false, false), Some(DetectorStep::Wait(world.now + MIN_PAUSE)));
    world.view.peer_mut(IT).lived_at(world.now);
    assert_eq!(world.watched_until(), Some(world.now + probed));
    world.becomes(Status::Joining);
    assert_eq!(world.judge(), None);
    let stranger = world.meet(9);
    assert_eq!(
        world.detector_facts().threshold(stranger),
        None,
        "its silence means nothing to who does not observe it"
    );
}

/// Returns the times of the probes before a suspicion, and of the suspicion, of a member that was last heard when time began.
fn questions(world: &World, pace: Duration, answer: Duration) -> (Vec<Duration>, Duration) {
    let suspect = world.view.record(IT).timing.suspect_timeout();
    let first = suspect - pace * 4 - answer * 2;
    ([first].into_iter().chain((0..5).map(|nth| first + answer + pace * nth)).collect(), suspect)
}

#[test]
fn six_probes_in_vain_and_the_timeout_make_a_suspect_and_no_less() {
    for round_trip_ms in [0, 800] {
        let mut world = World::new();
        let pace = world.settings.probe_timeout.min(world.settings.suspect_timeout / 15);
        let round_trip = Duration::from_millis(round_trip_ms);
        if round_trip_ms > 0 {
            world.hears(IT, Duration::ZERO);
            let stamp = world.view.entry(IT).peer.stamp(Time::ORIGIN).stamp;
            let echo = Some(Echo { stamp, hold: 0 });
            world.view.peer_mut(IT).heartbeat(Time::ORIGIN + round_trip, Heartbeat { stamp: 0, echo }, true);
        }
        let answer = pace.max(round_trip * 3 / 2);
        let (probes, suspect) = questions(&world, pace, answer);
        assert_eq!(world.at(probes[0] - Duration::from_millis(1)).watched_until(), Some(Time::ORIGIN + probes[0]));
        for (nth, at) in probes.iter().enumerate() {
            let next = Time::ORIGIN + probes.get(nth + 1).copied().unwrap_or(*at + pace);
            assert_eq!(world.at(*at).judge(), Some(DetectorStep::Probe { nth: nth as u32, next }), "{nth}");
        }
        world.at(suspect - Duration::from_millis(1));
        assert_eq!(world.judge(), Some(DetectorStep::Wait(Time::ORIGIN + suspect)));
        let probed_since = Some(Time::ORIGIN + probes[0]);
        let step = world.at(suspect).judge();
        assert_eq!(step, Some(DetectorStep::Suspect { probed_since, claimed: Time::ORIGIN }), "{round_trip:?}");
        assert_eq!(world.detector.inquiries.size(), 0, "the inquiry is over");
        assert!(matches!(world.judge(), Some(DetectorStep::Probe { nth: 0, .. })));
    }
}

#[test]
fn who_comes_late_sends_six_probes_all_the_same_and_the_last_has_its_time_to_be_answered() {
    let mut world = World::new();
    let suspect = world.settings.suspect_timeout;
    let pace = world.settings.probe_timeout.min(suspect / 15);
    for nth in 0..6 {
        world.at(suspect * 2 + pace * nth);
        assert_eq!(world.judge(), Some(DetectorStep::Probe { nth, next: world.now + pace }));
    }
    let ready = world.now + pace;
    assert_eq!(world.judge(), Some(DetectorStep::Wait(ready)));
    // The accused has the time to refute for which this node waited longer.
    let claimed = Time::ORIGIN + suspect + pace * 6;
    let step = world.at(suspect * 2 + pace * 6).judge();
    assert!(matches!(step, Some(DetectorStep::Suspect { claimed: of, .. }) if of == claimed), "{step:?}");
}

#[test]
fn six_probes_fit_before_the_timeout_of_a_member_that_is_quicker_than_this_node() {
    let mut world = World::new();
    let timing = Timing::new(Duration::from_millis(200), Duration::from_secs(1), Duration::from_secs(2)).expect("good");
    world.changes(IT, Record { timing, ..Record::clone(world.view.record(IT)) });
    let pace = Duration::from_secs(1) / 15;
    let first = Duration::from_secs(1) - pace * 6;
    let next = Time::ORIGIN + first + pace;
    assert_eq!(world.at(first).judge(), Some(DetectorStep::Probe { nth: 0, next }));
}

#[test]
fn a_member_whose_heartbeats_are_further_apart_than_its_suspect_timeout_is_missed_when_the_next_one_is_late() {
    let (beats, suspect) = (Duration::from_secs(20), Settings::default().suspect_timeout);
    let tolerance = Settings::default().probe_timeout;
    let expecting = || {
        let mut world = World::new();
        world.hears(IT, Duration::ZERO);
        world.view.peer_mut(IT).expect(Time::ORIGIN, beats);
        world
    };
    let late = Time::ORIGIN + beats + tolerance;
    assert_eq!(expecting().at(suspect).watched_until(), Some(late));
    assert!(matches!(expecting().at(beats + tolerance).judge(), Some(DetectorStep::Probe { nth: 0, .. })));
    // Any other packet of its says nothing about its heartbeats,
    let mut world = expecting();
    assert!(!world.view.peer_mut(IT).expect_another(Time::ORIGIN + beats / 2, beats, tolerance));
    assert_eq!(world.at(suspect).watched_until(), Some(late));
    // but that a heartbeat was lost if it was due by then: the next one comes an interval later.
    assert!(world.view.peer_mut(IT).expect_another(late + tolerance, beats, tolerance));
    assert_eq!(world.at(beats * 2).watched_until(), Some(late + beats));
    // After several that were lost one is due now.
    assert!(world.view.peer_mut(IT).expect_another(late + beats * 4, beats, tolerance));
    assert_eq!(world.at(beats * 4).watched_until(), Some(late + beats * 4 + tolerance));
    // A late copy of one says nothing.
    let mut world = expecting();
    world.view.peer_mut(IT).receive(Time::ORIGIN, 9, 0);
    world.view.peer_mut(IT).receive(Time::ORIGIN, 5, 0);
    world.view.peer_mut(IT).expect(Time::ORIGIN + beats, beats);
    assert_eq!(world.at(suspect).watched_until(), Some(late));
    // A member that is observed no more is not waited for, nor one that was never heard.
    world.view.peer_mut(IT).expect_nothing();
    assert!(matches!(world.at(suspect).judge(), Some(DetectorStep::Probe { nth: 0, .. })));
}

#[test]
fn a_member_whose_packets_arrive_is_suspected_once_witnesses_were_heard_or_had_half_as_long_again() {
    for is_answered in [false, true] {
        let mut world = World::with(2);
        let suspect = world.settings.suspect_timeout;
        world.hears(IT, Duration::ZERO);
        // Nothing shows that it hears this node.
        world.view.peer_mut(IT).sent(Time::ORIGIN, Duration::MAX);
        world.hears(IT, suspect * 9 / 10);
        world.at(suspect).judge_times(6);
        if is_answered {
            world.witnesses();
            world.answers(WITNESS, ITS_RUN, suspect * 2);
        }
        let ready = suspect + world.settings.probe_timeout;
        let step = world.at(ready).judge();
        assert_eq!(matches!(step, Some(DetectorStep::Suspect { .. })), is_answered, "{step:?}");
        if !is_answered {
            world.at(suspect * 3 / 2 - Duration::from_millis(1)).judge();
            assert_ne!(world.detector.inquiries.size(), 0);
            world.at(suspect * 3 / 2);
            assert!(matches!(world.judge(), Some(DetectorStep::Suspect { .. })));
        }
    }
}

#[test]
fn nobody_is_suspected_while_two_processes_of_ones_own_name_have_met() {
    let mut world = World::new();
    world.at(world.settings.suspect_timeout).judge_times(6);
    world.at(world.settings.suspect_timeout * 2);
    let again = world.now + world.settings.probe_timeout;
    assert_eq!(world.judge_as(true, true), Some(DetectorStep::Wait(again)));
    assert!(matches!(world.judge(), Some(DetectorStep::Suspect { .. })));
}

#[test]
fn a_sign_of_life_ends_an_inquiry_once() {
    let mut world = World::new();
    world.at(world.settings.suspect_timeout);
    _ = world.judge();
    let (now, run, later) = (world.now, Run(2), world.now + world.settings.suspect_timeout);
    assert!(!world.detector.end_inquiry(now, run, now), "it is still silent");
    assert!(world.detector.end_inquiry(now, run, later) && !world.detector.end_inquiry(now, run, later));
    assert!(matches!(world.judge(), Some(DetectorStep::Probe { nth: 0, .. })), "the next one begins anew");
}

#[test]
fn who_is_accused_leaving_or_gone_is_judged_by_the_time_of_its_status() {
    let mut world = World::new();
    let Settings { suspect_timeout, down_timeout, reap_after, .. } = world.settings;
    world.at(suspect_timeout).becomes(Status::Suspect);
    assert_eq!(world.at(down_timeout * 9 / 10).watched_until(), Some(Time::ORIGIN + down_timeout));
    assert_eq!(world.at(down_timeout).judge(), Some(DetectorStep::Confirm(DetectionMethod::HeartbeatTimeout)));
    world.becomes(Status::Leaving);
    assert_eq!(world.at(suspect_timeout / 2).watched_until(), Some(Time::ORIGIN + suspect_timeout));
    assert_eq!(world.at(suspect_timeout).judge(), Some(DetectorStep::Depart));
    for gone in [Status::Down, Status::Left(LeaveReason::Graceful)] {
        world.becomes(gone);
        assert_eq!(world.at(reap_after / 2).watched_until(), Some(Time::ORIGIN + reap_after));
        assert_eq!(world.at(reap_after).judge(), Some(DetectorStep::Reap));
    }
}

#[test]
fn a_member_that_is_accused_late_has_its_time_to_refute() {
    let mut world = World::new();
    let Settings { suspect_timeout, down_timeout, .. } = world.settings;
    world.at(down_timeout).becomes(Status::Suspect);
    let until = down_timeout + (down_timeout - suspect_timeout) / (1 << MAX_DAMPING);
    assert_eq!(world.watched_until(), Some(Time::ORIGIN + until));
    assert_eq!(world.at(until).judge(), Some(DetectorStep::Confirm(DetectionMethod::HeartbeatTimeout)));
}

#[test]
fn a_node_in_poor_health_waits_longer_and_looks_again_sooner() {
    let mut world = World::new();
    let Settings { suspect_timeout: suspect, down_timeout: down, .. } = world.settings;
    let calm = world.detector_facts().threshold(IT).expect("it is observed");
    assert_eq!(world.detector_facts().look_at(calm), calm, "a calm node need not look before");
    for _ in 0..2 {
        world.health.add_evidence(&mut world.cx, crate::io::HealthEvidence::Refuted);
    }
    let stretched = world.detector_facts().threshold(IT).expect("it is observed");
    assert_eq!(stretched.since(calm), suspect * 2);
    assert_eq!(world.detector_facts().look_at(stretched), world.now + suspect / 2);
    world.at(suspect * 29 / 10).judge_times(8);
    assert_ne!(world.detector.inquiries.size(), 0, "it is probed, and no more");
    assert!(matches!(world.at(suspect * 3).judge(), Some(DetectorStep::Suspect { .. })));
    world.becomes(Status::Suspect);
    assert_eq!(world.detector_facts().threshold(IT), Some(Time::ORIGIN + down * 3));
}
