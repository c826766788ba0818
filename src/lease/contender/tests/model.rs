//! Every interleaving up to a bound: three contenders, the same machine as everywhere else, explored by a model
//! checker.
//!
//! A request is carried out at once, late, or never; its answer comes or is lost; reports of terms are heard in any
//! order or never; time goes on in steps of half a lease, and nobody is woken on time: a contender that is not woken is
//! one that is paused. The bounds limit the number of steps, of losses, and of actions of operators and servers.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use stateright::{Checker, HasDiscoveries, Model, Property};

use super::world::name;
use crate::database::Database;
use crate::flaw::Flaw;
use crate::tests::Contender;
use crate::{Answer, LeaseName, Outcome, Round};
use crate::{ContenderInit, ContenderTiming, Output};
use headcount_core::Time;

const CONTENDERS: usize = 3;
const LEASE: Duration = Duration::from_millis(600);
const STEP: Duration = Duration::from_millis(300);

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Agent {
    contender: Contender,
    request: Option<Round>,
    answer: Option<Answer>,
    claim: Option<(u64, Time)>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
#[expect(clippy::struct_excessive_bools, reason = "each is a switch of its own")]
struct Reached {
    two_claimed_terms: bool,
    takeover: bool,
    lost_answer: bool,
    adoption: bool,
}

impl Reached {
    fn or(self, other: Reached) -> Reached {
        Reached {
            two_claimed_terms: self.two_claimed_terms || other.two_claimed_terms,
            takeover: self.takeover || other.takeover,
            lost_answer: self.lost_answer || other.lost_answer,
            adoption: self.adoption || other.adoption,
        }
    }
}

/// The numbers of events that may still happen.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
struct Bounds {
    steps: u8,
    losses: u8,
    clock_steps: u8,
    resignations: u8,
    crashes: u8,
    /// The replacements of the database by an empty one.
    replacements: u8,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct World {
    now: Time,
    database: Database,
    agents: Vec<Agent>,
    /// The requests that their askers have given up, and that may still arrive.
    strays: BTreeSet<(usize, StrayRound)>,
    /// The words under way: to whom, by whom, of which term, of its end.
    words: BTreeSet<(usize, usize, u64, bool)>,
    leaders: BTreeMap<u64, usize>,
    has_two_leaders: bool,
    reached: Reached,
    bounds: Bounds,
    births: u8,
}

/// A round, ordered by its written form.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct StrayRound(Round);

impl Ord for StrayRound {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        format!("{:?}", self.0).cmp(&format!("{:?}", other.0))
    }
}

impl PartialOrd for StrayRound {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Event {
    Begin(usize),
    Execute(usize),
    Deliver(usize),
    LoseAnswer(usize),
    GiveUp(usize),
    ExecuteLate(usize),
    Hear(usize),
    TimeGoesOn,
    ClockForward,
    Resign(usize),
    Crash(usize),
    Replace,
}

#[derive(Clone, Default)]
struct Rules {
    flaw: Option<Flaw>,
    begin: Vec<World>,
    reached: Arc<Mutex<Reached>>,
}

fn born(node: usize, init: u8, now: Time, flaw: Option<Flaw>) -> Contender {
    let init = ContenderInit {
        node: name(node),
        timing: ContenderTiming::of_lease(LEASE),
        leases: vec![LeaseName::default()],
        terms: BTreeMap::new(),
        floors: BTreeMap::new(),
        seed: [node as u8 * 16 + init; 32],
    };
    Contender::planted(init, now, flaw)
}

impl World {
    fn new(flaw: Option<Flaw>, bounds: Bounds) -> Self {
        let now = Time::ORIGIN + Duration::from_secs(1_000);
        let agent = |node| {
            let contender = born(node, 0, now, flaw);
            Agent { contender, request: None, answer: None, claim: None }
        };
        Self {
            now,
            database: Database::new(),
            agents: (0..CONTENDERS).map(agent).collect(),
            strays: BTreeSet::new(),
            words: BTreeSet::new(),
            leaders: BTreeMap::new(),
            has_two_leaders: false,
            reached: Reached::default(),
            bounds,
            births: 0,
        }
    }

    /// Returns a world in which one contender leads, and the others have seen it.
    fn led(flaw: Option<Flaw>, bounds: Bounds) -> Self {
        let mut world = Self::new(flaw, bounds);
        for at in 0..CONTENDERS {
            world.round(at);
        }
        world.words.clear();
        assert_eq!((world.leaders.len(), world.claims()), (1, 1));
        world
    }

    /// Returns such a world in which it has renewed since they saw it.
    fn renewed(flaw: Option<Flaw>, bounds: Bounds) -> Self {
        let mut world = Self::led(flaw, bounds);
        world.now = world.now + STEP;
        world.round(0);
        world
    }

    /// Returns such a world in which they have seen that as well.
    fn seen(flaw: Option<Flaw>, bounds: Bounds) -> Self {
        let mut world = Self::renewed(flaw, bounds);
        world.round(1);
        world.round(2);
        world
    }

    /// Returns a world in which one led and is silent; the others have waited for half a lease after they saw it last.
    fn half_waited(flaw: Option<Flaw>, bounds: Bounds) -> Self {
        let mut world = Self::led(flaw, bounds);
        world.now = world.now + STEP;
        world.round(1);
        world.round(2);
        world
    }

    fn clock(&self) -> Duration {
        self.now.since(Time::ORIGIN)
    }

    fn round(&mut self, at: usize) {
        self.begin(at);
        self.execute(at);
        self.deliver(at);
    }

    fn begin(&mut self, at: usize) {
        let now = self.now;
        self.agents[at].contender.tick(now);
        self.agents[at].request = self.agents[at].contender.begin(now);
        self.drain(at, None);
    }

    fn execute(&mut self, at: usize) {
        let Some(round) = self.agents[at].request.take() else { return };
        let clock = self.clock();
        let answer = self.carry_out(clock, &round);
        self.agents[at].answer = Some(answer);
    }

    fn carry_out(&mut self, clock: Duration, round: &Round) -> Answer {
        let held = self.database.look(&LeaseName::default()).1;
        let answer = self.database.execute(clock, round).expect("it takes writes");
        self.reached.takeover |= held.is_some() && answer.steps[0].outcome == Outcome::Acquired;
        self.database.forget_commits();
        answer
    }

    fn deliver(&mut self, at: usize) {
        let Some(answer) = self.agents[at].answer.take() else { return };
        let now = self.now;
        self.agents[at].contender.answered(now, &answer);
        self.drain(at, Some(answer.steps[0].outcome));
    }

    fn fail(&mut self, at: usize) {
        let now = self.now;
        self.agents[at].contender.failed(now, false);
        self.drain(at, None);
    }

    fn drain(&mut self, at: usize, outcome: Option<Outcome>) {
        while let Some(output) = self.agents[at].contender.poll() {
            match output {
                Output::Tell { term, is_released, .. } => {
                    self.words.extend((0..CONTENDERS).filter(|to| *to != at).map(|to| (to, at, term, is_released)));
                }
                Output::Claim(claim) => {
                    let held = self.agents[at].claim;
                    self.agents[at].claim =
                        claim.is_me.then(|| (claim.term, claim.valid_until.expect("own claims have an end")));
                    if claim.is_me && held.is_none_or(|(term, _)| term != claim.term) {
                        let leader = *self.leaders.entry(claim.term).or_insert(at);
                        self.has_two_leaders |= leader != at;
                        self.reached.two_claimed_terms |= self.leaders.len() > 1;
                        self.reached.adoption |= outcome != Some(Outcome::Acquired);
                    }
                }
                Output::AwaitWork { lease, term } => {
                    let now = self.now;
                    self.agents[at].contender.work_ended(now, &lease, term);
                }
                _ => {}
            }
        }
    }

    /// Returns the number of claims that their holders think valid, whether or not they have been woken.
    fn claims(&self) -> usize {
        let is_valid = |agent: &&Agent| agent.claim.is_some_and(|(_, until)| self.now < until);
        self.agents.iter().filter(is_valid).count()
    }
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
        let bounds = world.bounds;
        for (at, agent) in world.agents.iter().enumerate() {
            if agent.contender.next_deadline().is_some_and(|deadline| deadline <= world.now) {
                events.push(Event::Begin(at));
            }
            if agent.request.is_some() {
                events.push(Event::Execute(at));
            }
            if agent.answer.is_some() {
                events.push(Event::Deliver(at));
            }
            if bounds.losses > 0 && agent.answer.is_some() {
                events.push(Event::LoseAnswer(at));
            }
            if bounds.losses > 0 && agent.request.is_some() {
                events.push(Event::GiveUp(at));
            }
            if bounds.resignations > 0 && agent.claim.is_some() {
                events.push(Event::Resign(at));
            }
            if bounds.crashes > 0 {
                events.push(Event::Crash(at));
            }
        }
        events.extend((0..world.strays.len()).map(Event::ExecuteLate));
        events.extend((0..world.words.len()).map(Event::Hear));
        if bounds.steps > 0 {
            events.push(Event::TimeGoesOn);
        }
        if bounds.clock_steps > 0 {
            events.push(Event::ClockForward);
        }
        if bounds.replacements > 0 {
            events.push(Event::Replace);
        }
    }

    fn next_state(&self, last: &World, event: Event) -> Option<World> {
        let mut world = last.clone();
        match event {
            Event::Begin(at) => world.begin(at),
            Event::Execute(at) => world.execute(at),
            Event::Deliver(at) => world.deliver(at),
            Event::LoseAnswer(at) => {
                world.bounds.losses -= 1;
                world.agents[at].answer = None;
                world.reached.lost_answer = true;
                world.fail(at);
            }
            Event::GiveUp(at) => {
                world.bounds.losses -= 1;
                let round = world.agents[at].request.take().expect("it is there");
                world.strays.insert((at, StrayRound(round)));
                world.fail(at);
            }
            Event::ExecuteLate(which) => {
                let (at, round) = world.strays.iter().nth(which).cloned().expect("it is there");
                world.strays.remove(&(at, round.clone()));
                let clock = world.clock();
                world.carry_out(clock, &round.0);
            }
            Event::Hear(which) => {
                let heard = *world.words.iter().nth(which).expect("it is there");
                world.words.remove(&heard);
                let (to, by, term, is_released) = heard;
                let now = world.now;
                world.agents[to].contender.heard(now, &LeaseName::default(), &name(by), term, is_released);
                world.drain(to, None);
            }
            Event::TimeGoesOn => {
                world.bounds.steps -= 1;
                world.now = world.now + STEP;
            }
            Event::ClockForward => {
                world.bounds.clock_steps -= 1;
                world.database.step_forward(Duration::from_secs(3_600));
            }
            Event::Resign(at) => {
                world.bounds.resignations -= 1;
                let now = world.now;
                world.agents[at].contender.resign(now, &LeaseName::default());
                world.drain(at, None);
            }
            Event::Crash(at) => {
                world.bounds.crashes -= 1;
                world.births += 1;
                let contender = born(at, world.births, world.now, self.flaw);
                world.agents[at] = Agent { contender, request: None, answer: None, claim: None };
            }
            Event::Replace => {
                world.bounds.replacements -= 1;
                world.database.replace();
            }
        }
        let mut reached = self.reached.lock().expect("nobody panics with it");
        *reached = reached.or(world.reached);
        drop(reached);
        Some(world)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![
            Property::always("at most one valid claim", |_, world: &World| world.claims() <= 1),
            Property::always("at most one leader in a term", |_, world: &World| !world.has_two_leaders),
        ]
    }
}

fn rules(flaw: Option<Flaw>, begin: World) -> Rules {
    Rules { flaw, begin: vec![begin], ..Rules::default() }
}

fn explore(rules: Rules, depth: usize, what: &str) -> Option<String> {
    let checker = rules.checker().target_max_depth(depth).finish_when(HasDiscoveries::Any).spawn_bfs().join();
    let found: BTreeSet<&str> = checker.discoveries().into_keys().collect();
    println!("{what}: depth {}, {} states, {found:?}", checker.max_depth(), checker.unique_state_count());
    found.into_iter().next().map(str::to_owned)
}

/// Plays random events, to reach what no bound on the depth reaches. Returns what broke.
fn walk(seed: u64, rules: &Rules) -> Option<&'static str> {
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    let mut world = rules.begin[0].clone();
    let mut events = Vec::new();
    for _ in 0..300 {
        events.clear();
        rules.actions(&world, &mut events);
        // Some schedules carry out most of the requests, others leave most of them.
        let is_busy = |event: &&Event| matches!(event, Event::Begin(_) | Event::Execute(_) | Event::Deliver(_));
        let busy: Vec<Event> = events.iter().filter(is_busy).copied().collect();
        let from = if rng.random_range(0..=seed % 4) > 0 && !busy.is_empty() { &busy } else { &events };
        let Some(event) = from.get(rng.random_range(0..from.len().max(1))) else { break };
        world = rules.next_state(&world, *event).expect("it is possible");
        if let Some(broken) = rules.properties().iter().find(|property| !(property.condition)(rules, &world)) {
            return Some(broken.name);
        }
    }
    None
}

