//! Changes of keys, as one agent by itself makes them.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::{MutexGuard, mpsc};
use std::time::{Instant, SystemTime};

use super::rotation::{EXPECTED_BACK, Step, may_come_back};
use super::*;
use crate::config::key;
use crate::core::{LeaveReason, Status};
use crate::member::Member;
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
    let asked = |is_taken| agent.inner.keeper.answer(&KeyRequest::Turn(is_taken), &other, None).map(|_| ());
    let check =
        async || agent.look(Step::Use(key(1).id()), &BTreeSet::new(), ANSWER_TIMEOUT).await.map(|known| known.len());
    assert_eq!(check().await, Ok(1), "nobody objects");
    assert_eq!(asked(true), Err(KeysError::Busy { by: agent.me().id }), "no change from elsewhere meanwhile");
    agent.end_turn(false).await;
    assert_eq!(asked(true), Ok(()));
    assert_eq!(check().await, Err(KeysError::Busy { by: other.clone() }), "nor one from here, then");
    assert_eq!(asked(false), Ok(()));
    assert_eq!(check().await, Ok(1));
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

/// Starts two nodes that hold the keys 1 and 2, and seal with the first of them that is given.
async fn two(directory: &Path, keys: &[u8]) -> [Agent; 2] {
    let a = with_keys(directory, "a", keys, None).await;
    let b = with_keys(directory, "b", keys, Some(&a)).await;
    until("a hears b", || has(&a, "b", Status::Up)).await;
    [a, b]
}

/// Returns true if an agent holds a member in this status.
fn has(agent: &Agent, name: &str, status: Status) -> bool {
    agent.members().iter().any(|member| member.id.as_str() == name && member.status == status)
}

/// Has an agent answer what it would do, and be slow to do it, until what is returned is dropped.
fn held_up(agent: &Agent) -> mpsc::Sender<()> {
    held(agent, Keeper::hold_changes)
}

/// Has an agent answer nothing about changes, until what is returned is dropped.
fn silent(agent: &Agent) -> mpsc::Sender<()> {
    held(agent, Keeper::hold_disk)
}

fn held<T: 'static>(agent: &Agent, hold: for<'a> fn(&'a Keeper) -> MutexGuard<'a, T>) -> mpsc::Sender<()> {
    let (release, released) = mpsc::channel::<()>();
    let ((begun, begins), keeper) = (mpsc::channel::<()>(), Arc::clone(&agent.inner.keeper));
    std::thread::spawn(move || {
        let _guard = hold(&keeper);
        begun.send(()).expect("awaited");
        let _ = released.recv();
    });
    begins.recv().expect("held");
    release
}

/// Begins a step at an agent; returns once another one has given it the turn.
async fn begun(step: Step, at: &Agent, other: &Agent) -> tokio::task::JoinHandle<Result<Vec<KeyHolder>, KeysError>> {
    let agent = at.clone();
    let step = tokio::spawn(async move { agent.rotate(step, false).await });
    until("it was asked", || other.inner.keeper.is_turn_of_another(&other.me().id)).await;
    step
}

fn locked_out(number: u8, name: &str, why: &str) -> KeysError {
    KeysError::LockedOut { id: key(number).id(), members: vec![(NodeId::new(name).expect("a name"), why.to_owned())] }
}

fn still_used(number: u8, name: &str, why: &str) -> KeysError {
    KeysError::StillUsed { id: key(number).id(), members: vec![(NodeId::new(name).expect("a name"), why.to_owned())] }
}

fn ids<const N: usize>(numbers: [u8; N]) -> Vec<KeyId> {
    numbers.map(|number| key(number).id()).to_vec()
}

