//! `headcount doctor`: what is wrong with a node, its network or its cluster, and what to do about it.
//!
//! ```text
//!   running agent ── HTTP ──▶ figures, members ─┐
//!   members, seeds ── UDP, TCP ──▶ probe ───────┼─▶ findings: ok, warn, fail, each with an advice
//!   this machine ── files, limits ──▶ local ────┘
//! ```
//!
//! Invariants:
//! - Nothing is changed: nobody joins, and no agent is asked for more than it tells any caller, or any stranger on its
//!   gossip port.
//! - What could not be looked at is said, and is no success.
//! - Judgements (`judge`, `figures`) are made of values alone, and are tested so.

mod figures;
mod judge;
mod local;
mod probe;
mod report;
#[cfg(test)]
mod tests;

use std::collections::BTreeSet;
use std::io::Write;
use std::net::{SocketAddr, ToSocketAddrs as _};
use std::thread;
use std::time::{Duration, Instant, SystemTime};

use self::probe::{Probe, probe};
use self::report::{Finding, Report};
use super::args::{DoctorArgs, Format};
use super::client::connect;
use super::commands::json_line;
use super::failure::{Exit, Failure};
use super::human::plain;
use super::paint::Paint;
use crate::client::{Client, ClientError};
use crate::config::{DEFAULT_CLUSTER, check_file};
use crate::json::{Info, KeyHolder, Member};
use crate::seal::SealMode;
use crate::transport::sources::{SeedSources, Seeds};

/// The largest number of addresses that are probed; of more members, the first ones by name.
const MAX_PROBED: usize = 64;
/// Time limit for each call.
const CALL_TIMEOUT: Duration = Duration::from_secs(5);

/// An address to probe, and what it is called.
#[derive(Debug, Clone)]
struct Target {
    name: String,
    address: SocketAddr,
    /// True if it takes sealed packets alone, so that a stranger is not answered by UDP.
    is_sealed: bool,
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
    if let Some(path) = &args.config {
        match check_file(path) {
            Ok(loaded) => {
                report.add(Finding::ok("config", format!("{} is a good configuration", path.display())));
                report.extend(loaded.warnings.iter().map(|warning| Finding::warn("config", warning.to_string(), None)));
                let config = &loaded.agent.config;
                cluster = cluster.or_else(|| Some(config.cluster.to_string()));
                local::look_at(config, &mut report);
                let seeds: Vec<String> = config.seeds.iter().chain(&args.seeds).cloned().collect();
                let sources = SeedSources::new(&seeds, config.seeds_file.as_deref(), &config.seeds_command);
                let is_sealed = config.seal.mode() == SealMode::Require;
                seeds_answer(&sources, cluster.as_deref(), is_sealed, &mut report);
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
        seeds_answer(&SeedSources::new(&args.seeds, None, &[]), cluster.as_deref(), false, &mut report);
    }
    if let Some(address) = args.agent() {
        let client = connect(&address)?.with_timeout(CALL_TIMEOUT);
        let others: Result<Vec<Client>, Failure> = args
            .also
            .iter()
            .map(|http| Ok(connect(&args.agent_at(http.clone()))?.with_timeout(CALL_TIMEOUT)))
            .collect();
        agent_is_well(&client, &others?, &mut report);
    }
    report.add(local::descriptors());
    match args.format {
        Format::Json => json_line(out, &report)?,
        Format::Table => report.print(out, Paint::of_stdout())?,
    }
    Ok(if report.is_ok() { Exit::DONE } else { Exit::FAILED })
}

/// Asks the seeds what any stranger is answered. All sources of them are asked, as an agent asks them.
fn seeds_answer(sources: &SeedSources, cluster: Option<&str>, is_sealed: bool, report: &mut Report) {
    if sources.len() == 0 {
        return report.add(Finding::warn(
            "seeds",
            "there are none: this node founds a cluster of its own",
            Some("right for the very first node alone; name two or three seeds, the same everywhere"),
        ));
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
                targets.extend(addresses.map(|address| Target { name: name.clone(), address, is_sealed }));
            }
            Err(error) => report.add(Finding::fail(
                "seeds",
                format!("{} has no address: {error}", plain(&seed)),
                "write host:port; check the name with `getent hosts`",
            )),
        }
    }
    let all = targets.len();
    let mut probed = probe_all(targets, cluster.unwrap_or(DEFAULT_CLUSTER));
    judge::forgive(&mut probed);
    report.extend(judge::reach("seeds", &probed, all));
    report.extend(judge::records(&probed));
}

