//! Forced removals: a removal of another member is believed from members known for a while; this node obeys its own
//! removal if several of them report it.
//!
//! Without keys any member may remove any other, as its operator may: that is what `remove --force` does. The power of
//! one member alone is bounded:
//!
//! - A removal of a live member is accepted from an *elder* (see `elders`) alone. At most [`MAX_REMOVALS`] are accepted from one of
//!   them in [`REMOVALS_INTERVAL`], and the operator can read who sent them.
//! - A member that is told that it was removed stops when [`REMOVAL_REPORTERS`] elders say so (more than half, if there
//!   are fewer). It asks for their word: a member that holds it as removed tells it so with every answer. A member that
//!   has just joined, and that has seeds among the members, also needs one of these to say so: it cannot tell elders
//!   from others that have just joined.
//! - A member that was told so by too few refutes it; a member that held it as removed and reads [`MAX_REMINDERS`]
//!   refutations in a row takes the removal back, and believes no other one for [`REMOVAL_MEMORY`]. A member that does
//!   not believe a removal, and hears of it again, tells its subject.
//!
//! These risks remain: an elder can remove others, a bounded number in a while, and is named for it, as its operator
//! may. A node on the path between a remover and its target passes the removal on in its own name. In the first minute
//! of a cluster a member that came late is not believed by those before it, whatever its operator wants: send the
//! command to an older one.
//!
//! Must not know: the reason for a removal.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use rand::seq::IndexedRandom;

use crate::core::counters::DropReason;
use crate::core::doors::Notice;
use crate::core::limits::{
    MAX_CLAIMS, MAX_REMINDERS, MAX_REMOVALS, MAX_REMOVED, MAX_REMOVERS, OBJECTION_INTERVAL, REMOVAL_MEMORY,
    REMOVAL_OBJECTION, REMOVAL_REPORTERS, REMOVALS_INTERVAL, TOLD_INTERVAL,
};
use crate::core::member::{DetectionMethod, LeaveReason, Record, Run, Status};
use crate::core::time::Time;
use crate::core::timers::Timer;
use crate::core::view::{Slot, is_due};
use crate::core::wire::Message;
use crate::core::{Core, Phase};

/// The pause between two questions about this node's own removal, and the number of rounds before it is refuted.
const ASK_AGAIN: Duration = Duration::from_millis(100);
const ROUNDS: u8 = 20;

/// Removals of others, by the members that reported them; and of this node, by the members that report it.
#[derive(Debug, Default)]
pub(in crate::core) struct Removals {
    told: BTreeMap<Run, (Time, u32)>,
    reporters: BTreeMap<Run, u64>,
    rounds: u8,
    /// The highest incarnation at which this node was told that it was removed, since it last refuted that.
    said: u64,
    /// Time at which to object to each removal that is not believed, if it is heard of again. At most [`MAX_CLAIMS`].
    doubted: BTreeMap<Run, Time>,
    /// The number of refutations since by each run that is held as removed, and the time of the last one. At most
    /// [`MAX_REMOVED`].
    refuted: BTreeMap<Run, (u8, Time)>,
}

impl Removals {
    /// Notes a refutation, at a higher incarnation, by a run that is held as removed; returns true if there were so
    /// many that it is believed.
    pub(super) fn count_refutation(&mut self, now: Time, run: Run) -> bool {
        if self.refuted.len() >= MAX_REMOVED && !self.refuted.contains_key(&run) {
            self.refuted.pop_first();
        }
        let (times, last) = self.refuted.entry(run).or_insert((0, now));
        if now.since(*last) >= REMOVAL_MEMORY {
            *times = 0;
        }
        (*times, *last) = (times.saturating_add(1), now);
        *times > MAX_REMINDERS
    }

    /// Returns true if a removal was taken back within [`REMOVAL_MEMORY`], since its subject had refuted it so often.
    /// Otherwise two nodes that hold it as removed would go on to persuade each other in turn.
    fn was_refuted(&self, now: Time, run: Run) -> bool {
        let refuted = self.refuted.get(&run);
        refuted.is_some_and(|(times, last)| *times > MAX_REMINDERS && now.since(*last) < REMOVAL_MEMORY)
    }

