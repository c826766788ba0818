//! Voters in virtual time: messages that take time or are lost, disks that write late, clocks of different rates,
//! crashes.
//!
//! Safety is checked after every step, on the true time that no voter sees.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

use super::watch::Watch;
use crate::election::flaw::Flaw;
use crate::election::tests::Election;
use crate::election::{
    Action, Alarm, Ballot, ChangeError, Confirmed, Context, Descent, ElectionInit, ElectionMessage, Electorate,
    Identity, LeaderPolicy, LeaseTiming, Lineage, LossReason, NumberedView, Term, Unconfirmed,
};
use crate::limits::EARLIEST_FOUNDING;
use crate::member::NodeId;
use crate::time::Time;

/// Nanoseconds of true time.
pub(super) type Nanos = u64;
pub(super) const MS: Nanos = 1_000_000;

pub(super) const LEASE: Duration = Duration::from_secs(2);

/// The time after which a write to a full disk is tried again.
const WRITE_RETRY: Nanos = 300 * MS;

/// The longest additional delay of a late message.
const MOST_LATE: Nanos = 5_000 * MS;

#[derive(Debug, Clone)]
pub(super) enum Happening {
    ElectionMessage { to: usize, from: usize, message: ElectionMessage },
    Stored { node: usize, life: u64, version: u64 },
    Wake { node: usize, life: u64, epoch: u64 },
    Contents { node: usize, life: u64, view: NumberedView },
}

/// A voter, its disk and its clock.
pub(super) struct Node {
    pub(super) id: NodeId,
    pub(super) identity: Identity,
    pub(super) election: Option<Election>,
    pub(super) disk: Ballot,
    /// The time that its disk takes for a write, if it differs from the other disks.
    pub(super) write_delay: Option<(Nanos, Nanos)>,
    /// The ballots given to the disk and not acknowledged yet, oldest first: one of them is being written.
    writing: Vec<Ballot>,
    life: u64,
    epoch: u64,
    clock_began: Nanos,
    pub(super) rate_ppm: i64,
    pub(super) paused: bool,
    waiting: Vec<Happening>,
    pub(super) is_up: bool,
    /// True while the disk takes nothing.
    pub(super) is_disk_full: bool,
    pub(super) timing: LeaseTiming,
    pub(super) policy: LeaderPolicy,
    /// The claim as its holder sees it, on its own clock.
    pub(super) claim: Option<(Term, Time)>,
    /// The names configured as voters, also after its disk is lost: a wiped voter comes back under another identity.
    pub(super) configured: Vec<NodeId>,
    pub(super) agreed: Option<NumberedView>,
    /// The latest term that its disk acknowledged.
    pub(super) latest: Term,
}

pub(super) struct Cluster {
    pub(super) now: Nanos,
    pub(super) nodes: Vec<Node>,
    queue: BTreeMap<(Nanos, u64), Happening>,
    count: u64,
    pub(super) rng: ChaCha8Rng,
    pub(super) delay: (Nanos, Nanos),
    pub(super) loss: f64,
    /// The share of messages that come much later than others.
    pub(super) lateness: f64,
    pub(super) duplication: f64,
    pub(super) write_delay: (Nanos, Nanos),
    pub(super) cut: BTreeSet<(usize, usize)>,
    pub(super) members: Vec<NodeId>,
    pub(super) flaw: Option<Flaw>,
    /// The highest term that was led in another way, as those know that start from now on.
    pub(super) floor: Term,
    /// The voter that had a claim in each term; the first one, of electorates that were founded apart.
    pub(super) leaders: BTreeMap<Term, usize>,
    /// The voter that had a claim in each term of a root.
    pub(super) led: BTreeMap<(Lineage, Term), usize>,
    pub(super) agreed: BTreeMap<(Term, Lineage, u64), NumberedView>,
    pub(super) answers: Vec<(u64, Result<Electorate, ChangeError>)>,
    pub(super) confirmations: Vec<(Nanos, u64, Result<Confirmed, Unconfirmed>)>,
    pub(super) losses: Vec<(Nanos, usize, LossReason)>,
    pub(super) quorum: Vec<(usize, bool)>,
    lost_terms: BTreeSet<(usize, Term)>,
    pub(super) alarms: Vec<(usize, Alarm)>,
    pub(super) messages: u64,
    pub(super) ended_work: bool,
    pub(super) watch: Watch,
    pub(super) violations: Vec<String>,
}

