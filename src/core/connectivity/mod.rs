//! Connectivity: links between members, and the ways around what does not pass.
//!
//! | idea | file |
//! |---|---|
//! | one connection between two observers: opened, kept, closed | `links` |
//! | connections that prove nothing yet | `unproven` |
//! | where datagrams do not pass: members by their links | `fallback` |
//! | the same for strangers, who have no link: bootstrap links | `bootstrap` |
//!
//! Owns: every [`LinkId`](super::LinkId) and what it leads to.
//!
//! Must not know: what travels by a link, or what its breaking means for the member behind it (see `detection`).

mod bootstrap;
mod fallback;
pub(crate) mod links;
mod unproven;

use std::net::SocketAddr;

use rand::RngExt;
use rand_chacha::ChaCha8Rng;

use crate::context::Context;
use crate::counters::DropReason;
use crate::io::Output;
use crate::member::Run;
use bootstrap::BootstrapLinks;
use fallback::Fallbacks;
use links::{Action, Links};
use unproven::UnprovenLinks;

/// All connections of this node, and the ways around what does not pass.
#[derive(Debug, Clone)]
pub(crate) struct Paths {
    rng: ChaCha8Rng,
    pub(crate) links: Links,
    pub(crate) unproven: UnprovenLinks,
    pub(crate) fallbacks: Fallbacks,
    pub(crate) bootstrap: BootstrapLinks,
    /// Addresses to which a bootstrap link was opened in vain, until whoever is interested has heard of it.
    unreached: Vec<SocketAddr>,
}

impl Paths {
    pub(crate) fn new(rng: ChaCha8Rng) -> Self {
        let (links, unproven, fallbacks, bootstrap) = Default::default();
        Self { rng, links, unproven, fallbacks, bootstrap, unreached: Vec::new() }
    }

    /// Takes out the addresses to which a bootstrap link was opened in vain.
    pub(crate) fn take_unreached(&mut self) -> Vec<SocketAddr> {
        std::mem::take(&mut self.unreached)
    }

    /// Returns the random number by which a pause is spread: at least 0 and below 1.
    pub(crate) fn random_share(&mut self) -> f64 {
        self.rng.random()
    }

    /// Finds out whether anybody listens at a joiner's address.
    pub(crate) fn visit(&mut self, cx: &mut Context, run: Run, to: SocketAddr) {
        let actions = self.links.visit(run, to);
        Self::act_on_visit(cx, actions);
    }

    /// Ends a visit: nothing is to be found out about the joiner any more.
    pub(crate) fn end_visit(&mut self, cx: &mut Context, run: Run) {
        let actions = self.links.end_visit(run);
        Self::act_on_visit(cx, actions);
    }

    fn act_on_visit(cx: &mut Context, actions: Vec<Action>) {
        for action in actions {
            match action {
                Action::Open(link, to) => cx.output(Output::OpenLink { link, to }),
                Action::Close(link) => cx.output(Output::CloseLink { link }),
                Action::Full => cx.counters.drop(DropReason::TableFull),
                other => debug_assert!(false, "no action of a visit: {other:?}"),
            }
        }
    }
}
