//! Links: one TCP connection between each two nodes that observe each other.
//!
//! A link carries the same packets as the socket, as frames, and above all it makes a crash visible at once: the kernel
//! of a dead process closes it (what follows is in `crash`). It is silent while nothing happens, and optional: where TCP
//! is blocked, everything but that signal still works.
//!
//! ```text
//!             settle                    connected           greeted
//!   Idle ──────────────▶ Opening ──────────────▶ Greeting ──────────▶ Open ──lost──▶ Opening at once, then `crash`
//!     ▲                     │ failed                │ closed             │ Unlink
//!     └──────back-off───────┴───────────────────────┴────────────────────┘
//! ```
//!
//! Invariants:
//! - At most one link per member is in use. Of two that cross, the one opened by the smaller address stays; of two opened
//!   by the other end, the newer.
//! - Whoever ends a link on purpose says so before ([`Message::Unlink`]), so that the other end suspects nothing.
//! - The node with the smaller address opens; the other one only if nothing came. Between a newcomer and its neighbours all
//!   is done at once, so that a crash right after joining breaks or refuses a link.
//! - Every state but Open and an idle one without a plan has a timer.
//! - A link is a member's if this node opened it to the address in the member's record and was greeted by its run, or if
//!   the member opened it and proved that it is there (see `guests`); and only as long as the record says that address.
//!
//! Must not know: what a broken link means.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::time::Duration;

use rand::RngExt;

use crate::core::counters::Drop;
use crate::core::doors::{LinkEvent, LinkId, Output};
use crate::core::limits::{
    LINK_BACKOFF, LINK_COURTESY, LINK_FIRST_PAUSE, LINK_LINGER, LINK_MESH_SETTLE, LINK_NEWCOMER_COURTESY,
    LINK_PROOF_RETRY, LINK_SETTLE, LINK_TIMEOUT, MAX_FRAME_BYTES, MAX_LINK_BACKOFF, MAX_LINKS, MIN_PROBE_BYTES,
};
use crate::core::member::{LeaveReason, Run, Status};
use crate::core::packet::{Sender, Standing, Way};
use crate::core::time::Time;
use crate::core::timers::Timer;
use crate::core::view::{Slot, View, is_due};
use crate::core::wire::{Message, PacketBuilder, read};
use crate::core::{Core, Phase};

/// All links, by the member's run.
#[derive(Debug, Default)]
pub(in crate::core) struct Links {
    of: BTreeMap<Run, Link>,
    runs: BTreeMap<LinkId, Run>,
    /// Connections that only find out whether anybody listens at a joiner's address.
    visits: BTreeMap<LinkId, Run>,
    /// When this node became Up.
    up_since: Option<Time>,
    last: u64,
}

#[derive(Debug, Default)]
struct Link {
    state: State,
    /// When it was opened last.
    opened: Option<Time>,
    /// Attempts that failed in a row.
    failures: u32,
    /// Looks at the member's address that was not proven, before the first attempt.
    unproven: u8,
    /// When a lost link was last opened again at once.
    reopened: Option<Time>,
    /// The address that the link leads to: opened to it, or accepted and proven by what was sent there.
    home: Option<SocketAddr>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum State {
    /// None; a timer may be set to open one.
    #[default]
    Idle,
    /// Asked for.
    Opening(LinkId),
    /// Connected, and not yet answered by the process we mean.
    Greeting(LinkId),
    /// In use.
    Open(LinkId),
}

impl State {
    fn link(self) -> Option<LinkId> {
        match self {
            State::Idle => None,
            State::Opening(link) | State::Greeting(link) | State::Open(link) => Some(link),
        }
    }
}

impl Links {
    /// How much is kept.
    pub(in crate::core) fn size(&self) -> usize {
        self.of.len() + self.runs.len()
    }

    /// The open link to a member.
    fn open(&self, run: Run) -> Option<LinkId> {
        match self.of.get(&run)?.state {
            State::Open(link) => Some(link),
            _ => None,
        }
    }

