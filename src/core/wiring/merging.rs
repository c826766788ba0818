//! Merging: the one place in which the table of members is changed, whoever says so (another node's report, this node's verdict,
//! its own record, a record that is forgotten), and the one in which everything that follows is settled, in one order: nobody
//! keeps a list of its own of what has to be done about a change.
//!
//! Invariants:
//! - A held record is only ever replaced by one that supersedes it (see [`Record::supersedes`]).
//! - This node's own record is written by no other: updates about oneself go to `myself`.
//! - An update that is older than `reap_after`, or covered by a tombstone, is not merged and never provokes a sync.
//! - A suspicion that waited while this process stood still is not believed: its true age is unknown by then, and
//!   passed on it would make dead members look fresher, or live ones older, everywhere. A member that still holds it
//!   repeats it.
//! - `last_sign` moves forward within one run (except for a departure, which has its own date): it is the freshest of
//!   packets heard, notes, and raised incarnations; notes only count while the accusation is new, since a note that
//!   waits anywhere looks fresher than it is.
//! - No member is held as Down for silence, on anyone's report, that was not Suspect here before, long enough to refute.
//! - Down and Left records are reaped at age `reap_after`, everywhere at the same age, since their ages travel with them. A
//!   tombstone stays as long again, so that a late copy is not merged as a new member.
//! - A removal holds for the run: whoever holds it answers any later record of that run by the same removal at that
//!   incarnation. (Precedence cannot do this: if a removal beat any incarnation of its run, three records of one name could
//!   beat each other in a circle.)
//!
//! Must not know: how silence is measured, or why a member is gone.

use std::sync::Arc;
use std::time::Duration;

use crate::Core;
use crate::connectivity::links::{Links, Parting};
use crate::counters::DropReason;
use crate::detection::Inquiries;
use crate::joining::NameProbes;
use crate::limits::MAX_MEMBERS;
use crate::member::{DetectionMethod, LeaveReason, Record, Run, Status};
use crate::membership::accusation::{
    Belief, ask_if_live, compare_notes, count_change, date_accusation, note_newer, take_hold_off, take_report,
    tell_replaced,
};
use crate::membership::{Rivals, note_removal};
use crate::packet::News;
use crate::timers::Timer;
use crate::view::{Peer, Slot, View};
use crate::wire::Note;

/// Reports of others, and verdicts of this node.
impl Core {
    /// Merges one update. Returns the hash of the record that is held for that name afterwards, if there is one.
    pub(crate) fn learn(&mut self, news: News, from: Option<Slot>) -> Option<u64> {
        self.cx.counters.updates_received += 1;
        let (note, record, hash, hint) = match news {
            News::Known { note, slot, hash } => return self.hear_again(slot, hash, note),
            News::Record { note, record, hash, slot } => (note, record, hash, slot),
        };
        if record.id == self.me().id {
            self.hear_of_myself(&record, note);
            return None;
        }
        let is_old = note.is_some_and(|note| note.age() >= self.cx.settings.reap_after);
        if is_old || self.view.tombstones.covers(&record) {
            self.cx.counters.drop(DropReason::Outdated);
            if !is_old && from.is_some() {
                // After a cut this node may be the only one that forgot it: it is told what the tombstone says, and refutes.
                ask_if_live(&mut self.out(), &record);
            }
            return None;
        }
        let Some(slot) = self.view.slot_of_member(hint, &record) else { return self.meet(record, hash, note, from) };
        let held = self.view.record(slot);
        if record.status == Status::Suspect && self.cx.may_be_delayed() {
            self.cx.counters.drop(DropReason::Outdated);
        } else if record.supersedes(held) {
            let is_removal = |status| status == Status::Left(LeaveReason::Forced);
            if held.run == record.run && is_removal(held.status) && !is_removal(record.status) {
                // At the incarnation that it has raised meanwhile.
                let removed = Arc::new(record.with_status(held.status));
                let hash = removed.hash();
                self.supersede(slot, removed, hash, None, None);
            } else if !take_hold_off(&mut self.out(), slot, &record, note, from) {
                self.supersede(slot, record, hash, note, from);
            }
        } else if let Some(note) = note
            && record == *held
            && compare_notes(&self.cx, &mut self.view, slot, note)
        {
            self.gossip.spread(&mut self.cx, slot, None, false);
        }
        self.view.get(slot).map(|entry| entry.hash)
    }

