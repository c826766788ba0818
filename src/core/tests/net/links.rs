//! The network's TCP: connections between processes, with the latency of datagrams.
//!
//! Frames of one end arrive in order, and its end last. A process that ends closes its connections (its kernel does), a
//! host that loses its power closes nothing. A port where nobody listens refuses; what is dropped is answered by
//! nobody.
//!
//! Must not know: what frames say.

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;

use super::Net;
use headcount_core::{Input, LinkEvent, LinkId, StopReason, Time, Unopened};

/// A node and one of its links.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct End {
    node: usize,
    link: LinkId,
}

/// The treatment of TCP by firewalls.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Tcp {
    /// TCP passes.
    #[default]
    Open,
    /// New connections are refused, and those that stand are reset.
    Rejected,
    /// Everything is dropped.
    Dropped,
}

/// Something on its way between two processes.
#[derive(Debug)]
enum Flight {
    Syn {
        opener: End,
        to: SocketAddr,
    },
    Outcome {
        end: End,
        is_connected: bool,
    },
    Frame {
        end: End,
        bytes: Vec<u8>,
    },
    Fin {
        end: End,
    },
    /// The end of a connection whose first frame the other end does not open.
    Unopened {
        end: End,
    },
}

/// An event of a link that waits at a process that is paused.
#[derive(Debug)]
pub(super) struct Parked(LinkId, Arrival);

#[derive(Debug)]
enum Arrival {
    Connected,
    Refused,
    Frame(SocketAddr, Vec<u8>),
    Closed,
    Unopened,
}

/// All connections.
#[derive(Debug, Default)]
pub(super) struct Wires {
    /// True if there is TCP at all.
    is_laid: bool,
    tcp: Tcp,
    /// The other end of each end.
    ends: BTreeMap<End, End>,
    attempts: BTreeSet<End>,
    /// Ends of connections by which nothing passes any more, and that nobody told.
    stranded: BTreeSet<End>,
    in_flight: BTreeMap<(Time, u64), Flight>,
    /// Nodes whose hosts have no power.
    off: BTreeSet<usize>,
    accepted: u64,
    /// Attempts of each node.
    opened: BTreeMap<usize, usize>,
    /// Pairs between which no datagram passes, from one to the other.
    no_datagrams: BTreeSet<(usize, usize)>,
    /// No datagram passes between anybody.
    has_no_datagrams: bool,
    /// Nodes with a key of their own, by its number.
    keys: BTreeMap<usize, u8>,
    /// The nodes of [`Wires::keys`] have the others' key, and another name of their cluster.
    are_named_otherwise: bool,
}

impl Wires {
    pub(super) fn next(&self) -> Option<(Time, u64)> {
        self.in_flight.keys().next().copied()
    }

    pub(super) fn blocks_datagrams(&self, from: Option<usize>, to: usize) -> bool {
        let is_blocked = |from| self.no_datagrams.contains(&(from, to)) || !self.have_one_key(from, to);
        self.has_no_datagrams || from.is_some_and(is_blocked)
    }

    fn have_one_key(&self, one: usize, other: usize) -> bool {
        self.keys.get(&one) == self.keys.get(&other)
    }
}

impl Net {
    /// Gives a node another key than those have that were given none, and the same as those of this number.
    pub(crate) fn set_key(&mut self, node: usize, key: u8) {
        self.wires.keys.insert(node, key);
    }

    /// Puts a node into a cluster of another name, with the same key.
    pub(crate) fn set_name(&mut self, node: usize) {
        self.set_key(node, 0);
        self.wires.are_named_otherwise = true;
    }

    /// Gives a node the key of those that were given none.
    pub(crate) fn right_key(&mut self, node: usize) {
        self.wires.keys.remove(&node);
    }

    /// Lets nodes open links from now on.
    pub(crate) fn lay_wires(&mut self) {
        self.wires.is_laid = true;
    }

    /// Sets the treatment of TCP by firewalls from now on.
    pub(crate) fn set_tcp(&mut self, tcp: Tcp) {
        self.wires.tcp = tcp;
        if tcp == Tcp::Rejected {
            for end in std::mem::take(&mut self.wires.ends).into_keys() {
                self.fly(Flight::Fin { end });
            }
        }
    }

