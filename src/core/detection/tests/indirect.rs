//! Indirect probes: the questions to other observers, and what their answers are worth.

use super::*;

#[test]
fn three_witnesses_are_asked_first_and_then_all_of_them_whatever_they_answered() {
    let mut world = World::with(7);
    assert!(world.witnesses().is_empty(), "there is no inquiry");
    world.at(world.settings.suspect_timeout).judge();
    let first = world.witnesses();
    assert_eq!(first.len(), 3);
    assert!(!first.contains(&IT));
    world.answers(first[0], ITS_RUN, world.settings.suspect_timeout * 2);
    let all: Vec<Slot> = (2..=7).map(slot_at).collect();
    assert_eq!([world.witnesses(), world.witnesses()], [all.clone(), all]);
}

#[test]
fn a_member_that_others_ask_about_is_probed_if_it_was_not_heard_lately_and_once_in_a_moment() {
    let mut world = World::new();
    let (suspect, pause) = (world.settings.suspect_timeout, world.settings.probe_timeout / 2);
    let is_worth_it = |world: &World| world.detector_facts().is_worth_a_probe(IT);
    assert!(!is_worth_it(world.at(suspect / 3 - Duration::from_millis(1))));
    assert!(is_worth_it(world.at(suspect / 3)));
    world.view.peer_mut(IT).rare_mut().last_hearsay = Some(world.now);
    assert!(!is_worth_it(&world) && is_worth_it(world.at(suspect / 3 + pause)));
    world.becomes(Status::Down);
    assert!(!is_worth_it(&world), "it is gone");
}

#[test]
fn an_inquiry_whose_first_probe_was_not_answered_is_in_vain_until_it_ends() {
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
fn who_took_a_member_over_because_others_were_unresponsive_could_not_have_heard_it_before() {
    for (later, is_degraded) in [(0, false), (1, true)] {
        let mut world = World::with(60);
        let (began, pause) = (world.settings.suspect_timeout, world.settings.probe_timeout);
        world.at(began);
        let unresponsive = world.observers.neighbours().next().into_iter().collect();
        _ = world.observers.walk(&world.cx, &world.view, unresponsive, pause, |_| true);
        let is_passed = |slot: &Slot| world.observers.walk.taken_over_since(*slot).is_some();
        let subject = world.observers.neighbours().find(is_passed).expect("the unresponsive one, and those behind it");
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
fn inquiries_and_bad_links_are_counted_together_and_both_are_forgotten_with_the_member() {
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
    let told = |world: &World, run| match world.detector_facts().last_heard(run) {
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
