//! Members that do not hear, or are not heard: what they say of others, and how it ends with them.

use std::time::Duration;

use super::net::{Net, id, ms};
use headcount_core::{ChangeKind, Notice, Profile, Status};

fn cluster(profile: Profile, n: usize) -> Net {
    let mut net = Net::cluster(profile, n);
    net.run(net.settings.suspect_timeout * 3);
    net.forget_reports();
    net
}

/// Returns the time after which a member that echoes nothing does not hear.
fn without_echo(net: &Net) -> Duration {
    net.settings.longest_quiet()
}

/// Cuts this node off from all that others send.
fn deafen(net: &mut Net, node: usize) {
    for other in (0..net.nodes.len()).filter(|other| *other != node) {
        net.cut_one_way(other, node);
    }
}

/// Cuts all others off from what this node sends.
fn mute(net: &mut Net, node: usize) {
    for other in (0..net.nodes.len()).filter(|other| *other != node) {
        net.cut_one_way(node, other);
    }
}

fn heal(net: &mut Net, node: usize) {
    for other in (0..net.nodes.len()).filter(|other| *other != node) {
        net.cut(node, other, false);
    }
}

/// Returns the number of changes that others reported about anybody but this node.
fn reported_of_others(net: &Net, ill: usize) -> usize {
    let name = id(&format!("n{ill}"));
    let well = net.nodes.iter().enumerate().filter(|(node, _)| *node != ill).map(|(_, node)| node);
    let silent = |kind: ChangeKind| !matches!(kind, ChangeKind::Updated);
    well.flat_map(|node| &node.changes).filter(|(_, change)| change.record.id != name && silent(change.kind)).count()
}

#[test]
fn a_node_that_hears_nobody_makes_nobody_suspect_anybody() {
    for profile in Profile::ALL {
        let mut net = cluster(profile, 30);
        deafen(&mut net, 3);
        net.run(net.settings.down_timeout * 6);
        assert_eq!(reported_of_others(&net, 3), 0, "{profile}");
        let down = (0..30).filter(|node| *node != 3 && net.status(3, &format!("n{node}")) == Some(Status::Down));
        assert!(down.count() > 10, "{profile}: it judges all the same");
        heal(&mut net, 3);
        net.run_until(net.settings.down_timeout * 3, "all agree again", Net::all_agree);
        assert_eq!(reported_of_others(&net, 3), 0, "{profile}: nor when it hears again");
    }
}

#[test]
fn who_is_heard_and_does_not_hear_ends_as_down_everywhere_and_returns_when_it_hears() {
    for profile in Profile::ALL {
        for nodes in [2, 3, 5, 20] {
            let mut net = cluster(profile, nodes);
            deafen(&mut net, 1);
            let patience = without_echo(&net) + net.settings.down_timeout * 2;
            let others = || (0..nodes).filter(|node| *node != 1);
            net.run_until(patience, "it is Down everywhere", |net| {
                others().all(|node| net.status(node, "n1") == Some(Status::Down))
            });
            net.run(patience);
            assert!(
                others().all(|node| net.status(node, "n1") == Some(Status::Down)),
                "{profile}, {nodes}: and stays so"
            );
            heal(&mut net, 1);
            net.run_until(net.settings.down_timeout * 3, "it returns", Net::all_agree);
            assert_eq!(reported_of_others(&net, 1), 0, "{profile}, {nodes}");
        }
    }
}

#[test]
fn who_is_not_heard_is_down_everywhere_and_finds_itself_alone() {
    for profile in Profile::ALL {
        let mut net = cluster(profile, 8);
        mute(&mut net, 2);
        net.run(without_echo(&net) * 4 + net.settings.down_timeout * 2);
        for node in (0..8).filter(|node| *node != 2) {
            assert_eq!(net.status(node, "n2"), Some(Status::Down), "{profile}: at n{node}");
            assert_eq!(net.status(2, &format!("n{node}")), Some(Status::Down), "{profile}: n{node} at the mute one");
        }
        assert_eq!(reported_of_others(&net, 2), 0, "{profile}");
        assert!(net.nodes[2].partitions.iter().any(|(_, said)| said.unreachable.len() == 7), "{profile}: it says so");
        let is_told = |notice: &Notice| matches!(notice, Notice::Refuted { .. });
        assert!(net.nodes[2].notices.iter().any(is_told), "{profile}: it is told what the others hold it as");
        heal(&mut net, 2);
        net.run_until(net.settings.down_timeout * 3, "it returns", Net::all_agree);
    }
}

#[test]
fn who_is_not_heard_now_and_then_makes_nobody_suspect_anybody() {
    // In the slowest profile what members echo is older than a stamp can tell: it must not pass for contact.
    let slow = [1, 10].map(|late| (Profile::Wan, 3.3, late));
    let all = Profile::ALL.into_iter().flat_map(|profile| [0.4, 1.2, 3.3].map(|share| (profile, share, 0)));
    for (profile, share, late) in all.chain(slow) {
        let mut net = cluster(profile, 30);
        net.run(ms(1_370 * late));
        let spell = net.settings.suspect_timeout.mul_f64(share);
        for _ in 0..4 {
            mute(&mut net, 3);
            net.run(spell);
            heal(&mut net, 3);
            net.run(spell);
        }
        net.run_until(net.settings.down_timeout * 3, "all agree again", Net::all_agree);
        assert_eq!(reported_of_others(&net, 3), 0, "{profile}, spells of {spell:?}, {late}");
    }
}

