//! One keeper: steps on the disk, files that others write, turns, and requests that come late.

use super::*;
use crate::config::key;

fn reach(bound: &str) -> Reach {
    let cluster = NodeId::new(crate::config::DEFAULT_CLUSTER).expect("a name");
    Reach { bound: bound.parse().expect("an address"), advertised: None, cluster }
}

fn keeper(config: SealConfig) -> Result<Keeper, KeysError> {
    let journal = Journal::start(&NodeId::new("me").expect("a name")).expect("a thread");
    let sealing = Sealing::off(journal);
    sealing.set_policy(Keeper::load(&config)?);
    Ok(Keeper::new(sealing, config, reach("127.0.0.1:7117")))
}

impl Keeper {
    /// Makes a change in nobody's turn.
    fn change_here(&self, request: &KeyRequest) -> Result<HeldKeys, KeysError> {
        self.answer(request, &NodeId::new("me").expect("a name"), None)
    }
}

fn in_file(directory: &Path, text: &str) -> SealConfig {
    let path = directory.join("keys");
    fs::write(&path, text).expect("written");
    SealConfig { key_file: Some(path), ..SealConfig::default() }
}

#[test]
fn a_rotation_is_on_the_disk_step_by_step_and_a_restart_finds_it() {
    let directory = tempfile::tempdir().expect("a directory");
    let config = in_file(directory.path(), &format!("# the first\n{}\n", key(1).to_base64().as_str()));
    let (old, new) = (key(1).id(), key(2).id());
    for (request, expected) in [
        (KeyRequest::add(&key(2)), vec![old, new]),
        (KeyRequest::add(&key(2)), vec![old, new]),
        (KeyRequest::Use(new.0), vec![new, old]),
        (KeyRequest::Remove(old.0), vec![new]),
        (KeyRequest::Remove(old.0), vec![new]),
    ] {
        let before = keeper(config.clone()).expect("the file of the step before");
        assert_eq!(before.change_here(&request).expect("changed").keys, expected, "{request:?}");
    }
    let after = keeper(config.clone()).expect("the file");
    assert_eq!(after.held(), HeldKeys { mode: SealMode::Require, keys: vec![new] });
    assert_eq!(after.change_here(&KeyRequest::Remove(new.0)), Err(RingError::Sealing(new).into()));
    let names = fs::read_dir(directory.path()).expect("readable").count();
    assert_eq!(names, 1, "nothing is left beside the file");
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt as _;
        let mode = fs::metadata(config.key_file.expect("a file")).expect("there").permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
    }
}

#[test]
fn what_an_operator_wrote_is_neither_lost_nor_put_in_force_by_a_change() {
    let directory = tempfile::tempdir().expect("a directory");
    let text = |keys: &[u8]| {
        let ring = KeyRing::new(keys.iter().map(|number| key(*number))).expect("keys");
        KeyFile::default().with(&ring).text().as_str().to_owned()
    };
    let config = in_file(directory.path(), &text(&[1]));
    let keeper = keeper(config.clone()).expect("a key");
    in_file(directory.path(), &text(&[1, 3]));
    assert_eq!(keeper.held().keys, [key(1).id()], "not read yet");
    let path = config.key_file.clone().expect("a file");
    for request in [KeyRequest::add(&key(2)), KeyRequest::Use(key(1).id().0), KeyRequest::Remove(key(9).id().0)] {
        assert_eq!(keeper.change_here(&request), Err(KeysError::NotRead { path: path.clone() }), "{request:?}");
    }
    assert_eq!(keeper.held().keys, [key(1).id()]);
    assert_eq!(fs::read_to_string(&path).expect("a text"), text(&[1, 3]));
    keeper.reload(config.clone()).expect("read");
    let held = keeper.change_here(&KeyRequest::add(&key(2))).expect("changed");
    assert_eq!(held.keys, [key(1).id(), key(3).id(), key(2).id()]);
    in_file(directory.path(), &text(&[2]));
    let (before, after) = keeper.reload(config).expect("read again");
    assert_eq!((before.keys.len(), after.keys), (3, vec![key(2).id()]));
}

#[test]
fn agents_that_have_one_file_each_make_the_change() {
    let directory = tempfile::tempdir().expect("a directory");
    let config = in_file(directory.path(), &format!("{}\n", key(1).to_base64().as_str()));
    let agents = [keeper(config.clone()).expect("a key"), keeper(config).expect("a key")];
    let (old, new) = (key(1).id(), key(2).id());
    for (request, expected) in [
        (KeyRequest::add(&key(2)), vec![old, new]),
        (KeyRequest::Use(new.0), vec![new, old]),
        (KeyRequest::Remove(old.0), vec![new]),
    ] {
        for agent in &agents {
            assert_eq!(agent.change_here(&request).expect("changed").keys, expected, "{request:?}");
        }
    }
}

