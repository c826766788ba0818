//! The part of the handle that is about messages.

use std::collections::BTreeSet;
use std::time::Duration;

use serde::Serialize;
use serde::de::DeserializeOwned;

use super::inbox::{Inbox, Messages};
use crate::agent::Agent;
use crate::agent::request::{Request, Say};
use crate::core::{CommandError, InvalidTopic, MessageId, NodeId, Payload, Reply, TooLarge, Topic};

/// The outcome of a broadcast.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Broadcasted {
    /// The message.
    pub id: MessageId,
    /// The number of members that were live when it was sent, this node included.
    pub addressed: usize,
}

/// Why a message was not sent, or it is unknown whether it arrived.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum MessageError {
    /// The topic is none; nothing was sent.
    #[error(transparent)]
    Topic(#[from] InvalidTopic),
    /// The payload is too large; nothing was sent.
    #[error(transparent)]
    TooLarge(#[from] TooLarge),
    /// The value cannot be written as JSON; nothing was sent.
    #[error("the value cannot be written as JSON: {reason}; see that its maps have text for keys")]
    Unwritable {
        /// The reason.
        reason: String,
    },
    /// The answer came, and is not what was asked for.
    #[error("{id:?} answered something else than was expected: {reason}; see that both run the same program")]
    Unreadable {
        /// The other node.
        id: NodeId,
        /// The reason.
        reason: String,
    },
    /// The other node did not answer in time: whether it got the message is unknown.
    #[error("{id:?} did not answer in time: it is unknown whether it got the message")]
    NoAnswer {
        /// The other node.
        id: NodeId,
    },
    /// Refused; nothing was sent.
    #[error(transparent)]
    Refused(CommandError),
    /// The agent has stopped; whether anything was sent is unknown.
    #[error("the agent has stopped")]
    Stopped,
}

impl From<CommandError> for MessageError {
    fn from(error: CommandError) -> Self {
        match error {
            CommandError::NoAnswer { id } => MessageError::NoAnswer { id },
            error => MessageError::Refused(error),
        }
    }
}

impl Agent {
    /// Says something to every live member, this one included: to each listener at most once.
    ///
    /// It returns as soon as the message is on its way. Nearly always it is everywhere within a fraction of a second; what a
    /// partition keeps away for longer than ten seconds stays away, so it is a hint to act at once, not a log. Payloads of up
    /// to 736 bytes go in datagrams, larger ones (64 KiB at most) over TCP.
    ///
    /// With leases in a database, nodes that its table lists as active and that this node's view lacks are called directly.
    ///
    /// ```
    /// use headcount::{Agent, Config, Profile};
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let mut config = Config::new("a")?.with_profile(Profile::Local);
    /// # config.bind = Some("127.0.0.1:0".parse()?);
    /// let agent = Agent::start(config).await?;
    /// agent.wait_until_up().await?;
    /// let mut changed = agent.messages::<Vec<u64>>("cache.changed")?;
    ///
    /// let sent = agent.broadcast("cache.changed", b"[17, 4]").await?;
    /// assert_eq!(sent.addressed, 1, "nobody but this node is here");
    /// assert_eq!(changed.recv().await?.value, [17, 4]);
    /// # Ok(())
    /// # }
    /// ```
    pub async fn broadcast(&self, topic: &str, payload: &[u8]) -> Result<Broadcasted, MessageError> {
        let (topic, payload) = (Topic::of_program(topic)?, Payload::new(payload)?);
        match self.say(Say::Broadcast { topic, payload }).await? {
            Reply::Broadcast { id, addressed } => Ok(Broadcasted { id, addressed }),
            _ => Err(MessageError::Stopped),
        }
    }

    /// Says a value to every live member, as JSON, for [`Agent::messages`].
    pub async fn broadcast_json<T: Serialize + ?Sized>(
        &self,
        topic: &str,
        value: &T,
    ) -> Result<Broadcasted, MessageError> {
        self.broadcast(topic, &json(value)?).await
    }

    /// Says something to one member, and waits until its agent has it.
    ///
    /// An `Ok` does not say that a program there listens. An error of [`MessageError::NoAnswer`] means *unknown*: the message
    /// may have arrived, or may still.
    pub async fn send(&self, to: &NodeId, topic: &str, payload: &[u8]) -> Result<MessageId, MessageError> {
        self.send_payload(to.clone(), Topic::of_program(topic)?, Payload::new(payload)?).await
    }

    /// Says a value to one member, as JSON, for [`Agent::messages`].
    pub async fn send_json<T: Serialize + ?Sized>(
        &self,
        to: &NodeId,
        topic: &str,
        value: &T,
    ) -> Result<MessageId, MessageError> {
        self.send(to, topic, &json(value)?).await
    }

    /// Sends a payload that the caller need not keep meanwhile.
    pub(crate) async fn send_payload(
        &self,
        to: NodeId,
        topic: Topic,
        payload: Payload,
    ) -> Result<MessageId, MessageError> {
        match self.say(Say::Send { to, topic, payload }).await? {
            Reply::Delivered { id } => Ok(id),
            _ => Err(MessageError::Stopped),
        }
    }

    /// Asks one member something and waits for the answer of a program there, for a minute at most. There [`Agent::serve`]
    /// answers, or [`Agent::listen`] hears and [`Agent::reply`] answers.
    ///
    /// An answer that comes after `timeout` is dropped and counted (as dropped, unasked): it answers no later request.
    ///
    /// ```
    /// # use headcount::{Agent, Config, Profile};
    /// # use std::time::Duration;
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let mut config = Config::new("a")?.with_profile(Profile::Local);
    /// # config.bind = Some("127.0.0.1:0".parse()?);
    /// # let agent = Agent::start(config).await?;
    /// # agent.wait_until_up().await?;
    /// use headcount::agent::Received;
    ///
    /// let _serving = agent.serve("health", |_: Received<()>| async { "fine" })?;
    /// let me = agent.me().id;
    /// let answer = agent.request(&me, "health", b"null", Duration::from_secs(5)).await?;
    /// assert_eq!(answer, b"\"fine\"");
    /// # Ok(())
    /// # }
    /// ```
    pub async fn request(
        &self,
        to: &NodeId,
        topic: &str,
        payload: &[u8],
        timeout: Duration,
    ) -> Result<Vec<u8>, MessageError> {
        self.request_payload(to.clone(), Topic::of_program(topic)?, Payload::new(payload)?, timeout).await
    }

    /// Asks one member by a value, as JSON, and reads the answer, for [`Agent::serve`].
    ///
    /// ```
    /// # use headcount::{Agent, Config, Profile};
    /// # use std::time::Duration;
    /// use headcount::agent::Received;
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let config = Config::new("a")?.with_profile(Profile::Local).with_bind("127.0.0.1:0".parse()?);
    /// # let agent = Agent::start(config).await?;
    /// # agent.wait_until_up().await?;
    /// let _serving = agent.serve("double", |asked: Received<u64>| async move { asked.value * 2 })?;
    ///
    /// let answer: u64 = agent.request_json(&agent.me().id, "double", &21, Duration::from_secs(5)).await?;
    /// assert_eq!(answer, 42);
    /// # Ok(())
    /// # }
    /// ```
    pub async fn request_json<Q: Serialize + ?Sized, A: DeserializeOwned>(
        &self,
        to: &NodeId,
        topic: &str,
        question: &Q,
        timeout: Duration,
    ) -> Result<A, MessageError> {
        let answer = self.request(to, topic, &json(question)?, timeout).await?;
        let unreadable =
            |error: serde_json::Error| MessageError::Unreadable { id: to.clone(), reason: error.to_string() };
        serde_json::from_slice(&answer).map_err(unreadable)
    }

    /// Asks by a payload that the caller need not keep meanwhile.
    pub(crate) async fn request_payload(
        &self,
        to: NodeId,
        topic: Topic,
        payload: Payload,
        timeout: Duration,
    ) -> Result<Vec<u8>, MessageError> {
        match self.say(Say::Request { to, topic, payload, timeout }).await? {
            Reply::Answered { payload, .. } => Ok(payload.to_vec()),
            _ => Err(MessageError::Stopped),
        }
    }

    /// Answers a request, and waits until the agent that asked has the answer. The first answer counts; one that arrives when
    /// the asking program waits no more is dropped there.
    pub async fn reply(&self, request: MessageId, payload: &[u8]) -> Result<(), MessageError> {
        self.reply_payload(request, Payload::new(payload)?).await
    }

    /// Answers by a payload that the caller need not keep meanwhile.
    pub(crate) async fn reply_payload(&self, request: MessageId, payload: Payload) -> Result<(), MessageError> {
        match self.say(Say::Answer { request, payload }).await? {
            Reply::Delivered { .. } => Ok(()),
            _ => Err(MessageError::Stopped),
        }
    }

    /// The messages of these topics from now on, broadcasts, those sent to this node, and requests; of all topics, if none is
    /// named. A listener that is too slow is told so by [`ReceiveError::Lagged`], and goes on: only
    /// [`ReceiveError::Closed`] is an end.
    ///
    /// [`ReceiveError::Lagged`]: super::ReceiveError::Lagged
    /// [`ReceiveError::Closed`]: super::ReceiveError::Closed
    pub fn listen<'a>(&self, topics: impl IntoIterator<Item = &'a str>) -> Result<Inbox, InvalidTopic> {
        let topics = topics.into_iter().map(Topic::of_program).collect::<Result<BTreeSet<_>, _>>()?;
        Ok(Inbox::listen(&self.inner.shared.listeners, topics))
    }

    /// The messages of one topic from now on, their payloads read as JSON. A payload that is no `T` is skipped, counted
    /// ([`Info::messages_undecodable`](crate::agent::Info::messages_undecodable)) and logged.
    pub fn messages<T: DeserializeOwned>(&self, topic: &str) -> Result<Messages<T>, InvalidTopic> {
        self.listen([topic]).map(|inbox| Messages::new(inbox, self.inner.shared.journal.clone()))
    }

    pub(crate) async fn say(&self, what: Say) -> Result<Reply, MessageError> {
        match self.ask(|answer| Request::Say { what, answer }).await {
            Ok(Reply::Refused(error)) => Err(error.into()),
            Ok(reply) => Ok(reply),
            Err(_) => Err(MessageError::Stopped),
        }
    }
}

