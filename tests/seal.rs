//! Sealed clusters of real processes: members with the key hear each other, everybody else hears nothing.
#![cfg(all(feature = "agent", unix))]

mod support;

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream, UdpSocket};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use nix::sys::signal::Signal;
use serde_json::Value;
use support::{Agent, wait_for};
use tempfile::TempDir;

/// Key files of a test, in a directory of their own.
struct Files(TempDir);

impl Files {
    fn new() -> Self {
        Self(tempfile::tempdir().expect("a directory"))
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    /// Has the command line make a key, in a file of this name.
    fn generate(&self, name: &str) -> PathBuf {
        let path = self.path(name);
        let made = std::process::Command::new(support::HEADCOUNT).args(["keys", "generate"]).arg(&path).output();
        assert!(made.expect("it runs").status.success());
        path
    }

    /// Copies a key file, as an operator does.
    fn copy(&self, from: &Path, name: &str) -> PathBuf {
        let to = self.path(name);
        std::fs::copy(from, &to).expect("copied");
        to
    }
}

/// Starts an agent with these keys; beside them there is a token, without which nobody changes them.
fn start(name: &str, seeds: &[&str], keys: &Path, more: &[&str]) -> Agent {
    let token = keys.with_extension("token");
    std::fs::write(&token, "0123456789abcdef0123456789abcdef\n").expect("written");
    std::fs::set_permissions(&token, std::fs::Permissions::from_mode(0o600)).expect("changed");
    let keys = keys.to_str().expect("a text");
    let arguments = [&["--key-file", keys], more].concat();
    Agent::start_asking(name, seeds, Some(&token), &arguments)
}

/// A cluster of three, each with a key file of its own that holds one key.
fn three(files: &Files) -> [Agent; 3] {
    let key = files.generate("cluster.key");
    let file = |name: &str| files.copy(&key, name);
    let a = start("a", &[], &file("a"), &[]);
    let b = start("b", &[&a.gossip], &file("b"), &[]);
    let c = start("c", &[&a.gossip], &file("c"), &[]);
    for agent in [&a, &b, &c] {
        agent.wait_for_up(&["a", "b", "c"]);
    }
    [a, b, c]
}

fn address(agent: &Agent) -> SocketAddr {
    agent.gossip.parse().expect("an address")
}

fn dropped(agent: &Agent, reason: &str) -> f64 {
    agent.metric(&format!("headcount_dropped_total{{reason=\"{reason}\"}}"))
}

fn logged(agent: &Agent, text: &str) {
    wait_for(&format!("{text:?} in the log of {}:\n{}", agent.name, agent.log()), || {
        agent.log().contains(text).then_some(())
    });
}

/// The keys as an agent lists them, by id: where each seals, and who holds it.
fn keys(agent: &Agent) -> Vec<(String, Vec<String>, Vec<String>)> {
    let (status, text) = agent.client(&["keys", "list", "--format", "json"]);
    assert!(status.success(), "{text}\n{}", agent.log());
    let keys: Value = serde_json::from_str(&text).expect("json");
    let names = |names: &Value| -> Vec<String> {
        names.as_array().expect("a list").iter().map(|name| name.as_str().expect("a name").to_owned()).collect()
    };
    let key =
        |key: &Value| (key["id"].as_str().expect("an id").to_owned(), names(&key["sealing"]), names(&key["held_by"]));
    keys["keys"].as_array().expect("a list").iter().map(key).collect()
}

/// The only key that all of these hold and seal with.
fn only_key(agent: &Agent, names: &[&str]) -> String {
    let keys = keys(agent);
    let [(id, sealing, held_by)] = keys.as_slice() else { panic!("one key: {keys:?}") };
    assert!(sealing == names && held_by == names, "{keys:?}");
    id.clone()
}

/// The key beside this one.
fn other_key(agent: &Agent, old: &str) -> String {
    keys(agent).into_iter().map(|(id, ..)| id).find(|id| id != old).expect("another key")
}

#[test]
fn who_has_no_key_or_another_one_is_not_answered_and_both_sides_learn_why() {
    let files = Files::new();
    let [a, _b, _c] = three(&files);
    let other = files.generate("other.key");
    let stranger = start("stranger", &[&a.gossip], &other, &[]);
    let clear = Agent::start("clear", &[&a.gossip], &[]);
    for outsider in [&stranger, &clear] {
        logged(outsider, "check address, firewall, key");
        assert_eq!(outsider.members(), [(outsider.name.clone(), "joining".to_owned())]);
    }
    logged(&a, "that is not sealed, which this node requires");
    logged(&a, "which this node lacks");
    assert!(dropped(&a, "unsealed") > 0.0 && dropped(&a, "sealed_unknown_key") > 0.0);
    assert!(dropped(&stranger, "sealed_unknown_key") < 1.0, "nobody answered it");
    assert!(dropped(&clear, "sealed_unknown_key") < 1.0, "nobody answered it");
    a.wait_for_up(&["a", "b", "c"]);
}

#[test]
fn nothing_that_is_not_sealed_is_answered_by_datagram_or_over_tcp() {
    let files = Files::new();
    let [a, ..] = three(&files);
    let socket = UdpSocket::bind("127.0.0.1:0").expect("a port");
    socket.set_read_timeout(Some(Duration::from_millis(500))).expect("set");
    // An unknown version, a packet of nobody, a datagram that claims to be sealed, and noise.
    let mut question = b"HC\x01\0".to_vec();
    question.extend([0; 252]);
    for bytes in
        [&b"HC\x09\0aaaabbbbbbbb\x01cccccccc"[..], &question, &[b"HC\x01\x01", &[7; 96][..]].concat(), &[0; 300]]
    {
        socket.send_to(bytes, address(&a)).expect("sent");
    }
    assert!(socket.recv(&mut [0; 2_048]).is_err(), "no datagram is answered");
    let mut stream = TcpStream::connect(address(&a)).expect("listening");
    stream.set_read_timeout(Some(Duration::from_secs(3))).expect("set");
    stream.write_all(b"\0\0\0\x19HC\x01\0aaaabbbbbbbb\x01ccccccccd").expect("sent");
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).expect("closed at once, and not when its time is over");
    assert_eq!(answer, b"");
    wait_for("the count of both", || (dropped(&a, "unsealed") >= 4.0).then_some(()));
}

