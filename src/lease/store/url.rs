//! Addresses of databases: `sqlite://FILE`, `postgres://…`.
//!
//! Invariants: an address that is not understood is refused with the reason; it is shown without its password.

use std::fmt;
#[cfg(feature = "sqlite")]
use std::path::PathBuf;
use std::str::FromStr;

#[cfg(feature = "postgres")]
use super::PostgresUrl;
use super::{StoreError, StoreKind};

/// The longest address, in bytes.
const MAX_URL: usize = 4096;

/// The address of a database.
#[derive(Clone, PartialEq, Eq)]
pub enum StoreUrl {
    /// A file: `sqlite://cluster.db` in the working directory, `sqlite:///var/lib/headcount/cluster.db` anywhere.
    #[cfg(feature = "sqlite")]
    Sqlite(PathBuf),
    /// A server.
    #[cfg(feature = "postgres")]
    Postgres(Box<PostgresUrl>),
}

impl StoreUrl {
    /// Returns the kind of database.
    pub fn kind(&self) -> StoreKind {
        match self {
            #[cfg(feature = "sqlite")]
            Self::Sqlite(_) => StoreKind::Sqlite,
            #[cfg(feature = "postgres")]
            Self::Postgres(_) => StoreKind::Postgres,
        }
    }
}

impl FromStr for StoreUrl {
    type Err = StoreError;

    fn from_str(text: &str) -> Result<Self, StoreError> {
        let refused = |reason: &str| Err(StoreError::configuration("the database's url", reason));
        if text.len() > MAX_URL {
            return refused("is too long: at most 4096 bytes");
        }
        if text.chars().any(char::is_control) {
            return refused("holds a control character");
        }
        let Some((scheme, rest)) = text.split_once("://") else {
            return refused("has no scheme: sqlite://FILE or postgres://HOST/DATABASE");
        };
        match scheme {
            "sqlite" => sqlite(rest),
            "postgres" | "postgresql" => postgres(rest),
            _ => refused("has an unknown scheme: sqlite://FILE or postgres://HOST/DATABASE"),
        }
    }
}

#[cfg(feature = "sqlite")]
fn sqlite(file: &str) -> Result<StoreUrl, StoreError> {
    let refused = |reason: &str| Err(StoreError::configuration(format!("sqlite://{file}"), reason));
    match file {
        "" => refused("names no file: sqlite://cluster.db, or sqlite:///var/lib/headcount/cluster.db"),
        _ if file.starts_with(":memory:") => refused("would be another database for every node: name a file"),
        _ if file.contains('?') => refused("takes no options: remove all from the question mark on"),
        _ if file.ends_with('/') => refused("names a directory: name a file in it"),
        _ => Ok(StoreUrl::Sqlite(PathBuf::from(file))),
    }
}

#[cfg(not(feature = "sqlite"))]
fn sqlite(_file: &str) -> Result<StoreUrl, StoreError> {
    Err(StoreError::configuration("the database's url", "names SQLite: build with the feature `sqlite`"))
}

#[cfg(feature = "postgres")]
fn postgres(rest: &str) -> Result<StoreUrl, StoreError> {
    PostgresUrl::parse(rest).map(|url| StoreUrl::Postgres(Box::new(url)))
}

#[cfg(not(feature = "postgres"))]
fn postgres(_rest: &str) -> Result<StoreUrl, StoreError> {
    Err(StoreError::configuration("the database's url", "names PostgreSQL: build with the feature `postgres`"))
}

impl fmt::Display for StoreUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            #[cfg(feature = "sqlite")]
            Self::Sqlite(file) => write!(f, "sqlite://{}", file.display()),
            #[cfg(feature = "postgres")]
            Self::Postgres(url) => fmt::Display::fmt(url, f),
        }
    }
}

impl fmt::Debug for StoreUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[cfg(feature = "sqlite")]
    #[test]
    fn a_file_is_named_from_here_or_from_the_root() {
        for (text, file) in [("sqlite://a.db", "a.db"), ("sqlite:///var/a b.db", "/var/a b.db")] {
            let url: StoreUrl = text.parse().expect("a file");
            assert_eq!(url, StoreUrl::Sqlite(PathBuf::from(file)));
            assert_eq!(url.to_string(), text);
        }
    }

    #[test]
    fn what_names_no_database_is_refused_with_the_reason() {
        let endless = format!("sqlite://{}", "x".repeat(MAX_URL));
        for (text, reason) in [
            ("", "no scheme"),
            ("cluster.db", "no scheme"),
            ("sqlite:cluster.db", "no scheme"),
            ("mysql://x", "unknown scheme"),
            ("sqlite://", "names no file"),
            ("sqlite://:memory:", "another database"),
            ("sqlite://a.db?mode=ro", "no options"),
            ("sqlite://data/", "a directory"),
            ("sqlite://a\0b", "control character"),
            (&endless, "too long"),
        ] {
            let error = text.parse::<StoreUrl>().expect_err("refused").to_string();
            assert!(error.contains(reason), "{text}: {error}");
        }
    }
}
