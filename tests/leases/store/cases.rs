//! The suite: what every store holds, whichever database it is.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use headcount::lease::store::{MAX_NODES, Store, StoreError};
use headcount::lease::{Outcome, Seen, StepRequest, Token};
use tokio::task::JoinSet;

use super::harness::{Bench, LEASE, PATIENCE, acquire, holding, missing, release, renew, take_over};

/// More than a lease.
const PAST: Duration = Duration::from_secs(601);

pub async fn a_free_lease_is_acquired_in_the_first_term(bench: &Bench) {
    let mut node = bench.node("a");
    assert_eq!(holding(&node.watch().await), (Outcome::Watched, 0, None));
    let seen = node.one(acquire(1)).await;
    assert_eq!(holding(&seen), (Outcome::Acquired, 1, Some(("a", 1, 1))));
    let holder = seen.holder.expect("held");
    assert_eq!(holder.lease_duration, LEASE);
    assert_eq!(holder.expires_in, LEASE, "by the time of this very round");
    assert_eq!(holding(&bench.node("b").watch().await), (Outcome::Watched, 1, Some(("a", 1, 1))));
}

pub async fn a_held_lease_is_not_acquired(bench: &Bench) {
    bench.node("a").one(acquire(1)).await;
    assert_eq!(holding(&bench.node("b").one(acquire(2)).await), (Outcome::Held, 1, Some(("a", 1, 1))));
    bench.age(PAST).await;
    let seen = bench.node("b").one(acquire(2)).await;
    assert_eq!(holding(&seen), (Outcome::Held, 1, Some(("a", 1, 1))), "it has not seen that token");
    assert_eq!(seen.holder.expect("held").expires_in, Duration::ZERO);
}

pub async fn an_expired_lease_is_taken_over_without_any_sweep(bench: &Bench) {
    bench.node("a").one(acquire(1)).await;
    bench.age(PAST).await;
    assert_eq!(holding(&bench.node("b").one(take_over(2, 1)).await), (Outcome::Acquired, 2, Some(("b", 2, 2))));
    // A name that sorts before the holder's, and one that held it before.
    bench.age(PAST).await;
    assert_eq!(holding(&bench.node("a").one(take_over(3, 2)).await), (Outcome::Acquired, 3, Some(("a", 3, 3))));
    bench.age(PAST).await;
    assert_eq!(holding(&bench.node("a").one(take_over(4, 3)).await), (Outcome::Acquired, 4, Some(("a", 4, 4))));
}

pub async fn only_the_token_that_was_seen_may_be_taken_over(bench: &Bench) {
    let mut holder = bench.node("a");
    holder.one(acquire(1)).await;
    holder.one(renew(&[1], 2)).await;
    bench.age(PAST).await;
    let seen = bench.node("b").one(take_over(3, 1)).await;
    assert_eq!(holding(&seen), (Outcome::Held, 1, Some(("a", 2, 1))));
}

pub async fn an_unexpired_lease_is_not_taken_over_even_by_its_token(bench: &Bench) {
    bench.node("a").one(acquire(1)).await;
    let seen = bench.node("b").one(take_over(2, 1)).await;
    assert_eq!(holding(&seen), (Outcome::Held, 1, Some(("a", 1, 1))));
}

pub async fn a_node_does_not_take_back_its_own_lease_without_its_token(bench: &Bench) {
    let mut node = bench.node("a");
    node.one(acquire(1)).await;
    assert_eq!(holding(&node.one(acquire(2)).await), (Outcome::Held, 1, Some(("a", 1, 1))));
    assert_eq!(holding(&node.one(take_over(2, 1)).await), (Outcome::Held, 1, Some(("a", 1, 1))));
    assert_eq!(holding(&node.one(acquire(1)).await), (Outcome::Held, 1, Some(("a", 1, 1))), "asked again");
}

pub async fn a_renewal_rotates_the_token_and_prolongs_the_lease(bench: &Bench) {
    let mut node = bench.node("a");
    node.one(acquire(1)).await;
    bench.age(LEASE / 2).await;
    let left = |seen: &Seen| seen.holder.as_ref().expect("held").expires_in;
    assert!(left(&node.watch().await) <= LEASE / 2);
    let seen = node.one(renew(&[1], 2)).await;
    assert_eq!(holding(&seen), (Outcome::Renewed, 1, Some(("a", 2, 1))));
    assert_eq!(left(&seen), LEASE);
    assert_eq!(holding(&node.one(renew(&[1], 3)).await), (Outcome::Rejected, 1, Some(("a", 2, 1))));
    assert_eq!(node.one(renew(&[2], 3)).await.outcome, Outcome::Renewed);
}

