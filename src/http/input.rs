//! What handlers take apart from queries: bodies, and names in paths.
//!
//! Invariant: what cannot be a name cannot be a member either, so that a path that names nobody is a 404.

use axum::Json;
use axum::extract::rejection::{JsonRejection, PathRejection};
use axum::extract::{FromRequestParts, Path};
use axum::http::request::Parts;

use super::problem::Refusal;
use crate::core::NodeId;

/// A body that must be JSON, or why it is not.
pub(super) type Body<T> = Result<Json<T>, JsonRejection>;

/// The node that the path names, whether there is one or not.
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
