//! Nodes whose surroundings fail: logs that cannot be written or are not read, descriptors that run out, name servers
//! that hang, signals.
//!
//! Every wait is for a condition; what must not be waited for hangs for longer than any test waits.

use std::fs::File;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::fd::OwnedFd;
use std::os::unix::fs::PermissionsExt as _;
use std::process::{Command, Stdio};
use std::time::Duration;

use crate::support::netns::Network;
use crate::support::{Agent, HEADCOUNT, PATIENCE, own_address, skip, wait_for};
use nix::fcntl::{FcntlArg, OFlag, fcntl};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::{Value, json};

/// Starts a node whose standard error is this.
fn with_stderr(name: &str, seeds: &[&str], stderr: impl Into<Stdio>, more: &[&str]) -> Agent {
    let mut arguments = vec!["--name", name, "--http", "127.0.0.1:0", "--profile", "local", "--bind", "127.0.0.1:0"];
    for seed in seeds {
        arguments.extend(["--seed", seed]);
    }
    arguments.extend(more);
    Agent::start_logging_to(stderr.into(), &arguments)
}

/// Returns a pipe that holds little: its reading end, and its writing end.
fn small_pipe() -> (OwnedFd, OwnedFd) {
    let (reader, writer) = std::io::pipe().expect("a pipe");
    fcntl(&writer, FcntlArg::F_SETPIPE_SZ(4096)).expect("smaller");
    (reader.into(), writer.into())
}

fn set_tag(agent: &Agent, value: usize) {
    let (status, _) = agent.client(&["tags", &format!("t={value}")]);
    assert!(status.success());
}

/// Asserts that the agent does all that a node does: it answers, changes, and its peer sees it.
fn assert_alive(agent: &Agent, peer: &Agent, value: usize) {
    assert!(agent.get("/healthz").starts_with("HTTP/1.1 200"), "{}", agent.get("/healthz"));
    set_tag(agent, value);
    wait_for("the change at the peer", || {
        let member: Value = serde_json::from_str(&peer.client(&["members", "--format", "json"]).1).ok()?;
        let members = member.as_array()?.clone();
        let seen = members.iter().find(|member| member["id"] == agent.name.as_str())?.clone();
        (seen["tags"] == json!({ "t": value.to_string() }) && seen["status"] == "up").then_some(())
    });
}

#[test]
fn a_log_that_cannot_be_written_costs_lines_and_nothing_else() {
    let peer = Agent::start("peer", &[], &[]);
    let full = File::options().write(true).open("/dev/full").expect("a full disk");
    let mut agent = with_stderr("a", &[&peer.gossip], full, &["--log-level", "debug"]);
    agent.wait_for_up(&["a", "peer"]);
    assert_alive(&agent, &peer, 1);
    wait_for("lines counted as lost", || (agent.metric("headcount_log_lines_lost_total") >= 2.0).then_some(()));
    agent.signal(Signal::SIGTERM);
    assert_eq!(agent.wait().code(), Some(0), "it left gracefully");
}

#[test]
fn a_log_pipe_whose_reader_is_gone_costs_lines_and_nothing_else() {
    let peer = Agent::start("peer", &[], &[]);
    let (reader, writer) = small_pipe();
    let mut agent = with_stderr("a", &[&peer.gossip], writer, &["--log-level", "debug"]);
    agent.wait_for_up(&["a", "peer"]);
    drop(reader);
    assert_alive(&agent, &peer, 1);
    assert_alive(&agent, &peer, 2);
    wait_for("lines counted as lost", || (agent.metric("headcount_log_lines_lost_total") >= 1.0).then_some(()));
    agent.signal(Signal::SIGTERM);
    assert_eq!(agent.wait().code(), Some(0), "it left gracefully");
}

#[test]
fn a_log_that_nobody_reads_stops_nothing_and_is_taken_up_again() {
    let peer = Agent::start("peer", &[], &[]);
    let (reader, writer) = small_pipe();
    let mut agent = with_stderr("a", &[&peer.gossip], writer, &["--log-level", "debug"]);
    agent.wait_for_up(&["a", "peer"]);
    // Some hundred bytes each: many times what the pipe holds.
    for value in 0..60 {
        set_tag(&agent, value);
    }
    assert_alive(&agent, &peer, 100);
    // Whoever reads again gets what waited, and what comes then.
    let text = std::sync::Arc::new(std::sync::Mutex::new(String::new()));
    let sink = std::sync::Arc::clone(&text);
    std::thread::spawn(move || {
        let (mut reader, mut bytes) = (File::from(reader), [0; 4096]);
        while let Ok(read @ 1..) = reader.read(&mut bytes) {
            sink.lock().expect("not poisoned").push_str(&String::from_utf8_lossy(&bytes[..read]));
        }
    });
    set_tag(&agent, 101);
    agent.signal(Signal::SIGTERM);
    assert_eq!(agent.wait().code(), Some(0), "it left gracefully");
    wait_for("its last words", || text.lock().expect("not poisoned").contains("left the cluster").then_some(()));
}

