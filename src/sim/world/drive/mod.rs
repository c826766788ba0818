//! Drives cores: handles events that are due, and carries out the cores' outputs.
//!
//! | idea | file |
//! |---|---|
//! | events that are due, inputs, wake-ups | here |
//! | outputs: packets, changes, and what is checked of them | `outputs` |
//! | writes to disks | `disk` |
//!
//! Must not know: what an input means to a core.

mod disk;
mod outputs;

use std::net::SocketAddr;
use std::time::Duration;

use super::{Event, Waiting, World};
use crate::node::{Process, Stored};
use crate::streams::ConnectOutcome;
use crate::watch::{Stuck, Upheaval, Watch};
use headcount_core::{Input, LinkEvent, Output};

/// Number of wake-ups at one instant after which a core counts as stuck.
const MAX_WAKES_AT_ONCE: u32 = 10_000;
/// The largest number of outputs of one input, for each node there is; with more, a core never comes to an end.
const MAX_OUTPUTS_PER_NODE: usize = 1_000;

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
            Event::AddressNoticed { node } => self.notice_address(node),
            Event::Rebound { node } if self.nodes[node].source.is_some() => self.rebind(node),
            Event::Rebound { .. } => {}
            Event::Untranslated { node } => self.untranslate(node),
            Event::Undo(undo) => self.undo(undo),
            Event::Start { node } => {
                self.start(node);
            }
            Event::Look => {
                if let Some(Some(after)) = self.tell_and(|watch, world| {
                    watch.on_look(world);
                    watch.looks_every()
                }) {
                    self.push_after(after, Event::Look);
                }
            }
            Event::Perish { node, process } => {
                if self.is_process(node, process) {
                    self.perish(node);
                }
            }
            Event::Recorder { visit } => self.let_it_play(visit),
            Event::Misdirected => self.misdirect_next(),
            Event::Due => {
                if let Some(Some(after)) = self.tell_and(Watch::on_due) {
                    self.push_after(after, Event::Due);
                }
            }
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
            Waiting::Packet { from, bytes } => match self.open_datagram(node, from, bytes) {
                Some((bytes, true)) => self.step(node, Input::Packet { from, bytes: &bytes }),
                Some((bytes, false)) => self.step(node, Input::UnboundPacket { from, bytes: &bytes }),
                None => {}
            },
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
                self.take_frame(node, link, from, &bytes);
            }
            Waiting::Closed { link } => {
                self.forget_seal(node, link);
                self.step(node, Input::Link { link, event: LinkEvent::Closed });
            }
            Waiting::Command(command) => self.step(node, Input::Command(command)),
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
                self.tell(|watch, world| watch.on_stored(world, node, stored.incarnation_bound));
                self.persisted(node, stored);
            }
            Waiting::Acknowledged(stored) => self.persisted(node, stored),
            Waiting::WorkEnded(term) => self.end_work(node, term),
            Waiting::Lease(what) => self.happens(node, *what),
            Waiting::Resolved => {
                let seeds = self.options.seeds_of(node).map(|seed| vec![self.nodes[seed].address]).collect();
                self.step(node, Input::SeedAddresses(seeds));
            }
        }
    }

    fn persisted(&mut self, node: usize, stored: Stored) {
        let Stored { incarnation_bound, ballot_version } = stored;
        self.step(node, Input::Persisted { incarnation_bound, ballot_version });
    }

    /// Ends the pause of a node: inputs that arrived meanwhile are handed in first, then the time, as a driver does.
    pub(super) fn resume(&mut self, node: usize, process: u64) {
        let now = self.now;
        let is_it = |running: &Process| running.number == process && running.paused;
        if !self.nodes[node].process.as_ref().is_some_and(is_it) {
            return;
        }
        self.upheaval(true);
        let Some(running) = self.nodes[node].process.as_mut() else { return };
        running.paused = false;
        self.nodes[node].is_off = false;
        let Some(running) = self.nodes[node].process.as_mut() else { return };
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
        let is_it = |running: &Process| running.number == process && running.slowness > 0;
        if !self.nodes[node].process.as_ref().is_some_and(is_it) {
            return;
        }
        self.upheaval(true);
        if let Some(running) = self.nodes[node].process.as_mut() {
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
                    return self.note_stuck(node, Stuck::Wakings(MAX_WAKES_AT_ONCE));
                }
                if self.intercept.sleeps(node) {
                    return self.schedule(node);
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
        if self.nodes[node].process.is_none() {
            return;
        }
        self.tell(|watch, world| watch.on_input(world, node, &input));
        let Some(process) = self.nodes[node].process.as_mut() else { return };
        self.trace.input(self.now, node, &input);
        process.core.handle(process.clock.local(self.now), input);
        self.finish_step(node);
    }

    /// Carries out an output of a core that has had no input yet.
    pub(super) fn give_first_output(&mut self, node: usize, output: Output) {
        self.handle_output(node, output);
    }

    /// Drains a core that was just made.
    pub(super) fn drain_first_outputs(&mut self, node: usize) {
        self.finish_step(node);
    }

    fn finish_step(&mut self, node: usize) {
        let mut has_changed = false;
        let mut outputs = 0;
        while let Some(process) = self.nodes[node].process.as_mut() {
            let Some(output) = process.core.poll() else { break };
            outputs += 1;
            if outputs > MAX_OUTPUTS_PER_NODE * (self.nodes.len() + 10) {
                return self.note_stuck(node, Stuck::Outputs(outputs));
            }
            for output in self.intercept.output(node, output) {
                has_changed |= self.handle_output(node, output);
            }
        }
        self.note_up(node);
        self.tell(|watch, world| watch.after_step(world, node, has_changed));
        if self.nodes[node].process.as_ref().is_some_and(|process| process.stopped.is_some()) {
            self.end_process(node);
        } else {
            self.schedule(node);
            self.let_members_lead(node);
        }
    }

    /// Adds a node whose process dies this long after it became Up.
    pub fn add_doomed_node(&mut self, after: Duration) -> usize {
        self.undergo(Upheaval::Doom { node: self.nodes.len() });
        let node = self.add_node();
        self.nodes[node].doomed = Some(after);
        node
    }

    /// Takes note that a node is Up or not.
    fn note_up(&mut self, node: usize) {
        let now = self.now;
        let place = &mut self.nodes[node];
        let Some(process) = place.process.as_mut().filter(|process| process.stopped.is_none()) else { return };
        if !process.core.is_up() {
            process.up_since = None;
        } else if process.up_since.is_none() {
            process.up_since = Some(now);
            let number = process.number;
            if let Some(after) = place.doomed {
                self.push_after(after, Event::Perish { node, process: number });
            }
        }
    }

    /// Kills a process that was to die soon after it became Up.
    fn perish(&mut self, node: usize) {
        if self.nodes[node].doomed.take().is_some() {
            self.undergo(Upheaval::Perish { node });
            self.crash(node);
        }
    }
}
