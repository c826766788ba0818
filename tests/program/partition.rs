//! Network namespaces: halves that cannot hear each other, links that lose, and a node that is starved.

use std::collections::BTreeSet;
use std::thread::sleep;
use std::time::Duration;

use crate::support::netns::Network;
use crate::support::{Agent, Watch, skip, wait_for};
use nix::sys::signal::Signal;
use serde_json::{Value, json};

const NAMES: [&str; 10] = ["n0", "n1", "n2", "n3", "n4", "n5", "n6", "n7", "n8", "n9"];

fn start(network: &Network, hosts: usize) -> Vec<Agent> {
    start_with(network, hosts, |_| Vec::new())
}

fn start_with<'a>(network: &Network, hosts: usize, more: impl Fn(usize) -> Vec<&'a str>) -> Vec<Agent> {
    let seed = format!("{}:7117", network.ip(0));
    let start = |host: usize| {
        let bind = format!("{}:7117", network.ip(host));
        let arguments = ["--name", NAMES[host], "--profile", "local", "--bind", &bind, "--seed", &seed];
        let sealed = ["--key-file", network.key(), "--http", "127.0.0.1:7118"];
        Agent::start_with(&network.on(host), &[&arguments[..], &sealed, &more(host)].concat())
    };
    (0..hosts).map(start).collect()
}

/// Starts agents on hosts of their own, and waits until all are Up; `None` if such hosts cannot be had here. (The
/// agents go before the network.)
fn cluster(hosts: usize) -> Option<(Network, Vec<Agent>)> {
    match Network::new(hosts) {
        Ok(network) => {
            let agents = start(&network, hosts);
            for agent in &agents {
                agent.wait_for_up(&NAMES[..hosts]);
            }
            Some((network, agents))
        }
        Err(reason) => {
            skip(&format!("no network namespaces here: {reason}"));
            None
        }
    }
}

/// Watches all these agents from now on.
fn watch_all(agents: &[Agent]) -> Vec<Watch> {
    agents.iter().map(Agent::watch).collect()
}

/// Returns the member as an agent lists it.
fn member(agent: &Agent, name: &str) -> Option<Value> {
    let (_, text) = agent.client(&["members", "--format", "json"]);
    let members: Value = serde_json::from_str(&text).expect("json");
    members.as_array().expect("a list").iter().find(|member| member["id"] == name).cloned()
}

/// Waits until `listener` has not heard `speaker` itself for this long.
fn wait_for_silence(listener: &Agent, speaker: &str, ms: u64) {
    wait_for("the silence has lasted", || {
        member(listener, speaker).and_then(|member| member["last_heard_ms"].as_u64()).filter(|silence| *silence >= ms)
    });
}

fn of_kind(watch: &Watch, kind: &str) -> Vec<Value> {
    watch.events().into_iter().filter(|event| event["event"] == kind).collect()
}

/// Returns the names of all that anybody has ever declared Down.
fn buried(watches: &[Watch]) -> BTreeSet<String> {
    let downs = watches.iter().flat_map(|watch| of_kind(watch, "node_detected_down"));
    downs.map(|event| event["node"].as_str().expect("a text").to_owned()).collect()
}

