//! Unproven links: connections that others opened, until the member in whose name they came is proven to be at its address.
//!
//! A member whose advertised address is dead connects as well, and must not stay Up by that. So a connection that a member
//! opened is its link only once its address has echoed a nonce of this node while the connection waited: the member is asked
//! there, by datagram and, where datagrams may not pass, by a bootstrap link.
//!
//! ```text
//! opener ── connects, greets ──▶ acceptor          an unproven link
//! opener ◀── Probe, or a bootstrap link, to the record's address ── acceptor
//! opener ── Ack ──▶ acceptor                       proven: it is the member's link, and greeted in turn
//! ```
//!
//! Invariants:
//! - Nothing that comes over an unproven link is believed, and nothing goes over it.
//! - An unproven link neither stands in for a member's link nor displaces it.
//! - There is one in a member's name, the newest, and as many in all as there may be links: further ones are refused, since those
//!   that are there are about to be proven. Every one ends after [`LINK_TIMEOUT`].
//!
//! Must not know: what a link is used for.

use std::collections::BTreeMap;

use super::Paths;
use crate::context::Context;
use crate::counters::DropReason;
use crate::io::{LinkId, Output};
use crate::limits::{LINK_TIMEOUT, MAX_LINKS, UNPROVEN_PROBE_INTERVAL};
use crate::member::Run;
use crate::time::Time;
use crate::timers::Timer;
use crate::view::{Slot, View};
use crate::wire::{Header, Message, Messages};

/// All unproven links, by the run in whose name they came.
#[derive(Debug, Clone, Default)]
pub(crate) struct UnprovenLinks {
    held: BTreeMap<Run, UnprovenLink>,
}

#[derive(Debug, Clone, Copy)]
struct UnprovenLink {
    link: LinkId,
    since: Time,
}

impl UnprovenLinks {
    /// Forgets a connection that ended.
    pub(crate) fn forget(&mut self, link: LinkId) {
        self.held.retain(|_, unproven| unproven.link != link);
    }

    pub(crate) fn is_held(&self, link: LinkId) -> bool {
        self.held.values().any(|unproven| unproven.link == link)
    }
}

impl Paths {
    /// Takes a frame over a connection that is nobody's link so far; returns the member that is asked at its address now.
    pub(crate) fn receive_from_unproven(
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
            self.dismiss_unproven(cx, link);
            return None;
        }
        slot.filter(|_| self.hold_unproven(cx, header.run, link))
    }

    /// Holds a connection as unproven until the member proves its address; returns true if it is a new one.
    fn hold_unproven(&mut self, cx: &mut Context, run: Run, link: LinkId) -> bool {
        cx.counters.drop(DropReason::Claimed);
        let before = self.unproven.held.get(&run).map(|unproven| unproven.link);
        if before == Some(link) {
            return false;
        }
        if self.unproven.is_held(link) || before.is_none() && self.unproven.held.len() >= MAX_LINKS {
            // It came in another name before, or there is no room.
            cx.counters.drop(DropReason::TableFull);
            self.dismiss_unproven(cx, link);
            return false;
        }
        if let Some(before) = before {
            self.dismiss_unproven(cx, before);
        }
        if self.unproven.held.is_empty() {
            cx.timers.set(Timer::UnprovenLinks, cx.now + UNPROVEN_PROBE_INTERVAL);
        }
        self.unproven.held.insert(run, UnprovenLink { link, since: cx.now });
        true
    }

    /// Returns the members that are asked again, each with the time since when its link is unproven; gives up those that took too
    /// long.
    pub(crate) fn unproven_to_ask(&mut self, cx: &mut Context, view: &View) -> Vec<(Slot, Time)> {
        let mut asked = Vec::new();
        for (run, unproven) in self.unproven.held.clone() {
            match view.slot_of_run(run).filter(|_| cx.now.since(unproven.since) < LINK_TIMEOUT) {
                None => self.dismiss_unproven(cx, unproven.link),
                Some(slot) => asked.push((slot, unproven.since)),
            }
        }
        if !self.unproven.held.is_empty() {
            cx.timers.set(Timer::UnprovenLinks, cx.now + UNPROVEN_PROBE_INTERVAL);
        }
        asked
    }

    /// Returns true if datagrams are known not to pass everywhere: a neighbour's do not, or a bootstrap link is
    /// connected.
    pub(crate) fn are_datagrams_failing(&self) -> bool {
        self.bootstrap.is_any_connected() || self.fallbacks.certain().next().is_some()
    }

    /// Takes the unproven link in a member's name, which has proven its address.
    pub(crate) fn take_unproven(&mut self, run: Run) -> Option<LinkId> {
        self.unproven.held.remove(&run).map(|unproven| unproven.link)
    }

    /// Closes the connection without a message: nothing is said to strangers here.
    fn dismiss_unproven(&mut self, cx: &mut Context, link: LinkId) {
        self.unproven.forget(link);
        cx.output(Output::CloseLink { link });
    }

    /// Closes all connections that are nobody's link.
    pub(crate) fn dismiss_all_unproven(&mut self, cx: &mut Context) {
        for unproven in std::mem::take(&mut self.unproven.held).into_values() {
            cx.output(Output::CloseLink { link: unproven.link });
        }
        cx.timers.cancel(Timer::UnprovenLinks);
    }
}
