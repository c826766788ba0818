//! Resolves texts to addresses: the seeds' names.
//!
//! Invariants: a text that is already numeric never waits for a name server, for its own lookup or another's; a slow
//! name server delays only the names that need it, and never keeps more than [`MAX_LOOKUPS`] lookups alive, abandoned
//! ones included (the system's resolver cannot be interrupted, so an abandoned lookup goes on in its thread until the
//! resolver gives up).
//!
//! Must not know: when to look up again. That is the core's decision.

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::{Semaphore, mpsc};
use tokio::task::{JoinError, JoinSet};
use tokio::time::{Instant, timeout_at};
use tokio_util::task::AbortOnDropHandle;
use tracing::Level;

use super::LOOKUP_TIMEOUT;
use super::sources::SeedSources;
use crate::config::literal;
use crate::core::canonical;
use crate::core::limits::{MAX_ADDRESSES_PER_SEED, MAX_SEEDS};
use crate::journal::Journal;

/// The largest number of lookups alive at one time.
pub(crate) const MAX_LOOKUPS: usize = MAX_SEEDS;

/// The reason why a text gave no address.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub(crate) enum ResolveError {
    /// The lookup failed.
    #[error("{name:?} does not resolve: {reason}")]
    Failed {
        /// The text to resolve.
        name: String,
        /// The system's error.
        reason: String,
    },
    /// The lookup had no answer in time.
    #[error("{name:?} did not resolve within {} s: check the name server", LOOKUP_TIMEOUT.as_secs())]
    TimedOut {
        /// The text to resolve.
        name: String,
    },
}

/// Looks names up. Cheap to clone; clones share the bound.
#[derive(Debug, Clone)]
pub(crate) struct Resolver {
    permits: Arc<Semaphore>,
    journal: Journal,
    /// The seeds that did not resolve and of which the log said so, at most [`MAX_SEEDS`].
    told: Arc<Mutex<BTreeSet<String>>>,
}

/// One seed, and its addresses.
pub(crate) type Found = (String, Vec<SocketAddr>);

/// A lookup of all seeds under way. Dropping it abandons it.
#[derive(Debug)]
pub(crate) struct SeedLookup {
    found: mpsc::Receiver<Found>,
    /// The number of seeds, if none of them is still to be asked for.
    total: Option<usize>,
    _task: AbortOnDropHandle<()>,
}

impl SeedLookup {
    /// Waits for the next seed's addresses, none if its name did not resolve: numeric seeds come first, at once, names
    /// as they are resolved. `None` when all are found. Cancel safe.
    pub(crate) async fn next(&mut self) -> Option<Found> {
        self.found.recv().await
    }

    /// Returns the next seed's addresses, if they are found already.
    pub(crate) fn try_next(&mut self) -> Option<Found> {
        self.found.try_recv().ok()
    }

    /// Returns true if so many seeds are all there are.
    pub(crate) fn is_whole(&self, found: usize) -> bool {
        self.total == Some(found)
    }
}

impl Resolver {
    pub(crate) fn new(journal: Journal) -> Self {
        Self { permits: Arc::new(Semaphore::new(MAX_LOOKUPS)), journal, told: Arc::default() }
    }

    /// Notes that this seed resolved, or did not. Returns true if that it did not is news.
    fn is_news(&self, seed: &str, is_resolved: bool) -> bool {
        // Nothing that runs under the lock leaves it half done.
        let mut told = self.told.lock().unwrap_or_else(PoisonError::into_inner);
        if is_resolved {
            told.remove(seed);
            return false;
        }
        told.len() < MAX_SEEDS && told.insert(seed.to_owned())
    }

