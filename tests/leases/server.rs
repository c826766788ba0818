//! A private PostgreSQL server: made in a temporary directory, on a free port, ended with whoever started it.
//!
//! The server refuses to run as root, so under root it runs as `postgres`. A shell waits for the end of its standard
//! input, which comes with the end of this process however it ends, then stops the server and removes the directory.

use std::fs;
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::support::{PATIENCE, skip};

/// The directories in which Debian keeps the programs, newest first, and the usual one.
const PLACES: [&str; 6] = [
    "/usr/lib/postgresql/18/bin",
    "/usr/lib/postgresql/17/bin",
    "/usr/lib/postgresql/16/bin",
    "/usr/lib/postgresql/15/bin",
    "/usr/lib/postgresql/14/bin",
    "/usr/bin",
];

/// A server that may be stopped, started and suspended.
pub struct Server {
    directory: PathBuf,
    pub port: u16,
    programs: PathBuf,
    keeper: Option<Child>,
}

impl Server {
    /// Makes and starts one with these lines of configuration; `None` and a reason printed where that is not possible.
    pub fn start(settings: &[&str]) -> Option<Self> {
        Self::start_with_access(settings, None)
    }

    /// Does as [`Self::start`], with these lines of who may come in, and how.
    pub fn start_with_access(settings: &[&str], access: Option<&str>) -> Option<Self> {
        let programs = programs()?;
        let directory = tempfile::Builder::new().prefix("headcount-pg-").tempdir().expect("a directory").keep();
        fs::set_permissions(&directory, fs::Permissions::from_mode(0o777)).expect("for the server's user");
        let data = directory.join("data");
        let mut initdb = as_user(&programs.join("initdb"));
        initdb.args(["--auth=trust", "--no-sync", "--encoding=UTF8", "--locale=C", "--username=postgres", "-D"]);
        let output = initdb.arg(&data).output().expect("initdb runs");
        assert!(output.status.success(), "initdb: {}", String::from_utf8_lossy(&output.stderr));
        let port = free_port();
        let mut text = format!(
            "listen_addresses = '127.0.0.1'\nport = {port}\nunix_socket_directories = '{}'\n\
             fsync = off\nmax_connections = 200\nautovacuum = off\n",
            directory.display()
        );
        for setting in settings {
            text.push_str(setting);
            text.push('\n');
        }
        let path = data.join("postgresql.auto.conf");
        fs::write(path, text).expect("written");
        if let Some(access) = access {
            fs::write(data.join("pg_hba.conf"), access).expect("written");
        }
        let mut server = Self { directory, port, programs, keeper: None };
        server.run();
        Some(server)
    }

