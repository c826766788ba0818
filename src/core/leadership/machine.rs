//! The surroundings of the election machine: it is given time, luck and its disk's acknowledgements, and its actions
//! are carried out.
//!
//! Must not know: who leads as other nodes see it.

use std::collections::{BTreeMap, BTreeSet};

use crate::doors::{Leadership, LeadershipState};
use rand::RngExt;

use super::{
    Alarm, Ballot, CommandError, Context, Core, Election, ElectionInit, Forwards, Hearsay, Known, LeaderTracker,
    LossReason, NodeId, Notice, Output, Phase, QuorumInit, RemoteCommands, Reply, Status, Term, Ticket, View,
};
use crate::counters::DropReason;
use crate::election::{Action, Body, ChangeError, Confirmed, ElectionMessage, Roster};
use crate::limits::HAND_OVER_TIMEOUT;
use crate::view::Slot;
use crate::wire::{Message, VoterRequest};

impl LeaderTracker {
    pub(super) fn ballot(&self) -> Option<&Ballot> {
        self.election.as_ref().map(Election::ballot)
    }
}

impl Core {
    /// Takes part in electing leaders from now on.
    pub(crate) fn begin_electing(&mut self, quorum: QuorumInit) {
        let random = self.random.lead.random();
        let context = Context { now: self.cx.now, random, is_up: false, members: &Vec::new };
        let init = ElectionInit {
            me: self.me().id.clone(),
            timing: quorum.timing,
            view_interval: self.cx.settings.gossip_interval,
            voters: quorum.voters,
            ballot: quorum.ballot,
        };
        let renewal_interval = init.timing.renewal_interval;
        let mut election = Election::new(init, &context);
        election.set_policy(quorum.policy);
        election.set_floor(quorum.floor);
        let term = election.term();
        self.tracker = Some(Box::new(LeaderTracker {
            election: Some(election),
            renewal_interval,
            known: None,
            ran_out: None,
            term,
            given_up: None,
            claim_until: None,
            agreed: None,
            last_delta: None,
            fetch: None,
            told: Leadership { state: LeadershipState::Vacant, term, ..Leadership::DISABLED },
            flooded: (Term(0), false, 0),
            relayed: ((Term(0), 0, 0), 0),
            recovered: None,
            asked_at: None,
            look_for_voters_at: None,
            cut_off: BTreeMap::new(),
            former_voters: Vec::new(),
            other: None,
            hearsay: Hearsay::default(),
            leave_by: None,
            forwards: Forwards::default(),
            remote_commands: RemoteCommands::default(),
            seen_changes: 0,
            seen_live: 0,
            was_up: false,
            all_drain: false,
            failures_told: BTreeSet::new(),
        }));
        let told = self.leadership();
        self.cx.output(Output::Leadership(told));
        self.with_election(|_, _| ());
    }

    /// Returns the time between a leader's renewals.
    pub(crate) fn renewal_interval(&self) -> std::time::Duration {
        self.tracker.as_ref().map_or(std::time::Duration::MAX, |tracker| tracker.renewal_interval)
    }

