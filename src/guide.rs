//! Pages of the documentation: the operations guide's table of limits says what the code does, what the page on
//! requirements names exists (its commands are tried with those of README), and the pages that everybody reads stay short.
//!
//! Must not know: anything else of these pages.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::agent::{KEPT_EVENTS, KEPT_LIST_BYTES};
use crate::config::{MAX_CONCURRENCY, MAX_HANDLERS, keys};
use crate::core::limits::{
    MAX_ADDRESSES_PER_SEED, MAX_GONE, MAX_KEPT_BYTES, MAX_KEPT_MESSAGES, MAX_KEPT_OWN_BYTES, MAX_MEMBERS,
    MAX_PAYLOAD_BYTES, MAX_REMOVALS, MAX_REQUEST_TIMEOUT, MAX_SEEDS, MAX_VOTERS,
};
use crate::core::{NodeId, Tags};
use crate::lease::MAX_LEASES;
use crate::{http, journal, seal};
use headcount_campaign::invariants::Invariant;

const GUIDE: &str = include_str!("operations.md");
const METRICS: &str = include_str!("metrics_reference.md");
const REQUIREMENTS: &str = include_str!("requirements.md");

/// Writes a number as the guide does.
fn count(number: impl TryInto<u64>) -> String {
    let digits = number.try_into().unwrap_or_default().to_string();
    let mut text = String::new();
    for (place, digit) in digits.char_indices() {
        if place > 0 && (digits.len() - place).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

fn kib(bytes: usize) -> String {
    format!("{} KiB", bytes / 1024)
}

fn mib(bytes: usize) -> String {
    format!("{} MiB", bytes / (1024 * 1024))
}

fn seconds(time: Duration) -> String {
    format!("{} s", time.as_secs())
}

/// Returns the guide's section on limits.
fn limits() -> &'static str {
    GUIDE.split("\n## Limits\n").nth(1).and_then(|rest| rest.split("\n## ").next()).expect("a section")
}

/// Returns the cell beside the one that begins so, in the guide's table of limits.
fn told(row: &str) -> &'static str {
    let rest = limits().lines().find_map(|line| line.strip_prefix("| ")?.strip_prefix(row)).expect(row);
    rest.split('|').nth(1).expect("a cell").trim()
}

#[test]
fn the_limits_that_are_told_are_those_of_the_code() {
    let rows = [
        ("a name", format!("{} bytes", NodeId::MAX_BYTES)),
        ("tags of a node", format!("{} keys, {} bytes", Tags::MAX_KEYS, Tags::MAX_BYTES)),
        ("members in a view", count(MAX_MEMBERS)),
        ("members that are gone", count(MAX_GONE)),
        ("members removed", count(MAX_REMOVALS)),
        ("seeds", format!("{MAX_SEEDS}; {MAX_ADDRESSES_PER_SEED}")),
        ("voters", count(MAX_VOTERS)),
        ("leases", count(MAX_LEASES)),
        ("keys of a node", count(seal::MAX_KEYS)),
        ("a payload", format!("{} bytes", count(MAX_PAYLOAD_BYTES))),
        (
            "broadcasts kept",
            format!("{}; {}, {}", count(MAX_KEPT_MESSAGES), mib(MAX_KEPT_BYTES), mib(MAX_KEPT_OWN_BYTES)),
        ),
        ("the wait of a request", format!("{}; {}", seconds(MAX_REQUEST_TIMEOUT), seconds(http::MAX_ANSWER_WAIT))),
        ("events kept", format!("{}; {}", count(KEPT_EVENTS), mib(KEPT_LIST_BYTES))),
        ("handlers", format!("{MAX_HANDLERS}; {MAX_CONCURRENCY}")),
        ("lines of the log", count(journal::MAX_QUEUED_LINES)),
        ("connections", count(http::DEFAULT_MAX_CONNECTIONS)),
        ("event streams", format!("{}, and 24 fewer than connections", count(http::DEFAULT_MAX_STREAMS))),
        ("the body", kib(http::MAX_BODY_BYTES)),
    ];
    assert_eq!(rows.len(), limits().lines().filter(|line| line.starts_with("| ")).count() - 1, "each row is compared");
    for (row, of_the_code) in rows {
        assert_eq!(told(row), of_the_code, "{row}");
    }
}

/// Returns what stands in backticks on the page on requirements, but for the words of others: in tables those before the
/// column `here`.
fn own_words() -> Vec<&'static str> {
    let mut theirs = 0;
    let mut words = Vec::new();
    for line in REQUIREMENTS.lines() {
        let cells: Vec<&str> = line.split(" | ").collect();
        theirs =
            if line.starts_with('|') { cells.iter().position(|cell| *cell == "here").unwrap_or(theirs) } else { 0 };
        words.extend(cells.into_iter().skip(theirs).flat_map(|cell| cell.split('`').skip(1).step_by(2)));
    }
    words
}

/// Returns the files below a folder.
fn sources(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).expect("the source is there").map(|entry| entry.expect("an entry").path());
    entries.flat_map(|path| if path.is_dir() { sources(&path) } else { vec![path] }).collect()
}

/// Returns true if this is a file, a metric, a key of the configuration, a call, event or field over HTTP, a promise that the
/// simulator checks, a package, or a call of an agent's handle.
fn is_there(word: &str) -> bool {
    let top = Path::new(env!("CARGO_MANIFEST_DIR"));
    if word.contains('/') && !word.contains(' ') || [".md", ".toml"].iter().any(|end| word.ends_with(end)) {
        return top.join(word).is_file();
    }
    if let Some(call) = word.strip_prefix("Agent::") {
        let files = sources(&top.join("src/agent"));
        let is_in = |text: String| ["(", "<"].iter().any(|end| text.contains(&format!("fn {call}{end}")));
        return files.into_iter().any(|file| fs::read_to_string(file).is_ok_and(is_in));
    }
    let quoted = format!("`{}`", word.strip_suffix("_total").unwrap_or(word));
    [GUIDE, METRICS, include_str!("http_reference.md")].iter().any(|page| page.contains(&quoted))
        || keys().any(|key| key.name() == word)
        || Invariant::ALL.iter().any(|promise| format!("{promise:?}") == word)
        || [include_str!("../Cargo.toml"), include_str!("core/Cargo.toml"), include_str!("seal/Cargo.toml")]
            .iter()
            .any(|packages| packages.contains(&format!("\n{word} = ")))
}

#[test]
fn the_pages_that_everybody_reads_are_short() {
    let pages = [
        ("README.md", include_str!("../README.md"), 12_000),
        ("operations.md", GUIDE, 30_000),
        ("requirements.md", REQUIREMENTS, 12_000),
    ];
    for (name, page, most) in pages {
        assert!(page.len() <= most, "{name} has {} bytes", page.len());
    }
}

#[test]
fn what_the_page_on_requirements_names_exists() {
    let words = own_words();
    assert!(words.len() >= 120, "only {} words were read", words.len());
    let gone: Vec<&str> = words.into_iter().filter(|word| !word.starts_with("headcount ") && !is_there(word)).collect();
    assert_eq!(gone, <[&str; 0]>::default());
}

#[test]
fn what_does_not_exist_is_not_found() {
    for word in [
        "timing.heart_interval",
        "headcount_member",
        "node_jumped",
        "src/core/gossip.rs",
        "GET /v1/member",
        "Agent::sub",
    ] {
        assert!(!is_there(word), "{word}");
    }
}
