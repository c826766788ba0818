//! Gossip: in every `gossip_interval` packets to `gossip_fanout` peers at random.
//!
//! The peers are the observers of this node, by rounds: each is sent to once in a round, in an order that is shuffled
//! anew for every round (SWIM, section 4.3). Pure chance would not bound the wait, and with one order for ever whatever
//! comes at regular times (a burst of traffic, a job) would always hit the packets of the same pairs. Who comes to be
//! observed during a round is in the next one. Where not all nodes observe each other, some of the packets go to any
//! live member, so that no part of the graph is on its own for long.
//!
//! Heartbeats go to the same peers and carry the same, so they count, as the peer's turn and as part of the fan-out. If
//! they are frequent, each observer gets exactly one packet per heartbeat interval, and gossip adds none to those.
//!
//! The packet carries the fingerprint, and recent updates for a peer whose own fingerprint, as last heard, differs (SWIM's
//! piggybacking, section 4.1): each update at most 3 × ⌈log2(n + 1)⌉ times (its λ log n). Answers to a peer whose
//! fingerprint differs carry them, too, however often (see `incoming::answer`).
//!
//! Invariants: nobody is sent to twice at one tick.
//!
//! Must not know: what else is done at a tick (see `inputs`).

use rand::RngExt;
use rand::seq::{IndexedRandom, SliceRandom};

use super::recent::Recent;
use crate::Core;
use crate::counters::Carrier;
use crate::limits::ANYBODY_ONE_IN;
use crate::timers::Timer;
use crate::view::Slot;
use crate::wire::{Message, PacketBuilder};

/// The state of gossip between ticks.
#[derive(Debug, Clone, Default)]
pub(crate) struct Gossiping {
    /// Updates that may still be worth sending.
    pub(crate) recent: Recent,
    /// The number of heartbeats sent since the last tick.
    pub(crate) heartbeats: usize,
    /// The peers that are still to be sent to in this round; the next is at the back.
    round: Vec<Slot>,
}

impl Gossiping {
    pub(crate) fn forget(&mut self, slot: Slot) {
        self.recent.forget(slot);
        self.had_turn(slot);
    }

    /// Notes that a peer is not sent to any more in this round.
    fn had_turn(&mut self, slot: Slot) {
        self.round.retain(|other| *other != slot);
    }

    /// Notes a heartbeat, which is gossip that was due before its tick.
    pub(crate) fn note_heartbeat(&mut self, slot: Slot) {
        self.heartbeats += 1;
        self.had_turn(slot);
    }
}

impl Core {
    /// Begins at a random point of the interval, so that nodes started together do not send together.
    pub(crate) fn start_gossip(&mut self) {
        let phase = self.random.gossip.random::<f64>();
        self.cx.timers.set(Timer::Gossip, self.cx.now + self.cx.settings.gossip_interval.mul_f64(phase));
    }

    /// Sends to the next peers, and sets the next tick.
    pub(crate) fn gossip(&mut self) {
        let pace = 0.95 + 0.05 * self.random.gossip.random::<f64>();
        self.cx.timers.set(Timer::Gossip, self.cx.now + self.cx.settings.gossip_interval.mul_f64(pace));
        for slot in self.next_peers() {
            self.gossip_to(slot, Carrier::Gossip);
            self.cx.counters.gossip_sent += 1;
        }
    }

    /// Sends a packet that is a heartbeat, with recent updates if the peer may lack some.
    pub(crate) fn gossip_to(&mut self, slot: Slot, carrier: Carrier) {
        if !self.observers.observes(slot) {
            return self.show_fingerprint(slot);
        }
        let mut packet = self.out().packet_to(slot);
        self.push_leader_renewal(&mut packet);
        if self.may_lack_news(slot) {
            let limit = self.carry_limit();
            self.push_recent_updates(&mut packet, limit);
        }
        self.push_held_broadcasts(&mut packet);
        self.out().send_as(carrier, slot, packet);
    }

    /// Sends the fingerprint alone: a member whose own differs begins a sync. What this node knows of the views of members
    /// that it does not observe is old, and a question, of which most are due in a large cluster, would be answered.
    fn show_fingerprint(&mut self, slot: Slot) {
        let mut packet = self.out().packet(usize::MAX);
        packet.push(&Message::Heartbeat(self.view.entry(slot).peer.stamp(self.cx.now)));
        self.out().push_told(&mut packet, slot);
        self.out().send_to(slot, packet);
    }

    /// Returns the peers of this tick: the next of the round, and some of all live members.
    fn next_peers(&mut self) -> Vec<Slot> {
        let fanout = self.cx.settings.gossip_fanout;
        let is_mesh = self.observers.is_full_mesh(self.view.live().len());
        let is_for_anybody = |_: &usize| !is_mesh && self.random.gossip.random_ratio(1, ANYBODY_ONE_IN);
        let for_anybody = (0..fanout).filter(is_for_anybody).count();
        let heartbeats = std::mem::take(&mut self.gossiping.heartbeats);
        let mut chosen = self.next_of_round((fanout - for_anybody).saturating_sub(heartbeats));
        for _ in 0..for_anybody {
            chosen.extend(self.view.live().choose(&mut self.random.gossip).filter(|slot| !chosen.contains(slot)));
        }
        self.gossiping.round.retain(|slot| !chosen.contains(slot));
        chosen
    }

    /// Takes the next peers out of the round; where it ends, the next ones of another one that are not among them.
    fn next_of_round(&mut self, wanted: usize) -> Vec<Slot> {
        let is_joining = matches!(self.cx.phase, crate::context::Phase::Joining);
        let mut peers = if is_joining { Vec::new() } else { self.observers.gossip_peers() };
        let round = &mut self.gossiping.round;
        round.retain(|slot| peers.contains(slot));
        let mut chosen = round.split_off(round.len().saturating_sub(wanted));
        if chosen.len() < wanted {
            peers.shuffle(&mut self.random.gossip);
            *round = peers;
            while chosen.len() < wanted
                && let Some(at) = round.iter().rposition(|slot| !chosen.contains(slot))
            {
                chosen.push(round.remove(at));
            }
        }
        chosen
    }

    /// Returns true if a peer's fingerprint differed when it was last heard. Of peers that were never heard, only
    /// neighbours count as lacking updates: any other peer sees by our fingerprint that it lacks some, and shows it.
    fn may_lack_news(&self, slot: Slot) -> bool {
        let session = self.view.entry(slot).peer.session.as_ref();
        session.map_or_else(|| self.observers.observes(slot), |session| session.fingerprint != self.view.fingerprint())
    }

    /// Returns the number of times that one update is carried: 3 × ⌈log2(n + 1)⌉.
    pub(super) fn carry_limit(&self) -> u32 {
        let members = self.view.live().len() + 1;
        3 * (usize::BITS - members.leading_zeros())
    }

    /// Adds recent updates that were sent fewer than `limit` times, as many as fit.
    pub(crate) fn push_recent_updates(&mut self, packet: &mut PacketBuilder, limit: u32) {
        let slots: Vec<Slot> = self.gossiping.recent.fewest_sent(limit).collect();
        for slot in slots {
            if !self.out().push_news(packet, slot) {
                break;
            }
            self.gossiping.recent.sent(slot);
        }
    }
}
