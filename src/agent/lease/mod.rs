//! Leadership by leases in a database: one task that owns the [`Contender`](crate::lease::Contender), and the worker that
//! carries its rounds to the [`Store`](crate::lease::store::Store).
//!
//! ```text
//!   Agent, Lease (handles) ──asks──▶ task (owns the contender) ──rounds──▶ worker (owns the store) ──▶ database
//!        ▲                            │        ▲      ▲                          │
//!        └── publishers: who leads ◀──┘        │      └──────── answers ◀────────┘
//!                                            words: what other agents tell, through the driver and gossip
//! ```
//!
//! Invariants:
//! - A claim is published only as the contender tells it, and ends by the clock whether or not anybody says so.
//! - Led work of a term has ended before its lease is released; the contender waits, and so does the goodbye, for a while.
//! - Nobody waits for a database but the worker: neither the driver nor a reader of who leads.
//! - A node that is no member yet leads nothing: one that is refused must not hold a lease.
//! - One connection serves all leases, one request at a time; rounds go before everything else.
//!
//! Must not know: how a database is asked, what a row looks like, when a lease may be taken (the contender's).
//!
//! | idea | file |
//! |---|---|
//! | the task | `task` |
//! | who waits for an answer of the task | `waiting` |
//! | one request after the other to the store | `store_worker` |
//! | the highest terms, on disk | `terms` |
//! | the public handle of one lease | `handle` |
//!
//! Handles and the task share a state ([`lease_state`](super::lease_state)), which knows neither.

mod handle;
mod store_worker;
mod task;
mod terms;
mod waiting;

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;

use tokio::sync::mpsc;
use tracing::Level;

use super::clock::Clock;
use super::error::{Failure, StartError};
use super::lease_state::Leases;
use super::request::Request;
use super::shared::Shared;
use crate::config::Config;
use crate::lease::store::{Store, StoreUrl};
use crate::lease::{Contender, ContenderInit, LeaseName};

pub use handle::{Lease, LeaseError};

/// Returns the highest term that was led by the cluster's lease, as the data directory knows it; 0 if it knows none.
pub(super) async fn highest_term(directory: &Path, cluster: &str) -> Result<u64, StartError> {
    terms::highest(directory, cluster).await
}

/// Makes the task of a configuration that is checked, and runs it. Inside the agent's runtime. `floor` is the highest term that
/// voters gave, as the data directory knows it.
pub(super) async fn start(
    config: &Config,
    clock: Clock,
    shared: &Arc<Shared>,
    driver: mpsc::WeakSender<Request>,
    advertised: SocketAddr,
    seed: [u8; 32],
    floor: u64,
) -> Result<(), StartError> {
    let lease = &config.leadership.lease;
    let timing = lease.timing(config.leadership.timing);
    let url = lease.url.as_ref().ok_or(crate::config::ConfigError::LeaseWithoutUrl)?;
    let url: StoreUrl = url.as_str().parse()?;
    let options = lease.options(config.cluster.as_str(), config.leadership.timing)?;
    let store = Store::new(&url, options)?;
    let terms = terms::open(config.data_dir.as_deref(), config.cluster.as_str(), &shared.journal).await?;
    let rpc_address = lease.rpc_address.and_then(|bound| reachable(bound, advertised));
    if let (Some(bound), None) = (lease.rpc_address, rpc_address) {
        let text = format!(
            "calls come in at {bound}, which only this machine reaches: nodes that gossip does not reach cannot bring it their \
             broadcasts; serve HTTP on another address (http.bind) if they should"
        );
        shared.journal.say(Level::INFO, text);
    }
    let init = ContenderInit {
        node: config.name.clone(),
        rpc_address,
        timing,
        leases: lease.leases.clone(),
        terms: terms.known.clone(),
        floors: BTreeMap::from([(LeaseName::default(), floor)]),
        seed,
    };
    let contender = Contender::new(init, clock.now());
    let mut shown = terms.known.clone();
    let of_default = shown.entry(LeaseName::default()).or_default();
    *of_default = floor.max(*of_default);
    let (leases, receivers) = Leases::open(Arc::clone(&shared.publisher), clock, &lease.leases, shown);
    let leases = Arc::new(leases);
    shared.set_leases(Arc::clone(&leases));
    let task = task::Task::new(task::Parts {
        contender,
        clock,
        shared: Arc::clone(shared),
        leases: Arc::clone(&leases),
        receivers,
        worker: store_worker::start(store),
        driver,
        terms,
        node: config.name.clone(),
        rpc_address,
        timing,
    });
    let shared = Arc::clone(shared);
    tokio::spawn(async move {
        if let Err(died) = tokio::spawn(task.run()).await {
            shared.report(Failure::of("leases", died));
        }
        // Whatever was claimed is renewed no more.
        leases.close();
    });
    Ok(())
}

/// The address at which others reach what is bound there: an unspecified address stands for the one that is advertised. `None`: a loopback
/// address of a node that advertises another one, where each machine would call itself.
fn reachable(bound: SocketAddr, advertised: SocketAddr) -> Option<SocketAddr> {
    if bound.ip().is_unspecified() {
        return Some(SocketAddr::new(advertised.ip(), bound.port()));
    }
    let is_local = |address: SocketAddr| address.ip().to_canonical().is_loopback();
    (!is_local(bound) || is_local(advertised)).then_some(bound)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_recorded_address_is_one_that_others_reach() {
        for (bound, advertised, recorded) in [
            ("0.0.0.0:7118", "10.0.0.1:7117", Some("10.0.0.1:7118")),
            ("[::]:7118", "10.0.0.1:7117", Some("10.0.0.1:7118")),
            ("[::]:7118", "[fd00::1]:7117", Some("[fd00::1]:7118")),
            ("0.0.0.0:7118", "127.0.0.1:7117", Some("127.0.0.1:7118")),
            ("10.0.0.2:7118", "10.0.0.1:7117", Some("10.0.0.2:7118")),
            ("127.0.0.1:7118", "127.0.0.1:7117", Some("127.0.0.1:7118")),
            ("127.0.0.1:7118", "10.0.0.1:7117", None),
            ("[::1]:7118", "10.0.0.1:7117", None),
            ("[::ffff:127.0.0.1]:7118", "10.0.0.1:7117", None),
        ] {
            let address = |text: &str| text.parse::<SocketAddr>().expect("an address");
            assert_eq!(reachable(address(bound), address(advertised)), recorded.map(address), "{bound} {advertised}");
        }
    }
}
