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

use rand::RngExt;
use rand::seq::IndexedRandom;

use super::Gossip;
use crate::context::Context;
use crate::counters::DropReason;
use crate::limits::{
    CATCH_UP_AFTER, CATCH_UP_RETRY, MAX_CATCH_UP_TRIES, SYNC_BACKOFF, SYNC_INTERVAL, SYNC_PACKETS, SYNC_PATIENCE,
    SYNC_QUIET, SYNC_TRIES,
};
use crate::member::{Run, Status};
use crate::packet::{Outbox, Way};
use crate::time::Time;
use crate::timers::Timer;
use crate::view::{BUCKETS, Entry, Slot, View, is_due};
use crate::wire::Message;

/// A set of buckets, one bit each.
pub(super) type Buckets = [u8; BUCKETS / 8];

/// The peer that was last seen with another view.
#[derive(Debug, Clone, Default)]
pub(super) struct FingerprintMismatch {
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

impl Gossip {
    /// Notes that this node's own view has changed.
    pub(crate) fn view_changed(&mut self, now: Time) {
        self.sync.changed_at = Some(now);
    }

    /// Compares a peer's fingerprint with ours; returns true if they differ.
    pub(crate) fn compare(&mut self, now: Time, view: &View, slot: Slot, fingerprint: u64) -> bool {
        let run = view.record(slot).run;
        let differs = fingerprint != view.fingerprint();
        match self.sync.with {
            Some((with, since)) if differs && with != run => self.sync.with = Some((run, since)),
            None if differs => self.sync.with = Some((run, now)),
            Some((with, _)) if !differs && with == run => self.sync.with = None,
            _ => {}
        }
        differs
    }

    /// Begins a sync, at a gossip tick, if the peer last seen with another view still has it.
    pub(crate) fn sync_if_needed(&mut self, out: &mut Outbox<'_>) {
        let Some((run, since)) = self.sync.with else { return };
        let Some(slot) = out.view.slot_of_run(run).filter(|slot| out.view.record(*slot).status.is_live()) else {
            self.sync.with = None;
            return;
        };
        let session = out.view.entry(slot).peer.session.as_ref();
        let ours = out.view.fingerprint();
        let Some(theirs) = session.map(|session| session.fingerprint).filter(|theirs| *theirs != ours) else {
            self.sync.with = None;
            return;
        };
        let is_quiet = is_due(out.cx.now, self.sync.changed_at, SYNC_QUIET);
        let is_late = out.cx.now.since(since) >= SYNC_PATIENCE;
        let tries = self.sync.tried.filter(|(pair, _)| *pair == (ours, theirs)).map_or(0, |(_, tries)| tries);
        let pause = if tries < SYNC_TRIES { SYNC_INTERVAL } else { SYNC_BACKOFF };
        let may_sync = is_due(out.cx.now, self.sync.last_sync, pause) && out.cx.phase.is_up();
        if !may_sync || !(is_quiet || is_late) {
            return;
        }
        // A link may be stalled without either end knowing: every other try, at random, goes as datagrams.
        let way = if self.rng.random::<bool>() { out.best_way(slot) } else { Way::Datagrams };
        if self.send_digest(out, slot, way) {
            self.sync.with = None;
            self.sync.tried = Some(((ours, theirs), tries));
        }
    }

    /// Begins a comparison of views. If the digest does not fit, the address is unproven: the packet carries the probe
    /// that proves it.
    fn send_digest(&mut self, out: &mut Outbox<'_>, slot: Slot, way: Way) -> bool {
        let mut packet = out.packet_by(way, slot);
        let fits = packet.push(&Message::Digest { buckets: out.view.digest() });
        if fits {
            self.sync.last_sync = Some(out.cx.now);
            out.cx.counters.syncs += 1;
        }
        out.send_by(way, slot, packet);
        fits
    }

    /// Plans the two comparisons of a node that is newly Up.
    pub(crate) fn start_catching_up(&mut self, cx: &mut Context) {
        self.sync.catching_up = Some(CatchingUp { up_since: cx.now, done: 0, drawn: Vec::new() });
        cx.timers.set(Timer::CatchUp, cx.now + CATCH_UP_AFTER[0]);
    }

    /// Returns true if a comparison of a node that is newly Up is still to be made.
    #[cfg(test)]
    pub(crate) fn is_catching_up(&self) -> bool {
        self.sync.catching_up.is_some()
    }

