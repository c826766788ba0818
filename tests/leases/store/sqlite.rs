//! SQLite: the suite, then what can happen to a file.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use headcount::lease::store::{StoreError, StoreOptions, StoreUrl};
use headcount::lease::{Outcome, StepRequest};
use tempfile::TempDir;

use super::harness::{Bench, Node, Raw, acquire, holding, renew};

fn start(_case: &str) -> std::future::Ready<Option<Bench>> {
    std::future::ready(Some(bench(tempfile::tempdir().expect("a directory"), "leases.db")))
}

fn bench(directory: TempDir, file: &str) -> Bench {
    let path = directory.path().join(file);
    let url = format!("sqlite://{}", path.display()).parse().expect("a file");
    let options = StoreOptions::new("test").expect("a name");
    let options = options.with_statement_timeout(Duration::from_secs(10)).expect("in range");
    Bench { url, options, raw: Raw::Sqlite(path, directory) }
}

crate::store::suite! { start }

#[tokio::test]
async fn the_file_and_its_journal_are_their_owners_alone_and_nothing_is_shared_in_memory() {
    use std::os::unix::fs::PermissionsExt;
    let bench = start("").await.expect("it starts");
    let mut node = bench.node("a");
    node.one(acquire(1)).await;
    for file in ["leases.db", "leases.db-journal"] {
        let metadata = fs::metadata(bench.file().with_file_name(file)).expect(file);
        assert_eq!(metadata.permissions().mode() & 0o777, 0o600, "{file}");
    }
    let mapped = fs::read_to_string("/proc/self/maps").expect("Linux tells");
    let directory = bench.file().parent().expect("a directory").display().to_string();
    assert!(!mapped.contains(&directory), "whoever shortens it ends this process:\n{mapped}");
}

#[tokio::test]
async fn a_locked_file_is_waited_for_and_then_busy() {
    let mut bench = start("").await.expect("it starts");
    let mut patient = bench.node("patient");
    patient.one(acquire(1)).await;
    bench.options = bench.options.with_statement_timeout(Duration::from_millis(200)).expect("in range");
    let mut hasty = bench.node("hasty");
    hasty.watch().await;

    let locking = rusqlite::Connection::open(bench.file()).expect("it opens");
    locking.execute_batch("begin immediate").expect("locked");
    let error = hasty.try_one(acquire(2)).await.expect_err("it is locked");
    assert!(matches!(error, StoreError::Busy { .. }) && error.is_outcome_known(), "{error}");

    let waiting = tokio::spawn(async move { patient.one(renew(&[1], 3)).await });
    tokio::time::sleep(Duration::from_millis(50)).await;
    locking.execute_batch("rollback").expect("unlocked");
    assert_eq!(waiting.await.expect("no panic").outcome, Outcome::Renewed);
    assert_eq!(holding(&hasty.watch().await), (Outcome::Watched, 1, Some(("patient", 3, 1))));
}

#[tokio::test]
async fn a_deleted_file_is_an_error_first_and_then_a_new_one() {
    let bench = start("").await.expect("it starts");
    let mut node = bench.node("a");
    node.one(acquire(1)).await;
    fs::remove_file(bench.file()).expect("removed");

    let error = node.try_one(renew(&[1], 2)).await.expect_err("it is gone");
    assert!(matches!(&error, StoreError::FileChanged { change: "deleted", .. }), "{error}");
    assert_eq!(holding(&node.one(renew(&[1], 2)).await), (Outcome::Rejected, 0, None));
}

#[tokio::test]
async fn a_replaced_file_is_an_error_first_and_then_what_is_there() {
    let (bench, other) = (start("").await.expect("it starts"), start("").await.expect("it starts"));
    let (mut node, mut elsewhere) = (bench.node("a"), other.node("b"));
    node.one(acquire(1)).await;
    elsewhere.one(acquire(2)).await;
    elsewhere.store.close().await;
    fs::rename(other.file(), bench.file()).expect("replaced");

    let error = node.try_one(renew(&[1], 3)).await.expect_err("it is another file");
    assert!(matches!(&error, StoreError::FileChanged { change: "replaced", .. }), "{error}");
    assert_eq!(holding(&node.one(renew(&[1], 3)).await), (Outcome::Rejected, 1, Some(("b", 2, 1))));
}

