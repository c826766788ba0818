//! Introductions: strangers that answer this node's question say who they are.
//!
//! ```text
//! A ─ WhoAreYou(a) ─▶ B        B ─ WhoAreYou(b, echo a) ─▶ A        (B's address is proven to A)
//! A ─ IAm(b), WhoAreYou(a) ─▶ B (A's is proven to B)                 B ─ IAm(a) ─▶ A
//! ```
//!
//! Invariants:
//! - Nobody is believed that was not asked, and no stranger that has not read what was sent to the address that its record
//!   names: it would be a member that is not reached. A member has seen to that before it wrote another one (see
//!   `membership::moving`).
//!
//! Must not know: why somebody was asked.

use std::net::SocketAddr;

use crate::Core;
use crate::context::Phase;
use crate::counters::DropReason;
use crate::doors::{Contacted, Receiver};
use crate::limits::MIN_PROBE_BYTES;
use crate::member::{Record, Status};
use crate::packet::{Introduction, News, Sender, SenderKind, Turn, Way};
use crate::view::{Slot, View};
use crate::wire::{Message, Nonce};

impl Core {
    /// Takes an echo of this node's nonce by a stranger or a member, which proves the sender's address if it is right;
    /// returns true if it is.
    pub(crate) fn echoed(&mut self, sender: Sender, echo: Nonce) -> bool {
        self.name_answered(sender, echo);
        let is_right = self.packets.prover.is_nonce(echo, sender.from, self.cx.now);
        if is_right {
            self.contacted(sender.from, || Contacted::NotUp { id: None });
        }
        if !is_right {
            self.cx.counters.drop(DropReason::Unasked);
        } else if let SenderKind::Member(slot) = sender.kind
            && self.view.record(slot).address == sender.from
        {
            self.proved_at_home(slot);
        }
        is_right
    }

    /// Takes the word of somebody who says who it is because this node asked.
    pub(crate) fn on_i_am(&mut self, sender: Sender, nonce: Nonce, record: Record) -> Introduction {
        self.name_answered(sender, nonce);
        let is_here = self.packets.prover.is_nonce(nonce, sender.from, self.cx.now);
        let is_at_home = self.packets.prover.is_nonce(nonce, record.address, self.cx.now);
        if !is_here && !is_at_home {
            self.cx.counters.drop(DropReason::Unasked);
            return Introduction::Ignored;
        }
        if record.run != sender.run || record.run.is_nobody() {
            self.cx.counters.drop(DropReason::Malformed);
            return Introduction::Ignored;
        }
        // A record that needs a note is told by others, never by its owner.
        let says_so_itself = matches!(record.status, Status::Up | Status::Leaving);
        if record.status == Status::Joining {
            self.answered_not_up(sender.from, &record.id);
        }
        if self.cx.phase.is_joining() {
            return Introduction::Met;
        }
        if !says_so_itself || !matches!(self.cx.phase, Phase::Up | Phase::Leaving) {
            return Introduction::Ignored;
        }
        if is_here {
            self.answered_contact(sender.from, &record.id);
        }
        if let Some(incarnation) =
            self.view.tombstones.incarnation(record.id.as_str()).filter(|b| record.incarnation <= *b)
        {
            self.cx.counters.drop(DropReason::Outdated);
            return Introduction::Tombstoned { incarnation };
        }
        if let Some(slot) = self.view.slot_of_run(record.run) {
            return self.member_introduced(slot, sender, record, (is_here, is_at_home));
        }
        if !is_at_home {
            // It speaks from one address and wants to be spoken to at another: that one must say so itself.
            if self.packets.turns.take(self.cx.now, Turn::AtIntroduced, record.address) {
                let nonce = self.packets.prover.nonce(record.address, self.cx.now);
                let mut packet = self.out().anonymous_packet(usize::MAX);
                packet.push(&Message::WhoAreYou { nonce, echo: None });
                packet.pad_to(self.out().question_bytes(MIN_PROBE_BYTES).min(sender.bytes));
                self.out().transmit(record.address, Receiver::Anybody, packet);
                if matches!(sender.way, Way::Link(_)) {
                    self.call(record.address);
                }
            }
            return Introduction::Ignored;
        }
        if record.id == self.me().id {
            self.met_rival(&record);
            return Introduction::Outdated { newer: View::ME };
        }
        let held = self.view.slot_of(record.id.as_str());
        if let Some(newer) = held.filter(|slot| self.view.record(*slot).supersedes(&record)) {
            return Introduction::Outdated { newer };
        }
        if !self.packets.turns.take(self.cx.now, Turn::Introduction, sender.from) {
            // One question lets one stranger in.
            self.cx.counters.drop(DropReason::RateLimited);
            return Introduction::Ignored;
        }
        if held.is_none() && self.arrivals.is_of_long_standing(self.cx.now, self.view.me(), &record) {
            self.reunion.met(&record.id, record.address);
        }
        let (run, id) = (record.run, record.id.clone());
        self.learn(News::told(record), None);
        match self.view.slot_of_run(run) {
            Some(slot) => {
                if self.view.record(slot).address == sender.from {
                    self.proved_at_home(slot);
                }
                Introduction::Member
            }
            None => match self.view.slot_of(id.as_str()) {
                Some(slot) => Introduction::Outdated { newer: slot },
                None => Introduction::Ignored,
            },
        }
    }

    /// Takes a member's own word of where and what it is; it has read what was sent to where it speaks from, or to the
    /// address in its record. One that is silent at its address, and says that it is there, must say so from there: else it
    /// would be Up again by what it sends from elsewhere, and Down for its silence, without end.
    fn member_introduced(
        &mut self,
        slot: Slot,
        sender: Sender,
        record: Record,
        (is_here, is_at_home): (bool, bool),
    ) -> Introduction {
        let held = self.view.record(slot);
        let is_silent = matches!(held.status, Status::Suspect | Status::Down);
        if is_silent && record.address == held.address && sender.from != record.address && !is_at_home {
            match sender.way {
                Way::Link(_) => self.call_home(record.address),
                Way::Datagrams | Way::Unbound => self.out().ask_at_home(slot),
            }
            return Introduction::Ignored;
        }
        let (is_outdated, is_elsewhere) = (held.supersedes(&record), sender.from != held.address);
        if is_elsewhere && sender.way == Way::Datagrams {
            self.me.moving.ask_also(&mut outbox!(self), sender.from, sender.run);
        }
        if is_outdated {
            return Introduction::Outdated { newer: slot };
        }
        let (run, address) = (record.run, record.address);
        self.learn(News::told(record), None);
        let Some(slot) = self.view.slot_of_run(run).filter(|slot| self.view.record(*slot).address == address) else {
            return Introduction::Ignored;
        };
        match sender.way {
            _ if address == sender.from => self.proved_at_home(slot),
            Way::Datagrams | Way::Unbound if is_here => self.reunion.answers_at(sender.from, run, address),
            Way::Datagrams | Way::Unbound => {}
            Way::Link(_) => self.call_home(address),
        }
        Introduction::Member
    }

    /// Calls a member at its address, since somebody called in its name: datagrams may not pass, and what it says is
    /// believed there.
    fn call_home(&mut self, address: SocketAddr) {
        if self.cx.phase.is_up() && self.packets.turns.take(self.cx.now, Turn::Question, address) {
            self.call_again(address);
        }
    }
}
