//! The detector's steps, one member at a time.

use std::sync::Arc;
use std::time::Duration;

use super::{Detector, DetectorStep, Grounds, LocalHealth};
use crate::limits::MIN_PAUSE;
use crate::member::{LeaveReason, Record, Run, Status};
use crate::observers::{Basis, Observers};
use crate::settings::Settings;
use crate::time::Time;
use crate::view::{Peer, Slot, View, slot_at};

/// The member that is judged; it was last heard when time began.
const IT: Slot = slot_at(1);

/// A node with one member, which it observes.
struct World {
    view: View,
    observers: Observers,
    settings: Settings,
    health: LocalHealth,
    detector: Detector,
    now: Time,
}

impl World {
    fn new() -> Self {
        let mut view = View::new(1);
        for (name, run) in [("a", 1), ("b", 2)] {
            let record = crate::member::tests::record(name, 1, Status::Up);
            let record = Arc::new(Record { run: Run(run), ..record });
            view.insert(Arc::clone(&record), record.hash(), Peer::new(Time::ORIGIN));
        }
        let mut observers = Observers::new(4, 1);
        _ = observers.place_anew(Basis { now: Time::ORIGIN, view: &view, is_up: true }, IT);
        let (health, detector) =
            (LocalHealth::new(Time::ORIGIN), Detector::new(crate::random::stream(1, crate::random::Stream::Detector)));
        Self { view, observers, settings: Settings::default(), health, detector, now: Time::ORIGIN }
    }

    fn at(&mut self, after: Duration) -> &mut Self {
        self.now = Time::ORIGIN + after;
        self
    }

    fn becomes(&mut self, status: Status) {
        let record = Arc::new(self.view.record(IT).with_status(status));
        self.view.replace(IT, Arc::clone(&record), record.hash(), None);
        self.view.peer_mut(IT).accused((status == Status::Suspect).then_some(self.now));
    }

    fn judge_as(&mut self, is_up: bool, are_rivals_met: bool) -> Option<DetectorStep> {
        let Self { view, observers, health, settings, now, .. } = self;
        let grounds = Grounds { now: *now, view, observers, health, settings };
        self.detector.judge(grounds, IT, is_up, |_| are_rivals_met)
    }

    fn judge(&mut self) -> Option<DetectorStep> {
        self.judge_as(true, false)
    }
}

#[test]
fn who_is_not_up_judges_nobody_and_who_was_heard_is_looked_at_later() {
    let mut world = World::new();
    let (suspect, probed) = (world.settings.suspect_timeout, world.settings.suspect_timeout * 4 / 5);
    world.at(suspect * 3);
    assert_eq!(world.judge_as(false, false), Some(DetectorStep::Wait(world.now + MIN_PAUSE)));
    world.view.peer_mut(IT).lived_at(world.now);
    assert_eq!(world.judge(), Some(DetectorStep::Look(world.now + probed)));
    world.becomes(Status::Joining);
    assert_eq!(world.judge(), None);
}

#[test]
fn three_probes_in_vain_and_the_timeout_make_a_suspect_and_no_less() {
    let mut world = World::new();
    let suspect = world.settings.suspect_timeout;
    let pace = world.settings.probe_timeout.min(suspect / 15);
    let first = suspect * 4 / 5;
    // There is time for a fourth one, and one right before the timeout.
    let last = suspect * 49 / 50;
    for (nth, at, next) in [
        (0, first, first + pace),
        (1, first + pace, first + pace * 2),
        (2, first + pace * 2, first + pace * 3),
        (3, first + pace * 3, last),
        (4, last, suspect),
    ] {
        world.at(at);
        assert_eq!(world.judge(), Some(DetectorStep::Probe { nth, next: Time::ORIGIN + next }), "{nth}");
    }
    world.at(suspect);
    let doubted = Some(Time::ORIGIN + first);
    assert_eq!(world.judge(), Some(DetectorStep::Suspect { doubted, claimed: Time::ORIGIN }));
    // Whoever comes late probes three times all the same.
    let mut late = World::new();
    late.at(suspect * 2);
    assert!(matches!(late.judge(), Some(DetectorStep::Probe { nth: 0, .. })));
}