#[test]
fn two_halves_say_that_they_are_cut_apart_and_merge_without_losing_anything() {
    const LEFT: [&str; 3] = ["n0", "n1", "n2"];
    const RIGHT: [&str; 3] = ["n3", "n4", "n5"];
    let Some((network, mut agents)) = cluster(6) else { return };
    let watches = watch_all(&agents);
    network.cut(&[0, 1, 2], &[3, 4, 5]);
    let sides = |host: usize| if host < 3 { (LEFT, RIGHT) } else { (RIGHT, LEFT) };
    for (host, watch) in watches.iter().enumerate() {
        let (near, far) = sides(host);
        wait_for("each side declares the other down", || {
            (of_kind(watch, "node_detected_down").len() == 3).then_some(())
        });
        for down in of_kind(watch, "node_detected_down") {
            assert_eq!(down["method"], "network_partition", "{down}");
            assert!(far.iter().any(|name| down["node"] == *name), "{down}");
        }
        let suspected = of_kind(watch, "partition_suspected");
        let last = suspected.last().expect("said before the first death");
        assert_eq!((&last["unreachable"], &last["reachable"]), (&json!(far), &json!(near)));
        assert_eq!((&last["node"], &last["member"]), (&Value::Null, &Value::Null));
    }
    let (status, said) = agents[0].client(&["doctor"]);
    assert_eq!(status.code(), Some(1), "{said}");
    let cut = "on this side n0, n1 and n2, beyond it n3, n4 and n5";
    assert!(said.contains(cut) && said.contains("do not remove"), "{said}");
    assert!(said.contains("silent from here, too: n3, n4, n5"), "{said}");
    // Changes on one side during the cut …
    assert!(agents[1].client(&["tags", "side=left"]).0.success());
    assert!(agents[4].client(&["tags", "side=right"]).0.success());
    let mut leaver = agents.remove(5);
    assert!(leaver.client(&["leave"]).0.success());
    assert_eq!(leaver.wait().code(), Some(0));
    network.heal();
    // … hold on both afterwards.
    for (agent, watch) in agents.iter().zip(&watches) {
        agent.wait_for_up(&NAMES[..5]);
        for (name, side) in [("n1", "left"), ("n4", "right")] {
            let tag = || member(agent, name).filter(|member| member["tags"]["side"] == side);
            wait_for("the tags of both sides", tag);
        }
        wait_for("the departure is known", || member(agent, "n5").is_none().then_some(()));
        let healed = wait_for("the end of the partition", || of_kind(watch, "partition_healed").pop());
        assert_eq!(healed["reachable"], json!(NAMES[..5]));
    }
    for (host, watch) in watches[..5].iter().enumerate() {
        let (_, far) = sides(host);
        let left_with_the_far = if far == RIGHT { vec!["n5"] } else { Vec::new() };
        let healed = of_kind(watch, "partition_healed");
        assert_eq!((healed.len(), &healed[0]["unreachable"]), (1, &json!(left_with_the_far)), "{healed:?}");
        assert!(!watch.about("n5").contains(&"node_joined".to_owned()), "{:?}", watch.about("n5"));
    }
}

/// Returns an agent's word about the leader, or about what was agreed on.
fn told(agent: &Agent, command: &str) -> Value {
    let (_, text) = agent.client(&[command, "--format", "json"]);
    serde_json::from_str(&text).expect("json")
}

#[test]
fn of_a_cluster_cut_in_two_only_the_majority_has_a_leader_and_healed_it_has_one() {
    let network = match Network::new(5) {
        Ok(network) => network,
        Err(reason) => return skip(&format!("no network namespaces here: {reason}")),
    };
    let data = tempfile::tempdir().expect("a directory");
    let directories: Vec<String> =
        NAMES[..5].iter().map(|name| data.path().join(name).to_str().expect("text").to_owned()).collect();
    let agents = start_with(&network, 5, |host| vec!["--data-dir", &directories[host], "--voters", "n0,n1,n2,n3,n4"]);
    let agree = |agents: &[Agent]| {
        let seen: Vec<Value> = agents.iter().map(|agent| told(agent, "leader")).collect();
        let leads = seen.iter().filter(|seen| seen["is_me"] == true).count();
        let is_so = |one: &Value| one["state"] == "led" && one["leader"] == seen[0]["leader"];
        (leads == 1 && seen.iter().all(is_so)).then(|| seen[0]["leader"].as_str().expect("a text").to_owned())
    };
    let old = wait_for("a leader", || agree(&agents));
    // The leader is cut off with one other: that is the harder case.
    let at = NAMES.iter().position(|name| *name == old).expect("one of five");
    let (minority, majority): (Vec<usize>, Vec<usize>) = (0..5).partition(|host| [at, (at + 1) % 5].contains(host));
    network.cut(&minority, &majority);
    for host in &minority {
        wait_for("the minority has no leader and says so", || {
            (told(&agents[*host], "leader")["state"] == "unavailable").then_some(())
        });
    }
    let new = wait_for("the majority has one of its own", || {
        let seen: Vec<Value> = majority.iter().map(|host| told(&agents[*host], "leader")).collect();
        let name = seen[0]["leader"].as_str()?.to_owned();
        (name != old && seen.iter().all(|seen| seen["leader"] == *name)).then_some(name)
    });
    assert!(majority.iter().any(|host| NAMES[*host] == new));
    for host in &minority {
        let seen = told(&agents[*host], "leader");
        assert_eq!((&seen["leader"], &seen["is_me"]), (&Value::Null, &json!(false)), "{seen}");
    }
    network.heal();
    for agent in &agents {
        agent.wait_for_up(&NAMES[..5]);
    }
    wait_for("one leader", || agree(&agents));
    wait_for("one agreed view, of all", || {
        let views: Vec<Value> = agents.iter().map(|agent| told(agent, "view")).collect();
        let is_so = |view: &Value| view["number"] == views[0]["number"] && view["members"] == json!(NAMES[..5]);
        views.iter().all(is_so).then_some(())
    });
}

