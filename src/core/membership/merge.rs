//! Merging updates into the view: the one place in which another node's word changes a member's record.
//!
//! Invariants:
//! - A held record is only ever replaced by one that supersedes it (see [`Record::supersedes`]).
//! - This node's own record is written by no other: updates about oneself go to `refutation`.
//! - An update that is older than `reap_after`, or covered by a tombstone, is not merged and never provokes a sync.
//! - A suspicion that waited while this process stood still is not believed: its true age is unknown by then, and
//!   passed on it would make dead members look fresher, or live ones older, everywhere. A member that still holds it
//!   repeats it.
//! - `last_sign` moves forward within one run (except for a departure, which has its own date): it is the freshest of
//!   packets heard, notes, and raised incarnations; notes only count while the accusation is new, since a note that
//!   waits anywhere looks fresher than it is.
//! - No member is held as Down for silence, on anyone's word, that was not Suspect here before, long enough to refute.
//!
//! Must not know: how silence is measured, or to whom an update is sent on.

use std::sync::Arc;

use super::settle::{Cause, Transition};
use crate::Core;
use crate::counters::DropReason;
use crate::limits::MAX_MEMBERS;
use crate::member::{DetectionMethod, LeaveReason, Record, Status};
use crate::packet::News;
use crate::view::{Peer, Slot, View};
use crate::wire::Note;

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
        if note.is_some_and(|note| note.method == DetectionMethod::Restarted) {
            // Each node finds that out itself, from the record of the new run.
            self.cx.counters.drop(DropReason::Implausible);
            return None;
        }
        let is_old = note.is_some_and(|note| note.age() >= self.cx.settings.reap_after);
        if is_old || self.tombstones.covers(&record) {
            self.cx.counters.drop(DropReason::Outdated);
            if !is_old && from.is_some() {
                // After a cut this node may be the only one that forgot it: it is told how it was buried, and refutes.
                self.ask_if_live(&record);
            }
            return None;
        }
        match self.view.slot_of_member(hint, &record) {
            None => self.meet(record, hash, note, from),
            Some(slot) => {
                let held = self.view.record(slot);
                if record.status == Status::Suspect && self.may_be_delayed() {
                    self.cx.counters.drop(DropReason::Outdated);
                } else if record.supersedes(held) {
                    let is_removal = |status| status == Status::Left(LeaveReason::Forced);
                    if held.run == record.run && is_removal(held.status) && !is_removal(record.status) {
                        self.remove_again(slot, &record);
                    } else if !self.doubts(slot, &record, note, from) {
                        self.supersede(slot, record, hash, note, from);
                    }
                } else if let Some(note) = note
                    && record == *held
                {
                    self.compare_notes(slot, note);
                }
                self.view.get(slot).map(|entry| entry.hash)
            }
        }
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
            && !self.may_be_delayed()
        {
            self.compare_notes(slot, note);
        }
        self.view.get(slot).map(|entry| entry.hash)
    }

    /// Adds a name that was not in the view.
    fn meet(&mut self, record: Arc<Record>, hash: u64, note: Option<Note>, from: Option<Slot>) -> Option<u64> {
        if self.view.slot_of_run(record.run).is_some() || record.run == self.cx.run {
            // One process has one name.
            self.cx.counters.drop(DropReason::Malformed);
            return None;
        }
        if self.joiners.is_ahead_of(&record) {
            // It is listed as joining at a higher incarnation, and incarnations never fall.
            self.cx.counters.drop(DropReason::Outdated);
            return None;
        }
        if self.view.len() >= MAX_MEMBERS {
            self.cx.counters.drop(DropReason::TableFull);
            return None;
        }
        self.cx.counters.updates_merged += 1;
        self.health.heard(self.cx.now);
        self.tombstones.remove(&record.id);
        let joiner = self.joiners.take(&record);
        let lived_at = self.cx.now - note.map_or_else(Default::default, Note::age);
        let mut peer = Peer::new(lived_at).with_proof(joiner.proven);
        let method = note.map(|note| note.method);
        peer.method = method;
        let slot = self.view.insert(record, hash, peer);
        self.arrivals.note_arrival(self.cx.now, slot);
        let record = self.view.record(slot);
        if record.status.is_live() && self.is_of_long_standing(record) {
            let id = record.id.clone();
            self.reunion.met_another(&id);
        }
        let cause = Cause::Told { from, is_brought_in: joiner.proven };
        self.settle(Transition { slot, before: None, listed: joiner.listed, method, cause });
        Some(hash)
    }

    /// Tells a live run of another one that takes its name: it gives way (see `joining::rivals`), and would learn of that late,
    /// since nobody speaks to it any more. Its observers tell it.
    fn tell_replaced(&mut self, slot: Slot, held: &Record, record: &Record) {
        let are_apart = held.status.is_live() && record.status.is_live() && held.address != record.address;
        if are_apart && self.observers.observes(slot) {
            self.tell_of_rival(slot, record, None);
        }
    }

    /// Replaces a member's record by a newer one.
    pub(crate) fn supersede(
        &mut self,
        slot: Slot,
        record: Arc<Record>,
        hash: u64,
        note: Option<Note>,
        from: Option<Slot>,
    ) {
        let held = Arc::clone(self.view.record(slot));
        let is_new_run = held.run != record.run;
        if let Some(note) = note.filter(|_| !is_new_run)
            && self.contradicts(slot, &record, note, from)
        {
            return self.tell_accused(slot, &record);
        }
        let skipped_suspicion =
            note.is_some_and(|note| !is_new_run && self.skipped_suspicion(&held, slot, &record, note));
        if skipped_suspicion && held.status == Status::Suspect && held.incarnation == record.incarnation {
            return;
        }
        let (record, hash) = if skipped_suspicion {
            let record = Arc::new(record.with_status(Status::Suspect));
            let hash = record.hash();
            (record, hash)
        } else {
            (record, hash)
        };
        if is_new_run && (self.view.slot_of_run(record.run).is_some() || record.run == self.cx.run) {
            return self.cx.counters.drop(DropReason::Malformed);
        }
        self.cx.counters.updates_merged += 1;
        let sign = self.cx.now - note.map_or_else(Default::default, Note::age);
        if held.status == Status::Suspect && record.incarnation > held.incarnation && !is_new_run {
            self.note_refutation(slot);
        } else if held.status == Status::Suspect && record.status == Status::Down {
            self.cx.counters.suspicions_confirmed += 1;
        }
        if held.status == Status::Down && record.status == Status::Up && !is_new_run {
            self.note_false_obituary(slot);
        }
        let mut is_brought_in = false;
        let peer = if is_new_run {
            self.tell_replaced(slot, &held, &record);
            self.meet_new_run(slot);
            is_brought_in = self.joiners.take(&record).proven;
            Some(Peer::new(sign).with_proof(is_brought_in))
        } else {
            // Its silence was dated when it was accused: an accusation that took longer to arrive only looks fresher.
            let is_dated = held.status == Status::Suspect && held.incarnation == record.incarnation;
            let peer = self.view.peer_mut(slot);
            peer.contradicted(None);
            if record.status == Status::Up {
                self.health.note_withheld_refutation(self.cx.now, self.view.entry(slot), &self.cx.settings);
            }
            let peer = self.view.peer_mut(slot);
            peer.judged_unheard(false);
            if held.address != record.address {
                peer.unprove();
            }
            match record.status {
                // Departures are dated, not observed.
                Status::Left(_) => peer.left_at(sign),
                Status::Down if is_dated => {}
                _ => peer.lived_at(sign),
            }
            None
        };
        let method = self.partition.note_silence(&mut self.cx, &self.view, slot, &record, note.map(|note| note.method));
        self.count_suspicion(held.status, record.status, method);
        if !is_new_run {
            self.count_detection(slot, held.status, record.status, method);
        }
        self.view.replace(slot, record, hash, peer);
        self.view.peer_mut(slot).method = method;
        let cause = Cause::Told { from, is_brought_in };
        self.settle(Transition { slot, before: Some(held), listed: None, method, cause });
    }

    /// Records this node's own verdict about a member.
    pub(crate) fn record_verdict(&mut self, slot: Slot, status: Status, method: DetectionMethod) {
        let held = Arc::clone(self.view.record(slot));
        let record = Arc::new(held.with_status(status));
        debug_assert!(record.supersedes(&held));
        let method = self.partition.note_silence(&mut self.cx, &self.view, slot, &record, Some(method));
        self.count_suspicion(held.status, status, method);
        self.count_detection(slot, held.status, status, method);
        self.mark_judged(slot, status, method);
        let peer = self.view.peer_mut(slot);
        peer.method = method;
        if matches!(status, Status::Left(_)) {
            peer.left_at(self.cx.now);
        }
        let hash = record.hash();
        self.view.replace(slot, record, hash, None);
        self.settle(Transition { slot, before: Some(held), listed: None, method, cause: Cause::Own });
    }

    /// Rewrites this node's own record.
    pub(crate) fn rewrite_myself(&mut self, record: Record) {
        let held = Arc::clone(self.me());
        let record = Arc::new(record);
        debug_assert!(record.run == self.cx.run && record.incarnation >= held.incarnation);
        let hash = record.hash();
        self.view.replace(View::ME, record, hash, None);
        self.view.peer_mut(View::ME).lived_at(self.cx.now);
        self.settle(Transition { slot: View::ME, before: Some(held), listed: None, method: None, cause: Cause::Own });
    }
}
