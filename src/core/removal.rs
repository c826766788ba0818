//! Forced removals: believed of members one has known for a while, and obeyed when several of them say so.
//!
//! Without keys any member may remove any other, as its operator may: that is what `remove --force` is. What is bounded is
//! what one member can do by itself:
//!
//! - A removal of a member that lives is taken from a *settled* member alone: one that has been in the view for
//!   [`SETTLE`], or came before this node had been Up for that long, or is a seed. At most [`MAX_REMOVALS`] from one of them in
//!   [`REMOVALS_INTERVAL`], and the operator reads who said so.
//! - Who is told that it was removed stops when [`REMOVAL_VOICES`] settled members say so (all, if there are fewer). It asks
//!   for their word: whoever holds it as removed tells it with every answer.
//! - Who was told so, and by too few, refutes it.
//!
//! What remains possible: a member that has settled removes others, so many in a while, and is named for it, as its operator
//! may. Who stands between a remover and its target passes the removal on in its own name.
//!
//! Must not know: why somebody is removed.

use std::collections::BTreeMap;
use std::time::Duration;

use rand::seq::IndexedRandom;

use super::limits::{MAX_REMOVALS, MAX_REMOVERS, REMOVAL_VOICES, REMOVALS_INTERVAL, SETTLE, TOLD_INTERVAL};
use super::peer::is_due;
use super::time::Time;
use super::timers::Timer;
use super::view::Slot;
use super::wire::Message;
use super::{Core, DetectionMethod, LeaveReason, Notice, Phase, Run, Status};

/// The pause between two questions about the own removal, and how often they are asked before it is refuted.
const ASK_AGAIN: Duration = Duration::from_millis(100);
const ROUNDS: u8 = 20;

/// Who has been here for how long.
#[derive(Debug, Default)]
pub(super) struct Acquaintance {
    up_since: Option<Time>,
    /// Those that came less than [`SETTLE`] ago, if this node has been Up for longer.
    young: BTreeMap<Run, Time>,
}

impl Acquaintance {
    /// This node is Up: whoever is here now was here before it.
    pub(super) fn start(&mut self, now: Time) {
        *self = Self { up_since: Some(now), young: BTreeMap::new() };
    }

    /// A run is new here.
    pub(super) fn meet(&mut self, now: Time, run: Run) {
        if self.up_since.is_some_and(|since| now.since(since) >= SETTLE) {
            self.young.insert(run, now);
        }
    }

    pub(super) fn forget(&mut self, run: Run) {
        self.young.remove(&run);
    }

    /// Those that have settled need not be remembered.
    pub(super) fn tidy(&mut self, now: Time) {
        self.young.retain(|_, since| now.since(*since) < SETTLE);
    }

    fn is_settled(&self, now: Time, run: Run) -> bool {
        self.young.get(&run).is_none_or(|since| now.since(*since) >= SETTLE)
    }
}

/// Removals of others, by who told of them; and of this node, by who says so.
#[derive(Debug, Default)]
pub(super) struct Removals {
    told: BTreeMap<Run, (Time, u32)>,
    voices: BTreeMap<Run, u64>,
    rounds: u8,
}

impl Core {
    /// Whether a member has been known for a while, or is where this node was told to look for members.
    pub(super) fn is_settled(&self, slot: Slot) -> bool {
        let record = self.view.record(slot);
        self.acquaintance.is_settled(self.now, record.run) || self.reunion.is_contact(record.address)
    }

    /// Whether this member's word removes another one that lives.
    pub(super) fn believes_removal(&mut self, subject: Slot, from: Slot) -> bool {
        if !self.is_settled(from) {
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

    /// A removed run has spoken up at a higher incarnation, was told, and is still here: it is removed at that one, so that
    /// everybody knows whom it asks.
    pub(super) fn evict_again(&mut self, slot: Slot) {
        let run = self.view.record(slot).run;
        let is_told = self.view.entry(slot).peer.errands().last_told.is_some_and(|last| self.now > last);
        let is_due = is_due(self.now, self.view.entry(slot).peer.errands().last_told, TOLD_INTERVAL);
        let has_left = matches!(self.view.record(slot).status, Status::Left(_));
        if is_told && is_due && !has_left && self.evicted.remove(&run).is_some() {
            self.pronounce(slot, Status::Left(LeaveReason::Forced), DetectionMethod::HeartbeatTimeout);
        }
    }

    /// A member says that this node was removed, at this incarnation.
    pub(super) fn told_removed(&mut self, by: Option<Slot>, incarnation: u64) {
        if matches!(self.phase, Phase::Joining(_)) {
            // There is nobody else to ask: it says so who hands over its view.
            return self.obey();
        }
        let Some(by) = by.filter(|by| self.settled_members().contains(by) || self.is_settled(*by)) else { return };
        let by = self.view.record(by).run;
        if self.removals.voices.len() >= REMOVAL_VOICES && !self.removals.voices.contains_key(&by) {
            self.removals.voices.pop_first();
        }
        self.removals.voices.insert(by, incarnation);
        if self.removals.voices.len() >= self.settled_members().len().clamp(1, REMOVAL_VOICES) {
            return self.obey();
        }
        if self.removals.rounds == 0 {
            self.ask_about_removal();
        }
    }

    /// Asks other members for a sign: those that hold this node as removed say so in their answers.
    pub(super) fn ask_about_removal(&mut self) {
        if self.removals.rounds >= ROUNDS {
            let said = self.removals.voices.values().copied().max().unwrap_or(0);
            self.removals.voices.clear();
            self.removals.rounds = 0;
            if matches!(self.phase, Phase::Up) {
                self.refute(said.max(self.me().incarnation));
            }
            return;
        }
        self.removals.rounds += 1;
        let mut others = self.settled_members();
        others.retain(|slot| !self.removals.voices.contains_key(&self.view.record(*slot).run));
        let asked: Vec<Slot> = others.sample(&mut self.rng, REMOVAL_VOICES).copied().collect();
        for slot in asked {
            let nonce = self.prover.nonce(self.view.record(slot).address, self.now);
            let mut packet = self.packet_to(slot);
            packet.push(&Message::Probe { nonce, doubted: false });
            self.send_to(slot, packet);
        }
        self.timers.set(Timer::Removal, self.now + ASK_AGAIN);
    }
}
