//! Crowds of members that do not exist, named by one that does: they hide no death, settle nowhere, and cost little.

use std::net::SocketAddr;
use std::time::Duration;

use super::liars::{Liar, old_cluster, update};
use super::net::{Net, ms};
use crate::core::limits::{CROWD, MAX_NEWCOMERS_PASSED, SETTLE};
use crate::core::member::tests::record;
use crate::core::member::{ChangeKind, Run, Status};
use crate::core::settings::Profile;

/// The liar of a test joins here.
const LIAR_HOST: usize = 90;
/// The number of invented members in one packet.
const PER_PACKET: usize = 14;

/// Returns the address of an invented member at a host of its own.
fn nowhere(nth: usize) -> SocketAddr {
    SocketAddr::from(([127, 9, (nth / 250) as u8, (nth % 250) as u8 + 1], 7117))
}

/// Adds a liar that is seen by everybody; it names so many members that do not exist, to one node after the other.
fn invent(net: &mut Net, count: usize, at: impl Fn(usize) -> SocketAddr) {
    let honest = net.nodes.len();
    let node = net.add("liar", LIAR_HOST, &[0]);
    net.run_until(ms(3_000), "the liar is in", Net::all_agree);
    let liar = Liar::new(node);
    let timing = net.settings.timing().expect("good settings");
    let names: Vec<usize> = (0..count).collect();
    for (turn, names) in names.chunks(PER_PACKET).enumerate() {
        let invented = names.iter().map(|nth| {
            let mut record = record(&format!("z{nth:05}"), 1_000_000, Status::Up);
            (record.run, record.address, record.timing) = (Run(0xe_0000 + *nth as u64), at(*nth), timing);
            update(record)
        });
        liar.says(net, turn % honest, &invented.collect::<Vec<_>>());
        net.run(ms(3));
    }
}

/// Returns the number of invented members that a node holds as live, and the number of those that settled there.
fn invented(net: &Net, node: usize) -> (usize, usize) {
    let view = &net.nodes[node].core.view;
    let live =
        view.live().iter().map(|slot| view.entry(*slot)).filter(|entry| entry.record.id.as_str().starts_with('z'));
    live.fold((0, 0), |(live, settled), entry| (live + 1, settled + usize::from(entry.peer.is_settled())))
}

fn assert_seen(net: &mut Net, victim: usize, survivors: usize, within: [Duration; 2]) {
    let name = format!("n{victim}");
    let hold = |net: &Net, statuses: &[Status]| {
        (0..survivors).all(|node| net.status(node, &name).is_some_and(|status| statuses.contains(&status)))
    };
    net.kill(victim);
    net.run_until(within[0], "suspected", |net| hold(net, &[Status::Suspect, Status::Down]));
    net.run_until(within[1] - within[0], "found dead", |net| hold(net, &[Status::Down]));
}

#[test]
fn a_crowd_hides_no_silence_and_makes_no_node_work_for_long_in_one_go() {
    let mut net = old_cluster(Profile::Lan, 5);
    net.run(ms(12_000));
    net.nodes.iter_mut().for_each(|node| node.busiest = 0);
    invent(&mut net, 1_000, nowhere);
    net.run(ms(8_000));
    assert_seen(&mut net, 4, 4, [ms(6_500), ms(11_000)]);
    for node in 0..4 {
        let busiest = net.nodes[node].busiest;
        assert!(busiest <= 2 * MAX_NEWCOMERS_PASSED, "n{node} sent {busiest} packets in one go");
        let passed = net.nodes[node].core.neighbours().count();
        assert!(passed <= MAX_NEWCOMERS_PASSED + 64, "n{node} observes {passed}");
    }
}

#[test]
fn no_witnesses_are_asked_about_a_crowd() {
    let mut net = old_cluster(Profile::Lan, 5);
    net.run(ms(12_000));
    invent(&mut net, 600, nowhere);
    net.sent = Some(Vec::new());
    net.run(ms(20_000));
    let asks = |bytes: &[u8]| {
        let packet = crate::core::wire::Packet::decode(bytes).expect("ours");
        let of_invented = |run: Run| (0xe_0000..0xf_0000).contains(&run.0);
        let messages = packet.messages.iter();
        messages.filter(|m| matches!(m, crate::core::wire::Message::LastHeard { run } if of_invented(*run))).count()
    };
    let asked: usize = net.sent.iter().flatten().map(|(_, _, bytes)| asks(bytes)).sum();
    assert!(asked <= 50, "{asked} questions");
}

