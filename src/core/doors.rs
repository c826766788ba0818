//! The vocabulary of the core's two doors: what goes in ([`Input`]), what comes out ([`Output`]).

use std::fmt;
use std::net::SocketAddr;

use super::change::Change;
use super::election::{
    Alarm, Ballot, ChangeError, Electorate, LeaderPolicy, LeaseTiming, LossReason, NumberedView, Term, Unconfirmed,
};
use super::health::SelfDoubt;
use super::id::{NodeId, Run};
use super::leadership::Leadership;
use super::settings::Settings;
use super::tags::Tags;
use super::time::Time;

/// What a core is born with.
#[derive(Debug, Clone)]
pub struct Birth {
    /// The node's name.
    pub id: NodeId,
    /// This process: 64 random bits.
    pub run: Run,
    /// The cluster's name (same alphabet as node names).
    pub cluster: NodeId,
    /// `max(unix milliseconds, stored bound + 1)`.
    pub incarnation: u64,
    /// The incarnation bound that is already stored (or that needs no storing, where nothing is durable).
    pub stored_bound: u64,
    /// Where others send to.
    pub address: SocketAddr,
    /// Where users of the node reach it.
    pub api_address: Option<Box<str>>,
    /// What it tells about itself.
    pub tags: Tags,
    /// Its software version.
    pub version: std::sync::Arc<str>,
    /// Pace and sizes, checked.
    pub settings: Settings,
    /// How many seeds the configuration names; their addresses arrive as [`Input::SeedAddresses`].
    pub seeds: usize,
    /// Addresses remembered from an earlier run.
    pub remembered: Vec<SocketAddr>,
    /// Seeds every random choice.
    pub random_seed: u64,
    /// If leaders are elected by quorum.
    pub leadership: Option<QuorumBirth>,
}

/// What a core is born with that takes part in electing leaders.
#[derive(Debug, Clone)]
pub struct QuorumBirth {
    /// The pace, checked.
    pub timing: LeaseTiming,
    /// How it leads, beside the pace.
    pub policy: LeaderPolicy,
    /// The names configured as voters.
    pub voters: Vec<NodeId>,
    /// What the disk holds; a [blank](Ballot::blank) one at the first start. What is given to [`Output::Persist`] must be
    /// durable: a voter that forgets is a danger.
    pub ballot: Ballot,
}

/// What goes into the core.
#[derive(Debug)]
pub enum Input<'a> {
    /// A datagram arrived.
    Packet {
        /// Its source address.
        from: SocketAddr,
        /// Its payload.
        bytes: &'a [u8],
    },
    /// Time passed: fires what is due. Only this fires timers, so that a driver that comes late can hand in the packets
    /// that arrived meanwhile first.
    Tick,
    /// The user wants something.
    Command(Command),
    /// The answer to [`Output::ResolveSeeds`]: for each seed, in order of configuration, all its addresses (none, if its
    /// name did not resolve). It may be given again whenever it has changed; what is the same as before changes nothing, and
    /// a node that is joining asks every address that is new at once.
    SeedAddresses(Vec<Vec<SocketAddr>>),
    /// A first part of that answer: the same, but with no addresses for names that are still being looked up, so that a
    /// name server that does not answer delays no seed whose address is known. To be given as often as there is more to
    /// tell, and to be followed by [`Input::SeedAddresses`]: until then a seed does not think that it is alone.
    SomeSeedAddresses(Vec<Vec<SocketAddr>>),
    /// The answer to [`Output::Persist`]: what was given out last is on disk.
    Persisted {
        /// The bound that is stored now.
        incarnation_bound: u64,
        /// The version of the ballot that is stored now; 0 if none is.
        ballot_version: u64,
    },
    /// The disk did not take what [`Output::Persist`] gave out last; it is tried again without being asked. A voter whose
    /// ballot was stored before goes on: it stands aside as soon as a ballot is not stored. So every failure is told, and
    /// who can write no more at all says so after each [`Output::Persist`].
    PersistFailed,
    /// The answer to [`Output::EndWork`]: all that was led in this term has ended.
    WorkEnded {
        /// As asked.
        term: Term,
    },
    /// Something happened to a TCP connection. A driver without TCP hands in nothing: everything but the immediate
    /// report of a crash works without links.
    Link {
        /// Which.
        link: LinkId,
        /// What.
        event: LinkEvent<'a>,
    },
}

