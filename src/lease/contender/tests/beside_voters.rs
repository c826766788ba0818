//! Leases beside leaders by voters: terms go on above theirs, and nobody begins to lead while one is heard.

use std::time::Duration;

use super::directed::{RENEWAL, SECOND, alone, alone_above, outputs, own_claim, usual};
use crate::Output;
use crate::database::Database;
use crate::flaw::Flaw;
use crate::{LeaseName, StepRequest};
use headcount_core::Time;

/// Returns the term in which a lease of an empty database is led where voters led up to term 6, and the alarms raised.
fn first_term_after_voters(flaw: Option<Flaw>) -> (u64, usize) {
    let (mut contender, mut database) = (alone_above(usual(), 6), Database::new());
    if let Some(flaw) = flaw {
        contender.plant(flaw);
    }
    let round = contender.begin(Time::ORIGIN).expect("due");
    let answer = database.execute(Duration::ZERO, &round).expect("it takes writes");
    contender.answered(Time::ORIGIN, &answer);
    let (term, _) = own_claim(&contender).expect("nobody is waited for");
    let alarms = outputs(&mut contender).iter().filter(|output| matches!(output, Output::Alarm(_))).count();
    (term, alarms)
}

#[test]
fn a_lease_is_taken_above_the_terms_that_voters_gave_and_nobody_is_waited_for() {
    assert_eq!(first_term_after_voters(None), (7, 0));
    assert_eq!(first_term_after_voters(Some(Flaw::TermOfStoreAlone)).0, 1, "planted");
}

/// Returns true if a lease is taken although somebody leads by voters.
fn takes_beside_voters(flaw: Option<Flaw>) -> bool {
    let (mut contender, lease, until) = (alone(usual()), LeaseName::default(), Time::ORIGIN + SECOND * 3);
    if let Some(flaw) = flaw {
        contender.plant(flaw);
    }
    contender.led_elsewhere(Time::ORIGIN, &lease, until);
    contender.led_elsewhere(Time::ORIGIN, &lease, until - SECOND);
    let round = contender.begin(Time::ORIGIN).expect("the liveness row is written");
    matches!(round.steps[0].request, StepRequest::Acquire { .. })
}

#[test]
fn nobody_begins_to_lead_while_a_leader_by_voters_is_heard_and_who_leads_goes_on() {
    assert!(!takes_beside_voters(None));
    assert!(takes_beside_voters(Some(Flaw::LeadsBesideVoters)), "planted");
    let (mut contender, mut database, lease) = (alone(usual()), Database::new(), LeaseName::default());
    let until = Time::ORIGIN + SECOND;
    contender.led_elsewhere(Time::ORIGIN, &lease, until);
    let round = contender.begin(Time::ORIGIN).expect("due");
    let answer = database.execute(Duration::ZERO, &round).expect("it takes writes");
    contender.answered(Time::ORIGIN, &answer);
    let next = contender.next_deadline().expect("there is a next round");
    assert!(next <= until.max(Time::ORIGIN + RENEWAL), "{next:?}");
    let round = contender.begin(next.max(until)).expect("due");
    assert!(matches!(round.steps[0].request, StepRequest::Acquire { .. }), "it is heard no more");
    let answer = database.execute(SECOND, &round).expect("it takes writes");
    contender.answered(next.max(until), &answer);
    assert!(own_claim(&contender).is_some());
    contender.led_elsewhere(next.max(until), &lease, until + SECOND * 9);
    assert!(own_claim(&contender).is_some(), "what is led already is not given up");
}
