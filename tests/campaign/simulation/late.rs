//! Planted bugs in a cluster that has been at peace for long, so that whatever happens must be known in time.

use std::sync::atomic::Ordering;
use std::time::Duration;

use headcount_campaign::World;
use headcount_campaign::campaign_settings;
use headcount_campaign::invariants::Invariant;
use headcount_core::Profile;
use headcount_core::election::LossReason;
use headcount_core::{Change, ChangeKind, Command, DetectionMethod, Leadership, Output};
use headcount_sim::WorldOptions;

use super::plant::Bug;

const SECOND: Duration = Duration::from_secs(1);
const NODES: usize = 4;
const VOTERS: usize = 3;

/// Returns the promises found broken in a cluster with a bug that is armed after a long peace, after `act` and a while.
fn found_by(plant: Bug, act: impl FnOnce(&mut World)) -> Vec<Invariant> {
    let armed = plant.alarm();
    let lease = Profile::Local.lease_timing();
    let usual = WorldOptions::new(42, NODES, campaign_settings());
    let options = WorldOptions { voters: VOTERS, lease, ..usual };
    let mut world = World::planted(options, true, Some(Box::new(plant)));
    world.run_for(SECOND * 20);
    assert_eq!(world.divergence(), None, "formed, whatever the bug");
    armed.store(true, Ordering::Relaxed);
    act(&mut world);
    world.run_for(SECOND * 15);
    world.violations().iter().map(|violation| violation.invariant).collect()
}

fn nothing(_: &mut World) {}

fn power_off_the_last(world: &mut World) {
    world.power_off(NODES - 1);
}

fn leave_the_last(world: &mut World) {
    world.command(NODES - 1, Command::Leave);
}

fn cut_in_two(world: &mut World) {
    world.partition(&[0, 1], Some(SECOND * 15));
}

/// Returns a bug by which nodes, from the start, wait four times as long as they were told to until a member is Down.
fn patient() -> Bug {
    let plant = Bug::init(|_, init| init.settings.down_timeout *= 4);
    plant.alarm().store(true, Ordering::Relaxed);
    plant
}

#[test]
fn without_a_bug_everything_is_known_in_time() {
    for act in [nothing, power_off_the_last, leave_the_last, cut_in_two] {
        assert_eq!(found_by(Bug::default(), act), []);
    }
}

pub(crate) fn a_death_that_is_found_late() -> Vec<Invariant> {
    found_by(patient(), power_off_the_last)
}

pub(crate) fn a_cut_that_is_found_late() -> Vec<Invariant> {
    found_by(patient(), cut_in_two)
}

pub(crate) fn a_cut_that_is_not_reported() -> Vec<Invariant> {
    let plant = Bug::output(|_, output| match output {
        Output::PartitionSuspected { .. } => Vec::new(),
        other => vec![other],
    });
    found_by(plant, cut_in_two)
}

pub(crate) fn a_member_that_left_and_is_reported_as_down() -> Vec<Invariant> {
    let mut left = None;
    let mut later = 0;
    let plant = Bug::output(move |node, output| {
        if node != 0 {
            return vec![output];
        }
        if let Output::Change(change) = &output
            && matches!(change.kind, ChangeKind::Left(_))
        {
            left = Some(change.clone());
        }
        later += usize::from(left.is_some());
        let down = left.take_if(|_| later == 50).map(|change| {
            let kind = ChangeKind::DetectedDown(DetectionMethod::HeartbeatTimeout);
            Output::Change(Change { kind, ..change })
        });
        [Some(output), down].into_iter().flatten().collect()
    });
    found_by(plant, leave_the_last)
}

pub(crate) fn a_leader_that_steps_down_for_nothing() -> Vec<Invariant> {
    let plant = Bug::output(|_, output| {
        let lost = match &output {
            Output::Leadership(Leadership { leader: Some(leader), term, is_me: true, .. }) => {
                Some(Output::LeaderLost { leader: leader.clone(), term: *term, reason: LossReason::Expired })
            }
            _ => None,
        };
        [Some(output), lost].into_iter().flatten().collect()
    });
    found_by(plant, nothing)
}

pub(crate) fn a_table_without_bound() -> Vec<Invariant> {
    found_by(Bug::sizes(|sizes| sizes.strangers += 1_000_000), nothing)
}
