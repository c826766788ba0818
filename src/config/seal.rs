//! [`SealConfig`]: the keys that packets are sealed with, the place where they are kept, and the mode.
//!
//! Reads the key file. Must not know how keys are used.

use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use zeroize::Zeroizing;

use super::addresses::is_loopback;
use super::read::{open_to_others, regular_file};
use super::{ConfigError, DEFAULT_CLUSTER};
use crate::core::{NodeId, OutOfRange};
use crate::seal::{Key, KeyFile, KeyFileProblem, KeyRing, MAX_OVERHEAD, RingError, SealMode};

/// The largest key file that is read: eight keys, and comments.
const MAX_KEY_FILE_BYTES: u64 = 64 * 1024;

/// Section `[seal]`.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct SealConfig {
    /// The packets taken and sent. `None`: [`SealMode::Require`] if there are keys, else [`SealMode::Off`] within this machine.
    /// A mode that takes clear packets and is said here is consent to take them from other machines.
    pub mode: Option<SealMode>,
    /// The keys, of which the first one seals. Changes at run time are not kept.
    pub keys: Vec<Key>,
    /// The file that holds the keys, one a line; `headcount keys` changes it. Beside `keys` it is refused.
    pub key_file: Option<PathBuf>,
}

/// The reason for which a key file gives no ring. The message says what is wrong with the file; the caller adds its name.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum KeyFileError {
    /// The file cannot be read, or is not a regular file of sensible length.
    #[error("cannot be read: {0}")]
    Unreadable(io::Error),
    /// The file can be read, but its contents are not a key ring.
    #[error("holds no valid keys: {0}")]
    Invalid(KeyFileProblem),
}

/// The contents of a key file.
#[derive(Debug)]
pub(crate) struct ReadKeys {
    pub(crate) file: KeyFile,
    pub(crate) ring: KeyRing,
    /// The permissions, as in `644`, if others than the owner may read or change the file.
    #[cfg_attr(not(feature = "agent"), allow(dead_code, reason = "the loader of configurations warns of it"))]
    pub(crate) open_to_others: Option<String>,
}

/// Reads a key file.
pub(crate) fn read_key_file(path: &Path) -> Result<ReadKeys, KeyFileError> {
    let (bytes, metadata) = regular_file(path, MAX_KEY_FILE_BYTES).map_err(KeyFileError::Unreadable)?;
    let bytes = Zeroizing::new(bytes);
    // Bytes that are not UTF-8 are no key either; their line is not worth naming.
    let text = std::str::from_utf8(&bytes).map_err(|_| KeyFileError::Invalid(KeyFileProblem::Line { line: 1 }))?;
    let file = KeyFile::parse(text).map_err(KeyFileError::Invalid)?;
    let ring = file.ring().map_err(|error| KeyFileError::Invalid(error.into()))?;
    Ok(ReadKeys { file, ring, open_to_others: open_to_others(&metadata) })
}

/// The addresses at which a node is reached, and its cluster: what decides whether it may take clear packets.
#[derive(Debug, Clone)]
pub(crate) struct Reach {
    /// The address that is bound.
    pub(crate) bound: SocketAddr,
    /// The address that others are told, if that may be another one.
    pub(crate) advertised: Option<SocketAddr>,
    pub(crate) cluster: NodeId,
}

impl Reach {
    /// Refuses clear packets from other machines, unless somebody said that they are meant, and of a cluster with a name of
    /// its own.
    pub(crate) fn allows(&self, seal: &SealConfig) -> Result<(), ConfigError> {
        if !seal.mode().accepts_clear() {
            return Ok(());
        }
        let reached = [("bind", Some(self.bound)), ("advertise", self.advertised)];
        let elsewhere = |(key, address): (_, Option<SocketAddr>)| Some((key, address.filter(|at| !is_loopback(at))?));
        let Some((key, at)) = reached.into_iter().find_map(elsewhere) else { return Ok(()) };
        if seal.is_local() {
            return Err(ConfigError::NotSealed { key, found: at.to_string() });
        }
        if self.cluster.as_str() == DEFAULT_CLUSTER {
            return Err(ConfigError::ClearWithoutName { cluster: self.cluster.clone() });
        }
        Ok(())
    }
}

impl SealConfig {
    /// Returns the mode in force.
    pub fn mode(&self) -> SealMode {
        let has_keys = !self.keys.is_empty() || self.key_file.is_some();
        self.mode.unwrap_or(if has_keys { SealMode::Require } else { SealMode::Off })
    }

    /// Returns true if clear packets are taken and nobody said so: of this machine alone, then.
    pub fn is_local(&self) -> bool {
        self.mode.is_none() && self.mode().accepts_clear()
    }

