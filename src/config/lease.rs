//! [`LeaseConfig`]: the database that leases are kept in, and the timing beside that of the lease itself.
//!
//! Invariants: the address of a database is never shown with its password, whatever is wrong with it. Values that are
//! not set follow from the length of the lease, so that changing one value is enough to change the timing.
//!
//! Must not know how a database is queried.

use std::fmt;
use std::net::SocketAddr;
use std::time::Duration;

use super::ConfigError;
use crate::core::OutOfRange;
use crate::core::election::LeaseTiming;
use crate::lease::{ContenderTiming, LeaseName, MAX_LEASES, TimingError, without_password};
use crate::text::{MAX_SHOWN, visible};

/// The greatest statement timeout that is chosen by default.
const USUAL_STATEMENT_TIMEOUT: Duration = Duration::from_secs(2);
/// The least statement timeout that stores accept.
const LEAST_STATEMENT_TIMEOUT: Duration = Duration::from_millis(100);

/// Section `[leadership.lease]`.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct LeaseConfig {
    /// The address of the database. Required if the mode is `lease`.
    pub url: Option<DatabaseUrl>,
    /// The schema of its tables (PostgreSQL only). `None`: the role's default schema.
    pub schema: Option<String>,
    /// The prefix of its tables' names.
    pub table_prefix: String,
    /// The leases that this node contends for, at most [`MAX_LEASES`]; more can be contended for with
    /// [`Agent::lease`](crate::Agent::lease). The holder of `default` leads the cluster.
    pub leases: Vec<LeaseName>,
    /// The time that the database may take for one round. `None`: half of the renewal interval, two seconds at most.
    pub statement_timeout: Option<Duration>,
    /// The greatest age of the last round of a node that is listed as active. `None`: two renewal intervals.
    pub liveness_window: Option<Duration>,
    /// The age at which rows are deleted. `None`: two leases.
    pub row_ttl: Option<Duration>,
    /// The address in this node's row, at which the agents of others bring it broadcasts. `None`: the one that it advertises.
    pub rpc_address: Option<SocketAddr>,
}

impl Default for LeaseConfig {
    fn default() -> Self {
        Self {
            url: None,
            schema: None,
            table_prefix: "cluster_".to_owned(),
            leases: vec![LeaseName::default()],
            statement_timeout: None,
            liveness_window: None,
            row_ttl: None,
            rpc_address: None,
        }
    }
}

impl LeaseConfig {
    /// Returns all durations, for leases of this timing.
    pub fn timing(&self, pace: LeaseTiming) -> ContenderTiming {
        let LeaseTiming { lease_duration, renewal_interval } = pace;
        let usual_timeout = (renewal_interval / 2).clamp(LEAST_STATEMENT_TIMEOUT, USUAL_STATEMENT_TIMEOUT);
        ContenderTiming {
            lease_duration,
            renewal_interval,
            liveness_window: self.liveness_window.unwrap_or(renewal_interval * 2),
            row_ttl: self.row_ttl.unwrap_or(lease_duration * 2),
            statement_timeout: self.statement_timeout.unwrap_or(usual_timeout),
        }
    }

    /// Returns the problems of this section if the mode is `lease`.
    pub(super) fn problems(&self, pace: LeaseTiming) -> Vec<ConfigError> {
        let mut problems = Vec::new();
        let names = self.names();
        match &self.url {
            None => problems.push(ConfigError::LeaseWithoutUrl),
            Some(url) => match url.check() {
                Ok(()) if names.is_empty() => problems.extend(self.check_store(url, pace).err()),
                Ok(()) => {}
                Err(error) => problems.push(error),
            },
        }
        problems.extend(check_leases(&self.leases).err());
        problems.extend(names);
        // The lease's own timing is checked for all modes.
        if pace.check().is_ok() {
            problems.extend(self.timing(pace).check().err().map(of_timing));
        }
        problems
    }

    /// Makes the checks that an agent's store makes at its start: what the address says, and what the environment adds to
    /// it.
    #[cfg(any(feature = "sqlite", feature = "postgres"))]
    fn check_store(&self, url: &DatabaseUrl, pace: LeaseTiming) -> Result<(), ConfigError> {
        use crate::lease::store::{Store, StoreUrl};
        let (Ok(parsed), Ok(options)) = (url.0.parse::<StoreUrl>(), self.options(super::DEFAULT_CLUSTER, pace)) else {
            return Ok(());
        };
        Store::check(&parsed, &options).map_err(|error| url.refused(&error))
    }

    #[cfg(not(any(feature = "sqlite", feature = "postgres")))]
    #[expect(clippy::unused_self, clippy::unnecessary_wraps, reason = "there is nothing to look at without a database")]
    fn check_store(&self, _url: &DatabaseUrl, _pace: LeaseTiming) -> Result<(), ConfigError> {
        Ok(())
    }

