//! Linking: the paths to others, which are connections as the core needs them and the ways around what does not pass.
//! Wishes and events go to the machine of the paths with what it has to know of the member; its actions are carried out
//! here, in order.
//!
//! ```text
//!   other machines ──wishes──▶          ┌───────┐              ──▶ connections, frames, timers
//!   the driver     ──frames──▶  input   │ paths │   actions    ──▶ detection: lost, refused, closed unanswered, answers
//!   timers         ──────────▶          └───────┘              ──▶ messages: there is a link, or none
//! ```
//!
//! Invariants:
//! - A frame is only taken in from the run that the link is to, over an unproven one (see `unproven`), or over a
//!   bootstrap link.
//! - A link that this node ends on purpose is told so before.
//!
//! Must not know: what state a connection is in, beyond what the machine tells everybody, or what the packets say.

use std::net::SocketAddr;

use crate::Core;
use crate::connectivity::links::{Action, Failure, LinkFacts, NeighbourFacts, Parting, Wish};
use crate::context::Phase;
use crate::counters::DropReason;
use crate::io::{Contacted, LinkEvent, LinkId, Output};
use crate::limits::{CRASH_REVIEWS, MAX_MESSAGES_IN_QUESTION};
use crate::member::Run;
use crate::packet::{Sender, SenderKind, Way, sender_kind};
use crate::timers::Timer;
use crate::view::{Slot, View};
use crate::wire::{Header, Message, Messages, PacketError, Read, read};

/// Events and frames.
impl Core {
    /// Hands an event of a link to the part that it concerns.
    pub(crate) fn link_event(&mut self, link: LinkId, event: LinkEvent<'_>) {
        if let Some(address) = self.paths.bootstrap.address_of(link) {
            return self.on_bootstrap_event(link, address, event);
        }
        if let Some(run) = self.paths.kernels.run_of(link) {
            return self.on_kernel_event(run, event);
        }
        let run = self.paths.links.run_of(link);
        if matches!(event, LinkEvent::Closed | LinkEvent::Unopened(_)) {
            self.paths.unproven.forget(link);
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
                let facts = self.view.slot_of_run(run).map(|slot| self.link_facts(slot));
                self.paths.links.closed(self.cx.now, run, facts)
            }
        };
        self.act_on_link(run, actions);
    }

    fn receive_frame(&mut self, link: LinkId, known: Option<Run>, from: SocketAddr, bytes: &[u8]) {
        self.cx.counters.frames_received += 1;
        self.cx.counters.frame_bytes_received += bytes.len() as u64;
        let packet = read(bytes);
        let Some(run) = known else { return self.receive_unknown_frame(link, from, bytes, packet) };
        let Ok((header, messages)) = packet else { return self.end_garbled_link(link, run) };
        if self.paths.links.open(run).is_none() && messages.clone().any(|message| message.is_err()) {
            // A frame that cannot be read greets nobody.
            return self.end_garbled_link(link, run);
        }
        let slot = self.view.slot_of_run(header.run).filter(|slot| self.view.record(*slot).status.is_live());
        // A member that is leaving hears by its links that others know.
        let is_here = matches!(self.cx.phase, Phase::Up | Phase::Leaving);
        let is_member = slot.is_some() && header.cluster == self.cx.cluster && is_here;
        if !is_member {
            self.cx.counters.drop(DropReason::UnknownRun);
        }
        if !is_member || header.run != run {
            // Another process answers at that address, or none that may speak here.
            let actions = self.paths.links.denied(run, link);
            return self.act_on_link(run, actions);
        }
        if self.paths.links.is_greeting(run) {
            let wish = slot.map_or(Wish::Nobody, |slot| self.link_wish(slot));
            let actions = self.paths.links.spoke(self.cx.now, run, wish);
            self.act_on_link(run, actions);
        }
        let way = Way::Link(link);
        let kind = sender_kind(&self.view, &self.paths, run, way);
        if !matches!(kind, SenderKind::Member(_)) {
            // Its record says another address by now.
            return self.drop_link(run);
        }
        self.paths.links.heard(self.cx.now, run);
        let is_over = messages.hold(Message::UNLINK_KIND);
        let sender = Sender { from, run, kind, way, bytes: bytes.len() };
        if self.receive_packet(sender, header, messages).is_err() {
            self.end_garbled_link(link, run);
        } else if is_over {
            let actions = self.paths.links.unlinked(run, link);
            self.act_on_link(run, actions);
        }
    }

    /// Takes a frame over a connection that is nobody's link.
    fn receive_unknown_frame(
        &mut self,
        link: LinkId,
        from: SocketAddr,
        bytes: &[u8],
        packet: Result<(Header, Messages<'_>), PacketError>,
    ) {
        let Ok((header, messages)) = packet else {
            self.cx.counters.drop(DropReason::Malformed);
            self.paths.unproven.forget(link);
            return self.cx.output(Output::CloseLink { link });
        };
        match link {
            LinkId::Accepted(_) if !self.paths.unproven.is_held(link) && self.may_bootstrap(&header, &messages) => {
                if self.paths.accept_bootstrap(&mut self.cx, link, from) {
                    return self.receive(from, Way::Link(link), bytes);
                }
            }
            LinkId::Accepted(_) => {}
            // Given up while the frame was on its way.
            LinkId::Opened(_) => return self.cx.output(Output::CloseLink { link }),
        }
        if let Some(slot) = self.paths.receive_from_unproven(&mut self.cx, &self.view, link, header, &messages) {
            let now = self.cx.now;
            self.out().ask_unproven(slot, now);
        }
    }

    /// Ends a link whose frame cannot be read.
    pub(crate) fn end_garbled_link(&mut self, link: LinkId, run: Run) {
        self.cx.counters.drop(DropReason::Malformed);
        let actions = self.paths.links.garbled(run, link);
        self.act_on_link(run, actions);
    }
}

