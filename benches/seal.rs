//! The cost of seals: the time for a heartbeat, a packet of gossip and the largest datagram; and the bytes that idle nodes
//! send.
//!
//! `cargo bench --bench seal`. The budgets: 2 µs for a heartbeat of at most 60 bytes that is sealed and opened, in a build with
//! optimisations, as `cargo bench` makes it (larger packets are shown beside that budget); 300 B/s for an idle node of the
//! profile `default`, 540 B/s for one of `lan`. Traffic is virtual: the same everywhere.

use std::time::{Duration, Instant};

use headcount::Profile;
use headcount::core::Run;
use headcount::core::wire::{Header, Heartbeat, Message, PacketBuilder};
use headcount::seal::{DatagramSealer, Key, KeyRing};
use headcount::sim::{World, WorldOptions};

/// The time for a heartbeat that is sealed and opened.
const BUDGET: Duration = Duration::from_micros(2);
/// Packets per measurement, and measurements of which the fastest counts: others may be using the machine.
const PACKETS: u64 = 50_000;
const CLUSTER: &str = "bench";
const TRIES: usize = 9;
/// Virtual time before idle traffic is counted, and while it is: nodes that have just met send more.
const SETTLING: Duration = Duration::from_secs(20);
const IDLE: Duration = Duration::from_secs(60);

fn main() {
    times();
    println!("\n{:>8} {:>8} {:>12} {:>12} {:>16}", "profile", "nodes", "clear", "sealed", "sealed, a packet");
    for (profile, nodes) in
        [Profile::Default, Profile::Lan].into_iter().flat_map(|it| [(it, 10), (it, 100), (it, 1_000)])
    {
        let [(clear, _), (sealed, packet)] = [false, true].map(|is_sealed| idle(profile, nodes, is_sealed));
        let name = profile.to_string();
        println!(
            "{name:>8} {nodes:>8} {:>12} {:>12} {packet:>14.1} B",
            format!("{clear:.0} B/s"),
            format!("{sealed:.0} B/s")
        );
    }
}

/// Returns the bytes per second that an idle node sends, and the bytes of a packet, with the headers of IPv4 and UDP.
fn idle(profile: Profile, nodes: usize, is_sealed: bool) -> (f64, f64) {
    let options = WorldOptions { sealed: is_sealed, ..WorldOptions::new(1, nodes, profile.settings()) };
    let mut world = World::formed(options);
    world.run_for(SETTLING);
    let sent = |world: &World| {
        let all = (0..nodes).map(|node| world.sent(node));
        all.fold((0, 0), |sum, sent| (sum.0 + sent.packets, sum.1 + sent.bytes))
    };
    let before = sent(&world);
    world.run_for(IDLE);
    let (packets, bytes) = (sent(&world).0 - before.0, sent(&world).1 - before.1);
    (bytes as f64 / nodes as f64 / IDLE.as_secs_f64(), bytes as f64 / packets as f64)
}

fn times() {
    let key = |number: u8| {
        let bytes = std::array::from_fn(|place| place as u8 ^ number);
        Key::from_bytes(&bytes).expect("not of equal bytes")
    };
    let ring = KeyRing::new([key(1), key(2)]).expect("two keys");
    println!(
        "{:>8} {:>8} {:>12} {:>12} {:>16} {:>16}",
        "packet", "sealed", "seal", "open", "seal and open", "of the budget"
    );
    for size in [0, 300, 1_360] {
        let packet = |sequence| {
            let header = Header { cluster: Header::cluster_hash(CLUSTER), run: Run(7), sequence, fingerprint: 3 };
            let mut packet = PacketBuilder::new(&header, 1_400);
            packet.push(&Message::Heartbeat(Heartbeat { stamp: 1, echo: None }));
            packet.pad_to(size);
            packet.finish()
        };
        let packets: Vec<_> = (1..=PACKETS).map(packet).collect();
        let (mut best_seal, mut best_open, mut length) = (f64::MAX, f64::MAX, 0);
        for _ in 0..TRIES {
            let mut sender = DatagramSealer::new(Run(7), CLUSTER);
            let begin = Instant::now();
            let sealed: Vec<_> = packets
                .iter()
                .map(|packet| sender.seal(ring.sealing(), Some(Run(8)), packet).expect("our own"))
                .collect();
            best_seal = best_seal.min(begin.elapsed().as_nanos() as f64 / PACKETS as f64);
            length = sealed[0].len();
            let (mut receiver, mut opened) = (DatagramSealer::new(Run(8), CLUSTER), Vec::new());
            let begin = Instant::now();
            for datagram in &sealed {
                receiver.open(&ring, datagram, &mut opened, |_| true).expect("sealed by a member");
            }
            best_open = best_open.min(begin.elapsed().as_nanos() as f64 / PACKETS as f64);
        }
        let [seal, open, both] = [best_seal, best_open, best_seal + best_open].map(|time| format!("{time:.0} ns"));
        let share = format!("{:.0} %", (best_seal + best_open) / BUDGET.as_nanos() as f64 * 100.0);
        println!("{:>8} {length:>8} {seal:>12} {open:>12} {both:>16} {share:>16}", packets[0].len());
    }
}
