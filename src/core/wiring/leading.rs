//! Leading: what the leadership machine is told, and what is done about its steps.
//!
//! Where no leaders are elected there is no machine: commands are refused, and messages are dropped.
//!
//! Must not know: who leads, or why.

use std::time::Duration;

use crate::Core;
use crate::counters::DropReason;
use crate::election::{Body, Context, Election, Electorate, ElectorateReport, NumberedView, Term, VoterStandings};
use crate::io::{CommandError, Leadership, Output, Reply, Ticket};
use crate::leadership::{Lead, LeadContext, LeadStep, OtherElectorate};
use crate::limits::MAX_VOTERS;
use crate::member::{NodeId, Record, Run};
use crate::packet::Way;
use crate::view::{Slot, View, is_due};
use crate::wire::{LeaderClaim, Message, PacketBuilder};

/// What drivers ask, and other machines.
impl Core {
    /// Returns the leadership, as far as this node knows.
    pub fn leadership(&self) -> Leadership {
        self.lead.as_ref().map_or(Leadership::DISABLED, |lead| lead.leadership().clone())
    }

    /// Returns the newest view that is known to be agreed.
    pub fn agreed_view(&self) -> Option<&NumberedView> {
        self.lead.as_ref()?.agreed_view()
    }

    /// Returns the voters, as far as this node knows.
    pub fn electorate(&self) -> Option<&Electorate> {
        self.lead.as_ref()?.electorate()
    }

    /// Returns the voter's machine, if leaders are elected here.
    pub fn election(&self) -> Option<&Election> {
        self.lead.as_ref().map(|lead| lead.election())
    }

    /// Returns the standings of the voters, as far as this node, as a voter or by its name, knows them.
    pub fn standings(&self) -> Option<VoterStandings> {
        self.lead.as_ref()?.standings(&self.view)
    }

    /// Returns the other electorate that members have reported a short time ago, if any have.
    pub fn other_electorate(&self) -> Option<&OtherElectorate> {
        self.lead.as_ref()?.other_electorate(self.cx.now)
    }
}

