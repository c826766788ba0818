//! What the machine is lent, and what it says is to be done.
//!
//! Invariant: steps are carried out in the order in which they came about, before anything else happens.

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::time::Duration;

use crate::context::Phase;
use crate::counters::Counters;
use crate::discovery::Reunion;
use crate::election::{Ballot, Body, ElectionMessage};
use crate::io::Output;
use crate::settings::Settings;
use crate::time::Time;
use crate::timers::Timers;
use crate::view::{Slot, View};
use crate::wire::{LeaderClaim, Message, PacketBuilder};

/// What the machine is lent for a call.
pub(crate) struct LeadContext<'a> {
    pub(crate) now: Time,
    pub(crate) phase: Phase,
    pub(crate) settings: &'a Settings,
    pub(crate) view: &'a mut View,
    pub(crate) reunion: &'a Reunion,
    /// The time for which the input at hand may have waited while this process stood still.
    pub(crate) waited: Duration,
    /// The greatest size of a packet in a datagram.
    pub(crate) datagram_bytes: usize,
    pub(crate) counters: &'a mut Counters,
    pub(crate) timers: &'a mut Timers,
}

/// Something that is to be done for the machine.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum LeadStep {
    /// Give this to the driver.
    Output(Output),
    /// Make this ballot durable.
    Persist(Box<Ballot>),
    /// Send a message to a member, as an answer or by itself, over its link if there is one or as a datagram.
    Send { to: Slot, message: Message, is_answer: bool, is_by_link: bool },
    /// Send a voter's message to a member.
    SendToVoter { to: Slot, message: Box<ElectionMessage> },
    /// Send this claim to those to whom news are flooded; it is this node's own, or another's.
    Flood { claim: Box<LeaderClaim>, is_own: bool },
    /// Ask who is at this address.
    AskWho(SocketAddr),
    /// Ask who is at the addresses of missing seeds, and at these.
    LookFor(BTreeSet<SocketAddr>),
    /// Begin to leave, now that leadership was handed over.
    Leave,
}

impl LeadStep {
    /// Returns the step that sends a message to a member as a datagram.
    pub(super) fn tell(to: Slot, message: Message) -> Self {
        LeadStep::Send { to, message, is_answer: false, is_by_link: false }
    }

    /// Returns the step that answers a member by a datagram.
    pub(super) fn answer(to: Slot, message: Message) -> Self {
        LeadStep::Send { to, message, is_answer: true, is_by_link: false }
    }
}

/// Adds a message to a packet, without the difference between two views if it does not fit with it: whoever lacks the
/// view asks for it.
pub(crate) fn push_shortened(packet: &mut PacketBuilder, mut message: Message) {
    if packet.push(&message) {
        return;
    }
    match &mut message {
        Message::LeaderClaim(claim) => claim.delta = None,
        Message::Election(message) => {
            if let Body::Renew(renewal) = &mut message.body {
                renewal.delta = None;
            }
        }
        _ => return,
    }
    packet.push(&message);
}