#[test]
fn observers_that_have_not_answered_are_asked_on_for_a_moment_before_a_suspicion() {
    let mut world = World::new();
    let record = Arc::new(Record { run: Run(3), ..crate::member::tests::record("c", 1, Status::Up) });
    world.view.insert(Arc::clone(&record), record.hash(), Peer::new(Time::ORIGIN));
    let suspect = world.settings.suspect_timeout;
    world.at(suspect);
    (0..3).for_each(|_| _ = world.judge());
    let next = world.now + suspect / 200;
    assert_eq!(world.judge(), Some(DetectorStep::Probe { nth: 3, next }), "it may have heard the subject later");
    world.at(suspect + suspect / 25);
    assert!(matches!(world.judge(), Some(DetectorStep::Suspect { .. })), "it may be gone, too");
}

#[test]
fn nobody_is_suspected_while_two_processes_of_ones_own_name_have_met() {
    let mut world = World::new();
    world.at(world.settings.suspect_timeout);
    (0..3).for_each(|_| _ = world.judge());
    let again = world.now + world.settings.probe_timeout;
    assert_eq!(world.judge_as(true, true), Some(DetectorStep::Wait(again)));
    assert!(matches!(world.judge(), Some(DetectorStep::Suspect { .. })));
}

#[test]
fn a_sign_of_life_ends_a_doubt_once() {
    let mut world = World::new();
    world.at(world.settings.suspect_timeout);
    _ = world.judge();
    let (now, run, later) = (world.now, Run(2), world.now + world.settings.suspect_timeout);
    assert!(!world.detector.end_doubt(now, run, now), "it is still silent");
    assert!(world.detector.end_doubt(now, run, later) && !world.detector.end_doubt(now, run, later));
    assert!(matches!(world.judge(), Some(DetectorStep::Probe { nth: 0, .. })), "the next one begins anew");
}

#[test]
fn who_is_accused_leaving_or_gone_is_judged_by_the_time_of_its_status() {
    let mut world = World::new();
    let Settings { suspect_timeout, down_timeout, reap_after, .. } = world.settings;
    world.at(suspect_timeout).becomes(Status::Suspect);
    assert_eq!(world.at(down_timeout * 9 / 10).judge(), Some(DetectorStep::Look(Time::ORIGIN + down_timeout)));
    assert_eq!(world.at(down_timeout).judge(), Some(DetectorStep::Confirm));
    world.becomes(Status::Leaving);
    assert_eq!(world.at(suspect_timeout).judge(), Some(DetectorStep::Depart));
    for gone in [Status::Down, Status::Left(LeaveReason::Graceful)] {
        world.becomes(gone);
        assert_eq!(world.at(reap_after).judge(), Some(DetectorStep::Reap));
    }
}

#[test]
fn a_node_that_doubts_itself_waits_longer_and_looks_again_sooner() {
    let mut world = World::new();
    let suspect = world.settings.suspect_timeout;
    let grounds = |world: &World| -> Option<Time> {
        let World { view, observers, health, settings, now, .. } = world;
        Grounds { now: *now, view, observers, health, settings }.threshold(IT)
    };
    let calm = grounds(&world).expect("it is observed");
    for _ in 0..2 {
        world.health.doubt(world.now, crate::io::SelfDoubt::Refuted, &world.settings);
    }
    let doubtful = grounds(&world).expect("it is observed");
    assert_eq!(doubtful.since(Time::ORIGIN), calm.since(Time::ORIGIN) * 3);
    let World { view, observers, health, settings, now, .. } = &world;
    let look = Grounds { now: *now, view, observers, health, settings }.look_at(doubtful);
    assert_eq!(look, world.now + suspect / 2);
}
