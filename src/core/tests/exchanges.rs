//! Several addresses change at one moment: pairs, threes, whole clusters, exchanges of addresses, newcomers at an
//! address that was just left, and moves where datagrams do not pass.

use std::time::Duration;

use rand::SeedableRng;

use super::hostile::{packet, send};
use super::leadership;
use super::liars::{ELSEWHERE, Liar, about, old_cluster, update};
use super::net::{Net, address, id, ms};
use crate::core::doors::{Command, Contacted, Reply};
use crate::core::member::{ChangeKind, Record, Run, Status};
use crate::core::packet::Prover;
use crate::core::settings::Profile;
use crate::core::wire::{Message, Nonce, Packet};

/// Has the driver of a node bind another socket, and lose the old one.
fn moves(net: &mut Net, node: usize, host: usize) {
    net.nodes[node].address = address(host);
    net.command(node, Command::SetAddress { ticket: 1, address: address(host) });
}

/// Has these nodes move, one so long after the other.
fn move_all(net: &mut Net, moved: &[(usize, usize)], gap: Duration) {
    for (node, host) in moved {
        moves(net, *node, *host);
        net.run(gap);
    }
}

/// Has these nodes take each other's addresses, each that of the next one.
fn exchange(net: &mut Net, nodes: &[usize]) {
    let addresses: Vec<_> = nodes.iter().map(|node| net.nodes[*node].address).collect();
    for (nth, node) in nodes.iter().enumerate() {
        net.nodes[*node].address = addresses[(nth + 1) % addresses.len()];
    }
    for node in nodes {
        let address = net.nodes[*node].address;
        net.command(*node, Command::SetAddress { ticket: 1, address });
    }
}

/// Returns the pairs of running nodes of which the first does not hold the second as Up where it is.
fn apart(net: &Net) -> Vec<(String, String)> {
    let pairs = net.running().flat_map(|observer| net.running().map(move |other| (observer, other)));
    let is_wrong = |(observer, other): &(&super::net::Node, &super::net::Node)| {
        let held = observer.core.record(&other.core.me().id);
        held.is_none_or(|held| (held.address, held.status) != (other.address, Status::Up))
    };
    let named = |(observer, other): (&super::net::Node, &super::net::Node)| {
        (observer.core.me().id.to_string(), other.core.me().id.to_string())
    };
    pairs.filter(is_wrong).map(named).collect()
}

/// Checks that everybody holds everybody as Up where it is, in the time that is promised, and that this lasts.
#[track_caller]
fn assert_converges(net: &mut Net, case: &str) -> Duration {
    let within = net.settings.retry_interval * 2 + Duration::from_secs(2);
    let (start, until) = (net.now, net.now + within);
    while !apart(net).is_empty() {
        assert!(net.now < until, "{case}: apart after {within:?}: {:?}\n{}", apart(net), net.describe());
        net.run(ms(10));
    }
    let took = net.now.since(start);
    net.run(net.settings.down_timeout * 2);
    assert_eq!(apart(net), [], "{case}: it does not last");
    took
}

#[track_caller]
fn assert_nobody_was_gone(net: &Net, case: &str) {
    for node in &net.nodes {
        let is_gone =
            |kind: ChangeKind| matches!(kind, ChangeKind::DetectedDown(_) | ChangeKind::Left(_) | ChangeKind::Removed);
        let gone: Vec<_> = node.changes.iter().filter(|(_, change)| is_gone(change.kind)).collect();
        assert!(gone.is_empty(), "{case}: at {}: {gone:?}", node.core.me().id);
    }
}

const PROFILES: [Profile; 3] = [Profile::Local, Profile::Lan, Profile::Default];

/// Returns these numbers of nodes, of which a slow profile gets the small ones: it differs by its pace alone.
fn of_these<T: Copy>(profile: Profile, all: &[(usize, T)]) -> Vec<(usize, T)> {
    all.iter().copied().filter(|(n, _)| profile == Profile::Local || *n <= 6).collect()
}

