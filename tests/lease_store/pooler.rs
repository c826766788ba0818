//! PgBouncer in transaction mode between the stores and the server: the suite, and sessions that change hands.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::{Child, Stdio};
use std::sync::OnceLock;
use std::time::Instant;

use headcount::lease::Outcome;

use crate::harness::{Bench, PATIENCE, acquire, holding, renew, skip};
use crate::postgres::bench;
use crate::server::{self, as_user, free_port};

const PROGRAM: &str = "/usr/sbin/pgbouncer";

/// The pooler's address: one for all tests, with few sessions for many clients.
fn pooler(server: &str) -> Option<String> {
    static POOLER: OnceLock<Option<u16>> = OnceLock::new();
    if !PathBuf::from(PROGRAM).exists() {
        skip("PgBouncer is not installed");
        return None;
    }
    let (before, rest) = server.rsplit_once(':').expect("a port");
    let (port, database) = rest.split_once('/').expect("a database");
    let started = POOLER.get_or_init(|| Some(start_pooler(port)));
    started.map(|port| format!("{before}:{port}/{database}"))
}

fn start_pooler(server: &str) -> u16 {
    let directory = tempfile::Builder::new().prefix("headcount-pooler-").tempdir().expect("a directory").keep();
    fs::set_permissions(&directory, fs::Permissions::from_mode(0o777)).expect("for the pooler's user");
    let port = free_port();
    let place = directory.display();
    let text = format!(
        "[databases]\n* = host=127.0.0.1 port={server}\n[pgbouncer]\nlisten_addr = 127.0.0.1\nlisten_port = {port}\n\
         unix_socket_dir =\nauth_type = any\npool_mode = transaction\ndefault_pool_size = 2\nmax_client_conn = 200\n\
         server_reset_query =\nlogfile = {place}/log\npidfile = {place}/pid\nauth_file = {place}/users\n\
         ignore_startup_parameters = extra_float_digits\n"
    );
    let text = text.replace("* = host", "postgres = user=postgres host");
    fs::write(directory.join("ini"), text).expect("written");
    fs::write(directory.join("users"), "\"postgres\" \"\"\n").expect("written");
    // As the server, it ends when this process does, by the end of its standard input.
    let script = format!("{PROGRAM} -q {place}/ini & pooler=$!; read -r line; kill -TERM $pooler; wait $pooler");
    let mut keeper = as_user("/bin/sh".as_ref());
    keeper.args(["-c", &script]).stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
    let keeper: Child = keeper.spawn().expect("a shell");
    server::remove_after(&keeper, &directory);
    std::mem::forget(keeper);
    let deadline = Instant::now() + PATIENCE;
    while std::net::TcpStream::connect(("127.0.0.1", port)).is_err() {
        let log = fs::read_to_string(directory.join("log")).unwrap_or_default();
        assert!(Instant::now() < deadline, "the pooler does not start:\n{log}");
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
    port
}

async fn start(_case: &str) -> Option<Bench> {
    let server = server::shared()?;
    let pooler = pooler(&server)?;
    Some(bench(&pooler, &server).await)
}

crate::suite! { start }

#[tokio::test]
async fn sessions_change_hands_after_each_transaction_and_nothing_is_carried_over() {
    let Some(bench) = start("").await else { return };
    // More nodes than sessions.
    let mut nodes: Vec<_> = (0..6).map(|number| bench.node(&format!("n{number}"))).collect();
    for node in &mut nodes {
        node.watch().await;
    }
    nodes[0].one(acquire(1)).await;
    for drawn in 2..20 {
        assert_eq!(nodes[0].one(renew(&[drawn - 1], drawn)).await.outcome, Outcome::Renewed);
        for node in &mut nodes[1..] {
            assert_eq!(holding(&node.one(acquire(1_000)).await), (Outcome::Held, 1, Some(("n0", drawn, 1))));
        }
    }
}
