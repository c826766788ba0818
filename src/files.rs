//! Files that are replaced as a whole, and locks of files.
//!
//! Invariants: at every instant, through every crash, there is the old file or the new one. Each writer writes a file of its
//! own (`.NAME.….next`, its owner's alone) and then gives it the name, so that several at once do not mix: the last one
//! counts. What writers left that died is removed by a later one.
//!
//! Blocks. Must not know: what the files are for, and whether what is replaced was read before.

use std::ffi::OsString;
use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, Write as _};
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use rand::TryRng as _;

/// The age at which the file of a writer is removed that did not finish. One that writes for longer fails.
const ABANDONED: Duration = Duration::from_secs(10);

/// The time between two tries to lock a file.
const LOCK_PAUSE: Duration = Duration::from_millis(10);

/// Locks a file, and waits up to so long for whoever has locked it.
pub(crate) fn lock_within(file: &File, wait: Duration) -> Result<(), TryLockError> {
    let deadline = Instant::now() + wait;
    loop {
        match file.try_lock() {
            Err(TryLockError::WouldBlock) if Instant::now() < deadline => thread::sleep(LOCK_PAUSE),
            done => return done,
        }
    }
}

/// Replaces a file, or makes it. A symbolic link is replaced, not its target.
pub(crate) fn replace(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let name = path.file_name().ok_or_else(|| io::Error::other("it has no name"))?;
    let directory = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let mut start = OsString::from(".");
    start.push(name);
    start.push(".");
    remove_abandoned(directory, &start);
    let mut own_name = start;
    own_name.push(format!("{:016x}.next", rand::rngs::SysRng.try_next_u64().map_err(io::Error::other)?));
    let own = directory.join(own_name);
    let written = write_new(&own, bytes).and_then(|()| fs::rename(&own, path));
    if written.is_err() {
        let _ = fs::remove_file(&own);
        return written;
    }
    // The name is to be on the disk, too. The file is replaced by now, so that an error here makes no difference: whoever
    // reads it finds the change. Some systems cannot open a directory.
    let _ = File::open(directory).and_then(|directory| directory.sync_all());
    Ok(())
}

fn write_new(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let mut options = OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    let mut file = options.open(path)?;
    file.write_all(bytes)?;
    file.sync_all()
}

/// Removes what writers left that died.
fn remove_abandoned(directory: &Path, start: &OsString) {
    for entry in fs::read_dir(directory).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let name = name.as_encoded_bytes();
        if name.starts_with(start.as_encoded_bytes()) && name.ends_with(b".next") {
            let written = entry.metadata().and_then(|metadata| metadata.modified());
            let age = written.ok().and_then(|written| written.elapsed().ok()).unwrap_or_default();
            if age >= ABANDONED {
                let _ = fs::remove_file(entry.path());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(directory: &Path) -> Vec<OsString> {
        fs::read_dir(directory).expect("readable").map(|entry| entry.expect("one").file_name()).collect()
    }

    #[test]
    fn of_many_writers_at_once_each_writes_all_or_nothing() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("x");
        replace(&path, &[b'0'; 9_000]).expect("written");
        std::thread::scope(|scope| {
            for writer in b'1'..=b'4' {
                let path = &path;
                scope.spawn(move || (0..20).for_each(|_| replace(path, &[writer; 9_000]).expect("written")));
            }
            for _ in 0..200 {
                let found = fs::read(&path).expect("always there");
                assert!(found.len() == 9_000 && found.iter().all(|byte| *byte == found[0]), "{} bytes", found.len());
            }
        });
        assert_eq!(names(directory.path()), ["x"], "nothing is left beside it");
    }

    #[test]
    fn a_file_that_a_writer_left_is_in_nobodys_way_and_goes_when_it_is_old() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("x");
        // The second one as earlier releases named it; the others are not ours.
        let left = [".x.0123456789abcdef.next", ".x.next", ".xy.next", "x.next", ".x.mynext"]
            .map(|name| directory.path().join(name));
        for left in &left {
            fs::write(left, "half").expect("written");
        }
        replace(&path, b"new").expect("written");
        assert!(left.iter().all(|left| left.exists()), "their writers may still live");
        for left in &left {
            let file = File::options().write(true).open(left).expect("there");
            file.set_modified(std::time::SystemTime::now() - ABANDONED).expect("set");
        }
        replace(&path, b"newer").expect("written");
        assert_eq!(left.each_ref().map(|left| left.exists()), [false, false, true, true, true]);
        assert_eq!(fs::read(&path).expect("there"), b"newer");
    }

    #[test]
    fn what_cannot_be_replaced_is_left_with_nothing_beside_it() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("x");
        fs::create_dir(&path).expect("made");
        replace(&path, b"new").expect_err("it is a directory");
        assert_eq!(names(directory.path()), ["x"]);
    }

    #[cfg(unix)]
    #[test]
    fn a_file_is_its_owners_alone() {
        use std::os::unix::fs::PermissionsExt as _;
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("x");
        fs::write(&path, "old").expect("written");
        replace(&path, b"new").expect("written");
        assert_eq!(fs::metadata(&path).expect("there").permissions().mode() & 0o777, 0o600);
    }
}
