//! Elections among whole nodes: planted bugs that the checks must catch, and what members see at scale.

use std::sync::atomic::Ordering;
use std::time::Duration;

use headcount_campaign::World;
use headcount_campaign::faults::{Schedule, Variation};
use headcount_campaign::invariants::Invariant;
use headcount_campaign::{campaign_settings, run_schedule};
use headcount_core::Profile;
use headcount_core::election::{Body, Term};
use headcount_core::wire::{Message, Packet};
use headcount_core::{Command, Leadership, Output, Receiver};
use headcount_sim::network::Conditions;
use headcount_sim::{LeaderNews, WorldOptions};

use super::plant::Bug;

const SECOND: Duration = Duration::from_secs(1);
const VOTERS: usize = 3;
const NODES: usize = 5;

fn options(seed: u64) -> WorldOptions {
    WorldOptions {
        voters: VOTERS,
        lease: Profile::Local.lease_timing(),
        ..WorldOptions::new(seed, NODES, campaign_settings())
    }
}

fn led(mut world: World) -> World {
    world.run_for(SECOND * 6);
    assert_eq!(world.leadership_divergence(), None);
    assert_eq!(world.violations(), []);
    world
}

/// Returns the promises found broken in a cluster that has a leader when the bug is armed, after `act` and a while.
fn found_by(plant: Bug, act: impl FnOnce(&mut World)) -> Vec<Invariant> {
    found_in(42, plant, act)
}

fn found_in(seed: u64, plant: Bug, act: impl FnOnce(&mut World)) -> Vec<Invariant> {
    let armed = plant.alarm();
    let mut world = led(World::with_bug(options(seed), plant));
    armed.store(true, Ordering::Relaxed);
    act(&mut world);
    world.run_for(SECOND * 8);
    world.violations().iter().map(|violation| violation.invariant).collect()
}

fn nothing(_: &mut World) {}

fn crash_the_leader(world: &mut World) {
    let leader = world.leader().expect("somebody leads");
    world.crash(leader);
}

fn pause_the_leader(world: &mut World) {
    let leader = world.leader().expect("somebody leads");
    world.pause(leader, SECOND * 4);
}

fn the_leader_leaves(world: &mut World) {
    let leader = world.leader().expect("somebody leads");
    world.command(leader, Command::Leave);
}

fn restart_all_voters(world: &mut World) {
    for voter in 0..VOTERS {
        world.crash(voter);
        world.start(voter);
    }
}

#[test]
fn without_a_bug_elections_break_nothing() {
    for act in [nothing, crash_the_leader, pause_the_leader, the_leader_leaves, restart_all_voters] {
        assert_eq!(found_by(Bug::default(), act), []);
    }
}

/// Alters what is seen of everybody but who leads.
fn usurper(mut alter: impl FnMut(&mut Leadership) + Send + 'static) -> Bug {
    Bug::leadership(move |_, told| {
        if told.leader.is_some() && !told.is_me {
            alter(told);
        }
    })
}

pub(crate) fn two_leaders_in_one_term() -> Vec<Invariant> {
    let plant = usurper(|told| told.is_me = true);
    found_by(plant, nothing)
}

pub(crate) fn two_claims_at_a_time() -> Vec<Invariant> {
    let plant = || {
        usurper(|told| {
            told.is_me = true;
            told.term = Term(told.term.0 + 1);
        })
    };
    // A world stops at its first violation, and in some an event of the usurper's comes first.
    (40..48).flat_map(|seed| found_in(seed, plant(), nothing)).collect()
}

pub(crate) fn a_leader_that_leads_on_after_a_pause_past_its_lease() -> Vec<Invariant> {
    let mut last: Option<(usize, Leadership)> = None;
    let plant = Bug::leadership(move |node, told| match &last {
        None if told.is_me => last = Some((node, told.clone())),
        Some((leader, last)) if *leader == node && !told.is_me => *told = last.clone(),
        _ => {}
    });
    found_by(plant, |world| {
        world.run_for(SECOND);
        pause_the_leader(world);
    })
}

pub(crate) fn work_that_goes_on_when_leadership_is_handed_over() -> Vec<Invariant> {
    let plant = Bug::hurried();
    found_by(plant, |world| {
        let leader = world.leader().expect("somebody leads");
        let (ticket, id) = (world.ticket(), world.id(leader).clone());
        // Voted out, it runs on.
        world.command(leader, Command::RemoveVoter { ticket, id });
    })
}

pub(crate) fn a_term_that_falls() -> Vec<Invariant> {
    let plant = usurper(|told| told.term = Term(0));
    found_by(plant, nothing)
}

pub(crate) fn a_voter_whose_disk_forgets_its_vote() -> Vec<Invariant> {
    let plant = Bug::forgetful();
    found_by(plant, |world| {
        crash_the_leader(world);
        world.run_for(SECOND * 4);
        restart_all_voters(world);
    })
}

/// Looks for words of voters in a datagram; returns true twice if there are some, and a granted vote among them.
fn words(bytes: &[u8]) -> (bool, bool) {
    let Ok(packet) = Packet::decode(bytes) else { return (false, false) };
    let words = packet.messages.iter().filter_map(|message| match message {
        Message::Election(word) => Some(word),
        _ => None,
    });
    words.fold((false, false), |(_, is_vote), word| {
        (true, is_vote || matches!(word.body, Body::VoteReply { is_granted: true, .. }))
    })
}

