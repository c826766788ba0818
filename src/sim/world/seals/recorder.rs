//! The recorder: it hears everything, keeps it, and plays it again at any time, to anybody, from anywhere.
//!
//! It is to be sent no more bytes than were opened of what it played from its own address.

use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

use super::{Edge, key_of};
use crate::random::{Purpose, Random};
use crate::watch::SealEvent;
use crate::world::life::CLUSTER;
use crate::world::{Event, Waiting, World};
use headcount_core::Run;
use headcount_core::limits::MIN_QUESTION_BYTES;
use headcount_core::wire::{Header, Message, Nonce, PacketBuilder};
use headcount_seal::{DatagramSealer, Key};

/// Time between two turns of the recorder.
const PACE: Duration = Duration::from_millis(20);
/// Datagrams that it plays in one turn.
const PLAYED: usize = 4;
/// The most bytes of a packet.
const MAX_BYTES: usize = 1_000;
/// Latency of what it plays.
const UNDER_WAY: Duration = Duration::from_micros(300);

/// An attacker who hears everything, and plays it again.
#[derive(Debug)]
pub(super) struct Recorder {
    random: Random,
    key: Option<Key>,
    datagrams: Vec<(usize, usize, Vec<u8>)>,
    frames: Vec<(usize, usize, Vec<u8>)>,
    /// Clear packets, which it knows by other means: it says them as they are, and sealed with its key.
    contents: Vec<(usize, Vec<u8>)>,
}

impl Recorder {
    /// Keeps a datagram, and the packet in it.
    pub(super) fn overhear(&mut self, node: usize, to: usize, sealed: &[u8], packet: &[u8]) {
        self.datagrams.push((node, to, sealed.to_vec()));
        self.contents.push((node, packet.to_vec()));
    }
}

/// The recorder's own address.
pub fn elsewhere() -> SocketAddr {
    SocketAddr::from((Ipv4Addr::new(192, 0, 2, 66), 66))
}

/// The address from which it says what it knows in the clear: nothing sealed ever comes from there.
pub fn unsealed() -> SocketAddr {
    SocketAddr::from((Ipv4Addr::new(192, 0, 2, 66), 67))
}

/// Returns the question that everybody answers who can read it, in the clear.
fn question(random: &mut Random) -> Vec<u8> {
    let (run, cluster) = (Run(random.bits()), Header::cluster_hash(CLUSTER));
    let mut packet = PacketBuilder::new(&Header { cluster, run, sequence: 1, fingerprint: 0 }, MAX_BYTES);
    packet.push(&Message::WhoAreYou { nonce: Nonce(random.bits()), echo: None });
    packet.pad_to(MIN_QUESTION_BYTES);
    packet.finish()
}

impl World {
    /// Lets a recorder in, perhaps with the key of this number.
    pub fn start_recorder(&mut self, key: Option<u8>) {
        let Some(seals) = &mut self.seals else { return };
        let random = Random::new(self.options.seed, Purpose::Recorder);
        let (datagrams, frames, contents) = match seals.recorder.take() {
            Some(before) => (before.datagrams, before.frames, before.contents),
            None => Default::default(),
        };
        seals.recorder = Some(Recorder { random, key: key.map(key_of), datagrams, frames, contents });
        seals.visit += 1;
        let visit = seals.visit;
        self.push_after(PACE, Event::Recorder { visit });
    }

    /// Plays a node a datagram of each of these runs of long ago, sealed with the first key: the recorder kept those, too.
    ///
    /// # Panics
    /// Never: what is sealed is a packet.
    pub fn play_of_old_runs(&mut self, node: usize, runs: std::ops::Range<u64>) {
        for run in runs.map(Run) {
            let header = Header { cluster: Header::cluster_hash(CLUSTER), run, sequence: 1, fingerprint: 0 };
            let packet = PacketBuilder::new(&header, MAX_BYTES).finish();
            let sealed = DatagramSealer::new(run, CLUSTER).seal(&key_of(1), None, &packet).expect("a packet");
            self.push_after(UNDER_WAY, Event::Packet { from: elsewhere(), to: node, bytes: sealed, delayed: false });
        }
    }

