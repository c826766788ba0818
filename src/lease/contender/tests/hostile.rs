//! Hostile input: bytes from outside, and bounds.

use std::collections::BTreeMap;
use std::time::Duration;

use super::world::name;
use crate::timing::MAX_TOLD_AGAIN;
use crate::{Answer, Holder, LeaseName, MAX_LEASES, Outcome, Round, Seen, StepRequest, Token};
use crate::{Contender, ContenderAlarm, ContenderInit, ContenderTiming, MAX_DRAWN, MAX_HEARD_TERM, MAX_TERM, Output};
use headcount_core::Time;

const SECOND: Duration = Duration::from_secs(1);
const LEASE: Duration = Duration::from_secs(15);

fn contender(leases: usize) -> Contender {
    let init = ContenderInit {
        node: name(0),
        timing: ContenderTiming::of_lease(LEASE),
        leases: (0..leases).map(|lease| LeaseName::new(&format!("lease-{lease}")).expect("a name")).collect(),
        terms: BTreeMap::new(),
        floors: BTreeMap::new(),
        seed: [1; 32],
    };
    Contender::new(init, Time::ORIGIN)
}

fn alarms(contender: &mut Contender) -> Vec<&'static str> {
    let outputs = std::iter::from_fn(|| contender.poll());
    outputs.filter_map(|output| if let Output::Alarm(alarm) = output { Some(alarm.kind()) } else { None }).collect()
}

fn drawn(round: &Round) -> Token {
    match &round.steps[0].request {
        StepRequest::Acquire { drawn, .. } | StepRequest::Renew { drawn, .. } => *drawn,
        other => panic!("nothing is drawn: {other:?}"),
    }
}

fn seen(outcome: Outcome, term: u64, token: Token, holder_term: u64) -> Answer {
    let holder = Holder { node: name(0), token, term: holder_term, lease_duration: LEASE, expires_in: LEASE };
    Answer { steps: vec![Seen { outcome, term, holder: Some(holder), is_released: false }] }
}

fn leads(contender: &Contender) -> bool {
    contender.claims().any(|claim| claim.is_me)
}

#[test]
fn an_answer_that_does_not_fit_counts_as_lost() {
    for answer in [
        Answer { steps: Vec::new() },
        Answer {
            steps: [seen(Outcome::Acquired, 1, Token(1), 1).steps, seen(Outcome::Acquired, 1, Token(1), 1).steps]
                .concat(),
        },
        seen(Outcome::Acquired, 1, Token(1), 2),
    ] {
        let mut contender = contender(1);
        contender.begin(Time::ORIGIN).expect("due");
        contender.answered(Time::ORIGIN + SECOND, &answer);
        assert_eq!(alarms(&mut contender), [ContenderAlarm::StrangeAnswer.kind()]);
        assert!(!leads(&contender));
        assert!(contender.begin(Time::ORIGIN + SECOND * 2).is_some(), "it is asked again");
    }
}

#[test]
fn a_grant_under_a_token_that_was_not_drawn_or_in_a_term_out_of_bounds_is_none() {
    let mut other = contender(1);
    other.begin(Time::ORIGIN).expect("due");
    other.answered(Time::ORIGIN, &seen(Outcome::Acquired, 1, Token(1), 1));
    assert!(!leads(&other));
    let mut beyond = contender(1);
    let round = beyond.begin(Time::ORIGIN).expect("due");
    beyond.answered(Time::ORIGIN, &seen(Outcome::Acquired, MAX_TERM + 1, drawn(&round), MAX_TERM + 1));
    assert!(!leads(&beyond));
    assert_eq!(alarms(&mut beyond), ["term limit"]);
    let mut last = contender(1);
    let round = last.begin(Time::ORIGIN).expect("due");
    last.answered(Time::ORIGIN, &seen(Outcome::Acquired, MAX_TERM, drawn(&round), MAX_TERM));
    assert!(leads(&last), "the last term may be led");
}

