//! Commands for the leader that are given at another node: that node asks the leader, and passes its answer on.
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
//!
//! Must not know: what the command does.

use crate::packet::Way;
use std::collections::BTreeMap;
use std::time::Duration;

use rand::Rng;

use super::{CommandError, Core, Election, NodeId, Reply, Ticket, Time, View};
use crate::counters::DropReason;
use crate::election::ChangeError;
use crate::limits::{FORWARD_RETRY, FORWARD_TIMEOUT, MAX_FORWARD_ASKS, MAX_FORWARDED_COMMANDS, SUCCESSION_SHARE};
use crate::member::Run;
use crate::view::Slot;
use crate::wire::{ChangeVoters, Message, Nonce, VoterRequest, VotersChanged};

/// The commands that wait for the leader's answer; at most [`MAX_FORWARDED_COMMANDS`].
#[derive(Debug, Clone, Default)]
pub(super) struct Forwards {
    open: BTreeMap<Ticket, Forward>,
}

#[derive(Debug, Clone)]
struct Forward {
    nonce: Nonce,
    request: VoterRequest,
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

impl Forwards {
    pub(super) fn deadline(&self) -> Option<Time> {
        self.open.values().map(|forward| forward.ask_at.min(forward.until)).min()
    }

    /// Has a leader that was just heard of asked at once for what waited for one.
    pub(super) fn leader_heard(&mut self, now: Time) {
        for forward in self.open.values_mut().filter(|forward| forward.asks == 0) {
            forward.ask_at = now;
        }
    }
}

impl Forward {
    /// Notes the leader that is asked now.
    fn put_to(&mut self, run: Run, id: &NodeId, now: Time) {
        if self.asked.as_ref().is_some_and(|(asked, _)| *asked != run) {
            self.may_be_done = true;
        }
        self.asked = Some((run, id.clone()));
        self.asks += 1;
        self.ask_at = now + FORWARD_RETRY;
    }

