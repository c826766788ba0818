//! What a node says of its mode. The way from clear to sealed and back is among the recipes.

use nix::sys::signal::Signal;

use super::cluster::{Files, logged};
use crate::support::{Agent, wait_for};

#[test]
fn a_node_that_others_reach_says_at_its_start_that_it_takes_clear_packets_and_a_sealed_one_has_nothing_to_say() {
    let files = Files::new();
    let key = files.generate("cluster.key");
    let key = key.to_str().expect("a text");
    let started = |name: &str, bind: &str, mode: &str| {
        let config = files.path(&format!("{name}.toml"));
        std::fs::write(&config, format!("cluster = \"mine\"\n[seal]\nmode = \"{mode}\"\nkey_file = \"{key}\"\n"))
            .expect("written");
        let agent = Agent::start(name, &[], &["--bind", bind, "--config", config.to_str().expect("a text")]);
        agent.wait_for_up(&[name]);
        agent
    };
    for mode in ["off", "permit", "prefer"] {
        let agent = started(mode, "0.0.0.0:0", mode);
        logged(&agent, &format!("which others can reach, and clear packets are taken (seal.mode = {mode})"));
        logged(&agent, "make a key and give it to all nodes (seal.key_file)");
    }
    for (name, bind, mode) in [("sealed", "0.0.0.0:0", "require"), ("alone", "127.0.0.1:0", "off")] {
        let agent = started(name, bind, mode);
        assert!(!agent.log().contains("clear packets are taken"), "{name}: {}", agent.log());
    }
}

#[test]
fn a_step_too_far_is_told_of_with_those_who_do_not_follow() {
    let files = Files::new();
    let key = files.generate("cluster.key");
    let write = |name: &str, mode: &str| {
        let text = format!("cluster = \"mine\"\n[seal]\nmode = \"{mode}\"\nkey_file = {key:?}\n");
        std::fs::write(files.path(&format!("{name}.toml")), text).expect("written");
    };
    let start = |name: &str, seeds: &[&str]| {
        write(name, "off");
        let config = files.path(&format!("{name}.toml"));
        Agent::start(name, seeds, &["--bind", "127.0.0.1:0", "--config", config.to_str().expect("a text")])
    };
    let a = start("a", &[]);
    let b = start("b", &[&a.gossip]);
    b.wait_for_up(&["a", "b"]);
    write("a", "permit");
    a.signal(Signal::SIGHUP);
    logged(&a, "-> permit [");
    assert!(!a.log().contains("a step too far"), "{}", a.log());
    wait_for("the verdict names the step that is not finished, and who has not taken it", || {
        let told = a.get("/v1/verdict");
        (told.contains("\"clear_taken\"") && told.contains("(seal.mode = permit); b sends some")).then_some(())
    });
    assert!(b.get("/v1/verdict").contains("\"well\""), "nothing is sealed there, nor is to be");
    write("a", "prefer");
    a.signal(Signal::SIGHUP);
    logged(&a, "seal.mode = prefer is a step too far for b (off)");
}

#[test]
fn a_node_without_a_key_says_that_it_joins_nobody_elsewhere_and_when_others_are_let_in_by_a_reload() {
    let files = Files::new();
    let config = files.path("a.toml");
    std::fs::write(&config, "cluster = \"mine\"\n").expect("written");
    let a = Agent::start("a", &[], &["--bind", "127.0.0.1:0", "--config", config.to_str().expect("a text")]);
    a.wait_for_up(&["a"]);
    let text = a.post("/v1/join", &serde_json::json!({ "addresses": ["192.0.2.1:7117"] }));
    assert!(text.contains("this node has no key, and hears its own machine alone"), "{text}");
    std::fs::write(&config, "cluster = \"mine\"\n[seal]\nmode = \"off\"\n").expect("written");
    a.signal(Signal::SIGHUP);
    logged(&a, "packets of other machines are taken without seals from now on (seal.mode = off)");
}

#[test]
fn a_flag_that_beats_the_key_in_the_file_is_told_of() {
    let files = Files::new();
    let key = files.generate("cluster.key");
    let config = files.path("a.toml");
    std::fs::write(&config, format!("cluster = \"mine\"\n[seal]\nkey_file = {key:?}\n")).expect("written");
    let config = config.to_str().expect("a text");
    let a = Agent::start("a", &[], &["--bind", "127.0.0.1:0", "--insecure", "--config", config]);
    logged(&a, "which name a key: nothing is sealed");
}