#[test]
fn a_cut_between_two_of_ten_takes_neither_down() {
    let Some((network, agents)) = cluster(10) else { return };
    let watches = watch_all(&agents[..5]);
    network.cut(&[1], &[4]);
    // Long enough for either to be suspected and declared down twice over, if nobody asked those who hear it.
    wait_for_silence(&agents[1], "n4", 5_000);
    assert_eq!(buried(&watches), BTreeSet::new());
    wait_for("the bad link is reported", || agents[1].log().contains("\"n4\" is heard by").then_some(()));
    network.heal();
    wait_for("its recovery, too", || agents[1].log().contains("\"n4\" is heard directly again").then_some(()));
    for agent in &agents {
        agent.wait_for_up(&NAMES);
    }
    assert_eq!(buried(&watches), BTreeSet::new());
}

#[test]
fn a_firewall_that_resets_and_rejects_links_takes_nobody_down() {
    let Some((network, agents)) = cluster(5) else { return };
    let links = || (0..5).map(|host| network.connections(host, 7117)).collect::<Vec<_>>();
    wait_for("links stand", || links().iter().all(|count| *count >= 4).then_some(()));
    let watches = watch_all(&agents);
    for host in 0..5 {
        network.reject_tcp(host, 7117);
    }
    wait_for("links are gone", || links().iter().all(|count| *count == 0).then_some(()));
    // Time for every case to be opened, refuted, reviewed, and for silence to tell, if there were any.
    sleep(Duration::from_secs(6));
    assert_eq!(buried(&watches), BTreeSet::new());
    assert_eq!(links(), [0; 5]);
    network.heal();
    wait_for("links come back", || links().iter().all(|count| *count >= 4).then_some(()));
    assert_eq!(buried(&watches), BTreeSet::new());
}

#[test]
fn a_link_that_loses_a_quarter_takes_nobody_down() {
    let Some((network, agents)) = cluster(5) else { return };
    let watches = watch_all(&agents);
    network.lose(1, 3, 25);
    network.lose(3, 1, 25);
    sleep(Duration::from_secs(12));
    assert_eq!(buried(&watches), BTreeSet::new());
    for agent in &agents {
        agent.wait_for_up(&NAMES[..5]);
    }
}

#[test]
fn a_link_that_is_lost_in_one_direction_takes_nobody_down() {
    let Some((network, agents)) = cluster(5) else { return };
    let watches = watch_all(&agents);
    network.lose(3, 1, 100);
    wait_for_silence(&agents[1], "n3", 6_000);
    assert_eq!(buried(&watches), BTreeSet::new());
    for agent in &agents {
        agent.wait_for_up(&NAMES[..5]);
    }
}

#[test]
fn a_starved_node_takes_nobody_down_and_does_not_flap_for_ever() {
    const STOPS: usize = 20;
    let Some((_network, agents)) = cluster(6) else { return };
    let watches = watch_all(&agents);
    let starved = &agents[5];
    for stop in 0..STOPS as u64 {
        starved.signal(Signal::SIGSTOP);
        sleep(Duration::from_millis(150 + stop * 577 % 1_350));
        starved.signal(Signal::SIGCONT);
        sleep(Duration::from_millis(50 + stop * 37 % 150));
    }
    for agent in &agents {
        agent.wait_for_up(&NAMES[..6]);
    }
    let healthy_and_buried: Vec<_> = buried(&watches).into_iter().filter(|name| name != "n5").collect();
    assert_eq!(healthy_and_buried, Vec::<String>::new());
    for watch in &watches[..5] {
        let suspected = watch.about("n5").iter().filter(|kind| *kind == "node_suspected").count();
        assert!(suspected <= STOPS / 3, "suspected {suspected} times in {STOPS} stops: {:?}", watch.about("n5"));
    }
    wait_for("it knows that it is ill", || starved.log().contains("times later for now").then_some(()));
    wait_for("it recovers", || starved.log().contains("trusts its own observation again").then_some(()));
}

