//! The responder: requests of other members about keys, answered by this agent itself.
//!
//! Invariants: one request is answered at a time, at most [`MAX_WAITING`] wait, and what comes on top is not answered; a
//! request that is not understood, or whose sender has stopped waiting, changes nothing.
//!
//! Must not know: how requests travel.

use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::sync::{mpsc, oneshot};
use tracing::Level;

use super::KeysError;
use super::keeper::Keeper;
use super::word::{KeyAnswer, KeyRequest};
use crate::agent::request::{Request, Say};
use crate::core::{Delivery, DeliveryKind, Payload};
use crate::journal::Journal;

/// Requests that wait for the responder.
const MAX_WAITING: usize = 32;

/// Lines of the log about requests within [`LINES_PAUSE`].
const MAX_LINES: usize = 8;
const LINES_PAUSE: Duration = Duration::from_secs(10);

/// The way to the responder.
#[derive(Debug, Clone)]
pub(crate) struct KeyResponder(mpsc::Sender<Waiting>);

/// A request, and the time until which its sender waits for the answer.
type Waiting = (Delivery, Instant);

impl KeyResponder {
    /// Starts the responder, on the runtime that this is called in. It ends with the agent: it holds no handle.
    pub(crate) fn start(keeper: Arc<Keeper>, requests: mpsc::WeakSender<Request>, journal: Journal) -> Self {
        let (sender, mut waiting) = mpsc::channel::<Waiting>(MAX_WAITING);
        tokio::spawn(async move {
            let mut lines = Lines::default();
            while let Some((delivery, until)) = waiting.recv().await {
                let (answer, told) = answer(&keeper, &delivery, until).await;
                if let Some((level, text)) = told
                    && let Some(left_out) = lines.next(Instant::now())
                {
                    let more = if left_out > 0 { format!(" ({left_out} before it not told)") } else { String::new() };
                    journal.say(level, text + &more);
                }
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
    pub(crate) fn take(&self, delivery: Delivery) {
        if let DeliveryKind::Request { within } = delivery.kind {
            let _ = self.0.try_send((delivery, Instant::now() + within));
        }
    }
}

/// The line of the log that a request causes, if it does.
type Told = Option<(Level, String)>;

async fn answer(keeper: &Arc<Keeper>, delivery: &Delivery, until: Instant) -> (KeyAnswer, Told) {
    let refused = |why: &str| (KeyAnswer::Refused(why.to_owned()), None);
    let Some(request) = KeyRequest::decode(&delivery.payload) else {
        return refused("this version does not understand the request");
    };
    let (keeper, by, asked) = (Arc::clone(keeper), delivery.from.clone(), request.clone());
    let changed = tokio::task::spawn_blocking(move || {
        let before = keeper.held();
        keeper.answer(&asked, &by, Some(until)).map(|held| (before, held))
    });
    match changed.await {
        Ok(Ok((before, held))) => {
            // A command that is given twice changes nothing the second time, and is not told again.
            let is_told = request.is_change() && before != held;
            (KeyAnswer::held(&held), is_told.then(|| (Level::INFO, request.told(&delivery.from, &held))))
        }
        Ok(Err(KeysError::Busy { by })) => (KeyAnswer::Busy(by.to_string()), None),
        Ok(Err(error)) => {
            let text = format!("keys were not changed as {} asked ({}): {error}", delivery.from, request.words());
            (KeyAnswer::Refused(error.to_string()), Some((Level::WARN, text)))
        }
        Err(_) => refused("the agent is stopping"),
    }
}

/// A limit on the lines of the log that requests cause: whoever has the key makes as many as it likes. A rotation needs four.
#[derive(Debug, Default)]
struct Lines {
    began: Option<Instant>,
    said: usize,
    left_out: u64,
}

impl Lines {
    /// Returns the number of lines that were left out since the last one, if there may be another one now.
    fn next(&mut self, now: Instant) -> Option<u64> {
        if self.began.is_none_or(|began| now.duration_since(began) >= LINES_PAUSE) {
            (self.began, self.said) = (Some(now), 0);
        }
        if self.said == MAX_LINES {
            self.left_out += 1;
            return None;
        }
        self.said += 1;
        Some(std::mem::take(&mut self.left_out))
    }
}

#[cfg(test)]
mod tests {
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
        let key_responder = KeyResponder(sender);
        key_responder.take(said(0, DeliveryKind::Broadcast));
        let request = DeliveryKind::Request { within: Duration::from_secs(1) };
        for sequence in 1..=MAX_WAITING as u64 + 1 {
            key_responder.take(said(sequence, request));
        }
        drop(key_responder);
        let taken: Vec<u64> =
            std::iter::from_fn(|| waiting.try_recv().ok()).map(|(said, _)| said.id.sequence).collect();
        assert_eq!(taken, (1..=MAX_WAITING as u64).collect::<Vec<_>>());
    }

    #[test]
    fn requests_cause_so_many_lines_in_a_while_and_what_was_left_out_is_counted() {
        let (mut lines, now) = (Lines::default(), Instant::now());
        let told: Vec<_> = (0..MAX_LINES + 3).map(|_| lines.next(now)).collect();
        assert_eq!(told, [vec![Some(0); MAX_LINES], vec![None; 3]].concat());
        assert_eq!(lines.next(now + LINES_PAUSE.saturating_sub(Duration::from_millis(1))), None);
        assert_eq!([lines.next(now + LINES_PAUSE), lines.next(now + LINES_PAUSE)], [Some(4), Some(0)]);
    }
}
