//! The detector's steps, one member at a time.

#![allow(clippy::unchecked_time_subtraction, reason = "known figures")]

use std::sync::Arc;
use std::time::Duration;

use super::indirect_probe::HeardElsewhere;
use super::{Detector, DetectorStep, Grounds, LocalHealth};
use crate::connectivity::Paths;
use crate::context::Context;
use crate::counters::DropReason;
use crate::io::{Notice, Output};
use crate::limits::{MAX_DAMPING, MIN_PAUSE};
use crate::member::{LeaveReason, Record, Run, Status};
use crate::observers::{Basis, Observers};
use crate::packet::{Outbox, Packets, Prover};
use crate::random::{Stream, stream};
use crate::settings::{Settings, Timing};
use crate::time::Time;
use crate::view::{Peer, Slot, View, slot_at};
use crate::wire::{Echo, Heartbeat, Message};

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
        for run in 1..=1 + members {
            let slot = world.meet(run);
            let basis = Basis { now: Time::ORIGIN, view: &world.view, is_up: true };
            _ = world.observers.place_anew(basis, slot);
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
        self.cx.now = self.now;
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

    fn grounds(&self) -> Grounds<'_> {
        let Self { view, observers, health, settings, now, .. } = self;
        Grounds { now: *now, view, observers, health, settings }
    }

    fn judge_as(&mut self, is_up: bool, are_rivals_met: bool) -> Option<DetectorStep> {
        let Self { view, observers, health, settings, now, .. } = self;
        let grounds = Grounds { now: *now, view, observers, health, settings };
        self.detector.judge(grounds, IT, is_up, |_| are_rivals_met)
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
        let Self { cx, view, packets, observers, health, paths, detector, now, .. } = self;
        let mut out = Outbox { cx, view, packets, observers, health, paths };
        detector.heard_at(&mut out, *now, witness, about, age.as_millis() as u64)
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
    let (suspect, probed) = (world.settings.suspect_timeout, world.settings.suspect_timeout * 4 / 5);
    world.at(suspect * 3);
    assert_eq!(world.judge_as(false, false), Some(DetectorStep::Wait(world.now + MIN_PAUSE)));
    world.view.peer_mut(IT).lived_at(world.now);
    assert_eq!(world.judge(), Some(DetectorStep::Look(world.now + probed)));
    world.becomes(Status::Joining);
    assert_eq!(world.judge(), None);
    let stranger = world.meet(9);
    assert_eq!(world.grounds().threshold(stranger), None, "its silence means nothing to who does not observe it");
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
    assert_eq!(world.detector.inquiries.size(), 0, "the doubt is over");
    assert_eq!(world.judge(), Some(DetectorStep::Probe { nth: 0, next: world.now + pace }));
}

#[test]
fn who_comes_late_sends_three_probes_all_the_same_and_each_has_its_time_to_be_answered() {
    let mut world = World::new();
    let suspect = world.settings.suspect_timeout;
    let pace = world.settings.probe_timeout.min(suspect / 15);
    for nth in 0..3 {
        world.at(suspect * 2 + pace * nth);
        assert_eq!(world.judge(), Some(DetectorStep::Probe { nth, next: world.now + pace }));
    }
    assert!(matches!(world.at(suspect * 2 + pace * 3).judge(), Some(DetectorStep::Suspect { .. })));
    // One that is in time for the last questions asks them.
    let (mut world, asked_last) = (World::new(), suspect * 49 / 50);
    let third = asked_last - pace / 2;
    for (nth, at, next) in [
        (0, third - pace * 2, third - pace),
        (1, third - pace, third),
        (2, third, asked_last),
        (3, asked_last, suspect),
    ] {
        let next = Time::ORIGIN + next;
        assert_eq!(world.at(at).judge(), Some(DetectorStep::Probe { nth, next }), "{nth}");
    }
}

