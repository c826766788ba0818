//! Stores a given value in its field of the configuration: one check per form, used by every row of the table of keys.
//!
//! Checks a value alone: its type, its syntax, its unit. A refused value changes nothing. Knows no layers.

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

use super::addresses::{check_advertise, check_api_address, check_bind, check_seed, check_seed_count, is_host_name};
use super::agent::AgentConfig;
use super::error::ConfigError;
use super::given::{Item, Value};
use super::keys::{Key, Slot};
use super::leadership::check_voters;
use super::lease::check_leases;
use super::problem::Problem;
use crate::core::{NodeId, Tags};
use crate::lease::LeaseName;
use crate::seal::{Key as SealKey, MAX_KEYS};
use crate::text::{MAX_SHOWN, visible};

/// The greatest number of names in `http.allowed_hosts`.
const MAX_ALLOWED_HOSTS: usize = 64;

impl Key {
    /// Stores a value in its field, or returns the problems that speak against it.
    pub(super) fn set(&self, agent: &mut AgentConfig, item: &Item) -> Result<(), Vec<Problem>> {
        match (&self.slot, &item.value) {
            (Slot::Text(set), Value::Text(text)) => {
                self.judge(item).map_err(|error| self.of_config(item, &error))?;
                set(agent, text).map_err(|reason| self.refuse(item, reason))
            }
            (Slot::Duration(place), Value::Text(text)) => {
                *place(agent) = duration(text).map_err(|reason| self.refuse(item, reason))?;
                Ok(())
            }
            (Slot::DerivedDuration(place), Value::Text(text)) => {
                *place(agent) = Some(duration(text).map_err(|reason| self.refuse(item, reason))?);
                Ok(())
            }
            (Slot::Duration(_) | Slot::DerivedDuration(_), Value::Integer(_)) => {
                Err(self.refuse(item, format!("has no unit; write \"{0}s\" or \"{0}ms\"", item.found)))
            }
            (Slot::Count(place), Value::Integer(number)) => {
                *place(agent) = usize::try_from(*number).map_err(|_| self.refuse(item, "is out of range"))?;
                Ok(())
            }
            (Slot::CountWithin(range, place), Value::Integer(number)) => {
                let count = usize::try_from(*number).ok().filter(|count| range.contains(count));
                *place(agent) = count.ok_or_else(|| self.refuse(item, "is out of range"))?;
                Ok(())
            }
            (Slot::Byte(place), Value::Integer(number)) => {
                *place(agent) = u8::try_from(*number).map_err(|_| self.refuse(item, "is out of range"))?;
                Ok(())
            }
            (Slot::Switch(place), Value::Boolean(on)) => {
                *place(agent) = *on;
                Ok(())
            }
            (Slot::Seeds, Value::List(items)) => {
                agent.config.seeds = self.seeds(item, items)?;
                Ok(())
            }
            (Slot::Words(place), Value::List(items)) => {
                *place(agent) = self.words(items)?;
                Ok(())
            }
            (Slot::Voters, Value::List(items)) => {
                agent.config.leadership.voters = self.voters(item, items)?;
                Ok(())
            }
            (Slot::Leases, Value::List(items)) => {
                agent.config.leadership.lease.leases = self.leases(item, items)?;
                Ok(())
            }
            (Slot::Hosts, Value::List(items)) => {
                agent.http.allowed_hosts = self.hosts(item, items)?;
                Ok(())
            }
            (Slot::Handlers, Value::List(items)) => {
                agent.handlers = super::handlers::read(self, item, items)?;
                Ok(())
            }
            (Slot::SealKeys, Value::List(items)) => {
                agent.config.seal.keys = self.seal_keys(item, items)?;
                Ok(())
            }
            (Slot::Tags, Value::Table(entries)) => {
                agent.config.tags = self.tags(item, entries)?;
                Ok(())
            }
            (_, value) => Err(self.wrong_type(item, value)),
        }
    }

    /// Makes the checks that [`Config::problems`](super::Config::problems) makes of single values here too: so a value
    /// is checked with its own source even if a stronger layer hides it.
    fn judge(&self, item: &Item) -> Result<(), ConfigError> {
        let Value::Text(text) = &item.value else { return Ok(()) };
        match (self.name(), text.parse::<SocketAddr>()) {
            ("bind", Ok(address)) => check_bind(address),
            ("advertise", Ok(address)) => check_advertise(address),
            ("api_address", _) => check_api_address(text),
            _ => Ok(()),
        }
    }

