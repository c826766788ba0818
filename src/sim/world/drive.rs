//! Drives cores: handles events that are due, and carries out the cores' outputs.

use std::net::SocketAddr;
use std::time::Duration;

use super::{Event, Sighting, Waiting, World};
use crate::core::wire::Packet;
use crate::core::{Change, ChangeKind, Command, Input, LinkEvent, NodeId, Output, Receiver, Run};
use crate::sim::adversary::MOST_INVENTED;
use crate::sim::invariants::Invariant;
use crate::sim::network::{Arrival, NodeLoss};
use crate::sim::node::{Node, Stored};
use crate::sim::streams::ConnectOutcome;

/// Number of wake-ups at one instant after which a core counts as stuck.
const MAX_WAKES_AT_ONCE: u32 = 10_000;
/// The largest number of outputs of one input, for each node there is; with more, a core never comes to an end.
const MAX_OUTPUTS_PER_NODE: usize = 1_000;
/// The largest number of datagrams of one node in a quarter of a second, for each node there is; more are a storm.
const MAX_PACKETS_PER_NODE: u64 = 100;
/// Time that a writer waits before it tries again after a full disk failed a write.
const REWRITE: Duration = Duration::from_millis(100);
/// Duration of a name look-up.
const LOOKUP: Duration = Duration::from_millis(1);

/// State from before an input, to see the effects of the input.
#[derive(Default)]
struct Before {
    suspicions_raised: u64,
    sponsor: Option<Run>,
}

impl World {
    pub(super) fn happen(&mut self, event: Event) {
        match event {
            Event::Packet { from, to, bytes, delayed } => self.arrive(from, to, bytes, delayed),
            Event::Wake { node, process, epoch } => self.wake(node, process, epoch),
            Event::Written { node, process } => {
                if self.is_process(node, process) {
                    self.offer(node, Waiting::Written);
                }
            }
            Event::Acknowledged { node, process, stored } => {
                if self.is_process(node, process) {
                    self.offer(node, Waiting::Acknowledged(stored));
                }
            }
            Event::WorkEnded { node, process, term } => {
                if self.is_process(node, process) {
                    self.offer(node, Waiting::WorkEnded(term));
                }
            }
            Event::Resolved { node, process } => {
                if self.is_process(node, process) {
                    self.offer(node, Waiting::Resolved);
                }
            }
            Event::Resume { node, process } => self.resume(node, process),
            Event::Hasten { node, process } => self.end_slowness(node, process),
            Event::Heal { cut } => self.heal(cut),
            Event::Mend { node } => {
                self.upheaval(true);
                self.network.set_node_loss(node, NodeLoss::default());
                self.relieve(&[node]);
                self.calmed();
            }
            Event::Start { node } => {
                self.start(node);
            }
            Event::Restore { epoch } => {
                if epoch == self.conditions_epoch {
                    self.upheaval(true);
                    let usual = *self.network.usual();
                    self.network.set_conditions(usual);
                    self.calmed();
                }
            }
            Event::Compare => self.compare(),
            Event::Perish { node, process } => {
                if self.is_process(node, process) {
                    self.perish(node);
                }
            }
            Event::Recorder { visit } => self.let_it_play(visit),
            Event::Misdirected => self.misdirect_next(),
            Event::Adversary { visit } => self.let_it_act(visit),
            Event::ToAdversary { at, from, bytes } => self.let_it_hear(at, from, &bytes),
            Event::Expect(due) => self.is_due(due),
            Event::Stream(event) => self.stream_event(event),
            Event::Lease(event) => self.lease_event(event),
        }
    }

    pub(super) fn is_process(&self, node: usize, process: u64) -> bool {
        self.nodes[node].running().is_some_and(|running| running.number == process)
    }

    fn arrive(&mut self, from: SocketAddr, to: usize, bytes: Vec<u8>, delayed: bool) {
        let Some(process) = self.nodes[to].running() else { return };
        if process.slowness > 0 && !delayed {
            let late = self.random.below(process.slowness);
            self.push(self.now + late, Event::Packet { from, to, bytes, delayed: true });
            return;
        }
        self.offer(to, Waiting::Packet { from, bytes });
    }

    /// Hands an input to a process now or, if it is paused, after the pause.
    pub(super) fn offer(&mut self, node: usize, what: Waiting) {
        let Some(process) = self.nodes[node].process.as_mut().filter(|process| process.stopped.is_none()) else {
            return;
        };
        if process.paused {
            process.keep(what);
        } else {
            self.hand_in(node, what);
        }
    }

