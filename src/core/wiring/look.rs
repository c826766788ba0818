//! Looks at the core: what drivers and tests may ask it. Nothing here changes anything.
//!
//! Must not know: why somebody asks.

use std::sync::Arc;
use std::time::Duration;

use crate::Core;
use crate::counters::Counters;
use crate::member::{DetectionMethod, NodeId, Record, Run, Status};
use crate::time::Time;
use crate::view::View;

impl Core {
    /// Returns the number of members of a suspected partition that are missing; 0 if none is suspected.
    pub fn unreachable(&self) -> usize {
        self.partition.missing()
    }

    /// Returns the number of links to observed members that are bad now: others hear those members and this node does
    /// not, or no datagram passes while TCP does.
    pub fn degraded_links(&self) -> usize {
        self.detector.degraded_links(self.paths.fallbacks.certain())
    }

    /// Returns true if there were no other members when this node became Up: nobody knew more than it.
    pub fn has_begun_alone(&self) -> bool {
        self.arrivals.was_alone()
    }

    /// Returns this node's own record.
    pub fn me(&self) -> &Arc<Record> {
        self.view.record(View::ME)
    }

    /// Returns the greatest size of a packet in a datagram.
    pub fn datagram_bytes(&self) -> usize {
        self.packets.seal.datagram_bytes(&self.cx.settings)
    }

    /// Returns true if this node is a full member: it holds a whole view and said so.
    pub fn is_up(&self) -> bool {
        self.cx.phase.is_up()
    }

    /// Returns true if a member, of any status, has this run.
    pub fn knows(&self, run: Run) -> bool {
        self.view.slot_of_run(run).is_some()
    }

    /// Returns true if this node is reached at the address that it advertises, as far as it knows: no, if a member said
    /// so and none has shown since that it receives what this node sends.
    pub fn is_reachable(&self) -> bool {
        self.me.unreached_at != Some(self.me().address)
    }

    /// Returns the order-independent sum of the hashes of all records in the view.
    pub fn fingerprint(&self) -> u64 {
        self.view.fingerprint()
    }

    /// Returns the local count of changes of the view.
    pub fn changes(&self) -> u64 {
        self.view.changes()
    }

    /// Returns the number of members by status, in the order of [`Status::NAMES`]; joiners held beside the view are
    /// counted as joining.
    pub fn counts(&self) -> [usize; Status::NAMES.len()] {
        let mut counts = self.view.counts();
        counts[Status::Joining.index()] += self.sponsor.joiners.listed();
        counts
    }

    /// Returns all records of the view in the order of names, this node's included, with the method by which a Suspect
    /// or Down one was found out.
    pub fn records(&self) -> impl Iterator<Item = (&Arc<Record>, Option<DetectionMethod>)> {
        self.view.iter().map(|(_, entry)| {
            let is_shown = matches!(entry.record.status, Status::Suspect | Status::Down);
            (&entry.record, entry.peer.method.filter(|_| is_shown))
        })
    }

    /// Returns one member's record.
    pub fn record(&self, id: &NodeId) -> Option<&Arc<Record>> {
        self.view.slot_of(id.as_str()).map(|slot| self.view.record(slot))
    }

    /// Returns the time for which a member has been gone, if it is held as Down or Left: since its last sign of life if
    /// it is Down, since its departure if it left. The age travels with the record, so whoever learns of an old death,
    /// by the transfer of the view or by sync, learns how old it is. Whoever is polling gets the age as of the last
    /// [`Core::handle`], that is at the time of the change that is being polled.
    pub fn gone_for(&self, id: &NodeId) -> Option<Duration> {
        let entry = self.view.entry(self.view.slot_of(id.as_str())?);
        matches!(entry.status, Status::Down | Status::Left(_)).then(|| self.cx.now.since(entry.peer.last_sign()))
    }

    /// Returns the smoothed round trip time to a member, if it was ever measured.
    pub fn rtt(&self, id: &NodeId) -> Option<Duration> {
        self.view.slot_of(id.as_str()).and_then(|slot| self.view.entry(slot).peer.rtt())
    }

    /// Returns the time at which this node itself last heard a member.
    pub fn last_heard(&self, id: &NodeId) -> Option<Time> {
        let slot = self.view.slot_of(id.as_str())?;
        self.view.entry(slot).peer.session.as_ref().map(|session| session.heard)
    }

    /// Returns the points of evidence against this node's own observation: 0 for none, up to
    /// [`MAX_SELF_DOUBT`](crate::limits::MAX_SELF_DOUBT). One more than that is the factor by which it stretches the timeouts by
    /// which it accuses others.
    pub fn health_score(&self) -> u32 {
        self.health.score()
    }

    /// Returns true if this node observes a member.
    pub fn is_observed(&self, id: &NodeId) -> bool {
        self.view.slot_of(id.as_str()).is_some_and(|slot| self.observers.observes(slot))
    }

    /// Returns the time of the last sign of life of the live member that has been silent for longest, of those that
    /// this node observes; `None` if it observes none.
    pub fn oldest_sign(&self) -> Option<Time> {
        let live = self.observers.neighbours().map(|slot| self.view.entry(slot)).filter(|entry| entry.status.is_live());
        live.map(|entry| entry.peer.last_sign()).min()
    }

    /// Returns the fingerprint of a member's view in the last packet that it sent to this node.
    pub fn fingerprint_of(&self, id: &NodeId) -> Option<u64> {
        let slot = self.view.slot_of(id.as_str())?;
        self.view.entry(slot).peer.session.as_ref().map(|session| session.fingerprint)
    }

    /// Returns what was counted.
    pub fn counters(&self) -> &Counters {
        &self.cx.counters
    }
}
