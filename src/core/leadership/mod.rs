//! Leadership, as every member learns of it: a machine around the machine of elections.
//!
//! The [`election`](super::election) machine runs on voters and knows nothing of packets; this one has its messages
//! sent, gives it time and its disk's acknowledgements, and tells everybody else the outcome: the leader of the
//! term, how long that holds, and the agreed views.
//!
//! Only the leader changes the electorate; an operator may ask at any node. A node that is asked and does not lead asks
//! the leader, which carries the command out once, however often the question comes (`commands`).
//! Every node learns before it is Up whether the cluster has an electorate at all (`founded`): no node forms another
//! one beside it. Members look for voters and seeds that are not there (`missing`).
//!
//! | idea | file |
//! |---|---|
//! | what the machine is lent, and what it says is to be done | this page |
//! | the election machine's surroundings: time, its actions, changes that concern it | `electing` |
//! | who leads, as every member hears it | `claims` |
//! | agreed views: fetched, and served to others | `views` |
//! | the existence of an electorate: what is sure, and what was told | `founded` |
//! | another electorate beside this one: told of, and one of the two ends | `other` |
//! | voters and seeds that are not there | `missing` |
//! | an operator's commands: asked of the leader, carried out for others | `commands` |
//!
//! It owns its state, is lent what it judges by ([`LeadContext`]), and says what follows ([`LeadStep`]), see `wiring::leading`.
//!
//! Invariants:
//! - Steps are carried out in the order in which they came about, before anything else happens.
//! - This node's own claim ends before any input is looked at, if its time is past.
//! - The term that is shown never falls. A leader is shown for one lease after the last renewal that was heard of.
//! - Of all electorates met that have leaders the one that stands is followed.
//!
//! Must not know: how an election is won, or how a packet finds its way.

mod claims;
mod commands;
mod electing;
mod founded;
mod missing;
mod other;
#[cfg(test)]
mod tests;
mod views;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::net::SocketAddr;
use std::time::Duration;

use rand::RngExt;
use rand_chacha::ChaCha8Rng;

use crate::context::Phase;
use crate::counters::Counters;
use crate::discovery::Reunion;
use crate::election::{
    Ballot, Context, Delta, Descent, Election, ElectionInit, ElectionMessage, Electorate, LossReason, NumberedView,
    Term, VoterStandings,
};
use crate::io::{Leadership, LeadershipState, Output, QuorumInit, Ticket};
use crate::limits::NOTICE_INTERVAL;
use crate::member::{NodeId, Record};
use crate::recent::Recent;
use crate::settings::Settings;
use crate::time::Time;
use crate::timers::{Timer, Timers};
use crate::view::{Slot, View};
use crate::wire::{LeaderClaim, Message};
use claims::Known;
use commands::{Forward, RemoteCommands};
use electing::Seen;
use founded::Hearsay;
use missing::Search;
pub use other::OtherElectorate;
use views::Fetch;

/// The state of others that the machine is lent for a call.
pub(crate) struct LeadContext<'a> {
    pub(crate) now: Time,
    pub(crate) phase: Phase,
    pub(crate) settings: &'a Settings,
    pub(crate) view: &'a mut View,
    pub(crate) reunion: &'a Reunion,
    /// The time for which the input at hand may have waited while this process stood still.
    pub(crate) waited: Duration,
    /// The greatest size of a packet in a datagram.
    pub(crate) datagram_bytes: usize,
    pub(crate) counters: &'a mut Counters,
    pub(crate) timers: &'a mut Timers,
}

/// Something that is to be done for the machine.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum LeadStep {
    /// Give this to the driver.
    Output(Output),
    /// Make this ballot durable.
    Persist(Box<Ballot>),
    /// Send a message to a member, as an answer or by itself, over its link if there is one or as a datagram.
    Send { to: Slot, message: Message, is_answer: bool, is_by_link: bool },
    /// Send a voter's message to a member.
    SendToVoter { to: Slot, message: Box<ElectionMessage> },
    /// Send this claim to those to whom news are flooded; it is this node's own, or another's.
    Flood { claim: Box<LeaderClaim>, is_own: bool },
    /// Ask who is at this address.
    AskWho(SocketAddr),
    /// Ask who is at the addresses of missing seeds, and at these.
    LookFor(BTreeSet<SocketAddr>),
    /// Begin to leave, now that leadership was handed over.
    Leave,
}

