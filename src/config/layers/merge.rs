//! Merging: the values of all layers, applied from the weakest to the strongest, and judged together.
//!
//! The one owner of a load's state: values, sources, problems. A key with a refused value is remembered, so that nothing
//! that depends on it is reported as well.

use std::collections::{BTreeMap, BTreeSet};

use super::{Given, Loaded};
use crate::config::agent::AgentConfig;
use crate::config::keys::{Key, find, keys};
use crate::config::problem::{LoadError, Problem, Source, printable};
use crate::config::token::Token;
use crate::config::{Config, ConfigError};
use crate::core::NodeId;

/// The state of one [`Loader::load`].
pub(super) struct Merge {
    pub(super) agent: AgentConfig,
    pub(super) sources: BTreeMap<&'static str, Source>,
    /// The effective values as they were written: a person looks for `"31d"`, not for its parsed value.
    written: BTreeMap<&'static str, String>,
    pub(super) problems: Vec<Problem>,
    /// Those of whoever would be reached by other machines without a key.
    pub(super) gate: Vec<Problem>,
    pub(super) warnings: Vec<Problem>,
    /// The tokens in `http.token_file` and `http.read_token_file`.
    pub(super) tokens: [Option<Token>; 2],
    /// Keys with a refused value: nothing that depends on them is checked.
    pub(super) failed: BTreeSet<&'static str>,
}

impl Merge {
    pub(super) fn new() -> Self {
        // A placeholder until the layers give a name; never the result.
        let config = Config::new("unnamed").expect("letters are a name");
        Self {
            agent: AgentConfig::new(config),
            sources: keys().map(|key| (key.name(), Source::Default)).collect(),
            written: BTreeMap::new(),
            problems: Vec::new(),
            gate: Vec::new(),
            warnings: Vec::new(),
            tokens: [None, None],
            failed: BTreeSet::new(),
        }
    }

    pub(super) fn note(&mut self, found: Result<Option<Given>, Vec<Problem>>, given: &mut Vec<Given>) {
        match found {
            Ok(one) => given.extend(one),
            Err(problems) => {
                let keys = problems.iter().filter_map(|problem| problem.key.as_deref().and_then(find));
                self.failed.extend(keys.map(Key::name));
                self.problems.extend(problems);
            }
        }
    }

    /// Applies values from the weakest layer to the strongest, so that the strongest stays.
    pub(super) fn apply(&mut self, given: &[Given]) {
        for (key, item) in given {
            match key.set(&mut self.agent, item) {
                Ok(()) => {
                    self.sources.insert(key.name(), item.source.clone());
                    self.written.insert(key.name(), key.showable(item));
                }
                Err(problems) => {
                    self.failed.insert(key.name());
                    self.problems.extend(problems);
                }
            }
        }
    }

    pub(super) fn profile(&mut self, given: &[Given]) {
        self.apply(given);
        let profile = self.agent.config.profile();
        for key in keys().filter(|key| key.is_of_profile()) {
            self.sources.insert(key.name(), Source::Profile(profile));
        }
    }

    /// Takes the host name as the node's name, if no layer gave one.
    pub(super) fn name(&mut self, host_name: Option<&str>) {
        let is_given = self.sources.get("name").is_some_and(|source| *source != Source::Default);
        if is_given || self.failed.contains("name") {
            return;
        }
        let system = || hostname::get().map(|name| name.to_string_lossy().into_owned());
        let problem = |reason: String| {
            let hint = "give the node a name with --name, HEADCOUNT_NAME or name in the file";
            Problem::new(Source::Default, reason).key("name").hint(hint)
        };
        match host_name.map_or_else(system, |name| Ok(name.to_owned())) {
            Err(error) => self.problems.push(problem(format!("is unknown: the host name cannot be read ({error})"))),
            Ok(host) => match NodeId::new(&host) {
                Ok(name) => self.agent.config.name = name,
                Err(error) => {
                    let problem = problem(format!("(the host name) is not a valid node name: {error}"));
                    let allowed = find("name").map_or("", Key::range);
                    self.problems.push(problem.found(printable(&format!("\"{host}\""))).allowed(allowed));
                }
            },
        }
    }

    pub(super) fn judge_together(&mut self) {
        // If the profile is unknown, its values are not worth a check.
        let is_profile_known = !self.failed.contains("profile");
        let is_of_profile = |error: &ConfigError| {
            let key = find(error.key());
            [key, key.and_then(Key::follows)].into_iter().flatten().any(Key::is_of_profile)
        };
        for error in self.agent.config.problems() {
            if !is_profile_known && is_of_profile(&error) {
                continue;
            }
            // Refused or not checked: either way, nothing that depends on this key is checked.
            let problem = self.of_combination(&error);
            if is_of_gate(&error) {
                self.gate.extend(problem);
                continue;
            }
            self.failed.insert(error.key());
            self.problems.extend(problem);
        }
        self.judge_keys();
        let http = |this: &Self, reason: &str, hint: &str| {
            let problem = Problem::new(this.source_of("http.bind"), reason).key("http.bind");
            problem.found(this.value_of("http.bind")).hint(hint)
        };
        if self.agent.http_is_open_by_accident() && !self.any_failed(&["http.bind", "http.token_file", "http.insecure"])
        {
            let reason = "would let every machine that reaches it control this node";
            let hint = "set http.token_file, or http.insecure = true if that is what you want";
            let problem = http(self, reason, hint).allowed("a loopback address without a token, any with one");
            self.problems.push(problem);
        }
        if self.agent.http_and_gossip_collide() && !self.any_failed(&["http.bind", "bind"]) {
            let hint = format!("bind = {} comes from {}", self.value_of("bind"), self.source_of("bind"));
            let problem = http(self, "takes the port of gossip, which listens on UDP and TCP", &hint);
            self.problems.push(problem.allowed("a port of its own"));
        }
    }