#[test]
fn three_probes_fit_before_the_timeout_of_a_member_that_is_quicker_than_this_node() {
    let mut world = World::new();
    let timing = Timing::new(Duration::from_millis(200), Duration::from_secs(1), Duration::from_secs(2)).expect("good");
    world.changes(IT, Record { timing, ..Record::clone(world.view.record(IT)) });
    let next = Time::ORIGIN + Duration::from_millis(800) + Duration::from_secs(1) / 15;
    assert_eq!(world.at(Duration::from_millis(800)).judge(), Some(DetectorStep::Probe { nth: 0, next }));
}

#[test]
fn observers_that_have_not_answered_are_asked_on_for_a_moment_before_a_suspicion() {
    let mut world = World::with(2);
    let suspect = world.settings.suspect_timeout;
    world.at(suspect).judge_times(3);
    let next = world.now + suspect / 200;
    assert_eq!(world.judge(), Some(DetectorStep::Probe { nth: 3, next }), "it may have heard the subject later");
    world.at(suspect + suspect / 25);
    assert!(matches!(world.judge(), Some(DetectorStep::Suspect { .. })), "it may be gone, too");
    // One that is accused, or was itself probed in vain, is not waited for.
    for probes in 0..3 {
        let mut world = World::with(2);
        world.at(suspect).judge_times(3);
        (0..probes).for_each(|_| world.detector.inquiries.probe_sent(WITNESS_RUN, world.now));
        assert_eq!(matches!(world.judge(), Some(DetectorStep::Suspect { .. })), probes > 1, "{probes} probes");
    }
    let mut world = World::with(2);
    world.changes(WITNESS, world.view.record(WITNESS).with_status(Status::Suspect));
    world.at(suspect).judge_times(3);
    assert!(matches!(world.judge(), Some(DetectorStep::Suspect { .. })));
}

#[test]
fn right_before_a_suspicion_those_are_asked_again_whose_answers_are_older_than_its_last_moments() {
    let suspect = Settings::default().suspect_timeout;
    let last = suspect / 25;
    for (answered, is_old) in [(suspect - last * 2, true), (suspect - last / 4, false)] {
        let mut world = World::with(2);
        world.at(suspect * 4 / 5).judge_times(2);
        assert_eq!(world.witnesses(), [WITNESS]);
        // It knows no more than this node does.
        world.at(answered).judge();
        assert_eq!(world.answers(WITNESS, ITS_RUN, suspect * 2), None);
        world.judge();
        world.at(suspect);
        assert_eq!(matches!(world.judge(), Some(DetectorStep::Probe { .. })), is_old, "{answered:?}");
        assert_eq!(world.witnesses(), if is_old { vec![WITNESS] } else { vec![] }, "{answered:?}");
        if is_old {
            world.answers(WITNESS, ITS_RUN, suspect * 2);
            assert!(matches!(world.judge(), Some(DetectorStep::Suspect { .. })));
        }
    }
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
        world.at(suspect).judge_times(3);
        if is_answered {
            world.witnesses();
            world.answers(WITNESS, ITS_RUN, suspect * 2);
        }
        let step = world.judge();
        assert_eq!(matches!(step, Some(DetectorStep::Suspect { .. })), is_answered, "{step:?}");
        if !is_answered {
            world.at(suspect * 3 / 2 - Duration::from_millis(1)).judge();
            assert_ne!(world.detector.inquiries.size(), 0);
            world.at(suspect * 3 / 2).judge();
            world.at(suspect * 3 / 2 + suspect / 25);
            assert!(matches!(world.judge(), Some(DetectorStep::Suspect { .. })));
        }
    }
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
    assert_eq!(world.at(suspect_timeout / 2).judge(), Some(DetectorStep::Look(Time::ORIGIN + suspect_timeout)));
    assert_eq!(world.at(suspect_timeout).judge(), Some(DetectorStep::Depart));
    for gone in [Status::Down, Status::Left(LeaveReason::Graceful)] {
        world.becomes(gone);
        assert_eq!(world.at(reap_after / 2).judge(), Some(DetectorStep::Look(Time::ORIGIN + reap_after)));
        assert_eq!(world.at(reap_after).judge(), Some(DetectorStep::Reap));
    }
}