#[test]
fn two_members_that_move_at_one_moment_find_each_other() {
    for profile in PROFILES {
        for (n, gaps) in
            of_these(profile, &[(3, &[0, 200][..]), (4, &[50]), (6, &[0, 50, 100, 200, 300]), (24, &[100])])
        {
            for gap in gaps.iter().copied() {
                let case = format!("{profile}, {n}, {gap} ms apart");
                let mut net = Net::cluster(profile, n);
                net.run(net.settings.heartbeat_interval * 3);
                net.forget_reports();
                move_all(&mut net, &[(n - 2, 70), (n - 1, 71)], ms(gap));
                assert_converges(&mut net, &case);
                assert_nobody_was_gone(&net, &case);
            }
        }
    }
}

#[test]
fn two_members_that_move_at_one_moment_find_each_other_where_packets_are_lost() {
    for seed in 0..8 {
        for gap in [0, 20, 150] {
            let mut net = Net::cluster(Profile::Local, 6);
            net.run(Duration::from_secs(4));
            net.shuffle_losses(seed);
            (net.drop_one_in, net.jitter) = (8, ms(10));
            move_all(&mut net, &[(4, 70), (5, 71)], ms(gap));
            assert_converges(&mut net, &format!("seed {seed}, {gap} ms apart"));
        }
    }
}

#[test]
fn a_cluster_that_is_renumbered_stays_one() {
    for profile in PROFILES {
        for (n, moved) in of_these(profile, &[(4, 3), (6, 3), (6, 5), (12, 11), (24, 16)]) {
            for gap in [0, 100] {
                let case = format!("{profile}, {moved} of {n}, {gap} ms apart");
                let mut net = Net::cluster(profile, n);
                net.run(net.settings.heartbeat_interval * 3);
                let moved: Vec<_> = (n - moved..n).map(|node| (node, 70 + node)).collect();
                move_all(&mut net, &moved, ms(gap));
                assert_converges(&mut net, &case);
            }
        }
    }
}

#[test]
fn members_that_exchange_their_addresses_find_each_other() {
    for profile in PROFILES {
        for (n, count) in of_these(profile, &[(3, 2), (5, 2), (6, 3), (7, 4), (24, 4)]) {
            let (nodes, case) = (n - count..n, format!("{profile}, {count} of {n}"));
            let mut net = Net::cluster(profile, n);
            net.run(net.settings.heartbeat_interval * 3);
            net.forget_reports();
            exchange(&mut net, &nodes.collect::<Vec<_>>());
            assert_converges(&mut net, &case);
            assert_nobody_was_gone(&net, &case);
        }
    }
}

#[test]
fn members_that_exchange_their_addresses_find_each_other_where_packets_are_lost() {
    for seed in 0..8 {
        for nodes in [vec![4, 5], vec![3, 4, 5]] {
            let mut net = Net::cluster(Profile::Local, 6);
            net.run(Duration::from_secs(4));
            net.shuffle_losses(seed);
            (net.drop_one_in, net.jitter) = (8, ms(10));
            exchange(&mut net, &nodes);
            assert_converges(&mut net, &format!("seed {seed}, {nodes:?}"));
        }
    }
}

#[test]
fn a_newcomer_at_an_address_that_was_just_left_finds_who_left_it() {
    for profile in PROFILES {
        for (n, moved) in of_these(profile, &[(2, 1), (3, 2), (6, 4), (6, 1), (24, 9)]) {
            for delay in if n == 6 { &[0, 2, 20, 50, 100, 500][..] } else { &[2, 100] } {
                let case = format!("{profile}, {moved} of {n}, {delay} ms after");
                let mut net = Net::cluster(profile, n);
                net.run(net.settings.heartbeat_interval * 3);
                net.forget_reports();
                moves(&mut net, moved, 70);
                net.run(ms(*delay));
                net.add("late", moved, &[0]);
                assert_converges(&mut net, &case);
                assert_nobody_was_gone(&net, &case);
            }
        }
    }
}

