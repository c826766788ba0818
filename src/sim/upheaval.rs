//! The state of the world at the time of an operation, by which it is decided later what was promised.
//!
//! Must not know: what is promised.

use super::network::Nanos;

/// The state of the world at the time of an operation.
#[derive(Debug, Clone, Copy)]
pub(crate) struct UpheavalContext {
    /// Number of upheavals, this one included.
    pub(super) upheavals: u64,
    /// Time without any upheaval before this one.
    pub(super) peace: Nanos,
    /// Time without any upheaval that may break links.
    pub(super) links_peace: Nanos,
    /// True if neither the network nor any process was disturbed.
    pub(super) is_calm: bool,
}
