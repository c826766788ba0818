//! The examples do what they say: those in Rust, and the clients in other languages, across a stream that breaks.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::thread;

use crate::support::{Agent, skip, wait_for};

const FOLDER: &str = env!("CARGO_MANIFEST_DIR");

/// Builds an example and returns its program.
fn example(name: &str) -> PathBuf {
    let mut cargo = Command::new(env!("CARGO"));
    // What cargo tells a test of its package would have it build again whatever looks at that, and all that stands on it.
    let of_this_test = |name: &str| name.starts_with("CARGO_PKG_") || name.starts_with("CARGO_MANIFEST_");
    for (name, _) in std::env::vars().filter(|(name, _)| of_this_test(name)) {
        cargo.env_remove(name);
    }
    let built = cargo.current_dir(FOLDER).args(["build", "--quiet", "--locked", "--example", name]).status();
    assert!(built.expect("cargo runs").success(), "{name} is not built");
    let tests = std::env::current_exe().expect("a program");
    let target = tests.parent().and_then(std::path::Path::parent).expect("the target directory");
    target.join("examples").join(name)
}

fn has(program: &str) -> bool {
    Command::new(program).arg("--version").stdout(Stdio::null()).stderr(Stdio::null()).status().is_ok()
}

/// A way to an agent that can be cut.
struct Proxy {
    address: String,
    open: Arc<Mutex<Vec<TcpStream>>>,
}

impl Proxy {
    fn to(agent: &Agent) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("bound");
        let address = listener.local_addr().expect("an address").to_string();
        let open = Arc::<Mutex<Vec<TcpStream>>>::default();
        let (http, kept) = (agent.http.clone(), Arc::clone(&open));
        thread::spawn(move || {
            for near in listener.incoming().map_while(Result::ok) {
                let Ok(far) = TcpStream::connect(&http) else { continue };
                let both = || (near.try_clone().expect("a socket"), far.try_clone().expect("a socket"));
                kept.lock().expect("open").extend([both().0, both().1]);
                let (there, back) = (both(), both());
                thread::spawn(move || copy(there.0, there.1));
                thread::spawn(move || copy(back.1, back.0));
            }
        });
        Self { address, open }
    }

    /// Breaks all connections that are open now.
    fn cut(&self) {
        for stream in self.open.lock().expect("open").drain(..) {
            let _ = stream.shutdown(Shutdown::Both);
        }
    }
}

fn copy(mut from: TcpStream, mut to: TcpStream) {
    let mut bytes = [0; 4096];
    while let Ok(read @ 1..) = from.read(&mut bytes) {
        if to.write_all(&bytes[..read]).is_err() {
            break;
        }
    }
    let _ = to.shutdown(Shutdown::Both);
    let _ = from.shutdown(Shutdown::Both);
}

/// A client that runs, and the lines that it printed.
struct Client {
    child: Child,
    lines: Arc<Mutex<Vec<String>>>,
    /// The number of lines up to the one that was waited for last.
    seen: usize,
}

impl Client {
    fn start(command: &mut Command) -> Self {
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("it starts");
        let lines = Arc::<Mutex<Vec<String>>>::default();
        let out: [Box<dyn std::io::Read + Send>; 2] =
            [Box::new(child.stdout.take().expect("piped")), Box::new(child.stderr.take().expect("piped"))];
        for stream in out {
            let lines = Arc::clone(&lines);
            thread::spawn(move || {
                for line in BufReader::new(stream).lines().map_while(Result::ok) {
                    lines.lock().expect("lines").push(line);
                }
            });
        }
        Self { child, lines, seen: 0 }
    }

    /// Waits for a line after the last one that was waited for.
    fn wait_for(&mut self, what: &str, is_it: impl Fn(&str) -> bool) {
        let (lines, seen) = (&self.lines, self.seen);
        self.seen = wait_for(what, || {
            let lines = lines.lock().expect("lines");
            let at = lines.iter().skip(seen).position(|line| is_it(line));
            at.map(|at| seen + at + 1)
        });
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Follows the same story with a client: a snapshot, a member that comes, a broken stream during which one leaves, and
/// the events of that time.
fn follows_members(command: &mut Command, live: impl Fn(&str, &[&str]) -> bool, gone: impl Fn(&str) -> bool) {
    let first = Agent::start("first", &[], &[]);
    first.wait_for_up(&["first"]);
    let proxy = Proxy::to(&first);
    let mut client = Client::start(command.arg(&proxy.address));
    client.wait_for("the snapshot", |line| live(line, &["first"]));
    let second = Agent::start("second", &[&first.gossip], &[]);
    client.wait_for("a member that came", |line| live(line, &["first", "second"]));
    proxy.cut();
    // It leaves before the client is back, or right after: both are told.
    let (status, said) = second.client(&["leave"]);
    assert!(status.success(), "{said}");
    client.wait_for("a word on the broken stream", |line| line.contains("stream"));
    client.wait_for("a member that left", gone);
}

#[test]
fn the_rust_client_follows_members_across_a_broken_stream() {
    let is_live = |line: &str, names: &[&str]| line == format!("live: {}", names.join(" "));
    let mut client = Command::new(example("client"));
    follows_members(&mut client, is_live, |line| line == "live: first");
}

#[test]
fn the_python_client_follows_members_across_a_broken_stream() {
    if !has("python3") {
        return skip("there is no python3 here");
    }
    let is_live = |line: &str, names: &[&str]| line == format!("live: {}", names.join(" "));
    let mut python = Command::new("python3");
    follows_members(python.arg(format!("{FOLDER}/examples/clients/events.py")), is_live, |line| line == "live: first");
}

#[test]
fn the_curl_client_follows_members_across_a_broken_stream() {
    if !has("curl") {
        return skip("there is no curl here");
    }
    let is_live = |line: &str, names: &[&str]| match names {
        [_] => line.starts_with("snapshot "),
        [.., last] => line.starts_with("node_joined ") && line.contains(&format!("\"node\":\"{last}\"")),
        [] => false,
    };
    let mut shell = Command::new("sh");
    let gone = |line: &str| line.starts_with("node_left ") && line.contains("\"node\":\"second\"");
    follows_members(shell.arg(format!("{FOLDER}/examples/clients/events.sh")), is_live, gone);
}

#[test]
fn requests_are_balanced_over_members_that_are_live() {
    let output = Command::new(example("balance")).output().expect("it runs");
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{text}{}", String::from_utf8_lossy(&output.stderr));
    let lines: Vec<&str> = text.lines().collect();
    assert!(lines[0].starts_with("answered: {\"a\": ") && lines[0].contains("\"d\": "), "{text}");
    assert!(lines[1].starts_with("after d left: ") && !lines[1].contains("\"d\""), "{text}");
    assert!(lines[2].starts_with("while c drains: ") && !lines[2].contains("\"c\""), "{text}");
}
