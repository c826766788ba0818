//! Who leads: killed, stopped, drained, resigned and confirmed, and what everybody is told of it.

use std::time::Duration;

use nix::sys::signal::Signal;
use serde_json::{Value, json};

use super::cluster::{Cluster, FIVE, VOTERS, body, figure, json_of, leader, start, voters_of, wait_for_event};
use crate::support::{Agent, wait_for};

#[test]
fn a_node_that_drains_stays_and_leads_nothing_until_it_is_undrained() {
    let data = tempfile::tempdir().expect("a directory");
    let a = start(data.path(), "a", &[], "a,b,c", &[]);
    let seed = a.gossip.clone();
    let more = ["b", "c"].map(|name| start(data.path(), name, &[&seed], "a,b,c", &[]));
    let mut cluster = Cluster { agents: [a].into_iter().chain(more).collect(), data };
    let old = cluster.wait_for_leader(0);
    let watch = cluster.other_than(&old).watch();
    let drained = json_of(&cluster.agents[old.at], &["drain"]);
    assert_eq!(drained, json!({ "node": old.name, "draining": true, "may_lead": 2 }));
    let new = cluster.wait_for_leader(old.term);
    assert_ne!(new.name, old.name);
    let is_told = |agent: &Agent, draining: bool| {
        let members = json_of(agent, &["members"]);
        let member = members.as_array().into_iter().flatten().find(|member| member["id"] == old.name.as_str());
        member.is_some_and(|member| {
            member["draining"] == draining && member["status"] == "up" && member["tags"] == json!({})
        })
    };
    for agent in &cluster.agents {
        wait_for("everybody knows", || is_told(agent, true).then_some(()));
    }
    let table = cluster.other_than(&old).client(&["members"]).1;
    assert!(table.contains("up (draining)"), "{table}");
    let event = wait_for_event(&watch, "node_updated", &old.name);
    assert_eq!((&event["previous"]["draining"], &event["member"]["draining"]), (&json!(false), &json!(true)));
    // Leadership is not handed to it either.
    let (status, _) = cluster.agents[new.at].client(&["leader", "resign", "--to", &old.name]);
    assert!(!status.success());

    // All drain: nobody leads, and that is said by everybody who comes to know it.
    let last = &cluster.agents[2];
    for agent in &cluster.agents {
        assert!(agent.client(&["drain"]).0.success());
        wait_for("the last one knows", || {
            let members = json_of(last, &["members"]);
            let mut members = members.as_array().into_iter().flatten();
            members.any(|member| member["id"] == agent.name.as_str() && member["draining"] == true).then_some(())
        });
    }
    wait_for("nobody leads", || cluster.agents.iter().all(|agent| leader(agent)["leader"].is_null()).then_some(()));
    for agent in &cluster.agents {
        wait_for("everybody says so", || agent.log().contains("no voter is left that may lead").then_some(()));
        assert_eq!(agent.log().matches("no voter is left that may lead").count(), 1, "once: {}", agent.log());
    }
    let undrained = json_of(last, &["undrain"]);
    assert_eq!(undrained, json!({ "node": last.name, "draining": false, "may_lead": 1 }));
    let next = cluster.wait_for_leader(new.term);
    assert_eq!(next.name, last.name);

    // A restart is the end of draining.
    let name = cluster.agents[0].name.clone();
    drop(cluster.agents.remove(0));
    let seeds: Vec<String> = cluster.agents.iter().map(|agent| agent.gossip.clone()).collect();
    let seeds: Vec<&str> = seeds.iter().map(String::as_str).collect();
    let again = start(cluster.data.path(), &name, &seeds, "a,b,c", &[]);
    again.wait_for_up(&["a", "b", "c"]);
    let members = json_of(&again, &["members"]);
    assert_eq!(members[0]["draining"], false, "{members}");
}

#[test]
fn of_voters_that_drain_at_one_moment_the_last_one_says_that_nobody_is_left_to_lead() {
    let data = tempfile::tempdir().expect("a directory");
    let a = start(data.path(), "a", &[], "a,b,c", &[]);
    let seed = a.gossip.clone();
    let more = ["b", "c"].map(|name| start(data.path(), name, &[&seed], "a,b,c", &[]));
    let cluster = Cluster { agents: [a].into_iter().chain(more).collect(), data };
    cluster.wait_for_leader(0);
    for _ in 0..3 {
        let left: Vec<u64> = std::thread::scope(|scope| {
            let drains =
                |agent| scope.spawn(move || json_of(agent, &["drain"])["may_lead"].as_u64().expect("a number"));
            let drains: Vec<_> = cluster.agents.iter().map(drains).collect();
            drains.into_iter().map(|drain| drain.join().expect("answered")).collect()
        });
        assert!(left.contains(&0), "{left:?}");
        for agent in &cluster.agents {
            json_of(agent, &["undrain"]);
        }
        wait_for("all know", || {
            let members = json_of(&cluster.agents[0], &["members"]);
            members.as_array()?.iter().all(|member| member["draining"] == false).then_some(())
        });
    }
}

