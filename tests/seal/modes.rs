//! What a node says of its mode. The way from clear to sealed and back is among the recipes.

use crate::cluster::{Files, logged};
use crate::support::Agent;

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
