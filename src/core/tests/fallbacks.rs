//! Networks in which datagrams do not pass and links do: nobody is accused, news and elections go on, newcomers join,
//! and operators are told.

use std::time::Duration;

use super::net::*;
use headcount_core::limits::BOOTSTRAP_ONE_IN;
use headcount_core::*;

const SECOND: Duration = Duration::from_secs(1);

fn accusations(net: &Net) -> usize {
    let is_accusation = |change: &Change| matches!(change.kind, ChangeKind::DetectedDown(_) | ChangeKind::Suspected);
    net.running().flat_map(|node| &node.changes).filter(|(_, change)| is_accusation(change)).count()
}

/// Returns the number of links of each node that runs.
fn links(net: &Net) -> Vec<usize> {
    net.running().map(|node| node.core.open_links()).collect()
}

fn pairs(n: usize) -> Vec<(usize, usize)> {
    (0..n).flat_map(|one| (one + 1..n).map(move |other| (one, other))).collect()
}

fn has_said(net: &Net, node: usize, notice: &Notice) -> bool {
    net.nodes[node].notices.contains(notice)
}

/// Returns the leader, if everybody who runs names the same one.
fn leader(net: &Net) -> Option<NodeId> {
    let mut seen = net.running().map(|node| node.core.leadership().leader);
    let first = seen.next()??;
    seen.all(|one| one.as_ref() == Some(&first)).then_some(first)
}

#[test]
fn with_all_datagrams_blocked_nobody_is_accused_and_news_travels() {
    for profile in Profile::ALL {
        let mut net = Net::linked(profile, 5);
        net.block_all_datagrams(true);
        net.run((net.settings.suspect_timeout * 2).max(net.settings.heartbeat_interval * 3));
        for node in 0..5 {
            assert_eq!(net.nodes[node].core.degraded_links(), 4, "{profile}");
            assert!(net.nodes[node].notices.iter().any(|said| matches!(said, Notice::DatagramsBlocked { .. })));
        }
        let tags = Tags::new([("is".to_owned(), "new".to_owned())].into()).expect("good tags");
        net.command(1, Command::SetTags { ticket: 1, tags: tags.clone() });
        net.run(SECOND);
        for node in &net.nodes {
            assert_eq!(node.core.record(&id("n1")).expect("a member").tags, tags, "{profile}");
        }
        net.run(SECOND * 60);
        assert_eq!(accusations(&net), 0, "{profile}: {}", net.describe());
        net.block_all_datagrams(false);
        net.run((net.settings.suspect_timeout * 3).max(net.settings.heartbeat_interval * 4) + SECOND);
        let degraded: Vec<_> = net.nodes.iter().map(|node| node.core.degraded_links()).collect();
        assert_eq!(degraded, [0; 5], "{profile}");
        assert!(net.nodes[0].notices.iter().any(|said| matches!(said, Notice::DatagramsPass { .. })));
        // Links are silent again.
        let frames: u64 = net.nodes.iter().map(|node| node.core.counters().frames_sent).sum();
        net.run(SECOND * 20);
        assert_eq!(net.nodes.iter().map(|node| node.core.counters().frames_sent).sum::<u64>(), frames, "{profile}");
    }
}

#[test]
fn with_all_datagrams_blocked_a_crash_is_known_within_a_second() {
    for n in [2, 3, 10] {
        let mut net = Net::linked(Profile::Default, n);
        net.block_all_datagrams(true);
        net.run(SECOND * 30);
        assert_eq!(accusations(&net), 0);
        net.kill(n - 1);
        net.run(SECOND);
        for observer in 0..n - 1 {
            assert_eq!(net.status(observer, &format!("n{}", n - 1)), Some(Status::Down), "{n}");
        }
    }
}

#[test]
fn with_all_datagrams_blocked_who_leaves_is_reported_as_having_left() {
    for n in [2, 5, 20] {
        let mut net = Net::linked(Profile::Default, n);
        net.block_all_datagrams(true);
        net.run(SECOND * 30);
        net.command(n - 1, Command::Leave);
        let leaver = format!("n{}", n - 1);
        net.run_until(SECOND, "left", |net| net.nodes[n - 1].stopped.is_some());
        net.run(ms(500));
        assert_eq!(net.nodes[n - 1].stopped, Some(StopReason::Left));
        let left = Some(Status::Left(LeaveReason::Graceful));
        for observer in 0..n - 1 {
            assert_eq!(net.status(observer, &leaver), left, "{n}: {}", net.describe());
        }
        assert_eq!(accusations(&net), 0, "{n}");
    }
}

