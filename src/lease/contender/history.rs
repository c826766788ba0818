//! The history of a lease: its known terms, the holder that was seen, and the time for which that holder is waited
//! for.
//!
//! Of a row, of terms, and of what leaders say:
//!
//! | known of the lease | it may be taken |
//! |---|---|
//! | no term was ever led | at once |
//! | the highest term was given up: so reported, or the row of that very term says so | at once |
//! | its row is missing | once it was missing for a whole lease, by this clock |
//! | a node holds it | once the same token has stood for a whole lease, by this clock, and a whole lease after the holder's last word that it leads; the store adds: and has expired |
//! | the store knows less than was known before | as above, and not before a whole lease after that was first seen, nor after the last word of that term's leader |
//! | the store gave the known term to another node than the one that says it leads in it | as above, and not before a whole lease after the last word of the latter |
//!
//! **A leader that another database shows is waited for, whatever its term.** The words are LED and RELEASED of the
//! leader itself: whoever merely knows of a term is no leader, and makes nobody wait longer than the term does.
//!
//! | heard | the own store | then | without it |
//! |---|---|---|---|
//! | nothing yet: this node has just become a member among others | shows anything | it listens for half a lease | a newcomer at another database leads beside a healthy leader that it has not heard yet |
//! | LED, or RELEASED, of a node in a term | shows that node in that term, or showed it last | one database: it listens no more, and words of lower terms were late ones: they are waited for no more | a leader that gives up after its followers were restarted has no successor for half a lease; nor has one that follows an ended reign, for two |
//! | LED of a node in a term | has shown that reign, and that it is over; or RELEASED of that term was heard before | nothing: the word is late | a late word makes everybody wait |
//! | LED of a node in a term | shows that node in that term, but the same token for a whole lease | it is waited for until two leases after its last word (until one, if the token has not stood so long); the alarm is raised | who asks a copy of the database (a backup, a replica that was promoted) leads beside a healthy leader |
//! | LED of a node in a term | knows only lower terms | it is waited for until a lease after its last word: the store lost commits, most likely, and its leader's claim was counted by it as well | who asks an emptied database leads beside a healthy leader |
//! | LED of a node in a term | knows this term, or higher ones, and never showed that node in it | it is waited for until two leases after its last word: one until its own database has a successor, and one to hear of that one; the alarm is raised with its second word | who asks a database that is ahead deposes a healthy leader, and leads beside it if its word does not count yet |
//! | as the row above, and then that the node is no member any more | shows a holder in a later term, whose token has changed since the last word | it is waited for until a lease after its last word: it was a late one, most likely | a pause over a change of leaders costs the next succession up to two leases |
//! | as the row above, and then that the node is no member any more | shows none in a later term, or one whose token stands still | it is waited for as before: a successor by its own database has to be heard first | two leaders, when the leader of another database dies, or stands still for less than its lease |
//!
//! A whole lease is the longest that was seen or that this node has itself: the holder's claim is shorter by the
//! margin.
//!
//! Invariants: the known term never falls; a time of waiting begins when an answer has *come*, and ends before a round
//! is *sent*, so that the row stood at least as long.
//!
//! Must not know: whether this node wants to lead; what a claim is.
//!
//! | idea | file |
//! |---|---|
//! | the second table: leaders as they speak for themselves | `leaders` |

mod leaders;

use std::time::Duration;

use super::rules::Rules;
use crate::{Holder, Seen, Token};
use headcount_core::election::MAX_LEASE;
use headcount_core::{NodeId, Time};
pub(super) use leaders::Elsewhere;
use leaders::{LEASES_ELSEWHERE, Over};

/// The number of tokens of others that are remembered: a row that shows one of them again is older than what was seen.
const MAX_FORMER: usize = 16;

/// The holder that was seen last.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct SeenHolder {
    pub(super) node: NodeId,
    pub(super) token: Token,
    pub(super) term: u64,
    /// The time at which this token was seen first.
    pub(super) first: Time,
    /// The time at which the holder itself said last, while the store showed it, that it leads in this term.
    said: Option<Time>,
    lease: Duration,
    /// The store's last word on its expiry: the time left, and the times at which the round was sent and answered.
    left: (Duration, Time, Time),
}

/// A difference between the store's clock and this one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct ClockStep {
    pub(super) by: Duration,
    pub(super) is_forward: bool,
}

