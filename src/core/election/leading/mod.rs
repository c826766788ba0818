//! Leading: renewals, the claim that they make, and giving it up.
//!
//! Votes make a leader, not a claim. The claim begins with the first renewal that a majority acknowledged in this term,
//! and lasts from when that renewal was *sent*, less a margin for clocks that run at different rates. A renewal that a
//! majority has not acknowledged is followed by another one soon: a lost packet costs no lease.
//!
//! A leader gives leadership up when it leaves, is told to, is voted out, or finds a voter of a higher priority that
//! has kept up with it for some leases ([`LeaderPolicy`](super::LeaderPolicy)). The voter that is to stand first is
//! named to all.
//!
//! Invariants: a claim only ever grows by an acknowledgement; one that was given up or ran out is never taken up again
//! in its term; voters are released only after all led work has ended.
//!
//! | idea | file |
//! |---|---|
//! | what a leader remembers of its term | this page |
//! | renewals: sent, acknowledged, and the voters that leave meanwhile; the claim that they make, until it ends | `renewing` |
//! | giving leadership up, to whom, and at an operator's command, once others have stored something | `resigning` |
//!
//! Must not know: what is led.

mod renewing;
mod resigning;

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use crate::election::behind::Ahead;
use crate::election::electorate::{Electorate, Identity};
use crate::election::message::{Claim, Renewal};
use crate::election::numbering::Numbering;
use crate::election::term::Term;
use crate::election::view::{Delta, NumberedView, ViewRef};
use crate::election::{Election, LeaseTiming, Role, Rules};
use crate::limits::MAX_DELTA_BYTES;
use crate::member::NodeId;
use crate::time::{Time, whole_ms};
use resigning::Trial;

/// A term in which this node leads.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Leading {
    pub(crate) term: Term,
    /// The number of the last renewal.
    sequence: u64,
    /// The times at which the renewals were sent that may still be acknowledged, oldest first.
    sent: VecDeque<(u64, Time)>,
    /// The newest renewal that each voter acknowledged.
    acknowledged: BTreeMap<Identity, u64>,
    /// Renewals up to these count no more from voters that left and were freed of their promises.
    freed: BTreeMap<Identity, u64>,
    /// Voters that leave, and the renewal that each acknowledged last.
    leavers: BTreeMap<Identity, (NodeId, u64)>,
    /// The newest view that each voter has on its disk.
    pub(crate) accepted: BTreeMap<Identity, ViewRef>,
    /// The knowledge of each voter by its acknowledgements.
    pub(crate) heard: BTreeMap<Identity, Heard>,
    /// Voters that said that they are above this term.
    pub(crate) ahead: BTreeMap<Identity, Ahead>,
    pub(crate) claim: Option<Held>,
    /// The time since which the votes are in vain if no claim begins within a lease.
    pub(crate) elected_at: Time,
    renew_at: Time,
    resigning: Option<Resigning>,
    /// An operator's command that it is to resign.
    trial: Option<Trial>,
    /// Leadership is given up as soon as the change that is in flight is settled.
    pub(crate) is_leaving: bool,
    pub(crate) numbering: Numbering,
}

/// A voter as its leader hears it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Heard {
    /// The time at which it acknowledged anything last.
    pub(crate) last: Time,
    /// The time since which it was never silent for a lease.
    since: Time,
    priority: u8,
}

/// A claim.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Held {
    sequence: u64,
    sent: Time,
    until: Time,
}

/// Leadership is being given up.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct Resigning {
    /// True if all led work has ended; voters are released only then.
    has_work_ended: bool,
    /// The voter that is to stand first, if somebody said so.
    successor: Option<Identity>,
    /// This node is to lead again if nobody else can: it does not leave, nor drain any more.
    stays: bool,
    /// The voters are released only when the claim has run out.
    lasts_until: Option<Time>,
    releases: u32,
    release_at: Time,
}

impl Leading {
    /// Returns the number of renewals that may still be acknowledged.
    #[cfg(test)]
    pub(crate) fn in_flight(&self) -> usize {
        self.sent.len()
    }

