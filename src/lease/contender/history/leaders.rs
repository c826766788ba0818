//! Leaders as they speak for themselves, compared with what the store shows: the second table of the page above.
//!
//! Invariants: at most one leader that the store does not show is waited for, the one in the highest term of those heard;
//! a word that agrees with the store is never waited for by this.
//!
//! Must not know: when a lease is taken.

use super::{LeaseHistory, SeenHolder};
use crate::Seen;
use crate::rules::Rules;
use headcount_core::{NodeId, Time};

/// The number of leases for which a leader by another database is waited for after its last word, if the store knows its
/// term or a higher one: one until its own database gives the lease to another node, and one more to hear of that one.
/// (A store that knows less has lost commits, most likely: then one lease does, since it is the leader's own as well.)
pub(super) const LEASES_ELSEWHERE: u32 = 2;

/// A leader that was heard, and that the store has not shown.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Elsewhere {
    node: NodeId,
    term: u64,
    /// The times of its first word and of its last one.
    since: Time,
    last: Time,
    /// True if the store was asked since its first word, and knows its term or a higher one, but not as its own.
    is_contradicted: bool,
}

/// A reign that has ended.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Over {
    node: NodeId,
    term: u64,
    /// True if the store showed its holder, and then that it is over.
    was_shown: bool,
}

impl<R: Rules> LeaseHistory<R> {
    /// Returns true if this leader was heard before, and the store that was asked since then does not know it, or shows
    /// a row of it that has stood still for a whole lease.
    pub(crate) fn is_contradicted(&self, term: u64, leader: &NodeId) -> bool {
        let is_this = |elsewhere: &Elsewhere| elsewhere.node == *leader && elsewhere.term == term;
        let stands = |last_seen: &SeenHolder| last_seen.left.2 >= last_seen.first + last_seen.lease;
        self.elsewhere.as_ref().is_some_and(|elsewhere| is_this(elsewhere) && elsewhere.is_contradicted)
            || (self.shows(term, leader) && self.last_seen.as_ref().is_some_and(stands))
    }

    /// Returns the leader that was heard, that the store has not shown, and that is still waited for.
    pub(crate) fn waits_for(&self, now: Time) -> Option<&NodeId> {
        self.elsewhere_until().filter(|until| now < *until)?;
        self.elsewhere.as_ref().map(|elsewhere| &elsewhere.node)
    }

    /// Notes that this node is a member no more. A lease after its last word, when what it claimed by then is over, it is
    /// waited for no more if the store shows a holder in a later term that has moved since: then its word was a late one,
    /// most likely, and not of another database, where a successor would have to be heard first. A row that stands still
    /// says nothing: its holder may be long dead, while this node stands still and its claim does not end.
    pub(crate) fn forget_gone(&mut self, now: Time, node: &NodeId) {
        let Some(shown) = &self.last_seen else { return };
        let (rules, longest) = (self.rules, self.longest);
        self.elsewhere.take_if(|elsewhere| {
            let is_late = rules.is_waited_out(now, elsewhere.last, shown.first, longest);
            elsewhere.node == *node && elsewhere.term < shown.term && is_late
        });
    }

    /// Notes that this node says that it leads, or that it has given its term up.
    pub(super) fn note_leader(&mut self, now: Time, leader: &NodeId, term: u64, is_given_up: bool) {
        let is_over = self.over.as_ref().is_some_and(|over| over.node == *leader && over.term == term);
        if self.shows(term, leader) || (is_given_up && is_over && self.over.as_ref().is_some_and(|over| over.was_shown))
        {
            self.agree(term);
        }
        if is_given_up {
            self.end_reign(leader.clone(), term, false);
        } else if self.shows(term, leader) {
            if let Some(last_seen) = self.last_seen.as_mut().filter(|last_seen| last_seen.node == *leader) {
                last_seen.said = Some(now);
            }
        } else if !is_over {
            self.note_elsewhere(now, leader, term);
        }
    }

    /// Notes that the leader in this term asks the database that this node asks. Leaders of earlier terms whose words the
    /// store did not show were its leaders as well, or will say so again.
    fn agree(&mut self, term: u64) {
        self.has_agreed = true;
        let rules = self.rules;
        self.elsewhere.take_if(|elsewhere| rules.came_late(elsewhere.term, term));
    }

    /// Notes that this node leads, as it says and the store does not show.
    fn note_elsewhere(&mut self, now: Time, leader: &NodeId, term: u64) {
        let waited_for = self.elsewhere_until().filter(|until| now < *until);
        match &mut self.elsewhere {
            Some(before) if before.node == *leader && before.term == term => before.last = now,
            Some(before) if waited_for.is_some() && before.node != *leader && before.term > term => {}
            before => {
                let node = leader.clone();
                let heard = Elsewhere { node, term, since: now, last: now, is_contradicted: false };
                *before = self.rules.waits_elsewhere(heard);
            }
        }
    }

    /// Returns the time until which the leader is waited for that the store has not shown.
    pub(super) fn elsewhere_until(&self) -> Option<Time> {
        let elsewhere = self.elsewhere.as_ref()?;
        let knows_less = self.stored.is_none_or(|stored| stored < elsewhere.term);
        Some(elsewhere.last + if knows_less { self.longest } else { self.longest * LEASES_ELSEWHERE })
    }

    /// Returns true if the store shows that this node holds the lease in this term.
    pub(super) fn shows(&self, term: u64, leader: &NodeId) -> bool {
        self.last_seen
            .as_ref()
            .is_some_and(|last_seen| last_seen.term == term && self.rules.is_named_by_row(&last_seen.node, leader))
    }

    fn end_reign(&mut self, node: NodeId, term: u64, was_shown: bool) {
        self.elsewhere.take_if(|elsewhere| elsewhere.node == node && elsewhere.term <= term);
        self.over = Some(Over { node, term, was_shown });
    }

    /// Compares the leader that was heard with an answer of the store, to a round that was handed out at `sent`; the
    /// store showed `before` last.
    pub(super) fn compare(&mut self, before: Option<(NodeId, u64)>, seen: &Seen, sent: Time) {
        if let Some((node, term)) = before
            && (seen.term > term || (seen.term == term && seen.is_free()))
        {
            self.end_reign(node, term, true);
        }
        let Some(mut elsewhere) = self.elsewhere.take() else { return };
        if self.shows(elsewhere.term, &elsewhere.node) {
            if let Some(last_seen) = &mut self.last_seen {
                last_seen.said = Some(elsewhere.last);
            }
            self.has_agreed = true;
        } else {
            elsewhere.is_contradicted |= sent >= elsewhere.since && seen.term >= elsewhere.term;
            self.elsewhere = Some(elsewhere);
        }
    }
}
