//! The table fits the router, and the page fits the table.

use std::collections::BTreeSet;
use std::path::Path;

use super::{Access, CALLS, list, openapi, page};
use crate::http::table::Kind;

#[test]
fn each_call_is_there_once() {
    let told: BTreeSet<_> = CALLS.iter().map(|call| (call.method, call.path)).collect();
    assert_eq!(told.len(), CALLS.len());
}

#[test]
fn all_lines_of_the_list_are_aligned() {
    let list = list();
    let rows: Vec<&str> = list.lines().skip(2).collect();
    assert_eq!(rows.len(), CALLS.len());
    let begin = rows[0].find(CALLS[0].brief).expect("a description");
    for (row, call) in rows.iter().zip(CALLS) {
        assert_eq!((row.find(call.path), row.rfind(call.brief)), (Some("DELETE ".len()), Some(begin)), "{list}");
        assert!(row.starts_with(call.method) && row[..begin].ends_with("    "), "{list}");
    }
}

#[test]
fn reading_and_writing_are_told_apart_by_the_method() {
    let open = CALLS.iter().filter(|call| call.access == Access::Open).map(|call| call.path);
    let dashboard = ["/openapi.json", "/", "/dashboard", "/dashboard/", "/dashboard/{part}"];
    assert_eq!(open.collect::<Vec<_>>(), [&["/healthz", "/readyz", "/leaderz"][..], &dashboard[..]].concat());
    for call in CALLS.iter().filter(|call| call.access != Access::Open) {
        assert_eq!(call.access == Access::Read, call.method == "GET", "{} {}", call.method, call.path);
    }
    for (method, access) in [("HEAD", Access::Read), ("GET", Access::Read), ("PATCH", Access::Write)] {
        assert_eq!(Access::needed(&method.parse().expect("a method"), None), access, "{method}");
    }
}

#[test]
fn messages_that_wait_are_counted_apart_from_commands_and_renewals_of_led_work_are_not() {
    let kind = |path: &str| CALLS.iter().find(|call| call.path == path && call.method == "POST").expect(path).lasts;
    assert_eq!(kind("/v1/request/{node}/{topic}"), Some(Kind::Message));
    assert_eq!(kind("/v1/reply/{id}"), Some(Kind::Reply));
    assert_eq!((kind("/v1/leader/work/{id}"), kind("/v1/leave")), (None, None));
    let counted = CALLS.iter().filter(|call| call.access == Access::Write && call.lasts.is_none());
    assert_eq!(counted.count(), 3, "they take no time, or must always be possible");
}

/// Fails if a file of the reference is not as it would be written now; writes it if that is asked for.
fn is_written(file: &str, text: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(file);
    if std::env::var_os("HEADCOUNT_WRITE_REFERENCE").is_some() {
        std::fs::write(&path, text).expect("written");
    }
    let written = std::fs::read_to_string(path).unwrap_or_default();
    assert!(text == written, "{file} is old: HEADCOUNT_WRITE_REFERENCE=1 cargo test --lib is_the_table");
}

#[test]
fn the_page_is_the_table() {
    is_written("src/http_reference.md", &page::text());
}

#[test]
fn the_description_is_the_table() {
    is_written("src/http/reference/openapi.json", &openapi::text());
}
