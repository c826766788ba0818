//! headcount beside its peers, in the same virtual network and by the same scenarios.
//!
//! ```text
//! cargo bench -p headcount-peers --bench peers    the tables of benches/README.md: minutes to an hour; behind `--`:
//!   --quick            a smoke test of all of it
//!   crash idle         only these: idle, join, change, silent, kill, loss, lifeguard
//!   --far              a network of 40 to 60 ms, and the settings that are meant for it
//!   --nodes 100        sizes, separated by commas; --chitchat-up-to 100 spares the slow one
//!   lifeguard          the experiment of the Lifeguard paper, see `lifeguard.rs`; `--grid` for every point
//! ```
//!
//! Time is virtual; the seed (`--seed`) determines every figure but chitchat's. The top of each adapter says which
//! settings are compared, and how the system is driven.

mod chitchat;
mod cluster;
mod engine;
mod foca;
mod headcount;
mod lifeguard;
mod scenarios;
mod swim;
mod systems;
mod table;

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use ::headcount::sim::network::Latency;
use cluster::Conditions;
use scenarios::{Effort, Lines};
use systems::System;
use table::Table;

const NEAR: [System; 5] =
    [System::HeadcountLan, System::HeadcountFast, System::HeadcountDefault, System::FocaLan, System::Chitchat];
const FAR: [System; 3] = [System::HeadcountWan, System::HeadcountDefault, System::FocaWan];
const AILING: [System; 4] = [System::HeadcountLan, System::HeadcountDefault, System::FocaLan, System::Swim];

type Scenario = (&'static str, fn(System, &Effort) -> Lines);

const SCENARIOS: [Scenario; 7] = [
    ("idle", scenarios::idle),
    ("join", scenarios::join),
    ("change", scenarios::change),
    ("silent", scenarios::silence),
    ("kill", scenarios::kill),
    ("loss", |system, effort| scenarios::loss(system, effort, 0.05)),
    ("loss", |system, effort| scenarios::loss(system, effort, 0.25)),
];

struct Options {
    scenarios: Vec<String>,
    nodes: Vec<usize>,
    chitchat_up_to: usize,
    seed: u64,
    is_quick: bool,
    is_far: bool,
    is_grid: bool,
}

impl Options {
    /// # Panics
    /// Panics if the command line makes no sense.
    fn parse(mut arguments: impl Iterator<Item = String>) -> Self {
        let mut options = Self {
            scenarios: Vec::new(),
            nodes: Vec::new(),
            chitchat_up_to: 100,
            seed: 1,
            is_quick: std::env::var_os("HEADCOUNT_BENCH_QUICK").is_some(),
            is_far: false,
            is_grid: false,
        };
        while let Some(argument) = arguments.next() {
            let mut number = || -> String { arguments.next().expect("a value follows") };
            match argument.as_str() {
                // Added by cargo itself.
                "--bench" => {}
                "--quick" => options.is_quick = true,
                "--far" => options.is_far = true,
                "--grid" => options.is_grid = true,
                "--seed" => options.seed = number().parse().expect("a number"),
                "--chitchat-up-to" => options.chitchat_up_to = number().parse().expect("a number"),
                "--nodes" => {
                    options.nodes = number().split(',').map(|nodes| nodes.parse().expect("numbers")).collect();
                }
                name => {
                    let is_known = name == "lifeguard" || SCENARIOS.iter().any(|(known, _)| *known == name);
                    assert!(is_known, "unknown: {name}");
                    options.scenarios.push(name.to_owned());
                }
            }
        }
        if options.nodes.is_empty() {
            options.nodes = if options.is_quick { vec![10] } else { vec![10, 100, 1_000] };
        }
        options
    }
}

fn main() {
    let options = Options::parse(std::env::args().skip(1));
    let is_asked = |name: &str| options.scenarios.is_empty() || options.scenarios.iter().any(|asked| asked == name);
    let mut conditions = Conditions::default();
    if options.is_far {
        conditions.latency = Latency { base: Duration::from_millis(40), jitter: Duration::from_millis(20) };
    }
    let systems: &[System] = if options.is_far { &FAR } else { &NEAR };
    let Latency { base, jitter } = conditions.latency;
    println!("Network: {base:?} to {:?}, one datagram in a hundred up to {jitter:?} × 10 later.", base + jitter);
    println!("Seed {}. Times are p50 / p99 by the nearest rank; × is the ratio to headcount.\n", options.seed);
    let shown: BTreeSet<_> =
        systems.iter().chain(AILING.iter().filter(|_| is_asked("lifeguard") && !options.is_far)).collect();
    for system in shown {
        println!("- {system}: {}", system.settings());
    }
    println!();

    let mut table = Table::default();
    for (name, measure) in SCENARIOS.iter().filter(|(name, _)| is_asked(name)) {
        for &nodes in &options.nodes {
            let effort = Effort { nodes, seed: options.seed, conditions, is_quick: options.is_quick };
            let fitting =
                systems.iter().filter(|system| **system != System::Chitchat || nodes <= options.chitchat_up_to);
            for &system in fitting {
                let started = Instant::now();
                let lines = measure(system, &effort);
                eprintln!("{name}, {nodes} nodes, {system}, after {:.1?}:", started.elapsed());
                for (row, figure) in lines {
                    eprintln!("    {row}: {figure}");
                    table.set(nodes, row, system, figure);
                }
            }
        }
    }
    table.print(systems);
    if is_asked("lifeguard") && !options.is_far {
        lifeguard::run(&AILING, options.seed, conditions, options.is_quick, options.is_grid);
    }
}
