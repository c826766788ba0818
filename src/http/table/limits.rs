//! Limits of the table: the most connections of each kind, and the room that each tier leaves for those above it.
//!
//! Invariant: whatever is configured, every tier has room of its own.
//!
//! Must not know: connections.

use super::Kind;

/// The smallest limit of connections the server works with; smaller ones are raised to it.
pub const MIN_CONNECTIONS: usize = 4;
/// Connections kept free for each tier of answers above event streams, where there are enough of them.
const TIER_CONNECTIONS: usize = 8;
/// Large answers under way at one time.
pub const MAX_LARGE_ANSWERS: usize = 256;
/// Messages under way at one time that were sent to one node, most of them requests that wait for a program's answer.
pub const MAX_MESSAGES: usize = 256;
/// Answers to requests under way at one time.
pub const MAX_REPLIES: usize = 128;
/// All other commands under way at one time.
pub const MAX_COMMANDS: usize = 64;

/// The size of the frames of messages that readers have not taken, in bytes together: each is made for one reader.
pub const MAX_UNREAD_MESSAGE_BYTES: usize = 4 * 1024 * 1024;

/// The most connections of each kind, derived from the two figures of the configuration.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Limits {
    /// Connections open at one time, event streams included.
    pub(crate) connections: usize,
    /// Event streams.
    pub(crate) streams: usize,
    /// Connections that the tiers above keep free.
    tier: usize,
}

impl Limits {
    pub(crate) fn new(connections: usize, streams: usize) -> Self {
        let connections = connections.max(MIN_CONNECTIONS);
        let tier = (connections / (3 * TIER_CONNECTIONS)).clamp(1, TIER_CONNECTIONS);
        Self { connections, streams: streams.clamp(1, connections - 3 * tier), tier }
    }

    /// Returns the most of one kind.
    pub(super) fn of(self, kind: Kind) -> usize {
        match kind {
            Kind::Short => self.connections,
            Kind::Stream => self.streams,
            Kind::Large => MAX_LARGE_ANSWERS.min(self.connections / 2),
            Kind::Message => MAX_MESSAGES.min(self.connections / 2),
            Kind::Reply => MAX_REPLIES.min(self.connections / 2),
            Kind::Command => MAX_COMMANDS.min(self.connections / 2),
        }
    }

    /// Returns the most of this kind and the kinds below it together.
    pub(super) fn tier(self, kind: Kind) -> usize {
        match kind {
            Kind::Short => self.connections,
            Kind::Stream => self.connections - 3 * self.tier,
            Kind::Large => self.connections - 2 * self.tier,
            // Requests wait for answers, which therefore have room beside them.
            Kind::Message => self.connections - 2 * self.tier + self.tier / 4,
            Kind::Reply => self.connections - 2 * self.tier + self.tier / 2,
            Kind::Command => self.connections - self.tier,
        }
    }
}
