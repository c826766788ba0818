//! The keeper of this node's keys: the ring in force, and the file that it survives in.
//!
//! Invariants:
//! - The file is read anew before each change, and replaced as a whole: at every instant there is the old one or the new one.
//!   The new one is its owner's alone (mode 0600). What an operator or another agent wrote into it is neither lost nor put in
//!   force by a change: SIGHUP is to come first, or a packet that is sealed with a key which this node lacks.
//! - A change that cannot be kept is not made.
//!
//! Blocks. Must not know: other members.

#[cfg(test)]
mod tests;

use std::fs;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use tokio::sync::Semaphore;
use tokio::task::spawn_blocking;
use tokio::time::sleep;
use tracing::Level;

use super::turn::Turn;
use super::word::KeyRequest;
use super::{HeldKeys, KeysError, SealingInfo};
use crate::config::{ConfigError, Reach, ReadKeys, SealConfig, read_key_file};
use crate::core::NodeId;
use crate::files;
use crate::journal::Journal;
use crate::seal::{Key, KeyFile, KeyId, KeyRing, RingError, SealError, SealMode};
#[cfg(feature = "metrics")]
use crate::transport::sealing::Otherwise;
use crate::transport::sealing::{SealPolicy, Sealing};

/// The shortest time between two looks at the key file for a key that was not held.
const READ_AGAIN_AFTER: Duration = Duration::from_secs(10);

/// The keeper.
#[derive(Debug)]
pub(crate) struct Keeper {
    sealing: Sealing,
    /// The addresses of this node, and its cluster.
    reach: Reach,
    /// The configuration in force. Its lock is held while the turn is taken or looked at and through a change, so that changes
    /// and turns come one after the other.
    config: Mutex<SealConfig>,
    /// The node at whose command keys are changed.
    turn: Turn,
    /// The one permit for changes that this node makes at all members.
    changing: Arc<Semaphore>,
    #[cfg(test)]
    held_up: Mutex<()>,
}

impl Keeper {
    pub(crate) fn new(sealing: Sealing, config: SealConfig, reach: Reach) -> Self {
        Self {
            sealing,
            reach,
            config: Mutex::new(config),
            turn: Turn::default(),
            changing: Arc::new(Semaphore::new(1)),
            #[cfg(test)]
            held_up: Mutex::default(),
        }
    }

    /// Returns what a configuration asks for; reads its key file, unless nothing is to be sealed.
    pub(crate) fn load(config: &SealConfig) -> Result<SealPolicy, KeysError> {
        let mode = config.mode();
        if mode == SealMode::Off {
            return Ok(if config.is_local() { SealPolicy::default() } else { SealPolicy::clear() });
        }
        let ring = match &config.key_file {
            Some(path) => read(path)?.ring,
            None => config.inline_ring()?.ok_or(ConfigError::SealWithoutKeys { mode })?,
        };
        Ok(SealPolicy::new(mode, ring))
    }

    /// Holds up the changes that come from now on, until the guard is dropped.
    #[cfg(test)]
    pub(super) fn hold_changes(&self) -> std::sync::MutexGuard<'_, ()> {
        self.held_up.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Has a change be under way, as on a slow disk, until the guard is dropped.
    #[cfg(test)]
    pub(super) fn hold_disk(&self) -> std::sync::MutexGuard<'_, SealConfig> {
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
    pub(crate) fn held(&self) -> HeldKeys {
        let policy = self.sealing.policy();
        HeldKeys { mode: policy.mode(), keys: policy.ring().map(KeyRing::ids).unwrap_or_default() }
    }

    /// Returns what is sealed and taken.
    pub(crate) fn info(&self) -> SealingInfo {
        let policy = self.sealing.policy();
        let key = policy.ring().filter(|_| policy.mode().seals()).map(|ring| ring.sealing().id());
        SealingInfo { mode: policy.mode(), key, consented: policy.is_consented() }
    }

