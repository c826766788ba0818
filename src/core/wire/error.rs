//! The reasons why bytes are not a packet.

use crate::member::ProtocolRange;

/// The reason why a datagram is not a valid packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PacketError {
    /// Not our format, cut short, out of bounds, or not the canonical encoding.
    #[error("malformed packet")]
    Malformed,
    /// A format version that this build does not speak.
    #[error("unknown format version {found}")]
    UnknownVersion {
        /// The version found.
        found: u8,
    },
    /// The sender does not speak our format version, and said so.
    #[error("refused: the sender speaks versions {} to {}", speaks.min, speaks.max)]
    Refused {
        /// The versions that it speaks.
        speaks: ProtocolRange,
    },
    /// Sealed, or sealed with a key that is not known.
    #[error("sealed with unknown key {found}")]
    UnknownKey {
        /// The key id found.
        found: u8,
    },
}