/// Actions.
impl Core {
    /// Carries out what the machine wants done about the link to a member, in order.
    pub(crate) fn act_on_link(&mut self, run: Run, actions: Vec<Action>) {
        for action in actions {
            match action {
                Action::Open(link, to) => self.cx.output(Output::OpenLink { link, to }),
                Action::Close(link) => self.cx.output(Output::CloseLink { link }),
                Action::Part(link, why) => self.out().part(link, why),
                // The first frame tells the other end who we are.
                Action::Greet(link) | Action::Welcome(link) => {
                    let Some(slot) = self.view.slot_of_run(run) else { continue };
                    let packet = self.out().packet_to(slot);
                    self.out().send_frame(link, packet);
                }
                Action::Wait(pause) => {
                    let pause = pause.with(|| self.paths.random_share());
                    self.cx.timers.set(Timer::Link(run), self.cx.now + pause);
                }
                Action::WaitAtMost(pause) => {
                    let pause = pause.with(|| self.paths.random_share());
                    self.cx.timers.set_by(Timer::Link(run), self.cx.now + pause);
                }
                Action::Rest => self.cx.timers.cancel(Timer::Link(run)),
                Action::Full => self.cx.counters.drop(DropReason::TableFull),
                Action::Broke => self.cx.counters.links_lost += 1,
                Action::Opened => {
                    if let Some(slot) = self.view.slot_of_run(run) {
                        self.paths.open_fallback_at_once(&self.cx, &self.view, slot);
                    }
                    self.paths.send_unsent(&mut self.cx, run);
                    self.messages.direct.send_waiting(&mut outbox!(self), run);
                    self.close_case(run);
                }
                Action::Reopening => {
                    self.tell_lead(|lead, cx| lead.voter_may_be_gone(cx, run));
                    if let Some((_, sequence)) = self.crash_subject(run) {
                        self.crashes.open(run, sequence, CRASH_REVIEWS);
                    }
                }
                Action::Failed { how, is_first } => {
                    self.messages.direct.give_up_unlinked(&mut self.cx, &self.view, run);
                    let sequence = self.crash_subject(run).map(|(_, sequence)| sequence);
                    let steps = match how {
                        Failure::Refused => self.crashes.refused(self.cx.now, run, is_first, sequence),
                        Failure::ClosedUnanswered => self.crashes.closed_unanswered(run, is_first, sequence),
                        Failure::ProvesNothing => self.crashes.no_link(run),
                        // The link was open a moment ago: detection is asking about the process already, and goes on.
                        Failure::LostAgain => Vec::new(),
                    };
                    self.take_crash_steps(run, steps);
                }
                Action::Silent => self.messages.direct.wait_for_link(run),
                Action::Moved => {
                    self.close_case(run);
                    self.messages.direct.wait_for_link(run);
                }
                Action::Gone => {
                    self.paths.fallbacks.forget(run);
                    self.crashes.await_no_link(run);
                    self.messages.direct.give_up_unlinked(&mut self.cx, &self.view, run);
                }
            }
        }
    }
}

/// The facts and wishes that the machine is given.
impl Core {
    pub(crate) fn link_facts(&self, slot: Slot) -> LinkFacts {
        let address = self.view.record(slot).address;
        LinkFacts { wish: self.link_wish(slot), address, is_ours: self.me().address < address }
    }

    /// Returns who wants a link between this node and a member.
    pub(crate) fn link_wish(&self, slot: Slot) -> Wish {
        let record = self.view.record(slot);
        if !self.cx.phase.is_up() || slot == View::ME || !record.status.is_here() {
            Wish::Nobody
        } else if self.observers.observes(slot) {
            Wish::Observed
        } else if self.paths.fallbacks.wants_link(record.run, self.cx.now)
            || self.messages.direct.is_any_for(record.run)
        {
            Wish::Passing
        } else {
            Wish::Theirs
        }
    }
}

/// Looking.
impl Core {
    /// Returns the number of links in use.
    pub fn open_links(&self) -> usize {
        self.paths.links.count()
    }
}

