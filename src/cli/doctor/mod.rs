//! `headcount doctor`: what is wrong with a node, its network or its cluster, and what to do about it.
//!
//! ```text
//!   running agent ── HTTP ──▶ verdict, members ─┐
//!   members, seeds ── UDP, TCP ──▶ probe ───────┼─▶ findings: ok, warn, fail, each with an advice
//!   this machine ── files, limits ──▶ local ────┤
//!                ── ports, name ────▶ ports ────┘
//! ```
//!
//! Invariants:
//! - Nothing is changed: nobody joins, and no agent is asked for more than it tells any caller, or any stranger on its
//!   gossip port.
//! - Nobody is sent what it does not take: where packets are sealed, a question is sealed with the key at hand, or not sent.
//! - What could not be looked at is said, and is no success.
//! - How the agent's node and its cluster are is the agent's own verdict, and judged nowhere else. Here is judged what the agent
//!   cannot know: how others are reached from this machine, clocks, several agents, what would keep a node from starting.
//! - Judgements (`judge`, `reach`) are made of values alone, and are tested so.
//!
//! | idea | file |
//! |---|---|
//! | what is asked: addresses by UDP and TCP; this machine; ports and the name | `probe`, `local`, `ports` |
//! | judged: what agents say; addresses | `judge`, `reach` |
//! | findings, and how they are told | `report` |

mod judge;
mod local;
mod ports;
mod probe;
mod reach;
mod report;
#[cfg(test)]
mod tests;
#[cfg(test)]
mod tests_config;
#[cfg(test)]
mod tests_probe;

use std::collections::BTreeSet;
use std::io::Write;
use std::net::{SocketAddr, ToSocketAddrs as _};
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant, SystemTime};

use socket2::Type;

use self::ports::Holder;
use self::probe::{Probe, Voice, probe};
use self::report::{Finding, Report};
use super::args::{DoctorArgs, Format};
use super::client::connect;
use super::commands::json_line;
use super::failure::{Exit, Failure};
use super::human::plain;
use super::paint::Paint;
use crate::client::{Client, ClientError};
use crate::config::{DEFAULT_CLUSTER, LoadError, Loaded, Loader, SealConfig, Source, read_key_file};
use crate::json::{Info, KeyHolder, Member};
use crate::seal::{Key, KeyId, SealMode};
use crate::transport::sources::{SeedSources, Seeds};

/// The largest number of addresses that are probed.
const MAX_PROBED: usize = 64;
/// The number of them that members have which are Down, if there are many members.
const MAX_DOWN_PROBED: usize = 16;
/// Time limit for each call.
const CALL_TIMEOUT: Duration = Duration::from_secs(5);

/// An address to probe, and what it is called.
#[derive(Debug, Clone)]
struct Target {
    name: String,
    address: SocketAddr,
    manner: Manner,
    /// True if it is Down for the agent, so that no answer is expected.
    is_down: bool,
}

/// The manner in which a target is asked by UDP.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Manner {
    /// By a clear question, as any stranger asks.
    Clear,
    /// By a question that is sealed with this key.
    Sealed(KeyId),
    /// Not at all: it takes sealed packets alone, and there is no key at hand.
    Untried,
}

impl Manner {
    /// Returns the manner in which whoever takes sealed packets alone is asked.
    fn sealed(key: Option<&Key>) -> Self {
        key.map_or(Manner::Untried, |key| Manner::Sealed(key.id()))
    }
}

/// A target, and what it answered.
#[derive(Debug)]
struct Probed {
    target: Target,
    probe: Probe,
}

pub(super) fn run(args: &DoctorArgs, out: &mut impl Write) -> Result<Exit, Failure> {
    let mut report = Report::default();
    let mut cluster = args.cluster.clone();
    // In a container there is no file, and variables name the key.
    let mut key = loader(args).load().ok().and_then(|loaded| sealing_key(&loaded.agent.config.seal));
    if let Some(path) = &args.config {
        match load(path, args) {
            Ok(loaded) => {
                report.add(Finding::ok("config", format!("{} is a good configuration", path.display())));
                report.extend(loaded.warnings.iter().map(|warning| Finding::warn("config", warning.to_string(), None)));
                let config = &loaded.agent.config;
                cluster = cluster.or_else(|| Some(config.cluster.to_string()));
                key = sealing_key(&config.seal);
                node_may_start(&loaded, args, key.as_ref(), cluster.as_deref(), &mut report);
            }
            Err(error) => {
                report.add(Finding::fail(
                    "config",
                    error.to_string(),
                    "mend the file: config.toml documents every key",
                ));
            }
        }
    } else if !args.seeds.is_empty() {
        let sources = SeedSources::new(&args.seeds, None, &[]);
        seeds_answer(&sources, None, cluster.as_deref().unwrap_or(DEFAULT_CLUSTER), key.as_ref(), &mut report);
    }
    if let Some(address) = args.agent() {
        let client = connect(&address)?.with_timeout(CALL_TIMEOUT);
        let others: Result<Vec<Client>, Failure> = args
            .also
            .iter()
            .map(|http| Ok(connect(&args.agent_at(http.clone()))?.with_timeout(CALL_TIMEOUT)))
            .collect();
        agent_is_well(&client, &others?, key.as_ref(), &mut report);
    }
    report.add(local::descriptors());
    match args.format {
        Format::Json => json_line(out, &report)?,
        Format::Table => report.print(out, Paint::of_stdout())?,
    }
    Ok(if report.is_ok() { Exit::DONE } else { Exit::FAILED })
}

