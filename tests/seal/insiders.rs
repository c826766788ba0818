//! A member that lies about others: whatever it says, nobody honest is shown as anything but what it is.

use std::net::SocketAddr;
use std::path::Path;
use std::time::{Duration, Instant};

use headcount::core::election::Term;
use headcount::core::limits::FOUNDED_TOGETHER;
use headcount::core::wire::{LeaderClaim, Message, Nonce, Note, Update};
use headcount::core::{DetectionMethod, LeaveReason, NodeId, Record, Run, Status};
use nix::sys::signal::Signal;
use serde_json::Value;

use crate::attacker::Attacker;
use crate::cluster::{Files, address, start};
use crate::support::{Agent, memory_peak, wait_for};

/// The time for which an attacker lies.
const LIES_LAST: Duration = Duration::from_secs(6);
/// The pause between two rounds of lies.
const PAUSE: Duration = Duration::from_millis(100);
/// The members that it invents in each round.
const INVENTED: u64 = 60;

/// Starts three voters, and waits until they have a leader.
fn voters(files: &Files, key: &Path) -> [Agent; 3] {
    let names = ["a", "b", "c"];
    let voter = |name: &str, seeds: &[&str]| {
        let data = files.path(&format!("{name}.data"));
        let data = data.to_str().expect("a text");
        start(name, seeds, &files.copy(key, name), &["--data-dir", data, "--voters", "a,b,c"])
    };
    let a = voter("a", &[]);
    let b = voter("b", &[&a.gossip]);
    let c = voter("c", &[&a.gossip]);
    for agent in [&a, &b, &c] {
        agent.wait_for_up(&names);
    }
    // A node that joins in the first moments after the founding counts as a founder, and founders are believed.
    std::thread::sleep(FOUNDED_TOGETHER + Duration::from_secs(1));
    [a, b, c]
}

/// Returns the leader and the term that an agent shows.
fn leader(agent: &Agent) -> (Option<String>, u64) {
    let answer = agent.get("/v1/leader");
    let shown: Value = serde_json::from_str(answer.split_once("\r\n\r\n").expect("an answer").1).expect("json");
    (shown["leader"].as_str().map(str::to_owned), shown["term"].as_u64().expect("a number"))
}

/// Returns the status in which an agent holds a member.
fn status(agent: &Agent, name: &str) -> String {
    let found = agent.members().into_iter().find(|(id, _)| id == name);
    found.map_or_else(|| "none".to_owned(), |(_, status)| status)
}

fn update(record: &Record, status: Status, ahead: u64, method: DetectionMethod) -> Message {
    let record = Record { status, incarnation: record.incarnation + ahead, ..record.clone() };
    let is_dated = matches!(status, Status::Suspect | Status::Down | Status::Left(_));
    Message::Update(Update { note: is_dated.then_some(Note { age_ms: 5_000, method }), record })
}

/// Everything that a member could say to have others believe that this one is gone, or has said something else.
fn accusations(record: &Record) -> Vec<Message> {
    use DetectionMethod::{ConnectionLost, HeartbeatTimeout};
    let mut lies = vec![Message::Severed { run: record.run, age_ms: 1, is_sure: true }];
    for ahead in [0, 1, 1_000, 1 << 40] {
        for status in [
            Status::Suspect,
            Status::Leaving,
            Status::Down,
            Status::Left(LeaveReason::Graceful),
            Status::Left(LeaveReason::Forced),
        ] {
            lies.push(update(record, status, ahead, HeartbeatTimeout));
            lies.push(update(record, status, ahead, ConnectionLost));
        }
        lies.push(update(record, Status::Up, ahead, HeartbeatTimeout));
    }
    lies.push(update(record, Status::Down, Record::INCARNATION_LIMIT - 1 - record.incarnation, ConnectionLost));
    // Another process has its name, here or elsewhere.
    let run = Run(record.run.0 ^ 1);
    lies.push(update(&Record { run, ..record.clone() }, Status::Up, 1_000, HeartbeatTimeout));
    lies
}

/// Tells a member what others hold of it.
fn reminders(record: &Record) -> Vec<Message> {
    let held = |status, ahead: u64| Message::HeldStatus {
        run: record.run,
        incarnation: record.incarnation + ahead,
        status,
        age_ms: 5_000,
    };
    vec![held(Status::Down, 0), held(Status::Left(LeaveReason::Forced), 0), held(Status::Up, 1 << 40)]
}

