//! The command line from outside: what is printed where, and how processes end.
#![cfg(all(feature = "agent", unix))]

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::process::{Child, Command, Output, Stdio};
use std::sync::mpsc;
use std::time::{Duration, Instant};

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

    /// Lines until one contains a text.
    fn until(&self, text: &str) -> String {
        std::iter::from_fn(|| Some(self.line())).find(|line| line.contains(text)).expect("the line")
    }

    fn signal(&self, name: &str) {
        let done = Command::new("kill").args(["-s", name, &self.child.id().to_string()]).status();
        assert!(done.expect("kill runs").success());
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

/// What something that is no agent does with a request.
enum Answer {
    Reply(u16, String),
    /// Keeps the connection until the other end gives up.
    Silence,
    HangUp,
}

/// Something that listens where an agent might, and answers requests (`GET /v1/info`, counted from 0 each) as told. Its
/// address; it ends with the test's process.
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

/// Method and path of one request, its head read to the end.
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

/// What a real agent says of itself, to be repeated by something else.
fn info_of_an_agent() -> String {
    let a = node("a", &[]);
    let (code, info, errors) = run(&["info", "--format", "json", "--http", &a.http]);
    assert_eq!(code, 0, "{errors}");
    info
}

#[test]
fn only_an_agent_that_is_gone_has_left() {
    let info = info_of_an_agent();
    let other = info.replace("\"run\":\"", "\"run\":\"0");
    // What an agent does after it was asked to leave; the exit code and what is said then.
    type Then = fn(&str) -> Answer;
    let cases: [(&str, Then, i32, &str); 5] = [
        ("silent", |_| Answer::Silence, 1, "whether it has is not known; the agent at"),
        ("broken", |_| Answer::Reply(500, String::new()), 1, "whether it has is not known; "),
        ("stopping", |_| Answer::Reply(503, "{}".to_owned()), 1, "whether it has is not known; "),
        ("still there", |info| Answer::Reply(200, info.to_owned()), 1, "is still there after 10 s"),
        ("hangs up", |_| Answer::HangUp, 0, "a has left"),
    ];
    // At the same time, since giving up takes its time.
    std::thread::scope(|scope| {
        for (name, then, code, said) in cases {
            let info = info.clone();
            scope.spawn(move || {
                let http = fake(move |asked, count| match (asked, count) {
                    ("GET /v1/info", 0) => Answer::Reply(200, info.clone()),
                    ("POST /v1/leave", _) => Answer::Reply(202, String::new()),
                    _ => then(&info),
                });
                let (found, output, errors) = run(&["leave", "--http", &http]);
                assert_eq!(found, code, "{name}: {output}{errors}");
                assert!(format!("{output}{errors}").contains(said), "{name}: {output}{errors}");
            });
        }
    });
    let successor = fake(move |asked, count| match (asked, count) {
        ("GET /v1/info", 0) => Answer::Reply(200, info.clone()),
        ("POST /v1/leave", _) => Answer::Reply(202, String::new()),
        _ => Answer::Reply(200, other.clone()),
    });
    assert_eq!(run(&["leave", "--http", &successor]), (0, "a has left\n".to_owned(), String::new()));
}

#[test]
fn waiting_ends_in_time_even_if_the_agent_does_not_answer() {
    let info = info_of_an_agent();
    // It answers whoever is more patient than asked for.
    let late = fake(move |_, _| {
        std::thread::sleep(Duration::from_secs(8));
        Answer::Reply(200, info.clone())
    });
    let (code, output, errors) = run(&["wait", "1", "--timeout", "1s", "--http", &late]);
    assert_eq!((code, output.as_str()), (1, ""), "{errors}");
    assert!(errors.contains("did not answer in time"), "{errors}");
    let a = node("a", &[]);
    assert_eq!(run(&["wait", "1", "--http", &a.http]).0, 0);
    a.process.signal("STOP");
    let (code, _, errors) = run(&["wait", "1", "--timeout", "1s", "--http", &a.http]);
    assert!(code == 1 && errors.contains("SIGSTOP"), "{errors}");
    a.process.signal("CONT");
}

#[test]
fn a_removal_that_is_not_confirmed_says_so_to_people_and_programs() {
    let http = fake(|_, _| Answer::Reply(202, r#"{"id":"b","status":"left","held_by":0}"#.to_owned()));
    let (code, json, _) = run(&["remove", "b", "--format", "json", "--http", &http]);
    let json: Value = serde_json::from_str(&json).expect("JSON");
    assert_eq!((code, &json["confirmed"]), (0, &false.into()), "{json}");
    let (code, text, _) = run(&["remove", "b", "--http", &http]);
    assert!(code == 0 && text.contains("not confirmed yet"), "{text}");
}

#[test]
fn what_is_no_agent_is_a_failure_with_a_hint() {
    for (answer, hint) in [
        (|_: &str, _| Answer::Reply(200, "<html>".to_owned()), "is this a headcount agent"),
        (|_: &str, _| Answer::Reply(404, "<html>".to_owned()), "is this a headcount agent"),
        (|_: &str, _| Answer::HangUp, "is it running?"),
    ] as [(fn(&str, usize) -> Answer, &str); 3]
    {
        let (code, output, errors) = run(&["members", "--http", &fake(answer)]);
        assert_eq!((code, output.as_str()), (1, ""), "{errors}");
        assert!(errors.contains(hint) && errors.lines().count() == 1, "{errors}");
    }
}

#[test]
fn people_and_programs_get_the_same_exit_code() {
    let a = node("a", &[]);
    let at = |arguments: &[&str], format: &str| run(&[arguments, &["--format", format, "--http", &a.http]].concat());
    for (command, code) in [(&["leader"][..], 0), (&["voters", "list"], 1), (&["view"], 1)] {
        let (people, _, errors) = at(command, "table");
        let (programs, json, _) = at(command, "json");
        assert_eq!((people, programs), (code, code), "{command:?}: {errors}");
        assert!(serde_json::from_str::<Value>(&json).is_ok(), "{command:?}: {json}");
    }
    let (_, _, errors) = at(&["voters", "list"], "table");
    assert!(errors.contains("leaders are not elected here") && errors.contains("--voters"), "{errors}");
    assert!(at(&["recover", "--voters", "a"], "table").2.contains("pass --yes to confirm"));
}

#[test]
fn the_token_file_of_clients_may_be_named_by_the_environment() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = |name: &str| directory.path().join(name).to_str().expect("text").to_owned();
    let (token, config) = (path("token"), path("config.toml"));
    std::fs::write(&token, "0123456789abcdef\n").expect("written");
    std::fs::write(&config, format!("[http]\ntoken_file = \"{token}\"\n")).expect("written");
    let a = node("a", &["--config", &config]);
    let port = a.http.rsplit_once(':').expect("a port").1;
    let (code, _, errors) = run(&["members", "--http", &a.http]);
    assert!(code == 1 && errors.contains("--token-file"), "{errors}");
    let members = |token: &str| {
        let output = headcount(&["members", "--http", &format!(":{port}")]).env("HEADCOUNT_TOKEN_FILE", token).output();
        let output = output.expect("it runs");
        (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
    };
    assert_eq!(members(&token), (Some(0), String::new()));
    for (bad, reason) in [("/dev/zero", "it is a device"), ("/nonexistent", "No such file")] {
        let (code, errors) = members(bad);
        assert!(code == Some(2) && errors.contains(reason) && errors.contains(bad), "{errors}");
    }
    // The variable is the clients' own: an agent is not confused by it.
    let shown = headcount(&["config", "show"]).env("HEADCOUNT_TOKEN_FILE", &token).output().expect("it runs");
    assert!(shown.status.success(), "{shown:?}");
}

#[test]
fn what_cannot_work_is_refused_before_anything_starts() {
    let directory = tempfile::tempdir().expect("a directory");
    let file = directory.path().join("config.toml");
    let path = file.to_str().expect("text");
    for (text, flags, said) in [
        (
            "bind = \"127.0.0.1:7117\"",
            &["--seed", "10.0.0.1:7117"][..],
            &["config.toml:1", "--bind", "flag --seed"][..],
        ),
        ("[leadership]\nvoters = [\"a\"]", &[], &["config.toml:2", "mode = \"quorum\""]),
        ("[http]\ntoken_file = \"/nonexistent\"", &[], &["config.toml:2: http.token_file", "No such file"]),
    ] {
        std::fs::write(&file, text).expect("written");
        let (code, output, errors) = run(&[&["agent", "--name", "a", "--config", path], flags].concat());
        assert_eq!((code, output.as_str()), (2, ""), "{errors}");
        assert!(said.iter().all(|said| errors.contains(said)), "{errors}");
    }
}

#[test]
fn a_watch_that_nobody_reads_ends_without_an_event() {
    let a = node("a", &[]);
    let mut child = headcount(&["watch", "--snapshot", "--http", &a.http])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("it starts");
    let mut line = String::new();
    let mut stdout = BufReader::new(child.stdout.take().expect("piped"));
    stdout.read_line(&mut line).expect("the heading");
    drop(stdout);
    let mut watch = Running { child, lines: mpsc::channel().1 };
    assert_eq!(watch.exit_code(), (0, String::new()));
}

#[test]
fn the_version_is_printed_however_it_is_asked_for() {
    let version = format!("headcount {}\n", env!("CARGO_PKG_VERSION"));
    assert_eq!(run(&["version"]), (0, version.clone(), String::new()));
    assert_eq!(run(&["--version"]).1, version);
}

#[test]
fn an_agent_announces_where_it_listens_and_leaves_on_sigterm() {
    let arguments = ["agent", "--name", "a", "--bind", "127.0.0.1:0", "--http", "off", "--profile", "local"];
    let mut agent = Running::start(&arguments);
    let line = agent.line();
    assert!(line.starts_with("headcount: node=a gossip=127.0.0.1:") && line.ends_with(" http=-"), "{line}");
    agent.signal("TERM");
    let (code, log) = agent.exit_code();
    assert_eq!(code, 0, "{log}");
    assert!(agent.lines.try_recv().is_err(), "logs go to standard error");
}

#[test]
fn a_second_signal_quits_at_once() {
    let seed = node("a", &[]);
    let mut agent = node("b", &["--seed", &seed.gossip]);
    run(&["wait", "--members", "2", "--http", &agent.http]);
    // Nobody confirms the farewell, so that it takes its time.
    seed.process.signal("STOP");
    let stopped = |pid: u32| {
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        stat.rsplit(')').next().is_none_or(|rest| rest.trim_start().starts_with('T') || rest.is_empty())
    };
    let deadline = Instant::now() + PATIENCE;
    while !stopped(seed.process.child.id()) {
        assert!(Instant::now() < deadline, "it does not stop");
        std::thread::yield_now();
    }
    agent.process.signal("INT");
    // Two of one kind that are pending at one time are one; these are of two kinds.
    agent.process.signal("TERM");
    let (code, log) = agent.process.exit_code();
    assert_eq!(code, 130, "{log}");
}

#[test]
fn each_way_to_fail_has_its_exit_code() {
    let a = node("a", &[]);
    let common = ["--profile", "local", "--http", "off"];
    let end = |arguments: &[&str]| {
        let (code, _, errors) = run(&[&["agent"], arguments, &common[..2]].concat());
        (code, errors)
    };
    for (arguments, code, text) in [
        (&["--name", "a b"][..], 2, "--name"),
        (&["--config", "/nonexistent/config.toml"], 2, "/nonexistent/config.toml"),
        (&["--nonsense"], 2, "--nonsense"),
        (&["--name", "b", "--bind", "127.0.0.1:0", "--http", "0.0.0.0:0"], 2, "http"),
        (&["--name", "b", "--bind", &a.gossip, "--http", "off"], 3, "--bind"),
        (&["--name", "b", "--bind", "127.0.0.1:0", "--http", &a.http], 3, "--http"),
        (&["--name", "a", "--bind", "127.0.0.1:0", "--http", "off", "--seed", &a.gossip], 5, "--name"),
        (
            &["--name", "c", "--cluster", "x", "--bind", "127.0.0.1:0", "--http", "off", "--seed", &a.gossip],
            7,
            "cluster",
        ),
    ] {
        let (found, errors) = end(arguments);
        assert_eq!(found, code, "{arguments:?}: {errors}");
        assert!(errors.contains(text), "{arguments:?}: {errors}");
    }

    let mut b = node("b", &["--seed", &a.gossip]);
    run(&["wait", "--members", "2", "--http", &a.http]);
    assert_eq!(run(&["remove", "b", "--force", "--http", &a.http]).0, 0);
    assert_eq!(b.process.exit_code().0, 6);
}

#[test]
fn a_data_directory_in_use_is_refused() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("state");
    let path = path.to_str().expect("text");
    let _a = node("a", &["--data-dir", path]);
    let (code, _, errors) =
        run(&["agent", "--name", "a", "--bind", "127.0.0.1:0", "--http", "off", "--data-dir", path]);
    assert_eq!(code, 4, "{errors}");
}

#[test]
fn clients_print_tables_for_people_and_json_for_programs() {
    let a = node("a", &["--tag", "zone=eu-1"]);
    let b = node("b", &["--seed", &a.gossip]);
    let at = ["--http", a.http.as_str()];
    let client = |arguments: &[&str]| run(&[arguments, &at].concat());

    assert_eq!(client(&["wait", "--members", "2"]), (0, "2 up\n".to_owned(), String::new()));
    let (code, table, _) = client(&["members"]);
    let words: Vec<_> = table.lines().next().expect("a heading").split_whitespace().collect();
    assert_eq!((code, words), (0, vec!["NODE", "STATUS", "ADDRESS", "SINCE", "HEARD", "RTT", "TAGS"]));
    assert_eq!(table.lines().count(), 3, "{table}");
    let (_, json, _) = client(&["members", "--format", "json", "--tag", "zone"]);
    let members: Value = serde_json::from_str(&json).expect("JSON");
    assert_eq!((members.as_array().map(Vec::len), &members[0]["id"]), (Some(1), &"a".into()));

    let info: Value = serde_json::from_str(&client(&["info", "--format", "json"]).1).expect("JSON");
    assert_eq!((&info["node"], &info["http"]), (&"a".into(), &a.http.as_str().into()));

    let (code, json, errors) = client(&["tags", "role=db", "zone=", "--format", "json"]);
    assert_eq!((code, json.trim()), (0, r#"{"tags":{"role":"db","zone":""}}"#), "{errors}");
    let (_, json, _) = client(&["tags", "--unset", "zone", "--format", "json"]);
    assert_eq!(json.trim(), r#"{"tags":{"role":"db"}}"#);
    assert_eq!(client(&["tags", "--unset", "zone"]).0, 1);

    let (code, _, errors) = client(&["remove", "b"]);
    assert_eq!(code, 1);
    assert!(errors.contains("--force"), "{errors}");
    assert_eq!(client(&["remove", "a"]).0, 1);
    assert_eq!(client(&["join", "nonsense"]).0, 1);
    assert_eq!(client(&["join", &b.gossip]).0, 0);
    assert_eq!(client(&["wait", "--members", "3", "--timeout", "300ms"]).0, 1);
    assert_eq!(run(&["leave", "--http", &b.http]), (0, "b has left\n".to_owned(), String::new()));
    let mut b = b;
    assert_eq!(b.process.exit_code().0, 0);
}

#[test]
fn an_agent_is_also_named_by_the_environment() {
    let a = node("a", &[]);
    let output = headcount(&["info"]).env("HEADCOUNT_AGENT", &a.http).output().expect("it runs");
    assert!(output.status.success());
}

#[test]
fn an_agent_that_is_not_there_is_a_failure_with_a_hint() {
    let (code, stdout, errors) = run(&["members", "--http", "127.0.0.1:1"]);
    assert_eq!((code, stdout.as_str()), (1, ""));
    assert!(errors.contains("cannot reach an agent at 127.0.0.1:1") && errors.contains("headcount agent"), "{errors}");
    assert_eq!(errors.lines().count(), 1, "{errors}");
    assert_eq!(run(&["members", "--http", "a b"]).0, 2);
}

#[test]
fn a_closed_standard_output_is_a_quiet_end() {
    let a = node("a", &[]);
    let mut child = headcount(&["watch", "--snapshot", "--format", "json", "--http", &a.http])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("it starts");
    let mut line = String::new();
    let mut stdout = BufReader::new(child.stdout.take().expect("piped"));
    stdout.read_line(&mut line).expect("the snapshot");
    drop(stdout);
    run(&["tags", "t=1", "--http", &a.http]);
    let output = child.wait_with_output().expect("it ends");
    assert!(output.status.success(), "{output:?}");
    assert!(output.stderr.is_empty(), "{output:?}");
}

#[test]
fn watching_goes_on_when_the_agent_comes_back() {
    let mut a = node("a", &[]);
    let http = a.http.clone();
    let mut watch = Running::start(&["watch", "--format", "json", "--http", &http]);
    let json = |line: String| -> Value { serde_json::from_str(&line).expect("JSON") };
    // The stream may open a moment after the first change.
    let mut number = 0;
    let first = loop {
        number += 1;
        run(&["tags", &format!("t={number}"), "--http", &http]);
        if let Ok(line) = watch.lines.recv_timeout(Duration::from_millis(200)) {
            break json(line);
        }
    };
    assert_eq!(first["event"], "node_updated");
    a.process.signal("KILL");
    a.process.exit_code();
    let again = node("a", &["--http", &http]);
    assert_eq!(json(watch.until("lagged"))["missed"], Value::Null);
    let snapshot = json(watch.line());
    assert_eq!((&snapshot["event"], &snapshot["members"][0]["id"]), (&"snapshot".into(), &"a".into()));
    run(&["tags", "t=9", "--http", &again.http]);
    assert_eq!(json(watch.until("node_updated"))["member"]["tags"]["t"], "9");
    watch.signal("KILL");
    let (_, errors) = watch.exit_code();
    assert!(errors.contains("trying again") && errors.contains("goes on"), "{errors}");
}

#[test]
fn dev_runs_a_cluster_on_whatever_ports_are_free() {
    let mut dev = Running::start(&["dev", "--nodes", "2"]);
    assert!(dev.until("NODE").contains("HTTP"));
    let line = dev.line();
    let http = line.split_whitespace().last().expect("an address").to_owned();
    assert!(dev.line().starts_with("n2"));
    dev.until("headcount members");
    assert_eq!(run(&["wait", "--members", "2", "--http", &http]).0, 0);
    dev.until("node_joined");
    dev.signal("INT");
    assert_eq!(dev.exit_code().0, 0);
}

#[test]
fn configuration_is_checked_and_shown() {
    let directory = tempfile::tempdir().expect("a directory");
    let file = directory.path().join("config.toml");
    std::fs::write(&file, "name = \"a\"\nmtu = 9000\n").expect("written");
    let path = file.to_str().expect("text");
    let (code, _, errors) = run(&["config", "check", path]);
    assert_eq!(code, 2);
    assert!(errors.contains("config.toml:2") && errors.contains("mtu"), "{errors}");
    std::fs::write(&file, "name = \"a\"\n").expect("written");
    assert_eq!(run(&["config", "check", path]).0, 0);
    let (code, table, _) = run(&["config", "show", "--config", path, "--profile", "lan"]);
    assert_eq!(code, 0);
    assert!(table.contains("config.toml:1") && table.contains("profile lan"), "{table}");
}

#[test]
fn a_simulation_prints_its_figures_and_writes_a_page_that_stands_alone() {
    let directory = tempfile::tempdir().expect("a directory");
    let page = directory.path().join("report.html");
    let page = page.to_str().expect("text");
    let arguments = ["simulate", "--nodes", "6", "--profile", "local", "--scenario", "crash", "--seed", "3"];
    let (code, plain, _) = run(&arguments);
    assert_eq!(code, 0);
    let (code, output, errors) = run(&[&arguments[..], &["--html", page]].concat());
    assert_eq!((code, errors.as_str()), (0, ""), "no bar where nobody looks");
    assert_eq!(output, plain, "the same run, whatever else is written");
    assert!(output.starts_with("crash of 6 nodes, profile local, loss 0.0 %") && output.contains("5 of 5"), "{output}");
    let html = std::fs::read_to_string(page).expect("the page");
    let trace = output.lines().find_map(|line| line.strip_prefix("trace")).expect("a trace").trim();
    assert!(html.contains(trace) && html.contains("timing.down_timeout") && html.matches("<svg").count() == 3);
    // What the page says is the way to see the run again is one.
    let replay = html.lines().find_map(|line| line.split("<code>headcount ").nth(1)).expect("a command");
    let replay: Vec<&str> = replay.split("</code>").next().expect("its end").split_whitespace().collect();
    assert_eq!(run(&replay), (0, plain, String::new()));
}

#[test]
fn a_simulation_gives_its_figures_to_programs_too() {
    let arguments = ["simulate", "--nodes", "6", "--profile", "local", "--scenario", "crash", "--format", "json"];
    let (code, output, errors) = run(&arguments);
    assert_eq!((code, errors.as_str()), (0, ""));
    let report: Value = serde_json::from_str(&output).expect("one object");
    assert_eq!(
        (&report["scenario"], &report["nodes"], &report["succession"]),
        (&"crash".into(), &6.into(), &Value::Null)
    );
    assert_eq!((&report["down_after"]["reports"], &report["down_after"]["expected"]), (&5.into(), &5.into()));
    assert!(report["down_after"]["p99_ms"].as_f64().is_some_and(|ms| ms > 0.0), "{report}");
    assert_eq!(report["false_alarms"]["suspect"], 0);
    let replay = report["replay"].as_str().expect("a command");
    let plain = run(&replay.split_whitespace().skip(1).collect::<Vec<_>>()).1;
    assert!(plain.contains(report["trace"].as_str().expect("a trace")), "{plain}");

    let goal = ["tune", "--rtt", "2ms", "--nodes", "8", "--detect-within", "4s", "--no-simulation", "--format", "json"];
    let (code, output, errors) = run(&goal);
    assert_eq!((code, errors.as_str()), (0, ""));
    let proposal: Value = serde_json::from_str(&output).expect("one object");
    assert!(proposal["timing"]["down_timeout_ms"].as_u64().is_some_and(|ms| ms <= 4_000), "{proposal}");
    assert!(proposal["expected"]["bytes_per_second"].is_f64() && proposal["simulated"].is_null(), "{proposal}");
}

#[test]
fn a_simulation_that_cannot_be_is_refused_with_a_hint() {
    for (arguments, code, said) in [
        (vec!["simulate", "--nodes", "1"], 2, "2 to 20000"),
        (vec!["simulate", "--loss", "99%"], 2, "0 to 0.9"),
        (vec!["simulate", "--loss", "5"], 2, "did you mean 5%?"),
        (vec!["simulate", "--scenario", "crush"], 2, "crash"),
        (vec!["simulate", "--node", "5"], 2, "--nodes"),
        (vec!["simulate", "--html", "/nowhere/report.html"], 1, "cannot write /nowhere/report.html"),
    ] {
        let (found, output, errors) = run(&arguments);
        assert_eq!((found, output.as_str()), (code, ""), "{arguments:?}: {errors}");
        assert!(errors.contains(said), "{arguments:?}: {errors}");
    }
}

#[test]
fn tuning_proposes_a_configuration_that_is_accepted() {
    let arguments = ["tune", "--rtt", "2ms", "--loss", "1%", "--nodes", "8", "--detect-within", "4s"];
    let (code, output, errors) = run(&arguments);
    assert_eq!((code, errors.as_str()), (0, ""), "{output}");
    assert!(output.contains("[timing]") && output.contains("simulated with 8 nodes"), "{output}");
    let directory = tempfile::tempdir().expect("a directory");
    let file = directory.path().join("config.toml");
    std::fs::write(&file, &output).expect("written");
    let (code, said, errors) = run(&["config", "check", file.to_str().expect("text")]);
    assert_eq!(code, 0, "{said}{errors}\n{output}");
}

#[test]
fn tuning_says_no_with_the_reason_and_the_nearest_goal() {
    let goal = |within: &str| {
        let arguments = ["tune", "--rtt", "80ms", "--nodes", "200", "--no-simulation", "--detect-within", within];
        run(&arguments)
    };
    let (code, output, errors) = goal("1s");
    assert_eq!((code, output.as_str()), (1, ""));
    let nearest = errors.trim().rsplit(' ').next().expect("a time");
    assert!(errors.contains("1s is too soon") && errors.contains("--detect-within"), "{errors}");
    let (code, output, errors) = goal(nearest);
    assert_eq!(code, 0, "{errors}");
    assert!(output.contains("[timing]"), "{output}");
    assert_eq!(run(&["tune", "--rtt", "9s", "--nodes", "5", "--detect-within", "1m"]).0, 2);
}
