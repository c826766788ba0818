//! Handlers that run commands.

use std::collections::{BTreeMap, BTreeSet};

use super::*;
use crate::support::skip;

#[test]
fn a_command_gets_every_event_as_a_line_and_as_variables_down_to_the_agents_own_goodbye() {
    let desk = Desk::new();
    let script = format!(
        "cat >> {}; echo $HEADCOUNT_EVENT_KIND $HEADCOUNT_EVENT_NODE $HEADCOUNT_EVENT_STATUS $HEADCOUNT_EVENT_REASON \
         missed=$HEADCOUNT_EVENT_MISSED at $HEADCOUNT_NODE by $HEADCOUNT_AGENT \
         private=$LISTEN_FDNAMES$HEADCOUNT_SEAL__MODE >> {}",
        desk.shown("lines"),
        desk.shown("variables")
    );
    desk.configure(&shell("all", &script, "concurrency = 1"));
    let private = ["env", "LISTEN_FDNAMES=supervisor", "HEADCOUNT_SEAL__MODE=off"].map(str::to_owned);
    let mut a = desk.start("a", &private);
    let watch = a.watch();
    let streams = "headcount_event_subscribers{subscriber=\"http\"}";
    wait_for("it watches", || (a.metric(streams) > 0.5).then_some(()));
    desk.wait_for("lines", 1);
    let mut b = Agent::start("b", &[&a.gossip], &[]);
    a.wait_for_up(&["a", "b"]);
    stop(&mut b);
    watch.wait_for("b", "node_left");
    let about_b: Vec<Value> = watch.events().into_iter().filter(|event| event["node"] == "b").collect();
    let http = a.http.clone();
    stop(&mut a);

    let lines: Vec<Value> = desk.lines("lines").iter().map(|line| json(line)).collect();
    let kinds: Vec<String> =
        lines.iter().map(|event| format!("{} {}", event["event"], event["node"]).replace('"', "")).collect();
    assert_eq!(kinds.first().map(String::as_str), Some("node_joining a"), "from the start: {kinds:?}");
    assert_eq!(kinds[kinds.len() - 2..], ["node_leaving a", "node_left a"], "to its own end");
    let told: Vec<&Value> = lines.iter().filter(|event| event["node"] == "b").collect();
    assert!(about_b.len() >= 3, "{about_b:?}");
    // Those before the watching began are not compared.
    for event in &about_b {
        assert!(told.contains(&event), "{event} in {told:?}");
    }
    let variables = desk.lines("variables");
    assert_eq!(variables.len(), lines.len());
    let expected = format!("node_left b left graceful missed=0 at a by {http} private=");
    assert!(variables.contains(&expected), "{expected} in {variables:?}");
}

#[test]
fn a_handler_that_hangs_delays_no_other_and_is_ended_with_everything_that_it_started() {
    let desk = Desk::new();
    let hang = format!(
        "trap '' TERM; echo $$ >> {0}; (trap '' TERM; sleep 1000) & echo $! >> {0}; echo stuck >&2; wait",
        desk.shown("pids")
    );
    let good = format!("echo $HEADCOUNT_EVENT_KIND >> {}", desk.shown("good"));
    let kinds = "kinds = [\"node_joined\", \"node_left\"]";
    // One that goes on for as long as the test does: whoever waited for it would wait in vain.
    let endless = format!("while [ -d {} ]; do sleep 0.1; done", desk.shown(""));
    desk.configure(
        &(shell("endless", &endless, &format!("timeout = \"1h\"\n{kinds}"))
            + &shell("hang", &hang, &format!("timeout = \"3s\"\n{kinds}"))
            + &shell("good", &good, &format!("timeout = \"1h\"\n{kinds}"))),
    );
    let a = desk.start("a", &[]);
    let mut b = Agent::start("b", &[&a.gossip], &[]);
    a.wait_for_up(&["a", "b"]);
    stop(&mut b);
    desk.wait_for("good", 3);
    let pids = desk.wait_for("pids", 6);
    wait_for("all that hung is gone", || pids.iter().all(|id| !is_alive(id)).then_some(()));
    wait_for("failures are counted", || (figure(&a, "failures_total", "hang") >= 3).then_some(()));
    assert!(figure(&a, "failures_total", "good") == 0);
    a.wait_for_log("handler hang failed at node_joined");
    a.wait_for_log("was ended after 3s: stuck");
    assert_eq!(a.log().matches("handler hang failed").count(), 1, "one line for all of them: {}", a.log());
}

