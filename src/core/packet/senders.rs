//! The kind of a packet's sender: a member, or a stranger that perhaps claims to be one.
//!
//! A run is a name, not a secret: every node that was ever sent a packet knows it. So a packet is a member's only if it
//! came
//!
//! - from the address in the member's record,
//! - from an *alias*: an address from which a nonce came back that had been sent to the record's address (the member is
//!   behind a NAT, or has several interfaces),
//! - or over a link that leads to the record's address (see `links` and `guests`).
//!
//! and, if it is sealed, was bound to this node's run. Every other packet is a stranger's, whatever run it bears. A
//! stranger that bears a member's run makes this node ask at the record's address, rarely enough to be no burden: a
//! member that is really there answers, and has proven its alias.
//!
//! Invariants:
//! - Only a member's packet is a sign of life, or carries updates.
//! - A nonce for a record's address never goes anywhere else.
//! - There are at most [`MAX_ALIASES_PER_RUN`] aliases of a run and [`MAX_ALIASES`] in all, of which the oldest are
//!   dropped, and each ends with its run, with the address that it stands for, and when its member is held as Down.
//!
//! Must not know: anything in a packet but the nonces that it brings back.

use std::collections::BTreeMap;
use std::net::SocketAddr;

use super::inbox::Inbox;
use super::rates::PerKeyRate;
use super::sender::{Sender, SenderKind};
use super::way::Way;
use crate::core::counters::DropReason;
use crate::core::limits::{CLAIM_INTERVAL, MAX_ALIASES, MAX_ALIASES_PER_RUN, MAX_CLAIMS_PER_INTERVAL};
use crate::core::member::Run;
use crate::core::time::Time;
use crate::core::view::{Slot, View};
use crate::core::wire::{Message, Nonce};
use crate::core::{Core, Phase};

/// A step in which an observer at another address proves that it is there: each is taken once at a time, wherever it is
/// taken from. Nobody that bears the same run at the same address before makes it wait for long.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(in crate::core) enum MoveStep {
    /// This node asks it back.
    Question,
    /// This node asks it once more, and names members that the observer can know.
    SecondQuestion,
    /// This node opens a link to it.
    Call,
}

/// The addresses of members besides those in their records, and the questions that are asked to learn them.
#[derive(Debug)]
pub(in crate::core) struct Senders {
    aliases: BTreeMap<(Run, SocketAddr), Alias>,
    /// Limits how often members are asked whether others that bear their runs are they themselves.
    claims: PerKeyRate<Run>,
    /// Limits how often observers that say that they have moved are asked.
    moves: PerKeyRate<(Run, MoveStep)>,
}

#[derive(Debug)]
struct Alias {
    /// The record's address that this alias stands for.
    home: SocketAddr,
    proven_at: Time,
}

impl Default for Senders {
    fn default() -> Self {
        let claims = PerKeyRate::new(CLAIM_INTERVAL, MAX_CLAIMS_PER_INTERVAL);
        let moves = PerKeyRate::new(CLAIM_INTERVAL, MAX_CLAIMS_PER_INTERVAL);
        Self { aliases: BTreeMap::new(), claims, moves }
    }
}

impl Senders {
    /// Returns the number of aliases.
    pub(in crate::core) fn size(&self) -> usize {
        self.aliases.len()
    }

    /// Returns true if packets of this run from `address` are those of the member whose record has the address `home`.
    fn is_alias(&self, run: Run, address: SocketAddr, home: SocketAddr) -> bool {
        // There are nearly always none.
        !self.aliases.is_empty() && self.aliases.get(&(run, address)).is_some_and(|alias| alias.home == home)
    }

    /// Returns the runs that were heard from `address` beside their records' addresses.
    pub(in crate::core) fn runs_at(&self, address: SocketAddr) -> impl Iterator<Item = (Run, SocketAddr)> {
        let here = self.aliases.iter().filter(move |((_, at), _)| *at == address);
        here.map(|((run, _), alias)| (*run, alias.home))
    }

    /// Returns the oldest alias, of this run or of all.
    fn oldest(&self, of: Option<Run>) -> Option<(Run, SocketAddr)> {
        let such = self.aliases.iter().filter(|((run, _), _)| of.is_none_or(|of| of == *run));
        such.min_by_key(|(_, alias)| alias.proven_at).map(|(key, _)| *key)
    }

    fn add(&mut self, run: Run, address: SocketAddr, alias: Alias) {
        let of_run = self.aliases.keys().filter(|(other, _)| *other == run).count();
        let is_known = self.aliases.contains_key(&(run, address));
        let crowded = if of_run >= MAX_ALIASES_PER_RUN {
            self.oldest(Some(run))
        } else if self.aliases.len() >= MAX_ALIASES {
            self.oldest(None)
        } else {
            None
        };
        if let Some(oldest) = crowded.filter(|_| !is_known) {
            self.aliases.remove(&oldest);
        }
        self.aliases.insert((run, address), alias);
    }
}

/// Returns the nonce in a message that echoes a question of ours.
fn echo_in(message: &Message) -> Option<Nonce> {
    match message {
        Message::Ack { nonce } | Message::IAm { nonce, .. } => Some(*nonce),
        Message::WhoAreYou { echo, .. } => *echo,
        _ => None,
    }
}

