//! The differences between two configurations, and which of them a running agent applies without a restart.
//!
//! Compares values, key by key of the one table; the sources of values do not matter, and the *contents* of a file that
//! a value names are not compared. Must not know how a running agent applies a change.

use std::fmt;

use super::keys::{LivePart, keys};
use super::layers::Loaded;

/// A key whose value has changed.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct SettingChange {
    /// The key, with its section.
    pub key: &'static str,
    /// The value until now, as `config show` prints it.
    pub old: String,
    /// The new value.
    pub new: String,
    /// The part of a running agent that takes the change up; without one it counts after a restart.
    pub live_part: Option<LivePart>,
}

/// `log.level: info -> debug`, followed by `(after a restart)` if no running agent takes it up.
impl fmt::Display for SettingChange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { key, old, new, live_part } = self;
        write!(f, "{key}: {old} -> {new}{}", if live_part.is_some() { "" } else { " (after a restart)" })
    }
}

impl Loaded {
    /// Returns the differences to a newer configuration, in the order of the table of keys; empty if there are none.
    pub fn changes(&self, newer: &Loaded) -> Vec<SettingChange> {
        let is_in_use =
            |key: &super::Key| [self, newer].iter().any(|one| key.is_in_use(one.agent.config.leadership.mode));
        let differs = keys().filter(|key| is_in_use(key) && key.differs(&self.agent, &newer.agent));
        let change = |key: &'static super::Key| SettingChange {
            key: key.name(),
            old: self.shown(key),
            new: newer.shown(key),
            live_part: key.live_part(),
        };
        differs.map(change).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Loader;

    fn loaded(flags: &[(&str, &str)]) -> Loaded {
        let loader =
            flags.iter().fold(Loader::new().host_name("h"), |loader, (key, value)| loader.flag(key, "--x", *value));
        loader.load().expect("a good configuration")
    }

    #[test]
    fn the_same_values_are_no_change_wherever_they_come_from() {
        let defaults = loaded(&[]);
        assert_eq!(defaults.changes(&defaults), []);
        let said = loaded(&[("log.level", "info"), ("timing.down_timeout", "15s"), ("profile", "default")]);
        assert_eq!(defaults.changes(&said), []);
    }

    #[test]
    fn tags_and_log_level_change_at_once_and_all_else_with_a_restart() {
        let old = loaded(&[("tags", "zone=eu-1")]);
        let new = loaded(&[("tags", "zone=eu-2"), ("log.level", "debug"), ("mtu", "1200"), ("bind", "127.0.0.1:0")]);
        let told: Vec<_> = old.changes(&new).iter().map(ToString::to_string).collect();
        let expected = [
            "bind: 127.0.0.1:7117 -> 127.0.0.1:0 (after a restart)",
            "tags: zone=eu-1 -> zone=eu-2",
            "mtu: 1400 -> 1200 (after a restart)",
            "log.level: info -> debug",
        ];
        assert_eq!(told, expected);
        let back = new.changes(&old);
        assert_eq!((back[1].old.as_str(), back[1].new.as_str()), ("zone=eu-2", "zone=eu-1"));
        assert_eq!((back[1].live_part, back[0].live_part), (Some(LivePart::Tags), None));
    }

    #[test]
    fn a_key_is_told_that_counts_in_the_mode_of_leadership() {
        let in_mode = |mode: &'static [(&'static str, &'static str)], more: &[(&'static str, &'static str)]| {
            loaded(&[mode, more].concat())
        };
        let told = |mode: &'static [(&'static str, &'static str)]| {
            let changes = in_mode(mode, &[]).changes(&in_mode(mode, &[("profile", "lan")]));
            let keys = changes.iter().map(|change| change.key).filter(|key| key.starts_with("leadership."));
            keys.map(|key| key.rsplit_once('.').expect("a section").0).collect::<std::collections::BTreeSet<_>>()
        };
        assert!(told(&[]).is_empty());
        let quorum = &[("leadership.mode", "quorum"), ("data_dir", "data")];
        assert!(told(quorum).iter().eq(["leadership"].iter()), "{:?}", told(quorum));
        let changes = in_mode(&[], &[]).changes(&in_mode(quorum, &[]));
        assert!(changes.iter().any(|change| change.key == "leadership.mode"), "{changes:?}");
    }

    #[test]
    fn a_profile_changes_all_its_figures() {
        let changes = loaded(&[]).changes(&loaded(&[("profile", "lan")]));
        let keys: Vec<_> = changes.iter().map(|change| change.key).collect();
        assert!(keys.contains(&"profile") && keys.contains(&"timing.down_timeout"), "{keys:?}");
        assert!(changes.iter().all(|change| change.live_part.is_none()));
    }
}
