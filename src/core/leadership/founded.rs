//! The existence of an electorate in this cluster: every member knows of it, and tells nodes that join.
//!
//! A node that is to form the first electorate must not do so beside an existing one. So a sponsor tells a joiner what
//! it knows before it welcomes it, and members look for voters that are missing, which may come back with empty disks
//! and know each other alone (see `missing`, and `joining::finders`); every member tells it in gossip packets while nobody leads, and when asked who
//! leads; and configured voters tell each other. Where nothing is known nothing is said, and nobody waits for it.
//!
//! **Sure** is a node that votes in the electorate, or has learnt an agreed view of it; it keeps on its disk what it is
//! sure of. **Told** is a node that a member has told that is sure: until that member was removed or is forgotten, or says something
//! else, no other electorate is formed here. It is one report against none, and yet it counts, since it may be
//! all that is left of an electorate whose voters have lost their disks, also while that member is restarted. A node with an
//! old disk may speak of an electorate that is gone: an operator hears which member holds the forming up, and can remove
//! that member, or have the electorate founded anew. A node that was told passes it on as hearsay, which counts for
//! [`FOUNDED_HINT`] and is not passed on again: what nobody is sure of any more does not go round for ever. A leader that
//! lives is followed by whoever is to form another electorate: its agreed view makes sure.
//!
//! Invariants:
//! - One member's report is never passed on as if it were known.
//! - Of electorates with different roots, the first one stands that this node is sure of.
//! - Two electorates that were formed before they met stand beside each other, the younger one too: its age is what its
//!   members say, as is that of the other one. Members of both are told (see `other`), and an operator ends one of them.
//!
//! Must not know: how an electorate is formed.

use super::hearsay::{Hearsay, latest};
use super::{Alarm, Core, NodeId, Reply, Ticket, Time};
use crate::counters::DropReason;
use crate::election::{ChangeError, Descent, Election, ElectorateReport, LostElectorate};
use crate::limits::WHO_LEADS_INTERVAL;
use crate::member::{LeaveReason, Run, Status};
use crate::view::Slot;
use crate::wire::{Message, PacketBuilder};
use rand::RngExt;

impl Core {
    /// Returns the electorate that this node is sure of.
    pub(super) fn founded(&self) -> Option<Descent> {
        self.election()?.founded()
    }

    /// Adds to a packet what is known of an electorate, if anything is.
    pub(crate) fn push_founded(&self, packet: &mut PacketBuilder) {
        if let Some(founded) = self.election().and_then(Election::electorate_report) {
            packet.push(&Message::ElectorateReport(founded));
        }
    }

    /// Answers a member that asks who leads, where nobody is known to have led.
    pub(super) fn tell_founded(&mut self, to: Slot) {
        let Some(founded) = self.election().and_then(Election::electorate_report) else { return };
        let mut packet = self.out().packet_to(to);
        packet.push(&Message::Reply);
        packet.push(&Message::ElectorateReport(founded));
        self.out().send_to(to, packet);
    }

    /// Takes a report, by a member or by the sponsor that welcomes this node, that the cluster has an electorate.
    pub(crate) fn on_electorate_report(&mut self, by: Run, founded: ElectorateReport) {
        let (now, known) = (self.cx.now, self.founded());
        if self.tracker.is_none() && self.cx.phase.is_joining() {
            // Whoever leads is heard of soon.
            self.cx.output(super::Output::VotersHeard { by: None, is_led: false, leader: None });
        }
        if founded.is_sure {
            self.meet_other_electorate(by, founded.descent.root, None, founded.descent.began);
        }
        let Some(tracker) = &mut self.tracker else { return self.cx.counters.drop(DropReason::WrongState) };
        if known.is_some_and(|known| !founded.descent.succeeds(&known)) {
            return;
        }
        tracker.hearsay.hear(by, founded, now);
        self.tell_machine_of_electorate(None);
        self.schedule_leadership();
    }

