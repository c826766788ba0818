//! Words, rows and times, one after the other, and the moment from which the lease may be taken.

use super::*;
use crate::Outcome;
use crate::flaw::{Flaw, Planted};

const LEASE: Duration = Duration::from_secs(15);

fn at(second: u32) -> Time {
    Time::ORIGIN + Duration::from_secs(1) * second
}

fn history() -> LeaseHistory<Planted> {
    LeaseHistory::new(0, LEASE, Time::ORIGIN, Planted::default())
}

/// Returns the row of this node, under this token, in this term, with a lease of this length.
fn held(node: &str, token: u128, term: u64, lease_duration: Duration) -> Seen {
    let node = NodeId::new(node).expect("a name");
    let holder = Holder { node, token: Token(token), term, lease_duration, expires_in: Duration::ZERO };
    Seen { outcome: Outcome::Watched, term, holder: Some(holder), is_released: false }
}

fn a() -> NodeId {
    NodeId::new("a").expect("a name")
}

fn free(term: u64) -> Seen {
    Seen { outcome: Outcome::Watched, term, holder: None, is_released: term > 0 }
}

fn missing(term: u64) -> Seen {
    Seen { outcome: Outcome::Watched, term, holder: None, is_released: false }
}

fn see(history: &mut LeaseHistory<Planted>, second: u32, seen: &Seen) {
    history.saw(seen, at(second), at(second));
}

#[test]
fn a_holder_is_waited_for_from_when_its_token_was_seen_first_for_the_longer_lease() {
    let mut history = history();
    see(&mut history, 0, &held("a", 1, 1, LEASE * 2));
    see(&mut history, 5, &held("a", 2, 1, LEASE * 2));
    see(&mut history, 34, &held("a", 2, 1, LEASE * 2));
    assert_eq!(history.may_take(at(34), LEASE), Taking::No);
    assert_eq!(history.may_take(at(35), LEASE), Taking::FreeOrExpired(Token(2)));
    assert_eq!(history.opens_at(at(34), LEASE), Some(at(35)));
}

#[test]
fn what_looks_older_is_waited_for_as_long_as_the_longest_lease_that_was_seen() {
    let mut history = history();
    see(&mut history, 0, &held("a", 1, 1, LEASE * 2));
    see(&mut history, 1, &free(0));
    assert_eq!(history.may_take(at(30), LEASE), Taking::No);
    assert_eq!(history.may_take(at(31), LEASE), Taking::Free);
}

#[test]
fn a_row_that_is_missing_is_waited_for_as_its_holder_would_be() {
    let mut history = history();
    see(&mut history, 0, &held("a", 1, 3, LEASE));
    see(&mut history, 5, &missing(3));
    see(&mut history, 10, &missing(3));
    assert_eq!(history.may_take(at(19), LEASE), Taking::No);
    assert_eq!(history.opens_at(at(19), LEASE), Some(at(20)));
    assert_eq!(history.may_take(at(20), LEASE), Taking::FreeOrMissing(3));
    see(&mut history, 21, &missing(4));
    assert_eq!(history.may_take(at(35), LEASE), Taking::No, "another one is missing");
    see(&mut history, 36, &free(4));
    assert_eq!(history.may_take(at(36), LEASE), Taking::Free, "a row that says so is free");
}

#[test]
fn a_leader_that_is_heard_again_and_again_and_that_the_store_does_not_know_is_waited_for() {
    let mut history = history();
    see(&mut history, 0, &free(1));
    history.heard(at(1), Some(&a()), 7, false);
    see(&mut history, 2, &free(1));
    history.heard(at(16), Some(&a()), 7, false);
    assert_eq!(history.may_take(at(30), LEASE), Taking::No);
    assert_eq!(history.may_take(at(31), LEASE), Taking::Free, "it is silent");
    history.heard(at(32), Some(&a()), 7, true);
    history.heard(at(33), Some(&a()), 7, false);
    assert_eq!(history.may_take(at(33), LEASE), Taking::Free, "what it said before it gave up came late");
}

#[test]
fn a_leader_whose_term_the_store_gave_to_another_is_waited_for_as_long_as_it_is_heard() {
    let mut history = history();
    see(&mut history, 0, &held("b", 1, 1, LEASE));
    history.heard(at(10), Some(&a()), 1, false);
    see(&mut history, 14, &held("b", 1, 1, LEASE));
    assert_eq!(history.may_take(at(39), LEASE), Taking::No, "b is gone, and a leads");
    assert_eq!(history.may_take(at(40), LEASE), Taking::FreeOrExpired(Token(1)), "a is silent");
    history.heard(at(41), None, 1, false);
    assert_eq!(history.may_take(at(41), LEASE), Taking::FreeOrExpired(Token(1)), "somebody knows of the term");
    history.heard(at(41), NodeId::new("b").ok().as_ref(), 1, false);
    assert_eq!(history.may_take(at(70), LEASE), Taking::No, "b lives, and its row stands still");
    assert_eq!(history.may_take(at(71), LEASE), Taking::FreeOrExpired(Token(1)));
}

