//! The time and cost of elections: durations in virtual time, bytes on the wire, and the number of times that any of a
//! thousand members loses sight of the leader.
//!
//! `cargo bench --bench leadership` prints everything; `-- times`, `-- renewals` and `-- members` one of the tables;
//! `--quick` is a smoke test. Everything but processor time is the same on every machine.

use std::collections::BTreeSet;
use std::time::Duration;

use headcount::Profile;
use headcount::core::Command;
use headcount::core::Output;
use headcount::core::election::LossReason;
use headcount::core::wire::{Message, Packet};
use headcount::sim::network::{Conditions, Latency};
use headcount::sim::watch::Watch;
use headcount::sim::{LeaderNews, Purpose, Random, World, WorldOptions};

const SECOND: Duration = Duration::from_secs(1);
const VOTERS: usize = 5;
/// Bytes of the headers of IPv4 and UDP.
const HEADER_BYTES: u64 = 28;

fn main() {
    let asked: Vec<String> = std::env::args().skip(1).filter(|argument| !argument.starts_with("--bench")).collect();
    let quick = asked.iter().any(|argument| argument == "--quick");
    let is_asked =
        |name: &str| asked.iter().all(|argument| argument.starts_with("--")) || asked.iter().any(|a| a == name);
    if is_asked("times") {
        times(if quick { 10 } else { 200 });
    }
    if is_asked("renewals") {
        renewals(if quick { 100 } else { 3_000 });
    }
    if is_asked("members") {
        members(quick);
    }
}

/// A near or a far network.
#[derive(Clone, Copy)]
struct Way {
    name: &'static str,
    /// Round trip time.
    rtt: Duration,
    loss: f64,
}

const NEAR: Way = Way { name: "rtt 1 ms", rtt: Duration::from_millis(1), loss: 0.0 };
const FAR: Way = Way { name: "rtt 100 ms, 1 % loss", rtt: Duration::from_millis(100), loss: 0.01 };

fn options(seed: u64, nodes: usize, profile: Profile, way: Way) -> WorldOptions {
    let latency = Latency { base: way.rtt / 2, jitter: way.rtt / 20 };
    WorldOptions {
        voters: VOTERS,
        lease: profile.lease_timing(),
        conditions: Conditions { latency, loss: way.loss, ..Conditions::default() },
        led_work: Duration::ZERO,
        ..WorldOptions::new(seed, nodes, profile.settings())
    }
}

/// Returns the time from `from` until a node other than `but` claimed to lead, and until all running nodes named it.
fn succession(world: &World, from: Duration, but: Option<usize>) -> Option<(Duration, Duration)> {
    let seen: Vec<_> = world
        .elections_seen()
        .iter()
        .filter(|sighting| sighting.news == LeaderNews::Elected && Duration::from_nanos(sighting.at) >= from)
        .collect();
    let claim = seen
        .iter()
        .find(|sighting| world.id(sighting.observer) == &sighting.leader && Some(sighting.observer) != but)?;
    let knowing: BTreeSet<usize> =
        seen.iter().filter(|sighting| sighting.term >= claim.term).map(|sighting| sighting.observer).collect();
    let running = (0..world.nodes()).filter(|node| world.core(*node).is_some());
    let last = seen.iter().filter(|sighting| sighting.term == claim.term).map(|sighting| sighting.at).max()?;
    let all = running.into_iter().all(|node| knowing.contains(&node));
    let since = |at| Duration::from_nanos(at).saturating_sub(from);
    all.then(|| (since(claim.at), since(last)))
}

#[derive(Default)]
struct Times {
    claimed: Vec<Duration>,
    known: Vec<Duration>,
    never: usize,
}

impl Times {
    fn add(&mut self, found: Option<(Duration, Duration)>) {
        match found {
            Some((claimed, known)) => {
                self.claimed.push(claimed);
                self.known.push(known);
            }
            None => self.never += 1,
        }
    }

