//! Planted bugs in what nodes say and show, and in their lives. Each returns the promises that were found broken.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use headcount_campaign::World;
use headcount_campaign::faults::{Operation, Schedule, Talk, Variation};
use headcount_campaign::invariants::Invariant;
use headcount_campaign::{campaign_settings, run_schedule};
use headcount_core::wire::{Message, Packet, PacketBuilder};
use headcount_core::{Change, ChangeKind, Command, LeaveReason, Output, Record, StopReason};
use headcount_core::{Run, Status, Tags};
use headcount_sim::WorldOptions;

use super::plant::Bug;

const NODES: usize = 4;

/// Returns the promises found broken in a formed cluster of four with a bug in it, armed once it is formed; then come
/// `act`, and a while.
fn found_by(plant: Bug, act: impl FnOnce(&mut World)) -> Vec<Invariant> {
    let armed = plant.alarm();
    let options = WorldOptions::new(42, NODES, campaign_settings());
    let mut world = World::with_bug(options, plant);
    world.run_for(Duration::from_secs(5));
    assert_eq!(world.divergence(), None, "formed before the bug");
    assert_eq!(world.violations(), [], "nothing is wrong before the bug");
    armed.store(true, Ordering::Relaxed);
    act(&mut world);
    world.run_for(Duration::from_secs(12));
    world.violations().iter().map(|violation| violation.invariant).collect()
}

fn nothing(_: &mut World) {}

fn crash_the_last(world: &mut World) {
    world.crash(NODES - 1);
}

fn leave_the_last(world: &mut World) {
    world.command(NODES - 1, Command::Leave);
}

fn restart_the_last(world: &mut World) {
    world.crash(NODES - 1);
    world.run_for(Duration::from_secs(4));
    world.start(NODES - 1);
}

fn join_one(world: &mut World) {
    world.add_node();
}

fn altered(records: &mut [Arc<Record>], position: usize, alter: impl FnOnce(&mut Record)) {
    let mut record = Record::clone(&records[position]);
    alter(&mut record);
    records[position] = Arc::new(record);
}

/// Returns the change, if an output is one of this kind at node 0.
fn change_at_first(node: usize, output: &Output, is_it: fn(ChangeKind) -> bool) -> Option<Change> {
    match output {
        Output::Change(change) if node == 0 && is_it(change.kind) => Some(change.clone()),
        _ => None,
    }
}

const fn is_down(kind: ChangeKind) -> bool {
    matches!(kind, ChangeKind::DetectedDown(_))
}

#[test]
fn without_a_bug_nothing_is_found() {
    for act in [nothing, crash_the_last, leave_the_last, restart_the_last, join_one] {
        assert_eq!(found_by(Bug::default(), act), []);
    }
}

pub(crate) fn a_malformed_record() -> Vec<Invariant> {
    let plant = Bug::look(|seen| altered(&mut seen.records, 1, |record| record.incarnation = u64::MAX));
    found_by(plant, nothing)
}

pub(crate) fn a_record_listed_twice() -> Vec<Invariant> {
    let plant = Bug::look(|seen| seen.records.insert(2, Arc::clone(&seen.records[1])));
    found_by(plant, nothing)
}

pub(crate) fn tags_written_by_somebody_else() -> Vec<Invariant> {
    let plant = Bug::look(|seen| {
        let tags = std::collections::BTreeMap::from([("k".to_owned(), "v".to_owned())]);
        let me = Record { tags: Tags::new(tags).expect("small"), ..Record::clone(&seen.me) };
        seen.me = Arc::new(me);
        seen.records[0] = Arc::clone(&seen.me);
    });
    found_by(plant, nothing)
}

pub(crate) fn a_node_that_believes_in_its_own_death() -> Vec<Invariant> {
    let plant = Bug::look(|seen| seen.me = Arc::new(seen.me.with_status(Status::Down)));
    found_by(plant, nothing)
}

pub(crate) fn an_incarnation_that_falls() -> Vec<Invariant> {
    let plant = Bug::look(|seen| altered(&mut seen.records, 1, |record| record.incarnation -= 1));
    found_by(plant, nothing)
}

pub(crate) fn a_resurrection() -> Vec<Invariant> {
    let plant = Bug::output(|node, output| match change_at_first(node, &output, is_down) {
        Some(down) => {
            let record = Arc::new(down.record.with_status(Status::Up));
            let previous = Some(down.record);
            vec![output, Output::Change(Change { kind: ChangeKind::Joined, record, method: None, previous })]
        }
        None => vec![output],
    });
    found_by(plant, crash_the_last)
}

