//! The layers: flag > environment > file > profile > default. Merges them and remembers the source of each value.
//!
//! [`Loader`] collects them; `variables` knows which variables are ours, `texts` reads their values and those of flags, `merge` applies and judges, `secrets` reads the
//! files with tokens and keys, `warnings` says what is probably a mistake.
//!
//! Every given value is checked with its own source, also one that a stronger layer hides: a file that is refused today
//! is refused whatever flags the agent is started with. Combinations are checked once, on the effective values. Nothing
//! is read but the file, and the files of tokens and keys that it names: environment and flags are handed in, so that tests need no
//! process of their own.
//!
//! A setting that works but is probably a mistake is a warning: a [`Problem`] like those that refuse, beside the
//! result.

mod merge;
mod secrets;
mod texts;
mod variables;
mod warnings;

use std::collections::BTreeMap;
use std::path::PathBuf;

use self::merge::Merge;
use self::variables::{is_service_link, service_link, variable};
use super::agent::AgentConfig;
use super::file;
use super::given::Item;
use super::keys::{Key, PREFIX, find};
use super::problem::{LoadError, Problem, Source, printable};
use super::token::Token;

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

/// Loads the configuration that the file alone gives. The machine's host name plays no part.
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
        self.merged()?.finish()
    }

    /// Merges the layers, and notes what is wrong.
    fn merged(&self) -> Result<Merge, LoadError> {
        let mut given = Vec::new();
        let mut merge = Merge::new();
        if let Some(path) = &self.file {
            let unreadable = |error| LoadError::Unreadable { path: path.clone(), error };
            let (from_file, problems) = file::parse(path, &file::read(path).map_err(unreadable)?);
            given.extend(from_file);
            merge.problems.extend(problems);
        }
        self.read_environment(&mut merge, &mut given);
        for flag in &self.flags {
            merge.note(self::flag(flag), &mut given);
        }
        let (profile, others): (Vec<_>, Vec<_>) = given.into_iter().partition(|(key, _)| key.is_first());
        merge.profile(&profile);
        merge.apply(&others);
        merge.name(self.host_name.as_deref());
        merge.judge_together();
        merge.judge_token_files();
        merge.judge_key_file();
        merge.warn();
        Ok(merge)
    }

    /// Checks the file as it stands alone, and each variable by itself, for `headcount config check FILE`: an agent refuses
    /// a misspelt variable, and a value that its key may not have, whatever the file says; and an empty list of keys, unless
    /// the file or a variable says what is to happen then; and to be reached by other machines without a key, which may be in
    /// a variable. Otherwise the variables play no part, since the file may be for another machine.
    pub(crate) fn check(&self) -> Result<Loaded, LoadError> {
        let (mut merge, mut given) = (Merge::new(), Vec::new());
        merge.apply(&self.seals_of_file());
        // They are told with the file.
        merge.problems.clear();
        self.read_environment(&mut merge, &mut given);
        merge.apply(&given);
        merge.judge_keys();
        let alone = Self { file: self.file.clone(), host_name: Some("any".to_owned()), ..Self::default() };
        let mut alone = alone.merged()?;
        let environment = self.environment.clone();
        let whole = Self { file: self.file.clone(), environment, host_name: Some("any".to_owned()), ..Self::default() };
        alone.gate = whole.merged()?.gate;
        let mut problems = match alone.finish() {
            Ok(mut loaded) if merge.problems.is_empty() => {
                loaded.warnings.append(&mut merge.warnings);
                return Ok(loaded);
            }
            Ok(_) => Vec::new(),
            Err(LoadError::Refused { problems }) => problems,
            Err(unreadable) => return Err(unreadable),
        };
        problems.append(&mut merge.problems);
        Err(LoadError::Refused { problems })
    }

    /// Returns what the file says of sealing beside the keys themselves; nothing of a file that cannot be read.
    fn seals_of_file(&self) -> Vec<Given> {
        let Some((path, bytes)) = self.file.as_ref().and_then(|path| Some((path, file::read(path).ok()?))) else {
            return Vec::new();
        };
        let (given, _) = file::parse(path, &bytes);
        given.into_iter().filter(|(key, _)| ["seal.mode", "seal.key_file"].contains(&key.name())).collect()
    }

    /// Reads the variables.
    fn read_environment(&self, merge: &mut Merge, given: &mut Vec<Given>) {
        for (name, value) in &self.environment {
            if is_service_link(name, value.as_deref().unwrap_or_default()) {
                merge.warnings.push(service_link(name));
                continue;
            }
            merge.note(variable(name, value.as_deref()), given);
        }
    }
}

