//! Another electorate in this cluster: two that were formed apart stand beside each other, until an operator ends one.
//!
//! Members of both are told, in the log at once and by the list of voters for as long as somebody says so: whoever reads
//! one side alone finds nothing wrong there, and yet two lead. Two that were recovered apart become one by themselves (see
//! `election::recovery`), and are told of for as long as both have a leader.
//!
//! Invariant: nothing changes here by such a report, so that any member's word is enough for it.
//!
//! Must not know: which of the two is to stay.

use std::time::Duration;

use super::{Alarm, Core, NodeId, Term, Time};
use crate::election::Lineage;
use crate::limits::OTHER_ELECTORATE_MEMORY;
use crate::member::Run;
use crate::view::Slot;
use crate::wire::LeaderClaim;

/// An electorate beside the one that this node is sure of, as a member reported it last.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OtherElectorate {
    /// The member that reported it.
    pub by: NodeId,
    /// The lineage of its first generation.
    pub root: Lineage,
    /// Its leader, if one is known.
    pub leader: Option<NodeId>,
    /// The leader's term; without a leader, a term that is not above it.
    pub term: Term,
    /// True if it is of the same origin, recovered apart: one of the two gives way by itself.
    pub is_recovery: bool,
}

/// The last report of the other electorate.
#[derive(Debug, Clone)]
pub(super) struct Report {
    other: OtherElectorate,
    at: Time,
    /// The time of the last report that named the leader.
    led_at: Time,
    /// Of an electorate of the same origin, its lineage, and the end of its leader's lease.
    recovered: Option<(Lineage, Time)>,
}

impl Core {
    /// Returns the other electorate that members have reported a short time ago, if any have.
    pub fn other_electorate(&self) -> Option<&OtherElectorate> {
        let tracker = self.tracker.as_ref()?;
        let Report { other, at, recovered, .. } = tracker.other.as_ref()?;
        if let Some((lineage, until)) = recovered {
            let is_other = tracker.known.as_ref().is_some_and(|known| known.is_of_other_than(*lineage));
            return (is_other && self.cx.now < *until).then_some(other);
        }
        let is_other = self.founded().is_some_and(|known| known.root != other.root);
        (is_other && self.cx.now.since(*at) < OTHER_ELECTORATE_MEMORY).then_some(other)
    }

    /// Tells the operator if a member reports an electorate of another origin than the one that this node is sure of.
    pub(super) fn meet_other_electorate(&mut self, by: Run, root: Lineage, leader: Option<&NodeId>, term: Term) {
        let is_other = self.founded().is_some_and(|known| known.root != root);
        let Some(slot) = self.view.slot_of_run(by).filter(|_| is_other) else { return };
        let (now, by) = (self.cx.now, self.view.record(slot).id.clone());
        self.raise_alarm(Alarm::OtherElectorate { id: by.clone() });
        let Some(tracker) = &mut self.tracker else { return };
        let is_led = |met: &Report| {
            met.other.root == root && met.other.leader.is_some() && now.since(met.led_at) < OTHER_ELECTORATE_MEMORY
        };
        match &mut tracker.other {
            // Most reports name no leader: such a one ends what was said of the leader only when nobody has named it for long.
            Some(met) if leader.is_none() && is_led(met) => met.at = now,
            other => {
                let reported = OtherElectorate { by, root, leader: leader.cloned(), term, is_recovery: false };
                *other = Some(Report { other: reported, at: now, led_at: now, recovered: None });
            }
        }
    }

    /// Tells the operator if a member reports the leader of another recovery of the same electorate, while this node has
    /// a leader as well.
    pub(super) fn meet_other_recovery(&mut self, from: Slot, led: &LeaderClaim) {
        let Some(tracker) = &mut self.tracker else { return };
        let is_root = tracker.agreed.as_ref().is_some_and(|agreed| agreed.electorate.root == led.root);
        let is_other = tracker.known.as_ref().is_some_and(|known| known.is_of_other_than(led.lineage));
        let rest = Duration::from_millis(led.lease_ms.saturating_sub(led.age_ms));
        if !is_root || !is_other || led.leader.is_none() || rest.is_zero() {
            return;
        }
        let by = self.view.record(from).id.clone();
        let (leader, root, term) = (led.leader.clone(), led.root, led.term);
        let other = OtherElectorate { by: by.clone(), root, leader, term, is_recovery: true };
        let recovered = Some((led.lineage, self.cx.now + rest));
        tracker.other = Some(Report { other, at: self.cx.now, led_at: self.cx.now, recovered });
        self.raise_alarm(Alarm::RecoveredApart { id: by });
    }
}
