//! The pure core: membership as a state machine without sockets, clocks, threads or global randomness.
//!
//! The contract of `handle` and `poll` (debug builds assert 1 and 3):
//!
//! 1. After [`Core::new`] and after every `handle(now, input)`, call `poll()` until it is `None`, and carry the outputs out in order.
//! 2. Hand in `Input::Tick` when `next_deadline()` is reached; coming late is judged as a pause of this process, so hand in first
//!    what arrived meanwhile.
//! 3. `now` never falls.
//! 4. After `Output::Stopped` nothing more comes out and nothing more is taken in.
//! 5. The same birth and the same inputs at the same times give the same outputs, byte by byte.
//!
//! [`Core`] is its machines. A machine owns its state and knows no other one: it is lent what it judges by, and says what follows
//! for others. Three things are lent: the *context* (the time, settings, deadlines, counters, the way out), *facts* of other
//! machines (read-only, `DetectorFacts` and the like), and the *outbox* (composing packets and sending them). What happens
//! between machines is in `wiring/`, the one place that extends [`Core`], but for tests.
//!
//! | machine | in |
//! |---|---|
//! | who observes whom | `observers/` |
//! | when silence becomes a verdict; witnesses; this node's own health; crashes; partitions | `detection/` |
//! | spreading updates: at once, by gossip, by sync (anti-entropy); news about leases | `dissemination/` |
//! | links between members, and the ways around what does not pass | `connectivity/` |
//! | this node's incarnation, move and name; confirmations; when members came; what is not believed at once | `membership/` |
//! | looking for a cluster, founding one; letting somebody in, names, serving the view | `joining/` |
//! | seeds and the lost: never islands | `discovery/` |
//! | electing leaders among voters, apart from all this | `election/` |
//! | who leads, as every member learns it; agreed views; commands for the leader | `leadership/` |
//! | what programs say to each other: to all, to one, with an answer | `messages/` |
//!
//! | below them | in |
//! |---|---|
//! | the table of members, and what this node alone knows of each | `view/` |
//! | names, records, and how two records merge | `member/` |
//! | bytes: packets and messages, encoded and decoded | `wire/` |
//! | what is lent to send by; the messages of a packet, whose it is, and its answer; why every exchange ends | `packet/` |
//! | what is lent to all; all deadlines in one table; what is counted | `context`, `timers`, `counters` |
//! | inputs and outputs; topics, ids and payloads of messages | `io/`, `envelope/` |
//! | time as a number, random numbers, bounds, settings, maps whose order never shows | `time`, `random`, `limits`, `settings/`, `map`, `window`, `recent` |
//! | what scenarios ask and bring about beyond `handle` and `poll`, with the feature `testing` | `testing` |

#![doc = include_str!("faults.md")]

/// Borrows what sending needs, so that the machines stay free to be called with it.
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

mod connectivity;
mod context;
mod counters;
mod detection;
mod discovery;
mod dissemination;
pub mod election;
mod envelope;
mod io;
mod joining;
mod leadership;
pub mod limits;
mod map;
mod member;
mod membership;
mod messages;
mod observers;
mod packet;
mod random;
mod recent;
mod settings;
mod time;
mod timers;
mod view;
pub mod window;
pub mod wire;
mod wiring;

#[cfg(test)]
#[path = "tests/internals/mod.rs"]
mod internals;
#[cfg(any(test, feature = "testing"))]
#[path = "tests/support.rs"]
pub mod testing;

// The harness that tests inside share with those outside names the crate as the latter do.
#[cfg(test)]
extern crate self as headcount_core;

use std::sync::Arc;

pub use counters::{Carrier, Counters, DropReason, Histogram, MessageCounters};
pub use envelope::{InvalidMessageId, InvalidTopic, MessageId, Payload, TooLarge, Topic};
pub use io::{
    Command, CommandError, Contacted, CoreInit, Delivery, DeliveryKind, Durable, HealthEvidence, Input, Leadership,
    LeadershipState, LinkEvent, LinkId, Notice, OutOfBandBroadcast, Output, QuorumInit, Receiver, Reply, StopReason,
    Ticket, Unopened,
};
pub use joining::JoinReport;
pub use leadership::OtherElectorate;
pub use member::{
    Change, ChangeKind, DetectionMethod, InvalidName, InvalidTags, LeaveReason, NodeId, ProtocolRange, Record, Run,
    Status, Tags, canonical, check_name, is_of_many, is_reachable,
};
pub use settings::{OutOfRange, Profile, Settings, Timing};
pub use time::Time;
pub use view::RecordPool;
pub use wiring::{Observation, Sizes};

use connectivity::Paths;
use context::{Context, Phase};
use detection::Partition;
use detection::crash::Crashes;
use detection::{Detector, LocalHealth};
use discovery::Reunion;
use dissemination::{Gossip, LeaseUpdates};
use joining::{Joiner, Sponsor};
use leadership::Lead;
use membership::{Arrivals, Confirmations, Incarnation, Moving, Myself, Rivals};
use messages::Messages;
use observers::Observers;
use packet::Inbox;
use packet::{Outbox, Packets, Prover, SealRoom};
use random::{Stream, stream};
use view::Peer;
use view::View;
use wire::Header;

/// One node's membership: a state machine with two entries, `handle` and `poll`. See the [module's page](self) for
/// their contract.
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
        init.settings.check().expect("settings are checked before the core is made");
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
        assert!(record.is_well_formed(), "a node begins with a record that others will believe: {record:?}");
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
            let (me, view_interval) = (core.me().id.clone(), core.cx.settings.gossip_interval);
            let lead = Lead::new(quorum, me, view_interval, now, draws(Stream::Lead));
            core.lead = Some(Box::new(lead));
            core.tell_election(|_, _| ());
        }
        core.cx.phase = Phase::Joining;
        core.joiner.begin();
        let step = core.joiner.seek_cluster(&mut outbox!(core), &core.reunion);
        core.take_joiner_step(step);
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
        self.paths.close_bootstraps(&mut self.cx);
        self.joiner.end();
        self.cx.phase = Phase::Stopped;
        self.cx.timers.clear();
        self.cx.output(Output::Stopped(reason));
    }
}