/// Names one TCP connection of this process. Numbers are never used again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum LinkId {
    /// Opened by this node; the core draws the number.
    Opened(u64),
    /// Opened by another node; the driver draws the number.
    Accepted(u64),
}

/// What happens to a link. The first event of an accepted one is its first frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LinkEvent<'a> {
    /// [`Output::OpenLink`] succeeded.
    Connected,
    /// [`Output::OpenLink`] was refused: a system answered, and nobody listens there.
    Refused,
    /// [`Output::OpenLink`] failed in any other way: nothing is known about the process at that address.
    Unreachable,
    /// A frame arrived: the same bytes as a packet.
    Frame {
        /// The other end's address.
        from: SocketAddr,
        /// The frame.
        bytes: &'a [u8],
    },
    /// The connection is over, whoever ended it; nothing more comes of it.
    Closed,
}

/// Matches a [`Reply`] with its [`Command`]; drawn by the driver, below 2^63.
pub type Ticket = u64;

/// What users ask for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Command {
    /// Contact these addresses once and merge with whoever answers.
    Join {
        /// For the reply.
        ticket: Ticket,
        /// At most [`MAX_SEEDS`](super::limits::MAX_SEEDS).
        addresses: Vec<SocketAddr>,
    },
    /// Say goodbye and stop.
    Leave,
    /// Take a member out of the listing.
    Remove {
        /// For the reply.
        ticket: Ticket,
        /// Whom.
        id: NodeId,
        /// Also if it is not Down.
        force: bool,
    },
    /// Replace all tags of this node.
    SetTags {
        /// For the reply.
        ticket: Ticket,
        /// The new tags.
        tags: Tags,
    },
    /// This node is reached at another address from now on: its driver has bound a socket there.
    SetAddress {
        /// For the reply.
        ticket: Ticket,
        /// The new address.
        address: SocketAddr,
    },
    /// Add a voter to the electorate. The leader does; any other node asks it to, and gives its answer.
    AddVoter {
        /// For the reply.
        ticket: Ticket,
        /// Whom.
        id: NodeId,
    },
    /// Remove a voter from the electorate. The leader does; any other node asks it to, and gives its answer.
    RemoveVoter {
        /// For the reply.
        ticket: Ticket,
        /// Whom.
        id: NodeId,
    },
    /// Have the leader give leadership up, this node or another: then it is asked to.
    Resign {
        /// For the reply.
        ticket: Ticket,
        /// The voter that is to lead instead, if anybody in particular.
        to: Option<NodeId>,
    },
    /// Prove that this node leads, by a round with the voters that begins now.
    ConfirmLeadership {
        /// For the reply.
        ticket: Ticket,
    },
    /// Put a voter in the place of another one: added first, once it has caught up, and then the other one removed. The
    /// leader does; any other node asks it to, and gives its answer.
    ReplaceVoter {
        /// For the reply.
        ticket: Ticket,
        /// The voter that is to go.
        old: NodeId,
        /// The node that is to vote in its place.
        new: NodeId,
    },
    /// Begin a new generation with these voters and this node: the majority is lost for good. Done here and nowhere else,
    /// since there is no leader to ask.
    Recover {
        /// For the reply.
        ticket: Ticket,
        /// Whom.
        voters: Vec<NodeId>,
    },
    /// Begin a new generation with these voters and this node, which may have no vote: no voter is left that has its data.
    FoundAnew {
        /// For the reply.
        ticket: Ticket,
        /// The voters of the new generation, beside this node.
        voters: Vec<NodeId>,
    },
}