    /// Returns true if nothing is taken from there, and nothing said to: this node hears its own machine alone.
    pub(crate) fn keeps_out(&self, other: SocketAddr) -> bool {
        self.sealing.policy().keeps_out(other)
    }

    /// Returns the key of this id that is in force here.
    pub(super) fn key(&self, id: KeyId) -> Option<Key> {
        self.sealing.policy().ring()?.find(id).cloned()
    }

    /// Returns the senders of the last packets that were refused because of their seals, each with the reason.
    #[cfg(feature = "metrics")]
    pub(crate) fn refused_from(&self) -> impl Iterator<Item = (&'static str, SocketAddr)> {
        self.sealing.refused_from()
    }

    /// Returns the key that a packet was sealed with, last of those that this node lacks.
    #[cfg(feature = "metrics")]
    pub(crate) fn lacked(&self) -> Option<KeyId> {
        *self.sealing.lacks_key().borrow()
    }

    /// Returns the time for which mode and keys have been in force, and who has lately sealed otherwise.
    #[cfg(feature = "metrics")]
    pub(crate) fn lately(&self) -> (Duration, Vec<(SocketAddr, Otherwise)>) {
        self.sealing.lately()
    }

    /// Returns the numbers of datagrams and frames refused because of their seals.
    pub(crate) fn refused(&self) -> [u64; SealError::COUNT] {
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
        self.reach.allows(&config)?;
        self.sealing.set_policy(policy);
        *present = config;
        Ok((before, self.held()))
    }

    /// Reads the key file again when packets come that are sealed with a key which this node lacks, for ever.
    pub(crate) async fn follow(self: Arc<Self>, journal: Journal) {
        let mut lacked = self.sealing.lacks_key();
        while lacked.changed().await.is_ok() {
            let Some(id) = *lacked.borrow_and_update() else { continue };
            let keeper = Arc::clone(&self);
            if let Ok(Some((level, text))) = spawn_blocking(move || keeper.read_again(id)).await {
                journal.say(level, text);
            }
            sleep(READ_AGAIN_AFTER).await;
        }
    }

    /// Puts the keys of a key file in force that has this one by now, and says so. Whoever seals with a key that is in no
    /// file moves nothing.
    fn read_again(&self, lacked: KeyId) -> Option<(Level, String)> {
        let config = self.config.lock().unwrap_or_else(PoisonError::into_inner);
        let path = config.key_file.as_deref().filter(|_| self.key(lacked).is_none())?;
        let policy = match Self::load(&config) {
            Ok(policy) => policy,
            Err(error) => {
                return Some((Level::WARN, format!("a packet came with a key that is not held here: {error}")));
            }
        };
        policy.ring()?.find(lacked)?;
        self.sealing.set_policy(policy);
        let keys: Vec<String> = self.held().keys.iter().map(ToString::to_string).collect();
        let (path, keys) = (path.display(), keys.join(", "));
        let text = format!(
            "a packet came with a key that was not held, and the key file {path} was changed: its keys are {keys}"
        );
        Some((Level::INFO, text))
    }

    /// Does what a node asks for until this time, unless it is the turn of another one; returns the keys in force then.
    ///
    /// Whoever takes the turn is told what is held after all changes that are under way: none of them comes upon what the
    /// next one was decided on.
    pub(super) fn answer(
        &self,
        request: &KeyRequest,
        by: &NodeId,
        until: Option<Instant>,
    ) -> Result<HeldKeys, KeysError> {
        if matches!(request, KeyRequest::List) {
            return Ok(self.held());
        }
        #[cfg(test)]
        let _held_up = request.is_change().then(|| self.held_up.lock().unwrap_or_else(PoisonError::into_inner));
        let config = self.config.lock().unwrap_or_else(PoisonError::into_inner);
        let key_file = config.key_file.as_deref().filter(|_| request.is_change());
        let _lock = key_file.map(lock).transpose()?;
        // Whoever asked may have given up while others had the file.
        let now = Instant::now();
        if until.is_some_and(|until| until <= now) {
            return Err(KeysError::TooLate);
        }
        match request {
            // Nobody is locked out by one more key.
            KeyRequest::List | KeyRequest::Add(_) => {}
            KeyRequest::Use(_) | KeyRequest::Remove(_) => self.turn.check(by, now)?,
            KeyRequest::Turn(true) => self.turn.take(by, now)?,
            KeyRequest::Turn(false) => self.turn.end(by),
        }
        self.change(&config, request)
    }

