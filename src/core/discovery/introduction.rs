//! Introductions: strangers that answer this node's question say who they are.
//!
//! ```text
//! A ─ WhoAreYou(a) ─▶ B        B ─ WhoAreYou(b, echo a) ─▶ A        (B's address is proven to A)
//! A ─ IAm(b), WhoAreYou(a) ─▶ B (A's is proven to B)                 B ─ IAm(a) ─▶ A
//! ```
//!
//! Invariants:
//! - Nobody is believed that was not asked, or that has not read what was sent to the address that its record names.
//! - A known run is moved only by whoever reads at both addresses, or is where it was before it was gone (see `homes`).
//!
//! Must not know: why somebody was asked.

use std::sync::Arc;

use crate::core::counters::DropReason;
use crate::core::doors::{Contacted, Receiver};
use crate::core::limits::MIN_PROBE_BYTES;
use crate::core::member::{Record, Status};
use crate::core::packet::{Introduction, MoveStep, Newcomer, News, Sender, SenderKind, Way};
use crate::core::view::{AddressOrigin, Slot, View};
use crate::core::wire::{Message, Nonce};
use crate::core::{Core, Phase};

impl Core {
    /// Takes an echo of this node's nonce by a stranger or a member, which proves the sender's address if it is right;
    /// returns true if it is.
    pub(in crate::core) fn echoed(&mut self, sender: Sender, echo: Nonce) -> bool {
        self.name_answered(sender, echo);
        let is_right = self.prover.is_nonce(echo, sender.from, self.now);
        if is_right {
            self.contacted(sender.from, || Contacted::NotUp { id: None });
        }
        if !is_right {
            self.counters.drop(DropReason::Unasked);
        } else if let SenderKind::Member(slot) = sender.kind
            && self.view.record(slot).address == sender.from
        {
            self.view.prove(slot);
        }
        is_right
    }

    /// Calls a member where it is known to be, as somebody calls in its name: the member is asked itself.
    fn call_home(&mut self, slot: Slot) {
        let home = self.view.record(slot).address;
        if matches!(self.phase, Phase::Up) && self.questions.allow(self.now, home, false) {
            self.call_again(home);
        }
    }

