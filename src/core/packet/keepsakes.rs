//! Keepsakes: the proof of a member that it is at another address by now.
//!
//! A run is a name that every member knows (see `senders`), and silence proves nothing: a member that stands still for
//! a moment answers no question. So each member gives each of its observers a secret, once, at its proven address. An
//! observer that is elsewhere proves that it holds the secret, without showing it:
//!
//! ```text
//! X ─ Probe ─▶ P      P ─ Ack, Keepsake(k) ─▶ X         (k: a keyed hash of X's run and address)
//! X is at another address by now, and asks P for its record:
//! X ─ WhoAreYou ─▶ P  P ─ WhoAreYou(n) ─▶ X  X ─ Reminder(r), IAm(n) ─▶ P (r: a hash of k, X's new address and n)
//! ```
//!
//! P keeps no state: the keepsake must be for the address at which P holds X. The move is believed at once, and X is
//! given the next keepsake. Every observer of X asks for itself; the others believe two members (see `membership::belief`).
//!
//! P may have moved, too: then X hears of P's new address from others, and asks there. Each of the two proves its move
//! to the other by the keepsake that it holds of that run, whose owner alone can check it. Nobody else is helped by the
//! proof: it is for one question of the asker, and for the address where X is.
//!
//! Without a keepsake (X or P lost it) a run counts as moved when this node holds it as gone at its old address, and is
//! then a *stray*: it is treated like a member that has just joined, and is given no keepsake, until it has been there
//! for long. The keepsake given to the run at its old address counts from there for as long as a stray is held: the
//! run's owner takes it back.
//!
//! Invariants:
//! - A keepsake goes to the held address of its run, which must be proven, and nowhere else: never back.
//! - A proof of it goes to the address that it came from; and to whoever bears the run that gave it, if this node has
//!   moved since. If several runs gave one from the same address, one after the other, the last one's is proven to an
//!   asker there that does not say who it is.
//! - A process that was given a keepsake while it impersonated a run has none that is valid when the owner is back.
//! - At most [`MAX_KEEPSAKES`] are held; those of members that are no longer observers are dropped first.
//! - A keepsake is asked for beside packets that are sent anyway, [`MAX_KEEPSAKE_QUESTIONS`] times at most.
//!
//! Must not know: the consequences of a move (see `membership::merge`).

use std::collections::BTreeMap;
use std::net::SocketAddr;

use super::proof::Prover;
use crate::core::Core;
use crate::core::limits::{KEEPSAKE_INTERVAL, MAX_KEEPSAKE_QUESTIONS, MAX_KEEPSAKES};
use crate::core::member::Run;
use crate::core::time::Time;
use crate::core::view::{AddressOrigin, Slot, is_due};
use crate::core::wire::{Message, Nonce, PacketBuilder};

/// The keepsakes that others gave to this node, by their runs.
#[derive(Debug, Default)]
pub(in crate::core) struct Keepsakes {
    held: BTreeMap<Run, Kept>,
}

/// The keepsake that one member gave, or was asked for.
#[derive(Debug, Default)]
struct Kept {
    given: Option<Nonce>,
    /// The address of the member that gave it, unless another member is there now.
    from: Option<SocketAddr>,
    /// The number of times that it was asked for.
    asked: u8,
    asked_at: Option<Time>,
    /// True if the keepsake is for this node's old address: it serves to move from there, and another one is asked for.
    is_outlived: bool,
}

impl Keepsakes {
    /// Returns the number of entries.
    pub(in crate::core) fn size(&self) -> usize {
        self.held.len()
    }

    /// Forgets a run that is gone.
    pub(in crate::core) fn forget(&mut self, run: Run) {
        self.held.remove(&run);
    }

    /// Notes that a run is believed to be at another address: its keepsake counts there.
    pub(in crate::core) fn moved(&mut self, run: Run, to: SocketAddr) {
        if let Some(keepsake) = self.held.get(&run).and_then(|kept| kept.given) {
            self.give(run, keepsake, to);
        }
    }

    /// Notes the keepsake of a run at this address, if it was asked for it. A run that gave one from there before is
    /// gone from there.
    fn give(&mut self, run: Run, keepsake: Nonce, from: SocketAddr) {
        if !self.held.contains_key(&run) {
            return;
        }
        for (other, kept) in &mut self.held {
            if *other == run {
                // A keepsake that is given again is for the same address.
                kept.is_outlived &= kept.given == Some(keepsake);
                (kept.given, kept.from) = (Some(keepsake), Some(from));
            } else if kept.from == Some(from) {
                kept.from = None;
            }
        }
    }

    /// Notes that this node is at another address: it needs other keepsakes, once that is known.
    pub(in crate::core) fn outlived(&mut self) {
        for kept in self.held.values_mut() {
            (kept.is_outlived, kept.asked) = (true, 0);
        }
    }

