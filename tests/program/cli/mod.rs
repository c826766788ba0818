//! The command line from outside: what is printed where, and how processes end.

mod agents;
mod clients;
mod trials;

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::process::{Child, Command, Output, Stdio};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;

/// Nothing may take longer; generous, because tests share the machine.
const PATIENCE: Duration = Duration::from_secs(30);

fn headcount(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_headcount"));
    // The tester's own environment must not matter.
    let ours =
        std::env::vars_os().map(|(name, _)| name).filter(|name| name.to_string_lossy().starts_with("HEADCOUNT_"));
    for name in ours {
        command.env_remove(name);
    }
    command.args(arguments).stdin(Stdio::null());
    command
}

fn run(arguments: &[&str]) -> (i32, String, String) {
    let Output { status, stdout, stderr } = headcount(arguments).output().expect("it runs");
    let text = |bytes| String::from_utf8(bytes).expect("text");
    (status.code().expect("an exit code"), text(stdout), text(stderr))
}

/// A process whose standard output is read line by line; killed when the test ends.
struct Running {
    child: Child,
    lines: mpsc::Receiver<String>,
}

impl Running {
    fn start(arguments: &[&str]) -> Self {
        let mut child = headcount(arguments).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("it starts");
        let stdout = child.stdout.take().expect("piped");
        let (sender, lines) = mpsc::channel();
        std::thread::spawn(move || {
            for line in BufReader::new(stdout).lines().map_while(Result::ok) {
                if sender.send(line).is_err() {
                    break;
                }
            }
        });
        Self { child, lines }
    }

    fn line(&self) -> String {
        self.lines.recv_timeout(PATIENCE).expect("a line in time")
    }

    /// Reads lines until one contains a text, and returns that one.
    fn until(&self, text: &str) -> String {
        std::iter::from_fn(|| Some(self.line())).find(|line| line.contains(text)).expect("the line")
    }

    fn signal(&self, signal: Signal) {
        kill(Pid::from_raw(i32::try_from(self.child.id()).expect("a pid")), signal).expect("it runs");
    }

    fn exit_code(&mut self) -> (i32, String) {
        let deadline = Instant::now() + PATIENCE;
        let status = loop {
            if let Some(status) = self.child.try_wait().expect("it can be waited for") {
                break status;
            }
            assert!(Instant::now() < deadline, "it does not end");
            std::thread::sleep(Duration::from_millis(20));
        };
        let mut errors = String::new();
        let stderr = self.child.stderr.take().map(|mut stderr| stderr.read_to_string(&mut errors));
        assert!(stderr.is_none_or(|read| read.is_ok()));
        (status.code().unwrap_or(-1), errors)
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A node, and where it listens.
struct Node {
    process: Running,
    gossip: String,
    http: String,
}

fn node(name: &str, more: &[&str]) -> Node {
    let mut arguments =
        vec!["agent", "--name", name, "--bind", "127.0.0.1:0", "--profile", "local", "--format", "json"];
    if !more.contains(&"--http") {
        arguments.extend(["--http", "127.0.0.1:0"]);
    }
    arguments.extend(more);
    let process = Running::start(&arguments);
    let line: Value = serde_json::from_str(&process.line()).expect("JSON");
    assert_eq!(line["node"], name);
    let text = |key: &str| line[key].as_str().unwrap_or_default().to_owned();
    Node { gossip: text("gossip"), http: text("http"), process }
}

/// The answers of something that is no agent.
enum Answer {
    Reply(u16, String),
    /// Keeps the connection until the other end gives up.
    Silence,
    HangUp,
}

/// Starts something that listens where an agent might, and answers requests (`GET /v1/info`, counted from 0 each) as
/// told. Returns its address; it ends with the test's process.
fn fake(answer: impl Fn(&str, usize) -> Answer + Send + Sync + 'static) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").expect("bound");
    let address = listener.local_addr().expect("an address").to_string();
    std::thread::spawn(move || {
        let mut seen: Vec<String> = Vec::new();
        let answer = std::sync::Arc::new(answer);
        for stream in listener.incoming().map_while(Result::ok) {
            let Some(asked) = question(&stream) else { continue };
            let count = seen.iter().filter(|other| **other == asked).count();
            seen.push(asked.clone());
            let answer = std::sync::Arc::clone(&answer);
            // Whoever is kept waiting keeps nobody else waiting.
            std::thread::spawn(move || reply(stream, &answer(&asked, count)));
        }
    });
    address
}

/// Returns the method and path of one request, and reads its head to the end.
fn question(stream: &TcpStream) -> Option<String> {
    let mut lines = BufReader::new(stream).lines().map_while(Result::ok);
    let first = lines.next()?;
    lines.find(String::is_empty)?;
    first.rsplit_once(' ').map(|(asked, _)| asked.to_owned())
}

fn reply(mut stream: TcpStream, answer: &Answer) {
    match answer {
        Answer::Reply(status, body) => {
            let length = body.len();
            let head = format!("HTTP/1.1 {status} X\r\nconnection: close\r\ncontent-length: {length}\r\n\r\n");
            let _ = stream.write_all(head.as_bytes()).and_then(|()| stream.write_all(body.as_bytes()));
        }
        Answer::Silence => while stream.read(&mut [0; 64]).is_ok_and(|read| read > 0) {},
        Answer::HangUp => {}
    }
}

/// Returns a real agent's word of itself, to be repeated by something else.
fn info_of_an_agent() -> String {
    let a = node("a", &[]);
    let (code, info, errors) = run(&["info", "--format", "json", "--http", &a.http]);
    assert_eq!(code, 0, "{errors}");
    info
}

#[test]
fn the_version_is_printed_however_it_is_asked_for() {
    let version = format!("headcount {}\n", env!("CARGO_PKG_VERSION"));
    assert_eq!(run(&["version"]), (0, version.clone(), String::new()));
    assert_eq!(run(&["--version"]).1, version);
}