#[test]
fn a_killed_leader_is_succeeded_in_a_higher_term_and_all_learn_it() {
    let (mut cluster, old) = Cluster::of_five();
    let watch = cluster.other_than(&old).watch();
    drop(cluster.agents.remove(old.at));
    let new = cluster.wait_for_leader(old.term);
    assert_ne!(new.name, old.name);
    let lost = wait_for_event(&watch, "leader_lost", &old.name);
    assert_eq!(lost["term"], old.term);
    assert!(["expired", "superseded"].contains(&lost["reason"].as_str().expect("a text")), "{lost}");
    let elected = wait_for_event(&watch, "leader_elected", &new.name);
    assert!(elected["term"].as_u64().expect("a number") > old.term);
    assert_eq!(elected["member"]["id"], *new.name);
    // The figures of each agent show the leader, too.
    let leads: Vec<u64> = cluster.agents.iter().map(|agent| figure(agent, "headcount_leader")).collect();
    assert_eq!(leads.iter().sum::<u64>(), 1, "{leads:?}");
    for agent in &cluster.agents {
        assert_eq!(figure(agent, "headcount_leadership_term"), new.term);
        assert_eq!((figure(agent, "headcount_quorum"), figure(agent, "headcount_voter_aside")), (1, 0));
        assert!(figure(agent, "headcount_leadership_changes_total") >= 1);
        assert!(figure(agent, "headcount_election_words_sent_total") >= 1);
    }
}

#[test]
fn a_leader_that_was_stopped_past_its_lease_does_not_claim_to_lead_in_its_first_answer() {
    let (cluster, old) = Cluster::of_five();
    let stopped = &cluster.agents[old.at];
    stopped.signal(Signal::SIGSTOP);
    wait_for("the others have another leader", || {
        let seen = leader(cluster.other_than(&old));
        (seen["state"] == "led" && seen["leader"] != *old.name).then_some(())
    });
    // The question is there before it runs again, so that nothing can come before the answer.
    let answer = std::thread::scope(|scope| {
        let asked = scope.spawn(|| stopped.get("/v1/leader"));
        std::thread::sleep(Duration::from_millis(200));
        stopped.signal(Signal::SIGCONT);
        asked.join().expect("asked")
    });
    let first = body(&answer);
    assert_eq!(first["is_me"], false, "{first}");
    assert_ne!(first["leader"], *old.name, "{first}");
    let new = cluster.wait_for_leader(old.term);
    assert_ne!(new.name, old.name, "it leads again only if it is elected again");
}

#[test]
fn a_member_that_stood_still_while_its_leader_died_does_not_show_it_any_more_nor_make_others_show_it() {
    let (mut cluster, old) = Cluster::of_five();
    let sleeper = cluster.other_than(&old).name.clone();
    let at = |cluster: &Cluster| cluster.agents.iter().position(|agent| agent.name == sleeper).expect("five");
    cluster.agents[at(&cluster)].signal(Signal::SIGSTOP);
    // What its leader says meanwhile waits in its socket.
    let said = || figure(&cluster.agents[old.at], "headcount_election_words_sent_total");
    let before = said();
    wait_for("the leader renews", || (said() > before + 20).then_some(()));
    drop(cluster.agents.remove(old.at));
    let others: Vec<usize> = (0..4).filter(|other| *other != at(&cluster)).collect();
    wait_for("the others have another leader", || {
        let has_another = |seen: Value| seen["state"] == "led" && seen["leader"] != *old.name;
        others.iter().all(|other| has_another(leader(&cluster.agents[*other]))).then_some(())
    });
    let stopped = &cluster.agents[at(&cluster)];
    let answer = std::thread::scope(|scope| {
        let asked = scope.spawn(|| stopped.get("/v1/leader"));
        std::thread::sleep(Duration::from_millis(200));
        stopped.signal(Signal::SIGCONT);
        asked.join().expect("asked")
    });
    assert_ne!(body(&answer)["leader"], *old.name, "{answer}");
    wait_for("it shows the new leader", || {
        let all: Vec<Value> = cluster.agents.iter().map(leader).collect();
        assert!(all.iter().all(|seen| seen["leader"] != *old.name), "{all:?}");
        all.iter().all(|seen| seen["state"] == "led").then_some(())
    });
    assert_ne!(cluster.wait_for_leader(old.term).name, old.name);
}

