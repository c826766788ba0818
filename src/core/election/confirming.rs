//! Confirming: the proof that this node still leads, for callers that must know now (a read barrier; Raft, section
//! 6.4).
//!
//! A claim says that nobody else leads for a while; it does not say that its leader was heard of lately. A question is
//! answered when a majority has acknowledged a renewal that was *sent after the question*: at that time none of that
//! majority had voted in a later term. All questions that come while one such round is under way share the next one, so
//! that a thousand questions cost two rounds.
//!
//! Invariants:
//! - Every question is answered: with yes only by an acknowledged round, with no as soon as the claim is over, and by
//!   [`BARRIER_TIMEOUT`] at the latest.
//! - At most [`MAX_BARRIERS`] questions wait.
//!
//! Must not know: what the answer is for.

use super::io::Action;
use super::refusals::{Confirmed, Unconfirmed};
use super::{Context, Election, Role, Rules};
use crate::limits::{BARRIER_TIMEOUT, MAX_BARRIERS};
use crate::time::Time;

/// The questions that wait, in the order of their arrival.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub(super) struct Confirms {
    waiting: Vec<Question>,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Question {
    ticket: u64,
    /// The first renewal that answers it.
    sequence: u64,
    until: Time,
}

impl Confirms {
    pub(super) fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    pub(super) fn deadline(&self) -> Option<Time> {
        self.waiting.iter().map(|question| question.until).min()
    }
}

impl<R: Rules> Election<R> {
    /// Asks whether this node still leads; the answer is [`Action::Confirmed`].
    pub fn confirm(&mut self, context: &Context<'_>, ticket: u64) {
        self.expire(context);
        let Some(last) = self.last_renewal().filter(|_| self.has_claim()) else {
            return self.answer_confirm(ticket, Err(Unconfirmed::NotLeader));
        };
        if self.confirms.waiting.len() >= MAX_BARRIERS {
            return self.answer_confirm(ticket, Err(Unconfirmed::Busy));
        }
        let sequence = self.rules.proved_by(last);
        self.confirms.waiting.push(Question { ticket, sequence, until: context.now + BARRIER_TIMEOUT });
        self.ask_for_confirmation(context);
    }

    /// Begins the next round, unless one is under way.
    fn ask_for_confirmation(&mut self, context: &Context<'_>) {
        let Some(last) = self.last_renewal() else { return };
        let is_under_way = |question: &Question| question.sequence <= last;
        if !self.confirms.is_empty() && !self.confirms.waiting.iter().any(is_under_way) {
            self.renew(context);
        }
    }

    /// Answers the questions that a majority's acknowledgement of this renewal confirms; the claim lasts longer.
    pub(super) fn confirmed(&mut self, context: &Context<'_>, sequence: u64, until: Time) {
        let Role::Leading(leading) = &self.role else { return };
        let term = leading.term;
        self.answer_confirms(|question| question.sequence <= sequence, Ok(Confirmed { term, until }));
        self.ask_for_confirmation(context);
    }

    /// Answers all questions with no: this node leads no more, or gives leadership up.
    pub(super) fn fail_confirmations(&mut self) {
        self.answer_confirms(|_| true, Err(Unconfirmed::Lost));
    }

    /// Answers the questions for which too few voters have answered in time.
    pub(super) fn expire_confirms(&mut self, context: &Context<'_>) {
        self.answer_confirms(|question| context.now >= question.until, Err(Unconfirmed::TimedOut));
    }

    /// Answers the questions for which `is_such` holds.
    fn answer_confirms(&mut self, is_such: impl Fn(&Question) -> bool, result: Result<Confirmed, Unconfirmed>) {
        let (such, others) = std::mem::take(&mut self.confirms.waiting).into_iter().partition(is_such);
        self.confirms.waiting = others;
        let such: Vec<Question> = such;
        for question in such {
            self.answer_confirm(question.ticket, result);
        }
    }

    fn answer_confirm(&mut self, ticket: u64, result: Result<Confirmed, Unconfirmed>) {
        self.actions.push_back(Action::Confirmed { ticket, result });
    }
}