#[test]
fn agents_that_have_one_file_and_change_it_at_once_lose_no_key_of_each_other() {
    for _ in 0..20 {
        let directory = tempfile::tempdir().expect("a directory");
        let config = in_file(directory.path(), &format!("{}\n", key(1).to_base64().as_str()));
        let path = config.key_file.clone().expect("a file");
        let agents: Vec<_> = (2..6).map(|new| (keeper(config.clone()).expect("a key"), new)).collect();
        let changed = std::thread::scope(|scope| {
            let change = |(keeper, new): &(Keeper, u8)| keeper.change_here(&KeyRequest::add(&key(*new)));
            let changing: Vec<_> = agents.iter().map(|agent| scope.spawn(move || change(agent))).collect();
            changing.into_iter().map(|thread| thread.join().expect("no panic")).collect::<Vec<_>>()
        });
        let held = read(&path).expect("whole").ring.ids();
        for ((_, new), changed) in agents.iter().zip(&changed) {
            let not_read = KeysError::NotRead { path: path.clone() };
            assert!(changed.is_ok() || *changed == Err(not_read), "{changed:?}");
            assert_eq!(held.contains(&key(*new).id()), changed.is_ok(), "{held:?}");
        }
    }
}

#[test]
fn a_next_file_that_was_abandoned_is_in_nobodys_way() {
    let directory = tempfile::tempdir().expect("a directory");
    let config = in_file(directory.path(), &format!("{}\n", key(1).to_base64().as_str()));
    let path = config.key_file.clone().expect("a file");
    let keeper = keeper(config).expect("a key");
    fs::write(directory.path().join(".keys.next"), "half").expect("written");
    assert_eq!(keeper.change_here(&KeyRequest::add(&key(2))).expect("changed").keys.len(), 2);
    assert_eq!(read(&path).expect("whole").ring.ids().len(), 2);
}

#[cfg(unix)]
#[test]
fn a_link_to_a_key_file_stays_and_its_target_is_replaced() {
    let directory = tempfile::tempdir().expect("a directory");
    let secret = directory.path().join("secret");
    fs::create_dir(&secret).expect("made");
    let target = in_file(&secret, &format!("{}\n", key(1).to_base64().as_str())).key_file.expect("a file");
    let link = directory.path().join("keys");
    std::os::unix::fs::symlink(&target, &link).expect("linked");
    let keeper = keeper(SealConfig { key_file: Some(link.clone()), ..SealConfig::default() }).expect("a key");
    keeper.change_here(&KeyRequest::add(&key(2))).expect("changed");
    assert!(fs::symlink_metadata(&link).expect("there").is_symlink());
    assert_eq!(read(&target).expect("a file").ring.ids().len(), 2);
}

#[test]
fn seals_end_by_the_last_step_and_not_by_what_is_left_out() {
    let directory = tempfile::tempdir().expect("a directory");
    let file = in_file(directory.path(), &format!("{}\n", key(1).to_base64().as_str()));
    let mode = |mode| SealConfig { mode: Some(mode), ..file.clone() };
    let keeper = keeper(file.clone()).expect("a key");
    for off in [SealConfig::default(), mode(SealMode::Off)] {
        assert_eq!(keeper.reload(off), Err(KeysError::EndsSeals { mode: SealMode::Require }));
    }
    let none = SealConfig { mode: Some(SealMode::Require), ..SealConfig::default() };
    assert!(matches!(keeper.reload(none), Err(KeysError::Config(ConfigError::SealWithoutKeys { .. }))));
    assert_eq!(keeper.held().mode, SealMode::Require);
    keeper.reload(mode(SealMode::Prefer)).expect("a step");
    assert!(keeper.reload(mode(SealMode::Off)).is_err(), "those that prefer seals would not be heard");
    keeper.reload(mode(SealMode::Permit)).expect("a step");
    assert!(keeper.reload(SealConfig::default()).is_err(), "it must be said");
    keeper.reload(mode(SealMode::Off)).expect("the last step");
    assert_eq!(keeper.held(), HeldKeys { mode: SealMode::Off, keys: Vec::new() });
    keeper.reload(SealConfig::default()).expect("nothing was sealed, and no other machine reaches it");
}