/// Makes every member that a node holds as live old enough to settle, and has the node look for those.
fn settle_now(net: &mut Net, node: usize) {
    let core = &mut net.nodes[node].core;
    let live: Vec<_> = core.view.live().to_vec();
    for slot in live {
        core.view.peer_mut(slot).live_since = 0u32.wrapping_sub(1_000);
    }
    core.settle_members();
    net.drain(node);
}

#[test]
fn nobody_of_a_crowd_settles_who_was_never_reached_and_those_who_were_do() {
    let honest = 20;
    let mut net = old_cluster(Profile::Wan, honest);
    net.run(ms(62_000));
    invent(&mut net, 2 * CROWD, nowhere);
    let newcomers: Vec<usize> = (30..40).map(|host| net.add(&format!("n{host}"), host, &[0])).collect();
    // The first of them are doubted, and none is found out.
    net.run(ms(31_000));
    let settled_at = |net: &Net, node: usize, whom: usize| {
        let view = &net.nodes[node].core.view;
        let slot = view.slot_of(net.nodes[whom].core.me().id.as_str()).expect("listed");
        view.entry(slot).peer.is_settled()
    };
    for _ in 0..150 {
        (0..honest).for_each(|node| settle_now(&mut net, node));
        net.run(ms(100));
    }
    for node in 0..honest {
        let (live, settled) = invented(&net, node);
        assert!(live > CROWD, "n{node} holds {live}: there is no crowd");
        assert_eq!(settled, 0, "at n{node}, of {live}");
        let missing = newcomers.iter().filter(|whom| !settled_at(&net, node, **whom)).count();
        assert_eq!(missing, 0, "of the true newcomers at n{node}");
    }
}

/// The cost of a crowd that cannot be found out at once: three hundred, as a newcomer with a few packets can name.
#[test]
fn three_hundred_invented_members_observe_nobody_accuse_nobody_and_are_given_up() {
    for profile in [Profile::Local, Profile::Lan, Profile::Default] {
        let mut net = old_cluster(profile, 12);
        net.forget_reports();
        invent(&mut net, 300, nowhere);
        net.run(net.settings.down_timeout + net.settings.suspect_timeout * 2);
        for node in 0..12 {
            assert_eq!(invented(&net, node), (0, 0), "{profile}: live and settled at n{node}");
            let honest = |name: &str| name.starts_with('n') || name == "liar";
            let accused = net.nodes[node].changes.iter().filter(|(_, change)| {
                honest(change.record.id.as_str()) && !matches!(change.kind, ChangeKind::Joined | ChangeKind::Joining)
            });
            assert_eq!(accused.count(), 0, "{profile}, n{node}: {}", net.describe());
            assert_eq!(net.nodes[node].core.health_score(), 0, "{profile}, n{node}");
        }
    }
}

#[test]
fn the_silent_are_found_out_in_time_whatever_crowd_is_invented() {
    for profile in [Profile::Local, Profile::Lan, Profile::Default] {
        for count in [300, 1_000, 5_000] {
            let mut net = old_cluster(profile, 6);
            invent(&mut net, count, nowhere);
            // Some of them are doubted, and most are not found out yet.
            net.run(net.settings.suspect_timeout * 11 / 10);
            let (suspected, down) = (net.settings.suspect_timeout, net.settings.down_timeout);
            assert_seen(&mut net, 5, 5, [suspected + ms(500), down + ms(1_000)]);
        }
    }
}

#[test]
fn a_crash_is_seen_within_a_second_whatever_crowd_is_invented() {
    for profile in [Profile::Local, Profile::Lan, Profile::Default] {
        for count in [300, 1_000, 5_000] {
            let mut net = Net::linked(profile, 6);
            net.run(SETTLE);
            invent(&mut net, count, nowhere);
            net.run(net.settings.suspect_timeout * 11 / 10);
            assert_seen(&mut net, 5, 5, [ms(1_000), ms(1_000)]);
        }
    }
}