#[test]
fn a_leader_in_a_lower_term_is_waited_for_as_long_as_it_is_heard_if_the_store_never_showed_it() {
    for seen in [free(20), held("b", 1, 20, LEASE)] {
        let mut history = history();
        history.heard(at(0), Some(&a()), 5, false);
        see(&mut history, 1, &seen);
        assert!(history.is_contradicted(5, &a()), "the store knows more, and not this");
        history.heard(at(16), Some(&a()), 5, false);
        assert_eq!(history.may_take(at(45), LEASE), Taking::No);
        assert_eq!(history.opens_at(at(45), LEASE), Some(at(46)));
        assert_ne!(history.may_take(at(46), LEASE), Taking::No, "it is silent");
        history.heard(at(47), Some(&a()), 5, false);
        history.heard(at(48), Some(&a()), 5, true);
        history.heard(at(48), Some(&a()), 5, false);
        assert_ne!(history.may_take(at(48), LEASE), Taking::No, "it gave up; what it said before came late");
    }
}

#[test]
fn late_words_of_a_reign_that_the_store_has_shown_delay_nobody() {
    let b = NodeId::new("b").expect("a name");
    let mut history = history();
    see(&mut history, 0, &held("a", 1, 5, LEASE));
    history.heard(at(1), Some(&a()), 5, false);
    history.heard(at(1), Some(&b), 6, false);
    see(&mut history, 2, &held("b", 2, 6, LEASE));
    history.heard(at(3), Some(&a()), 5, false);
    assert_eq!(history.opens_at(at(3), LEASE), Some(at(17)), "the row says how long b lives");
    see(&mut history, 4, &free(6));
    history.heard(at(4), Some(&b), 6, false);
    assert_eq!(history.may_take(at(4), LEASE), Taking::Free, "the row says that b gave up");
}

#[test]
fn a_newcomer_listens_before_it_takes_what_nobody_is_seen_to_lead() {
    let mut history = history();
    history.listen_until(at(5));
    assert_eq!((history.may_take(at(0), LEASE), history.opens_at(at(0), LEASE)), (Taking::No, Some(at(5))));
    see(&mut history, 1, &free(0));
    assert_eq!(history.may_take(at(4), LEASE), Taking::No);
    assert_eq!(history.may_take(at(5), LEASE), Taking::Free);
    see(&mut history, 2, &free(3));
    assert_eq!(history.may_take(at(4), LEASE), Taking::No, "the store may be another one than the members'");
    assert_eq!(history.may_take(at(5), LEASE), Taking::Free);
}

#[test]
fn a_newcomer_listens_no_more_once_a_leaders_word_agrees_with_what_its_store_shows() {
    let listening = |flaw: Option<Flaw>| {
        let mut history = history();
        history.rules = flaw.into();
        history.listen_until(at(30));
        see(&mut history, 0, &held("a", 1, 3, LEASE));
        history
    };
    let mut history = listening(None);
    for (node, term) in [("b", 3), ("a", 2), ("a", 4)] {
        history.heard(at(1), NodeId::new(node).ok().as_ref(), term, true);
        assert!(history.is_listening(at(1)), "{node} {term}: the store shows another one");
    }
    let mut history = listening(None);
    history.heard(at(1), Some(&a()), 3, false);
    assert!(!history.is_listening(at(1)), "it leads");
    let mut history = listening(None);
    history.heard(at(1), Some(&a()), 3, true);
    assert_eq!(history.may_take(at(1), LEASE), Taking::Free, "it has given it up");
    let mut history = listening(None);
    see(&mut history, 1, &free(3));
    assert_eq!(history.may_take(at(1), LEASE), Taking::No, "somebody has given it up, as the row says");
    history.heard(at(1), Some(&a()), 3, true);
    assert_eq!(history.may_take(at(1), LEASE), Taking::Free, "and so says that leader");
    let mut history = listening(None);
    history.heard(at(1), Some(&a()), 4, false);
    see(&mut history, 1, &held("a", 2, 4, LEASE));
    assert!(!history.is_listening(at(1)), "the word came before the row");
    let mut history = listening(Some(Flaw::ListensInVain));
    history.heard(at(1), Some(&a()), 3, true);
    assert_eq!(history.may_take(at(1), LEASE), Taking::No, "the planted bug is caught");
}

