//! Broadcasts: each is taken once, delivered, and kept for a while to be sent on.
//!
//! Messages carry their age, never a time: each node adds the time for which it kept a message. A message older than
//! [`BROADCAST_LIFE`] is neither taken nor given any more.
//!
//! Invariants:
//! - An origin's window is forgotten only when nothing new came of it for [`ORIGIN_MEMORY`]: whatever it has seen is
//!   too old by then.
//! - At most [`MAX_ORIGINS`] windows; a further origin is not heard until one is forgotten.
//! - Kept broadcasts are bounded in number and bytes; the oldest give way, and are not repaired any more. A program
//!   that broadcasts faster than members can fetch is told to wait instead.
//! - A member that relays a broadcast may not carry its origin's window out of sight: only the origin itself jumps so
//!   far, or two members that relay numbers near each other, as when this node stood still for long.
//!
//! Must not know: how messages reach others (see `spread` and `repair`).

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use super::Numbers;
use crate::Core;
use crate::context::Phase;
use crate::counters::DropReason;
use crate::doors::{Command, CommandError, Delivery, DeliveryKind, Output, Reply, Ticket};
use crate::envelope::{MessageId, Payload, Topic};
use crate::limits::{
    BROADCAST_LIFE, FETCH_TIME, MAX_FLOODED_PAYLOAD, MAX_KEPT_BYTES, MAX_KEPT_MESSAGES, MAX_KEPT_OWN_BYTES,
    MAX_ORIGINS, MAX_UNSPREAD, MESSAGE_WINDOW, ORIGIN_MEMORY,
};
use crate::member::Run;
use crate::time::Time;
use crate::view::{Slot, View};
use crate::window::{Sight, Window};
use crate::wire::{Broadcast, Span};

/// All origins of which a broadcast was heard lately, with their kept broadcasts.
#[derive(Debug, Clone, Default)]
pub(super) struct Broadcasts {
    /// The number of this node's last broadcast.
    last: u64,
    origins: BTreeMap<Run, Origin>,
    /// Kept broadcasts that began here: those of others do not displace them.
    own: Stock,
    /// Kept broadcasts of other origins.
    others: Stock,
}

/// Kept broadcasts in the order in which they came.
#[derive(Debug, Clone, Default)]
struct Stock {
    order: VecDeque<MessageId>,
    bytes: usize,
}

#[derive(Debug, Clone)]
pub(super) struct Origin {
    /// The numbers seen of this origin; `None` for this node itself, which knows what it sent.
    window: Option<Numbers>,
    /// The time at which a new number of this origin came last.
    fresh_at: Time,
    pub(super) kept: BTreeMap<u64, Kept>,
    /// The member that last relayed a number out of sight, and that number.
    far: Option<(Run, u64)>,
}

impl Origin {
    fn new(window: Option<Numbers>, now: Time) -> Self {
        Self { window, fresh_at: now, kept: BTreeMap::new(), far: None }
    }
}

/// A broadcast that others may want.
#[derive(Debug, Clone)]
pub(super) struct Kept {
    pub(super) topic: Topic,
    pub(super) payload: Payload,
    /// The time at which the broadcast arrived here, or began here.
    pub(super) since: Time,
    /// Age of the broadcast when it arrived here; zero if it began here.
    age: Duration,
    /// The member that it came from; `None` if it began here.
    pub(super) from: Option<Run>,
}

impl Kept {
    /// Returns true if the payload is too large to be flooded in datagrams.
    pub(super) fn is_large(&self) -> bool {
        self.payload.len() > MAX_FLOODED_PAYLOAD
    }

    /// Returns the time since the origin sent the broadcast, without its time on the wire.
    pub(super) fn age(&self, now: Time) -> Duration {
        self.age + now.since(self.since)
    }
}

impl Broadcasts {
    pub(super) fn size(&self) -> usize {
        self.origins.len() + self.own.order.len() + self.others.order.len()
    }

    /// Returns true if no origin is remembered, and so no broadcast is kept.
    pub(super) fn is_empty(&self) -> bool {
        self.origins.is_empty()
    }

    /// Returns true if a broadcast is kept that others may lack.
    pub(super) fn is_any_kept(&self) -> bool {
        self.stocks().any(|stock| !stock.order.is_empty())
    }