const LONG: Bounds = Bounds { steps: 60, losses: 20, clock_steps: 5, resignations: 4, crashes: 4, replacements: 0 };

fn walks(flaw: Option<Flaw>) -> Rules {
    rules(flaw, World::new(flaw, LONG))
}

#[test]
fn long_histories_by_lot_are_safe() {
    let rules = walks(None);
    let walks = std::env::var("HEADCOUNT_MODEL_WALKS").ok().and_then(|walks| walks.parse().ok()).unwrap_or(1_500);
    let broken: Vec<_> = (0..walks).filter_map(|seed| Some((seed, walk(seed, &rules)?))).collect();
    assert!(broken.is_empty(), "{} of {walks}, first {:?}", broken.len(), broken.first());
    let reached = rules.reached();
    let all = Reached { two_claimed_terms: true, takeover: true, lost_answer: true, adoption: true };
    assert_eq!(reached, all, "walks that go nowhere find nothing");
}

#[test]
fn long_histories_find_planted_bugs() {
    for (flaw, first) in
        [(Flaw::ReusesTokens, 455), (Flaw::TakesAtExpiry, 3), (Flaw::AdoptsFromSight, 158), (Flaw::ClaimFromReceipt, 0)]
    {
        let rules = walks(Some(flaw));
        let found = (first..first + 20_000).find_map(|seed| Some((seed, walk(seed, &rules)?)));
        println!("{flaw:?}: {found:?}");
        assert!(found.is_some(), "{flaw:?}");
    }
}

