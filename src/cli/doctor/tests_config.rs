//! The configuration of a node that is to start: its data directory, its ports, its name.

use std::fs;
use std::net::{Ipv4Addr, UdpSocket};

use super::ports::{self, Holder};
use super::probe::{Udp, Voice, probe};
use super::report::Level;
use super::tests::{key, level_of, one};
use super::tests_probe::{agent_of, start};
use super::*;
use crate::Config;
use crate::cli::args::DoctorArgs;

/// Runs `doctor --config` with a file of this text; returns the report, as programs read it.
fn reported(text: &str) -> serde_json::Value {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("config.toml");
    fs::write(&file, text).expect("written");
    let file = file.to_str().expect("text");
    reported_of(&["--config", file])
}

/// Runs `doctor` with these arguments; returns the report.
fn reported_of(arguments: &[&str]) -> serde_json::Value {
    use clap::Parser as _;

    #[derive(clap::Parser)]
    struct Line {
        #[command(flatten)]
        args: DoctorArgs,
    }
    let line = Line::try_parse_from([&["doctor", "--format", "json"], arguments].concat()).expect("arguments");
    let mut out = Vec::new();
    run(&line.args, &mut out).expect("a report");
    serde_json::from_slice(&out).expect("JSON")
}

/// Returns levels and sentences of one check.
fn of<'a>(report: &'a serde_json::Value, check: &str) -> Vec<(&'a str, &'a str)> {
    let text = |finding: &'a serde_json::Value, key: &str| finding[key].as_str().unwrap_or_default();
    let checks = report["checks"].as_array().expect("checks").iter();
    checks.filter(|it| it["check"] == check).map(|it| (text(it, "level"), text(it, "found"))).collect()
}

/// Starts an agent that stores its state in this directory, and ends it.
fn leave_state(directory: &Path, name: &str, cluster: &str, votes: bool) {
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    let mut config = Config::new(name).expect("a name").with_profile(crate::Profile::Local);
    config.cluster = cluster.parse().expect("a name");
    config.bind = Some(SocketAddr::from((Ipv4Addr::LOCALHOST, 0)));
    config.data_dir = Some(directory.to_owned());
    let config = if votes { config.with_voters([name]).expect("a name") } else { config };
    runtime.block_on(async {
        let agent = crate::Agent::start(config).await.expect("started");
        agent.wait_until_up().await.expect("up");
        if votes {
            agent.leadership().wait_for(crate::agent::Leadership::is_leader_now).await.expect("it leads");
        }
        agent.leave().await;
    });
}

#[test]
fn the_state_of_another_cluster_or_voter_fails_before_an_agent_starts() {
    let data = tempfile::tempdir().expect("a folder");
    let of_node = |name: &str, cluster: &str, is_voter: bool| {
        let directory = data.path().join(format!("{name}{is_voter}"));
        leave_state(&directory, name, cluster, is_voter);
        directory
    };
    let (member, voter) = (of_node("a", "shop", false), of_node("a", "shop", true));
    let judged = |directory: &Path, name: &str, cluster: &str, is_named: bool| {
        let mut config = Config::new(name).expect("a name");
        config.cluster = cluster.parse().expect("a name");
        local::owner(directory, &config, is_named).map(|finding| finding.level)
    };
    assert_eq!(judged(&member, "a", "shop", true), None);
    assert_eq!(judged(&member, "b", "shop", true), Some(Level::Warn), "a node may be renamed");
    assert_eq!(judged(&member, "a", "mall", true), Some(Level::Fail));
    assert_eq!(judged(&voter, "a", "shop", true), None);
    assert_eq!(judged(&voter, "b", "shop", true), Some(Level::Fail), "a voter is not");
    assert_eq!(judged(&voter, "b", "shop", false), Some(Level::Warn), "a flag may name it");
    assert_eq!(judged(&data.path().join("none"), "a", "shop", true), None);
    fs::write(member.join("headcount.state"), b"something").expect("written");
    assert_eq!(judged(&member, "a", "shop", true), Some(Level::Fail), "not a state");
}

#[test]
fn a_state_is_looked_at_while_its_agent_holds_it_and_is_left_as_it_is() {
    let data = tempfile::tempdir().expect("a folder");
    leave_state(data.path(), "a", "shop", true);
    let files = || -> Vec<(String, Vec<u8>)> {
        let entries = fs::read_dir(data.path()).expect("a folder").flatten();
        let mut all: Vec<_> = entries
            .map(|entry| (entry.file_name().to_string_lossy().into_owned(), fs::read(entry.path()).expect("a file")))
            .collect();
        all.sort();
        all
    };
    let before = files();
    let (cluster, node) = ("shop".parse().expect("a name"), "a".parse().expect("a name"));
    let held = crate::store::Store::open(data.path(), &cluster, &node).expect("opened");
    assert!(matches!(crate::store::look_at(data.path(), &cluster, &node), Ok(None)));
    assert!(crate::store::look_at(data.path(), &node, &node).is_err(), "it is read");
    drop(held);
    assert_eq!(files(), before);
}

