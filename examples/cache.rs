//! Three services cache data that is kept elsewhere, and tell each other of changes.
//!
//! A broadcast names the key that is out of date, so that a stale answer lives for milliseconds. It is a hint and no
//! log: a broadcast that a cut keeps away is not repeated later. So each entry also has a time to live, which bounds
//! the age of a stale answer in any case.
//!
//! `cargo run --example cache` runs all three in one process; in production each service's process has an agent of its
//! own.

use std::collections::HashMap;
use std::error::Error;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use headcount::agent::ReceiveError;
use headcount::{Agent, Config, Profile};

/// The longest time for which an answer may be stale, if no broadcast arrives.
const TIME_TO_LIVE: Duration = Duration::from_secs(60);
const TOPIC: &str = "cache.changed";

/// The cached entries of this service, each with the time at which it was cached.
#[derive(Clone, Default)]
struct Cache(Arc<Mutex<HashMap<String, (String, Instant)>>>);

impl Cache {
    fn put(&self, key: &str, value: &str) {
        self.0.lock().expect("not poisoned").insert(key.to_owned(), (value.to_owned(), Instant::now()));
    }

    fn get(&self, key: &str) -> Option<String> {
        let entries = self.0.lock().expect("not poisoned");
        entries.get(key).filter(|(_, since)| since.elapsed() < TIME_TO_LIVE).map(|(value, _)| value.clone())
    }

    fn forget(&self, keys: &[String]) {
        let mut entries = self.0.lock().expect("not poisoned");
        for key in keys {
            entries.remove(key);
        }
    }

    fn forget_all(&self) {
        self.0.lock().expect("not poisoned").clear();
    }
}

/// Forgets the keys that others name as out of date, for as long as the agent runs.
fn follow(agent: &Agent, cache: Cache) -> Result<(), Box<dyn Error>> {
    let mut changed = agent.messages::<Vec<String>>(TOPIC)?;
    tokio::spawn(async move {
        loop {
            match changed.recv().await {
                Ok(message) => cache.forget(&message.value),
                // The missed messages may have named any key.
                Err(ReceiveError::Lagged { .. }) => cache.forget_all(),
                Err(ReceiveError::Closed) => return,
                Err(error) => eprintln!("{error}"),
            }
        }
    });
    Ok(())
}

async fn start(name: &str, seeds: &[String]) -> Result<Agent, Box<dyn Error>> {
    let config = Config::new(name)?.with_profile(Profile::Local).with_bind("127.0.0.1:0".parse()?).with_seeds(seeds);
    let agent = Agent::start(config).await?;
    agent.wait_until_up().await?;
    Ok(agent)
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let first = start("orders", &[]).await?;
    let seeds = [first.gossip_address().to_string()];
    let services = [first, start("billing", &seeds).await?, start("shop", &seeds).await?];
    let caches = [Cache::default(), Cache::default(), Cache::default()];
    for (agent, cache) in services.iter().zip(&caches) {
        cache.put("price of tea", "3 euros");
        follow(agent, cache.clone())?;
    }
    while services.iter().any(|agent| agent.live_members().len() < services.len()) {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }

    // The price is changed where it is kept, then all services are told.
    let sent = services[0].broadcast(TOPIC, br#"["price of tea"]"#).await?;
    println!("{} is on its way, services: {}", sent.id, sent.addressed);
    let began = Instant::now();
    while caches.iter().any(|cache| cache.get("price of tea").is_some()) {
        if began.elapsed() > TIME_TO_LIVE {
            return Err("an entry outlived its time".into());
        }
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    println!("nobody has the old price any more");
    for agent in services {
        agent.leave().await;
    }
    Ok(())
}
