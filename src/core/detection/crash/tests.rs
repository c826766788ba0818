//! The machine alone: transitions, and the evidence that each of them needs.

use std::time::Duration;

use super::{Audience, CrashFacts, CrashStep, Crashes, Observer, PROBES, PROBES_ALONE};
use crate::limits::{CRASH_PATIENCE, CRASH_REVIEW, CRASH_REVIEWS, MANY_CRASHES_PATIENCE, MAX_CRASH_WITNESSES};
use crate::member::Run;
use crate::time::Time;

const SUBJECT: Run = Run(1);
const OTHER: Run = Run(2);
const THIRD: Run = Run(3);
const GAP: Duration = Duration::from_millis(50);

fn at(ms: u64) -> Time {
    Time::ORIGIN + Duration::from_secs(1_000) + Duration::from_millis(ms)
}

/// Returns the surroundings with these other observers, none of them suspected.
fn among(others: &[Run]) -> CrashFacts {
    let others = others.iter().map(|run| Observer { run: *run, is_suspect: false }).collect();
    CrashFacts { gap: GAP, others, ..CrashFacts::default() }
}

/// Returns a case whose port refused at 0 ms, after so many rounds of probes, [`GAP`] apart; nobody asked has answered.
fn refused(rounds: u32, facts: &CrashFacts) -> Crashes {
    let mut crashes = Crashes::default();
    crashes.open(SUBJECT, 10, CRASH_REVIEWS);
    crashes.refused(at(0), SUBJECT, false, Some(10));
    for round in 0..rounds {
        let steps = crashes.investigate(at(0) + GAP * round, SUBJECT, facts);
        assert!(steps.contains(&CrashStep::Probe), "round {round}: {steps:?}");
        crashes.ask(at(0) + GAP * round, SUBJECT).expect("it is refused");
    }
    crashes
}

#[test]
fn a_case_whose_link_is_being_opened_waits_for_the_outcome() {
    let mut crashes = Crashes::default();
    crashes.open(SUBJECT, 10, CRASH_REVIEWS);
    assert_eq!(crashes.investigate(at(0), SUBJECT, &among(&[])), []);
    assert!(!crashes.told_severed(at(0), SUBJECT, OTHER, false));
    assert!(crashes.told_severed(at(0), SUBJECT, OTHER, true));
    assert_eq!(crashes.judge(at(0), SUBJECT, &among(&[])), [], "not refused itself: others prove nothing");
    crashes.await_no_link(SUBJECT);
    assert!(!crashes.is_case(SUBJECT), "no outcome will come");
}

#[test]
fn a_refused_case_outlives_the_link_that_nobody_wants() {
    let mut crashes = refused(1, &among(&[OTHER]));
    crashes.await_no_link(SUBJECT);
    assert!(crashes.is_case(SUBJECT));
}

#[test]
fn after_a_refusal_each_round_probes_and_asks_and_the_second_walks() {
    let mut crashes = refused(0, &among(&[OTHER]));
    for round in 0..PROBES + CRASH_PATIENCE {
        let steps = crashes.investigate(at(0) + GAP * round, SUBJECT, &among(&[OTHER]));
        let expected: &[CrashStep] = if round == 1 {
            &[CrashStep::Probe, CrashStep::Walk, CrashStep::Ask, CrashStep::Wait(GAP)]
        } else {
            &[CrashStep::Probe, CrashStep::Ask, CrashStep::Wait(GAP)]
        };
        assert_eq!(steps, expected, "round {round}");
        assert_eq!(crashes.is_in_vain(SUBJECT), round >= 1);
        assert_eq!(crashes.in_vain().count(), usize::from(round >= 1));
        let (age, is_sure) = crashes.ask(at(0) + GAP * round, SUBJECT).expect("refused");
        assert_eq!((age, is_sure), (GAP * round, round >= PROBES), "round {round}");
    }
    assert_eq!(crashes.investigate(at(900), SUBJECT, &among(&[OTHER])), [CrashStep::Close], "its silence will tell");
    assert!(!crashes.is_case(SUBJECT));
}

#[test]
fn the_round_that_may_decide_is_known_before_it() {
    for rounds in 0..=PROBES {
        let crashes = refused(rounds, &among(&[OTHER]));
        assert!(crashes.is_refused(SUBJECT));
        assert_eq!(crashes.is_decided_next(SUBJECT), rounds >= PROBES, "after {rounds} rounds");
    }
}

#[test]
fn others_are_awaited_for_longer_while_many_are_missing() {
    let facts = CrashFacts { is_walking: true, ..among(&[OTHER]) };
    let mut crashes = refused(PROBES + MANY_CRASHES_PATIENCE, &facts);
    assert_eq!(crashes.investigate(at(5_000), SUBJECT, &facts), [CrashStep::Close]);
}

