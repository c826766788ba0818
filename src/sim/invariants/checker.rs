//! What shows only across runs and nodes, and the way from a step in the world to all checks.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use super::leaders::Leaders;
use super::leases::LeaseWatch;
use super::limbo::Limbo;
use super::observer::{Finding, Observer};
use super::{Invariant, Observation, Violation};
use crate::core::election::{Lineage, Term};
use crate::core::wire::{Message, Packet};
use crate::core::{Birth, Leadership, MessageId, NodeId, Output, Run, StopReason, Tags};
use crate::sim::network::Nanos;
use crate::sim::node::Clock;
use crate::sim::random::nanos;

/// Pages are remembered this long for the joiners they were sent to.
const PAGES_KEPT: Duration = Duration::from_secs(30);

/// Watches a whole world. What it finds is kept in order.
#[derive(Debug, Default)]
pub struct Checker {
    observers: BTreeMap<usize, Observer>,
    runs: BTreeSet<Run>,
    /// The highest incarnation that a node used on the disk it has now.
    used: BTreeMap<usize, u64>,
    /// Runs that left or were removed, and when.
    departed: BTreeMap<Run, (NodeId, Nanos)>,
    /// When a page was sent, and who was Up at its sender, by the sender and its packet's sequence.
    pages: BTreeMap<(Run, u64), (Nanos, Vec<NodeId>)>,
    leaders: Leaders,
    /// Leases in a database.
    pub(crate) leases: LeaseWatch,
    limbo: Limbo,
    violations: Vec<Violation>,
}

impl Checker {
    /// What was found so far.
    pub fn violations(&self) -> &[Violation] {
        &self.violations
    }

    /// Adds what was found elsewhere.
    pub fn report(&mut self, now: Nanos, node: Option<&NodeId>, invariant: Invariant, detail: String) {
        let time = Duration::from_nanos(now);
        self.violations.push(Violation { invariant, node: node.cloned(), time, detail });
    }

    pub(crate) fn found(&mut self, now: Nanos, node: usize, finding: Option<Finding>) {
        if let Some((invariant, detail)) = finding {
            let id = self.observers.get(&node).map(|observer| observer.id().clone());
            self.report(now, id.as_ref(), invariant, detail);
        }
    }

    /// A process starts.
    pub(crate) fn born(&mut self, now: Nanos, node: usize, birth: &Birth, clock: Clock) {
        if !self.runs.insert(birth.run) {
            let detail = format!("run {} was used before", birth.run);
            self.report(now, Some(&birth.id), Invariant::RunsAreFresh, detail);
        }
        if let Some(used) = self.used.get(&node).filter(|used| birth.incarnation <= **used) {
            let detail = format!("starts with incarnation {}, {used} was used before", birth.incarnation);
            self.report(now, Some(&birth.id), Invariant::RestartsRise, detail);
        }
        let finding = self.leaders.born(node, birth, clock);
        self.observers.insert(node, Observer::new(birth.clone()));
        self.found(now, node, finding);
    }

    /// A process is gone.
    pub fn gone(&mut self, node: usize) {
        self.leaders.gone(node);
        self.limbo.gone(node);
        if let Some(observer) = self.observers.remove(&node) {
            let used = self.used.entry(node).or_default();
            *used = (*used).max(observer.incarnation());
        }
    }

    /// A node has lost its disk: nobody can hold it to what it used before.
    pub fn disk_lost(&mut self, node: usize, id: &NodeId) {
        self.used.remove(&node);
        self.leaders.disk_lost(id);
    }

    /// A node's disk holds this bound now.
    pub fn stored(&mut self, node: usize, bound: u64) {
        if let Some(observer) = self.observers.get_mut(&node) {
            observer.stored(bound);
        }
    }

    /// A node's user gives it new tags.
    pub fn given_tags(&mut self, node: usize, tags: &Tags) {
        if let Some(observer) = self.observers.get_mut(&node) {
            observer.given_tags(tags);
        }
    }

    /// The messages that a process gave to its programs, if it runs.
    pub fn heard(&self, node: usize) -> Option<&BTreeSet<MessageId>> {
        self.observers.get(&node).map(Observer::heard)
    }

    /// A node gives something out.
    pub fn output(&mut self, now: Nanos, node: usize, output: &Output) {
        let finding = self.observers.get_mut(&node).and_then(|observer| observer.output(now, output));
        self.found(now, node, finding);
        let finding = self.leaders.output(node, output);
        self.found(now, node, finding);
        if let (Output::Stopped(StopReason::Left | StopReason::Removed), Some(observer)) =
            (output, self.observers.get(&node))
        {
            self.departed.insert(observer.run(), (observer.id().clone(), now));
        }
    }

    /// All that a node led in this term has ended.
    pub fn work_ended(&mut self, node: usize, term: Term) {
        self.leaders.work_ended(node, term);
    }

    /// Terms in which somebody claimed to lead.
    pub fn terms_claimed(&self) -> usize {
        self.leaders.terms_claimed()
    }

