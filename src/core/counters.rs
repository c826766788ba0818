//! The counters of the core: traffic, and everything it refused, by reason; times are counted in a `histogram`.
//!
//! Invariants: a counter never falls.
//!
//! Must not know: why something is counted.

mod histogram;

use std::time::Duration;

pub use self::histogram::Histogram;
use crate::member::DetectionMethod;

/// The reason why a packet or a part of it was dropped.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum DropReason {
    /// Too short, wrong magic, bytes that cannot be decoded or do not re-encode to themselves, values out of bounds.
    Malformed,
    /// A format version that this build does not speak.
    UnknownVersion,
    /// Sealed with a key, but this node uses none.
    UnknownKey,
    /// From another cluster.
    OtherCluster,
    /// Seen before, or so late that nobody knows: a second copy by the network or by another way.
    Duplicate,
    /// From this very run: a packet of our own.
    Own,
    /// From a run that is not in the view.
    UnknownRun,
    /// A kind of message that this build does not know.
    UnknownMessage,
    /// An answer to a question that was not asked, or is not open any more.
    Unasked,
    /// A record too old to be merged, or covered by a tombstone.
    Outdated,
    /// More than a rate limit allows.
    RateLimited,
    /// A table is full.
    TableFull,
    /// Not meant for a node in this state.
    WrongState,
    /// A request for broadcasts of a member whose address is not proven: they are larger than the request.
    Unproven,
    /// In a member's name by a way that is not known to lead to it: a connection while its address is not proven, a datagram
    /// that is bound to nobody.
    Claimed,
    /// A message that needs a receiver, in a sealed packet that is bound to none.
    Unread,
    /// An accusation of a member that has refuted such ones again and again, or news of a leader that cannot be true.
    Implausible,
}

impl DropReason {
    /// All reasons.
    pub const ALL: [DropReason; 17] = [
        DropReason::Malformed,
        DropReason::UnknownVersion,
        DropReason::UnknownKey,
        DropReason::OtherCluster,
        DropReason::Duplicate,
        DropReason::Own,
        DropReason::UnknownRun,
        DropReason::UnknownMessage,
        DropReason::Unasked,
        DropReason::Outdated,
        DropReason::RateLimited,
        DropReason::TableFull,
        DropReason::WrongState,
        DropReason::Unproven,
        DropReason::Claimed,
        DropReason::Unread,
        DropReason::Implausible,
    ];

    /// Returns the reason's name as a metric label.
    pub const fn name(self) -> &'static str {
        match self {
            DropReason::Malformed => "malformed",
            DropReason::UnknownVersion => "unknown_version",
            DropReason::UnknownKey => "unknown_key",
            DropReason::OtherCluster => "other_cluster",
            DropReason::Duplicate => "duplicate",
            DropReason::Own => "own",
            DropReason::UnknownRun => "unknown_run",
            DropReason::UnknownMessage => "unknown_message",
            DropReason::Unasked => "unasked",
            DropReason::Outdated => "outdated",
            DropReason::RateLimited => "rate_limited",
            DropReason::TableFull => "table_full",
            DropReason::WrongState => "wrong_state",
            DropReason::Unproven => "unproven",
            DropReason::Claimed => "claimed",
            DropReason::Unread => "unread",
            DropReason::Implausible => "implausible",
        }
    }
}

/// The purpose for which a heartbeat, a datagram to an observed member, was sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Carrier {
    /// Heartbeats, with what the observer may lack.
    Heartbeat,
    /// Anything else: answers, news, messages.
    Other,
}

impl Carrier {
    /// All carriers.
    pub const ALL: [Carrier; 2] = [Carrier::Heartbeat, Carrier::Other];

    /// Returns the carrier's name as a metric label.
    pub const fn name(self) -> &'static str {
        match self {
            Carrier::Heartbeat => "heartbeat",
            Carrier::Other => "other",
        }
    }
}

