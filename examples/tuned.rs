//! A pace of one's own, set in code: quicker than the profile `lan` where that is safe, and what each figure costs.
//!
//! `cargo run --example tuned` shows the figures, and what happens to some that make no sense.

use std::error::Error;
use std::time::Duration;

use headcount::{Agent, Config, Profile, Settings};

/// Three racks with a quiet network between them, and a need to know within four seconds that a host is gone.
fn three_racks() -> Settings {
    Settings {
        // Every node is judged by its *own* figures, wherever it is judged: they travel in its record, so nodes may
        // differ, and these can be rolled out one by one.
        //
        // A sign of life per peer and second. Halving this doubles the packets; what is noticed when is up to the next
        // two.
        heartbeat_interval: Duration::from_secs(1),
        // Silence for three heartbeats before anybody says so. The last fifth of it is spent on probing, so that a few
        // lost packets end in an answered probe and not in a suspicion. Twice the heartbeat is the least allowed.
        suspect_timeout: Duration::from_secs(3),
        // What remains is the suspect's chance to say otherwise. A second is many round trips here; across an ocean, or
        // where processes pause for their garbage, it would bury the living.
        down_timeout: Duration::from_secs(4),
        // Three probes must fit into that last fifth: suspect_timeout / 15 is the most. Far above any round trip here.
        probe_timeout: Duration::from_millis(100),
        // What got lost in the first flood of news is found by gossip, so a shorter interval only shortens the tail.
        // Gossip stands in for heartbeats: at this pace few travel alone.
        gossip_interval: Duration::from_millis(500),
        // How often lost members and seeds are looked for: soon after a cut has healed, its sides find each other.
        retry_interval: Duration::from_secs(2),
        // The racks' operators want to see for a week who has gone.
        reap_after: Duration::from_secs(7 * 24 * 3600),
        // Everything else as in the profile: named here, so that a later release may improve it.
        ..Profile::Lan.settings()
    }
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let mut config = Config::new("tuned")?.with_profile(Profile::Lan).with_bind("127.0.0.1:0".parse()?);
    config.settings = three_racks();
    // Starting checks this anyway; checking by hand tells of mistakes before anything runs.
    config.check()?;
    let agent = Agent::start(config).await?;
    agent.wait_until_up().await?;
    let Settings { heartbeat_interval, suspect_timeout, down_timeout, .. } = agent.info().settings;
    println!("a sign of life every {heartbeat_interval:?}, Suspect at {suspect_timeout:?}, Down at {down_timeout:?}");

    // Figures that do not go together are refused, each with the range that the others leave it.
    let hasty = Settings { suspect_timeout: Duration::from_millis(1_500), ..three_racks() };
    for problem in hasty.problems() {
        println!("refused: {problem}");
    }
    println!("{}", agent.leave().await);
    Ok(())
}
