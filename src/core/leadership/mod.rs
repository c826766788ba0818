//! Leadership, as every member learns of it: the core's side of elections.
//!
//! The [`election`](super::election) machine runs on voters and knows nothing of packets; this room carries its
//! messages, gives it time and its disk's acknowledgements, and tells everybody else the outcome: the leader of the
//! term, how long that holds, and the agreed views.
//!
//! Only the leader changes the electorate; an operator may ask at any node. A node that is asked and does not lead asks
//! the leader (`forward`), which carries the command out once, however often the question comes (`remote_commands`).
//! Every node learns before it is Up whether the cluster has an electorate at all (`founded`): no node forms another
//! one beside it. Members look for voters and seeds that are not there (`missing`).
//!
//! | idea | file |
//! |---|---|
//! | the election machine's surroundings: packets, time, its disk | `machine` |
//! | who leads, as every member hears it | `news` |
//! | agreed views: fetched, and served to others | `views` |
//! | the existence of an electorate: what is sure, and what was told | `founded`, `hearsay` |
//! | another electorate beside this one | `other` |
//! | voters and seeds that are not there | `missing` |
//! | an operator's commands: asked of the leader, carried out for others | `forward`, `remote_commands` |
//!
//! Invariants:
//! - This node's own claim ends before any input is looked at, if its time is past.
//! - The term that is shown never falls. A leader is shown for one lease after the last renewal that was heard of.
//! - Only the first electorate met is followed, or one that an operator's recovery put in its place.
//!
//! Must not know: how an election is won.

mod forward;
mod founded;
mod hearsay;
mod machine;
mod missing;
mod news;
mod other;
mod remote_commands;
mod views;

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use crate::Core;
use crate::context::Phase;
use crate::doors::{CommandError, Leadership, LeadershipState, Notice, Output, QuorumInit, Reply, Ticket};
use crate::election::{
    Alarm, Ballot, Context, Delta, Descent, Election, ElectionInit, Electorate, Lineage, LossReason, NumberedView,
    Term, VoterStandings,
};
use crate::member::{NodeId, Run, Status};
use crate::time::Time;
use crate::timers::Timer;
use crate::view::View;
use forward::Forwards;
use hearsay::Hearsay;
pub use other::OtherElectorate;
use remote_commands::RemoteCommands;
use views::Fetch;

/// The lease divided by the longest time that news of a claim is on its way. A claim looks younger than it is by that
/// time, since nobody counts it.
const ECHO_SHARE: u32 = 4;

/// The state of a core that concerns leaders.
#[derive(Debug, Clone)]
pub(super) struct LeaderTracker {
    /// The election machine; taken out while it is at work.
    election: Option<Election>,
    /// The time between a leader's renewals.
    renewal_interval: Duration,
    /// The claim heard of last, this node's own included.
    known: Option<Known>,
    /// The newest claim that ran out, as this node heard of it.
    ran_out: Option<Known>,
    /// The newest term heard of.
    term: Term,
    /// The term that was given up last, as far as was heard, and the time at which that was heard.
    given_up: Option<(Term, Time)>,
    /// The end of this node's own claim.
    claim_until: Option<Time>,
    /// The newest agreed view.
    agreed: Option<NumberedView>,
    /// The difference between that view and the one before it.
    last_delta: Option<Delta>,
    fetch: Option<Fetch>,
    /// The leadership that was reported last.
    told: Leadership,
    /// The news that was flooded last: the term, true if it was led, and the number of the view.
    flooded: (Term, bool, u64),
    /// The term, renewal and view number that were told last in renewals, and the number of renewals.
    relayed: ((Term, u64, u64), u32),
    /// The recovered electorate that is followed, while the agreed view is still of the one before.
    recovered: Option<Descent>,
    asked_at: Option<Time>,
    /// The time at which missing voters are looked for again.
    look_for_voters_at: Option<Time>,
    /// The voters and seeds whose links broke, each with the time of that: they may be gone.
    cut_off: BTreeMap<Run, Time>,
    /// The voters that were replaced or removed, the newest last.
    former_voters: Vec<NodeId>,
    /// The electorate beside the known one that was reported last.
    other: Option<other::Report>,
    /// Reports of an electorate by too few members, where none is known.
    hearsay: Hearsay,
    /// The time until which the leave waits, at most, for the hand-over.
    leave_by: Option<Time>,
    /// Commands of this node's operator that the leader was asked to carry out.
    forwards: Forwards,
    /// Commands that this node was asked to carry out by other members.
    remote_commands: RemoteCommands,
    /// The number of the view's changes when the machine was told of them last.
    seen_changes: u64,
    /// The number of live members that were seen last.
    seen_live: usize,
    was_up: bool,
    /// True if all voters that are there drained when that was looked at last.
    all_drain: bool,
    /// The kinds of failed elections and renewals that were told since a leader's claim was heard.
    failures_told: BTreeSet<&'static str>,
}