    /// Makes this node sure of this electorate.
    pub(super) fn make_sure_of(&mut self, descent: Descent) {
        if self.founded().is_some_and(|known| !descent.succeeds(&known)) {
            return;
        }
        if let Some(tracker) = &mut self.tracker {
            tracker.hearsay = Hearsay::default();
        }
        self.tell_machine_of_electorate(Some(descent));
    }

    fn tell_machine_of_electorate(&mut self, sure: Option<Descent>) {
        let rumoured = self.tracker.as_ref().and_then(|tracker| tracker.hearsay.rumoured());
        self.with_election(|election, context| election.knows_of(context, sure, rumoured));
    }

    /// Checks that the members that reported an electorate are still there, and asks others.
    pub(super) fn review_hearsay(&mut self) {
        let now = self.cx.now;
        let is_joining = self.cx.phase.is_joining();
        let Some(tracker) = &mut self.tracker else { return };
        if tracker.hearsay.deadline().is_none_or(|at| now < at) {
            return;
        }
        let status_of = |run| self.view.slot_of_run(run).map(|slot| self.view.entry(slot).status);
        let is_there =
            |run| is_joining || status_of(run).is_some_and(|status| status != Status::Left(LeaveReason::Forced));
        tracker.hearsay.review(now, is_there);
        let is_forming = self.election().is_some_and(Election::is_forming);
        let Some(tracker) = &self.tracker else { return };
        let by = tracker.hearsay.teller().and_then(|run| self.view.slot_of_run(run));
        if let Some(by) = by.filter(|_| is_forming && !is_joining) {
            let by = self.view.record(by).id.clone();
            self.raise_alarm(Alarm::FormingHeldUp { by });
        }
        self.tell_machine_of_electorate(None);
        self.ask_anybody();
    }

    /// Begins to found an electorate anew on an operator's command, since no voter of the known one is left.
    pub(crate) fn found_anew(&mut self, ticket: Ticket, voters: Vec<NodeId>) {
        let lineage = self.random.lead.random();
        if let Err(error) = self.may_command_election() {
            return self.cx.reply(ticket, Reply::Refused(error));
        }
        let Some(tracker) = &self.tracker else { return };
        let refusal = if tracker.known.is_some() {
            Some(ChangeError::LeaderHeard { by: self.me().id.clone() })
        } else if self.founded().or(tracker.hearsay.descent()).is_none() {
            Some(ChangeError::NothingToFollow)
        } else {
            None
        };
        if let Some(refusal) = refusal {
            return self.cx.reply(ticket, Reply::Refused(refusal.into()));
        }
        let known = [self.founded(), tracker.hearsay.descent()];
        let Some(descent) = latest(known.iter().flatten()).copied() else { return };
        let agreed = tracker.agreed.as_ref().filter(|agreed| agreed.electorate.root == descent.root);
        let names = agreed.into_iter().flat_map(|agreed| &agreed.electorate.voters).map(|voter| voter.id.clone());
        let lost =
            LostElectorate { descent, number: agreed.map_or(0, |agreed| agreed.number), voters: names.collect() };
        self.with_election(|election, context| election.found_anew(context, ticket, voters, lineage, lost));
        self.ask_before_founding();
    }

    /// Returns the time at which the next member is asked who leads, while an electorate is being founded anew.
    pub(super) fn ask_before_founding_at(&self) -> Option<Time> {
        let asked_at = self.tracker.as_ref()?.asked_at.unwrap_or(Time::ORIGIN);
        self.election().is_some_and(Election::is_founding_anew).then_some(asked_at + WHO_LEADS_INTERVAL)
    }

    pub(super) fn ask_before_founding(&mut self) {
        if self.ask_before_founding_at().is_some_and(|at| self.cx.now >= at) {
            self.ask_anybody();
        }
    }

    /// Ends a founding anew, since this member reports a leader.
    pub(super) fn found_nothing_anew(&mut self, by: Slot) {
        if self.election().is_some_and(Election::is_founding_anew) {
            let by = self.view.record(by).id.clone();
            self.with_election(|election, _| election.hear_of_leader(&by));
        }
    }
}
