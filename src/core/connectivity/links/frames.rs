//! Frames in: each event of a link goes to the part that it concerns, and each frame is judged before it is taken in.
//!
//! Invariant: a frame is only taken in from the run that the link is to, or from a guest (see `guests`).
//!
//! Must not know: what the packets say.

use std::net::SocketAddr;

use super::doors::Wish;
use crate::Core;
use crate::context::Phase;
use crate::counters::DropReason;
use crate::doors::{LinkEvent, LinkId, Output};
use crate::member::Run;
use crate::packet::{Sender, SenderKind, Way};
use crate::wire::{Message, read};

impl Core {
    /// Hands an event of a link to the part that it concerns.
    pub(crate) fn link_event(&mut self, link: LinkId, event: LinkEvent<'_>) {
        if let Some(visited) = self.paths.links.visited_by(link) {
            return self.visited(visited, event);
        }
        if let Some(address) = self.paths.calls.address_of(link) {
            return self.call_event(link, address, event);
        }
        let run = self.paths.links.run_of(link);
        if matches!(event, LinkEvent::Closed | LinkEvent::Unopened(_)) {
            self.paths.guests.forget(link);
        }
        let Some(run) = run else {
            if let LinkEvent::Frame { from, bytes } = event {
                self.receive_frame(link, None, from, bytes);
            }
            // Anything else is about a link that was given up: nobody waits for it.
            return;
        };
        let actions = match event {
            LinkEvent::Frame { from, bytes } => return self.receive_frame(link, Some(run), from, bytes),
            LinkEvent::Connected if self.view.slot_of_run(run).is_none() => self.paths.links.forget(run),
            LinkEvent::Connected => self.paths.links.connected(run, link),
            LinkEvent::Refused => self.paths.links.refused(run),
            LinkEvent::Unreachable => self.paths.links.unreachable(run),
            LinkEvent::Closed | LinkEvent::Unopened(_) => {
                self.paths.links.closed(self.cx.now, run, self.link_scene_of(run))
            }
        };
        self.act_on_link(run, actions);
    }

    fn receive_frame(&mut self, link: LinkId, known: Option<Run>, from: SocketAddr, bytes: &[u8]) {
        self.cx.counters.frames_received += 1;
        self.cx.counters.frame_bytes_received += bytes.len() as u64;
        let Ok((header, messages)) = read(bytes) else {
            self.cx.counters.drop(DropReason::Malformed);
            self.paths.guests.forget(link);
            return match known {
                Some(run) => self.end_garbled(link, run),
                None => self.cx.output(Output::CloseLink { link }),
            };
        };
        let Some(run) = known else {
            return match link {
                LinkId::Accepted(_)
                    if !self.paths.guests.is_held(link) && self.accept_call(link, from, &header, messages.clone()) =>
                {
                    self.receive_by_call(link, from, bytes);
                }
                LinkId::Accepted(_) => self.receive_from_guest(link, header, &messages),
                // Given up while the frame was on its way.
                LinkId::Opened(_) => self.cx.output(Output::CloseLink { link }),
            };
        };
        if !self.is_linked(run) && messages.clone().any(|message| message.is_err()) {
            // A frame that cannot be read greets nobody.
            return self.garbled(link, run);
        }
        if !self.judge_speaker(run, header.cluster, header.run) {
            let actions = self.paths.links.denied(run, link);
            return self.act_on_link(run, actions);
        }
        if self.paths.links.is_greeting(run) {
            let wish = self.view.slot_of_run(run).map_or(Wish::Nobody, |slot| self.link_wish(slot));
            let actions = self.paths.links.spoke(self.cx.now, run, wish);
            self.act_on_link(run, actions);
        }
        let way = Way::Link(link);
        let kind = self.sender_kind(run, way);
        if !matches!(kind, SenderKind::Member(_)) {
            // Its record says another address by now.
            return self.drop_link(run);
        }
        self.paths.links.heard(self.cx.now, run);
        let is_over = messages.hold(Message::UNLINK_KIND);
        let sender = Sender { from, run, kind, way, bytes: bytes.len() };
        if self.receive_packet(sender, header, messages).is_err() {
            self.garbled(link, run);
        } else if is_over {
            let actions = self.paths.links.unlinked(run, link);
            self.act_on_link(run, actions);
        }
    }

    /// Closes a link whose frame cannot be read.
    pub(in crate::connectivity) fn garbled(&mut self, link: LinkId, run: Run) {
        self.cx.counters.drop(DropReason::Malformed);
        self.end_garbled(link, run);
    }

    fn end_garbled(&mut self, link: LinkId, run: Run) {
        let actions = self.paths.links.garbled(run, link);
        self.act_on_link(run, actions);
    }

    /// Returns true if a frame of this run is taken from the link to `known`.
    fn judge_speaker(&mut self, known: Run, cluster: u32, run: Run) -> bool {
        let slot = self.view.slot_of_run(run).filter(|slot| self.view.record(*slot).status.is_live());
        // A member that is leaving hears by its links that others know.
        let is_here = matches!(self.cx.phase, Phase::Up | Phase::Leaving);
        let is_member = slot.is_some() && cluster == self.cx.cluster && is_here;
        if !is_member {
            self.cx.counters.drop(DropReason::UnknownRun);
        }
        // Else another process answers at that address.
        is_member && known == run
    }
}
