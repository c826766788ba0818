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

use super::Paths;
use crate::context::Context;
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
    pub(crate) fn forget(&mut self, link: LinkId) {
        self.held.retain(|_, guest| guest.link != link);
    }

    pub(crate) fn is_held(&self, link: LinkId) -> bool {
        self.held.values().any(|guest| guest.link == link)
    }
}

impl Paths {
    /// Takes a frame over a connection that is nobody's link so far; returns the member that is asked at its address now.
    pub(crate) fn receive_from_guest(
        &mut self,
        cx: &mut Context,
        view: &View,
        link: LinkId,
        header: Header,
        messages: &Messages<'_>,
    ) -> Option<Slot> {
        let slot = view.slot_of_run(header.run).filter(|slot| view.record(*slot).status.is_live());
        let is_here = header.cluster == cx.cluster && cx.phase.is_up();
        let slot = slot.filter(|slot| is_here && *slot != View::ME);
        let why_not = match slot {
            None => Some(DropReason::UnknownRun),
            // A frame that cannot be read greets nobody.
            Some(_) if messages.clone().any(|message| message.is_err()) => Some(DropReason::Malformed),
            Some(_) => None,
        };
        if let Some(why) = why_not {
            cx.counters.drop(why);
        }
        if why_not.is_some() || messages.hold(Message::UNLINK_KIND) {
            self.dismiss_guest(cx, link);
            return None;
        }
        slot.filter(|_| self.seat(cx, header.run, link))
    }

    /// Makes a connection a guest until the member proves its address; returns true if it is a new one.
    fn seat(&mut self, cx: &mut Context, run: Run, link: LinkId) -> bool {
        cx.counters.drop(DropReason::Claimed);
        let before = self.guests.held.get(&run).map(|guest| guest.link);
        if before == Some(link) {
            return false;
        }
        if self.guests.is_held(link) || before.is_none() && self.guests.held.len() >= MAX_LINKS {
            // It came in another name before, or there is no room.
            cx.counters.drop(DropReason::TableFull);
            self.dismiss_guest(cx, link);
            return false;
        }
        if let Some(before) = before {
            self.dismiss_guest(cx, before);
        }
        if self.guests.held.is_empty() {
            cx.timers.set(Timer::Guests, cx.now + GUEST_PROBE_INTERVAL);
        }
        self.guests.held.insert(run, Guest { link, since: cx.now });
        true
    }

    /// Returns the guests whose members are asked again, each with the time since when it waits; gives up those that took too
    /// long.
    pub(crate) fn guests_to_ask(&mut self, cx: &mut Context, view: &View) -> Vec<(Slot, Time)> {
        let mut asked = Vec::new();
        for (run, guest) in self.guests.held.clone() {
            match view.slot_of_run(run).filter(|_| cx.now.since(guest.since) < LINK_TIMEOUT) {
                None => self.dismiss_guest(cx, guest.link),
                Some(slot) => asked.push((slot, guest.since)),
            }
        }
        if !self.guests.held.is_empty() {
            cx.timers.set(Timer::Guests, cx.now + GUEST_PROBE_INTERVAL);
        }
        asked
    }

    /// Returns true if the member's address is to be called, too: datagrams may not pass, since no answer came to a guest of it
    /// for as long as several may be lost.
    pub(crate) fn must_call_guest(&self, now: Time, since: Time) -> bool {
        self.are_datagrams_in_doubt() || now.since(since) >= GUEST_PATIENCE
    }

    /// Returns true if datagrams are known not to pass everywhere: a neighbour's do not, or a call to or from a
    /// stranger is connected.
    pub(crate) fn are_datagrams_in_doubt(&self) -> bool {
        self.calls.is_any_connected() || self.detours.certain().next().is_some()
    }

    /// Takes the guest in a member's name, which has proven its address.
    pub(crate) fn take_guest(&mut self, run: Run) -> Option<LinkId> {
        self.guests.held.remove(&run).map(|guest| guest.link)
    }

    /// Closes the connection without a word: nothing is said to strangers here.
    fn dismiss_guest(&mut self, cx: &mut Context, link: LinkId) {
        self.guests.forget(link);
        cx.output(Output::CloseLink { link });
    }

    /// Closes all connections that are nobody's link.
    pub(crate) fn dismiss_guests(&mut self, cx: &mut Context) {
        for guest in std::mem::take(&mut self.guests.held).into_values() {
            cx.output(Output::CloseLink { link: guest.link });
        }
        cx.timers.cancel(Timer::Guests);
    }
}
