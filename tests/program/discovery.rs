//! Seeds that come from a file, a command or names that do not resolve yet, with real agents.

use crate::support::{Agent, wait_for};

/// Starts an agent with these variables.
fn start(name: &str, variables: &[String]) -> Agent {
    let prefix: Vec<String> = ["env".to_owned()].into_iter().chain(variables.iter().cloned()).collect();
    let arguments = ["--name", name, "--profile", "local", "--bind", "127.0.0.1:0", "--http", "127.0.0.1:0"];
    Agent::start_with(&prefix, &arguments)
}

fn status_of(agent: &Agent) -> String {
    let info: serde_json::Value = serde_json::from_str(&agent.client(&["info", "--format", "json"]).1).expect("json");
    info["status"].as_str().expect("a text").to_owned()
}

#[test]
fn a_file_of_seeds_is_read_again_until_somebody_is_found() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("seeds");
    let a = Agent::start("a", &[], &[]);
    let mut b = start("b", &[format!("HEADCOUNT_SEEDS_FILE={}", path.display())]);
    wait_for("that is told", || b.log().contains("what it named last counts (0 in all)").then_some(()));
    assert_eq!(status_of(&b), "joining", "a node without a seed that answers founds nothing");
    std::fs::write(&path, "# nobody is here\n127.0.0.1:1\n").expect("written");
    wait_for("nobody answers", || b.log().contains("no seed answered").then_some(()));
    assert!(b.is_running());
    std::fs::write(&path, format!("127.0.0.1:1\n{}  # a\nno such host\n", a.gossip)).expect("written");
    b.wait_for_up(&["a", "b"]);
    assert_eq!(b.log().matches("what it named last counts").count(), 1, "and not at every try: {}", b.log());
}

#[test]
fn a_command_names_seeds_at_every_try() {
    let directory = tempfile::tempdir().expect("a directory");
    let script = directory.path().join("seeds.sh");
    let list = directory.path().join("list");
    let text = format!("#!/bin/sh\ntest -n \"$1\" || exit 1\ncat {} || echo not yet >&2\n", list.display());
    std::fs::write(&script, text).expect("written");
    let a = Agent::start("a", &[], &[]);
    let b = start("b", &[format!("HEADCOUNT_SEEDS_COMMAND=sh,{},all", script.display())]);
    wait_for("it is asked in vain", || b.log().contains("no seed").then_some(()));
    std::fs::write(&list, format!("{}\n", a.gossip)).expect("written");
    b.wait_for_up(&["a", "b"]);

    let c = start("c", &["HEADCOUNT_SEEDS_COMMAND=false".to_owned()]);
    wait_for("its failure is told", || {
        c.log().contains("seeds_command false: it failed (exit status: 1)").then_some(())
    });
    assert_eq!(status_of(&c), "joining");
}

#[test]
fn names_that_do_not_resolve_yet_are_normal() {
    let mut a = Agent::start("a", &["no-such-name.invalid:7117"], &[]);
    let mut b = Agent::start("b", &["srv:_headcount._udp.no-such-name.invalid"], &[]);
    wait_for("that is told", || {
        (a.log().contains("no seed name resolves") && b.log().contains("the SRV records of _headcount._udp"))
            .then_some(())
    });
    for agent in [&mut a, &mut b] {
        assert!(agent.is_running());
        assert_eq!(status_of(agent), "joining");
    }
}
