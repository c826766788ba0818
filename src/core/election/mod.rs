//! Leadership by quorum: at most one leader among a fixed electorate, as a state machine of its own.
//!
//! It knows nothing of packets, addresses or membership: words of other voters, time and acknowledgements of the disk go
//! in, [`Action`]s come out. The same machine runs in the agent, in the simulator, and in a model checker that looks at
//! every interleaving.
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
//! | rule | without it | file |
//! |---|---|---|
//! | terms never fall and are on disk before they are used (Raft 3.4) | two leaders in one term | `term`, `ballot` |
//! | an electorate of identities, formed once | a voter that lost its disk votes twice in one term | `electorate`, `forming` |
//! | none is formed where one of its voters knows of another | two electorates lead in one cluster | `forming` |
//! | status query and pre-vote (Raft 9.6) move nobody's term | a returning voter deposes a healthy leader | `standing` |
//! | one vote per voter and term, synced before the answer | two leaders in one term | `voting` |
//! | no vote while a promise stands, nor after a restart for the longest promise that may (Gray & Cheriton 1989; Raft 6.4.1) | two valid claims | `voting`, `following`, `promise` |
//! | only the leader frees of a promise to it: all when it led for the last time, one that leaves if its claim stands without it | two valid claims | `leading`, `promise` |
//! | a candidate's newest view is not older than the voter's (Raft 5.4.1) | an agreed view is lost | `voting` |
//! | votes make a leader, acknowledged renewals make a claim, from when they were sent | two valid claims | `leading` |
//! | a proof of leadership is a round that began after the question (Raft 6.4) | a deposed leader answers as if it led | `confirming` |
//! | a leader goes on above the term of a voter that is above its own, and voters may vote for whom they promised | that voter acknowledges nobody for good, and one more failure deposes the leader | `behind`, `voting` |
//! | views count in their leader's own term only (Raft 5.4.2) | one number, two contents | `numbering` |
//! | one voter more or less at a time, after settling the own term (Raft 4.1 and its erratum) | two leaders in one term | `numbering` |
//! | a change is put to the voters once the leader's own disk has it | its leader's disk fails, and a majority that lives has no leader | `numbering` |
//! | a change is put to those that answer since it was asked for, and taken back if too few take it or its leader leaves | a majority that lives has no leader | `changing` |
//! | while a change is in flight the claim rests on the electorate in force | its leader falls for a voter that died | `changing`, `leading` |
//! | a lost majority is lost: only an operator begins a new generation | an island deposes the majority | `recovery` |
//! | a generation begins at a term that is drawn; of one root the higher beginning stands | two operators, one term; two electorates for good | `recovery` |
//! | without any voter left, a generation begins above the last one that is known of, on command | terms that were led already are led again | `recovery` |
//!
//! Each rule is left out once in the tests, as a planted bug (`flaw`), to see that somebody would notice. Exploration that
//! knows of no bug in particular finds most of them: faults by lot (`tests/chaos`), faults that strike where they hurt, and operators
//! among them (`tests/storm`), walks and every interleaving up to a bound (`tests/model`).
//!
//! | rule | planted | found by |
//! |---|---|---|
//! | terms, on disk before they are used | a disk that forgets the term; `VoteBeforeDisk`, `OwnVoteBeforeDisk`, `AckBeforeDisk` | chaos, model; storm |
//! | an electorate of identities | a wiped voter that votes | chaos |
//! | status query and pre-vote | `NoQuestions`; `TermFromRefused` | storm; `directed` alone |
//! | one vote per voter and term | `ForgottenVote`, `NoQuorumCheck` | chaos, model |
//! | none beside another | `FormsAnyway` | `forming` alone |
//! | promises | `NoWaitAfterRestart`, `DifferingLeases`; `NoPromise`, `ReleaseFromThePast`, and `FreesWhoIsNeeded` | chaos; `directed` and `promises` alone |
//! | a candidate's view is not older | `NoViewCheck` | chaos, walks |
//! | a claim by acknowledged renewals | `ClaimWithVotes`, `LeaseFromReceipt`, `LeadsOnInItsTerm` | chaos, model |
//! | a proof begins after its question | `ConfirmsByOldRounds` | `confirming` alone |
//! | a leader goes on above its voters | `StaysBelowItsVoters` | `ahead` alone |
//! | views count in their leader's own term | `OwnAcceptanceBeforeDisk`; `CountedInLaterTerm` | storm; `directed` alone |
//! | one voter at a time, own term settled | `UnsettledElectorate` | `directed` alone |
//! | answers since the change was asked for, taken back | `OldAnswersCount`, `TakesNothingBack`, `LeavesAtOnce` | `removing` alone |
//! | put once the leader's disk has it | `ChangeBeforeDisk` | `disks` alone |
//! | the claim rests on the electorate in force | `ClaimNeedsTheNewcomers` | `removing` alone |
//! | only an operator begins a generation | `RecoversAnyway` | storm |
//! | drawn beginnings, the higher one stands | `SameBeginning`, `StaysInItsGeneration` | storm |
//! | founded anew above what is known of | `FoundsAboveItself` | `forming` alone |
//!
//! **What no rule covers: a ballot that is put back.** A voter that is given an older ballot of its own has forgotten what it
//! voted and promised since, under its own identity. It may vote twice in one term, and then a term has two leaders; nothing
//! that it has left, and nobody whom it is sure to hear, tells it so. Whoever keeps the ballot must not give an older one
//! back: the agent's store recognises copies of its file, though no snapshot of a whole disk.
//!
//! Invariants: nothing that rests on the ballot leaves before the disk has acknowledged it; a claim is over as soon as
//! any input finds its time past; a word is acted upon only if the own current state agrees with what it assumes, else
//! it is counted and ignored.
//!
//! Must not know: addresses, wire formats, who is up (but for this node itself).