    /// Returns all addresses of one `host:port`, at most [`MAX_ADDRESSES_PER_SEED`], in the system's order.
    pub(crate) async fn resolve(&self, name: &str) -> Result<Vec<SocketAddr>, ResolveError> {
        if let Some(address) = literal(name) {
            return Ok(vec![address]);
        }
        let deadline = Instant::now() + LOOKUP_TIMEOUT;
        let timed_out = || ResolveError::TimedOut { name: name.to_owned() };
        let permit = timeout_at(deadline, Arc::clone(&self.permits).acquire_owned()).await;
        let permit = permit.map_err(|_| timed_out())?;
        let host_and_port = name.to_owned();
        // A task of its own, so that the permit is held for as long as the lookup lives, and not only for as long as
        // its caller waits.
        let lookup = tokio::spawn(async move {
            let _permit = permit;
            let addresses = tokio::net::lookup_host(host_and_port).await?;
            std::io::Result::Ok(distinct(addresses))
        });
        let failed = |reason: String| ResolveError::Failed { name: name.to_owned(), reason };
        match timeout_at(deadline, lookup).await {
            Ok(Ok(Ok(addresses))) if addresses.is_empty() => Err(failed("it has no addresses".to_owned())),
            Ok(Ok(Ok(addresses))) => Ok(addresses),
            Ok(Ok(Err(error))) => Err(failed(error.to_string())),
            Ok(Err(ended)) => Err(failed(ended.to_string())),
            Err(_) => Err(timed_out()),
        }
    }

    /// Looks all seeds up at the same time, at most [`MAX_SEEDS`]: those that are configured at once, and others as
    /// their sources name them.
    pub(crate) fn look_up(&self, sources: &SeedSources) -> SeedLookup {
        let (tell, found) = mpsc::channel(MAX_SEEDS);
        let mut round = Round { resolver: self.clone(), tell, begun: BTreeSet::new(), names: JoinSet::new() };
        for seed in sources.fixed() {
            round.begin(seed);
        }
        let mut asked = JoinSet::new();
        for place in sources.to_ask() {
            let (sources, journal) = (sources.clone(), self.journal.clone());
            asked.spawn(async move { sources.ask(place, &journal).await });
        }
        let total = asked.is_empty().then_some(round.begun.len());
        let task = tokio::spawn(async move {
            loop {
                tokio::select! {
                    Some(seeds) = asked.join_next() => match seeds {
                        Ok(seeds) => seeds.iter().for_each(|seed| round.begin(seed)),
                        Err(error) => round.ended_unexpectedly(&error),
                    },
                    Some(lookup) = round.names.join_next() => round.end(lookup),
                    else => return round.forget_former_seeds(),
                }
            }
        });
        SeedLookup { found, total, _task: AbortOnDropHandle::new(task) }
    }
}

/// One lookup of all seeds.
struct Round {
    resolver: Resolver,
    tell: mpsc::Sender<Found>,
    /// All seeds so far, at most [`MAX_SEEDS`].
    begun: BTreeSet<String>,
    names: JoinSet<(String, Result<Vec<SocketAddr>, ResolveError>)>,
}

impl Round {
    fn begin(&mut self, seed: &str) {
        if self.begun.len() == MAX_SEEDS || !self.begun.insert(seed.to_owned()) {
            return;
        }
        let seed = seed.to_owned();
        if let Some(address) = literal(&seed) {
            return self.found(seed, vec![address]);
        }
        let resolver = self.resolver.clone();
        self.names.spawn(async move {
            let addresses = resolver.resolve(&seed).await;
            (seed, addresses)
        });
    }

    fn end(&self, lookup: Result<(String, Result<Vec<SocketAddr>, ResolveError>), JoinError>) {
        match lookup {
            Ok((seed, Ok(addresses))) => {
                self.resolver.is_news(&seed, true);
                self.found(seed, addresses);
            }
            // Said once: a node tries all its seeds again for as long as it runs.
            Ok((seed, Err(error))) => {
                let level = if self.resolver.is_news(&seed, false) { Level::WARN } else { Level::DEBUG };
                self.resolver.journal.say(level, format!("a seed is tried again later: {error}"));
                self.found(seed, Vec::new());
            }
            Err(error) => self.ended_unexpectedly(&error),
        }
    }

