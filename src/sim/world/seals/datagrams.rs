//! Datagrams of sealed worlds: sealed on their way out, opened on their way in.

use std::net::SocketAddr;

use super::SealFlaw;
use crate::watch::SealEvent;
use crate::world::World;
use crate::world::life::CLUSTER;
use headcount_core::{Receiver, Run};
use headcount_seal::{DatagramSealer, Opened, SealError};

impl World {
    /// Returns the sealed datagram of a packet; the packet itself in a clear world, and nothing for what has no place in a
    /// seal.
    pub(crate) fn seal_datagram(
        &mut self,
        node: usize,
        to: Option<usize>,
        receiver: Receiver,
        packet: Vec<u8>,
    ) -> Option<Vec<u8>> {
        let Some(seals) = &mut self.seals else { return Some(packet) };
        let flaw = seals.flaw;
        let receiver = receiver.run().filter(|_| flaw != Some(SealFlaw::Unbound));
        let place = seals.nodes.get_mut(node)?;
        let (edge, key) = (place.edge.as_mut()?, place.ring.sealing());
        if flaw == Some(SealFlaw::ReusedNonce) {
            edge.sealer = DatagramSealer::new(edge.run, CLUSTER);
        }
        let sealed = edge.sealer.seal(key, receiver, &packet)?;
        seals.counts.sealed += 1;
        if let (Some(recorder), Some(to)) = (&mut seals.recorder, to) {
            recorder.overhear(node, to, &sealed, &packet);
        }
        self.tell(|watch, world| watch.on_seal(world, SealEvent::Sealed { node, datagram: &sealed }));
        if let Some(to) = to {
            self.let_it_misdirect(node, to, &sealed);
        }
        Some(sealed)
    }

    /// Returns the packet in a datagram, and true unless it is bound to no receiver; `None` if it is refused.
    pub(crate) fn open_datagram(
        &mut self,
        node: usize,
        from: SocketAddr,
        datagram: Vec<u8>,
    ) -> Option<(Vec<u8>, bool)> {
        let Some(seals) = &mut self.seals else { return Some((datagram, true)) };
        let flaw = seals.flaw;
        let place = seals.nodes.get_mut(node)?;
        let edge = place.edge.as_mut()?;
        let run = edge.run;
        let core = self.nodes[node].process.as_ref().map(|process| &process.core);
        let is_known = |run| core.is_some_and(|core| core.knows(run));
        let sender = run_in(&datagram);
        let mut forgetful = DatagramSealer::new(run, CLUSTER);
        let sealer = match flaw {
            Some(SealFlaw::WindowPerRecord) if !sender.is_some_and(is_known) => &mut forgetful,
            Some(SealFlaw::FirstNotSeen) if sender.is_some_and(|sender| edge.begun.insert(sender)) => &mut forgetful,
            Some(SealFlaw::WindowPerAddress) => {
                edge.by_address.entry(from).or_insert_with(|| DatagramSealer::new(run, CLUSTER))
            }
            _ => &mut edge.sealer,
        };
        let mut packet = Vec::new();
        let refused = match sealer.open(&place.ring, &datagram, &mut packet, is_known) {
            Ok(opened @ (Opened::Bound | Opened::Unbound)) => {
                self.tell(|watch, world| watch.on_seal(world, SealEvent::Opened { node, from, datagram: &datagram }));
                return Some((packet, opened == Opened::Bound || flaw == Some(SealFlaw::Unbound)));
            }
            Ok(Opened::Clear) if flaw == Some(SealFlaw::AnswersUnsealed) => return Some((datagram, true)),
            Ok(Opened::Clear) => SealError::Unsealed,
            Err(error) => error,
        };
        seals.counts.refused[refused.index()] += 1;
        None
    }
}

/// Returns the run that sealed a datagram.
fn run_in(datagram: &[u8]) -> Option<Run> {
    datagram.get(4..)?.first_chunk().map(|run| Run(u64::from_le_bytes(*run)))
}
