//! The way that a packet takes.

use crate::io::LinkId;

/// The way by which packets reach a member; answers take the way of the question.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Way {
    #[default]
    Datagrams,
    /// Sealed datagrams that are bound to no receiver; answers are datagrams. Nobody is a member by this way.
    Unbound,
    Link(LinkId),
}