    /// Returns true if the keepsake of a run is for where this node was before.
    pub(in crate::core) fn is_outlived(&self, run: Run) -> bool {
        self.held.get(&run).is_some_and(|kept| kept.is_outlived)
    }

    /// Returns the keepsake that was given from this address.
    fn from(&self, address: SocketAddr) -> Option<Nonce> {
        self.held.values().find(|kept| kept.from == Some(address))?.given
    }

    /// Returns the keepsake of a run to which this node has to prove a move, wherever the run is now.
    fn outlived_of(&self, run: Run) -> Option<Nonce> {
        self.held.get(&run).filter(|kept| kept.is_outlived)?.given
    }

    /// Returns true if this run's keepsake may be held; those of members that are no longer observers make room.
    fn has_room_for(&mut self, run: Run, is_observer: impl Fn(&Run) -> bool) -> bool {
        if self.held.len() >= MAX_KEEPSAKES && !self.held.contains_key(&run) {
            self.held.retain(|run, _| is_observer(run));
        }
        self.held.len() < MAX_KEEPSAKES || self.held.contains_key(&run)
    }

    /// Returns true if this run is to be asked now, and counts the question.
    fn asks(&mut self, now: Time, run: Run) -> bool {
        let kept = self.held.entry(run).or_default();
        let asks = (kept.given.is_none() || kept.is_outlived)
            && kept.asked < MAX_KEEPSAKE_QUESTIONS
            && is_due(now, kept.asked_at, KEEPSAKE_INTERVAL);
        if asks {
            (kept.asked, kept.asked_at) = (kept.asked + 1, Some(now));
        }
        asks
    }
}

impl Core {
    /// Asks an observer for its keepsake, beside the packet at hand, if it has given none.
    pub(super) fn ask_for_keepsake(&mut self, packet: &mut PacketBuilder, slot: Slot) {
        let run = self.view.record(slot).run;
        if !self.observes(slot) {
            return;
        }
        let (view, observers) = (&self.view, &self.observers);
        let is_observer = |run: &Run| view.slot_of_run(*run).is_some_and(|slot| observers.holds(slot));
        if self.keepsakes.has_room_for(run, is_observer) && self.keepsakes.asks(self.now, run) {
            self.push_probe(packet, slot);
        }
    }

    /// Gives a member the keepsake to prove a move by, beside an answer to its record's address.
    pub(in crate::core) fn give_keepsake(&self, packet: &mut PacketBuilder, slot: Slot) {
        let entry = self.view.entry(slot);
        if entry.peer.is_proven() && self.observes(slot) && !self.is_unproven_here(slot) {
            packet.push(&Message::Keepsake { keepsake: self.prover.keepsake(entry.record.run, entry.record.address) });
        }
    }

    /// Notes the keepsake that a member was asked for.
    pub(in crate::core) fn given_keepsake(&mut self, slot: Slot, keepsake: Nonce) {
        let record = self.view.record(slot);
        self.keepsakes.give(record.run, keepsake, record.address);
    }

    /// Puts the proof that this node is the one that was given a keepsake, by the run that asks or from where it asks,
    /// into the answer to its question.
    pub(in crate::core) fn push_reminder(
        &self,
        packet: &mut PacketBuilder,
        asker: Run,
        from: SocketAddr,
        question: Nonce,
    ) {
        if let Some(keepsake) = self.keepsakes.outlived_of(asker).or_else(|| self.keepsakes.from(from)) {
            packet.push(&Message::Reminder { proof: Prover::reminder(keepsake, self.me().address, question) });
        }
    }

    /// Returns true if a run that introduces itself by this record, and answers this question, has just proven that it
    /// holds the keepsake that this node gave to it at its held address; or, if a stray is held, the one it was given
    /// before, from its old address.
    pub(in crate::core) fn is_reminded(
        &self,
        run: Run,
        from: SocketAddr,
        proof: Nonce,
        at: SocketAddr,
        question: Nonce,
    ) -> bool {
        let Some(slot) = self.view.slot_of_run(run) else { return false };
        let entry = self.view.entry(slot);
        let may_return = entry.peer.address_origin == AddressOrigin::Unproven || self.is_unproven_here(slot);
        let is_for = |address| Prover::reminder(self.prover.keepsake(run, address), at, question) == proof;
        let is_for_home = self.homes.of(run).is_some_and(is_for);
        is_for(entry.record.address) || is_for_home || (may_return && is_for(from))
    }

