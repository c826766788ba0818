//! Departures from a cluster in which everybody has just come: they are known as such everywhere.

use super::net::{Net, ms};
use headcount_core::{ChangeKind, Command, LeaveReason, Profile};

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
fn departures_from_a_cluster_of_newcomers_are_known_everywhere_within_a_second() {
    for (n, are_linked) in [(9, false), (30, false), (30, true)] {
        let mut net = built_slowly(n, are_linked);
        for leaver in [n - 1, n / 2, 3] {
            net.command(leaver, Command::Leave);
            net.run(ms(1_000));
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
