//! Many silent at once: what is said about it, and what comes after.

use std::time::Duration;

use super::net::{Net, Partition, id, ms};
use super::speaker::{Speaker, about, update};
use headcount_core::{ChangeKind, Command, DetectionMethod, LeaveReason, Profile, Status, Tags};

const CUT_OFF: ChangeKind = ChangeKind::DetectedDown(DetectionMethod::NetworkPartition);
const DOWN: ChangeKind = ChangeKind::DetectedDown(DetectionMethod::HeartbeatTimeout);

fn cut(net: &mut Net, one: &[usize], is_cut: bool) {
    for a in one {
        for b in (0..net.nodes.len()).filter(|b| !one.contains(b)) {
            net.cut(*a, b, is_cut);
        }
    }
}

fn cluster(profile: Profile, n: usize) -> Net {
    let mut net = Net::cluster(profile, n);
    net.run(net.settings.suspect_timeout * 3);
    net.forget_reports();
    net
}

fn said(net: &Net, node: usize) -> Vec<Partition> {
    net.nodes[node].partitions.iter().map(|(_, said)| said.clone()).collect()
}

fn names(nodes: impl IntoIterator<Item = usize>) -> Vec<headcount_core::NodeId> {
    let mut names: Vec<_> = nodes.into_iter().map(|node| id(&format!("n{node}"))).collect();
    names.sort();
    names
}

fn suspected(unreachable: impl IntoIterator<Item = usize>, reachable: impl IntoIterator<Item = usize>) -> Partition {
    Partition { is_over: false, unreachable: names(unreachable), reachable: names(reachable) }
}

fn healed(unreachable: impl IntoIterator<Item = usize>, reachable: impl IntoIterator<Item = usize>) -> Partition {
    Partition { is_over: true, unreachable: names(unreachable), reachable: names(reachable) }
}

#[test]
fn both_sides_of_a_cut_say_so_before_anybody_is_down_and_say_when_it_is_over() {
    for profile in Profile::ALL {
        let mut net = cluster(profile, 7);
        cut(&mut net, &[0, 1, 2], true);
        net.run(net.settings.down_timeout + ms(500));
        for node in 0..7 {
            let (near, far) = if node < 3 { (0..3, 3..7) } else { (3..7, 0..3) };
            assert_eq!(said(&net, node), [suspected(far.clone(), near)], "{profile}, n{node}: once, and whole");
            assert_eq!(net.nodes[node].core.unreachable().count(), far.len());
            let first_down = net.nodes[node].changes.iter().find(|(_, change)| change.record.status == Status::Down);
            assert!(first_down.expect("down").0 >= net.nodes[node].partitions[0].0, "{profile}: said before");
            for other in far {
                let kinds = net.reported(node, &format!("n{other}"));
                assert_eq!(kinds, [ChangeKind::Suspected, CUT_OFF], "{profile}: n{other} at n{node}");
            }
        }
        net.run(Duration::from_secs(60));
        cut(&mut net, &[0, 1, 2], false);
        net.run_until(net.settings.retry_interval * 2 + ms(2_000), "agreed", Net::all_agree);
        net.run(ms(100));
        for node in 0..7 {
            assert_eq!(said(&net, node)[1..], [healed([], 0..7)], "{profile}, n{node}");
            assert_eq!(net.nodes[node].core.unreachable().count(), 0);
        }
    }
}

#[test]
fn a_cut_is_said_once_in_a_large_cluster_too() {
    let mut net = cluster(Profile::Default, 60);
    // More than the third that is enough: it is not told before all are silent.
    let far: Vec<usize> = (0..26).collect();
    cut(&mut net, &far, true);
    net.run(net.settings.down_timeout + Duration::from_secs(2));
    for node in 26..60 {
        assert_eq!(said(&net, node), [suspected(0..26, 26..60)], "n{node}");
        let deaths = net.nodes[node].changes.iter().filter(|(_, change)| change.record.status == Status::Down);
        let (count, cut_off) = deaths.fold((0, 0), |(all, cut_off), (_, change)| {
            (all + 1, cut_off + usize::from(change.method == Some(DetectionMethod::NetworkPartition)))
        });
        assert_eq!((count, cut_off), (26, 26), "n{node}");
    }
}

