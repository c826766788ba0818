//! Agents on real sockets: what a user of the library sees.
//!
//! Everything waits for conditions, with deadlines so generous that only a bug meets them.

use std::collections::BTreeMap;
use std::future::Future;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use headcount::agent::{
    AgentError, Filter, KEPT_EVENTS, LeadError, LeadershipState, RecvError, StartError, Stop, StoreError, Subscription,
};
use headcount::core::election::ChangeError;
use headcount::core::limits::MAX_SEEDS;
use headcount::core::{CommandError, LeaveReason, NodeId, Profile, Status, StopReason, Tags};
use headcount::{Agent, Config, Event, EventKind};

const PATIENCE: Duration = Duration::from_secs(30);

fn name(text: &str) -> NodeId {
    NodeId::new(text).expect("a name")
}

/// A quick node on loopback, on a port of the system's choice.
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

#[tokio::test]
async fn two_agents_find_each_other_through_a_seed() {
    let a = start("a", &[]).await;
    up(&a).await;
    let b = start("b", &[&a]).await;
    up(&b).await;
    sees(&a, "b", Status::Up).await;
    let names = |agent: &Agent| agent.members().iter().map(|member| member.id.to_string()).collect::<Vec<_>>();
    assert_eq!(names(&a), ["a", "b"]);
    assert_eq!(names(&b), ["a", "b"]);

    let of_b = a.member(&name("b")).expect("listed");
    assert_eq!((of_b.address, of_b.run, of_b.is_me), (b.gossip_address(), b.run(), false));
    assert!(b.me().is_me);
    assert_eq!(b.me().version, env!("CARGO_PKG_VERSION"));
    let info = a.info();
    assert_eq!(info.members, [0, 2, 0, 0, 0, 0]);
    // Figures are published a moment after events.
    in_time(async {
        while a.info().counters.packets_received == 0 {
            tokio::task::yield_now().await;
        }
    })
    .await;
    assert_eq!(a.health(), Ok(()));
    assert_eq!(a.stop(), None);
}

#[tokio::test]
async fn heard_and_round_trip_times_reach_the_listing() {
    let a = start("a", &[]).await;
    up(&a).await;
    let b = start("b", &[&a]).await;
    up(&b).await;
    in_time(async {
        // The first heartbeats need some hundred milliseconds, and nothing announces them.
        let mut tick = tokio::time::interval(Duration::from_millis(20));
        while !a.member(&name("b")).is_some_and(|b| b.last_heard.is_some() && b.rtt.is_some()) {
            tick.tick().await;
        }
    })
    .await;
    assert_eq!(a.me().last_heard, None);
}

#[tokio::test]
async fn leaving_is_seen_as_leaving_by_the_others() {
    let a = start("a", &[]).await;
    let b = start("b", &[&a]).await;
    up(&b).await;
    sees(&a, "b", Status::Up).await;
    let mut events = a.subscribe();
    assert_eq!(in_time(b.leave()).await, Stop::Core(StopReason::Left));
    assert_eq!(b.stop().map(|stop| stop.exit_code()), Some(0));
    let EventKind::NodeLeft { reason, .. } = next_of(&mut events, "node_left", "b").await else { unreachable!() };
    assert_eq!(reason, LeaveReason::Graceful);
    assert_eq!(b.set_tags(Tags::default()).await, Err(AgentError::Stopped));
    assert_eq!(in_time(b.leave()).await, Stop::Core(StopReason::Left), "leaving twice is no error");
}

#[tokio::test]
async fn dropping_the_last_handle_stops_the_agent_without_a_goodbye() {
    let a = start("a", &[]).await;
    let b = start("b", &[&a]).await;
    up(&b).await;
    sees(&a, "b", Status::Up).await;
    let address = b.gossip_address();
    let (mut of_a, mut of_b) = (a.subscribe(), b.subscribe());
    let clone = b.clone();
    drop(b);
    assert_eq!(clone.stop(), None, "a handle is left");
    drop(clone);
    while in_time(of_b.recv()).await != Err(RecvError::Closed) {}
    std::net::UdpSocket::bind(address).expect("the port is free again");
    next_of(&mut of_a, "node_detected_down", "b").await;
}

