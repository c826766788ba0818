//! Every interleaving up to a bound: three voters, the same machine as everywhere else, looked at by a model checker.
//!
//! Words are delivered in any order, never, or twice; writes reach the disk late, and a crash loses any last part of
//! those that were not acknowledged; time goes on in steps of half a lease, and nobody is woken on time: a voter that is
//! not woken is one that is paused. What is bounded: the number of steps, of crashes, of repeated words, and of time.

use std::collections::{BTreeMap, BTreeSet};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use stateright::{Checker, HasDiscoveries, Model, Property};

use crate::core::election::flaw::Flaw;
use crate::core::election::{
    Action, Ballot, Body, Election, ElectionBirth, Electorate, Identity, LeaseTiming, LossReason, NumberedView,
    Surroundings, Term, Voter, Word,
};
use crate::core::limits::IDENTITY_TIMEOUT;
use crate::core::member::NodeId;
use crate::core::time::Time;

const VOTERS: usize = 3;
const TIMING: LeaseTiming =
    LeaseTiming { lease_duration: Duration::from_millis(500), renewal_interval: Duration::from_millis(125) };
const STEP: Duration = Duration::from_millis(250);

fn id(node: usize) -> NodeId {
    NodeId::new(&format!("v{node}")).expect("a name")
}

fn place(id: &NodeId) -> usize {
    usize::from(id.as_str().as_bytes()[1] - b'0')
}

