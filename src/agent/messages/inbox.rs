//! A listener's end: messages as they came, or decoded.

use std::collections::BTreeSet;
use std::future::poll_fn;
use std::marker::PhantomData;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use futures_core::Stream;
use serde::de::DeserializeOwned;

use super::mailroom::{Mailroom, Next};
use super::message::{Message, ReceiveError};
use crate::core::Topic;

/// Messages as they come, from the call of [`Agent::listen`](crate::Agent::listen) on. Also a [`Stream`].
#[derive(Debug)]
pub struct Inbox {
    room: Arc<Mailroom>,
    id: u64,
}

impl Inbox {
    /// Returns a new listener to these topics; to all, if there are none.
    pub(super) fn listen(room: &Arc<Mailroom>, topics: BTreeSet<Topic>) -> Self {
        Self { room: Arc::clone(room), id: room.listen(topics) }
    }

    /// Returns its number in the mailroom.
    #[cfg(test)]
    pub(super) fn id(&self) -> u64 {
        self.id
    }

    /// Waits for the next message. Cancel safe.
    pub async fn recv(&mut self) -> Result<Message, ReceiveError> {
        poll_fn(|context| self.poll_recv(context)).await
    }

    /// Returns the next message if there is one now.
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
        Next::Message(message) => Ok(Some(message)),
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

    /// Returns the next message if there is one now.
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