#[test]
fn with_all_datagrams_blocked_who_is_removed_is_told() {
    for n in [3, 20] {
        let mut net = Net::linked(Profile::Default, n);
        net.block_all_datagrams(true);
        net.run(SECOND * 80);
        net.command(0, Command::Remove { ticket: 1, id: id("n2"), force: true });
        net.run_until(SECOND * 10, "told", |net| net.nodes[2].stopped.is_some());
        assert_eq!(net.nodes[2].stopped, Some(StopReason::Removed));
    }
}

#[test]
fn datagrams_blocked_between_two_or_one_way_are_told_and_accuse_nobody() {
    for is_one_way in [false, true] {
        let mut net = Net::linked(Profile::Local, 4);
        net.block_datagrams(0, 1, true);
        net.block_datagrams(1, 0, !is_one_way);
        net.run(SECOND * 60);
        assert_eq!(accusations(&net), 0);
        for (node, other) in [(0, "n1"), (1, "n0")] {
            assert!(has_said(&net, node, &Notice::DatagramsBlocked { id: id(other) }), "{}", net.describe());
            assert_eq!(net.nodes[node].core.degraded_links(), 1);
            let told = net.nodes[node].notices.iter().filter(|said| matches!(said, Notice::DatagramsBlocked { .. }));
            assert_eq!(told.count(), 1, "once");
        }
        assert!(net.nodes[2..].iter().all(|node| node.core.degraded_links() == 0));
    }
}

#[test]
fn without_datagrams_newcomers_join_by_links() {
    for profile in Profile::ALL {
        for n in [2, 5] {
            let mut net = Net::linked(profile, n);
            net.block_all_datagrams(true);
            net.run(net.settings.suspect_timeout * 2);
            for host in n..n + 3 {
                net.add(&format!("n{host}"), host, &[0]);
            }
            net.run_until(SECOND * 5, "they are Up everywhere", Net::all_agree);
            net.run(SECOND * 60);
            net.assert_all_up();
            assert_eq!(accusations(&net), 0, "{profile} {n}: {}", net.describe());
            assert_eq!(links(&net), vec![n + 2; n + 3], "{profile} {n}: each has a link to all others");
            net.kill(0);
            net.run(SECOND * 60);
            let of_the_living = net.running().flat_map(|node| &node.changes).filter(|(_, change)| {
                change.record.id != *"n0" && matches!(change.kind, ChangeKind::DetectedDown(_) | ChangeKind::Suspected)
            });
            assert_eq!(of_the_living.count(), 0, "{profile} {n}: {}", net.describe());
        }
    }
}

#[test]
fn links_that_are_reset_where_no_datagram_passes_stand_again_and_accuse_nobody() {
    for (n, is_one_way) in [(2, false), (2, true), (5, false), (5, true)] {
        let mut net = Net::linked(Profile::Local, n);
        for (one, other) in pairs(n) {
            net.block_datagrams(one, other, true);
            net.block_datagrams(other, one, !is_one_way);
        }
        net.run(SECOND * 10);
        for (one, other) in pairs(n) {
            net.reset_links(one, other);
        }
        net.run(SECOND * 20);
        assert_eq!(accusations(&net), 0, "{n} {is_one_way}: {}", net.describe());
        assert_eq!(links(&net), vec![n - 1; n], "{n} {is_one_way}");
    }
}

#[test]
fn a_cluster_forms_without_any_datagram() {
    let mut net = Net::new(Profile::Local);
    net.lay_wires();
    net.block_all_datagrams(true);
    for host in 0..5 {
        net.add(&format!("n{host}"), host, &[0, 1]);
    }
    net.run(SECOND * 20);
    net.assert_all_up();
    assert_eq!(accusations(&net), 0);
}

