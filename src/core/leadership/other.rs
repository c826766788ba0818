//! Another electorate in this cluster: two that were formed apart stand beside each other, until an operator ends one.
//!
//! Members of both are told, in the log at once and by the list of voters for as long as somebody says so: whoever reads
//! one side alone finds nothing wrong there, and yet two lead. Two that were recovered apart become one by themselves (see
//! `election::recovery`), and are told of for as long as both have a leader.
//!
//! Invariant: nothing changes here by such a report, so that any member's report is enough for it.
//!
//! Must not know: which of the two is to stay.

use std::time::Duration;

use super::Lead;
use super::steps::Surroundings;
use crate::election::{Alarm, Lineage, Term};
use crate::limits::OTHER_ELECTORATE_MEMORY;
use crate::member::{NodeId, Run};
use crate::time::Time;
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

impl Lead {
    /// Returns the other electorate that members have reported a short time ago, if any have.
    pub(crate) fn other_electorate(&self, now: Time) -> Option<&OtherElectorate> {
        let Report { other, at, recovered, .. } = self.other.as_ref()?;
        let is_told = if let Some((lineage, until)) = recovered {
            self.is_led_by_other_than(*lineage) && now < *until
        } else {
            self.is_sure_of_other_than(other.root) && now.since(*at) < OTHER_ELECTORATE_MEMORY
        };
        is_told.then_some(other)
    }

    fn is_sure_of_other_than(&self, root: Lineage) -> bool {
        self.founded().is_some_and(|known| known.root != root)
    }

    fn is_led_by_other_than(&self, lineage: Lineage) -> bool {
        self.known.as_ref().is_some_and(|known| known.is_of_other_than(lineage))
    }

    /// Tells the operator if a member reports an electorate of another origin than the one that this node is sure of.
    pub(super) fn meet_other_electorate(
        &mut self,
        around: &mut Surroundings<'_>,
        by: Run,
        root: Lineage,
        leader: Option<&NodeId>,
        term: Term,
    ) {
        let slot = around.view.slot_of_run(by).filter(|_| self.is_sure_of_other_than(root));
        let Some(slot) = slot else { return };
        let (now, by) = (around.now, around.view.record(slot).id.clone());
        self.raise_alarm(around, Alarm::OtherElectorate { id: by.clone() });
        let is_led = |met: &Report| {
            met.other.root == root && met.other.leader.is_some() && now.since(met.led_at) < OTHER_ELECTORATE_MEMORY
        };
        match &mut self.other {
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
    pub(super) fn meet_other_recovery(&mut self, around: &mut Surroundings<'_>, from: Slot, claim: &LeaderClaim) {
        let is_root = self.agreed.as_ref().is_some_and(|agreed| agreed.electorate.root == claim.root);
        let rest = Duration::from_millis(claim.lease_ms.saturating_sub(claim.age_ms));
        if !is_root || !self.is_led_by_other_than(claim.lineage) || claim.leader.is_none() || rest.is_zero() {
            return;
        }
        let (now, by) = (around.now, around.view.record(from).id.clone());
        let (leader, root, term) = (claim.leader.clone(), claim.root, claim.term);
        let other = OtherElectorate { by: by.clone(), root, leader, term, is_recovery: true };
        self.other = Some(Report { other, at: now, led_at: now, recovered: Some((claim.lineage, now + rest)) });
        self.raise_alarm(around, Alarm::RecoveredApart { id: by });
    }
}