    fn hand_in(&mut self, node: usize, what: Waiting) {
        match what {
            Waiting::Packet { from, bytes } => {
                self.takes_in(from);
                match self.open_datagram(node, from, bytes) {
                    Some((bytes, true)) => self.step(node, Input::Packet { from, bytes: &bytes }),
                    Some((bytes, false)) => self.step(node, Input::UnboundPacket { from, bytes: &bytes }),
                    None => {}
                }
            }
            Waiting::Answer { link, answer } => {
                let event = match answer {
                    ConnectOutcome::Connected => {
                        self.greet_over(node, link);
                        LinkEvent::Connected
                    }
                    ConnectOutcome::Refused => LinkEvent::Refused,
                    ConnectOutcome::Unreachable => LinkEvent::Unreachable,
                };
                self.step(node, Input::Link { link, event });
            }
            Waiting::Frame { link, from, bytes } => {
                self.takes_in(from);
                self.take_frame(node, link, from, &bytes);
            }
            Waiting::Closed { link } => {
                self.forget_seal(node, link);
                self.step(node, Input::Link { link, event: LinkEvent::Closed });
            }
            Waiting::Command(command) => self.hand_in_command(node, command),
            Waiting::Written if self.nodes[node].disk_full_until > self.now => {
                if self.nodes[node].disk.failed() {
                    self.write_again(node);
                    self.step(node, Input::PersistFailed);
                }
            }
            Waiting::Written => {
                let Some((stored, more)) = self.nodes[node].disk.written() else { return };
                if more {
                    self.begin_write(node);
                }
                if let Some(checker) = &mut self.checker {
                    checker.stored(node, stored.incarnation_bound);
                }
                self.persisted(node, stored);
            }
            Waiting::Acknowledged(stored) => self.persisted(node, stored),
            Waiting::WorkEnded(term) => self.end_work(node, term),
            Waiting::Lease(what) => self.happens(node, *what),
            Waiting::Resolved => {
                let seeds = (0..self.options.seeds).map(|seed| vec![self.nodes[seed].address]).collect();
                self.step(node, Input::SeedAddresses(seeds));
            }
        }
    }

    fn persisted(&mut self, node: usize, stored: Stored) {
        let Stored { incarnation_bound, ballot_version } = stored;
        self.step(node, Input::Persisted { incarnation_bound, ballot_version });
    }

    fn hand_in_command(&mut self, node: usize, command: Command) {
        if let (Command::SetTags { tags, .. }, Some(checker)) = (&command, &mut self.checker) {
            checker.given_tags(node, tags);
        }
        self.step(node, Input::Command(command));
    }

    /// Ends the pause of a node: inputs that arrived meanwhile are handed in first, then the time, as a driver does.
    pub(super) fn resume(&mut self, node: usize, process: u64) {
        let now = self.now;
        let Some(running) = self.nodes[node].process.as_mut().filter(|running| running.number == process) else {
            return;
        };
        if !running.paused {
            return;
        }
        self.expectations.upheaval(now, true);
        running.paused = false;
        running.undisturbed_since = (running.slowness == 0).then_some(now);
        running.waiting_packets = 0;
        let (packets, others): (Vec<_>, Vec<_>) = running.waiting.drain(..).partition(Waiting::is_packet);
        let id = &self.nodes[node].id;
        self.trace.say(now, || format!("{id} wakes"));
        self.contender_wakes(node);
        for packet in packets {
            self.offer(node, packet);
        }
        if self.nodes[node].running().is_some() {
            self.step(node, Input::Tick);
        }
        for other in others {
            self.offer(node, other);
        }
    }

    /// Ends the slowness of a node.
    pub(super) fn end_slowness(&mut self, node: usize, process: u64) {
        let now = self.now;
        if let Some(running) = self.nodes[node].process.as_mut().filter(|running| running.number == process)
            && running.slowness > 0
        {
            self.expectations.upheaval(now, true);
            running.slowness = 0;
            running.undisturbed_since = (!running.paused).then_some(now);
        }
    }