    /// A node came out of a step saying this of leaders.
    pub fn look_at_leadership(&mut self, now: Nanos, node: usize, told: &Leadership, lineage: Option<Lineage>) {
        let finding = self.leaders.look(now, node, told, lineage);
        self.found(now, node, finding);
    }

    /// A node reports a member Suspect or Down that has been running well, over a network where nothing is wrong, for
    /// this long.
    pub fn accused(&mut self, now: Nanos, node: usize, whom: &NodeId, healthy_for: Duration) {
        let Some(observer) = self.observers.get(&node) else { return };
        let settled = observer.down_timeout() + Duration::from_secs(2);
        if healthy_for >= settled {
            let detail = format!("accuses {whom}, which has been well for {healthy_for:.1?}");
            self.found(now, node, Some((Invariant::HealthyNeverAccused, detail)));
        }
    }

    /// A node sends a datagram to one that is not Up: the beginning of a transfer, perhaps.
    pub fn sent_to_joiner(&mut self, now: Nanos, bytes: &[u8], listed_up: impl FnOnce() -> Vec<NodeId>) {
        if let Some((sponsor, sequence)) = page_of(bytes) {
            self.pages.insert((sponsor, sequence), (now, listed_up()));
        }
    }

    /// A node that is not Up is handed a datagram; the sponsor, if it is part of a transfer.
    pub fn handed_to_joiner(&mut self, node: usize, bytes: &[u8]) -> Option<Run> {
        let (sponsor, sequence) = page_of(bytes)?;
        // Pages that are asked for again come in any order: a transfer is as old as the oldest of them.
        if let Some(observer) = self.observers.get_mut(&node)
            && let Some(page) = self.pages.get(&(sponsor, sequence))
            && observer.transfers.get(&sponsor).is_none_or(|oldest| page.0 < oldest.0)
        {
            observer.transfers.insert(sponsor, page.clone());
        }
        Some(sponsor)
    }

    /// Whether a node was Up at the last look.
    pub fn was_up(&self, node: usize) -> bool {
        self.observers.get(&node).is_some_and(Observer::was_up)
    }

    /// A node came out of a step like this; `sponsor` sent the page that it was handed, if it was one.
    pub fn look(&mut self, now: Nanos, node: usize, observation: &Observation, sponsor: Option<Run>) {
        let Some(observer) = self.observers.get_mut(&node) else { return };
        let finding = observer.look(observation);
        let finding = observer.joined(observation, sponsor).or(finding);
        self.found(now, node, finding);
    }

    /// A look at whom a node suspects, which stretches its timeouts so far, and has been running well since then, if it is.
    pub fn look_at_suspects(
        &mut self,
        now: Nanos,
        node: usize,
        observation: &Observation,
        stretch: u32,
        well_since: Option<Nanos>,
    ) {
        let finding = self.limbo.look(now, node, observation, stretch, well_since);
        self.found(now, node, finding);
    }

    /// A look at all running nodes at once. `calm_since`: since when nothing was wrong with any of them or the network.
    pub fn compare(&mut self, now: Nanos, all: &[(usize, Observation)], calm_since: Option<Nanos>) {
        self.pages.retain(|_, (sent, _)| *sent + nanos(PAGES_KEPT) > now);
        let mut by_fingerprint: BTreeMap<u64, &Observation> = BTreeMap::new();
        for (node, observation) in all.iter().filter(|(_, observation)| observation.is_up) {
            let first = *by_fingerprint.entry(observation.fingerprint).or_insert(observation);
            if first.records != observation.records {
                let detail = format!("{} has the same fingerprint and another view", first.me.id);
                self.found(now, *node, Some((Invariant::EqualFingerprintsEqualViews, detail)));
            }
        }
        if let Some(calm_since) = calm_since {
            self.departed_are_gone(now, all, calm_since);
        }
    }

    fn departed_are_gone(&mut self, now: Nanos, all: &[(usize, Observation)], calm_since: Nanos) {
        for (node, observation) in all {
            let Some(observer) = self.observers.get(node) else { continue };
            let settled = nanos(observer.down_timeout() + Duration::from_secs(3));
            let listed = observation.records.iter().filter(|record| record.status.is_live()).find_map(|record| {
                let (id, at) = self.departed.get(&record.run)?;
                (*id == record.id && now > settled + calm_since.max(*at)).then_some((record, *at))
            });
            if let Some((record, at)) = listed {
                let at = Duration::from_nanos(at);
                let detail = format!("lists {} as {}, which left at {at:.1?}", record.id, record.status);
                self.found(now, *node, Some((Invariant::LeftStaysLeft, detail)));
            }
        }
    }
}

/// Sender and sequence, if a datagram is a page of a view.
fn page_of(bytes: &[u8]) -> Option<(Run, u64)> {
    let packet = Packet::decode(bytes).ok()?;
    let is_page = packet.messages.iter().any(|message| matches!(message, Message::Page { .. }));
    is_page.then_some((packet.header.run, packet.header.sequence))
}
