//! Stores a given value in its field of the configuration: one check per form, used by every row of the table of keys.
//!
//! Checks a value alone: its type, its syntax, its unit. A refused value changes nothing. Knows no layers.

use std::collections::BTreeMap;
use std::net::SocketAddr;

use super::addresses::{check_advertise, check_api_address, check_bind, check_seed, check_seed_count, is_host_name};
use super::agent::AgentConfig;
use super::error::ConfigError;
use super::given::{Item, Value};
use super::keys::{Key, Slot};
use super::leadership::check_voters;
use super::lease::check_leases;
use super::problem::Problem;
use super::words::duration;
use crate::core::{NodeId, Tags};
use crate::lease::LeaseName;
use crate::seal::{Key as SealKey, MAX_KEYS};

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
