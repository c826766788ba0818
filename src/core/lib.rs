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
//! | what is done about the steps of observers, detector and leadership | `observing`, `judging`, `leading` |
//! | how much is kept | `sizes` |
//! | what may be looked at; the way in, to the room that each input is for | `look`, `inputs` |
//!
//! The state machine, [`Core`], stands above all rooms: its fields are their states. Some of these are machines that know nothing
//! of it: they own their state, are lent what they judge by, and say what follows (`election`, `leadership`, `observers`, and of
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
            paths: &mut $core.paths,
        }
    };
}

mod answering;
mod calling;
mod connectivity;
mod context;
mod counters;
mod crashing;
mod detection;
mod discovery;
mod dispatching;
mod dissemination;
mod doors;
pub mod election;
mod entering;
mod envelope;
mod incoming;
mod inputs;
mod joining;
mod judging;
mod leadership;
mod leading;
pub mod limits;
mod linking;
mod look;
mod map;
mod member;
mod membership;
mod merging;
mod messages;
mod messaging;
mod myself;
mod observers;
mod observing;
mod packet;
mod random;
mod receiving;
mod recent;
mod settings;
mod settling;
mod sizes;
mod spreading;
mod time;
mod timers;
mod view;
pub mod window;
pub mod wire;

#[cfg(test)]
mod tests;

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
use detection::Partition;
use detection::crash::Crashes;
use detection::{Detector, LocalHealth};
use discovery::Reunion;
use dissemination::{Gossip, LeaseUpdates};
use joining::{Joiner, Sponsor};
use leadership::Lead;
use membership::{Arrivals, Confirmations, Incarnation, Moving, Rivals};
use messages::Messages;
use myself::Myself;
use observers::Observers;
use packet::Inbox;
use packet::{Outbox, Packets, Prover, SealRoom};
use random::{Stream, stream};
use view::Peer;
use view::View;
use wire::Header;

/// One node's membership: a state machine with two doors. See the [module's page](self) for their contract.
#[derive(Debug, Clone)]
pub struct Core {
    /// What everybody is lent: the time, the settings, this node's phase, deadlines, counters, and the way out.
    cx: Context,
    joiner: Joiner,
    sponsor: Sponsor,
    packets: Packets,
    /// The packet at hand; empty between packets.
    inbox: Inbox,
    view: View,
    me: Myself,
    observers: Observers,
    detector: Detector,
    /// How far this node can trust its own observation.
    health: LocalHealth,
    paths: Paths,
    crashes: Crashes,
    partition: Partition,
    gossip: Gossip,
    confirmations: Confirmations,
    reunion: Reunion,
    arrivals: Arrivals,
    lease_updates: LeaseUpdates,
    messages: Messages,
    /// What is known of the leader; `None` if leaders are not elected here.
    lead: Option<Box<Lead>>,
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
        let draws = |of| stream(init.random_seed, of);
        let mut core = Self {
            cx: Context::new(now, init.run, Header::cluster_hash(init.cluster.as_str()), init.settings.clone(), key),
            joiner: Joiner::new(draws(Stream::Joiner)),
            sponsor: Sponsor::new(draws(Stream::Sponsor)),
            packets: Packets::new(Prover::new(&mut draws(Stream::Prover))),
            inbox: Inbox::default(),
            view: View::new(key),
            me: Myself {
                incarnation: Incarnation::new(init.stored_bound),
                moving: Moving::new(draws(Stream::Moving)),
                rivals: Rivals::default(),
                unreached_at: None,
            },
            observers: Observers::new(
                init.settings.observers,
                xxhash_rust::xxh3::xxh3_64(record.id.as_str().as_bytes()),
            ),
            detector: Detector::new(draws(Stream::Detector)),
            health: LocalHealth::new(now),
            paths: Paths::new(draws(Stream::Paths)),
            crashes: Crashes::default(),
            partition: Partition::new(&init.settings),
            gossip: Gossip::new(draws(Stream::Gossip)),
            confirmations: Confirmations::new(draws(Stream::Confirmations)),
            reunion: Reunion::new(draws(Stream::Reunion), init.seeds, init.remembered),
            arrivals: Arrivals::default(),
            lease_updates: LeaseUpdates::default(),
            messages: Messages::new(now, draws(Stream::Messages)),
            lead: None,
        };
        let record = Arc::new(record);
        let me = core.view.insert(Arc::clone(&record), record.hash(), Peer::new(now));
        debug_assert_eq!(me, View::ME);
        core.cx.report(None, &record, None);
        if let Some(quorum) = init.leadership {
            core.begin_electing(quorum, draws(Stream::Lead));
        }
        core.begin_joining();
        core.seek_cluster();
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

    /// Takes records that are learnt from now on from this pool.
    pub fn share_records(&mut self, pool: Arc<dyn RecordPool>) {
        self.inbox.shared.share(pool);
    }

    /// Lends what sending takes.
    fn out(&mut self) -> Outbox<'_> {
        outbox!(self)
    }

    /// Ends the core.
    fn stop(&mut self, reason: StopReason) {
        self.messages.direct.give_up_all(&mut self.cx);
        self.tell_lead(Lead::part_from_voters);
        self.drop_links();
        self.paths.hang_up_all(&mut self.cx);
        self.joiner.end();
        self.cx.phase = Phase::Stopped;
        self.cx.timers.clear();
        self.cx.output(Output::Stopped(reason));
    }
}
