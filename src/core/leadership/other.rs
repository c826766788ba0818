//! Another electorate in this cluster: two that were formed apart stand beside each other, until an operator ends one.
//!
//! Members of both are told, in the log at once and by the list of voters for as long as somebody says so: whoever reads
//! one side alone finds nothing wrong there, and yet two lead.
//!
//! Invariant: nothing changes here by such a report, so that any member's word is enough for it.
//!
//! Must not know: which of the two is to stay.

use super::{Alarm, Core, NodeId, Term, Time};
use crate::core::election::Lineage;
use crate::core::limits::OTHER_ELECTORATE_MEMORY;
use crate::core::member::Run;

/// An electorate of another origin than the one that this node is sure of, as a member reported it last.
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
}

/// The other electorate, and when it was last heard of.
#[derive(Debug)]
pub(super) struct Met {
    other: OtherElectorate,
    at: Time,
    /// The time of the last report that named the leader.
    led_at: Time,
}

impl Core {
    /// Returns the other electorate that members have reported a short time ago, if any have.
    pub fn other_electorate(&self) -> Option<&OtherElectorate> {
        let Met { other, at, .. } = self.tracker.as_ref()?.other.as_ref()?;
        let is_other = self.founded().is_some_and(|known| known.root != other.root);
        (is_other && self.now.since(*at) < OTHER_ELECTORATE_MEMORY).then_some(other)
    }

    /// Tells the operator if a member reports an electorate of another origin than the one that this node is sure of.
    pub(super) fn meet_other_electorate(&mut self, by: Run, root: Lineage, leader: Option<&NodeId>, term: Term) {
        let is_other = self.founded().is_some_and(|known| known.root != root);
        let Some(slot) = self.view.slot_of_run(by).filter(|_| is_other) else { return };
        let (now, by) = (self.now, self.view.record(slot).id.clone());
        self.raise_alarm(Alarm::OtherElectorate { id: by.clone() });
        let Some(tracker) = &mut self.tracker else { return };
        let is_led = |met: &Met| {
            met.other.root == root && met.other.leader.is_some() && now.since(met.led_at) < OTHER_ELECTORATE_MEMORY
        };
        match &mut tracker.other {
            // Most reports name no leader: such a one ends what was said of the leader only when nobody has named it for long.
            Some(met) if leader.is_none() && is_led(met) => met.at = now,
            other => {
                let reported = OtherElectorate { by, root, leader: leader.cloned(), term };
                *other = Some(Met { other: reported, at: now, led_at: now });
            }
        }
    }
}