    /// Has a node leave out so many numbers, as if it had sealed as many datagrams for others.
    ///
    /// # Panics
    /// Never: what is sealed is a packet.
    pub fn skip_numbers(&mut self, node: usize, numbers: u64) {
        let edge = self.seals.as_mut().and_then(|seals| seals.nodes.get_mut(node)?.edge.as_mut());
        let Some(Edge { run, sealer, .. }) = edge else { return };
        let header = Header { cluster: Header::cluster_hash(CLUSTER), run: *run, sequence: numbers, fingerprint: 0 };
        let packet = PacketBuilder::new(&header, MAX_BYTES).finish();
        sealer.seal(&key_of(1), None, &packet).expect("a packet");
    }

    /// Sends the recorder away.
    pub fn stop_recorder(&mut self) {
        if let Some(seals) = &mut self.seals {
            seals.visit += 1;
        }
    }

    /// Tells of bytes that go to where no node is, where the recorder plays from, say.
    pub(crate) fn goes_outside(&mut self, to: SocketAddr, bytes: usize) {
        let bytes = bytes as u64 + self.network.header_bytes();
        self.tell(|watch, world| watch.on_seal(world, SealEvent::SentOutside { to, bytes }));
    }

    /// Shows the recorder a frame.
    pub(crate) fn let_it_record(&mut self, node: usize, to: usize, frame: &[u8]) {
        if let Some(recorder) = self.seals.as_mut().and_then(|seals| seals.recorder.as_mut()) {
            recorder.frames.push((node, to, frame.to_vec()));
        }
    }

    /// Gives the recorder its turn.
    pub(crate) fn let_it_play(&mut self, visit: u64) {
        let nodes = self.nodes.len();
        let Some(seals) = self.seals.as_mut().filter(|seals| seals.visit == visit) else { return };
        let Some(recorder) = &mut seals.recorder else { return };
        let Recorder { random, key, datagrams, frames, contents } = recorder;
        let mut played = Vec::new();
        for _ in 0..PLAYED.min(datagrams.len()) {
            let (sender, meant, bytes) = datagrams[random.index(datagrams.len())].clone();
            let to = if random.chance(0.5) { meant } else { random.index(nodes) };
            played.push((random.chance(0.5).then_some(sender), to, bytes));
        }
        let mut clear = None;
        let said = (!contents.is_empty()).then(|| contents[random.index(contents.len())].clone());
        if let Some((sender, packet)) = said.clone() {
            let to = random.index(nodes);
            let (from, bytes) = match random.below(3) {
                0 => (self.nodes[sender].address, packet),
                1 => (unsealed(), packet),
                _ => (unsealed(), question(random)),
            };
            clear = Some(Event::Packet { from, to, bytes, delayed: false });
        }
        if let (Some(key), Some((sender, packet))) = (key, &said) {
            // Under the run that the packet bears: whoever has a key can say any.
            let run = packet
                .get(8..16)
                .and_then(|run| run.try_into().ok())
                .map_or(Run(0), |run| Run(u64::from_le_bytes(run)));
            if let Some(forged) = DatagramSealer::new(run, CLUSTER).seal(key, None, packet) {
                played.push((random.chance(0.5).then_some(*sender), random.index(nodes), forged));
            }
        }
        let frame = (!frames.is_empty()).then(|| {
            let (sender, meant, kept) = frames[random.index(frames.len())].clone();
            let bytes = said.filter(|_| random.chance(0.2)).map_or(kept, |(_, packet)| packet);
            (random.chance(0.5).then_some(sender), if random.chance(0.5) { meant } else { random.index(nodes) }, bytes)
        });
        seals.counts.played += played.len() as u64 + u64::from(frame.is_some());
        if let Some(clear) = clear {
            self.push_after(UNDER_WAY, clear);
        }
        for (sender, to, bytes) in played {
            let from = sender.map_or_else(elsewhere, |sender| self.nodes[sender].address);
            self.push_after(UNDER_WAY, Event::Packet { from, to, bytes, delayed: false });
        }
        if let Some((sender, to, bytes)) = frame {
            let from = sender.map_or_else(elsewhere, |sender| self.nodes[sender].address);
            let link = self.streams.name_of_accepted();
            self.offer(to, Waiting::Frame { link, from, bytes });
        }
        self.push_after(PACE, Event::Recorder { visit });
    }
}
