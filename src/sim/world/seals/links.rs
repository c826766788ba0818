//! Connections of sealed worlds: the greetings at both ends, and the frames after them.

use std::net::SocketAddr;

use super::Edge;
use crate::world::World;
use crate::world::life::CLUSTER;
use headcount_core::{Input, LinkEvent, LinkId};
use headcount_seal::{LinkSealer, LinkStep};

/// The seal of one end of a connection.
#[derive(Debug)]
pub(super) struct Link {
    sealer: LinkSealer,
    /// Frames that wait for the other end's greeting.
    waiting: Vec<Vec<u8>>,
    is_known: bool,
}

/// The outcome of opening a frame.
enum Taken {
    Packet(Vec<u8>),
    /// The other end greeted: send these.
    Send(Vec<Vec<u8>>),
    Refused {
        is_known: bool,
    },
}

impl World {
    fn new_link(&mut self, node: usize, link: LinkId, is_opener: bool) -> Option<()> {
        let seed = self.options.seed;
        let process = self.nodes[node].process.as_ref()?.number;
        let edge = self.seals.as_mut()?.edge(node, process)?;
        edge.connections += 1;
        let drawn =
            |salt: u64| xxhash_rust::xxh3::xxh3_64_with_seed(&edge.run.0.to_le_bytes(), seed ^ edge.connections ^ salt);
        let mut random = [0; 16];
        random[..8].copy_from_slice(&drawn(0).to_le_bytes());
        random[8..].copy_from_slice(&drawn(1 << 63).to_le_bytes());
        let end = if is_opener { LinkSealer::opener } else { LinkSealer::acceptor };
        let sealer = end(edge.run, CLUSTER, edge.connections, random);
        edge.links.insert(link, Link { sealer, waiting: Vec::new(), is_known: is_opener });
        Some(())
    }

    /// Greets the other end of a connection that this node opened.
    pub(crate) fn greet_over(&mut self, node: usize, link: LinkId) {
        if self.seals.is_none() || self.new_link(node, link, true).is_none() {
            return;
        }
        let greeting = self.seals.as_mut().and_then(|seals| {
            let place = seals.nodes.get_mut(node)?;
            let edge = place.edge.as_ref()?;
            Some(edge.links.get(&link)?.sealer.greeting(place.ring.sealing()))
        });
        if let Some(greeting) = greeting {
            self.send_raw_frame(node, link, greeting);
        }
    }

    /// Returns the sealed frame of a packet; `None` if it waits for the other end's greeting.
    pub(crate) fn seal_frame(&mut self, node: usize, link: LinkId, packet: Vec<u8>) -> Option<Vec<u8>> {
        let Some(seals) = &mut self.seals else { return Some(packet) };
        let place = seals.nodes.get_mut(node)?;
        let link = place.edge.as_mut()?.links.get_mut(&link)?;
        if !link.sealer.is_ready() {
            link.waiting.push(packet);
            return None;
        }
        seals.counts.frames += 1;
        link.sealer.seal(place.ring.sealing(), &packet)
    }

    /// Forgets the seal of a connection that is over.
    pub(crate) fn forget_seal(&mut self, node: usize, link: LinkId) {
        if let Some(edge) = self.seals.as_mut().and_then(|seals| seals.nodes.get_mut(node)?.edge.as_mut()) {
            edge.links.remove(&link);
        }
    }

    /// Hands a frame in, opened.
    pub(crate) fn take_frame(&mut self, node: usize, link: LinkId, from: SocketAddr, frame: &[u8]) {
        if self.seals.is_none() {
            return self.step(node, Input::Link { link, event: LinkEvent::Frame { from, bytes: frame } });
        }
        let is_new = |edge: &Edge| !edge.links.contains_key(&link);
        let seals = self.seals.as_ref().and_then(|seals| seals.nodes.get(node)?.edge.as_ref());
        if seals.is_some_and(is_new) && matches!(link, LinkId::Accepted(_)) {
            self.new_link(node, link, false);
        }
        match self.open_frame(node, link, frame) {
            Some(Taken::Packet(packet)) => {
                self.step(node, Input::Link { link, event: LinkEvent::Frame { from, bytes: &packet } });
            }
            Some(Taken::Send(frames)) => frames.into_iter().for_each(|frame| self.send_raw_frame(node, link, frame)),
            Some(Taken::Refused { is_known }) => {
                self.close_stream(node, link);
                if is_known {
                    self.step(node, Input::Link { link, event: LinkEvent::Closed });
                }
            }
            None => {}
        }
    }

    fn open_frame(&mut self, node: usize, link: LinkId, frame: &[u8]) -> Option<Taken> {
        let seals = self.seals.as_mut()?;
        let place = seals.nodes.get_mut(node)?;
        let edge = place.edge.as_mut()?;
        let known = edge.links.get_mut(&link)?;
        let taken = match known.sealer.take(seals.mode, &place.ring, frame) {
            Ok(LinkStep::Frame(packet)) => {
                known.is_known = true;
                Taken::Packet(packet)
            }
            Ok(LinkStep::Clear) => Taken::Packet(frame.to_vec()),
            Ok(LinkStep::Greeted(answer)) => {
                let key = place.ring.sealing().clone();
                let waiting = std::mem::take(&mut known.waiting);
                let waiting: Vec<_> = waiting.iter().filter_map(|packet| known.sealer.seal(&key, packet)).collect();
                seals.counts.frames += waiting.len() as u64;
                Taken::Send(answer.into_iter().chain(waiting).collect())
            }
            Err(error) => {
                seals.counts.refused[error.index()] += 1;
                Taken::Refused { is_known: known.is_known }
            }
        };
        Some(taken)
    }
}
