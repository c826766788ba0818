//! The recipes of the page on security, with the commands that stand there, and what has to hold meanwhile.

use std::net::UdpSocket;
use std::os::unix::fs::PermissionsExt as _;
use std::process::{Command, Stdio};
use std::time::Duration;

use nix::sys::signal::Signal;

use super::cluster::{address, dropped, keys, logged, only_key, other_key};
use super::page::{Nodes, PAGE, Recipe, recipes};
use crate::support::page::{assert_is_understood, blocks, named_in_prose};
use crate::support::{Agent, Watch, skip, wait_for};

const A_NEW_CLUSTER: &str = "A new cluster";
const ROTATION: &str = "Rotation";
const WAS_AWAY: &str = "A node with another key";
const BECAME_KNOWN: &str = "A key became known";
const SEALING: &str = "Sealing a running clear cluster";

/// Recipes that a test here follows.
const RUN: [&str; 5] = [A_NEW_CLUSTER, ROTATION, WAS_AWAY, BECAME_KNOWN, SEALING];

const NAMES: [&str; 3] = ["a", "b", "c"];

fn assert_no_event(watches: &[Watch], unwanted: &[&str]) {
    for watch in watches {
        let kinds: Vec<_> = watch.events().iter().map(|event| event["event"].clone()).collect();
        assert!(!kinds.iter().any(|kind| unwanted.iter().any(|unwanted| kind == unwanted)), "{kinds:?}");
    }
}

/// Fails unless all hold this key alone, seal with it, and heard all that was said.
fn assert_all_have_changed(nodes: &Nodes, new: &str) {
    assert_ne!(new, nodes.old());
    for agent in nodes.agents() {
        assert_eq!(only_key(agent, &nodes.names()), new);
        assert!(dropped(agent, "sealed_unknown_key") < 1.0, "{}", agent.log());
    }
    nodes.are_up();
}

fn assert_key_files_are_private(nodes: &Nodes) {
    for (at, name) in nodes.names().iter().enumerate() {
        let mode = std::fs::metadata(nodes.path(at, "cluster.key")).expect("there").permissions().mode();
        assert_eq!(mode & 0o777, 0o600, "{name}");
    }
}

#[test]
fn a_new_cluster_is_sealed() {
    let mut nodes = Nodes::new(&NAMES);
    for step in Recipe::of(A_NEW_CLUSTER).steps() {
        nodes.follow(&step);
    }
    nodes.are_up();
    only_key(nodes.agent(0), &NAMES);
    assert_key_files_are_private(&nodes);
}

#[test]
fn keys_are_rotated_under_a_live_cluster_and_no_heartbeat_is_lost() {
    if !Command::new("openssl").arg("version").stdout(Stdio::null()).status().is_ok_and(|status| status.success()) {
        return skip("`openssl` is needed");
    }
    let mut nodes = Nodes::new(&NAMES);
    let steps = Recipe::of(ROTATION).steps();
    // Agents have the token before keys are changed.
    let begins = steps.iter().position(|step| step.command.starts_with("headcount ")).expect("a change");
    let (token, change) = steps.split_at(begins);
    for step in token {
        nodes.follow(step);
    }
    nodes.are_a_sealed_cluster();
    let watches: Vec<Watch> = nodes.agents().map(Agent::watch).collect();
    for step in change {
        nodes.follow(step);
    }
    let old = nodes.old().to_owned();
    let new = only_key(nodes.agent(0), &NAMES);
    for more in [&["deadbeef"][..], &["deadbeef", "--force"], &[&old]] {
        let (status, _) = nodes.agent(1).client(&[&["keys", "remove"], more].concat());
        assert_eq!(status.code(), Some(1), "nobody holds {more:?}");
    }
    assert_all_have_changed(&nodes, &new);
    assert_no_event(&watches, &["node_suspected", "node_detected_down"]);
    assert_key_files_are_private(&nodes);
    // A restart finds the new key, and only that.
    let mut agent = nodes.take(1);
    agent.signal(Signal::SIGTERM);
    assert!(agent.wait().success());
    nodes.start(1, &["--key-file", "cluster.key"]);
    nodes.are_up();
}

#[test]
fn a_node_that_was_away_during_a_rotation_is_told_what_it_lacks_and_comes_back() {
    let mut nodes = Nodes::new(&NAMES);
    nodes.have_token();
    nodes.are_a_sealed_cluster();
    let old = nodes.old().to_owned();
    let mut away = nodes.take(2);
    away.signal(Signal::SIGKILL);
    away.wait();
    let (a, b) = (nodes.agent(0), nodes.agent(1));
    wait_for("c is down", || a.members().contains(&("c".to_owned(), "down".to_owned())).then_some(()));
    a.client(&["keys", "add"]);
    let new = other_key(b, &old);
    for change in [["keys", "use", &new, "--force"], ["keys", "remove", &old, "--force"]] {
        a.client(&change);
    }
    assert_eq!(only_key(a, &NAMES[..2]), new);
    nodes.start(2, &["--key-file", "cluster.key"]);
    logged(nodes.agent(2), "does not open what this node sends: it has other keys than this node");
    // It is told by whoever looks for it: members go on asking at the addresses of those that are down.
    logged(nodes.agent(2), &format!("sealed with key {new}, which this node lacks"));
    for step in Recipe::of(WAS_AWAY).steps() {
        nodes.run(2, step.command);
    }
    nodes.are_up();
    assert_eq!(only_key(nodes.agent(2), &NAMES), new);
}

