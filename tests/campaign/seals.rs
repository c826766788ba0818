//! What must hold of seals: no nonce twice, nothing opened twice or with a key that was removed, nobody flooded.
//!
//! Must not know: how anything is sealed.

use std::collections::{BTreeMap, BTreeSet};

use headcount_core::Run;
use headcount_seal::{KeyId, key_id_of};
use headcount_sim::watch::SealEvent;
use headcount_sim::{World, elsewhere, unsealed};

use crate::invariants::{Finding, Invariant};

/// Watches all seals of a world.
#[derive(Debug, Default)]
pub(crate) struct SealWatch {
    /// Nonces of datagrams: key, run, number.
    nonces: BTreeSet<(KeyId, Run, u64)>,
    /// Hashes of the datagrams that each process has opened.
    opened: BTreeMap<usize, BTreeSet<u64>>,
    /// Bytes of recordings from elsewhere that were opened, and of what was sent there.
    opened_from_elsewhere: u64,
    sent_elsewhere: u64,
}

impl SealWatch {
    /// Takes note of a new process.
    pub(crate) fn born(&mut self, node: usize) {
        self.opened.remove(&node);
    }

    /// Judges what is sealed, opened or sent; returns what is wrong, with the node that is to blame.
    pub(crate) fn judge(&mut self, world: &World, event: SealEvent<'_>) -> Option<(Option<usize>, Finding)> {
        match event {
            SealEvent::Sealed { node, datagram } => {
                let nonce = (key_id_of(datagram)?, run_in(datagram)?, number_in(datagram));
                let (length, mtu) = (datagram.len(), world.settings(node).mtu);
                let finding = if !self.nonces.insert(nonce) {
                    (Invariant::SealsHold, format!("nonce {nonce:?} was used before"))
                } else if length > mtu {
                    (Invariant::DatagramsWithinBounds, format!("{length} bytes sealed, mtu is {mtu}"))
                } else {
                    return None;
                };
                Some((Some(node), finding))
            }
            SealEvent::Opened { node, from, datagram } => {
                if from == elsewhere() {
                    self.opened_from_elsewhere += datagram.len() as u64 + world.header_bytes();
                }
                let is_first = self.opened.entry(node).or_default().insert(xxhash_rust::xxh3::xxh3_64(datagram));
                let detail = if !is_first {
                    format!("a datagram from {from} was opened before")
                } else if key_id_of(datagram).is_some_and(|id| world.has_removed_key(node, id)) {
                    format!("a datagram from {from} is sealed with a key that was removed")
                } else {
                    return None;
                };
                Some((Some(node), (Invariant::SealsHold, detail)))
            }
            SealEvent::SentOutside { to, .. } if to == unsealed() => {
                Some((None, (Invariant::NobodyIsFlooded, format!("{to} is answered, and has sealed nothing"))))
            }
            SealEvent::SentOutside { to, bytes } if to == elsewhere() => {
                self.sent_elsewhere += bytes;
                let (opened, sent) = (self.opened_from_elsewhere, self.sent_elsewhere);
                let detail = || format!("{sent} bytes went to where recordings of {opened} came from");
                (sent > opened).then(|| (None, (Invariant::NobodyIsFlooded, detail())))
            }
            SealEvent::SentOutside { .. } => None,
        }
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
