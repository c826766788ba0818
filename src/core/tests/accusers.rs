//! Several members that accuse another one again and again, as members that hear it badly do.

use std::time::Duration;

use super::net::{Net, ms};
use super::speaker::{Speaker, about, old_cluster, update};
use headcount_core::limits::MAX_DAMPING;
use headcount_core::{ChangeKind, DropReason, Profile, Status};

/// The last ones of these lie.
const MEMBERS: usize = 20;
const SPEAKERS: std::ops::Range<usize> = 15..MEMBERS;

/// Has all speakers say to everybody that the first member is in this state, ten times a second; returns the share of
/// moments at which it was Up, over all honest observers.
fn accused_by_all(net: &mut Net, status: Status, duration: Duration) -> f64 {
    let (mut looks, mut ups) = (0, 0);
    for _ in 0..duration.as_millis() / 100 {
        let lie = update(about(net, 0, net.nodes[0].core.me().incarnation, status));
        for speaker in SPEAKERS {
            Speaker::new(speaker).says_to_all(net, std::slice::from_ref(&lie));
        }
        for _ in 0..10 {
            net.run(ms(10));
            looks += SPEAKERS.start - 1;
            ups += (1..SPEAKERS.start).filter(|observer| net.status(*observer, "n0") == Some(Status::Up)).count();
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
            for observer in 1..SPEAKERS.start {
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
        for seed in 0..2 {
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
