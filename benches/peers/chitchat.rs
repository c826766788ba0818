//! chitchat: its whole server over a transport of ours, on tokio's paused clock, which its detector reads.
//!
//! Its messages can only be sized and copied by its own `ChannelTransport`, so each goes through one of those on its
//! way out: encoded, decoded and counted. Datagrams above 1,472 bytes travel as IP fragments: each has its header, each
//! may be lost, and a lost one takes the others with it. There is no duplication, as messages cannot be copied.
//! Arrivals are rounded up to whole milliseconds, the resolution of tokio's timers. Its choices come from the system's
//! randomness, which it does not let us seed: its rows are the only ones that differ a little from run to run.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use async_trait::async_trait;
use chitchat::transport::{ChannelTransport, RecvOutcome, SendOutcome, Socket, Transport};
use chitchat::{ChitchatConfig, ChitchatHandle, ChitchatId, FailureDetectorConfig, NodeState, ProtocolVersion};
use headcount::sim::network::Network;
use tokio::runtime::Runtime;
use tokio::sync::{Notify, mpsc, watch};
use tokio::time::Instant;

use super::cluster::{Cluster, Conditions, Death, Sighting, Traffic, Verdict};

/// Bytes that fit into one Ethernet frame with the headers of IPv4 and UDP.
const FRAGMENT: usize = 1_472;
/// Bytes of the header of UDP, which fragments after the first do not have.
const UDP_HEADER: usize = 8;
/// Number of seeds of every node, which are the first nodes.
const SEEDS: usize = 3;

type Message = RecvOutcome;
type Live = BTreeMap<ChitchatId, NodeState>;

fn address(node: usize) -> SocketAddr {
    headcount::sim::address_of(node, false)
}

fn node(address: SocketAddr) -> Option<usize> {
    headcount::sim::node_at(address)
}

/// The network, and the messages under way in it.
struct Wire {
    started: Instant,
    network: Network,
    /// Messages under way, by time of arrival, then in the order in which they were sent; each with its receiver.
    under_way: BTreeMap<(Instant, u64), (usize, Message)>,
    order: u64,
    /// The channel by which each node receives its messages.
    ends: BTreeMap<usize, mpsc::UnboundedSender<Message>>,
}

#[derive(Clone)]
struct Air {
    wire: Arc<Mutex<Wire>>,
    /// Notified of each message that is sent.
    sent: Arc<Notify>,
}

impl Air {
    fn wire(&self) -> MutexGuard<'_, Wire> {
        self.wire.lock().expect("nobody panics with the wire in hand")
    }
}

impl Wire {
    fn send(&mut self, from: usize, to: SocketAddr, message: Message) {
        let now = Instant::now();
        let since = (now - self.started).as_nanos() as u64;
        let to = node(to).expect("nodes know only nodes");
        let rest = message.num_bytes_received.saturating_sub(FRAGMENT);
        let more = rest.div_ceil(FRAGMENT + UDP_HEADER);
        // The network counts a UDP header for every fragment, so the later ones are made shorter by as much.
        let later = (0..more).map(|i| (rest - i * (FRAGMENT + UDP_HEADER)).min(FRAGMENT + UDP_HEADER));
        let sizes = later.map(|size| size.saturating_sub(UDP_HEADER)).chain([message.num_bytes_received - rest]);
        let mut latest = Some(0);
        for size in sizes {
            let mut arrives = None;
            self.network.send(since, from, to, vec![0; size], |arrival| arrives = Some(arrival.at));
            latest = latest.zip(arrives).map(|(latest, arrives)| latest.max(arrives));
        }
        let Some(latest) = latest else { return };
        self.order += 1;
        self.under_way.insert((self.started + Duration::from_nanos(latest), self.order), (to, message));
    }

    fn deliver(&mut self, now: Instant) {
        while let Some(entry) = self.under_way.first_entry().filter(|entry| entry.key().0 <= now) {
            let (to, message) = entry.remove();
            if let Some(end) = self.ends.get(&to) {
                let _ = end.send(message);
            }
        }
    }
}

#[async_trait]
impl Transport for Air {
    async fn open(&self, listen_addr: SocketAddr) -> anyhow::Result<Box<dyn Socket>> {
        let scale = ChannelTransport::default().open(listen_addr).await?;
        let number = node(listen_addr).expect("nodes listen at their addresses");
        let (end, arrived) = mpsc::unbounded_channel();
        self.wire().ends.insert(number, end);
        Ok(Box::new(Antenna { number, air: self.clone(), arrived, scale }))
    }
}

struct Antenna {
    number: usize,
    air: Air,
    arrived: mpsc::UnboundedReceiver<Message>,
    /// A socket that sends each message to itself, and so tells its size.
    scale: Box<dyn Socket>,
}

#[async_trait]
impl Socket for Antenna {
    fn local_addr(&self) -> anyhow::Result<SocketAddr> {
        Ok(address(self.number))
    }

    async fn send(&mut self, to: SocketAddr, envelope: chitchat::ChitchatEnvelope) -> anyhow::Result<SendOutcome> {
        let outcome = self.scale.send(address(self.number), envelope).await?;
        let weighed = self.scale.recv().await?;
        self.air.wire().send(self.number, to, weighed);
        self.air.sent.notify_one();
        Ok(outcome)
    }

    async fn recv(&mut self) -> anyhow::Result<RecvOutcome> {
        self.arrived.recv().await.ok_or_else(|| anyhow::anyhow!("the network is gone"))
    }
}

