//! The data directory: the state that survives the process, and the lock that keeps a second process out of it.
//!
//! Invariants:
//! - A state file is replaced as a whole (temporary file, fsync, rename, fsync of the directory): at every instant,
//!   through every crash, the old or the new one is there.
//! - A file that cannot be vouched for is refused and left as it is. Starting with an incarnation below one that was
//!   already used would let records of this node's former run override its new ones in the other members' views.
//! - A copy of the state of a voter, or an older one, is not accepted: votes given since would be forgotten (see
//!   `origin`).
//! - The owner of a [`Store`] holds the lock, and writes only into the directory that it locked.
//!
//! Must not know: when to write, the meaning of the figures, or logs: warnings are returned.
//!
//! | idea | file |
//! |---|---|
//! | the directory, held and locked | `directory` |
//! | the bytes of the state file; its origin | `state`, `origin` |
//! | writing without making the driver wait | `writer` |
//! | reasons to refuse; reasons to warn | `error`, `warning` |

mod directory;
mod error;
mod origin;
mod state;
mod warning;
mod writer;

use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use crate::core::election::Ballot;
use crate::core::{Durable, NodeId};

use directory::{Contents, Directory, STATE_FILE};
pub use error::StoreError;
use origin::Origin;
pub use state::BadState;
use state::Saved;
pub(crate) use warning::StoreWarning;
pub(crate) use writer::{StateWriter, Stored, WriterDied, WriterHealth, Written};

/// A locked data directory.
#[derive(Debug)]
pub(crate) struct Store {
    directory: Directory,
    cluster: NodeId,
    node: NodeId,
    /// The ballot of an earlier run as a voter. A run that takes no part in elections must not lose it.
    kept_ballot: Option<Ballot>,
}

/// A store, and the findings from opening it.
#[derive(Debug)]
pub(crate) struct Opened {
    pub(crate) store: Store,
    pub(crate) remembered: Remembered,
    /// Warnings for the operator.
    pub(crate) warnings: Vec<StoreWarning>,
}

/// The state of an earlier run.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Remembered {
    /// The bound that no incarnation used so far exceeds; `None` if there was no run.
    pub(crate) incarnation_bound: Option<u64>,
    /// Last known addresses of other members.
    pub(crate) addresses: Vec<SocketAddr>,
    /// The ballot, if the node ever took part in elections.
    pub(crate) ballot: Option<Ballot>,
}

impl Store {
    /// Creates the directory if need be, locks it, and reads the state of an earlier run. Blocks on the disk.
    pub(crate) fn open(directory: &Path, cluster: &NodeId, node: &NodeId) -> Result<Opened, StoreError> {
        let (directory, mut warnings) = Directory::open(directory)?;
        let (cluster, node) = (cluster.clone(), node.clone());
        let mut store = Self { directory, cluster, node, kept_ballot: None };
        let remembered = store.read(&mut warnings)?;
        store.kept_ballot.clone_from(&remembered.ballot);
        Ok(Opened { store, remembered, warnings })
    }

    /// Replaces the state. Blocks until it is on the disk.
    pub(crate) fn write(&self, durable: &Durable) -> Result<(), StoreError> {
        self.directory.replace(|origin| self.encode(durable, origin))
    }

    /// Checks that the directory at its path is still the one that this process holds. Blocks on the disk.
    fn check_held(&self) -> Result<(), StoreError> {
        self.directory.check_held()
    }

    fn encode(&self, durable: &Durable, origin: Origin) -> io::Result<Vec<u8>> {
        let saved = Saved {
            cluster: self.cluster.clone(),
            node: self.node.clone(),
            incarnation_bound: durable.incarnation_bound,
            addresses: durable.addresses.clone(),
            ballot: durable.ballot.as_ref().or(self.kept_ballot.as_ref()).cloned(),
            origin,
        };
        state::encode(&saved).map_err(io::Error::other)
    }

    fn path(&self) -> PathBuf {
        self.directory.path_of(STATE_FILE)
    }

    fn read(&self, warnings: &mut Vec<StoreWarning>) -> Result<Remembered, StoreError> {
        // One byte more than allowed, so that a longer file fails its length check instead of being read as a shorter
        // one.
        let Some(Contents { bytes, facts }) = self.directory.read(state::MAX_BYTES + 1, warnings)? else {
            return Ok(Remembered::default());
        };
        let path = self.path();
        let saved = decode(&bytes, &path)?;
        let other_name = check_owner(&saved, &path, &self.cluster, &self.node)?;
        let Saved { incarnation_bound, addresses, ballot, origin, .. } = saved;
        self.directory.note_sequence(origin.sequence);
        let is_copy = !origin.fits(&facts);
        if has_voted(ballot.as_ref()) && is_copy {
            return Err(StoreError::Copied { path });
        }
        // Of a state of another name, or of a copy, not even the identity is kept: its owner may be using it.
        let ballot = ballot.filter(|_| !is_copy && other_name.is_none());
        warnings.extend(other_name);
        Ok(Remembered { incarnation_bound: Some(incarnation_bound), addresses, ballot })
    }
}

