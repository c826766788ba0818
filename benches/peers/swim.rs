//! SWIM as its paper (DSN 2002) has it, without later additions: the yardstick of the Lifeguard experiment.
//!
//! One probe a period in shuffled rounds, `k` indirect probes, suspicion with a fixed timeout, incarnations, updates
//! piggybacked on everything. From memberlist it has what Lifeguard's authors measured as "SWIM": the figures, gossip
//! between the probes, and that a member held dead may come back with a higher incarnation. A slow node takes its own
//! slowness for the silence of others, as theirs did.

use std::collections::BTreeMap;
use std::time::Duration;

use headcount::sim::{Purpose, Random};

use super::cluster::{Conditions, Verdict};
use super::engine::{Engine, Outbox, Process};

const PERIOD: Duration = Duration::from_secs(1);
const PROBE_TIMEOUT: Duration = Duration::from_millis(500);
const INDIRECT_PROBES: usize = 3;
const GOSSIP_INTERVAL: Duration = Duration::from_millis(200);
const GOSSIP_FANOUT: usize = 3;
/// Duration of a suspicion, in periods, for each unit of the decimal logarithm of the cluster's size.
const SUSPICION: f64 = 5.0;
/// Number of times that an update is sent, for each unit of the decimal logarithm of the cluster's size.
const RETRANSMISSIONS: f64 = 4.0;
/// The largest datagram, in bytes.
const MTU: usize = 1_400;

/// States in the order in which they override each other at the same incarnation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum State {
    Alive,
    Suspect,
    Dead,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Claim {
    incarnation: u32,
    state: State,
}

/// The message at the head of a packet, before the updates.
#[derive(Debug, Clone, Copy)]
enum Message {
    Ping(u32),
    PingReq(u32, usize),
    Ack(u32),
    Gossip,
}

impl Message {
    fn encode(self) -> Vec<u8> {
        let (kind, sequence) = match self {
            Message::Ping(sequence) => (0, sequence),
            Message::PingReq(sequence, _) => (1, sequence),
            Message::Ack(sequence) => (2, sequence),
            Message::Gossip => (3, 0),
        };
        let mut bytes = vec![kind];
        bytes.extend_from_slice(&sequence.to_be_bytes());
        if let Message::PingReq(_, target) = self {
            bytes.extend_from_slice(&address(target));
        }
        bytes
    }

    /// Decodes the message; returns it with the bytes of the updates behind it.
    fn decode(bytes: &[u8]) -> Option<(Self, &[u8])> {
        let (head, rest) = bytes.split_at_checked(5)?;
        let sequence = u32::from_be_bytes(head[1..].try_into().ok()?);
        Some(match head[0] {
            0 => (Message::Ping(sequence), rest),
            1 => {
                let (target, rest) = rest.split_at_checked(6)?;
                (Message::PingReq(sequence, node(target)), rest)
            }
            2 => (Message::Ack(sequence), rest),
            _ => (Message::Gossip, rest),
        })
    }
}

/// Returns the address of a member on the wire: IPv4 address and port.
fn address(node: usize) -> [u8; 6] {
    let [a, b, c, d] = (0x0a00_0000 + node as u32).to_be_bytes();
    [a, b, c, d, 0x1b, 0xcd]
}

fn node(address: &[u8]) -> usize {
    usize::from(address[1]) << 16 | usize::from(address[2]) << 8 | usize::from(address[3])
}

/// Bytes of an update: address, incarnation, state.
const UPDATE_BYTES: usize = 6 + 4 + 1;

pub(crate) enum Timer {
    Period,
    ProbeTimeout(u32),
    Gossip,
    Suspicion(usize, u32),
    /// The time at which a relayed probe is forgotten.
    Relay(u32),
}

