//! PostgreSQL: the suite, then roles, locks and addresses.

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use headcount::lease::store::{Store, StoreError, StoreKind, StoreOptions, StoreUrl, schema};
use headcount::lease::{Outcome, StepRequest, Token};
use tokio_postgres::{Client, NoTls};

use super::harness::{Bench, PATIENCE, Raw, acquire, holding, renew, take_over};
use crate::server;

async fn start(_case: &str) -> Option<Bench> {
    let url = server::shared()?;
    Some(bench(&url, &url).await)
}

crate::store::suite! { start }

/// Returns a bench whose stores connect to one address, and that goes past them at another.
pub async fn bench(url: &str, raw: &str) -> Bench {
    static COUNT: AtomicU32 = AtomicU32::new(0);
    let schema = format!("hc_{}_{}", std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed));
    let options = StoreOptions::new("test").and_then(|options| options.with_schema(&schema)).expect("a name");
    let options = options.with_statement_timeout(Duration::from_secs(10)).expect("in range");
    Bench { url: url.parse().expect("an address"), options, raw: Raw::Postgres(client(raw).await) }
}

/// Returns a plain connection.
pub async fn client(url: &str) -> Client {
    let (client, connection) = tokio_postgres::connect(url, NoTls).await.expect("it connects");
    tokio::spawn(connection);
    client
}

/// Returns an address with another role in place of its own.
fn for_role(url: &str, role: &str) -> StoreUrl {
    let (_, rest) = url.split_once('@').expect("it names a role");
    format!("postgres://{role}@{rest}").parse().expect("an address")
}

/// Makes a role with these properties, and returns its name.
async fn role(bench: &Bench, properties: &str) -> String {
    let name = format!("role_{}", bench.options.schema().expect("a schema"));
    bench.sql(&format!("create role {name} login {properties}")).await;
    name
}

fn raw(bench: &Bench) -> &Client {
    match &bench.raw {
        Raw::Postgres(client) => client,
        Raw::Sqlite(..) => unreachable!("it is a server"),
    }
}

#[tokio::test]
async fn a_role_that_may_create_nothing_is_told_what_to_run() {
    let Some(url) = server::shared() else { return };
    let bench = bench(&url, &url).await;
    let role = role(&bench, "").await;
    let mut node = bench.node("a");
    node.store = Store::new(&for_role(&url, &role), bench.options.clone()).expect("good");

    let error = node.try_one(acquire(1)).await.expect_err("it may not");
    assert!(matches!(error, StoreError::NoSchema { .. }) && error.needs_people(), "{error}");
    let statements = error.statements().expect("told").to_owned();
    let options = bench.options.clone().with_role(&role).expect("a role");
    assert_eq!(statements, schema(StoreKind::Postgres, &options));

    let (grants, others): (Vec<_>, Vec<_>) = statements.lines().partition(|line| line.starts_with("grant "));
    raw(&bench).batch_execute(&others.join("\n")).await.expect("they can be run as they are");
    let error = node.try_one(acquire(1)).await.expect_err("nothing was granted");
    assert!(matches!(error, StoreError::NoPermission { .. }), "{error}");

    assert!(error.to_string().contains(&format!("--role {role}")), "{error}");
    assert!(!grants.is_empty());
    for grant in grants {
        raw(&bench).batch_execute(grant).await.expect(grant);
    }
    assert_eq!(node.one(acquire(1)).await.outcome, Outcome::Acquired);
    assert_eq!(node.store.sweep(Duration::from_secs(60)).await, Ok(0));
    raw(&bench).batch_execute(&statements).await.expect("they can be run again");
    assert_eq!(holding(&node.watch().await), (Outcome::Watched, 1, Some(("a", 1, 1))));
}

#[tokio::test]
async fn a_role_whose_search_path_names_no_schema_is_told_of_the_setting_that_does() {
    let Some(url) = server::shared() else { return };
    let bench = bench(&url, &url).await;
    let role = role(&bench, "superuser").await;
    for path in ["''", "nothing_there"] {
        bench.sql(&format!("alter role {role} set search_path = {path}")).await;
        let without = StoreOptions::new("test").expect("a name");
        let mut node = bench.node("a");
        node.store = Store::new(&for_role(&url, &role), without).expect("good");
        let error = node.try_one(acquire(1)).await.expect_err("there is no place for tables");
        assert!(error.to_string().contains("set leadership.lease.schema") && error.needs_people(), "{error}");
        node.store = Store::new(&for_role(&url, &role), bench.options.clone()).expect("good");
        assert_eq!(node.watch().await.outcome, Outcome::Watched, "with that setting it has one");
    }
}

