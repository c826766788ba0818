//! The table of scenarios: one row for each, with its name, its words and what happens in it.
//!
//! A new scenario is a variant of [`Scenario`], a row at the same place here, and the function that plays it.

use std::time::Duration;

use super::acts::{
    aftermath, churn, churn_lasts, crash, join, leave, mass_crash, moment, partition, partition_lasts, pause,
    pause_lasts, power_off, restart_all, restart_lasts,
};
use super::disturbances::{bursts, flip_flop, one_way_loss, six_flips, slow, usual};
use super::outcome::Outcome;
use super::stage::Stage;
use super::{contenders, succession};
use crate::plan::Scenario::{
    self, Bursts, Churn, Contenders, Crash, FlipFlop, Join, LeaderCrash, LeaderPartition, Leave, MassCrash, OneWayLoss,
    Partition, Pause, PowerOff, RestartAll, Slow,
};
use crate::report::Report;
use headcount_core::Settings;
use headcount_core::election::LeaseTiming;

struct Row {
    scenario: Scenario,
    /// The name on the command line.
    name: &'static str,
    /// One sentence for people.
    words: &'static str,
    /// About how long it takes, for the display of progress.
    lasts: fn(&Settings, LeaseTiming) -> Duration,
    /// Lets it happen, and watches until it is over.
    play: fn(&mut Stage<'_>, &mut Report) -> Outcome,
    leads: Leads,
}

/// The kind of leadership in a scenario.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Leads {
    Nobody,
    Elected,
    LeaseHolder,
}

const fn row(
    scenario: Scenario,
    name: &'static str,
    words: &'static str,
    lasts: fn(&Settings, LeaseTiming) -> Duration,
    play: fn(&mut Stage<'_>, &mut Report) -> Outcome,
) -> Row {
    Row { scenario, name, words, lasts, play, leads: Leads::Nobody }
}

impl Row {
    const fn led_by(self, leads: Leads) -> Self {
        Self { leads, ..self }
    }
}

/// The rows, in the order in which scenarios are documented.
static TABLE: [Row; 16] = [
    row(Join, "join", "one more node joins", moment, join),
    row(Leave, "leave", "one node says goodbye", moment, leave),
    row(Crash, "crash", "one process dies without a word", aftermath, crash),
    row(PowerOff, "power-off", "one host loses its power: nothing tells of it but silence", aftermath, power_off),
    row(MassCrash, "mass-crash", "ten nodes die at one instant (half of a smaller cluster)", aftermath, mass_crash),
    row(Pause, "pause", "one node stands still for one and a half down timeouts", pause_lasts, pause),
    row(Slow, "slow", "every fifth node handles everything late, by up to half a heartbeat interval", usual, slow),
    row(
        Partition,
        "partition",
        "half of the nodes are cut off until they have declared each other down",
        partition_lasts,
        partition,
    ),
    row(Bursts, "bursts", "on every link, one datagram in twelve is lost, most of them in bursts", usual, bursts),
    row(OneWayLoss, "one-way-loss", "80 % of what one node in a hundred sends is lost", usual, one_way_loss),
    row(
        FlipFlop,
        "flip-flop",
        "nothing reaches one node in a hundred for 20 s, then everything for 20 s, three times",
        six_flips,
        flip_flop,
    ),
    row(
        RestartAll,
        "restart-all",
        "all processes are killed and started again within two seconds",
        restart_lasts,
        restart_all,
    ),
    row(Churn, "churn", "nodes crash, return, leave, join and change tags, one every few seconds", churn_lasts, churn),
    row(LeaderCrash, "leader-crash", "the leader's process dies, ten times over", succession::lasts, succession::crash)
        .led_by(Leads::Elected),
    row(
        LeaderPartition,
        "leader-partition",
        "the leader is cut off with fewer than half of the voters, ten times over",
        succession::lasts,
        succession::partition,
    )
    .led_by(Leads::Elected),
    row(
        Contenders,
        "contenders",
        "the leader by a lease crashes, pauses or loses the database, or that loses commits, ten times over",
        contenders::lasts,
        contenders::play,
    )
    .led_by(Leads::LeaseHolder),
];

impl Scenario {
    /// All scenarios, in the order in which they are documented; each row stands at the place of its variant.
    pub const ALL: [Scenario; TABLE.len()] = {
        let mut all = [Join; TABLE.len()];
        let mut at = 0;
        while at < all.len() {
            assert!(TABLE[at].scenario as usize == at);
            all[at] = TABLE[at].scenario;
            at += 1;
        }
        all
    };

    const fn row(self) -> &'static Row {
        &TABLE[self as usize]
    }

    /// Returns the name on the command line.
    pub const fn name(self) -> &'static str {
        self.row().name
    }

    /// Returns one sentence for people about the event.
    pub const fn about(self) -> &'static str {
        self.row().words
    }

    /// Returns true if leaders are elected in it.
    pub const fn is_about_leaders(self) -> bool {
        matches!(self.row().leads, Leads::Elected)
    }

    /// Returns true if leaders hold a lease in a database in it.
    pub(super) const fn is_about_leases(self) -> bool {
        matches!(self.row().leads, Leads::LeaseHolder)
    }

    /// Returns the approximate duration of the event, for the display of progress.
    pub(super) fn lasts(self, settings: &Settings, lease: LeaseTiming) -> Duration {
        (self.row().lasts)(settings, lease)
    }

    /// Carries out the event and watches until it is over.
    pub(super) fn play(self, stage: &mut Stage<'_>, report: &mut Report) -> Outcome {
        (self.row().play)(stage, report)
    }
}
