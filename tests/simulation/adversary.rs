//! The harm that an adversary with addresses of its own can do to honest nodes, attack by attack: nothing that was
//! promised breaks.

use std::time::{Duration, Instant};

use headcount::sim::adversary::{AdversaryCounts, Attack, MOST_INVENTED};
use headcount::sim::campaign::campaign_settings;
use headcount::sim::{World, WorldOptions};
use headcount::{Profile, Settings};

const SECOND: Duration = Duration::from_secs(1);
const NODES: usize = 12;
const VOTERS: usize = 3;
/// A newcomer is in, and everybody knows, as soon as without an adversary, or nearly.
const JOINED_WITHIN: Duration = Duration::from_secs(3);

/// Runs an adversary against a small cluster; returns its counts, and what was broken first.
fn against(attack: Attack, seed: u64) -> (AdversaryCounts, Result<(), String>) {
    let settings = Settings { observers: 5, ..campaign_settings() };
    let lease = Profile::Local.lease_timing();
    let mut world = World::new(WorldOptions { voters: VOTERS, lease, ..WorldOptions::new(seed, NODES, settings) });
    world.run_for(SECOND * 8);
    assert_eq!((world.divergence(), world.violations().first()), (None, None), "formed before");
    let leader = world.leader().expect("somebody leads");
    world.start_adversary(attack, MOST_INVENTED);
    world.run_for(SECOND * 5);
    let result = go_through(&mut world, leader);
    (world.counts(), result)
}

fn go_through(world: &mut World, leader: usize) -> Result<(), String> {
    unbroken(world)?;
    // Somebody joins.
    let newcomer = world.add_node();
    let began = world.now();
    let joined = world.run_while(began + JOINED_WITHIN, SECOND / 20, |world| world.divergence().is_some());
    unbroken(world)?;
    if !joined {
        return Err(format!("{JOINED_WITHIN:?} after a node came: {}", world.divergence().unwrap_or_default()));
    }
    world.run_for(SECOND * 4);
    unbroken(world)?;
    // Somebody dies, then somebody who came late.
    for dies in [NODES - 1, newcomer] {
        let run = world.core(dies).map(|core| core.me().run);
        world.crash(dies);
        world.run_for(SECOND);
        unbroken(world)?;
        let id = world.id(dies).clone();
        // Under its name somebody else may be there by now: names are free when their owners are dead.
        let lists = |node: &usize| {
            let held = world.core(*node).and_then(|core| core.record(&id));
            held.is_some_and(|held| Some(held.run) == run && held.status.is_live())
        };
        let late: Vec<usize> = (0..world.nodes()).filter(lists).collect();
        if !late.is_empty() {
            return Err(format!("a second after the crash of {dies} it is listed by {late:?}"));
        }
        world.run_for(SECOND * 4);
        unbroken(world)?;
    }
    if world.leader() != Some(leader) {
        return Err(format!("{:?} leads, not {leader} any more", world.leader()));
    }
    if let Some(difference) = world.leadership_divergence() {
        return Err(format!("not all name the leader: {difference}"));
    }
    if let Some(difference) = world.divergence() {
        return Err(format!("at the end: {difference}"));
    }
    Ok(())
}

fn unbroken(world: &World) -> Result<(), String> {
    world.violations().first().map_or(Ok(()), |violation| Err(violation.to_string()))
}

#[test]
fn no_mood_of_an_adversary_breaks_a_promise() {
    let mut broken = Vec::new();
    for attack in Attack::ALL {
        for seed in [1, 2] {
            let began = Instant::now();
            let (counts, result) = against(attack, seed);
            let verdict = result.as_ref().err().map_or("kept", String::as_str);
            println!("{:<18} {seed} {:.1?} {verdict}\n{:21}{counts:?}", format!("{attack:?}"), began.elapsed(), "");
            // An attack that reached nobody would show nothing.
            assert!(result.is_err() || counts.delivered >= 250, "{attack:?} did nothing: {counts:?}");
            if result.is_err() {
                broken.push(format!("{attack:?}, seed {seed}: {verdict}"));
            }
        }
    }
    assert!(broken.is_empty(), "{}", broken.join("\n"));
}