#[tokio::test]
async fn the_server_looks_after_a_silent_agent_unless_somebody_set_that_otherwise() {
    let Some(url) = server::shared() else { return };
    let bench = bench(&url, &url).await;
    let role = role(&bench, "superuser").await;
    let name = format!("look_{}", bench.options.schema().expect("a schema"));
    let address = format!("{}?application_name={name}", for_role(&url, &role));
    // What the sessions of this role are set to is written down by themselves, with each round.
    bench.node("b").watch().await;
    let schema = bench.options.schema().expect("a schema");
    raw(&bench)
        .batch_execute(&format!(
            "create table {schema}.seen (idle text, break text, count text);
             create function {schema}.look() returns trigger language plpgsql as $$ begin
             insert into {schema}.seen values (current_setting('tcp_keepalives_idle'),
             current_setting('tcp_keepalives_interval'), current_setting('tcp_keepalives_count')); return new; end $$;
             create trigger look after insert or update on {schema}.cluster_nodes for each row when (new.node_id = 'a')
             execute function {schema}.look()"
        ))
        .await
        .expect("made");
    for (set, expected) in [("", ["10", "5", "3"]), ("tcp_keepalives_idle = 77", ["77", "5", "3"])] {
        if !set.is_empty() {
            bench.sql(&format!("alter role {role} set {set}")).await;
        }
        let mut node = bench.node("a");
        node.store = Store::new(&address.parse().expect("an address"), bench.options.clone()).expect("good");
        node.watch().await;
        node.watch().await;
        let rows = raw(&bench).query(&format!("delete from {schema}.seen returning *"), &[]).await.expect("read");
        assert_eq!(rows.len(), 2);
        for row in rows {
            assert_eq!([0, 1, 2].map(|at| row.get::<_, String>(at)), expected);
        }
    }
}

#[tokio::test]
async fn a_server_that_does_not_let_itself_be_told_of_keepalives_is_led_by_all_the_same() {
    let Some(url) = server::shared() else { return };
    let bench = bench(&url, &url).await;
    let role = role(&bench, "superuser").await;
    // What stands before the system's own view fails.
    let schema = format!("own_{}", bench.options.schema().expect("a schema"));
    raw(&bench)
        .batch_execute(&format!(
            "create schema {schema}; create view {schema}.pg_settings as select 'x'::text as name, 1 / 0 as source;
             alter role {role} set search_path = {schema}, pg_catalog, public"
        ))
        .await
        .expect("made");
    let mut node = bench.node("a");
    node.store = Store::new(&for_role(&url, &role), bench.options.clone()).expect("good");
    assert_eq!(node.one(acquire(1)).await.outcome, Outcome::Acquired);
}

#[tokio::test]
async fn a_role_whose_transactions_are_read_only_is_told_so_and_recovers() {
    let Some(url) = server::shared() else { return };
    let bench = bench(&url, &url).await;
    let role = role(&bench, "superuser").await;
    let mut node = bench.node("a");
    node.store = Store::new(&for_role(&url, &role), bench.options.clone()).expect("good");
    bench.sql(&format!("alter role {role} set default_transaction_read_only = on")).await;
    let error = node.try_one(acquire(1)).await.expect_err("no tables can be made");
    assert!(matches!(error, StoreError::ReadOnly { .. }) && error.is_outcome_known(), "{error}");
    bench.node("b").watch().await;
    let error = node.try_one(acquire(1)).await.expect_err("nothing can be written");
    assert!(matches!(error, StoreError::ReadOnly { .. }) && !error.needs_people(), "{error}");

    let mut picky = bench.node("a");
    let address = format!("{}?target_session_attrs=read-write", for_role(&url, &role));
    picky.store = Store::new(&address.parse().expect("an address"), bench.options.clone()).expect("good");
    let error = picky.try_one(acquire(1)).await.expect_err("it takes no writes");
    assert!(matches!(error, StoreError::ReadOnly { .. }), "{error}");

    bench.sql(&format!("alter role {role} reset default_transaction_read_only")).await;
    assert_eq!(node.one(acquire(1)).await.outcome, Outcome::Acquired);
    assert_eq!(picky.watch().await.outcome, Outcome::Watched);
}

