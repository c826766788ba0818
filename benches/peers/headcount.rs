//! headcount: the simulator's own world, without its checks.

use std::time::Duration;

use headcount::core::{ChangeKind, Command, Status};
use headcount::sim::{World, WorldOptions};
use headcount::{Profile, Tags};

use super::cluster::{Cluster, Conditions, Death, Disturbance, Sighting, Traffic, Verdict};

/// Longer than any measurement here.
const FOR_EVER: Duration = Duration::from_secs(1 << 32);

/// A world of headcount's cores.
pub(crate) struct Nodes {
    world: World,
    told: usize,
    changes: u64,
}

impl Nodes {
    pub(crate) fn new(nodes: usize, seed: u64, conditions: Conditions, profile: Profile) -> Self {
        let mut options = WorldOptions::new(seed, nodes, profile.settings());
        options.conditions = conditions;
        options.clock_error_ppm = 0;
        let mut world = World::new(options);
        world.watch();
        Self { world, told: 0, changes: 0 }
    }
}

impl Cluster for Nodes {
    fn now(&self) -> Duration {
        self.world.now()
    }

    fn advance(&mut self, by: Duration) {
        self.world.run_for(by);
        assert_eq!(self.world.stuck(), None);
    }

    fn boot(&mut self) -> usize {
        self.world.add_node()
    }

    fn kill(&mut self, node: usize, death: Death) {
        if death == Death::Host {
            // Nor does anything get out that a kernel would still send for the dead process.
            self.world.partition(&[node], None);
        }
        assert!(self.world.crash(node), "only the living die");
    }

    fn disturb_process(&mut self, node: usize, disturbance: Disturbance, lasting: Duration) {
        match disturbance {
            Disturbance::Stopped => {
                self.world.pause(node, lasting);
            }
            Disturbance::Starved(by) => {
                self.world.slow(node, by, lasting);
            }
            Disturbance::Blocked => self.world.hold(node, lasting),
            Disturbance::CutOff => self.world.partition(&[node], Some(lasting)),
        }
    }

    fn change(&mut self, node: usize) {
        self.changes += 1;
        let tag = ("note".to_owned(), self.changes.to_string());
        let tags = Tags::new([tag].into()).expect("one short tag");
        let ticket = self.world.ticket();
        self.world.command(node, Command::SetTags { ticket, tags });
    }

    fn disturb(&mut self, conditions: Conditions) {
        self.world.disturb(conditions, FOR_EVER);
    }

    fn lists(&self, observer: usize, subject: usize) -> bool {
        let held = self.world.core(observer).filter(|core| core.is_up());
        held.and_then(|core| core.record(self.world.id(subject))).is_some_and(|record| record.status == Status::Up)
    }

    fn sightings(&mut self) -> Vec<Sighting> {
        let new = &self.world.sightings()[self.told..];
        self.told += new.len();
        let others = new.iter().filter(|sighting| sighting.observer != sighting.subject);
        let verdicts = others.filter_map(|sighting| {
            let verdict = match sighting.kind {
                ChangeKind::Joined | ChangeKind::Recovered => Verdict::Up,
                ChangeKind::DetectedDown(_) => Verdict::Down,
                ChangeKind::Updated => Verdict::Changed,
                _ => return None,
            };
            let at = Duration::from_nanos(sighting.at);
            Some(Sighting { at, observer: sighting.observer, subject: sighting.subject, verdict })
        });
        verdicts.collect()
    }

    fn traffic(&self, node: usize) -> Traffic {
        self.world.sent(node)
    }
}
