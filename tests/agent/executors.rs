//! Every call works wherever it is made: under paused time, on a runtime without timers, and outside of tokio.

use std::pin::pin;
use std::sync::mpsc;
use std::task::{Context, Poll, Wake, Waker};
use std::thread::{self, Thread};

use headcount::core::Payload;
use headcount::lease::LeaseName;
use tokio::runtime::{Builder, Runtime};

use super::*;

const KEY: &str = "cbzxihusbKa6ZUw1FffAIuyvrIWnnU5jTxSb7l03IUU=\n";

struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

/// Runs a future as an executor does that knows no tokio.
fn block_on<F: Future>(future: F) -> F::Output {
    let waker = Waker::from(Arc::new(Unpark(thread::current())));
    let (mut context, mut future) = (Context::from_waker(&waker), pin!(future));
    loop {
        match future.as_mut().poll(&mut context) {
            Poll::Ready(value) => return value,
            Poll::Pending => thread::park(),
        }
    }
}

/// Runs a test on a thread of its own, which must end: where timers are in question, none of the test's own can say so.
fn in_time_on_a_thread(test: impl FnOnce() + Send + 'static) {
    let (ended, end) = mpsc::channel();
    let test = thread::spawn(move || {
        test();
        let _ = ended.send(());
    });
    assert!(end.recv_timeout(2 * PATIENCE) != Err(mpsc::RecvTimeoutError::Timeout), "it does not end");
    test.join().expect("no panic");
}

/// The nodes that are asked: two of one cluster, of which the first is the only voter, and one that leads by leases.
struct Nodes {
    voter: Agent,
    other: Agent,
    holder: Agent,
    _data: tempfile::TempDir,
}

impl Nodes {
    async fn start() -> Self {
        let data = tempfile::tempdir().expect("a directory");
        let keyed = |config: Config| {
            let path = data.path().join(format!("{}.key", config.name));
            std::fs::write(&path, KEY).expect("written");
            config.with_key_file(path)
        };
        let voting = keyed(config("voter", &[]).with_voters(["voter"]).expect("names"));
        let voter = Agent::start(with_data(voting, &data.path().join("voter"))).await.expect("starts");
        let other = Agent::start(keyed(config("other", &[&voter]))).await.expect("starts");
        let url = format!("sqlite://{}", data.path().join("leases.db").display());
        let holder = Agent::start(config("holder", &[]).with_lease(&url)).await.expect("starts");
        Self { voter, other, holder, _data: data }
    }

    /// Makes every asynchronous call, the goodbye last.
    async fn ask_everything(&self) {
        let Self { voter, other, holder, .. } = self;
        for agent in [voter, other, holder] {
            agent.wait_until_up().await.expect("up");
        }
        membership(voter, other).await;
        messages(voter, other).await;
        leadership(voter).await;
        leases(holder).await;
        let holders = voter.cluster_keys().await;
        assert!(holders.len() == 2 && holders.iter().all(|holder| holder.held.is_ok()), "{holders:?}");
        let id = holders[0].held.as_ref().expect("asked").keys[0];
        voter.add_key_again(id).await.expect("all have it");
        voter.use_key(id, false).await.expect("all seal with it");
        voter.remove_key(id, false).await.expect_err("it seals");
        voter.reload_keys(voter.config().seal.clone()).await.expect("the same");
        for agent in [holder, other, voter] {
            assert_eq!(agent.leave().await, Stop::Core(StopReason::Left));
            assert_eq!(agent.stopped().await, Stop::Core(StopReason::Left));
            assert_eq!(agent.leave().await, Stop::Core(StopReason::Left), "asked once more");
        }
    }
}

async fn membership(voter: &Agent, other: &Agent) {
    let joined = other.join(vec![voter.gossip_address().to_string()]).await.expect("asked");
    assert_eq!(joined[0].outcome, Ok(name("voter")));
    voter.remove(&name("nobody"), false).await.expect_err("not listed");
    let mut events = voter.subscribe();
    let tags = Tags::new(BTreeMap::from([("a".to_owned(), "b".to_owned())])).expect("tags");
    voter.set_tags(tags).await.expect("set");
    assert!(events.recv().await.is_ok());
    voter.drain().await.expect("drains");
    voter.undrain().await.expect("drains no more");
}