#[test]
fn a_leader_that_leaves_hands_over() {
    let (mut cluster, old) = Cluster::of_five();
    let watch = cluster.other_than(&old).watch();
    let mut leaver = cluster.agents.remove(old.at);
    leaver.signal(Signal::SIGTERM);
    assert_eq!(leaver.wait().code(), Some(0), "{}", leaver.log());
    let new = cluster.wait_for_leader(old.term);
    assert_ne!(new.name, old.name);
    let lost = wait_for_event(&watch, "leader_lost", &old.name);
    assert!(["resigned", "superseded"].contains(&lost["reason"].as_str().expect("a text")), "{lost}");
}

#[test]
fn after_all_were_killed_a_leader_has_a_higher_term_than_any_before() {
    let (cluster, old) = Cluster::of_five();
    let Cluster { agents, data } = cluster;
    let places: Vec<String> = agents.iter().map(|agent| agent.gossip.clone()).collect();
    for agent in &agents {
        agent.signal(Signal::SIGKILL);
    }
    drop(agents);
    let again = |(name, place): (&&str, &String)| start(data.path(), name, &[&places[0]], VOTERS, &["--bind", place]);
    let agents = FIVE.iter().zip(&places).map(again).collect();
    let cluster = Cluster { agents, data };
    cluster.wait_for_leader(old.term);
}

#[test]
fn where_nobody_is_elected_everything_says_so() {
    let a = Agent::start("a", &[], &[]);
    let nobody = json!({
        "leader": null, "term": 0, "is_me": false, "mode": "none", "state": "disabled", "lease_remaining_ms": null,
        "contends": null
    });
    assert_eq!(body(&a.get("/v1/leader")), nobody);
    assert_eq!(body(&a.get("/v1/view")), json!({"term": null, "number": null, "members": null}));
    assert_eq!(body(&a.get("/v1/voters"))["voters"], json!([]));
    a.wait_for_up(&["a"]);
    let refused = a.post("/v1/voters", &json!({"id": "b"}));
    assert!(refused.starts_with("HTTP/1.1 409 ") && refused.contains("leadership.mode"), "{refused}");
    assert!(!a.get("/metrics").contains("headcount_leader "), "nothing to alert on");
}

#[test]
fn a_leader_resigns_at_any_node_and_the_voter_that_was_named_leads() {
    let (cluster, old) = Cluster::of_five();
    let asked = cluster.other_than(&old);
    let to = FIVE.iter().rev().find(|name| **name != old.name && **name != asked.name).expect("five");
    let refused = asked.post("/v1/leader/resign", &json!({"to": "x"}));
    assert!(refused.starts_with("HTTP/1.1 409 ") && refused.contains("does not vote"), "{refused}");
    let refused = asked.post("/v1/leader/resign", &json!({"to": "a b"}));
    assert!(refused.starts_with("HTTP/1.1 422 "), "{refused}");
    let now = json_of(asked, &["leader", "resign", "--to", to]);
    assert_eq!(now["leader"], **to, "{now}");
    let new = cluster.wait_for_leader(old.term);
    assert_eq!(new.name, **to);
    cluster.agents[new.at].wait_for_up(&FIVE);
    let (again, _) = asked.client(&["leader", "resign", "--to", to]);
    assert_eq!(again.code(), Some(1), "it leads already");
}

/// Gives a command that may have reached a leader which ends, so that the outcome may not be known: it is never refused for
/// want of a leader. Gives it again until this holds.
#[track_caller]
fn is_carried_out(what: &str, give: impl Fn() -> String, holds: impl Fn() -> bool) {
    let first = give();
    let is_unknown = first.contains("problem:electorate") && first.contains("look at the list of voters");
    assert!(first.starts_with("HTTP/1.1 200 ") || is_unknown || first.contains("half done"), "{what}: {first}");
    wait_for(what, || {
        if !holds() {
            give();
        }
        holds().then_some(())
    });
}