    fn wake(&mut self, node: usize, process: u64, epoch: u64) {
        let now = self.now;
        let Some(running) = self.nodes[node].process.as_mut() else { return };
        if running.number != process || running.wake_epoch != epoch || running.stopped.is_some() {
            return;
        }
        running.wake_at = None;
        if running.paused {
            return;
        }
        match running.core.next_deadline() {
            Some(deadline) if deadline <= running.clock.local(now) => {
                running.wakes_at_once += 1;
                if running.wakes_at_once > MAX_WAKES_AT_ONCE {
                    let detail = format!("still wants to be woken at {deadline:?} after {MAX_WAKES_AT_ONCE} ticks");
                    self.report(Some(node), Invariant::TimePasses, detail);
                    return;
                }
                self.step(node, Input::Tick);
            }
            _ => self.schedule(node),
        }
    }

    /// Draws the delay with which a slow node handles its next input; zero for all others.
    pub(super) fn lateness(&mut self, node: usize) -> Duration {
        let slowness = self.nodes[node].running().map_or(0, |process| process.slowness);
        if slowness == 0 { Duration::ZERO } else { Duration::from_nanos(self.random.below(slowness)) }
    }

    /// Makes sure that a node is woken at its next deadline; an earlier wake-up is left as it is.
    pub(super) fn schedule(&mut self, node: usize) {
        let now = self.now;
        let Some(running) = self.nodes[node].process.as_mut().filter(|running| running.stopped.is_none()) else {
            return;
        };
        let Some(deadline) = running.core.next_deadline() else { return };
        let mut at = running.clock.true_time(deadline).max(now);
        if at > now {
            running.wakes_at_once = 0;
        }
        if running.slowness > 0 {
            at += self.random.below(running.slowness);
        }
        if running.wake_at.is_some_and(|planned| planned <= at) {
            return;
        }
        running.wake_at = Some(at);
        running.wake_epoch += 1;
        let event = Event::Wake { node, process: running.number, epoch: running.wake_epoch };
        self.push(at, event);
    }

    /// Hands in one input, and carries out all its outputs.
    pub(super) fn step(&mut self, node: usize, input: Input<'_>) {
        let before = self.look_before(node, &input);
        let Some(process) = self.nodes[node].process.as_mut() else { return };
        self.trace.input(self.now, node, &input);
        process.core.handle(process.clock.local(self.now), input);
        self.finish_step(node, &before);
    }

    fn look_before(&mut self, node: usize, input: &Input<'_>) -> Before {
        let mut before = Before::default();
        if let (Some(checker), Some(process)) = (&mut self.checker, &self.nodes[node].process) {
            before.suspicions_raised = process.core.counters().suspicions_raised;
            if let Input::Packet { bytes, .. } | Input::UnboundPacket { bytes, .. } = input
                && !checker.was_up(node)
            {
                before.sponsor = checker.handed_to_joiner(node, bytes);
            }
        }
        before
    }

    /// Carries out an output of a core that has had no input yet.
    pub(super) fn give_out_of_newborn(&mut self, node: usize, output: Output) {
        self.handle_output(node, output, &Before::default());
    }

    /// Drains a core that was just born.
    pub(super) fn drain_newborn(&mut self, node: usize) {
        self.finish_step(node, &Before::default());
    }

    fn finish_step(&mut self, node: usize, before: &Before) {
        let mut has_changed = false;
        let mut outputs = 0;
        while let Some(process) = self.nodes[node].process.as_mut() {
            let Some(output) = process.core.poll() else { break };
            outputs += 1;
            if outputs > MAX_OUTPUTS_PER_NODE * (self.nodes.len() + 10) {
                return self.report(Some(node), Invariant::TrafficIsBounded, format!("{outputs} outputs and no end"));
            }
            match &mut self.tamper {
                None => has_changed |= self.handle_output(node, output, before),
                Some(tamper) => {
                    for output in tamper.output(node, output) {
                        has_changed |=
                            self.handle_output(node, output, &Before { suspicions_raised: 0, sponsor: None });
                    }
                }
            }
        }
        if self.checker.is_some() {
            self.look_after(node, has_changed, before);
        }
        if self.nodes[node].process.as_ref().is_some_and(|process| process.stopped.is_some()) {
            self.end_process(node);
        } else {
            self.schedule(node);
            self.let_members_lead(node);
        }
    }