/// Writes a value as the payload of a message.
fn json<T: Serialize + ?Sized>(value: &T) -> Result<Vec<u8>, MessageError> {
    serde_json::to_vec(value).map_err(|error| MessageError::Unwritable { reason: error.to_string() })
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    #[test]
    fn that_it_is_unknown_whether_a_message_arrived_is_not_taken_for_a_refusal() {
        let id = NodeId::new("b").expect("a name");
        let unknown = MessageError::from(CommandError::NoAnswer { id: id.clone() });
        assert_eq!(unknown, MessageError::NoAnswer { id });
        assert_eq!(MessageError::from(CommandError::Busy), MessageError::Refused(CommandError::Busy));
    }

    #[tokio::test]
    async fn values_are_said_asked_and_answered_as_json_and_what_is_none_is_an_error_and_never_sent() {
        use crate::agent::Received;

        let config = crate::Config::new("a").expect("a name").with_profile(crate::Profile::Local);
        let config = config.with_bind("127.0.0.1:0".parse().expect("an address"));
        let agent = Agent::start(config).await.expect("started");
        agent.wait_until_up().await.expect("up");
        let (me, within) = (agent.me().id, Duration::from_secs(30));
        let mut heard = agent.messages::<Vec<u64>>("t").expect("a topic");
        agent.broadcast_json("t", &[1, 2]).await.expect("said");
        agent.send_json(&me, "t", &vec![3]).await.expect("sent");
        let values = [heard.recv().await.expect("heard").value, heard.recv().await.expect("heard").value];
        assert_eq!(values, [vec![1, 2], vec![3]]);

        let _serving = agent.serve("double", |asked: Received<u64>| async move { asked.value * 2 }).expect("a topic");
        assert_eq!(agent.request_json::<_, u64>(&me, "double", &21, within).await, Ok(42));
        let other = agent.request_json::<_, String>(&me, "double", &21, within).await.expect_err("a number");
        assert!(matches!(&other, MessageError::Unreadable { id, .. } if *id == me), "{other}");
        let keyless = BTreeMap::from([(vec![1], 1)]);
        let error = agent.broadcast_json("t", &keyless).await.expect_err("no JSON");
        assert!(matches!(error, MessageError::Unwritable { .. }), "{error}");
        agent.leave().await;
    }
}
