//! From a configuration to a running driver: checks, socket, durable state, birth.
//!
//! Order matters: what is cheap and wrong most often comes first, the socket before the data directory (a second agent
//! by mistake meets "port in use" with the address in it), and nothing is written before everything else is known to
//! work.
//!
//! Must not know: what happens after the first breath.

use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use rand::TryRng;
use rand::rngs::SysRng;
use tokio::runtime::Handle;
use tokio::sync::mpsc;
use tokio_util::task::TaskTracker;
use tracing::Level;

use super::Inner;
use super::address::{ThisMachine, Whereabouts};
use super::bus::Bus;
use super::clock::Clock;
use super::directory::Directory;
use super::driver::{Driver, MAX_QUEUED_REQUESTS, Parts};
use super::error::{Failure, StartError};
use super::keys::{Keeper, KeyResponder};
use super::shared::Shared;
use crate::config::{Config, DEFAULT_GOSSIP_PORT, LeadershipMode, Reach, is_loopback};
use crate::core::election::{Ballot, Identity, Term};
use crate::core::limits::INCARNATION_STEP;
use crate::core::{Core, CoreInit, Durable, NodeId, QuorumInit, Record, Run, canonical};
use crate::descriptors::{self, MAX_LINK_DESCRIPTORS};
use crate::journal::Journal;
use crate::member::Member;
use crate::seal::DatagramSealer;
use crate::store::{Opened, StateWriter, Store, StoreError, StoreWarning};
use crate::transport::advertised::advertised;
use crate::transport::links::Links;
use crate::transport::resolve::Resolver;
use crate::transport::sealing::Sealing;
use crate::transport::sources::SeedSources;
use crate::transport::{self, udp::BindError};

/// The bound of a node that stores none: no incarnation is ever above it.
const NO_BOUND: u64 = u64::MAX >> 1;

/// An agent that does not run yet.
pub(super) struct Prepared {
    /// The parts of the handle.
    pub(super) inner: Inner,
    /// The driver, which is to be run.
    pub(super) driver: Driver,
    /// Its helpers, which may outlive it by a moment.
    pub(super) tasks: TaskTracker,
}