type Given = (&'static Key, Item);

fn flag(flag: &Flag) -> Result<Option<Given>, Vec<Problem>> {
    let source = Source::Flag(flag.name.clone());
    let Some(key) = find(&flag.key) else {
        return Err(vec![Problem::new(source, format!("unknown key {}", printable(&flag.key)))]);
    };
    Ok(Some((key, Item::from_flag(key, source, &flag.values)?)))
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
    fn a_check_judges_the_file_alone_and_each_variable_by_itself() {
        let directory = tempfile::tempdir().expect("a directory");
        let (good, bad) = (directory.path().join("good.toml"), directory.path().join("bad.toml"));
        std::fs::write(&good, "mtu = 1200\n").expect("written");
        std::fs::write(&bad, "mtu = 9000\n").expect("written");
        let checked = |file: &std::path::Path, variables: &[(&str, &str)]| {
            let variables = variables.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
            Loader::new().file(file).environment(variables).check()
        };
        let told = |file, variables: &[_]| checked(file, variables).expect_err("refused").to_string();
        let misspelt = told(&good, &[("HEADCOUNT_NMAE", "a")]);
        assert!(misspelt.contains("environment HEADCOUNT_NMAE: is not a known variable"), "{misspelt}");
        assert!(misspelt.contains("did you mean HEADCOUNT_NAME?"), "{misspelt}");
        let unreadable = told(&good, &[("HEADCOUNT_MTU", "wide")]);
        assert!(unreadable.contains("environment HEADCOUNT_MTU"), "{unreadable}");
        let both = told(&bad, &[("HEADCOUNT_NMAE", "a"), ("HEADCOUNT_MTU", "1300")]);
        assert!(both.contains("bad.toml:1: mtu = 9000") && both.contains("HEADCOUNT_NMAE"), "{both}");
        // What is good alone may not be good together, on this machine; the file is for any.
        let loaded = checked(&good, &[("HEADCOUNT_MTU", "1300"), ("HEADCOUNT_LEADERSHIP__MODE", "quorum")]);
        assert_eq!(loaded.expect("good").agent.config.settings.mtu, 1200);
        let empty = ("HEADCOUNT_SEAL__KEYS", "");
        assert!(told(&good, &[empty]).contains("HEADCOUNT_SEAL__KEYS: seal.keys = … names no key"), "as an agent says");
        assert!(
            checked(&good, &[empty, ("HEADCOUNT_SEAL__MODE", "off"), ("HEADCOUNT_CLUSTER", "mine")]).is_ok(),
            "it is meant"
        );
        let clear = directory.path().join("clear.toml");
        std::fs::write(&clear, "cluster = \"mine\"\n[seal]\nmode = \"off\"\n").expect("written");
        assert!(checked(&clear, &[empty]).is_ok(), "it is meant");
        let open = directory.path().join("open.toml");
        std::fs::write(&open, "bind = \"0.0.0.0:7117\"\n").expect("written");
        assert!(told(&open, &[]).contains("lets other machines in"));
        assert!(told(&good, &[("HEADCOUNT_BIND", "0.0.0.0:7117")]).contains("environment HEADCOUNT_BIND: bind = "));
        let key = ("HEADCOUNT_SEAL__KEYS", "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=");
        assert!(checked(&open, &[key]).is_ok(), "the key is a secret of the environment");
        let link = checked(&good, &[("HEADCOUNT_SERVICE_HOST", "10.0.0.1")]).expect("it is ignored");
        assert_eq!(link.warnings.len(), 1);
        assert!(matches!(checked(&directory.path().join("none"), &[]), Err(LoadError::Unreadable { .. })));
    }

    #[test]
    fn a_flag_for_a_key_that_does_not_exist_is_refused() {
        let error = Loader::new().host_name("h").flag("nmae", "--name", "a").load().expect_err("no such key");
        assert!(error.to_string().contains("flag --name: unknown key nmae"), "{error}");
    }
}
