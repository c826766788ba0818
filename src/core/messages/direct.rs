//! Direct messages: to one node, over its link, acknowledged; requests, and their answers.
//!
//! ```text
//! Waiting ──link stands, fewer than MAX_DIRECT_UNDER_WAY───▶ Sent ──Receipt──▶ done, or if it asks: Received ──answer──▶ done
//!    ▲                                                         │
//!    └─────────────────────no receipt for DIRECT_RETRY─────────┘          each until its deadline
//! ```
//!
//! A link is opened if there is none ([`Unlinked`]), and stays as long as a message waits for a receipt or an answer. A
//! link by which nothing came since a message was first sent over it, [`SENDS_INTO_SILENCE`] times, is given up for
//! another one ([`Overdue`]). A message that was sent once may have arrived: from then on the error is "unknown", and
//! never that it was not delivered. A receipt says that the other agent has the message, not that a program listens.
//!
//! Invariants:
//! - Every command is answered: by a receipt or an answer, or by an error at its deadline; at once if the member is
//!   gone, or if no link can be opened and nothing was sent.
//! - A message that is repeated is delivered once: its number is in the window of its sender, which is proven by the
//!   link.
//! - A receipt and an answer are taken only from the process that the message went to.
//! - At most [`MAX_DIRECT_MESSAGES`] wait, of [`MAX_DIRECT_BYTES`]; at most [`MAX_OPEN_REQUESTS`] of others wait for
//!   answers of this node's programs. A request beyond that gets no receipt: it is sent again.
//!
//! Must not know: which program answers; how links are opened.
//!
//! [`SENDS_INTO_SILENCE`]: crate::limits::SENDS_INTO_SILENCE

use std::collections::BTreeMap;
use std::time::Duration;

use super::{Numbers, deliver, drop_copy, may_speak, refuse};
use crate::context::Context;
use crate::counters::DropReason;
use crate::envelope::{MessageId, Payload};
use crate::io::{CommandError, Delivery, DeliveryKind, Reply, Ticket};
use crate::limits::{
    DIRECT_RETRY, MAX_DIRECT_BYTES, MAX_DIRECT_MESSAGES, MAX_DIRECT_UNDER_WAY, MAX_OPEN_REQUESTS,
    MAX_OPEN_REQUESTS_PER_MEMBER, MAX_ORIGINS, MAX_REQUEST_TIMEOUT, ORIGIN_MEMORY,
};
use crate::member::{NodeId, Run};
use crate::packet::{Outbox, Way};
use crate::time::Time;
use crate::timers::Timer;
use crate::view::{Slot, View};
use crate::window::Window;
use crate::wire::{DirectMessage, Message, Purpose};

/// The direct messages of this node that wait, and what is remembered of those of others.
#[derive(Debug, Clone, Default)]
pub(crate) struct DirectMessages {
    /// The number of the last direct message that this node sent.
    last: u64,
    pending: BTreeMap<u64, Pending>,
    /// The payload bytes of all pending messages.
    bytes: usize,
    /// The numbers seen of each sender, and the time at which its last message came.
    windows: BTreeMap<Run, (Numbers, Time)>,
    /// Requests of others that this node's programs may answer, each with the time until which they may.
    requests: BTreeMap<MessageId, Time>,
}

#[derive(Debug, Clone)]
struct Pending {
    ticket: Ticket,
    to: Run,
    id: NodeId,
    purpose: Purpose,
    payload: Payload,
    until: Time,
    state: State,
    /// The time at which it was first sent over the link that stands.
    sent_since: Option<Time>,
    /// The message left this node at least once.
    was_sent: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    /// The message waits for a link, or for room on it.
    Waiting,
    /// The message was sent at this time, and waits for its receipt.
    Sent(Time),
    /// The request was received there, and waits for its answer.
    Received,
}

/// A message that waits for a link to its receiver. It is to be given up ([`DirectMessages::give_up`]) if none can be opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Unlinked {
    pub(crate) receiver: Slot,
    pub(crate) number: u64,
}

/// A message without a receipt that waits to be sent again, over another link if nothing came by the present one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Overdue {
    pub(crate) receiver: Run,
    /// The time at which the message was first sent over the present link.
    pub(crate) sent_since: Option<Time>,
}