    /// Returns true if a kept broadcast arrived less than `within` ago.
    pub(super) fn is_newer_than(&self, now: Time, within: Duration) -> bool {
        let mut newest = self.stocks().filter_map(|stock| self.kept(*stock.order.back()?));
        newest.any(|kept| now.since(kept.since) < within)
    }

    pub(super) fn kept(&self, id: MessageId) -> Option<&Kept> {
        self.origins.get(&id.run)?.kept.get(&id.number())
    }

    /// Returns the kept broadcasts of this span.
    pub(super) fn kept_in(&self, span: Span) -> impl Iterator<Item = MessageId> {
        let kept = self.origins.get(&span.run).map(|origin| origin.kept.range(span.first..=span.last));
        kept.into_iter().flatten().map(move |(number, _)| MessageId::broadcast(span.run, *number))
    }

    /// Returns the message that carries a kept broadcast to others, with its age by now in milliseconds, rounded up.
    pub(super) fn message(&self, id: MessageId, now: Time) -> Option<Broadcast> {
        let kept = self.kept(id)?;
        let age_ms = kept.age(now).as_nanos().div_ceil(1_000_000) as u64;
        let (topic, payload) = (kept.topic.clone(), kept.payload.clone());
        Some(Broadcast { run: id.run, number: id.number(), age_ms, topic, payload })
    }

    /// Returns the origins with kept broadcasts in the order of runs, from the one behind `after` round to `after`
    /// itself.
    pub(super) fn origins_after(&self, after: Run) -> impl Iterator<Item = (Run, &Origin)> {
        let later = self.origins.range((std::ops::Bound::Excluded(after), std::ops::Bound::Unbounded));
        let all = later.chain(self.origins.range(..=after));
        all.filter(|(_, origin)| !origin.kept.is_empty()).map(|(run, origin)| (*run, origin))
    }

    /// Judges a number by its origin's window; a number of an origin without a window is new.
    pub(super) fn judge(&self, run: Run, number: u64) -> Sight {
        let window = self.origins.get(&run).and_then(|origin| origin.window.as_ref());
        window.map_or(Sight::New, |window| window.judge(number))
    }

    /// Marks a number as seen; returns false if it was seen before. The table must have room for its origin.
    fn mark(&mut self, run: Run, number: u64, now: Time) -> bool {
        let origin =
            self.origins.entry(run).or_insert_with(|| Origin::new(Some(Box::new(Window::around(number))), now));
        origin.fresh_at = now;
        origin.window.as_mut().is_none_or(|window| window.accept(number))
    }

    /// Returns true if another member relayed the last number out of sight of this origin, less than one window from
    /// this number; remembers this number in its place.
    fn note_far(&mut self, from: Run, run: Run, number: u64) -> bool {
        let Some(origin) = self.origins.get_mut(&run) else { return false };
        let before = origin.far.replace((from, number));
        before.is_some_and(|(other, far)| other != from && far.abs_diff(number) < MESSAGE_WINDOW)
    }

    /// Returns true if this origin has a place in the table, or can get one.
    fn make_room_for(&mut self, run: Run, now: Time) -> bool {
        if self.origins.contains_key(&run) {
            return true;
        }
        if self.origins.len() >= MAX_ORIGINS {
            self.forget_origins(now);
        }
        self.origins.len() < MAX_ORIGINS
    }

    fn stocks(&self) -> impl Iterator<Item = &Stock> {
        [&self.own, &self.others].into_iter()
    }

    /// Returns true if `bytes` more of this node's own broadcasts can only be kept by dropping one that members may
    /// still be fetching.
    fn is_ahead(&self, bytes: usize, now: Time) -> bool {
        let oldest = self.own.order.front().and_then(|id| self.kept(*id));
        self.own.bytes + bytes > MAX_KEPT_OWN_BYTES && oldest.is_some_and(|kept| now.since(kept.since) < FETCH_TIME)
    }

