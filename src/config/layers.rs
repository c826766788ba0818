//! The layers: flag > environment > file > profile > default. Merges them and remembers the source of each value.
//!
//! Every given value is checked with its own source, also one that a stronger layer hides: a file that is refused today
//! is refused whatever flags the agent is started with. Combinations are checked once, on the effective values. Nothing
//! is read but the file, and the token file that it names: environment and flags are handed in, so that tests need no
//! process of their own.
//!
//! A setting that works but is probably a mistake is a warning: a [`Problem`] like those that refuse, beside the
//! result.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::{Path, PathBuf};

use super::agent::{AgentConfig, HttpConfig};
use super::file;
use super::given::Item;
use super::keys::{Key, PREFIX, UNAVAILABLE, find, keys, nearest};
use super::problem::{LoadError, Problem, Source, printable};
use super::token::{Token, TokenFile, TokenFileError};
use super::{Config, ConfigError, HandlerAction, KeyFileError, LeadershipMode, ReadKeys, read_key_file};
use crate::core::NodeId;
use crate::lease::LeaseName;
use crate::seal::SealMode;

/// Variables with our prefix that are not part of the configuration: the agent that client commands talk to, the file
/// with its token, and what `headcount lead` passes to its command.
const OF_CLIENTS: [&str; 4] = ["HEADCOUNT_AGENT", "HEADCOUNT_NODE", "HEADCOUNT_TERM", "HEADCOUNT_TOKEN_FILE"];
/// The prefix of the variables that describe an event to a handler; present where an agent is started by a handler.
const EVENT_PREFIX: &str = "HEADCOUNT_EVENT_";

/// Collects the layers. [`Loader::load`] merges and checks them.
///
/// ```no_run
/// let loaded = headcount::config::Loader::new()
///     .file("config.toml")
///     .process_environment()
///     .flag("name", "--name", "a")
///     .flag("seeds", "--seed", "10.0.0.1:7117")
///     .flag("seeds", "--seed", "10.0.0.2:7117")
///     .load()?;
/// println!("{}", loaded.table());
/// # Ok::<(), headcount::config::LoadError>(())
/// ```
#[derive(Debug, Default)]
pub struct Loader {
    file: Option<PathBuf>,
    /// Names and values; `None` for a value that is not UTF-8.
    environment: Vec<(String, Option<String>)>,
    flags: Vec<Flag>,
    host_name: Option<String>,
}

#[derive(Debug)]
struct Flag {
    key: String,
    name: String,
    values: Vec<String>,
}

/// A configuration that an agent can work with, and the source of each value.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Loaded {
    /// The effective values.
    pub agent: AgentConfig,
    /// Problems that do not keep the agent from starting, but that an operator should look at; in the order of the
    /// file.
    pub warnings: Vec<Problem>,
    /// The token in `http.token_file`; `None` if there is no such file, or HTTP is off.
    pub token: Option<Token>,
    /// The token in `http.read_token_file`; `None` if there is no such file, or HTTP is off.
    pub read_token: Option<Token>,
    sources: BTreeMap<&'static str, Source>,
}

impl Loaded {
    /// Returns the source of a key's value; `None` if there is no such key.
    pub fn source(&self, key: &str) -> Option<&Source> {
        self.sources.get(key)
    }
}

/// Loads the configuration that the file alone gives, for `headcount config check FILE`. The machine's host name plays
/// no part.
pub fn check_file(path: impl Into<PathBuf>) -> Result<Loaded, LoadError> {
    Loader::new().file(path).host_name("any").load()
}

impl Loader {
    /// Returns a loader without layers: all defaults.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds the configuration file. Relative paths in it are relative to the directory in which the process was
    /// started, as on the command line.
    #[must_use]
    pub fn file(mut self, path: impl Into<PathBuf>) -> Self {
        self.file = Some(path.into());
        self
    }

