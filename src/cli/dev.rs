//! `headcount dev`: a whole cluster in one process, for the first minute of a new user.
//!
//! Invariant: it can do no more than a user of the library: every node is an [`Agent`] with its own HTTP interface, on
//! ports of its own, and may leave by itself while the others go on.

use std::io::{self, Write};
use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;

use tokio::net::TcpListener;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use super::agent::{HttpListener, not_started, run_nodes};
use super::args::DevArgs;
use super::failure::{Exit, Failure};
use super::paint::Paint;
use super::signals::{Request, Signals};
use super::{logs, table, watch};
use crate::agent::{Agent, RecvError, StartError, Stop, Subscription};
use crate::config::{AgentConfig, Config, DEFAULT_GOSSIP_PORT, DEFAULT_HTTP_PORT, HttpConfig};
use crate::core::{NodeId, Profile};
use crate::json;

/// The distance between the ports of two neighbours.
const PORT_STEP: u16 = 10;

pub(super) fn run(args: &DevArgs) -> Result<Exit, Failure> {
    let mut quiet = AgentConfig::new(named("n1")?).log;
    // Events are printed; of the logs only those that an operator would have to act upon.
    "warn".clone_into(&mut quiet.level);
    run_nodes(
        || Ok((logs::start(&quiet)?, ())),
        async |process, ()| live(args.nodes, &mut process.signals, &mut process.out).await,
    )
}

/// One node of the cluster.
struct Node {
    agent: Agent,
    name: NodeId,
    http: SocketAddr,
}

async fn live(nodes: u16, signals: &mut Signals, out: &mut impl Write) -> Result<Exit, Failure> {
    let stopping = CancellationToken::new();
    let mut serving = JoinSet::new();
    let mut cluster: Vec<Node> = Vec::new();
    // Voters must not forget while they run; nothing is kept beyond the life of the cluster.
    let data = tempfile::Builder::new().prefix("headcount-dev-").tempdir();
    let data = data.map_err(|error| Failure::failed(format!("cannot create a temporary directory: {error}")))?;
    for index in 0..nodes {
        let seed = cluster.first().map(|first| first.agent.gossip_address());
        let (agent, door) = start(&Place { index, nodes, seed, data: data.path() }).await?;
        let (name, http) = (agent.me().id, door.address);
        let stop_serving = stopping.child_token();
        serving.spawn(serve(door, agent.clone(), stop_serving.clone()));
        let watched = agent.clone();
        serving.spawn(async move {
            watched.stopped().await;
            stop_serving.cancel();
        });
        cluster.push(Node { agent, name, http });
    }
    greet(&cluster, out)?;
    tokio::select! {
        told = follow(&cluster, out) => told?,
        () = told_to_stop(signals) => {}
    }
    stopping.cancel();
    let mut leaving: JoinSet<_> = cluster.into_iter().map(|node| async move { node.agent.leave().await }).collect();
    while leaving.join_next().await.is_some() {}
    while serving.join_next().await.is_some() {}
    Ok(Exit::DONE)
}

async fn told_to_stop(signals: &mut Signals) {
    // There is no configuration to read again.
    while signals.recv().await == Request::Reload {}
}

async fn serve(door: HttpListener, agent: Agent, stopping: CancellationToken) {
    if let Err(error) = door.serve(agent.clone(), stopping).await {
        tracing::error!("HTTP of {} is no longer served: {error}", agent.me().id);
    }
}

/// The place of one node in the cluster.
struct Place<'a> {
    index: u16,
    nodes: u16,
    seed: Option<SocketAddr>,
    data: &'a Path,
}

/// Starts one node on its ports, or on free ones if those are taken.
async fn start(place: &Place<'_>) -> Result<(Agent, HttpListener), Failure> {
    let index = place.index;
    let name = name_of(index);
    let mut door = open(DEFAULT_HTTP_PORT + index * PORT_STEP, &name).await?;
    let wanted = DEFAULT_GOSSIP_PORT + index * PORT_STEP;
    let agent = match Agent::start(config(place, wanted)?).await {
        Err(StartError::Bind { error, .. }) if error.kind() == io::ErrorKind::AddrInUse => {
            note_taken("gossip", wanted, &name);
            Agent::start(config(place, 0)?).await
        }
        started => started,
    };
    let agent = agent.map_err(|error| not_started(&error))?;
    door.fit(&agent)?;
    Ok((agent, door))
}

