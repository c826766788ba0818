//! Answering: the judgement of a store's answers.
//!
//! Invariants: a claim rests on a row that was seen to bear a token drawn here, in a term above all that were known
//! before that answer; it counts from when the round was handed out that was to write the token.
//!
//! Must not know: when rounds are sent.

use std::time::Duration;

use super::asking::{Flight, RequestKind};
use super::contest::{Contest, HeldTerm};
use super::rules::Rules;
use super::timing::{MAX_TOLD_AGAIN, STEP_TOLERANCE, TOLD_AGAIN};
use super::{Contender, ContenderAlarm, MAX_TERM, Output};
use crate::{Answer, Holder, LeaseName, Outcome, Seen};
use headcount_core::Time;
use headcount_core::election::LossReason;

impl<R: Rules> Contender<R> {
    /// Takes the answer to the round under way.
    pub fn answered(&mut self, now: Time, answer: &Answer) {
        self.expire(now);
        if self.flight.as_ref().is_some_and(|flight| !fits(flight, answer)) {
            self.alarm(ContenderAlarm::StrangeAnswer);
            self.failed(now, false);
            return;
        }
        let Some(Flight { sent, asked }) = self.flight.take() else { return };
        self.failures = 0;
        self.answered_at = sent;
        if std::mem::take(&mut self.is_unreachable) {
            self.alarm(ContenderAlarm::ReachableAgain);
        }
        self.heartbeat_at = sent + self.rng.nearly(self.timing.renewal_interval);
        for ((lease, asked), seen) in asked.into_iter().zip(&answer.steps) {
            if seen.term > MAX_TERM {
                let term = seen.term;
                self.alarm(ContenderAlarm::TermLimit { lease: lease.clone(), term });
                self.reject(&lease);
            } else if seen.outcome == Outcome::Unreadable {
                self.alarm(ContenderAlarm::Unreadable { lease: lease.clone() });
                self.leave_unread(&lease, asked);
            } else {
                if seen.outcome == Outcome::Exhausted || (seen.term == MAX_TERM && seen.holder.is_none()) {
                    self.alarm(ContenderAlarm::TermsExhausted { lease: lease.clone() });
                }
                self.learn(now, &lease, asked, seen, sent);
            }
            self.schedule(now, &lease, sent, asked, seen.outcome);
        }
        self.tell_again(now);
        self.publish(now);
    }

    /// Tells all others again of leases that this node leads by, those first that were told of longest ago. After an
    /// answer, since every lease that is still led by then was renewed by it.
    fn tell_again(&mut self, now: Time) {
        let pause = self.timing.lease_duration / TOLD_AGAIN;
        let led = self.contests.iter_mut().filter_map(|(lease, contest)| Some((lease, contest.led.as_mut()?)));
        let mut due: Vec<_> = led.filter(|(_, led)| now.since(led.published) >= pause).collect();
        due.sort_by_key(|(_, led)| led.published);
        for (lease, led) in due.into_iter().take(MAX_TOLD_AGAIN) {
            led.published = now;
            self.outputs.push_back(Output::Tell { lease: lease.clone(), term: led.term, is_released: false });
        }
    }

    fn reject(&mut self, lease: &LeaseName) {
        if let Some(contest) = self.contests.get_mut(lease) {
            contest.lose(LossReason::Rejected);
        }
    }

    /// Takes the answer that a lease's rows cannot be read. Everything known of the lease stays; a node that led by it
    /// leads no more, since its row shows no token of its own.
    fn leave_unread(&mut self, lease: &LeaseName, asked: RequestKind) {
        let Some(contest) = self.contests.get_mut(lease) else { return };
        match asked {
            RequestKind::Watch => {}
            RequestKind::Acquire(token) => contest.drawn.disown(token),
            RequestKind::Renew(_) => {
                contest.drawn.clear();
                contest.lose(LossReason::Rejected);
            }
            RequestKind::Release => {
                contest.drawn.clear();
                contest.given_up = None;
                contest.unused_term = None;
            }
        }
    }

    fn learn(&mut self, now: Time, lease: &LeaseName, asked: RequestKind, seen: &Seen, sent: Time) {
        let must_not_lead = self.must_not_lead();
        let Some(contest) = self.contests.get_mut(lease) else {
            return;
        };
        self.outputs.extend(alarms(contest, &self.node, seen, sent, now));
        let holder = seen.holder.as_ref();
        let is_drawn = |token| holder.is_some_and(|holder| holder.node == self.node && holder.token == token);
        let mut gained = None;
        match asked {
            RequestKind::Acquire(token) if seen.outcome == Outcome::Acquired && is_drawn(token) => {
                contest.drawn.keep_only(token);
                gained = Some(sent);
            }
            RequestKind::Acquire(token) => contest.drawn.forget(token),
            RequestKind::Renew(token) if seen.outcome == Outcome::Renewed && is_drawn(token) => {
                contest.drawn.keep_only(token);
                let term = holder.map_or(0, |holder| holder.term);
                let until = self.rules.claim_begins(sent, now) + claim(holder, self.timing.lease_duration, self.rules);
                match &mut contest.led {
                    Some(led) if led.term == term && seen.term == term => {
                        led.until = led.until.max(until);
                    }
                    // The row is of a term that was led before commits were lost.
                    Some(_) => contest.lose(LossReason::Rejected),
                    None => contest.led = self.rules.led_after_the_end(HeldTerm { term, until, published: now }),
                }
            }
            RequestKind::Renew(_) => {
                let is_superseded =
                    holder.is_some_and(|holder| Some(holder.term) > contest.led.as_ref().map(|led| led.term));
                contest.drawn.clear();
                if let Some(reason) = self.rules.loss_by_rejection(is_superseded) {
                    contest.lose(reason);
                }
            }
            RequestKind::Release if matches!(seen.outcome, Outcome::Released | Outcome::Rejected) => {
                contest.drawn.clear();
                contest.given_up = None;
                contest.unused_term = None;
                if seen.outcome == Outcome::Released {
                    self.outputs.push_back(Output::Tell { lease: lease.clone(), term: seen.term, is_released: true });
                }
            }
            RequestKind::Watch | RequestKind::Release => {}
        }
        let known = contest.history.known();
        let own = holder.filter(|holder| holder.node == self.node);
        let draw = own.and_then(|own| self.rules.own_draw(contest.drawn.find(own.token), own, sent));
        match (draw, holder) {
            (Some(draw), Some(holder)) if contest.led.is_none() && gained.is_none() => {
                let is_own_term = contest.given_up.as_ref().is_some_and(|given_up| given_up.term == holder.term);
                let is_known_idle = contest.unused_term == Some(holder.term);
                let is_alive = !holder.expires_in.is_zero();
                if !is_own_term && !is_known_idle {
                    // The answer to its acquisition was lost.
                    let is_adopted = is_alive && self.rules.may_adopt(draw.is_adoptable);
                    let from = self.rules.adopted_from(draw.sent, now);
                    gained = Some(if is_adopted { from } else { Time::default() });
                }
            }
            // A token that was drawn before this and is written late belongs to an earlier time.
            (None, Some(_)) if contest.led.is_none() => contest.drawn.give_up(),
            _ => {}
        }
        if draw.is_none() && contest.holds_no_term() && !contest.may_lead(now, must_not_lead) {
            contest.drawn.clear();
        }
        contest.history.saw(seen, sent, now);
        if let (Some(from), Some(holder)) = (gained, holder) {
            self.gain(now, lease, holder, from, known);
        }
    }

