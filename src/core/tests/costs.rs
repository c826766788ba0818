//! What one thing costs: the peers that it goes to, the packets, and the time until the next one, counted exactly.

use std::collections::BTreeMap;

use super::electing::{SECOND, cluster, leader};
use headcount_core::limits::RENEWAL_RELAYS;
use headcount_core::wire::{Message, Packet};

#[test]
fn one_pulse_of_the_leader_is_passed_on_by_each_member_so_often() {
    let mut net = cluster(30, 3);
    let (elected, _) = leader(&net);
    net.sent = Some(Vec::new());
    net.run(SECOND * 5);
    let leads_at = net.nodes[elected].address;
    let mut passed_on: BTreeMap<_, u32> = BTreeMap::new();
    for (from, _, bytes) in net.sent.take().expect("kept").into_iter().filter(|(from, ..)| *from != leads_at) {
        for message in Packet::decode(&bytes).expect("ours").messages {
            if let Message::LeaderRenewal(renewal) = message {
                *passed_on.entry((from, renewal.term, renewal.sequence, renewal.number)).or_default() += 1;
            }
        }
    }
    assert_eq!(passed_on.into_values().max(), Some(RENEWAL_RELAYS), "in packets that are sent anyway");
}
