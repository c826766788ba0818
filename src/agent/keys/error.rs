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
    /// Members would be locked out by the others sealing with a key that they lack.
    #[error(
        "key {id}: members that lack it, or may lack it, would be locked out: {}; add the key again once they are back, remove \
         those that are gone for good, or force the change",
        some_of(members)
    )]
    LockedOut {
        /// The key.
        id: KeyId,
        /// The members, each with the reason.
        members: Vec<(NodeId, String)>,
    },
    /// Members would be locked out by the others accepting a key no more that they seal with.
    #[error(
        "key {id}: members that seal with it, or may seal with it, would not be heard any more: {}; use the others' key again, \
         which has those seal with it that hold it; copy a member's key file to those that do not, or that are down, and reload \
         or start them; then remove the key; or remove members that are gone for good, or force the change",
        some_of(members)
    )]
    StillUsed {
        /// The key.
        id: KeyId,
        /// The members, each with the reason.
        members: Vec<(NodeId, String)>,
    },
    /// The agent has stopped.
    #[error("the agent has stopped")]
    Stopped,
}

/// Returns members with their reasons as one phrase: the first ones, and how many more there are.
fn some_of(members: &[(NodeId, String)]) -> String {
    const MOST: usize = 8;
    let named: Vec<String> = members.iter().take(MOST).map(|(node, why)| format!("{node} {why}")).collect();
    let more = members.len().saturating_sub(MOST);
    let more = if more > 0 { format!(", and {more} more") } else { String::new() };
    format!("{}{more}", named.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_step_that_is_refused_says_what_helps_with_that_step() {
        let id = KeyId([1, 2, 3, 4]);
        let members = |why: &str| vec![(NodeId::new("e").expect("a name"), why.to_owned())];
        let of_use = KeysError::LockedOut { id, members: members("lacks it") }.to_string();
        assert!(of_use.contains("e lacks it; add the key again"), "{of_use}");
        let of_removal = KeysError::StillUsed { id, members: members("seals with it") }.to_string();
        assert!(
            of_removal.contains("e seals with it; ") && of_removal.contains("copy a member's key file"),
            "{of_removal}"
        );
        for told in [&of_use, &of_removal] {
            assert!(!told.contains("headcount ") && !told.contains("--"), "it is a library's word, too: {told}");
        }
        let many = (0..9).map(|at| (NodeId::new(&format!("n{at}")).expect("a name"), "lacks it".to_owned())).collect();
        assert!(KeysError::LockedOut { id, members: many }.to_string().contains("n7 lacks it, and 1 more; "));
    }
}
