//! The sender of one packet, as it stands when the packet comes. `senders` says how its kind is judged.

use std::net::SocketAddr;

use super::way::Way;
use crate::core::member::Run;
use crate::core::view::Slot;

/// The origin of a packet.
#[derive(Debug, Clone, Copy)]
pub(in crate::core) struct Sender {
    pub(in crate::core) from: SocketAddr,
    pub(in crate::core) run: Run,
    /// Its standing with this node when the packet came.
    pub(in crate::core) kind: SenderKind,
    /// The way it came; answers go the same way.
    pub(in crate::core) way: Way,
    /// Size of the packet: no answer to an unproven address is larger. Where datagrams are sealed it is less, so that it is
    /// true of what travels.
    pub(in crate::core) bytes: usize,
}

/// The relation of a packet's sender to this node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::core) enum SenderKind {
    /// A member: whoever bears its run, wherever it is.
    Member(Slot),
    /// Somebody who bears this member's run by a connection that is not known to lead to it, or by a packet that is bound to
    /// nobody.
    ClaimsMember(Slot),
    /// A node whose run is not in the view, or an anonymous one.
    Stranger,
}
