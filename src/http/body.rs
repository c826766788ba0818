//! Bodies of requests: read whole, within a bound that all of them share.
//!
//! Invariants:
//! - Up to [`SMALL_BODY_BYTES`] of a body are read whatever others do. More is read only with a permit, of which there
//!   are [`MAX_LARGE_BODIES`]: bodies that never end cost little memory, and hold up only other large ones. A body that
//!   gets no permit within [`PERMIT_PATIENCE`] is refused.
//! - A body takes the memory of its bytes, in however many pieces they come.
//!
//! This module must not know the contents of bodies.

use std::sync::Arc;
use std::time::Duration;

use axum::body::{Body, Bytes, HttpBody as _};
use axum::http::StatusCode;
use futures_util::StreamExt as _;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::limits::{MAX_LARGE_BODIES, SMALL_BODY_BYTES};
use super::problem::Refusal;

/// The time for which a larger body waits for its permit: less than its request may take.
const PERMIT_PATIENCE: Duration = Duration::from_secs(5);
const _: () = assert!(PERMIT_PATIENCE.as_secs() < super::REQUEST_TIMEOUT.as_secs());

/// Returns the permits for bodies that are not small.
pub(super) fn permits() -> Arc<Semaphore> {
    Arc::new(Semaphore::new(MAX_LARGE_BODIES))
}

/// A body that has been read.
#[derive(Debug)]
pub(super) struct Whole {
    pub(super) bytes: Bytes,
    /// The permit, to be kept as long as the bytes, or until something else bounds them.
    pub(super) permit: Option<OwnedSemaphorePermit>,
}

impl Whole {
    /// Returns the bytes, which keep the permit for as long as anybody keeps them.
    pub(super) fn into_bytes(self) -> Bytes {
        match self.permit {
            Some(permit) => Bytes::from_owner(Permitted { bytes: self.bytes, _permit: permit }),
            None => self.bytes,
        }
    }
}

/// Bytes with their permit.
struct Permitted {
    bytes: Bytes,
    _permit: OwnedSemaphorePermit,
}

