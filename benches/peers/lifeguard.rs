//! The question of "Lifeguard: Local Health Awareness for More Accurate Failure Detection" (DSN 2018, section 5): some
//! of 128 nodes are disturbed, and how many of the healthy ones are declared Down for that?
//!
//! The paper blocks all messages of a process for `D`, lets them go for an interval, and repeats that for two minutes.
//! This benchmark does so, and worse: the process is stopped, or cut off, in the same rhythm; or it is starved
//! throughout, with delays of up to `D`. See [`Disturbance`]. Counted are false positives: reports at any node that a
//! node is Down which was never disturbed. The observer is a healthy node or a disturbed one, which may be excused for
//! thinking that all others are gone while it is cut off. In the middle of it a healthy node dies, and the other
//! healthy ones should notice as fast as ever.

use std::collections::BTreeSet;
use std::time::Duration;

use headcount::sim::{Purpose, Random};

use super::cluster::{Cluster, Conditions, Death, Detections, Disturbance, Verdict};
use super::systems::System;

const NODES: usize = 128;
/// Numbers of nodes that are disturbed at the same time.
const TOGETHER: [usize; 4] = [1, 4, 16, 32];
/// Durations of a disturbance, or the largest delays, in milliseconds.
const DURATIONS_MS: [u64; 5] = [128, 512, 2_048, 8_192, 32_768];
/// Durations between two disturbances, in milliseconds: three of the paper's eight.
const INTERVALS_MS: [u64; 3] = [4, 256, 4_096];
/// Total time of the rounds.
const LASTING: Duration = Duration::from_secs(120);
/// Time at which the healthy node dies.
const DEATH: Duration = Duration::from_secs(20);
/// The longest time after the rounds for which the last report of the death is awaited.
const PATIENCE: Duration = Duration::from_secs(120);

/// The outcome of one or more runs.
#[derive(Debug, Default)]
struct Outcome {
    runs: u32,
    /// Reports by healthy nodes about healthy ones.
    by_healthy: u64,
    /// Reports by disturbed nodes about healthy ones.
    by_ailing: u64,
    /// Healthy nodes that any healthy one held Down.
    victims: u64,
    first: Vec<Option<Duration>>,
    everywhere: Vec<Option<Duration>>,
}

impl Outcome {
    fn add(&mut self, other: Outcome) {
        self.runs += other.runs;
        self.by_healthy += other.by_healthy;
        self.by_ailing += other.by_ailing;
        self.victims += other.victims;
        self.first.extend(other.first);
        self.everywhere.extend(other.everywhere);
    }
}

/// Runs the grid for each system and prints the totals, and each point of the grid if `is_grid`.
pub(crate) fn run(systems: &[System], seed: u64, conditions: Conditions, is_quick: bool, is_grid: bool) {
    let (together, durations, intervals) = if is_quick {
        (&TOGETHER[2..3], &DURATIONS_MS[2..4], &INTERVALS_MS[1..2])
    } else {
        (&TOGETHER[..], &DURATIONS_MS[..], &INTERVALS_MS[..])
    };
    println!(
        "{NODES} nodes, C of them ail: {together:?}; D: {durations:?} ms; intervals: {intervals:?} ms (starved: as"
    );
    println!("many seeds instead); for {LASTING:?}. All times are virtual.");
    for what in ["blocked", "stopped", "starved", "cut off"] {
        println!(
            "\n| {what} | C | D | false positives | by the healthy | victims | first Down p50 / max | everywhere p50 / max |"
        );
        println!("|---|---|---|---|---|---|---|---|");
        for &system in systems {
            let mut total = Outcome::default();
            for &duration in durations {
                let duration = Duration::from_millis(duration);
                for &together in together {
                    let mut outcome = Outcome::default();
                    for (number, &interval) in intervals.iter().enumerate() {
                        let disturbance = match what {
                            "blocked" => Disturbance::Blocked,
                            "stopped" => Disturbance::Stopped,
                            "starved" => Disturbance::Starved(duration),
                            _ => Disturbance::CutOff,
                        };
                        let rhythm = Rhythm { together, duration, interval: Duration::from_millis(interval) };
                        outcome.add(once(system, seed + number as u64, conditions, disturbance, rhythm));
                    }
                    if is_grid {
                        print(&system.to_string(), &together.to_string(), &format!("{duration:?}"), &outcome);
                    }
                    total.add(outcome);
                }
            }
            print(&system.to_string(), "all", &format!("all, {} runs", total.runs), &total);
        }
    }
}