    /// Forgets that the log named seeds which are none any more: they would take the places of others.
    fn forget_former_seeds(&self) {
        let mut told = self.resolver.told.lock().unwrap_or_else(PoisonError::into_inner);
        told.retain(|seed| self.begun.contains(seed));
    }

    fn found(&self, seed: String, addresses: Vec<SocketAddr>) {
        // There is room for all of them; whoever has given up hears nothing.
        let _ = self.tell.try_send((seed, addresses));
    }

    fn ended_unexpectedly(&self, error: &JoinError) {
        self.resolver.journal.say(Level::ERROR, format!("the lookup of a seed ended unexpectedly: {error}"));
    }
}

fn distinct(addresses: impl Iterator<Item = SocketAddr>) -> Vec<SocketAddr> {
    let mut kept = Vec::new();
    for address in addresses.map(canonical) {
        if kept.len() == MAX_ADDRESSES_PER_SEED {
            break;
        }
        if !kept.contains(&address) {
            kept.push(address);
        }
    }
    kept
}

#[cfg(test)]
pub(super) mod tests {
    use std::net::Ipv4Addr;
    use std::time::Duration;

    use super::*;

    pub(crate) fn address(text: &str) -> SocketAddr {
        text.parse().expect("an address")
    }

    /// Creates a resolver with this many lookups at one time.
    pub(crate) fn resolver(lookups: usize) -> Resolver {
        let journal = Journal::start(&crate::core::NodeId::new("me").expect("a name")).expect("a thread");
        Resolver { permits: Arc::new(Semaphore::new(lookups)), ..Resolver::new(journal) }
    }

    pub(crate) fn seeds(seeds: &[&str]) -> SeedSources {
        let seeds: Vec<String> = seeds.iter().map(|seed| (*seed).to_owned()).collect();
        SeedSources::new(&seeds, None, &[])
    }

    #[tokio::test]
    async fn numeric_addresses_need_no_lookup() {
        let resolver = resolver(0);
        assert_eq!(resolver.resolve("10.0.0.1:7117").await, Ok(vec![address("10.0.0.1:7117")]));
        assert_eq!(resolver.resolve("[::1]:7117").await, Ok(vec![address("[::1]:7117")]));
        // IPv4 has one form, also where somebody wrote it as IPv6.
        let mapped = "[::ffff:10.0.0.1]:7117";
        assert_eq!(resolver.resolve(mapped).await, Ok(vec![address("10.0.0.1:7117")]));
        let mut lookup = resolver.look_up(&seeds(&[mapped]));
        assert_eq!(lookup.next().await, Some((mapped.to_owned(), vec![address("10.0.0.1:7117")])));
    }

    #[tokio::test]
    async fn every_seed_is_found_once_whether_it_resolves_or_not() {
        let mut lookup = resolver(4).look_up(&seeds(&["10.0.0.1:1", "no-such-name.invalid:2", "localhost:3"]));
        let mut found = std::collections::BTreeMap::new();
        assert!(lookup.is_whole(3));
        while let Some((seed, addresses)) = lookup.next().await {
            assert_eq!(found.insert(seed, addresses), None);
        }
        assert_eq!(found["10.0.0.1:1"], vec![address("10.0.0.1:1")]);
        assert_eq!(found["no-such-name.invalid:2"], Vec::new());
        let local = found["localhost:3"].clone();
        assert!(!local.is_empty() && local.iter().all(|found| found.ip().is_loopback() && found.port() == 3));
    }

    #[tokio::test]
    async fn that_a_seed_does_not_resolve_is_news_once_until_it_resolves_again_and_of_so_many() {
        let resolver = resolver(4);
        let news = |is_resolved| resolver.is_news("a.invalid:1", is_resolved);
        assert_eq!([false, false, true, true, false].map(news), [true, false, false, false, true]);
        for other in 1..MAX_SEEDS {
            assert!(resolver.is_news(&format!("b{other}.invalid:1"), false));
        }
        assert!(!resolver.is_news("c.invalid:1", false), "the table is full");
        assert!(!resolver.is_news("b1.invalid:1", true) && resolver.is_news("c.invalid:1", false));
    }

