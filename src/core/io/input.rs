//! The inputs of the core.

use std::net::SocketAddr;
use std::time::Duration;

#[cfg(doc)]
use super::Output;
use super::{Command, Unopened};
use crate::election::Term;

/// One input of the core.
#[derive(Debug)]
pub enum Input<'a> {
    /// A datagram arrived: clear, or sealed for this run.
    Packet {
        /// The source address of the datagram.
        from: SocketAddr,
        /// The payload of the datagram.
        bytes: &'a [u8],
    },
    /// A sealed datagram arrived that is bound to no receiver: it was meant for anybody, and may have been played here by
    /// somebody who recorded it. Its sender is taken for a stranger, or for one that claims to be a member.
    UnboundPacket {
        /// The source address of the datagram.
        from: SocketAddr,
        /// The packet that was sealed.
        bytes: &'a [u8],
    },
    /// Time passed: fires the timers that are due. Only this input fires timers, so that a driver that comes late can
    /// first hand in the packets that arrived meanwhile.
    Tick,
    /// The driver comes late, and itself worked for so long since the deadline that has passed, on inputs and their
    /// outputs. That much of its delay is no starvation, and says nothing against its observation. Given before the
    /// input that comes late; a driver that cannot tell never gives it.
    Worked(Duration),
    /// A command of the user.
    Command(Command),
    /// The answer to [`Output::ResolveSeeds`]: for each seed, in order of configuration, all its addresses (none, if
    /// its name did not resolve). It may be given again whenever it has changed; addresses that are the same as before
    /// change nothing, and a node that is joining asks every new address at once.
    SeedAddresses(Vec<Vec<SocketAddr>>),
    /// A first part of the answer to [`Output::ResolveSeeds`], without addresses for names that are still being looked
    /// up, so that a name server that does not answer delays no seed whose address is known. To be given as often as
    /// more names have resolved, and to be followed by [`Input::SeedAddresses`]: until then a seed does not conclude
    /// that it is alone.
    SomeSeedAddresses(Vec<Vec<SocketAddr>>),
    /// The answer to [`Output::Persist`]: the state that was given out last is on disk.
    Persisted {
        /// The incarnation bound that is stored now.
        incarnation_bound: u64,
        /// The version of the ballot that is stored now; 0 if none is.
        ballot_version: u64,
    },
    /// The disk did not accept the state that [`Output::Persist`] gave out last; the driver tries again by itself. A
    /// voter whose ballot was stored before goes on: it stands aside as soon as a ballot is not stored. So every
    /// failure is reported, and a driver that can write no more at all reports one after each [`Output::Persist`].
    PersistFailed,
    /// The answer to [`Output::EndWork`]: all led work of this term has ended.
    WorkEnded {
        /// The term in the output.
        term: Term,
    },
    /// The wall clock, in milliseconds since 1970. To be given again whenever [`Alarm::ClockBehind`] is told: that of a small
    /// machine is set only when it has found a time server.
    ///
    /// [`Alarm::ClockBehind`]: crate::election::Alarm::ClockBehind
    WallClock(u64),
    /// Something happened to a TCP connection. A driver without TCP never gives this input: everything but the
    /// immediate report of a crash works without links.
    Link {
        /// The link.
        link: LinkId,
        /// The event.
        event: LinkEvent<'a>,
    },
}

/// The name of one TCP connection of this process. Numbers are never used again.
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
    /// [`Output::OpenLink`] was refused: the system answered, but no process listens there.
    Refused,
    /// [`Output::OpenLink`] failed in any other way: the state of the process at that address is unknown.
    Unreachable,
    /// A frame arrived: it has the format of a packet.
    Frame {
        /// The other end's address.
        from: SocketAddr,
        /// The frame.
        bytes: &'a [u8],
    },
    /// The connection is over, whichever end closed it; it has no further events.
    Closed,
    /// The connection has ended, since the other end does not take what this node sent first, as it said.
    Unopened(Unopened),
}
