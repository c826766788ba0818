//! Stores a given value in its field of the configuration: one check per form, used by every row of the table of keys.
//!
//! Checks a value alone: its type, its syntax, its unit. What [`Config::problems`](super::Config::problems) asks of single
//! values is asked here too, so that a value is checked with its own source even if a stronger layer hides it. A refused
//! value changes nothing. Knows no layers.

use std::collections::BTreeMap;

use super::addresses::{check_seed, check_seed_count, is_host_name};
use super::agent::AgentConfig;
use super::error::ConfigError;
use super::given::{Item, Value};
use super::keys::{Key, Slot};
use super::leadership::check_voters;
use super::lease::check_leases;
use super::problem::Problem;
use super::words::{address, duration, path};
use crate::core::{NodeId, Tags};
use crate::lease::LeaseName;
use crate::seal::{Key as SealKey, MAX_KEYS};

/// The greatest number of names in `http.allowed_hosts`.
const MAX_ALLOWED_HOSTS: usize = 64;

impl Key {
    /// Stores a value in its field, or returns the problems that speak against it.
    pub(super) fn set(&self, agent: &mut AgentConfig, item: &Item) -> Result<(), Vec<Problem>> {
        match (&self.slot, &item.value) {
            (Slot::Text(set), Value::Text(text)) => set(agent, text).map_err(|reason| self.refuse(item, reason)),
            (Slot::FreeText(check, place), Value::Text(text)) => {
                check(text).map_err(|error| self.of_config(item, &error))?;
                *place(agent) = Some(text.clone());
                Ok(())
            }
            (Slot::Address(check, place), Value::Text(text)) => {
                let address = address(text).map_err(|reason| self.refuse(item, reason))?;
                check(address).map_err(|error| self.of_config(item, &error))?;
                *place(agent) = Some(address);
                Ok(())
            }
            (Slot::Name(place), Value::Text(text)) => {
                *place(agent) = self.valid_name(item, NodeId::new(text))?;
                Ok(())
            }
            (Slot::Path(place), Value::Text(text)) => {
                *place(agent) = Some(path(text).map_err(|reason| self.refuse(item, reason))?);
                Ok(())
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
                agent.handlers = super::handlers::read((self.name(), self.range()), item, items)?;
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

    /// Reads the entries of a list; returns those that are good, and what is wrong with each of the others.
    fn entries<T>(
        &self,
        items: &[Item],
        read: impl Fn(&Item, &str) -> Result<T, Vec<Problem>>,
    ) -> (Vec<T>, Vec<Problem>) {
        let (mut entries, mut problems) = (Vec::new(), Vec::new());
        for item in items {
            let entry = match &item.value {
                Value::Text(text) => read(item, text),
                value => Err(self.wrong_type(item, value)),
            };
            match entry {
                Ok(entry) => entries.push(entry),
                Err(refused) => problems.extend(refused),
            }
        }
        (entries, problems)
    }

    fn seeds(&self, whole: &Item, items: &[Item]) -> Result<Vec<String>, Vec<Problem>> {
        let (seeds, mut problems) = self.entries(items, |item, seed| {
            check_seed(seed).map(|()| seed.to_owned()).map_err(|error| self.of_config(item, &error))
        });
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
        let (voters, mut problems) = self.entries(items, |item, name| self.valid_name(item, NodeId::new(name)));
        if let Err(error) = check_voters(&voters) {
            problems.extend(self.of_config(whole, &error));
        }
        if problems.is_empty() { Ok(voters) } else { Err(problems) }
    }

    fn leases(&self, whole: &Item, items: &[Item]) -> Result<Vec<LeaseName>, Vec<Problem>> {
        let (leases, mut problems) = self.entries(items, |item, name| self.valid_name(item, LeaseName::new(name)));
        if let Err(error) = check_leases(&leases)
            && problems.is_empty()
        {
            problems.extend(self.of_config(whole, &error));
        }
        if problems.is_empty() { Ok(leases) } else { Err(problems) }
    }

    fn hosts(&self, whole: &Item, items: &[Item]) -> Result<Vec<String>, Vec<Problem>> {
        let (hosts, mut problems) = self.entries(items, |item, name| {
            let refused = || self.refuse(item, "is not a host name without a port");
            is_host_name(name).then(|| name.to_owned()).ok_or_else(refused)
        });
        if items.len() > MAX_ALLOWED_HOSTS {
            problems.extend(self.refuse(whole, "has too many names"));
        }
        if problems.is_empty() { Ok(hosts) } else { Err(problems) }
    }

    fn valid_name<N>(&self, item: &Item, name: Result<N, impl std::fmt::Display>) -> Result<N, Vec<Problem>> {
        name.map_err(|error| self.refuse(item, format!("is not a valid name: {error}")))
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
