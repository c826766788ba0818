//! Limits of the nodes' tables and traffic: they are bounded at any time, and little is left when all is quiet.
//!
//! Must not know: the use of any table.

use headcount_core::limits::{
    MAX_ADDRESSES_PER_SEED, MAX_CONTACTED, MAX_DIRECT_MESSAGES, MAX_ELSEWHERE, MAX_JOIN_ASKERS, MAX_JOINERS,
    MAX_KEPT_MESSAGES, MAX_LINKS, MAX_NAME_PROBES, MAX_OPEN_REQUESTS, MAX_ORIGINS, MAX_QUESTIONS, MAX_SEEDS,
    MAX_STRANGER_ANSWERS, MAX_TOMBSTONES, MAX_UNSPREAD, MAX_WANTED,
};
use headcount_core::{Core, Sizes};
use headcount_sim::World;

use crate::checks::Checks;
use crate::invariants::Invariant;

/// Number of timers of one node for itself, however many members there are.
const OWN_TIMERS: usize = 64;
/// Number of timers for each member, joiner or name: to judge, to send heartbeats, to tend links, to look into a crash.
const TIMERS_EACH: usize = 5;
/// Number of strangers that had their turn in two seconds, of all kinds of turns, and of joiners that were answered.
const MAX_STRANGERS: usize =
    2 * (MAX_QUESTIONS + MAX_ELSEWHERE + 4 * MAX_STRANGER_ANSWERS + 6 * MAX_CONTACTED) + 2 * MAX_JOIN_ASKERS;
/// Number of messages kept, under way, and wanted, of both sizes and kinds; and the windows of origins.
const MAX_MESSAGES: usize =
    MAX_KEPT_MESSAGES + 2 * MAX_UNSPREAD + MAX_WANTED + MAX_DIRECT_MESSAGES + MAX_OPEN_REQUESTS + 2 * MAX_ORIGINS;

impl Checks {
    /// Checks the tables of all nodes.
    pub(crate) fn look_at_sizes(&mut self, world: &World) {
        self.look_at_message_counts(world);
        if !self.is_timely {
            return;
        }
        for node in 0..world.nodes() {
            let Some(sizes) = self.sizes(world, node) else { continue };
            if let Some(detail) = too_large(world, &sizes) {
                return self.report(world, Some(node), Invariant::TablesAreBounded, detail);
            }
        }
    }

    fn sizes(&self, world: &World, node: usize) -> Option<Sizes> {
        let mut sizes = world.core(node).map(Core::sizes)?;
        if let Some(planted) = &self.planted {
            planted.bug().sizes(node, &mut sizes);
        }
        Some(sizes)
    }

    /// Checks the message counters of all nodes.
    fn look_at_message_counts(&mut self, world: &World) {
        for node in 0..world.nodes() {
            let Some(mut counted) = world.core(node).map(|core| core.counters().messages) else { continue };
            if let Some(planted) = &self.planted {
                planted.bug().message_counts(node, &mut counted);
            }
            let taken = counted.delivered + counted.duplicate + counted.dropped;
            if taken != counted.received + counted.delivered_here {
                return self.report(world, Some(node), Invariant::MessageCountsAddUp, format!("{counted:?}"));
            }
        }
    }

    /// Returns a node that still keeps unfinished cases although all has been quiet for a while, with its sizes.
    pub(crate) fn left_over(&self, world: &World) -> Option<(usize, String)> {
        (0..world.nodes()).find_map(|node| {
            let sizes = self.sizes(world, node)?;
            let Sizes { joiners, crashes, name_probes, confirmations, .. } = sizes;
            let is_clean = joiners + crashes + name_probes + confirmations == 0;
            (!is_clean).then(|| (node, format!("{sizes:?}")))
        })
    }
}

fn too_large(world: &World, sizes: &Sizes) -> Option<String> {
    let about = sizes.members + sizes.joiners + sizes.name_probes;
    let bounds = [
        ("members", sizes.members, world.nodes()),
        ("timers", sizes.timers, OWN_TIMERS + TIMERS_EACH * about),
        ("tombstones", sizes.tombstones, MAX_TOMBSTONES.min(world.nodes())),
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
