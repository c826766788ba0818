//! The listeners: a queue for each, and the wish to be woken.
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

#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::Waker;
use std::time::{Duration, SystemTime};

use super::message::Message;
use crate::core::{Delivery, Topic};
use crate::quiet::Quiet;

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
/// There is at most one line of the log about messages that are skipped in this time.
const SKIPPED_PAUSE: Duration = Duration::from_secs(10);
/// The number of places that an empty queue may keep room for.
const IDLE_PLACES: usize = 64;

/// All listeners of one agent.
#[derive(Debug, Default)]
pub(crate) struct Listeners {
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
    /// The number of messages that were not of their listener's type.
    undecodable: u64,
    quiet: Quiet,
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

impl Listeners {
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
    pub(crate) fn deliver(&self, delivery: Delivery, at: SystemTime) {
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

    /// Ends the queues: listeners read what waits, and are told that this is all.
    pub(crate) fn close(&self) {
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

    /// Counts a message that is not of its listener's type. Returns how many others there were since the last line of the log
    /// about one, if it is time for another line.
    pub(super) fn skip(&self) -> Option<u64> {
        let mut state = self.state();
        state.undecodable += 1;
        state.quiet.take_turn(SKIPPED_PAUSE, 1)
    }

    /// Returns the number of listeners, that of messages that gave way because one was too slow, and that of those skipped.
    pub(crate) fn figures(&self) -> (usize, u64, u64) {
        let state = self.state();
        (state.queues.len(), state.lost, state.undecodable)
    }
}
