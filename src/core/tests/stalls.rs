//! Members whose processes stand still for a while, and then read what has waited: news of leaders that are dead by then.

use super::electing::{SECOND, cluster, leader};
use super::net::{Net, ms};

/// Returns a node that does not lead: a voter, or a member that never votes.
fn other_than(leader: usize, is_voter: bool) -> usize {
    if is_voter { (leader + 1) % 3 } else { 4 }
}

#[track_caller]
fn assert_nobody_shows(net: &Net, dead: usize, what: &str) {
    let name = &net.nodes[dead].core.me().id;
    for node in net.running() {
        let told = node.core.leadership();
        // An agent shows nothing that is past.
        let is_shown = told.leader.as_ref() == Some(name) && told.valid_until.is_some_and(|until| until > net.now);
        assert!(!is_shown, "{what}: {} shows {told:?} at {:?}", node.core.me().id, net.now);
    }
}

#[test]
fn whoever_stood_still_shows_no_leader_that_is_dead_by_now_and_makes_nobody_else_show_it() {
    for is_voter in [true, false] {
        for (lived, dead_for) in [(100, 2_000), (500, 2_100), (1_700, 2_050), (3_000, 2_000), (5_000, 5_000)] {
            let what = format!("voter {is_voter}, the leader lived for {lived} ms and was dead for {dead_for} ms");
            let mut net = cluster(5, 3);
            let (first, _) = leader(&net);
            let sleeper = other_than(first, is_voter);
            net.pause(sleeper, true);
            net.run(ms(lived));
            net.kill(first);
            if !is_voter {
                // Nobody is elected.
                net.kill((first + 1) % 3);
            }
            net.run(ms(dead_for));
            assert_nobody_shows(&net, first, &what);
            net.pause(sleeper, false);
            for _ in 0..300 {
                assert_nobody_shows(&net, first, &what);
                net.run(ms(10));
            }
        }
    }
}

#[test]
fn whoever_stood_still_shows_a_leader_that_lives_again_soon() {
    for is_voter in [true, false] {
        for paused in [300, 1_000, 1_990, 2_010, 5_000, 30_000] {
            let mut net = cluster(5, 3);
            let before = leader(&net);
            let sleeper = other_than(before.0, is_voter);
            net.pause(sleeper, true);
            net.run(ms(paused));
            net.pause(sleeper, false);
            // What it knew before it stood still is not enough: the lease has to last.
            let is_shown =
                |net: &Net| net.nodes[sleeper].core.leadership().valid_until.is_some_and(|until| until > net.now);
            net.run_until(SECOND, "the leader is shown", is_shown);
            net.run(SECOND * 5);
            assert_eq!(leader(&net), before, "voter {is_voter}, {paused} ms");
        }
    }
}