#[test]
fn when_a_cut_heals_nobody_suspects_or_buries_its_own_side_at_the_word_of_the_other() {
    let mut net = cluster(Profile::Local, 60);
    let left: Vec<usize> = (0..30).collect();
    cut(&mut net, &left, true);
    net.run(net.settings.down_timeout * 2);
    net.forget_reports();
    cut(&mut net, &left, false);
    net.run_until(net.settings.retry_interval * 2 + ms(2_000), "agreed", Net::all_agree);
    for (node, observer) in net.nodes.iter().enumerate() {
        let accused = |status| matches!(status, Status::Suspect | Status::Down);
        for (at, change) in observer.changes.iter().filter(|(_, change)| accused(change.record.status)) {
            let about: usize = change.record.id.as_str()[1..].parse().expect("a number");
            assert_ne!(about < 30, node < 30, "n{node} at {at:?}: {change:?}");
        }
    }
}

#[test]
fn reports_about_this_side_may_be_old_ones_for_a_moment_after_a_partition() {
    let mut net = cluster(Profile::Local, 6);
    cut(&mut net, &[0, 1, 2], true);
    net.run(net.settings.down_timeout * 2);
    cut(&mut net, &[0, 1, 2], false);
    net.run_until(net.settings.retry_interval * 4, "over", |net| {
        net.nodes[0].partitions.last().is_some_and(|(_, partition)| partition.is_over)
    });
    let near = net.nodes[1].core.me().run;
    assert!(net.nodes[0].core.is_spoken_of_from_afar(near, None));
    net.run(net.settings.suspect_timeout * 2);
    assert!(!net.nodes[0].core.is_spoken_of_from_afar(near, None));
}

#[test]
fn deaths_one_after_the_other_are_no_partition() {
    let mut net = cluster(Profile::Local, 6);
    for node in (3..6).rev() {
        net.kill(node);
        net.run(net.settings.suspect_timeout + net.settings.heartbeat_interval * 2);
    }
    net.run(net.settings.down_timeout);
    for node in 0..3 {
        assert!(said(&net, node).is_empty(), "{:?}", said(&net, node));
        assert_eq!(net.reported(node, "n4"), [ChangeKind::Suspected, DOWN]);
    }
}

#[test]
fn who_wakes_up_to_old_deaths_reports_none_of_them_as_a_partition() {
    let mut net = cluster(Profile::Local, 8);
    net.pause(7, true);
    for node in 3..7 {
        net.kill(node);
        net.run(Duration::from_secs(4));
    }
    net.pause(7, false);
    net.run(Duration::from_secs(10));
    assert_eq!(net.status(7, "n5"), Some(Status::Down));
    assert!(said(&net, 7).is_empty(), "{:?}", said(&net, 7));
}

#[test]
fn who_joins_during_a_cut_has_lost_nobody() {
    let mut net = cluster(Profile::Local, 4);
    cut(&mut net, &[0, 1], true);
    net.run(Duration::from_secs(5));
    let joiner = net.add("late", 20, &[0]);
    for far in [2, 3] {
        net.cut(joiner, far, true);
    }
    net.run(Duration::from_secs(5));
    assert!(net.nodes[joiner].core.is_up());
    assert!(said(&net, joiner).is_empty());
}

#[test]
fn a_member_that_died_during_the_cut_does_not_keep_it_from_being_over() {
    let mut net = cluster(Profile::Local, 6);
    cut(&mut net, &[0, 1, 2], true);
    net.run(Duration::from_secs(5));
    net.kill(5);
    net.run(Duration::from_secs(5));
    cut(&mut net, &[0, 1, 2], false);
    net.run(net.settings.retry_interval * 2 + ms(2_000));
    assert_eq!(said(&net, 0).len(), 1, "n5 may still come");
    net.run(net.settings.retry_interval * 2 + ms(2_000));
    for node in 0..3 {
        assert_eq!(said(&net, node)[1..], [healed([5], 0..5)], "n{node}");
    }
    for node in 3..5 {
        assert_eq!(said(&net, node)[1..], [healed([], 0..5)], "n{node}: n5 died on its own side");
        assert_eq!(net.reported(node, "n5")[..2], [ChangeKind::Suspected, DOWN]);
    }
    net.run(Duration::from_secs(60));
    assert_eq!(said(&net, 0).len(), 2);
}

