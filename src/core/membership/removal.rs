//! Forced removals: a removal of another member is believed from members known for a while; this node obeys its own
//! removal if several of them report it.
//!
//! Without keys any member may remove any other, as its operator may: that is what `remove --force` does. The power of
//! one member alone is bounded:
//!
//! - A removal of a live member is accepted from an *elder* alone. At most [`MAX_REMOVALS`] are accepted from one of
//!   them in [`REMOVALS_INTERVAL`], and the operator can read who sent them.
//! - A member that is told that it was removed stops when [`REMOVAL_REPORTERS`] elders say so (more than half, if there
//!   are fewer). It asks for their word: a member that holds it as removed tells it so with every answer. A member that
//!   has just joined, and that has seeds among the members, also needs one of these to say so: it cannot tell elders
//!   from others that have just joined.
//! - A member that was told so by too few refutes it; a member that held it as removed and reads [`MAX_REMINDERS`]
//!   refutations in a row takes the removal back, and believes no other one for [`REMOVAL_MEMORY`]. A member that does
//!   not believe a removal, and hears of it again, tells its subject.
//!
//! **An elder** is a member that this node found in its first view, or that came [`SETTLE`] ago, or that is a seed and
//! answered at the seed's address. In a cluster that is itself younger than that, the members that founded it together
//! with this node are elders, too (within [`FOUNDED_TOGETHER`] of each other, and present for half of the time), and in
//! any case the first [`MIN_ELDERS`] that came: an operator can remove a member from a young cluster, and a member that
//! came later cannot.
//!
//! These risks remain: an elder can remove others, a bounded number in a while, and is named for it, as its operator
//! may. A node on the path between a remover and its target passes the removal on in its own name. In the first minute
//! of a cluster a member that came late is not believed by those before it, whatever its operator wants: send the
//! command to an older one.
//!
//! Must not know: the reason for a removal.

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::num::NonZeroU32;
use std::time::Duration;

use rand::seq::IndexedRandom;

