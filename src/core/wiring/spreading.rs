//! Spreading: when updates go out, and what a gossip packet carries.
//!
//! Must not know: how peers and updates are chosen (see `dissemination`).

use crate::Core;
use crate::counters::Carrier;
use crate::dissemination::Gossip;
use crate::view::Slot;

impl Core {
    /// Gossips to the next peers.
    pub(crate) fn gossip(&mut self) {
        for slot in self.gossip.next_peers(&mut outbox!(self)) {
            self.gossip_to(slot, Carrier::Gossip);
            self.cx.counters.gossip_sent += 1;
        }
    }

    /// Sends a packet that is a heartbeat, and carries what the peer may lack: of the leader, of members, of broadcasts.
    pub(crate) fn gossip_to(&mut self, slot: Slot, carrier: Carrier) {
        if !self.observers.observes(slot) {
            return Gossip::show_fingerprint(&mut outbox!(self), slot);
        }
        let mut packet = self.out().packet_to(slot);
        self.push_leader_renewal(&mut packet);
        self.gossip.push_news_if_lacking(&mut outbox!(self), &mut packet, slot);
        self.messages.push_held(self.cx.now, &mut packet);
        self.out().send_as(carrier, slot, packet);
    }

    /// Returns the members that news is sent to: more of them if it `is_own`.
    pub(crate) fn flood_targets(&mut self, is_own: bool) -> Vec<Slot> {
        self.gossip.flood_targets(&self.view, &self.observers, is_own)
    }
}
