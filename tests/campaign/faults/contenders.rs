//! Faults for contenders: what can go wrong with a database of leases and on the way to it, among the usual faults.
//!
//! The victim of many is the leader at that time. The faults come from a stream of their own, among the faults that the
//! same seed has without them.
//!
//! Must not know: what comes of it.

use std::fmt;
use std::time::Duration;

use super::drawing::weighted;
use super::rows::{Row, row};
use super::{Operation, Schedule};
use headcount_sim::network::NodeSet;
use headcount_sim::{Purpose, Random};
use headcount_sim::{WayFault, World};

/// One thing that happens to a lease, to its leader, or to the database.
#[derive(Debug, Clone, PartialEq)]
pub enum LeaseFault {
    /// The leader's process dies.
    CrashLeader,
    /// The leader stands still.
    PauseLeader(Duration),
    /// The leader is late with everything, by up to the first figure, for the second.
    SlowLeader(Duration, Duration),
    /// The leader gives the lease up.
    Resign,
    /// The leader does not reach the database; other nodes, too, if so.
    CutLeaderFromStore(Duration, bool),
    /// One node does not reach the database.
    CutFromStore(usize, Duration),
    /// One node reaches nothing else: no word of it, nor to it.
    Mute(usize, Duration),
    /// The database answers nobody.
    StoreDown(Duration),
    /// The database takes no writes.
    ReadOnly(Duration),
    /// The way to the database is bad.
    BadWay(WayFault, Duration),
    /// The database's clock is put forward.
    ClockForward(Duration),
    /// The database's clock is put back.
    ClockBack(Duration),
    /// A replica takes over that lacks the last so many commits.
    FailOver(usize),
    /// An empty database takes over.
    Empty,
    /// An empty database takes over, and a node that has lost its disk joins.
    EmptyForNewcomer(usize),
    /// The terms row of the lease is deleted.
    DeleteTerms,
}

impl LeaseFault {
    /// Does it; whether it made sense.
    pub fn apply(&self, world: &mut World) -> bool {
        (self.row().apply)(world)
    }

    pub(super) fn row(&self) -> Row<'_> {
        match self {
            LeaseFault::CrashLeader => of_leader("crash whoever leads by the lease", World::crash),
            LeaseFault::PauseLeader(lasting) => {
                let words = format!("pause whoever leads by the lease for {lasting:.1?}");
                of_leader(words, |world, leader| world.pause(leader, *lasting))
            }
            LeaseFault::SlowLeader(by, lasting) => {
                let words = format!("slow whoever leads by the lease by up to {by:.0?} for {lasting:.1?}");
                of_leader(words, |world, leader| world.slow(leader, *by, *lasting))
            }
            LeaseFault::Resign => of_lease("the lease is given up", World::resign_lease),
            LeaseFault::CutLeaderFromStore(lasting, is_mute) => {
                let words = format!("cut whoever leads from the database for {lasting:.1?} (and from all: {is_mute})");
                of_leader(words, |world, leader| {
                    if *is_mute {
                        world.partition(&[leader], Some(*lasting));
                    }
                    world.cut_from_store(leader, *lasting)
                })
            }
            LeaseFault::CutFromStore(node, lasting) => {
                let words = format!("cut {node} from the database for {lasting:.1?}");
                of_lease(words, |world| world.cut_from_store(*node, *lasting))
            }
            LeaseFault::Mute(node, lasting) => {
                of_lease(format!("cut {node} off all but the database for {lasting:.1?}"), |world| {
                    let side = NodeSet::of(&[*node]);
                    world.cut(side.clone(), side.rest(), Some(*lasting));
                    world.cut(side.rest(), side, Some(*lasting));
                    true
                })
            }
            LeaseFault::StoreDown(lasting) => {
                of_lease(format!("the database is down for {lasting:.1?}"), |world| world.stop_store(*lasting))
            }
            LeaseFault::ReadOnly(lasting) => {
                of_lease(format!("the database takes no writes for {lasting:.1?}"), |world| world.lock_store(*lasting))
            }
            LeaseFault::BadWay(fault, lasting) => {
                let WayFault { lost_requests, lost_answers, late_requests, broken, slowest } = fault;
                let words = format!(
                    "way to the database for {lasting:.1?}: requests lost {lost_requests:.1} late {late_requests:.1}, \
                     answers lost {lost_answers:.1} broken {broken:.1}, up to {slowest:.1?}"
                );
                of_lease(words, |world| world.disturb_store(*fault, *lasting))
            }
            LeaseFault::ClockForward(by) => {
                let words = format!("the database's clock is put {by:.1?} forward");
                of_lease(words, |world| world.step_stores_clock(*by, true))
            }
            LeaseFault::ClockBack(by) => {
                let words = format!("the database's clock is put {by:.1?} back");
                of_lease(words, |world| world.step_stores_clock(*by, false))
            }
            LeaseFault::FailOver(commits) => {
                let words = format!("a replica takes over that lacks {commits} commits");
                of_lease(words, |world| world.fail_store_over(Some(*commits)))
            }
            LeaseFault::Empty => of_lease("an empty database takes over", |world| world.fail_store_over(None)),
            LeaseFault::EmptyForNewcomer(node) => {
                let words = format!("an empty database takes over, and {node} comes back without its disk");
                of_lease(words, |world| {
                    world.crash(*node);
                    world.lose_disk(*node);
                    world.fail_store_over(None) && world.start(*node)
                })
            }
            LeaseFault::DeleteTerms => of_lease("the terms row is deleted", World::delete_terms),
        }
    }
}