/// A word under way. Equal words are one: a word that is repeated anyway tells nothing new.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Letter {
    from: usize,
    to: usize,
    word: Word,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Node {
    election: Election,
    disk: Ballot,
    writing: Vec<Ballot>,
    claim: Option<(Term, Time)>,
    /// The latest term that others know this voter by: its acknowledged votes and promises.
    spoken: Term,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct World {
    now: Time,
    nodes: Vec<Node>,
    letters: Vec<Letter>,
    members: Vec<NodeId>,
    leaders: BTreeMap<Term, usize>,
    /// Terms in which somebody had a claim.
    claimed: BTreeSet<Term>,
    /// By where the generation began, and the number.
    agreed: BTreeMap<(Term, u64), u64>,
    has_term_fallen: bool,
    has_two_leaders: bool,
    has_two_contents: bool,
    /// What may still happen.
    crashes: u8,
    repeats: u8,
    steps: u8,
    changes: u8,
    resignations: u8,
    revotes: u8,
    recoveries: u8,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Event {
    Deliver(usize),
    DeliverAndKeep(usize),
    Stored(usize),
    Wake(usize),
    /// And comes back at once, with this many of the writes under way.
    Crash(usize, usize),
    TimeGoesOn,
    MembersChange,
    Resign(usize),
    /// This leader is to add the node to the electorate, or to remove it.
    Revote(usize, usize),
    /// An operator recovers at this voter, with this one.
    Recover(usize, usize),
}

fn around(now: Time, members: &dyn Fn() -> Vec<NodeId>) -> Surroundings<'_> {
    Surroundings { now, luck: 0.0, is_up: true, members }
}

fn born(node: usize, disk: Ballot, now: Time, flaw: Option<Flaw>) -> Election {
    let birth = ElectionBirth {
        me: id(node),
        timing: TIMING,
        view_interval: Duration::from_millis(100),
        voters: (0..VOTERS).map(id).collect(),
        ballot: disk,
    };
    let mut election = Election::new(birth, &around(now, &Vec::new));
    if let Some(flaw) = flaw {
        election.plant(flaw);
    }
    election
}

impl World {
    /// An electorate that has formed, and nothing else.
    fn formed(flaw: Option<Flaw>) -> Self {
        let voters = (0..VOTERS).map(|node| Voter { id: id(node), identity: Identity(node as u64) }).collect();
        let founding = NumberedView::founding(Electorate::founded_by(voters));
        let now = Time::ORIGIN + Duration::from_secs(1_000);
        let node = |node| {
            let disk = Ballot { accepted: Some(founding.clone()), ..Ballot::blank(Identity(node as u64)) };
            let election = born(node, disk.clone(), now, flaw);
            Node { election, disk, writing: Vec::new(), claim: None, spoken: Term(0) }
        };
        Self {
            now,
            nodes: (0..VOTERS).map(node).collect(),
            letters: Vec::new(),
            members: Vec::new(),
            leaders: BTreeMap::new(),
            claimed: BTreeSet::new(),
            agreed: BTreeMap::new(),
            has_term_fallen: false,
            has_two_leaders: false,
            has_two_contents: false,
            crashes: 0,
            repeats: 0,
            steps: 0,
            changes: 0,
            resignations: 0,
            revotes: 0,
            recoveries: 0,
        }
    }

    /// The same, and one more node that may be voted in.
    fn formed_and_one_more(flaw: Option<Flaw>) -> Self {
        let mut world = Self::formed(flaw);
        let disk = Ballot::blank(Identity(77));
        let election = born(VOTERS, disk.clone(), world.now, flaw);
        world.nodes.push(Node { election, disk, writing: Vec::new(), claim: None, spoken: Term(0) });
        world
    }

    fn with<T>(&mut self, node: usize, act: impl FnOnce(&mut Election, &Surroundings<'_>) -> T) -> T {
        let members = self.members.clone();
        let members = move || members.clone();
        let result = act(&mut self.nodes[node].election, &around(self.now, &members));
        self.drain(node);
        result
    }

    fn drain(&mut self, node: usize) {
        while let Some(action) = self.nodes[node].election.poll() {
            match action {
                Action::Send { to, word } => self.send(node, place(&to), word),
                Action::Persist(ballot) => self.nodes[node].writing.push(ballot),
                Action::Claimed { term, until, .. } => {
                    self.nodes[node].claim = Some((term, until));
                    self.claimed.insert(term);
                }
                Action::Lost { term, reason } => {
                    self.nodes[node].claim = None;
                    if reason == LossReason::Resigned {
                        let now = self.now;
                        self.nodes[node].election.work_ended(&around(now, &Vec::new), term);
                    }
                }
                Action::Agreed(view) => {
                    let digest = view.reference().digest.0;
                    let key = (view.electorate.began, view.number);
                    self.has_two_contents |= *self.agreed.entry(key).or_insert(digest) != digest;
                }
                // Contents are never further away than the next step: whoever has them gives them.
                Action::Wanted { view, from } => {
                    let found =
                        self.nodes[place(&from)].election.view_of(view.digest).map(|found| found.under(view.term));
                    if let Some(found) = found {
                        let now = self.now;
                        self.nodes[node].election.contents(&around(now, &Vec::new), &found);
                    }
                }
                _ => {}
            }
        }
        self.nodes[node].election.forget_counts();
    }

    fn send(&mut self, from: usize, to: usize, word: Word) {
        let (leads, says) = match &word.body {
            Body::Renew(renewal) => (Some(renewal.term), Some(renewal.term)),
            Body::Voted { term, is_granted: true, .. } | Body::Acked { term, .. } => (None, Some(*term)),
            _ => (None, None),
        };
        if let Some(term) = leads {
            self.has_two_leaders |= *self.leaders.entry(term).or_insert(from) != from;
        }
        if let Some(term) = says {
            self.nodes[from].spoken = self.nodes[from].spoken.max(term);
        }
        let letter = Letter { from, to, word };
        if !self.letters.contains(&letter) {
            self.letters.push(letter);
        }
    }

    fn deliver(&mut self, at: usize, keep: bool) {
        let Letter { from, to, word } = if keep { self.letters[at].clone() } else { self.letters.remove(at) };
        self.with(to, |election, around| election.heard(around, &id(from), word));
    }

    fn store(&mut self, node: usize) {
        let ballot = self.nodes[node].writing.remove(0);
        self.has_term_fallen |= ballot.term < self.nodes[node].disk.term;
        let version = ballot.version;
        self.nodes[node].disk = ballot;
        self.with(node, |election, around| election.stored(around, version));
    }

    fn crash(&mut self, node: usize, kept: usize, rules: &Rules) {
        let place = &mut self.nodes[node];
        if let Some(ballot) = place.writing.drain(..).take(kept).next_back() {
            place.disk = ballot;
        }
        if rules.forgets_term {
            (place.disk.term, place.disk.vote) = (Term(0), None);
        }
        place.claim = None;
        place.election = born(node, place.disk.clone(), self.now, rules.flaw);
        self.drain(node);
    }

    /// The most valid claims in one lineage.
    fn claims(&self) -> usize {
        let valid = self.nodes.iter().filter(|node| node.claim.is_some_and(|(_, until)| self.now < until));
        let mut by_lineage = BTreeMap::new();
        for node in valid {
            *by_lineage.entry(node.election.lineage()).or_insert(0) += 1;
        }
        by_lineage.into_values().max().unwrap_or(0)
    }

    /// What histories come to that are worth looking at.
    fn reached(&self) -> Reached {
        let electorates = || self.nodes.iter().filter_map(|node| node.election.electorate());
        let began = electorates().map(|electorate| electorate.began).max().unwrap_or_default();
        Reached {
            two_claimed_terms: self.claimed.len() >= 2,
            electorate_change: electorates()
                .any(|electorate| electorate.began == Term(0) && electorate.voters.len() != VOTERS),
            recovery: began > Term(0),
            blank_voter: self.nodes.get(VOTERS).is_some_and(|node| node.disk.accepted.is_some()),
        }
    }

    fn check(&mut self) {
        self.has_term_fallen |= self.nodes.iter().any(|node| node.election.term() < node.spoken);
    }

    /// Lets words through, first come first served, until there are none of this kind.
    fn let_through(&mut self, is_such: impl Fn(&Letter) -> bool) {
        loop {
            if let Some(node) = (0..self.nodes.len()).find(|node| !self.nodes[*node].writing.is_empty()) {
                self.store(node);
            } else if let Some(at) = self.letters.iter().position(&is_such) {
                self.deliver(at, false);
            } else {
                return;
            }
        }
    }

    fn wake(&mut self, node: usize) {
        self.with(node, Election::tick);
    }
}

/// What was reached, in one history or in any of several.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[expect(clippy::struct_excessive_bools, reason = "each is reached by itself")]
struct Reached {
    /// Claims in two terms.
    two_claimed_terms: bool,
    /// Somebody has accepted another electorate than the first one.
    electorate_change: bool,
    /// Somebody is of another generation than the first one.
    recovery: bool,
    /// Somebody that began without an electorate has one.
    blank_voter: bool,
}

impl Reached {
    const EVERYTHING: Self =
        Self { two_claimed_terms: true, electorate_change: true, recovery: true, blank_voter: true };

    fn or(self, other: Self) -> Self {
        Self {
            two_claimed_terms: self.two_claimed_terms || other.two_claimed_terms,
            electorate_change: self.electorate_change || other.electorate_change,
            recovery: self.recovery || other.recovery,
            blank_voter: self.blank_voter || other.blank_voter,
        }
    }
}

/// What is explored, from where.
#[derive(Debug, Clone, Default)]
struct Rules {
    flaw: Option<Flaw>,
    forgets_term: bool,
    /// Words under way are kept in one order, whenever they were said: worlds that differ in nothing else are one.
    is_sorted: bool,
    begin: Vec<World>,
    reached: Arc<Mutex<Reached>>,
}

fn hash_of(thing: &impl Hash) -> u64 {
    let mut hasher = DefaultHasher::new();
    thing.hash(&mut hasher);
    hasher.finish()
}

impl Rules {
    fn reached(&self) -> Reached {
        *self.reached.lock().expect("nobody panics with it")
    }
}

impl Model for Rules {
    type State = World;
    type Action = Event;

    fn init_states(&self) -> Vec<World> {
        self.begin.clone()
    }

    fn actions(&self, world: &World, events: &mut Vec<Event>) {
        for at in 0..world.letters.len() {
            events.push(Event::Deliver(at));
            if world.repeats > 0 {
                events.push(Event::DeliverAndKeep(at));
            }
        }
        for (at, node) in world.nodes.iter().enumerate() {
            if !node.writing.is_empty() {
                events.push(Event::Stored(at));
            }
            if node.election.next_deadline(true).is_some_and(|deadline| deadline <= world.now) {
                events.push(Event::Wake(at));
            }
            if world.crashes > 0 {
                events.extend((0..=node.writing.len()).map(|kept| Event::Crash(at, kept)));
            }
            if world.resignations > 0 && node.claim.is_some() {
                events.push(Event::Resign(at));
            }
        }
        if world.revotes > 0 {
            let leaders = (0..world.nodes.len()).filter(|at| world.nodes[*at].claim.is_some());
            events.extend(leaders.flat_map(|at| (0..world.nodes.len()).map(move |whom| Event::Revote(at, whom))));
        }
        if world.recoveries > 0 {
            let pairs = (0..VOTERS).flat_map(|at| (0..VOTERS).map(move |with| (at, with)));
            events.extend(pairs.map(|(at, with)| Event::Recover(at, with)));
        }
        if world.steps > 0 {
            events.push(Event::TimeGoesOn);
        }
        if world.changes > 0 {
            events.push(Event::MembersChange);
        }
    }

    fn next_state(&self, last: &World, event: Event) -> Option<World> {
        let mut world = last.clone();
        match event {
            Event::Deliver(at) => world.deliver(at, false),
            Event::DeliverAndKeep(at) => {
                world.repeats -= 1;
                world.deliver(at, true);
            }
            Event::Stored(node) => world.store(node),
            Event::Wake(node) => world.wake(node),
            Event::Crash(node, kept) => {
                world.crashes -= 1;
                world.crash(node, kept, self);
            }
            Event::TimeGoesOn => {
                world.steps -= 1;
                world.now = world.now + STEP;
            }
            Event::MembersChange => {
                world.changes -= 1;
                world.members.push(id(9 - usize::from(world.changes)));
                world.members.sort();
                for node in 0..world.nodes.len() {
                    world.with(node, Election::members_changed);
                }
            }
            Event::Revote(leader, whom) => {
                world.revotes -= 1;
                world.with(leader, |election, around| {
                    if election.electorate().is_some_and(|electorate| electorate.named(&id(whom)).is_some()) {
                        election.remove_voter(around, 1, &id(whom));
                    } else {
                        election.add_voter(around, 1, id(whom));
                    }
                });
            }
            Event::Recover(node, with) => {
                world.recoveries -= 1;
                let lineage = 1_000 + u64::from(world.recoveries);
                world.with(node, |election, around| election.recover(around, 2, vec![id(with)], lineage));
            }
            Event::Resign(node) => {
                world.resignations -= 1;
                world.with(node, Election::resign);
            }
        }
        world.check();
        if self.is_sorted {
            world.letters.sort_by_cached_key(hash_of);
        }
        let mut reached = self.reached.lock().expect("nobody panics with it");
        *reached = reached.or(world.reached());
        drop(reached);
        Some(world)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![
            Property::always("at most one valid claim", |_, world: &World| world.claims() <= 1),
            Property::always("at most one leader in a term", |_, world: &World| !world.has_two_leaders),
            Property::always("one agreed number has one content", |_, world: &World| !world.has_two_contents),
            Property::always("terms never fall", |_, world: &World| !world.has_term_fallen),
        ]
    }
}

fn is_of_standing(letter: &Letter) -> bool {
    matches!(letter.word.body, Body::Query { .. } | Body::Health { .. } | Body::PreVote { .. } | Body::PreVoted { .. })
}

/// Two ask for votes in the same term; the third one has not heard either yet.
fn two_stand_at_once(flaw: Option<Flaw>) -> World {
    let mut world = World::formed(flaw);
    // Who hears of the other one in time gives way.
    for (candidate, other) in [(0, 1), (1, 0)] {
        world.wake(candidate);
        world.let_through(|letter| is_of_standing(letter) && letter.to != other && letter.from != other);
        world.letters.retain(|letter| !is_of_standing(letter));
    }
    assert_eq!((world.nodes[0].election.term(), world.nodes[1].election.term()), (Term(1), Term(1)));
    world
}

/// One was voted for and does not know it yet; another asks for votes in the next term.
fn one_stands_after_another(flaw: Option<Flaw>) -> World {
    let mut world = World::formed(flaw);
    world.wake(0);
    world.let_through(|letter| is_of_standing(letter) || letter.to == 2);
    world.nodes[1].election = born(1, world.nodes[1].disk.clone(), world.now, flaw);
    world.drain(1);
    world.letters.retain(|letter| letter.to != 1);
    world.wake(1);
    world.let_through(is_of_standing);
    assert_eq!((world.nodes[0].election.term(), world.nodes[1].election.term()), (Term(1), Term(2)));
    world
}

/// One leads by the word of another; the third one knows nothing of it.
fn led_without_the_third(flaw: Option<Flaw>) -> World {
    let mut world = World::formed(flaw);
    world.wake(0);
    world.let_through(|letter| letter.to != 1 && letter.from != 1);
    assert_eq!(world.claims(), 1);
    world.letters.clear();
    world
}

/// One led and is silent; the promises to it are over, another one has been voted for and does not know it yet.
fn led_once_and_voted_again(flaw: Option<Flaw>) -> World {
    let mut world = led_without_the_third(flaw);
    world.now = world.now + TIMING.lease_duration + STEP;
    world.wake(2);
    world.let_through(|letter| letter.from != 0 && letter.to != 0 && !matches!(letter.word.body, Body::Voted { .. }));
    world.letters.retain(|letter| matches!(letter.word.body, Body::Voted { .. }));
    assert_eq!((world.claimed.len(), world.nodes[2].election.term()), (1, Term(2)));
    world
}

/// One leads, and somebody is there who may be voted in.
fn led_and_one_more(flaw: Option<Flaw>) -> World {
    let mut world = World::formed_and_one_more(flaw);
    world.wake(0);
    world.let_through(|letter| letter.to != 1 && letter.from != 1);
    world.letters.clear();
    assert_eq!(world.claims(), 1);
    world
}

/// Nobody leads; an operator at the first voter has asked who is left, heard the second one's name, and nobody's vote.
fn about_to_recover(flaw: Option<Flaw>) -> World {
    let mut world = World::formed(flaw);
    world.with(0, |election, around| election.recover(around, 2, vec![id(1)], 77));
    world.let_through(|letter| matches!(letter.word.body, Body::Roster(_)));
    world.letters.clear();
    world.now = world.now + IDENTITY_TIMEOUT;
    world
}

/// What stands in a row may happen; its like must not count twice.
fn explore(rules: Rules, depth: usize, name: &str) -> Option<String> {
    let checker = rules.checker().target_max_depth(depth).finish_when(HasDiscoveries::Any).spawn_bfs().join();
    let found: BTreeSet<&str> = checker.discoveries().into_keys().collect();
    let states = checker.unique_state_count();
    println!("{name}: depth {}, {states} states, {found:?}", checker.max_depth());
    found.into_iter().next().map(str::to_owned)
}

/// So many events by lot: what no bound on the depth reaches. Says what broke.
fn walk(seed: u64, rules: &Rules) -> Option<&'static str> {
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    let mut world = rules.begin[seed as usize % rules.begin.len()].clone();
    let mut events = Vec::new();
    // Some schedules deliver most of what is said, others starve most voters.
    let eagerness = [1, 4, 16][seed as usize % 3];
    for _ in 0..400 {
        events.clear();
        rules.actions(&world, &mut events);
        let busy: Vec<Event> =
            events.iter().copied().filter(|event| matches!(event, Event::Deliver(_) | Event::Stored(_))).collect();
        let from = if rng.random_range(0..=eagerness) > 0 && !busy.is_empty() { &busy } else { &events };
        let Some(event) = from.get(rng.random_range(0..from.len().max(1))) else { break };
        world = rules.next_state(&world, *event).expect("it is possible");
        if world.letters.len() > 24 {
            let lost = rng.random_range(0..world.letters.len());
            world.letters.remove(lost);
        }
        if let Some(broken) = rules.properties().iter().find(|property| !(property.condition)(rules, &world)) {
            return Some(broken.name);
        }
    }
    None
}

fn walks(flaw: Option<Flaw>) -> Rules {
    let begin = [World::formed(flaw), World::formed_and_one_more(flaw), led_without_the_third(flaw)];
    let begin = begin.map(|world| World { revotes: 6, ..bounded(world, (6, 10, 60, 6, 3)) }).to_vec();
    Rules { flaw, begin, ..Rules::default() }
}

#[test]
fn long_histories_by_lot_are_safe() {
    let rules = walks(None);
    let walks = std::env::var("HEADCOUNT_MODEL_WALKS").ok().and_then(|walks| walks.parse().ok()).unwrap_or(400);
    let broken: Vec<_> = (0..walks).filter_map(|seed| Some((seed, walk(seed, &rules)?))).collect();
    assert!(broken.is_empty(), "{} of {walks}, first {:?}", broken.len(), broken.first());
    let reached = Reached { recovery: true, ..rules.reached() };
    assert_eq!(reached, Reached::EVERYTHING, "walks that go nowhere find nothing");
}

#[test]
fn long_histories_around_a_recovery_are_safe() {
    let begin = World { revotes: 3, recoveries: 1, ..bounded(about_to_recover(None), (4, 6, 60, 3, 2)) };
    let rules = Rules { begin: vec![begin], ..Rules::default() };
    let broken: Vec<_> = (0..150).filter_map(|seed| Some((seed, walk(seed, &rules)?))).collect();
    assert!(broken.is_empty(), "{} broken, first {:?}", broken.len(), broken.first());
    let reached = rules.reached();
    assert!(reached.recovery && reached.two_claimed_terms, "{reached:?}");
}

#[test]
fn long_histories_find_planted_bugs() {
    for (flaw, expected) in [
        (Flaw::NoWaitAfterRestart, "at most one valid claim"),
        (Flaw::LeaseFromReceipt, "at most one valid claim"),
        (Flaw::NoViewCheck, "one agreed number has one content"),
    ] {
        let rules = walks(Some(flaw));
        let found = (0..20_000).find_map(|seed| Some((seed, walk(seed, &rules)?)));
        println!("{flaw:?}: {found:?}");
        assert_eq!(found.map(|(_, broken)| broken), Some(expected), "{flaw:?}");
    }
}

fn unplanted(world: World) -> Rules {
    Rules { begin: vec![world], is_sorted: true, ..Rules::default() }
}

fn bounded(mut world: World, (crashes, repeats, steps, changes, resignations): (u8, u8, u8, u8, u8)) -> World {
    (world.crashes, world.repeats, world.steps) = (crashes, repeats, steps);
    (world.changes, world.resignations) = (changes, resignations);
    world
}

#[test]
fn every_interleaving_of_two_candidates_is_safe_up_to_a_bound() {
    let world = bounded(two_stand_at_once(None), (1, 1, 1, 0, 0));
    assert_eq!(explore(unplanted(world), 7, "two candidates"), None);
    let world = bounded(one_stands_after_another(None), (1, 1, 1, 0, 0));
    assert_eq!(explore(unplanted(world), 7, "one after another"), None);
}

#[test]
fn every_interleaving_around_a_leader_is_safe_up_to_a_bound() {
    let world = bounded(led_without_the_third(None), (1, 1, 3, 1, 1));
    assert_eq!(explore(unplanted(world), 7, "led"), None);
}

#[test]
fn every_interleaving_around_a_second_claim_is_safe_up_to_a_bound() {
    let rules = unplanted(bounded(led_once_and_voted_again(None), (1, 1, 1, 0, 0)));
    assert_eq!(explore(rules.clone(), 8, "a second claim"), None);
    assert!(rules.reached().two_claimed_terms);
}

#[test]
fn every_interleaving_around_a_change_of_the_electorate_is_safe_up_to_a_bound() {
    let rules = unplanted(World { revotes: 1, ..bounded(led_and_one_more(None), (1, 0, 1, 0, 0)) });
    assert_eq!(explore(rules.clone(), 8, "a change of the electorate"), None);
    let reached = rules.reached();
    assert!(reached.electorate_change && reached.blank_voter, "{reached:?}");
}

#[test]
fn every_interleaving_around_a_recovery_is_safe_up_to_a_bound() {
    let rules = unplanted(World { recoveries: 1, ..bounded(about_to_recover(None), (1, 0, 1, 0, 0)) });
    assert_eq!(explore(rules.clone(), 7, "a recovery"), None);
    assert!(rules.reached().recovery);
}

#[test]
#[ignore = "minutes: as deep as HEADCOUNT_MODEL_DEPTH says"]
fn every_interleaving_is_safe_up_to_a_deeper_bound() {
    let depth = std::env::var("HEADCOUNT_MODEL_DEPTH").ok().and_then(|depth| depth.parse().ok()).unwrap_or(9);
    for (world, name) in [
        (bounded(World::formed(None), (1, 0, 2, 0, 0)), "from the beginning"),
        (bounded(two_stand_at_once(None), (1, 1, 1, 0, 0)), "two candidates"),
        (bounded(one_stands_after_another(None), (1, 1, 1, 0, 0)), "one after another"),
        (bounded(led_without_the_third(None), (1, 1, 3, 1, 1)), "led"),
    ] {
        assert_eq!(explore(unplanted(world), depth, name), None);
    }
}

#[test]
fn the_model_finds_a_voter_that_votes_twice() {
    let flaw = Some(Flaw::ForgottenVote);
    let rules = Rules { flaw, ..unplanted(two_stand_at_once(flaw)) };
    assert_eq!(explore(rules, 12, "votes twice").as_deref(), Some("at most one leader in a term"));
}

#[test]
fn the_model_finds_a_claim_that_begins_with_the_votes() {
    let flaw = Some(Flaw::ClaimWithVotes);
    let rules = Rules { flaw, ..unplanted(one_stands_after_another(flaw)) };
    assert_eq!(explore(rules, 12, "claims with the votes").as_deref(), Some("at most one valid claim"));
}

#[test]
fn the_model_finds_a_disk_that_forgets_the_term() {
    let begin = vec![bounded(two_stand_at_once(None), (1, 0, 0, 0, 0))];
    let rules = Rules { forgets_term: true, begin, ..Rules::default() };
    assert_eq!(explore(rules, 12, "forgets the term").as_deref(), Some("terms never fall"));
}
