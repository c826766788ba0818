//! Balances requests over live members with tower: members that come are used, those that are gone are not, without a
//! restart.
//!
//! [`LiveMembers`] is all the glue there is: a stream of `tower::discover::Change`, which is a `Discover`. Behind it
//! stands the balancer that picks the less busy of two members at random ("power of two choices"). Here a request is a
//! message between members; in a web service it would be a call to `member.api_address`.
//!
//! `cargo run --example balance` runs four nodes in one process, one of which leaves half-way, and one drains.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::convert::Infallible;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use futures_core::Stream;
use futures_util::stream::unfold;
use headcount::agent::{MessageError, Received, RecvError, Subscription};
use headcount::{Agent, Config, Member, NodeId, Profile, Run};
use tower::balance::p2c::Balance;
use tower::discover::Change;
use tower::load::{CompleteOnResponse, PendingRequestsDiscover};
use tower::{BoxError, Service, ServiceExt as _};

const TOPIC: &str = "greet";

/// The members that may be given work, as changes of a set.
struct LiveMembers {
    agent: Agent,
    events: Subscription,
    known: BTreeMap<NodeId, Run>,
    changes: VecDeque<Change<NodeId, Peer>>,
}

impl LiveMembers {
    /// Begins with all that are live now, and goes on with every change after that: no gap, no overlap.
    fn of(agent: &Agent) -> impl Stream<Item = Result<Change<NodeId, Peer>, Infallible>> + use<> {
        let (snapshot, events) = agent.subscribe_from_snapshot();
        let mut live = Self { agent: agent.clone(), events, known: BTreeMap::new(), changes: VecDeque::new() };
        live.replace(&snapshot.members);
        unfold(live, |mut live| async move { live.next().await.map(|change| (Ok(change), live)) })
    }

    async fn next(&mut self) -> Option<Change<NodeId, Peer>> {
        loop {
            if let Some(change) = self.changes.pop_front() {
                return Some(change);
            }
            match self.events.recv().await {
                Ok(event) => {
                    // Some events are about no member.
                    if let Some(member) = event.kind.member() {
                        self.look_at(member);
                    }
                }
                // Too slow a reader misses events, never the state.
                Err(RecvError::Lagged { .. }) => {
                    let snapshot = self.events.resync();
                    self.replace(&snapshot.members);
                }
                Err(_) => return None,
            }
        }
    }

    /// Takes in what one member is like now.
    fn look_at(&mut self, member: &Member) {
        // A new run is a new process: its load and its connections begin anew.
        if member.may_work() && self.known.get(&member.id) != Some(&member.run) {
            self.known.insert(member.id.clone(), member.run);
            let peer = Peer { agent: self.agent.clone(), id: member.id.clone() };
            self.changes.push_back(Change::Insert(member.id.clone(), peer));
        } else if !member.may_work() && self.known.remove(&member.id).is_some() {
            self.changes.push_back(Change::Remove(member.id.clone()));
        }
    }

    /// Takes in what all members are like now.
    fn replace(&mut self, members: &[Member]) {
        let listed: BTreeSet<_> = members.iter().map(|member| &member.id).collect();
        for gone in self.known.keys().filter(|id| !listed.contains(id)).cloned().collect::<Vec<_>>() {
            self.known.remove(&gone);
            self.changes.push_back(Change::Remove(gone));
        }
        for member in members {
            self.look_at(member);
        }
    }
}

/// One member, as a service.
#[derive(Clone)]
struct Peer {
    agent: Agent,
    id: NodeId,
}

impl Service<Vec<u8>> for Peer {
    type Response = Vec<u8>;
    type Error = MessageError;
    type Future = Pin<Box<dyn Future<Output = Result<Vec<u8>, MessageError>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), MessageError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Vec<u8>) -> Self::Future {
        let Self { agent, id } = self.clone();
        Box::pin(async move { agent.request(&id, TOPIC, &request, Duration::from_secs(5)).await })
    }
}

async fn start(name: &str, seeds: &[String]) -> Result<Agent, BoxError> {
    let config = Config::new(name)?.with_profile(Profile::Local).with_bind("127.0.0.1:0".parse()?).with_seeds(seeds);
    let agent = Agent::start(config).await?;
    agent.wait_until_up().await?;
    // Every node answers with its name, for as long as its agent runs.
    let name = agent.me().id.to_string();
    let answer = move |_: Received<String>| {
        let name = name.clone();
        async move { name }
    };
    agent.serve(TOPIC, answer)?.detach();
    Ok(agent)
}

#[tokio::main]
async fn main() -> Result<(), BoxError> {
    let a = start("a", &[]).await?;
    let seeds = [a.gossip_address().to_string()];
    let others = [start("b", &seeds).await?, start("c", &seeds).await?, start("d", &seeds).await?];

    let live = PendingRequestsDiscover::new(Box::pin(LiveMembers::of(&a)), CompleteOnResponse::default());
    let mut balancer = Balance::new(live);
    let everybody = ask_until(&mut balancer, &["a", "b", "c", "d"]).await?;
    println!("answered: {everybody:?}");

    let [b, c, d] = others;
    d.leave().await;
    // The balancer hears of it as any subscriber does; from then on d is not asked.
    while a.live_members().len() > 3 {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    let mut rest = BTreeMap::new();
    for _ in 0..60 {
        *rest.entry(ask(&mut balancer).await?).or_insert(0) += 1;
    }
    println!("after d left: {rest:?}");
    assert!(!rest.contains_key("d"), "no request goes to a member that left");

    // As an operator does before maintenance: c is still a member, and is given no new work.
    c.drain().await?;
    while a.live_members().iter().all(Member::may_work) {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    let mut rest = BTreeMap::new();
    for _ in 0..60 {
        *rest.entry(ask(&mut balancer).await?).or_insert(0) += 1;
    }
    println!("while c drains: {rest:?}");
    assert!(!rest.contains_key("c"), "no request goes to a member that drains");
    for node in [c, b, a] {
        node.leave().await;
    }
    Ok(())
}

/// Sends one request through the balancer; returns the name of the member that answered.
async fn ask<S>(balancer: &mut S) -> Result<String, BoxError>
where
    S: Service<Vec<u8>, Response = Vec<u8>, Error = BoxError>,
{
    let answer = balancer.ready().await?.call(b"\"who?\"".to_vec()).await?;
    Ok(serde_json::from_slice(&answer)?)
}

/// Sends requests until each of these members has answered one; returns the number of answers of each.
async fn ask_until<S>(balancer: &mut S, names: &[&str]) -> Result<BTreeMap<String, u32>, BoxError>
where
    S: Service<Vec<u8>, Response = Vec<u8>, Error = BoxError>,
{
    let mut answered = BTreeMap::new();
    while names.iter().any(|name| !answered.contains_key(*name)) {
        *answered.entry(ask(balancer).await?).or_insert(0) += 1;
    }
    Ok(answered)
}