pub(crate) struct Node {
    me: usize,
    random: Random,
    incarnation: u32,
    members: Vec<Claim>,
    /// The members still to be probed in this round, last first.
    round: Vec<usize>,
    sequence: u32,
    /// The probe under way: its sequence number, its target, and true if it was answered.
    probe: Option<(u32, usize, bool)>,
    /// Probes on behalf of others: the node that asked, and its sequence number.
    relays: BTreeMap<u32, (usize, u32)>,
    /// Updates still to be sent, and the number of times that each was sent.
    updates: BTreeMap<usize, u32>,
}

impl Node {
    fn new(me: usize, seed: u64, nodes: usize) -> Self {
        let claim = Claim { incarnation: 0, state: State::Alive };
        Self {
            me,
            random: Random::new(seed, Purpose::Scenario),
            incarnation: 0,
            members: vec![claim; nodes],
            round: Vec::new(),
            sequence: 0,
            probe: None,
            relays: BTreeMap::new(),
            updates: BTreeMap::new(),
        }
    }

    fn logarithm(&self) -> f64 {
        (self.members.len() as f64).log10().max(1.0)
    }

    fn send(&mut self, to: usize, message: Message, out: &mut Outbox<Timer>) {
        let mut bytes = message.encode();
        // A member that is held dead is told so, or it could never refute.
        if self.members[to].state == State::Dead {
            self.updates.entry(to).or_insert(0);
        }
        let mut pending: Vec<(u32, usize)> = self.updates.iter().map(|(about, sent)| (*sent, *about)).collect();
        pending.sort_unstable();
        let most = (RETRANSMISSIONS * ((self.members.len() + 1) as f64).log10()).ceil() as u32;
        for (sent, about) in pending.into_iter().take((MTU - bytes.len()) / UPDATE_BYTES) {
            let claim = self.claim(about);
            bytes.extend_from_slice(&address(about));
            bytes.extend_from_slice(&claim.incarnation.to_be_bytes());
            bytes.push(claim.state as u8);
            if sent + 1 >= most {
                self.updates.remove(&about);
            } else {
                self.updates.insert(about, sent + 1);
            }
        }
        out.packets.push((to, bytes));
    }

    fn claim(&self, about: usize) -> Claim {
        if about == self.me {
            Claim { incarnation: self.incarnation, state: State::Alive }
        } else {
            self.members[about]
        }
    }

    fn apply(&mut self, about: usize, claim: Claim, out: &mut Outbox<Timer>) {
        if about == self.me {
            if claim.state != State::Alive && claim.incarnation >= self.incarnation {
                self.incarnation = claim.incarnation + 1;
                self.updates.insert(about, 0);
            }
            return;
        }
        let held = self.members[about];
        if claim <= held || (held.state == State::Dead && claim.state != State::Alive) {
            return;
        }
        self.members[about] = claim;
        self.updates.insert(about, 0);
        match claim.state {
            State::Alive if held.state == State::Dead => out.verdicts.push((about, Verdict::Up)),
            State::Alive => {}
            State::Suspect => {
                let lasting = PERIOD.mul_f64(SUSPICION * self.logarithm());
                out.timers.push((lasting, Timer::Suspicion(about, claim.incarnation)));
            }
            State::Dead => out.verdicts.push((about, Verdict::Down)),
        }
    }

    fn accuse(&mut self, about: usize, state: State, out: &mut Outbox<Timer>) {
        let incarnation = self.members[about].incarnation;
        self.apply(about, Claim { incarnation, state }, out);
    }

    fn next_target(&mut self) -> Option<usize> {
        loop {
            if self.round.is_empty() {
                self.round = self.others(None);
                if self.round.is_empty() {
                    return None;
                }
            }
            let next = self.round.pop()?;
            if self.members[next].state != State::Dead {
                return Some(next);
            }
        }
    }

    /// Returns all members that are not held dead, in random order.
    fn others(&mut self, except: Option<usize>) -> Vec<usize> {
        let is_other = |node: &usize| *node != self.me && Some(*node) != except;
        let mut others: Vec<usize> = (0..self.members.len()).filter(is_other).collect();
        others.retain(|node| self.members[*node].state != State::Dead);
        for i in (1..others.len()).rev() {
            others.swap(i, self.random.index(i + 1));
        }
        others
    }
}