/// Reads the state in a data directory that another process may hold, and checks that it is that of this node. Nothing is
/// locked or changed; returns the warning that its next start would give. Blocks on the disk.
///
/// Copies of a state are not recognised here.
#[cfg(feature = "agent")]
pub(crate) fn look_at(directory: &Path, cluster: &NodeId, node: &NodeId) -> Result<Option<StoreWarning>, StoreError> {
    let Some(bytes) = directory::glance_at(directory, state::MAX_BYTES + 1)? else { return Ok(None) };
    let path = directory.join(STATE_FILE);
    let saved = decode(&bytes, &path)?;
    check_owner(&saved, &path, cluster, node)
}

fn decode(bytes: &[u8], path: &Path) -> Result<Saved, StoreError> {
    state::decode(bytes).map_err(|reason| StoreError::Refused { path: path.to_owned(), reason })
}

fn has_voted(ballot: Option<&Ballot>) -> bool {
    ballot.is_some_and(|ballot| !ballot.is_blank())
}

/// Checks whose state this is. That of a member of another name is no use here, and no danger unless it voted.
fn check_owner(
    saved: &Saved,
    path: &Path,
    cluster: &NodeId,
    node: &NodeId,
) -> Result<Option<StoreWarning>, StoreError> {
    let path = path.to_owned();
    if saved.cluster != *cluster {
        return Err(StoreError::OtherCluster { path, found: saved.cluster.clone(), configured: cluster.clone() });
    }
    if saved.node == *node {
        return Ok(None);
    }
    let (found, configured) = (saved.node.clone(), node.clone());
    if has_voted(saved.ballot.as_ref()) {
        return Err(StoreError::OtherVoter { path, found, configured });
    }
    Ok(Some(StoreWarning::OtherName { path, found, configured }))
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::core::election::{Identity, Term};

    fn name(text: &str) -> NodeId {
        NodeId::new(text).expect("a name")
    }

    fn open(directory: &Path) -> Result<(Store, Remembered), StoreError> {
        Store::open(directory, &name("c"), &name("a")).map(|opened| (opened.store, opened.remembered))
    }

    fn durable(incarnation_bound: u64) -> Durable {
        Durable { incarnation_bound, addresses: vec!["10.0.0.2:7117".parse().expect("an address")], ballot: None }
    }

    #[test]
    fn a_new_directory_is_created_for_the_owner_alone_and_remembers_nothing() {
        let parent = tempfile::tempdir().expect("a directory");
        let directory = parent.path().join("deep").join("data");
        let (_store, remembered) = open(&directory).expect("opens");
        assert_eq!(remembered, Remembered::default());
        #[cfg(unix)]
        {
            use std::os::unix::fs::PermissionsExt;
            let mode = fs::metadata(&directory).expect("is there").permissions().mode();
            assert_eq!(mode & 0o777, 0o700);
        }
    }

    #[test]
    fn what_is_written_is_read_by_the_next_run() {
        let directory = tempfile::tempdir().expect("a directory");
        let (store, _) = open(directory.path()).expect("opens");
        store.write(&durable(1)).expect("written");
        store.write(&durable(2)).expect("replaced");
        drop(store);
        let (_store, remembered) = open(directory.path()).expect("opens again");
        assert_eq!(remembered.incarnation_bound, Some(2));
        assert_eq!(remembered.addresses, durable(2).addresses);
    }

    #[test]
    fn a_run_that_elects_nobody_keeps_the_ballot_of_the_one_before() {
        let directory = tempfile::tempdir().expect("a directory");
        let (store, _) = open(directory.path()).expect("opens");
        let ballot = Some(Ballot { version: 3, ..Ballot::blank(Identity(7)) });
        store.write(&Durable { ballot: ballot.clone(), ..durable(1) }).expect("written");
        drop(store);
        for bound in [2, 3] {
            let (store, remembered) = open(directory.path()).expect("opens");
            assert_eq!(remembered.ballot, ballot);
            store.write(&durable(bound)).expect("written");
        }
        assert_eq!(open(directory.path()).expect("opens").1.ballot, ballot);
    }

    /// Returns the ballot of a node that has voted.
    fn voted() -> Ballot {
        let (identity, term) = (Identity(7), Term(3));
        Ballot { version: 3, term, vote: Some(identity), ..Ballot::blank(identity) }
    }

    #[test]
    fn a_voters_state_is_nobody_elses_and_a_state_without_votes_gives_another_node_no_identity() {
        for (ballot, is_taken) in [(Some(voted()), false), (Some(Ballot::blank(Identity(7))), true), (None, true)] {
            let directory = tempfile::tempdir().expect("a directory");
            let (store, _) = open(directory.path()).expect("opens");
            store.write(&Durable { ballot, ..durable(1) }).expect("written");
            drop(store);
            match Store::open(directory.path(), &name("c"), &name("b")) {
                Ok(opened) => assert!(is_taken && opened.remembered.ballot.is_none() && opened.warnings.len() == 1),
                Err(error) => assert!(!is_taken && matches!(error, StoreError::OtherVoter { .. }), "{error}"),
            }
        }
    }

    #[test]
    fn a_directory_that_is_renamed_is_the_same_one() {
        let parent = tempfile::tempdir().expect("a directory");
        let (before, after) = (parent.path().join("before"), parent.path().join("after"));
        let (store, _) = open(&before).expect("opens");
        store.write(&Durable { ballot: Some(voted()), ..durable(1) }).expect("written");
        drop(store);
        fs::rename(&before, &after).expect("renamed");
        assert_eq!(open(&after).expect("opens").1.ballot, Some(voted()));
    }

    #[test]
    fn a_second_agent_on_one_directory_is_refused_until_the_first_is_gone() {
        let directory = tempfile::tempdir().expect("a directory");
        let first = open(directory.path()).expect("opens");
        let error = open(directory.path()).expect_err("locked");
        assert!(matches!(error, StoreError::InUse { .. }), "{error}");
        assert!(error.to_string().contains(&directory.path().display().to_string()));
        drop(first);
        open(directory.path()).expect("free again");
    }

    #[test]
    fn a_file_that_cannot_be_believed_is_refused_by_name_and_left_untouched() {
        let directory = tempfile::tempdir().expect("a directory");
        let (store, _) = open(directory.path()).expect("opens");
        store.write(&durable(1)).expect("written");
        drop(store);
        let path = directory.path().join(STATE_FILE);
        let good = fs::read(&path).expect("is there");
        let mut flipped = good.clone();
        *flipped.last_mut().expect("not empty") ^= 1;
        let mut future = good.clone();
        future[8] = 14;
        let longer = [good.as_slice(), &vec![0; state::MAX_BYTES]].concat();
        let cases = [
            (Vec::new(), BadState::Truncated),
            (good[..good.len() - 1].to_vec(), BadState::Truncated),
            (flipped, BadState::Damaged),
            (longer, BadState::Damaged),
            (future, BadState::Future { found: 14 }),
            (b"something else".to_vec(), BadState::NotState),
        ];
        for (bytes, expected) in cases {
            fs::write(&path, &bytes).expect("written");
            let error = open(directory.path()).expect_err("refused");
            assert!(matches!(&error, StoreError::Refused { reason, .. } if *reason == expected), "{error}");
            assert!(error.to_string().contains(STATE_FILE), "{error}");
            assert_eq!(fs::read(&path).expect("is there"), bytes, "untouched");
        }
    }

    #[test]
    fn the_state_of_another_cluster_is_refused_and_that_of_another_name_is_used() {
        let directory = tempfile::tempdir().expect("a directory");
        let (store, _) = open(directory.path()).expect("opens");
        store.write(&durable(5)).expect("written");
        drop(store);
        let error = Store::open(directory.path(), &name("other"), &name("a")).expect_err("refused");
        assert!(matches!(error, StoreError::OtherCluster { .. }), "{error}");
        let opened = Store::open(directory.path(), &name("c"), &name("renamed")).expect("opens");
        assert_eq!(opened.remembered.incarnation_bound, Some(5));
        let path = directory.path().join(STATE_FILE);
        let warning = StoreWarning::OtherName { path, found: name("a"), configured: name("renamed") };
        assert_eq!(opened.warnings, [warning]);
    }

    #[test]
    fn temporary_files_of_a_crash_are_swept() {
        let directory = tempfile::tempdir().expect("a directory");
        let leftover = directory.path().join(format!("{}abc123", directory::TEMPORARY_PREFIX));
        fs::write(&leftover, b"half").expect("written");
        open(directory.path()).expect("opens");
        assert!(!leftover.exists());
    }
}