    /// Calls the machine with its surroundings, and carries out its actions.
    pub(crate) fn with_election<T>(&mut self, act: impl FnOnce(&mut Election, &Context<'_>) -> T) -> Option<T> {
        let mut election = self.tracker.as_mut()?.election.take()?;
        let random = self.random.lead.random();
        let is_up = self.cx.phase.is_up();
        let view = &self.view;
        let members = || members_of(view);
        let result = act(&mut election, &Context { now: self.cx.now, random, is_up, members: &members });
        let mut actions = Vec::new();
        while let Some(action) = election.poll() {
            actions.push(action);
        }
        self.tracker.as_mut()?.election = Some(election);
        for action in actions {
            self.carry_out(action);
        }
        self.schedule_leadership();
        Some(result)
    }

    /// Ends this node's claim if it ran out while this process stood still. Called before any input.
    pub(crate) fn expire_claim(&mut self) {
        if self.tracker.as_ref().is_some_and(|tracker| tracker.claim_until.is_some_and(|until| self.cx.now >= until)) {
            self.with_election(Election::expire);
        }
    }

    /// Tells the machine of changes that may concern it. Called after any input.
    pub(crate) fn attend_to_leadership(&mut self) {
        let is_up = self.cx.phase.is_up();
        let changes = self.view.changes();
        let Some(tracker) = &mut self.tracker else { return };
        if self.cx.phase.is_stopped() {
            return;
        }
        let was_up = std::mem::replace(&mut tracker.was_up, is_up);
        let seen = std::mem::replace(&mut tracker.seen_changes, changes);
        if was_up != is_up {
            self.with_election(Election::status_changed);
            if is_up {
                self.ask_anybody();
            }
        }
        self.tell_if_vote_is_lost();
        if seen != changes {
            let draining = self.draining_voters();
            self.with_election(|election, context| {
                election.note_draining(context, draining);
                election.members_changed(context);
            });
            self.publish_leadership(LossReason::Expired);
            self.tell_if_all_drain();
        }
        let live = self.view.live().len();
        let Some(tracker) = &mut self.tracker else { return };
        let is_more = live > std::mem::replace(&mut tracker.seen_live, live);
        if is_more && tracker.is_recovered() {
            // Whoever comes back may follow another recovery: the leader is told of again.
            tracker.relayed.1 = 0;
        }
        self.leave_if_released();
    }

    /// Tells the operator when all voters that are there have come to drain, here as at every other node.
    fn tell_if_all_drain(&mut self) {
        let (there, may_lead) = self.voters_there().unwrap_or_default();
        let all_drain = there > 0 && may_lead == 0;
        let Some(tracker) = &mut self.tracker else { return };
        let did = std::mem::replace(&mut tracker.all_drain, all_drain);
        if all_drain && !did {
            self.raise_alarm(Alarm::AllDrain);
        }
    }

    /// Returns the names of the voters that drain, and this node's own if it does.
    fn draining_voters(&self) -> BTreeSet<NodeId> {
        let me = self.me().is_draining().then(|| self.me().id.clone());
        let voters = self.election().and_then(Election::electorate).map_or(&[][..], |electorate| &electorate.voters);
        let drains =
            |id: &&NodeId| self.view.slot_of(id.as_str()).is_some_and(|slot| self.view.record(slot).is_draining());
        voters.iter().map(|voter| &voter.id).filter(drains).cloned().chain(me).collect()
    }

    /// Returns the number of voters that are there and do not drain; `None` if no voters are known.
    pub(crate) fn voters_that_may_lead(&self) -> Option<usize> {
        self.voters_there().map(|(_, may_lead)| may_lead)
    }

    /// Returns the number of voters that are there and have their disks, and of those among them that do not drain; `None` if no voters are
    /// known. Also at a node that is none.
    fn voters_there(&self) -> Option<(usize, usize)> {
        let record = |id: &NodeId| self.view.slot_of(id.as_str()).map(|slot| self.view.record(slot));
        let voters = self.electorate()?.voters.iter().filter_map(|voter| record(&voter.id));
        let is_there = |status| matches!(status, Status::Up | Status::Suspect);
        let there = voters.filter(|record| is_there(record.status) && !record.has_lost_vote());
        Some((there.clone().count(), there.filter(|record| !record.is_draining()).count()))
    }

    /// Tells the machine that this node leaves, before it ends. A node that leaves a cluster where nobody else is left
    /// goes from Up to its end in one step, so that the machine has not seen that it leaves.
    pub(crate) fn part_from_voters(&mut self) {
        if self.cx.phase.is_leaving() && self.tracker.as_ref().is_some_and(|tracker| tracker.was_up) {
            self.with_election(Election::status_changed);
        }
    }

    pub(crate) fn ballot_stored(&mut self, version: u64) {
        self.with_election(|election, context| election.stored(context, version));
    }

    pub(crate) fn ballot_not_stored(&mut self) {
        self.with_election(Election::store_failed);
    }

    pub(crate) fn work_ended(&mut self, term: Term) {
        self.with_election(|election, context| election.work_ended(context, term));
    }

    /// Takes a voter's message.
    pub(crate) fn on_election(&mut self, from: Slot, word: ElectionMessage) {
        let record = self.view.record(from);
        let (id, run) = (record.id.clone(), record.run);
        if let Body::Roster(Roster { founded: Some(founded), .. }) = word.body {
            if !founded.descent.is_well_formed() {
                return self.cx.counters.drop(DropReason::Malformed);
            }
            self.on_electorate_report(run, founded);
        }
        let ignored = self.election().map_or(0, Election::ignored);
        if self.with_election(|election, context| election.receive(context, &id, word)).is_none() {
            return self.cx.counters.drop(DropReason::WrongState);
        }
        if self.election().map_or(0, Election::ignored) > ignored {
            self.cx.counters.drop(DropReason::WrongState);
        }
    }

    fn carry_out(&mut self, action: Action) {
        match action {
            Action::Send { to, word } => self.send_word(&to, word),
            Action::Persist(_) => self.persist(),
            Action::Claimed { term, sequence, sent, until } => {
                let leader = self.me().id.clone();
                let lease = until.since(sent);
                let lineage = self.election().and_then(Election::lineage);
                self.learn_claim(Known { lineage, term, leader, sequence, sent, lease }, Some(until));
            }
            Action::Lost { term, reason } => self.lose_claim(term, reason),
            Action::Followed { term, leader, sequence, sent, lease } => {
                let sent = sent - self.health.may_have_waited(self.cx.now);
                let lineage = self.election().and_then(Election::lineage);
                self.learn_claim(Known { lineage, term, leader, sequence, sent, lease }, None);
            }
            Action::Released { term } => self.learn_release(term),
            Action::Agreed(view) => self.learn_agreed(view, None),
            Action::Wanted { view, from } => self.want_view(view, &from),
            Action::Quorum { .. } => self.publish_leadership(LossReason::QuorumLost),
            Action::Answer { ticket, result } if RemoteCommands::is_ticket(ticket) => self.carried_out(ticket, result),
            Action::Answer { ticket, result } => {
                self.cx.reply(ticket, result.map_or_else(|error| Reply::Refused(error.into()), Reply::Electorate));
            }
            Action::Confirmed { ticket, result } => {
                let proven = |confirmed: Confirmed| Reply::Confirmed { term: confirmed.term, until: confirmed.until };
                self.cx.reply(ticket, result.map_or_else(|error| Reply::Refused(error.into()), proven));
            }
            Action::Alarm(alarm) => self.raise_alarm(alarm),
        }
    }

    pub(super) fn raise_alarm(&mut self, alarm: Alarm) {
        let kind = alarm.kind();
        let failures = match alarm {
            Alarm::ElectionFailed { .. } => Some(&mut self.cx.counters.elections_failed),
            Alarm::RenewalFailed => Some(&mut self.cx.counters.renewal_failures),
            _ => None,
        };
        let is_failure = failures.is_some();
        if let Some(failures) = failures {
            *failures += 1;
            // Told once, however many attempts fail like it before somebody leads.
            if self.tracker.as_ref().is_some_and(|tracker| tracker.failures_told.contains(kind)) {
                return;
            }
        }
        if matches!(alarm, Alarm::TermLimit { .. }) {
            self.cx.counters.drop(DropReason::Implausible);
        }
        let is_told = self.cx.notice_if_allowed(kind, Notice::Election(alarm));
        if is_failure
            && is_told
            && let Some(tracker) = &mut self.tracker
        {
            tracker.failures_told.insert(kind);
        }
    }

    /// Sends a message, best effort like every datagram. A difference between views that does not fit is left out; a
    /// voter that lacks the view asks for it.
    fn send_word(&mut self, to: &NodeId, mut word: ElectionMessage) {
        let Some(slot) = self.view.slot_of(to.as_str()).filter(|slot| *slot != View::ME) else { return };
        let mut packet = self.out().packet_to(slot);
        let mut message = Message::Election(Box::new(word.clone()));
        if !packet.push(&message) {
            if let Body::Renew(renewal) = &mut word.body {
                renewal.delta = None;
            }
            message = Message::Election(Box::new(word));
            packet.push(&message);
        }
        self.cx.counters.election_sent += 1;
        self.send_word_to(slot, packet);
    }

    fn lose_claim(&mut self, term: Term, reason: LossReason) {
        let now = self.cx.now;
        let Some(tracker) = &mut self.tracker else { return };
        tracker.claim_until = None;
        tracker.known = None;
        tracker.give_up(term, now);
        self.publish_leadership(reason);
        if reason == LossReason::Resigned {
            self.cx.output(Output::EndWork { term });
        }
    }

    /// Hands leadership over before leaving; returns true if that has to be waited for.
    pub(crate) fn hand_over(&mut self) -> bool {
        if self.tracker.as_ref().is_none_or(|tracker| tracker.leave_by.is_some()) {
            return self.tracker.is_some();
        }
        let is_leading = self.with_election(Election::resign).unwrap_or(false);
        if let Some(tracker) = self.tracker.as_mut().filter(|_| is_leading) {
            tracker.leave_by = Some(self.cx.now + HAND_OVER_TIMEOUT);
            self.schedule_leadership();
        }
        is_leading
    }

    /// Leaves when the last release of the voters is on its way, or one of them leads already. After the first release
    /// alone, lost packets could leave them waiting for the end of the lease.
    fn leave_if_released(&mut self) {
        if self.election().is_none_or(|election| !election.is_handing_over()) {
            self.leave_now();
        }
    }

    /// Leaves, since the voters are released, or will be by time alone.
    pub(super) fn leave_now(&mut self) {
        if self.tracker.as_mut().and_then(|tracker| tracker.leave_by.take()).is_some() {
            self.begin_leaving();
        }
    }

    /// Does what only the leader does, for an operator at this node or by way of a member.
    pub(super) fn change_voters(&mut self, ticket: Ticket, request: &VoterRequest) {
        let live: Vec<NodeId> = members_of(&self.view);
        let is_live = |id: &NodeId| live.contains(id);
        let gone = match request {
            VoterRequest::Remove(id) => Some(id),
            VoterRequest::Replace { old, new }
                if self.election().is_some_and(|election| election.has_voter_named(new)) =>
            {
                Some(old)
            }
            _ => None,
        };
        if let Some(Err(error)) = gone.map(|gone| self.can_do_without(gone)) {
            self.with_election(|election, _| election.refuse(Some(ticket), error));
            return;
        }
        let new = match request {
            VoterRequest::Add(id) | VoterRequest::Replace { new: id, .. } => Some(id),
            VoterRequest::Remove(_) | VoterRequest::Resign { .. } => None,
        };
        let is_leading = self.tracker.as_ref().is_some_and(|tracker| tracker.claim_until.is_some());
        let is_unknown = |id: &&NodeId| self.view.slot_of(id.as_str()).is_none();
        if let Some(id) = new.filter(is_unknown).filter(|_| is_leading).cloned() {
            self.with_election(|election, _| election.refuse(Some(ticket), ChangeError::NoMember { id }));
            return;
        }
        self.with_election(|election, context| match request {
            VoterRequest::Add(id) => election.add_voter(context, ticket, id.clone()),
            VoterRequest::Remove(id) => election.remove_voter(context, ticket, id),
            VoterRequest::Resign { to: Some(to), .. } if !is_live(to) && election.has_voter_named(to) => {
                election.refuse(Some(ticket), ChangeError::NotCaughtUp { id: to.clone() });
            }
            VoterRequest::Resign { term, to } => election.resign_to(context, ticket, *term, to.as_ref()),
            VoterRequest::Replace { old, new } => election.replace_voter(context, ticket, old, new),
        });
    }

    /// Returns an error unless, without this voter, enough of the others are Up to elect somebody: their last
    /// acknowledgements may be from a moment ago.
    fn can_do_without(&self, gone: &NodeId) -> Result<(), ChangeError> {
        let Some(electorate) = self.election().and_then(Election::electorate) else { return Ok(()) };
        let status = |id: &NodeId| self.view.slot_of(id.as_str()).map(|slot| self.view.entry(slot).status);
        electorate.can_do_without(gone, |voter| status(&voter.id) == Some(Status::Up))
    }

    /// Takes an operator's command for another electorate.
    pub(crate) fn asked_for_voters(&mut self, ticket: Ticket, request: VoterRequest) {
        if let Err(error) = self.may_command_election() {
            return self.cx.reply(ticket, Reply::Refused(error));
        }
        let is_leading = self.tracker.as_ref().is_some_and(|tracker| tracker.claim_until.is_some());
        let may_be_asked = self.leader_elsewhere().is_some() || self.may_be_led();
        if may_be_asked && !is_leading {
            self.forward(ticket, request);
        } else {
            self.change_voters(ticket, &request);
        }
    }

    /// Takes an operator's command for another leader. It is meant for the term that is known here: a question that
    /// comes late must not depose the successor.
    pub(crate) fn asked_to_resign(&mut self, ticket: Ticket, to: Option<NodeId>) {
        let known = self.tracker.as_ref().and_then(|tracker| tracker.known.as_ref());
        let leader = known.map(|known| (known.term, known.leader.clone()));
        match (self.may_command_election(), leader) {
            (Err(error), _) => self.cx.reply(ticket, Reply::Refused(error)),
            (Ok(()), None) => self.cx.reply(ticket, Reply::Refused(ChangeError::NotLeader.into())),
            (Ok(()), Some((_, leader))) if to.as_ref() == Some(&leader) => {
                self.cx.reply(ticket, Reply::Refused(ChangeError::LeadsAlready { id: leader }.into()));
            }
            (Ok(()), Some((term, _))) => self.asked_for_voters(ticket, VoterRequest::Resign { term, to }),
        }
    }

    /// Asks for the proof that this node leads now. Only the machine of a leader can give it, whatever phase it is in.
    pub(crate) fn confirm_leadership(&mut self, ticket: Ticket) {
        if self.with_election(|election, context| election.confirm(context, ticket)).is_none() {
            self.cx.reply(ticket, Reply::Refused(CommandError::NoQuorumMode));
        }
    }

    pub(crate) fn recover(&mut self, ticket: Ticket, voters: Vec<NodeId>) {
        let lineage = self.random.lead.random();
        if let Err(error) = self.may_command_election() {
            return self.cx.reply(ticket, Reply::Refused(error));
        }
        self.with_election(|election, context| election.recover(context, ticket, voters, lineage));
    }

    /// Returns an error unless commands about the election mean anything here and now.
    pub(super) fn may_command_election(&self) -> Result<(), CommandError> {
        match self.cx.phase {
            _ if !self.is_led_by_quorum() => Err(CommandError::NoQuorumMode),
            Phase::Up => Ok(()),
            _ => Err(CommandError::Joining),
        }
    }
}

/// Returns the members that belong in an agreed view: Up, Suspect or Leaving, sorted.
fn members_of(view: &View) -> Vec<NodeId> {
    let is_in = |status| matches!(status, Status::Up | Status::Suspect | Status::Leaving);
    let mut members: Vec<NodeId> =
        view.iter().filter(|(_, entry)| is_in(entry.status)).map(|(_, entry)| entry.record.id.clone()).collect();
    members.sort_unstable();
    members
}