#[test]
fn a_node_that_other_machines_reach_takes_no_configuration_without_keys_and_consent() {
    let consent = SealConfig { mode: Some(SealMode::Off), ..SealConfig::default() };
    let cluster = NodeId::new("mine").expect("a name");
    let reached = Reach { cluster, ..reach("10.0.0.1:7117") };
    let named = Keeper { reach: reached, ..keeper(consent.clone()).expect("it was said") };
    let exposed = ConfigError::NotSealed { key: "bind", found: "10.0.0.1:7117".to_owned() };
    assert_eq!(named.reload(SealConfig::default()), Err(KeysError::Config(exposed)));
    assert!(named.sealing.policy().is_consented(), "all is as it was");
    named.reload(consent.clone()).expect("it is said again");
    let unnamed = Keeper { reach: reach("10.0.0.1:7117"), ..keeper(consent.clone()).expect("it was said") };
    assert!(matches!(unnamed.reload(consent), Err(KeysError::Config(ConfigError::ClearWithoutName { .. }))));
}

#[tokio::test(start_paused = true)]
async fn a_key_file_that_was_changed_is_read_again_when_a_key_is_missing_and_at_most_once_in_a_while() {
    let directory = tempfile::tempdir().expect("a directory");
    let line = |number| format!("{}\n", key(number).to_base64().as_str());
    let config = in_file(directory.path(), &line(1));
    let path = config.key_file.clone().expect("a file");
    let keeper = Arc::new(keeper(config).expect("a key"));
    let journal = Journal::start(&NodeId::new("me").expect("a name")).expect("a thread");
    let following = tokio::spawn(Arc::clone(&keeper).follow(journal));
    let from = std::net::SocketAddr::from(([10, 0, 0, 9], 7117));
    let held = || keeper.held().keys;
    let pass = async |seconds| sleep(Duration::from_secs(seconds)).await;
    fs::write(&path, line(1) + &line(2)).expect("written");
    pass(60).await;
    assert_eq!(held(), [key(1).id()], "nobody missed it");
    keeper.sealing.refuse(from, SealError::UnknownKey(key(2).id()));
    pass(1).await;
    assert_eq!(held(), [key(1).id(), key(2).id()]);
    fs::write(&path, line(1) + &line(3)).expect("written");
    pass(10).await;
    keeper.sealing.refuse(from, SealError::UnknownKey(key(4).id()));
    pass(1).await;
    assert_eq!(held(), [key(1).id(), key(2).id()], "a stranger's key is in no file");
    keeper.sealing.refuse(from, SealError::UnknownKey(key(3).id()));
    pass(8).await;
    assert_eq!(held(), [key(1).id(), key(2).id()], "it was looked at a moment ago");
    pass(2).await;
    assert_eq!(held(), [key(1).id(), key(3).id()]);
    fs::write(&path, "").expect("written");
    keeper.sealing.refuse(from, SealError::UnknownKey(key(4).id()));
    pass(20).await;
    assert_eq!(held(), [key(1).id(), key(3).id()], "no key file");
    following.abort();
}

#[test]
fn a_change_that_cannot_be_kept_or_that_would_travel_in_the_clear_is_not_made() {
    let inline = SealConfig { keys: vec![key(1)], ..SealConfig::default() };
    let inline = keeper(inline).expect("a key");
    assert_eq!(inline.change_here(&KeyRequest::add(&key(2))), Err(KeysError::NotKept));
    let directory = tempfile::tempdir().expect("a directory");
    let text = format!("{}\n", key(1).to_base64().as_str());
    let config = SealConfig { mode: Some(SealMode::Prefer), ..in_file(directory.path(), &text) };
    let clear = keeper(config.clone()).expect("a key");
    assert_eq!(clear.change_here(&KeyRequest::add(&key(2))), Err(KeysError::NotSealed { mode: SealMode::Prefer }));
    let keeper = keeper(in_file(directory.path(), &text)).expect("a key");
    fs::remove_file(config.key_file.expect("a file")).expect("removed");
    assert!(matches!(keeper.change_here(&KeyRequest::add(&key(2))), Err(KeysError::File { .. })));
    assert_eq!(keeper.held().keys, [key(1).id()], "and the ring stays");
}

