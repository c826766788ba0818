//! Sealed worlds: every node seals what it sends and opens what it receives, with the code and the rules of the agent; and a
//! recorder plays again what it overhears.
//!
//! A node's key file outlives its processes, like its disk; operators change it node by node. The recorder hears all
//! datagrams and frames, and plays them again at any time, to the node that they were meant for or to another one, from an
//! address of its own or with the sender's. It may hold a key, with which it seals forgeries.
//!
//! Invariant: worlds that are not sealed are what they always were. Must not know: the meaning of packets.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

use super::misdirecting::Misdirecting;
use super::{Event, Waiting, World};
use crate::core::wire::Header;
use crate::core::{Input, LinkEvent, LinkId, Receiver, Run};
use crate::seal::{
    DatagramSealer, Key, KeyId, KeyRing, LinkSealer, LinkStep, MAX_OVERHEAD, MIN_OVERHEAD, Opened, SealError, SealMode,
};
use crate::sim::invariants::Invariant;
use crate::sim::random::{Purpose, Random};

/// Time between two turns of the recorder.
const PACE: Duration = Duration::from_millis(20);
/// Datagrams that it plays in one turn.
const PLAYED: usize = 4;
/// Datagrams, and frames, that it keeps.
const KEPT: usize = 2_000;
/// Latency of what it plays.
const UNDER_WAY: Duration = Duration::from_micros(300);

/// A rule that is left out, so that tests show that it is needed and noticed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum SealFlaw {
    /// The numbers of datagrams begin anew with each packet, so that they follow from the core's.
    ReusedNonce,
    /// Numbers that were opened are remembered by the address that they came from.
    WindowPerAddress,
    /// Clear packets are taken.
    AnswersUnsealed,
    /// A restarted node has the keys of its first start.
    ForgetsKeys,
    /// A removed key is still accepted.
    KeepsRemovedKeys,
    /// Nothing is bound to its receiver, and what is not bound is believed all the same.
    Unbound,
}

impl SealFlaw {
    /// All flaws.
    pub const ALL: [SealFlaw; 6] = [
        SealFlaw::ReusedNonce,
        SealFlaw::WindowPerAddress,
        SealFlaw::AnswersUnsealed,
        SealFlaw::ForgetsKeys,
        SealFlaw::KeepsRemovedKeys,
        SealFlaw::Unbound,
    ];
}

/// The numbers of packets that were sealed, played and refused in a world.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct SealCounts {
    /// Datagrams sealed.
    pub sealed: u64,
    /// Frames sealed.
    pub frames: u64,
    /// Datagrams and frames that the recorder played.
    pub played: u64,
    /// Datagrams and frames refused, by reason.
    pub refused: [u64; SealError::COUNT],
}

/// All seals of a world.
#[derive(Debug)]
pub(super) struct Seals {
    nodes: Vec<Place>,
    /// Nonces of datagrams: key, run, number.
    nonces: BTreeSet<(KeyId, Run, u64)>,
    flaw: Option<SealFlaw>,
    pub(super) counts: SealCounts,
    recorder: Option<Recorder>,
    pub(super) misdirecting: Option<Misdirecting>,
    visit: u64,
    /// Bytes of recordings from elsewhere that were opened, and of what was sent there.
    opened_from_elsewhere: u64,
    sent_elsewhere: u64,
}

/// A node's keys, and the seals of its process.
#[derive(Debug)]
struct Place {
    /// The key file.
    ring: KeyRing,
    first: KeyRing,
    removed: BTreeSet<KeyId>,
    edge: Option<Edge>,
}

/// The seals of one process.
#[derive(Debug)]
struct Edge {
    process: u64,
    run: Run,
    sealer: DatagramSealer,
    /// One for each address, as a planted bug has it.
    by_address: BTreeMap<SocketAddr, DatagramSealer>,
    /// Hashes of datagrams that were opened.
    opened: BTreeSet<u64>,
    links: BTreeMap<LinkId, Link>,
    connections: u64,
}

#[derive(Debug)]
struct Link {
    sealer: LinkSealer,
    /// Frames that wait for the other end's greeting.
    waiting: Vec<Vec<u8>>,
    is_known: bool,
}

/// Somebody who hears everything, and plays it again.
#[derive(Debug)]
struct Recorder {
    random: Random,
    key: Option<Key>,
    datagrams: Vec<(usize, usize, Vec<u8>)>,
    frames: Vec<(usize, usize, Vec<u8>)>,
    /// Clear packets, which it knows by other means, to be forged with its key.
    contents: Vec<(usize, Vec<u8>)>,
}