    fn seeds(&self, whole: &Item, items: &[Item]) -> Result<Vec<String>, Vec<Problem>> {
        let mut seeds = Vec::new();
        let mut problems = Vec::new();
        for item in items {
            match &item.value {
                Value::Text(seed) => match check_seed(seed) {
                    Ok(()) => seeds.push(seed.clone()),
                    Err(error) => problems.extend(self.of_config(item, &error)),
                },
                value => problems.extend(self.wrong_type(item, value)),
            }
        }
        if let Err(error) = check_seed_count(items.len()) {
            problems.extend(self.of_config(whole, &error));
        }
        if problems.is_empty() { Ok(seeds) } else { Err(problems) }
    }

    fn words(&self, items: &[Item]) -> Result<Vec<String>, Vec<Problem>> {
        let word = |item: &Item| match &item.value {
            Value::Text(text) if text.contains('\0') => Err(self.refuse(item, "contains a NUL byte")),
            Value::Text(text) => Ok(text.clone()),
            value => Err(self.wrong_type(item, value)),
        };
        items.iter().map(word).collect()
    }

    fn voters(&self, whole: &Item, items: &[Item]) -> Result<Vec<NodeId>, Vec<Problem>> {
        let mut voters = Vec::new();
        let mut problems = Vec::new();
        for item in items {
            match &item.value {
                Value::Text(name) => match NodeId::new(name) {
                    Ok(name) => voters.push(name),
                    Err(error) => problems.extend(self.refuse(item, format!("is not a valid name: {error}"))),
                },
                value => problems.extend(self.wrong_type(item, value)),
            }
        }
        if let Err(error) = check_voters(&voters) {
            problems.extend(self.of_config(whole, &error));
        }
        if problems.is_empty() { Ok(voters) } else { Err(problems) }
    }

    fn leases(&self, whole: &Item, items: &[Item]) -> Result<Vec<LeaseName>, Vec<Problem>> {
        let mut leases = Vec::new();
        let mut problems = Vec::new();
        for item in items {
            match &item.value {
                Value::Text(name) => match LeaseName::new(name) {
                    Ok(name) => leases.push(name),
                    Err(error) => problems.extend(self.refuse(item, format!("is not a valid name: {error}"))),
                },
                value => problems.extend(self.wrong_type(item, value)),
            }
        }
        if let Err(error) = check_leases(&leases)
            && problems.is_empty()
        {
            problems.extend(self.of_config(whole, &error));
        }
        if problems.is_empty() { Ok(leases) } else { Err(problems) }
    }

    fn hosts(&self, whole: &Item, items: &[Item]) -> Result<Vec<String>, Vec<Problem>> {
        let mut hosts = Vec::new();
        let mut problems = Vec::new();
        for item in items {
            match &item.value {
                Value::Text(name) if is_host_name(name) => hosts.push(name.clone()),
                Value::Text(_) => problems.extend(self.refuse(item, "is not a host name without a port")),
                value => problems.extend(self.wrong_type(item, value)),
            }
        }
        if items.len() > MAX_ALLOWED_HOSTS {
            problems.extend(self.refuse(whole, "has too many names"));
        }
        if problems.is_empty() { Ok(hosts) } else { Err(problems) }
    }

    fn seal_keys(&self, whole: &Item, items: &[Item]) -> Result<Vec<SealKey>, Vec<Problem>> {
        let keys = items.iter().map(|item| match &item.value {
            Value::Text(text) => SealKey::parse(text).map_err(|error| self.refuse(item, format!("is no key: {error}"))),
            value => Err(self.wrong_type(item, value)),
        });
        let keys = keys.collect::<Result<Vec<_>, _>>()?;
        if keys.len() > MAX_KEYS { Err(self.refuse(whole, "has too many keys")) } else { Ok(keys) }
    }

    fn tags(&self, whole: &Item, entries: &[(String, Item)]) -> Result<Tags, Vec<Problem>> {
        let mut tags = BTreeMap::new();
        let mut problems = Vec::new();
        for (name, item) in entries {
            let key = format!("{}.{}", self.name(), super::problem::printable(name));
            let refuse = |reason: String| {
                Problem::new(item.source.clone(), reason).key(&*key).found(self.showable(item)).allowed(self.range())
            };
            match &item.value {
                // Each tag is checked alone first, so that a malformed one is reported with its own line.
                Value::Text(text) => match Tags::from_operator(BTreeMap::from([(name.clone(), text.clone())])) {
                    Ok(_) => {
                        tags.insert(name.clone(), text.clone());
                    }
                    Err(error) => problems.push(refuse(format!("is not a valid tag: {error}"))),
                },
                value => problems.push(refuse(format!("is {}, a tag is a string in quotes", value.type_name()))),
            }
        }
        if !problems.is_empty() {
            return Err(problems);
        }
        Tags::new(tags).map_err(|error| self.refuse(whole, format!("is too much: {error}")))
    }

