//! A private PgBouncer in transaction mode before a PostgreSQL server, on a free port, ended with this process.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::{Child, Stdio};
use std::sync::OnceLock;
use std::time::Instant;

use crate::server::{self, as_user, free_port};
use crate::support::{PATIENCE, skip};

const PROGRAM: &str = "/usr/sbin/pgbouncer";

/// Returns the pooler's address: one for all tests, with few sessions for many clients.
pub fn before(server: &str) -> Option<String> {
    static POOLER: OnceLock<Option<u16>> = OnceLock::new();
    if !PathBuf::from(PROGRAM).exists() {
        skip("PgBouncer is not installed");
        return None;
    }
    let (before, rest) = server.rsplit_once(':').expect("a port");
    let (port, database) = rest.split_once('/').expect("a database");
    let started = POOLER.get_or_init(|| Some(start(port)));
    started.map(|port| format!("{before}:{port}/{database}"))
}

fn start(server: &str) -> u16 {
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
