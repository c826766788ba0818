//! Another electorate in this cluster: of two one ends, by itself and for everybody (see `election::ending`).
//!
//! They may have been formed or recovered apart, behind a cut or by voters that came back blank, or in clusters that were
//! joined. Whoever hears of a leader that lives of an electorate that stands over the one it follows goes over to that
//! one: as a member, and with the first view of it as a voter, whose electorate ends. An electorate of the same root is
//! followed without a leader as well, since an operator put it in the place of the one before; one of another root is not: it
//! may be all that an old disk knows of.
//!
//! Terms that are shown never fall. Where the electorate that stands has a leader whose term is not above those of the one
//! that ended, those who followed the latter tell that leader, which goes on above them, and show none until then.
//!
//! Both are told of while they are heard, in the log at once and by the list of voters: whoever reads one side alone finds
//! nothing wrong there, and yet two lead.
//!
//! Invariants: what is told of another electorate changes nothing for good; that takes a view of it that was asked for.
//!
//! Must not know: how a voter ends.

use rand::RngExt;

use super::Lead;
use super::claims::Known;
use super::steps::{LeadStep, Surroundings};
use crate::election::{Alarm, Descent, Election, Lineage, LossReason, Term};
use crate::limits::{ENDED_TELLERS, OTHER_ELECTORATE_MEMORY};
use crate::member::{NodeId, Run};
use crate::time::Time;
use crate::view::View;
use crate::wire::{LeaderClaim, Message};

/// An electorate beside the one that this node is sure of, as a member reported it last.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OtherElectorate {
    /// The member that reported it.
    pub by: NodeId,
    /// The lineage of its first generation.
    pub root: Lineage,
    /// Its leader, if one is known.
    pub leader: Option<NodeId>,
    /// The leader's term; without a leader, a term that is not above it.
    pub term: Term,
    /// True if it is of the same origin, recovered apart.
    pub is_recovery: bool,
}

/// The last report of the other electorate.
#[derive(Debug, Clone)]
pub(super) struct Report {
    other: OtherElectorate,
    descent: Descent,
    at: Time,
    /// The time of the last report that named the leader.
    led_at: Time,
}

/// An electorate that stands over the one that is followed, until its first view is there.
#[derive(Debug, Clone)]
pub(super) struct Followed {
    pub(super) descent: Descent,
    /// The one that is followed until then.
    before: Descent,
    /// The claim of its leader that was heard last.
    pub(super) claim: Option<Known>,
}

/// What is told of it.
impl Lead {
    /// Returns the other electorate that members have reported a short time ago, if any have.
    pub(crate) fn other_electorate(&self, now: Time) -> Option<&OtherElectorate> {
        let met = self.other.as_ref()?;
        let is_told = now.since(met.at) < OTHER_ELECTORATE_MEMORY && self.is_beside(&met.descent);
        is_told.then_some(&met.other)
    }

    /// Returns true if this electorate is another than the one that this node is sure of. Of one root, whoever speaks of an
    /// earlier one most often has not heard of the later one yet: there, two are told of where each has a leader.
    fn is_beside(&self, other: &Descent) -> bool {
        let is_led = || self.known.as_ref().and_then(|known| known.lineage).is_some_and(|own| own != other.lineage);
        self.founded().is_some_and(|known| known.lineage != other.lineage && (known.root != other.root || is_led()))
    }

