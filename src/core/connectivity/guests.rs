//! Guests: connections that others opened, as long as they prove nothing. A member whose advertised address is dead connects as
//! well, and must not stay Up by that.
//!
//! ```text
//! opener ── connects, greets ──▶ acceptor          a guest: the frame is a stranger's
//! opener ◀── Probe, to the record's address ── acceptor
//! opener ── Ack, as a datagram and over the connection ──▶ acceptor
//!                                                  proven: the member's link, greeted in turn
//! ```
//!
//! The probe never arrives where datagrams do not pass. A guest that has proven nothing for [`GUEST_PATIENCE`] (at
//! once, if datagrams are known not to pass) is dialled back: this node opens a link to the address in the record, and
//! is greeted there by the member, or by nobody. A probe over the guest is acknowledged over that link, and the guest's
//! own proof comes the same way; of the two links one stays (see `links`).
//!
//! ```text
//! opener ── connects, greets ──▶ acceptor          a guest
//! opener ◀── connects to the record's address, greets, Ack ── acceptor
//! opener ── Ack ──▶ acceptor                       both are proven; the one opened by the smaller address stays
//! ```
//!
//! Only addresses of live members are dialled, each once per [`DIAL_INTERVAL`], and [`MAX_DIALS_PER_INTERVAL`] of them
//! together: when many come at once, this node opens few connections.
//!
//! Invariants:
//! - Nothing that comes over a guest is believed, and nothing goes over it.
//! - Guests neither stand in for a member's link nor displace it.
//! - There are at most [`MAX_GUESTS_PER_RUN`] in one member's name, and as many in all as there may be links: the oldest of its
//!   name gives way, and beyond all places new ones are refused, since those that are there are about to prove themselves. Every guest goes after [`MAX_GUEST_FRAMES`] frames, or after [`LINK_TIMEOUT`].
//!
//! Must not know: what a link is used for.

use crate::core::packet::Way;
use std::collections::BTreeMap;
use std::net::SocketAddr;

use crate::core::counters::DropReason;
use crate::core::doors::{LinkId, Output};
use crate::core::limits::{
    CLAIM_INTERVAL, DIAL_INTERVAL, GUEST_PATIENCE, GUEST_PROBE_INTERVAL, LINK_TIMEOUT, MAX_CLAIMS_PER_INTERVAL,
    MAX_DIALS_PER_INTERVAL, MAX_GUEST_FRAMES, MAX_GUESTS_PER_RUN, MAX_LINKS, MIN_PROBE_BYTES,
};
use crate::core::member::Run;
use crate::core::packet::{PerKeyRate, Sender, SenderKind};
use crate::core::time::Time;
use crate::core::timers::Timer;
use crate::core::view::{Slot, View};
use crate::core::wire::{Header, Message, Messages, Nonce, PacketError};
use crate::core::{Core, Phase};

/// All guests, by connection.
#[derive(Debug)]
pub(in crate::core) struct Guests {
    held: BTreeMap<LinkId, Guest>,
    /// The rate at which members are dialled that have not proven their addresses.
    dialled: PerKeyRate<Run>,
    /// The rate at which members are asked whether guests are their own.
    asked: PerKeyRate<Run>,
}

impl Default for Guests {
    fn default() -> Self {
        Self {
            held: BTreeMap::new(),
            dialled: PerKeyRate::new(DIAL_INTERVAL, MAX_DIALS_PER_INTERVAL),
            asked: PerKeyRate::new(CLAIM_INTERVAL, MAX_CLAIMS_PER_INTERVAL),
        }
    }
}

#[derive(Debug, Clone, Copy)]
struct Guest {
    /// The run of the member in whose name the guest came.
    run: Run,
    since: Time,
    frames: u32,
    /// The nonce of the guest's last probe, to be acknowledged at the member's address.
    probed: Option<Nonce>,
}

impl Guests {
    /// Forgets a connection that ended.
    pub(in crate::core) fn forget(&mut self, link: LinkId) {
        self.held.remove(&link);
    }

    pub(super) fn is_held(&self, link: LinkId) -> bool {
        self.held.contains_key(&link)
    }

    /// Returns the nonces that guests in this member's name want acknowledged.
    pub(super) fn probes_of(&self, run: Run) -> Vec<Nonce> {
        self.held.values().filter(|guest| guest.run == run).filter_map(|guest| guest.probed).collect()
    }

    /// Takes a member's turn to be dialled without a proof of its address; returns false if it has none now.
    pub(super) fn may_dial(&mut self, run: Run, now: Time) -> bool {
        self.dialled.take(now, run)
    }

    /// Takes a member's turn to be asked whether a guest is its own; returns false if it has none now.
    pub(in crate::core) fn may_ask(&mut self, run: Run, now: Time) -> bool {
        self.asked.take(now, run)
    }