#[test]
fn a_member_that_is_accused_late_has_its_time_to_refute() {
    let mut world = World::new();
    let Settings { suspect_timeout, down_timeout, .. } = world.settings;
    world.at(down_timeout).becomes(Status::Suspect);
    let until = down_timeout + (down_timeout - suspect_timeout) / (1 << MAX_DAMPING);
    assert_eq!(world.judge(), Some(DetectorStep::Look(Time::ORIGIN + until)));
    assert_eq!(world.at(until).judge(), Some(DetectorStep::Confirm));
}

#[test]
fn addresses_are_drawn_in_any_order_and_all_of_them() {
    let addresses: Vec<_> = (1..9).map(|port| ([10, 0, 0, 1], port).into()).collect();
    let mut drawn = World::new().detector.shuffled(&addresses);
    assert_ne!(drawn, addresses);
    drawn.sort_unstable();
    assert_eq!(drawn, addresses);
}

#[test]
fn a_node_that_doubts_itself_waits_longer_and_looks_again_sooner() {
    let mut world = World::new();
    let Settings { suspect_timeout: suspect, down_timeout: down, .. } = world.settings;
    let calm = world.grounds().threshold(IT).expect("it is observed");
    assert_eq!(world.grounds().look_at(calm), calm, "a calm node need not look before");
    for _ in 0..2 {
        world.health.doubt(world.now, crate::io::SelfDoubt::Refuted, &world.settings);
    }
    let doubtful = world.grounds().threshold(IT).expect("it is observed");
    assert_eq!(doubtful.since(Time::ORIGIN), calm.since(Time::ORIGIN) * 3);
    assert_eq!(world.grounds().look_at(doubtful), world.now + suspect / 2);
    world.at(suspect * 29 / 10).judge_times(4);
    assert_ne!(world.detector.inquiries.size(), 0, "it is doubted, and no more");
    assert!(matches!(world.at(suspect * 3).judge(), Some(DetectorStep::Suspect { .. })));
    world.becomes(Status::Suspect);
    assert_eq!(world.grounds().threshold(IT), Some(Time::ORIGIN + down * 3));
}

#[test]
fn three_witnesses_are_asked_first_and_then_the_others_and_the_silent_ones_again() {
    let mut world = World::with(7);
    assert!(world.witnesses().is_empty(), "there is no doubt");
    world.at(world.settings.suspect_timeout).judge();
    let first = world.witnesses();
    assert_eq!(first.len(), 3);
    assert!(!first.contains(&IT));
    world.answers(first[0], ITS_RUN, world.settings.suspect_timeout * 2);
    let others: Vec<Slot> = (2..=7).map(slot_at).filter(|slot| *slot != first[0]).collect();
    assert_eq!(world.witnesses(), others);
}

#[test]
fn a_doubt_whose_first_probe_was_not_answered_is_in_vain_until_it_ends() {
    let mut world = World::new();
    let in_vain = |world: &World| world.detector.inquiries.in_vain().collect::<Vec<_>>();
    world.at(world.settings.suspect_timeout).judge();
    assert_eq!(in_vain(&world), []);
    world.judge();
    assert_eq!(in_vain(&world), [ITS_RUN]);
    let mut heard = World::new();
    heard.at(heard.settings.suspect_timeout).judge_times(2);
    assert!(heard.detector.inquiries.end(ITS_RUN));
    assert_eq!(in_vain(&heard), []);
    world.detector.inquiries.begin_anew();
    assert_eq!((in_vain(&world), world.detector.inquiries.size()), (vec![], 0));
}

/// Returns a node that asked a witness about a member that it heard when time began, two suspect timeouts later.
fn asked() -> World {
    let mut world = World::with(2);
    world.at(world.settings.suspect_timeout * 2).judge();
    world.hears(IT, Duration::ZERO);
    assert_eq!(world.witnesses(), [WITNESS]);
    world
}

