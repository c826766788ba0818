//! Leaders elected by real processes: killed, stopped, sent away, cut down to a minority, and restarted.

mod support;

use std::path::Path;
use std::time::Duration;

use nix::sys::signal::Signal;
use serde_json::{Value, json};
use support::{Agent, Watch, wait_for};
use tempfile::TempDir;

const FIVE: [&str; 5] = ["a", "b", "c", "d", "e"];
const VOTERS: &str = "a,b,c,d,e";

/// Agents with data directories.
struct Cluster {
    agents: Vec<Agent>,
    data: TempDir,
}

/// Starts one that keeps its state below `data`.
fn start(data: &Path, name: &str, seeds: &[&str], voters: &str, more: &[&str]) -> Agent {
    let directory = data.join(name);
    let directory = directory.to_str().expect("text");
    Agent::start(name, seeds, &[&["--data-dir", directory, "--voters", voters], more].concat())
}

impl Cluster {
    /// Starts five voters, and waits until one of them leads.
    fn of_five() -> (Self, Leader) {
        let data = tempfile::tempdir().expect("a directory");
        let first = start(data.path(), "a", &[], VOTERS, &[]);
        let seed = first.gossip.clone();
        let mut agents = vec![first];
        agents.extend(FIVE[1..].iter().map(|name| start(data.path(), name, &[&seed], VOTERS, &[])));
        let cluster = Self { agents, data };
        let leader = cluster.wait_for_leader(0);
        (cluster, leader)
    }

    /// Waits until all agents name the same leader, one of them, in a term above this one.
    fn wait_for_leader(&self, above: u64) -> Leader {
        wait_for("all agree on a leader", || {
            let seen: Vec<Value> = self.agents.iter().map(leader).collect();
            let (name, term) = (seen[0]["leader"].as_str()?, seen[0]["term"].as_u64()?);
            let at = self.agents.iter().position(|agent| agent.name == name)?;
            let is_so = |(other, seen): (usize, &Value)| {
                seen["leader"] == name && seen["term"] == term && seen["is_me"] == (other == at)
            };
            (term > above && seen.iter().enumerate().all(is_so)).then(|| Leader { at, name: name.to_owned(), term })
        })
    }

    fn other_than(&self, leader: &Leader) -> &Agent {
        self.agents.iter().find(|agent| agent.name != leader.name).expect("five")
    }
}

/// A leader: its place in the list of agents, its name, and its term.
#[derive(Debug)]
struct Leader {
    at: usize,
    name: String,
    term: u64,
}

/// Returns an agent's word about the leader.
fn leader(agent: &Agent) -> Value {
    json_of(agent, &["leader"])
}

/// Returns the JSON that a client command prints.
fn json_of(agent: &Agent, command: &[&str]) -> Value {
    let (status, text) = agent.client(&[command, &["--format", "json"]].concat());
    assert!(status.success(), "{command:?}: {text}\n{}", agent.log());
    serde_json::from_str(&text).expect("json")
}

/// Returns the body of an answer.
fn body(answer: &str) -> Value {
    let (_, body) = answer.split_once("\r\n\r\n").unwrap_or_else(|| panic!("no body: {answer}"));
    serde_json::from_str(body).unwrap_or_else(|error| panic!("{error}: {answer}"))
}

fn wait_for_event(watch: &Watch, kind: &str, node: &str) -> Value {
    wait_for(&format!("{kind} of {node}"), || {
        watch.events().into_iter().find(|event| event["event"] == kind && event["node"] == node)
    })
}

/// Returns a whole number among the metrics.
fn figure(agent: &Agent, name: &str) -> u64 {
    agent.metric(name) as u64
}

fn voters_of(agent: &Agent) -> Vec<String> {
    let voters = json_of(agent, &["voters", "list"]);
    let list = voters["voters"].as_array().expect("a list");
    list.iter().map(|voter| voter["id"].as_str().expect("a text").to_owned()).collect()
}

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
    let watched = cluster.other_than(&old).name.clone();
    // A watch begins with its connection.
    let tagged = cluster.agents.iter().find(|agent| agent.name == watched).expect("it");
    let mut round = 0;
    wait_for("the watch stands", || {
        round += 1;
        assert!(tagged.client(&["tags", &format!("round={round}")]).0.success());
        (!watch.about(&watched).is_empty()).then_some(())
    });
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
    if let Some(lost) = watch.events().into_iter().find(|event| event["event"] == "leader_lost") {
        assert!(["resigned", "superseded"].contains(&lost["reason"].as_str().expect("a text")), "{lost}");
    }
}

