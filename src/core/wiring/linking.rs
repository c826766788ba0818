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
use std::time::Duration;

use crate::Core;
use crate::connectivity::links::{Action, Failure, Links, Meeting, Parting, Scene, Wish};
use crate::context::Phase;
use crate::counters::{Carrier, DropReason};
use crate::io::{LinkEvent, LinkId, Output, Receiver};
use crate::limits::MAX_MESSAGES_IN_QUESTION;
use crate::member::{LeaveReason, Run, Status};
use crate::packet::{Sender, SenderKind, Way, sender_kind};
use crate::time::Time;
use crate::timers::Timer;
use crate::view::{Slot, View, is_due};
use crate::wire::{Header, Message, Messages, PacketBuilder, Read, read};

/// Events and frames.
impl Core {
    /// Hands an event of a link to the part that it concerns.
    pub(crate) fn link_event(&mut self, link: LinkId, event: LinkEvent<'_>) {
        if let Some(address) = self.paths.bootstrap.address_of(link) {
            return self.on_bootstrap_event(link, address, event);
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
            self.paths.unproven.forget(link);
            return match known {
                Some(run) => self.end_garbled(link, run),
                None => self.cx.output(Output::CloseLink { link }),
            };
        };
        let Some(run) = known else {
            return match link {
                LinkId::Accepted(_)
                    if !self.paths.unproven.is_held(link)
                        && self.accept_bootstrap(link, from, &header, messages.clone()) =>
                {
                    self.receive_by_bootstrap(link, from, bytes);
                }
                LinkId::Accepted(_) => {
                    let (cx, view) = (&mut self.cx, &self.view);
                    if let Some(slot) = self.paths.receive_from_unproven(cx, view, link, header, &messages) {
                        self.ask_unproven(slot, self.cx.now);
                    }
                }
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
        let kind = sender_kind(&self.view, &self.paths, run, way);
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
    pub(crate) fn garbled(&mut self, link: LinkId, run: Run) {
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

/// Actions.
impl Core {
    /// Carries out what the machine wants done about the link to a member, in order.
    pub(crate) fn act_on_link(&mut self, run: Run, actions: Vec<Action>) {
        for action in actions {
            match action {
                Action::Open(link, to) => self.cx.output(Output::OpenLink { link, to }),
                Action::Close(link) => self.cx.output(Output::CloseLink { link }),
                Action::Part(link, why) => self.part(link, why),
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
                Action::Opened => self.link_opened(run),
                Action::Reopening => self.lost_link(run),
                Action::Failed { how, is_first } => self.link_failed(run, how, is_first),
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

    /// Tells the other machines that a link stands.
    fn link_opened(&mut self, run: Run) {
        if let Some(slot) = self.view.slot_of_run(run) {
            self.paths.doubt_datagrams_at_once(&self.cx, &self.view, slot);
        }
        self.paths.send_unsent(&mut self.cx, run);
        self.messages.direct.send_waiting(&mut outbox!(self), run);
        self.close_case(run);
    }

    /// Tells the other machines that an attempt failed.
    fn link_failed(&mut self, run: Run, how: Failure, is_first: bool) {
        self.messages.direct.give_up_unlinked(&mut self.cx, &self.view, run);
        match how {
            Failure::Refused => self.refused_link(run, is_first),
            Failure::ClosedUnanswered => self.closed_unanswered(run, is_first),
            Failure::ProvesNothing => self.no_link(run),
            // The link was open a moment ago: detection is asking about the process already, and goes on.
            Failure::LostAgain => {}
        }
    }

    /// Says over a link that it ends, and ends it.
    fn part(&mut self, link: LinkId, why: Parting) {
        let mut packet = self.out().packet(usize::MAX);
        let says_news_of_me = match why {
            // Its observers hear from itself that it leaves, whoever else says so.
            Parting::Over => self.cx.phase.is_leaving(),
            Parting::TheyMoved => false,
            Parting::WeMoved => true,
        };
        if says_news_of_me {
            self.out().push_update(&mut packet, View::ME);
        }
        packet.push(&Message::Unlink);
        self.out().send_frame(link, packet);
        self.cx.output(Output::CloseLink { link });
    }
}

/// The scenes and wishes that the machine is given.
impl Core {
    pub(crate) fn link_scene(&self, slot: Slot) -> Scene {
        let address = self.view.record(slot).address;
        Scene { wish: self.link_wish(slot), address, is_ours: self.me().address < address }
    }

    pub(crate) fn link_scene_of(&self, run: Run) -> Option<Scene> {
        self.view.slot_of_run(run).map(|slot| self.link_scene(slot))
    }

    /// Returns who wants a link between this node and a member.
    pub(crate) fn link_wish(&self, slot: Slot) -> Wish {
        let record = self.view.record(slot);
        let is_live = matches!(record.status, Status::Up | Status::Suspect);
        if !self.cx.phase.is_up() || slot == View::ME || !is_live {
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

    fn link_meeting(&self, slot: Slot) -> Meeting {
        let entry = self.view.entry(slot);
        Meeting {
            is_ours: self.me().address < entry.record.address,
            is_news: entry.peer.session.is_none() && entry.peer.last_sign() == self.cx.now,
            is_for_good: self.observers.is_full_mesh(self.view.live().len()) || self.observers.is_brought_in(slot),
        }
    }
}

/// Looking.
impl Core {
    /// Returns true if the link to a member stands.
    pub(crate) fn is_linked(&self, run: Run) -> bool {
        self.paths.links.open(run).is_some()
    }

    /// Returns the number of links in use.
    pub fn open_links(&self) -> usize {
        self.paths.links.count()
    }
}

/// Plans.
impl Core {
    /// Plans the link to a member that became a neighbour or ceased to be one.
    pub(crate) fn plan_link(&mut self, slot: Slot) {
        let run = self.view.record(slot).run;
        let actions = match (self.link_wish(slot).is_ours(), self.paths.links.is_idle(run)) {
            (true, true) => self.paths.links.wanted(self.cx.now, run, self.link_meeting(slot)),
            (false, false) => self.paths.links.unwanted(run),
            _ => return,
        };
        self.act_on_link(run, actions);
    }

    /// Plans all links, as this node has become Up: its neighbours are all there already.
    pub(crate) fn plan_links(&mut self) {
        let neighbours: Vec<Slot> = self.observers.neighbours().collect();
        if !neighbours.is_empty() {
            // A founder is no newcomer: whoever comes to it later may die before it has opened a link.
            self.paths.links.came_up(self.cx.now);
        }
        for slot in neighbours {
            self.plan_link(slot);
        }
    }

    /// Acts on a link's timer.
    pub(crate) fn on_link_deadline(&mut self, run: Run) {
        let scene = self.link_scene_of(run);
        let actions = self.paths.links.due(run, scene);
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

    /// Ends the link to a member that is held as gone. One that was removed learns so by it, and one that leaves hears
    /// by it that this node knows, and ends it itself: perhaps no datagram would tell them.
    pub(crate) fn dismiss_gone(&mut self, slot: Slot, run: Run) {
        let record = self.view.record(slot);
        match record.status {
            Status::Left(_) if record.run != run || !self.is_linked(run) => self.drop_link(run),
            Status::Left(LeaveReason::Graceful) => self.act_on_link(run, Links::lingers()),
            Status::Left(LeaveReason::Forced) => {
                let bytes = self.out().packet_to(slot).finish();
                self.paths.copy_to_link(&mut self.cx, run, &bytes);
                self.drop_link(run);
            }
            _ => self.drop_link(run),
        }
    }

    /// Ends the link to a member that is at another address by now, and plans the next one. What led to the old
    /// address may break never, or as late as the kernel gives it up, and shows nothing of the process until then.
    pub(crate) fn follow_by_link(&mut self, slot: Slot) {
        let record = self.view.record(slot);
        if !self.paths.links.is_at(record.run, record.address) {
            self.link_anew(slot, Parting::TheyMoved);
        }
    }

    /// Ends all connections, as this node is at another address: those that stand lead from the old one. The others
    /// hear of the new address by them, if anything still passes there.
    pub(crate) fn link_all_anew(&mut self) {
        self.paths.dismiss_all_unproven(&mut self.cx);
        for slot in
            self.paths.links.members().into_iter().filter_map(|run| self.view.slot_of_run(run)).collect::<Vec<_>>()
        {
            self.link_anew(slot, Parting::WeMoved);
        }
    }

    /// Ends a link that leads to where the member, or this node, is no more, and plans the next one soon: either of the
    /// two may end before any of its observers has a link to it again. Direct messages do not wait for a pause.
    fn link_anew(&mut self, slot: Slot, why: Parting) {
        let run = self.view.record(slot).run;
        let (scene, is_urgent) = (self.link_scene(slot), self.messages.direct.is_any_for(run));
        let actions = self.paths.links.moved(run, why, scene, is_urgent);
        self.act_on_link(run, actions);
    }

    /// Ends a link by which nothing has come for so long, although something was asked at `since`, and opens another one.
    pub(crate) fn renew_silent_link(&mut self, slot: Slot, since: Time, patience: Duration) {
        let record = self.view.record(slot);
        let (run, address) = (record.run, record.address);
        let actions = self.paths.links.silent(self.cx.now, run, address, since, patience);
        self.act_on_link(run, actions);
    }
}

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
            let actions = self.paths.links.accept(self.cx.now, run, link, self.link_scene(slot));
            self.act_on_link(run, actions);
            self.paths.end_bootstraps_soon(self.cx.now, |to| to == address);
        }
    }
}

/// Members whose datagrams do not pass, and voters that are no neighbours.
impl Core {
    /// Takes a member's report that this node's datagrams do not come.
    pub(crate) fn on_unheard(&mut self, slot: Slot) {
        if !self.is_linked(self.view.record(slot).run) {
            return;
        }
        if self.paths.take_unheard(&self.cx, &self.view, slot) {
            self.gossip_to(slot, Carrier::Other);
        }
        self.paths.tell_of_fallback(&mut self.cx, &self.view, slot);
    }

    /// Sends a message to a voter. A lease may end before heartbeats notice that a datagram is missing, so that a copy goes
    /// by the link as soon as one is late.
    pub(crate) fn send_to_voter(&mut self, slot: Slot, packet: PacketBuilder) {
        debug_assert!(slot != View::ME);
        let renewal_interval = self.lead.as_ref().map_or(Duration::MAX, |lead| lead.renewal_interval());
        let record = self.view.record(slot);
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
