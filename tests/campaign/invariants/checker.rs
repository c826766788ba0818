//! The checks across runs and nodes, and the way from a step in the world to all checks.

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::time::Duration;

use super::electorates::Electorates;
use super::leaders::{Leaders, Standing};
use super::leases::LeaseWatch;
use super::per_node::PerNode;
use super::run_checker::{Finding, RunChecker};
use super::suspicions::Suspicions;
use super::{Invariant, Observation, Violation};
use headcount_core::election::{Ballot, Lineage, Term};
use headcount_core::wire::{Message, Packet};
use headcount_core::{CoreInit, Leadership, MessageId, NodeId, Output, Run, StopReason, Tags};
use headcount_sim::Clock;
use headcount_sim::nanos;
use headcount_sim::network::Nanos;

/// Time for which pages are remembered for the joiners that they were sent to.
const PAGES_KEPT: Duration = Duration::from_secs(30);

/// Watches a whole world. Violations are kept in the order in which they were found.
#[derive(Debug, Default)]
pub(crate) struct Checker {
    run_checkers: PerNode<RunChecker>,
    runs: BTreeSet<Run>,
    /// The highest incarnation that each node used on its present disk.
    used: BTreeMap<usize, u64>,
    /// Runs that left or were removed, each with its name and the time.
    departed: BTreeMap<Run, (NodeId, Nanos)>,
    /// Pages of view transfers, by sender and packet sequence: the time of sending, and the names that the sender
    /// listed as Up.
    pages: BTreeMap<(Run, u64), (Nanos, Vec<NodeId>)>,
    leaders: Leaders,
    /// Leases in a database.
    pub(crate) leases: LeaseWatch,
    suspicions: Suspicions,
    violations: Vec<Violation>,
}

impl Checker {
    /// Returns the violations found so far.
    pub(crate) fn violations(&self) -> &[Violation] {
        &self.violations
    }

    /// Adds a violation that was found elsewhere.
    pub(crate) fn report(&mut self, now: Nanos, node: Option<&NodeId>, invariant: Invariant, detail: String) {
        let time = Duration::from_nanos(now);
        self.violations.push(Violation { invariant, node: node.cloned(), time, detail });
    }

    pub(crate) fn found(&mut self, now: Nanos, node: usize, finding: Option<Finding>) {
        if let Some((invariant, detail)) = finding {
            let id = self.run_checkers.get(node).map(|observer| observer.id().clone());
            self.report(now, id.as_ref(), invariant, detail);
        }
    }

    /// Takes note of a new process.
    pub(crate) fn born(&mut self, now: Nanos, node: usize, init: &CoreInit, clock: Clock) {
        if !self.runs.insert(init.run) {
            let detail = format!("run {} was used before", init.run);
            self.report(now, Some(&init.id), Invariant::RunsAreFresh, detail);
        }
        if let Some(used) = self.used.get(&node).filter(|used| init.incarnation <= **used) {
            let detail = format!("starts with incarnation {}, {used} was used before", init.incarnation);
            self.report(now, Some(&init.id), Invariant::RestartsRise, detail);
        }
        let finding = self.leaders.born(node, init, clock);
        self.run_checkers.insert(node, RunChecker::new(init.clone()));
        self.found(now, node, finding);
    }

    /// Takes note that a process is gone.
    pub(crate) fn gone(&mut self, node: usize) {
        self.leaders.gone(node);
        self.suspicions.gone(node);
        if let Some(observer) = self.run_checkers.remove(node) {
            let used = self.used.entry(node).or_default();
            *used = (*used).max(observer.incarnation());
        }
    }

    /// Takes note that a node lost its disk: incarnations and terms used before no longer bind it.
    pub(crate) fn disk_lost(&mut self, node: usize, id: &NodeId) {
        self.used.remove(&node);
        self.leaders.disk_lost(id);
    }

    /// Takes note that a node's disk holds this incarnation bound now.
    pub(crate) fn stored(&mut self, node: usize, bound: u64) {
        if let Some(observer) = self.run_checkers.get_mut(node) {
            observer.stored(bound);
        }
    }

    /// Takes note that a node is told that it is at another address.
    pub(crate) fn given_address(&mut self, node: usize, address: SocketAddr) {
        if let Some(observer) = self.run_checkers.get_mut(node) {
            observer.given_address(address);
        }
    }

    /// Takes note that a node's user gives it new tags.
    pub(crate) fn given_tags(&mut self, node: usize, tags: &Tags) {
        if let Some(observer) = self.run_checkers.get_mut(node) {
            observer.given_tags(tags);
        }
    }

    /// Returns the messages that a process gave to its programs, if it runs.
    pub(crate) fn heard(&self, node: usize) -> Option<&BTreeSet<MessageId>> {
        self.run_checkers.get(node).map(RunChecker::heard)
    }

    /// Checks an output of a node.
    pub(crate) fn output(&mut self, now: Nanos, node: usize, output: &Output) {
        let finding = self.run_checkers.get_mut(node).and_then(|observer| observer.output(now, output));
        self.found(now, node, finding);
        let finding = self.leaders.output(node, output);
        self.found(now, node, finding);
        if let (Output::Stopped(StopReason::Left | StopReason::Removed), Some(observer)) =
            (output, self.run_checkers.get(node))
        {
            self.departed.insert(observer.run(), (observer.id().clone(), now));
        }
    }