/// Makes everything that runs, on the agent's own runtime. The configuration is checked.
pub(super) async fn begin(config: Config, journal: Journal, users: Handle) -> Result<Prepared, StartError> {
    let run = Run(random()?);
    let random_seed = random()?;
    let (socket, listener) = transport::bind_both(config.bind(), DEFAULT_GOSSIP_PORT)
        .map_err(|BindError { protocol, address, source }| StartError::Bind { protocol, address, error: source })?;
    let bound = socket.local_address();
    let seal = config.seal.clone();
    let policy = tokio::task::spawn_blocking(move || Keeper::load(&seal)).await;
    let policy = policy.map_err(|ended| StartError::Internal(Failure::of("reading the key file", ended)))??;
    if config.bind.is_none() && config.seal.is_local() {
        let text = format!(
            "this node has no key: it listens on {bound}, and no other machine can join; make a key (`headcount keys generate \
             cluster.key`) and give it to all nodes (seal.key_file)"
        );
        journal.say(Level::WARN, text);
    } else if let Some(at) = [Some(bound), config.advertise].into_iter().flatten().find(|at| !is_loopback(at))
        && policy.mode().accepts_clear()
    {
        let text = format!(
            "gossip is received on {at}, which others can reach, and clear packets are taken (seal.mode = {}): whoever can \
             send to it can change the membership; make a key and give it to all nodes (seal.key_file)",
            policy.mode()
        );
        journal.say(Level::WARN, text);
    }
    let sealing = Sealing::new(run, config.cluster.as_str(), policy, journal.clone());
    let resolver = Resolver::new(journal.clone());
    let seeds = SeedSources::new(&config.seeds, config.seeds_file.as_deref(), &config.seeds_command);
    let advertised = advertised(config.advertise, bound, &seeds, &resolver).await;
    if let Some((level, text)) = advertised.remark() {
        journal.say(level, text);
    }
    let reach = Reach { bound, advertised: Some(advertised.address), cluster: config.cluster.clone() };
    reach.allows(&config.seal)?;
    let keeper = Arc::new(Keeper::new(sealing.clone(), config.seal.clone(), reach));
    let is_followed = config.advertise.is_none() && bound.ip().is_unspecified();
    let whereabouts = is_followed.then(|| Whereabouts {
        advertised,
        machine: ThisMachine { bound, seeds: seeds.clone(), resolver: resolver.clone() },
        suspect_timeout: config.settings.suspect_timeout,
        journal: journal.clone(),
    });
    let memory = recall(&config).await?;
    for warning in &memory.warnings {
        let level = if warning.is_usual() { Level::DEBUG } else { Level::WARN };
        journal.say(level, warning.to_string());
    }
    let tasks = TaskTracker::new();
    let lease = config.leadership.timing.lease_duration;
    let state_writer = memory.store.map_or_else(StateWriter::none, |store| StateWriter::of(store, &tasks, lease));

    let budget = descriptors::links_within_the_limit();
    if budget < MAX_LINK_DESCRIPTORS {
        let limit = descriptors::limit().unwrap_or_default();
        let text = format!(
            "the limit on open files is {limit}: at most {budget} links to other nodes are kept, and a crash of any other is \
             found out by its silence; raise the limit (ulimit -n, LimitNOFILE=)"
        );
        journal.say(Level::WARN, text);
    }
    let links =
        Links::start(listener, &tasks, budget, config.settings.link_keepalive, sealing.clone(), journal.clone());
    let links = links.map_err(|source| StartError::Bind { protocol: "TCP", address: bound, error: source })?;

    // Where the mode was changed, terms of the one way of leading bound those of the other from below.
    let floor = led_by_lease(&config).await?;
    #[cfg(any(feature = "sqlite", feature = "postgres"))]
    let led_by_voters = memory.highest_term;
    let clock = Clock::start();
    let init = CoreInit {
        leadership: memory.ballot.map(|ballot| quorum(&config, ballot, floor)),
        id: config.name.clone(),
        run,
        cluster: config.cluster.clone(),
        incarnation: memory.incarnation,
        stored_bound: memory.stored_bound,
        address: advertised.address,
        api_address: config.api_address.as_deref().map(Into::into),
        tags: config.tags.clone(),
        version: env!("CARGO_PKG_VERSION").into(),
        settings: config.settings.clone(),
        seeds: seeds.len(),
        remembered: memory.addresses.into_iter().map(canonical).collect(),
        random_seed,
    };
    if init.leadership.as_ref().is_some_and(|quorum| quorum.voters.is_empty() && quorum.ballot.accepted.is_none()) {
        journal.say(Level::INFO, "no voters are configured: this node votes nowhere, and learns who leads");
    }
    let core = Core::new(init, clock.now());
    let born = Member::from_record(core.me(), None, SystemTime::now(), true);
    let bus = Bus::new(Directory::new(config.name.clone(), clock));
    let shared = Arc::new(Shared::new(bus, clock, socket.counters(), links.counters(), state_writer.health(), journal));
    let (requests, receiver) = mpsc::channel(MAX_QUEUED_REQUESTS);
    tokio::spawn(Arc::clone(&keeper).follow(shared.journal.clone()));
    let key_responder = KeyResponder::start(Arc::clone(&keeper), requests.downgrade(), shared.journal.clone());
    if let Some(whereabouts) = whereabouts {
        tokio::spawn(whereabouts.follow(requests.downgrade()));
    }
    #[cfg(any(feature = "sqlite", feature = "postgres"))]
    if config.leadership.mode == LeadershipMode::Lease {
        let mut seed = [0; 32];
        for part in seed.chunks_exact_mut(8) {
            part.copy_from_slice(&random()?.to_le_bytes());
        }
        let driver = requests.downgrade();
        super::lease::start(&config, clock, &shared, driver, sealing.clone(), seed, led_by_voters).await?;
    }
    let driver = Driver::new(Parts {
        core,
        clock,
        socket,
        links,
        sealing,
        sealer: DatagramSealer::new(run, config.cluster.as_str()),
        key_responder,
        resolver: resolver.clone(),
        seeds,
        state_writer,
        requests: receiver,
        shared: Arc::clone(&shared),
    });
    let runtime = Handle::current();
    let inner = Inner {
        shared,
        requests,
        runtime,
        users,
        resolver,
        run,
        gossip_address: bound,
        #[cfg(feature = "agent")]
        link_budget: budget,
        keeper,
        config,
        draining: Arc::default(),
        born,
    };
    Ok(Prepared { inner, driver, tasks })
}