/// The ways in which an acquisition may be asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Taking {
    /// The lease may not be asked for.
    No,
    /// The lease may be acquired if it is free.
    Free,
    /// The lease may be acquired if it is free, or held by this token and expired.
    FreeOrExpired(Token),
    /// The lease may be acquired if it is free, or if the row of this term is missing.
    FreeOrMissing(u64),
}

/// The knowledge of one lease.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct LeaseHistory<R> {
    /// The highest term that is known to have been led; 0 if none is.
    known: u64,
    /// True if its leader is known to have given it up.
    is_given_up: bool,
    /// The time at which that became known.
    since: Time,
    /// The term that the store reported last; `None` before the first answer.
    stored: Option<u64>,
    last_seen: Option<SeenHolder>,
    /// The tokens that were seen before that holder's, oldest first; at most [`MAX_FORMER`].
    former: Vec<Token>,
    /// The stored term whose row is missing, and the time at which that was seen first.
    missing: Option<(u64, Time)>,
    /// The time before which the lease is not taken, since commits were lost and their holder may not know it yet.
    barred_until: Option<Time>,
    /// The known term whose commit was found lost last; 0 before any. Its holder was waited for until `barred_until`.
    waited_for: u64,
    longest: Duration,
    /// The time until which a newcomer listens to the members, who may know terms and a leader that it does not.
    listens_until: Option<Time>,
    /// True if a leader's word agreed with what the store shows: this node asks the database that the leader asks, and
    /// has nothing to listen for.
    has_agreed: bool,
    elsewhere: Option<Elsewhere>,
    /// The reign that ended last, as the store or its leader's own word showed: words of it are late.
    over: Option<Over>,
    pub(super) rules: R,
}

impl<R: Rules> LeaseHistory<R> {
    pub(super) fn new(known: u64, own_lease: Duration, now: Time, rules: R) -> Self {
        Self {
            known,
            is_given_up: false,
            since: now,
            stored: None,
            last_seen: None,
            former: Vec::new(),
            missing: None,
            barred_until: None,
            waited_for: 0,
            longest: own_lease,
            listens_until: None,
            has_agreed: false,
            elsewhere: None,
            over: None,
            rules,
        }
    }

    pub(super) fn known(&self) -> u64 {
        self.known
    }

    /// Returns true if this answer to a round that was handed out at `sent` lacks the known term: it was there before
    /// anybody could report it, so that an answer to a round since then shows that its commit was lost.
    pub(super) fn has_fallen(&self, seen: &Seen, sent: Time) -> bool {
        seen.term < self.known && sent >= self.since
    }

    pub(super) fn is_given_up(&self) -> bool {
        self.is_given_up
    }

    pub(super) fn last_seen(&self) -> Option<&SeenHolder> {
        self.last_seen.as_ref()
    }

    /// Leaves the lease alone until then.
    pub(super) fn listen_until(&mut self, until: Time) {
        self.listens_until = Some(until);
    }

    /// Returns the time until which a newcomer listens.
    fn listens(&self, now: Time) -> Option<Time> {
        let listens = self.rules.listens(self.known, self.has_agreed);
        self.listens_until.filter(|until| now < *until && listens)
    }

    /// Returns true if a newcomer listens still.
    pub(super) fn is_listening(&self, now: Time) -> bool {
        self.listens(now).is_some()
    }

    /// Returns true if the store shows this term as given to another node than this one.
    pub(super) fn is_given_to_another(&self, term: u64, leader: &NodeId) -> bool {
        self.last_seen
            .as_ref()
            .is_some_and(|last_seen| last_seen.term == term && !self.rules.is_named_by_row(&last_seen.node, leader))
    }

    /// Takes a report of a term, by the node that leads or led in it, or (`None`) by one that merely knows of it.
    /// Returns true if it is news.
    pub(super) fn heard(&mut self, now: Time, by: Option<&NodeId>, term: u64, is_given_up: bool) -> bool {
        if let Some(leader) = by {
            self.note_leader(now, leader, term, is_given_up);
        }
        let is_news = term > self.known || (term == self.known && is_given_up && !self.is_given_up);
        if is_news {
            (self.known, self.is_given_up, self.since) = (term, is_given_up, now);
        } else if term == self.known
            && !self.is_given_up
            && by.is_some_and(|leader| {
                self.rules.is_ahead_of_store(self.stored, term) || self.is_given_to_another(term, leader)
            })
        {
            // A leader that says so again has renewed: it lives, by another database than this node's.
            self.bar(now);
        }
        is_news
    }

