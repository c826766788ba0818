//! The surroundings of the election machine: it is given time, random numbers, its disk's acknowledgements and changes that may
//! concern it, and its actions are turned into steps.
//!
//! Must not know: who leads as other nodes see it.

use std::collections::BTreeSet;

use rand::RngExt;

use super::claims::Known;
use super::commands::RemoteCommands;
use super::{Lead, LeadContext, LeadStep};
use crate::counters::DropReason;
use crate::election::{
    Action, Alarm, Body, Confirmed, Context, Election, ElectionMessage, Electorate, LossReason, Roster,
};
use crate::io::{Notice, Output, Reply};
use crate::limits::HAND_OVER_TIMEOUT;
use crate::member::NodeId;
use crate::view::{Slot, View};

/// What was seen of this node and the members when they were looked at last.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Seen {
    is_up: bool,
    /// The number of the view's changes.
    changes: u64,
    /// The number of live members.
    live: usize,
    /// True if all voters that are there drain.
    all_drain: bool,
}

/// The machine of elections.
impl Lead {
    /// Calls the election machine, and does what it says.
    pub(crate) fn with_election<T>(
        &mut self,
        cx: &mut LeadContext<'_>,
        act: impl FnOnce(&mut Election, &Context<'_>) -> T,
    ) -> T {
        let view = &*cx.view;
        let members = || members_of(view);
        let (now, random, is_up) = (cx.now, self.random.random(), cx.phase.is_up());
        let result = act(&mut self.election, &Context { now, random, is_up, members: &members });
        let actions: Vec<Action> = std::iter::from_fn(|| self.election.poll()).collect();
        for action in actions {
            self.carry_out(cx, action);
        }
        self.schedule(cx);
        result
    }

    fn carry_out(&mut self, cx: &mut LeadContext<'_>, action: Action) {
        let descent = self.election.electorate().map(Electorate::descent);
        match action {
            Action::Send { to, message } => {
                let to = cx.view.slot_of(to.as_str()).filter(|slot| *slot != View::ME);
                self.steps.extend(to.map(|to| LeadStep::SendToVoter { to, message: Box::new(message) }));
            }
            Action::Persist(_) => self.steps.push(LeadStep::Persist(Box::new(self.election.ballot().clone()))),
            Action::Claimed { .. } if self.follows_a_leader(cx.now) => {
                self.with_election(cx, Election::stop_leading);
            }
            Action::Claimed { term, sequence, sent, until } => {
                let leader = cx.view.record(View::ME).id.clone();
                let claim = Known { descent, term, leader, sequence, sent, lease: until.since(sent) };
                self.learn_claim(cx, claim, Some(until));
            }
            Action::Lost { term, reason } => {
                self.claim_until = None;
                self.known = None;
                self.give_up(term, cx.now);
                self.publish(cx.view, reason);
                if reason == LossReason::Resigned {
                    self.output(Output::EndWork { term });
                }
            }
            Action::Followed { term, leader, sequence, sent, lease } => {
                let claim = Known { descent, term, leader, sequence, sent: sent - cx.waited, lease };
                self.learn_claim(cx, claim, None);
            }
            Action::Released { term } => self.learn_release(cx, term, descent),
            Action::Agreed(view) => self.learn_agreed(cx, view, None),
            Action::Wanted { view, from } => self.want_view(cx, view, &from),
            Action::Quorum { .. } => self.publish(cx.view, LossReason::QuorumLost),
            Action::Answer { ticket, result } if RemoteCommands::is_ticket(ticket) => {
                self.answer_member(cx, ticket, result);
            }
            Action::Answer { ticket, result } => self.answer(ticket, result),
            Action::Confirmed { ticket, result } => {
                let proven = |confirmed: Confirmed| Reply::Confirmed { term: confirmed.term, until: confirmed.until };
                let reply = result.map_or_else(|error| Reply::Refused(error.into()), proven);
                self.output(Output::Reply { ticket, reply });
            }
            Action::Alarm(alarm) => self.raise_alarm(cx, alarm),
        }
    }

    /// Tells the operator of a condition, at most once in a while.
    pub(super) fn raise_alarm(&mut self, cx: &mut LeadContext<'_>, alarm: Alarm) {
        let kind = alarm.kind();
        match alarm {
            Alarm::ElectionFailed { .. } => cx.counters.elections_failed += 1,
            Alarm::RenewalFailed => cx.counters.renewal_failures += 1,
            Alarm::TermLimit { .. } => cx.counters.drop(DropReason::Implausible),
            _ => {}
        }
        // A failure is told once, however many attempts fail like it before somebody leads.
        if self.failures_told.contains(kind) || !self.alarms.take(cx.now, kind) {
            return;
        }
        if matches!(alarm, Alarm::ElectionFailed { .. } | Alarm::RenewalFailed) {
            self.failures_told.insert(kind);
        }
        self.output(Output::Notice(Notice::Election(alarm)));
    }

    /// Takes a voter's message.
    pub(crate) fn on_election(&mut self, cx: &mut LeadContext<'_>, from: Slot, message: ElectionMessage) {
        let record = cx.view.record(from);
        let (id, run) = (record.id.clone(), record.run);
        if let Body::Roster(Roster { founded: Some(founded), .. }) = message.body {
            if !founded.descent.is_well_formed() {
                return cx.counters.drop(DropReason::Malformed);
            }
            self.on_electorate_report(cx, run, founded);
        }
        let ignored = self.election.ignored();
        self.with_election(cx, |election, context| election.receive(context, &id, message));
        if self.election.ignored() > ignored {
            cx.counters.drop(DropReason::WrongState);
        }
    }

    /// Takes note that the disk has this ballot.
    pub(crate) fn ballot_stored(&mut self, cx: &mut LeadContext<'_>, version: u64) {
        self.with_election(cx, |election, context| election.stored(context, version));
        let untold = self.ended.as_mut().filter(|_| self.election.is_stored()).and_then(|ended| ended.untold.take());
        if let Some((leader, leads_in)) = untold {
            self.tell_of_ended(cx, &leader, leads_in);
        }
    }

    /// Ends this node's claim if it ran out while this process stood still. Called before any input.
    pub(crate) fn expire_claim(&mut self, cx: &mut LeadContext<'_>) {
        if self.claim_until.is_some_and(|until| cx.now >= until) {
            self.with_election(cx, Election::expire);
        }
    }
}

/// Changes that may concern the voters.
impl Lead {
    /// Tells the election machine whether this node is Up, if that has changed. Called after any input.
    pub(crate) fn note_phase(&mut self, cx: &mut LeadContext<'_>) {
        let is_up = cx.phase.is_up();
        if std::mem::replace(&mut self.seen.is_up, is_up) == is_up {
            return;
        }
        self.with_election(cx, Election::status_changed);
        if is_up {
            self.ask_anybody(cx);
        }
    }

