//! Local health: late ticks, bad links; and members that keep refuting.

use std::collections::BTreeSet;
use std::time::Duration;

use super::net::{Net, ms};
use headcount_core::limits::{MAX_DAMPING, MAX_HEALTH_SCORE, UNHEALTHY_FROM};
use headcount_core::{ChangeKind, DetectionMethod, HealthEvidence, Input, Notice, Profile, Status, Time};

const DOWN: ChangeKind = ChangeKind::DetectedDown(DetectionMethod::HeartbeatTimeout);

/// Stops and continues nodes by turns, each in its own rhythm: stopped for 150 ms to 1.5 s, running for 50 to 200 ms.
fn starve_all(net: &mut Net, nodes: &[usize], lasting: Duration) {
    let until = net.now + lasting;
    let mut dice: u64 = 7;
    let mut draw = |least: u64, most: u64| {
        dice = dice.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        ms(least + (dice >> 33) % (most - least + 1))
    };
    let mut turns: Vec<(Time, usize, bool)> = nodes.iter().map(|node| (net.now, *node, true)).collect();
    while net.now < until {
        turns.sort_unstable();
        let (at, node, stops) = turns[0];
        net.run(at.since(net.now));
        net.pause(node, stops);
        let lasting = if stops { draw(150, 1_500) } else { draw(50, 200) };
        turns[0] = (net.now + lasting, node, !stops);
    }
    for node in nodes {
        net.pause(*node, false);
    }
}

fn starve(net: &mut Net, node: usize, lasting: Duration) {
    starve_all(net, &[node], lasting);
}

fn count(net: &Net, observer: usize, name: &str, kind: ChangeKind) -> usize {
    net.reported(observer, name).into_iter().filter(|reported| *reported == kind).count()
}

fn first(net: &Net, observer: usize, kind: ChangeKind) -> Option<Time> {
    net.nodes[observer].changes.iter().find(|(_, change)| change.kind == kind).map(|(at, _)| *at)
}

#[test]
fn a_starved_node_accuses_nobody_knows_that_it_is_ill_and_recovers() {
    let mut net = Net::cluster(Profile::Local, 6);
    net.run(Duration::from_secs(5));
    net.forget_reports();
    starve(&mut net, 5, Duration::from_secs(90));
    assert_eq!(net.nodes[5].core.health_score(), MAX_HEALTH_SCORE);
    let lateness = &net.nodes[5].core.counters().tick_lateness;
    assert!(lateness.max >= ms(1_000) && lateness.sum > Duration::from_secs(30), "{lateness:?}");
    assert_eq!(net.nodes[0].core.counters().tick_lateness.sum, Duration::ZERO);
    for node in &net.nodes {
        let of_healthy: Vec<_> = node.changes.iter().filter(|(_, change)| change.record.id != *"n5").collect();
        assert!(of_healthy.is_empty(), "{} reports {of_healthy:?}", node.core.me().id);
        assert!(!node.changes.iter().any(|(_, change)| change.kind == DOWN), "never as long as its down timeout");
    }
    let is_ill = |notice: &Notice| matches!(notice, Notice::Unhealthy { .. });
    assert_eq!(net.nodes[5].notices.iter().filter(|notice| is_ill(notice)).count(), 1, "once, not at every stop");
    net.run(Duration::from_secs(10));
    assert_eq!(net.nodes[5].core.health_score(), 0);
    assert_eq!(net.nodes[5].notices.iter().filter(|notice| **notice == Notice::HealthyAgain).count(), 1);
    net.assert_all_up();
}

/// Keeps a node busy for so long, again and again: it works, and comes to its ticks and to what arrived later.
fn keep_busy(net: &mut Net, node: usize, each: Duration, lasting: Duration) {
    let until = net.now + lasting;
    while net.now < until {
        net.pause(node, true);
        net.run(each);
        let deadline = net.nodes[node].core.next_deadline().expect("it runs");
        let late = net.now.since(deadline);
        net.input(node, Input::Worked(late));
        net.pause(node, false);
        net.run(ms(20));
    }
}

