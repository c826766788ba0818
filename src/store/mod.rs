//! The data directory: what survives the process, and the lock that keeps a second process out of it.
//!
//! Invariants:
//! - A state file is replaced as a whole (temporary file, fsync, rename, fsync of the directory): at every instant,
//!   through every crash, the old or the new one is there.
//! - A file that we cannot vouch for is refused and left as it is. Starting with an incarnation below one that was
//!   already used would make this node a ghost of itself in everybody's view.
//! - A copy of the state of a voter is not taken for the state: what was voted since would be forgotten (see `birth`).
//! - Whoever holds a [`Store`] holds the lock, and writes nowhere but into the directory that it locked.
//!
//! Must not know: when to write, what the figures mean, or logs: what is not an error is given back.

mod birth;
mod directory;
mod state;
mod warning;
mod writer;

use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

use crate::core::election::Ballot;
use crate::core::{Durable, NodeId};

use birth::Birth;
use directory::{Contents, Directory, MOVED_FILE, STATE_FILE};
pub use state::BadState;
use state::Saved;
pub(crate) use warning::StoreWarning;
pub(crate) use writer::{Durability, Stored, WriterDied, Written};

/// Why the data directory was refused, or does not take what is to be stored. Nothing in it was changed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StoreError {
    /// It cannot be opened, or is not there and cannot be made.
    #[error(
        "cannot open or create the data directory {}: {source}; see that it is a directory of this user, or choose another \
         data_dir",
        path.display()
    )]
    Create {
        /// The directory.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// The lock file cannot be opened or locked.
    #[error("cannot lock {}: {source}; check the directory's owner and that its file system has locks", path.display())]
    Lock {
        /// The lock file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// Another agent works in it.
    #[error("the data directory {} is in use by another agent: stop that one, or give each a data_dir of its own", path.display())]
    InUse {
        /// The directory.
        path: PathBuf,
    },
    /// The directory is not the one that was locked, or its lock file is not.
    #[error(
        "the data directory {} (or the lock file in it) was removed or replaced while this agent ran: nothing is stored \
         meanwhile; restart the agent",
        path.display()
    )]
    Lost {
        /// The directory.
        path: PathBuf,
    },
    /// Something that is no file stands under the name of one.
    #[error("{} is {found}, not a file: move it away, or choose another data_dir", path.display())]
    NotAFile {
        /// The path of it.
        path: PathBuf,
        /// Its kind, in words.
        found: &'static str,
    },
    /// The state file cannot be read.
    #[error("cannot read the state file {}: {source}; check its owner and permissions", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// The state file cannot be written.
    #[error("cannot write the state file {}: {source}; check free space and permissions", path.display())]
    Write {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// The state file is not one that can be believed.
    #[error(
        "state file {} refused: {reason}. It was left as it is: use the version that wrote it, or move it away to start \
         without memory (a voter is then to be removed and added again)",
        path.display()
    )]
    Refused {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        reason: BadState,
    },
    /// The state file is a copy of what a voter wrote.
    #[error(
        "the state file {path} is a copy of what this voter wrote: if it is a backup, what was voted since is not in it, \
         and a voter that forgets can vote twice, which makes two leaders. Move it away, start without memory, and remove \
         and add the voter; or, if this is the newest state, and was only moved here while the node was stopped, create \
         the empty file {moved} and start again",
        path = path.display(),
        moved = path.with_file_name(MOVED_FILE).display()
    )]
    Copied {
        /// The file.
        path: PathBuf,
    },
    /// The state file belongs to a voter of another name.
    #[error(
        "state file {} belongs to the voter {found:?}, this node is {configured:?}: two of one identity would vote twice. \
         Correct the node's name, choose another data_dir, or move the file away to start without memory",
        path.display()
    )]
    OtherVoter {
        /// The file.
        path: PathBuf,
        /// The node in the file.
        found: NodeId,
        /// The node in the configuration.
        configured: NodeId,
    },
    /// The state file belongs to a node of another cluster.
    #[error(
        "state file {} belongs to cluster {found:?}, this node is configured for {configured:?}: correct the cluster's \
         name, or choose another data_dir",
        path.display()
    )]
    OtherCluster {
        /// The file.
        path: PathBuf,
        /// The cluster in the file.
        found: NodeId,
        /// The cluster in the configuration.
        configured: NodeId,
    },
}

/// A locked data directory.
#[derive(Debug)]
pub(crate) struct Store {
    directory: Directory,
    cluster: NodeId,
    node: NodeId,
    /// What an earlier run left as a voter. A run that takes no part in elections must not lose it.
    kept_ballot: Option<Ballot>,
    /// An operator said that what was read is no backup; to be forgotten once it is written anew.
    was_moved: AtomicBool,
}

