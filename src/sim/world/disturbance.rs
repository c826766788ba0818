//! Disturbances: cuts, loss, delay and their ends, and for how long a node and its network have been well.
//!
//! Owns the record of troubles: a node that a disturbance is blamed on is troubled until it ends, and the network is
//! calm while nothing is wrong with it.
//!
//! Must not know: what nodes say.

use std::time::Duration;

use super::{Event, World};
use crate::core::Run;
use crate::sim::network::{Conditions, Cut, CutId, NodeLoss, NodeSet};
use crate::sim::random::nanos;
use crate::sim::streams::Tcp;

impl World {
    /// Cuts these off from the rest, both ways.
    pub fn partition(&mut self, side: &[usize], lasting: Option<Duration>) {
        self.expect_partition(side, lasting);
        let side = NodeSet::of(side);
        self.cut(side.clone(), side.rest(), lasting);
        self.cut(side.rest(), side, lasting);
    }

    /// Lets nothing from `from` reach `to`.
    pub fn cut(&mut self, from: NodeSet, to: NodeSet, lasting: Option<Duration>) {
        self.add_cut(Cut::new(from, to), lasting);
    }

    /// Adds a cut of any kind.
    pub fn add_cut(&mut self, cut: Cut, lasting: Option<Duration>) {
        self.upheaval(true);
        match cut.suspectable() {
            None => self.network_calm_since = None,
            Some(suspectable) => self.trouble(suspectable),
        }
        let cut = self.network.add_cut(cut);
        if let Some(lasting) = lasting {
            self.push_after(lasting, Event::Heal { cut });
        }
    }

    fn trouble(&mut self, nodes: &[usize]) {
        for node in nodes {
            self.nodes[*node].troubles += 1;
        }
    }

    pub(super) fn relieve(&mut self, nodes: &[usize]) {
        for node in nodes {
            let place = &mut self.nodes[*node];
            place.troubles = place.troubles.saturating_sub(1);
            place.untroubled_since = self.now;
        }
    }

    /// Ends a cut.
    pub(super) fn heal(&mut self, cut: CutId) {
        if let Some(cut) = self.network.heal(cut) {
            self.upheaval(true);
            self.relieve(cut.suspectable().unwrap_or_default());
            self.calmed();
        }
    }

    /// Holds back what a node sends or is sent for so long; it arrives then, and the process runs on.
    pub fn hold(&mut self, node: usize, lasting: Duration) {
        self.upheaval(true);
        let cut = self.network.hold(node, self.now.saturating_add(nanos(lasting)));
        self.network_calm_since = None;
        self.push_after(lasting, Event::Heal { cut });
    }

    /// Changes what the network is like, for a while.
    pub fn disturb(&mut self, conditions: Conditions, lasting: Duration) {
        self.upheaval(true);
        self.network.set_conditions(conditions);
        self.conditions_epoch += 1;
        self.network_calm_since = None;
        self.push_after(lasting, Event::Restore { epoch: self.conditions_epoch });
    }

    /// Lets nothing from `from` reach `to` for a period, then everything for a period, and so on, for so long.
    pub fn cut_in_turns(&mut self, from: NodeSet, to: NodeSet, period: Duration, lasting: Duration) {
        self.upheaval(true);
        let cut = self.network.cut_in_turns(self.now, from, to, period);
        self.network_calm_since = None;
        self.push_after(lasting, Event::Heal { cut });
    }

    /// Returns true if all nodes have about as many observers, so that who observes is observed.
    pub fn observe_each_other(&self) -> bool {
        self.nodes.windows(2).all(|pair| pair[0].settings.observers == pair[1].settings.observers)
    }

    /// Loses what a node sends or receives with these chances, for so long.
    pub fn set_node_loss(&mut self, node: usize, loss: NodeLoss, lasting: Duration) {
        self.upheaval(true);
        self.network.set_node_loss(node, loss);
        self.trouble(&[node]);
        // A node that hears a little tells what it believes of others, and is believed.
        self.network_calm_since = None;
        self.push_after(lasting, Event::Mend { node });
    }

    /// Takes away every disturbance of the network, wakes the paused and hastens the slow.
    pub fn heal_all(&mut self) {
        self.upheaval(true);
        self.network.heal_all();
        self.set_tcp(Tcp::Open);
        self.free_disks();
        self.heal_store();
        self.network_calm_since = Some(self.now);
        for place in &mut self.nodes {
            place.troubles = 0;
            place.untroubled_since = self.now;
        }
        for node in 0..self.nodes.len() {
            if let Some(process) = self.nodes[node].running() {
                let number = process.number;
                self.resume(node, number);
                self.end_slowness(node, number);
            }
        }
    }

    pub(super) fn calmed(&mut self) {
        if self.network.is_calm() && self.network_calm_since.is_none() {
            self.network_calm_since = Some(self.now);
        }
    }

    /// Returns the time for which this run of a node has been running well over a network where nothing was wrong.
    pub(super) fn healthy_for(&self, subject: usize, run: Run) -> Option<Duration> {
        let calm_since = self.network_calm_since?.max(self.nodes.get(subject)?.untroubled()?);
        Some(self.running_for(subject, run)?.min(Duration::from_nanos(self.now - calm_since)))
    }

    /// Returns the time for which this run of a node has been running well.
    pub(super) fn running_for(&self, subject: usize, run: Run) -> Option<Duration> {
        let process = self.nodes.get(subject)?.running().filter(|process| process.run == run)?;
        Some(Duration::from_nanos(self.now - process.undisturbed_since?))
    }
}
