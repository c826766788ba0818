//! Commands for the leader that came from other members (see `forward`): each is carried out once, as if it had been
//! given here, and each repetition of the question is answered with the outcome.
//!
//! Invariants:
//! - Only a member that is Up is obeyed.
//! - A question is known by the run that asked and its nonce. A repeated one is no second command for as long as it is
//!   remembered, which is longer than it is repeated. A new question that finds no room is dropped, and comes again.
//! - A node that does not lead says so and passes nothing on: no question goes round in circles.
//!
//! Must not know: what the command does.

use std::collections::BTreeMap;

use super::{Core, Status, Ticket, Time};
use crate::counters::DropReason;
use crate::election::{ChangeError, Electorate};
use crate::limits::{ANSWER_INTERVAL, ASKED_MEMORY, FORWARD_TIMEOUT, MAX_ASKED_CHANGES};
use crate::member::Run;
use crate::packet::Sender;
use crate::view::{Slot, is_due};
use crate::wire::{ChangeVoters, Message, Nonce, VotersChanged};

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
    /// The outcome of the command; `None` while it is being carried out.
    result: Option<Result<Electorate, ChangeError>>,
    said_at: Option<Time>,
}

impl RemoteCommands {
    /// Returns true if a ticket was drawn here.
    pub(super) fn is_ticket(ticket: Ticket) -> bool {
        ticket >= FIRST_TICKET
    }

    /// Notes a question, and gives it a ticket; `None` if there is no room for it.
    fn take_down(&mut self, key: Key, now: Time) -> Option<Ticket> {
        self.questions.retain(|_, question| question.result.is_none() || now.since(question.came) < ASKED_MEMORY);
        if self.questions.len() >= MAX_ASKED_CHANGES {
            let is_over = |question: &Question| question.result.is_some() && now.since(question.came) > FORWARD_TIMEOUT;
            let over = self.questions.iter().filter(|(_, question)| is_over(question));
            let oldest = *over.min_by_key(|(_, question)| question.ticket)?.0;
            self.questions.remove(&oldest);
        }
        let ticket = FIRST_TICKET | self.last_ticket;
        self.last_ticket += 1;
        self.questions.insert(key, Question { ticket, came: now, result: None, said_at: None });
        Some(ticket)
    }
}

impl Core {
    /// Takes a member's request that this node, as the leader, change the electorate.
    pub(crate) fn on_change_voters(&mut self, from: Slot, sender: Sender, question: &ChangeVoters) {
        let (now, key) = (self.cx.now, (sender.run, question.nonce));
        let is_up = self.cx.phase.is_up() && self.view.entry(from).status == Status::Up;
        let Some(tracker) = self.tracker.as_mut().filter(|_| is_up) else {
            return self.cx.counters.drop(DropReason::WrongState);
        };
        if let Some(known) = tracker.remote_commands.questions.get_mut(&key) {
            let Some(result) = known.result.clone() else {
                // The command is being carried out; the member that asked waits.
                return;
            };
            if !is_due(now, known.said_at, ANSWER_INTERVAL) {
                return self.cx.counters.drop(DropReason::RateLimited);
            }
            known.said_at = Some(now);
            return self.say_what_became(from, question.nonce, result);
        }
        if tracker.claim_until.is_none() {
            return self.say_what_became(from, question.nonce, Err(ChangeError::NotLeader));
        }
        match tracker.remote_commands.take_down(key, now) {
            Some(ticket) => self.change_voters(ticket, &question.request),
            None => self.cx.counters.drop(DropReason::TableFull),
        }
    }

    /// Notes the outcome of a member's question, and answers it.
    pub(super) fn carried_out(&mut self, ticket: Ticket, result: Result<Electorate, ChangeError>) {
        let now = self.cx.now;
        let Some(tracker) = &mut self.tracker else { return };
        let found = tracker.remote_commands.questions.iter_mut().find(|(_, question)| question.ticket == ticket);
        let Some(((run, nonce), question)) = found else { return };
        let (run, nonce) = (*run, *nonce);
        question.result = Some(result.clone());
        question.said_at = Some(now);
        if let Some(slot) = self.view.slot_of_run(run) {
            self.say_what_became(slot, nonce, result);
        }
    }

    fn say_what_became(&mut self, to: Slot, nonce: Nonce, result: Result<Electorate, ChangeError>) {
        let way = self.out().best_way(to);
        let mut packet = self.out().packet_by(way, to);
        packet.push(&Message::Reply);
        packet.push(&Message::VotersChanged(Box::new(VotersChanged { nonce, result })));
        self.out().send_by(way, to, packet);
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
        asked.questions.get_mut(&key).expect("taken down").result = Some(Err(ChangeError::Busy));
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
