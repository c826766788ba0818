//! Commands that ask an agent: what they print, and how they end when it does not answer.

use super::*;
use crate::support::{HEADCOUNT as BIN, own_address};

#[test]
fn only_an_agent_that_is_gone_has_left() {
    let info = info_of_an_agent();
    let other = info.replace("\"run\":\"", "\"run\":\"0");
    // Each case: the deeds of an agent after it was asked to leave; the exit code; the words printed.
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
    a.process.signal(Signal::SIGSTOP);
    let (code, _, errors) = run(&["wait", "1", "--timeout", "1s", "--http", &a.http]);
    assert!(code == 1 && errors.contains("SIGSTOP"), "{errors}");
    a.process.signal(Signal::SIGCONT);
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
        (|_: &str, _| Answer::HangUp, "is that its HTTP port"),
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
    let (code, errors) = members("");
    let told = "it is empty; name the file with the agent's token, or unset HEADCOUNT_TOKEN_FILE";
    assert!(code == Some(2) && errors.contains(told), "{errors}");
    // The variable is the clients' own: an agent is not confused by it.
    let shown = headcount(&["config", "show"]).env("HEADCOUNT_TOKEN_FILE", &token).output().expect("it runs");
    assert!(shown.status.success(), "{shown:?}");
}

/// Starts a watch, reads its first line, and closes its output.
fn watch_for_a_line(arguments: &[&str]) -> Child {
    let mut child = headcount(arguments).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("it starts");
    let mut stdout = BufReader::new(child.stdout.take().expect("piped"));
    stdout.read_line(&mut String::new()).expect("the first line");
    child
}

#[test]
fn a_watch_that_nobody_reads_ends_without_an_event() {
    let a = node("a", &[]);
    let child = watch_for_a_line(&["watch", "--snapshot", "--http", &a.http]);
    let mut watch = Running { child, lines: mpsc::channel().1 };
    assert_eq!(watch.exit_code(), (0, String::new()));
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
    let child = watch_for_a_line(&["watch", "--snapshot", "--format", "json", "--http", &a.http]);
    run(&["tags", "t=1", "--http", &a.http]);
    let output = child.wait_with_output().expect("it ends");
    assert!(output.status.success(), "{output:?}");
    assert!(output.stderr.is_empty(), "{output:?}");
}

#[test]
fn watching_goes_on_when_the_agent_comes_back() {
    let mut a = node("a", &["--http", &own_address()]);
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
    a.process.signal(Signal::SIGKILL);
    a.process.exit_code();
    let again = node("a", &["--http", &http]);
    assert_eq!(json(watch.until("lagged"))["missed"], Value::Null);
    let snapshot = json(watch.line());
    assert_eq!((&snapshot["event"], &snapshot["members"][0]["id"]), (&"snapshot".into(), &"a".into()));
    run(&["tags", "t=9", "--http", &again.http]);
    assert_eq!(json(watch.until("node_updated"))["member"]["tags"]["t"], "9");
    watch.signal(Signal::SIGKILL);
    let (_, errors) = watch.exit_code();
    assert!(errors.contains("trying again") && errors.contains("goes on"), "{errors}");
}

#[test]
fn health_is_an_exit_code_and_doctor_fails_for_what_is_wrong() {
    let a = node("a", &[]);
    assert_eq!(run(&["wait", "1", "--http", &a.http]).0, 0);
    assert_eq!(run(&["health", "--http", &a.http]), (0, "ok\n".to_owned(), String::new()));
    assert_eq!(run(&["health", "--ready", "--http", &a.http]).0, 0);
    let (code, told, _) = run(&["health", "--http", &a.http, "--format", "json"]);
    assert_eq!((code, told.as_str()), (0, "{\"ok\":true,\"reason\":\"ok\"}\n"));
    let (code, told, _) = run(&["version", "--format", "json"]);
    assert!(code == 0 && told.starts_with("{\"protocol\":{\"max\":1,\"min\":1},\"version\":\"0."), "{told}");
    let joining = fake(|_, _| Answer::Reply(503, "joining".to_owned()));
    let (code, output, errors) = run(&["health", "--ready", "--http", &joining]);
    assert!(code == 1 && output.is_empty() && errors.contains("not ready: joining"), "{errors}");

    let (code, output, errors) = run(&["doctor", "--http", &a.http, "--format", "json"]);
    let report: serde_json::Value = serde_json::from_str(&output).expect("JSON");
    assert_eq!((code, &report["ok"]), (0, &true.into()), "{output}{errors}");
    let checks: Vec<&str> =
        report["checks"].as_array().expect("checks").iter().filter_map(|c| c["check"].as_str()).collect();
    for check in ["agent", "verdict", "reach", "timing", "protocol", "clocks", "files"] {
        assert!(checks.contains(&check), "{check}: {output}");
    }
    // Nobody listens on the discard port here.
    let (code, output, _) = run(&["doctor", "--seed", "127.0.0.1:9"]);
    assert!(code == 1 && output.contains("FAIL  seeds") && output.contains("→ "), "{output}");
}