mod admission;
mod alarm;
mod ballot;
mod behind;
mod changing;
mod confirming;
mod doors;
mod electorate;
mod following;
mod forming;
mod leading;
mod learning;
mod message;
mod numbering;
mod promise;
mod raw;
mod recovery;
mod standing;
mod standings;
mod term;
mod view;
mod voting;

#[cfg(test)]
pub(crate) mod flaw;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

pub(crate) use crate::core::settings::claim_of;
pub use crate::core::settings::{LeaderPolicy, LeaseTiming, MAX_LEASE, MIN_LEASE, OnResign};
pub use alarm::Alarm;
pub use ballot::Ballot;
pub(crate) use ballot::BallotV4;
pub use doors::{
    Action, ChangeError, Confirmed, ElectionBirth, LossReason, LostElectorate, Surroundings, Unchanged, Unconfirmed,
};
pub use electorate::{Descent, Electorate, Voter, VoterChange};
pub use message::{Body, Claim, Founded, Renewal, Roster, Word};
pub use raw::{Digest, Identity, Lineage};
pub use standings::{VoterStanding, VoterStandings};
pub use term::Term;
pub use view::{Delta, NumberedView, ViewRef};

use crate::core::limits::PREFERENCE_LEASES;
use crate::core::member::NodeId;
use crate::core::time::Time;
use confirming::Confirms;
use forming::Forming;
use leading::Leading;
use recovery::Recovery;
use standing::Campaign;

/// Where this node is in its life as a voter.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
enum Role {
    /// Learning the identities of the first electorate.
    Forming(Forming),
    /// No voter: it answers, and never stands.
    Outside,
    /// Waits for the leader to fall silent.
    Follower,
    /// Stands for election.
    Standing(Campaign),
    /// Won the votes of its term.
    Leading(Box<Leading>),
}