#[test]
fn with_udp_blocked_everywhere_nodes_join_leave_die_and_are_removed_in_time() {
    let network = match Network::new(6) {
        Ok(network) => network,
        Err(reason) => return skip(&format!("no network namespaces here: {reason}")),
    };
    let mut agents = start(&network, 5);
    for agent in &agents {
        agent.wait_for_up(&NAMES[..5]);
    }
    let watches = watch_all(&agents);
    for host in 0..6 {
        network.drop_udp(host);
    }
    sleep(Duration::from_secs(8));
    assert_eq!(buried(&watches), BTreeSet::new());
    wait_for("the operator is told", || agents[0].log().contains("do not pass, links do").then_some(()));
    let seed = format!("{}:7117", network.ip(0));
    let bind = format!("{}:7117", network.ip(5));
    let words = ["--name", "n5", "--profile", "local", "--bind", &bind, "--seed", &seed, "--key-file", network.key()];
    let joined = Agent::start_with(&network.on(5), &words);
    joined.wait_for_up(&NAMES[..6]);
    assert!(agents[4].client(&["leave"]).0.success());
    assert_eq!(agents[4].wait().code(), Some(0));
    agents[3].signal(Signal::SIGKILL);
    for watch in &watches[..3] {
        wait_for("it has left", || watch.about("n4").contains(&"node_left".to_owned()).then_some(()));
        wait_for("it is dead", || {
            let downs = of_kind(watch, "node_detected_down");
            downs.into_iter().find(|down| (&down["node"], &down["method"]) == (&json!("n3"), &json!("connection_lost")))
        });
    }
    assert!(agents[0].client(&["remove", "n2", "--force"]).0.success());
    assert_eq!(agents[2].wait().code(), Some(6));
    assert_eq!(buried(&watches[..2]), BTreeSet::from(["n3".to_owned()]));
}

#[test]
fn an_address_that_a_machine_gets_instead_of_its_old_one_is_followed() {
    let network = match Network::new(4) {
        Ok(network) => network,
        Err(reason) => return skip(&format!("no network namespaces here: {reason}")),
    };
    let seeds = [0, 1].map(|host| format!("{}:7117", network.ip(host)));
    let start = |host: usize| {
        let [one, other] = &seeds;
        let words =
            ["--name", NAMES[host], "--profile", "local", "--key-file", network.key(), "--seed", one, "--seed", other];
        Agent::start_with(&network.on(host), &[&words[..], &["--http", "127.0.0.1:7118"]].concat())
    };
    let agents: Vec<Agent> = (0..4).map(start).collect();
    for agent in &agents {
        agent.wait_for_up(&NAMES[..4]);
    }
    let new = format!("{}:7117", network.readdress(3));
    for agent in &agents {
        let moved = || member(agent, "n3").filter(|member| member["address"] == new && member["status"] == "up");
        wait_for("it is up at its new address", moved);
        agent.wait_for_up(&NAMES[..4]);
    }
    wait_for("its operator is told", || agents[3].log().contains("has lost the address").then_some(()));
}

#[test]
fn who_removes_one_that_may_be_alive_beyond_a_partition_is_warned_and_a_voter_is_not_removed_without_force() {
    let network = match Network::new(4) {
        Ok(network) => network,
        Err(reason) => return skip(&format!("no network namespaces here: {reason}")),
    };
    let data: Vec<_> = (0..3).map(|_| tempfile::tempdir().expect("a directory")).collect();
    let votes = |host: usize| match data.get(host) {
        Some(data) => vec!["--data-dir", data.path().to_str().expect("text"), "--voters", "n0,n1,n2"],
        None => Vec::new(),
    };
    let agents = start_with(&network, 4, votes);
    for agent in &agents {
        agent.wait_for_up(&NAMES[..4]);
    }
    let electorate = || agents[0].client(&["voters", "list"]).1.contains("n2");
    wait_for("an electorate", || electorate().then_some(()));
    network.cut(&[0, 1], &[2, 3]);
    wait_for("the other side is down by the partition", || {
        let is_cut =
            |name: &&str| member(&agents[0], name).is_some_and(|member| member["method"] == "network_partition");
        ["n2", "n3"].iter().all(is_cut).then_some(())
    });
    let (status, said) = agents[0].client(&["remove", "n3", "--format", "json"]);
    assert!(status.success(), "{said}");
    let removed: Value = serde_json::from_str(&said).expect("json");
    let warnings = removed["warnings"].as_array().expect("a list");
    let warning = warnings.first().and_then(Value::as_str).unwrap_or_default();
    assert!(warnings.len() == 1 && warning.contains("n3 may be alive on the other side"), "{removed}");
    // The loss of a voter that lives costs more.
    assert_eq!(agents[0].client(&["remove", "n2"]).0.code(), Some(1), "it is refused");
    assert!(member(&agents[0], "n2").is_some());
    let (status, said) = agents[0].client(&["remove", "n2", "--force"]);
    assert!(status.success() && said.contains("is a voter") && said.contains("may be alive"), "{said}");
}

