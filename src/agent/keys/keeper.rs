//! The keeper of this node's keys: the ring in force, and the file that it survives in.
//!
//! Invariants:
//! - The file is read anew before each change, and replaced as a whole: at every instant there is the old one or the new one.
//!   The new one is its owner's alone (mode 0600). What an operator wrote into it is neither lost nor put in force by a
//!   change: SIGHUP is to come first.
//! - A change that cannot be kept is not made.
//!
//! Blocks. Must not know: other members.

use std::ffi::OsString;
use std::fs::{self, OpenOptions};
use std::io::{self, Write as _};
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use tokio::sync::Semaphore;

use super::turn::Turn;
use super::word::KeyRequest;
use super::{HeldKeys, KeysError};
use crate::config::{ConfigError, ReadKeys, SealConfig, read_key_file};
use crate::core::NodeId;
use crate::seal::{Key, KeyFile, KeyId, KeyRing, RingError, SealError, SealMode};
use crate::transport::sealing::{SealPolicy, Sealing};

/// The keeper.
#[derive(Debug)]
pub(in crate::agent) struct Keeper {
    sealing: Sealing,
    /// The configuration in force. Its lock is held through a change, so that changes come one after the other.
    config: Mutex<SealConfig>,
    /// The node at whose command keys are changed.
    turn: Turn,
    /// The one permit for changes that this node makes at all members.
    changing: Arc<Semaphore>,
}

impl Keeper {
    pub(in crate::agent) fn new(sealing: Sealing, config: SealConfig) -> Self {
        Self { sealing, config: Mutex::new(config), turn: Turn::default(), changing: Arc::new(Semaphore::new(1)) }
    }

    /// Returns what a configuration asks for; reads its key file, unless nothing is to be sealed.
    pub(in crate::agent) fn load(config: &SealConfig) -> Result<SealPolicy, KeysError> {
        let mode = config.mode();
        if mode == SealMode::Off {
            return Ok(SealPolicy::default());
        }
        let ring = match &config.key_file {
            Some(path) => read(path)?.ring,
            None => config.inline_ring()?.ok_or(ConfigError::SealWithoutKeys { mode })?,
        };
        Ok(SealPolicy::new(mode, ring))
    }

    /// Holds changes up, as a slow disk does, until the guard is dropped.
    #[cfg(test)]
    pub(super) fn hold_changes(&self) -> std::sync::MutexGuard<'_, SealConfig> {
        self.config.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns true if another node than this one has the turn to change keys.
    #[cfg(test)]
    pub(super) fn is_turn_of_another(&self, node: &NodeId) -> bool {
        self.turn.check(node, Instant::now()).is_err()
    }

    /// Returns the one permit for changes that this node makes at all members.
    pub(super) fn changing(&self) -> &Arc<Semaphore> {
        &self.changing
    }

    /// Returns the keys in force.
    pub(in crate::agent) fn held(&self) -> HeldKeys {
        let policy = self.sealing.policy();
        HeldKeys { mode: policy.mode(), keys: policy.ring().map(KeyRing::ids).unwrap_or_default() }
    }

    /// Returns the key of this id that is in force here.
    pub(super) fn key(&self, id: KeyId) -> Option<Key> {
        self.sealing.policy().ring()?.find(id).cloned()
    }

    /// Returns the numbers of datagrams and frames refused because of their seals.
    pub(in crate::agent) fn refused(&self) -> [u64; SealError::COUNT] {
        self.sealing.refused()
    }

    /// Puts another configuration in force; after an error everything is as it was. Seals do not end by what a
    /// configuration leaves out, nor but by the last of the steps that lead there: others would not be heard any more.
    pub(super) fn reload(&self, config: SealConfig) -> Result<(HeldKeys, HeldKeys), KeysError> {
        let mut present = self.config.lock().unwrap_or_else(PoisonError::into_inner);
        let policy = Self::load(&config)?;
        let before = self.held();
        let is_last_step = before.mode == SealMode::Permit && config.mode == Some(SealMode::Off);
        if policy.mode() == SealMode::Off && before.mode != SealMode::Off && !is_last_step {
            return Err(KeysError::EndsSeals { mode: before.mode });
        }
        self.sealing.set_policy(policy);
        *present = config;
        Ok((before, self.held()))
    }