#[derive(Debug, Clone, Copy)]
struct Rhythm {
    together: usize,
    duration: Duration,
    interval: Duration,
}

/// One cluster, and its disturbed nodes.
struct Ward {
    cluster: Box<dyn Cluster>,
    healthy: Vec<usize>,
    ailing: BTreeSet<usize>,
    /// The healthy node that dies.
    mortal: usize,
    /// The sightings of its death, from the moment at which it died.
    about: Option<Detections>,
    by_healthy: u64,
    by_ailing: u64,
    victims: BTreeSet<usize>,
}

impl Ward {
    fn advance_to(&mut self, time: Duration) {
        let now = self.cluster.now();
        self.cluster.advance(time.saturating_sub(now));
        for sighting in self.cluster.sightings() {
            if let Some(about) = &mut self.about {
                about.take(&sighting);
            }
            let is_dead = |node| node == self.mortal && self.about.is_some();
            let is_false = !self.ailing.contains(&sighting.subject) && !is_dead(sighting.subject);
            if sighting.verdict != Verdict::Down || !is_false || is_dead(sighting.observer) {
                continue;
            }
            if self.ailing.contains(&sighting.observer) {
                self.by_ailing += 1;
            } else {
                self.by_healthy += 1;
                self.victims.insert(sighting.subject);
            }
        }
    }

    fn die(&mut self) {
        self.cluster.kill(self.mortal, Death::Host);
        self.about = Some(Detections::new(self.cluster.now(), self.mortal, Verdict::Down));
    }

    fn is_known(&self) -> bool {
        self.about.as_ref().is_some_and(|about| about.reached(self.healthy.iter().copied()))
    }
}

fn once(system: System, seed: u64, conditions: Conditions, disturbance: Disturbance, rhythm: Rhythm) -> Outcome {
    let mut random = Random::new(seed, Purpose::Faults);
    let mut healthy: Vec<usize> = (0..NODES).collect();
    let mut draw = || healthy.swap_remove(random.index(healthy.len()));
    let ailing: BTreeSet<usize> = (0..rhythm.together).map(|_| draw()).collect();
    let mortal = draw();
    let cluster = system.form(NODES, seed, conditions);
    let (about, victims) = (None, BTreeSet::new());
    let mut ward = Ward { cluster, healthy, ailing, mortal, about, by_healthy: 0, by_ailing: 0, victims };

    let start = ward.cluster.now();
    let mut next = start;
    while next < start + LASTING {
        let lasting = if let Disturbance::Starved(_) = disturbance { LASTING } else { rhythm.duration };
        for node in ward.ailing.clone() {
            ward.cluster.disturb_process(node, disturbance, lasting);
        }
        next += lasting + rhythm.interval;
        if ward.about.is_none() && next > start + DEATH {
            ward.advance_to(start + DEATH);
            ward.die();
        }
        ward.advance_to(next);
    }
    let end = ward.cluster.now() + PATIENCE;
    while ward.cluster.now() < end && !ward.is_known() {
        ward.advance_to(ward.cluster.now() + Duration::from_millis(250));
    }
    let about = ward.about.expect("the node died long ago");
    Outcome {
        runs: 1,
        by_healthy: ward.by_healthy,
        by_ailing: ward.by_ailing,
        victims: ward.victims.len() as u64,
        first: vec![about.first(ward.healthy.iter().copied())],
        everywhere: vec![about.last(ward.healthy.iter().copied())],
    }
}

fn print(system: &str, together: &str, duration: &str, outcome: &Outcome) {
    let Outcome { by_healthy, by_ailing, victims, .. } = outcome;
    let (first, everywhere) = (spread(&outcome.first), spread(&outcome.everywhere));
    let all = by_healthy + by_ailing;
    println!("| {system} | {together} | {duration} | {all} | {by_healthy} | {victims} | {first} | {everywhere} |");
}

/// Formats the median and the largest of these times.
fn spread(times: &[Option<Duration>]) -> String {
    let mut sorted: Vec<Duration> = times.iter().map(|time| time.unwrap_or(Duration::MAX)).collect();
    sorted.sort_unstable();
    let text = |time: Option<&Duration>| match time {
        None => "–".to_owned(),
        Some(&Duration::MAX) => "never".to_owned(),
        Some(time) => format!("{:.1} s", time.as_secs_f64()),
    };
    format!("{} / {}", text(sorted.get(sorted.len().saturating_sub(1) / 2)), text(sorted.last()))
}
