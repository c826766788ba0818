//! News that is carried, and views that are compared: how often, and in spite of what.

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::time::Duration;

use super::alone::{Alone, TELLER, prove};
use super::net::{Net, address, id, ms};
use headcount_core::limits::SYNC_TRIES;
use headcount_core::wire::{Message, Packet};
use headcount_core::{Carrier, Profile, Time};

/// Has a member whose view never becomes equal answer each comparison; returns the number of those in so many seconds.
fn comparisons(alone: &mut Alone, seconds: u32, mut each: impl FnMut(&mut Alone)) -> u64 {
    let before = alone.core.counters().syncs;
    for _ in 0..seconds * 10 {
        alone.pass(ms(100));
        alone.hand_in(address(19_999), TELLER, |packet| {
            assert!(packet.push(&Message::Reply) && packet.push(&Message::Want { buckets: [0xff; 32] }));
        });
        each(alone);
    }
    alone.core.counters().syncs - before
}

/// Returns a node that has made the comparisons of a newcomer, and the member that it compares its view with.
fn compared() -> Alone {
    let mut alone = Alone::with_teller();
    prove(&mut alone, TELLER);
    comparisons(&mut alone, 3, |_| ());
    alone
}

#[test]
fn views_that_never_become_equal_are_compared_a_few_times_and_then_let_be() {
    let mut alone = compared();
    let before = comparisons(&mut alone, 10, |_| ());
    let after = comparisons(&mut alone, 60, |_| ());
    assert!(before <= u64::from(SYNC_TRIES) + 1 && after <= 1, "{before}, and {after} in the next minute");
}

#[test]
fn views_that_never_stand_still_are_compared_all_the_same() {
    let mut alone = compared();
    let mut host = 0;
    let compared = comparisons(&mut alone, 10, |alone| {
        alone.introduces(host..host + 1);
        host += 1;
    });
    assert!(compared >= 3, "{compared} in ten seconds");
}

/// Lets time pass; returns the packets of each node, by number: when, and to whom.
fn packets(net: &mut Net, time: Duration) -> Vec<Vec<(Time, usize)>> {
    let until = net.now + time;
    net.sent = Some(Vec::new());
    let number = |at: SocketAddr, net: &Net| net.nodes.iter().position(|node| node.address == at).expect("a node");
    let (mut seen, mut packets) = (0, vec![Vec::new(); net.nodes.len()]);
    net.run_until(time * 2, "it passes", |net| {
        let sent = net.sent.as_deref().unwrap_or_default();
        for (from, to, _) in &sent[seen..] {
            packets[number(*from, net)].push((net.now, number(*to, net)));
        }
        seen = sent.len();
        net.now >= until
    });
    packets
}

#[test]
fn heartbeats_go_to_all_observers_in_turn_and_evenly() {
    for (profile, n) in [(Profile::Default, 10), (Profile::Lan, 9), (Profile::Fast, 8), (Profile::Fast, 2)] {
        let mut net = Net::cluster(profile, n);
        let beat = (net.settings.gossip_interval / net.settings.gossip_fanout as u32)
            .min(net.settings.heartbeat_interval / (n - 1) as u32);
        let interval = net.settings.heartbeat_interval;
        net.run(interval * 2);
        for packets in packets(&mut net, interval * 10) {
            let to: Vec<usize> = packets.iter().map(|(_, to)| *to).collect();
            assert!(to.len() > 5 * (n - 1) && to.windows(n).all(|round| round[0] == round[n - 1]), "{profile}: {to:?}");
            assert_eq!(BTreeSet::from_iter(&to[..n - 1]).len(), n - 1, "{profile}: {to:?}");
            for pause in packets.windows(2).map(|pair| pair[1].0.since(pair[0].0)) {
                assert!(pause <= beat + ms(1) && pause >= beat * 94 / 100, "{profile}: {pause:?} instead of {beat:?}");
            }
        }
    }
}

