//! Requests that a handler answers: nothing that others send ends it.

use headcount::agent::{MAX_SERVED, MAX_WAITING_MESSAGES, MessageError, Received};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;

use super::*;

async fn ask(agent: &Agent, payload: &[u8], within: Duration) -> Result<Vec<u8>, MessageError> {
    agent.request(&agent.me().id, "double", payload, within).await
}

async fn alone() -> Agent {
    let agent = start("a", &[]).await;
    up(&agent).await;
    agent
}

#[tokio::test]
async fn a_payload_that_cannot_be_read_and_a_handler_that_panics_end_no_service() {
    let agent = alone().await;
    let double = |asked: Received<u64>| async move {
        assert_ne!(asked.value, 0, "by the test");
        asked.value * 2
    };
    let serving = agent.serve("double", double).expect("a topic");
    for unanswered in [&b"nonsense"[..], b"0"] {
        let error = ask(&agent, unanswered, Duration::from_millis(100)).await.expect_err("no answer");
        assert!(matches!(error, MessageError::NoAnswer { .. }), "{error}");
    }
    assert_eq!(agent.info().messages_undecodable, 1);
    assert_eq!(ask(&agent, b"21", PATIENCE).await.expect("answered"), b"42");
    drop(serving);
    ask(&agent, b"21", Duration::from_millis(100)).await.expect_err("nobody serves any more");
}

#[tokio::test]
async fn a_burst_that_is_too_much_ends_no_service_and_so_many_are_answered_at_a_time() {
    let agent = alone().await;
    let places = Arc::new(Semaphore::new(0));
    let (free, most, now) = (Arc::clone(&places), Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let counts = (Arc::clone(&most), Arc::clone(&now));
    let slow = move |asked: Received<u64>| {
        let (free, (most, now)) = (Arc::clone(&free), counts.clone());
        async move {
            most.fetch_max(now.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
            free.acquire().await.expect("open").forget();
            now.fetch_sub(1, Ordering::SeqCst);
            asked.value
        }
    };
    agent.serve("double", slow).expect("a topic").detach();
    let mut asking = JoinSet::new();
    for _ in 0..=MAX_SERVED {
        let agent = agent.clone();
        asking.spawn(async move { ask(&agent, b"1", PATIENCE).await });
    }
    while now.load(Ordering::SeqCst) < MAX_SERVED {
        tokio::task::yield_now().await;
    }
    // More than one listener's queue holds: the request that waits gives way.
    for _ in 0..=MAX_WAITING_MESSAGES {
        agent.broadcast("double", b"2").await.expect("sent");
    }
    assert!(agent.info().messages_lost > 0);
    places.add_permits(2 * MAX_SERVED);
    assert_eq!(in_time(ask(&agent, b"3", PATIENCE)).await.expect("answered"), b"3");
    assert_eq!(most.load(Ordering::SeqCst), MAX_SERVED);
}

#[tokio::test]
async fn a_service_does_not_keep_the_agent_and_ends_with_it() {
    let agent = alone().await;
    let held = Arc::new(());
    let kept = Arc::clone(&held);
    let handler = move |_: Received<()>| {
        let kept = Arc::clone(&kept);
        async move { Arc::strong_count(&kept) }
    };
    agent.serve("double", handler).expect("a topic").detach();
    let mut events = agent.subscribe();
    drop(agent);
    while in_time(events.recv()).await != Err(RecvError::Closed) {}
    while Arc::strong_count(&held) > 1 {
        tokio::task::yield_now().await;
    }
}