fn random() -> Result<u64, StartError> {
    SysRng.try_next_u64().map_err(|error| StartError::Random { reason: error.to_string() })
}

/// Returns the beginnings of a run that takes part in electing leaders.
fn quorum(config: &Config, ballot: Ballot, floor: Term) -> QuorumInit {
    let leadership = &config.leadership;
    QuorumInit {
        timing: leadership.timing,
        policy: leadership.policy,
        voters: leadership.voters.clone(),
        ballot,
        floor,
        wall_clock: unix_milliseconds(),
    }
}

/// Returns the highest term that was led by the cluster's lease, as the data directory of a node that elects leaders knows it.
#[cfg(any(feature = "sqlite", feature = "postgres"))]
async fn led_by_lease(config: &Config) -> Result<Term, StartError> {
    match (&config.data_dir, config.leadership.mode) {
        (Some(directory), LeadershipMode::Quorum) => {
            super::lease::highest_term(directory, config.cluster.as_str()).await.map(Term)
        }
        _ => Ok(Term(0)),
    }
}

#[cfg(not(any(feature = "sqlite", feature = "postgres")))]
#[allow(clippy::unused_async, reason = "as elsewhere")]
async fn led_by_lease(_config: &Config) -> Result<Term, StartError> {
    Ok(Term(0))
}

/// The state with which a run begins.
struct Memory {
    store: Option<Store>,
    incarnation: u64,
    stored_bound: u64,
    addresses: Vec<SocketAddr>,
    /// In quorum mode.
    ballot: Option<Ballot>,
    /// The highest term that voters gave, as the ballot on the disk knows it, in any mode.
    #[cfg_attr(not(any(feature = "sqlite", feature = "postgres")), allow(dead_code))]
    highest_term: u64,
    /// Warnings about the data directory, for an operator.
    warnings: Vec<StoreWarning>,
}

/// Reads what an earlier run left, and stores the bound of this one before anybody hears from it.
async fn recall(config: &Config) -> Result<Memory, StartError> {
    let now = unix_milliseconds();
    let Some(directory) = config.data_dir.clone() else {
        return Ok(Memory {
            store: None,
            incarnation: now,
            stored_bound: NO_BOUND,
            addresses: Vec::new(),
            ballot: None,
            highest_term: 0,
            warnings: Vec::new(),
        });
    };
    let (cluster, name) = (config.cluster.clone(), config.name.clone());
    let identity = match config.leadership.mode {
        LeadershipMode::None | LeadershipMode::Lease => None,
        LeadershipMode::Quorum => Some(Identity(random()?)),
    };
    let opened = tokio::task::spawn_blocking(move || open(&directory, &cluster, &name, now, identity)).await;
    let memory = opened.map_err(|ended| StartError::Internal(Failure::of("opening the data directory", ended)))?;
    Ok(memory?)
}

