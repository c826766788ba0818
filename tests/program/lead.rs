//! `headcount lead`: commands that run while a node leads, by real processes that are sent away, stopped and killed.
//!
//! The commands write a line every few hundredths of a second, with the term and the time since the system was started.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::support::{Agent, HEADCOUNT, PATIENCE, skip, wait_for};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;
use tempfile::TempDir;

const THREE: [&str; 3] = ["a", "b", "c"];

/// Three voters, and a place for what commands write.
struct Cluster {
    agents: Vec<Agent>,
    data: TempDir,
}

/// One line that a command wrote: the term, and the hundredths of a second since the system was started.
type Beat = (u64, u64);

impl Cluster {
    fn start() -> Self {
        Self::of(&THREE)
    }

    fn of(names: &[&str]) -> Self {
        let data = tempfile::tempdir().expect("a directory");
        let voters = names.join(",");
        let start = |name: &str, seeds: &[&str]| {
            let directory = data.path().join(name);
            Agent::start(name, seeds, &["--data-dir", directory.to_str().expect("text"), "--voters", &voters])
        };
        let first = start(names[0], &[]);
        let seed = first.gossip.clone();
        let mut agents = vec![first];
        agents.extend(names[1..].iter().map(|name| start(name, &[&seed])));
        let cluster = Self { agents, data };
        cluster.leader_above(0);
        cluster
    }

    /// Waits for an agent that leads in a term above this one; returns its place in the list of agents, and the term.
    fn leader_above(&self, term: u64) -> (usize, u64) {
        wait_for("somebody leads", || {
            self.agents.iter().enumerate().find_map(|(at, agent)| {
                let (status, text) = agent.client(&["leader", "--format", "json"]);
                let seen: Value = serde_json::from_str(&text).ok()?;
                let now = seen["term"].as_u64()?;
                (status.success() && seen["is_me"] == true && now > term).then_some((at, now))
            })
        })
    }

    fn file(&self) -> PathBuf {
        self.data.path().join("beats")
    }

    fn beats(&self) -> Vec<Beat> {
        let text = std::fs::read_to_string(self.file()).unwrap_or_default();
        // The last line may be half written.
        let whole = text.rsplit_once('\n').map_or("", |(whole, _)| whole);
        let beat = |line: &str| {
            let (term, time) = line.split_once(' ').expect("two words");
            (term.parse().expect("a term"), time.replace('.', "").parse().expect("a time"))
        };
        whole.lines().map(beat).collect()
    }

    /// Waits until a command writes in a term above this one.
    fn beat_above(&self, term: u64) -> Beat {
        wait_for("a command runs", || self.beats().into_iter().find(|(beat, _)| *beat > term))
    }

    /// Checks that no command was there before all of an earlier term were gone; returns the first and last beat of
    /// each term.
    fn assert_no_overlap(&self) -> BTreeMap<u64, (u64, u64)> {
        let mut terms: BTreeMap<u64, (u64, u64)> = BTreeMap::new();
        for (term, time) in self.beats() {
            let (first, last) = terms.entry(term).or_insert((time, time));
            (*first, *last) = ((*first).min(time), (*last).max(time));
        }
        for ((early, (_, last)), (late, (first, _))) in terms.iter().zip(terms.iter().skip(1)) {
            assert!(last <= first, "term {early} until {last}, term {late} from {first}");
        }
        terms
    }

    /// Runs at each agent.
    fn lead_everywhere(&self, options: &[&str], script: &str) -> Vec<Lead> {
        self.agents.iter().map(|agent| Lead::start(&agent.http, self.data.path(), options, script)).collect()
    }
}

/// A running `headcount lead`, ended with the test.
struct Lead {
    child: Child,
}

impl Lead {
    fn start(http: &str, directory: &Path, options: &[&str], script: &str) -> Self {
        // A shell that starts the tests in the background lets them ignore SIGQUIT, which programs would inherit, and
        // no shell among them could trap it. A signal that is handled here is at its default in programs.
        let _ = signal_hook::flag::register(signal_hook::consts::SIGQUIT, Arc::default());
        let mut command = Command::new(HEADCOUNT);
        command.arg("lead").args(["--http", http]).args(options).args(["--", "sh", "-c", script]);
        command.current_dir(directory).stdin(Stdio::null()).stdout(Stdio::null());
        Self { child: command.spawn().expect("it starts") }
    }