    /// Returns true if a member came to its address a short while ago, and did not prove to this node that it did.
    pub(in crate::core) fn is_unproven_here(&self, slot: Slot) -> bool {
        self.view.entry(slot).peer.address_origin != AddressOrigin::Proven && !self.is_known_for_long(slot)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_observer_is_asked_for_its_keepsake_a_few_times_and_no_more() {
        let mut keepsakes = Keepsakes::default();
        let mut now = Time::ORIGIN;
        for _ in 0..MAX_KEEPSAKE_QUESTIONS {
            assert!(keepsakes.asks(now, Run(1)));
            assert!(!keepsakes.asks(now, Run(1)), "at once");
            now = now + KEEPSAKE_INTERVAL;
        }
        assert!(!keepsakes.asks(now, Run(1)));
        assert!(keepsakes.asks(now, Run(2)));
    }

    #[test]
    fn so_many_keepsakes_are_held_and_those_of_no_observers_give_way() {
        let mut keepsakes = Keepsakes::default();
        let most = MAX_KEEPSAKES as u64;
        for run in 0..most {
            assert!(keepsakes.has_room_for(Run(run), |_| true) && keepsakes.asks(Time::ORIGIN, Run(run)));
        }
        assert!(!keepsakes.has_room_for(Run(most), |_| true));
        assert!(keepsakes.has_room_for(Run(0), |_| true), "it is held already");
        assert!(keepsakes.has_room_for(Run(most), |run| *run != Run(3)));
        assert_eq!(keepsakes.size(), MAX_KEEPSAKES - 1);
    }

    #[test]
    fn a_keepsake_is_proven_where_it_came_from_and_nowhere_else() {
        let mut keepsakes = Keepsakes::default();
        let at = |port: u16| SocketAddr::from(([10, 0, 0, 1], port));
        let kept = Kept { given: Some(Nonce(7)), from: Some(at(1)), asked: 1, ..Kept::default() };
        keepsakes.held.insert(Run(1), kept);
        keepsakes.held.insert(Run(2), Kept { asked: 1, ..Kept::default() });
        assert_eq!((keepsakes.from(at(1)), keepsakes.from(at(2))), (Some(Nonce(7)), None));
        assert!(!keepsakes.asks(Time::ORIGIN + KEEPSAKE_INTERVAL, Run(1)), "it has given one");
        keepsakes.forget(Run(1));
        assert_eq!(keepsakes.from(at(1)), None);
    }

    #[test]
    fn the_last_run_at_an_address_gave_what_goes_back_there() {
        let mut keepsakes = Keepsakes::default();
        let at = |port: u16| SocketAddr::from(([10, 0, 0, 1], port));
        for run in [2, 1, 3] {
            assert!(keepsakes.asks(Time::ORIGIN, Run(run)));
            keepsakes.give(Run(run), Nonce(run), at(1));
            assert_eq!(keepsakes.from(at(1)), Some(Nonce(run)));
        }
        keepsakes.give(Run(9), Nonce(9), at(1));
        assert_eq!(keepsakes.from(at(1)), Some(Nonce(3)), "it was not asked");
    }

    #[test]
    fn whoever_has_moved_proves_it_to_the_runs_that_gave_keepsakes_wherever_they_are() {
        let mut keepsakes = Keepsakes::default();
        let at = |port: u16| SocketAddr::from(([10, 0, 0, 1], port));
        for run in [1, 2] {
            assert!(keepsakes.asks(Time::ORIGIN, Run(run)));
            keepsakes.give(Run(run), Nonce(run), at(1));
        }
        let outlived = |keepsakes: &Keepsakes| [1, 2].map(|run| keepsakes.outlived_of(Run(run)));
        assert_eq!(outlived(&keepsakes), [None; 2], "it has not moved");
        keepsakes.outlived();
        assert_eq!(outlived(&keepsakes), [Some(Nonce(1)), Some(Nonce(2))], "another one is where the first was");
        keepsakes.give(Run(1), Nonce(8), at(3));
        assert_eq!(outlived(&keepsakes), [None, Some(Nonce(2))], "it knows of the move");
    }

    #[test]
    fn whoever_moves_asks_for_another_keepsake_until_it_is_another_one() {
        let mut keepsakes = Keepsakes::default();
        let (from, mut now) = (SocketAddr::from(([10, 0, 0, 1], 1)), Time::ORIGIN);
        assert!(keepsakes.asks(now, Run(1)));
        keepsakes.give(Run(1), Nonce(7), from);
        keepsakes.outlived();
        for keepsake in [7, 7, 8] {
            now = now + KEEPSAKE_INTERVAL;
            assert!(keepsakes.asks(now, Run(1)));
            keepsakes.give(Run(1), Nonce(keepsake), from);
        }
        assert!(!keepsakes.asks(now + KEEPSAKE_INTERVAL, Run(1)));
    }
}
