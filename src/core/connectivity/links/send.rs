//! Packets out by a link, and the choice between a link and datagrams.
//!
//! Must not know: what the packets say.

use crate::Core;
use crate::doors::{LinkId, Output};
use crate::limits::MAX_FRAME_BYTES;
use crate::member::Run;
use crate::packet::Way;
use crate::view::Slot;
use crate::wire::{Message, PacketBuilder};

impl Core {
    /// Sends a copy of a packet over the link to a member, if there is one.
    pub(in crate::connectivity) fn copy_to_link(&mut self, run: Run, bytes: &[u8]) {
        if let Some(link) = self.links.open(run) {
            self.cx.counters.frames_sent += 1;
            self.cx.counters.frame_bytes_sent += bytes.len() as u64;
            self.cx.output(Output::SendFrame { link, bytes: bytes.to_vec() });
        }
    }

    pub(in crate::connectivity) fn send_frame(&mut self, link: LinkId, packet: PacketBuilder) {
        let bytes = packet.finish();
        self.cx.counters.frames_sent += 1;
        self.cx.counters.frame_bytes_sent += bytes.len() as u64;
        self.cx.output(Output::SendFrame { link, bytes });
    }

    /// Sends a message as a datagram and over the link, if there is one: datagrams are lost, and a link may be stalled
    /// by a firewall without anybody knowing.
    pub(crate) fn send_both_ways(&mut self, slot: Slot, message: &Message) {
        let mut packet = self.packet_to(slot);
        packet.push(message);
        self.send_to(slot, packet);
        if self.detours.is_open(self.view.record(slot).run) {
            return;
        }
        if let Some(link) = self.links.open(self.view.record(slot).run) {
            let mut packet = self.packet_to(slot);
            packet.push(message);
            self.send_frame(link, packet);
        }
    }

    /// Returns the way for bulk to a member: its link, if there is one.
    pub(crate) fn best_way(&self, slot: Slot) -> Way {
        self.links.open(self.view.record(slot).run).map_or(Way::Datagrams, Way::Link)
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
}