    /// Whether this is the open link to a member at this address.
    pub(in crate::core) fn leads_to(&self, run: Run, link: LinkId, home: SocketAddr) -> bool {
        self.of.get(&run).is_some_and(|held| held.state == State::Open(link) && held.home == Some(home))
    }

    /// The link to a member that stands, and that was not answered yet.
    pub(super) fn greeting(&self, run: Run) -> Option<LinkId> {
        match self.of.get(&run)?.state {
            State::Greeting(link) => Some(link),
            _ => None,
        }
    }

    /// Whether none stands or is being opened.
    pub(super) fn is_idle(&self, run: Run) -> bool {
        self.of.get(&run).is_none_or(|link| link.state == State::Idle)
    }

    fn set_home(&mut self, run: Run, home: SocketAddr) {
        self.of.entry(run).or_default().home = Some(home);
    }

    /// How many are open.
    pub(super) fn count(&self) -> usize {
        self.of.values().filter(|link| matches!(link.state, State::Open(_))).count()
    }

    /// Since when the link to a member stands, if it does.
    pub(super) fn open_since(&self, run: Run) -> Option<Time> {
        let link = self.of.get(&run)?;
        matches!(link.state, State::Open(_)).then_some(link.opened).flatten()
    }

    /// Connections had or asked for.
    fn in_use(&self) -> usize {
        self.runs.len() + self.visits.len()
    }

    fn next_id(&mut self) -> LinkId {
        self.last += 1;
        LinkId::Opened(self.last)
    }

    fn set(&mut self, run: Run, state: State) {
        let link = self.of.entry(run).or_default();
        if let Some(before) = link.state.link() {
            self.runs.remove(&before);
        }
        link.state = state;
        if let Some(link) = state.link() {
            self.runs.insert(link, run);
        }
    }
}

impl Core {
    /// Whether this node and a member should have a link.
    fn wants_link(&self, slot: Slot) -> bool {
        let is_live = matches!(self.view.record(slot).status, Status::Up | Status::Suspect);
        let is_partner = || {
            let run = self.view.record(slot).run;
            self.detours.wants_link(run, self.now) || self.has_letters_for(run)
        };
        matches!(self.phase, Phase::Up) && slot != View::ME && is_live && (self.observes(slot) || is_partner())
    }

    /// A number for a link that is about to be opened.
    pub(super) fn next_link(&mut self) -> LinkId {
        self.links.next_id()
    }

    /// Sends a copy of a packet over the link to a member, if there is one.
    pub(super) fn copy_to_link(&mut self, run: Run, bytes: &[u8]) {
        if let Some(link) = self.links.open(run) {
            self.counters.frames_sent += 1;
            self.counters.frame_bytes_sent += bytes.len() as u64;
            self.outputs.push_back(Output::SendFrame { link, bytes: bytes.to_vec() });
        }
    }

    /// A member became a neighbour or ceased to be one.
    pub(in crate::core) fn plan_link(&mut self, slot: Slot) {
        let record = self.view.record(slot);
        let (run, address) = (record.run, record.address);
        let has_link = self.links.of.get(&run).is_some_and(|link| link.state != State::Idle);
        if self.wants_link(slot) == has_link {
            return;
        }
        let pause = if has_link { LINK_LINGER } else { self.pause_before_link(slot, address) };
        self.timers.set_by(Timer::Link(run), self.now + pause);
    }

