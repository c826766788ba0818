//! The machine's transitions: who is shown as the leader, and what becomes of commands for it.

#![allow(clippy::unchecked_time_subtraction, reason = "known figures")]

use std::sync::Arc;
use std::time::Duration;

use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;

use super::{Lead, LeadContext, LeadStep};
use crate::context::Phase;
use crate::counters::{Counters, DropReason};
use crate::discovery::Reunion;
use crate::election::{
    Alarm, Ballot, ChangeError, Descent, Digest, Electorate, Identity, LeaderPolicy, LeaseTiming, Lineage, LossReason,
    NumberedView, Term, ViewRef, Voter,
};
use crate::io::{CommandError, Notice, Output, QuorumInit, Reply};
use crate::limits::{
    EARLIEST_FOUNDING, FORWARD_RETRY, FORWARD_TIMEOUT, MAX_FORWARD_ASKS, RELEASE_PAUSE, RELEASES, VIEW_FETCH_RETRY,
    WHO_LEADS_INTERVAL,
};
use crate::member::{NodeId, Record, Run, Status};
use crate::settings::Settings;
use crate::time::Time;
use crate::timers::{Timer, Timers};
use crate::view::{Peer, Slot, View, index_of, slot_at};
use crate::wire::{ChangeVoters, LeaderClaim, Message, Nonce, ViewPart, VoterRequest, VotersChanged};

mod electorates;

const LEASE: Duration = Duration::from_secs(3);
const ONE: Slot = slot_at(1);
const OTHER: Slot = slot_at(2);

fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

fn id(slot: Slot) -> NodeId {
    named(index_of(slot))
}

fn named(nth: usize) -> NodeId {
    NodeId::new(&format!("n{nth}")).expect("a name")
}

/// A node that is Up and votes nowhere, beside three others, which are to be the voters.
struct World {
    now: Time,
    waited: Duration,
    view: View,
    settings: Settings,
    reunion: Reunion,
    counters: Counters,
    timers: Timers,
    lead: Lead,
    /// True while the disk takes nothing.
    is_disk_slow: bool,
    /// The nonce of the last question for the leader.
    asked: Option<Nonce>,
}

impl World {
    fn new() -> Self {
        Self::of_voters(vec![named(1), named(2), named(3)])
    }

    fn of_voters(voters: Vec<NodeId>) -> Self {
        let mut view = View::new(1);
        for nth in 0..4 {
            let record = crate::member::tests::record(&format!("n{nth}"), 1, Status::Up);
            let record = Arc::new(Record { run: Run(100 + nth), ..record });
            view.insert(Arc::clone(&record), record.hash(), Peer::new(Time::ORIGIN).with_proof(true));
        }
        let quorum = QuorumInit {
            timing: LeaseTiming { lease_duration: LEASE, renewal_interval: LEASE / 6 },
            policy: LeaderPolicy::default(),
            voters,
            ballot: Ballot::blank(Identity(7)),
            floor: Term(0),
            wall_clock: EARLIEST_FOUNDING,
        };
        let random = ChaCha8Rng::seed_from_u64(1);
        let mut world = Self {
            now: Time::ORIGIN + LEASE * 10,
            waited: Duration::ZERO,
            view,
            settings: Settings::default(),
            reunion: Reunion::new(crate::random::stream(1, crate::random::Stream::Reunion), 0, Vec::new()),
            counters: Counters::default(),
            timers: Timers::new(1),
            lead: Lead::new(quorum, named(0), ms(200), Time::ORIGIN, random),
            is_disk_slow: false,
            asked: None,
        };
        world.call(Lead::note_phase);
        world
    }

