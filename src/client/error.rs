//! [`ClientError`]: the reasons why a call fails.
//!
//! Invariant: texts from the network are shown without control characters; a [`Problem`] holds them as they came.

use std::io::ErrorKind;

use crate::json::Problem;
use crate::text::visible;

/// The reason why a call failed. [`ClientError::problem`] is the agent's own word, if it answered.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ClientError {
    /// The text is not an address of an agent.
    #[error("\"{address}\" is not an address of an agent{}", said(": ", reason.as_deref()))]
    Address {
        /// The text.
        address: String,
        /// The flaw in it, if it can be named.
        reason: Option<String>,
    },
    /// The host in the address has no address of its own.
    #[error("cannot find the host of {agent}")]
    HostNotFound {
        /// The agent's address.
        agent: String,
    },
    /// The agent cannot be reached.
    #[error("cannot reach an agent at {agent}{}", in_brackets(reason.as_deref()))]
    Unreachable {
        /// The agent's address.
        agent: String,
        /// The system's reason.
        reason: Option<String>,
        /// The chance of the same call in a moment.
        outlook: RetryOutlook,
    },
    /// The agent did not answer within the time limit.
    #[error("the agent at {agent} did not answer in time")]
    TimedOut {
        /// The agent's address.
        agent: String,
    },
    /// The answer is not HTTP.
    #[error("what answers at {agent} does not speak HTTP ({reason})")]
    NotHttp {
        /// The agent's address.
        agent: String,
        /// The flaw in the answer.
        reason: String,
    },
    /// The agent refused the call, and said why.
    #[error("{}", visible(&.0.detail, usize::MAX))]
    Refused(Box<Problem>),
    /// The answer has a status of failure, and no [`Problem`] with it.
    #[error("{agent} answered {status} to {path}")]
    Status {
        /// The agent's address.
        agent: String,
        /// The HTTP status.
        status: u16,
        /// The path of the call.
        path: String,
    },
    /// The answer is not of the form that this version knows.
    #[error("cannot read the answer of {agent} to {path}: {reason}")]
    Answer {
        /// The agent's address.
        agent: String,
        /// The path of the call.
        path: String,
        /// The flaw in the answer.
        reason: String,
    },
}

/// The chance of the same call in a moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum RetryOutlook {
    /// The call fails again.
    Fails,
    /// The call may well succeed.
    MaySucceed,
    /// The call may well succeed; this time no process listened at the address.
    NobodyListens,
    /// The call may well succeed; this time the connection was closed without an answer.
    HungUp,
}

impl ClientError {
    /// Returns the agent's own word on why it refused, if it answered.
    pub fn problem(&self) -> Option<&Problem> {
        match self {
            Self::Refused(problem) => Some(problem),
            _ => None,
        }
    }

    /// Returns the word that names the kind of the agent's problem, as in `no-such-member`; empty if it sent none.
    pub fn problem_word(&self) -> &str {
        self.problem().and_then(|problem| problem.kind.rsplit(':').next()).unwrap_or_default()
    }

    /// Returns the chance of the same call in a moment.
    pub fn retry_outlook(&self) -> RetryOutlook {
        let of_status =
            |status| if matches!(status, 408 | 429 | 503) { RetryOutlook::MaySucceed } else { RetryOutlook::Fails };
        match self {
            Self::Address { .. } | Self::Answer { .. } => RetryOutlook::Fails,
            Self::Unreachable { outlook, .. } => *outlook,
            Self::HostNotFound { .. } | Self::TimedOut { .. } | Self::NotHttp { .. } => RetryOutlook::MaySucceed,
            Self::Refused(problem) => of_status(problem.status),
            Self::Status { status, .. } => of_status(*status),
        }
    }

    /// Returns true if the same call may well succeed in a moment.
    pub fn is_transient(&self) -> bool {
        self.retry_outlook() != RetryOutlook::Fails
    }

    /// Returns the error of a call that got no answer.
    pub(super) fn unanswered(agent: &str, error: ureq::Error) -> Self {
        let agent = agent.to_owned();
        match error {
            ureq::Error::BadUri(reason) => Self::Address { address: agent, reason: Some(reason) },
            ureq::Error::HostNotFound => Self::HostNotFound { agent },
            ureq::Error::Timeout(_) => Self::TimedOut { agent },
            ureq::Error::Protocol(error) => Self::NotHttp { agent, reason: error.to_string() },
            other => {
                let (reason, outlook) = match &other {
                    ureq::Error::Io(error) => (Some(error.to_string()), outlook_of(error.kind())),
                    ureq::Error::ConnectionFailed => (None, RetryOutlook::MaySucceed),
                    other => (Some(other.to_string()), RetryOutlook::MaySucceed),
                };
                Self::Unreachable { agent, reason, outlook }
            }
        }
    }
}

fn outlook_of(kind: ErrorKind) -> RetryOutlook {
    match kind {
        ErrorKind::ConnectionRefused => RetryOutlook::NobodyListens,
        ErrorKind::UnexpectedEof
        | ErrorKind::ConnectionReset
        | ErrorKind::ConnectionAborted
        | ErrorKind::BrokenPipe => RetryOutlook::HungUp,
        _ => RetryOutlook::MaySucceed,
    }
}

fn said(before: &str, text: Option<&str>) -> String {
    text.map_or_else(String::new, |text| format!("{before}{text}"))
}

fn in_brackets(text: Option<&str>) -> String {
    text.map_or_else(String::new, |text| format!(" ({text})"))
}
