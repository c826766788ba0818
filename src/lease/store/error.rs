//! Errors of stores: what failed, where, and one thing to try.
//!
//! Invariants: the kind of an error shows whether the request may have been carried out; a place is never shown with a
//! password.

use std::path::PathBuf;

/// An error of a request that a store did not carry out, or may or may not have carried out.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum StoreError {
    /// There is no connection to the database. Nothing was done.
    #[error("{place} cannot be reached ({reason}): {}", if is_server(place) {
        "check its address, and that the server runs"
    } else {
        "check the path, and the disk that it is on"
    })]
    Unreachable {
        /// The database.
        place: String,
        /// The reason why the attempts to connect failed.
        reason: String,
    },
    /// The database was asked and did not answer: the request may have been carried out, or may not.
    #[error(
        "{place} did not answer ({reason}): what was asked may or may not have happened; the next answer tells; \
         if it stays so, look at the load of its machine"
    )]
    OutcomeUnknown {
        /// The database.
        place: String,
        /// The way in which the answer was lost.
        reason: String,
    },
    /// Others hold a lock that is needed, or the database is slow. Nothing was done.
    #[error("{place} is busy ({reason}): if it stays so, look for long transactions on its tables")]
    Busy {
        /// The database.
        place: String,
        /// The cause of the wait.
        reason: String,
    },
    /// The database takes no writes. Nothing was done.
    #[error(
        "{place} takes no writes ({reason}): {}", if is_server(place) {
            "name the primary, or several hosts with target_session_attrs=read-write"
        } else {
            "this user must be able to write the file, its directory, and the file -journal beside it"
        }
    )]
    ReadOnly {
        /// The database.
        place: String,
        /// The database's answer.
        reason: String,
    },
    /// The tables are missing and this role may not create them.
    #[error(
        "{place} has no lease tables, and this role may not create them ({reason}): let the owner of the database run \
         what `{command}` prints"
    )]
    NoSchema {
        /// The database.
        place: String,
        /// The database's answer.
        reason: String,
        /// The statements that an owner has to run.
        statements: String,
        /// The command that prints them.
        command: String,
    },
    /// The tables or the file are there, and this role or user may not use them.
    #[error("{place} may not be used by this role ({reason}): let its owner grant what `{command}` ends with")]
    NoPermission {
        /// The database.
        place: String,
        /// The database's answer.
        reason: String,
        /// The statements that an owner has to run.
        statements: String,
        /// The command that prints them.
        command: String,
    },
    /// The server refused the connection: password, database, encryption.
    #[error("{place} turned the connection down ({reason}): {hint}")]
    Refused {
        /// The database.
        place: String,
        /// The server's answer.
        reason: String,
        /// One thing to try.
        hint: String,
    },
    /// The disk of the database is full. Nothing was done, nothing is lost.
    #[error("{place} has no room left ({reason}): free some space")]
    Full {
        /// The database.
        place: String,
        /// The database's answer.
        reason: String,
    },
    /// The file was deleted, moved away or replaced while it was open. The next request opens the file that is at its
    /// path by then.
    #[error(
        "{} was {change} while it was open: what it held is gone for this cluster; the next round opens the path anew; \
         let no tool touch the file while agents run", .file.display()
    )]
    FileChanged {
        /// The file.
        file: PathBuf,
        /// The kind of change: `deleted` or `replaced`.
        change: &'static str,
    },
    /// The file lies on a file system that machines share.
    #[error(
        "{} is on a network file system ({kind}), whose locks do not hold between machines, so that two nodes would lead: \
         use a local disk, or PostgreSQL for several machines", .file.display()
    )]
    NetworkFileSystem {
        /// The file.
        file: PathBuf,
        /// The file system.
        kind: &'static str,
    },
    /// The stored data cannot be read: it is no database, damaged, or written by something else. The request may have
    /// been carried out.
    #[error(
        "{place} holds what cannot be read ({reason}): restore it, or stop all agents and begin with an empty database: \
         terms go on above those that agents know"
    )]
    Damaged {
        /// The database.
        place: String,
        /// The defect that was found.
        reason: String,
    },
    /// The tables were made by a later release.
    #[error("{place} has tables of version {found}, and this release knows {known}: upgrade this node")]
    NewerSchema {
        /// The database.
        place: String,
        /// The version found.
        found: i64,
        /// The newest version that this release knows.
        known: i64,
    },
    /// The file is reached by more than one path, so that agents could open it by different ones.
    #[error(
        "{} {reason}: SQLite keeps the journal of a file (-journal) beside the path it was opened by, so that an agent that \
         opens it by another path would not find what a crash left half written; {hint}", .file.display()
    )]
    ManyPaths {
        /// The file.
        file: PathBuf,
        /// The way in which it has more than one path.
        reason: &'static str,
        /// One thing to try.
        hint: &'static str,
    },
    /// A URL, an option or an environment variable cannot be used.
    #[error("{what} {reason}")]
    Configuration {
        /// The setting that is wrong.
        what: String,
        /// The reason, and what would be right.
        reason: String,
    },
    /// Another failure. Nothing was done.
    #[error("{place} failed ({reason}): {}", if is_server(place) {
        "the server's log may say more"
    } else {
        "look at the file and its disk"
    })]
    Failed {
        /// The database.
        place: String,
        /// The database's answer.
        reason: String,
    },
}

