//! Missing voters: while too few are there to elect anybody, every member looks for those that are not.
//!
//! They may come back with empty disks and know each other alone. So they must hear of the electorate before they have
//! formed another one: within the half second in which they look for each other (see `joining::finders`). That is too
//! short for looking once in a retry interval, as for other members that are lost. A member that is sure of an
//! electorate, and does not know its voters, looks for its missing seeds instead.
//!
//! Invariants:
//! - All members together ask each address [`MISSING_VOTER_QUESTIONS`] times a second, if each of them may then wait
//!   for a retry interval at most, and for [`MISSING_VOTER_PAUSE`] at least.
//! - A question is a small packet, and goes to an address that a seed's name has, or that the voter proved; others are
//!   limited by the credit of their host.
//!
//! Must not know: what a node does that is found.

use std::net::SocketAddr;
use std::time::Duration;

use rand::RngExt;

use super::{Core, NodeId, Phase, Run, Status};
use crate::core::doors::Receiver;
use crate::core::election::Voter;
use crate::core::limits::{MAX_VOTERS, MIN_PROBE_BYTES, MISSING_VOTER_PAUSE, MISSING_VOTER_QUESTIONS};
use crate::core::view::{Slot, View};
use crate::core::wire::Message;

/// The time for which packets of a process that is gone may still be under way.
const LAST_PACKETS: Duration = Duration::from_millis(100);

/// Returns the pause of each of so many members between two questions to the same address.
fn pause_among(members: usize, longest: Duration) -> Duration {
    let all_together = Duration::from_secs(members as u64) / MISSING_VOTER_QUESTIONS;
    all_together.min(longest).max(MISSING_VOTER_PAUSE)
}

impl Core {
    /// Returns true if too few voters are there to elect anybody, as far as this node knows.
    fn misses_voters(&self) -> bool {
        let Some(tracker) = &self.tracker else { return false };
        if !matches!(self.phase, Phase::Up) || self.founded().is_none() {
            return false;
        }
        let Some(electorate) = self.electorate() else { return tracker.known.is_none() };
        let there = electorate.voters.iter().filter(|voter| self.is_voter_there(&voter.id)).count();
        there < electorate.majority()
    }

    /// Returns true if a voter is Up, and was heard since its link broke.
    fn is_voter_there(&self, id: &NodeId) -> bool {
        let slot = self.view.slot_of(id.as_str()).filter(|slot| self.view.entry(*slot).status == Status::Up);
        slot.is_some_and(|slot| *id == self.me().id || !self.is_voter_cut_off(slot))
    }

    fn is_voter_cut_off(&self, slot: Slot) -> bool {
        let entry = self.view.entry(slot);
        let cut_off = self.tracker.as_ref().and_then(|tracker| tracker.cut_off.get(&entry.record.run));
        cut_off.is_some_and(|at| entry.peer.last_sign() <= *at + LAST_PACKETS)
    }

    /// Takes note that the process of a member may be gone, and another may be there in a moment: its link broke, say.
    pub(in crate::core) fn voter_may_be_gone(&mut self, run: Run) {
        let (now, view) = (self.now, &self.view);
        let is_voter = view.slot_of_run(run).is_some_and(|slot| self.is_voter(slot));
        let Some(tracker) = self.tracker.as_mut().filter(|_| is_voter) else { return };
        let last_sign = |run: Run| view.slot_of_run(run).map(|slot| view.entry(slot).peer.last_sign());
        tracker.cut_off.retain(|run, at| last_sign(*run).is_some_and(|last_sign| last_sign <= *at + LAST_PACKETS));
        if tracker.cut_off.len() < MAX_VOTERS {
            tracker.cut_off.insert(run, now);
        }
        self.schedule_leadership();
    }