    /// The time for which a link that is wanted since now is not opened yet.
    fn pause_before_link(&mut self, slot: Slot, address: SocketAddr) -> Duration {
        let is_ours = address > self.me().address;
        let am_new = self.links.up_since == Some(self.now);
        let peer = &self.view.entry(slot).peer;
        let is_new = peer.session.is_none() && peer.last_sign == self.now;
        // What is news to a newcomer is not new.
        let is_newcomer = is_new && is_due(self.now, self.links.up_since, LINK_SETTLE);
        let luck = self.rng.random::<f64>();
        match (is_ours, am_new) {
            (true, true) => LINK_FIRST_PAUSE.mul_f64(1.0 + luck),
            (true, false) if self.is_full_mesh() => LINK_MESH_SETTLE.mul_f64(luck),
            (true, false) => LINK_SETTLE.mul_f64(luck),
            (false, _) if is_newcomer => LINK_NEWCOMER_COURTESY.mul_f64(1.0 + luck / 2.0),
            (false, _) => LINK_COURTESY + LINK_SETTLE.mul_f64(luck),
        }
    }

    /// This node has become Up: its neighbours are all there already.
    pub(in crate::core) fn plan_links(&mut self) {
        self.links.up_since = Some(self.now);
        let neighbours: Vec<Slot> = self.neighbours().collect();
        for slot in neighbours {
            self.plan_link(slot);
        }
    }

    /// Finds out whether anybody listens at a joiner's address.
    pub(in crate::core) fn visit_joiner(&mut self, run: Run, to: SocketAddr) {
        self.end_visit(run);
        if self.links.in_use() >= MAX_LINKS {
            return self.counters.drop(Drop::TableFull);
        }
        let link = self.links.next_id();
        self.links.visits.insert(link, run);
        self.outputs.push_back(Output::OpenLink { link, to });
    }

    /// Nothing is to be found out about a joiner any more.
    pub(in crate::core) fn end_visit(&mut self, run: Run) {
        let visit = self.links.visits.iter().find(|(_, visited)| **visited == run).map(|(link, _)| *link);
        if let Some(link) = visit {
            self.links.visits.remove(&link);
            self.outputs.push_back(Output::CloseLink { link });
        }
    }

    fn visited(&mut self, run: Run, event: LinkEvent<'_>) {
        match event {
            LinkEvent::Connected => self.end_visit(run),
            LinkEvent::Frame { .. } => {}
            LinkEvent::Refused | LinkEvent::Unreachable | LinkEvent::Closed => {
                self.links.visits.retain(|_, visited| *visited != run);
                if event == LinkEvent::Refused {
                    self.joiner_refused(run);
                }
            }
        }
    }

    /// The timer of a link: opens it, closes it, or gives an attempt up.
    pub(in crate::core) fn tend_link(&mut self, run: Run) {
        let Some(slot) = self.view.slot_of_run(run) else { return self.drop_link(run) };
        if !self.wants_link(slot) {
            if !self.is_wanted_there(slot) {
                self.drop_link(run);
            }
            return;
        }
        match self.links.of.get(&run).map(|link| link.state).unwrap_or_default() {
            State::Idle if !self.view.entry(slot).peer.proven && !self.may_dial_unproven(run) => self.await_proof(slot),
            State::Idle => {
                self.open_link(slot);
            }
            State::Opening(link) | State::Greeting(link) => {
                self.close(link);
                self.attempt_failed(run);
            }
            State::Open(_) if !self.observes(slot) => self.review_partner(run),
            State::Open(_) => {}
        }
    }

    /// Whether a member that this node does not observe opened the link: it observes this node for a while longer, and ends
    /// the link itself.
    fn is_wanted_there(&self, slot: Slot) -> bool {
        let record = self.view.record(slot);
        let is_live = matches!(record.status, Status::Up | Status::Suspect);
        matches!(self.phase, Phase::Up) && is_live && matches!(self.links.open(record.run), Some(LinkId::Accepted(_)))
    }

    /// No connection is opened to an address that never answered: it may be a third party's. It is probed, and looked at
    /// again soon; the longer it does not answer, the later.
    fn await_proof(&mut self, slot: Slot) {
        let run = self.view.record(slot).run;
        let packet = self.packet_to(slot);
        self.send_to(slot, packet);
        let link = self.links.of.entry(run).or_default();
        link.unproven = link.unproven.saturating_add(1);
        let pause = LINK_PROOF_RETRY * 2_u32.saturating_pow(u32::from(link.unproven).min(16));
        self.timers.set(Timer::Link(run), self.now + pause.min(MAX_LINK_BACKOFF));
    }

