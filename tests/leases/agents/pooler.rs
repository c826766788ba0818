//! Whole agents behind PgBouncer in transaction mode: two sessions for three agents, and leases change hands as ever.

use std::time::{Duration, Instant};

use nix::sys::signal::Signal;

use super::cluster::{Database, Leader, STEADY, leader, wait_for_leader};
use crate::pgbouncer;
use crate::support::{Agent, wait_for};

/// Waits until some of these agents leads in a term above this one; returns the time that it took.
fn until_led(agents: &[Agent], above: u64) -> Duration {
    let since = Instant::now();
    wait_for("another one leads", || {
        let is_new = |agent: &Agent| {
            let seen = leader(agent);
            seen["is_me"] == true && seen["term"].as_u64() > Some(above)
        };
        agents.iter().any(is_new).then(|| since.elapsed())
    })
}

fn behind_the_pooler(name: &str) -> Option<Database> {
    let pooler = pgbouncer::before(&crate::server::shared()?)?;
    Some(Database::on(&pooler, name))
}

#[test]
fn behind_a_pooler_one_of_three_leads_and_is_succeeded_when_it_is_killed_and_when_it_leaves() {
    let Some(database) = behind_the_pooler("pooled") else { return };
    let mut agents = database.agents(3, STEADY);
    let old = wait_for_leader(&agents, 0);
    // More than two leases, in which sessions change hands with every renewal: nobody else ever leads.
    let end = Instant::now() + Duration::from_secs(12);
    while Instant::now() < end {
        assert_eq!(wait_for_leader(&agents, 0), old);
        std::thread::sleep(Duration::from_millis(10));
    }

    drop(agents.remove(old.at));
    let killed = until_led(&agents, old.term);
    let second = wait_for_leader(&agents, old.term);
    assert_eq!(second.term, old.term + 1);
    agents.push(database.agent_with(&old.name, &[&agents[0].gossip], STEADY, &[]));
    assert_eq!(wait_for_leader(&agents, 0), Leader { at: second.at, ..second.clone() }, "who returns deposes nobody");

    let mut leaving = agents.remove(second.at);
    leaving.signal(Signal::SIGTERM);
    let left = until_led(&agents, second.term);
    let third = wait_for_leader(&agents, second.term);
    assert_eq!(third.term, second.term + 1);
    assert!(leaving.wait().success(), "{}", leaving.log());
    println!("behind PgBouncer, a lease of 5 s: succeeded {killed:.0?} after SIGKILL, {left:.0?} after SIGTERM");
}