async fn end(agents: impl IntoIterator<Item = Agent>) {
    for agent in agents {
        agent.leave().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn who_comes_while_a_key_is_being_removed_and_seals_with_it_is_not_locked_out() {
    let directory = tempfile::tempdir().expect("a directory");
    let [a, b] = two(directory.path(), &[1, 2]).await;
    let slow = held_up(&b);
    let removal = begun(Step::Remove(key(2).id()), &a, &b).await;
    let c = with_keys(directory.path(), "c", &[2, 1], Some(&a)).await;
    until("a hears c", || has(&a, "c", Status::Up)).await;
    drop(slow);

    assert_eq!(removal.await.expect("ended"), Err(still_used(2, "c", "seals with it")));
    for agent in [&a, &b] {
        assert_eq!(agent.keys().keys, ids([1, 2]), "it goes on hearing c");
    }
    end([c, b, a]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn who_comes_while_a_key_is_taken_into_use_and_lacks_it_is_not_locked_out() {
    let directory = tempfile::tempdir().expect("a directory");
    let [a, b] = two(directory.path(), &[1, 2]).await;
    let slow = held_up(&b);
    let step = begun(Step::Use(key(2).id()), &a, &b).await;
    let c = with_keys(directory.path(), "c", &[1], Some(&a)).await;
    until("a hears c", || has(&a, "c", Status::Up)).await;
    drop(slow);

    assert_eq!(step.await.expect("ended"), Err(locked_out(2, "c", "lacks it")));
    for agent in [&a, &b] {
        assert_eq!(agent.keys().keys, ids([1, 2]), "it seals as c understands");
    }
    for agent in [&a, &b, &c] {
        until("all hear all", || ["a", "b", "c"].iter().all(|name| has(agent, name, Status::Up))).await;
    }
    end([c, b, a]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn who_comes_before_the_very_last_step_is_not_locked_out_either() {
    let directory = tempfile::tempdir().expect("a directory");
    for step in [Step::Use(key(2).id()), Step::Remove(key(2).id())] {
        let [a, b] = two(directory.path(), &[1, 2]).await;
        // All others have made their step, and nobody objected, when this node's own is held up.
        let slow = held_up(&a);
        let changed = begun(step, &a, &b).await;
        until("b has made it", || b.keys().keys != ids([1, 2])).await;
        tokio::time::sleep(Duration::from_millis(300)).await;
        let (keys, refused): (&[u8], _) = match step {
            Step::Use(_) => (&[1], locked_out(2, "c", "came meanwhile, and perhaps lacks it")),
            Step::Remove(_) => (&[2, 1], still_used(2, "c", "came meanwhile, and perhaps seals with it")),
        };
        let c = with_keys(directory.path(), "c", keys, Some(&a)).await;
        until("a hears c", || has(&a, "c", Status::Up)).await;
        drop(slow);

        assert_eq!(changed.await.expect("ended"), Err(refused), "{step:?}");
        for agent in [&a, &b] {
            assert_eq!(agent.keys().keys, ids([1, 2]), "as before: {step:?}");
        }
        end([c, b, a]).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn who_is_started_anew_with_another_file_meanwhile_is_asked_anew_and_who_leaves_is_not_waited_for() {
    let directory = tempfile::tempdir().expect("a directory");
    for comes_back in [false, true] {
        let [a, b] = two(directory.path(), &[1, 2]).await;
        let c = with_keys(directory.path(), "c", &[1, 2], Some(&a)).await;
        until("both hear c", || [&a, &b].iter().all(|agent| has(agent, "c", Status::Up))).await;
        let slow = held_up(&b);
        let step = begun(Step::Use(key(2).id()), &a, &b).await;
        until("c was asked", || c.keys().keys == ids([2, 1])).await;
        c.leave().await;
        let again = if comes_back { Some(with_keys(directory.path(), "c", &[1], Some(&a)).await) } else { None };
        let status = if comes_back { Status::Up } else { Status::Left(LeaveReason::Graceful) };
        until("a knows", || has(&a, "c", status)).await;
        drop(slow);

        let changed = step.await.expect("ended");
        if comes_back {
            assert_eq!(changed, Err(locked_out(2, "c", "lacks it")));
            assert_eq!(a.keys().keys, ids([1, 2]));
        } else {
            assert!(changed.is_ok(), "it had answered, and has the key in its file: {changed:?}");
            assert_eq!(a.keys().keys, ids([2, 1]));
        }
        assert_eq!(b.keys(), a.keys());
        end(again.into_iter().chain([b, a])).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_member_that_has_answered_need_not_answer_again_and_one_that_has_not_is_not_passed_over() {
    let directory = tempfile::tempdir().expect("a directory");
    let [a, b] = two(directory.path(), &[1, 2]).await;
    let step = Step::Use(key(2).id());
    let nobody = BTreeSet::new();
    let known = a.look(step, &nobody, ANSWER_TIMEOUT).await.expect("nobody objects");
    let silent = silent(&b);
    let look = async |known| a.look(step, known, Duration::from_millis(200)).await;
    assert_eq!(look(&nobody).await, Err(locked_out(2, "b", "did not answer in time")));
    assert_eq!(look(&known).await, Ok(known.clone()));
    drop(silent);
    end([b, a]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_member_does_not_do_later_what_it_was_asked_for_by_one_that_gave_it_up() {
    let directory = tempfile::tempdir().expect("a directory");
    let [a, b] = two(directory.path(), &[1, 2]).await;
    let slow = held_up(&b);
    let asked = a.ask_holder(b.me().id, &KeyRequest::Use(key(2).id().0), Duration::from_millis(300)).await;
    assert_eq!(asked.map_err(|why| why.to_string()), Err("did not answer in time".to_owned()));
    // The request was under way for some of that time.
    tokio::time::sleep(Duration::from_millis(300)).await;
    drop(slow);
    let listed = a.ask_holder(b.me().id, &KeyRequest::List, ANSWER_TIMEOUT).await.expect("after the other request");
    assert_eq!(listed.keys, ids([1, 2]));
    end([b, a]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_change_goes_on_to_its_end_when_nobody_waits_for_it_any_more() {
    let directory = tempfile::tempdir().expect("a directory");
    let [a, b] = two(directory.path(), &[1, 2]).await;
    let slow = held_up(&b);
    begun(Step::Use(key(2).id()), &a, &b).await.abort();
    drop(slow);
    until("all seal with it", || [&a, &b].iter().all(|agent| agent.keys().keys == ids([2, 1]))).await;
    let other = NodeId::new("c").expect("a name");
    until("the turn is given back", || [&a, &b].iter().all(|agent| !agent.inner.keeper.is_turn_of_another(&other)))
        .await;
    end([b, a]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_second_operator_is_refused_whatever_it_wants_and_wherever_it_is() {
    let directory = tempfile::tempdir().expect("a directory");
    let [a, b] = two(directory.path(), &[1, 2]).await;
    let slow = held_up(&b);
    let step = begun(Step::Use(key(2).id()), &a, &b).await;
    let busy = Err(KeysError::Busy { by: a.me().id });
    for agent in [&a, &b] {
        assert_eq!(agent.remove_key(key(2).id(), false).await, busy, "while it is taken into use");
        assert_eq!(agent.use_key(key(1).id(), false).await, busy);
    }
    drop(slow);
    assert!(step.await.expect("ended").is_ok());
    for agent in [&a, &b] {
        assert_eq!(agent.keys().keys, ids([2, 1]));
    }
    end([b, a]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn two_operators_at_one_moment_leave_all_members_with_one_sending_key() {
    let directory = tempfile::tempdir().expect("a directory");
    let [a, b] = two(directory.path(), &[1, 2]).await;
    let c = with_keys(directory.path(), "c", &[1, 2], Some(&a)).await;
    let agents = [a, b, c];
    for agent in &agents {
        until("all hear all", || ["a", "b", "c"].iter().all(|name| has(agent, name, Status::Up))).await;
    }
    for round in 0..8 {
        let [a, b, c] = &agents;
        let (one, other) = (key(1 + round % 2).id(), key(1 + (round + 1) % 2).id());
        let done = tokio::join!(a.use_key(one, false), b.use_key(other, false), c.remove_key(one, false));
        for done in [&done.0, &done.1, &done.2] {
            let is_clear = match done {
                Ok(holders) => holders.iter().all(|holder| holder.held.is_ok()),
                Err(
                    KeysError::Busy { .. }
                    | KeysError::LockedOut { .. }
                    | KeysError::StillUsed { .. }
                    | KeysError::Ring(_),
                ) => true,
                Err(_) => false,
            };
            assert!(is_clear, "{done:?}");
        }
        let sealing: BTreeSet<_> = agents.iter().map(|agent| agent.keys().keys[0]).collect();
        assert_eq!(sealing.len(), 1, "{done:?}");
        assert!(agents.iter().all(|agent| agent.keys().keys.contains(&agents[0].keys().keys[0])));
        // As before, for the next round.
        for number in [1, 2] {
            assert!(agents[0].add_key(key(number)).await.is_ok_and(|holders| holders.iter().all(|it| it.held.is_ok())));
        }
    }
    end(agents).await;
}