    /// Where datagrams do not pass, nobody is proven but by a link; so a member is dialled that never answered, seldom.
    fn may_dial_unproven(&mut self, run: Run) -> bool {
        self.are_datagrams_in_doubt() && self.guests.may_dial(run, self.now)
    }

    /// Opens a link now, unless one is being opened or stands; `false` if there are too many.
    pub(in crate::core) fn ensure_link(&mut self, slot: Slot) -> bool {
        let run = self.view.record(slot).run;
        let has_one = self.links.of.get(&run).is_some_and(|link| link.state != State::Idle);
        has_one || self.open_link(slot)
    }

    fn open_link(&mut self, slot: Slot) -> bool {
        let record = self.view.record(slot);
        let (run, to) = (record.run, record.address);
        if self.links.in_use() >= MAX_LINKS {
            self.counters.drop(Drop::TableFull);
            self.back_off(run);
            return false;
        }
        let link = self.links.next_id();
        self.links.set(run, State::Opening(link));
        self.links.set_home(run, to);
        self.timers.set(Timer::Link(run), self.now + LINK_TIMEOUT);
        self.outputs.push_back(Output::OpenLink { link, to });
        true
    }

    /// Whether the link to a member stands.
    pub(in crate::core) fn is_linked(&self, run: Run) -> bool {
        self.links.open(run).is_some()
    }

    /// Ends the link to a member on purpose, if there is one, and forgets it.
    pub(in crate::core) fn drop_link(&mut self, run: Run) {
        self.timers.cancel(Timer::Link(run));
        self.detours.forget(run);
        if let Some(link) = self.links.of.get(&run).and_then(|link| link.state.link()) {
            self.dismiss(link);
        }
        self.links.set(run, State::Idle);
        self.links.of.remove(&run);
        self.crashes.await_no_link(run);
        self.letters_have_no_link(run);
    }

    /// Ends all links on purpose.
    pub(in crate::core) fn drop_links(&mut self) {
        let runs: Vec<Run> = self.links.of.keys().copied().collect();
        for run in runs {
            self.drop_link(run);
        }
        for link in std::mem::take(&mut self.links.visits).into_keys() {
            self.outputs.push_back(Output::CloseLink { link });
        }
        self.dismiss_guests();
    }

    /// Ends the link to a member that is held as gone. One that was removed learns so by it, and one that leaves hears by it
    /// that this node knows, and ends it itself: perhaps no datagram would tell them.
    pub(in crate::core) fn dismiss_gone(&mut self, slot: Slot, run: Run) {
        let record = self.view.record(slot);
        match record.status {
            Status::Left(_) if record.run != run || self.links.open(run).is_none() => self.drop_link(run),
            Status::Left(LeaveReason::Graceful) => self.timers.set(Timer::Link(run), self.now + LINK_LINGER),
            Status::Left(LeaveReason::Forced) => {
                let packet = self.packet_to(slot);
                self.copy_to_link(run, &packet.finish());
                self.drop_link(run);
            }
            _ => self.drop_link(run),
        }
    }

    /// A goodbye, and the end of a link.
    fn dismiss(&mut self, link: LinkId) {
        let mut packet = self.packet(usize::MAX);
        if matches!(self.phase, Phase::Leaving) {
            // Its observers hear from itself that it leaves, whoever else says so.
            self.push_update(&mut packet, View::ME);
        }
        packet.push(&Message::Unlink);
        self.send_frame(link, packet);
        self.close(link);
    }

    fn close(&mut self, link: LinkId) {
        self.links.runs.remove(&link);
        self.outputs.push_back(Output::CloseLink { link });
    }