#[cfg(target_os = "linux")]
#[test]
fn a_run_ends_with_what_has_left_its_group_and_leaves_those_of_other_runs_alone() {
    let desk = Desk::new();
    // Each runs on in a group of its own; the command ends when all of them do.
    let escape = |file: &str| {
        let file = desk.shown(file);
        let script = format!("trap \"\" TERM; echo $$ >> {file}; while [ -e {file} ]; do sleep 1; done");
        format!("timeout 900 sh -c '{script}' & setsid sh -c '{script}' & set -m; sh -c '{script}' & ")
    };
    let until = |what: String| format!("until {what}; do sleep 0.02; done");
    let ended = escape("ended") + &until(format!("[ -e {} ]", desk.shown("go")));
    let stays = escape("stays") + &until(format!("[ ! -d {} ]", desk.shown("")));
    let keys = "kinds = [\"node_joined\"]\ntimeout = \"1h\"";
    // The script has quotes of its own.
    std::fs::write(desk.path("ended.sh"), ended).expect("written");
    std::fs::write(desk.path("stays.sh"), stays).expect("written");
    let run = |name: &str| shell(name, &format!("exec sh {}", desk.shown(&format!("{name}.sh"))), keys);
    desk.configure(&(run("ended") + &run("stays")));
    let a = desk.start("a", &[]);
    let (mut ended, stays) = (desk.wait_for("ended", 3), desk.wait_for("stays", 3));
    std::fs::write(desk.path("go"), "").expect("written");
    wait_for("the run has ended", || (figure(&a, "runs_total", "ended") == 1).then_some(()));
    ended.retain(|id| is_alive(id));
    assert!(ended.is_empty(), "{ended:?} run still");
    assert!(stays.iter().all(|id| is_alive(id)), "another run goes on");
}

#[test]
fn one_node_waits_for_itself_and_nodes_do_not_wait_for_each_other() {
    let desk = Desk::new();
    let script = format!(
        "echo begin $HEADCOUNT_EVENT_NODE $HEADCOUNT_EVENT_KIND >> {0}; while [ ! -e {1} ]; do sleep 0.02; done; \
         echo end $HEADCOUNT_EVENT_NODE $HEADCOUNT_EVENT_KIND >> {0}",
        desk.shown("log"),
        desk.shown("go")
    );
    desk.configure(&shell("slow", &script, "kinds = [\"node_joined\", \"node_left\"]\nnodes = [\"b\", \"c\"]"));
    let a = desk.start("a", &[]);
    let mut b = Agent::start("b", &[&a.gossip], &[]);
    let _c = Agent::start("c", &[&a.gossip], &[]);
    a.wait_for_up(&["a", "b", "c"]);
    desk.wait_for("log", 2);
    stop(&mut b);
    wait_for("the goodbye of b waits", || (figure(&a, "waiting_events", "slow") == 1).then_some(()));
    assert_eq!(figure(&a, "running", "slow"), 2);
    let mut begun = desk.lines("log");
    begun.sort();
    assert_eq!(begun, ["begin b node_joined", "begin c node_joined"], "side by side");
    std::fs::write(desk.path("go"), "").expect("written");
    let lines = desk.wait_for("log", 6);
    let about_b: Vec<&str> = lines.iter().map(String::as_str).filter(|line| line.contains(" b ")).collect();
    assert_eq!(about_b, ["begin b node_joined", "end b node_joined", "begin b node_left", "end b node_left"]);
}

#[test]
fn what_does_not_fit_is_dropped_counted_logged_and_told_to_the_handler() {
    const QUEUED: u64 = 1_024;
    const TOO_MANY: u64 = 7;
    let desk = Desk::new();
    let script = format!(
        "echo $HEADCOUNT_EVENT_TOPIC $HEADCOUNT_EVENT_MISSED >> {}; while [ ! -e {} ]; do sleep 0.02; done; \
         [ $HEADCOUNT_EVENT_MISSED = 0 ] || ! mkdir {} 2>/dev/null",
        desk.shown("log"),
        desk.shown("go"),
        desk.shown("failed")
    );
    let keys = "kinds = [\"message\"]\ntopics = [\"jobs\"]\nconcurrency = 1\ntimeout = \"1h\"";
    desk.configure(&shell("slow", &script, keys));
    let a = desk.start("a", &[]);
    a.wait_for_up(&["a"]);
    a.post("/v1/broadcast/other", &Value::Null);
    a.post("/v1/broadcast/jobs", &Value::Null);
    assert_eq!(desk.wait_for("log", 1), ["jobs 0"], "and not the other topic");
    for _ in 0..QUEUED + TOO_MANY {
        a.post("/v1/broadcast/jobs", &Value::Null);
    }
    wait_for("they are counted", || (figure(&a, "missed_events_total", "slow") == TOO_MANY).then_some(()));
    assert_eq!(figure(&a, "waiting_events", "slow"), QUEUED);
    wait_for("it is logged", || a.log().contains("handler slow is too slow and misses events").then_some(()));
    std::fs::write(desk.path("go"), "").expect("written");
    let lines = desk.wait_for("log", 4);
    assert_eq!(lines[..4], ["jobs 0", "jobs 7", "jobs 7", "jobs 0"], "the first run that was told failed");
}

