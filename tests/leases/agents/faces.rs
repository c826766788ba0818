//! Leases as people and programs see them: HTTP, command line, metrics.

use std::process::{Command, Stdio};
use std::time::Duration;

use serde_json::Value;

use super::cluster::{Database, STEADY, body, leader, status, wait_for_leader};
use crate::support::{Agent, wait_for};

#[test]
fn leaderz_is_200_on_the_leader_and_503_elsewhere_in_both_modes() {
    let database = Database::file();
    let agents = database.agents(2, STEADY);
    let led = wait_for_leader(&agents, 0);
    for (at, agent) in agents.iter().enumerate() {
        let expected = if at == led.at { 200 } else { 503 };
        for path in ["/leaderz", "/leaderz?lease=default"] {
            assert_eq!(status(&agent.get(path)), expected, "{path}");
        }
        assert_eq!(status(&agent.get("/leaderz?lease=nobodys")), 404);
        for path in ["/leaderz?lease=a%20b", "/leaderz?lease=", "/v1/leader?lease=", "/v1/lease/nodes?lease="] {
            assert_eq!(status(&agent.get(path)), 400, "{path}");
        }
    }
    let data = tempfile::tempdir().expect("a directory");
    let voter = Agent::start("v", &[], &["--voters", "v", "--data-dir", data.path().to_str().expect("text")]);
    wait_for("the voter leads", || (status(&voter.get("/leaderz")) == 200).then_some(()));
    assert_eq!(status(&voter.get("/v1/lease/nodes")), 409);
    let answer = voter.get("/leaderz?lease=billing");
    assert_eq!(status(&answer), 404);
    assert!(answer.contains("do not come by leases") && !answer.contains("lease.leases"), "{answer}");
    let nobody = Agent::start("x", &[], &[]);
    assert_eq!(status(&nobody.get("/leaderz")), 503);
}

#[test]
fn each_lease_has_a_leader_of_its_own_and_a_command_runs_under_it() {
    let database = Database::file();
    let agents = database.agents(2, STEADY);
    wait_for_leader(&agents, 0);
    let billing = |agent: &Agent| body(&agent.get("/v1/leader?lease=billing"));
    let held =
        wait_for("somebody leads by the further lease", || agents.iter().find(|agent| billing(agent)["is_me"] == true));
    let confirmed = body(&held.get_patiently("/v1/leader?lease=billing&confirm=true"));
    assert_eq!((&confirmed["is_me"], &confirmed["mode"]), (&Value::Bool(true), &Value::from("lease")));
    let out = database.path("ran");
    let script = format!("echo $HEADCOUNT_TERM $HEADCOUNT_NODE > {}", out.display());
    let mut lead = Command::new(env!("CARGO_BIN_EXE_headcount"));
    lead.args(["lead", "--lease", "billing", "--http", &held.http, "--", "sh", "-c", &script]);
    let ran = lead.stdin(Stdio::null()).output().expect("it runs");
    assert!(ran.status.success(), "{}", String::from_utf8_lossy(&ran.stderr));
    let term = confirmed["term"].as_u64().expect("a term");
    assert_eq!(std::fs::read_to_string(&out).expect("it ran"), format!("{term} {}\n", held.name));
    // Given up, it goes to the other one, and the cluster's leader stays who it is.
    let before = leader(&agents[0])["leader"].clone();
    let (done, text) = held.client(&["leader", "resign", "--lease", "billing", "--format", "json"]);
    assert!(done.success(), "{text}");
    let other = agents.iter().find(|agent| agent.name != held.name).expect("two");
    wait_for("the other one leads by it", || (billing(other)["is_me"] == true).then_some(()));
    assert_eq!(leader(&agents[0])["leader"], before);
}

#[test]
fn led_work_ends_before_a_lease_is_released() {
    let database = Database::file();
    let mut agents = database.agents(2, STEADY);
    let old = wait_for_leader(&agents, 0);
    let (begun, ended) = (database.path("begun"), database.path("ended"));
    // It takes its time to end.
    let script = format!(
        "trap 'sleep 0.3; date +%s%N > {}; exit 0' TERM; date > {}; while :; do sleep 0.05; done",
        ended.display(),
        begun.display()
    );
    let mut lead = Command::new(env!("CARGO_BIN_EXE_headcount"));
    lead.args(["lead", "--http", &agents[old.at].http, "--", "sh", "-c", &script]).stdin(Stdio::null());
    let mut lead = lead.stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("it runs");
    wait_for("the work begins", || begun.exists().then_some(()));
    let leaving = agents.remove(old.at);
    leaving.signal(nix::sys::signal::Signal::SIGTERM);
    let new = wait_for("another one leads", || (leader(&agents[0])["is_me"] == true).then(|| leader(&agents[0])));
    assert!(ended.exists(), "the work ended first");
    assert_eq!(new["term"], old.term + 1);
    assert_eq!(lead.wait().expect("it ended").code(), Some(75));
}

