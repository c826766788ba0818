//! The one table of keys: name, form, default, range and meaning of everything that can be configured.
//!
//! File, environment, flags, `config show`, error messages and the test of `config.toml` all read this table; adding a
//! key is adding a row (and its paragraph in `config.toml`, which a test asks for). A row judges its value alone; what
//! goes together is judged after merging, by [`Config::problems`](super::Config::problems) and the layers.
//!
//! This page holds the form of a row and what is asked of the table; the rows stand by subject: `node`, `seal`, `leadership`, `serving`.
//!
//! Bounds of figures are not repeated here as numbers, only as text for people: the core checks them.

mod leadership;
mod node;
mod seal;
mod serving;
#[cfg(test)]
mod tests;

use std::net::SocketAddr;
use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::time::Duration;

use serde_json::Value as Json;

use super::agent::AgentConfig;
use super::error::ConfigError;
use super::given::{Item, Value};
use super::leadership::LeadershipMode;
use crate::core::NodeId;

/// One key of the configuration.
#[derive(Debug)]
pub struct Key {
    name: &'static str,
    default: &'static str,
    range: &'static str,
    doc: &'static str,
    special: Special,
    pub(crate) slot: Slot,
    pub(crate) get: fn(&AgentConfig) -> Json,
}

/// The ways in which a key differs from most others.
#[derive(Debug)]
struct Special {
    /// The part of a running agent that takes a changed value up when it reads its configuration again; otherwise the
    /// next start does.
    live: Option<LivePart>,
    /// True if it is set before all other keys, whatever layer it is from, since it replaces their values.
    is_first: bool,
    /// True if the profile decides where nobody else does.
    is_of_profile: bool,
    /// The key whose value this one's bounds follow from.
    follows: Option<&'static str>,
    repeated: Repeated,
    /// The cell of a table that shows what `get` returns.
    cell: fn(&Json) -> Option<String>,
    differs: fn(&Key, &AgentConfig, &AgentConfig) -> bool,
}

/// A part of an agent that takes up changed values while it runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum LivePart {
    /// The handlers of events.
    Handlers,
    /// The tags of the node.
    Tags,
    /// The level of logs.
    LogLevel,
    /// The keys of the seal, and its mode.
    Seal,
}

/// The part of a value that messages repeat.
#[derive(Debug)]
enum Repeated {
    /// All of it, as it was written.
    Whole,
    /// The text that this function makes of it.
    As(fn(&str) -> String),
    /// Nothing: it is a secret.
    Never,
}

impl Special {
    const NONE: Self = Self {
        live: None,
        is_first: false,
        is_of_profile: false,
        follows: None,
        repeated: Repeated::Whole,
        cell,
        differs: |key, old, new| (key.get)(old) != (key.get)(new),
    };
    const OF_PROFILE: Self = Self { is_of_profile: true, ..Self::NONE };

    const fn live(part: LivePart) -> Self {
        Self { live: Some(part), ..Self::NONE }
    }

    /// Lets the bounds of the key follow from another key's value.
    const fn following(self, key: &'static str) -> Self {
        Self { follows: Some(key), ..self }
    }
}

/// The place that a value goes to; the setter of each form. A setter says what it refuses in a few words that fit behind the value.
#[derive(Debug)]
pub(crate) enum Slot {
    Text(fn(&mut AgentConfig, &str) -> Result<(), String>),
    /// Any text that passes the check.
    FreeText(fn(&str) -> Result<(), ConfigError>, fn(&mut AgentConfig) -> &mut Option<String>),
    /// An address that passes the check.
    Address(fn(SocketAddr) -> Result<(), ConfigError>, fn(&mut AgentConfig) -> &mut Option<SocketAddr>),
    Name(fn(&mut AgentConfig) -> &mut NodeId),
    Path(fn(&mut AgentConfig) -> &mut Option<PathBuf>),
    Duration(fn(&mut AgentConfig) -> &mut Duration),
    Count(fn(&mut AgentConfig) -> &mut usize),
    /// A count that nobody else judges.
    CountWithin(RangeInclusive<usize>, fn(&mut AgentConfig) -> &mut usize),
    /// A number from 0 to 255.
    Byte(fn(&mut AgentConfig) -> &mut u8),
    Switch(fn(&mut AgentConfig) -> &mut bool),
    /// A duration that follows from others where nobody says it.
    DerivedDuration(fn(&mut AgentConfig) -> &mut Option<Duration>),
    Leases,
    Seeds,
    /// The words of a command.
    Words(fn(&mut AgentConfig) -> &mut Vec<String>),
    Voters,
    Hosts,
    Tags,
    /// A list of tables, from a file alone.
    Handlers,
    /// Keys of the seal: secrets, never shown.
    SealKeys,
}