/// Returns the layers beside a file: the variables that an agent would have here, and the key file of the command line.
fn loader(args: &DoctorArgs) -> Loader {
    let loader = Loader::new().process_environment();
    match &args.key_file {
        Some(path) => loader.flag("seal.key_file", "--key-file", path),
        None => loader,
    }
}

/// Loads the configuration as an agent does that is given this file; without a name for this machine, too.
fn load(path: &Path, args: &DoctorArgs) -> Result<Loaded, LoadError> {
    let loader = || loader(args).file(path);
    loader().load().or_else(|_| loader().host_name("any").load())
}

/// Looks at all that a node of this configuration needs: this machine, its ports, its seeds.
fn node_may_start(loaded: &Loaded, args: &DoctorArgs, key: Option<&Key>, cluster: Option<&str>, report: &mut Report) {
    let config = &loaded.agent.config;
    let cluster = cluster.unwrap_or(DEFAULT_CLUSTER);
    let is_named = matches!(loaded.source("name"), Some(Source::File { .. } | Source::Environment(_)));
    local::look_at(config, is_named, report);
    let holder = ports::holder(config, cluster, key);
    // An agent that is asked by HTTP as well has that port.
    let http = loaded.agent.http.bind.filter(|http| http.port() != 0 && args.agent().is_none());
    let http = http.filter(|http| ports::is_taken(*http, Type::STREAM));
    report.extend(ports::judge(config, &holder, http));
    let seeds: Vec<String> = config.seeds.iter().chain(&args.seeds).cloned().collect();
    let sources = SeedSources::new(&seeds, config.seeds_file.as_deref(), &config.seeds_command);
    let own = config.advertise.or(Some(config.listens_at())).filter(|_| holder == Holder::Nobody);
    let probed = seeds_answer(&sources, own, cluster, key, report);
    report.extend(ports::name_in_use(&config.name, &holder, &probed).filter(|_| is_named));
}

/// Returns the key that a node of this configuration seals with; `None` if it sends clear packets. A file that cannot be
/// read was told of with the configuration.
fn sealing_key(seal: &SealConfig) -> Option<Key> {
    if !seal.mode().seals() {
        return None;
    }
    match &seal.key_file {
        Some(path) => Some(read_key_file(path).ok()?.ring.sealing().clone()),
        None => seal.keys.first().cloned(),
    }
}

/// Asks the seeds as a node asks that joins: what any stranger is answered, or any holder of this key. All sources of them
/// are asked, as an agent asks them, but for the address of the node itself, if it is not running. Returns the answers.
fn seeds_answer(
    sources: &SeedSources,
    own: Option<SocketAddr>,
    cluster: &str,
    key: Option<&Key>,
    report: &mut Report,
) -> Vec<Probed> {
    if sources.len() == 0 {
        report.add(Finding::warn(
            "seeds",
            "there are none: this node founds a cluster of its own",
            Some("right for the very first node alone; name two or three seeds, the same everywhere"),
        ));
        return Vec::new();
    }
    let mut seeds = BTreeSet::new();
    for (source, named) in said_by(sources) {
        let (found, trouble) = match named {
            Ok(Seeds { seeds, refused }) => (seeds, refused),
            Err(why) => (Vec::new(), Some(why)),
        };
        if let Some(why) = trouble {
            let found = format!("{}: {}", plain(&source), plain(&why));
            report.add(Finding::fail("seeds", found, "mend it: an agent goes on with what it named before, if it did"));
        }
        seeds.extend(found);
    }
    let mut targets = Vec::new();
    for seed in seeds {
        match seed.to_socket_addrs() {
            Ok(addresses) => {
                let name = format!("seed {}", plain(&seed));
                let manner = key.map_or(Manner::Clear, |key| Manner::Sealed(key.id()));
                targets.extend(addresses.map(|address| Target { name: name.clone(), address, manner, is_down: false }));
            }
            Err(error) => report.add(Finding::fail(
                "seeds",
                format!("{} has no address: {error}", plain(&seed)),
                "write host:port; check the name with `getent hosts`",
            )),
        }
    }
    let found = targets.len();
    targets.retain(|target| Some(target.address) != own);
    let all = targets.len();
    if all < found {
        let others = if all == 0 { "" } else { ", if no other seed answers" };
        let told = format!("this node is one of them, and is not running: it founds a cluster{others}");
        report.add(Finding::ok("seeds", told));
    }
    let mut probed = probe_all(targets, cluster, key);
    reach::forgive(&mut probed);
    report.extend(reach::reach("seeds", cluster, &probed, all));
    report.extend(reach::records(&probed));
    probed
}

