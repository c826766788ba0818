//! The outside of a core: each input, deadline and command goes to the machine that it is for; and the questions that drivers
//! and tests may ask, which change nothing.
//!
//! Invariants: a pause of this process and a claim that ran out are noticed before any input is looked at; after
//! [`Output::Stopped`] nothing is taken in.
//!
//! Must not know: what the machines make of it, or why somebody asks.

use std::sync::Arc;
use std::time::Duration;

use crate::Core;
use crate::context::Phase;
use crate::counters::Counters;
use crate::dissemination::LeaseUpdates;
use crate::election::Election;
use crate::io::{Command, Input, Output, Reply, StopReason};
use crate::leadership::Lead;
use crate::limits::MAX_FRAME_BYTES;
use crate::member::{DetectionMethod, NodeId, Record, Run, Status};
use crate::messages::Unlinked;
use crate::packet::Way;
use crate::time::Time;
use crate::timers::Timer;
use crate::view::View;
use crate::wire::VoterRequest;

impl Core {
    /// Takes an input: the way in. `now` must not be before the last one.
    pub fn handle(&mut self, now: Time, input: Input<'_>) {
        debug_assert!(self.cx.outputs().is_empty(), "drain poll() after every handle()");
        debug_assert!(now >= self.cx.now, "time never falls: {now:?} after {:?}", self.cx.now);
        if self.cx.phase.is_stopped() {
            return;
        }
        let before = self.cx.now;
        self.cx.now = now.max(before);
        let mut late = self.health.note_input(&mut self.cx, before);
        if !matches!(input, Input::Worked(_)) {
            let pause = late.and_then(|late| self.health.note_pause(&mut self.cx, late));
            if pause.is_some_and(|unheard| unheard >= self.cx.settings.reap_after) && !self.view.live().is_empty() {
                match self.cx.phase {
                    Phase::Up => {
                        self.rejoin();
                        // The deadlines that were missed are forgotten with all others.
                        late = None;
                    }
                    // All members have forgotten this node by now.
                    Phase::Leaving => return self.stop(StopReason::Left),
                    Phase::Joining | Phase::Stopped => {}
                }
            }
            if self.cx.phase.is_stopped() {
                return;
            }
            self.tell_lead(Lead::expire_claim);
        }
        match input {
            Input::Worked(worked) => return self.health.note_work(self.cx.now, worked),
            Input::Packet { from, bytes } => self.receive(from, Way::Datagrams, bytes),
            Input::UnboundPacket { from, bytes } => self.receive(from, Way::Unbound, bytes),
            Input::Tick => {
                if let Some(late) = late {
                    self.health.tick(&mut self.cx, late);
                }
                while let Some(timer) = self.cx.timers.pop_due(self.cx.now) {
                    self.fire(timer);
                    if self.cx.phase.is_stopped() {
                        break;
                    }
                }
            }
            Input::Command(command) => self.command(command),
            Input::SeedAddresses(addresses) => {
                let new = self.reunion.set_seeds(addresses);
                self.joiner.seeds_found(&mut outbox!(self), &self.reunion, new, true);
            }
            Input::SomeSeedAddresses(addresses) => {
                let new = self.reunion.set_seeds(addresses);
                self.joiner.seeds_found(&mut outbox!(self), &self.reunion, new, false);
            }
            Input::Persisted { incarnation_bound, ballot_version } => {
                self.persisted(incarnation_bound);
                self.tell_lead(|lead, cx| lead.ballot_stored(cx, ballot_version));
            }
            Input::PersistFailed => self.tell_election(Election::store_failed),
            Input::WorkEnded { term } => self.tell_election(|election, context| election.work_ended(context, term)),
            Input::WallClock(now) => self.tell_election(|election, context| election.set_wall_clock(context, now)),
            Input::Link { link, event } => self.link_event(link, event),
        }
        self.joiner.note_unreached(&self.cx, self.paths.take_unreached());
        self.tell_leadership_of_changes();
        debug_assert!(self.cx.outputs().iter().all(|output| match output {
            Output::Transmit { bytes, .. } => bytes.len() <= self.cx.settings.mtu,
            Output::SendFrame { bytes, .. } => bytes.len() <= MAX_FRAME_BYTES,
            _ => true,
        }));
    }

    /// Returns the time at which to hand in [`Input::Tick`] at the latest; `None` once stopped.
    pub fn next_deadline(&self) -> Option<Time> {
        self.cx.timers.next().filter(|_| !self.cx.phase.is_stopped())
    }

