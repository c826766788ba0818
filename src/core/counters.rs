//! What the core counts: traffic, and everything it refused, by reason.

use std::time::Duration;

/// Why a packet or a part of it was dropped.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Drop {
    /// Too short, wrong magic, bytes that do not decode or do not re-encode to themselves, values out of bounds.
    Malformed,
    /// A format version that this build does not speak.
    UnknownVersion,
    /// Sealed with a key, where none is used.
    UnknownKey,
    /// Another cluster's.
    OtherCluster,
    /// Seen before, or older than the replay window.
    Replayed,
    /// From this very process.
    Own,
    /// From a run that is not in the view.
    UnknownRun,
    /// A kind of message that this build does not know.
    UnknownMessage,
    /// An answer to a question that was not asked (any more).
    Unasked,
    /// A record too old to be merged, or covered by a tombstone.
    Outdated,
    /// More than a rate limit allows.
    RateLimited,
    /// A table is full.
    TableFull,
    /// Not meant for a node in this state.
    WrongState,
    /// A command from somewhere else than its member's proven address.
    Unproven,
    /// A member's run in a packet from where the member is not known to be.
    Claimed,
    /// A sequence number further ahead than its sender can be.
    Jumped,
    /// The rest of a stranger's packet, behind the few messages that are looked at.
    Unread,
    /// News of a member that its owner could not refute, or not soon: an incarnation far ahead of what is held.
    Implausible,
}

impl Drop {
    /// All reasons.
    pub const ALL: [Drop; 18] = [
        Drop::Malformed,
        Drop::UnknownVersion,
        Drop::UnknownKey,
        Drop::OtherCluster,
        Drop::Replayed,
        Drop::Own,
        Drop::UnknownRun,
        Drop::UnknownMessage,
        Drop::Unasked,
        Drop::Outdated,
        Drop::RateLimited,
        Drop::TableFull,
        Drop::WrongState,
        Drop::Unproven,
        Drop::Claimed,
        Drop::Jumped,
        Drop::Unread,
        Drop::Implausible,
    ];

    /// Its name as a metric label.
    pub const fn name(self) -> &'static str {
        match self {
            Drop::Malformed => "malformed",
            Drop::UnknownVersion => "unknown_version",
            Drop::UnknownKey => "unknown_key",
            Drop::OtherCluster => "other_cluster",
            Drop::Replayed => "replayed",
            Drop::Own => "own",
            Drop::UnknownRun => "unknown_run",
            Drop::UnknownMessage => "unknown_message",
            Drop::Unasked => "unasked",
            Drop::Outdated => "outdated",
            Drop::RateLimited => "rate_limited",
            Drop::TableFull => "table_full",
            Drop::WrongState => "wrong_state",
            Drop::Unproven => "unproven",
            Drop::Claimed => "claimed",
            Drop::Jumped => "sequence_jump",
            Drop::Unread => "unread",
            Drop::Implausible => "implausible",
        }
    }
}

/// Totals since the start of the process.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Counters {
    /// Datagrams received, whatever became of them.
    pub packets_received: u64,
    /// Their payload bytes.
    pub bytes_received: u64,
    /// Datagrams sent.
    pub packets_sent: u64,
    /// Their payload bytes.
    pub bytes_sent: u64,
    /// Packets sent for nothing but to be heard.
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
    /// Repairs begun because fingerprints stayed different.
    pub syncs: u64,
    /// Probes sent.
    pub probes_sent: u64,
    /// Times others had heard a member that this node had not.
    pub degraded_links: u64,
    /// Suspicions raised by this node.
    pub suspicions_raised: u64,
    /// Members that were Up and became Suspect or Down by their silence, at this node's own word or another's.
    pub suspicions_believed: u64,
    /// Suspicions of anybody that were refuted.
    pub suspicions_refuted: u64,
    /// Suspicions of anybody that ended as Down.
    pub suspicions_confirmed: u64,
    /// Times this node refuted its own suspicion or death.
    pub refutations: u64,
    /// Frames sent over links.
    pub frames_sent: u64,
    /// Their bytes, without TCP's.
    pub frame_bytes_sent: u64,
    /// Frames received over links, whatever became of them.
    pub frames_received: u64,
    /// Their bytes, without TCP's.
    pub frame_bytes_received: u64,
    /// Links that broke without a goodbye.
    pub links_lost: u64,
    /// Processes that this node found gone because their ports refused, and said so first.
    pub crashes_detected: u64,
    /// Broken links whose other end turned out to live.
    pub crashes_refuted: u64,
    /// Words sent to other voters.
    pub election_sent: u64,
    /// Messages between programs.
    pub messages: MessageCounters,
    /// Pauses of this process.
    pub pauses: u64,
    /// How late the own ticks were.
    pub tick_lateness: TickLateness,
    drops: [u64; Drop::ALL.len()],
}

/// Messages between programs. Every copy that comes from another member is delivered, a duplicate, or dropped; what this
/// node says to everybody, or to itself, is delivered here, too:
/// `delivered + duplicate + dropped == received + delivered_here`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct MessageCounters {
    /// Messages that this node began: broadcasts, and what was sent to one node, answers included.
    pub sent: u64,
    /// Messages given to this node's programs, answers to its requests included.
    pub delivered: u64,
    /// Those of them that began here.
    pub delivered_here: u64,
    /// Messages of this node that were refused, or of which no receipt or no answer came in time.
    pub failed: u64,
    /// Copies received.
    pub received: u64,
    /// Copies received of what was seen before, or is older than anybody remembers.
    pub duplicate: u64,
    /// Copies received and not taken for another reason; see the reasons for drops.
    pub dropped: u64,
    /// Copies of broadcasts sent to other members, this node's own and others'.
    pub copies_sent: u64,
}

impl Counters {
    /// Counts one drop.
    pub(crate) fn drop(&mut self, reason: Drop) {
        self.drops[reason as usize] += 1;
    }

    /// How often something was dropped for this reason.
    pub fn dropped(&self, reason: Drop) -> u64 {
        self.drops[reason as usize]
    }
}

/// How late this node's own ticks were: a histogram.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TickLateness {
    counts: [u64; Self::BOUNDS.len() + 1],
    /// All lateness together.
    pub sum: Duration,
    /// The latest tick of all.
    pub max: Duration,
}

impl TickLateness {
    /// Upper bounds of the buckets, inclusive; there is one more for all that is above.
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

    /// Ticks in each bucket, not summed up; the last is for those above all bounds.
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