fn of_lease<'a>(words: impl fmt::Display, apply: impl FnOnce(&mut World) -> bool + 'a) -> Row<'a> {
    row("lease", words, apply)
}

/// Returns the row of a fault whose victim is whoever leads by the lease, if somebody does.
fn of_leader<'a>(words: impl fmt::Display, apply: impl FnOnce(&mut World, usize) -> bool + 'a) -> Row<'a> {
    of_lease(words, |world| world.lease_leader().is_some_and(|leader| apply(world, leader)))
}

impl fmt::Display for LeaseFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.row().words)
    }
}

impl Schedule {
    /// Returns the schedule of this seed, with nodes that contend for a lease in a database.
    pub fn with_contenders(seed: u64) -> Self {
        let mut schedule = Self::random(seed);
        let mut random = Random::new(seed, Purpose::LeaseFaults);
        schedule.variation.contenders = random.between(2, schedule.nodes as u64) as usize;
        let begin = Duration::from_secs(3);
        schedule.heal_at = schedule.heal_at.max(begin);
        for _ in 0..random.between(20, 40) {
            let at = random.duration(begin, schedule.heal_at);
            let fault = weighted(&mut random, &FAULTS)(&mut random, schedule.variation.contenders);
            schedule.operations.push((at, Operation::Lease(fault)));
        }
        // Rare things of which one in a run is enough.
        let at = random.duration(begin, schedule.heal_at);
        let rare = match random.below(4) {
            0 => Some(LeaseFault::EmptyForNewcomer(random.index(schedule.variation.contenders))),
            1 => Some(LeaseFault::DeleteTerms),
            _ => None,
        };
        schedule.operations.extend(rare.map(|fault| (at, Operation::Lease(fault))));
        schedule.operations.sort_by_key(|(at, _)| *at);
        schedule
    }
}

/// Draws the figures of one fault, for so many contenders.
type Draw = fn(&mut Random, usize) -> LeaseFault;

/// The faults, each with its weight.
const FAULTS: [(u64, Draw); 14] = [
    (2, |_, _| LeaseFault::CrashLeader),
    // Around the lease of a second or two, and well past it.
    (4, |random, _| LeaseFault::PauseLeader(random.duration(Duration::from_millis(300), Duration::from_secs(4)))),
    (1, |random, _| LeaseFault::SlowLeader(Duration::from_millis(random.between(5, 300)), lasting(random))),
    (1, |_, _| LeaseFault::Resign),
    (3, |random, _| LeaseFault::CutLeaderFromStore(lasting(random), random.chance(0.5))),
    (1, |random, contenders| LeaseFault::CutFromStore(random.index(contenders), lasting(random))),
    (1, |random, contenders| LeaseFault::Mute(random.index(contenders), lasting(random))),
    (1, |random, _| LeaseFault::StoreDown(lasting(random))),
    (1, |random, _| LeaseFault::ReadOnly(lasting(random))),
    (3, |random, _| {
        let mut chance = |most: u64| random.below(most) as f64 / 10.0;
        let (lost_requests, lost_answers, late_requests, broken) = (chance(2), chance(5), chance(2), chance(2));
        let slowest = Duration::from_millis(*random.pick(&[2, 2, 50, 200]).unwrap_or(&2));
        let fault = WayFault { lost_requests, lost_answers, late_requests, broken, slowest };
        LeaseFault::BadWay(fault, lasting(random))
    }),
    (2, |random, _| LeaseFault::ClockForward(lasting(random))),
    (1, |random, _| LeaseFault::ClockBack(lasting(random))),
    (2, |random, _| LeaseFault::FailOver(random.between(1, 12) as usize)),
    (1, |_, _| LeaseFault::Empty),
];

