//! Messages between programs, in virtual time: everybody gets each once, and what does not arrive is said.

mod bounds;
mod broadcasts;
mod direct;
mod limits;

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use super::net::{Net, address, id, ms};
use super::saying::*;
use headcount_core::limits::{
    ANSWERS_PER_SECOND, BROADCAST_LIFE, MAX_DIRECT_BYTES, MAX_DIRECT_MESSAGES, MAX_DIRECT_UNDER_WAY,
    MAX_FLOODED_PAYLOAD, MAX_KEPT_MESSAGES, MAX_KEPT_OWN_BYTES, MAX_OPEN_REQUESTS_PER_MEMBER, MAX_ORIGINS,
    MAX_PAYLOAD_BYTES, MAX_SPANS, MAX_UNSPREAD, MESSAGE_WINDOW, ORIGIN_MEMORY, REPAIR_PACKETS, SEND_TIMEOUT,
    SPREAD_PACKETS,
};
use headcount_core::wire::{Broadcast, DirectMessage, Header, Message, Packet, PacketBuilder, Purpose, Span};
use headcount_core::{Command, CommandError, DeliveryKind, DropReason, Input, MessageId, Profile, Reply, Run, Status};

/// Checks that nobody got anything twice, and that what each counted adds up.
fn assert_sums(net: &Net) {
    for node in &net.nodes {
        let ids: BTreeSet<MessageId> = node.messages.iter().map(|(_, message)| message.id).collect();
        assert_eq!(ids.len(), node.messages.len(), "{} got something twice", node.core.me().id);
        let counted = node.core.counters().messages;
        let taken = counted.delivered + counted.duplicate + counted.dropped;
        assert_eq!(taken, counted.received + counted.delivered_here, "{counted:?}");
    }
}

fn seen(net: &Net) -> usize {
    net.nodes.iter().map(|node| node.messages.len()).sum()
}
