//! A listener's end: messages as they came, or decoded.

use std::collections::BTreeSet;
use std::future::poll_fn;
use std::marker::PhantomData;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use futures_core::Stream;
use serde::de::DeserializeOwned;
use tracing::Level;

use super::listeners::{Listeners, Next};
use super::message::{Message, ReceiveError};
use crate::core::Topic;
use crate::journal::Journal;

/// Messages as they come, from the call of [`Agent::listen`](crate::Agent::listen) on. Also a [`Stream`].
#[derive(Debug)]
pub struct Inbox {
    listeners: Arc<Listeners>,
    id: u64,
}

impl Inbox {
    /// Returns a new listener to these topics; to all, if there are none.
    pub(super) fn listen(listeners: &Arc<Listeners>, topics: BTreeSet<Topic>) -> Self {
        Self { listeners: Arc::clone(listeners), id: listeners.listen(topics) }
    }

    /// Returns its number among the listeners.
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
        told(self.listeners.next(self.id, None))
    }

    /// Polls for the next message.
    pub fn poll_recv(&mut self, context: &mut Context<'_>) -> Poll<Result<Message, ReceiveError>> {
        match told(self.listeners.next(self.id, Some(context.waker()))).transpose() {
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
        self.listeners.forget(self.id);
    }
}

impl Stream for Inbox {
    type Item = Result<Message, ReceiveError>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.poll_recv(context).map(open)
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

/// Messages of one type, from the call of [`Agent::messages`](crate::Agent::messages) on. What is not of that type is skipped,
/// counted and logged. Also a [`Stream`].
#[derive(Debug)]
pub struct Messages<T> {
    inbox: Inbox,
    journal: Journal,
    of: PhantomData<fn() -> T>,
}

impl<T: DeserializeOwned> Messages<T> {
    pub(super) fn new(inbox: Inbox, journal: Journal) -> Self {
        Self { inbox, journal, of: PhantomData }
    }

    /// Waits for the next message. Cancel safe.
    pub async fn recv(&mut self) -> Result<Received<T>, ReceiveError> {
        poll_fn(|context| self.poll_recv(context)).await
    }

    /// Returns the next message if there is one now.
    pub fn try_recv(&mut self) -> Result<Option<Received<T>>, ReceiveError> {
        while let Some(message) = self.inbox.try_recv()? {
            if let Some(received) = self.read(message) {
                return Ok(Some(received));
            }
        }
        Ok(None)
    }

    /// Polls for the next message.
    pub fn poll_recv(&mut self, context: &mut Context<'_>) -> Poll<Result<Received<T>, ReceiveError>> {
        loop {
            let message = ready!(self.inbox.poll_recv(context))?;
            if let Some(received) = self.read(message) {
                return Poll::Ready(Ok(received));
            }
        }
    }

    fn read(&self, message: Message) -> Option<Received<T>> {
        match message.json() {
            Ok(value) => Some(Received { value, message }),
            Err(error) => {
                if let Some(others) = self.inbox.listeners.skip() {
                    self.journal.say(Level::WARN, format!("{error}: it is skipped ({others} before it)"));
                }
                None
            }
        }
    }
}

impl<T: DeserializeOwned> Stream for Messages<T> {
    type Item = Result<Received<T>, ReceiveError>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.poll_recv(context).map(open)
    }
}

/// Returns what a stream gives: nothing after the end.
fn open<T>(received: Result<T, ReceiveError>) -> Option<Result<T, ReceiveError>> {
    match received {
        Err(ReceiveError::Closed) => None,
        received => Some(received),
    }
}