pub async fn a_wrong_token_does_not_renew(bench: &Bench) {
    let mut node = bench.node("a");
    assert_eq!(holding(&node.one(renew(&[1], 2)).await), (Outcome::Rejected, 0, None), "there is no row");
    node.one(acquire(1)).await;
    for wrong in [renew(&[2], 3), renew(&[], 3), renew(&[0, u128::MAX], 3)] {
        assert_eq!(holding(&node.one(wrong).await), (Outcome::Rejected, 1, Some(("a", 1, 1))));
    }
}

pub async fn the_right_token_at_the_wrong_node_does_not_renew(bench: &Bench) {
    bench.node("a").one(acquire(1)).await;
    let seen = bench.node("b").one(renew(&[1], 2)).await;
    assert_eq!(holding(&seen), (Outcome::Rejected, 1, Some(("a", 1, 1))));
}

pub async fn an_expired_lease_is_not_renewed(bench: &Bench) {
    let mut node = bench.node("a");
    node.one(acquire(1)).await;
    bench.age(PAST).await;
    let seen = node.one(renew(&[1], 2)).await;
    assert_eq!(holding(&seen), (Outcome::Rejected, 1, Some(("a", 1, 1))));
    assert_eq!(seen.holder.expect("still its row").expires_in, Duration::ZERO);
}

pub async fn a_lost_renewal_is_met_by_either_token(bench: &Bench) {
    let mut node = bench.node("a");
    node.one(acquire(1)).await;
    // The renewal to 2 came through, and nobody knows; then that to 3 did not.
    node.one(renew(&[1], 2)).await;
    assert_eq!(holding(&node.one(renew(&[1, 2, 3], 4)).await), (Outcome::Renewed, 1, Some(("a", 4, 1))));
    assert_eq!(holding(&node.one(renew(&[4, 5], 6)).await), (Outcome::Renewed, 1, Some(("a", 6, 1))));
}

pub async fn a_released_lease_is_free_at_once(bench: &Bench) {
    let (mut holder, mut other) = (bench.node("a"), bench.node("b"));
    holder.one(acquire(1)).await;
    assert_eq!(holding(&holder.one(release(&[1])).await), (Outcome::Released, 1, None));
    assert_eq!(holding(&other.one(acquire(2)).await), (Outcome::Acquired, 2, Some(("b", 2, 2))));
    other.one(release(&[9, 2])).await;
    assert_eq!(holding(&holder.one(acquire(3)).await), (Outcome::Acquired, 3, Some(("a", 3, 3))));
    bench.age(PAST).await;
    assert_eq!(holding(&holder.one(release(&[3])).await), (Outcome::Released, 3, None), "expired, and still its own");
}

pub async fn only_its_holder_releases_a_lease(bench: &Bench) {
    bench.node("a").one(acquire(1)).await;
    for (node, request) in [("b", release(&[1])), ("a", release(&[2])), ("a", release(&[]))] {
        let seen = bench.node(node).one(request).await;
        assert_eq!(holding(&seen), (Outcome::Rejected, 1, Some(("a", 1, 1))), "{node}");
    }
}

pub async fn a_superseded_leader_does_not_clear_its_successor(bench: &Bench) {
    let mut old = bench.node("a");
    old.one(acquire(1)).await;
    bench.age(PAST).await;
    bench.node("b").one(take_over(2, 1)).await;
    for request in [release(&[1]), renew(&[1], 3), take_over(3, 1), acquire(3)] {
        let seen = old.one(request.clone()).await;
        assert!(matches!(seen.outcome, Outcome::Rejected | Outcome::Held), "{request:?}: {seen:?}");
        assert_eq!(holding(&seen), (seen.outcome, 2, Some(("b", 2, 2))), "{request:?}");
    }
}

