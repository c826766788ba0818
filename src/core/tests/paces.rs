//! Members of different paces in one cluster: nobody is judged by another's pace.

use std::time::Duration;

use super::net::{Net, id, ms};
use headcount_core::{ChangeKind, Profile, Status};

/// Returns nodes that are quick and slow in turns: n0 is quick.
fn mixed(n: usize, observers: usize) -> Net {
    let mut net = Net::new(Profile::Local);
    for i in 0..n {
        net.settings = if i % 2 == 0 { Profile::Local } else { Profile::Lan }.settings();
        net.settings.observers = observers;
        net.add(&format!("n{i}"), i, &[0]);
    }
    net.run(Duration::from_secs(20));
    net.assert_all_up();
    net.forget_reports();
    net
}

#[test]
fn a_slow_node_that_hears_nobody_makes_nobody_suspect_the_quick() {
    for observers in [4, 6, 40] {
        let mut net = mixed(24, observers);
        for other in (0..24).filter(|other| *other != 3) {
            net.cut_one_way(other, 3);
        }
        net.run(ms(5_500));
        let quick = |node: usize| net.status(3, &format!("n{node}")) == Some(Status::Down);
        assert!(
            (0..24).step_by(2).all(quick),
            "{observers}: it judges them all the same, long before it would miss the slow"
        );
        for node in (0..24).filter(|node| *node != 3) {
            let told = net.nodes[node]
                .changes
                .iter()
                .find(|(_, change)| change.record.id != id("n3") && !matches!(change.kind, ChangeKind::Updated));
            assert!(told.is_none(), "{observers}: at n{node}: {told:?}");
        }
    }
}

#[test]
fn the_silence_of_the_quick_says_nothing_of_the_slow_behind_them() {
    for n in [30, 40] {
        for few in [3, 5] {
            let mut net = mixed(n, 4);
            for inside in n - few..n {
                for outside in 0..n - few {
                    net.cut(inside, outside, true);
                }
            }
            net.run(Profile::Lan.settings().down_timeout + ms(500));
            for inside in n - few..n {
                for outside in 0..n - few {
                    let held = net.status(inside, &format!("n{outside}"));
                    assert_eq!(held, Some(Status::Down), "{few} of {n}: n{outside} at n{inside}");
                }
            }
        }
    }
}

#[test]
fn who_does_not_observe_a_member_is_no_witness_against_it() {
    // Many observe the wide and few the narrow, so that the wide ask others that never listened.
    let observers = [4, 10, 16];
    let mut net = Net::new(Profile::Local);
    for i in 0..36 {
        net.settings.observers = observers[i % observers.len()];
        net.add(&format!("n{i}"), i, &[0]);
    }
    net.run(Duration::from_secs(60));
    net.assert_all_up();
    net.forget_reports();
    for narrow in (0..36).step_by(3) {
        net.cut_one_way((narrow + 17) % 36, narrow);
        net.cut_one_way((narrow + 5) % 36, narrow);
    }
    net.run(Duration::from_secs(20));
    for node in 0..36 {
        let accused = net.nodes[node].changes.iter().find(|(_, change)| change.kind == ChangeKind::Suspected);
        assert!(accused.is_none(), "at n{node}: {accused:?}");
    }
}
