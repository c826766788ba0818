//! The way from clear to sealed and back.

use std::net::UdpSocket;
use std::time::Duration;

use nix::sys::signal::Signal;

use crate::cluster::{Files, address, dropped, logged};
use crate::support::{Agent, wait_for};

#[test]
fn a_clear_cluster_is_sealed_step_by_step_and_unsealed_again() {
    let files = Files::new();
    let key = files.generate("cluster.key");
    let key = key.to_str().expect("a text");
    let config = |name: &str, mode: &str| {
        let text = format!("[seal]\nmode = \"{mode}\"\nkey_file = \"{key}\"\n");
        std::fs::write(files.path(&format!("{name}.toml")), text).expect("written");
    };
    let names = ["a", "b", "c"];
    for name in names {
        config(name, "off");
    }
    let start = |name: &str, seeds: &[&str]| {
        let file = files.path(&format!("{name}.toml"));
        Agent::start(name, seeds, &["--config", file.to_str().expect("a text")])
    };
    let a = start("a", &[]);
    let b = start("b", &[&a.gossip]);
    let c = start("c", &[&a.gossip]);
    let agents = [&a, &b, &c];
    let watches = agents.map(Agent::watch);
    for agent in agents {
        agent.wait_for_up(&names);
    }
    for step in ["permit", "prefer", "require", "prefer", "permit", "off"] {
        for agent in agents {
            config(&agent.name, step);
            let before = agent.log().matches(&format!("-> {step} [")).count();
            agent.signal(Signal::SIGHUP);
            wait_for(&format!("{} takes the step to {step}\n{}", agent.name, agent.log()), || {
                (agent.log().matches(&format!("-> {step} [")).count() > before).then_some(())
            });
        }
        // Long enough for a suspicion in this profile.
        std::thread::sleep(Duration::from_millis(1_500));
        for agent in agents {
            agent.wait_for_up(&names);
        }
        // Members that are one step apart understand all that they say to each other.
        for agent in agents {
            assert!(dropped(agent, "sealed_unknown_key") < 1.0, "at the step to {step}: {}", agent.log());
        }
        if step == "require" {
            let socket = UdpSocket::bind("127.0.0.1:0").expect("a port");
            let before = dropped(&a, "unsealed");
            socket.send_to(&[0; 64], address(&a)).expect("sent");
            wait_for("clear packets are refused", || (dropped(&a, "unsealed") > before).then_some(()));
        }
    }
    for agent in agents {
        logged(agent, "clear packets are taken again (seal.mode = prefer)");
    }
    for watch in &watches {
        let kinds: Vec<_> = watch.events().iter().map(|event| event["event"].clone()).collect();
        assert!(!kinds.iter().any(|kind| kind == "node_detected_down"), "{kinds:?}");
    }
}

#[test]
fn a_node_that_others_reach_says_at_its_start_that_it_takes_clear_packets_and_a_sealed_one_has_nothing_to_say() {
    let files = Files::new();
    let key = files.generate("cluster.key");
    let key = key.to_str().expect("a text");
    let started = |name: &str, bind: &str, mode: &str| {
        let config = files.path(&format!("{name}.toml"));
        std::fs::write(&config, format!("[seal]\nmode = \"{mode}\"\nkey_file = \"{key}\"\n")).expect("written");
        let agent = Agent::start(name, &[], &["--bind", bind, "--config", config.to_str().expect("a text")]);
        agent.wait_for_up(&[name]);
        agent
    };
    for mode in ["off", "permit", "prefer"] {
        let agent = started(mode, "0.0.0.0:0", mode);
        logged(&agent, &format!("which others can reach, and clear packets are taken (seal.mode = {mode})"));
        logged(&agent, "make a key (`headcount keys generate`) and give it to all nodes (--key-file)");
    }
    for (name, bind, mode) in [("sealed", "0.0.0.0:0", "require"), ("alone", "127.0.0.1:0", "off")] {
        let agent = started(name, bind, mode);
        assert!(!agent.log().contains("clear packets are taken"), "{name}: {}", agent.log());
    }
}
