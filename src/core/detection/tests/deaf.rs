//! Echoes, and a node that hears nobody: what it believes of itself, and of those it accused meanwhile.

use super::*;

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
        assert!(world.at(patience - ms).detector_facts().counts_as_alive(IT));
        assert!(!world.at(patience).detector_facts().counts_as_alive(IT));
        assert!(world.detector_facts().counts_as_alive(stranger), "to that one nobody goes on sending");
        let in_vain = |world: &mut World, at| world.at(at).detector_facts().is_heard_in_vain(IT);
        assert_eq!(
            [patience - ms, patience, patience * 2 - ms, patience * 2].map(|at| in_vain(&mut world, at)),
            [false, true, true, false]
        );
    }
    let mut world = World::new();
    world.at(Duration::from_secs(60));
    assert!(
        world.detector_facts().counts_as_alive(IT) && !world.detector_facts().is_heard_in_vain(IT),
        "it was never heard"
    );
}

#[test]
fn an_echo_is_recent_that_was_held_for_half_of_the_longer_timeout() {
    let mut world = World::new();
    world.at(Duration::from_secs(60));
    let (half, ms) = (world.settings.suspect_timeout / 2, Duration::from_millis(1));
    let recent = |world: &World, hold, before: Option<Duration>| {
        let heartbeat = Heartbeat { stamp: 1, echo: Some(Echo { stamp: 2, hold }) };
        world.detector_facts().recent_echo(IT, heartbeat, before.map(|before| world.now - before))
    };
    let ticks = (half.as_millis() * 10) as u16;
    assert_eq!([ticks, ticks + 1].map(|hold| recent(&world, hold, None)), [Some(half), None]);
    // An echo that was held for longer than a stamp can tell is of the heartbeat before.
    let longest = |world: &World, before| recent(world, u16::MAX, before);
    assert_eq!([None, Some(half), Some(half + ms)].map(|before| longest(&world, before)), [None, Some(half), None]);
    assert_eq!(world.detector_facts().recent_echo(IT, Heartbeat { stamp: 1, echo: None }, Some(world.now)), None);
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
fn who_accused_a_member_in_vain_is_deaf_until_something_is_received_that_was_sent_since_that_inquiry_began() {
    let mut world = World::new();
    let (second, ms) = (Duration::from_secs(1), Duration::from_millis(1));
    let probed = Time::ORIGIN + second;
    let World { health, settings, .. } = &mut world;
    health.note_unheard(Time::ORIGIN);
    assert!(!health.is_unheard(), "this node has looked since then only");
    health.note_unheard(probed);
    // The first inquiry counts.
    health.note_unheard(probed + second * 2);
    health.heard(probed + second);
    assert!(health.is_deaf(probed + second, settings));
    assert!(!health.note_contact(probed + second, probed - ms, settings), "it was sent before");
    assert!(health.is_deaf(probed + second, settings));
    assert!(health.note_contact(probed + second, probed, settings));
    assert!(!health.is_deaf(probed + second, settings));
    assert_eq!(health.heard_again(), probed + second);
    assert!(!health.note_contact(probed + second * 2, probed + second, settings), "it is deaf no more");
    assert_eq!(health.heard_again(), probed + second);
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
        (world.health.is_telling(now, &world.settings), world.detector_facts().is_withheld(IT))
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
    assert!(world.health.is_deaf(deaf, &world.settings) && world.detector_facts().is_withheld(IT));
    world.becomes(Status::Up);
    assert!(!world.detector_facts().is_withheld(IT), "it is no verdict");
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
