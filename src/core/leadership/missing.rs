//! Missing voters: whoever is sure of an electorate looks for its voters, for those of before, and for its own seeds,
//! as long as they are not there.
//!
//! They may come back with empty disks and know each other alone: voters of the present electorate, or those of a list
//! of long ago, which others have replaced. So they must hear of the electorate before they have formed another one:
//! within the six tenths of a second in which they look for each other (see `joining::finders`). That is too short
//! for looking once in a retry interval, as for other members that are lost.
//!
//! **Why from here, and for ever.** The blank nodes know nothing but each other, so that only time or somebody else can
//! help. Time does not: a cluster that is really new must have a leader soon, and a blank node cannot tell the two apart;
//! it waits a little longer than others before it founds (`FORMING_DELAY`), so that packets may be lost, and no more. So
//! somebody who is sure looks for them. To look less often for what has been gone for long would save little, and would
//! fail just those that are reinstalled after a long rest: all members together send 1.3 kB/s for each address that is
//! missing, and in a large cluster, where each asks once in a retry interval, no more than they do for any lost seed. Nor
//! are addresses passed over that refuse: no port is closed for good, and by the time that it opens it is late.
//!
//! Invariants:
//! - All members together ask each address [`MISSING_VOTER_QUESTIONS`] times a second, if each of them may then wait
//!   for a retry interval at most, and for [`MISSING_VOTER_PAUSE`] at least. A member asks [`MAX_VOTERS`] seeds at one
//!   time, from one by lot on.
//! - A question is a small datagram. No copy goes by a call: whoever is called was asked as the call was connected, and
//!   what goes by it is not lost.
//! - Voters of before are forgotten with their records, a day after they are gone, and by a member that starts again; the
//!   newest [`MAX_VOTERS`] of them are remembered.
//!
//! Must not know: what a node does that is found.

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::time::Duration;

use rand::RngExt;

use super::{Core, Electorate, LeaderTracker, NodeId, Run, Status};
use crate::limits::{MAX_SEEDS, MAX_VOTERS, MISSING_VOTER_PAUSE, MISSING_VOTER_QUESTIONS};
use crate::view::{Slot, View};

/// The time for which packets of a process that is gone may still be under way.
const LAST_PACKETS: Duration = Duration::from_millis(100);
/// The greatest number of voters and seeds whose links broke that are remembered.
const MAX_CUT_OFF: usize = MAX_VOTERS + MAX_SEEDS;

/// Returns the pause of each of so many members between two questions to the same address.
fn pause_among(members: usize, longest: Duration) -> Duration {
    let all_together = Duration::from_secs(members as u64) / MISSING_VOTER_QUESTIONS;
    all_together.min(longest).max(MISSING_VOTER_PAUSE)
}

impl LeaderTracker {
    /// Remembers the voters of the agreed electorate that do not vote in the next one.
    pub(super) fn note_former_voters(&mut self, next: &Electorate) {
        let votes = |id: &NodeId| next.voters.iter().any(|voter| voter.id == *id);
        let before = self.agreed.iter().flat_map(|agreed| &agreed.electorate.voters);
        let gone: Vec<NodeId> = before.map(|voter| voter.id.clone()).filter(|id| !votes(id)).collect();
        self.former_voters.retain(|id| !votes(id) && !gone.contains(id));
        self.former_voters.extend(gone);
        self.former_voters.drain(..self.former_voters.len().saturating_sub(MAX_VOTERS));
    }
}

impl Core {
    /// Returns true if somebody is not there who must not form another electorate.
    fn misses_voters(&self) -> bool {
        if !self.cx.phase.is_up() || self.tracker.is_none() || self.founded().is_none() {
            return false;
        }
        let is_missing = |slot: Slot| !self.is_voter_there(slot);
        self.voters_sought().any(is_missing) || self.cut_off().next().is_some() || self.misses_seed()
    }

    /// Returns the members that vote, or did.
    fn voters_sought(&self) -> impl Iterator<Item = Slot> {
        let voters = self.electorate().into_iter().flat_map(|electorate| &electorate.voters).map(|voter| &voter.id);
        let former = self.tracker.iter().flat_map(|tracker| &tracker.former_voters);
        voters.chain(former).filter_map(|id| self.view.slot_of(id.as_str()))
    }

    /// Returns the members that are Up, and were not heard since their links broke.
    fn cut_off(&self) -> impl Iterator<Item = Slot> {
        let runs = self.tracker.iter().flat_map(|tracker| tracker.cut_off.keys());
        let slots = runs.filter_map(|run| self.view.slot_of_run(*run));
        slots.filter(|slot| self.view.entry(*slot).status == Status::Up && self.is_voter_cut_off(*slot))
    }