    /// Returns the options of the store for a cluster of this name.
    #[cfg(any(feature = "sqlite", feature = "postgres"))]
    pub(crate) fn options(
        &self,
        cluster: &str,
        pace: LeaseTiming,
    ) -> Result<crate::lease::store::StoreOptions, crate::lease::store::StoreError> {
        let options = crate::lease::store::StoreOptions::new(cluster)?.with_table_prefix(&self.table_prefix)?;
        let options = options.with_statement_timeout(self.timing(pace).statement_timeout)?;
        match &self.schema {
            Some(schema) => options.with_schema(schema),
            None => Ok(options),
        }
    }

    /// Returns the problems of the tables' names and of the statement timeout.
    #[cfg(any(feature = "sqlite", feature = "postgres"))]
    fn names(&self) -> Vec<ConfigError> {
        use crate::lease::store::StoreOptions;
        let options = || StoreOptions::new(super::DEFAULT_CLUSTER).expect("the default cluster has a good name");
        let refused = |key, found: &str, error: &dyn fmt::Display| {
            let found = format!("\"{}\"", visible(found, MAX_SHOWN));
            ConfigError::LeaseTables { key, found, reason: error.to_string() }
        };
        let mut problems = Vec::new();
        if let Err(error) = options().with_table_prefix(&self.table_prefix) {
            problems.push(refused("leadership.lease.table_prefix", &self.table_prefix, &error));
        }
        if let Some(schema) = &self.schema {
            let refused = |error: &dyn fmt::Display| refused("leadership.lease.schema", schema, error);
            problems.extend(options().with_schema(schema).err().map(|error| refused(&error)));
            if self.url.as_ref().is_some_and(|url| url.as_str().starts_with("sqlite:")) {
                problems.push(refused(&"SQLite files have none: use table_prefix"));
            }
        }
        if let Some(timeout) = self.statement_timeout
            && let Err(error) = options().with_statement_timeout(timeout)
        {
            problems.push(ConfigError::StatementTimeout { found: timeout, reason: error.to_string() });
        }
        problems
    }

    #[cfg(not(any(feature = "sqlite", feature = "postgres")))]
    #[expect(clippy::unused_self, reason = "there is nothing to look at without a database")]
    fn names(&self) -> Vec<ConfigError> {
        Vec::new()
    }
}

/// Checks that there is at least one lease, at most [`MAX_LEASES`], and none twice.
pub(super) fn check_leases(leases: &[LeaseName]) -> Result<(), ConfigError> {
    if leases.is_empty() || leases.len() > MAX_LEASES {
        return Err(ConfigError::LeaseCount { count: leases.len() });
    }
    match leases.iter().enumerate().find(|(at, lease)| leases[..*at].contains(lease)) {
        Some((_, lease)) => Err(ConfigError::LeaseTwice { lease: lease.clone() }),
        None => Ok(()),
    }
}

fn of_timing(error: TimingError) -> ConfigError {
    let TimingError { key, found, allowed, hint } = error;
    let found = humantime::format_duration(found).to_string();
    ConfigError::OutOfRange(OutOfRange { key, found, allowed: format!("{allowed}; {hint}") })
}

/// The address of a database: `sqlite://FILE` or `postgres://USER@HOST/DATABASE`. Shown without its password.
#[derive(Clone, PartialEq, Eq)]
pub struct DatabaseUrl(String);

impl DatabaseUrl {
    /// Wraps an address as the user wrote it; [`Config::check`](super::Config::check) checks it.
    pub fn new(url: impl Into<String>) -> Self {
        Self(url.into())
    }

    /// Returns the address, with its password.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    #[cfg(any(feature = "sqlite", feature = "postgres"))]
    pub(super) fn check(&self) -> Result<(), ConfigError> {
        use crate::lease::store::StoreUrl;
        self.0.parse::<StoreUrl>().map(|_| ()).map_err(|error| self.refused(&error))
    }

    #[cfg(not(any(feature = "sqlite", feature = "postgres")))]
    pub(super) fn check(&self) -> Result<(), ConfigError> {
        Err(self.refused(&"this build has no database: enable the cargo feature sqlite or postgres"))
    }

    fn refused(&self, reason: &dyn fmt::Display) -> ConfigError {
        ConfigError::LeaseUrl { found: self.to_string(), reason: reason.to_string() }
    }
}

/// Shows the address without the password, and in one line.
impl fmt::Display for DatabaseUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&visible(&without_password(&self.0), MAX_SHOWN * 2))
    }
}

