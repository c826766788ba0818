//! The measurements of a scenario, as figures and as a table.
//!
//! Must not know: how any of it was measured.

use std::fmt;
use std::time::Duration;

use super::plan::{Scenario, ScenarioOptions};
use headcount_core::Profile;

/// The state of the world at one moment.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Sample {
    /// Time since the start.
    pub at: Duration,
    /// Number of bytes that all nodes have sent until then, headers included.
    pub bytes: u64,
    /// Number of nodes that run.
    pub running: usize,
    /// Number of running nodes that are Up and hold the most frequent view.
    pub agreeing: usize,
}

/// The distribution of a duration over those who reported it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Distribution {
    /// The smallest.
    pub first: Duration,
    /// The median.
    pub median: Duration,
    /// The 99th percentile.
    pub p99: Duration,
    /// The largest.
    pub last: Duration,
    /// Number of reports.
    pub reports: usize,
    /// Number of reports that should have been made.
    pub expected: usize,
}

impl Distribution {
    /// Returns the distribution of these durations; `None` if there are none.
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

/// Rate at which one node sends, headers of IP and UDP included.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Rate {
    /// Datagrams per second.
    pub packets: f64,
    /// Bytes per second.
    pub bytes: f64,
}

/// False alarms about members that were well. They are counted where they are believed: by each node that holds the
/// member for Suspect or Down, by its own judgement or another node's word. An accusation that no other node believes,
/// or hears of, raises no alarm at any other node.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Alarms {
    /// Number of members held for Suspect, each counted once.
    pub suspicions: usize,
    /// Number of members held for Down, each counted once.
    pub deaths: usize,
    /// Number of beliefs: each alarm counts once for each node that believed it.
    pub believed: usize,
}

/// Times of a succession, from the moment in which the leader was lost.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Succession {
    /// Time until the old leader said that it leads no more, in scenarios in which its process goes on running.
    pub stopped: Option<Distribution>,
    /// Time until another node had a claim.
    pub claimed: Option<Distribution>,
    /// Time until each member that could know named the successor.
    pub known: Option<Distribution>,
}

impl Succession {
    /// Returns the rows of the table, by name.
    pub fn rows(&self) -> impl Iterator<Item = (&'static str, Option<&Distribution>)> {
        let stopped = self.stopped.as_ref().map(|stopped| ("old leader stops", Some(stopped)));
        stopped.into_iter().chain([("new leader after", self.claimed.as_ref()), ("known after", self.known.as_ref())])
    }
}

/// The measurements of a scenario.
#[derive(Debug, Clone, PartialEq)]
pub struct Report {
    /// The scenario.
    pub scenario: Scenario,
    /// Number of nodes at the beginning.
    pub nodes: usize,
    /// Number of voters, which are the first nodes.
    pub voters: usize,
    /// The profile that the settings came from.
    pub profile: Profile,
    /// Chance that a datagram is lost.
    pub loss: f64,
    /// Smallest one-way latency.
    pub latency: Duration,
    /// Largest addition to the latency, for all but a few stragglers.
    pub jitter: Duration,
    /// The seed, which replays the run.
    pub seed: u64,
    /// Virtual time that passed in all.
    pub time: Duration,
    /// True if the run began with a formed cluster.
    pub formed: bool,
    /// Time from the start of all nodes until they agreed.
    pub formed_after: Option<Duration>,
    /// Time from the failure until observers reported Suspect.
    pub suspect: Option<Distribution>,
    /// Time from the failure until observers reported Down.
    pub down: Option<Distribution>,
    /// Time from the change, or from the end of the disturbance, until all agreed.
    pub converged_after: Option<Duration>,
    /// Times of the succession, if the scenario is about leaders.
    pub succession: Option<Succession>,
    /// Every duration behind `suspect`, in ascending order.
    pub suspected: Vec<Duration>,
    /// Every duration behind `down`, in ascending order.
    pub downed: Vec<Duration>,
    /// False alarms about members that were well, at nodes that were well, whatever their origin.
    pub false_alarms: Alarms,
    /// Number of nodes that were disturbed while they went on running.
    pub disturbed: usize,
    /// False alarms about members that were well, at disturbed nodes.
    pub alarms_of_disturbed: Alarms,
    /// Time over which false alarms were counted, summed over all nodes.
    pub node_time: Duration,
    /// Traffic of an average node while nothing happens.
    pub idle: Rate,
    /// Traffic of an average node from the change to the end.
    pub busy: Rate,
    /// Time of the scenario's event.
    pub happened_at: Duration,
    /// Samples of the world over the whole run.
    pub samples: Vec<Sample>,
    /// The hash of everything that happened.
    pub trace: u64,
}

impl Report {
    /// Creates a report without measurements.
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
    /// Returns the command that repeats this very run.
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

    /// Returns the results by name, as text for people.
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
            outcomes.push(("told by the disturbed", format!("{} by {by}", told(self.alarms_of_disturbed))));
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
        for (name, distribution) in self.succession.iter().flat_map(Succession::rows) {
            spread_row(f, name, distribution)?;
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

fn spread_row(f: &mut fmt::Formatter<'_>, name: &str, distribution: Option<&Distribution>) -> fmt::Result {
    let Some(distribution) = distribution else {
        return writeln!(f, "{name:<24}{0:>10}{0:>10}{0:>10}{0:>10}", "-");
    };
    let [first, median, p99, last] = [distribution.first, distribution.median, distribution.p99, distribution.last]
        .map(|figure| Short(figure).to_string());
    let (reports, expected) = (distribution.reports, distribution.expected);
    writeln!(f, "{name:<24}{first:>10}{median:>10}{p99:>10}{last:>10}  {reports} of {expected}")
}

fn maybe(duration: Option<Duration>) -> String {
    duration.map_or_else(|| "never".to_owned(), |duration| Short(duration).to_string())
}

/// A duration in three or four digits.
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
        let distribution = Distribution::of(figures, 201).expect("there are figures");
        assert_eq!(distribution.first, Duration::from_millis(1));
        assert_eq!(distribution.median, Duration::from_millis(100));
        assert_eq!(distribution.p99, Duration::from_millis(198));
        assert_eq!(distribution.last, Duration::from_millis(200));
        assert_eq!((distribution.reports, distribution.expected), (200, 201));
        assert_eq!(Distribution::of(Vec::new(), 3), None);
    }

    #[test]
    fn a_report_is_a_table_with_aligned_columns() {
        let mut report = Report::empty(&ScenarioOptions::new(Scenario::Crash, 5, Profile::Local));
        report.down = Distribution::of(vec![Duration::from_secs(2); 4], 4);
        let text = report.to_string();
        let header = text.lines().nth(2).expect("a header");
        let down = text.lines().find(|line| line.starts_with("Down after")).expect("a row");
        assert_eq!(header.find("last").map(|at| at + 4), Some(64));
        assert_eq!(&down[58..64], "2.00 s", "{text}");
        assert!(text.contains("crash of 5 nodes, profile local"), "{text}");
    }
}
