//! The ways that packets take: a datagram to an address, a link to a member, or both.
//!
//! | what | goes by |
//! |---|---|
//! | answers | the way of the question (`send_by`) |
//! | bulk, and direct messages | a link, if there is one (`best_way`) |
//! | what must not wait for a lost packet or a stalled link: probes, and all about a crash | both (`send_both_ways`) |
//! | all else to a member | datagrams; with a fallback (see `connectivity::fallback`) a copy by the link (`send_to`) |
//! | anything to an address with a bootstrap link | datagrams, and a copy by that link (`transmit`) |
//!
//! Must not know: what a packet says.

use std::net::SocketAddr;

use super::outbox::Outbox;
use super::rates::Turn;
use crate::connectivity::links::Parting;
use crate::io::{LinkId, Output, Receiver};
use crate::limits::{MAX_BOOTSTRAP_LINKS, MAX_FRAME_BYTES, UNPROVEN_PATIENCE};
use crate::member::Record;
use crate::time::Time;
use crate::view::{Slot, View};
use crate::wire::{Message, PacketBuilder, Read, read};

/// The way by which packets reach a member; answers take the way of the question.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Way {
    #[default]
    Datagrams,
    /// Sealed datagrams that are bound to no receiver; answers are datagrams. Nobody is a member this way.
    Unbound,
    Link(LinkId),
}

