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
//! fingerprint differs carry them, too, however often (see `wiring::receiving`).
//!
//! A change is remembered by its member's slot, since only the newest record of a member is worth sending. At most
//! [`MAX_RECENT_UPDATES`] are kept; the most-sent ones are dropped first, and of those the oldest. Updates that are no
//! longer kept travel by sync.
//!
//! Invariants: nobody is sent to twice at one tick.
//!
//! Must not know: what else is done at a tick (see `wiring::inputs`), and what else gossip packets carry (see `wiring::spreading`).

use std::cmp::Reverse;
use std::collections::VecDeque;

use rand::RngExt;
use rand::seq::{IndexedRandom, SliceRandom};
use rand_chacha::ChaCha8Rng;

use super::flood::Flooding;
use super::sync::FingerprintMismatch;
use crate::context::Context;
use crate::limits::{ANYBODY_ONE_IN, MAX_RECENT_UPDATES};
use crate::map::Map;
use crate::member::Run;
use crate::packet::Outbox;
use crate::timers::Timer;
use crate::view::{Slot, View};
use crate::wire::{Message, PacketBuilder};

/// Everything by which updates spread: a machine. It is lent the outbox, and sends by itself; what else its packets carry is
/// the wiring's (see `wiring::spreading`).
#[derive(Debug, Clone)]
pub(crate) struct Gossip {
    pub(super) rng: ChaCha8Rng,
    /// Updates that may still be worth sending.
    pub(super) recent: Recent,
    rounds: Rounds,
    pub(super) flooding: Flooding,
    pub(super) sync: FingerprintMismatch,
}

/// The turns of peers.
#[derive(Debug, Clone, Default)]
struct Rounds {
    /// The number of heartbeats sent since the last tick.
    heartbeats: usize,
    /// The peers that are still to be sent to in this round; the next is at the back.
    round: Vec<Slot>,
}

impl Rounds {
    /// Notes that a peer is not sent to any more in this round.
    fn had_turn(&mut self, slot: Slot) {
        self.round.retain(|other| *other != slot);
    }
}

/// Updates by the number of times they were sent. Most changes are new ones, so the end at which those are added and
/// removed is the cheap one.
#[derive(Debug, Clone, Default)]
pub(super) struct Recent {
    /// The updates in falling order: the one to be sent first is at the back.
    order: VecDeque<Carried>,
    by_slot: Map<Slot, Carried>,
    counter: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Carried {
    times: u32,
    newest_first: Reverse<u64>,
    slot: Slot,
}

impl Recent {
    /// Notes a change of a member: its update starts anew.
    pub(crate) fn note(&mut self, slot: Slot) {
        self.counter += 1;
        let carried = Carried { times: 0, newest_first: Reverse(self.counter), slot };
        match self.by_slot.insert(slot, carried) {
            Some(before) => self.unlist(before),
            None if self.order.len() == MAX_RECENT_UPDATES => {
                if let Some(most_sent) = self.order.pop_front() {
                    self.by_slot.remove(&most_sent.slot);
                }
            }
            None => {}
        }
        // A newest update that was never sent comes first.
        self.order.push_back(carried);
    }

    /// Notes that an update was put into a packet.
    pub(crate) fn sent(&mut self, slot: Slot) {
        if let Some(before) = self.by_slot.get(&slot).copied() {
            let after = Carried { times: before.times.saturating_add(1), ..before };
            self.by_slot.insert(slot, after);
            self.unlist(before);
            let at = self.order.partition_point(|other| *other > after);
            self.order.insert(at, after);
        }
    }

    /// Forgets a member that is no longer in the table.
    pub(crate) fn forget(&mut self, slot: Slot) {
        if let Some(carried) = self.by_slot.remove(&slot) {
            self.unlist(carried);
        }
    }

    /// Returns the members whose update was sent fewer than `limit` times, fewest first.
    pub(super) fn fewest_sent(&self, limit: u32) -> impl Iterator<Item = Slot> {
        self.order.iter().rev().take_while(move |carried| carried.times < limit).map(|carried| carried.slot)
    }

    fn unlist(&mut self, carried: Carried) {
        if let Ok(at) = self.order.binary_search_by(|other| carried.cmp(other)) {
            self.order.remove(at);
        }
    }
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

    /// Begins at a random point of the interval, so that nodes started together do not send together.
    pub(crate) fn start(&mut self, cx: &mut Context) {
        let phase = self.rng.random::<f64>();
        cx.timers.set(Timer::Gossip, cx.now + cx.settings.gossip_interval.mul_f64(phase));
    }

    /// Notes a heartbeat, which is gossip that was due before its tick.
    pub(crate) fn note_heartbeat(&mut self, slot: Slot) {
        self.rounds.heartbeats += 1;
        self.rounds.had_turn(slot);
    }

