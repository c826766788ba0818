//! Deaf nodes: a node that is in contact with no member keeps its verdicts to itself.
//!
//! A node is in contact if it hears a member that hears it (see `echo`): a node that nobody hears is no better placed.
//!
//! A node to which nothing gets through finds all members silent, one after the other, and each of its accusations
//! would be believed by all that do not observe the accused themselves. (Rapid, ATC 2018, section 2, measures it: one
//! such node makes a whole cluster suspect itself.) It still judges, since it must know where it stands and report a
//! partition; but until it has heard again for a while, it neither floods nor gossips nor syncs the verdicts that it
//! reached meanwhile. Where a record must be sent, as to a joiner, it sends the member's own last word in place of such
//! a verdict.
//!
//! A node whose own packets get lost is no better off, and finds it out sooner: from its first accusation on it is deaf
//! if no member has received anything that it sent since that doubt began, its questions to witnesses included. An echo
//! that was held since before then shows nothing.
//!
//! ```text
//! last contact ──suspect_timeout / 2, or──▶ deaf: verdicts are kept ──contact──▶ doubts begin anew, the accused
//!                doubted in vain                                                 │        are told at each gossip tick
//!                                                             suspect_timeout, for the accused to refute;
//!                                                             as long again from each refutation on
//!                                                                                ▼
//!                                                                    what still stands is told
//! ```
//!
//! The timeout is the shortest of those of the members that it observes. A slow node that hears nobody judges the quick
//! members, and walks past them to others, long before it would miss members as slow as itself; and as long as it hears
//! anybody, it hears the quick ones all the time. A quick node whose neighbours are all slow hears them rarely.
//!
//! Invariants:
//! - The accused members are told, again and again, and called: their refutations are what a node that hears again
//!   learns first, also where datagrams do not pass and TCP does.
//! - A node that hears again accuses no member before three new probes stayed unanswered.
//!
//! Must not know: why nothing gets through.

use std::sync::Arc;
use std::time::Duration;

use rand::seq::IndexedRandom;

use crate::Core;
use crate::limits::{MAX_DAMPING, TOLD_INTERVAL};
use crate::member::{DetectionMethod, Record, Status};
use crate::time::Time;
use crate::view::Slot;

impl Core {
    /// Returns true if this node has been in contact with no member for so long that its word about others is worth
    /// nothing, or has accused a member though nobody answered anything since that doubt began.
    pub(crate) fn is_deaf(&self) -> bool {
        let expected = self.local_health.contact_expected();
        let patience = if expected == Duration::MAX { self.settings.suspect_timeout } else { expected };
        self.local_health.is_unheard() || self.now.since(self.local_health.listened_until()) >= patience / 2
    }

    /// Notes, before a member is accused that was doubted `since` then, if nobody has answered anything meanwhile.
    pub(super) fn mind_being_unheard(&mut self, since: Time) {
        if self.local_health.is_unheard_since(since) {
            self.local_health.judges_unheard(since);
        }
    }

    /// Notes that this node is in contact with a member, which had received something from it by then.
    pub(super) fn hear_member(&mut self, received: Time) {
        let was_deaf = self.is_deaf();
        self.local_health.note_received(received);
        if was_deaf && !self.local_health.is_unheard() {
            self.local_health.hears_again(self.now);
            self.inquiries.begin_anew();
            self.give_up_hung_calls(|_| true);
            self.local_health.heard(self.now);
            self.tell_the_accused();
        } else {
            self.local_health.heard(self.now);
        }
        self.local_health.expect_contact(self.observers.quickest());
        self.unreached_at = None;
    }

    /// Tells the members that were accused meanwhile, so that they refute it (Lifeguard's buddy system): most of them are not observed otherwise,
    /// and would learn it from members that believe it. One that was told while nothing got through is told again, and
    /// one that does not refute is called as well.
    pub(crate) fn tell_the_accused(&mut self) {
        let counts = self.view.counts();
        let is_anybody = counts[Status::Suspect.index()] + counts[Status::Down.index()] > 0;
        let is_over = || self.now >= self.local_health.heard_again() + self.settings.suspect_timeout;
        if !is_anybody || is_over() || self.is_deaf() {
            return;
        }
        let is_accused = |status: Status| matches!(status, Status::Suspect | Status::Down);
        let accused = self.view.iter().filter(|(_, entry)| is_accused(entry.status));
        let accused: Vec<Slot> =
            accused.filter(|(_, entry)| entry.peer.rare().is_judged_unheard).map(|(slot, _)| slot).collect();
        if self.now.since(self.local_health.heard_again()) >= TOLD_INTERVAL {
            // Those whose datagrams do not pass were told in vain. By lot: the dead must not keep the others from it.
            let addresses: Vec<_> = accused.iter().map(|slot| self.view.record(*slot).address).collect();
            let called: Vec<_> = addresses.sample(&mut self.random.detector, addresses.len()).copied().collect();
            self.call_all(&called);
            // There may be more of them than calls at one time.
            self.end_calls_soon();
        }
        for slot in accused {
            if self.must_be_told(slot) {
                let packet = self.packet_to(slot);
                self.send_to(slot, packet);
            }
        }
    }

    /// Returns true if a verdict of this node is not to be told (yet).
    pub(crate) fn is_withheld(&self, slot: Slot) -> bool {
        let entry = self.view.entry(slot);
        let to_refute = entry.record.timing.suspect_timeout().min(self.settings.suspect_timeout);
        entry.peer.rare().is_judged_unheard
            && matches!(entry.status, Status::Suspect | Status::Down)
            && (self.is_deaf() || self.now < self.local_health.heard_again() + to_refute)
    }

    /// Notes that a member refutes what is held of it. If that is withheld, the others that were judged with it are most
    /// likely as well as this one, and are merely asked later: they have as long as at first.
    pub(crate) fn note_withheld_refutation(&mut self, slot: Slot) {
        if self.is_withheld(slot) && !self.is_deaf() {
            self.local_health.hears_again(self.now);
        }
    }

    /// Marks a verdict of this node as unheard if it was deaf at the time. A member that refused a connection was
    /// heard.
    pub(crate) fn mark_judged(&mut self, slot: Slot, status: Status, method: Option<DetectionMethod>) {
        let is_silence =
            matches!(status, Status::Suspect | Status::Down) && method != Some(DetectionMethod::ConnectionLost);
        let is_unheard = is_silence && (self.is_deaf() || self.is_withheld(slot));
        self.view.peer_mut(slot).judged_unheard(is_unheard);
    }

    /// Returns the time until which a member that was accused while nobody was heard may still refute.
    pub(super) fn may_refute_until(&self, slot: Slot) -> Option<Time> {
        let entry = self.view.entry(slot);
        let timing = entry.record.timing;
        let spare = timing.down_timeout().saturating_sub(timing.suspect_timeout());
        let until = self.local_health.heard_again() + spare / (1 << MAX_DAMPING);
        // Contact may come and go.
        let at_last = entry.peer.rare().accused_since.map(|since| since + timing.down_timeout());
        entry.peer.rare().is_judged_unheard.then_some(at_last.map_or(until, |at_last| until.min(at_last)))
    }

    /// Returns a member's own last word, to be sent in place of a verdict that is kept.
    pub(crate) fn own_word_of(&self, slot: Slot) -> Arc<Record> {
        Arc::new(self.view.record(slot).with_status(Status::Up))
    }
}