    /// Builds the problem of a value that contradicts another, with the sources of both; `None` if one of them is
    /// refused already.
    fn of_combination(&self, error: &ConfigError) -> Option<Problem> {
        let key = find(error.key())?;
        let source = self.source_of(key.name());
        if self.failed.contains(key.name()) || is_of_gate(error) && self.any_failed(&GATE) {
            return None;
        }
        let problem = Problem::new(source, error.reason()).key(key.name()).found(self.value_of(key.name()));
        if matches!(error, ConfigError::NotSealed { .. }) {
            return Some(problem.hint(ways_out(error.key())));
        }
        let problem = problem.allowed(with_flags(error));
        let of_bounds = || key.follows().filter(|other| error.allowed().contains(other.short()));
        let Some(other) = error.other_key().and_then(find).or_else(of_bounds) else {
            return Some(problem);
        };
        if self.failed.contains(other.name()) {
            return None;
        }
        let (name, value, source) = (other.name(), self.value_of(other.name()), self.source_of(other.name()));
        Some(problem.hint(format!("{name} = {value} comes from {source}")))
    }

    pub(super) fn any_failed(&self, names: &[&str]) -> bool {
        names.iter().any(|name| self.failed.contains(name))
    }

    pub(super) fn source_of(&self, key: &str) -> Source {
        self.sources.get(key).cloned().unwrap_or(Source::Default)
    }

    pub(super) fn value_of(&self, key: &str) -> String {
        let written = self.written.get(key).cloned();
        let shown = || find(key).map(|key| key.cell(&self.agent).unwrap_or(key.default().to_owned()));
        written.or_else(shown).unwrap_or_default()
    }

    pub(super) fn finish(mut self) -> Result<Loaded, LoadError> {
        self.problems.append(&mut self.gate);
        // Problems of the file first, in the order of their lines; the others stay in the order they came.
        let rank = |problem: &Problem| if problem.line() == 0 { usize::MAX } else { problem.line() };
        self.problems.sort_by_key(rank);
        self.warnings.sort_by_key(rank);
        if self.problems.is_empty() {
            let [token, read_token] = self.tokens;
            let Self { agent, warnings, sources, .. } = self;
            return Ok(Loaded { agent, warnings, token, read_token, sources });
        }
        Err(LoadError::Refused { problems: self.problems })
    }
}

/// The keys that decide whether packets of other machines are taken, and which.
const GATE: [&str; 6] = ["cluster", "bind", "advertise", "seal.mode", "seal.key_file", "seal.keys"];

fn is_of_gate(error: &ConfigError) -> bool {
    matches!(error, ConfigError::NotSealed { .. } | ConfigError::ClearWithoutName { .. })
}

/// Says what to do where other machines would reach a node without a key, because of this key of the configuration.
fn ways_out(key: &str) -> String {
    let stay = match key {
        "bind" => "--bind 127.0.0.1:7117",
        "advertise" => "without it",
        _ => "--bind 127.0.0.1:7117, and seeds of this machine",
    };
    format!(
        "
  seal it:      headcount keys generate cluster.key   once, the same file on every node; then --key-file cluster.key \
         (HEADCOUNT_SEAL__KEY_FILE, [seal] key_file)
  or consent:   --insecure (HEADCOUNT_SEAL__MODE=off, or in the file:  [seal]  mode = \"off\") and a --cluster of its own: \
         nothing is encrypted, whoever reaches the port is a member
  or stay here: {stay}"
    )
}

/// Returns the values allowed, in words, with the flags of the settings that they name.
fn with_flags(error: &ConfigError) -> &str {
    match error {
        ConfigError::BindUnreachable { .. } => {
            "an address that the seeds can send to, or none: take the line out, and name a key (--key-file)"
        }
        ConfigError::QuorumWithoutDataDir => "quorum with data_dir set (--data-dir), or none",
        ConfigError::SealWithoutKeys { .. } => "any with seal.key_file set (--key-file), or off",
        ConfigError::ClearWithoutName { .. } => {
            "a name of this cluster's own (--cluster), or the default one with a key and seal.mode = \"require\""
        }
        ConfigError::LeaseWithoutUrl => "lease with leadership.lease.url set (--lease-url), or none",
        error => error.allowed(),
    }
}