#[test]
fn leaders_are_elected_and_stay_without_datagrams() {
    for voters in [3, 5] {
        let mut net = Net::new(Profile::Local);
        net.lay_wires();
        net.voters = (0..voters).map(|i| id(&format!("n{i}"))).collect();
        for i in 0..voters {
            net.add(&format!("n{i}"), i, &[0]);
        }
        net.run(SECOND * 15);
        let first = leader(&net).expect("a leader");
        net.block_all_datagrams(true);
        net.run(SECOND * 60);
        assert_eq!(leader(&net), Some(first.clone()), "it stays");
        let lost = net.nodes.iter().flat_map(|node| &node.leadership);
        assert_eq!(lost.filter(|(_, output)| matches!(output, Output::LeaderLost { .. })).count(), 0, "all the time");
        let at = net.nodes.iter().position(|node| node.core.me().id == first).expect("a node");
        net.kill(at);
        let took = net.run_until(SECOND * 10, "another leads", |net| leader(net).is_some_and(|leader| leader != first));
        assert!(took <= SECOND * 5, "{took:?}");
    }
}

#[test]
fn a_leader_stays_without_datagrams_among_voters_that_are_no_neighbours_and_slow() {
    let paces = [[Profile::Local, Profile::Lan], [Profile::Lan, Profile::Lan], [Profile::Local, Profile::Local]];
    for (pace, voters) in paces.into_iter().flat_map(|pace| [(pace, 3), (pace, 5)]) {
        let mut net = Net::new(Profile::Local);
        net.lay_wires();
        net.voters = (0..voters).map(|i| id(&format!("n{i}"))).collect();
        net.lease = pace[0].lease_timing();
        for i in 0..30 {
            net.settings = Settings { observers: 4, ..pace[i % 2].settings() };
            net.add(&format!("n{i}"), i, &[0]);
        }
        net.run(SECOND * 30);
        let first = leader(&net).expect("a leader");
        net.block_all_datagrams(true);
        net.run(SECOND * 40);
        let at = net.nodes.iter().position(|node| node.core.me().id == first).expect("a node");
        let is_loss = |output: &Output| matches!(output, Output::LeaderLost { .. });
        assert!(!net.nodes[at].leadership.iter().any(|(_, told)| is_loss(told)), "{pace:?}, {voters}");
    }
}

#[test]
fn islands_without_datagrams_find_each_other_by_links() {
    let mut net = Net::linked(Profile::Local, 4);
    net.block_all_datagrams(true);
    net.run(SECOND * 5);
    for (one, other) in [(0, 2), (0, 3), (1, 2), (1, 3)] {
        net.cut(one, other, true);
        net.reset_links(one, other);
    }
    net.run(SECOND * 30);
    assert_eq!(net.status(0, "n2"), Some(Status::Down));
    for (one, other) in [(0, 2), (0, 3), (1, 2), (1, 3)] {
        net.cut(one, other, false);
    }
    net.run(SECOND * 60);
    net.assert_all_up();
}

#[test]
fn each_of_two_missing_seeds_gets_a_bootstrap_link_in_its_turn() {
    for (nobody, late) in [(90, 91), (91, 90)] {
        let mut net = Net::linked(Profile::Local, 1);
        net.block_all_datagrams(true);
        net.nodes[0].seeds.extend([nobody, late].map(address));
        net.run(net.settings.retry_interval * 3);
        net.add("late", late, &[late]);
        net.run_until(net.settings.retry_interval * 6, "it founds", |net| net.nodes[1].core.is_up());
        let turns = 2 * BOOTSTRAP_ONE_IN as u32;
        net.run_until(net.settings.retry_interval * (turns + 1), "they meet by a link", Net::all_agree);
    }
}

