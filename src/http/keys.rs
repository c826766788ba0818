//! Calls about keys: who holds which, and their rotation.
//!
//! Invariants:
//! - No answer, error or log line holds a key; ids stand for them.
//! - However many callers look, members are asked at most once in [`FRESH`], and once after each change of this node's
//!   keys, by one of them; the others wait for that.

use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use tokio::sync::Mutex;

use super::App;
use super::input::{Body, Object, Text};
use super::problem::Refusal;
use super::query::{NoQuery, Pairs};
use crate::agent::{HeldKeys, KeyHolder, KeysError};
use crate::json;
use crate::seal::{Key, KeyId, RingError};

/// The time for which a listing is shown before members are asked again.
const FRESH: Duration = Duration::from_secs(1);

/// The last listing. Locked while members are asked.
pub(super) type Listed = Mutex<Option<Listing>>;

/// The keys of all members with their holders, as the members answered at one time.
#[derive(Debug)]
pub(super) struct Listing {
    /// The time at which they had answered.
    at: Instant,
    /// The keys of this node at that time: if they are others now, so may be those of the members.
    held: HeldKeys,
    keys: json::Keys,
}

pub(super) async fn list(State(app): State<App>, _: NoQuery) -> Result<Json<json::Keys>, Refusal> {
    let mut listed = app.keys.lock().await;
    let held = app.agent.keys();
    match &*listed {
        Some(last) if last.at.elapsed() < FRESH && last.held == held => Ok(Json(last.keys.clone())),
        _ => {
            let keys = json::Keys::new(&app.agent.cluster_keys().await);
            *listed = Some(Listing { at: Instant::now(), held, keys: keys.clone() });
            Ok(Json(keys))
        }
    }
}

/// Shows the keys after a change, which no listing from before it may hide.
fn changed(app: &App, holders: &[KeyHolder]) -> Json<json::Keys> {
    let app = Arc::clone(app);
    // A listing that is under way began before it.
    tokio::spawn(async move { *app.keys.lock().await = None });
    Json(json::Keys::new(holders))
}

pub(super) async fn add(
    State(app): State<App>,
    _: NoQuery,
    body: Body<json::AddKey>,
) -> Result<Json<json::Keys>, Refusal> {
    let Object(json::AddKey { key }) = body?;
    let key = zeroize::Zeroizing::new(key);
    let holders = match key.parse::<KeyId>() {
        Ok(id) => app.agent.add_key_again(id).await?,
        Err(_) => app.agent.add_key(Key::parse(&key).map_err(|error| Refusal::value(error.to_string()))?).await?,
    };
    Ok(changed(&app, &holders))
}

pub(super) async fn use_key(State(app): State<App>, Text(id): Text, query: Pairs) -> Result<Json<json::Keys>, Refusal> {
    let (id, force) = change(&id, &query)?;
    Ok(changed(&app, &app.agent.use_key(id, force).await?))
}

pub(super) async fn remove(State(app): State<App>, Text(id): Text, query: Pairs) -> Result<Json<json::Keys>, Refusal> {
    let (id, force) = change(&id, &query)?;
    if !app.agent.keys().keys.contains(&id) && is_unknown(&app.agent.cluster_keys().await, id, force) {
        return Err(Refusal::no_such_key(id));
    }
    Ok(changed(&app, &app.agent.remove_key(id, force).await?))
}

/// Returns true if nobody holds a key, as far as members answered: all of them, unless the removal is forced. It is more
/// likely mistyped than removed already, and whoever asks is not to think that the key they meant is gone.
fn is_unknown(holders: &[KeyHolder], id: KeyId, force: bool) -> bool {
    holders.iter().all(|holder| holder.held.as_ref().map_or(force, |held| !held.keys.contains(&id)))
}

fn change(id: &str, query: &Pairs) -> Result<(KeyId, bool), Refusal> {
    query.only(&["force"])?;
    let id = id.parse::<KeyId>().map_err(|error| Refusal::value(error.to_string()))?;
    Ok((id, query.flag("force")?))
}

impl Refusal {
    fn locked_out(detail: String) -> Self {
        Self::new(StatusCode::CONFLICT, "locked-out", "Members would be locked out", detail)
    }
}

impl From<KeysError> for Refusal {
    fn from(error: KeysError) -> Self {
        let detail = error.to_string();
        let (status, kind, title) = match error {
            KeysError::Ring(RingError::Unknown(_)) => (StatusCode::NOT_FOUND, "no-such-key", "No such key"),
            KeysError::LockedOut { id, .. } => {
                return Self::locked_out(detail).hint(format!(
                    "`headcount keys add {id}` adds it again, `headcount remove` removes a member, and --force forces the change"
                ));
            }
            KeysError::StillUsed { .. } => {
                return Self::locked_out(detail).hint(
                    "`headcount keys list` shows who seals with which, `headcount keys use` has them use the others' key, \
                     `headcount remove` removes a member, and --force forces the change",
                );
            }
            KeysError::Stopped => return Self::stopping(detail),
            KeysError::File { .. } => (StatusCode::INTERNAL_SERVER_ERROR, "key-file", "The key file cannot be used"),
            _ => (StatusCode::CONFLICT, "keys", "The keys stay as they are"),
        };
        Self::new(status, kind, title, detail)
    }
}