    /// Finds the guest that a new one displaces: `Ok(None)` if there is room, `Err` if nobody gives way.
    fn crowded_out(&self, run: Run) -> Result<Option<LinkId>, ()> {
        let of_run = || self.held.iter().filter(|(_, guest)| guest.run == run);
        if of_run().count() >= MAX_GUESTS_PER_RUN {
            return Ok(of_run().min_by_key(|(_, guest)| guest.since).map(|(link, _)| *link));
        }
        if self.held.len() >= MAX_LINKS { Err(()) } else { Ok(None) }
    }
}

impl Core {
    /// Takes a frame over a connection that proved nothing so far.
    pub(super) fn receive_from_guest(
        &mut self,
        link: LinkId,
        from: SocketAddr,
        bytes: usize,
        header: Header,
        messages: Messages<'_>,
    ) {
        let way = Way::Link(link);
        let kind = self.sender_kind(header.run, way);
        let slot = match kind {
            SenderKind::ClaimsMember(slot) => Some(slot).filter(|slot| self.view.record(*slot).status.is_live()),
            SenderKind::Member(_) | SenderKind::Stranger => None,
        };
        let Some(slot) = slot.filter(|_| header.cluster == self.cluster && matches!(self.phase, Phase::Up)) else {
            self.counters.drop(DropReason::UnknownRun);
            return self.dismiss_guest(link);
        };
        if !self.seat(link, slot) {
            return self.dismiss_guest(link);
        }
        let mut sender = Sender { from, run: header.run, kind, way, bytes };
        match self.hear_guest(slot, sender, messages.clone()) {
            Ok(true) => {
                self.guests.forget(link);
                if self.accept(slot, link) {
                    sender.kind = SenderKind::Member(slot);
                    // The frame was read before, as far as that matters here.
                    if self.receive_packet(sender, header, messages).is_err() {
                        self.garbled(link, header.run);
                    }
                }
            }
            Ok(false) => {}
            Err(_) => {
                self.counters.drop(DropReason::Malformed);
                self.dismiss_guest(link);
            }
        }
    }

    /// Makes a connection a guest, or counts one more frame of it; returns false if it has to go.
    fn seat(&mut self, link: LinkId, slot: Slot) -> bool {
        let record = self.view.record(slot);
        let run = record.run;
        if let Some(guest) = self.guests.held.get_mut(&link) {
            guest.frames += 1;
            let is_orderly = guest.run == run && guest.frames <= MAX_GUEST_FRAMES;
            if !is_orderly {
                self.counters.drop(DropReason::RateLimited);
            }
            return is_orderly;
        }
        let Ok(displaced) = self.guests.crowded_out(run) else {
            self.counters.drop(DropReason::TableFull);
            return false;
        };
        if let Some(displaced) = displaced {
            self.counters.drop(DropReason::TableFull);
            self.dismiss_guest(displaced);
        }
        if self.guests.held.is_empty() {
            self.timers.set(Timer::Guests, self.now + GUEST_PROBE_INTERVAL);
        }
        self.guests.held.insert(link, Guest { run, since: self.now, frames: 1, probed: None });
        true
    }

    /// Hears a frame of a guest; returns true if it proves that the connection is the member's, and asks the member
    /// otherwise.
    fn hear_guest(&mut self, slot: Slot, sender: Sender, messages: Messages<'_>) -> Result<bool, PacketError> {
        let is_over = messages.hold(Message::UNLINK_KIND);
        let mut inbox = std::mem::take(&mut self.inbox);
        let read = self.read_few(messages, &mut inbox);
        let is_proven = read.is_ok() && self.brings_proof(slot, &inbox);
        let probed = inbox.messages().find_map(|message| match message {
            Message::Probe { nonce, .. } => Some(*nonce),
            _ => None,
        });
        inbox.clear();
        self.inbox = inbox;
        read?;
        if is_over {
            if let Way::Link(link) = sender.way {
                self.dismiss_guest(link);
            }
            return Ok(false);
        }
        if let Some(nonce) = probed {
            // The member may be waiting for this before it takes a link for this node's, whichever of the two links
            // stays.
            self.acknowledge_over_greeting(slot, &[nonce]);
        }
        if !is_proven {
            if let Way::Link(link) = sender.way
                && let Some(guest) = self.guests.held.get_mut(&link)
            {
                guest.probed = probed.or(guest.probed);
            }
            if self.are_datagrams_in_doubt() {
                self.dial_back(slot);
            }
            self.handle_claim(slot, sender, probed);
        }
        Ok(is_proven)
    }

