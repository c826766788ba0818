//! Drives state machines without sockets and clocks through the simulator's network, as
//! [`World`](headcount::sim::World) drives headcount's cores: one heap of events, one seed, and a bounded buffer for
//! the datagrams of a suspended process.
//!
//! After a pause a process finds datagrams and late timers at once; it takes either at random, as `tokio::select!` and
//! Go's `select` do. (In headcount, datagrams come first because its own loop sees to that.)

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap, VecDeque};
use std::time::Duration;

use headcount::sim::network::{CutId, Network, NodeSet};
use headcount::sim::{Purpose, Random};

use super::cluster::{Disturbance, Cluster, Conditions, Death, Sighting, Traffic, Verdict};

/// The largest number of datagrams that wait for a paused process, as in headcount's simulator.
const MAX_WAITING: usize = 256;
/// Bytes of the headers of IPv4 and UDP.
const HEADER_BYTES: u64 = 28;

/// A node of a protocol.
pub(crate) trait Process {
    type Timer;

    /// Starts the process, with a seed that it may ask.
    fn start(&mut self, seed: Option<usize>, out: &mut Outbox<Self::Timer>);
    fn packet(&mut self, from: usize, bytes: &[u8], out: &mut Outbox<Self::Timer>);
    fn timer(&mut self, timer: Self::Timer, out: &mut Outbox<Self::Timer>);
    fn change(&mut self, out: &mut Outbox<Self::Timer>);
    fn lists(&self, subject: usize) -> bool;
}

/// The outputs of a process.
pub(crate) struct Outbox<T> {
    pub(crate) packets: Vec<(usize, Vec<u8>)>,
    pub(crate) timers: Vec<(Duration, T)>,
    pub(crate) verdicts: Vec<(usize, Verdict)>,
}

impl<T> Outbox<T> {
    fn new() -> Self {
        Self { packets: Vec::new(), timers: Vec::new(), verdicts: Vec::new() }
    }
}

enum Event<T> {
    Start { node: usize, seed: Option<usize> },
    Packet { from: usize, to: usize, bytes: Vec<u8>, is_late: bool },
    Timer { node: usize, timer: T, is_late: bool },
    Resume { node: usize },
    Heal { cuts: Vec<CutId> },
}

struct Place<P: Process> {
    process: P,
    is_alive: bool,
    is_paused: bool,
    packets: VecDeque<(usize, Vec<u8>)>,
    timers: VecDeque<P::Timer>,
    /// The largest delay of its inputs, in nanoseconds.
    slowness: u64,
    /// Time until which its inputs are delayed.
    slow_until: u64,
    /// Time at which its last late timer fires: late timers fire in the order in which they were due.
    timers_until: u64,
}

/// A cluster of such processes.
pub(crate) struct Engine<P: Process> {
    now: u64,
    order: u64,
    /// Events by time, then in the order in which they were made.
    queue: BinaryHeap<Reverse<(u64, u64)>>,
    events: BTreeMap<u64, Event<P::Timer>>,
    places: Vec<Place<P>>,
    network: Network,
    random: Random,
    sightings: Vec<Sighting>,
    /// Makes the process of one more node.
    make: Box<dyn FnMut(usize, u64) -> P>,
}

impl<P: Process> Engine<P> {
    /// Creates `nodes` processes, made knowing each other, which start within the first second.
    pub(crate) fn new(
        nodes: usize,
        seed: u64,
        conditions: Conditions,
        mut make_first: impl FnMut(usize, u64) -> P,
        make: impl FnMut(usize, u64) -> P + 'static,
    ) -> Self {
        let mut engine = Self {
            now: 0,
            order: 0,
            queue: BinaryHeap::new(),
            events: BTreeMap::new(),
            places: Vec::new(),
            network: Network::new(seed, conditions, HEADER_BYTES),
            random: Random::new(seed, Purpose::Nodes),
            sightings: Vec::new(),
            make: Box::new(make),
        };
        for node in 0..nodes {
            let process = make_first(node, engine.random.bits());
            engine.place(process);
            let at = engine.random.below(1_000_000_000);
            engine.push(at, Event::Start { node, seed: None });
        }
        engine
    }

    fn place(&mut self, process: P) {
        self.places.push(Place {
            process,
            is_alive: true,
            is_paused: false,
            packets: VecDeque::new(),
            timers: VecDeque::new(),
            slowness: 0,
            slow_until: 0,
            timers_until: 0,
        });
    }

    fn push(&mut self, at: u64, event: Event<P::Timer>) {
        self.order += 1;
        self.queue.push(Reverse((at, self.order)));
        self.events.insert(self.order, event);
    }