#[test]
fn a_goodbye_waits_for_handlers_and_not_for_ever() {
    let desk = Desk::new();
    let hang = format!(
        "trap 'echo told >> {0}; exit' TERM; echo $$ >> {1}; while :; do sleep 0.05; done",
        desk.shown("told"),
        desk.shown("pids")
    );
    desk.configure(&shell("hang", &hang, "timeout = \"1h\"\nkinds = [\"node_joined\"]"));
    let mut a = desk.start("a", &[]);
    let pids = desk.wait_for("pids", 1);
    stop(&mut a);
    assert!(pids.iter().all(|id| !is_alive(id)), "{pids:?}");
    assert_eq!(desk.lines("told"), ["told"], "it could clean up");
}

#[test]
fn a_handler_that_is_changed_waits_for_what_it_runs_and_handles_the_rest_as_it_is_now() {
    let desk = Desk::new();
    let script = |version: u8| {
        format!(
            "echo begin $HEADCOUNT_EVENT_KIND {version} >> {0}; while [ ! -e {1} ]; do sleep 0.02; done; \
             echo end $HEADCOUNT_EVENT_KIND {version} >> {0}",
            desk.shown("log"),
            desk.shown("go")
        )
    };
    let keys = "kinds = [\"node_joined\", \"node_left\"]\nnodes = [\"b\"]\ntimeout = \"1h\"";
    desk.configure(&shell("slow", &script(1), keys));
    let a = desk.start("a", &[]);
    let mut b = Agent::start("b", &[&a.gossip], &[]);
    a.wait_for_up(&["a", "b"]);
    desk.wait_for("log", 1);
    desk.configure(&shell("slow", &script(2), keys));
    a.signal(Signal::SIGHUP);
    wait_for("it is reloaded", || a.log().contains("reloaded handlers").then_some(()));
    let bears_name = |line: &&str| line.contains("reloaded handlers") && line.contains("agent=a");
    assert!(a.log().lines().any(|line| bears_name(&line)), "{}", a.log());
    stop(&mut b);
    wait_for("the goodbye waits", || (figure(&a, "waiting_events", "slow") == 1).then_some(()));
    assert_eq!(desk.lines("log"), ["begin node_joined 1"]);
    std::fs::write(desk.path("go"), "").expect("written");
    assert_eq!(
        desk.wait_for("log", 4),
        ["begin node_joined 1", "end node_joined 1", "begin node_left 2", "end node_left 2"]
    );
}

#[test]
fn as_the_first_process_of_a_container_it_leaves_no_zombies_and_waits_for_none() {
    let unshare = ["unshare", "--fork", "--pid", "--mount-proc", "--kill-child"].map(str::to_owned);
    let can = std::process::Command::new(&unshare[0]).args(&unshare[1..]).arg("true").output();
    if !can.is_ok_and(|output| output.status.success()) {
        return skip("no namespaces for processes here");
    }
    let desk = Desk::new();
    // One that stays in the group, and one that leaves it.
    let script = format!("sleep 1000 & setsid sleep 1000 & echo $HEADCOUNT_EVENT_KIND >> {}", desk.shown("log"));
    desk.configure(&shell("leaves", &script, "kinds = [\"node_joining\", \"node_joined\"]\nconcurrency = 1"));
    // The agent inherits one, as whatever is run in a container may leave it.
    let inherits = ["sh", "-c", "sleep 1 & exec \"$0\" \"$@\""].map(str::to_owned);
    let a = desk.start("a", &[&unshare[..], &inherits[..]].concat());
    desk.wait_for("log", 2);
    wait_for("both have run", || (figure(&a, "runs_total", "leaves") == 2).then_some(()));
    let agent = *children_of(a.id()).first().expect("it runs");
    wait_for("nobody is left, and nobody is a zombie", || children_of(agent).is_empty().then_some(()));
}

