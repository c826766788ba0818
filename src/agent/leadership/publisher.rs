//! The place that publishes who leads, and work that runs only while this node does.
//!
//! Invariants:
//! - Led work begins only under a lease that stands, and is counted until its future is really gone. The driver learns
//!   that all of it has ended before it hands leadership over; until then the voters are not released.
//! - No work of a term begins after the end of that term was published: beginning and publishing exclude each other.
//!
//! Must not know: elections.

use std::fmt;
use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use futures_core::Stream;
use tokio::runtime::Handle;
use tokio::sync::watch;
use tokio_util::task::AbortOnDropHandle;

use super::Leadership;
use crate::agent::timers::timers;

/// The longest sleep before the clock is looked at again: timers stand still while the machine is suspended, claims do
/// not.
pub(crate) const MAX_NAP: Duration = Duration::from_secs(1);

/// Watches who leads: tells it at any moment, and each time that it changes or is renewed. Also a [`Stream`] of what
/// [`changed`](Self::changed) returns, which ends where that is `None`.
///
/// Clones look independently. Nothing here holds a lock that the agent waits for.
pub struct LeadershipWatch {
    published: watch::Receiver<Published>,
    /// The change that a poll waits for, with a watch of its own that takes the place of this one.
    polled: Option<Polled>,
}

type Polled = Pin<Box<dyn Future<Output = (Option<Leadership>, LeadershipWatch)> + Send + Sync>>;

impl Clone for LeadershipWatch {
    fn clone(&self) -> Self {
        Self { published: self.published.clone(), polled: None }
    }
}

impl fmt::Debug for LeadershipWatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LeadershipWatch").field("published", &self.published).finish_non_exhaustive()
    }
}

impl LeadershipWatch {
    /// Returns the leader at this instant, by the lease's own clock.
    pub fn get(&self) -> Leadership {
        let published = self.published.borrow().leadership.clone();
        published.now()
    }

    /// Waits until something is published after the last call of this, or of [`Self::wait_for`]: a change, or a renewal of
    /// what is so. `None` once the agent has stopped, or once the lease was given up for good. Cancel safe.
    pub async fn changed(&mut self) -> Option<Leadership> {
        self.polled = None;
        if self.published.borrow().is_over {
            return None;
        }
        self.published.changed().await.ok()?;
        let published = self.published.borrow_and_update().clone();
        (!published.is_over).then(|| published.leadership.now())
    }

    /// Polls for what [`changed`](Self::changed) waits for.
    pub fn poll_changed(&mut self, context: &mut Context<'_>) -> Poll<Option<Leadership>> {
        let published = &self.published;
        let polled = self.polled.get_or_insert_with(|| {
            let mut watch = LeadershipWatch { published: published.clone(), polled: None };
            Box::pin(async move { (watch.changed().await, watch) })
        });
        polled.as_mut().poll(context).map(|(changed, watch)| {
            *self = watch;
            changed
        })
    }

    /// Waits until what is published, as of then, is as asked for; looks at once first. `None` if the agent has stopped
    /// before that. Cancel safe.
    pub async fn wait_for(&mut self, mut is_wanted: impl FnMut(&Leadership) -> bool) -> Option<Leadership> {
        self.polled = None;
        loop {
            // Copied first: whatever the caller does while it looks, the agent goes on publishing.
            let Published { leadership, is_over } = self.published.borrow_and_update().clone();
            if is_over {
                return None;
            }
            let now = leadership.now();
            if is_wanted(&now) {
                return Some(now);
            }
            self.published.changed().await.ok()?;
        }
    }
}

impl Stream for LeadershipWatch {
    type Item = Leadership;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Leadership>> {
        self.poll_changed(context)
    }
}

/// The leadership that the driver published last.
#[derive(Debug, Clone)]
struct Published {
    leadership: Leadership,
    /// True if the driver is gone.
    is_over: bool,
}

/// Publishes leadership, and counts led work.
#[derive(Debug)]
pub(crate) struct LeadershipPublisher {
    leadership: watch::Sender<Published>,
    /// Pieces of led work that are not gone yet.
    running: watch::Sender<usize>,
}

impl LeadershipPublisher {
    pub(crate) fn new() -> Arc<Self> {
        let nobody = Published { leadership: Leadership::disabled(), is_over: false };
        Arc::new(Self { leadership: watch::Sender::new(nobody), running: watch::Sender::new(0) })
    }

    pub(crate) fn watch(&self) -> LeadershipWatch {
        LeadershipWatch { published: self.leadership.subscribe(), polled: None }
    }

    pub(crate) fn publish(&self, leadership: Leadership) {
        self.leadership.send_if_modified(|published| {
            // A driver that was given up may come round once more.
            if !published.is_over {
                published.leadership = leadership;
            }
            !published.is_over
        });
    }

