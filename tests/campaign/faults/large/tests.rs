//! Schedules of the larger campaign: the seed alone decides, and every fault is there.

use super::*;
use std::collections::BTreeSet;

#[test]
fn large_schedules_depend_on_their_seed_alone_and_have_every_fault() {
    let mut kinds = BTreeSet::new();
    let mut most = 0;
    for seed in 0..300 {
        let schedule = Schedule::large(seed);
        assert_eq!(schedule, Schedule::large(seed));
        assert!(schedule.variation.mixed.iter().all(|settings| settings.check().is_ok()));
        assert!(schedule.operations.windows(2).all(|pair| pair[0].0 <= pair[1].0), "in order of time");
        most = most.max(schedule.nodes);
        for (at, operation) in &schedule.operations {
            assert!(*at <= schedule.heal_at && !operation.to_string().is_empty());
            kinds.insert(format!("{:?}", std::mem::discriminant(operation)));
        }
    }
    assert_eq!((kinds.len(), most), (22, 40), "{kinds:?}");
}

/// Returns the longest time before an operation in which nothing happens.
fn longest_peace(schedule: &Schedule) -> Duration {
    let peace = schedule.operations.windows(2).map(|pair| {
        let [(before, operation), (at, _)] = pair else { return Duration::ZERO };
        at.saturating_sub(*before + lasting(operation))
    });
    peace.max().unwrap_or_default()
}

/// Returns the time for which an operation disturbs the world by itself.
fn lasting(operation: &Operation) -> Duration {
    match operation {
        Operation::Firewall(_, lasting)
        | Operation::Pause(_, lasting)
        | Operation::Partition(_, lasting)
        | Operation::Lossy(_, _, lasting)
        | Operation::SetConditions(_, lasting)
        | Operation::Pairs(_, _, lasting)
        | Operation::NoDatagrams(lasting)
        | Operation::Deafen(_, lasting)
        | Operation::JoinAndDie(lasting)
        | Operation::StartAll(_, _, lasting)
        | Operation::StaggeredRestart(_, _, lasting) => *lasting,
        _ => Duration::ZERO,
    }
}

#[test]
fn the_seeds_of_a_usual_run_reach_all_that_the_campaign_is_for() {
    let schedules: Vec<Schedule> = (0..200).map(Schedule::large).collect();
    let worlds = |such: &dyn Fn(&Schedule) -> bool| schedules.iter().filter(|schedule| such(schedule)).count();
    let faults = |such: &dyn Fn(&Operation) -> bool| {
        worlds(&|schedule| schedule.operations.iter().any(|(_, operation)| such(operation)))
    };
    let has_paces = |schedule: &Schedule, pace: fn(&Settings) -> Duration| {
        schedule.variation.mixed.windows(2).any(|pair| pace(&pair[0]) != pace(&pair[1]))
    };
    let reap_after = Duration::from_secs(60);
    let found = [
        ("worlds of 40 nodes", worlds(&|schedule| schedule.nodes == 40), 1),
        ("worlds of more than 20 nodes", worlds(&|schedule| schedule.nodes > 20), 50),
        ("voters", worlds(&|schedule| schedule.voters > 0), 50),
        ("mixed profiles", worlds(&|schedule| has_paces(schedule, |settings| settings.down_timeout)), 10),
        ("mixed heartbeats", worlds(&|schedule| has_paces(schedule, |settings| settings.heartbeat_interval)), 20),
        (
            "mixed observers",
            worlds(&|schedule| schedule.variation.mixed.windows(2).any(|pair| pair[0].observers != pair[1].observers)),
            10,
        ),
        ("drifting clocks", worlds(&|schedule| schedule.variation.clock_error_ppm == DRIFT_PPM), 20),
        (
            "faults with drifting clocks, after a minute of peace",
            worlds(&|schedule| {
                schedule.variation.clock_error_ppm == DRIFT_PPM && longest_peace(schedule) >= Duration::from_secs(60)
            }),
            15,
        ),
        ("IPv6", worlds(&|schedule| schedule.variation.ipv6), 20),
        ("long pauses", faults(&|fault| matches!(fault, Operation::Pause(_, lasting) if *lasting > reap_after)), 20),
        ("addresses used again", faults(&|fault| matches!(fault, Operation::Inherit { named_alike: false, .. })), 3),
        ("names used again", faults(&|fault| matches!(fault, Operation::Inherit { named_alike: true, .. })), 3),
        ("names shared", faults(&|fault| matches!(fault, Operation::Twin(_))), 10),
        ("many that leave", faults(&|fault| matches!(fault, Operation::MassLeave(_))), 20),
        ("many that crash", faults(&|fault| matches!(fault, Operation::MassCrash(_))), 20),
        ("many without power", faults(&|fault| matches!(fault, Operation::MassPowerOff(_))), 10),
        ("crashes after joining", faults(&|fault| matches!(fault, Operation::JoinAndDie(_))), 20),
        ("pairs", faults(&|fault| matches!(fault, Operation::Pairs(_, CutTraffic::Everything, _))), 3),
        ("datagrams of pairs", faults(&|fault| matches!(fault, Operation::Pairs(_, CutTraffic::Datagrams, _))), 3),
        ("connections of pairs", faults(&|fault| matches!(fault, Operation::Pairs(_, CutTraffic::Connections, _))), 3),
        ("no datagrams", faults(&|fault| matches!(fault, Operation::NoDatagrams(_))), 10),
        ("deaf nodes", faults(&|fault| matches!(fault, Operation::Deafen(..))), 10),
        ("firewalls", faults(&|fault| matches!(fault, Operation::Firewall(..))), 10),
        (
            "late packets",
            faults(&|fault| matches!(fault, Operation::SetConditions(Conditions { late: Some(_), .. }, _))),
            10,
        ),
        ("links reset", faults(&|fault| matches!(fault, Operation::ResetLinks(_))), 10),
    ];
    for (what, found, least) in found {
        assert!(found >= least, "{found} of 200 worlds have {what}");
    }
}
