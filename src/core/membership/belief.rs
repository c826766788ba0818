//! Belief: the one record that waits for the word of whom it is about.
//!
//! A member is believed by precedence alone, whoever tells of it, but for the death of another run of a name: it is merged
//! after the holder of the name, if it is live, had a suspect timeout to refute it. (A node lost its disk while its clock
//! was set back, and joined on the other side of a cut from where its former run is held as Down: that record supersedes
//! the one of the run that lives.) And a live record that a tombstone covers is not merged: its subject is asked itself,
//! and refutes.
//!
//! Must not know: which of two records of one name wins (see `member::precedence`).

use std::time::Duration;

use crate::Core;
use crate::context::Phase;
use crate::limits::TOLD_INTERVAL;
use crate::member::{Record, Status};
use crate::packet::Turn;
use crate::view::{Slot, is_due};
use crate::wire::Note;

impl Core {
    /// Returns true if a record that would replace a held one is not merged for now on this member's word (`None`: the
    /// owner's own).
    pub(super) fn doubts(&mut self, slot: Slot, record: &Record, note: Option<Note>, from: Option<Slot>) -> bool {
        let is_live = |status| matches!(status, Status::Up | Status::Suspect | Status::Leaving);
        let held = self.view.record(slot);
        let is_death_of_another = held.run != record.run && is_live(held.status) && !is_live(record.status);
        let is_told_by_others = from.is_some_and(|from| from != slot && self.view.record(from).run != record.run);
        is_death_of_another
            && is_told_by_others
            && matches!(self.cx.phase, Phase::Up | Phase::Leaving)
            && self.doubts_death_report(slot, record, note)
    }

    /// Asks a run for its own record, if it is reported live.
    pub(super) fn ask_if_live(&mut self, record: &Record) {
        let is_said_to_live = matches!(record.status, Status::Up | Status::Suspect | Status::Leaving);
        if is_said_to_live && self.packets.turns.take(self.cx.now, Turn::Hearsay, record.address) {
            self.out().ask_who(record.address);
        }
    }

    /// Doubts a report that another run of this name died, in a record that supersedes the holder's: the holder, if it
    /// is live, raises its incarnation above that.
    fn doubts_death_report(&mut self, slot: Slot, record: &Record, note: Option<Note>) -> bool {
        if self.is_missed(slot) {
            return false;
        }
        // Whoever does not observe it tells it, too: its observers need not have heard of the report.
        self.tell_of_rival(slot, record, note);
        let (now, patience) = (self.cx.now, self.view.record(slot).suspect_timeout());
        let peer = self.view.peer_mut(slot);
        let since = peer.rare().contradicted_since.unwrap_or(now);
        peer.contradicted(Some(since));
        now.since(since) < patience
    }

    /// Returns true if this node itself heard a member so lately that no heartbeat is overdue.
    fn is_heard_lately(&self, slot: Slot) -> bool {
        let patience = self.heartbeat_patience(slot);
        let session = self.view.entry(slot).peer.session.as_ref();
        session.is_some_and(|session| self.cx.now.since(session.heard) <= patience)
    }

    /// Returns true if a member's heartbeats should have come here, and did not. Silence of one that sends none here is
    /// no evidence.
    fn is_missed(&self, slot: Slot) -> bool {
        !self.is_heard_lately(slot) && self.observers.would_have_heard(self.cx.now, slot, self.heartbeat_patience(slot))
    }

    /// Returns the time after which a heartbeat of a member is overdue.
    fn heartbeat_patience(&self, slot: Slot) -> Duration {
        self.view.record(slot).timing.heartbeat_interval() + self.cx.settings.probe_timeout
    }

    /// Tells a member of a record that others report under its name.
    pub(crate) fn tell_of_rival(&mut self, slot: Slot, record: &Record, note: Option<Note>) {
        if is_due(self.cx.now, self.view.entry(slot).peer.rare().last_told, TOLD_INTERVAL) {
            self.view.peer_mut(slot).rare_mut().last_told = Some(self.cx.now);
            let mut packet = self.out().packet_to(slot);
            packet.push_update(note, record);
            self.out().send_to(slot, packet);
        }
    }
}