fn keep<T>(kept: &mut Vec<T>, random: &mut Random, one: T) {
    if kept.len() < KEPT {
        kept.push(one);
    } else {
        let place = random.index(KEPT);
        kept[place] = one;
    }
}

/// Returns the key of this number, the same in every world.
///
/// # Panics
/// Never: its bytes differ.
pub fn key_of(number: u8) -> Key {
    let bytes = std::array::from_fn(|place| number ^ (place as u8).wrapping_mul(7));
    Key::from_bytes(&bytes).expect("its bytes differ")
}

/// The recorder's own address.
fn elsewhere() -> SocketAddr {
    SocketAddr::from((Ipv4Addr::new(192, 0, 2, 66), 66))
}

impl Seals {
    /// Returns the keys of a node.
    pub(super) fn ring(&self, node: usize) -> Option<&KeyRing> {
        self.nodes.get(node).map(|place| &place.ring)
    }

    pub(super) fn new() -> Self {
        Self {
            nodes: Vec::new(),
            nonces: BTreeSet::new(),
            flaw: None,
            counts: SealCounts::default(),
            recorder: None,
            misdirecting: None,
            visit: 0,
            opened_from_elsewhere: 0,
            sent_elsewhere: 0,
        }
    }

    fn edge(&mut self, node: usize, process: u64) -> Option<&mut Edge> {
        self.nodes.get_mut(node)?.edge.as_mut().filter(|edge| edge.process == process)
    }
}

/// The outcome of opening a frame.
enum Taken {
    Packet(Vec<u8>),
    /// The other end greeted: send these.
    Send(Vec<Vec<u8>>),
    Refused {
        is_known: bool,
    },
}

impl World {
    /// Leaves a rule out.
    pub fn plant_in_seals(&mut self, flaw: SealFlaw) {
        if let Some(seals) = &mut self.seals {
            seals.flaw = Some(flaw);
        }
    }

    /// Returns what was sealed, played and refused so far.
    pub fn seal_counts(&self) -> SealCounts {
        self.seals.as_ref().map(|seals| seals.counts).unwrap_or_default()
    }

    /// Returns the ids of a node's keys; the first one seals.
    pub fn keys(&self, node: usize) -> Vec<KeyId> {
        self.seals.as_ref().and_then(|seals| seals.nodes.get(node)).map(|place| place.ring.ids()).unwrap_or_default()
    }

    /// Has a node accept the key of this number, as its operator or another member says.
    pub fn add_key(&mut self, node: usize, number: u8) {
        self.change_ring(node, |place| {
            place.removed.remove(&key_of(number).id());
            place.ring.add(key_of(number)).is_ok()
        });
    }

    /// Has a node seal with a key that it holds.
    pub fn use_key(&mut self, node: usize, number: u8) {
        self.change_ring(node, |place| place.ring.use_key(key_of(number).id()).is_ok());
    }

    /// Has a node accept a key no more.
    pub fn remove_key(&mut self, node: usize, number: u8) {
        let keeps = self.seals.as_ref().is_some_and(|seals| seals.flaw == Some(SealFlaw::KeepsRemovedKeys));
        self.change_ring(node, |place| {
            place.removed.insert(key_of(number).id());
            keeps || place.ring.remove(key_of(number).id()).is_ok()
        });
    }

    fn change_ring(&mut self, node: usize, change: impl FnOnce(&mut Place) -> bool) {
        if let Some(place) = self.seals.as_mut().and_then(|seals| seals.nodes.get_mut(node)) {
            let is_done = change(place);
            debug_assert!(is_done, "a step that an operator would be refused");
        }
    }

    /// Lets a recorder in, perhaps with the key of this number.
    pub fn start_recorder(&mut self, key: Option<u8>) {
        let Some(seals) = &mut self.seals else { return };
        let random = Random::new(self.options.seed, Purpose::Adversary);
        let (datagrams, frames, contents) = match seals.recorder.take() {
            Some(before) => (before.datagrams, before.frames, before.contents),
            None => Default::default(),
        };
        seals.recorder = Some(Recorder { random, key: key.map(key_of), datagrams, frames, contents });
        seals.visit += 1;
        let visit = seals.visit;
        self.push_after(PACE, Event::Recorder { visit });
    }

    /// Sends the recorder away.
    pub fn stop_recorder(&mut self) {
        if let Some(seals) = &mut self.seals {
            seals.visit += 1;
        }
    }