impl StoreError {
    /// Returns true if nothing of the request was carried out, nor will be. Data that cannot be read may have been
    /// written.
    pub fn is_outcome_known(&self) -> bool {
        !matches!(self, Self::OutcomeUnknown { .. } | Self::Damaged { .. })
    }

    /// Returns true if another try without a change by people is unlikely to help.
    pub fn needs_people(&self) -> bool {
        match self {
            Self::Unreachable { .. }
            | Self::OutcomeUnknown { .. }
            | Self::Busy { .. }
            | Self::ReadOnly { .. }
            | Self::FileChanged { .. }
            | Self::Failed { .. } => false,
            Self::NoSchema { .. }
            | Self::NoPermission { .. }
            | Self::Refused { .. }
            | Self::Full { .. }
            | Self::NetworkFileSystem { .. }
            | Self::Damaged { .. }
            | Self::NewerSchema { .. }
            | Self::ManyPaths { .. }
            | Self::Configuration { .. } => true,
        }
    }

    /// Returns the statements that an owner of the database has to run, where that helps.
    pub fn statements(&self) -> Option<&str> {
        match self {
            Self::NoSchema { statements, .. } | Self::NoPermission { statements, .. } => Some(statements),
            _ => None,
        }
    }

    pub(super) fn configuration(what: impl Into<String>, reason: impl Into<String>) -> Self {
        Self::Configuration { what: what.into(), reason: reason.into() }
    }
}

/// Returns true if this is the name of a server, not of a file.
fn is_server(place: &str) -> bool {
    place.starts_with("postgres://")
}

/// Returns an error and all its causes on one line.
#[cfg(feature = "postgres")]
pub(super) fn with_causes(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        let said = error.to_string();
        // Many errors repeat their cause.
        if !text.contains(&said) {
            text.push_str(": ");
            text.push_str(&said);
        }
        cause = error.source();
    }
    crate::text::visible(&text, MAX_REASON)
}

/// The greatest length of a database's text that a message repeats, in characters.
#[cfg(feature = "postgres")]
pub(super) const MAX_REASON: usize = 400;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_lost_or_unreadable_answer_leaves_the_outcome_open() {
        let (place, reason) = (String::from("x"), String::from("y"));
        assert!(!StoreError::OutcomeUnknown { place: place.clone(), reason: reason.clone() }.is_outcome_known());
        assert!(!StoreError::Damaged { place: place.clone(), reason: reason.clone() }.is_outcome_known());
        for known in [
            StoreError::Unreachable { place: place.clone(), reason: reason.clone() },
            StoreError::Busy { place: place.clone(), reason: reason.clone() },
            StoreError::Full { place, reason },
        ] {
            assert!(known.is_outcome_known());
        }
    }

    #[test]
    fn a_file_is_not_given_the_advice_for_a_server() {
        let of = |place: &str| {
            let (place, reason) = (place.to_owned(), String::from("y"));
            [
                StoreError::Unreachable { place: place.clone(), reason: reason.clone() },
                StoreError::OutcomeUnknown { place: place.clone(), reason: reason.clone() },
                StoreError::Busy { place: place.clone(), reason: reason.clone() },
                StoreError::ReadOnly { place: place.clone(), reason: reason.clone() },
                StoreError::Damaged { place: place.clone(), reason: reason.clone() },
                StoreError::Failed { place, reason },
            ]
        };
        for error in of("/tmp/x.db") {
            let text = error.to_string();
            assert!(!["server", "host", "primary", "session"].iter().any(|word| text.contains(word)), "{text}");
        }
        let advice = of("postgres://a/b").map(|error| error.to_string()).concat();
        assert!(advice.contains("target_session_attrs") && !advice.contains("-journal"), "{advice}");
    }

    #[cfg(feature = "postgres")]
    #[test]
    fn causes_are_told_once_each() {
        let inner = std::io::Error::other("no route");
        let outer = std::io::Error::other(StoreError::configuration("the url", "no route"));
        assert_eq!(with_causes(&inner), "no route");
        assert_eq!(with_causes(&outer), "the url no route");
    }
}
