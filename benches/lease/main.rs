//! Leases in a database, their cost and how soon somebody leads again: statements, bytes and time of a renewal; one
//! lease beside ten; 3, 30 and 300 contenders; real agents whose leader is killed, and told to leave.
//!
//! `cargo bench --bench lease` prints everything; `-- renewal`, `-- load` and `-- succession` one of the tables;
//! `--quick` is a smoke test. Statements and bytes are counted on the wire and are the same on every machine, times are
//! not. Measurements that need PostgreSQL are skipped, with the reason, where its programs are missing.
#![allow(unreachable_pub, dead_code, reason = "modules that are shared with tests, of which each uses its own part")]

#[path = "../../tests/leases/agents/cluster.rs"]
mod cluster;
mod contending;
mod load;
mod renewal;
#[path = "../../tests/leases/server.rs"]
mod server;
mod succession;
#[path = "../../tests/support/mod.rs"]
mod support;
mod tap;

fn main() {
    let asked: Vec<String> = std::env::args().skip(1).filter(|argument| !argument.starts_with("--bench")).collect();
    let is_quick = asked.iter().any(|argument| argument == "--quick");
    let is_asked =
        |name: &str| asked.iter().all(|argument| argument.starts_with("--")) || asked.iter().any(|a| a == name);
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().expect("a runtime");
    if is_asked("renewal") {
        runtime.block_on(renewal::print(if is_quick { 20 } else { 500 }));
    }
    if is_asked("load") {
        runtime.block_on(load::print(is_quick));
    }
    if is_asked("succession") {
        succession::print(if is_quick { 2 } else { 30 });
    }
}

/// Returns the p50, p99 and greatest of these times, in milliseconds.
fn spread(mut times: Vec<std::time::Duration>) -> String {
    times.sort_unstable();
    let at = |share: usize| times.get((times.len() * share).div_ceil(100).saturating_sub(1)).copied();
    let ms = |time: Option<std::time::Duration>| time.map_or(f64::NAN, |time| time.as_secs_f64() * 1_000.0);
    format!("{:.1} / {:.1} / {:.1}", ms(at(50)), ms(at(99)), ms(at(100)))
}
