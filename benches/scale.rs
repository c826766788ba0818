//! The simulator at scale: its speed, its memory, and the traffic and detection times of the protocol in large
//! clusters.
//!
//! `cargo bench --bench scale` runs 100 and 1,000 nodes; `cargo bench --bench scale -- 10000` runs the sizes given.
//! 10,000 nodes are 100 million entries of views: about 9 GB, because equal records of all cores are one in memory.
//! Access to so much memory is faster in large pages: `GLIBC_TUNABLES=glibc.malloc.hugetlb=1` asks Linux for them.
//!
//! Everything is one run with one seed: the figures of the protocol are the same everywhere, only speed and memory
//! depend on the machine. Speed is given by the wall clock and by the processor time of this thread, which is the time
//! that an idle machine would need.

use std::time::{Duration, Instant};

use headcount::Profile;
use headcount::core::ChangeKind;
use headcount::sim::{World, WorldOptions};

/// Virtual time in which nothing happens.
const IDLE: Duration = Duration::from_secs(30);
/// Number of nodes that crash at once.
const CRASHES: usize = 10;

fn main() {
    // Cargo itself passes flags, `--bench` among them.
    let asked: Vec<usize> = std::env::args().skip(1).filter_map(|argument| argument.parse().ok()).collect();
    let sizes = if asked.is_empty() { vec![100, 1_000] } else { asked };
    for nodes in sizes {
        scale(nodes);
    }
}

fn scale(nodes: usize) {
    println!("{nodes} nodes, default profile");
    let options = WorldOptions { ..WorldOptions::new(1, nodes, Profile::Default.settings()) };
    let clock = Clock::start();
    let mut world = World::formed(options);
    println!("  formed                     {}, {:.0} MB resident", clock.read(), resident());

    // All nodes hear each other for the first time; the cost of that is not idle traffic.
    let clock = Clock::start();
    world.run_for(Duration::from_secs(20));
    println!("  first 20 s                 {}", clock.speed(Duration::from_secs(20)));

    let (packets, bytes) = sent(&world);
    let clock = Clock::start();
    world.run_for(IDLE);
    let (speed, per_packet) = (clock.speed(IDLE), clock.cpu().as_secs_f64());
    let (packets, bytes) = (sent(&world).0 - packets, sent(&world).1 - bytes);
    let node_seconds = nodes as f64 * IDLE.as_secs_f64();
    println!("  idle                       {speed}, {:.2} µs a packet", per_packet / packets as f64 * 1e6);
    println!(
        "  idle, sent by each node    {:.0} B/s in {:.2} packets/s",
        bytes as f64 / node_seconds,
        packets as f64 / node_seconds
    );

    crash(&mut world);
    let per_entry = resident() * 1e6 / (nodes * nodes) as f64;
    println!("  at the end                 {:.0} MB resident, {per_entry:.0} B for each entry of a view", resident());
    println!("  trace                      {:016x}\n", world.trace());
}

/// Crashes ten nodes; prints when observers notice, and when all agree.
fn crash(world: &mut World) {
    let nodes = world.nodes();
    world.watch();
    let began = world.now();
    for node in nodes - CRASHES..nodes {
        world.crash(node);
    }
    let clock = Clock::start();
    // Until the last observer has noticed, and a while longer to see that none takes it back.
    let down_timeout = world.options().settings.down_timeout;
    let lasting = down_timeout + Duration::from_secs(5);
    world.run_for(lasting);
    let mut latencies: Vec<Duration> = world
        .sightings()
        .iter()
        .filter(|sighting| matches!(sighting.kind, ChangeKind::DetectedDown(_)) && sighting.subject >= nodes - CRASHES)
        .map(|sighting| Duration::from_nanos(sighting.at).saturating_sub(began))
        .collect();
    latencies.sort_unstable();
    let wrong = world
        .sightings()
        .iter()
        .filter(|sighting| matches!(sighting.kind, ChangeKind::Suspected | ChangeKind::DetectedDown(_)))
        .filter(|sighting| sighting.subject < nodes - CRASHES)
        .count();
    let expected = CRASHES * (nodes - CRASHES);
    println!("  ten crash                  {}", clock.speed(lasting));
    let at = |share: usize| latencies.get((latencies.len() * share).div_ceil(100).saturating_sub(1)).copied();
    println!(
        "  Down after                 median {:.2?}, p99 {:.2?}, last {:.2?}; {} of {expected} reports; {wrong} wrong ones",
        at(50).unwrap_or_default(),
        at(99).unwrap_or_default(),
        latencies.last().copied().unwrap_or_default(),
        latencies.len()
    );
    println!(
        "  all agree                  {}",
        world.divergence().map_or_else(|| "yes".to_owned(), |why| format!("no: {why}"))
    );

    let began = world.now();
    let clock = Clock::start();
    world.add_node();
    let agreed = world.run_while(began + Duration::from_secs(30), Duration::from_millis(20), |world| {
        // Comparing all views takes a while, so that is only done if they may agree.
        let (running, agreeing) = world.agreement_counts();
        running != agreeing || world.divergence().is_some()
    });
    let took = world.now().saturating_sub(began);
    println!(
        "  one joins, all agree after {}",
        if agreed { format!("{took:.2?} ({})", clock.speed(took)) } else { "never".to_owned() }
    );
}

fn sent(world: &World) -> (u64, u64) {
    (0..world.nodes()).map(|node| world.sent(node)).fold((0, 0), |sum, sent| (sum.0 + sent.packets, sum.1 + sent.bytes))
}

/// Measures real time and processor time.
struct Clock {
    wall: Instant,
    cpu: Duration,
}

impl Clock {
    fn start() -> Self {
        Self { wall: Instant::now(), cpu: processor_time() }
    }

    fn cpu(&self) -> Duration {
        processor_time().saturating_sub(self.cpu)
    }

    fn read(&self) -> String {
        format!("in {:.1?} ({:.1?} of processor time)", self.wall.elapsed(), self.cpu())
    }

    fn speed(&self, passed: Duration) -> String {
        // The system counts processor time in ticks.
        let least = Duration::from_millis(10);
        let times = |real: Duration| match real {
            real if real < least => "?".to_owned(),
            real => format!("{:.1}", passed.as_secs_f64() / real.as_secs_f64()),
        };
        format!("{} x real time ({} x processor time)", times(self.wall.elapsed()), times(self.cpu()))
    }
}

/// Returns the processor time that this thread has used; zero if that is unknown.
fn processor_time() -> Duration {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    let nanos = text.split_whitespace().next().and_then(|figure| figure.parse().ok());
    Duration::from_nanos(nanos.unwrap_or(0))
}

/// Returns the resident memory in MB; zero if that is unknown.
fn resident() -> f64 {
    let text = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = text.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let kilobytes = line.and_then(|line| line.split_whitespace().next()).and_then(|figure| figure.parse::<f64>().ok());
    kilobytes.unwrap_or(0.0) / 1e3
}
