//! The file of an SQLite store: how it is made, where it may lie, how it is recognised.
//!
//! Invariants:
//! - The file is made readable by its owner alone, and appears as a whole: it is never opened here. POSIX drops all
//!   locks that a process has on a file as soon as the process closes any handle to it, and SQLite's rest on those.
//! - A file on a file system that machines share is refused: its locks do not hold between them, and two nodes would lead.

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

/// Refuses a file that is no longer the one that was opened.
pub(super) fn check_unchanged(path: &Path, opened: Identity) -> Result<(), StoreError> {
    let change = match identity(path) {
        Some(found) if found == opened => return Ok(()),
        Some(_) => "replaced",
        None => "deleted",
    };
    Err(StoreError::FileChanged { file: path.to_owned(), change })
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
        return Ok(());
    }
    match make_private(path, &directory) {
        Ok(()) => Ok(()),
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
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

    #[test]
    fn a_missing_directory_is_named() {
        let directory = tempfile::tempdir().expect("a directory");
        let error = make(&directory.path().join("none/x.db")).expect_err("no directory").to_string();
        assert!(error.contains("there is no directory") && error.contains("none"), "{error}");
        let error = make(directory.path()).expect_err("a directory").to_string();
        assert!(error.contains("is a directory"), "{error}");
    }
}
