//! Suspicions end: after a down timeout a suspected member has refuted, or it is Down.
//!
//! Must not know: the cause of a suspicion, or the health of a suspected member.

use std::collections::BTreeMap;
use std::time::Duration;

use super::run_checker::Finding;
use super::{Invariant, Observation};
use headcount_core::{Run, Status};
use headcount_sim::in_short;
use headcount_sim::nanos;
use headcount_sim::network::Nanos;

/// Tolerance beyond the timeout and one part in twenty for slow clocks: views are not looked at at every instant.
const TOLERANCE: Duration = Duration::from_secs(1);

/// Members that each node holds Suspect, with the beginning of each suspicion.
#[derive(Debug, Default)]
pub(super) struct Suspicions {
    held: BTreeMap<(usize, Run, u64), Held>,
}

#[derive(Debug)]
struct Held {
    since: Nanos,
    /// The largest factor by which the observer has stretched its timeouts meanwhile.
    stretch: u32,
}

impl Suspicions {
    /// Checks a node that has been running well since `well_since`; for `None`, suspicions are only noted, as if they
    /// had just begun.
    pub(super) fn look(
        &mut self,
        now: Nanos,
        node: usize,
        observation: &Observation,
        stretch: u32,
        well_since: Option<Nanos>,
    ) -> Option<Finding> {
        let is_suspect = |record: &&std::sync::Arc<headcount_core::Record>| record.status == Status::Suspect;
        let suspects: Vec<_> = observation.records.iter().filter(is_suspect).collect();
        let is_held = |run: Run, incarnation: u64| {
            suspects.iter().any(|record| (record.run, record.incarnation) == (run, incarnation))
        };
        self.held.retain(|(by, run, incarnation), _| *by != node || is_held(*run, *incarnation));
        let well_since = well_since.filter(|_| observation.is_up);
        let mut finding = None;
        for record in suspects {
            let key = (node, record.run, record.incarnation);
            let held = self.held.entry(key).or_insert(Held { since: now, stretch });
            held.stretch = held.stretch.max(stretch);
            let Some(well_since) = well_since else {
                held.since = now;
                continue;
            };
            let patience = record.timing.down_timeout() * held.stretch;
            let allowed = nanos(patience + patience / 20 + TOLERANCE);
            let lasting = now - held.since.max(well_since);
            if lasting > allowed {
                let detail = format!("{} for {:.1?}", in_short(record), Duration::from_nanos(lasting));
                finding = finding.or(Some((Invariant::SuspicionsEnd, detail)));
            }
        }
        finding
    }

    /// Takes note that a process is gone.
    pub(super) fn gone(&mut self, node: usize) {
        self.held.retain(|(by, ..), _| *by != node);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use headcount_core::{NodeId, Profile, ProtocolRange, Record, Tags};

    fn record(name: &str, incarnation: u64, status: Status) -> Record {
        Record {
            id: NodeId::new(name).expect("a good name"),
            run: Run(7),
            incarnation,
            status,
            address: "10.0.0.1:7117".parse().expect("an address"),
            api_address: None,
            tags: Tags::default(),
            timing: Profile::Local.settings().timing().expect("the profile's"),
            version: "0.1.0".into(),
            protocol: ProtocolRange::OURS,
        }
    }

    #[test]
    fn a_suspicion_that_outlives_its_time_is_found_and_one_that_changes_is_not() {
        let observation = |incarnation: u64| {
            let (me, other) = (record("a", 1, Status::Up), record("b", incarnation, Status::Suspect));
            let records = vec![Arc::new(me.clone()), Arc::new(other)];
            Observation { me: Arc::new(me), is_up: true, fingerprint: 0, records }
        };
        let down = record("b", 1, Status::Suspect).timing.down_timeout();
        let look = |suspicions: &mut Suspicions, at: Duration, incarnation: u64, stretch: u32| {
            suspicions.look(nanos(at), 0, &observation(incarnation), stretch, Some(0)).is_some()
        };
        let mut suspicions = Suspicions::default();
        assert!(!look(&mut suspicions, Duration::ZERO, 1, 1));
        assert!(!look(&mut suspicions, down, 1, 1));
        assert!(!look(&mut suspicions, down * 2, 2, 1), "another suspicion");
        assert!(!look(&mut suspicions, down * 4, 2, 3), "a node that doubts itself takes its time");
        assert!(look(&mut suspicions, down * 6, 2, 1));
        suspicions.gone(0);
        assert!(!look(&mut suspicions, down * 9, 2, 1));
    }
}
