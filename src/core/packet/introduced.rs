//! Strangers that proved an address: a newcomer whose cookie came back, and the outcome of an introduction.
//!
//! Must not know: the handling of either (see `joining` and `discovery`).

use std::net::SocketAddr;

use crate::member::Record;
use crate::view::Slot;
use crate::wire::Nonce;

/// A node whose cookie came back.
#[derive(Debug, Clone)]
pub(crate) struct Newcomer {
    /// The address that answers go to: the cookie was sent there.
    pub(crate) from: SocketAddr,
    /// The source address of its packets.
    pub(crate) heard_from: SocketAddr,
    pub(crate) nonce: Nonce,
    pub(crate) record: Record,
}

/// The outcome of an introduction (`IAm`).
#[derive(Debug, Clone, Copy)]
pub(crate) enum Introduction {
    /// The introduction was not asked for, or is not to be believed now.
    Ignored,
    /// The introduction was asked for, by a node that is Joining and admits no members.
    Met,
    /// The introduced node is in the view.
    Member,
    /// The introduced node is live, but has a tombstone here: it must be told, and refute.
    Tombstoned {
        /// The incarnation of the tombstone.
        incarnation: u64,
    },
    /// A newer record of its name is held.
    Outdated {
        /// The slot of the newer record.
        newer: Slot,
    },
}

impl Introduction {
    /// Returns true if the introduction was asked for, and so proves its sender's address.
    pub(crate) fn is_proven(self) -> bool {
        !matches!(self, Introduction::Ignored)
    }

    /// Returns true if its sender proved its address, and is not a member.
    pub(crate) fn is_unlisted(self) -> bool {
        matches!(self, Introduction::Tombstoned { .. } | Introduction::Outdated { .. })
    }
}