/// Programs' commands.
impl DirectMessages {
    /// Takes a program's message for the member of this name, and sends it if there is a link.
    pub(super) fn send(
        &mut self,
        out: &mut Outbox<'_>,
        ticket: Ticket,
        to: &NodeId,
        purpose: Purpose,
        payload: Payload,
        within: Duration,
    ) -> Result<Option<Unlinked>, CommandError> {
        may_speak(out.cx)?;
        let slot = out.view.slot_of(to.as_str()).ok_or_else(|| CommandError::NoSuchMember { id: to.clone() })?;
        let (run, status) = (out.view.record(slot).run, out.view.record(slot).status);
        if !status.is_live() {
            return Err(CommandError::NotLive { id: to.clone(), status });
        }
        if self.pending.len() >= MAX_DIRECT_MESSAGES || self.bytes + payload.len() > MAX_DIRECT_BYTES {
            return Err(CommandError::Busy);
        }
        let until = out.cx.now + within;
        self.last += 1;
        self.bytes += payload.len();
        let number = self.last;
        let pending = Pending {
            ticket,
            to: run,
            id: to.clone(),
            purpose: purpose.clone(),
            payload: payload.clone(),
            until,
            state: State::Waiting,
            sent_since: None,
            was_sent: false,
        };
        self.pending.insert(number, pending);
        out.cx.counters.messages.sent += 1;
        if slot == View::ME {
            self.send_to_myself(out, DirectMessage { number, purpose, payload }, until);
            return Ok(None);
        }
        out.cx.timers.set(Timer::DirectMessage(number), until);
        self.send_waiting(out, run);
        Ok((out.best_way(slot) == Way::Datagrams).then_some(Unlinked { receiver: slot, number }))
    }

    /// Sends the answer of a program of this node to a request.
    pub(super) fn answer(
        &mut self,
        out: &mut Outbox<'_>,
        ticket: Ticket,
        request: MessageId,
        payload: Payload,
    ) -> Result<Option<Unlinked>, CommandError> {
        let now = out.cx.now;
        let until = self.requests.remove(&request).filter(|until| *until > now);
        let asker = if request.run == out.cx.run { Some(View::ME) } else { out.view.slot_of_run(request.run) };
        let (Some(until), Some(asker)) = (until, asker) else {
            return Err(CommandError::NoSuchRequest { id: request });
        };
        let to = out.view.record(asker).id.clone();
        self.send(out, ticket, &to, Purpose::Answer { to: request.number() }, payload, until.since(now))
    }

    /// Takes a message to this very node, which needs no link.
    fn send_to_myself(&mut self, out: &mut Outbox<'_>, message: DirectMessage, until: Time) {
        let number = message.number;
        if let Purpose::Ask { .. } = message.purpose {
            out.cx.timers.set(Timer::DirectMessage(number), until);
        }
        if self.accept(out, View::ME, message) {
            self.on_receipt(out, View::ME, number);
        } else {
            self.give_up(out.cx, number);
        }
    }
}

/// Sending, and giving up.
impl DirectMessages {
    pub(super) fn size(&self) -> usize {
        self.pending.len() + self.windows.len() + self.requests.len()
    }

    /// Returns true if a message to this process waits for a link, its receipt or its answer.
    pub(crate) fn is_any_for(&self, run: Run) -> bool {
        self.pending.values().any(|pending| pending.to == run)
    }

    /// Sends the messages that wait for this process, as many as may be under way at one time, if there is a link.
    pub(crate) fn send_waiting(&mut self, out: &mut Outbox<'_>, run: Run) {
        if self.pending.is_empty() {
            return;
        }
        let Some(slot) = out.view.slot_of_run(run) else { return };
        let way = out.best_way(slot);
        if way == Way::Datagrams {
            return;
        }
        let now = out.cx.now;
        let of_run = self.pending.iter().filter(|(_, pending)| pending.to == run);
        let under_way = of_run.clone().filter(|(_, pending)| matches!(pending.state, State::Sent(_))).count();
        let waiting = of_run.filter(|(_, pending)| pending.state == State::Waiting).map(|(number, _)| *number);
        let next: Vec<u64> = waiting.take(MAX_DIRECT_UNDER_WAY.saturating_sub(under_way)).collect();
        for number in next {
            let Some(pending) = self.pending.get_mut(&number) else { continue };
            let is_repeated = pending.sent_since.is_some();
            pending.state = State::Sent(now);
            pending.sent_since.get_or_insert(now);
            pending.was_sent = true;
            out.cx.timers.set(Timer::DirectMessage(number), pending.until.min(now + DIRECT_RETRY));
            let (purpose, payload) = (pending.purpose.clone(), pending.payload.clone());
            let mut packet = out.packet_by(way, slot);
            packet.push(&Message::Direct(Box::new(DirectMessage { number, purpose, payload })));
            if is_repeated {
                // A member that has no room for the message answers this all the same, by the link.
                out.push_probe(&mut packet, slot);
            }
            out.send_by(way, slot, packet);
        }
    }

