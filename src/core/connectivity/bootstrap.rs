//! Bootstrap links: links to addresses at which nobody knows yet who is there, for the questions of strangers where
//! datagrams do not pass: joining, and asking who somebody is.
//!
//! A bootstrap link is a way to an address, nothing more: what is sent to that address goes by the link, too, and what
//! comes by it is a packet from that address. So all proofs stay what they are. An accepted one comes from a passing
//! port, where no datagram arrives.
//!
//! - *A joiner that nobody answers* opens bootstrap links to the seeds, after
//!   [`TRIES_BEFORE_BOOTSTRAP`](crate::limits::TRIES_BEFORE_BOOTSTRAP) tries. Its sponsor opens one to the address that
//!   the joiner advertises, and sends the challenge there: an accepted one proves no address (see `reachable`).
//! - *The lost* are looked for by a bootstrap link with one in so many questions, too (see `reunion`). A node that
//!   accepts one in the name of a known member opens one to that member's own address before it believes anything.
//! - A member that opened a link, and does not answer datagrams, is asked by a bootstrap link to its address (see
//!   `unproven`).
//!
//! Invariants:
//! - A bootstrap link is accepted for a question alone. At most [`MAX_BOOTSTRAP_LINKS`] that this node opened stand at
//!   one time, and as many accepted ones. The oldest gives way, unless it began a moment ago, and each lasts for at
//!   most [`BOOTSTRAP_LIFE`].
//! - A node that is answered by datagrams opens none but, before it founds a cluster, those to the seeds that did not
//!   answer (one may have another key, and say so: see `joining::status`), and one to a sponsor whose pages of the
//!   view, which are larger, do not come (see `transfer`).
//! - Whoever is at the other end of a bootstrap link is told the same of this node once in [`TOLD_INTERVAL`], however
//!   often others report it as gone: after a pause that may be hundreds of times at one moment.
//!
//! Must not know: what questions mean.

use std::collections::BTreeMap;
use std::net::SocketAddr;

use super::Paths;
use crate::context::Context;
use crate::counters::DropReason;
use crate::io::{LinkId, Output};
use crate::limits::{BOOTSTRAP_LIFE, BOOTSTRAP_LINGER, MAX_BOOTSTRAP_LINKS, TOLD_INTERVAL};
use crate::member::Status;
use crate::time::Time;
use crate::view::View;

/// Bootstrap links, by the address at the other end.
#[derive(Debug, Clone, Default)]
pub(crate) struct BootstrapLinks {
    at: BTreeMap<SocketAddr, BootstrapLink>,
}

#[derive(Debug, Clone)]
struct BootstrapLink {
    link: LinkId,
    is_connected: bool,
    until: Time,
    /// The packet that is sent as soon as the link is connected, instead of a question.
    first: Option<Vec<u8>>,
    /// The incarnation and status of this node that were told last, and the time of that.
    told: Option<((u64, Status), Time)>,
}

impl BootstrapLink {
    fn new(link: LinkId, is_connected: bool, now: Time) -> Self {
        Self { link, is_connected, until: now + BOOTSTRAP_LIFE, first: None, told: None }
    }
}

impl BootstrapLinks {
    /// Returns the address at the other end of a connection, if that is a bootstrap link; there are few.
    pub(crate) fn address_of(&self, link: LinkId) -> Option<SocketAddr> {
        self.at.iter().find(|(_, bootstrap)| bootstrap.link == link).map(|(address, _)| *address)
    }

    /// Returns true if this is a bootstrap link that this node opened to this address.
    pub(crate) fn leads_to(&self, link: LinkId, address: SocketAddr) -> bool {
        matches!(link, LinkId::Opened(_)) && self.address_of(link) == Some(address)
    }

    /// Returns true if an accepted bootstrap link comes from this (passing) address.
    pub(crate) fn is_from(&self, address: SocketAddr) -> bool {
        self.at.get(&address).is_some_and(|bootstrap| matches!(bootstrap.link, LinkId::Accepted(_)))
    }

    /// Returns true if there is a bootstrap link to or from an address.
    pub(crate) fn is_at(&self, address: SocketAddr) -> bool {
        self.at.contains_key(&address)
    }

    /// Returns the connected bootstrap link to an address.
    pub(crate) fn connected_to(&self, address: SocketAddr) -> Option<LinkId> {
        self.at.get(&address).filter(|bootstrap| bootstrap.is_connected).map(|bootstrap| bootstrap.link)
    }

    pub(crate) fn len(&self) -> usize {
        self.at.len()
    }

    /// Returns the bootstrap links that this node opened, or those that it accepted.
    fn of_kind(&self, is_accepted: bool) -> impl Iterator<Item = &BootstrapLink> {
        self.at.values().filter(move |bootstrap| matches!(bootstrap.link, LinkId::Accepted(_)) == is_accepted)
    }

    /// Returns true if a bootstrap link is connected.
    pub(crate) fn is_any_connected(&self) -> bool {
        self.at.values().any(|bootstrap| bootstrap.is_connected)
    }

    /// Returns the addresses at the other ends of connected bootstrap links that were not told the same a moment ago,
    /// and takes note that they are told now.
    pub(crate) fn begin_to_tell(&mut self, news: (u64, Status), now: Time) -> Vec<SocketAddr> {
        let is_news = |bootstrap: &BootstrapLink| {
            bootstrap.told.is_none_or(|(told, at)| told != news || now.since(at) >= TOLD_INTERVAL)
        };
        let due = self.at.iter_mut().filter(|(_, bootstrap)| bootstrap.is_connected && is_news(bootstrap));
        let tell = |(address, bootstrap): (&SocketAddr, &mut BootstrapLink)| {
            bootstrap.told = Some((news, now));
            *address
        };
        due.map(tell).collect()
    }

