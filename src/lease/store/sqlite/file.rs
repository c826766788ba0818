//! The file of an SQLite store: how it is made, where it may lie, how it is recognised.
//!
//! Invariants:
//! - The file is made readable by its owner alone, and appears as a whole: it is never opened here. POSIX drops all
//!   locks that a process has on a file as soon as the process closes any handle to it, and SQLite's rest on those.
//! - A file that is reached by several paths is refused: SQLite keeps its journal beside the path, so that an agent with
//!   another path would not find what a crash left half written. A symbolic link is followed, and does no harm.
//! - A file on a file system that machines share is refused: its locks do not hold between them, and two nodes would
//!   lead.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use crate::lease::store::StoreError;

/// The identity of a file, which tells it from another one at its path: device and number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Identity(u64, u64);

/// Returns the identity of the file at the path; `None` if there is none, or if the system does not tell.
pub(super) fn identity(path: &Path) -> Option<Identity> {
    #[cfg(unix)]
    {
        use std::os::unix::fs::MetadataExt;
        fs::metadata(path).ok().map(|metadata| Identity(metadata.dev(), metadata.ino()))
    }
    #[cfg(not(unix))]
    {
        fs::metadata(path).ok().map(|_| Identity(0, 0))
    }
}

/// The file of a database, as it was when it was opened.
#[derive(Debug)]
pub(super) struct OpenedFile {
    path: PathBuf,
    identity: Identity,
}

impl OpenedFile {
    /// Returns the file at the path.
    pub(super) fn at(path: &Path) -> Result<Self, StoreError> {
        let gone = StoreError::FileChanged { file: path.to_owned(), change: "deleted" };
        Ok(Self { path: path.to_owned(), identity: identity(path).ok_or(gone)? })
    }

    /// Refuses a file that is no longer the one that was opened.
    pub(super) fn check_unchanged(&self) -> Result<(), StoreError> {
        let change = match identity(&self.path) {
            Some(found) if found == self.identity => return Ok(()),
            Some(_) => "replaced",
            None => "deleted",
        };
        Err(StoreError::FileChanged { file: self.path.clone(), change })
    }
}

/// Returns true if there is a write-ahead log beside the file that a symbolic link leads to.
pub(super) fn has_write_ahead_log(path: &Path) -> bool {
    let mut log = fs::canonicalize(path).unwrap_or_else(|_| path.to_owned()).into_os_string();
    log.push("-wal");
    Path::new(&log).exists()
}

/// Makes an empty file if there is none, and refuses a place where leases are not safe.
pub(super) fn make(path: &Path) -> Result<(), StoreError> {
    let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty());
    let directory = parent.map_or_else(|| PathBuf::from("."), Path::to_owned);
    if !directory.is_dir() {
        return Err(StoreError::configuration(
            path.display().to_string(),
            format!("cannot be made: there is no directory {}; create it", directory.display()),
        ));
    }
    if path.is_dir() {
        return Err(StoreError::configuration(path.display().to_string(), "is a directory: name a file in it"));
    }
    refuse_network(path, &directory)?;
    if path.exists() {
        return refuse_many_paths(path);
    }
    if path.is_symlink() {
        return Err(StoreError::configuration(
            path.display().to_string(),
            "is a symbolic link to a file that does not exist: create that file, empty, or remove the link",
        ));
    }
    match make_private(path, &directory) {
        Ok(()) => Ok(()),
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => refuse_many_paths(path),
        Err(error) => Err(match error.kind() {
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
                StoreError::Full { place: path.display().to_string(), reason: error.to_string() }
            }
            io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem => {
                StoreError::ReadOnly { place: path.display().to_string(), reason: error.to_string() }
            }
            _ => StoreError::Unreachable { place: path.display().to_string(), reason: error.to_string() },
        }),
    }
}

/// Makes a file under another name, closes it, and only then gives it its own name.
fn make_private(path: &Path, directory: &Path) -> io::Result<()> {
    let made = tempfile::Builder::new().prefix(".headcount-").tempfile_in(directory)?.into_temp_path();
    made.persist_noclobber(path).map_err(|error| error.error)
}

/// Refuses a file with more than one path: hard links, or a mount of the file alone.
#[cfg(unix)]
fn refuse_many_paths(path: &Path) -> Result<(), StoreError> {
    use std::os::unix::fs::MetadataExt;
    // A file that cannot be asked about is not refused: SQLite will say what is wrong.
    let (Ok(metadata), Ok(real)) = (fs::metadata(path), fs::canonicalize(path)) else { return Ok(()) };
    let refuse = |reason, hint| Err(StoreError::ManyPaths { file: path.to_owned(), reason, hint });
    if metadata.nlink() > 1 {
        return refuse("has more than one hard link", "remove the others, and name one path on all agents");
    }
    let of_directory = real.parent().and_then(|parent| fs::metadata(parent).ok());
    let is_elsewhere = of_directory.is_some_and(|directory| directory.dev() != metadata.dev());
    if is_elsewhere || is_mount_point(&real) {
        return refuse("is a mount of a single file", "mount the directory that it lies in");
    }
    Ok(())
}

#[cfg(not(unix))]
#[allow(clippy::unnecessary_wraps, reason = "as elsewhere")]
fn refuse_many_paths(_path: &Path) -> Result<(), StoreError> {
    Ok(())
}

/// Returns true if something is mounted at exactly this path, as far as the system tells.
#[cfg(unix)]
fn is_mount_point(path: &Path) -> bool {
    use std::os::unix::ffi::OsStrExt;
    let mounts = match fs::read("/proc/self/mountinfo") {
        Ok(mounts) => mounts,
        Err(error) => {
            if cfg!(target_os = "linux") {
                let path = path.display();
                tracing::warn!(
                    "the list of mounts cannot be read (/proc/self/mountinfo: {error}), so that nobody knows if {path} is mounted \
                     alone, which parts it from its journal: if it is in a container, mount the directory that it lies in, and /proc"
                );
            }
            return false;
        }
    };
    is_among_mounts(&mounts, path.as_os_str().as_bytes())
}

