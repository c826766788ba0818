//! Every interleaving up to a bound: one to four observers of one subject, each with the machine that the core drives.
//!
//! The subject lives or is dead. Its port refuses observers one after the other; of a living one since a proxy before
//! it died. Packets, probes and the observers' reports are delivered in the round in which they were sent, a round late,
//! or never: how often they are late or lost is bounded, which of them is free. The last packets of the dead are read
//! late.
//!
//! - No living subject is pronounced dead.
//! - A dead one is, by somebody, before all its observers have closed their cases.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use stateright::{Checker, HasDiscoveries, Model, Property};

use super::{Audience, CrashFacts, CrashStep, Crashes, Observer};
use crate::limits::{CRASH_HEARSAY_INTERVAL, CRASH_REVIEWS};
use crate::member::Run;
use crate::time::Time;

const SUBJECT: Run = Run(1_000);
const GAP: Duration = Duration::from_millis(50);
const START: Time = Time::from_nanos(1 << 61);
const MOMENT: Duration = Duration::from_micros(1);
/// All cases are closed by then.
const END: Duration = Duration::from_secs(6);

/// A rule that is left out, to see that its absence is found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Flaw {
    /// A refusal is taken for a death.
    HastyVerdict,
    /// Observers that are asked do not say what they heard.
    SilentWitnesses,
    /// Observers do not say that they are sure.
    SecretVerdict,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