#[test]
fn a_node_that_is_busy_stays_in_health_and_sees_the_dead_in_time() {
    for profile in Profile::ALL {
        let mut net = Net::cluster(profile, 2);
        net.run(net.settings.suspect_timeout * 2);
        let each = (net.settings.heartbeat_interval / 4).max(ms(200)) * 2;
        let (suspect_timeout, down_timeout) = (net.settings.suspect_timeout, net.settings.down_timeout);
        keep_busy(&mut net, 0, each, suspect_timeout * 2);
        assert_eq!((net.nodes[0].core.health_score(), net.nodes[0].core.counters().pauses), (0, 0), "{profile}");
        assert!(net.nodes[0].core.counters().tick_lateness.max > each / 2, "{profile}: its lateness is measured");
        net.kill(1);
        let last = net.now;
        // It has six probes to send, each in a turn of its own.
        let slack = each * 7 + net.settings.heartbeat_interval;
        keep_busy(&mut net, 0, each, down_timeout + slack);
        let suspected = first(&net, 0, ChangeKind::Suspected).expect("suspected").since(last);
        assert!(suspected <= suspect_timeout + slack, "{profile}: suspected after {suspected:?}");
        let down = first(&net, 0, DOWN).expect("down").since(last);
        assert!(down <= down_timeout + slack, "{profile}: down after {down:?}");
    }
}

#[test]
fn a_starved_node_that_also_worked_is_in_poor_health_for_the_rest() {
    let mut net = Net::cluster(Profile::Local, 3);
    net.run(Duration::from_secs(5));
    for _ in 0..10 {
        net.pause(2, true);
        net.run(ms(900));
        net.input(2, Input::Worked(ms(400)));
        net.pause(2, false);
        net.run(ms(20));
    }
    assert!(net.nodes[2].core.counters().pauses >= 9, "half a second of each was no work");
    assert_eq!(net.nodes[2].core.health_score(), MAX_HEALTH_SCORE);
}

#[test]
fn no_healthy_node_is_accused_with_one_node_in_five_starved() {
    let mut net = Net::cluster(Profile::Local, 30);
    net.run(Duration::from_secs(5));
    net.forget_reports();
    let starved = [4, 9, 14, 19, 24, 29];
    starve_all(&mut net, &starved, Duration::from_secs(120));
    for node in &net.nodes {
        let of_healthy = node.changes.iter().filter(|(_, change)| {
            let about = change.record.id.as_str()[1..].parse::<usize>().expect("a number");
            !starved.contains(&about)
        });
        let of_healthy: Vec<_> = of_healthy.collect();
        assert!(of_healthy.is_empty(), "{} reports {of_healthy:?}", node.core.me().id);
        assert!(!node.changes.iter().any(|(_, change)| change.record.status == Status::Down));
    }
    net.run(Duration::from_secs(10));
    net.assert_all_up();
}

#[test]
fn a_starved_node_is_suspected_a_few_times_and_then_let_be() {
    let mut net = Net::cluster(Profile::Local, 6);
    net.run(Duration::from_secs(5));
    net.forget_reports();
    starve(&mut net, 5, Duration::from_secs(300));
    for observer in 0..5 {
        let suspected = count(&net, observer, "n5", ChangeKind::Suspected);
        assert!((1..=6).contains(&suspected), "{suspected} times in five minutes of stalls around its timeout");
        assert_eq!(suspected, count(&net, observer, "n5", ChangeKind::Recovered));
    }
    let flapping = |notice: &&Notice| matches!(notice, Notice::Flapping { id } if *id == *"n5");
    assert_eq!(net.nodes[0].notices.iter().filter(flapping).count(), 1);
}