#[test]
fn a_newcomer_that_takes_the_address_before_its_tenant_notices_finds_it() {
    for profile in PROFILES {
        for (n, moved) in of_these(profile, &[(2, 1), (3, 2), (6, 4), (6, 1), (24, 9)]) {
            for notices_after in if n == 6 { &[2, 10, 100, 500, 1_500][..] } else { &[10, 500] } {
                let case = format!("{profile}, {moved} of {n}, {notices_after} ms before");
                let mut net = Net::cluster(profile, n);
                net.run(net.settings.heartbeat_interval * 3);
                net.nodes[moved].address = address(70);
                net.add("late", moved, &[0]);
                net.run(ms(*notices_after));
                moves(&mut net, moved, 70);
                assert_converges(&mut net, &case);
            }
        }
    }
}

#[test]
fn members_that_notice_late_that_their_addresses_changed_find_each_other() {
    for (first, second) in [(0, 0), (50, 120), (300, 10), (900, 400)] {
        for exchanged in [false, true] {
            let mut net = Net::cluster(Profile::Local, 6);
            net.run(Duration::from_secs(4));
            let hosts = if exchanged { [5, 4] } else { [70, 71] };
            (net.nodes[4].address, net.nodes[5].address) = (address(hosts[0]), address(hosts[1]));
            let mut noticed = [(first, 4, hosts[0]), (second, 5, hosts[1])];
            noticed.sort_unstable();
            net.run(ms(noticed[0].0));
            moves(&mut net, noticed[0].1, noticed[0].2);
            net.run(ms(noticed[1].0 - noticed[0].0));
            moves(&mut net, noticed[1].1, noticed[1].2);
            assert_converges(&mut net, &format!("after {first} and {second} ms, exchanged: {exchanged}"));
        }
    }
}

#[test]
fn a_newcomer_that_was_told_the_old_address_of_a_member_finds_it() {
    for profile in PROFILES {
        for (n, delay) in [(3, 0), (6, 0), (6, 2), (6, 50)] {
            let mut net = Net::cluster(profile, n);
            net.run(net.settings.heartbeat_interval * 3);
            net.add("late", 90, &[0]);
            net.run(ms(delay));
            moves(&mut net, n - 1, 70);
            assert_converges(&mut net, &format!("{profile}, {n}, {delay} ms before"));
        }
    }
}

#[test]
fn an_observer_without_a_part_in_the_proof_believes_two_elders_and_not_one() {
    for (elders, is_believed) in [(4, true), (3, true), (2, false)] {
        // Nodes 0 to elders − 1 know where n1 is; the last one has lost what it gave to n1.
        let n = elders + 1;
        let last = n - 1;
        let mut net = old_cluster(Profile::Local, n);
        net.nodes[last].core.prover = Prover::new(&mut rand_chacha::ChaCha8Rng::seed_from_u64(0x5eed));
        moves(&mut net, 1, 70);
        let home = net.nodes[last].core.record(&id("n1")).map(|held| held.address);
        net.run(net.settings.suspect_timeout / 2);
        assert_eq!(net.nodes[last].core.record(&id("n1")).map(|held| held.address), home, "{n}: too early");
        net.run(net.settings.suspect_timeout + net.settings.heartbeat_interval * 2);
        let held = net.nodes[last].core.record(&id("n1")).expect("listed").address;
        assert_eq!(held == address(70), is_believed, "{n}: {held}");
        assert_converges(&mut net, &format!("{n}"));
    }
}

#[test]
fn three_voters_of_which_two_moved_and_the_third_died_have_a_leader() {
    for exchanged in [false, true] {
        let mut net = leadership::cluster(3, 3);
        net.run(Duration::from_secs(5));
        if exchanged {
            exchange(&mut net, &[1, 2]);
        } else {
            move_all(&mut net, &[(1, 70), (2, 71)], Duration::ZERO);
        }
        assert_converges(&mut net, "three voters");
        net.kill(0);
        net.run(Duration::from_secs(8));
        leadership::leader(&net);
    }
}