#[test]
fn an_answer_counts_from_soon_after_the_last_question_and_moves_the_last_sign_forward_only() {
    let mut world = asked();
    let (asked_at, tolerance) = (world.now, world.settings.probe_timeout);
    let unasked = |world: &World| world.cx.counters.dropped(DropReason::Unasked);
    assert_eq!(world.answers(WITNESS, WITNESS_RUN, Duration::ZERO), None, "it was not asked about itself");
    assert_eq!(world.answers(View::ME, ITS_RUN, Duration::ZERO), None, "nor was anybody else");
    assert_eq!(unasked(&world), 2);
    let silence = asked_at.since(Time::ORIGIN);
    assert_eq!(world.answers(WITNESS, ITS_RUN, silence), None, "it knows no more than this node");
    let heard = HeardElsewhere { slot: IT, is_news: false, is_degraded: false };
    assert_eq!(world.answers(WITNESS, ITS_RUN, silence - tolerance), Some(heard), "packets take as long");
    assert_eq!(world.view.peer_mut(IT).last_sign(), Time::ORIGIN + tolerance);
    assert_eq!(world.answers(WITNESS, ITS_RUN, silence), None);
    assert_eq!(world.view.peer_mut(IT).last_sign(), Time::ORIGIN + tolerance);
    // An answer that waited somewhere for long.
    world.at(silence + tolerance * 9);
    world.answers(WITNESS, ITS_RUN, Duration::ZERO);
    assert_eq!(world.view.peer_mut(IT).last_sign(), asked_at + tolerance);
    assert_eq!(unasked(&world), 2);
}

#[test]
fn a_link_is_bad_if_a_witness_heard_the_member_two_heartbeats_after_this_node_did() {
    let (missed, ms) = (Settings::default().heartbeat_interval * 2, Duration::from_millis(1));
    let heard = |world: &mut World, after: Duration| {
        let age = world.now.since(Time::ORIGIN) - after;
        world.answers(WITNESS, ITS_RUN, age).map(|heard| (heard.is_news, heard.is_degraded))
    };
    assert_eq!(heard(&mut asked(), missed), Some((true, false)));
    assert_eq!(heard(&mut asked(), missed + ms), Some((true, true)));
    // Others' word of it is no word of its own.
    let mut world = asked();
    world.view.peer_mut(IT).lived_at(Time::ORIGIN + missed);
    let tolerance = world.settings.probe_timeout;
    assert_eq!(heard(&mut world, missed + tolerance), Some((false, false)));
    assert_eq!(heard(&mut world, missed + tolerance * 2 + ms), Some((true, true)));
    let mut world = asked();
    world.view.peer_mut(IT).session = None;
    assert_eq!(heard(&mut world, missed), Some((true, true)), "it was never heard here");
}

#[test]
fn who_took_a_member_over_because_of_doubts_could_not_have_heard_it_before() {
    for (later, is_degraded) in [(0, false), (1, true)] {
        let mut world = World::with(60);
        let (began, pause) = (world.settings.suspect_timeout, world.settings.probe_timeout);
        world.at(began);
        let doubted = world.observers.neighbours().next().into_iter().collect();
        let basis = Basis { now: world.now, view: &world.view, is_up: true };
        _ = world.observers.walk(basis, doubted, pause, |_| true);
        let is_passed = |slot: &Slot| world.observers.walk.taken_over_since(*slot).is_some();
        let subject = world.observers.neighbours().find(is_passed).expect("the doubted one, and those behind it");
        let run = world.view.record(subject).run;
        world.at(began * 2);
        world.detector.inquiries.probe_sent(run, world.now);
        let asked = world.detector.witnesses(world.now, &world.view, &world.observers, subject);
        let age = began - pause - Duration::from_millis(later);
        let heard = world.answers(asked[0], run, age).expect("it is news");
        assert_eq!((heard.is_news, heard.is_degraded), (true, is_degraded), "{later} ms later");
    }
}