    pub(in crate::core) fn forget(&mut self, run: Run) {
        self.refuted.remove(&run);
        self.doubted.remove(&run);
    }
}

impl Core {
    /// Notes a removal of a live member that is not believed: if it is still spread after a while, some members believe
    /// it, and its subject is told.
    fn object_to_removal(&mut self, subject: Slot, record: &Record) {
        let now = self.now;
        let doubted = &mut self.removals.doubted;
        if doubted.len() >= MAX_CLAIMS && !doubted.contains_key(&record.run) {
            doubted.pop_first();
        }
        let due_at = *doubted.entry(record.run).or_insert(now + REMOVAL_OBJECTION);
        let is_due = is_due(now, self.view.entry(subject).peer.rare().last_told, TOLD_INTERVAL);
        if now < due_at || !is_due {
            return;
        }
        self.removals.doubted.insert(record.run, now + OBJECTION_INTERVAL);
        self.view.peer_mut(subject).rare_mut().last_told = Some(now);
        self.object(subject, record.incarnation);
    }

    /// Tells a member that others claim something of it at this incarnation that this node does not believe. The member
    /// raises its incarnation above it, and need not doubt itself: this node does not accuse it.
    pub(super) fn object(&mut self, subject: Slot, incarnation: u64) {
        let (run, incarnation) = (self.view.record(subject).run, incarnation + 1);
        let mut packet = self.packet_to(subject);
        packet.push(&Message::HeldStatus { run, incarnation, status: Status::Up, age_ms: 0 });
        self.send_to(subject, packet);
    }

    /// Returns true if this member's word removes another live one.
    pub(super) fn believes_removal(&mut self, subject: Slot, record: &Record, from: Slot) -> bool {
        if !self.is_elder(from) || self.removals.was_refuted(self.now, record.run) {
            self.object_to_removal(subject, record);
            return false;
        }
        let (now, by) = (self.now, self.view.record(from).run);
        let told = &mut self.removals.told;
        told.retain(|_, (began, _)| now.since(*began) < REMOVALS_INTERVAL);
        if told.len() >= MAX_REMOVERS && !told.contains_key(&by) {
            return false;
        }
        let (_, count) = told.entry(by).or_insert((now, 0));
        if *count >= MAX_REMOVALS {
            return false;
        }
        *count += 1;
        let (id, by) = (self.view.record(subject).id.clone(), self.view.record(from).id.clone());
        self.notice("member removed", Notice::MemberRemoved { id, by });
        true
    }

    /// Forgets old evictions: a member that was not heard after it refuted, and so was not told, is let off.
    pub(in crate::core) fn forget_old_evictions(&mut self) {
        let now = self.now;
        self.removed_runs.retain(|_, (_, since)| now.since(*since) < REMOVAL_MEMORY);
    }

    /// Removes a removed run again: it has refuted at a higher incarnation, was told, and is still here. It is removed
    /// at that incarnation, so that every member that it asks knows.
    pub(in crate::core) fn evict_again(&mut self, slot: Slot) {
        let run = self.view.record(slot).run;
        let is_told = self.view.entry(slot).peer.rare().last_told.is_some_and(|last| self.now > last);
        let is_due = is_due(self.now, self.view.entry(slot).peer.rare().last_told, TOLD_INTERVAL);
        let has_left = matches!(self.view.record(slot).status, Status::Left(_));
        let is_recent = |(_, since): (u64, Time)| self.now.since(since) < REMOVAL_MEMORY;
        if is_told && is_due && !has_left && self.removed_runs.remove(&run).is_some_and(is_recent) {
            self.record_verdict(slot, Status::Left(LeaveReason::Forced), DetectionMethod::HeartbeatTimeout);
        }
    }

