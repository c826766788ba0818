//! Datagrams of sealed worlds: sealed on their way out, opened on their way in, and what must hold of both.

use std::net::SocketAddr;

use super::SealFlaw;
use super::recorder::elsewhere;
use crate::invariants::Invariant;
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
        let nonce = (key.id(), edge.run, number_in(&sealed));
        let is_fresh = seals.nonces.insert(nonce);
        seals.counts.sealed += 1;
        if let (Some(recorder), Some(to)) = (&mut seals.recorder, to) {
            recorder.overhear(node, to, &sealed, &packet);
        }
        let mtu = self.nodes[node].settings.mtu;
        if !is_fresh {
            self.report(Some(node), Invariant::SealsHold, format!("nonce {nonce:?} was used before"));
        } else if sealed.len() > mtu {
            let detail = format!("{} bytes sealed, mtu is {mtu}", sealed.len());
            self.report(Some(node), Invariant::DatagramsWithinBounds, detail);
        }
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
                if from == elsewhere() {
                    seals.opened_from_elsewhere += datagram.len() as u64 + self.network.header_bytes();
                }
                let is_first = edge.opened.insert(xxhash_rust::xxh3::xxh3_64(&datagram));
                let by_removed = headcount_seal::key_id_of(&datagram).is_some_and(|id| place.removed.contains(&id));
                if !is_first {
                    let detail = format!("a datagram from {from} was opened before");
                    self.report(Some(node), Invariant::SealsHold, detail);
                } else if by_removed {
                    let detail = format!("a datagram from {from} is sealed with a key that was removed");
                    self.report(Some(node), Invariant::SealsHold, detail);
                }
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

/// Returns the number in a sealed datagram.
fn number_in(datagram: &[u8]) -> u64 {
    datagram.get(16..).and_then(|rest| postcard::take_from_bytes(rest).ok()).map_or(0, |(number, _)| number)
}
