use std::time::Duration;

use super::net::{Net, id, ms};
use headcount_core::{ChangeKind, DetectionMethod, Notice, Profile, Status, Time};

fn when(net: &Net, observer: usize, name: &str, kind: ChangeKind) -> Time {
    let about = |change: &&(Time, headcount_core::Change)| change.1.record.id == *name && change.1.kind == kind;
    let found: Vec<_> = net.nodes[observer].changes.iter().filter(about).collect();
    assert_eq!(found.len(), 1, "exactly one {kind:?} of {name} at {observer}: {found:?}");
    found[0].0
}

const DOWN: ChangeKind = ChangeKind::DetectedDown(DetectionMethod::HeartbeatTimeout);

#[test]
fn a_silent_node_is_suspect_and_down_exactly_at_its_timeouts() {
    for profile in Profile::ALL {
        let mut net = Net::cluster(profile, 5);
        net.run(Duration::from_secs(30));
        net.forget_reports();
        let last_heard: Vec<Time> = (0..4)
            .map(|i| net.nodes[i].core.observation(&id("n4")).and_then(|seen| seen.last_heard).expect("heard"))
            .collect();
        net.kill(4);
        net.run(net.settings.down_timeout + ms(1_000));
        let latest = *last_heard.iter().max().expect("four") + ms(5);
        for observer in 0..4 {
            let suspected = when(&net, observer, "n4", ChangeKind::Suspected);
            let down = when(&net, observer, "n4", DOWN);
            let silence = latest - net.settings.probe_timeout;
            assert!(suspected >= silence + net.settings.suspect_timeout, "{profile}: not before anybody's timeout");
            assert!(suspected <= latest + net.settings.suspect_timeout + ms(20), "{profile}");
            assert!(down >= silence + net.settings.down_timeout, "{profile}: never before its timeout");
            assert!(down <= latest + net.settings.down_timeout + ms(20), "{profile}");
        }
    }
}

#[test]
fn a_member_that_was_never_heard_is_judged_from_the_moment_it_was_added() {
    let mut net = Net::cluster(Profile::Local, 3);
    net.cut(2, 3, true);
    net.add("mute", 9, &[0]);
    net.run_until(ms(300), "n2 is told of it", |net| net.status(2, "mute") == Some(Status::Up));
    let added = net.now;
    net.kill(3);
    // Nor does n2 hear of it from others, from now on.
    net.cut(2, 0, true);
    net.cut(2, 1, true);
    net.forget_reports();
    assert_eq!(net.nodes[2].core.observation(&id("mute")).and_then(|seen| seen.last_heard), None);
    net.run(net.settings.down_timeout + ms(500));
    assert_eq!(net.nodes[2].core.observation(&id("mute")).and_then(|seen| seen.last_heard), None);
    let is_down = |change: &headcount_core::Change| matches!(change.kind, ChangeKind::DetectedDown(_));
    let mut about = net.nodes[2].changes.iter().filter(|(_, change)| change.record.id == *"mute" && is_down(change));
    let down = about.next().expect("judged by who never heard it").0.since(added);
    let timeout = net.settings.down_timeout;
    assert!(down >= timeout - ms(20) && down <= timeout + ms(20), "{down:?}");
}

#[test]
fn refuted_suspicion_raises_incarnation() {
    let mut net = Net::cluster(Profile::Local, 4);
    let before = net.nodes[3].core.me().incarnation;
    net.forget_reports();
    net.pause(3, true);
    net.run(ms(1_500));
    assert_eq!(net.status(0, "n3"), Some(Status::Suspect));
    net.pause(3, false);
    net.run_until(ms(500), "it refuted", Net::all_agree);
    assert!(net.nodes[3].core.me().incarnation > before);
    for observer in 0..3 {
        assert_eq!(net.reported(observer, "n3"), [ChangeKind::Suspected, ChangeKind::Recovered]);
    }
}