    /// Returns true if a voter is Up, and was heard since its link broke.
    fn is_voter_there(&self, slot: Slot) -> bool {
        slot == View::ME || self.view.entry(slot).status == Status::Up && !self.is_voter_cut_off(slot)
    }

    fn is_voter_cut_off(&self, slot: Slot) -> bool {
        let entry = self.view.entry(slot);
        let cut_off = self.tracker.as_ref().and_then(|tracker| tracker.cut_off.get(&entry.record.run));
        cut_off.is_some_and(|at| entry.peer.last_sign() <= *at + LAST_PACKETS)
    }

    /// Takes note that the process of a member may be gone, and another may be there in a moment: its link broke, say.
    pub(crate) fn voter_may_be_gone(&mut self, run: Run) {
        let (now, view) = (self.cx.now, &self.view);
        let is_sought = |slot: &Slot| {
            let is_seed = || self.reunion.is_seed(view.record(*slot).address);
            self.voters_sought().any(|voter| voter == *slot) || is_seed()
        };
        let is_sought = view.slot_of_run(run).is_some_and(|slot| is_sought(&slot));
        let Some(tracker) = self.tracker.as_mut().filter(|_| is_sought) else { return };
        let last_sign = |run: Run| view.slot_of_run(run).map(|slot| view.entry(slot).peer.last_sign());
        tracker.cut_off.retain(|run, at| last_sign(*run).is_some_and(|last_sign| last_sign <= *at + LAST_PACKETS));
        if tracker.cut_off.len() < MAX_CUT_OFF {
            tracker.cut_off.insert(run, now);
        }
        self.schedule_leadership();
    }

    /// Takes note that somebody who is not known here sends from this address. If it is a voter's or a seed's, another
    /// process may be there by now, which is asked at once.
    pub(crate) fn stranger_is_at(&mut self, address: SocketAddr) {
        if !self.cx.phase.is_up() || self.tracker.is_none() || self.founded().is_none() {
            return;
        }
        let seed = self.reunion.run_at_seed(address).and_then(|run| self.view.slot_of_run(run));
        let is_there = |slot: &Slot| self.view.record(*slot).address == address;
        let Some(slot) = self.voters_sought().chain(seed).find(is_there) else { return };
        let (run, is_proven) = (self.view.record(slot).run, self.view.entry(slot).peer.is_proven());
        let cut_off = self.tracker.as_ref().and_then(|tracker| tracker.cut_off.get(&run));
        let is_known = cut_off.is_some_and(|at| self.cx.now.since(*at) < MISSING_VOTER_PAUSE);
        if slot != View::ME && is_proven && !is_known {
            self.voter_may_be_gone(run);
            self.out().ask_who_briefly(address);
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
        let at = misses_voters.then(|| self.cx.now + self.pause_of_lookers().mul_f64(self.random.lead.random()));
        if let Some(tracker) = &mut self.tracker {
            tracker.look_for_voters_at = at;
        }
    }

    fn pause_of_lookers(&self) -> Duration {
        let members = self.view.live().len() + 1;
        // Nobody but the observers of a voter knows yet that it may be gone.
        let is_early = self.cut_off().next().is_some();
        let lookers = if is_early { members.min(self.cx.settings.observers + 1) } else { members };
        pause_among(lookers, self.cx.settings.retry_interval)
    }

    /// Looks for the voters that are missing, if it is time to.
    pub(super) fn look_for_voters(&mut self) {
        let at = self.tracker.as_ref().and_then(|tracker| tracker.look_for_voters_at);
        if at.is_none_or(|at| self.cx.now < at) {
            return;
        }
        for address in self.addresses_of_missing_voters() {
            self.out().ask_who_briefly(address);
        }
        let lot = 0.75 + 0.5 * self.random.lead.random::<f64>();
        let pause = self.pause_of_lookers().mul_f64(lot);
        if let Some(tracker) = &mut self.tracker {
            tracker.look_for_voters_at = Some(self.cx.now + pause);
        }
    }

    fn addresses_of_missing_voters(&mut self) -> Vec<SocketAddr> {
        let missing = self.voters_sought().filter(|slot| !self.is_voter_there(*slot)).chain(self.cut_off());
        let known: BTreeSet<SocketAddr> = missing.map(|slot| self.view.record(slot).address).collect();
        let mut addresses = self.missing_seeds(MAX_VOTERS);
        for to in known {
            if !addresses.contains(&to) {
                addresses.push(to);
            }
        }
        addresses
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
