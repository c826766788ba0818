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
pub(super) type Body<T> = Result<Object<T>, Refusal>;

/// The value of a body that is a JSON object. An array would be read as the values of its keys by their places, so that
/// `[]` says the same as `{}`: nobody means that.
#[derive(Debug)]
pub(super) struct Object<T>(pub(super) T);

impl<S: Send + Sync, T: DeserializeOwned> FromRequest<S> for Object<T> {
    type Rejection = Refusal;

    async fn from_request(request: Request, state: &S) -> Result<Self, Refusal> {
        let (parts, body) = request.into_parts();
        let bytes = Bytes::from_request(Request::from_parts(parts.clone(), body), state).await;
        let bytes = bytes.map_err(JsonRejection::from)?;
        let is_object = bytes.iter().find(|byte| !byte.is_ascii_whitespace()) == Some(&b'{');
        match Json::from_request(Request::from_parts(parts, bytes.into()), state).await {
            Ok(Json(said)) if is_object => Ok(Self(said)),
            Err(rejection) if is_object || !matches!(rejection, JsonRejection::JsonDataError(_)) => {
                Err(rejection.into())
            }
            _ => Err(Refusal::new(StatusCode::BAD_REQUEST, "body", "Body refused", "the body is not a JSON object")
                .hint("write {\"key\":value}; `GET /` lists the calls, each with an example of its body")),
        }
    }
}

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
        let Object(said) = Object::from_request(Request::from_parts(parts, bytes.into()), state).await?;
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
    use std::collections::BTreeMap;

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
            BodyOrNone::<BTreeMap<String, u8>>::from_request(request, &()).await.map(|body| body.0).ok()
        };
        let json = Some("application/json");
        for media in [None, json] {
            assert_eq!(taken("", media).await, Some(BTreeMap::new()));
            assert_eq!(taken(" \n", media).await, Some(BTreeMap::new()));
        }
        let said = Some(BTreeMap::from([("a".to_owned(), 7)]));
        assert_eq!(taken(r#" {"a":7}"#, json).await, said);
        assert_eq!(taken(r#"{"a":7}"#, None).await, None, "it does not say what it is");
        for other in ["x", "[]", "7", "null"] {
            assert_eq!(taken(other, json).await, None, "{other}");
        }
    }

    #[tokio::test]
    async fn an_array_is_no_object_whatever_its_places_would_say() {
        let taken = async |body: &'static str| {
            let request = Request::builder().header("content-type", "application/json").body(Body::from(body));
            let said = Object::<crate::json::SetTags>::from_request(request.expect("a request"), &()).await;
            said.map(|body| body.0.tags.len()).map_err(|refusal| {
                let status = axum::response::IntoResponse::into_response(refusal).status();
                status.as_u16()
            })
        };
        assert_eq!(taken(r#"{"tags":{"a":"b"}}"#).await, Ok(1));
        for array in [r#"[{"a":"b"}]"#, "[]", " [[]]", "7", "null"] {
            assert_eq!(taken(array).await, Err(400), "{array}");
        }
        assert_eq!(taken(r#"{"tags":7}"#).await, Err(422), "an object that says something else");
        assert_eq!(taken("{").await, Err(400));
        assert_eq!(taken("").await, Err(400));
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