    /// Ends what was published, since the driver is gone and renews no claim any more.
    pub(crate) fn close(&self) {
        self.leadership.send_if_modified(|published| {
            if published.is_over {
                return false;
            }
            *published = Published { leadership: published.leadership.clone().vacated(), is_over: true };
            true
        });
    }

    /// Returns the number of pieces of led work that are not gone yet.
    pub(crate) fn running(&self) -> watch::Receiver<usize> {
        self.running.subscribe()
    }

    /// Runs `work` anew in each term that this node leads, until one of its futures ends by itself. `own` is the agent's runtime.
    pub(crate) async fn while_leader<F, Fut>(self: &Arc<Self>, own: &Handle, mut work: F) -> Fut::Output
    where
        F: FnMut(u64) -> Fut,
        Fut: Future,
    {
        let mut leadership = self.leadership.subscribe();
        loop {
            let is_led = |published: &Published| published.leadership.time_for(published.leadership.term).is_some();
            let leading = leadership.wait_for(is_led).await;
            let Ok(term) = leading.map(|leading| leading.leadership.term) else {
                // Not while this publisher is there, which is held here.
                std::future::pending().await
            };
            let Some(piece) = self.begin(term) else { continue };
            let done = self.run(own, term, work(term)).await;
            // The future is gone by now, so the piece may be.
            drop(piece);
            if let Some(value) = done {
                return value;
            }
        }
    }

    /// Counts one piece of work, if the lease still stands.
    pub(crate) fn begin(self: &Arc<Self>, term: u64) -> Option<Piece> {
        // While this is borrowed nothing else is published.
        let published = self.leadership.borrow();
        published.leadership.time_for(term)?;
        self.running.send_modify(|running| *running += 1);
        Some(Piece(Arc::clone(self)))
    }

    /// Runs the future to its end, or drops it when the lease is about to end.
    async fn run<T>(&self, own: &Handle, term: u64, work: impl Future<Output = T>) -> Option<T> {
        let end = timers(own).spawn(end_of(term, self.leadership.subscribe()));
        let mut end = AbortOnDropHandle::new(end);
        let mut work = pin!(work);
        poll_fn(|context| {
            // A process that was stopped wakes up here, perhaps before its timers do.
            let is_over = self.leadership.borrow().leadership.time_for(term).is_none();
            if is_over || pin!(&mut end).poll(context).is_ready() {
                return Poll::Ready(None);
            }
            work.as_mut().poll(context).map(Some)
        })
        .await
    }
}

/// Waits until the term's lease is about to end, renewals included.
async fn end_of(term: u64, mut leadership: watch::Receiver<Published>) {
    loop {
        let Some(time) = leadership.borrow_and_update().leadership.time_for(term) else { return };
        tokio::select! {
            changed = leadership.changed() => if changed.is_err() { return },
            () = tokio::time::sleep(time.min(MAX_NAP)) => {}
        }
    }
}

/// One piece of led work, however it ends.
#[derive(Debug)]
pub(crate) struct Piece(Arc<LeadershipPublisher>);

impl Piece {
    /// The publisher of the leadership that it works for.
    #[cfg(feature = "agent")]
    pub(crate) fn publisher(&self) -> &LeadershipPublisher {
        &self.0
    }
}

