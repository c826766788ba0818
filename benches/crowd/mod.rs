//! A real core in a crowd: any number of members that exist only as the packets they send.
//!
//! The core is driven through its input and output alone. The first member introduces itself as a stranger must; the
//! others are told of by its packets. No member is believed that tells of very many, so that the core of a larger crowd
//! joins it, and the first member serves the view. Every packet has a fresh sequence number and the fingerprint of a sender that
//! knows the packet's content, so that the core never sees views that differ.

use std::hint::black_box;
use std::net::SocketAddr;
use std::time::Duration;

use headcount::core::limits::INCARNATION_STEP;
use headcount::core::wire::{Header, Heartbeat, Message, Nonce, Packet, PacketBuilder};
use headcount::core::{Core, CoreInit, Input, NodeId, Output, ProtocolRange, Record, Run, Status, Time};
use headcount::{Profile, Settings, Tags};

const CLUSTER: &str = "crowd";
/// The incarnation of member 0; member number `i` starts at `i` more.
const INCARNATION: u64 = 1_700_000_000_000;
/// The largest packet, in bytes.
const MTU: usize = 1_400;
/// Number of records that fit into a packet even if they have tags.
const RECORDS_PER_PACKET: usize = 10;
/// The largest crowd of which one member may tell.
const MAX_TOLD: usize = 8_192;

/// A core, and the state of its members.
pub(crate) struct Crowd {
    pub(crate) core: Core,
    pub(crate) now: Time,
    /// The newest record of each member, known to the core or not.
    pub(crate) members: Vec<Record>,
    /// The last sequence number of each member.
    sequences: Vec<u64>,
    /// Fingerprint of a view that holds everything that was told.
    fingerprint: u64,
    /// True if the core has yet to join the crowd, of which it is served the view.
    is_joining: bool,
}

/// Source address and bytes of a datagram.
pub(crate) type Datagram = (SocketAddr, Vec<u8>);

/// Returns member number `i`, with a realistic name and address.
pub(crate) fn member(i: usize) -> Record {
    let [_, a, b, c] = (i as u32).to_be_bytes();
    Record {
        id: name(&format!("node-{i:05}.eu-1")),
        // An odd factor gives different numbers different runs, spread like random ones.
        run: Run((i as u64 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15)),
        incarnation: INCARNATION + i as u64,
        status: Status::Up,
        address: SocketAddr::from(([10, a, b, c], 7117)),
        api_address: None,
        tags: Tags::default(),
        timing: settings().timing().expect("within bounds"),
        version: "0.1.0".into(),
        protocol: ProtocolRange::OURS,
    }
}

/// Returns settings so patient that no member is suspected while a benchmark runs: the members do not heartbeat.
fn settings() -> Settings {
    Settings {
        heartbeat_interval: Duration::from_secs(60),
        suspect_timeout: Duration::from_secs(600),
        down_timeout: Duration::from_secs(3_600),
        ..Profile::Default.settings()
    }
}

fn name(text: &str) -> NodeId {
    NodeId::new(text).expect("a good name")
}

impl Crowd {
    /// Creates a core that is Up and knows `members[0]`, which has introduced itself, and no other member. One of a large
    /// crowd knows nobody yet, and asks `members[0]` for the view.
    pub(crate) fn meeting(members: Vec<Record>) -> Self {
        let is_joining = members.len() > MAX_TOLD;
        let init = CoreInit {
            leadership: None,
            id: name("observer.eu-1"),
            run: Run(7),
            cluster: name(CLUSTER),
            incarnation: INCARNATION,
            stored_bound: INCARNATION + INCARNATION_STEP,
            address: SocketAddr::from(([192, 168, 0, 1], 7117)),
            api_address: None,
            tags: Tags::default(),
            version: "0.1.0".into(),
            settings: settings(),
            seeds: usize::from(is_joining),
            remembered: Vec::new(),
            random_seed: 1,
        };
        let mut core = Core::new(init, Time::ORIGIN);
        while core.poll().is_some() {}
        assert_eq!(core.is_up(), !is_joining, "a node without seeds is a cluster of its own");
        let fingerprint = if is_joining { 0 } else { core.fingerprint() };
        let sequences = vec![0; members.len()];
        let mut crowd = Self { core, now: Time::ORIGIN, members, sequences, fingerprint, is_joining };
        if is_joining {
            crowd.welcome();
        } else {
            crowd.introduce_first();
        }
        crowd
    }

    /// Creates a core that knows all of `members`, and has spread the news.
    pub(crate) fn of(members: Vec<Record>) -> Self {
        let mut crowd = Self::meeting(members);
        for datagram in crowd.tell_of_all() {
            crowd.hand_in(&datagram);
        }
        crowd.pass(Duration::from_secs(10));
        crowd.assert_all_known();
        crowd
    }

    /// Returns the packets by which the first member tells of all others, in the order of names.
    pub(crate) fn tell_of_all(&mut self) -> Vec<Datagram> {
        if self.is_joining {
            return self.pages();
        }
        let others: Vec<usize> = (1..self.members.len()).collect();
        let tell = |some: &[usize]| {
            for i in some {
                self.fingerprint = self.fingerprint.wrapping_add(self.members[*i].hash());
            }
            self.packet(0, some.iter().copied())
        };
        others.chunks(RECORDS_PER_PACKET).map(tell).collect()
    }

