//! Faults of a PostgreSQL server and of the way to it.

use std::time::Duration;

use headcount::lease::store::{Store, StoreError};
use headcount::lease::{Outcome, StepRequest, Token};
use nix::sys::signal::Signal;
use tokio::time::timeout;

use super::harness::{Bench, Node, PATIENCE, acquire, holding, renew, take_over};
use super::postgres::{bench, until};
use super::proxy::{Fault, Proxy};
use crate::server::{self, Server};

/// Asks until there is an answer; the errors met before. None of them may hang.
async fn persist(node: &mut Node, request: StepRequest) -> (headcount::lease::Seen, Vec<StoreError>) {
    let mut errors = Vec::new();
    let asking = async {
        loop {
            match node.try_one(request.clone()).await {
                Ok(seen) => return seen,
                Err(error) => errors.push(error),
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    let seen = timeout(PATIENCE, asking).await.expect("an answer at last");
    (seen, errors)
}

fn hasty(mut bench: Bench) -> Bench {
    let options = bench.options.with_statement_timeout(Duration::from_millis(1_500)).expect("in range");
    bench.options = options.with_connect_timeout(Duration::from_millis(1_500)).expect("in range");
    bench
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stopped_server_is_unreachable_and_a_started_one_is_used_again() {
    let Some(mut server) = Server::start(&[]) else { return };
    let bench = bench(&server.url(), &server.url()).await;
    let mut node = bench.node("a");
    node.one(acquire(1)).await;
    tokio::task::block_in_place(|| server.stop());
    let error = node.try_one(renew(&[1], 2)).await.expect_err("it is stopped");
    assert!(matches!(error, StoreError::Unreachable { .. }) && error.is_outcome_known(), "{error}");
    tokio::task::block_in_place(|| server.run());
    assert_eq!(holding(&node.one(renew(&[1], 3)).await), (Outcome::Renewed, 1, Some(("a", 3, 1))));

    tokio::task::block_in_place(|| {
        server.stop();
        server.run();
    });
    // The session ended while nobody looked: the round finds out by itself.
    assert_eq!(holding(&node.one(renew(&[3], 4)).await), (Outcome::Renewed, 1, Some(("a", 4, 1))));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_suspended_server_does_not_hang_a_round() {
    let Some(server) = Server::start(&[]) else { return };
    let bench = hasty(bench(&server.url(), &server.url()).await);
    let mut node = bench.node("a");
    node.one(acquire(1)).await;
    server.signal(Signal::SIGSTOP);
    for _ in 0..2 {
        let answer = timeout(PATIENCE, node.try_one(renew(&[1], 2))).await.expect("it does not hang");
        let error = answer.expect_err("it is suspended");
        assert!(matches!(error, StoreError::Busy { .. } | StoreError::Unreachable { .. }), "{error}");
        assert!(error.is_outcome_known(), "no commit was sent: {error}");
    }
    server.signal(Signal::SIGCONT);
    let (seen, _) = persist(&mut node, renew(&[1], 3)).await;
    assert_eq!(holding(&seen), (Outcome::Renewed, 1, Some(("a", 3, 1))));
}

/// Returns a node that goes through a proxy, and one that does not.
async fn through_proxy(url: &str, timeout: Option<Duration>) -> (Proxy, Node, Node) {
    let (before, rest) = url.rsplit_once(':').expect("a port");
    let (port, database) = rest.split_once('/').expect("a database");
    let proxy = Proxy::start(port.parse().expect("a port")).await;
    let url_of_proxy = format!("{before}:{}/{database}", proxy.port);
    let mut bench = bench(&url_of_proxy, url).await;
    if let Some(timeout) = timeout {
        bench.options = bench.options.with_statement_timeout(timeout).expect("in range");
    }
    let node = bench.node("a");
    let mut other = bench.node("b");
    other.store = Store::new(&url.parse().expect("an address"), bench.options.clone()).expect("good");
    (proxy, node, other)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_renewal_cut_off_at_its_commit_has_an_unknown_outcome_and_either_token_goes_on() {
    let Some(url) = server::shared() else { return };
    let (proxy, mut node, mut other) = through_proxy(&url, None).await;
    node.one(acquire(1)).await;
    for (fault, stands, drawn) in [(Fault::CutBefore, 1, 2), (Fault::CutAfter, 12, 12)] {
        proxy.fail(fault);
        let error = node.try_one(renew(&[1], drawn)).await.expect_err("its answer is lost");
        assert!(matches!(error, StoreError::OutcomeUnknown { .. }), "{fault:?}: {error}");
        assert_eq!(holding(&other.watch().await), (Outcome::Watched, 1, Some(("a", stands, 1))), "{fault:?}");
        assert_eq!(node.one(renew(&[1, drawn], 1)).await.outcome, Outcome::Renewed, "{fault:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_acquisition_whose_answer_was_lost_is_adopted_by_its_token() {
    let Some(url) = server::shared() else { return };
    let (proxy, mut node, mut other) = through_proxy(&url, None).await;
    node.watch().await;
    proxy.fail(Fault::CutBefore);
    let error = node.try_one(acquire(1)).await.expect_err("its answer is lost");
    assert!(!error.is_outcome_known(), "{error}");
    assert_eq!(holding(&other.watch().await), (Outcome::Watched, 0, None), "it did not happen");

    node.watch().await;
    proxy.fail(Fault::CutAfter);
    let error = node.try_one(acquire(2)).await.expect_err("its answer is lost");
    assert!(!error.is_outcome_known(), "{error}");
    assert_eq!(holding(&other.watch().await), (Outcome::Watched, 1, Some(("a", 2, 1))), "it happened");
    assert_eq!(node.one(acquire(3)).await.outcome, Outcome::Held);
    assert_eq!(holding(&node.one(renew(&[2], 4)).await), (Outcome::Renewed, 1, Some(("a", 4, 1))));
}

#[tokio::test(flavor = "multi_thread")]
async fn an_agent_that_stands_still_at_its_commit_does_not_keep_others_from_the_lease() {
    let Some(url) = server::shared() else { return };
    let (proxy, mut node, mut other) = through_proxy(&url, Some(Duration::from_millis(1_500))).await;
    node.one(acquire(1)).await;
    proxy.fail(Fault::Stall);
    let error = node.try_one(renew(&[1], 2)).await.expect_err("it hangs");
    assert!(matches!(error, StoreError::OutcomeUnknown { .. }), "{error}");
    // Its transaction holds the leader's row, until the server ends it.
    let (seen, errors) = persist(&mut other, take_over(3, 1)).await;
    assert_eq!(holding(&seen), (Outcome::Held, 1, Some(("a", 1, 1))));
    assert!(errors.iter().all(StoreError::is_outcome_known), "{errors:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn of_a_primary_and_its_standby_the_primary_is_found() {
    let Some(server) = Server::start(&["wal_level = replica"]) else { return };
    let standby = server.standby();
    let bench = bench(&server.url(), &server.url()).await;
    bench.node("a").one(acquire(1)).await;
    let both = format!("postgres://postgres@127.0.0.1:{},127.0.0.1:{}/postgres", standby.port, server.port);
    let mut node = bench.node("a");
    node.store = Store::new(&both.parse().expect("an address"), bench.options.clone()).expect("good");
    assert_eq!(node.one(renew(&[1], 2)).await.outcome, Outcome::Renewed);

    let mut lost = bench.node("b");
    lost.store = Store::new(&standby.url().parse().expect("an address"), bench.options.clone()).expect("good");
    until("the tables arrive", async || {
        let asked = Store::new(&standby.url().parse().expect("an address"), bench.options.clone());
        asked.expect("good").nodes().await.is_ok()
    })
    .await;
    let error = lost.try_one(acquire(3)).await.expect_err("it takes no writes");
    assert!(matches!(error, StoreError::ReadOnly { .. }) && error.is_outcome_known(), "{error}");

    // The primary is gone for good: what was the standby is used, without a new store.
    drop(server);
    let error = node.try_one(renew(&[2], 3)).await.expect_err("nobody takes writes");
    assert!(error.is_outcome_known(), "{error}");
    standby.promote();
    let (seen, _) = persist(&mut node, StepRequest::Renew { held: vec![Token(2), Token(3)], drawn: Token(4) }).await;
    assert_eq!(holding(&seen), (Outcome::Renewed, 1, Some(("a", 4, 1))));
}
