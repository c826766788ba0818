//! Confirmations: a departure or a removal is done when a few peers confirm that they hold the record.
//!
//! The update goes out with `Confirm{hash}`, again every [`CONFIRM_RETRY`] to peers that have not answered, until
//! [`CONFIRMATIONS`] of them (or all there are) have, or the time is over. It always ends. Only peers that are Up
//! count: if nine of ten leave at once, fellow leavers would confirm each other and vanish with the update. So a
//! leaving member itself confirms nothing while it knows of any member that stays.
//!
//! Invariants: at most [`CONFIRMATIONS`] peers are waited for, and none for ever.
//!
//! Must not know: what the record says.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use rand::seq::IndexedRandom;

use crate::Core;
use crate::doors::{Reply, StopReason, Ticket};
use crate::limits::{
    CONFIRM_RETRY, CONFIRMATIONS, FLOOD_FANOUT, MAX_PENDING_COMMANDS, MAX_REMOVALS, REMOVALS_INTERVAL,
};
use crate::member::{Run, Status};
use crate::time::Time;
use crate::timers::Timer;
use crate::view::{Slot, View};
use crate::wire::{Confirmation, Message, Nonce};

/// The action at the end of a confirmation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Purpose {
    /// This node's own Leaving was confirmed: it becomes Left.
    Leaving,
    /// This node's own Left was confirmed: it stops.
    Left,
    /// Answer a `remove` command.
    Removal(Ticket),
}

impl Purpose {
    /// Returns the ticket; this node's own departures have tickets that no driver draws.
    fn ticket(self) -> Ticket {
        match self {
            Purpose::Leaving => Ticket::MAX,
            Purpose::Left => Ticket::MAX - 1,
            Purpose::Removal(ticket) => ticket,
        }
    }
}

/// The records that wait to be confirmed; at most [`MAX_PENDING_COMMANDS`].
#[derive(Debug, Clone, Default)]
pub(crate) struct Confirmations {
    open: BTreeMap<Ticket, Open>,
    /// The beginning of this interval of removals, and their number in it.
    removals: Option<(Time, u32)>,
}

#[derive(Debug, Clone)]
struct Open {
    purpose: Purpose,
    slot: Slot,
    hash: u64,
    by: BTreeSet<Run>,
    deadline: Time,
}

impl Confirmations {
    /// Returns the number of open confirmations.
    pub(crate) fn size(&self) -> usize {
        self.open.len()
    }

    pub(super) fn cancel(&mut self, purpose: Purpose) {
        self.open.remove(&purpose.ticket());
    }

    /// Counts one more removal; returns true if it may be made now.
    pub(super) fn take_removal(&mut self, now: Time) -> bool {
        let (began, count) = self.removals.get_or_insert((now, 0));
        if now.since(*began) >= REMOVALS_INTERVAL {
            (*began, *count) = (now, 0);
        }
        *count += 1;
        *count <= MAX_REMOVALS
    }

    pub(super) fn has_room(&self) -> bool {
        self.open.len() < MAX_PENDING_COMMANDS
    }
}

impl Core {
    /// Spreads the present record of `slot` and asks for its confirmation, for at most `wait`.
    pub(super) fn ask_for_confirmation(&mut self, purpose: Purpose, slot: Slot, wait: Duration) {
        let hash = self.view.entry(slot).hash;
        let open = Open { purpose, slot, hash, by: BTreeSet::new(), deadline: self.cx.now + wait };
        self.confirmations.open.insert(purpose.ticket(), open);
        self.ask_for_confirmation_again(purpose.ticket());
    }