/// A claim, as this node heard of it.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Known {
    /// The line of the electorate that elected the leader, as far as it is known.
    lineage: Option<Lineage>,
    term: Term,
    leader: NodeId,
    /// The renewal that a majority acknowledged.
    sequence: u64,
    /// The time at which that renewal was sent.
    sent: Time,
    lease: Duration,
}

impl Known {
    fn until(&self) -> Time {
        self.sent + self.lease
    }

    /// Returns true if it is the claim of a leader of another electorate than that of this lineage.
    fn is_of_other_than(&self, lineage: Lineage) -> bool {
        self.lineage.is_some_and(|own| own != lineage)
    }
}

impl LeaderTracker {
    /// Notes that leadership in this term was given up.
    fn give_up(&mut self, term: Term, now: Time) {
        if self.given_up.is_none_or(|(given_up, _)| given_up < term) {
            self.given_up = Some((term, now));
        }
    }

    /// Returns true if another node's claim is an echo of leadership that was given up: of that term, and not renewed
    /// since. A term that is led on was never given up, whatever was reported.
    fn is_echo(&self, claim: &Known) -> bool {
        self.given_up.is_some_and(|(term, at)| claim.term == term && claim.sent <= at + claim.lease / ECHO_SHARE)
    }

    /// Returns true if an operator began the electorate of the agreed view.
    fn is_recovered(&self) -> bool {
        self.agreed.as_ref().is_some_and(|agreed| agreed.electorate.began > Term(0))
    }

    /// Returns the newest agreed view, if it belongs to the generation of this term. Until the first view of a
    /// recovered electorate is known, its terms are not told: under the lineage of the electorate before they would be
    /// taken for that one's.
    fn agreed_of(&self, term: Term) -> Option<&NumberedView> {
        let is_of_it = |agreed: &&NumberedView| {
            agreed.term.generation() == term.generation()
                && self.recovered.is_none_or(|recovered| recovered.lineage == agreed.electorate.lineage)
        };
        self.agreed.as_ref().filter(is_of_it)
    }
}

impl Core {
    /// Returns the leadership, as far as this node knows.
    pub fn leadership(&self) -> Leadership {
        self.tracker.as_ref().map_or(Leadership::DISABLED, |tracker| tracker.told.clone())
    }

    /// Returns the newest view that is known to be agreed.
    pub fn agreed_view(&self) -> Option<&NumberedView> {
        self.tracker.as_ref()?.agreed.as_ref().filter(|view| !view.members.is_empty())
    }

    /// Returns the voters, as far as this node knows.
    pub fn electorate(&self) -> Option<&Electorate> {
        let tracker = self.tracker.as_ref()?;
        let own = tracker.election.as_ref().and_then(Election::electorate);
        let strange = || tracker.election.as_ref().and_then(Election::strange_to);
        tracker.agreed.as_ref().map(|view| &*view.electorate).or(own).or_else(strange)
    }

    /// Returns the voter's machine, if leaders are elected here.
    pub fn election(&self) -> Option<&Election> {
        self.tracker.as_ref()?.election.as_ref()
    }

    /// Returns the standings of the voters, as far as this node, as a voter or by its name, knows them.
    pub fn standings(&self) -> Option<VoterStandings> {
        let mut standings = self.election()?.standings(self.electorate())?;
        for standing in &mut standings.voters {
            standing.has_lost_disk = self.is_vote_lost(&standing.voter.id);
            // Whoever is gone will not acknowledge either: a leader need not wait for the end of its lease to say so.
            let is_gone = standing.has_lost_disk || self.is_gone(&standing.voter.id);
            if is_gone && !standing.is_learner {
                standing.votes = Some(false);
            }
        }
        Some(standings)
    }

    /// Returns true if the member of this name says that it does not vote although a voter has its name.
    fn is_vote_lost(&self, id: &NodeId) -> bool {
        self.view.slot_of(id.as_str()).is_some_and(|slot| self.view.record(slot).has_lost_vote())
    }

    /// Returns true if the member of this name is Down or has left.
    fn is_gone(&self, id: &NodeId) -> bool {
        self.view.slot_of(id.as_str()).is_some_and(|slot| !self.view.entry(slot).status.is_live())
    }

    /// Tells others if a voter has this node's name, and another identity: nobody else knows that it does not vote.
    fn tell_if_vote_is_lost(&mut self) {
        let electorate = self.electorate();
        let has_lost = |election: &Election| electorate.is_some_and(|known| election.has_lost_its_vote_in(known));
        let is_lost = self.election().is_some_and(has_lost);
        self.mark_lost_vote(is_lost);
    }

