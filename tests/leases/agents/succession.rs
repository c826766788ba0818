//! One leader after the other: at the start, after a crash, after a goodbye.

use std::time::{Duration, Instant};

use nix::sys::signal::Signal;
use serde_json::Value;

use super::cluster::{Database, STEADY, body, leader, wait_for_leader};
use crate::support::{HEADCOUNT, wait_for};

/// A lease so long that nobody who only looks at the database from time to time would take over within a test.
const LONG: &str = "lease_duration = \"60s\"\nrenewal_interval = \"25s\"";
/// An order above what a succession by notification takes, and well below the interval at which others look.
const SOON: Duration = Duration::from_secs(8);

fn a_killed_leader_is_succeeded(database: &Database) {
    let mut agents = database.agents(5, "");
    let old = wait_for_leader(&agents, 0);
    drop(agents.remove(old.at));
    let new = wait_for_leader(&agents, old.term);
    assert_ne!(new.name, old.name);
    assert_eq!(new.term, old.term + 1);
    // From another address, and without any sweep: the row of the dead is still there.
    let listed = body(&agents[new.at].get_patiently("/v1/lease/nodes"));
    let nodes = listed["nodes"].as_array().expect("a list");
    assert_eq!((nodes[0]["node"].as_str(), nodes[0]["is_leader"].as_bool()), (Some(new.name.as_str()), Some(true)));
    assert_eq!(nodes[0]["rpc_address"], agents[new.at].gossip);
    assert!(nodes[1..].iter().all(|node| node["is_leader"] == false), "{listed}");
}

#[test]
fn a_killed_leader_is_succeeded_in_the_next_term_on_a_file() {
    a_killed_leader_is_succeeded(&Database::file());
}

#[test]
fn a_killed_leader_is_succeeded_in_the_next_term_on_a_server() {
    if let Some(database) = Database::schema("killed") {
        a_killed_leader_is_succeeded(&database);
    }
}

#[test]
fn whoever_asks_a_leader_at_work_to_resign_is_told_to_wait_and_its_log_says_for_what() {
    let database = Database::file();
    let agents = database.agents(2, LONG);
    let led = wait_for_leader(&agents, 0);
    let (leader, other) = (&agents[led.at], &agents[1 - led.at]);
    assert!(leader.post("/v1/leader/work", &serde_json::json!({})).contains(" 200 "));
    let mut resign = std::process::Command::new(HEADCOUNT);
    let asked = resign.args(["leader", "resign", "--http", &other.http]).output().expect("it runs");
    let said = String::from_utf8_lossy(&asked.stderr);
    assert_eq!(asked.status.code(), Some(1), "{said}");
    assert!(said.contains(&format!("{} was asked", led.name)) && said.contains("do not ask again"), "{said}");
    wait_for("it says what it waits for", || {
        leader.log().contains("is released once 1 piece of led work ends").then_some(())
    });
}

fn a_goodbye_is_heard(database: &Database) {
    let mut agents = database.agents(3, LONG);
    let old = wait_for_leader(&agents, 0);
    let mut leaving = agents.remove(old.at);
    leaving.signal(Signal::SIGTERM);
    let since = Instant::now();
    let new = wait_for_leader(&agents, old.term);
    assert!(since.elapsed() < SOON, "not by notification: {:?}", since.elapsed());
    assert_eq!(new.term, old.term + 1);
    assert!(leaving.wait().success());
}

#[test]
fn a_leader_that_leaves_is_succeeded_long_before_anybody_would_look_on_a_file() {
    a_goodbye_is_heard(&Database::file());
}

#[test]
fn a_leader_that_leaves_is_succeeded_long_before_anybody_would_look_on_a_server() {
    if let Some(database) = Database::schema("goodbye") {
        a_goodbye_is_heard(&database);
    }
}

fn of_ten_one_leads(database: &Database) {
    let agents = database.agents(10, STEADY);
    let first = wait_for_leader(&agents, 0);
    assert_eq!(first.term, 1, "nobody else led before");
    // Longer than a lease.
    std::thread::sleep(Duration::from_secs(6));
    assert_eq!(wait_for_leader(&agents, 0), first, "and it leads on");
    for agent in &agents {
        assert!(!agent.log().contains("no transaction in progress"), "{}", agent.log());
    }
}

#[test]
fn of_ten_that_start_at_once_one_leads_in_one_term_on_a_file() {
    of_ten_one_leads(&Database::file());
}

#[test]
fn of_ten_that_start_at_once_one_leads_in_one_term_on_a_server() {
    if let Some(database) = Database::schema("ten") {
        of_ten_one_leads(&database);
    }
}

#[test]
fn any_agent_has_the_leader_resign_and_another_one_leads_at_once() {
    let database = Database::file();
    let agents = database.agents(3, LONG);
    let old = wait_for_leader(&agents, 0);
    let other = agents.iter().find(|agent| agent.name != old.name).expect("three");
    let watch = other.watch();
    let since = Instant::now();
    let (status, text) = other.client(&["leader", "resign", "--format", "json"]);
    assert!(status.success(), "{text}");
    let new = wait_for_leader(&agents, old.term);
    assert!(new.name != old.name && new.term == old.term + 1, "{new:?} after {old:?}");
    assert!(since.elapsed() < SOON, "not by notification: {:?}", since.elapsed());
    let lost: Value = wait_for("the end of the old term is told", || {
        watch.events().into_iter().find(|event| event["event"] == "leader_lost" && event["node"] == old.name.as_str())
    });
    assert_eq!((lost["reason"].as_str(), lost["lease"].as_str()), (Some("resigned"), Some("default")), "{lost}");
    wait_for("the new term is told", || {
        let is_new = |event: &Value| event["event"] == "leader_elected" && event["term"] == new.term;
        watch.events().into_iter().find(is_new)
    });
    let answer = other.post("/v1/leader/resign", &serde_json::json!({"to": "n0"}));
    assert!(answer.starts_with("HTTP/1.1 422") && answer.contains("whoever takes it first"), "{answer}");
}

#[test]
fn terms_go_on_above_those_on_disk_when_the_database_is_an_empty_one() {
    let database = Database::file();
    let data = database.path("data");
    let more = ["--data-dir", data.to_str().expect("text")];
    let mut agent = database.agent_with("n0", &[], "", &more);
    let first = wait_for("it leads", || leader(&agent)["is_me"].as_bool()?.then(|| leader(&agent)["term"].as_u64())?);
    assert_eq!(first, 1);
    wait_for("the term is on disk", || {
        std::fs::read_to_string(data.join("headcount.leases")).ok().filter(|text| text.contains("default 1\n"))
    });
    agent.signal(Signal::SIGTERM);
    assert!(agent.wait().success());
    std::fs::remove_file(database.path("leases.db")).expect("removed");
    let agent = database.agent_with("n0", &[], "", &more);
    assert!(leader(&agent)["term"].as_u64() >= Some(first), "shown from the beginning");
    let second =
        wait_for("it leads", || leader(&agent)["is_me"].as_bool()?.then(|| leader(&agent)["term"].as_u64())?);
    assert!(second > first, "{second}");
}