    /// Welcomes the core as its sponsor, the first member, does.
    fn welcome(&mut self) {
        let sponsor = self.members[0].address;
        self.core.handle(self.now, Input::SeedAddresses(vec![vec![sponsor]]));
        let mut asked = None;
        while let Some(output) = self.core.poll() {
            let Output::Transmit { bytes, .. } = output else { continue };
            for message in Packet::decode(&bytes).expect("a packet of ours").messages {
                if let Message::Join { nonce, .. } = message {
                    asked = Some(nonce);
                }
            }
        }
        let nonce = asked.expect("it asks its seed");
        self.sequences[0] += 1;
        let mut packet = PacketBuilder::new(&self.header(0, 0), MTU);
        packet.push(&Message::Reply);
        packet.push(&Message::Welcome { nonce, sponsor: self.members[0].clone() });
        self.hand_in(&(sponsor, packet.finish()));
    }

    /// Returns the pages of the view.
    fn pages(&mut self) -> Vec<Datagram> {
        let last = self.members.len() - 1;
        let all: Vec<usize> = (0..=last).collect();
        let page = |some: &[usize]| {
            self.sequences[0] += 1;
            let mut packet = PacketBuilder::new(&self.header(0, 0), MTU);
            for i in some {
                assert!(packet.push_update(None, &self.members[*i]), "the records fit into one page");
            }
            let after = some[0].checked_sub(1).map(|before| self.members[before].id.clone());
            assert!(packet.push(&Message::Page { after, more: some[some.len() - 1] < last }));
            (self.members[0].address, packet.finish())
        };
        all.chunks(RECORDS_PER_PACKET).map(page).collect()
    }

    /// Raises a member's incarnation; the core has not heard of it yet.
    pub(crate) fn change(&mut self, member: usize) {
        let record = &mut self.members[member];
        let before = record.hash();
        record.incarnation += 1;
        self.fingerprint = self.fingerprint.wrapping_sub(before).wrapping_add(record.hash());
    }

    /// Builds a packet of one member: a heartbeat, and updates about these others.
    pub(crate) fn packet(&mut self, sender: usize, about: impl IntoIterator<Item = usize>) -> Datagram {
        self.sequences[sender] += 1;
        let mut packet = PacketBuilder::new(&self.header(sender, self.fingerprint), MTU);
        packet.push(&Message::Heartbeat(Heartbeat { stamp: 1, echo: None }));
        for i in about {
            assert!(packet.push_update(None, &self.members[i]), "the updates fit into one packet");
        }
        (self.members[sender].address, packet.finish())
    }

    fn header(&self, sender: usize, fingerprint: u64) -> Header {
        Header {
            cluster: Header::cluster_hash(CLUSTER),
            run: self.members[sender].run,
            sequence: self.sequences[sender],
            fingerprint,
        }
    }

    /// Hands a packet in and carries out the outputs, which is the work that the benchmarks time.
    pub(crate) fn hand_in(&mut self, (from, bytes): &Datagram) {
        self.core.handle(self.now, Input::Packet { from: *from, bytes });
        while let Some(output) = self.core.poll() {
            black_box(output);
        }
        if self.is_joining && self.core.is_up() {
            (self.is_joining, self.fingerprint) = (false, self.core.fingerprint());
        }
    }

    /// Lets time pass: every deadline is met to the nanosecond.
    pub(crate) fn pass(&mut self, duration: Duration) {
        let until = self.now + duration;
        while let Some(deadline) = self.core.next_deadline().filter(|deadline| *deadline <= until) {
            self.now = self.now.max(deadline);
            self.tick();
        }
        self.now = until;
    }

    /// Hands in the passing of time, and acknowledges writes as a disk does.
    pub(crate) fn tick(&mut self) {
        self.core.handle(self.now, Input::Tick);
        let mut stored = None;
        while let Some(output) = self.core.poll() {
            match output {
                Output::Persist(durable) => stored = Some(durable.incarnation_bound),
                output => drop(black_box(output)),
            }
        }
        if let Some(incarnation_bound) = stored {
            self.core.handle(self.now, Input::Persisted { incarnation_bound, ballot_version: 0 });
            assert_eq!(self.core.poll(), None);
        }
    }

    /// Asserts that the core holds the newest record of every member, all of them Up.
    pub(crate) fn assert_all_known(&self) {
        assert_eq!(self.core.counts()[Status::Up.index()], self.members.len() + 1, "all Up, the core included");
        assert_eq!(self.core.fingerprint(), self.fingerprint, "the core holds the newest records");
    }

    /// Introduces the first member: it asks for the core's identity, is asked for its own, and answers with the nonce
    /// that it was sent.
    fn introduce_first(&mut self) {
        let from = self.members[0].address;
        self.sequences[0] += 1;
        let mut question = PacketBuilder::new(&self.header(0, 0), MTU);
        question.push(&Message::WhoAreYou { nonce: Nonce(1), echo: None });
        question.pad_to(256);
        self.core.handle(self.now, Input::Packet { from, bytes: &question.finish() });
        let mut asked = None;
        while let Some(output) = self.core.poll() {
            let Output::Transmit { to, bytes, .. } = output else { continue };
            assert_eq!(to, from);
            for message in Packet::decode(&bytes).expect("a packet of ours").messages {
                if let Message::WhoAreYou { nonce, .. } = message {
                    asked = Some(nonce);
                }
            }
        }
        let nonce = asked.expect("a stranger is asked who it is");
        self.sequences[0] += 1;
        self.fingerprint = self.fingerprint.wrapping_add(self.members[0].hash());
        let mut answer = PacketBuilder::new(&self.header(0, self.fingerprint), MTU);
        answer.push(&Message::IAm { nonce, record: self.members[0].clone() });
        self.hand_in(&(from, answer.finish()));
        assert_eq!(self.core.fingerprint(), self.fingerprint, "it is a member now");
    }
}
