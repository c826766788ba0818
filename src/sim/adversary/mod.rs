//! An adversary: a process that is no member, knows everything, and says whatever may do harm.
//!
//! It has addresses of its own, on hosts of its own and on other ports of an honest node's host. It knows every run, view,
//! incarnation and term, and builds well-formed packets with the builder of the core; but it sends from its own addresses
//! alone, and hears only what is sent there. That is what whoever merely reaches the port can do.
//!
//! One [`Mood`] is one kind of attack, so that a failing one has a name. Whatever the mood, nothing that is promised about
//! honest nodes may break.
//!
//! Invariants: what it does depends on its seed and on what it is shown alone; it never sends from an honest node's
//! address. Must not know: what the core defends itself by.

mod crowd;
mod lies;

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use super::random::{Purpose, Random};
use crate::core::election::Word;
use crate::core::wire::{Header, Led, Message, Nonce, Packet, PacketBuilder, Pulse};
use crate::core::{Record, Run};
use crowd::Invented;

/// One kind of attack.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Mood {
    /// Under stolen runs: "You have left", "you are Down".
    Told,
    /// Under stolen runs: members are Suspect, Down or Left at their present incarnation.
    Accusations,
    /// Under stolen runs: members at incarnations close to the limit.
    GiantIncarnations,
    /// Under stolen runs: sequence numbers far ahead, so that the true ones look replayed.
    Windows,
    /// Under stolen runs: members were removed by an operator.
    Removals,
    /// A second owner of an honest name, at an address that answers.
    SecondOwner,
    /// Under stolen runs: terms and leaders nobody elected, pulses, words of voters.
    Terms,
    /// Under the runs of the dead: heartbeats, and words of others that they live.
    DeadSpeak,
    /// Under stolen runs: pages of views, welcomes, and other answers nobody asked for.
    Answers,
    /// Under stolen runs: ports refuse, links are broken.
    Severed,
    /// Hundreds of newcomers that answer until they are let in and never again.
    Crowd,
    /// One newcomer that behaves, and tells of hundreds of members that do not exist.
    Gossip,
    /// Newcomers and members whose address is a victim's.
    Reflection,
    /// A few newcomers that ask for the view all the time and never take it.
    Places,
    /// Dozens of questions in one packet.
    ManyJoins,
    /// Hundreds of questions a second.
    Questions,
    /// Packets under the receiver's own run.
    MetMyself,
    /// A newcomer that behaves to members, and lies to joiners that are sent to it.
    JoinerLies,
    /// Links whose frames are under stolen runs.
    Frames,
    /// A newcomer that behaves, and says to those who were there before it that others leave, and that the dead live.
    Goodbyes,
}

impl Mood {
    /// All of them.
    pub const ALL: [Mood; 20] = [
        Mood::Told,
        Mood::Accusations,
        Mood::GiantIncarnations,
        Mood::Windows,
        Mood::Removals,
        Mood::SecondOwner,
        Mood::Terms,
        Mood::DeadSpeak,
        Mood::Answers,
        Mood::Severed,
        Mood::Crowd,
        Mood::Gossip,
        Mood::Reflection,
        Mood::Places,
        Mood::ManyJoins,
        Mood::Questions,
        Mood::MetMyself,
        Mood::JoinerLies,
        Mood::Frames,
        Mood::Goodbyes,
    ];
}

/// How often it acts.
pub(crate) const PACE: Duration = Duration::from_millis(20);
/// Members that it invents at one time, at most.
pub const MOST_INVENTED: usize = 300;
/// The largest datagram that it sends.
const MTU: usize = 1_400;
/// The port of its hosts where it answers; others it only sends from.
const PORT: u16 = 7_117;
/// Its hosts.
const HOSTS: u8 = 4;
/// The host whose addresses never echo anything.
const MUTE_HOST: u8 = 4;
/// The first port on an honest node's host that it has.
const BORROWED_PORT: u16 = 20_000;

/// A honest node as the adversary sees it.
#[derive(Debug, Clone)]
pub(crate) struct Honest {
    pub(crate) me: Arc<Record>,
    pub(crate) fingerprint: u64,
    pub(crate) is_up: bool,
}

/// All that there is to see.
#[derive(Debug, Clone, Default)]
pub(crate) struct Scene {
    pub(crate) cluster: u32,
    pub(crate) honest: Vec<Honest>,
    /// Records of processes that died a while ago.
    pub(crate) dead: Vec<Arc<Record>>,
}

/// What it does.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Deed {
    Send {
        from: SocketAddr,
        to: SocketAddr,
        bytes: Vec<u8>,
    },
    /// A frame over the link from this address of its own to that honest one, which is opened if there is none.
    Frame {
        from: SocketAddr,
        to: SocketAddr,
        bytes: Vec<u8>,
    },
}