/// Returns what each source of seeds says now.
fn said_by(sources: &SeedSources) -> Vec<(String, Result<Seeds, String>)> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    match runtime {
        Ok(runtime) => runtime.block_on(sources.ask_all()),
        Err(error) => vec![("the seeds".to_owned(), Err(error.to_string()))],
    }
}

/// Looks at a running agent, at what it knows, and at its members as this machine reaches them.
fn agent_is_well(client: &Client, others: &[Client], report: &mut Report) {
    let (info, clock) = match ask(client) {
        Ok(answer) => answer,
        Err(error) => {
            let failure = Failure::from(error);
            return report.add(Finding::of_failure("agent", &failure));
        }
    };
    report.extend(judge::agent(&info));
    match client.readiness() {
        Ok(health) => report.add(judge::ready(&health)),
        Err(error) => report.add(Finding::of_failure("ready", &Failure::from(error))),
    }
    match client.leader(None) {
        Ok(leader) => report.add(judge::leader(&leader)),
        Err(error) => report.add(Finding::of_failure("leader", &Failure::from(error))),
    }
    match client.metrics() {
        Ok(text) => report.extend(figures::judge(&figures::parse(&text))),
        Err(error) => report.add(Finding::of_failure("packets", &Failure::from(error))),
    }
    let members = match client.members() {
        Ok(members) => members,
        Err(error) => return report.add(Finding::of_failure("members", &Failure::from(error))),
    };
    report.extend(judge::members(&members));
    let keys = match client.keys() {
        Ok(keys) => keys.members,
        Err(error) => {
            report.add(Finding::of_failure("keys", &Failure::from(error)));
            Vec::new()
        }
    };
    report.extend(judge::keys(&keys));
    let targets = targets(&members, &keys);
    let all = targets.len();
    let probed = probe_all(targets, &info.cluster);
    report.extend(judge::reach("members", &probed, all));
    report.extend(judge::records(&probed));
    compare(info, clock, others, report);
}

/// Compares the agent with the others that were named, and all clocks with that of this machine.
fn compare(info: Info, clock: Option<Clock>, others: &[Client], report: &mut Report) {
    let mut infos = vec![info];
    let mut clocks: Vec<Clock> = clock.into_iter().collect();
    for other in others {
        match ask(other) {
            Ok((info, clock)) => {
                infos.push(info);
                clocks.extend(clock);
            }
            Err(error) => report.add(Finding::of_failure("agents", &Failure::from(error))),
        }
    }
    report.add(judge::clocks(&clocks));
    report.extend(judge::infos(&infos));
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

/// Returns the addresses of live members.
fn targets(members: &[Member], keys: &[KeyHolder]) -> Vec<Target> {
    let live = members.iter().filter(|member| matches!(member.status.as_str(), "up" | "suspect"));
    // One that could not be asked is taken to be as this agent's node is.
    let mode = |id: &str| keys.iter().find(|holder| holder.node == id).and_then(|holder| holder.mode.as_deref());
    let usual = members.iter().find(|member| member.is_me).and_then(|me| mode(&me.id));
    let target = |member: &Member| {
        let is_sealed = mode(&member.id).or(usual) == Some(SealMode::Require.name());
        Some(Target { name: plain(&member.id), address: member.address.parse().ok()?, is_sealed })
    };
    live.filter_map(target).collect()
}

/// Probes targets, at once; no more than [`MAX_PROBED`].
fn probe_all(targets: Vec<Target>, cluster: &str) -> Vec<Probed> {
    thread::scope(|scope| {
        let running: Vec<_> = targets
            .into_iter()
            .take(MAX_PROBED)
            .map(|target| {
                let address = target.address;
                (target, scope.spawn(move || probe(address, cluster)))
            })
            .collect();
        let probed = |(target, probe): (Target, thread::ScopedJoinHandle<'_, Probe>)| {
            probe.join().ok().map(|probe| Probed { target, probe })
        };
        running.into_iter().filter_map(probed).collect()
    })
}
