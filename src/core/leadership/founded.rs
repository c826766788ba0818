//! The existence of an electorate in this cluster: every member knows of it, and tells nodes that join.
//!
//! A node that is to form the first electorate must not do so beside an existing one. So a sponsor tells a joiner what
//! it knows before it welcomes it, and members look for voters that are missing, which may come back with empty disks
//! and know each other alone (see `missing`, and `joining::finders`); every member tells it in gossip packets while
//! nobody leads, and when asked who leads; and configured voters tell each other. Where nothing is known nothing is said,
//! and nobody waits for it.
//!
//! **Sure** is a node that votes in the electorate, or has learnt an agreed view of it; it keeps on its disk what it is
//! sure of. **Told** is a node that a member has told that is sure: until that member was removed or is forgotten, or says
//! something else, no other electorate is formed here. It is one report against none, and yet it counts, since it may be
//! all that is left of an electorate whose voters have lost their disks, also while that member is restarted. A node with an
//! old disk may speak of an electorate that is gone: an operator hears which member holds the forming up, and can remove
//! that member, or have the electorate founded anew. A node that was told passes it on as hearsay, which counts for
//! [`FOUNDED_HINT`] and is not passed on again: what nobody is sure of any more does not go round for ever. A leader that
//! lives is followed by whoever is to form another electorate: its agreed view makes sure.
//!
//! Invariants:
//! - One member's report is never passed on as if it were known.
//! - Of two electorates that were formed before they met one ends (see `other`).
//! - A member's report counts for as long as its run is in the view and was not removed, and stands by it: one that is Down
//!   or has left may be all that is left of the electorate, and come back. Of more than [`MAX_FOUNDED_REPORTERS`] those of
//!   the electorates that stand over the others are remembered. What a member was only told itself counts for [`FOUNDED_HINT`].
//!
//! Must not know: how an electorate is formed.

use std::collections::BTreeMap;

use rand::RngExt;

use super::{Lead, LeadContext, LeadStep};
use crate::election::{Alarm, ChangeError, Descent, ElectorateReport, LostElectorate};
use crate::io::{CommandError, Ticket};
use crate::limits::{FOUNDED_HINT, FOUNDED_REVIEW, MAX_FOUNDED_REPORTERS};
use crate::member::{LeaveReason, NodeId, Run, Status};
use crate::time::Time;
use crate::view::{Slot, View};
use crate::wire::{Message, PacketBuilder};

impl Lead {
    /// Returns the electorate that this node is sure of.
    pub(crate) fn founded(&self) -> Option<Descent> {
        self.election.founded()
    }

    /// Adds to a packet what is known of an electorate, if anything is.
    pub(crate) fn push_founded(&self, packet: &mut PacketBuilder) {
        if let Some(founded) = self.election.electorate_report() {
            packet.push(&Message::ElectorateReport(founded));
        }
    }

    /// Answers a member that asks who leads, where nobody is known to have led.
    pub(super) fn tell_founded(&mut self, to: Slot) {
        let founded = self.election.electorate_report();
        self.steps.extend(founded.map(|founded| LeadStep::answer(to, Message::ElectorateReport(founded))));
    }

    /// Takes a report, by a member or by the sponsor that welcomes this node, that the cluster has an electorate.
    pub(crate) fn on_electorate_report(&mut self, cx: &mut LeadContext<'_>, by: Run, founded: ElectorateReport) {
        if founded.is_sure {
            self.meet_other_electorate(cx, by, &founded.descent, None);
        }
        if self.founded().is_some_and(|known| !founded.descent.stands_over(&known)) {
            return;
        }
        self.hearsay.hear(by, founded, cx.now);
        self.tell_election_of_electorate(cx, None);
        self.schedule(cx);
    }

    /// Makes this node sure of this electorate.
    pub(super) fn make_sure_of(&mut self, cx: &mut LeadContext<'_>, descent: Descent) {
        if !self.election.yields_to(&descent) {
            return;
        }
        self.hearsay = Hearsay::default();
        self.tell_election_of_electorate(cx, Some(descent));
    }

    fn tell_election_of_electorate(&mut self, cx: &mut LeadContext<'_>, sure: Option<Descent>) {
        let rumoured = self.hearsay.rumoured();
        self.with_election(cx, |election, context| election.learn_of(context, sure, rumoured));
    }