use crate::core::counters::DropReason;
use crate::core::doors::Notice;
use crate::core::limits::{
    FOUNDED_TOGETHER, MAX_CLAIMS, MAX_REMINDERS, MAX_REMOVALS, MAX_REMOVED, MAX_REMOVERS, MIN_ELDERS,
    OBJECTION_INTERVAL, REMOVAL_MEMORY, REMOVAL_OBJECTION, REMOVAL_REPORTERS, REMOVALS_INTERVAL, SETTLE, TOLD_INTERVAL,
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

/// The times at which members came.
#[derive(Debug, Default)]
pub(in crate::core) struct Arrivals {
    up_since: Option<Time>,
    /// True if this node was there before its cluster, or found it at the same moment as others.
    is_founder: bool,
    /// True if nobody else was there when this node became Up.
    was_alone: bool,
    /// The times at which members came, by their slots, if that was less than [`SETTLE`] ago and after this node was
    /// Up. Empty if there are none.
    young: Vec<Option<Moment>>,
    /// The addresses at which the earlier runs of those of them were whose word about leases counted.
    back: BTreeMap<Slot, SocketAddr>,
}

/// Milliseconds after this node was Up, modulo 2^32: unambiguous as long as they are forgotten within weeks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Moment(NonZeroU32);

impl Moment {
    fn at(time: Time, up_since: Time) -> Self {
        Self(NonZeroU32::new(time.since(up_since).as_millis() as u32).unwrap_or(NonZeroU32::MIN))
    }

    fn ago(self, now: Time, up_since: Time) -> Duration {
        let now = now.since(up_since).as_millis() as u32;
        // The first millisecond counts as the second.
        Duration::from_millis(u64::from(now.max(1).wrapping_sub(self.0.get())))
    }
}

impl Arrivals {
    /// Notes that this node is Up: the members that are there now came before it.
    pub(in crate::core) fn start(&mut self, now: Time, is_founder: bool, was_alone: bool) {
        *self = Self { up_since: Some(now), is_founder, was_alone, young: Vec::new(), back: BTreeMap::new() };
    }

    /// Notes the time at which a new run came.
    pub(super) fn note_arrival(&mut self, now: Time, slot: Slot) {
        if let Some(up_since) = self.up_since {
            let place = slot as usize;
            if self.young.len() <= place {
                self.young.reserve_exact((place + 1 - self.young.len()).max(place / 8));
                self.young.resize(place + 1, None);
            }
            self.young[place] = Some(Moment::at(now, up_since));
        }
    }

    pub(in crate::core) fn forget(&mut self, slot: Slot) {
        self.back.remove(&slot);
        if let Some(came) = self.young.get_mut(slot as usize) {
            *came = None;
        }
    }

    /// Forgets the times of members that have settled.
    pub(in crate::core) fn tidy(&mut self, now: Time) {
        let Some(up_since) = self.up_since else { return };
        let is_young = |came: &Moment| came.ago(now, up_since) < SETTLE;
        let mut any = false;
        let young = &self.young;
        self.back.retain(|slot, _| young.get(*slot as usize).copied().flatten().as_ref().is_some_and(is_young));
        for came in &mut self.young {
            *came = came.filter(is_young);
            any |= came.is_some();
        }
        if !any {
            self.young = Vec::new();
        }
    }

    /// Returns the time at which a member came, if that was after this node and a short while ago.
    fn came(&self, now: Time, slot: Slot) -> Option<Time> {
        let ago = self.young.get(slot as usize).copied().flatten()?.ago(now, self.up_since?);
        (ago < SETTLE).then(|| now - ago)
    }

    /// Returns true if a member came before this node, or long ago, or founded the cluster with it.
    fn is_elder(&self, now: Time, slot: Slot) -> bool {
        let (Some(came), Some(up_since)) = (self.came(now, slot), self.up_since) else { return true };
        self.is_founder && came.since(up_since) <= FOUNDED_TOGETHER && now.since(came) * 2 >= now.since(up_since)
    }

    /// Returns true if a member came long ago, or while this node was new itself.
    fn is_settled(&self, now: Time, slot: Slot) -> bool {
        self.came(now, slot).is_none_or(|came| self.up_since.is_some_and(|since| came.since(since) < SETTLE))
    }
}

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
    /// Returns true if there were no other members when this node became Up: nobody knew more than it.
    pub fn has_begun_alone(&self) -> bool {
        self.arrivals.was_alone
    }

    /// Returns true if a member has been known for a while, or is at an address where this node was told to look for
    /// members.
    pub(in crate::core) fn is_settled(&self, slot: Slot) -> bool {
        self.arrivals.is_settled(self.now, slot) || self.is_contact(slot)
    }

    /// Returns true if a member came before this node, or long ago.
    pub(in crate::core) fn is_known_for_long(&self, slot: Slot) -> bool {
        self.arrivals.came(self.now, slot).is_none()
    }

    /// Returns true if a member is at an address where this node was told to look for members, and has proven that
    /// address.
    pub(in crate::core) fn is_contact(&self, slot: Slot) -> bool {
        self.view.entry(slot).peer.proven && self.is_where_contacts_are(slot)
    }

    /// Returns true if a member's record has an address where this node was told to look for members, proven or not.
    fn is_where_contacts_are(&self, slot: Slot) -> bool {
        self.reunion.is_contact(self.view.record(slot).address)
    }

    /// Returns true if this node has been Up for so short a while that no member is known for longer.
    pub(in crate::core) fn is_new_here(&self) -> bool {
        self.arrivals.up_since.is_none_or(|since| self.now.since(since) < SETTLE)
    }

    /// Returns true if a member's word counts about the life and death of others.
    pub(in crate::core) fn is_elder(&self, slot: Slot) -> bool {
        if self.is_elder_beside_others(slot) {
            return true;
        }
        let came = |slot: Slot| self.arrivals.came(self.now, slot);
        let mine = came(slot);
        let is_before = |other: &Slot| *other != slot && (self.is_elder_beside_others(*other) || came(*other) < mine);
        self.view.live().iter().copied().filter(is_before).take(MIN_ELDERS).count() < MIN_ELDERS
    }

    /// Returns true if a member's word counts about leases: that of an elder, and of one that is back.
    pub(in crate::core) fn counts_about_leases(&self, slot: Slot) -> bool {
        let entry = self.view.entry(slot);
        let is_back = entry.peer.proven && self.arrivals.back.get(&slot) == Some(&entry.record.address);
        is_back || self.is_elder(slot)
    }

    /// Notes that a member is about to be another run, which came at this moment. If the word of the run that is held
    /// counts, that of the new one counts about leases once it has proven the same address, whoever bore the name
    /// between.
    pub(super) fn meet_new_run(&mut self, slot: Slot) {
        if self.arrivals.up_since.is_some() && self.is_elder(slot) {
            self.arrivals.back.insert(slot, self.view.record(slot).address);
        }
        self.arrivals.note_arrival(self.now, slot);
    }

    /// Returns true if a member is an elder for another reason than being among the first [`MIN_ELDERS`].
    pub(super) fn is_elder_beside_others(&self, slot: Slot) -> bool {
        self.arrivals.is_elder(self.now, slot) || self.is_contact(slot)
    }

    fn elders(&self) -> Vec<Slot> {
        self.view.live().iter().copied().filter(|slot| self.is_elder(*slot)).collect()
    }

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
