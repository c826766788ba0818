//! A crash in a flood: three real agents on loopback, of which two are flooded with packets of one shape, and the third is
//! killed meanwhile. How long until the others tell of it, and what the flood costs them.
//!
//! `cargo bench --bench flood` takes all shapes, clear and sealed; words are shapes to take alone (their beginnings).
//! `--sealed` or `--clear` takes one of the two; `--kills 5`, `--rate 50000` (in all, for both), `--profile default`,
//! `--quick` for one kill. The sender is on the same machine, and its processor time is missing to the agents.
#![allow(unreachable_pub, dead_code, reason = "modules that are shared with tests, of which each uses its own part")]

mod agents;
mod sending;
mod shapes;
#[path = "../../tests/support/mod.rs"]
mod support;

use std::sync::Arc;
use std::time::{Duration, Instant};

use agents::{Cluster, Costs};
use nix::sys::resource::{Resource, getrlimit, setrlimit};
use sending::{Flood, Sent};
use shapes::{SHAPES, Shape};

/// The flood before the kill, and what it goes on for after it was told of.
const BEFORE: Duration = Duration::from_secs(2);
const AFTER: Duration = Duration::from_millis(500);
/// A kill that nobody tells of for so long counts as never told.
const NEVER: Duration = Duration::from_secs(30);

struct Asked {
    kills: usize,
    rate: u32,
    profile: String,
    sealed: Vec<bool>,
    shapes: Vec<String>,
}

fn asked() -> Asked {
    let mut asked =
        Asked { kills: 5, rate: 50_000, profile: "default".to_owned(), sealed: vec![false, true], shapes: Vec::new() };
    let mut words = std::env::args().skip(1);
    while let Some(word) = words.next() {
        let mut value = || words.next().unwrap_or_else(|| panic!("{word} has a value"));
        match word.as_str() {
            "--bench" => {}
            "--quick" => asked.kills = 1,
            "--kills" => asked.kills = value().parse().expect("a number"),
            "--rate" => asked.rate = value().parse().expect("a number"),
            "--profile" => asked.profile = value(),
            "--clear" => asked.sealed = vec![false],
            "--sealed" => asked.sealed = vec![true],
            _ if word.starts_with("--") => panic!("{word} is unknown"),
            _ => asked.shapes.push(word),
        }
    }
    asked
}

fn main() {
    let asked = asked();
    let is_asked = |shape: &Shape| {
        asked.shapes.is_empty() || asked.shapes.iter().any(|word| shape.name().starts_with(word.as_str()))
    };
    let shapes: Vec<Shape> = SHAPES.into_iter().filter(is_asked).collect();
    assert!(!shapes.is_empty(), "shapes are {:?}", SHAPES.map(Shape::name));
    // Connections of the links' shapes.
    let (_, most) = getrlimit(Resource::RLIMIT_NOFILE).expect("known");
    setrlimit(Resource::RLIMIT_NOFILE, most.min(8_192), most).expect("allowed");
    println!(
        "Three agents of the profile {}, two of them flooded with {} packets/s in all, the third killed {} times in each row\n",
        asked.profile, asked.rate, asked.kills
    );
    println!(
        "| | shape | sent/s | read/s | told by one, ms, p50 / max | by both | wrong alarms | memory | processor | bytes back |"
    );
    println!("|---|---|---|---|---|---|---|---|---|---|");
    for is_sealed in asked.sealed.iter().copied() {
        for shape in &shapes {
            row(*shape, is_sealed, &asked);
        }
    }
}

fn row(shape: Shape, is_sealed: bool, asked: &Asked) {
    let mut cluster = Cluster::start(is_sealed, &asked.profile);
    let payloads = Arc::new(shape.payloads(&cluster));
    let (mut first, mut both) = (Vec::new(), Vec::new());
    let (mut sent, mut costs, mut flooded) = (Sent::default(), Costs::default(), Duration::ZERO);
    for _ in 0..asked.kills {
        cluster.is_whole();
        let before = cluster.costs();
        let flood = Flood::begin(&payloads, cluster.targets(), asked.rate);
        std::thread::sleep(BEFORE);
        let killed = cluster.kill();
        let told = cluster.told_since(killed, NEVER);
        first.push(told.iter().copied().min().unwrap_or(NEVER));
        both.push(told.iter().copied().max().unwrap_or(NEVER));
        std::thread::sleep(AFTER);
        let (one, lasted) = flood.end();
        let since = cluster.costs().since(&before);
        sent = sent + one;
        costs = costs.and(&since);
        flooded += lasted;
        cluster.is_whole();
    }
    let seconds = flooded.as_secs_f64();
    let read = (sent.count as f64 - costs.lost).max(0.0);
    // What the system drops is no byte that an agent received.
    let received = read / sent.count as f64;
    let back = sent.answered as f64 / (sent.bytes as f64 * received).max(1.0);
    println!(
        "| {} | {} | {:.0} | {} | {} | {} | {} | {:.1} MiB | {:.0} % | {back:.3} |",
        if is_sealed { "sealed" } else { "clear" },
        shape.name(),
        sent.count as f64 / seconds,
        if shape.is_links() { "–".to_owned() } else { format!("{:.0}", read / seconds) },
        spread(first),
        spread(both),
        cluster.wrong_alarms(),
        costs.memory / 1_048_576.0,
        costs.processor / seconds * 100.0,
    );
}

/// Returns the p50 and the greatest of these times, in milliseconds.
fn spread(mut times: Vec<Duration>) -> String {
    times.sort_unstable();
    let ms = |time: Duration| match time {
        NEVER => "never".to_owned(),
        time => format!("{:.0}", time.as_secs_f64() * 1_000.0),
    };
    format!("{} / {}", ms(times[(times.len() - 1) / 2]), ms(times[times.len() - 1]))
}

/// Waits a moment for something that has been asked for; `None` when time is up.
fn until<T>(deadline: Instant, mut ready: impl FnMut() -> Option<T>) -> Option<T> {
    loop {
        match ready() {
            Some(found) => return Some(found),
            None if Instant::now() >= deadline => return None,
            None => std::thread::sleep(Duration::from_millis(1)),
        }
    }
}