    /// Adds variables: those that begin with `HEADCOUNT_` count, all others are ignored.
    #[must_use]
    pub fn environment(mut self, variables: impl IntoIterator<Item = (String, String)>) -> Self {
        let ours = variables.into_iter().filter(|(name, _)| name.starts_with(PREFIX));
        self.environment.extend(ours.map(|(name, value)| (name, Some(value))));
        self
    }

    /// Adds the variables of this process.
    #[must_use]
    pub fn process_environment(mut self) -> Self {
        let named = std::env::vars_os().map(|(name, value)| (name.to_string_lossy().into_owned(), value));
        let ours = named.filter(|(name, _)| name.starts_with(PREFIX));
        self.environment.extend(ours.map(|(name, value)| (name, value.into_string().ok())));
        self
    }

    /// Adds a value from the command line, for a key such as `http.bind` under the name of its flag, such as `--http`.
    /// A list (`seeds`) or table (`tags`) is given one entry at a time; of anything else the last value counts.
    #[must_use]
    pub fn flag(mut self, key: &str, name: &str, value: impl Into<String>) -> Self {
        match self.flags.iter_mut().find(|flag| flag.key == key && flag.name == name) {
            Some(flag) => flag.values.push(value.into()),
            None => self.flags.push(Flag { key: key.into(), name: name.into(), values: vec![value.into()] }),
        }
        self
    }

    /// Sets the default of `name`, instead of asking the system for the host name.
    #[must_use]
    pub fn host_name(mut self, name: &str) -> Self {
        self.host_name = Some(name.to_owned());
        self
    }

    /// Merges the layers and checks the result.
    pub fn load(&self) -> Result<Loaded, LoadError> {
        let mut given = Vec::new();
        let mut merge = Merge::new();
        if let Some(path) = &self.file {
            let unreadable = |error| LoadError::Unreadable { path: path.clone(), error };
            let (from_file, problems) = file::parse(path, &file::read(path).map_err(unreadable)?);
            given.extend(from_file);
            merge.problems.extend(problems);
        }
        for (name, value) in &self.environment {
            if is_service_link(name, value.as_deref().unwrap_or_default()) {
                merge.warnings.push(service_link(name));
                continue;
            }
            merge.note(variable(name, value.as_deref()), &mut given);
        }
        for flag in &self.flags {
            merge.note(self::flag(flag), &mut given);
        }
        // A profile replaces all its values, so it goes first, whatever layer it is from.
        let (profile, others): (Vec<_>, Vec<_>) = given.into_iter().partition(|(key, _)| key.name() == "profile");
        merge.profile(&profile);
        merge.apply(&others);
        merge.name(self.host_name.as_deref());
        merge.judge_together();
        merge.judge_token_files();
        merge.judge_key_file();
        merge.warn();
        merge.finish()
    }
}

