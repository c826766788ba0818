//! Faults of databases and leaders: stopped, paused, locked, deleted, named twice.

use std::time::Duration;

use nix::sys::signal::Signal;

use super::cluster::{Database, leader, status, wait_for_leader};
use crate::server::Server;
use crate::support::{Agent, wait_for};

/// More than a lease.
const PAST_THE_LEASE: Duration = Duration::from_millis(2_500);

/// Waits until nobody leads, by anybody's word; all agents live on.
fn wait_for_nobody(agents: &mut [Agent]) {
    wait_for("nobody leads", || {
        let seen: Vec<_> = agents.iter().map(leader).collect();
        let is_nobody = seen.iter().all(|seen| seen["leader"].is_null() && seen["is_me"] == false);
        is_nobody.then_some(())
    });
    for agent in agents {
        assert!(agent.is_running(), "{}", agent.log());
        assert_eq!((status(&agent.get("/healthz")), status(&agent.get("/readyz"))), (200, 200), "{}", agent.log());
        assert_eq!(status(&agent.get("/leaderz")), 503);
    }
}

#[test]
fn a_server_that_is_stopped_ends_all_leadership_and_begins_another_when_it_is_back() {
    let Some(mut server) = Server::start(&[]) else { return };
    let database = Database::on(&server.url(), "stopped");
    let mut agents = database.agents(3, "");
    let old = wait_for_leader(&agents, 0);
    server.stop();
    wait_for_nobody(&mut agents);
    wait_for("it says why", || (leader(&agents[0])["state"] == "unavailable").then_some(()));
    agents[old.at].wait_for_log("cannot be reached");
    server.run();
    let new = wait_for_leader(&agents, old.term);
    assert_eq!(new.term, old.term + 1);
    agents[0].wait_for_log("the database can be used again");
}

#[test]
fn a_server_that_stands_still_ends_all_leadership() {
    let Some(server) = Server::start(&[]) else { return };
    let database = Database::on(&server.url(), "still");
    let mut agents = database.agents(2, "");
    let old = wait_for_leader(&agents, 0);
    server.signal(Signal::SIGSTOP);
    wait_for_nobody(&mut agents);
    server.signal(Signal::SIGCONT);
    wait_for_leader(&agents, old.term);
}

#[test]
fn a_paused_leader_that_wakes_does_not_say_that_it_leads() {
    let database = Database::file();
    let mut agents = database.agents(3, "");
    let old = wait_for_leader(&agents, 0);
    agents[old.at].signal(Signal::SIGSTOP);
    let paused = agents.remove(old.at);
    let new = wait_for_leader(&agents, old.term);
    paused.signal(Signal::SIGCONT);
    // Its very first answer.
    let seen = leader(&paused);
    assert_eq!(seen["is_me"], false, "{seen}");
    assert_eq!(status(&paused.get("/leaderz")), 503);
    agents.push(paused);
    assert_eq!(wait_for_leader(&agents, old.term).term, new.term, "and it deposes nobody");
}

#[test]
fn two_agents_with_one_name_never_lead_at_once_and_say_so() {
    let database = Database::file();
    // They do not gossip with each other, so that nobody refuses the second.
    let agents = [database.agent("twin", &[]), database.agent("twin", &[])];
    let mut leaders = std::collections::BTreeSet::new();
    let told = || agents.iter().any(|agent| agent.log().contains("another agent with this node's name"));
    wait_for("one leads, and one says so", || {
        let terms: Vec<_> = agents.iter().map(leader).filter(|seen| seen["is_me"] == true).collect();
        assert!(terms.len() < 2, "{terms:?}");
        leaders.extend(terms.iter().filter_map(|seen| seen["term"].as_u64()));
        (!leaders.is_empty() && told()).then_some(())
    });
}

