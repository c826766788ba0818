//! Asking: the contents of a round, and its time.
//!
//! A leader renews; a contender that may take a lease tries to; a lease that is held in vain, or was to be given up and
//! whose work has ended, is released; all others are read. Every round writes the liveness row.
//!
//! Must not know: how an answer is judged.

use std::time::Duration;

use super::history::Taking;
use super::rules::Rules;
use super::timing::NOTICE_JITTER;
use super::{Contender, ContenderAlarm, MAX_TERM, Stopping};
use crate::{LeaseName, Outcome, Round, Step, StepRequest, Token};
use headcount_core::Time;

/// A round under way.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Flight {
    /// The time at which it was handed out.
    pub(super) sent: Time,
    /// The requests of the round, in the order of its steps.
    pub(super) asked: Vec<(LeaseName, RequestKind)>,
}

/// The kind of request that was made about a lease.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum RequestKind {
    Watch,
    Acquire(Token),
    Renew(Token),
    Release,
}

impl<R: Rules> Contender<R> {
    /// Returns the round that is due; `None` if none is, or one is under way.
    pub fn begin(&mut self, now: Time) -> Option<Round> {
        self.expire(now);
        self.publish(now);
        if self.flight.is_some() || self.stopping == Stopping::Stopped || now < self.next_round() {
            return None;
        }
        let names: Vec<LeaseName> = self.contests.keys().cloned().collect();
        let mut flight = Flight { sent: now, asked: Vec::with_capacity(names.len()) };
        let mut steps = Vec::with_capacity(names.len());
        for lease in names {
            let (request, asked) = self.request(now, &lease);
            flight.asked.push((lease.clone(), asked));
            steps.push(Step { lease, request });
        }
        self.flight = Some(flight);
        Some(Round { node: self.node.clone(), rpc_address: None, lease_duration: self.timing.lease_duration, steps })
    }

    pub(super) fn next_round(&self) -> Time {
        self.contests.values().map(|contest| contest.due).fold(self.heartbeat_at, Time::min)
    }

    fn request(&mut self, now: Time, lease: &LeaseName) -> (StepRequest, RequestKind) {
        let (own_lease, must_not_lead) = (self.timing.lease_duration, self.must_not_lead());
        let drawn = self.rng.token();
        let contest = self.contests.get_mut(lease).expect("it is a name of theirs");
        let may_lead = contest.may_lead(now, must_not_lead);
        if contest.led.is_some() {
            let held = contest.drawn.tokens();
            let drawn = self.rules.token_to_write(drawn, &held);
            contest.drawn.note(drawn, now);
            let held = self.rules.tokens_to_name(held);
            return (StepRequest::Renew { held, drawn }, RequestKind::Renew(drawn));
        }
        let is_to_go = contest.given_up.is_some() || contest.unused_term.is_some();
        if is_to_go && !self.rules.holds_release_up(contest.is_at_work()) && !contest.drawn.is_empty() {
            // The release may be carried out late, whatever is heard of it.
            contest.drawn.give_up();
            return (StepRequest::Release { held: contest.drawn.tokens() }, RequestKind::Release);
        }
        let above = self.rules.acquires_above(contest.history.known(), contest.floor);
        let may_acquire = may_lead && above < MAX_TERM;
        let taking = if may_acquire { contest.history.may_take(now, own_lease) } else { Taking::No };
        let (expired, missing) = match taking {
            Taking::No => return (StepRequest::Watch, RequestKind::Watch),
            Taking::Free => (None, None),
            Taking::FreeOrExpired(token) => (Some(token), None),
            Taking::FreeOrMissing(term) => (None, Some(term)),
        };
        contest.drawn.note(drawn, now);
        (StepRequest::Acquire { drawn, above, expired, missing }, RequestKind::Acquire(drawn))
    }

    /// Notes that the round under way was not answered. If its outcome is known, nothing of it was carried out, nor
    /// will be.
    pub fn failed(&mut self, now: Time, is_outcome_known: bool) {
        self.expire(now);
        let Some(flight) = self.flight.take() else {
            return;
        };
        self.failures = self.failures.saturating_add(1);
        let silence = now.since(self.answered_at);
        if !self.is_unreachable && silence >= self.timing.renewal_interval * 2 {
            self.is_unreachable = true;
            self.alarm(ContenderAlarm::Unreachable { since: silence });
        }
        for (lease, asked) in flight.asked {
            let Some(contest) = self.contests.get_mut(&lease) else { continue };
            if let (RequestKind::Acquire(token) | RequestKind::Renew(token), true) = (asked, is_outcome_known) {
                contest.drawn.forget(token);
            }
            if let Some(reason) = self.rules.loss_by_failure() {
                contest.lose(reason);
            }
        }
        let at = now + self.pause(now);
        self.heartbeat_at = at;
        for contest in self.contests.values_mut() {
            contest.due = at;
        }
        self.publish(now);
    }

    /// Returns the pause after a failure: longer each time, but no held lease runs out without another try.
    fn pause(&mut self, now: Time) -> Duration {
        let backoff = self.timing.backoff(self.failures);
        let pause = backoff / 2 + self.rng.part_of(backoff / 2);
        let ends = self.contests.values().filter_map(|contest| contest.led.as_ref()).map(|led| led.until).min();
        match ends {
            Some(until) => self.rules.pause_while_held(pause, until.since(now)),
            None => pause,
        }
    }

    /// Sets the time at which this lease is asked about next, after an answer to a round that was handed out at `sent`.
    pub(super) fn schedule(&mut self, now: Time, lease: &LeaseName, sent: Time, asked: RequestKind, outcome: Outcome) {
        let heartbeat = sent + self.rng.nearly(self.timing.renewal_interval);
        let renewal = sent + self.rng.nearly(self.rules.pace(&self.timing));
        let jitter = self.rng.part_of(NOTICE_JITTER);
        let again = self.rng.nearly(self.timing.backoff(1));
        let (own_lease, must_not_lead) = (self.timing.lease_duration, self.must_not_lead());
        let Some(contest) = self.contests.get_mut(lease) else {
            return;
        };
        let may_lead = contest.may_lead(now, must_not_lead);
        contest.due = if contest.led.is_some() {
            // An adopted acquisition is old already.
            if matches!(asked, RequestKind::Renew(_)) || outcome == Outcome::Acquired { renewal } else { now }
        } else if contest.is_at_work() {
            heartbeat
        } else if contest.unused_term.is_some() || (!may_lead && !contest.drawn.is_empty()) {
            now + if asked == RequestKind::Release { again } else { jitter }
        } else if !may_lead {
            let until = contest.held_off_until.max(contest.led_elsewhere_until);
            until.map_or(heartbeat, |until| heartbeat.min(until.max(now)))
        } else {
            match (asked, outcome, contest.history.opens_at(now, own_lease)) {
                (_, Outcome::Conflict, _) => now + again,
                // The lease was asked for in vain, and may be had only later.
                (RequestKind::Acquire(_), _, Some(at)) if at <= now => heartbeat,
                (_, _, Some(at)) if at <= now => now + jitter,
                (_, _, Some(at)) => heartbeat.min(at + jitter),
                (_, _, None) => heartbeat,
            }
        };
    }
}