/// What comes out of the core.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Output {
    /// Send this datagram. Best effort: losing it is normal.
    Transmit {
        /// To whom.
        to: SocketAddr,
        /// The payload, at most `mtu` bytes.
        bytes: Vec<u8>,
    },
    /// Open a TCP connection, to be answered by [`LinkEvent::Connected`], [`LinkEvent::Refused`] or
    /// [`LinkEvent::Unreachable`].
    OpenLink {
        /// To be used in all that follows.
        link: LinkId,
        /// Where to.
        to: SocketAddr,
    },
    /// Send this frame over a connection. It may be dropped if the link is congested.
    SendFrame {
        /// Which.
        link: LinkId,
        /// The payload, at most [`MAX_FRAME_BYTES`](super::limits::MAX_FRAME_BYTES).
        bytes: Vec<u8>,
    },
    /// Close a connection once its frames are sent, or give up opening it. No event of it is of interest any more.
    CloseLink {
        /// Which.
        link: LinkId,
    },
    /// A record changed.
    Change(Change),
    /// Many members fell silent together, or more have joined those that were reported so: it looks like a cut.
    PartitionSuspected {
        /// Those that are silent or gone, sorted.
        unreachable: Vec<NodeId>,
        /// The other live members, this node included, sorted.
        reachable: Vec<NodeId>,
    },
    /// It is over: all of them are accounted for, or nearly all are back.
    PartitionHealed {
        /// Those that did not come back, sorted.
        unreachable: Vec<NodeId>,
        /// The live members, this node included, sorted.
        reachable: Vec<NodeId>,
    },
    /// A packet of this member was a sign of life.
    Heard(NodeId),
    /// Who leads, as far as this node knows, has changed, or how long that holds has.
    Leadership(Leadership),
    /// Somebody leads from now on, perhaps this node.
    LeaderElected {
        /// Who.
        leader: NodeId,
        /// In which term.
        term: Term,
    },
    /// Whoever led does so no more, perhaps this node.
    LeaderLost {
        /// Who.
        leader: NodeId,
        /// In which term.
        term: Term,
        /// Why.
        reason: LossReason,
    },
    /// This node has given up leadership: end all that it leads, wait for the end, then hand in [`Input::WorkEnded`].
    EndWork {
        /// Of which term.
        term: Term,
    },
    /// Whether a majority of the voters can be reached has changed.
    Quorum {
        /// The latest term known.
        term: Term,
        /// Whether.
        is_reached: bool,
    },
    /// A view is agreed: nobody ever sees other members under its number.
    ViewAgreed(NumberedView),
    /// Make this durable, then hand in [`Input::Persisted`]. A newer one replaces an older one that is not yet written.
    Persist(Durable),
    /// Look the seeds' names up again and hand in [`Input::SeedAddresses`], after [`Input::SomeSeedAddresses`] if that takes
    /// long.
    ResolveSeeds,
    /// The answer to a command.
    Reply {
        /// The command's.
        ticket: Ticket,
        /// The answer.
        reply: Reply,
    },
    /// Something an operator may want to read; already rate-limited.
    Notice(Notice),
    /// The core has ended: it takes no more input and gives no more output.
    Stopped(StopReason),
}

/// What survives the process.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Durable {
    /// No incarnation above this was or will be used before a higher bound is stored.
    pub incarnation_bound: u64,
    /// Last known addresses of other members, at most [`MAX_REMEMBERED_ADDRESSES`](super::limits::MAX_REMEMBERED_ADDRESSES).
    pub addresses: Vec<SocketAddr>,
    /// What a voter must not forget, if this node takes part in electing leaders.
    pub ballot: Option<Ballot>,
}

