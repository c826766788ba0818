//! Contenders in virtual time: requests and answers that take time, get lost or come late, clocks of different rates,
//! crashes, pauses, gossip, and led work that takes its time to end.
//!
//! Safety is checked after every step, on the true time that no contender sees, see `watch`.

mod travel;

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

use crate::database::Database;
use crate::flaw::Flaw;
use crate::tests::Contender;
use crate::tests::watch::{Held, Reached};
use crate::{Answer, LeaseName, Outcome, Round, StepRequest, Token};
use crate::{Claim, ContenderAlarm, ContenderInit, ContenderTiming, Output};
use headcount_core::election::LossReason;
use headcount_core::{NodeId, Time};

/// Nanoseconds of true time.
pub(super) type Nanos = u64;
pub(super) const MS: Nanos = 1_000_000;

#[derive(Debug, Clone)]
enum Happening {
    Wake { node: usize, life: u64, epoch: u64 },
    Arrive { node: usize, life: u64, number: u64, round: Round },
    Answer { node: usize, life: u64, number: u64, names: Vec<LeaseName>, answer: Answer },
    Fail { node: usize, life: u64, number: u64, is_known: bool },
    Heard { to: usize, lease: LeaseName, by: NodeId, term: u64, is_released: bool },
    WorkEnds { node: usize, life: u64, lease: LeaseName, term: u64 },
}

impl Happening {
    /// Returns the node of the process that it happens to.
    fn node(&self) -> Option<usize> {
        match self {
            Self::Wake { node, .. }
            | Self::Answer { node, .. }
            | Self::Fail { node, .. }
            | Self::Heard { to: node, .. }
            | Self::WorkEnds { node, .. } => Some(*node),
            Self::Arrive { .. } => None,
        }
    }
}

/// An agent, its disk and its clock.
#[expect(clippy::struct_excessive_bools, reason = "each is a switch of its own")]
pub(super) struct Node {
    pub(super) name: NodeId,
    pub(super) contender: Option<Contender>,
    pub(super) timing: ContenderTiming,
    pub(super) disk: BTreeMap<LeaseName, u64>,
    pub(super) life: u64,
    epoch: u64,
    number: u64,
    clock_began: Nanos,
    pub(super) rate_ppm: i64,
    pub(super) is_paused: bool,
    waiting: Vec<Happening>,
    in_flight: Option<u64>,
    was_answered: bool,
    /// True if the store does not hear the agent.
    pub(super) is_cut: bool,
    /// True if other agents do not hear the agent.
    pub(super) is_mute: bool,
    pub(super) is_draining: bool,
    /// True if the agent's led work does not end.
    pub(super) works_on: bool,
    pub(super) held: BTreeMap<LeaseName, Held>,
    pub(super) work: BTreeSet<(LeaseName, u64)>,
    /// Terms that it has heard of, from others, its disk or the store.
    pub(super) knew: BTreeSet<(LeaseName, u64)>,
    /// Tokens that it has seen in the store.
    pub(super) sighted: BTreeSet<Token>,
    pub(super) shown: BTreeMap<LeaseName, Claim>,
    /// True if the agent was told to stop.
    pub(super) is_stopping: bool,
    pub(super) is_stopped: bool,
}

/// The fate of what is sent, by lot.
#[derive(Debug, Clone, Copy)]
pub(super) struct Network {
    pub(super) delay: (Nanos, Nanos),
    /// Requests that never arrive.
    pub(super) lost_requests: f64,
    /// Answers that never arrive.
    pub(super) lost_answers: f64,
    /// Requests that arrive much later.
    pub(super) late_requests: f64,
    /// Connections that break in mid-commit, which is noticed at once.
    pub(super) broken: f64,
    pub(super) lost_gossip: f64,
    /// True if the second one is lost of two answers to one node in a row.
    pub(super) loses_every_other: bool,
}

impl Network {
    /// A network that loses nothing, and is as slow as one within a building.
    pub(super) const CALM: Self = Self {
        delay: (MS / 5, 2 * MS),
        lost_requests: 0.0,
        lost_answers: 0.0,
        late_requests: 0.0,
        broken: 0.0,
        lost_gossip: 0.0,
        loses_every_other: false,
    };
}

