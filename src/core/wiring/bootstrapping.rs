//! The ways around what does not pass, as the core needs them: bootstrap links to addresses, links that wait to be
//! proven, and members whose datagrams do not come.
//!
//! Must not know: how the machine of connections keeps them (see `connectivity`).

use std::net::SocketAddr;

use crate::Core;
use crate::context::Phase;
use crate::counters::{Carrier, DropReason};
use crate::io::{LinkEvent, LinkId, Receiver};
use crate::limits::MAX_MESSAGES_IN_QUESTION;
use crate::packet::{Sender, Way, sender_kind};
use crate::time::Time;
use crate::view::{Slot, View, is_due};
use crate::wire::{Header, Message, Messages, PacketBuilder, Read, read};

/// Bootstrap links: ways to addresses at which nobody knows yet who is there.
impl Core {
    /// Tells those at the other ends of bootstrap links what this node is: that it is Up, which they know by no other
    /// way yet, or is not gone.
    pub(crate) fn announce_by_bootstraps(&mut self) {
        let news = (self.me().incarnation, self.me().status);
        for address in self.paths.bootstrap.begin_to_tell(news, self.cx.now) {
            let mut packet = self.out().packet(usize::MAX);
            self.out().push_update(&mut packet, View::ME);
            // A datagram goes where the other end is known: over a link that this node opened, it is believed sooner.
            let there = self.view.iter().find(|(_, entry)| entry.record.address == address);
            let run = there.map(|(_, entry)| entry.record.run);
            match run {
                Some(run) => self.out().transmit(address, Receiver::Run(run), packet),
                None => self.out().send_by_bootstrap(address, &packet.finish()),
            }
        }
    }

    /// Takes an event of a bootstrap link.
    pub(crate) fn on_bootstrap_event(&mut self, link: LinkId, address: SocketAddr, event: LinkEvent<'_>) {
        match event {
            LinkEvent::Connected => {
                self.joiner.note_connection(&self.cx, address, true);
                if let Some(first) = self.paths.bootstrap.connected(address) {
                    self.out().send_by_bootstrap(address, &first);
                    return;
                }
                match self.cx.phase {
                    Phase::Joining => self.joiner.ask_again_to_join(&mut outbox!(self), &self.reunion, address),
                    Phase::Up => self.out().ask_who(address),
                    _ => {}
                }
            }
            LinkEvent::Frame { bytes, .. } => {
                self.cx.counters.frames_received += 1;
                self.cx.counters.frame_bytes_received += bytes.len() as u64;
                self.receive_by_bootstrap(link, address, bytes);
            }
            LinkEvent::Refused | LinkEvent::Unreachable => {
                self.paths.bootstrap.remove(link);
                self.joiner.note_connection(&self.cx, address, false);
            }
            LinkEvent::Closed => _ = self.paths.bootstrap.remove(link),
            LinkEvent::Unopened(why) => {
                self.paths.bootstrap.remove(link);
                self.joiner.turned_down(&mut self.cx, &mut self.reunion, address, why);
            }
        }
    }

    pub(crate) fn receive_by_bootstrap(&mut self, link: LinkId, from: SocketAddr, bytes: &[u8]) {
        let is_read = read(bytes).and_then(|(header, messages)| {
            let way = Way::Link(link);
            let kind = sender_kind(&self.view, &self.paths, header.run, way);
            let sender = Sender { from, run: header.run, kind, way, bytes: bytes.len() };
            self.receive_packet(sender, header, messages)
        });
        if is_read.is_err() {
            self.cx.counters.drop(DropReason::Malformed);
            self.paths.close_bootstrap(&mut self.cx, link);
        }
    }

