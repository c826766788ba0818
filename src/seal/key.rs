//! Keys, and the ids by which everybody names them.

use std::fmt;
use std::io;
use std::str::FromStr;
use std::sync::Arc;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use orion::hazardous::aead::xchacha20poly1305::SecretKey;
use rand::TryRng as _;
use rand::rngs::SysRng;
use zeroize::Zeroizing;

use super::cipher::{self, Nonce};

/// A secret of 32 random bytes that all members of a cluster share. Cheap to clone; overwritten when the last clone is dropped.
#[derive(Clone)]
pub struct Key(Arc<Inner>);

struct Inner {
    secret: SecretKey,
    id: KeyId,
}

/// The name of a key: four bytes that follow from it, and tell nothing else about it. It stands in every sealed packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct KeyId(pub [u8; KeyId::BYTES]);

/// Error: a text is not a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a key is 32 random bytes in base64 (44 characters)")]
pub struct InvalidKey;

/// Error: a text is not the id of a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the id of a key has 8 hexadecimal digits, as `headcount keys list` shows it")]
pub struct InvalidKeyId;

impl Key {
    /// The length of a key, in bytes.
    pub const BYTES: usize = 32;

    /// Returns the key of these bytes, which must be random. A key of equal bytes is none: it was never drawn.
    pub fn from_bytes(bytes: &[u8; Self::BYTES]) -> Result<Self, InvalidKey> {
        if bytes.iter().all(|byte| *byte == bytes[0]) {
            return Err(InvalidKey);
        }
        let copy = Zeroizing::new(*bytes);
        let secret = SecretKey::try_from(&copy[..]).map_err(|_| InvalidKey)?;
        let tag = cipher::seal(&secret, Nonce::of_key_id(), b"headcount key id", &mut []);
        let mut id = [0; KeyId::BYTES];
        id.copy_from_slice(&tag[..KeyId::BYTES]);
        Ok(Self(Arc::new(Inner { secret, id: KeyId(id) })))
    }

    /// Draws a new key from the system's random numbers; an error if it gives none.
    pub fn generate() -> io::Result<Self> {
        let mut bytes = Zeroizing::new([0; Self::BYTES]);
        SysRng.try_fill_bytes(&mut bytes[..]).map_err(io::Error::other)?;
        Self::from_bytes(&bytes).map_err(io::Error::other)
    }

    /// Returns the key in a text in base64; white space around it is ignored.
    pub fn parse(text: &str) -> Result<Self, InvalidKey> {
        let mut bytes = Zeroizing::new([0; Self::BYTES + 4]);
        match STANDARD.decode_slice(text.trim(), &mut bytes[..]) {
            Ok(Self::BYTES) => {
                let mut exact = Zeroizing::new([0; Self::BYTES]);
                exact.copy_from_slice(&bytes[..Self::BYTES]);
                Self::from_bytes(&exact)
            }
            _ => Err(InvalidKey),
        }
    }

    /// Returns the key's text in base64: the secret itself.
    pub fn to_base64(&self) -> Zeroizing<String> {
        Zeroizing::new(STANDARD.encode(self.bytes()))
    }

    /// Returns the secret bytes.
    pub fn bytes(&self) -> &[u8] {
        self.0.secret.unprotected_as_ref()
    }

    /// Returns the key's id.
    pub fn id(&self) -> KeyId {
        self.0.id
    }

    pub(super) fn secret(&self) -> &SecretKey {
        &self.0.secret
    }
}

impl PartialEq for Key {
    /// Compares in constant time.
    fn eq(&self, other: &Self) -> bool {
        self.0.secret == other.0.secret
    }
}

impl Eq for Key {}

/// Shows the id alone.
impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Key({})", self.id())
    }
}

impl KeyId {
    /// The length of an id, in bytes.
    pub const BYTES: usize = 4;
}

impl fmt::Display for KeyId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:08x}", u32::from_be_bytes(self.0))
    }
}

impl FromStr for Key {
    type Err = InvalidKey;

    fn from_str(text: &str) -> Result<Self, InvalidKey> {
        Self::parse(text)
    }
}

impl FromStr for KeyId {
    type Err = InvalidKeyId;

    fn from_str(text: &str) -> Result<Self, InvalidKeyId> {
        let is_one = text.len() == 2 * Self::BYTES && text.bytes().all(|byte| byte.is_ascii_hexdigit());
        let number = u32::from_str_radix(text, 16).ok().filter(|_| is_one).ok_or(InvalidKeyId)?;
        Ok(Self(number.to_be_bytes()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_its_text_and_nothing_else_is_one() {
        let mut bytes = [7; 32];
        bytes[31] = 8;
        let key = Key::from_bytes(&bytes).expect("a key");
        let text = key.to_base64();
        assert_eq!(Key::parse(&format!("  {}\n", text.as_str())), Ok(key));
        for wrong in ["", "x", &text[1..], &format!("{}A", text.as_str()), &text.replace('=', ""), &text.repeat(2)] {
            assert_eq!(Key::parse(wrong), Err(InvalidKey), "{wrong:?}");
        }
        assert_eq!(Key::from_bytes(&[0; 32]), Err(InvalidKey), "nobody drew that");
    }

    #[test]
    fn a_key_shows_its_id_alone() {
        let key = Key::from_bytes(&std::array::from_fn(|place| place as u8)).expect("a key");
        assert_eq!(format!("{key:?}"), format!("Key({})", key.id()));
        assert_eq!(key.id().to_string().parse(), Ok(key.id()));
        assert_eq!("0102030".parse::<KeyId>(), Err(InvalidKeyId));
        assert_eq!("+1020304".parse::<KeyId>(), Err(InvalidKeyId));
    }

    /// Memory that was overwritten is not looked at after the drop: safe code cannot do that.
    #[test]
    fn a_secret_is_overwritten_when_the_last_clone_is_dropped_and_not_before() {
        fn is_overwritten<T: zeroize::ZeroizeOnDrop>(_: &T) {}
        let key = Key::from_bytes(&std::array::from_fn(|place| place as u8)).expect("a key");
        let clone = key.clone();
        assert!(Arc::ptr_eq(&key.0, &clone.0), "there is one copy of the secret");
        drop(key);
        assert_eq!(clone.bytes()[31], 31);
        is_overwritten(&clone.to_base64());
        assert!(std::mem::needs_drop::<SecretKey>());
        let manifest = include_str!("Cargo.toml");
        assert!(
            manifest.lines().any(|line| line.starts_with("orion ") && line.contains("\"zeroize\"")),
            "it is not by default"
        );
    }

    #[test]
    fn ids_are_for_ever() {
        let key = Key::from_bytes(&std::array::from_fn(|place| place as u8)).expect("a key");
        assert_eq!(key.id().to_string(), "6251e6ca");
    }
}