#[test]
fn every_interleaving_from_the_beginning_is_safe_up_to_a_bound() {
    let bounds = Bounds { steps: 1, losses: 1, crashes: 1, ..Bounds::default() };
    assert_eq!(explore(rules(None, World::new(None, bounds)), 8, "from the beginning"), None);
}

#[test]
fn every_interleaving_around_a_leader_is_safe_up_to_a_bound() {
    let bounds = Bounds { steps: 3, losses: 1, clock_steps: 1, resignations: 1, ..Bounds::default() };
    let rules = rules(None, World::led(None, bounds));
    assert_eq!(explore(rules.clone(), 9, "around a leader"), None);
    let reached = rules.reached();
    assert!(reached.two_claimed_terms && reached.lost_answer, "{reached:?}");
}

#[test]
fn every_interleaving_around_a_takeover_is_safe_up_to_a_bound() {
    let bounds = Bounds { steps: 2, losses: 1, clock_steps: 1, ..Bounds::default() };
    let rules = rules(None, World::half_waited(None, bounds));
    assert_eq!(explore(rules.clone(), 10, "around a takeover"), None);
    let reached = rules.reached();
    assert!(reached.two_claimed_terms && reached.takeover && reached.lost_answer, "{reached:?}");
}

#[test]
fn every_interleaving_around_an_empty_database_that_takes_the_place_of_the_old_one_is_safe_up_to_a_bound() {
    // All have seen the grant by which the leader leads, so that all wait for it.
    let bounds = Bounds { steps: 2, losses: 1, replacements: 1, ..Bounds::default() };
    assert_eq!(explore(rules(None, World::seen(None, bounds)), 9, "an empty database"), None);
}

#[test]
fn the_model_finds_a_takeover_that_trusts_the_stores_clock() {
    let flaw = Some(Flaw::TakesAtExpiry);
    let bounds = Bounds { steps: 1, clock_steps: 1, ..Bounds::default() };
    let found = explore(rules(flaw, World::led(flaw, bounds)), 10, "takes at expiry");
    assert_eq!(found.as_deref(), Some("at most one valid claim"));
}

#[test]
fn the_model_finds_trust_in_what_looks_free() {
    let flaw = Some(Flaw::TakesWhatLooksFree);
    let bounds = Bounds { steps: 1, replacements: 1, ..Bounds::default() };
    let found = explore(rules(flaw, World::renewed(flaw, bounds)), 10, "takes what looks free");
    assert_eq!(found.as_deref(), Some("at most one valid claim"));
}