/// Has a node suspected and refuted as often as makes a difference.
fn flap(net: &mut Net, node: usize) {
    for _ in 0..=MAX_DAMPING {
        net.pause(node, true);
        // By all of them: who hears the refutation first has nothing to count.
        let suspected = |net: &Net| (0..4).all(|observer| net.status(observer, "n4") == Some(Status::Suspect));
        net.run_until(net.settings.down_timeout, "suspected", suspected);
        net.pause(node, false);
        net.run_until(ms(500), "refuted", Net::all_agree);
        net.run(ms(500));
    }
}

#[test]
fn a_real_crash_of_a_flapping_member_is_down_at_its_timeout() {
    for profile in [Profile::Local, Profile::Lan, Profile::Default] {
        let mut net = Net::cluster(profile, 5);
        net.run(Duration::from_secs(30));
        flap(&mut net, 4);
        net.run(net.settings.heartbeat_interval * 2);
        net.forget_reports();
        let heard = (0..4)
            .filter_map(|i| net.nodes[i].core.observation(&super::net::id("n4")).and_then(|seen| seen.last_heard))
            .max()
            .expect("heard");
        net.kill(4);
        net.run(net.settings.down_timeout + ms(500));
        let spare = net.settings.down_timeout - net.settings.suspect_timeout;
        for observer in 0..4 {
            let suspected = first(&net, observer, ChangeKind::Suspected).expect("it is");
            let down = first(&net, observer, DOWN).expect("it is");
            let (suspected, down) = (suspected.since(heard), down.since(heard));
            assert!(down >= net.settings.down_timeout - net.settings.probe_timeout, "{profile}: {down:?}");
            assert!(down <= net.settings.down_timeout + ms(20), "{profile}: {down:?}");
            assert!(suspected >= net.settings.down_timeout - spare / 4 - net.settings.probe_timeout, "{profile}");
            assert!(suspected <= net.settings.down_timeout - spare / 4 + ms(20), "{profile}: {suspected:?}");
        }
    }
}

#[test]
fn a_flapping_member_is_probed_as_soon_as_others() {
    let mut net = Net::cluster(Profile::Default, 5);
    net.run(Duration::from_secs(30));
    flap(&mut net, 4);
    net.run(net.settings.heartbeat_interval * 2);
    let heard = |node: usize| net.nodes[node].core.observation(&super::net::id("n4")).and_then(|seen| seen.last_heard);
    let heard = (0..4).filter_map(heard).max().expect("heard");
    net.kill(4);
    let sent = |net: &Net| (0..4).map(|node| net.nodes[node].core.counters().probes_sent).collect::<Vec<_>>();
    let probes = sent(&net);
    net.run((heard + net.settings.suspect_timeout - net.settings.probe_timeout * 6 + ms(20)).since(net.now));
    assert!(sent(&net).iter().zip(probes).all(|(after, before)| *after > before), "by each");
}

#[test]
fn an_unhealthy_node_waits_longer_and_the_healthy_do_not() {
    let mut net = Net::cluster(Profile::Local, 5);
    net.run(Duration::from_secs(5));
    starve(&mut net, 4, Duration::from_secs(30));
    let dead_since = net.now;
    net.kill(3);
    net.forget_reports();
    starve(&mut net, 4, Duration::from_secs(5));
    for observer in 0..3 {
        let down = first(&net, observer, DOWN).expect("found").since(dead_since);
        assert!(down <= net.settings.down_timeout + ms(20), "{down:?}");
    }
    assert_eq!(net.status(4, "n3"), Some(Status::Down), "it learns it from them");
    assert_eq!(net.nodes[4].core.counters().suspicions_raised, 0);
}

