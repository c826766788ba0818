//! Directories that others change, and things that are no regular files.

use std::fs::{self, File, Permissions};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::sync::mpsc;
use std::time::Duration;

use nix::sys::stat::Mode;
use nix::unistd::{Uid, chown, geteuid, mkfifo};
use tempfile::TempDir;

use super::{LOCK_FILE, NEXT_FILE, STATE_FILE, lock_within};
use crate::core::{Durable, NodeId};
use crate::store::{Opened, Store, StoreError, StoreWarning};

/// Longer than any machine takes to open a directory; shorter than for ever.
const PATIENCE: Duration = Duration::from_secs(30);

fn open(directory: &Path) -> Result<Opened, StoreError> {
    let name = NodeId::new("a").expect("a name");
    Store::open(directory, &name, &name)
}

fn durable(incarnation_bound: u64) -> Durable {
    Durable { incarnation_bound, addresses: Vec::new(), ballot: None }
}

/// Opens a store in a new directory.
fn opened() -> (TempDir, PathBuf, Store) {
    let parent = tempfile::tempdir().expect("a directory");
    let path = parent.path().join("data");
    let store = open(&path).expect("opens").store;
    store.write(&durable(1)).expect("written");
    (parent, path, store)
}

#[track_caller]
fn assert_lost(store: &Store, path: &Path) {
    let error = store.write(&durable(9)).expect_err("lost");
    assert!(matches!(&error, StoreError::Lost { path: lost } if lost == path), "{error}");
    assert!(error.to_string().contains(&path.display().to_string()), "{error}");
}

/// Returns all names in a directory, sorted.
fn names(directory: &Path) -> Vec<String> {
    let entries = fs::read_dir(directory).expect("readable");
    let mut names: Vec<String> =
        entries.map(|entry| entry.expect("readable").file_name().into_string().expect("ours")).collect();
    names.sort();
    names
}

fn mode(path: &Path) -> u32 {
    fs::metadata(path).expect("is there").permissions().mode() & 0o7777
}

#[test]
fn a_directory_that_was_removed_is_lost_and_not_made_anew() {
    let (_parent, path, store) = opened();
    fs::remove_dir_all(&path).expect("removed");
    for _ in 0..3 {
        assert_lost(&store, &path);
        assert!(!path.exists());
    }
}

#[test]
fn a_directory_that_another_agent_made_anew_is_left_to_it() {
    let (_parent, path, first) = opened();
    fs::remove_dir_all(&path).expect("removed");
    let second = open(&path).expect("opens");
    second.store.write(&durable(7)).expect("written");
    assert_lost(&first, &path);
    second.store.write(&durable(8)).expect("the second is the one that stores");
    drop(first);
    assert_eq!(names(&path), [LOCK_FILE, STATE_FILE], "nothing of the first one's is there");
    drop(second);
    assert_eq!(open(&path).expect("opens").remembered.incarnation_bound, Some(8));
}

#[test]
fn a_directory_that_was_moved_away_is_lost_until_it_is_back() {
    let (parent, path, store) = opened();
    let elsewhere = parent.path().join("elsewhere");
    fs::rename(&path, &elsewhere).expect("moved");
    assert_lost(&store, &path);
    fs::create_dir(&path).expect("created");
    assert_lost(&store, &path);
    assert_eq!(names(&path), Vec::<String>::new(), "nothing goes into a foreign directory");
    assert_eq!(names(&elsewhere), [LOCK_FILE, STATE_FILE], "and no half of a file stays");
    fs::remove_dir(&path).expect("removed");
    fs::rename(&elsewhere, &path).expect("moved back");
    store.write(&durable(2)).expect("it is the same one again");
}

#[test]
fn who_lost_its_lock_file_writes_over_nobody_that_took_a_new_one() {
    let (_parent, path, first) = opened();
    fs::remove_file(path.join(LOCK_FILE)).expect("removed");
    assert_lost(&first, &path);
    let second = open(&path).expect("opens");
    second.store.write(&durable(7)).expect("written");
    assert_lost(&first, &path);
    drop((first, second));
    assert_eq!(open(&path).expect("opens").remembered.incarnation_bound, Some(7));
}

