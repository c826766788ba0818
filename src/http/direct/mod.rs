//! Direct calls: this node's broadcasts, brought to nodes that the table of leases lists as active and that the view lacks.
//!
//! ```text
//!   driver ──own broadcasts──▶ dispatcher ──▶ a queue for each node ──▶ POST /v1/deliver at its recorded address
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

use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;
use tracing::Instrument as _;

use self::call::Caller;
use self::node::Node;
use self::roster::Roster;
use super::Tokens;
use crate::agent::{Agent, FULL_PAUSE, MAX_SAID_BYTES, Outbox, Said};
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
/// The time after which a connection without calls is closed: before the other side does.
const IDLE_TIMEOUT: Duration = Duration::from_secs(5);
const _: () = assert!(IDLE_TIMEOUT.as_secs() < super::HEAD_TIMEOUT.as_secs());
/// The largest answer that is read, in bytes.
const MAX_ANSWER_BYTES: usize = 4 * 1024;
/// The age at which the list of nodes is read from the table again.
const ROSTER_AGE: Duration = Duration::from_secs(1);

/// Delivers this node's broadcasts to nodes that the table of leases lists and its view lacks, until `shutdown` or until the
/// agent has stopped; presents the token that may do all to them, as it is then. Ends at once where leadership does not come from a database.
///
/// Agents of one cluster share a token, or have none. It goes to the addresses that the table lists, in clear text: whoever may
/// write to the table can have it sent anywhere.
pub async fn deliver_directly(agent: Agent, tokens: Tokens, shutdown: CancellationToken) {
    let Some(said) = agent.own_broadcasts() else { return };
    // Every line of the log from here bears the agent's name.
    let span = crate::journal::span(&agent.config().name);
    tokio::select! {
        () = shutdown.cancelled() => {}
        _ = agent.stopped() => {}
        () = dispatch(&agent, tokens, said).instrument(span) => {}
    }
}

async fn dispatch(agent: &Agent, tokens: Tokens, mut said: mpsc::Receiver<Said>) {
    let mut dispatcher = Dispatcher {
        me: agent.config().name.clone(),
        caller: Arc::new(Caller::new(agent.clone(), tokens)),
        outbox: agent.outbox(),
        nodes: BTreeMap::new(),
        tasks: JoinSet::new(),
        crowd: Trouble::default(),
        mute: Trouble::default(),
        full: Quiet::default(),
    };
    let mut roster = Roster::new(agent);
    while let Some(said) = said.recv().await {
        let listed = roster.active(agent).await;
        dispatcher.retain(&listed);
        let is_up = |id: &NodeId| agent.member(id).is_some_and(|member| member.status == Status::Up);
        dispatcher.count_unreachable(roster.without_address().iter().filter(|id| !is_up(id)));
        dispatcher.count_unread(&roster, &is_up);
        dispatcher.hand_out(said, listed.into_iter().filter(|(id, _)| !is_up(id)));
        while dispatcher.tasks.try_join_next().is_some() {}
    }
}

/// The nodes that are called.
struct Dispatcher {
    me: NodeId,
    caller: Arc<Caller>,
    outbox: Arc<Outbox>,
    nodes: BTreeMap<NodeId, Node>,
    /// Ends with this.
    tasks: JoinSet<()>,
    /// More nodes than are called.
    crowd: Trouble,
    /// Nodes that neither gossip nor a call reaches.
    mute: Trouble,
    /// Messages that found no room in the queue of a node.
    full: Quiet,
}

impl Dispatcher {
    /// Lets go of nodes that are listed no more; what waits for them is still tried.
    fn retain(&mut self, listed: &[(NodeId, SocketAddr)]) {
        self.nodes.retain(|id, node| listed.iter().any(|(other, address)| other == id && *address == node.address()));
    }

