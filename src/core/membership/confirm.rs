//! Removals by an operator, and confirmations: a departure or a removal is done when a few peers confirm that they hold the record.
//!
//! A Down member is removed from the listing as it is; one that may be live only by force. The record then has status Left
//! (forced), which outranks every other status of its incarnation and obliges its owner to stop as soon as it learns of it. One
//! that has left by itself is removed, too: it is not expected back any more.
//!
//! The update goes out with `Confirm{hash}`, again every [`CONFIRM_RETRY`] to peers that have not answered, until
//! [`CONFIRMATIONS`] of them (or all there are) have, or the time is over. It always ends. Only peers that are Up
//! count: if nine of ten leave at once, fellow leavers would confirm each other and vanish with the update. So a
//! leaving member itself confirms nothing while it knows of any member that stays.
//!
//! Invariants: at most [`CONFIRMATIONS`] peers are waited for, and none for ever.
//!
//! Must not know: how the record spreads.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use rand::seq::IndexedRandom;
use rand_chacha::ChaCha8Rng;

use crate::context::{Context, Phase};
use crate::io::{CommandError, Notice, Reply, Ticket};
use crate::limits::{
    CONFIRM_RETRY, CONFIRMATIONS, FLOOD_FANOUT, MAX_PENDING_COMMANDS, MAX_REMOVALS, REMOVALS_INTERVAL,
};
use crate::member::{NodeId, Run, Status};
use crate::packet::Outbox;
use crate::recent::PerInterval;
use crate::time::Time;
use crate::timers::Timer;
use crate::view::{Slot, View};
use crate::wire::{Confirmation, Message, Nonce};

/// The action at the end of a confirmation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Purpose {
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
#[derive(Debug, Clone)]
pub(crate) struct Confirmations {
    rng: ChaCha8Rng,
    open: BTreeMap<Ticket, Open>,
    /// The number of removals.
    removals: PerInterval,
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

    pub(crate) fn cancel(&mut self, purpose: Purpose) {
        self.open.remove(&purpose.ticket());
    }
}

impl Confirmations {
    pub(crate) fn new(rng: ChaCha8Rng) -> Self {
        Self { rng, open: BTreeMap::new(), removals: PerInterval::default() }
    }

    /// Returns the member of this name if it may be removed now. A Down one may; one that may be live only by force.
    pub(crate) fn take_removal(
        &mut self,
        cx: &Context,
        view: &View,
        id: &NodeId,
        force: bool,
    ) -> Result<Slot, CommandError> {
        if *id == view.me().id {
            return Err(CommandError::Oneself);
        }
        match cx.phase {
            Phase::Joining => return Err(CommandError::Joining),
            Phase::Up => {}
            Phase::Leaving | Phase::Stopped => return Err(CommandError::Leaving),
        }
        if self.open.len() >= MAX_PENDING_COMMANDS {
            return Err(CommandError::Busy);
        }
        let slot = view.slot_of(id.as_str()).ok_or_else(|| CommandError::NoSuchMember { id: id.clone() })?;
        match view.record(slot).status {
            // It does not count as another removal.
            Status::Left(_) => Ok(slot),
            status if status != Status::Down && !force => Err(CommandError::NotDown { id: id.clone(), status }),
            _ if self.removals.take(cx.now, REMOVALS_INTERVAL, MAX_REMOVALS) => Ok(slot),
            _ => Err(CommandError::TooManyRemovals),
        }
    }

    /// Spreads the present record of `slot` and asks for its confirmation, for at most `wait`. Returns the purpose if that is
    /// over at once.
    pub(crate) fn ask(
        &mut self,
        out: &mut Outbox<'_>,
        purpose: Purpose,
        slot: Slot,
        wait: Duration,
    ) -> Option<Purpose> {
        let hash = out.view.entry(slot).hash;
        let open = Open { purpose, slot, hash, by: BTreeSet::new(), deadline: out.cx.now + wait };
        self.open.insert(purpose.ticket(), open);
        self.ask_again(out, purpose.ticket())
    }