pub(super) fn id(node: usize) -> NodeId {
    NodeId::new(&format!("v{node}")).expect("a name")
}

impl Cluster {
    pub(super) fn new(seed: u64, voters: usize) -> Self {
        let mut cluster = Self::empty(seed);
        let names: Vec<NodeId> = (0..voters).map(id).collect();
        for _ in 0..voters {
            cluster.add(names.clone());
        }
        cluster
    }

    pub(super) fn empty(seed: u64) -> Self {
        Self {
            now: 1_000_000 * MS,
            nodes: Vec::new(),
            queue: BTreeMap::new(),
            count: 0,
            rng: ChaCha8Rng::seed_from_u64(seed),
            delay: (MS / 5, 2 * MS),
            loss: 0.0,
            lateness: 0.0,
            duplication: 0.0,
            write_delay: (MS, 5 * MS),
            cut: BTreeSet::new(),
            members: vec![id(0)],
            flaw: None,
            floor: Term(0),
            leaders: BTreeMap::new(),
            led: BTreeMap::new(),
            agreed: BTreeMap::new(),
            answers: Vec::new(),
            confirmations: Vec::new(),
            losses: Vec::new(),
            quorum: Vec::new(),
            lost_terms: BTreeSet::new(),
            alarms: Vec::new(),
            messages: 0,
            ended_work: true,
            watch: Watch::default(),
            violations: Vec::new(),
        }
    }

    pub(super) fn add(&mut self, configured: Vec<NodeId>) -> usize {
        let node = self.nodes.len();
        let identity = Identity(self.rng.random());
        self.nodes.push(Node {
            id: id(node),
            identity,
            election: None,
            disk: Ballot::blank(identity),
            write_delay: None,
            writing: Vec::new(),
            life: 0,
            epoch: 0,
            clock_began: 0,
            rate_ppm: 0,
            paused: false,
            waiting: Vec::new(),
            is_up: true,
            is_disk_full: false,
            timing: LeaseTiming { lease_duration: LEASE, renewal_interval: LEASE / 4 },
            policy: LeaderPolicy::default(),
            claim: None,
            configured,
            agreed: None,
            latest: Term(0),
        });
        node
    }

    pub(super) fn start_all(&mut self) {
        for node in 0..self.nodes.len() {
            self.start(node);
        }
    }

    /// Starts a process with what its disk holds.
    pub(super) fn start(&mut self, node: usize) {
        let random = self.rng.random();
        let (now, flaw) = (self.now, self.flaw);
        let place = &mut self.nodes[node];
        place.life += 1;
        place.clock_began = now;
        place.claim = None;
        place.agreed = None;
        let init = ElectionInit {
            me: place.id.clone(),
            timing: place.timing,
            view_interval: Duration::from_millis(200),
            voters: place.configured.clone(),
            ballot: place.disk.clone(),
            policy: place.policy,
            floor: self.floor,
            wall_clock: EARLIEST_FOUNDING + now / MS,
        };
        let members = Vec::new;
        let context = Context { now: Time::ORIGIN, random, is_up: place.is_up, members: &members };
        let election = Election::planted(init, &context, flaw);
        if election.term() < place.latest {
            self.violations.push(format!("term of {node} falls at a restart"));
        }
        self.watch.starts(node, election.term());
        place.election = Some(election);
        self.drain(node);
    }