/// A store, and what was found when it was opened.
#[derive(Debug)]
pub(crate) struct Opened {
    pub(crate) store: Store,
    pub(crate) remembered: Remembered,
    /// What an operator should know of it.
    pub(crate) warnings: Vec<StoreWarning>,
}

/// What an earlier run left behind.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Remembered {
    /// No incarnation above this was ever used, if there was a run at all.
    pub(crate) incarnation_bound: Option<u64>,
    /// Last known addresses of other members.
    pub(crate) addresses: Vec<SocketAddr>,
    /// What it must not forget as a voter, if it ever took part in elections.
    pub(crate) ballot: Option<Ballot>,
}

impl Store {
    /// Creates the directory if need be, locks it, reads what an earlier run left. Blocks on the disk.
    pub(crate) fn open(directory: &Path, cluster: &NodeId, node: &NodeId) -> Result<Opened, StoreError> {
        let (directory, mut warnings) = Directory::open(directory)?;
        let (cluster, node) = (cluster.clone(), node.clone());
        let mut store = Self { directory, cluster, node, kept_ballot: None, was_moved: AtomicBool::new(false) };
        let remembered = store.read(&mut warnings)?;
        store.kept_ballot.clone_from(&remembered.ballot);
        Ok(Opened { store, remembered, warnings })
    }

    /// Replaces the state. Blocks on the disk until it is there.
    pub(crate) fn write(&self, durable: &Durable) -> Result<(), StoreError> {
        self.directory.replace(STATE_FILE, |birth| {
            let saved = Saved {
                cluster: self.cluster.clone(),
                node: self.node.clone(),
                incarnation_bound: durable.incarnation_bound,
                addresses: durable.addresses.clone(),
                ballot: durable.ballot.as_ref().or(self.kept_ballot.as_ref()).cloned(),
                birth,
            };
            state::encode(&saved).map_err(io::Error::other)
        })?;
        if self.was_moved.swap(false, Ordering::Relaxed) {
            // Said once, it holds for one start.
            self.directory.remove(MOVED_FILE)?;
        }
        Ok(())
    }

    fn path(&self) -> PathBuf {
        self.directory.path_of(STATE_FILE)
    }

    fn read(&self, warnings: &mut Vec<StoreWarning>) -> Result<Remembered, StoreError> {
        // One byte more than allowed, so that a longer file fails its length check instead of being read as a shorter one.
        let Some(Contents { bytes, birth: born }) = self.directory.read(STATE_FILE, state::MAX_BYTES + 1, warnings)?
        else {
            return Ok(Remembered::default());
        };
        let was_moved = self.directory.has(MOVED_FILE);
        self.was_moved.store(was_moved, Ordering::Relaxed);
        let path = self.path();
        let saved = match state::decode(&bytes) {
            Ok(saved) => saved,
            Err(reason) => return Err(StoreError::Refused { path, reason }),
        };
        if saved.cluster != self.cluster {
            return Err(StoreError::OtherCluster { path, found: saved.cluster, configured: self.cluster.clone() });
        }
        let Saved { incarnation_bound, addresses, ballot, birth, node: found, .. } = saved;
        let has_voted = ballot.as_ref().is_some_and(|ballot| !ballot.is_blank());
        let is_other = Birth::differ(birth, born) || Birth::is_before(born, self.directory.newest());
        let (is_copy, is_named_otherwise) = (is_other && !was_moved, found != self.node);
        let configured = self.node.clone();
        match (has_voted, is_named_otherwise, is_copy) {
            (true, true, _) => return Err(StoreError::OtherVoter { path, found, configured }),
            (true, false, true) => return Err(StoreError::Copied { path }),
            (false, true, _) => warnings.push(StoreWarning::OtherName { path, found, configured }),
            (_, false, _) => {}
        }
        // Of another one's state, or a copy, not even the identity is kept: whoever it is from may have it.
        let ballot = ballot.filter(|_| !is_copy && !is_named_otherwise);
        Ok(Remembered { incarnation_bound: Some(incarnation_bound), addresses, ballot })
    }
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

    /// The ballot of a node that has voted.
    fn voted() -> Ballot {
        let (identity, term) = (Identity(7), Term(3));
        Ballot { version: 3, term, vote: Some(identity), ..Ballot::blank(identity) }
    }