impl LeadStep {
    /// Returns the step that sends a message to a member as a datagram.
    fn tell(to: Slot, message: Message) -> Self {
        LeadStep::Send { to, message, is_answer: false, is_by_link: false }
    }

    /// Returns the step that answers a member by a datagram.
    fn answer(to: Slot, message: Message) -> Self {
        LeadStep::Send { to, message, is_answer: true, is_by_link: false }
    }
}

/// What a node knows of its leader, as a voter or not.
#[derive(Debug, Clone)]
pub(crate) struct Lead {
    election: Election,
    random: ChaCha8Rng,
    /// What is to be done, and was not taken out yet.
    steps: Vec<LeadStep>,
    /// The claim heard of last, this node's own included.
    known: Option<Known>,
    /// The newest claim that ran out, as this node heard of it.
    ran_out: Option<Known>,
    /// The newest term heard of.
    term: Term,
    /// The electorate that this is a term of, as far as is known.
    term_of: Option<Descent>,
    /// The term that was given up last, as far as was heard, and the time at which that was heard.
    given_up: Option<(Term, Time)>,
    /// The end of this node's own claim.
    claim_until: Option<Time>,
    /// The newest agreed view.
    agreed: Option<NumberedView>,
    /// The difference between that view and the one before it.
    last_delta: Option<Delta>,
    fetch: Option<Fetch>,
    /// The agreed views before the newest one, and those that others asked for, the last one first.
    recent_views: VecDeque<NumberedView>,
    /// The leadership that was reported last.
    told: Leadership,
    /// The news that was flooded last: the term, true if it was led, and the number of the view.
    flooded: (Term, bool, u64),
    /// The term, renewal and view number that were told last in renewals, and the number of renewals.
    relayed: ((Term, u64, u64), u32),
    /// The electorate that stands over the one that is followed, until a view of it is there and its leader lives.
    followed: Option<other::Followed>,
    /// The electorate that was followed until it ended for the one that stands, and its highest term: until that one has
    /// a leader above that term, none is shown.
    ended: Option<other::Ended>,
    /// The time at which somebody was asked last who leads.
    asked_at: Option<Time>,
    /// The nonce that a question for the leader would have had at the zero of this node's clock.
    first_nonce: u64,
    /// The search for voters and seeds that are not there.
    search: Search,
    /// The electorate beside the known one that was reported last.
    other: Option<other::Report>,
    /// Reports of an electorate by too few members, where none is known.
    hearsay: Hearsay,
    /// The time until which the leave waits, at most, for the hand-over.
    leave_by: Option<Time>,
    /// Commands of this node's operator that the leader was asked to carry out.
    forwards: BTreeMap<Ticket, Forward>,
    /// Commands that this node was asked to carry out by other members.
    remote_commands: RemoteCommands,
    seen: Seen,
    /// The kinds of alarms that were given lately.
    alarms: Recent<&'static str>,
    /// The kinds of failed elections and renewals that were told since a leader's claim was heard.
    failures_told: BTreeSet<&'static str>,
}