#[test]
fn a_key_that_became_known_is_replaced_without_sending_the_new_one() {
    let mut nodes = Nodes::new(&NAMES);
    nodes.have_token();
    nodes.are_a_sealed_cluster();
    let watches: Vec<Watch> = nodes.agents().map(Agent::watch).collect();
    for step in Recipe::of(BECAME_KNOWN).steps() {
        nodes.follow(&step);
        let held = keys(nodes.agent(0));
        assert!(held.iter().any(|(_, _, held_by)| held_by.len() == 3), "after {}: {held:?}", step.command);
    }
    let new = only_key(nodes.agent(0), &NAMES);
    assert_all_have_changed(&nodes, &new);
    assert_no_event(&watches, &["node_suspected", "node_detected_down"]);
}

#[test]
fn a_clear_cluster_is_sealed_step_by_step_and_unsealed_again() {
    let recipe = Recipe::of(SEALING);
    let mut nodes = Nodes::new(&NAMES);
    nodes.run(0, "headcount keys generate cluster.key");
    for at in 0..NAMES.len() {
        if at > 0 {
            std::fs::copy(nodes.path(0, "cluster.key"), nodes.path(at, "cluster.key")).expect("copied");
        }
        // The file that users begin with: other sections, which have modes of their own, stand around this one.
        let lines = format!("[seal]\n{}\n", recipe.lines("toml").join("\n"));
        let config = include_str!("../../../config.toml").replace("[seal]\n", &lines);
        std::fs::write(nodes.path(at, "config.toml"), config).expect("written");
    }
    nodes.start_all(&["--config", "config.toml"]);
    let watches: Vec<Watch> = nodes.agents().map(Agent::watch).collect();
    let rows = recipe.rows();
    assert_eq!(rows.first().map(|row| row[0]), Some("off"), "the table begins as the configuration does");
    // There, and back again.
    for row in rows[1..].iter().chain(rows[..rows.len() - 1].iter().rev()) {
        let [mode, takes, _] = row[..] else { panic!("a mode, what it takes and what it sends: {row:?}") };
        nodes.mode = mode;
        let mut printed = Vec::new();
        for step in recipe.steps() {
            printed = nodes.follow(&step);
        }
        // Long enough for a suspicion in this profile.
        std::thread::sleep(Duration::from_millis(1_500));
        nodes.are_up();
        for agent in nodes.agents() {
            logged(agent, &format!("-> {mode} ["));
            // Members that are one step apart understand all that they say to each other.
            assert!(dropped(agent, "sealed_unknown_key") < 1.0, "at the step to {mode}: {}", agent.log());
        }
        let a = nodes.agent(0);
        let counted = || ["unsealed", "malformed"].map(|reason| dropped(a, reason) as u64);
        let before = counted();
        UdpSocket::bind("127.0.0.1:0").expect("a port").send_to(&[0; 64], address(a)).expect("sent");
        wait_for("a clear packet is counted", || (counted() != before).then_some(()));
        let is_refused = counted()[0] > before[0];
        assert_eq!(is_refused, !takes.contains("clear"), "{mode} takes {takes}");
        let named = printed.iter().filter(|line| line.contains("takes clear packets")).count();
        assert_eq!(named, if is_refused { 0 } else { 3 }, "{mode}: {printed:?}");
    }
    for agent in nodes.agents() {
        logged(agent, "clear packets are taken again (seal.mode = prefer)");
    }
    assert_no_event(&watches, &["node_detected_down"]);
}

#[test]
fn every_recipe_of_the_page_is_run() {
    let titles: Vec<&str> = recipes().iter().map(|recipe| recipe.title).collect();
    assert_eq!(titles, RUN, "a recipe that no test follows, or one that is gone");
    let in_recipes: usize = recipes().iter().map(|recipe| blocks(recipe.text).len()).sum();
    assert_eq!(in_recipes, blocks(PAGE).len(), "a block is part of a recipe");
    for block in blocks(PAGE) {
        let is_read = ["sh", "toml"].contains(&block.language);
        assert!(is_read && block.heading == "## Recipes", "who reads this?\n{}", block.lines.join("\n"));
    }
}

#[test]
fn every_command_named_between_the_lines_of_the_page_is_understood() {
    let named: Vec<String> = named_in_prose(PAGE)
        .into_iter()
        // Where it is clear whose commands they are, they are named without the program. With an ellipsis it is a line of
        // the log.
        .map(|code| if code.starts_with("keys ") { format!("headcount {code}") } else { code })
        .filter(|code| code.starts_with("headcount ") && !code.contains('…'))
        .collect();
    assert!(named.len() >= 7, "{named:?}");
    for command in named {
        assert_is_understood(&command.replace("NEW", "90e0bf85"));
    }
}