pub(super) struct World {
    pub(super) now: Nanos,
    pub(super) nodes: Vec<Node>,
    pub(super) database: Database,
    /// True if the database answers nobody.
    pub(super) is_down: bool,
    pub(super) network: Network,
    pub(super) leases: Vec<LeaseName>,
    pub(super) rng: ChaCha8Rng,
    pub(super) flaw: Option<Flaw>,
    queue: BTreeMap<(Nanos, u64), Happening>,
    count: u64,
    /// The grants of the database; true for those that began a term.
    granted: BTreeMap<Token, bool>,
    /// The grants that the database has lost; true for those that began a term.
    pub(super) erased: BTreeMap<Token, bool>,
    /// The first claim in each term: whose, and on what grant.
    pub(super) leaders: BTreeMap<(LeaseName, u64), (usize, u64, Token)>,
    given: BTreeSet<(LeaseName, u64)>,
    /// Terms that were given again after the commit was lost that gave them first: word of them may be of either.
    pub(super) twice: BTreeSet<(LeaseName, u64)>,
    /// The ends of the claims of each term.
    pub(super) ends: BTreeMap<(usize, LeaseName, u64), Time>,
    /// Rounds that reached the database, by node.
    pub(super) rounds: Vec<(Nanos, usize, Vec<Outcome>)>,
    pub(super) losses: Vec<(Nanos, usize, LossReason)>,
    pub(super) starts: Vec<(Nanos, usize, u64)>,
    pub(super) alarms: Vec<(usize, ContenderAlarm)>,
    pub(super) reached: Reached,
    pub(super) violations: Vec<String>,
}

pub(super) fn name(node: usize) -> NodeId {
    NodeId::new(&format!("n{node}")).expect("a name")
}

impl World {
    pub(super) fn new(seed: u64, nodes: usize, timing: ContenderTiming) -> Self {
        let mut world = Self {
            now: 1_000_000 * MS,
            nodes: Vec::new(),
            database: Database::new(),
            is_down: false,
            network: Network::CALM,
            leases: vec![LeaseName::default()],
            rng: ChaCha8Rng::seed_from_u64(seed),
            flaw: None,
            queue: BTreeMap::new(),
            count: 0,
            granted: BTreeMap::new(),
            erased: BTreeMap::new(),
            leaders: BTreeMap::new(),
            given: BTreeSet::new(),
            twice: BTreeSet::new(),
            ends: BTreeMap::new(),
            rounds: Vec::new(),
            losses: Vec::new(),
            starts: Vec::new(),
            alarms: Vec::new(),
            reached: Reached::default(),
            violations: Vec::new(),
        };
        for node in 0..nodes {
            world.add(name(node), timing);
        }
        world
    }

    pub(super) fn add(&mut self, name: NodeId, timing: ContenderTiming) -> usize {
        self.nodes.push(Node {
            name,
            contender: None,
            timing,
            disk: BTreeMap::new(),
            life: 0,
            epoch: 0,
            number: 0,
            clock_began: 0,
            rate_ppm: 0,
            is_paused: false,
            waiting: Vec::new(),
            in_flight: None,
            was_answered: false,
            is_cut: false,
            is_mute: false,
            is_draining: false,
            works_on: false,
            held: BTreeMap::new(),
            work: BTreeSet::new(),
            knew: BTreeSet::new(),
            sighted: BTreeSet::new(),
            shown: BTreeMap::new(),
            is_stopping: false,
            is_stopped: false,
        });
        self.nodes.len() - 1
    }

    pub(super) fn lease(&self) -> LeaseName {
        self.leases[0].clone()
    }

    pub(super) fn start_all(&mut self) {
        for node in 0..self.nodes.len() {
            self.start(node);
        }
    }

    /// Starts a process with what its disk holds.
    pub(super) fn start(&mut self, at: usize) {
        let (now, flaw, leases) = (self.now, self.flaw, self.leases.clone());
        let seed = self.rng.random();
        let node = &mut self.nodes[at];
        node.life += 1;
        node.clock_began = now;
        (node.is_stopping, node.is_stopped) = (false, false);
        node.is_draining = false;
        node.knew = node.disk.iter().map(|(lease, term)| (lease.clone(), *term)).collect();
        let init = ContenderInit {
            node: node.name.clone(),
            timing: node.timing,
            leases,
            terms: node.disk.clone(),
            floors: BTreeMap::new(),
            seed,
        };
        node.contender = Some(Contender::planted(init, Time::ORIGIN, flaw));
        self.drain(at, None);
    }

