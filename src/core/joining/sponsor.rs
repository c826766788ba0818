//! Admitting joiners: the sponsor's side of joining.
//!
//! Invariants:
//! - Before the cookie came back nothing is kept of a joiner but when its address was answered, in a table of fixed size, and
//!   no answer is larger than its question.
//! - A joiner is admitted only after its *advertised* address brought back a cookie (see `reachable`).
//! - A joiner that asks again at once, whatever it is answered, is answered so often in a second and no more; one that is
//!   not let in is told so a few times (see `joiners`).
//! - A name that a live member holds is only given away after that member was probed (see `names`).
//!
//! Must not know: how joiners are kept (see `joiners`).

use std::sync::Arc;

use super::joiners::Joiners;
use super::names::NameProbes;
use super::transfer::ViewServer;
use crate::context::Phase;
use crate::counters::DropReason;
use crate::election::ElectorateReport;
use crate::io::{Notice, Receiver};
use crate::member::{ProtocolRange, Record, Run, Status};
use crate::packet::Outbox;
use crate::packet::{Newcomer, Sender, Turn};
use crate::view::View;
use crate::wire::{Message, Nonce, Refusal};
use rand_chacha::ChaCha8Rng;

/// A node that lets others in: a machine. It is lent the outbox, and asks, answers and serves by itself.
#[derive(Debug, Clone)]
pub(crate) struct Sponsor {
    pub(super) rng: ChaCha8Rng,
    /// The joiners that are held beside the view, or wait.
    pub(crate) joiners: Joiners,
    /// The holders of names that are asked whether they are there.
    pub(crate) names: NameProbes,
    /// Whose turn it is to be served the view.
    pub(super) serving: ViewServer,
}

impl Sponsor {
    pub(crate) fn new(rng: ChaCha8Rng) -> Self {
        let (joiners, names, serving) = Default::default();
        Self { rng, joiners, names, serving }
    }

    /// Handles `Join`: first sends a challenge, then decides. Returns the newcomer if it waits, since this node is Joining itself.
    /// `founded`: what is known of an electorate.
    pub(crate) fn on_join(
        &mut self,
        out: &mut Outbox<'_>,
        founded: Option<ElectorateReport>,
        sender: Sender,
        nonce: Nonce,
        record: Record,
        cookie: Option<Nonce>,
    ) -> Option<Newcomer> {
        if !self.joiners.take_answer(out.cx.now, sender.run, sender.from) {
            out.cx.counters.drop(DropReason::RateLimited);
            return None;
        }
        let is_of = |address| {
            cookie.is_some_and(|cookie| out.packets.prover.is_cookie(cookie, address, sender.run, out.cx.now))
        };
        // A cookie that came back for the advertised address proves that one, wherever this packet comes from.
        let is_of_advertised = is_of(record.address);
        let is_proven = is_of_advertised || is_of(sender.from);
        if out.cx.phase.is_up() && self.serving.is_busy_for(sender.run, sender.from, out.cx.now) {
            let elsewhere = self.refer(out.view, sender.from, nonce);
            out.answer_with(sender, &elsewhere);
            return None;
        }
        if !is_proven {
            let cookie = out.packets.prover.cookie(sender.from, sender.run, out.cx.now);
            out.answer_with(sender, &Message::Challenge { nonce, cookie });
            return None;
        }
        if record.run != sender.run || record.status != Status::Joining || record.run.is_nobody() {
            out.cx.counters.drop(DropReason::Malformed);
            return None;
        }
        let from = if is_of_advertised { record.address } else { sender.from };
        if self.joiners.is_elsewhere(sender.run, from) {
            // One process is in one place: the joiner of this run is at another address.
            out.cx.counters.drop(DropReason::Claimed);
            return None;
        }
        let newcomer = Newcomer { from, heard_from: sender.from, nonce, record };
        if !newcomer.record.protocol.overlaps(ProtocolRange::OURS) {
            out.cx.notice("other protocol", Notice::OtherProtocol { from: sender.from });
            if !out.packets.turns.take(out.cx.now, Turn::Refusal, sender.from) {
                out.cx.counters.drop(DropReason::RateLimited);
                return None;
            }
            let refusal = Refusal::Protocol { speaks: ProtocolRange::OURS };
            decide(out, &newcomer, &Message::Refused { nonce, refusal });
            return None;
        }
        match out.cx.phase {
            Phase::Joining => {
                self.joiners.keep_waiting(&newcomer, out.cx.now);
                return Some(newcomer);
            }
            Phase::Up => self.admit(out, founded, newcomer, None),
            Phase::Leaving | Phase::Stopped => out.cx.counters.drop(DropReason::WrongState),
        }
        None
    }

