//! Asks an agent over HTTP, without being a member: lists the members, and follows who is there, across broken
//! connections.
//!
//! With an agent on this machine (`headcount dev` runs three):
//!
//! ```text
//! cargo run --example client -- 127.0.0.1:7118
//! ```

use std::collections::BTreeSet;
use std::error::Error;

use headcount::client::{Client, EventQuery, EventUpdate};
use headcount::json::Member;

fn may_work(member: &Member) -> bool {
    matches!(member.status.as_str(), "up" | "suspect") && !member.draining
}

fn main() -> Result<(), Box<dyn Error>> {
    let address = std::env::args().nth(1).ok_or("usage: client HTTP_ADDRESS")?;
    let client = Client::new(&address)?;
    let info = client.info()?;
    println!("{} of the cluster {}, version {}", info.node, info.cluster, info.version);

    // The names of members that may be given work: those that are here and do not drain.
    let mut live = BTreeSet::new();
    for update in client.events(&EventQuery::all().from_snapshot())? {
        match update? {
            EventUpdate::Snapshot(snapshot) => {
                live = snapshot.members.into_iter().filter(may_work).map(|member| member.id).collect();
            }
            // An event about a member brings what that is like now.
            EventUpdate::Event(event) => {
                let Some(member) = event.member else { continue };
                let is_new = if may_work(&member) { live.insert(member.id) } else { live.remove(&member.id) };
                if !is_new {
                    continue;
                }
            }
            EventUpdate::Lost { reason } => {
                eprintln!("the stream {reason}: these may be old");
                continue;
            }
            EventUpdate::Resumed => {
                eprintln!("the stream goes on");
                continue;
            }
            _ => continue,
        }
        println!("live: {}", live.iter().map(String::as_str).collect::<Vec<_>>().join(" "));
    }
    Ok(())
}