/// Answers the round of a contender for two leases: the first as given, the second acquired.
fn beside_a_sound_one(contender: &mut Contender, outcome: Outcome, term: u64) {
    let round = contender.begin(Time::ORIGIN).expect("due");
    let StepRequest::Acquire { drawn, .. } = round.steps[1].request else { panic!("it asks for both") };
    let mut answer = seen(Outcome::Acquired, 1, drawn, 1);
    answer.steps.insert(0, Seen { outcome, term, holder: None, is_released: false });
    contender.answered(Time::ORIGIN, &answer);
}

#[test]
fn what_is_wrong_with_one_lease_is_told_and_leaves_the_others_alone() {
    for (outcome, term, told) in [
        (Outcome::Unreadable, 0, "row unreadable"),
        (Outcome::Exhausted, MAX_TERM, "terms exhausted"),
        (Outcome::Held, MAX_TERM, "terms exhausted"),
    ] {
        let mut contender = contender(2);
        beside_a_sound_one(&mut contender, outcome, term);
        assert_eq!(contender.claims().map(|claim| claim.is_me).collect::<Vec<_>>(), [false, true]);
        assert_eq!(alarms(&mut contender), [told]);
    }
}

#[test]
fn whoever_led_by_a_row_that_cannot_be_read_leads_no_more_and_has_nothing_to_release() {
    let mut contender = contender(1);
    let lease = LeaseName::new("lease-0").expect("a name");
    let round = contender.begin(Time::ORIGIN).expect("due");
    contender.answered(Time::ORIGIN, &seen(Outcome::Acquired, 1, drawn(&round), 1));
    let now = Time::ORIGIN + LEASE / 3;
    contender.begin(now).expect("its renewal is due");
    let unreadable = || Seen { outcome: Outcome::Unreadable, term: 0, holder: None, is_released: false };
    contender.answered(now, &Answer { steps: vec![unreadable()] });
    assert!(!leads(&contender));
    contender.work_ended(now, &lease, 1);
    contender.stop(now);
    assert!(std::iter::from_fn(|| contender.poll()).any(|output| output == Output::Stopped));
}

#[test]
fn a_release_of_a_row_that_cannot_be_read_is_not_tried_for_ever() {
    let mut contender = contender(1);
    let lease = LeaseName::new("lease-0").expect("a name");
    let round = contender.begin(Time::ORIGIN).expect("due");
    contender.answered(Time::ORIGIN, &seen(Outcome::Acquired, 1, drawn(&round), 1));
    let now = Time::ORIGIN + SECOND;
    contender.stop(now);
    contender.work_ended(now, &lease, 1);
    let round = contender.begin(now).expect("due at once");
    assert!(matches!(round.steps[0].request, StepRequest::Release { .. }));
    let unreadable = Seen { outcome: Outcome::Unreadable, term: 0, holder: None, is_released: false };
    contender.answered(now, &Answer { steps: vec![unreadable] });
    assert!(std::iter::from_fn(|| contender.poll()).any(|output| output == Output::Stopped));
}

#[test]
fn a_row_that_says_a_shorter_lease_is_believed_and_a_longer_one_is_not() {
    for (said, counted) in [(LEASE / 3, LEASE / 3), (LEASE * 100, LEASE)] {
        let mut contender = contender(1);
        let round = contender.begin(Time::ORIGIN).expect("due");
        let mut answer = seen(Outcome::Acquired, 1, drawn(&round), 1);
        answer.steps[0].holder.as_mut().expect("it is held").lease_duration = said;
        contender.answered(Time::ORIGIN, &answer);
        let until = contender.claims().next().and_then(|claim| claim.valid_until);
        assert_eq!(until, Some(Time::ORIGIN + counted * 98 / 100));
    }
}