/// The form that a key's value has in a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Form {
    Text,
    Duration,
    Count,
    Switch,
    List,
    Table,
    Tables,
}

impl Form {
    /// Returns what to write.
    pub(crate) const fn description(self) -> &'static str {
        match self {
            Form::Text => "a string in quotes",
            Form::Duration => "a duration with its unit in quotes, as in \"5s\" or \"500ms\"",
            Form::Count => "a whole number without quotes",
            Form::Switch => "true or false, without quotes",
            Form::List => "a list of strings, as in [\"a:7117\", \"b:7117\"]",
            Form::Table => "a table of strings, as in { zone = \"eu-1\" }",
            Form::Tables => "[[handlers]] on a line of its own, and its keys below",
        }
    }
}

impl Key {
    /// Returns the name, with its section in front: `timing.heartbeat_interval`.
    pub const fn name(&self) -> &'static str {
        self.name
    }

    /// Returns the default in words; the figures of `[timing]` are those of the profile `default`.
    pub const fn default(&self) -> &'static str {
        self.default
    }

    /// Returns what is allowed, in words.
    pub const fn range(&self) -> &'static str {
        self.range
    }

    /// Returns its meaning, in one line.
    pub const fn doc(&self) -> &'static str {
        self.doc
    }

    /// Returns the part of a running agent that takes up a changed value when it reads its configuration again (SIGHUP);
    /// `None` if that needs a restart.
    pub const fn live_part(&self) -> Option<LivePart> {
        self.special.live
    }

    /// Returns the variable of the environment: `HEADCOUNT_TIMING__HEARTBEAT_INTERVAL`.
    pub fn variable(&self) -> String {
        variable_of(self.name)
    }

    /// Returns the section, if it is in one.
    pub fn section(&self) -> Option<&'static str> {
        self.name.rsplit_once('.').map(|(section, _)| section)
    }

    /// Returns the name without its section.
    pub(crate) fn short(&self) -> &'static str {
        self.name.rsplit_once('.').map_or(self.name, |(_, short)| short)
    }

    pub(crate) const fn form(&self) -> Form {
        match self.slot {
            Slot::Text(_) | Slot::FreeText(..) | Slot::Address(..) | Slot::Name(_) | Slot::Path(_) => Form::Text,
            Slot::Duration(_) | Slot::DerivedDuration(_) => Form::Duration,
            Slot::Count(_) | Slot::CountWithin(..) | Slot::Byte(_) => Form::Count,
            Slot::Switch(_) => Form::Switch,
            Slot::Words(_) | Slot::Seeds | Slot::Voters | Slot::Hosts | Slot::Leases | Slot::SealKeys => Form::List,
            Slot::Tags => Form::Table,
            Slot::Handlers => Form::Tables,
        }
    }

    /// Returns true if it is set before all other keys, whatever layer it is from.
    pub(crate) const fn is_first(&self) -> bool {
        self.special.is_first
    }

    /// Returns true if the profile decides where nobody else does.
    pub(crate) const fn is_of_profile(&self) -> bool {
        self.special.is_of_profile
    }

    /// Returns a value as messages repeat it: without a password or a key.
    pub(crate) fn showable(&self, item: &Item) -> String {
        match (&self.special.repeated, &item.value) {
            (Repeated::Whole, _) => item.found.clone(),
            // Not from the text as it was written, which is cut: what ends a password may be behind its end.
            (Repeated::As(shown), Value::Text(text)) => format!("\"{}\"", shown(text)),
            (Repeated::As(_) | Repeated::Never, _) => "…".to_owned(),
        }
    }

    /// Returns the cell of its value in a table; `None` if it is not set.
    pub(crate) fn cell(&self, agent: &AgentConfig) -> Option<String> {
        (self.special.cell)(&(self.get)(agent))
    }

    /// Returns true if two configurations differ in its value.
    pub(crate) fn differs(&self, old: &AgentConfig, new: &AgentConfig) -> bool {
        (self.special.differs)(self, old, new)
    }

    /// Returns true if the key counts in this mode of leadership.
    pub(crate) fn is_in_use(&self, mode: LeadershipMode) -> bool {
        match mode {
            LeadershipMode::Lease => true,
            LeadershipMode::Quorum => self.section() != Some("leadership.lease"),
            LeadershipMode::None => self.name == "leadership.mode" || !self.name.starts_with("leadership."),
        }
    }

    /// Returns the key whose value this one's bounds follow from.
    pub(crate) fn follows(&self) -> Option<&'static Key> {
        self.special.follows.and_then(find)
    }
}

