//! The cost of an idle cluster on the wire, in virtual time.

use std::time::Duration;

use super::net::Net;
use headcount_core::Profile;

/// IPv4 and UDP headers of one datagram.
const HEADERS: u64 = 28;

/// Returns the bytes that the whole cluster sends per minute, headers included.
fn bytes_per_minute(profile: Profile, nodes: usize) -> u64 {
    let mut net = Net::cluster(profile, nodes);
    net.run(Duration::from_secs(60));
    let sent = |net: &Net| -> u64 {
        let counters = net.nodes.iter().map(|node| node.core.counters());
        counters.map(|counters| counters.bytes_sent + HEADERS * counters.packets_sent).sum()
    };
    let before = sent(&net);
    net.run(Duration::from_secs(600));
    (sent(&net) - before) / 10
}

#[test]
fn an_idle_node_sends_little_in_every_profile() {
    for (profile, budget) in [(Profile::Default, 250), (Profile::Lan, 450), (Profile::Wan, 250)] {
        let per_second = bytes_per_minute(profile, 10) / 600;
        assert!(per_second <= budget, "{profile}: {per_second} bytes per second and node");
    }
}

/// Two members that met through others are unproven to each other: neither may wait for the other to begin, and send
/// questions until then.
#[test]
fn idle_members_send_heartbeats_of_forty_bytes_and_hardly_anything_else() {
    for nodes in [3, 11, 40] {
        let mut net = Net::cluster(Profile::Lan, nodes);
        net.run(Duration::from_secs(60));
        let sent = |net: &Net| {
            let counters = || net.nodes.iter().map(|node| node.core.counters());
            let bytes: u64 = counters().map(|counters| counters.bytes_sent).sum();
            (bytes, counters().map(|counters| counters.packets_sent).sum::<u64>())
        };
        let before = sent(&net);
        net.run(Duration::from_secs(60));
        let after = sent(&net);
        let (bytes, packets) = (after.0 - before.0, after.1 - before.1);
        assert!(bytes <= packets * 40, "{nodes} nodes: {bytes} bytes in {packets} packets");
    }
}