impl AsRef<[u8]> for Permitted {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

/// Reads a body to its end, of so many bytes at most.
pub(super) async fn whole(body: Body, most: usize, permits: &Arc<Semaphore>) -> Result<Whole, Refusal> {
    let announced = body.size_hint().lower();
    if announced > most as u64 {
        return Err(Refusal::body_too_large(format!("the body has {announced} bytes")));
    }
    let mut permit = None;
    let mut bytes = Vec::new();
    if announced > SMALL_BODY_BYTES as u64 {
        permit = Some(acquire(permits).await?);
        bytes.reserve_exact(announced as usize);
    }
    let mut pieces = body.into_data_stream();
    while let Some(piece) = pieces.next().await {
        let piece = piece.map_err(|error| {
            Refusal::new(StatusCode::BAD_REQUEST, "syntax", "Malformed body", format!("the body breaks off: {error}"))
        })?;
        let length = bytes.len() + piece.len();
        if length > most {
            return Err(Refusal::body_too_large(format!("the body has more than {most} bytes")));
        }
        if length > SMALL_BODY_BYTES && permit.is_none() {
            permit = Some(acquire(permits).await?);
        }
        bytes.extend_from_slice(&piece);
    }
    Ok(Whole { bytes: bytes.into(), permit })
}

async fn acquire(permits: &Arc<Semaphore>) -> Result<OwnedSemaphorePermit, Refusal> {
    let permit = tokio::time::timeout(PERMIT_PATIENCE, Arc::clone(permits).acquire_owned()).await;
    // The semaphore is never closed.
    permit.ok().and_then(Result::ok).ok_or_else(Refusal::too_many_bodies)
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use axum::response::IntoResponse as _;
    use futures_util::{FutureExt as _, stream};

    use super::super::{MAX_BODY_BYTES, MAX_DELIVERY_BYTES};
    use super::*;

    /// Returns a body of so many bytes, each a piece of its own, that then ends or hangs.
    fn dribbled(bytes: usize, ends: bool) -> Body {
        let pieces = stream::iter(0..bytes).map(|_| Ok::<_, Infallible>(Bytes::from_static(b"x")));
        if ends { Body::from_stream(pieces) } else { Body::from_stream(pieces.chain(stream::pending())) }
    }

    #[tokio::test(start_paused = true)]
    async fn large_bodies_that_never_end_are_few_and_hold_up_no_small_ones() {
        let permits = permits();
        let mut reading: Vec<_> = (0..=MAX_LARGE_BODIES)
            .map(|_| Box::pin(whole(dribbled(SMALL_BODY_BYTES + 1, false), MAX_BODY_BYTES, &permits)))
            .collect();
        for reading in &mut reading {
            assert!(reading.as_mut().now_or_never().is_none());
        }
        assert_eq!(permits.available_permits(), 0);
        let small = whole(dribbled(SMALL_BODY_BYTES, true), MAX_BODY_BYTES, &permits)
            .now_or_never()
            .expect("at once")
            .expect("read");
        assert!(small.bytes.len() == SMALL_BODY_BYTES && small.permit.is_none());
        let begin = tokio::time::Instant::now();
        let refused = whole(Body::from(vec![0; SMALL_BODY_BYTES + 1]), MAX_BODY_BYTES, &permits).await;
        // The answer has the rest of the request's time.
        let waited = begin.elapsed();
        assert!(waited >= PERMIT_PATIENCE && waited <= super::super::REQUEST_TIMEOUT * 3 / 4, "{waited:?}");
        let refused = refused.expect_err("it waited long enough").into_response();
        assert_eq!(refused.status(), StatusCode::TOO_MANY_REQUESTS);
        let mut large = Box::pin(whole(Body::from(vec![0; SMALL_BODY_BYTES + 1]), MAX_BODY_BYTES, &permits));
        assert!(large.as_mut().now_or_never().is_none(), "it waits");
        drop(reading);
        let large = large.await.expect("read");
        assert_eq!((large.bytes.len(), permits.available_permits()), (SMALL_BODY_BYTES + 1, MAX_LARGE_BODIES - 1));
    }

    #[tokio::test]
    async fn a_body_has_a_bound_whether_it_is_announced_or_not() {
        let permits = permits();
        for most in [MAX_BODY_BYTES, MAX_DELIVERY_BYTES] {
            for at_limit in [dribbled(most, true), Body::from(vec![0; most])] {
                assert_eq!(whole(at_limit, most, &permits).await.expect("read").bytes.len(), most);
            }
            for beyond in [dribbled(most + 1, false), Body::from(vec![0; most + 1])] {
                let refusal = whole(beyond, most, &permits).await.expect_err("refused");
                assert_eq!(refusal.into_response().status(), StatusCode::PAYLOAD_TOO_LARGE);
            }
        }
        assert_eq!(permits.available_permits(), MAX_LARGE_BODIES);
    }

    #[tokio::test(start_paused = true)]
    async fn the_bytes_of_a_large_body_keep_its_permit_until_nobody_has_them() {
        let permits = permits();
        let large = whole(dribbled(SMALL_BODY_BYTES + 1, true), MAX_BODY_BYTES, &permits).await.expect("read");
        let bytes = large.into_bytes();
        let part = bytes.slice(..10);
        drop(bytes);
        assert_eq!((&part[..], permits.available_permits()), (&b"xxxxxxxxxx"[..], MAX_LARGE_BODIES - 1));
        drop(part);
        assert_eq!(permits.available_permits(), MAX_LARGE_BODIES);
        let small = whole(dribbled(SMALL_BODY_BYTES, true), MAX_BODY_BYTES, &permits).await.expect("read").into_bytes();
        assert_eq!((small.len(), permits.available_permits()), (SMALL_BODY_BYTES, MAX_LARGE_BODIES));
    }
}
