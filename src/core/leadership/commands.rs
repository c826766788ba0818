//! An operator's commands for the leader. A node that does not lead asks the leader, and passes its answer on; the leader
//! carries each question out once, as if it had been given there, and answers each repetition with the outcome.
//!
//! The question is a message like any other and may be lost, so it is repeated, under the nonce by which the leader
//! recognises it. If the leader changes meanwhile, the next one is asked for as long as there is time.
//!
//! A command that finds no leader waits for the next one: after a leader that went there is none for a moment, which is
//! no reason to refuse it. Nobody can be elected before the last claim that is known here is over; if nobody leads
//! `lease / `[`SUCCESSION_SHARE`] later, it is refused. Where too few voters are there to elect anybody, it is refused at
//! once.
//!
//! Invariants:
//! - Every command is answered, by [`FORWARD_TIMEOUT`] at the latest.
//! - "Nothing changed" is only said if no leader can have carried the command out: of several leaders that were asked,
//!   one that did not answer may have done it, even if another one refuses to.
//! - Only the leader that was asked last is believed, and only under the nonce of the question.
//! - Only a member that is Up is obeyed. A question is known by the run that asked and its nonce; a repeated one is no
//!   second command for as long as it is remembered, which is longer than it is repeated. A new question that finds no
//!   room is dropped, and comes again.
//! - A node that does not lead says so and passes nothing on: no question goes round in circles.
//!
//! Must not know: how the electorate is changed.

use std::collections::BTreeMap;

use rand::{Rng, RngExt};

use super::{Lead, LeadContext, LeadStep};
use crate::counters::DropReason;
use crate::election::{ChangeError, Electorate};
use crate::io::{CommandError, Output, Reply, Ticket};
use crate::limits::{
    ANSWER_INTERVAL, ASKED_MEMORY, FORWARD_RETRY, FORWARD_TIMEOUT, MAX_ASKED_CHANGES, MAX_FORWARD_ASKS,
    MAX_FORWARDED_COMMANDS, SUCCESSION_SHARE,
};
use crate::member::{NodeId, Record, Run, Status};
use crate::time::Time;
use crate::view::{Slot, View, is_due};
use crate::wire::{ChangeVoters, Message, Nonce, VoterRequest, VotersChanged};

/// A command that waits for the leader's answer; there are at most [`MAX_FORWARDED_COMMANDS`].
#[derive(Debug, Clone)]
pub(super) struct Forward {
    question: ChangeVoters,
    /// The node that was asked last, unless it has said since that it does not lead.
    asked: Option<(Run, NodeId)>,
    /// True if an earlier leader was asked as well, and may have carried the command out.
    may_be_done: bool,
    asks: u32,
    ask_at: Time,
    /// The time at which it is refused if there was no leader to ask until then.
    led_by: Time,
    until: Time,
}

impl Forward {
    pub(super) fn deadline(&self) -> Time {
        self.ask_at.min(self.until)
    }

    /// Has a leader that was just heard of asked at once, if this waited for one.
    pub(super) fn leader_heard(&mut self, now: Time) {
        if self.asks == 0 {
            self.ask_at = now;
        }
    }

    /// Returns the step that asks this leader now.
    fn ask(&mut self, to: Slot, leader: &Record, now: Time) -> LeadStep {
        self.may_be_done |= self.asked.as_ref().is_some_and(|(asked, _)| *asked != leader.run);
        self.asked = Some((leader.run, leader.id.clone()));
        self.asks += 1;
        self.ask_at = now + FORWARD_RETRY;
        let message = Message::ChangeVoters(Box::new(self.question.clone()));
        // A link may be stalled without anybody knowing, and datagrams may be lost: they are used by turns.
        LeadStep::Send { to, message, is_answer: false, is_by_link: self.asks % 2 == 1 }
    }

    /// Returns true if a leader notices what another one has done of the command, and does the rest.
    fn may_be_repeated(&self) -> bool {
        matches!(self.question.request, VoterRequest::Replace { .. })
    }

