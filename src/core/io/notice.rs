//! Notices: messages in words for the operator.

use std::fmt;
use std::net::SocketAddr;

use super::Unopened;
use crate::election::Alarm;
use crate::member::NodeId;
use crate::wire::{Families, Refusal, family};

/// Conditions that an operator may want to know of. `Display` describes the condition and names one thing to try.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Notice {
    /// No seed answered a try to join for a while.
    NoSeedAnswered {
        /// The addresses to which there is no connection.
        unreached: Vec<SocketAddr>,
        /// The others: nothing was heard of them, not even that.
        silent: Vec<SocketAddr>,
    },
    /// Seeds answer, but none is Up yet.
    WaitingForSeeds {
        /// The number of seeds that answered.
        answered: usize,
    },
    /// No address is known to join through.
    SeedsUnresolved,
    /// This node founded a cluster of its own.
    Founded,
    /// A node refused this one.
    Refused {
        /// The address of the node that refused.
        by: SocketAddr,
        /// The reason.
        refusal: Refusal,
    },
    /// An agent at a seed's address takes this node's connections, and does not open what it sends: this node waits.
    Unopened {
        /// The address.
        by: SocketAddr,
        /// The reason.
        why: Unopened,
    },
    /// Packets of another cluster arrive.
    OtherCluster {
        /// The source address.
        from: SocketAddr,
    },
    /// A newcomer with no protocol version in common was turned away.
    OtherProtocol {
        /// The source address.
        from: SocketAddr,
    },
    /// Packets of an unknown format version arrive.
    UnknownVersion {
        /// The source address.
        from: SocketAddr,
        /// The version found.
        version: u8,
    },
    /// This process was paused.
    Paused {
        /// The lateness of the process's timers, in milliseconds.
        late_ms: u64,
    },
    /// This node was held as Suspect or Down, and refuted it.
    Refuted {
        /// The new incarnation of this node.
        incarnation: u64,
    },
    /// This node's own observation is not reliable for now, so it accuses others later.
    Unhealthy {
        /// The latest piece of evidence.
        why: HealthEvidence,
        /// The factor by which its timeouts are stretched.
        stretch: u32,
    },
    /// The evidence against this node's observation is gone.
    HealthyAgain,
    /// A member keeps being suspected and keeps refuting it.
    Flapping {
        /// The member.
        id: NodeId,
    },
    /// Others hear a member, but this node does not.
    LinkDegraded {
        /// The member.
        id: NodeId,
        /// The member that hears it.
        heard_by: NodeId,
    },
    /// A member is heard directly again.
    LinkRecovered {
        /// The member.
        id: NodeId,
    },
    /// A member's datagrams do not arrive, or ours do not reach it, while its link works.
    DatagramsBlocked {
        /// The member.
        id: NodeId,
    },
    /// Datagrams from and to a member pass again.
    DatagramsPass {
        /// The member.
        id: NodeId,
    },
    /// The process slept so long that its view is worthless; it joins anew.
    RejoiningAfterIsolation,
    /// An alarm of the election.
    Election(Alarm),
    /// A joiner is not let in: no node answers at the address that it advertises.
    JoinerUnreachable {
        /// The name of the joiner.
        id: NodeId,
        /// The address in the joiner's record.
        advertised: SocketAddr,
        /// The source address of the joiner's packets.
        heard_from: SocketAddr,
    },
    /// This node has a sponsor, but no member of the other address family reaches it.
    NotReached {
        /// This node's address.
        advertised: SocketAddr,
        /// The members that were asked.
        others: Vec<SocketAddr>,
    },
    /// No member reaches this node at the address that it is to advertise from now on: it keeps the one before.
    MoveNotReached {
        /// The address that it keeps.
        kept: SocketAddr,
        /// The address at which it is not reached.
        address: SocketAddr,
        /// Members that were asked.
        others: Vec<SocketAddr>,
    },
    /// A joiner that was let in by this node does not become Up: members of one address family (IPv4, IPv6) do not
    /// reach one of the other.
    JoinerNotReached {
        /// The name of the joiner.
        id: NodeId,
        /// The address in the joiner's record.
        advertised: SocketAddr,
        /// This node's address.
        here: SocketAddr,
    },
    /// A member can no longer be reached at the address that it advertises, and is heard from another one.
    MemberUnreachable {
        /// The name of the member.
        id: NodeId,
        /// The address in the member's record.
        advertised: SocketAddr,
        /// The source address of the member's packets.
        heard_from: SocketAddr,
    },
    /// The member that would let this node in advertises an address at which no node answers.
    SponsorUnreachable {
        /// The address in the sponsor's record.
        advertised: SocketAddr,
        /// The source address of the sponsor's packets.
        heard_from: SocketAddr,
    },
    /// Another process claims this node's name, but it does not answer.
    NameClaimed {
        /// The address of that process.
        claimant: SocketAddr,
    },
    /// Pages of the view did not come, and smaller ones from the same sponsor do: the path may lose larger datagrams.
    PagesLost {
        /// The sponsor's address.
        sponsor: SocketAddr,
        /// The largest size of the pages, in bytes.
        bytes: usize,
    },
    /// A live member was removed by force.
    MemberRemoved {
        /// The removed member.
        id: NodeId,
        /// The member that reported the removal.
        by: NodeId,
    },
    /// A newcomer was turned away because its name is in use.
    NameRefused {
        /// The name.
        id: NodeId,
        /// The newcomer's address.
        newcomer: SocketAddr,
    },
}