/// Has ten nodes ask for the same at once; returns what each was answered.
async fn ten_at_once(bench: &Bench, request: impl Fn(u128) -> StepRequest) -> Vec<Seen> {
    let mut tasks = JoinSet::new();
    for number in 0..10_u128 {
        let mut node = bench.node(&format!("n{number}"));
        node.store.prepare().await.expect("it connects");
        let request = request(100 + number);
        tasks.spawn(async move { node.one(request).await });
    }
    tasks.join_all().await
}

pub async fn of_ten_that_acquire_at_once_one_leads_in_one_term(bench: &Bench) {
    let seen = ten_at_once(bench, acquire).await;
    let acquired: Vec<_> = seen.iter().filter(|seen| seen.outcome == Outcome::Acquired).collect();
    assert_eq!(acquired.len(), 1, "{seen:?}");
    let others_are_told =
        |seen: &Seen| matches!(seen.outcome, Outcome::Acquired | Outcome::Held | Outcome::Conflict) && seen.term == 1;
    assert!(seen.iter().all(others_are_told), "{seen:?}");
    let leader = acquired[0].holder.as_ref().expect("held");
    let last = bench.node("z").watch().await;
    assert_eq!(holding(&last), (Outcome::Watched, 1, Some((leader.node.as_str(), leader.token.0, 1))));
}

pub async fn of_ten_that_take_over_at_once_one_leads_in_one_term(bench: &Bench) {
    for round in 1..=5_u64 {
        let mut node = bench.node("old");
        let before = node.watch().await;
        let request = before.holder.map_or_else(|| acquire(1), |holder| take_over(1, holder.token.0));
        assert_eq!(node.one(request).await.term, 2 * round - 1);
        bench.age(PAST).await;
        let seen = ten_at_once(bench, |drawn| take_over(drawn, 1)).await;
        let acquired: Vec<_> = seen.iter().filter(|seen| seen.outcome == Outcome::Acquired).collect();
        assert_eq!(acquired.len(), 1, "{seen:?}");
        assert!(seen.iter().all(|seen| seen.term == 2 * round), "{seen:?}");
        bench.age(PAST).await;
    }
}

pub async fn terms_survive_sweeps_and_every_row(bench: &Bench) {
    let mut node = bench.node("a");
    node.one(acquire(1)).await;
    node.one(release(&[1])).await;
    bench.age(PAST).await;
    assert_eq!(node.store.sweep(Duration::from_secs(1)).await, Ok(1), "its liveness row alone");
    assert_eq!(holding(&node.one(acquire(2)).await), (Outcome::Acquired, 2, Some(("a", 2, 2))), "it is free");
    bench.sql("delete from {P}leases").await;
    bench.sql("delete from {P}nodes").await;
    assert_eq!(holding(&node.watch().await), (Outcome::Watched, 2, None));
    assert_eq!(holding(&node.one(missing(3, 2)).await), (Outcome::Acquired, 3, Some(("a", 3, 3))));
}

pub async fn a_lease_whose_row_was_deleted_by_hand_is_not_free(bench: &Bench) {
    let (mut holder, mut other) = (bench.node("a"), bench.node("b"));
    other.one(acquire(1)).await;
    other.one(release(&[1])).await;
    assert!(other.watch().await.is_free());
    holder.one(acquire(2)).await;
    // The row that says that the first term was given up says nothing of the second.
    bench.sql("delete from {P}leases where node_id = 'a'").await;
    let seen = other.watch().await;
    assert_eq!((holding(&seen), seen.is_free()), ((Outcome::Watched, 2, None), false));
    for request in [acquire(3), take_over(3, 2), missing(3, 1)] {
        assert_eq!(holding(&other.one(request).await), (Outcome::Held, 2, None));
    }
    assert_eq!(holding(&holder.one(renew(&[2], 4)).await), (Outcome::Rejected, 2, None));
    assert_eq!(holding(&other.one(missing(3, 2)).await), (Outcome::Acquired, 3, Some(("b", 3, 3))));
    other.one(release(&[3])).await;
    bench.sql("delete from {P}terms").await;
    assert!(other.watch().await.is_free(), "no term was ever given");
    assert_eq!(other.one(acquire(5)).await.outcome, Outcome::Acquired);
}