/// Returns what each source of seeds says now.
fn said_by(sources: &SeedSources) -> Vec<(String, Result<Seeds, String>)> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    match runtime {
        Ok(runtime) => runtime.block_on(sources.ask_all()),
        Err(error) => vec![("the seeds".to_owned(), Err(error.to_string()))],
    }
}

/// A port on which nobody listens: tcpmux.
const UNUSED_PORT: u16 = 1;

/// Looks at a running agent, at what it finds, and at its members as this machine reaches them.
fn agent_is_well(client: &Client, others: &[Client], key: Option<&Key>, report: &mut Report) {
    let (info, clock) = match ask(client) {
        Ok(answer) => answer,
        Err(error) => {
            let failure = Failure::from(error);
            return report.add(Finding::of_failure("agent", &failure));
        }
    };
    report.add(judge::agent(&info));
    let verdict = told(client.verdict(), "verdict", report);
    report.extend(verdict.iter().flat_map(judge::verdict));
    let keys = told(client.keys(), "keys", report).map(|keys| keys.members).unwrap_or_default();
    let Some(members) = told(client.members(), "members", report) else { return };
    report.extend(judge::keys(&keys, info.status == "joining"));
    open_to_others(&info, &members, &keys, report);
    let targets = targets(&members, &keys, key);
    let all = targets.len();
    let probed = probe_all(targets, &info.cluster, key);
    report.extend(reach::reach("reach", &info.cluster, &probed, all));
    report.extend(reach::records(&probed));
    report.extend(proxy(&info, &members, UNUSED_PORT));
    compare(info, clock, client, others, report);
}

/// Looks for a proxy that answers in the place of hosts, where their silence counts.
fn proxy(info: &Info, members: &[Member], unused_port: u16) -> Option<Finding> {
    let timing = &info.timing;
    let is_up = |member: &&Member| !member.is_me && member.status == "up";
    let other = members.iter().filter(is_up).find(|_| timing.host_down_timeout_ms < timing.down_timeout_ms)?;
    let address: SocketAddr = other.address.parse().ok()?;
    let answer = probe(SocketAddr::new(address.ip(), unused_port), None).tcp;
    answer.is_ok().then(|| judge::proxy(&other.id, timing))
}

/// Looks at the address of gossip: whether others reach it, are told it, and may send clear packets there.
fn open_to_others(info: &Info, members: &[Member], keys: &[KeyHolder], report: &mut Report) {
    let is_loopback = |address: &SocketAddr| address.ip().is_loopback();
    let told: Option<SocketAddr> = info.address.parse().ok();
    // Whoever answers at a loopback address runs on this machine.
    let is_here = info.http.as_ref().and_then(|http| http.parse().ok()).as_ref().is_some_and(is_loopback);
    let own = told.filter(|address| is_here && is_loopback(address));
    let listens_at = own.and_then(|address| ports::also_listens_at(address.port()));
    report.extend(judge::own_address(info, members, listens_at));
    let mode = keys.iter().find(|holder| holder.node == info.node).and_then(|holder| holder.mode.as_deref());
    report.extend(judge::clear(mode, told.filter(|address| !is_loopback(address)).or(listens_at)));
}

/// Returns an answer; of a call that failed, the report is told.
fn told<T>(answer: Result<T, ClientError>, check: &'static str, report: &mut Report) -> Option<T> {
    answer.map_err(|error| report.add(Finding::of_failure(check, &Failure::from(error)))).ok()
}