impl Lead {
    /// Returns the machine of a node of this name that takes part in electing leaders from now on.
    pub(crate) fn new(
        quorum: QuorumInit,
        me: NodeId,
        view_interval: Duration,
        now: Time,
        mut random: ChaCha8Rng,
    ) -> Self {
        let QuorumInit { timing, policy, voters, ballot, floor, wall_clock } = quorum;
        let context = Context { now, random: random.random(), is_up: false, members: &Vec::new };
        let ended = other::Ended::of(&ballot);
        let init = ElectionInit { me, timing, policy, view_interval, voters, ballot, floor, wall_clock };
        let election = Election::new(init, &context);
        let (term, term_of) = (election.term(), election.founded());
        let first_nonce = random.random();
        let told = Leadership { state: LeadershipState::Vacant, term, ..Leadership::DISABLED };
        Self {
            election,
            random,
            steps: vec![LeadStep::Output(Output::Leadership(told.clone()))],
            known: None,
            ran_out: None,
            term,
            term_of,
            given_up: None,
            claim_until: None,
            agreed: None,
            last_delta: None,
            fetch: None,
            recent_views: VecDeque::new(),
            told,
            flooded: (Term(0), false, 0),
            relayed: ((Term(0), 0, 0), 0),
            followed: None,
            ended,
            asked_at: None,
            first_nonce,
            search: Search::default(),
            other: None,
            hearsay: Hearsay::default(),
            leave_by: None,
            forwards: BTreeMap::new(),
            remote_commands: RemoteCommands::default(),
            seen: Seen::default(),
            alarms: Recent::new(NOTICE_INTERVAL, usize::MAX),
            failures_told: BTreeSet::new(),
        }
    }

    /// Takes out what is to be done, in order.
    pub(crate) fn take_steps(&mut self) -> Vec<LeadStep> {
        std::mem::take(&mut self.steps)
    }

    fn output(&mut self, output: Output) {
        self.steps.push(LeadStep::Output(output));
    }

    /// Does everything that is due when the timer fires. [`Lead::schedule`] is to be called once its steps are carried out.
    pub(crate) fn tick(&mut self, cx: &mut LeadContext<'_>) {
        self.with_election(cx, Election::tick);
        self.expire_known(cx);
        self.ask_who_leads(cx);
        self.review_hearsay(cx);
        if self.followed.as_ref().is_some_and(|followed| cx.now >= followed.until) {
            self.go_back();
        }
        self.ask_for_followed(cx);
        self.ask_before_founding(cx);
        self.look_for_voters(cx);
        self.fetch_again(cx);
        self.continue_forwards(cx);
        if self.leave_by.is_some_and(|by| cx.now >= by) {
            self.leave();
        }
    }

    /// Sets the one timer of this machine.
    pub(crate) fn schedule(&mut self, cx: &mut LeadContext<'_>) {
        if cx.phase.is_stopped() {
            return;
        }
        self.plan_look_for_voters(cx);
        let deadlines = [
            self.election.next_deadline(cx.phase.is_up()),
            self.known.as_ref().filter(|_| self.claim_until.is_none()).map(Known::until),
            self.ask_deadline(),
            self.fetch.as_ref().map(|fetch| fetch.retry_at),
            self.leave_by,
            self.forwards.values().map(Forward::deadline).min(),
            self.hearsay.deadline(),
            self.ask_again_at(),
            self.followed.as_ref().map(|followed| followed.until),
            self.search.look_at,
        ];
        match deadlines.into_iter().flatten().min() {
            // An overdue deadline is acted on, so that no mistake here makes time stand still.
            Some(at) => cx.timers.set(Timer::Leadership, at.max(cx.now + Duration::from_micros(100))),
            None => cx.timers.cancel(Timer::Leadership),
        }
    }

    /// Reports the leadership as this node knows it, and the events that lead there.
    fn publish(&mut self, view: &View, why_lost: LossReason) {
        let known = self.known.as_ref();
        let state = match known {
            Some(_) => LeadershipState::Led,
            None if !self.may_be_led(view) => LeadershipState::Unavailable,
            None => LeadershipState::Vacant,
        };
        let now = Leadership {
            state,
            leader: known.map(|known| known.leader.clone()),
            term: self.term,
            is_me: self.is_leading(),
            valid_until: self.claim_until.or_else(|| known.map(Known::until)),
        };
        if self.told == now {
            return;
        }
        let before = std::mem::replace(&mut self.told, now.clone());
        self.output(Output::Leadership(now.clone()));
        let is_same = before.leader == now.leader && (before.leader.is_none() || before.term == now.term);
        if let Some(leader) = before.leader.filter(|_| !is_same) {
            let reason = if now.leader.is_some() { LossReason::Superseded } else { why_lost };
            self.output(Output::LeaderLost { leader, term: before.term, reason });
        }
        if let Some(leader) = now.leader.filter(|_| !is_same) {
            self.output(Output::LeaderElected { leader, term: now.term });
        }
        let was_unavailable = before.state == LeadershipState::Unavailable;
        let is_unavailable = now.state == LeadershipState::Unavailable;
        if was_unavailable != is_unavailable {
            self.output(Output::Quorum { term: now.term, is_reached: !is_unavailable });
        }
    }
}