impl fmt::Debug for DatabaseUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::core::Profile;

    #[test]
    fn a_password_is_never_shown() {
        for (url, shown) in [
            ("sqlite://a b.db", "sqlite://a b.db"),
            ("postgres://u:s3cret@h/d", "postgres://u:…@h/d"),
            ("postgres://u:s3c/ret@h/d", "postgres://…"),
            ("postgres://h/d?pasword=s3cret", "postgres://h/d?…"),
            ("postgres:/u:s3cret@h", "…"),
        ] {
            let url = DatabaseUrl::new(url);
            assert_eq!((url.to_string(), format!("{url:?}")), (shown.to_owned(), shown.to_owned()));
            assert!(!url.check().err().is_some_and(|error| format!("{error} {error:?}").contains("s3c")));
        }
    }

    #[test]
    fn what_is_not_said_follows_from_the_lease() {
        let pace = crate::Config::new("a").expect("a name").leadership.timing;
        let usual = LeaseConfig::default().timing(pace);
        assert_eq!(usual, ContenderTiming::of_lease(Duration::from_secs(15)));
        for profile in Profile::ALL {
            let pace = crate::Config::new("a").expect("a name").with_profile(profile).leadership.timing;
            assert_eq!(LeaseConfig::default().timing(pace).check(), Ok(()), "{profile}");
        }
        let said = LeaseConfig { row_ttl: Some(Duration::from_secs(99)), ..LeaseConfig::default() };
        assert_eq!(said.timing(pace).row_ttl, Duration::from_secs(99));
    }

    #[test]
    fn leases_are_few_and_different() {
        let name = |text: &str| LeaseName::new(text).expect("a name");
        assert_eq!(check_leases(&[name("a"), name("b")]), Ok(()));
        assert_eq!(check_leases(&[]), Err(ConfigError::LeaseCount { count: 0 }));
        let most: Vec<_> = (0..=MAX_LEASES).map(|at| name(&format!("l{at}"))).collect();
        assert_eq!(check_leases(&most[1..]), Ok(()));
        assert_eq!(check_leases(&most), Err(ConfigError::LeaseCount { count: MAX_LEASES + 1 }));
        assert_eq!(check_leases(&[name("a"), name("a")]), Err(ConfigError::LeaseTwice { lease: name("a") }));
    }

    #[cfg(feature = "sqlite")]
    #[test]
    fn a_lease_needs_a_database_and_names_that_fit_in_it() {
        let config = crate::Config::new("a").expect("a name").with_lease("sqlite://a.db");
        assert_eq!(config.check(), Ok(()));
        let refused = |change: fn(&mut LeaseConfig)| {
            let mut config = config.clone();
            change(&mut config.leadership.lease);
            let error = config.check().expect_err("refused");
            assert!(error.to_string().contains(error.key()) && error.to_string().contains("allowed is"), "{error}");
            error.key()
        };
        assert_eq!(refused(|lease| lease.url = None), "leadership.mode");
        assert_eq!(refused(|lease| lease.url = Some(DatabaseUrl::new("mysql://x"))), "leadership.lease.url");
        assert_eq!(refused(|lease| lease.schema = Some("s".to_owned())), "leadership.lease.schema");
        assert_eq!(refused(|lease| lease.table_prefix = "A".to_owned()), "leadership.lease.table_prefix");
        assert_eq!(refused(|lease| lease.leases.clear()), "leadership.lease.leases");
        assert_eq!(refused(|lease| lease.row_ttl = Some(Duration::from_secs(1))), "leadership.lease.row_ttl");
        let window = |lease: &mut LeaseConfig| lease.liveness_window = Some(Duration::from_secs(5));
        assert_eq!(refused(window), "leadership.lease.liveness_window");
        let timeout = |lease: &mut LeaseConfig| lease.statement_timeout = Some(Duration::from_secs(6));
        assert_eq!(refused(timeout), "leadership.lease.statement_timeout");
        let timeout = |lease: &mut LeaseConfig| lease.statement_timeout = Some(Duration::from_millis(50));
        assert_eq!(refused(timeout), "leadership.lease.statement_timeout");
    }

    #[cfg(feature = "sqlite")]
    #[test]
    fn modes_are_not_mixed() {
        let mut config = crate::Config::new("a").expect("a name").with_lease("sqlite://a.db");
        config.leadership.voters = vec![crate::NodeId::new("a").expect("a name")];
        let error = config.check().expect_err("voters");
        assert_eq!((error.key(), error.other_key()), ("leadership.voters", Some("leadership.mode")));
        assert!(error.to_string().contains("is \"lease\""), "{error}");
        config.leadership.voters.clear();
        config.leadership.mode = super::super::LeadershipMode::Quorum;
        config.data_dir = Some("d".into());
        let error = config.check().expect_err("a database that nobody asks");
        assert_eq!((error.key(), error.other_key()), ("leadership.lease.url", Some("leadership.mode")));
    }
}
