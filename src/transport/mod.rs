//! I/O toward other nodes: the gossip socket and the lookup of addresses.
//!
//! This layer moves bytes and names addresses. It must not know what a packet says, who a member is, or what time it is;
//! it never ends the agent because of something that a network did.

pub(crate) mod resolve;
pub(crate) mod udp;
