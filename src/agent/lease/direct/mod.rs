//! Direct calls: this node's broadcasts, brought to nodes that the table of leases lists as active and that the view lacks.
//!
//! ```text
//!   driver ──own broadcasts──▶ dispatcher ──▶ a queue for each node ──▶ a connection to its recorded address
//!                                  │ asks, at most once in ROSTER_AGE
//!                                  ▼
//!                        the table of leases: active, with an address; not Up in the view
//! ```
//!
//! Only the origin calls: it alone knows who was not in its view when it spoke, and every node that the table lists gets a
//! call of its own, islands and all who are on them. A relay that called, too, would bring each of them as many copies as the
//! cluster has nodes.
//!
//! Invariants:
//! - A node is called once at a time, in the order in which messages were said; one that hangs delays nobody else. At most
//!   [`MAX_CALLED_NODES`] are, each with at most [`MAX_WAITING_CALLS`] messages of
//!   [`MAX_WAITING_BYTES`] together in its queue. A burst waits there for its calls, for as long as a broadcast lives.
//! - Each call ends within [`CALL_TIMEOUT`], is made at most [`MAX_TRIES`] times, and none begins for a message that nobody
//!   would take any more. Repeating one is safe: the other node takes each message once.
//! - Each message is counted once for each node: delivered, a duplicate, or failed, also where the table cannot be read.
//!   Trouble with a node is told once.
//! - Without broadcasts the database is not asked, and without nodes that the view lacks nobody is called.
//!
//! Must not know: how a broadcast spreads, what a lease is.
//!
//! | idea | file |
//! |---|---|
//! | nodes that the table lists | `roster` |
//! | one node: its queue, its task | `node` |
//! | one call | `call` |

mod call;
mod node;
mod roster;

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use tokio::task::JoinSet;
use tracing::Level;

pub(super) use self::call::Caller;
use self::node::Node;
use self::roster::Roster;
use crate::agent::lease_state::Leases;
use crate::agent::messages::{FULL_PAUSE, MAX_SAID_BYTES, Said};
use crate::agent::shared::Shared;
use crate::core::{NodeId, Status};
use crate::quiet::Quiet;
use crate::trouble::Trouble;

/// The greatest number of nodes that are called at one time.
const MAX_CALLED_NODES: usize = 256;
/// The greatest number of messages that wait for one node.
const MAX_WAITING_CALLS: usize = 8_192;
/// The greatest size of their payloads, in bytes: a part of what is kept for all nodes, so that one that hangs does not use
/// up the room of the others.
const MAX_WAITING_BYTES: usize = MAX_SAID_BYTES / 4;
/// The time within which a call ends, its connection included.
const CALL_TIMEOUT: Duration = Duration::from_secs(2);
/// The greatest number of times that one message is tried at one node, beside a try over a kept connection that turns out to
/// be closed. A node at which the message before failed gets a single try.
const MAX_TRIES: u32 = 2;
/// The pause before the next try.
const RETRY_PAUSE: Duration = Duration::from_millis(200);
/// The time after which a connection without calls is closed: the other side keeps few.
const IDLE_TIMEOUT: Duration = Duration::from_secs(5);
/// The age at which the list of nodes is read from the table again.
const ROSTER_AGE: Duration = Duration::from_secs(1);

/// Brings this node's broadcasts to nodes that the table of leases lists and its view lacks, for as long as the runtime runs.
/// A row whose last heartbeat is older than `window` is no active node's.
pub(super) async fn run(caller: Caller, leases: Arc<Leases>, window: Duration) {
    let caller = Arc::new(caller);
    let shared = Arc::clone(&caller.shared);
    let Some(mut said) = shared.outbox.open() else { return };
    let mut dispatcher = Dispatcher::new(caller);
    let mut roster = Roster::new(window);
    while let Some(said) = said.recv().await {
        let listed = roster.active(&leases, &shared.journal).await;
        dispatcher.retain(&listed);
        let is_up = |id: &NodeId| shared.directory().member(id).is_some_and(|member| member.status == Status::Up);
        dispatcher.count_unread(&roster, &is_up);
        dispatcher.hand_out(said, listed.into_iter().filter(|(id, _)| !is_up(id)));
        while dispatcher.tasks.try_join_next().is_some() {}
    }
}

/// The nodes that are called.
struct Dispatcher {
    caller: Arc<Caller>,
    nodes: BTreeMap<NodeId, Node>,
    /// Ends with this.
    tasks: JoinSet<()>,
    /// More nodes than are called.
    crowd: Trouble,
    /// Messages that found no room in the queue of a node.
    full: Quiet,
}

impl Dispatcher {
    fn new(caller: Arc<Caller>) -> Self {
        Self {
            caller,
            nodes: BTreeMap::new(),
            tasks: JoinSet::new(),
            crowd: Trouble::default(),
            full: Quiet::default(),
        }
    }

    fn shared(&self) -> &Shared {
        &self.caller.shared
    }

    fn warn(&self, text: String) {
        self.shared().journal.say(Level::WARN, text);
    }

    /// Lets go of nodes that are listed no more; what waits for them is still tried.
    fn retain(&mut self, listed: &[(NodeId, SocketAddr)]) {
        self.nodes.retain(|id, node| listed.iter().any(|(other, address)| other == id && *address == node.address()));
    }

    /// Counts a message as failed for each node that it may not reach because the table cannot be read; once, if it never
    /// could be. The roster tells why.
    fn count_unread(&self, roster: &Roster, is_up: &impl Fn(&NodeId) -> bool) {
        let unknown = usize::from(!roster.is_known());
        let missed = roster.out_of_reach().filter(|id| **id != self.shared().me && !is_up(id)).count();
        for _ in 0..unknown + missed {
            self.shared().outbox.failed();
        }
    }