    /// Starts the server, and waits until it answers.
    pub fn run(&mut self) {
        let script = format!(
            "{} -D {}/data >>{}/log 2>&1 & server=$!; read -r line; kill -INT $server 2>/dev/null; \
             kill -CONT $server 2>/dev/null; wait $server",
            self.programs.join("postgres").display(),
            self.directory.display(),
            self.directory.display(),
        );
        let mut keeper = as_user(Path::new("/bin/sh"));
        keeper.args(["-c", &script]).stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
        self.keeper = Some(keeper.spawn().expect("a shell"));
        let deadline = Instant::now() + PATIENCE;
        let is_ready = || {
            let mut ask = Command::new(self.programs.join("pg_isready"));
            let asked = ask.args(["-q", "-h", "127.0.0.1", "-p", &self.port.to_string()]).status();
            asked.is_ok_and(|status| status.success())
        };
        while !is_ready() {
            let log = fs::read_to_string(self.directory.join("log")).unwrap_or_default();
            assert!(Instant::now() < deadline, "the server does not start:\n{log}");
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// Starts a copy that follows this server and takes no writes.
    pub fn standby(&self) -> Self {
        let directory = tempfile::Builder::new().prefix("headcount-pg-").tempdir().expect("a directory").keep();
        fs::set_permissions(&directory, fs::Permissions::from_mode(0o777)).expect("for the server's user");
        let mut copy = as_user(&self.programs.join("pg_basebackup"));
        copy.args(["-h", "127.0.0.1", "-p", &self.port.to_string(), "-U", "postgres"]);
        copy.args(["--write-recovery-conf", "--no-sync", "--checkpoint=fast", "-D"]).arg(directory.join("data"));
        let output = copy.output().expect("pg_basebackup runs");
        assert!(output.status.success(), "pg_basebackup: {}", String::from_utf8_lossy(&output.stderr));
        let port = free_port();
        let path = directory.join("data/postgresql.auto.conf");
        let mut text = fs::read_to_string(&path).expect("readable");
        let _ = std::fmt::Write::write_fmt(
            &mut text,
            format_args!("port = {port}\nunix_socket_directories = '{}'\n", directory.display()),
        );
        fs::write(path, text).expect("written");
        let mut standby = Self { directory, port, programs: self.programs.clone(), keeper: None };
        standby.run();
        standby
    }

    /// Makes a standby a server that takes writes.
    pub fn promote(&self) {
        let mut promote = as_user(&self.programs.join("pg_ctl"));
        let output = promote.args(["promote", "-D"]).arg(self.directory.join("data")).output().expect("pg_ctl runs");
        assert!(output.status.success(), "pg_ctl: {}", String::from_utf8_lossy(&output.stderr));
    }

    /// Ends the server as an administrator does in a hurry: sessions are cut.
    pub fn stop(&mut self) {
        if let Some(mut keeper) = self.keeper.take() {
            drop(keeper.stdin.take());
            let _ = keeper.wait();
        }
    }

    /// Sends all of the server's processes a signal.
    pub fn signal(&self, signal: Signal) {
        let text = fs::read_to_string(self.directory.join("data/postmaster.pid")).unwrap_or_default();
        let Some(postmaster) = text.lines().next().and_then(|line| line.parse::<i32>().ok()) else { return };
        let children = format!("/proc/{postmaster}/task/{postmaster}/children");
        let children = fs::read_to_string(children).unwrap_or_default();
        let all = children.split_whitespace().filter_map(|text| text.parse().ok()).chain([postmaster]);
        for process in all {
            let _ = kill(Pid::from_raw(process), signal);
        }
    }

    pub fn url(&self) -> String {
        format!("postgres://postgres@127.0.0.1:{}/postgres", self.port)
    }

    pub fn directory(&self) -> &Path {
        &self.directory
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        if self.keeper.is_some() {
            self.signal(Signal::SIGCONT);
        }
        self.stop();
        let _ = fs::remove_dir_all(&self.directory);
    }
}

/// Returns the address of the server that most cases share: each has a schema of its own. It is ended with this
/// process.
pub fn shared() -> Option<String> {
    static SHARED: OnceLock<Option<String>> = OnceLock::new();
    if let Ok(url) = std::env::var("HEADCOUNT_TEST_POSTGRES") {
        return Some(url);
    }
    let start = || {
        let mut server = Server::start(&[])?;
        let url = server.url();
        // The keeper's standard input ends with this process.
        let keeper = server.keeper.take().expect("it runs");
        let directory = server.directory.clone();
        std::mem::forget(server);
        remove_after(&keeper, &directory);
        std::mem::forget(keeper);
        Some(url)
    };
    SHARED.get_or_init(start).clone()
}

/// Removes a directory once this process and that one have ended.
pub fn remove_after(keeper: &Child, directory: &Path) {
    let (keeper, directory) = (keeper.id(), directory.display());
    let script = format!("read -r line; while kill -0 {keeper} 2>/dev/null; do sleep 0.1; done; rm -rf '{directory}'");
    let mut cleaner = Command::new("/bin/sh");
    cleaner.args(["-c", &script]).stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
    std::mem::forget(cleaner.spawn().expect("a shell"));
}

/// Returns the directory of PostgreSQL's programs; skips the test if there is none.
pub fn programs() -> Option<PathBuf> {
    let found = PLACES.iter().map(PathBuf::from).find(|place| place.join("initdb").exists());
    if found.is_none() {
        skip("PostgreSQL's programs are not installed");
    }
    found
}

/// Returns a command that runs a program as somebody who is not root.
pub fn as_user(program: &Path) -> Command {
    if !nix::unistd::getuid().is_root() {
        return Command::new(program);
    }
    let mut command = Command::new("setpriv");
    command.args(["--reuid=postgres", "--regid=postgres", "--init-groups", "--"]).arg(program);
    command.current_dir("/");
    command
}

/// Returns a port that is free, and below those that systems by default give to whoever asks for any: nobody takes it
/// before its server begins, or while that is away.
pub fn free_port() -> u16 {
    static ASKED: AtomicU32 = AtomicU32::new(0);
    let candidates = std::iter::repeat_with(|| {
        let nth = std::process::id().wrapping_mul(31).wrapping_add(ASKED.fetch_add(1, Ordering::Relaxed));
        20_000 + (nth % 12_000) as u16
    });
    let is_free = |port: &u16| TcpListener::bind(("127.0.0.1", *port)).is_ok();
    candidates.take(1_000).find(is_free).expect("one of a thousand ports is free")
}