    /// Does what a node asks for, unless it is the turn of another one; returns the keys in force then.
    pub(super) fn answer(&self, request: &KeyRequest, by: &NodeId) -> Result<HeldKeys, KeysError> {
        let now = Instant::now();
        match request {
            // Nobody is locked out by one more key.
            KeyRequest::List | KeyRequest::Add(_) => {}
            KeyRequest::Use(_) | KeyRequest::Remove(_) => self.turn.check(by, now)?,
            KeyRequest::Turn(true) => self.turn.take(by, now)?,
            KeyRequest::Turn(false) => self.turn.end(by),
        }
        self.change(request)
    }

    /// Makes a change, and keeps it; returns the keys in force then.
    fn change(&self, request: &KeyRequest) -> Result<HeldKeys, KeysError> {
        if !request.is_change() {
            return Ok(self.held());
        }
        let config = self.config.lock().unwrap_or_else(PoisonError::into_inner);
        let mode = self.sealing.policy().mode();
        if mode != SealMode::Require {
            return Err(KeysError::NotSealed { mode });
        }
        let path = config.key_file.as_deref().ok_or(KeysError::NotKept)?;
        let ReadKeys { file, ring: kept, .. } = read(path)?;
        let policy = self.sealing.policy();
        let in_force = policy.ring().ok_or(KeysError::NotSealed { mode })?;
        let mut ring = in_force.clone();
        apply(&mut ring, request)?;
        // Another agent that has the same file may have made the change there.
        if kept != ring {
            if kept != *in_force {
                return Err(KeysError::NotRead { path: path.to_owned() });
            }
            write(path, &file.with(&ring)).map_err(|error| KeysError::File {
                path: path.to_owned(),
                reason: format!("cannot be replaced: {error}; its directory must be writable by the agent"),
            })?;
        }
        self.sealing.set_policy(SealPolicy::new(mode, ring));
        Ok(self.held())
    }
}

fn apply(ring: &mut KeyRing, request: &KeyRequest) -> Result<(), RingError> {
    match request {
        KeyRequest::List | KeyRequest::Turn(_) => {}
        // Equal bytes are no key; there is no id to name it by.
        KeyRequest::Add(secret) => {
            ring.add(Key::from_bytes(secret).map_err(|_| RingError::Empty)?)?;
        }
        KeyRequest::Use(id) => {
            ring.use_key(KeyId(*id))?;
        }
        KeyRequest::Remove(id) => {
            ring.remove(KeyId(*id))?;
        }
    }
    Ok(())
}

fn read(path: &Path) -> Result<ReadKeys, KeysError> {
    read_key_file(path).map_err(|error| KeysError::File { path: path.to_owned(), reason: error.to_string() })
}

/// The age at which the next file of a writer that died is removed.
const ABANDONED: Duration = Duration::from_secs(10);

/// Replaces a key file; a symbolic link stays, and its target is replaced. Two writers do not mix: there is one next file.
fn write(path: &Path, file: &KeyFile) -> io::Result<()> {
    let path = fs::canonicalize(path)?;
    let directory = path.parent().ok_or_else(|| io::Error::other("it is in no directory"))?;
    let name = path.file_name().ok_or_else(|| io::Error::other("it has no name"))?;
    let mut next_name = OsString::from(".");
    next_name.push(name);
    next_name.push(".next");
    let next = directory.join(next_name);
    let opened = open_new(&next)?;
    let written = write_to(opened, file).and_then(|()| fs::rename(&next, &path));
    if let Err(error) = written {
        let _ = fs::remove_file(&next);
        return Err(error);
    }
    // The name is to be on the disk, too. The file is replaced by now, so that an error here makes no difference: whoever
    // reads it finds the change. Some systems cannot open a directory.
    let _ = fs::File::open(directory).and_then(|directory| directory.sync_all());
    Ok(())
}

/// Opens the next file, which nobody else is writing.
fn open_new(path: &Path) -> io::Result<fs::File> {
    let mut options = OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    let opened = options.open(path);
    if !opened.as_ref().is_err_and(|error| error.kind() == io::ErrorKind::AlreadyExists) {
        return opened;
    }
    let age = fs::symlink_metadata(path)?.modified()?.elapsed().unwrap_or_default();
    if age < ABANDONED {
        let text = format!("another process is writing {}: try again in {ABANDONED:?}", path.display());
        return Err(io::Error::new(io::ErrorKind::AlreadyExists, text));
    }
    fs::remove_file(path)?;
    options.open(path)
}