    /// Returns true if a leader notices what another one has done of the command, and does the rest.
    fn may_be_repeated(&self) -> bool {
        matches!(self.request, VoterRequest::Replace { .. })
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

impl Core {
    /// Returns the leader, if it is another node that is there.
    pub(super) fn leader_elsewhere(&self) -> Option<Slot> {
        let tracker = self.tracker.as_ref().filter(|tracker| tracker.claim_until.is_none())?;
        let slot = self.view.slot_of(tracker.known.as_ref()?.leader.as_str())?;
        (slot != View::ME && self.view.entry(slot).status.is_live()).then_some(slot)
    }

    /// Begins to ask the leader, or to wait for one.
    pub(super) fn forward(&mut self, ticket: Ticket, request: VoterRequest) {
        let nonce = Nonce(self.random.lead.next_u64());
        let (now, until) = (self.cx.now, self.cx.now + FORWARD_TIMEOUT);
        let lease = self.election().map_or(Duration::ZERO, Election::lease_duration);
        let Some(tracker) = &mut self.tracker else { return };
        let unled_since = tracker.known.as_ref().map_or(now, |known| known.until().max(now));
        let led_by = unled_since + lease / SUCCESSION_SHARE;
        if tracker.forwards.open.len() >= MAX_FORWARDED_COMMANDS {
            return self.cx.reply(ticket, Reply::Refused(CommandError::Busy));
        }
        let forward = Forward { nonce, request, asked: None, may_be_done: false, asks: 0, ask_at: now, led_by, until };
        tracker.forwards.open.insert(ticket, forward);
        self.tend_forwards();
        self.schedule_leadership();
    }

    /// Asks again, or asks a new leader, or gives up.
    pub(super) fn tend_forwards(&mut self) {
        let now = self.cx.now;
        let Some(tracker) = &self.tracker else { return };
        let is_due = |forward: &Forward| now >= forward.ask_at.min(forward.until);
        let due: Vec<Ticket> =
            tracker.forwards.open.iter().filter(|(_, forward)| is_due(forward)).map(|(ticket, _)| *ticket).collect();
        for ticket in due {
            self.tend_forward(ticket);
        }
    }

    fn tend_forward(&mut self, ticket: Ticket) {
        let (now, leader) = (self.cx.now, self.leader_elsewhere());
        let Some(tracker) = &mut self.tracker else { return };
        let leads_itself = tracker.claim_until.is_some();
        let successor = tracker.known.as_ref().map(|known| (known.term, known.leader.clone()));
        let Some(forward) = tracker.forwards.open.get_mut(&ticket) else { return };
        if let (VoterRequest::Resign { term, to }, Some((now_term, successor))) = (&forward.request, successor)
            && now_term > *term
        {
            // The leader that was to resign leads no more, whether or not it resigned on request.
            let is_wanted = to.as_ref().is_none_or(|to| *to == successor);
            return self.end_resignation(ticket, is_wanted, successor);
        }
        if now >= forward.until {
            return self.give_up_forward(ticket);
        }
        if leads_itself {
            if (forward.asked.is_some() || forward.may_be_done) && !forward.may_be_repeated() {
                // The leader before may have carried the command out.
                return self.end_forward(ticket, Err(ChangeError::Interrupted));
            }
            let request = forward.request.clone();
            tracker.forwards.open.remove(&ticket);
            return self.change_voters(ticket, &request);
        }
        let Some(slot) = leader.filter(|_| forward.asks < MAX_FORWARD_ASKS) else {
            if forward.asks == 0 && now >= forward.led_by {
                return self.give_up_forward(ticket);
            }
            let last_look = if forward.asks == 0 { forward.led_by } else { forward.until };
            forward.ask_at = (now + FORWARD_RETRY).min(last_look).min(forward.until);
            return;
        };
        let record = self.view.record(slot);
        forward.put_to(record.run, &record.id, now);
        // A link may be stalled without anybody knowing, and datagrams may be lost: they are used by turns.
        let is_by_link = forward.asks % 2 == 1;
        let question = ChangeVoters { nonce: forward.nonce, request: forward.request.clone() };
        let way = if is_by_link { self.out().best_way(slot) } else { Way::Datagrams };
        let mut packet = self.out().packet_by(way, slot);
        packet.push(&Message::ChangeVoters(Box::new(question)));
        self.out().send_by(way, slot, packet);
    }

    /// Takes the leader's answer to a command.
    pub(crate) fn on_voters_changed(&mut self, from: Slot, changed: &VotersChanged) {
        let run = self.view.record(from).run;
        let now = self.cx.now;
        let forwards = self.tracker.as_mut().map(|tracker| &mut tracker.forwards.open);
        let found = forwards.into_iter().flatten().find(|(_, forward)| {
            forward.nonce == changed.nonce && forward.asked.as_ref().is_some_and(|(asked, _)| *asked == run)
        });
        let Some((ticket, forward)) = found else { return self.cx.counters.drop(DropReason::Unasked) };
        let ticket = *ticket;
        match &changed.result {
            Err(ChangeError::NotLeader) => {
                // It has done nothing, and another node will lead.
                forward.asked = None;
                forward.ask_at = now + FORWARD_RETRY;
            }
            // The next leader does the rest.
            Err(ChangeError::HalfReplaced { .. } | ChangeError::Interrupted) if forward.may_be_repeated() => {
                forward.asked = None;
                forward.may_be_done = true;
                forward.ask_at = now + FORWARD_RETRY;
            }
            // The outcome is not known, as these errors say themselves.
            Err(
                error @ (ChangeError::Interrupted | ChangeError::LeaderSilent { .. } | ChangeError::Unsettled { .. }),
            ) => {
                self.end_forward(ticket, Err(error.clone()));
            }
            // This leader has done nothing; the one before it may have.
            Err(_) if forward.may_be_done => self.end_forward(ticket, Err(ChangeError::Interrupted)),
            result => self.end_forward(ticket, result.clone()),
        }
        self.schedule_leadership();
    }

    fn end_resignation(&mut self, ticket: Ticket, is_wanted: bool, leader: NodeId) {
        let result = match self.electorate().cloned() {
            Some(electorate) if is_wanted => Ok(electorate),
            _ => Err(ChangeError::LedByOther { leader }),
        };
        self.end_forward(ticket, result);
    }

    fn give_up_forward(&mut self, ticket: Ticket) {
        let forward = self.tracker.as_mut().and_then(|tracker| tracker.forwards.open.remove(&ticket));
        if let Some(forward) = forward {
            self.cx.reply(ticket, Reply::Refused(forward.without_an_answer().into()));
        }
    }

    fn end_forward(&mut self, ticket: Ticket, result: Result<super::Electorate, ChangeError>) {
        if let Some(tracker) = &mut self.tracker {
            tracker.forwards.open.remove(&ticket);
        }
        self.cx.reply(ticket, result.map_or_else(|error| Reply::Refused(error.into()), Reply::Electorate));
    }
}