#[test]
fn recorded_packets_do_nothing_when_they_are_played_again_from_elsewhere() {
    let files = Files::new();
    let key = files.generate("cluster.key");
    let a = start("a", &[], &key, &[]);
    // A seed that only records what newcomers send.
    let recorder = UdpSocket::bind("127.0.0.1:0").expect("a port");
    let at = recorder.local_addr().expect("bound").to_string();
    let _b = start("b", &[&at, &a.gossip], &key, &[]);
    let (mut packets, mut buffer) = (Vec::new(), [0; 2_048]);
    while packets.is_empty() {
        let length = recorder.recv(&mut buffer).expect("a newcomer asks all its seeds");
        packets.push(buffer[..length].to_vec());
    }
    a.wait_for_up(&["a", "b"]);
    let elsewhere = UdpSocket::bind("127.0.0.1:0").expect("a port");
    elsewhere.set_read_timeout(Some(Duration::from_millis(300))).expect("set");
    let play = |times: usize| {
        for _ in 0..times {
            for packet in &packets {
                elsewhere.send_to(packet, address(&a)).expect("sent");
            }
        }
        std::iter::from_fn(|| elsewhere.recv(&mut [0; 2_048]).ok()).collect::<Vec<usize>>()
    };
    // These never reached the agent: each may be answered once, with no more bytes, and leads nowhere.
    let first = play(1);
    assert!(first.len() <= packets.len(), "{first:?}");
    let (longest, all) = (packets.iter().map(Vec::len).max(), packets.iter().map(Vec::len).sum::<usize>());
    assert!(first.iter().max().copied() <= longest && first.iter().sum::<usize>() <= all, "{first:?} bytes for {all}");
    let before = dropped(&a, "sealed_replayed");
    assert_eq!(play(5), [0; 0], "what was seen is not answered");
    wait_for("all of them are counted", || {
        let counted = dropped(&a, "sealed_replayed") - before;
        (counted >= 5.0 * packets.len() as f64).then_some(())
    });
    a.wait_for_up(&["a", "b"]);
}

