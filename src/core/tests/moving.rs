//! A node's address changes while it runs.

use std::time::Duration;

use rand::SeedableRng;

use super::liars::{ELSEWHERE, Liar, about, old_cluster, update};
use super::net::{Net, address, id, ms};
use crate::core::doors::{Command, CommandError, Reply};
use crate::core::member::{ChangeKind, Record, Status};
use crate::core::packet::Prover;
use crate::core::settings::Profile;
use crate::core::wire::Message;

/// Has the driver of a node bind another socket, and lose the old one.
fn moves(net: &mut Net, node: usize, host: usize) {
    net.nodes[node].address = address(host);
    net.command(node, Command::SetAddress { ticket: 1, address: address(host) });
}

#[test]
fn a_node_that_moves_stays_a_member() {
    for (profile, n) in [(Profile::Local, 2), (Profile::Local, 5), (Profile::Default, 5), (Profile::Local, 40)] {
        let mut net = old_cluster(profile, n);
        let within = net.settings.suspect_timeout;
        moves(&mut net, 1, 70);
        assert_eq!(net.nodes[1].replies, [Reply::AddressSet]);
        net.run_until(within, "known where it is", |net| {
            net.running().all(|node| node.core.record(&id("n1")).is_some_and(|held| held.address == address(70)))
        });
        net.run(within * 2);
        net.assert_all_up();
        for observer in (0..n).filter(|node| *node != 1) {
            let told = net.reported(observer, "n1");
            let is_update =
                |kind: &ChangeKind| matches!(kind, ChangeKind::Updated | ChangeKind::Suspected | ChangeKind::Recovered);
            assert!(told.iter().all(is_update), "{profile} n{observer}: {told:?}");
        }
    }
}

#[test]
fn an_address_that_nobody_can_answer_to_is_refused() {
    let mut net = Net::cluster(Profile::Local, 2);
    for wrong in ["0.0.0.0:7117", "10.0.0.9:0", "224.0.0.1:7117"] {
        let address = wrong.parse().expect("an address");
        net.command(1, Command::SetAddress { ticket: 1, address });
        let refused = Reply::Refused(CommandError::Unreachable { address });
        assert_eq!(net.nodes[1].replies.last(), Some(&refused));
    }
    let mine = net.nodes[1].address;
    let before = net.nodes[1].core.me().incarnation;
    net.command(1, Command::SetAddress { ticket: 1, address: mine });
    assert_eq!(net.nodes[1].replies.last(), Some(&Reply::AddressSet));
    assert_eq!(net.nodes[1].core.me().incarnation, before, "nothing to tell");
}

#[test]
fn a_member_is_not_moved_by_others() {
    for n in [3, 5, 40] {
        let mut net = old_cluster(Profile::Local, n);
        let liar = Liar::new(2);
        for _ in 0..5 {
            let incarnation = net.nodes[1].core.me().incarnation + 5;
            let lie = Record { address: address(ELSEWHERE), ..about(&net, 1, incarnation, Status::Up) };
            liar.says_to_all(&mut net, &[update(lie)]);
            net.run(Duration::from_secs(1));
        }
        net.run(ms(500));
        for node in net.running() {
            let held = node.core.record(&id("n1")).expect("listed");
            assert_eq!((held.address, held.status), (address(1), Status::Up), "{}", net.describe());
        }
    }
}

#[test]
fn a_newcomers_own_word_of_another_address_puts_it_nowhere_else() {
    let mut net = old_cluster(Profile::Local, 5);
    let liar = net.add("liar", 90, &[0]);
    net.run_until(ms(3_000), "the liar is in", Net::all_agree);
    for at in [address(0), address(1), address(ELSEWHERE)] {
        let incarnation = net.nodes[liar].core.me().incarnation + 1;
        let lie = update(Record { address: at, ..about(&net, liar, incarnation, Status::Up) });
        Liar::new(liar).says_to_all(&mut net, &[lie]);
        for _ in 0..20 {
            net.run(ms(50));
            for node in 0..5 {
                let held = net.nodes[node].core.record(&id("liar")).expect("listed");
                assert_eq!(held.address, address(90), "at n{node}");
            }
        }
    }
}