    fn row(&mut self, what: &str, budget: Option<Duration>) {
        let text = |figures: &mut Vec<Duration>| {
            figures.sort_unstable();
            let at = |share: usize| figures.get((figures.len() * share).div_ceil(100).saturating_sub(1)).copied();
            let [half, most, worst] = [at(50), at(99), at(100)].map(Option::unwrap_or_default);
            (format!("{:.2} / {:.2} / {:.2} s", half.as_secs_f64(), most.as_secs_f64(), worst.as_secs_f64()), most)
        };
        let (claimed, most) = text(&mut self.claimed);
        let (known, _) = text(&mut self.known);
        let verdict = budget.map_or_else(String::new, |budget| {
            let is_kept = if most <= budget { "kept" } else { "BROKEN" };
            format!("{:.2} s, {is_kept}", budget.as_secs_f64())
        });
        let never = if self.never > 0 { format!(", {} never", self.never) } else { String::new() };
        println!("| {what} | {claimed} | {known}{never} | {verdict} |");
    }
}

/// Prints the times of elections among five voters.
fn times(runs: u64) {
    println!("Five voters, {runs} runs each; p50 / p99 / max until somebody claims to lead, and until all know it\n");
    println!("| | claimed after | known to all after | budget (p99) |\n|---|---|---|---|");
    for profile in Profile::ALL {
        for way in [NEAR, FAR] {
            let (mut first, mut crash, mut over) = (Times::default(), Times::default(), Times::default());
            for seed in 0..runs {
                run(seed, profile, way, &mut first, &mut crash, &mut over);
            }
            let lease = profile.lease_timing().lease_duration;
            let at = format!("{profile} ({} s), {}", lease.as_secs_f64(), way.name);
            first.row(&format!("{at}: all voters are up"), None);
            crash.row(&format!("{at}: the leader crashes"), Some(lease + SECOND + way.rtt * 6));
            let budget = if way.rtt < Duration::from_millis(10) { Some(Duration::from_millis(300)) } else { None };
            over.row(&format!("{at}: the leader leaves"), budget);
        }
    }
    println!();
}

fn run(seed: u64, profile: Profile, way: Way, first: &mut Times, crash: &mut Times, over: &mut Times) {
    let lease = profile.lease_timing().lease_duration;
    let mut random = Random::new(seed, Purpose::Scenario);
    let mut world = World::formed(options(seed, VOTERS, profile, way));
    world.watch();
    world.run_for(lease + SECOND * 5);
    first.add(succession(&world, Duration::ZERO, None));
    let Some(leader) = world.leader() else { return crash.add(None) };
    world.run_for(random.duration(Duration::ZERO, lease));
    let began = world.now();
    world.crash(leader);
    world.run_for(lease * 3 + SECOND * 3);
    crash.add(succession(&world, began, Some(leader)));
    world.start(leader);
    world.run_for(lease + profile.settings().retry_interval * 2 + SECOND);
    let Some(leader) = world.leader() else { return over.add(None) };
    let began = world.now();
    world.command(leader, Command::Leave);
    world.run_for(lease * 2 + SECOND * 2);
    over.add(succession(&world, began, Some(leader)));
}

/// Counts the datagrams with messages between voters, and their bytes.
#[derive(Debug, Default)]
struct Tap(u64, u64);

impl Watch for Tap {
    fn on_output(&mut self, _world: &World, _node: usize, output: &Output) {
        if let Output::Transmit { bytes, .. } = output
            && let Ok(packet) = Packet::decode(bytes)
            && packet.messages.iter().any(|message| matches!(message, Message::Election(_)))
        {
            self.0 += 1;
            self.1 += bytes.len() as u64 + HEADER_BYTES;
        }
    }
}

