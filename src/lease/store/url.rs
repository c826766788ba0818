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
#[cfg(feature = "sqlite")]
use crate::lease::address::{is_like_a_server, without_password};

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
            return refused(&without_scheme(text));
        };
        match scheme {
            "sqlite" => sqlite(rest),
            "postgres" | "postgresql" => postgres(rest),
            _ => refused("has an unknown scheme: sqlite://FILE or postgres://HOST/DATABASE"),
        }
    }
}

/// Returns the reason for which an address without `://` is refused: what to write, where it is clear what was meant.
fn without_scheme(text: &str) -> String {
    let file = text.strip_prefix("sqlite:").unwrap_or(text);
    let is_file = std::path::Path::new(file).extension().is_some_and(|end| end == "db")
        && !file.contains(['@', ':', '?', '='])
        && !file.starts_with('~');
    if is_file {
        let shown = crate::text::visible(file, crate::text::MAX_SHOWN * 2);
        return format!("has no \"://\": write sqlite://{shown}");
    }
    String::from("has no scheme: sqlite://FILE or postgres://HOST/DATABASE")
}

#[cfg(feature = "sqlite")]
fn sqlite(file: &str) -> Result<StoreUrl, StoreError> {
    let refused = |reason: &str| {
        let shown = without_password(&format!("sqlite://{file}")).into_owned();
        Err(StoreError::configuration(crate::text::visible(&shown, crate::text::MAX_SHOWN * 2), reason))
    };
    match file {
        // It may hold a password, and would be the name of a file in every message.
        _ if is_like_a_server(file) => Err(StoreError::configuration(
            "the database's url",
            "names a file like a server, with a colon and an '@': a server is postgres://USER@HOST/DATABASE",
        )),
        "" => refused("names no file: sqlite://cluster.db, or sqlite:///var/lib/headcount/cluster.db"),
        _ if file.starts_with(":memory:") => refused("would be another database for every node: name a file"),
        _ if file.contains('?') => refused("takes no options: remove all from the question mark on"),
        _ if file.starts_with('~') => refused(
            "begins with a ~, which only a shell expands: write the whole path, as in sqlite:///home/me/cluster.db",
        ),
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
            ("cluster", "no scheme"),
            ("cluster.db", "write sqlite://cluster.db"),
            ("sqlite:cluster.db", "write sqlite://cluster.db"),
            ("sqlite:/var/cluster.db", "write sqlite:///var/cluster.db"),
            ("sqlite://~/cluster.db", "only a shell expands"),
            ("sqlite://me:secret@h/cluster.db", "like a server"),
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

    #[cfg(all(feature = "postgres", feature = "sqlite"))]
    mod passwords {
        use proptest::prelude::*;

        use super::super::*;
        use crate::lease::address::tests::{tells, with_password};
        use crate::lease::store::{Store, StoreOptions};

        proptest! {
            #![proptest_config(ProptestConfig { cases: 4_000, failure_persistence: None, ..ProptestConfig::default() })]
            #[test]
            fn no_error_and_no_name_of_a_database_holds_a_piece_of_a_password(rest in with_password()) {
                for scheme in ["postgres", "sqlite", "mysql"] {
                    let told = match format!("{scheme}://{rest}").parse::<StoreUrl>() {
                        Err(error) => format!("{error} {error:?}"),
                        Ok(StoreUrl::Sqlite(_)) => String::new(),
                        Ok(url) => {
                            let options = StoreOptions::new("c").expect("a name");
                            let store = match Store::new(&url, options) {
                                Ok(store) => format!("{} {store:?}", store.place()),
                                Err(error) => format!("{error} {error:?}"),
                            };
                            format!("{url} {url:?} {store}")
                        }
                    };
                    prop_assert!(!tells(&told), "{rest}: {told}");
                }
            }
        }
    }
}