enum Delivery {
    /// An observer's link breaks.
    Break {
        to: usize,
    },
    /// The port refuses an observer that opens a link again.
    Refusal {
        to: usize,
    },
    /// An observer asks the subject for a sign of life.
    Probe {
        from: usize,
    },
    /// A packet of the subject.
    Sign {
        to: usize,
        sequence: u64,
    },
    Severed {
        to: usize,
        from: usize,
        age: Duration,
        is_sure: bool,
    },
    Alive {
        to: usize,
        sequence: u64,
    },
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
struct Watcher {
    crashes: Crashes,
    wake_at: Option<Time>,
    /// The highest number among the subject's packets, and the time of the last one.
    heard: (u64, Option<Time>),
    last_hearsay_case: Option<Time>,
    has_closed: bool,
    has_convicted: bool,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct World {
    now: Time,
    is_alive: bool,
    sequence: u64,
    /// Observers whose links stand: nobody refuses them.
    linked: BTreeSet<usize>,
    /// Observers between whom and the subject no datagram passes.
    blocked: BTreeSet<usize>,
    watchers: Vec<Watcher>,
    /// The messages to be delivered now, in order.
    deliveries: Vec<Delivery>,
    later: BTreeMap<Time, Vec<Delivery>>,
    delays: u8,
    losses: u8,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Event {
    Deliver,
    Delay,
    Lose,
    /// Everything is delivered: time goes on until somebody wakes, or a late delivery comes.
    TimeGoesOn,
}

/// Events that explorations have reached, so that none is empty.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[expect(clippy::struct_excessive_bools, reason = "each is an event of its own")]
struct Reached {
    conviction: bool,
    refutation: bool,
    hearsay: bool,
    closed_case: bool,
}

#[derive(Debug, Default)]
struct Rules {
    begin: Vec<World>,
    flaw: Option<Flaw>,
    reached: Arc<Mutex<Reached>>,
}

fn run(watcher: usize) -> Run {
    Run(watcher as u64)
}

impl Rules {
    fn note(&self, note: impl FnOnce(&mut Reached)) {
        note(&mut self.reached.lock().expect("nobody panics with it"));
    }

    fn facts(world: &World, at: usize) -> CrashFacts {
        let others = (0..world.watchers.len()).filter(|other| *other != at);
        let others = others.map(|other| Observer { run: run(other), is_suspect: false }).collect();
        CrashFacts { gap: GAP, others, ..CrashFacts::default() }
    }

    fn carry_out(&self, world: &mut World, at: usize, steps: Vec<CrashStep>) {
        for step in steps {
            match step {
                CrashStep::Reopen => world.reopen(at),
                CrashStep::Investigate => self.investigate(world, at),
                CrashStep::Probe => world.deliveries.push(Delivery::Probe { from: at }),
                CrashStep::Walk => {}
                CrashStep::Wait(pause) => world.watchers[at].wake_at = Some(world.now + pause),
                CrashStep::Refuted => self.note(|reached| reached.refutation = true),
                CrashStep::Close => {
                    self.note(|reached| reached.closed_case = true);
                    (world.watchers[at].wake_at, world.watchers[at].has_closed) = (None, true);
                }
                CrashStep::Convict => {
                    self.note(|reached| reached.conviction = true);
                    world.watchers[at].has_convicted = true;
                }
                CrashStep::Ask => {
                    let others: Vec<usize> = (0..world.watchers.len()).filter(|other| *other != at).collect();
                    let Some((age, is_sure)) = world.watchers[at].crashes.ask(world.now, SUBJECT) else { continue };
                    let is_sure = is_sure && self.flaw != Some(Flaw::SecretVerdict);
                    world.deliveries.extend(others.into_iter().map(|to| Delivery::Severed {
                        to,
                        from: at,
                        age,
                        is_sure,
                    }));
                }
            }
        }
    }

    fn investigate(&self, world: &mut World, at: usize) {
        let facts = Self::facts(world, at);
        let steps = world.watchers[at].crashes.investigate(world.now, SUBJECT, &facts);
        self.carry_out(world, at, steps);
    }

    fn deliver(&self, world: &mut World, delivery: Delivery) {
        match delivery {
            Delivery::Break { to } => {
                let watcher = &mut world.watchers[to];
                watcher.crashes.open(SUBJECT, watcher.heard.0, CRASH_REVIEWS);
                world.linked.remove(&to);
                world.reopen(to);
            }
            Delivery::Refusal { to } => {
                let mut steps = world.watchers[to].crashes.refused(world.now, SUBJECT, false, Some(0));
                if self.flaw == Some(Flaw::HastyVerdict) {
                    steps = vec![CrashStep::Convict];
                }
                self.carry_out(world, to, steps);
            }
            Delivery::Probe { from } => {
                if world.is_alive && !world.blocked.contains(&from) {
                    world.sequence += 1;
                    world.deliveries.push(Delivery::Sign { to: from, sequence: world.sequence });
                }
            }
            Delivery::Sign { to, sequence } => {
                let watcher = &mut world.watchers[to];
                // A packet takes a moment.
                watcher.heard = (watcher.heard.0.max(sequence), Some(world.now + MOMENT));
                let Some((steps, audience)) = watcher.crashes.heard(SUBJECT, watcher.heard.0) else { return };
                let sequence = watcher.heard.0;
                let told: Vec<usize> = match audience {
                    Audience::Observers => (0..world.watchers.len()).filter(|other| *other != to).collect(),
                    Audience::Askers(askers) => askers.into_iter().map(|run| run.0 as usize).collect(),
                };
                self.carry_out(world, to, steps);
                world.deliveries.extend(told.into_iter().map(|other| Delivery::Alive { to: other, sequence }));
            }
            Delivery::Severed { to, from, age, is_sure } => self.severed(world, to, from, age, is_sure),
            Delivery::Alive { to, sequence } => {
                let steps = world.watchers[to].crashes.told_alive(SUBJECT, sequence);
                self.carry_out(world, to, steps);
            }
        }
    }

    fn severed(&self, world: &mut World, to: usize, from: usize, age: Duration, is_sure: bool) {
        let (now, is_linked) = (world.now, world.linked.contains(&to));
        let watcher = &mut world.watchers[to];
        if watcher.heard.1.is_some_and(|heard| heard > now - age) {
            if self.flaw != Some(Flaw::SilentWitnesses) {
                let sequence = watcher.heard.0;
                world.deliveries.push(Delivery::Alive { to: from, sequence });
            }
            return;
        }
        if !watcher.crashes.is_refused(SUBJECT) {
            world.deliveries.push(Delivery::Probe { from: to });
        }
        let is_due = watcher.last_hearsay_case.is_none_or(|last| now.since(last) >= CRASH_HEARSAY_INTERVAL);
        if !watcher.crashes.is_case(SUBJECT) && is_due {
            watcher.last_hearsay_case = Some(now);
            if !is_linked {
                self.note(|reached| reached.hearsay = true);
                watcher.crashes.open(SUBJECT, watcher.heard.0, 0);
                world.reopen(to);
            }
        }
        if world.watchers[to].crashes.told_severed(now, SUBJECT, run(from), is_sure) {
            let facts = Self::facts(world, to);
            let steps = world.watchers[to].crashes.judge(now, SUBJECT, &facts);
            self.carry_out(world, to, steps);
        }
    }
}

impl World {
    /// Returns a world of observers whose links break after so many gaps; the link of one with `None` stands.
    fn new(is_alive: bool, refused_after: &[Option<u32>], (delays, losses): (u8, u8)) -> Self {
        let mut later = BTreeMap::<Time, Vec<Delivery>>::new();
        for (to, gaps) in refused_after.iter().enumerate() {
            if let Some(gaps) = gaps {
                later.entry(START + GAP * *gaps).or_default().push(Delivery::Break { to });
            }
        }
        let watcher = Watcher { heard: (10, Some(START - GAP)), ..Watcher::default() };
        Self {
            now: START,
            is_alive,
            sequence: 10,
            linked: (0..refused_after.len()).collect(),
            blocked: BTreeSet::new(),
            watchers: vec![watcher; refused_after.len()],
            deliveries: Vec::new(),
            later,
            delays,
            losses,
        }
    }

    /// Has an observer read a packet that the subject sent before it died so many gaps after the start.
    fn with_late_packet(mut self, to: usize, gaps: u32, sequence: u64) -> Self {
        self.later.entry(START + GAP * gaps).or_default().push(Delivery::Sign { to, sequence });
        self
    }

    fn reopen(&mut self, at: usize) {
        self.deliveries.push(Delivery::Refusal { to: at });
    }

    fn next_time(&self) -> Option<Time> {
        let woken = self.watchers.iter().filter_map(|watcher| watcher.wake_at);
        woken.chain(self.later.keys().copied()).min()
    }

    fn is_convicted(&self) -> bool {
        self.watchers.iter().any(|watcher| watcher.has_convicted)
    }

    fn is_over(&self) -> bool {
        self.deliveries.is_empty() && self.next_time().is_none()
    }
}

impl Model for Rules {
    type State = World;
    type Action = Event;

    fn init_states(&self) -> Vec<World> {
        self.begin.clone()
    }

    fn actions(&self, world: &World, events: &mut Vec<Event>) {
        if world.is_convicted() {
            return;
        }
        let Some(delivery) = world.deliveries.first() else {
            if world.next_time().is_some() {
                events.push(Event::TimeGoesOn);
            }
            return;
        };
        events.push(Event::Deliver);
        // The outcome of a link is no delivery that could be lost.
        let is_packet = !matches!(delivery, Delivery::Break { .. } | Delivery::Refusal { .. });
        if is_packet && world.delays > 0 {
            events.push(Event::Delay);
        }
        if is_packet && world.losses > 0 {
            events.push(Event::Lose);
        }
    }

    fn next_state(&self, last: &World, event: Event) -> Option<World> {
        let mut world = last.clone();
        match event {
            Event::Deliver => {
                let delivery = world.deliveries.remove(0);
                self.deliver(&mut world, delivery);
            }
            Event::Delay => {
                let delivery = world.deliveries.remove(0);
                world.delays -= 1;
                world.later.entry(world.now + GAP).or_default().push(delivery);
            }
            Event::Lose => {
                world.deliveries.remove(0);
                world.losses -= 1;
            }
            Event::TimeGoesOn => {
                world.now = world.next_time()?;
                assert!(world.now.since(START) < END, "cases never end");
                // Whoever wakes does so before it reads what is late: the worse order for the living.
                for at in 0..world.watchers.len() {
                    if world.watchers[at].wake_at.take_if(|at| *at <= world.now).is_some() {
                        self.investigate(&mut world, at);
                    }
                }
                let late = world.later.remove(&world.now).unwrap_or_default();
                world.deliveries.extend(late);
            }
        }
        Some(world)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![
            Property::always("the living are not pronounced dead", |_, world: &World| {
                !(world.is_alive && world.is_convicted())
            }),
            Property::always("the dead are pronounced dead", |_, world: &World| {
                world.is_alive || !world.is_over() || world.is_convicted()
            }),
        ]
    }
}

/// Explores all that may happen from these beginnings. Returns the name of the property that broke first.
fn explore(begin: Vec<World>, flaw: Option<Flaw>) -> (Option<&'static str>, Reached) {
    let rules = Rules { begin, flaw, ..Rules::default() };
    let reached = Arc::clone(&rules.reached);
    let checker = rules.checker().finish_when(HasDiscoveries::Any).spawn_bfs().join();
    println!("{} states", checker.unique_state_count());
    let found = checker.discoveries().into_iter().next().map(|(property, path)| {
        for (world, event) in path.into_vec() {
            let (at, delivery) = (world.now.since(START), world.deliveries.first());
            println!("{at:?} {event:?} {delivery:?}");
        }
        property
    });
    let reached = *reached.lock().expect("nobody panics with it");
    (found, reached)
}

/// Returns all ways in which the ports of so many observers may refuse them: the gaps until each does.
fn refusals(observers: u32, gaps: &[u32]) -> Vec<Vec<Option<u32>>> {
    let mut ways = vec![vec![Some(0)]];
    for _ in 1..observers {
        let longer = |way: &Vec<Option<u32>>| {
            gaps.iter().map(|gaps| [way.as_slice(), &[Some(*gaps)]].concat()).collect::<Vec<_>>()
        };
        ways = ways.iter().flat_map(longer).collect();
    }
    ways
}

fn dead(observers: u32, gaps: &[u32], bounds: (u8, u8)) -> Vec<World> {
    let mut worlds = Vec::new();
    for way in refusals(observers, gaps) {
        let world = World::new(false, &way, bounds);
        worlds.push(world.clone());
        for late in [1, 3, 5] {
            worlds.push(world.clone().with_late_packet(0, late, 11));
            let last = way.len() - 1;
            worlds.push(world.clone().with_late_packet(0, late, 11).with_late_packet(last, late + 1, 12));
        }
    }
    worlds
}

#[test]
fn one_that_is_dead_is_always_pronounced_dead() {
    for (observers, bounds) in [(1, (3, 3)), (2, (1, 1)), (3, (0, 1)), (4, (0, 0))] {
        let (broken, reached) = explore(dead(observers, &[0, 1, 3], bounds), None);
        assert_eq!(broken, None, "{observers} observers");
        assert!(reached.conviction && reached.refutation, "{observers} observers: {reached:?}");
    }
}

/// Returns worlds with a living subject whose port refuses observers: all of them, or all but one whose link stands;
/// datagrams pass to all of them, or to one at least.
fn alive(observers: u32, gaps: &[u32], bounds: (u8, u8)) -> Vec<World> {
    let mut worlds = Vec::new();
    for mut way in refusals(observers, gaps) {
        worlds.push(World::new(true, &way, bounds));
        let last = way.len() - 1;
        for is_linked in [false, true] {
            if is_linked {
                way[last] = None;
            }
            // Nobody could tell a living one from a dead one that is heard by none.
            for blocked in 1..way.len() {
                let mut world = World::new(true, &way, bounds);
                world.blocked = (0..blocked).collect();
                worlds.push(world);
            }
        }
    }
    worlds
}

#[test]
fn one_that_lives_is_never_pronounced_dead() {
    for (observers, bounds) in [(1, (2, 2)), (2, (1, 1)), (3, (1, 0)), (4, (0, 1))] {
        let (broken, reached) = explore(alive(observers, &[0, 1, 3], bounds), None);
        assert_eq!(broken, None, "{observers} observers");
        assert!(!reached.conviction && reached.refutation, "{observers} observers: {reached:?}");
        assert!(observers == 1 || reached.closed_case, "{observers} observers: {reached:?}");
    }
}

#[test]
fn each_rule_that_is_left_out_is_missed() {
    let all = |bounds| [dead(2, &[0, 3], bounds), alive(3, &[0, 3], bounds)].concat();
    for flaw in [Flaw::HastyVerdict, Flaw::SilentWitnesses, Flaw::SecretVerdict] {
        let (broken, _) = explore(all((1, 0)), Some(flaw));
        assert!(broken.is_some(), "{flaw:?}");
    }
    assert_eq!(explore(all((1, 0)), None).0, None);
}
