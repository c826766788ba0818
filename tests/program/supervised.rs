//! An agent under a supervisor that is spoken to as systemd is: readiness, status, reloads, the watchdog, and the unit itself.

use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use crate::support::{Agent, HEADCOUNT, PATIENCE, skip, wait_for};
use nix::sys::signal::Signal;

/// The supervisor's end of the socket, and all that was said so far, line by line.
struct Supervisor {
    socket: UnixDatagram,
    lines: Vec<String>,
}

impl Supervisor {
    fn new(socket: UnixDatagram) -> Self {
        socket.set_read_timeout(Some(Duration::from_millis(50))).expect("set");
        Self { socket, lines: Vec::new() }
    }

    fn read(&mut self) {
        let mut buffer = [0; 4096];
        while let Ok(length) = self.socket.recv(&mut buffer) {
            let said = String::from_utf8_lossy(&buffer[..length]).into_owned();
            self.lines.extend(said.lines().map(str::to_owned));
        }
    }

    fn count(&mut self, line: &str) -> usize {
        self.read();
        self.lines.iter().filter(|said| *said == line).count()
    }

    fn wait_for(&mut self, what: &str, is_it: impl Fn(&str) -> bool) {
        let deadline = Instant::now() + PATIENCE;
        loop {
            self.read();
            if self.lines.iter().any(|line| is_it(line)) {
                return;
            }
            assert!(Instant::now() < deadline, "{what} is not said: {:?}", self.lines);
        }
    }
}

fn start(variables: &[&str]) -> Agent {
    let prefix: Vec<String> = ["env"].iter().chain(variables).map(|word| (*word).to_owned()).collect();
    let arguments = ["--name", "a", "--profile", "local", "--bind", "127.0.0.1:0", "--http", "127.0.0.1:0"];
    Agent::start_with(&prefix, &arguments)
}

#[test]
fn the_supervisor_is_told_when_the_agent_listens_reloads_and_ends() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("notify");
    let mut supervisor = Supervisor::new(UnixDatagram::bind(&path).expect("bound"));
    let mut agent = start(&[&format!("NOTIFY_SOCKET={}", path.display())]);
    supervisor.wait_for("READY", |line| line == "READY=1");
    supervisor.wait_for("a status", |line| line == "STATUS=a is up; 1 of 1 member up");
    assert!(agent.client(&["drain"]).0.success());
    supervisor.wait_for("another status", |line| line == "STATUS=a is up, draining; 1 of 1 member up");
    agent.signal(Signal::SIGHUP);
    supervisor.wait_for("the reload", |line| line == "RELOADING=1");
    supervisor.wait_for("its time", |line| {
        line.strip_prefix("MONOTONIC_USEC=").is_some_and(|usec| usec.parse::<u64>().is_ok())
    });
    wait_for("the end of the reload", || (supervisor.count("READY=1") == 2).then_some(()));
    assert_eq!(supervisor.count("WATCHDOG=1"), 0, "there is none");
    agent.signal(Signal::SIGTERM);
    supervisor.wait_for("the end", |line| line == "STOPPING=1");
    assert!(agent.wait().success());
}

#[test]
fn a_watchdog_is_fed_while_the_agent_turns_and_not_while_it_stands_still() {
    let name = format!("headcount-test-{}", std::process::id());
    let address = SocketAddr::from_abstract_name(&name).expect("a name");
    let mut supervisor = Supervisor::new(UnixDatagram::bind_addr(&address).expect("bound"));
    let agent = start(&[&format!("NOTIFY_SOCKET=@{name}"), "WATCHDOG_USEC=4000000"]);
    wait_for("it is fed", || (supervisor.count("WATCHDOG=1") >= 1).then_some(()));
    wait_for("it is fed more than once in the watchdog's time", || {
        let (first, fed) = (Instant::now(), supervisor.count("WATCHDOG=1"));
        wait_for("it is fed again and again", || (supervisor.count("WATCHDOG=1") >= fed + 2).then_some(()));
        (first.elapsed() < Duration::from_secs(4)).then_some(())
    });
    agent.signal(Signal::SIGSTOP);
    let stat = format!("/proc/{}/stat", agent.id());
    wait_for("it stands still", || {
        let stat = std::fs::read_to_string(&stat).ok()?;
        stat.rsplit(')').next()?.trim_start().starts_with('T').then_some(())
    });
    let fed = supervisor.count("WATCHDOG=1");
    // Longer than it takes a driver that turns.
    let until = Instant::now() + Duration::from_secs(3);
    while Instant::now() < until {
        assert_eq!(supervisor.count("WATCHDOG=1"), fed);
        std::thread::sleep(Duration::from_millis(10));
    }
    agent.signal(Signal::SIGCONT);
    wait_for("it is fed again", || (supervisor.count("WATCHDOG=1") > fed).then_some(()));
}