#[tokio::test]
async fn a_journal_that_is_emptied_or_deleted_between_rounds_changes_nothing() {
    let bench = start("").await.expect("it starts");
    let mut node = bench.node("a");
    node.one(acquire(1)).await;
    let journal = bench.file().with_file_name("leases.db-journal");
    fs::File::options().write(true).open(&journal).and_then(|file| file.set_len(0)).expect("emptied");
    assert_eq!(holding(&node.one(renew(&[1], 2)).await), (Outcome::Renewed, 1, Some(("a", 2, 1))));
    fs::remove_file(&journal).expect("removed");
    assert_eq!(holding(&node.one(renew(&[2], 3)).await), (Outcome::Renewed, 1, Some(("a", 3, 1))));
}

#[tokio::test]
async fn a_file_that_is_cut_short_is_damaged_by_name_until_it_is_mended() {
    let bench = start("").await.expect("it starts");
    let mut node = bench.node("a");
    node.one(acquire(1)).await;
    let whole = fs::read(bench.file()).expect("readable");
    for length in [4_096, 5_000, whole.len() - 4_096] {
        let cut = fs::File::options().write(true).open(bench.file()).expect("it opens");
        cut.set_len(length as u64).expect("cut");
        for _ in 0..2 {
            let error = node.try_one(renew(&[1], 2)).await.expect_err("it is damaged");
            assert!(matches!(error, StoreError::Damaged { .. }), "{length}: {error}");
            assert!(error.to_string().contains("leases.db"), "{error}");
        }
        fs::write(bench.file(), &whole).expect("mended");
        assert_eq!(holding(&node.watch().await), (Outcome::Watched, 1, Some(("a", 1, 1))));
    }
    // Nothing at all is an empty database.
    fs::File::options().write(true).open(bench.file()).and_then(|file| file.set_len(0)).expect("emptied");
    assert_eq!(holding(&node.one(renew(&[1], 2)).await), (Outcome::Rejected, 0, None));
    assert_eq!(holding(&node.one(acquire(3)).await), (Outcome::Acquired, 1, Some(("a", 3, 1))));
}

/// Has the file keep a write-ahead log, as earlier releases had it; returns the connection that keeps it in use.
fn keep_write_ahead_log(file: &Path) -> rusqlite::Connection {
    let older = rusqlite::Connection::open(file).expect("it opens");
    let mode: String = older.query_row("pragma journal_mode = wal", [], |row| row.get(0)).expect("switched");
    assert_eq!(mode, "wal");
    older.execute_batch("update cluster_leases set lease_ms = lease_ms").expect("it is in the log");
    older
}

#[tokio::test]
async fn a_file_with_a_write_ahead_log_is_busy_while_that_is_in_use_and_then_brought_over() {
    let mut bench = start("").await.expect("it starts");
    bench.options = bench.options.with_statement_timeout(Duration::from_millis(200)).expect("in range");
    let mut node = bench.node("a");
    node.one(acquire(1)).await;
    let older = keep_write_ahead_log(bench.file());
    for node in [&mut node, &mut bench.node("b")] {
        let error = node.try_one(StepRequest::Watch).await.expect_err("it is in use");
        assert!(matches!(error, StoreError::Busy { .. }) && error.is_outcome_known(), "{error}");
        assert!(error.to_string().contains("leases.db-wal, and is in use: end"), "{error}");
    }
    older.execute_batch("update cluster_terms set term = 7").expect("whoever has it open goes on");
    drop(older);
    assert_eq!(holding(&node.watch().await), (Outcome::Watched, 7, Some(("a", 1, 1))));
    assert!(!bench.file().with_file_name("leases.db-wal").exists());
    assert_eq!(node.one(renew(&[1], 2)).await.outcome, Outcome::Renewed);
}

