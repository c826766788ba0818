//! The choices of a simulation: a scenario, and the size, settings and network that it happens in.
//!
//! Must not know: how a scenario is played.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use super::network::{Conditions, Latency};
use headcount_core::limits::MAX_VOTERS;
use headcount_core::{OutOfRange, Profile, Settings};

/// The events that can be simulated. The table of `scenario/table.rs` has a row for each, at the same place.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
#[non_exhaustive]
pub enum Scenario {
    /// One more node joins.
    Join,
    /// One node leaves.
    Leave,
    /// One process dies without saying goodbye.
    #[default]
    Crash,
    /// One host loses its power: only silence tells of it.
    PowerOff,
    /// Ten nodes die at one instant, or half of a smaller cluster.
    MassCrash,
    /// One process is suspended for one and a half down timeouts.
    Pause,
    /// Every fifth node handles everything late, by up to half a heartbeat interval.
    Slow,
    /// Half of the nodes are cut off from the other half until they have declared each other Down.
    Partition,
    /// On every link independently, datagrams are lost in bursts: one in twelve, most of them in a row.
    Bursts,
    /// One node in a hundred loses 80 % of the datagrams that it sends.
    OneWayLoss,
    /// Nothing reaches one node in a hundred for 20 s, then everything does for 20 s, three times.
    FlipFlop,
    /// All processes are killed at once and started again within two seconds.
    RestartAll,
    /// Nodes crash, return, leave, join and change their tags, one every few seconds.
    Churn,
    /// The leader's process dies, ten times over.
    LeaderCrash,
    /// The leader is cut off with fewer than half of the voters, ten times over.
    LeaderPartition,
    /// Nodes lead by a lease in a modelled database: the leader dies, stands still, does not reach the database, or
    /// that fails over to a replica that lacks commits, ten times over.
    Contenders,
}

impl fmt::Display for Scenario {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for Scenario {
    type Err = UnknownScenario;
    fn from_str(name: &str) -> Result<Self, UnknownScenario> {
        let found = Self::ALL.into_iter().find(|scenario| scenario.name() == name);
        found.ok_or_else(|| UnknownScenario { found: name.to_owned() })
    }
}

/// Error: there is no scenario of that name.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("unknown scenario {found:?}: there are {}", Scenario::ALL.map(Scenario::name).join(", "))]
pub struct UnknownScenario {
    /// The name found.
    pub found: String,
}

/// The options of a simulation.
#[derive(Debug, Clone, PartialEq)]
pub struct ScenarioOptions {
    /// The scenario.
    pub scenario: Scenario,
    /// Number of nodes at the beginning, 2–20,000.
    pub nodes: usize,
    /// Number of voters, which are the first nodes, 0–7: with any, leaders are elected, by the profile's lease timing.
    pub voters: usize,
    /// The profile that `settings` came from, for the report.
    pub profile: Profile,
    /// Timing and sizes of every node.
    pub settings: Settings,
    /// Chance that a datagram is lost, 0–0.9.
    pub loss: f64,
    /// Smallest one-way latency of a datagram.
    pub latency: Duration,
    /// Largest addition to the latency, for all but a few stragglers.
    pub jitter: Duration,
    /// True if nodes have IPv6 addresses, with larger headers.
    pub ipv6: bool,
    /// True if everything is sealed.
    pub sealed: bool,
    /// True to begin with a formed cluster, for scales at which joining takes longer than the scenario itself.
    pub formed: bool,
    /// Time for which the cluster is watched before the event; by default six heartbeat intervals, at least 10 s.
    pub idle: Option<Duration>,
    /// Seed of every random choice.
    pub seed: u64,
}

impl ScenarioOptions {
    /// Creates the options of a scenario in a quiet local network.
    pub fn new(scenario: Scenario, nodes: usize, profile: Profile) -> Self {
        let Latency { base, jitter } = Conditions::default().latency;
        let settings = profile.settings();
        Self {
            scenario,
            nodes,
            voters: if scenario.is_about_leaders() { usual_voters(nodes) } else { 0 },
            profile,
            settings,
            loss: 0.0,
            latency: base,
            jitter,
            ipv6: false,
            sealed: false,
            formed: false,
            idle: None,
            seed: 1,
        }
    }

    /// Checks every figure; the error names the key, the value and what is allowed.
    pub fn check(&self) -> Result<(), OutOfRange> {
        self.settings.check()?;
        let out_of_range = |key, found: String, allowed: &str| OutOfRange { key, found, allowed: allowed.to_owned() };
        if !(2..=20_000).contains(&self.nodes) {
            return Err(out_of_range("nodes", self.nodes.to_string(), "2 to 20000"));
        }
        if self.voters > self.nodes.min(MAX_VOTERS) || self.scenario.is_about_leaders() && self.voters == 0 {
            let least = u32::from(self.scenario.is_about_leaders());
            let allowed = format!("{least} to {}", self.nodes.min(MAX_VOTERS));
            return Err(out_of_range("voters", self.voters.to_string(), &allowed));
        }
        if !(0.0..=0.9).contains(&self.loss) {
            return Err(out_of_range("loss", self.loss.to_string(), "0 to 0.9"));
        }
        let most = Duration::from_secs(5);
        if self.latency > most || self.jitter > most {
            return Err(out_of_range("latency", format!("{:?}", self.latency.max(self.jitter)), "0 to 5s"));
        }
        Ok(())
    }
}

/// Returns the usual number of voters: five if there are so many nodes, and always an odd number.
pub const fn usual_voters(nodes: usize) -> usize {
    match nodes {
        0..=2 => 1,
        3 | 4 => 3,
        _ => 5,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_scenario_is_known_by_its_name() {
        for scenario in Scenario::ALL {
            assert_eq!(scenario.name().parse(), Ok(scenario));
        }
        let error = "crush".parse::<Scenario>().expect_err("there is no such scenario");
        assert!(error.to_string().contains("crash"), "{error}");
    }

    #[test]
    fn each_figure_out_of_range_is_refused_by_name() {
        let good = ScenarioOptions::new(Scenario::Crash, 5, Profile::Local);
        assert_eq!(good.check(), Ok(()));
        let refused = |options: ScenarioOptions| options.check().expect_err("out of range").key;
        assert_eq!(refused(ScenarioOptions { nodes: 1, ..good.clone() }), "nodes");
        assert_eq!(refused(ScenarioOptions { loss: f64::NAN, ..good.clone() }), "loss");
        assert_eq!(refused(ScenarioOptions { latency: Duration::from_secs(6), ..good }), "latency");
    }
}