/// What it did so far.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Mischief {
    /// Datagrams that it sent.
    pub packets: u64,
    /// Their bytes, headers included.
    pub bytes: u64,
    /// Frames over links.
    pub frames: u64,
    /// Datagrams and frames of these that an honest process took in.
    pub delivered: u64,
    /// Datagrams and frames that reached it.
    pub answers: u64,
    /// Newcomers of its own that were let in.
    pub admitted: u64,
}

impl std::ops::AddAssign for Mischief {
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
    mood: Mood,
    random: Random,
    ipv6: bool,
    /// Members that it invents at one time.
    crowd: usize,
    /// Acts so far.
    acts: u64,
    /// The highest sequence number heard of, or used under, each run.
    sequences: BTreeMap<Run, u64>,
    invented: Vec<Invented>,
    by_address: BTreeMap<SocketAddr, usize>,
    /// What voters and leaders said last.
    led: Option<Led>,
    pulse: Option<Pulse>,
    words: Vec<Word>,
    admitted: BTreeSet<Run>,
    /// Those who were Up when its one newcomer came.
    met: BTreeSet<Run>,
    pub(crate) mischief: Mischief,
}

impl Adversary {
    pub(crate) fn new(seed: u64, mood: Mood, crowd: usize, ipv6: bool) -> Self {
        Self {
            mood,
            random: Random::new(seed, Purpose::Adversary),
            ipv6,
            crowd: crowd.min(MOST_INVENTED),
            acts: 0,
            sequences: BTreeMap::new(),
            invented: Vec::new(),
            by_address: BTreeMap::new(),
            led: None,
            pulse: None,
            words: Vec::new(),
            admitted: BTreeSet::new(),
            met: BTreeSet::new(),
            mischief: Mischief::default(),
        }
    }

    pub(crate) fn mood(&self) -> Mood {
        self.mood
    }

    /// An address of its own: the so many'th of a host.
    fn own(&self, host: u8, port: u16) -> SocketAddr {
        let ip: IpAddr = if self.ipv6 {
            Ipv6Addr::new(0x2001, 0xdb8, 0xbad, 0, 0, 0, 0, host.into()).into()
        } else {
            Ipv4Addr::new(203, 0, 113, host).into()
        };
        SocketAddr::new(ip, port)
    }

    /// Where it speaks from: any of its addresses, some on an honest node's host.
    fn somewhere(&mut self, scene: &Scene) -> SocketAddr {
        let borrowed = self.random.chance(0.3).then(|| scene.honest.first()).flatten();
        if let Some(honest) = borrowed {
            let port = BORROWED_PORT + self.random.below(100) as u16;
            return SocketAddr::new(honest.me.address.ip(), port);
        }
        let host = self.random.between(1, u64::from(HOSTS)) as u8;
        self.own(host, PORT)
    }

    /// Whether an address is one of its own.
    pub(crate) fn owns(&self, address: SocketAddr) -> bool {
        let is_its_host = (1..=HOSTS).any(|host| self.own(host, PORT).ip() == address.ip());
        is_its_host || address.port() >= BORROWED_PORT
    }

    /// Whether it never echoes anything from there.
    pub(crate) fn is_mute(&self, address: SocketAddr) -> bool {
        address.ip() == self.own(MUTE_HOST, PORT).ip()
    }

    /// A packet between honest nodes: it knows them all.
    pub(crate) fn overhear(&mut self, bytes: &[u8]) {
        let Ok(packet) = Packet::decode(bytes) else { return };
        let highest = self.sequences.entry(packet.header.run).or_default();
        *highest = packet.header.sequence.max(*highest);
        for message in packet.messages {
            match message {
                Message::Led(led) => self.led = Some(*led),
                Message::Pulse(pulse) => self.pulse = Some(pulse),
                Message::Election(word) => {
                    self.words.retain(|known| known.from != word.from);
                    self.words.push(*word);
                }
                _ => {}
            }
        }
    }

    /// It is its turn.
    pub(crate) fn act(&mut self, scene: &Scene) -> Vec<Deed> {
        self.acts += 1;
        if scene.honest.is_empty() {
            return Vec::new();
        }
        match self.mood {
            Mood::Crowd | Mood::Gossip | Mood::Reflection | Mood::Places | Mood::JoinerLies | Mood::Goodbyes => {
                self.pretend(scene)
            }
            Mood::SecondOwner => {
                let mut deeds = self.pretend(scene);
                deeds.extend(self.lie(scene));
                deeds
            }
            _ => self.lie(scene),
        }
    }

    /// A packet of this run, to that address. Runs count on from what was heard of them.
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

    /// Counts what it does.
    pub(crate) fn did(&mut self, deed: &Deed, header_bytes: u64) {
        match deed {
            Deed::Send { bytes, .. } => {
                self.mischief.packets += 1;
                self.mischief.bytes += bytes.len() as u64 + header_bytes;
            }
            Deed::Frame { .. } => self.mischief.frames += 1,
        }
    }
}
