//! Datagrams of sealed worlds: sealed on their way out, opened on their way in.

use std::net::SocketAddr;

use crate::watch::SealEvent;
use crate::world::World;
use headcount_core::Receiver;
use headcount_seal::{Opened, SealError};

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
        let place = seals.nodes.get_mut(node)?;
        let (edge, key) = (place.edge.as_mut()?, place.ring.sealing());
        let sealed = edge.sealer.seal(key, receiver.run(), &packet)?;
        seals.counts.sealed += 1;
        if let (Some(recorder), Some(to)) = (&mut seals.recorder, to) {
            recorder.overhear(node, to, &sealed, &packet);
        }
        self.tell(|watch, world| watch.on_seal(world, SealEvent::Sealed { node, datagram: &sealed }));
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
        let place = seals.nodes.get_mut(node)?;
        let sealer = &mut place.edge.as_mut()?.sealer;
        let core = self.nodes[node].process.as_ref().map(|process| &process.core);
        let is_known = |run| core.is_some_and(|core| core.knows(run));
        let mut packet = Vec::new();
        let refused = match sealer.open(&place.ring, &datagram, &mut packet, is_known) {
            Ok(opened @ (Opened::Bound | Opened::Unbound)) => {
                self.tell(|watch, world| watch.on_seal(world, SealEvent::Opened { node, from, datagram: &datagram }));
                return Some((packet, opened == Opened::Bound));
            }
            Ok(Opened::Clear) if seals.mode.accepts_clear() => return Some((datagram, true)),
            Ok(Opened::Clear) => SealError::Unsealed,
            Err(error) => error,
        };
        seals.counts.refused[refused.index()] += 1;
        None
    }
}
