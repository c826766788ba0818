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
    let config = Config::new(name).expect("a name").with_profile(Profile::Local).with_lease(url);
    let config = config.with_bind("127.0.0.1:0".parse().expect("an address")).with_seeds(seeds.iter().copied());
    let agent = Agent::start(config).await.expect("it starts");
    in_time(agent.wait_until_up()).await.expect("up");
    agent
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lease_asked_for_later_has_a_leader_of_its_own_and_its_work_ends_before_the_goodbye() {
    let directory = tempfile::tempdir().expect("a directory");
    let url = format!("sqlite://{}", directory.path().join("a.db").display());
    let a = start("a", &url, &[]).await;
    let b = start("b", &url, &[&a.gossip_address().to_string()]).await;
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

#[tokio::test]
async fn where_no_database_is_asked_there_are_no_leases() {
    let config = Config::new("a").expect("a name").with_profile(Profile::Local);
    let agent = Agent::start(config.with_bind("127.0.0.1:0".parse().expect("an address"))).await.expect("it starts");
    assert!(matches!(agent.lease("billing"), Err(LeaseError::NotLeaseMode)));
    let directory = tempfile::tempdir().expect("a directory");
    let agent = start("b", &format!("sqlite://{}", directory.path().join("a.db").display()), &[]).await;
    assert!(matches!(agent.lease("a b"), Err(LeaseError::Name(_))));
    for at in 1..headcount::lease::MAX_LEASES {
        agent.lease(&format!("l{at}")).expect("few enough");
    }
    assert!(matches!(agent.lease("one-more"), Err(LeaseError::TooMany(_))));
    assert!(agent.lease("l1").is_ok(), "it is there already");
}
