//! Missing voters: whoever is sure of an electorate looks for its voters and for its own seeds, for a while after they
//! are gone.
//!
//! They may come back with empty disks and know each other alone. So they must hear of the electorate before they have
//! formed another one: within the six tenths of a second in which they look for each other (see `joining::finders`). That
//! is too short for looking once in a retry interval, as for other members that are lost.
//!
//! **Why from here, and for [`MISSING_VOTER_SEARCH`].** The blank nodes know nothing but each other, so that only time or
//! somebody else can help. Time does not: a cluster that is really new must have a leader soon, and a blank node cannot
//! tell the two apart; it waits a little longer than others before it founds (`FORMING_DELAY`), so that packets may be
//! lost, and no more. So somebody who is sure looks for them, as long as a process that was started again may take to be
//! there. Who is reinstalled later is looked for like any lost member or seed: if it has formed another electorate by
//! then, one of the two ends where they meet (see `other`).
//!
//! Invariants:
//! - All members together ask each address [`MISSING_VOTER_QUESTIONS`] times a second, if each of them may then wait
//!   for a retry interval at most, and for [`MISSING_VOTER_PAUSE`] at least, until nothing has changed for
//!   [`MISSING_VOTER_SEARCH`]. A member asks [`MAX_VOTERS`] seeds at one time, beginning at a random one.
//! - Where another member is Up by now nobody else is looked for.
//! - A question is a small datagram. No copy goes by a bootstrap link: whoever is at its other end was asked as it was
//!   connected, and what goes by it is not lost.
//!
//! Must not know: what a node does that is found.

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::time::Duration;

use rand::RngExt;

use super::{Lead, LeadContext, LeadStep};
use crate::limits::{MAX_SEEDS, MAX_VOTERS, MISSING_VOTER_PAUSE, MISSING_VOTER_QUESTIONS, MISSING_VOTER_SEARCH};
use crate::member::{Run, Status};
use crate::time::Time;
use crate::view::{Slot, View};

/// The time for which packets of a process that is gone may still be under way.
const LAST_PACKETS: Duration = Duration::from_millis(100);
/// The greatest number of voters and seeds whose links broke that are remembered.
const MAX_CUT_OFF: usize = MAX_VOTERS + MAX_SEEDS;

/// Voters and seeds that are not there.
#[derive(Debug, Clone, Default)]
pub(super) struct Search {
    /// The time at which missing voters are looked for again.
    pub(super) look_at: Option<Time>,
    /// The voters and seeds whose links broke, each with the time of that: they may be gone.
    cut_off: BTreeMap<Run, Time>,
    /// The number of voters and seeds that are missing, and the time until which they are looked for: it is counted anew
    /// with each of them that is gone or comes.
    missing: (usize, Time),
}

/// Returns the pause of each of so many members between two questions to the same address.
fn pause_among(members: usize, longest: Duration) -> Duration {
    let all_together = Duration::from_secs(members as u64) / MISSING_VOTER_QUESTIONS;
    all_together.min(longest).max(MISSING_VOTER_PAUSE)
}

/// Who is missing.
impl Lead {
    /// Returns true if this node is sure of an electorate, and Up, so that it looks for those who are not.
    fn looks_for_others(&self, cx: &LeadContext<'_>) -> bool {
        cx.phase.is_up() && self.founded().is_some()
    }

    /// Returns the number of those who are not there and must not form another electorate.
    fn count_missing(&self, cx: &LeadContext<'_>) -> usize {
        let seeds = || cx.reunion.count_missing_seeds(cx.view);
        if self.looks_for_others(cx) { self.missing_voters(cx.view).count() + seeds() } else { 0 }
    }

    /// Returns the members that vote.
    fn voters_sought<'a>(&'a self, view: &'a View) -> impl Iterator<Item = Slot> + 'a {
        let voters = self.electorate().into_iter().flat_map(|electorate| &electorate.voters).map(|voter| &voter.id);
        voters.filter_map(|id| view.slot_of(id.as_str()))
    }

    /// Returns the voters that are not there, and those who may be gone.
    fn missing_voters<'a>(&'a self, view: &'a View) -> impl Iterator<Item = Slot> + 'a {
        self.voters_sought(view).filter(|slot| !self.is_there(view, *slot)).chain(self.cut_off(view))
    }

    /// Returns the members that are Up, and were not heard since their links broke.
    fn cut_off<'a>(&'a self, view: &'a View) -> impl Iterator<Item = Slot> + 'a {
        let slots = self.search.cut_off.keys().filter_map(|run| view.slot_of_run(*run));
        slots.filter(|slot| view.entry(*slot).status == Status::Up && self.is_cut_off(view, *slot))
    }

