//! Leadership by quorum: at most one leader among a fixed electorate, as a state machine of its own.
//!
//! It knows nothing of packets, addresses or membership: messages of other voters, time and acknowledgements of the disk
//! go in, [`Action`]s come out. The same machine runs in the agent, in the simulator, and in a model checker that looks
//! at every interleaving.
//!
//! ```text
//!                 not heard a leader for a lease        a majority neither      a majority would
//!  Follower ──────────────────────────────────▶ Query ──────────────▶ Pre-vote ───────────────▶ Vote
//!     ▲ ▲          a renewal, a higher term, too few answers             │                       │ a majority on disk
//!     │ └────────────────────────────────────────────────────────────────┘                       ▼
//!     └──────────── no majority for a lease, a higher term, resigned ────────────────── Leading (a claim begins with
//!                                                                          the first renewal a majority acknowledged)
//! ```
//!
//! Every rule, what breaks without it, the file in which it lives, and the test that sees it broken: `rules`. What no rule
//! covers is a ballot that is put back: that stands there, too.
//!
//! | idea | file |
//! |---|---|
//! | the state of the machine, its place among the voters, and its inputs | this page |
//! | the vocabulary of its interface; alarms; why something is not done | `io`, `alarm`, `refusals` |
//! | the messages between voters: their form, their sending, whose count | `message` |
//! | the ballot, and what waits until it is on disk | `ballot` |
//! | the electorate; numbered views | `electorate`, `view` |
//! | what others may look at | `look` |
//! | the end of an electorate, and the terms that it leaves behind | `ending` |
//!
//! Invariants: nothing that rests on the ballot leaves before the disk has acknowledged it; a claim is over as soon as
//! any input finds its time past; a message is acted upon only if the own current state agrees with what it assumes,
//! else it is counted and ignored.
//!
//! Must not know: addresses, wire formats, who is up (but for this node itself).

mod alarm;
mod ballot;
mod behind;
mod campaign;
mod changing;
mod confirming;
mod electorate;
mod ending;
mod following;
mod forming;
mod io;
mod leading;
mod look;
mod message;
mod numbering;
mod recovery;
mod refusals;
mod rules;
mod term;
mod view;
mod voting;

#[cfg(test)]
#[path = "tests/flaw.rs"]
pub mod flaw;
#[cfg(test)]
mod tests;

use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

pub use crate::settings::claim_of;
pub use crate::settings::{LeaderPolicy, LeaseTiming, MAX_LEASE, MIN_LEASE, OnResign};
pub use alarm::Alarm;
pub use ballot::Ballot;
pub(crate) use electorate::Rank;
pub use electorate::{Descent, Electorate, EndedElectorate, Identity, Lineage, Voter, VoterChange};
pub use io::{Action, Context, ElectionInit, LossReason, LostElectorate};
pub use look::{VoterStanding, VoterStandings};
pub use message::{Body, Claim, ElectionMessage, ElectorateReport, Renewal, Roster};
pub use refusals::{ChangeError, Confirmed, Unchanged, Unconfirmed};
pub use term::Term;
pub use view::{Delta, Digest, NumberedView, ViewRef};

use crate::limits::PREFERENCE_LEASES;
use crate::member::NodeId;
use crate::time::Time;
use campaign::Campaign;
use confirming::Confirms;
use forming::Forming;
use leading::Leading;
use recovery::Recovery;
use rules::{Rules, Sound};

/// The stages of a voter's life.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
enum Role {
    /// Learning the identities of the first electorate.
    Forming(Forming),
    /// No voter: it answers, and never stands.
    Outside,
    /// Waits for the leader to fall silent.
    Follower,
    /// Stands for election.
    Candidate(Campaign),
    /// Won the votes of its term.
    Leading(Box<Leading>),
}

