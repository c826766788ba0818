//! This node's own move: another address goes into its record once a member has reached it there.
//!
//! ```text
//! X, which is at another address by now           a member, where its record says
//!   ReachMe{nonce, address} ────────────────────▶
//!                       ◀──── Reached{nonce}, to that address
//! X writes the address into its record, one incarnation above; everybody learns of it like of any update
//! ```
//!
//! So an address that is no good (of an interface that leads nowhere, of a typo) reaches no record: this node keeps the
//! one that it had, asks others, at pauses that double, and says both in the end; whoever gave the command
//! looks for an address again. What this node sends counts meanwhile, wherever it is sent from (see `packet::senders`). A
//! node that sees no live member has nobody to ask, and takes the
//! address at once: it may have been cut off by just this move, and is found again by its seeds and by those that it
//! remembers.
//!
//! Invariants: a node's address is written by itself alone; [`REACH_ASKED`] members are asked first, and twice as many
//! each time: they may have moved themselves.
//!
//! Must not know: how an address was found.

use std::net::SocketAddr;

use rand::Rng;
use rand::seq::IndexedRandom;
use rand_chacha::ChaCha8Rng;

use crate::context::Context;
use crate::io::{CommandError, Notice, Receiver, Reply, Ticket};
use crate::limits::{MIN_QUESTION_BYTES, REACH_ASKED, REACH_RETRY};
use crate::member::{Run, Status};
use crate::packet::Outbox;
use crate::timers::Timer;
use crate::view::{Slot, View};
use crate::wire::{Message, Nonce};

/// The number of times that members are asked before it is said that they do not reach this node.
const MOST_ASKED: u32 = 5;

/// An address at which nobody has reached this node so far.
#[derive(Debug, Clone, Copy)]
struct Move {
    /// The command's number.
    ticket: Ticket,
    address: SocketAddr,
    nonce: Nonce,
    /// The number of times that members were asked.
    asked: u32,
    /// True if a member has reached this node there, and the disk has yet to store what the record will need.
    is_reached: bool,
}

/// This node's own move, and its random numbers.
#[derive(Debug, Clone)]
pub(crate) struct Moving {
    rng: ChaCha8Rng,
    open: Option<Move>,
}

/// What comes of asking members.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Asked {
    /// The address goes into the record now: a member has reached it, or there is nobody to ask.
    Take,
    /// Nothing for now: members were asked, or none reaches this node there.
    Wait,
}

impl Moving {
    pub(crate) fn new(rng: ChaCha8Rng) -> Self {
        Self { rng, open: None }
    }

    /// Begins a move.
    pub(crate) fn begin(&mut self, ticket: Ticket, address: SocketAddr) {
        let nonce = Nonce(self.rng.next_u64());
        self.open = Some(Move { ticket, address, nonce, asked: 0, is_reached: false });
    }

    /// Asks members whether they reach this node at its new address.
    pub(crate) fn ask(&mut self, out: &mut Outbox<'_>) -> Asked {
        let Some(moving) = &mut self.open else { return Asked::Wait };
        let Move { address, nonce, asked, is_reached, .. } = *moving;
        let live: Vec<Slot> = out.view.live().iter().copied().filter(|slot| *slot != View::ME).collect();
        if is_reached || live.is_empty() || out.cx.phase.is_joining() {
            return Asked::Take;
        }
        let up: Vec<Slot> = live.iter().copied().filter(|slot| out.view.record(*slot).status == Status::Up).collect();
        let among = if up.is_empty() { live } else { up };
        let members: Vec<(SocketAddr, Run)> = among
            .sample(&mut self.rng, REACH_ASKED << asked)
            .map(|slot| (out.view.record(*slot).address, out.view.record(*slot).run))
            .collect();
        let addresses: Vec<SocketAddr> = members.iter().map(|(address, _)| *address).collect();
        if asked >= MOST_ASKED {
            let (kept, others) = (out.view.me().address, addresses.into_iter().take(REACH_ASKED).collect());
            out.cx.notice("move not reached", Notice::MoveNotReached { kept, address, others });
            self.give_up(out.cx);
            return Asked::Wait;
        }
        moving.asked += 1;
        for (to, run) in members {
            ask_to_reach(out, to, run, address, nonce);
        }
        if asked > 0 || out.paths.are_datagrams_failing() {
            out.open_bootstraps(&addresses);
        }
        out.cx.timers.set(Timer::Move, out.cx.now + REACH_RETRY * 2_u32.pow(asked));
        Asked::Wait
    }

    /// Asks a member that is not where its record says: it may have moved, too, and know of nobody else.
    pub(crate) fn ask_also(&self, out: &mut Outbox<'_>, to: SocketAddr, run: Run) {
        if let Some(Move { address, nonce, .. }) = self.open {
            ask_to_reach(out, to, run, address, nonce);
        }
    }

    /// Keeps the address that this node has, if it wanted another one.
    pub(crate) fn give_up(&mut self, cx: &mut Context) {
        cx.timers.cancel(Timer::Move);
        if let Some(Move { ticket, address, .. }) = self.open.take() {
            cx.reply(ticket, Reply::Refused(CommandError::NotReached { address }));
        }
    }

    /// Returns true if this is the nonce by which members answer that they reach this node at its new address.
    pub(crate) fn is_reached_by(&self, nonce: Nonce) -> bool {
        self.open.is_some_and(|moving| moving.nonce == nonce)
    }

    /// Returns true if this node wants another address.
    pub(crate) fn is_open(&self) -> bool {
        self.open.is_some()
    }

    /// Notes that a member has reached this node at its new address; returns that.
    pub(crate) fn reached(&mut self) -> Option<SocketAddr> {
        self.open.as_mut().map(|moving| {
            moving.is_reached = true;
            moving.address
        })
    }

    /// Ends the move: the record says the new address.
    pub(crate) fn end(&mut self, cx: &mut Context) -> Option<Ticket> {
        cx.timers.cancel(Timer::Move);
        self.open.take().map(|moving| moving.ticket)
    }
}

fn ask_to_reach(out: &mut Outbox<'_>, to: SocketAddr, run: Run, address: SocketAddr, nonce: Nonce) {
    let mut packet = out.packet(usize::MAX);
    packet.push(&Message::ReachMe { nonce, address });
    packet.pad_to(out.question_bytes(MIN_QUESTION_BYTES));
    out.transmit(to, Receiver::Run(run), packet);
}