pub(crate) fn a_vote_for_two() -> Vec<Invariant> {
    let plant = Bug::output(|_, output| match output {
        Output::Transmit { ref bytes, .. } if words(bytes).1 => {
            let bytes = bytes.clone();
            let (to, receiver) = ("10.0.0.9:7117".parse().expect("an address"), Receiver::Anybody);
            vec![output, Output::Transmit { to, receiver, bytes }]
        }
        other => vec![other],
    });
    found_by(plant, crash_the_leader)
}

pub(crate) fn two_contents_of_one_number() -> Vec<Invariant> {
    let plant = Bug::output(|node, output| match output {
        Output::ViewAgreed(mut view) if node == 0 => {
            view.number += 1;
            vec![Output::ViewAgreed(view)]
        }
        other => vec![other],
    });
    found_by(plant, |world| {
        for node in [3, 4] {
            world.crash(node);
            world.run_for(SECOND * 3);
        }
    })
}

pub(crate) fn a_swallowed_loss() -> Vec<Invariant> {
    let plant = Bug::output(|node, output| match output {
        Output::LeaderLost { .. } if node == 4 => Vec::new(),
        other => vec![other],
    });
    found_by(plant, crash_the_leader)
}

pub(crate) fn voters_that_never_elect_anybody() -> Option<Invariant> {
    let run = |plant: Bug| {
        plant.alarm().store(true, Ordering::Relaxed);
        let schedule = Schedule {
            nodes: NODES,
            voters: VOTERS,
            operations: Vec::new(),
            heal_at: SECOND,
            variation: Variation::default(),
        };
        run_schedule(42, &schedule, false, Some(Box::new(plant))).violation.map(|violation| violation.invariant)
    };
    assert_eq!(run(Bug::default()), None);
    let plant = Bug::output(|_, output| match output {
        Output::Transmit { ref bytes, .. } if words(bytes).0 => Vec::new(),
        other => vec![other],
    });
    run(plant)
}

/// Returns true if a datagram tells who leads without having been asked.
fn is_flood(bytes: &[u8]) -> bool {
    let Ok(packet) = Packet::decode(bytes) else { return false };
    let has = |is_it: fn(&Message) -> bool| packet.messages.iter().any(is_it);
    has(|message| matches!(message, Message::LeaderClaim(_))) && !has(|message| matches!(message, Message::Reply))
}

#[test]
fn a_member_that_misses_every_flood_learns_who_leads_from_pulses() {
    let deaf = "10.0.0.5:7117".parse().expect("an address");
    let plant = Bug::output(move |_, output| match output {
        Output::Transmit { to, ref bytes, .. } if to == deaf && is_flood(bytes) => Vec::new(),
        other => vec![other],
    });
    let armed = plant.alarm();
    let mut world = led(World::with_bug(options(42), plant));
    armed.store(true, Ordering::Relaxed);
    crash_the_leader(&mut world);
    world.run_for(SECOND * 5);
    assert_eq!(world.address(4), deaf);
    assert_eq!(world.leadership_divergence(), None);
    assert_eq!(world.violations(), []);
}

#[test]
fn after_a_long_isolation_a_member_tells_of_the_leader_anew() {
    for node in 0..NODES {
        let mut world = led(World::new(options(43)));
        world.watch();
        world.partition(&[node], Some(SECOND * 75));
        world.run_for(SECOND * 95);
        assert_eq!(world.leadership_divergence(), None, "node {node}");
        assert_eq!(world.violations(), [], "node {node}");
        let told: Vec<_> = world.elections_seen().iter().filter(|sighting| sighting.observer == node).collect();
        assert!(matches!(told.last().expect("it lost and found its leader").news, LeaderNews::Elected), "{told:?}");
    }
}

#[test]
fn members_keep_seeing_their_leader_through_loss_for_a_few_bytes_a_second() {
    let nodes = 60;
    let lasting = SECOND * 120;
    let idle = |voters: usize| {
        let conditions = Conditions { loss: 0.05, ..Conditions::default() };
        let lease = Profile::Lan.lease_timing();
        let usual = WorldOptions::new(7, nodes, Profile::Lan.settings());
        let mut world = headcount_sim::World::formed(WorldOptions { voters, lease, conditions, ..usual });
        world.run_for(SECOND * 20);
        world.watch();
        let sent = |world: &headcount_sim::World| (0..nodes).map(|node| world.sent(node).bytes).sum::<u64>();
        let before = sent(&world);
        world.run_for(lasting);
        let told: Vec<_> = world.elections_seen().to_vec();
        assert_eq!(told, [], "nobody lost sight of the leader");
        assert!(voters == 0 || world.leadership_divergence().is_none());
        (sent(&world) - before) as f64 / nodes as f64 / lasting.as_secs_f64()
    };
    let added = idle(5) - idle(0);
    assert!((0.0..45.0).contains(&added), "{added:.1} bytes a second more for each node");
}
