//! The adversary in the world: the scene it sees, the fate of its packets and links, and the bytes that honest nodes
//! send to addresses that did not ask for them.
//!
//! Its packets reach all nodes whatever is cut, but for cuts all around a node: it can be anywhere. Must not know: the
//! content of its packets.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use super::{Event, Waiting, World};
use crate::core::{LinkId, Record};
use crate::sim::adversary::{Action, Adversary, AdversaryCounts, Attack, Honest, PACE, Scene};
use crate::sim::invariants::Invariant;

/// Latency of anything between the adversary and a node.
const UNDER_WAY: Duration = Duration::from_micros(300);
/// Number of dead processes that are remembered.
const DEAD_KEPT: usize = 16;
/// Tolerance of the counts, in bytes: a few answers may be under way when they are compared.
const SLACK_BYTES: u64 = 2_000;

/// The adversary, if it is present, and the traces that it left.
#[derive(Debug, Default)]
pub(super) struct AdversaryState {
    adversary: Option<Box<Adversary>>,
    /// Number of the present visit.
    visit: u64,
    /// Counts of its earlier visits.
    counts: AdversaryCounts,
    scene: Scene,
    /// The adversary's end of each link, by the honest end; and the process there, since the next one names its links alike.
    links: BTreeMap<(usize, LinkId), (SocketAddr, u64)>,
    /// The honest end of each link that the adversary opened.
    opened: BTreeMap<(SocketAddr, usize), (LinkId, u64)>,
    dead: Vec<Arc<Record>>,
    /// Bytes sent to addresses that are neither a node's nor the adversary's.
    to_victims: u64,
    /// Bytes sent to its addresses that never echo.
    to_mute: u64,
    /// Bytes that it sent from those addresses.
    from_mute: u64,
}

impl World {
    /// Lets an adversary in, with this attack; `crowd` is the number of members that it invents at one time, if it
    /// invents any.
    pub fn start_adversary(&mut self, attack: Attack, crowd: usize) {
        let adversary = Adversary::new(self.options.seed, attack, crowd, self.options.ipv6);
        self.stop_adversary();
        self.adversary_state.adversary = Some(Box::new(adversary));
        self.adversary_state.visit += 1;
        self.push_after(PACE, Event::Adversary { visit: self.adversary_state.visit });
        self.say(|| format!("*** an adversary: {attack:?}"));
    }

    /// Sends the adversary away.
    pub fn stop_adversary(&mut self) {
        if let Some(adversary) = self.adversary_state.adversary.take() {
            self.adversary_state.counts += adversary.counts;
            self.adversary_state.links.clear();
            self.adversary_state.opened.clear();
            self.say(|| "*** the adversary goes".to_owned());
        }
    }

    /// Returns the attack of the adversary, if one is present.
    pub fn attack(&self) -> Option<Attack> {
        self.adversary_state.adversary.as_ref().map(|adversary| adversary.attack())
    }

    /// Returns true if there ever was an adversary.
    pub fn had_adversary(&self) -> bool {
        self.adversary_state.visit > 0
    }

    /// Returns the adversary's counts so far, of all visits.
    pub fn counts(&self) -> AdversaryCounts {
        let mut all = self.adversary_state.counts;
        all +=
            self.adversary_state.adversary.as_ref().map_or_else(AdversaryCounts::default, |adversary| adversary.counts);
        all
    }

    /// Takes note of a process that died.
    pub(super) fn note_dead(&mut self, record: Arc<Record>) {
        if self.adversary_state.dead.len() == DEAD_KEPT {
            self.adversary_state.dead.remove(0);
        }
        self.adversary_state.dead.push(record);
    }

    fn show_scene(&mut self) {
        let honest = self.nodes.iter().filter_map(super::Node::running).map(|process| Honest {
            me: Arc::clone(process.core.me()),
            fingerprint: process.core.fingerprint(),
            is_up: process.core.is_up(),
        });
        let honest = honest.collect();
        let cluster = super::life::cluster();
        self.adversary_state.scene = Scene { cluster, honest, dead: self.adversary_state.dead.clone() };
    }

    /// Gives the adversary its turn.
    pub(super) fn let_it_act(&mut self, visit: u64) {
        if visit != self.adversary_state.visit || self.attack().is_none() {
            return;
        }
        self.show_scene();
        let Some(mut adversary) = self.adversary_state.adversary.take() else { return };
        let actions = adversary.act(&self.adversary_state.scene);
        self.adversary_state.adversary = Some(adversary);
        self.carry_out(actions);
        self.push_after(PACE, Event::Adversary { visit });
    }

    /// Hands the adversary something that reached one of its addresses.
    pub(super) fn let_it_hear(&mut self, at: SocketAddr, from: SocketAddr, bytes: &[u8]) {
        let Some(mut adversary) = self.adversary_state.adversary.take() else { return };
        let actions = adversary.hear(&self.adversary_state.scene, at, from, bytes);
        self.adversary_state.adversary = Some(adversary);
        self.carry_out(actions);
    }

    fn carry_out(&mut self, actions: Vec<Action>) {
        let header_bytes = self.network.header_bytes();
        for action in actions {
            if let Some(adversary) = &mut self.adversary_state.adversary {
                adversary.did(&action, header_bytes);
                if let Action::Send { from, bytes, .. } = &action
                    && adversary.is_mute(*from)
                {
                    self.adversary_state.from_mute += bytes.len() as u64 + header_bytes;
                }
            }
            match action {
                Action::Send { from, to, bytes } => {
                    if let Some(to) = self.place_at(to).filter(|to| !self.network.is_cut_off_from_outside(*to)) {
                        self.push_after(UNDER_WAY, Event::Packet { from, to, bytes, delayed: false });
                    }
                }
                Action::Frame { from, to, bytes } => self.frame_of_stranger(from, to, bytes),
            }
        }
    }

