//! Real agents and leases of two seconds: the leader is killed, or told to leave, again and again; how long until
//! another one says that it leads, asked all the time.

use std::time::{Duration, Instant};

use nix::sys::signal::Signal;

use crate::cluster::{Database, leader, wait_for_leader};
use crate::spread;
use crate::support::{Agent, wait_for};

const AGENTS: usize = 3;

pub fn print(trials: usize) {
    println!("{AGENTS} real agents, leases of 2 s: ms until another one leads, p50 / p99 / max of {trials}\n");
    println!("| database | killed (SIGKILL) | told to leave (SIGTERM) |\n|---|---|---|");
    run("SQLite", &Database::file(), trials);
    if let Some(database) = Database::schema("succession") {
        run("PostgreSQL", &database, trials);
    }
    println!();
}

fn run(name: &str, database: &Database, trials: usize) {
    let mut agents = database.agents(AGENTS, "");
    let mut times = [Vec::new(), Vec::new()];
    for trial in 0..trials * 2 {
        let old = wait_for_leader(&agents, 0);
        // Some time that has nothing to do with renewals.
        std::thread::sleep(Duration::from_millis(trial as u64 * 137 % 700));
        let since = Instant::now();
        let mut gone = agents.remove(old.at);
        if trial % 2 == 0 {
            drop(gone);
        } else {
            gone.signal(Signal::SIGTERM);
            times[1].push(until_led(&agents, old.term, since));
            assert!(gone.wait().success(), "{}", gone.log());
        }
        if trial % 2 == 0 {
            times[0].push(until_led(&agents, old.term, since));
        }
        agents.push(database.agent(&old.name, &[&agents[0].gossip]));
    }
    let [killed, left] = times.map(spread);
    println!("| {name} | {killed} | {left} |");
}

fn until_led(agents: &[Agent], above: u64, since: Instant) -> Duration {
    wait_for("another one leads", || {
        // A look takes a millisecond or two, a pause between looks would add to that.
        let end = Instant::now() + Duration::from_millis(500);
        while Instant::now() < end {
            let is_new = |agent: &Agent| {
                let seen = leader(agent);
                seen["is_me"] == true && seen["term"].as_u64() > Some(above)
            };
            if agents.iter().any(is_new) {
                return Some(since.elapsed());
            }
        }
        None
    })
}