pub async fn a_new_term_is_above_the_highest_known(bench: &Bench) {
    let mut node = bench.node("a");
    let above = |drawn, above| StepRequest::Acquire { drawn: Token(drawn), above, expired: None, missing: None };
    assert_eq!(holding(&node.one(above(1, 41)).await), (Outcome::Acquired, 42, Some(("a", 1, 42))));
    node.one(release(&[1])).await;
    assert_eq!(node.one(above(2, 7)).await.term, 43, "the stored one is higher");
    assert_eq!(node.one(above(3, 1_000)).await.term, 43, "who does not acquire changes no term");
}

pub async fn terms_at_their_end_are_refused_and_change_nothing_of_their_lease_or_others(bench: &Bench) {
    const LAST: u64 = (1 << 53) - 1;
    let mut node = bench.node("a");
    let above = |above| StepRequest::Acquire { drawn: Token(1), above, expired: None, missing: None };
    for beyond in [LAST, LAST + 1, u64::MAX] {
        assert_eq!(holding(&node.one(above(beyond)).await), (Outcome::Exhausted, 0, None));
    }
    assert_eq!(holding(&node.watch().await), (Outcome::Watched, 0, None));
    assert_eq!(node.one(above(LAST - 1)).await.term, LAST);
    assert_eq!(holding(&node.one(renew(&[1], 2)).await), (Outcome::Renewed, LAST, Some(("a", 2, LAST))));
    node.one(release(&[2])).await;
    let answer = node.ask(vec![("other", acquire(3)), ("default", acquire(2)), ("third", acquire(4))]).await;
    let shown: Vec<_> = answer.steps.iter().map(holding).collect();
    assert_eq!(shown[0], (Outcome::Acquired, 1, Some(("a", 3, 1))));
    assert_eq!(shown[1], (Outcome::Exhausted, LAST, None));
    assert_eq!(shown[2], (Outcome::Acquired, 1, Some(("a", 4, 1))));
    assert_eq!(holding(&node.watch().await), (Outcome::Watched, LAST, None));
}

pub async fn ten_leases_are_carried_out_in_one_round(bench: &Bench) {
    let names: Vec<String> = (0..10).map(|number| format!("lease{number}")).collect();
    let mut other = bench.node("b");
    other.ask(vec![("lease3", acquire(3)), ("lease4", acquire(4)), ("lease5", acquire(5))]).await;
    let mut node = bench.node("a");
    let ask = |request: &dyn Fn(usize) -> StepRequest| {
        names.iter().enumerate().map(|(n, name)| (name.as_str(), request(n))).collect()
    };
    let first = node.ask(ask(&|number| acquire(100 + number as u128))).await;
    let outcomes: Vec<_> = first.steps.iter().map(|seen| seen.outcome).collect();
    let (gained, held) = (Outcome::Acquired, Outcome::Held);
    assert_eq!(outcomes, [gained, gained, gained, held, held, held, gained, gained, gained, gained]);

    bench.sql("update {P}leases set expires_at = updated_at where lease = 'lease4'").await;
    // Out of order, with every kind of wish at once.
    let mixed = node
        .ask(vec![
            ("lease9", renew(&[109], 209)),
            ("lease4", take_over(204, 4)),
            ("lease0", release(&[100])),
            ("lease3", StepRequest::Watch),
            ("lease1", renew(&[7, 101], 201)),
            ("lease5", renew(&[5], 205)),
            ("none", StepRequest::Watch),
            ("lease2", renew(&[102], 202)),
        ])
        .await;
    let shown: Vec<_> = mixed.steps.iter().map(holding).collect();
    assert_eq!(
        shown,
        [
            (Outcome::Renewed, 1, Some(("a", 209, 1))),
            (Outcome::Acquired, 2, Some(("a", 204, 2))),
            (Outcome::Released, 1, None),
            (Outcome::Watched, 1, Some(("b", 3, 1))),
            (Outcome::Renewed, 1, Some(("a", 201, 1))),
            (Outcome::Rejected, 1, Some(("b", 5, 1))),
            (Outcome::Watched, 0, None),
            (Outcome::Renewed, 1, Some(("a", 202, 1))),
        ]
    );
}