    /// Takes over the lease: the row bears a token drawn here, and has since `from` or later (if that was long ago, no
    /// claim rests on it); `known` is the highest term known before that was seen.
    fn gain(&mut self, now: Time, lease: &LeaseName, holder: &Holder, from: Time, known: u64) {
        let must_not_lead = self.must_not_lead();
        let Some(contest) = self.contests.get_mut(lease) else { return };
        let until = self.rules.claim_begins(from, now) + claim(Some(holder), self.timing.lease_duration, self.rules);
        if self.rules.was_led_before(holder.term, known) {
            // Commits were lost: this term is another node's as well, or lies before one. A release of it would look as
            // if that node had released it. The row is left to run out, and others wait for it as for any holder.
            contest.drawn.disown(holder.token);
            return;
        }
        contest.drawn.keep_only(holder.token);
        if until <= now || !contest.may_lead(now, must_not_lead) {
            // The row is released as soon as possible.
            contest.drawn.give_up();
            contest.unused_term = Some(holder.term);
            return;
        }
        contest.held_off_until = None;
        contest.led = Some(HeldTerm { term: holder.term, until, published: now });
    }
}

/// Returns the length of the claim that this row stands for, from before it was asked for.
fn claim(holder: Option<&Holder>, own: Duration, rules: impl Rules) -> Duration {
    rules.claim_length(holder.map_or(own, |holder| holder.lease_duration.min(own)))
}

/// Returns true if an answer fits its round. Data from outside is not trusted: an answer must have one step for each
/// that was asked, and no holder of a term that was never given.
fn fits(flight: &Flight, answer: &Answer) -> bool {
    let is_sound = |seen: &Seen| seen.holder.as_ref().is_none_or(|holder| holder.term <= seen.term);
    flight.asked.len() == answer.steps.len() && answer.steps.iter().all(is_sound)
}

/// Returns the alarms that this answer raises for an operator.
fn alarms<R: Rules>(
    contest: &mut Contest<R>,
    node: &headcount_core::NodeId,
    seen: &Seen,
    sent: Time,
    now: Time,
) -> Vec<Output> {
    let mut alarms = Vec::new();
    let lease = || contest.published.lease.clone();
    let known = contest.history.known();
    // After lost commits a row is what it was at some time, by whatever token and expiry: that tells of no other agent, and
    // nothing of the clock.
    let is_old = seen.term < known;
    if is_old {
        // A round may be under way while its term is heard of.
        if contest.fell_below != Some(known) && contest.history.has_fallen(seen, sent) {
            contest.fell_below = Some(known);
            alarms.push(ContenderAlarm::TermFell { lease: lease(), known, stored: seen.term });
        }
    } else {
        contest.fell_below = None;
    }
    let is_former = seen.holder.as_ref().is_some_and(|holder| contest.drawn.is_former(holder.token));
    if let Some(step) = contest.history.clock_step(seen, sent, now, STEP_TOLERANCE).filter(|_| !is_former) {
        alarms.push(ContenderAlarm::ClockStepped { lease: lease(), by: step.by, is_forward: step.is_forward });
    }
    if let Some(holder) = seen.holder.as_ref().filter(|_| !is_old && !is_former) {
        let is_stranger = holder.node == *node && !contest.drawn.is_own(holder.token);
        if is_stranger && contest.foreign_token != Some(holder.token) {
            // The first such row may be left from an earlier life of this node; a leader knows better.
            if contest.foreign_token.is_some() || contest.led.is_some() {
                alarms.push(ContenderAlarm::NameTwice { lease: lease() });
            }
            contest.foreign_token = Some(holder.token);
        }
        if let Some(led) = &contest.led
            && seen.outcome == Outcome::Rejected
            && contest.drawn.find(holder.token).is_some()
            && holder.expires_in.is_zero()
        {
            let by = led.until.since(now);
            alarms.push(ContenderAlarm::ClockStepped { lease: lease(), by, is_forward: true });
        }
    }
    alarms.into_iter().map(Output::Alarm).collect()
}
