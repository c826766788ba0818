//! The agreement of the nodes of a world about its members, and a description of any disagreement.
//!
//! Must not know: why they should agree.

use std::cmp::Ordering;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::World;
use crate::node::Node;
use crate::random::nanos;
use headcount_core::{Core, Record, Status};

impl World {
    /// Returns the number of nodes that run, and how many of these are Up and hold the most frequent view.
    pub fn agreement_counts(&self) -> (usize, usize) {
        let mut running = 0;
        let mut views: BTreeMap<u64, usize> = BTreeMap::new();
        for core in self.nodes.iter().filter_map(Node::running).map(|process| &process.core) {
            running += 1;
            if core.is_up() {
                *views.entry(core.fingerprint()).or_default() += 1;
            }
        }
        (running, views.into_values().max().unwrap_or(0))
    }

    /// Describes a first reason for which the running nodes do not agree that all of them are Up; `None` if they do.
    pub fn divergence(&self) -> Option<String> {
        let running: Vec<usize> = (0..self.nodes.len()).filter(|node| self.nodes[*node].running().is_some()).collect();
        let cores: Vec<_> = running.iter().filter_map(|node| self.core(*node)).collect();
        if let Some(core) = cores.iter().find(|core| !core.is_up()) {
            return Some(format!("{} is {}", core.me().id, core.me().status));
        }
        let first = cores.first()?;
        // Large clusters have few different views, each as large as the cluster, so each is compared once.
        let mut compared = BTreeSet::from([first.fingerprint()]);
        for other in cores.iter().filter(|core| compared.insert(core.fingerprint())) {
            let difference = self.difference(first, other);
            if !difference.is_empty() {
                return Some(format!("{} and {} differ: {difference}", first.me().id, other.me().id));
            }
        }
        // Equal fingerprints mean equal views, so all nodes list the same members as the first one.
        cores.iter().find_map(|core| {
            let (me, held) = (core.me(), first.record(&core.me().id));
            let is_listed = held.is_some_and(|held| held.status == Status::Up && held.run == me.run);
            (!is_listed).then(|| format!("{} is listed as {}", in_short(me), described(held)))
        })
    }

    /// Describes the difference of two views; empty if they differ only in members that all nodes are about to forget.
    fn difference(&self, one: &Core, other: &Core) -> String {
        let differing = side_by_side(one, other).filter(|(one, other)| match (one, other) {
            (Some(one), Some(other)) => !Arc::ptr_eq(one, other) && one != other,
            _ => true,
        });
        let texts: Vec<String> = differing
            .filter(|(one, other)| !self.is_being_forgotten(*one, *other))
            .take(Self::DIFFERENCES_TOLD)
            .map(|(one, other)| format!("{} / {}", described(one), described(other)))
            .collect();
        texts.join("; ")
    }

    /// Returns true if one of two views just forgot a member that the other one still holds. A member is forgotten at
    /// the same age everywhere, but ages that waited for a paused process are learnt too young.
    fn is_being_forgotten(&self, one: Option<&Arc<Record>>, other: Option<&Arc<Record>>) -> bool {
        let ((Some(held), None) | (None, Some(held))) = (one, other) else { return false };
        let first = self.reaped.get(&(held.id.clone(), held.incarnation));
        first.is_some_and(|first| self.now - first <= nanos(self.options.reaping_spread))
    }
}

type Held<'a> = Option<&'a Arc<Record>>;

/// Returns the records of two cores, name by name.
fn side_by_side<'a>(one: &'a Core, other: &'a Core) -> impl Iterator<Item = (Held<'a>, Held<'a>)> {
    let mut one = one.records().map(|(record, _)| record).peekable();
    let mut other = other.records().map(|(record, _)| record).peekable();
    std::iter::from_fn(move || match (one.peek(), other.peek()) {
        (None, None) => None,
        (Some(first), Some(second)) => match first.id.cmp(&second.id) {
            Ordering::Less => Some((one.next(), None)),
            Ordering::Equal => Some((one.next(), other.next())),
            Ordering::Greater => Some((None, other.next())),
        },
        _ => Some((one.next(), other.next())),
    })
}

fn described(record: Option<&Arc<Record>>) -> String {
    record.map_or_else(|| "nothing".to_owned(), |record| in_short(record))
}

/// Describes a record in a few words.
pub fn in_short(record: &Record) -> String {
    format!("{} {} {} run {}", record.id, record.status, record.incarnation, record.run)
}