#[test]
fn keys_are_rotated_under_a_live_cluster_and_no_heartbeat_is_lost() {
    let files = Files::new();
    let [a, b, c] = three(&files);
    let watches = [a.watch(), b.watch(), c.watch()];
    let old = only_key(&a, &["a", "b", "c"]);
    let (status, text) = b.client(&["keys", "add"]);
    assert!(status.success(), "{text}\n{}", b.log());
    let new = other_key(&c, &old);
    let (status, text) = c.client(&["keys", "use", &new]);
    assert!(status.success(), "{text}\n{}", c.log());
    let (status, text) = a.client(&["keys", "remove", &old]);
    assert!(status.success(), "{text}\n{}", a.log());
    for more in [&["deadbeef"][..], &["deadbeef", "--force"], &[&old]] {
        let (status, _) = b.client(&[&["keys", "remove"], more].concat());
        assert_eq!(status.code(), Some(1), "nobody holds {more:?}");
    }
    let refused = b.delete("/v1/keys/deadbeef");
    assert!(refused.starts_with("HTTP/1.1 404 ") && refused.contains("nothing was removed"), "{refused}");
    for agent in [&a, &b, &c] {
        assert_eq!(only_key(agent, &["a", "b", "c"]), new);
        agent.wait_for_up(&["a", "b", "c"]);
        assert!(dropped(agent, "sealed_unknown_key") < 1.0, "{}", agent.log());
    }
    for watch in &watches {
        let kinds: Vec<_> = watch.events().iter().map(|event| event["event"].clone()).collect();
        assert!(!kinds.iter().any(|kind| kind == "node_suspected" || kind == "node_detected_down"), "{kinds:?}");
    }
    for name in ["a", "b", "c"] {
        let path = files.path(name);
        let mode = std::fs::metadata(&path).expect("there").permissions().mode();
        assert_eq!(mode & 0o777, 0o600, "{name}");
    }
    // A restart finds the new key, and only that.
    let mut b = b;
    b.signal(Signal::SIGTERM);
    assert!(b.wait().success());
    let b = start("b", &[&a.gossip], &files.path("b"), &[]);
    b.wait_for_up(&["a", "b", "c"]);
}

#[test]
fn nobody_is_locked_out_unless_forced_and_who_was_away_is_told_what_it_lacks() {
    let files = Files::new();
    let [a, b, mut c] = three(&files);
    let old = only_key(&a, &["a", "b", "c"]);
    c.signal(Signal::SIGKILL);
    c.wait();
    wait_for("c is down", || a.members().contains(&("c".to_owned(), "down".to_owned())).then_some(()));
    let (status, _) = a.client(&["keys", "add"]);
    assert!(!status.success(), "c does not have it");
    let new = other_key(&b, &old);
    let (status, _) = a.client(&["keys", "use", &new]);
    assert!(!status.success(), "c would be locked out");
    assert_eq!(keys(&b).iter().find(|key| key.0 == old).map(|key| key.1.len()), Some(2), "and nobody seals with it");
    let (status, _) = a.client(&["keys", "use", &new, "--force"]);
    assert!(!status.success(), "it says who was not asked");
    let (status, _) = a.client(&["keys", "remove", &old]);
    assert!(!status.success(), "c still seals with it");
    a.client(&["keys", "remove", &old, "--force"]);
    assert_eq!(only_key(&a, &["a", "b"]), new);
    let c = start("c", &[&a.gossip], &files.path("c"), &["--bind", &c.gossip]);
    logged(&c, "check address, firewall, key");
    // It is told by whoever looks for it: members go on asking at the addresses of those that are down.
    logged(&c, &format!("sealed with key {new}, which this node lacks"));
    std::fs::copy(files.path("a"), files.path("c")).expect("copied");
    c.signal(Signal::SIGHUP);
    c.wait_for_up(&["a", "b", "c"]);
}

