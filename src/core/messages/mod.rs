//! Messages: what programs say to each other, carried by their agents.
//!
//! | idea | file |
//! |---|---|
//! | to everybody: said, taken once, delivered, and sent on at once (eager push) | `broadcast` |
//! | … and what that missed, found by what others hold (lazy push) | `repair` |
//! | … kept for a while, and recognised | `cache` |
//! | … brought by the origin's agent itself, past all members | `out_of_band` |
//! | to one node, acknowledged; requests and their answers | `direct` |
//!
//! ```text
//! small broadcast   origin ─ Broadcast ─▶ neighbours, each sends it on once         (datagrams, flooding)
//! large broadcast   origin ─ HaveBroadcasts ─▶ linked neighbours ─ WantBroadcasts ─▶ origin ─ Broadcast ─▶ …  (links)
//! what was missed   anybody ─ HaveBroadcasts, in its gossip ─▶ ─ WantBroadcasts ─▶ ─ Broadcast ─▶
//! direct message    sender ─ Direct ─▶ receiver ─ Receipt ─▶                        (a link, opened if there is none)
//! ```
//!
//! A large broadcast is announced first, and fetched then from the nearest neighbour that has it: everybody gets the
//! bytes once, where flooding them along ten links each would move them ten times, and sending them from the origin
//! alone would load its line with all of them. While nothing is said, nothing is sent and nothing is kept.
//!
//! Invariants:
//! - A message is delivered at most once: its number is marked in its origin's window first. A number that a window no
//!   longer tells apart counts as a duplicate, and so does every broadcast older than [`BROADCAST_LIFE`]: a window may
//!   be forgotten when all that it has seen is older than that.
//! - Only members say anything here, and only of origins that are in the view. **The member that relays a broadcast is
//!   known; its author is not proven**: such harm is bounded by the windows' bounds. A direct message comes over its sender's own link, and is the sender's.
//! - Every copy received is delivered, a duplicate, or dropped: the counters add up.
//! - Messages never go before membership: they have packets of their own, a few per batch, and take no room of
//!   heartbeats but for a short line on what is held.
//!
//! Must not know: the meaning of messages; the programs that listen; how links are opened.
//!
//! [`BROADCAST_LIFE`]: crate::limits::BROADCAST_LIFE

mod broadcast;
mod cache;
mod direct;
mod out_of_band;
mod repair;
#[cfg(test)]
mod tests;

use std::time::Duration;

use rand_chacha::ChaCha8Rng;

use crate::context::{Context, Phase};
use crate::counters::DropReason;
use crate::io::{Command, CommandError, Delivery, Output, Reply, Ticket};
use crate::limits::{MAX_REQUEST_TIMEOUT, MESSAGE_WINDOW, SEND_TIMEOUT};
use crate::packet::{Outbox, Way};
use crate::time::Time;
use crate::timers::Timer;
use crate::view::Slot;
use crate::window::Window;
use crate::wire::{DirectMessage, Purpose};

use broadcast::Spreading;
use cache::Cache;
use direct::DirectMessages;
pub(crate) use direct::{Overdue, Unlinked};
use repair::Repair;

/// The numbers of one origin, by which its messages are recognised.
type Numbers = Box<Window<{ (MESSAGE_WINDOW / 64) as usize }>>;

/// The messages of programs: those that are kept or on their way, and what recognises copies of them.
#[derive(Debug, Clone)]
pub(crate) struct Messages {
    /// Chooses the peers that are told what is held.
    random: ChaCha8Rng,
    /// The time at which this process began: broadcasts of an earlier time that come out of band are not delivered.
    born_at: Time,
    /// The time at which this node became Up, if it has: broadcasts of an earlier time that come in packets are not
    /// delivered.
    up_since: Option<Time>,
    /// The number of this node's last broadcast.
    last: u64,
    cache: Cache,
    spreading: Spreading,
    repair: Repair,
    /// Messages to one node: a machine of its own.
    pub(crate) direct: DirectMessages,
}

