//! An adversary: a process that is no member, knows everything, and sends anything that may do harm.
//!
//! It has addresses on hosts of its own, and on other ports of an honest node's host. It knows every run, view,
//! incarnation and term, and builds well-formed packets with the builder of the core; but it sends from its own
//! addresses alone, and receives only packets that are sent there. That is the power of anybody who can merely reach
//! the port.
//!
//! One [`Attack`] is one kind of attack, so that a failing one has a name. Whatever the attack, no promise about honest
//! nodes may break.
//!
//! Invariants: its actions depend on its seed and the scene alone; it never sends from an honest node's address. Must
//! not know: the core's defences.
//!
//! | idea | file |
//! |---|---|
//! | members that do not exist | `crowd` |
//! | packets that claim to come from a member | `lies` |

mod crowd;
mod lies;

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use super::random::{Purpose, Random};
use crate::core::election::ElectionMessage;
use crate::core::wire::{Header, LeaderClaim, LeaderRenewal, Message, Nonce, Packet, PacketBuilder};
use crate::core::{Record, Run};
use crowd::Invented;

/// One kind of attack.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Attack {
    /// Messages under stolen runs: "You have left", "You are Down".
    Told,
    /// Records under stolen runs: members are Suspect, Down or Left at their present incarnation.
    Accusations,
    /// Records under stolen runs: members have incarnations close to the limit.
    GiantIncarnations,
    /// Packets under stolen runs with sequence numbers far ahead, so that the true ones look replayed.
    Windows,
    /// Records under stolen runs: members were removed by an operator.
    Removals,
    /// A second owner of an honest name, at an address that answers.
    SecondOwner,
    /// Election messages under stolen runs: terms and leaders that were not elected, pulses, voters' words.
    Terms,
    /// Heartbeats under the runs of dead members, and claims under stolen runs that dead members live.
    DeadSpeak,
    /// Answers under stolen runs to questions that were not asked: pages of views, welcomes, and others.
    Answers,
    /// Messages under stolen runs: ports refuse connections, links are broken.
    Severed,
    /// Hundreds of newcomers that answer until they are let in and never again.
    Crowd,
    /// One newcomer that behaves well, and spreads news of hundreds of members that do not exist.
    Gossip,
    /// Newcomers and members with a victim's address.
    Reflection,
    /// A few newcomers that keep asking for the view and never fetch it.
    Places,
    /// Dozens of questions in one packet.
    ManyJoins,
    /// Hundreds of questions a second.
    Questions,
    /// Packets under the receiver's own run.
    MetMyself,
    /// A newcomer that behaves well towards members, and lies to joiners that are referred to it.
    JoinerLies,
    /// Links whose frames are under stolen runs.
    Frames,
    /// A newcomer that behaves well, and tells members that were there before it that others leave and that the dead
    /// live.
    Goodbyes,
}

impl Attack {
    /// All attacks.
    pub const ALL: [Attack; 20] = [
        Attack::Told,
        Attack::Accusations,
        Attack::GiantIncarnations,
        Attack::Windows,
        Attack::Removals,
        Attack::SecondOwner,
        Attack::Terms,
        Attack::DeadSpeak,
        Attack::Answers,
        Attack::Severed,
        Attack::Crowd,
        Attack::Gossip,
        Attack::Reflection,
        Attack::Places,
        Attack::ManyJoins,
        Attack::Questions,
        Attack::MetMyself,
        Attack::JoinerLies,
        Attack::Frames,
        Attack::Goodbyes,
    ];
}

/// Time between two turns.
pub(crate) const PACE: Duration = Duration::from_millis(20);
/// The largest number of members that it invents at one time.
pub const MOST_INVENTED: usize = 300;
/// The largest datagram that it sends, in bytes.
const MTU: usize = 1_400;
/// The port on each of its hosts where it answers; from other ports it only sends.
const PORT: u16 = 7_117;
/// Number of its hosts.
const HOSTS: u8 = 4;
/// The host whose addresses never echo anything.
const MUTE_HOST: u8 = 4;
/// The first port on an honest node's host that belongs to the adversary.
const BORROWED_PORT: u16 = 20_000;