#[test]
fn a_log_that_nobody_reads_keeps_no_process_from_its_end() {
    let peer = Agent::start("peer", &[], &[]);
    let (_unread, writer) = small_pipe();
    let mut agent = with_stderr("a", &[&peer.gossip], writer, &["--log-level", "debug"]);
    agent.wait_for_up(&["a", "peer"]);
    for value in 0..60 {
        set_tag(&agent, value);
    }
    // Removed by an operator: the reason is an error, which nobody can read either.
    let (status, text) = peer.client(&["remove", "a", "--force"]);
    assert!(status.success(), "{text}");
    assert_eq!(agent.wait().code(), Some(6));
}

/// Returns a pipe that is full and that nobody reads: its reading end, and its writing end.
fn full_pipe() -> (OwnedFd, OwnedFd) {
    let (reader, writer) = small_pipe();
    let mut end = File::from(writer.try_clone().expect("a copy"));
    fcntl(&end, FcntlArg::F_SETFL(OFlag::O_NONBLOCK)).expect("set");
    while end.write(b"x").is_ok() {}
    fcntl(&end, FcntlArg::F_SETFL(OFlag::empty())).expect("set");
    (reader, writer)
}

#[test]
fn a_standard_output_that_nobody_reads_stops_neither_http_nor_signals() {
    let peer = Agent::start("peer", &[], &[]);
    let free = std::net::TcpListener::bind(own_address()).expect("a free port");
    let http = free.local_addr().expect("bound").to_string();
    drop(free);
    let (_unread, writer) = full_pipe();
    let arguments = ["agent", "--name", "a", "--profile", "local", "--bind", "127.0.0.1:0", "--seed", &peer.gossip];
    let mut child = Command::new(HEADCOUNT)
        .args(arguments)
        .args(["--http", &http])
        .stdin(Stdio::null())
        .stdout(writer)
        .stderr(Stdio::null())
        .spawn()
        .expect("it starts");
    peer.wait_for_up(&["a", "peer"]);
    let answer = wait_for("an answer of HTTP", || {
        let output = Command::new(HEADCOUNT).args(["info", "--format", "json", "--http", &http]).output().ok()?;
        output.status.success().then(|| String::from_utf8_lossy(&output.stdout).into_owned())
    });
    assert!(answer.contains("\"node\":\"a\""), "{answer}");
    kill(Pid::from_raw(i32::try_from(child.id()).expect("a pid")), Signal::SIGTERM).expect("it runs");
    let status = wait_for("its end", || child.try_wait().expect("waitable"));
    assert_eq!(status.code(), Some(0), "it left gracefully");
}

#[test]
fn a_mistake_is_told_and_ends_even_if_nobody_reads_it() {
    let directory = tempfile::tempdir().expect("a directory");
    let file = directory.path().join("config.toml");
    std::fs::write(&file, "data_dir = \"d\"\n[leadership]\nmode = \"quorum\"\nvoters = [\"a\", \"b\"]\n")
        .expect("written");
    let file = file.to_str().expect("text");
    for (arguments, code) in
        [(&["agent", "--nonsense"][..], 2), (&["agent", "--name", "a b"], 2), (&["config", "check", file], 0)]
    {
        let (_unread, writer) = full_pipe();
        let mut command = Command::new(HEADCOUNT);
        let mut child = command.args(arguments).stdout(Stdio::null()).stderr(writer).spawn().expect("it starts");
        let status = wait_for(&format!("the end of {arguments:?}"), || child.try_wait().expect("waitable"));
        assert_eq!(status.code(), Some(code), "{arguments:?}");
    }
}

#[test]
fn what_was_typed_is_repeated_without_lies_and_not_at_length() {
    let long = "y".repeat(100_000);
    for arguments in
        [&["membe\u{202e}rs"][..], &["watch", "--kind", "a\u{202e}b"], &["remove", &long], &["config", "check", &long]]
    {
        let output = Command::new(HEADCOUNT).args(arguments).output().expect("it runs");
        let text = String::from_utf8(output.stderr).expect("text");
        assert!(!text.contains('\u{202e}') && text.len() < 10_000, "{} bytes: {text:.200}", text.len());
    }
}

