//! A bounded queue to a thread of its own, which loses items that do not fit, and counts them.
//!
//! Purpose: a consumer that may block or panic must not be waited for. Log lines go this way twice: from the agent to
//! the user's tracing subscriber, and from the binary's subscriber to standard error. A full disk, a pipe without a
//! reader and a subscriber that panics then cost lines, and nothing else. (`tracing-appender` does the second part
//! alone; it does not report failed writes, and prints to standard output when it cannot end in time.)
//!
//! Invariants:
//! - [`LossyQueue::push`] never waits, and never runs the consumer.
//! - Lost items are counted, whether the queue was full, the consumer failed, or it panicked. The consumer is told the
//!   number once, as soon as it has succeeded again.
//! - The thread ends when all handles are gone and the queue is empty. It is never waited for.
//!
//! Must not know: the items.

use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Duration;

use tokio::sync::oneshot;

/// The input of the consumer.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Item<T> {
    /// An item that was pushed.
    One(T),
    /// The number of items lost since the last such report.
    Lost(u64),
}

/// A handle to the queue. Clones push into the same one.
#[derive(Debug)]
pub(crate) struct LossyQueue<T> {
    /// Unbounded by itself, since a bounded channel of the standard library allocates the memory of all its places at
    /// once.
    jobs: Sender<Job<T>>,
    capacity: usize,
    /// Number of items in the queue.
    queued: Arc<AtomicUsize>,
    lost: Arc<AtomicU64>,
}

#[derive(Debug)]
enum Job<T> {
    Item(T),
    /// A request to answer once all items pushed before are handled.
    Flush(oneshot::Sender<()>),
}

impl<T> Clone for LossyQueue<T> {
    fn clone(&self) -> Self {
        Self {
            jobs: self.jobs.clone(),
            capacity: self.capacity,
            queued: Arc::clone(&self.queued),
            lost: Arc::clone(&self.lost),
        }
    }
}

impl<T: Send + 'static> LossyQueue<T> {
    /// Starts the thread. `consume` returns true for each item that it handled successfully.
    pub(crate) fn start(
        thread: &str,
        capacity: usize,
        consume: impl FnMut(Item<T>) -> bool + Send + 'static,
    ) -> io::Result<Self> {
        let (jobs, queue) = channel();
        let (queued, lost) = (Arc::<AtomicUsize>::default(), Arc::<AtomicU64>::default());
        let (places, counter) = (Arc::clone(&queued), Arc::clone(&lost));
        std::thread::Builder::new().name(thread.to_owned()).spawn(move || work(&queue, &places, &counter, consume))?;
        Ok(Self { jobs, capacity, queued, lost })
    }

    /// Hands an item over, or loses it.
    pub(crate) fn push(&self, item: T) {
        if self.queued.fetch_add(1, Ordering::Relaxed) >= self.capacity {
            self.queued.fetch_sub(1, Ordering::Relaxed);
            self.lose();
        } else if self.jobs.send(Job::Item(item)).is_err() {
            // The thread is gone, which cannot be while there is a handle, but for a bug of ours.
            self.lose();
        }
    }

    /// Counts an item as lost that was not even made.
    pub(crate) fn lose(&self) {
        self.lost.fetch_add(1, Ordering::Relaxed);
    }

    /// Returns the number of items lost so far.
    pub(crate) fn lost(&self) -> u64 {
        self.lost.load(Ordering::Relaxed)
    }

    /// Returns the number of items in the queue.
    pub(crate) fn queued(&self) -> usize {
        self.queued.load(Ordering::Relaxed)
    }

    /// Returns the shared count of lost items.
    #[cfg(feature = "agent")]
    pub(crate) fn counter(&self) -> Arc<AtomicU64> {
        Arc::clone(&self.lost)
    }

    /// Waits until all items pushed before are handled, for `within` at most.
    pub(crate) async fn flush(&self, within: Duration) {
        let (done, flushed) = oneshot::channel();
        if self.jobs.send(Job::Flush(done)).is_ok() {
            let _ = tokio::time::timeout(within, flushed).await;
        }
    }
}

