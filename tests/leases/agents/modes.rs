//! Leaders by voters and leaders by a lease in one cluster: by mistake, and one after the other.

use nix::sys::signal::Signal;
use serde_json::Value;

use super::cluster::{Database, leader};
use crate::support::{Agent, wait_for};

/// Starts an agent that is the only voter.
fn voter(database: &Database, name: &str) -> Agent {
    let data = database.path("data");
    Agent::start(name, &[], &["--data-dir", data.to_str().expect("text"), "--voters", name])
}

fn by_lease(database: &Database, name: &str, seeds: &[&str]) -> Agent {
    let data = database.path("data");
    database.agent_with(name, seeds, "", &["--data-dir", data.to_str().expect("text")])
}

/// Waits until an agent leads in a term above this one, and returns the term.
fn led_above(agent: &Agent, above: u64) -> u64 {
    wait_for("it leads", || {
        let seen = leader(agent);
        let term = seen["term"].as_u64().expect("a term");
        (seen["is_me"] == true && term > above).then_some(term)
    })
}

fn stop(mut agent: Agent) {
    agent.signal(Signal::SIGTERM);
    assert!(agent.wait().success());
}

#[test]
fn terms_go_on_above_the_last_one_when_the_mode_is_changed_and_changed_back() {
    let database = Database::file();
    let mut term = 0;
    for _ in 0..2 {
        for start in [|database: &Database| voter(database, "a"), |database: &Database| by_lease(database, "a", &[])] {
            let agent = start(&database);
            term = led_above(&agent, term);
            stop(agent);
        }
    }
}

#[test]
fn nobody_begins_to_lead_by_a_lease_beside_a_leader_by_voters_and_both_sides_say_so() {
    let database = Database::file();
    let elected = voter(&database, "a");
    led_above(&elected, 0);
    let leased = database.agent("b", &[&elected.gossip]);
    wait_for("the node says why", || leased.log().contains("is set to lead by a lease").then_some(()));
    let said = leased.log();
    let line = said.lines().find(|line| line.contains("is set to lead by a lease")).expect("it was there");
    assert!(
        line.contains("WARN") && line.contains("does not begin to lead") && line.contains("set the same mode"),
        "{line}"
    );
    assert!(line.contains(" a") && line.contains("and b "), "both nodes are named: {line}");
    assert_eq!((&leader(&leased)["leader"], &leader(&leased)["state"]), (&Value::Null, &Value::from("vacant")));
    assert_eq!(leader(&elected)["is_me"], true);
    // Another lease is none of the voters'.
    wait_for("the other lease is led", || leased.get("/leaderz?lease=billing").contains(" 200 ").then_some(()));
    drop(elected);
    led_above(&leased, 0);
}

#[test]
fn a_node_with_voters_says_so_when_it_hears_of_a_leader_by_a_lease() {
    let database = Database::file();
    let leased = database.agent("b", &[]);
    led_above(&leased, 0);
    let data = database.path("voter");
    let data = ["--data-dir", data.to_str().expect("text"), "--voters", "a"];
    let elected = Agent::start("a", &[&leased.gossip], &data);
    wait_for("it warns", || elected.log().contains("two nodes may lead at once").then_some(()));
    let said = elected.log();
    let line = said.lines().find(|line| line.contains("two nodes may lead at once")).expect("it was there");
    assert!(line.contains("WARN") && line.contains("b leads by a lease") && line.contains("and a is set"), "{line}");
}
