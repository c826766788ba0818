//! Larger clusters: rings of observers, mixed paces, and faults after a time of peace, whose detection is timed.

use std::time::{Duration, Instant};

use headcount_campaign::Judged;
use headcount_campaign::{Campaign, Outcome, run_seed_of};

use super::{assert_reached, from_environment, run_all};

/// Seeds of a usual run.
const SEEDS: u64 = 6;
/// So many seeds must have reached each kind of operation, and judged each kind of detection.
const SEEDS_FOR_ALL: u64 = 200;

/// Kinds of operations, and the number of worlds in which each must have had an effect. Packets that come late come twice,
/// too, now and then.
const REACHED: [(&str, usize); 27] = [
    ("crash", 20),
    ("crash of many", 10),
    ("crash after joining", 10),
    ("power off", 10),
    ("power off of many", 5),
    ("departure of many", 10),
    ("cut", 20),
    ("deaf node", 5),
    ("lossy node", 10),
    ("pairs", 3),
    ("datagrams of pairs", 3),
    ("connections of pairs", 3),
    ("no datagrams", 10),
    ("late packets", 10),
    ("duplicates", 1),
    ("weather", 3),
    ("links reset", 10),
    ("firewall", 10),
    ("long pause", 10),
    ("address used again", 3),
    ("name and address used again", 3),
    ("name shared", 5),
    ("newcomer", 10),
    ("restart", 10),
    ("start of many", 10),
    ("staggered restart", 10),
    ("removal", 10),
];

#[test]
fn larger_clusters_keep_every_promise() {
    if let Some(seed) = from_environment("HEADCOUNT_SIM_LARGE_SEED") {
        let outcome = run_seed_of(Campaign::Large, seed, true);
        println!("{}\n{outcome}", outcome.lines.join("\n"));
        assert!(outcome.violation.is_none(), "{}", outcome.failure().unwrap_or_default());
        return;
    }
    let first = from_environment("HEADCOUNT_SIM_LARGE_FIRST").unwrap_or(0);
    let count = from_environment("HEADCOUNT_SIM_LARGE_SEEDS").unwrap_or(SEEDS);
    let began = Instant::now();
    let outcomes = run_all(Campaign::Large, first, count);
    let failures: Vec<String> = outcomes.iter().filter_map(Outcome::failure).collect();
    let virtual_time: Duration = outcomes.iter().map(|outcome| outcome.time).sum();
    let mut judged = Judged::default();
    for outcome in &outcomes {
        judged += outcome.judged;
    }
    println!(
        "{count} seeds, {:.1} virtual hours in {:.1?}; slowest agreement {:?}; {judged:?}",
        virtual_time.as_secs_f64() / 3_600.0,
        began.elapsed(),
        outcomes.iter().filter_map(|outcome| outcome.converged_after).max(),
    );
    assert!(failures.is_empty(), "{} of {count} seeds failed:\n{}", failures.len(), failures.join("\n"));
    if first == 0 && count >= SEEDS_FOR_ALL {
        assert_reached(&outcomes, &REACHED);
        let rings = outcomes.iter().filter(|outcome| outcome.nodes > 20).count();
        assert!(rings > 50, "{rings} worlds were large enough for rings");
        let Judged { crashes, recent, mass_crashes, silences, cuts, reports, suspicions } = judged;
        for (what, judged, least) in [
            ("crashes", crashes, 200),
            ("crashes after joining", recent, 20),
            ("crashes of most", mass_crashes, 5),
            ("hosts without power", silences, 50),
            ("cuts", cuts, 30),
            ("reports of cuts", reports, 200),
            ("suspicions", suspicions, 200),
        ] {
            assert!(judged >= least, "only {judged} {what} were judged");
        }
    }
}