#[test]
fn a_watchdog_of_another_process_and_a_supervisor_that_is_gone_are_nobodys_business() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("notify");
    let mut supervisor = Supervisor::new(UnixDatagram::bind(&path).expect("bound"));
    let socket = format!("NOTIFY_SOCKET={}", path.display());
    let mut agent = start(&[&socket, "WATCHDOG_USEC=4000000", "WATCHDOG_PID=1"]);
    supervisor.wait_for("READY", |line| line == "READY=1");
    supervisor.wait_for("a status", |line| line.starts_with("STATUS=a is up"));
    assert_eq!(supervisor.count("WATCHDOG=1"), 0);
    drop(supervisor);
    agent.signal(Signal::SIGHUP);
    agent.signal(Signal::SIGTERM);
    assert!(agent.wait().success(), "{}", agent.log());
    let mut agent = start(&["NOTIFY_SOCKET=nowhere"]);
    wait_for("that is told", || agent.log().contains("NOTIFY_SOCKET=nowhere is not usable").then_some(()));
    agent.signal(Signal::SIGTERM);
    assert!(agent.wait().success(), "{}", agent.log());
}

/// Returns the text of the unit in `examples/deploy`.
fn unit() -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("examples/deploy/systemd/headcount.service");
    std::fs::read_to_string(path).expect("the unit")
}

#[test]
fn the_unit_is_one_that_systemd_understands() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("headcount.service");
    let here = unit().replace("/usr/local/bin/headcount", HEADCOUNT);
    // As it stands, and with the token and the key that it has in comments.
    let whole = here.replace("\n#LoadCredential", "\nLoadCredential").replace("\n#Environment", "\nEnvironment");
    assert_eq!(whole.matches("\nLoadCredential=").count(), 2);
    for text in [here, whole] {
        std::fs::write(&path, text).expect("written");
        match Command::new("systemd-analyze").arg("verify").arg(&path).output() {
            Err(error) => skip(&format!("systemd-analyze does not run: {error}")),
            Ok(output) => {
                let said = String::from_utf8_lossy(&output.stderr);
                assert!(output.status.success() && !said.contains("headcount.service"), "{said}");
            }
        }
    }
}

#[test]
fn the_unit_asks_for_what_the_agent_says() {
    let unit = unit();
    for line in ["Type=notify", "NotifyAccess=main", "ExecReload=/bin/kill -HUP $MAINPID"] {
        assert!(unit.lines().any(|found| found == line), "{line}");
    }
    let prevented = unit.lines().find_map(|line| line.strip_prefix("RestartPreventExitStatus=")).expect("the codes");
    let prevented: Vec<&str> = prevented.split(' ').collect();
    for (code, why) in [
        ("2", "usage or configuration"),
        ("4", "the data directory is refused"),
        ("5", "the name is in use"),
        ("6", "removed by an operator"),
        ("7", "refused by the cluster"),
        ("130", "told twice to stop"),
    ] {
        assert!(prevented.contains(&code), "{why}: another try would end alike, or is not wanted");
    }
    assert_eq!(prevented.len(), 6, "after anything else it is started again: {prevented:?}");
    let watchdog =
        unit.lines().find_map(|line| line.strip_prefix("WatchdogSec=")?.strip_suffix('s')?.parse::<u64>().ok());
    assert!(watchdog.is_some_and(|seconds| seconds >= 4), "the driver turns once a second");
}
