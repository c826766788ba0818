//! Silence in virtual time: how soon a host without power, or a process that stands still, is Suspect and Down everywhere; which
//! pauses of a process, and of a whole host, evict nobody; and what an idle node sends meanwhile.
//!
//! `cargo bench --bench silence -- 100 0.05 fast lan 40` has the last of 100 nodes of the profile `fast` fall silent in forty clusters of
//! different seeds, at 5 % loss on all links, in a local network (`wan`: 60 to 100 ms one way), and has it stand still for as
//! long as each row says. Without arguments, 100 nodes of the profile `fast` in both networks.
//!
//! Times are p50 / p99 / p99.9 / most over all observers, from the moment of silence. An alarm is a healthy node that anybody held Suspect.

use std::collections::BTreeSet;
use std::time::Duration;

use headcount::Profile;
use headcount::core::ChangeKind;
use headcount::sim::network::{Conditions, Latency};
use headcount::sim::{World, WorldOptions};

const WARM_UP: Duration = Duration::from_secs(20);
const IDLE: Duration = Duration::from_secs(20);

fn main() {
    // Cargo itself passes flags, `--bench` among them.
    let asked: Vec<String> = std::env::args().skip(1).filter(|argument| !argument.starts_with('-')).collect();
    match asked.as_slice() {
        [] => {
            for network in ["lan", "wan"] {
                for loss in [0.0, 0.05, 0.25] {
                    rows(100, loss, Profile::Fast, network, 40);
                }
            }
        }
        [nodes, loss, profile, network, seeds] => rows(
            nodes.parse().expect("a number of nodes"),
            loss.parse().expect("a share of datagrams"),
            profile.parse().expect("a profile"),
            network,
            seeds.parse().expect("a number of clusters"),
        ),
        _ => panic!("NODES LOSS PROFILE lan|wan CLUSTERS"),
    }
}

/// Prints a row for the silence, and one for each pause.
fn rows(nodes: usize, loss: f64, profile: Profile, network: &str, seeds: u64) {
    let settings = profile.settings();
    let (down, host_down) = (settings.down_timeout, settings.host_down_timeout.unwrap_or(settings.down_timeout));
    let of_process = [0.3, 0.6, 0.83, 0.9, 1.0, 2.0].map(|share| Fall::Process(down.mul_f64(share)));
    let of_host = [0.4, 0.6, 0.77, 0.9, 1.0].map(|share| Fall::Host(host_down.mul_f64(share)));
    for fall in [Fall::Power].into_iter().chain(of_process).chain(of_host) {
        let mut seen = Seen::default();
        for seed in 1..=seeds {
            seen.add(seed, nodes, loss, profile, network, fall);
        }
        let what = match fall {
            Fall::Power => "silent".to_owned(),
            Fall::Process(pause) => format!("process stands still for {:.2} s", pause.as_secs_f64()),
            Fall::Host(pause) => format!("host stands still for {:.2} s", pause.as_secs_f64()),
        };
        println!(
            "{nodes} nodes, {profile}, {network}, {:.0} % loss, {what}: Suspect {}, Down {}; evicted {} of {seeds}; alarms {}; \
             {:.0} B/s",
            loss * 100.0,
            quantiles(&mut seen.suspected),
            quantiles(&mut seen.down),
            seen.evicted,
            seen.alarms,
            seen.bytes / seeds as f64,
        );
    }
}

/// What befalls a node.
#[derive(Debug, Clone, Copy)]
enum Fall {
    Power,
    Process(Duration),
    Host(Duration),
}

#[derive(Debug, Default)]
struct Seen {
    /// Seconds until each observer held it Suspect, and Down.
    suspected: Vec<f64>,
    down: Vec<f64>,
    evicted: usize,
    alarms: usize,
    /// Bytes that an idle node sent in a second, headers included, summed over the clusters.
    bytes: f64,
}

impl Seen {
    fn add(&mut self, seed: u64, nodes: usize, loss: f64, profile: Profile, network: &str, fall: Fall) {
        let far = Latency { base: Duration::from_millis(60), jitter: Duration::from_millis(40) };
        let usual = Conditions::default();
        let latency = if network == "wan" { far } else { usual.latency };
        let conditions = Conditions { loss, latency, ..usual };
        let mut world =
            World::formed(WorldOptions { conditions, ..WorldOptions::new(seed, nodes, profile.settings()) });
        world.run_for(WARM_UP);
        let sent = |world: &World| (0..nodes).map(|node| world.sent(node).bytes).sum::<u64>();
        let before = sent(&world);
        world.run_for(IDLE);
        self.bytes += (sent(&world) - before) as f64 / IDLE.as_secs_f64() / nodes as f64;
        // At any moment between two heartbeats.
        world.run_for(Duration::from_millis(seed * 137 % 2_300));
        world.watch();
        let (it, began) = (nodes - 1, world.now());
        match fall {
            Fall::Power => world.power_off(it),
            Fall::Process(pause) => world.pause(it, pause),
            Fall::Host(pause) => world.pause_host(it, pause),
        };
        world.run_for(profile.settings().down_timeout * 2);
        let (mut by, mut accused) = ([BTreeSet::new(), BTreeSet::new()], BTreeSet::new());
        for sighting in world.sightings().iter().filter(|sighting| sighting.observer != it) {
            let (which, times) = match sighting.kind {
                ChangeKind::Suspected => (0, &mut self.suspected),
                ChangeKind::DetectedDown(_) => (1, &mut self.down),
                _ => continue,
            };
            if sighting.subject != it {
                accused.insert(sighting.subject);
            } else if by[which].insert(sighting.observer) {
                times.push(Duration::from_nanos(sighting.at).saturating_sub(began).as_secs_f64());
            }
        }
        self.evicted += usize::from(!by[1].is_empty());
        self.alarms += accused.len();
    }
}

fn quantiles(seconds: &mut [f64]) -> String {
    seconds.sort_by(f64::total_cmp);
    let Some(last) = seconds.len().checked_sub(1) else { return "never".to_owned() };
    let at = |share: f64| seconds[((seconds.len() as f64 * share) as usize).min(last)];
    format!("{:.2} / {:.2} / {:.2} / {:.2} s", at(0.5), at(0.99), at(0.999), at(1.0))
}
