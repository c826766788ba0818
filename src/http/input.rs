//! Parts of requests that handlers take besides queries: bodies, and names in paths.
//!
//! Invariant: a text that is not a valid name cannot be a member's name either, so that such a path is answered with
//! 404. A call that takes no body refuses one: what it says would be ignored.

use axum::Json;
use axum::body::{Bytes, to_bytes};
use axum::extract::rejection::{JsonRejection, PathRejection};
use axum::extract::{FromRequest, FromRequestParts, Path, Request};
use axum::http::StatusCode;
use axum::http::request::Parts;
use serde::de::DeserializeOwned;

use super::problem::Refusal;
use crate::core::NodeId;

/// A body parsed as JSON, or the reason why it could not be parsed.
pub(super) type Body<T> = Result<Json<T>, JsonRejection>;

/// A body parsed as JSON; what it says by default, where there is none.
#[derive(Debug)]
pub(super) struct BodyOrNone<T>(pub(super) T);

impl<S: Send + Sync, T: DeserializeOwned + Default> FromRequest<S> for BodyOrNone<T> {
    type Rejection = Refusal;

    async fn from_request(request: Request, state: &S) -> Result<Self, Refusal> {
        let (parts, body) = request.into_parts();
        let bytes = Bytes::from_request(Request::new(body), state)
            .await
            .map_err(|error| Refusal::new(StatusCode::BAD_REQUEST, "syntax", "Malformed body", error.body_text()))?;
        if bytes.iter().all(u8::is_ascii_whitespace) {
            return Ok(Self(T::default()));
        }
        let Json(said) = Json::from_request(Request::from_parts(parts, bytes.into()), state).await?;
        Ok(Self(said))
    }
}

/// The node name in the path, whether there is such a member or not.
#[derive(Debug)]
pub(super) struct Named(pub(super) NodeId);

/// The text in a path.
#[derive(Debug)]
pub(super) struct Text(pub(super) String);

impl<S: Send + Sync> FromRequestParts<S> for Text {
    type Rejection = Refusal;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Refusal> {
        let path: Result<Path<String>, PathRejection> = Path::from_request_parts(parts, state).await;
        let Path(text) = path?;
        Ok(Self(text))
    }
}

/// The longest body that says nothing, with some space around.
const MAX_NOTHING: usize = 64;

/// An empty body, or one that says nothing: `{}` or `null`. As the last argument of a handler it refuses everything else.
#[derive(Debug)]
pub(super) struct NoBody;

impl<S: Send + Sync> FromRequest<S> for NoBody {
    type Rejection = Refusal;

    async fn from_request(request: Request, _: &S) -> Result<Self, Refusal> {
        let bytes = to_bytes(request.into_body(), MAX_NOTHING).await.ok();
        let text: Option<String> = bytes
            .map(|bytes| bytes.iter().filter(|byte| !byte.is_ascii_whitespace()).map(|byte| *byte as char).collect());
        match text.as_deref() {
            Some("" | "{}" | "null") => Ok(Self),
            _ => Err(Refusal::new(
                StatusCode::BAD_REQUEST,
                "body",
                "Body refused",
                "no body is taken here: what it says would be ignored",
            )
            .hint("send none; what a call is about is named in its path and query, such as ?lease=billing")),
        }
    }
}

impl<S: Send + Sync> FromRequestParts<S> for Named {
    type Rejection = Refusal;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Refusal> {
        let path: Result<Path<String>, PathRejection> = Path::from_request_parts(parts, state).await;
        let Path(id) = path?;
        NodeId::new(&id).map(Self).map_err(|_| Refusal::no_such_member(&id))
    }
}

#[cfg(test)]
mod tests {
    use axum::body::Body;

    use super::*;

    #[tokio::test]
    async fn a_body_that_may_be_left_out_is_parsed_where_it_is_not() {
        let taken = async |body: &str, media: Option<&str>| {
            let mut request = Request::builder();
            if let Some(media) = media {
                request = request.header("content-type", media);
            }
            let request = request.body(Body::from(body.to_owned())).expect("a request");
            BodyOrNone::<Option<u8>>::from_request(request, &()).await.map(|body| body.0).ok()
        };
        let json = Some("application/json");
        for media in [None, json] {
            assert_eq!(taken("", media).await, Some(None));
            assert_eq!(taken(" \n", media).await, Some(None));
        }
        assert_eq!(taken("7", json).await, Some(Some(7)));
        assert_eq!(taken("7", None).await, None, "it does not say what it is");
        assert_eq!(taken("x", json).await, None);
    }

    #[tokio::test]
    async fn a_body_that_says_something_is_refused_where_none_is_taken() {
        let taken = async |body: &str| {
            let request = Request::new(Body::from(body.to_owned()));
            NoBody::from_request(request, &()).await.is_ok()
        };
        for nothing in ["", "{}", " { }\n", "null"] {
            assert!(taken(nothing).await, "{nothing:?}");
        }
        for something in [r#"{"lease":"billing"}"#, "0", "[]", "x", &" ".repeat(MAX_NOTHING + 1)] {
            assert!(!taken(something).await, "{something:?}");
        }
    }
}
