//! States that are put back: those that are refused, and those that are the voter's own.

use std::fs::{self, File, FileTimes, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime};

use tempfile::TempDir;

use super::{LOCK_FILE, STATE_FILE};
use crate::core::election::{Ballot, Identity, Term};
use crate::core::{Durable, NodeId};
use crate::store::state::tests::without_origin;
use crate::store::{Opened, Store, StoreError};

/// Longer than any file system takes to let time pass.
const PATIENCE: Duration = Duration::from_secs(30);

pub(super) fn open(directory: &Path) -> Result<Opened, StoreError> {
    let name = NodeId::new("a").expect("a name");
    Store::open(directory, &name, &name)
}

/// Returns the state that a voter stores in this term.
pub(super) fn voted(term: u64) -> Durable {
    let identity = Identity(7);
    let ballot = Ballot { version: term, term: Term(term), vote: Some(identity), ..Ballot::blank(identity) };
    Durable { incarnation_bound: term, addresses: Vec::new(), ballot: Some(ballot) }
}

/// Starts the voter in this directory, which stores what it knows; returns its term.
#[track_caller]
pub(super) fn starts(directory: &Path) -> u64 {
    let Opened { store, remembered, .. } = open(directory).expect("opens");
    let ballot = remembered.ballot.expect("a ballot");
    let term = ballot.term.0;
    store.write(&Durable { ballot: Some(ballot), ..voted(1) }).expect("written");
    term
}

/// Asserts that the state is refused as a copy or an older one, left as it is, and that the error says what to do.
#[track_caller]
pub(super) fn assert_refused(directory: &Path) {
    let before = fs::read(directory.join(STATE_FILE)).expect("is there");
    let text = open(directory).map(|opened| opened.remembered).expect_err("refused").to_string();
    let error = open(directory).expect_err("refused again");
    assert_eq!(error.to_string(), text, "the same");
    assert!(matches!(error, StoreError::Copied { .. }), "{text}");
    assert!(text.contains(STATE_FILE) && text.contains("without memory"), "{text}");
    assert_eq!(fs::read(directory.join(STATE_FILE)).expect("is there"), before, "untouched");
}

pub(super) struct Place {
    pub(super) parent: TempDir,
    pub(super) data: PathBuf,
}

impl Place {
    pub(super) fn new() -> Self {
        let parent = tempfile::tempdir().expect("a directory");
        Self { data: parent.path().join("data"), parent }
    }

    /// Creates a directory with a state of term 1.
    pub(super) fn with_a_state() -> Self {
        let place = Self::new();
        place.votes(1);
        place
    }

    /// Starts the voter, which votes in this term, and stops it.
    pub(super) fn votes(&self, term: u64) {
        let store = open(&self.data).expect("opens").store;
        store.write(&voted(term)).expect("written");
    }

    pub(super) fn state(&self) -> PathBuf {
        self.data.join(STATE_FILE)
    }

    pub(super) fn fresh(&self, name: &str) -> PathBuf {
        let path = self.parent.path().join(name);
        fs::create_dir(&path).expect("created");
        path
    }

    /// Makes hard links to these files in a new directory, as `cp -al` does.
    pub(super) fn linked(&self, files: &[&str]) -> PathBuf {
        let backup = self.fresh("backup");
        for file in files {
            fs::hard_link(self.data.join(file), backup.join(file)).expect("linked");
        }
        backup
    }
}

fn birth(path: &Path) -> SystemTime {
    fs::metadata(path).and_then(|file| file.created()).expect("a file system that knows")
}

/// Copies a file as `cp -a` does, after as much time as the file system needs to tell the two apart.
pub(super) fn copy_later(from: &Path, to: &Path, keeps_times: bool) {
    let (modified, bytes) = (fs::metadata(from).expect("is there").modified(), fs::read(from).expect("is there"));
    let (original, deadline) = (birth(from), Instant::now() + PATIENCE);
    loop {
        let _ = fs::remove_file(to);
        fs::write(to, &bytes).expect("copied");
        if birth(to).duration_since(original).is_ok_and(|since| since > Duration::from_millis(20)) {
            break;
        }
        assert!(Instant::now() < deadline, "no time passes");
    }
    if keeps_times {
        let times = FileTimes::new().set_modified(modified.expect("known"));
        File::options().write(true).open(to).and_then(|file| file.set_times(times)).expect("set");
    }
}

#[test]
fn a_directory_of_hard_links_to_older_files_is_refused_as_the_lock_file_is_the_newest_one() {
    let place = Place::with_a_state();
    let backup = place.linked(&[STATE_FILE, LOCK_FILE]);
    place.votes(2);
    fs::remove_dir_all(&place.data).expect("removed");
    fs::rename(&backup, &place.data).expect("restored");
    assert_refused(&place.data);
}

#[test]
fn a_copy_is_refused_with_any_times_and_with_its_lock_file() {
    for keeps_times in [false, true] {
        let place = Place::with_a_state();
        let copy = place.fresh("copy");
        copy_later(&place.state(), &copy.join(STATE_FILE), keeps_times);
        fs::copy(place.data.join(LOCK_FILE), copy.join(LOCK_FILE)).expect("copied");
        assert_refused(&copy);
        assert_eq!(starts(&place.data), 1);
    }
}