#[test]
fn a_term_beyond_the_limit_is_not_believed_on_the_word_of_others() {
    let mut contender = contender(1);
    let lease = LeaseName::new("lease-0").expect("a name");
    contender.heard(Time::ORIGIN, &lease, &name(1), MAX_HEARD_TERM + 1, false);
    assert_eq!(alarms(&mut contender), ["term limit"]);
    assert_eq!(contender.claims().next().map(|claim| claim.term), Some(0));
    contender.heard(Time::ORIGIN, &lease, &name(1), MAX_HEARD_TERM, false);
    assert_eq!(contender.claims().next().map(|claim| claim.term), Some(MAX_HEARD_TERM));
    let unknown = LeaseName::new("unknown").expect("a name");
    contender.heard(Time::ORIGIN, &unknown, &name(1), 3, false);
    assert_eq!(contender.claims().count(), 1);
}

#[test]
fn an_agent_contends_for_so_many_leases_and_no_more() {
    let mut contender = contender(MAX_LEASES);
    let one_more = LeaseName::new("one-more").expect("a name");
    let refused = contender.add_lease(Time::ORIGIN, one_more).expect_err("there is no room");
    assert!(refused.to_string().contains("remove one"));
    assert_eq!(contender.begin(Time::ORIGIN).map(|round| round.steps.len()), Some(MAX_LEASES));
    let there = LeaseName::new("lease-0").expect("a name");
    assert_eq!(contender.add_lease(Time::ORIGIN, there), Ok(()));
}

#[test]
fn so_many_leases_are_told_of_again_at_one_time_and_the_others_next() {
    let mut contender = contender(MAX_LEASES);
    let mut database = crate::database::Database::new();
    let mut told = Vec::new();
    for third in 0..5 {
        let now = Time::ORIGIN + LEASE / 3 * third;
        let round = contender.begin(now).expect("due");
        contender.answered(now, &database.execute(now.since(Time::ORIGIN), &round).expect("it takes writes"));
        let lease = |output| if let Output::Tell { lease, .. } = output { Some(lease) } else { None };
        told.push(std::iter::from_fn(|| contender.poll()).filter_map(lease).collect::<Vec<_>>());
    }
    let counts: Vec<usize> = told.iter().map(Vec::len).collect();
    assert_eq!(counts, [MAX_LEASES, MAX_TOLD_AGAIN, MAX_TOLD_AGAIN, MAX_TOLD_AGAIN, MAX_TOLD_AGAIN]);
    let mut again = told[1..].concat();
    again.sort();
    again.dedup();
    assert_eq!(again.len(), MAX_LEASES, "each in its turn");
}

#[test]
fn a_renewal_never_names_more_tokens_than_are_remembered() {
    let mut contender = contender(1);
    let round = contender.begin(Time::ORIGIN).expect("due");
    contender.answered(Time::ORIGIN, &seen(Outcome::Acquired, 1, drawn(&round), 1));
    let mut most = 0;
    while leads(&contender) {
        let now = contender.next_deadline().expect("there is always something to do");
        if let Some(round) = contender.begin(now) {
            if let StepRequest::Renew { held, .. } = &round.steps[0].request {
                most = most.max(held.len());
            }
            contender.failed(now, false);
        }
    }
    assert!(most > 3 && most <= MAX_DRAWN, "{most}");
}

#[test]
fn a_round_is_handed_out_one_at_a_time_and_what_comes_twice_is_ignored() {
    let mut contender = contender(1);
    let round = contender.begin(Time::ORIGIN).expect("due");
    assert_eq!(contender.begin(Time::ORIGIN + LEASE), None, "one is under way");
    contender.failed(Time::ORIGIN + LEASE, false);
    contender.answered(Time::ORIGIN + LEASE, &seen(Outcome::Acquired, 1, drawn(&round), 1));
    assert!(!leads(&contender), "it has failed already");
}