#[test]
fn keys_are_changed_from_one_node_at_a_time() {
    let directory = tempfile::tempdir().expect("a directory");
    let config = in_file(directory.path(), &format!("{}\n", key(1).to_base64().as_str()));
    let keeper = keeper(config).expect("a key");
    let [a, b] = ["a", "b"].map(|name| NodeId::new(name).expect("a name"));
    let new = key(2).id();
    let ask = |request: &KeyRequest, by: &NodeId| keeper.answer(request, by, None);
    let held = ask(&KeyRequest::Turn(true), &a).expect("nobody else has it");
    assert_eq!(held.keys, [key(1).id()], "it is the answer to the question, too");
    ask(&KeyRequest::add(&key(2)), &b).expect("it locks nobody out");
    for request in [KeyRequest::Turn(true), KeyRequest::Use(new.0), KeyRequest::Remove(new.0)] {
        assert_eq!(ask(&request, &b), Err(KeysError::Busy { by: a.clone() }), "{request:?}");
    }
    assert_eq!(ask(&KeyRequest::List, &b).expect("listed").keys, [key(1).id(), new]);
    ask(&KeyRequest::Use(new.0), &a).expect("its turn");
    ask(&KeyRequest::Turn(false), &b).expect("not its turn");
    assert!(ask(&KeyRequest::Turn(true), &b).is_err());
    ask(&KeyRequest::Turn(false), &a).expect("it gives it back");
    ask(&KeyRequest::Remove(key(1).id().0), &b).expect("free");
}

#[test]
fn a_reload_that_fails_changes_nothing() {
    let directory = tempfile::tempdir().expect("a directory");
    let config = in_file(directory.path(), &format!("{}\n", key(1).to_base64().as_str()));
    let keeper = keeper(config.clone()).expect("a key");
    in_file(directory.path(), "no key\n");
    assert!(keeper.reload(config).is_err());
    assert_eq!(keeper.held().keys, [key(1).id()]);
}

#[test]
fn after_a_reload_changes_are_kept_in_the_file_that_it_names() {
    let [before, after] = [0, 1].map(|_| tempfile::tempdir().expect("a directory"));
    let text = format!("{}\n", key(1).to_base64().as_str());
    let [former, newer] = [&before, &after].map(|directory| in_file(directory.path(), &text));
    let keeper = keeper(former.clone()).expect("a key");
    keeper.reload(newer.clone()).expect("read");
    keeper.change_here(&KeyRequest::add(&key(2))).expect("changed");
    let held = |config: SealConfig| read(&config.key_file.expect("a file")).expect("keys").ring.ids().len();
    assert_eq!((held(former), held(newer.clone())), (1, 2), "a restart reads the newer one");
    assert_eq!(Keeper::load(&newer).expect("keys").ring().map(KeyRing::ids), Some(keeper.held().keys));
}

#[test]
fn whoever_takes_the_turn_is_told_what_is_held_after_the_changes_that_are_under_way() {
    let directory = tempfile::tempdir().expect("a directory");
    let config = in_file(directory.path(), &format!("{}\n", key(1).to_base64().as_str()));
    let keeper = keeper(config).expect("a key");
    let [a, b] = ["a", "b"].map(|name| NodeId::new(name).expect("a name"));
    keeper.answer(&KeyRequest::add(&key(2)), &a, None).expect("added");
    let disk = keeper.hold_disk();
    let (told, tell) = std::sync::mpsc::channel();
    std::thread::scope(|scope| {
        let (keeper, b) = (&keeper, &b);
        scope.spawn(move || told.send(keeper.answer(&KeyRequest::Turn(true), b, None)).expect("awaited"));
        let early = tell.recv_timeout(Duration::from_millis(100));
        assert!(early.is_err(), "what it is told may be over a moment later: {early:?}");
        drop(disk);
        assert_eq!(tell.recv().expect("told").map(|held| held.keys.len()), Ok(2));
    });
}

#[test]
fn nothing_is_changed_for_one_that_waits_no_more() {
    let directory = tempfile::tempdir().expect("a directory");
    let config = in_file(directory.path(), &format!("{}\n", key(1).to_base64().as_str()));
    let (keeper, a) = (keeper(config).expect("a key"), NodeId::new("a").expect("a name"));
    let now = Instant::now();
    for request in [KeyRequest::add(&key(2)), KeyRequest::Use(key(1).id().0), KeyRequest::Turn(true)] {
        assert_eq!(keeper.answer(&request, &a, Some(now)), Err(KeysError::TooLate), "{request:?}");
    }
    assert!(!keeper.is_turn_of_another(&NodeId::new("b").expect("a name")));
    keeper.answer(&KeyRequest::add(&key(2)), &a, Some(now + Duration::from_secs(60))).expect("it waits");
}