/// The machine.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Election {
    me: NodeId,
    timing: LeaseTiming,
    policy: LeaderPolicy,
    view_interval: Duration,
    configured: Vec<NodeId>,
    /// As it is to be.
    ballot: Ballot,
    /// As the disk has it.
    stored: Ballot,
    /// The disk does not take the ballot.
    is_aside: bool,
    role: Role,
    /// Until when this voter may not vote.
    promised_until: Time,
    /// How what is on disk of the promises differs from what binds.
    relief: promise::Relief,
    /// The leader of the ballot's term, once it was heard.
    leader: Option<Identity>,
    /// The term whose leader has released this voter: it leads no more in it.
    released_in: Option<Term>,
    /// The acknowledgement that is due as soon as the disk allows it.
    owed_ack: Option<following::OwedAck>,
    /// Until when this process is too young to be preferred as leader: one that dies again and again shows its leader no gap
    /// if it comes back fast.
    young_until: Option<Time>,
    /// The term that this process began with: what was acknowledged in it is not known any more.
    born_in: Term,
    /// The renewal that was acknowledged last by this process.
    acked: Option<(Term, u64)>,
    /// The view that a leader put to this node before it knew any electorate: it is to learn.
    invited_to: Option<ViewRef>,
    /// The vote that is due as soon as the disk allows it.
    owed_vote: Option<(NodeId, Identity, Term)>,
    /// When this voter stands, if nothing happens.
    stand_at: Time,
    /// It is the one who was named to succeed.
    is_successor: bool,
    /// Attempts so far: matches answers with questions.
    attempts: u32,
    /// Attempts in vain since a leader was heard.
    failures: u32,
    /// Whether a majority of the voters answered when last asked.
    reaches_quorum: bool,
    /// The newest view known to be agreed.
    agreed: Option<NumberedView>,
    /// A command of an operator under way.
    recovery: Option<Recovery>,
    /// The recovery that is done as soon as it is on disk.
    owed_recovery: Option<u64>,
    /// When a leader of another electorate was told of this one last.
    met_at: Option<Time>,
    /// Questions whether this node still leads.
    confirms: Confirms,
    /// Voters that have spoken since this generation began, or since this process did: they know of it.
    heirs: BTreeSet<Identity>,
    /// What one member alone says of an electorate, and whether that member is sure of it.
    rumoured: Option<Founded>,
    actions: VecDeque<Action>,
    /// Words that did not fit the own state, or came from nobody who counts.
    ignored: u64,
    #[cfg(test)]
    flaw: Option<flaw::Flaw>,
}

impl Election {
    /// Begins. After a restart nothing is voted for as long as the longest promise ever made.
    ///
    /// # Panics
    /// If the timing is out of bounds: its maker checks it.
    pub fn new(birth: ElectionBirth, around: &Surroundings<'_>) -> Self {
        birth.timing.check().expect("the timing is checked before the machine is born");
        let ElectionBirth { me, timing, view_interval, mut voters, ballot } = birth;
        voters.sort_unstable();
        voters.dedup();
        let mut election = Self {
            promised_until: around.now + ballot.promise,
            young_until: Some(around.now + timing.lease_duration * (PREFERENCE_LEASES - 1)),
            born_in: ballot.term,
            me,
            timing,
            policy: LeaderPolicy::default(),
            view_interval,
            configured: voters,
            stored: ballot.clone(),
            ballot,
            is_aside: false,
            role: Role::Outside,
            relief: promise::Relief::default(),
            leader: None,
            released_in: None,
            owed_ack: None,
            owed_vote: None,
            acked: None,
            invited_to: None,
            stand_at: around.now,
            is_successor: false,
            attempts: (around.luck * f64::from(u32::MAX)) as u32,
            failures: 0,
            reaches_quorum: true,
            agreed: None,
            recovery: None,
            owed_recovery: None,
            met_at: None,
            confirms: Confirms::default(),
            heirs: BTreeSet::new(),
            rumoured: None,
            actions: VecDeque::new(),
            ignored: 0,
            #[cfg(test)]
            flaw: None,
        };
        election.take_place(around);
        election
    }

    /// How it leads, if not as others do. To be said before the first input.
    pub fn set_policy(&mut self, policy: LeaderPolicy) {
        self.policy = policy;
    }

    /// Drained after every input, and after [`Election::new`].
    pub fn poll(&mut self) -> Option<Action> {
        self.actions.pop_front()
    }

    /// When to call [`Election::tick`] at the latest; `None` if there is nothing to wait for.
    pub fn next_deadline(&self, is_up: bool) -> Option<Time> {
        let recovery = self.recovery.as_ref().map(Recovery::deadline);
        let role = match &self.role {
            Role::Outside => None,
            Role::Forming(forming) => is_up.then(|| forming.deadline()),
            Role::Follower => (is_up && (self.may_stand() || self.may_find_out())).then_some(self.stand_at),
            Role::Standing(campaign) => Some(campaign.deadline()),
            Role::Leading(leading) => Some(self.leading_deadline(leading)),
        };
        recovery.into_iter().chain(role).min()
    }