#[test]
fn messages_say_what_happened_and_what_to_try() {
    let lease = LeaseName::default;
    for alarm in [
        ContenderAlarm::TermFell { lease: lease(), known: 7, stored: 3 },
        ContenderAlarm::Unreachable { since: SECOND },
        ContenderAlarm::ClockStepped { lease: lease(), by: SECOND, is_forward: true },
        ContenderAlarm::NameTwice { lease: lease() },
        ContenderAlarm::TwoDatabases { lease: lease(), term: 3, other: name(1) },
        ContenderAlarm::Unreadable { lease: lease() },
        ContenderAlarm::TermsExhausted { lease: lease() },
        ContenderAlarm::TermLimit { lease: lease(), term: MAX_TERM },
        ContenderAlarm::StrangeAnswer,
    ] {
        let text = alarm.to_string();
        assert!(text.contains(';') || text.contains(':'), "{text}");
        assert!(text.len() > 60, "{text}");
    }
}

/// Returns the row of a node in a term, under a token, with so much left of its lease.
fn row(node: usize, outcome: Outcome, term: u64, token: Token, expires_in: Duration) -> Answer {
    let holder = Holder { node: name(node), token, term, lease_duration: LEASE, expires_in };
    Answer { steps: vec![Seen { outcome, term, holder: Some(holder), is_released: false }] }
}

/// Has a contender acquire term 5 and renew it thrice, five seconds apart; returns its tokens, the oldest first.
fn renew_thrice(contender: &mut Contender) -> Vec<Token> {
    let mut tokens = Vec::new();
    for at in 0..4 {
        let now = Time::ORIGIN + SECOND * 5 * at;
        let round = contender.begin(now).expect("due");
        let outcome = if at == 0 { Outcome::Acquired } else { Outcome::Renewed };
        tokens.push(drawn(&round));
        contender.answered(now, &row(0, outcome, 5, drawn(&round), LEASE));
    }
    assert!(leads(contender));
    tokens
}

#[test]
fn a_row_that_is_older_than_what_is_known_is_neither_another_agents_nor_a_clock_that_was_stepped() {
    let now = Time::ORIGIN + SECOND * 20;
    for (term, is_earlier_life, told) in [(3, true, &["term fell"][..]), (5, false, &[])] {
        let mut contender = contender(1);
        let tokens = renew_thrice(&mut contender);
        let _ = alarms(&mut contender);
        contender.begin(now).expect("due");
        let token = if is_earlier_life { Token(7) } else { tokens[1] };
        contender.answered(now, &row(0, Outcome::Rejected, term, token, Duration::ZERO));
        assert_eq!(alarms(&mut contender), told, "a leader, term {term}");
    }
    // Another node's renewals, and then the first of them again.
    let mut watcher = contender(1);
    for (at, token) in [1, 2, 3, 4, 1].into_iter().enumerate() {
        let now = Time::ORIGIN + SECOND * 6 * at as u32;
        watcher.begin(now).expect("due");
        let left = if at == 4 { Duration::ZERO } else { LEASE };
        watcher.answered(now, &row(1, Outcome::Held, 5, Token(token), left));
    }
    assert_eq!(alarms(&mut watcher), [""; 0]);
}

#[test]
fn another_agent_of_this_name_and_a_clock_that_was_put_forward_are_still_told() {
    let now = Time::ORIGIN + SECOND * 20;
    let mut contender = contender(1);
    let tokens = renew_thrice(&mut contender);
    contender.begin(now).expect("due");
    contender.answered(now, &row(0, Outcome::Rejected, 5, tokens[3], Duration::ZERO));
    assert!(alarms(&mut contender).contains(&"store's clock stepped"));
    let mut contender = self::contender(1);
    renew_thrice(&mut contender);
    contender.begin(now).expect("due");
    contender.answered(now, &row(0, Outcome::Rejected, 6, Token(7), LEASE));
    assert!(alarms(&mut contender).contains(&"name twice"));
}
