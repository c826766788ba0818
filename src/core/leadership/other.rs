//! Another electorate in this cluster: of two one ends, by itself and for everybody (see `election::ending`).
//!
//! They may have been formed or recovered apart, behind a cut or by voters that came back blank, or in clusters that were
//! joined. Whoever hears of a leader that lives of an electorate that stands over the one it follows asks for a view of it,
//! then asks who leads, and goes over once both are answered: as a member, and as a voter, whose electorate ends. A leader
//! stops at the first word.
//!
//! | honest fault | what handles it |
//! |---|---|
//! | an old disk, a generation that an operator began on the wrong side of a cut: nobody leads there | only one that is led is followed |
//! | datagrams that come a minute late, a process that stood still: the leader that they name may be gone | once the view is there, who leads is asked: only an answer counts, and it is as old as the question at least |
//! | those that have met are parted before the view has come | what was followed before is followed again, once the leader's lease is over |
//!
//! Terms that are shown never fall. Where the electorate that stands has a leader whose term is not above those of the one
//! that ended, those who followed the latter tell that leader, which goes on above them, and show none until then.
//!
//! Both are told of while they are heard, in the log at once and by the list of voters: whoever reads one side alone finds
//! nothing wrong there, and yet two lead.
//!
//! Invariants: what is told of another electorate changes nothing for good; that takes a view of it and a leader's claim,
//! each asked for. Nobody hears how an electorate was led that ended before the end is on disk.
//!
//! Must not know: how a voter ends.

use std::time::Duration;

use rand::RngExt;

use super::{Lead, LeadContext, LeadStep};
use crate::election::{Alarm, Ballot, Descent, Election, Lineage, LossReason, NumberedView, Term};
use crate::limits::{ENDED_TELLERS, OTHER_ELECTORATE_MEMORY};
use crate::member::{NodeId, Run};
use crate::time::Time;
use crate::view::{Slot, View};
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

/// An electorate that stands over the one that is followed, until a view of it is there and its leader lives.
#[derive(Debug, Clone)]
pub(super) struct Followed {
    descent: Descent,
    /// The member that was heard last that knows its leader.
    by: Run,
    /// The end of the leader's lease, as far as was heard.
    pub(super) until: Time,
    /// The view of it that was asked for, and the time at which that came.
    pub(super) view: Option<(NumberedView, Time)>,
}

/// The electorate that was followed until it ended.
#[derive(Debug, Clone)]
pub(super) struct Ended {
    descent: Descent,
    /// Its highest term, as far as this node knows.
    term: Term,
    /// The leader that is told of that, and its term, as soon as the end is on disk.
    pub(super) untold: Option<(NodeId, Term)>,
}

impl Ended {
    pub(super) fn new(descent: Descent, term: Term) -> Self {
        Self { descent, term, untold: None }
    }

    /// Returns what a ballot knows of: an electorate that ended, or terms that others led in this one without its voters of
    /// now (see [`Lead::end_if_left_out`]).
    pub(super) fn of(ballot: &Ballot) -> Option<Self> {
        let Some(view) = &ballot.accepted else {
            return ballot.ended.as_ref().map(|ended| Self::new(ended.electorate.descent(), ended.term));
        };
        let is_ahead = !view.electorate.contains(ballot.identity) && ballot.term > view.term;
        is_ahead.then(|| Self::new(view.electorate.descent(), ballot.term))
    }

    /// Returns true if a leader of this term leads above it.
    pub(super) fn is_below(&self, term: Term) -> bool {
        self.term < term
    }
}