#[test]
fn of_two_that_died_together_neither_is_given_up_while_the_other_is_looked_into() {
    // The port of the second took one more link before it closed: its case is reviewed, and is sure later.
    let mut crashes = refused(0, &among(&[OTHER]));
    crashes.open(OTHER, 10, CRASH_REVIEWS);
    let review = crashes.closed_unanswered(OTHER, false, Some(10));
    assert!(review.contains(&CrashStep::Wait(CRASH_REVIEW)));
    let late = u32::try_from(CRASH_REVIEW.as_millis() / GAP.as_millis()).expect("a few rounds");
    let mut convicted = Vec::new();
    for round in 0..=late + PROBES_ALONE + 1 {
        let now = at(0) + GAP * round;
        if round == late {
            assert_eq!(crashes.investigate(now, OTHER, &among(&[SUBJECT])), [CrashStep::Reopen]);
            crashes.refused(now, OTHER, false, Some(10));
        }
        for (run, other) in [(SUBJECT, OTHER), (OTHER, SUBJECT)] {
            // A member that was convicted is no observer any more.
            let others = if convicted.contains(&other) { among(&[]) } else { among(&[other]) };
            let is_due = run == SUBJECT || round >= late;
            if is_due && crashes.investigate(now, run, &others) == [CrashStep::Convict] {
                convicted.push(run);
            }
        }
    }
    assert_eq!(convicted, [SUBJECT, OTHER]);
}

#[test]
fn two_that_are_sure_convict_and_not_before_all_probes_were_in_vain() {
    for rounds in 0..=PROBES {
        let facts = among(&[OTHER, THIRD]);
        let mut crashes = refused(rounds, &facts);
        let now = at(0) + GAP * rounds;
        crashes.told_severed(now, SUBJECT, OTHER, true);
        assert_eq!(crashes.judge(now, SUBJECT, &facts), [], "after {rounds} rounds");
        let steps = crashes.investigate(now, SUBJECT, &facts);
        assert_eq!(steps == [CrashStep::Convict], rounds == PROBES, "after {rounds} rounds: {steps:?}");
        assert_eq!(crashes.is_case(SUBJECT), rounds != PROBES, "a verdict ends the case");
    }
}

#[test]
fn the_report_of_the_second_convicts_at_once_where_this_one_is_sure() {
    let facts = among(&[OTHER, THIRD]);
    let mut crashes = refused(PROBES + 1, &facts);
    assert!(crashes.is_decided_next(SUBJECT));
    assert!(!crashes.told_severed(at(200), SUBJECT, OTHER, false), "a question is no testimony");
    assert_eq!(crashes.judge(at(200), SUBJECT, &facts), []);
    assert!(crashes.told_severed(at(200), SUBJECT, OTHER, true));
    assert_eq!(crashes.judge(at(200), SUBJECT, &facts), [CrashStep::Convict]);
}

#[test]
fn an_observer_that_stopped_saying_that_it_is_sure_confirms_nothing() {
    for (late, is_convicted) in [(0, true), (1, false)] {
        let facts = among(&[OTHER]);
        let mut crashes = refused(PROBES, &facts);
        crashes.told_severed(at(150), SUBJECT, OTHER, true);
        let now = at(150) + GAP * 2 + Duration::from_nanos(late);
        assert_eq!(crashes.investigate(now, SUBJECT, &facts) == [CrashStep::Convict], is_convicted, "{late} ns late");
    }
}

#[test]
fn an_observer_without_others_probes_longer() {
    let alone = among(&[]);
    let mut crashes = refused(PROBES_ALONE, &alone);
    assert_eq!(crashes.investigate(at(250), SUBJECT, &alone), [CrashStep::Convict]);
}

#[test]
fn others_that_are_suspected_or_as_dead_could_not_have_heard_the_subject() {
    let suspected = CrashFacts { others: vec![Observer { run: OTHER, is_suspect: true }], ..among(&[]) };
    let mut crashes = refused(PROBES_ALONE, &suspected);
    let one_lives = CrashFacts {
        others: vec![Observer { run: OTHER, is_suspect: true }, Observer { run: THIRD, is_suspect: false }],
        ..among(&[])
    };
    assert_eq!(crashes.clone().investigate(at(250), SUBJECT, &one_lives).first(), Some(&CrashStep::Probe));
    assert_eq!(crashes.investigate(at(250), SUBJECT, &suspected), [CrashStep::Convict]);

    // Two died at once that were each other's observers.
    let facts = among(&[OTHER]);
    let mut crashes = refused(PROBES_ALONE, &facts);
    crashes.open(OTHER, 0, CRASH_REVIEWS);
    crashes.refused(at(0), OTHER, false, Some(10));
    for _ in 0..=PROBES {
        assert_eq!(
            crashes.clone().investigate(at(250), SUBJECT, &facts).first(),
            Some(&CrashStep::Probe),
            "not sure yet"
        );
        crashes.investigate(at(0), OTHER, &among(&[SUBJECT]));
    }
    assert_eq!(crashes.investigate(at(250), SUBJECT, &facts), [CrashStep::Convict]);
}

