//! The mailroom: a queue for each listener, and the wish to be woken.
//!
//! Invariants:
//! - A queue holds at most [`MAX_WAITING_MESSAGES`] of at most [`MAX_WAITING_BYTES`] together; the oldest give way and are
//!   counted. A message that several listeners wait for is kept once.
//! - A message is put into each listener's queue at most once, in the order in which messages came.
//! - The lock is held for moments, and nobody's code runs under it.
//!
//! Must not know: what listeners do.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::Waker;
use std::time::SystemTime;

use super::message::Message;
use crate::core::{Delivery, Topic};

/// The greatest number of messages that wait for one listener.
pub const MAX_WAITING_MESSAGES: usize = 4_096;
/// The greatest size of the payloads that wait for one listener, together, in bytes.
pub const MAX_WAITING_BYTES: usize = 4 * 1024 * 1024;

/// All listeners of one agent.
#[derive(Debug, Default)]
pub(crate) struct Mailroom {
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    queues: BTreeMap<u64, Queue>,
    last: u64,
    lost: u64,
    is_closed: bool,
}

#[derive(Debug)]
struct Queue {
    /// The topics that it listens to; all, if this is empty.
    topics: BTreeSet<Topic>,
    waiting: VecDeque<Arc<Message>>,
    bytes: usize,
    missed: u64,
    waker: Option<Waker>,
}

/// The next thing in a queue.
pub(super) enum Next {
    Message(Arc<Message>),
    Missed(u64),
    Nothing,
    Closed,
}

impl Queue {
    /// Puts a message in; returns the number of messages that gave way.
    fn put(&mut self, message: &Arc<Message>) -> u64 {
        self.waiting.push_back(Arc::clone(message));
        self.bytes += message.payload.len();
        let mut lost = 0;
        while self.waiting.len() > MAX_WAITING_MESSAGES || self.bytes > MAX_WAITING_BYTES {
            let Some(oldest) = self.waiting.pop_front() else { break };
            self.bytes -= oldest.payload.len();
            lost += 1;
        }
        self.missed += lost;
        lost
    }
}

impl Mailroom {
    fn state(&self) -> MutexGuard<'_, State> {
        // Nothing that runs under the lock leaves it half done.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Makes a queue for these topics; for all, if there are none. Returns the number of its listener.
    pub(super) fn listen(&self, topics: BTreeSet<Topic>) -> u64 {
        let mut state = self.state();
        state.last += 1;
        let id = state.last;
        let queue = Queue { topics, waiting: VecDeque::new(), bytes: 0, missed: 0, waker: None };
        state.queues.insert(id, queue);
        id
    }

    /// Puts a message into the queues of those who listen.
    pub(in crate::agent) fn deliver(&self, delivery: Delivery, at: SystemTime) {
        let message = Arc::new(Message::new(delivery, at));
        let mut state = self.state();
        let (mut wakers, mut lost) = (Vec::new(), 0);
        for queue in state.queues.values_mut() {
            if queue.topics.is_empty() || queue.topics.contains(&message.topic) {
                lost += queue.put(&message);
                wakers.extend(queue.waker.take());
            }
        }
        state.lost += lost;
        drop(state);
        wakers.into_iter().for_each(Waker::wake);
    }

    /// Ends the mailroom: listeners read what waits, and are told that this is all.
    pub(in crate::agent) fn close(&self) {
        let mut state = self.state();
        state.is_closed = true;
        let wakers: Vec<Waker> = state.queues.values_mut().filter_map(|queue| queue.waker.take()).collect();
        drop(state);
        wakers.into_iter().for_each(Waker::wake);
    }

    /// Takes the next of a listener's; where there is none, `waker` is called once there is.
    pub(super) fn next(&self, listener: u64, waker: Option<&Waker>) -> Next {
        let mut state = self.state();
        let is_closed = state.is_closed;
        let Some(queue) = state.queues.get_mut(&listener) else { return Next::Closed };
        if queue.missed > 0 {
            return Next::Missed(std::mem::take(&mut queue.missed));
        }
        if let Some(message) = queue.waiting.pop_front() {
            queue.bytes -= message.payload.len();
            return Next::Message(message);
        }
        if is_closed {
            return Next::Closed;
        }
        let before = waker.and_then(|waker| queue.waker.replace(waker.clone()));
        drop(state);
        drop(before);
        Next::Nothing
    }

    /// A listener is gone.
    pub(super) fn forget(&self, listener: u64) {
        let queue = self.state().queues.remove(&listener);
        drop(queue);
    }