#[tokio::test]
async fn a_renewal_that_waited_for_a_lock_is_judged_by_the_time_after_the_wait() {
    let Some(url) = server::shared() else { return };
    let (bench, watching) = (bench(&url, &url).await, client(&url).await);
    let mut node = bench.node("a");
    let mut round = node.round_of(vec![("default", acquire(1))]);
    round.lease_duration = Duration::from_secs(2);
    node.store.round(&round).await.expect("an answer");

    let schema = bench.options.schema().expect("a schema").to_owned();
    let locking = raw(&bench);
    // It only locks: the row that the renewal waits for stays as it is.
    let lock = format!("begin; select 1 from {schema}.cluster_leases for update");
    locking.batch_execute(&lock).await.expect("locked");
    let waiting = tokio::spawn(async move { node.one(renew(&[1], 2)).await });
    // Its transaction has begun, and stands at the lock.
    let stands = "select 1 from pg_stat_activity where wait_event_type = 'Lock' and query like $1";
    let mark = format!("%{schema}%");
    until("it waits", async || !watching.query(stands, &[&mark]).await.expect("asked").is_empty()).await;
    let expired = format!("select 1 from {schema}.cluster_leases where expires_at < clock_timestamp()");
    until("it expires", async || !watching.query(&expired, &[]).await.expect("asked").is_empty()).await;
    locking.batch_execute("rollback").await.expect("unlocked");
    assert_eq!(waiting.await.expect("no panic").outcome, Outcome::Rejected);
}