    /// Merges an update of the record that was held for this member when the packet was opened. No held record has a
    /// tombstone.
    fn hear_again(&mut self, slot: Slot, hash: u64, note: Option<Note>) -> Option<u64> {
        if slot == View::ME {
            return None;
        }
        if note.is_some_and(|note| note.age() >= self.cx.settings.reap_after) {
            self.cx.counters.drop(DropReason::Outdated);
            return None;
        }
        if let Some(note) = note
            && self.view.get(slot).is_some_and(|entry| entry.hash == hash)
            && !self.cx.may_be_delayed()
            && compare_notes(&self.cx, &mut self.view, slot, note)
        {
            self.gossip.spread(&mut self.cx, slot, None, false);
        }
        self.view.get(slot).map(|entry| entry.hash)
    }

    /// Adds a name that was not in the view.
    fn meet(&mut self, record: Arc<Record>, hash: u64, note: Option<Note>, from: Option<Slot>) -> Option<u64> {
        let refused = if self.knows(record.run) {
            // One process has one name.
            Some(DropReason::Malformed)
        } else if self.sponsor.joiners.is_ahead_of(&record) {
            // It is listed as joining at a higher incarnation, and incarnations never fall.
            Some(DropReason::Outdated)
        } else {
            Some(DropReason::TableFull).filter(|_| self.view.len() >= MAX_MEMBERS)
        };
        if let Some(reason) = refused {
            self.cx.counters.drop(reason);
            return None;
        }
        self.cx.counters.updates_merged += 1;
        self.health.heard(self.cx.now);
        self.view.tombstones.remove(&record.id);
        let joiner = self.sponsor.joiners.take(&record);
        let (sign, method) = (self.cx.now - note.map_or(Duration::ZERO, Note::age), note.map(|note| note.method));
        let mut peer = Peer::new(sign).with_proof(joiner.proven);
        peer.method = method;
        let slot = self.view.insert(record, hash, peer);
        self.arrivals.note_arrival(self.cx.now, slot);
        let cause = Cause::Told { from, is_brought_in: joiner.proven };
        self.settle(Transition { slot, before: None, listed: joiner.listed, method, cause });
        Some(hash)
    }

    /// Replaces a member's record by a newer one, as far as that is believed.
    fn supersede(&mut self, slot: Slot, record: Arc<Record>, hash: u64, note: Option<Note>, from: Option<Slot>) {
        let held = Arc::clone(self.view.record(slot));
        let is_new_run = held.run != record.run;
        let (mut record, mut hash) = (record, hash);
        if let Some(note) = note.filter(|_| !is_new_run) {
            let teller = from.map(|slot| self.view.record(slot).run);
            let is_from_afar = self.partition.is_spoken_of_from_afar(self.cx.now, record.run, teller);
            match take_report(&mut self.out(), slot, &record, note, is_from_afar) {
                Belief::Whole => {}
                Belief::Suspicion => {
                    record = Arc::new(record.with_status(Status::Suspect));
                    hash = record.hash();
                }
                Belief::Nothing => return,
            }
        }
        if is_new_run && self.knows(record.run) {
            return self.cx.counters.drop(DropReason::Malformed);
        }
        self.cx.counters.updates_merged += 1;
        let (sign, method) = (self.cx.now - note.map_or(Duration::ZERO, Note::age), note.map(|note| note.method));
        let mut is_brought_in = false;
        let new_peer = if is_new_run {
            tell_replaced(&mut self.out(), slot, &held, &record);
            let is_contact = self.reunion.is_contact_of(self.view.entry(slot));
            self.arrivals.meet_new_run(self.cx.now, &self.view, slot, is_contact);
            is_brought_in = self.sponsor.joiners.take(&record).proven;
            Some(Peer::new(sign).with_proof(is_brought_in))
        } else {
            if record.status == Status::Up {
                self.health.note_withheld_refutation(self.cx.now, self.view.entry(slot), &self.cx.settings);
            }
            note_newer(&mut self.cx, &mut self.view, slot, &held, &record, sign);
            None
        };
        self.put(slot, (record, hash), new_peer, method, Cause::Told { from, is_brought_in });
    }