    /// Asks the peers that have not answered, or ends.
    pub(crate) fn ask_for_confirmation_again(&mut self, ticket: Ticket) {
        let Some(open) = self.confirmations.open.get(&ticket) else { return };
        let (slot, hash, deadline) = (open.slot, open.hash, open.deadline);
        let is_current = self.view.get(slot).is_some_and(|entry| entry.hash == hash);
        let witnesses = self.witnesses();
        if self.cx.now >= deadline || !is_current || self.is_confirmed(open, &witnesses) {
            return self.end_confirmation(ticket);
        }
        let is_unasked = |peer: &Slot| !open.by.contains(&self.view.record(*peer).run) && *peer != slot;
        let unasked = witnesses.into_iter().filter(is_unasked);
        // Its own observers should hear it from this node itself: the word of others about it may not be believed.
        let (mut peers, others): (Vec<Slot>, Vec<Slot>) =
            unasked.partition(|peer| slot == View::ME && self.observers.observes(*peer));
        let more = FLOOD_FANOUT.max(self.cx.settings.observers).saturating_sub(peers.len());
        peers.extend(others.sample(&mut self.random.commands, more));
        for peer in peers {
            let mut packet = self.out().packet_to(peer);
            if self.out().push_update(&mut packet, slot) {
                packet.push(&Message::Confirm(Confirmation { record: Nonce(hash) }));
            }
            self.out().send_to(peer, packet);
        }
        self.cx.timers.set(Timer::Confirm(ticket), deadline.min(self.cx.now + CONFIRM_RETRY));
    }

    /// Notes that a peer holds a record.
    pub(crate) fn on_confirmed(&mut self, peer: Slot, hash: u64) {
        let run = self.view.record(peer).run;
        let mut is_open = false;
        for open in self.confirmations.open.values_mut().filter(|open| open.hash == hash) {
            open.by.insert(run);
            is_open = true;
        }
        if !is_open {
            // Nothing is looked up for what nobody asked.
            return;
        }
        let witnesses = self.witnesses();
        let is_done = |open: &Open| open.hash == hash && self.is_confirmed(open, &witnesses);
        let done: Vec<Ticket> =
            self.confirmations.open.iter().filter(|(_, open)| is_done(open)).map(|(ticket, _)| *ticket).collect();
        for ticket in done {
            self.end_confirmation(ticket);
        }
    }

    /// Ends the open confirmations with their present state, before the view is dropped.
    pub(crate) fn end_confirmations(&mut self) {
        for ticket in self.confirmations.open.keys().copied().collect::<Vec<_>>() {
            self.end_confirmation(ticket);
        }
    }

    /// Returns the members whose confirmation counts: those that are Up. A leaving member takes its knowledge along,
    /// and counts only if no other is left.
    fn witnesses(&self) -> Vec<Slot> {
        let live = self.view.live();
        let up: Vec<Slot> = live.iter().copied().filter(|slot| self.view.entry(*slot).status == Status::Up).collect();
        if up.is_empty() { live.to_vec() } else { up }
    }

    /// Returns true if this node's own confirmation counts: it stays, or no member does.
    pub(crate) fn may_confirm(&self) -> bool {
        let is_up = |slot: &Slot| self.view.entry(*slot).status == Status::Up;
        self.cx.phase.is_up() || !self.view.live().iter().any(is_up)
    }

    fn is_confirmed(&self, open: &Open, witnesses: &[Slot]) -> bool {
        let is_known_to = |slot: &&Slot| open.by.contains(&self.view.record(**slot).run);
        let needed = CONFIRMATIONS.min(witnesses.len());
        witnesses.iter().filter(is_known_to).take(needed).count() >= needed
    }

    fn end_confirmation(&mut self, ticket: Ticket) {
        self.cx.timers.cancel(Timer::Confirm(ticket));
        let Some(open) = self.confirmations.open.remove(&ticket) else { return };
        match open.purpose {
            Purpose::Leaving => self.announce_left(0),
            Purpose::Left => self.stop(StopReason::Left),
            Purpose::Removal(ticket) => {
                let held_by = open.by.len();
                let confirmed = self.is_confirmed(&open, &self.witnesses());
                self.cx.reply(ticket, Reply::Removed { held_by, confirmed });
            }
        }
    }
}