    /// Checks the view if it may have changed; besides, all views are checked in regular comparisons.
    fn look_after(&mut self, node: usize, has_changed: bool, before: &Before) {
        if self.nodes[node].running().is_none() {
            self.has_failed |= !self.violations().is_empty();
            return;
        }
        if self.options.voters > 0 {
            self.look_at_leadership(node);
        }
        self.note_up(node);
        let Some(process) = self.nodes[node].process.as_mut() else { return };
        let changes = process.core.changes();
        let counted = std::mem::replace(&mut process.seen_changes, changes) != changes;
        let joined = process.core.is_up() != self.checker.as_ref().is_some_and(|checker| checker.was_up(node));
        if (has_changed || counted || joined)
            && let (Some(observation), Some(checker)) = (self.observe(node), &mut self.checker)
        {
            checker.look(self.now, node, &observation, before.sponsor);
        }
        self.has_failed |= !self.violations().is_empty();
    }

    /// Catches a storm while it grows, before it fills the memory.
    fn check_storm(&mut self, node: usize) {
        let since = self.network.sent(node).packets - self.nodes[node].packets_before;
        // A node knows no more members than there are, and those that an adversary invents.
        let invented = if self.had_adversary() { MOST_INVENTED } else { 0 };
        if since > MAX_PACKETS_PER_NODE * (self.nodes.len() + invented + 10) as u64 && !self.has_failed {
            let detail = format!("{since} datagrams since the last comparison of views");
            self.report(Some(node), Invariant::TrafficIsBounded, detail);
        }
    }

    /// Begins to count the datagrams of all nodes anew.
    pub(super) fn forget_traffic(&mut self) {
        for node in 0..self.nodes.len() {
            self.nodes[node].packets_before = self.network.sent(node).packets;
        }
    }

    /// Carries out one output; returns true if it was a change.
    fn handle_output(&mut self, node: usize, output: Output, before: &Before) -> bool {
        self.trace.output(self.now, node, &self.nodes[node].id, &output);
        if let Some(checker) = &mut self.checker {
            checker.output(self.now, node, &output);
        }
        self.compare_with_expectations(node, &output);
        match output {
            Output::Transmit { to, receiver, bytes } => self.transmit(node, to, receiver, bytes),
            Output::OpenLink { link, to } => self.open_stream(node, link, to),
            Output::SendFrame { link, bytes } => self.send_frame(node, link, bytes),
            Output::CloseLink { link } => self.close_stream(node, link),
            Output::Change(change) => {
                self.changed(node, &change, before);
                return true;
            }
            Output::Persist(durable) => self.persist(node, durable),
            Output::EndWork { term } => self.begin_to_end_work(node, term),
            Output::LeaderElected { .. } | Output::LeaderLost { .. } => {
                self.judge_loss(node, &output);
                self.elections_saw(node, output);
            }
            Output::LeaseUpdate { word, is_of_elder } => self.hear_lease_word(node, word, is_of_elder),
            Output::PartitionSuspected { .. } | Output::PartitionHealed { .. } => self.saw_partition(node, output),
            Output::ResolveSeeds => {
                if let Some(process) = self.nodes[node].process.as_ref() {
                    let event = Event::Resolved { node, process: process.number };
                    let late = self.lateness(node);
                    self.push_after(LOOKUP + late, event);
                }
            }
            Output::Stopped(reason) => {
                if let Some(process) = self.nodes[node].process.as_mut() {
                    process.stopped = Some(reason);
                }
            }
            _ => {}
        }
        false
    }

    fn transmit(&mut self, node: usize, to: SocketAddr, addressee: Receiver, bytes: Vec<u8>) {
        let Some(receiver) = self.place_at(to) else {
            for bytes in self.seal_datagrams(node, None, addressee, bytes) {
                self.look_at_answer(node, to);
                self.transmit_elsewhere(node, to, bytes);
            }
            return;
        };
        self.let_it_overhear(&bytes);
        if let Some(checker) = &mut self.checker
            && !checker.was_up(receiver)
        {
            let sender = &self.nodes[node];
            checker.sent_to_joiner(self.now, &bytes, || sender.listed_up());
        }
        if self.checker.is_some() {
            self.check_storm(node);
        }
        for bytes in self.seal_datagrams(node, Some(receiver), addressee, bytes) {
            let from = self.nodes[node].address;
            let queue = &mut self.queue;
            let forging = self.options.forging;
            self.network.send(self.now, node, receiver, bytes, |Arrival { at, bytes, is_corrupt }| {
                if is_corrupt && !forging && Packet::decode(&bytes).is_ok() {
                    return;
                }
                queue.push(at, Event::Packet { from, to: receiver, bytes, delayed: false });
            });
        }
    }