    /// Puts a message into the queue of each of these.
    fn hand_out(&mut self, said: Said, to: impl Iterator<Item = (NodeId, SocketAddr)>) {
        let said = Arc::new(said);
        for (id, address) in to {
            if id == self.shared().me {
                continue;
            }
            if !self.nodes.contains_key(&id) {
                if self.nodes.len() >= MAX_CALLED_NODES {
                    self.shared().outbox.failed();
                    if self.crowd.begins() {
                        self.warn(format!(
                            "the table of leases lists more than {MAX_CALLED_NODES} nodes that {} does not see: broadcasts reach \
                             {id} and others no more; see that their gossip gets through",
                            self.shared().me
                        ));
                    }
                    continue;
                }
                let node = Node::start(&mut self.tasks, &self.caller, &id, address);
                self.nodes.insert(id.clone(), node);
            }
            if self.nodes.get(&id).is_none_or(|node| !node.put(&said)) {
                self.shared().outbox.failed();
                if let Some(others) = self.full.take_turn(FULL_PAUSE, 1) {
                    self.warn(format!(
                        "a broadcast is not brought to {id} ({others} others before it): too many wait for it"
                    ));
                }
            }
        }
    }
}

#[cfg(all(test, feature = "sqlite"))]
mod tests_called;

#[cfg(test)]
mod tests {
    use tracing::dispatcher;

    use super::*;
    use crate::agent::bus::Bus;
    use crate::agent::clock::Clock;
    use crate::agent::directory::Directory;
    use crate::agent::messages::test_said;
    use crate::journal::Journal;
    use crate::journal::tests::Kept;
    use crate::transport::sealing::Sealing;

    fn name(text: &str) -> NodeId {
        NodeId::new(text).expect("a name")
    }

    /// Returns what the calls of an agent without keys have in common; its lines are kept.
    pub(super) fn caller(lines: &Kept) -> Arc<Caller> {
        let journal = dispatcher::with_default(&lines.dispatch(), || Journal::start(&name("me"))).expect("a thread");
        let (clock, sealing) = (Clock::start(), Sealing::off(journal.clone()));
        let bus = Bus::new(Directory::new(name("me"), clock));
        let shared = Arc::new(Shared::new(bus, clock, Arc::default(), Arc::default(), Arc::default(), journal));
        Arc::new(Caller { shared, cluster: name("test"), sealing, keepalive: IDLE_TIMEOUT })
    }

    fn dispatcher() -> (Dispatcher, Kept) {
        let lines = Kept::default();
        (Dispatcher::new(caller(&lines)), lines)
    }

    fn failed(dispatcher: &Dispatcher) -> u64 {
        dispatcher.shared().outbox.figures().failed
    }

    fn at(port: usize) -> SocketAddr {
        SocketAddr::from(([127, 0, 0, 1], port as u16))
    }

    fn rows(count: usize) -> Vec<(NodeId, SocketAddr)> {
        (1..=count).map(|row| (name(&format!("n{row}")), at(row))).collect()
    }

    #[tokio::test]
    async fn so_many_nodes_are_called_and_one_more_has_failed_and_this_node_is_none_of_them() {
        let (mut dispatcher, _) = dispatcher();
        let mut listed = rows(MAX_CALLED_NODES);
        listed.push((name("me"), at(9)));
        dispatcher.hand_out(test_said(), listed.into_iter());
        assert_eq!((dispatcher.nodes.len(), failed(&dispatcher)), (MAX_CALLED_NODES, 0));
        dispatcher.hand_out(test_said(), rows(MAX_CALLED_NODES + 1).into_iter());
        assert_eq!((dispatcher.nodes.len(), failed(&dispatcher)), (MAX_CALLED_NODES, 1));
    }

    #[tokio::test]
    async fn a_message_that_is_said_while_the_table_cannot_be_read_has_failed() {
        let (dispatcher, _) = dispatcher();
        let mut roster = Roster::new(Duration::from_secs(10));
        dispatcher.count_unread(&roster, &|_| false);
        assert_eq!(failed(&dispatcher), 1, "it was never read");
        roster.lose_for_tests(&["me", "a", "b", "c"]).await;
        dispatcher.count_unread(&roster, &|id| id.as_str() == "c");
        assert_eq!(failed(&dispatcher), 3, "a and b: this node and c have it");
    }

    #[tokio::test]
    async fn what_finds_no_room_has_failed_and_is_told_once() {
        let (mut dispatcher, lines) = dispatcher();
        // Nothing is taken out of the queue: no task has a turn.
        for _ in 0..MAX_WAITING_CALLS + 3 {
            dispatcher.hand_out(test_said(), rows(1).into_iter());
        }
        assert_eq!(failed(&dispatcher), 3);
        dispatcher.shared().journal.flush(Duration::from_secs(30)).await;
        assert_eq!(lines.all().iter().filter(|line| line.contains("too many wait for it")).count(), 1);
    }

    #[tokio::test]
    async fn a_node_that_moved_or_is_listed_no_more_is_called_at_its_old_address_no_more() {
        let (mut dispatcher, _) = dispatcher();
        dispatcher.hand_out(test_said(), rows(3).into_iter());
        let mut listed = rows(2);
        listed[1].1 = at(77);
        dispatcher.retain(&listed);
        assert_eq!(dispatcher.nodes.keys().map(NodeId::as_str).collect::<Vec<_>>(), ["n1"]);
        dispatcher.hand_out(test_said(), listed.into_iter());
        assert_eq!(dispatcher.nodes.values().map(Node::address).collect::<Vec<_>>(), [at(1), at(77)]);
    }
}
