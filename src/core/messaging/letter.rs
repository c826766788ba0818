//! Letters: messages to one node, over its link, acknowledged; questions, and their answers.
//!
//! ```text
//! Waiting ──link stands, fewer than MAX_LETTERS_UNDER_WAY──▶ Sent ──Receipt──▶ done, or if it asks: Received ──answer──▶ done
//!    ▲                                                         │
//!    └─────────────────────no receipt for LETTER_RETRY─────────┘          each until its deadline
//! ```
//!
//! A link by which nothing came since a letter was first sent over it, [`LETTERS_INTO_SILENCE`] times, is given up for
//! another one.
//!
//! A link is opened if there is none, and stays as long as a letter waits. A letter that was sent once may have
//! arrived: from then on the error is "unknown", and never that it was not delivered. A receipt says that the other
//! agent has the letter, not that a program listens.
//!
//! Invariants:
//! - Every command is answered: by a receipt or an answer, or by an error at its deadline; at once if the member is
//!   gone, or if no link can be opened and nothing was sent.
//! - A letter that is repeated is delivered once: its number is in the window of its sender, which is proven by the
//!   link.
//! - A receipt and an answer are taken only from the process that the letter went to.
//! - At most [`MAX_LETTERS`] wait, of [`MAX_LETTER_BYTES`]; at most [`MAX_OPEN_REQUESTS`] of others wait for answers of
//!   this node's programs. A request beyond that gets no receipt: it is sent again.
//!
//! Must not know: which program answers.

use std::collections::BTreeMap;
use std::time::Duration;

use super::Numbers;
use crate::Core;
use crate::counters::DropReason;
use crate::doors::{CommandError, Delivery, DeliveryKind, Reply, Ticket};
use crate::envelope::{MessageId, Payload, Topic};
use crate::limits::{
    LETTER_RETRY, LETTERS_INTO_SILENCE, MAX_LETTER_BYTES, MAX_LETTERS, MAX_LETTERS_UNDER_WAY, MAX_OPEN_REQUESTS,
    MAX_OPEN_REQUESTS_PER_MEMBER, MAX_ORIGINS, MAX_REQUEST_TIMEOUT, ORIGIN_MEMORY, SEND_TIMEOUT,
};
use crate::member::{NodeId, Run};
use crate::packet::Way;
use crate::time::Time;
use crate::timers::Timer;
use crate::view::{Slot, View};
use crate::window::Window;
use crate::wire::{Letter, Message, Purpose};

/// Letters of this node that wait, and what is remembered of letters of others.
#[derive(Debug, Clone, Default)]
pub(super) struct Letters {
    /// The number of the last letter that this node sent.
    last: u64,
    pending: BTreeMap<u64, Pending>,
    /// The payload bytes of all pending letters.
    bytes: usize,
    /// The numbers seen of each sender, and the time at which its last letter came.
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
    /// The letter left this node at least once.
    was_sent: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    /// The letter waits for a link, or for room on it.
    Waiting,
    /// The letter was sent at this time, and waits for its receipt.
    Sent(Time),
    /// The request was received there, and waits for its answer.
    Received,
}

impl Letters {
    pub(super) fn size(&self) -> usize {
        self.pending.len() + self.windows.len() + self.requests.len()
    }