async fn open(wanted: u16, name: &str) -> Result<HttpListener, Failure> {
    // Checked first, since a listener that cannot be bound is a failure everywhere else.
    let is_free = TcpListener::bind((Ipv4Addr::LOCALHOST, wanted)).await.is_ok();
    if !is_free {
        note_taken("HTTP", wanted, name);
    }
    let address = SocketAddr::from((Ipv4Addr::LOCALHOST, if is_free { wanted } else { 0 }));
    let config = HttpConfig { bind: Some(address), ..HttpConfig::default() };
    HttpListener::open(&config).await?.ok_or_else(|| Failure::failed("HTTP is off"))
}

fn name_of(index: u16) -> String {
    format!("n{}", index + 1)
}

fn named(name: &str) -> Result<Config, Failure> {
    Config::new(name).map_err(|error| Failure::failed(error.to_string()))
}

fn config(place: &Place<'_>, port: u16) -> Result<Config, Failure> {
    let name = name_of(place.index);
    // An odd number of voters: with one more, no further loss could be borne.
    let voters: Vec<String> = (0..place.nodes.min(5).div_ceil(2) * 2 - 1).map(name_of).collect();
    let config = named(&name)?.with_profile(Profile::Local);
    let config = config.with_voters(voters.iter().map(String::as_str));
    let config = config.map_err(|error| Failure::failed(error.to_string()))?;
    let mut config = config.with_bind(SocketAddr::from((Ipv4Addr::LOCALHOST, port)));
    config.seeds = place.seed.map(|seed| seed.to_string()).into_iter().collect();
    config.data_dir = Some(place.data.join(&name));
    Ok(config)
}

fn note_taken(what: &str, port: u16, name: &str) {
    let _ = writeln!(
        io::stderr(),
        "headcount: {what} port {port} is taken: {name} uses a free one, as below (`ss -lntup 'sport = :{port}'` names the \
         process; commands without --http ask whoever has {DEFAULT_HTTP_PORT})"
    );
}

fn greet(cluster: &[Node], out: &mut impl Write) -> Result<(), Failure> {
    let row = |node: &Node| [node.name.to_string(), node.agent.gossip_address().to_string(), node.http.to_string()];
    table::write(out, ["NODE", "GOSSIP", "HTTP"], cluster.iter().map(row))?;
    let (Some(first), Some(last)) = (cluster.first(), cluster.last()) else { return Ok(()) };
    // The first node is the one that commands talk to by default, unless its port was taken.
    let first_flag =
        if first.http.port() == DEFAULT_HTTP_PORT { String::new() } else { format!(" --http {}", first.http) };
    let (last_http, gossip) = (last.http, first.agent.gossip_address());
    // By a path alone: the program is not installed.
    let is_by_path = std::env::args_os().next().is_some_and(|name| Path::new(&name).components().count() > 1);
    let program = std::env::current_exe().ok().filter(|_| is_by_path);
    let alias = program.map(|path| format!("\n  alias headcount='{}'", path.display())).unwrap_or_default();
    writeln!(
        out,
        "\nTry, in another terminal:{alias}
  headcount members{first_flag}
  headcount leader{first_flag}
  headcount watch{first_flag} --format json
  headcount tags zone=eu-1 --http {last_http}
  headcount agent --name extra --profile local --bind 127.0.0.1:0 --http off --seed {gossip}
  headcount leave --http {last_http}
  curl http://{}/v1/members

The dashboard is at http://{}/.
Ctrl-C stops all. Events as {} sees them:",
        first.http, first.http, first.name
    )?;
    Ok(out.flush()?)
}

/// Prints the first node's events; after it has left, the next one's.
async fn follow(cluster: &[Node], out: &mut impl Write) -> Result<(), Failure> {
    let mut after_first = false;
    for node in cluster {
        // The first node's events are told from its beginning.
        let events = if after_first { None } else { node.agent.subscribe_after(0).ok() };
        let events = events.unwrap_or_else(|| node.agent.subscribe());
        if after_first {
            writeln!(out, "Events as {} sees them:", node.name)?;
        }
        let stop = print(node, events, out).await?;
        writeln!(out, "{} has stopped: {stop}", node.name)?;
        after_first = true;
    }
    writeln!(out, "no node is left")?;
    Ok(())
}

async fn print(node: &Node, mut events: Subscription, out: &mut impl Write) -> Result<Stop, Failure> {
    let paint = Paint::of_stdout();
    loop {
        match events.recv().await {
            Ok(event) => writeln!(out, "{}", watch::line(&json::Event::new(node.agent.run(), &event), paint))?,
            Err(RecvError::Lagged { missed }) => writeln!(out, "events were too many to print: {missed}")?,
            Err(_) => return Ok(node.agent.stopped().await),
        }
        out.flush()?;
    }
}