#[test]
fn an_accusation_by_who_waited_longer_leaves_the_accused_its_time_to_refute() {
    // n0 is ill, and alone with n1: it waits up to eight times longer, and then again before it says Down.
    let mut net = Net::cluster(Profile::Local, 2);
    net.run(Duration::from_secs(5));
    starve(&mut net, 0, Duration::from_secs(30));
    net.forget_reports();
    let dead_since = net.now;
    net.kill(1);
    net.run(Duration::from_secs(60));
    let suspected = first(&net, 0, ChangeKind::Suspected).expect("in the end");
    let down = first(&net, 0, DOWN).expect("in the end");
    let (suspect_timeout, down_timeout) = (net.settings.suspect_timeout, net.settings.down_timeout);
    assert!(suspected.since(dead_since) > suspect_timeout * 2, "{:?}", suspected.since(dead_since));
    assert!(suspected.since(dead_since) <= suspect_timeout * 8, "{:?}", suspected.since(dead_since));
    assert!(down.since(suspected) >= down_timeout - suspect_timeout, "{:?}", down.since(suspected));
    assert!(down.since(dead_since) <= down_timeout * 8, "{:?}", down.since(dead_since));
}

#[test]
fn what_the_accuser_forgave_does_not_count_against_the_accused_elsewhere() {
    // n3 is not heard by n0 alone, which is ill. When it accuses at last, nobody may bury n3 at once for the long
    // silence.
    let mut net = Net::cluster(Profile::Local, 4);
    net.run(Duration::from_secs(5));
    starve(&mut net, 0, Duration::from_secs(30));
    net.pause(1, true);
    net.pause(2, true);
    net.kill(3);
    net.forget_reports();
    net.run_until(Duration::from_secs(20), "accused", |net| net.status(0, "n3") == Some(Status::Suspect));
    let accused = net.now;
    net.pause(1, false);
    net.pause(2, false);
    net.run(Duration::from_secs(10));
    let spare = net.settings.down_timeout - net.settings.suspect_timeout;
    for observer in 0..3 {
        let about = net.nodes[observer].changes.iter().filter(|(_, change)| change.record.id == *"n3");
        let down = about.filter(|(_, change)| change.record.status == Status::Down).map(|(at, _)| *at).min();
        let waited = down.expect("in the end").since(accused);
        assert!(waited >= spare - net.settings.probe_timeout, "n{observer}: {waited:?}");
    }
}

#[test]
fn a_bad_link_is_reported_once_with_who_hears_the_member_and_when_it_recovered() {
    let mut net = Net::cluster(Profile::Local, 6);
    net.run(Duration::from_secs(5));
    net.forget_reports();
    net.cut_one_way(4, 1);
    net.run(Duration::from_secs(120));
    let degraded = |net: &Net| {
        let about = net.nodes[1].notices.iter().filter_map(|notice| match notice {
            Notice::LinkDegraded { id, heard_by } => Some((id.to_string(), heard_by.to_string())),
            _ => None,
        });
        about.collect::<Vec<_>>()
    };
    let told = degraded(&net);
    assert_eq!(told.len(), 1, "once in two minutes: {told:?}");
    assert_eq!(told[0].0, "n4");
    assert!(["n0", "n2", "n3", "n5"].contains(&told[0].1.as_str()), "{told:?}");
    assert_eq!(net.nodes[1].core.degraded_links(), 1);
    assert!(net.nodes[1].core.counters().degraded_links > 10);
    assert_eq!(net.nodes[1].core.health_score(), 0, "one bad link says nothing about whose fault it is");
    for node in &net.nodes {
        assert!(node.changes.is_empty(), "nobody is accused: {:?}", node.changes);
        assert_eq!(node.core.degraded_links(), usize::from(node.core.me().id == *"n1"));
    }
    net.cut(1, 4, false);
    net.run(net.settings.suspect_timeout * 4);
    assert_eq!(net.nodes[1].core.degraded_links(), 0);
    assert!(net.nodes[1].notices.contains(&Notice::LinkRecovered { id: super::net::id("n4") }));
}

