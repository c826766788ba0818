//! Leases in the world: the contenders of its first nodes, each driven as an agent drives one, and the database they
//! share.
//!
//! A contender lives and dies with its node's process, on the same clock: a pause holds up both, words to others go
//! through the core, and it leads nothing before the core is Up. A node that is told to leave gives its leases up
//! first.
//!
//! Invariants: worlds without contenders draw no figure and hold no event because of any of this; one round of a
//! contender is under way at a time. Must not know: what a contender decides, and why.
//!
//! | idea | file |
//! |---|---|
//! | the agent's part: inputs in, outputs carried out | `doing` |
//! | the way to the database, and what goes wrong on it | `way` |

mod doing;
mod way;

use std::collections::BTreeMap;
use std::time::Duration;

use super::{Event, Nanos, Waiting, World};
use crate::happening::Happening;
use crate::intercept::{Contender, Rules};
use crate::lease::Database;
use crate::random::{Purpose, Random, nanos};
use crate::watch::LeaseEvent as Told;
use headcount_contender::{ContenderInit, ContenderTiming, LeaseName, Round};
use headcount_core::wire::LeaseUpdate;
use headcount_core::{Command, Core, Time};
use way::Way;
pub use way::WayFault;

/// The largest error of a clock's rate that leases are made for: one percent.
const WORST_CLOCK_PPM: u64 = 10_000;
/// The time that a leaving node has to release its leases, as an agent has.
const GOODBYE: Duration = Duration::from_secs(5);

/// The nodes that contend, their leases, and their pace.
#[derive(Debug, Clone)]
pub struct LeaseOptions {
    /// The number of contenders: the first nodes.
    pub contenders: usize,
    /// The pace of the contenders.
    pub timing: ContenderTiming,
    /// The leases contended for; the first one is measured.
    pub leases: Vec<LeaseName>,
}

impl LeaseOptions {
    /// Returns options by which so many nodes contend for the one lease that clusters are led by.
    pub fn new(contenders: usize, timing: ContenderTiming) -> Self {
        Self { contenders, timing, leases: vec![LeaseName::default()] }
    }
}

/// Everything about leases in a world.
#[derive(Debug)]
pub(super) struct Leases {
    options: LeaseOptions,
    /// The database that all nodes ask, and another one, which some ask by mistake.
    databases: [Database; 2],
    way: Way,
    random: Random,
    places: Vec<Place>,
}

/// The part of a node's leases that outlives its process, and the part that does not.
#[derive(Debug, Default)]
struct Place {
    disk: BTreeMap<LeaseName, u64>,
    agent: Option<Agent>,
    /// The database does not hear it until then.
    cut_until: Nanos,
    /// The database that it asks.
    database: usize,
}

/// A contender and what drives it.
#[derive(Debug)]
struct Agent {
    process: u64,
    contender: Contender,
    /// The time at which its node became a member, so that it may lead.
    member_since: Option<Nanos>,
    /// The time until which work goes on that its node began as a leader: it gives the lease up only then.
    works_until: Nanos,
    /// The number of the valid waking.
    epoch: u64,
    rounds: u64,
    /// The number of the round under way, and what it asks about.
    in_flight: Option<(u64, Vec<LeaseName>)>,
    sweep_at: Nanos,
    is_leaving: bool,
}

/// An event of leases in the world's queue.
#[derive(Debug)]
pub(super) enum LeaseEvent {
    Happens {
        node: usize,
        process: u64,
        what: Happening,
    },
    /// A round reaches the database.
    Arrive {
        node: usize,
        process: u64,
        number: u64,
        round: Round,
        sent: Nanos,
    },
    Sweep {
        node: usize,
        sent: Nanos,
    },
}

impl World {
    /// Sets leases up for the nodes to come.
    pub(super) fn open_leases(&mut self) {
        let Some(options) = self.options.leases.clone() else { return };
        let databases = [Database::new(), Database::new()];
        let random = Random::new(self.options.seed, Purpose::Leases);
        let places = (0..options.contenders).map(|_| Place::default()).collect();
        self.leases = Some(Box::new(Leases { options, databases, way: Way::default(), random, places }));
    }

