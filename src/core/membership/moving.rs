//! This node's own move: another address in its record, and the proof of that to each of its observers.
//!
//! An observer believes the move when this node proves, from the new address, that it holds the observer's keepsake (see
//! `keepsakes`). That takes four packets, of which each may be lost, or be one too many for its receiver at this moment;
//! so this node introduces itself again, and calls, until it knows that the observer knows: the observer's packets to a
//! member go to the address in the member's record, so a heartbeat that arrives here says so.
//!
//! Invariants:
//! - Each observer that has not shown that it knows, or has not given the next keepsake, is asked [`MAX_INTRODUCTIONS`]
//!   times at most, at pauses that double.
//! - An observer is called from the second time on only, and at once if datagrams do not pass everywhere.
//!
//! Must not know: how a move is proven or believed.

use std::net::SocketAddr;

use crate::core::Core;
use crate::core::Phase;
use crate::core::doors::{CommandError, Reply, Ticket};
use crate::core::limits::{INTRODUCTION_RETRY, MAX_INTRODUCTIONS};
use crate::core::member::{Record, is_reachable};
use crate::core::time::Time;
use crate::core::timers::Timer;
use crate::core::view::Slot;
use crate::core::wire::Message;

/// The last change of this node's address, until all observers know it.
#[derive(Debug, Clone, Copy)]
pub(in crate::core) struct Move {
    at: Time,
    /// The number of times that observers were asked so far.
    introductions: u32,
}

impl Core {
    /// Carries out the command to change this node's address. Observers believe the change when this node proves, from
    /// there, that it holds their keepsakes.
    pub(in crate::core) fn set_address(&mut self, ticket: Ticket, address: SocketAddr) {
        if matches!(self.phase, Phase::Leaving) {
            return self.reply(ticket, Reply::Refused(CommandError::Leaving));
        }
        if !is_reachable(address) {
            return self.reply(ticket, Reply::Refused(CommandError::Unreachable { address }));
        }
        if address != self.me().address {
            if !self.restate_myself(Record { address, ..Record::clone(self.me()) }) {
                return self.reply(ticket, Reply::Refused(CommandError::Busy));
            }
            self.keepsakes.outlived();
            self.link_all_anew();
            self.moving = Some(Move { at: self.now, introductions: 0 });
            self.introduce_myself();
        }
        self.reply(ticket, Reply::AddressSet);
    }

    /// Sends `WhoAreYou` from this node's new address to the observers that do not know it yet: they ask back, and learn
    /// where it is. Those that hear this node by its link alone do so no more: they are called as well. Those that know it
    /// are asked for the next keepsake, if the answer that brought it was lost: this node may have to move again.
    pub(in crate::core) fn introduce_myself(&mut self) {
        let Some(Move { at, introductions }) = self.moving.filter(|_| matches!(self.phase, Phase::Up)) else {
            self.moving = None;
            return;
        };
        let observed = self.view.live().iter().copied().filter(|slot| self.observes(*slot));
        let (aware, unaware): (Vec<Slot>, Vec<Slot>) =
            observed.partition(|slot| self.view.entry(*slot).peer.has_stamped_since(at));
        for slot in aware {
            if self.keepsakes.is_outlived(self.view.record(slot).run) {
                self.probe_both_ways(slot);
            }
        }
        let mine = self.me().address;
        let unaware = unaware.into_iter().map(|slot| self.view.record(slot).address);
        let unaware: Vec<SocketAddr> = unaware.filter(|address| *address != mine).collect();
        let may_wait_for = introductions < MAX_INTRODUCTIONS - 1;
        for address in &unaware {
            self.ask_who(*address);
        }
        if introductions > 0 || self.are_datagrams_in_doubt() {
            self.call_all(&unaware);
        }
        self.moving = may_wait_for.then_some(Move { at, introductions: introductions + 1 });
        if may_wait_for {
            self.timers.set(Timer::Introduce, self.now + INTRODUCTION_RETRY * 2_u32.pow(introductions));
        }
    }

    /// Asks a member to answer on every way there is, which brings a keepsake if it has one to give.
    fn probe_both_ways(&mut self, slot: Slot) {
        let nonce = self.prover.nonce(self.view.record(slot).address, self.now);
        self.send_both_ways(slot, &Message::Probe { nonce, doubted: false });
    }
}