/// Waits for a condition.
pub async fn until(what: &str, condition: impl AsyncFn() -> bool) {
    let deadline = tokio::time::Instant::now() + PATIENCE;
    while !condition().await {
        assert!(tokio::time::Instant::now() < deadline, "not within {PATIENCE:?}: {what}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

#[tokio::test]
async fn locks_that_others_keep_make_it_busy_and_nothing_is_done() {
    let Some(mut bench) = start("").await else { return };
    bench.node("a").one(acquire(1)).await;
    bench.options = bench.options.with_statement_timeout(Duration::from_secs(1)).expect("in range");
    let mut node = bench.node("a");
    let schema = bench.options.schema().expect("a schema");
    raw(&bench)
        .batch_execute(&format!("begin; select 1 from {schema}.cluster_leases for update"))
        .await
        .expect("locked");
    let error = node.try_one(renew(&[1], 2)).await.expect_err("it is locked");
    assert!(matches!(error, StoreError::Busy { .. }) && error.is_outcome_known(), "{error}");
    assert_eq!(holding(&node.watch().await), (Outcome::Watched, 1, Some(("a", 1, 1))), "looking takes no lock");
    raw(&bench).batch_execute("rollback").await.expect("unlocked");
    assert_eq!(node.one(renew(&[1], 3)).await.outcome, Outcome::Renewed);
}

#[tokio::test]
async fn who_loses_a_race_for_one_lease_keeps_the_rest_of_its_round() {
    let Some(url) = server::shared() else { return };
    let (bench, watching) = (bench(&url, &url).await, client(&url).await);
    let mut node = bench.node("b");
    node.ask(vec![("held", acquire(1))]).await;
    let schema = bench.options.schema().expect("a schema");
    // Somebody is about to commit an acquisition.
    let row = format!(
        "begin; insert into {schema}.cluster_leases values \
         ('test', 'raced', 'a', true, '{}', 1, 600000, clock_timestamp() + interval '10 minutes', clock_timestamp());
         insert into {schema}.cluster_terms values ('test', 'raced', 1)",
        Token(9)
    );
    raw(&bench).batch_execute(&row).await.expect("inserted");
    let waiting = tokio::spawn(async move {
        let wishes = vec![("held", renew(&[1], 2)), ("raced", acquire(3)), ("free", acquire(4))];
        node.ask(wishes).await
    });
    let stands = "select 1 from pg_stat_activity where wait_event_type = 'Lock' and query like $1";
    let mark = format!("%{schema}%");
    until("it waits", async || !watching.query(stands, &[&mark]).await.expect("asked").is_empty()).await;
    raw(&bench).batch_execute("commit").await.expect("committed");
    let answer = waiting.await.expect("no panic");
    let shown: Vec<_> = answer.steps.iter().map(holding).collect();
    assert_eq!(shown[0], (Outcome::Renewed, 1, Some(("b", 2, 1))));
    assert_eq!(shown[1], (Outcome::Conflict, 1, Some(("a", 9, 1))));
    assert_eq!(shown[2], (Outcome::Acquired, 1, Some(("b", 4, 1))));
}

#[tokio::test]
async fn a_cancelled_request_leaves_no_transaction_open() {
    let Some(bench) = start("").await else { return };
    let mut node = bench.node("a");
    node.one(acquire(1)).await;
    let schema = bench.options.schema().expect("a schema").to_owned();
    raw(&bench)
        .batch_execute(&format!("begin; select 1 from {schema}.cluster_leases for update"))
        .await
        .expect("locked");
    let given_up = tokio::time::timeout(Duration::from_millis(200), node.try_one(renew(&[1], 2))).await;
    assert!(given_up.is_err(), "it waits for the lock");
    raw(&bench).batch_execute("rollback").await.expect("unlocked");
    assert_eq!(holding(&node.one(renew(&[1], 3)).await), (Outcome::Renewed, 1, Some(("a", 3, 1))));
}

#[tokio::test]
async fn nobody_there_is_told_with_the_place_and_without_the_password() {
    let port = server::free_port();
    let url: StoreUrl = format!("postgres://a:secret@127.0.0.1:{port},127.0.0.1:1/db").parse().expect("an address");
    let options = StoreOptions::new("test").expect("a name");
    let mut store = Store::new(&url, options).expect("good");
    let error = store.nodes().await.expect_err("nobody is there");
    assert!(matches!(error, StoreError::Unreachable { .. }) && error.is_outcome_known(), "{error}");
    let text = error.to_string();
    assert!(text.contains(&format!("127.0.0.1:{port}: ")) && text.contains("127.0.0.1:1: "), "{text}");
    assert!(!text.contains("secret") && !format!("{store:?}{url:?}{url}").contains("secret"), "{text}");
}

#[tokio::test]
async fn times_without_end_are_read_as_far_off_and_fail_nothing() {
    let Some(bench) = start("").await else { return };
    let mut node = bench.node("a");
    node.ask(vec![("x", acquire(1)), ("y", acquire(2))]).await;
    bench.node("b").watch().await;
    bench.sql("update {P}nodes set updated_at = 'infinity' where node_id = 'a'").await;
    bench.sql("update {P}nodes set updated_at = '-infinity' where node_id = 'b'").await;
    let nodes = node.store.nodes().await.expect("listed");
    assert_eq!(nodes.iter().map(|row| row.node.as_str()).collect::<Vec<_>>(), ["a", "b"]);
    assert!(nodes[0].age.is_zero() && nodes[1].age > Duration::from_secs(86_400 * 365));
    bench.sql("update {P}leases set expires_at = 'infinity' where lease = 'x'").await;
    bench.sql("update {P}leases set expires_at = '-infinity' where lease = 'y'").await;
    let seen = bench.node("b").ask(vec![("x", StepRequest::Watch), ("y", StepRequest::Watch)]).await.steps;
    assert!(
        seen.iter().all(|seen| seen.holder.as_ref().is_some_and(headcount::lease::Holder::has_expired)),
        "{seen:?}"
    );
    let taken = bench.node("b").ask(vec![("x", take_over(3, 1)), ("y", take_over(4, 2))]).await;
    assert!(taken.steps.iter().all(|seen| seen.outcome == Outcome::Acquired), "{taken:?}");
}

#[tokio::test]
async fn a_takeover_in_a_round_of_many_is_judged_lease_by_lease() {
    let Some(bench) = start("").await else { return };
    let mut old = bench.node("z");
    old.ask(vec![("x", acquire(1)), ("y", acquire(2))]).await;
    bench.sql("update {P}leases set expires_at = updated_at where lease = 'y'").await;
    let above = |drawn, above, expired| StepRequest::Acquire {
        drawn: Token(drawn),
        above,
        expired: Some(Token(expired)),
        missing: None,
    };
    let answer = bench.node("a").ask(vec![("y", above(4, 7, 2)), ("x", take_over(3, 1))]).await;
    let shown: Vec<_> = answer.steps.iter().map(holding).collect();
    assert_eq!(shown, [(Outcome::Acquired, 8, Some(("a", 4, 8))), (Outcome::Held, 1, Some(("z", 1, 1)))]);
}
