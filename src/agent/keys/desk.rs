//! The desk: requests of other members about keys, answered by this agent itself.
//!
//! Invariants: one request is answered at a time, at most [`MAX_WAITING`] wait, and what comes on top is not answered; a
//! request that is not understood changes nothing.
//!
//! Must not know: how requests travel.

use std::sync::Arc;

use tokio::sync::{mpsc, oneshot};
use tracing::Level;

use super::KeysError;
use super::keeper::Keeper;
use super::word::{KeyAnswer, KeyRequest};
use crate::agent::request::{Request, Say};
use crate::core::{Delivery, DeliveryKind, Payload};
use crate::journal::Journal;

/// Requests that wait at the desk.
const MAX_WAITING: usize = 32;

/// The way to the desk.
#[derive(Debug, Clone)]
pub(in crate::agent) struct Desk(mpsc::Sender<Delivery>);

impl Desk {
    /// Opens the desk, on the runtime that this is called in. It closes with the agent: it holds no handle.
    pub(in crate::agent) fn open(keeper: Arc<Keeper>, requests: mpsc::WeakSender<Request>, journal: Journal) -> Self {
        let (sender, mut waiting) = mpsc::channel::<Delivery>(MAX_WAITING);
        tokio::spawn(async move {
            while let Some(delivery) = waiting.recv().await {
                let answer = answer(&keeper, &delivery, &journal).await;
                let Some(requests) = requests.upgrade() else { return };
                let Ok(payload) = Payload::new(&answer.encode()) else { continue };
                let (answered, _) = oneshot::channel();
                let what = Say::Answer { request: delivery.id, payload };
                if requests.send(Request::Say { what, answer: answered }).await.is_err() {
                    return;
                }
            }
        });
        Self(sender)
    }

    /// Takes a message on the reserved topic. Anything but a request is dropped.
    pub(in crate::agent) fn take(&self, delivery: Delivery) {
        if matches!(delivery.kind, DeliveryKind::Request { .. }) {
            let _ = self.0.try_send(delivery);
        }
    }
}

async fn answer(keeper: &Arc<Keeper>, delivery: &Delivery, journal: &Journal) -> KeyAnswer {
    let Some(request) = KeyRequest::decode(&delivery.payload) else {
        return KeyAnswer::Refused("this version does not understand the request".to_owned());
    };
    let (is_change, said) = (request.is_change(), format!("{request:?}"));
    let (keeper, by) = (Arc::clone(keeper), delivery.from.clone());
    let changed = tokio::task::spawn_blocking(move || keeper.answer(&request, &by)).await;
    match changed {
        Ok(Ok(held)) => {
            if is_change {
                let keys: Vec<_> = held.keys.iter().map(ToString::to_string).collect();
                let text = format!("keys were changed by {} ({said}): now {}", delivery.from, keys.join(", "));
                journal.say(Level::INFO, text);
            }
            KeyAnswer::held(&held)
        }
        Ok(Err(KeysError::Busy { by })) => KeyAnswer::Busy(by.to_string()),
        Ok(Err(error)) => {
            let text = format!("keys were not changed as {} asked ({said}): {error}", delivery.from);
            journal.say(Level::WARN, text);
            KeyAnswer::Refused(error.to_string())
        }
        Err(_) => KeyAnswer::Refused("the agent is stopping".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::core::{MessageId, NodeId, Run, Topic};

    fn said(sequence: u64, kind: DeliveryKind) -> Delivery {
        Delivery {
            id: MessageId { run: Run(1), sequence },
            from: NodeId::new("a").expect("a name"),
            topic: Topic::new("t").expect("a topic"),
            payload: Payload::new(b"x").expect("small"),
            kind,
        }
    }

    #[test]
    fn so_many_requests_wait_and_nothing_else() {
        let (sender, mut waiting) = mpsc::channel(MAX_WAITING);
        let desk = Desk(sender);
        desk.take(said(0, DeliveryKind::Broadcast));
        let request = DeliveryKind::Request { within: Duration::from_secs(1) };
        for sequence in 1..=MAX_WAITING as u64 + 1 {
            desk.take(said(sequence, request));
        }
        drop(desk);
        let taken: Vec<u64> = std::iter::from_fn(|| waiting.try_recv().ok()).map(|said| said.id.sequence).collect();
        assert_eq!(taken, (1..=MAX_WAITING as u64).collect::<Vec<_>>());
    }
}