/// Returns a cluster with links, in which nothing counts any more that was given to node 1.
fn without_keepsakes(profile: Profile, n: usize) -> Net {
    let mut net = Net::linked(profile, n);
    net.run(Duration::from_secs(60));
    for (node, seed) in (0..n).filter(|node| *node != 1).zip(7..) {
        net.nodes[node].core.prover = Prover::new(&mut rand_chacha::ChaCha8Rng::seed_from_u64(seed));
    }
    net.forget_reports();
    net
}

fn is_known_at(net: &Net, host: usize) -> bool {
    net.running().all(|node| node.core.record(&id("n1")).is_some_and(|held| held.address == address(host)))
}

/// Checks that nobody took node 1 for dead meanwhile.
fn assert_not_gone(net: &Net, case: &str) {
    for observer in (0..net.nodes.len()).filter(|node| *node != 1) {
        let told = net.reported(observer, "n1");
        let is_gone = |kind: &ChangeKind| matches!(kind, ChangeKind::DetectedDown(_) | ChangeKind::Left(_));
        assert!(!told.iter().any(is_gone), "{case}: n{observer}: {told:?}");
    }
}

#[test]
fn a_member_that_says_over_a_link_that_it_moved_needs_no_keepsake() {
    for (profile, n) in [(Profile::Local, 2), (Profile::Local, 4), (Profile::Local, 8), (Profile::Default, 4)] {
        let mut net = without_keepsakes(profile, n);
        moves(&mut net, 1, 70);
        net.run_until(net.settings.down_timeout, "known where it is", |net| is_known_at(net, 70));
        net.run(net.settings.down_timeout * 2);
        net.assert_all_up();
        assert_not_gone(&net, &format!("{profile}, {n}"));
    }
}

#[test]
fn a_member_that_says_where_it_was_that_it_moves_needs_no_keepsake() {
    for n in [2, 5] {
        let mut net = old_cluster(Profile::Local, n);
        for (node, seed) in (0..n).filter(|node| *node != 1).zip(7..) {
            net.nodes[node].core.prover = Prover::new(&mut rand_chacha::ChaCha8Rng::seed_from_u64(seed));
        }
        net.run(net.settings.heartbeat_interval * 2);
        net.forget_reports();
        // Its last packets from there say where it will be.
        net.command(1, Command::SetAddress { ticket: 1, address: address(70) });
        net.sent = Some(Vec::new());
        while !net.sent.iter().flatten().any(|(_, to, _)| *to == address(70)) {
            net.run(Duration::from_micros(100));
            assert!(net.sent.as_ref().is_some_and(|sent| sent.len() < 10_000), "it is asked there");
        }
        net.sent = None;
        net.nodes[1].address = address(70);
        net.run_until(net.settings.suspect_timeout, "known where it is", |net| is_known_at(net, 70));
        net.run(net.settings.down_timeout * 2);
        net.assert_all_up();
        assert_not_gone(&net, &format!("{n}"));
    }
}

#[test]
fn a_member_that_answers_from_where_it_was_what_was_asked_where_it_is_has_moved() {
    let mut net = old_cluster(Profile::Local, 3);
    net.sent = Some(Vec::new());
    let incarnation = net.nodes[1].core.me().incarnation + 1;
    let record = Record { address: address(ELSEWHERE), ..about(&net, 1, incarnation, Status::Up) };
    // Somebody else says so: the member is asked there.
    Liar::new(2).says(&mut net, 0, &[update(record.clone())]);
    net.run(ms(5));
    let questions = super::hostile::mail(&net, address(ELSEWHERE));
    let nonce = questions.into_iter().find_map(|message| match message {
        Message::WhoAreYou { nonce, .. } => Some(nonce),
        _ => None,
    });
    assert_eq!(net.nodes[0].core.record(&id("n1")).map(|held| held.address), Some(address(1)));
    let record = Record { incarnation: record.incarnation + 5, ..record };
    Liar::new(1).says(&mut net, 0, &[Message::IAm { nonce: nonce.expect("asked"), record }]);
    assert_eq!(net.nodes[0].core.record(&id("n1")).map(|held| held.address), Some(address(ELSEWHERE)));
}