#[test]
fn top_draws_on_terminals_alone() {
    let a = node("a", &[]);
    let (code, output, errors) = run(&["top", "--http", &a.http]);
    assert_eq!((code, output.as_str()), (2, ""), "{errors}");
    assert!(errors.contains("not a terminal") && errors.contains("headcount members"), "{errors}");
}

#[test]
fn top_ends_when_its_terminal_is_gone() {
    let is_there = Command::new("script").arg("--version").output().is_ok_and(|ran| ran.status.success());
    if !is_there {
        return crate::support::skip("script, which makes terminals (util-linux), is not installed");
    }
    let a = node("a", &[]);
    let folder = tempfile::tempdir().expect("a folder");
    let [id, drawn] = ["id", "drawn"].map(|name| folder.path().join(name));
    // The terminal is its own, as if it had been started by ssh: reads return nothing, at once, when the other end is gone.
    let top = format!("echo $$ > {}; stty rows 24 cols 80; exec {} top --http {}", id.display(), BIN, a.http);
    let mut terminal = Command::new("script")
        .args(["--quiet", "--flush", "--command", &format!("exec sh -c '{top}'")])
        .arg(&drawn)
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .spawn()
        .expect("script starts");
    let is_drawn = || std::fs::read(&drawn).is_ok_and(|drawn| String::from_utf8_lossy(&drawn).contains(" up"));
    crate::support::wait_for("the first picture", || is_drawn().then_some(()));
    let id: u32 = std::fs::read_to_string(&id).expect("a file").trim().parse().expect("the id of a process");
    terminal.kill().expect("it ran");
    terminal.wait().expect("it ended");
    crate::support::wait_for("the end of top", || {
        let stat = std::fs::read_to_string(format!("/proc/{id}/stat")).unwrap_or_default();
        (stat.is_empty() || stat.contains(") Z ")).then_some(())
    });
}

#[test]
fn no_proxy_of_the_environment_hears_of_an_agent_or_its_token() {
    let folder = tempfile::tempdir().expect("a folder");
    let token = folder.path().join("token");
    std::fs::write(&token, "0123456789abcdef").expect("written");
    let mode = <std::fs::Permissions as std::os::unix::fs::PermissionsExt>::from_mode(0o600);
    std::fs::set_permissions(&token, mode).expect("set");
    let proxy = TcpListener::bind("127.0.0.1:0").expect("bound");
    proxy.set_nonblocking(true).expect("set");
    let http = fake(|asked, _| match asked {
        "GET /v1/members" => Answer::Reply(200, "[]".to_owned()),
        _ => Answer::Reply(404, String::new()),
    });
    let mut command = headcount(&["members", "--http", &http, "--token-file", token.to_str().expect("text")]);
    let address = format!("http://{}", proxy.local_addr().expect("an address"));
    for name in ["HTTP_PROXY", "http_proxy", "HTTPS_PROXY", "https_proxy", "ALL_PROXY", "all_proxy"] {
        command.env(name, &address);
    }
    let mut asking = command.env_remove("NO_PROXY").env_remove("no_proxy").spawn().expect("it runs");
    let deadline = Instant::now() + PATIENCE;
    let status = loop {
        assert!(proxy.accept().is_err(), "the proxy was asked");
        if let Some(status) = asking.try_wait().expect("waitable") {
            break status;
        }
        assert!(Instant::now() < deadline, "it ends");
        std::thread::sleep(Duration::from_millis(10));
    };
    assert!(proxy.accept().is_err(), "the proxy was asked");
    assert_eq!(status.code(), Some(0));
}

#[test]
fn a_new_key_is_its_owners_alone_is_not_shown_and_replaces_no_other() {
    use std::os::unix::fs::PermissionsExt as _;
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("cluster.key");
    let arguments = ["keys", "generate", path.to_str().expect("text")];
    let (code, said, errors) = run(&arguments);
    assert_eq!(code, 0, "{errors}");
    assert_eq!(std::fs::metadata(&path).expect("there").permissions().mode() & 0o777, 0o600);
    let key = std::fs::read_to_string(&path).expect("a key");
    assert!(!said.contains(key.trim()), "{said}");
    let (code, _, errors) = run(&arguments);
    assert!(code == 1 && errors.contains("it may be the only copy of a key"), "{errors}");
    assert_eq!(std::fs::read_to_string(&path).expect("a key"), key);
    let (code, _, errors) =
        run(&["keys", "generate", directory.path().join("none/cluster.key").to_str().expect("text")]);
    assert!(code == 1 && errors.contains("its directory is not there") && !errors.contains("os error"), "{errors}");
}
