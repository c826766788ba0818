//! The cipher, and the nonces of everything that is sealed: the page of `seal` argues that none is used twice.

use orion::hazardous::aead::xchacha20poly1305::{Nonce as RawNonce, SecretKey, Tag, XChaCha20Poly1305};

use headcount_core::Run;

/// The length of a tag, in bytes.
pub(super) const TAG_BYTES: usize = 16;

/// The kinds of things that are sealed, each with nonces of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Channel {
    Datagram = 1,
    OpenerGreeting = 2,
    AcceptorGreeting = 3,
    OpenerFrame = 4,
    AcceptorFrame = 5,
    /// The empty message whose tag names a key.
    KeyId = 255,
}

/// A nonce.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Nonce([u8; 24]);

impl Nonce {
    /// The greatest place that a nonce has room for.
    pub(super) const MAX_PLACE: u64 = (1 << 56) - 1;

    pub(super) fn new(channel: Channel, run: Run, number: u64, place: u64) -> Self {
        debug_assert!(place <= Self::MAX_PLACE, "a link ends before");
        let mut bytes = [0; 24];
        bytes[0] = channel as u8;
        bytes[1..9].copy_from_slice(&run.0.to_le_bytes());
        bytes[9..17].copy_from_slice(&number.to_le_bytes());
        bytes[17..].copy_from_slice(&place.to_le_bytes()[..7]);
        Self(bytes)
    }

    /// The nonce under which every key seals an empty message once, to be named by its tag.
    pub(super) fn of_key_id() -> Self {
        Self::new(Channel::KeyId, Run(0), 0, 0)
    }
}

/// Encrypts in place, and returns the tag.
pub(super) fn seal(key: &SecretKey, nonce: Nonce, header: &[u8], bytes: &mut [u8]) -> [u8; TAG_BYTES] {
    let tag = XChaCha20Poly1305::seal_inplace(key, &RawNonce::from(nonce.0), Some(header), bytes);
    let tag = tag.expect("far below the cipher's limits of length");
    let mut raw = [0; TAG_BYTES];
    raw.copy_from_slice(tag.unprotected_as_ref());
    raw
}

/// Checks the tag and decrypts in place; returns false, and leaves the bytes as they are, if it does not match.
pub(super) fn open(key: &SecretKey, nonce: Nonce, header: &[u8], bytes: &mut [u8], tag: &[u8]) -> bool {
    let Ok(tag) = Tag::try_from(tag) else { return false };
    XChaCha20Poly1305::open_inplace(key, &RawNonce::from(nonce.0), &tag, Some(header), bytes).is_ok()
}

/// Appends a number as a varint.
pub(super) fn push_varint(bytes: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        bytes.push(number as u8 | 0x80);
        number >>= 7;
    }
    bytes.push(number as u8);
}

/// Splits a varint off; `None` if there is none in its one shortest form.
pub(super) fn split_varint(bytes: &[u8]) -> Option<(u64, &[u8])> {
    let mut number = 0_u64;
    for (place, byte) in bytes.iter().copied().enumerate().take(10) {
        let bits = u64::from(byte & 0x7f);
        if place == 9 && bits > 1 {
            return None;
        }
        number |= bits << (7 * place);
        if byte & 0x80 == 0 {
            return (byte != 0 || place == 0).then(|| (number, &bytes[place + 1..]));
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn varints_are_postcards_and_have_one_form(number: u64, rest: Vec<u8>) {
            let mut bytes = Vec::new();
            push_varint(&mut bytes, number);
            prop_assert_eq!(&bytes, &postcard::to_allocvec(&number).expect("fits"));
            bytes.extend_from_slice(&rest);
            prop_assert_eq!(split_varint(&bytes), Some((number, &rest[..])));
        }

        #[test]
        fn no_bytes_make_reading_a_varint_panic(bytes: Vec<u8>) {
            if let Some((number, rest)) = split_varint(&bytes) {
                let mut again = Vec::new();
                push_varint(&mut again, number);
                prop_assert_eq!(&again[..], &bytes[..bytes.len() - rest.len()]);
            }
        }
    }
}
