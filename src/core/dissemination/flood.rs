//! Flooding: new updates do not wait for the gossip tick.
//!
//! A new update is gathered with others for [`FLOOD_BATCH`] and sent on once by every node that learns it, except to
//! the peer it came from, and once more after [`FLOOD_AGAIN`] by its origin. It goes to both neighbours on the first
//! three rings of observers and to one random live peer: fixed rings beat random subsets, which leave some node out. In
//! a full mesh the origin reaches every member itself, and relays send to [`FLOOD_FANOUT`] random peers. Updates that
//! do not fit into one packet go in the next batch, so that a mass change is paced and bounded.
//!
//! Invariants: a node sends an update on once, and its origin twice; at most [`MAX_RECENT_UPDATES`] wait.
//!
//! Must not know: who believed the update, and why.

use std::collections::{BTreeMap, BTreeSet};

use rand::seq::IndexedRandom;

use super::Gossip;
use crate::context::Context;
use crate::limits::{FLOOD_AGAIN, FLOOD_BATCH, FLOOD_BUSY_BATCH, FLOOD_FANOUT, MAX_RECENT_UPDATES};
use crate::member::Run;
use crate::observers::Observers;
use crate::packet::Outbox;
use crate::time::Time;
use crate::timers::Timer;
use crate::view::{Slot, View, is_due};

/// Updates that are still to be sent on. All tables are bounded by [`MAX_RECENT_UPDATES`]: further updates travel by
/// gossip and sync.
#[derive(Debug, Clone, Default)]
pub(super) struct Flooding {
    /// New updates, and the run that each came from: the next run of that name has heard of nothing.
    fresh: BTreeMap<Slot, Option<Run>>,
    /// Updates that originate here: sent to more peers, and once more.
    own: BTreeSet<Slot>,
    again: BTreeSet<Slot>,
    /// Time at which updates were last sent on.
    last: Option<Time>,
}

impl Flooding {
    /// Marks the update about this member as originating here.
    pub(super) fn originate(&mut self, slot: Slot) {
        if self.fresh.contains_key(&slot) {
            self.own.insert(slot);
        }
    }

    /// Notes a new update; returns false if there is no room for it.
    fn note(&mut self, slot: Slot, from: Option<Run>) -> bool {
        let has_room = self.fresh.len() < MAX_RECENT_UPDATES || self.fresh.contains_key(&slot);
        if has_room {
            self.fresh.insert(slot, from);
        }
        has_room
    }

    pub(super) fn forget(&mut self, slot: Slot) {
        self.fresh.remove(&slot);
        self.own.remove(&slot);
        self.again.remove(&slot);
    }
}

impl Gossip {
    /// Notes a new update about a member, to be sent on.
    pub(super) fn flood_news(&mut self, cx: &mut Context, slot: Slot, from: Option<Run>) {
        self.flooding.own.remove(&slot);
        if self.flooding.note(slot, from) {
            // They are gathered for longer if some were sent a moment ago.
            let is_busy = !is_due(cx.now, self.flooding.last, FLOOD_BUSY_BATCH);
            let batch = if is_busy { FLOOD_BUSY_BATCH } else { FLOOD_BATCH };
            cx.timers.set_by(Timer::Flood, cx.now + batch);
        }
    }

    /// Sends on the gathered updates.
    pub(crate) fn flood(&mut self, out: &mut Outbox<'_>) {
        self.flooding.last = Some(out.cx.now);
        let fresh: Vec<_> = std::mem::take(&mut self.flooding.fresh).into_iter().collect();
        let is_own = fresh.iter().any(|(slot, _)| self.flooding.own.contains(slot));
        let sent = self.flood_to_targets(out, &fresh, is_own);
        let is_any_sent = sent.contains(&true);
        for ((slot, from), is_sent) in fresh.into_iter().zip(sent) {
            if is_sent {
                if self.flooding.own.remove(&slot) {
                    self.flooding.again.insert(slot);
                    out.cx.timers.set_by(Timer::FloodAgain, out.cx.now + FLOOD_AGAIN);
                }
            } else if is_any_sent {
                // The packets were full. (If nothing at all fitted, nothing will: that is left to gossip.)
                self.flooding.note(slot, from);
                out.cx.timers.set_by(Timer::Flood, out.cx.now + FLOOD_BATCH);
            }
        }
    }

    /// Sends this node's own updates for the second time.
    pub(crate) fn flood_own_again(&mut self, out: &mut Outbox<'_>) {
        let again: Vec<_> = std::mem::take(&mut self.flooding.again).into_iter().map(|slot| (slot, None)).collect();
        self.flood_to_targets(out, &again, true);
    }

    /// Sends updates, in this order, to this batch's targets; returns for each whether it fitted (or needs no sending).
    fn flood_to_targets(&mut self, out: &mut Outbox<'_>, news: &[(Slot, Option<Run>)], is_own: bool) -> Vec<bool> {
        let targets = self.flood_targets(out.view, out.observers, is_own);
        let mut sent = vec![targets.is_empty(); news.len()];
        for target in targets {
            let mut packet = out.packet_to(target);
            let mut carries_news = false;
            let its_run = out.view.record(target).run;
            for (i, (slot, from)) in news.iter().enumerate() {
                // The peer that sent us an update has it, and a node knows itself best.
                if *from == Some(its_run) || *slot == target {
                    sent[i] = true;
                    continue;
                }
                if !out.push_news(&mut packet, *slot) {
                    break;
                }
                carries_news = true;
                sent[i] = true;
                self.recent.sent(*slot);
            }
            // A suspect learns of its suspicion from the members that spread it, by the message that every packet to it
            // carries.
            if carries_news || news.iter().any(|(slot, _)| *slot == target) {
                out.send_to(target, packet);
            }
        }
        sent
    }

    /// Returns the members that news is sent to: more of them if it `is_own`.
    pub(crate) fn flood_targets(&mut self, view: &View, observers: &Observers, is_own: bool) -> Vec<Slot> {
        let live = view.live();
        if !observers.is_full_mesh(live.len()) {
            let mut targets = observers.flood_targets();
            if is_own {
                targets.extend(observers.displaced());
            }
            targets.extend(live.choose(&mut self.rng));
            return targets.into_iter().collect();
        }
        if is_own || live.len() <= FLOOD_FANOUT {
            return live.to_vec();
        }
        live.sample(&mut self.rng, FLOOD_FANOUT).copied().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn so_many_updates_wait_to_be_sent_on_and_those_go_on_being_noted() {
        let mut flooding = Flooding::default();
        let most = MAX_RECENT_UPDATES as Slot;
        assert!((0..most).all(|slot| flooding.note(slot, None)));
        assert!(!flooding.note(most, None), "one more");
        assert!(flooding.note(0, Some(Run(1))), "it is there already");
        assert_eq!(flooding.fresh.len(), MAX_RECENT_UPDATES);
    }
}