    /// Checks that the members that reported an electorate are still there, and asks others.
    pub(super) fn review_hearsay(&mut self, cx: &mut LeadContext<'_>) {
        if self.hearsay.deadline().is_none_or(|at| cx.now < at) {
            return;
        }
        let (view, is_joining) = (&*cx.view, cx.phase.is_joining());
        let status_of = |run| view.slot_of_run(run).map(|slot| view.entry(slot).status);
        let is_there =
            |run| is_joining || status_of(run).is_some_and(|status| status != Status::Left(LeaveReason::Forced));
        self.hearsay.review(cx.now, is_there);
        let by = self.hearsay.teller().and_then(|run| cx.view.slot_of_run(run));
        if let Some(by) = by.filter(|_| self.election.is_forming() && !is_joining) {
            let by = cx.view.record(by).id.clone();
            self.raise_alarm(cx, Alarm::FormingHeldUp { by });
        }
        self.tell_election_of_electorate(cx, None);
        self.ask_anybody(cx);
    }

    /// Begins to found an electorate anew on an operator's command, since no voter of the known one is left.
    pub(crate) fn found_anew(&mut self, cx: &mut LeadContext<'_>, ticket: Ticket, voters: Vec<NodeId>) {
        let lineage = self.random.random();
        if !cx.phase.is_up() {
            return self.refuse(ticket, CommandError::Joining);
        }
        if self.known.is_some() {
            let by = cx.view.record(View::ME).id.clone();
            return self.refuse(ticket, ChangeError::LeaderHeard { by });
        }
        let known = [self.founded(), self.hearsay.descent()];
        let Some(descent) = latest(known.iter().flatten()).copied() else {
            return self.refuse(ticket, ChangeError::NothingToFollow);
        };
        let agreed = self.agreed.as_ref().filter(|agreed| agreed.electorate.root == descent.root);
        let names = agreed.into_iter().flat_map(|agreed| &agreed.electorate.voters).map(|voter| voter.id.clone());
        let lost =
            LostElectorate { descent, number: agreed.map_or(0, |agreed| agreed.number), voters: names.collect() };
        self.with_election(cx, |election, context| election.recover(context, ticket, voters, lineage, Some(lost)));
        self.ask_before_founding(cx);
    }

    /// Asks the next member who leads, while an electorate is being founded anew.
    pub(super) fn ask_before_founding(&mut self, cx: &mut LeadContext<'_>) {
        if self.election.is_founding_anew() && self.ask_again_at().is_some_and(|at| cx.now >= at) {
            self.ask_anybody(cx);
        }
    }

    /// Ends a founding anew, since this member reports a leader.
    pub(super) fn found_nothing_anew(&mut self, cx: &mut LeadContext<'_>, by: Slot) {
        if self.election.is_founding_anew() {
            let by = cx.view.record(by).id.clone();
            self.with_election(cx, |election, _| election.hear_of_leader(&by));
        }
    }
}

/// The reports of an electorate.
#[derive(Debug, Clone, Default)]
pub(super) struct Hearsay {
    /// The reports of members that are sure of it.
    told: BTreeMap<Run, Descent>,
    /// The last report of a member that is not, and the time until which it counts.
    hint: Option<(Descent, Time)>,
    review_at: Option<Time>,
}

/// Returns the electorate that stands over the others: everything led after a recovery must be above all of them.
pub(super) fn latest<'a>(descents: impl Iterator<Item = &'a Descent>) -> Option<&'a Descent> {
    descents.max_by_key(|descent| descent.rank())
}

impl Hearsay {
    pub(super) fn deadline(&self) -> Option<Time> {
        self.review_at
    }

    /// Returns the report that keeps this node from forming another electorate, with whether its member is sure of it.
    pub(super) fn rumoured(&self) -> Option<ElectorateReport> {
        let said = self.said().map(|descent| ElectorateReport { descent: *descent, is_sure: true });
        said.or(self.hint.map(|(descent, _)| ElectorateReport { descent, is_sure: false }))
    }

    /// Returns the electorate reported by members that are sure of it.
    fn said(&self) -> Option<&Descent> {
        latest(self.told.values())
    }

    /// Returns a member that reports it.
    pub(super) fn teller(&self) -> Option<Run> {
        let said = self.said()?;
        self.told.iter().find(|(_, told)| *told == said).map(|(by, _)| *by)
    }

    pub(super) fn descent(&self) -> Option<Descent> {
        self.rumoured().map(|founded| founded.descent)
    }

    /// Notes a member's report, instead of the one that it gave before.
    pub(super) fn hear(&mut self, by: Run, founded: ElectorateReport, now: Time) {
        self.review_at.get_or_insert(now + FOUNDED_REVIEW);
        if !founded.is_sure {
            self.told.remove(&by);
            self.hint = Some((founded.descent, now + FOUNDED_HINT));
            return;
        }
        self.told.insert(by, founded.descent);
        if self.told.len() > MAX_FOUNDED_REPORTERS {
            let first = self.told.iter().min_by_key(|(_, told)| told.rank()).map(|(by, _)| *by);
            first.and_then(|by| self.told.remove(&by));
        }
    }