    /// Returns the error for the operator if no leader has answered.
    fn without_an_answer(self) -> ChangeError {
        match self.asked {
            Some((_, leader)) => ChangeError::LeaderSilent { leader },
            None if self.may_be_done => ChangeError::Interrupted,
            None => ChangeError::NotLeader,
        }
    }
}

/// Commands given here.
impl Lead {
    /// Takes an operator's command for another electorate.
    pub(crate) fn asked_for_voters(&mut self, cx: &mut LeadContext<'_>, ticket: Ticket, request: VoterRequest) {
        if !cx.phase.is_up() {
            return self.refuse(ticket, CommandError::Joining);
        }
        let may_be_asked = self.leader_elsewhere(cx.view).is_some() || self.may_be_led(cx.view);
        if may_be_asked && !self.is_leading() {
            self.forward(cx, ticket, request);
        } else {
            self.change_voters(cx, ticket, &request);
        }
    }

    /// Takes an operator's command for another leader. It is meant for the term that is known here: a question that
    /// comes late must not depose the successor.
    pub(crate) fn asked_to_resign(&mut self, cx: &mut LeadContext<'_>, ticket: Ticket, to: Option<NodeId>) {
        if !cx.phase.is_up() {
            return self.refuse(ticket, CommandError::Joining);
        }
        let Some(known) = &self.known else { return self.refuse(ticket, ChangeError::NotLeader) };
        if to.as_ref() == Some(&known.leader) {
            let id = known.leader.clone();
            return self.refuse(ticket, ChangeError::LeadsAlready { id });
        }
        let term = known.term;
        self.asked_for_voters(cx, ticket, VoterRequest::Resign { term, to });
    }

    /// Begins another generation of the electorate on an operator's command, since too few of its voters are left.
    pub(crate) fn recover(&mut self, cx: &mut LeadContext<'_>, ticket: Ticket, voters: Vec<NodeId>) {
        let lineage = self.random.random();
        if !cx.phase.is_up() {
            return self.refuse(ticket, CommandError::Joining);
        }
        self.with_election(cx, |election, context| election.recover(context, ticket, voters, lineage, None));
    }

    /// Does what only the leader does, for an operator at this node or by way of a member.
    fn change_voters(&mut self, cx: &mut LeadContext<'_>, ticket: Ticket, request: &VoterRequest) {
        let objection = self.objection_to(cx.view, request);
        self.with_election(cx, |election, context| match (objection, request) {
            (Some(error), _) => election.refuse(Some(ticket), error),
            (None, VoterRequest::Add(id)) => election.add_voter(context, ticket, id.clone()),
            (None, VoterRequest::Remove(id)) => election.remove_voter(context, ticket, id),
            (None, VoterRequest::Resign { term, to }) => election.resign_to(context, ticket, *term, to.as_ref()),
            (None, VoterRequest::Replace { old, new }) => election.replace_voter(context, ticket, old, new),
        });
    }

    /// Returns what the members that are there speak against.
    fn objection_to(&self, view: &View, request: &VoterRequest) -> Option<ChangeError> {
        let is_voter = |id: &NodeId| self.election.electorate().is_some_and(|known| known.named(id).is_some());
        let status = |id: &NodeId| view.slot_of(id.as_str()).map(|slot| view.entry(slot).status);
        let gone = match request {
            VoterRequest::Remove(id) => Some(id),
            VoterRequest::Replace { old, new } if is_voter(new) => Some(old),
            _ => None,
        };
        // Enough of the others must be Up to elect somebody: their last acknowledgements may be from a moment ago.
        let is_up = |id: &NodeId| status(id) == Some(Status::Up);
        let electorate = gone.and_then(|gone| Some((gone, self.election.electorate()?)));
        let error = electorate.and_then(|(gone, known)| known.can_do_without(gone, |voter| is_up(&voter.id)).err());
        error.or_else(|| match request {
            VoterRequest::Add(id) | VoterRequest::Replace { new: id, .. } if self.is_leading() => {
                status(id).is_none().then(|| ChangeError::NoMember { id: id.clone() })
            }
            VoterRequest::Resign { to: Some(to), .. } if is_voter(to) && !status(to).is_some_and(Status::is_member) => {
                Some(ChangeError::NotCaughtUp { id: to.clone() })
            }
            _ => None,
        })
    }

