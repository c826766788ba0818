//! The time and cost of broadcasts: the time until all nodes know one, the packets and bytes that each node spends on
//! it, the number of duplicate copies, and the messages lost for good.
//!
//! `cargo bench --bench messages` prints the table; `--quick` is a smoke test. Everything is in virtual time, and the
//! same on every machine.

use std::collections::BTreeMap;
use std::time::Duration;

use headcount::Profile;
use headcount::core::{Command, MessageId, Output, Payload, Topic};
use headcount::sim::network::{Conditions, Latency};
use headcount::sim::watch::Watch;
use headcount::sim::{World, WorldOptions};

/// Time within which a broadcast reaches every node, if it ever does.
const LIFE: Duration = Duration::from_secs(11);
const STEP: Duration = Duration::from_millis(1);

fn main() {
    let quick = std::env::args().any(|argument| argument == "--quick");
    println!("one broadcast of 40 bytes, profile lan, 1 ms one way (up to 0.2 ms more)\n");
    println!("nodes  loss  p50 ms  p99 ms  all ms  packets/node  bytes/node  copies/node  again/node  missed");
    let sizes: &[usize] = if quick { &[10, 50] } else { &[10, 100, 1_000] };
    for nodes in sizes {
        for loss in [0.0, 0.05, 0.2] {
            let rounds = match (quick, *nodes) {
                (true, _) => 2,
                (false, 1_000) => 5,
                (false, _) => 20,
            };
            measure(*nodes, loss, rounds);
        }
    }
}

/// Messages given to each node since the list was last emptied.
#[derive(Debug, Default)]
struct Ear(Vec<(usize, MessageId)>);

impl Watch for Ear {
    fn on_output(&mut self, _world: &World, node: usize, output: &Output) {
        if let Output::Message(message) = output {
            self.0.push((node, message.id));
        }
    }
}

fn traffic(world: &World) -> (u64, u64) {
    let sent = (0..world.nodes()).map(|node| world.sent(node));
    sent.fold((0, 0), |(packets, bytes), sent| (packets + sent.packets, bytes + sent.bytes))
}

fn measure(nodes: usize, loss: f64, rounds: usize) {
    let latency = Latency { base: Duration::from_millis(1), jitter: Duration::from_micros(200) };
    let options = WorldOptions {
        conditions: Conditions { latency, loss, ..Conditions::default() },
        ..WorldOptions::new(7, nodes, Profile::Lan.settings())
    };
    let mut world = World::watched(options, Ear::default()).form();
    world.run_for(Duration::from_secs(30));
    let before = traffic(&world);
    world.run_for(LIFE * 2);
    let after = traffic(&world);
    let idle = ((after.0 - before.0) as f64 / 2.0, (after.1 - before.1) as f64 / 2.0);
    let (mut times, mut all, mut missed) = (Vec::new(), Vec::new(), 0);
    let (mut packets, mut bytes, mut copies, mut again) = (0.0, 0.0, 0, 0);
    for round in 0..rounds {
        let before = traffic(&world);
        let copies_before = received(&world);
        let (began, ticket) = (world.now(), world.ticket());
        let topic = Topic::new("t").expect("a topic");
        let payload = Payload::new(&[7; 40]).expect("small");
        world.command(round * 7 % nodes, Command::Broadcast { ticket, topic, payload });
        let mut known: BTreeMap<usize, Duration> = BTreeMap::new();
        while world.now() < began + LIFE {
            if known.len() < nodes {
                world.run_for(STEP);
                let since = world.now().saturating_sub(began);
                let heard = &mut world.watched_by_mut::<Ear>().expect("it listens").0;
                for (node, _) in std::mem::take(heard) {
                    assert!(known.insert(node, since).is_none(), "twice");
                }
            } else {
                world.run_until(began + LIFE);
            }
        }
        missed += nodes - known.len();
        all.extend(known.values().max().copied());
        times.extend(known.into_values());
        let after = traffic(&world);
        packets += (after.0 - before.0) as f64 - idle.0;
        // Headers are counted already.
        bytes += (after.1 - before.1) as f64 - idle.1;
        let copies_after = received(&world);
        copies += copies_after.0 - copies_before.0;
        again += copies_after.1 - copies_before.1;
    }
    times.sort_unstable();
    all.sort_unstable();
    let ms = |time: Option<&Duration>| time.map_or(f64::NAN, |time| time.as_secs_f64() * 1_000.0);
    let per = (rounds * nodes) as f64;
    println!(
        "{nodes:5}  {:3.0}%  {:6.0}  {:6.0}  {:6.0}  {:12.2}  {:10.0}  {:11.2}  {:10.2}  {missed}",
        loss * 100.0,
        ms(times.get(times.len() / 2)),
        ms(times.get(times.len() * 99 / 100)),
        ms(all.last()),
        packets / per,
        bytes / per,
        copies as f64 / per,
        again as f64 / per,
    );
}

/// Returns the number of copies that all nodes received, and of those that they had already.
fn received(world: &World) -> (u64, u64) {
    let counters = (0..world.nodes()).filter_map(|node| world.core(node)).map(|core| core.counters().messages);
    counters.fold((0, 0), |(all, again), messages| (all + messages.received, again + messages.duplicate))
}
