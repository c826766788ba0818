//! Connectivity: links between members, and the ways around what does not pass.
//!
//! | idea | file |
//! |---|---|
//! | one connection between two observers: opened, kept, closed | `links` |
//! | connections that prove nothing yet | `unproven` |
//! | where datagrams do not pass: members by their links | `fallback` |
//! | the same for strangers, who have no link: bootstrap links | `bootstrap` |
//! | connections that are opened only to see whether a host's kernel answers | `kernels` |
//!
//! Owns: every [`LinkId`](super::LinkId) and what it leads to.
//!
//! Must not know: what travels by a link, or what its breaking means for the member behind it (see `detection`).

mod bootstrap;
mod fallback;
mod kernels;
pub(crate) mod links;
mod unproven;

use std::net::SocketAddr;

use rand::RngExt;
use rand_chacha::ChaCha8Rng;

use bootstrap::BootstrapLinks;
use fallback::Fallbacks;
use kernels::Kernels;
use links::Links;
use unproven::UnprovenLinks;

/// All connections of this node, and the ways around what does not pass.
#[derive(Debug, Clone)]
pub(crate) struct Paths {
    rng: ChaCha8Rng,
    pub(crate) links: Links,
    pub(crate) unproven: UnprovenLinks,
    pub(crate) fallbacks: Fallbacks,
    pub(crate) bootstrap: BootstrapLinks,
    pub(crate) kernels: Kernels,
    /// Addresses to which a bootstrap link was opened in vain, until whoever is interested has heard of it.
    unreached: Vec<SocketAddr>,
}

impl Paths {
    pub(crate) fn new(rng: ChaCha8Rng) -> Self {
        let (links, unproven, fallbacks, bootstrap, kernels) = Default::default();
        Self { rng, links, unproven, fallbacks, bootstrap, kernels, unreached: Vec::new() }
    }

    /// Takes out the addresses to which a bootstrap link was opened in vain.
    pub(crate) fn take_unreached(&mut self) -> Vec<SocketAddr> {
        std::mem::take(&mut self.unreached)
    }

    /// Returns the random number by which a pause is spread: at least 0 and below 1.
    pub(crate) fn random_share(&mut self) -> f64 {
        self.rng.random()
    }
}
