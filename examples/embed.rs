//! Embeds a node in a program and follows who comes and goes, until Ctrl-C.
//!
//! In two terminals, the second joining through the first:
//!
//! ```text
//! cargo run --example embed -- a 127.0.0.1:7101
//! cargo run --example embed -- b 127.0.0.1:7102 127.0.0.1:7101
//! ```

use std::error::Error;

use headcount::agent::RecvError;
use headcount::{Agent, Config, Member, Profile};

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let mut args = std::env::args().skip(1);
    let (Some(name), Some(bind)) = (args.next(), args.next()) else {
        return Err("usage: embed NAME ADDRESS:PORT [SEED...]".into());
    };
    let config = Config::new(&name)?.with_profile(Profile::Local).with_bind(bind.parse()?).with_seeds(args);
    let agent = Agent::start(config).await?;
    agent.wait_until_up().await?;
    let (snapshot, mut events) = agent.subscribe_from_snapshot();
    // Those that are Up or Suspect may be given work; the snapshot has the dead and the departed, too.
    let here = |members: &[Member]| members.iter().filter(|member| member.may_work()).count();
    println!("{} members here", here(&snapshot.members));
    loop {
        tokio::select! {
            event = events.recv() => match event {
                Ok(event) => match event.kind.node() {
                    Some(node) => println!("{} {node}", event.kind.name()),
                    // Partitions are about many: `EventKind::PartitionSuspected` says who is on which side.
                    None => println!("{}", event.kind.name()),
                },
                // Too slow a reader misses events, never the state: it begins again from the members as they are now.
                Err(RecvError::Lagged { .. }) => println!("{} members now", here(&events.resync().members)),
                Err(_) => return Err(agent.stopped().await.into()),
            },
            _ = tokio::signal::ctrl_c() => break,
        }
    }
    // Without this goodbye the others would take the end for a crash.
    println!("{}", agent.leave().await);
    Ok(())
}