fn work<T>(queue: &Receiver<Job<T>>, queued: &AtomicUsize, lost: &AtomicU64, mut consume: impl FnMut(Item<T>) -> bool) {
    let mut told = 0;
    // A consumer that panics is used again: it is a log, and half a line more or less is better than none for ever.
    let mut succeeds = |item| catch_unwind(AssertUnwindSafe(|| consume(item))).unwrap_or(false);
    for job in queue {
        match job {
            Job::Item(item) => {
                queued.fetch_sub(1, Ordering::Relaxed);
                if !succeeds(Item::One(item)) {
                    lost.fetch_add(1, Ordering::Relaxed);
                    continue;
                }
                let so_far = lost.load(Ordering::Relaxed);
                if so_far > told && succeeds(Item::Lost(so_far - told)) {
                    told = so_far;
                }
            }
            Job::Flush(done) => {
                let _ = done.send(());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;
    use std::sync::mpsc;

    use super::*;

    const LONG: Duration = Duration::from_secs(30);

    /// The items that a consumer received.
    type Seen = Arc<Mutex<Vec<Item<u32>>>>;

    /// Creates a queue whose consumer waits for a permit per item.
    fn gated(capacity: usize) -> (LossyQueue<u32>, mpsc::Sender<()>, Seen) {
        let seen = Seen::default();
        let (permit, permits) = mpsc::channel();
        let sink = Arc::clone(&seen);
        let consume = move |item| {
            let is_open = permits.recv().is_ok();
            sink.lock().expect("not poisoned").push(item);
            is_open
        };
        (LossyQueue::start("test", capacity, consume).expect("a thread"), permit, seen)
    }

    #[tokio::test]
    async fn a_consumer_that_stands_still_costs_what_does_not_fit_and_is_told_so_once() {
        let (queue, permit, seen) = gated(4);
        queue.push(0);
        // One may be with the consumer, four in the queue; the pusher never waits.
        while queue.lost() < 3 {
            queue.push(7);
        }
        for _ in 0..20 {
            permit.send(()).expect("it lives");
        }
        queue.flush(LONG).await;
        queue.push(8);
        queue.flush(LONG).await;
        let seen = seen.lock().expect("not poisoned");
        assert_eq!(seen.iter().filter(|item| matches!(item, Item::Lost(_))).collect::<Vec<_>>(), [&Item::Lost(3)]);
        assert_eq!(seen[..2], [Item::One(0), Item::Lost(3)], "as soon as one has succeeded");
        assert_eq!(seen.last(), Some(&Item::One(8)));
    }

    #[tokio::test]
    async fn as_many_wait_as_there_is_room_for_and_not_one_more() {
        let (permits, taken) = mpsc::channel::<()>();
        let (tell, begun) = mpsc::channel();
        let consume = move |_: Item<u32>| tell.send(()).is_ok() && taken.recv().is_ok();
        let queue = LossyQueue::start("test", 4, consume).expect("a thread");
        // The first one is with the consumer, and takes no place.
        queue.push(0);
        begun.recv_timeout(LONG).expect("it is consumed");
        (1..=4).for_each(|item| queue.push(item));
        assert_eq!((queue.queued(), queue.lost()), (4, 0));
        queue.push(5);
        assert_eq!((queue.queued(), queue.lost()), (4, 1));
        for what in ["the number of lost ones", "the next one"] {
            permits.send(()).expect("it lives");
            begun.recv_timeout(LONG).expect(what);
        }
        queue.push(6);
        assert_eq!((queue.queued(), queue.lost()), (4, 1), "in the place of that one");
    }

    #[tokio::test]
    async fn what_the_consumer_fails_at_or_panics_on_is_counted_and_it_is_used_again() {
        let seen = Seen::default();
        let sink = Arc::clone(&seen);
        let consume = move |item| {
            assert!(item != Item::One(2), "by the test");
            let is_good = item != Item::One(1);
            sink.lock().expect("not poisoned").push(item);
            is_good
        };
        let queue = LossyQueue::start("test", 16, consume).expect("a thread");
        (0..4).for_each(|item| queue.push(item));
        queue.flush(LONG).await;
        assert_eq!(queue.lost(), 2);
        let expected = [Item::One(0), Item::One(1), Item::One(3), Item::Lost(2)];
        assert_eq!(*seen.lock().expect("not poisoned"), expected);
    }

    #[tokio::test]
    async fn flushing_a_queue_that_stands_still_is_given_up() {
        let (queue, permit, _) = gated(4);
        queue.push(0);
        queue.flush(Duration::from_millis(10)).await;
        drop(permit);
        queue.flush(LONG).await;
    }

    #[test]
    fn the_thread_ends_with_its_last_handle() {
        let (ended, end) = mpsc::channel::<()>();
        let queue = LossyQueue::start("test", 1, move |_: Item<u32>| ended.send(()).is_ok()).expect("a thread");
        let other = queue.clone();
        drop(queue);
        drop(other);
        assert_eq!(end.recv_timeout(LONG), Err(mpsc::RecvTimeoutError::Disconnected));
    }
}