    /// Asks the peers that have not answered, or ends; returns the purpose in that case.
    pub(crate) fn ask_again(&mut self, out: &mut Outbox<'_>, ticket: Ticket) -> Option<Purpose> {
        let open = self.open.get(&ticket)?;
        let (slot, hash, deadline) = (open.slot, open.hash, open.deadline);
        let is_current = out.view.get(slot).is_some_and(|entry| entry.hash == hash);
        let witnesses = witnesses(out.view);
        if out.cx.now >= deadline || !is_current || is_confirmed(out.view, open, &witnesses) {
            return self.end(out.cx, out.view, ticket);
        }
        let is_unasked = |peer: &Slot| !open.by.contains(&out.view.record(*peer).run) && *peer != slot;
        let unasked = witnesses.into_iter().filter(is_unasked);
        // This node's own observers first: where datagrams do not pass, they have links to it.
        let (mut peers, others): (Vec<Slot>, Vec<Slot>) =
            unasked.partition(|peer| slot == View::ME && out.observers.observes(*peer));
        let more = FLOOD_FANOUT.max(out.observers.wanted()).saturating_sub(peers.len());
        peers.extend(others.sample(&mut self.rng, more));
        for peer in peers {
            let mut packet = out.packet_to(peer);
            if out.push_update(&mut packet, slot) {
                packet.push(&Message::Confirm(Confirmation { record: Nonce(hash) }));
            }
            out.send_to(peer, packet);
        }
        out.cx.timers.set(Timer::Confirm(ticket), deadline.min(out.cx.now + CONFIRM_RETRY));
        None
    }

    /// Notes that a peer holds a record; returns the purposes that are done by that.
    pub(crate) fn confirmed(&mut self, cx: &mut Context, view: &View, peer: Slot, hash: u64) -> Vec<Purpose> {
        let run = view.record(peer).run;
        let mut is_open = false;
        for open in self.open.values_mut().filter(|open| open.hash == hash) {
            open.by.insert(run);
            is_open = true;
        }
        if !is_open {
            // Nothing is looked up for what nobody asked.
            return Vec::new();
        }
        let witnesses = witnesses(view);
        let is_done = |open: &Open| open.hash == hash && is_confirmed(view, open, &witnesses);
        let done = self.open.iter().filter(|(_, open)| is_done(open)).map(|(ticket, _)| *ticket);
        let done: Vec<Ticket> = done.collect();
        done.into_iter().filter_map(|ticket| self.end(cx, view, ticket)).collect()
    }

    /// Ends the open confirmations with their present state, before the view is dropped.
    pub(crate) fn end_all(&mut self, cx: &mut Context, view: &View) -> Vec<Purpose> {
        let open: Vec<Ticket> = self.open.keys().copied().collect();
        open.into_iter().filter_map(|ticket| self.end(cx, view, ticket)).collect()
    }

    /// Ends a confirmation, and answers the command that asked for it.
    fn end(&mut self, cx: &mut Context, view: &View, ticket: Ticket) -> Option<Purpose> {
        cx.timers.cancel(Timer::Confirm(ticket));
        let open = self.open.remove(&ticket)?;
        if let Purpose::Removal(ticket) = open.purpose {
            let (held_by, confirmed) = (open.by.len(), is_confirmed(view, &open, &witnesses(view)));
            cx.reply(ticket, Reply::Removed { held_by, confirmed });
        }
        Some(open.purpose)
    }
}

/// Returns the members whose confirmation counts: those that are Up. A leaving member takes its knowledge along,
/// and counts only if no other is left.
fn witnesses(view: &View) -> Vec<Slot> {
    let live = view.live();
    let up: Vec<Slot> = live.iter().copied().filter(|slot| view.entry(*slot).status == Status::Up).collect();
    if up.is_empty() { live.to_vec() } else { up }
}

/// Returns true if this node's own confirmation counts: it stays, or no member does.
pub(crate) fn may_confirm(phase: Phase, view: &View) -> bool {
    let is_up = |slot: &Slot| view.entry(*slot).status == Status::Up;
    phase.is_up() || !view.live().iter().any(is_up)
}

fn is_confirmed(view: &View, open: &Open, witnesses: &[Slot]) -> bool {
    let is_known_to = |slot: &&Slot| open.by.contains(&view.record(**slot).run);
    let needed = CONFIRMATIONS.min(witnesses.len());
    witnesses.iter().filter(is_known_to).take(needed).count() >= needed
}

/// Tells who removed a live member, and the member itself if it said so.
pub(crate) fn note_removal(out: &mut Outbox<'_>, slot: Slot, was_live: bool, from: Option<Slot>) {
    if let Some(from) = from.filter(|_| was_live) {
        let (id, by) = (out.view.record(slot).id.clone(), out.view.record(from).id.clone());
        out.cx.notice("member removed", Notice::MemberRemoved { id, by });
    }
    if from.is_none() {
        tell_removed(out, slot);
    }
}

/// Tells the removed member, whenever it was told last that it is suspect or gone; it is told again whenever it is heard.
pub(crate) fn tell_removed(out: &mut Outbox<'_>, slot: Slot) {
    out.view.peer_mut(slot).rare_mut().last_told = None;
    let mut packet = out.packet_to(slot);
    packet.push(&Message::Reply);
    out.send_to(slot, packet);
}