/// Returns true if a list of mounts names this path as the place of one: the fifth word of a line, in which some bytes
/// are written as a backslash and three octal digits.
#[cfg(unix)]
fn is_among_mounts(mounts: &[u8], path: &[u8]) -> bool {
    let escaped: Vec<u8> = path
        .iter()
        .flat_map(|byte| match byte {
            b' ' | b'\t' | b'\n' | b'\\' => format!("\\{byte:03o}").into_bytes(),
            _ => vec![*byte],
        })
        .collect();
    let place = |line: &[u8]| line.split(|byte| *byte == b' ').nth(4) == Some(escaped.as_slice());
    mounts.split(|byte| *byte == b'\n').any(place)
}

#[cfg(target_os = "linux")]
fn refuse_network(path: &Path, directory: &Path) -> Result<(), StoreError> {
    // A place that cannot be asked about is not refused: SQLite will say what is wrong.
    for place in [directory, path] {
        let Ok(found) = nix::sys::statfs::statfs(place) else { continue };
        #[allow(clippy::unnecessary_cast, clippy::cast_possible_wrap, reason = "its type differs between systems")]
        let magic = found.filesystem_type().0 as i64;
        if let Some(kind) = network_file_system(magic) {
            return Err(StoreError::NetworkFileSystem { file: path.to_owned(), kind });
        }
    }
    Ok(())
}

#[cfg(not(target_os = "linux"))]
#[allow(clippy::unnecessary_wraps, reason = "as elsewhere")]
fn refuse_network(_path: &Path, _directory: &Path) -> Result<(), StoreError> {
    Ok(())
}

/// Returns the name of a file system that machines share, by its number in `statfs(2)`.
#[cfg(target_os = "linux")]
fn network_file_system(magic: i64) -> Option<&'static str> {
    // Some systems give the number with its sign, some without.
    Some(match magic & 0xffff_ffff {
        0x6969 => "nfs",
        0x517b => "smb",
        0xff53_4d42 => "cifs",
        0xfe53_4d42 => "smb2",
        0x0102_1997 => "9p",
        0x6573_5546 => "fuse",
        0x00c3_6400 => "ceph",
        0x0bd0_0bd0 => "lustre",
        0x5346_414f | 0x6b41_4653 => "afs",
        0x7375_7245 => "coda",
        0x0116_1970 => "gfs2",
        0x7461_636f => "ocfs2",
        0x786f_4256 => "vboxsf",
        0x4750_4653 => "gpfs",
        0x564c => "ncp",
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[cfg(target_os = "linux")]
    #[test]
    fn file_systems_that_machines_share_are_known_and_local_ones_are_not_refused() {
        for (magic, kind) in [
            (0x6969, "nfs"),
            (0xff53_4d42, "cifs"),
            (0xff53_4d42_u32.cast_signed().into(), "cifs"),
            (0xfe53_4d42, "smb2"),
            (0x0102_1997, "9p"),
            (0x6573_5546, "fuse"),
        ] {
            assert_eq!(network_file_system(magic), Some(kind), "{magic:x}");
        }
        // ext4, xfs, btrfs, tmpfs, overlayfs, zfs
        for magic in [0xef53, 0x5846_5342, 0x9123_683e, 0x0102_1994, 0x794c_7630, 0x2fc1_2fc1] {
            assert_eq!(network_file_system(magic), None, "{magic:x}");
        }
    }

    #[cfg(unix)]
    #[test]
    fn the_file_is_made_for_its_owner_alone_and_an_older_one_stays_as_it_is() {
        use std::os::unix::fs::PermissionsExt;
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("x.db");
        make(&path).expect("made");
        assert_eq!(fs::metadata(&path).expect("there").permissions().mode() & 0o777, 0o600);
        let first = identity(&path);
        make(&path).expect("still there");
        assert_eq!(identity(&path), first);
        assert_eq!(fs::read_dir(directory.path()).expect("readable").count(), 1, "something was left over");
    }

    #[cfg(unix)]
    #[test]
    fn a_mount_of_the_file_alone_is_known_by_its_place_in_the_list_of_mounts() {
        let mounts =
            b"29 1 8:1 / / rw - ext4 /dev/sda1 rw\n36 29 8:1 /x/l.db /y/a\\040b\\134/l.db rw - ext4 /dev/sda1 rw\n";
        assert!(is_among_mounts(mounts, b"/y/a b\\/l.db"));
        for other in ["/x/l.db", "/y/a b\\", "/y/a b\\/l.db-journal", "ext4"] {
            assert!(!is_among_mounts(mounts, other.as_bytes()), "{other}");
        }
    }

    #[cfg(unix)]
    #[test]
    fn a_link_to_nothing_is_told_as_what_it_is() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("link.db");
        std::os::unix::fs::symlink(directory.path().join("none/x.db"), &path).expect("a link");
        let error = make(&path).expect_err("there is no file").to_string();
        assert!(error.contains("symbolic link") && error.contains("does not exist"), "{error}");
    }

    #[test]
    fn a_missing_directory_is_named() {
        let directory = tempfile::tempdir().expect("a directory");
        let error = make(&directory.path().join("none/x.db")).expect_err("no directory").to_string();
        assert!(error.contains("there is no directory") && error.contains("none"), "{error}");
        let error = make(directory.path()).expect_err("a directory").to_string();
        assert!(error.contains("is a directory"), "{error}");
    }
}
