//! A crowd around foca as around the core, for comparison: members that exist only as the gossip packets they send.

use std::hint::black_box;
use std::time::{Duration, Instant};

use foca::{Codec, Config, Foca, Header, Identity, Member, Message, NoCustomBroadcast, Notification, PostcardCodec};
use foca::{Runtime, State, Timer};
use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;
use serde::{Deserialize, Serialize};

use super::{BATCH, News, SENDERS, UPDATES};

/// The leanest identity with which a real cluster can work: an address, and a generation so that the node can come
/// back.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
struct Address {
    ip: [u8; 4],
    port: u16,
    generation: u16,
}

impl Address {
    fn of(i: usize) -> Self {
        Self { ip: (0x0a00_0000 + i as u32).to_be_bytes(), port: 7117, generation: 0 }
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

/// A runtime that drops everything: the cheapest of all.
struct Nowhere;

impl Runtime<Address> for Nowhere {
    fn notify(&mut self, notification: Notification<'_, Address>) {
        black_box(notification);
    }

    fn send_to(&mut self, to: Address, data: &[u8]) {
        black_box((to, data));
    }

    fn submit_after(&mut self, event: Timer<Address>, after: Duration) {
        black_box((event, after));
    }
}

type Node = Foca<Address, PostcardCodec, ChaCha8Rng, NoCustomBroadcast>;

/// A foca node, and the incarnations of its members.
pub(crate) struct Swimmers {
    node: Node,
    incarnations: Vec<u16>,
    packets: usize,
    next: usize,
}

impl Swimmers {
    pub(crate) fn new(members: usize) -> Self {
        let size = u32::try_from(members + 1).ok().and_then(|size| size.try_into().ok()).expect("not empty");
        let rng = ChaCha8Rng::seed_from_u64(1);
        let mut node = Foca::new(Address::of(members), Config::new_lan(size), rng, PostcardCodec);
        let everybody = (0..members).map(|i| Member::alive(Address::of(i)));
        node.apply_many(everybody, false, Nowhere).expect("members are applied");
        assert_eq!(node.iter_members().count(), members);
        Self { node, incarnations: vec![0; members], packets: 0, next: 0 }
    }

    fn packet(&mut self, news: News) -> Vec<u8> {
        let members = self.incarnations.len();
        self.packets += 1;
        let sender = self.packets % SENDERS.min(members);
        let about: Vec<usize> = match news {
            News::None => Vec::new(),
            News::Known | News::New => (0..UPDATES).map(|i| (self.next + i) % members).collect(),
        };
        self.next = (self.next + about.len()) % members;
        if let News::New = news {
            for i in &about {
                self.incarnations[*i] += 1;
            }
        }
        let header = Header {
            src: Address::of(sender),
            src_incarnation: self.incarnations[sender],
            dst: Address::of(members),
            message: Message::Gossip,
        };
        let mut bytes = Vec::new();
        PostcardCodec.encode_header(&header, &mut bytes).expect("memory suffices");
        if !about.is_empty() {
            bytes.extend_from_slice(&(UPDATES as u16).to_be_bytes());
        }
        for i in about {
            let member = Member::new(Address::of(i), self.incarnations[i], State::Alive);
            PostcardCodec.encode_member(&member, &mut bytes).expect("memory suffices");
        }
        bytes
    }

    /// Measures the time that foca takes to handle this many packets.
    pub(crate) fn time(&mut self, news: News, packets: u64) -> Duration {
        let mut left = packets as usize;
        let mut time = Duration::ZERO;
        while left > 0 {
            // Incarnations have 16 bits here: before they run out, the cluster starts anew.
            if self
                .incarnations
                .iter()
                .any(|incarnation| usize::from(*incarnation) > usize::from(u16::MAX) - 20 * BATCH)
            {
                *self = Self::new(self.incarnations.len());
            }
            let batch: Vec<Vec<u8>> = (0..left.min(BATCH)).map(|_| self.packet(news)).collect();
            left -= batch.len();
            let start = Instant::now();
            for bytes in &batch {
                self.node.handle_data(bytes, Nowhere).expect("a good packet");
            }
            time += start.elapsed();
            while self.node.updates_backlog() > 0 {
                self.node.gossip(Nowhere).expect("gossip needs nothing");
            }
        }
        for member in self.node.iter_members() {
            let [_, a, b, c] = member.id().ip;
            let i = u32::from_be_bytes([0, a, b, c]) as usize;
            assert_eq!(member.incarnation(), self.incarnations[i], "it knows the newest");
        }
        time
    }
}