    /// Time has passed.
    pub fn tick(&mut self, around: &Surroundings<'_>) {
        self.expire(around);
        self.tend_recovery(around);
        // Whoever leaves may still have voters to release.
        if !around.is_up && !matches!(self.role, Role::Leading(_)) {
            return;
        }
        match &self.role {
            Role::Outside => {}
            Role::Forming(_) => self.form(around),
            Role::Follower => {
                if around.now >= self.stand_at && self.may_stand() {
                    self.stand(around);
                } else if around.now >= self.stand_at && self.may_find_out() {
                    // Nobody leads, and this voter can do nothing about it.
                    self.set_quorum(false);
                }
            }
            Role::Standing(_) => self.stand_on(around),
            Role::Leading(_) => self.lead(around),
        }
    }

    /// Ends a claim whose time is past. Called before any input is looked at: a process that was stopped must not act on
    /// a claim that ran out meanwhile.
    pub fn expire(&mut self, around: &Surroundings<'_>) {
        self.expire_claim(around);
    }

    /// This node became Up, or is so no more.
    pub fn status_changed(&mut self, around: &Surroundings<'_>) {
        self.expire(around);
        if around.is_up {
            self.tick(around);
            return;
        }
        if matches!(self.role, Role::Standing(_)) {
            self.follow(around);
        }
        let is_over = around.now >= self.promised_until || !self.has_acknowledged();
        if is_over && !matches!(self.role, Role::Leading(_)) {
            // Nothing rests on what was promised. (Whoever stands has promised something to itself, and does not lead.)
            self.forget_promises(around);
        }
        self.say_farewell();
    }

    /// Another voter said something.
    pub fn heard(&mut self, around: &Surroundings<'_>, from: &NodeId, word: Word) {
        self.expire(around);
        // Whoever leaves may still be freed of its promise, and may still have voters to free.
        let is_farewell = matches!(word.body, Body::Release { .. } | Body::Freed { .. } | Body::Farewell { .. });
        if !around.is_up && !is_farewell {
            self.ignored += 1;
            return;
        }
        if let Body::Roster(roster) = word.body {
            return self.hear_roster(around, from, word.from, &roster);
        }
        if let Body::Recovered { ref electorate, number } = word.body {
            return self.hear_of_recovery(around, from, electorate, number);
        }
        if !self.counts(around, from, &word) {
            self.ignored += 1;
            return;
        }
        let speaker = word.from;
        self.note_heir(speaker);
        match word.body {
            Body::Roster(_) | Body::Recovered { .. } => {}
            Body::Query { attempt, newest: _ } => self.answer_query(around, speaker, from, attempt),
            Body::Health { attempt, hears_leader, term } => {
                self.hear_health(around, speaker, from, attempt, hears_leader, term);
            }
            Body::PreVote { attempt, term, newest } => {
                self.answer_pre_vote(around, speaker, from, (attempt, term, newest));
            }
            Body::PreVoted { attempt, is_granted, term } => {
                self.hear_pre_vote(around, speaker, from, attempt, is_granted, term);
            }
            Body::Vote { term, newest } => self.answer_vote(around, speaker, from, term, newest),
            Body::Voted { term, is_granted, newest } => self.hear_vote(around, speaker, term, is_granted, newest),
            Body::Renew(renewal) => self.renewed(around, speaker, from, &renewal),
            Body::Acked { term, sequence, newest, priority } => {
                self.acknowledged(around, speaker, (term, sequence), newest, priority);
            }
            Body::Release { term, successor } => self.released(around, speaker, from, term, successor),
            Body::Farewell { term, sequence } => self.bid_farewell(speaker, from, term, sequence),
            Body::Freed { term, sequence } => self.freed(around, speaker, term, sequence),
            Body::Behind { term } => self.hear_that_it_is_behind(around, speaker, from, term),
        }
    }

