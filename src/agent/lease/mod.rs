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
//! | broadcasts to nodes that the table lists and the view lacks | `direct/` |
//! | the public handle of one lease | `handle` |
//!
//! Handles and the task share a state ([`lease_state`](super::lease_state)), which knows neither.

mod direct;
mod handle;
mod store_worker;
mod task;
mod terms;
mod waiting;

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use tokio::sync::mpsc;

use super::clock::Clock;
use super::error::{Failure, StartError};
use super::lease_state::Leases;
use super::request::Request;
use super::shared::Shared;
use crate::config::Config;
use crate::lease::store::{Store, StoreUrl};
use crate::lease::{Contender, ContenderInit, LeaseName};
use crate::transport::sealing::Sealing;

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
    sealing: Sealing,
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
    let init = ContenderInit {
        node: config.name.clone(),
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
        rpc_address: lease.rpc_address,
        timing,
    });
    let (cluster, keepalive) = (config.cluster.clone(), config.settings.link_keepalive);
    let caller = direct::Caller { shared: Arc::clone(shared), cluster, sealing, keepalive };
    tokio::spawn(direct::run(caller, Arc::clone(&leases), timing.liveness_window));
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
