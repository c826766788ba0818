//! Precedence: which of two records of one node counts.
//!
//! Invariants:
//! - Merging is a maximum over `(incarnation, status, bytes)`: commutative, associative, idempotent. This makes the
//!   order and the number of deliveries irrelevant (SWIM, DSN 2002, section 4.2, with the rank of Down raised above a
//!   graceful departure under way).
//!
//! Must not know: who tells of a record (see `wiring::merging`).

use std::cmp::Ordering;

use super::Record;

impl Record {
    /// Compares two records of one node by `(incarnation, status)`; the greater one wins. `Equal` means that only the
    /// bytes can tell.
    pub fn precedence(&self, other: &Record) -> Ordering {
        self.incarnation.cmp(&other.incarnation).then(self.status.cmp(&other.status))
    }

    /// Returns true if `self` replaces `held` on merging: the maximum by precedence, ties broken by the encoded bytes.
    pub fn supersedes(&self, held: &Record) -> bool {
        match self.precedence(held) {
            Ordering::Greater => true,
            Ordering::Less => false,
            Ordering::Equal => self != held && self.encode() > held.encode(),
        }
    }
}
