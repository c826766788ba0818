//! The nodes that a database of leases lists.
//!
//! Invariant: all keys are always present; unknown values are `null`. Ages and remaining times are by the database's
//! clock.

#[cfg(test)]
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

#[cfg(any(feature = "sqlite", feature = "postgres"))]
use super::time::millis;

/// The nodes in the table of a lease: the lease's holder first, then the others, most recently heard from first.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(JsonSchema))]
#[non_exhaustive]
pub struct LeaseNodes {
    /// The lease's name.
    pub lease: String,
    /// The nodes.
    pub nodes: Vec<LeaseNode>,
}

/// One node as the table lists it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(JsonSchema))]
#[non_exhaustive]
pub struct LeaseNode {
    /// The node's name.
    pub node: String,
    /// The address at which the node takes links, by which broadcasts reach it; `null` if it gave none.
    pub rpc_address: Option<String>,
    /// True if its last round is within the liveness window.
    pub active: bool,
    /// True if it holds the lease, and the lease has not expired.
    pub is_leader: bool,
    /// The term that it holds, or that it held last if no other node has taken over yet.
    pub term: Option<u64>,
    /// The time since its last round, in milliseconds.
    pub heartbeat_age_ms: u64,
    /// The time until its lease expires, in milliseconds: 0 once it has expired, `null` if it holds none.
    pub expires_in_ms: Option<u64>,
}

#[cfg(any(feature = "sqlite", feature = "postgres"))]
impl From<crate::agent::LeaseNodes> for LeaseNodes {
    fn from(listed: crate::agent::LeaseNodes) -> Self {
        let node = |node: crate::agent::LeaseNode| LeaseNode {
            node: node.node.to_string(),
            rpc_address: node.rpc_address.map(|address| address.to_string()),
            active: node.is_active,
            is_leader: node.is_leader,
            term: node.term,
            heartbeat_age_ms: millis(node.heartbeat_age),
            expires_in_ms: node.expires_in.map(millis),
        };
        Self { lease: listed.lease.to_string(), nodes: listed.nodes.into_iter().map(node).collect() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_node_of_which_little_is_known_has_all_keys() {
        let node = LeaseNode {
            node: "a".to_owned(),
            rpc_address: None,
            active: true,
            is_leader: false,
            term: None,
            heartbeat_age_ms: 1_200,
            expires_in_ms: None,
        };
        let nodes = LeaseNodes { lease: "default".to_owned(), nodes: vec![node] };
        let expected = concat!(
            r#"{"lease":"default","nodes":[{"node":"a","rpc_address":null,"active":true,"is_leader":false,"term":null,"#,
            r#""heartbeat_age_ms":1200,"expires_in_ms":null}]}"#
        );
        assert_eq!(serde_json::to_string(&nodes).expect("JSON"), expected);
    }
}