pub(crate) fn a_wrong_fingerprint() -> Vec<Invariant> {
    let plant = Bug::look(|seen| seen.fingerprint ^= 1);
    found_by(plant, nothing)
}

pub(crate) fn different_views_under_one_fingerprint() -> Vec<Invariant> {
    let plant = Bug::look(|seen| drop(seen.records.pop()));
    found_by(plant, nothing)
}

pub(crate) fn a_swallowed_change() -> Vec<Invariant> {
    let plant = Bug::output(|node, output| match change_at_first(node, &output, is_down) {
        Some(_) => Vec::new(),
        None => vec![output],
    });
    found_by(plant, crash_the_last)
}

pub(crate) fn a_death_reported_twice() -> Vec<Invariant> {
    let plant = Bug::output(|node, output| match change_at_first(node, &output, is_down) {
        Some(down) => vec![output, Output::Change(down)],
        None => vec![output],
    });
    found_by(plant, crash_the_last)
}

pub(crate) fn a_change_under_the_wrong_name() -> Vec<Invariant> {
    let plant = Bug::output(|node, output| match change_at_first(node, &output, is_down) {
        Some(down) => vec![Output::Change(Change { kind: ChangeKind::Left(LeaveReason::Graceful), ..down })],
        None => vec![output],
    });
    found_by(plant, crash_the_last)
}

/// Returns the datagram without news of node 2, if it is a page of a view.
fn without_a_member(bytes: &[u8]) -> Option<Vec<u8>> {
    let packet = Packet::decode(bytes).ok()?;
    packet.messages.iter().find(|message| matches!(message, Message::Page { .. }))?;
    let mut smaller = PacketBuilder::new(&packet.header, 1_400);
    for message in &packet.messages {
        if !matches!(message, Message::Update(update) if update.record.id == *"n00002") {
            smaller.push(message);
        }
    }
    Some(smaller.finish())
}

pub(crate) fn the_end_of_a_partition_that_nobody_suspected() -> Vec<Invariant> {
    let plant = Bug::output(|node, output| match change_at_first(node, &output, is_down) {
        Some(_) => vec![output, Output::PartitionHealed { unreachable: Vec::new(), reachable: Vec::new() }],
        None => vec![output],
    });
    found_by(plant, crash_the_last)
}

pub(crate) fn a_sponsor_that_leaves_somebody_out() -> Vec<Invariant> {
    let plant = Bug::output(|_, output| match output {
        Output::Transmit { to, receiver, bytes } => {
            let bytes = without_a_member(&bytes).unwrap_or(bytes);
            vec![Output::Transmit { to, receiver, bytes }]
        }
        other => vec![other],
    });
    found_by(plant, join_one)
}

pub(crate) fn an_oversized_datagram() -> Vec<Invariant> {
    let plant = Bug::output(|_, output| match output {
        Output::Transmit { to, receiver, mut bytes } => {
            bytes.resize(1_401, 0);
            vec![Output::Transmit { to, receiver, bytes }]
        }
        other => vec![other],
    });
    found_by(plant, nothing)
}

pub(crate) fn a_storm() -> Vec<Invariant> {
    let plant = Bug::output(|_, output| match output {
        Output::Transmit { .. } => vec![output; 1_000],
        other => vec![other],
    });
    found_by(plant, nothing)
}

pub(crate) fn a_word_after_the_end() -> Vec<Invariant> {
    let plant = Bug::output(|_, output| match output {
        Output::Stopped(_) => vec![output, Output::ResolveSeeds],
        other => vec![other],
    });
    found_by(plant, leave_the_last)
}

pub(crate) fn a_member_that_left_and_is_still_listed() -> Vec<Invariant> {
    let left = Arc::new(AtomicBool::new(false));
    let seen_left = Arc::clone(&left);
    let plant = Bug::look(move |seen| {
        for position in 0..seen.records.len() {
            if seen_left.load(Ordering::Relaxed) && matches!(seen.records[position].status, Status::Left(_)) {
                altered(&mut seen.records, position, |record| record.status = Status::Up);
            }
        }
    });
    found_by(plant, |world| {
        leave_the_last(world);
        world.run_for(Duration::from_secs(8));
        left.store(true, Ordering::Relaxed);
    })
}

pub(crate) fn a_write_that_never_reaches_the_disk() -> Vec<Invariant> {
    let plant = Bug::forgetful();
    // Far behind what the others remember of it, it has to rise above what it stored at its start.
    found_by(plant, |world| {
        world.crash(NODES - 1);
        world.run_for(Duration::from_secs(4));
        world.lose_disk(NODES - 1);
        world.step_clock_back(NODES - 1, Duration::from_secs(7_200));
        world.start(NODES - 1);
    })
}

