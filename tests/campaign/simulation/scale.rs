//! A thousand nodes, and the faults that are worth seeing at more than a handful: nobody who is well is declared Down,
//! whoever is gone is Down everywhere, and afterwards all agree.

use std::collections::BTreeSet;
use std::time::Duration;

use headcount_campaign::campaign_settings;
use headcount_campaign::faults::{DiskFate, Operation};
use headcount_core::ChangeKind;
use headcount_core::{Profile, Settings};
use headcount_sim::network::{Burst, Conditions, NodeLoss, NodeSet};
use headcount_sim::scenario::{Scenario, ScenarioOptions, run_scenario, run_scenario_telling};
use headcount_sim::{World, WorldOptions};

fn formed(nodes: usize, settings: Settings) -> World {
    let options = WorldOptions::new(1, nodes, settings);
    let mut world = World::formed(options);
    assert_eq!(world.divergence(), None, "formed");
    world.run_for(Duration::from_secs(3));
    assert_eq!(world.divergence(), None, "and staying so");
    world
}

fn agree_within(world: &mut World, patience: Duration) {
    let deadline = world.now() + patience;
    let agreed = world.run_while(deadline, Duration::from_millis(50), |world| world.divergence().is_some());
    assert!(agreed, "{:?}", world.divergence());
}

/// Returns every report of a death: the observer that reports it, and the node that is meant.
fn deaths(world: &World) -> BTreeSet<(usize, usize)> {
    let deaths = world.sightings().iter().filter(|sighting| matches!(sighting.kind, ChangeKind::DetectedDown(_)));
    deaths.map(|sighting| (sighting.observer, sighting.subject)).collect()
}

#[test]
fn a_thousand_nodes_notice_ten_crashes_and_nothing_else() {
    let nodes = 1_000;
    let mut world = formed(nodes, Profile::Lan.settings());
    world.watch();
    let dead: Vec<usize> = (0..10).map(|nth| 90 + nth * 97).collect();
    assert!(Operation::MassCrash(dead.clone()).apply(&mut world));
    world.run_for(Profile::Lan.settings().down_timeout + Duration::from_millis(500));
    let expected: BTreeSet<(usize, usize)> = (0..nodes)
        .filter(|observer| !dead.contains(observer))
        .flat_map(|observer| dead.iter().map(move |subject| (observer, *subject)))
        .collect();
    assert_eq!(deaths(&world), expected, "all ten, everywhere, and nobody else");
    assert_eq!(world.divergence(), None);
}

#[test]
fn a_formed_cluster_is_one_that_has_joined() {
    let options = WorldOptions::new(4, 9, campaign_settings());
    let mut world = headcount_campaign::World::formed(options);
    assert_eq!(world.divergence(), None);
    for node in 0..9 {
        let core = world.core(node).expect("it runs");
        assert!(core.is_up());
        assert_eq!(core.records().count(), 9, "the sponsor is no member");
    }
    world.run_for(Duration::from_secs(5));
    world.crash(4);
    world.run_for(Duration::from_secs(10));
    world.start(4);
    agree_within(&mut world, Duration::from_secs(10));
    assert_eq!(world.violations(), [], "every promise is checked here");
}

#[test]
fn nodes_whose_words_are_mostly_lost_bring_nobody_else_down() {
    let lossy = [37, 99];
    let lasting = Duration::from_secs(30);
    let mut world = formed(100, Profile::Local.settings());
    world.watch();
    for node in lossy {
        world.set_node_loss(node, NodeLoss { outgoing: 0.8, incoming: 0.0 }, lasting);
    }
    world.run_for(lasting);
    let wrong: Vec<_> = deaths(&world).into_iter().filter(|(_, subject)| !lossy.contains(subject)).collect();
    assert_eq!(wrong, [], "nobody who is well is Down anywhere");
    agree_within(&mut world, Duration::from_secs(10));
}

#[test]
fn links_that_come_and_go_bring_nobody_who_is_well_down_at_anybody_who_is_well() {
    let deaf = [41];
    let period = Duration::from_secs(20);
    let mut world = formed(100, Profile::Default.settings());
    world.watch();
    let side = NodeSet::of(&deaf);
    world.cut_in_turns(side.rest(), side, period, period * 5);
    world.run_for(period * 5);
    let well = |node: &usize| !deaf.contains(node);
    let wrong: Vec<_> =
        deaths(&world).into_iter().filter(|(observer, subject)| well(observer) && well(subject)).collect();
    assert_eq!(wrong, []);
    agree_within(&mut world, Duration::from_secs(30));
}

#[test]
fn a_link_that_is_cut_both_ways_makes_no_suspicion() {
    let mut world = formed(40, Profile::Local.settings());
    world.watch();
    for other in 1..40 {
        let (one, two) = (NodeSet::of(&[0]), NodeSet::of(&[other]));
        world.cut(one.clone(), two.clone(), Some(Duration::from_secs(5)));
        world.cut(two, one, Some(Duration::from_secs(5)));
        world.run_for(Duration::from_secs(6));
    }
    let suspicions = world.sightings().iter().filter(|sighting| sighting.kind == ChangeKind::Suspected).count();
    assert_eq!((deaths(&world), suspicions), (BTreeSet::new(), 0), "somebody else heard it");
}

#[test]
fn one_node_in_five_that_handles_everything_late_is_not_declared_down() {
    let settings = Profile::Local.settings();
    let mut world = formed(20, settings.clone());
    world.watch();
    for node in (4..20).step_by(5) {
        world.slow(node, settings.heartbeat_interval, Duration::from_secs(30));
    }
    world.run_for(Duration::from_secs(30));
    assert_eq!(deaths(&world), BTreeSet::new());
    agree_within(&mut world, Duration::from_secs(10));
}

#[test]
fn losses_that_come_together_bring_nobody_down() {
    let mut world = formed(20, Profile::Local.settings());
    world.watch();
    let burst = Some(Burst { begin: 0.02, end: 0.2, loss: 0.9 });
    world.disturb(Conditions { burst, ..Conditions::default() }, Duration::from_secs(60));
    world.run_for(Duration::from_secs(60));
    assert_eq!(deaths(&world), BTreeSet::new());
    agree_within(&mut world, Duration::from_secs(10));
}

#[test]
fn a_cluster_that_is_restarted_as_a_whole_is_one_cluster_again() {
    for seed in 0..5 {
        let options = WorldOptions::new(seed, 30, campaign_settings());
        let mut world = headcount_campaign::World::formed(options);
        world.run_for(Duration::from_secs(2));
        let all = (0..30).collect();
        Operation::StaggeredRestart(all, DiskFate::Kept, Duration::from_secs(2)).apply(&mut world);
        world.run_for(Duration::from_secs(2));
        agree_within(&mut world, Duration::from_secs(10));
        assert_eq!(world.violations(), [], "seed {seed}");
    }
}

#[test]
fn looking_at_a_run_does_not_change_it() {
    let options = ScenarioOptions::new(Scenario::Crash, 6, Profile::Local);
    let mut looks = 0;
    let report = run_scenario_telling(&options, &mut |progress| {
        assert!((0.0..=1.0).contains(&progress.done));
        looks += 1;
    });
    assert!(looks > 100 && looks == report.samples.len(), "{looks} looks");
    // A run that stops nowhere: formed, watched, crashed at the same times.
    let mut world = World::new(WorldOptions::new(1, 6, Profile::Local.settings()));
    world.run_until(report.happened_at);
    world.crash(5);
    world.run_until(report.time);
    assert_eq!(world.trace(), report.trace);
    assert_eq!(run_scenario(&options), report);
}
