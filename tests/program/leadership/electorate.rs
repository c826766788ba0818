//! Who votes: added, removed, replaced, lost, recovered, and founded anew.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::cluster::{Cluster, FIVE, Leader, VOTERS, body, figure, json_of, leader, start, voters_of};
use crate::support::{Agent, HEADCOUNT, own_address, wait_for};

#[test]
fn a_minority_has_no_leader_says_so_and_is_recovered_by_its_operator_alone() {
    let (mut cluster, old) = Cluster::of_five();
    let refused = cluster.agents[0].post("/v1/recover", &json!({"voters": ["a", "b"]}));
    // A follower speaks of its own promise, a leader of its lease.
    let why = if old.name == "a" { "still leads, for" } else { "has promised a leader its lease" };
    assert!(refused.starts_with("HTTP/1.1 409 ") && refused.contains(why), "{refused}");
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
fn a_voter_without_a_data_directory_is_refused_with_the_reason() {
    let output = std::process::Command::new(HEADCOUNT)
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
    // The view that has the voters comes a moment after the leader's word.
    wait_for("it knows the voters", || learner.client(&["voters", "list"]).0.success().then_some(()));
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
    // It may be writing there.
    wait_for("its directory is gone", || std::fs::remove_dir_all(&taken).ok());
    std::fs::create_dir(&taken).expect("made anew");
    // A member comes: the leader has a view to store.
    cluster.agents.push(start(cluster.data.path(), "f", &[&seed], VOTERS, &[]));
    let old_leader = &cluster.agents[old.at];
    wait_for("it stands aside", || (figure(old_leader, "headcount_voter_aside") == 1).then_some(()));
    wait_for("it says why", || old_leader.log().contains("was removed or replaced").then_some(()));
    let new = cluster.wait_for_leader(old.term);
    assert_ne!(new.name, old.name);
    for agent in &cluster.agents {
        wait_for("all know whose disk refuses", || {
            let refuses = |voter: &&Value| voter["disk_refused"] == json!(true);
            let listed = json_of(agent, &["voters", "list"]);
            let found: Vec<_> = listed["voters"].as_array()?.iter().filter(refuses).map(|voter| &voter["id"]).collect();
            (found == [&json!(old.name)]).then_some(())
        });
    }
    assert_eq!(std::fs::read_dir(&taken).expect("readable").count(), 0, "that directory is somebody else's");
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
        assert!(told.contains("2 of 3 voters lost the data directory (b and c)"), "{told}");
        let (status, told) = agent.client(&["doctor"]);
        let advice = "`headcount recover --voters a,b,c` at a";
        assert!(status.code() == Some(1) && told.contains(advice) && !told.contains("voters remove"), "{told}");
        if agent.name != "a" {
            let refused = agent.post("/v1/recover", &json!({"voters": ["a", "b", "c"]}));
            assert!(refused.contains("\"voters that are left: a\""), "{refused}");
        }
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
    // Whether the voter that is gone lives behind a cut nobody can know: that takes a second word.
    wait_for("a second word is asked for", || {
        let refused = cluster.agents[1].post("/v1/recover", &json!({"voters": ["a"], "anew": true}));
        assert!(refused.starts_with("HTTP/1.1 409 "), "{refused}");
        refused.contains("not heard from here: b;").then_some(())
    });
    assert!(!cluster.agents[1].client(&["recover", "--anew", "--voters", "a", "--yes"]).0.success());
    wait_for("it is founded anew", || {
        let recover = ["recover", "--anew", "--voters", "a", "--end-unheard", "--yes"];
        cluster.agents[1].client(&recover).0.success().then_some(())
    });
    let new = cluster.wait_for_leader(old.term);
    assert!(new.term >= 1 << 40, "{new:?}");
    for agent in &cluster.agents {
        wait_for("the new voters", || (voters_of(agent) == ["a", "c"]).then_some(()));
    }
}

/// Starts three voters of these names, the first of which is everybody's seed.
fn three(names: [&str; 3]) -> Cluster {
    let (data, voters) = (tempfile::tempdir().expect("a directory"), names.join(","));
    let mut agents = vec![start(data.path(), names[0], &[], &voters, &[])];
    let seed = agents[0].gossip.clone();
    agents.extend(names[1..].iter().map(|name| start(data.path(), name, &[&seed], &voters, &[])));
    Cluster { agents, data }
}

#[test]
fn of_two_clusters_that_are_joined_the_electorate_that_was_founded_later_ends_by_itself_and_stays_ended() {
    let mut first = three(["a", "b", "c"]);
    first.wait_for_leader(0);
    let mut second = three(["d", "e", "f"]);
    let mut old = second.wait_for_leader(0);
    for _ in 0..3 {
        wait_for("its leader goes", || second.agents[old.at].client(&["leader", "resign"]).0.success().then_some(()));
        old = second.wait_for_leader(old.term);
    }
    let (joined, text) = second.agents[1].client(&["join", &first.agents[0].gossip]);
    assert!(joined.success(), "{text}");
    first.agents.append(&mut second.agents);
    let new = first.wait_for_leader(old.term);
    assert!(new.at < 3, "of those that were there first: {new:?}");
    for agent in &first.agents {
        wait_for("the voters that stay", || (voters_of(agent) == ["a", "b", "c"]).then_some(()));
        let has_ended = "the electorate in which this node voted has ended";
        if ["d", "e", "f"].contains(&agent.name.as_str()) {
            agent.wait_for_log(has_ended);
        } else {
            assert!(!agent.log().contains(has_ended), "{}", agent.log());
        }
        let expected = if agent.name == new.name { "HTTP/1.1 200 " } else { "HTTP/1.1 503 " };
        assert!(agent.get("/leaderz").starts_with(expected), "{}: {}", agent.name, agent.get("/leaderz"));
    }
    // It starts again, and knows nobody but those with whom it voted.
    let seed = first.agents[5].gossip.clone();
    drop(first.agents.remove(4));
    first.agents.push(start(second.data.path(), "e", &[&seed], "d,e,f", &[]));
    let same = first.wait_for_leader(new.term - 1);
    assert_eq!((same.name, same.term), (new.name, new.term));
    wait_for("it knows who votes", || (voters_of(&first.agents[5]) == ["a", "b", "c"]).then_some(()));
    let (added, text) = first.agents[5].client(&["voters", "add", "e"]);
    assert!(added.success(), "{text}");
}

/// Waits until every interface of every agent says the same of who leads.
fn wait_for_one_answer(cluster: &Cluster, leader: &Leader) {
    let is_of_electorates = |code: &&str| *code == "two_electorates";
    wait_for("all interfaces agree", || {
        let mut verdicts = BTreeSet::new();
        for agent in &cluster.agents {
            let expected = if agent.name == leader.name { "HTTP/1.1 200 " } else { "HTTP/1.1 503 " };
            agent.get("/leaderz").starts_with(expected).then_some(())?;
            let verdict = body(&agent.get("/v1/verdict"));
            let codes = verdict["reasons"].as_array()?.iter().filter_map(|reason| reason["code"].as_str());
            // That there were two is told for a minute more where one of them stands.
            verdicts.insert(codes.filter(|code| !is_of_electorates(code)).map(str::to_owned).collect::<Vec<_>>());
        }
        (verdicts.len() == 1 && verdicts.iter().flatten().all(|code| !code.contains("lead"))).then_some(())
    });
    let same = cluster.wait_for_leader(leader.term - 1);
    assert_eq!((&same.name, same.term), (&leader.name, leader.term));
}

/// Returns the voters of the electorate that has ended for this agent, as it tells programs, once it says so to people as well.
fn ended_voters(agent: &Agent) -> Option<Vec<String>> {
    let ended = json_of(agent, &["voters", "list"])["ended_electorate"].clone();
    let names: Vec<String> = ended["voters"].as_array()?.iter().filter_map(Value::as_str).map(str::to_owned).collect();
    let (_, told) = agent.client(&["voters", "list"]);
    let advice = format!("headcount recover --anew --voters {}", names.join(","));
    assert!(told.contains(&advice) && told.contains(ended["lineage"].as_str()?), "{told}");
    Some(names)
}

#[test]
fn two_sides_that_were_recovered_apart_have_one_leader_after_the_cut() {
    let mut cluster = three(["a", "b", "c"]);
    let seed = cluster.agents[0].gossip.clone();
    cluster.agents.push(start(cluster.data.path(), "d", &[&seed], "a,b,c", &[]));
    let old = cluster.wait_for_leader(0);
    // The cut: each side runs where the other does not look for it, and a, the third voter, is down.
    cluster.agents.clear();
    let side = |names: [&str; 2]| {
        let first = start(cluster.data.path(), names[0], &[], "a,b,c", &["--bind", &own_address()]);
        let second = start(cluster.data.path(), names[1], &[&first.gossip], "a,b,c", &[]);
        Cluster { agents: vec![first, second], data: tempfile::tempdir().expect("a directory") }
    };
    let mut sides = [side(["b", "d"]), side(["c", "e"])];
    let leaders = sides.each_ref().map(|side| {
        wait_for("it is recovered", || {
            let recover = ["recover", "--voters", &side.agents[1].name, "--yes"];
            side.agents[0].client(&recover).0.success().then_some(())
        });
        side.wait_for_leader(old.term)
    });
    let [first, second] = leaders.each_ref().map(|leader| leader.term);
    let (ends, stands) = if first < second { (0, 1) } else { (1, 0) };
    let ended = voters_of(&sides[ends].agents[0]);
    let (joined, text) = sides[0].agents[1].client(&["join", &sides[1].agents[0].gossip]);
    assert!(joined.success(), "{text}");
    let names = sides.each_ref().map(|side| side.agents.iter().map(|agent| agent.name.clone()).collect::<Vec<_>>());
    for side in &mut sides {
        cluster.agents.append(&mut side.agents);
    }
    let new = cluster.wait_for_leader(first.max(second) - 1);
    assert!(names[stands].contains(&new.name), "{new:?} of {names:?}");
    let seed = cluster.agents[0].gossip.clone();
    cluster.agents.push(start(cluster.data.path(), "a", &[&seed], "a,b,c", &[]));
    wait_for_one_answer(&cluster, &cluster.wait_for_leader(new.term - 1));
    for agent in cluster.agents.iter().filter(|agent| ended.contains(&agent.name)) {
        wait_for("it names what ended", || (ended_voters(agent).as_ref() == Some(&ended)).then_some(()));
    }
    let of_those = |agent: &&Agent| names[stands].contains(&agent.name);
    assert!(cluster.agents.iter().filter(of_those).all(|agent| ended_voters(agent).is_none()));
}