    /// Admits the joiners that asked before this node was Up.
    pub(crate) fn welcome_waiting(&mut self, out: &mut Outbox<'_>, founded: Option<ElectorateReport>) {
        for newcomer in self.joiners.take_waiting() {
            self.admit(out, founded, newcomer, None);
        }
    }

    /// Admits a newcomer, or answers why not (yet). `vacated_by` is the run that was probed for this name and is gone.
    pub(crate) fn admit(
        &mut self,
        out: &mut Outbox<'_>,
        founded: Option<ElectorateReport>,
        newcomer: Newcomer,
        vacated_by: Option<Run>,
    ) {
        let Newcomer { from, nonce, ref record, .. } = newcomer;
        if record.id == out.view.me().id {
            let refusal = Refusal::NameInUse { holder: out.view.me().address };
            return decide(out, &newcomer, &Message::Refused { nonce, refusal });
        }
        let held = out.view.slot_of(record.id.as_str()).map(|slot| Arc::clone(out.view.record(slot)));
        let last = out.view.tombstones.incarnation(record.id.as_str()).max(held.as_ref().map(|held| held.incarnation));
        if let Some(incarnation) = last.filter(|last| record.incarnation <= *last) {
            return decide(out, &newcomer, &Message::Behind { nonce, incarnation });
        }
        if !self.try_reach(out, &newcomer) {
            return;
        }
        let namesake = self.joiners.of_name(&record.id).cloned();
        let is_held = |held: &Arc<Record>| held.status.is_member();
        let owner = held.clone().filter(is_held).or(namesake).filter(|owner| owner.run != record.run);
        if let Some(owner) = owner
            && vacated_by != Some(owner.run)
            && !self.joiners.contains(record.run)
            && owner.address != from
        {
            return self.probe_name(out, newcomer, &owner);
        }
        if self.joiners.is_ahead_of(record) {
            // A late copy: the joiner has raised its incarnation since.
            return out.cx.counters.drop(DropReason::Outdated);
        }
        let is_held = self.joiners.contains(record.run);
        if let Some(owner) = self.other_at(out.view, record).filter(|owner| vacated_by != Some(owner.run)) {
            return self.probe_name(out, newcomer, &owner);
        }
        if !self.serving.begin(record.run, from, out.cx.now) {
            let elsewhere = self.refer(out.view, from, nonce);
            return decide(out, &newcomer, &elsewhere);
        }
        self.name_stuck_joiner(out.cx, out.view.me(), &newcomer.record);
        if !is_held
            && self.joiners.is_full()
            && let Some(run) = self.joiners.idlest()
        {
            self.drop_joiner(out, run);
        }
        self.hold(out.cx, &newcomer, held.is_some());
        let sponsor = Record::clone(out.view.me());
        let mut packet = out.packet(usize::MAX);
        packet.push(&Message::Reply);
        if let Some(founded) = founded {
            packet.push(&Message::ElectorateReport(founded));
        }
        packet.push(&Message::Welcome { nonce, sponsor });
        out.transmit(newcomer.from, Receiver::of(newcomer.record.run), packet);
    }

    /// Returns a live member of another name at the joiner's address. It is probed before the joiner is admitted: one
    /// process at one address is one member.
    fn other_at(&self, view: &View, record: &Record) -> Option<Arc<Record>> {
        if self.joiners.contains(record.run) {
            return None;
        }
        let members = view.live().iter().map(|slot| view.record(*slot));
        let others = members.filter(|member| member.run != record.run && member.id != record.id);
        others.filter(|member| member.address == record.address).max_by_key(|member| member.incarnation).map(Arc::clone)
    }
}

/// Sends the decision to a newcomer, whose address is proven.
pub(crate) fn decide(out: &mut Outbox<'_>, newcomer: &Newcomer, message: &Message) {
    out.reply_at(newcomer.from, newcomer.record.run, message);
}
