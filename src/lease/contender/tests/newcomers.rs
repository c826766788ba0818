//! Newcomers: they listen before they begin at the first term, and terms count that were heard of before.

use super::directed::{LEASE, RENEWAL, SECOND, alone, outputs, own_claim, usual};
use super::world::name;
use crate::database::Database;
use crate::flaw::Flaw;
use crate::tests::Contender;
use crate::{ContenderAlarm, Output};
use crate::{LeaseName, StepRequest};
use headcount_core::Time;

/// Has a newcomer come to a database that was emptied, and hear of term 5 a while later; returns the terms in which it
/// led at once, and at the end.
fn arrives_at_an_empty_database(flaw: Option<Flaw>, is_among_others: bool) -> (Option<u64>, Option<u64>) {
    let mut contender = alone(usual());
    if let Some(flaw) = flaw {
        contender.plant(flaw);
    }
    if is_among_others {
        contender.arrive(Time::ORIGIN);
    }
    let mut database = Database::new();
    let mut led = Vec::new();
    for tenth in 0..10 * (LEASE * 3).as_secs() {
        let clock = SECOND * tenth as u32 / 10;
        let now = Time::ORIGIN + clock;
        if tenth == 10 {
            contender.heard(now, &LeaseName::default(), &name(0), 5, false);
        }
        contender.tick(now);
        if let Some(round) = contender.begin(now) {
            contender.answered(now, &database.execute(clock, &round).expect("it takes writes"));
        }
        led.extend(own_claim(&contender).map(|(term, _)| (tenth, term)));
    }
    let at_once = led.first().filter(|(tenth, _)| *tenth < 10).map(|(_, term)| *term);
    (at_once, led.last().map(|(_, term)| *term))
}

#[test]
fn a_newcomer_listens_to_the_members_before_it_begins_at_the_first_term() {
    assert_eq!(arrives_at_an_empty_database(None, true), (None, Some(6)));
    assert_eq!(arrives_at_an_empty_database(None, false).0, Some(1), "alone, there is nobody to listen to");
}

#[test]
fn planted_newcomer_that_does_not_listen_is_caught() {
    assert_eq!(arrives_at_an_empty_database(Some(Flaw::DeafOnArrival), true).0, Some(1));
}

#[test]
fn a_newcomer_that_hears_nothing_leads_after_half_a_lease_also_by_a_lease_that_was_given_up() {
    let (mut contender, mut database) = (alone(usual()), Database::new());
    contender.arrive(Time::ORIGIN);
    let look = |contender: &mut Contender, database: &mut Database, now: Time| {
        contender.tick(now);
        let round = contender.begin(now).expect("due");
        contender.answered(now, &database.execute(now.since(Time::ORIGIN), &round).expect("it takes writes"));
    };
    look(&mut contender, &mut database, Time::ORIGIN);
    let mut now = Time::ORIGIN;
    while own_claim(&contender).is_none() {
        now = contender.next_deadline().expect("it goes on");
        look(&mut contender, &mut database, now);
    }
    let waited = now.since(Time::ORIGIN);
    assert!(waited >= LEASE / 2 && waited <= LEASE / 2 + SECOND / 10, "{waited:?}");
    // Another newcomer, after that one has given the lease up.
    contender.resign(now, &LeaseName::default());
    while let Some(output) = contender.poll() {
        if let Output::AwaitWork { lease, term } = output {
            contender.work_ended(now, &lease, term);
        }
    }
    look(&mut contender, &mut database, now);
    let mut later = alone(usual());
    later.arrive(now);
    look(&mut later, &mut database, now);
    let came = now;
    while own_claim(&later).is_none() {
        now = later.next_deadline().expect("it goes on");
        look(&mut later, &mut database, now);
    }
    let waited = now.since(came);
    assert!(waited >= LEASE / 2 && waited <= LEASE / 2 + SECOND / 10, "{waited:?}");
    assert_eq!(own_claim(&later).map(|(term, _)| term), Some(2), "the row of the term says that it is free");
}

/// Hears of a lease that it does not contend for, contends for it then, and returns the term in which it leads.
fn leads_what_it_heard_of(flaw: Option<Flaw>) -> u64 {
    let (mut contender, mut database) = (alone(usual()), Database::new());
    if let Some(flaw) = flaw {
        contender.plant(flaw);
    }
    let billing = LeaseName::new("billing").expect("a name");
    contender.heard(Time::ORIGIN, &billing, &name(1), 7, false);
    contender.add_lease(Time::ORIGIN, billing.clone()).expect("there is room");
    for second in 0..60 {
        let now = Time::ORIGIN + SECOND * second;
        contender.tick(now);
        if let Some(round) = contender.begin(now) {
            contender.answered(now, &database.execute(SECOND * second, &round).expect("it takes writes"));
        }
    }
    let claim = contender.claims().find(|claim| claim.lease == billing).expect("it is contended for");
    assert!(claim.is_me);
    claim.term
}

#[test]
fn a_term_that_is_heard_of_counts_for_a_lease_that_is_contended_for_later() {
    assert_eq!(leads_what_it_heard_of(None), 8);
    assert_eq!(leads_what_it_heard_of(Some(Flaw::ForgetsOthersTerms)), 1, "the planted bug is caught");
}

#[test]
fn a_leader_that_a_doubtful_member_contradicts_proves_its_claim_at_once_and_raises_the_alarm_within_bounds() {
    let (mut contender, mut database) = (alone(usual()), Database::new());
    let lease = LeaseName::default();
    let look = |contender: &mut Contender, database: &mut Database, now: Time| {
        let round = contender.begin(now)?;
        contender.answered(now, &database.execute(now.since(Time::ORIGIN), &round).expect("it takes writes"));
        Some(round.steps[0].request.clone())
    };
    contender.doubted(Time::ORIGIN, &lease, &name(1), 9);
    look(&mut contender, &mut database, Time::ORIGIN);
    assert_eq!(own_claim(&contender).map(|(term, _)| term), Some(1), "whoever does not lead is not concerned");
    assert!(!outputs(&mut contender).iter().any(|output| matches!(output, Output::Alarm(_))));
    let (mut rounds, mut alarms) = (0, 0);
    for tick in 0..500_u32 {
        let now = Time::ORIGIN + RENEWAL * tick / 500;
        contender.doubted(now, &lease, &name(1), 9);
        rounds += u32::from(matches!(look(&mut contender, &mut database, now), Some(StepRequest::Renew { .. })));
        let is_alarm = |output: &&Output| matches!(output, Output::Alarm(ContenderAlarm::OtherDatabase { .. }));
        alarms += outputs(&mut contender).iter().filter(is_alarm).count();
    }
    assert_eq!((rounds, alarms), (4, 4));
    assert_eq!(own_claim(&contender).map(|(term, _)| term), Some(1), "a word does not depose it");
    // The database does.
    database.replace();
    let now = Time::ORIGIN + RENEWAL;
    contender.doubted(now, &lease, &name(1), 9);
    look(&mut contender, &mut database, now);
    assert_eq!(own_claim(&contender), None);
}