#[test]
fn a_leader_by_a_lease_that_drains_hands_over_and_leads_again_only_after_that() {
    let database = Database::file();
    let agents = database.agents(2, STEADY);
    let old = wait_for_leader(&agents, 0);
    let (drained, other) = (&agents[old.at], &agents[1 - old.at]);
    let ask = |path: &str| drained.post(path, &Value::Null);
    let answer = body(&ask("/v1/drain"));
    assert_eq!((&answer["node"], &answer["draining"]), (&Value::from(old.name.as_str()), &Value::Bool(true)));
    let new = wait_for_leader(&agents, old.term);
    assert_eq!(new.name, other.name);
    // Nobody is there who could.
    assert_eq!(status(&other.post("/v1/leader/resign", &serde_json::json!({ "to": null }))), 200);
    let again = wait_for_leader(&agents, new.term);
    assert_eq!(again.name, other.name, "the one that drains does not contend");
    assert_eq!(body(&ask("/v1/undrain"))["draining"], false);
    assert_eq!(status(&other.post("/v1/leader/resign", &serde_json::json!({ "to": null }))), 200);
    let back = wait_for_leader(&agents, again.term);
    assert_eq!(back.name, old.name);
}

#[test]
fn people_see_who_is_in_the_table_and_what_it_costs() {
    let database = Database::file();
    let agents = database.agents(2, STEADY);
    let led = wait_for_leader(&agents, 0);
    let (done, table) = agents[0].client(&["leader", "--nodes"]);
    assert!(done.success(), "{table}");
    let lines: Vec<&str> = table.lines().collect();
    assert!(lines[0].starts_with("NODE") && lines[0].contains("HEARD"), "{table}");
    assert!(lines[1].starts_with(&format!("{} (leads)", led.name)) && lines[1].contains("left"), "{table}");
    assert_eq!(lines.len(), 3, "{table}");
    let (done, json) = agents[1].client(&["leader", "--nodes", "--lease", "billing", "--format", "json"]);
    let json: Value = serde_json::from_str(&json).expect("JSON");
    assert!(
        done.success() && json["lease"] == "billing" && json["nodes"].as_array().map(Vec::len) == Some(2),
        "{json}"
    );
    for what in [&["leader", "--lease", "nobodys"][..], &["leader", "--nodes", "--lease", "nobodys"]] {
        assert!(!agents[1].client(what).0.success(), "{what:?}");
    }
    assert_eq!(status(&agents[1].get("/v1/lease/nodes?lease=nobodys")), 404);
    let leads = &agents[led.at];
    assert!(leads.metric("headcount_lease_acquisitions_total{lease=\"default\"}") >= 1.0);
    wait_for("renewals are counted", || {
        (leads.metric("headcount_lease_renewals_total{lease=\"default\"}") >= 1.0).then_some(())
    });
    assert!(leads.metric("headcount_lease_leader{lease=\"default\"}") > 0.5);
    for agent in &agents {
        let of_it = format!("headcount_lease_heartbeat_age_seconds{{node=\"{}\"}} ", agent.name);
        // It is left out where the table does not answer soon.
        let age: f64 = wait_for("its age", || {
            let text = leads.get_patiently("/metrics");
            text.lines().find_map(|line| line.strip_prefix(&of_it)?.parse().ok())
        });
        assert!(age < Duration::from_secs(30).as_secs_f64());
    }
}

#[test]
fn a_call_that_names_its_lease_in_the_wrong_place_is_refused_and_nobody_resigns() {
    let database = Database::file();
    let agents = database.agents(1, STEADY);
    let led = wait_for_leader(&agents, 0);
    let billing = serde_json::json!({"lease": "billing"});
    for (path, expected) in [
        ("/v1/leader/resign", 422),
        ("/v1/leader/work", 400),
        ("/v1/leader/work?lease=", 400),
        ("/v1/leader/resign?lease=", 400),
        ("/v1/leader/work/1-1", 400),
        ("/v1/leader/work/%ff", 400),
    ] {
        let answer = agents[0].post(path, &billing);
        assert_eq!(status(&answer), expected, "{path}: {answer}");
        assert!(answer.contains("application/problem+json"), "{path}: {answer}");
    }
    assert_eq!(wait_for_leader(&agents, 0), led, "and it leads on");
    assert_eq!(status(&agents[0].post("/v1/leader/work", &serde_json::json!({}))), 200);
}
