//! Changes of keys, as one agent by itself makes them.

use std::time::SystemTime;

use super::*;
use crate::seal::tests::key;
use crate::{Config, Profile};

async fn agent() -> Agent {
    let config = Config::new("a").expect("a name").with_profile(Profile::Local).with_keys([key(1)]);
    let agent = Agent::start(config.with_bind("127.0.0.1:0".parse().expect("an address"))).await.expect("started");
    agent.wait_until_up().await.expect("up");
    agent
}

/// In a cluster of two there is no third member that would give its turn to one of two operators alone.
#[tokio::test]
async fn who_changes_keys_takes_its_own_turn_as_well() {
    let (agent, other) = (agent().await, NodeId::new("b").expect("a name"));
    let asked = |is_taken| agent.inner.keeper.answer(&KeyRequest::Turn(is_taken), &other).map(|_| ());
    let check = async || agent.check(key(1).id(), false, ANSWER_TIMEOUT, |_: &HeldKeys| None).await;
    assert_eq!(check().await, Ok(()), "nobody objects");
    assert_eq!(asked(true), Err(KeysError::Busy { by: agent.me().id }), "no change from elsewhere meanwhile");
    agent.end_turn(false).await;
    assert_eq!(asked(true), Ok(()));
    assert_eq!(check().await, Err(KeysError::Busy { by: other.clone() }), "nor one from here, then");
    assert_eq!(asked(false), Ok(()));
    assert_eq!(check().await, Ok(()));
    agent.leave().await;
}

#[tokio::test]
async fn who_left_by_itself_is_expected_back_for_so_long_and_who_was_removed_is_not() {
    let agent = agent().await;
    let me = agent.me();
    let is_expected = |reason: LeaveReason, ago: Duration| {
        let since = SystemTime::now() - ago;
        may_come_back(&Member { status: Status::Left(reason), since, ..me.clone() }).is_some()
    };
    assert!(is_expected(LeaveReason::Graceful, EXPECTED_BACK / 10 * 9));
    assert!(!is_expected(LeaveReason::Graceful, EXPECTED_BACK + Duration::from_secs(1)), "keys can be changed again");
    assert!(!is_expected(LeaveReason::Forced, Duration::ZERO));
    agent.leave().await;
}