/// Returns the children of a process, those included that have ended and were not waited for.
fn children_of(parent: u32) -> Vec<u32> {
    let ids = std::fs::read_dir("/proc").expect("there").flatten();
    let ids = ids.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    let is_child = |id: &u32| {
        let stat = std::fs::read_to_string(format!("/proc/{id}/stat")).unwrap_or_default();
        let behind = stat.rsplit(')').next().unwrap_or_default();
        behind.split_ascii_whitespace().nth(1) == Some(&parent.to_string())
    };
    ids.filter(is_child).collect()
}

#[test]
fn a_reload_takes_up_handlers_and_leaves_those_alone_that_did_not_change() {
    let desk = Desk::new();
    let note = |file: &str| format!("echo $HEADCOUNT_EVENT_KIND $HEADCOUNT_EVENT_NODE >> {}", desk.shown(file));
    let (stays, goes, comes) =
        (shell("stays", &note("stays"), ""), shell("goes", &note("goes"), ""), shell("comes", &note("comes"), ""));
    desk.configure(&(stays.clone() + &goes));
    let a = desk.start("a", &[]);
    desk.wait_for("goes", 2);
    desk.configure(&(stays.clone() + &comes));
    a.signal(Signal::SIGHUP);
    wait_for("it is reloaded", || a.log().contains("reloaded handlers: stays, goes -> stays, comes").then_some(()));
    let _b = Agent::start("b", &[&a.gossip], &[]);
    desk.wait_for("comes", 2);
    wait_for("the one that stays has both", || {
        let lines = desk.lines("stays");
        (lines.iter().any(|line| line == "node_joined a") && lines.iter().any(|line| line == "node_joined b"))
            .then_some(())
    });
    assert!(desk.lines("comes").iter().all(|line| line.ends_with(" b")), "from then on");
    assert_eq!(desk.lines("goes"), ["node_joining a", "node_joined a"]);
    assert_eq!(desk.lines("stays").iter().filter(|line| *line == "node_joined a").count(), 1);
    let metrics = a.get("/metrics");
    assert!(metrics.contains("handler=\"comes\"") && !metrics.contains("handler=\"goes\""), "{metrics}");
    // A file that is refused changes nothing.
    desk.configure("[[handlers]]\n");
    a.signal(Signal::SIGHUP);
    wait_for("it is refused", || a.log().contains("not reloaded, everything stays as it is").then_some(()));
}

#[test]
fn a_command_that_is_not_there_fails_and_says_so() {
    let desk = Desk::new();
    desk.configure("[[handlers]]\ncommand = [\"/nonexistent/notify\"]\n");
    let a = desk.start("a", &[]);
    wait_for("it is told", || {
        let log = a.log();
        (log.contains("handler handler-1 failed")
            && log.contains("ended with 127: headcount: cannot run /nonexistent/notify"))
        .then_some(())
    });
}

#[test]
fn tags_choose_events_by_the_member_that_they_are_about() {
    let desk = Desk::new();
    let script = format!("echo $HEADCOUNT_EVENT_NODE >> {}", desk.shown("log"));
    desk.configure(&shell("caches", &script, "kinds = [\"node_joined\"]\ntags = { role = \"cache\" }"));
    let a = desk.start("a", &[]);
    let _b = Agent::start("b", &[&a.gossip], &["--tag", "role=db"]);
    a.wait_for_up(&["a", "b"]);
    let _c = Agent::start("c", &[&a.gossip], &["--tag", "role=cache", "--tag", "zone=eu"]);
    assert_eq!(desk.wait_for("log", 1), ["c"]);
}

#[test]
fn nodes_choose_messages_by_who_says_them() {
    let desk = Desk::new();
    let script = format!("echo $HEADCOUNT_EVENT_NODE $HEADCOUNT_EVENT_TOPIC >> {}", desk.shown("log"));
    desk.configure(&shell("jobs", &script, "kinds = [\"message\"]\nnodes = [\"b\"]\nconcurrency = 1"));
    let a = desk.start("a", &[]);
    let b = Agent::start("b", &[&a.gossip], &[]);
    b.wait_for_up(&["a", "b"]);
    for (agent, topic) in [(&a, "one"), (&b, "two"), (&a, "three"), (&b, "four")] {
        let answer = agent.post(&format!("/v1/send/a/{topic}"), &Value::Null);
        assert!(answer.starts_with("HTTP/1.1 200 "), "{answer}");
    }
    let mut lines = desk.wait_for("log", 2);
    lines.sort();
    assert_eq!(lines, ["b four", "b two"]);
}

