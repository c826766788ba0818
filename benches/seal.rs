//! The time that sealing costs per packet: a heartbeat, a packet of gossip, and the largest datagram.
//!
//! `cargo bench --bench seal`. The budget is 2 µs for a heartbeat that is sealed and opened.

use std::time::Instant;

use headcount::core::Run;
use headcount::core::wire::{Header, Heartbeat, Message, PacketBuilder};
use headcount::seal::{DatagramSealer, Key, KeyRing};

/// Packets per measurement, and measurements of which the fastest counts: others may be using the machine.
const PACKETS: u64 = 50_000;
const TRIES: usize = 9;

fn main() {
    let key = |number: u8| {
        let bytes = std::array::from_fn(|place| place as u8 ^ number);
        Key::from_bytes(&bytes).expect("not of equal bytes")
    };
    let ring = KeyRing::new([key(1), key(2)]).expect("two keys");
    println!("{:>8} {:>8} {:>12} {:>12} {:>16}", "packet", "sealed", "seal", "open", "seal and open");
    for size in [0, 300, 1_360] {
        let packet = |sequence| {
            let header = Header { cluster: 1, run: Run(7), sequence, fingerprint: 3 };
            let mut packet = PacketBuilder::new(&header, 1_400);
            packet.push(&Message::Heartbeat(Heartbeat { stamp: 1, echo: None }));
            packet.pad_to(size);
            packet.finish()
        };
        let packets: Vec<_> = (1..=PACKETS).map(packet).collect();
        let (mut best_seal, mut best_open, mut length) = (f64::MAX, f64::MAX, 0);
        for _ in 0..TRIES {
            let mut sender = DatagramSealer::new(Run(7), 1);
            let begin = Instant::now();
            let sealed: Vec<_> = packets
                .iter()
                .map(|packet| sender.seal(ring.sealing(), Some(Run(8)), packet).expect("our own"))
                .collect();
            best_seal = best_seal.min(begin.elapsed().as_nanos() as f64 / PACKETS as f64);
            length = sealed[0].len();
            let (mut receiver, mut opened) = (DatagramSealer::new(Run(8), 1), Vec::new());
            let begin = Instant::now();
            for datagram in &sealed {
                receiver.open(&ring, datagram, &mut opened).expect("sealed by a member");
            }
            best_open = best_open.min(begin.elapsed().as_nanos() as f64 / PACKETS as f64);
        }
        let [seal, open, both] = [best_seal, best_open, best_seal + best_open].map(|time| format!("{time:.0} ns"));
        println!("{:>8} {length:>8} {seal:>12} {open:>12} {both:>16}", packets[0].len());
    }
}
