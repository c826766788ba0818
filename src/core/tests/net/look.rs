//! Looks at the nodes of a network: what they hold, what they reported, and whether their views are sound.

use std::collections::BTreeSet;

use super::{Net, Node, id};
use headcount_core::{ChangeKind, Status};

/// The greatest number of members that are looked at after every run.
const SMALL_VIEW: usize = 100;
/// Larger views are looked at after one run in so many.
const RUNS_BETWEEN_CHECKS: u64 = 256;

impl Node {
    /// Returns the number of members that it observes.
    pub(crate) fn observed(&self) -> usize {
        self.core
            .records()
            .filter(|(record, _)| self.core.observation(&record.id).is_some_and(|seen| seen.is_observed))
            .count()
    }
}

impl Net {
    /// Has some nodes look at their views member by member: each time as long as these are small, now and then if that takes
    /// longer than all else.
    pub(super) fn check_views(&mut self) {
        self.runs += 1;
        for node in self.running().take(4) {
            node.core.check_view(SMALL_VIEW, self.runs.is_multiple_of(RUNS_BETWEEN_CHECKS));
        }
    }

    pub(crate) fn status(&self, observer: usize, name: &str) -> Option<Status> {
        self.nodes[observer].core.record(&id(name)).map(|record| record.status)
    }

    pub(crate) fn running(&self) -> impl Iterator<Item = &Node> {
        self.nodes.iter().filter(|node| node.stopped.is_none())
    }

    /// Returns true if everybody who runs is Up in the view of everybody who runs, and all views are equal.
    pub(crate) fn all_agree(&self) -> bool {
        let fingerprints: BTreeSet<u64> = self.running().map(|node| node.core.fingerprint()).collect();
        fingerprints.len() == 1
            && self.running().all(|node| {
                node.core.is_up()
                    && self.running().all(|other| {
                        node.core.record(&other.core.me().id).is_some_and(|record| record.status == Status::Up)
                    })
            })
    }

    pub(crate) fn assert_all_up(&self) {
        assert!(self.all_agree(), "{}", self.describe());
        for node in &self.nodes {
            assert!(node.largest <= self.settings.mtu);
        }
    }

    pub(crate) fn describe(&self) -> String {
        let mut text = String::new();
        for node in self.running().take(8) {
            let me = node.core.me();
            text += &format!("{} {} {}: ", me.id, me.status, me.incarnation);
            for (record, _) in node.core.records().take(20) {
                text += &format!("{}={}@{} ", record.id, record.status, record.incarnation);
            }
            text += &format!("\n  {:?}\n", node.notices);
        }
        text
    }

    /// Returns the kinds of changes that an observer reported about a node, in order.
    pub(crate) fn reported(&self, observer: usize, name: &str) -> Vec<ChangeKind> {
        let about = self.nodes[observer].changes.iter().filter(|(_, change)| change.record.id == *name);
        about.map(|(_, change)| change.kind).collect()
    }

    pub(crate) fn forget_reports(&mut self) {
        for node in &mut self.nodes {
            node.changes.clear();
            node.notices.clear();
            node.partitions.clear();
        }
    }
}
