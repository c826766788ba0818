//! SQLite: the suite, then what can happen to a file.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use headcount::lease::store::{StoreError, StoreOptions, StoreUrl};
use headcount::lease::{Outcome, StepRequest};
use tempfile::TempDir;

use crate::harness::{Bench, Node, Raw, acquire, holding, renew};

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

crate::suite! { start }

#[tokio::test]
async fn the_file_is_its_owners_alone_and_keeps_a_write_ahead_log() {
    use std::os::unix::fs::PermissionsExt;
    let bench = start("").await.expect("it starts");
    let mut node = bench.node("a");
    node.one(acquire(1)).await;
    for file in ["leases.db", "leases.db-wal", "leases.db-shm"] {
        let metadata = fs::metadata(bench.file().with_file_name(file)).expect(file);
        assert_eq!(metadata.permissions().mode() & 0o777, 0o600, "{file}");
    }
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
    // As a backup is restored: the log of the file that was there goes with it.
    for log in ["leases.db-wal", "leases.db-shm"] {
        fs::remove_file(bench.file().with_file_name(log)).expect("removed");
    }
    fs::rename(other.file(), bench.file()).expect("replaced");

    let error = node.try_one(renew(&[1], 3)).await.expect_err("it is another file");
    assert!(matches!(&error, StoreError::FileChanged { change: "replaced", .. }), "{error}");
    assert_eq!(holding(&node.one(renew(&[1], 3)).await), (Outcome::Rejected, 1, Some(("b", 2, 1))));
}

#[tokio::test]
async fn a_log_that_is_deleted_is_as_if_the_file_were() {
    let bench = start("").await.expect("it starts");
    for log in ["leases.db-wal", "leases.db-shm"] {
        let mut node = bench.node("a");
        node.watch().await;
        fs::remove_file(bench.file().with_file_name(log)).expect("removed");
        let error = node.try_one(StepRequest::Watch).await.expect_err("who opens it now does not see this one");
        assert!(matches!(&error, StoreError::FileChanged { change: "deleted", .. }), "{error}");
        assert!(error.to_string().contains(log), "{error}");
        assert_eq!(node.watch().await.outcome, Outcome::Watched, "and then what is there");
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
        return crate::harness::skip("a mount takes the right to make one");
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

    // A reader keeps the log from being begun anew, so that each round needs room of its own.
    let reader = rusqlite::Connection::open(&path).expect("it opens");
    let read = |sql: &str| reader.execute_batch(sql).expect("it reads");
    read("begin; select count(*) from cluster_terms");
    let ballast = directory.path().join("ballast");
    let mut drawn = 1;
    for is_freed_by_reader in [false, true] {
        // Filled to the last byte, and whatever the log has room for yet is used up by rounds.
        let _ = fs::write(&ballast, vec![0; 4 << 20]);
        let error = loop {
            match node.try_one(renew(&[drawn], drawn + 1)).await {
                Ok(seen) => assert_eq!(seen.outcome, Outcome::Renewed),
                Err(error) => break error,
            }
            drawn += 1;
            assert!(drawn < 10_000, "the disk does not fill");
        };
        assert!(matches!(error, StoreError::Full { .. }) && error.is_outcome_known(), "{error:?}");
        if is_freed_by_reader {
            read("commit");
        } else {
            fs::remove_file(&ballast).expect("room");
        }
        let seen = node.one(renew(&[drawn], drawn + 1)).await;
        drawn += 1;
        assert_eq!(holding(&seen), (Outcome::Renewed, 1, Some(("a", drawn, 1))), "the last answer holds");
    }

    // The disk is full, and nobody reads: the room of the log is used again and again.
    for _ in 0..500 {
        let seen = node.one(renew(&[drawn], drawn + 1)).await;
        drawn += 1;
        assert_eq!(holding(&seen), (Outcome::Renewed, 1, Some(("a", drawn, 1))));
    }
    assert!(fs::write(directory.path().join("more"), vec![0; 64 << 10]).is_err(), "it is full still");
}

/// A disk of 1 MiB, for as long as this lives.
struct Disk(std::path::PathBuf);

impl Disk {
    fn mount(at: &Path) -> Option<Self> {
        let mounted = Command::new("mount").args(["-t", "tmpfs", "-o", "size=1m", "tmpfs"]).arg(at).status();
        if mounted.is_ok_and(|status| status.success()) {
            return Some(Self(at.to_owned()));
        }
        crate::harness::skip("a small disk takes the right to mount one");
        None
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("--lazy").arg(&self.0).status();
    }
}
