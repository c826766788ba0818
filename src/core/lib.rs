//! The pure core: membership as a state machine without sockets, clocks, threads or global randomness.
//!
//! ```text
//! ┌──────────────────────────────────────────────────────────────────────────────────────────────┐
//! │ The contract of the two doors                                                                │
//! │                                                                                              │
//! │ 1. After `Core::new` and after every `handle(now, input)`, call `poll()` until it is `None`,  │
//! │    and carry the outputs out in order.                                                       │
//! │ 2. Hand in `Input::Tick` when `next_deadline()` is reached; coming late is judged as a pause  │
//! │    of this process, so hand in first what arrived meanwhile.                                  │
//! │ 3. `now` never falls.                                                                        │
//! │ 4. After `Output::Stopped` nothing more comes out and nothing more is taken in.               │
//! │ 5. The same birth and the same inputs at the same times give the same outputs, byte by byte.  │
//! └──────────────────────────────────────────────────────────────────────────────────────────────┘
//! ```
//!
//! Debug builds assert 1 and 3. The same core runs in the agent, in the simulator, in the tests and in the benchmarks.
//!
//! Rooms, the lowest first: a room imports those before its own, row by row, and in a row from left to right. Heads
//! say what a room must not know, and, if it keeps state, what it owns.
//!
//! | idea | room |
//! |---|---|
//! | time as a number; streams of random numbers; bounds; which numbers of a sender were seen; a map whose order never shows; how often, how long, how large | `time`, `random`, `limits`, `window`, `map`, `settings/` |
//! | names, records, and how two records merge | `member/` |
//! | topics, ids and payloads of messages between programs | `envelope/` |
//! | electing leaders among voters, apart from all this | `election/` |
//! | bytes: packets and messages, encoded and decoded | `wire/` |
//! | the table of members, and what this node alone knows of each | `view/` |
//! | what is counted | `counters` |
//! | the vocabulary of the two doors; all deadlines in one table; the way out | `doors/`, `timers`, `outputs` |
//! | who observes whom | `observers/` |
//! | packets: what goes into each, whose it is, how much strangers are answered | `packet/` |
//! | links between members; ways around what does not pass | `connectivity/` |
//! | spreading news: at once, by gossip, by sync (anti-entropy) | `dissemination/` |
//! | merging what others say; what is not believed; refuting, leaving, removing, reaping | `membership/` |
//! | when silence or a broken link becomes a verdict | `detection/` |
//! | looking for a cluster, founding one, letting somebody in; names; moving a whole view | `joining/` |
//! | seeds and the lost: never islands | `discovery/` |
//! | who leads, as every member learns it; agreed views | `leadership/` |
//! | what programs say to each other: to all, to one, with an answer | `messages/` |
//! | packets in, each message handed to the room that it is for | `incoming/` |
//! | what is done about the steps of observers, detector and messages | `observing`, `judging`, `messaging` |
//! | how much is kept | `sizes` |
//! | what may be looked at; the way in, to the room that each input is for | `look`, `inputs` |
//!
//! The state machine, [`Core`], stands above all rooms: its fields are their states. Some of these are machines that know nothing
//! of it: they own their state, are lent what they judge by, and say what follows (`election`, `observers`, `messages`, and of
//! `detection` and `connectivity` the detector, crash verdicts, partitions and links). Other rooms extend [`Core`] by methods of
//! their own. What follows from a change of the table of members stands in one place, `membership/settle`.

#![doc = include_str!("faults.md")]

/// Lends what sending takes of a core, and leaves its machines to be called with it.
macro_rules! outbox {
    ($core:ident) => {
        crate::packet::Outbox {
            cx: &mut $core.cx,
            view: &mut $core.view,
            packets: &mut $core.packets,
            observers: &$core.observers,
            health: &$core.health,
            paths: &$core.paths,
        }
    };
}