#[test]
fn a_bad_link_is_told_once_and_again_when_the_member_was_heard_here_for_two_timeouts() {
    let mut world = World::with(2);
    let suspect = world.settings.suspect_timeout;
    let World { cx, view, detector, .. } = &mut world;
    assert_eq!(detector.link_degraded(cx, view, IT, WITNESS), 1);
    assert_eq!(detector.link_degraded(cx, view, IT, WITNESS), 1);
    assert_eq!(detector.link_degraded(cx, view, WITNESS, IT), 2);
    let blocked = |runs: &[u64]| detector.degraded_links(runs.iter().map(|run| Run(*run)));
    assert_eq!((blocked(&[]), blocked(&[2, 7, 8])), (2, 4), "each counts once");
    let id = |slot| view.record(slot).id.clone();
    let (it, witness) = (id(IT), id(WITNESS));
    // Of one kind one is told at a time: the other one was not told of, and so it does not recover.
    assert_eq!(world.notices(), [Notice::LinkDegraded { id: it.clone(), heard_by: witness }]);
    for (after, told, left) in [(suspect * 2 - Duration::from_millis(1), 0, 2), (suspect * 2, 1, 0)] {
        world.at(after);
        for slot in [IT, WITNESS] {
            world.detector.heard_directly(&mut world.cx, &world.view, slot);
        }
        let notices = world.notices();
        assert_eq!(notices, vec![Notice::LinkRecovered { id: it.clone() }; told], "{after:?}");
        assert_eq!((world.detector.degraded_links(std::iter::empty()), world.detector.inquiries.size()), (left, left));
    }
}

#[test]
fn doubts_and_bad_links_are_counted_together_and_both_are_forgotten_with_the_member() {
    let mut world = World::with(2);
    world.at(world.settings.suspect_timeout).judge();
    world.detector.link_degraded(&mut world.cx, &world.view, IT, WITNESS);
    assert_eq!(world.detector.inquiries.size(), 2);
    world.detector.inquiries.forget(ITS_RUN);
    assert_eq!(world.detector.inquiries.size(), 0);
}

#[test]
fn a_witness_tells_what_it_heard_itself_and_if_it_does_not_observe_the_member_only_what_is_fresh() {
    let mut world = World::new();
    let (stranger, suspect) = (world.meet(9), world.settings.suspect_timeout);
    let told = |world: &World, run| match world.grounds().last_heard(run) {
        Some(Message::HeardAt { age_ms, .. }) => Some(Duration::from_millis(age_ms)),
        _ => None,
    };
    world.at(suspect - Duration::from_millis(1));
    assert_eq!([told(&world, ITS_RUN), told(&world, Run(7))], [None; 2], "never heard, and not known");
    for slot in [IT, stranger] {
        world.hears(slot, Duration::ZERO);
    }
    assert_eq!([ITS_RUN, Run(9)].map(|run| told(&world, run)), [Some(suspect - Duration::from_millis(1)); 2]);
    world.at(suspect);
    assert_eq!([ITS_RUN, Run(9)].map(|run| told(&world, run)), [Some(suspect), None]);
}

