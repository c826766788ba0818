//! Leases as programs hold them.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use headcount::agent::{ConfirmError, LeaseError, Stop};
use headcount::{Agent, Config, Profile};

const PATIENCE: Duration = Duration::from_secs(30);

async fn in_time<T>(future: impl Future<Output = T>) -> T {
    tokio::time::timeout(PATIENCE, future).await.expect("in time")
}

async fn start(name: &str, url: &str, seeds: &[&str]) -> Agent {
    start_with(Config::new(name).expect("a name").with_profile(Profile::Local).with_lease(url), seeds).await
}

/// Starts an agent with a lease that nobody loses because the machine is busy.
async fn start_calm(name: &str, url: &str, seeds: &[&str]) -> Agent {
    let mut config = Config::new(name).expect("a name").with_profile(Profile::Local).with_lease(url);
    config.leadership.timing.lease_duration = Duration::from_secs(20);
    config.leadership.timing.renewal_interval = Duration::from_secs(2);
    start_with(config, seeds).await
}

async fn start_with(config: Config, seeds: &[&str]) -> Agent {
    let config = config.with_bind("127.0.0.1:0".parse().expect("an address")).with_seeds(seeds.iter().copied());
    let agent = Agent::start(config).await.expect("it starts");
    in_time(agent.wait_until_up()).await.expect("up");
    agent
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lease_asked_for_later_has_a_leader_of_its_own_and_its_work_ends_before_the_goodbye() {
    let directory = tempfile::tempdir().expect("a directory");
    let url = format!("sqlite://{}", directory.path().join("a.db").display());
    let a = start_calm("a", &url, &[]).await;
    let b = start_calm("b", &url, &[&a.gossip_address().to_string()]).await;
    let (of_a, of_b) = (a.lease("billing").expect("a lease"), b.lease("billing").expect("a lease"));
    let led = in_time(of_a.leadership().wait_for(|seen| seen.leader.is_some())).await.expect("it lives");
    let (holder, other, agent) = if led.is_me { (of_a, of_b, a) } else { (of_b, of_a, b) };
    in_time(holder.leadership().wait_for(|seen| seen.is_me)).await.expect("it lives");
    let confirmed = in_time(holder.confirm_leadership()).await.expect("it leads");
    assert_eq!(confirmed.term, led.term);
    assert!(matches!(in_time(other.confirm_leadership()).await, Err(ConfirmError::NotLeader { .. })));

    struct Gone(Arc<AtomicBool>);
    impl Drop for Gone {
        fn drop(&mut self) {
            self.0.store(true, Ordering::SeqCst);
        }
    }
    let gone = Arc::new(AtomicBool::new(false));
    let (began, begins) = tokio::sync::oneshot::channel();
    let (mut began, mark, working) = (Some(began), Arc::clone(&gone), holder.clone());
    let work = tokio::spawn(async move {
        working
            .while_leader(|term| {
                if let Some(began) = began.take() {
                    let _ = began.send(term);
                }
                let gone = Gone(Arc::clone(&mark));
                async move {
                    let _gone = gone;
                    std::future::pending::<()>().await;
                }
            })
            .await
    });
    assert_eq!(in_time(begins).await, Ok(led.term));
    let seen_gone = {
        let gone = Arc::clone(&gone);
        tokio::spawn(async move {
            in_time(other.leadership().wait_for(|seen| seen.is_me)).await.expect("it lives");
            (gone.load(Ordering::SeqCst), other.leadership().get().term)
        })
    };
    assert!(matches!(in_time(agent.leave()).await, Stop::Core(_)));
    assert_eq!(in_time(seen_gone).await.expect("no panic"), (true, led.term + 1), "the work was gone before");
    assert!(in_time(work).await.expect("no panic").is_err(), "it says that the agent stopped");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_drain_that_nobody_waits_for_any_more_is_finished() {
    let directory = tempfile::tempdir().expect("a directory");
    let url = format!("sqlite://{}", directory.path().join("a.db").display());
    let a = start_calm("a", &url, &[]).await;
    in_time(a.leadership().wait_for(|seen| seen.is_me)).await.expect("it lives");
    let mut given_up = 0;
    for round in 0..3 {
        // As by a caller over HTTP that hangs up; on a busy machine it may be done before it can be given up.
        tokio::select! {
            biased;
            drained = a.drain() => assert!(drained.is_ok(), "{round}"),
            () = async {} => given_up += 1,
        }
        in_time(a.leadership().wait_for(|seen| !seen.is_me)).await.expect("it lives");
        in_time(async {
            while !a.me().draining {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        })
        .await;
        // The last word counts.
        let (drained, undrained) = (a.drain(), a.undrain());
        let (drained, undrained) = tokio::join!(drained, undrained);
        assert!(drained.is_ok() && undrained.is_ok(), "{round}");
        in_time(a.leadership().wait_for(|seen| seen.is_me)).await.expect("it lives");
        assert!(!a.me().draining, "{round}");
    }
    assert!(given_up > 0, "no drain was given up");
    a.leave().await;
}

#[tokio::test]
async fn where_no_database_is_asked_there_are_no_leases() {
    let config = Config::new("a").expect("a name").with_profile(Profile::Local);
    let agent = Agent::start(config.with_bind("127.0.0.1:0".parse().expect("an address"))).await.expect("it starts");
    assert!(matches!(agent.lease("billing"), Err(LeaseError::NotLeaseMode)));
    let directory = tempfile::tempdir().expect("a directory");
    let agent = start("b", &format!("sqlite://{}", directory.path().join("a.db").display()), &[]).await;
    assert!(matches!(agent.lease("a b"), Err(LeaseError::Name(_))));
    let held: Vec<_> =
        (1..headcount::lease::MAX_LEASES).map(|at| agent.lease(&format!("l{at}")).expect("few enough")).collect();
    assert!(matches!(agent.lease("one-more"), Err(LeaseError::TooMany(_))));
    assert!(agent.lease("l1").is_ok(), "it is there already");
    drop(held);
    in_time(async {
        while agent.lease("one-more").is_err() {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    })
    .await;
}

/// Returns the number of questions about a lease so far.
fn asked(agent: &Agent, lease: &str) -> Option<u64> {
    let figures = *agent.info().leases.get(&lease.parse().expect("a name"))?;
    Some(figures.acquisitions + figures.acquisition_failures + figures.renewals + figures.renewal_failures)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lease_whose_last_handle_is_dropped_is_released_and_asked_about_no_more() {
    let directory = tempfile::tempdir().expect("a directory");
    let url = format!("sqlite://{}", directory.path().join("a.db").display());
    let a = start_calm("a", &url, &[]).await;
    let b = start_calm("b", &url, &[&a.gossip_address().to_string()]).await;
    let first = a.lease("billing").expect("a lease");
    let second = first.clone();
    in_time(first.leadership().wait_for(|seen| seen.is_me)).await.expect("it lives");
    let other = b.lease("billing").expect("a lease");
    let (mut watch, term) = (second.leadership(), second.leadership().get().term);

    // Led work that keeps a handle keeps the lease; the hand-over waits for its end.
    let (began, begins) = tokio::sync::oneshot::channel();
    let mut began = Some(began);
    let work = tokio::spawn(async move {
        second
            .while_leader(|_| {
                let began = began.take();
                async move {
                    let _ = began.map(|began| began.send(()));
                    std::future::pending::<()>().await;
                }
            })
            .await
    });
    in_time(begins).await.expect("it begins");
    drop(first);
    let renewed = asked(&a, "billing").expect("contended for");
    in_time(async {
        while asked(&a, "billing").expect("contended for") < renewed + 2 {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    })
    .await;
    assert!(watch.get().is_me, "one handle is left");

    work.abort();
    let led = in_time(other.leadership().wait_for(|seen| seen.is_me)).await.expect("it lives");
    assert_eq!(led.term, term + 1);
    in_time(async { while watch.changed().await.is_some() {} }).await;
    let name = "billing".parse().expect("a name");
    assert!(a.contended_lease(&name).is_none());
    // From here on nothing is asked about it, although rounds go on.
    assert_eq!(asked(&a, "billing"), None);
    // Each round says anew who leads by the other lease, and until when.
    let mut rounds = a.leadership();
    for _ in 0..3 {
        in_time(rounds.changed()).await.expect("it lives");
    }
    assert_eq!(asked(&a, "billing"), None);

    // And it can be had again.
    let again = a.lease("billing").expect("a lease");
    drop(other);
    let led = in_time(again.leadership().wait_for(|seen| seen.is_me)).await.expect("it lives");
    assert_eq!(led.term, term + 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_configured_lease_is_contended_for_handle_or_not() {
    let directory = tempfile::tempdir().expect("a directory");
    let a = start("a", &format!("sqlite://{}", directory.path().join("a.db").display()), &[]).await;
    let lease = a.lease("default").expect("a lease");
    in_time(lease.leadership().wait_for(|seen| seen.is_me)).await.expect("it lives");
    let (mut watch, term) = (a.leadership(), a.leadership().get().term);
    drop(lease);
    for _ in 0..3 {
        let seen = in_time(watch.changed()).await.expect("it lives");
        assert!(seen.is_me && seen.term == term, "{seen:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_that_is_no_member_yet_never_leads() {
    let directory = tempfile::tempdir().expect("a directory");
    let url = format!("sqlite://{}", directory.path().join("a.db").display());
    let nobody = std::net::TcpListener::bind("127.0.0.1:0").and_then(|port| port.local_addr()).expect("a port");
    let config = Config::new("a").expect("a name").with_profile(Profile::Local).with_lease(&url);
    let config = config.with_bind("127.0.0.1:0".parse().expect("an address")).with_seeds([nobody.to_string()]);
    let joining = Agent::start(config).await.expect("it starts");
    // Its rounds write its row; none of them asks for the lease.
    in_time(async {
        while !joining
            .lease_nodes(&"default".parse().expect("a name"))
            .await
            .is_ok_and(|listed| !listed.nodes.is_empty())
        {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    })
    .await;
    assert_eq!(joining.me().status, headcount::Status::Joining);
    let b = start("b", &url, &[]).await;
    let led = in_time(b.leadership().wait_for(|seen| seen.is_me)).await.expect("it lives");
    assert_eq!(led.term, 1, "nobody led before");
    // The lease of the local profile lasts two seconds, and a claim ends 2 % before it.
    let left = led.valid_until.expect("a claim has an end").remaining();
    assert!(left <= Duration::from_millis(1_960), "{left:?}");
    assert!(!joining.leadership().get().is_me);
}

#[tokio::test(flavor = "multi_thread")]
async fn rows_of_the_dead_are_swept_by_whoever_leads_and_watches_end_with_the_agent() {
    let directory = tempfile::tempdir().expect("a directory");
    let url = format!("sqlite://{}", directory.path().join("a.db").display());
    let a = start("a", &url, &[]).await;
    in_time(a.leadership().wait_for(|seen| seen.is_me)).await.expect("it lives");
    let b = start("b", &url, &[]).await;
    let name = "default".parse().expect("a name");
    let until_listed = async |count: usize| {
        in_time(async {
            while !a.lease_nodes(&name).await.is_ok_and(|listed| listed.nodes.len() == count) {
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        })
        .await;
    };
    until_listed(2).await;
    let billing = b.lease("billing").expect("a lease");
    let mut watch = billing.leadership();
    b.shutdown();
    in_time(async { while watch.changed().await.is_some() {} }).await;
    until_listed(1).await;
}
