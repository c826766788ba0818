//! Gossip: in every `gossip_interval` packets to at least `gossip_fanout` peers, in turn.
//!
//! Heartbeats go round the same peers and carry the same, so they count: a tick sends only as many packets as
//! heartbeats leave of the fan-out. If heartbeats are frequent, each observer gets exactly one packet per heartbeat
//! interval, and gossip adds nothing.
//!
//! Peers are chosen in turn, not at random: every peer is sent to once before any is sent to again, so that the longest
//! wait is bounded (the round-robin selection of SWIM, section 4.3). The packet carries the fingerprint, and recent
//! updates for a peer whose own fingerprint, as last heard, differs (SWIM's piggybacking, section 4.1): each update at most
//! 3 × ⌈log2(n + 1)⌉ times (its λ log n). Answers to a peer whose fingerprint differs carry them, too, however often
//! (see `incoming::answer`).
//!
//! Invariants: those go first that have waited longest for a packet of this node, whatever it carried.
//!
//! Must not know: what else is done at a tick (see `inputs`).

use rand::RngExt;
use rand::seq::{IndexedRandom, SliceRandom};

use super::recent::Recent;
use crate::core::Core;
use crate::core::counters::Carrier;
use crate::core::timers::Timer;
use crate::core::view::Slot;
use crate::core::wire::PacketBuilder;

/// One tick in so many also sends to one peer out of all live members.
const STRANGER_ONE_IN: u32 = 10;

/// The state of gossip between ticks.
#[derive(Debug, Default)]
pub(in crate::core) struct Gossiping {
    /// Updates that may still be worth sending.
    pub(in crate::core) recent: Recent,
    /// The number of heartbeats sent since the last tick.
    pub(in crate::core) heartbeats: usize,
}

impl Gossiping {
    pub(in crate::core) fn forget(&mut self, slot: Slot) {
        self.recent.forget(slot);
    }
}

impl Core {
    /// Begins at a random point of the interval, so that nodes started together do not send together.
    pub(in crate::core) fn start_gossip(&mut self) {
        let phase = self.rng.random::<f64>();
        self.timers.set(Timer::Gossip, self.now + self.settings.gossip_interval.mul_f64(phase));
    }

    /// Sends to the peers whose turn it is, and sets the next tick.
    pub(in crate::core) fn gossip(&mut self) {
        let pace = 0.95 + 0.05 * self.rng.random::<f64>();
        self.timers.set(Timer::Gossip, self.now + self.settings.gossip_interval.mul_f64(pace));
        for slot in self.next_turns() {
            self.gossip_to(slot, Carrier::Gossip);
            self.counters.gossip_sent += 1;
        }
    }

    /// Sends a packet that is a heartbeat, with recent updates if the peer may lack some.
    pub(in crate::core) fn gossip_to(&mut self, slot: Slot, carrier: Carrier) {
        let mut packet = self.packet_to(slot);
        self.push_leader_renewal(&mut packet);
        if self.may_lack_news(slot) {
            let limit = self.carry_limit();
            self.push_recent_updates(&mut packet, limit);
        }
        self.push_held_broadcasts(&mut packet);
        self.send_as(carrier, slot, packet);
    }

    /// Returns the next peers in turn: those that have waited longest for a packet of ours, so that few of them need a
    /// plain heartbeat besides. Ties are broken at random.
    fn next_turns(&mut self) -> Vec<Slot> {
        let wanted = self.settings.gossip_fanout.saturating_sub(std::mem::take(&mut self.gossiping.heartbeats));
        let mut chosen = Vec::new();
        if wanted > 0 {
            chosen = self.gossip_peers();
            chosen.shuffle(&mut self.rng);
            chosen.sort_by_key(|slot| self.view.entry(*slot).peer.rare().last_sent);
            chosen.truncate(wanted);
        }
        // Now and then one out of all live members, so that no part of the graph is on its own for long.
        if !self.observers.is_full_mesh(self.view.live().len())
            && self.rng.random_range(0..STRANGER_ONE_IN) == 0
            && let Some(slot) = self.view.live().choose(&mut self.rng).copied()
            && !chosen.contains(&slot)
        {
            chosen.push(slot);
        }
        chosen
    }

    /// Returns true if a peer's fingerprint differed when it was last heard. Of peers that were never heard, only
    /// neighbours count as lacking updates: any other peer sees by our fingerprint that it lacks some, and shows it.
    fn may_lack_news(&self, slot: Slot) -> bool {
        let session = self.view.entry(slot).peer.session.as_ref();
        session.map_or_else(|| self.observes(slot), |session| session.fingerprint != self.view.fingerprint())
    }

    /// Returns the number of times that one update is carried: 3 × ⌈log2(n + 1)⌉.
    pub(super) fn carry_limit(&self) -> u32 {
        let members = self.view.live().len() + 1;
        3 * (usize::BITS - members.leading_zeros())
    }

    /// Adds recent updates that were sent fewer than `limit` times, as many as fit.
    pub(in crate::core) fn push_recent_updates(&mut self, packet: &mut PacketBuilder, limit: u32) {
        let slots: Vec<Slot> = self.gossiping.recent.fewest_sent(limit).collect();
        for slot in slots {
            if !self.push_news(packet, slot) {
                break;
            }
            self.gossiping.recent.sent(slot);
        }
    }
}
