//! News about leases in a database: sent by one agent to all others, and passed on once.
//!
//! An update is sent to every member, or along the rings, like an update of a record; a node that receives it for the
//! first time gives it to its driver and passes it on. A node that missed one finds the same in the database a moment
//! after, so successions are quick by these updates and do not depend on them. Leaders repeat theirs, which shows that
//! all ask the same database; a repetition is a new update, by its nonce.
//!
//! **Newcomers** know no term, and a database that was emptied knows none either. So every member keeps the highest terms
//! that it hears of, also one that never leads by a lease: the contenders may all have lost their disks. Whoever brings a
//! node in tells it these terms, with the first page of the view and once more when the newcomer is Up; updates of
//! others that come before that are not heard. These go no further.
//!
//! **Updates count that come from members of some standing** (see `membership::arrivals`, which knows them), and from
//! members that are back at their address. Otherwise a member that is restarted by itself on another database would not be
//! believed for a minute, in which two lead. An update of a newcomer is handed over as such, so that it can be reported,
//! and deposes nobody. A newcomer that asks for a resignation is told that it is not believed.
//!
//! Invariants: an update is not passed on again while [`MAX_LEASE_UPDATES`] later ones are remembered, so that none
//! travels in circles; at most [`LEASE_UPDATES_PER_SECOND`] of those are accepted, however many a member sends, and
//! [`NEWCOMERS_LEASE_UPDATES_PER_SECOND`] of newcomers besides. An update of a newcomer is accepted and not passed on: passed
//! on, it would count as that of the member that did.
//!
//! Must not know: the meaning of an update, the leases that there are, or whose updates count and why.

use std::collections::{BTreeMap, VecDeque};
use std::net::SocketAddr;
use std::time::Duration;

use crate::context::Context;
use crate::counters::DropReason;
use crate::io::{Output, Receiver};
use crate::limits::{LEASE_UPDATES_PER_SECOND, MAX_LEASE_TERMS, MAX_LEASE_UPDATES, NEWCOMERS_LEASE_UPDATES_PER_SECOND};
use crate::member::{NodeId, Run};
use crate::packet::Outbox;
use crate::recent::PerInterval;
use crate::time::Time;
use crate::view::{Slot, View};
use crate::wire::{LeaseUpdate, Message, PacketBuilder};

const SECOND: Duration = Duration::from_secs(1);

/// The updates that were received last, and the number of those received lately.
#[derive(Debug, Clone, Default)]
pub(crate) struct LeaseUpdates {
    /// The updates, the oldest first.
    heard: VecDeque<LeaseUpdate>,
    /// The updates in this second of members that are believed.
    believed: PerInterval,
    /// Those of newcomers.
    of_newcomers: PerInterval,
    /// The highest terms of leases, of which this node's own agent or another member told. At most [`MAX_LEASE_TERMS`].
    terms: BTreeMap<NodeId, u64>,
}

impl LeaseUpdates {
    /// Handles an update that a member sent, or passed on; returns true if it is to be passed on.
    pub(crate) fn on_update(
        &mut self,
        out: &mut Outbox<'_>,
        from: Slot,
        update: &LeaseUpdate,
        is_believed: bool,
    ) -> bool {
        if !self.take_new(out.cx, update, is_believed) {
            return false;
        }
        out.cx.output(Output::LeaseUpdate { update: update.clone(), is_believed });
        if is_believed {
            self.note_if_newer(update);
            if update.is_about_terms() {
                self.keep_term(update.lease.clone(), update.term);
            }
        } else if update.kind == LeaseUpdate::RESIGN {
            let node = out.view.record(View::ME).id.clone();
            let mut packet = out.packet_to(from);
            packet.push(&message(LeaseUpdate { node, kind: LeaseUpdate::DECLINED, ..update.clone() }));
            out.send_to(from, packet);
        }
        is_believed && update.is_for_all()
    }

    /// Handles an update of the sponsor, before this node is Up. Whoever gives it the members may give it the terms.
    pub(crate) fn on_update_of_sponsor(&mut self, cx: &mut Context, update: &LeaseUpdate) {
        if update.kind == LeaseUpdate::TAUGHT && self.take_new(cx, update, true) {
            self.note_if_newer(update);
            cx.output(Output::LeaseUpdate { update: update.clone(), is_believed: true });
        }
    }

