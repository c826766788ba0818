//! A member that has the key and lies: packets and seals are the crate's own, and what is in them is not.

use std::collections::BTreeMap;
use std::net::{SocketAddr, UdpSocket};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant, SystemTime};

use headcount::core::wire::{Header, Heartbeat, LeaderClaim, Message, Nonce, Packet, PacketBuilder, Update};
use headcount::core::{NodeId, ProtocolRange, Record, Run, Status};
use headcount::seal::{DatagramSealer, KeyFile, KeyRing, Opened};
use headcount::{Profile, Tags};

use crate::support::{PATIENCE, wait_for};

/// The bytes of a packet before it is sealed.
const MOST: usize = 1_300;
/// The least bytes of a question that may be answered.
const LEAST: usize = 256;

/// The member. It answers what members are asked by datagram, and sends heartbeats, until it is dropped. It takes no links.
pub(crate) struct Attacker(Arc<Inner>);

struct Inner {
    socket: UdpSocket,
    is_over: AtomicBool,
    state: Mutex<State>,
}

struct State {
    sealer: DatagramSealer,
    ring: KeyRing,
    sequence: u64,
    record: Record,
    /// The runs that were heard at each address.
    runs: BTreeMap<SocketAddr, Run>,
    /// The answers to its own questions.
    answers: Vec<Message>,
    /// The members, as others told of them last.
    members: BTreeMap<NodeId, Record>,
    /// The leader, as others told of it last.
    claim: Option<LeaderClaim>,
}

const CLUSTER: &str = "headcount";

/// A number that nobody else has drawn.
fn drawn() -> u64 {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).expect("after 1970");
    now.as_nanos() as u64 ^ u64::from(std::process::id()) << 40
}

impl Attacker {
    /// Joins as members do, with the key in this file, by the member at this address.
    pub(crate) fn join(key_file: &Path, name: &str, sponsor: SocketAddr) -> Self {
        let socket = UdpSocket::bind("127.0.0.1:0").expect("a port");
        socket.set_read_timeout(Some(Duration::from_millis(50))).expect("set");
        let text = std::fs::read_to_string(key_file).expect("a key file");
        let run = Run(drawn());
        let born = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).expect("after 1970");
        let record = Record {
            id: NodeId::new(name).expect("a name"),
            run,
            incarnation: born.as_millis() as u64,
            status: Status::Joining,
            address: socket.local_addr().expect("bound"),
            api_address: None,
            tags: Tags::default(),
            timing: Profile::Local.settings().timing().expect("a profile"),
            version: "0.1.0".into(),
            protocol: ProtocolRange::OURS,
        };
        let state = State {
            sealer: DatagramSealer::new(run, CLUSTER),
            ring: KeyFile::parse(&text).expect("keys").ring().expect("keys"),
            sequence: 0,
            record,
            runs: BTreeMap::new(),
            answers: Vec::new(),
            members: BTreeMap::new(),
            claim: None,
        };
        let inner = Arc::new(Inner { socket, is_over: AtomicBool::new(false), state: Mutex::new(state) });
        let (listening, beating) = (Arc::clone(&inner), Arc::clone(&inner));
        std::thread::spawn(move || listening.listen());
        inner.join(sponsor);
        std::thread::spawn(move || beating.beat());
        Self(inner)
    }

    /// Says messages, in as many packets as they take.
    pub(crate) fn says(&self, to: SocketAddr, messages: &[Message]) {
        self.0.says(to, messages);
    }

    /// Returns the record of a member.
    pub(crate) fn record(&self, name: &str) -> Record {
        wait_for(&format!("{name} was told of"), || {
            let state = self.0.state.lock().expect("not poisoned");
            state.members.values().find(|record| record.id.as_str() == name).cloned()
        })
    }

    /// Returns the word of the leader that is going round.
    pub(crate) fn claim(&self) -> LeaderClaim {
        wait_for("a leader was told of", || self.0.state.lock().expect("not poisoned").claim.clone())
    }
}

impl Drop for Attacker {
    fn drop(&mut self) {
        self.0.is_over.store(true, Ordering::Relaxed);
    }
}

