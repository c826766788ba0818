//! Outputs of cores, carried out: packets, changes of views, reports.
//!
//! Invariant: every output is in the trace, and seen by whoever watches, before it has any effect.

use std::net::SocketAddr;
use std::time::Duration;

use crate::network::Arrival;
use crate::world::{Event, Sighting, World};
use headcount_core::wire::Packet;
use headcount_core::{Change, ChangeKind, Output, Receiver};

/// Duration of a name look-up.
const LOOKUP: Duration = Duration::from_millis(1);

impl World {
    /// Carries out one output; returns true if it was a change.
    pub(super) fn handle_output(&mut self, node: usize, output: Output) -> bool {
        self.trace.output(self.now, node, &self.nodes[node].id, &output);
        self.tell(|watch, world| watch.on_output(world, node, &output));
        match output {
            Output::Transmit { to, receiver, bytes } => self.transmit(node, to, receiver, bytes),
            Output::OpenLink { link, to } => self.open_stream(node, link, to),
            Output::SendFrame { link, bytes } => self.send_frame(node, link, bytes),
            Output::CloseLink { link } => self.close_stream(node, link),
            Output::Change(change) => {
                self.changed(node, &change);
                return true;
            }
            Output::Persist(durable) => self.persist(node, durable),
            Output::EndWork { term } => self.begin_to_end_work(node, term),
            Output::LeaderElected { .. } | Output::LeaderLost { .. } => {
                self.elections_saw(node, output);
            }
            Output::LeaseUpdate { update, is_believed } => self.hear_lease_update(node, update, is_believed),
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
            if let Some(bytes) = self.seal_datagram(node, None, addressee, bytes) {
                self.network.send_to_nobody(node, &bytes);
                self.goes_outside(to, bytes.len());
            }
            return;
        };
        if let Some(bytes) = self.seal_datagram(node, Some(receiver), addressee, bytes) {
            self.let_it_misdirect(node, receiver, &bytes);
            let from = self.nodes[node].source.unwrap_or(self.nodes[node].address);
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

    fn changed(&mut self, node: usize, change: &Change) {
        if change.kind == ChangeKind::Removed && !change.record.status.is_live() {
            let reaped = (change.record.id.clone(), change.record.incarnation);
            self.reaped.entry(reaped).or_insert(self.now);
        }
        if self.sightings.is_none() {
            return;
        }
        let run = change.record.run;
        let Some(subject) = self.runs.get(&run).copied() else { return };
        let (healthy_for, running_for) = (self.healthy_for(subject, run), self.running_for(subject, run));
        if let Some(sightings) = &mut self.sightings {
            let (at, kind, incarnation) = (self.now, change.kind, change.record.incarnation);
            sightings.push(Sighting { at, observer: node, kind, subject, run, incarnation, healthy_for, running_for });
        }
    }
}
