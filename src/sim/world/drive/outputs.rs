//! Outputs of cores, carried out and checked: packets, changes of views, reports.
//!
//! Invariant: every output is in the trace, and seen by the checker, before it has any effect.

use std::net::SocketAddr;
use std::time::Duration;

use super::Before;
use crate::invariants::Invariant;
use crate::network::Arrival;
use crate::node::Node;
use crate::world::{Event, Sighting, World};
use headcount_core::wire::Packet;
use headcount_core::{Change, ChangeKind, NodeId, Output, Receiver};

/// The largest number of datagrams of one node in a quarter of a second, for each node there is; more are a storm.
const MAX_PACKETS_PER_NODE: u64 = 100;
/// Duration of a name look-up.
const LOOKUP: Duration = Duration::from_millis(1);

impl World {
    /// Catches a storm while it grows, before it fills the memory.
    fn check_storm(&mut self, node: usize) {
        let since = self.network.sent(node).packets - self.nodes[node].packets_before;
        if since > MAX_PACKETS_PER_NODE * (self.nodes.len() + 10) as u64 && !self.has_failed {
            let detail = format!("{since} datagrams since the last comparison of views");
            self.report(Some(node), Invariant::TrafficIsBounded, detail);
        }
    }

    /// Begins to count the datagrams of all nodes anew.
    pub(crate) fn forget_traffic(&mut self) {
        for node in 0..self.nodes.len() {
            self.nodes[node].packets_before = self.network.sent(node).packets;
        }
    }

    /// Carries out one output; returns true if it was a change.
    pub(super) fn handle_output(&mut self, node: usize, output: Output, before: &Before) -> bool {
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
            Output::LeaseUpdate { word, is_believed } => self.hear_lease_word(node, word, is_believed),
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
                self.goes_to_recorder(to, bytes.len());
            }
            return;
        };
        if let Some(checker) = &mut self.checker
            && !checker.was_up(receiver)
        {
            let sender = &self.nodes[node];
            checker.sent_to_joiner(self.now, &bytes, || sender.listed_up());
        }
        if self.checker.is_some() {
            self.check_storm(node);
        }
        if let Some(bytes) = self.seal_datagram(node, Some(receiver), addressee, bytes) {
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

    fn changed(&mut self, node: usize, change: &Change, before: &Before) {
        if change.kind == ChangeKind::Removed && !change.record.status.is_live() {
            let reaped = (change.record.id.clone(), change.record.incarnation);
            self.reaped.entry(reaped).or_insert(self.now);
        }
        self.expectations.judged.suspicions += usize::from(change.kind == ChangeKind::Suspected);
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
}
