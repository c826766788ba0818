//! False suspicions of healthy nodes under datagram loss: a formed cluster in which nothing happens but loss.
//!
//! `cargo bench --bench alarms -- 100 50000 0.05 default 8` runs 100 nodes, of the default profile, at 5 % loss on all
//! links, for 50,000 node-hours in eight clusters of different seeds; without arguments, a short look at `default` and
//! `lan` at 5 % and 25 %.
//!
//! With `HEADCOUNT_ALARMS` in the environment, the first report of each alarm is printed.
//!
//! One alarm is an incarnation of a node that any other node held Suspect (or Down): the refutation raises the
//! incarnation. Alarms are counted, and so are the nodes that believed them. The upper bounds are those of a Poisson
//! process at 95 % confidence, which for no alarm at all is three in the whole time.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use headcount::Profile;
use headcount::core::ChangeKind;
use headcount::sim::network::Conditions;
use headcount::sim::{Sighting, World, WorldOptions};

const SECONDS_PER_HOUR: f64 = 3_600.0;
const HOURS_PER_MONTH: f64 = 730.0;

fn main() {
    // Cargo itself passes flags, `--bench` among them.
    let asked: Vec<String> = std::env::args().skip(1).filter(|argument| !argument.starts_with('-')).collect();
    if asked.is_empty() {
        for profile in [Profile::Default, Profile::Lan] {
            for loss in [0.05, 0.25] {
                measure(100, 1_000.0, loss, profile, 1);
            }
        }
        return;
    }
    let [nodes, hours, loss, profile, clusters] = asked.as_slice() else {
        panic!("NODES NODE_HOURS LOSS PROFILE CLUSTERS");
    };
    measure(
        nodes.parse().expect("a number of nodes"),
        hours.parse().expect("node-hours"),
        loss.parse().expect("a share of datagrams"),
        profile.parse().expect("a profile"),
        clusters.parse().expect("a number of clusters"),
    );
}

fn measure(nodes: usize, node_hours: f64, loss: f64, profile: Profile, clusters: u64) {
    let began = Instant::now();
    let lasting = Duration::from_secs_f64(node_hours * SECONDS_PER_HOUR / nodes as f64 / clusters as f64);
    let (mut suspected, mut down, mut believed) = (0, 0, 0);
    for seed in 1..=clusters {
        let conditions = Conditions { loss, ..Conditions::default() };
        let options = WorldOptions { conditions, ..WorldOptions::new(seed, nodes, profile.settings()) };
        let mut world = World::formed(options);
        world.watch();
        world.run_for(lasting);
        let alarms = |is_it: fn(&ChangeKind) -> bool| {
            let sightings = world.sightings().iter().filter(|sighting| is_it(&sighting.kind));
            sightings.map(|sighting| (sighting.subject, sighting.incarnation)).collect::<BTreeSet<_>>().len() as u64
        };
        if std::env::var_os("HEADCOUNT_ALARMS").is_some() {
            let told = |kind: &ChangeKind| matches!(kind, ChangeKind::Suspected | ChangeKind::DetectedDown(_));
            let mut seen = BTreeSet::new();
            for sighting in world.sightings().iter().filter(|sighting| told(&sighting.kind)) {
                if seen.insert((sighting.subject, sighting.incarnation, format!("{:?}", sighting.kind))) {
                    println!("  seed {seed}: {sighting:?}");
                }
            }
        }
        let is_suspicion = |sighting: &&Sighting| sighting.kind == ChangeKind::Suspected;
        believed += world.sightings().iter().filter(is_suspicion).count();
        suspected += alarms(|kind| matches!(kind, ChangeKind::Suspected | ChangeKind::DetectedDown(_)));
        down += alarms(|kind| matches!(kind, ChangeKind::DetectedDown(_)));
    }
    let months = node_hours / HOURS_PER_MONTH;
    println!(
        "{nodes} nodes, {profile}, {:.0} % loss, {node_hours:.0} node-hours ({months:.1} node-months): {suspected} suspected, \
         believed {believed} times, at most {:.3} a node-month; {down} Down, at most {:.3}; in {:.0?}",
        loss * 100.0,
        most(suspected) / months,
        most(down) / months,
        began.elapsed()
    );
}

/// Returns the largest mean for which a Poisson process shows this few events in one of twenty cases.
fn most(events: u64) -> f64 {
    let at_most = |mean: f64| {
        let mut term = (-mean).exp();
        let mut sum = term;
        for event in 1..=events {
            term *= mean / event as f64;
            sum += term;
        }
        sum
    };
    let (mut low, mut high) = (events as f64, 3.0 * events as f64 + 10.0);
    while high - low > 1e-3 {
        let middle = f64::midpoint(low, high);
        if at_most(middle) > 0.05 { low = middle } else { high = middle }
    }
    high
}