    /// Handles a member's report that this node was removed, at this incarnation.
    pub(super) fn told_removed(&mut self, by: Option<Slot>, incarnation: u64) {
        if matches!(self.phase, Phase::Joining(_)) {
            // There are no other members to ask: the report comes from the member that serves its view.
            return self.obey();
        }
        let Some(by) = by else { return };
        if !self.is_plausible(incarnation) {
            return self.counters.drop(DropReason::Implausible);
        }
        self.removals.said = self.removals.said.max(incarnation);
        if self.is_elder(by) {
            let by = self.view.record(by).run;
            if self.removals.reporters.len() >= REMOVAL_REPORTERS && !self.removals.reporters.contains_key(&by) {
                self.removals.reporters.pop_first();
            }
            self.removals.reporters.insert(by, incarnation);
            // An elder that never says so, dead or a liar, keeps this node no longer.
            let are_enough = self.removals.reporters.len() >= (self.elders().len() / 2 + 1).min(REMOVAL_REPORTERS);
            if are_enough && self.is_vouched_for() {
                return self.obey();
            }
        }
        if self.removals.rounds == 0 {
            self.ask_about_removal();
        }
    }

    /// Returns true if a reliable member is among those that report this node's removal. To a node that has just joined
    /// every member is an elder, even one that came a moment before it; but its seeds are those that its operator
    /// named.
    fn is_vouched_for(&self) -> bool {
        let says_so = |slot: &Slot| self.removals.reporters.contains_key(&self.view.record(*slot).run);
        let mut seeds = self.live_contacts().peekable();
        !self.is_new_here() || seeds.peek().is_none() || seeds.any(|slot| self.is_contact(slot) && says_so(&slot))
    }

    /// Returns the live members at addresses where this node was told to look for members, proven or not.
    fn live_contacts(&self) -> impl Iterator<Item = Slot> {
        self.view.live().iter().copied().filter(|slot| self.is_where_contacts_are(*slot))
    }

    /// Asks other members for a sign of life: those that hold this node as removed say so in their answers.
    pub(in crate::core) fn ask_about_removal(&mut self) {
        if self.removals.rounds >= ROUNDS {
            let said = std::mem::take(&mut self.removals.said);
            self.removals.reporters.clear();
            self.removals.rounds = 0;
            if matches!(self.phase, Phase::Up) {
                self.refute(said.max(self.me().incarnation));
            }
            return;
        }
        self.removals.rounds += 1;
        let mut others = self.elders();
        others.retain(|slot| !self.removals.reporters.contains_key(&self.view.record(*slot).run));
        let mut asked: BTreeSet<Slot> = others.sample(&mut self.rng, REMOVAL_REPORTERS).copied().collect();
        if self.is_new_here() {
            let says_so = |slot: &Slot| self.removals.reporters.contains_key(&self.view.record(*slot).run);
            asked.extend(self.live_contacts().filter(|slot| !says_so(slot)).take(REMOVAL_REPORTERS));
        }
        for slot in asked {
            let nonce = self.prover.nonce(self.view.record(slot).address, self.now);
            let mut packet = self.packet_to(slot);
            packet.push(&Message::Probe { nonce, doubted: false });
            self.send_to(slot, packet);
        }
        self.timers.set(Timer::Removal, self.now + ASK_AGAIN);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_removal_that_was_taken_back_is_not_believed_again_for_a_while() {
        let mut removals = Removals::default();
        let (run, mut now) = (Run(7), Time::ORIGIN);
        for _ in 0..MAX_REMINDERS {
            assert!(!removals.count_refutation(now, run) && !removals.was_refuted(now, run));
            now = now + Duration::from_secs(2);
        }
        assert!(removals.count_refutation(now, run), "it spoke up so often");
        let later = now + REMOVAL_MEMORY;
        assert!(removals.was_refuted(later - Duration::from_millis(1), run), "whoever says so");
        assert!(!removals.was_refuted(later, run));
        assert!(!removals.count_refutation(later, run), "the next removal is another story");
    }

    #[test]
    fn so_many_refutations_are_counted_and_no_more() {
        let mut removals = Removals::default();
        for run in 0..=MAX_REMOVED as u64 {
            removals.count_refutation(Time::ORIGIN, Run(run));
        }
        assert_eq!(removals.refuted.len(), MAX_REMOVED);
    }
}