#[test]
fn a_down_member_that_wakes_up_comes_back_everywhere_and_accuses_nobody() {
    let mut net = Net::cluster(Profile::Local, 5);
    net.forget_reports();
    net.pause(4, true);
    net.run(Duration::from_secs(30));
    net.pause(4, false);
    net.run_until(ms(1_500), "everybody agrees again", Net::all_agree);
    net.run(Duration::from_secs(5));
    for observer in 0..4 {
        assert_eq!(net.reported(observer, "n4"), [ChangeKind::Suspected, DOWN, ChangeKind::Joined]);
    }
    let accused = net.nodes[4].changes.iter().filter(|(_, change)| change.record.id != *"n4").count();
    assert_eq!(accused, 0, "it slept through their silence, not they through its");
    assert!(net.nodes[4].notices.iter().any(|notice| matches!(notice, Notice::Paused { .. })));
    assert_eq!(net.nodes[4].core.counters().pauses, 1);
}

#[test]
fn a_healthy_idle_cluster_accuses_nobody() {
    for profile in Profile::ALL {
        let mut net = Net::cluster(profile, 10);
        net.forget_reports();
        let syncs = |net: &Net| net.nodes.iter().map(|node| node.core.counters().syncs).sum::<u64>();
        let joining = syncs(&net);
        net.run(Duration::from_secs(600));
        assert!(net.nodes.iter().all(|node| node.changes.is_empty()), "{profile}");
        assert_eq!(syncs(&net), joining, "{profile}: views agree at rest");
    }
}

#[test]
fn both_ends_know_their_round_trip() {
    let mut net = Net::cluster(Profile::Local, 3);
    net.latency = ms(5);
    net.run(Duration::from_secs(60));
    let rtt = net.nodes[0].core.observation(&id("n1")).and_then(|seen| seen.rtt).expect("measured");
    assert!(rtt >= ms(9) && rtt <= ms(11), "{rtt:?}");
}

#[test]
fn every_observer_hears_from_its_subject_once_per_interval() {
    for profile in Profile::ALL {
        let mut net = Net::cluster(profile, 9);
        net.run(net.settings.heartbeat_interval * 3);
        for _ in 0..200 {
            net.run(ms(101));
            for node in &net.nodes {
                for other in net.nodes.iter().filter(|other| other.address != node.address) {
                    let age = net.now.since(
                        node.core.observation(&other.core.me().id).and_then(|seen| seen.last_heard).expect("heard"),
                    );
                    assert!(age <= net.settings.heartbeat_interval + ms(2), "{profile}: {age:?}");
                }
            }
        }
    }
}

#[test]
fn a_member_that_others_hear_is_not_suspected_over_one_bad_link() {
    let mut net = Net::cluster(Profile::Default, 6);
    net.run(Duration::from_secs(20));
    net.forget_reports();
    net.cut(1, 4, true);
    net.run(Duration::from_secs(120));
    assert!(net.nodes.iter().all(|node| node.changes.is_empty()), "{:?}", net.nodes[1].changes);
    assert!(net.nodes[1].core.counters().degraded_links > 0, "but the bad link is noticed");
}

#[test]
fn silence_counts_from_the_freshest_sign_that_anybody_received_also_where_packets_are_lost() {
    for (nodes, drop_one_in) in [(3, 0), (10, 0), (10, 20), (10, 4), (30, 0)] {
        for seed in 0..4 {
            let mut net = Net::cluster(Profile::Default, nodes);
            net.shuffle_losses(seed);
            net.drop_one_in = drop_one_in;
            net.run(Duration::from_secs(30) + ms(seed * 377));
            net.forget_reports();
            let (victim, name) = (nodes - 1, format!("n{}", nodes - 1));
            net.kill(victim);
            net.run(ms(50));
            let heard = (0..victim)
                .filter_map(|node| net.nodes[node].core.observation(&id(&name)).and_then(|seen| seen.last_heard));
            let freshest = heard.max().expect("it was heard");
            net.run(net.settings.down_timeout + ms(1_000));
            for node in 0..victim {
                let suspected = when(&net, node, &name, ChangeKind::Suspected).since(freshest);
                let down = when(&net, node, &name, DOWN).since(freshest);
                let what = format!("{nodes} nodes, one in {drop_one_in} lost, seed {seed}: at n{node}");
                // Where a quarter of all packets is lost, the last of six probes may come late. What others tell is dated back by
                // half of a measured round trip.
                let latest = if drop_one_in == 4 { 10_600 } else { 10_100 };
                assert!((9_990..=latest).contains(&suspected.as_millis()), "{what}: Suspect after {suspected:?}");
                assert!((14_990..=15_100).contains(&down.as_millis()), "{what}: Down after {down:?}");
            }
        }
    }
}
