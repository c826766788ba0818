//! Parts of requests that handlers take besides queries: bodies, and names in paths.
//!
//! Invariant: a text that is not a valid name cannot be a member's name either, so that such a path is answered with
//! 404.

use axum::Json;
use axum::extract::rejection::{JsonRejection, PathRejection};
use axum::extract::{FromRequestParts, Path};
use axum::http::request::Parts;

use super::problem::Refusal;
use crate::core::NodeId;

/// A body parsed as JSON, or the reason why it could not be parsed.
pub(super) type Body<T> = Result<Json<T>, JsonRejection>;

/// The node name in the path, whether there is such a member or not.
#[derive(Debug)]
pub(super) struct Named(pub(super) NodeId);

impl<S: Send + Sync> FromRequestParts<S> for Named {
    type Rejection = Refusal;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Refusal> {
        let path: Result<Path<String>, PathRejection> = Path::from_request_parts(parts, state).await;
        let Path(id) = path?;
        NodeId::new(&id).map(Self).map_err(|_| Refusal::no_such_member(&id))
    }
}