#[test]
fn a_path_that_leads_to_the_directory_by_a_link_is_as_good_as_any() {
    let (parent, path, store) = opened();
    drop(store);
    let link = parent.path().join("link");
    symlink(&path, &link).expect("linked");
    let store = open(&link).expect("opens").store;
    store.write(&durable(3)).expect("written");
    let other = parent.path().join("other");
    fs::create_dir(&other).expect("created");
    fs::remove_file(&link).expect("removed");
    symlink(&other, &link).expect("linked");
    assert_lost(&store, &link);
}

/// Puts a thing that is no regular file at a path.
type Obstacle = fn(&Path);

const OBSTACLES: [(&str, Obstacle); 4] = [
    ("a named pipe", |path| mkfifo(path, Mode::S_IRWXU).expect("made")),
    ("a directory", |path| fs::create_dir(path).expect("made")),
    ("a socket", |path| drop(UnixListener::bind(path).expect("bound"))),
    ("a symbolic link", |path| symlink("/", path).expect("linked")),
];

/// Links to files that block, or never end.
const LINKS: [(&str, Obstacle); 2] = [
    ("a symbolic link", |path| symlink("/dev/zero", path).expect("linked")),
    ("a symbolic link", |path| {
        let pipe = path.with_extension("pipe");
        mkfifo(&pipe, Mode::S_IRWXU).expect("made");
        symlink(pipe, path).expect("linked");
    }),
];

/// Opens a directory on a thread of its own; fails if that does not end.
#[track_caller]
fn refused_in_time(path: &Path) -> StoreError {
    let (path, (answer, answered)) = (path.to_owned(), mpsc::channel());
    std::thread::spawn(move || answer.send(open(&path).map(|_| ())));
    answered.recv_timeout(PATIENCE).expect("it hangs").expect_err("refused")
}

#[test]
fn what_is_no_file_under_a_files_name_is_refused_by_its_name_and_waited_for_by_nobody() {
    for (kind, put) in OBSTACLES.into_iter().chain(LINKS) {
        for name in [LOCK_FILE, STATE_FILE] {
            let directory = tempfile::tempdir().expect("a directory");
            let path = directory.path().join(name);
            put(&path);
            let error = refused_in_time(directory.path());
            assert!(matches!(&error, StoreError::NotAFile { found, .. } if *found == kind), "{name}, {kind}: {error}");
            let text = error.to_string();
            assert!(text.contains(name) && text.contains("data_dir"), "{text}");
        }
    }
}

#[test]
fn a_link_under_a_files_name_is_refused_and_what_it_leads_to_stays_as_it_is() {
    for name in [LOCK_FILE, STATE_FILE] {
        for is_there in [true, false] {
            let (directory, elsewhere) = (tempfile::tempdir().expect("one"), tempfile::tempdir().expect("another"));
            let target = elsewhere.path().join("target");
            if is_there {
                fs::write(&target, "its own").expect("written");
                fs::set_permissions(&target, Permissions::from_mode(0o644)).expect("set");
            }
            symlink(&target, directory.path().join(name)).expect("linked");
            let error = refused_in_time(directory.path());
            assert!(matches!(error, StoreError::NotAFile { found: "a symbolic link", .. }), "{name}: {error}");
            assert_eq!(target.exists(), is_there, "nothing is created elsewhere");
            if is_there {
                assert_eq!((mode(&target), fs::read(&target).expect("read")), (0o644, b"its own".to_vec()));
            }
        }
    }
}

#[test]
fn a_lock_file_that_became_a_link_to_itself_is_lost() {
    let (_parent, path, store) = opened();
    let moved = path.join("moved");
    fs::rename(path.join(LOCK_FILE), &moved).expect("moved");
    symlink(&moved, path.join(LOCK_FILE)).expect("linked");
    assert_lost(&store, &path);
}

#[test]
fn a_directory_in_the_place_of_what_is_being_written_is_named() {
    let (_parent, path, store) = opened();
    fs::create_dir(path.join(NEXT_FILE)).expect("made");
    let error = store.write(&durable(2)).expect_err("refused").to_string();
    assert!(error.contains(NEXT_FILE) && error.contains("is a directory"), "{error}");
    fs::remove_dir(path.join(NEXT_FILE)).expect("removed");
    store.write(&durable(2)).expect("written");
}

