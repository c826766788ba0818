//! The term as a fencing token: a store refuses a write that arrives too late.
//!
//! Three nodes elect a leader, whose job is to write to a store. The first leader sends a write that gets stuck on its
//! way, in a network or in a process that is stopped between its check and its write: the window that no lock service
//! can close. Meanwhile it hands over, and its successor writes under a higher term. When the late write arrives, the
//! store refuses it, since it has seen a higher term before.
//!
//! ```text
//! cargo run --example fencing
//! ```

use std::error::Error;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use headcount::{Agent, Config, Profile};

/// The store that the leader writes to: a database, a file, the API of a machine. One rule makes it safe.
#[derive(Debug, Clone, Default)]
struct Store(Arc<Mutex<Contents>>);

#[derive(Debug, Default)]
struct Contents {
    highest_term: u64,
    value: String,
}

impl Store {
    /// Writes, unless a later leader has written before. In SQL: `update t set value = $1, term = $2 where term <= $2`.
    fn write(&self, term: u64, value: &str) -> Result<(), String> {
        let mut contents = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if term < contents.highest_term {
            return Err(format!("a leader of term {} has written already", contents.highest_term));
        }
        contents.highest_term = term;
        value.clone_into(&mut contents.value);
        Ok(())
    }
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let disks = [tempfile::tempdir()?, tempfile::tempdir()?, tempfile::tempdir()?];
    let mut agents: Vec<Agent> = Vec::new();
    for (name, disk) in ["a", "b", "c"].into_iter().zip(&disks) {
        let seeds: Vec<String> = agents.first().map(|first| first.gossip_address().to_string()).into_iter().collect();
        let config = Config::new(name)?.with_profile(Profile::Local).with_bind("127.0.0.1:0".parse()?);
        let mut config = config.with_seeds(seeds).with_voters(["a", "b", "c"])?;
        config.data_dir = Some(disk.path().to_owned());
        agents.push(Agent::start(config).await?);
    }
    let store = Store::default();
    for agent in &agents {
        tokio::spawn(lead(agent.clone(), store.clone()));
    }
    let first = leader_of(&agents[0]).await?;
    let leading = agents.iter().find(|agent| agent.me().id.as_str() == first).ok_or("a node of ours")?;
    leading.leave().await;
    // The successor has written by the time the late write arrives.
    tokio::time::sleep(Duration::from_secs(3)).await;
    let contents = store.0.lock().unwrap_or_else(PoisonError::into_inner);
    println!("the store holds {:?} of term {}", contents.value, contents.highest_term);
    Ok(())
}

/// Runs the leader's job whenever this node leads.
async fn lead(agent: Agent, store: Store) {
    let name = agent.me().id.to_string();
    let job = |term| {
        let (name, store) = (name.clone(), store.clone());
        async move {
            println!("{name} leads in term {term}");
            if term == 1 {
                // Once on its way, a write cannot be called back, not even when its sender leads no more.
                tokio::spawn(async move {
                    tokio::time::sleep(Duration::from_secs(2)).await;
                    match store.write(term, &format!("late, by {name}")) {
                        Ok(()) => println!("the late write of term {term} destroyed what its successor wrote"),
                        Err(why) => println!("the late write of term {term} was refused: {why}"),
                    }
                });
            } else {
                match store.write(term, &format!("fresh, by {name}")) {
                    Ok(()) => println!("{name} wrote in term {term}"),
                    Err(why) => println!("{name} was refused in term {term}: {why}"),
                }
            }
            std::future::pending::<()>().await;
        }
    };
    // Ends with the agent.
    let _ = agent.while_leader(job).await;
}

/// Returns the leader's name, as soon as there is a leader.
async fn leader_of(agent: &Agent) -> Result<String, Box<dyn Error>> {
    let mut leadership = agent.leadership();
    let led = leadership.wait_for(|leadership| leadership.leader.is_some()).await.ok_or("the agent has stopped")?;
    Ok(led.leader.map(|leader| leader.to_string()).unwrap_or_default())
}