#[test]
fn agents_that_start_before_their_machines_have_addresses_form_a_cluster_once_they_have() {
    let network = match Network::new(2) {
        Ok(network) => network,
        Err(reason) => return skip(&format!("no network namespaces here: {reason}")),
    };
    let seeds = [0, 1].map(|host| format!("{}:7117", network.ip(host)));
    let start = |host: usize| {
        network.set_addressed(host, false);
        let [one, other] = &seeds;
        let words =
            ["--name", NAMES[host], "--profile", "local", "--key-file", network.key(), "--seed", one, "--seed", other];
        Agent::start_with(&network.on(host), &[&words[..], &["--http", "127.0.0.1:7118"]].concat())
    };
    let agents = [0, 1].map(start);
    for (host, agent) in agents.iter().enumerate() {
        wait_for("it has none", || agent.log().contains("this machine has no other address").then_some(()));
        network.set_addressed(host, true);
    }
    for (host, agent) in agents.iter().enumerate() {
        agent.wait_for_up(&NAMES[..2]);
        let is_there = |member: &Value| member["address"] == seeds[host].as_str();
        wait_for("it is where it was put", || member(agent, NAMES[host]).filter(is_there));
    }
}

/// Something on the host carries what others send to it to its loopback address: a forwarded port, or `route_localnet`.
#[test]
fn what_others_send_to_loopback_is_counted_and_not_taken_by_a_node_without_keys() {
    let network = match Network::new(2) {
        Ok(network) => network,
        Err(reason) => return skip(&format!("no network namespaces here: {reason}")),
    };
    network.run(0, &["sysctl", "-qw", "net.ipv4.conf.all.route_localnet=1"]);
    network.run(0, &["nft", "add", "table", "ip", "forwarded"]);
    let chain = "{ type nat hook prerouting priority -100 ; }";
    network.run(0, &["nft", "add", "chain", "ip", "forwarded", "ports", chain]);
    for protocol in ["udp", "tcp"] {
        let rule = [protocol, "dport", "7117", "dnat", "to", "127.0.0.1"];
        network.run(0, &[&["nft", "add", "rule", "ip", "forwarded", "ports"][..], &rule].concat());
    }
    let common = ["--profile", "local", "--cluster", "mine", "--http", "127.0.0.1:7118"];
    let local = |consent: &[&str]| {
        let words = [&["--name", "n0"][..], &common, consent].concat();
        Agent::start_with(&network.on(0), &words)
    };
    let here = local(&[]);
    here.wait_for_up(&["n0"]);
    let seed = format!("{}:7117", network.ip(0));
    let words = [&["--name", "n1", "--insecure", "--seed", &seed][..], &common].concat();
    let other = Agent::start_with(&network.on(1), &words);
    let says = |text: &str| here.log().lines().filter(|line| line.contains(text)).count();
    wait_for("they are told of", || (says("this node hears its own machine alone") > 0).then_some(()));
    assert_eq!(says("this node has no key: it listens on 127.0.0.1:7117, and no other machine can join"), 1);
    // By TCP neither: its connections end at once.
    wait_for("it is told, too", || other.log().contains("nothing came back from").then_some(()));
    assert!(member(&here, "n1").is_none(), "{}", here.log());
    drop(here);
    // It does not call others either.
    let far = format!("{}:7117", network.ip(1));
    let words = [&["--name", "n0", "--bind", "127.0.0.1:7117", "--seed", "127.0.0.1:1", "--seed", &far][..], &common];
    let caller = Agent::start_with(&network.on(0), &words.concat());
    let said = format!("no connection to {far}, 127.0.0.1:1: ");
    wait_for("it reaches nobody", || caller.log().contains(&said).then_some(()));
    drop(caller);
    // The way is open, and consent is what it takes.
    let here = local(&["--insecure"]);
    here.wait_for_up(&["n0", "n1"]);
    drop(other);
}

#[test]
fn who_gives_a_running_node_its_first_key_is_told_that_its_address_changes_at_a_restart() {
    let network = match Network::new(1) {
        Ok(network) => network,
        Err(reason) => return skip(&format!("no network namespaces here: {reason}")),
    };
    let config = tempfile::NamedTempFile::new().expect("a file");
    let words = ["--name", "n0", "--profile", "local", "--http", "127.0.0.1:7118", "--config"];
    let agent = Agent::start_with(&network.on(0), &[&words[..], &[config.path().to_str().expect("text")]].concat());
    agent.wait_for_up(&["n0"]);
    std::fs::write(config.path(), format!("[seal]\nkey_file = \"{}\"\n", network.key())).expect("written");
    agent.signal(Signal::SIGHUP);
    agent.wait_for_log("changed, and counts only after a restart: bind: 127.0.0.1:7117 -> [::]:7117");
    let (_, info) = agent.client(&["info"]);
    assert!(info.contains("require, key 6251e6ca"), "{info}");
}