    /// Records this node's own verdict about a member, with the method by which it was found out, if it is accused.
    pub(crate) fn record_verdict(&mut self, slot: Slot, status: Status, method: Option<DetectionMethod>) {
        let held = self.view.record(slot);
        let record = Arc::new(held.with_status(status));
        debug_assert!(record.supersedes(held));
        let is_unheard = self.detector_facts().is_judged_unheard(slot, status, method);
        let peer = self.view.peer_mut(slot);
        peer.judged_unheard(is_unheard);
        if matches!(status, Status::Left(_)) {
            peer.left_at(self.cx.now);
        }
        let hash = record.hash();
        self.put(slot, (record, hash), None, method, Cause::Own);
    }

    /// Rewrites this node's own record.
    pub(crate) fn rewrite_myself(&mut self, record: Record) {
        debug_assert!(record.run == self.cx.run && record.incarnation >= self.me().incarnation);
        self.view.peer_mut(View::ME).lived_at(self.cx.now);
        let hash = record.hash();
        self.put(View::ME, (Arc::new(record), hash), None, None, Cause::Own);
    }

    /// Puts a record and its hash into a member's place, with new state of this node's if it is another run, and settles that.
    fn put(
        &mut self,
        slot: Slot,
        (record, hash): (Arc<Record>, u64),
        new_peer: Option<Peer>,
        method: Option<DetectionMethod>,
        cause: Cause,
    ) {
        let held = Arc::clone(self.view.record(slot));
        let method = self.partition.note_silence(&mut self.cx, &self.view, slot, &record, method);
        count_change(&mut self.cx, &self.view.entry(slot).peer, &held, &record, method);
        self.view.replace(slot, record, hash, new_peer);
        self.view.peer_mut(slot).method = method;
        self.settle(Transition { slot, before: Some(held), listed: None, method, cause });
    }
}

/// Reaping.
impl Core {
    /// Removes a member from the view for good.
    pub(crate) fn reap(&mut self, slot: Slot) {
        let record = Arc::clone(self.view.record(slot));
        self.view.tombstones.insert(self.cx.now, &record);
        self.drop_from_view(slot);
    }

    /// Removes a member from the view, and nothing prevents that it is met again.
    fn drop_from_view(&mut self, slot: Slot) {
        let held = self.view.remove(slot);
        self.settle(Transition { slot, before: Some(held), listed: None, method: None, cause: Cause::Own });
    }

    /// Forgets all members but this node, and all state about them.
    pub(crate) fn forget_everybody(&mut self) {
        self.me.moving.give_up(&mut self.cx);
        let over = self.confirmations.end_all(&mut self.cx, &self.view);
        self.confirmation_over(over);
        self.reunion.end_contacts(&mut self.cx);
        self.sponsor.names = NameProbes::default();
        self.me.rivals = Rivals::default();
        self.sponsor.drop_joiners(&mut outbox!(self));
        self.partition.forget_everybody(&mut self.cx, &self.view);
        let others: Vec<Slot> = self.view.iter().map(|(slot, _)| slot).filter(|slot| *slot != View::ME).collect();
        for slot in others {
            self.drop_from_view(slot);
        }
        self.cx.timers.clear();
        self.messages.resume(&mut self.cx);
        self.gossip.forget_everybody();
        self.detector.inquiries = Inquiries::default();
    }
}

/// A change of the table that was just made.
#[derive(Debug)]
struct Transition {
    /// The member's place, which is free again if it was forgotten.
    slot: Slot,
    /// The record that was held; `None` if the name is new.
    before: Option<Arc<Record>>,
    /// The record as which programs were told of it, if it was listed before it was held: a joiner's.
    listed: Option<Arc<Record>>,
    /// How the member was found out, if it is accused or Down.
    method: Option<DetectionMethod>,
    cause: Cause,
}

/// The origin of a change: who says so.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Cause {
    /// Another node's: a member's, or a stranger's. This node may have let the member in.
    Told { from: Option<Slot>, is_brought_in: bool },
    /// This node's, about another or about itself; or it forgets a record.
    Own,
}

