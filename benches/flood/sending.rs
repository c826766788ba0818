//! The sender: a thread for each agent, which sends as many as are due and goes to sleep.

use std::collections::VecDeque;
use std::io::{ErrorKind, Read as _, Write as _};
use std::net::{SocketAddr, TcpStream, UdpSocket};
use std::ops::Add;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use socket2::{Domain, Socket, Type};

use crate::shapes::Payloads;

/// Hosts that each thread seems to be: limits for one address are no help against so many.
const HOSTS: u8 = 32;
/// Packets that are sent before the time is looked at.
const MOST_AT_ONCE: u64 = 500;
const PAUSE: Duration = Duration::from_millis(1);
/// Connections that each thread holds: more than an agent has places for newcomers.
const HELD: usize = 300;
/// Connections in a second, in all: the ports of a machine are soon used up.
const CONNECTIONS: u32 = 2_000;
const CONNECT_TIMEOUT: Duration = Duration::from_millis(100);

/// What was sent, and what came back.
#[derive(Debug, Default, Clone, Copy)]
pub struct Sent {
    /// Packets, or connections.
    pub count: u64,
    pub bytes: u64,
    /// The bytes that came back.
    pub answered: u64,
}

impl Add for Sent {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self {
            count: self.count + other.count,
            bytes: self.bytes + other.bytes,
            answered: self.answered + other.answered,
        }
    }
}

/// A flood that goes on.
pub struct Flood {
    is_over: Arc<AtomicBool>,
    began: Instant,
    threads: Vec<JoinHandle<Sent>>,
}

impl Flood {
    /// Floods these agents, each with its half.
    pub fn begin(payloads: &Arc<Payloads>, targets: [SocketAddr; 2], rate: u32) -> Self {
        let is_over = Arc::new(AtomicBool::new(false));
        let thread = |(nth, to): (u8, SocketAddr)| {
            let (payloads, is_over) = (Arc::clone(payloads), Arc::clone(&is_over));
            std::thread::spawn(move || match &*payloads {
                Payloads::Packets(packets) => send(packets, nth, to, rate / 2, &is_over),
                Payloads::Connections(said) => connect(said, nth, to, rate.min(CONNECTIONS) / 2, &is_over),
            })
        };
        let threads = (0..).zip(targets).map(thread).collect();
        Self { is_over, began: Instant::now(), threads }
    }

    /// Ends it; returns what was sent, and how long it lasted.
    pub fn end(self) -> (Sent, Duration) {
        self.is_over.store(true, Ordering::Relaxed);
        let lasted = self.began.elapsed();
        let sent = self.threads.into_iter().map(|thread| thread.join().expect("it sent"));
        (sent.fold(Sent::default(), Add::add), lasted)
    }
}

/// An address of a host of one thread's own.
fn host(thread: u8, nth: usize) -> SocketAddr {
    SocketAddr::from(([127, 66, thread, 1 + (nth % usize::from(HOSTS)) as u8], 0))
}

/// Does as many of something as are due, again and again until the flood is over. What was not done in time is not made
/// up for by more than one burst.
fn paced(rate: u32, is_over: &AtomicBool, mut burst: impl FnMut(u64)) {
    let mut last = Instant::now();
    let mut owed = 0.0;
    while !is_over.load(Ordering::Relaxed) {
        std::thread::sleep(PAUSE);
        let now = Instant::now();
        owed = (owed + (now - last).as_secs_f64() * f64::from(rate)).min(f64::from(rate) / 10.0);
        last = now;
        let due = (owed as u64).min(MOST_AT_ONCE);
        burst(due);
        owed -= due as f64;
    }
}

fn send(packets: &[Vec<u8>], thread: u8, to: SocketAddr, rate: u32, is_over: &AtomicBool) -> Sent {
    let socket = |nth| {
        let socket = UdpSocket::bind(host(thread, nth)).expect("a port");
        socket.set_nonblocking(true).expect("set");
        socket
    };
    let sockets: Vec<UdpSocket> = (0..usize::from(HOSTS)).map(socket).collect();
    let mut sent = Sent::default();
    let mut buffer = [0; 4_096];
    let mut next = 0;
    paced(rate, is_over, |due| {
        for _ in 0..due {
            let packet = &packets[next % packets.len()];
            if sockets[next % sockets.len()].send_to(packet, to).is_ok() {
                sent.count += 1;
                sent.bytes += packet.len() as u64;
            }
            next += 1;
        }
        for socket in &sockets {
            while let Ok(length) = socket.recv(&mut buffer) {
                sent.answered += length as u64;
            }
        }
    });
    sent
}

fn connect(said: &[Vec<u8>], thread: u8, to: SocketAddr, rate: u32, is_over: &AtomicBool) -> Sent {
    let open = |nth: usize| {
        let socket = Socket::new(Domain::IPV4, Type::STREAM, None)?;
        socket.bind(&host(thread, nth).into())?;
        socket.connect_timeout(&to.into(), CONNECT_TIMEOUT)?;
        socket.set_nonblocking(true)?;
        let mut stream = TcpStream::from(socket);
        let bytes = &said[nth % said.len()];
        match stream.write(bytes) {
            Err(error) if error.kind() != ErrorKind::WouldBlock => Err(error),
            wrote => Ok((stream, wrote.unwrap_or_default())),
        }
    };
    let mut sent = Sent::default();
    let mut held: VecDeque<TcpStream> = VecDeque::new();
    let mut buffer = [0; 4_096];
    let mut next = 0;
    let mut close = |stream: &mut TcpStream| -> u64 {
        let mut answered = 0;
        while let Ok(length @ 1..) = stream.read(&mut buffer) {
            answered += length as u64;
        }
        answered
    };
    paced(rate, is_over, |due| {
        for _ in 0..due {
            if let Ok((stream, wrote)) = open(next) {
                sent.count += 1;
                sent.bytes += wrote as u64;
                held.push_back(stream);
            }
            next += 1;
            if held.len() > HELD {
                sent.answered += held.pop_front().map_or(0, |mut oldest| close(&mut oldest));
            }
        }
    });
    sent.answered += held.iter_mut().map(close).sum::<u64>();
    sent
}