/// `identity`, in quorum mode: what this node is as a voter, if its directory does not say that it is one already.
fn open(
    directory: &Path,
    cluster: &NodeId,
    name: &NodeId,
    now: u64,
    identity: Option<Identity>,
) -> Result<Memory, StoreError> {
    let Opened { store, remembered, warnings } = Store::open(directory, cluster, name)?;
    // A clock that went back, or a node that refuted more than once a millisecond: the stored figure knows better.
    let incarnation = remembered.incarnation_bound.map_or(now, |bound| now.max(bound + 1));
    let stored_bound = incarnation + INCARNATION_STEP;
    let highest_term = remembered.ballot.as_ref().map_or(0, |ballot| ballot.highest_term().0);
    let ballot = identity.map(|identity| remembered.ballot.unwrap_or_else(|| Ballot::blank(identity)));
    let addresses = remembered.addresses;
    let durable = Durable { incarnation_bound: stored_bound, addresses, ballot };
    store.write(&durable)?;
    let Durable { addresses, ballot, .. } = durable;
    Ok(Memory { store: Some(store), incarnation, stored_bound, addresses, ballot, highest_term, warnings })
}

pub(super) fn unix_milliseconds() -> u64 {
    born_at(SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default())
}

/// Returns the incarnation of a process that starts so long after 1970, in milliseconds.
fn born_at(since: Duration) -> u64 {
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX).min(Record::LATEST_BIRTH)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::agent::directory::tests::name;

    #[test]
    fn each_start_is_born_above_the_bound_of_the_one_before_even_if_the_clock_went_back() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().to_owned();
        let start = |now| open(&path, &name("c"), &name("a"), now, None).map(|m| (m.incarnation, m.stored_bound));
        assert_eq!(start(1_000_000).expect("opens"), (1_000_000, 1_060_000));
        assert_eq!(start(1_000_001).expect("opens"), (1_060_001, 1_120_001));
        assert_eq!(start(5).expect("opens"), (1_120_002, 1_180_002));
        assert_eq!(start(9_000_000).expect("opens"), (9_000_000, 9_060_000));
    }

    #[test]
    fn no_clock_is_so_wrong_that_nothing_can_be_refuted() {
        assert_eq!([Duration::MAX, Duration::from_millis(7)].map(born_at), [Record::LATEST_BIRTH, 7]);
    }

    #[test]
    fn a_voters_identity_is_on_disk_before_it_is_used_and_drawn_once() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().to_owned();
        let start = |identity: Option<u64>| {
            let memory = open(&path, &name("c"), &name("a"), 1, identity.map(Identity)).expect("opens");
            memory.ballot.map(|ballot| ballot.identity.0)
        };
        assert_eq!(start(None), None);
        assert_eq!(start(Some(7)), Some(7));
        assert_eq!(start(None), None, "without elections it has no ballot, and keeps it");
        assert_eq!(start(Some(8)), Some(7));
    }

    #[test]
    fn the_highest_term_that_voters_gave_is_known_in_any_mode() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().to_owned();
        let start =
            |identity: Option<u64>| open(&path, &name("c"), &name("a"), 1, identity.map(Identity)).expect("opens");
        assert_eq!(start(None).highest_term, 0);
        let memory = start(Some(7));
        assert_eq!(memory.highest_term, 0, "nothing was voted");
        let ballot = memory.ballot.map(|ballot| Ballot { version: 1, term: Term(6), ..ballot });
        let store = memory.store.expect("a directory");
        let durable = Durable { incarnation_bound: memory.stored_bound, addresses: Vec::new(), ballot };
        store.write(&durable).expect("written");
        drop(store);
        for identity in [None, Some(8), None] {
            assert_eq!(start(identity).highest_term, 6);
        }
    }

    #[tokio::test]
    async fn a_configuration_that_cannot_work_is_refused_before_anything_is_touched() {
        let parent = tempfile::tempdir().expect("a directory");
        let mut config = Config::new("a").expect("a name").with_seeds(["no-port"]);
        config.data_dir = Some(parent.path().join("data"));
        let error = crate::Agent::start(config).await.expect_err("refused");
        assert_eq!(error.exit_code(), 2);
        assert!(!parent.path().join("data").exists());
    }
}
