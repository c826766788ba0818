//! A node's address changes while it runs.

use std::time::Duration;

use super::liars::{ELSEWHERE, Liar, about, old_cluster, update};
use super::net::{Net, address, id, ms};
use crate::core::doors::{Command, CommandError, Reply};
use crate::core::member::{ChangeKind, Record, Status};
use crate::core::settings::Profile;

/// The driver of a node bound another socket, and lost the old one.
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
