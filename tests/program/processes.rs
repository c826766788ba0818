//! Real processes on loopback: several `headcount agent`, watched and commanded by the other commands.

use crate::support::{Agent, own_address, wait_for};
use nix::sys::signal::Signal;
use serde_json::{Value, json};

const FIVE: [&str; 5] = ["a", "b", "c", "d", "e"];

fn five_in(profile: &str) -> Vec<Agent> {
    let bind = own_address();
    let own = ["--profile", profile, "--bind", &bind];
    let first = Agent::start("a", &[], &own);
    let seed = first.gossip.clone();
    let mut agents = vec![first];
    agents.extend(FIVE[1..].iter().map(|name| Agent::start(name, &[&seed], &own)));
    for agent in &agents {
        agent.wait_for_up(&FIVE);
    }
    agents
}

#[test]
fn two_agents_meet_through_a_seed_and_part_gracefully() {
    let a = Agent::start("a", &[], &[]);
    let watch = a.watch();
    let mut b = Agent::start("b", &[&a.gossip], &[]);
    a.wait_for_up(&["a", "b"]);
    b.wait_for_up(&["a", "b"]);
    b.signal(Signal::SIGTERM);
    assert_eq!(b.wait().code(), Some(0), "left gracefully\n{}", b.log());
    watch.wait_for("b", "node_left");
    let left = watch.events().into_iter().rfind(|event| event["event"] == "node_left").expect("just seen");
    assert_eq!((left["node"].as_str(), left["reason"].as_str()), (Some("b"), Some("graceful")));
    assert_eq!(a.members(), [("a".to_owned(), "up".to_owned())], "who left is not listed");
}

#[test]
fn islands_meet_when_a_seeds_file_names_a_node_of_the_other_one() {
    let folder = tempfile::tempdir().expect("a directory");
    let path = |name: &str| folder.path().join(name);
    let name_seeds = |seeds: &[&String]| {
        let lines: String = seeds.iter().flat_map(|seed| [seed.as_str(), "\n"]).collect();
        std::fs::write(path("new"), lines).expect("written");
        std::fs::rename(path("new"), path("seeds")).expect("renamed");
    };
    let config = path("config.toml");
    std::fs::write(&config, format!("seeds_file = {:?}\n", path("seeds"))).expect("written");
    let a = Agent::start("a", &[], &["--config", config.to_str().expect("a text")]);
    name_seeds(&[&a.gossip]);
    a.wait_for_up(&["a"]);
    let b = Agent::start("b", &[&a.gossip], &[]);
    let c = Agent::start("c", &[], &[]);
    let d = Agent::start("d", &[&c.gossip], &[]);
    for (agent, island) in [(&a, ["a", "b"]), (&b, ["a", "b"]), (&c, ["c", "d"]), (&d, ["c", "d"])] {
        agent.wait_for_up(&island);
    }
    name_seeds(&[&a.gossip, &d.gossip]);
    for agent in [&a, &b, &c, &d] {
        agent.wait_for_up(&FIVE[..4]);
    }
}

#[test]
fn a_removal_that_nobody_confirms_is_accepted_only() {
    let agents = five_in("default");
    // They still count as up for many seconds, and say nothing.
    for stopped in &agents[1..] {
        stopped.signal(Signal::SIGSTOP);
    }
    let (status, text) = agents[0].client(&["remove", "e", "--force", "--format", "json"]);
    assert!(status.success(), "{text}");
    let removed: Value = serde_json::from_str(&text).expect("json");
    assert_eq!((&removed["held_by"], &removed["confirmed"]), (&json!(0), &json!(false)), "{removed}");
    for stopped in &agents[1..] {
        stopped.signal(Signal::SIGCONT);
    }
}

#[test]
fn a_stopped_process_is_suspected_then_down_once_and_comes_back_accusing_nobody() {
    let agents = five_in("local");
    let watches: Vec<_> = agents.iter().map(Agent::watch).collect();
    agents[4].signal(Signal::SIGSTOP);
    for watch in &watches[..4] {
        watch.wait_for("e", "node_detected_down");
        assert_eq!(watch.about("e"), ["node_suspected", "node_detected_down"]);
    }
    agents[4].signal(Signal::SIGCONT);
    for agent in &agents {
        agent.wait_for_up(&FIVE);
    }
    for watch in &watches[..4] {
        watch.wait_for("e", "node_joined");
        assert_eq!(watch.about("e"), ["node_suspected", "node_detected_down", "node_joined"]);
    }
    // Whatever it would have said of others comes before this.
    assert!(agents[4].client(&["tags", "back=yes"]).0.success());
    for watch in &watches {
        watch.wait_for("e", "node_updated");
        let of_healthy: Vec<_> = watch.events().into_iter().filter(|event| event["node"] != "e").collect();
        assert!(of_healthy.is_empty(), "{of_healthy:?}");
    }
}

#[test]
fn a_killed_agent_restarts_under_its_name_on_the_same_and_on_another_port() {
    let agents = five_in("local");
    let mut agents = agents.into_iter();
    let rest: Vec<Agent> = agents.by_ref().take(4).collect();
    let mut last = agents.next().expect("five");
    let bind = last.gossip.clone();
    for bind in [bind.as_str(), "127.0.0.1:0"] {
        last.signal(Signal::SIGKILL);
        last.wait();
        last = Agent::start("e", &[&rest[0].gossip], &["--bind", bind]);
        let run = |agent: &Agent| agent.client(&["members", "--format", "json"]).1;
        let gossip = last.gossip.clone();
        for agent in &rest {
            wait_for("everybody knows the new address", || run(agent).contains(&gossip).then_some(()));
            agent.wait_for_up(&FIVE);
        }
    }
}

