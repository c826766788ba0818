//! Embeds a node in a program and follows members that come and go, until Ctrl-C.
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
    // Members that are Up or Suspect may be given work, unless they drain; the snapshot lists the Down and the Left, too.
    let may_work = |members: &[Member]| members.iter().filter(|member| member.may_work()).count();
    println!("members that may be given work: {}", may_work(&snapshot.members));
    loop {
        tokio::select! {
            event = events.recv() => match event {
                Ok(event) => match event.kind.node() {
                    Some(node) => println!("{} {node}", event.kind.name()),
                    // Partitions concern many members: `EventKind::PartitionSuspected` lists both sides.
                    None => println!("{}", event.kind.name()),
                },
                // A reader that is too slow misses events, never the state: it begins again from the present members.
                Err(RecvError::Lagged { .. }) => println!("members now: {}", may_work(&events.resync().members)),
                Err(_) => return Err(agent.stopped().await.into()),
            },
            _ = tokio::signal::ctrl_c() => break,
        }
    }
    // Without this goodbye the others would take the end for a crash.
    println!("{}", agent.leave().await);
    Ok(())
}
