//! The way in: each input, timer and command goes to the machine that it is for.
//!
//! Invariants: a pause of this process and a claim that ran out are noticed before any input is looked at; after
//! [`Output::Stopped`] nothing is taken in.
//!
//! Must not know: what the machines make of it.

use crate::Core;
use crate::election::Election;
use crate::io::{Command, Input, Output};
use crate::leadership::Lead;
use crate::limits::MAX_FRAME_BYTES;
use crate::packet::Way;
use crate::time::Time;
use crate::timers::Timer;
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
        self.health.note_stall(self.cx.now, before, self.cx.timers.next());
        if let Input::Worked(worked) = input {
            return self.health.note_work(self.cx.now, worked);
        }
        self.notice_pause();
        if self.cx.phase.is_stopped() {
            return;
        }
        self.tell_lead(Lead::expire_claim);
        match input {
            Input::Packet { from, bytes } => self.receive(from, Way::Datagrams, bytes),
            Input::UnboundPacket { from, bytes } => self.receive(from, Way::Unbound, bytes),
            Input::Tick => {
                self.measure_tick();
                self.fire();
            }
            // It was taken note of above.
            Input::Worked(_) => {}
            Input::Command(command) => self.command(command),
            Input::SeedAddresses(addresses) => {
                self.joiner.seed_addresses(&mut outbox!(self), &mut self.reunion, addresses, true);
            }
            Input::SomeSeedAddresses(addresses) => {
                self.joiner.seed_addresses(&mut outbox!(self), &mut self.reunion, addresses, false);
            }
            Input::Persisted { incarnation_bound, ballot_version } => {
                self.persisted(incarnation_bound);
                self.tell_election(|election, context| election.stored(context, ballot_version));
            }
            Input::PersistFailed => self.tell_election(Election::store_failed),
            Input::WorkEnded { term } => self.tell_election(|election, context| election.work_ended(context, term)),
            Input::Link { link, event } => self.link_event(link, event),
        }
        self.note_unreached();
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

    fn fire(&mut self) {
        while let Some(timer) = self.cx.timers.pop_due(self.cx.now) {
            self.fire_one(timer);
            if self.cx.phase.is_stopped() {
                break;
            }
        }
    }

    /// Acts on a timer that is due. Compiled apart from the loop, which would get ready for all of them before it looks
    /// for one: ninety instructions a tick.
    #[inline(never)]
    fn fire_one(&mut self, timer: Timer) {
        match timer {
            Timer::JoinTry => self.joiner.try_to_join(&mut outbox!(self), &self.reunion),
            Timer::Found => self.consider_founding(),
            Timer::Transfer => self.pull_again(),
            Timer::Reach => self.joiner.ask_to_be_reached(&mut outbox!(self)),
            Timer::CatchUp => self.gossip.catch_up(&mut outbox!(self)),
            Timer::Gossip => self.gossip_tick(),
            Timer::Flood => self.gossip.flood(&mut outbox!(self)),
            Timer::FloodAgain => self.gossip.flood_own_again(&mut outbox!(self)),
            Timer::Reunite => self.reunite(),
            Timer::Judge(run) => self.judge(run),
            Timer::Heartbeat(run) => self.heartbeat(run),
            Timer::Link(run) => self.on_link_deadline(run),
            Timer::UnprovenLinks => self.ask_unproven_again(),
            Timer::Crash(run) => self.investigate(run),
            Timer::Joiner(run) => self.sponsor.judge_joiner(&mut outbox!(self), run),
            Timer::NameProbe(run) => self.probe_name_again(run),
            Timer::Rival => self.dispute(),
            Timer::Move => self.ask_at_new_address(),
            Timer::Confirm(ticket) => self.ask_for_confirmation_again(ticket),
            Timer::Contact(ticket) => self.reunion.end_contact(&mut outbox!(self), ticket),
            Timer::Partition => self.partition.suspect(&mut self.cx, &self.view),
            Timer::PartitionOver => self.partition.end(&mut self.cx, &self.view),
            Timer::Leadership => self.on_leadership_deadline(),
            Timer::Walk => self.walk(),
            Timer::Spread => self.spread(),
            Timer::RepairMessages => self.repair_messages(),
            Timer::DirectMessage(number) => self.on_direct_deadline(number),
        }
    }

    /// Gossips, and does what each machine has to do now and then, for which a timer of its own would be too much.
    fn gossip_tick(&mut self) {
        if self.cx.phase.is_joining() {
            return;
        }
        self.gossip();
        self.review_observed();
        self.tell_the_accused();
        self.gossip.sync_if_needed(&mut outbox!(self));
        self.paths.end_old_bootstraps(&mut self.cx);
    }

    fn command(&mut self, command: Command) {
        match command {
            Command::Join { ticket, addresses } => self.reunion.contact(&mut outbox!(self), ticket, &addresses),
            Command::Leave => self.leave(),
            Command::Remove { ticket, id, force } => self.remove(ticket, &id, force),
            Command::SetTags { ticket, tags } => self.set_tags(ticket, &tags),
            Command::Drain { ticket, is_draining } => self.drain(ticket, is_draining),
            Command::SetAddress { ticket, address } => self.set_address(ticket, address),
            Command::AddVoter { ticket, id } => {
                self.command_lead(ticket, |lead, around| lead.asked_for_voters(around, ticket, VoterRequest::Add(id)));
            }
            Command::RemoveVoter { ticket, id } => self
                .command_lead(ticket, |lead, around| lead.asked_for_voters(around, ticket, VoterRequest::Remove(id))),
            Command::Resign { ticket, to } => {
                self.command_lead(ticket, |lead, around| lead.asked_to_resign(around, ticket, to));
            }
            Command::ConfirmLeadership { ticket } => {
                self.command_lead(ticket, |lead, around| {
                    lead.with_election(around, |election, context| election.confirm(context, ticket));
                });
            }
            Command::ReplaceVoter { ticket, old, new } => {
                self.command_lead(ticket, |lead, around| {
                    lead.asked_for_voters(around, ticket, VoterRequest::Replace { old, new });
                });
            }
            Command::Recover { ticket, voters } => {
                self.command_lead(ticket, |lead, around| lead.recover(around, ticket, voters));
            }
            Command::FoundAnew { ticket, voters } => {
                self.command_lead(ticket, |lead, around| lead.found_anew(around, ticket, voters));
            }
            Command::TellLease(word) => self.tell_lease_update(word),
            Command::KeepLeaseTerm { lease, term } => self.lease_updates.keep_term(lease, term),
            Command::Broadcast { .. }
            | Command::Send { .. }
            | Command::Request { .. }
            | Command::Answer { .. }
            | Command::Deliver { .. } => self.message_command(command),
        }
    }
}