    pub(crate) fn has_claim(&self) -> bool {
        self.claim.is_some() && self.resigning.is_none()
    }

    pub(crate) fn is_resigning(&self) -> bool {
        self.resigning.is_some()
    }

    /// Takes note that this node is not to leave, nor to drain any more: what it has resigned already it may lead again.
    pub(crate) fn stays(&mut self) {
        self.is_leaving = false;
        if let Some(resigning) = &mut self.resigning {
            resigning.stays = true;
        }
    }

    /// Returns true if this voter has acknowledged this renewal, or a later one.
    pub(crate) fn has_acknowledged(&self, identity: Identity, sequence: u64) -> bool {
        self.acknowledged.get(&identity).is_some_and(|acknowledged| *acknowledged >= sequence)
    }

    /// Returns true if a majority of these voters has promised what the claim needs.
    pub(crate) fn claim_rests_on(&self, electorate: &Electorate) -> bool {
        self.claim.is_none_or(|claim| electorate.has_majority(|voter| self.has_acknowledged(voter, claim.sequence)))
    }

    /// Returns true if the voters are released as soon as the claim, which has run out, is over.
    fn may_release(&self) -> bool {
        self.resigning.is_some_and(|resigning| resigning.has_work_ended && resigning.lasts_until.is_some())
    }

    /// Returns the last renewal as it is said.
    fn renewal(&self, now: Time, timing: LeaseTiming, newest: ViewRef, agreed: Option<ViewRef>) -> Renewal {
        let claim = self.claim.map(|claim| Claim { sequence: claim.sequence, age_ms: now.age_ms(claim.sent) });
        Renewal {
            term: self.term,
            sequence: self.sequence,
            // Rounded up: no voter may be free before the claim that it was asked for ends.
            lease_ms: whole_ms(timing.lease_duration),
            claim,
            newest,
            delta: None,
            agreed: agreed.filter(|agreed| agreed.term == self.term),
        }
    }

    /// Returns true if, since the last renewal was sent, the time of another one has come, and no majority has acknowledged
    /// any: renewals are due every `interval` after the one that the claim rests on, and are sent more often until then.
    fn has_failed_to_renew(&self, now: Time, interval: Duration) -> bool {
        let (Some(claim), Some((sequence, last))) = (self.claim, self.sent.back()) else { return false };
        let due = |by: Time| by.since(claim.sent).as_nanos() / interval.as_nanos();
        *sequence > claim.sequence && due(now) > due(*last).max(1)
    }

    /// Returns the newest renewal that was sent by then; the oldest that is remembered, if all were sent since.
    pub(crate) fn renewal_sent_before(&self, time: Time) -> Option<u64> {
        let sent = self.sent.iter().rev().find(|(_, at)| *at <= time);
        sent.or(self.sent.front()).map(|(sequence, _)| *sequence)
    }

    fn sent_at(&self, sequence: u64) -> Option<Time> {
        self.sent.iter().find(|(sent, _)| *sent == sequence).map(|(_, at)| *at)
    }

    /// Returns the difference between this voter's view and `view`, if the former is known and the difference is short.
    pub(crate) fn delta_for(&self, voter: Identity, view: &NumberedView) -> Option<Delta> {
        let base = self.numbering.base.as_ref()?;
        let newest = view.reference();
        let held = self.accepted.get(&voter);
        if held.is_some_and(|held| held.digest == newest.digest || held.digest != base.reference().digest) {
            return None;
        }
        if base.reference().digest == newest.digest {
            return None;
        }
        Some(view.since(base)).filter(|delta| delta.fits(MAX_DELTA_BYTES))
    }
}

impl<R: Rules> Election<R> {
    /// Returns true if this voter has the newest view on its disk, as far as this leader knows.
    pub(crate) fn has_newest(&self, voter: Identity) -> bool {
        matches!(&self.role, Role::Leading(leading) if leading.accepted.get(&voter).copied() == self.newest())
    }

    /// Returns true if this node has a claim.
    pub(crate) fn has_claim(&self) -> bool {
        matches!(&self.role, Role::Leading(leading) if leading.has_claim())
    }
}