    /// Returns the machine's state that must survive.
    pub(super) fn ballot(&self) -> Option<&Ballot> {
        self.tracker.as_ref()?.ballot()
    }

    /// Returns true if leaders are elected here.
    pub(super) fn is_led_by_quorum(&self) -> bool {
        self.tracker.is_some()
    }

    /// Reports the leadership as this node knows it, and the events that lead there.
    fn publish_leadership(&mut self, why_lost: LossReason) {
        let Some(tracker) = &self.tracker else { return };
        let known = tracker.known.as_ref();
        let is_me = tracker.claim_until.is_some();
        let state = match known {
            Some(_) => LeadershipState::Led,
            None if !self.may_be_led() => LeadershipState::Unavailable,
            None => LeadershipState::Vacant,
        };
        let valid_until = if is_me { tracker.claim_until } else { known.map(Known::until) };
        let leader = known.map(|known| known.leader.clone());
        let now = Leadership { state, leader, term: tracker.term, is_me, valid_until };
        let Some(tracker) = &mut self.tracker else { return };
        if tracker.told == now {
            return;
        }
        let before = std::mem::replace(&mut tracker.told, now.clone());
        self.cx.output(Output::Leadership(now.clone()));
        let is_same = before.leader == now.leader && (before.leader.is_none() || before.term == now.term);
        if let Some(leader) = before.leader.filter(|_| !is_same) {
            let reason = if now.leader.is_some() { LossReason::Superseded } else { why_lost };
            self.cx.output(Output::LeaderLost { leader, term: before.term, reason });
        }
        if let Some(leader) = now.leader.filter(|_| !is_same) {
            self.cx.output(Output::LeaderElected { leader, term: now.term });
        }
        let was_unavailable = before.state == LeadershipState::Unavailable;
        let is_unavailable = now.state == LeadershipState::Unavailable;
        if was_unavailable != is_unavailable {
            self.cx.output(Output::Quorum { term: now.term, is_reached: !is_unavailable });
        }
    }

    /// Returns true if enough voters are there to elect a leader: as the machine found, or as the view has it.
    fn may_be_led(&self) -> bool {
        let Some(tracker) = &self.tracker else { return false };
        if let Some(election) = tracker.election.as_ref().filter(|election| election.is_voter()) {
            return election.reaches_quorum();
        }
        self.electorate().is_none_or(|electorate| {
            let is_there = |id: &NodeId| {
                let slot = self.view.slot_of(id.as_str());
                let is_live = |slot| matches!(self.view.entry(slot).status, Status::Up | Status::Suspect);
                slot.is_some_and(|slot| is_live(slot) && !self.view.record(slot).has_lost_vote())
            };
            let there = electorate.voters.iter().filter(|voter| is_there(&voter.id)).count();
            there >= electorate.majority()
        })
    }

    /// Sets the one timer of this room.
    fn schedule_leadership(&mut self) {
        if self.cx.phase.is_stopped() {
            return;
        }
        let is_up = self.cx.phase.is_up();
        self.plan_look_for_voters();
        let Some(tracker) = &self.tracker else { return };
        let deadlines = [
            tracker.election.as_ref().and_then(|election| election.next_deadline(is_up)),
            tracker.known.as_ref().filter(|_| tracker.claim_until.is_none()).map(Known::until),
            self.ask_deadline(),
            tracker.fetch.as_ref().map(Fetch::deadline),
            tracker.leave_by,
            tracker.forwards.deadline(),
            tracker.hearsay.deadline(),
            self.ask_before_founding_at(),
            tracker.look_for_voters_at,
        ];
        match deadlines.into_iter().flatten().min() {
            // An overdue deadline is tended in a moment, so that no mistake here makes time stand still.
            Some(at) => self.cx.timers.set(Timer::Leadership, at.max(self.cx.now + Duration::from_micros(100))),
            None => self.cx.timers.cancel(Timer::Leadership),
        }
    }

    /// Does everything that is due when the timer fires.
    pub(super) fn tend_leadership(&mut self) {
        self.with_election(Election::tick);
        self.expire_news();
        self.ask_who_leads();
        self.review_hearsay();
        self.ask_before_founding();
        self.look_for_voters();
        self.fetch_again();
        self.tend_forwards();
        let leave_by = self.tracker.as_ref().and_then(|tracker| tracker.leave_by);
        if leave_by.is_some_and(|by| self.cx.now >= by) {
            self.leave_now();
        }
        self.schedule_leadership();
    }
}