/// Starts three agents, of which c has left; returns the others, and the key that all hold.
fn two_that_c_left(files: &Files) -> ([Agent; 2], String) {
    let [a, b, mut c] = three(files);
    let old = only_key(&a, &["a", "b", "c"]);
    c.signal(Signal::SIGTERM);
    assert!(c.wait().success());
    wait_for("c has left", || (a.members().len() == 2 && b.members().len() == 2).then_some(()));
    ([a, b], old)
}

#[test]
fn who_left_a_moment_ago_may_come_back_and_is_not_locked_out() {
    let files = Files::new();
    let ([a, b], old) = two_that_c_left(&files);
    let (status, text) = a.client(&["keys", "add"]);
    assert!(!status.success() && text.contains("c left less than 10 minutes ago"), "{text}\n{}", a.log());
    let new = other_key(&a, &old);
    let refused = b.post(&format!("/v1/keys/{new}/use"), &serde_json::json!({}));
    assert!(refused.starts_with("HTTP/1.1 409") && refused.contains("c left less than 10 minutes ago"), "{refused}");
    // It comes back with the key that it had, and is heard.
    let c = start("c", &[&a.gossip], &files.path("c"), &[]);
    for agent in [&a, &b, &c] {
        agent.wait_for_up(&["a", "b", "c"]);
    }
    let refused = b.post(&format!("/v1/keys/{new}/use"), &serde_json::json!({}));
    assert!(refused.starts_with("HTTP/1.1 409") && refused.contains("c lacks it"), "{refused}");
    // The same key again, by its id.
    let (status, text) = a.client(&["keys", "add", &new]);
    assert!(status.success(), "{text}");
    assert_eq!(keys(&b).iter().find(|key| key.0 == new).map(|key| key.2.len()), Some(3), "all hold it");
    let (status, _) = a.client(&["keys", "add", "00000000"]);
    assert!(!status.success(), "there is no such key");
}

#[test]
fn who_left_and_was_removed_is_not_waited_for() {
    let files = Files::new();
    let ([a, b], old) = two_that_c_left(&files);
    a.client(&["keys", "add"]);
    let new = other_key(&a, &old);
    let (status, _) = a.client(&["keys", "use", &new]);
    assert!(!status.success(), "it is waited for");
    let (status, text) = a.client(&["remove", "c"]);
    assert!(status.success(), "{text}");
    let (status, text) = a.client(&["keys", "use", &new]);
    assert!(status.success(), "{text}");
    // Nor does another node object, which has heard of the removal.
    let (status, text) = b.client(&["keys", "remove", &old]);
    assert!(status.success(), "{text}");
    assert_eq!(only_key(&a, &["a", "b"]), new);
}

#[test]
fn no_key_is_removed_that_a_member_seals_with() {
    let files = Files::new();
    let agents = three(&files);
    let [a, b, _c] = &agents;
    let old = only_key(a, &["a", "b", "c"]);
    let lines = [files.path("a"), files.generate("new.key")].map(|path| std::fs::read_to_string(path).expect("a key"));
    for agent in &agents {
        let [first, second] = if agent.name == "c" { [0, 1] } else { [1, 0] };
        std::fs::write(files.path(&agent.name), lines[first].clone() + &lines[second]).expect("written");
        agent.signal(Signal::SIGHUP);
    }
    let seals_at_c = |(id, sealing, _): &(String, Vec<String>, Vec<String>)| *id == old && sealing == &["c"];
    wait_for("c alone seals with the old key", || keys(b).iter().any(seals_at_c).then_some(()));
    let (status, _) = a.client(&["keys", "remove", &old]);
    assert!(!status.success(), "c would not be heard any more");
    assert!(keys(b).iter().all(|(_, _, held_by)| held_by.len() == 3), "{:?}", keys(b));
}

