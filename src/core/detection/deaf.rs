//! Deaf nodes: a node that is in contact with no member keeps its verdicts to itself.
//!
//! A node is in contact if it hears a member that hears it (see `echo`): a node that nobody hears is no better placed.
//!
//! A node to which nothing gets through finds all members silent, one after the other, and each of its accusations
//! would be believed by all that do not observe the accused themselves. (Rapid, ATC 2018, section 2, measures it: one
//! such node makes a whole cluster suspect itself.) It still judges, since it must know where it stands and report a
//! partition; but until it has heard again for a while, it neither floods nor gossips nor syncs the verdicts that it
//! reached meanwhile. Where a record must be sent, as to a joiner, it sends the member's own last record in place of such
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
//! - The accused members are told, again and again, by bootstrap links as well: their refutations are what a node
//!   that hears again learns first, also where datagrams do not pass and TCP does.
//! - A node that hears again accuses no member before three new probes stayed unanswered.
//!
//! Must not know: why nothing gets through.

use std::time::Duration;

use rand::seq::IndexedRandom;

use super::{Detector, DetectorFacts, LocalHealth};
use crate::limits::{MAX_DAMPING, TOLD_INTERVAL};
use crate::member::{DetectionMethod, Status};
use crate::packet::Outbox;
use crate::settings::Settings;
use crate::time::Time;
use crate::view::{Entry, Slot};

impl LocalHealth {
    /// Returns true if this node has been in contact with no member for so long that its report of others is worth
    /// nothing, or has accused a member though nobody answered anything since that doubt began.
    pub(crate) fn is_deaf(&self, now: Time, settings: &Settings) -> bool {
        let expected = self.contact_expected();
        let patience = if expected == Duration::MAX { settings.suspect_timeout } else { expected };
        self.is_unheard() || now.since(self.listened_until()) >= patience / 2
    }

    /// Notes, before a member is accused that was doubted `since` then, if nobody has answered anything meanwhile.
    pub(crate) fn note_unheard(&mut self, since: Time) {
        if self.is_unheard_since(since) && !self.is_unheard() {
            self.unheard_since = Some(since);
        }
    }

    /// Notes that this node is in contact with a member, which had `received` something from it by then; returns true if it
    /// was deaf, and hears again.
    pub(crate) fn note_contact(&mut self, now: Time, received: Time, settings: &Settings) -> bool {
        let was_deaf = self.is_deaf(now, settings);
        self.note_received(received);
        let is_over = was_deaf && !self.is_unheard();
        if is_over {
            self.hears_again(now);
        }
        self.heard(now);
        is_over
    }

    /// Returns true if the accused are told again and again, to refute what was held of them while nobody was heard.
    pub(crate) fn is_telling(&self, now: Time, settings: &Settings) -> bool {
        now < self.heard_again() + settings.suspect_timeout && !self.is_deaf(now, settings)
    }

    /// Returns true if a verdict of this node is not to be told (yet).
    pub(crate) fn is_withheld(&self, now: Time, entry: &Entry, settings: &Settings) -> bool {
        let to_refute = entry.record.timing.suspect_timeout().min(settings.suspect_timeout);
        entry.peer.rare().is_judged_unheard
            && entry.status.is_accused()
            && (self.is_deaf(now, settings) || now < self.heard_again() + to_refute)
    }

    /// Notes that a member refutes what is held of it. If that is withheld, the others that were judged with it are most
    /// likely as well as this one, and are merely asked later: they have as long as at first.
    pub(crate) fn note_withheld_refutation(&mut self, now: Time, entry: &Entry, settings: &Settings) {
        if self.is_withheld(now, entry, settings) && !self.is_deaf(now, settings) {
            self.hears_again(now);
        }
    }

    /// Returns the time until which a member that was accused while nobody was heard may still refute.
    pub(super) fn may_refute_until(&self, entry: &Entry) -> Option<Time> {
        let timing = entry.record.timing;
        let spare = timing.down_timeout().saturating_sub(timing.suspect_timeout());
        let until = self.heard_again() + spare / (1 << MAX_DAMPING);
        // Contact may come and go.
        let at_last = entry.peer.rare().accused_since.map(|since| since + timing.down_timeout());
        entry.peer.rare().is_judged_unheard.then_some(at_last.map_or(until, |at_last| until.min(at_last)))
    }
}

impl DetectorFacts<'_> {
    /// Returns true if this node reaches a verdict while it is deaf, or withholds the one before. A member that refused a connection
    /// was heard.
    pub(crate) fn is_judged_unheard(&self, slot: Slot, status: Status, method: Option<DetectionMethod>) -> bool {
        let is_silence = status.is_accused() && method != Some(DetectionMethod::ConnectionLost);
        is_silence && (self.health.is_deaf(self.now, self.settings) || self.is_withheld(slot))
    }
}

impl Detector {
    /// Tells the members that were accused while nothing got through, so that they refute it (Lifeguard's buddy system): most of
    /// them are not observed otherwise, and would learn it from members that believe it. One that was told in vain is told
    /// again, and one that does not refute is told by a bootstrap link as well.
    pub(crate) fn tell_the_accused(&mut self, out: &mut Outbox<'_>) {
        let counts = out.view.counts();
        let is_anybody = counts[Status::Suspect.index()] + counts[Status::Down.index()] > 0;
        if !is_anybody || !out.health.is_telling(out.cx.now, &out.cx.settings) {
            return;
        }
        let accused = out.view.iter().filter(|(_, entry)| entry.status.is_accused());
        let accused: Vec<Slot> =
            accused.filter(|(_, entry)| entry.peer.rare().is_judged_unheard).map(|(slot, _)| slot).collect();
        if out.cx.now.since(out.health.heard_again()) >= TOLD_INTERVAL {
            // Those whose datagrams do not pass were told in vain. At random: the dead must not keep the others from it.
            let addresses: Vec<_> = accused.iter().map(|slot| out.view.record(*slot).address).collect();
            let shuffled: Vec<_> = addresses.sample(&mut self.rng, addresses.len()).copied().collect();
            out.open_bootstraps(&shuffled);
            // There may be more of them than bootstrap links at one time.
            out.paths.end_bootstraps_soon(out.cx.now, |_| true);
        }
        for slot in accused {
            if out.must_be_told(slot) {
                let packet = out.packet_to(slot);
                out.send_to(slot, packet);
            }
        }
    }
}
