//! One agent's part in the contest for one lease.
//!
//! Invariant: a term is led, or given up and its work awaited, or neither; never both.
//!
//! Must not know: other leases; when rounds are sent.

use super::drawn::Drawn;
use super::history::LeaseHistory;
use super::io::Claim;
use super::rules::Rules;
use super::timing::ContenderTiming;
use crate::{LeaseName, Token};
use headcount_core::election::LossReason;
use headcount_core::{LeadershipState, Time};

/// A term in which this node leads.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct HeldTerm {
    pub(super) term: u64,
    /// The time at which the claim ends without a further renewal.
    pub(super) until: Time,
    /// The time at which all others were told of it last.
    pub(super) published: Time,
}

/// A term that this node led in, and has not finished with.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct GivenUp {
    pub(super) term: u64,
    /// True once all led work has ended: the lease may be released.
    pub(super) has_ended: bool,
}

/// The contest for one lease.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Contest<R> {
    pub(super) history: LeaseHistory<R>,
    pub(super) drawn: Drawn,
    pub(super) led: Option<HeldTerm>,
    pub(super) given_up: Option<GivenUp>,
    /// A term that this node holds without leading in it: its row is to be released.
    pub(super) unused_term: Option<u64>,
    /// The reason of the last loss, until it is reported.
    pub(super) loss: Option<LossReason>,
    /// The time until which others come first, since this node has resigned.
    pub(super) held_off_until: Option<Time>,
    /// The time until which somebody is said to lead in another way than by this lease: this node does not begin to.
    pub(super) led_elsewhere_until: Option<Time>,
    /// The highest term that was led in another way: this lease is taken in a term above it. Nobody is waited for.
    pub(super) floor: u64,
    /// True if the lease is contended for no more, and forgotten once no row of it is held.
    pub(super) is_leaving: bool,
    /// The time at which it is asked about next.
    pub(super) due: Time,
    /// The highest term that is to be on disk.
    pub(super) persisted: u64,
    /// The claim that was reported last.
    pub(super) published: Claim,
    /// The known term below which the store was found.
    pub(super) fell_below: Option<u64>,
    /// A token under this node's name that was not drawn here.
    pub(super) foreign_token: Option<Token>,
    /// The time at which the claim was last contradicted by a member whose word does not count.
    pub(super) doubted: Option<Time>,
}

impl<R: Rules> Contest<R> {
    pub(super) fn new(lease: LeaseName, known: u64, timing: &ContenderTiming, now: Time, rules: R) -> Self {
        let published =
            Claim { lease, state: LeadershipState::Vacant, leader: None, term: known, is_me: false, valid_until: None };
        Self {
            history: LeaseHistory::new(known, timing.lease_duration, now, rules),
            drawn: Drawn::default(),
            led: None,
            given_up: None,
            unused_term: None,
            loss: None,
            held_off_until: None,
            led_elsewhere_until: None,
            floor: 0,
            is_leaving: false,
            due: now,
            persisted: known,
            published,
            fell_below: None,
            foreign_token: None,
            doubted: None,
        }
    }

    /// Returns true if this node may begin to lead by this lease now.
    pub(super) fn may_lead(&self, now: Time, must_not_lead: bool) -> bool {
        !must_not_lead
            && !self.is_leaving
            && self.given_up.is_none()
            && self.unused_term.is_none()
            && self.held_off_until.is_none_or(|until| now >= until)
            && self.led_elsewhere_until.is_none_or(|until| now >= until)
    }

    /// Stops leading, if this node leads; its led work is to be ended.
    pub(super) fn lose(&mut self, reason: LossReason) {
        if let Some(led) = self.led.take() {
            self.given_up = Some(GivenUp { term: led.term, has_ended: false });
            self.loss = Some(reason);
        }
    }

    /// Notes that the work led in this term has ended.
    pub(super) fn end_work(&mut self, now: Time, term: u64) {
        let Some(given_up) = self.given_up.as_mut().filter(|given_up| given_up.term == term) else {
            return;
        };
        given_up.has_ended = true;
        if self.drawn.is_empty() {
            // The row is another node's: there is nothing to release.
            self.given_up = None;
        }
        self.due = now;
    }

    /// Returns true if led work of a term that was given up goes on.
    pub(super) fn is_at_work(&self) -> bool {
        self.given_up.as_ref().is_some_and(|given_up| !given_up.has_ended)
    }

    /// Returns true if no row can be this node's, and it leads nothing.
    pub(super) fn holds_nothing(&self) -> bool {
        self.holds_no_term() && self.drawn.is_empty()
    }

    /// Returns true if the row that was seen last bears a token that was drawn here.
    pub(super) fn has_own_row(&self) -> bool {
        self.history.last_seen().is_some_and(|last_seen| self.drawn.is_own(last_seen.token))
    }

    /// Returns true if no term is this node's, whether it leads in it or not.
    pub(super) fn holds_no_term(&self) -> bool {
        self.led.is_none() && self.given_up.is_none() && self.unused_term.is_none()
    }
}
