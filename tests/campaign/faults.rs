//! Faults as printable operations, and a seeded generator of schedules of them.
//!
//! Invariants: the schedule depends on its seed alone, not on how the cores respond; an operation that makes no sense
//! when its time comes (the node has stopped meanwhile) does nothing and says so; every disturbance ends by itself or
//! at the healing.
//!
//! | idea | file |
//! |---|---|
//! | operations and schedules; the schedule of small clusters | here |
//! | the next fault of such a schedule, by weight | `drawing` |
//! | the table of operations: kind, words and effect of each | `rows` |
//! | schedules of large clusters | `large` |
//! | schedules of voters, and of their operators | `voters`, `operators` |
//! | schedules of electorates that meet | `electorates` |
//! | schedules of names and places | `places` |
//! | schedules of leases, and of programs that talk | `contenders`, `talkers` |
//! | the rotation of a key in any schedule | `rotation` |
//!
//! Must not know: how the protocol copes with any of it.

mod contenders;
mod drawing;
mod electorates;
mod large;
mod operators;
mod places;
mod rotation;
mod rows;
mod talkers;
mod voters;

use std::time::Duration;

pub use contenders::LeaseFault;
use drawing::AssumedState;
use headcount_sim::Tcp;
use headcount_sim::network::{Conditions, CutTraffic, NodeLoss};
use headcount_sim::{Purpose, Random};
pub use large::Variation;
pub use rotation::KeyStep;
pub use talkers::Talk;
pub use voters::VoterFault;

/// The state of a node's disk at its next start.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DiskFate {
    /// The disk holds what was written to it.
    Kept,
    /// The disk is empty.
    Lost,
    /// The disk is empty, and the wall clock was set back by this much meanwhile.
    LostAndClockBack(Duration),
}

/// One operation on the world; the table in `rows` says all of it. Its last duration is the time for which it lasts, unless its comment says otherwise.
#[derive(Debug, Clone, PartialEq)]
pub enum Operation {
    /// A process dies without saying goodbye; its kernel closes its links.
    Crash(usize),
    /// A host loses its power: none of its connections is closed.
    PowerOff(usize),
    /// A router forgets the connections of a node and resets them.
    ResetLinks(usize),
    /// A firewall drops or rejects TCP for a while.
    Firewall(Tcp, Duration),
    /// A process that is gone is started again.
    Restart(usize, DiskFate),
    /// Several processes die and are started again at once.
    MassRestart(Vec<usize>, DiskFate),
    /// Several processes die at one instant.
    MassCrash(Vec<usize>),
    /// Several processes die at one instant, and each is started again at some time within the duration.
    StaggeredRestart(Vec<usize>, DiskFate, Duration),
    /// A process is suspended.
    Pause(usize, Duration),
    /// A process handles everything late, by up to the first duration, for the second.
    Slow(usize, Duration, Duration),
    /// Some nodes are cut off from the rest, both ways.
    Partition(Vec<usize>, Duration),
    /// Nothing from the first nodes reaches the second ones.
    OneWayCut(Vec<usize>, Vec<usize>, Duration),
    /// Nothing reaches these nodes for the first duration, then everything for as long, and so on for the second
    /// duration.
    FlipFlop(Vec<usize>, Duration, Duration),
    /// Datagrams from or to a node are lost with these chances.
    Lossy(usize, NodeLoss, Duration),
    /// The conditions of the whole network change.
    SetConditions(Conditions, Duration),
    /// A node leaves.
    Leave(usize),
    /// A node removes another one.
    Remove {
        /// The node that is asked to remove.
        by: usize,
        /// The node to be removed.
        node: usize,
        /// True to remove the node even if it is not Down.
        force: bool,
    },
    /// A node is given new tags.
    SetTags(usize, u64),
    /// A node is told to join by another node's address.
    Contact(usize, usize),
    /// A new node starts.
    Join,
    /// A fault of voters.
    Voters(VoterFault),
    /// Several processes that are gone are started again, each at some time within the duration.
    StartAll(Vec<usize>, DiskFate, Duration),
    /// Several hosts lose their power at one instant.
    MassPowerOff(Vec<usize>),
    /// Several nodes leave at one instant.
    MassLeave(Vec<usize>),
    /// Traffic of some kind does not pass from the first to the second node of each pair. All other nodes hear both.
    Pairs(Vec<(usize, usize)>, CutTraffic, Duration),
    /// No datagram passes between any two nodes; connections do.
    NoDatagrams(Duration),
    /// Nothing reaches a node, and all others hear it.
    Deafen(usize, Duration),
    /// A new node starts, and its process dies this long after it became Up.
    JoinAndDie(Duration),
    /// A new node starts at the address of one that is gone.
    Inherit {
        /// The former owner of the address.
        of: usize,
        /// True if the new node takes the former owner's name, too.
        named_alike: bool,
    },
    /// A new node starts under another node's name.
    Twin(usize),
    /// Nodes get other addresses, and notice the first duration later.
    Move(Vec<usize>, Duration),
    /// Two nodes exchange their addresses, and notice so much later.
    Exchange(usize, usize, Duration),
    /// A process is told an address at which nobody is, for a while.
    WrongAddress(usize, Duration),
    /// A translator stands between a node and the others for a while, and changes the source of what it sends.
    Translate(usize, Duration),
    /// A program sends a message.
    Talk(Talk),
    /// Something happens to a lease in a database.
    Lease(LeaseFault),
    /// A step of a key's rotation, at every second node alone if true.
    Keys(KeyStep, bool),
}

