//! Times of the core: for one packet, for a whole view, for a change and its spreading; and of the wire format alone.
//!
//! The groups `packet/…` have the same cases for foca, with the leanest identity it can have (eight bytes, no name) and
//! without a consumer of its notifications. Between batches both spread their news, unmeasured.
//!
//! `cargo bench -p headcount-peers --bench core -- --quick` takes half a minute, without `--quick` two.

#[path = "../../crowd/mod.rs"]
mod crowd;
mod swim;

use std::hint::black_box;
use std::time::{Duration, Instant};

use criterion::{BatchSize, BenchmarkId, Criterion, Throughput};
use headcount::core::limits::{FLOOD_BATCH, FLOOD_BUSY_BATCH};
use headcount::core::wire::{Packet, PacketBuilder};
use headcount::core::{DropReason, Status, Time};

use crowd::{Crowd, Datagram, member};
use swim::Swimmers;

/// Packets handled in one measurement, at one moment of virtual time. They carry fewer updates than the core remembers
/// as recent, so none is lost.
const BATCH: usize = 16;
/// Number of updates in a packet.
const UPDATES: usize = 10;
/// Number of members that send, in turn: about as many as observe one node.
const SENDERS: usize = 10;

fn main() {
    let mut criterion = Criterion::default()
        .warm_up_time(Duration::from_millis(500))
        .measurement_time(Duration::from_secs(2))
        .configure_from_args();
    packets(&mut criterion);
    changes(&mut criterion);
    views(&mut criterion);
    wire(&mut criterion);
    criterion.final_summary();
}

/// The updates in the packets.
#[derive(Debug, Clone, Copy)]
enum News {
    None,
    Known,
    New,
}

