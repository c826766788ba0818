//! Listings: all members as JSON at one position of the event stream, built once and read by many.
//!
//! `GET /v1/members` and the snapshots of event streams are both cut from a [`Listing`]. One of a small view is made for
//! its reader alone. One of a large view is shared: [`Listings`] builds at most one at a time, on a thread that may
//! block, and rests nine times as long as it built. Meanwhile the last one is good enough: it is as old as ten times the
//! building took at most (some 0.3 s for 10,000 members with full tags), and [`MAX_AGE`] if nothing has changed.
//!
//! Invariants:
//! - Readers hold one page at a time, [`PAGE_BYTES`] and a member long, never the listing's bytes.
//! - At most [`MAX_LISTINGS`] exist, of [`MAX_LISTED_BYTES`] together unless a single one is larger. When room is needed
//!   the oldest is revoked, which ends the answers that are still read from it; until its readers have had ten seconds it is
//!   not, and no new one is built.
//!
//! `pages` owns one listing and its readers, `shared` the listings that readers have in common, and when one is built.
//!
//! This module must not know requests or sockets.

mod pages;
mod shared;
#[cfg(test)]
mod tests;

pub(super) use pages::{Pages, Revoked, Selection};
pub(super) use shared::{Listings, Source};
pub use shared::{MAX_AGE, MAX_LISTED_BYTES, MAX_LISTINGS};

/// The size of a page, of which every reader may hold one; the member that crosses it is still on it.
pub(super) const PAGE_BYTES: usize = 8 * 1024;
/// Members of a small view: its listings are made for each reader anew.
pub(super) const SMALL_VIEW: usize = 32;
