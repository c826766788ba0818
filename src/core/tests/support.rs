//! What tests of whole nodes need beyond `handle` and `poll`: questions that no driver has, and states that take a cluster hours, or
//! an attacker, to bring about. Only with the feature `testing`, which is no part of the crate's promises.
//!
//! Must not know: machines' fields, as far as a machine has a question for it; a test that has to know them is in `tests/internals`.

use std::net::SocketAddr;

use crate::Core;
use crate::member::{NodeId, ProtocolRange, Record, Run, Status, Tags};
use crate::packet::{Answer, Beside, News, Sender, SenderKind};
use crate::settings::Settings;
use crate::time::Time;
use crate::view::{Peer, Slot};
use crate::wire::{Header, Message, Nonce};

/// Returns a record with this name, of run 7.
///
/// # Panics
/// If it is no good name.
pub fn record(id: &str, incarnation: u64, status: Status) -> Record {
    Record {
        id: NodeId::new(id).expect("a good name"),
        run: Run(7),
        incarnation,
        status,
        address: SocketAddr::from(([10, 0, 0, 1], 7117)),
        api_address: None,
        tags: Tags::default(),
        timing: Settings::default().timing().expect("the default"),
        version: "0.1.0".into(),
        protocol: ProtocolRange::OURS,
    }
}

/// What tests see.
#[allow(clippy::missing_panics_doc, reason = "a test names members that there are")]
impl Core {
    fn slot(&self, run: Run) -> Slot {
        self.view.slot_of_run(run).expect("a member")
    }

    fn peer(&mut self, run: Run) -> &mut Peer {
        let slot = self.slot(run);
        self.view.peer_mut(slot)
    }

    /// Returns the time of the last input.
    pub fn now(&self) -> Time {
        self.cx.now
    }

    /// Asserts that all that is counted, listed and looked up in the view agrees with the members that are there; if it is
    /// larger than this, only if `is_due`.
    pub fn check_view(&self, small: usize, is_due: bool) {
        if self.view.len() <= small || is_due {
            self.view.check();
        }
    }

    /// Returns the digest of the view by which another one is compared with it.
    pub fn digest(&self) -> Message {
        Message::Digest { buckets: self.view.digest() }
    }

    /// Returns the nonce that a question to this address has now.
    pub fn nonce(&self, address: SocketAddr, now: Time) -> Nonce {
        self.packets.prover.nonce(address, now)
    }

    /// Returns the cookie that a joiner at this address is given now.
    pub fn cookie(&self, address: SocketAddr, run: Run, now: Time) -> Nonce {
        self.packets.prover.cookie(address, run, now)
    }

    /// Returns true if a member's address has echoed a nonce.
    pub fn is_proven(&self, run: Run) -> bool {
        self.view.entry(self.slot(run)).peer.is_proven()
    }

    /// Returns the time of the last sign of life of a member, be it from another's mouth.
    pub fn last_sign(&self, run: Run) -> Time {
        self.view.entry(self.slot(run)).peer.last_sign()
    }

    /// Returns true if a link to this process is open.
    pub fn has_link(&self, run: Run) -> bool {
        self.paths.links.open(run).is_some()
    }

    /// Returns the number of bootstrap links that stand.
    pub fn bootstrap_links(&self) -> usize {
        self.paths.bootstrap.len()
    }

    /// Returns true if the pages of a view are under way to this node.
    pub fn is_pulling(&self) -> bool {
        self.joiner.transfer.is_some()
    }

    /// Returns true if this node takes itself for one of its seeds, while it is joining.
    pub fn is_its_own_seed(&self) -> bool {
        self.joiner.joining.as_ref().is_some_and(|joining| joining.is_seed)
    }

    /// Returns true if a seed may not be Up.
    pub fn misses_seed(&self) -> bool {
        self.reunion.count_missing_seeds(&self.view) > 0
    }

    /// Returns true if this joiner is held beside the view.
    pub fn holds_joiner(&self, run: Run) -> bool {
        self.sponsor.joiners.contains(run)
    }

    /// Returns true if what the second member tells of the first one may come from the far side of a partition.
    pub fn is_spoken_of_from_afar(&self, subject: Run, teller: Option<Run>) -> bool {
        self.partition.is_spoken_of_from_afar(self.cx.now, subject, teller)
    }
}

/// What tests bring about.
#[allow(clippy::missing_panics_doc, reason = "a test names members that there are")]
impl Core {
    /// Learns of a member, as by its own word.
    pub fn learn_of(&mut self, record: Record) {
        self.learn(News::told(record), None);
    }

    /// Takes it that a member's address has echoed a nonce, or that it has not.
    pub fn set_proven(&mut self, run: Run, is_proven: bool) {
        if is_proven {
            self.peer(run).prove();
        } else {
            self.peer(run).unprove();
        }
    }

    /// Takes this number for the highest of a member's packets.
    pub fn count_from(&mut self, run: Run, sequence: u64) {
        self.peer(run).count_from(sequence);
    }

    /// Keeps a term of a lease.
    pub fn keep_term(&mut self, lease: NodeId, term: u64) {
        self.lease_updates.keep_term(lease, term);
    }

    /// Returns the header of this node's next packet, which is the test's.
    pub fn next_header(&mut self) -> Header {
        self.packets.sequence += 1;
        let (run, sequence, fingerprint) = (self.cx.run, self.packets.sequence, self.fingerprint());
        Header { cluster: self.cx.cluster, run, sequence, fingerprint }
    }

    /// Hears a message of a member by the best way there is: apart from its packet, which would be a sign of life and be
    /// answered.
    pub fn hear(&mut self, run: Run, message: Message) {
        let slot = self.slot(run);
        let (kind, way) = (SenderKind::Member(slot), self.out().best_way(slot));
        let sender = Sender { from: self.view.record(slot).address, run, kind, way, bytes: 0 };
        let mut answer = Answer::new(kind, way, Beside::default());
        self.dispatch(&sender, message, &mut answer);
        if !answer.owed.wants.is_empty() {
            self.asked_for_broadcasts(slot, &answer.owed.wants);
        }
    }
}