    /// Takes note that all work which a node led in this term has ended.
    pub(crate) fn work_ended(&mut self, node: usize, term: Term) {
        self.leaders.work_ended(node, term);
    }

    /// Returns the number of terms in which any node claimed to lead.
    pub(crate) fn terms_claimed(&self) -> usize {
        self.leaders.terms_claimed()
    }

    /// Checks a node's leadership after a step.
    pub(crate) fn look_at_leadership(&mut self, now: Nanos, node: usize, told: &Leadership, standing: &Standing) {
        let finding = self.leaders.look(now, node, told, standing);
        self.found(now, node, finding);
    }

    /// Takes note that a voter with this ballot says that its electorate has ended.
    pub(crate) fn electorate_ended(&mut self, now: Nanos, node: usize, ballot: &Ballot) {
        let finding = self.leaders.electorates.ended(ballot);
        self.found(now, node, finding);
    }

    /// Has all fencing tokens used once more that ever were.
    pub(crate) fn write_late(&mut self, now: Nanos) {
        if let Some((invariant, detail)) = self.leaders.electorates.write_late() {
            self.report(now, None, invariant, detail);
        }
    }

    /// Returns what is known of electorates that met.
    pub(crate) fn electorates(&self) -> &Electorates {
        &self.leaders.electorates
    }

    /// The store that takes fencing tokens is to hear this electorate alone from now on.
    pub(crate) fn store_belongs_to(&mut self, lineage: Lineage) {
        self.leaders.electorates.belongs_to(lineage);
    }

    /// Checks a report of a member as Suspect or Down although it has been running well, over an undisturbed network,
    /// for this long.
    pub(crate) fn accused(&mut self, now: Nanos, node: usize, whom: &NodeId, healthy_for: Duration) {
        let Some(observer) = self.run_checkers.get(node) else { return };
        let settled = observer.down_timeout() + Duration::from_secs(2);
        if healthy_for >= settled {
            let detail = format!("accuses {whom}, which has been well for {healthy_for:.1?}");
            self.found(now, node, Some((Invariant::HealthyNeverAccused, detail)));
        }
    }

    /// Takes note of a datagram to a node that is not Up, in case it is a page of a view transfer.
    pub(crate) fn sent_to_joiner(&mut self, now: Nanos, bytes: &[u8], listed_up: impl FnOnce() -> Vec<NodeId>) {
        if let Some((sponsor, sequence)) = page_of(bytes) {
            self.pages.insert((sponsor, sequence), (now, listed_up()));
        }
    }

    /// Takes note of a datagram that a node receives which is not Up; returns the sponsor's run if it is a page of a
    /// view transfer.
    pub(crate) fn handed_to_joiner(&mut self, node: usize, bytes: &[u8]) -> Option<Run> {
        let (sponsor, sequence) = page_of(bytes)?;
        // Pages that are asked for again come in any order: a transfer is as old as the oldest of them. A sponsor that wakes
        // sends many in one moment.
        if let Some(observer) = self.run_checkers.get_mut(node)
            && let Some((_, listed_up)) = self.pages.get(&(sponsor, sequence))
            && observer.transfers.get(&sponsor).is_none_or(|(oldest, _)| sequence < *oldest)
        {
            observer.transfers.insert(sponsor, (sequence, listed_up.clone()));
        }
        Some(sponsor)
    }

    /// Returns true if a node was Up at the last look.
    pub(crate) fn was_up(&self, node: usize) -> bool {
        self.run_checkers.get(node).is_some_and(RunChecker::was_up)
    }

    /// Checks a node after a step; `sponsor` is the sender of the page that the step handed in, if it was one.
    pub(crate) fn look(&mut self, now: Nanos, node: usize, observation: &Observation, sponsor: Option<Run>) {
        let Some(observer) = self.run_checkers.get_mut(node) else { return };
        let finding = observer.look(observation);
        let finding = observer.joined(observation, sponsor).or(finding);
        self.found(now, node, finding);
    }

    /// Checks the members that a node suspects. `stretch` is the factor by which it stretches its timeouts so far;
    /// `well_since` the time since which it has been running well, `None` if it has not.
    pub(crate) fn look_at_suspects(
        &mut self,
        now: Nanos,
        node: usize,
        observation: &Observation,
        stretch: u32,
        well_since: Option<Nanos>,
    ) {
        let finding = self.suspicions.look(now, node, observation, stretch, well_since);
        self.found(now, node, finding);
    }

    /// Checks all running nodes against each other. `calm_since` is the time since which nothing was wrong with any of
    /// them or the network.
    pub(crate) fn compare(&mut self, now: Nanos, all: &[(usize, Observation)], calm_since: Option<Nanos>) {
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
            let Some(observer) = self.run_checkers.get(*node) else { continue };
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

/// Returns the sender's run and the sequence number if a datagram is a page of a view.
fn page_of(bytes: &[u8]) -> Option<(Run, u64)> {
    let packet = Packet::holds(bytes, Message::PAGE_KIND).then(|| Packet::decode(bytes).ok()).flatten()?;
    let is_page = packet.messages.iter().any(|message| matches!(message, Message::Page { .. }));
    is_page.then_some((packet.header.run, packet.header.sequence))
}