    /// Makes an accepted link a bootstrap link if its first frame asks a stranger's question; returns true if it is
    /// one from now on.
    pub(crate) fn accept_bootstrap(
        &mut self,
        link: LinkId,
        from: SocketAddr,
        header: &Header,
        messages: Messages<'_>,
    ) -> bool {
        let is_question = |message: &Message| match (message, &self.joiner.joining) {
            (Message::Join { .. } | Message::WhoAreYou { .. }, _) => true,
            // A challenge that this joiner asked for, at the address that it advertises.
            (Message::Challenge { nonce, .. }, Some(joining)) => joining.asked.answerer(*nonce).is_some(),
            (Message::Reached { nonce }, _) => self.me.moving.is_reached_by(*nonce),
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
        if self.paths.bootstrap.is_at(from) {
            return false;
        }
        self.paths.end_old_bootstraps(&mut self.cx);
        self.paths.accept_bootstrap(&mut self.cx, link, from)
    }
}

/// Unproven links: connections that others opened, until the member in whose name they came is proven to be at its address.
impl Core {
    /// Asks the member in whose name an unproven link came, at its address.
    pub(crate) fn ask_unproven(&mut self, slot: Slot, since: Time) {
        if self.paths.must_bootstrap_unproven(self.cx.now, since) {
            let address = self.view.record(slot).address;
            self.out().open_bootstrap(address);
        }
        self.out().ask_at_address(slot);
    }

    /// Asks the members again in whose names there are unproven links.
    pub(crate) fn ask_unproven_again(&mut self) {
        for (slot, since) in self.paths.unproven_to_ask(&mut self.cx, &self.view) {
            self.ask_unproven(slot, since);
        }
    }

    /// Notes that a member's address has echoed a nonce: a connection in its name is its link.
    pub(crate) fn proved_at_address(&mut self, slot: Slot) {
        self.view.peer_mut(slot).prove();
        let record = self.view.record(slot);
        let (run, address, is_live) = (record.run, record.address, record.status.is_live());
        if is_live
            && self.cx.phase.is_up()
            && let Some(link) = self.paths.take_unproven(run)
        {
            self.accept(slot, link);
            self.paths.end_bootstrap_soon(self.cx.now, address);
        }
    }
}

/// Members whose datagrams do not pass, and voters that are no neighbours.
impl Core {
    /// Takes a member's word that this node's datagrams do not come.
    pub(crate) fn on_unheard(&mut self, slot: Slot) {
        if !self.is_linked(self.view.record(slot).run) {
            return;
        }
        if self.paths.told_unheard(&self.cx, &self.view, slot) {
            self.gossip_to(slot, Carrier::Other);
        }
        self.paths.tell_of_fallback(&mut self.cx, &self.view, slot);
    }

    /// Sends a voter's word. A lease may end before heartbeats notice that a datagram is missing, so that a copy goes
    /// by the link as soon as one is late.
    pub(crate) fn send_word_to(&mut self, slot: Slot, packet: PacketBuilder) {
        debug_assert!(slot != View::ME);
        let (record, renewal_interval) = (self.view.record(slot), self.renewal_interval());
        let (run, late) = (record.run, record.timing.heartbeat_interval().min(renewal_interval) * 3 / 2);
        let session = self.view.entry(slot).peer.session.as_ref();
        let is_late = session.is_none_or(|session| is_due(self.cx.now, session.datagram, late));
        let wants_link =
            !self.observers.observes(slot) && self.paths.watch_partner(&self.cx, &self.view, renewal_interval, slot);
        if wants_link {
            self.ensure_link(slot);
        }
        let is_linked = self.is_linked(run);
        if is_late && !self.paths.fallbacks.is_open(run) && is_linked {
            let bytes = packet.finish();
            self.paths.copy_to_link(&mut self.cx, run, &bytes);
            self.out().transmit_bytes_to_member(slot, bytes);
        } else if wants_link && !is_linked {
            let bytes = packet.finish();
            self.paths.keep_for_link(run, &bytes);
            self.out().transmit_bytes_to_member(slot, bytes);
        } else {
            self.out().send_to(slot, packet);
        }
    }
}