    /// Blocks all datagrams, or lets them pass.
    pub(crate) fn block_all_datagrams(&mut self, is_blocked: bool) {
        self.wires.has_no_datagrams = is_blocked;
    }

    /// Blocks the datagrams of one node to another, or lets them pass.
    pub(crate) fn block_datagrams(&mut self, from: usize, to: usize, is_blocked: bool) {
        if is_blocked {
            self.wires.no_datagrams.insert((from, to));
        } else {
            self.wires.no_datagrams.remove(&(from, to));
        }
    }

    /// Takes a host's power: nobody says goodbye, and nobody answers.
    pub(crate) fn power_off(&mut self, node: usize) {
        self.nodes[node].stopped = Some(StopReason::Left);
        self.wires.off.insert(node);
        self.wires.ends.retain(|end, _| end.node != node);
    }

    /// Ends all connections between two nodes, as a router does that forgets them.
    pub(crate) fn reset_links(&mut self, one: usize, other: usize) {
        let between = |a: &End, b: &End| (a.node, b.node) == (one, other) || (a.node, b.node) == (other, one);
        let ends: Vec<End> = self.wires.ends.iter().filter(|(a, b)| between(a, b)).map(|(end, _)| *end).collect();
        for end in ends {
            self.wires.ends.remove(&end);
            self.fly(Flight::Fin { end });
        }
    }

    /// Has a node bind another socket, and lose the old one, with all connections: nobody is told of that.
    pub(crate) fn rehouse(&mut self, node: usize, host: usize) {
        self.rehouse_to(node, super::address(host));
    }

    /// Does the same at this address.
    pub(crate) fn rehouse_to(&mut self, node: usize, address: SocketAddr) {
        self.nodes[node].address = address;
        self.strand(|one, other| one == node || other == node);
        self.wires.attempts.retain(|end| end.node != node);
    }

    /// Cuts the connections that stand between two nodes, and tells neither.
    pub(crate) fn strand_links(&mut self, one: usize, other: usize) {
        self.strand(|a, b| (a, b) == (one, other) || (a, b) == (other, one));
    }

    fn strand(&mut self, is_between: impl Fn(usize, usize) -> bool) {
        let ends = self.wires.ends.iter().filter(|(a, b)| is_between(a.node, b.node));
        self.wires.stranded.extend(ends.map(|(end, _)| *end));
    }

    /// Connections between two nodes.
    pub(crate) fn connections(&self, one: usize, other: usize) -> usize {
        self.wires.ends.iter().filter(|(a, b)| (a.node, b.node) == (one, other)).count()
    }

    /// Returns the number of times that a node tried to open a link.
    pub(crate) fn attempts_of(&self, node: usize) -> usize {
        self.wires.opened.get(&node).copied().unwrap_or(0)
    }

    fn fly(&mut self, flight: Flight) {
        self.counter += 1;
        self.wires.in_flight.insert((self.now + self.latency, self.counter), flight);
    }

    pub(super) fn open_link(&mut self, node: usize, link: LinkId, to: SocketAddr) {
        *self.wires.opened.entry(node).or_default() += 1;
        if self.wires.is_laid {
            let opener = End { node, link };
            self.wires.attempts.insert(opener);
            self.fly(Flight::Syn { opener, to });
        }
    }

    pub(super) fn send_frame(&mut self, node: usize, link: LinkId, bytes: Vec<u8>) {
        let sender = End { node, link };
        if let Some(end) = self.wires.ends.get(&sender).copied().filter(|_| !self.wires.stranded.contains(&sender)) {
            self.fly(Flight::Frame { end, bytes });
        }
    }

    pub(super) fn close_link(&mut self, node: usize, link: LinkId) {
        let end = End { node, link };
        self.wires.attempts.remove(&end);
        if let Some(other) = self.wires.ends.get(&end).copied() {
            // Frames that were sent before arrive before; nothing comes back.
            self.wires.ends.remove(&end);
            if !self.wires.stranded.remove(&end) {
                self.fly(Flight::Fin { end: other });
            }
        }
    }