    /// Forgets the reports of members that are gone, and those that were passed on too long ago.
    pub(super) fn review(&mut self, now: Time, is_there: impl Fn(Run) -> bool) {
        self.told.retain(|run, _| is_there(*run));
        self.hint.take_if(|(_, until)| now >= *until);
        let is_empty = self.told.is_empty() && self.hint.is_none();
        self.review_at = (!is_empty).then_some(now + FOUNDED_REVIEW);
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::election::{Lineage, Term};
    use crate::limits::EARLIEST_FOUNDING;

    const NOW: Time = Time::ORIGIN;

    fn of(lineage: u64, is_sure: bool) -> ElectorateReport {
        let (lineage, root) = (Lineage(lineage), Lineage(lineage));
        ElectorateReport { descent: Descent { lineage, root, began: Term(0), founded: EARLIEST_FOUNDING }, is_sure }
    }

    #[test]
    fn a_members_report_counts_as_long_as_it_is_there_and_what_was_passed_on_for_a_while() {
        let mut hearsay = Hearsay::default();
        hearsay.hear(Run(1), of(7, true), NOW);
        hearsay.review(NOW + FOUNDED_HINT * 9, |_| true);
        assert_eq!(hearsay.rumoured(), Some(of(7, true)));
        hearsay.review(NOW + FOUNDED_HINT * 9, |_| false);
        assert_eq!((hearsay.rumoured(), hearsay.deadline()), (None, None));
        hearsay.hear(Run(1), of(7, false), NOW);
        hearsay.review(NOW + FOUNDED_HINT - Duration::from_millis(1), |_| false);
        assert_eq!((hearsay.rumoured(), hearsay.said()), (Some(of(7, false)), None));
        hearsay.review(NOW + FOUNDED_HINT, |_| true);
        assert_eq!((hearsay.rumoured(), hearsay.deadline()), (None, None));
    }

    #[test]
    fn who_is_sure_no_more_or_of_another_one_takes_its_report_back() {
        let mut hearsay = Hearsay::default();
        hearsay.hear(Run(1), of(7, true), NOW);
        hearsay.hear(Run(1), of(8, true), NOW);
        assert_eq!(hearsay.rumoured(), Some(of(8, true)));
        hearsay.hear(Run(1), of(8, false), NOW);
        assert_eq!((hearsay.rumoured(), hearsay.said()), (Some(of(8, false)), None));
    }

    #[test]
    fn so_many_reports_are_remembered_those_of_the_latest_electorates() {
        let mut hearsay = Hearsay::default();
        let most = MAX_FOUNDED_REPORTERS as u64;
        for run in 0..=most {
            hearsay.hear(Run(run), of(run + 1, true), NOW);
        }
        assert_eq!(hearsay.told.len(), MAX_FOUNDED_REPORTERS);
        assert!(!hearsay.told.contains_key(&Run(0)) && hearsay.told.contains_key(&Run(most)));
        assert_eq!(
            (hearsay.said().map(|told| told.lineage), hearsay.teller()),
            (Some(Lineage(most + 1)), Some(Run(most)))
        );
    }

    #[test]
    fn what_is_remembered_is_looked_at_again_and_again_until_nothing_is() {
        let mut hearsay = Hearsay::default();
        hearsay.hear(Run(1), of(7, true), NOW);
        hearsay.hear(Run(2), of(7, true), NOW + FOUNDED_REVIEW / 2);
        assert_eq!(hearsay.deadline(), Some(NOW + FOUNDED_REVIEW), "others put it off no more");
        hearsay.review(NOW + FOUNDED_REVIEW, |_| true);
        assert_eq!(hearsay.deadline(), Some(NOW + FOUNDED_REVIEW * 2));
        hearsay.review(NOW + FOUNDED_REVIEW * 2, |_| false);
        assert_eq!(hearsay.deadline(), None);
    }

    #[test]
    fn the_latest_electorate_is_the_one_that_began_last_whatever_its_number() {
        let mut hearsay = Hearsay::default();
        let most = MAX_FOUNDED_REPORTERS as u64;
        for run in 0..=most {
            let ElectorateReport { descent, is_sure } = of(run + 1, true);
            let descent = Descent { began: Term(most - run), ..descent };
            hearsay.hear(Run(run), ElectorateReport { descent, is_sure }, NOW);
        }
        assert!(hearsay.told.contains_key(&Run(0)) && !hearsay.told.contains_key(&Run(most)));
        assert_eq!(hearsay.teller(), Some(Run(0)));
    }
}