    /// The disk has the ballot of this version, or a newer one that was given out.
    pub fn stored(&mut self, around: &Surroundings<'_>, version: u64) {
        self.expire(around);
        if version != self.ballot.version {
            // An older one: what rests on the newer one still waits.
            return;
        }
        if self.is_aside {
            self.is_aside = false;
            self.actions.push_back(Action::Alarm(Alarm::AsideNoMore));
        }
        let awaited_own_disk = self.awaits_own_disk();
        self.stored = self.ballot.clone();
        if awaited_own_disk {
            self.begin_voters_time(around);
        }
        self.pay_debts();
        self.announce_recovery();
        self.tick(around);
        if let Role::Standing(_) = self.role {
            self.advance(around);
        }
        if let Role::Leading(_) = self.role {
            self.count_acceptances(around);
        }
    }

    /// The disk did not take what it was given last, which is tried again by whoever writes. If it has the ballot already,
    /// it was something else that was not taken, and nothing that a voter does rests on that: renewals write nothing. If
    /// the ballot is still to be written, this voter stands aside.
    pub fn store_failed(&mut self, around: &Surroundings<'_>) {
        self.expire(around);
        if self.stored.version == self.ballot.version {
            return;
        }
        if !self.is_aside {
            self.is_aside = true;
            self.actions.push_back(Action::Alarm(Alarm::Aside));
        }
        match &self.role {
            Role::Leading(_) => {
                self.withdraw_change();
                self.resign_for(around, None);
            }
            Role::Standing(_) => self.follow(around),
            _ => {}
        }
    }

    /// The contents of a view that was [wanted](Action::Wanted).
    pub fn contents(&mut self, around: &Surroundings<'_>, view: &NumberedView) {
        self.expire(around);
        self.take_contents(around, view);
    }

    /// The view with these contents, if this voter holds it.
    pub fn view_of(&self, digest: Digest) -> Option<&NumberedView> {
        let views = [self.ballot.accepted.as_ref(), self.agreed.as_ref(), self.base()];
        views.into_iter().flatten().find(|view| view.reference().digest == digest)
    }

    /// Whether it stands aside because its disk does not take the ballot.
    pub fn is_aside(&self) -> bool {
        self.is_aside
    }

    /// The latest term it knows of.
    pub fn term(&self) -> Term {
        self.ballot.term
    }

    /// The durable state as it is to be.
    pub fn ballot(&self) -> &Ballot {
        &self.ballot
    }

    /// The newest view known to be agreed.
    pub fn agreed(&self) -> Option<&NumberedView> {
        self.agreed.as_ref()
    }

    /// The lineage of its electorate, if it knows one.
    pub fn lineage(&self) -> Option<Lineage> {
        self.electorate().map(|electorate| electorate.lineage)
    }

    /// Whether a majority answered when last asked; true where nobody was asked yet.
    pub fn reaches_quorum(&self) -> bool {
        self.reaches_quorum
    }

    /// Words ignored because they did not fit the own state, or came from nobody who counts.
    pub fn ignored(&self) -> u64 {
        self.ignored
    }

    /// The electorate of the newest accepted view: what every majority of this voter is counted by.
    pub fn electorate(&self) -> Option<&Electorate> {
        self.ballot.accepted.as_ref().map(|view| &*view.electorate)
    }

    /// The electorate that this node knows of: its own, or the one that others vote in.
    pub fn founded(&self) -> Option<Descent> {
        self.ballot.founded()
    }

    /// Whether this node votes, as far as it knows.
    pub fn is_voter(&self) -> bool {
        self.electorate().is_some_and(|electorate| electorate.contains(self.ballot.identity))
    }

    /// Finds its place: by what it has accepted, or else by the configuration.
    fn take_place(&mut self, around: &Surroundings<'_>) {
        match self.electorate() {
            None if self.configured.contains(&self.me) => self.role = Role::Forming(Forming::new(around.now)),
            None => self.role = Role::Outside,
            Some(electorate) => {
                let names: Vec<NodeId> = electorate.voters.iter().map(|voter| voter.id.clone()).collect();
                let is_stranger = electorate.named(&self.me).is_some() && !self.is_voter();
                if names != self.configured && !self.configured.is_empty() {
                    self.actions.push_back(Action::Alarm(Alarm::ConfigurationOutdated));
                }
                if is_stranger {
                    self.actions.push_back(Action::Alarm(Alarm::Stranger));
                }
                self.follow(around);
            }
        }
    }