#[test]
fn a_member_of_the_far_side_whose_process_is_found_dead_is_gone_and_is_none_that_came_back() {
    let mut net = cluster(Profile::Local, 6);
    cut(&mut net, &[0, 1, 2], true);
    net.run_until(net.settings.down_timeout, "it is said", |net| !said(net, 0).is_empty());
    net.kill(5);
    let found = about(&net, 5, net.nodes[5].core.me().incarnation, Status::Down);
    Speaker::new(1).says(&mut net, 0, &[update(found)]);
    assert_eq!(
        net.reported(0, "n5"),
        [ChangeKind::Suspected, ChangeKind::DetectedDown(DetectionMethod::ConnectionLost)]
    );
    // Nobody of the far side is heard: what this side tells of its own members is not doubted.
    let core = &net.nodes[0].core;
    let [subject, teller, far] = [1, 2, 4].map(|node| net.nodes[node].core.me().run);
    assert!(!core.is_spoken_of_from_afar(subject, Some(teller)));
    assert!(core.is_spoken_of_from_afar(subject, Some(far)));
    net.run(Duration::from_secs(10));
    cut(&mut net, &[0, 1, 2], false);
    net.run(net.settings.retry_interval * 4 + ms(4_000));
    assert_eq!(said(&net, 0).last(), Some(&healed([5], 0..5)));
}

#[test]
fn members_that_are_removed_or_forgotten_are_accounted_for() {
    let mut net = Net::with_short_memory(6);
    net.run(Duration::from_secs(5));
    net.forget_reports();
    for node in 3..6 {
        net.kill(node);
    }
    net.run(Duration::from_secs(4));
    net.command(0, Command::Remove { ticket: 1, id: id("n5"), force: false });
    net.run(Duration::from_secs(5));
    assert_eq!(net.nodes[0].core.unreachable().count(), 2);
    net.run(Duration::from_secs(60));
    for node in 0..3 {
        assert_eq!(said(&net, node), [suspected(3..6, 0..3), healed(3..6, 0..3)], "n{node}");
    }
}

#[test]
fn a_node_that_drops_its_view_ends_its_report() {
    let mut net = Net::with_short_memory(4);
    net.run(Duration::from_secs(5));
    cut(&mut net, &[3], true);
    net.run(Duration::from_secs(10));
    assert_eq!(said(&net, 3), [suspected(0..3, [3])]);
    net.pause(3, true);
    net.run(Duration::from_secs(70));
    net.pause(3, false);
    net.run(ms(10));
    assert_eq!(said(&net, 3)[1..], [healed(0..3, [3])]);
    assert_eq!(net.nodes[3].core.unreachable().count(), 0);
}

#[test]
fn a_cut_that_comes_back_is_one_report_or_two_but_always_ends() {
    let mut net = cluster(Profile::Local, 6);
    for _ in 0..5 {
        cut(&mut net, &[0, 1, 2], true);
        net.run(Duration::from_secs(4));
        cut(&mut net, &[0, 1, 2], false);
        net.run(Duration::from_secs(3));
    }
    net.run(Duration::from_secs(10));
    net.assert_all_up();
    for node in 0..6 {
        let said = said(&net, node);
        assert!(said.last().expect("said").is_over);
        assert!(said.len() <= 10, "n{node} says {} things about five cuts", said.len());
        assert!(said.windows(2).all(|pair| !(pair[0].is_over && pair[1].is_over)), "{said:?}");
    }
}

#[test]
fn the_sides_merge_without_losing_tags_and_without_raising_who_left() {
    let mut net = cluster(Profile::Local, 8);
    cut(&mut net, &[0, 1, 2, 3], true);
    net.run(Duration::from_secs(5));
    let tags = |value: &str| Tags::new([("side".to_owned(), value.to_owned())].into()).expect("good");
    net.command(1, Command::SetTags { ticket: 1, tags: tags("left") });
    net.command(5, Command::SetTags { ticket: 1, tags: tags("right") });
    net.command(3, Command::Leave);
    net.command(4, Command::Remove { ticket: 2, id: id("n7"), force: true });
    net.run(Duration::from_secs(5));
    assert!(net.nodes[3].stopped.is_some() && net.nodes[7].stopped.is_some());
    cut(&mut net, &[0, 1, 2, 3], false);
    net.run_until(net.settings.retry_interval * 2 + ms(2_000), "agreed", Net::all_agree);
    net.run(Duration::from_secs(10));
    for node in [0, 1, 2, 4, 5, 6] {
        let core = &net.nodes[node].core;
        assert_eq!(core.record(&id("n1")).expect("listed").tags, tags("left"), "at n{node}");
        assert_eq!(core.record(&id("n5")).expect("listed").tags, tags("right"), "at n{node}");
        assert_eq!(net.status(node, "n3"), Some(Status::Left(LeaveReason::Graceful)), "at n{node}");
        assert_eq!(net.status(node, "n7"), Some(Status::Left(LeaveReason::Forced)), "at n{node}");
        let gone = if node < 4 { 7 } else { 3 };
        assert_eq!(said(&net, node)[1..], [healed([gone], [0, 1, 2, 4, 5, 6])], "n{node}");
    }
}
