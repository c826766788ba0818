//! Sizes: the number of entries that a core keeps at the moment, for checks that nothing grows without bound.
//!
//! Must not know: the bounds; each table has its own in `limits`.

use crate::Core;

/// The number of entries of each table of a core.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Sizes {
    /// Records of the view.
    pub members: usize,
    /// Timers that are set.
    pub timers: usize,
    /// Tombstones.
    pub tombstones: usize,
    /// Joiners that are held beside the view.
    pub joiners: usize,
    /// Members that have, had, or are to have links, and connections.
    pub links: usize,
    /// Processes that seem to be gone.
    pub crashes: usize,
    /// Indirect probes under way, and members that others alone hear.
    pub inquiries: usize,
    /// Names whose owner is being asked.
    pub name_probes: usize,
    /// Departures and removals that wait to be confirmed.
    pub confirmations: usize,
    /// Addresses at which this node met itself.
    pub own_addresses: usize,
    /// Strangers that were answered or asked lately, and holders of names that others want.
    pub strangers: usize,
    /// Messages between programs that are kept or on their way, and what recognises copies of them.
    pub messages: usize,
}

impl Core {
    /// Returns the number of entries that this core keeps.
    pub fn sizes(&self) -> Sizes {
        Sizes {
            members: self.view.len(),
            timers: self.cx.timers.size(),
            tombstones: self.view.tombstones.size(),
            joiners: self.sponsor.joiners.size(),
            links: self.paths.links.size(),
            crashes: self.crashes.size(),
            inquiries: self.detector.inquiries.size(),
            name_probes: self.sponsor.names.size(),
            confirmations: self.confirmations.size(),
            own_addresses: self.reunion.size(),
            strangers: self.packets.turns.size() + self.sponsor.names.asked() + self.sponsor.joiners.askers(),
            messages: self.messages.size(),
        }
    }
}