pub async fn leases_and_clusters_do_not_touch_each_other(bench: &Bench) {
    let mut node = bench.node("a");
    node.ask(vec![("x", acquire(1))]).await;
    let options = headcount::lease::store::StoreOptions::new("other").expect("a name");
    let options = match bench.options.schema() {
        Some(schema) => options.with_schema(schema).expect("good"),
        None => options,
    };
    let mut elsewhere = bench.node("a");
    elsewhere.store = Store::new(&bench.url, options).expect("good");
    assert_eq!(holding(&elsewhere.ask(vec![("x", renew(&[1], 2))]).await.steps[0]), (Outcome::Rejected, 0, None));
    assert_eq!(
        holding(&elsewhere.ask(vec![("x", acquire(3))]).await.steps[0]),
        (Outcome::Acquired, 1, Some(("a", 3, 1)))
    );
    bench.age(PAST).await;
    elsewhere.store.sweep(Duration::from_secs(1)).await.expect("swept");
    assert_eq!(elsewhere.store.nodes().await.expect("listed").len(), 0);
    assert_eq!(node.store.nodes().await.expect("listed").len(), 1);
    assert_eq!(
        holding(&node.ask(vec![("x", StepRequest::Watch), ("y", StepRequest::Watch)]).await.steps[1]),
        (Outcome::Watched, 0, None)
    );
    assert_eq!(
        holding(&node.ask(vec![("x", StepRequest::Watch)]).await.steps[0]),
        (Outcome::Watched, 1, Some(("a", 1, 1)))
    );
}

pub async fn nodes_are_listed_with_their_ages_newest_first(bench: &Bench) {
    let mut silent = bench.node("z");
    let mut round = silent.round_of(Vec::new());
    round.rpc_address = None;
    silent.store.round(&round).await.expect("an answer");
    bench.age(Duration::from_secs(100)).await;
    bench.node("a").watch().await;
    bench.age(Duration::from_secs(10)).await;
    let mut asking = bench.node("m");
    asking.watch().await;
    let nodes = asking.store.nodes().await.expect("listed");
    let names: Vec<_> = nodes.iter().map(|row| row.node.as_str()).collect();
    assert_eq!(names, ["m", "a", "z"]);
    assert!(nodes[0].age < Duration::from_secs(10) && nodes[1].age >= Duration::from_secs(10));
    assert!(nodes[2].age >= Duration::from_secs(110) && nodes[2].age < LEASE);
    assert_eq!((nodes[1].rpc_address, nodes[2].rpc_address), (Some(([10, 0, 0, 1], 7118).into()), None));
}

pub async fn a_list_of_nodes_has_a_limit(bench: &Bench) {
    let mut node = bench.node("young");
    node.watch().await;
    let young = "select updated_at from {P}nodes where node_id = 'young'";
    let crowd = format!(
        "insert into {{P}}nodes (cluster, node_id, updated_at)
         with recursive crowd (number) as (select 1 union all select number + 1 from crowd where number < {MAX_NODES})
         select 'test', 'n' || number, ({young}) from crowd"
    );
    bench.sql(&crowd).await;
    bench.age(Duration::from_secs(10)).await;
    node.watch().await;
    let nodes = node.store.nodes().await.expect("listed");
    assert_eq!(nodes.len(), MAX_NODES, "of one more than that");
    assert_eq!(nodes[0].node.as_str(), "young", "whoever was heard from last is listed");
}

pub async fn a_heartbeat_changes_nothing_of_a_leader(bench: &Bench) {
    let mut node = bench.node("a");
    node.one(acquire(1)).await;
    bench.age(LEASE / 2).await;
    node.watch().await;
    let seen = node.watch().await;
    assert_eq!(holding(&seen), (Outcome::Watched, 1, Some(("a", 1, 1))));
    assert!(seen.holder.expect("held").expires_in <= LEASE / 2, "a heartbeat is no renewal");
    assert!(node.store.nodes().await.expect("listed")[0].age < LEASE / 2, "it was heard from");
}