#[test]
fn a_minority_has_no_leader_says_so_and_is_recovered_by_its_operator_alone() {
    let (mut cluster, old) = Cluster::of_five();
    let refused = cluster.agents[0].post("/v1/recover", &json!({"voters": ["a", "b"]}));
    // A follower speaks of its own promise, a leader of its majority.
    let is_why = refused.contains("has promised a leader its lease") || refused.contains("a majority");
    assert!(refused.starts_with("HTTP/1.1 409 ") && is_why, "{refused}");
    cluster.agents.truncate(2);
    for agent in &cluster.agents {
        wait_for("nobody leads, and nobody can", || {
            let seen = leader(agent);
            (seen["state"] == "unavailable" && seen["leader"].is_null() && seen["is_me"] == false).then_some(())
        });
        let ready = agent.get("/readyz");
        assert!(ready.starts_with("HTTP/1.1 503 ") && ready.ends_with("unavailable"), "{ready}");
        assert!(agent.get("/healthz").starts_with("HTTP/1.1 200 "));
        assert_eq!(figure(agent, "headcount_quorum"), 0);
        assert!(agent.members().iter().any(|(name, _)| name == "a"), "everything else goes on");
    }
    let (asked, text) = cluster.agents[0].client(&["recover", "--voters", "b"]);
    assert_eq!(asked.code(), Some(2), "nobody is there to ask: {text}");
    let (done, text) = cluster.agents[0].client(&["recover", "--voters", "b", "--yes"]);
    assert!(done.success(), "{text}\n{}", cluster.agents[0].log());
    let new = cluster.wait_for_leader(old.term);
    assert!(new.term >= 1 << 40, "a new generation: {new:?}");
    for agent in &cluster.agents {
        // The new electorate is known with the first view that it agreed on.
        wait_for("the new voters", || (voters_of(agent) == ["a", "b"]).then_some(()));
        assert!(!agent.log().contains("another electorate"), "{}", agent.log());
        assert!(agent.get("/readyz").starts_with("HTTP/1.1 200 "));
    }
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
fn a_voter_without_a_data_directory_is_refused_with_the_reason() {
    let output = std::process::Command::new(support::HEADCOUNT)
        .args(["agent", "--name", "a", "--bind", "127.0.0.1:0", "--http", "off", "--voters", "a,b,c"])
        .output()
        .expect("runs");
    let told = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{told}");
    assert!(told.contains("two leaders") && told.contains("--data-dir"), "{told}");
}

#[test]
fn voters_are_added_and_removed_at_any_node() {
    let (mut cluster, leader) = Cluster::of_five();
    let seed = cluster.agents[0].gossip.clone();
    cluster.agents.push(start(cluster.data.path(), "f", &[&seed], VOTERS, &[]));
    let leader = cluster.wait_for_leader(leader.term - 1);
    let learner = &cluster.agents[5];
    assert_eq!(voters_of(learner), FIVE, "it votes nowhere and knows who does");
    // The leader is asked by who was asked, and says what it has to say.
    wait_for("it is added", || learner.client(&["voters", "add", "f"]).0.success().then_some(()));
    wait_for("all know it", || {
        cluster.agents.iter().all(|agent| voters_of(agent).contains(&"f".to_owned())).then_some(())
    });
    let (again, _) = learner.client(&["voters", "add", "f"]);
    assert_eq!(again.code(), Some(1), "it votes already");
    let refused = learner.post("/v1/voters", &json!({"id": "f"}));
    assert!(refused.starts_with("HTTP/1.1 409 ") && refused.contains("it votes already"), "{refused}");
    let refused = learner.get("/v1/lease/nodes");
    assert!(refused.starts_with("HTTP/1.1 409 ") && refused.contains("headcount voters list"), "{refused}");
    let (at, out) = (cluster.other_than(&leader), &cluster.other_than(&leader).name);
    wait_for("another is removed", || at.client(&["voters", "remove", out]).0.success().then_some(()));
    let by_leader = &cluster.agents[leader.at];
    wait_for("and comes back", || by_leader.client(&["voters", "add", out]).0.success().then_some(()));
    wait_for("and is removed again", || learner.client(&["voters", "remove", out]).0.success().then_some(()));
    wait_for("all know that", || {
        cluster.agents.iter().all(|agent| voters_of(agent).len() == 5 && !voters_of(agent).contains(out)).then_some(())
    });
    let view = json_of(learner, &["view"]);
    assert_eq!(view["members"], json!(["a", "b", "c", "d", "e", "f"]));
    assert!(view["number"].as_u64().expect("a number") >= 1 && view["term"].as_u64().is_some(), "{view}");
    let (_, said) = learner.client(&["remove", out, "--force"]);
    assert!(said.contains("is removed") && !said.contains("warning"), "{said}");
    let voter = cluster.agents.iter().map(|agent| &agent.name).find(|name| *name != &learner.name && *name != out);
    let (_, said) = learner.client(&["remove", voter.expect("a voter"), "--force"]);
    assert!(said.contains("is a voter") && said.contains("headcount voters replace"), "{said}");
}

#[test]
fn a_voter_is_replaced_by_one_command_at_any_node_and_the_leader_knows_how_all_stand() {
    let (mut cluster, leader) = Cluster::of_five();
    let seed = cluster.agents[0].gossip.clone();
    cluster.agents.push(start(cluster.data.path(), "f", &[&seed], VOTERS, &[]));
    let leader = cluster.wait_for_leader(leader.term - 1);
    let (learner, out) = (&cluster.agents[5], cluster.other_than(&leader).name.clone());
    wait_for("it is replaced", || learner.client(&["voters", "replace", &out, "f"]).0.success().then_some(()));
    let by_leader = &cluster.agents[leader.at];
    let listed = wait_for("all acknowledge", || {
        let listed = json_of(by_leader, &["voters", "list"]);
        (listed["acknowledging"] == json!(5)).then_some(listed)
    });
    assert_eq!(listed["failure_tolerance"], json!(2), "{listed}");
    for voter in listed["voters"].as_array().expect("a list") {
        let is_leader = voter["id"] == json!(by_leader.name);
        assert_eq!(voter["role"], json!(if is_leader { "leader" } else { "follower" }), "{listed}");
        assert_eq!((&voter["votes"], voter["id"] == json!(out)), (&json!(true), false), "{listed}");
        assert_eq!(voter["last_ack_ms"].is_null(), is_leader, "{listed}");
    }
    let metrics = by_leader.get("/metrics");
    assert!(
        metrics.contains("headcount_voters_acknowledging 5") && metrics.contains("_failure_tolerance 2"),
        "{metrics}"
    );
    let elsewhere = json_of(cluster.other_than(&leader), &["voters", "list"]);
    assert_eq!((&elsewhere["acknowledging"], &elsewhere["failure_tolerance"]), (&json!(null), &json!(null)));
    let refused = learner.post("/v1/voters", &json!({"id": out, "replaces": "nobody"}));
    assert!(refused.starts_with("HTTP/1.1 409 ") && refused.contains("is not a voter"), "{refused}");
}

#[test]
fn where_nobody_leads_nobody_is_asked_for_another_electorate() {
    let data = tempfile::tempdir().expect("a directory");
    let a = start(data.path(), "a", &[], "a,b,c", &[]);
    a.wait_for_up(&["a"]);
    let refused = a.post("/v1/voters", &json!({"id": "d"}));
    assert!(refused.starts_with("HTTP/1.1 409 "), "{refused}");
    let problem = body(&refused);
    assert_eq!(problem["type"], "urn:headcount:problem:not-leader");
    assert!(problem["detail"].as_str().expect("a detail").contains("nobody leads"), "{problem}");
}

#[test]
fn a_leader_whose_data_directory_is_taken_away_stands_aside_and_stores_nothing_where_it_was() {
    let (mut cluster, old) = Cluster::of_five();
    let seed = cluster.agents[0].gossip.clone();
    let taken = cluster.data.path().join(&old.name);
    std::fs::remove_dir_all(&taken).expect("removed");
    std::fs::create_dir(&taken).expect("made anew");
    // A member comes: the leader has a view to store.
    cluster.agents.push(start(cluster.data.path(), "f", &[&seed], VOTERS, &[]));
    let old_leader = &cluster.agents[old.at];
    wait_for("it stands aside", || (figure(old_leader, "headcount_voter_aside") == 1).then_some(()));
    wait_for("it says why", || old_leader.log().contains("was removed or replaced").then_some(()));
    let new = cluster.wait_for_leader(old.term);
    assert_ne!(new.name, old.name);
    assert_eq!(std::fs::read_dir(&taken).expect("readable").count(), 0, "that directory is somebody else's");
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

#[test]
fn once_most_voters_lost_their_data_everybody_says_so_with_what_to_do_and_that_is_what_helps() {
    let data = tempfile::tempdir().expect("a directory");
    let voters = "a,b,c";
    let a = start(data.path(), "a", &[], voters, &[]);
    let seed = a.gossip.clone();
    let more = ["b", "c", "d"].map(|name| start(data.path(), name, &[&seed], voters, &[]));
    let mut cluster = Cluster { agents: [a].into_iter().chain(more).collect(), data };
    let old = cluster.wait_for_leader(0);
    for name in ["b", "c"] {
        cluster.agents.retain(|agent| agent.name != name);
        std::fs::remove_dir_all(cluster.data.path().join(name)).expect("removed");
        cluster.agents.push(start(cluster.data.path(), name, &[&seed], voters, &[]));
    }
    for agent in &cluster.agents {
        let lost = |voter: &Value| (voter["id"] != "a") == (voter["lost_disk"] == json!(true));
        wait_for("it knows whose data is lost", || {
            let listed = json_of(agent, &["voters", "list"]);
            let voters = listed["voters"].as_array().filter(|voters| voters.len() == 3)?;
            voters.iter().all(lost).then_some(())
        });
        wait_for("nobody can lead", || (leader(agent)["state"] == "unavailable").then_some(()));
        assert!(agent.get("/readyz").starts_with("HTTP/1.1 503 "), "{}", agent.get("/readyz"));
        let told = agent.client(&["leader"]).1;
        assert!(told.contains("2 of 3 voters have lost their data directories, b, c"), "{told}");
        let (status, told) = agent.client(&["doctor"]);
        let advice = "`headcount recover --voters a,b,c` at a";
        assert!(status.code() == Some(1) && told.contains(advice) && !told.contains("voters remove"), "{told}");
    }
    let (status, said) = cluster.agents[0].client(&["recover", "--voters", "a,b,c", "--yes"]);
    assert!(status.success(), "{said}");
    cluster.wait_for_leader(old.term);
    for agent in &cluster.agents {
        wait_for("all vote again", || {
            let (_, told) = agent.client(&["doctor"]);
            (!told.contains("lost") && agent.get("/readyz").starts_with("HTTP/1.1 200 ")).then_some(())
        });
    }
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
    let refused = other.get("/v1/leader?confirm=true");
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
fn a_voter_that_was_replaced_and_comes_back_blank_leads_nothing_and_all_may_be_founded_anew() {
    let data = tempfile::tempdir().expect("a directory");
    let a = start(data.path(), "a", &[], "a", &[]);
    let seed = a.gossip.clone();
    let b = start(data.path(), "b", &[&seed], "a", &[]);
    let mut cluster = Cluster { agents: vec![a, b], data };
    cluster.wait_for_leader(0);
    // Two that come at once would each wait for a second one that knows who leads.
    cluster.agents.push(start(cluster.data.path(), "c", &[&seed], "a", &[]));
    cluster.wait_for_leader(0);
    wait_for("b votes", || cluster.agents[1].client(&["voters", "add", "b"]).0.success().then_some(()));
    wait_for("a does not", || cluster.agents[1].client(&["voters", "remove", "a"]).0.success().then_some(()));
    let old = cluster.wait_for_leader(1);
    assert_eq!(old.name, "b");
    let seed = cluster.agents[2].gossip.clone();
    drop(cluster.agents.remove(0));
    std::fs::remove_dir_all(cluster.data.path().join("a")).expect("removed");
    // By its configuration it is the only voter.
    cluster.agents.insert(0, start(cluster.data.path(), "a", &[&seed], "a", &[]));
    wait_for("it says what it is", || cluster.agents[0].log().contains("this cluster has an electorate").then_some(()));
    let same = cluster.wait_for_leader(old.term - 1);
    assert_eq!((same.name.as_str(), same.term), ("b", old.term));
    let refused = cluster.agents[0].post("/v1/recover", &json!({"voters": ["c"], "anew": true}));
    assert!(refused.starts_with("HTTP/1.1 409 ") && refused.contains("hears a leader"), "{refused}");
    // The only voter that there is loses its data, too.
    drop(cluster.agents.remove(1));
    std::fs::remove_dir_all(cluster.data.path().join("b")).expect("removed");
    let refused = cluster.agents[1].post("/v1/recover", &json!({"voters": ["a"]}));
    assert!(refused.starts_with("HTTP/1.1 409 ") && refused.contains("--anew"), "{refused}");
    wait_for("it is founded anew", || {
        cluster.agents[1].client(&["recover", "--anew", "--voters", "a", "--yes"]).0.success().then_some(())
    });
    let new = cluster.wait_for_leader(old.term);
    assert!(new.term >= 1 << 40, "{new:?}");
    for agent in &cluster.agents {
        wait_for("the new voters", || (voters_of(agent) == ["a", "c"]).then_some(()));
    }
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