struct Server {
    handle: ChitchatHandle,
    live: watch::Receiver<Live>,
    /// The live nodes, and the note of each.
    seen: BTreeMap<usize, Option<String>>,
    is_alive: bool,
}

/// chitchat's servers, in one thread.
pub(crate) struct Nodes {
    runtime: Runtime,
    started: Instant,
    air: Air,
    servers: Vec<Server>,
    sightings: Vec<Sighting>,
    changes: u64,
}

impl Nodes {
    pub(crate) fn new(nodes: usize, conditions: Conditions) -> Self {
        let mut builder = tokio::runtime::Builder::new_current_thread();
        let runtime = builder.enable_time().start_paused(true).build().expect("threads are not needed");
        let started = runtime.block_on(async { Instant::now() });
        let network = Network::new(1, conditions, 28);
        let wire = Wire { started, network, under_way: BTreeMap::new(), order: 0, ends: BTreeMap::new() };
        let air = Air { wire: Arc::new(Mutex::new(wire)), sent: Arc::default() };
        let mut cluster = Self { runtime, started, air, servers: Vec::new(), sightings: Vec::new(), changes: 0 };
        for _ in 0..nodes {
            // The starts of the nodes are spread over a second.
            cluster.advance(Duration::from_secs(1) / nodes as u32);
            cluster.boot();
        }
        cluster
    }

    /// Records the changes in each node's list of live nodes.
    fn look(&mut self, now: Instant) {
        let at = now - self.started;
        for (observer, watcher) in self.servers.iter_mut().enumerate().filter(|(_, node)| node.is_alive) {
            if !watcher.live.has_changed().unwrap_or(false) {
                continue;
            }
            let live = watcher.live.borrow_and_update();
            let says = |state: &NodeState| state.get("note").map(str::to_owned);
            let now: BTreeMap<usize, Option<String>> = live
                .iter()
                .filter_map(|(id, state)| Some((node(id.gossip_advertise_addr)?, says(state))))
                .filter(|(subject, _)| *subject != observer)
                .collect();
            let mut tell = |subject: &usize, verdict| {
                self.sightings.push(Sighting { at, observer, subject: *subject, verdict });
            };
            for subject in watcher.seen.keys().filter(|subject| !now.contains_key(subject)) {
                tell(subject, Verdict::Down);
            }
            for (subject, note) in &now {
                match watcher.seen.get(subject) {
                    None => tell(subject, Verdict::Up),
                    Some(before) if before != note => tell(subject, Verdict::Changed),
                    Some(_) => {}
                }
            }
            watcher.seen = now;
        }
    }
}

impl Cluster for Nodes {
    fn now(&self) -> Duration {
        self.runtime.block_on(async { Instant::now() }) - self.started
    }

    fn advance(&mut self, by: Duration) {
        let air = self.air.clone();
        let until = self.runtime.block_on(async { Instant::now() }) + by;
        loop {
            let now = self.runtime.block_on(async {
                let arrival = air.wire().under_way.first_key_value().map(|((at, _), _)| *at);
                let next = arrival.into_iter().chain([until]).min().expect("one at least");
                tokio::select! {
                    () = tokio::time::sleep_until(next) => {}
                    () = air.sent.notified() => {}
                }
                let now = Instant::now();
                air.wire().deliver(now);
                now
            });
            self.look(now);
            if now >= until {
                return;
            }
        }
    }

    fn boot(&mut self) -> usize {
        let number = self.servers.len();
        let seeds = (0..SEEDS).filter(|seed| *seed != number).map(|seed| address(seed).to_string()).collect();
        let config = ChitchatConfig {
            chitchat_id: ChitchatId::new(format!("n{number:05}"), 0, address(number)),
            cluster_id: "simulated".to_owned(),
            gossip_interval: Duration::from_secs(1),
            listen_addr: address(number),
            seed_nodes: seeds,
            failure_detector_config: FailureDetectorConfig::default(),
            marked_for_deletion_grace_period: Duration::from_secs(3_600),
            catchup_callback: None,
            extra_liveness_predicate: None,
            protocol_version: ProtocolVersion::V1,
        };
        let spawned = self.runtime.block_on(chitchat::spawn_chitchat(config, Vec::new(), &self.air));
        let handle = spawned.expect("a new address can be bound");
        let chitchat = handle.chitchat();
        let live = self.runtime.block_on(async { chitchat.lock().await.live_nodes_watcher() });
        self.servers.push(Server { handle, live, seen: BTreeMap::new(), is_alive: true });
        number
    }

    fn kill(&mut self, node: usize, _: Death) {
        self.air.wire().ends.remove(&node);
        self.servers[node].handle.abort();
        self.servers[node].is_alive = false;
    }

    fn change(&mut self, node: usize) {
        self.changes += 1;
        let value = self.changes.to_string();
        let chitchat = self.servers[node].handle.chitchat();
        self.runtime.block_on(async { chitchat.lock().await.self_node_state().set("note", value) });
    }

    fn disturb(&mut self, conditions: Conditions) {
        self.air.wire().network.set_conditions(Conditions { duplicate: 0.0, ..conditions });
    }

    fn lists(&self, observer: usize, subject: usize) -> bool {
        self.servers[observer].seen.contains_key(&subject)
    }

    fn sightings(&mut self) -> Vec<Sighting> {
        std::mem::take(&mut self.sightings)
    }

    fn traffic(&self, node: usize) -> Traffic {
        self.air.wire().network.sent(node)
    }
}