fn invented(template: &Record, from: u64) -> Vec<Message> {
    let member = |nth: u64| {
        let host = [127, 77, (nth >> 8) as u8, nth as u8];
        let record = Record {
            id: NodeId::new(&format!("invented-{nth}")).expect("a name"),
            run: Run(0xbad_0000 + nth),
            address: SocketAddr::from((host, 9)),
            status: Status::Up,
            ..template.clone()
        };
        Message::Update(Update { note: None, record })
    };
    (from..from + INVENTED).map(member).collect()
}

fn usurpations(claim: &LeaderClaim, by: &str) -> Vec<Message> {
    let by = Some(NodeId::new(by).expect("a name"));
    let terms = [claim.term.0 + 1, claim.term.0 + 1_000, 1 << 39];
    let mut lies = Vec::new();
    for term in terms.map(Term) {
        for leader in [by.clone(), None] {
            lies.push(Message::LeaderClaim(Box::new(LeaderClaim { term, leader, ..claim.clone() })));
        }
    }
    lies
}

#[test]
fn no_lie_of_one_that_has_the_key_changes_what_anybody_honest_is_shown_as() {
    let (files, names) = (Files::new(), ["a", "b", "c"]);
    let key = files.generate("cluster.key");
    let agents = voters(&files, &key);
    let led = wait_for("all show one leader", || {
        let shown: Vec<_> = agents.iter().map(leader).collect();
        (shown[0].0.is_some() && shown.iter().all(|it| *it == shown[0])).then(|| shown[0].clone())
    });
    let evil = Attacker::join(&key, "evil", address(&agents[0]));
    for agent in &agents {
        wait_for(&format!("evil is a member: {}", agent.log()), || (status(agent, "evil") == "up").then_some(()));
    }
    let (records, claim) = (names.map(|name| evil.record(name)), evil.claim());
    let watches: Vec<_> = agents.iter().map(Agent::watch).collect();
    let idle = agents.each_ref().map(memory_peak);
    let (began, mut told) = (Instant::now(), 0);
    while began.elapsed() < LIES_LAST {
        for (agent, own) in agents.iter().zip(&records) {
            let others = records.iter().filter(|record| record.id != own.id);
            let mut lies: Vec<Message> = others.flat_map(accusations).collect();
            lies.extend(reminders(own));
            lies.extend(usurpations(&claim, "evil"));
            lies.extend(invented(own, told));
            evil.says(address(agent), &lies);
        }
        told += INVENTED;
        for agent in &agents {
            let shown = agent.members();
            for name in names {
                let is_up = shown.contains(&(name.to_owned(), "up".to_owned()));
                assert!(is_up, "{name} at {}: {shown:?}\n{}", agent.name, agent.log());
            }
        }
        std::thread::sleep(PAUSE);
    }
    for ((agent, watch), idle) in agents.iter().zip(&watches).zip(idle) {
        assert_eq!(leader(agent), led, "{}", agent.log());
        for name in names {
            let seen = watch.about(name);
            let changed = |kind: &String| {
                ["node_suspected", "node_detected_down", "node_leaving", "node_left", "node_joined"]
                    .contains(&kind.as_str())
            };
            assert!(!seen.iter().any(changed), "{name} at {}: {seen:?}\n{}", agent.name, agent.log());
        }
        memory_peak(agent).assert_bounded_since(idle);
    }
}

#[test]
fn a_member_that_died_is_down_though_one_that_has_the_key_says_that_it_lives() {
    let files = Files::new();
    let key = files.generate("cluster.key");
    let [a, b, mut c] = voters(&files, &key);
    let evil = Attacker::join(&key, "evil", address(&a));
    for agent in [&a, &b] {
        wait_for("evil is a member", || (status(agent, "evil") == "up").then_some(()));
    }
    let record = evil.record("c");
    c.signal(Signal::SIGKILL);
    c.wait();
    // As long as it goes on: it does not stop before both show what is true.
    let mut ahead = 0;
    wait_for(&format!("c is down\n{}\n{}", a.log(), b.log()), || {
        ahead += 1;
        let lies = [
            Message::HeardAt { run: record.run, age_ms: 0 },
            Message::Alive { run: record.run, sequence: 1 << 20 | ahead },
            update(&record, Status::Up, 0, DetectionMethod::HeartbeatTimeout),
            update(&record, Status::Up, ahead, DetectionMethod::HeartbeatTimeout),
            Message::Holds { nonce: Nonce(ahead), run: Some(record.run) },
        ];
        for agent in [&a, &b] {
            evil.says(address(agent), &lies);
        }
        [&a, &b].iter().all(|agent| status(agent, "c") == "down").then_some(())
    });
    for agent in [&a, &b] {
        for name in ["a", "b"] {
            assert_eq!(status(agent, name), "up");
        }
    }
}