    /// Kills the process; of the writes under way, any first part may have reached the disk. Acknowledged writes are
    /// there.
    pub(super) fn crash(&mut self, node: usize) {
        let writes = self.nodes[node].writing.len();
        let reached = self.rng.random_range(0..=writes);
        self.crash_when_written(node, reached);
    }

    /// Kills the process when this many of the writes under way have reached the disk.
    pub(super) fn crash_when_written(&mut self, node: usize, reached: usize) {
        let place = &mut self.nodes[node];
        place.election = None;
        place.claim = None;
        place.paused = false;
        place.waiting.clear();
        place.life += 1;
        if let Some(ballot) = place.writing.drain(..).take(reached).next_back() {
            place.disk = ballot;
        }
    }

    /// Kills the process and loses its disk: the voter comes back under another identity.
    pub(super) fn wipe(&mut self, node: usize) {
        self.crash(node);
        let identity = Identity(self.rng.random());
        self.nodes[node].identity = identity;
        self.nodes[node].disk = Ballot::blank(identity);
        self.nodes[node].latest = Term(0);
    }

    /// Loses all messages under way.
    pub(super) fn lose_messages(&mut self) {
        self.queue.retain(|_, happening| !matches!(happening, Happening::ElectionMessage { .. }));
    }

    /// Takes the messages to this voter out of the network.
    pub(super) fn take_messages(&mut self, to_node: usize, taken: &mut Vec<ElectionMessage>) {
        self.queue.retain(|_, happening| match happening {
            Happening::ElectionMessage { to, message, .. } if *to == to_node => {
                taken.push(message.clone());
                false
            }
            _ => true,
        });
    }

    pub(super) fn resume(&mut self, node: usize) {
        self.nodes[node].paused = false;
        let waiting = std::mem::take(&mut self.nodes[node].waiting);
        for happening in waiting {
            self.happen(happening);
        }
        self.wake(node);
    }

    /// Lets this voter's clock go at another rate from now on; the time that it has shown so far stands.
    pub(super) fn set_rate(&mut self, node: usize, rate_ppm: i64) {
        let shown = i128::try_from(self.local(node, self.now).since(Time::ORIGIN).as_nanos()).expect("fits");
        let elapsed = shown * 1_000_000 / (1_000_000 + i128::from(rate_ppm));
        self.nodes[node].clock_began = self.now - elapsed as Nanos;
        self.nodes[node].rate_ppm = rate_ppm;
        self.set_alarm(node);
    }

    pub(super) fn local(&self, node: usize, now: Nanos) -> Time {
        let place = &self.nodes[node];
        let elapsed = i128::from(now - place.clock_began);
        let shown = elapsed + elapsed * i128::from(place.rate_ppm) / 1_000_000;
        Time::ORIGIN + Duration::from_nanos(shown as u64)
    }

