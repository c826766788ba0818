//! Dissemination: spreading updates to all members.
//!
//! | idea | file |
//! |---|---|
//! | at once, along rings (flooding) | `flood` |
//! | again and again, to a few peers each second (gossip), with the updates worth carrying | `gossip` |
//! | news about leases, passed on once | `lease_updates` |
//! | updates that were missed, found by fingerprints that stay different (anti-entropy) | `sync` |
//!
//! Owns: the updates that are still to be sent, and the number of times each was sent.
//!
//! Must not know: the meaning of a record, or whose record is believed. (News about leases is passed on of members
//! alone that are believed: `lease_updates` is told so.)

mod flood;
mod gossip;
mod lease_updates;
mod sync;

use rand_chacha::ChaCha8Rng;

use crate::context::Context;
use crate::member::Run;
use crate::view::Slot;
use flood::Flooding;
use gossip::{Recent, Rounds};
pub(crate) use lease_updates::LeaseUpdates;
use sync::FingerprintMismatch;

/// Everything by which updates spread: a machine. It is lent the outbox, and sends by itself; what else its packets carry is
/// the wiring's (see `wiring::spreading`).
#[derive(Debug, Clone)]
pub(crate) struct Gossip {
    rng: ChaCha8Rng,
    /// Updates that may still be worth sending.
    recent: Recent,
    rounds: Rounds,
    flooding: Flooding,
    sync: FingerprintMismatch,
}

impl Gossip {
    pub(crate) fn new(rng: ChaCha8Rng) -> Self {
        Self {
            rng,
            recent: Recent::default(),
            rounds: Rounds::default(),
            flooding: Flooding::default(),
            sync: FingerprintMismatch::default(),
        }
    }

    /// Notes that a member's record changed, as this run says. `is_own`: the change is this node's, which sends it to more peers,
    /// and once more.
    pub(crate) fn spread(&mut self, cx: &mut Context, slot: Slot, from: Option<Run>, is_own: bool) {
        self.recent.note(slot);
        self.flood_news(cx, slot, from);
        if is_own {
            self.flooding.originate(slot);
        }
    }

    /// Forgets a place in the view, before the table gives it to somebody else.
    pub(crate) fn forget(&mut self, slot: Slot) {
        self.recent.forget(slot);
        self.rounds.had_turn(slot);
        self.flooding.forget(slot);
    }

    /// Forgets everything but its random numbers.
    pub(crate) fn forget_everybody(&mut self) {
        *self = Self::new(self.rng.clone());
    }
}
