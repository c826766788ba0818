//! What a scenario measured, as figures and as a table.
//!
//! Must not know: how any of it was measured.

use std::fmt;
use std::time::Duration;

use super::scenario::{Scenario, ScenarioOptions};
use crate::core::Profile;

/// How a figure spreads over those who reported it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Spread {
    /// The first of them.
    pub first: Duration,
    /// Half of them had it by then.
    pub median: Duration,
    /// All but one in a hundred had it by then.
    pub p99: Duration,
    /// The last of them.
    pub last: Duration,
    /// How many reported.
    pub reports: usize,
    /// How many should have.
    pub expected: usize,
}

impl Spread {
    /// The spread of these figures; `None` if there are none.
    pub fn of(mut figures: Vec<Duration>, expected: usize) -> Option<Self> {
        figures.sort_unstable();
        let at = |share: usize| figures.get((figures.len() * share).div_ceil(100).saturating_sub(1)).copied();
        Some(Self {
            first: at(0)?,
            median: at(50)?,
            p99: at(99)?,
            last: *figures.last()?,
            reports: figures.len(),
            expected,
        })
    }
}

/// What one node puts on the wire per second, headers of IP and UDP included.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Rate {
    /// Datagrams.
    pub packets: f64,
    /// Their bytes.
    pub bytes: f64,
}

/// What a scenario measured.
#[derive(Debug, Clone, PartialEq)]
pub struct Report {
    /// Which.
    pub scenario: Scenario,
    /// Nodes at the beginning.
    pub nodes: usize,
    /// Where the settings came from.
    pub profile: Profile,
    /// Chance that a datagram is lost.
    pub loss: f64,
    /// Least time a datagram is under way.
    pub latency: Duration,
    /// What replays the run.
    pub seed: u64,
    /// Virtual time that passed in all.
    pub time: Duration,
    /// From the start of all nodes until they agreed.
    pub formed_after: Option<Duration>,
    /// From the failure until observers reported Suspect.
    pub suspect: Option<Spread>,
    /// From the failure until observers reported Down.
    pub down: Option<Spread>,
    /// From the change, or from the end of the disturbance, until all agreed.
    pub converged_after: Option<Duration>,
    /// Suspicions of nodes that were well.
    pub false_suspicions: usize,
    /// Deaths of nodes that were well.
    pub false_deaths: usize,
    /// For how long, summed over all nodes, false alarms were counted.
    pub node_time: Duration,
    /// Traffic of a node while nothing happens.
    pub idle: Rate,
    /// Traffic of a node from the change to the end.
    pub busy: Rate,
    /// The hash of everything that happened.
    pub trace: u64,
}

impl Report {
    /// A report without measurements.
    pub(super) fn empty(options: &ScenarioOptions) -> Self {
        Self {
            scenario: options.scenario,
            nodes: options.nodes,
            profile: options.profile,
            loss: options.loss,
            latency: options.latency,
            seed: options.seed,
            time: Duration::ZERO,
            formed_after: None,
            suspect: None,
            down: None,
            converged_after: None,
            false_suspicions: 0,
            false_deaths: 0,
            node_time: Duration::ZERO,
            idle: Rate::default(),
            busy: Rate::default(),
            trace: 0,
        }
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "{} of {} nodes, profile {}, loss {:.1} %, latency {}, seed {}",
            self.scenario,
            self.nodes,
            self.profile,
            self.loss * 100.0,
            Short(self.latency),
            self.seed
        )?;
        writeln!(f)?;
        writeln!(f, "{:<24}{:>10}{:>10}{:>10}{:>10}  observers", "", "first", "median", "p99", "last")?;
        spread_row(f, "Suspect after", self.suspect.as_ref())?;
        spread_row(f, "Down after", self.down.as_ref())?;
        writeln!(f)?;
        row(f, "cluster formed after", &maybe(self.formed_after))?;
        row(f, "all agreed after", &maybe(self.converged_after))?;
        let hours = self.node_time.as_secs_f64() / 3_600.0;
        row(
            f,
            "false alarms",
            &format!("{} Suspect, {} Down in {hours:.1} node-hours", self.false_suspicions, self.false_deaths),
        )?;
        rate_row(f, "idle, per node", self.idle)?;
        rate_row(f, "busy, per node", self.busy)?;
        row(f, "virtual time", &Short(self.time).to_string())?;
        row(f, "trace", &format!("{:016x}", self.trace))
    }
}

fn row(f: &mut fmt::Formatter<'_>, name: &str, value: &str) -> fmt::Result {
    writeln!(f, "{name:<24}{value:>10}")
}

fn rate_row(f: &mut fmt::Formatter<'_>, name: &str, rate: Rate) -> fmt::Result {
    row(f, name, &format!("{:.1} packets/s, {:.0} B/s sent, headers included", rate.packets, rate.bytes))
}

fn spread_row(f: &mut fmt::Formatter<'_>, name: &str, spread: Option<&Spread>) -> fmt::Result {
    let Some(spread) = spread else {
        return writeln!(f, "{name:<24}{0:>10}{0:>10}{0:>10}{0:>10}", "-");
    };
    let [first, median, p99, last] =
        [spread.first, spread.median, spread.p99, spread.last].map(|figure| Short(figure).to_string());
    let (reports, expected) = (spread.reports, spread.expected);
    writeln!(f, "{name:<24}{first:>10}{median:>10}{p99:>10}{last:>10}  {reports} of {expected}")
}

fn maybe(duration: Option<Duration>) -> String {
    duration.map_or_else(|| "never".to_owned(), |duration| Short(duration).to_string())
}

/// A duration in three or four figures.
struct Short(Duration);

impl fmt::Display for Short {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let seconds = self.0.as_secs_f64();
        if seconds >= 60.0 {
            write!(f, "{seconds:.0} s")
        } else if seconds >= 1.0 {
            write!(f, "{seconds:.2} s")
        } else {
            write!(f, "{:.1} ms", seconds * 1_000.0)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_spread_names_the_first_the_middle_and_the_last() {
        let figures = (1..=200).rev().map(Duration::from_millis).collect();
        let spread = Spread::of(figures, 201).expect("there are figures");
        assert_eq!(spread.first, Duration::from_millis(1));
        assert_eq!(spread.median, Duration::from_millis(100));
        assert_eq!(spread.p99, Duration::from_millis(198));
        assert_eq!(spread.last, Duration::from_millis(200));
        assert_eq!((spread.reports, spread.expected), (200, 201));
        assert_eq!(Spread::of(Vec::new(), 3), None);
    }

    #[test]
    fn a_report_is_a_table_with_aligned_columns() {
        let mut report = Report::empty(&ScenarioOptions::new(Scenario::Crash, 5, Profile::Local));
        report.down = Spread::of(vec![Duration::from_secs(2); 4], 4);
        let text = report.to_string();
        let header = text.lines().nth(2).expect("a header");
        let down = text.lines().find(|line| line.starts_with("Down after")).expect("a row");
        assert_eq!(header.find("last").map(|at| at + 4), Some(64));
        assert_eq!(&down[58..64], "2.00 s", "{text}");
        assert!(text.contains("crash of 5 nodes, profile local"), "{text}");
    }
}