/// Operations in the order of their times.
#[derive(Debug, Clone, PartialEq)]
pub struct Schedule {
    /// Number of nodes at the beginning.
    pub nodes: usize,
    /// Number of voters, which are the first nodes.
    pub voters: usize,
    /// The operations, each with its time since the start.
    pub operations: Vec<(Duration, Operation)>,
    /// Time at which everything is healed; no operation is later.
    pub heal_at: Duration,
    /// Differences of the schedule's world from the usual one.
    pub variation: Variation,
}

impl Schedule {
    /// The smallest number of operations.
    pub const LEAST: u64 = 20;
    /// The largest number of nodes, those that join later included.
    pub const MOST_NODES: usize = 9;

    /// Draws a random schedule.
    pub fn random(seed: u64) -> Self {
        let mut random = Random::new(seed, Purpose::Faults);
        let nodes = random.between(3, 7) as usize;
        let count = random.between(Self::LEAST, Self::LEAST + 10);
        let mut assumed = AssumedState { running: vec![true; nodes] };
        // Mostly there is time to form a cluster first; sometimes not.
        let mut at = random.duration(Duration::from_millis(200), Duration::from_secs(5));
        let mut operations = Vec::new();
        while (operations.len() as u64) < count {
            operations.push((at, assumed.next(&mut random)));
            // Faults come in clusters, so that they overlap.
            let pause = if random.chance(0.4) { Duration::from_millis(800) } else { Duration::from_secs(7) };
            at += random.duration(Duration::ZERO, pause);
        }
        let heal_at = at + random.duration(Duration::from_secs(1), Duration::from_secs(8));
        Self { nodes, voters: 0, operations, heal_at, variation: Variation::default() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_seeds_give_equal_schedules_of_at_least_twenty_operations() {
        for seed in 0..200 {
            let schedule = Schedule::random(seed);
            assert_eq!(schedule, Schedule::random(seed));
            assert!(schedule.operations.len() as u64 >= Schedule::LEAST);
            assert!(schedule.operations.windows(2).all(|pair| pair[0].0 <= pair[1].0), "in order of time");
            assert!(schedule.operations.iter().all(|(at, _)| *at <= schedule.heal_at));
        }
        assert_ne!(Schedule::random(1), Schedule::random(2));
    }

    #[test]
    fn every_kind_of_fault_turns_up_and_prints() {
        let mut kinds = std::collections::BTreeSet::new();
        for seed in 0..100 {
            for (_, operation) in Schedule::random(seed).operations {
                let text = operation.to_string();
                assert!(!text.is_empty());
                kinds.insert(format!("{:?}", std::mem::discriminant(&operation)));
            }
        }
        assert_eq!(kinds.len(), 20, "{kinds:?}");
    }
}