#[tokio::test]
async fn shutting_down_stops_at_once_and_says_so() {
    let a = start("a", &[]).await;
    a.shutdown();
    assert_eq!(in_time(a.stopped()).await, Stop::Cancelled);
    assert_eq!(a.wait_until_up().await, Err(Stop::Cancelled));
    assert_eq!(a.me().id, name("a"), "what was known stays readable");
}

#[tokio::test]
async fn a_taken_port_is_a_bind_error() {
    let a = start("a", &[]).await;
    let mut second = config("b", &[]);
    second.bind = Some(a.gossip_address());
    let error = Agent::start(second).await.expect_err("taken");
    assert!(matches!(error, StartError::Bind { address, .. } if address == a.gossip_address()), "{error}");
    assert_eq!(error.exit_code(), 3);
}

#[tokio::test]
async fn two_agents_on_one_data_directory_are_one_too_many() {
    let directory = tempfile::tempdir().expect("a directory");
    let first = Agent::start(with_data(config("a", &[]), directory.path())).await.expect("starts");
    let error = Agent::start(with_data(config("b", &[]), directory.path())).await.expect_err("locked");
    assert!(matches!(error, StartError::Store(StoreError::InUse { .. })), "{error}");
    assert_eq!(error.exit_code(), 4);
    let incarnation = first.me().incarnation;
    in_time(first.leave()).await;

    let again = Agent::start(with_data(config("a", &[]), directory.path())).await.expect("free again");
    assert!(again.me().incarnation > incarnation);
}

#[tokio::test]
async fn a_state_file_of_another_cluster_refuses_the_start() {
    let directory = tempfile::tempdir().expect("a directory");
    let first = Agent::start(with_data(config("a", &[]), directory.path())).await.expect("starts");
    in_time(first.leave()).await;
    let mut other = with_data(config("a", &[]), directory.path());
    other.cluster = name("other");
    let error = Agent::start(other).await.expect_err("refused");
    assert!(matches!(error, StartError::Store(StoreError::OtherCluster { .. })), "{error}");
}

#[tokio::test]
async fn new_tags_reach_the_other_side_with_the_ones_before() {
    let a = start("a", &[]).await;
    let b = start("b", &[&a]).await;
    up(&b).await;
    sees(&a, "b", Status::Up).await;
    let since = a.member(&name("b")).expect("listed").since;
    let mut events = a.subscribe();
    let tags = Tags::new(BTreeMap::from([("zone".to_owned(), "eu-1".to_owned())])).expect("good tags");
    in_time(b.set_tags(tags.clone())).await.expect("set");
    assert_eq!(b.me().tags, tags);
    loop {
        let EventKind::NodeUpdated { member, previous } = next_of(&mut events, "node_updated", "b").await else {
            unreachable!()
        };
        if member.tags == tags {
            assert!(previous.tags.is_empty());
            assert_eq!(member.since, since, "new tags do not make a node younger");
            break;
        }
    }
}

#[tokio::test]
async fn a_subscriber_that_is_too_slow_is_told_and_harms_nobody() {
    let a = start("a", &[]).await;
    up(&a).await;
    let mut slow = a.subscribe();
    let mut quick = a.subscribe();
    let before = a.info().last_event;
    let mut value = 0u64;
    while a.info().last_event <= before + KEPT_EVENTS as u64 {
        value += 1;
        let tags = BTreeMap::from([("n".to_owned(), value.to_string())]);
        in_time(a.set_tags(Tags::new(tags).expect("good tags"))).await.expect("set");
        while quick.try_recv().expect("it keeps up").is_some() {}
    }
    let missed = a.info().last_event - before - KEPT_EVENTS as u64;
    assert_eq!(slow.try_recv(), Err(RecvError::Lagged { missed }));
    assert_eq!(slow.resync().members.len(), 1);
    assert_eq!(slow.try_recv(), Ok(None));
    assert!(a.subscribe_after(before).is_err());
}