    /// Begins the seals of a node's process.
    pub(super) fn seal_process(&mut self, node: usize) {
        let Some((process, run)) = self.nodes[node].process.as_ref().map(|process| (process.number, process.run))
        else {
            return;
        };
        let Some(seals) = &mut self.seals else { return };
        while seals.nodes.len() <= node {
            let ring = KeyRing::new([key_of(1)]).expect("a key");
            // A newcomer's operator copies the key file of a member.
            let ring = seals.nodes.last().map_or(ring, |member| member.ring.clone());
            seals.nodes.push(Place { first: ring.clone(), ring, removed: BTreeSet::new(), edge: None });
        }
        let place = &mut seals.nodes[node];
        if seals.flaw == Some(SealFlaw::ForgetsKeys) {
            place.ring = place.first.clone();
        }
        place.edge = Some(Edge {
            process,
            run,
            sealer: DatagramSealer::new(run, cluster()),
            by_address: BTreeMap::new(),
            opened: BTreeSet::new(),
            links: BTreeMap::new(),
            connections: 0,
        });
        if let Some(process) = &mut self.nodes[node].process {
            process.core.leave_room(MAX_OVERHEAD, MAX_OVERHEAD - MIN_OVERHEAD);
        }
    }

    /// Returns the sealed datagrams of a packet; the packet itself in a clear world, and none for what has no place in a
    /// seal.
    pub(super) fn seal_datagrams(
        &mut self,
        node: usize,
        to: Option<usize>,
        receiver: Receiver,
        packet: Vec<u8>,
    ) -> Vec<Vec<u8>> {
        if self.seals.is_none() {
            return vec![packet];
        }
        let sealed: Vec<_> = receiver.seals().filter_map(|run| self.seal_datagram(node, to, run, &packet)).collect();
        if let Some(to) = to {
            for datagram in &sealed {
                self.let_it_misdirect(node, to, datagram);
            }
        }
        sealed
    }

    fn seal_datagram(
        &mut self,
        node: usize,
        to: Option<usize>,
        receiver: Option<Run>,
        packet: &[u8],
    ) -> Option<Vec<u8>> {
        let seals = self.seals.as_mut()?;
        let flaw = seals.flaw;
        let receiver = receiver.filter(|_| flaw != Some(SealFlaw::Unbound));
        let place = seals.nodes.get_mut(node)?;
        let (edge, key) = (place.edge.as_mut()?, place.ring.sealing());
        if flaw == Some(SealFlaw::ReusedNonce) {
            edge.sealer = DatagramSealer::new(edge.run, cluster());
        }
        let sealed = edge.sealer.seal(key, receiver, packet)?;
        let nonce = (key.id(), edge.run, number_in(&sealed));
        let is_fresh = seals.nonces.insert(nonce);
        seals.counts.sealed += 1;
        if let (Some(recorder), Some(to)) = (&mut seals.recorder, to) {
            keep(&mut recorder.datagrams, &mut recorder.random, (node, to, sealed.clone()));
            keep(&mut recorder.contents, &mut recorder.random, (node, packet.to_vec()));
        }
        let mtu = self.nodes[node].settings.mtu;
        if !is_fresh {
            self.report(Some(node), Invariant::SealsHold, format!("nonce {nonce:?} was used before"));
        } else if sealed.len() > mtu {
            let detail = format!("{} bytes sealed, mtu is {mtu}", sealed.len());
            self.report(Some(node), Invariant::DatagramsWithinBounds, detail);
        }
        Some(sealed)
    }

