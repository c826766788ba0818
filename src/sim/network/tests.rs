//! The network alone: what is delivered, how often and when.

use std::time::Duration;

use super::*;

fn network(conditions: Conditions) -> Network {
    Network::new(1, conditions, 28)
}

fn deliveries(network: &mut Network, from: usize, to: usize, count: usize) -> Vec<(Nanos, Vec<u8>)> {
    let mut arrived = Vec::new();
    for number in 0..count {
        network.send(1_000, from, to, vec![number as u8; 50], |arrival| arrived.push((arrival.at, arrival.bytes)));
    }
    arrived
}

#[test]
fn a_quiet_network_delivers_everything_once_unchanged_and_later() {
    let mut network = network(Conditions::default());
    let arrived = deliveries(&mut network, 0, 1, 200);
    assert_eq!(arrived.len(), 200);
    for (number, (at, bytes)) in arrived.iter().enumerate() {
        assert_eq!(bytes, &vec![number as u8; 50]);
        assert!(*at >= 1_000 + 200_000, "{at}");
    }
    assert!(arrived.windows(2).any(|pair| pair[0].0 > pair[1].0), "jitter reorders");
    assert_eq!(network.sent(0), Traffic { packets: 200, bytes: 200 * 78 });
}

#[test]
fn loss_duplication_and_corruption_happen_about_as_often_as_asked() {
    let usual = Conditions { loss: 0.2, duplicate: 0.1, corrupt: 0.5, ..Conditions::default() };
    let mut network = network(usual);
    let arrived = deliveries(&mut network, 0, 1, 10_000);
    assert!((8_500..9_100).contains(&arrived.len()), "{}", arrived.len());
    let changed = arrived.iter().filter(|(_, bytes)| bytes.iter().any(|byte| *byte != bytes[0])).count();
    assert!((4_000..5_000).contains(&changed), "{changed}");
}

#[test]
fn bursts_lose_datagrams_in_runs() {
    let burst = Burst { begin: 0.02, end: 0.2, loss: 1.0 };
    let mut network = network(Conditions { burst: Some(burst), ..Conditions::default() });
    let mut lost = vec![true; 10_000];
    for lost in &mut lost {
        network.send(0, 0, 1, vec![0], |_| *lost = false);
    }
    let losses = lost.iter().filter(|lost| **lost).count();
    let pairs = lost.windows(2).filter(|pair| pair[0] && pair[1]).count();
    assert!((500..1_500).contains(&losses), "{losses}");
    assert!(pairs * 2 > losses, "losses come together: {pairs} of {losses}");
}

#[test]
fn one_link_in_a_burst_says_nothing_about_another() {
    let burst = Burst { begin: 0.5, end: 0.0, loss: 1.0 };
    let mut network = network(Conditions { burst: Some(burst), ..Conditions::default() });
    deliveries(&mut network, 0, 1, 100);
    assert!(deliveries(&mut network, 0, 1, 10).is_empty(), "this link's burst does not end");
    network.set_conditions(Conditions { burst: Some(Burst { begin: 0.0, ..burst }), ..Conditions::default() });
    assert!(deliveries(&mut network, 0, 1, 10).is_empty());
    assert_eq!(deliveries(&mut network, 1, 0, 10).len(), 10, "the way back is another link");
    assert_eq!(deliveries(&mut network, 2, 1, 10).len(), 10);
}

#[test]
fn loss_may_hit_one_direction_alone() {
    let mut network = network(Conditions::default());
    network.set_node_loss(1, NodeLoss { outgoing: 0.8, incoming: 0.0 });
    assert!((100..300).contains(&deliveries(&mut network, 1, 0, 1_000).len()));
    assert_eq!(deliveries(&mut network, 0, 1, 1_000).len(), 1_000);
}