    /// Returns the ring of the keys in the configuration itself; `None` if there are none.
    pub(crate) fn inline_ring(&self) -> Result<Option<KeyRing>, RingError> {
        if self.keys.is_empty() { Ok(None) } else { KeyRing::new(self.keys.iter().cloned()).map(Some) }
    }

    /// Returns what speaks against the section, whatever is in the key file.
    pub(crate) fn problems(&self, mtu: usize) -> Vec<ConfigError> {
        let mode = self.mode();
        let mut problems = Vec::new();
        if mode == SealMode::Off {
            return problems;
        }
        if self.keys.is_empty() && self.key_file.is_none() {
            problems.push(ConfigError::SealWithoutKeys { mode });
        }
        if !self.keys.is_empty() && self.key_file.is_some() {
            problems.push(ConfigError::KeysTwice);
        }
        if let Err(error) = self.inline_ring() {
            problems.push(ConfigError::Keys { error, count: self.keys.len() });
        }
        let least = 1_000 + MAX_OVERHEAD;
        if (1_000..least).contains(&mtu) {
            let allowed = format!("{least} to 1400 where packets are sealed");
            problems.push(OutOfRange { key: "mtu", found: mtu.to_string(), allowed }.into());
        }
        problems
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// A key of its own for each number.
    pub(crate) fn key(number: u8) -> Key {
        let mut bytes = [number; Key::BYTES];
        bytes[0] = !number;
        Key::from_bytes(&bytes).expect("not of equal bytes")
    }

    #[test]
    fn keys_are_required_once_there_are_some() {
        let with_keys = SealConfig { keys: vec![key(1)], ..SealConfig::default() };
        assert_eq!((SealConfig::default().mode(), with_keys.mode()), (SealMode::Off, SealMode::Require));
        let off = SealConfig { mode: Some(SealMode::Off), ..with_keys.clone() };
        assert_eq!(off.mode(), SealMode::Off);
        assert_eq!(with_keys.problems(1_400), []);
    }

    #[test]
    fn clear_packets_that_nobody_asked_for_are_taken_within_this_machine_alone() {
        assert!(SealConfig::default().is_local());
        assert!(!SealConfig { keys: vec![key(1)], ..SealConfig::default() }.is_local());
        assert!(!SealConfig { key_file: Some("keys".into()), ..SealConfig::default() }.is_local());
        for mode in SealMode::ALL {
            assert!(!SealConfig { mode: Some(mode), ..SealConfig::default() }.is_local(), "{mode} was said");
        }
    }

    #[test]
    fn what_cannot_work_is_refused() {
        let mode = Some(SealMode::Permit);
        let none = SealConfig { mode, ..SealConfig::default() };
        assert_eq!(none.problems(1_400), [ConfigError::SealWithoutKeys { mode: SealMode::Permit }]);
        let twice = SealConfig { keys: vec![key(1)], key_file: Some("keys".into()), mode: None };
        assert_eq!(twice.problems(1_400), [ConfigError::KeysTwice]);
        let many = SealConfig { keys: (0..9).map(key).collect(), ..SealConfig::default() };
        assert!(matches!(many.problems(1_400)[..], [ConfigError::Keys { error: RingError::Full, count: 9 }]));
        let small = SealConfig { keys: vec![key(1)], ..SealConfig::default() };
        assert!(matches!(&small.problems(1_039)[..], [ConfigError::OutOfRange(error)] if error.key == "mtu"));
        assert_eq!(small.problems(1_040), []);
    }

    #[test]
    fn a_key_file_gives_its_ring_or_says_why_not_and_never_repeats_a_line() {
        let file = tempfile::NamedTempFile::new().expect("a file");
        let read = |text: &str| {
            std::fs::write(file.path(), text).expect("written");
            read_key_file(file.path()).map(|read| read.ring.ids()).map_err(|error| error.to_string())
        };
        let text = format!("{}\n{}\n", key(1).to_base64().as_str(), key(2).to_base64().as_str());
        assert_eq!(read(&text), Ok(vec![key(1).id(), key(2).id()]));
        let error = read(&text[..60]).expect_err("cut off");
        assert!(error.starts_with("holds no valid keys: line 2: ") && !error.contains(&text[..10]), "{error}");
        assert!(read("").expect_err("empty").contains("there is no key"));
        let padded = |bytes: u64| format!("{text}#{}\n", "x".repeat(bytes as usize - text.len() - 2));
        assert_eq!(read(&padded(MAX_KEY_FILE_BYTES)).map(|ids| ids.len()), Ok(2), "as long as a file may be");
        let error = read(&padded(MAX_KEY_FILE_BYTES + 1)).expect_err("longer");
        assert_eq!(error, "cannot be read: it has 65537 bytes, and at most 65536 are read");
        assert!(read_key_file(Path::new("/nowhere")).expect_err("none").to_string().starts_with("cannot be read"));
    }
}