async fn messages(voter: &Agent, other: &Agent) {
    let mut typed = other.messages::<u64>("topic").expect("a topic");
    let mut raw = other.listen(["topic"]).expect("a topic");
    voter.broadcast("topic", b"1").await.expect("sent");
    assert_eq!(typed.recv().await.expect("it came").value, 1);
    assert_eq!(raw.recv().await.expect("it came").payload, Payload::new(b"1").expect("small"));
    voter.send(&name("other"), "topic", b"2").await.expect("sent");
    raw.recv().await.expect("it came");
    let answer = async {
        let question = raw.recv().await.expect("it came");
        other.reply(question.id, b"4").await
    };
    let to = name("other");
    let asked = voter.request(&to, "topic", b"3", PATIENCE);
    let (answered, asked) = tokio::join!(answer, asked);
    answered.expect("sent");
    assert_eq!(asked.expect("answered"), b"4");
}

async fn leadership(voter: &Agent) {
    let mut watch = voter.leadership();
    watch.wait_for(|now| now.is_me).await.expect("it lives");
    voter.confirm_leadership().await.expect("it leads");
    let mut terms = 0;
    let begun = Arc::new(tokio::sync::Notify::new());
    let work = voter.while_leader(|_| {
        terms += 1;
        let (is_first, begun) = (terms == 1, Arc::clone(&begun));
        async move {
            begun.notify_one();
            if is_first {
                std::future::pending::<()>().await;
            }
        }
    });
    let resigning = async {
        begun.notified().await;
        voter.resign(None).await
    };
    let (worked, resigned) = tokio::join!(work, resigning);
    assert!(worked.is_ok() && resigned.is_ok(), "{worked:?} {resigned:?}");
    assert_eq!(terms, 2, "the work of the first term was dropped");
    watch.changed().await.expect("it lives");
    voter.add_voter(name("nobody")).await.expect_err("not listed");
    voter.remove_voter(name("nobody")).await.expect_err("no voter");
    voter.replace_voter(name("nobody"), name("other")).await.expect_err("no voter");
    voter.recover(vec![name("other")]).await.expect_err("a majority is there");
    voter.found_anew(vec![name("other")]).await.expect_err("a leader is heard");
}

async fn leases(holder: &Agent) {
    let lease = holder.lease("billing").expect("a lease");
    let term = lease.while_leader(|term| async move { term }).await.expect("it lives");
    assert!(term > 0 && lease.confirm_leadership().await.is_ok());
    assert_eq!(lease.nodes().await.expect("the database answers").nodes.len(), 1);
    assert_eq!(holder.lease_nodes(&LeaseName::default()).await.expect("the database answers").nodes.len(), 1);
    lease.resign().await.expect("given up");
}

fn on_one_thread() -> Builder {
    Builder::new_current_thread()
}

fn run(runtime: &Runtime) {
    runtime.block_on(async { Nodes::start().await.ask_everything().await });
}

#[test]
fn every_call_works_under_paused_time() {
    in_time_on_a_thread(|| run(&on_one_thread().enable_all().start_paused(true).build().expect("a runtime")));
}

#[test]
fn every_call_works_on_a_runtime_without_timers() {
    in_time_on_a_thread(|| run(&on_one_thread().build().expect("a runtime")));
}

#[test]
fn every_call_works_outside_of_tokio() {
    in_time_on_a_thread(|| {
        let runtime = on_one_thread().build().expect("a runtime");
        let nodes = runtime.block_on(Nodes::start());
        block_on(nodes.ask_everything());
    });
}

#[test]
fn a_goodbye_that_nobody_waits_for_any_more_is_said_all_the_same() {
    in_time_on_a_thread(|| {
        let runtime = on_one_thread().build().expect("a runtime");
        let agent = runtime.block_on(start("a", &[]));
        block_on(agent.wait_until_up()).expect("up");
        let begun = std::future::poll_fn(|context| {
            assert!(pin!(agent.leave()).poll(context).is_pending());
            Poll::Ready(())
        });
        block_on(begun);
        assert_eq!(block_on(agent.stopped()), Stop::Core(StopReason::Left));
    });
}