/// Answers to commands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reply {
    /// To [`Command::Join`]: what became of each address.
    Joined(Vec<(SocketAddr, Contacted)>),
    /// To [`Command::Remove`]: the record stands as Left.
    Removed {
        /// How many peers are known to hold it.
        held_by: usize,
        /// Whether that is enough (three, or all live peers).
        confirmed: bool,
    },
    /// To [`Command::SetTags`].
    TagsSet,
    /// To [`Command::SetAddress`].
    AddressSet,
    /// To [`Command::AddVoter`], [`Command::RemoveVoter`], [`Command::ReplaceVoter`], [`Command::Recover`] and
    /// [`Command::FoundAnew`]: the electorate as it is now. To [`Command::Resign`]: the claim of the leader of that time is
    /// over.
    Electorate(Electorate),
    /// To [`Command::ConfirmLeadership`]: a majority confirmed it after the command was given.
    Confirmed {
        /// The term in which this node leads.
        term: Term,
        /// When its claim ends without a further renewal.
        until: Time,
    },
    /// The command was not carried out; nothing changed.
    Refused(CommandError),
}

/// What became of one address of [`Command::Join`]; of several answers the last one here counts.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Contacted {
    /// Nobody answered.
    Silent,
    /// A node answered that is no member yet: it looks for a cluster itself.
    NotUp {
        /// Its name, if it said so.
        id: Option<NodeId>,
    },
    /// Somebody answered, and will have nothing to do with this node.
    Refused(super::wire::Refusal),
    /// A member answered: the two are in one cluster, or soon will be.
    Answered {
        /// Its name.
        id: NodeId,
    },
}

impl Contacted {
    /// Of two answers the one of the higher rank says more.
    pub(crate) fn rank(&self) -> u8 {
        match self {
            Contacted::Silent => 0,
            Contacted::NotUp { id: None } => 1,
            Contacted::NotUp { id: Some(_) } => 2,
            Contacted::Refused(_) => 3,
            Contacted::Answered { .. } => 4,
        }
    }

    /// Takes note of a further answer.
    pub(super) fn improve(&mut self, answer: Contacted) {
        if answer.rank() > self.rank() {
            *self = answer;
        }
    }

    /// Whether nothing more is to be waited for.
    pub(super) fn is_final(&self) -> bool {
        matches!(self, Contacted::Refused(_) | Contacted::Answered { .. })
    }
}

/// Why a command was not carried out. Nothing changed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum CommandError {
    /// Nobody of that name is listed.
    #[error("no member is named {id:?}")]
    NoSuchMember {
        /// The name asked for.
        id: NodeId,
    },
    /// Only Down members are removed without force.
    #[error("{id:?} is {status}: only a member that is down is removed without force")]
    NotDown {
        /// The member.
        id: NodeId,
        /// Its status.
        status: super::record::Status,
    },
    /// A node does not remove itself.
    #[error("a node does not remove itself: leave instead")]
    Oneself,
    /// The node is no member yet.
    #[error("this node is still joining: try again when it is up")]
    Joining,
    /// The node is on its way out.
    #[error("this node is leaving")]
    Leaving,
    /// Nobody could answer to that address.
    #[error("{address} is no address that others can answer to: give one with an IP address and a port")]
    Unreachable {
        /// The address asked for.
        address: SocketAddr,
    },
    /// Leaders are not elected by quorum here.
    #[error("leaders are not elected here: set leadership.mode = \"quorum\"")]
    NoQuorumMode,
    /// The electorate stays as it is.
    #[error(transparent)]
    Electorate(#[from] ChangeError),
    /// Whether this node leads is not proven.
    #[error(transparent)]
    Unconfirmed(#[from] Unconfirmed),
    /// Too many commands are waiting for their answers.
    #[error("too many commands are waiting for their answers: try again in a second")]
    Busy,
}

/// Why the core stopped.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum StopReason {
    /// It left gracefully.
    #[error("left the cluster")]
    Left,
    /// An operator removed it.
    #[error("removed from the cluster by an operator; restart to join again")]
    Removed,
    /// Its name belongs to somebody else.
    #[error("name {id:?} is already in use by {holder}: choose another with --name, or stop the other node first")]
    NameInUse {
        /// The name.
        id: NodeId,
        /// The address of the other node.
        holder: SocketAddr,
    },
    /// The cluster will not have it.
    #[error("refused by {by}: {refusal}")]
    Refused {
        /// Who said so.
        by: SocketAddr,
        /// In the refuser's words.
        refusal: super::wire::Refusal,
    },
}

