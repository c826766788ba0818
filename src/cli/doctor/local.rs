//! This machine: the data directory, its disk, and limits.
//!
//! Invariant: nothing stays behind in a data directory, and no file in it is changed or locked.

use std::fs;
use std::io::Write as _;
use std::net::ToSocketAddrs as _;
use std::path::Path;
use std::time::{Duration, Instant};

use super::report::{Finding, Report};
use crate::Config;
use crate::cli::human;
use crate::config::LeadershipMode;
use crate::core::canonical;
use crate::transport::advertised;

/// The number of times that the disk is timed.
const WRITES: usize = 5;
/// A write that takes longer is slow: every vote waits for one.
const SLOW_WRITE: Duration = Duration::from_millis(100);
/// Free space below which a disk is as good as full.
#[cfg(unix)]
pub(super) const LEAST_FREE_BYTES: u64 = 16 * 1024 * 1024;
/// The least number of descriptors with which an agent does not have to save any.
const ENOUGH_DESCRIPTORS: usize = 1_536;

/// Looks at the machine as this configuration uses it. `is_named`: the file names the node.
pub(super) fn look_at(config: &Config, is_named: bool, report: &mut Report) {
    report.add(told_address(config));
    match &config.data_dir {
        Some(directory) => {
            let is_voter = config.leadership.mode == LeadershipMode::Quorum;
            report.extend(data_directory(directory, is_voter));
            report.extend(owner(directory, config, is_named));
        }
        None => report.add(Finding::ok("data_dir", "there is none: nothing is kept across restarts")),
    }
}

/// Judges the address that others are told.
pub(super) fn told_address(config: &Config) -> Finding {
    let are_remote = config
        .seeds
        .iter()
        .any(|seed| !seed.starts_with("127.") && !seed.starts_with("localhost") && !seed.starts_with("[::1]"));
    let own = config.advertise.or(config.bind()).filter(|address| !address.ip().is_unspecified());
    match own {
        Some(address) if address.ip().is_loopback() && are_remote => Finding::fail(
            "advertised",
            format!("others are told {address}, which is each machine's own, while seeds are elsewhere"),
            "give it the cluster's key file (--key-file) and no bind, or set advertise to the address that others reach",
        ),
        Some(address) => Finding::ok("advertised", format!("others are told {address}")),
        None => chosen(config),
    }
}

/// Judges the address that an agent would choose here, since none is given. Nothing is sent but questions to name servers.
fn chosen(config: &Config) -> Finding {
    let bound = config.listens_at();
    let addresses =
        |seed: &String| seed.to_socket_addrs().map(|found| found.map(canonical).collect()).unwrap_or_default();
    let seeds: Vec<_> = config.seeds.iter().map(|seed| (seed.clone(), addresses(seed))).collect();
    let choice = advertised::choose(bound, &seeds);
    let found = format!("others are told {}, {}", choice.address, choice.reason());
    if choice.address.ip().is_loopback() {
        let advice =
            "nodes on other machines cannot reach this one: set advertise if they are to, or bind a loopback address";
        return Finding::warn("advertised", found, Some(advice));
    }
    Finding::ok("advertised", found)
}

/// Judges a data directory: its permissions, its disk's room and pace.
pub(super) fn data_directory(directory: &Path, is_voter: bool) -> Vec<Finding> {
    let shown = human::plain(&directory.to_string_lossy());
    let metadata = match fs::metadata(directory) {
        Ok(metadata) if metadata.is_dir() => metadata,
        Ok(_) => {
            return vec![Finding::fail(
                "data_dir",
                format!("{shown} is not a directory"),
                "name a directory, or remove the file",
            )];
        }
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            return vec![Finding::warn(
                "data_dir",
                format!("{shown} is not there yet"),
                Some("the agent makes it at its first start; a voter whose directory is gone has lost its votes"),
            )];
        }
        Err(error) => {
            let found = format!("{shown} cannot be looked at: {error}");
            return vec![Finding::fail("data_dir", found, "ask as the agent's user")];
        }
    };
    let mut findings = vec![permissions(&shown, &metadata)];
    findings.extend(room(directory, &shown));
    findings.push(pace(directory, &shown, is_voter));
    findings
}

/// Judges the state in a data directory: that of another node, or of another cluster, is none for this one. `is_named`: the
/// file names the node; if not, something else may.
pub(super) fn owner(directory: &Path, config: &Config, is_named: bool) -> Option<Finding> {
    use crate::store::StoreError;

    let or_named = "right if --name or HEADCOUNT_NAME names this node: the file does not";
    match crate::store::look_at(directory, &config.cluster, &config.name) {
        Ok(None) => None,
        Ok(Some(warning)) => {
            let renamed = "right if the node was renamed; else give each node a data_dir of its own";
            Some(Finding::warn("data_dir", warning.to_string(), Some(if is_named { renamed } else { or_named })))
        }
        Err(error @ StoreError::OtherVoter { .. }) if !is_named => {
            Some(Finding::warn("data_dir", error.to_string(), Some(or_named)))
        }
        Err(error) => {
            let advice = "name the data_dir of this node: an agent does not start with this one";
            Some(Finding::fail("data_dir", error.to_string(), advice))
        }
    }
}

