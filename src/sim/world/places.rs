//! Addresses that change: members that move, exchange their addresses, are told a wrong one, or speak through a translator.
//!
//! A move is a disturbance for as long as members may take to find each other: meanwhile nothing is promised in time.
//!
//! Must not know: how members learn of it.

use std::net::SocketAddr;
use std::time::Duration;

use super::{Event, World};
use crate::network::NodeSet;
use crate::node::address_of;
use headcount_core::Command;

/// The first number of the addresses that nodes move to.
const ELSEWHERE: usize = 100_000;
/// Time after which members that moved have found each other.
const SETTLED: Duration = Duration::from_secs(20);

impl World {
    /// Gives a node another address, which nobody had before; its process notices this much later. Returns false if it does
    /// not run.
    pub fn move_node(&mut self, node: usize, noticed_after: Duration) -> bool {
        let to = self.fresh_address();
        self.readdress(&[(node, to)], noticed_after)
    }

    /// Has two nodes exchange their addresses. Returns false if one of them does not run.
    pub fn exchange_addresses(&mut self, one: usize, other: usize, noticed_after: Duration) -> bool {
        let (first, second) = (self.nodes[one].address, self.nodes[other].address);
        one != other && self.readdress(&[(one, second), (other, first)], noticed_after)
    }

    /// Tells a process that it is at an address where nobody is, and the truth this much later. Returns false if it does not
    /// run.
    pub fn mislead_about_address(&mut self, node: usize, lasting: Duration) -> bool {
        let address = self.fresh_address();
        let ticket = self.ticket();
        if !self.command(node, Command::SetAddress { ticket, address }) {
            return false;
        }
        self.unsettle(lasting + SETTLED);
        self.push_after(lasting, Event::AddressNoticed { node });
        true
    }

    /// Puts a node behind a translator of addresses, which forwards what comes to the node's own: what the node sends comes
    /// from another address, and from yet another one half of the time later.
    pub fn translate(&mut self, node: usize, lasting: Duration) {
        self.unsettle(lasting + SETTLED);
        self.rebind(node);
        self.push_after(lasting / 2, Event::Rebound { node });
        self.push_after(lasting, Event::Untranslated { node });
    }

    /// Gives a translated node another source address.
    pub(super) fn rebind(&mut self, node: usize) {
        let source = self.fresh_address();
        self.untranslate(node);
        self.moved.insert(source, node);
        self.nodes[node].source = Some(source);
    }

    /// Takes a node's translator away.
    pub(super) fn untranslate(&mut self, node: usize) {
        if let Some(before) = self.nodes[node].source.take() {
            self.moved.remove(&before);
        }
    }

    /// Tells a process its present address.
    pub(super) fn notice_address(&mut self, node: usize) {
        let (ticket, address) = (self.ticket(), self.nodes[node].address);
        self.command(node, Command::SetAddress { ticket, address });
    }

    /// Takes translators away, and tells everybody where it is.
    pub(super) fn heal_addresses(&mut self) {
        for node in 0..self.nodes.len() {
            self.untranslate(node);
            let present = self.nodes[node].address;
            if self.core(node).is_some_and(|core| core.me().address != present) {
                self.notice_address(node);
            }
        }
    }

    fn readdress(&mut self, to: &[(usize, SocketAddr)], noticed_after: Duration) -> bool {
        if to.iter().any(|(node, _)| self.nodes[*node].running().is_none()) {
            return false;
        }
        self.unsettle(noticed_after + SETTLED);
        for (node, _) in to {
            self.moved.remove(&self.nodes[*node].address);
        }
        for (node, address) in to {
            self.moved.insert(*address, *node);
            self.nodes[*node].address = *address;
            // Its connections had the former address at one end.
            if let Some(process) = self.nodes[*node].process.as_ref().map(|process| process.number) {
                self.vanish_streams(*node, process);
            }
            self.push_after(noticed_after, Event::AddressNoticed { node: *node });
        }
        true
    }

    /// Promises nothing in time for so long: a cut between nobody and nobody.
    fn unsettle(&mut self, lasting: Duration) {
        self.cut(NodeSet::of(&[]), NodeSet::of(&[]), Some(lasting));
    }

    fn fresh_address(&mut self) -> SocketAddr {
        self.addresses += 1;
        address_of(ELSEWHERE + self.addresses, self.options.ipv6)
    }
}