fn write_to(mut next: fs::File, file: &KeyFile) -> io::Result<()> {
    next.write_all(file.text().as_bytes())?;
    next.sync_all()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::journal::Journal;
    use crate::seal::tests::key;

    fn keeper(config: SealConfig) -> Result<Keeper, KeysError> {
        let journal = Journal::start(&NodeId::new("me").expect("a name")).expect("a thread");
        let sealing = Sealing::off(journal);
        sealing.set_policy(Keeper::load(&config)?);
        Ok(Keeper::new(sealing, config))
    }

    fn in_file(directory: &Path, text: &str) -> SealConfig {
        let path = directory.join("keys");
        fs::write(&path, text).expect("written");
        SealConfig { key_file: Some(path), ..SealConfig::default() }
    }

    #[test]
    fn a_rotation_is_on_the_disk_step_by_step_and_a_restart_finds_it() {
        let directory = tempfile::tempdir().expect("a directory");
        let config = in_file(directory.path(), &format!("# the first\n{}\n", key(1).to_base64().as_str()));
        let (old, new) = (key(1).id(), key(2).id());
        for (request, expected) in [
            (KeyRequest::add(&key(2)), vec![old, new]),
            (KeyRequest::add(&key(2)), vec![old, new]),
            (KeyRequest::Use(new.0), vec![new, old]),
            (KeyRequest::Remove(old.0), vec![new]),
            (KeyRequest::Remove(old.0), vec![new]),
        ] {
            let before = keeper(config.clone()).expect("the file of the step before");
            assert_eq!(before.change(&request).expect("changed").keys, expected, "{request:?}");
        }
        let after = keeper(config.clone()).expect("the file");
        assert_eq!(after.held(), HeldKeys { mode: SealMode::Require, keys: vec![new] });
        assert_eq!(after.change(&KeyRequest::Remove(new.0)), Err(RingError::Sealing(new).into()));
        let names = fs::read_dir(directory.path()).expect("readable").count();
        assert_eq!(names, 1, "nothing is left beside the file");
        #[cfg(unix)]
        {
            use std::os::unix::fs::PermissionsExt as _;
            let mode = fs::metadata(config.key_file.expect("a file")).expect("there").permissions().mode();
            assert_eq!(mode & 0o777, 0o600);
        }
    }

    #[test]
    fn what_an_operator_wrote_is_neither_lost_nor_put_in_force_by_a_change() {
        let directory = tempfile::tempdir().expect("a directory");
        let text = |keys: &[u8]| {
            let ring = KeyRing::new(keys.iter().map(|number| key(*number))).expect("keys");
            KeyFile::default().with(&ring).text().as_str().to_owned()
        };
        let config = in_file(directory.path(), &text(&[1]));
        let keeper = keeper(config.clone()).expect("a key");
        in_file(directory.path(), &text(&[1, 3]));
        assert_eq!(keeper.held().keys, [key(1).id()], "not read yet");
        let path = config.key_file.clone().expect("a file");
        for request in [KeyRequest::add(&key(2)), KeyRequest::Use(key(1).id().0), KeyRequest::Remove(key(9).id().0)] {
            assert_eq!(keeper.change(&request), Err(KeysError::NotRead { path: path.clone() }), "{request:?}");
        }
        assert_eq!(keeper.held().keys, [key(1).id()]);
        assert_eq!(fs::read_to_string(&path).expect("a text"), text(&[1, 3]));
        keeper.reload(config.clone()).expect("read");
        let held = keeper.change(&KeyRequest::add(&key(2))).expect("changed");
        assert_eq!(held.keys, [key(1).id(), key(3).id(), key(2).id()]);
        in_file(directory.path(), &text(&[2]));
        let (before, after) = keeper.reload(config).expect("read again");
        assert_eq!((before.keys.len(), after.keys), (3, vec![key(2).id()]));
    }

    #[test]
    fn agents_that_have_one_file_each_make_the_change() {
        let directory = tempfile::tempdir().expect("a directory");
        let config = in_file(directory.path(), &format!("{}\n", key(1).to_base64().as_str()));
        let agents = [keeper(config.clone()).expect("a key"), keeper(config).expect("a key")];
        let (old, new) = (key(1).id(), key(2).id());
        for (request, expected) in [
            (KeyRequest::add(&key(2)), vec![old, new]),
            (KeyRequest::Use(new.0), vec![new, old]),
            (KeyRequest::Remove(old.0), vec![new]),
        ] {
            for agent in &agents {
                assert_eq!(agent.change(&request).expect("changed").keys, expected, "{request:?}");
            }
        }
    }

    #[test]
    fn a_file_that_cannot_be_replaced_leaves_nothing_beside_it() {
        let directory = tempfile::tempdir().expect("a directory");
        // A file does not take the place of a directory.
        let path = directory.path().join("cluster.key");
        fs::create_dir(&path).expect("made");
        write(&path, &KeyFile::default()).expect_err("it is a directory");
        let names: Vec<_> =
            fs::read_dir(directory.path()).expect("readable").map(|entry| entry.expect("one").path()).collect();
        assert_eq!(names, [path]);
    }

    #[test]
    fn a_next_file_that_is_being_written_is_left_alone_and_one_that_was_abandoned_is_not() {
        let directory = tempfile::tempdir().expect("a directory");
        let config = in_file(directory.path(), &format!("{}\n", key(1).to_base64().as_str()));
        let keeper = keeper(config).expect("a key");
        let next = directory.path().join(".keys.next");
        fs::write(&next, "half").expect("written");
        let refused = keeper.change(&KeyRequest::add(&key(2))).expect_err("somebody writes it");
        assert!(refused.to_string().contains("another process is writing"), "{refused}");
        assert_eq!(fs::read_to_string(&next).expect("still there"), "half");
        assert_eq!(keeper.held().keys.len(), 1);
        let long_ago = std::time::SystemTime::now() - ABANDONED - Duration::from_secs(1);
        let file = fs::File::options().write(true).open(&next).expect("there");
        file.set_modified(long_ago).expect("set");
        assert_eq!(keeper.change(&KeyRequest::add(&key(2))).expect("changed").keys.len(), 2);
        assert!(!next.exists());
    }

    #[cfg(unix)]
    #[test]
    fn a_link_to_a_key_file_stays_and_its_target_is_replaced() {
        let directory = tempfile::tempdir().expect("a directory");
        let secret = directory.path().join("secret");
        fs::create_dir(&secret).expect("made");
        let target = in_file(&secret, &format!("{}\n", key(1).to_base64().as_str())).key_file.expect("a file");
        let link = directory.path().join("keys");
        std::os::unix::fs::symlink(&target, &link).expect("linked");
        let keeper = keeper(SealConfig { key_file: Some(link.clone()), ..SealConfig::default() }).expect("a key");
        keeper.change(&KeyRequest::add(&key(2))).expect("changed");
        assert!(fs::symlink_metadata(&link).expect("there").is_symlink());
        assert_eq!(read(&target).expect("a file").ring.ids().len(), 2);
    }

    #[test]
    fn seals_end_by_the_last_step_and_not_by_what_is_left_out() {
        let directory = tempfile::tempdir().expect("a directory");
        let file = in_file(directory.path(), &format!("{}\n", key(1).to_base64().as_str()));
        let mode = |mode| SealConfig { mode: Some(mode), ..file.clone() };
        let keeper = keeper(file.clone()).expect("a key");
        for off in [SealConfig::default(), mode(SealMode::Off)] {
            assert_eq!(keeper.reload(off), Err(KeysError::EndsSeals { mode: SealMode::Require }));
        }
        let none = SealConfig { mode: Some(SealMode::Require), ..SealConfig::default() };
        assert!(matches!(keeper.reload(none), Err(KeysError::Config(ConfigError::SealWithoutKeys { .. }))));
        assert_eq!(keeper.held().mode, SealMode::Require);
        keeper.reload(mode(SealMode::Prefer)).expect("a step");
        assert!(keeper.reload(mode(SealMode::Off)).is_err(), "those that prefer seals would not be heard");
        keeper.reload(mode(SealMode::Permit)).expect("a step");
        assert!(keeper.reload(SealConfig::default()).is_err(), "it must be said");
        keeper.reload(mode(SealMode::Off)).expect("the last step");
        assert_eq!(keeper.held(), HeldKeys { mode: SealMode::Off, keys: Vec::new() });
        keeper.reload(SealConfig::default()).expect("nothing was sealed");
    }

    #[test]
    fn a_change_that_cannot_be_kept_or_that_would_travel_in_the_clear_is_not_made() {
        let inline = SealConfig { keys: vec![key(1)], ..SealConfig::default() };
        let inline = keeper(inline).expect("a key");
        assert_eq!(inline.change(&KeyRequest::add(&key(2))), Err(KeysError::NotKept));
        let directory = tempfile::tempdir().expect("a directory");
        let text = format!("{}\n", key(1).to_base64().as_str());
        let config = SealConfig { mode: Some(SealMode::Prefer), ..in_file(directory.path(), &text) };
        let clear = keeper(config.clone()).expect("a key");
        assert_eq!(clear.change(&KeyRequest::add(&key(2))), Err(KeysError::NotSealed { mode: SealMode::Prefer }));
        let keeper = keeper(in_file(directory.path(), &text)).expect("a key");
        fs::remove_file(config.key_file.expect("a file")).expect("removed");
        assert!(matches!(keeper.change(&KeyRequest::add(&key(2))), Err(KeysError::File { .. })));
        assert_eq!(keeper.held().keys, [key(1).id()], "and the ring stays");
    }

    #[test]
    fn keys_are_changed_from_one_node_at_a_time() {
        let directory = tempfile::tempdir().expect("a directory");
        let config = in_file(directory.path(), &format!("{}\n", key(1).to_base64().as_str()));
        let keeper = keeper(config).expect("a key");
        let [a, b] = ["a", "b"].map(|name| NodeId::new(name).expect("a name"));
        let new = key(2).id();
        let held = keeper.answer(&KeyRequest::Turn(true), &a).expect("nobody else has it");
        assert_eq!(held.keys, [key(1).id()], "it is the answer to the question, too");
        keeper.answer(&KeyRequest::add(&key(2)), &b).expect("it locks nobody out");
        for request in [KeyRequest::Turn(true), KeyRequest::Use(new.0), KeyRequest::Remove(new.0)] {
            assert_eq!(keeper.answer(&request, &b), Err(KeysError::Busy { by: a.clone() }), "{request:?}");
        }
        assert_eq!(keeper.answer(&KeyRequest::List, &b).expect("listed").keys, [key(1).id(), new]);
        keeper.answer(&KeyRequest::Use(new.0), &a).expect("its turn");
        keeper.answer(&KeyRequest::Turn(false), &b).expect("not its turn");
        assert!(keeper.answer(&KeyRequest::Turn(true), &b).is_err());
        keeper.answer(&KeyRequest::Turn(false), &a).expect("it gives it back");
        keeper.answer(&KeyRequest::Remove(key(1).id().0), &b).expect("free");
    }

    #[test]
    fn a_reload_that_fails_changes_nothing() {
        let directory = tempfile::tempdir().expect("a directory");
        let config = in_file(directory.path(), &format!("{}\n", key(1).to_base64().as_str()));
        let keeper = keeper(config.clone()).expect("a key");
        in_file(directory.path(), "no key\n");
        assert!(keeper.reload(config).is_err());
        assert_eq!(keeper.held().keys, [key(1).id()]);
    }

    #[test]
    fn after_a_reload_changes_are_kept_in_the_file_that_it_names() {
        let [before, after] = [0, 1].map(|_| tempfile::tempdir().expect("a directory"));
        let text = format!("{}\n", key(1).to_base64().as_str());
        let [former, newer] = [&before, &after].map(|directory| in_file(directory.path(), &text));
        let keeper = keeper(former.clone()).expect("a key");
        keeper.reload(newer.clone()).expect("read");
        keeper.change(&KeyRequest::add(&key(2))).expect("changed");
        let held = |config: SealConfig| read(&config.key_file.expect("a file")).expect("keys").ring.ids().len();
        assert_eq!((held(former), held(newer.clone())), (1, 2), "a restart reads the newer one");
        assert_eq!(Keeper::load(&newer).expect("keys").ring().map(KeyRing::ids), Some(keeper.held().keys));
    }
}
