//! The existence of an electorate in this cluster: every member knows of it, and tells nodes that join.
//!
//! A node that is to form the first electorate must not do so beside an existing one. So a sponsor tells a joiner what
//! it knows before it welcomes it, and members look for voters that are missing, which may come back with empty disks
//! and know each other alone (see `missing`, and `joining::finders`); every member tells it in gossip packets while nobody leads, and when asked who
//! leads; and configured voters tell each other. Where nothing is known nothing is said, and nobody waits for it.
//!
//! **Sure** is a node that votes in the electorate, has learnt an agreed view of it, or was told by
//! [`FOUNDED_REPORTERS`] members: at once if it is to form one itself; a node that only hears of it is sure at once if
//! voters configured here, or seeds, say so, and otherwise when those members have stood by it for [`SETTLE`]. A node
//! keeps on its disk what it is sure of. **Told** is a node that one member has told: for as long as that member is
//! there and stands by it, no other electorate is formed here. It is one report against none, and yet it counts, since
//! it may be all that is left of an electorate whose voters have lost their disks; and it is no more power than a
//! member has that takes a voter's name. An operator hears which member reports it, can remove that member, or have the
//! electorate founded anew. A node that was told passes it on as hearsay, which counts for [`FOUNDED_HINT`] and makes
//! nobody sure: one member's mistake ends with that member.
//!
//! **The reporting member** matters to a node that knows of no electorate yet, since a node with an old disk may speak of one
//! that is gone, and keep the first one from being formed:
//!
//! | reported by | counts |
//! |---|---|
//! | voters that are configured here, seeds; members that were here before this node | for as long as they stand by it; several make it sure |
//! | those members, where a configured voter was here before this node, too, and is not sure of it | like members that came a moment ago: that voter knows them better |
//! | members that came later, and have been here for long; to a joiner, its sponsor; to a node that forms no electorate, the members before it, too | for as long as they stand by it; several make it sure after [`SETTLE`], unless an electorate is to be formed here |
//! | members that came later, a moment ago | for [`NEWCOMERS_HOLD_UP`] in all, and for no longer than they say it |
//!
//! A member that comes, tells everybody who comes later, and goes, leaves no report behind: who heard it, and votes nowhere,
//! forgets it within [`FOUNDED_REVIEW`] of finding that the member is gone; the reports that they passed on are over
//! [`FOUNDED_HINT`] later.
//!
//! Invariants:
//! - One member's report is never passed on as if it were known.
//! - Of electorates with different roots, the first one stands that this node is sure of.
//! - Two electorates that were formed before they met stand beside each other, the younger one too: its age is what its
//!   members say, as is that of the other one. Members of both are told (see `other`), and an operator ends one of them.
//! - A node that forms no electorate is not sure by the reports of members that were not here for [`SETTLE`], unless
//!   one of them is a node that its operator named.
//!
//! Must not know: how an electorate is formed.

use super::hearsay::{Hearsay, Weight, latest};
use super::{Alarm, Core, LeaderTracker, NodeId, Phase, Reply, Ticket, Time};
use crate::core::counters::DropReason;
use crate::core::election::{ChangeError, Descent, Election, ElectorateReport, LostElectorate};
use crate::core::limits::WHO_LEADS_INTERVAL;
use crate::core::member::Run;
use crate::core::view::Slot;
use crate::core::wire::{Message, PacketBuilder};
use rand::RngExt;

impl Core {
    /// Returns the electorate that this node is sure of.
    pub(super) fn founded(&self) -> Option<Descent> {
        self.election()?.founded()
    }

    /// Adds to a packet what is known of an electorate, if anything is.
    pub(in crate::core) fn push_founded(&self, packet: &mut PacketBuilder) {
        if let Some(founded) = self.electorate_report() {
            packet.push(&Message::ElectorateReport(founded));
        }
    }

    fn electorate_report(&self) -> Option<ElectorateReport> {
        let tracker = self.tracker.as_ref()?;
        let sure = self.founded().map(|descent| ElectorateReport { descent, is_sure: true });
        let told = || tracker.hearsay.said().map(|descent| ElectorateReport { descent: *descent, is_sure: false });
        sure.or_else(told)
    }

    /// Answers a member that asks who leads, where nobody is known to have led.
    pub(super) fn tell_founded(&mut self, to: Slot) {
        let Some(founded) = self.electorate_report() else { return };
        let mut packet = self.packet_to(to);
        packet.push(&Message::Reply);
        packet.push(&Message::ElectorateReport(founded));
        self.send_to(to, packet);
    }