    pub(super) fn answer(&mut self, ticket: Ticket, result: Result<Electorate, ChangeError>) {
        match result {
            Ok(electorate) => self.output(Output::Reply { ticket, reply: Reply::Electorate(electorate) }),
            Err(error) => self.refuse(ticket, error),
        }
    }

    pub(super) fn refuse(&mut self, ticket: Ticket, error: impl Into<CommandError>) {
        self.output(Output::Reply { ticket, reply: Reply::Refused(error.into()) });
    }
}

/// Commands passed on to the leader.
impl Lead {
    /// Returns the leader, if it is another node that is there.
    fn leader_elsewhere(&self, view: &View) -> Option<Slot> {
        let known = self.known.as_ref().filter(|_| !self.is_leading())?;
        let slot = view.slot_of(known.leader.as_str())?;
        (slot != View::ME && view.entry(slot).status.is_live()).then_some(slot)
    }

    /// Begins to ask the leader, or to wait for one.
    fn forward(&mut self, cx: &mut LeadContext<'_>, ticket: Ticket, request: VoterRequest) {
        let (now, nonce) = (cx.now, Nonce(self.random.next_u64()));
        if self.forwards.len() >= MAX_FORWARDED_COMMANDS {
            return self.refuse(ticket, CommandError::Busy);
        }
        let unled_since = self.known.as_ref().map_or(now, |known| known.until().max(now));
        let forward = Forward {
            question: ChangeVoters { nonce, request },
            asked: None,
            may_be_done: false,
            asks: 0,
            ask_at: now,
            led_by: unled_since + self.election.timing().lease_duration / SUCCESSION_SHARE,
            until: now + FORWARD_TIMEOUT,
        };
        self.forwards.insert(ticket, forward);
        self.continue_forwards(cx);
        self.schedule(cx);
    }

    /// Asks again, or asks a new leader, or gives up.
    pub(super) fn continue_forwards(&mut self, cx: &mut LeadContext<'_>) {
        let is_due = |forward: &Forward| cx.now >= forward.deadline();
        let due: Vec<Ticket> =
            self.forwards.iter().filter(|(_, forward)| is_due(forward)).map(|(ticket, _)| *ticket).collect();
        for ticket in due {
            if let Some(forward) = self.forwards.remove(&ticket) {
                self.continue_forward(cx, ticket, forward);
            }
        }
    }

    fn continue_forward(&mut self, cx: &mut LeadContext<'_>, ticket: Ticket, mut forward: Forward) {
        let now = cx.now;
        if let (VoterRequest::Resign { term, to }, Some(known)) = (&forward.question.request, &self.known)
            && known.term > *term
        {
            // The leader that was to resign leads no more, whether or not it resigned on request.
            let leader = known.leader.clone();
            let is_wanted = to.as_ref().is_none_or(|to| *to == leader);
            let electorate = self.electorate().filter(|_| is_wanted).cloned();
            return self.answer(ticket, electorate.ok_or(ChangeError::LedByOther { leader }));
        }
        if now >= forward.until {
            return self.refuse(ticket, forward.without_an_answer());
        }
        if self.is_leading() {
            if (forward.asked.is_some() || forward.may_be_done) && !forward.may_be_repeated() {
                // The leader before may have carried the command out.
                return self.refuse(ticket, ChangeError::Interrupted);
            }
            return self.change_voters(cx, ticket, &forward.question.request);
        }
        match self.leader_elsewhere(cx.view).filter(|_| forward.asks < MAX_FORWARD_ASKS) {
            Some(leader) => self.steps.push(forward.ask(leader, cx.view.record(leader), now)),
            None if forward.asks > 0 => forward.ask_at = now + FORWARD_RETRY,
            None if now < forward.led_by => forward.ask_at = (now + FORWARD_RETRY).min(forward.led_by),
            None => return self.refuse(ticket, forward.without_an_answer()),
        }
        self.forwards.insert(ticket, forward);
    }

