//! The sender of one packet, as it stands when the packet comes. `senders` says how its kind is judged.

use std::net::SocketAddr;

use super::way::Way;
use crate::member::Run;
use crate::view::Slot;

/// The origin of a packet.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Sender {
    pub(crate) from: SocketAddr,
    pub(crate) run: Run,
    /// Its standing with this node when the packet came.
    pub(crate) kind: SenderKind,
    /// The way it came; answers go the same way.
    pub(crate) way: Way,
    /// Size of the packet: no answer to an unproven address is larger. Where datagrams are sealed it is less, so that it is
    /// true of what travels.
    pub(crate) bytes: usize,
}

/// The relation of a packet's sender to this node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SenderKind {
    /// A member: whoever bears its run, wherever it is.
    Member(Slot),
    /// Somebody who bears this member's run by a connection that is not known to lead to it, or by a packet that is bound to
    /// nobody.
    ClaimsMember(Slot),
    /// A node whose run is not in the view, or an anonymous one.
    Stranger,
}
