//! Nodes as the table of a database lists them: useful where gossip does not reach.
//!
//! Invariants: all ages are by the database's clock; the holder comes first, then those heard from last.
//!
//! Must not know: members, gossip.

use std::net::SocketAddr;
use std::time::Duration;

use crate::core::NodeId;
use crate::lease::store::StoreError;
use crate::lease::{Holder, LeaseName, NodeRow};

/// The nodes that the table knows, and who of them holds a lease.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct LeaseNodes {
    /// The lease.
    pub lease: LeaseName,
    /// The holder first, then those heard from last.
    pub nodes: Vec<LeaseNode>,
}

/// One node as the table lists it.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct LeaseNode {
    /// Its name.
    pub node: NodeId,
    /// The address at which it takes links, by which broadcasts reach it, if it says so.
    pub rpc_address: Option<SocketAddr>,
    /// True if the node was heard from within the liveness window.
    pub is_active: bool,
    /// True if the node holds the lease, which has not expired.
    pub is_leader: bool,
    /// The term that the node holds, or the last one that it held, if nobody has taken the lease over yet.
    pub term: Option<u64>,
    /// The time since its last round.
    pub heartbeat_age: Duration,
    /// The time until its lease expires; zero once it has expired; `None` if the node holds none.
    pub expires_in: Option<Duration>,
}

/// The reason why nodes are not listed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum LeaseNodesError {
    /// No database is configured, so there is no table of nodes.
    #[error("leaders do not come by leases in a database here")]
    NotLeaseMode,
    /// The database did not answer.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// Too many ask at one time.
    #[error("too many ask for the nodes of the table: try again in a second")]
    Busy,
    /// The agent has stopped.
    #[error("the agent has stopped")]
    Stopped,
}

impl LeaseNodes {
    pub(crate) fn new(lease: LeaseName, rows: Vec<NodeRow>, holder: Option<&Holder>, window: Duration) -> Self {
        let listed = |row: NodeRow| {
            let held = holder.filter(|holder| holder.node == row.node);
            LeaseNode {
                is_active: row.age <= window,
                is_leader: held.is_some_and(|held| !held.has_expired()),
                term: held.map(|held| held.term),
                heartbeat_age: row.age,
                expires_in: held.map(|held| if held.has_expired() { Duration::ZERO } else { held.expires_in }),
                node: row.node,
                rpc_address: row.rpc_address,
            }
        };
        let mut nodes: Vec<LeaseNode> = rows.into_iter().map(listed).collect();
        nodes.sort_by(|one, other| {
            let key = |node: &LeaseNode| (node.term.is_none(), node.heartbeat_age);
            key(one).cmp(&key(other)).then_with(|| one.node.cmp(&other.node))
        });
        Self { lease, nodes }
    }
}

#[cfg(test)]
impl LeaseNode {
    /// A row of that age by a clock that nobody set.
    pub(crate) fn for_tests(node: NodeId, rpc_address: Option<SocketAddr>, heartbeat_age: Duration) -> Self {
        let (is_active, is_leader) = (true, false);
        Self { node, rpc_address, is_active, is_leader, term: None, heartbeat_age, expires_in: None }
    }
}

#[cfg(test)]
impl LeaseNodes {
    /// These rows, of the cluster's lease.
    pub(crate) fn for_tests(nodes: Vec<LeaseNode>) -> Self {
        Self { lease: LeaseName::default(), nodes }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lease::Token;

    #[test]
    fn the_holder_comes_first_and_the_others_by_age() {
        let name = |text: &str| NodeId::new(text).expect("a name");
        let seconds = Duration::from_secs;
        let row = |text: &str, age| NodeRow { node: name(text), rpc_address: None, age: seconds(age) };
        let holder = |left| Holder {
            node: name("c"),
            token: Token(1),
            term: 7,
            lease_duration: seconds(15),
            expires_in: seconds(left),
        };
        let listed = |left| {
            let rows = vec![row("a", 9), row("b", 2), row("c", 11)];
            LeaseNodes::new(LeaseName::default(), rows, Some(&holder(left)), seconds(10)).nodes
        };
        let nodes = listed(4);
        assert_eq!(nodes.iter().map(|node| node.node.as_str()).collect::<Vec<_>>(), ["c", "b", "a"]);
        assert_eq!(nodes.iter().map(|node| node.is_active).collect::<Vec<_>>(), [false, true, true]);
        assert!(nodes[0].is_leader && nodes[0].term == Some(7) && nodes[0].expires_in == Some(seconds(4)));
        assert!(!nodes[1].is_leader && nodes[1].term.is_none() && nodes[1].expires_in.is_none());
        // Expired, and by a clock that was set back since.
        for left in [0, 16] {
            let expired = listed(left).remove(0);
            assert!(!expired.is_leader && expired.expires_in == Some(Duration::ZERO), "{expired:?}");
        }
    }
}