    fn signal(&self, signal: Signal) {
        kill(Pid::from_raw(i32::try_from(self.child.id()).expect("a pid")), signal).expect("it runs");
    }

    /// Returns true if it takes signals as news by now.
    fn is_listening(&self) -> bool {
        let is_blocked = || {
            let status = std::fs::read_to_string(format!("/proc/{}/status", self.child.id())).unwrap_or_default();
            let blocked = status.lines().find_map(|line| line.strip_prefix("SigBlk:"));
            let blocked = blocked.map(|mask| u64::from_str_radix(mask.trim(), 16).expect("a mask"));
            blocked.is_some_and(|blocked| blocked & 1 << (Signal::SIGTERM as u32 - 1) != 0)
        };
        // glibc blocks all of them for a moment while it starts a thread.
        (0..3).all(|_| {
            std::thread::sleep(Duration::from_millis(10));
            is_blocked()
        })
    }

    fn wait(&mut self) -> ExitStatus {
        let deadline = Instant::now() + PATIENCE;
        loop {
            if let Some(status) = self.child.try_wait().expect("waitable") {
                return status;
            }
            assert!(Instant::now() < deadline, "it does not end");
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

impl Drop for Lead {
    fn drop(&mut self) {
        // The second signal kills what its command has started, too.
        let deadline = Instant::now() + PATIENCE;
        while matches!(self.child.try_wait(), Ok(None)) && Instant::now() < deadline {
            self.signal(Signal::SIGTERM);
            std::thread::sleep(Duration::from_millis(50));
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Writes until it is ended.
const BEATS: &str = r#"while :; do read up rest </proc/uptime; echo "$HEADCOUNT_TERM $up" >>beats; sleep 0.02; done"#;
/// Writes in a process of its own that does not listen to SIGTERM; neither does the command.
const STUBBORN: &str = r#"trap '' TERM
(while :; do read up rest </proc/uptime; echo "$HEADCOUNT_TERM $up" >>beats; sleep 0.02; done) &
while :; do sleep 0.02; done"#;

#[test]
fn a_command_runs_at_the_leader_alone_and_moves_with_leadership() {
    let cluster = Cluster::start();
    let _leads = cluster.lead_everywhere(&["--keep"], BEATS);
    let (mut term, _) = cluster.beat_above(0);
    for _ in 0..3 {
        let (at, now) = cluster.leader_above(term - 1);
        assert_eq!(now, term, "it runs in the leader's term");
        let to = THREE[(at + 1) % 3];
        // Whoever has just begun to lead may not have been acknowledged by it yet.
        wait_for("it resigns", || {
            cluster.agents[at].client(&["leader", "resign", "--to", to]).0.success().then_some(())
        });
        (term, _) = cluster.beat_above(term);
    }
    assert!(cluster.assert_no_overlap().len() >= 4);
}

#[test]
fn a_leaving_agent_hands_over_after_its_command_has_ended() {
    let mut cluster = Cluster::start();
    // It takes a while to end, and writes meanwhile.
    let slow = BEATS.replace("done", r#"[ -z "$late" ] || { n=$((n+1)); [ $n -lt 10 ] || exit 0; }; done"#);
    let slow = format!("trap 'late=1' TERM\n{slow}");
    let mut leads = cluster.lead_everywhere(&[], &slow);
    let (term, _) = cluster.beat_above(0);
    let (at, _) = cluster.leader_above(term - 1);
    cluster.agents[at].signal(Signal::SIGTERM);
    let left = cluster.agents[at].wait();
    assert_eq!(left.code(), Some(0), "{}", cluster.agents[at].log());
    assert_eq!(leads[at].wait().code(), Some(75), "leadership ended before the command did");
    cluster.beat_above(term);
    cluster.assert_no_overlap();
}

#[test]
fn the_command_of_a_stopped_agent_is_dead_before_anothers_runs() {
    let cluster = Cluster::start();
    let mut leads = cluster.lead_everywhere(&[], STUBBORN);
    let (term, _) = cluster.beat_above(0);
    let (at, _) = cluster.leader_above(term - 1);
    cluster.agents[at].signal(Signal::SIGSTOP);
    cluster.beat_above(term);
    assert_eq!(leads[at].wait().code(), Some(75), "what does not listen is killed");
    cluster.assert_no_overlap();
    cluster.agents[at].signal(Signal::SIGCONT);
}

#[test]
fn the_command_of_a_killed_agent_is_dead_before_anothers_runs() {
    let mut cluster = Cluster::start();
    let _leads = cluster.lead_everywhere(&[], BEATS);
    let (term, _) = cluster.beat_above(0);
    let (at, _) = cluster.leader_above(term - 1);
    drop(cluster.agents.remove(at));
    cluster.beat_above(term);
    cluster.assert_no_overlap();
}

#[test]
fn a_command_dies_with_the_process_that_runs_it() {
    let cluster = Cluster::start();
    let (at, term) = cluster.leader_above(0);
    let lead = Lead::start(&cluster.agents[at].http, cluster.data.path(), &[], BEATS);
    cluster.beat_above(0);
    lead.signal(Signal::SIGKILL);
    drop(lead);
    let beats = wait_for("it writes no more", || {
        let before = cluster.beats().len();
        std::thread::sleep(Duration::from_millis(300));
        (cluster.beats().len() == before).then_some(before)
    });
    assert!(beats > 0);
    // Nobody said that it has ended: leadership is handed over when its time has run out.
    let (resigned, text) = cluster.agents[at].client(&["leader", "resign"]);
    assert!(resigned.success(), "{text}");
    cluster.leader_above(term);
}

#[test]
fn the_exit_code_of_a_command_passes_through_and_its_background_processes_end_with_it() {
    let cluster = Cluster::start();
    let (at, _) = cluster.leader_above(0);
    let http = &cluster.agents[at].http;
    let run = |script: &str| Lead::start(http, cluster.data.path(), &[], script).wait().code();
    assert_eq!(run("exit 7"), Some(7));
    assert_eq!(run("kill -KILL $$"), Some(137));
    let env = r#"[ "$HEADCOUNT_NODE" ] && [ "$HEADCOUNT_TERM" -gt 0 ] && [ "$HEADCOUNT_AGENT" ]"#;
    assert_eq!(run(env), Some(0));
    assert_eq!(run(&format!("({BEATS}) & until [ -s beats ]; do sleep 0.02; done; sleep 0.2")), Some(0));
    let count = cluster.beats().len();
    std::thread::sleep(Duration::from_millis(200));
    assert_eq!((count > 0, cluster.beats().len()), (true, count), "nothing of it is left");
    let masks = ["lead", "--http", http, "--", "grep", "^SigBlk", "/proc/self/status"];
    let masks = Command::new(HEADCOUNT).args(masks).output().expect("it runs").stdout;
    let masks = String::from_utf8(masks).expect("text");
    assert_eq!(masks, "SigBlk:\t0000000000000000\n", "no signal is kept from it");
    let missing = Command::new(HEADCOUNT).args(["lead", "--http", http, "--", "no-such-command"]).status();
    assert_eq!(missing.expect("it runs").code(), Some(127));
    let grace = Command::new(HEADCOUNT).args(["lead", "--http", http, "--grace", "1s", "--", "true"]).status();
    assert_eq!(grace.expect("it runs").code(), Some(2), "more than a third of the lease");
}

#[test]
fn a_signal_to_stop_is_passed_on() {
    let cluster = Cluster::start();
    let (at, _) = cluster.leader_above(0);
    let script = format!("trap 'exit 3' TERM\n{BEATS}");
    for signal in [Signal::SIGTERM, Signal::SIGINT] {
        let before = cluster.beats().len();
        let mut lead = Lead::start(&cluster.agents[at].http, cluster.data.path(), &[], &script);
        wait_for("it runs", || (cluster.beats().len() > before).then_some(()));
        lead.signal(signal);
        assert_eq!(lead.wait().code(), Some(3));
    }
    let mut waiting = Lead::start(&cluster.agents[(at + 1) % 3].http, cluster.data.path(), &[], &script);
    wait_for("it listens for signals", || waiting.is_listening().then_some(()));
    waiting.signal(Signal::SIGTERM);
    assert_eq!(waiting.wait().code(), Some(0), "it never ran");
}

#[test]
fn signals_that_are_the_commands_alone_are_passed_on_as_they_are() {
    // Nobody else could come to lead while the machine is busy: a signal that came to no command would mean nothing.
    let cluster = Cluster::of(&["a"]);
    let (at, _) = cluster.leader_above(0);
    let traps = ["HUP", "QUIT", "USR1", "USR2", "WINCH"].map(|name| format!("trap 'echo {name} >>told' {name}\n"));
    let traps = traps.concat();
    let script = format!("{traps}{BEATS}");
    let mut lead = Lead::start(&cluster.agents[at].http, cluster.data.path(), &["--keep"], &script);
    let told = || std::fs::read_to_string(cluster.data.path().join("told")).unwrap_or_default();
    wait_for("it runs", || (!cluster.beats().is_empty()).then_some(()));
    for (signal, name) in [
        (Signal::SIGUSR1, "USR1\n"),
        (Signal::SIGUSR2, "USR2\n"),
        (Signal::SIGWINCH, "WINCH\n"),
        (Signal::SIGQUIT, "QUIT\n"),
        (Signal::SIGHUP, "HUP\n"),
    ] {
        // Sent again each second: the command may be started anew after a pause of the agent, which ends its claim.
        let mut sent_at: Option<Instant> = None;
        wait_for(&format!("it is told {name}"), || {
            if sent_at.is_none_or(|sent_at| sent_at.elapsed() > Duration::from_secs(1)) {
                lead.signal(signal);
                sent_at = Some(Instant::now());
            }
            told().ends_with(name).then_some(())
        });
    }
    let told = told();
    let mut names: Vec<&str> = told.lines().collect();
    names.dedup();
    assert_eq!(names, ["USR1", "USR2", "WINCH", "QUIT", "HUP"]);
    let count = cluster.beats().len();
    wait_for("it runs on", || (cluster.beats().len() > count).then_some(()));
    lead.signal(Signal::SIGTERM);
    assert_eq!(lead.wait().code(), Some(143));
}

#[test]
fn while_no_command_runs_a_signal_for_one_means_nothing_and_a_hangup_ends_the_wait() {
    let cluster = Cluster::start();
    let (at, _) = cluster.leader_above(0);
    let mut waiting = Lead::start(&cluster.agents[(at + 1) % 3].http, cluster.data.path(), &[], BEATS);
    wait_for("it listens for signals", || waiting.is_listening().then_some(()));
    for signal in [Signal::SIGUSR1, Signal::SIGUSR2, Signal::SIGWINCH] {
        waiting.signal(signal);
    }
    std::thread::sleep(Duration::from_millis(500));
    assert!(waiting.child.try_wait().expect("waitable").is_none(), "it waits on");
    waiting.signal(Signal::SIGHUP);
    assert_eq!((waiting.wait().code(), cluster.beats().len()), (Some(0), 0));
}

#[test]
fn what_could_never_run_is_refused_at_once_by_whoever_waits() {
    let agent = Agent::start("a", &[], &[]);
    let data = tempfile::tempdir().expect("a directory");
    std::fs::write(data.path().join("plain"), "").expect("written");
    let cases: [(&[&str], i32); 5] = [
        (&["--", "no-such-command"], 127),
        (&["--", "./no-such-command"], 127),
        (&["--", "./plain"], 126),
        (&["--", "/"], 126),
        (&["--grace", "1h", "--", "true"], 2),
    ];
    for (arguments, code) in cases {
        let run =
            Command::new(HEADCOUNT).args(["lead", "--http", &agent.http]).args(arguments).current_dir(&data).output();
        let run = run.expect("it runs");
        assert_eq!(run.status.code(), Some(code), "{arguments:?}: {}", String::from_utf8_lossy(&run.stderr));
    }
}

#[test]
fn where_nobody_is_elected_no_command_runs() {
    let agent = Agent::start("a", &[], &[]);
    let mut lead = Lead::start(&agent.http, Path::new("."), &[], "exit 0");
    assert_eq!(lead.wait().code(), Some(1));
}

/// The claim that the agent below gives.
const CLAIM: Duration = Duration::from_secs(6);

/// What an agent does with one request for led work: when it answers, and whether at all.
type Late = fn(asked: &str, count: usize) -> Option<Duration>;

/// Starts something that answers like an agent that leads, as late as told. Returns its address, and the requests for led
/// work as they come, each with the hundredths of a second since the system was started.
fn late_agent(late: Late) -> (String, std::sync::mpsc::Receiver<(String, u64)>) {
    use std::io::{BufRead as _, BufReader, Write as _};

    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("bound");
    let http = listener.local_addr().expect("an address").to_string();
    let (tell, told) = std::sync::mpsc::channel();
    let leader = serde_json::json!({"leader": "a", "term": 1, "is_me": true, "mode": "quorum", "state": "led",
        "lease_remaining_ms": CLAIM.as_millis() as u64, "contends": null});
    let work = serde_json::json!({"id": "0000000000000001-1", "node": "a", "term": 1,
        "lease_remaining_ms": CLAIM.as_millis() as u64});
    std::thread::spawn(move || {
        let mut seen: Vec<String> = Vec::new();
        for mut stream in listener.incoming().map_while(Result::ok) {
            let at = uptime();
            let mut lines = BufReader::new(&stream).lines().map_while(Result::ok);
            let Some(first) = lines.next() else { continue };
            lines.take_while(|line| !line.is_empty()).for_each(drop);
            let asked = first.rsplit_once(' ').map_or(first.clone(), |(asked, _)| asked.to_owned());
            let count = seen.iter().filter(|other| **other == asked).count();
            seen.push(asked.clone());
            let is_work = asked.starts_with("POST /v1/leader/work");
            let body = if asked.contains("/work") { work.to_string() } else { leader.to_string() };
            if asked.contains("/work") {
                let _ = tell.send((asked.clone(), at));
            }
            // Whoever is kept waiting keeps nobody else waiting.
            std::thread::spawn(move || {
                match if is_work { late(&asked, count) } else { Some(Duration::ZERO) } {
                    Some(pause) => std::thread::sleep(pause),
                    None => return std::thread::sleep(PATIENCE),
                }
                let head = "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\nconnection: close\r\n";
                let _ = write!(stream, "{head}content-length: {}\r\n\r\n{body}", body.len());
            });
        }
    });
    (http, told)
}

/// Returns the hundredths of a second since the system was started.
fn uptime() -> u64 {
    let text = std::fs::read_to_string("/proc/uptime").expect("it is there");
    text.split(' ').next().expect("a word").replace('.', "").parse().expect("a time")
}

/// Runs a command at an agent that answers late and then no more; returns the requests for led work, and the last beat.
fn last_beat_at(late: Late) -> (Vec<(String, u64)>, u64) {
    let folder = tempfile::tempdir().expect("a directory");
    let (http, told) = late_agent(late);
    let mut lead = Lead::start(&http, folder.path(), &["--grace", "200ms"], BEATS);
    assert_eq!(lead.wait().code(), Some(75), "leadership is lost");
    let beats = std::fs::read_to_string(folder.path().join("beats")).expect("it ran");
    let last = beats.lines().filter_map(|line| line.split_once(' ')?.1.replace('.', "").parse().ok()).next_back();
    (told.try_iter().collect(), last.expect("a beat"))
}

#[test]
fn a_claim_counts_from_the_first_question_however_late_the_answer_comes() {
    let claim = CLAIM.as_millis() as u64 / 10;
    // The answer to the first request comes late, and no renewal is answered.
    let late: Late = |asked, _| (asked == "POST /v1/leader/work").then_some(CLAIM / 6);
    let (asked, last) = last_beat_at(late);
    // A request that a busy machine has wait for a quarter of the claim is sent again.
    let is_first = |(request, _): &&(String, u64)| request == "POST /v1/leader/work";
    let begun = asked.iter().rfind(is_first).expect("it asked").1;
    assert!(last <= begun + claim, "asked at {begun}, and it ran until {last}: {asked:?}");
}

#[test]
fn a_claim_counts_from_the_question_for_a_renewal_however_late_the_answer_comes() {
    let claim = CLAIM.as_millis() as u64 / 10;
    // The first renewal is answered late, and no other one. What asks gives up after a quarter of the claim.
    let late: Late = |asked, count| match (asked == "POST /v1/leader/work", count) {
        (true, _) => Some(Duration::ZERO),
        (false, 0) => Some(CLAIM / 5),
        (false, _) => None,
    };
    let (asked, last) = last_beat_at(late);
    let renewed = asked[1].1;
    assert!(last <= renewed + claim, "renewed at {renewed}, and it ran until {last}: {asked:?}");
    assert!(last >= renewed + claim / 2, "the renewal counts: {renewed}, {last}");
}

/// Runs a command at an agent that answers at once; returns how often it was told that the command has ended.
fn ends_told(script: &str) -> usize {
    let folder = tempfile::tempdir().expect("a directory");
    let (http, told) = late_agent(|_, _| Some(Duration::ZERO));
    assert_eq!(Lead::start(&http, folder.path(), &[], script).wait().code(), Some(0), "{script}");
    told.try_iter().filter(|(asked, _)| asked.starts_with("DELETE /v1/leader/work/")).count()
}

#[test]
fn work_is_reported_as_ended_once_no_process_of_it_is_left_that_runs() {
    assert_eq!(ends_told("sleep 0.1"), 1);
    assert_eq!(ends_told("(sleep 60 & exec setsid sleep 60) & sleep 0.3"), 1);
}

/// Ways in which a process leaves the group of the command that started it.
const WAYS_OUT: [&str; 3] = ["timeout 900", "setsid", "set -m;"];

#[test]
fn what_has_left_the_commands_group_is_gone_when_its_end_is_reported() {
    for way_out in WAYS_OUT {
        let folder = tempfile::tempdir().expect("a directory");
        let (http, told) = late_agent(|_, _| Some(Duration::ZERO));
        // It ignores SIGTERM, and the command ends once it has its group.
        let escaped = "trap \"\" TERM; echo $$ >pid.new; mv pid.new pid; while [ -e pid ]; do sleep 1; done";
        let script = format!("{way_out} sh -c '{escaped}' & until [ -s pid ]; do sleep 0.02; done; exit 7");
        assert_eq!(Lead::start(&http, folder.path(), &[], &script).wait().code(), Some(7), "{way_out}");
        let pid = std::fs::read_to_string(folder.path().join("pid")).expect("it ran");
        assert!(!is_running(pid.trim()), "{way_out}");
        let ends = told.try_iter().filter(|(asked, _)| asked.starts_with("DELETE /v1/leader/work/"));
        assert_eq!(ends.count(), 1, "{way_out}");
    }
}

#[test]
fn what_forks_while_it_is_being_ended_is_gone_too() {
    let folder = tempfile::tempdir().expect("a directory");
    let (http, _told) = late_agent(|_, _| Some(Duration::ZERO));
    // Each process of the chain starts the next one and ends.
    let chain = "hop() { echo >>hops && hop & }; hop";
    let script = format!("setsid sh -c '{chain}' & until [ -s hops ]; do sleep 0.02; done");
    assert_eq!(Lead::start(&http, folder.path(), &[], &script).wait().code(), Some(0));
    let hops = || std::fs::metadata(folder.path().join("hops")).expect("it ran").len();
    let before = hops();
    std::thread::sleep(Duration::from_millis(300));
    assert_eq!(hops(), before, "nobody hops on");
}

#[test]
fn what_has_left_the_commands_group_dies_with_the_process_that_runs_it() {
    let folder = tempfile::tempdir().expect("a directory");
    let (http, _told) = late_agent(|_, _| Some(Duration::ZERO));
    let script = "setsid sh -c 'echo $$ >pid.new; mv pid.new pid; while [ -e pid ]; do sleep 1; done' & wait";
    let lead = Lead::start(&http, folder.path(), &[], script);
    let pid = wait_for("it runs", || std::fs::read_to_string(folder.path().join("pid")).ok());
    lead.signal(Signal::SIGKILL);
    wait_for("it is gone", || (!is_running(pid.trim())).then_some(()));
}

#[test]
fn a_step_of_the_wall_clock_changes_nothing() {
    let library = ["x86_64-linux-gnu", "aarch64-linux-gnu", "."]
        .map(|place| format!("/usr/lib/{place}/faketime/libfaketimeMT.so.1"));
    let Some(library) = library.iter().find(|path| Path::new(path).exists()) else {
        return skip("no libfaketime here");
    };
    let folder = tempfile::tempdir().expect("a directory");
    let path = |name: &str| folder.path().join(name);
    let step = |by: &str| {
        std::fs::write(path("new"), by).expect("written");
        std::fs::rename(path("new"), path("step")).expect("renamed");
    };
    step("+0");
    // Of all clocks the wall clock alone.
    let prefix = [
        "env".to_owned(),
        format!("LD_PRELOAD={library}"),
        format!("FAKETIME_TIMESTAMP_FILE={}", path("step").display()),
        "FAKETIME_NO_CACHE=1".to_owned(),
        "FAKETIME_DONT_FAKE_MONOTONIC=1".to_owned(),
    ];
    let data = path("data").display().to_string();
    let arguments = ["--name", "a", "--profile", "local", "--bind", "127.0.0.1:0", "--http", "127.0.0.1:0"];
    let agent = Agent::start_with(&prefix, &[&arguments[..], &["--data-dir", &data, "--voters", "a"]].concat());
    let mut command = Command::new(&prefix[0]);
    command.args(&prefix[1..]).arg(HEADCOUNT).args(["lead", "--http", &agent.http, "--", "sh", "-c", BEATS]);
    command.current_dir(folder.path()).stdin(Stdio::null()).stdout(Stdio::null());
    let mut lead = Lead { child: command.spawn().expect("it starts") };
    let beats = || std::fs::read_to_string(path("beats")).unwrap_or_default().lines().count();
    let hour = |prefix: &[String]| {
        let words = [prefix, &["date", "-u", "+%Y-%m-%dT%H:"].map(str::to_owned)].concat();
        let told = Command::new(&words[0]).args(&words[1..]).output().expect("it runs").stdout;
        String::from_utf8(told).expect("text").trim().to_owned()
    };
    for by in ["+3600", "-3600"] {
        step(by);
        wait_for("lines of the log show it", || {
            // It says that it has read its configuration.
            agent.signal(Signal::SIGHUP);
            assert!(agent.get("/healthz").starts_with("HTTP/1.1 200"), "{}", agent.log());
            let stepped = hour(&prefix);
            (stepped != hour(&["env".to_owned()]) && agent.log().lines().last()?.contains(&stepped)).then_some(())
        });
        let before = beats();
        wait_for("the command runs on", || (beats() > before + 10).then_some(()));
    }
    let text = std::fs::read_to_string(path("beats")).expect("it ran");
    assert!(text.lines().all(|line| line.starts_with("1 ")), "one term");
    lead.signal(Signal::SIGTERM);
    assert_eq!(lead.wait().code(), Some(143));
}

/// Returns true if a process of this id is there, and is no zombie.
fn is_running(id: &str) -> bool {
    let stat = std::fs::read_to_string(Path::new("/proc").join(id).join("stat")).unwrap_or_default();
    stat.rsplit(')').next().is_some_and(|rest| !rest.is_empty() && !rest.trim_start().starts_with('Z'))
}
