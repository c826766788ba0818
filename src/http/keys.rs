//! Calls about keys: who holds which, and their rotation.
//!
//! Invariant: no answer, error or log line holds a key; ids stand for them.

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;

use super::App;
use super::input::{Body, Text};
use super::problem::Refusal;
use super::query::{NoQuery, Pairs};
use crate::agent::KeysError;
use crate::json;
use crate::seal::{Key, KeyId, RingError};

pub(super) async fn list(State(app): State<App>, _: NoQuery) -> Result<Json<json::Keys>, Refusal> {
    Ok(Json(json::Keys::new(&app.agent.cluster_keys().await)))
}

pub(super) async fn add(
    State(app): State<App>,
    _: NoQuery,
    body: Body<json::AddKey>,
) -> Result<Json<json::Keys>, Refusal> {
    let Json(json::AddKey { key }) = body?;
    let key = zeroize::Zeroizing::new(key);
    let key = Key::parse(&key).map_err(|error| Refusal::value(error.to_string()))?;
    Ok(Json(json::Keys::new(&app.agent.add_key(key).await?)))
}

pub(super) async fn use_key(State(app): State<App>, Text(id): Text, query: Pairs) -> Result<Json<json::Keys>, Refusal> {
    let (id, force) = change(&id, &query)?;
    Ok(Json(json::Keys::new(&app.agent.use_key(id, force).await?)))
}

pub(super) async fn remove(State(app): State<App>, Text(id): Text, query: Pairs) -> Result<Json<json::Keys>, Refusal> {
    let (id, force) = change(&id, &query)?;
    Ok(Json(json::Keys::new(&app.agent.remove_key(id, force).await?)))
}

fn change(id: &str, query: &Pairs) -> Result<(KeyId, bool), Refusal> {
    query.only(&["force"])?;
    let id = id.parse::<KeyId>().map_err(|error| Refusal::value(error.to_string()))?;
    Ok((id, query.flag("force")?))
}

impl From<KeysError> for Refusal {
    fn from(error: KeysError) -> Self {
        let detail = error.to_string();
        let (status, kind, title) = match error {
            KeysError::Ring(RingError::Unknown(_)) => (StatusCode::NOT_FOUND, "no-such-key", "No such key"),
            KeysError::LockedOut { .. } => (StatusCode::CONFLICT, "locked-out", "Members would be locked out"),
            KeysError::Stopped => return Self::stopping(detail),
            KeysError::File { .. } => (StatusCode::INTERNAL_SERVER_ERROR, "key-file", "The key file cannot be used"),
            _ => (StatusCode::CONFLICT, "keys", "The keys stay as they are"),
        };
        Self::new(status, kind, title, detail)
    }
}
