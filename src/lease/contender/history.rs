//! The history of a lease: its known terms, the holder that was seen, and the time for which that holder is waited
//! for.
//!
//! | known of the lease | it may be taken |
//! |---|---|
//! | no term was ever led | at once; by a newcomer among others once it has listened to them for a while |
//! | the highest term was given up: so reported, or the row of that very term says so | at once |
//! | its row is missing | once it was missing for a whole lease, by this clock |
//! | a node holds it | once the same token has stood for a whole lease, by this clock; the store adds: and has expired |
//! | the store knows less than was known before | as above, and not before a whole lease after that was first seen, nor after the last word of that term's leader |
//! | the store gave the known term to another node than the one that says it leads in it | as above, and not before a whole lease after the last word of the latter |
//!
//! A whole lease is the longest that was seen or that this node has itself: the holder's claim is shorter by the
//! margin.
//!
//! Invariants: the known term never falls; a time of waiting begins when an answer has *come*, and ends before a round
//! is *sent*, so that the row stood at least as long.
//!
//! Must not know: whether this node wants to lead; what a claim is.

use std::time::Duration;

use super::flaw::{Flaw, Planted};
use crate::core::election::MAX_LEASE;
use crate::core::{NodeId, Time};
use crate::lease::{Holder, Seen, Token};

/// The number of tokens of others that are remembered: a row that shows one of them again is older than what was seen.
const MAX_FORMER: usize = 16;

/// The holder that was seen last.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct SeenHolder {
    pub(super) node: NodeId,
    pub(super) token: Token,
    pub(super) term: u64,
    /// The time at which this token was seen first.
    pub(super) first: Time,
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
pub(super) enum Taking {
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
pub(super) struct LeaseHistory {
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
    /// The time until which a newcomer listens to the members, who may know terms that it does not.
    listens_until: Option<Time>,
    planted: Planted,
}

impl LeaseHistory {
    pub(super) fn new(known: u64, own_lease: Duration, now: Time, planted: Planted) -> Self {
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
            planted,
        }
    }

    #[cfg(test)]
    pub(super) fn plant(&mut self, planted: Planted) {
        self.planted = planted;
    }

    pub(super) fn known(&self) -> u64 {
        self.known
    }

    pub(super) fn is_given_up(&self) -> bool {
        self.is_given_up
    }

    pub(super) fn last_seen(&self) -> Option<&SeenHolder> {
        self.last_seen.as_ref()
    }

    /// Leaves a lease of which nothing is known alone until then.
    pub(super) fn listen_until(&mut self, until: Time) {
        self.listens_until = Some(until);
    }

    /// Returns the time until which a newcomer that knows no term listens.
    fn listens(&self, now: Time) -> Option<Time> {
        self.listens_until.filter(|until| self.known == 0 && now < *until && !self.planted.has(Flaw::DeafOnArrival))
    }

    /// Returns true if the store shows this term as given to another node than this one.
    pub(super) fn is_given_to_another(&self, term: u64, leader: &NodeId) -> bool {
        self.last_seen.as_ref().is_some_and(|last_seen| last_seen.term == term && last_seen.node != *leader)
    }