#[test]
fn two_operators_at_once_lock_nobody_out() {
    let files = Files::new();
    let [a, b, c] = three(&files);
    let old = only_key(&a, &["a", "b", "c"]);
    let (status, text) = a.client(&["keys", "add"]);
    assert!(status.success(), "{text}\n{}", a.log());
    let new = other_key(&a, &old);
    for _ in 0..3 {
        // One goes on, the other one goes back.
        std::thread::scope(|scope| {
            scope.spawn(|| a.client(&["keys", "use", &new]));
            scope.spawn(|| b.client(&["keys", "remove", &new]));
            scope.spawn(|| c.client(&["keys", "use", &old]));
        });
        let held = keys(&b);
        let sealing = held.iter().filter(|(_, sealing, _)| !sealing.is_empty());
        for (id, sealing, held_by) in sealing {
            assert_eq!(held_by.len(), 3, "{id} seals at {sealing:?}, and is held by {held_by:?}");
        }
    }
    for agent in [&a, &b, &c] {
        agent.wait_for_up(&["a", "b", "c"]);
        assert!(dropped(agent, "sealed_unknown_key") < 1.0, "{}", agent.log());
    }
}

#[test]
fn a_key_that_became_known_is_replaced_without_sending_the_new_one() {
    let files = Files::new();
    let agents = three(&files);
    let [a, b, c] = &agents;
    let old = only_key(a, &["a", "b", "c"]);
    let new = std::fs::read_to_string(files.generate("new.key")).expect("a key");
    for agent in &agents {
        let path = files.path(&agent.name);
        let text = std::fs::read_to_string(&path).expect("a key file");
        std::fs::write(&path, text + &new).expect("appended");
        agent.signal(Signal::SIGHUP);
    }
    wait_for("all hold both", || keys(b).iter().all(|key| key.2.len() == 3).then(|| keys(b).len() == 2)?.then_some(()));
    let new = other_key(c, &old);
    for (agent, change) in [(a, ["keys", "use", &new]), (b, ["keys", "remove", &old])] {
        let (status, text) = agent.client(&change);
        assert!(status.success(), "{text}\n{}", agent.log());
    }
    for agent in &agents {
        assert_eq!(only_key(agent, &["a", "b", "c"]), new);
        agent.wait_for_up(&["a", "b", "c"]);
    }
}

#[test]
fn a_clear_cluster_is_sealed_step_by_step_and_unsealed_again() {
    let files = Files::new();
    let key = files.generate("cluster.key");
    let key = key.to_str().expect("a text");
    let config = |name: &str, mode: &str| {
        let text = format!("[seal]\nmode = \"{mode}\"\nkey_file = \"{key}\"\n");
        std::fs::write(files.path(&format!("{name}.toml")), text).expect("written");
    };
    let names = ["a", "b", "c"];
    for name in names {
        config(name, "off");
    }
    let start = |name: &str, seeds: &[&str]| {
        let file = files.path(&format!("{name}.toml"));
        Agent::start(name, seeds, &["--config", file.to_str().expect("a text")])
    };
    let a = start("a", &[]);
    let b = start("b", &[&a.gossip]);
    let c = start("c", &[&a.gossip]);
    let agents = [&a, &b, &c];
    let watches = agents.map(Agent::watch);
    for agent in agents {
        agent.wait_for_up(&names);
    }
    for step in ["permit", "prefer", "require", "prefer", "permit", "off"] {
        for agent in agents {
            config(&agent.name, step);
            let before = agent.log().matches(&format!("-> {step} [")).count();
            agent.signal(Signal::SIGHUP);
            wait_for(&format!("{} takes the step to {step}\n{}", agent.name, agent.log()), || {
                (agent.log().matches(&format!("-> {step} [")).count() > before).then_some(())
            });
        }
        // Long enough for a suspicion in this profile.
        std::thread::sleep(Duration::from_millis(1_500));
        for agent in agents {
            agent.wait_for_up(&names);
        }
        // Members that are one step apart understand all that they say to each other.
        for agent in agents {
            assert!(dropped(agent, "sealed_unknown_key") < 1.0, "at the step to {step}: {}", agent.log());
        }
        if step == "require" {
            let socket = UdpSocket::bind("127.0.0.1:0").expect("a port");
            let before = dropped(&a, "unsealed");
            socket.send_to(&[0; 64], address(&a)).expect("sent");
            wait_for("clear packets are refused", || (dropped(&a, "unsealed") > before).then_some(()));
        }
    }
    for agent in agents {
        logged(agent, "clear packets are taken again (seal.mode = prefer)");
    }
    for watch in &watches {
        let kinds: Vec<_> = watch.events().iter().map(|event| event["event"].clone()).collect();
        assert!(!kinds.iter().any(|kind| kind == "node_detected_down"), "{kinds:?}");
    }
}