#[test]
fn whoever_is_told_when_the_next_heartbeat_comes_gets_one_by_then_though_many_join_meanwhile() {
    let mut net = Net::cluster(Profile::Fast, 3);
    for newcomers in [2, 30] {
        net.run(Duration::from_secs(5));
        for _ in 0..newcomers {
            let host = net.nodes.len();
            net.add(&format!("n{host}"), host, &[0]);
        }
        net.sent = Some(Vec::new());
        let (mut seen, mut promised, mut kept) = (0, BTreeMap::<SocketAddr, Time>::new(), 0);
        let until = net.now + Duration::from_secs(20);
        net.run_until(Duration::from_secs(30), "it passes", |net| {
            for (from, to, bytes) in &net.sent.as_deref().unwrap_or_default()[seen..] {
                if *from != net.nodes[0].address {
                    continue;
                }
                let messages = Packet::decode(bytes).expect("ours").messages;
                let told = messages.iter().find_map(|message| match message {
                    Message::NextHeartbeat { after_ms } => Some(net.now + ms(u64::from(*after_ms))),
                    _ => None,
                });
                let Some(told) = told else { continue };
                let by = promised.insert(*to, told);
                kept += u32::from(by.is_some());
                assert!(by.is_none_or(|by| net.now <= by), "{to} waited until {:?} instead of {by:?}", net.now);
            }
            seen = net.sent.as_ref().map_or(0, Vec::len);
            net.now >= until
        });
        assert!(kept > 30, "{kept}");
    }
}

#[test]
fn every_packet_to_an_observer_is_a_heartbeat_and_counted_by_what_carried_it() {
    let mut net = Net::cluster(Profile::Default, 11);
    net.run(Duration::from_secs(10));
    let before = net.nodes[0].core.counters().clone();
    net.run(Duration::from_secs(60));
    let after = net.nodes[0].core.counters();
    let sent = |carrier: Carrier| after.heartbeats_sent[carrier as usize] - before.heartbeats_sent[carrier as usize];
    assert!(sent(Carrier::Heartbeat) >= 180, "three a second");
    assert_eq!(Carrier::ALL.into_iter().map(sent).sum::<u64>(), after.packets_sent - before.packets_sent);
}

#[test]
fn the_share_of_missed_heartbeats_is_that_of_lost_packets() {
    for (profile, drop_one_in) in [(Profile::Default, 0), (Profile::Default, 20), (Profile::Fast, 20)] {
        let mut net = Net::cluster(profile, 11);
        net.drop_one_in = drop_one_in;
        net.run(Duration::from_secs(1_800));
        let counters = net.nodes[0].core.counters();
        let (received, missed) = (counters.heartbeats_received, counters.heartbeats_missed);
        assert!(received > 4_000, "three a second: {received}");
        let lost = (received + missed).checked_div(drop_one_in).unwrap_or(0);
        assert!(missed.abs_diff(lost) <= lost / 6, "{profile}: {missed} missed of {lost} lost, {received} received");
    }
}

#[test]
fn gossip_of_many_goes_to_all_of_them() {
    let mut net = Net::cluster(Profile::Default, 30);
    net.run(Duration::from_secs(10));
    for packets in packets(&mut net, Duration::from_secs(1_200)).into_iter().take(3) {
        let to: BTreeSet<usize> = packets.iter().map(|(_, to)| *to).collect();
        assert_eq!(to.len(), 29, "{to:?}");
    }
}

#[test]
fn no_observer_waits_longer_than_the_heartbeat_interval() {
    for (profile, n) in Profile::ALL.into_iter().flat_map(|profile| [3, 10, 30, 100].map(|n| (profile, n))) {
        let mut net = Net::cluster(profile, n);
        let interval = net.settings.heartbeat_interval;
        net.run(interval);
        let began = net.now;
        let observe = |net: &Net, a: usize, b: usize| {
            net.nodes[a].core.observation(&id(&format!("n{b}"))).is_some_and(|seen| seen.is_observed)
        };
        let is_pair = |net: &Net, a: usize, b: usize| observe(net, a, b) && observe(net, b, a);
        let pairs: Vec<(usize, usize)> =
            (0..n).flat_map(|a| (0..n).map(move |b| (a, b))).filter(|(a, b)| is_pair(&net, *a, *b)).collect();
        let packets = packets(&mut net, interval * 6);
        for (a, b) in pairs.into_iter().filter(|(a, b)| is_pair(&net, *a, *b)) {
            let times = packets[a].iter().filter(|(_, to)| *to == b).map(|(at, _)| *at);
            let times: Vec<Time> = [began].into_iter().chain(times).chain([net.now]).collect();
            let longest = times.windows(2).map(|pair| pair[1].since(pair[0])).max();
            assert!(longest <= Some(interval), "{profile}, {n} nodes: n{a} to n{b} {longest:?}");
        }
    }
}
