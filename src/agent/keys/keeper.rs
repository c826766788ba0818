//! The keeper of this node's keys: the ring in force, and the file that it survives in.
//!
//! Invariants:
//! - The file is read anew before each change, so that what an operator wrote into it is not lost, and replaced as a whole: at
//!   every instant there is the old one or the new one. The new one is its owner's alone (mode 0600).
//! - A change that cannot be kept is not made.
//!
//! Blocks. Must not know: other members.

use std::fs::{self, OpenOptions};
use std::io::{self, Write as _};
use std::path::Path;
use std::sync::{Mutex, PoisonError};

use super::word::KeyRequest;
use super::{HeldKeys, KeysError};
use crate::config::{ReadKeys, SealConfig, read_key_file};
use crate::seal::{Key, KeyFile, KeyId, KeyRing, RingError, SealError, SealMode};
use crate::transport::sealing::{SealPolicy, Sealing};

/// The keeper.
#[derive(Debug)]
pub(in crate::agent) struct Keeper {
    sealing: Sealing,
    /// The configuration in force. Its lock is held through a change, so that changes come one after the other.
    config: Mutex<SealConfig>,
}

impl Keeper {
    pub(in crate::agent) fn new(sealing: Sealing, config: SealConfig) -> Self {
        Self { sealing, config: Mutex::new(config) }
    }

    /// Returns what a configuration asks for; reads its key file, unless nothing is to be sealed.
    pub(in crate::agent) fn load(config: &SealConfig) -> Result<SealPolicy, KeysError> {
        let mode = config.mode();
        let ring = match &config.key_file {
            _ if mode == SealMode::Off => None,
            Some(path) => Some(read(path)?.ring),
            None => config.inline_ring()?,
        };
        Ok(SealPolicy::new(mode, ring))
    }

    /// Returns the keys in force.
    pub(in crate::agent) fn held(&self) -> HeldKeys {
        let policy = self.sealing.policy();
        HeldKeys { mode: policy.mode(), keys: policy.ring().map(KeyRing::ids).unwrap_or_default() }
    }

    /// Returns the numbers of datagrams and frames refused because of their seals.
    pub(in crate::agent) fn refused(&self) -> [u64; SealError::COUNT] {
        self.sealing.refused()
    }

    /// Puts another configuration in force; after an error everything is as it was.
    pub(super) fn reload(&self, config: SealConfig) -> Result<(HeldKeys, HeldKeys), KeysError> {
        let mut present = self.config.lock().unwrap_or_else(PoisonError::into_inner);
        let policy = Self::load(&config)?;
        let before = self.held();
        self.sealing.set_policy(policy);
        *present = config;
        Ok((before, self.held()))
    }

    /// Makes a change, and keeps it; returns the keys in force then.
    pub(super) fn change(&self, request: &KeyRequest) -> Result<HeldKeys, KeysError> {
        if !request.is_change() {
            return Ok(self.held());
        }
        let config = self.config.lock().unwrap_or_else(PoisonError::into_inner);
        let mode = self.sealing.policy().mode();
        if mode != SealMode::Require {
            return Err(KeysError::NotSealed { mode });
        }
        let path = config.key_file.as_deref().ok_or(KeysError::NotKept)?;
        let ReadKeys { file, mut ring, .. } = read(path)?;
        apply(&mut ring, request)?;
        write(path, &file.with(&ring)).map_err(|error| KeysError::File {
            path: path.to_owned(),
            reason: format!("cannot be replaced: {error}; its directory must be writable by the agent"),
        })?;
        self.sealing.set_policy(SealPolicy::new(mode, Some(ring)));
        Ok(self.held())
    }
}

fn apply(ring: &mut KeyRing, request: &KeyRequest) -> Result<(), RingError> {
    match request {
        KeyRequest::List => {}
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

/// Replaces a key file; a symbolic link stays, and its target is replaced.
fn write(path: &Path, file: &KeyFile) -> io::Result<()> {
    let path = fs::canonicalize(path)?;
    let directory = path.parent().ok_or_else(|| io::Error::other("it is in no directory"))?;
    let name = path.file_name().ok_or_else(|| io::Error::other("it has no name"))?;
    let next = directory.join(format!(".{}.{}.next", name.to_string_lossy(), std::process::id()));
    let written = write_new(&next, file).and_then(|()| fs::rename(&next, &path));
    if let Err(error) = written {
        let _ = fs::remove_file(&next);
        return Err(error);
    }
    // The name, too, is on the disk. Some systems cannot open a directory.
    fs::File::open(directory).and_then(|directory| directory.sync_all()).or_else(|error| match error.kind() {
        io::ErrorKind::PermissionDenied | io::ErrorKind::Unsupported => Ok(()),
        _ => Err(error),
    })
}

fn write_new(path: &Path, file: &KeyFile) -> io::Result<()> {
    // Left behind by a process of this number that died here.
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let mut options = OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    let mut next = options.open(path)?;
    next.write_all(file.text().as_bytes())?;
    next.sync_all()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::core::NodeId;
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
    fn what_an_operator_wrote_meanwhile_is_kept() {
        let directory = tempfile::tempdir().expect("a directory");
        let text = |keys: &[u8]| {
            let ring = KeyRing::new(keys.iter().map(|number| key(*number))).expect("keys");
            KeyFile::default().with(&ring).text().as_str().to_owned()
        };
        let config = in_file(directory.path(), &text(&[1]));
        let keeper = keeper(config.clone()).expect("a key");
        in_file(directory.path(), &text(&[1, 3]));
        assert_eq!(keeper.held().keys, [key(1).id()], "not read yet");
        let held = keeper.change(&KeyRequest::add(&key(2))).expect("changed");
        assert_eq!(held.keys, [key(1).id(), key(3).id(), key(2).id()]);
        in_file(directory.path(), &text(&[2]));
        let (before, after) = keeper.reload(config).expect("read again");
        assert_eq!((before.keys.len(), after.keys), (3, vec![key(2).id()]));
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
    fn a_reload_that_fails_changes_nothing() {
        let directory = tempfile::tempdir().expect("a directory");
        let config = in_file(directory.path(), &format!("{}\n", key(1).to_base64().as_str()));
        let keeper = keeper(config.clone()).expect("a key");
        in_file(directory.path(), "no key\n");
        assert!(keeper.reload(config).is_err());
        assert_eq!(keeper.held().keys, [key(1).id()]);
    }
}