#[tokio::test]
async fn a_write_ahead_log_that_a_crash_left_is_brought_over_whatever_became_of_its_index() {
    for (what, is_index_cut, is_log_cut, term) in
        [("whole", false, false, 7), ("index", true, false, 7), ("log", true, true, 1)]
    {
        let (bench, crashed) = (start("").await.expect("it starts"), start("").await.expect("it starts"));
        let mut node = bench.node("a");
        node.one(acquire(1)).await;
        node.store.close().await;
        let older = keep_write_ahead_log(bench.file());
        older.query_row("pragma wal_checkpoint", [], |_| Ok(())).expect("written back");
        older.execute_batch("update cluster_terms set term = 7").expect("it is in the log");
        // What a crash would leave.
        for end in ["", "-wal", "-shm"] {
            let name = format!("leases.db{end}");
            fs::copy(bench.file().with_file_name(&name), crashed.file().with_file_name(&name)).expect("copied");
        }
        let cut = |end: &str| {
            let path = crashed.file().with_file_name(format!("leases.db{end}"));
            fs::File::options().write(true).open(path).and_then(|file| file.set_len(0)).expect("cut");
        };
        is_index_cut.then(|| cut("-shm"));
        is_log_cut.then(|| cut("-wal"));
        let mut nodes = [crashed.node("a"), crashed.node("b")];
        for node in &mut nodes {
            assert_eq!(holding(&node.watch().await), (Outcome::Watched, term, Some(("a", 1, 1))), "{what}");
        }
    }
}

#[tokio::test]
async fn a_file_with_two_paths_is_refused_and_a_symbolic_link_is_not() {
    let bench = start("").await.expect("it starts");
    let mut first = bench.node("a");
    first.one(acquire(1)).await;
    let elsewhere = tempfile::tempdir().expect("a directory");
    let at = |path: &Path| {
        let url = StoreUrl::Sqlite(path.to_owned());
        let store = headcount::lease::store::Store::new(&url, bench.options.clone()).expect("good");
        Node { id: headcount::NodeId::new("b").expect("a name"), store }
    };
    let symbolic = elsewhere.path().join("symbolic.db");
    std::os::unix::fs::symlink(bench.file(), &symbolic).expect("a link");
    assert_eq!(holding(&at(&symbolic).watch().await), (Outcome::Watched, 1, Some(("a", 1, 1))));
    let hard = elsewhere.path().join("hard.db");
    fs::hard_link(bench.file(), &hard).expect("a link");
    for path in [hard.as_path(), bench.file(), symbolic.as_path()] {
        let error = at(path).try_one(acquire(2)).await.expect_err("there are two paths");
        assert!(matches!(error, StoreError::ManyPaths { .. }) && error.needs_people(), "{error}");
        assert!(error.to_string().contains("hard link"), "{error}");
    }
    assert_eq!(first.one(renew(&[1], 3)).await.outcome, Outcome::Renewed, "whoever has it open goes on");
    fs::remove_file(&hard).expect("removed");
    assert_eq!(at(bench.file()).watch().await.outcome, Outcome::Watched);
}

#[tokio::test]
async fn a_file_that_is_mounted_alone_is_refused() {
    let bench = start("").await.expect("it starts");
    bench.node("a").one(acquire(1)).await;
    let elsewhere = tempfile::tempdir().expect("a directory");
    let path = elsewhere.path().join("mounted here.db");
    fs::write(&path, "").expect("a place");
    let mounted = Command::new("mount").arg("--bind").arg(bench.file()).arg(&path).status();
    if !mounted.is_ok_and(|status| status.success()) {
        return crate::support::skip("a mount takes the right to make one");
    }
    let _mount = Disk(path.clone());
    let url = StoreUrl::Sqlite(path);
    let mut store = headcount::lease::store::Store::new(&url, bench.options.clone()).expect("good");
    let error = store.prepare().await.expect_err("its log would lie beside this path");
    assert!(matches!(error, StoreError::ManyPaths { .. }), "{error}");
    assert!(error.to_string().contains("mount the directory"), "{error}");
}