/// What others ask.
impl Lead {
    /// Returns the leadership that was reported last.
    pub(crate) fn leadership(&self) -> &Leadership {
        &self.told
    }

    /// Returns the newest view that is known to be agreed.
    pub(crate) fn agreed_view(&self) -> Option<&NumberedView> {
        self.agreed.as_ref().filter(|view| !view.members.is_empty())
    }

    /// Returns the voters, as far as this node knows.
    pub(crate) fn electorate(&self) -> Option<&Electorate> {
        let agreed = self.agreed.as_ref().map(|view| &*view.electorate);
        agreed.or_else(|| self.election.electorate()).or_else(|| self.election.strange_to())
    }

    pub(crate) fn election(&self) -> &Election {
        &self.election
    }

    /// Returns the state that must survive.
    pub(crate) fn ballot(&self) -> &Ballot {
        self.election.ballot()
    }

    /// Returns the standings of the voters, as far as this node, as a voter or by its name, knows them.
    pub(crate) fn standings(&self, view: &View) -> Option<VoterStandings> {
        let mut standings = self.election.standings(self.electorate())?;
        for standing in &mut standings.voters {
            let slot = view.slot_of(standing.voter.id.as_str());
            // It says that it does not vote although a voter has its name.
            standing.has_lost_disk = slot.is_some_and(|slot| view.record(slot).has_lost_vote());
            standing.is_aside = slot.is_some_and(|slot| view.record(slot).is_aside());
            // Whoever is gone will not acknowledge either: a leader need not wait for the end of its lease to say so.
            let is_gone = standing.has_lost_disk || slot.is_some_and(|slot| !view.entry(slot).status.is_live());
            if is_gone && !standing.is_learner {
                standing.votes = Some(false);
            }
        }
        Some(standings)
    }

    /// Returns true if a voter has this node's name, and another identity: nobody else knows that it does not vote.
    pub(crate) fn has_lost_vote(&self) -> bool {
        self.electorate().is_some_and(|known| self.election.has_lost_its_vote_in(known))
    }

    /// Returns the number of voters that are there and have their disks, and of those among them that do not drain; `None`
    /// if no voters are known. Also at a node that is none.
    pub(crate) fn voters_there(&self, view: &View) -> Option<(usize, usize)> {
        let there = records_with_disks(self.electorate()?, view);
        Some((there.clone().count(), there.filter(|record| !record.is_draining()).count()))
    }

    /// Returns true if enough voters are there to elect a leader: as the machine found, or as the view has it.
    fn may_be_led(&self, view: &View) -> bool {
        if self.election.is_voter() {
            return self.election.reaches_quorum();
        }
        let Some(electorate) = self.electorate() else { return true };
        let electing = records_with_disks(electorate, view).filter(|record| !record.is_aside());
        electing.count() >= electorate.majority()
    }

    fn is_leading(&self) -> bool {
        self.claim_until.is_some()
    }
}

/// Returns the records of the voters that are there and have their disks.
fn records_with_disks<'a>(electorate: &'a Electorate, view: &'a View) -> impl Iterator<Item = &'a Record> + Clone {
    let slots = electorate.voters.iter().filter_map(|voter| view.slot_of(voter.id.as_str()));
    let records = slots.map(|slot| &**view.record(slot));
    records.filter(|record| record.status.is_here() && !record.has_lost_vote())
}