    /// Acts on a timer that is due. Compiled apart from the loop, which would get ready for all of them before it looks
    /// for one: ninety instructions a tick.
    #[inline(never)]
    pub(crate) fn fire(&mut self, timer: Timer) {
        match timer {
            Timer::JoinTry => self.joiner.try_to_join(&mut outbox!(self), &self.reunion),
            Timer::Found => self.consider_founding(),
            Timer::Transfer => {
                let step = self.joiner.pull_again(&mut outbox!(self), &self.reunion);
                self.take_joiner_step(step);
            }
            Timer::Reach => self.joiner.ask_to_be_reached(&mut outbox!(self)),
            Timer::CatchUp => self.gossip.catch_up(&mut outbox!(self)),
            Timer::Gossip => self.gossip_tick(),
            Timer::Flood => self.gossip.flood(&mut outbox!(self)),
            Timer::FloodAgain => self.gossip.flood_own_again(&mut outbox!(self)),
            Timer::Reunite => self.reunite(),
            Timer::Judge(run) => self.judge(run),
            Timer::Heartbeat => self.heartbeat(),
            Timer::Link(run) => {
                let facts = self.view.slot_of_run(run).map(|slot| self.link_facts(slot));
                let actions = self.paths.links.due(run, facts);
                self.act_on_link(run, actions);
            }
            Timer::UnprovenLinks => self.out().ask_unproven_again(),
            Timer::Crash(run) => self.investigate(run),
            Timer::Host(run) => self.ask_host(run),
            Timer::Joiner(run) => self.sponsor.judge_joiner(&mut outbox!(self), run),
            Timer::NameProbe(run) => {
                let founded = self.founded_report();
                self.sponsor.probe_name_again(&mut outbox!(self), founded, run);
            }
            Timer::Rival => {
                let step = self.me.rivals.dispute(&mut self.cx, self.view.me());
                self.take_step_about_rival(step);
            }
            Timer::Move => self.ask_at_new_address(),
            Timer::Confirm(ticket) => {
                let over = self.confirmations.ask_again(&mut outbox!(self), ticket);
                self.confirmation_over(over);
            }
            Timer::Contact(ticket) => self.reunion.end_contact(&mut outbox!(self), ticket),
            Timer::Partition => self.partition.suspect(&mut self.cx, &self.view),
            Timer::PartitionOver => self.partition.end(&mut self.cx, &self.view),
            Timer::Leadership => {
                self.tell_lead(Lead::tick);
                self.tell_lead(Lead::schedule);
            }
            Timer::Walk => self.walk(),
            Timer::Spread => self.spread(),
            Timer::RepairMessages => {
                let is_telling_due = self.messages.is_telling_due(self.cx.now);
                let peers = if is_telling_due { self.flood_targets(false) } else { Vec::new() };
                self.messages.repair(&mut outbox!(self), &peers);
            }
            Timer::DirectMessage(number) => self.on_direct_deadline(number),
        }
    }

    /// Gossips, and does what each machine has to do now and then, for which a timer of its own would be too much.
    fn gossip_tick(&mut self) {
        if self.cx.phase.is_joining() {
            return;
        }
        for slot in self.gossip.next_anybody(&mut outbox!(self)) {
            self.gossip_to(slot, None);
            self.cx.counters.gossip_sent += 1;
        }
        if self.observers.is_review_due(self.cx.now) {
            let is_linked = |run| self.paths.links.open(run).is_some();
            let shift = self.observers.review(&self.cx, &self.view, is_linked);
            self.act_on_shift(shift);
        }
        self.detector.tell_the_accused(&mut outbox!(self));
        self.gossip.sync_if_needed(&mut outbox!(self));
        self.paths.end_old_bootstraps(&mut self.cx);
    }