#[tokio::test]
async fn what_is_no_database_is_refused_and_left_as_it_is() {
    let bench = start("").await.expect("it starts");
    let text = "nobody's database, but somebody's letter\n".repeat(100);
    fs::write(bench.file(), &text).expect("written");
    let error = bench.node("a").try_one(acquire(1)).await.expect_err("no database");
    assert!(matches!(error, StoreError::Damaged { .. }), "{error}");
    assert_eq!(fs::read_to_string(bench.file()).expect("readable"), text);
}

#[tokio::test]
async fn a_missing_directory_is_named() {
    let bench = bench(tempfile::tempdir().expect("a directory"), "none/leases.db");
    let error = bench.node("a").try_one(acquire(1)).await.expect_err("no directory").to_string();
    assert!(error.contains("no directory") && error.contains("/none"), "{error}");
}

#[tokio::test]
async fn a_schema_is_refused() {
    let bench = start("").await.expect("it starts");
    let options = bench.options.clone().with_schema("app").expect("a name");
    let error = headcount::lease::store::Store::new(&bench.url, options).expect_err("SQLite has none");
    assert!(error.to_string().contains("table_prefix"), "{error}");
}

#[tokio::test]
async fn a_full_disk_loses_nothing_and_room_is_enough_to_go_on() {
    let directory = tempfile::tempdir().expect("a directory");
    let Some(_disk) = Disk::mount(directory.path()) else { return };
    let mut bench = bench(tempfile::tempdir().expect("a directory"), "unused");
    let path = directory.path().join("leases.db");
    bench.url = StoreUrl::Sqlite(path.clone());
    let mut node = bench.node("a");
    node.one(acquire(1)).await;

    // A new row of a lease takes room; a renewal takes none.
    let ballast = directory.path().join("ballast");
    let mut drawn = 1;
    let mut more = 1;
    for round in 1..=2 {
        let _ = fs::write(&ballast, vec![0; 4 << 20]);
        let error = loop {
            let step = (format!("{}{more}", "x".repeat(40)), acquire(more));
            more += 1;
            let asked = node.round_of(vec![(step.0.as_str(), step.1)]);
            match node.store.round(&asked).await {
                Ok(answer) => assert_eq!(answer.steps[0].outcome, Outcome::Acquired),
                Err(error) => break error,
            }
            assert!(more < 10_000, "the disk does not fill");
        };
        assert!(matches!(error, StoreError::Full { .. }) && error.is_outcome_known(), "{error:?}");
        for _ in 0..100 {
            let seen = node.one(renew(&[drawn], drawn + 1)).await;
            drawn += 1;
            assert_eq!(holding(&seen), (Outcome::Renewed, 1, Some(("a", drawn, 1))), "{round}: it is full still");
        }
        fs::remove_file(&ballast).expect("room");
        let name = format!("free{round}");
        let asked = node.round_of(vec![(name.as_str(), acquire(more))]);
        assert_eq!(node.store.round(&asked).await.expect("room").steps[0].outcome, Outcome::Acquired);
    }
}

/// A disk of 1 MiB, for as long as this lives.
struct Disk(std::path::PathBuf);

impl Disk {
    fn mount(at: &Path) -> Option<Self> {
        let mounted = Command::new("mount").args(["-t", "tmpfs", "-o", "size=1m", "tmpfs"]).arg(at).status();
        if mounted.is_ok_and(|status| status.success()) {
            return Some(Self(at.to_owned()));
        }
        crate::support::skip("a small disk takes the right to mount one");
        None
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("--lazy").arg(&self.0).status();
    }
}