    /// Takes the word of somebody who says who it is because this node asked. `has_reminded` is true if it brought back
    /// what this node gave to its run.
    pub(in crate::core) fn introduced(
        &mut self,
        sender: Sender,
        nonce: Nonce,
        record: Record,
        has_reminded: bool,
    ) -> Introduction {
        self.name_answered(sender, nonce);
        let is_asked =
            self.prover.is_nonce(nonce, sender.from, self.now) || self.prover.is_nonce(nonce, record.address, self.now);
        if !is_asked {
            self.counters.drop(DropReason::Unasked);
            return Introduction::Ignored;
        }
        if record.run != sender.run || record.run.is_nobody() {
            self.counters.drop(DropReason::Malformed);
            return Introduction::Ignored;
        }
        let is_answer = record.address == sender.from && self.prover.is_nonce(nonce, sender.from, self.now);
        if matches!(sender.kind, SenderKind::ClaimsMember(_)) && !is_answer {
            // A known run is introduced from where it is known to be, or says that it is elsewhere by now.
            self.counters.drop(DropReason::Claimed);
            if let SenderKind::ClaimsMember(slot) = sender.kind
                && matches!(sender.way, Way::Link(_))
            {
                self.call_home(slot);
                let held = self.view.record(slot).address;
                let is_allowed = record.address != held && matches!(self.phase, Phase::Up);
                if is_allowed
                    && (self.reaches.introduced.allow(self.now, record.address, false)
                        || self.may_ask_mover(slot, MoveStep::Call))
                {
                    // It may have moved: there it can prove that.
                    self.call_for(sender.from, record.address);
                }
            }
            return Introduction::Ignored;
        }
        // A record that needs a note is told by others, never by its owner.
        let says_so_itself = matches!(record.status, Status::Up | Status::Leaving);
        if record.status == Status::Joining {
            self.answered_not_up(sender.from, &record.id);
        }
        if matches!(self.phase, Phase::Joining(_)) {
            return Introduction::Met;
        }
        if !says_so_itself || !matches!(self.phase, Phase::Up | Phase::Leaving) {
            return Introduction::Ignored;
        }
        let (is_here, is_at_home) =
            (self.prover.is_nonce(nonce, sender.from, self.now), self.prover.is_nonce(nonce, record.address, self.now));
        // A node that says that it has moved is believed when it proves that.
        if is_here && !matches!(sender.kind, SenderKind::ClaimsMember(_)) {
            self.answered_contact(sender.from, &record.id);
        }
        if let Some(incarnation) = self.tombstones.incarnation(record.id.as_str()).filter(|b| record.incarnation <= *b)
        {
            self.counters.drop(DropReason::Outdated);
            return Introduction::Tombstoned { incarnation };
        }
        let is_known = self.view.slot_of_run(record.run).is_some();
        let mut has_moved = has_reminded;
        if !is_at_home {
            // It speaks from one address and wants to be spoken to at another: that one must say so itself.
            if self.reaches.introduced.allow(self.now, record.address, false) {
                let nonce = self.prover.nonce(record.address, self.now);
                let mut packet = self.anonymous_packet(usize::MAX);
                packet.push(&Message::WhoAreYou { nonce, echo: None });
                packet.pad_to(self.question_bytes(MIN_PROBE_BYTES).min(sender.bytes));
                self.transmit(record.address, Receiver::Anybody, packet);
                if matches!(sender.way, Way::Link(_)) {
                    self.call_for(sender.from, record.address);
                }
            }
            return Introduction::Ignored;
        }
        if record.id == self.me().id {
            self.met_rival(record);
            return Introduction::Outdated { newer: View::ME };
        }
        if let Some(slot) = self.view.slot_of_run(record.run)
            && self.view.record(slot).address != record.address
        {
            // A node is where it says if it is heard from where it was and reads what is sent to the new address, at
            // once or in turn.
            has_moved |= sender.kind == SenderKind::Member(slot) || self.has_announced(slot, record.address);
            // Whoever is where a stray was before it was gone is its owner, whoever answers where the stray is.
            has_moved |= self.homes.of(record.run) == Some(record.address);
            let held = self.view.record(slot);
            let is_held_live = matches!(held.status, Status::Up | Status::Suspect | Status::Leaving);
            if has_moved && !record.supersedes(held) {
                return Introduction::Outdated { newer: slot };
            } else if is_held_live && !has_moved {
                // Anybody may claim a move: it is not believed as long as the member is not found to be gone from where
                // it was.
                return Introduction::Ignored;
            }
        }
        if let Some(held) = self.live_holder(&record)
            && !self.prover.is_nonce(nonce, held.address, self.now)
        {
            if let Some(newer) = self.view.slot_of(record.id.as_str()).filter(|_| held.supersedes(&record)) {
                return Introduction::Outdated { newer };
            }
            let newcomer = Newcomer { from: sender.from, heard_from: sender.from, nonce, record };
            self.probe_name(newcomer, &held);
            return Introduction::Ignored;
        }
        let held = self.view.slot_of(record.id.as_str());
        if let Some(newer) = held.filter(|slot| !is_known && self.view.record(*slot).supersedes(&record)) {
            return Introduction::Outdated { newer };
        }
        let is_expected = self.expected.contains(self.now, sender.from);
        if !is_known && !self.introductions.allow(self.now, sender.from, is_expected) {
            // One question lets one stranger in.
            self.counters.drop(DropReason::RateLimited);
            return Introduction::Ignored;
        }
        let (run, id) = (record.run, record.id.clone());
        if !is_known && held.is_none() && self.is_of_long_standing(&record) {
            self.reunion.met(&id, record.address);
        }
        if has_moved && let Some(slot) = self.view.slot_of_run(run) {
            self.view.peer_mut(slot).address_origin = AddressOrigin::JustProven;
        }
        self.learn(News::told(record), None);
        if has_moved && is_here {
            self.answered_contact(sender.from, &id);
        }
        if has_moved && let Some(slot) = self.view.slot_of_run(run) {
            // Either the member is where it says, or its move was not believed for other reasons; then no other's word
            // moves it later.
            self.view.peer_mut(slot).address_origin = AddressOrigin::Proven;
        }
        match self.view.slot_of_run(run) {
            Some(slot) => {
                if self.view.record(slot).address == sender.from {
                    self.view.prove(slot);
                } else if is_at_home && !is_known {
                    self.add_alias(slot, sender.from);
                }
                Introduction::Member
            }
            None => match self.view.slot_of(id.as_str()) {
                Some(slot) => Introduction::Outdated { newer: slot },
                None => Introduction::Ignored,
            },
        }
    }

    /// Returns the live member of that name, if it is another run.
    fn live_holder(&self, record: &Record) -> Option<Arc<Record>> {
        let held = self.view.record(self.view.slot_of(record.id.as_str())?);
        let is_held = matches!(held.status, Status::Up | Status::Suspect | Status::Leaving) && held.run != record.run;
        (is_held && record.id != self.me().id).then(|| Arc::clone(held))
    }
}