#[test]
fn commands_right_after_the_leaders_end_are_carried_out_by_the_next_one_whoever_is_asked() {
    let (mut cluster, first) = Cluster::of_five();
    let seeds: Vec<String> = cluster.agents.iter().map(|agent| agent.gossip.clone()).collect();
    let seeds: Vec<&str> = seeds.iter().map(String::as_str).collect();
    for name in ["f", "g"] {
        cluster.agents.push(start(cluster.data.path(), name, &seeds, VOTERS, &[]));
    }
    let old = cluster.wait_for_leader(first.term - 1);

    // It leaves, and a member that does not vote is asked.
    let mut gone = cluster.agents.remove(old.at);
    gone.signal(Signal::SIGTERM);
    let asked = &cluster.agents[4];
    let votes = |name: &str| voters_of(asked).iter().any(|voter| voter == name);
    is_carried_out("f votes", || asked.post("/v1/voters", &json!({"id": "f"})), || votes("f"));
    gone.wait();
    let old = cluster.wait_for_leader(old.term);

    // It resigns, and another one is asked to have it go to a third one: nobody is asked for more than one resignation.
    let to = cluster.agents.iter().map(|agent| agent.name.clone()).find(|name| name != &old.name && name != "g");
    let (to, asked) = (to.expect("a voter"), &cluster.agents[5]);
    assert!(cluster.agents[old.at].post("/v1/leader/resign", &json!({})).starts_with("HTTP/1.1 200 "));
    wait_for("it leads who was named", || {
        asked.post("/v1/leader/resign", &json!({"to": to}));
        (leader(asked)["leader"] == to.as_str()).then_some(())
    });
    let old = cluster.wait_for_leader(old.term);
    assert_eq!(old.name, to);

    // It dies, and nobody knows yet.
    let dead = cluster.agents.remove(old.at);
    dead.signal(Signal::SIGKILL);
    let asked = cluster.agents.iter().find(|agent| agent.name == "g").expect("it runs");
    let replace = || asked.post("/v1/voters", &json!({"id": "g", "replaces": old.name}));
    let votes = |name: &str| voters_of(asked).iter().any(|voter| voter == name);
    is_carried_out("g votes instead", replace, || votes("g") && !votes(&old.name));
    let old = cluster.wait_for_leader(old.term);

    // It is voted out by the word of another, which is asked to take that back at once.
    let asked = cluster.other_than(&old);
    let votes = || voters_of(asked).contains(&old.name);
    is_carried_out("it is voted out", || asked.delete(&format!("/v1/voters/{}", old.name)), || !votes());
    is_carried_out("it votes again", || asked.post("/v1/voters", &json!({"id": old.name})), votes);
    cluster.wait_for_leader(old.term);
}

#[test]
fn leadership_is_confirmed_by_a_majority_at_the_leader_alone() {
    let (cluster, leader) = Cluster::of_five();
    let (at, other) = (&cluster.agents[leader.at], cluster.other_than(&leader));
    let confirmed = json_of(at, &["leader", "--confirm"]);
    let (term, name) = (&confirmed["term"], &confirmed["leader"]);
    assert_eq!(
        (name.as_str(), term.as_u64(), &confirmed["is_me"]),
        (Some(&*leader.name), Some(leader.term), &json!(true))
    );
    assert!(confirmed["lease_remaining_ms"].as_u64().is_some_and(|left| left > 0), "{confirmed}");
    let refused = other.get_patiently("/v1/leader?confirm=true");
    assert!(refused.starts_with("HTTP/1.1 409 "), "{refused}");
    assert_eq!(body(&refused)["leader"]["id"], *leader.name);
    assert_eq!(other.client(&["leader", "--confirm"]).0.code(), Some(1));
    // The claim stands for a while when nobody answers any more; the proof is refused at once all the same.
    for agent in cluster.agents.iter().filter(|agent| agent.name != leader.name) {
        agent.signal(Signal::SIGSTOP);
    }
    let (unproven, _) = at.client(&["leader", "--confirm"]);
    assert_eq!(unproven.code(), Some(1), "{}", at.log());
}

#[test]
fn a_node_that_is_set_to_know_of_no_leader_says_so_when_there_is_one() {
    let data = tempfile::tempdir().expect("a directory");
    let voter = start(data.path(), "a", &[], "a", &[]);
    let other = Agent::start("b", &[&voter.gossip], &[]);
    let told = |agent: &Agent| agent.log().lines().filter(|line| line.contains("is set to know of none")).count();
    wait_for("it says so", || (told(&other) > 0).then_some(()));
    let line = other.log().lines().find(|line| line.contains("is set to know of none")).map(str::to_owned);
    let line = line.expect("it was there");
    assert!(line.contains("INFO") && line.contains("and b ") && line.contains("\"quorum\""), "{line}");
    // Gossip tells of the leader again and again, the log does not.
    let renewals = |agent: &Agent| agent.metric("headcount_packets_received_total");
    let before = renewals(&other);
    wait_for("more gossip", || (renewals(&other) > before + 40.0).then_some(()));
    assert_eq!((told(&other), told(&voter)), (1, 0));
}
