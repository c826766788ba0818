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

use crate::Core;
use crate::doors::{CommandError, Notice, Receiver, Reply, Ticket};
use crate::limits::{MIN_QUESTION_BYTES, REACH_ASKED, REACH_RETRY};
use crate::member::{Record, Run, Status, is_reachable};
use crate::packet::{Sender, SenderKind};
use crate::timers::Timer;
use crate::view::{Slot, View};
use crate::wire::{Message, Nonce};

/// The number of times that members are asked before it is said that they do not reach this node.
const MOST_ASKED: u32 = 5;

/// An address at which nobody has reached this node so far.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Move {
    /// The command's number.
    ticket: Ticket,
    address: SocketAddr,
    nonce: Nonce,
    /// The number of times that members were asked.
    asked: u32,
    /// True if a member has reached this node there, and the disk has yet to store what the record will need.
    is_reached: bool,
}

impl Core {
    /// Carries out the command to change this node's address, as soon as a member has reached it there. Who is Joining is
    /// in no record yet: its address is proven when it is let in.
    pub(crate) fn set_address(&mut self, ticket: Ticket, address: SocketAddr) {
        if self.cx.phase.is_leaving() {
            return self.cx.reply(ticket, Reply::Refused(CommandError::Leaving));
        }
        if !is_reachable(address) {
            return self.cx.reply(ticket, Reply::Refused(CommandError::Unreachable { address }));
        }
        self.give_up_move();
        if address == self.me().address {
            return self.cx.reply(ticket, Reply::AddressSet);
        }
        // Calls that stand lead from the address that this node had.
        self.paths.hang_up_all(&mut self.cx);
        self.moving =
            Some(Move { ticket, address, nonce: Nonce(self.random.me.next_u64()), asked: 0, is_reached: false });
        self.ask_at_new_address();
    }

    /// Asks members whether they reach this node at its new address.
    pub(crate) fn ask_at_new_address(&mut self) {
        let Some(Move { address, nonce, asked, is_reached, .. }) = self.moving else { return };
        let live: Vec<Slot> = self.view.live().iter().copied().filter(|slot| *slot != View::ME).collect();
        if is_reached || live.is_empty() || self.cx.phase.is_joining() {
            return self.take_address();
        }
        let up: Vec<Slot> = live.iter().copied().filter(|slot| self.view.record(*slot).status == Status::Up).collect();
        let among = if up.is_empty() { live } else { up };
        let members: Vec<(SocketAddr, Run)> = among
            .sample(&mut self.random.me, REACH_ASKED << asked)
            .map(|slot| (self.view.record(*slot).address, self.view.record(*slot).run))
            .collect();
        let addresses: Vec<SocketAddr> = members.iter().map(|(address, _)| *address).collect();
        if asked >= MOST_ASKED {
            let kept = self.me().address;
            self.cx.notice(
                "move not reached",
                Notice::MoveNotReached { kept, address, others: addresses.into_iter().take(REACH_ASKED).collect() },
            );
            return self.give_up_move();
        }
        for (to, run) in members {
            self.ask_to_reach(to, run, address, nonce);
        }
        if asked > 0 || self.paths.are_datagrams_in_doubt() {
            self.call_all(&addresses);
        }
        if let Some(moving) = &mut self.moving {
            moving.asked += 1;
        }
        self.cx.timers.set(Timer::Move, self.cx.now + REACH_RETRY * 2_u32.pow(asked));
    }

    /// Keeps the address that this node has, if it wanted another one.
    pub(crate) fn give_up_move(&mut self) {
        self.cx.timers.cancel(Timer::Move);
        if let Some(Move { ticket, address, .. }) = self.moving.take() {
            self.cx.reply(ticket, Reply::Refused(CommandError::NotReached { address }));
        }
    }

    /// Asks a member that is not where its record says: it may have moved, too, and know of nobody else.
    pub(crate) fn ask_at_new_address_also(&mut self, to: SocketAddr, run: Run) {
        if let Some(Move { address, nonce, .. }) = self.moving {
            self.ask_to_reach(to, run, address, nonce);
        }
    }

    fn ask_to_reach(&mut self, to: SocketAddr, run: Run, address: SocketAddr, nonce: Nonce) {
        let mut packet = self.out().packet(usize::MAX);
        packet.push(&Message::ReachMe { nonce, address });
        packet.pad_to(self.out().question_bytes(MIN_QUESTION_BYTES));
        self.out().transmit(to, Receiver::Run(run), packet);
    }

    /// Returns true if this is the nonce by which members answer that they reach this node at its new address.
    pub(crate) fn is_reached_by(&self, nonce: Nonce) -> bool {
        self.moving.is_some_and(|moving| moving.nonce == nonce)
    }

    /// Takes the word of a member that it reached this node at its new address; returns false if none was asked. A member
    /// that is not where its record says is told the address by a packet of its own: what goes to all does not reach it.
    pub(crate) fn reached_at_new_address(&mut self, sender: &Sender, nonce: Nonce) -> bool {
        let is_asked = self.is_reached_by(nonce);
        if is_asked {
            self.take_address();
            let is_elsewhere =
                matches!(sender.kind, SenderKind::Member(slot) if self.view.record(slot).address != sender.from);
            if is_elsewhere && self.moving.is_none() {
                let mut packet = self.out().packet(usize::MAX);
                self.out().push_update(&mut packet, View::ME);
                self.out().transmit(sender.from, Receiver::Run(sender.run), packet);
            }
        }
        is_asked
    }

    /// Writes the new address into this node's record, as soon as the disk allows it.
    fn take_address(&mut self) {
        let Some(moving) = &mut self.moving else { return };
        moving.is_reached = true;
        let (ticket, address) = (moving.ticket, moving.address);
        if !self.restate_myself(Record { address, ..Record::clone(self.me()) }) {
            return self.cx.timers.set(Timer::Move, self.cx.now + REACH_RETRY);
        }
        self.moving = None;
        self.cx.timers.cancel(Timer::Move);
        self.flood();
        self.link_all_anew();
        self.cx.reply(ticket, Reply::AddressSet);
    }
}
