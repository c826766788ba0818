//! Disturbances: cuts, loss, delay and their ends, and for how long a node and its network have been well.
//!
//! Owns the record of troubles: a disturbance that is blamed on nodes troubles them until it ends; while there is any
//! other, the network is not calm. Each says at its beginning what undoes it.
//!
//! Must not know: what nodes say.

use std::time::Duration;

use super::{Event, World};
use crate::network::{Conditions, Cut, CutId, NodeLoss, NodeSet};
use crate::random::nanos;
use crate::streams::Tcp;
use crate::watch::Upheaval;
use headcount_core::Run;

/// The end of a disturbance.
#[derive(Debug, Clone, Copy)]
pub(super) enum Undo {
    Cut(CutId),
    /// The usual conditions, unless others took the place of these meanwhile.
    Conditions {
        epoch: u64,
    },
    NodeLoss {
        node: usize,
    },
    /// TCP passes again, unless a later firewall took the place of this one.
    Tcp {
        epoch: u64,
    },
}

impl World {
    /// Takes note that a disturbance begins, of the nodes that it is blamed on or, with `None`, of the network.
    pub(super) fn disturbs(&mut self, blamed: Option<&[usize]>) {
        self.upheaval(true);
        match blamed {
            None => self.network_calm_since = None,
            Some(nodes) => {
                for node in nodes {
                    self.nodes[*node].troubles += 1;
                }
            }
        }
    }

    /// Lets a disturbance end by itself.
    pub(super) fn lasts(&mut self, lasting: Duration, undo: Undo) {
        self.push_after(lasting, Event::Undo(undo));
    }

    /// Ends a disturbance, if it is still there.
    pub(super) fn undo(&mut self, undo: Undo) {
        match undo {
            Undo::Cut(cut) => {
                let Some(cut) = self.network.heal(cut) else { return };
                self.relieve(cut.suspectable().unwrap_or_default());
            }
            Undo::Conditions { epoch } if epoch == self.conditions_epoch => {
                let usual = *self.network.usual();
                self.network.set_conditions(usual);
            }
            Undo::NodeLoss { node } => {
                self.network.set_node_loss(node, NodeLoss::default());
                self.relieve(&[node]);
            }
            Undo::Tcp { epoch } if epoch == self.tcp_epoch => {
                self.tcp = Tcp::Open;
                return self.upheaval(true);
            }
            Undo::Conditions { .. } | Undo::Tcp { .. } => return,
        }
        self.upheaval(true);
        if self.network.is_calm() && self.network_calm_since.is_none() {
            self.network_calm_since = Some(self.now);
        }
    }

    /// Takes note that a disturbance ends that is blamed on these nodes.
    pub(super) fn relieve(&mut self, nodes: &[usize]) {
        for node in nodes {
            let place = &mut self.nodes[*node];
            place.troubles = place.troubles.saturating_sub(1);
            place.untroubled_since = self.now;
        }
    }

    /// Cuts these off from the rest, both ways.
    pub fn partition(&mut self, side: &[usize], lasting: Option<Duration>) {
        self.undergo(Upheaval::Cut { side, lasting });
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
        self.disturbs(cut.suspectable());
        let cut = self.network.add_cut(cut);
        if let Some(lasting) = lasting {
            self.lasts(lasting, Undo::Cut(cut));
        }
    }

    /// Holds back what a node sends or is sent for so long; it arrives then, and the process runs on.
    pub fn hold(&mut self, node: usize, lasting: Duration) {
        self.disturbs(None);
        let cut = self.network.hold(node, self.now.saturating_add(nanos(lasting)));
        self.lasts(lasting, Undo::Cut(cut));
    }

    /// Changes what the network is like, for a while.
    pub fn disturb(&mut self, conditions: Conditions, lasting: Duration) {
        self.disturbs(None);
        self.network.set_conditions(conditions);
        self.conditions_epoch += 1;
        self.lasts(lasting, Undo::Conditions { epoch: self.conditions_epoch });
    }

    /// Lets nothing from `from` reach `to` for a period, then everything for a period, and so on, for so long.
    pub fn cut_in_turns(&mut self, from: NodeSet, to: NodeSet, period: Duration, lasting: Duration) {
        self.disturbs(None);
        let cut = self.network.cut_in_turns(self.now, from, to, period);
        self.lasts(lasting, Undo::Cut(cut));
    }

    /// Returns true if all nodes have about as many observers, so that who observes is observed.
    pub fn observe_each_other(&self) -> bool {
        self.nodes.windows(2).all(|pair| pair[0].settings.observers == pair[1].settings.observers)
    }

    /// Loses what a node sends or receives with these chances, for so long.
    pub fn set_node_loss(&mut self, node: usize, loss: NodeLoss, lasting: Duration) {
        self.disturbs(Some(&[node]));
        // A node that hears a little tells what it believes of others, and is believed.
        self.disturbs(None);
        self.network.set_node_loss(node, loss);
        self.lasts(lasting, Undo::NodeLoss { node });
    }

    /// Takes away every disturbance of the network, wakes the paused and hastens the slow.
    pub fn heal_all(&mut self) {
        self.upheaval(true);
        self.network.heal_all();
        self.set_tcp(Tcp::Open);
        self.free_disks();
        self.heal_addresses();
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

    /// Returns the time for which this run of a node has been running well over a network where nothing was wrong.
    pub fn healthy_for(&self, subject: usize, run: Run) -> Option<Duration> {
        let calm_since = self.network_calm_since?.max(self.nodes.get(subject)?.untroubled()?);
        Some(self.running_for(subject, run)?.min(Duration::from_nanos(self.now - calm_since)))
    }

    /// Returns the time for which this run of a node has been running well.
    pub(super) fn running_for(&self, subject: usize, run: Run) -> Option<Duration> {
        let process = self.nodes.get(subject)?.running().filter(|process| process.run == run)?;
        Some(Duration::from_nanos(self.now - process.undisturbed_since?))
    }
}