#[test]
fn a_name_in_use_is_refused_with_its_own_exit_code() {
    let a = Agent::start("a", &[], &[]);
    let b = Agent::start("b", &[&a.gossip], &[]);
    a.wait_for_up(&["a", "b"]);
    let mut thief = Agent::start("b", &[&a.gossip], &[]);
    assert_eq!(thief.wait().code(), Some(5), "{}", thief.log());
    assert!(thief.log().contains("already in use by"), "{}", thief.log());
    a.wait_for_up(&["a", "b"]);
    drop(b);
}

#[test]
fn a_forced_removal_stops_the_process_with_its_own_exit_code() {
    let a = Agent::start("a", &[], &[]);
    let mut b = Agent::start("b", &[&a.gossip], &[]);
    a.wait_for_up(&["a", "b"]);
    let (refused, _) = a.client(&["remove", "b"]);
    assert_eq!(refused.code(), Some(1), "it is up: only by force");
    let (done, _) = a.client(&["remove", "b", "--force"]);
    assert!(done.success());
    assert_eq!(b.wait().code(), Some(6), "{}", b.log());
    a.wait_for_up(&["a"]);
}

#[test]
fn state_survives_a_restart_and_nobody_shares_it() {
    let directory = tempfile::tempdir().expect("a directory");
    let data = directory.path().to_str().expect("text");
    let a = Agent::start("a", &[], &[]);
    let mut b = Agent::start("b", &[&a.gossip], &["--data-dir", data]);
    a.wait_for_up(&["a", "b"]);
    let second = std::process::Command::new(crate::support::HEADCOUNT)
        .args(["agent", "--name", "c", "--bind", "127.0.0.1:0", "--http", "off", "--data-dir", data])
        .output()
        .expect("runs");
    assert_eq!(second.status.code(), Some(4), "{}", String::from_utf8_lossy(&second.stderr));
    // It remembers where the others are: no seed is needed to come back.
    wait_for("addresses are remembered", || {
        // Not what is being written beside it: that is gone if the process is killed now.
        let bytes = std::fs::read(directory.path().join("headcount.state")).ok()?;
        let port = a.gossip.rsplit(':').next().expect("a port").parse::<u16>().expect("a number");
        let varint = [(port & 0x7f) as u8 | 0x80, (port >> 7 & 0x7f) as u8 | 0x80, (port >> 14) as u8];
        bytes.windows(3).any(|window| window == varint).then_some(())
    });
    b.signal(Signal::SIGKILL);
    b.wait();
    let b = Agent::start("b", &[], &["--data-dir", data]);
    b.wait_for_up(&["a", "b"]);
}

/// Waits until every agent has so many links, by its own account.
fn wait_for_links(agents: &[Agent], each: f64) {
    for agent in agents {
        wait_for("links stand", || (agent.metric("headcount_links") >= each).then_some(()));
    }
}

/// In the default profile silence alone would take fifteen seconds, and say `heartbeat_timeout`.
#[test]
fn a_killed_process_is_reported_through_its_broken_links() {
    let agents = five_in("default");
    wait_for_links(&agents, 4.0);
    let watches: Vec<_> = agents.iter().map(Agent::watch).collect();
    agents[4].signal(Signal::SIGKILL);
    for watch in &watches[..4] {
        watch.wait_for("e", "node_detected_down");
        let down = watch.events().into_iter().rfind(|event| event["node"] == "e").expect("just seen");
        assert_eq!(down["method"], "connection_lost");
    }
    for agent in &agents[..4] {
        agent.wait_for_up(&FIVE[..4]);
    }
}

#[test]
fn a_process_restarted_at_once_on_its_port_is_reported_down_once_and_joins() {
    let mut agents = five_in("local");
    wait_for_links(&agents, 4.0);
    let watch = agents[0].watch();
    let (old, seed) = (agents.pop().expect("five"), agents[0].gossip.clone());
    let bind = old.gossip.clone();
    drop(old);
    let again = Agent::start("e", &[&seed], &["--bind", &bind]);
    again.wait_for_up(&FIVE);
    watch.wait_for("e", "node_joined");
    let downs: Vec<_> = watch.events().into_iter().filter(|event| event["event"] == "node_detected_down").collect();
    assert_eq!(downs.len(), 1, "{downs:?}");
    // On a busy machine the new process may come after the verdict on the old one.
    assert!(["restarted", "connection_lost"].contains(&downs[0]["method"].as_str().expect("a text")), "{downs:?}");
}

#[test]
fn a_second_signal_ends_at_once() {
    let a = Agent::start("a", &[], &[]);
    let b = Agent::start("b", &[&a.gossip], &[]);
    let mut c = Agent::start("c", &[&a.gossip], &[]);
    c.wait_for_up(&["a", "b", "c"]);
    // Nobody can confirm the departure, so it takes its whole second.
    a.signal(Signal::SIGSTOP);
    b.signal(Signal::SIGSTOP);
    c.signal(Signal::SIGTERM);
    wait_for("the first signal is taken", || c.log().to_lowercase().contains("leav").then_some(()));
    c.signal(Signal::SIGINT);
    let status = c.wait();
    assert!(matches!(status.code(), Some(130 | 0)), "{status:?}\n{}", c.log());
}