    /// Returns the peers of this tick, the next of the round and some of all live members, and sets the next tick.
    pub(crate) fn next_peers(&mut self, out: &mut Outbox<'_>) -> Vec<Slot> {
        let pace = 0.95 + 0.05 * self.rng.random::<f64>();
        out.cx.timers.set(Timer::Gossip, out.cx.now + out.cx.settings.gossip_interval.mul_f64(pace));
        let (fanout, live) = (out.cx.settings.gossip_fanout, out.view.live());
        let is_mesh = out.observers.is_full_mesh(live.len());
        let is_for_anybody = |_: &usize| !is_mesh && self.rng.random_ratio(1, ANYBODY_ONE_IN);
        let for_anybody = (0..fanout).filter(is_for_anybody).count();
        let heartbeats = std::mem::take(&mut self.rounds.heartbeats);
        let peers = if out.cx.phase.is_joining() { Vec::new() } else { out.observers.gossip_peers() };
        let mut chosen = self.next_of_round((fanout - for_anybody).saturating_sub(heartbeats), peers);
        for _ in 0..for_anybody {
            chosen.extend(live.choose(&mut self.rng).filter(|slot| !chosen.contains(slot)));
        }
        self.rounds.round.retain(|slot| !chosen.contains(slot));
        chosen
    }

    /// Takes the next peers out of the round; where it ends, the next ones of another one that are not among them.
    fn next_of_round(&mut self, wanted: usize, mut peers: Vec<Slot>) -> Vec<Slot> {
        let round = &mut self.rounds.round;
        round.retain(|slot| peers.contains(slot));
        let mut chosen = round.split_off(round.len().saturating_sub(wanted));
        if chosen.len() < wanted {
            peers.shuffle(&mut self.rng);
            *round = peers;
            while chosen.len() < wanted
                && let Some(at) = round.iter().rposition(|slot| !chosen.contains(slot))
            {
                chosen.push(round.remove(at));
            }
        }
        chosen
    }

    /// Sends the fingerprint alone: a member whose own differs begins a sync. What this node knows of the views of members
    /// that it does not observe is old, and a question, of which most are due in a large cluster, would be answered.
    pub(crate) fn show_fingerprint(out: &mut Outbox<'_>, slot: Slot) {
        let mut packet = out.packet(usize::MAX);
        packet.push(&Message::Heartbeat(out.view.entry(slot).peer.stamp(out.cx.now)));
        out.push_told(&mut packet, slot);
        out.send_to(slot, packet);
    }

    /// Adds recent updates for a peer whose fingerprint differed when it was last heard. Of peers that were never heard, only
    /// neighbours count as lacking updates: any other peer sees by our fingerprint that it lacks some, and shows it.
    pub(crate) fn push_news_if_lacking(&mut self, out: &mut Outbox<'_>, packet: &mut PacketBuilder, slot: Slot) {
        let session = out.view.entry(slot).peer.session.as_ref();
        let may_lack_news = match session {
            Some(session) => session.fingerprint != out.view.fingerprint(),
            None => out.observers.observes(slot),
        };
        if may_lack_news {
            self.push_recent_updates(out, packet, carry_limit(out.view));
        }
    }

    /// Adds recent updates that were sent fewer than `limit` times, as many as fit.
    pub(crate) fn push_recent_updates(&mut self, out: &mut Outbox<'_>, packet: &mut PacketBuilder, limit: u32) {
        let slots: Vec<Slot> = self.recent.fewest_sent(limit).collect();
        for slot in slots {
            if !out.push_news(packet, slot) {
                break;
            }
            self.recent.sent(slot);
        }
    }
}

/// Returns the number of times that one update is carried: 3 × ⌈log2(n + 1)⌉.
fn carry_limit(view: &View) -> u32 {
    let members = view.live().len() + 1;
    3 * (usize::BITS - members.leading_zeros())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_sent_fewest_goes_first_and_stops_at_the_limit() {
        let mut recent = Recent::default();
        for slot in [1, 2, 3] {
            recent.note(slot);
        }
        recent.sent(3);
        recent.sent(3);
        recent.sent(1);
        assert_eq!(recent.fewest_sent(u32::MAX).collect::<Vec<_>>(), [2, 1, 3]);
        assert_eq!(recent.fewest_sent(2).collect::<Vec<_>>(), [2, 1]);
        recent.note(3);
        assert_eq!(recent.fewest_sent(u32::MAX).next(), Some(3), "news starts anew");
    }

    #[test]
    fn the_most_sent_gives_way_at_the_bound() {
        let mut recent = Recent::default();
        for slot in 0..MAX_RECENT_UPDATES as Slot {
            recent.note(slot);
        }
        recent.sent(7);
        recent.note(10_000);
        assert_eq!(recent.fewest_sent(u32::MAX).count(), MAX_RECENT_UPDATES);
        assert!(!recent.fewest_sent(u32::MAX).any(|slot| slot == 7));
    }
}