/// The machine's calls, and its steps.
impl Core {
    /// Tells the election something, if leaders are elected here, and does what follows.
    pub(crate) fn tell_election(&mut self, act: impl FnOnce(&mut Election, &Context<'_>)) {
        self.tell_lead(|lead, cx| lead.with_election(cx, act));
    }

    /// Tells the machine something, if leaders are elected here, and does what it says.
    pub(crate) fn tell_lead<T>(&mut self, act: impl FnOnce(&mut Lead, &mut LeadContext<'_>) -> T) -> Option<T> {
        let lead = self.lead.as_mut()?;
        let mut cx = LeadContext {
            now: self.cx.now,
            phase: self.cx.phase,
            datagram_bytes: self.packets.seal.datagram_bytes(&self.cx.settings),
            settings: &self.cx.settings,
            view: &mut self.view,
            reunion: &self.reunion,
            waited: self.health.may_have_waited(self.cx.now),
            counters: &mut self.cx.counters,
            timers: &mut self.cx.timers,
        };
        let result = act(lead, &mut cx);
        for step in lead.take_steps() {
            self.take_lead_step(step);
        }
        Some(result)
    }

    fn take_lead_step(&mut self, step: LeadStep) {
        match step {
            LeadStep::Output(output) => self.cx.output(output),
            LeadStep::Persist(ballot) => self.persist(Some(*ballot)),
            LeadStep::Send { to, message, is_answer, is_by_link } => {
                let way = if is_by_link { self.out().best_way(to) } else { Way::Datagrams };
                let mut packet = self.out().packet_by(way, to);
                if is_answer {
                    packet.push(&Message::Reply);
                }
                push_shortened(&mut packet, message);
                self.out().send_by(way, to, packet);
            }
            LeadStep::SendToVoter { to, message } => {
                let mut packet = self.out().packet_to(to);
                push_shortened(&mut packet, Message::Election(message));
                self.cx.counters.election_sent += 1;
                self.send_to_voter(to, packet);
            }
            LeadStep::Flood { claim, is_own } => {
                for to in self.flood_targets(is_own) {
                    let mut packet = self.out().packet_to(to);
                    push_shortened(&mut packet, Message::LeaderClaim(claim.clone()));
                    self.out().send_to(to, packet);
                }
            }
            LeadStep::AskWho(address) => self.out().ask_who_briefly(address),
            LeadStep::LookFor(others) => {
                let seeds = self.reunion.draw_missing_seeds(&self.view, MAX_VOTERS);
                let others = others.into_iter().filter(|address| !seeds.contains(address));
                for address in seeds.iter().copied().chain(others) {
                    self.out().ask_who_briefly(address);
                }
            }
            LeadStep::Leave => self.begin_leaving(),
        }
    }
}

/// Messages between voters.
impl Core {
    /// Sends a message to a voter. A lease may end before heartbeats notice that a datagram is missing, so that a copy goes
    /// by the link as soon as one is late.
    pub(crate) fn send_to_voter(&mut self, slot: Slot, packet: PacketBuilder) {
        debug_assert!(slot != View::ME);
        let renewal_interval =
            self.lead.as_ref().map_or(Duration::MAX, |lead| lead.election().timing().renewal_interval);
        let record = self.view.record(slot);
        let (run, late) = (record.run, record.timing.heartbeat_interval().min(renewal_interval) * 3 / 2);
        let session = self.view.entry(slot).peer.session.as_ref();
        let is_late = session.is_none_or(|session| is_due(self.cx.now, session.datagram, late));
        let wants_link =
            !self.observers.observes(slot) && self.paths.watch_partner(&self.cx, &self.view, renewal_interval, slot);
        if wants_link {
            self.ensure_link(slot);
        }
        let is_linked = self.paths.links.open(run).is_some();
        if is_late && !self.paths.fallbacks.is_open(run) && is_linked {
            let bytes = packet.finish();
            self.paths.copy_to_link(&mut self.cx, run, &bytes);
            self.out().transmit_bytes_to_member(slot, bytes);
        } else if wants_link && !is_linked {
            let bytes = packet.finish();
            self.paths.keep_for_link(run, &bytes);
            self.out().transmit_bytes_to_member(slot, bytes);
        } else {
            self.out().send_to(slot, packet);
        }
    }
}

/// Time, the disk, and changes.
impl Core {
    /// Tells the machine of changes that may concern it. Called after any input.
    pub(crate) fn tell_leadership_of_changes(&mut self) {
        if self.cx.phase.is_stopped() {
            return;
        }
        let changes = self.view.changes();
        self.tell_lead(Lead::note_phase);
        let Some(lead) = &self.lead else { return };
        let (is_lost, is_aside) = (lead.has_lost_vote(), lead.election().is_aside());
        if (self.me().has_lost_vote(), self.me().is_aside()) != (is_lost, is_aside) && self.cx.phase.is_up() {
            // Everybody learns that this node does not vote though a voter has its name, or that it does again; nobody, where it
            // must wait for the disk, or there is no room for the marks.
            let tags = self.me().tags.with_vote(is_lost, is_aside);
            if tags != self.me().tags {
                self.restate_myself(Record { tags, ..Record::clone(self.me()) });
            }
        }
        self.tell_lead(|lead, cx| lead.note_members(cx, changes));
    }
}

/// Commands.
impl Core {
    /// Hands the machine a command; refuses it where no leaders are elected.
    pub(crate) fn command_lead(&mut self, ticket: Ticket, act: impl FnOnce(&mut Lead, &mut LeadContext<'_>)) {
        if self.tell_lead(act).is_none() {
            self.cx.reply(ticket, Reply::Refused(CommandError::NoQuorumMode));
        }
    }
}

/// Messages in, and what travels in the packets of others.
impl Core {
    /// Hands the machine a message; drops it for this reason where no leaders are elected.
    pub(crate) fn message_lead(&mut self, reason: DropReason, act: impl FnOnce(&mut Lead, &mut LeadContext<'_>)) {
        if self.tell_lead(act).is_none() {
            self.cx.counters.drop(reason);
        }
    }

    pub(crate) fn on_leader_claim(&mut self, from: Slot, claim: LeaderClaim) {
        if self.lead.is_none()
            && let Some(leader) = claim.leader.clone().filter(|_| claim.age_ms < claim.lease_ms)
        {
            self.voters_heard(from, Some((leader, claim.term)));
        }
        self.message_lead(DropReason::WrongState, |lead, cx| lead.on_leader_claim(cx, from, claim));
    }

    /// Tells the driver of a leader by voters, where this node takes no part in electing one: it may be meant to lead
    /// in another way, which makes two leaders.
    pub(crate) fn voters_heard(&mut self, from: Slot, leader: Option<(NodeId, Term)>) {
        let by = Some(self.view.record(from).id.clone());
        self.cx.output(Output::VotersHeard { by, is_led: true, leader });
    }

    /// Takes a report, by a member or by the sponsor that welcomes this node, that the cluster has an electorate.
    pub(crate) fn on_electorate_report(&mut self, by: Run, founded: ElectorateReport) {
        if self.lead.is_none() && self.cx.phase.is_joining() {
            // Whoever leads is heard of soon.
            self.cx.output(Output::VotersHeard { by: None, is_led: false, leader: None });
        }
        self.message_lead(DropReason::WrongState, |lead, cx| lead.on_electorate_report(cx, by, founded));
    }
}

/// Adds a message to a packet, without the difference between two views if it does not fit with it: whoever lacks the
/// view asks for it.
fn push_shortened(packet: &mut PacketBuilder, mut message: Message) {
    if packet.push(&message) {
        return;
    }
    match &mut message {
        Message::LeaderClaim(claim) => claim.delta = None,
        Message::Election(message) => {
            if let Body::Renew(renewal) = &mut message.body {
                renewal.delta = None;
            }
        }
        _ => return,
    }
    packet.push(&message);
}
