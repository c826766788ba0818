//! Calls as they come in at an agent: what is heard, what is refused, and how many connections are kept.

use std::time::Duration;

use crate::agent::messages::{DirectAnswer, DirectCall};
use crate::agent::{Agent, Inbox};
use crate::config::{Config, key};
use crate::core::{NodeId, Payload, Run, Topic};
use crate::journal::tests::Kept;
use crate::seal::{KeyRing, SealMode};
use crate::transport::links::Exchange;
use crate::transport::sealing::{SealPolicy, Sealing};

const PATIENCE: Duration = Duration::from_secs(30);
const KEEPALIVE: Duration = Duration::from_secs(30);

async fn in_time<T>(future: impl Future<Output = T>) -> T {
    tokio::time::timeout(PATIENCE, future).await.expect("in time")
}

/// Starts an agent whose packets are sealed, and that contends for leases in a file.
async fn agent() -> (Agent, Inbox, tempfile::TempDir) {
    let directory = tempfile::tempdir().expect("a directory");
    let (agent, inbox) = start(config().with_lease(&format!("sqlite://{}/a.db", directory.path().display()))).await;
    (agent, inbox, directory)
}

fn config() -> Config {
    Config::new("a").expect("a name").with_keys([key(1)]).with_bind(([127, 0, 0, 1], 0).into())
}

async fn start(config: Config) -> (Agent, Inbox) {
    let agent = Agent::start(config).await.expect("it starts");
    in_time(agent.wait_until_up()).await.expect("up");
    let inbox = agent.listen([]).expect("a listener");
    (agent, inbox)
}

/// Returns the sealing of a caller with this key.
fn sealing(number: u8) -> Sealing {
    let policy = SealPolicy::new(SealMode::Require, KeyRing::new([key(number)]).expect("a key"));
    let journal = super::tests::caller(&Kept::default()).shared.journal.clone();
    Sealing::new(Run(7), "headcount", policy, journal)
}

async fn connect(agent: &Agent) -> Exchange {
    in_time(Exchange::open(agent.gossip_address(), &sealing(1), KEEPALIVE)).await.expect("it opens")
}

fn call(number: u64, bytes: usize) -> DirectCall {
    let name = |text| NodeId::new(text).expect("a name");
    DirectCall {
        cluster: name("headcount"),
        to: name("a"),
        from: name("far"),
        run: Run(0xff),
        sequence: 2 * number,
        age_ms: 0,
        topic: Topic::new("t").expect("a topic"),
        payload: Payload::new(&vec![b'x'; bytes]).expect("it fits"),
    }
}

async fn ask(exchange: &mut Exchange, call: &DirectCall) -> DirectAnswer {
    let answer = in_time(exchange.ask(call.frame())).await.expect("answered");
    DirectAnswer::read(&answer).expect("an answer")
}

const fn taken(is_new: bool) -> DirectAnswer {
    DirectAnswer::Taken { is_new }
}

#[tokio::test]
async fn what_a_call_brings_is_heard_once() {
    let (agent, mut inbox, _directory) = agent().await;
    let mut exchange = connect(&agent).await;
    for (number, bytes) in [(1, 1), (2, 65_536)] {
        assert_eq!(ask(&mut exchange, &call(number, bytes)).await, taken(true));
        let heard = inbox.try_recv().expect("none is missed").expect("it is there by the answer");
        let id = format!("00000000000000ff-{}", 2 * number);
        assert_eq!((heard.id.to_string(), heard.from.as_str(), heard.payload.len()), (id, "far", bytes));
    }
    for exchange in [&mut exchange, &mut connect(&agent).await] {
        assert_eq!(ask(exchange, &call(1, 1)).await, taken(false));
    }
    assert!(inbox.try_recv().expect("none is missed").is_none());
    let counted = agent.info().counters.messages;
    assert_eq!((counted.received, counted.delivered, counted.duplicate), (4, 2, 2));
}

#[tokio::test]
async fn what_is_wrong_with_a_call_is_said_and_nothing_is_heard() {
    let (agent, mut inbox, _directory) = agent().await;
    let mut exchange = connect(&agent).await;
    let (right, name) = (call(1, 1), NodeId::new("b").expect("a name"));
    for (wrong, about) in [
        (DirectCall { to: name.clone(), ..right.clone() }, "node b"),
        (DirectCall { cluster: name, ..right.clone() }, "cluster b"),
        (DirectCall { topic: Topic::keys(), ..right.clone() }, "agents' own"),
        (DirectCall { sequence: 3, ..right.clone() }, "00000000000000ff-3"),
        (DirectCall { from: NodeId::new("a").expect("a name"), ..right.clone() }, "00000000000000ff-2"),
    ] {
        match ask(&mut exchange, &wrong).await {
            DirectAnswer::Refused { is_passing: false, why } if why.contains(about) => {}
            other => panic!("{about}: {other:?}"),
        }
    }
    let garbled = right.frame()[..8].to_vec();
    in_time(exchange.ask(garbled)).await.expect_err("closed");
    let stranger = in_time(Exchange::open(agent.gossip_address(), &sealing(2), KEEPALIVE)).await;
    assert!(stranger.err().is_some_and(|why| why.contains("other keys")));
    let clear = Sealing::new(
        Run(7),
        "headcount",
        SealPolicy::clear(),
        super::tests::caller(&Kept::default()).shared.journal.clone(),
    );
    let mut clear = in_time(Exchange::open(agent.gossip_address(), &clear, KEEPALIVE)).await.expect("it connects");
    assert!(in_time(clear.ask(right.frame())).await.expect_err("closed").contains("key"));
    assert!(inbox.try_recv().expect("none is missed").is_none());
    assert_eq!(ask(&mut connect(&agent).await, &right).await, taken(true), "and what is right is heard");
}

#[tokio::test]
async fn a_node_without_leases_takes_no_calls() {
    let (agent, mut inbox) = start(config()).await;
    match ask(&mut connect(&agent).await, &call(1, 1)).await {
        DirectAnswer::Refused { is_passing: false, why } if why.contains("no table of leases") => {}
        other => panic!("{other:?}"),
    }
    assert!(inbox.try_recv().expect("none is missed").is_none());
}

#[tokio::test]
async fn of_many_that_call_those_that_did_so_last_keep_their_connections() {
    let (agent, _inbox, _directory) = agent().await;
    let mut exchanges = Vec::new();
    for number in 1..=64 {
        let mut exchange = connect(&agent).await;
        assert_eq!(ask(&mut exchange, &call(number, 1)).await, taken(true));
        exchanges.push(exchange);
    }
    assert_eq!(ask(&mut exchanges[0], &call(1, 1)).await, taken(false));
    let mut another = connect(&agent).await;
    assert_eq!(ask(&mut another, &call(65, 1)).await, taken(true));
    in_time(exchanges[1].ask(call(2, 1).frame())).await.expect_err("it made room");
    for at in [0, 2, 63] {
        assert_eq!(ask(&mut exchanges[at], &call(1, 1)).await, taken(false), "{at}");
    }
}
