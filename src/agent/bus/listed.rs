//! The members at one position of the stream, each copied only when its turn comes: whoever writes them down one after the
//! other never holds all copies.
//!
//! Invariant: the members come sorted by name, each once.
//!
//! Must not know: the ring.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::super::directory::{Directory, Entry};
use crate::core::{NodeId, Time};
use crate::event::EventKind;
use crate::member::Member;

/// The members at one position.
#[derive(Debug)]
pub(crate) struct Listed {
    /// The last event that they contain; 0 if there was none yet.
    pub(crate) sequence: u64,
    me: NodeId,
    /// The time at which the entries were looked up.
    at: Time,
    /// The entries of a moment before, sorted by name.
    entries: Vec<Arc<Entry>>,
    /// The members that changed since that moment; `None` if they were removed.
    changed: BTreeMap<NodeId, Option<Member>>,
}

impl Listed {
    /// Looks the members up as they are now, after this event.
    pub(super) fn of(directory: &Directory, sequence: u64) -> Self {
        let (entries, at) = directory.all();
        Self { sequence, me: directory.me().clone(), at, entries, changed: BTreeMap::new() }
    }

    /// Brings it up to date with an event.
    pub(super) fn fold(&mut self, kind: &EventKind) {
        if let Some(member) = kind.member() {
            let is_gone = matches!(kind, EventKind::NodeRemoved { .. });
            self.changed.insert(member.id.clone(), (!is_gone).then(|| member.clone()));
        }
    }

    /// Returns the members one after the other.
    pub(crate) fn into_members(self) -> impl Iterator<Item = Member> {
        let Self { me, at, entries, changed, .. } = self;
        let mut entries = entries.into_iter().peekable();
        let mut changed = changed.into_iter().peekable();
        std::iter::from_fn(move || {
            loop {
                let next = changed.peek().map(|(id, _)| id);
                let is_before = |entry: &Arc<Entry>| next.is_none_or(|id| entry.record.id < *id);
                if entries.peek().is_some_and(is_before) {
                    return entries.next().map(|entry| entry.member(&me, at));
                }
                let (id, member) = changed.next()?;
                entries.next_if(|entry| entry.record.id == id);
                if member.is_some() {
                    return member;
                }
            }
        })
    }
}