    fn happen(&mut self, event: Event<P::Timer>) {
        match event {
            Event::Start { node, seed } => self.step(node, |process, out| process.start(seed, out)),
            Event::Packet { from, to, bytes, is_late } => {
                let late = if is_late { 0 } else { self.lateness(to) };
                let place = &mut self.places[to];
                if late > 0 {
                    self.push(self.now + late, Event::Packet { from, to, bytes, is_late: true });
                } else if !place.is_paused {
                    self.step(to, |process, out| process.packet(from, &bytes, out));
                } else if place.packets.len() < MAX_WAITING {
                    place.packets.push_back((from, bytes));
                }
            }
            Event::Timer { node, timer, is_late } => {
                let late = if is_late { 0 } else { self.lateness(node) };
                let place = &mut self.places[node];
                if late > 0 || (!is_late && place.timers_until > self.now) {
                    place.timers_until = place.timers_until.max(self.now + late);
                    let at = place.timers_until;
                    self.push(at, Event::Timer { node, timer, is_late: true });
                } else if place.is_paused {
                    place.timers.push_back(timer);
                } else {
                    self.step(node, |process, out| process.timer(timer, out));
                }
            }
            Event::Heal { cuts } => cuts.into_iter().for_each(|cut| {
                self.network.heal(cut);
            }),
            Event::Resume { node } => self.resume(node),
        }
    }

    /// Draws the delay of the next input of a process, in nanoseconds.
    fn lateness(&mut self, node: usize) -> u64 {
        let Place { slowness, slow_until, .. } = self.places[node];
        if self.now < slow_until { self.random.below(slowness) } else { 0 }
    }

    fn resume(&mut self, node: usize) {
        self.places[node].is_paused = false;
        loop {
            let place = &mut self.places[node];
            let packet_next = match (place.packets.is_empty(), place.timers.is_empty()) {
                (true, true) => return,
                (true, false) => false,
                (false, true) => true,
                (false, false) => self.random.chance(0.5),
            };
            if packet_next && let Some((from, bytes)) = place.packets.pop_front() {
                self.step(node, |process, out| process.packet(from, &bytes, out));
            } else if let Some(timer) = place.timers.pop_front() {
                self.step(node, |process, out| process.timer(timer, out));
            }
        }
    }

    /// Hands in one input, and carries out all outputs.
    fn step(&mut self, node: usize, input: impl FnOnce(&mut P, &mut Outbox<P::Timer>)) {
        if !self.places[node].is_alive {
            return;
        }
        let mut out = Outbox::new();
        input(&mut self.places[node].process, &mut out);
        let at = Duration::from_nanos(self.now);
        let verdicts = out.verdicts.into_iter().filter(|(subject, _)| *subject != node);
        self.sightings.extend(verdicts.map(|(subject, verdict)| Sighting { at, observer: node, subject, verdict }));
        for (after, timer) in out.timers {
            self.push(self.now + after.as_nanos() as u64, Event::Timer { node, timer, is_late: false });
        }
        for (to, bytes) in out.packets {
            let mut arrivals = Vec::new();
            self.network.send(self.now, node, to, bytes, |arrival| arrivals.push(arrival));
            for arrival in arrivals {
                self.push(arrival.at, Event::Packet { from: node, to, bytes: arrival.bytes, is_late: false });
            }
        }
    }
}

impl<P: Process> Cluster for Engine<P> {
    fn now(&self) -> Duration {
        Duration::from_nanos(self.now)
    }

    fn advance(&mut self, by: Duration) {
        let until = self.now + by.as_nanos() as u64;
        while let Some(Reverse((at, order))) = self.queue.peek().copied().filter(|next| next.0.0 <= until) {
            self.queue.pop();
            self.now = at;
            if let Some(event) = self.events.remove(&order) {
                self.happen(event);
            }
        }
        self.now = until;
    }

    fn boot(&mut self) -> usize {
        let node = self.places.len();
        let process = (self.make)(node, self.random.bits());
        self.place(process);
        self.step(node, |process, out| process.start(Some(0), out));
        node
    }

    fn kill(&mut self, node: usize, _: Death) {
        self.places[node].is_alive = false;
    }

    fn disturb_process(&mut self, node: usize, disturbance: Disturbance, lasting: Duration) {
        let until = self.now + lasting.as_nanos() as u64;
        match disturbance {
            Disturbance::Stopped => {
                self.places[node].is_paused = true;
                self.push(until, Event::Resume { node });
            }
            Disturbance::Starved(by) => {
                self.places[node].slowness = by.as_nanos() as u64;
                self.places[node].slow_until = until;
            }
            Disturbance::Blocked => {
                let cuts = vec![self.network.hold(node, until)];
                self.push(until, Event::Heal { cuts });
            }
            Disturbance::CutOff => {
                let side = NodeSet::of(&[node]);
                let cuts = vec![self.network.cut(side.clone(), side.rest()), self.network.cut(side.rest(), side)];
                self.push(until, Event::Heal { cuts });
            }
        }
    }

    fn change(&mut self, node: usize) {
        self.step(node, P::change);
    }

    fn disturb(&mut self, conditions: Conditions) {
        self.network.set_conditions(conditions);
    }

    fn lists(&self, observer: usize, subject: usize) -> bool {
        self.places[observer].process.lists(subject)
    }

    fn sightings(&mut self) -> Vec<Sighting> {
        std::mem::take(&mut self.sightings)
    }

    fn traffic(&self, node: usize) -> Traffic {
        self.network.sent(node)
    }
}