    /// Tells the operator if a member reports another electorate than the one that this node is sure of.
    pub(super) fn meet_other_electorate(
        &mut self,
        around: &mut Surroundings<'_>,
        by: Run,
        descent: &Descent,
        claim: Option<&LeaderClaim>,
    ) {
        let is_recovery = self.founded().is_some_and(|known| known.root == descent.root);
        let is_told = self.is_beside(descent) && (!is_recovery || claim.is_some_and(is_led));
        let Some(slot) = around.view.slot_of_run(by).filter(|_| is_told) else { return };
        let (now, by) = (around.now, around.view.record(slot).id.clone());
        self.raise_alarm(around, Alarm::OtherElectorate { id: by.clone() });
        let is_known_as_led = |met: &Report| {
            let is_named = met.other.leader.is_some() && now.since(met.led_at) < OTHER_ELECTORATE_MEMORY;
            met.descent == *descent && is_named
        };
        match &mut self.other {
            // Most reports name no leader: such a one ends what was said of the leader only when nobody has named it for long.
            Some(met) if claim.is_none() && is_known_as_led(met) => met.at = now,
            other => {
                let term = claim.map_or(descent.began, |claim| claim.term);
                let leader = claim.and_then(|claim| claim.leader.clone());
                let reported = OtherElectorate { by, root: descent.root, leader, term, is_recovery };
                *other = Some(Report { other: reported, descent: *descent, at: now, led_at: now });
            }
        }
    }
}

/// Who follows which.
impl Lead {
    /// Decides whether this node follows the electorate of a claim: its own, or one that stands over it.
    pub(super) fn follows(&mut self, around: &mut Surroundings<'_>, claim: &LeaderClaim) -> bool {
        let agreed = self.agreed.as_ref().map(|agreed| agreed.electorate.descent());
        let followed = self.followed.as_ref().map(|followed| followed.descent);
        let own = [self.founded(), agreed, followed].into_iter().flatten().max_by_key(Descent::rank);
        let Some(own) = own.filter(|own| own.lineage != claim.descent.lineage) else {
            return claim.term.generation() >= self.term.generation();
        };
        if !claim.descent.stands_over(&own) || own.root != claim.descent.root && !is_led(claim) {
            return false;
        }
        if self.is_leading() {
            self.with_election(around, Election::stop_leading);
        }
        (self.followed, self.fetch) = (Some(Followed { descent: claim.descent, before: own, claim: None }), None);
        true
    }

    /// Goes over to an electorate whose first view is there; returns its leader's claim, if that was heard.
    pub(super) fn go_over(&mut self, around: &Surroundings<'_>, to: Followed) -> Option<Known> {
        self.term = self.term.max(self.election.term());
        (self.ended, self.known) = (Some((to.before, self.term)), None);
        self.publish(around.view, LossReason::Superseded);
        to.claim
    }

    /// Goes back to the electorate before if no view of the one that stands is to be had: it may be out of reach again.
    pub(super) fn go_back(&mut self) {
        self.followed = None;
    }

    /// Tells the leader of the electorate that stands up to which term the one was led that ended, if that leader is not
    /// above it. All members of the latter may know: some of them are enough.
    pub(super) fn tell_of_ended(&mut self, around: &Surroundings<'_>, leader: &NodeId, leads_in: Term) {
        let Some((descent, term)) = self.ended.filter(|(_, term)| leads_in <= *term) else { return };
        let (leader, agreed) = (around.view.slot_of(leader.as_str()), self.agreed.as_ref());
        let is_teller = self.election.ballot().ended.is_some()
            || self.random.random::<f64>() * around.view.live().len() as f64 <= ENDED_TELLERS;
        if let (Some(to), Some(agreed), true) = (leader.filter(|to| *to != View::ME), agreed, is_teller) {
            let (leader, delta, view) = (None, None, agreed.reference());
            let word = LeaderClaim { descent, term, leader, sequence: 0, age_ms: 0, lease_ms: 0, view, delta };
            self.steps.push(LeadStep::tell(to, Message::LeaderClaim(Box::new(word))));
        }
    }

    /// Has this voter's electorate led above the term of a claim of an electorate that it stands over.
    pub(super) fn lead_above(&mut self, around: &mut Surroundings<'_>, claim: &LeaderClaim) {
        let is_over = self.election.is_voter()
            && self.founded().is_some_and(|own| own.stands_over(&claim.descent))
            && self.election.term().generation() == claim.term.generation();
        if is_over {
            self.with_election(around, |election, context| election.lead_above(context, claim.term));
        }
    }
}

/// Returns true if a claim names a leader whose lease is not over.
fn is_led(claim: &LeaderClaim) -> bool {
    claim.leader.is_some() && claim.age_ms < claim.lease_ms
}