    /// Takes the leader's answer to a command.
    pub(crate) fn on_voters_changed(&mut self, cx: &mut LeadContext<'_>, from: Slot, changed: &VotersChanged) {
        let run = cx.view.record(from).run;
        let found = self.forwards.iter_mut().find(|(_, forward)| {
            let was_asked = forward.asked.as_ref().is_some_and(|(asked, _)| *asked == run);
            was_asked && forward.question.nonce == changed.nonce
        });
        let Some((ticket, forward)) = found else { return cx.counters.drop(DropReason::Unasked) };
        let ticket = *ticket;
        let result = match &changed.result {
            // It has done nothing, and another node will lead.
            Err(ChangeError::NotLeader) => None,
            // The next leader does the rest.
            Err(ChangeError::HalfReplaced { .. } | ChangeError::Interrupted) if forward.may_be_repeated() => {
                forward.may_be_done = true;
                None
            }
            // The outcome is not known, as these errors say themselves.
            Err(ChangeError::Interrupted | ChangeError::LeaderSilent { .. } | ChangeError::Unsettled { .. }) => {
                Some(changed.result.clone())
            }
            // This leader has done nothing; the one before it may have.
            Err(_) if forward.may_be_done => Some(Err(ChangeError::Interrupted)),
            result => Some(result.clone()),
        };
        if let Some(result) = result {
            self.forwards.remove(&ticket);
            self.answer(ticket, result);
        } else {
            forward.asked = None;
            forward.ask_at = cx.now + FORWARD_RETRY;
        }
        self.schedule(cx);
    }
}

/// The first of the tickets that are drawn here; drivers' tickets are below.
const FIRST_TICKET: Ticket = 1 << 63;

/// A question's identity: the run that asked, and the nonce it chose.
type Key = (Run, Nonce);

/// The questions of other members, answered or not; at most [`MAX_ASKED_CHANGES`].
#[derive(Debug, Clone, Default)]
pub(super) struct RemoteCommands {
    questions: BTreeMap<Key, Question>,
    last_ticket: Ticket,
}

#[derive(Debug, Clone)]
struct Question {
    ticket: Ticket,
    came: Time,
    /// The outcome of the command, and when it was told last; `None` while it is being carried out.
    outcome: Option<(Result<Electorate, ChangeError>, Time)>,
}

impl RemoteCommands {
    /// Returns true if a ticket was drawn here.
    pub(super) fn is_ticket(ticket: Ticket) -> bool {
        ticket >= FIRST_TICKET
    }

    /// Notes a question, and gives it a ticket; `None` if there is no room for it.
    fn take_down(&mut self, key: Key, now: Time) -> Option<Ticket> {
        self.questions.retain(|_, question| question.outcome.is_none() || now.since(question.came) < ASKED_MEMORY);
        if self.questions.len() >= MAX_ASKED_CHANGES {
            let is_over =
                |question: &Question| question.outcome.is_some() && now.since(question.came) > FORWARD_TIMEOUT;
            let over = self.questions.iter().filter(|(_, question)| is_over(question));
            let oldest = *over.min_by_key(|(_, question)| question.ticket)?.0;
            self.questions.remove(&oldest);
        }
        let ticket = FIRST_TICKET | self.last_ticket;
        self.last_ticket += 1;
        self.questions.insert(key, Question { ticket, came: now, outcome: None });
        Some(ticket)
    }
}