/// The machine, by these rules.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Election<R: Rules = Sound> {
    me: NodeId,
    timing: LeaseTiming,
    policy: LeaderPolicy,
    view_interval: Duration,
    configured: Vec<NodeId>,
    /// The wall clock at the time that it was read last.
    wall_clock: (u64, Time),
    /// The ballot as it is to be.
    ballot: Ballot,
    /// The ballot as the disk has it.
    stored: Ballot,
    /// The disk does not take the ballot.
    is_aside: bool,
    /// The voters that drain, as far as this one knows, perhaps itself: they vote, and do not lead.
    draining: BTreeSet<NodeId>,
    role: Role,
    /// The state that ends with its electorate.
    volatile: Volatile,
    /// The time until which this voter may not vote.
    promised_until: Time,
    /// The difference between what is on disk of the promises and what binds.
    stored_promise: following::StoredPromise,
    /// The term whose leader has released this voter: it leads no more in it.
    released_in: Option<Term>,
    /// The time until which this process is too young to be preferred as leader: one that dies again and again shows
    /// its leader no gap if it comes back fast.
    not_preferred_until: Option<Time>,
    /// The term that this process began with: what was acknowledged in it is not known any more.
    born_in: Term,
    /// The renewal that was acknowledged last by this process.
    acked: Option<(Term, u64)>,
    /// The voter that got this one's vote, and the time until which it is left to lead.
    elected: Option<(Identity, Time)>,
    /// The time at which this voter stands, if nothing happens.
    stand_at: Time,
    /// True if this voter is the one that was named to succeed.
    is_successor: bool,
    /// Attempts so far: matches answers with questions.
    attempts: u32,
    /// Attempts in vain since a leader was heard.
    failures: u32,
    /// True if a majority of the voters answered when last asked.
    reaches_quorum: bool,
    /// A command of an operator under way.
    recovery: Option<Recovery>,
    /// The recovery that is done as soon as it is on disk.
    pending_recovery: Option<u64>,
    /// Questions whether this node still leads.
    confirms: Confirms,
    /// The electorate of others in which another identity has this node's name, while its own ballot is blank: its disk
    /// was lost.
    strange_to: Option<Arc<Electorate>>,
    /// The report of one member alone of an electorate; it says whether that member is sure of it.
    rumoured: Option<ElectorateReport>,
    /// The highest term that was led in another way, or by an electorate that ended for this one.
    floor: Term,
    actions: VecDeque<Action>,
    /// Messages that did not fit the own state, or came from nobody who counts.
    ignored: u64,
    rules: R,
}

/// The knowledge that this process alone has of its electorate: when that ends, so does all of this.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
struct Volatile {
    /// The leader of the ballot's term, once it was heard.
    leader: Option<Identity>,
    /// The newest view known to be agreed.
    agreed: Option<NumberedView>,
    /// The view that a leader put to this node before it knew any electorate: it is to learn.
    invited_to: Option<ViewRef>,
    /// The voters that voted for this one, if it voted for itself in the ballot's term, and has not led in it.
    votes: Option<BTreeSet<Identity>>,
    /// The vote that is due as soon as the disk allows it.
    pending_vote: Option<(NodeId, Identity, Term)>,
    /// The acknowledgement that is due as soon as the disk allows it.
    pending_ack: Option<following::PendingAck>,
    /// Voters that have spoken since this generation began, or since this process did: they know of it.
    informed: BTreeSet<Identity>,
    /// Those that are told of this generation as soon as it is on disk.
    to_be_told: BTreeSet<NodeId>,
}

impl Election {
    /// Begins. After a restart nothing is voted for as long as the longest promise ever made.
    ///
    /// # Panics
    /// If the timing is out of bounds: its maker checks it.
    pub fn new(init: ElectionInit, context: &Context<'_>) -> Self {
        Self::by_rules(Sound, init, context)
    }
}

