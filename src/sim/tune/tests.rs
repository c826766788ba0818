//! Settings that are proposed for a goal, and what becomes of goals that cannot be met.

use proptest::prelude::*;

use super::*;
use crate::scenario::{Scenario, ScenarioOptions, run_scenario};

fn goal() -> Goal {
    Goal {
        rtt: Duration::from_millis(80),
        loss: 0.02,
        nodes: 200,
        detect_within: Duration::from_secs(20),
        false_alarms: 0.1,
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn a_proposal_passes_the_checks_and_keeps_its_promises(
        rtt in 0u64..2_000, loss in 0.0..0.4, nodes in 2usize..5_000, within in 500u64..600_000, alarms in 1e-6..10.0,
    ) {
        let goal = Goal {
            rtt: Duration::from_millis(rtt), loss, nodes,
            detect_within: Duration::from_millis(within), false_alarms: alarms,
        };
        match propose(&goal) {
            Ok(Proposal { settings, expected }) => {
                prop_assert_eq!(settings.check(), Ok(()));
                prop_assert!(expected.suspicions <= alarms && expected.deaths <= expected.suspicions);
                prop_assert!(expected.down_within <= goal.detect_within);
                prop_assert!(settings.probe_timeout >= goal.rtt);
            }
            // The goal that is called feasible is.
            Err(Infeasible::TooSoon { nearest, .. } | Infeasible::TooLossy { nearest: Some(nearest), .. }) => {
                let nearer = Goal { detect_within: nearest, ..goal };
                prop_assert!(nearest > goal.detect_within);
                prop_assert!(!matches!(propose(&nearer), Err(Infeasible::TooSoon { .. })), "{:?}", propose(&nearer));
            }
            Err(Infeasible::TooLossy { nearest: None, .. }) => {}
            Err(other) => prop_assert!(false, "{other}"),
        }
    }
}

#[test]
fn the_nearest_figure_is_feasible_although_the_least_ends_in_a_fraction_of_a_millisecond() {
    let soon = Goal { rtt: Duration::from_millis(1_999), loss: 0.0, nodes: 216, ..goal() };
    let error = propose(&Goal { detect_within: Duration::from_millis(500), ..soon }).expect_err("too soon");
    let Infeasible::TooSoon { nearest, .. } = error else { panic!("{error}") };
    assert!(!matches!(propose(&Goal { detect_within: nearest, ..soon }), Err(Infeasible::TooSoon { .. })));
}

#[test]
fn more_loss_more_haste_and_fewer_alarms_cost_bytes() {
    let bytes = |goal: Goal| propose(&goal).expect("feasible").expected.bytes;
    let usual = bytes(goal());
    assert!(bytes(Goal { detect_within: Duration::from_secs(3), ..goal() }) > usual);
    let often = Goal { nodes: 3, loss: 0.4, detect_within: Duration::from_secs(3), ..goal() };
    assert!(bytes(Goal { false_alarms: 0.01, ..often }) > bytes(Goal { false_alarms: 1e5, ..often }));
}

#[test]
fn what_is_impossible_is_refused_with_the_nearest_figure() {
    let error = propose(&Goal { detect_within: Duration::from_secs(1), ..goal() }).expect_err("too soon");
    let Infeasible::TooSoon { nearest, .. } = error else { panic!("{error}") };
    assert!((Duration::from_secs(2)..Duration::from_secs(6)).contains(&nearest), "{nearest:?}");
    let lossy = Goal { nodes: 2, loss: 0.45, detect_within: Duration::from_secs(3), false_alarms: 1e-9, ..goal() };
    let error = propose(&lossy).expect_err("too lossy");
    assert!(matches!(error, Infeasible::TooLossy { .. }) && error.to_string().contains("45.0 % loss"), "{error}");
    for wrong in [Goal { loss: f64::NAN, ..goal() }, Goal { nodes: 1, ..goal() }, Goal { false_alarms: 0.0, ..goal() }]
    {
        assert!(matches!(propose(&wrong), Err(Infeasible::OutOfRange { .. })));
    }
}

/// By the figures of the requirement, 5 % loss causes thousands of silences a month, and no accusation.
#[test]
fn the_default_profile_rarely_accuses_anybody_by_the_model() {
    let lossy = Goal { loss: 0.05, ..goal() };
    assert!(expect(&Settings::default(), &lossy).suspicions < 1e-6);
    let quarter = expect(&Settings::default(), &Goal { loss: 0.25, ..goal() });
    assert!((1e-12..1e-9).contains(&quarter.suspicions), "{quarter:?}");
}

#[test]
fn the_model_costs_what_the_simulator_measures() {
    for (nodes, profile) in [(5, Profile::Default), (11, Profile::Lan), (40, Profile::Default), (40, Profile::Lan)] {
        let options = ScenarioOptions { formed: true, ..ScenarioOptions::new(Scenario::Join, nodes, profile) };
        let measured = run_scenario(&options).idle.bytes;
        let expected = expect(&options.settings, &Goal { nodes, ..goal() }).bytes;
        let ratio = expected / measured;

        assert!((0.85..1.15).contains(&ratio), "{profile} of {nodes}: {expected:.0} B/s, measured {measured:.0} B/s");
    }
}

/// The model and the simulator agree about the order of magnitude of false alarms, where these are frequent enough
/// to be counted.
#[test]
fn the_model_is_of_the_right_order_where_alarms_can_be_counted() {
    let (loss, nodes) = (0.5, 3);
    let settings = Profile::Local.settings();
    let latency = Duration::from_micros(500);
    let mut options =
        ScenarioOptions { loss, formed: true, ..ScenarioOptions::new(Scenario::Join, nodes, Profile::Local) };
    options.idle = Some(Duration::from_secs(7_200));
    let report = run_scenario(&options);
    let months = report.node_time.as_secs_f64() / MONTH.as_secs_f64();
    let measured = report.false_alarms.suspicions as f64 / months;
    let expected = expect(&settings, &Goal { loss, nodes, rtt: latency * 2, ..goal() }).suspicions;
    assert!((0.1..10.0).contains(&(measured / expected)), "expected {expected:.0}, measured {measured:.0} a month");
}
