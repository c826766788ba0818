//! Voters that are above their leader's term: the leader goes on in a term above theirs.
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
use super::message::Body;
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
    /// Answers a renewal of a term that is over for this voter.
    pub(super) fn reject_stale_renewal(&mut self, leader: &NodeId) {
        self.send(leader, Body::Behind { term: self.ballot.term });
    }

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
        let Role::Leading(leading) = &mut self.role else {
            self.ignored += 1;
            return;
        };
        if !votes || !leading.has_claim() || term <= leading.term {
            self.ignored += 1;
            return;
        }
        let is_near = term.generation() == leading.term.generation() && term.0 - leading.term.0 <= MAX_TERMS_BEHIND;
        if !is_near || term.next().is_none() {
            self.ignored += 1;
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
        self.rules.give_up_to_go_on(self, context);
        // This voter knows that nobody leads.
        self.is_successor = true;
        self.stand_above(context, above);
    }
}
