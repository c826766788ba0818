//! Claims: they end by themselves, and every change of them is reported.
//!
//! Invariants: a claim whose time is past has ended before anything else is looked at; the reported term never falls; a
//! term is reported to the disk and to other agents before it is led.
//!
//! Must not know: how an answer is judged.

use std::collections::VecDeque;

use super::contest::Contest;
use super::io::{Claim, Output};
use super::rules::Rules;
use super::{Contender, LeaseName, Stopping};
use headcount_core::election::LossReason;
use headcount_core::{LeadershipState, NodeId, Time};

impl<R: Rules> Contender<R> {
    /// Ends claims whose time is past. Called before any input is looked at: a process that was stopped must not act on
    /// a claim that ran out meanwhile.
    pub(super) fn expire(&mut self, now: Time) {
        for contest in self.contests.values_mut() {
            if contest.led.as_ref().is_some_and(|led| self.rules.is_over(now, led.until)) {
                contest.lose(LossReason::Expired);
            }
        }
    }

    /// Reports all changes.
    pub(super) fn publish(&mut self, now: Time) {
        let is_failing = self.failures > 0;
        for (lease, contest) in &mut self.contests {
            let known = contest.history.known();
            if known > contest.persisted {
                contest.persisted = known;
                self.outputs.push_back(Output::Persist { lease: lease.clone(), term: known });
            }
            let claim = claim_now(lease, contest, &self.node, now, is_failing);
            if claim != contest.published {
                let before = std::mem::replace(&mut contest.published, claim);
                tell(&mut self.outputs, contest, before);
            }
            contest.loss = None;
        }
        self.forget();
        let is_done = self.flight.is_none() && self.contests.values().all(Contest::holds_nothing);
        if is_done && self.stopping == Stopping::Releasing {
            self.stopping = Stopping::Stopped;
            self.outputs.push_back(Output::Stopped);
        }
    }

    /// Forgets leases that are contended for no more, once no row of them is held.
    fn forget(&mut self) {
        let is_done = |contest: &Contest<R>| contest.is_leaving && contest.holds_nothing();
        if self.flight.is_some() || !self.contests.values().any(is_done) {
            return;
        }
        for (lease, contest) in &self.contests {
            if is_done(contest) && self.terms.len() < super::MAX_LEASES {
                self.terms.insert(lease.clone(), contest.history.known());
            }
        }
        self.contests.retain(|_, contest| !is_done(contest));
    }
}

fn claim_now<R: Rules>(lease: &LeaseName, contest: &Contest<R>, me: &NodeId, now: Time, is_failing: bool) -> Claim {
    let known = contest.history.known();
    if let Some(led) = &contest.led {
        return Claim {
            lease: lease.clone(),
            state: LeadershipState::Led,
            leader: Some(me.clone()),
            term: led.term,
            is_me: true,
            valid_until: Some(led.until),
        };
    }
    let other = contest.history.shown().filter(|(_, _, until)| now < *until && !contest.has_own_row());
    let (state, leader, valid_until) = match other {
        Some((leader, _, until)) => (LeadershipState::Led, Some(leader), Some(until)),
        None if is_failing => (LeadershipState::Unavailable, None, None),
        None => (LeadershipState::Vacant, None, None),
    };
    Claim { lease: lease.clone(), state, leader, term: known, is_me: false, valid_until }
}

/// Reports the claim as it is now; `before` was reported last.
fn tell<R: Rules>(outputs: &mut VecDeque<Output>, contest: &Contest<R>, before: Claim) {
    let now = &contest.published;
    let lease = &now.lease;
    let is_other = before.leader != now.leader || before.is_me != now.is_me || before.term != now.term;
    let begins = now.leader.clone().filter(|_| is_other);
    if begins.is_some() && now.is_me {
        outputs.push_back(Output::Tell { lease: lease.clone(), term: now.term, is_released: false });
    }
    outputs.push_back(Output::Claim(now.clone()));
    if let Some(leader) = before.leader.filter(|_| is_other) {
        let reason = match contest.loss {
            Some(reason) if before.is_me => reason,
            _ if now.leader.is_some() || now.term > before.term => LossReason::Superseded,
            _ if contest.history.is_given_up() => LossReason::Resigned,
            _ => LossReason::Expired,
        };
        let (lease, term, was_me) = (lease.clone(), before.term, before.is_me);
        outputs.push_back(Output::Lost { lease: lease.clone(), term, leader, was_me, reason });
        if was_me {
            outputs.push_back(Output::AwaitWork { lease, term });
        }
    }
    if let Some(leader) = begins {
        let (lease, term, is_me) = (lease.clone(), now.term, now.is_me);
        outputs.push_back(Output::Elected { lease, term, leader, is_me });
    }
}