#[tokio::test]
async fn a_snapshot_and_what_follows_give_the_listing() {
    let a = start("a", &[]).await;
    up(&a).await;
    let followers: Vec<_> = {
        let mut followers = vec![a.subscribe_from_snapshot()];
        for id in ["b", "c", "d"] {
            let node = start(id, &[&a]).await;
            followers.push(a.subscribe_from_snapshot());
            up(&node).await;
            sees(&a, id, Status::Up).await;
            followers.push(a.subscribe_from_snapshot());
            in_time(node.leave()).await;
            sees(&a, id, Status::Left(LeaveReason::Graceful)).await;
        }
        followers
    };
    let listing: BTreeMap<_, _> = a.members().into_iter().map(|member| (member.id.clone(), member.status)).collect();
    let last = a.info().last_event;
    for (snapshot, mut events) in followers {
        let mut members: BTreeMap<_, _> = snapshot.members.into_iter().map(|m| (m.id.clone(), m.status)).collect();
        for sequence in snapshot.sequence + 1..=last {
            let event = events.try_recv().expect("nothing is lost").expect("nothing is missing");
            assert_eq!(event.sequence, sequence);
            match event.kind {
                EventKind::NodeRemoved { member } => drop(members.remove(&member.id)),
                kind => members.extend(kind.member().map(|member| (member.id.clone(), member.status))),
            }
        }
        assert_eq!(members, listing, "from {}", snapshot.sequence);
    }
}

#[tokio::test]
async fn events_can_be_replayed_from_the_first_and_filtered() {
    let a = start("a", &[]).await;
    up(&a).await;
    let mut all = a.subscribe_after(0).expect("everything is kept");
    assert_eq!(next(&mut all).await.sequence, 1);
    let joined = Filter::all().kinds(["node_joined"]).expect("known").nodes([name("a")]);
    let mut joined = a.subscribe_after(0).expect("everything is kept").filtered(joined);
    assert!(matches!(next(&mut joined).await.kind, EventKind::NodeJoined { member } if member.is_me));
}

#[tokio::test]
async fn join_tells_for_each_address_who_answered() {
    let (a, b) = (start("a", &[]).await, start("b", &[]).await);
    up(&a).await;
    up(&b).await;
    let there = b.gossip_address().to_string();
    let gone = std::net::UdpSocket::bind("127.0.0.1:0").expect("a port");
    let silent = gone.local_addr().expect("an address").to_string();
    let asked = vec![there.clone(), "no colon".to_owned(), silent.clone()];
    let results = in_time(a.join(asked)).await.expect("it runs");
    assert_eq!((results[0].address.as_str(), &results[0].outcome), (there.as_str(), &Ok(name("b"))));
    assert!(results[1].outcome.as_ref().is_err_and(|error| error.to_string().contains("has no port")));
    assert!(results[2].outcome.as_ref().is_err_and(|error| error.to_string().contains("nobody answered")));
    sees(&a, "b", Status::Up).await;
    sees(&b, "a", Status::Up).await;

    let many = vec![there; MAX_SEEDS + 1];
    assert_eq!(a.join(many).await, Err(AgentError::TooManyAddresses { asked: MAX_SEEDS + 1 }));
}

#[tokio::test]
async fn removing_asks_for_a_member_that_is_down_or_for_force() {
    let a = start("a", &[]).await;
    let b = start("b", &[&a]).await;
    up(&b).await;
    sees(&a, "b", Status::Up).await;
    let refused = in_time(a.remove(&name("b"), false)).await;
    assert!(matches!(refused, Err(AgentError::Refused(CommandError::NotDown { .. }))), "{refused:?}");
    let unknown = in_time(a.remove(&name("z"), true)).await;
    assert!(matches!(unknown, Err(AgentError::Refused(CommandError::NoSuchMember { .. }))), "{unknown:?}");
    in_time(a.remove(&name("b"), true)).await.expect("removed");
    assert_eq!(a.member(&name("b")).map(|b| b.status), Some(Status::Left(LeaveReason::Forced)));
    assert_eq!(in_time(b.stopped()).await, Stop::Core(StopReason::Removed));
}

#[tokio::test]
async fn a_name_in_use_stops_the_newcomer_and_says_where() {
    let a = start("a", &[]).await;
    let first = start("b", &[&a]).await;
    up(&first).await;
    let second = start("b", &[&a]).await;
    let error = in_time(second.wait_until_up()).await.expect_err("refused");
    assert_eq!(error.exit_code(), 5);
    assert!(error.to_string().contains(&first.gossip_address().to_string()), "{error}");
    assert_eq!(first.stop(), None);
}