    pub(super) fn send_frame(&mut self, link: LinkId, packet: PacketBuilder) {
        let bytes = packet.finish();
        self.counters.frames_sent += 1;
        self.counters.frame_bytes_sent += bytes.len() as u64;
        self.outputs.push_back(Output::SendFrame { link, bytes });
    }

    /// Sends a message as a datagram and over the link, if there is one: datagrams are lost, and a link may be stalled
    /// by a firewall without anybody knowing.
    pub(in crate::core) fn send_both_ways(&mut self, slot: Slot, message: &Message) {
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

    /// The way for bulk to a member: its link, if there is one.
    pub(in crate::core) fn best_way(&self, slot: Slot) -> Way {
        self.links.open(self.view.record(slot).run).map_or(Way::Datagrams, Way::Link)
    }

    /// A packet to a member as large as its way allows.
    pub(in crate::core) fn packet_by(&mut self, way: Way, slot: Slot) -> PacketBuilder {
        let mut packet = self.packet_to(slot);
        if matches!(way, Way::Link(_)) {
            packet.raise_limit(MAX_FRAME_BYTES);
        }
        packet
    }

    /// Sends a packet on its way.
    pub(in crate::core) fn send_by(&mut self, way: Way, slot: Slot, packet: PacketBuilder) {
        match way {
            Way::Datagrams => self.send_to(slot, packet),
            Way::Link(link) => self.send_frame(link, packet),
        }
    }

    /// Something happened to a link.
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

    /// The first frame tells the other end who we are.
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
            self.counters.drop(Drop::Malformed);
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
                    self.counters.drop(Drop::UnknownRun);
                    self.dismiss_guest(link);
                }
                LinkId::Accepted(_) => self.receive_from_guest(link, from, bytes.len(), header, messages),
                // Given up while the frame was on its way.
                LinkId::Opened(_) => self.close(link),
            };
        };
        let is_open = self.links.open(run).is_some();
        if !is_open && messages.clone().any(|message| message.is_err()) {
            // What cannot be read greets nobody.
            return self.garbled(link, run);
        }
        if !self.may_speak(link, run, header.cluster, header.run) {
            return self.close(link);
        }
        let way = Way::Link(link);
        let standing = self.standing_of(run, from, way);
        if !matches!(standing, Standing::Member(_)) {
            // Its record says another address by now.
            return self.drop_link(run);
        }
        let is_over = messages.hold(Message::UNLINK_KIND);
        let sender = Sender { from, run, standing, way, bytes: bytes.len() };
        if self.receive_packet(sender, header, messages).is_err() {
            self.garbled(link, run);
        } else if is_over {
            self.unlinked(link);
        }
    }

    /// Whether links with this run are for questions at most.
    fn is_strange(&self, run: Run) -> bool {
        let slot = self.view.slot_of_run(run);
        !matches!(self.phase, Phase::Up) || !slot.is_some_and(|slot| self.view.record(slot).status.is_live())
    }

    /// A frame cannot be read.
    pub(super) fn garbled(&mut self, link: LinkId, run: Run) {
        self.counters.drop(Drop::Malformed);
        self.close(link);
        self.attempt_failed(run);
    }

    /// Whether a frame of this run is taken from the link to `known`; the first one opens a link that was greeted.
    fn may_speak(&mut self, link: LinkId, known: Run, cluster: u32, run: Run) -> bool {
        let slot = self.view.slot_of_run(run).filter(|slot| self.view.record(*slot).status.is_live());
        // Who is leaving hears by its links that others know.
        let is_here = matches!(self.phase, Phase::Up | Phase::Leaving);
        let is_member = slot.is_some() && cluster == self.cluster && is_here;
        if !is_member {
            self.counters.drop(Drop::UnknownRun);
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

    /// A member opened a link, and proved it (see `guests`): of two that cross, one stays.
    pub(super) fn accept(&mut self, slot: Slot, link: LinkId) -> bool {
        let record = self.view.record(slot);
        let (run, address) = (record.run, record.address);
        let state = self.links.of.get(&run).map(|link| link.state).unwrap_or_default();
        let is_ours_first = self.me().address < address;
        match state {
            State::Greeting(LinkId::Opened(_)) | State::Open(LinkId::Opened(_)) if is_ours_first => {
                self.dismiss(link);
                return false;
            }
            State::Idle if self.links.in_use() >= MAX_LINKS => {
                self.counters.drop(Drop::TableFull);
                self.dismiss(link);
                return false;
            }
            State::Idle => {}
            State::Opening(old) => self.close(old),
            State::Greeting(old) | State::Open(old) => self.dismiss(old),
        }
        self.links.set_home(run, address);
        self.link_opened(run, link);
        let packet = self.packet_to(slot);
        self.send_frame(link, packet);
        true
    }

    fn link_opened(&mut self, run: Run, link: LinkId) {
        self.links.set(run, State::Open(link));
        if let Some(link) = self.links.of.get_mut(&run) {
            link.failures = 0;
            link.opened = Some(self.now);
        }
        let slot = self.view.slot_of_run(run);
        let is_wanted = slot.is_some_and(|slot| self.wants_link(slot) && self.observes(slot));
        if is_wanted {
            self.timers.cancel(Timer::Link(run));
        } else {
            self.timers.set(Timer::Link(run), self.now + LINK_LINGER);
        }
        if let Some(slot) = slot {
            self.doubt_datagrams_at_once(slot);
        }
        self.send_unsent(run);
        self.send_letters(run);
        self.process_answers(run);
    }

    /// The other end said goodbye to this link.
    fn unlinked(&mut self, link: LinkId) {
        if let Some(run) = self.links.runs.get(&link).copied() {
            self.links.set(run, State::Idle);
            self.timers.set(Timer::Link(run), self.now + LINK_LINGER);
        }
        self.close(link);
    }

    /// A link in use broke: opened again at once, unless that was tried a moment ago.
    fn link_lost(&mut self, run: Run) {
        self.counters.links_lost += 1;
        self.links.set(run, State::Idle);
        let Some(slot) = self.view.slot_of_run(run).filter(|slot| self.wants_link(*slot)) else {
            return self.drop_link(run);
        };
        let Some(link) = self.links.of.get_mut(&run) else { return };
        if link.reopened.is_some_and(|reopened| self.now.since(reopened) < LINK_BACKOFF) {
            self.link_failed(run);
            return;
        }
        link.reopened = Some(self.now);
        if self.open_link(slot) {
            self.lost_link(run);
        }
    }

    /// An attempt failed: the next one comes later. Says whether it is the first since a link stood, or since ever.
    fn link_failed(&mut self, run: Run) -> bool {
        self.links.set(run, State::Idle);
        let link = self.links.of.entry(run).or_default();
        link.failures = link.failures.saturating_add(1);
        let is_first = link.failures == 1;
        self.back_off(run);
        self.letters_have_no_link(run);
        is_first
    }

    /// The same, and it proves nothing about the process.
    fn attempt_failed(&mut self, run: Run) {
        self.link_failed(run);
        self.no_link(run);
    }

    /// Plans the next attempt: pauses double, and are spread, so that nobody is stormed when he comes back.
    fn back_off(&mut self, run: Run) {
        let failures = self.links.of.entry(run).or_default().failures;
        let pause = (LINK_BACKOFF * 2_u32.saturating_pow(failures.saturating_sub(1).min(16))).min(MAX_LINK_BACKOFF);
        let pause = pause.mul_f64(0.5 + self.rng.random::<f64>());
        self.timers.set(Timer::Link(run), self.now + pause);
    }

    /// Links in use.
    pub fn open_links(&self) -> usize {
        self.links.count()
    }
}
