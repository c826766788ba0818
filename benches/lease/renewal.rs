//! One renewal: statements, bytes and milliseconds, of one lease and of ten.

use std::path::Path;
use std::time::{Duration, Instant};

use headcount::NodeId;
use headcount::lease::store::Store;
use headcount::lease::{Outcome, Round, Step, StepRequest, Token};

use crate::contending::{leases, store};
use crate::server::Server;
use crate::spread;
use crate::tap::Tap;

pub async fn print(renewals: u32) {
    println!("One renewal, with the liveness row ({renewals} in a row, one after the other)\n");
    println!("| database | leases | statements | round trips | bytes sent | received | ms, p50 / p99 / max |");
    println!("|---|---|---|---|---|---|---|");
    if let Some(server) = Server::start(&["fsync = on"]) {
        for count in [1, 10] {
            let tap = Tap::on(server.port).await;
            let url = format!("postgres://postgres@127.0.0.1:{}/postgres", tap.port);
            let mut store = store(&url, &format!("renewal-{count}"));
            let mut round = begin(&mut store, count).await;
            let before = tap.passed();
            let times = renew(&mut store, &mut round, renewals).await;
            let passed = tap.passed().since(before);
            let per = |figure: u64| figure as f64 / f64::from(renewals);
            println!(
                "| PostgreSQL, loopback, fsync | {count} | {:.1} | {:.1} | {:.0} | {:.0} | {} |",
                per(passed.statements),
                per(passed.round_trips),
                per(passed.sent),
                per(passed.received),
                spread(times)
            );
        }
    }
    for count in [1, 10] {
        let directory = tempfile::tempdir().expect("a directory");
        let file = directory.path().join("leases.db");
        let mut store = store(&format!("sqlite://{}", file.display()), "renewal");
        let mut round = begin(&mut store, count).await;
        let before = written();
        let times = renew(&mut store, &mut round, renewals).await;
        let bytes = (written() - before) as f64 / f64::from(renewals);
        println!(
            "| SQLite, a file ({}) | {count} | {} | – | {bytes:.0} written | – | {} |",
            system(&file),
            // As its source says: begin, the liveness row and commit, and three for each lease. In one process, one
            // fsync.
            3 + 3 * count,
            spread(times)
        );
    }
    println!();
}

async fn begin(store: &mut Store, count: usize) -> Round {
    let acquire = |number: usize| StepRequest::Acquire {
        drawn: Token(number as u128 + 1),
        above: 0,
        expired: None,
        missing: None,
    };
    let steps = leases(count).into_iter().enumerate().map(|(at, lease)| Step { lease, request: acquire(at) });
    let mut round = Round {
        node: NodeId::new("renews").expect("a name"),
        rpc_address: Some(([10, 0, 0, 1], 7118).into()),
        lease_duration: Duration::from_secs(60),
        steps: steps.collect(),
    };
    let answer = store.round(&round).await.expect("an answer");
    assert!(answer.steps.iter().all(|seen| seen.outcome == Outcome::Acquired), "{answer:?}");
    for (step, seen) in round.steps.iter_mut().zip(&answer.steps) {
        let token = seen.holder.as_ref().expect("held").token;
        step.request = StepRequest::Renew { held: vec![token], drawn: Token(token.0 + 1_000) };
    }
    round
}

async fn renew(store: &mut Store, round: &mut Round, renewals: u32) -> Vec<Duration> {
    let mut times = Vec::new();
    for _ in 0..renewals {
        let began = Instant::now();
        let answer = store.round(round).await.expect("an answer");
        times.push(began.elapsed());
        assert!(answer.steps.iter().all(|seen| seen.outcome == Outcome::Renewed), "{answer:?}");
        for step in &mut round.steps {
            if let StepRequest::Renew { held, drawn } = &mut step.request {
                *held = vec![*drawn];
                *drawn = Token(drawn.0 + 1_000);
            }
        }
    }
    times
}

/// Returns the bytes that this process has handed to the kernel.
fn written() -> u64 {
    let text = std::fs::read_to_string("/proc/self/io").unwrap_or_default();
    let line = text.lines().find_map(|line| line.strip_prefix("wchar: "));
    line.and_then(|figure| figure.parse().ok()).unwrap_or(0)
}

/// Returns the kind of file system.
fn system(file: &Path) -> String {
    let output = std::process::Command::new("stat").args(["-f", "-c", "%T"]).arg(file).output();
    output.map_or_else(|_| "?".to_owned(), |output| String::from_utf8_lossy(&output.stdout).trim().to_owned())
}
