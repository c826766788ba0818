//! The mailroom: a queue for each listener, and the wish to be woken.
//!
//! Invariants:
//! - A queue holds at most [`MAX_WAITING_MESSAGES`] of at most [`MAX_WAITING_BYTES`] together; the oldest give way and are
//!   counted. A message that several listeners wait for is kept once.
//! - All queues hold at most [`MAX_ALL_WAITING_BYTES`], what messages and their places take beside their payloads
//!   included: of the fullest ones the oldest give way, so that no number of slow listeners is a loss for one that keeps up.
//! - A message is put into each listener's queue at most once, in the order in which messages came.
//! - The lock is held for moments, and nobody's code runs under it.
//!
//! Must not know: what listeners do.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::Waker;
use std::time::SystemTime;

use super::message::Message;
use crate::core::{Delivery, Topic};

/// The greatest number of messages that wait for one listener.
pub const MAX_WAITING_MESSAGES: usize = 4_096;
/// The greatest size of the payloads that wait for one listener, together, in bytes.
pub const MAX_WAITING_BYTES: usize = 4 * 1024 * 1024;
/// The greatest size of all that waits for all listeners together, in bytes.
pub const MAX_ALL_WAITING_BYTES: usize = 8 * 1024 * 1024;
/// The size of a message beside its payload, in bytes.
const MESSAGE_BYTES: usize = size_of::<Waiting>() + 64;
/// The size of a message's place in a queue, whose room doubles as it grows, in bytes.
const PLACE_BYTES: usize = 2 * size_of::<Arc<Waiting>>();
/// The number of places that an empty queue may keep room for.
const IDLE_PLACES: usize = 64;

/// All listeners of one agent.
#[derive(Debug, Default)]
pub(crate) struct Mailroom {
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    queues: BTreeMap<u64, Queue>,
    /// The size of all that waits in them, in bytes.
    bytes: usize,
    /// The number of messages that came.
    came: u64,
    last: u64,
    lost: u64,
    is_closed: bool,
}

/// A message that waits.
#[derive(Debug)]
struct Waiting {
    message: Message,
    /// Its number among those that came.
    nth: u64,
    /// The number of queues that it waits in; changed under the lock alone.
    queues: AtomicUsize,
}

#[derive(Debug)]
struct Queue {
    /// The topics that it listens to; all, if this is empty.
    topics: BTreeSet<Topic>,
    waiting: VecDeque<Arc<Waiting>>,
    /// The size of the payloads that wait here, in bytes.
    bytes: usize,
    missed: u64,
    waker: Option<Waker>,
}

/// The next thing in a queue.
pub(super) enum Next {
    Message(Message),
    Missed(u64),
    Nothing,
    Closed,
}

impl Waiting {
    fn new(message: Message, nth: u64) -> Arc<Self> {
        Arc::new(Self { message, nth, queues: AtomicUsize::new(0) })
    }

    fn bytes(&self) -> usize {
        self.message.payload.len()
    }

    /// Takes a place in a queue; returns what that adds to the size of all.
    fn enters(&self) -> usize {
        let is_first = self.queues.fetch_add(1, Ordering::Relaxed) == 0;
        PLACE_BYTES + if is_first { MESSAGE_BYTES + self.bytes() } else { 0 }
    }

    /// Leaves a queue; returns what that takes from the size of all.
    fn leaves(&self) -> usize {
        let was_last = self.queues.fetch_sub(1, Ordering::Relaxed) == 1;
        PLACE_BYTES + if was_last { MESSAGE_BYTES + self.bytes() } else { 0 }
    }
}

impl Queue {
    /// Returns what waits here, as if nobody else waited for it, in bytes.
    fn size(&self) -> usize {
        self.bytes + self.waiting.len() * (MESSAGE_BYTES + PLACE_BYTES)
    }

    /// Returns the number of the oldest message here.
    fn oldest(&self) -> u64 {
        self.waiting.front().map_or(u64::MAX, |oldest| oldest.nth)
    }

    fn is_too_full(&self) -> bool {
        self.waiting.len() > MAX_WAITING_MESSAGES || self.bytes > MAX_WAITING_BYTES
    }

