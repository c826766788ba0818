//! Warnings about a data directory: problems that are no reason not to start.

use std::fmt;
use std::path::PathBuf;

use crate::core::NodeId;

/// A problem with the data directory that an operator should know. `Display` says what it is and what to try.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum StoreWarning {
    /// The state was written by a node of another name.
    OtherName { path: PathBuf, found: NodeId, configured: NodeId },
    /// All users of this host may write to the path.
    OthersMayWrite { path: PathBuf, mode: u32 },
    /// A group may write to the path.
    GroupMayWrite { path: PathBuf, mode: u32 },
    /// The path belongs to another user, who is not the administrator.
    ForeignOwner { path: PathBuf, owner: u32, me: u32 },
}

impl StoreWarning {
    /// Returns true if many healthy installations have this (volumes of containers belong to a group), so that it is
    /// worth a line for those who look for it, and no one's attention.
    pub(crate) const fn is_usual(&self) -> bool {
        matches!(self, StoreWarning::GroupMayWrite { .. })
    }
}

impl fmt::Display for StoreWarning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            StoreWarning::OtherName { path, found, configured } => write!(
                f,
                "the state file {} was written under another node name ({found}, this node is {configured}); what it \
                 remembers is used all the same",
                path.display()
            ),
            StoreWarning::OthersMayWrite { path, mode } => write!(
                f,
                "everybody on this host may write to {path} (mode {mode:04o}), and so take away or forge what this node \
                 remembers; try `chmod go-w {path}`",
                path = path.display()
            ),
            StoreWarning::GroupMayWrite { path, mode } => write!(
                f,
                "a group may write to {path} (mode {mode:04o}), and so take away or forge what this node remembers; if \
                 that is not meant, try `chmod g-w {path}`",
                path = path.display()
            ),
            StoreWarning::ForeignOwner { path, owner, me } => write!(
                f,
                "{path} belongs to user {owner}, who can take away or forge what this node (user {me}) remembers; try \
                 `chown {me} {path}`",
                path = path.display()
            ),
        }
    }
}