#[test]
fn a_hangup_reloads_what_can_be_reloaded_and_names_the_rest() {
    let directory = tempfile::tempdir().expect("a directory");
    let file = directory.path().join("config.toml");
    let path = file.to_str().expect("text");
    let write = |text: &str| std::fs::write(&file, text).expect("written");
    write("profile = \"local\"\ntags = { zone = \"a\" }\n[log]\nlevel = \"info\"\n");
    let arguments = ["--name", "a", "--http", "127.0.0.1:0", "--bind", "127.0.0.1:0", "--config", path];
    let mut agent = Agent::start_with(&[], &arguments);
    let logged = |agent: &Agent, text: &str| {
        wait_for(&format!("a line about {text}"), || agent.log().contains(text).then_some(()));
    };
    let tags = |agent: &Agent| agent.client(&["tags", "--format", "json"]).1.trim().to_owned();

    write("profile = \"lan\"\ntags = { zone = \"b\" }\n[log]\nlevel = \"debug\"\n");
    agent.signal(Signal::SIGHUP);
    logged(&agent, "reloaded log.level: info -> debug");
    logged(&agent, "counts only after a restart: profile: local -> lan");
    assert_eq!(tags(&agent), r#"{"tags":{"zone":"b"}}"#);
    set_tag(&agent, 1);
    logged(&agent, "a has a new record");
    let with_both = r#"{"tags":{"t":"1","zone":"b"}}"#;

    write("tags = nonsense\n");
    agent.signal(Signal::SIGHUP);
    logged(&agent, "not reloaded, everything stays as it is");
    assert_eq!(tags(&agent), with_both);
    for _ in 0..50 {
        agent.signal(Signal::SIGHUP);
    }
    assert!(agent.get("/healthz").starts_with("HTTP/1.1 200"));
    agent.signal(Signal::SIGTERM);
    assert_eq!(agent.wait().code(), Some(0), "{}", agent.log());
}

#[test]
fn few_descriptors_are_shared_out_so_that_members_join_and_operators_are_answered() {
    let limited = |limit: u32| -> Vec<String> {
        let script = format!("ulimit -n {limit}; exec \"$0\" \"$@\"");
        ["sh", "-c", &script].map(str::to_owned).to_vec()
    };
    let data = tempfile::tempdir().expect("a directory");
    // The least is a little more than in a binary of its own: test dependencies switch features on that cost some.
    let limits = [28, 28, 32, 64, 28, 32, 28, 64];
    let mut agents: Vec<Agent> = Vec::new();
    for (place, limit) in limits.into_iter().enumerate() {
        let name = format!("n{place}");
        let state = data.path().join(&name);
        let mut arguments =
            vec!["--name", &name, "--http", "127.0.0.1:0", "--bind", "127.0.0.1:0", "--profile", "local"];
        arguments.extend(["--data-dir", state.to_str().expect("text")]);
        let seed = agents.first().map(|first| first.gossip.clone());
        arguments.extend(seed.iter().flat_map(|seed| ["--seed", seed]));
        agents.push(Agent::start_with(&limited(limit), &arguments));
    }
    let names: Vec<String> = (0..limits.len()).map(|place| format!("n{place}")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    for agent in &agents {
        agent.wait_for_up(&names);
        assert!(agent.get("/healthz").starts_with("HTTP/1.1 200"), "{}", agent.log());
        assert_eq!(agent.metric("headcount_state_write_failures_total") as u64, 0, "{}", agent.log());
    }
    let killed = agents.pop().expect("eight");
    killed.signal(Signal::SIGKILL);
    for agent in &agents {
        agent.wait_for_up(&names[..7]);
    }
    assert!(agents[0].log().contains("open files"), "the operator is told: {}", agents[0].log());
}

/// Opens an event stream of an agent, and reads its head.
fn event_stream(agent: &Agent, more: &str) -> (TcpStream, String) {
    let mut stream = TcpStream::connect(&agent.http).expect("connects");
    stream.set_read_timeout(Some(PATIENCE)).expect("set");
    write!(stream, "GET /v1/events HTTP/1.1\r\nhost: {}\r\n{more}\r\n", agent.http).expect("sent");
    let mut head = Vec::new();
    let mut byte = [0];
    while !head.ends_with(b"\r\n\r\n") {
        stream.read_exact(&mut byte).unwrap_or_else(|error| panic!("{error} after {head:?}\n{}", agent.log()));
        head.push(byte[0]);
    }
    (stream, String::from_utf8(head).expect("text"))
}

#[cfg(target_os = "linux")]
#[test]
fn where_descriptors_are_short_streams_yield_to_health_checks_and_are_resumed() {
    let data = tempfile::tempdir().expect("a directory");
    let state = data.path().to_str().expect("text");
    let limited = |limit: usize| {
        let script = format!("ulimit -n {limit}; exec \"$0\" \"$@\"");
        let prefix = ["sh", "-c", &script].map(str::to_owned);
        let arguments = ["--name", "a", "--http", "127.0.0.1:0", "--bind", "127.0.0.1:0", "--profile", "local"];
        let agent = Agent::start_with(&prefix, &[&arguments[..], &["--data-dir", state]].concat());
        agent.wait_for_up(&["a"]);
        agent
    };
    let is_healthy =
        |agent: &Agent| assert!(agent.get("/healthz").starts_with("HTTP/1.1 200"), "no answer\n{}", agent.log());
    let roomy = limited(256);
    let open = || std::fs::read_dir(format!("/proc/{}/fd", roomy.id())).expect("it runs").count();
    // The descriptors that are open when nobody is connected, connections of a moment ago having ended.
    let idle = (0..20).map(|_| (std::thread::sleep(Duration::from_millis(10)), open()).1).min().expect("some");
    drop(roomy);

    // One is free: the stream gets it, and has to yield it to whoever asks.
    let mut agent = limited(idle + 1);
    let (mut stream, head) = event_stream(&agent, "");
    let id = head.lines().find_map(|line| line.strip_prefix("last-event-id: ")).expect("where it starts").to_owned();
    for _ in 0..3 {
        is_healthy(&agent);
    }
    // Its connection was taken; where it was, it goes on.
    let mut rest = Vec::new();
    let _ = stream.read_to_end(&mut rest);
    drop(stream);
    set_tag(&agent, 1);
    let (mut stream, _) = event_stream(&agent, &format!("last-event-id: {id}\r\n"));
    let mut text = String::new();
    while !text.contains("event: node_updated") {
        let mut bytes = [0; 1024];
        let read = stream.read(&mut bytes).expect("in time");
        assert!(read > 0, "it ended after {text}\n{}", agent.log());
        text.push_str(&String::from_utf8_lossy(&bytes[..read]));
    }
    is_healthy(&agent);
    let log = agent.log();
    assert_eq!(log.matches("cannot accept connections").count(), 1, "{log}");
    assert!(log.contains("event streams end"), "{log}");
    agent.signal(Signal::SIGTERM);
    assert_eq!(agent.wait().code(), Some(0), "{}", agent.log());
}

#[cfg(target_os = "linux")]
#[test]
fn an_agent_whose_files_may_not_grow_goes_on_as_on_a_full_disk() {
    let log = tempfile::NamedTempFile::new().expect("a file");
    let agent = with_stderr("a", &[], log.reopen().expect("opened"), &["--log-level", "debug"]);
    agent.wait_for_up(&["a"]);
    let limit = ["--pid", &agent.id().to_string(), "--fsize=0"].map(str::to_owned);
    assert!(Command::new("prlimit").args(limit).status().expect("it runs").success());
    let lines = std::fs::metadata(log.path()).expect("there").len();
    set_tag(&agent, 1);
    assert!(agent.get("/healthz").starts_with("HTTP/1.1 200"));
    assert_eq!(std::fs::metadata(log.path()).expect("there").len(), lines, "it was logged nowhere");
}

#[cfg(target_os = "linux")]
#[test]
fn an_agent_whose_user_may_start_no_further_thread_goes_on_and_reloads() {
    let data = tempfile::tempdir().expect("a directory");
    let (config, program) = (data.path().join("headcount.toml"), data.path().join("headcount"));
    std::fs::write(&config, "tags = { zone = \"a\" }\n").expect("written");
    // Where others can read it.
    std::fs::copy(HEADCOUNT, &program).expect("copied");
    for path in [data.path(), &config] {
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o755)).expect("set");
    }
    let as_another = "exec setpriv --reuid 54321 --clear-groups --bounding-set=-all";
    let tried = Command::new("sh").args(["-c", &format!("{as_another} true")]).status().expect("it runs");
    if !tried.success() {
        return skip("setpriv cannot run a command as another user");
    }
    let script = format!("{as_another} {} \"$@\"", program.display());
    let other_user = ["sh", "-c", &script].map(str::to_owned);
    let path = config.to_str().expect("text");
    let arguments = ["--config", path, "--name", "a", "--http", "127.0.0.1:0", "--bind", "127.0.0.1:0"];
    let mut agent = Agent::start_with(&other_user, &arguments);
    agent.wait_for_up(&["a"]);
    // Longer than tokio keeps threads that have nothing to do, unless it is told.
    std::thread::sleep(Duration::from_secs(11));
    // By the user itself: not every root may do that to others.
    let limit = format!("{as_another} prlimit --pid {} --nproc=1", agent.id());
    assert!(Command::new("sh").args(["-c", &limit]).status().expect("it runs").success());
    std::fs::write(path, "tags = { zone = \"newer\" }\n").expect("written");
    agent.signal(Signal::SIGHUP);
    wait_for("the newer tag", || agent.get("/v1/members").contains("newer").then_some(()));
    agent.signal(Signal::SIGTERM);
    assert_eq!(agent.wait().code(), Some(0), "{}", agent.log());
}

