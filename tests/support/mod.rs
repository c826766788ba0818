//! Helpers for tests with real processes: agents on loopback or in network namespaces, and patience with a deadline.
//!
//! Every wait here is for a condition and has a generous deadline; no test asserts how fast the machine is.
#![allow(dead_code, unreachable_pub, reason = "each test program uses its own part")]

pub mod netns;
pub mod page;
pub mod terminal;

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;

/// The program under test.
pub const HEADCOUNT: &str = env!("CARGO_BIN_EXE_headcount");

/// The longest time that a condition may take on a busy machine.
pub const PATIENCE: Duration = Duration::from_secs(30);
/// The time for which an answer is read that is there at once. A command may wait for a leader.
const ANSWER_PATIENCE: Duration = Duration::from_secs(5);
/// The time for which the log of a process is read on after its end.
const LAST_WORDS: Duration = Duration::from_secs(5);

/// Has the command line make a key, in this file.
pub fn generate_key(path: &Path) {
    let made = Command::new(HEADCOUNT).args(["keys", "generate"]).arg(path).output().expect("it runs");
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
}

/// Waits until `condition` holds; fails with `what` when patience ends.
pub fn wait_for<T>(what: &str, mut condition: impl FnMut() -> Option<T>) -> T {
    let deadline = Instant::now() + PATIENCE;
    loop {
        if let Some(value) = condition() {
            return value;
        }
        assert!(Instant::now() < deadline, "not within {PATIENCE:?}: {what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Returns a loopback address with port 0 that nobody else is given, and from which nobody calls: a port of it is free
/// again when whoever had it has ended. At 127.0.0.1 another test's agent, or a call, may have taken it. Where a machine
/// has no other address than that, it is that one.
pub fn own_address() -> String {
    static GIVEN: AtomicU32 = AtomicU32::new(0);
    let given = GIVEN.fetch_add(1, Ordering::Relaxed);
    assert!(given < 1024, "more addresses than there are");
    // A place of this process's own in 127.1.0.0 to 127.128.255.255.
    let [.., high, middle, low] = (0x1_0000 + (std::process::id() << 10 & 0x7f_ffff | given)).to_be_bytes();
    let address = format!("127.{high}.{middle}.{low}:0");
    if std::net::UdpSocket::bind(&address).is_ok() { address } else { "127.0.0.1:0".to_owned() }
}

/// Says why a test cannot run here, and skips it; under `CI` that is a failure.
pub fn skip(reason: &str) {
    assert!(std::env::var_os("CI").is_none(), "may not be skipped in CI: {reason}");
    eprintln!("skipped: {reason}");
}

/// A running `headcount agent`, killed when dropped.
pub struct Agent {
    child: Child,
    pub name: String,
    pub gossip: String,
    pub http: String,
    log: Log,
    prefix: Vec<String>,
    /// The file with its token, if it asks for one.
    token: Option<PathBuf>,
}

impl Agent {
    /// Starts an agent with these arguments, after the words of `prefix` (`ip netns exec …`).
    pub fn start_with(prefix: &[String], arguments: &[&str]) -> Self {
        Self::spawn(prefix, Stdio::piped(), None, arguments)
    }

    /// Starts an agent with these arguments after the words of `prefix`; it asks for the token in this file, if there is one.
    pub fn start_with_asking(prefix: &[String], token: Option<&Path>, arguments: &[&str]) -> Self {
        Self::spawn(prefix, Stdio::piped(), token, arguments)
    }

    /// Starts an agent with these arguments, whose log goes there.
    pub fn start_logging_to(stderr: Stdio, arguments: &[&str]) -> Self {
        Self::spawn(&[], stderr, None, arguments)
    }

    fn spawn(prefix: &[String], stderr: Stdio, token: Option<&Path>, arguments: &[&str]) -> Self {
        let mut command = command(prefix);
        if let Some(token) = token {
            command.env("HEADCOUNT_HTTP__TOKEN_FILE", token);
        }
        command.arg("agent").args(["--format", "json"]).args(arguments);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(stderr);
        let mut child = command.spawn().expect("the agent starts");
        let log = child.stderr.take().map_or_else(Log::default, Log::read);
        let mut line = String::new();
        let mut stdout = BufReader::new(child.stdout.take().expect("piped"));
        stdout.read_line(&mut line).expect("readable");
        let ready: Value = serde_json::from_str(&line).unwrap_or_else(|error| {
            let status = child.wait();
            panic!("no ready line ({error}): {line:?}, {status:?}, log:\n{}", log.text())
        });
        let text = |key: &str| ready[key].as_str().expect("a text").to_owned();
        // Off, if it says nothing.
        let http = ready["http"].as_str().unwrap_or("-").to_owned();
        Self {
            child,
            name: text("node"),
            gossip: text("gossip"),
            http,
            log,
            prefix: prefix.to_vec(),
            token: token.map(Path::to_owned),
        }
    }

    /// Starts an agent on loopback ports that are free, in the local profile.
    pub fn start(name: &str, seeds: &[&str], more: &[&str]) -> Self {
        Self::start_asking(name, seeds, None, more)
    }

    /// Starts such an agent that asks for the token in this file.
    pub fn start_asking(name: &str, seeds: &[&str], token: Option<&Path>, more: &[&str]) -> Self {
        let mut arguments = vec!["--name", name];
        for (flag, usual) in [("--profile", "local"), ("--bind", "127.0.0.1:0"), ("--http", "127.0.0.1:0")] {
            if !more.contains(&flag) {
                arguments.extend([flag, usual]);
            }
        }
        for seed in seeds {
            arguments.extend(["--seed", seed]);
        }
        arguments.extend(more);
        Self::spawn(&[], Stdio::piped(), token, &arguments)
    }

    /// Runs a client command against this agent; its standard output.
    pub fn client(&self, arguments: &[&str]) -> (ExitStatus, String) {
        let output = self.asking().args(arguments).args(["--http", &self.http]).output().expect("the client runs");
        (output.status, String::from_utf8_lossy(&output.stdout).into_owned())
    }

    /// Returns a command of a client that has this agent's token.
    fn asking(&self) -> Command {
        let mut command = command(&self.prefix);
        if let Some(token) = &self.token {
            command.env("HEADCOUNT_TOKEN_FILE", token);
        }
        command
    }

    /// Runs a command that asks no agent.
    pub fn client_alone(&self, arguments: &[&str]) -> (ExitStatus, String) {
        let output = command(&self.prefix).args(arguments).output().expect("the command runs");
        (output.status, String::from_utf8_lossy(&output.stdout).into_owned())
    }

    /// Returns the members as this agent lists them, as `(name, status)`.
    pub fn members(&self) -> Vec<(String, String)> {
        let members = if self.prefix.is_empty() {
            // Without a process for each question: this is asked again and again.
            let answer = self.get("/v1/members");
            let body = answer.split_once("\r\n\r\n").filter(|_| answer.starts_with("HTTP/1.1 200 "));
            body.map_or_else(|| panic!("no members: {answer}\n{}", self.log()), |(_, body)| body.to_owned())
        } else {
            let (status, text) = self.client(&["members", "--format", "json"]);
            assert!(status.success(), "members failed: {text}\n{}", self.log());
            text
        };
        let members: Value = serde_json::from_str(&members).expect("json");
        let list = members.as_array().expect("a list");
        let text = |member: &Value, key: &str| member[key].as_str().expect("a text").to_owned();
        list.iter().map(|member| (text(member, "id"), text(member, "status"))).collect()
    }

    /// Waits until this agent lists exactly these names as up.
    pub fn wait_for_up(&self, names: &[&str]) {
        let wanted: Vec<_> = names.iter().map(|name| ((*name).to_owned(), "up".to_owned())).collect();
        let mut seen = Vec::new();
        let deadline = Instant::now() + PATIENCE;
        while seen != wanted {
            assert!(Instant::now() < deadline, "{} lists {seen:?}, not {names:?} up\n{}", self.name, self.log());
            seen = self.members().into_iter().filter(|(_, status)| status != "down").collect();
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// Watches this agent's events: all from now on.
    pub fn watch(&self) -> Watch {
        let mut command = self.asking();
        // The stream begins with the members, which shows that it is open.
        command.args(["watch", "--snapshot", "--format", "json", "--http", &self.http]);
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().expect("watch runs");
        let stdout = child.stdout.take().expect("piped");
        let lines = Arc::new(Mutex::new(Vec::new()));
        let sink = Arc::clone(&lines);
        let (opened, open) = std::sync::mpsc::channel();
        std::thread::spawn(move || {
            for line in BufReader::new(stdout).lines().map_while(Result::ok) {
                let event: Value = serde_json::from_str(&line).expect("one object a line");
                if event["event"] == "snapshot" {
                    // One after a gap has nobody who waits for it.
                    let _ = opened.send(());
                } else {
                    sink.lock().expect("not poisoned").push(event);
                }
            }
        });
        let watch = Watch { child, lines };
        open.recv_timeout(PATIENCE).expect("the stream opens");
        watch
    }

    /// Sends one raw HTTP request over a fresh connection, and nothing after it; returns whatever comes back.
    pub fn raw_http(&self, request: &[u8]) -> String {
        self.exchange(request, true, ANSWER_PATIENCE)
    }

    /// Returns the whole answer to a `GET` that waits for nothing; what came of it in [`ANSWER_PATIENCE`].
    pub fn get(&self, path: &str) -> String {
        self.get_within(path, ANSWER_PATIENCE)
    }

    /// Returns the whole answer to a `GET` that may wait for others or a database.
    pub fn get_patiently(&self, path: &str) -> String {
        self.get_within(path, PATIENCE)
    }

    fn get_within(&self, path: &str, patience: Duration) -> String {
        let (host, token) = (&self.http, self.authorization());
        let request = format!("GET {path} HTTP/1.1\r\nhost: {host}\r\n{token}connection: close\r\n\r\n");
        self.exchange(request.as_bytes(), false, patience)
    }

    /// Returns the whole answer to a `DELETE`.
    pub fn delete(&self, path: &str) -> String {
        let (host, token) = (&self.http, self.authorization());
        let request = format!("DELETE {path} HTTP/1.1\r\nhost: {host}\r\n{token}connection: close\r\n\r\n");
        self.exchange(request.as_bytes(), false, PATIENCE)
    }

    /// Returns the whole answer to a `POST` of JSON.
    pub fn post(&self, path: &str, body: &Value) -> String {
        let body = body.to_string();
        let (host, token) = (&self.http, self.authorization());
        let head = format!("host: {host}\r\n{token}connection: close\r\ncontent-type: application/json");
        let request = format!("POST {path} HTTP/1.1\r\n{head}\r\ncontent-length: {}\r\n\r\n{body}", body.len());
        self.exchange(request.as_bytes(), false, PATIENCE)
    }

    fn authorization(&self) -> String {
        let token = self.token.as_deref().map(|path| std::fs::read_to_string(path).expect("a token"));
        token.map(|token| format!("authorization: Bearer {}\r\n", token.trim())).unwrap_or_default()
    }

    /// Sends a request and returns all that comes back. A server may take the end of what a client sends for its
    /// hanging up, so that a client that wants an answer keeps its side open (`then_ends` is false).
    fn exchange(&self, request: &[u8], then_ends: bool, patience: Duration) -> String {
        let address: SocketAddr = self.http.parse().expect("an address");
        let mut stream = TcpStream::connect(address).expect("connects");
        stream.set_read_timeout(Some(patience)).expect("set");
        // The server may close on us in the middle of nonsense.
        let _ = stream.write_all(request);
        if then_ends {
            let _ = stream.shutdown(std::net::Shutdown::Write);
        }
        let mut answer = Vec::new();
        let _ = stream.read_to_end(&mut answer);
        String::from_utf8_lossy(&answer).into_owned()
    }

    /// Waits until its log has this text.
    pub fn wait_for_log(&self, text: &str) {
        wait_for(&format!("{text:?} in the log of {}", self.name), || self.log().contains(text).then_some(()));
    }

    /// Returns the value of a metric line, by the whole text before its value.
    pub fn metric(&self, name: &str) -> f64 {
        let text = self.get_patiently("/metrics");
        let line = text.lines().find_map(|line| line.strip_prefix(name).and_then(|rest| rest.strip_prefix(' ')));
        line.unwrap_or_else(|| panic!("no metric {name} in\n{text}")).trim().parse().expect("a number")
    }

    /// Returns the id of its process.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    pub fn signal(&self, signal: Signal) {
        kill(Pid::from_raw(i32::try_from(self.child.id()).expect("a pid")), signal).expect("it runs");
        if signal == Signal::SIGSTOP {
            // Threads on other processors run on for a moment.
            wait_for("all threads stand still", || self.stands_still().then_some(()));
        }
    }

    /// Returns true if no thread of the process runs, or if the system does not say so.
    fn stands_still(&self) -> bool {
        let Ok(threads) = std::fs::read_dir(format!("/proc/{}/task", self.child.id())) else { return true };
        threads.flatten().all(|thread| {
            let stat = std::fs::read_to_string(thread.path().join("stat")).unwrap_or_default();
            // The state stands behind the name, which may have any signs in it.
            stat.rsplit(") ").next().is_some_and(|rest| rest.starts_with('T'))
        })
    }

    /// Waits for the process to end by itself, and until its log has been read.
    pub fn wait(&mut self) -> ExitStatus {
        let deadline = Instant::now() + PATIENCE;
        loop {
            if let Some(status) = self.child.try_wait().expect("waitable") {
                // Its last words are in the pipe still; a program that it started may keep that open.
                let last = Instant::now() + LAST_WORDS;
                while !self.log.reader.as_ref().is_none_or(JoinHandle::is_finished) && Instant::now() < last {
                    std::thread::sleep(Duration::from_millis(1));
                }
                return status;
            }
            assert!(Instant::now() < deadline, "{} does not end\n{}", self.name, self.log());
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    pub fn is_running(&mut self) -> bool {
        self.child.try_wait().expect("waitable").is_none()
    }

    /// Returns all that it wrote to standard error so far.
    pub fn log(&self) -> String {
        self.log.text()
    }
}

impl Drop for Agent {
    /// Ends it; if its test fails, what became of it and what it said is told.
    fn drop(&mut self) {
        if std::thread::panicking() {
            let ended = self.child.try_wait();
            eprintln!("agent {} ({}, http {}): ended {ended:?}, log:", self.name, self.gossip, self.http);
            eprintln!("{}", self.log());
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A running `headcount watch`.
pub struct Watch {
    child: Child,
    lines: Arc<Mutex<Vec<Value>>>,
}

impl Watch {
    /// Returns the kinds of events seen so far about one node, in order.
    pub fn about(&self, node: &str) -> Vec<String> {
        let events = self.events();
        let about = events.iter().filter(|event| event["node"] == node);
        about.map(|event| event["event"].as_str().expect("a text").to_owned()).collect()
    }

    /// Returns all events seen so far.
    pub fn events(&self) -> Vec<Value> {
        let events = self.lines.lock().expect("not poisoned").clone();
        assert!(
            events.iter().all(|event| event["event"] != "lagged"),
            "a gap, in which anything may have been: {events:?}"
        );
        events
    }

    /// Waits until the last event about a node is of this kind.
    pub fn wait_for(&self, node: &str, kind: &str) {
        wait_for(&format!("{kind} of {node}, seen {:?}", self.about(node)), || {
            (self.about(node).last().map(String::as_str) == Some(kind)).then_some(())
        });
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The most memory that a process has had resident so far.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct MemoryPeak(u64);

/// The bound of an agent's memory, whatever is sent to it, in bytes.
const MAX_MEMORY: u64 = 64 * 1024 * 1024;

/// The memory of an agent that has nothing to do, in a build with optimisations, in bytes. One without has twice as much,
/// most of it the program itself.
const IDLE_MEMORY: u64 = 16 * 1024 * 1024;

impl MemoryPeak {
    /// Fails if an agent that had this much when it had nothing to do has grown beyond the bound.
    pub fn assert_bounded_since(self, idle: Self) {
        let grown = self.0.saturating_sub(idle.0);
        assert!(grown <= MAX_MEMORY - IDLE_MEMORY, "{} KiB more than {} KiB", grown / 1024, idle.0 / 1024);
    }
}

/// Returns the most memory that an agent has had so far; none where the system does not tell.
pub fn memory_peak(agent: &Agent) -> MemoryPeak {
    let status = std::fs::read_to_string(format!("/proc/{}/status", agent.id())).unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let kib: u64 = line.map_or(0, |line| line.trim().trim_end_matches(" kB").parse().expect("a number"));
    MemoryPeak(kib * 1024)
}

fn command(prefix: &[String]) -> Command {
    let mut command = match prefix.split_first() {
        Some((first, rest)) => {
            let mut command = Command::new(first);
            command.args(rest).arg(HEADCOUNT);
            command
        }
        None => Command::new(HEADCOUNT),
    };
    // Variables that a developer's shell exports must not reach the processes under test.
    for (key, _) in std::env::vars_os() {
        if key.to_string_lossy().starts_with("HEADCOUNT_") {
            command.env_remove(key);
        }
    }
    command
}

/// What a process wrote to standard error so far, and the thread that reads it.
#[derive(Default)]
struct Log {
    text: Arc<Mutex<String>>,
    reader: Option<JoinHandle<()>>,
}

impl Log {
    fn read(source: impl Read + Send + 'static) -> Self {
        let text = Arc::new(Mutex::new(String::new()));
        let sink = Arc::clone(&text);
        let reader = std::thread::spawn(move || {
            for line in BufReader::new(source).lines().map_while(Result::ok) {
                let mut log = sink.lock().expect("not poisoned");
                log.push_str(&line);
                log.push('\n');
            }
        });
        Self { text, reader: Some(reader) }
    }

    fn text(&self) -> String {
        self.text.lock().expect("not poisoned").clone()
    }
}