/// Returns the first of these addresses, and how many more there are.
fn some_of(addresses: &[SocketAddr]) -> String {
    const SHOWN: usize = 4;
    let shown: Vec<String> = addresses.iter().take(SHOWN).map(ToString::to_string).collect();
    let more = addresses.len().saturating_sub(SHOWN);
    let more = if more > 0 { format!(" and {more} more") } else { String::new() };
    shown.join(", ") + &more
}

/// Writes addresses, each after a blank.
fn write_list(f: &mut fmt::Formatter<'_>, addresses: &[SocketAddr]) -> fmt::Result {
    addresses.iter().enumerate().try_for_each(|(place, address)| {
        let comma = if place == 0 { "" } else { "," };
        write!(f, "{comma} {address}")
    })
}

impl fmt::Display for Notice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Notice::NoSeedAnswered { unreached, silent } => {
                f.write_str("no seed answered: ")?;
                if !unreached.is_empty() {
                    let some = some_of(unreached);
                    write!(f, "no connection to {some}: is an agent there, and the port open, for TCP and UDP? ")?;
                }
                if !silent.is_empty() {
                    let some = some_of(silent);
                    write!(f, "nothing came back from {some}: is that an agent of this cluster, with this key? ")?;
                }
                f.write_str("(An agent without a key hears its own machine alone.) Still trying")
            }
            Notice::WaitingForSeeds { answered } => {
                write!(f, "no seed that answered is up yet ({answered} answered); still trying")
            }
            Notice::SeedsUnresolved => {
                f.write_str("no seed name resolves to an address: check the names; still trying")
            }
            Notice::Founded => f.write_str("no seed is up: started as the first of the cluster"),
            Notice::Refused { by, refusal } => write!(f, "refused by {by}: {refusal}"),
            Notice::Unopened { by, why } => {
                write!(
                    f,
                    "{by} does not open what this node sends: {why}; no cluster is founded meanwhile; still trying"
                )
            }
            Notice::OtherCluster { from } => write!(
                f,
                "ignored packets of another cluster from {from}: check the cluster name and the seeds on both sides"
            ),
            Notice::OtherProtocol { from } => {
                write!(f, "turned {from} away: no protocol version in common; upgrade one side")
            }
            Notice::UnknownVersion { from, version } => {
                write!(
                    f,
                    "ignored packets of unknown format version {version} from {from}: check the software versions"
                )
            }
            Notice::Paused { late_ms } => write!(
                f,
                "this process stood still for {late_ms} ms (stopped, suspended or starved): observation starts anew"
            ),
            Notice::Refuted { incarnation } => {
                write!(f, "was thought gone, refuted it as incarnation {incarnation}")
            }
            Notice::Unhealthy { why, stretch } => {
                write!(f, "this node accuses others up to {stretch} times later for now: {why}")
            }
            Notice::HealthyAgain => f.write_str("this node trusts its own observation again"),
            Notice::Flapping { id } => write!(
                f,
                "{id:?} keeps being suspected and keeps refuting it: look at its load and its network; \
                 it is suspected later from now on"
            ),
            Notice::LinkDegraded { id, heard_by } => write!(
                f,
                "{id:?} is heard by {heard_by:?} and others, but not by this node: look at the network between the two"
            ),
            Notice::LinkRecovered { id } => write!(f, "{id:?} is heard directly again"),
            Notice::DatagramsBlocked { id } => write!(
                f,
                "datagrams to and from {id:?} do not pass, links do: everything travels by TCP; check UDP in firewalls"
            ),
            Notice::DatagramsPass { id } => write!(f, "datagrams to and from {id:?} pass again"),
            Notice::RejoiningAfterIsolation => {
                f.write_str("heard nobody for longer than reap_after: dropping the view and joining anew")
            }
            Notice::Election(alarm) => alarm.fmt(f),
            Notice::JoinerUnreachable { id, advertised, heard_from } => write!(
                f,
                "{id:?} is not let in: it advertises {advertised}, but is heard from {heard_from}, and does not answer at \
                 {advertised}: check its `advertise`, NAT, firewall{}",
                Families(*advertised, *heard_from)
            ),
            Notice::JoinerNotReached { id, advertised, here } => write!(
                f,
                "{id:?} was let in and did not become up: it advertises {advertised} ({}), this node {here} ({}): if it \
                 still runs, check that both families of addresses work between all members",
                family(*advertised),
                family(*here)
            ),
            Notice::MemberUnreachable { id, advertised, heard_from } => write!(
                f,
                "{id:?} advertises {advertised}, but is heard from {heard_from}, and does not answer at {advertised} any \
                 more: check its `advertise`, NAT, firewall{}",
                Families(*advertised, *heard_from)
            ),
            Notice::SponsorUnreachable { advertised, heard_from } => write!(
                f,
                "not joining through the node at {heard_from}: it advertises {advertised}, and does not answer there: check \
                 its `advertise`, NAT, firewall{}; still trying",
                Families(*advertised, *heard_from)
            ),
            Notice::MoveNotReached { kept, address, others } => {
                write!(f, "still advertising {kept}: at {address} this node is not reached by")?;
                write_list(f, others)?;
                f.write_str(": check its interfaces, NAT, firewall; still trying")
            }
            Notice::NotReached { advertised, others } => {
                write!(f, "not up yet: this node advertises {advertised}, and is not reached there by")?;
                write_list(f, others)?;
                f.write_str(": check that both address families (IPv4, IPv6) work between them; still trying")
            }
            Notice::NameClaimed { claimant } => write!(
                f,
                "another process claims this node's name at {claimant}, and has it not: if it is yours, give it another \
                 name"
            ),
            Notice::PagesLost { sponsor, bytes } => write!(
                f,
                "the members' list did not come from {sponsor} in datagrams of up to {bytes} bytes, and comes in smaller ones \
                 or by TCP: check the MTU of the path to it"
            ),
            Notice::MemberRemoved { id, by } => {
                write!(f, "{id:?} was alive and is removed by force, says {by:?}: restart it if that was not meant")
            }
            Notice::NameRefused { id, newcomer } => {
                write!(f, "turned {newcomer} away: the name {id:?} is in use by a node that answers")
            }
        }
    }
}

/// A reason not to trust this node's own observation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HealthEvidence {
    /// This node's own timers fire late.
    LateTicks {
        /// The lateness of the last timer, in milliseconds.
        late_ms: u64,
    },
    /// Others held this node as Suspect or Down.
    Refuted,
    /// Others hear members that this node does not hear.
    DegradedLinks {
        /// The number of such members.
        links: usize,
    },
}

impl fmt::Display for HealthEvidence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            HealthEvidence::LateTicks { late_ms } => {
                write!(f, "its timers fire late, lately by {late_ms} ms: too little processor time, or it stood still")
            }
            HealthEvidence::Refuted => {
                f.write_str("others keep taking it for gone: its network or its processor is overloaded")
            }
            HealthEvidence::DegradedLinks { links } => {
                write!(f, "others hear members that it does not hear ({links}): its network is bad")
            }
        }
    }
}