impl News {
    const ALL: [(&'static str, News); 3] =
        [("packet/empty", News::None), ("packet/10 known", News::Known), ("packet/10 new", News::New)];
}

/// Sends packets to a core, and counts them.
struct Senders {
    crowd: Crowd,
    packets: usize,
    /// Index of the member that changes next.
    next: usize,
}

impl Senders {
    fn new(members: usize) -> Self {
        Self { crowd: Crowd::of((0..members).map(member).collect()), packets: 0, next: 0 }
    }

    fn packet(&mut self, news: News, updates: usize) -> Datagram {
        let members = self.crowd.members.len();
        self.packets += 1;
        let sender = self.packets % SENDERS.min(members);
        if let News::None = news {
            return self.crowd.packet(sender, []);
        }
        let about: Vec<usize> = (0..updates).map(|i| (self.next + i) % members).collect();
        self.next = (self.next + updates) % members;
        if let News::New = news {
            for i in &about {
                self.crowd.change(*i);
            }
        }
        self.crowd.packet(sender, about)
    }

    /// Measures the time that the core takes to handle this many packets.
    fn time(&mut self, news: News, packets: u64) -> Duration {
        let before = self.crowd.core.counters().clone();
        let mut left = packets as usize;
        let mut time = Duration::ZERO;
        while left > 0 {
            let batch: Vec<Datagram> = (0..left.min(BATCH)).map(|_| self.packet(news, UPDATES)).collect();
            left -= batch.len();
            let start = Instant::now();
            for datagram in &batch {
                self.crowd.hand_in(datagram);
            }
            time += start.elapsed();
            // Without news hardly any time need pass, and no member grows old.
            self.crowd.pass(if let News::New = news { FLOOD_BUSY_BATCH } else { Duration::from_nanos(1) });
        }
        let after = self.crowd.core.counters();
        let (updates, merged) = match news {
            News::None => (0, 0),
            News::Known => (UPDATES as u64 * packets, 0),
            News::New => (UPDATES as u64 * packets, UPDATES as u64 * packets),
        };
        assert_eq!(after.signs_of_life - before.signs_of_life, packets);
        assert_eq!(after.updates_received - before.updates_received, updates);
        assert_eq!(after.updates_merged - before.updates_merged, merged);
        // What goes to members whose addresses are unproven has a limit, and is counted so, too.
        let mut of_packets = DropReason::ALL.into_iter().filter(|reason| *reason != DropReason::RateLimited);
        assert!(of_packets.all(|reason| after.dropped(reason) == before.dropped(reason)));
        self.crowd.assert_all_known();
        time
    }
}

/// Measures one packet from a member.
fn packets(criterion: &mut Criterion) {
    for (name, news) in News::ALL {
        let mut group = criterion.benchmark_group(name);
        group.throughput(Throughput::Elements(1));
        for members in [10, 1_000, 10_000] {
            let mut senders = Senders::new(members);
            group.bench_function(BenchmarkId::new("headcount", members), |bencher| {
                bencher.iter_custom(|packets| senders.time(news, packets));
            });
            let mut swimmers = Swimmers::new(members);
            group.bench_function(BenchmarkId::new("foca", members), |bencher| {
                bencher.iter_custom(|packets| swimmers.time(news, packets));
            });
        }
        group.finish();
    }
}

/// Measures one change of a member: learnt, merged, and sent on when the batch is full.
fn changes(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("change learnt and flooded");
    for members in [1_000, 10_000] {
        let mut senders = Senders::new(members);
        group.bench_function(BenchmarkId::new("headcount", members), |bencher| {
            bencher.iter_custom(|changes| {
                let mut time = Duration::ZERO;
                for _ in 0..changes {
                    let datagram = senders.packet(News::New, 1);
                    let crowd = &mut senders.crowd;
                    let flood_at: Time = crowd.now + FLOOD_BATCH;
                    let start = Instant::now();
                    crowd.hand_in(&datagram);
                    time += start.elapsed();
                    // Gossip and heartbeats that fall due meanwhile are not part of the measurement.
                    crowd.pass(FLOOD_BATCH.saturating_sub(Duration::from_nanos(1)));
                    crowd.now = flood_at;
                    let before = crowd.core.counters().updates_sent;
                    let start = Instant::now();
                    crowd.tick();
                    time += start.elapsed();
                    assert!(crowd.core.counters().updates_sent > before, "the change is sent on");
                    // Otherwise the next change would be held back for longer.
                    crowd.pass(FLOOD_BUSY_BATCH);
                }
                senders.crowd.assert_all_known();
                time
            });
        });
    }
    group.finish();
}

/// Measures the records of all members, new to the core.
fn views(criterion: &mut Criterion) {
    const MEMBERS: usize = 1_000;
    let meeting = || Crowd::meeting((0..MEMBERS).map(member).collect());
    // The core is the same every time to the last byte, so the packets can be made once.
    let mut first = meeting();
    let datagrams = first.tell_of_all();
    let mut group = criterion.benchmark_group("view merged");
    group.throughput(Throughput::Elements(MEMBERS as u64 - 1));
    group.bench_function(BenchmarkId::new("headcount", MEMBERS), |bencher| {
        bencher.iter_batched(
            meeting,
            |mut crowd| {
                for datagram in &datagrams {
                    crowd.hand_in(datagram);
                }
                assert_eq!(crowd.core.counts()[Status::Up.index()], MEMBERS + 1);
                crowd
            },
            BatchSize::PerIteration,
        );
    });
    group.finish();
}

/// Measures decoding and encoding.
fn wire(criterion: &mut Criterion) {
    let mut crowd = Crowd::meeting((0..=UPDATES).map(member).collect());
    let cases = [("heartbeat", crowd.packet(0, []).1), ("10 updates", crowd.packet(0, 1..=UPDATES).1)];
    let mut group = criterion.benchmark_group("wire");
    for (name, bytes) in &cases {
        let packet = Packet::decode(bytes).expect("a packet of ours");
        group.throughput(Throughput::Bytes(bytes.len() as u64));
        group.bench_function(BenchmarkId::new("decode", name), |bencher| {
            bencher.iter(|| Packet::decode(black_box(bytes)));
        });
        let encode = || {
            let mut builder = PacketBuilder::new(&packet.header, bytes.len());
            for message in &packet.messages {
                builder.push(message);
            }
            builder.finish()
        };
        assert_eq!(encode(), *bytes);
        group.bench_function(BenchmarkId::new("encode", name), |bencher| bencher.iter(|| black_box(encode())));
    }
    group.finish();
}