    #[tokio::test]
    async fn a_name_that_is_no_seed_any_more_takes_no_place_of_those_that_were_told_of() {
        let resolver = resolver(4);
        for name in ["no-such-name.invalid:1", "nor-this.invalid:2"] {
            let mut lookup = resolver.look_up(&seeds(&[name]));
            while lookup.next().await.is_some() {}
            assert_eq!(*resolver.told.lock().expect("not poisoned"), BTreeSet::from([name.to_owned()]));
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_name_that_hangs_delays_no_numeric_seed() {
        let mut lookup = resolver(0).look_up(&seeds(&["hangs.invalid:1", "10.0.0.1:1", "[::1]:1"]));
        let before = Instant::now();
        assert_eq!(lookup.next().await, Some(("10.0.0.1:1".to_owned(), vec![address("10.0.0.1:1")])));
        assert_eq!(lookup.next().await, Some(("[::1]:1".to_owned(), vec![address("[::1]:1")])));
        assert_eq!(before.elapsed(), Duration::ZERO);
        assert_eq!(lookup.next().await, Some(("hangs.invalid:1".to_owned(), Vec::new())));
        assert_eq!(lookup.next().await, None);
    }

    #[tokio::test(start_paused = true)]
    async fn with_all_lookups_stuck_a_name_times_out_instead_of_starting_another() {
        let error = resolver(0).resolve("localhost:1").await.expect_err("nobody may look");
        assert_eq!(error, ResolveError::TimedOut { name: "localhost:1".to_owned() });
    }

    #[tokio::test(start_paused = true)]
    async fn so_many_lookups_are_alive_at_one_time_and_each_waits_for_one_of_these_to_end() {
        let journal = Journal::start(&crate::core::NodeId::new("me").expect("a name")).expect("a thread");
        let resolver = Resolver::new(journal);
        let mut stuck: Vec<_> =
            (0..MAX_LOOKUPS).map(|_| Arc::clone(&resolver.permits).try_acquire_owned().expect("one more")).collect();
        let error = resolver.resolve("localhost:1").await.expect_err("too many are alive");
        assert_eq!(error, ResolveError::TimedOut { name: "localhost:1".to_owned() });
        stuck.pop();
        let place = timeout_at(Instant::now(), resolver.permits.acquire()).await;
        assert!(place.is_ok(), "one has ended");
    }

    #[test]
    fn addresses_of_one_seed_are_distinct_and_bounded() {
        let many = (0..100u16).map(|i| SocketAddr::from((Ipv4Addr::LOCALHOST, 1 + i / 2)));
        let kept = distinct(many);
        assert_eq!(kept.len(), MAX_ADDRESSES_PER_SEED);
        assert_eq!(kept[1].port(), 2);
        let twice = ["[::ffff:10.0.0.1]:1", "10.0.0.1:1"].map(address);
        assert_eq!(distinct(twice.into_iter()), [address("10.0.0.1:1")], "a name server may know one host twice");
    }

    #[test]
    fn a_lookup_whose_caller_is_gone_counts_until_it_ends() {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().max_blocking_threads(1).build();
        let runtime = runtime.expect("a runtime");
        // The system's resolver stands still: the only thread for it is busy.
        let (release, busy) = std::sync::mpsc::channel::<()>();
        let blocked = runtime.spawn_blocking(move || busy.recv());
        runtime.block_on(async {
            let resolver = resolver(1);
            let caller = tokio::time::timeout(Duration::from_millis(20), resolver.resolve("localhost:1")).await;
            assert!(caller.is_err(), "nothing is found meanwhile");
            assert_eq!(resolver.permits.available_permits(), 0, "the lookup lives on");
            drop(release);
            let freed = tokio::time::timeout(Duration::from_secs(20), resolver.permits.acquire()).await;
            assert!(freed.is_ok(), "it has ended");
            assert!(blocked.await.is_ok());
        });
    }
}
