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
//! - A member that opened a link, and does not answer datagrams, is called at its address (see `guests`).
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

use crate::packet::Way;
use std::collections::BTreeMap;
use std::net::SocketAddr;

use crate::Core;
use crate::context::Phase;
use crate::counters::DropReason;
use crate::doors::{LinkEvent, LinkId, Output, Receiver};
use crate::limits::{CALL_LASTS, CALL_LINGER, MAX_CALLS, MAX_MESSAGES_IN_QUESTION, TOLD_INTERVAL};
use crate::member::Status;
use crate::packet::Sender;
use crate::time::Time;
use crate::view::View;
use crate::wire::{Header, Message, Messages, Read, read};

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
    pub(super) fn address_of(&self, link: LinkId) -> Option<SocketAddr> {
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
    fn begin_to_tell(&mut self, news: (u64, Status), now: Time) -> Vec<SocketAddr> {
        let is_news = |call: &Call| call.told.is_none_or(|(told, at)| told != news || now.since(at) >= TOLD_INTERVAL);
        let due = self.at.iter_mut().filter(|(_, call)| call.is_connected && is_news(call));
        let tell = |(address, call): (&SocketAddr, &mut Call)| {
            call.told = Some((news, now));
            *address
        };
        due.map(tell).collect()
    }

    fn remove(&mut self, link: LinkId) -> Option<SocketAddr> {
        let address = self.addresses.remove(&link)?;
        self.at.remove(&address);
        Some(address)
    }

    fn insert(&mut self, address: SocketAddr, call: Call) {
        self.addresses.insert(call.link, address);
        self.at.insert(address, call);
    }
}

impl Core {
    /// Calls an address that does not answer datagrams, unless it is called already.
    pub(crate) fn call(&mut self, address: SocketAddr) {
        if address != self.me().address && !self.paths.calls.at.contains_key(&address) && self.make_room_for_call(false)
        {
            let link = self.next_link();
            self.paths.calls.insert(address, Call::new(link, false, self.cx.now));
            self.cx.output(Output::OpenLink { link, to: address });
        }
    }

    /// Calls an address where somebody is again: a call that was begun before may hang for as long as the kernel waits with
    /// its next attempt.
    pub(crate) fn call_again(&mut self, address: SocketAddr) {
        self.give_up_hung_calls(|to| to == address);
        self.call(address);
    }

    /// Gives up calls that are not connected: nothing got through when they were begun.
    pub(crate) fn give_up_hung_calls(&mut self, is_meant: impl Fn(SocketAddr) -> bool) {
        let hung = self.paths.calls.at.iter().filter(|(address, call)| !call.is_connected && is_meant(**address));
        for link in hung.map(|(_, call)| call.link).collect::<Vec<_>>() {
            self.hang_up(link);
        }
    }

    /// Calls an address and sends it this packet first. A call that is connected already carries a copy
    /// of each packet anyway. Returns false if there is no room for a call.
    pub(crate) fn call_with(&mut self, address: SocketAddr, bytes: Vec<u8>) -> bool {
        self.call(address);
        let Some(call) = self.paths.calls.at.get_mut(&address) else { return false };
        if !call.is_connected {
            call.first = Some(bytes);
        }
        true
    }

    /// Tells those who called this node, or were called by it, what it is: that it is Up, which they know by no other way
    /// yet, or is not gone.
    pub(crate) fn announce_by_calls(&mut self) {
        let news = (self.me().incarnation, self.me().status);
        for address in self.paths.calls.begin_to_tell(news, self.cx.now) {
            let mut packet = self.out().packet(usize::MAX);
            self.out().push_update(&mut packet, View::ME);
            // A datagram goes where the other end is known: at a call that this node opened, it is believed sooner.
            let there = self.view.iter().find(|(_, entry)| entry.record.address == address);
            let run = there.map(|(_, entry)| entry.record.run);
            match run {
                Some(run) => self.out().transmit(address, Receiver::Run(run), packet),
                None => self.out().send_by_call(address, &packet.finish()),
            }
        }
    }

    /// Calls these addresses, because none of them answers; at most half as many as there may be calls.
    pub(crate) fn call_all(&mut self, addresses: &[SocketAddr]) {
        for address in addresses.iter().take(MAX_CALLS / 2) {
            self.call(*address);
        }
    }

    /// Ends calls that have lasted long enough.
    pub(crate) fn end_old_calls(&mut self) {
        if self.paths.calls.at.is_empty() {
            return;
        }
        let old = self.paths.calls.at.iter().filter(|(_, call)| call.until <= self.cx.now);
        let old: Vec<_> = old.map(|(address, call)| (*address, call.link, call.is_connected)).collect();
        for (address, link, is_connected) in old {
            if !is_connected {
                self.note_connection(address, false);
            }
            self.hang_up(link);
        }
    }

