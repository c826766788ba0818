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

fn main() -> Result<(), Box<dyn Error>> {
    let address = std::env::args().nth(1).ok_or("usage: client HTTP_ADDRESS")?;
    let client = Client::new(&address)?;
    let info = client.info()?;
    println!("{} of the cluster {}, version {}", info.node, info.cluster, info.version);

    // The names of members that may be given work. Three kinds of events keep it right.
    let mut live = BTreeSet::new();
    for update in client.events(&EventQuery::all().from_snapshot())? {
        match update? {
            EventUpdate::Snapshot(snapshot) => {
                let may_work = |status: &str| matches!(status, "up" | "suspect");
                let members = snapshot.members.into_iter().filter(|member| may_work(&member.status));
                live = members.map(|member| member.id).collect();
            }
            EventUpdate::Event(event) => match (event.event.as_str(), event.node) {
                ("node_joined", Some(node)) => drop(live.insert(node)),
                ("node_left" | "node_detected_down", Some(node)) => drop(live.remove(&node)),
                _ => continue,
            },
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