#[cfg(target_os = "linux")]
#[test]
fn an_agent_without_a_descriptor_for_http_is_not_started() {
    let arguments = ["--name", "a", "--http", "127.0.0.1:0", "--bind", "127.0.0.1:0", "--profile", "local"];
    let roomy = Agent::start_with(&[], &arguments);
    // The descriptors that are open when nobody is connected, the spare one among them.
    let open = || std::fs::read_dir(format!("/proc/{}/fd", roomy.id())).expect("it runs").count();
    let idle = (0..20).map(|_| (std::thread::sleep(Duration::from_millis(10)), open()).1).min().expect("some");
    for missing in 1..=8 {
        let script = format!("ulimit -n {}; exec timeout 30 \"$0\" agent \"$@\"", idle - missing);
        let mut command = std::process::Command::new("sh");
        command.args(["-c", &script, crate::support::HEADCOUNT]).args(arguments).stdin(std::process::Stdio::null());
        let run = command.output().expect("it runs");
        let said = String::from_utf8_lossy(&run.stderr);
        assert!(run.stdout.is_empty(), "{missing}: it says that it is ready");
        assert!(matches!(run.status.code(), Some(1 | 3)), "{missing}: {}: {said}", run.status);
        assert!(said.contains("raise the limit") || said.contains("check the limits"), "{missing}: {said}");
    }
}

