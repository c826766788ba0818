//! Newcomers that say of others that they leave: nobody leaves at their word, and real departures are known as such.

use super::liars::{Liar, about, update};
use super::limits::{Alone, member};
use super::net::{Net, ms};
use crate::core::doors::Command;
use crate::core::limits::{DEPARTURE_PATIENCE, DEPARTURE_REPORTERS, SETTLE};
use crate::core::member::{ChangeKind, DetectionMethod, LeaveReason, Status};
use crate::core::settings::Profile;
use crate::core::time::Time;
use crate::core::wire::Note;

const GRACEFUL: Status = Status::Left(LeaveReason::Graceful);
const LIAR_HOST: usize = 90;

/// Adds a liar that joins through the first node, and is seen by everybody.
fn fresh_liar(net: &mut Net) -> Liar {
    let node = net.add("liar", LIAR_HOST, &[0]);
    net.run_until(ms(3_000), "the liar is in", Net::all_agree);
    net.run(ms(500));
    Liar::new(node)
}

/// Returns the changes by which this observer reported that a node is gone, or on its way.
fn gone(net: &Net, observer: usize, name: &str) -> Vec<ChangeKind> {
    let is_gone =
        |kind: &ChangeKind| matches!(kind, ChangeKind::Leaving | ChangeKind::Left(_) | ChangeKind::DetectedDown(_));
    net.reported(observer, name).into_iter().filter(is_gone).collect()
}

/// Returns the time at which an observer first reported such a change about a node.
fn reported_at(net: &Net, observer: usize, name: &str, is_it: impl Fn(ChangeKind) -> bool) -> Option<Time> {
    let mut about = net.nodes[observer].changes.iter().filter(|(_, change)| change.record.id == *name);
    about.find(|(_, change)| is_it(change.kind)).map(|(at, _)| *at)
}

/// Tells everybody of everybody else's departure.
fn storm(net: &mut Net, liar: &Liar, n: usize, status: Status, ahead: u64) {
    for victim in 0..n {
        let incarnation = net.nodes[victim].core.me().incarnation + ahead;
        let lie = update(about(net, victim, incarnation, status));
        for told in (0..n).filter(|told| *told != victim) {
            liar.says(net, told, std::slice::from_ref(&lie));
        }
    }
}

#[test]
fn nobody_leaves_at_a_newcomers_word() {
    for (n, age) in [(3, ms(0)), (5, ms(7_000)), (12, SETTLE), (30, ms(0)), (30, SETTLE)] {
        for (status, ahead) in [(Status::Leaving, 0), (GRACEFUL, 0), (GRACEFUL, 1), (GRACEFUL, 1 << 19)] {
            let mut net = Net::cluster(Profile::Default, n);
            net.run(age);
            let liar = fresh_liar(&mut net);
            net.forget_reports();
            let before: Vec<u64> = (0..n).map(|node| net.nodes[node].core.me().incarnation).collect();
            for _ in 0..15 {
                storm(&mut net, &liar, n, status, ahead);
                net.run(ms(200));
            }
            net.run(DEPARTURE_PATIENCE);
            for observer in 0..n {
                for victim in 0..n {
                    let gone = gone(&net, observer, &format!("n{victim}"));
                    assert!(gone.is_empty(), "{n} nodes {age:?} old, {status:?}: n{victim} at n{observer}: {gone:?}");
                }
            }
            let after: Vec<u64> = (0..n).map(|node| net.nodes[node].core.me().incarnation).collect();
            assert_eq!(before, after, "nobody had anything to refute");
            net.assert_all_up();
        }
    }
}

#[test]
fn a_crash_in_a_storm_of_false_goodbyes_is_known_within_a_second_and_as_a_crash() {
    for profile in Profile::ALL {
        for n in [3, 12, 20] {
            let mut net = Net::linked(profile, n);
            let liar = fresh_liar(&mut net);
            net.run(ms(2_000));
            net.forget_reports();
            storm(&mut net, &liar, n, GRACEFUL, 0);
            net.run(ms(400));
            let (at, victim) = (net.now, format!("n{}", n - 1));
            net.kill(n - 1);
            for _ in 0..50 {
                storm(&mut net, &liar, n, GRACEFUL, 0);
                net.run(ms(20));
            }
            for observer in 0..n - 1 {
                let down = reported_at(&net, observer, &victim, |kind| matches!(kind, ChangeKind::DetectedDown(_)));
                assert!(down.is_some_and(|down| down.since(at) <= ms(1_000)), "{profile} {n}: {down:?} at n{observer}");
                let first = gone(&net, observer, &victim)[0];
                assert!(matches!(first, ChangeKind::DetectedDown(_)), "{profile} {n} at n{observer}: {first:?}");
            }
        }
    }
}