#[test]
fn keys_do_not_travel_where_packets_are_clear_and_programs_do_not_speak_of_them() {
    let files = Files::new();
    let key = files.generate("cluster.key");
    let key = key.to_str().expect("a text");
    let config = files.path("c.toml");
    std::fs::write(&config, format!("[seal]\nmode = \"prefer\"\nkey_file = \"{key}\"\n")).expect("written");
    let token = files.path("token");
    std::fs::write(&token, "0123456789abcdef0123456789abcdef\n").expect("written");
    let a = Agent::start_asking("a", &[], Some(&token), &["--config", config.to_str().expect("a text")]);
    a.wait_for_up(&["a"]);
    let answer = a.post("/v1/keys", &serde_json::json!({"key": std::fs::read_to_string(key).expect("a key").trim()}));
    assert!(answer.starts_with("HTTP/1.1 409") && answer.contains("seal.mode = require"), "{answer}");
    let (status, text) = a.client(&["broadcast", "_headcount.keys", "x"]);
    assert!(!status.success(), "{text}");
    let (status, text) = a.client(&["listen", "_headcount.keys"]);
    assert!(!status.success(), "{text}");
}

#[test]
fn no_key_is_ever_shown() {
    let files = Files::new();
    let [a, b, _c] = three(&files);
    let secret = std::fs::read_to_string(files.path("a")).expect("a key");
    let secret = secret.trim();
    let (_, listed) = a.client(&["keys", "list"]);
    let (_, added) = a.client(&["keys", "add"]);
    let new = std::fs::read_to_string(files.path("b")).expect("two keys");
    let new = new.lines().nth(1).expect("the new one").to_owned();
    let shown = a.client_alone(&["config", "show", "--key-file", files.path("a").to_str().expect("a text")]).1;
    let texts = [listed, added, shown, a.log(), b.log(), a.get("/v1/keys"), a.get("/metrics"), a.get("/v1/info")];
    for text in &texts {
        assert!(!text.contains(secret) && !text.contains(&new), "{text}");
    }
}