#[test]
fn a_sign_of_life_that_is_news_takes_the_case_back_and_the_last_one_ends_it() {
    let facts = among(&[OTHER]);
    let mut crashes = refused(PROBES, &facts);
    crashes.told_severed(at(150), SUBJECT, OTHER, true);
    let mut sequence = 10;
    assert_eq!(crashes.heard(SUBJECT, sequence), Some((vec![], Audience::Observers)), "an old packet is no news");
    for _ in 0..CRASH_REVIEWS {
        sequence += 1;
        let (steps, audience) = crashes.heard(SUBJECT, sequence).expect("a case");
        assert_eq!((steps, audience), (vec![CrashStep::Refuted, CrashStep::Wait(CRASH_REVIEW)], Audience::Observers));
        assert_eq!(crashes.reports_about(SUBJECT).0, 0, "who was sure was wrong");
        assert!(!crashes.is_refused(SUBJECT) && !crashes.is_in_vain(SUBJECT));
        assert_eq!(crashes.investigate(at(400), SUBJECT, &facts), [CrashStep::Reopen]);
        crashes.refused(at(400), SUBJECT, false, Some(10));
    }
    let (steps, _) = crashes.heard(SUBJECT, sequence + 1).expect("a case");
    assert_eq!(steps, [CrashStep::Refuted, CrashStep::Close]);
    assert!(!crashes.is_case(SUBJECT));
}

#[test]
fn a_sign_of_life_before_a_refusal_is_told_to_those_that_asked_once() {
    let mut crashes = Crashes::default();
    crashes.open(SUBJECT, 10, CRASH_REVIEWS);
    crashes.told_severed(at(0), SUBJECT, OTHER, false);
    let (steps, audience) = crashes.heard(SUBJECT, 11).expect("a case");
    assert_eq!((steps, audience), (vec![], Audience::Askers([OTHER].into())));
    assert_eq!(crashes.heard(SUBJECT, 12), Some((vec![], Audience::Askers([].into()))));
    // It is no news to the refusal that comes after it.
    crashes.refused(at(1), SUBJECT, false, Some(10));
    assert_eq!(crashes.heard(SUBJECT, 12).expect("a case").0, []);
}

#[test]
fn a_link_closed_unanswered_is_reviewed_twice_and_then_proves_nothing() {
    let mut crashes = Crashes::default();
    assert_eq!(crashes.closed_unanswered(SUBJECT, false, Some(10)), []);
    crashes.open(SUBJECT, 10, CRASH_REVIEWS);
    for _ in 0..CRASH_REVIEWS {
        assert_eq!(
            crashes.closed_unanswered(SUBJECT, false, Some(10)),
            [CrashStep::Wait(CRASH_REVIEW), CrashStep::Probe]
        );
        assert_eq!(crashes.investigate(at(0), SUBJECT, &among(&[])), [CrashStep::Reopen]);
    }
    assert_eq!(crashes.closed_unanswered(SUBJECT, false, Some(10)), [CrashStep::Close, CrashStep::Probe]);
    assert_eq!(crashes.size(), 0);
}

#[test]
fn a_link_that_nobody_refuses_is_no_evidence() {
    let mut crashes = refused(PROBES + 1, &among(&[OTHER]));
    assert_eq!(crashes.no_link(SUBJECT), [CrashStep::Close, CrashStep::Probe]);
    assert_eq!(crashes.no_link(SUBJECT), []);
}

#[test]
fn the_report_of_any_member_that_the_subject_lives_counts_where_there_is_a_case() {
    let mut crashes = refused(2, &among(&[OTHER]));
    let before = crashes.clone();
    assert_eq!(crashes.told_alive(OTHER, 99), []);
    assert_eq!(crashes, before);
    assert_eq!(crashes.told_alive(SUBJECT, 99), [CrashStep::Refuted, CrashStep::Wait(CRASH_REVIEW)]);
}

#[test]
fn members_whose_reports_are_kept_are_bounded() {
    let mut crashes = refused(1, &among(&[]));
    let many = || (0..=MAX_CRASH_WITNESSES as u64).map(|nth| Run(100 + nth));
    for (nth, by) in many().enumerate() {
        let is_taken = crashes.told_severed(at(0), SUBJECT, by, true);
        assert_eq!(is_taken, nth < MAX_CRASH_WITNESSES);
    }
    assert_eq!(crashes.reports_about(SUBJECT), (MAX_CRASH_WITNESSES, MAX_CRASH_WITNESSES));
}
