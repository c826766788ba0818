//! Up means reachable: nobody becomes Up before others reached the address that it advertises.
//!
//! ```text
//! joiner, heard from B, advertises A          sponsor
//!   Join{cookie for B} ───────────────────────▶
//!        ◀─ Wait (to B) ── Challenge{cookie for A} (to A)
//!   Join{cookie for A} ───────────────────────▶   admitted; it is spoken to at A from now on
//! ```
//!
//! Who advertises the address that it is heard from has brought that cookie anyway. Who cannot be reached where it says
//! is refused in words that name both addresses, and may come again. Only a process that looks for a cluster with the
//! very nonce of the question answers a challenge: the address of a third party gets one small packet a second.
//!
//! A member of another address family (IPv4, IPv6) may be out of reach although the sponsor is not. So a joiner that finds
//! members of the other family in its new view first has some of them speak to its advertised address: `ReachMe`,
//! answered there by `Reached`. All others lose no time by it.
//!
//! Invariant: the sponsor remembers no more of whom it cannot reach than since when, for [`MAX_UNREACHED`] of them.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::time::Duration;

use rand::Rng;
use rand::seq::IndexedRandom;

use super::limits::{MAX_UNREACHED, MIN_QUESTION_BYTES, REACH_ASKED, REACH_PATIENCE, REACH_RETRY, UNREACHED_PATIENCE};
use super::sponsor::Newcomer;
use super::time::Time;
use super::timers::Timer;
use super::wire::{Message, Nonce, Refusal};
use super::{Core, Notice, Phase, Run, Status};

/// Joiners that were not reached where they want to be: since when they are asked there, and until when that is of interest.
#[derive(Debug, Default)]
pub(super) struct Unreached {
    since: BTreeMap<Run, (Time, Time)>,
}

impl Unreached {
    /// Since when this joiner is asked at its address, the present question included.
    fn ask(&mut self, run: Run, now: Time, kept: Duration) -> Time {
        let since = self.since.get(&run).filter(|(_, until)| now < *until).map_or(now, |(since, _)| *since);
        if self.since.len() >= MAX_UNREACHED && !self.since.contains_key(&run) {
            let oldest = self.since.iter().min_by_key(|(_, (_, until))| *until).map(|(run, _)| *run);
            oldest.and_then(|oldest| self.since.remove(&oldest));
        }
        self.since.insert(run, (since, now + kept));
        since
    }

    /// It was reached.
    pub(super) fn forget(&mut self, run: Run) {
        self.since.remove(&run);
    }
}

/// A joiner waits for members of another address family to reach it.
#[derive(Debug)]
pub(super) struct Reach {
    nonce: Nonce,
    asked: Vec<SocketAddr>,
    until: Time,
}

impl Core {
    /// Whether a newcomer advertises an address where this node can reach it; if not, it is asked there and told to wait.
    pub(super) fn is_reached(&mut self, newcomer: &Newcomer) -> bool {
        let Newcomer { from, nonce, ref record, .. } = *newcomer;
        let (run, address) = (record.run, record.address);
        if from == address {
            self.joiners.unreached.forget(run);
            return true;
        }
        let since = self.joiners.unreached.ask(run, self.now, self.settings.retry_interval * 3);
        if self.questions.allow(self.now, address, false) {
            let cookie = self.prover.cookie(address, run, self.now);
            let mut packet = self.packet(usize::MAX);
            packet.push(&Message::Reply);
            packet.push(&Message::Challenge { nonce, cookie });
            let bytes = packet.finish();
            if self.calls.is_from(newcomer.heard_from) {
                // Where datagrams do not pass, its port is asked.
                self.call_with(address, bytes.clone());
            }
            self.transmit_bytes(address, bytes);
        }
        if self.now.since(since) < UNREACHED_PATIENCE {
            let wait_ms = UNREACHED_PATIENCE.as_millis() as u32 / 2;
            self.decide(newcomer, &Message::Wait { nonce, wait_ms });
            return false;
        }
        let id = record.id.clone();
        self.notice("joiner unreachable", Notice::JoinerUnreachable { id, advertised: address, heard_from: from });
        let refusal = Refusal::Unreachable { advertised: address, heard_from: from };
        self.decide(newcomer, &Message::Refused { nonce, refusal });
        false
    }

    /// Whether members of the other address family have yet to reach this joiner. Asks some of them, if so.
    pub(super) fn must_be_reached(&mut self) -> bool {
        let is_v6 = self.me().address.is_ipv6();
        let others: Vec<SocketAddr> = self
            .view
            .live()
            .iter()
            .map(|slot| self.view.record(*slot))
            .filter(|record| record.status == Status::Up && record.address.is_ipv6() != is_v6)
            .map(|record| record.address)
            .collect();
        if others.is_empty() {
            return false;
        }
        let asked: Vec<SocketAddr> = others.sample(&mut self.rng, REACH_ASKED).copied().collect();
        let nonce = Nonce(self.rng.next_u64());
        let until = self.now + REACH_PATIENCE;
        if let Phase::Joining(joining) = &mut self.phase {
            joining.reach = Some(Reach { nonce, asked, until });
        }
        self.ask_to_be_reached();
        true
    }

    /// Asks members of the other family again, or gives it up for now.
    pub(super) fn ask_to_be_reached(&mut self) {
        let address = self.me().address;
        let Phase::Joining(joining) = &mut self.phase else { return };
        let Some(reach) = &joining.reach else { return };
        let (nonce, asked, until) = (reach.nonce, reach.asked.clone(), reach.until);
        if self.now >= until {
            joining.reach = None;
            // It is looked for anew, from the pull on: who is dead is Down by then.
            self.timers.set(Timer::JoinTry, self.now + self.settings.retry_interval);
            return self.notice("not reached", Notice::NotReached { advertised: address, others: asked });
        }
        for to in asked {
            let mut packet = self.packet(usize::MAX);
            packet.push(&Message::ReachMe { nonce, address });
            packet.pad_to(MIN_QUESTION_BYTES);
            self.transmit(to, packet);
        }
        self.timers.set(Timer::Reach, until.min(self.now + REACH_RETRY));
    }

    /// Somebody wants to know whether this node reaches an address. One small packet goes there, at most one a second.
    pub(super) fn asked_to_reach(&mut self, nonce: Nonce, address: SocketAddr) {
        if matches!(self.phase, Phase::Up) && self.questions.allow(self.now, address, false) {
            let mut packet = self.packet(usize::MAX);
            packet.push(&Message::Reply);
            packet.push(&Message::Reached { nonce });
            self.transmit(address, packet);
        }
    }

    /// A member of the other address family spoke to this joiner's advertised address.
    pub(super) fn reached_by(&mut self, nonce: Nonce) {
        let is_waiting = |core: &Self| match &core.phase {
            Phase::Joining(joining) => joining.reach.as_ref().is_some_and(|reach| reach.nonce == nonce),
            _ => false,
        };
        if is_waiting(self) && !self.incarnation.is_waiting() {
            self.become_up();
        } else {
            self.counters.drop(super::Drop::Unasked);
        }
    }
}
