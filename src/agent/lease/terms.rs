//! The highest terms of leases, in the data directory: a database that lost its commits, or is another one, must not have
//! this node lead in a term that was led before.
//!
//! ```text
//! headcount.leases:   headcount leases 1 CLUSTER
//!                     LEASE TERM                        one line each
//!                     end XXH3-64 of all lines before, 16 hex digits
//! ```
//!
//! Invariants: the file is replaced as a whole (see `files`); one that cannot be vouched for is refused and left as it is.
//! At most [`MAX_TERMS`]. The loop does not wait for the disk: the database is the first memory of terms, this file is the
//! second.
//!
//! Must not know: what a term is worth.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use tokio::sync::watch;
use tokio::task::JoinHandle;
use tracing::Level;

use crate::agent::error::{Failure, StartError};
use crate::files;
use crate::journal::Journal;
use crate::lease::{LeaseName, MAX_TERM};
use crate::store::{BadState, StoreError};

const FILE: &str = "headcount.leases";
const HEAD: &str = "headcount leases 1 ";
/// Leases whose terms are kept.
const MAX_TERMS: usize = 1_024;
/// The largest file that is read.
const MAX_BYTES: u64 = 128 * 1024;
/// The time that the disk is left alone after it refused.
const RETRY: Duration = Duration::from_secs(5);

type Known = BTreeMap<LeaseName, u64>;

/// The terms as they were found, and the way of new ones to the disk.
#[derive(Debug)]
pub(super) struct Terms {
    pub(super) known: Known,
    /// `None`: nothing outlives the process.
    writer: Option<watch::Sender<Known>>,
}

impl Terms {
    /// Keeps a term.
    pub(super) fn keep(&mut self, lease: LeaseName, term: u64) {
        if self.known.len() >= MAX_TERMS && !self.known.contains_key(&lease) {
            return;
        }
        let kept = self.known.entry(lease).or_default();
        *kept = term.max(*kept);
        if let Some(writer) = &self.writer {
            writer.send_replace(self.known.clone());
        }
    }
}

/// Reads what an earlier run left. New terms are written by a task of their own, the newest state alone.
pub(super) async fn open(directory: Option<&Path>, cluster: &str, journal: &Journal) -> Result<Terms, StartError> {
    let Some(directory) = directory.map(Path::to_owned) else {
        return Ok(Terms { known: Known::new(), writer: None });
    };
    let known = known(&directory, cluster).await?;
    Ok(begin(directory, cluster, known, journal).0)
}

/// Returns the highest term of the cluster's lease that an earlier run left; 0 if none did.
pub(super) async fn highest(directory: &Path, cluster: &str) -> Result<u64, StartError> {
    Ok(known(directory, cluster).await?.get(&LeaseName::default()).copied().unwrap_or(0))
}

async fn known(directory: &Path, cluster: &str) -> Result<Known, StartError> {
    let (path, named) = (directory.join(FILE), cluster.to_owned());
    let read = tokio::task::spawn_blocking(move || read(&path, &named)).await;
    Ok(read.map_err(|ended| StartError::Internal(Failure::of("reading the terms of leases", ended)))??)
}

/// Begins with these terms. The task writes newer ones, and ends when the last are written after the terms are dropped.
fn begin(directory: PathBuf, cluster: &str, known: Known, journal: &Journal) -> (Terms, JoinHandle<()>) {
    let (writer, written) = watch::channel(known.clone());
    let writing = tokio::spawn(write_always(directory, cluster.to_owned(), written, journal.clone()));
    (Terms { known, writer: Some(writer) }, writing)
}

fn read(path: &Path, cluster: &str) -> Result<Known, StoreError> {
    let refused = |reason| StoreError::Refused { path: path.to_owned(), reason };
    let bytes = match std::fs::File::open(path) {
        Ok(file) => {
            let mut bytes = Vec::new();
            io::Read::read_to_end(&mut io::Read::take(file, MAX_BYTES + 1), &mut bytes)
                .map_err(|source| StoreError::Read { path: path.to_owned(), error: source })?;
            bytes
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Known::new()),
        Err(source) => return Err(StoreError::Read { path: path.to_owned(), error: source }),
    };
    decode(&bytes, cluster).map_err(refused)
}

