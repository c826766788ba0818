//! Connectivity: links between members, and the ways around what does not pass.
//!
//! | idea | file |
//! |---|---|
//! | one connection between two observers: opened, kept, closed | `links` |
//! | connections that prove nothing yet | `guests` |
//! | where datagrams do not pass: members by their links | `detour` |
//! | the same for strangers, who have no link: calls | `calls` |
//!
//! Owns: every [`LinkId`](super::LinkId) and what it leads to.
//!
//! Must not know: what travels by a link, or what its breaking means for the member behind it (see `detection`).

mod calls;
mod detour;
mod guests;
pub(crate) mod links;

use rand::RngExt;
use rand_chacha::ChaCha8Rng;

use calls::Calls;
use detour::Detours;
use guests::Guests;
use links::Links;

/// All connections of this node, and the ways around what does not pass.
#[derive(Debug, Clone)]
pub(crate) struct Paths {
    rng: ChaCha8Rng,
    pub(crate) links: Links,
    pub(crate) guests: Guests,
    pub(crate) detours: Detours,
    pub(crate) calls: Calls,
}

impl Paths {
    pub(crate) fn new(rng: ChaCha8Rng) -> Self {
        let (links, guests, detours, calls) = Default::default();
        Self { rng, links, guests, detours, calls }
    }

    /// Returns the luck by which a pause is spread: at least 0 and below 1.
    pub(crate) fn luck(&mut self) -> f64 {
        self.rng.random()
    }
}