/// The choice of a packet's way.
impl Outbox<'_> {
    /// Sends a packet to an address; if there is a bootstrap link to it, a copy goes by that.
    pub(crate) fn transmit(&mut self, to: SocketAddr, receiver: Receiver, packet: PacketBuilder) {
        self.transmit_bytes(to, receiver, packet.finish());
    }

    pub(crate) fn transmit_bytes(&mut self, to: SocketAddr, receiver: Receiver, bytes: Vec<u8>) {
        if self.paths.bootstrap.len() > 0 {
            self.send_by_bootstrap(to, &bytes);
        }
        self.transmit_datagram(to, receiver, bytes);
    }

    /// Sends a packet to an address, and no copy by a bootstrap link.
    pub(crate) fn transmit_datagram(&mut self, to: SocketAddr, receiver: Receiver, bytes: Vec<u8>) {
        debug_assert!(
            receiver != Receiver::Anybody || needs_no_receiver(&bytes),
            "nothing but questions and answers to the nameless is bound to nobody: {:?}",
            crate::wire::Packet::decode(&bytes)
        );
        self.cx.counters.packets_sent += 1;
        self.cx.counters.bytes_sent += bytes.len() as u64;
        self.cx.output(Output::Transmit { to, receiver, bytes });
    }

    /// Sends a frame over a connection.
    pub(crate) fn send_frame(&mut self, link: LinkId, packet: PacketBuilder) {
        self.cx.send_frame(link, packet.finish());
    }

    /// Says over a link that it ends, and ends it.
    pub(crate) fn part(&mut self, link: LinkId, why: Parting) {
        let mut packet = self.packet(usize::MAX);
        let says_news_of_me = match why {
            // Its observers hear from itself that it leaves, whoever else says so.
            Parting::Over => self.cx.phase.is_leaving(),
            Parting::TheyMoved => false,
            Parting::WeMoved => true,
        };
        if says_news_of_me {
            self.push_update(&mut packet, View::ME);
        }
        packet.push(&Message::Unlink);
        self.send_frame(link, packet);
        self.cx.output(Output::CloseLink { link });
    }

    /// Sends a message as a datagram and over the link, if there is one: datagrams are lost, and a link may be stalled
    /// by a firewall without anybody knowing.
    pub(crate) fn send_both_ways(&mut self, slot: Slot, message: &Message) {
        let mut packet = self.packet_to(slot);
        packet.push(message);
        self.send_to(slot, packet);
        if self.paths.fallbacks.is_open(self.view.record(slot).run) {
            return;
        }
        if let Some(link) = self.paths.links.open(self.view.record(slot).run) {
            let mut packet = self.packet_to(slot);
            packet.push(message);
            self.send_frame(link, packet);
        }
    }

    /// Returns the way for bulk to a member: its link, if there is one.
    pub(crate) fn best_way(&self, slot: Slot) -> Way {
        self.paths.links.open(self.view.record(slot).run).map_or(Way::Datagrams, Way::Link)
    }

    /// Returns a packet to a member as large as its way allows.
    pub(crate) fn packet_by(&mut self, way: Way, slot: Slot) -> PacketBuilder {
        let mut packet = self.packet_to(slot);
        if matches!(way, Way::Link(_)) {
            packet.raise_limit(MAX_FRAME_BYTES);
        }
        packet
    }

    /// Sends a packet on its way.
    pub(crate) fn send_by(&mut self, way: Way, slot: Slot, packet: PacketBuilder) {
        match way {
            Way::Datagrams | Way::Unbound => self.send_to(slot, packet),
            Way::Link(link) => self.send_frame(link, packet),
        }
    }

    /// Sends the copy of a packet that goes by the bootstrap link to its address, if there is one. Where the run at the
    /// other end is known it is not the only copy: that node may use this very address for datagrams, too.
    pub(crate) fn send_by_bootstrap(&mut self, to: SocketAddr, bytes: &[u8]) {
        let Some(link) = self.paths.bootstrap.connected_to(to) else { return };
        self.cx.send_frame(link, bytes.to_vec());
    }

    /// Opens a bootstrap link to an address that does not answer datagrams, unless there is one.
    pub(crate) fn open_bootstrap(&mut self, address: SocketAddr) {
        self.paths.open_bootstrap(self.cx, self.view, address);
    }

    /// Opens a bootstrap link to a member's address, since somebody opened one in its name: datagrams may not pass, and
    /// what it says is believed there. One that was begun before may hang for as long as the kernel waits with its next
    /// attempt.
    pub(crate) fn bootstrap_to_member(&mut self, address: SocketAddr) {
        if self.cx.phase.is_up() && self.packets.turns.take(self.cx.now, Turn::Question, address) {
            self.paths.give_up_hung_bootstraps(self.cx, |to| to == address);
            self.open_bootstrap(address);
        }
    }

    /// Tells those at the other ends of bootstrap links what this node is: that it is Up, which they know by no other
    /// way yet, or is not gone.
    pub(crate) fn announce_by_bootstraps(&mut self) {
        let Record { incarnation, status, .. } = **self.view.me();
        for address in self.paths.bootstrap.begin_to_tell((incarnation, status), self.cx.now) {
            let mut packet = self.packet(usize::MAX);
            self.push_update(&mut packet, View::ME);
            // A datagram goes where the other end is known: over a link that this node opened, it is believed sooner.
            let there = self.view.iter().find(|(_, entry)| entry.record.address == address);
            let run = there.map(|(_, entry)| entry.record.run);
            match run {
                Some(run) => self.transmit(address, Receiver::Run(run), packet),
                None => self.send_by_bootstrap(address, &packet.finish()),
            }
        }
    }

    /// Asks a member in whose name an unproven link came, at its address; that link waits `since` then.
    pub(crate) fn ask_unproven(&mut self, slot: Slot, since: Time) {
        // Datagrams may not pass, since no answer has come for as long as several may be lost.
        if self.paths.are_datagrams_failing() || self.cx.now.since(since) >= UNPROVEN_PATIENCE {
            let address = self.view.record(slot).address;
            self.open_bootstrap(address);
        }
        self.ask_at_address(slot);
    }

    /// Asks the members again in whose names there are unproven links.
    pub(crate) fn ask_unproven_again(&mut self) {
        for (slot, since) in self.paths.unproven_to_ask(self.cx, self.view) {
            self.ask_unproven(slot, since);
        }
    }

    /// Opens a bootstrap link to an address and sends it this packet first. Returns false if there is no room for one.
    pub(crate) fn open_bootstrap_with(&mut self, address: SocketAddr, bytes: Vec<u8>) -> bool {
        self.open_bootstrap(address);
        self.paths.say_first(address, bytes)
    }

    /// Opens bootstrap links to these addresses, because none of them answers; to at most half as many as there may be.
    pub(crate) fn open_bootstraps(&mut self, addresses: &[SocketAddr]) {
        for address in addresses.iter().take(MAX_BOOTSTRAP_LINKS / 2) {
            self.open_bootstrap(*address);
        }
    }
}

/// Returns true if a packet consists of messages that need no receiver.
fn needs_no_receiver(bytes: &[u8]) -> bool {
    let Ok((_, mut messages)) = read(bytes) else { return false };
    messages.all(|message| matches!(message, Ok(Read::Message(message)) if message.rules().may_be_unbound))
}