#[test]
fn a_name_server_that_hangs_delays_no_numeric_seed_and_no_end() {
    let network = match Network::new(2) {
        Ok(network) => network,
        Err(reason) => return skip(&reason),
    };
    // Nobody listens at that address, nobody says so, and the resolver is patient: no test waits that long.
    let resolver = tempfile::NamedTempFile::new().expect("a file");
    std::fs::write(resolver.path(), "nameserver 10.77.0.200\noptions timeout:30 attempts:5\n").expect("written");
    let bind = format!("mount --bind {} /etc/resolv.conf && exec \"$0\" \"$@\"", resolver.path().display());
    let host = |at: usize| -> Vec<String> {
        let mut words = network.on(at);
        // A mount namespace of its own comes with `ip netns exec`.
        words.extend(["sh", "-c", &bind].map(str::to_owned));
        words
    };
    let on = |at: usize, name: &str, more: &[&str]| {
        let bind = format!("{}:7117", network.ip(at));
        let mut arguments = vec!["--name", name, "--profile", "local", "--bind", &bind, "--key-file", network.key()];
        arguments.extend(more);
        Agent::start_with(&host(at), &arguments)
    };
    let a = on(0, "a", &[]);
    let seed = format!("{}:7117", network.ip(0));
    let mut b = on(1, "b", &["--seed", "hangs.example.internal:7117", "--seed", &seed]);
    a.wait_for_up(&["a", "b"]);
    b.signal(Signal::SIGTERM);
    assert_eq!(b.wait().code(), Some(0), "{}", b.log());

    // With nothing but a name to go by it never joins, and ends at once all the same.
    let mut lost = on(1, "c", &["--seed", "hangs.example.internal:7117"]);
    std::thread::sleep(Duration::from_millis(200));
    lost.signal(Signal::SIGTERM);
    assert_eq!(lost.wait().code(), Some(0), "{}", lost.log());
}
