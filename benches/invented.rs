//! The turns of a core whose view is full of members that do not exist: the longest one of each kind, and the share of the
//! time that they take.
//!
//! `cargo bench --bench invented`, or `-- 15000` for so many invented members. Five nodes are a cluster; two members that
//! joined it tell everybody of members where nobody is, a thousand a second each, as far as they are believed. Their ports
//! refuse connections, as those of any host do on which nothing runs. Traffic and time are virtual; a turn is one input and
//! everything that the core wants done after it.

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use headcount::core::limits::INCARNATION_STEP;
use headcount::core::wire::{Header, Message, PacketBuilder, Update};
use headcount::core::{
    Core, CoreInit, Durable, Input, LinkEvent, LinkId, NodeId, Output, ProtocolRange, Record, Run, Status, Time,
};
use headcount::{Profile, Settings, Tags};

/// The nodes of the cluster, and the members that invent others.
const NODES: usize = 5;
const LIARS: usize = 2;
/// The time between two packets of a liar to each node, and the members in one.
const PAUSE: Duration = Duration::from_millis(10);
const TOLD: usize = 10;
const LATENCY: Duration = Duration::from_millis(1);
/// The time for which the cluster is watched after the telling.
const WATCHED: Duration = Duration::from_secs(40);
/// The longest turn that nobody notices: a process that is late by 200 ms counts as one that stood still.
const BUDGET: Duration = Duration::from_millis(40);

fn main() {
    let asked: Vec<usize> = std::env::args().skip(1).filter_map(|argument| argument.parse().ok()).collect();
    for invented in if asked.is_empty() { vec![0, 15_000] } else { asked } {
        for profile in [Profile::Local, Profile::Default] {
            measure(profile, invented);
        }
    }
}

fn measure(profile: Profile, invented: usize) {
    let mut net = Net::formed(profile);
    let mut told = 0;
    let begun = net.now;
    net.turns.clear();
    while told < invented {
        for liar in 0..LIARS {
            let members: Vec<Record> = (told..invented.min(told + TOLD)).map(|nth| net.member(nth)).collect();
            told += members.len();
            for node in 0..NODES {
                net.say(NODES + liar, node, &members);
            }
        }
        net.run(PAUSE);
    }
    net.report(&format!("{profile}, {invented} invented, told"), net.now.since(begun));
    net.turns.clear();
    let begun = net.now;
    net.run(WATCHED);
    net.report(&format!("{profile}, {invented} invented, then"), net.now.since(begun));
    let victim = NodeId::new(&format!("n{}", NODES - 1)).expect("a name");
    net.kill(NODES - 1);
    let died = net.now;
    let is_down = |node: &Node| node.core.record(&victim).is_none_or(|record| record.status == Status::Down);
    while !net.nodes[..NODES - 1].iter().all(is_down) && net.now.since(died) < Duration::from_secs(60) {
        net.run(Duration::from_millis(10));
    }
    println!(
        "  a process that is killed is known to be down everywhere after {:.2} s",
        net.now.since(died).as_secs_f64()
    );
}

struct Node {
    core: Core,
    address: SocketAddr,
    sequence: u64,
    is_dead: bool,
}

enum Flight {
    Datagram { from: SocketAddr, to: SocketAddr, bytes: Vec<u8> },
    Outcome { node: usize, link: LinkId, is_connected: bool },
    Frame { node: usize, link: LinkId, from: SocketAddr, bytes: Vec<u8> },
    Closed { node: usize, link: LinkId },
}

struct Net {
    now: Time,
    settings: Settings,
    nodes: Vec<Node>,
    in_flight: BTreeMap<(Time, u64), Flight>,
    ends: BTreeMap<(usize, LinkId), (usize, LinkId)>,
    counter: u64,
    turns: BTreeMap<&'static str, Vec<Duration>>,
}

fn address(host: usize) -> SocketAddr {
    SocketAddr::from(([10, 0, 0, host as u8 + 1], 7117))
}

fn name(text: &str) -> NodeId {
    NodeId::new(text).expect("a good name")
}