    pub(super) fn is_contending(&self, node: usize) -> bool {
        self.leases.as_ref().is_some_and(|leases| node < leases.places.len())
    }

    fn agent(&mut self, node: usize) -> Option<&mut Agent> {
        self.leases.as_mut()?.places.get_mut(node)?.agent.as_mut()
    }

    fn tell_of_lease(&mut self, node: usize, event: Told<'_>) {
        self.tell(|watch, world| watch.on_lease(world, node, event));
    }

    /// Draws the error of a contender's clock, in parts per million: always as wrong as is allowed, since what breaks,
    /// breaks there.
    pub(super) fn contender_clock_error(&mut self) -> i64 {
        let Some(leases) = &mut self.leases else { return 0 };
        if leases.random.chance(0.5) { WORST_CLOCK_PPM.cast_signed() } else { -WORST_CLOCK_PPM.cast_signed() }
    }

    /// Starts the contender of a process that starts; it leads nothing before the node is a member.
    pub(super) fn contender_starts(&mut self, node: usize) {
        let Some(process) = self.nodes[node].process.as_ref() else { return };
        let (number, clock, id) = (process.number, process.clock, process.core.me().id.clone());
        let Some(leases) = self.leases.as_mut().filter(|leases| node < leases.places.len()) else { return };
        let mut seed = [0; 32];
        for part in seed.chunks_mut(8) {
            part.copy_from_slice(&leases.random.bits().to_le_bytes());
        }
        let LeaseOptions { timing, leases: names, .. } = leases.options.clone();
        let terms = leases.places[node].disk.clone();
        let init =
            ContenderInit { node: id, timing, leases: names, terms: terms.clone(), floors: BTreeMap::new(), seed };
        let local = clock.local(self.now);
        let mut contender = Contender::by_rules(Rules::default(), init, local);
        self.intercept.contender_starts(node, &mut contender);
        leases.places[node].agent = Some(Agent {
            process: number,
            contender,
            member_since: None,
            works_until: 0,
            epoch: 0,
            rounds: 0,
            in_flight: None,
            sweep_at: self.now + nanos(timing.row_ttl / 2),
            is_leaving: false,
        });
        self.tell_of_lease(node, Told::Birth { process: number, clock, terms: &terms });
        for (lease, term) in &terms {
            self.keep_lease_term(node, lease, *term);
        }
        self.contend(node, |contender, now| contender.set_draining(now, true));
        self.turn(node);
    }

    /// Ends the contender of a process that is gone.
    pub(super) fn contender_ends(&mut self, node: usize) {
        if let Some(place) = self.leases.as_mut().and_then(|leases| leases.places.get_mut(node)) {
            place.agent = None;
            self.tell_of_lease(node, Told::End);
        }
    }

    /// Loses the terms on a disk with it.
    pub(super) fn lose_terms(&mut self, node: usize) {
        if let Some(place) = self.leases.as_mut().and_then(|leases| leases.places.get_mut(node)) {
            place.disk.clear();
        }
    }

    /// Lets the contender of a node lead once the node is a member.
    pub(super) fn let_members_lead(&mut self, node: usize) {
        let now = self.now;
        let is_up = self.core(node).is_some_and(Core::is_up);
        let Some(agent) = self.agent(node).filter(|agent| is_up && agent.member_since.is_none()) else { return };
        agent.member_since = Some(now);
        let names = self.lease_names();
        let is_alone = self.core(node).is_some_and(Core::has_begun_alone);
        self.contend(node, |contender, now| {
            if !is_alone {
                contender.arrive(now);
            }
            contender.set_draining(now, false);
            for lease in &names {
                contender.hurry(now, lease, now);
            }
        });
        self.turn(node);
    }

    fn lease_names(&self) -> Vec<LeaseName> {
        self.leases.as_ref().map(|leases| leases.options.leases.clone()).unwrap_or_default()
    }

    /// Has a node that a program wants to leave give up its leases first; returns false if there is nobody to give any
    /// up.
    pub(super) fn leaves_leases(&mut self, node: usize) -> bool {
        let Some(agent) = self.agent(node).filter(|agent| !agent.is_leaving) else { return false };
        agent.is_leaving = true;
        let process = agent.process;
        let farewell = LeaseEvent::Happens { node, process, what: Happening::Farewell };
        self.push_after(GOODBYE, Event::Lease(farewell));
        self.offer(node, Waiting::Lease(Box::new(Happening::Stop)));
        true
    }