    /// Sends an update to each of these members.
    pub(crate) fn pass_on(out: &mut Outbox<'_>, update: LeaseUpdate, targets: impl Iterator<Item = Slot>) {
        let message = message(update);
        for target in targets {
            let mut packet = out.packet_to(target);
            packet.push(&message);
            out.send_to(target, packet);
        }
    }

    /// Tells a node that this one brings in the highest terms of all leases, as far as packets of records may be sent.
    pub(crate) fn teach(&self, out: &mut Outbox<'_>, to: SocketAddr, run: Run) {
        let node = out.view.record(View::ME).id.clone();
        let mut open: Option<PacketBuilder> = None;
        for (lease, term) in &self.terms {
            let (lease, node, kind) = (lease.clone(), node.clone(), LeaseUpdate::TAUGHT);
            let message = message(LeaseUpdate { lease, node, term: *term, kind, nonce: 0 });
            let mut packet = open.take().unwrap_or_else(|| out.packet(usize::MAX));
            if !packet.push(&message) {
                if !out.take_page(run) {
                    return;
                }
                out.transmit(to, Receiver::of(run), packet);
                packet = out.packet(usize::MAX);
                packet.push(&message);
            }
            open = Some(packet);
        }
        if let Some(packet) = open.filter(|_| out.take_page(run)) {
            out.transmit(to, Receiver::of(run), packet);
        }
    }

    /// Notes an update; returns true if it was new. One of this node's own agent is to be passed on then.
    pub(crate) fn note_if_newer(&mut self, update: &LeaseUpdate) -> bool {
        if self.heard.contains(update) {
            return false;
        }
        if self.heard.len() >= MAX_LEASE_UPDATES {
            self.heard.pop_front();
        }
        self.heard.push_back(update.clone());
        true
    }

    /// Keeps the highest term of a lease.
    pub(crate) fn keep_term(&mut self, lease: NodeId, term: u64) {
        if self.terms.len() < MAX_LEASE_TERMS || self.terms.contains_key(&lease) {
            let kept = self.terms.entry(lease).or_default();
            *kept = term.max(*kept);
        }
    }

    /// Returns true if an update of others is new, and may be accepted in this second. One too many is counted.
    fn take_new(&mut self, cx: &mut Context, update: &LeaseUpdate, is_believed: bool) -> bool {
        if self.heard.contains(update) {
            return false;
        }
        let is_accepted = self.take(cx.now, is_believed);
        if !is_accepted {
            cx.counters.drop(DropReason::RateLimited);
        }
        is_accepted
    }

    /// Returns true if one more update of others may be accepted in this second. Newcomers take no place from the others.
    fn take(&mut self, now: Time, is_believed: bool) -> bool {
        if is_believed {
            self.believed.take(now, SECOND, LEASE_UPDATES_PER_SECOND)
        } else {
            self.of_newcomers.take(now, SECOND, NEWCOMERS_LEASE_UPDATES_PER_SECOND)
        }
    }
}

/// Returns the message that carries an update.
fn message(update: LeaseUpdate) -> Message {
    Message::LeaseUpdate(Box::new(update))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::member::NodeId;

    fn update(term: u64) -> LeaseUpdate {
        let name = |text| NodeId::new(text).expect("a name");
        LeaseUpdate { lease: name("default"), node: name("a"), term, kind: 0, nonce: 0 }
    }

    #[test]
    fn so_many_updates_are_remembered_and_the_oldest_gives_way() {
        let mut updates = LeaseUpdates::default();
        let most = MAX_LEASE_UPDATES as u64;
        assert!((0..most).all(|term| updates.note_if_newer(&update(term))));
        assert!((0..most).all(|term| !updates.note_if_newer(&update(term))), "all are remembered");
        assert!(updates.note_if_newer(&update(most)) && updates.heard.len() == MAX_LEASE_UPDATES);
        assert!(!updates.note_if_newer(&update(1)) && updates.note_if_newer(&update(0)), "the oldest gave way");
    }

    #[test]
    fn so_many_updates_are_heard_in_a_second() {
        let mut updates = LeaseUpdates::default();
        let now = Time::ORIGIN + SECOND * 7;
        for (is_believed, most) in [(false, NEWCOMERS_LEASE_UPDATES_PER_SECOND), (true, LEASE_UPDATES_PER_SECOND)] {
            assert!((0..most).all(|_| updates.take(now, is_believed)));
            assert!(!updates.take(now + Duration::from_millis(999), is_believed));
            assert!(updates.take(now + SECOND, is_believed));
        }
    }
}
