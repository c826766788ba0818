//! Pages of the documentation: the operations guide's tables of limits say what the code does, and what the page on
//! requirements names exists (its commands are tried with those of README).
//!
//! Must not know: anything else of these pages.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::agent::{
    KEPT_EVENTS, KEPT_LIST_BYTES, MAX_ALL_WAITING_BYTES, MAX_BLOCKING_THREADS, MAX_WAITING_BYTES, MAX_WAITING_MESSAGES,
};
use crate::config::{MAX_CONCURRENCY, MAX_HANDLERS, keys};
use crate::core::limits::{
    LINK_TIMEOUT, MAX_ADDRESSES_PER_SEED, MAX_DIRECT_BYTES, MAX_DIRECT_MESSAGES, MAX_DIRECT_UNDER_WAY, MAX_ELSEWHERE,
    MAX_FLOODED_PAYLOAD, MAX_FRAME_BYTES, MAX_GONE, MAX_JOINERS, MAX_KEPT_BYTES, MAX_KEPT_MESSAGES, MAX_KEPT_OWN_BYTES,
    MAX_LINKS, MAX_MEMBERS, MAX_OPEN_REQUESTS, MAX_OPEN_REQUESTS_PER_MEMBER, MAX_PARTITION_LOST, MAX_PARTITION_PAUSE,
    MAX_PAYLOAD_BYTES, MAX_QUESTIONS, MAX_REMEMBERED_ADDRESSES, MAX_REMOVALS, MAX_REQUEST_TIMEOUT, MAX_SEEDS,
    MAX_STRANGER_ANSWERS, MAX_TOMBSTONES, MAX_VIEWS_SERVED, MAX_VOTERS, PARTITION_PAUSE_PER_NAME,
};
use crate::core::{NodeId, Tags};
use crate::lease::MAX_LEASES;
use crate::transport::links;
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

/// Returns the cell beside the one that begins so, in the guide's tables of limits.
fn told(row: &str) -> &'static str {
    let limits = GUIDE.split("\n## Limits\n").nth(1).and_then(|rest| rest.split("\n## ").next()).expect("a section");
    let rest = limits.lines().find_map(|line| line.strip_prefix("| ")?.strip_prefix(row)).expect(row);
    rest.split('|').nth(1).expect("a cell").trim()
}