    /// Has the messages to a process wait for its next link, as the last one was given up.
    pub(crate) fn wait_for_link(&mut self, run: Run) {
        for pending in self.pending.values_mut().filter(|pending| pending.to == run) {
            pending.wait();
            pending.sent_since = None;
        }
    }

    /// Acts on a message's deadline. Gives it up if its time is over; otherwise has it wait to be sent again, and returns
    /// it: first its link is to be looked after.
    pub(crate) fn on_deadline(&mut self, cx: &mut Context, number: u64) -> Option<Overdue> {
        let pending = self.pending.get_mut(&number)?;
        if cx.now >= pending.until {
            self.give_up(cx, number);
            return None;
        }
        cx.timers.set(Timer::DirectMessage(number), pending.until);
        pending.wait();
        Some(Overdue { receiver: pending.to, sent_since: pending.sent_since })
    }

    /// Gives a message up: tells the program that it may not have arrived, or that it cannot have.
    pub(crate) fn give_up(&mut self, cx: &mut Context, number: u64) {
        cx.timers.cancel(Timer::DirectMessage(number));
        let Some(Pending { ticket, id, was_sent, state, .. }) = self.remove(number) else { return };
        let may_have_arrived = was_sent || state == State::Received;
        let error = if may_have_arrived { CommandError::NoAnswer { id } } else { CommandError::NoLink { id } };
        refuse(cx, ticket, error);
    }

    /// Gives up messages to a process to which there is no link, and none soon: those that were never sent, and all of
    /// them if the process is gone.
    pub(crate) fn give_up_unlinked(&mut self, cx: &mut Context, view: &View, run: Run) {
        let is_gone = view.slot_of_run(run).is_none_or(|slot| !view.record(slot).status.is_live());
        self.give_up_those(cx, |pending| pending.to == run && (is_gone || !pending.was_sent));
    }

    /// Gives up all messages, as this node stops.
    pub(crate) fn give_up_all(&mut self, cx: &mut Context) {
        self.give_up_those(cx, |_| true);
    }

    fn give_up_those(&mut self, cx: &mut Context, is_lost: impl Fn(&Pending) -> bool) {
        let lost = self.pending.iter().filter(|(_, pending)| is_lost(pending));
        for number in lost.map(|(number, _)| *number).collect::<Vec<_>>() {
            self.give_up(cx, number);
        }
    }

    /// Sets the deadlines of all messages anew.
    pub(super) fn resume(&self, cx: &mut Context) {
        for (number, pending) in &self.pending {
            cx.timers.set(Timer::DirectMessage(*number), pending.until.max(cx.now));
        }
    }

    fn remove(&mut self, number: u64) -> Option<Pending> {
        let pending = self.pending.remove(&number)?;
        self.bytes -= pending.payload.len();
        Some(pending)
    }
}

impl Pending {
    /// Has a message that was sent wait to be sent again; one that was received waits for its answer alone.
    fn wait(&mut self) {
        if let State::Sent(_) = self.state {
            self.state = State::Waiting;
        }
    }
}

/// Receiving.
impl DirectMessages {
    /// Takes a direct message that came from a member.
    pub(super) fn on_direct(&mut self, out: &mut Outbox<'_>, sender: Slot, way: Way, message: &DirectMessage) {
        out.cx.counters.messages.received += 1;
        let (run, now) = (out.view.record(sender).run, out.cx.now);
        if way == Way::Datagrams {
            // Honest members send direct messages over links alone, where the receipt can go back.
            return drop_copy(out.cx, DropReason::WrongState);
        }
        let Some(novelty) = self.window(run, message.number, now).map(|window| window.judge(message.number)) else {
            return drop_copy(out.cx, DropReason::TableFull);
        };
        if !novelty.is_new() {
            // The message came before, and its receipt was lost.
            out.cx.counters.messages.duplicate += 1;
            return send_receipt(out, sender, way, message.number);
        }
        if !self.accept(out, sender, message.clone()) {
            return drop_copy(out.cx, DropReason::TableFull);
        }
        if let Some(window) = self.window(run, message.number, now) {
            window.accept(message.number);
        }
        send_receipt(out, sender, way, message.number);
    }