#[test]
fn whoever_has_the_port_of_a_node_that_is_to_start_is_named() {
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    let (agent, address) = agent_of(&runtime, "a", "shop");
    let report = |name: &str, more: &str| {
        reported(&format!(
            "name = \"{name}\"\ncluster = \"shop\"\nbind = \"{address}\"\n{more}\n[http]\nbind = \"127.0.0.1:0\"\n"
        ))
    };
    let own = report("a", "");
    assert!(matches!(of(&own, "ports")[..], [("ok", said)] if said.contains("agent runs here")), "{own}");
    let other = report("b", "");
    assert!(matches!(of(&other, "ports")[..], [("fail", said)] if said.contains("the agent of a")), "{other}");
    assert_eq!(other["ok"], false);
    // Its own seed list may name it.
    let seeded = report("a", &format!("seeds = [\"{address}\"]"));
    assert_eq!(of(&seeded, "name"), [], "{seeded}");
    runtime.block_on(agent.leave());
}

#[test]
fn a_name_that_a_live_member_has_fails() {
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    let (agent, address) = agent_of(&runtime, "a", "shop");
    let report = |name: &str| {
        reported(&format!(
            "{name}cluster = \"shop\"\nbind = \"127.0.0.1:0\"\nseeds = [\"{address}\"]\n[http]\nbind = \"127.0.0.1:0\"\n"
        ))
    };
    let taken = report("name = \"a\"\n");
    assert!(matches!(of(&taken, "name")[..], [("fail", said)] if said.contains(&address.to_string())), "{taken}");
    assert_eq!(of(&report("name = \"b\"\n"), "name"), []);
    assert_eq!(of(&report(""), "name"), [], "the file names nobody");
    // The question is whether this very node runs.
    let record = match probe(address, Some(Voice::clear("shop"))).udp {
        Udp::Member(record) => record,
        other => panic!("{other:?}"),
    };
    let seen = [one("seed", &address.to_string(), Udp::Member(record), Ok(()))];
    let name = "a".parse().expect("a name");
    assert!(ports::name_in_use(&name, &Holder::Nobody, &seen).is_some());
    assert!(ports::name_in_use(&name, &Holder::Somebody, &seen).is_none());
    runtime.block_on(agent.leave());
}

#[test]
fn a_port_that_something_else_has_is_told_of() {
    let taken = UdpSocket::bind("127.0.0.1:0").expect("bound");
    let http = std::net::TcpListener::bind("127.0.0.1:0").expect("bound");
    let (gossip, http) = (taken.local_addr().expect("bound"), http.local_addr().map(|at| (at, http)).expect("bound"));
    let report = reported(&format!("name = \"a\"\nbind = \"{gossip}\"\n[http]\nbind = \"{}\"\n", http.0));
    let said = of(&report, "ports");
    assert!(matches!(said[..], [("warn", said)] if said.contains(&gossip.port().to_string())), "{report}");
    let report = reported(&format!("name = \"a\"\nbind = \"127.0.0.1:0\"\n[http]\nbind = \"{}\"\n", http.0));
    let said = of(&report, "ports");
    assert!(matches!(said[..], [("ok", _), ("fail", http)] if http.contains("HTTP")), "{report}");
    drop((taken, http.1));
    let report = reported(&format!("name = \"a\"\nbind = \"{gossip}\"\n[http]\nbind = \"{}\"\n", http.0));
    assert!(matches!(of(&report, "ports")[..], [("ok", "the gossip port is free")]), "{report}");
}

#[test]
fn findings_on_ports_have_a_level_each() {
    let config = |bind: &str| {
        let mut config = Config::new("a").expect("a name");
        config.bind = Some(bind.parse().expect("an address"));
        config
    };
    let level = |holder: Holder| level_of(&ports::judge(&config("127.0.0.1:7117"), &holder, None), "ports");
    let member = |name: &str| Holder::Member(name.to_owned(), "127.0.0.1:7117".parse().expect("an address"));
    assert_eq!(level(Holder::Nobody), Some(Level::Ok));
    assert_eq!(level(member("a")), Some(Level::Ok));
    assert_eq!(level(member("b")), Some(Level::Fail));
    let waits_for_a_restart = ports::judge(&config("[::]:7117"), &member("a"), None);
    assert_eq!(level_of(&waits_for_a_restart, "ports"), Some(Level::Warn));
    assert_eq!(level(Holder::Somebody), Some(Level::Warn));
}

#[test]
fn a_key_file_on_the_command_line_seals_what_seeds_are_asked() {
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("cluster.key");
    let ring = crate::seal::KeyRing::new([key()]).expect("a key");
    fs::write(&file, crate::seal::KeyFile::default().with(&ring).text().as_bytes()).expect("written");
    let mut config = Config::new("a").expect("a name").with_profile(crate::core::Profile::Local);
    config.seal.keys.push(key());
    let (agent, address) = start(&runtime, config, "shop");
    let seed = address.to_string();
    let asked = |more: &[&str]| reported_of(&[&["--seed", &seed, "--cluster", "shop"], more].concat());
    let level = |report: &serde_json::Value| of(report, "seeds").first().map(|(level, _)| (*level).to_owned());
    assert_eq!(level(&asked(&["--key-file", file.to_str().expect("text")])).as_deref(), Some("ok"));
    assert_eq!(level(&asked(&[])).as_deref(), Some("fail"));
    runtime.block_on(agent.leave());
}
