//! Members that move, one after the other; and what accusations do to those who are told of them.

use std::time::Duration;

use super::net::{Net, address, id, ms};
use super::speaker::{Speaker, about, old_cluster};
use headcount_core::wire::Message;
use headcount_core::{ChangeKind, Command, Profile, Status};

/// The newcomer joins here.
const SPEAKER_HOST: usize = 90;

/// Has the driver of a node bind another socket, and lose the old one.
fn moves(net: &mut Net, node: usize, host: usize) {
    net.nodes[node].address = address(host);
    net.command(node, Command::SetAddress { ticket: 1, address: address(host) });
}

#[test]
fn a_move_is_known_within_a_few_round_trips_and_again() {
    for n in [2, 5, 40] {
        let mut net = old_cluster(Profile::Default, n);
        for host in [70, 71, 1] {
            moves(&mut net, 1, host);
            let took = net.run_until(ms(200), "known where it is", |net| {
                let at = |node: &super::net::Node| node.core.record(&id("n1")).map(|held| held.address);
                net.running().all(|node| at(node) == Some(address(host)))
            });
            assert!(took <= ms(200), "{n}: {took:?}");
            net.run(Duration::from_secs(3));
        }
        net.assert_all_up();
        for observer in (0..n).filter(|node| *node != 1) {
            let told = net.reported(observer, "n1");
            assert!(told.iter().all(|kind| *kind == ChangeKind::Updated), "n{observer}: {told:?}");
        }
    }
}

#[test]
fn a_move_is_known_to_who_has_moved_itself() {
    let mut net = old_cluster(Profile::Default, 5);
    moves(&mut net, 0, 70);
    net.run(Duration::from_secs(3));
    moves(&mut net, 1, 71);
    net.run_until(ms(200), "known where it is", |net| {
        let at = |node: &super::net::Node| node.core.record(&id("n1")).map(|held| held.address);
        net.running().all(|node| at(node) == Some(address(71)))
    });
}

#[test]
fn a_move_is_followed_by_who_was_restarted_under_other_names() {
    for n in [3, 5] {
        let mut net = old_cluster(Profile::Local, n);
        let mut observer = 2;
        for nth in 0..3 {
            net.kill(observer);
            net.run(ms(500));
            observer = net.add(&format!("again{nth}"), 2, &[0]);
            net.run_until(Duration::from_secs(5), "back", |net| net.nodes[observer].core.is_up());
            net.run(Duration::from_secs(8));
        }
        for host in [70, 71] {
            moves(&mut net, 1, host);
            net.run_until(Duration::from_secs(1), "known where it is", |net| {
                let at = |node: &super::net::Node| node.core.record(&id("n1")).map(|held| held.address);
                net.running().all(|node| at(node) == Some(address(host)))
            });
            net.run(ms(10));
        }
    }
}

/// Has a newcomer say this of everybody to everybody, for five seconds; returns the worst self-doubt that anybody had.
fn worst_doubt(n: usize, lie: impl Fn(&Net, usize) -> Vec<Message>) -> u32 {
    let mut net = old_cluster(Profile::Local, n);
    let node = net.add("speaker", SPEAKER_HOST, &[0]);
    net.run_until(ms(3_000), "the speaker is in", Net::all_agree);
    let speaker = Speaker::new(node);
    let mut worst = 0;
    for _ in 0..50 {
        for victim in 0..n {
            let lies = lie(&net, victim);
            speaker.says_to_all(&mut net, &lies);
        }
        net.run(ms(100));
        worst = worst.max((0..n).map(|node| net.nodes[node].core.health_score()).max().unwrap_or(0));
    }
    assert!((0..n).all(|node| net.nodes[node].stopped.is_none()), "{}", net.describe());
    worst
}

#[test]
fn what_a_newcomer_says_makes_nobody_doubt_itself() {
    for n in [3, 6, 20] {
        for (what, status, ahead) in [
            ("suspect", Status::Suspect, 0),
            ("suspect", Status::Suspect, 1),
            ("down", Status::Down, 0),
            ("left", Status::Left(headcount_core::LeaveReason::Graceful), 1),
        ] {
            let doubt = worst_doubt(n, |net, victim| {
                let incarnation = net.nodes[victim].core.me().incarnation + ahead;
                vec![super::speaker::update(about(net, victim, incarnation, status))]
            });
            assert!(doubt == 0, "{n} nodes, {what} at +{ahead}: {doubt}");
        }
    }
}