/// Returns a cluster whose nodes came one after the other: to the first ones most others are newcomers.
fn built_slowly(n: usize, are_linked: bool) -> Net {
    let mut net = Net::new(Profile::Lan);
    if are_linked {
        net.lay_wires();
    }
    for i in 0..n {
        net.add(&format!("n{i}"), i, &[0]);
        net.run(ms(1_000));
    }
    net.run(ms(5_000));
    net.assert_all_up();
    net.forget_reports();
    net
}

#[test]
fn departures_from_a_cluster_of_newcomers_are_known_everywhere_within_seconds() {
    for (n, are_linked) in [(9, false), (30, false), (30, true)] {
        let mut net = built_slowly(n, are_linked);
        for leaver in [n - 1, n / 2, 3] {
            net.command(leaver, Command::Leave);
            net.run(DEPARTURE_PATIENCE + ms(1_000));
            for observer in (0..n).filter(|node| net.nodes[*node].stopped.is_none()) {
                let kinds = net.reported(observer, &format!("n{leaver}"));
                let is_left = kinds.last() == Some(&ChangeKind::Left(LeaveReason::Graceful));
                assert!(is_left, "{n}: n{leaver} at n{observer}: {kinds:?}");
                assert!(!kinds.iter().any(|kind| matches!(kind, ChangeKind::DetectedDown(_) | ChangeKind::Suspected)));
            }
        }
    }
}

#[test]
fn most_of_a_cluster_of_newcomers_leaves_at_once_and_all_are_reported_as_having_left() {
    let mut net = built_slowly(40, true);
    for leaver in 5..40 {
        net.command(leaver, Command::Leave);
    }
    net.run(net.settings.down_timeout * 3);
    for observer in 0..5 {
        for leaver in 5..40 {
            let kinds = net.reported(observer, &format!("n{leaver}"));
            let has_left = kinds.last() == Some(&ChangeKind::Left(LeaveReason::Graceful));
            let is_down = kinds.iter().any(|kind| matches!(kind, ChangeKind::DetectedDown(_)));
            assert!(has_left && !is_down, "n{leaver} at n{observer}: {kinds:?}");
        }
    }
}

#[test]
fn whoever_hears_nobody_has_nobody_leave_at_a_newcomers_word() {
    let mut net = Net::cluster(Profile::Default, 4);
    net.run(SETTLE);
    let liar = fresh_liar(&mut net);
    net.forget_reports();
    for other in 1..4 {
        net.cut(0, other, true);
    }
    for _ in 0..20 {
        storm(&mut net, &liar, 4, GRACEFUL, 0);
        net.run(ms(200));
    }
    for victim in 1..4 {
        let left = net.reported(0, &format!("n{victim}"));
        assert!(!left.contains(&ChangeKind::Left(LeaveReason::Graceful)), "{left:?}");
    }
}

#[test]
fn a_newcomers_goodbye_does_not_bring_the_dead_back() {
    let mut net = Net::linked(Profile::Local, 5);
    let liar = fresh_liar(&mut net);
    net.kill(4);
    net.run(ms(2_000));
    for _ in 0..60 {
        storm(&mut net, &liar, 5, Status::Leaving, 1);
        net.run(ms(100));
        for observer in 0..4 {
            assert_eq!(net.status(observer, "n4"), Some(Status::Down), "at n{observer}");
        }
    }
}

/// Has so many newcomers say that a member that is not observed has left; returns true if it is believed in the end.
fn is_believed_to_have_left(newcomers: usize, is_heard: bool) -> bool {
    let mut alone = Alone::with_teller();
    alone.told_of(0..200, Status::Up);
    alone.now = alone.now + SETTLE;
    alone.core.now = alone.now;
    alone.introduces(1_000..1_000 + newcomers);
    let slot =
        |alone: &Alone, host: usize| alone.core.view.slot_of_run(member(host, Status::Up).run).expect("a member");
    let subject = (0..200).find(|host| !alone.core.observes(slot(&alone, *host))).expect("of 200");
    let note = Note { age_ms: 0, method: DetectionMethod::HeartbeatTimeout };
    for newcomer in 1_000..1_000 + newcomers {
        let by = member(newcomer, Status::Up);
        alone.told_from(by.address, by.run, &[(Some(note), member(subject, GRACEFUL))]);
    }
    alone.pass(ms(700));
    if is_heard {
        let heard = member(subject, Status::Up);
        alone.told_from(heard.address, heard.run, &[]);
    }
    alone.pass(DEPARTURE_PATIENCE);
    alone.core.record(&member(subject, Status::Up).id).map(|held| held.status) == Some(GRACEFUL)
}

#[test]
fn several_newcomers_are_believed_of_a_member_that_nobody_knows_better_of_and_fewer_are_not() {
    assert!(!is_believed_to_have_left(DEPARTURE_REPORTERS - 1, false), "too few");
    assert!(is_believed_to_have_left(DEPARTURE_REPORTERS, false));
    assert!(!is_believed_to_have_left(DEPARTURE_REPORTERS, true), "it was heard meanwhile");
}