    /// Compares views with a random member, as soon as the address of one is proven.
    pub(crate) fn catch_up(&mut self, out: &mut Outbox<'_>) {
        let Some(mut catching_up) = self.sync.catching_up.take() else { return };
        if !out.cx.phase.is_up() {
            return;
        }
        catching_up.drawn.extend(out.view.live().choose(&mut self.rng).map(|slot| out.view.record(*slot).run));
        let drawn = catching_up.drawn.iter().filter_map(|run| out.view.slot_of_run(*run));
        let live: Vec<Slot> = drawn.filter(|slot| out.view.record(*slot).status.is_live()).collect();
        let proven = live.iter().copied().find(|slot| out.view.entry(*slot).peer.is_proven());
        let is_sent = proven.or(live.last().copied()).is_some_and(|slot| self.send_digest(out, slot, Way::Datagrams));
        let next = if is_sent || catching_up.drawn.len() >= MAX_CATCH_UP_TRIES {
            catching_up.done += 1;
            catching_up.drawn.clear();
            CATCH_UP_AFTER.get(catching_up.done).map(|after| catching_up.up_since + *after)
        } else {
            Some(out.cx.now + CATCH_UP_RETRY)
        };
        if let Some(next) = next {
            self.sync.catching_up = Some(catching_up);
            out.cx.timers.set(Timer::CatchUp, next.max(out.cx.now + CATCH_UP_RETRY));
        }
    }

    /// Handles a peer's digest: asks for the buckets that differ, and sends our records of them.
    pub(crate) fn on_digest(out: &mut Outbox<'_>, slot: Slot, theirs: &[u8], way: Way) {
        let ours = out.view.digest();
        let mut differing: Buckets = [0; BUCKETS / 8];
        for (bucket, (our, their)) in ours.chunks_exact(4).zip(theirs.chunks_exact(4)).enumerate() {
            if our != their {
                differing[bucket / 8] |= 1 << (bucket % 8);
            }
        }
        if differing.iter().any(|bits| *bits != 0) {
            send_buckets(out, slot, &differing, true, way);
        }
    }

    /// Handles the peer's answer to our digest: sends the records that it wants.
    pub(crate) fn on_want(&mut self, out: &mut Outbox<'_>, slot: Slot, buckets: &Buckets, way: Way) {
        if let Some(((ours, _), tries)) = &mut self.sync.tried
            && *ours == out.view.fingerprint()
        {
            *tries = tries.saturating_add(1);
        }
        send_buckets(out, slot, buckets, false, way);
    }
}

/// Sends our records of these buckets; the first packet asks for theirs.
fn send_buckets(out: &mut Outbox<'_>, slot: Slot, buckets: &Buckets, and_want: bool, way: Way) {
    if !out.view.entry(slot).peer.is_proven() || out.cx.phase.is_joining() {
        let packet = out.packet_to(slot);
        return out.send_to(slot, packet);
    }
    // The members are looked at for those alone that are answered.
    let run = out.view.record(slot).run;
    if !out.take_page(run) {
        return out.cx.counters.drop(DropReason::RateLimited);
    }
    let wanted = |hash: u64| {
        let bucket = hash as usize % BUCKETS;
        buckets[bucket / 8] & (1 << (bucket % 8)) != 0
    };
    // Bucket by bucket, so that whole buckets are left out if not all fit; they will differ next time, too.
    let is_meant = |entry: &Entry| wanted(entry.name_hash) && entry.record.status != Status::Joining;
    let meant = out.view.iter().filter(|(_, entry)| is_meant(entry));
    let mut records: Vec<_> = meant.map(|(slot, entry)| (entry.name_hash as usize % BUCKETS, slot)).collect();
    records.sort_unstable();
    let mut records = records.into_iter().map(|(_, slot)| slot).peekable();
    for number in 0..SYNC_PACKETS {
        let is_first = number == 0 && and_want;
        let is_over = records.peek().is_none();
        if (is_over && !is_first) || (number > 0 && !out.take_page(run)) {
            break;
        }
        let mut packet = out.packet_by(way, slot);
        packet.push(&Message::Reply);
        if is_first {
            packet.push(&Message::Want { buckets: *buckets });
        }
        while let Some(record) = records.peek().copied()
            && out.push_news(&mut packet, record)
        {
            records.next();
        }
        out.send_by(way, slot, packet);
    }
}
