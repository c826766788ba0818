//! Reads the files that the configuration names: regular ones, of bounded length, without ever waiting for a writer.
//!
//! Invariants: nothing is read from a directory, a FIFO, a socket or a device, and opening one does not wait; no more
//! than the bound is read, whatever length the file reports. Must not know the contents of the files.

use std::fs::{self, File, Metadata, OpenOptions};
use std::io::{self, Read as _};
use std::path::Path;

/// Reads the whole of a regular file of at most `most` bytes. Returns its bytes and its metadata.
pub(super) fn regular_file(path: &Path, most: u64) -> io::Result<(Vec<u8>, Metadata)> {
    // Checked before it is opened, since opening a device may have side effects.
    check_kind(&fs::metadata(path)?)?;
    let file = open(path)?;
    // And checked again after, since another file may have taken its place.
    let metadata = file.metadata()?;
    check_kind(&metadata)?;
    let too_long = |bytes: u64| {
        let reason = format!("it has {bytes} bytes, and at most {most} are read");
        io::Error::new(io::ErrorKind::FileTooLarge, reason)
    };
    if metadata.len() > most {
        return Err(too_long(metadata.len()));
    }
    // At once: a buffer that grows leaves copies of secrets behind.
    let mut bytes = Vec::with_capacity(metadata.len() as usize + 1);
    file.take(most + 1).read_to_end(&mut bytes)?;
    let length = bytes.len() as u64;
    if length > most { Err(too_long(length)) } else { Ok((bytes, metadata)) }
}

/// Opens a file without waiting: opening a FIFO would wait for a writer.
fn open(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.read(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::custom_flags(&mut options, nix::libc::O_NONBLOCK);
    options.open(path)
}

fn check_kind(metadata: &Metadata) -> io::Result<()> {
    match kind_of(metadata) {
        None => Ok(()),
        Some(kind) => Err(io::Error::new(io::ErrorKind::InvalidInput, format!("it is {kind}, not a regular file"))),
    }
}

/// Returns the kind of a file that is not a regular file, in words; `None` for a regular file.
fn kind_of(metadata: &Metadata) -> Option<&'static str> {
    #[cfg(unix)]
    {
        use std::os::unix::fs::FileTypeExt as _;
        let kind = metadata.file_type();
        let special = [
            (kind.is_fifo(), "a pipe (FIFO)"),
            (kind.is_socket(), "a socket"),
            (kind.is_char_device() || kind.is_block_device(), "a device"),
        ];
        if let Some((_, name)) = special.into_iter().find(|(is, _)| *is) {
            return Some(name);
        }
    }
    match metadata {
        metadata if metadata.is_file() => None,
        metadata if metadata.is_dir() => Some("a directory"),
        _ => Some("something else"),
    }
}

/// Returns the permissions, as in `ls` (`644`), if others may read or change it than its owner and, where it is not this
/// process's own, the group by which this process reads it.
///
/// That is how secrets are handed over to a process that is not their owner: Kubernetes mounts them as `root` with the
/// group `fsGroup` and mode 440, of which the container's process is a member, and nobody else in the container.
pub(super) fn open_to_others(metadata: &Metadata) -> Option<String> {
    #[cfg(unix)]
    {
        use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
        let mode = metadata.permissions().mode();
        let is_handed_over = mode & 0o077 == 0o040 && is_read_by_group(metadata.uid(), metadata.gid());
        (mode & 0o077 != 0 && !is_handed_over).then(|| format!("{:03o}", mode & 0o777))
    }
    #[cfg(not(unix))]
    {
        let _ = metadata;
        None
    }
}