#[test]
fn a_file_that_is_locked_for_longer_than_the_lease_ends_leadership_until_it_is_free() {
    let database = Database::file();
    let mut agents = database.agents(2, "");
    let old = wait_for_leader(&agents, 0);
    let lock = rusqlite::Connection::open(database.path("leases.db")).expect("a file");
    lock.busy_timeout(Duration::from_secs(30)).expect("set");
    lock.execute_batch("begin exclusive").expect("locked");
    wait_for_nobody(&mut agents);
    lock.execute_batch("commit").expect("free");
    let new = wait_for_leader(&agents, old.term);
    assert_eq!(new.term, old.term + 1);
    assert!(agents.iter().any(|agent| agent.log().contains("is busy")), "{}", agents[0].log());
}

#[test]
fn a_file_that_is_deleted_is_made_again_and_terms_go_on() {
    let database = Database::file();
    let agents = database.agents(2, "");
    let old = wait_for_leader(&agents, 0);
    std::fs::remove_file(database.path("leases.db")).expect("removed");
    let new = wait_for_leader(&agents, old.term);
    assert!(new.term > old.term);
    assert!(agents.iter().any(|agent| agent.log().contains("was deleted while it was open")));
}

#[test]
fn files_that_are_cut_short_end_no_agent_and_whoever_mends_them_has_a_leader_again() {
    let database = Database::file();
    let mut agents = database.agents(3, "");
    let first = wait_for_leader(&agents, 0);
    let cut = |end: &str, length: u64| {
        let file = std::fs::File::options().write(true).open(database.path(&format!("leases.db{end}")));
        file.is_ok_and(|file| file.set_len(length).is_ok())
    };
    // Those that are there.
    assert!(["-shm", "-wal", "-journal"].map(|end| cut(end, 0)).contains(&true));
    std::thread::sleep(PAST_THE_LEASE);
    for agent in &mut agents {
        assert!(agent.is_running(), "{}", agent.log());
    }
    assert_eq!(wait_for_leader(&agents, 0), first, "it leads on");
    let whole = std::fs::read(database.path("leases.db")).expect("readable");
    assert!(cut("", 5_000));
    wait_for_nobody(&mut agents);
    wait_for("it says so", || agents.iter().any(|agent| agent.log().contains("leases.db holds what")).then_some(()));
    std::fs::write(database.path("leases.db"), whole).expect("mended");
    let second = wait_for_leader(&agents, first.term);
    assert!(cut("", 0), "as good as a new one");
    let third = wait_for_leader(&agents, second.term);
    assert!(third.term > second.term);
}

#[test]
fn two_databases_by_mistake_are_told_of_and_one_leads() {
    let (one, other) = (Database::file(), Database::file());
    let pace = "lease_duration = \"4s\"\nrenewal_interval = \"1s\"";
    let first = one.agent_with("n0", &[], pace, &[]);
    wait_for("it leads", || (leader(&first)["is_me"] == true).then_some(()));
    let agents = [other.agent_with("n1", &[&first.gossip], pace, &[]), first];
    // The second leads at once by its own database, unless it hears of the first before it has asked.
    let is_told = |agent: &Agent| agent.log().contains("two databases") || agent.log().contains("was led already");
    wait_for("somebody says so", || agents.iter().any(is_told).then_some(()));
    let leaders = || agents.iter().map(leader).filter(|seen| seen["is_me"] == true).collect::<Vec<_>>();
    let led = wait_for("one leads", || Some(leaders()).filter(|leaders| leaders.len() == 1))[0].clone();
    // For longer than the lease by which the other one could lead as well.
    let until = std::time::Instant::now() + PAST_THE_LEASE * 4;
    while std::time::Instant::now() < until {
        let mut terms: Vec<_> = leaders().iter().map(|seen| seen["term"].as_u64()).collect();
        assert!(terms.iter().all(|term| *term >= led["term"].as_u64()), "{terms:?} after {led}");
        let count = terms.len();
        terms.dedup();
        assert_eq!(terms.len(), count, "two lead in one term");
        std::thread::sleep(Duration::from_millis(10));
    }
}