    fn frame_of_stranger(&mut self, from: SocketAddr, to: SocketAddr, bytes: Vec<u8>) {
        let Some(node) = self.place_at(to).filter(|node| !self.network.is_cut_off_from_outside(*node)) else { return };
        let Some(process) = self.nodes[node].running().map(|process| process.number) else { return };
        let known =
            self.adversary_state.opened.get(&(from, node)).filter(|known| known.1 == process).map(|known| known.0);
        let link = known.unwrap_or_else(|| self.streams.name_of_accepted());
        self.adversary_state.opened.insert((from, node), (link, process));
        self.adversary_state.links.insert((node, link), (from, process));
        self.offer(node, Waiting::Frame { link, from, bytes });
    }

    /// Counts an input to an honest process if it came from the adversary.
    pub(super) fn takes_in(&mut self, from: SocketAddr) {
        if let Some(adversary) = self.adversary_state.adversary.as_mut().filter(|adversary| adversary.owns(from)) {
            adversary.counts.delivered += 1;
        }
    }

    /// Sends a datagram to an address without a node: it is counted, and reaches the adversary if the address is its
    /// own.
    pub(super) fn transmit_elsewhere(&mut self, node: usize, to: SocketAddr, bytes: Vec<u8>) {
        self.network.send_to_nobody(node, &bytes);
        let from = self.nodes[node].address;
        self.goes_elsewhere(to, bytes.len());
        if self.adversary_state.owns(to) {
            self.push_after(UNDER_WAY, Event::ToAdversary { at: to, from, bytes });
        }
    }

    /// Counts bytes to addresses that did not ask for them.
    pub(super) fn goes_elsewhere(&mut self, to: SocketAddr, bytes: usize) {
        let bytes = bytes as u64 + self.network.header_bytes();
        if self.goes_to_recorder(to, bytes) {
            return;
        }
        // Where a node was is no third party.
        let is_of_nodes = self.is_of_nodes(to);
        let adversary_state = &mut self.adversary_state;
        match &adversary_state.adversary {
            Some(adversary) if adversary.is_mute(to) => adversary_state.to_mute += bytes,
            Some(adversary) if !adversary.owns(to) && !is_of_nodes => adversary_state.to_victims += bytes,
            _ => {}
        }
    }

    /// Shows the adversary a packet between honest nodes: it knows all of them.
    pub(super) fn let_it_overhear(&mut self, bytes: &[u8]) {
        if let Some(adversary) = &mut self.adversary_state.adversary {
            adversary.overhear(bytes);
        }
    }

    /// Returns the adversary's address, if a link of a node is with it.
    pub(super) fn stranger_at(&self, node: usize, link: LinkId) -> Option<SocketAddr> {
        let process = self.nodes[node].process.as_ref()?.number;
        self.adversary_state.links.get(&(node, link)).filter(|known| known.1 == process).map(|known| known.0)
    }

    /// Takes note of a link that a node opens to the adversary; returns true if it is one.
    pub(super) fn link_with_stranger(&mut self, node: usize, link: LinkId, to: SocketAddr) -> bool {
        let Some(process) = self.nodes[node].process.as_ref().map(|process| process.number) else { return false };
        let owns = self.adversary_state.owns(to);
        if owns {
            self.adversary_state.links.insert((node, link), (to, process));
        }
        owns
    }

    /// Forgets a link that a node closed.
    pub(super) fn forget_link_with_stranger(&mut self, node: usize, link: LinkId) {
        if let Some((at, _)) = self.adversary_state.links.remove(&(node, link)) {
            self.adversary_state.opened.remove(&(at, node));
        }
    }

    /// Checks that no address got more bytes than were sent to make honest nodes send them.
    pub(super) fn look_at_floods(&mut self) {
        let Some(adversary) = &self.adversary_state.adversary else { return };
        let AdversaryState { to_victims, to_mute, from_mute, .. } = self.adversary_state;
        let sent = adversary.counts.bytes + self.adversary_state.counts.bytes;
        let detail = if to_victims > sent + SLACK_BYTES {
            format!("{to_victims} bytes went to victims, for {sent} of the adversary's")
        } else if to_mute > from_mute + SLACK_BYTES {
            format!("{to_mute} bytes went to where {from_mute} came from, and nothing was ever echoed")
        } else {
            return;
        };
        self.report(None, Invariant::NobodyIsFlooded, detail);
    }
}

impl AdversaryState {
    pub(super) fn owns(&self, address: SocketAddr) -> bool {
        self.adversary.as_ref().is_some_and(|adversary| adversary.owns(address))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sim::campaign::campaign_settings;
    use crate::sim::world::WorldOptions;

    #[test]
    fn a_link_with_the_adversary_ends_with_its_process() {
        let mut world = World::new(WorldOptions::new(1, 3, campaign_settings()));
        world.run_for(Duration::from_secs(2));
        world.start_adversary(Attack::JoinerLies, 1);
        let (adversary, link) = (SocketAddr::from(([203, 0, 113, 1], 7_117)), LinkId::Opened(1));
        assert!(world.link_with_stranger(0, link, adversary));
        assert_eq!(world.stranger_at(0, link), Some(adversary));
        assert!(world.crash(0) && world.start(0));
        assert_eq!(world.stranger_at(0, link), None, "the next process names its links alike");
    }
}