/// Plans.
impl Core {
    /// Plans the link to a member that became a neighbour or ceased to be one.
    pub(crate) fn plan_link(&mut self, slot: Slot) {
        let entry = self.view.entry(slot);
        let run = entry.record.run;
        let actions = match (self.link_wish(slot).is_ours(), self.paths.links.is_idle(run)) {
            (true, true) => {
                let facts = NeighbourFacts {
                    is_ours: self.me().address < entry.record.address,
                    is_news: entry.peer.session.is_none() && entry.peer.last_sign() == self.cx.now,
                    is_for_good: self.observers.is_full_mesh(self.view.live().len())
                        || self.observers.is_brought_in(slot),
                };
                self.paths.links.wanted(self.cx.now, run, facts)
            }
            (false, false) => self.paths.links.unwanted(run),
            _ => return,
        };
        self.act_on_link(run, actions);
    }

    /// Opens a link now, unless one is being opened or stands; `false` if there are too many.
    pub(crate) fn ensure_link(&mut self, slot: Slot) -> bool {
        let record = self.view.record(slot);
        let (run, address) = (record.run, record.address);
        let actions = self.paths.links.ensure(run, address);
        self.act_on_link(run, actions);
        !self.paths.links.is_idle(run)
    }
}

/// Ends on purpose.
impl Core {
    /// Ends the link to a member on purpose, if there is one, and forgets it.
    pub(crate) fn drop_link(&mut self, run: Run) {
        let actions = self.paths.links.forget(run);
        self.act_on_link(run, actions);
    }

    /// Ends all links on purpose.
    pub(crate) fn drop_links(&mut self) {
        for run in self.paths.links.members() {
            self.drop_link(run);
        }
        self.paths.dismiss_all_unproven(&mut self.cx);
    }

    /// Ends a link that leads to where the member, or this node, is no more, and plans the next one soon: either of the
    /// two may end before any of its observers has a link to it again. Direct messages do not wait for a pause.
    pub(crate) fn link_anew(&mut self, slot: Slot, why: Parting) {
        let run = self.view.record(slot).run;
        let (facts, is_urgent) = (self.link_facts(slot), self.messages.direct.is_any_for(run));
        let actions = self.paths.links.moved(run, why, facts, is_urgent);
        self.act_on_link(run, actions);
    }
}

/// Bootstrap links: ways to addresses at which nobody knows yet who is there.
impl Core {
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
                self.receive(address, Way::Link(link), bytes);
            }
            LinkEvent::Refused | LinkEvent::Unreachable => {
                self.paths.bootstrap.remove(link);
                self.joiner.note_connection(&self.cx, address, false);
            }
            LinkEvent::Closed => _ = self.paths.bootstrap.remove(link),
            LinkEvent::Unopened(why) => {
                self.paths.bootstrap.remove(link);
                self.reunion.contacted(&mut self.cx, address, &Contacted::Unopened(why));
                self.joiner.turned_down(&mut self.cx, address, why);
            }
        }
    }

    /// Returns true if an accepted link may be a bootstrap link: its first frame asks a stranger's question.
    fn may_bootstrap(&self, header: &Header, messages: &Messages<'_>) -> bool {
        let is_question = |message: &Message| match (message, &self.joiner.joining) {
            (Message::Join { .. } | Message::WhoAreYou { .. }, _) => true,
            // A challenge that this joiner asked for, at the address that it advertises.
            (Message::Challenge { nonce, .. }, Some(joining)) => joining.asked.answerer(*nonce).is_some(),
            (Message::Reached { nonce }, _) => self.me.moving.is_reached_by(*nonce),
            _ => false,
        };
        header.cluster == self.cx.cluster
            && header.run != self.cx.run
            && matches!(self.cx.phase, Phase::Joining | Phase::Up)
            && messages
                .clone()
                .take(MAX_MESSAGES_IN_QUESTION)
                .any(|message| matches!(message, Ok(Read::Message(message)) if is_question(&message)))
    }
}

/// Unproven links: connections that others opened, until the member in whose name they came is proven to be at its address.
impl Core {
    /// Notes that a member's address has echoed a nonce: a connection in its name is its link.
    pub(crate) fn proved_at_address(&mut self, slot: Slot) {
        self.view.peer_mut(slot).prove();
        let record = self.view.record(slot);
        let (run, address, is_live) = (record.run, record.address, record.status.is_live());
        if is_live
            && self.cx.phase.is_up()
            && let Some(link) = self.paths.take_unproven(run)
        {
            let actions = self.paths.links.accept(self.cx.now, run, link, self.link_facts(slot));
            self.act_on_link(run, actions);
            self.paths.end_bootstraps_soon(self.cx.now, |to| to == address);
        }
    }
}

/// Members whose datagrams do not pass.
impl Core {
    /// Takes a member's report that this node's datagrams do not come.
    pub(crate) fn on_unheard(&mut self, slot: Slot) {
        if self.paths.links.open(self.view.record(slot).run).is_none() {
            return;
        }
        if self.paths.take_unheard(&self.cx, &self.view, slot) {
            self.gossip_to(slot, None);
        }
        self.paths.tell_of_fallback(&mut self.cx, &self.view, slot);
    }
}
