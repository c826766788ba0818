//! The runtime, the threads and the log subscriber that an agent lives among.

use super::*;

#[test]
fn starting_outside_a_runtime_is_an_error() {
    let refused = futures_util::FutureExt::now_or_never(Agent::start(config("a", &[])));
    let error = refused.expect("at once").expect_err("nothing runs here");
    assert!(matches!(error, StartError::NoRuntime), "{error}");
}

/// Returns a runtime of one thread, as a program may have several.
fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime")
}

#[test]
fn an_agent_whose_runtime_is_shut_down_ends_and_whoever_waits_elsewhere_hears_of_it() {
    let first = runtime();
    let agent = first.block_on(start("a", &[]));
    let mut events = agent.subscribe();
    first.block_on(up(&agent));
    drop(first);
    runtime().block_on(async {
        let stop = in_time(agent.stopped()).await;
        assert!(matches!(&stop, Stop::Failed(failure) if failure.task == "runtime"), "{stop}");
        while in_time(events.recv()).await.is_ok() {}
        assert_eq!(in_time(events.recv()).await, Err(RecvError::Closed));
    });
    assert!(agent.health().is_err());
}

#[test]
fn an_agent_on_a_runtime_that_stands_still_is_heard_by_the_others() {
    let (stuck, other) = (runtime(), runtime());
    let watcher = other.block_on(start("a", &[]));
    let agent = stuck.block_on(start("b", &[&watcher]));
    other.block_on(async {
        up(&agent).await;
        sees(&watcher, "b", Status::Up).await;
    });
    // From here on nobody polls the runtime that `b` was started on, for twice its down timeout.
    let mut events = watcher.subscribe();
    other.block_on(async { tokio::time::sleep(2 * Profile::Local.settings().down_timeout).await });
    let mut about_b = Vec::new();
    while let Some(event) = events.try_recv().expect("few events") {
        about_b.extend(event.kind.node().filter(|id| **id == "b").map(|_| event.kind.name()));
    }
    assert_eq!(about_b, [""; 0]);
    assert_eq!(watcher.member(&name("b")).map(|b| b.status), Some(Status::Up));
}

/// A subscriber for logs that panics at every line.
struct Panics;

impl tracing::Subscriber for Panics {
    fn enabled(&self, _: &tracing::Metadata<'_>) -> bool {
        true
    }
    fn new_span(&self, _: &tracing::span::Attributes<'_>) -> tracing::span::Id {
        panic!("a subscriber of the test")
    }
    fn record(&self, _: &tracing::span::Id, _: &tracing::span::Record<'_>) {}
    fn record_follows_from(&self, _: &tracing::span::Id, _: &tracing::span::Id) {}
    fn event(&self, _: &tracing::Event<'_>) {
        panic!("a subscriber of the test")
    }
    fn enter(&self, _: &tracing::span::Id) {}
    fn exit(&self, _: &tracing::span::Id) {}
}

#[tokio::test]
async fn a_log_subscriber_that_panics_costs_lines_and_nothing_else() {
    // While there is one subscriber alone, a line that another test comes to first is off for all: who asks for it there has none.
    let _another = tracing::Dispatch::new(Panics);
    let _default = tracing::subscriber::set_default(Panics);
    let a = start("a", &[]).await;
    up(&a).await;
    let b = start("b", &[&a]).await;
    up(&b).await;
    sees(&a, "b", Status::Up).await;
    assert_eq!(in_time(b.leave()).await, Stop::Core(StopReason::Left));
    sees(&a, "b", Status::Left(LeaveReason::Graceful)).await;
    assert_eq!(a.health(), Ok(()));
    in_time(async {
        while a.info().log_lines_lost == 0 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    })
    .await;
}
