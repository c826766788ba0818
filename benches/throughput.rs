//! Packets per second between two real cores: handed over in memory, and through two UDP sockets on the loopback
//! device.
//!
//! Both cores live in virtual time, which runs as fast as they can go: the figures include all of a node's work for a
//! packet (timers, gossip, heartbeats, judging), on both ends, in one thread. The difference is the cost of the
//! sockets. The cost of one packet for a core that knows thousands of members is in `peers/core/main.rs`.
//!
//! `cargo bench --bench throughput`

use std::collections::VecDeque;
use std::io;
use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::time::Instant;

use headcount::core::limits::INCARNATION_STEP;
use headcount::core::{Core, CoreInit, Input, NodeId, Output, Run, Time};
use headcount::{Profile, Tags};

/// Number of packets in one measurement.
const PACKETS: usize = 200_000;
/// Number of packets before the measurement, so that one-time messages are over.
const WARM_UP: usize = 2_000;
/// Size of the receive buffer, in bytes: no datagram is larger.
const BUFFER: usize = 2_048;

fn main() {
    println!("{PACKETS} packets between two cores, default profile\n");
    println!("{:24}  {:>13}  {:>13}  {:>13}", "", "packets/s", "ns per packet", "bytes/packet");
    let in_memory = Pair::new(Wire::Memory([VecDeque::new(), VecDeque::new()])).measure("in memory");
    let over_udp = Pair::new(Wire::udp().expect("two sockets on the loopback device")).measure("UDP over loopback");
    println!("\nof a packet over UDP, the cores take {:.0} %", 100.0 * in_memory / over_udp);
}

/// The carrier of packets from one core to the other.
enum Wire {
    /// Packets under way to each core.
    Memory([VecDeque<Vec<u8>>; 2]),
    Udp([UdpSocket; 2], Box<[u8; BUFFER]>),
}

impl Wire {
    fn udp() -> io::Result<Self> {
        let bind = || {
            let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0))?;
            socket.set_nonblocking(true)?;
            Ok::<_, io::Error>(socket)
        };
        Ok(Self::Udp([bind()?, bind()?], Box::new([0; BUFFER])))
    }

    fn address(&self, node: usize) -> SocketAddr {
        match self {
            Wire::Memory(_) => SocketAddr::from(([127, 0, 0, 1], 7_000 + node as u16)),
            Wire::Udp(sockets, _) => sockets[node].local_addr().expect("the socket is bound"),
        }
    }

    fn send(&mut self, from: usize, to: SocketAddr, bytes: Vec<u8>) {
        assert_eq!(to, self.address(1 - from), "there is nobody else");
        match self {
            Wire::Memory(packets) => packets[1 - from].push_back(bytes),
            Wire::Udp(sockets, _) => {
                let sent = sockets[from].send_to(&bytes, to).expect("the loopback device takes a packet");
                assert_eq!(sent, bytes.len());
            }
        }
    }

    /// Hands over the next packet for this node, if there is one; returns true if so.
    fn receive(&mut self, node: usize, take: impl FnOnce(&[u8])) -> bool {
        match self {
            Wire::Memory(packets) => {
                let Some(bytes) = packets[node].pop_front() else { return false };
                take(&bytes);
            }
            Wire::Udp(sockets, buffer) => match sockets[node].recv_from(&mut buffer[..]) {
                Ok((length, _)) => take(&buffer[..length]),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return false,
                Err(error) => panic!("receiving: {error}"),
            },
        }
        true
    }
}

/// A cluster of two cores.
struct Pair {
    cores: Vec<Core>,
    wire: Wire,
    now: Time,
    received: usize,
    bytes: usize,
}

impl Pair {
    fn new(wire: Wire) -> Self {
        let name = |text: &str| NodeId::new(text).expect("a good name");
        let core = |node: usize| {
            let init = CoreInit {
                leadership: None,
                id: name(["one.eu-1", "other.eu-1"][node]),
                run: Run(node as u64 + 1),
                cluster: name("pair"),
                incarnation: 1,
                stored_bound: 1 + INCARNATION_STEP,
                address: wire.address(node),
                api_address: None,
                tags: Tags::default(),
                version: "0.1.0".into(),
                settings: Profile::Default.settings(),
                seeds: node,
                remembered: Vec::new(),
                random_seed: node as u64,
            };
            Core::new(init, Time::ORIGIN)
        };
        let cores = vec![core(0), core(1)];
        let mut pair = Self { cores, wire, now: Time::ORIGIN, received: 0, bytes: 0 };
        pair.carry_out(0);
        pair.carry_out(1);
        let seed = pair.wire.address(0);
        pair.cores[1].handle(pair.now, Input::SeedAddresses(vec![vec![seed]]));
        pair.carry_out(1);
        pair.run(WARM_UP);
        assert!(pair.cores.iter().all(|core| core.is_up() && core.counts().iter().sum::<usize>() == 2));
        assert_eq!(pair.cores[0].fingerprint(), pair.cores[1].fingerprint());
        pair
    }

    /// Measures and prints the throughput; returns the nanoseconds per packet.
    fn measure(&mut self, what: &str) -> f64 {
        let bytes = self.bytes;
        let start = Instant::now();
        self.run(PACKETS);
        let time = start.elapsed().as_secs_f64();
        let suspicions: u64 = self.cores.iter().map(|core| core.counters().suspicions_raised).sum();
        assert_eq!(suspicions, 0, "no packet was lost for long");
        let packets = PACKETS as f64;
        let bytes = (self.bytes - bytes) as f64 / packets;
        println!("{what:24}  {:>13.0}  {:>13.0}  {bytes:>13.1}", packets / time, time / packets * 1e9);
        time / packets * 1e9
    }

    /// Runs until this many more packets have arrived.
    fn run(&mut self, packets: usize) {
        let until = self.received + packets;
        while self.received < until {
            let deadline = |node: usize| self.cores[node].next_deadline().expect("it lives");
            let node = usize::from(deadline(1) < deadline(0));
            self.now = self.now.max(deadline(node));
            self.cores[node].handle(self.now, Input::Tick);
            self.carry_out(node);
            while self.deliver(0) || self.deliver(1) {}
        }
    }

    fn deliver(&mut self, node: usize) -> bool {
        let from = self.wire.address(1 - node);
        let (core, now) = (&mut self.cores[node], self.now);
        let mut length = 0;
        let has_arrived = self.wire.receive(node, |bytes| {
            length = bytes.len();
            core.handle(now, Input::Packet { from, bytes });
        });
        if has_arrived {
            self.received += 1;
            self.bytes += length;
            self.carry_out(node);
        }
        has_arrived
    }

    fn carry_out(&mut self, node: usize) {
        let mut stored = None;
        while let Some(output) = self.cores[node].poll() {
            match output {
                Output::Transmit { to, bytes, .. } => self.wire.send(node, to, bytes),
                Output::Persist(durable) => stored = Some(durable.incarnation_bound),
                // Events have no consumer, and there are no links: they are tried repeatedly, as behind a firewall.
                _ => {}
            }
        }
        if let Some(incarnation_bound) = stored {
            self.cores[node].handle(self.now, Input::Persisted { incarnation_bound, ballot_version: 0 });
            self.carry_out(node);
        }
    }
}