    /// Asks the members again in whose names guests are, and gives up guests that took too long.
    pub(in crate::core) fn tend_guests(&mut self) {
        let guests: Vec<(LinkId, Guest)> = self.guests.held.iter().map(|(link, guest)| (*link, *guest)).collect();
        for (link, guest) in guests {
            let slot = self.view.slot_of_run(guest.run).filter(|slot| *slot != View::ME);
            match slot.filter(|_| self.now.since(guest.since) < LINK_TIMEOUT) {
                None => self.dismiss_guest(link),
                Some(slot) => {
                    // Datagrams may not pass: no answer came for as long as several may be lost.
                    if self.are_datagrams_in_doubt() || self.now.since(guest.since) >= GUEST_PATIENCE {
                        self.dial_back(slot);
                    }
                    if self.view.entry(slot).peer.is_proven() && self.guests.may_ask(guest.run, self.now) {
                        self.ask_at_home(slot, MIN_PROBE_BYTES, None);
                    }
                }
            }
        }
        if !self.guests.held.is_empty() {
            self.timers.set(Timer::Guests, self.now + GUEST_PROBE_INTERVAL);
        }
    }

    /// Returns true if datagrams are known not to pass everywhere: a neighbour's do not, or a call to or from a
    /// stranger is connected.
    pub(in crate::core) fn are_datagrams_in_doubt(&self) -> bool {
        self.calls.is_any_connected() || self.detours.certain().next().is_some()
    }

    /// Opens a link to the member in whose name a guest came: the answer to what is asked over that link comes back
    /// over the guest, if the guest is the member's. Only a live member's address is dialled, and seldom.
    fn dial_back(&mut self, slot: Slot) {
        let run = self.view.record(slot).run;
        if !self.links.is_idle(run) || !self.guests.may_dial(run, self.now) {
            return;
        }
        self.ensure_link(slot);
    }

    /// Acknowledges probes over the link to a member as well, if that link was opened and is not greeted yet: the
    /// member may be waiting for just this before it takes the link for this node's.
    pub(in crate::core) fn acknowledge_over_greeting(&mut self, slot: Slot, nonces: &[Nonce]) {
        let Some(link) = self.links.greeting(self.view.record(slot).run).filter(|_| !nonces.is_empty()) else { return };
        let mut packet = self.packet(usize::MAX);
        for nonce in nonces.iter().copied() {
            packet.push(&Message::Ack { nonce });
        }
        self.send_frame(link, packet);
    }

    /// Closes the connection without a word: nothing is said to strangers here.
    pub(super) fn dismiss_guest(&mut self, link: LinkId) {
        self.guests.forget(link);
        self.outputs.push_back(Output::CloseLink { link });
    }

    /// Closes all connections that proved nothing.
    pub(super) fn dismiss_guests(&mut self) {
        for link in std::mem::take(&mut self.guests.held).into_keys() {
            self.outputs.push_back(Output::CloseLink { link });
        }
        self.timers.cancel(Timer::Guests);
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn guest(run: u64) -> Guest {
        Guest { run: Run(run), since: Time::ORIGIN, frames: 1, probed: None }
    }

    #[test]
    fn those_that_are_there_prove_themselves_before_others_come_in() {
        let mut guests = Guests::default();
        for link in 0..MAX_LINKS as u64 {
            assert_eq!(guests.crowded_out(Run(1_000_000)), Ok(None));
            guests.held.insert(LinkId::Accepted(link), guest(link));
        }
        assert_eq!(guests.crowded_out(Run(1_000_000)), Err(()));
    }

    #[test]
    fn so_many_members_are_dialled_in_an_interval_and_each_of_them_once() {
        let mut guests = Guests::default();
        for run in 1..=MAX_DIALS_PER_INTERVAL as u64 {
            assert!(guests.may_dial(Run(run), Time::ORIGIN), "{run}");
        }
        assert!(!guests.may_dial(Run(10_000), Time::ORIGIN), "one more waits");
        assert!(guests.may_dial(Run(10_000), Time::ORIGIN + DIAL_INTERVAL));
        assert!(!guests.may_dial(Run(10_000), Time::ORIGIN + DIAL_INTERVAL * 2 - Duration::from_millis(1)));
        assert!(guests.may_dial(Run(10_000), Time::ORIGIN + DIAL_INTERVAL * 2));
    }

    #[test]
    fn one_member_has_few_guests_in_its_name() {
        let mut guests = Guests::default();
        for link in 0..MAX_GUESTS_PER_RUN as u64 {
            assert_eq!(guests.crowded_out(Run(1)), Ok(None));
            guests.held.insert(LinkId::Accepted(link), guest(1));
        }
        assert_eq!(guests.crowded_out(Run(1)), Ok(Some(LinkId::Accepted(0))));
        assert_eq!(guests.crowded_out(Run(2)), Ok(None));
    }
}