#[cfg(unix)]
fn permissions(shown: &str, metadata: &fs::Metadata) -> Finding {
    use std::os::unix::fs::MetadataExt as _;

    let mode = metadata.mode() & 0o777;
    if mode & 0o022 != 0 {
        let found = format!("{shown} may be changed by others than its owner (mode {mode:03o})");
        return Finding::fail(
            "data_dir",
            found,
            &format!("chmod 700 {shown}: who writes there decides how this node votes"),
        );
    }
    if mode & 0o055 != 0 {
        let found = format!("{shown} may be read by others than its owner (mode {mode:03o})");
        return Finding::warn("data_dir", found, Some(&format!("chmod 700 {shown}")));
    }
    let me = nix::unistd::Uid::effective().as_raw();
    if metadata.uid() != me && me != 0 {
        let found = format!("{shown} belongs to user {}, and this is user {me}", metadata.uid());
        return Finding::warn("data_dir", found, Some("run the agent as its owner"));
    }
    Finding::ok("data_dir", format!("{shown} is its owner's alone (mode {mode:03o})"))
}

#[cfg(not(unix))]
fn permissions(shown: &str, _: &fs::Metadata) -> Finding {
    Finding::ok("data_dir", format!("{shown} is there; who may read it is not looked at on this system"))
}

#[cfg(unix)]
#[allow(clippy::useless_conversion, reason = "the types are narrower on other systems")]
fn room(directory: &Path, shown: &str) -> Option<Finding> {
    let disk = nix::sys::statvfs::statvfs(directory).ok()?;
    let free = u64::from(disk.blocks_available()).saturating_mul(u64::from(disk.fragment_size()));
    Some(left(free, shown))
}

/// Judges the number of free bytes.
#[cfg(unix)]
pub(super) fn left(free: u64, shown: &str) -> Finding {
    let megabytes = free / (1024 * 1024);
    if free < LEAST_FREE_BYTES {
        let found = format!("the disk of {shown} has {megabytes} MiB left");
        Finding::fail("disk", found, "free some: a voter whose disk is full stands aside")
    } else {
        Finding::ok("disk", format!("{megabytes} MiB are free for {shown}"))
    }
}

#[cfg(not(unix))]
fn room(_: &Path, _: &str) -> Option<Finding> {
    None
}

/// Times writes that reach the disk, as votes do.
fn pace(directory: &Path, shown: &str, is_voter: bool) -> Finding {
    let time = || -> std::io::Result<Duration> {
        let mut slowest = Duration::ZERO;
        // It has no name, so that nothing stays behind whatever happens.
        let mut file = tempfile::tempfile_in(directory)?;
        for _ in 0..WRITES {
            let began = Instant::now();
            file.write_all(&[0; 512])?;
            file.sync_all()?;
            slowest = slowest.max(began.elapsed());
        }
        Ok(slowest)
    };
    match time() {
        Ok(slowest) if slowest > SLOW_WRITE => {
            let found = format!("the slowest of {WRITES} writes to {shown} took {}", human::duration(slowest));
            let advice = if is_voter {
                "a voter needs a disk of its own, or a longer leadership.lease_duration"
            } else {
                "only voters wait for it; see what else writes there"
            };
            Finding::warn("disk", found, Some(advice))
        }
        Ok(slowest) => Finding::ok("disk", format!("the slowest of {WRITES} writes took {}", human::duration(slowest))),
        Err(error) => {
            let found = format!("{shown} cannot be written to: {error}");
            Finding::fail(
                "disk",
                found,
                "check its owner, its mount options and its free space; ask as the agent's user",
            )
        }
    }
}

/// Judges the limit of open files of whatever is started from here.
pub(super) fn descriptors() -> Finding {
    crate::descriptors::raise_limit();
    match crate::descriptors::limit() {
        Some(limit) if limit < ENOUGH_DESCRIPTORS => Finding::warn(
            "files",
            format!("a process started from here may open {limit} files"),
            Some("raise the hard limit: `ulimit -Hn`, LimitNOFILE= of systemd; links and HTTP connections share it"),
        ),
        Some(limit) => Finding::ok("files", format!("a process started from here may open {limit} files")),
        None => Finding::ok("files", "there is no limit of open files, or none that can be read"),
    }
}