    /// Ends a process. Requests that it sent may still arrive.
    pub(super) fn crash(&mut self, at: usize) {
        let node = &mut self.nodes[at];
        node.contender = None;
        node.is_paused = false;
        node.in_flight = None;
        node.waiting.clear();
        node.held.clear();
        node.work.clear();
        node.sighted.clear();
        node.shown.clear();
        node.life += 1;
    }

    /// Ends a process and empties its disk.
    pub(super) fn wipe(&mut self, at: usize) {
        self.crash(at);
        self.nodes[at].disk.clear();
    }

    pub(super) fn pause(&mut self, at: usize) {
        self.nodes[at].is_paused = self.nodes[at].contender.is_some();
    }

    pub(super) fn resume(&mut self, at: usize) {
        self.nodes[at].is_paused = false;
        let now = self.local(at);
        self.reached.stale_wakes += u64::from(self.nodes[at].held.values().any(|held| held.until <= now));
        for happening in std::mem::take(&mut self.nodes[at].waiting) {
            self.happen(happening);
        }
        self.wake(at);
    }

    /// Sets the rate of a clock from now on; what it has shown so far stands.
    pub(super) fn set_rate(&mut self, at: usize, rate_ppm: i64) {
        let shown = i128::from(self.local(at).since(Time::ORIGIN).as_nanos() as u64);
        let elapsed = shown * 1_000_000 / (1_000_000 + i128::from(rate_ppm));
        self.nodes[at].clock_began = self.now - elapsed as Nanos;
        self.nodes[at].rate_ppm = rate_ppm;
        self.set_alarm(at);
    }

    pub(super) fn local(&self, at: usize) -> Time {
        let node = &self.nodes[at];
        let elapsed = i128::from(self.now - node.clock_began);
        let shown = elapsed + elapsed * i128::from(node.rate_ppm) / 1_000_000;
        Time::ORIGIN + Duration::from_nanos(shown as u64)
    }

    /// Calls the machine once, and carries out what comes of it.
    pub(super) fn with<T>(&mut self, at: usize, act: impl FnOnce(&mut Contender, Time) -> T) -> Option<T> {
        let now = self.local(at);
        let result = act(self.nodes[at].contender.as_mut()?, now);
        self.drain(at, None);
        Some(result)
    }

    pub(super) fn stop(&mut self, at: usize) {
        self.nodes[at].is_stopping = true;
        self.with(at, Contender::stop);
    }

    pub(super) fn wake(&mut self, at: usize) {
        self.with(at, Contender::tick);
        if let Some(Some(round)) = self.with(at, Contender::begin) {
            self.send(at, round);
            self.set_alarm(at);
        }
    }

    /// Fails over to a replica that lacks the last so many commits, or all of them.
    pub(super) fn lose_commits(&mut self, commits: Option<usize>) {
        let lost = match commits {
            Some(commits) => self.database.fail_over(commits),
            None => self.database.replace(),
        };
        self.reached.lost_commits += u64::from(!lost.is_empty() && commits.is_some());
        self.reached.emptied += u64::from(commits.is_none());
        match commits {
            Some(_) => self.erased.extend(lost.into_iter().map(|lost| (lost.token, lost.is_acquisition))),
            None => self.erased.extend(&self.granted),
        }
    }

    pub(super) fn step(&mut self, most: Nanos) -> bool {
        let Some((&(at, _), _)) = self.queue.first_key_value() else { return false };
        if at > most {
            return false;
        }
        let ((at, _), happening) = self.queue.pop_first().expect("it was there");
        self.now = at;
        self.happen(happening);
        true
    }

    pub(super) fn run_for(&mut self, duration: Duration) {
        let end = self.now + duration.as_nanos() as Nanos;
        while self.violations.is_empty() && self.step(end) {}
        self.now = self.now.max(end);
    }

    /// Runs until this holds, or for so long; says whether it does.
    pub(super) fn run_until(&mut self, most: Duration, holds: impl Fn(&Self) -> bool) -> bool {
        let end = self.now + most.as_nanos() as Nanos;
        while !holds(self) && self.violations.is_empty() && self.step(end) {}
        holds(self)
    }

    /// Loses the requests that are still under way.
    pub(super) fn lose_requests(&mut self) {
        self.queue.retain(|_, happening| !matches!(happening, Happening::Arrive { .. }));
    }

    /// Returns the node with the only valid claim to the first lease.
    pub(super) fn leader(&self) -> Option<usize> {
        let mut leaders = (0..self.nodes.len()).filter(|at| self.valid(*at, &self.leases[0]).is_some());
        leaders.next().filter(|_| leaders.next().is_none())
    }
}
