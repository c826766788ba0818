//! Arguments of the commands that try settings on a simulated cluster: `simulate` and `tune`.
//!
//! Must not know: how a simulation is run.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use clap::builder::{OsStringValueParser, PossibleValue, PossibleValuesParser, TypedValueParser as _};

use super::target::{Format, LineFormat, TOKEN_FILE, token_file};
use crate::core::Profile;
use crate::sim::scenario::Scenario;

/// The arguments of `tune`.
#[derive(Debug, Args)]
pub(crate) struct TuneArgs {
    /// Take what is not given of --rtt, --loss and --nodes from the running agent at this HTTP address
    #[arg(long, visible_alias = "http", value_name = "ADDR")]
    pub(crate) from: Option<String>,
    /// A file with the agent's token
    #[arg(long, value_name = "FILE", env = TOKEN_FILE, value_parser = OsStringValueParser::new().try_map(token_file))]
    pub(crate) token_file: Option<PathBuf>,
    /// Time there and back between two nodes, up to 5s
    #[arg(long, required_unless_present = "from", value_parser = humantime::parse_duration)]
    pub(crate) rtt: Option<Duration>,
    /// Chance that a datagram is lost, for example 2% or 0.02 [default: 1% without --from]
    #[arg(long, value_parser = share)]
    pub(crate) loss: Option<f64>,
    /// How many nodes, 2 to 100000
    #[arg(long, required_unless_present = "from")]
    pub(crate) nodes: Option<usize>,
    /// A host that falls silent is down everywhere within so long
    #[arg(long, value_name = "TIME", value_parser = humantime::parse_duration)]
    pub(crate) detect_within: Duration,
    /// A healthy node is suspected at most so often
    #[arg(long, value_name = "NUMBER", default_value_t = 0.1)]
    pub(crate) false_alarms_per_month: f64,
    /// Do not verify the proposal by simulation, which may take a minute
    #[arg(long)]
    pub(crate) no_simulation: bool,
    /// For people and configuration files, or one JSON object
    #[arg(long, value_enum, default_value_t)]
    pub(crate) format: LineFormat,
}

/// The arguments of `simulate`.
#[derive(Debug, Args)]
pub(crate) struct SimulateArgs {
    /// Nodes at the beginning, 2 to 20000
    #[arg(long, default_value_t = 20)]
    pub(crate) nodes: usize,
    /// How many of the first nodes vote, 0 to 7 [default: 5 where the scenario is about leaders, else 0]
    #[arg(long)]
    pub(crate) voters: Option<usize>,
    /// Every node's profile
    #[arg(long, default_value_t, value_parser = PossibleValuesParser::new(Profile::ALL.map(Profile::name))
        .map(|name| name.parse::<Profile>().unwrap_or_default()))]
    pub(crate) profile: Profile,
    /// Chance that a datagram is lost, for example 5% or 0.05
    #[arg(long, default_value = "0%", value_parser = share)]
    pub(crate) loss: f64,
    /// Minimum one-way latency
    #[arg(long, default_value = "500us", value_parser = humantime::parse_duration)]
    pub(crate) latency: Duration,
    /// Random extra delay, up to
    #[arg(long, default_value = "500us", value_parser = humantime::parse_duration)]
    pub(crate) jitter: Duration,
    /// Scenario
    #[arg(long, default_value_t, value_parser = PossibleValuesParser::new(Scenario::ALL
            .map(|scenario| PossibleValue::new(scenario.name()).help(scenario.about())))
        .map(|name| name.parse::<Scenario>().unwrap_or_default()))]
    pub(crate) scenario: Scenario,
    /// Seeds every random choice: the same seed gives the same run
    #[arg(long, default_value_t = 1)]
    pub(crate) seed: u64,
    /// Begin with a formed cluster: thousands of nodes take long to join
    #[arg(long)]
    pub(crate) formed: bool,
    /// Also write the figures and charts as a page that stands alone
    #[arg(long, value_name = "FILE")]
    pub(crate) html: Option<PathBuf>,
    /// For people or for programs
    #[arg(long, value_enum, default_value_t)]
    pub(crate) format: Format,
}

/// Reads a share of one, written as a percentage or a fraction.
pub(super) fn share(text: &str) -> Result<f64, String> {
    let (number, unit) = match text.strip_suffix('%') {
        Some(percent) => (percent, 100.0),
        None => (text, 1.0),
    };
    let number: f64 = number.trim().parse().map_err(|_| "a share is written 5% or 0.05".to_owned())?;
    if !number.is_finite() {
        return Err("a share is written 5% or 0.05".to_owned());
    }
    if number > unit {
        let meant = if unit > 1.0 { "a share is at most 100%".to_owned() } else { format!("did you mean {number}%?") };
        return Err(format!("it is more than the whole; {meant}"));
    }
    Ok(number / unit)
}