    /// Waits for a leader.
    fn follow(&mut self, around: &Surroundings<'_>) {
        self.role = self.role_at_rest();
        self.confirm_nothing();
        self.wait_for_leader(around);
    }

    fn role_at_rest(&self) -> Role {
        if self.is_eligible() { Role::Follower } else { Role::Outside }
    }

    /// Whether this node may stand: also if it was voted out by a view of which it does not know that it is agreed. It may
    /// be the only one that has this view, and then nobody else is elected (Raft, section 4.2.2).
    fn is_eligible(&self) -> bool {
        let Some(view) = &self.ballot.accepted else { return false };
        let is_agreed = self.agreed.as_ref().map(NumberedView::reference) == Some(view.reference());
        let me = self.ballot.identity;
        view.electorate.contains(me) || !is_agreed && view.former_electorate().is_some_and(|former| former.contains(me))
    }

    /// Stands a little after no promise keeps it from it.
    fn wait_for_leader(&mut self, around: &Surroundings<'_>) {
        self.stand_at = self.promised_until.max(around.now) + self.timing.spread().mul_f64(around.luck);
    }

    fn may_stand(&self) -> bool {
        self.is_eligible() && !self.is_aside && self.stored.version == self.ballot.version
    }

    /// A voter that stands aside has not said yet that it sees no leader.
    fn may_find_out(&self) -> bool {
        self.is_aside && self.reaches_quorum && self.is_eligible()
    }

    /// Gives the changed ballot to the disk.
    fn persist(&mut self) {
        self.ballot.version += 1;
        self.relief.is_due = false;
        // From now on the disk may hold either: what rests on a longer promise waits for this one.
        self.stored.promise = self.stored.promise.min(self.ballot.promise);
        self.actions.push_back(Action::Persist(self.ballot.clone()));
    }

    /// Words to all other voters that count: those of the electorate, and of the one before while it is changing.
    fn send_to_all(&mut self, body: &Body) {
        for voter in self.others() {
            self.send(&voter.id, body.clone());
        }
    }

    fn send(&mut self, to: &NodeId, body: Body) {
        let lineage = self.lineage().unwrap_or(Lineage(0));
        let word = Word { from: self.ballot.identity, lineage, body };
        self.actions.push_back(Action::Send { to: to.clone(), word });
    }

    fn others(&self) -> Vec<Voter> {
        let Some(view) = &self.ballot.accepted else { return Vec::new() };
        let former = view.former_electorate();
        let voters = former.iter().flat_map(|former| &former.voters).chain(&view.electorate.voters);
        let by_identity: BTreeMap<Identity, &Voter> = voters.map(|voter| (voter.identity, voter)).collect();
        by_identity.into_values().filter(|voter| voter.identity != self.ballot.identity).cloned().collect()
    }

    /// The reference of the newest accepted view.
    fn newest(&self) -> Option<ViewRef> {
        self.ballot.accepted.as_ref().map(NumberedView::reference)
    }

    fn set_quorum(&mut self, is_reached: bool) {
        if self.reaches_quorum != is_reached {
            self.reaches_quorum = is_reached;
            self.actions.push_back(Action::Quorum { is_reached });
        }
    }

    /// Takes a rule away; see `flaw`.
    #[cfg(test)]
    pub(crate) fn plant(&mut self, flaw: flaw::Flaw) {
        self.flaw = Some(flaw);
        if flaw == flaw::Flaw::NoWaitAfterRestart {
            self.promised_until = Time::default();
            self.stand_at = Time::default();
        }
    }

    /// Stands no earlier than this, so that a test can wait for others.
    #[cfg(test)]
    pub(crate) fn put_off(&mut self, around: &Surroundings<'_>, pause: Duration) {
        self.stand_at = around.now + pause;
    }

    /// Makes states that differ only in a count the same, for the model checker.
    #[cfg(test)]
    pub(crate) fn forget_counts(&mut self) {
        self.ignored = 0;
    }

    /// Whether the rule is taken away; see `flaw`.
    #[cfg(test)]
    fn has(&self, flaw: flaw::Flaw) -> bool {
        self.flaw == Some(flaw)
    }
}
