//! Bodies of requests: read whole, within a bound that all of them share.
//!
//! Invariants:
//! - Up to [`SMALL_BODY_BYTES`] of a body are read whatever others do. More is read only with a permit, of which there
//!   are [`MAX_LARGE_BODIES`]: bodies that never end cost little memory, and hold up only other large ones. A body that
//!   gets no permit within [`PERMIT_PATIENCE`] is refused.
//! - The permit is free again when the body has been parsed, and does not wait for the answer.
//! - A body takes the memory of its bytes, in however many pieces they come.
//!
//! This module must not know the contents of bodies.

use std::sync::Arc;
use std::time::Duration;

use axum::body::{Body, Bytes, HttpBody as _};
use axum::http::StatusCode;
use futures_util::StreamExt as _;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::held::held;
use super::limits::{MAX_BODY_BYTES, MAX_LARGE_BODIES, SMALL_BODY_BYTES};
use super::problem::Refusal;

/// The time for which a larger body waits for its permit: less than its request may take.
const PERMIT_PATIENCE: Duration = Duration::from_secs(5);
const _: () = assert!(PERMIT_PATIENCE.as_secs() < super::REQUEST_TIMEOUT.as_secs());

/// Returns the permits for bodies that are not small.
pub(super) fn permits() -> Arc<Semaphore> {
    Arc::new(Semaphore::new(MAX_LARGE_BODIES))
}

/// Reads a body to its end, of [`MAX_BODY_BYTES`] at most. The bytes keep its permit for as long as anybody keeps them.
pub(super) async fn whole(body: Body, permits: &Arc<Semaphore>) -> Result<Bytes, Refusal> {
    let announced = body.size_hint().lower();
    if announced > MAX_BODY_BYTES as u64 {
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
        if length > MAX_BODY_BYTES {
            return Err(Refusal::body_too_large(format!("the body has more than {MAX_BODY_BYTES} bytes")));
        }
        if length > SMALL_BODY_BYTES && permit.is_none() {
            permit = Some(acquire(permits).await?);
        }
        bytes.extend_from_slice(&piece);
    }
    Ok(match permit {
        Some(permit) => held(bytes.into(), permit),
        None => bytes.into(),
    })
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

    use super::*;

    /// Returns a body of so many bytes, each a piece of its own, that then ends or hangs.
    fn dribbled(bytes: usize, ends: bool) -> Body {
        let pieces = stream::iter(0..bytes).map(|_| Ok::<_, Infallible>(Bytes::from_static(b"x")));
        if ends { Body::from_stream(pieces) } else { Body::from_stream(pieces.chain(stream::pending())) }
    }

    #[tokio::test(start_paused = true)]
    async fn large_bodies_that_never_end_are_few_and_hold_up_no_small_ones() {
        let permits = permits();
        let mut reading: Vec<_> =
            (0..=MAX_LARGE_BODIES).map(|_| Box::pin(whole(dribbled(SMALL_BODY_BYTES + 1, false), &permits))).collect();
        for reading in &mut reading {
            assert!(reading.as_mut().now_or_never().is_none());
        }
        assert_eq!(permits.available_permits(), 0);
        let small = whole(dribbled(SMALL_BODY_BYTES, true), &permits).now_or_never().expect("at once").expect("read");
        assert_eq!((small.len(), permits.available_permits()), (SMALL_BODY_BYTES, 0), "it needs no permit");
        let begin = tokio::time::Instant::now();
        let refused = whole(Body::from(vec![0; SMALL_BODY_BYTES + 1]), &permits).await;
        // The answer has the rest of the request's time.
        let waited = begin.elapsed();
        assert!(waited >= PERMIT_PATIENCE && waited <= super::super::REQUEST_TIMEOUT * 3 / 4, "{waited:?}");
        let refused = refused.expect_err("it waited long enough").into_response();
        assert_eq!(refused.status(), StatusCode::TOO_MANY_REQUESTS);
        let mut large = Box::pin(whole(Body::from(vec![0; SMALL_BODY_BYTES + 1]), &permits));
        assert!(large.as_mut().now_or_never().is_none(), "it waits");
        drop(reading);
        let large = large.await.expect("read");
        assert_eq!((large.len(), permits.available_permits()), (SMALL_BODY_BYTES + 1, MAX_LARGE_BODIES - 1));
    }

    #[tokio::test]
    async fn a_body_has_a_bound_whether_it_is_announced_or_not() {
        let permits = permits();
        for at_limit in [dribbled(MAX_BODY_BYTES, true), Body::from(vec![0; MAX_BODY_BYTES])] {
            assert_eq!(whole(at_limit, &permits).await.expect("read").len(), MAX_BODY_BYTES);
        }
        for beyond in [dribbled(MAX_BODY_BYTES + 1, false), Body::from(vec![0; MAX_BODY_BYTES + 1])] {
            let refusal = whole(beyond, &permits).await.expect_err("refused");
            assert_eq!(refusal.into_response().status(), StatusCode::PAYLOAD_TOO_LARGE);
        }
        assert_eq!(permits.available_permits(), MAX_LARGE_BODIES);
    }

    #[tokio::test(start_paused = true)]
    async fn the_bytes_of_a_large_body_keep_its_permit_until_nobody_has_them() {
        let permits = permits();
        let large = whole(dribbled(SMALL_BODY_BYTES + 1, true), &permits).await.expect("read");
        let part = large.slice(..10);
        drop(large);
        assert_eq!((&part[..], permits.available_permits()), (&b"xxxxxxxxxx"[..], MAX_LARGE_BODIES - 1));
        drop(part);
        assert_eq!(permits.available_permits(), MAX_LARGE_BODIES);
        let small = whole(dribbled(SMALL_BODY_BYTES, true), &permits).await.expect("read");
        assert_eq!((small.len(), permits.available_permits()), (SMALL_BODY_BYTES, MAX_LARGE_BODIES));
    }
}
