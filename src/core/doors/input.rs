//! The way in.

use std::net::SocketAddr;

use super::Command;
#[cfg(doc)]
use super::Output;
use crate::core::election::Term;

/// One input of the core.
#[derive(Debug)]
pub enum Input<'a> {
    /// A datagram arrived.
    Packet {
        /// Its source address.
        from: SocketAddr,
        /// Its payload.
        bytes: &'a [u8],
    },
    /// Time passed: fires what is due. Only this fires timers, so that a driver that comes late can hand in the packets
    /// that arrived meanwhile first.
    Tick,
    /// The user wants something.
    Command(Command),
    /// The answer to [`Output::ResolveSeeds`]: for each seed, in order of configuration, all its addresses (none, if its
    /// name did not resolve). It may be given again whenever it has changed; what is the same as before changes nothing, and
    /// a node that is joining asks every address that is new at once.
    SeedAddresses(Vec<Vec<SocketAddr>>),
    /// A first part of that answer: the same, but with no addresses for names that are still being looked up, so that a
    /// name server that does not answer delays no seed whose address is known. To be given as often as there is more to
    /// tell, and to be followed by [`Input::SeedAddresses`]: until then a seed does not think that it is alone.
    SomeSeedAddresses(Vec<Vec<SocketAddr>>),
    /// The answer to [`Output::Persist`]: what was given out last is on disk.
    Persisted {
        /// The bound that is stored now.
        incarnation_bound: u64,
        /// The version of the ballot that is stored now; 0 if none is.
        ballot_version: u64,
    },
    /// The disk did not take what [`Output::Persist`] gave out last; it is tried again without being asked. A voter whose
    /// ballot was stored before goes on: it stands aside as soon as a ballot is not stored. So every failure is told, and
    /// who can write no more at all says so after each [`Output::Persist`].
    PersistFailed,
    /// The answer to [`Output::EndWork`]: all that was led in this term has ended.
    WorkEnded {
        /// As asked.
        term: Term,
    },
    /// Something happened to a TCP connection. A driver without TCP hands in nothing: everything but the immediate
    /// report of a crash works without links.
    Link {
        /// The link that it happened to.
        link: LinkId,
        /// What.
        event: LinkEvent<'a>,
    },
}

/// Names one TCP connection of this process. Numbers are never used again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum LinkId {
    /// Opened by this node; the core draws the number.
    Opened(u64),
    /// Opened by another node; the driver draws the number.
    Accepted(u64),
}

/// An event of a link. The first event of an accepted one is its first frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LinkEvent<'a> {
    /// [`Output::OpenLink`] succeeded.
    Connected,
    /// [`Output::OpenLink`] was refused: a system answered, and nobody listens there.
    Refused,
    /// [`Output::OpenLink`] failed in any other way: nothing is known about the process at that address.
    Unreachable,
    /// A frame arrived: the same bytes as a packet.
    Frame {
        /// The other end's address.
        from: SocketAddr,
        /// The frame.
        bytes: &'a [u8],
    },
    /// The connection is over, whoever ended it; nothing more comes of it.
    Closed,
}
