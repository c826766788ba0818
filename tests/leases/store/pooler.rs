//! PgBouncer in transaction mode between the stores and the server: the suite, and sessions that change hands.

use headcount::lease::Outcome;

use super::harness::{Bench, acquire, holding, renew};
use super::postgres::bench;
use crate::pgbouncer;
use crate::server;

async fn start(_case: &str) -> Option<Bench> {
    let server = server::shared()?;
    let pooler = pgbouncer::before(&server)?;
    Some(bench(&pooler, &server).await)
}

crate::store::suite! { start }

#[tokio::test]
async fn sessions_change_hands_after_each_transaction_and_nothing_is_carried_over() {
    let Some(bench) = start("").await else { return };
    // More nodes than sessions.
    let mut nodes: Vec<_> = (0..6).map(|number| bench.node(&format!("n{number}"))).collect();
    for node in &mut nodes {
        node.watch().await;
    }
    nodes[0].one(acquire(1)).await;
    for drawn in 2..20 {
        assert_eq!(nodes[0].one(renew(&[drawn - 1], drawn)).await.outcome, Outcome::Renewed);
        for node in &mut nodes[1..] {
            assert_eq!(holding(&node.one(acquire(1_000)).await), (Outcome::Held, 1, Some(("n0", drawn, 1))));
        }
    }
}
