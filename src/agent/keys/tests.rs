//! Changes of keys, as one agent by itself makes them.

use std::path::Path;
use std::sync::mpsc;
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

/// Starts a node with a file of these keys, and waits until it is Up.
async fn with_keys(directory: &Path, name: &str, keys: &[u8], seed: Option<&Agent>) -> Agent {
    let file = directory.join(name);
    let text: Vec<String> = keys.iter().map(|number| key(*number).to_base64().as_str().to_owned()).collect();
    std::fs::write(&file, text.join("\n") + "\n").expect("written");
    let config = Config::new(name).expect("a name").with_profile(Profile::Local).with_key_file(file);
    let config = config.with_seeds(seed.map(|seed| seed.gossip_address().to_string()));
    let agent = Agent::start(config.with_bind("127.0.0.1:0".parse().expect("an address"))).await.expect("started");
    agent.wait_until_up().await.expect("up");
    agent
}

/// Waits until this is true.
async fn until(what: &str, is_true: impl Fn() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(30);
    while !is_true() {
        assert!(Instant::now() < deadline, "{what}");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn who_comes_while_a_key_is_being_removed_and_seals_with_it_is_not_locked_out() {
    let directory = tempfile::tempdir().expect("a directory");
    let (new, old) = (1, 2);
    let a = with_keys(directory.path(), "a", &[new, old], None).await;
    let b = with_keys(directory.path(), "b", &[new, old], Some(&a)).await;
    until("a hears b", || a.members().iter().filter(|member| member.status == Status::Up).count() == 2).await;
    // b answers that it would remove the key, and is slow to do so.
    let (release, released) = mpsc::channel::<()>();
    let (slow, keeper) = (mpsc::channel::<()>(), Arc::clone(&b.inner.keeper));
    let begun = slow.0;
    let disk = std::thread::spawn(move || {
        let _change = keeper.hold_changes();
        begun.send(()).expect("awaited");
        let _ = released.recv();
    });
    slow.1.recv().expect("held");
    let removal = tokio::spawn({
        let a = a.clone();
        async move { a.remove_key(key(old).id(), false).await }
    });
    let other = NodeId::new("c").expect("a name");
    until("b was asked", || b.inner.keeper.is_turn_of_another(&other)).await;
    let c = with_keys(directory.path(), "c", &[old, new], Some(&a)).await;
    let is_up = |member: &Member| member.id == other && member.status == Status::Up;
    until("a hears c", || a.members().iter().any(is_up)).await;
    drop(release);
    disk.join().expect("released");

    let members = vec![(other.clone(), "seals with it".to_owned())];
    assert_eq!(removal.await.expect("ended"), Err(KeysError::LockedOut { id: key(old).id(), members }));
    assert_eq!(a.keys().keys, [key(new).id(), key(old).id()], "a goes on hearing c");
    assert_eq!(b.keys().keys, [key(new).id()], "b was to remove it");
    for agent in [c, b, a] {
        agent.leave().await;
    }
}
