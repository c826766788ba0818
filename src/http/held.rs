//! Bytes that hold something for as long as anybody keeps them: a permit for the memory that they take, say.
//!
//! hyper asks a body for more while up to a buffer of what it has is still to be sent, and keeps what it has whole
//! meanwhile: that it asks does not mean that the bytes are gone.
//!
//! Must not know: what is held.

use axum::body::Bytes;

struct Held<T> {
    bytes: Bytes,
    _hold: T,
}

impl<T> AsRef<[u8]> for Held<T> {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

/// Returns the bytes, which keep `hold` until the last part of them is dropped.
pub(super) fn held<T: Send + 'static>(bytes: Bytes, hold: T) -> Bytes {
    Bytes::from_owner(Held { bytes, _hold: hold })
}
