//! Some nodes stand still, are cut off, or have datagrams that wait: what others report about the dead and the living.

use std::collections::BTreeSet;
use std::time::Duration;

use super::net::{Net, id, ms};
use headcount_core::{Profile, Status, Time};

const NODES: usize = 40;

#[derive(Debug, Clone, Copy)]
enum Disturbance {
    HeldUp,
    Paused,
    CutOff,
}

fn cluster(profile: Profile) -> Net {
    let mut net = Net::cluster(profile, NODES);
    net.run(net.settings.suspect_timeout * 3);
    net.forget_reports();
    net
}

fn disturb_process(net: &mut Net, nodes: &[usize], disturbance: Disturbance, ails: bool) {
    for node in nodes.iter().copied() {
        match disturbance {
            Disturbance::HeldUp => net.hold_up(node, ails),
            Disturbance::Paused => net.pause(node, ails),
            Disturbance::CutOff => {
                (0..NODES).filter(|other| *other != node).for_each(|other| net.cut(node, other, ails));
            }
        }
    }
}

/// Has all of these ail in the same rhythm, for so long altogether.
fn ail_in_rhythm(
    net: &mut Net,
    nodes: &[usize],
    disturbance: Disturbance,
    rhythm: (Duration, Duration),
    lasting: Duration,
) {
    let until = net.now + lasting;
    while net.now < until {
        disturb_process(net, nodes, disturbance, true);
        net.run(rhythm.0);
        disturb_process(net, nodes, disturbance, false);
        net.run(rhythm.1);
    }
}

/// Returns the healthy nodes that some healthy one reported as Down.
fn victims(net: &Net, ill: &[usize]) -> BTreeSet<String> {
    let healthy = (0..NODES).filter(|node| !ill.contains(node));
    let down =
        healthy.flat_map(|node| &net.nodes[node].changes).filter(|(_, change)| change.record.status == Status::Down);
    let names = down.map(|(_, change)| change.record.id.to_string());
    names.filter(|name| !ill.iter().any(|node| *name == format!("n{node}"))).collect()
}

#[test]
fn a_crash_is_down_in_time_while_others_stand_still_or_their_datagrams_wait() {
    let ill: Vec<usize> = (0..8).map(|i| i * 5 + 2).collect();
    for (disturbance, held_ms) in
        [(Disturbance::HeldUp, 2_048), (Disturbance::Paused, 8_192), (Disturbance::Paused, 2_048)]
    {
        for phase in [0, 700, 1_400] {
            let mut net = cluster(Profile::Lan);
            let rhythm = (ms(held_ms), ms(256));
            ail_in_rhythm(&mut net, &ill, disturbance, rhythm, ms(10_000 + phase));
            let healthy: Vec<usize> = (0..NODES).filter(|node| !ill.contains(node) && *node != 0).collect();
            net.run(ms(phase));
            net.kill(0);
            let dead_since = net.now;
            net.forget_reports();
            ail_in_rhythm(&mut net, &ill, disturbance, rhythm, Duration::from_secs(40));
            let within = net.settings.down_timeout + ms(500);
            for node in healthy {
                let is_down = |change: &headcount_core::Change| {
                    change.record.id == id("n0") && change.record.status == Status::Down
                };
                let down: Option<&(Time, _)> = net.nodes[node].changes.iter().find(|(_, change)| is_down(change));
                let took = down.map(|(at, _)| at.since(dead_since));
                assert!(
                    took.is_some_and(|took| took <= within),
                    "{disturbance:?} {held_ms} ms, {phase}: {took:?} at n{node}"
                );
            }
        }
    }
}

#[test]
fn who_heard_nobody_for_long_does_not_bury_the_living_in_the_views_of_others() {
    let few = &[7, 13, 20, 33][..];
    for (disturbance, held_ms, open_ms, ill) in [
        (Disturbance::HeldUp, 32_768, 256, few),
        (Disturbance::HeldUp, 32_768, 4_096, few),
        (Disturbance::CutOff, 32_768, 4_096, few),
        (Disturbance::CutOff, 8_192, 256, &[7]),
        (Disturbance::CutOff, 128, 4, few),
    ] {
        let mut net = cluster(Profile::Lan);
        ail_in_rhythm(&mut net, ill, disturbance, (ms(held_ms), ms(open_ms)), Duration::from_secs(120));
        let victims = victims(&net, ill);
        assert!(
            victims.is_empty(),
            "{disturbance:?} {held_ms} ms, {} ill: {} held as dead: {victims:?}",
            ill.len(),
            victims.len()
        );
        net.run_until(net.settings.retry_interval * 2 + ms(2_000), "agreed", Net::all_agree);
    }
}

// "All reach Down": also who learns of a death by report.
#[test]
fn a_death_report_of_who_does_not_refute_is_believed_soon() {
    let mut net = cluster(Profile::Lan);
    let late = 9;
    let is_deaf = |net: &mut Net, is_deaf: bool| {
        for other in (0..NODES).filter(|other| *other != late) {
            if is_deaf {
                net.cut_one_way(other, late);
            } else {
                net.cut(other, late, false);
            }
        }
    };
    net.kill(0);
    net.run(net.settings.suspect_timeout - net.settings.heartbeat_interval);
    is_deaf(&mut net, true);
    let dead = |net: &Net| net.status(1, "n0") == Some(Status::Down);
    net.run_until(net.settings.down_timeout, "dead", dead);
    assert_ne!(net.status(late, "n0"), Some(Status::Down));
    is_deaf(&mut net, false);
    net.run_until(net.settings.retry_interval * 2 + ms(2_000), "agreed", Net::all_agree);
    assert_eq!(net.status(late, "n0"), Some(Status::Down));
    assert_eq!(net.reported(late, "n0").len(), 2, "Suspect, then Down: {:?}", net.reported(late, "n0"));
}
