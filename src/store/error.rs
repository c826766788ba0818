//! Errors of the data directory: the reasons why it is refused, or cannot be written to.
//!
//! Invariant: each message says what is wrong, where, and what to do, the system's words included: they are no source beside it.
//!
//! Must not know: how an error was found.

use std::io;
use std::path::PathBuf;

use super::state::BadState;
use crate::core::NodeId;

/// The reason why the data directory was refused, or could not be written to. Nothing in it was changed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StoreError {
    /// The directory cannot be opened, or does not exist and cannot be created.
    #[error(
        "cannot open or create the data directory {}: {error}; see that it is a directory of this user, or choose another \
         data_dir",
        path.display()
    )]
    Create {
        /// The directory.
        path: PathBuf,
        /// The system's error.
        error: io::Error,
    },
    /// The lock file cannot be opened or locked.
    #[error("cannot lock {}: {error}; check that this user may write there, and that the file system has locks", path.display())]
    Lock {
        /// The lock file.
        path: PathBuf,
        /// The system's error.
        error: io::Error,
    },
    /// Another agent uses the directory.
    #[error("the data directory {} is in use by another agent: stop that one, or give each a data_dir of its own", path.display())]
    InUse {
        /// The directory.
        path: PathBuf,
    },
    /// The directory is no longer the one that was locked, or its lock file is not.
    #[error(
        "the data directory {} (or the lock file in it) was removed or replaced while this agent ran: nothing is stored \
         meanwhile; restart the agent",
        path.display()
    )]
    Lost {
        /// The directory.
        path: PathBuf,
    },
    /// A thing that is no regular file has the name of one.
    #[error("{} is {found}, not a file: move it away, or choose another data_dir", path.display())]
    NotAFile {
        /// The path.
        path: PathBuf,
        /// The kind of the thing, in words.
        found: &'static str,
    },
    /// The state file cannot be read.
    #[error("cannot read the state file {}: {error}; check its owner and permissions", path.display())]
    Read {
        /// The state file.
        path: PathBuf,
        /// The system's error.
        error: io::Error,
    },
    /// The state file cannot be written.
    #[error("cannot write the state file {}: {error}; check free space and permissions", path.display())]
    Write {
        /// The state file.
        path: PathBuf,
        /// The system's error.
        error: io::Error,
    },
    /// The state file cannot be trusted.
    #[error(
        "state file {} refused: {reason}. It was left as it is: use the version that wrote it, or move it away to start \
         without memory (a voter is then to be removed and added again)",
        path.display()
    )]
    Refused {
        /// The state file.
        path: PathBuf,
        /// The reason.
        reason: BadState,
    },
    /// The state file is not the one that this voter wrote last in its place.
    #[error(
        "the state file {} is not the one that this voter wrote here last: it was copied, restored or moved. What was voted \
         since a backup is not in it, and a voter that forgets can vote twice, which makes two leaders: move it away, start \
         without memory, and remove and add the voter",
        path.display()
    )]
    Copied {
        /// The state file.
        path: PathBuf,
    },
    /// The state file belongs to a voter of another name.
    #[error(
        "state file {} belongs to the voter {found:?}, this node is {configured:?}: two of one identity would vote twice. \
         Correct the node's name, choose another data_dir, or move the file away to start without memory",
        path.display()
    )]
    OtherVoter {
        /// The state file.
        path: PathBuf,
        /// Name of the node in the file.
        found: NodeId,
        /// Name of the node in the configuration.
        configured: NodeId,
    },
    /// The state file belongs to a node of another cluster.
    #[error(
        "state file {} belongs to cluster {found:?}, this node is configured for {configured:?}: correct the cluster's \
         name, or choose another data_dir",
        path.display()
    )]
    OtherCluster {
        /// The state file.
        path: PathBuf,
        /// Name of the cluster in the file.
        found: NodeId,
        /// Name of the cluster in the configuration.
        configured: NodeId,
    },
}