/// The rows by subject, in the order of `config.toml`.
static TABLE: [&[Key]; 4] = [&node::KEYS, &seal::KEYS, &leadership::KEYS, &serving::KEYS];

/// Returns all keys, in the order of `config.toml`.
pub fn keys() -> impl Iterator<Item = &'static Key> {
    TABLE.into_iter().flatten()
}

pub(crate) fn find(name: &str) -> Option<&'static Key> {
    keys().find(|key| key.name == name)
}

/// The beginning of every variable.
pub(crate) const PREFIX: &str = "HEADCOUNT_";
/// Sections that hold keys.
pub(crate) const SECTIONS: [&str; 7] = ["timing", "seal", "leadership", "leadership.lease", "http", "metrics", "log"];
/// Sections that later versions will know: refused, since nothing that is configured may be ignored.
pub(crate) const UNAVAILABLE: [&str; 0] = [];

fn variable_of(name: &str) -> String {
    format!("{PREFIX}{}", name.replace('.', "__").to_uppercase())
}

/// Returns the known key that an unknown name was probably meant to be.
pub(crate) fn nearest(unknown: &str) -> Option<&'static Key> {
    let (section, short) = unknown.rsplit_once('.').map_or((None, unknown), |(section, short)| (Some(section), short));
    let likeness = |key: &Key| {
        let whole = if section.is_none() { strsim::jaro_winkler(unknown, key.name) } else { 0.0 };
        // The right name in the wrong section is nearly right.
        let misplaced = if section == key.section() { 0.0 } else { 0.02 };
        whole.max(strsim::jaro_winkler(short, key.short()) - misplaced)
    };
    let (best, likeness) =
        keys().map(|key| (key, likeness(key))).max_by(|(_, one), (_, other)| one.total_cmp(other))?;
    (likeness >= 0.8).then_some(best)
}

/// Returns an optional text as JSON.
fn optional(text: Option<impl ToString>) -> Json {
    text.map_or(Json::Null, |text| Json::String(text.to_string()))
}

fn duration(duration: Duration) -> Json {
    Json::String(humantime::format_duration(duration).to_string())
}

/// Returns the cell of a value in a table; `None` for a value that is not set.
fn cell(value: &Json) -> Option<String> {
    match value {
        Json::Null => None,
        Json::String(text) => Some(text.clone()),
        Json::Array(items) if items.is_empty() => None,
        Json::Array(items) => Some(items.iter().filter_map(cell).collect::<Vec<_>>().join(", ")),
        Json::Object(entries) if entries.is_empty() => None,
        Json::Object(entries) => {
            let pair = |(key, value): (&String, &Json)| format!("{key}={}", cell(value).unwrap_or_default());
            Some(entries.iter().map(pair).collect::<Vec<_>>().join(", "))
        }
        other => Some(other.to_string()),
    }
}