    /// Takes an answer that has come at `now`, to a round that was handed out at `sent`.
    pub(super) fn saw(&mut self, seen: &Seen, sent: Time, now: Time) {
        self.learn_term(seen, sent, now);
        self.stored = Some(seen.term);
        let is_lost =
            |last_seen: &SeenHolder| last_seen.term > seen.term && !(self.is_given_up && last_seen.term == self.known);
        if self.last_seen.as_ref().is_some_and(is_lost) {
            // The holder that was seen may not know that its term is there no more.
            self.bar(now);
        }
        self.missing = match self.missing {
            _ if seen.holder.is_some() || seen.is_free() => None,
            Some((term, since)) if term == seen.term => Some((term, since)),
            _ => Some((seen.term, now)),
        };
        let before = self.last_seen.as_ref().map(|last_seen| (last_seen.node.clone(), last_seen.term));
        self.learn_holder(seen.holder.as_ref(), sent, now);
        self.compare(before, seen, sent);
    }

    fn learn_term(&mut self, seen: &Seen, sent: Time, now: Time) {
        let is_free = seen.is_free();
        if seen.term > self.known {
            (self.known, self.is_given_up, self.since) = (seen.term, is_free, now);
        } else if seen.term == self.known {
            if is_free {
                self.is_given_up = true;
            } else if sent > self.since {
                // A release that was reported and is not in the row was lost, or was another holder's.
                self.is_given_up = false;
            }
        } else if !self.is_given_up
            && self.waited_for != self.known
            && let Some(from) = self.rules.waits_from(self.has_fallen(seen, sent), sent, now)
        {
            self.waited_for = self.known;
            self.bar(from);
        }
    }

    fn learn_holder(&mut self, holder: Option<&Holder>, sent: Time, now: Time) {
        let Some(holder) = holder else {
            self.last_seen = None;
            return;
        };
        let lease = holder.lease_duration.min(MAX_LEASE);
        self.longest = self.longest.max(lease);
        let before = self.last_seen.take();
        if before.as_ref().is_some_and(|last_seen| last_seen.term == holder.term && last_seen.node != holder.node) {
            // One term, two holders: the first one's commit was lost, and it may not know it yet.
            self.bar(now);
        }
        if let Some(last_seen) = before.as_ref().filter(|last_seen| last_seen.token != holder.token) {
            if self.former.len() == MAX_FORMER {
                self.former.remove(0);
            }
            self.former.push(last_seen.token);
        }
        let is_reign = |last_seen: &&SeenHolder| last_seen.node == holder.node && last_seen.term == holder.term;
        let said = before.as_ref().filter(is_reign).and_then(|last_seen| last_seen.said);
        let first = before
            .filter(|last_seen| self.rules.is_unchanged(last_seen, holder))
            .map_or(now, |last_seen| last_seen.first);
        self.last_seen = Some(SeenHolder {
            node: holder.node.clone(),
            token: holder.token,
            term: holder.term,
            first,
            said,
            lease,
            left: (holder.expires_in, sent, now),
        });
    }

    fn bar(&mut self, from: Time) {
        let until = from + self.longest;
        self.barred_until = Some(self.barred_until.map_or(until, |barred| barred.max(until)));
    }

    /// Returns the way in which an acquisition may be asked for at this time.
    pub(super) fn may_take(&self, now: Time, own_lease: Duration) -> Taking {
        let taking = self.taking(now, own_lease);
        if self.last_seen.is_none() { self.rules.taking_of_vacant_row(taking) } else { taking }
    }

    fn taking(&self, now: Time, own_lease: Duration) -> Taking {
        if self.is_barred(now) || self.listens(now).is_some() {
            return Taking::No;
        }
        match &self.last_seen {
            Some(last_seen) if now >= self.stands_until(last_seen, own_lease) => Taking::FreeOrExpired(last_seen.token),
            // Its release is reported, and may be written by now.
            Some(_) if self.is_open() => Taking::Free,
            None if let Some((term, since)) = self.missing
                && now >= self.rules.missing_until(since, self.longest) =>
            {
                Taking::FreeOrMissing(term)
            }
            None if self.is_open() || self.is_waited_for() => Taking::Free,
            _ => Taking::No,
        }
    }

