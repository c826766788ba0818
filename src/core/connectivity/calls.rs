//! Calls: links to addresses at which nobody knows yet who is there, for the questions of strangers where datagrams do
//! not pass: joining, and asking who somebody is.
//!
//! A call is a way to an address, nothing more: what is sent to that address goes by the call, too, and what comes by
//! it is a packet from that address. So all proofs stay what they are. An accepted call comes from a passing port,
//! where no datagram arrives.
//!
//! - *A joiner that nobody answers* calls the seeds, after
//!   [`TRIES_BEFORE_CALLS`](crate::limits::TRIES_BEFORE_CALLS) tries. Its sponsor calls the address that the
//!   joiner advertises, and says the challenge there: an accepted call proves no address (see `reachable`).
//! - *The lost* are looked for by one call in so many questions, too (see `reunion`). A node that is called in the name
//!   of a known member calls that member's own address back before it believes anything.
//! - A member that opened a link, and does not answer datagrams, is called at its address (see `unproven`).
//!
//! Invariants:
//! - A call is accepted for a question alone. At most [`MAX_CALLS`] that this node made stand at one time, and as many accepted
//!   ones. The oldest gives way, unless it began a moment ago, and each lasts for at most [`CALL_LASTS`].
//! - A node that is answered by datagrams calls nobody but, before it founds a cluster, the seeds that did not answer (one may
//!   have another key, and say so: see `joining::status`), and a sponsor whose pages of the view, which are larger, do not
//!   come (see `transfer`).
//! - Whoever is at the other end of a call is told the same of this node once in [`TOLD_INTERVAL`], however often others
//!   report it as gone: after a pause that may be hundreds of times at one moment.
//!
//! Must not know: what questions mean.

use std::collections::BTreeMap;
use std::net::SocketAddr;

use super::Paths;
use crate::context::Context;
use crate::counters::DropReason;
use crate::doors::{LinkId, Output};
use crate::limits::{CALL_LASTS, CALL_LINGER, MAX_CALLS, TOLD_INTERVAL};
use crate::member::Status;
use crate::time::Time;
use crate::view::View;

/// Calls, by the address at the other end.
#[derive(Debug, Clone, Default)]
pub(crate) struct Calls {
    at: BTreeMap<SocketAddr, Call>,
    addresses: BTreeMap<LinkId, SocketAddr>,
}

#[derive(Debug, Clone)]
struct Call {
    link: LinkId,
    is_connected: bool,
    until: Time,
    /// The packet that is sent as soon as the call is connected, instead of a question.
    first: Option<Vec<u8>>,
    /// The incarnation and status of this node that were told last, and the time of that.
    told: Option<((u64, Status), Time)>,
}

impl Call {
    fn new(link: LinkId, is_connected: bool, now: Time) -> Self {
        Self { link, is_connected, until: now + CALL_LASTS, first: None, told: None }
    }
}

impl Calls {
    pub(crate) fn address_of(&self, link: LinkId) -> Option<SocketAddr> {
        self.addresses.get(&link).copied()
    }

    /// Returns true if this link is a call that this node opened to this address.
    pub(crate) fn leads_to(&self, link: LinkId, address: SocketAddr) -> bool {
        matches!(link, LinkId::Opened(_)) && self.address_of(link) == Some(address)
    }

    /// Returns true if an accepted call comes from this (passing) address.
    pub(crate) fn is_from(&self, address: SocketAddr) -> bool {
        self.at.get(&address).is_some_and(|call| matches!(call.link, LinkId::Accepted(_)))
    }

    /// Returns true if there is a call to or from an address.
    pub(crate) fn is_at(&self, address: SocketAddr) -> bool {
        self.at.contains_key(&address)
    }

    /// Returns the connected call to an address.
    pub(crate) fn connected_to(&self, address: SocketAddr) -> Option<LinkId> {
        self.at.get(&address).filter(|call| call.is_connected).map(|call| call.link)
    }

    pub(crate) fn len(&self) -> usize {
        self.at.len()
    }

    /// Returns the calls that this node made, or those that it accepted.
    fn of_kind(&self, is_accepted: bool) -> impl Iterator<Item = &Call> {
        self.at.values().filter(move |call| matches!(call.link, LinkId::Accepted(_)) == is_accepted)
    }

    /// Returns true if a call is connected.
    pub(crate) fn is_any_connected(&self) -> bool {
        self.at.values().any(|call| call.is_connected)
    }

    /// Returns the addresses at the other ends of connected calls that were not told the same a moment ago, and takes
    /// note that they are told now.
    pub(crate) fn begin_to_tell(&mut self, news: (u64, Status), now: Time) -> Vec<SocketAddr> {
        let is_news = |call: &Call| call.told.is_none_or(|(told, at)| told != news || now.since(at) >= TOLD_INTERVAL);
        let due = self.at.iter_mut().filter(|(_, call)| call.is_connected && is_news(call));
        let tell = |(address, call): (&SocketAddr, &mut Call)| {
            call.told = Some((news, now));
            *address
        };
        due.map(tell).collect()
    }