    fn changed(&mut self, node: usize, change: &Change, before: &Before) {
        if change.kind == ChangeKind::Removed && !change.record.status.is_live() {
            let reaped = (change.record.id.clone(), change.record.incarnation);
            self.reaped.entry(reaped).or_insert(self.now);
        }
        self.expectations.judged.suspicions += usize::from(change.kind == ChangeKind::Suspected);
        if matches!(change.kind, ChangeKind::DetectedDown(_) | ChangeKind::Left(_)) {
            let run = change.record.run;
            let process = self.runs.get(&run).and_then(|subject| self.nodes[*subject].process.as_mut());
            if let Some(process) = process.filter(|process| process.run == run) {
                process.was_given_up = true;
            }
        }
        let accuses = matches!(change.kind, ChangeKind::Suspected | ChangeKind::DetectedDown(_));
        if !accuses && self.sightings.is_none() {
            return;
        }
        let run = change.record.run;
        let Some(subject) = self.runs.get(&run).copied() else { return };
        let (healthy_for, running_for) = (self.healthy_for(subject, run), self.running_for(subject, run));
        if matches!(change.kind, ChangeKind::DetectedDown(_)) {
            self.gone_missing(node, subject, run, &change.record.id);
        }
        if let (true, Some(healthy_for)) = (accuses, healthy_for) {
            self.accused(node, subject, &change.record.id, healthy_for, before);
        }
        if let Some(sightings) = &mut self.sightings {
            let (at, kind, incarnation) = (self.now, change.kind, change.record.incarnation);
            sightings.push(Sighting { at, observer: node, kind, subject, run, incarnation, healthy_for, running_for });
        }
    }

    /// Checks a report of a member as Suspect or Down that has been well for this long. A node that raises the
    /// suspicion is to blame even if it just woke from a pause; one that only believes it is to blame only if it was
    /// well itself, because old messages may have waited for it.
    fn accused(&mut self, node: usize, subject: usize, id: &NodeId, healthy_for: Duration, before: &Before) {
        let Some(process) = &self.nodes[node].process else { return };
        let Some(untroubled_since) = self.nodes[node].untroubled() else { return };
        // Of two live processes of one name, members hear the one that they hold, and the other one hears nobody.
        let place = &self.nodes[node];
        let is_rival = |at: &Node| at.id == place.id && at.address != place.address && at.process.is_some();
        if self.nodes[subject].shares_name || (place.shares_name && self.nodes.iter().any(is_rival)) {
            return;
        }
        let has_raised = process.core.counters().suspicions_raised > before.suspicions_raised;
        let well_since = if has_raised { Some(untroubled_since) } else { process.undisturbed_since };
        let Some(well_since) = well_since.map(|since| since.max(untroubled_since)) else { return };
        let well_for = Duration::from_nanos(self.now - well_since);
        if let Some(checker) = &mut self.checker {
            checker.accused(self.now, node, id, healthy_for.min(well_for));
        }
    }

    fn persist(&mut self, node: usize, durable: crate::core::Durable) {
        if !self.nodes[node].is_durable {
            // A node without a disk: no write to wait for.
            return self.acknowledge(node, Stored::of(&durable));
        }
        let forgets = self.tamper.as_mut().is_some_and(|tamper| tamper.forgets(node, &durable));
        if forgets {
            // A planted bug: the acknowledgement comes, the write never does.
            self.acknowledge(node, Stored::of(&durable));
        } else if self.nodes[node].disk.write(durable) {
            self.begin_write(node);
        }
    }

    /// Acknowledges a write that is not carried out.
    fn acknowledge(&mut self, node: usize, stored: Stored) {
        if let Some(process) = self.nodes[node].process.as_ref() {
            let event = Event::Acknowledged { node, process: process.number, stored };
            let late = self.lateness(node);
            self.push_after(late, event);
        }
    }

    /// Tries a failed write again.
    fn write_again(&mut self, node: usize) {
        if let Some(process) = self.nodes[node].process.as_ref() {
            let event = Event::Written { node, process: process.number };
            self.push_after(REWRITE, event);
        }
    }

    fn begin_write(&mut self, node: usize) {
        // Mostly a few milliseconds; now and then a disk takes longer.
        let most = if self.random.below(20) == 0 { 100 } else { 5 };
        let after = self.random.duration(Duration::from_micros(500), Duration::from_millis(most)) + self.lateness(node);
        if let Some(process) = self.nodes[node].process.as_ref() {
            let event = Event::Written { node, process: process.number };
            self.push_after(after, event);
        }
    }
}