impl Drop for Piece {
    fn drop(&mut self) {
        self.0.running.send_modify(|running| *running -= 1);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

    use super::*;
    use crate::agent::clock::Clock;
    use crate::agent::leadership::CANCEL_EARLY;
    use crate::agent::leadership::LeaseInstant;
    use crate::core::{LeadershipState, NodeId};

    fn leading(clock: Clock, term: u64, time: Duration) -> Leadership {
        let until = LeaseInstant { clock, at: clock.now() + time };
        let me = NodeId::new("me").expect("a name");
        Leadership { state: LeadershipState::Led, leader: Some(me), term, is_me: true, valid_until: Some(until) }
    }

    const LONG: Duration = Duration::from_secs(600);

    async fn in_time<T>(future: impl Future<Output = T>) -> T {
        tokio::time::timeout(Duration::from_secs(30), future).await.expect("in time")
    }

    /// Says when it is dropped.
    struct Gone(Arc<AtomicBool>);

    impl Drop for Gone {
        fn drop(&mut self) {
            self.0.store(true, Ordering::SeqCst);
        }
    }

    #[tokio::test]
    async fn what_is_past_is_no_leadership_although_nobody_has_said_so_yet() {
        let clock = Clock::start();
        let past = leading(clock, 3, Duration::ZERO);
        assert!(past.is_me && !past.is_leader_now());
        let now = past.now();
        assert_eq!((now.state, now.leader, now.term, now.is_me), (LeadershipState::Vacant, None, 3, false));
        let still = leading(clock, 3, LONG);
        assert!(still.is_leader_now());
        assert_eq!(still.clone().now(), still);
        assert_eq!(Leadership::disabled().now(), Leadership::disabled());
    }

    #[tokio::test]
    async fn led_work_has_a_little_less_time_than_its_claim_and_none_in_another_term() {
        let clock = Clock::start();
        let time = leading(clock, 5, LONG).time_for(5).expect("it leads");
        assert!(time <= LONG.saturating_sub(CANCEL_EARLY), "{time:?}");
        assert_eq!(leading(clock, 5, CANCEL_EARLY).time_for(5), None, "timers fire late");
        assert_eq!(leading(clock, 5, LONG).time_for(6), None);
    }

    #[tokio::test]
    async fn led_work_begins_in_each_term_and_is_gone_before_it_is_counted_out() {
        let (publisher, clock) = (LeadershipPublisher::new(), Clock::start());
        let gone = Arc::new(AtomicBool::new(false));
        let (terms, mut seen) = tokio::sync::mpsc::unbounded_channel();
        let (worker, mark) = (Arc::clone(&publisher), Arc::clone(&gone));
        let work = tokio::spawn(async move {
            worker
                .while_leader(&Handle::current(), |term| {
                    terms.send(term).expect("read");
                    let gone = Gone(Arc::clone(&mark));
                    async move {
                        let _gone = gone;
                        if term == 7 { term } else { std::future::pending().await }
                    }
                })
                .await
        });
        let mut running = publisher.running();
        publisher.publish(leading(clock, 5, LONG));
        assert_eq!(seen.recv().await, Some(5));
        in_time(running.wait_for(|running| *running == 1)).await.expect("it runs");
        assert!(!gone.load(Ordering::SeqCst));
        // A renewal disturbs nobody; the end of the term does.
        publisher.publish(leading(clock, 5, LONG + LONG));
        publisher.publish(leading(clock, 5, LONG).vacated());
        in_time(running.wait_for(|running| *running == 0)).await.expect("it ends");
        assert!(gone.load(Ordering::SeqCst), "dropped before it was counted out");
        publisher.publish(leading(clock, 7, LONG));
        assert_eq!(seen.recv().await, Some(7));
        assert_eq!(work.await.expect("no panic"), 7, "it ended by itself");
        assert_eq!(*running.borrow(), 0);
    }

    #[tokio::test]
    async fn led_work_is_dropped_when_its_claim_runs_out_and_nobody_says_so() {
        let (publisher, clock) = (LeadershipPublisher::new(), Clock::start());
        let ends = Arc::new(AtomicUsize::new(0));
        let until = leading(clock, 5, Duration::from_millis(200));
        let claim = until.valid_until.expect("a claim");
        publisher.publish(until);
        let count = Arc::clone(&ends);
        let busy = Arc::clone(&publisher);
        let work = tokio::spawn(async move {
            busy.while_leader(&Handle::current(), |_| {
                let count = Arc::clone(&count);
                async move {
                    // Always ready: no timer is needed to wake it, so none may be needed to stop it.
                    loop {
                        tokio::task::yield_now().await;
                        assert!(!claim.is_past() || count.fetch_add(1, Ordering::SeqCst) < 1, "it goes on");
                    }
                }
            })
            .await
        });
        let mut running = publisher.running();
        in_time(running.wait_for(|running| *running == 1)).await.expect("it runs");
        in_time(running.wait_for(|running| *running == 0)).await.expect("it ends");
        work.abort();
    }

    #[test]
    fn led_work_needs_no_timers_of_whoever_runs_it() {
        let (runtime, clock) =
            (tokio::runtime::Builder::new_current_thread().build().expect("a runtime"), Clock::start());
        runtime.block_on(async {
            let publisher = LeadershipPublisher::new();
            let mut terms = 0;
            publisher.publish(leading(clock, 5, CANCEL_EARLY * 2));
            let own = Handle::current();
            let work = publisher.while_leader(&own, |term| {
                terms += 1;
                publisher.publish(leading(clock, 6, LONG));
                async move {
                    if term == 5 {
                        std::future::pending::<()>().await;
                    }
                }
            });
            work.await;
            assert_eq!(terms, 2, "the first ended with its claim");
        });
    }

    #[tokio::test]
    async fn led_work_that_stood_still_past_its_claim_is_not_polled_again() {
        let (publisher, clock) = (LeadershipPublisher::new(), Clock::start());
        publisher.publish(leading(clock, 5, Duration::from_secs(1)));
        let claim = publisher.watch().get().valid_until.expect("a claim");
        let is_polled_late = Arc::new(AtomicBool::new(false));
        let (polls, mut polled) = tokio::sync::mpsc::unbounded_channel();
        let (busy, late) = (Arc::clone(&publisher), Arc::clone(&is_polled_late));
        let work = tokio::spawn(async move {
            busy.while_leader(&Handle::current(), |_| {
                let (late, polls) = (Arc::clone(&late), polls.clone());
                poll_fn(move |context| {
                    polls.send(()).expect("read");
                    late.fetch_or(claim.is_past(), Ordering::SeqCst);
                    // As if the process were stopped here: no timer fires meanwhile, and none before the next poll.
                    std::thread::sleep(claim.remaining() + Duration::from_millis(1));
                    context.waker().wake_by_ref();
                    Poll::<()>::Pending
                })
            })
            .await;
        });
        polled.recv().await.expect("it begins");
        let mut running = publisher.running();
        running.wait_for(|running| *running == 0).await.expect("it ends");
        assert!(!is_polled_late.load(Ordering::SeqCst));
        work.abort();
    }

    #[tokio::test]
    async fn a_watch_shows_what_is_published_judged_by_the_clock_and_ends_with_the_agent() {
        let (publisher, clock) = (LeadershipPublisher::new(), Clock::start());
        let mut watch = publisher.watch();
        let mut late = watch.clone();
        assert_eq!(watch.get(), Leadership::disabled());
        publisher.publish(leading(clock, 3, Duration::ZERO));
        let shown = in_time(watch.changed()).await.expect("the agent lives");
        assert_eq!((shown.state, shown.term), (LeadershipState::Vacant, 3), "the claim is past");
        publisher.publish(leading(clock, 4, LONG));
        assert_eq!(in_time(late.wait_for(|now| now.is_me)).await.map(|led| led.term), Some(4));
        publisher.close();
        assert_eq!(in_time(watch.changed()).await, None);
        assert_eq!(in_time(watch.changed()).await, None, "and stays ended");
        assert_eq!(in_time(late.wait_for(|now| now.is_me)).await, None);
        publisher.publish(leading(clock, 5, LONG));
        assert_eq!((late.get().state, late.get().term), (LeadershipState::Vacant, 4));
    }

    #[tokio::test]
    async fn a_watch_is_a_stream_of_changes_and_a_poll_that_is_given_up_loses_none() {
        fn assert_traits<T: Stream<Item = Leadership> + Clone + fmt::Debug + Send + Sync + Unpin>(_: &T) {}
        let (publisher, clock) = (LeadershipPublisher::new(), Clock::start());
        let mut watch = publisher.watch();
        assert_traits(&watch);
        let next = async |watch: &mut LeadershipWatch| {
            in_time(poll_fn(|context| Pin::new(&mut *watch).poll_next(context))).await.map(|led| led.term)
        };
        let is_pending = |watch: &mut LeadershipWatch| {
            watch.poll_changed(&mut Context::from_waker(std::task::Waker::noop())).is_pending()
        };
        for term in 3..6 {
            assert!(is_pending(&mut watch), "nothing since");
            publisher.publish(leading(clock, term, LONG));
            assert_eq!(next(&mut watch).await, Some(term));
        }
        assert!(is_pending(&mut watch));
        publisher.publish(leading(clock, 6, LONG));
        assert_eq!(in_time(watch.changed()).await.map(|led| led.term), Some(6));
        assert!(is_pending(&mut watch), "told once, however it was asked for");
        publisher.close();
        assert_eq!([next(&mut watch).await, next(&mut watch).await], [None, None]);
    }

    #[tokio::test]
    async fn whoever_looks_for_long_delays_no_publisher() {
        let (publisher, clock) = (LeadershipPublisher::new(), Clock::start());
        publisher.publish(leading(clock, 3, LONG));
        let mut watch = publisher.watch();
        let publisher = Arc::clone(&publisher);
        let seen = in_time(watch.wait_for(move |now| {
            // Would wait for itself if looking held what publishing needs.
            publisher.publish(leading(clock, now.term + 1, LONG));
            now.term == 4
        }));
        assert_eq!(seen.await.map(|now| now.term), Some(4));
    }

    #[tokio::test]
    async fn several_pieces_are_counted_and_none_begins_when_the_term_is_over() {
        let (publisher, clock) = (LeadershipPublisher::new(), Clock::start());
        publisher.publish(leading(clock, 5, LONG));
        let (one, two) = (publisher.begin(5).expect("led"), publisher.begin(5).expect("led"));
        assert!(publisher.begin(4).is_none(), "another term's");
        publisher.close();
        assert!(publisher.begin(5).is_none());
        let running = publisher.running();
        drop(one);
        assert_eq!(*running.borrow(), 1);
        drop(two);
        assert_eq!(*running.borrow(), 0);
    }
}
