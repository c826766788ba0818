//! A web service that knows its live peers: each instance tells the others its own HTTP address, and lists them.
//!
//! In two terminals, then `curl http://127.0.0.1:8102/peers`:
//!
//! ```text
//! cargo run --example peers -- shop-1 127.0.0.1:7101 127.0.0.1:8101
//! cargo run --example peers -- shop-2 127.0.0.1:7102 127.0.0.1:8102 127.0.0.1:7101
//! ```
//!
//! Reading the members sends nothing: a handler costs a copy of the table, whatever the state of the cluster.

use std::error::Error;

use axum::extract::State;
use axum::http::StatusCode;
use axum::routing::get;
use axum::{Json, Router};
use headcount::{Agent, Config, Member, Profile, Status};
use serde_json::{Value, json};
use tokio::net::TcpListener;

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let mut args = std::env::args().skip(1);
    let (Some(name), Some(gossip), Some(http)) = (args.next(), args.next(), args.next()) else {
        return Err("usage: peers NAME GOSSIP_ADDRESS:PORT HTTP_ADDRESS:PORT [SEED...]".into());
    };
    // Bound first, so that no peer is sent to an address that does not answer.
    let listener = TcpListener::bind(&http).await?;
    let mut config = Config::new(&name)?
        .with_profile(Profile::Local)
        .with_bind(gossip.parse()?)
        .with_seeds(args)
        .with_tags([("service", "shop")])?;
    config.api_address = Some(format!("http://{}", listener.local_addr()?));
    let agent = Agent::start(config).await?;

    let service = Router::new().route("/peers", get(peers)).route("/ready", get(ready)).with_state(agent.clone());
    axum::serve(listener, service).with_graceful_shutdown(end(agent.clone())).await?;
    // The node is still a member while the last requests are answered; then it leaves, so that no peer takes it for
    // dead.
    let stop = agent.leave().await;
    println!("{stop}");
    Ok(())
}

/// Lists all other instances of this service that may be asked. A suspect is still listed: it has not had its chance to refute; one
/// that drains is not.
async fn peers(State(agent): State<Agent>) -> Json<Value> {
    let members = agent.live_members();
    let is_peer = |member: &&Member| !member.is_me && member.may_work() && member.tags.get("service") == Some("shop");
    let peers = members.iter().filter(is_peer).map(|member| {
        json!({
            "name": member.id.as_str(),
            "url": member.api_address,
            "status": member.status.name(),
            "round_trip_ms": member.rtt.map(|rtt| rtt.as_secs_f64() * 1e3),
        })
    });
    Json(peers.collect())
}

/// Answers a load balancer: this instance is ready if it is a full member, with a whole view of its peers.
async fn ready(State(agent): State<Agent>) -> StatusCode {
    if agent.me().status == Status::Up { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE }
}

/// Waits for Ctrl-C, or for the end of the agent: it was removed by an operator, or its name is in use elsewhere.
async fn end(agent: Agent) {
    tokio::select! {
        _ = tokio::signal::ctrl_c() => {}
        stop = agent.stopped() => eprintln!("{stop}"),
    }
}