#[test]
fn two_nodes_that_moved_and_know_nobody_else_meet_when_one_is_told_where_the_other_is() {
    for profile in PROFILES {
        for patience in [ms(0), ms(200)] {
            let mut net = Net::cluster(profile, 2);
            net.run(net.settings.heartbeat_interval * 3);
            move_all(&mut net, &[(0, 70), (1, 71)], Duration::ZERO);
            net.run(patience);
            net.nodes[1].replies.clear();
            net.command(1, Command::Join { ticket: 2, addresses: vec![address(70)] });
            net.run_until(Duration::from_secs(5), "answered", |net| !net.nodes[1].replies.is_empty());
            let answered = Reply::Joined(vec![(address(70), Contacted::Answered { id: id("n0") })]);
            assert_eq!(net.nodes[1].replies, [answered]);
            assert_converges(&mut net, &format!("{profile}"));
        }
    }
}

#[test]
fn a_member_that_moves_where_datagrams_do_not_pass_is_found_over_tcp() {
    for profile in [Profile::Local, Profile::Lan] {
        for (n, moved) in [(3, 2), (7, 4), (7, 0)] {
            let mut net = Net::linked(profile, n);
            net.run(net.settings.down_timeout);
            net.block_all_datagrams(true);
            net.run(net.settings.down_timeout * 2);
            assert_eq!(apart(&net), [], "before");
            net.close_links_of(moved);
            moves(&mut net, moved, 70);
            let within = net.settings.down_timeout + net.settings.retry_interval * 8;
            let (case, until) = (format!("{profile}, {moved} of {n}"), net.now + within);
            while !apart(&net).is_empty() {
                assert!(net.now < until, "{case}: {:?}\n{}", apart(&net), net.describe());
                net.run(ms(50));
            }
            net.run(net.settings.down_timeout * 2);
            assert_eq!(apart(&net), [], "{case}: it does not last");
        }
    }
}

// Safety.

/// Somebody at another address who bears the run of a member that moved away, and answers every question as it.
struct Impostor {
    record: Record,
    sequence: u64,
    /// The proofs that others sent to the impostor.
    shown: Vec<(Run, Nonce)>,
}

impl Impostor {
    fn answers(&mut self, net: &mut Net) {
        for (to, bytes) in std::mem::take(&mut net.undelivered) {
            let Ok(came) = Packet::decode(&bytes) else { continue };
            let (run, from_there) = (came.header.run, to == address(ELSEWHERE));
            for message in came.messages.into_iter().filter(|_| from_there) {
                let answer = match message {
                    Message::Reminder { proof } => {
                        self.shown.push((run, proof));
                        continue;
                    }
                    Message::WhoAreYou { nonce, .. } => vec![
                        Message::WhoAreYou { nonce: Nonce(5), echo: Some(nonce) },
                        Message::IAm { nonce, record: self.record.clone() },
                    ],
                    Message::Probe { nonce, .. } => vec![Message::Reply, Message::Ack { nonce }],
                    _ => continue,
                };
                self.says(net, self.record.run, &answer);
            }
        }
    }

    fn says(&mut self, net: &mut Net, run: Run, messages: &[Message]) {
        for to in 0..net.nodes.len() {
            self.sequence += 1;
            send(net, to, ELSEWHERE, &packet(run, self.sequence, messages));
        }
    }
}