    pub(crate) fn remove(&mut self, link: LinkId) -> Option<SocketAddr> {
        let address = self.addresses.remove(&link)?;
        self.at.remove(&address);
        Some(address)
    }

    /// Takes note that a call is connected; returns the packet that it is to begin with.
    pub(crate) fn connected(&mut self, address: SocketAddr) -> Option<Vec<u8>> {
        let call = self.at.get_mut(&address)?;
        call.is_connected = true;
        call.first.take()
    }

    fn insert(&mut self, address: SocketAddr, call: Call) {
        self.addresses.insert(call.link, address);
        self.at.insert(address, call);
    }
}

impl Paths {
    /// Returns true if an address may be called: it is not called already, and is not this node's own.
    pub(crate) fn may_call(&self, view: &View, address: SocketAddr) -> bool {
        address != view.me().address && !self.calls.is_at(address)
    }

    /// Calls an address that does not answer datagrams, if there is room for a call.
    pub(crate) fn call(&mut self, cx: &mut Context, address: SocketAddr) {
        if self.make_room_for_call(cx, false) {
            let link = self.links.next_number();
            self.calls.insert(address, Call::new(link, false, cx.now));
            cx.output(Output::OpenLink { link, to: address });
        }
    }

    /// Takes an accepted link for a call from this address; returns true if there is room for one.
    pub(crate) fn accept_call(&mut self, cx: &mut Context, link: LinkId, from: SocketAddr) -> bool {
        let has_room = self.make_room_for_call(cx, true);
        if has_room {
            self.calls.insert(from, Call::new(link, true, cx.now));
        }
        has_room
    }

    /// Has a call begin with this packet, if it is not connected yet: one that is carries a copy of each packet anyway.
    /// Returns false if there is no call to this address.
    pub(crate) fn say_first(&mut self, address: SocketAddr, bytes: Vec<u8>) -> bool {
        let Some(call) = self.calls.at.get_mut(&address) else { return false };
        if !call.is_connected {
            call.first = Some(bytes);
        }
        true
    }

    /// Gives up calls that are not connected: nothing got through when they were begun.
    pub(crate) fn give_up_hung_calls(&mut self, cx: &mut Context, is_meant: impl Fn(SocketAddr) -> bool) {
        let hung = self.calls.at.iter().filter(|(address, call)| !call.is_connected && is_meant(**address));
        for link in hung.map(|(_, call)| call.link).collect::<Vec<_>>() {
            self.hang_up(cx, link);
        }
    }

    /// Ends calls that have lasted long enough.
    pub(crate) fn end_old_calls(&mut self, cx: &mut Context) {
        let old = self.calls.at.iter().filter(|(_, call)| call.until <= cx.now);
        let old: Vec<_> = old.map(|(address, call)| (*address, call.link, call.is_connected)).collect();
        for (address, link, is_connected) in old {
            if !is_connected {
                self.unreached.push(address);
            }
            self.hang_up(cx, link);
        }
    }

    /// Ends all calls in a moment, as this node is Up: they are needed until it is linked.
    pub(crate) fn end_calls_soon(&mut self, now: Time) {
        for call in self.calls.at.values_mut() {
            call.until = call.until.min(now + CALL_LINGER);
        }
    }

    /// Ends the call to an address in a moment: what goes by it now is perhaps its last word.
    pub(crate) fn end_call_soon(&mut self, now: Time, address: SocketAddr) {
        if let Some(call) = self.calls.at.get_mut(&address) {
            call.until = call.until.min(now + CALL_LINGER);
        }
    }

    /// Ends all calls.
    pub(crate) fn hang_up_all(&mut self, cx: &mut Context) {
        for link in self.calls.addresses.keys().copied().collect::<Vec<_>>() {
            self.hang_up(cx, link);
        }
    }

    /// Ends a call.
    pub(crate) fn hang_up(&mut self, cx: &mut Context, link: LinkId) {
        if self.calls.remove(link).is_some() {
            cx.output(Output::CloseLink { link });
        }
    }

    /// Makes room for one more call, made or accepted, of which the oldest gives way; returns false if there is none.
    fn make_room_for_call(&mut self, cx: &mut Context, is_accepted: bool) -> bool {
        if self.calls.of_kind(is_accepted).count() < MAX_CALLS {
            return true;
        }
        // One that began a moment ago is amid its question: the next one comes again.
        let lasted = cx.now + CALL_LASTS - CALL_LASTS / 4;
        let oldest = self.calls.of_kind(is_accepted).min_by_key(|call| call.until).filter(|call| call.until <= lasted);
        let Some(link) = oldest.map(|call| call.link) else {
            cx.counters.drop(DropReason::TableFull);
            return false;
        };
        self.hang_up(cx, link);
        true
    }
}
