//! Agents on real sockets: what a user of the library sees.
//!
//! Everything waits for conditions, with deadlines so generous that only a bug meets them.

mod executors;
mod hosting;
mod led_work;
mod membership;
mod served;

use std::collections::BTreeMap;
use std::future::Future;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use headcount::agent::{
    AgentError, Filter, JoinFailure, KEPT_EVENTS, LeadError, LeadershipState, RecvError, StartError, Stop, StoreError,
    Subscription,
};
use headcount::core::election::ChangeError;
use headcount::core::limits::MAX_SEEDS;
use headcount::core::{CommandError, LeaveReason, NodeId, Profile, Status, StopReason, Tags};
use headcount::{Agent, Config, Event, EventKind};

const PATIENCE: Duration = Duration::from_secs(30);

fn name(text: &str) -> NodeId {
    NodeId::new(text).expect("a name")
}

/// Returns the configuration of a quick node on loopback, on a port of the system's choice.
fn config(name: &str, seeds: &[&Agent]) -> Config {
    let mut config = Config::new(name).expect("a name").with_profile(Profile::Local);
    config.bind = Some(SocketAddr::from(([127, 0, 0, 1], 0)));
    config.seeds = seeds.iter().map(|seed| seed.gossip_address().to_string()).collect();
    config
}

async fn start(name: &str, seeds: &[&Agent]) -> Agent {
    Agent::start(config(name, seeds)).await.expect("starts")
}

fn with_data(mut config: Config, directory: &Path) -> Config {
    config.data_dir = Some(directory.to_owned());
    config
}

async fn in_time<T>(future: impl Future<Output = T>) -> T {
    tokio::time::timeout(PATIENCE, future).await.expect("in time")
}

async fn up(agent: &Agent) {
    in_time(agent.wait_until_up()).await.expect("up");
}

/// Waits until `agent` sees `id` in this status.
async fn sees(agent: &Agent, id: &str, status: Status) {
    let id = name(id);
    let (snapshot, mut events) = agent.subscribe_from_snapshot();
    if snapshot.members.iter().any(|member| member.id == id && member.status == status) {
        return;
    }
    let seen = |event: &Event| event.kind.member().is_some_and(|member| member.id == id && member.status == status);
    while !seen(&next(&mut events).await) {}
}

async fn next(events: &mut Subscription) -> Event {
    in_time(events.recv()).await.expect("an event")
}

async fn next_of(events: &mut Subscription, kind: &str, node: &str) -> EventKind {
    loop {
        let event = next(events).await;
        if event.kind.name() == kind && event.kind.node().is_some_and(|about| *about == node) {
            return event.kind;
        }
    }
}