#[test]
fn the_limits_that_are_told_are_those_of_the_code() {
    let rows = [
        ("a name", format!("{} bytes", NodeId::MAX_BYTES)),
        ("tags of a node", format!("{} keys, {} bytes", Tags::MAX_KEYS, Tags::MAX_BYTES)),
        ("members in a view", count(MAX_MEMBERS)),
        ("members that are gone", count(MAX_GONE)),
        ("dead members", count(MAX_TOMBSTONES)),
        ("seeds", format!("{MAX_SEEDS}; {MAX_ADDRESSES_PER_SEED}")),
        ("addresses remembered", count(MAX_REMEMBERED_ADDRESSES)),
        ("joiners at one sponsor", count(MAX_JOINERS)),
        ("joiners that fetch", count(MAX_VIEWS_SERVED)),
        ("members removed", count(MAX_REMOVALS)),
        ("voters", count(MAX_VOTERS)),
        ("leases", count(MAX_LEASES)),
        ("questions to strangers", count(MAX_QUESTIONS)),
        ("other answers to strangers", count(MAX_STRANGER_ANSWERS)),
        ("packets to addresses", count(MAX_ELSEWHERE)),
        ("strangers whose sealed", count(seal::MAX_STRANGERS)),
        ("keys of a node", count(seal::MAX_KEYS)),
        ("a frame", format!("{} bytes", count(MAX_FRAME_BYTES))),
        ("links of a node", count(MAX_LINKS)),
        (
            "frames that wait to be sent",
            format!("{}; {}, {}", links::MAX_QUEUED_FRAMES, mib(links::MAX_LINK_BYTES), mib(links::MAX_SENT_BYTES)),
        ),
        ("frames that wait for the agent", format!("{}; {}", links::MAX_QUEUED_EVENTS, mib(links::MAX_RECEIVED_BYTES))),
        (
            "accepted connections",
            format!("{}; {}, {}", count(links::MAX_SILENT), seconds(links::GREETING_TIMEOUT), seconds(LINK_TIMEOUT)),
        ),
        ("a payload", format!("{} bytes", count(MAX_PAYLOAD_BYTES))),
        ("a broadcast that goes", format!("{MAX_FLOODED_PAYLOAD} bytes")),
        (
            "broadcasts kept",
            format!("{}; {}, {}", count(MAX_KEPT_MESSAGES), mib(MAX_KEPT_BYTES), mib(MAX_KEPT_OWN_BYTES)),
        ),
        (
            "messages to single nodes",
            format!("{}; {}; {MAX_DIRECT_UNDER_WAY}", count(MAX_DIRECT_MESSAGES), mib(MAX_DIRECT_BYTES)),
        ),
        ("requests that wait", format!("{}; {MAX_OPEN_REQUESTS_PER_MEMBER}", count(MAX_OPEN_REQUESTS))),
        ("the wait of a request", format!("{}; {}", seconds(MAX_REQUEST_TIMEOUT), seconds(http::MAX_ANSWER_WAIT))),
        (
            "messages that wait for one listener",
            format!("{}, {}; {}", count(MAX_WAITING_MESSAGES), mib(MAX_WAITING_BYTES), mib(MAX_ALL_WAITING_BYTES)),
        ),
        ("events kept", format!("{}; {}", count(KEPT_EVENTS), mib(KEPT_LIST_BYTES))),
        (
            "a growing partition",
            format!("{} ms; {}", PARTITION_PAUSE_PER_NAME.as_millis(), seconds(MAX_PARTITION_PAUSE)),
        ),
        ("gone members that the end", count(MAX_PARTITION_LOST)),
        ("handlers", format!("{MAX_HANDLERS}; {MAX_CONCURRENCY}")),
        ("threads that wait", count(MAX_BLOCKING_THREADS)),
        ("lines of the log", count(journal::MAX_QUEUED_LINES)),
        ("connections", count(http::DEFAULT_MAX_CONNECTIONS)),
        ("event streams", format!("{}, and 24 fewer than connections", count(http::DEFAULT_MAX_STREAMS))),
        ("messages to one node; replies", format!("{}; {}", http::MAX_MESSAGES, http::MAX_REPLIES)),
        ("messages on event streams", mib(http::MAX_UNREAD_MESSAGE_BYTES)),
        ("other commands, and reads", count(http::MAX_COMMANDS)),
        ("large answers", format!("{}; {}", http::MAX_LARGE_ANSWERS, mib(http::MAX_COUNTED_ANSWER_BYTES))),
        (
            "the head",
            format!(
                "{}, {} lines; {}; {}; {}",
                kib(http::MAX_BUFFER_BYTES),
                http::MAX_HEADERS,
                kib(http::MAX_READ_HEADERS_BYTES),
                kib(http::MAX_TARGET_BYTES),
                http::MAX_QUERY_ITEMS
            ),
        ),
        ("the body", format!("{}; {}", kib(http::MAX_BODY_BYTES), kib(http::MAX_DELIVERY_BYTES))),
        (
            "time for the head",
            format!(
                "{}; {} ({} more for `/v1/request`)",
                seconds(http::HEAD_TIMEOUT),
                seconds(http::REQUEST_TIMEOUT),
                seconds(http::MAX_ANSWER_WAIT)
            ),
        ),
        ("time without", seconds(http::SILENCE_TIMEOUT)),
    ];
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
fn what_the_page_on_requirements_names_exists_and_it_is_short() {
    assert!(REQUIREMENTS.len() <= 12_000, "{} bytes", REQUIREMENTS.len());
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