/// An honest node as the adversary sees it.
#[derive(Debug, Clone)]
pub(crate) struct Honest {
    pub(crate) me: Arc<Record>,
    pub(crate) fingerprint: u64,
    pub(crate) is_up: bool,
}

/// Everything that the adversary sees.
#[derive(Debug, Clone, Default)]
pub(crate) struct Scene {
    pub(crate) cluster: u32,
    pub(crate) honest: Vec<Honest>,
    /// Records of processes that died a while ago.
    pub(crate) dead: Vec<Arc<Record>>,
}

/// One action of the adversary.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Action {
    Send {
        from: SocketAddr,
        to: SocketAddr,
        bytes: Vec<u8>,
    },
    /// Sends a frame over the link from one of its addresses to an honest one; the link is opened if there is none.
    Frame {
        from: SocketAddr,
        to: SocketAddr,
        bytes: Vec<u8>,
    },
}

/// Counts of what an adversary did and received.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct AdversaryCounts {
    /// Datagrams that it sent.
    pub packets: u64,
    /// Bytes of those datagrams, headers included.
    pub bytes: u64,
    /// Frames that it sent over links.
    pub frames: u64,
    /// Datagrams and frames from it that an honest process took in.
    pub delivered: u64,
    /// Datagrams and frames that reached it.
    pub answers: u64,
    /// Newcomers of its own that were let in.
    pub admitted: u64,
}

impl std::ops::AddAssign for AdversaryCounts {
    fn add_assign(&mut self, other: Self) {
        self.packets += other.packets;
        self.bytes += other.bytes;
        self.frames += other.frames;
        self.delivered += other.delivered;
        self.answers += other.answers;
        self.admitted += other.admitted;
    }
}

/// The adversary.
#[derive(Debug)]
pub(crate) struct Adversary {
    attack: Attack,
    random: Random,
    ipv6: bool,
    /// Number of members that it invents at one time.
    crowd: usize,
    /// Number of turns so far.
    acts: u64,
    /// The highest sequence number heard of, or used, under each run.
    sequences: BTreeMap<Run, u64>,
    invented: Vec<Invented>,
    by_address: BTreeMap<SocketAddr, usize>,
    /// The last messages of voters and leaders that it overheard.
    led: Option<LeaderClaim>,
    renewal: Option<LeaderRenewal>,
    words: Vec<ElectionMessage>,
    admitted: BTreeSet<Run>,
    /// Members that were Up when its one newcomer was let in.
    met: BTreeSet<Run>,
    pub(crate) counts: AdversaryCounts,
}

impl Adversary {
    pub(crate) fn new(seed: u64, attack: Attack, crowd: usize, ipv6: bool) -> Self {
        Self {
            attack,
            random: Random::new(seed, Purpose::Adversary),
            ipv6,
            crowd: crowd.min(MOST_INVENTED),
            acts: 0,
            sequences: BTreeMap::new(),
            invented: Vec::new(),
            by_address: BTreeMap::new(),
            led: None,
            renewal: None,
            words: Vec::new(),
            admitted: BTreeSet::new(),
            met: BTreeSet::new(),
            counts: AdversaryCounts::default(),
        }
    }

    pub(crate) fn attack(&self) -> Attack {
        self.attack
    }

    /// Returns the adversary's address with this port on one of its hosts, counted from 1.
    fn own(&self, host: u8, port: u16) -> SocketAddr {
        let ip: IpAddr = if self.ipv6 {
            Ipv6Addr::new(0x2001, 0xdb8, 0xbad, 0, 0, 0, 0, host.into()).into()
        } else {
            Ipv4Addr::new(203, 0, 113, host).into()
        };
        SocketAddr::new(ip, port)
    }