    /// Returns true if a voter is Up, and was heard since its link broke.
    fn is_there(&self, view: &View, slot: Slot) -> bool {
        slot == View::ME || view.entry(slot).status == Status::Up && !self.is_cut_off(view, slot)
    }

    fn is_cut_off(&self, view: &View, slot: Slot) -> bool {
        let entry = view.entry(slot);
        let cut_off = self.search.cut_off.get(&entry.record.run);
        cut_off.is_some_and(|at| entry.peer.last_sign() <= *at + LAST_PACKETS)
    }

    /// Takes note that the process of a member may be gone, and another may be there in a moment: its link broke, say.
    pub(crate) fn voter_may_be_gone(&mut self, cx: &mut LeadContext<'_>, run: Run) {
        let view = &*cx.view;
        let is_sought = view.slot_of_run(run).is_some_and(|slot| {
            self.voters_sought(view).any(|voter| voter == slot) || cx.reunion.is_seed(view.record(slot).address)
        });
        if !is_sought {
            return;
        }
        let last_sign = |run: Run| view.slot_of_run(run).map(|slot| view.entry(slot).peer.last_sign());
        let cut_off = &mut self.search.cut_off;
        cut_off.retain(|run, at| last_sign(*run).is_some_and(|last_sign| last_sign <= *at + LAST_PACKETS));
        if cut_off.len() < MAX_CUT_OFF {
            cut_off.insert(run, cx.now);
        }
        self.search.missing.0 = 0;
        self.schedule(cx);
    }

    /// Takes note that somebody who is not known here sends from this address. If it is a voter's or a seed's, another
    /// process may be there by now, which is asked at once.
    pub(crate) fn stranger_is_at(&mut self, cx: &mut LeadContext<'_>, address: SocketAddr) {
        if !self.looks_for_others(cx) {
            return;
        }
        let view = &*cx.view;
        let seed = cx.reunion.run_at_seed(address).and_then(|run| view.slot_of_run(run));
        let is_at_it = |slot: &Slot| view.record(*slot).address == address;
        let Some(slot) = self.voters_sought(view).chain(seed).find(is_at_it) else { return };
        let (run, is_proven) = (view.record(slot).run, view.entry(slot).peer.is_proven());
        let cut_off = self.search.cut_off.get(&run);
        let is_known = cut_off.is_some_and(|at| cx.now.since(*at) < MISSING_VOTER_PAUSE);
        if slot != View::ME && is_proven && !is_known {
            self.voter_may_be_gone(cx, run);
            self.steps.push(LeadStep::AskWho(address));
        }
    }
}

/// Looking for them.
impl Lead {
    /// Sets the time at which missing voters are looked for first, or ends that.
    pub(super) fn plan_look_for_voters(&mut self, cx: &LeadContext<'_>) {
        let (missing, before) = (self.count_missing(cx), self.search.missing.0);
        if missing != before {
            self.search.missing = (missing, cx.now + MISSING_VOTER_SEARCH);
        }
        let is_on = missing > 0 && cx.now < self.search.missing.1;
        if is_on != self.search.look_at.is_some() {
            let pause = self.pause_of_searchers(cx);
            // All members begin at about the same moment: from the first one on they take turns.
            self.search.look_at = is_on.then(|| cx.now + pause.mul_f64(self.random.random()));
        }
    }

    fn pause_of_searchers(&self, cx: &LeadContext<'_>) -> Duration {
        let members = cx.view.live().len() + 1;
        // Nobody but the observers of a voter knows yet that it may be gone.
        let is_early = self.cut_off(cx.view).next().is_some();
        let searchers = if is_early { members.min(cx.settings.observers + 1) } else { members };
        pause_among(searchers, cx.settings.retry_interval)
    }

    /// Looks for the voters that are missing, if it is time to.
    pub(super) fn look_for_voters(&mut self, cx: &LeadContext<'_>) {
        if self.search.look_at.is_none_or(|at| cx.now < at) {
            return;
        }
        let view = &*cx.view;
        let mut addresses: BTreeSet<SocketAddr> =
            self.missing_voters(view).map(|slot| view.record(slot).address).collect();
        addresses.remove(&view.me().address);
        for slot in view.live().iter().filter(|slot| self.is_there(view, **slot)) {
            addresses.remove(&view.record(*slot).address);
        }
        self.steps.push(LeadStep::LookFor(addresses));
        let share = 0.75 + 0.5 * self.random.random::<f64>();
        self.search.look_at = Some(cx.now + self.pause_of_searchers(cx).mul_f64(share));
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
