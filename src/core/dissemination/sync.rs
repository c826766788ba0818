//! Sync (anti-entropy): updates that flooding and gossip missed are noticed by fingerprints that stay different.
//!
//! A sync begins when a live peer's fingerprint still differs at a gossip tick, and the view stood still for
//! [`SYNC_QUIET`] or has differed for [`SYNC_PATIENCE`]. The two compare the hashes of 256 buckets of names and
//! exchange only the records of buckets that differ, so that the cost follows the difference and not N (anti-entropy by
//! a hash tree of one level: Merkle trees in Dynamo, SOSP 2007, section 4.7):
//!
//! ```text
//! A ─ Digest{256 hashes} ─▶ B       B ─ Want{buckets that differ}, B's records of those ─▶ A
//!                                   A ─ A's records of those ─▶ B
//! ```
//!
//! It goes over the link between the two, in large frames, or as datagrams. Records of more buckets than fit into
//! [`SYNC_PACKETS`] wait for the next round; lost packets leave the fingerprints different, and so cause the next
//! round. Updates learnt that way spread like any others.
//!
//! Invariants: a round sends at most [`SYNC_PACKETS`] datagrams, or frames on a link, and only records that may differ.
//!
//! Must not know: which of two records counts.

use crate::counters::DropReason;
use crate::packet::Way;
use rand::RngExt;
use rand::seq::IndexedRandom;

use crate::Core;
use crate::limits::{
    CATCH_UP_AFTER, CATCH_UP_RETRY, MAX_CATCH_UP_TRIES, SYNC_BACKOFF, SYNC_INTERVAL, SYNC_PACKETS, SYNC_PATIENCE,
    SYNC_QUIET, SYNC_TRIES,
};
use crate::member::{Run, Status};
use crate::time::Time;
use crate::timers::Timer;
use crate::view::{BUCKETS, Entry, Slot, is_due};
use crate::wire::Message;

/// A set of buckets, one bit each.
pub(super) type Buckets = [u8; BUCKETS / 8];

/// The peer that was last seen with another view.
#[derive(Debug, Clone, Default)]
pub(crate) struct FingerprintMismatch {
    with: Option<(Run, Time)>,
    /// The time at which this node's own view last changed.
    changed_at: Option<Time>,
    last_sync: Option<Time>,
    /// Our and their fingerprint at the last sync, and the number of times that records were exchanged with just these:
    /// after a few times the difference is one that merging does not end (for example a record that one side has
    /// reaped).
    tried: Option<((u64, u64), u32)>,
    /// The comparisons of a node that is newly Up.
    catching_up: Option<CatchingUp>,
}

impl FingerprintMismatch {
    /// Notes that this node's own view has changed.
    pub(crate) fn view_changed(&mut self, now: Time) {
        self.changed_at = Some(now);
    }
}

/// The comparisons of views by a node that is newly Up. A view that was served while others were joining lacks those,
/// so the node compares its view with a random member's, twice, without waiting to see a difference.
#[derive(Debug, Clone)]
struct CatchingUp {
    up_since: Time,
    /// The number of comparisons done.
    done: usize,
    /// Members drawn for the next comparison: the first one whose address is proven is taken.
    drawn: Vec<Run>,
}

impl Core {
    /// Compares a peer's fingerprint with ours; returns true if they differ.
    pub(crate) fn compare(&mut self, slot: Slot, fingerprint: u64) -> bool {
        let run = self.view.record(slot).run;
        let differs = fingerprint != self.view.fingerprint();
        match self.fingerprint_mismatch.with {
            Some((with, since)) if differs && with != run => self.fingerprint_mismatch.with = Some((run, since)),
            None if differs => self.fingerprint_mismatch.with = Some((run, self.cx.now)),
            Some((with, _)) if !differs && with == run => self.fingerprint_mismatch.with = None,
            _ => {}
        }
        differs
    }

    /// Begins a sync, at a gossip tick, if the peer last seen with another view still has it.
    pub(crate) fn sync_if_needed(&mut self) {
        let Some((run, since)) = self.fingerprint_mismatch.with else { return };
        let Some(slot) = self.view.slot_of_run(run).filter(|slot| self.view.record(*slot).status.is_live()) else {
            self.fingerprint_mismatch.with = None;
            return;
        };
        let session = self.view.entry(slot).peer.session.as_ref();
        let ours = self.view.fingerprint();
        let Some(theirs) = session.map(|session| session.fingerprint).filter(|theirs| *theirs != ours) else {
            self.fingerprint_mismatch.with = None;
            return;
        };
        let is_quiet = is_due(self.cx.now, self.fingerprint_mismatch.changed_at, SYNC_QUIET);
        let is_late = self.cx.now.since(since) >= SYNC_PATIENCE;
        let tries =
            self.fingerprint_mismatch.tried.filter(|(pair, _)| *pair == (ours, theirs)).map_or(0, |(_, tries)| tries);
        let pause = if tries < SYNC_TRIES { SYNC_INTERVAL } else { SYNC_BACKOFF };
        let may_sync = is_due(self.cx.now, self.fingerprint_mismatch.last_sync, pause) && self.cx.phase.is_up();
        if !may_sync || !(is_quiet || is_late) {
            return;
        }
        // A link may be stalled without either end knowing: every other try, at random, goes as datagrams.
        let way = if self.random.gossip.random::<bool>() { self.out().best_way(slot) } else { Way::Datagrams };
        if self.send_digest(slot, way) {
            self.fingerprint_mismatch.with = None;
            self.fingerprint_mismatch.tried = Some(((ours, theirs), tries));
        }
    }