#[test]
fn a_sealed_cluster_is_well_in_the_eyes_of_doctor() {
    let files = Files::new();
    let [a, b, _c] = three(&files);
    let (status, said) = a.client(&["doctor"]);
    assert!(status.success(), "{said}");
    assert!(
        said.contains("take TCP connections from here; UDP was not tried")
            && said.contains("require: the same at all 3"),
        "{said}"
    );
    assert!(dropped(&b, "unsealed") < 1.0, "nothing clear was sent:\n{}", b.log());
    let file = files.path("doctor.toml");
    let asked = |cluster: &str, key: &str| {
        let text = format!("cluster = {cluster:?}\nseeds = [{:?}]\nseal.key_file = {:?}\n", a.gossip, files.path(key));
        std::fs::write(&file, text).expect("written");
        a.client_alone(&["doctor", "--config", file.to_str().expect("a path")])
    };
    let (status, said) = asked("headcount", "a");
    assert!(status.success() && said.contains("all 1 answer from here, by UDP and TCP"), "{said}");
    std::fs::write(files.path("other"), "ICEiIyQlJicoKSorLC0uLzAxMjM0NTY3ODk6Ozw9Pj8=\n").expect("written");
    for (cluster, key) in [("headcount", "other"), ("blue", "a")] {
        let (status, said) = asked(cluster, key);
        assert_eq!(status.code(), Some(1), "{said}");
        assert!(said.contains("does not answer a question by UDP that is sealed with key"), "{said}");
    }
}

#[test]
fn what_a_member_said_to_whoever_is_at_an_address_is_no_word_of_it_when_it_is_played() {
    let files = Files::new();
    let [a, mut b, mut c] = three(&files);
    c.signal(Signal::SIGKILL);
    c.wait();
    // Members go on asking at the addresses of those that are down; somebody else is there now.
    let recorder = UdpSocket::bind(address(&c)).expect("free again");
    recorder.set_read_timeout(Some(support::PATIENCE)).expect("set");
    let (mut packets, mut buffer) = (Vec::new(), [0; 2_048]);
    while packets.len() < 4 {
        let (length, from) = recorder.recv_from(&mut buffer).expect("they go on asking");
        // Sealed, and bound to nobody.
        if from == address(&b) && buffer[3] == 1 {
            packets.push(buffer[..length].to_vec());
        }
    }
    b.signal(Signal::SIGKILL);
    b.wait();
    let is_down = || a.members().contains(&("b".to_owned(), "down".to_owned()));
    wait_for("b is down", || is_down().then_some(()));
    let before = dropped(&a, "claimed");
    // From its own address: nobody else can tell the two apart.
    let at_home = UdpSocket::bind(address(&b)).expect("free again");
    for packet in &packets {
        at_home.send_to(packet, address(&a)).expect("sent");
    }
    wait_for("it is taken for a claim", || (dropped(&a, "claimed") > before).then_some(()));
    assert!(is_down(), "{}", a.log());
}

#[test]
fn programs_do_not_hear_what_agents_say_about_keys() {
    let files = Files::new();
    let [a, b, _c] = three(&files);
    let mut stream = TcpStream::connect(&b.http).expect("listening");
    stream.set_read_timeout(Some(support::PATIENCE)).expect("set");
    let token = "authorization: Bearer 0123456789abcdef0123456789abcdef";
    let request = format!("GET /v1/events?kind=message HTTP/1.1\r\nhost: {}\r\n{token}\r\n\r\n", b.http);
    stream.write_all(request.as_bytes()).expect("sent");
    let mut heard = String::new();
    let mut hear = |word: &str| {
        let mut buffer = [0; 4_096];
        while !heard.contains(word) {
            let length = stream.read(&mut buffer).expect("something comes");
            assert!(length > 0, "it ended: {heard}");
            heard.push_str(&String::from_utf8_lossy(&buffer[..length]));
        }
        heard.clone()
    };
    hear("\r\n\r\n");
    let (status, text) = a.client(&["keys", "add"]);
    assert!(status.success(), "{text}\n{}", a.log());
    let answer = a.post("/v1/send/b/afterwards", &Value::Null);
    assert!(answer.starts_with("HTTP/1.1 200 "), "{answer}");
    let heard = hear("afterwards");
    assert!(!heard.contains("_headcount"), "the new key among them: {heard}");
}