#[test]
fn a_leader_that_agreed_with_the_store_before_this_node_came_among_others_is_enough() {
    let mut history = history();
    see(&mut history, 0, &held("a", 1, 3, LEASE));
    history.heard(at(1), Some(&a()), 3, false);
    history.listen_until(at(30));
    assert!(!history.is_listening(at(1)));
}

/// Returns the first second, from the third one on, at which the lease may be taken: a node has seen a lead in term 3,
/// has heard a late word of b, and then that a says this.
fn taken_after_a_late_word(term_of_b: u64, is_released: bool, flaw: Option<Flaw>) -> u32 {
    let mut history = history();
    history.rules = flaw.into();
    see(&mut history, 0, &held("a", 1, 3, LEASE));
    history.heard(at(1), NodeId::new("b").ok().as_ref(), term_of_b, false);
    history.heard(at(2), Some(&a()), 3, is_released);
    (3..100).find(|second| history.may_take(at(*second), LEASE) != Taking::No).expect("some time")
}

#[test]
fn a_late_word_of_an_ended_reign_is_dropped_once_the_leader_that_the_store_shows_says_anything() {
    assert_eq!(taken_after_a_late_word(2, true, None), 3);
    assert_eq!(taken_after_a_late_word(2, false, None), 17, "as if b had said nothing");
    assert_eq!(taken_after_a_late_word(2, true, Some(Flaw::WaitsForLateWords)), 31, "the planted bug is caught");
    let (mut history, b) = (history(), NodeId::new("b").expect("a name"));
    see(&mut history, 0, &held("a", 1, 3, LEASE));
    history.heard(at(1), Some(&b), 4, false);
    history.heard(at(2), Some(&a()), 3, true);
    assert_eq!(history.waits_for(at(3)), Some(&b), "b leads above");
}

#[test]
fn a_late_word_of_a_node_that_is_gone_is_waited_for_no_longer_than_its_claim_if_a_later_holder_is_alive() {
    let b = NodeId::new("b").expect("a name");
    let mut history = history();
    see(&mut history, 0, &held("a", 1, 3, LEASE));
    history.heard(at(1), Some(&b), 2, false);
    see(&mut history, 3, &held("a", 2, 3, LEASE));
    history.forget_gone(at(15), &b);
    assert_eq!(history.waits_for(at(15)), Some(&b), "its claim may stand");
    history.forget_gone(at(16), &a());
    assert_eq!(history.waits_for(at(16)), Some(&b), "another one is gone");
    history.forget_gone(at(16), &b);
    assert_eq!(history.may_take(at(18), LEASE), Taking::FreeOrExpired(Token(2)));
    // By another database, a successor of it would have to be heard first.
    history.heard(at(18), Some(&b), 3, false);
    see(&mut history, 19, &free(20));
    history.forget_gone(at(40), &b);
    assert_eq!((history.may_take(at(47), LEASE), history.may_take(at(48), LEASE)), (Taking::No, Taking::Free));
}

/// Returns true if a node whose store shows a dead holder in a later term waits on for a leader that it heard, and that is
/// Down now: it may stand still, with a claim.
fn waits_for_who_is_down(flaw: Option<Flaw>) -> bool {
    let mut history = history();
    history.rules = flaw.into();
    see(&mut history, 0, &held("a", 1, 100, LEASE));
    let b = NodeId::new("b").expect("a name");
    history.heard(at(16), Some(&b), 3, false);
    see(&mut history, 18, &held("a", 1, 100, LEASE));
    [18, 30, 31, 45].into_iter().all(|second| {
        history.forget_gone(at(second), &b);
        history.may_take(at(second), LEASE) == Taking::No
    })
}

#[test]
fn a_leader_that_is_down_is_waited_for_beside_the_row_of_a_dead_holder() {
    assert!(waits_for_who_is_down(None));
    assert!(!waits_for_who_is_down(Some(Flaw::ForgetsWhoIsDown)), "the planted bug is caught");
}

