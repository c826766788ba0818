//! foca 2: its state machine in the [`engine`](super::engine), with the leanest identity with which a real cluster can
//! work.
//!
//! The first nodes know each other from the start, since foca's periodic announcements take a quarter of an hour to
//! tell a node about a thousand others. It has no metadata apart from the identity, so a change is a change of
//! identity, as its documentation advises. Errors that it returns are ignored, as in its example agent.

use std::collections::BTreeSet;
use std::num::NonZeroU32;
use std::time::Duration;

use foca::{Config, Foca, Identity, Member, NoCustomBroadcast, Notification, PostcardCodec, Runtime, Timer};
use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;
use serde::{Deserialize, Serialize};

use super::cluster::{Conditions, Verdict};
use super::engine::{Engine, Outbox, Process};

/// The sets of defaults that foca has.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Pace {
    Lan,
    Wan,
}

impl Pace {
    fn config(self, nodes: usize) -> Config {
        let size = u32::try_from(nodes).ok().and_then(NonZeroU32::new).expect("a cluster of at least one");
        match self {
            Pace::Lan => Config::new_lan(size),
            Pace::Wan => Config::new_wan(size),
        }
    }
}

/// The identity: an address, and a generation so that the node can come back.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Address {
    ip: [u8; 4],
    port: u16,
    generation: u16,
}

impl Address {
    fn of(node: usize) -> Self {
        Self { ip: (0x0a00_0000 + node as u32).to_be_bytes(), port: 7117, generation: 0 }
    }

    fn node(self) -> usize {
        let [_, a, b, c] = self.ip;
        u32::from_be_bytes([0, a, b, c]) as usize
    }
}

impl Identity for Address {
    type Addr = ([u8; 4], u16);

    fn renew(&self) -> Option<Self> {
        Some(Self { generation: self.generation.wrapping_add(1), ..*self })
    }

    fn addr(&self) -> Self::Addr {
        (self.ip, self.port)
    }

    fn win_addr_conflict(&self, adversary: &Self) -> bool {
        self.generation > adversary.generation
    }
}

impl Runtime<Address> for Outbox<Timer<Address>> {
    fn notify(&mut self, notification: Notification<'_, Address>) {
        match notification {
            Notification::MemberUp(id) => self.verdicts.push((id.node(), Verdict::Up)),
            Notification::MemberDown(id) => self.verdicts.push((id.node(), Verdict::Down)),
            Notification::Rename(_, id) => self.verdicts.push((id.node(), Verdict::Changed)),
            _ => {}
        }
    }

    fn send_to(&mut self, to: Address, data: &[u8]) {
        self.packets.push((to.node(), data.to_vec()));
    }

    fn submit_after(&mut self, event: Timer<Address>, after: Duration) {
        self.timers.push((after, event));
    }
}

/// A node, and the number of members that it knows before it starts.
pub(crate) struct Node {
    foca: Foca<Address, PostcardCodec, ChaCha8Rng, NoCustomBroadcast>,
    known: usize,
    /// The active members, by its notifications.
    active: BTreeSet<usize>,
}

impl Node {
    fn new(number: usize, seed: u64, config: Config, known: usize) -> Self {
        let foca = Foca::new(Address::of(number), config, ChaCha8Rng::seed_from_u64(seed), PostcardCodec);
        Self { foca, known, active: BTreeSet::new() }
    }

    fn fold(&mut self, out: &Outbox<Timer<Address>>) {
        for (subject, verdict) in &out.verdicts {
            match verdict {
                Verdict::Up => {
                    self.active.insert(*subject);
                }
                Verdict::Down => {
                    self.active.remove(subject);
                }
                Verdict::Changed => {}
            }
        }
    }
}

impl Process for Node {
    type Timer = Timer<Address>;

    fn start(&mut self, seed: Option<usize>, out: &mut Outbox<Self::Timer>) {
        let others = (0..self.known).map(Address::of).filter(|id| id.addr() != self.foca.identity().addr());
        let others: Vec<_> = others.map(Member::alive).collect();
        if !others.is_empty() {
            self.foca.apply_many(others.into_iter(), false, &mut *out).expect("members are applied");
        }
        if let Some(seed) = seed {
            self.foca.announce(Address::of(seed), &mut *out).expect("an announcement fits into a packet");
        }
        self.fold(out);
    }

    fn packet(&mut self, _: usize, bytes: &[u8], out: &mut Outbox<Self::Timer>) {
        let _ = self.foca.handle_data(bytes, &mut *out);
        self.fold(out);
    }

    fn timer(&mut self, timer: Self::Timer, out: &mut Outbox<Self::Timer>) {
        let _ = self.foca.handle_timer(timer, &mut *out);
        self.fold(out);
    }

    fn change(&mut self, out: &mut Outbox<Self::Timer>) {
        let next = self.foca.identity().renew().expect("there is always a next generation");
        self.foca.change_identity(next, &mut *out).expect("another identity");
        self.fold(out);
    }

    fn lists(&self, subject: usize) -> bool {
        self.active.contains(&subject)
    }
}

/// Creates nodes that know each other.
pub(crate) fn cluster(nodes: usize, seed: u64, conditions: Conditions, pace: Pace) -> Engine<Node> {
    let config = pace.config(nodes);
    let later = config.clone();
    Engine::new(
        nodes,
        seed,
        conditions,
        move |number, seed| Node::new(number, seed, config.clone(), nodes),
        move |number, seed| Node::new(number, seed, later.clone(), 0),
    )
}