impl<R: Rules> Election<R> {
    fn by_rules(rules: R, init: ElectionInit, context: &Context<'_>) -> Self {
        init.timing.check().expect("the timing is checked before the machine is made");
        let ElectionInit { me, timing, policy, view_interval, mut voters, ballot, floor, wall_clock } = init;
        voters.sort_unstable();
        voters.dedup();
        let mut election = Self {
            promised_until: rules.votes_from(context.now, ballot.promise),
            not_preferred_until: Some(context.now + timing.lease_duration * (PREFERENCE_LEASES - 1)),
            born_in: ballot.term,
            me,
            timing,
            policy,
            view_interval,
            configured: voters,
            wall_clock: (wall_clock, context.now),
            stored: ballot.clone(),
            ballot,
            is_aside: false,
            draining: BTreeSet::new(),
            role: Role::Outside,
            volatile: Volatile::default(),
            stored_promise: following::StoredPromise::default(),
            released_in: None,
            elected: None,
            acked: None,
            stand_at: context.now,
            is_successor: false,
            attempts: (context.random * f64::from(u32::MAX)) as u32,
            failures: 0,
            reaches_quorum: true,
            recovery: None,
            pending_recovery: None,
            confirms: Confirms::default(),
            strange_to: None,
            rumoured: None,
            floor,
            actions: VecDeque::new(),
            ignored: 0,
            rules,
        };
        election.take_place(context);
        if election.ballot.accepted.is_none() {
            election.announce_end(None);
        }
        election
    }

    /// Takes the next action. To be drained after every input, and after [`Election::new`].
    pub fn poll(&mut self) -> Option<Action> {
        self.actions.pop_front()
    }

    /// Counts a message that did not fit the own state, or came from nobody who counts.
    fn ignore(&mut self) {
        self.ignored += 1;
    }

    /// Returns the time at which [`Election::tick`] is to be called at the latest; `None` if there is nothing to wait
    /// for.
    pub fn next_deadline(&self, is_up: bool) -> Option<Time> {
        let recovery = self.recovery.as_ref().map(Recovery::deadline);
        let role = match &self.role {
            Role::Outside => None,
            Role::Forming(forming) => is_up.then(|| forming.deadline()),
            Role::Follower => (is_up && (self.may_stand() || self.must_report_no_leader())).then_some(self.stand_at),
            Role::Candidate(campaign) => Some(campaign.deadline()),
            Role::Leading(leading) => Some(self.leading_deadline(leading)),
        };
        recovery.into_iter().chain(role).min()
    }

    /// Lets time pass.
    pub fn tick(&mut self, context: &Context<'_>) {
        self.expire(context);
        self.continue_recovery(context);
        // Whoever leaves may still have voters to release.
        if !context.is_up && !matches!(self.role, Role::Leading(_)) {
            return;
        }
        match &self.role {
            Role::Outside => {}
            Role::Forming(_) => self.form(context),
            Role::Follower => {
                if context.now >= self.stand_at && self.may_stand() {
                    self.stand_above(context, self.ballot.term);
                } else if context.now >= self.stand_at && self.must_report_no_leader() {
                    // Nobody leads, and this voter can do nothing about it.
                    self.set_quorum(false);
                }
            }
            Role::Candidate(_) => self.stand_on(context),
            Role::Leading(_) => self.lead(context),
        }
    }

    /// Takes note that this node became Up, or is so no more.
    pub fn status_changed(&mut self, context: &Context<'_>) {
        self.expire(context);
        if context.is_up {
            self.tick(context);
            return;
        }
        if matches!(self.role, Role::Candidate(_)) {
            self.follow(context);
        }
        let is_over = context.now >= self.promised_until || !self.has_acknowledged();
        if is_over && !matches!(self.role, Role::Leading(_)) {
            // Nothing rests on what was promised. (Whoever stands has promised something to itself, and does not lead.)
            self.forget_promises(context);
        }
        self.say_farewell();
    }
}

