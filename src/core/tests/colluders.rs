//! Several members that lie about another one together, without pause.

use std::time::Duration;

use super::liars::{Liar, about, old_cluster, update};
use super::net::{Net, ms};
use crate::core::counters::DropReason;
use crate::core::doors::{Command, Notice};
use crate::core::limits::{MAX_DAMPING, MAX_FALSE_DEPARTURES};
use crate::core::member::{ChangeKind, DetectionMethod, LeaveReason, Record, Status};
use crate::core::settings::{Profile, Timing};
use crate::core::wire::{Message, Note, Update};

/// The last ones of these lie.
const MEMBERS: usize = 20;
const LIARS: std::ops::Range<usize> = 15..MEMBERS;

/// Has all liars say to everybody that the first member is in this state, ten times a second; returns the share of
/// moments at which it was Up, over all honest observers.
fn accused_by_all(net: &mut Net, status: Status, duration: Duration) -> f64 {
    let (mut looks, mut ups) = (0, 0);
    for _ in 0..duration.as_millis() / 100 {
        let lie = update(about(net, 0, net.nodes[0].core.me().incarnation, status));
        for liar in LIARS {
            Liar::new(liar).says_to_all(net, std::slice::from_ref(&lie));
        }
        for _ in 0..10 {
            net.run(ms(10));
            looks += LIARS.start - 1;
            ups += (1..LIARS.start).filter(|observer| net.status(*observer, "n0") == Some(Status::Up)).count();
        }
    }
    f64::from(ups as u32) / f64::from(looks as u32)
}

#[test]
fn what_was_refuted_again_and_again_is_believed_no_more_at_the_first_word() {
    for profile in [Profile::Local, Profile::Lan, Profile::Default] {
        for status in [Status::Suspect, Status::Down] {
            let mut net = old_cluster(profile, MEMBERS);
            // Refutations are forgotten one by one; in this time it is one at most.
            let share = accused_by_all(&mut net, status, Duration::from_secs(20));
            assert!(share > 0.99, "{profile:?}, {status:?}: {share}");
            let is_accusation = |kind: &ChangeKind| matches!(kind, ChangeKind::DetectedDown(_) | ChangeKind::Suspected);
            for observer in 1..LIARS.start {
                let reported = net.reported(observer, "n0").into_iter().filter(is_accusation).count();
                let most = usize::from(MAX_DAMPING) + 3;
                assert!((1..=most).contains(&reported), "{profile:?}, {status:?}: {reported} times at n{observer}");
                assert!(net.nodes[observer].core.counters().dropped(DropReason::Implausible) > 0, "it is counted");
            }
            net.run(Duration::from_secs(5));
            net.assert_all_up();
        }
    }
}

#[test]
fn who_was_reported_dead_again_and_again_is_known_to_be_dead_within_a_second() {
    for profile in [Profile::Local, Profile::Lan, Profile::Default] {
        for seed in 0..5 {
            let mut net = Net::linked(profile, MEMBERS);
            net.shuffle_losses(seed);
            net.run(Duration::from_secs(61));
            accused_by_all(&mut net, Status::Down, Duration::from_secs(2));
            net.run(ms(seed * 37));
            net.kill(0);
            let is_known = |net: &Net| (1..MEMBERS).all(|node| net.status(node, "n0") == Some(Status::Down));
            net.run_until(Duration::from_secs(1), "its death is known", is_known);
        }
    }
}

const GRACEFUL: Status = Status::Left(LeaveReason::Graceful);

/// Has one elder say to everybody, ten times a second, that members leave: each of these in turn.
fn sent_off_by_one(net: &mut Net, liar: usize, victims: std::ops::Range<usize>, status: Status, duration: Duration) {
    for victim in victims.cycle().take((duration.as_millis() / 100) as usize) {
        let lie = update(about(net, victim, net.nodes[victim].core.me().incarnation, status));
        Liar::new(liar).says_to_all(net, &[lie]);
        net.run(ms(100));
    }
}

#[test]
fn one_elder_shows_living_members_as_left_so_often_and_no_more_and_is_named() {
    for (victims, status) in [(0..1, GRACEFUL), (0..1, Status::Leaving), (0..6, GRACEFUL)] {
        let mut net = old_cluster(Profile::Lan, 8);
        sent_off_by_one(&mut net, 7, victims.clone(), status, Duration::from_secs(100));
        let is_gone = |kind: &ChangeKind| matches!(kind, ChangeKind::Leaving | ChangeKind::Left(_));
        let is_named = |notice: &Notice| matches!(notice, Notice::FalseDeparture { by, .. } if by.as_str() == "n7");
        let mut is_named_somewhere = false;
        for observer in 0..7 {
            let told = |victim| net.reported(observer, &format!("n{victim}")).into_iter().filter(is_gone).count();
            let told: usize = victims.clone().filter(|victim| *victim != observer).map(told).sum();
            assert!(told <= MAX_FALSE_DEPARTURES + 1, "{status:?}: {told} at n{observer}");
            is_named_somewhere |= net.nodes[observer].notices.iter().any(is_named);
        }
        assert!(is_named_somewhere, "{status:?}");
        net.run(Duration::from_secs(5));
        net.assert_all_up();
    }
}

#[test]
fn who_was_said_to_leave_again_and_again_leaves_and_is_known_to_have_left() {
    let mut net = old_cluster(Profile::Lan, 20);
    sent_off_by_one(&mut net, 7, 0..1, GRACEFUL, Duration::from_secs(2));
    net.command(0, Command::Leave);
    let has_left = |net: &Net, node: usize| net.status(node, "n0") == Some(GRACEFUL);
    net.run_until(ms(300), "whom it tells itself", |net| (1..20).any(|node| has_left(net, node)));
    net.run_until(Duration::from_secs(4), "everybody", |net| (1..20).all(|node| has_left(net, node)));
}

/// Returns the shortest timing that there is: by it, whoever was not heard for a moment is dead.
fn shortest_timing() -> Timing {
    Timing::new(ms(50), ms(100), ms(101)).expect("in range")
}

#[test]
fn who_is_said_to_be_quicker_than_it_is_is_not_judged_by_that() {
    for profile in [Profile::Local, Profile::Default] {
        for ahead in [0, 1] {
            let mut net = old_cluster(profile, MEMBERS);
            net.forget_reports();
            for _ in 0..20 {
                let incarnation = net.nodes[0].core.me().incarnation + ahead;
                let record = Record { timing: shortest_timing(), ..about(&net, 0, incarnation, Status::Suspect) };
                let note = Note { age_ms: 20_000, method: DetectionMethod::HeartbeatTimeout };
                let lie = Message::Update(Update { note: Some(note), record });
                Liar::new(MEMBERS - 1).says_to_all(&mut net, &[lie]);
                net.run(Duration::from_secs(1));
            }
            for observer in 1..MEMBERS - 1 {
                // It takes back what it hears of the lie itself.
                let mut reported = net.reported(observer, "n0");
                reported.retain(|kind| *kind != ChangeKind::Updated);
                assert_eq!(reported, [], "{profile:?}, {ahead} ahead, at n{observer}");
                assert!(net.nodes[observer].core.counters().dropped(DropReason::Implausible) > 0, "it is counted");
            }
            net.assert_all_up();
        }
    }
}