    /// Draws a source address: one of its own, some of them on an honest node's host.
    fn somewhere(&mut self, scene: &Scene) -> SocketAddr {
        let borrowed = self.random.chance(0.3).then(|| scene.honest.first()).flatten();
        if let Some(honest) = borrowed {
            let port = BORROWED_PORT + self.random.below(100) as u16;
            return SocketAddr::new(honest.me.address.ip(), port);
        }
        let host = self.random.between(1, u64::from(HOSTS)) as u8;
        self.own(host, PORT)
    }

    /// Returns true if an address belongs to the adversary.
    pub(crate) fn owns(&self, address: SocketAddr) -> bool {
        let is_its_host = (1..=HOSTS).any(|host| self.own(host, PORT).ip() == address.ip());
        is_its_host || address.port() >= BORROWED_PORT
    }

    /// Returns true if the adversary never echoes anything from this address.
    pub(crate) fn is_mute(&self, address: SocketAddr) -> bool {
        address.ip() == self.own(MUTE_HOST, PORT).ip()
    }

    /// Takes note of a packet between honest nodes: the adversary knows all of them.
    pub(crate) fn overhear(&mut self, bytes: &[u8]) {
        let Ok(packet) = Packet::decode(bytes) else { return };
        let highest = self.sequences.entry(packet.header.run).or_default();
        *highest = packet.header.sequence.max(*highest);
        for message in packet.messages {
            match message {
                Message::LeaderClaim(led) => self.led = Some(*led),
                Message::LeaderRenewal(renewal) => self.renewal = Some(renewal),
                Message::Election(word) => {
                    self.words.retain(|known| known.from != word.from);
                    self.words.push(*word);
                }
                _ => {}
            }
        }
    }

    /// Takes a turn; returns the deeds.
    pub(crate) fn act(&mut self, scene: &Scene) -> Vec<Action> {
        self.acts += 1;
        if scene.honest.is_empty() {
            return Vec::new();
        }
        match self.attack {
            Attack::Crowd
            | Attack::Gossip
            | Attack::Reflection
            | Attack::Places
            | Attack::JoinerLies
            | Attack::Goodbyes => self.pretend(scene),
            Attack::SecondOwner => {
                let mut actions = self.pretend(scene);
                actions.extend(self.lie(scene));
                actions
            }
            _ => self.lie(scene),
        }
    }

    /// Builds a packet under this run. Its sequence number is the one after the highest heard of or used under the run.
    fn packet(&mut self, scene: &Scene, run: Run, messages: &[Message], pad: usize) -> Vec<u8> {
        let sequence = self.sequences.entry(run).or_default();
        *sequence += 1;
        let sequence = *sequence;
        self.packet_numbered(scene, run, sequence, messages, pad)
    }

    #[expect(clippy::unused_self, reason = "one way to make packets")]
    fn packet_numbered(&self, scene: &Scene, run: Run, sequence: u64, messages: &[Message], pad: usize) -> Vec<u8> {
        let fingerprint = scene.honest.iter().find(|honest| honest.is_up).map_or(0, |honest| honest.fingerprint);
        let header = Header { cluster: scene.cluster, run, sequence, fingerprint };
        let mut packet = PacketBuilder::new(&header, MTU);
        for message in messages {
            packet.push(message);
        }
        packet.pad_to(pad);
        packet.finish()
    }

    fn nonce(&mut self) -> Nonce {
        Nonce(self.random.bits())
    }

    fn one_of(&mut self, scene: &Scene) -> Honest {
        scene.honest[self.random.index(scene.honest.len())].clone()
    }

    /// Counts a deed.
    pub(crate) fn did(&mut self, action: &Action, header_bytes: u64) {
        match action {
            Action::Send { bytes, .. } => {
                self.counts.packets += 1;
                self.counts.bytes += bytes.len() as u64 + header_bytes;
            }
            Action::Frame { .. } => self.counts.frames += 1,
        }
    }
}