pub async fn a_sweep_deletes_old_rows_and_no_others(bench: &Bench) {
    let mut old = bench.node("old");
    old.ask(vec![("x", acquire(1)), ("y", acquire(2))]).await;
    old.ask(vec![("x", release(&[1]))]).await;
    bench.age(LEASE / 2).await;
    let mut young = bench.node("young");
    young.ask(vec![("x", acquire(3)), ("z", acquire(4))]).await;
    young.ask(vec![("z", release(&[4]))]).await;
    assert_eq!(young.store.sweep(LEASE).await, Ok(0), "nothing is as old as that");
    // The old node's liveness row and its row of the lease it released, which has another leader since, not the one
    // that it still leads.
    assert_eq!(young.store.sweep(LEASE / 4).await, Ok(2));
    assert_eq!(young.store.sweep(LEASE / 4).await, Ok(0));
    let nodes = young.store.nodes().await.expect("listed");
    assert_eq!(nodes.iter().map(|row| row.node.as_str()).collect::<Vec<_>>(), ["young"]);
    let seen = young.ask(vec![("x", StepRequest::Watch), ("y", StepRequest::Watch)]).await.steps;
    assert_eq!(holding(&seen[0]), (Outcome::Watched, 2, Some(("young", 3, 2))));
    assert_eq!(holding(&seen[1]), (Outcome::Watched, 1, Some(("old", 2, 1))));
}