#[test]
fn a_node_that_others_reach_says_at_its_start_that_it_takes_clear_packets_and_a_sealed_one_has_nothing_to_say() {
    let files = Files::new();
    let key = files.generate("cluster.key");
    let key = key.to_str().expect("a text");
    let started = |name: &str, bind: &str, mode: &str| {
        let config = files.path(&format!("{name}.toml"));
        std::fs::write(&config, format!("[seal]\nmode = \"{mode}\"\nkey_file = \"{key}\"\n")).expect("written");
        let agent = Agent::start(name, &[], &["--bind", bind, "--config", config.to_str().expect("a text")]);
        agent.wait_for_up(&[name]);
        agent
    };
    for mode in ["off", "permit", "prefer"] {
        let agent = started(mode, "0.0.0.0:0", mode);
        logged(&agent, &format!("which others can reach, and clear packets are taken (seal.mode = {mode})"));
        logged(&agent, "make a key (`headcount keys generate`) and give it to all nodes (--key-file)");
    }
    for (name, bind, mode) in [("sealed", "0.0.0.0:0", "require"), ("alone", "127.0.0.1:0", "off")] {
        let agent = started(name, bind, mode);
        assert!(!agent.log().contains("clear packets are taken"), "{name}: {}", agent.log());
    }
}

#[test]
fn keys_are_rotated_on_ten_agents_that_talk_while_one_is_down_and_nobody_else_is_missed() {
    let files = Files::new();
    let key = files.generate("cluster.key");
    let names = ["a", "b", "c", "d", "e", "f", "g", "h", "i", "j"];
    // Patient enough for ten processes on a machine that does other work.
    let profile = ["--profile", "lan"];
    let a = start("a", &[], &files.copy(&key, "a"), &profile);
    let mut agents: Vec<Agent> =
        names[1..].iter().map(|name| start(name, &[&a.gossip], &files.copy(&key, name), &profile)).collect();
    agents.insert(0, a);
    for agent in &agents {
        agent.wait_for_up(&names);
    }
    let old = only_key(&agents[0], &names);
    let mut away = agents.pop().expect("ten");
    away.signal(Signal::SIGKILL);
    away.wait();
    for agent in &agents {
        wait_for("it is down", || agent.members().contains(&("j".to_owned(), "down".to_owned())).then_some(()));
    }
    let watches: Vec<_> = agents.iter().map(Agent::watch).collect();
    let is_over = std::sync::atomic::AtomicBool::new(false);
    let new = std::thread::scope(|scope| {
        let talk = scope.spawn(|| {
            let mut said = 0;
            while !is_over.load(std::sync::atomic::Ordering::Relaxed) {
                let answer =
                    agents[said % agents.len()].post("/v1/broadcast/load", &serde_json::json!("x".repeat(500)));
                assert!(answer.starts_with("HTTP/1.1 202 "), "{answer}");
                said += 1;
            }
            said
        });
        let change = |at: usize, arguments: &[&str]| {
            let (status, text) = agents[at].client(&[&["keys"], arguments].concat());
            assert_eq!(status.code(), Some(1), "j was not asked: {arguments:?}\n{text}\n{}", agents[at].log());
        };
        change(3, &["add"]);
        let new = other_key(&agents[4], &old);
        for step in ["use", "remove"] {
            let id = if step == "use" { &new } else { &old };
            change(5, &[step, id]);
            change(6, &[step, id, "--force"]);
        }
        is_over.store(true, std::sync::atomic::Ordering::Relaxed);
        assert!(talk.join().expect("it talked") > 20);
        new
    });
    for agent in &agents {
        assert_eq!(only_key(agent, &names[..9]), new);
        assert!(dropped(agent, "sealed_unknown_key") < 1.0, "{}", agent.log());
    }
    for watch in &watches {
        let missed: Vec<_> = watch
            .events()
            .into_iter()
            .filter(|event| event["event"] == "node_suspected" || event["event"] == "node_detected_down")
            .collect();
        assert!(missed.is_empty(), "{missed:?}");
    }
    let seed = agents[0].gossip.clone();
    let back =
        start("j", &[&seed], &files.copy(&files.path("a"), "j"), &[&["--bind", &away.gossip][..], &profile].concat());
    back.wait_for_up(&names);
}