    fn wrong_type(&self, item: &Item, value: &Value) -> Vec<Problem> {
        let problem = self.problem(item, format!("is {}", value.type_name()));
        vec![problem.hint(format!("write {}", self.form().description()))]
    }

    fn refuse(&self, item: &Item, reason: impl AsRef<str>) -> Vec<Problem> {
        vec![self.problem(item, reason)]
    }

    fn of_config(&self, item: &Item, error: &ConfigError) -> Vec<Problem> {
        vec![self.problem(item, error.reason()).allowed(error.allowed())]
    }

    fn problem(&self, item: &Item, reason: impl AsRef<str>) -> Problem {
        Problem::new(item.source.clone(), reason).key(self.name()).found(self.showable(item)).allowed(self.range())
    }
}

/// Parses a number with its unit, in whole milliseconds: a finer fraction would be lost on the wire without a word.
pub(super) fn duration(text: &str) -> Result<Duration, String> {
    let trimmed = text.trim();
    if !trimmed.is_empty() && trimmed.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.') {
        return Err(format!("has no unit; write \"{trimmed}s\" or \"{trimmed}ms\""));
    }
    let duration = humantime::parse_duration(trimmed).map_err(|error| {
        format!("is not a valid duration ({error}); write a number and its unit, as in \"5s\" or \"500ms\"")
    })?;
    if duration.subsec_nanos() % 1_000_000 != 0 {
        return Err("is not a whole number of milliseconds".to_owned());
    }
    Ok(duration)
}

/// Parses an address to bind or to advertise. Host names are refused: a name may stand for several addresses.
pub(super) fn address(text: &str) -> Result<SocketAddr, String> {
    text.parse().map_err(|_| {
        if text.parse::<IpAddr>().is_ok() {
            "has no port; write it as in \"10.0.0.1:7117\" or \"[2001:db8::1]:7117\"".to_owned()
        } else {
            "is not an IP address with a port; write it as in \"10.0.0.1:7117\" or \"[2001:db8::1]:7117\"".to_owned()
        }
    })
}

/// Parses a path. Relative paths are relative to the directory in which the process was started.
pub(super) fn path(text: &str) -> Result<PathBuf, String> {
    match text {
        "" => Err("is empty; leave the key out instead".to_owned()),
        text if text.contains('\0') => Err("contains a NUL byte".to_owned()),
        text => Ok(PathBuf::from(text)),
    }
}

/// Checks log directives. A single word must be a level: `EnvFilter` would take any other word as the name of a target
/// and then log nothing else, which is never what `level = "verbose"` meant.
pub(super) fn directives(text: &str) -> Result<String, String> {
    use tracing_subscriber::filter::{EnvFilter, LevelFilter};
    if text.trim().is_empty() {
        return Err("is empty; to log nothing write \"off\"".to_owned());
    }
    for directive in text.split(',').map(str::trim) {
        // An empty text parses as a level, too.
        let is_level = !directive.is_empty() && directive.parse::<LevelFilter>().is_ok();
        if !is_level && !directive.contains(['=', '[']) {
            let directive = visible(directive, MAX_SHOWN);
            return Err(format!("contains \"{directive}\", which is not a valid level"));
        }
    }
    EnvFilter::try_new(text).map_err(|error| format!("is not a valid log directive ({error})"))?;
    Ok(text.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_duration_has_a_unit_and_is_whole_milliseconds() {
        for (text, milliseconds) in [("5s", 5_000), ("500ms", 500), ("1m 30s", 90_000), (" 24h ", 86_400_000)] {
            assert_eq!(duration(text), Ok(Duration::from_millis(milliseconds)), "{text}");
        }
        for (text, reason) in [
            ("5", "has no unit; write \"5s\" or \"5ms\""),
            ("0.5", "has no unit"),
            ("", "is not a valid duration"),
            ("-5s", "is not a valid duration"),
            ("5 parsecs", "is not a valid duration"),
            ("1500us", "is not a whole number of milliseconds"),
            ("99999999999999999999s", "is not a valid duration"),
        ] {
            let refused = duration(text).expect_err(text);
            assert!(refused.contains(reason), "{text}: {refused}");
        }
    }

    #[test]
    fn log_directives_are_levels_or_targets_with_levels() {
        for good in ["info", "WARN", "off", "headcount=debug", "warn,headcount::core=trace", "[span]=info"] {
            assert!(directives(good).is_ok(), "{good}");
        }
        for bad in ["", "verbose", "info,", "headcount=loud", "info,headcount"] {
            assert!(directives(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn an_address_has_a_port_and_no_name() {
        assert!(address("[::1]:0").is_ok());
        assert!(address("10.0.0.1").is_err_and(|reason| reason.contains("has no port")));
        assert!(address("localhost:7117").is_err_and(|reason| reason.contains("is not an IP address")));
    }
}
