//! Payloads: what a program sends, as bytes.

use std::fmt;
use std::ops::Deref;
use std::sync::Arc;

use serde::de::{self, Deserialize, Deserializer, SeqAccess, Visitor};
use serde::{Serialize, Serializer};

use crate::limits::MAX_PAYLOAD_BYTES;

/// The bytes of one message, at most [`MAX_PAYLOAD_BYTES`] of them. Cheap to clone.
#[derive(Clone, PartialEq, Eq)]
pub struct Payload(Arc<[u8]>);

/// A payload is longer than [`MAX_PAYLOAD_BYTES`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a payload has at most 65536 bytes, this one has {bytes}: send where the data is instead")]
pub struct TooLarge {
    /// The length of the payload, in bytes.
    pub bytes: usize,
}

impl Payload {
    /// Checks the length.
    pub fn new(bytes: &[u8]) -> Result<Self, TooLarge> {
        if bytes.len() <= MAX_PAYLOAD_BYTES { Ok(Self(bytes.into())) } else { Err(TooLarge { bytes: bytes.len() }) }
    }
}

impl Deref for Payload {
    type Target = [u8];
    fn deref(&self) -> &[u8] {
        &self.0
    }
}

impl fmt::Debug for Payload {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} bytes", self.0.len())
    }
}

impl Serialize for Payload {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_bytes(&self.0)
    }
}

impl<'de> Deserialize<'de> for Payload {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct PayloadVisitor;
        impl<'de> Visitor<'de> for PayloadVisitor {
            type Value = Payload;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a payload")
            }
            fn visit_bytes<E: de::Error>(self, bytes: &[u8]) -> Result<Payload, E> {
                Payload::new(bytes).map_err(E::custom)
            }
            fn visit_seq<A: SeqAccess<'de>>(self, mut bytes: A) -> Result<Payload, A::Error> {
                let mut all = Vec::new();
                while let Some(byte) = bytes.next_element()? {
                    all.push(byte);
                    if all.len() > MAX_PAYLOAD_BYTES {
                        return Err(de::Error::custom(TooLarge { bytes: all.len() }));
                    }
                }
                Payload::new(&all).map_err(de::Error::custom)
            }
        }
        deserializer.deserialize_bytes(PayloadVisitor)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_payload_decodes_and_one_byte_more_does_not() {
        let longest = Payload::new(&vec![7; MAX_PAYLOAD_BYTES]).expect("fits");
        let mut bytes = postcard::to_allocvec(&longest).expect("encodes");
        assert_eq!(postcard::from_bytes::<Payload>(&bytes).expect("decodes"), longest);
        assert_eq!(Payload::new(&vec![7; MAX_PAYLOAD_BYTES + 1]), Err(TooLarge { bytes: MAX_PAYLOAD_BYTES + 1 }));
        // Its length as a varint, one more, and the byte itself.
        assert_eq!(bytes[..3], [0x80, 0x80, 0x04]);
        bytes[0] = 0x81;
        bytes.push(7);
        assert!(postcard::from_bytes::<Payload>(&bytes).is_err());
    }
}
