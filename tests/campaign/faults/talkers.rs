//! Programs among the faults: they broadcast, send to single nodes, and make requests, which are answered or not.
//!
//! Their commands come from a random stream of their own, and are added to the faults that the same seed has without
//! them.
//!
//! Must not know: the effects.

use std::fmt;
use std::time::Duration;

use super::rows::{Row, row};
use super::{Operation, Schedule};
use headcount_core::{Command, Payload, Topic};
use headcount_sim::World;
use headcount_sim::{Purpose, Random};

/// One command of a program.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Talk {
    /// Broadcasts from a node: the number of messages, and the bytes in each.
    Broadcast(usize, u64, usize),
    /// A message from the first node to the second.
    Send(usize, usize),
    /// A request from the first node to the second, with its timeout.
    Ask(usize, usize, Duration),
}

impl Talk {
    /// Hands in the command; returns true if the node runs.
    pub fn apply(&self, world: &mut World) -> bool {
        (self.row().apply)(world)
    }

    pub(super) fn row(&self) -> Row<'_> {
        match self {
            Talk::Broadcast(node, times, bytes) => {
                row("talk", format!("{node} says {times} times {bytes} bytes to all"), |world| {
                    let said = (0..*times).filter(|_| {
                        let ticket = world.ticket();
                        world.command(*node, Command::Broadcast { ticket, topic: topic(), payload: payload(*bytes) })
                    });
                    said.count() > 0
                })
            }
            Talk::Send(node, to) => row("talk", format!("{node} tells {to} something"), |world| {
                let (ticket, to) = (world.ticket(), world.id(*to).clone());
                world.command(*node, Command::Send { ticket, to, topic: topic(), payload: payload(9) })
            }),
            Talk::Ask(node, to, timeout) => row("talk", format!("{node} asks {to} for up to {timeout:.1?}"), |world| {
                let (ticket, to) = (world.ticket(), world.id(*to).clone());
                let (topic, payload, timeout) = (topic(), payload(9), *timeout);
                world.command(*node, Command::Request { ticket, to, topic, payload, timeout })
            }),
        }
    }
}

fn topic() -> Topic {
    Topic::new("talk").expect("a topic")
}

fn payload(bytes: usize) -> Payload {
    Payload::new(&vec![7; bytes]).expect("not too large")
}

impl fmt::Display for Talk {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.row().words)
    }
}

impl Schedule {
    /// Returns the schedule of this seed with programs that talk all the time.
    pub fn with_talk(seed: u64) -> Self {
        let mut schedule = Self::random(seed);
        let mut random = Random::new(seed, Purpose::Talk);
        let begin = Duration::from_secs(2);
        for _ in 0..random.between(20, 60) {
            let at = random.duration(begin, schedule.heal_at.max(begin));
            let node = random.index(schedule.nodes);
            let talk = match random.below(6) {
                0 => Talk::Send(node, random.index(schedule.nodes)),
                1 => {
                    let timeout = random.duration(Duration::from_millis(50), Duration::from_secs(20));
                    Talk::Ask(node, random.index(schedule.nodes), timeout)
                }
                2 => Talk::Broadcast(node, 1, random.between(800, 60_000) as usize),
                3 => Talk::Broadcast(node, random.between(2, 100), 40),
                _ => Talk::Broadcast(node, 1, random.between(0, 700) as usize),
            };
            schedule.operations.push((at, Operation::Talk(talk)));
        }
        schedule.operations.sort_by_key(|(at, _)| *at);
        schedule.heal_at = schedule.heal_at.max(begin);
        schedule
    }

    /// Returns true if the schedule has programs that talk.
    pub fn has_talk(&self) -> bool {
        self.operations.iter().any(|(_, operation)| matches!(operation, Operation::Talk(_)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Outcome, run_schedule};

    #[test]
    fn talk_comes_to_the_faults_of_the_same_seed_and_prints() {
        for seed in 0..50 {
            let (usual, more) = (Schedule::random(seed), Schedule::with_talk(seed));
            assert!(usual.operations.iter().all(|fault| more.operations.contains(fault)));
            assert!(more.has_talk() && !usual.has_talk() && more == Schedule::with_talk(seed));
            assert!(more.operations.windows(2).all(|pair| pair[0].0 <= pair[1].0));
            assert!(more.operations.iter().all(|(_, operation)| !operation.to_string().is_empty()));
        }
    }

    /// No process is given a message twice, message counts add up, membership keeps its promises beside all the talk,
    /// and after the healing every broadcast reaches all nodes although a fifth of all packets is lost.
    #[test]
    fn whole_nodes_keep_every_promise_while_programs_talk() {
        let most = std::env::var("HEADCOUNT_TALK").ok().and_then(|most| most.parse().ok()).unwrap_or(25);
        let outcomes: Vec<Outcome> =
            (0..most).map(|seed| run_schedule(seed, &Schedule::with_talk(seed), false, None)).collect();
        let broken: Vec<_> = outcomes.iter().filter_map(Outcome::failure).collect();
        for failure in &broken {
            println!("{failure}");
        }
        assert!(broken.is_empty(), "{} of {most}", broken.len());
    }
}