#[test]
fn an_observers_packets_go_unanswered_for_the_longer_of_both_timeouts_before_a_member_is_heard_in_vain() {
    let ms = Duration::from_millis(1);
    for factor in [1, 2] {
        let mut world = World::new();
        let patience = world.settings.suspect_timeout * factor;
        let timing = Timing::new(Duration::from_secs(1), patience, Duration::from_secs(60)).expect("good");
        world.changes(IT, Record { timing, ..Record::clone(world.view.record(IT)) });
        let stranger = world.meet(9);
        for slot in [IT, stranger] {
            world.hears(slot, Duration::ZERO);
            world.view.peer_mut(slot).sent(Time::ORIGIN, Duration::MAX);
            world.hears(slot, patience);
        }
        assert!(world.at(patience - ms).grounds().counts_as_alive(IT));
        assert!(!world.at(patience).grounds().counts_as_alive(IT));
        assert!(world.grounds().counts_as_alive(stranger), "to that one nobody goes on sending");
        let in_vain = |world: &mut World, at| world.at(at).grounds().is_heard_in_vain(IT);
        assert_eq!(
            [patience - ms, patience, patience * 2 - ms, patience * 2].map(|at| in_vain(&mut world, at)),
            [false, true, true, false]
        );
    }
    let mut world = World::new();
    world.at(Duration::from_secs(60));
    assert!(world.grounds().counts_as_alive(IT) && !world.grounds().is_heard_in_vain(IT), "it was never heard");
}

#[test]
fn an_echo_is_recent_that_was_held_for_half_of_the_longer_timeout() {
    let mut world = World::new();
    world.at(Duration::from_secs(60));
    let (half, ms) = (world.settings.suspect_timeout / 2, Duration::from_millis(1));
    let recent = |world: &World, hold, before: Option<Duration>| {
        let heartbeat = Heartbeat { stamp: 1, echo: Some(Echo { stamp: 2, hold }) };
        world.grounds().recent_echo(IT, heartbeat, before.map(|before| world.now - before))
    };
    let ticks = (half.as_millis() * 10) as u16;
    assert_eq!([ticks, ticks + 1].map(|hold| recent(&world, hold, None)), [Some(half), None]);
    // What was held for longer than a stamp can tell came after the heartbeat before.
    let longest = |world: &World, before| recent(world, u16::MAX, before);
    assert_eq!([None, Some(half), Some(half + ms)].map(|before| longest(&world, before)), [None, Some(half), None]);
    assert_eq!(world.grounds().recent_echo(IT, Heartbeat { stamp: 1, echo: None }, Some(world.now)), None);
    let timing = Timing::new(Duration::from_secs(1), half * 4, Duration::from_secs(60)).expect("good");
    world.changes(IT, Record { timing, ..Record::clone(world.view.record(IT)) });
    assert_eq!(longest(&world, Some(half * 2)), Some(half * 2), "of a slower member");
}

#[test]
fn a_node_is_deaf_without_contact_for_half_of_the_shortest_timeout_that_it_observes() {
    let mut world = World::new();
    let (suspect, ms) = (world.settings.suspect_timeout, Duration::from_millis(1));
    let is_deaf = |world: &World, after| world.health.is_deaf(Time::ORIGIN + after, &world.settings);
    assert_eq!([suspect / 2 - ms, suspect / 2].map(|after| is_deaf(&world, after)), [false, true]);
    world.health.expect_contact(suspect / 5);
    world.health.expect_contact(suspect / 2);
    assert_eq!([suspect / 10 - ms, suspect / 10].map(|after| is_deaf(&world, after)), [false, true]);
    world.health.heard(Time::ORIGIN + suspect);
    assert_eq!([suspect * 3 / 2 - ms, suspect * 3 / 2].map(|after| is_deaf(&world, after)), [false, true]);
}

#[test]
fn who_accused_a_member_in_vain_is_deaf_until_something_is_received_that_was_sent_since_that_doubt_began() {
    let mut world = World::new();
    let (second, ms) = (Duration::from_secs(1), Duration::from_millis(1));
    let doubted = Time::ORIGIN + second;
    let World { health, settings, .. } = &mut world;
    health.note_unheard(Time::ORIGIN);
    assert!(!health.is_unheard(), "this node has looked since then only");
    health.note_unheard(doubted);
    // The first doubt counts.
    health.note_unheard(doubted + second * 2);
    health.heard(doubted + second);
    assert!(health.is_deaf(doubted + second, settings));
    assert!(!health.note_contact(doubted + second, doubted - ms, settings), "it was sent before");
    assert!(health.is_deaf(doubted + second, settings));
    assert!(health.note_contact(doubted + second, doubted, settings));
    assert!(!health.is_deaf(doubted + second, settings));
    assert_eq!(health.heard_again(), doubted + second);
    assert!(!health.note_contact(doubted + second * 2, doubted + second, settings), "it is deaf no more");
    assert_eq!(health.heard_again(), doubted + second);
}