#[test]
fn what_a_member_that_moved_shows_to_an_impostor_moves_nobody() {
    for n in [3, 6] {
        let mut net = old_cluster(Profile::Local, n);
        let newcomer = net.add("liar", 90, &[0]);
        net.run_until(ms(3_000), "the liar is in", Net::all_agree);
        // n1 moves, and n0 does not learn it yet; somebody elsewhere says that it is n0.
        let incarnation = net.nodes[0].core.me().incarnation + 1;
        let lie = Record { address: address(ELSEWHERE), ..about(&net, 0, incarnation, Status::Up) };
        let mut impostor = Impostor { record: lie.clone(), sequence: 3_000, shown: Vec::new() };
        net.cut(0, 1, true);
        net.undelivered.clear();
        moves(&mut net, 1, 70);
        let (liar, victim) = (Liar::new(newcomer), net.nodes[1].core.me().run);
        for _ in 0..20 {
            liar.says(&mut net, 1, &[update(lie.clone())]);
            net.run(ms(20));
            impostor.answers(&mut net);
            // It shows n0 the proofs that it was shown itself, under the name of n1.
            let there = Record { address: address(ELSEWHERE), ..Record::clone(net.nodes[1].core.me()) };
            let there = Record { incarnation: there.incarnation + 1, ..there };
            for (_, proof) in impostor.shown.clone() {
                let question = net.nodes[0].core.prover.nonce(address(ELSEWHERE), net.now);
                let claim = [
                    Message::Reply,
                    Message::Reminder { proof },
                    Message::IAm { nonce: question, record: there.clone() },
                ];
                impostor.says(&mut net, victim, &claim);
            }
            for node in net.running() {
                for name in ["n0", "n1"] {
                    let at = node.core.record(&id(name)).expect("listed").address;
                    assert_ne!(at, address(ELSEWHERE), "{n}: {name} at {}", node.core.me().id);
                }
            }
        }
        assert!(!impostor.shown.is_empty(), "{n}: it was shown something");
        net.cut(0, 1, false);
        assert_converges(&mut net, &format!("{n}"));
    }
}

#[test]
fn a_member_that_is_heard_is_not_moved_by_all_elders_together() {
    let mut net = old_cluster(Profile::Local, 6);
    for _ in 0..40 {
        let incarnation = net.nodes[1].core.me().incarnation + 2;
        let lie = update(Record { address: address(ELSEWHERE), ..about(&net, 1, incarnation, Status::Up) });
        for liar in [0, 2, 3, 4] {
            Liar::new(liar).says(&mut net, 5, std::slice::from_ref(&lie));
            assert_eq!(net.nodes[5].core.record(&id("n1")).map(|held| held.address), Some(address(1)));
        }
        net.run(ms(100));
    }
    assert_converges(&mut net, "the lies end");
}

#[test]
fn the_owner_of_a_run_that_two_elders_moved_is_back_as_soon_as_it_answers() {
    let mut net = old_cluster(Profile::Local, 6);
    net.cut(5, 1, true);
    let until = net.now + net.settings.suspect_timeout * 4;
    let mut was_moved = false;
    while net.now < until {
        let incarnation = net.nodes[1].core.me().incarnation + 2;
        let lie = update(Record { address: address(ELSEWHERE), ..about(&net, 1, incarnation, Status::Up) });
        for liar in [2, 3] {
            Liar::new(liar).says(&mut net, 5, std::slice::from_ref(&lie));
        }
        was_moved |= net.nodes[5].core.record(&id("n1")).map(|held| held.address) == Some(address(ELSEWHERE));
        net.run(ms(100));
    }
    assert!(was_moved, "two elders are believed while it is silent");
    net.cut(5, 1, false);
    assert_converges(&mut net, "it answers");
}

#[test]
fn the_owner_of_a_run_that_two_elders_moved_is_asked_at_its_home_and_needs_no_keepsake() {
    let mut net = old_cluster(Profile::Local, 4);
    // n0 has lost what it gave to n1, and hears nobody but two that lie.
    net.nodes[0].core.prover = Prover::new(&mut rand_chacha::ChaCha8Rng::seed_from_u64(0x5eed));
    for other in 1..4 {
        net.cut(0, other, true);
    }
    let held = |net: &Net| net.nodes[0].core.record(&id("n1")).map(|held| held.address);
    let until = net.now + net.settings.suspect_timeout * 2;
    while net.now < until {
        let incarnation = net.nodes[1].core.me().incarnation + 2;
        let lie = update(Record { address: address(ELSEWHERE), ..about(&net, 1, incarnation, Status::Up) });
        for liar in [2, 3] {
            Liar::new(liar).says(&mut net, 0, std::slice::from_ref(&lie));
        }
        net.run(ms(100));
    }
    assert_eq!(held(&net), Some(address(ELSEWHERE)), "two elders are believed while it is silent");
    net.cut(0, 1, false);
    // Sooner than it would be Down where nobody is.
    net.run_until(net.settings.retry_interval + ms(300), "it answered", |net| held(net) == Some(address(1)));
}
