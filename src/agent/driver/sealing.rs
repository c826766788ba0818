//! Seals of datagrams: what the socket brings is opened before the core sees it, and what the core sends is sealed.
//!
//! Invariant: in every mode, a datagram that is refused reaches nobody and is answered by nobody.
//!
//! Must not know: what packets say.

use std::net::SocketAddr;

use super::Driver;
use crate::core::{Input, Receiver, Time};
use crate::seal::{MAX_OVERHEAD, MIN_OVERHEAD, Opened, SealError, key_id_of};

impl Driver {
    /// Hands a datagram to the core, opened if it is sealed, unless it is refused.
    pub(super) fn take_datagram(&mut self, from: SocketAddr, length: usize, now: Time) {
        let datagram = &self.buffer[..length];
        let policy = self.parts.sealing.policy();
        if policy.keeps_out(from) {
            return self.parts.sealing.refuse(from, SealError::NotLoopback);
        }
        let opened = match policy.ring() {
            Some(ring) => {
                let core = &self.parts.core;
                self.parts.sealer.open(ring, datagram, &mut self.opened, |run| core.knows(run))
            }
            None => key_id_of(datagram).map_or(Ok(Opened::Clear), |id| Err(SealError::UnknownKey(id))),
        };
        let key = key_id_of(datagram).filter(|_| opened != Ok(Opened::Clear));
        let input = match opened {
            Ok(Opened::Bound) => Input::Packet { from, bytes: &self.opened },
            Ok(Opened::Unbound) => Input::UnboundPacket { from, bytes: &self.opened },
            Ok(Opened::Clear) if policy.mode().accepts_clear() => Input::Packet { from, bytes: datagram },
            Ok(Opened::Clear) => return self.parts.sealing.refuse(from, SealError::Unsealed),
            Err(error) => return self.parts.sealing.refuse(from, error),
        };
        if let Some(ring) = policy.ring() {
            self.parts.sealing.note(from, ring, key);
        }
        self.parts.core.handle(now, input);
        self.drain(now);
    }

    /// Sends a packet of the core, sealed where packets are sealed, and bound to its receiver if that is known.
    pub(super) fn send_datagram(&mut self, to: SocketAddr, receiver: Receiver, packet: &[u8]) {
        let policy = self.parts.sealing.policy();
        let Some(ring) = policy.ring().filter(|_| policy.mode().seals()) else {
            // Errors are counted where they happen. The protocol expects losses and repeats what matters.
            let _ = self.parts.socket.send(to, packet);
            return;
        };
        match self.parts.sealer.seal(ring.sealing(), receiver.run(), packet) {
            Some(sealed) => _ = self.parts.socket.send(to, &sealed),
            // Without a place in a seal: the refusal of a format version.
            None if policy.mode().accepts_clear() => _ = self.parts.socket.send(to, packet),
            None => {}
        }
    }

    /// Has the core leave room for seals, once there is a ring: before the first packet of a node that seals.
    pub(super) fn leave_room_for_seals(&mut self) {
        if !self.leaves_room && self.parts.sealing.policy().ring().is_some() {
            self.leaves_room = true;
            self.parts.core.leave_room(MAX_OVERHEAD, MAX_OVERHEAD - MIN_OVERHEAD);
        }
    }
}
