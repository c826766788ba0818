//! Golden traces: a change that is to change nothing leaves them as they are.
//!
//! A trace is a hash of every input and output of every node of a run, so that one packet more, or one random number
//! drawn earlier, makes it another one. After a change of the protocol, write the new values down, and say in the commit
//! why they moved:
//!
//! ```text
//! HEADCOUNT_SIM_GOLDEN=write cargo test --test simulation golden
//! ```

use std::fmt::Write;

use headcount_campaign::{Campaign, run_seed_of};
use headcount_core::Profile;
use headcount_sim::scenario::{Scenario, ScenarioOptions, run_scenario};

/// The traces as they were written down, one a line.
const WRITTEN: &str = include_str!("golden.txt");
/// Where they are.
const FILE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/simulation/golden.txt");
/// Seeds of the campaign, chosen for what they meet: links that cross and break, firewalls, leaders, attacks.
const SEEDS: [u64; 2] = [3, 17];

/// Returns the traces as they are now.
fn traces() -> String {
    let mut lines = String::new();
    for scenario in Scenario::ALL {
        let trace = run_scenario(&ScenarioOptions::new(scenario, 8, Profile::Local)).trace;
        writeln!(lines, "{trace:016x} {}", scenario.name()).expect("a string takes all");
    }
    for seed in SEEDS {
        let trace = run_seed_of(Campaign::Small, seed, false).trace;
        writeln!(lines, "{trace:016x} seed {seed}").expect("a string takes all");
    }
    lines
}

#[test]
fn golden_traces_are_as_they_were_written_down() {
    let found = traces();
    if std::env::var("HEADCOUNT_SIM_GOLDEN").is_ok_and(|value| value == "write") {
        std::fs::write(FILE, &found).expect("the source is here");
        println!("{found}");
        return;
    }
    let moved: Vec<&str> = found.lines().filter(|line| !WRITTEN.lines().any(|written| written == *line)).collect();
    assert!(
        found == WRITTEN,
        "{} of {} traces are others than before, so that something behaves otherwise. If it is meant to, write them down: \
         HEADCOUNT_SIM_GOLDEN=write cargo test --test simulation golden\n{}",
        moved.len(),
        found.lines().count(),
        moved.join("\n"),
    );
}
