//! Alarms: conditions that a contender reports to an operator.

use std::fmt;
use std::time::Duration;

use super::{MAX_HEARD_TERM, MAX_TERM};
use crate::LeaseName;
use headcount_core::NodeId;

/// A condition that an operator must know of; `Display` says what happened and what to try. The receiver limits the
/// rate.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ContenderAlarm {
    /// The store knows less than it once did.
    TermFell {
        /// The lease.
        lease: LeaseName,
        /// The highest term that is known.
        known: u64,
        /// The highest term that the store knows.
        stored: u64,
    },
    /// The store has not answered for a while.
    Unreachable {
        /// The time since the last answer, or since the beginning.
        since: Duration,
    },
    /// The store answers again.
    ReachableAgain,
    /// The store's clock differs from this node's.
    ClockStepped {
        /// The lease whose expiry shows it.
        lease: LeaseName,
        /// The least size of the step.
        by: Duration,
        /// True if it was put forward, false if back.
        is_forward: bool,
    },
    /// Another node leads in the same term: it asks another database.
    TwoDatabases {
        /// The lease.
        lease: LeaseName,
        /// The term.
        term: u64,
        /// The other node.
        other: NodeId,
    },
    /// Another node says that it leads in a term that this node's store did not give to it: it asks another database.
    OtherDatabase {
        /// The lease.
        lease: LeaseName,
        /// The term.
        term: u64,
        /// The other node.
        other: NodeId,
    },
    /// The lease's rows hold what cannot be read.
    Unreadable {
        /// The lease.
        lease: LeaseName,
    },
    /// There is no higher term for the lease.
    TermsExhausted {
        /// The lease.
        lease: LeaseName,
    },
    /// Another agent with this node's name holds the lease.
    NameTwice {
        /// The lease.
        lease: LeaseName,
    },
    /// A term near the end of all terms was named.
    TermLimit {
        /// The lease.
        lease: LeaseName,
        /// The term.
        term: u64,
    },
    /// The store's answer does not fit its round.
    StrangeAnswer,
}

impl ContenderAlarm {
    /// Returns a short name for its kind.
    pub const fn kind(&self) -> &'static str {
        match self {
            Self::TermFell { .. } => "term fell",
            Self::Unreachable { .. } => "store unreachable",
            Self::ReachableAgain => "store reachable again",
            Self::ClockStepped { .. } => "store's clock stepped",
            Self::TwoDatabases { .. } => "two databases",
            Self::OtherDatabase { .. } => "another database",
            Self::Unreadable { .. } => "row unreadable",
            Self::TermsExhausted { .. } => "terms exhausted",
            Self::NameTwice { .. } => "name twice",
            Self::TermLimit { .. } => "term limit",
            Self::StrangeAnswer => "strange answer",
        }
    }
}

impl fmt::Display for ContenderAlarm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TermFell { lease, known, stored } => write!(
                f,
                "the database knows lease {lease:?} up to term {stored}, and term {known} was led already: it lost commits, or \
                 is another database; terms go on above {known}, after one lease of waiting, while no other node is heard to lead; \
                 check that leadership.lease.url names the same database on all nodes, and that no commits are lost in \
                 fail-overs (synchronous replication)"
            ),
            Self::Unreachable { since } => write!(
                f,
                "the database could not be used for {}: whoever leads stops when its lease ends; the log says why, \
                 and `headcount leader --nodes` asks it now",
                humantime::format_duration(Duration::from_millis(since.as_millis() as u64))
            ),
            Self::ReachableAgain => f.write_str("the database can be used again"),
            Self::ClockStepped { lease, by, is_forward } => write!(
                f,
                "the database server's clock was put {} by {} or more, as the expiry of lease {lease:?} shows: nobody leads \
                 twice for it, but a change of leaders may take a lease longer; let it be slewed, not stepped",
                if *is_forward { "forward" } else { "back" },
                humantime::format_duration(Duration::from_millis(by.as_millis() as u64))
            ),
            Self::TwoDatabases { lease, term, other } => write!(
                f,
                "two databases: {other} leads by lease {lease:?} in term {term}, which this node was given as well; this \
                 node no longer leads, and whoever leads next does so in a higher term; check that leadership.lease.url \
                 names the same database on all nodes: for a file its absolute path, and no hard link or mount of it"
            ),
            Self::OtherDatabase { lease, term, other } => write!(
                f,
                "two databases: {other} says that it leads by lease {lease:?} in term {term}, and this node's database says \
                 otherwise; as long as that is so, two may lead; check that leadership.lease.url names the same database on \
                 all nodes, and that {other} is one of yours"
            ),
            Self::Unreadable { lease } => write!(
                f,
                "the rows of lease {lease:?} hold what no agent writes, so that nobody can take it: look in its rows of \
                 the tables of leases and terms for a token without 32 hex digits, a name that no node can have or a \
                 negative number, and delete that row; others wait for one lease then"
            ),
            Self::TermsExhausted { lease } => write!(
                f,
                "lease {lease:?} has no term left above the highest, {MAX_TERM}, so that nobody can take it: find out who \
                 wrote that term, and use another name for the lease"
            ),
            Self::NameTwice { lease } => write!(
                f,
                "another agent with this node's name holds lease {lease:?}: rename one of them"
            ),
            Self::TermLimit { lease, term } => write!(
                f,
                "term {term} of lease {lease:?} was named, above {MAX_HEARD_TERM} (of others) or {MAX_TERM} (of the store): it \
                 was ignored; find out which node or table it came from"
            ),
            Self::StrangeAnswer => f.write_str(
                "the database's answer does not fit what it was asked: it counts as lost; check that nobody else writes to its \
                 tables",
            ),
        }
    }
}