    /// Returns the number of listeners, and that of messages that gave way because one was too slow.
    pub(in crate::agent) fn figures(&self) -> (usize, u64) {
        let state = self.state();
        (state.queues.len(), state.lost)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::super::inbox::Inbox;
    use super::super::message::ReceiveError;
    use super::*;
    use crate::core::{DeliveryKind, MessageId, NodeId, Payload, Run};

    fn delivery(sequence: u64, topic: &str, bytes: usize) -> Delivery {
        Delivery {
            id: MessageId { run: Run(1), sequence },
            from: NodeId::new("a").expect("a name"),
            topic: Topic::new(topic).expect("a topic"),
            payload: Payload::new(&vec![0; bytes]).expect("small"),
            kind: DeliveryKind::Broadcast,
        }
    }

    fn topics(names: &[&str]) -> BTreeSet<Topic> {
        names.iter().map(|name| Topic::new(name).expect("a topic")).collect()
    }

    fn sequences(inbox: &mut Inbox) -> Vec<u64> {
        std::iter::from_fn(|| inbox.try_recv().expect("nothing is lost")).map(|message| message.id.sequence).collect()
    }

    #[test]
    fn listeners_get_their_topics_in_order() {
        let room = Arc::new(Mailroom::default());
        let (mut cache, mut all) = (Inbox::listen(&room, topics(&["cache"])), Inbox::listen(&room, topics(&[])));
        for (sequence, topic) in [(1, "cache"), (2, "jobs"), (3, "cache")] {
            room.deliver(delivery(sequence, topic, 1), SystemTime::now());
        }
        assert_eq!((sequences(&mut cache), sequences(&mut all)), (vec![1, 3], vec![1, 2, 3]));
        room.close();
        assert_eq!(cache.try_recv(), Err(ReceiveError::Closed));
    }

    #[test]
    fn a_slow_listener_loses_the_oldest_and_is_told_and_others_lose_nothing() {
        let room = Arc::new(Mailroom::default());
        let (mut slow, mut quick) = (Inbox::listen(&room, topics(&[])), Inbox::listen(&room, topics(&[])));
        for sequence in 0..MAX_WAITING_MESSAGES as u64 {
            room.deliver(delivery(sequence, "t", 0), SystemTime::now());
            assert_eq!(sequences(&mut quick), [sequence]);
        }
        assert_eq!(room.figures(), (2, 0), "exactly at the bound");
        room.deliver(delivery(MAX_WAITING_MESSAGES as u64, "t", 0), SystemTime::now());
        assert_eq!(slow.try_recv(), Err(ReceiveError::Lagged { missed: 1 }));
        assert_eq!(sequences(&mut slow).first(), Some(&1));
        assert_eq!(room.figures(), (2, 1));
    }

    #[test]
    fn payloads_that_wait_have_a_bound_of_their_own() {
        let room = Arc::new(Mailroom::default());
        let mut slow = Inbox::listen(&room, topics(&[]));
        let most = (MAX_WAITING_BYTES / 65_536) as u64;
        for sequence in 0..=most {
            room.deliver(delivery(sequence, "t", 65_536), SystemTime::now());
        }
        assert_eq!(slow.try_recv(), Err(ReceiveError::Lagged { missed: 1 }));
        assert_eq!(sequences(&mut slow).len() as u64, most);
    }

    #[tokio::test]
    async fn who_waits_is_woken_and_who_is_gone_leaves_nothing() {
        let room = Arc::new(Mailroom::default());
        let mut inbox = Inbox::listen(&room, topics(&[]));
        let waiting = tokio::spawn(async move { inbox.recv().await.map(|message| message.id.sequence) });
        tokio::task::yield_now().await;
        room.deliver(delivery(7, "t", 1), SystemTime::now());
        assert_eq!(waiting.await.expect("no panic"), Ok(7));
        assert_eq!(room.figures().0, 0, "dropped with its task");
    }

    #[test]
    fn a_listener_that_keeps_up_loses_nothing_however_much_is_said() {
        let room = Arc::new(Mailroom::default());
        let mut quick = Inbox::listen(&room, topics(&[]));
        for sequence in 0..2 * (MAX_WAITING_BYTES / 65_536) as u64 {
            room.deliver(delivery(sequence, "t", 65_536), SystemTime::now());
            assert_eq!(sequences(&mut quick), [sequence]);
        }
        assert_eq!(room.figures(), (1, 0));
    }

    #[tokio::test]
    async fn who_waits_when_the_agent_stops_is_told_and_a_stream_ends() {
        let room = Arc::new(Mailroom::default());
        let (mut inbox, mut stream) = (Inbox::listen(&room, topics(&[])), Inbox::listen(&room, topics(&[])));
        let waiting = tokio::spawn(async move { inbox.recv().await });
        let next = tokio::spawn(async move {
            std::future::poll_fn(|context| futures_core::Stream::poll_next(std::pin::Pin::new(&mut stream), context))
                .await
        });
        tokio::task::yield_now().await;
        room.close();
        let in_time = Duration::from_secs(30);
        let waiting = tokio::time::timeout(in_time, waiting).await.expect("it is woken");
        assert_eq!(waiting.expect("no panic"), Err(ReceiveError::Closed));
        let next = tokio::time::timeout(in_time, next).await.expect("it is woken");
        assert_eq!(next.expect("no panic"), None);
    }
}