/// Commands of other members.
impl Lead {
    /// Takes the request of a member, by this run, that this node, as the leader, change the electorate.
    pub(crate) fn on_change_voters(&mut self, cx: &mut LeadContext<'_>, from: Slot, run: Run, question: &ChangeVoters) {
        let (now, nonce) = (cx.now, question.nonce);
        if !cx.phase.is_up() || cx.view.entry(from).status != Status::Up {
            return cx.counters.drop(DropReason::WrongState);
        }
        if let Some(known) = self.remote_commands.questions.get_mut(&(run, nonce)) {
            // While the command is being carried out, the member that asked waits.
            let Some((result, told_at)) = &mut known.outcome else { return };
            if !is_due(now, Some(*told_at), ANSWER_INTERVAL) {
                return cx.counters.drop(DropReason::RateLimited);
            }
            *told_at = now;
            let result = result.clone();
            return self.tell_outcome(from, nonce, result);
        }
        if !self.is_leading() {
            return self.tell_outcome(from, nonce, Err(ChangeError::NotLeader));
        }
        match self.remote_commands.take_down((run, nonce), now) {
            Some(ticket) => self.change_voters(cx, ticket, &question.request),
            None => cx.counters.drop(DropReason::TableFull),
        }
    }

    /// Notes the outcome of a member's question, and answers it.
    pub(super) fn answer_member(
        &mut self,
        cx: &LeadContext<'_>,
        ticket: Ticket,
        result: Result<Electorate, ChangeError>,
    ) {
        let found = self.remote_commands.questions.iter_mut().find(|(_, question)| question.ticket == ticket);
        let Some((&(run, nonce), question)) = found else { return };
        question.outcome = Some((result.clone(), cx.now));
        if let Some(slot) = cx.view.slot_of_run(run) {
            self.tell_outcome(slot, nonce, result);
        }
    }

    fn tell_outcome(&mut self, to: Slot, nonce: Nonce, result: Result<Electorate, ChangeError>) {
        let message = Message::VotersChanged(Box::new(VotersChanged { nonce, result }));
        self.steps.push(LeadStep::Send { to, message, is_answer: true, is_by_link: true });
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    const NOW: Time = Time::ORIGIN;

    fn key(run: u64, nonce: u64) -> Key {
        (Run(run), Nonce(nonce))
    }

    fn answer(asked: &mut RemoteCommands, key: Key) {
        asked.questions.get_mut(&key).expect("taken down").outcome = Some((Err(ChangeError::Busy), NOW));
    }

    #[test]
    fn at_most_so_many_questions_are_kept_and_the_oldest_that_is_over_gives_way() {
        let mut asked = RemoteCommands::default();
        let keys: Vec<Key> = (0..MAX_ASKED_CHANGES as u64).map(|i| key(i % 7, i)).collect();
        for key in &keys {
            assert!(asked.take_down(*key, NOW).is_some());
        }
        assert_eq!(asked.take_down(key(99, 0), NOW), None, "none of them is answered");
        answer(&mut asked, keys[40]);
        answer(&mut asked, keys[9]);
        assert_eq!(asked.take_down(key(99, 0), NOW + FORWARD_TIMEOUT), None, "they may be repeated");
        let later = NOW + FORWARD_TIMEOUT + Duration::from_millis(1);
        assert!(asked.take_down(key(99, 0), later).is_some());
        assert_eq!(asked.questions.len(), MAX_ASKED_CHANGES);
        assert!(!asked.questions.contains_key(&keys[9]) && asked.questions.contains_key(&keys[40]));
    }

    #[test]
    fn what_was_answered_is_forgotten_after_a_while_and_what_was_not_is_kept() {
        let mut asked = RemoteCommands::default();
        for i in 0..2 {
            assert!(asked.take_down(key(1, i), NOW).is_some());
        }
        answer(&mut asked, key(1, 0));
        assert!(asked.take_down(key(2, 0), NOW + ASKED_MEMORY).is_some());
        assert_eq!(asked.questions.keys().copied().collect::<Vec<_>>(), [key(1, 1), key(2, 0)]);
    }
}