impl Process for Node {
    type Timer = Timer;

    fn start(&mut self, _: Option<usize>, out: &mut Outbox<Timer>) {
        out.timers.push((Duration::ZERO, Timer::Period));
        out.timers.push((GOSSIP_INTERVAL, Timer::Gossip));
        out.verdicts.extend((0..self.members.len()).map(|other| (other, Verdict::Up)));
    }

    fn packet(&mut self, from: usize, bytes: &[u8], out: &mut Outbox<Timer>) {
        let Some((message, updates)) = Message::decode(bytes) else { return };
        for update in updates.chunks_exact(UPDATE_BYTES) {
            let incarnation = u32::from_be_bytes([update[6], update[7], update[8], update[9]]);
            let state = [State::Alive, State::Suspect, State::Dead][usize::from(update[10].min(2))];
            self.apply(node(update), Claim { incarnation, state }, out);
        }
        match message {
            Message::Ping(sequence) => self.send(from, Message::Ack(sequence), out),
            Message::PingReq(sequence, target) => {
                self.sequence += 1;
                self.relays.insert(self.sequence, (from, sequence));
                out.timers.push((PERIOD, Timer::Relay(self.sequence)));
                self.send(target, Message::Ping(self.sequence), out);
            }
            Message::Ack(sequence) => {
                if let Some((asker, theirs)) = self.relays.remove(&sequence) {
                    self.send(asker, Message::Ack(theirs), out);
                } else if let Some((_, _, answered)) = self.probe.as_mut().filter(|probe| probe.0 == sequence) {
                    *answered = true;
                }
            }
            Message::Gossip => {}
        }
    }

    fn timer(&mut self, timer: Timer, out: &mut Outbox<Timer>) {
        match timer {
            Timer::Period => {
                out.timers.push((PERIOD, Timer::Period));
                if let Some((_, target, false)) = self.probe.take() {
                    self.accuse(target, State::Suspect, out);
                }
                if let Some(target) = self.next_target() {
                    self.sequence += 1;
                    self.probe = Some((self.sequence, target, false));
                    out.timers.push((PROBE_TIMEOUT, Timer::ProbeTimeout(self.sequence)));
                    self.send(target, Message::Ping(self.sequence), out);
                }
            }
            Timer::ProbeTimeout(sequence) => {
                let Some((_, target, false)) = self.probe.filter(|probe| probe.0 == sequence) else { return };
                for helper in self.others(Some(target)).into_iter().take(INDIRECT_PROBES) {
                    self.send(helper, Message::PingReq(sequence, target), out);
                }
            }
            Timer::Gossip => {
                out.timers.push((GOSSIP_INTERVAL, Timer::Gossip));
                if self.updates.is_empty() {
                    return;
                }
                for peer in self.others(None).into_iter().take(GOSSIP_FANOUT) {
                    self.send(peer, Message::Gossip, out);
                }
            }
            Timer::Suspicion(about, incarnation) => {
                if self.members[about] == (Claim { incarnation, state: State::Suspect }) {
                    self.accuse(about, State::Dead, out);
                }
            }
            Timer::Relay(sequence) => drop(self.relays.remove(&sequence)),
        }
    }

    fn change(&mut self, _: &mut Outbox<Timer>) {
        self.incarnation += 1;
        self.updates.insert(self.me, 0);
    }

    fn lists(&self, subject: usize) -> bool {
        self.members[subject].state != State::Dead
    }
}

/// Creates nodes that know each other. There is no joining.
pub(crate) fn cluster(nodes: usize, seed: u64, conditions: Conditions) -> Engine<Node> {
    let make = move |number, seed| Node::new(number, seed, nodes);
    Engine::new(nodes, seed, conditions, make, make)
}
