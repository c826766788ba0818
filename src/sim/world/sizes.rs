//! Limits of the nodes' tables and traffic: they are bounded at any time, and little is left when all is quiet.
//!
//! Must not know: the use of any table.

use super::World;
use crate::invariants::Invariant;
use headcount_core::Sizes;
use headcount_core::limits::{
    MAX_ADDRESSES_PER_SEED, MAX_ALLOWANCES, MAX_DIRECT_BLOCKS, MAX_JOIN_ASKERS, MAX_JOINERS, MAX_KEPT_MESSAGES,
    MAX_LETTERS, MAX_LINKS, MAX_NAME_PROBES, MAX_OPEN_REQUESTS, MAX_ORIGINS, MAX_SEEDS, MAX_TOMBSTONES, MAX_UNSPREAD,
    MAX_WANTED,
};

/// Number of timers of one node for itself, however many members there are.
const OWN_TIMERS: usize = 64;
/// Number of timers for each member, joiner or name: to judge, to send heartbeats, to tend links, to look into a crash.
const TIMERS_EACH: usize = 5;
/// Number of strangers answered or asked in two seconds, of four kinds, and of holders of names that were asked.
const MAX_STRANGERS: usize = 4 * 2 * 1_024 + 2 * MAX_JOIN_ASKERS + MAX_NAME_PROBES;
/// Number of messages kept, under way, and wanted, of both sizes and kinds; and the windows of origins.
const MAX_MESSAGES: usize = MAX_KEPT_MESSAGES
    + 2 * MAX_UNSPREAD
    + MAX_WANTED
    + MAX_LETTERS
    + MAX_OPEN_REQUESTS
    + 2 * MAX_ORIGINS
    + MAX_DIRECT_BLOCKS
    + MAX_ALLOWANCES;

impl World {
    /// Checks the tables of all nodes.
    pub(super) fn look_at_sizes(&mut self) {
        self.look_at_message_counts();
        if !self.options.timely {
            return;
        }
        for node in 0..self.nodes.len() {
            let Some(mut sizes) = self.core(node).map(headcount_core::Core::sizes) else { continue };
            if let Some(tamper) = &mut self.tamper {
                tamper.sizes(node, &mut sizes);
            }
            if let Some(detail) = self.too_large(&sizes) {
                return self.report(Some(node), Invariant::TablesAreBounded, detail);
            }
        }
    }

    /// Checks the message counters of all nodes.
    fn look_at_message_counts(&mut self) {
        for node in 0..self.nodes.len() {
            let Some(mut counted) = self.core(node).map(|core| core.counters().messages) else { continue };
            if let Some(tamper) = &mut self.tamper {
                tamper.message_counts(node, &mut counted);
            }
            let taken = counted.delivered + counted.duplicate + counted.dropped;
            if taken != counted.received + counted.delivered_here {
                return self.report(Some(node), Invariant::MessageCountsAddUp, format!("{counted:?}"));
            }
        }
    }

    fn too_large(&self, sizes: &Sizes) -> Option<String> {
        let about = sizes.members + sizes.joiners + sizes.name_probes;
        let bounds = [
            ("members", sizes.members, self.nodes.len()),
            ("timers", sizes.timers, OWN_TIMERS + TIMERS_EACH * about),
            ("tombstones", sizes.tombstones, MAX_TOMBSTONES.min(self.nodes.len())),
            ("joiners", sizes.joiners, 2 * MAX_JOINERS),
            ("links", sizes.links, about + 2 * MAX_LINKS),
            ("crash cases", sizes.crashes, sizes.members),
            ("doubts", sizes.inquiries, 2 * sizes.members),
            ("name probes", sizes.name_probes, MAX_NAME_PROBES),
            ("own addresses", sizes.own_addresses, MAX_SEEDS * MAX_ADDRESSES_PER_SEED),
            ("strangers", sizes.strangers, MAX_STRANGERS),
            ("messages", sizes.messages, MAX_MESSAGES),
        ];
        let (what, size, most) = bounds.into_iter().find(|(_, size, most)| size > most)?;
        Some(format!("{size} {what}, {most} at most: {sizes:?}"))
    }

    /// Returns a node that still keeps unfinished cases although all has been quiet for a while, with its sizes.
    pub fn left_over(&mut self) -> Option<(usize, String)> {
        (0..self.nodes.len()).find_map(|node| {
            let mut sizes = self.core(node)?.sizes();
            if let Some(tamper) = &mut self.tamper {
                tamper.sizes(node, &mut sizes);
            }
            let Sizes { joiners, crashes, name_probes, confirmations, .. } = sizes;
            let is_clean = joiners + crashes + name_probes + confirmations == 0;
            (!is_clean).then(|| (node, format!("{sizes:?}")))
        })
    }
}