#[test]
fn a_row_that_is_deleted_by_hand_while_its_leader_lives_makes_no_second_leader() {
    let database = Database::file();
    let pace = "lease_duration = \"6s\"\nrenewal_interval = \"2500ms\"";
    // They do not gossip with each other, and look at the row at different times.
    let agents: Vec<Agent> = ["n0", "n1", "n2"].map(|name| database.agent_with(name, &[], pace, &[])).into();
    let old = wait_for_leader(&agents, 0);
    database.execute("delete from cluster_leases");
    wait_for("the next one leads, and nobody beside it", || {
        let mine: Vec<_> = agents.iter().map(leader).filter(|seen| seen["is_me"] == true).collect();
        assert!(mine.len() <= 1, "{mine:?}");
        mine.first().is_some_and(|seen| seen["term"].as_u64() > Some(old.term)).then_some(())
    });
}

#[test]
fn a_bad_row_of_one_lease_leaves_the_others_alone_and_is_told_of() {
    let database = Database::file();
    let agents = database.agents(2, "");
    let old = wait_for_leader(&agents, 0);
    database.execute("update cluster_leases set lease_token = 'garbage' where lease = 'billing'");
    wait_for("somebody says so", || {
        agents.iter().any(|agent| agent.log().contains("hold what no agent writes")).then_some(())
    });
    database.execute("update cluster_terms set term = 9007199254740991 where lease = 'billing'");
    database.execute("update cluster_leases set is_leader = 0, term = 9007199254740991 where lease = 'billing'");
    wait_for("it is told", || agents.iter().any(|agent| agent.log().contains("no term left")).then_some(()));
    std::thread::sleep(PAST_THE_LEASE);
    assert_eq!(wait_for_leader(&agents, 0), old, "the cluster's leader leads on");
}

#[test]
fn an_agent_leaves_although_its_database_is_away() {
    let Some(mut server) = Server::start(&[]) else { return };
    let database = Database::on(&server.url(), "away");
    // A lease that outlasts the test.
    let pace = "lease_duration = \"60s\"\nrenewal_interval = \"2s\"";
    let mut agents = database.agents(2, pace);
    let old = wait_for_leader(&agents, 0);
    server.stop();
    let mut leaving = agents.remove(old.at);
    leaving.signal(Signal::SIGTERM);
    assert!(leaving.wait().success(), "{}", leaving.log());
    assert!(leaving.log().contains("left the cluster"), "{}", leaving.log());
    wait_for("the other one sees it go", || (agents[0].members().len() == 1).then_some(()));
}

#[test]
fn a_role_that_may_create_nothing_is_told_what_to_run() {
    let Some(server) = Server::start(&[]) else { return };
    let script = "create role plain login; revoke create on schema public from public;";
    let ran = std::process::Command::new(crate::server::programs().expect("there").join("psql"))
        .args(["-q", "-d", &server.url(), "-c", script])
        .output()
        .expect("psql runs");
    assert!(ran.status.success(), "{}", String::from_utf8_lossy(&ran.stderr));
    let url = server.url().replace("postgres@", "plain@");
    let agent = Agent::start("a", &[], &["--lease-url", &url]);
    wait_for("it says what to do", || agent.log().contains("headcount lease schema --role plain").then_some(()));
    let (status, schema) = agent.client_alone(&["lease", "schema", "--kind", "postgres", "--role", "plain"]);
    assert!(status.success() && schema.contains("cluster_terms"), "{schema}");
    let ran = std::process::Command::new(crate::server::programs().expect("there").join("psql"))
        .args(["-q", "-d", &server.url(), "-c", &schema])
        .output()
        .expect("psql runs");
    assert!(ran.status.success(), "{}", String::from_utf8_lossy(&ran.stderr));
    wait_for("it leads", || (leader(&agent)["is_me"] == true).then_some(()));
    std::thread::sleep(PAST_THE_LEASE);
    assert_eq!(leader(&agent)["is_me"], true, "{}", agent.log());
}
