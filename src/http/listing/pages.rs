//! A listing, and the pages in which a reader gets it.
//!
//! Invariant: a reader holds one page, never the listing's bytes; when the listing is revoked, its next page is an error,
//! and the last.
//!
//! Must not know: other listings, and when one is built.

use std::sync::{Arc, PoisonError, RwLock};

use axum::body::Bytes;
use tokio::time::Instant;

use super::PAGE_BYTES;
use crate::core::{NodeId, Status, Tags};
use crate::http::query::TagFilter;
use crate::json;
use crate::member::Member;

/// Members looked at for one page of a filtered answer.
const MEMBERS_PER_PAGE: usize = 4_096;

/// The members that are asked for; empty lists ask for all.
#[derive(Debug, Default)]
pub(crate) struct Selection {
    pub(crate) statuses: Vec<&'static str>,
    pub(crate) tags: Vec<TagFilter>,
    pub(crate) nodes: Arc<[NodeId]>,
}

impl Selection {
    fn admits(&self, entry: &Entry) -> bool {
        let is_listed = match self.statuses.as_slice() {
            // Members that left are history: they are shown to whoever asks for them.
            [] => !matches!(entry.status, Status::Left(_)),
            asked => asked.contains(&entry.status.name()),
        };
        is_listed
            && (self.nodes.is_empty() || self.nodes.contains(&entry.id))
            && self.tags.iter().all(|tag| tag.admits(&entry.tags))
    }
}

/// All members at one position.
#[derive(Debug)]
pub(crate) struct Listing {
    /// The last event that it contains.
    pub(crate) sequence: u64,
    pub(super) built_at: Instant,
    pub(super) bytes: usize,
    /// `None` once it was revoked.
    pub(super) content: RwLock<Option<Content>>,
}

#[derive(Debug)]
pub(super) struct Content {
    /// The members' objects, one after the other.
    json: Vec<u8>,
    entries: Vec<Entry>,
}

/// The properties of a member that a selection asks about, and the end of its object.
#[derive(Debug)]
struct Entry {
    end: usize,
    id: NodeId,
    status: Status,
    tags: Tags,
}

/// A listing was taken away while it was read: too slowly, in a view that changes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the answer was read too slowly, and its memory was needed")]
pub(crate) struct Revoked;

impl Listing {
    /// Writes the members at this position down.
    pub(crate) fn new(sequence: u64, members: impl IntoIterator<Item = Member>) -> Self {
        let mut json = Vec::new();
        let mut entries = Vec::new();
        for member in members {
            // Vectors that double would take twice the room of a large view.
            if json.capacity() - json.len() < PAGE_BYTES {
                json.reserve_exact(json.len() / 8 + 2 * PAGE_BYTES);
            }
            if entries.len() == entries.capacity() {
                entries.reserve_exact(entries.len() / 8 + 64);
            }
            // This shape has nothing that could fail to be written, see the tests of `json`.
            let _ = serde_json::to_writer(&mut json, &json::Member::from(&member));
            entries.push(Entry { end: json.len(), id: member.id, status: member.status, tags: member.tags });
        }
        json.shrink_to_fit();
        entries.shrink_to_fit();
        let bytes = json.len();
        let content = RwLock::new(Some(Content { json, entries }));
        Self { sequence, built_at: Instant::now(), bytes, content }
    }

    /// Returns the selected members as a JSON list between `head` and `tail`.
    pub(crate) fn pages(self: &Arc<Self>, selection: Selection, head: &str, tail: &'static str) -> Pages {
        let open = format!("{head}[").into_bytes();
        Pages { listing: Arc::clone(self), selection, at: 0, open: Some(open), is_first: true, tail: Some(tail) }
    }

    pub(super) fn revoke(&self) {
        let content = self.content.write().unwrap_or_else(PoisonError::into_inner).take();
        drop(content);
    }
}

/// One reader's way through a listing. It ends after an error.
#[derive(Debug)]
pub(crate) struct Pages {
    listing: Arc<Listing>,
    selection: Selection,
    /// The next member to look at.
    at: usize,
    open: Option<Vec<u8>>,
    is_first: bool,
    /// `None` at the end.
    tail: Option<&'static str>,
}

impl Pages {
    /// Returns all pages at once, of a listing that nobody else knows, so that nobody takes it away.
    pub(crate) fn whole(self) -> Vec<u8> {
        let mut whole = Vec::new();
        self.map_while(Result::ok).for_each(|page| whole.extend_from_slice(&page));
        whole
    }
}

impl Iterator for Pages {
    type Item = Result<Bytes, Revoked>;

    fn next(&mut self) -> Option<Self::Item> {
        self.tail?;
        let content = self.listing.content.read().unwrap_or_else(PoisonError::into_inner);
        let Some(Content { json, entries }) = &*content else {
            self.tail = None;
            return Some(Err(Revoked));
        };
        let begin = self.at.checked_sub(1).map_or(0, |before| entries[before].end);
        let mut page = self.open.take().unwrap_or_default();
        page.reserve((json.len() - begin).min(PAGE_BYTES + PAGE_BYTES / 16));
        loop {
            let looked_at = entries.len().min(self.at + MEMBERS_PER_PAGE);
            while self.at < looked_at && page.len() < PAGE_BYTES {
                let entry = &entries[self.at];
                if self.selection.admits(entry) {
                    let start = self.at.checked_sub(1).map_or(0, |before| entries[before].end);
                    if !std::mem::take(&mut self.is_first) {
                        page.push(b',');
                    }
                    page.extend_from_slice(&json[start..entry.end]);
                }
                self.at += 1;
            }
            if self.at == entries.len() {
                let tail = self.tail.take().unwrap_or_default();
                page.push(b']');
                page.extend_from_slice(tail.as_bytes());
            }
            if !page.is_empty() {
                page.shrink_to_fit();
                return Some(Ok(page.into()));
            }
        }
    }
}