impl Core {
    /// Returns the kind of a packet's sender with this run.
    pub(in crate::core) fn sender_kind(&self, run: Run, from: SocketAddr, way: Way) -> SenderKind {
        if run.is_nobody() {
            return SenderKind::Stranger;
        }
        let Some(slot) = self.view.slot_of_run(run).filter(|slot| *slot != View::ME) else {
            return SenderKind::Stranger;
        };
        let home = self.view.record(slot).address;
        let is_there = match way {
            Way::Datagrams => home == from || self.senders.is_alias(run, from, home),
            // Somebody may have recorded it, and have played it here with any address.
            Way::Unbound => false,
            Way::Link(link) => self.links.leads_to(run, link, home) || self.calls.leads_to(link, home),
        };
        if is_there { SenderKind::Member(slot) } else { SenderKind::ClaimsMember(slot) }
    }

    /// Returns true if a packet echoes a nonce that was sent to this member's address.
    pub(in crate::core) fn brings_proof(&self, slot: Slot, inbox: &Inbox) -> bool {
        let home = self.view.record(slot).address;
        inbox.messages().filter_map(echo_in).any(|nonce| self.prover.is_nonce(nonce, home, self.now))
    }

    /// Adds an address of a member: a nonce that was sent to its record's address came back from there.
    pub(in crate::core) fn add_alias(&mut self, slot: Slot, address: SocketAddr) {
        let record = self.view.record(slot);
        let (run, home) = (record.run, record.address);
        if self.senders.aliases.len() >= MAX_ALIASES {
            let view = &self.view;
            let is_held = |run: Run, home| view.slot_of_run(run).is_some_and(|slot| view.record(slot).address == home);
            self.senders.aliases.retain(|(run, _), alias| is_held(*run, alias.home));
        }
        self.senders.add(run, address, Alias { home, proven_at: self.now });
    }

    /// Forgets the aliases of a member that is silent at its record's address: proofs made through that address may be
    /// invalid now.
    pub(in crate::core) fn forget_aliases(&mut self, run: Run) {
        if !self.senders.aliases.is_empty() {
            self.senders.aliases.retain(|(other, _), _| *other != run);
        }
    }

    /// Handles a packet of another address that bears this member's run. If it is the member, it will answer from
    /// there. Its probe is acknowledged to the record's address: otherwise two members that are both at other addresses
    /// would never believe each other.
    pub(in crate::core) fn handle_claim(&mut self, slot: Slot, sender: Sender, probed: Option<Nonce>) {
        self.counters.drop(DropReason::Claimed);
        let run = self.view.record(slot).run;
        if !matches!(self.phase, Phase::Up | Phase::Leaving) || !self.senders.claims.take(self.now, run) {
            return;
        }
        self.ask_at_home(slot, sender.bytes, probed);
    }

    /// Sends a probe to a member's address, not longer than `asked` bytes if that was never proven.
    pub(in crate::core) fn ask_at_home(&mut self, slot: Slot, asked: usize, probed: Option<Nonce>) {
        let mut packet = self.packet(usize::MAX);
        if let Some(nonce) = probed {
            packet.push(&Message::Ack { nonce });
            self.acknowledge_over_greeting(slot, &[nonce]);
        }
        self.push_probe(&mut packet, slot);
        if packet.len() <= asked || self.view.entry(slot).peer.is_proven() {
            // This packet has no heartbeat, and replaces none: it was not this node's turn to send one.
            self.transmit_bytes_at_home(slot, packet.finish());
        }
    }

    /// Returns true if the member may be asked again whether another's packets are its own.
    pub(in crate::core) fn may_ask_about(&mut self, run: Run) -> bool {
        self.senders.claims.take(self.now, run)
    }

    /// Returns true if an observer that perhaps has moved is to be asked now, although its new address had its turn:
    /// another member was there a moment ago. The answer is not larger than the question, and there are few observers.
    pub(in crate::core) fn may_ask_mover(&mut self, slot: Slot, step: MoveStep) -> bool {
        let run = self.view.record(slot).run;
        self.observes(slot) && self.senders.moves.take(self.now, (run, step))
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn at(port: u16) -> SocketAddr {
        SocketAddr::from(([10, 0, 0, 1], port))
    }

    fn alias(seconds: u64) -> Alias {
        Alias { home: at(1), proven_at: Time::ORIGIN + Duration::from_secs(seconds) }
    }

    #[test]
    fn the_oldest_alias_of_a_run_gives_way_and_nobody_elses() {
        let mut senders = Senders::default();
        senders.add(Run(2), at(1_000), alias(0));
        for port in 0..=MAX_ALIASES_PER_RUN as u16 {
            senders.add(Run(1), at(2_000 + port), alias(1 + u64::from(port)));
        }
        assert!(!senders.is_alias(Run(1), at(2_000), at(1)), "the oldest");
        assert!(senders.is_alias(Run(1), at(2_001), at(1)));
        assert!(senders.is_alias(Run(2), at(1_000), at(1)));
        assert!(!senders.is_alias(Run(1), at(2_001), at(9)), "its record's address changed");
    }

    #[test]
    fn aliases_are_bounded() {
        let mut senders = Senders::default();
        for run in 0..2 * MAX_ALIASES as u64 {
            senders.add(Run(run), at(1_000), alias(run));
        }
        assert_eq!(senders.aliases.len(), MAX_ALIASES);
        assert!(senders.is_alias(Run(MAX_ALIASES as u64), at(1_000), at(1)), "the newest stay");
    }
}
