//! [`LeadershipConfig`]: the source of leadership, the voters, and the timing.
//!
//! Values and the profiles' defaults only. Conditions *together* with the rest of the configuration are checked by
//! [`Config::problems`](super::Config::problems).

use std::fmt;

use super::{ConfigError, LeaseConfig};
use crate::core::election::{LeaderPolicy, LeaseTiming};
use crate::core::limits::MAX_VOTERS;
use crate::core::{NodeId, Profile};

/// Section `[leadership]`.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct LeadershipConfig {
    /// The source of leadership.
    pub mode: LeadershipMode,
    /// The nodes that form the first electorate, at most seven; without effect once there is one, which is then in the
    /// data directories. Empty: this node does not vote (unless its data directory says otherwise) and learns who
    /// leads.
    pub voters: Vec<NodeId>,
    /// The length of a lease, and the interval between renewals. Not reloadable.
    pub timing: LeaseTiming,
    /// The preference for this node as a leader, and the way it gives leadership up. Not reloadable.
    pub policy: LeaderPolicy,
    /// The database of the mode `lease`. Not reloadable.
    pub lease: LeaseConfig,
}

/// The source of leadership.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
#[non_exhaustive]
pub enum LeadershipMode {
    /// There is no leader.
    #[default]
    None,
    /// A majority of a few voters elects the leader.
    Quorum,
    /// The holder of a lease in a database leads.
    Lease,
}

impl LeadershipMode {
    /// Returns the mode's name in configuration and JSON.
    pub const fn name(self) -> &'static str {
        match self {
            LeadershipMode::None => "none",
            LeadershipMode::Quorum => "quorum",
            LeadershipMode::Lease => "lease",
        }
    }
}

impl fmt::Display for LeadershipMode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl LeadershipConfig {
    /// Returns the mode `none` with the timing of a profile.
    pub(super) fn of(profile: Profile) -> Self {
        Self {
            mode: LeadershipMode::None,
            voters: Vec::new(),
            timing: profile.lease_timing(),
            policy: LeaderPolicy::default(),
            lease: LeaseConfig::default(),
        }
    }

    /// Returns the problems of this section by itself.
    pub(super) fn problems(&self) -> Vec<ConfigError> {
        let mut problems: Vec<ConfigError> = self.timing.check().err().into_iter().map(Into::into).collect();
        problems.extend(check_voters(&self.voters).err());
        if self.mode != LeadershipMode::Quorum && !self.voters.is_empty() {
            problems.push(ConfigError::VotersWithoutQuorum { count: self.voters.len(), mode: self.mode.name() });
        }
        match (self.mode, &self.lease.url) {
            (LeadershipMode::Lease, _) => problems.extend(self.lease.problems(self.timing)),
            (_, Some(url)) => {
                problems.push(ConfigError::UrlWithoutLease { found: url.to_string(), mode: self.mode.name() });
            }
            _ => {}
        }
        problems
    }
}

/// Checks that there are at most seven voters, and none twice: a name listed twice means that another one is missing.
pub(super) fn check_voters(voters: &[NodeId]) -> Result<(), ConfigError> {
    if voters.len() > MAX_VOTERS {
        return Err(ConfigError::TooManyVoters { count: voters.len() });
    }
    match voters.iter().enumerate().find(|(at, id)| voters[..*at].contains(id)) {
        Some((_, id)) => Err(ConfigError::VoterTwice { id: id.clone() }),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Config;

    #[test]
    fn every_profile_has_a_pace_that_works() {
        for profile in Profile::ALL {
            let config = Config::new("a").expect("a name").with_profile(profile);
            assert_eq!(config.leadership.timing.check(), Ok(()), "{profile}");
            assert!(config.leadership.problems().is_empty());
        }
    }

    #[test]
    fn a_voter_that_forgets_is_refused_with_the_reason() {
        let quorum = Config::new("a").expect("a name").with_voters(["a", "b", "c"]).expect("names");
        let error = quorum.check().expect_err("no data directory");
        assert_eq!(error.key(), "leadership.mode");
        assert!(error.to_string().contains("two leaders") && error.to_string().contains("data_dir"), "{error}");
        let mut kept = quorum.clone();
        kept.data_dir = Some("d".into());
        assert_eq!(kept.check(), Ok(()));
        kept.leadership.voters.clear();
        assert_eq!(kept.check(), Ok(()), "a member that only learns");
    }

    #[test]
    fn voters_that_elect_nobody_are_refused() {
        let mut config = Config::new("a").expect("a name").with_voters(["a"]).expect("a name");
        config.data_dir = Some("d".into());
        config.leadership.mode = LeadershipMode::None;
        let error = config.check().expect_err("nobody is elected");
        assert_eq!((error.key(), error.other_key()), ("leadership.voters", Some("leadership.mode")));
        assert!(error.to_string().contains("leadership.mode = \"quorum\""), "{error}");
        config.leadership.voters.clear();
        assert_eq!(config.check(), Ok(()));
    }

    #[test]
    fn voters_are_few_and_different() {
        let with = |voters: &[&str]| {
            let mut config = Config::new("a").expect("a name").with_voters(voters.iter().copied()).expect("names");
            config.data_dir = Some("d".into());
            config.check()
        };
        assert_eq!(with(&["a", "b", "c", "d", "e", "f", "g"]), Ok(()));
        assert_eq!(with(&["a"; 8]), Err(ConfigError::TooManyVoters { count: 8 }));
        assert!(matches!(with(&["a", "b", "a"]), Err(ConfigError::VoterTwice { id }) if id == "a"));
    }
}
