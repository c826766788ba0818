//! News that is carried, and views that are compared: how often, and in spite of what.

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::time::Duration;

use super::alone::{Alone, TELLER, prove};
use super::net::{Net, address, id, ms};
use headcount_core::limits::SYNC_TRIES;
use headcount_core::wire::Message;
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

/// Returns the greatest share, of packets to a peer, that are followed by another one to it so many ticks later: of all
/// numbers of ticks up to four rounds of thirty peers.
fn most_periodic(packets: &[(Time, usize)]) -> f64 {
    let at_once = packets.chunk_by(|a, b| a.0 == b.0).filter(|tick| tick.len() > 1);
    let ticks: Vec<Vec<usize>> = at_once.map(|tick| tick.iter().map(|(_, to)| *to).collect()).collect();
    let share = |lag: usize| {
        let pairs = || ticks.iter().zip(&ticks[lag..]);
        let again: usize = pairs().map(|(tick, later)| tick.iter().filter(|to| later.contains(to)).count()).sum();
        again as f64 / pairs().map(|(tick, _)| tick.len()).sum::<usize>() as f64
    };
    (1..=40).map(share).fold(0.0, f64::max)
}

#[test]
fn gossip_goes_by_rounds_to_everybody_and_in_no_order_that_comes_again() {
    let mut net = Net::cluster(Profile::Default, 10);
    net.run(Duration::from_secs(10));
    for packets in packets(&mut net, Duration::from_secs(180)) {
        let to: Vec<usize> = packets.iter().map(|(_, to)| *to).collect();
        let is_round = |round: &[usize]| BTreeSet::from_iter(round).len() == 9;
        assert!((0..9).any(|first| to[first..].chunks_exact(9).all(is_round)), "{to:?}");
        assert!(most_periodic(&packets) < 0.5, "{to:?}");
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
    assert_eq!(sent(Carrier::Gossip), after.gossip_sent - before.gossip_sent, "all others are observers");
    assert!(sent(Carrier::Heartbeat) > 0, "now and then a round has somebody first, and the next one last");
    assert_eq!(Carrier::ALL.into_iter().map(sent).sum::<u64>(), after.packets_sent - before.packets_sent);
}

#[test]
fn gossip_of_many_goes_to_all_of_them_and_in_no_order_that_comes_again() {
    let mut net = Net::cluster(Profile::Default, 30);
    net.run(Duration::from_secs(10));
    for packets in packets(&mut net, Duration::from_secs(600)).into_iter().take(3) {
        let to: BTreeSet<usize> = packets.iter().map(|(_, to)| *to).collect();
        assert_eq!(to.len(), 29, "{to:?}");
        assert!(most_periodic(&packets) < 0.5);
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