    /// Returns the packet in a datagram, and true unless it is bound to no receiver; `None` if it is refused.
    pub(super) fn open_datagram(
        &mut self,
        node: usize,
        from: SocketAddr,
        datagram: Vec<u8>,
    ) -> Option<(Vec<u8>, bool)> {
        let Some(seals) = &mut self.seals else { return Some((datagram, true)) };
        let flaw = seals.flaw;
        let place = seals.nodes.get_mut(node)?;
        let edge = place.edge.as_mut()?;
        let run = edge.run;
        let sealer = match flaw {
            Some(SealFlaw::WindowPerAddress) => {
                edge.by_address.entry(from).or_insert_with(|| DatagramSealer::new(run, cluster()))
            }
            _ => &mut edge.sealer,
        };
        let mut packet = Vec::new();
        let refused = match sealer.open(&place.ring, &datagram, &mut packet) {
            Ok(Opened::Sealed { is_bound, is_first: is_certain }) => {
                if from == elsewhere() {
                    seals.opened_from_elsewhere += datagram.len() as u64 + self.network.header_bytes();
                }
                let is_first = edge.opened.insert(xxhash_rust::xxh3::xxh3_64(&datagram)) || !is_certain;
                let by_removed = crate::seal::key_id_of(&datagram).is_some_and(|id| place.removed.contains(&id));
                if !is_first {
                    let detail = format!("a datagram from {from} was opened before");
                    self.report(Some(node), Invariant::SealsHold, detail);
                } else if by_removed {
                    let detail = format!("a datagram from {from} is sealed with a key that was removed");
                    self.report(Some(node), Invariant::SealsHold, detail);
                }
                return Some((packet, is_bound || flaw == Some(SealFlaw::Unbound)));
            }
            Ok(Opened::Clear) if flaw == Some(SealFlaw::AnswersUnsealed) => return Some((datagram, true)),
            Ok(Opened::Clear) => SealError::Unsealed,
            Err(error) => error,
        };
        seals.counts.refused[refused.index()] += 1;
        None
    }

    /// Counts bytes that go to where the recorder plays from, and checks that they are no more than what was opened of it;
    /// returns false if they go anywhere else. They are its own account: an adversary beside it did not cause them.
    pub(super) fn goes_to_recorder(&mut self, to: SocketAddr, bytes: u64) -> bool {
        let Some(seals) = self.seals.as_mut().filter(|_| to == elsewhere()) else { return false };
        seals.sent_elsewhere += bytes;
        let (opened, sent) = (seals.opened_from_elsewhere, seals.sent_elsewhere);
        if sent > opened {
            let detail = format!("{sent} bytes went to where recordings of {opened} came from");
            self.report(None, Invariant::NobodyIsFlooded, detail);
        }
        true
    }

    /// Checks that nobody is sent a datagram who never sealed one.
    pub(super) fn look_at_answer(&mut self, node: usize, to: SocketAddr) {
        if self.seals.is_some() && self.adversary_state.owns(to) {
            let detail = format!("{to} is answered, and has sealed nothing");
            self.report(Some(node), Invariant::SealsHold, detail);
        }
    }

    fn new_link(&mut self, node: usize, link: LinkId, is_opener: bool) -> Option<()> {
        let seed = self.options.seed;
        let process = self.nodes[node].process.as_ref()?.number;
        let edge = self.seals.as_mut()?.edge(node, process)?;
        edge.connections += 1;
        let drawn =
            |salt: u64| xxhash_rust::xxh3::xxh3_64_with_seed(&edge.run.0.to_le_bytes(), seed ^ edge.connections ^ salt);
        let mut random = [0; 16];
        random[..8].copy_from_slice(&drawn(0).to_le_bytes());
        random[8..].copy_from_slice(&drawn(1 << 63).to_le_bytes());
        let end = if is_opener { LinkSealer::opener } else { LinkSealer::acceptor };
        let sealer = end(edge.run, cluster(), edge.connections, random);
        edge.links.insert(link, Link { sealer, waiting: Vec::new(), is_known: is_opener });
        Some(())
    }

    /// Greets the other end of a connection that this node opened.
    pub(super) fn greet_over(&mut self, node: usize, link: LinkId) {
        if self.seals.is_none() || self.new_link(node, link, true).is_none() {
            return;
        }
        let greeting = self.seals.as_mut().and_then(|seals| {
            let place = seals.nodes.get_mut(node)?;
            let edge = place.edge.as_ref()?;
            Some(edge.links.get(&link)?.sealer.greeting(place.ring.sealing()))
        });
        if let Some(greeting) = greeting {
            self.send_raw_frame(node, link, greeting);
        }
    }

    /// Returns the sealed frame of a packet; `None` if it waits for the other end's greeting.
    pub(super) fn seal_frame(&mut self, node: usize, link: LinkId, packet: Vec<u8>) -> Option<Vec<u8>> {
        let Some(seals) = &mut self.seals else { return Some(packet) };
        let place = seals.nodes.get_mut(node)?;
        let link = place.edge.as_mut()?.links.get_mut(&link)?;
        if !link.sealer.is_ready() {
            link.waiting.push(packet);
            return None;
        }
        seals.counts.frames += 1;
        link.sealer.seal(place.ring.sealing(), &packet)
    }