/// The report of another electorate.
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
        let is_led =
            || self.known.as_ref().and_then(|known| known.descent).is_some_and(|own| own.lineage != other.lineage);
        self.founded().is_some_and(|known| known.lineage != other.lineage && (known.root != other.root || is_led()))
    }

    /// Tells the operator if a member reports another electorate than the one that this node is sure of.
    pub(super) fn meet_other_electorate(
        &mut self,
        cx: &mut LeadContext<'_>,
        by: Run,
        descent: &Descent,
        claim: Option<&LeaderClaim>,
    ) {
        let is_recovery = self.founded().is_some_and(|known| known.root == descent.root);
        let is_told = self.is_beside(descent) && (!is_recovery || claim.is_some_and(|claim| is_led(cx, claim)));
        let Some(slot) = cx.view.slot_of_run(by).filter(|_| is_told) else { return };
        let (now, by) = (cx.now, cx.view.record(slot).id.clone());
        self.raise_alarm(cx, Alarm::OtherElectorate { id: by.clone() });
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

/// The choice of the electorate that this node follows.
impl Lead {
    /// Follows no electorate any more that this node does not yield to: an operator may have begun a later one here.
    pub(super) fn forget_lower(&mut self) {
        if self.followed.as_ref().is_some_and(|followed| !self.election.yields_to(&followed.descent)) {
            self.go_back();
        }
    }

    /// Decides whether this node follows the electorate of a claim: its own, or one that it yields to.
    pub(super) fn follows(&mut self, cx: &mut LeadContext<'_>, by: Run, claim: &LeaderClaim) -> bool {
        self.forget_lower();
        let followed = self.followed.as_ref().map(|followed| followed.descent);
        let own = followed.or_else(|| self.founded()).filter(|own| own.lineage != claim.descent.lineage);
        let yields = own.is_some_and(|own| match followed {
            Some(_) => claim.descent.stands_over(&own),
            None => self.election.yields_to(&claim.descent),
        });
        if own.is_some() && !(yields && is_led(cx, claim)) {
            return false;
        }
        if own.is_some() {
            self.followed = Some(Followed { descent: claim.descent, by, until: cx.now, view: None });
            self.fetch = None;
        }
        if self.is_leading() && self.followed.is_some() && is_led(cx, claim) {
            // This node may have been elected since it heard of that leader first.
            self.with_election(cx, Election::stop_leading);
        }
        self.followed.is_some() || claim.term.generation() >= self.term.generation()
    }

    /// Takes a claim of the electorate that is followed. Returns true if this node went over to that, and is to take the
    /// claim as one of its own.
    pub(super) fn follow_claim(&mut self, cx: &mut LeadContext<'_>, from: Slot, claim: &LeaderClaim) -> bool {
        let asked_at = claim.answers.map(|nonce| self.time_of_question(nonce)).filter(|at| *at <= cx.now);
        let is_led = is_led(cx, claim);
        let Some(followed) = self.followed.as_mut().filter(|_| is_led) else { return false };
        let (by, rest) = (cx.view.record(from).run, Duration::from_millis(claim.lease_ms - claim.age_ms));
        (followed.by, followed.until) = (by, followed.until.max(cx.now + rest.saturating_sub(cx.waited)));
        // However long the answer was under way, it was written after the question.
        let is_proven = |asked: Time, came: Time| asked >= came && cx.now.since(asked) < rest;
        if let Some((view, _)) = followed.view.take_if(|(_, came)| asked_at.is_some_and(|at| is_proven(at, *came))) {
            return self.go_over(cx, view);
        }
        if followed.view.is_none() {
            self.take_news_of_view(cx, from, claim.view, &claim.descent, None);
        }
        false
    }

    /// Takes a view while another electorate is followed than the one before: of that one, its leader is asked for.
    pub(super) fn follow_view(&mut self, cx: &mut LeadContext<'_>, view: NumberedView) {
        let Some(followed) = &mut self.followed else { return };
        if view.electorate.lineage == followed.descent.lineage {
            followed.view = Some((view, cx.now));
            self.ask_for_followed(cx);
        }
    }

    /// Asks the member that knows the leader of the electorate that is followed whether that still leads.
    pub(super) fn ask_for_followed(&mut self, cx: &mut LeadContext<'_>) {
        let Some(followed) = self.followed.as_ref().filter(|followed| followed.view.is_some()) else { return };
        match cx.view.slot_of_run(followed.by) {
            Some(by) => self.ask(cx, by),
            None => self.go_back(),
        }
    }

    /// Goes over to the electorate that is followed, by a view of it; returns true if it did.
    fn go_over(&mut self, cx: &mut LeadContext<'_>, view: NumberedView) -> bool {
        let followed = self.followed.take().filter(|followed| self.election.yields_to(&followed.descent));
        if followed.is_some() {
            self.learn_agreed(cx, view, None);
        }
        followed.is_some()
    }

    /// Ends what this node showed of the electorate before, now that it goes over to this one: what it was sure of, or, if
    /// it was sure of none, the one whose terms it was told of.
    pub(super) fn end_for(&mut self, cx: &mut LeadContext<'_>, other: &Descent) {
        let told = self.term_of.filter(|told| other.stands_over(told));
        let before = self.founded().or(told).filter(|before| before.lineage != other.lineage);
        let Some(before) = before.filter(|_| self.election.yields_to(other)) else { return };
        self.term = self.term.max(self.election.term());
        (self.ended, self.known) = (Some(Ended::new(before, self.term)), None);
        let term = self.term;
        // Should this node come to vote there, it leads above that term, too.
        self.with_election(cx, |election, context| election.lead_above(context, term));
        self.publish(cx.view, LossReason::Superseded);
    }

    /// Ends this node's vote, if an agreed view of its own electorate leaves it out without its knowing. If it led, or heard of
    /// a later term than that view's, others whose disks were put back have voted there: those who lead are told of the term.
    pub(super) fn end_if_left_out(&mut self, cx: &mut LeadContext<'_>, view: &NumberedView) {
        if !self.election.is_left_out_by(view) {
            return;
        }
        let is_ahead = self.is_leading() || self.term > view.term;
        self.with_election(cx, |election, context| election.leave_electorate(context, view));
        if is_ahead {
            self.term = self.term.max(self.election.term());
            self.ended = Some(Ended::new(view.electorate.descent(), self.term));
            self.publish(cx.view, LossReason::Superseded);
        }
    }

    /// Returns true if a leader lives, as far as was heard, of an electorate that stands over the one that this node knows.
    pub(super) fn follows_a_leader(&self, now: Time) -> bool {
        self.followed.as_ref().is_some_and(|followed| now < followed.until)
    }

    /// Goes back to the electorate before, if the one that is followed is out of reach again.
    pub(super) fn go_back(&mut self) {
        self.followed = None;
        self.fetch.take_if(|fetch| fetch.is_agreed());
    }

    /// Tells the leader of the electorate that stands up to which term the one was led that ended, if that leader is not
    /// above it. All members of the latter may know: some of them are enough.
    pub(super) fn tell_of_ended(&mut self, cx: &LeadContext<'_>, leader: &NodeId, leads_in: Term) {
        let is_stored = self.election.is_stored();
        let Some(ended) = self.ended.as_mut().filter(|ended| leads_in <= ended.term) else { return };
        if !is_stored {
            ended.untold = Some((leader.clone(), leads_in));
            return;
        }
        let (descent, term) = (ended.descent, ended.term);
        let (leader, agreed) = (cx.view.slot_of(leader.as_str()), self.agreed.as_ref());
        let is_teller = self.election.ballot().ended.is_some()
            || self.agreed.as_ref().is_some_and(|agreed| agreed.electorate.lineage == descent.lineage)
            || self.random.random::<f64>() * cx.view.live().len() as f64 <= ENDED_TELLERS;
        if let (Some(to), Some(agreed), true) = (leader.filter(|to| *to != View::ME), agreed, is_teller) {
            let (leader, delta, view) = (None, None, agreed.reference());
            let word =
                LeaderClaim { descent, term, leader, sequence: 0, age_ms: 0, lease_ms: 0, view, delta, answers: None };
            self.steps.push(LeadStep::tell(to, Message::LeaderClaim(Box::new(word))));
        }
    }

    /// Has this voter's electorate led above the term of a claim of an electorate that it stands over, or of its own.
    pub(super) fn lead_above(&mut self, cx: &mut LeadContext<'_>, claim: &LeaderClaim) {
        let is_over = self.election.is_voter()
            && self.founded().is_some_and(|own| !claim.descent.stands_over(&own))
            && self.election.term().generation() == claim.term.generation();
        if is_over {
            self.with_election(cx, |election, context| election.lead_above(context, claim.term));
        }
    }
}

/// Returns true if a claim names a leader whose lease is not over, however long the claim waited for this process.
fn is_led(cx: &LeadContext<'_>, claim: &LeaderClaim) -> bool {
    let lease = Duration::from_millis(claim.lease_ms);
    claim.leader.is_some() && Duration::from_millis(claim.age_ms) + cx.waited < lease
}