    /// Returns an error if a change would fail here, and changes nothing.
    pub(super) fn try_change(&self, request: &KeyRequest) -> Result<(), KeysError> {
        let config = self.config.lock().unwrap_or_else(PoisonError::into_inner);
        self.prepare(&config, request).map(|_| ())
    }

    /// Makes a change, and keeps it; returns the keys in force then.
    fn change(&self, config: &SealConfig, request: &KeyRequest) -> Result<HeldKeys, KeysError> {
        if !request.is_change() {
            return Ok(self.held());
        }
        let Prepared { mode, ring, write_to } = self.prepare(config, request)?;
        if let Some((path, file)) = write_to {
            // A symbolic link stays, and its target is replaced.
            let target = fs::canonicalize(path);
            let text = file.with(&ring).text();
            let replaced = target.and_then(|target| files::replace(&target, text.as_bytes()));
            replaced.map_err(|error| KeysError::File {
                path: path.to_owned(),
                reason: format!("cannot be replaced: {error}; its directory must be writable by the agent"),
            })?;
        }
        self.sealing.set_policy(SealPolicy::new(mode, ring));
        Ok(self.held())
    }

    fn prepare<'a>(&self, config: &'a SealConfig, request: &KeyRequest) -> Result<Prepared<'a>, KeysError> {
        let policy = self.sealing.policy();
        let mode = policy.mode();
        if mode != SealMode::Require {
            return Err(KeysError::NotSealed { mode });
        }
        let path = config.key_file.as_deref().ok_or(KeysError::NotKept)?;
        let ReadKeys { file, ring: kept, .. } = read(path)?;
        let in_force = policy.ring().ok_or(KeysError::NotSealed { mode })?;
        let mut ring = in_force.clone();
        apply(&mut ring, request)?;
        // Another agent that has the same file may have made the change there.
        if kept == ring {
            return Ok(Prepared { mode, ring, write_to: None });
        }
        if kept != *in_force {
            return Err(KeysError::NotRead { path: path.to_owned() });
        }
        Ok(Prepared { mode, ring, write_to: Some((path, file)) })
    }
}

/// A change that can be made.
struct Prepared<'a> {
    mode: SealMode,
    ring: KeyRing,
    /// The file to be replaced and its present contents, unless it holds the ring already.
    write_to: Option<(&'a Path, KeyFile)>,
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

/// The longest wait for another process that changes the same file.
const LOCK_TIMEOUT: Duration = Duration::from_secs(2);

/// Keeps other agents that have the same file from changing it, until what is returned is dropped. Where a directory cannot
/// be locked (`None`), nobody is kept from it.
fn lock(path: &Path) -> Result<Option<fs::File>, KeysError> {
    let path = fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
    let Some(directory) = path.parent().and_then(|directory| fs::File::open(directory).ok()) else { return Ok(None) };
    match files::lock_within(&directory, LOCK_TIMEOUT) {
        Ok(()) => Ok(Some(directory)),
        Err(fs::TryLockError::WouldBlock) => {
            let reason = format!("is being changed by another process for {LOCK_TIMEOUT:?} now: end it, or try again");
            Err(KeysError::File { path, reason })
        }
        Err(fs::TryLockError::Error(_)) => Ok(None),
    }
}