    /// Takes the oldest out; what becomes free is taken from `all`.
    fn take(&mut self, all: &mut usize) -> Option<Arc<Waiting>> {
        let oldest = self.waiting.pop_front()?;
        self.bytes -= oldest.bytes();
        *all -= oldest.leaves();
        if self.waiting.is_empty() && self.waiting.capacity() > IDLE_PLACES {
            self.waiting = VecDeque::new();
        }
        Some(oldest)
    }

    /// Loses the oldest; returns the number of messages lost.
    fn lose_oldest(&mut self, all: &mut usize) -> u64 {
        let lost = u64::from(self.take(all).is_some());
        self.missed += lost;
        lost
    }

    /// Puts a message in; returns the number of messages that gave way.
    fn put(&mut self, message: &Arc<Waiting>, all: &mut usize) -> u64 {
        *all += message.enters();
        self.waiting.push_back(Arc::clone(message));
        self.bytes += message.bytes();
        let mut lost = 0;
        while self.is_too_full() {
            lost += self.lose_oldest(all);
        }
        lost
    }
}

impl State {
    /// Makes the fullest queues lose their oldest until the others fit; returns the number of messages lost.
    fn make_room(&mut self) -> u64 {
        let mut lost = 0;
        while self.bytes > MAX_ALL_WAITING_BYTES {
            let fullest = self.queues.values().map(Queue::size).max().unwrap_or_default();
            // Those that hold about as much give up what is oldest: nobody who keeps up has that.
            let full = self.queues.iter().filter(|(_, queue)| queue.size() > fullest / 2);
            let mut oldest: Vec<(u64, u64)> = full.map(|(id, queue)| (queue.oldest(), *id)).collect();
            oldest.sort_unstable();
            for (_, id) in oldest {
                if self.bytes <= MAX_ALL_WAITING_BYTES {
                    break;
                }
                lost += self.queues.get_mut(&id).map_or(0, |queue| queue.lose_oldest(&mut self.bytes));
            }
        }
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
        let message = Message::new(delivery, at);
        let mut guard = self.state();
        let state = &mut *guard;
        state.came += 1;
        let waiting = Waiting::new(message, state.came);
        let (mut wakers, mut lost) = (Vec::new(), 0);
        for queue in state.queues.values_mut() {
            if queue.topics.is_empty() || queue.topics.contains(&waiting.message.topic) {
                lost += queue.put(&waiting, &mut state.bytes);
                wakers.extend(queue.waker.take());
            }
        }
        state.lost += lost + state.make_room();
        drop(guard);
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
        let mut guard = self.state();
        let state = &mut *guard;
        let is_closed = state.is_closed;
        let Some(queue) = state.queues.get_mut(&listener) else { return Next::Closed };
        if queue.missed > 0 {
            return Next::Missed(std::mem::take(&mut queue.missed));
        }
        if let Some(taken) = queue.take(&mut state.bytes) {
            drop(guard);
            let taken = Arc::try_unwrap(taken).map(|waiting| waiting.message);
            return Next::Message(taken.unwrap_or_else(|shared| shared.message.clone()));
        }
        if is_closed {
            return Next::Closed;
        }
        let before = waker.and_then(|waker| queue.waker.replace(waker.clone()));
        drop(guard);
        drop(before);
        Next::Nothing
    }