/// Voters of one electorate, up, with their data below `data`.
async fn voters(names: &[&str], data: &Path) -> Vec<Agent> {
    let mut agents: Vec<Agent> = Vec::new();
    for id in names {
        let seeds: Vec<&Agent> = agents.iter().take(1).collect();
        let config = config(id, &seeds).with_voters(names.iter().copied()).expect("names");
        agents.push(Agent::start(with_data(config, &data.join(id))).await.expect("starts"));
    }
    for agent in &agents {
        up(agent).await;
    }
    agents
}

/// Counts itself while it lives.
struct Present(Arc<AtomicUsize>);

impl Present {
    fn new(count: &Arc<AtomicUsize>) -> Self {
        assert_eq!(count.fetch_add(1, Ordering::SeqCst), 0, "two leaders work at the same time");
        Self(Arc::clone(count))
    }
}

impl Drop for Present {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn led_work_moves_with_leadership_in_ever_higher_terms_and_never_runs_twice_at_once() {
    let data = tempfile::tempdir().expect("a directory");
    let mut agents = voters(&["a", "b", "c"], data.path()).await;
    let present = Arc::new(AtomicUsize::new(0));
    let (terms, mut begun) = tokio::sync::mpsc::unbounded_channel();
    let mut working = tokio::task::JoinSet::new();
    for agent in &agents {
        let (agent, present, terms) = (agent.clone(), Arc::clone(&present), terms.clone());
        working.spawn(async move {
            let me = agent.me().id;
            let work = |term| {
                let at_work = Present::new(&present);
                terms.send((me.clone(), term)).expect("read");
                async move {
                    let _at_work = at_work;
                    std::future::pending::<()>().await;
                }
            };
            agent.while_leader(work).await
        });
    }
    let (first, term) = in_time(begun.recv()).await.expect("somebody leads");
    let at = agents.iter().position(|agent| agent.me().id == first).expect("one of them");
    let leader = agents.remove(at);
    assert!(leader.is_leader_now());
    let shown = leader.leadership().get();
    assert_eq!((shown.state, shown.term, shown.is_me), (LeadershipState::Led, term, true));
    assert!(shown.valid_until.expect("a claim").remaining() <= Duration::from_secs(2));
    // Asked elsewhere for what only a leader does, the answer is the leader's own.
    let mut told = agents[0].leadership();
    in_time(told.wait_for(|told| told.leader.is_some())).await.expect("it hears of it");
    let error = in_time(agents[0].add_voter(name("d"))).await.expect_err("there is no such node");
    assert!(
        matches!(&error, AgentError::Refused(CommandError::Electorate(ChangeError::NoMember { id })) if *id == "d"),
        "{error}"
    );
    assert_eq!(in_time(leader.leave()).await, Stop::Core(StopReason::Left));
    assert!(!leader.is_leader_now());
    let (second, higher) = in_time(begun.recv()).await.expect("a successor");
    assert!(second != first && higher > term, "{second} in {higher} after {first} in {term}");
    for agent in &agents {
        agent.shutdown();
    }
    while let Some(end) = in_time(working.join_next()).await {
        assert!(matches!(
            end.expect("no panic"),
            Err(LeadError::Stopped(Stop::Cancelled | Stop::Core(StopReason::Left)))
        ));
    }
    assert_eq!(present.load(Ordering::SeqCst), 0);
}

#[tokio::test]
async fn work_that_ends_by_itself_gives_its_value_and_leaving_waits_for_work_to_be_gone() {
    let data = tempfile::tempdir().expect("a directory");
    let agents = voters(&["a"], data.path()).await;
    let agent = &agents[0];
    let term = in_time(agent.while_leader(|term| async move { term })).await.expect("it leads");
    assert_eq!(term, agent.leadership().get().term);
    assert_eq!(agent.electorate().expect("its own").voters.len(), 1);
    let present = Arc::new(AtomicUsize::new(0));
    let (begins, begun) = tokio::sync::oneshot::channel();
    let (worker, count) = (agent.clone(), Arc::clone(&present));
    let working = tokio::spawn(async move {
        let mut begins = Some(begins);
        let work = |_| {
            let at_work = Present::new(&count);
            let _ = begins.take().expect("once").send(());
            async move {
                let _at_work = at_work;
                std::future::pending::<()>().await;
            }
        };
        worker.while_leader(work).await
    });
    in_time(begun).await.expect("it runs");
    assert_eq!(in_time(agent.leave()).await, Stop::Core(StopReason::Left));
    assert_eq!(present.load(Ordering::SeqCst), 0, "gone before the goodbye");
    assert_eq!(in_time(working).await.expect("no panic"), Err(Stop::Core(StopReason::Left).into()));
}

#[tokio::test]
async fn a_voter_whose_disk_takes_nothing_gives_up_leadership_until_it_does() {
    let data = tempfile::tempdir().expect("a directory");
    let agents = voters(&["a"], data.path()).await;
    let agent = &agents[0];
    let mut told = agent.leadership();
    let term = in_time(told.wait_for(|told| told.is_me)).await.expect("it leads").term;
    // What stands in the way of a rename is as good as a full disk.
    let state = data.path().join("a").join("headcount.state");
    // The agent may write its state in between.
    while std::fs::create_dir_all(state.join("in the way")).is_err() {
        let _ = std::fs::remove_file(&state);
    }
    // One more member is one more view, which has to be written.
    let b = start("b", &[agent]).await;
    up(&b).await;
    in_time(told.wait_for(|told| !told.is_me)).await.expect("it gave up");
    let stands_aside = async {
        while !agent.info().voter_aside {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    in_time(stands_aside).await;
    assert!(agent.info().state_write_failures >= 1);
    std::fs::remove_dir_all(&state).expect("removed");
    let again = in_time(told.wait_for(|told| told.is_me)).await.expect("it leads again").term;
    assert!(again > term, "{again} after {term}");
}

#[tokio::test]
async fn work_of_a_leader_where_nobody_is_elected_is_an_error_and_does_not_wait() {
    let agent = start("a", &[]).await;
    let refused = in_time(agent.while_leader(|term| async move { term })).await.expect_err("nobody leads");
    assert_eq!(refused, LeadError::Disabled);
    assert!(refused.to_string().contains("with_voters"), "{refused}");
}

#[test]
fn starting_outside_a_runtime_is_an_error() {
    let refused = futures_util::FutureExt::now_or_never(Agent::start(config("a", &[])));
    let error = refused.expect("at once").expect_err("nothing runs here");
    assert!(matches!(error, StartError::NoRuntime), "{error}");
}

/// A runtime of one thread, as a program may have several.
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

#[tokio::test]
async fn members_that_were_gone_before_a_node_joined_are_listed_and_no_news() {
    let a = start("a", &[]).await;
    up(&a).await;
    // Somebody stays: a node that is alone with its verdicts may keep them from a joiner, if it hears nobody for long.
    let stays = start("stays", &[&a]).await;
    let (left, killed) = (start("left", &[&a]).await, start("killed", &[&a]).await);
    for agent in [&stays, &left, &killed] {
        up(agent).await;
        sees(&a, agent.me().id.as_str(), Status::Up).await;
    }
    in_time(left.leave()).await;
    // To its end: half stopped it might still refute that it is gone.
    killed.shutdown();
    in_time(killed.stopped()).await;
    drop(killed);
    sees(&a, "left", Status::Left(LeaveReason::Graceful)).await;
    sees(&a, "killed", Status::Down).await;

    let b = start("b", &[&a]).await;
    let mut events = b.subscribe_after(0).expect("all are kept");
    up(&b).await;
    let listed = |agent: &Agent| agent.members().iter().map(|member| member.id.to_string()).collect::<Vec<_>>();
    assert_eq!(listed(&b), ["a", "b", "killed", "left", "stays"]);
    let live: Vec<_> = b.live_members().iter().map(|member| member.id.to_string()).collect();
    assert_eq!(live, ["a", "b", "stays"], "those that may be given work");
    // What happens from now on is news, of them too.
    let again = start("killed", &[&a]).await;
    up(&again).await;
    sees(&b, "killed", Status::Up).await;
    let mut told = Vec::new();
    while let Some(event) = events.try_recv().expect("few events") {
        if event.kind.node().is_some_and(|id| *id == "killed" || *id == "left") {
            told.push((event.kind.name(), event.kind.node().map(ToString::to_string)));
        }
    }
    assert_eq!(told, [("node_joined", Some("killed".to_owned()))]);
}