/// Totals since the start of the process.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Counters {
    /// Datagrams received, used or not.
    pub packets_received: u64,
    /// Payload bytes of datagrams received.
    pub bytes_received: u64,
    /// Datagrams sent.
    pub packets_sent: u64,
    /// Payload bytes of datagrams sent.
    pub bytes_sent: u64,
    /// Datagrams sent to observed members, which observe this node: each is a heartbeat, in the order of [`Carrier::ALL`].
    pub heartbeats_sent: [u64; Carrier::ALL.len()],
    /// Heartbeats of observed members that came, of those that are sent in turn.
    pub heartbeats_received: u64,
    /// Times that such a heartbeat was lost, or later than a probe may be, when the next packet of the member came.
    pub heartbeats_missed: u64,
    /// Packets that were a sign of life.
    pub signs_of_life: u64,
    /// Gossip packets sent to any member, beside the heartbeats.
    pub gossip_sent: u64,
    /// Updates sent, in any packet.
    pub updates_sent: u64,
    /// Updates received, in any packet.
    pub updates_received: u64,
    /// Updates received that changed the view.
    pub updates_merged: u64,
    /// Syncs begun because fingerprints stayed different.
    pub syncs: u64,
    /// Sponsors whose pages of the view came only when smaller ones were asked for.
    pub pages_shrunk: u64,
    /// Probes sent.
    pub probes_sent: u64,
    /// Times that others had heard a member that this node had not.
    pub degraded_links: u64,
    /// Suspicions raised by this node.
    pub suspicions_raised: u64,
    /// Members that went from Up to Suspect or Down for silence, whether this node or another accused them.
    pub suspicions_believed: u64,
    /// Suspicions that were refuted, of any member and raised by any node.
    pub suspicions_refuted: u64,
    /// Suspicions that ended as Down, of any member and raised by any node.
    pub suspicions_confirmed: u64,
    /// Times that this node refuted its own suspicion or death.
    pub refutations: u64,
    /// Frames sent over links.
    pub frames_sent: u64,
    /// Bytes of frames sent over links, without TCP's own.
    pub frame_bytes_sent: u64,
    /// Frames received over links, used or not.
    pub frames_received: u64,
    /// Bytes of frames received over links, without TCP's own.
    pub frame_bytes_received: u64,
    /// Links that broke without having been ended by either side.
    pub links_lost: u64,
    /// Crashed processes that this node was the first to report, because their ports refused connections.
    pub crashes_detected: u64,
    /// Broken links whose other end turned out to be live.
    pub crashes_refuted: u64,
    /// Election messages sent to other voters.
    pub election_sent: u64,
    /// Attempts of this voter to be elected after which nobody leads.
    pub elections_failed: u64,
    /// Renewal intervals in which no majority of the voters acknowledged this leader.
    pub renewal_failures: u64,
    /// Counters of messages between programs.
    pub messages: MessageCounters,
    /// Pauses of this process.
    pub pauses: u64,
    /// The lateness of this node's own ticks.
    pub tick_lateness: Histogram,
    /// The round trips of this node's packets, by the members' echoes: at most one for each packet that this node sent,
    /// and none by an echo that was held for long.
    pub round_trips: Histogram,
    /// The age that the last sign of life of an observed member had reached when the next one came.
    pub heartbeat_ages: Histogram,
    detection_latency: [Histogram; Self::TIMED_METHODS.len()],
    drops: [u64; DropReason::ALL.len()],
}

/// Counters of messages between programs. Every copy that comes from another member is delivered, a duplicate, or
/// dropped; broadcasts of this node, and messages to itself, are delivered here, too:
/// `delivered + duplicate + dropped == received + delivered_here`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct MessageCounters {
    /// Messages that began at this node: broadcasts, and messages to one node, answers included.
    pub sent: u64,
    /// Messages given to this node's programs, answers to its requests included.
    pub delivered: u64,
    /// Delivered messages that began at this node.
    pub delivered_here: u64,
    /// Messages of this node that were refused, or that got no receipt or no answer in time.
    pub failed: u64,
    /// Copies received.
    pub received: u64,
    /// Copies received of a message that was seen before, or that is older than the window of any origin.
    pub duplicate: u64,
    /// Copies received and dropped for another reason; see the reasons for drops.
    pub dropped: u64,
    /// Copies of broadcasts sent to other members, of this node's own and of others'.
    pub copies_sent: u64,
    /// Broadcasts that gave way to later ones before their time: members that still lack them miss them.
    pub evicted: u64,
}

impl Counters {
    /// The methods by which a death is found out after a silence.
    pub const TIMED_METHODS: [DetectionMethod; 5] = [
        DetectionMethod::HeartbeatTimeout,
        DetectionMethod::ConnectionLost,
        DetectionMethod::NetworkPartition,
        DetectionMethod::HostSilent,
        DetectionMethod::ProcessStalled,
    ];

    /// Counts a member that was found Down by this method, so long after its last sign of life.
    pub fn detected(&mut self, method: DetectionMethod, latency: Duration) {
        if let Some(place) = Self::TIMED_METHODS.iter().position(|timed| *timed == method) {
            self.detection_latency[place].observe(latency);
        }
    }

    /// Returns the times from the last sign of life of a member to its being held as Down here, whoever found it out,
    /// for each method.
    pub fn detection_latency(&self) -> impl Iterator<Item = (DetectionMethod, &Histogram)> {
        Self::TIMED_METHODS.into_iter().zip(&self.detection_latency)
    }

    /// Counts one drop.
    pub fn drop(&mut self, reason: DropReason) {
        self.drops[reason as usize] += 1;
    }

    /// Returns the number of drops for this reason.
    pub fn dropped(&self, reason: DropReason) -> u64 {
        self.drops[reason as usize]
    }
}