#[test]
fn a_data_directory_that_is_none_is_refused_and_waited_for_by_nobody() {
    let parent = tempfile::tempdir().expect("a directory");
    let is_none = |(kind, _): &(&str, Obstacle)| ["a named pipe", "a socket"].contains(kind);
    for (at, (_, put)) in OBSTACLES.into_iter().filter(is_none).chain(LINKS).enumerate() {
        let path = parent.path().join(at.to_string());
        put(&path);
        let error = refused_in_time(&path);
        assert!(matches!(error, StoreError::Create { .. }), "{error}");
    }
}

#[test]
fn a_state_file_that_is_huge_and_hollow_is_refused_by_its_first_bytes() {
    let (_parent, path, store) = opened();
    drop(store);
    fs::File::create(path.join(STATE_FILE)).expect("made").set_len(1 << 36).expect("hollow");
    let error = refused_in_time(&path);
    assert!(matches!(error, StoreError::Refused { .. }), "{error}");
}

#[test]
fn what_is_created_is_the_owners_alone() {
    let (_parent, path, _store) = opened();
    assert_eq!([mode(&path), mode(&path.join(LOCK_FILE)), mode(&path.join(STATE_FILE))], [0o700, 0o600, 0o600]);
}

#[test]
fn the_lock_file_of_an_earlier_version_is_made_the_owners_alone() {
    let (_parent, path, store) = opened();
    drop(store);
    fs::set_permissions(path.join(LOCK_FILE), Permissions::from_mode(0o666)).expect("set");
    assert_eq!(open(&path).expect("opens").warnings, []);
    assert_eq!(mode(&path.join(LOCK_FILE)), 0o600);
}

#[test]
fn who_else_may_write_is_named_with_the_mode_and_a_remedy_and_keeps_nobody_from_starting() {
    let (_parent, path, store) = opened();
    drop(store);
    let cases = [(0o700, None), (0o755, None), (0o1777, Some(false)), (0o702, Some(false)), (0o2775, Some(true))];
    for (mode, is_usual) in cases {
        fs::set_permissions(&path, Permissions::from_mode(mode)).expect("set");
        let warnings = open(&path).expect("opens").warnings;
        assert_eq!(warnings.iter().map(StoreWarning::is_usual).next(), is_usual, "{mode:o}: {warnings:?}");
        for warning in warnings {
            let text = warning.to_string();
            assert!(text.contains(&format!("{mode:04o}")) && text.contains("chmod g"), "{text}");
            assert!(text.contains(&path.display().to_string()), "{text}");
        }
    }
    fs::set_permissions(&path, Permissions::from_mode(0o700)).expect("set");
    let state = path.join(STATE_FILE);
    fs::set_permissions(&state, Permissions::from_mode(0o666)).expect("set");
    let opened = open(&path).expect("opens");
    assert_eq!(opened.warnings, [StoreWarning::OthersMayWrite { path: state.clone(), mode: 0o666 }]);
    opened.store.write(&durable(2)).expect("written");
    assert_eq!(mode(&state), 0o600, "what is written anew is the owner's alone");
}

#[test]
fn a_directory_of_another_user_is_named_with_its_owner() {
    if !geteuid().is_root() {
        // Only the administrator can give a directory away.
        return;
    }
    let (_parent, path, store) = opened();
    drop(store);
    chown(&path, Some(Uid::from_raw(12_345)), None).expect("given away");
    let warnings = open(&path).expect("opens").warnings;
    assert_eq!(warnings, [StoreWarning::ForeignOwner { path, owner: 12_345, me: 0 }]);
    assert!(warnings[0].to_string().contains("12345"));
}

#[test]
fn a_lock_that_is_let_go_a_moment_later_is_waited_for() {
    let place = tempfile::tempdir().expect("a directory");
    let path = place.path().join("lock");
    let held = File::create(&path).expect("made");
    held.try_lock().expect("free");
    let later = std::thread::spawn(move || {
        std::thread::sleep(Duration::from_millis(20));
        drop(held);
    });
    let file = File::open(&path).expect("there");
    lock_within(&file, Duration::from_secs(30)).expect("it is let go");
    later.join().expect("no panic");
}