impl Net {
    fn formed(profile: Profile) -> Self {
        let mut net = Self {
            now: Time::ORIGIN,
            settings: profile.settings(),
            nodes: Vec::new(),
            in_flight: BTreeMap::new(),
            ends: BTreeMap::new(),
            counter: 0,
            turns: BTreeMap::new(),
        };
        for node in 0..NODES + LIARS {
            let init = CoreInit {
                leadership: None,
                id: name(&format!("n{node}")),
                run: Run(0x1000 + node as u64),
                cluster: name("invented"),
                incarnation: 1_000_000,
                stored_bound: 1_000_000 + INCARNATION_STEP,
                address: address(node),
                api_address: None,
                tags: Tags::default(),
                version: "0.1.0".into(),
                settings: net.settings.clone(),
                seeds: 1,
                remembered: Vec::new(),
                random_seed: node as u64,
            };
            let core = Core::new(init, net.now);
            net.nodes.push(Node { core, address: address(node), sequence: 1 << 14, is_dead: false });
            net.drain(node);
        }
        net.run(Duration::from_secs(8));
        assert!(net.nodes.iter().all(|node| node.core.is_up() && node.core.records().count() == NODES + LIARS));
        net
    }

    fn member(&self, nth: usize) -> Record {
        Record {
            id: name(&format!("g{nth:05}")),
            run: Run((nth as u64 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15)),
            incarnation: 1_000_000,
            status: Status::Up,
            address: SocketAddr::from(([172, 16, (nth >> 8) as u8, nth as u8], 7117)),
            api_address: None,
            tags: Tags::default(),
            timing: self.settings.timing().expect("within bounds"),
            version: "0.1.0".into(),
            protocol: ProtocolRange::OURS,
        }
    }

    /// Has a liar tell a node of members, beside what its own core says.
    fn say(&mut self, liar: usize, to: usize, members: &[Record]) {
        let Node { core, address, sequence, .. } = &mut self.nodes[liar];
        *sequence += 1;
        let header = Header {
            cluster: Header::cluster_hash("invented"),
            run: core.me().run,
            sequence: *sequence,
            fingerprint: core.fingerprint(),
        };
        let from = *address;
        let mut packet = PacketBuilder::new(&header, 1_400);
        for record in members {
            assert!(packet.push(&Message::Update(Update { note: None, record: record.clone() })));
        }
        let bytes = packet.finish();
        self.turn(to, "datagram", Input::Packet { from, bytes: &bytes });
    }

    fn run(&mut self, duration: Duration) {
        let until = self.now + duration;
        loop {
            let landing = self.in_flight.keys().next().map(|(at, _)| *at);
            let deadline = self.living().filter_map(|node| self.nodes[node].core.next_deadline()).min();
            let Some(next) = landing.into_iter().chain(deadline).min().filter(|next| *next <= until) else { break };
            self.now = self.now.max(next);
            if landing.is_some_and(|landing| landing <= self.now) {
                self.land();
                continue;
            }
            for node in self.living().collect::<Vec<_>>() {
                if self.nodes[node].core.next_deadline().is_some_and(|deadline| deadline <= self.now) {
                    self.turn(node, "tick", Input::Tick);
                }
            }
        }
        self.now = until;
    }

    /// Ends a process without a word: its kernel closes its connections.
    fn kill(&mut self, node: usize) {
        self.nodes[node].is_dead = true;
        let ends: Vec<_> = self.ends.iter().filter(|(end, _)| end.0 == node).map(|(_, other)| *other).collect();
        self.ends.retain(|end, _| end.0 != node);
        for (node, link) in ends {
            self.fly(Flight::Closed { node, link });
        }
    }

    fn living(&self) -> impl Iterator<Item = usize> {
        (0..self.nodes.len()).filter(|node| !self.nodes[*node].is_dead)
    }

    fn at(&self, address: SocketAddr) -> Option<usize> {
        self.living().find(|node| self.nodes[*node].address == address)
    }

