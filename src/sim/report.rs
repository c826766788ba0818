//! What a scenario measured, as figures and as a table.
//!
//! Must not know: how any of it was measured.

use std::fmt;
use std::time::Duration;

use super::scenario::{Sample, Scenario, ScenarioOptions};
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

/// Alarms about members that were well, counted where they are believed: by whoever holds the member so, at its own word or
/// another's. What somebody accuses in vain, or keeps to itself, alarms nobody else.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Alarms {
    /// Held for Suspect, each counted once.
    pub suspicions: usize,
    /// Held for Down, each counted once.
    pub deaths: usize,
    /// How often one of them was believed: each by each node that did.
    pub believed: usize,
}

/// How leadership passed on, from the moment the leader was lost.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Succession {
    /// Until the old leader said that it leads no more, where it went on running.
    pub stopped: Option<Spread>,
    /// Until somebody else had a claim.
    pub claimed: Option<Spread>,
    /// Until each member that could know named the successor.
    pub known: Option<Spread>,
}

impl Succession {
    /// Its rows, by name.
    pub fn rows(&self) -> impl Iterator<Item = (&'static str, Option<&Spread>)> {
        let stopped = self.stopped.as_ref().map(|stopped| ("old leader stops", Some(stopped)));
        stopped.into_iter().chain([("new leader after", self.claimed.as_ref()), ("known after", self.known.as_ref())])
    }
}

/// What a scenario measured.
#[derive(Debug, Clone, PartialEq)]
pub struct Report {
    /// Which.
    pub scenario: Scenario,
    /// Nodes at the beginning.
    pub nodes: usize,
    /// How many of the first nodes vote.
    pub voters: usize,
    /// Where the settings came from.
    pub profile: Profile,
    /// Chance that a datagram is lost.
    pub loss: f64,
    /// Least time a datagram is under way.
    pub latency: Duration,
    /// What most datagrams take more, at most.
    pub jitter: Duration,
    /// What replays the run.
    pub seed: u64,
    /// Virtual time that passed in all.
    pub time: Duration,
    /// Whether it began with a formed cluster.
    pub formed: bool,
    /// From the start of all nodes until they agreed.
    pub formed_after: Option<Duration>,
    /// From the failure until observers reported Suspect.
    pub suspect: Option<Spread>,
    /// From the failure until observers reported Down.
    pub down: Option<Spread>,
    /// From the change, or from the end of the disturbance, until all agreed.
    pub converged_after: Option<Duration>,
    /// How leadership passed on, if the scenario is about that.
    pub succession: Option<Succession>,
    /// Every figure behind `suspect`, in order.
    pub suspected: Vec<Duration>,
    /// Every figure behind `down`, in order.
    pub downed: Vec<Duration>,
    /// What nodes that were well believed of nodes that were well, whoever had said so.
    pub false_alarms: Alarms,
    /// Nodes that something was done to while they went on running.
    pub disturbed: usize,
    /// What those believed of nodes that were well.
    pub alarms_of_disturbed: Alarms,
    /// For how long, summed over all nodes, false alarms were counted.
    pub node_time: Duration,
    /// Traffic of a node while nothing happens.
    pub idle: Rate,
    /// Traffic of a node from the change to the end.
    pub busy: Rate,
    /// When it happened.
    pub happened_at: Duration,
    /// How the world was, all along.
    pub samples: Vec<Sample>,
    /// The hash of everything that happened.
    pub trace: u64,
}

impl Report {
    /// A report without measurements.
    pub(super) fn empty(options: &ScenarioOptions) -> Self {
        Self {
            scenario: options.scenario,
            nodes: options.nodes,
            voters: options.voters,
            profile: options.profile,
            loss: options.loss,
            latency: options.latency,
            jitter: options.jitter,
            seed: options.seed,
            time: Duration::ZERO,
            formed: options.formed,
            formed_after: None,
            suspect: None,
            down: None,
            converged_after: None,
            succession: None,
            suspected: Vec::new(),
            downed: Vec::new(),
            false_alarms: Alarms::default(),
            disturbed: 0,
            alarms_of_disturbed: Alarms::default(),
            node_time: Duration::ZERO,
            idle: Rate::default(),
            busy: Rate::default(),
            happened_at: Duration::ZERO,
            samples: Vec::new(),
            trace: 0,
        }
    }
}

impl Report {
    /// The command that gives this very run again.
    pub fn replay(&self) -> String {
        let Self { scenario, nodes, voters, profile, seed, .. } = self;
        let voters = if *voters > 0 { format!(" --voters {voters}") } else { String::new() };
        let (loss, formed) = (self.loss, if self.formed { " --formed" } else { "" });
        let [latency, jitter] = [self.latency, self.jitter].map(humantime::format_duration);
        let [latency, jitter] = [latency, jitter].map(|duration| duration.to_string().replace(' ', ""));
        format!(
            "headcount simulate --scenario {scenario} --nodes {nodes}{voters} --profile {profile} --loss {loss} \
             --latency {latency} --jitter {jitter} --seed {seed}{formed}"
        )
    }

    /// What came of it, by name, as people read it.
    pub fn outcomes(&self) -> Vec<(&'static str, String)> {
        let formed = if self.formed { "began formed".to_owned() } else { maybe(self.formed_after) };
        let hours = self.node_time.as_secs_f64() / 3_600.0;
        let told = |alarms: Alarms| {
            let believed =
                if alarms.believed == 0 { String::new() } else { format!(", believed {}×", alarms.believed) };
            format!("{} Suspect, {} Down{believed}", alarms.suspicions, alarms.deaths)
        };
        let mut outcomes = vec![
            ("cluster formed after", formed),
            ("all agreed after", maybe(self.converged_after)),
            ("false alarms", format!("{} in {hours:.1} node-hours", told(self.false_alarms))),
        ];
        if self.disturbed > 0 {
            let by = if self.disturbed == 1 {
                "1 disturbed node".to_owned()
            } else {
                format!("{} disturbed nodes", self.disturbed)
            };
            outcomes.push(("believed by the disturbed", format!("{} by {by}", told(self.alarms_of_disturbed))));
        }
        outcomes
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
        for (name, spread) in self.succession.iter().flat_map(Succession::rows) {
            spread_row(f, name, spread)?;
        }
        writeln!(f)?;
        for (name, value) in self.outcomes() {
            row(f, name, &value)?;
        }
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
#[derive(Debug, Clone, Copy)]
pub struct Short(pub Duration);

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