    /// Takes note that somebody who is not known here sends from this address. If it is a voter's, another process may be
    /// there by now, which is asked at once.
    pub(in crate::core) fn stranger_is_at(&mut self, address: SocketAddr) {
        let Some(electorate) = self.electorate().filter(|_| matches!(self.phase, Phase::Up)) else { return };
        let mut slots = electorate.voters.iter().filter_map(|voter| self.view.slot_of(voter.id.as_str()));
        let Some(slot) = slots.find(|slot| self.view.record(*slot).address == address) else { return };
        let (run, is_proven) = (self.view.record(slot).run, self.view.entry(slot).peer.is_proven());
        let cut_off = self.tracker.as_ref().and_then(|tracker| tracker.cut_off.get(&run));
        let is_known = cut_off.is_some_and(|at| self.now.since(*at) < MISSING_VOTER_PAUSE);
        if slot != View::ME && is_proven && !is_known {
            self.voter_may_be_gone(run);
            self.look_at(address);
        }
    }

    /// Sets the time at which missing voters are looked for first, or ends that.
    pub(super) fn plan_look_for_voters(&mut self) {
        let misses_voters = self.misses_voters();
        let is_planned = self.tracker.as_ref().is_some_and(|tracker| tracker.look_for_voters_at.is_some());
        if misses_voters == is_planned {
            return;
        }
        // All members begin at about the same moment: from the first one on they take turns.
        let at = misses_voters.then(|| self.now + self.pause_of_lookers().mul_f64(self.rng.random()));
        if let Some(tracker) = &mut self.tracker {
            tracker.look_for_voters_at = at;
        }
    }

    fn pause_of_lookers(&self) -> Duration {
        let members = self.view.live().len() + 1;
        let voters = self.electorate().map_or(&[][..], |electorate| &electorate.voters);
        let is_cut_off = |voter: &Voter| {
            let slot = self.view.slot_of(voter.id.as_str());
            slot.is_some_and(|slot| self.view.entry(slot).status == Status::Up && self.is_voter_cut_off(slot))
        };
        // Nobody but the observers of a voter knows yet that it may be gone.
        let is_early = voters.iter().any(is_cut_off);
        let lookers = if is_early { members.min(self.settings.observers + 1) } else { members };
        pause_among(lookers, self.settings.retry_interval)
    }

    /// Looks for the voters that are missing, if it is time to.
    pub(super) fn look_for_voters(&mut self) {
        let at = self.tracker.as_ref().and_then(|tracker| tracker.look_for_voters_at);
        if at.is_none_or(|at| self.now < at) {
            return;
        }
        for address in self.addresses_of_missing_voters() {
            self.look_at(address);
        }
        let lot = 0.75 + 0.5 * self.rng.random::<f64>();
        let pause = self.pause_of_lookers().mul_f64(lot);
        if let Some(tracker) = &mut self.tracker {
            tracker.look_for_voters_at = Some(self.now + pause);
        }
    }

    fn look_at(&mut self, address: SocketAddr) {
        let nonce = self.prover.nonce(address, self.now);
        let mut packet = self.packet(usize::MAX);
        packet.push(&Message::WhoAreYou { nonce, echo: None });
        packet.pad_to(self.question_bytes(MIN_PROBE_BYTES));
        self.expected.note(self.now, address);
        self.transmit(address, Receiver::Anybody, packet);
    }

    fn addresses_of_missing_voters(&mut self) -> Vec<SocketAddr> {
        let Some(electorate) = self.electorate() else { return self.missing_seeds(MAX_VOTERS) };
        let missing = electorate.voters.iter().filter(|voter| !self.is_voter_there(&voter.id));
        let slots = missing.filter_map(|voter| self.view.slot_of(voter.id.as_str()));
        let known: Vec<(SocketAddr, bool)> =
            slots.map(|slot| (self.view.record(slot).address, self.view.entry(slot).peer.is_proven())).collect();
        let (now, credit) = (self.now, &mut self.credit);
        let may_be_asked = |(to, is_proven): &(SocketAddr, bool)| *is_proven || credit.take(now, *to, MIN_PROBE_BYTES);
        known.into_iter().filter(may_be_asked).map(|(to, _)| to).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_members_together_ask_so_often_if_each_may_wait_as_long() {
        let longest = Duration::from_secs(5);
        for members in [1, 2, 4, 30, 100] {
            let pause = pause_among(members, longest);
            assert_eq!(pause * MISSING_VOTER_QUESTIONS, Duration::from_secs(members as u64), "{members}");
        }
        assert_eq!(pause_among(10_000, longest), longest);
        assert_eq!(pause_among(1, Duration::ZERO), MISSING_VOTER_PAUSE);
    }
}