    pub(crate) fn remove(&mut self, link: LinkId) -> Option<SocketAddr> {
        let address = self.address_of(link)?;
        self.at.remove(&address);
        Some(address)
    }

    /// Takes note that a bootstrap link is connected; returns the packet that it is to begin with.
    pub(crate) fn connected(&mut self, address: SocketAddr) -> Option<Vec<u8>> {
        let bootstrap = self.at.get_mut(&address)?;
        bootstrap.is_connected = true;
        bootstrap.first.take()
    }
}

impl Paths {
    /// Opens a bootstrap link to an address that does not answer datagrams, if there is room for one, and none there; never to
    /// this node's own address.
    pub(crate) fn open_bootstrap(&mut self, cx: &mut Context, view: &View, address: SocketAddr) {
        if address == view.me().address || self.bootstrap.is_at(address) {
            return;
        }
        self.end_old_bootstraps(cx);
        if self.make_room_for_bootstrap(cx, false) {
            let link = self.links.next_number();
            self.bootstrap.at.insert(address, BootstrapLink::new(link, false, cx.now));
            cx.output(Output::OpenLink { link, to: address });
        }
    }

    /// Takes an accepted link as a bootstrap link from this address; returns true if there is room for one, and
    /// none to or from that address.
    pub(crate) fn accept_bootstrap(&mut self, cx: &mut Context, link: LinkId, from: SocketAddr) -> bool {
        if self.bootstrap.is_at(from) {
            return false;
        }
        self.end_old_bootstraps(cx);
        let has_room = self.make_room_for_bootstrap(cx, true);
        if has_room {
            self.bootstrap.at.insert(from, BootstrapLink::new(link, true, cx.now));
        }
        has_room
    }

    /// Has a bootstrap link begin with this packet, if it is not connected yet: one that is carries a copy of each
    /// packet anyway. Returns false if there is no bootstrap link to this address.
    pub(crate) fn say_first(&mut self, address: SocketAddr, bytes: Vec<u8>) -> bool {
        let Some(bootstrap) = self.bootstrap.at.get_mut(&address) else { return false };
        if !bootstrap.is_connected {
            bootstrap.first = Some(bytes);
        }
        true
    }

    /// Gives up bootstrap links that are not connected: nothing got through when they were begun.
    pub(crate) fn give_up_hung_bootstraps(&mut self, cx: &mut Context, is_meant: impl Fn(SocketAddr) -> bool) {
        let hung =
            self.bootstrap.at.iter().filter(|(address, bootstrap)| !bootstrap.is_connected && is_meant(**address));
        for link in hung.map(|(_, bootstrap)| bootstrap.link).collect::<Vec<_>>() {
            self.close_bootstrap(cx, link);
        }
    }

    /// Closes bootstrap links that have lasted long enough.
    pub(crate) fn end_old_bootstraps(&mut self, cx: &mut Context) {
        let old = self.bootstrap.at.iter().filter(|(_, bootstrap)| bootstrap.until <= cx.now);
        let old: Vec<_> = old.map(|(address, bootstrap)| (*address, bootstrap.link, bootstrap.is_connected)).collect();
        for (address, link, is_connected) in old {
            if !is_connected {
                self.unreached.push(address);
            }
            self.close_bootstrap(cx, link);
        }
    }

    /// Closes the bootstrap links to these addresses in a moment: what goes by them now is perhaps the last, or they are
    /// needed until this node is linked.
    pub(crate) fn end_bootstraps_soon(&mut self, now: Time, is_meant: impl Fn(SocketAddr) -> bool) {
        for (_, bootstrap) in self.bootstrap.at.iter_mut().filter(|(address, _)| is_meant(**address)) {
            bootstrap.until = bootstrap.until.min(now + BOOTSTRAP_LINGER);
        }
    }

    /// Closes all bootstrap links.
    pub(crate) fn close_bootstraps(&mut self, cx: &mut Context) {
        let mut links: Vec<LinkId> = self.bootstrap.at.values().map(|bootstrap| bootstrap.link).collect();
        links.sort_unstable();
        for link in links {
            self.close_bootstrap(cx, link);
        }
    }

    /// Closes a bootstrap link.
    pub(crate) fn close_bootstrap(&mut self, cx: &mut Context, link: LinkId) {
        if self.bootstrap.remove(link).is_some() {
            cx.output(Output::CloseLink { link });
        }
    }

    /// Makes room for one more bootstrap link, opened or accepted, of which the oldest gives way; returns false if
    /// there is none.
    fn make_room_for_bootstrap(&mut self, cx: &mut Context, is_accepted: bool) -> bool {
        if self.bootstrap.of_kind(is_accepted).count() < MAX_BOOTSTRAP_LINKS {
            return true;
        }
        // One that began a moment ago is amid its question: the next one comes again.
        let lasted = cx.now + BOOTSTRAP_LIFE - BOOTSTRAP_LIFE / 4;
        let oldest = self
            .bootstrap
            .of_kind(is_accepted)
            .min_by_key(|bootstrap| bootstrap.until)
            .filter(|bootstrap| bootstrap.until <= lasted);
        let Some(link) = oldest.map(|bootstrap| bootstrap.link) else {
            cx.counters.drop(DropReason::TableFull);
            return false;
        };
        self.close_bootstrap(cx, link);
        true
    }
}