/// Writes each newer state, until nobody makes newer ones. What the disk refused is tried again after [`RETRY`], and once more
/// when the last state is there.
async fn write_always(directory: PathBuf, cluster: String, mut terms: watch::Receiver<Known>, journal: Journal) {
    let mut is_told = false;
    while terms.changed().await.is_ok() {
        let mut is_last = false;
        loop {
            let (path, text) = (directory.join(FILE), encode(&terms.borrow_and_update(), &cluster));
            let written = tokio::task::spawn_blocking(move || files::replace(&path, text.as_bytes())).await;
            match written {
                Ok(Ok(())) => break,
                Ok(Err(error)) if !is_told => {
                    let text = format!("the terms of leases are not stored, which is tried again: {error}");
                    journal.say(Level::WARN, text);
                    is_told = true;
                }
                Ok(Err(_)) => {}
                Err(_) => return,
            }
            if is_last {
                return;
            }
            is_last = tokio::select! {
                () = tokio::time::sleep(RETRY) => false,
                () = ended(&mut terms) => true,
            };
        }
        is_told = false;
    }
}

/// Waits until nobody makes newer states. The newest one is read by whoever waited.
async fn ended(terms: &mut watch::Receiver<Known>) {
    while terms.changed().await.is_ok() {}
}

fn encode(terms: &Known, cluster: &str) -> String {
    let mut text = format!("{HEAD}{cluster}\n");
    for (lease, term) in terms {
        let _ = writeln!(text, "{lease} {term}");
    }
    let sum = xxhash_rust::xxh3::xxh3_64(text.as_bytes());
    let _ = writeln!(text, "end {sum:016x}");
    text
}