/// Prints the cost of renewals.
fn renewals(wanted: u32) {
    println!("One renewal among five voters, nothing else going on ({wanted} renewals)\n");
    println!(
        "| | datagrams | bytes with headers | processor time of all five, simulator included |\n|---|---|---|---|"
    );
    for profile in [Profile::Default, Profile::Lan] {
        let interval = profile.lease_timing().renewal_interval;
        let mut world = World::watched(options(1, VOTERS, profile, NEAR), Tap::default());
        let counted = |world: &World| world.watched_by().map_or((0, 0), |Tap(count, bytes)| (*count, *bytes));
        let warm = SECOND * 60;
        world.run_for(warm);
        let before = counted(&world);
        world.run_for(interval * wanted);
        let after = counted(&world);
        let cost = |voters: usize| {
            let mut world = World::new(WorldOptions { voters, ..options(1, VOTERS, profile, NEAR) });
            world.run_for(warm);
            let began = processor_time();
            world.run_for(interval * wanted);
            processor_time().saturating_sub(began)
        };
        let cost = cost(VOTERS).saturating_sub(cost(0)).as_secs_f64() / f64::from(wanted);
        let per = |figure: u64| figure as f64 / f64::from(wanted);
        println!(
            "| {profile} | {:.2} | {:.0} | {:.1} µs |",
            per(after.0 - before.0),
            per(after.1 - before.1),
            cost * 1e6
        );
    }
    println!();
}

/// Prints the cost of elections for each member, the number of times that the leader was out of sight, and the age of
/// the oldest news of it.
fn members(quick: bool) {
    let lasting = if quick { SECOND * 60 } else { SECOND * 600 };
    println!("Five voters among many members, {lasting:?} in which nothing happens\n");
    println!(
        "| | members | loss | bytes/s per node without voters | with | added | busiest voter adds | leader out of sight | \
         oldest news |\n|---|---|---|---|---|---|---|---|---|"
    );
    let sizes = if quick { vec![100] } else { vec![100, 1_000] };
    for profile in [Profile::Default, Profile::Lan] {
        for nodes in &sizes {
            for loss in [0.0, 0.05] {
                member(profile, *nodes, loss, lasting);
            }
        }
    }
}

fn member(profile: Profile, nodes: usize, loss: f64, lasting: Duration) {
    let way = Way { name: "", rtt: Duration::from_millis(1), loss };
    let warm = profile.lease_timing().lease_duration + SECOND * 20;
    let watched = |voters: usize, lasting: Duration| {
        let mut world = World::formed(WorldOptions { voters, ..options(1, nodes, profile, way) });
        world.run_for(warm);
        world.watch();
        let before: Vec<u64> = (0..nodes).map(|node| world.sent(node).bytes).collect();
        let mut left = f64::MAX;
        let began = world.now();
        while world.now() < began + lasting {
            world.run_for(SECOND / 2);
            for node in 0..nodes {
                if voters > 0 {
                    left = left.min(world.leader_shown_for(node).map_or(0.0, |left| left.as_secs_f64()));
                }
            }
        }
        let sent: Vec<u64> = (0..nodes).map(|node| world.sent(node).bytes - before[node]).collect();
        (world, sent, left)
    };
    let base_time = lasting.min(SECOND * 120);
    let (_, without, _) = watched(0, base_time);
    let (world, with, left) = watched(VOTERS, lasting);
    let rate = |sent: &[u64], time: Duration| sent.iter().sum::<u64>() as f64 / sent.len() as f64 / time.as_secs_f64();
    let busiest =
        |sent: &[u64], time: Duration| sent[..VOTERS].iter().max().copied().unwrap_or(0) as f64 / time.as_secs_f64();
    let losses =
        world.elections_seen().iter().filter(|sighting| sighting.news == LeaderNews::Lost(LossReason::Expired));
    let lease = profile.lease_timing().lease_duration.as_secs_f64();
    let (base, full) = (rate(&without, base_time), rate(&with, lasting));
    println!(
        "| {profile} | {nodes} | {:.0} % | {base:.0} | {full:.0} | {:.1} | {:.0} | {} times | {:.1} of {lease:.0} s |",
        loss * 100.0,
        full - base,
        busiest(&with, lasting) - busiest(&without, base_time),
        losses.count(),
        lease - left,
    );
}

/// Returns the processor time that this thread has used; zero if that is unknown.
fn processor_time() -> Duration {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    let nanos = text.split_whitespace().next().and_then(|figure| figure.parse().ok());
    Duration::from_nanos(nanos.unwrap_or(0))
}