    /// Takes a report of a term, by the node that leads or led in it, or (`None`) by one that merely knows of it.
    /// Returns true if it is news.
    pub(super) fn heard(&mut self, now: Time, by: Option<&NodeId>, term: u64, is_given_up: bool) -> bool {
        let is_news = term > self.known || (term == self.known && is_given_up && !self.is_given_up);
        if is_news {
            (self.known, self.is_given_up, self.since) = (term, is_given_up, now);
        } else if term == self.known
            && !self.is_given_up
            && (self.stored.is_some_and(|stored| stored < term) && !self.planted.has(Flaw::WaitsForFirstWordOnly)
                || by.is_some_and(|leader| self.is_given_to_another(term, leader))
                    && !self.planted.has(Flaw::TrustsTheRowsName))
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
        self.learn_holder(seen.holder.as_ref(), sent, now);
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
        } else if !self.is_given_up && self.waited_for != self.known {
            // The commit that began the known term was there before anybody could report it. An answer to a round that
            // was handed out after that shows that it is there no more.
            if sent >= self.since {
                self.waited_for = self.known;
                self.bar(now);
            } else if self.planted.has(Flaw::WaitsFromHearsay) {
                self.waited_for = self.known;
                self.bar(sent);
            }
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
        let is_same = |last_seen: &SeenHolder| {
            last_seen.token == holder.token
                || (self.planted.has(Flaw::WaitsFromFirstSight)
                    && last_seen.node == holder.node
                    && last_seen.term == holder.term)
        };
        if let Some(last_seen) = before.as_ref().filter(|last_seen| last_seen.token != holder.token) {
            if self.former.len() == MAX_FORMER {
                self.former.remove(0);
            }
            self.former.push(last_seen.token);
        }
        let first = before.filter(is_same).map_or(now, |last_seen| last_seen.first);
        self.last_seen = Some(SeenHolder {
            node: holder.node.clone(),
            token: holder.token,
            term: holder.term,
            first,
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
        if self.planted.has(Flaw::TakesWhatLooksFree) && self.last_seen.is_none() {
            return Taking::Free;
        }
        if self.is_barred(now) || self.listens(now).is_some() {
            return Taking::No;
        }
        match &self.last_seen {
            Some(last_seen) if now >= self.stands_until(last_seen, own_lease) => Taking::FreeOrExpired(last_seen.token),
            // Its release is reported, and may be written by now.
            Some(_) if self.is_open() => Taking::Free,
            None if let Some((term, since)) = self.missing
                && (now >= since + self.longest || self.planted.has(Flaw::TakesWhatIsMissing)) =>
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
                since + self.longest
            }
            None if self.is_open() || self.is_waited_for() => now,
            None => return None,
        };
        Some(self.barred_until.map_or(from, |barred| barred.max(from)))
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
        is_unknown || self.barred_until.is_some_and(|until| now < until)
    }

    fn stands_until(&self, last_seen: &SeenHolder, own_lease: Duration) -> Time {
        if self.planted.has(Flaw::TakesAtExpiry) {
            return last_seen.first;
        }
        let whole = if self.planted.has(Flaw::WaitsOwnLeaseOnly) { own_lease } else { own_lease.max(last_seen.lease) };
        last_seen.first + whole
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
mod tests {
    use super::*;
    use crate::lease::Outcome;

    const LEASE: Duration = Duration::from_secs(15);

    fn at(second: u32) -> Time {
        Time::ORIGIN + Duration::from_secs(1) * second
    }

    fn history() -> LeaseHistory {
        LeaseHistory::new(0, LEASE, Time::ORIGIN, Planted::default())
    }

    /// Returns the row of this node, under this token, in this term, with a lease of this length.
    fn held(node: &str, token: u128, term: u64, lease_duration: Duration) -> Seen {
        let node = NodeId::new(node).expect("a name");
        let holder = Holder { node, token: Token(token), term, lease_duration, expires_in: Duration::ZERO };
        Seen { outcome: Outcome::Watched, term, holder: Some(holder), is_released: false }
    }

    fn a() -> NodeId {
        NodeId::new("a").expect("a name")
    }

    fn free(term: u64) -> Seen {
        Seen { outcome: Outcome::Watched, term, holder: None, is_released: term > 0 }
    }

    fn missing(term: u64) -> Seen {
        Seen { outcome: Outcome::Watched, term, holder: None, is_released: false }
    }

    fn see(history: &mut LeaseHistory, second: u32, seen: &Seen) {
        history.saw(seen, at(second), at(second));
    }

    #[test]
    fn a_holder_is_waited_for_from_when_its_token_was_seen_first_for_the_longer_lease() {
        let mut history = history();
        see(&mut history, 0, &held("a", 1, 1, LEASE * 2));
        see(&mut history, 5, &held("a", 2, 1, LEASE * 2));
        see(&mut history, 34, &held("a", 2, 1, LEASE * 2));
        assert_eq!(history.may_take(at(34), LEASE), Taking::No);
        assert_eq!(history.may_take(at(35), LEASE), Taking::FreeOrExpired(Token(2)));
        assert_eq!(history.opens_at(at(34), LEASE), Some(at(35)));
    }

    #[test]
    fn what_looks_older_is_waited_for_as_long_as_the_longest_lease_that_was_seen() {
        let mut history = history();
        see(&mut history, 0, &held("a", 1, 1, LEASE * 2));
        see(&mut history, 1, &free(0));
        assert_eq!(history.may_take(at(30), LEASE), Taking::No);
        assert_eq!(history.may_take(at(31), LEASE), Taking::Free);
    }

    #[test]
    fn a_row_that_is_missing_is_waited_for_as_its_holder_would_be() {
        let mut history = history();
        see(&mut history, 0, &held("a", 1, 3, LEASE));
        see(&mut history, 5, &missing(3));
        see(&mut history, 10, &missing(3));
        assert_eq!(history.may_take(at(19), LEASE), Taking::No);
        assert_eq!(history.opens_at(at(19), LEASE), Some(at(20)));
        assert_eq!(history.may_take(at(20), LEASE), Taking::FreeOrMissing(3));
        see(&mut history, 21, &missing(4));
        assert_eq!(history.may_take(at(35), LEASE), Taking::No, "another one is missing");
        see(&mut history, 36, &free(4));
        assert_eq!(history.may_take(at(36), LEASE), Taking::Free, "a row that says so is free");
    }

    #[test]
    fn a_leader_that_is_heard_again_and_again_and_that_the_store_does_not_know_is_waited_for() {
        let mut history = history();
        see(&mut history, 0, &free(1));
        history.heard(at(1), Some(&a()), 7, false);
        see(&mut history, 2, &free(1));
        history.heard(at(16), Some(&a()), 7, false);
        assert_eq!(history.may_take(at(30), LEASE), Taking::No);
        assert_eq!(history.may_take(at(31), LEASE), Taking::Free, "it is silent");
        history.heard(at(32), Some(&a()), 7, true);
        history.heard(at(33), Some(&a()), 7, false);
        assert_eq!(history.may_take(at(33), LEASE), Taking::Free, "what it said before it gave up came late");
    }

    #[test]
    fn a_leader_whose_term_the_store_gave_to_another_is_waited_for_as_long_as_it_is_heard() {
        let mut history = history();
        see(&mut history, 0, &held("b", 1, 1, LEASE));
        history.heard(at(10), Some(&a()), 1, false);
        see(&mut history, 14, &held("b", 1, 1, LEASE));
        assert_eq!(history.may_take(at(24), LEASE), Taking::No, "b is gone, and a leads");
        assert_eq!(history.may_take(at(25), LEASE), Taking::FreeOrExpired(Token(1)), "a is silent");
        history.heard(at(26), NodeId::new("b").ok().as_ref(), 1, false);
        history.heard(at(26), None, 1, false);
        assert_eq!(history.may_take(at(26), LEASE), Taking::FreeOrExpired(Token(1)), "the row says how long b lives");
    }

    #[test]
    fn a_newcomer_listens_before_it_takes_what_nobody_is_known_to_have_led() {
        let mut history = history();
        history.listen_until(at(5));
        assert_eq!((history.may_take(at(0), LEASE), history.opens_at(at(0), LEASE)), (Taking::No, Some(at(5))));
        see(&mut history, 1, &free(0));
        assert_eq!(history.may_take(at(4), LEASE), Taking::No);
        assert_eq!(history.may_take(at(5), LEASE), Taking::Free);
        see(&mut history, 2, &free(3));
        assert_eq!(history.may_take(at(2), LEASE), Taking::Free, "the store knows of a term: there is nothing to ask");
    }

    #[test]
    fn a_term_with_two_holders_tells_of_lost_commits_and_a_release_may_be_of_either() {
        let mut history = history();
        see(&mut history, 0, &held("a", 1, 1, LEASE));
        see(&mut history, 2, &held("b", 2, 1, LEASE));
        see(&mut history, 3, &free(1));
        assert_eq!(history.may_take(at(16), LEASE), Taking::No, "the first one may lead");
        assert_eq!(history.may_take(at(17), LEASE), Taking::Free);
    }

    #[test]
    fn a_holder_that_was_seen_is_waited_for_though_a_higher_term_was_given_up() {
        let mut history = history();
        history.heard(at(0), Some(&a()), 9, true);
        see(&mut history, 1, &held("a", 1, 6, LEASE));
        see(&mut history, 2, &free(5));
        assert_eq!(history.may_take(at(16), LEASE), Taking::No);
        assert_eq!(history.may_take(at(17), LEASE), Taking::Free);
    }

    #[test]
    fn a_release_that_was_told_of_and_is_not_in_the_row_is_none() {
        let mut history = history();
        history.heard(at(1), Some(&a()), 1, true);
        see(&mut history, 1, &held("a", 1, 1, LEASE));
        assert_eq!(history.may_take(at(1), LEASE), Taking::Free, "that answer may be older than the word");
        see(&mut history, 2, &held("a", 1, 1, LEASE));
        assert_eq!(history.may_take(at(2), LEASE), Taking::No);
        see(&mut history, 3, &free(1));
        assert_eq!(history.may_take(at(3), LEASE), Taking::Free, "a release is seen in the row");
    }

    #[test]
    fn a_term_that_is_only_heard_of_is_looked_for_before_anything_is_taken() {
        let mut history = history();
        history.heard(at(5), Some(&a()), 3, false);
        assert_eq!(history.may_take(at(100), LEASE), Taking::No);
        history.saw(&free(2), at(4), at(6));
        assert_eq!(history.may_take(at(100), LEASE), Taking::No, "that round was handed out before");
        see(&mut history, 7, &free(2));
        assert_eq!((history.may_take(at(21), LEASE), history.may_take(at(22), LEASE)), (Taking::No, Taking::Free));
        assert_eq!(history.known(), 3);
    }

    #[test]
    fn a_row_with_a_lease_of_a_century_is_waited_for_as_long_as_the_longest_that_is_allowed() {
        let mut history = history();
        see(&mut history, 0, &held("a", 1, 1, LEASE * 1_000_000));
        let longest = MAX_LEASE.as_secs() as u32;
        assert_eq!(history.may_take(at(longest - 1), LEASE), Taking::No);
        assert_eq!(history.may_take(at(longest), LEASE), Taking::FreeOrExpired(Token(1)));
    }

    #[test]
    fn an_expiry_further_off_than_the_lease_is_long_shows_nobody_for_longer_and_delays_nobody() {
        let mut history = history();
        let mut seen = held("a", 1, 1, LEASE);
        seen.holder.as_mut().expect("held").expires_in = LEASE * 1_000;
        see(&mut history, 0, &seen);
        assert_eq!(history.shown().map(|(_, term, until)| (term, until)), Some((1, at(15))));
        assert_eq!(history.opens_at(at(1), LEASE), Some(at(15)));
    }
}