    /// Hands in the news of a member about a lease.
    pub(super) fn hear_lease_update(&mut self, node: usize, update: LeaseUpdate, is_believed: bool) {
        self.happens_after(node, Duration::ZERO, Happening::Heard { word: update, is_believed });
    }

    /// Plans something that happens to the contender that a node has now.
    fn happens_after(&mut self, node: usize, after: Duration, what: Happening) {
        if let Some(process) = self.agent(node).map(|agent| agent.process) {
            self.push_after(after, Event::Lease(LeaseEvent::Happens { node, process, what }));
        }
    }

    pub(super) fn lease_event(&mut self, event: LeaseEvent) {
        match event {
            LeaseEvent::Happens { node, process, what } => {
                if self.is_process(node, process) {
                    self.offer(node, Waiting::Lease(Box::new(what)));
                }
            }
            LeaseEvent::Arrive { node, process, number, round, sent } => {
                self.reaches_database(node, process, number, &round, sent);
            }
            LeaseEvent::Sweep { node, sent } => self.sweep_reaches_database(node, sent),
        }
    }

    /// Takes note that a process that stood still goes on.
    pub(super) fn contender_wakes(&mut self, node: usize) {
        if self.leases.is_some() {
            self.tell_of_lease(node, Told::Wake);
        }
    }

    /// Returns the node with the only valid claim to the first lease, by its own clock, whether or not it runs at this
    /// moment.
    pub fn lease_leader(&self) -> Option<usize> {
        let leases = self.leases.as_ref()?;
        let lease = &leases.options.leases[0];
        let mut leaders = (0..leases.places.len()).filter(|node| {
            let (agent, now) = (leases.places[*node].agent.as_ref(), self.local(*node));
            let mut claims = agent.into_iter().flat_map(|agent| agent.contender.claims());
            claims.any(|claim| claim.lease == *lease && claim.is_me && claim.valid_until > now)
        });
        leaders.next().filter(|_| leaders.next().is_none())
    }

    /// Returns the earliest time since which a member contends, and waits for no work of its own.
    pub fn contended_since(&self) -> Option<Duration> {
        let leases = self.leases.as_ref()?;
        let agents = (0..leases.places.len()).filter_map(|node| leases.places[node].agent.as_ref());
        let since = |agent: &Agent| Some(agent.member_since?.max(agent.works_until));
        let since = agents.filter(|agent| !agent.is_leaving).filter_map(since).min();
        since.map(Duration::from_nanos)
    }

    /// Returns one of the databases: the one that all nodes ask, or another one, which some ask by mistake.
    pub fn database(&self, number: usize) -> Option<&Database> {
        self.leases.as_ref()?.databases.get(number)
    }

    /// Returns the same database, to be changed by hand.
    pub fn database_mut(&mut self, number: usize) -> Option<&mut Database> {
        self.leases.as_mut()?.databases.get_mut(number)
    }

    /// Returns true if the contender of a node may lead: its node has become a member.
    pub fn may_contend(&self, node: usize) -> bool {
        let place = self.leases.as_ref().and_then(|leases| leases.places.get(node));
        place.and_then(|place| place.agent.as_ref()).is_some_and(|agent| agent.member_since.is_some())
    }

    /// Returns the time on the clock of a node's process.
    fn local(&self, node: usize) -> Option<Time> {
        self.nodes[node].process.as_ref().map(|process| process.clock.local(self.now))
    }

    /// Has the leader by the first lease give it up for others. Returns true if there is one.
    pub fn resign_lease(&mut self) -> bool {
        let Some(leader) = self.lease_leader() else { return false };
        self.offer(leader, Waiting::Lease(Box::new(Happening::Resign)));
        true
    }

    fn say_goodbye(&mut self, node: usize) {
        if let Some(agent) = self.agent(node).filter(|agent| agent.is_leaving) {
            agent.is_leaving = false;
            // It stays stopped: only the node's own goodbye is due now.
            self.offer(node, Waiting::Command(Command::Leave));
        }
    }
}
