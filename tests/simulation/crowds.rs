//! Crowds of members that are of no use: they join, answer when they are asked whether they live, and do nothing else.

use std::sync::atomic::Ordering;
use std::time::Duration;

use headcount::core::wire::{Message, Packet};
use headcount::core::{ChangeKind, Command, Output};
use headcount::sim::{Tcp, World, WorldOptions};
use headcount::{Profile, Tags};

use super::plant::Plant;

const SECOND: Duration = Duration::from_secs(1);
const HONEST: usize = 6;

fn is_useless(output: &Output) -> bool {
    match output {
        Output::Transmit { bytes, .. } => Packet::decode(bytes)
            .is_ok_and(|packet| !packet.messages.iter().any(|message| matches!(message, Message::Ack { .. }))),
        Output::SendFrame { .. } | Output::OpenLink { .. } => true,
        _ => false,
    }
}

/// Returns honest nodes that know each other for long, and many that joined a moment ago and only answer probes.
fn crowded(honest: usize, crowd: usize) -> World {
    crowded_at(SECOND * 75, honest, crowd, Duration::ZERO)
}

/// Returns honest nodes that know each other for so long, and many that joined then, behaved for a while, and now only
/// answer probes.
fn crowded_at(age: Duration, honest: usize, crowd: usize, patience: Duration) -> World {
    let plant = Plant::output(move |node, output| {
        let is_kept = node < honest || !is_useless(&output);
        if is_kept { vec![output] } else { Vec::new() }
    });
    let armed = plant.alarm();
    let settings = Profile::Local.settings();
    let options = WorldOptions { checked: false, ..WorldOptions::new(3, honest, settings) };
    let mut world = World::with_tamper(options, Some(Box::new(plant)));
    world.run_for(age);
    assert_eq!(world.divergence(), None, "formed");
    for _ in 0..crowd {
        world.add_node();
    }
    let all_up = world.run_while(world.now() + SECOND * 20, SECOND / 4, |world| {
        (0..honest).any(|node| world.core(node).is_none_or(|core| core.counts()[1] < honest + crowd))
    });
    assert!(all_up, "everybody is a member");
    world.run_for(patience);
    world.set_tcp(Tcp::Dropped);
    armed.store(true, Ordering::Relaxed);
    world.run_for(SECOND * 2);
    world.watch();
    world
}

fn assert_a_dead_node_is_seen(honest: usize, crowd: usize) {
    assert_a_dead_node_is_seen_in(crowded(honest, crowd), honest, crowd);
}

fn assert_a_dead_node_is_seen_in(mut world: World, honest: usize, crowd: usize) {
    let settings = Profile::Local.settings();
    let by = world.now() + settings.down_timeout + settings.heartbeat_interval;
    world.power_off(honest - 1);
    world.run_until(by);
    let living: Vec<usize> = (0..honest - 1).collect();
    assert_eq!(world.missed_verdicts(&living, &[honest - 1], by), [], "{crowd} among {honest}");
    let wrong = world.sightings().iter().find(|seen| {
        seen.observer < honest && seen.subject < honest - 1 && matches!(seen.kind, ChangeKind::DetectedDown(_))
    });
    assert!(wrong.is_none(), "{wrong:?}");
}

#[test]
fn newcomers_that_observe_nobody_do_not_hide_a_death() {
    assert_a_dead_node_is_seen(HONEST, 100);
}

#[test]
fn newcomers_do_not_hide_a_death_in_a_cluster_with_rings_either() {
    assert_a_dead_node_is_seen(16, 80);
}

#[test]
fn newcomers_do_not_hide_a_death_in_a_young_cluster() {
    for (honest, crowd) in [(HONEST, 20), (HONEST, 100), (16, 80)] {
        let world = crowded_at(SECOND * 3, honest, crowd, Duration::ZERO);
        assert_a_dead_node_is_seen_in(world, honest, crowd);
    }
}

#[test]
fn a_killed_process_is_found_at_once_by_those_who_knew_it_before_a_crowd_came() {
    for crowd in [20, 100] {
        let mut world = crowded_at(SECOND * 3, HONEST, crowd, Duration::ZERO);
        world.set_tcp(Tcp::Open);
        world.run_for(SECOND * 10);
        let by = world.now() + SECOND;
        world.crash(HONEST - 1);
        world.run_until(by);
        let living: Vec<usize> = (0..HONEST - 1).collect();
        assert_eq!(world.missed_verdicts(&living, &[HONEST - 1], by), [], "{crowd}");
    }
}

#[test]
fn newcomers_that_wait_until_they_have_settled_do_not_hide_a_death_then() {
    for patience in [40, 68, 75, 90] {
        let world = crowded_at(SECOND * 75, HONEST, 60, SECOND * patience);
        assert_a_dead_node_is_seen_in(world, HONEST, 60);
    }
}

#[test]
fn news_floods_among_settled_members_whatever_newcomers_pass_on() {
    let mut world = crowded(16, 80);
    let tags = Tags::new([("color".to_owned(), "red".to_owned())].into()).expect("good tags");
    let ticket = world.ticket();
    world.command(7, Command::SetTags { ticket, tags });
    world.run_for(SECOND / 4);
    let id = world.id(7).clone();
    for node in 0..16 {
        let record = world.core(node).and_then(|core| core.record(&id)).expect("a member");
        assert!(!record.tags.is_empty(), "node {node}");
    }
}

#[test]
fn newcomers_that_never_answer_are_down_soon() {
    let settings = Profile::Local.settings();
    let (honest, crowd) = (HONEST, 100);
    let mut world = crowded(honest, crowd);
    let silent: Vec<usize> = (honest..honest + crowd).collect();
    let by = world.now() + settings.down_timeout + settings.heartbeat_interval * 2;
    for node in &silent {
        world.power_off(*node);
    }
    world.run_until(by);
    let missed = world.missed_verdicts(&(0..honest).collect::<Vec<_>>(), &silent, by);
    assert!(missed.is_empty(), "{} missed", missed.len());
}