    /// Calls the machine, and returns what it says. The disk takes each ballot at once.
    fn call(&mut self, act: impl FnOnce(&mut Lead, &mut LeadContext<'_>)) -> Vec<LeadStep> {
        let mut cx = LeadContext {
            now: self.now,
            phase: Phase::Up,
            settings: &self.settings,
            view: &mut self.view,
            reunion: &self.reunion,
            waited: self.waited,
            datagram_bytes: 1_400,
            counters: &mut self.counters,
            timers: &mut self.timers,
        };
        act(&mut self.lead, &mut cx);
        let mut steps = Vec::new();
        loop {
            let said = self.lead.take_steps();
            for step in &said {
                if let LeadStep::Send { message: Message::WhoLeads { nonce }, .. } = step {
                    self.asked = Some(*nonce);
                }
            }
            let version =
                |step: &LeadStep| if let LeadStep::Persist(ballot) = step { Some(ballot.version) } else { None };
            let stored = said.iter().filter_map(version).next_back();
            steps.extend(said);
            let Some(stored) = stored.filter(|_| !self.is_disk_slow) else { return steps };
            self.lead.ballot_stored(&mut cx, stored);
        }
    }

    /// Lets time pass, and the timer fire as often as it is due.
    fn sleep(&mut self, time: Duration) -> Vec<LeadStep> {
        let until = self.now + time;
        let mut steps = Vec::new();
        while let Some(at) = self.timers.next().filter(|at| *at <= until) {
            self.now = at.max(self.now);
            assert_eq!(self.timers.pop_due(self.now), Some(Timer::Leadership));
            steps.extend(self.call(Lead::tick));
            steps.extend(self.call(Lead::schedule));
        }
        self.now = until;
        steps
    }

    /// Hears from a member that somebody leads, by a renewal of this age, or that nobody does.
    fn hear(&mut self, by: Slot, leader: Option<Slot>, term: u64, sequence: u64, age: Duration) -> Vec<LeadStep> {
        let founded = EARLIEST_FOUNDING * 2;
        let descent = Descent { lineage: Lineage(5), root: Lineage(5), began: Term(0), founded };
        self.hear_of(descent, by, leader, term, sequence, age)
    }

    fn hear_of(
        &mut self,
        descent: Descent,
        by: Slot,
        leader: Option<Slot>,
        term: u64,
        sequence: u64,
        age: Duration,
    ) -> Vec<LeadStep> {
        let claim = LeaderClaim {
            descent,
            term: Term(term),
            leader: leader.map(id),
            sequence,
            age_ms: age.as_millis() as u64,
            lease_ms: LEASE.as_millis() as u64,
            view: ViewRef { term: Term(1), number: 1, digest: Digest(1) },
            delta: None,
            answers: None,
        };
        self.call(|lead, cx| lead.on_leader_claim(cx, by, claim))
    }

    /// Hears from a member that n1 leads the electorate of this view, by a renewal of this age.
    fn hear_led(&mut self, by: Slot, view: &NumberedView, term: u64, sequence: u64, age: Duration) -> Vec<LeadStep> {
        self.hear_answer(None, by, view, term, sequence, age)
    }

    /// Hears the same as the answer to the question of this nonce.
    fn hear_answer(
        &mut self,
        answers: Option<Nonce>,
        by: Slot,
        view: &NumberedView,
        term: u64,
        sequence: u64,
        age: Duration,
    ) -> Vec<LeadStep> {
        let (leader, age_ms, lease_ms) = (Some(id(ONE)), age.as_millis() as u64, LEASE.as_millis() as u64);
        let (descent, term, view) = (view.electorate.descent(), Term(term), view.reference());
        let claim = LeaderClaim { descent, term, leader, sequence, age_ms, lease_ms, view, delta: None, answers };
        self.call(|lead, cx| lead.on_leader_claim(cx, by, claim))
    }

    /// Gets a view that was asked for.
    fn get(&mut self, by: Slot, view: &NumberedView) -> Vec<LeadStep> {
        let part = ViewPart {
            digest: view.reference().digest,
            after: None,
            members: view.members.to_vec(),
            more: false,
            electorate: Some((*view.electorate).clone()),
            change: None,
        };
        self.call(|lead, cx| lead.on_view_part(cx, by, part))
    }

    fn lineage(&self) -> Option<Lineage> {
        self.lead.founded().map(|founded| founded.lineage)
    }

    fn leader(&self) -> Option<(NodeId, u64)> {
        let told = self.lead.leadership();
        told.leader.clone().map(|leader| (leader, told.term.0))
    }

    fn ask_for_voter(&mut self) -> Vec<LeadStep> {
        let request = VoterRequest::Add(named(0));
        self.call(|lead, cx| lead.asked_for_voters(cx, 1, request))
    }

    fn answer(&mut self, by: Slot, nonce: Nonce, result: Result<Electorate, ChangeError>) -> Vec<LeadStep> {
        self.call(|lead, cx| lead.on_voters_changed(cx, by, &VotersChanged { nonce, result }))
    }
}

/// Returns what was said of leaders coming and going.
fn events(steps: &[LeadStep]) -> Vec<Output> {
    let is_event = |output: &&Output| matches!(output, Output::LeaderElected { .. } | Output::LeaderLost { .. });
    let outputs = steps.iter().filter_map(|step| if let LeadStep::Output(output) = step { Some(output) } else { None });
    outputs.filter(is_event).cloned().collect()
}

fn elected(leader: Slot, term: u64) -> Output {
    Output::LeaderElected { leader: id(leader), term: Term(term) }
}

fn lost(leader: Slot, term: u64, reason: LossReason) -> Output {
    Output::LeaderLost { leader: id(leader), term: Term(term), reason }
}

/// Returns the questions to leaders: whom, under which nonce, and whether by a link if there is one.
fn asked(steps: &[LeadStep]) -> Vec<(Slot, Nonce, bool)> {
    let question = |step: &LeadStep| match step {
        LeadStep::Send { to, message: Message::ChangeVoters(question), is_by_link, is_answer: false } => {
            Some((*to, question.nonce, *is_by_link))
        }
        _ => None,
    };
    steps.iter().filter_map(question).collect()
}

fn replies(steps: &[LeadStep]) -> Vec<Reply> {
    let reply = |step: &LeadStep| match step {
        LeadStep::Output(Output::Reply { reply, .. }) => Some(reply.clone()),
        _ => None,
    };
    steps.iter().filter_map(reply).collect()
}

fn refused(error: ChangeError) -> Vec<Reply> {
    vec![Reply::Refused(CommandError::Electorate(error))]
}

fn electorate() -> Electorate {
    Electorate::founded_by(
        (1..=3).map(|nth| Voter { id: id(nth), identity: Identity(nth.into()) }).collect(),
        EARLIEST_FOUNDING,
    )
}

#[test]
fn the_newest_claim_is_shown_and_none_of_an_earlier_term_or_renewal() {
    let mut world = World::new();
    assert_eq!(events(&world.hear(ONE, Some(ONE), 2, 5, ms(10))), [elected(ONE, 2)]);
    assert_eq!(events(&world.hear(OTHER, Some(OTHER), 1, 9, ms(0))), [], "an earlier term");
    assert_eq!(events(&world.hear(OTHER, Some(OTHER), 2, 5, ms(0))), [], "no later renewal");
    let until = world.lead.leadership().valid_until;
    world.hear(OTHER, Some(ONE), 2, 5, ms(0));
    assert_eq!(world.lead.leadership().valid_until, until, "the same renewal is as old as it was");
    world.hear(OTHER, Some(ONE), 2, 6, ms(0));
    assert_eq!(world.lead.leadership().valid_until, Some(world.now + LEASE));
    let heard = world.hear(OTHER, Some(OTHER), 3, 1, ms(0));
    assert_eq!(events(&heard), [lost(ONE, 2, LossReason::Superseded), elected(OTHER, 3)]);
}

#[test]
fn a_claim_is_as_old_as_it_says_and_as_long_as_it_may_have_waited() {
    let mut world = World::new();
    assert_eq!(events(&world.hear(ONE, Some(ONE), 1, 1, LEASE)), [], "it is over");
    world.waited = LEASE - ms(10);
    assert_eq!(events(&world.hear(ONE, Some(ONE), 1, 1, ms(10))), [], "it may have waited in the socket");
    assert_eq!(events(&world.hear(ONE, Some(ONE), 1, 1, ms(9))), [elected(ONE, 1)]);
    assert_eq!(world.lead.leadership().valid_until, Some(world.now + ms(1)));
}

#[test]
fn a_leader_that_gave_up_is_not_shown_again_in_its_term_unless_it_has_led_on() {
    let mut world = World::new();
    world.hear(ONE, Some(ONE), 1, 1, ms(0));
    world.now = world.now + ms(100);
    assert_eq!(events(&world.hear(ONE, None, 1, 0, ms(0))), [lost(ONE, 1, LossReason::Resigned)]);
    world.now = world.now + ms(100);
    assert_eq!(events(&world.hear(OTHER, Some(ONE), 1, 2, ms(0))), [], "passed on by somebody who has not heard of it");
    world.now = world.now + LEASE / 4;
    assert_eq!(events(&world.hear(OTHER, Some(ONE), 1, 3, ms(200))), [], "sent before that");
    assert_eq!(events(&world.hear(OTHER, Some(ONE), 1, 3, ms(50))), [elected(ONE, 1)], "it is led on");
    assert_eq!(events(&world.hear(ONE, None, 1, 0, ms(0))), [lost(ONE, 1, LossReason::Resigned)]);
    assert_eq!(events(&world.hear(OTHER, Some(OTHER), 2, 1, ms(0))), [elected(OTHER, 2)], "the next term is another");
}

#[test]
fn a_leader_is_shown_for_one_lease_and_not_again_by_the_same_renewal() {
    let mut world = World::new();
    world.hear(ONE, Some(ONE), 1, 4, ms(0));
    let waited = world.sleep(LEASE - ms(1));
    assert_eq!((events(&waited), world.leader()), (vec![], Some((id(ONE), 1))));
    assert_eq!(events(&world.sleep(ms(1))), [lost(ONE, 1, LossReason::Expired)]);
    assert_eq!(events(&world.hear(OTHER, Some(ONE), 1, 4, ms(0))), [], "it looks younger than it is");
    assert_eq!(events(&world.hear(OTHER, Some(ONE), 1, 5, ms(0))), [elected(ONE, 1)]);
}

#[test]
fn a_leader_not_heard_of_for_most_of_its_lease_is_asked_after() {
    let mut world = World::new();
    world.hear(ONE, Some(ONE), 1, 1, ms(0));
    let asks = |steps: &[LeadStep]| {
        let asks = steps.iter().filter(|step| matches!(step, LeadStep::Send { message: Message::WhoLeads { .. }, .. }));
        asks.count()
    };
    assert_eq!(asks(&world.sleep(LEASE * 7 / 10 - ms(1))), 0);
    assert_eq!(asks(&world.sleep(ms(1))), 1);
    assert_eq!(asks(&world.sleep(WHO_LEADS_INTERVAL)), 0, "again after a twentieth of the lease");
    assert_eq!(asks(&world.sleep(LEASE / 20 - WHO_LEADS_INTERVAL)), 1);
}

#[test]
fn a_leader_of_another_electorate_is_an_alarm_and_is_not_shown() {
    let mut world = World::new();
    let view = crate::election::NumberedView::new(Term(1), 1, vec![named(1)].into(), Arc::new(electorate()), None);
    world.call(|lead, cx| lead.learn_agreed(cx, view, None));
    let heard = world.hear(OTHER, Some(OTHER), 2, 1, ms(0));
    let alarm = Notice::Election(Alarm::OtherElectorate { id: id(OTHER) });
    assert!(heard.contains(&LeadStep::Output(Output::Notice(alarm))), "{heard:?}");
    assert_eq!((events(&heard), world.leader()), (vec![], None));
    assert_eq!(world.lead.other_electorate(world.now).map(|other| other.root), Some(Lineage(5)));
}

#[test]
fn a_command_follows_the_leaders_and_nothing_changed_is_said_only_if_none_can_have_done_it() {
    let mut world = World::new();
    world.hear(ONE, Some(ONE), 1, 1, ms(0));
    let first = asked(&world.ask_for_voter());
    let [(ONE, nonce, true)] = first[..] else { panic!("{first:?}") };
    world.hear(OTHER, Some(OTHER), 2, 1, ms(0));
    assert_eq!(asked(&world.sleep(FORWARD_RETRY)), [(OTHER, nonce, false)], "the same question");
    world.answer(ONE, nonce, Ok(electorate()));
    assert_eq!(world.counters.dropped(DropReason::Unasked), 1, "only the one asked last is believed");
    let answered = world.answer(OTHER, nonce, Err(ChangeError::Busy));
    assert_eq!(replies(&answered), refused(ChangeError::Interrupted), "the first one may have done it");
    assert_eq!(replies(&world.answer(OTHER, nonce, Err(ChangeError::Busy))), [], "answered once");
}

#[test]
fn a_leader_that_says_that_it_leads_no_more_has_done_nothing() {
    let mut world = World::new();
    world.hear(ONE, Some(ONE), 1, 1, ms(0));
    let first = asked(&world.ask_for_voter());
    let (_, nonce, _) = first[0];
    assert_eq!(replies(&world.answer(ONE, nonce, Err(ChangeError::NotLeader))), []);
    world.hear(OTHER, Some(OTHER), 2, 1, ms(0));
    assert_eq!(asked(&world.sleep(FORWARD_RETRY)), [(OTHER, nonce, false)]);
    assert_eq!(replies(&world.answer(OTHER, nonce, Err(ChangeError::Busy))), refused(ChangeError::Busy));
}

#[test]
fn a_silent_leader_is_asked_by_turns_on_both_ways_and_named_in_the_end() {
    let mut world = World::new();
    world.hear(ONE, Some(ONE), 1, 1, ms(0));
    let mut steps = world.ask_for_voter();
    let mut sequence = 1;
    let until = world.now + FORWARD_TIMEOUT;
    while world.now + LEASE / 2 < until {
        steps.extend(world.sleep(LEASE / 2));
        sequence += 1;
        world.hear(ONE, Some(ONE), 1, sequence, ms(0));
    }
    let rest = until.since(world.now);
    steps.extend(world.sleep(rest - ms(1)));
    let questions = asked(&steps);
    assert_eq!((questions.len(), replies(&steps)), (MAX_FORWARD_ASKS as usize, vec![]));
    assert!(questions.iter().enumerate().all(|(nth, (to, _, is_by_link))| *to == ONE && *is_by_link == (nth % 2 == 0)));
    assert_eq!(replies(&world.sleep(ms(1))), refused(ChangeError::LeaderSilent { leader: id(ONE) }));
}

#[test]
fn a_command_waits_for_a_leader_for_a_while_and_is_put_to_it_at_once() {
    let mut world = World::new();
    let begun = world.ask_for_voter();
    assert_eq!((asked(&begun), replies(&begun)), (vec![], vec![]));
    assert_eq!(replies(&world.sleep(LEASE / 3)), refused(ChangeError::NotLeader));
    world.ask_for_voter();
    let heard = world.hear(OTHER, Some(OTHER), 1, 1, ms(0));
    assert_eq!((asked(&heard), replies(&heard)), (vec![], vec![]));
    let asked = asked(&world.sleep(ms(1)));
    assert!(matches!(asked[..], [(OTHER, _, true)]), "{asked:?}");
}

#[test]
fn a_question_of_a_member_is_answered_each_time_and_passed_on_to_nobody() {
    let mut world = World::new();
    world.hear(ONE, Some(ONE), 1, 1, ms(0));
    let question = ChangeVoters { nonce: Nonce(3), request: VoterRequest::Add(named(0)) };
    for _ in 0..2 {
        let run = world.view.record(OTHER).run;
        let steps = world.call(|lead, cx| lead.on_change_voters(cx, OTHER, run, &question));
        let [LeadStep::Send { to: OTHER, message: Message::VotersChanged(changed), is_answer: true, is_by_link: true }] =
            &steps[..]
        else {
            panic!("{steps:?}")
        };
        assert_eq!((changed.nonce, &changed.result), (Nonce(3), &Err(ChangeError::NotLeader)));
    }
}

#[test]
fn this_nodes_own_claim_is_over_as_soon_as_its_time_is_past() {
    let mut world = World::of_voters(vec![named(0)]);
    let steps = world.sleep(LEASE * 5);
    assert_eq!((events(&steps), world.lead.leadership().is_me), (vec![elected(0, 1)], true));
    let own = world.lead.founded().expect("it leads one");
    assert_eq!(events(&world.hear_of(own, ONE, Some(ONE), 2, 1, ms(0))), [], "its own machine says when it is over");
    world.now = world.now + LEASE;
    assert_eq!(events(&world.call(Lead::expire_claim)), [lost(0, 1, LossReason::Expired)]);
    assert_eq!(world.leader(), None);
}

#[test]
fn a_leader_that_is_to_leave_ends_its_work_first() {
    let mut world = World::of_voters(vec![named(0)]);
    world.sleep(LEASE * 5);
    let steps = world.call(|lead, cx| assert!(lead.hand_over(cx), "it has to be waited for"));
    let ends = LeadStep::Output(Output::EndWork { term: Term(1) });
    assert_eq!(events(&steps), [lost(0, 1, LossReason::Resigned)]);
    assert_eq!(steps.last(), Some(&ends), "once it has said that it leads no more");
    world.call(|lead, cx| lead.with_election(cx, |election, context| election.work_ended(context, Term(1))));
    let changes = world.view.changes();
    let looks = |world: &mut World| world.call(|lead, cx| lead.note_members(cx, changes));
    assert_eq!(looks(&mut world), [], "the first release may be lost");
    world.sleep(RELEASE_PAUSE * RELEASES);
    assert_eq!(looks(&mut world), [LeadStep::Leave]);
    assert_eq!(looks(&mut world), [], "once");
}