    fn command(&mut self, command: Command) {
        match command {
            Command::Join { ticket, addresses } => self.reunion.contact(&mut outbox!(self), ticket, &addresses),
            Command::Leave => {
                // A leader hands over first.
                if !self.tell_lead(Lead::hand_over).unwrap_or(false) {
                    self.begin_leaving();
                }
            }
            Command::Remove { ticket, id, force } => self.remove(ticket, &id, force),
            Command::Doubt { ticket, id } => {
                let doubted = self.doubt(id);
                self.cx.reply(ticket, doubted.map_or_else(Reply::Refused, |()| Reply::Doubted));
            }
            Command::SetTags { ticket, tags } => {
                let set = self.retag(tags.with_marks_of(&self.me().tags));
                self.cx.reply(ticket, set.map_or_else(Reply::Refused, |()| Reply::TagsSet));
            }
            Command::Drain { ticket, is_draining } => {
                // The election is told of the change like of every other one.
                let set = self.retag(self.me().tags.with_draining(is_draining).ok());
                let voters = self.lead.as_ref().and_then(|lead| lead.voters_there(&self.view));
                let may_lead = voters.map(|(_, may_lead)| may_lead);
                self.cx.reply(ticket, set.map_or_else(Reply::Refused, |()| Reply::Draining { may_lead }));
            }
            Command::SetAddress { ticket, address } => self.set_address(ticket, address),
            Command::AddVoter { ticket, id } => {
                self.command_lead(ticket, |lead, cx| lead.asked_for_voters(cx, ticket, VoterRequest::Add(id)));
            }
            Command::RemoveVoter { ticket, id } => {
                self.command_lead(ticket, |lead, cx| lead.asked_for_voters(cx, ticket, VoterRequest::Remove(id)));
            }
            Command::Resign { ticket, to } => {
                self.command_lead(ticket, |lead, cx| lead.asked_to_resign(cx, ticket, to));
            }
            Command::ConfirmLeadership { ticket } => {
                self.command_lead(ticket, |lead, cx| {
                    lead.with_election(cx, |election, context| election.confirm(context, ticket));
                });
            }
            Command::ReplaceVoter { ticket, old, new } => {
                self.command_lead(ticket, |lead, cx| {
                    lead.asked_for_voters(cx, ticket, VoterRequest::Replace { old, new });
                });
            }
            Command::Recover { ticket, voters } => {
                self.command_lead(ticket, |lead, cx| lead.recover(cx, ticket, voters));
            }
            Command::FoundAnew { ticket, voters } => {
                self.command_lead(ticket, |lead, cx| lead.found_anew(cx, ticket, voters));
            }
            Command::TellLease(update) => {
                if self.lease_updates.note_if_newer(&update) {
                    let targets = self.flood_targets(true);
                    LeaseUpdates::pass_on(&mut outbox!(self), update, targets.into_iter());
                }
            }
            Command::KeepLeaseTerm { lease, term } => self.lease_updates.keep_term(lease, term),
            Command::Broadcast { .. }
            | Command::Send { .. }
            | Command::Request { .. }
            | Command::Answer { .. }
            | Command::Deliver { .. } => {
                let unlinked = self.messages.command(&mut outbox!(self), command);
                if let Some(Unlinked { receiver, number }) = unlinked
                    && !self.ensure_link(receiver)
                {
                    self.messages.direct.give_up(&mut self.cx, number);
                }
            }
        }
    }
}

impl Core {
    /// Returns the members of a suspected partition that are missing.
    pub fn unreachable(&self) -> impl Iterator<Item = &NodeId> {
        self.partition.missing()
    }

    /// Returns the number of links to observed members that are bad now: others hear those members and this node does
    /// not, or no datagram passes while TCP does.
    pub fn degraded_links(&self) -> usize {
        self.detector.degraded_links(self.paths.fallbacks.certain())
    }

    /// Returns true if there were no other members when this node became Up: nobody knew more than it.
    pub fn has_begun_alone(&self) -> bool {
        self.arrivals.was_alone()
    }

    /// Returns this node's own record.
    pub fn me(&self) -> &Arc<Record> {
        self.view.record(View::ME)
    }

    /// Returns the greatest size of a packet in a datagram.
    pub fn datagram_bytes(&self) -> usize {
        self.packets.seal.datagram_bytes(&self.cx.settings)
    }

    /// Returns true if this node is a full member: it holds a whole view and said so.
    pub fn is_up(&self) -> bool {
        self.cx.phase.is_up()
    }

    /// Returns true if a member, of any status, has this run.
    pub fn knows(&self, run: Run) -> bool {
        self.view.slot_of_run(run).is_some()
    }

    /// Returns true if this node is reached at the address that it advertises, as far as it knows: no, if a member said
    /// so and none has shown since that it receives what this node sends.
    pub fn is_reachable(&self) -> bool {
        self.me.unreached_at != Some(self.me().address)
    }

    /// Returns the order-independent sum of the hashes of all records in the view.
    pub fn fingerprint(&self) -> u64 {
        self.view.fingerprint()
    }

    /// Returns the local count of changes of the view.
    pub fn changes(&self) -> u64 {
        self.view.changes()
    }

    /// Returns the number of members by status, in the order of [`Status::NAMES`]; joiners held beside the view are
    /// counted as joining.
    pub fn counts(&self) -> [usize; Status::NAMES.len()] {
        let mut counts = self.view.counts();
        counts[Status::Joining.index()] += self.sponsor.joiners.listed();
        counts
    }