    /// Keeps a broadcast; returns the number of older ones that give way, which some members may lack.
    fn keep(&mut self, id: MessageId, kept: Kept) -> u64 {
        let is_own = kept.from.is_none();
        let stock = if is_own { &mut self.own } else { &mut self.others };
        stock.bytes += kept.payload.len();
        stock.order.push_back(id);
        let since = kept.since;
        let origin = self.origins.entry(id.run).or_insert_with(|| Origin::new(None, since));
        origin.fresh_at = since;
        origin.kept.insert(id.number(), kept);
        let mut dropped = 0;
        while self.own.bytes > MAX_KEPT_OWN_BYTES {
            self.drop_oldest(true);
            dropped += 1;
        }
        while self.others.bytes > MAX_KEPT_BYTES {
            self.drop_oldest(false);
            dropped += 1;
        }
        while self.own.order.len() + self.others.order.len() > MAX_KEPT_MESSAGES {
            let since = |stock: &Stock| stock.order.front().and_then(|id| self.kept(*id)).map(|kept| kept.since);
            let is_own = match (since(&self.own), since(&self.others)) {
                (Some(own), Some(others)) => own <= others,
                (own, _) => own.is_some(),
            };
            self.drop_oldest(is_own);
            dropped += 1;
        }
        dropped
    }

    fn drop_oldest(&mut self, is_own: bool) {
        let stock = if is_own { &mut self.own } else { &mut self.others };
        let Some(id) = stock.order.pop_front() else { return };
        if let Some(kept) = self.origins.get_mut(&id.run).and_then(|origin| origin.kept.remove(&id.number())) {
            stock.bytes -= kept.payload.len();
        }
    }

    /// Drops the broadcasts kept for [`BROADCAST_LIFE`], and forgets the origins of which nothing new came for
    /// [`ORIGIN_MEMORY`].
    pub(super) fn expire(&mut self, now: Time) {
        for is_own in [true, false] {
            let oldest = |this: &Self| {
                let stock = if is_own { &this.own } else { &this.others };
                stock.order.front().and_then(|id| this.kept(*id)).map(|kept| kept.since)
            };
            while oldest(self).is_some_and(|since| now.since(since) >= BROADCAST_LIFE) {
                self.drop_oldest(is_own);
            }
        }
        self.forget_origins(now);
    }

    fn forget_origins(&mut self, now: Time) {
        self.origins.retain(|_, origin| !origin.kept.is_empty() || now.since(origin.fresh_at) < ORIGIN_MEMORY);
    }

    /// Returns the next time at which [`Broadcasts::expire`] has something to do.
    pub(super) fn next_end(&self) -> Option<Time> {
        let oldest = self.stocks().filter_map(|stock| self.kept(*stock.order.front()?)).map(|kept| kept.since).min();
        let kept = oldest.map(|since| since + BROADCAST_LIFE);
        let forgotten = || self.origins.values().map(|origin| origin.fresh_at + ORIGIN_MEMORY).min();
        kept.or_else(forgotten)
    }
}

impl Core {
    /// Carries out a command about messages.
    pub(crate) fn message_command(&mut self, command: Command) {
        match command {
            Command::Broadcast { ticket, topic, payload } => self.broadcast(ticket, topic, payload),
            Command::Send { ticket, to, topic, payload } => self.send_letter(ticket, &to, topic, payload),
            Command::Request { ticket, to, topic, payload, timeout } => {
                self.send_request(ticket, &to, topic, payload, timeout);
            }
            Command::Answer { ticket, request, payload } => self.send_answer(ticket, request, payload),
            Command::Deliver { ticket, direct } => self.take_direct(ticket, direct),
            _ => debug_assert!(false, "not about messages"),
        }
    }

    /// Returns the reason why this node sends no messages now, if there is one.
    pub(super) fn cannot_speak(&self) -> Option<CommandError> {
        match self.cx.phase {
            Phase::Joining => Some(CommandError::Joining),
            Phase::Up => None,
            Phase::Leaving | Phase::Stopped => Some(CommandError::Leaving),
        }
    }

