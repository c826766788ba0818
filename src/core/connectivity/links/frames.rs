//! Frames in: each event of a link goes to the part that it concerns, and each frame is judged before it is taken in.
//!
//! Invariant: a frame is only taken in from the run that the link is to, or from a guest (see `guests`).
//!
//! Must not know: what the packets say.

use std::net::SocketAddr;

use super::table::State;
use crate::core::counters::DropReason;
use crate::core::doors::{LinkEvent, LinkId};
use crate::core::limits::MIN_PROBE_BYTES;
use crate::core::member::Run;
use crate::core::packet::{Sender, SenderKind, Way};
use crate::core::wire::{Message, read};
use crate::core::{Core, Phase};

impl Core {
    /// Hands an event of a link to the part that it concerns.
    pub(in crate::core) fn link_event(&mut self, link: LinkId, event: LinkEvent<'_>) {
        if let Some(visited) = self.links.visits.get(&link).copied() {
            return self.visited(visited, event);
        }
        if let Some(address) = self.calls.address_of(link) {
            return self.call_event(link, address, event);
        }
        let run = self.links.runs.get(&link).copied();
        if event == LinkEvent::Closed {
            self.guests.forget(link);
        }
        match (event, run) {
            (LinkEvent::Frame { from, bytes }, run) => self.receive_frame(link, run, from, bytes),
            // Of a link that was given up: nobody waits for it.
            (_, None) => {}
            (LinkEvent::Connected, Some(run)) => self.greet(link, run),
            (LinkEvent::Refused, Some(run)) => {
                let is_first = self.link_failed(run);
                self.refused_link(run, is_first);
            }
            (LinkEvent::Unreachable, Some(run)) => self.attempt_failed(run),
            (LinkEvent::Closed, Some(run)) if self.is_linked(run) => self.link_lost(run),
            (LinkEvent::Closed, Some(run)) => {
                let is_first = self.link_failed(run);
                self.closed_unanswered(run, is_first);
            }
        }
    }

    /// Sends the first frame, which tells the other end who we are.
    fn greet(&mut self, link: LinkId, run: Run) {
        let Some(slot) = self.view.slot_of_run(run) else { return self.drop_link(run) };
        self.links.set(run, State::Greeting(link));
        let mut packet = self.packet_to(slot);
        for nonce in self.guests.probes_of(run) {
            packet.push(&Message::Ack { nonce });
        }
        if self.view.entry(slot).peer.proven {
            // Whoever answers may be a guest here by then: what comes back over its own link proves that one.
            self.push_probe(&mut packet, slot);
        }
        // As large as the probe that it provokes.
        packet.pad_to(MIN_PROBE_BYTES);
        self.send_frame(link, packet);
    }

    fn receive_frame(&mut self, link: LinkId, known: Option<Run>, from: SocketAddr, bytes: &[u8]) {
        self.counters.frames_received += 1;
        self.counters.frame_bytes_received += bytes.len() as u64;
        let Ok((header, messages)) = read(bytes) else {
            self.counters.drop(DropReason::Malformed);
            self.guests.forget(link);
            self.close(link);
            if let Some(run) = known {
                self.attempt_failed(run);
            }
            return;
        };
        let Some(run) = known else {
            return match link {
                LinkId::Accepted(_)
                    if !self.guests.is_held(link) && self.accept_call(link, from, &header, messages.clone()) =>
                {
                    self.receive_by_call(link, from, bytes);
                }
                LinkId::Accepted(_) if self.is_strange(header.run) => {
                    self.counters.drop(DropReason::UnknownRun);
                    self.dismiss_guest(link);
                }
                LinkId::Accepted(_) => self.receive_from_guest(link, from, bytes.len(), header, messages),
                // Given up while the frame was on its way.
                LinkId::Opened(_) => self.close(link),
            };
        };
        let is_open = self.links.open(run).is_some();
        if !is_open && messages.clone().any(|message| message.is_err()) {
            // A frame that cannot be read greets nobody.
            return self.garbled(link, run);
        }
        if !self.may_speak(link, run, header.cluster, header.run) {
            return self.close(link);
        }
        let way = Way::Link(link);
        let kind = self.sender_kind(run, from, way);
        if !matches!(kind, SenderKind::Member(_)) {
            // Its record says another address by now.
            return self.drop_link(run);
        }
        self.links.heard(run, self.now);
        let is_over = messages.hold(Message::UNLINK_KIND);
        let sender = Sender { from, run, kind, way, bytes: bytes.len() };
        if self.receive_packet(sender, header, messages).is_err() {
            self.garbled(link, run);
        } else if is_over {
            self.unlinked(link);
        }
    }

    /// Returns true if links with this run are for questions at most.
    fn is_strange(&self, run: Run) -> bool {
        let slot = self.view.slot_of_run(run);
        !matches!(self.phase, Phase::Up) || !slot.is_some_and(|slot| self.view.record(slot).status.is_live())
    }

    /// Closes a link whose frame cannot be read.
    pub(in crate::core::connectivity) fn garbled(&mut self, link: LinkId, run: Run) {
        self.counters.drop(DropReason::Malformed);
        self.close(link);
        self.attempt_failed(run);
    }

    /// Returns true if a frame of this run is taken from the link to `known`; the first one opens a link that was
    /// greeted.
    fn may_speak(&mut self, link: LinkId, known: Run, cluster: u32, run: Run) -> bool {
        let slot = self.view.slot_of_run(run).filter(|slot| self.view.record(*slot).status.is_live());
        // A member that is leaving hears by its links that others know.
        let is_here = matches!(self.phase, Phase::Up | Phase::Leaving);
        let is_member = slot.is_some() && cluster == self.cluster && is_here;
        if !is_member {
            self.counters.drop(DropReason::UnknownRun);
        }
        if !is_member || known != run {
            // Another process answers at that address.
            self.attempt_failed(known);
            return false;
        }
        if self.links.of.get(&run).is_some_and(|link| matches!(link.state, State::Greeting(_))) {
            self.link_opened(run, link);
        }
        true
    }
}