#[test]
fn a_witness_who_heard_nothing_either_does_not_end_the_questions() {
    let mut net = Net::cluster(Profile::Local, 5);
    net.run(ms(3_000));
    net.forget_reports();
    // Two hear it no more, and a while later this one: what they heard is older.
    net.cut(1, 4, true);
    net.cut(2, 4, true);
    net.run(ms(400));
    net.cut(0, 4, true);
    let probes = |net: &Net| net.nodes[0].core.counters().probes_sent;
    let before = probes(&net);
    net.run_until(ms(2_000), "a first probe", |net| probes(net) > before);
    // The first question to the only one who hears it gets lost; two others answer.
    net.cut(0, 3, true);
    net.run_until(ms(500), "a second probe, and questions", |net| probes(net) > before + 1);
    net.run(ms(10));
    net.cut(0, 3, false);
    net.run(ms(3_000));
    for observer in 0..4 {
        assert_eq!(count(&net, observer, "n4", ChangeKind::Suspected), 0, "by {observer}");
    }
}

#[test]
fn three_witnesses_who_lost_it_at_the_same_moment_do_not_end_the_questions() {
    let mut net = Net::cluster(Profile::Local, 8);
    net.run(ms(3_000));
    net.forget_reports();
    for time in 1..=3 {
        // Two others hear it still.
        for blind in [0, 1, 2, 3, 5] {
            net.cut(blind, 4, true);
        }
        net.run(ms(3_000));
        for observer in [0, 1, 2, 3, 5] {
            assert_eq!(count(&net, observer, "n4", ChangeKind::Suspected), 0, "by {observer}, cut {time}");
            net.cut(observer, 4, false);
        }
        net.run(ms(3_000));
    }
}

#[test]
fn several_bad_links_are_evidence_against_the_listener() {
    let mut net = Net::cluster(Profile::Local, 8);
    net.run(Duration::from_secs(5));
    net.forget_reports();
    for other in [2, 3, 4] {
        net.cut_one_way(other, 1);
    }
    let is_ill = |net: &Net| net.nodes[1].core.health_score() >= UNHEALTHY_FROM;
    net.run_until(Duration::from_secs(20), "it is in poor health", is_ill);
    net.run(Duration::from_secs(60));
    let why = |notice: &Notice| matches!(notice, Notice::Unhealthy { why: HealthEvidence::DegradedLinks { links }, .. } if *links >= 2);
    assert!(net.nodes[1].notices.iter().any(why), "{:?}", net.nodes[1].notices);
    let named = net.nodes[1].notices.iter().filter_map(|notice| match notice {
        Notice::LinkDegraded { id, .. } => Some(id.to_string()),
        _ => None,
    });
    let named: Vec<_> = named.collect::<BTreeSet<_>>().into_iter().collect();
    assert_eq!(named, ["n2", "n3", "n4"], "each in its turn");
    assert!(net.nodes.iter().all(|node| node.changes.is_empty()));
}

#[test]
fn silence_of_many_at_once_is_no_evidence_against_the_listener() {
    for (profile, n, dead) in [(Profile::Local, 6, 3), (Profile::Lan, 60, 20)] {
        let mut net = Net::cluster(profile, n);
        net.run(net.settings.suspect_timeout * 5);
        net.forget_reports();
        let dead_since = net.now;
        for node in n - dead..n {
            net.kill(node);
        }
        let until = net.now + net.settings.down_timeout + Duration::from_secs(3);
        while net.now < until {
            net.run(ms(100));
            for node in &net.nodes[..n - dead] {
                assert_eq!((node.core.health_score(), node.core.degraded_links()), (0, 0), "{profile}");
            }
        }
        for node in &net.nodes[..n - dead] {
            let down = node.changes.iter().filter(|(_, change)| change.record.status == Status::Down);
            assert_eq!(down.count(), dead, "{profile}");
        }
        for (at, change) in net.nodes[..n - dead].iter().flat_map(|node| &node.changes) {
            let limit = match change.record.status {
                Status::Suspect => net.settings.suspect_timeout,
                _ => net.settings.down_timeout,
            };
            // A member that only the dead observed is found a little later.
            let slack = if n > 11 { net.settings.suspect_timeout / 2 } else { ms(20) };
            assert!(at.since(dead_since) <= limit + slack, "{profile}: {change:?}");
        }
    }
}