/// The place of a node among the voters, by what it has accepted or by its configuration, and for how long it waits there for a
/// leader. Who is not eligible never stands.
impl<R: Rules> Election<R> {
    /// Finds its place: by what it has accepted, or else by the configuration.
    fn take_place(&mut self, context: &Context<'_>) {
        match self.electorate() {
            None if self.configured.contains(&self.me) => self.role = Role::Forming(Forming::new(context.now)),
            None => self.role = Role::Outside,
            Some(electorate) => {
                let names: Vec<NodeId> = electorate.voters.iter().map(|voter| voter.id.clone()).collect();
                let is_stranger = electorate.named(&self.me).is_some() && !self.is_voter();
                if names != self.configured && !self.configured.is_empty() {
                    self.actions.push_back(Action::Alarm(Alarm::ConfigurationOutdated));
                }
                if is_stranger {
                    self.actions.push_back(Action::Alarm(Alarm::IdentityMismatch));
                }
                self.follow(context);
            }
        }
    }

    /// Waits for a leader.
    fn follow(&mut self, context: &Context<'_>) {
        self.role = self.role_at_rest();
        self.fail_confirmations();
        self.wait_for_leader(context);
    }

    fn role_at_rest(&self) -> Role {
        if self.is_eligible() { Role::Follower } else { Role::Outside }
    }

    /// Returns true if this node may stand: also if it was voted out by a view of which it does not know that it is
    /// agreed. It may be the only one that has this view, and then nobody else is elected (Raft, section 4.2.2).
    fn is_eligible(&self) -> bool {
        let Some(view) = &self.ballot.accepted else { return false };
        let is_agreed = self.volatile.agreed.as_ref().map(NumberedView::reference) == Some(view.reference());
        let me = self.ballot.identity;
        view.electorate.contains(me) || !is_agreed && view.former_electorate().is_some_and(|former| former.contains(me))
    }

    /// Stands a little after no promise keeps it from it.
    fn wait_for_leader(&mut self, context: &Context<'_>) {
        self.stand_at = self.promised_until.max(context.now) + self.timing.spread().mul_f64(context.random);
    }

    fn may_stand(&self) -> bool {
        self.is_eligible() && !self.is_aside && !self.is_draining() && self.is_stored()
    }

    /// Returns true if this voter stands aside and has not said yet that it sees no leader.
    fn must_report_no_leader(&self) -> bool {
        self.is_aside && self.reaches_quorum && self.is_eligible()
    }

    fn set_quorum(&mut self, is_reached: bool) {
        if self.reaches_quorum != is_reached {
            self.reaches_quorum = is_reached;
            self.actions.push_back(Action::Quorum { is_reached });
        }
    }
}

/// Voters that drain: operators want them to lead nothing, as before maintenance. They vote, acknowledge and count; they do not
/// stand, and a leader that drains hands over as one that leaves does. There is no exception: where all voters drain, nobody
/// leads. A leader that drains no more before it has given anything up leads on.
impl<R: Rules> Election<R> {
    /// Takes note of the voters that drain, this one perhaps among them.
    pub fn note_draining(&mut self, context: &Context<'_>, draining: BTreeSet<NodeId>) {
        self.expire(context);
        let was_draining = self.is_draining();
        self.draining = draining;
        if self.is_draining() {
            match self.role {
                Role::Leading(_) => {
                    // Also if it was told before: it may have begun to lead since.
                    self.resign(context);
                }
                Role::Candidate(_) => self.follow(context),
                Role::Forming(_) | Role::Outside | Role::Follower => {}
            }
        } else if was_draining {
            self.is_successor = false;
            match &mut self.role {
                Role::Follower => self.wait_for_leader(context),
                // One that leaves cannot be undrained.
                Role::Leading(leading) => leading.stays(),
                Role::Candidate(_) | Role::Forming(_) | Role::Outside => {}
            }
        }
    }

    /// Returns true if this voter drains.
    pub fn is_draining(&self) -> bool {
        self.draining.contains(&self.me)
    }
}
