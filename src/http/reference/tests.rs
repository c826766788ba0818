//! The table fits the router, and the page fits the table.

use std::collections::BTreeSet;

use super::{Access, CALLS, list, page};

/// Returns the methods and paths of the router, from its source.
fn routes() -> BTreeSet<(String, String)> {
    let source = include_str!("../mod.rs");
    let mut routes = BTreeSet::new();
    for line in source.lines().filter_map(|line| line.trim().strip_prefix(".route(")) {
        let (path, handlers) = line.split_once(", ").expect("a path and its handlers");
        let path = match path {
            "dashboard::PATH" => super::dashboard::PATH,
            "reference::PATH" => super::PATH,
            path => path.trim_matches('"'),
        };
        for method in ["get", "post", "put", "delete"] {
            if handlers.starts_with(&format!("{method}(")) || handlers.contains(&format!(".{method}(")) {
                routes.insert((method.to_ascii_uppercase(), path.to_owned()));
            }
        }
    }
    routes
}

#[test]
fn every_route_is_in_the_table_and_nothing_else() {
    let told: BTreeSet<_> = CALLS.iter().map(|call| (call.method.to_owned(), call.path.to_owned())).collect();
    assert_eq!(told.len(), CALLS.len(), "each call once");
    let routes = routes();
    assert!(routes.len() > 30, "this test reads the wrong file");
    assert_eq!(told.symmetric_difference(&routes).collect::<Vec<_>>(), Vec::<&(String, String)>::new());
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
    for (method, path, access) in [
        ("GET", "/healthz", Access::Open),
        ("GET", "/openapi.json", Access::Open),
        ("GET", "/dashboard/app.js", Access::Open),
        ("GET", "/metrics", Access::Read),
        ("HEAD", "/v1/members", Access::Read),
        ("GET", "/nothing", Access::Read),
        ("POST", "/v1/leave", Access::Write),
        ("PATCH", "/v1/members", Access::Write),
    ] {
        assert_eq!(Access::needed(method, path), access, "{method} {path}");
    }
}

#[test]
fn the_page_is_the_table() {
    let page = page::text();
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/src/http_reference.md");
    if std::env::var_os("HEADCOUNT_WRITE_REFERENCE").is_some() {
        std::fs::write(path, &page).expect("written");
    }
    let written = std::fs::read_to_string(path).unwrap_or_default();
    assert!(
        page == written,
        "src/http_reference.md is old: HEADCOUNT_WRITE_REFERENCE=1 cargo test --lib the_page_is_the_table"
    );
}
