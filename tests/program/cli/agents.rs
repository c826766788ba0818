//! Commands that run nodes: where they listen, how they end, and what they refuse.

use super::*;

#[test]
fn what_cannot_work_is_refused_before_anything_starts() {
    let directory = tempfile::tempdir().expect("a directory");
    let file = directory.path().join("config.toml");
    let path = file.to_str().expect("text");
    for (text, flags, said) in [
        (
            "bind = \"127.0.0.1:7117\"",
            &["--seed", "10.0.0.1:7117"][..],
            &["config.toml:1", "--key-file", "flag --seed"][..],
        ),
        (
            "bind = \"0.0.0.0:7117\"",
            &[],
            &["config.toml:1: bind = \"0.0.0.0:7117\" lets other machines in", "seal it: ", "--key-file", "--insecure"],
        ),
        (
            "",
            &["--bind", "10.0.0.1:7117", "--insecure"],
            &["cluster = headcount is what every cluster is called", "--cluster"],
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
fn an_agent_announces_where_it_listens_and_leaves_on_sigterm() {
    let arguments = ["agent", "--name", "a", "--bind", "127.0.0.1:0", "--http", "off", "--profile", "local"];
    let mut agent = Running::start(&arguments);
    let line = agent.line();
    assert!(line.starts_with("headcount: node=a gossip=127.0.0.1:") && line.ends_with(" http=-"), "{line}");
    agent.signal(Signal::SIGTERM);
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
    seed.process.signal(Signal::SIGSTOP);
    let stopped = |pid: u32| {
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        stat.rsplit(')').next().is_none_or(|rest| rest.trim_start().starts_with('T') || rest.is_empty())
    };
    let deadline = Instant::now() + PATIENCE;
    while !stopped(seed.process.child.id()) {
        assert!(Instant::now() < deadline, "it does not stop");
        std::thread::yield_now();
    }
    agent.process.signal(Signal::SIGINT);
    // Two of one kind that are pending at one time are one; these are of two kinds.
    agent.process.signal(Signal::SIGTERM);
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
        (&["--name", "a", "--bind", "127.0.0.1:0", "--http", "off", "--seed", &a.gossip], 5, "choose another name"),
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
    assert_eq!(run(&["doubt", "b", "--http", &a.http]).0, 0);
    assert_eq!(run(&["doubt", "nobody", "--http", &a.http]).0, 1);
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
fn dev_runs_a_cluster_on_whatever_ports_are_free() {
    let mut dev = Running::start(&["dev", "--nodes", "2"]);
    assert!(dev.until("NODE").contains("HTTP"));
    let line = dev.line();
    let http = line.split_whitespace().last().expect("an address").to_owned();
    assert!(dev.line().starts_with("n2"));
    assert_eq!(dev.until("alias"), format!("  alias headcount='{}'", env!("CARGO_BIN_EXE_headcount")));
    dev.until("headcount members");
    assert!(dev.until("dashboard").ends_with(&format!("http://{http}/.")));
    assert_eq!(run(&["wait", "--members", "2", "--http", &http]).0, 0);
    dev.until("node_joined");
    dev.signal(Signal::SIGINT);
    assert_eq!(dev.exit_code().0, 0);
}