    /// Takes note of the members, whose table has changed so many times until now. Called after any input.
    pub(crate) fn note_members(&mut self, cx: &mut LeadContext<'_>, changes: u64) {
        if std::mem::replace(&mut self.seen.changes, changes) != changes {
            let draining = self.draining_voters(cx.view);
            self.with_election(cx, |election, context| {
                election.note_draining(context, draining);
                election.members_changed(context);
            });
            self.publish(cx.view, LossReason::Expired);
            self.tell_if_all_drain(cx);
        }
        let live = cx.view.live().len();
        let is_more = live > std::mem::replace(&mut self.seen.live, live);
        if is_more {
            // Whoever comes may follow another electorate: the leader is told of again.
            self.relayed.1 = 0;
        }
        // The last release of the voters must be on its way, or one of them lead already: after the first release alone,
        // lost packets could leave them waiting for the end of the lease.
        if !self.election.is_handing_over() {
            self.leave();
        }
    }

    /// Tells the operator when all voters that are there have come to drain, here as at every other node.
    fn tell_if_all_drain(&mut self, cx: &mut LeadContext<'_>) {
        let (there, may_lead) = self.voters_there(cx.view).unwrap_or_default();
        let all_drain = there > 0 && may_lead == 0;
        let did = std::mem::replace(&mut self.seen.all_drain, all_drain);
        if all_drain && !did {
            self.raise_alarm(cx, Alarm::AllDrain);
        }
    }

    /// Returns the names of the voters that drain, and this node's own if it does.
    fn draining_voters(&self, view: &View) -> BTreeSet<NodeId> {
        let drains = |id: &NodeId| view.slot_of(id.as_str()).is_some_and(|slot| view.record(slot).is_draining());
        let voters = self.election.electorate().into_iter().flat_map(|electorate| &electorate.voters);
        let me = &view.record(View::ME).id;
        voters.map(|voter| &voter.id).chain([me]).filter(|id| drains(id)).cloned().collect()
    }
}

/// Leaving.
impl Lead {
    /// Hands leadership over before leaving; returns true if that has to be waited for.
    pub(crate) fn hand_over(&mut self, cx: &mut LeadContext<'_>) -> bool {
        if self.leave_by.is_some() {
            return true;
        }
        let is_leading = self.with_election(cx, Election::resign);
        if is_leading {
            self.leave_by = Some(cx.now + HAND_OVER_TIMEOUT);
            self.schedule(cx);
        }
        is_leading
    }

    /// Lets this node leave, since the voters are released, or will be by time alone.
    pub(super) fn leave(&mut self) {
        self.steps.extend(self.leave_by.take().map(|_| LeadStep::Leave));
    }

    /// Tells the election machine that this node leaves, before it ends. A node that leaves a cluster where nobody else
    /// is left goes from Up to its end in one step, so that the machine has not seen that it leaves.
    pub(crate) fn part_from_voters(&mut self, cx: &mut LeadContext<'_>) {
        if cx.phase.is_leaving() && self.seen.is_up {
            self.with_election(cx, Election::status_changed);
        }
    }
}

/// Returns the members that belong in an agreed view, sorted.
fn members_of(view: &View) -> Vec<NodeId> {
    let members = view.iter().filter(|(_, entry)| entry.status.is_member());
    let mut members: Vec<NodeId> = members.map(|(_, entry)| entry.record.id.clone()).collect();
    members.sort_unstable();
    members
}