#[test]
fn who_hears_again_tells_the_accused_for_a_suspect_timeout_and_withholds_its_verdicts_as_long() {
    let mut world = World::new();
    let Settings { suspect_timeout: suspect, down_timeout: down, .. } = world.settings;
    let (again, ms) = (Time::ORIGIN + down, Duration::from_millis(1));
    world.at(down).becomes(Status::Suspect);
    assert!(world.health.note_contact(again, again, &world.settings));
    assert!(!world.health.is_telling(again + suspect / 2, &world.settings), "who is deaf once more tells nobody");
    let looks = |world: &mut World, now: Time| {
        world.health.heard(now);
        world.at(now.since(Time::ORIGIN));
        (world.health.is_telling(now, &world.settings), world.grounds().is_withheld(IT))
    };
    assert_eq!(looks(&mut world, again), (true, false), "that one was heard as well as ever");
    world.view.peer_mut(IT).judged_unheard(true);
    assert_eq!(looks(&mut world, again + suspect - ms), (true, true));
    assert_eq!(looks(&mut world, again + suspect), (false, false));
    // A member that is quicker has refuted sooner.
    let timing = Timing::new(ms * 500, suspect / 2, down).expect("good");
    world.changes(IT, Record { timing, ..Record::clone(world.view.record(IT)) });
    assert_eq!(looks(&mut world, again + suspect / 2 - ms), (true, true));
    assert_eq!(looks(&mut world, again + suspect / 2), (true, false));
    // Deaf once more.
    let deaf = again + suspect;
    world.at(deaf.since(Time::ORIGIN));
    assert!(world.health.is_deaf(deaf, &world.settings) && world.grounds().is_withheld(IT));
    world.becomes(Status::Up);
    assert!(!world.grounds().is_withheld(IT), "it is no verdict");
}

#[test]
fn the_first_refutation_of_a_withheld_verdict_gives_the_others_as_long_again() {
    for (is_unheard, is_deaf) in [(true, false), (false, false), (true, true)] {
        let mut world = World::new();
        let suspect = world.settings.suspect_timeout;
        let (again, later) = (Time::ORIGIN + suspect, Time::ORIGIN + suspect + suspect / 4);
        world.at(suspect).becomes(Status::Suspect);
        world.view.peer_mut(IT).judged_unheard(is_unheard);
        world.health.note_contact(again, again, &world.settings);
        let now = if is_deaf { again + suspect * 3 / 4 } else { later };
        world.health.note_withheld_refutation(now, world.view.entry(IT), &world.settings);
        let expected = if is_unheard && !is_deaf { later } else { again };
        assert_eq!(world.health.heard_again(), expected, "{is_unheard}, {is_deaf}");
    }
}

#[test]
fn who_was_accused_unheard_may_refute_after_this_node_hears_again_and_no_later_than_a_down_timeout() {
    let mut world = World::new();
    let Settings { suspect_timeout: suspect, down_timeout: down, .. } = world.settings;
    world.at(suspect).becomes(Status::Suspect);
    let until = |world: &World| world.health.may_refute_until(world.view.entry(IT));
    assert_eq!(until(&world), None, "it was heard as well as ever");
    world.view.peer_mut(IT).judged_unheard(true);
    let chance = (down - suspect) / (1 << MAX_DAMPING);
    for (again, expected) in [(suspect, suspect + chance), (suspect + down, suspect + down)] {
        let again = Time::ORIGIN + again;
        world.health.note_contact(again, again, &world.settings);
        assert_eq!(until(&world), Some(Time::ORIGIN + expected));
    }
}
