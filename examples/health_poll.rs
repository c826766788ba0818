//! Asks every member for its health: a request to each, and the answer or the lack of one.
//!
//! Membership says which members are there; the answers say how the programs there judge themselves. If an answer does
//! not come in time, the request may have been carried out or not.
//!
//! `cargo run --example health_poll` runs three nodes in one process, one of which does not answer.

use std::error::Error;
use std::time::Duration;

use headcount::agent::{MessageError, Received};
use headcount::{Agent, Config, Profile};

const TOPIC: &str = "health";

/// Returns each member's answer.
async fn poll(agent: &Agent) -> Vec<(String, String)> {
    let mut answers = Vec::new();
    for member in agent.live_members() {
        let asked = agent.request(&member.id, TOPIC, b"null", Duration::from_secs(1)).await;
        let word = match asked {
            Ok(word) => serde_json::from_slice(&word).unwrap_or_else(|error| error.to_string()),
            Err(MessageError::NoAnswer { .. }) => "no answer".to_owned(),
            Err(error) => error.to_string(),
        };
        answers.push((member.id.to_string(), word));
    }
    answers
}

async fn start(name: &str, seeds: &[String]) -> Result<Agent, Box<dyn Error>> {
    let config = Config::new(name)?.with_profile(Profile::Local).with_bind("127.0.0.1:0".parse()?).with_seeds(seeds);
    let agent = Agent::start(config).await?;
    agent.wait_until_up().await?;
    Ok(agent)
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let a = start("a", &[]).await?;
    let seeds = [a.gossip_address().to_string()];
    let nodes = [a, start("b", &seeds).await?, start("c", &seeds).await?];
    nodes[0].serve(TOPIC, |_: Received<()>| async { "fine" })?.detach();
    nodes[1].serve(TOPIC, |_: Received<()>| async { "disk nearly full" })?.detach();
    // No program listens on c.
    while nodes.iter().any(|node| node.live_members().len() < nodes.len()) {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    let answers = poll(&nodes[0]).await;
    for (node, word) in &answers {
        println!("{node}: {word}");
    }
    let words: Vec<&str> = answers.iter().map(|(_, word)| word.as_str()).collect();
    assert_eq!(words, ["fine", "disk nearly full", "no answer"]);
    for node in nodes {
        node.leave().await;
    }
    Ok(())
}