    /// A directory that such a state was written to, and what a backup program makes of it later.
    fn restored(ballot: Option<Ballot>) -> tempfile::TempDir {
        let directory = tempfile::tempdir().expect("a directory");
        let (store, _) = open(directory.path()).expect("opens");
        store.write(&Durable { ballot, ..durable(1) }).expect("written");
        drop(store);
        let (state, backup) = (directory.path().join(STATE_FILE), directory.path().join("backup"));
        fs::copy(&state, &backup).expect("copied");
        let original = fs::metadata(&state).and_then(|state| state.created()).expect("a file system that knows");
        fs::remove_file(&state).expect("removed");
        let deadline = std::time::Instant::now() + std::time::Duration::from_secs(30);
        // Time passes between a write and the restoring of its backup: as much as the file system must tell apart.
        while fs::metadata(&state).and_then(|state| state.created()).map_or(true, |created| {
            created.duration_since(original).map_or(true, |since| since < std::time::Duration::from_millis(20))
        }) {
            assert!(std::time::Instant::now() < deadline, "no time passes");
            let _ = fs::remove_file(&state);
            fs::copy(&backup, &state).expect("restored");
        }
        directory
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn a_restored_backup_of_a_voters_state_is_refused_and_left_untouched() {
        let directory = restored(Some(voted()));
        let path = directory.path().join(STATE_FILE);
        let before = fs::read(&path).expect("is there");
        for _ in 0..2 {
            let error = open(directory.path()).expect_err("refused");
            assert!(matches!(&error, StoreError::Copied { path: copied } if *copied == path), "{error}");
            assert!(error.to_string().contains(MOVED_FILE), "{error}");
        }
        assert_eq!(fs::read(&path).expect("is there"), before, "untouched");
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn a_state_that_was_moved_while_nobody_ran_is_taken_once_the_operator_says_so_for_one_start() {
        let directory = restored(Some(voted()));
        fs::write(directory.path().join(MOVED_FILE), "").expect("written");
        let (store, remembered) = open(directory.path()).expect("believed");
        assert_eq!(remembered.ballot, Some(voted()));
        assert!(directory.path().join(MOVED_FILE).exists(), "until the state is written anew");
        store.write(&Durable { ballot: remembered.ballot, ..durable(2) }).expect("written");
        assert!(!directory.path().join(MOVED_FILE).exists());
        drop(store);
        assert_eq!(open(directory.path()).expect("its own file").1.ballot, Some(voted()));
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

    #[cfg(target_os = "linux")]
    #[test]
    fn a_copy_of_a_state_without_votes_is_taken_but_for_its_identity() {
        let blank = Some(Ballot::blank(Identity(7)));
        let (_store, remembered) = open(restored(blank).path()).expect("opens");
        let incarnation_bound = Some(1);
        assert_eq!(remembered, Remembered { incarnation_bound, addresses: durable(1).addresses, ballot: None });
        assert!(open(restored(None).path()).is_ok());
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn a_hard_link_to_an_older_state_is_refused_and_so_is_a_directory_of_links() {
        for links_lock in [false, true] {
            let parent = tempfile::tempdir().expect("a directory");
            let (data, backup) = (parent.path().join("data"), parent.path().join("backup"));
            let (store, _) = open(&data).expect("opens");
            store.write(&Durable { ballot: Some(voted()), ..durable(1) }).expect("written");
            fs::create_dir(&backup).expect("created");
            let linked: &[&str] = if links_lock { &[STATE_FILE, directory::LOCK_FILE] } else { &[STATE_FILE] };
            for name in linked {
                fs::hard_link(data.join(name), backup.join(name)).expect("linked");
            }
            let born =
                |path: &Path| fs::metadata(path).and_then(|file| file.created()).expect("a file system that knows");
            let first = born(&backup.join(STATE_FILE));
            let deadline = std::time::Instant::now() + std::time::Duration::from_secs(30);
            while born(&data.join(STATE_FILE)) < first + std::time::Duration::from_millis(20) {
                assert!(std::time::Instant::now() < deadline, "no time passes");
                store.write(&Durable { ballot: Some(voted()), ..durable(2) }).expect("written");
            }
            drop(store);
            open(&data).expect("the newest one is taken");
            let restored = if links_lock {
                backup
            } else {
                fs::rename(backup.join(STATE_FILE), data.join(STATE_FILE)).expect("restored");
                data
            };
            let error = open(&restored).expect_err("refused");
            assert!(matches!(error, StoreError::Copied { .. }), "{error}");
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
        future[8] = 9;
        let longer = [good.as_slice(), &vec![0; state::MAX_BYTES]].concat();
        let cases = [
            (Vec::new(), BadState::Truncated),
            (good[..good.len() - 1].to_vec(), BadState::Truncated),
            (flipped, BadState::Damaged),
            (longer, BadState::Damaged),
            (future, BadState::Future { found: 9 }),
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
