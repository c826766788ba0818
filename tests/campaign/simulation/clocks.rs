//! Clocks that run at different rates, for minutes in which hardly anything is said.

use std::time::Duration;

use headcount_core::ChangeKind;
use headcount_core::Profile;
use headcount_core::limits::MAX_ECHO_HOLD;
use headcount_sim::network::{Conditions, Latency};
use headcount_sim::{World, WorldOptions};

const IDLE: Duration = Duration::from_secs(600);

/// One way. It is always the same: a round trip is learned by an average, in which one straggler is a third of a millisecond.
const LATENCY: Duration = Duration::from_micros(500);

/// The longest round trip: there and back, and the grain of two stamps.
const LONGEST: Duration = Duration::from_micros(1_200);

#[test]
fn no_round_trip_is_invented_by_clocks_that_drift_apart_and_a_crash_is_known_within_a_second() {
    for (ppm, seed) in [(200, 1), (200, 2), (10_000, 3), (10_000, 4)] {
        // Two clocks that are wrong in opposite directions, over the longest time for which an echo teaches anything.
        let error = MAX_ECHO_HOLD * (2 * ppm) / 1_000_000;
        for profile in [Profile::Default, Profile::Lan, Profile::Wan] {
            for nodes in [2, 12] {
                let latency = Latency { base: LATENCY, jitter: Duration::ZERO };
                let conditions = Conditions { latency, ..Conditions::default() };
                let options = WorldOptions::new(seed, nodes, profile.settings());
                let mut world = World::new(WorldOptions { conditions, clock_error_ppm: ppm.into(), ..options });
                world.run_for(IDLE);
                assert_eq!(world.divergence(), None);
                let about = format!("{profile}, {nodes} nodes, {ppm} ppm, seed {seed}");
                let mut known = 0;
                for core in (0..nodes).filter_map(|node| world.core(node)) {
                    for (record, _) in core.records() {
                        let rtt = core.observation(&record.id).and_then(|seen| seen.rtt).unwrap_or_default();
                        known += usize::from(rtt > Duration::ZERO);
                        assert!(rtt <= LONGEST + error, "{about}: {rtt:?} to {}", record.id);
                    }
                }
                assert!(known > 0, "{about}: somebody knows a round trip");
                world.watch();
                world.crash(nodes - 1);
                world.run_for(Duration::from_secs(1));
                let is_down = |kind: ChangeKind| matches!(kind, ChangeKind::DetectedDown(_));
                let reports = world.sightings().iter().filter(|sighting| is_down(sighting.kind));
                assert_eq!(reports.count(), nodes - 1, "{about}: known everywhere within a second");
            }
        }
    }
}