    /// Returns the time from which the lease may be taken as things stand, the store's clock included; `None` if it is
    /// not known yet.
    pub(super) fn opens_at(&self, now: Time, own_lease: Duration) -> Option<Time> {
        if let Some(until) = self.listens(now) {
            return Some(until);
        }
        let from = match &self.last_seen {
            Some(last_seen) => self.stands_until(last_seen, own_lease).max(expires(last_seen)),
            None if let Some((_, since)) = self.missing
                && !self.is_open() =>
            {
                self.rules.missing_until(since, self.longest)
            }
            None if self.is_open() || self.is_waited_for() => now,
            None => return None,
        };
        let elsewhere = self.elsewhere_until();
        Some(from.max(self.barred_until.unwrap_or(from)).max(elsewhere.unwrap_or(from)))
    }

    /// Returns true if nobody can be leading, as far as is known.
    fn is_open(&self) -> bool {
        self.known == 0 || self.is_given_up
    }

    /// Returns true if the store knows less than is known, and a whole lease was waited for it, or is being waited.
    fn is_waited_for(&self) -> bool {
        self.waited_for == self.known
    }

    fn is_barred(&self, now: Time) -> bool {
        let is_older = self.stored.is_none_or(|stored| stored < self.known);
        let is_unknown = is_older && !self.is_open() && !self.is_waited_for();
        is_unknown
            || self.barred_until.is_some_and(|until| now < until)
            || self.elsewhere_until().is_some_and(|until| now < until)
    }

    fn stands_until(&self, last_seen: &SeenHolder, own_lease: Duration) -> Time {
        let whole = self.rules.whole_lease(own_lease, last_seen.lease);
        match self.rules.word_of_holder(last_seen.said) {
            // It leads by another database, of which this one is a copy.
            Some(said) if said >= last_seen.first + whole => said + whole * LEASES_ELSEWHERE,
            said => said.map_or(last_seen.first, |said| said.max(last_seen.first)) + whole,
        }
    }

    /// Returns the leader to show, its term, and the time until which to show it: a lease at most after the last answer
    /// that showed it.
    pub(super) fn shown(&self) -> Option<(NodeId, u64, Time)> {
        let last_seen =
            self.last_seen.as_ref().filter(|last_seen| last_seen.term == self.known && !self.is_given_up)?;
        let (left, sent, _) = last_seen.left;
        Some((last_seen.node.clone(), last_seen.term, sent + left.min(last_seen.lease)))
    }

    /// Returns the error of the store's clock since its last answer, if the row shows one.
    pub(super) fn clock_step(&self, seen: &Seen, sent: Time, now: Time, tolerance: Duration) -> Option<ClockStep> {
        let (holder, last_seen) = (seen.holder.as_ref()?, self.last_seen.as_ref()?);
        if seen.term < self.known || self.former.contains(&holder.token) {
            // Commits were lost, so that the row is older than the one before.
            return None;
        }
        let (left_before, sent_before, came_before) = last_seen.left;
        // Clocks may be as bad as the bounds allow, and rounds took as long as they did.
        let most_gone = now.since(sent_before) * 102 / 100 + tolerance;
        let least_gone = (sent.since(came_before) * 98 / 100).saturating_sub(tolerance);
        let (most_left, least_left) = if holder.token == last_seen.token {
            (left_before.saturating_sub(least_gone), left_before.saturating_sub(most_gone))
        } else if holder.term >= last_seen.term {
            // The row was written since.
            (holder.lease_duration + tolerance, holder.lease_duration.saturating_sub(most_gone))
        } else {
            return None;
        };
        let (forward, back) =
            (least_left.saturating_sub(holder.expires_in), holder.expires_in.saturating_sub(most_left));
        if !forward.is_zero() {
            return Some(ClockStep { by: forward, is_forward: true });
        }
        (!back.is_zero()).then_some(ClockStep { by: back, is_forward: false })
    }
}

/// Returns the time at which the holder that was seen expires by the store's clock, as far as can be told from here.
fn expires(last_seen: &SeenHolder) -> Time {
    let (left, _, came) = last_seen.left;
    // An expiry further away than the lease is long counts as expired there.
    if left > last_seen.lease { came } else { came + left }
}

#[cfg(test)]
mod tests;