#[test]
fn a_cut_in_turns_comes_and_goes() {
    let mut network = network(Conditions::default());
    let deaf = NodeSet::of(&[1]);
    let cut = network.cut_in_turns(1_000, deaf.rest(), deaf, Duration::from_nanos(500));
    let is_cut = |network: &Network| [1_000, 1_499, 1_500, 1_999, 2_000].map(|now| network.is_cut(now, 0, 1));
    assert_eq!(is_cut(&network), [true, true, false, false, true]);
    assert!(!network.is_cut(1_000, 1, 0), "one way only");
    assert!(!network.is_calm(), "it will come back");
    network.heal(cut);
    assert_eq!(is_cut(&network), [false; 5]);
}

#[test]
fn a_one_way_cut_stops_one_direction_until_it_is_healed() {
    let mut network = network(Conditions::default());
    let cut = network.cut(NodeSet::of(&[0]), NodeSet::of(&[1]));
    assert!(deliveries(&mut network, 0, 1, 5).is_empty());
    assert_eq!(deliveries(&mut network, 1, 0, 5).len(), 5);
    assert!(!network.is_calm());
    network.heal(cut);
    assert_eq!(deliveries(&mut network, 0, 1, 5).len(), 5);
    assert!(network.is_calm());
}

#[test]
fn a_cut_may_stop_datagrams_or_connections_alone_and_blame_nobody() {
    let mut network = network(Conditions::default());
    let between = || Cut::new(NodeSet::of(&[0]), NodeSet::of(&[1])).limiting_suspicion_to(Vec::new());
    let cut = network.add_cut(between().stopping(CutTraffic::Datagrams));
    assert!(deliveries(&mut network, 0, 1, 5).is_empty() && !network.loses_segment(0, 0, 1));
    assert!(network.is_calm(), "nobody is to blame");
    assert!(network.heal(cut).is_some() && network.heal(cut).is_none());
    network.add_cut(between().stopping(CutTraffic::Connections));
    assert!(deliveries(&mut network, 0, 1, 5).len() == 5 && network.loses_segment(0, 1, 0));
}

#[test]
fn a_late_datagram_arrives_after_minutes() {
    let late = Some(Late { chance: 0.5, most: Duration::from_secs(300) });
    let mut network = network(Conditions { late, ..Conditions::default() });
    let arrived = deliveries(&mut network, 0, 1, 100);
    assert_eq!(arrived.len(), 100, "late is not lost");
    assert!(arrived.iter().any(|(at, _)| *at > nanos(Duration::from_secs(120))));
}

#[test]
fn a_held_node_sends_and_receives_late_and_loses_nothing() {
    let mut network = network(Conditions::default());
    let hold = network.hold(1, 1_000_000_000);
    let arrived = [deliveries(&mut network, 0, 1, 5), deliveries(&mut network, 1, 0, 5)].concat();
    assert_eq!(arrived.len(), 10);
    assert!(arrived.iter().all(|(at, _)| *at > 1_000_000_000));
    assert!(deliveries(&mut network, 0, 2, 5).iter().all(|(at, _)| *at < 1_000_000_000), "others are not concerned");
    assert!(!network.is_calm());
    network.heal(hold);
    assert!(network.is_calm());
}

#[test]
fn a_partition_holds_for_nodes_that_come_later() {
    let side = NodeSet::of(&[0, 2]);
    assert!(side.contains(2) && !side.contains(1) && !side.contains(9));
    assert!(side.rest().contains(9) && !side.rest().contains(0));
}

#[test]
fn a_lossy_node_suffers_in_both_directions_and_healing_ends_it() {
    let mut network = network(Conditions::default());
    network.set_node_loss(1, NodeLoss { outgoing: 1.0, incoming: 1.0 });
    assert!(deliveries(&mut network, 0, 1, 5).is_empty() && deliveries(&mut network, 1, 0, 5).is_empty());
    assert_eq!(deliveries(&mut network, 0, 2, 5).len(), 5);
    network.heal_all();
    assert_eq!(deliveries(&mut network, 0, 1, 5).len(), 5);
}