    /// Takes a report, by a member or by the sponsor that welcomes this node, that the cluster has an electorate.
    pub(in crate::core) fn receive_electorate_report(&mut self, by: Run, founded: ElectorateReport) {
        let (now, known) = (self.now, self.founded());
        let weight = self.weight_of(by);
        if self.tracker.is_none() && matches!(self.phase, Phase::Joining(_)) {
            // Whoever leads is heard of soon.
            self.outputs.push_back(super::Output::VotersHeard { by: None, is_led: false, leader: None });
        }
        if founded.is_sure {
            self.meet_other_electorate(by, founded.descent.root, None, founded.descent.began);
        }
        let Some(tracker) = &mut self.tracker else { return self.counters.drop(DropReason::WrongState) };
        if known.is_some_and(|known| !founded.descent.succeeds(&known)) {
            return;
        }
        if tracker.hearsay.hear(by, founded, weight, now) {
            self.make_sure_of(founded.descent);
        } else {
            self.tell_machine_of_electorate(None);
        }
        self.schedule_leadership();
    }

    /// Returns the weight of this run's report of an electorate.
    pub(super) fn weight_of(&self, by: Run) -> Weight {
        let Some(tracker) = self.tracker.as_ref().filter(|_| self.founded().is_none()) else {
            return Weight::Full;
        };
        // A joiner hears of it from its sponsor, and will see which member that is.
        let slot = self.view.slot_of_run(by).filter(|_| !matches!(self.phase, Phase::Joining(_)));
        let Some(slot) = slot else { return Weight::Lasting };
        if self.is_configured_voter(by) || self.is_contact(slot) {
            return Weight::Full;
        }
        let hearsay = &tracker.hearsay;
        let is_there =
            |run: &Run| self.view.slot_of_run(*run).is_some_and(|slot| self.view.record(slot).status.is_live());
        let is_confirmed = || hearsay.reporters().any(|run| self.is_configured_voter(run));
        match (self.is_known_for_long(slot), self.is_new_here()) {
            (false, _) => Weight::Passing,
            (true, false) => Weight::Lasting,
            // The member was here before this node.
            (true, true) if hearsay.first_voters.iter().any(is_there) && !is_confirmed() => Weight::Passing,
            // All members that were here may be strangers. A node that forms no electorate can wait until they have
            // been here for long.
            (true, true) if !self.election().is_some_and(Election::is_forming) => Weight::Lasting,
            (true, true) => Weight::Full,
        }
    }

    fn is_configured_voter(&self, run: Run) -> bool {
        let slot = self.view.slot_of_run(run);
        let is_configured =
            |slot| self.election().is_some_and(|election| election.is_configured(&self.view.record(slot).id));
        slot.is_some_and(is_configured)
    }

    /// Remembers the configured voters that are here when this node becomes Up: they know the others better.
    pub(super) fn remember_first_voters(&mut self) {
        let live = self.view.live().iter().map(|slot| self.view.record(*slot).run);
        let voters: Vec<Run> = live.filter(|run| self.is_configured_voter(*run)).collect();
        if let Some(tracker) = &mut self.tracker {
            tracker.hearsay.first_voters = voters;
        }
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
        let now = self.now;
        let is_due = |tracker: &&LeaderTracker| tracker.hearsay.review_at.is_some_and(|at| now >= at);
        let Some(tracker) = self.tracker.as_deref().filter(is_due) else { return };
        let is_passing = |run: Run| self.weight_of(run) == Weight::Passing;
        let passing: Vec<Run> = tracker.hearsay.reporters().filter(|run| is_passing(*run)).collect();
        let Some(tracker) = &mut self.tracker else { return };
        for run in passing {
            tracker.hearsay.let_pass(run, now);
        }
        let is_joining = matches!(self.phase, Phase::Joining(_));
        let slot_of = |run| self.view.slot_of_run(run);
        let is_there = |run| is_joining || slot_of(run).is_some_and(|slot| self.view.entry(slot).status.is_live());
        tracker.hearsay.review(now, is_there);
        let is_forming = self.election().is_some_and(Election::is_forming);
        let confirmed = self.tracker.as_ref().and_then(|tracker| tracker.hearsay.long_standing(now));
        if let Some(descent) = confirmed.filter(|_| !is_forming && !is_joining) {
            return self.make_sure_of(descent);
        }
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
    pub(in crate::core) fn found_anew(&mut self, ticket: Ticket, voters: Vec<NodeId>) {
        let lineage = self.rng.random();
        if let Err(error) = self.may_command_election() {
            return self.reply(ticket, Reply::Refused(error));
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
            return self.reply(ticket, Reply::Refused(refusal.into()));
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
        if self.ask_before_founding_at().is_some_and(|at| self.now >= at) {
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
