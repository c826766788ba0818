//! What follows from the answers of kernels, and from their silence.

use super::*;
use crate::limits::{HOST_ANSWER_LASTS, HOST_PATIENCE};

const HOST_DOWN: Duration = Duration::from_millis(2_600);

/// Returns a suspect of the profile `fast`, and what is known of its host at the time at which that is asked.
fn suspect(known: impl FnOnce(&mut crate::view::Host, Time)) -> World {
    let mut world = World::new();
    world.settings = crate::settings::Profile::Fast.settings();
    let timing = world.settings.timing().expect("its own");
    let record = world.view.record(IT).with_status(Status::Suspect);
    world.at(world.settings.suspect_timeout).changes(IT, Record { timing, ..record });
    known(&mut world.view.peer_mut(IT).rare_mut().host, Time::ORIGIN);
    world
}

/// Returns when a suspect is Down by what is known of its host at `HOST_DOWN`, and how that is found out.
fn verdict(known: impl FnOnce(&mut crate::view::Host, Time)) -> (Duration, DetectionMethod) {
    let mut world = suspect(known);
    let mut after = HOST_DOWN;
    loop {
        match world.at(after).judge() {
            Some(DetectorStep::Confirm(method)) => return (after, method),
            Some(DetectorStep::Watch) => after += Duration::from_millis(100),
            step => panic!("{step:?} at {after:?}"),
        }
    }
}

#[test]
fn a_host_that_answered_before_and_answers_no_more_is_down_early() {
    let found = verdict(|host, begin| {
        host.note_answer(begin);
        host.note_question(begin + HOST_DOWN - HOST_PATIENCE, true, true);
    });
    assert_eq!(found, (HOST_DOWN, DetectionMethod::HostSilent));
}

#[test]
fn whoever_may_live_has_the_whole_down_timeout() {
    let down = crate::settings::Profile::Fast.settings().down_timeout;
    let ms = Duration::from_millis;
    let late = (down, DetectionMethod::HeartbeatTimeout);
    assert_eq!(verdict(|_, _| ()), late, "nobody was asked");
    let firewalled = verdict(|host, begin| host.note_question(begin + ms(1_000), true, true));
    assert_eq!(firewalled, late, "it never answered, and may not be able to");
    let unasked = verdict(|host, begin| {
        host.note_answer(begin);
        host.note_question(begin + ms(1_000), true, true);
        host.note_question(begin + ms(1_500), false, true);
    });
    assert_eq!(unasked, late, "it could not be asked");
    let stalled = verdict(|host, begin| {
        host.note_question(begin + ms(1_000), true, true);
        host.note_answer(begin + down - ms(1));
    });
    assert_eq!(stalled, (down, DetectionMethod::ProcessStalled), "it answers");
}

#[test]
fn an_answer_that_another_observer_had_counts_until_it_is_old() {
    let answered = Duration::from_millis(1_200);
    let (after, method) = verdict(|host, begin| {
        host.note_answer(begin);
        host.note_question(begin + Duration::from_secs(1), true, true);
        host.answered = Some(begin + answered);
    });
    assert_eq!((after, method), (answered + HOST_ANSWER_LASTS, DetectionMethod::HostSilent));
}

#[test]
fn a_kernel_has_its_time_to_answer_after_the_first_question_since_it_last_did() {
    let ms = Duration::from_millis;
    let asked_late = verdict(|host, begin| {
        host.note_answer(begin);
        host.note_question(begin + ms(2_000), true, true);
    });
    assert_eq!(asked_late, (ms(2_000) + HOST_PATIENCE, DetectionMethod::HostSilent));
    let answered_between = verdict(|host, begin| {
        host.note_question(begin + ms(100), true, true);
        host.note_answer(begin + ms(1_000));
        host.note_question(begin + ms(2_500), true, true);
    });
    assert_eq!(answered_between, (ms(2_500) + HOST_PATIENCE, DetectionMethod::HostSilent));
}

#[test]
fn a_kernel_is_not_asked_where_its_answer_matters_to_nobody() {
    let host_down = |timing: fn(&mut Settings)| {
        let mut world = suspect(|_, _| ());
        timing(&mut world.settings);
        (world.detector_facts().may_ask_host(IT), world.detector_facts().host_down_timeout(world.view.entry(IT)))
    };
    assert_eq!(host_down(|_| ()), (true, Some(HOST_DOWN)));
    assert_eq!(host_down(|ours| ours.host_down_timeout = None), (false, None));
    assert_eq!(host_down(|ours| ours.host_down_timeout = Some(ours.down_timeout)), (false, None));
    assert_eq!(host_down(|ours| ours.down_timeout *= 2), (false, None), "the member's own timeouts are others");
}
