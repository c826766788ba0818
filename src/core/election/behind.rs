//! Going on above: voters that are above their leader's term, or another electorate that ended at a higher one, have the leader
//! go on in a term above theirs.
//!
//! A voter whose attempt to be elected was in vain has voted in a later term than that of the leader that the other
//! voters kept. It may not acknowledge that leader any more, and nobody but itself would ever know: when another voter
//! fails, the leader falls, though a majority is there. So it answers renewals with its own term, and a leader that
//! hears this from a voter for a lease gives its claim up and stands once more, above that term, as etcd's leaders do
//! "to free this stuck node". Its voters vote for it at once: their promises keep them from voting for other
//! candidates, for whom it would be unsafe, but not for the leader that they promised to. It keeps its promise to
//! itself as well: what it led may still be ending, for as long as the claim would have lasted.
//!
//! Invariants: only a voter of the electorate moves a leader, after it has said so for a lease and by a bounded number
//! of terms; a view or a change of the electorate that is under way is settled first; nobody else leads before the time
//! of the claim that was given up is past.
//!
//! Must not know: how the voter came to be ahead.

use super::electorate::Identity;
use super::term::Term;
use super::{Action, Alarm, Context, Election, Role, Rules};
use crate::limits::MAX_TERMS_BEHIND;
use crate::member::NodeId;
use crate::time::Time;

/// A voter that is above its leader's term.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Ahead {
    term: Term,
    /// The time of its first such answer, counted anew after a pause of a lease.
    since: Time,
    heard: Time,
}

impl<R: Rules> Election<R> {
    /// Notes that a voter cannot follow this leader, since it is above the leader's term.
    pub(super) fn renewal_rejected_as_stale(
        &mut self,
        context: &Context<'_>,
        speaker: Identity,
        from: &NodeId,
        term: Term,
    ) {
        let lease = self.timing.lease_duration;
        let votes = self.electorate().is_some_and(|electorate| electorate.contains(speaker));
        let is_busy = self.is_changing();
        let Role::Leading(leading) = &mut self.role else { return self.ignore() };
        if !votes || !leading.has_claim() || term <= leading.term {
            return self.ignore();
        }
        let is_near = term.generation() == leading.term.generation() && term.0 - leading.term.0 <= MAX_TERMS_BEHIND;
        if !is_near || term.next().is_none() {
            self.ignore();
            self.actions.push_back(Action::Alarm(Alarm::TermLimit { id: from.clone() }));
            return;
        }
        let ahead = leading.ahead.entry(speaker).or_insert(Ahead { term, since: context.now, heard: context.now });
        if context.now.since(ahead.heard) > lease {
            ahead.since = context.now;
        }
        (ahead.term, ahead.heard) = (ahead.term.max(term), context.now);
        if !self.rules.goes_on_above(context.now.since(ahead.since), lease, is_busy) {
            return;
        }
        let above = leading.ahead.values().map(|ahead| ahead.term).max().unwrap_or(term);
        self.go_on_above(context, above);
    }

    /// Takes note that an electorate which gives way to this one was led up to this term: this one is led above it. That
    /// takes it [`MAX_TERMS_BEHIND`] terms further at most; those who know of a higher term say so again.
    pub fn lead_above(&mut self, context: &Context<'_>, term: Term) {
        self.expire(context);
        let term = term.min(Term(self.ballot.term.0 + MAX_TERMS_BEHIND));
        self.floor = self.floor.max(term);
        let above = self.highest_led();
        // A voter that cannot store a ballot cannot be elected above that term either.
        let is_busy = self.is_changing() || self.is_aside;
        let is_below = matches!(&self.role, Role::Leading(leading) if leading.has_claim() && leading.term <= term);
        if is_below && above >= term && self.rules.leads_above_ended(is_busy) {
            self.go_on_above(context, above);
        }
    }

    /// Gives the claim up, and stands once more, above this term: this voter knows that nobody leads.
    fn go_on_above(&mut self, context: &Context<'_>, above: Term) {
        self.rules.give_up_to_go_on(self, context);
        self.is_successor = true;
        self.stand_above(context, above);
    }
}
