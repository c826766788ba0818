//! [`KeysError`]: the reasons why keys stay as they are.

use std::path::PathBuf;

use crate::config::ConfigError;
use crate::core::NodeId;
use crate::seal::{KeyId, RingError, SealMode};

/// Error: the keys were not changed here. What other members did is in the holders of [`Agent::cluster_keys`](crate::Agent::cluster_keys).
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum KeysError {
    /// Keys do not travel over clear links.
    #[error(
        "keys are changed only where everything is sealed (seal.mode = require), and the mode here is {mode}: put the key \
         into the key files by other means, and send SIGHUP"
    )]
    NotSealed {
        /// The mode in force.
        mode: SealMode,
    },
    /// The keys come from the configuration itself, and a change would be forgotten at the next start.
    #[error(
        "the keys come from seal.keys, where a change would be lost at the next start: name a file as seal.key_file"
    )]
    NotKept,
    /// The key file holds other keys than those in force.
    #[error("the key file {} was changed and not read yet: send this agent SIGHUP first", path.display())]
    NotRead {
        /// The file.
        path: PathBuf,
    },
    /// The configuration would end the seals of a running node, which others would not hear any more.
    #[error(
        "nothing would be sealed any more, where the mode is {mode}: to end the seals of a cluster, set seal.mode to prefer, \
         then permit, then off, each at all members before the next; otherwise name the keys again"
    )]
    EndsSeals {
        /// The mode in force.
        mode: SealMode,
    },
    /// The key file cannot be read or replaced.
    #[error("the key file {}: {reason}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// The reason in words.
        reason: String,
    },
    /// The configuration of keys makes no sense.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// The ring refuses the change.
    #[error(transparent)]
    Ring(#[from] RingError),
    /// Another node changes keys at the moment.
    #[error("keys are being changed from {by}: try again in some seconds")]
    Busy {
        /// The node, perhaps this one, that was asked by somebody else.
        by: NodeId,
    },
    /// A member asked for the change, and has stopped waiting for the answer.
    #[error("the request is too old: its sender has stopped waiting for an answer")]
    TooLate,
    /// Members would be locked out.
    #[error("{}", locked_out(*id, members))]
    LockedOut {
        /// The key.
        id: KeyId,
        /// The members, each with the reason.
        members: Vec<(NodeId, String)>,
    },
    /// The agent has stopped.
    #[error("the agent has stopped")]
    Stopped,
}

fn locked_out(id: KeyId, members: &[(NodeId, String)]) -> String {
    const MOST: usize = 8;
    let named: Vec<String> = members.iter().take(MOST).map(|(node, why)| format!("{node} {why}")).collect();
    let more = members.len().saturating_sub(MOST);
    let more = if more > 0 { format!(", and {more} more") } else { String::new() };
    format!(
        "key {id}: members would be locked out: {}{more}; add the key again once they are back (`headcount keys add {id}`), \
         remove members that are gone for good (`headcount remove`), or use --force",
        named.join(", ")
    )
}