    /// Closes the links that a process leaves behind, as its kernel does.
    pub(crate) fn close_links_of(&mut self, node: usize) {
        let links: Vec<LinkId> = self.wires.ends.keys().filter(|end| end.node == node).map(|end| end.link).collect();
        for link in links {
            self.close_link(node, link);
        }
        self.wires.attempts.retain(|end| end.node != node);
    }

    /// Hands in what arrives first.
    pub(super) fn land(&mut self) {
        let Some((_, flight)) = self.wires.in_flight.pop_first() else { return };
        match flight {
            Flight::Syn { opener, to } => self.asked_to_connect(opener, to),
            Flight::Outcome { end, is_connected } => {
                if self.wires.attempts.remove(&end) {
                    self.arrive(end, if is_connected { Arrival::Connected } else { Arrival::Refused });
                }
            }
            Flight::Frame { end, bytes } => {
                // Frames to an end that was closed are lost.
                let Some(sender) = self.wires.ends.get(&end).copied() else { return };
                if self.wires.tcp == Tcp::Dropped || self.cut.contains(&(sender.node, end.node)) {
                    return;
                }
                let mut from = self.nodes[sender.node].address;
                if let LinkId::Accepted(number) = end.link {
                    // As a kernel tells it: the other end's port is a passing one.
                    from.set_port(40_000 + (number % 20_000) as u16);
                }
                self.arrive(end, Arrival::Frame(from, bytes));
            }
            Flight::Fin { end } => {
                self.wires.ends.remove(&end);
                self.arrive(end, Arrival::Closed);
            }
            Flight::Unopened { end } => self.arrive(end, Arrival::Unopened),
        }
    }

    fn asked_to_connect(&mut self, opener: End, to: SocketAddr) {
        if !self.wires.attempts.contains(&opener) || self.wires.tcp == Tcp::Dropped {
            return;
        }
        let host = self.nodes.iter().rposition(|node| node.address == to);
        let Some(host) = host.filter(|host| !self.wires.off.contains(host)) else { return };
        if self.cut.contains(&(opener.node, host)) || self.cut.contains(&(host, opener.node)) {
            return;
        }
        let running = self.nodes.iter().rposition(|node| node.address == to && node.stopped.is_none());
        let is_connected = running.is_some() && self.wires.tcp == Tcp::Open;
        if running.is_some_and(|node| is_connected && !self.wires.have_one_key(opener.node, node)) {
            self.fly(Flight::Outcome { end: opener, is_connected });
            return self.fly(Flight::Unopened { end: opener });
        }
        if let Some(node) = running.filter(|_| is_connected) {
            self.wires.accepted += 1;
            let accepted = End { node, link: LinkId::Accepted(self.wires.accepted) };
            self.wires.ends.insert(opener, accepted);
            self.wires.ends.insert(accepted, opener);
        }
        self.fly(Flight::Outcome { end: opener, is_connected });
    }

    fn arrive(&mut self, end: End, arrival: Arrival) {
        if self.nodes[end.node].paused {
            self.nodes[end.node].parked_links.push(Parked(end.link, arrival));
        } else {
            self.hand_in(end.node, end.link, &arrival);
        }
    }

    /// Hands in what waited while a process was paused.
    pub(super) fn unpark_links(&mut self, node: usize) {
        for Parked(link, arrival) in std::mem::take(&mut self.nodes[node].parked_links) {
            self.hand_in(node, link, &arrival);
        }
    }

    fn hand_in(&mut self, node: usize, link: LinkId, arrival: &Arrival) {
        let event = match arrival {
            Arrival::Connected => LinkEvent::Connected,
            Arrival::Refused => LinkEvent::Refused,
            Arrival::Frame(from, bytes) => LinkEvent::Frame { from: *from, bytes },
            Arrival::Closed => LinkEvent::Closed,
            Arrival::Unopened if self.wires.are_named_otherwise => LinkEvent::Unopened(Unopened::OtherCluster),
            Arrival::Unopened => LinkEvent::Unopened(Unopened::OtherKey),
        };
        self.input(node, Input::Link { link, event });
    }
}