    /// Begins a comparison of views. If the digest does not fit, the address is unproven: the packet carries the probe
    /// that proves it.
    fn send_digest(&mut self, slot: Slot, way: Way) -> bool {
        let mut packet = self.out().packet_by(way, slot);
        let fits = packet.push(&Message::Digest { buckets: self.view.digest() });
        if fits {
            self.fingerprint_mismatch.last_sync = Some(self.cx.now);
            self.cx.counters.syncs += 1;
        }
        self.out().send_by(way, slot, packet);
        fits
    }

    /// Plans the two comparisons of a node that is newly Up.
    pub(crate) fn start_catching_up(&mut self) {
        self.fingerprint_mismatch.catching_up = Some(CatchingUp { up_since: self.cx.now, done: 0, drawn: Vec::new() });
        self.cx.timers.set(Timer::CatchUp, self.cx.now + CATCH_UP_AFTER[0]);
    }

    /// Returns true if a comparison of a node that is newly Up is still to be made.
    #[cfg(test)]
    pub(crate) fn is_catching_up(&self) -> bool {
        self.fingerprint_mismatch.catching_up.is_some()
    }

    /// Compares views with a random member, as soon as the address of one is proven.
    pub(crate) fn catch_up(&mut self) {
        let Some(mut catching_up) = self.fingerprint_mismatch.catching_up.take() else { return };
        if !self.cx.phase.is_up() {
            return;
        }
        catching_up
            .drawn
            .extend(self.view.live().choose(&mut self.random.gossip).map(|slot| self.view.record(*slot).run));
        let drawn = catching_up.drawn.iter().filter_map(|run| self.view.slot_of_run(*run));
        let live: Vec<Slot> = drawn.filter(|slot| self.view.record(*slot).status.is_live()).collect();
        let proven = live.iter().copied().find(|slot| self.view.entry(*slot).peer.is_proven());
        let is_sent = proven.or(live.last().copied()).is_some_and(|slot| self.send_digest(slot, Way::Datagrams));
        let next = if is_sent || catching_up.drawn.len() >= MAX_CATCH_UP_TRIES {
            catching_up.done += 1;
            catching_up.drawn.clear();
            CATCH_UP_AFTER.get(catching_up.done).map(|after| catching_up.up_since + *after)
        } else {
            Some(self.cx.now + CATCH_UP_RETRY)
        };
        if let Some(next) = next {
            self.fingerprint_mismatch.catching_up = Some(catching_up);
            self.cx.timers.set(Timer::CatchUp, next.max(self.cx.now + CATCH_UP_RETRY));
        }
    }

    /// Handles a peer's digest: asks for the buckets that differ, and sends our records of them.
    pub(crate) fn on_digest(&mut self, slot: Slot, theirs: &[u8], way: Way) {
        let ours = self.view.digest();
        let mut differing: Buckets = [0; BUCKETS / 8];
        for (bucket, (our, their)) in ours.chunks_exact(4).zip(theirs.chunks_exact(4)).enumerate() {
            if our != their {
                differing[bucket / 8] |= 1 << (bucket % 8);
            }
        }
        if differing.iter().any(|bits| *bits != 0) {
            self.send_buckets(slot, &differing, true, way);
        }
    }

    /// Handles the peer's answer to our digest: sends the records that it wants.
    pub(crate) fn on_want(&mut self, slot: Slot, buckets: &Buckets, way: Way) {
        if let Some(((ours, _), tries)) = &mut self.fingerprint_mismatch.tried
            && *ours == self.view.fingerprint()
        {
            *tries = tries.saturating_add(1);
        }
        self.send_buckets(slot, buckets, false, way);
    }

    /// Sends our records of these buckets; the first packet asks for theirs.
    fn send_buckets(&mut self, slot: Slot, buckets: &Buckets, and_want: bool, way: Way) {
        if !self.view.entry(slot).peer.is_proven() || self.cx.phase.is_joining() {
            let packet = self.out().packet_to(slot);
            return self.out().send_to(slot, packet);
        }
        // The members are looked at for those alone that are answered.
        let run = self.view.record(slot).run;
        if !self.take_page(run) {
            return self.cx.counters.drop(DropReason::RateLimited);
        }
        let wanted = |hash: u64| {
            let bucket = hash as usize % BUCKETS;
            buckets[bucket / 8] & (1 << (bucket % 8)) != 0
        };
        // Bucket by bucket, so that whole buckets are left out if not all fit; they will differ next time, too.
        let is_meant = |entry: &Entry| wanted(entry.name_hash) && entry.record.status != Status::Joining;
        let meant = self.view.iter().filter(|(_, entry)| is_meant(entry));
        let mut records: Vec<_> = meant.map(|(slot, entry)| (entry.name_hash as usize % BUCKETS, slot)).collect();
        records.sort_unstable();
        let mut records = records.into_iter().map(|(_, slot)| slot).peekable();
        for number in 0..SYNC_PACKETS {
            let is_first = number == 0 && and_want;
            let is_over = records.peek().is_none();
            if (is_over && !is_first) || (number > 0 && !self.take_page(run)) {
                break;
            }
            let mut packet = self.out().packet_by(way, slot);
            packet.push(&Message::Reply);
            if is_first {
                packet.push(&Message::Want { buckets: *buckets });
            }
            while let Some(record) = records.peek().copied()
                && self.out().push_news(&mut packet, record)
            {
                records.next();
            }
            self.out().send_by(way, slot, packet);
        }
    }
}
