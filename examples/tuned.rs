//! Custom timing, set in code: quicker than the profile `lan` where that is safe, with the cost of each figure.
//!
//! `cargo run --example tuned` prints the figures, and the refusal of some that do not go together.

use std::error::Error;
use std::time::Duration;

use headcount::{Agent, Config, Profile, Settings};

/// Returns settings for three racks with a quiet network between them, and a need to know within four seconds that a
/// host is gone.
fn three_racks() -> Settings {
    Settings {
        // Every node is judged by its *own* figures at all observers: they travel in its record, so nodes may differ,
        // and these can be rolled out one by one.
        //
        // One sign of life a second to each peer. Halving this doubles the packets; the time of detection depends on
        // the next two.
        heartbeat_interval: Duration::from_secs(1),
        // Silence for three heartbeats before a suspicion. The last fifth of it is spent on probing, so that a few lost
        // packets end in an answered probe and not in a suspicion. A third of the heartbeat is the minimum.
        suspect_timeout: Duration::from_secs(3),
        // The time between the two is the suspect's chance to refute. A second is many round trips here; across an
        // ocean, or with long pauses for garbage collection, it would declare healthy nodes dead.
        down_timeout: Duration::from_secs(4),
        // Six probes come before a suspicion: suspect_timeout / 15 is the maximum. Far above any round trip here.
        probe_timeout: Duration::from_millis(100),
        // Gossip repairs what got lost in the first flood of news, so a shorter interval only shortens the tail. It
        // travels with heartbeats: there are three of them in this time at least.
        gossip_interval: Duration::from_millis(500),
        // Interval at which lost members and seeds are tried: soon after a cut has healed, its sides find each other.
        retry_interval: Duration::from_secs(2),
        // The racks' operators want to see for a week which nodes have gone.
        reap_after: Duration::from_secs(7 * 24 * 3600),
        // Everything else as in the profile: by reference, so that a later release may improve it.
        ..Profile::Lan.settings()
    }
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let mut config = Config::new("tuned")?.with_profile(Profile::Lan).with_bind("127.0.0.1:0".parse()?);
    config.settings = three_racks();
    // Starting checks this anyway; checking first reports mistakes before anything runs.
    config.check()?;
    let agent = Agent::start(config).await?;
    agent.wait_until_up().await?;
    let Settings { heartbeat_interval, suspect_timeout, down_timeout, .. } = agent.info().settings;
    println!("a sign of life every {heartbeat_interval:?}, Suspect at {suspect_timeout:?}, Down at {down_timeout:?}");

    // Figures that do not go together are refused, each with the range that the others leave it.
    let hasty = Settings { suspect_timeout: Duration::from_millis(300), ..three_racks() };
    for problem in hasty.problems() {
        println!("refused: {problem}");
    }
    println!("{}", agent.leave().await);
    Ok(())
}