mod connectivity;
mod context;
mod counters;
mod detection;
mod discovery;
mod dissemination;
mod doors;
pub mod election;
mod envelope;
mod incoming;
mod inputs;
mod joining;
mod judging;
mod leadership;
pub mod limits;
mod look;
mod map;
mod member;
mod membership;
mod messages;
mod messaging;
mod observers;
mod observing;
mod packet;
mod random;
mod recent;
mod settings;
mod sizes;
mod time;
mod timers;
mod view;
pub mod window;
pub mod wire;

#[cfg(test)]
mod tests;

use std::net::SocketAddr;
use std::sync::Arc;

pub use counters::{Carrier, Counters, DropReason, Histogram, MessageCounters};
pub use doors::{
    Command, CommandError, Contacted, CoreInit, Delivery, DeliveryKind, Direct, Durable, Input, Leadership,
    LeadershipState, LinkEvent, LinkId, Notice, Output, QuorumInit, Receiver, Reply, SelfDoubt, StopReason, Ticket,
    Unopened,
};
pub use envelope::{InvalidMessageId, InvalidTopic, MessageId, Payload, TooLarge, Topic};
pub use joining::JoinReport;
pub use leadership::OtherElectorate;
pub use member::is_of_many;
pub use member::{Change, ChangeKind};
pub use member::{DetectionMethod, LeaveReason, ProtocolRange, Record, Status, canonical, is_reachable};
pub use member::{InvalidName, NodeId, Run, check_name};
pub use member::{InvalidTags, Tags};
pub use settings::{OutOfRange, Profile, Settings, Timing};
pub use sizes::Sizes;
pub use time::Time;
pub use view::RecordPool;

use connectivity::Paths;
use context::{Context, Phase};
use detection::Crashes;
use detection::Partition;
use detection::{Detector, LocalHealth};
use discovery::Reunion;
use dissemination::FingerprintMismatch;
use dissemination::Flooding;
use dissemination::Gossiping;
use dissemination::LeaseUpdates;
use joining::Joiners;
use joining::Joining;
use joining::NameProbes;
use joining::Rivals;
use joining::{Transfer, ViewServer};
use leadership::LeaderTracker;
use membership::Confirmations;
use membership::Incarnation;
use membership::{Arrivals, Move};
use messages::Messages;
use observers::Observers;
use packet::Inbox;
use packet::{Outbox, Packets, Prover, SealRoom};
use random::Streams;
use view::Tombstones;
use view::View;
use view::{Peer, Shared};
use wire::Header;

/// One node's membership: a state machine with two doors. See the [module's page](self) for their contract.
#[derive(Debug, Clone)]
pub struct Core {
    /// What everybody is lent: the time, the settings, this node's phase, deadlines, counters, and the way out.
    cx: Context,
    random: Streams,
    /// The search for a cluster, while this node is Joining.
    joiner: Option<Joining>,
    packets: Packets,
    /// The packet at hand; empty between packets.
    inbox: Inbox,
    /// Texts and records that are kept once for many members.
    shared: Shared,
    view: View,
    tombstones: Tombstones,
    incarnation: Incarnation,
    /// The change of this node's address, until its observers know it.
    moving: Option<Move>,
    observers: Observers,
    detector: Detector,
    /// How far this node can trust its own observation.
    health: LocalHealth,
    paths: Paths,
    crashes: Crashes,
    partition: Partition,
    gossiping: Gossiping,
    flooding: Flooding,
    fingerprint_mismatch: FingerprintMismatch,
    transfer: Option<Transfer>,
    serving: ViewServer,
    confirmations: Confirmations,
    reunion: Reunion,
    joiners: Joiners,
    name_probes: NameProbes,
    rivals: Rivals,
    arrivals: Arrivals,
    /// This node's address, since members said that nothing answers there; until one of them hears this node again.
    unreached_at: Option<SocketAddr>,
    lease_updates: LeaseUpdates,
    messages: Messages,
    /// The state of leadership; `None` if leaders are not elected here.
    tracker: Option<Box<LeaderTracker>>,
}

