//! Strangers that proved an address: a newcomer whose cookie came back, and what became of an introduction.
//!
//! Must not know: what is done about either (see `joining` and `discovery`).

use std::net::SocketAddr;

use crate::core::member::Record;
use crate::core::view::Slot;
use crate::core::wire::Nonce;

/// Somebody whose cookie came back.
#[derive(Debug, Clone)]
pub(in crate::core) struct Newcomer {
    /// Where answers go: the cookie was sent there.
    pub(in crate::core) from: SocketAddr,
    /// Where its packets come from.
    pub(in crate::core) heard_from: SocketAddr,
    pub(in crate::core) nonce: Nonce,
    pub(in crate::core) record: Record,
}

/// What became of an introduction.
#[derive(Debug, Clone, Copy)]
pub(in crate::core) enum Introduction {
    /// Not asked for, or not to be believed now.
    Ignored,
    /// Asked for, by a node that is Joining and takes nobody in.
    Met,
    /// It is in the view.
    Member,
    /// It lives, but we have buried it: it must be told, and refute.
    Buried {
        /// Of the tombstone.
        incarnation: u64,
    },
    /// We hold a newer record of its name.
    Outdated {
        /// Where.
        newer: Slot,
    },
}

impl Introduction {
    /// Whether it was asked for, and so proves its sender's address.
    pub(in crate::core) fn is_proven(self) -> bool {
        !matches!(self, Introduction::Ignored)
    }

    /// Whether its sender proved its address, and is no member.
    pub(in crate::core) fn is_unlisted(self) -> bool {
        matches!(self, Introduction::Buried { .. } | Introduction::Outdated { .. })
    }
}
