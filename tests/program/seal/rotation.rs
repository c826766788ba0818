//! Keys are changed while members are away, come back, or are told otherwise at the same time, and nobody is locked out.
//! The plain way is among the recipes.

use nix::sys::signal::Signal;

use super::cluster::{Files, dropped, keys, logged, only_key, other_key, start, three};
use crate::support::{Agent, own_address, wait_for};

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
    logged(&c, "does not open what this node sends: it has other keys than this node");
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
    wait_for("c alone seals with the old key, and all hold both", || {
        let held = keys(b);
        (held.iter().any(seals_at_c) && held.iter().all(|key| key.2.len() == 3)).then_some(())
    });
    let (status, _) = a.client(&["keys", "remove", &old]);
    assert!(!status.success(), "c would not be heard any more");
    // Another one than was asked before: listings are kept for a moment.
    let held = keys(a);
    assert!(held.len() == 2 && held.iter().all(|(_, _, held_by)| held_by.len() == 3), "{held:?}");
}

#[test]
fn two_operators_at_once_lock_nobody_out() {
    let files = Files::new();
    let [a, b, c] = three(&files);
    let old = only_key(&a, &["a", "b", "c"]);
    let (status, text) = a.client(&["keys", "add"]);
    assert!(status.success(), "{text}\n{}", a.log());
    logged(&a, "keys were changed by a (");
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
fn keys_are_rotated_on_ten_agents_that_talk_while_one_is_down_and_nobody_else_is_missed() {
    let files = Files::new();
    let key = files.generate("cluster.key");
    let names = ["a", "b", "c", "d", "e", "f", "g", "h", "i", "j"];
    // Patient enough for ten processes on a machine that does other work.
    let bind = own_address();
    let profile = ["--profile", "lan", "--bind", &bind];
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
    let back = start("j", &[&seed], &files.copy(&files.path("a"), "j"), &["--profile", "lan", "--bind", &away.gossip]);
    back.wait_for_up(&names);
}
