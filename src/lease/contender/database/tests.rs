//! The database of the simulator: claims, renewals and what it forgets.

use super::*;

const LEASE: Duration = Duration::from_secs(15);

fn ask(database: &mut Database, now: u64, node: &str, request: StepRequest) -> Seen {
    let node = NodeId::new(node).expect("a name");
    let steps = vec![Step { lease: LeaseName::default(), request }];
    let round = Round { node, rpc_address: None, lease_duration: LEASE, steps };
    database.execute(Duration::from_secs(now), &round).expect("it takes writes").steps.remove(0)
}

fn acquire(drawn: u128, expired: Option<u128>) -> StepRequest {
    StepRequest::Acquire { drawn: Token(drawn), above: 0, expired: expired.map(Token), missing: None }
}

#[test]
fn a_lease_is_acquired_once_renewed_by_its_tokens_and_taken_over_once_it_has_expired() {
    let mut database = Database::new();
    assert_eq!(ask(&mut database, 0, "a", acquire(1, None)).outcome, Outcome::Acquired);
    assert_eq!(ask(&mut database, 1, "b", acquire(2, Some(1))).outcome, Outcome::Held);
    let renew = |held: u128, drawn: u128| StepRequest::Renew { held: vec![Token(held)], drawn: Token(drawn) };
    assert_eq!(ask(&mut database, 5, "b", renew(1, 3)).outcome, Outcome::Rejected, "the right token at another node");
    assert_eq!(ask(&mut database, 5, "a", renew(9, 3)).outcome, Outcome::Rejected, "another token");
    assert_eq!(ask(&mut database, 5, "a", renew(1, 3)).outcome, Outcome::Renewed);
    assert_eq!(ask(&mut database, 20, "a", renew(3, 4)).outcome, Outcome::Rejected, "it has expired");
    assert_eq!(ask(&mut database, 20, "b", acquire(5, None)).outcome, Outcome::Held);
    assert_eq!(ask(&mut database, 20, "b", acquire(5, Some(1))).outcome, Outcome::Held);
    let seen = ask(&mut database, 20, "b", acquire(5, Some(3)));
    assert_eq!((seen.outcome, seen.term), (Outcome::Acquired, 2));
}

#[test]
fn a_sweep_leaves_holders_alone_and_a_released_lease_is_free_and_keeps_its_term() {
    let mut database = Database::new();
    ask(&mut database, 0, "a", acquire(1, None));
    database.sweep(Duration::from_secs(60), LEASE);
    assert_eq!(
        (database.nodes(Duration::from_secs(60)).len(), database.look(&LeaseName::default()).1),
        (0, Some(Token(1)))
    );
    assert_eq!(ask(&mut database, 61, "a", StepRequest::Release { held: vec![Token(1)] }).outcome, Outcome::Released);
    assert_eq!(ask(&mut database, 61, "b", acquire(2, None)).term, 2);
}

#[test]
fn a_lease_whose_row_was_deleted_is_taken_only_by_one_that_saw_it_missing() {
    let mut database = Database::new();
    ask(&mut database, 0, "a", acquire(1, None));
    database.delete(&LeaseName::default());
    let seen = ask(&mut database, 1, "b", StepRequest::Watch);
    assert_eq!((seen.term, seen.holder.is_none(), seen.is_free()), (1, true, false));
    assert_eq!(ask(&mut database, 1, "b", acquire(2, None)).outcome, Outcome::Held);
    let missing = |term| StepRequest::Acquire { drawn: Token(3), above: 0, expired: None, missing: Some(term) };
    assert_eq!(ask(&mut database, 2, "b", missing(7)).outcome, Outcome::Held, "another one");
    assert_eq!(ask(&mut database, 2, "b", missing(1)).term, 2);
}

#[test]
fn a_term_that_was_deleted_is_what_the_rows_show() {
    let (mut database, lease) = (Database::new(), LeaseName::default());
    assert!(!database.delete_term(&lease), "there is none");
    ask(&mut database, 0, "a", acquire(1, None));
    assert!(database.delete_term(&lease));
    assert_eq!(ask(&mut database, 1, "a", StepRequest::Release { held: vec![Token(1)] }).term, 1);
    assert!(ask(&mut database, 1, "b", StepRequest::Watch).is_free() && database.delete_term(&lease));
    assert_eq!(ask(&mut database, 2, "b", acquire(2, None)).term, 2);
}

#[test]
fn a_replica_lacks_the_last_commits_and_says_what_they_granted() {
    let mut database = Database::new();
    ask(&mut database, 0, "a", acquire(1, None));
    ask(&mut database, 5, "b", StepRequest::Watch);
    let lost = database.fail_over(2);
    assert_eq!(lost.iter().map(|lost| lost.token).collect::<Vec<_>>(), [Token(1)]);
    assert_eq!(database.look(&LeaseName::default()), (0, None));
    for second in 0..=MAX_LOST as u64 {
        ask(&mut database, second, "b", StepRequest::Watch);
    }
    assert_eq!(database.commits.len(), MAX_LOST);
}

#[test]
fn an_expiry_further_away_than_a_lease_counts_as_expired() {
    let mut database = Database::new();
    ask(&mut database, 0, "a", acquire(1, None));
    database.step_back(Duration::from_secs(3_600));
    assert_eq!(ask(&mut database, 1, "b", acquire(2, Some(1))).outcome, Outcome::Acquired);
}