pub async fn an_expired_leaders_row_is_swept_once_it_was_seen_standing_still(bench: &Bench) {
    let mut node = bench.node("a");
    let mut round = node.round_of(vec![("default", acquire(1))]);
    round.lease_duration = Duration::from_millis(300);
    node.store.round(&round).await.expect("an answer");
    // To a clock that was set ahead, every row looks expired and old.
    bench.age(PAST).await;
    let begin = Instant::now();
    assert_eq!(node.store.sweep(Duration::from_secs(1)).await, Ok(1), "its liveness row alone");
    while node.store.sweep(Duration::from_secs(1)).await == Ok(0) {
        assert!(begin.elapsed() < PATIENCE, "it is never swept");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    assert!(begin.elapsed() >= Duration::from_millis(250), "it was not waited for");
    assert_eq!(holding(&node.watch().await), (Outcome::Watched, 1, None), "its term stays");
}

pub async fn a_clock_that_was_set_back_does_not_keep_a_lease_for_ever(bench: &Bench) {
    let mut holder = bench.node("a");
    holder.one(acquire(1)).await;
    let day = bench.interval(Duration::from_secs(86_400));
    bench
        .sql(&format!("update {{P}}leases set expires_at = expires_at + {day}, updated_at = updated_at + {day}"))
        .await;
    let mut other = bench.node("b");
    let shown = other.watch().await.holder.expect("held");
    assert!(shown.has_expired() && shown.expires_in > Duration::from_secs(86_000), "as it stands: {shown:?}");
    assert_eq!(other.one(acquire(2)).await.outcome, Outcome::Held, "its token has not been seen standing still");
    // A holder that lives goes on, and what it writes is sound again.
    assert_eq!(holder.one(renew(&[1], 3)).await.outcome, Outcome::Renewed);
    assert_eq!(other.one(take_over(2, 3)).await.outcome, Outcome::Held);
    bench
        .sql(&format!("update {{P}}leases set expires_at = expires_at + {day}, updated_at = updated_at + {day}"))
        .await;
    assert_eq!(holding(&other.one(take_over(2, 3)).await), (Outcome::Acquired, 2, Some(("b", 2, 2))));
}

pub async fn ten_at_once_make_the_tables(bench: &Bench) {
    let mut tasks = JoinSet::new();
    for number in 0..10_u128 {
        let mut node = bench.node(&format!("n{number}"));
        tasks.spawn(async move { node.one(acquire(100 + number)).await.outcome });
    }
    let outcomes = tasks.join_all().await;
    assert_eq!(outcomes.iter().filter(|outcome| **outcome == Outcome::Acquired).count(), 1, "{outcomes:?}");
    let nodes = bench.store().nodes().await.expect("listed");
    assert_eq!(nodes.iter().map(|row| row.node.to_string()).collect::<BTreeSet<_>>().len(), 10);
}

pub async fn dropped_tables_are_made_again(bench: &Bench) {
    let mut node = bench.node("a");
    node.one(acquire(1)).await;
    for table in ["nodes", "leases", "terms", "version"] {
        bench.sql(&format!("drop table {{P}}{table}")).await;
    }
    // As after a fail-over to an empty database: nothing is known there, and the term heard of goes on.
    assert_eq!(holding(&node.one(renew(&[1], 2)).await), (Outcome::Rejected, 0, None));
    let above = StepRequest::Acquire { drawn: Token(3), above: 1, expired: None, missing: None };
    assert_eq!(node.one(above).await.term, 2);
}

pub async fn a_terms_row_that_is_deleted_is_written_again(bench: &Bench) {
    let (mut holder, mut other) = (bench.node("a"), bench.node("b"));
    holder
        .ask(vec![("default", StepRequest::Acquire { drawn: Token(1), above: 6, expired: None, missing: None })])
        .await;
    let delete = || bench.sql("delete from {P}terms where lease = 'default'");
    // Whatever is asked next: the leader is left alone, and the term goes on.
    delete().await;
    assert_eq!(holding(&other.watch().await), (Outcome::Watched, 7, Some(("a", 1, 7))));
    delete().await;
    assert_eq!(holding(&holder.one(renew(&[1], 2)).await), (Outcome::Renewed, 7, Some(("a", 2, 7))));
    delete().await;
    assert_eq!(holding(&other.one(acquire(3)).await), (Outcome::Held, 7, Some(("a", 2, 7))));
    delete().await;
    let released = holder.one(release(&[2])).await;
    assert_eq!((holding(&released), released.is_free()), ((Outcome::Released, 7, None), true));
    // Its own row is the only one that shows the term.
    delete().await;
    assert_eq!(holding(&holder.one(acquire(4)).await), (Outcome::Acquired, 8, Some(("a", 4, 8))));
    delete().await;
    bench.age(PAST).await;
    assert_eq!(holding(&other.one(take_over(5, 4)).await), (Outcome::Acquired, 9, Some(("b", 5, 9))));
    // The row that says so is left when others are swept.
    delete().await;
    other.one(release(&[5])).await;
    bench.age(PAST).await;
    bench.store().sweep(LEASE).await.expect("swept");
    let seen = other.watch().await;
    assert_eq!((seen.term, seen.is_free()), (9, true));
}

pub async fn tables_of_a_later_release_are_refused(bench: &Bench) {
    bench.node("a").watch().await;
    bench.sql("update {P}version set version = 99").await;
    let error = bench.node("a").try_one(acquire(1)).await.expect_err("not ours to use");
    assert!(matches!(error, StoreError::NewerSchema { found: 99, known: 1, .. }), "{error}");
    assert!(error.needs_people());
}

pub async fn rows_of_others_cannot_do_harm(bench: &Bench) {
    let mut node = bench.node("a");
    node.ask(vec![("default", acquire(1)), ("sound", acquire(100))]).await;
    let mut sound = 100;
    for (column, value) in
        [("lease_token", "'x'"), ("node_id", "'a b'"), ("term", "-1"), ("term", "1000"), ("lease_ms", "-1")]
    {
        bench.sql(&format!("update {{P}}leases set {column} = {value} where lease = 'default'")).await;
        for request in [StepRequest::Watch, acquire(9), renew(&[9], 8), release(&[9])] {
            // The other lease of the same round is none the worse for it.
            let answer = node.ask(vec![("default", request), ("sound", renew(&[sound], sound + 1))]).await;
            sound += 1;
            let shown: Vec<_> = answer.steps.iter().map(holding).collect();
            assert_eq!(shown[0], (Outcome::Unreadable, 0, None), "{column}");
            assert_eq!(shown[1], (Outcome::Renewed, 1, Some(("a", sound, 1))), "{column}");
        }
        bench.sql("delete from {P}leases where lease = 'default'").await;
        let term = node.watch().await.term;
        assert_eq!(node.one(missing(1, term)).await.outcome, Outcome::Acquired, "it does no lasting harm");
    }
    bench.sql("update {P}leases set lease_ms = 9223372036854775807 where lease = 'default'").await;
    assert_eq!(node.one(take_over(2, 1)).await.outcome, Outcome::Held, "however long");
    bench.sql("update {P}nodes set rpc_addr = 'nowhere'").await;
    bench.sql("insert into {P}nodes select cluster, 'a b', rpc_addr, updated_at from {P}nodes").await;
    let nodes = node.store.nodes().await.expect("listed");
    assert_eq!((nodes.len(), nodes[0].rpc_address), (1, None), "whose name is none is not listed");
}
