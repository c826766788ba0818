//! Exit codes, and the failures that lead to them.
//!
//! Invariant: the numbers are public: scripts and service managers rely on them. They never change their meaning.

use std::fmt;
use std::io;

use crate::agent::{StartError, Stop};

/// The exit code of a command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Exit(u8);

impl Exit {
    /// Success; an agent left gracefully.
    pub const DONE: Exit = Exit(0);
    /// The command failed; an agent had an internal error.
    pub const FAILED: Exit = Exit(1);
    /// A mistake in the command line or the configuration.
    pub const USAGE: Exit = Exit(2);
    /// An address could not be bound.
    pub const CANNOT_BIND: Exit = Exit(3);
    // 4 to 7 are the agent's: state refused or in use, name in use, removed, refused by the cluster.
    /// Leadership ended before the command that ran under it: a later run may well succeed.
    pub const LEADERSHIP_LOST: Exit = Exit(75);
    /// A second signal ended the process while it was leaving.
    pub const SECOND_SIGNAL: Exit = Exit(130);

    /// Returns the exit code of a command that was run.
    #[cfg(unix)]
    pub(super) const fn of_command(code: u8) -> Self {
        Self(code)
    }

    /// Returns the number.
    pub const fn code(self) -> u8 {
        self.0
    }
}

impl From<&Stop> for Exit {
    fn from(stop: &Stop) -> Self {
        Exit(stop.exit_code())
    }
}

impl From<&StartError> for Exit {
    fn from(error: &StartError) -> Self {
        Exit(error.exit_code())
    }
}

/// The reason why a command failed.
#[derive(Debug)]
pub(super) enum Failure {
    /// Standard output could not be written to.
    Output(io::Error),
    /// Any other failure.
    Told {
        exit: Exit,
        /// The step that failed, and where.
        what: String,
        /// A thing to try.
        hint: Option<String>,
    },
}

impl Failure {
    pub(super) fn new(exit: Exit, what: impl Into<String>) -> Self {
        Self::Told { exit, what: what.into(), hint: None }
    }

    pub(super) fn failed(what: impl Into<String>) -> Self {
        Self::new(Exit::FAILED, what)
    }

    pub(super) fn usage(what: impl Into<String>) -> Self {
        Self::new(Exit::USAGE, what)
    }

    pub(super) fn hint(mut self, text: impl Into<String>) -> Self {
        if let Self::Told { hint, .. } = &mut self {
            *hint = Some(text.into());
        }
        self
    }

    /// Returns what failed, and a thing to try.
    pub(super) fn parts(&self) -> (String, Option<String>) {
        match self {
            Self::Output(_) => (self.to_string(), None),
            Self::Told { what, hint, .. } => (what.clone(), hint.clone()),
        }
    }

    pub(super) fn exit(&self) -> Exit {
        match self {
            Self::Output(_) => Exit::FAILED,
            Self::Told { exit, .. } => *exit,
        }
    }
}

impl From<io::Error> for Failure {
    /// Only writing to standard output uses `?` on plain I/O errors; all others are reported with their place.
    fn from(error: io::Error) -> Self {
        Self::Output(error)
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Output(error) => write!(f, "cannot write to standard output: {error}"),
            Self::Told { what, hint: None, .. } => f.write_str(what),
            Self::Told { what, hint: Some(hint), .. } => write!(f, "{what}; {hint}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::core::wire::Refusal;
    use crate::core::{NodeId, StopReason};

    #[test]
    fn every_reason_to_stop_has_its_exit_code() {
        let by = "10.0.0.1:7117".parse().expect("an address");
        let id = NodeId::new("a").expect("a name");
        for (reason, code) in [
            (StopReason::Left, 0),
            (StopReason::NameInUse { id, holder: by }, 5),
            (StopReason::SetBack, 1),
            (StopReason::Copied { address: by }, 4),
            (StopReason::Removed, 6),
            (StopReason::Refused { by, refusal: Refusal::OtherCluster }, 7),
        ] {
            let stop = Stop::from(reason);
            assert_eq!(Exit::from(&stop).code(), code, "{stop}");
        }
    }

    #[test]
    fn a_failure_is_one_line_with_its_hint() {
        let failure = Failure::failed("it broke").hint("mend it");
        assert_eq!(failure.to_string(), "it broke; mend it");
        assert_eq!(failure.exit().code(), 1);
    }
}
