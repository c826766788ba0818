//! The public JSON shapes: answers of HTTP, output of `--format json`, and input of event handlers.
//!
//! Purpose: one place that defines the JSON form of the library's types, in both directions, so that the server, the
//! command line and their tests cannot disagree.
//!
//! Invariants:
//! - Keys are only ever added. Every key is always present and unknown values are `null`; only the extra keys of one
//!   kind of event are left out for the other kinds.
//! - Times are RFC 3339 in UTC with milliseconds, durations end in `_ms`, runs and fingerprints are 16 hex digits.
//! - Reading tolerates keys that this build does not know.
//!
//! This module must not know sockets, routes or terminals.

// | idea | file |
// |---|---|
// | members, events, snapshots | `view` |
// | the state of one node; its judgement | `info`, `verdict` |
// | requests and answers of single calls; problems | `calls` |
// | the leader, the voters, the agreed view | `leadership` |
// | nodes that a database of leases lists | `lease` |
// | messages between programs | `message` |
// | ids of keys | `keys` |
// | targets for Prometheus | `targets` |
// | instants and durations | `time` |

mod calls;
mod info;
mod keys;
mod leadership;
mod lease;
mod message;
mod targets;
mod time;
mod verdict;
mod view;

pub use calls::{Drained, JoinRequest, JoinResult, JoinResults, LeaderAddress, Problem, Removed, SetTags};
pub use info::{Agreement, Counts, Info, Pace, Protocol, SameView, Sealing};
pub use keys::{AddKey, KeyHolder, KeyUse, Keys};
pub use leadership::{
    AddVoter, EndedElectorate, Leader, LedWork, OtherElectorate, Recover, Resign, View, Voter, Voters,
};
pub use lease::{LeaseNode, LeaseNodes};
pub use message::{Answered, Message, Missed, Sent};
pub use targets::TargetGroup;
pub use time::{parse_rfc3339, rfc3339};
pub use verdict::{Reason, Verdict};
pub use view::{BadEventId, Event, EventId, Lagged, Member, Snapshot};

/// The patterns of names and ids, for the schemas of requests.
#[cfg(test)]
pub(crate) mod patterns {
    /// The name of a node, a cluster or a lease.
    pub(crate) const NAME: &str = "^[A-Za-z0-9._-]{1,63}$";
    /// The topic of a message.
    #[cfg(feature = "agent")]
    pub(crate) const TOPIC: &str = "^[A-Za-z0-9._-]{1,63}$";
    /// The id of an event or a message.
    #[cfg(feature = "agent")]
    pub(crate) const ID: &str = "^[0-9a-fA-F]{16}-[0-9]{1,19}$";
    /// The key of a tag. (Its bound is in bytes.)
    pub(crate) const TAG: &str = r"^[^=\x00-\x1f\x7f-\x9f]{1,63}$";
    /// The value of a tag. (Its bound is in bytes, of all tags together.)
    pub(crate) const TAG_VALUE: &str = r"^[^\x00-\x1f\x7f-\x9f]{0,512}$";
}
