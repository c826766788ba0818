//! The load of contenders on a server while nothing happens: one lease beside ten; 3, 30 and 300 contenders.
//!
//! Contenders in one process, each with a store and a connection of its own, no whole agents: to the server it is the
//! same.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use headcount::lease::ContenderTiming;

use crate::contending::{Done, contend, leases, store};
use crate::server::Server;
use crate::spread;
use crate::tap::Tap;

pub async fn print(is_quick: bool) {
    let Some(server) = Server::start(&["fsync = on", "max_connections = 400"]) else { return };
    let timing = ContenderTiming::of_lease(Duration::from_secs(15));
    let lasting = Duration::from_secs(if is_quick { 10 } else { 60 });
    println!("A server and contenders with leases of 15 s, renewed every 5 s; {lasting:?} in which nothing happens\n");
    println!(
        "| contenders | leases | rounds/s | statements/s | bytes/s to the server | from it | server's processor | log, bytes/s | \
         renewal, ms, p50 / p99 / max | failures |"
    );
    println!("|---|---|---|---|---|---|---|---|---|---|");
    let cases: &[(usize, usize)] = if is_quick { &[(3, 1)] } else { &[(3, 1), (3, 10), (30, 1), (300, 1)] };
    for (contenders, count) in cases {
        case(&server, *contenders, *count, timing, lasting).await;
    }
    println!();
}

async fn case(server: &Server, contenders: usize, count: usize, timing: ContenderTiming, lasting: Duration) {
    let tap = Tap::on(server.port).await;
    let url = format!("postgres://postgres@127.0.0.1:{}/postgres", tap.port);
    let cluster = format!("load-{contenders}-{count}");
    let done = Arc::<Mutex<Done>>::default();
    let mut tasks = tokio::task::JoinSet::new();
    for at in 0..contenders {
        let store = store(&url, &cluster);
        tasks.spawn(contend(format!("n{at}"), at as u64, store, timing, leases(count), Arc::clone(&done)));
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    let own = tokio_postgres::connect(&server.url(), tokio_postgres::NoTls).await;
    let (client, connection) = own.expect("the server answers");
    tokio::spawn(connection);
    let log = async || {
        let row = client.query_one("select (pg_current_wal_lsn() - '0/0'::pg_lsn)::float8", &[]).await;
        row.expect("a row").get::<_, f64>(0)
    };
    // Two renewals, and all connections are there.
    tokio::time::sleep(timing.renewal_interval * 2).await;
    *done.lock().expect("not poisoned") = Done::default();
    let (before, ticks, logged) = (tap.passed(), processor(server), log().await);
    tokio::time::sleep(lasting).await;
    let (passed, ticks, logged) = (tap.passed().since(before), processor(server) - ticks, log().await - logged);
    let done = std::mem::take(&mut *done.lock().expect("not poisoned"));
    let per = |figure: f64| figure / lasting.as_secs_f64();
    println!(
        "| {contenders} | {count} | {:.2} | {:.1} | {:.0} | {:.0} | {:.2} % of a core | {:.0} | {} | {} |",
        per(done.rounds as f64),
        per(passed.statements as f64),
        per(passed.sent as f64),
        per(passed.received as f64),
        per(ticks * 100.0),
        per(logged),
        spread(done.renewals),
        done.failures
    );
    tasks.shutdown().await;
}

/// Returns the seconds that the server's processes have run.
fn processor(server: &Server) -> f64 {
    let text = std::fs::read_to_string(server.directory().join("data/postmaster.pid")).unwrap_or_default();
    let Some(postmaster) = text.lines().next() else { return 0.0 };
    let children = format!("/proc/{postmaster}/task/{postmaster}/children");
    let children = std::fs::read_to_string(children).unwrap_or_default();
    let seconds = |process: &str| {
        let stat = std::fs::read_to_string(format!("/proc/{process}/stat")).unwrap_or_default();
        let fields: Vec<&str> = stat.rsplit(") ").next().unwrap_or_default().split(' ').collect();
        let ticks = |at: usize| fields.get(at).and_then(|field| field.parse::<f64>().ok()).unwrap_or(0.0);
        // A tick is a hundredth of a second on every Linux that matters.
        (ticks(11) + ticks(12)) / 100.0
    };
    children.split_whitespace().chain([postmaster]).map(seconds).sum()
}