/// What follows from a change.
impl Core {
    /// Settles a change.
    fn settle(&mut self, change: Transition) {
        let Transition { slot, before, listed, method, cause } = change;
        let after = self.view.get(slot).map(|entry| Arc::clone(&entry.record));
        let was_live = before.as_ref().is_some_and(|held| held.status.is_live());
        let is_live = after.as_ref().is_some_and(|held| held.status.is_live());
        let both = before.as_ref().zip(after.as_ref());
        // Programs are told.
        match (&before, &after) {
            (_, Some(after)) => {
                let shown = method.filter(|_| after.status.is_accused());
                self.cx.report(before.as_ref().or(listed.as_ref()), after, shown);
            }
            (Some(held), None) => self.cx.report_forgotten(held),
            (None, None) => {}
        }
        self.gossip.view_changed(self.cx.now);
        if slot != View::ME {
            if after.is_some() {
                date_accusation(self.cx.now, &mut self.view, slot, before.as_deref());
            } else {
                // In everything that remembers places, before the table gives it to somebody else.
                self.gossip.forget(slot);
                self.arrivals.forget(slot);
            }
            let is_over = before.as_ref().is_some_and(|held| after.as_ref().is_none_or(|after| after.run != held.run));
            if let Some(held) = before.as_ref().filter(|_| is_over || was_live && !is_live) {
                self.forget_run(slot, held.run);
            }
            // Others may observe, and be observed, in its place.
            if was_live != is_live || is_over {
                let shift = self.observers.place_anew(&self.cx, &self.view, slot);
                self.act_on_shift(shift);
                if both.is_some() {
                    // It may be observed as before; the link to a new member is planned as it comes to be observed.
                    self.plan_link(slot);
                }
            } else if both.is_some_and(|(held, after)| held.status != after.status) {
                self.plan_walk(slot);
            }
            if let Some((held, _)) = both.filter(|(_, after)| after.status != Status::Up) {
                self.detector.inquiries.forget(held.run);
            }
            if after.is_some() {
                self.watch(slot);
            }
            let moved = both.filter(|(held, after)| held.run == after.run && held.address != after.address);
            if after.is_some() && (is_over || moved.is_some()) {
                self.plan_host_question(slot);
            }
            if moved.is_some_and(|(_, after)| !self.paths.links.is_at(after.run, after.address)) {
                // What led to the old address may break never, or as late as the kernel gives it up, and shows nothing of the
                // process until then.
                self.link_anew(slot, Parting::TheyMoved);
            }
        }
        let Some(after) = &after else { return };
        let from = if let Cause::Told { from, .. } = cause { from } else { None };
        if !self.cx.phase.is_joining() && !self.out().is_withheld(slot) {
            // A verdict that is withheld goes nowhere, and nothing does while this node is no member itself.
            let from = from.map(|from| self.view.record(from).run);
            self.gossip.spread(&mut self.cx, slot, from, cause == Cause::Own);
        }
        if let Cause::Told { is_brought_in, .. } = cause {
            if is_brought_in && after.status == Status::Up {
                self.lease_updates.teach(&mut outbox!(self), after.address, after.run);
                let shift = self.observers.observe_besides(&self.cx, &self.view, slot);
                self.act_on_shift(shift);
            }
            if before.is_some() && after.status == Status::Left(LeaveReason::Forced) {
                note_removal(&mut self.out(), slot, was_live, from);
            }
        }
    }

    /// Drops everything of a run that is gone, or over because another one has its name, or nobody has: it is linked, judged,
    /// asked about and written to no more. One that was removed learns so by its link, and one that leaves hears by it that
    /// this node knows, and ends it itself: perhaps no datagram would tell them.
    fn forget_run(&mut self, slot: Slot, run: Run) {
        let held = self.view.get(slot).map(|entry| (entry.record.run, entry.record.status));
        let is_linked = self.paths.links.open(run).is_some();
        match held {
            Some((holder, Status::Left(LeaveReason::Graceful))) if holder == run && is_linked => {
                self.act_on_link(run, Links::lingers());
            }
            Some((holder, Status::Left(LeaveReason::Forced))) if holder == run && is_linked => {
                let bytes = self.out().packet_to(slot).finish();
                self.paths.copy_to_link(&mut self.cx, run, &bytes);
                self.drop_link(run);
            }
            _ => self.drop_link(run),
        }
        if held.is_none() {
            self.partition.account_for(&mut self.cx, run, true);
        }
        self.close_case(run);
        self.detector.inquiries.forget(run);
        self.paths.end_kernel_question(&mut self.cx, run);
        self.cx.timers.cancel(Timer::Host(run));
        self.cx.timers.cancel(Timer::Judge(run));
    }
}