    /// Ends all calls in a moment, as this node is Up: they are needed until it is linked.
    pub(crate) fn end_calls_soon(&mut self) {
        let until = self.cx.now + CALL_LINGER;
        for call in self.paths.calls.at.values_mut() {
            call.until = call.until.min(until);
        }
    }

    /// Ends the call to an address in a moment: what goes by it now is perhaps its last word.
    pub(super) fn end_call_soon(&mut self, address: SocketAddr) {
        if let Some(call) = self.paths.calls.at.get_mut(&address) {
            call.until = call.until.min(self.cx.now + CALL_LINGER);
        }
    }

    /// Ends all calls.
    pub(crate) fn hang_up_all(&mut self) {
        for link in self.paths.calls.addresses.keys().copied().collect::<Vec<_>>() {
            self.hang_up(link);
        }
    }

    fn hang_up(&mut self, link: LinkId) {
        if self.paths.calls.remove(link).is_some() {
            self.cx.output(Output::CloseLink { link });
        }
    }

    /// Takes an event of a call.
    pub(super) fn call_event(&mut self, link: LinkId, address: SocketAddr, event: LinkEvent<'_>) {
        match event {
            LinkEvent::Connected => {
                self.note_connection(address, true);
                let mut first = None;
                if let Some(call) = self.paths.calls.at.get_mut(&address) {
                    call.is_connected = true;
                    first = call.first.take();
                }
                if let Some(first) = first {
                    self.out().send_by_call(address, &first);
                    return;
                }
                match self.cx.phase {
                    Phase::Joining => self.ask_again_to_join(address),
                    Phase::Up => self.out().ask_who(address),
                    _ => {}
                }
            }
            LinkEvent::Frame { bytes, .. } => {
                self.cx.counters.frames_received += 1;
                self.cx.counters.frame_bytes_received += bytes.len() as u64;
                self.receive_by_call(link, address, bytes);
            }
            LinkEvent::Refused | LinkEvent::Unreachable => {
                self.paths.calls.remove(link);
                self.note_connection(address, false);
            }
            LinkEvent::Closed => _ = self.paths.calls.remove(link),
            LinkEvent::Unopened(why) => {
                self.paths.calls.remove(link);
                self.turned_down(address, why);
            }
        }
    }

    pub(super) fn receive_by_call(&mut self, link: LinkId, from: SocketAddr, bytes: &[u8]) {
        let is_read = read(bytes).and_then(|(header, messages)| {
            let way = Way::Link(link);
            let kind = self.sender_kind(header.run, way);
            let sender = Sender { from, run: header.run, kind, way, bytes: bytes.len() };
            self.receive_packet(sender, header, messages)
        });
        if is_read.is_err() {
            self.cx.counters.drop(DropReason::Malformed);
            self.hang_up(link);
        }
    }

    /// Makes room for one more call, made or accepted, of which the oldest gives way; returns false if there is none.
    fn make_room_for_call(&mut self, is_accepted: bool) -> bool {
        self.end_old_calls();
        if self.paths.calls.of_kind(is_accepted).count() < MAX_CALLS {
            return true;
        }
        // One that began a moment ago is amid its question: the next one comes again.
        let lasted = self.cx.now + CALL_LASTS - CALL_LASTS / 4;
        let oldest =
            self.paths.calls.of_kind(is_accepted).min_by_key(|call| call.until).filter(|call| call.until <= lasted);
        let Some(link) = oldest.map(|call| call.link) else {
            self.cx.counters.drop(DropReason::TableFull);
            return false;
        };
        self.hang_up(link);
        true
    }

    /// Makes an accepted link a call if its first frame asks a stranger's question; returns true if it is one from now
    /// on.
    pub(super) fn accept_call(
        &mut self,
        link: LinkId,
        from: SocketAddr,
        header: &Header,
        messages: Messages<'_>,
    ) -> bool {
        let is_question = |message: &Message| match (message, &self.joiner) {
            (Message::Join { .. } | Message::WhoAreYou { .. }, _) => true,
            // A challenge that this joiner asked for, at the address that it advertises.
            (Message::Challenge { nonce, .. }, Some(joining)) => joining.asked.answerer(*nonce).is_some(),
            (Message::Reached { nonce }, _) => self.is_reached_by(*nonce),
            _ => false,
        };
        let is_asked = header.cluster == self.cx.cluster
            && header.run != self.cx.run
            && messages
                .take(MAX_MESSAGES_IN_QUESTION)
                .any(|message| matches!(message, Ok(Read::Message(message)) if is_question(&message)));
        if !is_asked || matches!(self.cx.phase, Phase::Leaving | Phase::Stopped) {
            return false;
        }
        if self.paths.calls.at.contains_key(&from) || !self.make_room_for_call(true) {
            return false;
        }
        self.paths.calls.insert(from, Call::new(link, true, self.cx.now));
        true
    }
}