impl Inner {
    fn says(&self, to: SocketAddr, messages: &[Message]) {
        let mut state = self.state.lock().expect("not poisoned");
        let mut left = messages.iter().peekable();
        while left.peek().is_some() {
            state.sequence += 1;
            let header = Header {
                cluster: Header::cluster_hash(CLUSTER),
                run: state.record.run,
                sequence: state.sequence,
                fingerprint: 0,
            };
            let mut packet = PacketBuilder::new(&header, MOST);
            while left.peek().is_some_and(|message| packet.push(message)) {
                left.next();
            }
            assert!(!packet.is_empty(), "a message is too large: {:?}", left.peek());
            packet.pad_to(LEAST);
            let (key, receiver) = (state.ring.sealing().clone(), state.runs.get(&to).copied());
            let sealed = state.sealer.seal(&key, receiver, &packet.finish()).expect("a packet of its own");
            let _ = self.socket.send_to(&sealed, to);
        }
    }

    /// Takes what comes, and answers what a member is asked.
    fn listen(&self) {
        let (mut buffer, mut packet) = ([0; 2_048], Vec::new());
        while !self.is_over.load(Ordering::Relaxed) {
            let Ok((length, from)) = self.socket.recv_from(&mut buffer) else { continue };
            let mut answers = Vec::new();
            {
                let mut state = self.state.lock().expect("not poisoned");
                let State { sealer, ring, .. } = &mut *state;
                let Ok(Opened::Bound | Opened::Unbound) = sealer.open(ring, &buffer[..length], &mut packet, |_| false)
                else {
                    continue;
                };
                let Ok(packet) = Packet::decode(&packet) else { continue };
                if !packet.header.run.is_nobody() {
                    state.runs.insert(from, packet.header.run);
                }
                for message in packet.messages {
                    match message {
                        Message::Probe { nonce, .. } => answers.push(Message::Ack { nonce }),
                        Message::WhoAreYou { nonce, .. } => {
                            answers.push(Message::IAm { nonce, record: state.record.clone() });
                        }
                        Message::Update(Update { record, .. }) => _ = state.members.insert(record.id.clone(), record),
                        Message::LeaderClaim(claim) => state.claim = Some(*claim),
                        answer @ (Message::Challenge { .. } | Message::Welcome { .. } | Message::Page { .. }) => {
                            state.answers.push(answer);
                        }
                        _ => {}
                    }
                }
            }
            for answer in answers {
                self.says(from, &[Message::Reply, answer]);
            }
        }
    }

    /// Asks again and again until there is an answer of this kind.
    fn ask<T>(&self, to: SocketAddr, question: &[Message], answer: impl Fn(&Message) -> Option<T>) -> T {
        let deadline = Instant::now() + PATIENCE;
        loop {
            self.says(to, question);
            for _ in 0..20 {
                std::thread::sleep(Duration::from_millis(10));
                if let Some(found) = self.state.lock().expect("not poisoned").answers.iter().find_map(&answer) {
                    return found;
                }
            }
            assert!(Instant::now() < deadline, "no answer to {question:?}");
        }
    }

    fn join(&self, sponsor: SocketAddr) {
        let (asked, record) = (Nonce(drawn()), self.state.lock().expect("not poisoned").record.clone());
        let question = |cookie| [Message::Join { nonce: asked, record: record.clone(), cookie }];
        let cookie = self.ask(sponsor, &question(None), |answer| match answer {
            Message::Challenge { nonce, cookie } if *nonce == asked => Some(*cookie),
            _ => None,
        });
        self.ask(sponsor, &question(Some(cookie)), |answer| match answer {
            Message::Welcome { nonce, sponsor, .. } if *nonce == asked => Some(sponsor.run),
            _ => None,
        });
        self.ask(sponsor, &[Message::Pull { after: None, pages: 8 }], |answer| match answer {
            Message::Page { more, .. } => (!more).then_some(()),
            _ => None,
        });
        self.state.lock().expect("not poisoned").record.status = Status::Up;
    }

    /// Sends heartbeats to all that it hears.
    fn beat(&self) {
        while !self.is_over.load(Ordering::Relaxed) {
            let (record, all) = {
                let state = self.state.lock().expect("not poisoned");
                (state.record.clone(), state.runs.keys().copied().collect::<Vec<_>>())
            };
            let heartbeat = Message::Heartbeat(Heartbeat { stamp: drawn() as u16, echo: None });
            for to in all {
                self.says(to, &[heartbeat.clone(), Message::Update(Update { note: None, record: record.clone() })]);
            }
            std::thread::sleep(Duration::from_millis(100));
        }
    }
}