    /// A listener is gone.
    pub(super) fn forget(&self, listener: u64) {
        let mut state = self.state();
        let queue = state.queues.remove(&listener);
        let free: usize = queue.iter().flat_map(|queue| &queue.waiting).map(|waiting| waiting.leaves()).sum();
        state.bytes -= free;
        drop(state);
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

    /// Returns the size of all that waits, counted anew.
    fn counted(room: &Mailroom) -> usize {
        let state = room.state();
        let waiting = || state.queues.values().flat_map(|queue| &queue.waiting);
        let each: BTreeMap<_, _> = waiting().map(|it| (Arc::as_ptr(it), it.bytes() + MESSAGE_BYTES)).collect();
        let all = waiting().count() * PLACE_BYTES + each.values().sum::<usize>();
        assert_eq!(state.bytes, all, "the sum that is kept");
        all
    }

    #[test]
    fn slow_listeners_to_topics_of_their_own_hold_no_more_together_than_the_bound() {
        let room = Arc::new(Mailroom::default());
        let names: Vec<String> = (0..200).map(|at| format!("t{at}")).collect();
        let mut slow: Vec<Inbox> = names.iter().map(|name| Inbox::listen(&room, topics(&[name]))).collect();
        let mut quick = Inbox::listen(&room, topics(&["quick"]));
        let mut sequence = 0;
        for _ in 0..3 {
            for name in &names {
                sequence += 1;
                room.deliver(delivery(sequence, name, 65_536), SystemTime::now());
                sequence += 1;
                room.deliver(delivery(sequence, "quick", 65_536), SystemTime::now());
                assert_eq!(sequences(&mut quick), [sequence], "it keeps up, and loses nothing");
            }
        }
        let all = counted(&room);
        assert!((MAX_ALL_WAITING_BYTES - 2 * 66_000..=MAX_ALL_WAITING_BYTES).contains(&all), "{all}");
        let mut read = 0;
        for inbox in &mut slow {
            let missed = match inbox.try_recv() {
                Err(ReceiveError::Lagged { missed }) => missed,
                other => panic!("{other:?}"),
            };
            let kept = sequences(inbox).len() as u64;
            assert_eq!(missed + kept, 3, "each is told of all that it lost");
            read += kept;
        }
        // One gave way for what waited for the quick one a moment.
        assert_eq!((read + 1, counted(&room)), (MAX_ALL_WAITING_BYTES as u64 / (65_536 + 300), 0));
        assert_eq!(room.figures().1, 600 - read);
    }

    #[test]
    fn the_fullest_queues_alone_give_way_although_the_oldest_message_waits_in_another() {
        let room = Arc::new(Mailroom::default());
        let mut small = Inbox::listen(&room, topics(&["small"]));
        let names = ["t0", "t1", "t2"];
        let mut slow = names.map(|name| Inbox::listen(&room, topics(&[name])));
        room.deliver(delivery(0, "small", 1), SystemTime::now());
        for sequence in 1..=3 * (MAX_WAITING_BYTES / 65_536) as u64 {
            room.deliver(delivery(sequence, names[sequence as usize % 3], 65_536), SystemTime::now());
        }
        assert!(slow.iter_mut().all(|inbox| matches!(inbox.try_recv(), Err(ReceiveError::Lagged { .. }))));
        assert_eq!(sequences(&mut small), [0]);
    }

    #[test]
    fn places_of_many_slow_listeners_to_one_topic_are_counted_and_the_payload_once() {
        let room = Arc::new(Mailroom::default());
        let mut slow: Vec<Inbox> = (0..300).map(|_| Inbox::listen(&room, topics(&[]))).collect();
        for sequence in 0..MAX_WAITING_MESSAGES as u64 {
            room.deliver(delivery(sequence, "t", 1), SystemTime::now());
        }
        assert!(counted(&room) <= MAX_ALL_WAITING_BYTES);
        let fair = MAX_ALL_WAITING_BYTES / (300 * PLACE_BYTES);
        let longest = room.state().queues.values().map(|queue| queue.waiting.len()).max().expect("queues");
        let shortest = room.state().queues.values().map(|queue| queue.waiting.len()).min().expect("queues");
        assert!(longest <= 2 * fair && 2 * shortest >= longest - 2, "{shortest} to {longest}, {fair}");
        let last = slow.pop().expect("a listener");
        drop(slow);
        assert_eq!(counted(&room), room.state().queues[&last.id()].size());
        drop(last);
        assert_eq!(counted(&room), 0);
    }

    #[test]
    fn a_queue_that_was_read_to_its_end_keeps_no_room() {
        let room = Arc::new(Mailroom::default());
        let mut slow = Inbox::listen(&room, topics(&[]));
        for sequence in 0..MAX_WAITING_MESSAGES as u64 {
            room.deliver(delivery(sequence, "t", 1), SystemTime::now());
        }
        assert_eq!(sequences(&mut slow).len(), MAX_WAITING_MESSAGES);
        assert!(room.state().queues[&slow.id()].waiting.capacity() <= IDLE_PLACES);
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