#[test]
fn a_link_to_each_of_many_states_but_the_newest_is_refused_where_it_was_however_fast_they_came() {
    let place = Place::new();
    let store = open(&place.data).expect("opens").store;
    let links = place.fresh("links");
    let last = 20;
    for term in 1..=last {
        store.write(&voted(term)).expect("written");
        fs::hard_link(place.state(), links.join(term.to_string())).expect("linked");
    }
    drop(store);
    for term in (1..=last).rev() {
        fs::remove_file(place.state()).expect("removed");
        fs::hard_link(links.join(term.to_string()), place.state()).expect("put back");
        if term == last {
            open(&place.data).expect("the newest");
        } else {
            assert_refused(&place.data);
        }
    }
}

#[test]
fn a_copy_of_a_state_without_votes_or_an_older_one_is_taken_but_for_its_identity() {
    let blank = Durable { ballot: Some(Ballot::blank(Identity(7))), ..voted(1) };
    let place = Place::new();
    let store = open(&place.data).expect("opens").store;
    store.write(&blank).expect("written");
    let copy = place.fresh("copy");
    copy_later(&place.state(), &copy.join(STATE_FILE), true);
    let older = place.linked(&[STATE_FILE, LOCK_FILE]);
    drop(store);
    assert!(open(&place.data).expect("opens").store.write(&blank).is_ok());
    for directory in [copy, older] {
        let remembered = open(&directory).expect("opens").remembered;
        assert_eq!((remembered.incarnation_bound, remembered.ballot), (Some(1), None));
    }
    assert!(open(&place.data).expect("opens").remembered.ballot.is_some());
}

#[test]
fn what_is_known_of_the_newest_state_may_be_lost_with_the_power_whatever_the_clock_did() {
    let place = Place::with_a_state();
    let before = fs::read(place.data.join(LOCK_FILE)).expect("is there");
    place.votes(2);
    let nanos = birth(&place.state()).duration_since(SystemTime::UNIX_EPOCH).expect("after").as_nanos();
    let a_time = (nanos as u64 + 3_600_000_000_000).to_le_bytes().to_vec();
    for note in [before, a_time, Vec::new(), vec![0; 24], vec![0xff; 100]] {
        fs::write(place.data.join(LOCK_FILE), note).expect("written");
        assert_eq!(starts(&place.data), 2);
    }
}

#[test]
fn a_state_that_says_nothing_of_its_creation_and_was_restored_with_its_times_is_refused() {
    let place = Place::new();
    let backup = place.fresh("backup").join(STATE_FILE);
    fs::write(&backup, without_origin(&voted(1))).expect("written");
    let a_moment_ago = FileTimes::new().set_modified(SystemTime::now() - Duration::from_millis(300));
    File::options().write(true).open(&backup).and_then(|file| file.set_times(a_moment_ago)).expect("set");
    let fresh = place.fresh("data");
    copy_later(&backup, &fresh.join(STATE_FILE), true);
    assert_refused(&fresh);
}

#[test]
fn a_state_without_a_number_is_refused_where_a_newer_one_was_written_whatever_its_times() {
    let place = Place::new();
    let old = without_origin(&voted(1));
    fs::create_dir(&place.data).expect("created");
    fs::write(place.state(), &old).expect("written");
    assert_eq!(starts(&place.data), 1);
    fs::write(place.state(), &old).expect("put back in place");
    assert_refused(&place.data);
    fs::remove_file(place.state()).expect("removed");
    fs::write(place.state(), &old).expect("put back");
    assert_refused(&place.data);
}

#[test]
fn a_state_that_says_nothing_of_its_creation_and_stayed_where_it_was_is_taken() {
    let place = Place::new();
    fs::create_dir(&place.data).expect("created");
    fs::write(place.data.join(LOCK_FILE), "").expect("written");
    fs::write(place.state(), without_origin(&voted(1))).expect("written");
    fs::set_permissions(place.state(), Permissions::from_mode(0o600)).expect("set");
    let later = FileTimes::new().set_modified(SystemTime::now() + Duration::from_secs(3_600));
    File::options().write(true).open(place.state()).and_then(|file| file.set_times(later)).expect("set");
    assert_eq!(starts(&place.data), 1);
    assert_eq!(starts(&place.data), 1, "and what was written then");
}

#[test]
fn what_is_no_part_of_the_state_may_change_while_nobody_runs() {
    let place = Place::with_a_state();
    let lock = place.data.join(LOCK_FILE);
    fs::remove_file(&lock).expect("removed");
    assert_eq!(starts(&place.data), 1, "without a lock file");
    fs::write(&lock, "").expect("emptied");
    assert_eq!(starts(&place.data), 1, "with an empty one");
    for (path, mode) in [(&place.state(), 0o640), (&place.data, 0o750), (&lock, 0o600)] {
        fs::set_permissions(path, Permissions::from_mode(mode)).expect("set");
        File::open(path)
            .and_then(|file| file.set_times(FileTimes::new().set_modified(SystemTime::UNIX_EPOCH)))
            .expect("set");
        assert_eq!(starts(&place.data), 1);
    }
    let elsewhere = place.parent.path().join("elsewhere");
    fs::rename(&place.data, &elsewhere).expect("renamed");
    assert_eq!(starts(&elsewhere), 1);
}

#[test]
fn a_voter_that_starts_without_memory_where_another_state_was_is_not_refused_later() {
    let place = Place::with_a_state();
    for term in 2..9 {
        place.votes(term);
    }
    fs::remove_file(place.state()).expect("moved away");
    place.votes(1);
    assert_eq!(starts(&place.data), 1);
}