type Given = (&'static Key, Item);

/// Turns a variable into a value of its key; `None` if the variable is not part of the configuration.
fn variable(name: &str, value: Option<&str>) -> Result<Option<Given>, Vec<Problem>> {
    if OF_CLIENTS.contains(&name) || name.starts_with(EVENT_PREFIX) {
        return Ok(None);
    }
    let source = Source::Environment(printable(name));
    let meant = name.trim_start_matches(PREFIX).to_lowercase().replace("__", ".");
    let Some(key) = keys().find(|key| key.variable() == name) else {
        let is_in = |section: &&str| meant.strip_prefix(*section).is_some_and(|rest| rest.starts_with(['.', '_']));
        if let Some(section) = UNAVAILABLE.into_iter().find(is_in) {
            let reason = format!("section [{section}] is not available in this version");
            return Err(vec![Problem::new(source, reason).hint("unset it")]);
        }
        let hint = if let Some(key) = nearest(&meant) {
            format!("did you mean {}?", key.variable())
        } else {
            format!("unset it; variables are {PREFIX}<KEY> and {PREFIX}<SECTION>__<KEY>")
        };
        return Err(vec![Problem::new(source, "is not a known variable").hint(hint)]);
    };
    let Some(value) = value else {
        return Err(vec![Problem::new(source, "is not UTF-8").key(key.name()).allowed(key.range())]);
    };
    Ok(Some((key, Item::from_variable(key, source, value)?)))
}

/// Returns true if a variable is a Kubernetes service link. For a service named `headcount…` Kubernetes sets
/// `HEADCOUNT_SERVICE_HOST`, `HEADCOUNT_PORT_7117_UDP_ADDR` and more in every pod of the namespace. None of them is a
/// key of ours.
fn is_service_link(name: &str, value: &str) -> bool {
    if keys().any(|key| key.variable() == name) {
        return false;
    }
    let is_address = ["tcp://", "udp://", "sctp://"].iter().any(|scheme| value.starts_with(scheme));
    let is_part = ["_TCP", "_UDP", "_SCTP"].iter().any(|part| name.contains(part)) && name.contains("_PORT_");
    is_address || is_part || name.contains("_SERVICE_HOST") || name.contains("_SERVICE_PORT")
}

fn service_link(name: &str) -> Problem {
    let reason = "is ignored: it looks like a Kubernetes service link, made for a service named \"headcount\"";
    let hint = "to be rid of it set enableServiceLinks: false in the pod's specification";
    Problem::new(Source::Environment(printable(name)), reason).hint(hint)
}

fn flag(flag: &Flag) -> Result<Option<Given>, Vec<Problem>> {
    let source = Source::Flag(flag.name.clone());
    let Some(key) = find(&flag.key) else {
        return Err(vec![Problem::new(source, format!("unknown key {}", printable(&flag.key)))]);
    };
    Ok(Some((key, Item::from_flag(key, source, &flag.values)?)))
}

/// The state of one [`Loader::load`].
struct Merge {
    agent: AgentConfig,
    sources: BTreeMap<&'static str, Source>,
    /// The effective values as they were written: a person looks for `"31d"`, not for its parsed value.
    written: BTreeMap<&'static str, String>,
    problems: Vec<Problem>,
    warnings: Vec<Problem>,
    /// The tokens in `http.token_file` and `http.read_token_file`.
    tokens: [Option<Token>; 2],
    /// Keys with a refused value: nothing that depends on them is checked.
    failed: BTreeSet<&'static str>,
}

impl Merge {
    fn new() -> Self {
        // A placeholder until the layers give a name; never the result.
        let config = Config::new("unnamed").expect("letters are a name");
        Self {
            agent: AgentConfig::new(config),
            sources: keys().map(|key| (key.name(), Source::Default)).collect(),
            written: BTreeMap::new(),
            problems: Vec::new(),
            warnings: Vec::new(),
            tokens: [None, None],
            failed: BTreeSet::new(),
        }
    }

    fn note(&mut self, found: Result<Option<Given>, Vec<Problem>>, given: &mut Vec<Given>) {
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
    fn apply(&mut self, given: &[Given]) {
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

    fn profile(&mut self, given: &[Given]) {
        self.apply(given);
        let profile = self.agent.config.profile();
        for key in keys().filter(|key| key.is_of_the_profile()) {
            self.sources.insert(key.name(), Source::Profile(profile));
        }
    }

    /// Takes the host name as the node's name, if no layer gave one.
    fn name(&mut self, host_name: Option<&str>) {
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

    fn judge_together(&mut self) {
        // If the profile is unknown, its values are not worth a check.
        if !self.failed.contains("profile") {
            for error in self.agent.config.problems() {
                // Refused or not checked: either way, nothing that depends on this key is checked.
                let problem = self.of_combination(&error);
                self.failed.insert(error.key());
                self.problems.extend(problem);
            }
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
        if self.failed.contains(key.name()) {
            return None;
        }
        let problem = Problem::new(source, error.reason()).key(key.name());
        let problem = problem.found(self.value_of(key.name())).allowed(error.allowed());
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

    /// Reads the token files, so that a missing or invalid token is reported before the agent starts.
    fn judge_token_files(&mut self) {
        const READ: &str = "http.read_token_file";
        let HttpConfig { token_file, read_token_file, .. } = self.agent.http.clone();
        self.tokens = [
            self.judge_token_file("http.token_file", token_file.as_deref()),
            self.judge_token_file(READ, read_token_file.as_deref()),
        ];
        let flaw = match &self.tokens {
            _ if self.any_failed(&["http.token_file", READ]) || read_token_file.is_none() => None,
            _ if token_file.is_none() => Some((
                "is of no use alone: nobody could command the agent then",
                "set http.token_file as well, to a file with another token",
            )),
            [Some(token), Some(read)] if token == read => Some((
                "holds the token that may do all",
                "make another one with `openssl rand -hex 32`; that of http.token_file may look as well",
            )),
            _ => None,
        };
        if let Some((reason, hint)) = flaw {
            let problem = Problem::new(self.source_of(READ), reason);
            let problem = problem.key(READ).found(self.value_of(READ)).hint(hint);
            self.failed.insert(READ);
            self.problems.push(problem);
        }
    }

    /// Reads the token file that a key names.
    fn judge_token_file(&mut self, key: &'static str, path: Option<&Path>) -> Option<Token> {
        let path = path.filter(|_| self.agent.http.bind.is_some() && !self.any_failed(&[key]))?;
        let problem = |reason: String| Problem::new(self.source_of(key), reason).key(key).found(self.value_of(key));
        match TokenFile::read(path) {
            Ok(TokenFile { token, open_to_others: None }) => Some(token),
            Ok(TokenFile { token, open_to_others: Some(mode) }) => {
                let warning = problem(format!("is open to other users of this machine (mode {mode})"));
                self.warnings.push(warning.hint("chmod 600 it, so that only the agent's user reads the token"));
                Some(token)
            }
            Err(error) => {
                let hint = match &error {
                    TokenFileError::Unreadable(error) if error.kind() == io::ErrorKind::NotFound => {
                        "check the path; a relative one starts where the agent was started"
                    }
                    TokenFileError::Unreadable(_) => "name a file that the agent's user may read",
                    TokenFileError::Invalid => "make one with `openssl rand -hex 32`",
                };
                let refused = problem(error.to_string()).hint(hint);
                self.failed.insert(key);
                self.problems.push(refused);
                None
            }
        }
    }

    /// Refuses a list of keys that names none, unless it is said what is to happen then: a secret that is missing must not
    /// leave a cluster clear.
    fn judge_keys(&mut self) {
        const KEY: &str = "seal.keys";
        let seal = &self.agent.config.seal;
        let is_given = self.sources.get(KEY).is_some_and(|source| *source != Source::Default);
        let is_said = seal.mode.is_some() || seal.key_file.is_some() || !seal.keys.is_empty();
        if is_given && !is_said && !self.any_failed(&[KEY, "seal.mode", "seal.key_file"]) {
            let problem = Problem::new(self.source_of(KEY), "names no key, so that nothing would be sealed");
            let problem = problem.key(KEY).found(self.value_of(KEY));
            self.problems.push(problem.hint("leave it out, or say seal.mode = \"off\", if packets are to be clear"));
        }
    }

    /// Reads the key file, so that a missing or invalid one is reported before the agent starts.
    fn judge_key_file(&mut self) {
        const KEY: &str = "seal.key_file";
        let seal = &self.agent.config.seal;
        let is_read = seal.mode() != SealMode::Off && !self.any_failed(&[KEY, "seal.mode"]);
        let Some(path) = seal.key_file.as_deref().filter(|_| is_read) else { return };
        let problem = |reason: String| Problem::new(self.source_of(KEY), reason).key(KEY).found(self.value_of(KEY));
        match read_key_file(path) {
            Ok(ReadKeys { open_to_others: None, .. }) => {}
            Ok(ReadKeys { open_to_others: Some(mode), .. }) => {
                let warning = problem(format!("is open to other users of this machine (mode {mode})"));
                self.warnings.push(warning.hint("chmod 600 it: whoever reads a key can change the membership"));
            }
            Err(error) => {
                let hint = match &error {
                    KeyFileError::Unreadable(error) if error.kind() == io::ErrorKind::NotFound => {
                        "make one with `headcount keys generate`, or copy it from a member"
                    }
                    KeyFileError::Unreadable(_) => "name a file that the agent's user may read",
                    KeyFileError::Invalid(_) => {
                        "one key a line, as `headcount keys generate` prints it; # begins a comment"
                    }
                };
                let refused = problem(error.to_string()).hint(hint);
                self.failed.insert(KEY);
                self.problems.push(refused);
            }
        }
    }

    /// Warns of settings that work but are probably mistakes.
    fn warn(&mut self) {
        let config = &self.agent.config;
        let about =
            |key: &str, reason: String| Problem::new(self.source_of(key), reason).key(key).found(self.value_of(key));
        let mut warnings = Vec::new();
        if config.bind.is_some_and(|bind| super::is_loopback(&bind))
            && let Some(seed) = config.seeds.iter().find(|seed| !stays_on_this_machine(seed))
        {
            let reason = format!("is reached from this machine only, and the seed {} is on another", printable(seed));
            let hint = "without the line, or with --bind 0.0.0.0:7117, other machines reach this node";
            warnings.push(about("bind", reason).hint(hint));
        }
        let voters = config.leadership.voters.len();
        if voters != 0 && voters.is_multiple_of(2) {
            let reason =
                format!("are an even number: {voters} voters stand the loss of no more than {} do", voters - 1);
            warnings.push(about("leadership.voters", reason));
        }
        let lease = &config.leadership.lease;
        let is_led = |name: &LeaseName| name.as_str() == LeaseName::DEFAULT;
        if config.leadership.mode == LeadershipMode::Lease && !lease.leases.iter().any(is_led) {
            let reason = "leaves \"default\" out, by which the cluster is led: this node never leads it";
            let hint = "add \"default\" if it should; `headcount lead` needs --lease here";
            warnings.push(about("leadership.lease.leases", reason.to_owned()).hint(hint));
        }
        for handler in &self.agent.handlers {
            if let HandlerAction::Webhook { url, token_file: Some(_), .. } = &handler.action
                && url.is_in_the_clear()
            {
                let reason = format!("send the token of {} to {url} in the clear", handler.name);
                let warning = Problem::new(self.source_of("handlers"), reason).key("handlers");
                warnings.push(warning.hint("use https:// there, or a token of no worth"));
            }
        }
        self.warnings.extend(warnings);
    }

    fn any_failed(&self, names: &[&str]) -> bool {
        names.iter().any(|name| self.failed.contains(name))
    }

    fn source_of(&self, key: &str) -> Source {
        self.sources.get(key).cloned().unwrap_or(Source::Default)
    }

    fn value_of(&self, key: &str) -> String {
        let written = self.written.get(key).cloned();
        let shown =
            || find(key).map(|key| super::show::cell(&(key.get)(&self.agent)).unwrap_or(key.default().to_owned()));
        written.or_else(shown).unwrap_or_default()
    }

    fn finish(mut self) -> Result<Loaded, LoadError> {
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

/// Returns true if a seed is certainly on this machine. Other names are resolved later, and their addresses may change.
pub(super) fn stays_on_this_machine(seed: &str) -> bool {
    let is_localhost = |host: &str| host.eq_ignore_ascii_case("localhost") || host.ends_with(".localhost");
    match super::literal(seed) {
        Some(address) => super::is_loopback(&address),
        None => seed.rsplit_once(':').is_some_and(|(host, _)| is_localhost(host)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reserved_and_foreign_variables_are_passed_over() {
        let variables = ["AGENT", "NODE", "TERM", "TOKEN_FILE", "EVENT_NODE"].map(|name| format!("HEADCOUNT_{name}"));
        let variables = variables.map(|name| (name, "x")).into_iter();
        let variables = variables.chain(["HEADCOUNTER", "PATH"].map(|name| (name.to_owned(), "x")));
        let variables = variables.map(|(name, value)| (name, value.to_owned()));
        let loaded = Loader::new().host_name("h").environment(variables).load().expect("nothing of ours");
        assert_eq!(loaded.agent.config.name, "h");
        assert_eq!(loaded.source("name"), Some(&Source::Default));
        assert_eq!(loaded.source("nothing"), None);
    }

    #[test]
    fn the_files_for_deployment_set_variables_that_there_are_and_name_a_key_file() {
        for (file, text) in [
            ("compose", include_str!("../../examples/deploy/compose/compose.yaml")),
            ("kubernetes", include_str!("../../examples/deploy/kubernetes/headcount.yaml")),
            ("systemd", include_str!("../../examples/deploy/systemd/headcount.service")),
        ] {
            let is_part = |c: char| c.is_ascii_uppercase() || c == '_';
            let named: BTreeSet<&str> =
                text.split(|c| !is_part(c)).filter(|name| name.starts_with(PREFIX) && *name != PREFIX).collect();
            let is_one = |name: &str| OF_CLIENTS.contains(&name) || keys().any(|key| key.variable() == name);
            let foreign: Vec<&&str> = named.iter().filter(|name| !is_one(name)).collect();
            assert_eq!(foreign, Vec::<&&str>::new(), "{file}");
            assert!(named.contains("HEADCOUNT_SEAL__KEY_FILE"), "{file}");
        }
    }

    #[test]
    fn a_variable_that_is_not_utf8_is_refused_by_name() {
        let mut loader = Loader::new().host_name("h");
        loader.environment.push(("HEADCOUNT_DATA_DIR".to_owned(), None));
        let error = loader.load().expect_err("not UTF-8").to_string();
        assert!(
            error.contains("HEADCOUNT_DATA_DIR") && error.contains("data_dir") && error.contains("UTF-8"),
            "{error}"
        );
    }

    #[test]
    fn service_links_are_passed_over_with_a_warning() {
        let links = [
            ("HEADCOUNT_SERVICE_HOST", "10.0.0.1"),
            ("HEADCOUNT_SERVICE_PORT_HTTP", "7118"),
            ("HEADCOUNT_PORT", "tcp://10.0.0.1:7118"),
            ("HEADCOUNT_PORT_7118_TCP_PROTO", "tcp"),
        ];
        let linked = Loader::new().host_name("h").environment(links.map(|(n, v)| (n.to_owned(), v.to_owned())));
        let loaded = linked.load().expect("nothing of ours");
        let told: Vec<_> = loaded.warnings.iter().map(ToString::to_string).collect();
        assert_eq!(told.len(), links.len(), "{told:?}");
        for (told, (name, _)) in told.iter().zip(links) {
            assert!(told.starts_with(&format!("environment {name}: is ignored")), "{told}");
            assert!(told.contains("enableServiceLinks"), "{told}");
        }
        assert_eq!(loaded.agent, Loader::new().host_name("h").load().expect("defaults").agent);
    }

    #[cfg(feature = "sqlite")]
    #[test]
    fn a_node_that_never_leads_the_cluster_is_warned_of() {
        let warned = |leases: &[&str]| {
            let with = Loader::new().host_name("h").flag("leadership.mode", "--lease-url", "lease");
            let with = with.flag("leadership.lease.url", "--lease-url", "sqlite://a.db");
            let given = leases.iter().map(|lease| (*lease).to_owned());
            let variable = ("HEADCOUNT_LEADERSHIP__LEASE__LEASES".to_owned(), given.collect::<Vec<_>>().join(","));
            let loaded = with.environment([variable]).load().expect("good");
            loaded.warnings.iter().map(ToString::to_string).collect::<Vec<_>>()
        };
        assert!(warned(&["default", "billing"]).is_empty());
        let told = warned(&["billing"]);
        assert!(
            told.len() == 1 && told[0].contains("leadership.lease.leases") && told[0].contains("--lease"),
            "{told:?}"
        );
    }

    #[test]
    fn a_flag_for_a_key_that_does_not_exist_is_refused() {
        let error = Loader::new().host_name("h").flag("nmae", "--name", "a").load().expect_err("no such key");
        assert!(error.to_string().contains("flag --name: unknown key nmae"), "{error}");
    }
}