    fn broadcast(&mut self, ticket: Ticket, topic: Topic, payload: Payload) {
        let others = self.view.live().len();
        let is_large = payload.len() > MAX_FLOODED_PAYLOAD;
        let error = match self.cannot_speak() {
            Some(error) => Some(error),
            None if self.messaging.spreading.size() >= MAX_UNSPREAD => Some(CommandError::Busy),
            None if others > 0 && self.messaging.broadcasts.is_ahead(payload.len(), self.cx.now) => {
                Some(CommandError::TooFast)
            }
            None if is_large && others > 0 && self.linked_neighbours().is_empty() => Some(CommandError::NoLinks),
            None => None,
        };
        if let Some(error) = error {
            self.cx.counters.messages.failed += 1;
            return self.cx.reply(ticket, Reply::Refused(error));
        }
        self.messaging.broadcasts.last += 1;
        let id = MessageId::broadcast(self.cx.run, self.messaging.broadcasts.last);
        self.cx.counters.messages.sent += 1;
        self.cx.reply(ticket, Reply::Broadcast { id, addressed: others + 1 });
        let kept = Kept { topic, payload, since: self.cx.now, age: Duration::ZERO, from: None };
        self.take(id, kept);
    }

    /// Takes a copy of a broadcast that came from a member.
    pub(crate) fn on_broadcast(&mut self, sender: Slot, message: &Broadcast) {
        self.cx.counters.messages.received += 1;
        let (from, now) = (self.view.record(sender).run, self.cx.now);
        let id = MessageId::broadcast(message.run, message.number);
        let age = Duration::from_millis(message.age_ms);
        if message.run == self.cx.run || age > BROADCAST_LIFE {
            return self.cx.counters.messages.duplicate += 1;
        }
        if self.view.slot_of_run(message.run).is_none() {
            // The origin may be known in a moment: the number is not marked, so that it is asked for when somebody
            // tells of it then.
            return self.drop_message(DropReason::UnknownRun);
        }
        match self.messaging.broadcasts.judge(message.run, message.number) {
            Sight::Seen | Sight::Behind => return self.cx.counters.messages.duplicate += 1,
            Sight::Far if from != message.run => {
                if !self.messaging.broadcasts.note_far(from, message.run, message.number) {
                    return self.drop_message(DropReason::Jumped);
                }
            }
            Sight::Far | Sight::New => {}
        }
        if !self.messaging.allowances.spend(now, from, message.payload.len()) {
            return self.drop_message(DropReason::RateLimited);
        }
        if !self.messaging.broadcasts.make_room_for(message.run, now) {
            return self.drop_message(DropReason::TableFull);
        }
        if !self.messaging.broadcasts.mark(message.run, message.number, now) {
            return self.cx.counters.messages.duplicate += 1;
        }
        self.messaging.repair.came(id);
        if self.messaging.up_since.is_none_or(|since| age > now.since(since)) {
            // It was said before this node was Up.
            return self.drop_message(DropReason::Outdated);
        }
        let (topic, payload) = (message.topic.clone(), message.payload.clone());
        self.take(id, Kept { topic, payload, since: now, age, from: Some(from) });
    }

    /// Takes a broadcast that is new in packets: sends it on, and delivers it unless a call brought it before.
    fn take(&mut self, id: MessageId, kept: Kept) {
        let slot = self.view.slot_of_run(id.run).unwrap_or(View::ME);
        let from = self.view.record(slot).id.clone();
        let (topic, payload) = (kept.topic.clone(), kept.payload.clone());
        let is_large = kept.is_large();
        self.cx.counters.messages.evicted += self.messaging.broadcasts.keep(id, kept);
        self.spread_soon(id, is_large);
        self.repair_later();
        if self.messaging.called.contains(id) {
            return self.cx.counters.messages.duplicate += 1;
        }
        self.deliver(Delivery { id, from, topic, payload, kind: DeliveryKind::Broadcast });
    }

    /// Gives a message to this node's programs.
    pub(super) fn deliver(&mut self, delivery: Delivery) {
        self.cx.counters.messages.delivered += 1;
        self.cx.counters.messages.delivered_here += u64::from(delivery.id.run == self.cx.run);
        self.cx.output(Output::Message(Box::new(delivery)));
    }

    /// Counts a copy of a message as dropped for this reason; duplicates are counted apart.
    pub(super) fn drop_message(&mut self, reason: DropReason) {
        self.cx.counters.messages.dropped += 1;
        self.cx.counters.drop(reason);
    }
}