/// Things an operator may want to read. `Display` says what happened and what to try.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Notice {
    /// Nobody answered a try to join for a while.
    NoSeedAnswered {
        /// How many addresses were tried.
        tried: usize,
    },
    /// Seeds answer, but none is Up yet.
    WaitingForSeeds {
        /// How many answered.
        answered: usize,
    },
    /// No address is known to join through.
    SeedsUnresolved,
    /// Started a cluster of its own.
    Founded,
    /// Somebody refused this node.
    Refused {
        /// Who.
        by: SocketAddr,
        /// Why.
        refusal: super::wire::Refusal,
    },
    /// Packets of another cluster arrive.
    OtherCluster {
        /// From where.
        from: SocketAddr,
    },
    /// A newcomer with no protocol version in common was turned away.
    OtherProtocol {
        /// From where.
        from: SocketAddr,
    },
    /// Packets of an unknown format version arrive.
    UnknownVersion {
        /// From where.
        from: SocketAddr,
        /// The version found.
        version: u8,
    },
    /// This process was paused.
    Paused {
        /// How late its timers are, in milliseconds.
        late_ms: u64,
    },
    /// This node was thought dead and said otherwise.
    Refuted {
        /// Its new incarnation.
        incarnation: u64,
    },
    /// This node's own observation is not to be trusted for now, so it accuses others later.
    Unhealthy {
        /// The latest piece of evidence.
        why: SelfDoubt,
        /// By how much its timeouts are stretched.
        stretch: u32,
    },
    /// Nothing speaks against its observation any more.
    HealthyAgain,
    /// A member keeps being suspected and keeps refuting it.
    Flapping {
        /// The member.
        id: NodeId,
    },
    /// Others hear a member that this node does not hear.
    LinkDegraded {
        /// The member.
        id: NodeId,
        /// Who hears it.
        heard_by: NodeId,
    },
    /// It is heard directly again.
    LinkRecovered {
        /// The member.
        id: NodeId,
    },
    /// A member's datagrams do not come, or ours do not reach it, while its link works.
    DatagramsBlocked {
        /// The member.
        id: NodeId,
    },
    /// Datagrams pass again.
    DatagramsPass {
        /// The member.
        id: NodeId,
    },
    /// Slept so long that its view is worthless.
    RejoiningAfterIsolation,
    /// About electing leaders.
    Election(Alarm),
    /// A joiner is not let in: nothing answers at the address that it advertises.
    JoinerUnreachable {
        /// Its name.
        id: NodeId,
        /// The address in its record.
        advertised: SocketAddr,
        /// Where its packets come from.
        heard_from: SocketAddr,
    },
    /// This node has a sponsor, but no member of the other address family reaches it.
    NotReached {
        /// This node's address.
        advertised: SocketAddr,
        /// Those that were asked.
        others: Vec<SocketAddr>,
    },
    /// A joiner that was let in by this node does not become Up: members of one family of addresses (IPv4, IPv6) do not
    /// reach one of the other.
    JoinerNotReached {
        /// Its name.
        id: NodeId,
        /// The address in its record.
        advertised: SocketAddr,
        /// This node's address.
        here: SocketAddr,
    },
    /// A member is not reached at the address that it advertises any more, and is heard from another one.
    MemberUnreachable {
        /// Its name.
        id: NodeId,
        /// The address in its record.
        advertised: SocketAddr,
        /// Where its packets come from.
        heard_from: SocketAddr,
    },
    /// The member that would let this node in advertises an address where nothing answers.
    SponsorUnreachable {
        /// The address in its record.
        advertised: SocketAddr,
        /// Where its packets come from.
        heard_from: SocketAddr,
    },
    /// Another process says that it has this node's name: it does not answer, or fewer members hold it than this node.
    NameClaimed {
        /// Its address.
        claimant: SocketAddr,
    },
    /// A member that lives was removed by force.
    MemberRemoved {
        /// Whom.
        id: NodeId,
        /// Who told this node so.
        by: NodeId,
    },
    /// The cluster remembers this node's name at an incarnation that this node does not believe, and lets it in only above
    /// that.
    FarBehind {
        /// The incarnation.
        incarnation: u64,
    },
    /// A newcomer was turned away because its name is in use.
    NameRefused {
        /// The name.
        id: NodeId,
        /// The newcomer's address.
        newcomer: SocketAddr,
    },
}