fn decode(bytes: &[u8], cluster: &str) -> Result<Known, BadState> {
    if bytes.len() as u64 > MAX_BYTES {
        return Err(BadState::Damaged);
    }
    let text = std::str::from_utf8(bytes).map_err(|_| BadState::NotState)?;
    let of_head = HEAD.trim_end_matches("1 ");
    let version = text.strip_prefix(of_head).ok_or(BadState::NotState)?;
    if !version.starts_with("1 ") {
        let found = version.split(' ').next().and_then(|number| number.parse().ok());
        return Err(found.map_or(BadState::Damaged, |found| BadState::Future { found }));
    }
    let (lines, end) = text.rsplit_once("end ").ok_or(BadState::Truncated)?;
    let sum = end.strip_suffix('\n').and_then(|sum| u64::from_str_radix(sum, 16).ok()).ok_or(BadState::Truncated)?;
    if sum != xxhash_rust::xxh3::xxh3_64(lines.as_bytes()) {
        return Err(BadState::Damaged);
    }
    let mut lines = lines.lines();
    // The terms of another cluster are none of ours; its state file says so, too.
    if lines.next().and_then(|head| head.strip_prefix(HEAD)) != Some(cluster) {
        return Err(BadState::Damaged);
    }
    let term = |line: &str| {
        let (lease, term) = line.split_once(' ')?;
        let term = term.parse().ok().filter(|term| *term <= MAX_TERM)?;
        Some((LeaseName::new(lease).ok()?, term))
    };
    let known: Option<Known> = lines.map(term).collect();
    known.filter(|known| known.len() <= MAX_TERMS).ok_or(BadState::Damaged)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn terms() -> Known {
        let name = |text: &str| LeaseName::new(text).expect("a name");
        BTreeMap::from([(name("billing"), 7), (name("default"), MAX_TERM)])
    }

    #[test]
    fn what_is_written_is_read_and_nothing_else_is() {
        let text = encode(&terms(), "c");
        assert_eq!(decode(text.as_bytes(), "c"), Ok(terms()));
        assert_eq!(decode(encode(&Known::new(), "c").as_bytes(), "c"), Ok(Known::new()));
        assert_eq!(decode(text.as_bytes(), "other"), Err(BadState::Damaged));
        assert_eq!(decode(b"something else", "c"), Err(BadState::NotState));
        let future = text.replace("leases 1", "leases 2");
        assert_eq!(decode(future.as_bytes(), "c"), Err(BadState::Future { found: 2 }));
        for end in 0..text.len() {
            assert!(decode(&text.as_bytes()[..end], "c").is_err(), "cut off after {end} bytes");
        }
        for at in 0..text.len() - 1 {
            let mut flipped = text.clone().into_bytes();
            flipped[at] ^= 1;
            assert!(decode(&flipped, "c").is_err(), "flipped at {at}");
        }
    }

    #[test]
    fn a_file_that_is_longer_than_any_that_is_written_is_not_looked_into() {
        let longest_name = |at: usize| LeaseName::new(&format!("{at:0>63}")).expect("a name");
        let longest: Known = (0..MAX_TERMS).map(|at| (longest_name(at), MAX_TERM)).collect();
        let text = encode(&longest, &"c".repeat(63));
        assert!(text.len() as u64 <= MAX_BYTES, "{} bytes", text.len());
        assert_eq!(decode(text.as_bytes(), &"c".repeat(63)), Ok(longest));
        let noise = |bytes: u64| decode(&vec![b'x'; bytes as usize], "c");
        assert_eq!(noise(MAX_BYTES), Err(BadState::NotState));
        assert_eq!(noise(MAX_BYTES + 1), Err(BadState::Damaged));
    }

    #[tokio::test]
    async fn a_disk_that_refuses_is_not_waited_for_when_no_newer_terms_come() {
        let directory = tempfile::tempdir().expect("a directory");
        let journal = Journal::start(&crate::NodeId::new("a").expect("a name")).expect("a thread");
        let (mut terms, writing) = begin(directory.path().to_owned(), "c", Known::new(), &journal);
        directory.close().expect("taken away");
        terms.keep(LeaseName::default(), 7);
        drop(terms);
        tokio::time::timeout(RETRY * 4 / 5, writing).await.expect("it ends at once").expect("no panic");
    }

    #[tokio::test]
    async fn terms_outlive_the_process_and_a_damaged_file_is_refused_and_left() {
        let directory = tempfile::tempdir().expect("a directory");
        let journal = Journal::start(&crate::NodeId::new("a").expect("a name")).expect("a thread");
        let first = open(Some(directory.path()), "c", &journal).await.expect("nothing there");
        assert!(first.known.is_empty());
        assert_eq!(highest(directory.path(), "c").await.expect("nothing there"), 0);
        let (mut first, writing) = begin(directory.path().to_owned(), "c", Known::new(), &journal);
        for (lease, term) in terms() {
            first.keep(lease, term);
        }
        let path = directory.path().join(FILE);
        drop(first);
        tokio::time::timeout(Duration::from_secs(30), writing).await.expect("in time").expect("written");
        let second = open(Some(directory.path()), "c", &journal).await.expect("a good file");
        assert_eq!(second.known, terms());
        let highest_of_default = highest(directory.path(), "c").await.expect("a good file");
        assert_eq!(highest_of_default, MAX_TERM, "what voters stand above");
        std::fs::write(&path, "headcount leases 1 c\nnonsense").expect("written");
        let error = open(Some(directory.path()), "c", &journal).await.expect_err("refused");
        assert!(error.exit_code() == 4 && error.to_string().contains(FILE), "{error}");
        assert!(std::fs::read_to_string(&path).expect("there").ends_with("nonsense"), "untouched");
    }

    #[test]
    fn so_many_terms_are_kept_and_none_falls() {
        let mut terms = Terms { known: Known::new(), writer: None };
        for at in 0..=MAX_TERMS {
            terms.keep(LeaseName::new(&format!("l{at}")).expect("a name"), 5);
        }
        terms.keep(LeaseName::new("l0").expect("a name"), 3);
        assert_eq!((terms.known.len(), terms.known.values().min()), (MAX_TERMS, Some(&5)));
    }
}
