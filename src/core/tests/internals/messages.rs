//! Messages between programs, and their room in packets.

use std::collections::BTreeSet;

use super::net::Net;
use super::saying::*;
use crate::limits::{MAX_CARRIED_SPANS, REPAIR_AFTER};
use crate::member::Run;
use crate::settings::Profile;
use crate::wire::{Message, Packet, Span};

#[test]
fn a_packet_without_room_costs_no_origin_its_turn() {
    let mut net = Net::cluster(Profile::Local, 2);
    let origins = know_broadcasts_of(&mut net, 2 * MAX_CARRIED_SPANS);
    net.run(REPAIR_AFTER);
    let core = &mut net.nodes[0].core;
    let slot = core.view.live()[0];
    let mut runs = BTreeSet::new();
    for _ in 0..2 {
        let mut full = core.out().packet_to(slot);
        while full.push(&Message::WantBroadcasts(vec![Span { run: Run(u64::MAX), first: 1, last: 1 }])) {}
        let length = full.len();
        core.messages.push_held(core.cx.now, &mut full);
        assert_eq!(full.len(), length, "there was room");
        let mut packet = core.out().packet_to(slot);
        core.messages.push_held(core.cx.now, &mut packet);
        for message in Packet::decode(&packet.finish()).expect("decodes").messages {
            if let Message::HaveBroadcasts(spans) = message {
                runs.extend(spans.iter().map(|span| span.run.0));
            }
        }
    }
    assert_eq!(runs, origins, "two packets with room tell of all");
}