pub(crate) fn a_restart_with_a_lower_incarnation() -> Vec<Invariant> {
    let plant = Bug::init(|_, init| init.incarnation = 1);
    found_by(plant, restart_the_last)
}

pub(crate) fn a_restart_as_the_same_run() -> Vec<Invariant> {
    let plant = Bug::init(|_, init| init.run = Run(7));
    found_by(plant, |world| {
        restart_the_last(world);
        world.run_for(Duration::from_secs(4));
        restart_the_last(world);
    })
}

pub(crate) fn an_accusation_of_a_healthy_member() -> Vec<Invariant> {
    // A member that nobody can hear although its network is well: whatever its core does, somebody is wrong.
    let plant = Bug::output(|node, output| match output {
        Output::Transmit { .. } | Output::SendFrame { .. } if node == NODES - 1 => Vec::new(),
        other => vec![other],
    });
    found_by(plant, nothing)
}

pub(crate) fn a_stop_that_nobody_asked_for() -> Vec<Invariant> {
    let plant = Bug::output(|_, output| match output {
        Output::Heard(_) => vec![Output::Stopped(StopReason::Left)],
        other => vec![other],
    });
    found_by(plant, nothing)
}

/// Returns the promise found broken in a run without faults, with a bug that is armed from the start.
fn quiet_run(plant: Bug) -> Option<Invariant> {
    plant.alarm().store(true, Ordering::Relaxed);
    let schedule = Schedule {
        nodes: NODES,
        voters: 0,
        operations: Vec::new(),
        heal_at: Duration::from_secs(1),
        variation: Variation::default(),
    };
    let outcome = run_schedule(42, &schedule, false, Some(Box::new(plant)));
    if let Some(failure) = outcome.failure() {
        assert!(failure.contains("HEADCOUNT_SIM_SEED=42"), "a failure says how to see it again: {failure}");
    }
    outcome.violation.map(|violation| violation.invariant)
}

pub(crate) fn a_message_that_comes_twice() -> Vec<Invariant> {
    let plant = Bug::output(|_, output| match output {
        Output::Message(_) => vec![output.clone(), output],
        other => vec![other],
    });
    let say = |world: &mut World| {
        Talk::Broadcast(0, 1, 40).apply(world);
    };
    found_by(plant, say)
}

pub(crate) fn a_broadcast_that_does_not_reach_everybody() -> Option<Invariant> {
    let plant = Bug::output(|node, output| match output {
        Output::Message(_) if node == NODES - 1 => Vec::new(),
        other => vec![other],
    });
    plant.alarm().store(true, Ordering::Relaxed);
    let schedule = Schedule {
        nodes: NODES,
        voters: 0,
        operations: vec![(Duration::from_secs(4), Operation::Talk(Talk::Broadcast(0, 1, 40)))],
        heal_at: Duration::from_secs(5),
        variation: Variation::default(),
    };
    let outcome = run_schedule(42, &schedule, false, Some(Box::new(plant)));
    outcome.violation.map(|violation| violation.invariant)
}

pub(crate) fn a_panic() -> Option<Invariant> {
    assert_eq!(quiet_run(Bug::default()), None);
    let plant = Bug::output(|_, output| match output {
        Output::Heard(_) => panic!("a planted panic"),
        other => vec![other],
    });
    quiet_run(plant)
}

pub(crate) fn a_node_that_never_joins() -> Option<Invariant> {
    let plant = Bug::output(|node, output| match output {
        Output::Transmit { .. } | Output::SendFrame { .. } if node == NODES - 1 => Vec::new(),
        other => vec![other],
    });
    quiet_run(plant)
}

pub(crate) fn a_suspicion_that_outlives_its_time() -> Vec<Invariant> {
    let usual = campaign_settings().timing().expect("good settings");
    let patient = Bug::init(|_, init| init.settings.down_timeout *= 4);
    patient.alarm().store(true, Ordering::Relaxed);
    let mut looks = 0;
    let plant = patient.and_look(move |seen| {
        looks += usize::from(seen.records.iter().any(|record| record.status == Status::Suspect));
        // For some seconds already, and their records say that they are Down after two.
        for position in 0..seen.records.len() {
            if looks > 20 {
                altered(&mut seen.records, position, |record| record.timing = usual);
            }
        }
    });
    found_by(plant, |world| {
        world.power_off(NODES - 1);
    })
}

pub(crate) fn a_message_that_is_counted_nowhere() -> Vec<Invariant> {
    found_by(Bug::message_counts(|counts| counts.received += 1), nothing)
}

pub(crate) fn a_core_for_which_time_stands_still() -> Vec<Invariant> {
    found_by(Bug::sleepy(), nothing)
}
