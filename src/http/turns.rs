//! Turns: a few answers are made at one time, whoever asks, and however many ask at once.
//!
//! Without turns the runtime would make the answers of all connections that have sent a request before it looks at the next
//! one: a thousand pages of metrics in a row, and a health check behind them. With turns a thousand requests wait without
//! being worked on, in the order in which they came, and what is not among them is looked at between any two answers.
//!
//! Invariant: a turn is over when its answer is made, or waits for something: nobody who waits keeps others waiting.
//!
//! Must not know: HTTP.

use std::future::poll_fn;
use std::pin::pin;

use tokio::sync::Semaphore;

use super::limits::MAX_ANSWERS_MADE;

/// The turns of health checks, and those of everything else.
#[derive(Debug)]
pub(super) struct Turns {
    health: Semaphore,
    others: Semaphore,
}

impl Default for Turns {
    fn default() -> Self {
        Self { health: Semaphore::new(MAX_ANSWERS_MADE), others: Semaphore::new(MAX_ANSWERS_MADE) }
    }
}

impl Turns {
    /// Begins to make an answer when it is its turn, and goes on with it whenever it can.
    pub(super) async fn take<F: Future>(&self, is_health: bool, making: F) -> F::Output {
        let turns = if is_health { &self.health } else { &self.others };
        // They are never closed.
        let mut turn = turns.acquire().await.ok();
        // Whoever else is ready comes first, and finds that this turn is taken: so all others wait here, and not in the
        // queue of the runtime, where each would be worked on before what comes after it.
        tokio::task::yield_now().await;
        let mut making = pin!(making);
        poll_fn(|cx| {
            let made = making.as_mut().poll(cx);
            turn = None;
            made
        })
        .await
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use futures_util::FutureExt as _;
    use futures_util::future::join_all;

    use super::*;

    #[test]
    fn so_many_answers_are_made_at_one_time_and_who_waits_for_others_is_not_among_them() {
        let turns = Turns::default();
        let held: Vec<_> = (0..MAX_ANSWERS_MADE).map(|_| turns.others.try_acquire().expect("a turn")).collect();
        let begun = AtomicUsize::new(0);
        let makes = |is_health| {
            turns.take(is_health, async {
                begun.fetch_add(1, Ordering::Relaxed);
                std::future::pending::<()>().await;
            })
        };
        let mut all = Box::pin(join_all((0..100).map(|_| makes(false))));
        assert!(all.as_mut().now_or_never().is_none());
        assert_eq!(begun.load(Ordering::Relaxed), 0, "they wait their turn");
        let mut health = Box::pin(makes(true));
        for _ in 0..2 {
            assert!(health.as_mut().now_or_never().is_none());
        }
        assert_eq!(begun.load(Ordering::Relaxed), 1, "health checks are not behind them");
        drop(held);
        for _ in 0..100 {
            assert!(all.as_mut().now_or_never().is_none());
        }
        assert_eq!(begun.load(Ordering::Relaxed), 101, "none that waits has a turn");
        assert_eq!(turns.others.available_permits(), MAX_ANSWERS_MADE);
    }

    #[tokio::test]
    async fn a_health_check_is_answered_between_any_two_answers() {
        let turns = std::sync::Arc::new(Turns::default());
        let made = std::sync::Arc::new(AtomicUsize::new(0));
        for _ in 0..1_000 {
            let (turns, made) = (std::sync::Arc::clone(&turns), std::sync::Arc::clone(&made));
            tokio::spawn(async move {
                // As a connection does that has many requests at hand.
                for _ in 0..20 {
                    turns.take(false, async { made.fetch_add(1, Ordering::Relaxed) }).await;
                }
            });
        }
        tokio::task::yield_now().await;
        let before = made.load(Ordering::Relaxed);
        let check = tokio::spawn(async move { turns.take(true, async {}).await });
        check.await.expect("answered");
        let meanwhile = made.load(Ordering::Relaxed) - before;
        assert!(meanwhile <= 4 * MAX_ANSWERS_MADE, "{meanwhile} answers were made first");
    }
}
