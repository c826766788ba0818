//! Guests: connections that others opened, until the member in whose name they came is proven to be at its address.
//!
//! A member whose advertised address is dead connects as well, and must not stay Up by that. So a connection that a member
//! opened is its link only once its address has echoed a nonce of this node while the connection waited: the member is asked
//! there, by datagram and, where datagrams may not pass, by a call.
//!
//! ```text
//! opener ── connects, greets ──▶ acceptor          a guest
//! opener ◀── Probe, or a call, to the record's address ── acceptor
//! opener ── Ack ──▶ acceptor                       proven: the guest is the member's link, and greeted in turn
//! ```
//!
//! Invariants:
//! - Nothing that comes over a guest is believed, and nothing goes over it.
//! - Guests neither stand in for a member's link nor displace it.
//! - There is one in a member's name, the newest, and as many in all as there may be links: further ones are refused, since those
//!   that are there are about to be proven. Every guest goes after [`LINK_TIMEOUT`].
//!
//! Must not know: what a link is used for.

use std::collections::BTreeMap;

use crate::Core;
use crate::counters::DropReason;
use crate::doors::{LinkId, Output};
use crate::limits::{GUEST_PATIENCE, GUEST_PROBE_INTERVAL, LINK_TIMEOUT, MAX_LINKS};
use crate::member::Run;
use crate::time::Time;
use crate::timers::Timer;
use crate::view::{Slot, View};
use crate::wire::{Header, Message, Messages};

/// All guests, by the run in whose name they came.
#[derive(Debug, Clone, Default)]
pub(crate) struct Guests {
    held: BTreeMap<Run, Guest>,
}

#[derive(Debug, Clone, Copy)]
struct Guest {
    link: LinkId,
    since: Time,
}

impl Guests {
    /// Forgets a connection that ended.
    pub(super) fn forget(&mut self, link: LinkId) {
        self.held.retain(|_, guest| guest.link != link);
    }

    pub(super) fn is_held(&self, link: LinkId) -> bool {
        self.held.values().any(|guest| guest.link == link)
    }
}

impl Core {
    /// Takes a frame over a connection that is nobody's link so far.
    pub(super) fn receive_from_guest(&mut self, link: LinkId, header: Header, messages: &Messages<'_>) {
        let run = header.run;
        let slot = self.view.slot_of_run(run).filter(|slot| self.view.record(*slot).status.is_live());
        let is_here = header.cluster == self.cx.cluster && self.cx.phase.is_up();
        let Some(slot) = slot.filter(|slot| is_here && *slot != View::ME) else {
            self.cx.counters.drop(DropReason::UnknownRun);
            return self.dismiss_guest(link);
        };
        if messages.clone().any(|message| message.is_err()) {
            // A frame that cannot be read greets nobody.
            self.cx.counters.drop(DropReason::Malformed);
            return self.dismiss_guest(link);
        }
        if messages.hold(Message::UNLINK_KIND) {
            return self.dismiss_guest(link);
        }
        self.seat(slot, link);
    }

    /// Makes a connection a guest until the member proves its address.
    fn seat(&mut self, slot: Slot, link: LinkId) {
        self.cx.counters.drop(DropReason::Claimed);
        let run = self.view.record(slot).run;
        let before = self.paths.guests.held.get(&run).map(|guest| guest.link);
        if before == Some(link) {
            return;
        }
        if self.paths.guests.is_held(link) || before.is_none() && self.paths.guests.held.len() >= MAX_LINKS {
            // It came in another name before, or there is no room.
            self.cx.counters.drop(DropReason::TableFull);
            return self.dismiss_guest(link);
        }
        if let Some(before) = before {
            self.dismiss_guest(before);
        }
        if self.paths.guests.held.is_empty() {
            self.cx.timers.set(Timer::Guests, self.cx.now + GUEST_PROBE_INTERVAL);
        }
        self.paths.guests.held.insert(run, Guest { link, since: self.cx.now });
        self.ask_guest(slot, self.cx.now);
    }

    /// Asks the member in whose name a guest came, at its address.
    fn ask_guest(&mut self, slot: Slot, since: Time) {
        // Datagrams may not pass: no answer came for as long as several may be lost.
        if self.are_datagrams_in_doubt() || self.cx.now.since(since) >= GUEST_PATIENCE {
            self.call(self.view.record(slot).address);
        }
        self.out().ask_at_home(slot);
    }

    /// Asks the members again in whose names guests are, and gives up guests that took too long.
    pub(crate) fn tend_guests(&mut self) {
        for (run, guest) in self.paths.guests.held.clone() {
            match self.view.slot_of_run(run).filter(|_| self.cx.now.since(guest.since) < LINK_TIMEOUT) {
                None => self.dismiss_guest(guest.link),
                Some(slot) => self.ask_guest(slot, guest.since),
            }
        }
        if !self.paths.guests.held.is_empty() {
            self.cx.timers.set(Timer::Guests, self.cx.now + GUEST_PROBE_INTERVAL);
        }
    }

    /// Notes that a member's address has echoed a nonce: a connection in its name is its link.
    pub(crate) fn proved_at_home(&mut self, slot: Slot) {
        self.view.peer_mut(slot).prove();
        let record = self.view.record(slot);
        let (run, address, is_live) = (record.run, record.address, record.status.is_live());
        let is_welcome = is_live && self.cx.phase.is_up();
        if is_welcome && let Some(guest) = self.paths.guests.held.remove(&run) {
            self.accept(slot, guest.link);
            self.end_call_soon(address);
        }
    }

    /// Returns true if datagrams are known not to pass everywhere: a neighbour's do not, or a call to or from a
    /// stranger is connected.
    pub(crate) fn are_datagrams_in_doubt(&self) -> bool {
        self.paths.calls.is_any_connected() || self.paths.detours.certain().next().is_some()
    }

    /// Closes the connection without a word: nothing is said to strangers here.
    pub(super) fn dismiss_guest(&mut self, link: LinkId) {
        self.paths.guests.forget(link);
        self.cx.output(Output::CloseLink { link });
    }

    /// Closes all connections that are nobody's link.
    pub(super) fn dismiss_guests(&mut self) {
        for guest in std::mem::take(&mut self.paths.guests.held).into_values() {
            self.cx.output(Output::CloseLink { link: guest.link });
        }
        self.cx.timers.cancel(Timer::Guests);
    }
}
