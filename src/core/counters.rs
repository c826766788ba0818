//! The counters of the core: traffic, and everything it refused, by reason.

use std::time::Duration;

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
    /// Seen before, or older than the replay window.
    Replayed,
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
    /// A command from an address other than its member's proven one.
    Unproven,
    /// A member's run, from an address that is not known to be the member's.
    Claimed,
    /// A sequence number further ahead than its sender can be.
    Jumped,
    /// The rest of a stranger's packet, behind the few messages that are read.
    Unread,
    /// An update about a member that its owner could not refute, or not soon: its incarnation is far ahead of the one
    /// held.
    Implausible,
}

impl DropReason {
    /// All reasons.
    pub const ALL: [DropReason; 18] = [
        DropReason::Malformed,
        DropReason::UnknownVersion,
        DropReason::UnknownKey,
        DropReason::OtherCluster,
        DropReason::Replayed,
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
        DropReason::Jumped,
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
            DropReason::Replayed => "replayed",
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
            DropReason::Jumped => "sequence_jump",
            DropReason::Unread => "unread",
            DropReason::Implausible => "implausible",
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
    /// Packets sent as plain heartbeats, with no other purpose.
    pub heartbeats_sent: u64,
    /// Packets that were a sign of life.
    pub signs_of_life: u64,
    /// Gossip packets sent on the tick.
    pub gossip_sent: u64,
    /// Updates sent, in any packet.
    pub updates_sent: u64,
    /// Updates received, in any packet.
    pub updates_received: u64,
    /// Updates received that changed the view.
    pub updates_merged: u64,
    /// Syncs begun because fingerprints stayed different.
    pub syncs: u64,
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
    /// Counters of messages between programs.
    pub messages: MessageCounters,
    /// Pauses of this process.
    pub pauses: u64,
    /// The lateness of this node's own ticks.
    pub tick_lateness: TickLateness,
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
    pub removed_runs: u64,
}

impl Counters {
    /// Counts one drop.
    pub(crate) fn drop(&mut self, reason: DropReason) {
        self.drops[reason as usize] += 1;
    }

    /// Returns the number of drops for this reason.
    pub fn dropped(&self, reason: DropReason) -> u64 {
        self.drops[reason as usize]
    }
}

/// The lateness of this node's own ticks, as a histogram.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TickLateness {
    counts: [u64; Self::BOUNDS.len() + 1],
    /// The sum of all lateness.
    pub sum: Duration,
    /// The greatest lateness of all.
    pub max: Duration,
}

impl TickLateness {
    /// Upper bounds of the buckets, inclusive; there is one more bucket for all ticks above.
    pub const BOUNDS: [Duration; 10] = [
        Duration::from_millis(1),
        Duration::from_millis(2),
        Duration::from_millis(5),
        Duration::from_millis(10),
        Duration::from_millis(25),
        Duration::from_millis(50),
        Duration::from_millis(100),
        Duration::from_millis(250),
        Duration::from_secs(1),
        Duration::from_secs(5),
    ];

    pub(super) fn observe(&mut self, late: Duration) {
        let bucket = Self::BOUNDS.iter().position(|bound| late <= *bound).unwrap_or(Self::BOUNDS.len());
        self.counts[bucket] += 1;
        self.sum = self.sum.saturating_add(late);
        self.max = self.max.max(late);
    }

    /// Returns the number of ticks in each bucket, not cumulative; the last is for those above all bounds.
    pub fn counts(&self) -> &[u64] {
        &self.counts
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lateness_is_counted_in_buckets_with_inclusive_bounds() {
        let mut lateness = TickLateness::default();
        for late in [0, 1, 2, 3, 5_000, 5_001] {
            lateness.observe(Duration::from_millis(late));
        }
        assert_eq!(lateness.counts(), [2, 1, 1, 0, 0, 0, 0, 0, 0, 1, 1]);
        assert_eq!((lateness.sum, lateness.max), (Duration::from_millis(10_007), Duration::from_millis(5_001)));
    }
}
