//! [`Agent::serve`]: requests of one topic, answered by a handler for as long as the agent runs.
//!
//! Invariants:
//! - No request ends it: what does not decode is skipped, what came too fast is missed, a handler that panics answers nothing.
//! - Handlers run on the user's runtime, at most [`MAX_SERVED`] at a time: they may block, and the agent's own may not.
//! - It does not keep the agent running.
//!
//! Must not know: how messages travel.

use std::future::Future;
use std::sync::{Arc, Weak};
use std::time::Duration;

use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::task::{JoinError, JoinSet};
use tokio_util::task::AbortOnDropHandle;
use tracing::Level;

use super::inbox::Received;
use super::message::ReceiveError;
use crate::agent::{Agent, Inner};
use crate::core::{InvalidTopic, MessageId, Payload};
use crate::journal::Journal;
use crate::quiet::Quiet;

/// The greatest number of requests that one [`Agent::serve`] answers at a time; further ones wait.
pub const MAX_SERVED: usize = 64;
/// There is at most one line of the log about requests that are not answered in this time.
const PAUSE: Duration = Duration::from_secs(10);

/// Requests are answered for as long as this is kept, or the agent runs: see [`Agent::serve`].
#[derive(Debug)]
#[must_use = "requests are answered until this is dropped"]
pub struct Serving(AbortOnDropHandle<()>);

impl Serving {
    /// Answers requests until the agent ends.
    pub fn detach(self) {
        drop(self.0.detach());
    }
}

impl Agent {
    /// Answers the requests of one topic, payloads and answers being JSON, until the returned value is dropped or the agent ends.
    ///
    /// Nothing that others send ends it: a payload that is no `Q` is skipped, as by [`Agent::messages`], and where requests come
    /// faster than they are answered the oldest are not answered. Handlers run on the runtime that the agent was started on, up to
    /// [`MAX_SERVED`] at a time; one that never ends keeps its place. What is no request is left alone.
    ///
    /// ```
    /// # use headcount::{Agent, Config, Profile};
    /// # use std::time::Duration;
    /// use headcount::agent::Received;
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let mut config = Config::new("a")?.with_profile(Profile::Local);
    /// # config.bind = Some("127.0.0.1:0".parse()?);
    /// # let agent = Agent::start(config).await?;
    /// # agent.wait_until_up().await?;
    /// let _serving = agent.serve("double", |asked: Received<u64>| async move { asked.value * 2 })?;
    ///
    /// let answer = agent.request(&agent.me().id, "double", b"21", Duration::from_secs(5)).await?;
    /// assert_eq!(answer, b"42");
    /// # Ok(())
    /// # }
    /// ```
    pub fn serve<Q, A, F>(
        &self,
        topic: &str,
        handler: impl Fn(Received<Q>) -> F + Send + Sync + 'static,
    ) -> Result<Serving, InvalidTopic>
    where
        Q: DeserializeOwned + Send + 'static,
        A: Serialize,
        F: Future<Output = A> + Send,
    {
        let mut requests = self.messages::<Q>(topic)?;
        let (agent, topic, handler) = (Arc::downgrade(&self.inner), topic.to_owned(), Arc::new(handler));
        let mut lines = Lines { topic, journal: self.inner.shared.journal.clone(), quiet: Quiet::default() };
        let serve = async move {
            let mut under_way = JoinSet::new();
            loop {
                let request = tokio::select! {
                    Some(ended) = under_way.join_next() => {
                        lines.ended(ended);
                        continue;
                    }
                    request = requests.recv(), if under_way.len() < MAX_SERVED => request,
                };
                match request {
                    Ok(request) if request.message.is_request() => {
                        let (agent, handler) = (Weak::clone(&agent), Arc::clone(&handler));
                        under_way.spawn(async move {
                            let id = request.message.id;
                            let answer = serde_json::to_vec(&handler(request).await);
                            reply(&agent, id, &answer.map_err(|error| error.to_string())?).await
                        });
                    }
                    // No answer is awaited, or there is nobody any more who could be answered.
                    Ok(_) | Err(ReceiveError::Lagged { .. } | ReceiveError::Undecodable { .. }) => {}
                    Err(ReceiveError::Closed) => return,
                }
            }
        };
        Ok(Serving(AbortOnDropHandle::new(self.inner.users.spawn(serve))))
    }
}

/// Answers a request; the error is that there is no such answer. Whoever asked may be gone.
async fn reply(agent: &Weak<Inner>, request: MessageId, answer: &[u8]) -> Result<(), String> {
    let answer = Payload::new(answer).map_err(|error| error.to_string())?;
    if let Some(inner) = agent.upgrade() {
        let _ = Agent { inner }.reply_payload(request, answer).await;
    }
    Ok(())
}

/// The lines of the log about requests that a handler did not answer.
struct Lines {
    topic: String,
    journal: Journal,
    quiet: Quiet,
}

impl Lines {
    fn ended(&mut self, ended: Result<Result<(), String>, JoinError>) {
        let why = match ended {
            Ok(Ok(())) => return,
            Ok(Err(why)) => why,
            Err(_) => "it panicked".to_owned(),
        };
        if let Some(others) = self.quiet.take_turn(PAUSE, 1) {
            let text = format!(
                "a request of topic {} was not answered ({others} before it): look at its handler: {why}",
                self.topic
            );
            self.journal.say(Level::WARN, text);
        }
    }
}