    /// Delivers a message; returns false if there is no room for its request now.
    fn accept(&mut self, out: &mut Outbox<'_>, sender: Slot, message: DirectMessage) -> bool {
        let (run, from) = (out.view.record(sender).run, out.view.record(sender).id.clone());
        let id = MessageId::direct(run, message.number);
        let payload = message.payload;
        match message.purpose {
            Purpose::Tell { topic } => {
                deliver(out.cx, Delivery { id, from, topic, payload, kind: DeliveryKind::Sent });
            }
            Purpose::Ask { topic, within_ms } => {
                if !self.make_room_for_request(run, out.cx.now) {
                    return false;
                }
                let within = Duration::from_millis(within_ms.into()).min(MAX_REQUEST_TIMEOUT);
                self.requests.insert(id, out.cx.now + within);
                deliver(out.cx, Delivery { id, from, topic, payload, kind: DeliveryKind::Request { within } });
            }
            Purpose::Answer { to } => self.on_answer(out, run, to, payload),
        }
        true
    }

    /// Takes the answer to a request of this node.
    fn on_answer(&mut self, out: &mut Outbox<'_>, run: Run, to: u64, payload: Payload) {
        let is_awaited = |pending: &Pending| pending.to == run && matches!(pending.purpose, Purpose::Ask { .. });
        if !self.pending.get(&to).is_some_and(is_awaited) {
            return drop_copy(out.cx, DropReason::Unasked);
        }
        out.cx.timers.cancel(Timer::DirectMessage(to));
        let Some(pending) = self.remove(to) else { return };
        out.cx.counters.messages.delivered += 1;
        out.cx.counters.messages.delivered_here += u64::from(run == out.cx.run);
        let id = MessageId::direct(out.cx.run, to);
        out.cx.reply(pending.ticket, Reply::Answered { id, payload });
        self.send_waiting(out, run);
    }

    /// Takes a member's receipt for a message of this node.
    pub(crate) fn on_receipt(&mut self, out: &mut Outbox<'_>, sender: Slot, number: u64) {
        let run = out.view.record(sender).run;
        let is_meant = |pending: &&mut Pending| pending.to == run && (pending.was_sent || run == out.cx.run);
        let Some(pending) = self.pending.get_mut(&number).filter(is_meant) else {
            // The receipt is of a message that was given up, or was answered already.
            return;
        };
        if let Purpose::Ask { .. } = pending.purpose {
            pending.state = State::Received;
            out.cx.timers.set(Timer::DirectMessage(number), pending.until);
        } else if let Some(pending) = self.remove(number) {
            out.cx.timers.cancel(Timer::DirectMessage(number));
            let id = MessageId::direct(out.cx.run, number);
            out.cx.reply(pending.ticket, Reply::Delivered { id });
        }
        self.send_waiting(out, run);
    }

    /// Returns the window of a sender; `None` if the table has no room for another one.
    fn window(&mut self, run: Run, number: u64, now: Time) -> Option<&mut Numbers> {
        if self.windows.len() >= MAX_ORIGINS && !self.windows.contains_key(&run) {
            self.windows.retain(|_, (_, last)| now.since(*last) < ORIGIN_MEMORY);
            if self.windows.len() >= MAX_ORIGINS {
                return None;
            }
        }
        let (window, last) = self.windows.entry(run).or_insert_with(|| (Box::new(Window::around(number)), now));
        *last = now;
        Some(window)
    }

    /// Returns true if one more request of this process can be held until a program answers it.
    fn make_room_for_request(&mut self, run: Run, now: Time) -> bool {
        let of_run = |run| MessageId { run, sequence: 0 }..=MessageId { run, sequence: u64::MAX };
        let is_full = |requests: &BTreeMap<MessageId, Time>| {
            requests.len() >= MAX_OPEN_REQUESTS || requests.range(of_run(run)).count() >= MAX_OPEN_REQUESTS_PER_MEMBER
        };
        if is_full(&self.requests) {
            self.requests.retain(|_, until| *until > now);
        }
        !is_full(&self.requests)
    }
}

fn send_receipt(out: &mut Outbox<'_>, to: Slot, way: Way, number: u64) {
    let mut packet = out.packet_by(way, to);
    packet.push(&Message::Receipt { number });
    out.send_by(way, to, packet);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn so_many_senders_are_recognised_and_the_next_waits_until_one_was_silent_for_long() {
        let (mut direct, mut now) = (DirectMessages::default(), Time::ORIGIN);
        for run in 0..MAX_ORIGINS as u64 {
            assert!(direct.window(Run(run), 1, now).is_some());
        }
        assert!(direct.window(Run(1 << 40), 1, now).is_none());
        assert!(direct.window(Run(0), 2, now).is_some(), "it is known");
        now = now + ORIGIN_MEMORY - Duration::from_millis(1);
        assert!(direct.window(Run(1), 2, now).is_some());
        assert!(direct.window(Run(1 << 40), 1, now).is_none());
        assert!(direct.window(Run(1 << 40), 1, now + Duration::from_millis(1)).is_some());
        assert_eq!(direct.size(), 2);
    }
}