/// Compares the agent with the others that were named, and all clocks with that of this machine.
fn compare(info: Info, clock: Option<Clock>, client: &Client, others: &[Client], report: &mut Report) {
    let mut clocks: Vec<Clock> = clock.into_iter().collect();
    let mut agents = vec![(client, info)];
    for other in others {
        match ask(other) {
            Ok((info, clock)) => {
                agents.push((other, info));
                clocks.extend(clock);
            }
            Err(error) => report.add(Finding::of_failure("agents", &Failure::from(error))),
        }
    }
    report.add(judge::clocks(&clocks));
    if agents.len() < 2 {
        return;
    }
    let (mut modes, mut lineages) = (Vec::new(), Vec::new());
    for (client, info) in &agents {
        let Some(leader) = told(client.leader(None), "leader", report) else { continue };
        if leader.mode == "quorum" {
            let lineage = told(client.voters(), "voters", report).and_then(|voters| voters.lineage);
            lineages.extend(lineage.map(|lineage| (plain(&info.node), plain(&lineage))));
        }
        modes.push((plain(&info.node), plain(&leader.mode)));
    }
    let infos: Vec<Info> = agents.into_iter().map(|(_, info)| info).collect();
    report.extend(judge::infos(&infos));
    report.add(judge::modes(&modes));
    report.extend(judge::lineages(&lineages));
}

/// The clock of an agent, compared with that of this machine.
#[derive(Debug, Clone)]
struct Clock {
    name: String,
    /// Seconds that the agent's clock is ahead; below zero if it is behind.
    ahead: f64,
    /// The greatest error of that: the time that the answer took, and the second that dates are rounded to.
    error: f64,
}

fn ask(client: &Client) -> Result<(Info, Option<Clock>), ClientError> {
    let (began, asked) = (SystemTime::now(), Instant::now());
    let (info, date) = client.info_with_time()?;
    let took = asked.elapsed().as_secs_f64();
    let seconds = |at: SystemTime| at.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default().as_secs_f64();
    let clock = date.map(|date| Clock {
        name: plain(&info.node),
        // Dates have no fractions, so that half a second is the best guess.
        ahead: seconds(date) + 0.5 - seconds(began) - took / 2.0,
        error: took / 2.0 + 0.5,
    });
    Ok((info, clock))
}

/// Returns the addresses of members: the live ones by name, from this agent's own on, so that agents do not all ask the same
/// ones; then those that are Down. Of many members some that are Down are among the first [`MAX_PROBED`].
fn targets(members: &[Member], keys: &[KeyHolder], key: Option<&Key>) -> Vec<Target> {
    // One that could not be asked is taken to be as this agent's node is.
    let mode = |id: &str| keys.iter().find(|holder| holder.node == id).and_then(|holder| holder.mode.as_deref());
    let usual = members.iter().find(|member| member.is_me).and_then(|me| mode(&me.id));
    let target = |member: &Member, is_down: bool| {
        let is_sealed = mode(&member.id).or(usual) == Some(SealMode::Require.name());
        let manner = if is_sealed { Manner::sealed(key) } else { Manner::Clear };
        Some(Target { name: plain(&member.id), address: member.address.parse().ok()?, manner, is_down })
    };
    let of = |statuses: &'static [&str]| members.iter().filter(|member| statuses.contains(&member.status.as_str()));
    let down: Vec<Target> = of(&["down"]).filter_map(|member| target(member, true)).collect();
    let own = members.iter().find(|member| member.is_me).map_or("", |me| me.id.as_str());
    let (after, before): (Vec<&Member>, Vec<&Member>) =
        of(&["up", "suspect"]).partition(|member| member.id.as_str() >= own);
    let mut live: Vec<Target> = after.into_iter().chain(before).filter_map(|member| target(member, false)).collect();
    let others = live.split_off(live.len().min(MAX_PROBED - down.len().min(MAX_DOWN_PROBED)));
    live.into_iter().chain(down).chain(others).collect()
}

/// Probes targets, at once; no more than [`MAX_PROBED`].
fn probe_all(targets: Vec<Target>, cluster: &str, key: Option<&Key>) -> Vec<Probed> {
    thread::scope(|scope| {
        let running: Vec<_> = targets
            .into_iter()
            .take(MAX_PROBED)
            .map(|target| {
                let address = target.address;
                let voice = match (target.manner, key) {
                    (Manner::Clear, _) => Some(Voice::clear(cluster)),
                    (Manner::Sealed(_), Some(key)) => Some(Voice::sealed(cluster, key)),
                    (Manner::Sealed(_), None) | (Manner::Untried, _) => None,
                };
                (target, scope.spawn(move || probe(address, voice)))
            })
            .collect();
        let probed = |(target, probe): (Target, thread::ScopedJoinHandle<'_, Probe>)| {
            probe.join().ok().map(|probe| Probed { target, probe })
        };
        running.into_iter().filter_map(probed).collect()
    })
}