#[test]
fn accepted_calls_are_bounded_and_the_oldest_gives_way_once_it_has_lasted() {
    use headcount_core::limits::{BOOTSTRAP_LIFE, MAX_BOOTSTRAP_LINKS};
    let mut net = Net::linked(Profile::Local, 2);
    let question = {
        let mut stranger = Net::new(Profile::Local);
        stranger.sent = Some(Vec::new());
        let nodes = [77, 78, 79].map(|host| stranger.add(&format!("s{host}"), host, &[0]));
        let sent = stranger.sent.take().unwrap_or_default();
        sent.into_iter().find(|(from, ..)| *from == stranger.nodes[nodes[2]].address).expect("a question").2
    };
    let from = |port: u16| std::net::SocketAddr::from(([10, 9, 9, 9], port));
    let link = |nth: u16| LinkId::Accepted(1_000 + u64::from(nth));
    let closed_by = |net: &mut Net, nth: u16| -> Vec<LinkId> {
        let event = LinkEvent::Frame { from: from(nth), bytes: &question };
        let (now, core) = (net.now, &mut net.nodes[0].core);
        core.handle(now, Input::Link { link: link(nth), event });
        let outputs = std::iter::from_fn(|| core.poll());
        outputs.filter_map(|output| if let Output::CloseLink { link } = output { Some(link) } else { None }).collect()
    };
    let most = MAX_BOOTSTRAP_LINKS as u16;
    for nth in 1..=most {
        assert_eq!(closed_by(&mut net, nth), []);
    }
    assert_eq!(closed_by(&mut net, most + 1), [link(most + 1)], "the others are amid their questions");
    net.run(BOOTSTRAP_LIFE / 4);
    assert_eq!(closed_by(&mut net, most + 2).len(), 1, "one has lasted");
    assert_eq!(net.nodes[0].core.bootstrap_links(), MAX_BOOTSTRAP_LINKS);
    net.run(BOOTSTRAP_LIFE + SECOND);
    assert_eq!(net.nodes[0].core.bootstrap_links(), 0, "they end by themselves");
}

fn is_told_of_blocked_datagrams(node: &Node) -> bool {
    node.notices.iter().any(|said| matches!(said, Notice::DatagramsBlocked { .. }))
}

#[test]
fn datagrams_that_come_late_are_not_called_blocked() {
    for late in [0, 60, 120, 180] {
        for seed in 0..3 {
            let mut net = Net::new(Profile::Local);
            net.lay_wires();
            net.shuffle_losses(seed);
            // A host with more to do than it can; what goes over connections is written at once.
            net.jitter = ms(late);
            for i in 0..12 {
                net.add(&format!("n{i}"), i, &[0]);
                net.run(ms(100));
            }
            net.run(SECOND * 30);
            for (i, node) in net.nodes.iter().enumerate() {
                assert!(!is_told_of_blocked_datagrams(node), "late by {late} ms, {seed}, n{i}: {:?}", node.notices);
            }
        }
    }
}

#[test]
fn whoever_stood_still_is_not_called_a_member_without_datagrams() {
    for (profile, paused) in [(Profile::Local, 800), (Profile::Local, 1_300), (Profile::Default, 9_000)] {
        for n in [2, 4, 12] {
            let mut net = Net::linked(profile, n);
            net.run(SECOND * 10);
            for round in 0..10 {
                net.pause(round % n, true);
                net.run(ms(paused));
                net.pause(round % n, false);
                net.run(net.settings.suspect_timeout / 10 * (round as u32 + 1));
            }
            for (i, node) in net.nodes.iter().enumerate() {
                assert!(!is_told_of_blocked_datagrams(node), "{profile}, {n}, {paused} ms, n{i}: {:?}", node.notices);
            }
        }
    }
}

#[test]
fn whoever_gets_no_processor_for_moments_is_not_called_a_member_without_datagrams() {
    for n in [4, 12] {
        let mut net = Net::linked(Profile::Local, n);
        for round in 0..400 {
            // Shorter than what a process calls a pause.
            let one = round % n;
            net.pause(one, true);
            net.run(ms(180));
            net.pause(one, false);
            net.run(ms(if round % 2 == 0 { 1 } else { 15 }));
        }
        for (i, node) in net.nodes.iter().enumerate() {
            assert!(!is_told_of_blocked_datagrams(node), "{n}, n{i}: {:?}", node.notices);
        }
    }
}

#[test]
fn datagrams_that_do_not_pass_are_told_in_time_by_both_ends() {
    for profile in Profile::ALL {
        for is_one_way in [false, true] {
            let mut net = Net::linked(profile, 4);
            net.run(SECOND * 30);
            net.block_datagrams(0, 1, true);
            net.block_datagrams(1, 0, !is_one_way);
            net.run((net.settings.suspect_timeout * 2).max(net.settings.heartbeat_interval * 3));
            for (node, other) in [(0, "n1"), (1, "n0")] {
                let is_told = has_said(&net, node, &Notice::DatagramsBlocked { id: id(other) });
                assert!(is_told, "{profile}, one way: {is_one_way}, n{node}: {}", net.describe());
            }
        }
    }
}