/// The family of an address, in words.
fn family(address: SocketAddr) -> &'static str {
    if address.ip().to_canonical().is_ipv4() { "IPv4" } else { "IPv6" }
}

/// Says of the address that a node advertises and the one that it is heard from that they are of two families, if so.
pub(super) struct Families(pub(super) SocketAddr, pub(super) SocketAddr);

impl fmt::Display for Families {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (advertised, heard_from) = (family(self.0), family(self.1));
        if advertised == heard_from {
            return Ok(());
        }
        write!(
            f,
            "; the addresses are of two families, {} ({advertised}) and {} ({heard_from}): members must reach each other \
             by the one that they advertise",
            self.0, self.1
        )
    }
}

impl fmt::Display for Notice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Notice::NoSeedAnswered { tried } => {
                let many = if *tried == 1 { "address" } else { "addresses" };
                write!(f, "no seed answered ({tried} {many} tried): check seeds and firewalls; still trying")
            }
            Notice::WaitingForSeeds { answered } => {
                write!(f, "{answered} seed(s) answered, none is up yet; still trying")
            }
            Notice::SeedsUnresolved => {
                f.write_str("no seed name resolves to an address: check the names; still trying")
            }
            Notice::Founded => f.write_str("no seed is up: started as the first of the cluster"),
            Notice::Refused { by, refusal } => write!(f, "refused by {by}: {refusal}"),
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
                "{id:?} is not let in: it advertises {advertised}, but is heard from {heard_from}, and nothing answers at \
                 {advertised}: check its --advertise, NAT, firewall{}",
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
                 more: check its --advertise, NAT, firewall{}",
                Families(*advertised, *heard_from)
            ),
            Notice::SponsorUnreachable { advertised, heard_from } => write!(
                f,
                "not joining through the node at {heard_from}: it advertises {advertised}, and does not answer there: check \
                 its --advertise, NAT, firewall{}; still trying",
                Families(*advertised, *heard_from)
            ),
            Notice::NotReached { advertised, others } => {
                write!(f, "not up yet: this node advertises {advertised}, and is not reached there by")?;
                for (place, other) in others.iter().enumerate() {
                    write!(f, "{} {other}", if place == 0 { "" } else { "," })?;
                }
                f.write_str(": check that both address families (IPv4, IPv6) work between them; still trying")
            }
            Notice::NameClaimed { claimant } => write!(
                f,
                "another process claims this node's name at {claimant}, and has it not: if it is yours, give it another \
                 name with --name"
            ),
            Notice::MemberRemoved { id, by } => {
                write!(f, "{id:?} was alive and is removed by force, says {by:?}: restart it if that was not meant")
            }
            Notice::FarBehind { incarnation } => write!(
                f,
                "the cluster remembers this name at incarnation {incarnation}, far ahead of any clock: choose another \
                 with --name, or wait until the last holder is forgotten (twice reap_after); still trying"
            ),
            Notice::NameRefused { id, newcomer } => {
                write!(f, "turned {newcomer} away: the name {id:?} is in use by a node that answers")
            }
        }
    }
}