#[test]
fn one_bad_direction_of_one_pair_accuses_nobody() {
    for profile in Profile::ALL {
        for nodes in [3, 6, 30] {
            let mut net = cluster(profile, nodes);
            net.cut_one_way(0, 1);
            net.run(net.settings.down_timeout * 10);
            assert!(net.nodes.iter().all(|node| node.changes.is_empty()), "{profile}, {nodes}: {}", net.describe());
        }
    }
}

#[test]
fn a_suspect_that_is_heard_and_never_refutes_ends_as_down() {
    // Its packets arrive, and whatever is sent to it is lost: first it is silent long enough to be suspected.
    for profile in Profile::ALL {
        let mut net = cluster(profile, 4);
        for other in 0..3 {
            net.cut(3, other, true);
        }
        net.run(net.settings.suspect_timeout + ms(100));
        assert_eq!(net.status(0, "n3"), Some(Status::Suspect), "{profile}");
        heal(&mut net, 3);
        deafen(&mut net, 3);
        net.run(net.settings.down_timeout + Duration::from_secs(1));
        for node in 0..3 {
            assert_eq!(net.status(node, "n3"), Some(Status::Down), "{profile}, at n{node}");
        }
    }
}

/// Returns the members that others than this node accused since reports were last forgotten, and who did.
fn accused_by_others(net: &Net, returned: usize) -> Vec<(String, String)> {
    let name = id(&format!("n{returned}"));
    let is_accusation = |kind: ChangeKind| matches!(kind, ChangeKind::Suspected | ChangeKind::DetectedDown(_));
    let of = |node: &super::net::Node| {
        let accused = node.changes.iter().map(|(_, change)| change).filter(|change| is_accusation(change.kind));
        let well = accused.filter(|change| change.record.id != name);
        well.map(|change| (node.core.me().id.to_string(), change.record.id.to_string())).collect::<Vec<_>>()
    };
    net.running().filter(|node| node.core.me().id != name).flat_map(of).collect()
}

/// Blocks all datagrams between two halves of a cluster, cuts off one node for so many seconds, and lets it return.
fn returns_between_halves(seed: u64, nodes: usize, away: u64) {
    let mut net = Net::new(Profile::Lan);
    net.shuffle_losses(seed);
    net.lay_wires();
    for i in 0..nodes {
        net.add(&format!("n{i}"), i, &[0]);
    }
    net.run(Duration::from_secs(10));
    net.assert_all_up();
    for (one, other) in (0..nodes / 2).flat_map(|one| (nodes / 2..nodes).map(move |other| (one, other))) {
        net.block_datagrams(one, other, true);
        net.block_datagrams(other, one, true);
    }
    net.run(Duration::from_secs(10));
    assert_eq!(accused_by_others(&net, nodes), [], "the halves are linked");
    let returned = nodes / 4;
    for other in (0..nodes).filter(|other| *other != returned) {
        net.cut(returned, other, true);
    }
    net.run(Duration::from_secs(away));
    assert_eq!(net.status(0, &format!("n{returned}")), Some(Status::Down));
    heal(&mut net, returned);
    net.forget_reports();
    net.run(Duration::from_secs(10));
    net.run_until(Duration::from_secs(30), "all agree again", Net::all_agree);
    let accused = accused_by_others(&net, returned);
    assert!(accused.is_empty(), "seed {seed}, {nodes} nodes, {away} s: {}: {accused:?}", accused.len());
}

// A suspicion that this node came to alone is checked by its co-observers' word before it is told; those that no datagram
// reaches are asked by bootstrap links.
#[test]
fn who_returns_to_a_cluster_whose_halves_pass_no_datagrams_to_each_other_makes_nobody_suspect_anybody() {
    for (seed, nodes, away) in [(1, 40, 13), (2, 40, 30), (3, 40, 13), (4, 24, 13), (5, 12, 13)] {
        returns_between_halves(seed, nodes, away);
    }
}

#[test]
fn who_returns_tells_more_members_than_there_may_be_bootstrap_links_before_it_tells_anything() {
    returns_between_halves(7, 200, 30);
}

#[test]
fn a_crash_that_was_seen_is_told_to_a_joiner_although_nobody_else_is_left_to_be_heard() {
    let mut net = Net::linked(Profile::Local, 2);
    net.cut(0, 1, true);
    net.run(net.settings.suspect_timeout * 3 / 4);
    net.cut(0, 1, false);
    net.kill(1);
    net.run_until(ms(400), "known by the link", |net| net.status(0, "n1") == Some(Status::Down));
    let joiner = net.add("late", 5, &[0]);
    net.run_until(ms(400), "up", |net| net.nodes[joiner].core.is_up());
    assert_eq!(net.status(joiner, "n1"), Some(Status::Down));
}
