//! Network namespaces: two halves that cannot hear each other, and find each other again.

mod support;

use support::netns::Network;
use support::{Agent, skip, wait_for};

const NAMES: [&str; 6] = ["n0", "n1", "n2", "n3", "n4", "n5"];

fn start(network: &Network) -> Vec<Agent> {
    let seed = format!("{}:7117", network.ip(0));
    let start = |host: usize| {
        let bind = format!("{}:7117", network.ip(host));
        let arguments =
            ["--name", NAMES[host], "--profile", "local", "--bind", &bind, "--seed", &seed, "--http", "127.0.0.1:7118"];
        Agent::start_with(&network.on(host), &arguments)
    };
    (0..NAMES.len()).map(start).collect()
}

/// Six agents on hosts of their own that are all up, if such hosts can be had here. (The agents go before the network.)
fn cluster() -> Option<(Network, Vec<Agent>)> {
    match Network::new(NAMES.len()) {
        Ok(network) => {
            let agents = start(&network);
            for agent in &agents {
                agent.wait_for_up(&NAMES);
            }
            Some((network, agents))
        }
        Err(reason) => {
            skip(&format!("no network namespaces here: {reason}"));
            None
        }
    }
}

#[test]
fn two_halves_declare_each_other_down_and_agree_again_after_healing() {
    let Some((network, agents)) = cluster() else { return };
    network.cut(&[0, 1, 2], &[3, 4, 5]);
    let down = |agent: &Agent| {
        agent.members().into_iter().filter(|(_, status)| status == "down").map(|(id, _)| id).collect::<Vec<_>>()
    };
    for (host, agent) in agents.iter().enumerate() {
        let others = if host < 3 { &NAMES[3..] } else { &NAMES[..3] };
        wait_for("each side declares the other down", || (down(agent) == others).then_some(()));
    }
    network.heal();
    for agent in &agents {
        wait_for("nobody is down any more", || down(agent).is_empty().then_some(()));
        agent.wait_for_up(&NAMES);
    }
}

#[test]
fn a_cut_between_two_of_six_takes_neither_down() {
    let Some((network, agents)) = cluster() else { return };
    let watch = agents[0].watch();
    network.cut(&[1], &[4]);
    // Long enough for either to be suspected and declared down twice over, if nobody asked those who hear it.
    let silence_ms = || {
        let (_, text) = agents[1].client(&["members", "--format", "json"]);
        let members: serde_json::Value = serde_json::from_str(&text).expect("json");
        let lost = members.as_array().expect("a list").iter().find(|member| member["id"] == "n4").expect("listed");
        lost["last_heard_ms"].as_u64()
    };
    wait_for("the cut has lasted", || silence_ms().filter(|silence| *silence >= 5_000));
    assert!(watch.events().is_empty(), "{:?}", watch.events());
    network.heal();
    for agent in &agents {
        agent.wait_for_up(&NAMES);
    }
}