    /// Calls a machine with its surroundings, and carries out its actions.
    pub(super) fn with<T>(&mut self, node: usize, act: impl FnOnce(&mut Election, &Context<'_>) -> T) -> Option<T> {
        let random = self.rng.random();
        let now = self.local(node, self.now);
        let members = self.members.clone();
        let place = &mut self.nodes[node];
        let election = place.election.as_mut()?;
        let members = || members.clone();
        let context = Context { now, random, is_up: place.is_up, members: &members };
        let result = act(election, &context);
        self.drain(node);
        Some(result)
    }

    pub(super) fn wake(&mut self, node: usize) {
        self.with(node, Election::tick);
    }

    fn drain(&mut self, node: usize) {
        while let Some(action) = self.nodes[node].election.as_mut().and_then(Election::poll) {
            self.carry_out(node, action);
        }
        self.set_alarm(node);
        if let Some(election) = &self.nodes[node].election {
            self.violations.extend(self.watch.looks_at(node, election));
        }
        self.check();
    }

    fn set_alarm(&mut self, node: usize) {
        let place = &self.nodes[node];
        let Some(deadline) = place.election.as_ref().and_then(|election| election.next_deadline(place.is_up)) else {
            return;
        };
        let shown = i128::try_from(deadline.since(Time::ORIGIN).as_nanos()).expect("fits");
        let elapsed = shown * 1_000_000 / (1_000_000 + i128::from(place.rate_ppm)) + 1;
        let at = (place.clock_began + elapsed as Nanos).max(self.now);
        self.nodes[node].epoch += 1;
        let (life, epoch) = (self.nodes[node].life, self.nodes[node].epoch);
        self.later(at, Happening::Wake { node, life, epoch });
    }

    fn later(&mut self, at: Nanos, happening: Happening) {
        self.count += 1;
        self.queue.insert((at, self.count), happening);
    }

    fn carry_out(&mut self, node: usize, action: Action) {
        match action {
            Action::Send { to, message } => {
                self.messages += 1;
                let to = self.nodes.iter().position(|node| node.id == to).expect("voters are nodes");
                let copies = 1 + usize::from(self.rng.random_bool(self.duplication));
                for _ in 0..copies {
                    if self.cut.contains(&(node, to)) || self.rng.random_bool(self.loss) {
                        continue;
                    }
                    let mut at = self.now + self.rng.random_range(self.delay.0..=self.delay.1);
                    if self.lateness > 0.0 && self.rng.random_bool(self.lateness) {
                        at += self.rng.random_range(0..=MOST_LATE);
                    }
                    self.later(at, Happening::ElectionMessage { to, from: node, message: message.clone() });
                }
            }
            Action::Persist(ballot) => {
                let version = ballot.version;
                if ballot.term < self.nodes[node].disk.term {
                    self.violations.push(format!("term of {node} falls"));
                }
                self.nodes[node].writing.push(ballot);
                if self.nodes[node].writing.len() == 1 {
                    self.write(node, version);
                }
            }
            Action::Claimed { term, until, .. } => {
                self.nodes[node].claim = Some((term, until));
                if self.lost_terms.contains(&(node, term)) {
                    self.violations.push(format!("{node} leads again in term {term}"));
                }
                let root = self.election(node).electorate().expect("it leads it").root;
                self.leaders.entry(term).or_insert(node);
                let first = *self.led.entry((root, term)).or_insert(node);
                if first != node {
                    self.violations.push(format!("{first} and {node} lead in term {term}"));
                }
            }
            Action::Lost { term, reason } => {
                self.nodes[node].claim = None;
                self.lost_terms.insert((node, term));
                self.losses.push((self.now, node, reason));
                if reason == LossReason::Resigned && self.ended_work {
                    let now = self.local(node, self.now);
                    let context = Context { now, random: 0.5, is_up: true, members: &Vec::new };
                    self.nodes[node].election.as_mut().expect("it just spoke").work_ended(&context, term);
                }
            }
            Action::Agreed(view) => self.note_agreed(node, view),
            Action::Wanted { view, from } => {
                let from = self.nodes.iter().position(|node| node.id == from).expect("voters are nodes");
                let found = self.nodes[from].election.as_ref().and_then(|election| election.view_of(view.digest));
                if let Some(found) = found.filter(|_| !self.cut.contains(&(from, node))) {
                    let contents = found.under(view.term);
                    let (at, life) = (self.now + 2 * self.delay.1, self.nodes[node].life);
                    self.later(at, Happening::Contents { node, life, view: contents });
                }
            }
            Action::Answer { ticket, result } => self.answers.push((ticket, result)),
            Action::Quorum { is_reached } => self.quorum.push((node, is_reached)),
            Action::Confirmed { ticket, result } => self.confirmations.push((self.now, ticket, result)),
            Action::Alarm(alarm) => self.alarms.push((node, alarm)),
            Action::Followed { .. } | Action::Released { .. } => {}
        }
    }

    /// Begins a write: a disk does one at a time, and goes on with the newest ballot of those that wait.
    fn write(&mut self, node: usize, version: u64) {
        let (least, most) = self.nodes[node].write_delay.unwrap_or(self.write_delay);
        let at = self.now + self.rng.random_range(least..=most);
        let life = self.nodes[node].life;
        self.later(at, Happening::Stored { node, life, version });
    }

    fn note_agreed(&mut self, node: usize, view: NumberedView) {
        let key = (view.electorate.began, view.electorate.lineage, view.number);
        if let Some(known) = self.agreed.get(&key)
            && known.reference().digest != view.reference().digest
        {
            self.violations.push(format!("number {key:?} has two contents"));
        }
        self.violations.extend(self.watch.agreed(&view));
        self.agreed.insert(key, view.clone());
        self.nodes[node].agreed = Some(view);
    }

    fn happen(&mut self, happening: Happening) {
        let (node, life) = match &happening {
            Happening::ElectionMessage { to, .. } => (*to, None),
            Happening::Stored { node, life, .. }
            | Happening::Wake { node, life, .. }
            | Happening::Contents { node, life, .. } => (*node, Some(*life)),
        };
        let place = &mut self.nodes[node];
        if place.election.is_none() || life.is_some_and(|life| life != place.life) {
            return;
        }
        if place.paused {
            if !matches!(happening, Happening::Wake { .. }) && place.waiting.len() < 256 {
                place.waiting.push(happening);
            }
            return;
        }
        match happening {
            Happening::ElectionMessage { from, message, .. } => {
                let from = id(from);
                self.with(node, |election, context| election.receive(context, &from, message));
            }
            Happening::Stored { .. } if place.is_disk_full => {
                // The newest ballot is the one that is tried again.
                let version = place.writing.last().expect("it is being written").version;
                self.later(self.now + WRITE_RETRY, Happening::Stored { node, life: life.unwrap_or(0), version });
                self.with(node, Election::store_failed);
            }
            Happening::Stored { version, .. } => {
                let written = place.writing.iter().position(|writing| writing.version == version);
                place.disk = place.writing.drain(..=written.expect("it was given")).next_back().expect("it is there");
                place.latest = place.latest.max(place.disk.term);
                if let Some(version) = place.writing.last().map(|newest| newest.version) {
                    self.write(node, version);
                }
                self.with(node, |election, context| election.stored(context, version));
            }
            Happening::Wake { epoch, .. } => {
                if epoch == place.epoch {
                    self.wake(node);
                }
            }
            Happening::Contents { view, .. } => {
                self.with(node, |election, context| election.contents(context, &view));
            }
        }
    }

    /// Does what gossip does, once for all: whoever is not cut off from a leader hears of its claim, and that leader hears of
    /// the terms of an electorate that ended.
    pub(super) fn gossip(&mut self) {
        for (leader, term) in self.claims() {
            for node in (0..self.nodes.len()).filter(|node| *node != leader) {
                let is_there =
                    self.nodes[node].election.is_some() && !self.nodes[node].paused && self.nodes[node].is_up;
                if is_there && !self.cut.contains(&(leader, node)) {
                    self.hear_of_leader(node, leader, term);
                }
            }
        }
    }

    /// Tells a node of a leader and its term.
    pub(super) fn hear_of_leader(&mut self, node: usize, leader: usize, term: Term) {
        let Some(leads) = self.election(leader).electorate().map(Electorate::descent) else { return };
        self.hear_of(node, leads, term);
        let ballot = self.election(node).ballot();
        let ended = ballot.ended.as_ref().filter(|_| ballot.accepted.is_none()).map(|ended| ended.term);
        if let Some(ended) = ended.filter(|ended| *ended >= term && !self.cut.contains(&(node, leader))) {
            self.with(leader, |election, context| election.lead_above(context, ended));
        }
    }

    /// Tells a node of an electorate that was led in this term.
    pub(super) fn hear_of(&mut self, node: usize, leads: Descent, term: Term) {
        match self.election(node).founded() {
            Some(own) if own.stands_over(&leads) => {
                self.with(node, |election, context| election.lead_above(context, term));
            }
            Some(own) if own != leads => {
                self.with(node, Election::stop_leading);
                self.with(node, |election, context| election.learn_of(context, Some(leads), None));
            }
            _ => {}
        }
    }

    /// Runs for this long.
    pub(super) fn run_for(&mut self, duration: Duration) {
        self.run_up_to(duration, |_| false);
    }

    /// Runs for this long, or up to the very step after which this holds.
    pub(super) fn run_up_to(&mut self, duration: Duration, holds: impl Fn(&Self) -> bool) {
        let end = self.now + duration.as_nanos() as Nanos;
        let mut at_once = 0;
        while let Some((&(at, count), _)) = self.queue.first_key_value() {
            if at > end {
                break;
            }
            if holds(self) {
                return;
            }
            at_once = if at > self.now { 0 } else { at_once + 1 };
            assert!(at_once < 10_000, "time stands still: {:?}", self.queue.first_key_value());
            let happening = self.queue.remove(&(at, count)).expect("is first");
            self.now = self.now.max(at);
            self.happen(happening);
        }
        self.now = end;
        self.check();
    }

    /// Runs until this holds; returns true if it did in time.
    pub(super) fn run_until(&mut self, most: Duration, mut holds: impl FnMut(&Self) -> bool) -> bool {
        let end = self.now + most.as_nanos() as Nanos;
        while self.now < end && !holds(self) {
            self.run_for(Duration::from_millis(5));
        }
        holds(self)
    }

    /// Returns the machine of a voter that runs.
    pub(super) fn election(&self, node: usize) -> &Election {
        self.nodes[node].election.as_ref().expect("it runs")
    }

    /// Returns the voters that have a claim now, by their own clocks.
    pub(super) fn claims(&self) -> Vec<(usize, Term)> {
        let has_claim = |node: usize| {
            let (term, until) = self.nodes[node].claim?;
            (self.local(node, self.now) < until).then_some((node, term))
        };
        (0..self.nodes.len()).filter_map(has_claim).collect()
    }

    pub(super) fn leader(&self) -> Option<usize> {
        self.claims().first().map(|(node, _)| *node)
    }

    /// Checks that there is one claim at a time in one lineage. Recoveries make lineages, each of which counts only its
    /// own messages until they meet.
    fn check(&mut self) {
        let claims = self.claims();
        let lineage = |node: usize| self.election(node).lineage();
        let is_one_too_many = claims
            .iter()
            .enumerate()
            .any(|(at, (one, _))| claims[..at].iter().any(|(other, _)| lineage(*other) == lineage(*one)));
        if is_one_too_many {
            self.violations.push(format!("at {} valid claims: {claims:?}", self.now));
        }
    }

    #[track_caller]
    pub(super) fn assert_safe(&self) {
        assert!(self.violations.is_empty(), "{:?}", &self.violations[..self.violations.len().min(3)]);
    }

    /// Splits the nodes into groups that hear only each other.
    pub(super) fn split(&mut self, groups: &[&[usize]]) {
        let group = |node: usize| groups.iter().position(|group| group.contains(&node));
        let nodes = self.nodes.len();
        let pairs = (0..nodes).flat_map(|a| (0..nodes).map(move |b| (a, b)));
        self.cut = pairs.filter(|(a, b)| group(*a) != group(*b)).collect();
    }

    /// Cuts the connection between these two, both ways.
    pub(super) fn cut_pair(&mut self, one: usize, other: usize) {
        self.cut.extend([(one, other), (other, one)]);
    }

    pub(super) fn newest_agreed(&self) -> Option<&NumberedView> {
        self.agreed.values().next_back()
    }
}