/// Returns true if this process may read a file with this owner and group by the group alone.
#[cfg(unix)]
fn is_read_by_group(owner: u32, group: u32) -> bool {
    let is_own = nix::unistd::geteuid().as_raw() == owner;
    let is_in = |groups: &[nix::unistd::Gid]| groups.iter().any(|own| own.as_raw() == group);
    !is_own && (is_in(&[nix::unistd::getegid()]) || nix::unistd::getgroups().is_ok_and(|groups| is_in(&groups)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_read_up_to_its_bound_and_not_beyond() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("file");
        fs::write(&path, "12345678").expect("written");
        assert_eq!(regular_file(&path, 8).expect("it fits").0, b"12345678");
        let error = regular_file(&path, 7).expect_err("too long").to_string();
        assert_eq!(error, "it has 8 bytes, and at most 7 are read");
        fs::write(&path, [b'x'; 5_000]).expect("written");
        let bytes = regular_file(&path, 5_000).expect("it fits").0;
        assert!(bytes.len() == 5_000 && bytes.capacity() < 5_100, "it grew: {}", bytes.capacity());
        // A sparse file: hardly a byte on the disk, and too much to allocate.
        File::create(&path).and_then(|file| file.set_len(200 << 30)).expect("a sparse file");
        assert!(regular_file(&path, 8).expect_err("too long").to_string().contains("214748364800 bytes"));
    }

    #[test]
    fn a_file_that_says_it_is_empty_and_is_not_has_the_same_bound() {
        let endless = Path::new("/proc/self/smaps");
        if endless.exists() {
            assert!(regular_file(endless, 16).expect_err("too long").to_string().contains("at most 16"));
        }
    }

    #[cfg(unix)]
    #[test]
    fn what_is_no_regular_file_is_named_and_not_waited_for() {
        let directory = tempfile::tempdir().expect("a directory");
        let fifo = directory.path().join("fifo");
        let made = std::process::Command::new("mkfifo").arg(&fifo).status();
        assert!(made.expect("mkfifo runs").success());
        let socket = directory.path().join("socket");
        let _listener = std::os::unix::net::UnixListener::bind(&socket).expect("bound");
        for (path, kind) in [
            (fifo.as_path(), "a pipe (FIFO)"),
            (&socket, "a socket"),
            (directory.path(), "a directory"),
            (Path::new("/dev/zero"), "a device"),
        ] {
            let error = regular_file(path, 8).expect_err(kind).to_string();
            assert_eq!(error, format!("it is {kind}, not a regular file"));
        }
    }

    #[cfg(unix)]
    #[test]
    fn permissions_of_others_are_noticed() {
        use std::os::unix::fs::PermissionsExt as _;
        let file = tempfile::NamedTempFile::new().expect("a file");
        for (mode, open) in [(0o600, None), (0o400, None), (0o640, Some("640")), (0o604, Some("604"))] {
            fs::set_permissions(file.path(), fs::Permissions::from_mode(mode)).expect("set");
            let (_, metadata) = regular_file(file.path(), 8).expect("readable");
            assert_eq!(open_to_others(&metadata).as_deref(), open);
        }
    }

    #[cfg(unix)]
    #[test]
    fn a_file_of_another_owner_is_handed_over_by_a_group_of_this_process_and_by_no_other() {
        let (me, group) = (nix::unistd::geteuid().as_raw(), nix::unistd::getegid().as_raw());
        assert!(is_read_by_group(me + 1, group));
        assert!(!is_read_by_group(me, group), "its own file may be closed to the group");
        assert!(!is_read_by_group(me + 1, 3_999_999_999));
    }

    /// A file that another owner hands over warns of readers by its mode alone. Needs root, which may give files away.
    #[cfg(unix)]
    #[test]
    fn what_is_handed_over_by_its_group_may_be_read_and_not_changed_and_by_nobody_else() {
        use std::os::unix::fs::PermissionsExt as _;
        let file = tempfile::NamedTempFile::new().expect("a file");
        let me = nix::unistd::geteuid().as_raw();
        if std::os::unix::fs::chown(file.path(), Some(me + 1), None).is_err() {
            return;
        }
        for (mode, open) in
            [(0o440, None), (0o640, None), (0o460, Some("460")), (0o444, Some("444")), (0o450, Some("450"))]
        {
            fs::set_permissions(file.path(), fs::Permissions::from_mode(mode)).expect("set");
            let (_, metadata) = regular_file(file.path(), 8).expect("readable");
            assert_eq!(open_to_others(&metadata).as_deref(), open);
        }
    }
}