    fn remove(&mut self, number: u64) -> Option<Pending> {
        let pending = self.pending.remove(&number)?;
        self.bytes -= pending.payload.len();
        Some(pending)
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

impl Core {
    pub(super) fn send_letter(&mut self, ticket: Ticket, to: &NodeId, topic: Topic, payload: Payload) {
        self.post(ticket, to, Purpose::Tell { topic }, payload, SEND_TIMEOUT);
    }

    pub(super) fn send_request(
        &mut self,
        ticket: Ticket,
        to: &NodeId,
        topic: Topic,
        payload: Payload,
        timeout: Duration,
    ) {
        let timeout = timeout.clamp(Duration::from_millis(1), MAX_REQUEST_TIMEOUT);
        let within_ms = timeout.as_millis() as u32;
        self.post(ticket, to, Purpose::Ask { topic, within_ms }, payload, timeout);
    }

    /// Sends the answer of a program of this node to a request.
    pub(super) fn send_answer(&mut self, ticket: Ticket, request: MessageId, payload: Payload) {
        let now = self.cx.now;
        let until = self.messaging.letters.requests.remove(&request).filter(|until| *until > now);
        let asker = if request.run == self.cx.run { Some(View::ME) } else { self.view.slot_of_run(request.run) };
        let (Some(until), Some(asker)) = (until, asker) else {
            return self.refuse_letter(ticket, CommandError::NoSuchRequest { id: request });
        };
        let to = self.view.record(asker).id.clone();
        self.post(ticket, &to, Purpose::Answer { to: request.number() }, payload, until.since(now));
    }

    fn refuse_letter(&mut self, ticket: Ticket, error: CommandError) {
        self.cx.counters.messages.failed += 1;
        self.cx.reply(ticket, Reply::Refused(error));
    }

    fn post(&mut self, ticket: Ticket, to: &NodeId, purpose: Purpose, payload: Payload, within: Duration) {
        let slot = self.view.slot_of(to.as_str());
        let letters = &self.messaging.letters;
        let is_full = letters.pending.len() >= MAX_LETTERS || letters.bytes + payload.len() > MAX_LETTER_BYTES;
        let slot = match (self.cannot_speak(), slot) {
            (Some(error), _) => return self.refuse_letter(ticket, error),
            (None, None) => return self.refuse_letter(ticket, CommandError::NoSuchMember { id: to.clone() }),
            (None, Some(slot)) if !self.view.record(slot).status.is_live() => {
                let status = self.view.record(slot).status;
                return self.refuse_letter(ticket, CommandError::NotLive { id: to.clone(), status });
            }
            (None, Some(_)) if is_full => return self.refuse_letter(ticket, CommandError::Busy),
            (None, Some(slot)) => slot,
        };
        let run = self.view.record(slot).run;
        let until = self.cx.now + within;
        let letters = &mut self.messaging.letters;
        letters.last += 1;
        letters.bytes += payload.len();
        let number = letters.last;
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
        letters.pending.insert(number, pending);
        self.cx.counters.messages.sent += 1;
        if slot == View::ME {
            return self.post_to_myself(Letter { number, purpose, payload });
        }
        self.cx.timers.set(Timer::Letter(number), until);
        self.send_letters(run);
        if self.messaging.letters.pending.contains_key(&number) && !self.is_linked(run) && !self.ensure_link(slot) {
            self.give_letter_up(number);
        }
    }

    /// Takes a letter to this very node, which needs no link.
    fn post_to_myself(&mut self, letter: Letter) {
        let number = letter.number;
        if let Purpose::Ask { .. } = letter.purpose {
            let until = self.messaging.letters.pending.get(&number).map_or(self.cx.now, |pending| pending.until);
            self.cx.timers.set(Timer::Letter(number), until);
        }
        if !self.open_letter(View::ME, letter) {
            return self.give_letter_up(number);
        }
        self.on_receipt(View::ME, number);
    }

    /// Returns true if a letter to this process waits for a link, its receipt or its answer.
    pub(crate) fn has_letters_for(&self, run: Run) -> bool {
        let letters = &self.messaging.letters.pending;
        !letters.is_empty() && letters.values().any(|pending| pending.to == run)
    }

    /// Sends the letters that wait for this process, as many as may be under way at one time, if there is a link.
    pub(crate) fn send_letters(&mut self, run: Run) {
        if self.messaging.letters.pending.is_empty() || !self.is_linked(run) {
            return;
        }
        let Some(slot) = self.view.slot_of_run(run) else { return };
        let way = self.out().best_way(slot);
        let of_run = self.messaging.letters.pending.iter().filter(|(_, pending)| pending.to == run);
        let under_way = of_run.clone().filter(|(_, pending)| matches!(pending.state, State::Sent(_))).count();
        let waiting = of_run.filter(|(_, pending)| pending.state == State::Waiting).map(|(number, _)| *number);
        let next: Vec<u64> = waiting.take(MAX_LETTERS_UNDER_WAY.saturating_sub(under_way)).collect();
        for number in next {
            let now = self.cx.now;
            let Some(pending) = self.messaging.letters.pending.get_mut(&number) else { continue };
            let is_repeated = pending.sent_since.is_some();
            pending.state = State::Sent(now);
            pending.sent_since.get_or_insert(now);
            pending.was_sent = true;
            self.cx.timers.set(Timer::Letter(number), pending.until.min(now + LETTER_RETRY));
            let (purpose, payload) = (pending.purpose.clone(), pending.payload.clone());
            let mut packet = self.out().packet_by(way, slot);
            packet.push(&Message::Letter(Box::new(Letter { number, purpose, payload })));
            if is_repeated {
                // A member that has no room for the letter answers this all the same, by the link.
                self.out().push_probe(&mut packet, slot);
            }
            self.out().send_by(way, slot, packet);
        }
    }

    /// Has the letters to a process wait for its next link, as the last one was given up.
    pub(crate) fn letters_wait(&mut self, run: Run) {
        for pending in self.messaging.letters.pending.values_mut().filter(|pending| pending.to == run) {
            if let State::Sent(_) = pending.state {
                pending.state = State::Waiting;
            }
            pending.sent_since = None;
        }
    }

    /// Sends a letter again, or gives it up at its deadline.
    pub(crate) fn tend_letter(&mut self, number: u64) {
        let now = self.cx.now;
        let Some(pending) = self.messaging.letters.pending.get_mut(&number) else { return };
        if now >= pending.until {
            return self.give_letter_up(number);
        }
        self.cx.timers.set(Timer::Letter(number), pending.until);
        let run = pending.to;
        let sent_since = pending.sent_since;
        if let State::Sent(_) = pending.state {
            pending.state = State::Waiting;
        }
        if let Some(slot) = self.view.slot_of_run(run) {
            if let Some(since) = sent_since {
                self.renew_silent_link(slot, since, LETTER_RETRY * LETTERS_INTO_SILENCE);
            }
            if !self.is_linked(run) {
                self.ensure_link(slot);
            }
        }
        self.send_letters(run);
    }

    /// Gives a letter up: tells the program that it may not have arrived, or that it cannot have.
    fn give_letter_up(&mut self, number: u64) {
        self.cx.timers.cancel(Timer::Letter(number));
        let Some(pending) = self.messaging.letters.remove(number) else { return };
        let id = pending.id;
        let error = if pending.was_sent || pending.state == State::Received {
            CommandError::NoAnswer { id }
        } else {
            CommandError::NoLink { id }
        };
        self.refuse_letter(pending.ticket, error);
    }

    /// Gives up letters to a process to which there is no link, and none soon: those that were never sent, and all of
    /// them if the process is gone.
    pub(crate) fn letters_have_no_link(&mut self, run: Run) {
        if self.messaging.letters.pending.is_empty() {
            return;
        }
        let is_gone = self.view.slot_of_run(run).is_none_or(|slot| !self.view.record(slot).status.is_live());
        self.give_letters_up(|pending| pending.to == run && (is_gone || !pending.was_sent));
    }

    /// Gives up all letters, as this node stops.
    pub(crate) fn forget_letters(&mut self) {
        self.give_letters_up(|_| true);
    }

    fn give_letters_up(&mut self, is_lost: impl Fn(&Pending) -> bool) {
        let lost = self.messaging.letters.pending.iter().filter(|(_, pending)| is_lost(pending));
        for number in lost.map(|(number, _)| *number).collect::<Vec<_>>() {
            self.give_letter_up(number);
        }
    }

    /// Sets the timers of messages anew, as all timers were cleared: only letters to this node itself are left.
    pub(crate) fn resume_messages(&mut self) {
        for (number, pending) in &self.messaging.letters.pending {
            self.cx.timers.set(Timer::Letter(*number), pending.until.max(self.cx.now));
        }
        self.cx.timers.set(Timer::Spread, self.cx.now);
        self.cx.timers.set(Timer::RepairMessages, self.cx.now);
    }

    /// Takes a letter that came from a member.
    pub(crate) fn on_letter(&mut self, sender: Slot, way: Way, letter: &Letter) {
        self.cx.counters.messages.received += 1;
        let (run, now) = (self.view.record(sender).run, self.cx.now);
        if way == Way::Datagrams {
            // Honest members send letters over links alone, where the receipt can go back.
            return self.drop_message(DropReason::WrongState);
        }
        let Some(sight) =
            self.messaging.letters.window(run, letter.number, now).map(|window| window.judge(letter.number))
        else {
            return self.drop_message(DropReason::TableFull);
        };
        if !sight.is_new() {
            // The letter came before, and its receipt was lost.
            self.cx.counters.messages.duplicate += 1;
            return self.send_receipt(sender, way, letter.number);
        }
        if !self.messaging.allowances.spend(now, run, letter.payload.len()) {
            return self.drop_message(DropReason::RateLimited);
        }
        if !self.open_letter(sender, letter.clone()) {
            return self.drop_message(DropReason::TableFull);
        }
        if let Some(window) = self.messaging.letters.window(run, letter.number, now) {
            window.accept(letter.number);
        }
        self.send_receipt(sender, way, letter.number);
    }

    fn send_receipt(&mut self, slot: Slot, way: Way, number: u64) {
        let mut packet = self.out().packet_by(way, slot);
        packet.push(&Message::Receipt { number });
        self.out().send_by(way, slot, packet);
    }

    /// Delivers a letter; returns false if there is no room for its request now.
    fn open_letter(&mut self, sender: Slot, letter: Letter) -> bool {
        let (run, now) = (self.view.record(sender).run, self.cx.now);
        let id = MessageId::letter(run, letter.number);
        let from = self.view.record(sender).id.clone();
        let payload = letter.payload;
        match letter.purpose {
            Purpose::Tell { topic } => {
                self.deliver(Delivery { id, from, topic, payload, kind: DeliveryKind::Sent });
            }
            Purpose::Ask { topic, within_ms } => {
                if !self.messaging.letters.make_room_for_request(run, now) {
                    return false;
                }
                let within = Duration::from_millis(within_ms.into()).min(MAX_REQUEST_TIMEOUT);
                self.messaging.letters.requests.insert(id, now + within);
                self.deliver(Delivery { id, from, topic, payload, kind: DeliveryKind::Request { within } });
            }
            Purpose::Answer { to } => self.answered(run, to, payload),
        }
        true
    }

    /// Takes the answer to a request of this node.
    fn answered(&mut self, run: Run, to: u64, payload: Payload) {
        let is_awaited = |pending: &Pending| pending.to == run && matches!(pending.purpose, Purpose::Ask { .. });
        if !self.messaging.letters.pending.get(&to).is_some_and(is_awaited) {
            return self.drop_message(DropReason::Unasked);
        }
        self.cx.timers.cancel(Timer::Letter(to));
        let Some(pending) = self.messaging.letters.remove(to) else { return };
        self.cx.counters.messages.delivered += 1;
        self.cx.counters.messages.delivered_here += u64::from(run == self.cx.run);
        let id = MessageId::letter(self.cx.run, to);
        self.cx.reply(pending.ticket, Reply::Answered { id, payload });
        self.send_letters(run);
    }

    /// Takes a member's receipt for a letter of this node.
    pub(crate) fn on_receipt(&mut self, slot: Slot, number: u64) {
        let run = self.view.record(slot).run;
        let is_meant = |pending: &&mut Pending| pending.to == run && (pending.was_sent || run == self.cx.run);
        let Some(pending) = self.messaging.letters.pending.get_mut(&number).filter(is_meant) else {
            // The receipt is of a letter that was given up, or was answered already.
            return;
        };
        if let Purpose::Ask { .. } = pending.purpose {
            pending.state = State::Received;
            self.cx.timers.set(Timer::Letter(number), pending.until);
        } else if let Some(pending) = self.messaging.letters.remove(number) {
            self.cx.timers.cancel(Timer::Letter(number));
            let id = MessageId::letter(self.cx.run, number);
            self.cx.reply(pending.ticket, Reply::Delivered { id });
        }
        self.send_letters(run);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn so_many_senders_are_recognised_and_the_next_waits_until_one_was_silent_for_long() {
        let (mut letters, mut now) = (Letters::default(), Time::ORIGIN);
        for run in 0..MAX_ORIGINS as u64 {
            assert!(letters.window(Run(run), 1, now).is_some());
        }
        assert!(letters.window(Run(1 << 40), 1, now).is_none());
        assert!(letters.window(Run(0), 2, now).is_some(), "it is known");
        now = now + ORIGIN_MEMORY - Duration::from_millis(1);
        assert!(letters.window(Run(1), 2, now).is_some());
        assert!(letters.window(Run(1 << 40), 1, now).is_none());
        assert!(letters.window(Run(1 << 40), 1, now + Duration::from_millis(1)).is_some());
        assert_eq!(letters.size(), 2);
    }
}