impl Messages {
    /// Returns an empty state: nothing said, nothing heard.
    pub(crate) fn new(now: Time, random: ChaCha8Rng) -> Self {
        Self {
            random,
            born_at: now,
            up_since: None,
            last: 0,
            cache: Cache::default(),
            spreading: Spreading::default(),
            repair: Repair::default(),
            direct: DirectMessages::default(),
        }
    }

    /// Takes note that this node is a member from now on.
    pub(crate) fn begin(&mut self, now: Time) {
        self.up_since = Some(now);
    }

    /// Returns the number of entries kept.
    pub(crate) fn size(&self) -> usize {
        self.cache.size() + self.spreading.size() + self.repair.size() + self.direct.size()
    }

    /// Carries out a program's command about messages. Returns the direct message that waits for a link, if it needs one.
    pub(crate) fn command(&mut self, out: &mut Outbox<'_>, command: Command) -> Option<Unlinked> {
        let (ticket, done) = match command {
            Command::Broadcast { ticket, topic, payload } => {
                (ticket, self.broadcast(out, ticket, topic, payload).map(|()| None))
            }
            Command::Send { ticket, to, topic, payload } => {
                (ticket, self.direct.send(out, ticket, &to, Purpose::Tell { topic }, payload, SEND_TIMEOUT))
            }
            Command::Request { ticket, to, topic, payload, timeout } => {
                let within = timeout.clamp(Duration::from_millis(1), MAX_REQUEST_TIMEOUT);
                let purpose = Purpose::Ask { topic, within_ms: within.as_millis() as u32 };
                (ticket, self.direct.send(out, ticket, &to, purpose, payload, within))
            }
            Command::Answer { ticket, request, payload } => (ticket, self.direct.answer(out, ticket, request, payload)),
            Command::Deliver { ticket, direct } => {
                self.on_out_of_band(out, ticket, direct);
                return None;
            }
            _ => {
                debug_assert!(false, "not about messages");
                return None;
            }
        };
        done.unwrap_or_else(|error| {
            refuse(out.cx, ticket, error);
            None
        })
    }

    /// Takes a direct message that came from a member.
    pub(crate) fn on_direct(&mut self, out: &mut Outbox<'_>, sender: Slot, way: Way, message: &DirectMessage) {
        self.direct.on_direct(out, sender, way, message);
    }

    /// Sets the deadlines anew, as all were cleared: only direct messages to this node itself are left.
    pub(crate) fn resume(&self, cx: &mut Context) {
        self.direct.resume(cx);
        cx.timers.set(Timer::Spread, cx.now);
        cx.timers.set(Timer::RepairMessages, cx.now);
    }
}

/// Fails with the reason why this node says nothing now, if there is one.
fn may_speak(cx: &Context) -> Result<(), CommandError> {
    match cx.phase {
        Phase::Joining => Err(CommandError::Joining),
        Phase::Up => Ok(()),
        Phase::Leaving | Phase::Stopped => Err(CommandError::Leaving),
    }
}

/// Tells a program that its message was not sent, or that it may not have arrived.
fn refuse(cx: &mut Context, ticket: Ticket, error: CommandError) {
    cx.counters.messages.failed += 1;
    cx.reply(ticket, Reply::Refused(error));
}

/// Gives a message to this node's programs.
fn deliver(cx: &mut Context, delivery: Delivery) {
    cx.counters.messages.delivered += 1;
    cx.counters.messages.delivered_here += u64::from(delivery.id.run == cx.run);
    cx.output(Output::Message(Box::new(delivery)));
}

/// Counts a copy of a message as dropped for this reason; duplicates are counted apart.
fn drop_copy(cx: &mut Context, reason: DropReason) {
    cx.counters.messages.dropped += 1;
    cx.counters.drop(reason);
}
