//! A listener's end: messages as they came, or decoded.

use std::future::poll_fn;
use std::marker::PhantomData;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::{Duration, SystemTime};

use futures_core::Stream;
use serde::de::DeserializeOwned;

use super::mailroom::{Mailroom, Next};
use crate::core::{Delivery, DeliveryKind, MessageId, NodeId, Payload, Topic};

/// A message of another program, or of this node's own.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Message {
    /// Its identity: the same at every node that gets it, and given to each listener once.
    pub id: MessageId,
    /// The time at which it came here.
    pub at: SystemTime,
    /// The member that sent it, perhaps this node. Of a broadcast this is what those say who relayed it.
    pub from: NodeId,
    /// The topic.
    pub topic: Topic,
    /// The payload.
    pub payload: Payload,
    /// To whom it was said.
    pub kind: DeliveryKind,
}

impl Message {
    pub(super) fn new(delivery: Delivery, at: SystemTime) -> Self {
        let Delivery { id, from, topic, payload, kind } = delivery;
        Self { id, at, from, topic, payload, kind }
    }

    /// Returns true if it is a request: to be answered by [`Agent::reply`](crate::Agent::reply).
    pub const fn is_request(&self) -> bool {
        matches!(self.kind, DeliveryKind::Request { .. })
    }

    /// For how long from when it came its answer is awaited, if it is a request.
    pub const fn reply_within(&self) -> Option<Duration> {
        match self.kind {
            DeliveryKind::Request { within } => Some(within),
            DeliveryKind::Broadcast | DeliveryKind::Sent => None,
        }
    }

    /// The payload, read as JSON.
    pub fn json<T: DeserializeOwned>(&self) -> Result<T, ReceiveError> {
        serde_json::from_slice(&self.payload).map_err(|error| ReceiveError::Undecodable {
            id: self.id,
            from: self.from.clone(),
            reason: error.to_string(),
        })
    }
}

/// Why there is no message to receive.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ReceiveError {
    /// This listener was too slow. The next call gives the oldest message that still waits.
    #[error("{missed} messages were missed: read faster")]
    Lagged {
        /// The number of messages, of the topics listened to.
        missed: u64,
    },
    /// A payload is not what the listener wants. The next call gives the next message.
    #[error("message {id} from {from:?} is not of the type that is listened for: {reason}")]
    Undecodable {
        /// The message.
        id: MessageId,
        /// The member that sent it.
        from: NodeId,
        /// Why it cannot be read.
        reason: String,
    },
    /// The agent has stopped, and everything was read.
    #[error("the agent has stopped")]
    Closed,
}

/// Messages as they come, from the call of [`Agent::listen`](crate::Agent::listen) on. Also a [`Stream`].
#[derive(Debug)]
pub struct Inbox {
    room: Arc<Mailroom>,
    id: u64,
}

impl Inbox {
    pub(super) fn new(room: Arc<Mailroom>, id: u64) -> Self {
        Self { room, id }
    }

    /// Waits for the next message. Cancel safe.
    pub async fn recv(&mut self) -> Result<Message, ReceiveError> {
        poll_fn(|context| self.poll_recv(context)).await
    }

    /// The next message if there is one now.
    pub fn try_recv(&mut self) -> Result<Option<Message>, ReceiveError> {
        told(self.room.next(self.id, None))
    }

    /// Polls for the next message.
    pub fn poll_recv(&mut self, context: &mut Context<'_>) -> Poll<Result<Message, ReceiveError>> {
        match told(self.room.next(self.id, Some(context.waker()))).transpose() {
            Some(received) => Poll::Ready(received),
            None => Poll::Pending,
        }
    }
}

fn told(next: Next) -> Result<Option<Message>, ReceiveError> {
    match next {
        Next::Message(message) => Ok(Some(Arc::unwrap_or_clone(message))),
        Next::Missed(missed) => Err(ReceiveError::Lagged { missed }),
        Next::Nothing => Ok(None),
        Next::Closed => Err(ReceiveError::Closed),
    }
}

impl Drop for Inbox {
    fn drop(&mut self) {
        self.room.forget(self.id);
    }
}

impl Stream for Inbox {
    type Item = Result<Message, ReceiveError>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.poll_recv(context).map(|received| match received {
            Err(ReceiveError::Closed) => None,
            received => Some(received),
        })
    }
}

/// A message whose payload was read.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Received<T> {
    /// The payload, decoded.
    pub value: T,
    /// The message.
    pub message: Message,
}

/// Messages of one type, from the call of [`Agent::messages`](crate::Agent::messages) on.
#[derive(Debug)]
pub struct Messages<T> {
    inbox: Inbox,
    of: PhantomData<fn() -> T>,
}

impl<T: DeserializeOwned> Messages<T> {
    pub(super) fn new(inbox: Inbox) -> Self {
        Self { inbox, of: PhantomData }
    }

    /// Waits for the next message. Cancel safe.
    pub async fn recv(&mut self) -> Result<Received<T>, ReceiveError> {
        read(self.inbox.recv().await?)
    }

    /// The next message if there is one now.
    pub fn try_recv(&mut self) -> Result<Option<Received<T>>, ReceiveError> {
        self.inbox.try_recv()?.map(read).transpose()
    }
}

impl<T: DeserializeOwned> Stream for Messages<T> {
    type Item = Result<Received<T>, ReceiveError>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        Pin::new(&mut self.inbox).poll_next(context).map(|next| next.map(|received| received.and_then(read)))
    }
}

fn read<T: DeserializeOwned>(message: Message) -> Result<Received<T>, ReceiveError> {
    let value = message.json()?;
    Ok(Received { value, message })
}