#[test]
fn a_holder_that_says_that_it_leads_while_its_row_stands_still_is_waited_for_and_told_of() {
    let mut history = history();
    see(&mut history, 0, &held("a", 1, 1, LEASE));
    history.heard(at(10), Some(&a()), 1, false);
    assert!(!history.is_contradicted(1, &a()), "its renewal may not be seen yet");
    see(&mut history, 16, &held("a", 1, 1, LEASE));
    assert_eq!((history.may_take(at(16), LEASE), history.opens_at(at(16), LEASE)), (Taking::No, Some(at(25))));
    assert!(history.is_contradicted(1, &a()), "if it says so again");
    assert_eq!(history.may_take(at(25), LEASE), Taking::FreeOrExpired(Token(1)), "it is silent");
    history.heard(at(26), Some(&a()), 1, false);
    assert_eq!(history.may_take(at(55), LEASE), Taking::No, "its successor has to be heard as well");
    assert_eq!(history.may_take(at(56), LEASE), Taking::FreeOrExpired(Token(1)));
}

#[test]
fn whoever_merely_knows_of_a_term_makes_nobody_wait_longer() {
    let mut history = history();
    history.heard(at(0), None, 3, false);
    see(&mut history, 1, &free(2));
    history.heard(at(10), None, 3, false);
    assert_eq!((history.may_take(at(15), LEASE), history.may_take(at(16), LEASE)), (Taking::No, Taking::Free));
}

#[test]
fn a_term_with_two_holders_tells_of_lost_commits_and_a_release_may_be_of_either() {
    let mut history = history();
    see(&mut history, 0, &held("a", 1, 1, LEASE));
    see(&mut history, 2, &held("b", 2, 1, LEASE));
    see(&mut history, 3, &free(1));
    assert_eq!(history.may_take(at(16), LEASE), Taking::No, "the first one may lead");
    assert_eq!(history.may_take(at(17), LEASE), Taking::Free);
}

#[test]
fn a_holder_that_was_seen_is_waited_for_though_a_higher_term_was_given_up() {
    let mut history = history();
    history.heard(at(0), Some(&a()), 9, true);
    see(&mut history, 1, &held("a", 1, 6, LEASE));
    see(&mut history, 2, &free(5));
    assert_eq!(history.may_take(at(16), LEASE), Taking::No);
    assert_eq!(history.may_take(at(17), LEASE), Taking::Free);
}

#[test]
fn a_release_that_was_told_of_and_is_not_in_the_row_is_none() {
    let mut history = history();
    history.heard(at(1), Some(&a()), 1, true);
    see(&mut history, 1, &held("a", 1, 1, LEASE));
    assert_eq!(history.may_take(at(1), LEASE), Taking::Free, "that answer may be older than the word");
    see(&mut history, 2, &held("a", 1, 1, LEASE));
    assert_eq!(history.may_take(at(2), LEASE), Taking::No);
    see(&mut history, 3, &free(1));
    assert_eq!(history.may_take(at(3), LEASE), Taking::Free, "a release is seen in the row");
}

#[test]
fn a_term_that_is_only_heard_of_is_looked_for_before_anything_is_taken() {
    let mut history = history();
    history.heard(at(5), Some(&a()), 3, false);
    assert_eq!(history.may_take(at(100), LEASE), Taking::No);
    history.saw(&free(2), at(4), at(6));
    assert_eq!(history.may_take(at(100), LEASE), Taking::No, "that round was handed out before");
    see(&mut history, 7, &free(2));
    assert_eq!((history.may_take(at(21), LEASE), history.may_take(at(22), LEASE)), (Taking::No, Taking::Free));
    assert_eq!(history.known(), 3);
}

#[test]
fn a_row_with_a_lease_of_a_century_is_waited_for_as_long_as_the_longest_that_is_allowed() {
    let mut history = history();
    see(&mut history, 0, &held("a", 1, 1, LEASE * 1_000_000));
    let longest = MAX_LEASE.as_secs() as u32;
    assert_eq!(history.may_take(at(longest - 1), LEASE), Taking::No);
    assert_eq!(history.may_take(at(longest), LEASE), Taking::FreeOrExpired(Token(1)));
}

#[test]
fn an_expiry_further_off_than_the_lease_is_long_shows_nobody_for_longer_and_delays_nobody() {
    let mut history = history();
    let mut seen = held("a", 1, 1, LEASE);
    seen.holder.as_mut().expect("held").expires_in = LEASE * 1_000;
    see(&mut history, 0, &seen);
    assert_eq!(history.shown().map(|(_, term, until)| (term, until)), Some((1, at(15))));
    assert_eq!(history.opens_at(at(1), LEASE), Some(at(15)));
}

#[test]
fn so_many_tokens_of_former_holders_are_remembered() {
    let mut history = history();
    for token in 0..=MAX_FORMER as u128 + 1 {
        see(&mut history, token as u32, &held("a", token, 1, LEASE));
    }
    assert_eq!(history.former, (1..=MAX_FORMER as u128).map(Token).collect::<Vec<_>>());
}