fn lasting(random: &mut Random) -> Duration {
    random.duration(Duration::from_millis(200), Duration::from_secs(6))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::invariants::{Invariant, LeaseReached};
    use crate::{Outcome, run_schedule};
    use headcount_contender::flaw::Flaw;

    fn number_of(variable: &str) -> Option<u64> {
        std::env::var(variable).ok().and_then(|number| number.parse().ok())
    }

    #[test]
    fn faults_of_leases_come_to_the_faults_of_the_same_seed_and_print() {
        let mut kinds = BTreeSet::new();
        for seed in 0..100 {
            let (usual, more) = (Schedule::random(seed), Schedule::with_contenders(seed));
            assert!(usual.operations.iter().all(|fault| more.operations.contains(fault)));
            assert!((2..=more.nodes).contains(&more.variation.contenders));
            assert!(more == Schedule::with_contenders(seed));
            for (at, operation) in &more.operations {
                assert!(*at <= more.heal_at && !operation.to_string().is_empty());
                if let Operation::Lease(fault) = operation {
                    kinds.insert(format!("{:?}", std::mem::discriminant(fault)));
                }
            }
        }
        assert_eq!(kinds.len(), 16, "{kinds:?}");
    }

    /// `HEADCOUNT_CONTENDERS=1000` runs more seeds, `HEADCOUNT_CONTENDERS_SEED=17` one of them with all that happens.
    #[test]
    fn whole_nodes_that_contend_for_leases_keep_every_promise_and_reach_every_corner() {
        if let Some(seed) = number_of("HEADCOUNT_CONTENDERS_SEED") {
            let outcome = run_schedule(seed, &Schedule::with_contenders(seed), true, None);
            println!("{}\n{outcome}\n{:?}", outcome.lines.join("\n"), outcome.failure());
            assert!(outcome.violation.is_none());
            return;
        }
        let count = number_of("HEADCOUNT_CONTENDERS").unwrap_or(60);
        let run = |seed| run_schedule(seed, &Schedule::with_contenders(seed), false, None);
        let outcomes: Vec<Outcome> = (0..count).map(run).collect();
        let mut all = LeaseReached::default();
        for outcome in &outcomes {
            all += outcome.leases;
        }
        let slowest = outcomes.iter().filter_map(|outcome| outcome.lease_led_after).max();
        println!("{count} seeds: {all:?}, slowest leader {slowest:?} after the healing");
        let broken: Vec<_> = outcomes.iter().filter_map(Outcome::failure).collect();
        for failure in &broken {
            println!("{failure}");
        }
        assert!(broken.is_empty(), "{} of {count}", broken.len());
        for (what, often, least) in [
            ("claims", all.claims, count * 2),
            ("takeovers", all.takeovers, count),
            ("adoptions", all.adoptions, count / 20),
            ("lost answers", all.lost_answers, count / 2),
            ("fail-overs", all.fail_overs, count / 5),
            ("lost commits", all.lost_commits, count / 5),
            ("empty databases", all.emptied, count / 5),
            ("claims that ran out", all.expired, count / 2),
            ("rejections", all.rejected, count / 20),
            ("resignations", all.resigned, count / 5),
            ("releases", all.releases, count / 5),
            ("leaders that stood still past their claim", all.paused, count / 20),
            ("words", all.words, count * 5),
        ] {
            assert!(often >= least, "{what}: {often} of {least} wanted in {all:?}");
        }
    }

    /// Checks that a seed is caught: whole nodes break one of these promises when their contenders leave out a rule.
    /// Not much is looked at before it, as the rarest show in one of two hundred.
    #[track_caller]
    fn is_caught(flaw: Flaw, first: u64, by: &[Invariant]) {
        let found = (first..first + 400).find_map(|seed| {
            let mut schedule = Schedule::with_contenders(seed);
            schedule.variation.flaw = Some(flaw);
            let violation = run_schedule(seed, &schedule, false, None).violation?;
            by.contains(&violation.invariant).then(|| (seed, violation.to_string()))
        });
        println!("{flaw:?}: {found:?}");
        assert!(found.is_some(), "the planted bug is found: {flaw:?}");
    }

    macro_rules! planted {
        ($($name:ident: $flaw:ident from $first:literal by $($invariant:ident),+;)*) => {
            $(
                #[test]
                fn $name() {
                    is_caught(Flaw::$flaw, $first, &[$(Invariant::$invariant),+]);
                }
            )*
        };
    }

    planted! {
        planted_leader_whose_claim_does_not_end_is_caught: NoExpiry from 0 by LeaseClaimsEndInTime;
        planted_takeover_at_the_stores_expiry_is_caught: TakesAtExpiry from 4 by OneLeaseClaimAtATime;
        planted_trust_in_what_looks_free_is_caught: TakesWhatLooksFree from 178 by OneLeaseClaimAtATime;
        planted_leader_that_ignores_rejections_is_caught: IgnoresRejection from 0 by DeposedLeadersStop;
        planted_leader_that_ignores_higher_terms_is_caught: IgnoresHigherTerms from 3 by DeposedLeadersStop;
        planted_leader_that_leads_on_in_its_term_is_caught: LeadsOnInItsTerm from 37 by OneLeaderPerLeaseTerm;
        planted_release_before_the_work_has_ended_is_caught: ReleasesBeforeWorkEnds from 2 by LedWorkEndsFirst;
        planted_terms_of_the_store_alone_are_caught: TermOfStoreAlone from 1 by LeaseIsLed, LeaseWordsAgree, OneLeaderPerLeaseTerm;
        planted_claim_below_the_known_term_is_caught: LeadsBelowKnownTerm from 103 by OneLeaderPerLeaseTerm;
    }
}