impl Core {
    /// Brings a node to life. Drain [`Core::poll`] before anything else.
    ///
    /// # Panics
    /// If `init` breaks bounds that its maker must check: settings, incarnation, an address that cannot be reached.
    pub fn new(init: CoreInit, now: Time) -> Self {
        init.settings.check().expect("settings are checked before the core is born");
        let record = Record {
            id: init.id,
            run: init.run,
            incarnation: init.incarnation,
            status: Status::Joining,
            address: init.address,
            api_address: init.api_address,
            tags: init.tags.of_the_operator(),
            timing: init.settings.timing().expect("checked above"),
            version: init.version,
            protocol: ProtocolRange::OURS,
        };
        assert!(init.stored_bound >= init.incarnation, "the first incarnation is stored before it is used");
        assert!(record.is_well_formed(), "a node is born with a record that others will believe: {record:?}");
        // Hidden from others like the seed itself: it places in tables what they choose.
        let key = xxhash_rust::xxh3::xxh3_64(&init.random_seed.to_le_bytes());
        let mut core = Self {
            cx: Context::new(now, init.run, Header::cluster_hash(init.cluster.as_str()), init.settings.clone(), key),
            joiner: None,
            packets: Packets::new(Prover::new(&mut random::stream(init.random_seed, 0))),
            inbox: Inbox::default(),
            shared: Shared::default(),
            view: View::new(key),
            tombstones: Tombstones::default(),
            incarnation: Incarnation::new(init.stored_bound),
            moving: None,
            observers: Observers::new(
                init.settings.observers,
                xxhash_rust::xxh3::xxh3_64(record.id.as_str().as_bytes()),
            ),
            detector: Detector::default(),
            health: LocalHealth::new(now),
            paths: Paths::default(),
            crashes: Crashes::default(),
            partition: Partition::new(&init.settings),
            gossiping: Gossiping::default(),
            flooding: Flooding::default(),
            fingerprint_mismatch: FingerprintMismatch::default(),
            transfer: None,
            serving: ViewServer::default(),
            confirmations: Confirmations::default(),
            reunion: Reunion::new(init.seeds, init.remembered),
            joiners: Joiners::default(),
            name_probes: NameProbes::default(),
            unreached_at: None,
            rivals: Rivals::default(),
            arrivals: Arrivals::default(),
            lease_updates: LeaseUpdates::default(),
            messages: Messages::new(now, random::stream(init.random_seed, 7)),
            tracker: None,
            random: Streams::new(init.random_seed),
        };
        let record = Arc::new(record);
        let me = core.view.insert(Arc::clone(&record), record.hash(), Peer::new(now));
        debug_assert_eq!(me, View::ME);
        core.cx.report(None, &record, None);
        if let Some(quorum) = init.leadership {
            core.begin_electing(quorum);
        }
        core.start_joining();
        core
    }

    /// Takes the next output: the way out, to be drained until `None` after every [`Core::handle`] (and after [`Core::new`]).
    pub fn poll(&mut self) -> Option<Output> {
        self.cx.next_output()
    }

    /// Leaves so many bytes of each datagram to the driver from now on, which seals them. `mtu` is at least 1,000 more.
    /// `slack` is the most bytes by which the seals of two packets differ: so much shorter than a question are its answers.
    pub fn leave_room(&mut self, bytes: usize, slack: usize) {
        debug_assert!(self.cx.settings.mtu >= 1_000 + bytes, "the configuration was checked");
        self.packets.seal = SealRoom { bytes, slack };
    }

    /// Lends what sending takes.
    fn out(&mut self) -> Outbox<'_> {
        outbox!(self)
    }

    /// Ends the core.
    fn stop(&mut self, reason: StopReason) {
        self.forget_letters();
        self.part_from_voters();
        self.drop_links();
        self.hang_up_all();
        self.joiner = None;
        self.cx.phase = Phase::Stopped;
        self.cx.timers.clear();
        self.cx.output(Output::Stopped(reason));
    }
}