    /// Forgets the seal of a connection that is over.
    pub(super) fn forget_seal(&mut self, node: usize, link: LinkId) {
        if let Some(edge) = self.seals.as_mut().and_then(|seals| seals.nodes.get_mut(node)?.edge.as_mut()) {
            edge.links.remove(&link);
        }
    }

    /// Hands a frame in, opened.
    pub(super) fn take_frame(&mut self, node: usize, link: LinkId, from: SocketAddr, frame: &[u8]) {
        if self.seals.is_none() {
            return self.step(node, Input::Link { link, event: LinkEvent::Frame { from, bytes: frame } });
        }
        let is_new = |edge: &Edge| !edge.links.contains_key(&link);
        let seals = self.seals.as_ref().and_then(|seals| seals.nodes.get(node)?.edge.as_ref());
        if seals.is_some_and(is_new) && matches!(link, LinkId::Accepted(_)) {
            self.new_link(node, link, false);
        }
        match self.open_frame(node, link, frame) {
            Some(Taken::Packet(packet)) => {
                self.step(node, Input::Link { link, event: LinkEvent::Frame { from, bytes: &packet } });
            }
            Some(Taken::Send(frames)) => frames.into_iter().for_each(|frame| self.send_raw_frame(node, link, frame)),
            Some(Taken::Refused { is_known }) => {
                self.close_stream(node, link);
                if is_known {
                    self.step(node, Input::Link { link, event: LinkEvent::Closed });
                }
            }
            None => {}
        }
    }

    fn open_frame(&mut self, node: usize, link: LinkId, frame: &[u8]) -> Option<Taken> {
        let seals = self.seals.as_mut()?;
        let place = seals.nodes.get_mut(node)?;
        let edge = place.edge.as_mut()?;
        let known = edge.links.get_mut(&link)?;
        let mode = match seals.flaw {
            Some(SealFlaw::AnswersUnsealed) => SealMode::Prefer,
            _ => SealMode::Require,
        };
        let taken = match known.sealer.take(mode, &place.ring, frame) {
            Ok(LinkStep::Frame(packet)) => {
                known.is_known = true;
                Taken::Packet(packet)
            }
            Ok(LinkStep::Clear) => Taken::Packet(frame.to_vec()),
            Ok(LinkStep::Greeted(answer)) => {
                let key = place.ring.sealing().clone();
                let waiting = std::mem::take(&mut known.waiting);
                let waiting: Vec<_> = waiting.iter().filter_map(|packet| known.sealer.seal(&key, packet)).collect();
                seals.counts.frames += waiting.len() as u64;
                Taken::Send(answer.into_iter().chain(waiting).collect())
            }
            Err(error) => {
                seals.counts.refused[error.index()] += 1;
                Taken::Refused { is_known: known.is_known }
            }
        };
        Some(taken)
    }

    /// Shows the recorder a frame.
    pub(super) fn let_it_record(&mut self, node: usize, to: usize, frame: &[u8]) {
        if let Some(recorder) = self.seals.as_mut().and_then(|seals| seals.recorder.as_mut()) {
            keep(&mut recorder.frames, &mut recorder.random, (node, to, frame.to_vec()));
        }
    }

    /// Gives the recorder its turn.
    pub(super) fn let_it_play(&mut self, visit: u64) {
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
        if let (Some(key), false) = (key, contents.is_empty()) {
            let (sender, packet) = &contents[random.index(contents.len())];
            // Under the run that the packet bears: whoever has a key can say any.
            let run = packet
                .get(8..16)
                .and_then(|run| run.try_into().ok())
                .map_or(Run(0), |run| Run(u64::from_le_bytes(run)));
            if let Some(forged) = DatagramSealer::new(run, cluster()).seal(key, None, packet) {
                played.push((random.chance(0.5).then_some(*sender), random.index(nodes), forged));
            }
        }
        let frame = (!frames.is_empty()).then(|| {
            let (sender, meant, bytes) = frames[random.index(frames.len())].clone();
            (random.chance(0.5).then_some(sender), if random.chance(0.5) { meant } else { random.index(nodes) }, bytes)
        });
        seals.counts.played += played.len() as u64 + u64::from(frame.is_some());
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

/// Returns the cluster of every world.
pub(super) fn cluster() -> u32 {
    Header::cluster_hash(super::life::CLUSTER)
}

/// Returns the number in a sealed datagram.
fn number_in(datagram: &[u8]) -> u64 {
    datagram.get(16..).and_then(|rest| postcard::take_from_bytes(rest).ok()).map_or(0, |(number, _)| number)
}