    fn land(&mut self) {
        let Some((_, flight)) = self.in_flight.pop_first() else { return };
        match flight {
            Flight::Datagram { from, to, bytes } => {
                if let Some(node) = self.at(to) {
                    self.turn(node, "datagram", Input::Packet { from, bytes: &bytes });
                }
            }
            Flight::Outcome { node, link, is_connected } => {
                let event = if is_connected { LinkEvent::Connected } else { LinkEvent::Refused };
                self.turn(node, "link", Input::Link { link, event });
            }
            Flight::Frame { node, link, from, bytes } => {
                let event = LinkEvent::Frame { from, bytes: &bytes };
                self.turn(node, "frame", Input::Link { link, event });
            }
            Flight::Closed { node, link } => {
                self.ends.remove(&(node, link));
                self.turn(node, "link", Input::Link { link, event: LinkEvent::Closed });
            }
        }
    }

    fn turn(&mut self, node: usize, kind: &'static str, input: Input<'_>) {
        if self.nodes[node].is_dead {
            return;
        }
        let begin = Instant::now();
        self.nodes[node].core.handle(self.now, input);
        self.drain(node);
        if node < NODES {
            self.turns.entry(kind).or_default().push(begin.elapsed());
        }
    }

    fn fly(&mut self, flight: Flight) {
        self.counter += 1;
        self.in_flight.insert((self.now + LATENCY, self.counter), flight);
    }

    fn drain(&mut self, node: usize) {
        let (mut stored, mut is_asked) = (None, false);
        let from = self.nodes[node].address;
        while let Some(output) = self.nodes[node].core.poll() {
            match output {
                Output::Transmit { to, bytes, .. } => self.fly(Flight::Datagram { from, to, bytes }),
                Output::OpenLink { link, to } => {
                    let other = self.at(to);
                    if let Some(other) = other {
                        self.counter += 1;
                        let accepted = LinkId::Accepted(self.counter);
                        self.ends.insert((node, link), (other, accepted));
                        self.ends.insert((other, accepted), (node, link));
                    }
                    self.fly(Flight::Outcome { node, link, is_connected: other.is_some() });
                }
                Output::SendFrame { link, bytes } => {
                    if let Some((other, end)) = self.ends.get(&(node, link)).copied() {
                        self.fly(Flight::Frame { node: other, link: end, from, bytes });
                    }
                }
                Output::CloseLink { link } => {
                    if let Some((node, link)) = self.ends.remove(&(node, link)) {
                        self.fly(Flight::Closed { node, link });
                    }
                }
                Output::Persist(Durable { incarnation_bound, .. }) => stored = Some(incarnation_bound),
                Output::ResolveSeeds => is_asked = true,
                _ => {}
            }
        }
        if let Some(incarnation_bound) = stored {
            self.nodes[node].core.handle(self.now, Input::Persisted { incarnation_bound, ballot_version: 0 });
        }
        if is_asked {
            self.nodes[node].core.handle(self.now, Input::SeedAddresses(vec![vec![address(0)]]));
            self.drain(node);
        }
    }

    fn report(&mut self, what: &str, lasted: Duration) {
        let known: BTreeSet<usize> = self.nodes[..NODES].iter().map(|node| node.core.records().count()).collect();
        println!("{what}: {:.0} s, nodes know {known:?} members", lasted.as_secs_f64());
        for (kind, turns) in &mut self.turns {
            turns.sort_unstable();
            let (longest, all) = (turns[turns.len() - 1], turns.iter().sum::<Duration>());
            let late = turns.iter().filter(|turn| **turn > BUDGET).count();
            println!(
                "  {kind:>9}: {:>8} turns, {:>5.1} % of the time of a node, longest {:>7.2} ms, 99.9 % in {:>6.2} ms, {late} above the \
                 budget of {} ms",
                turns.len(),
                all.as_secs_f64() / lasted.as_secs_f64() / NODES as f64 * 100.0,
                longest.as_secs_f64() * 1e3,
                turns[turns.len() * 999 / 1_000].as_secs_f64() * 1e3,
                BUDGET.as_millis()
            );
        }
    }
}