    /// Returns all records of the view in the order of names, this node's included, with the method by which a Suspect
    /// or Down one was found out.
    pub fn records(&self) -> impl Iterator<Item = (&Arc<Record>, Option<DetectionMethod>)> {
        self.view.iter().map(|(_, entry)| {
            let is_shown = entry.record.status.is_accused();
            (&entry.record, entry.peer.method.filter(|_| is_shown))
        })
    }

    /// Returns one member's record.
    pub fn record(&self, id: &NodeId) -> Option<&Arc<Record>> {
        self.view.slot_of(id.as_str()).map(|slot| self.view.record(slot))
    }

    /// Returns what this node has seen of a member. Whoever is polling gets ages as of the last [`Core::handle`], that is at
    /// the time of the change that is being polled.
    pub fn observation(&self, id: &NodeId) -> Option<Observation> {
        let slot = self.view.slot_of(id.as_str())?;
        let entry = self.view.entry(slot);
        let session = entry.peer.session.as_ref();
        let is_gone = matches!(entry.status, Status::Down | Status::Left(_));
        Some(Observation {
            is_observed: self.observers.observes(slot),
            last_heard: session.map(|session| session.heard),
            fingerprint: session.map(|session| session.fingerprint),
            rtt: entry.peer.rtt(),
            gone_for: is_gone.then(|| self.cx.now.since(entry.peer.last_sign())),
        })
    }

    /// Returns the points of evidence against this node's own observation: 0 for none, up to
    /// [`MAX_HEALTH_SCORE`](crate::limits::MAX_HEALTH_SCORE). One more than that is the factor by which it stretches the timeouts by
    /// which it accuses others.
    pub fn health_score(&self) -> u32 {
        self.health.score()
    }

    /// Returns the time of the last sign of life of the live member that has been silent for longest, of those that
    /// this node observes; `None` if it observes none.
    pub fn oldest_sign(&self) -> Option<Time> {
        let live = self.observers.neighbours().map(|slot| self.view.entry(slot)).filter(|entry| entry.status.is_live());
        live.map(|entry| entry.peer.last_sign()).min()
    }

    /// Returns what was counted.
    pub fn counters(&self) -> &Counters {
        &self.cx.counters
    }
}

/// What a node has seen of one member.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Observation {
    /// True if this node observes it.
    pub is_observed: bool,
    /// The time at which this node itself last heard it.
    pub last_heard: Option<Time>,
    /// The fingerprint of its view in the last packet that it sent to this node.
    pub fingerprint: Option<u64>,
    /// The smoothed round trip time, if it was ever measured.
    pub rtt: Option<Duration>,
    /// The time for which it has been gone, if it is held as Down or Left: since its last sign of life if it is Down, since
    /// its departure if it left. The age travels with the record, so whoever learns of an old death, by the transfer of the
    /// view or by sync, learns how old it is.
    pub gone_for: Option<Duration>,
}

/// The number of entries of each table of a core.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Sizes {
    /// Records of the view.
    pub members: usize,
    /// Timers that are set.
    pub timers: usize,
    /// Tombstones.
    pub tombstones: usize,
    /// Joiners that are held beside the view.
    pub joiners: usize,
    /// Members that have, had, or are to have links, and connections.
    pub links: usize,
    /// Processes that seem to be gone.
    pub crashes: usize,
    /// Indirect probes under way, and members that others alone hear.
    pub inquiries: usize,
    /// Names whose owner is being asked.
    pub name_probes: usize,
    /// Departures and removals that wait to be confirmed.
    pub confirmations: usize,
    /// Addresses at which this node met itself.
    pub own_addresses: usize,
    /// Strangers that were answered or asked lately, and joiners that were answered.
    pub strangers: usize,
    /// Messages between programs that are kept or on their way, and what recognises copies of them.
    pub messages: usize,
}

impl Core {
    /// Returns the number of entries that this core keeps.
    pub fn sizes(&self) -> Sizes {
        Sizes {
            members: self.view.len(),
            timers: self.cx.timers.size(),
            tombstones: self.view.tombstones.size(),
            joiners: self.sponsor.joiners.size(),
            links: self.paths.links.size() + self.paths.kernels.size(),
            crashes: self.crashes.size(),
            inquiries: self.detector.inquiries.size(),
            name_probes: self.sponsor.names.size(),
            confirmations: self.confirmations.size(),
            own_addresses: self.reunion.size(),
            strangers: self.packets.turns.size() + self.sponsor.joiners.askers(),
            messages: self.messages.size(),
        }
    }
}