#[test]
fn the_variables_of_an_event_are_those_that_the_configuration_names_with_the_values_of_its_line() {
    let desk = Desk::new();
    let events = desk.path("events");
    std::fs::create_dir(&events).expect("made");
    // The name of a file is that of a whole one.
    let script = format!(
        "file={}/$HEADCOUNT_EVENT_ID; cat > $file.new; echo >> $file.new; env | grep ^HEADCOUNT_EVENT_ >> $file.new; \
         mv $file.new $file.txt",
        events.display()
    );
    let kinds = "kinds = [\"node_joined\", \"node_detected_down\", \"leader_elected\", \"view_agreed\", \"message\"]";
    let data = format!("data_dir = {:?}\n[leadership]\nvoters = [\"a\"]\nmode = \"quorum\"\n", desk.shown("data"));
    desk.configure(&(data + &shell("all", &script, kinds)));
    let a = desk.start("a", &[]);
    let b = Agent::start("b", &[&a.gossip], &[]);
    a.wait_for_up(&["a", "b"]);
    a.post("/v1/broadcast/jobs", &Value::Null);
    b.signal(Signal::SIGKILL);
    let read = || -> Vec<(Value, BTreeMap<String, String>)> {
        let files = std::fs::read_dir(&events).expect("there").flatten().map(|entry| entry.path());
        let whole = files.filter(|path| path.extension().is_some_and(|extension| extension == "txt"));
        let read = whole.map(|path| {
            let text = std::fs::read_to_string(path).expect("a file");
            let (line, rest) = text.split_once('\n').expect("a line");
            let variables = rest.lines().filter_map(|line| line.strip_prefix("HEADCOUNT_EVENT_")?.split_once('='));
            (json(line), variables.map(|(name, value)| (name.to_owned(), value.to_owned())).collect())
        });
        read.collect()
    };
    let wanted = ["node_joined", "node_detected_down", "leader_elected", "view_agreed", "message"];
    let seen = wait_for("an event of each kind", || {
        Some(read()).filter(|seen| wanted.iter().all(|kind| seen.iter().any(|(event, _)| event["event"] == *kind)))
    });
    let mut names = BTreeSet::new();
    for (event, variables) in &seen {
        let text = |value: &Value| match value {
            Value::Null => None,
            Value::String(text) => Some(text.clone()),
            other => Some(other.to_string()),
        };
        let fields =
            ["id", "at", "node", "address", "reason", "method", "term", "lease", "number", "topic", "live_members"];
        let mut expected: BTreeMap<String, String> =
            fields.iter().filter_map(|field| Some((field.to_uppercase(), text(&event[*field])?))).collect();
        expected.extend(text(&event["event"]).map(|kind| ("KIND".to_owned(), kind)));
        expected.extend(text(&event["member"]["status"]).map(|status| ("STATUS".to_owned(), status)));
        expected.insert("MISSED".to_owned(), "0".to_owned());
        assert_eq!(*variables, expected, "{event}");
        names.extend(variables.keys().cloned());
    }
    // The configuration names all of them, and those of a departure and of a lease in a database, too.
    let page = include_str!("../../../config.toml");
    let told = page.split_once("HEADCOUNT_EVENT_").and_then(|(_, rest)| rest.split_once("HEADCOUNT_NODE"));
    let words = told.expect("it tells").0.split(|letter: char| !(letter.is_ascii_uppercase() || letter == '_'));
    let told: BTreeSet<String> =
        words.map(|word| word.trim_start_matches('_').to_owned()).filter(|word| word.len() > 1).collect();
    names.extend(["LEASE", "REASON"].map(str::to_owned));
    assert_eq!(told, names);
}

#[test]
fn a_reload_raises_the_number_of_runs_at_one_time() {
    let desk = Desk::new();
    let script = format!("while [ ! -e {} ]; do sleep 0.02; done", desk.shown("go"));
    let configure = |concurrency: usize| {
        let keys = "kinds = [\"node_joined\"]\nnodes = [\"b\", \"c\"]\ntimeout = \"1h\"";
        desk.configure(&shell("slow", &script, &format!("{keys}\nconcurrency = {concurrency}")));
    };
    configure(1);
    let a = desk.start("a", &[]);
    let _b = Agent::start("b", &[&a.gossip], &[]);
    let _c = Agent::start("c", &[&a.gossip], &[]);
    a.wait_for_up(&["a", "b", "c"]);
    wait_for("the second one waits", || (figure(&a, "waiting_events", "slow") == 1).then_some(()));
    assert_eq!(figure(&a, "running", "slow"), 1);
    configure(2);
    a.signal(Signal::SIGHUP);
    wait_for("both run", || (figure(&a, "running", "slow") == 2).then_some(()));
    std::fs::write(desk.path("go"), "").expect("written");
    wait_for("both are done", || (figure(&a, "runs_total", "slow") == 2).then_some(()));
}