    /// Counts a message as failed for each node that the table lists, the view lacks, and that has recorded no address; tells
    /// of one at a time.
    fn count_unreachable<'a>(&mut self, nodes: impl Iterator<Item = &'a NodeId>) {
        let nodes: Vec<&NodeId> = nodes.filter(|id| **id != self.me).collect();
        for _ in &nodes {
            self.outbox.failed();
        }
        match nodes.first() {
            None => {
                let _ = self.mute.end();
            }
            Some(id) if self.mute.begins() => tracing::warn!(
                "broadcasts do not reach {id}: gossip does not, and it has recorded no address to be called at, since its HTTP \
                 interface is off or on loopback alone (http.bind)"
            ),
            Some(_) => {}
        }
    }

    /// Counts a message as failed for each node that it may not reach because the table cannot be read; once, if it never
    /// could be. The roster tells why.
    fn count_unread(&self, roster: &Roster, is_up: &impl Fn(&NodeId) -> bool) {
        let unknown = usize::from(!roster.is_known());
        let missed = roster.out_of_reach().filter(|id| **id != self.me && !is_up(id)).count();
        for _ in 0..unknown + missed {
            self.outbox.failed();
        }
    }

    /// Puts a message into the queue of each of these.
    fn hand_out(&mut self, said: Said, to: impl Iterator<Item = (NodeId, SocketAddr)>) {
        let said = Arc::new(said);
        for (id, address) in to.filter(|(id, _)| *id != self.me) {
            if !self.nodes.contains_key(&id) {
                if self.nodes.len() >= MAX_CALLED_NODES {
                    self.outbox.failed();
                    if self.crowd.begins() {
                        tracing::warn!(
                            "the table of leases lists more than {MAX_CALLED_NODES} nodes that {} does not see: broadcasts reach \
                             {id} and others no more; see that their gossip gets through",
                            self.me
                        );
                    }
                    continue;
                }
                let node = Node::start(&mut self.tasks, &self.caller, &self.outbox, &id, address);
                self.nodes.insert(id.clone(), node);
            }
            if self.nodes.get(&id).is_none_or(|node| !node.put(&said)) {
                self.outbox.failed();
                if let Some(others) = self.full.take_turn(FULL_PAUSE, 1) {
                    tracing::warn!(
                        "a broadcast is not brought to {id} ({others} others before it): too many wait for it"
                    );
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::agent::test_said;
    use crate::{Config, Profile};

    fn at(port: usize) -> SocketAddr {
        SocketAddr::from(([127, 0, 0, 1], port as u16))
    }

    async fn agent() -> Agent {
        let config = Config::new("me").expect("a name").with_profile(Profile::Local).with_bind(at(0));
        Agent::start(config).await.expect("it starts")
    }

    async fn dispatcher() -> Dispatcher {
        let agent = agent().await;
        Dispatcher {
            me: agent.config().name.clone(),
            caller: Arc::new(Caller::new(agent.clone(), Tokens::default())),
            outbox: agent.outbox(),
            nodes: BTreeMap::new(),
            tasks: JoinSet::new(),
            crowd: Trouble::default(),
            mute: Trouble::default(),
            full: Quiet::default(),
        }
    }

    fn rows(count: usize) -> Vec<(NodeId, SocketAddr)> {
        (1..=count).map(|row| (NodeId::new(&format!("n{row}")).expect("a name"), at(row))).collect()
    }

    #[tokio::test]
    async fn so_many_nodes_are_called_and_one_more_has_failed_and_this_node_is_none_of_them() {
        let mut dispatcher = dispatcher().await;
        let mut listed = rows(MAX_CALLED_NODES);
        listed.push((dispatcher.me.clone(), at(9)));
        dispatcher.hand_out(test_said(), listed.clone().into_iter());
        assert_eq!((dispatcher.nodes.len(), dispatcher.outbox.figures().failed), (MAX_CALLED_NODES, 0));
        dispatcher.hand_out(test_said(), rows(MAX_CALLED_NODES + 1).into_iter());
        assert_eq!((dispatcher.nodes.len(), dispatcher.outbox.figures().failed), (MAX_CALLED_NODES, 1));
    }

    #[tokio::test]
    async fn a_message_that_is_said_while_the_table_cannot_be_read_has_failed() {
        let dispatcher = dispatcher().await;
        let agent = agent().await;
        let mut roster = Roster::new(&agent);
        assert_eq!(roster.active(&agent).await, [], "there is no table");
        dispatcher.count_unread(&roster, &|_| false);
        assert_eq!(dispatcher.outbox.figures().failed, 1, "it was never read");
        roster.lose_for_tests(&["me", "a", "b", "c"]).await;
        dispatcher.count_unread(&roster, &|id| id.as_str() == "c");
        assert_eq!(dispatcher.outbox.figures().failed, 3, "a and b: this node and c have it");
    }

    #[tokio::test]
    async fn what_finds_no_room_or_no_address_has_failed_at_each_node_and_is_told_once() {
        let kept = crate::journal::tests::Kept::default();
        let _guard = tracing::dispatcher::set_default(&kept.dispatch());
        let mut dispatcher = dispatcher().await;
        // Nothing is taken out of the queue: no task has a turn.
        for _ in 0..MAX_WAITING_CALLS + 3 {
            dispatcher.hand_out(test_said(), rows(1).into_iter());
        }
        assert_eq!(dispatcher.outbox.figures().failed, 3);
        let names: Vec<NodeId> = rows(2).into_iter().map(|(id, _)| id).chain([dispatcher.me.clone()]).collect();
        dispatcher.count_unreachable(names.iter());
        dispatcher.count_unreachable(names.iter());
        assert_eq!(dispatcher.outbox.figures().failed, 7);
        let told = |about: &str| kept.all().iter().filter(|line| line.contains(about)).count();
        assert_eq!([told("too many wait for it"), told("no address to be called at")], [1, 1]);
    }

    #[tokio::test]
    async fn a_node_without_an_address_is_told_of_anew_once_there_was_none() {
        let kept = crate::journal::tests::Kept::default();
        let _guard = tracing::dispatcher::set_default(&kept.dispatch());
        let mut dispatcher = dispatcher().await;
        let names: Vec<NodeId> = rows(1).into_iter().map(|(id, _)| id).collect();
        tokio::time::pause();
        for _ in 0..2 {
            dispatcher.count_unreachable(names.iter());
            tokio::time::advance(std::time::Duration::from_secs(61)).await;
            dispatcher.count_unreachable([].iter());
        }
        assert_eq!(kept.all().iter().filter(|line| line.contains("no address to be called at")).count(), 2);
    }

    #[tokio::test]
    async fn a_node_that_moved_or_is_listed_no_more_is_called_at_its_old_address_no_more() {
        let mut dispatcher = dispatcher().await;
        dispatcher.hand_out(test_said(), rows(3).into_iter());
        let mut listed = rows(2);
        listed[1].1 = at(77);
        dispatcher.retain(&listed);
        assert_eq!(dispatcher.nodes.keys().map(NodeId::as_str).collect::<Vec<_>>(), ["n1"]);
        dispatcher.hand_out(test_said(), listed.into_iter());
        assert_eq!(dispatcher.nodes.values().map(Node::address).collect::<Vec<_>>(), [at(1), at(77)]);
    }
}
