//! Machines and terminals at which README is followed.

use super::*;

/// Makes a directory as a reader has it: config.toml, and the program where cargo builds it.
pub(super) fn checkout() -> TempDir {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path();
    fs::copy("config.toml", path.join("config.toml")).expect("config.toml");
    fs::create_dir_all(path.join("target/debug")).expect("a directory");
    symlink(HEADCOUNT, path.join("target/debug/headcount")).expect("a link");
    fs::create_dir(path.join("bin")).expect("a directory");
    let cargo = path.join("bin/cargo");
    let script = format!("#!/bin/sh\n[ \"$1 $2\" = 'run --' ] && shift 2 && exec {HEADCOUNT} \"$@\"\n");
    fs::write(&cargo, script).expect("a script");
    fs::set_permissions(&cargo, fs::Permissions::from_mode(0o755)).expect("executable");
    directory
}

/// Has `headcount` in the path, as after an installation.
pub(super) fn install(checkout: &Path) {
    symlink(HEADCOUNT, checkout.join("bin/headcount")).expect("a link");
}

impl Terminal {
    /// Does what README says, and sees whether that comes of it.
    pub(super) fn follow(&mut self, step: &Step, by: fn(&str) -> String) {
        let Step { command, printed } = step;
        let said: Vec<&str> = printed.iter().flatten().copied().filter(|line| !line.is_empty()).collect();
        // An error is one line that begins with the program's name; an agent's line names its node there.
        let is_error = said.iter().any(|line| line.starts_with("headcount: ") && !line.contains(": node="));
        let deadline = Instant::now() + PATIENCE;
        let (mut shown, code) = self.run(command);
        assert_eq!(code, i32::from(is_error), "{command}:\n{}", self.log.join("\n"));
        while printed.is_some() && !agree(&shown, &said, by) {
            let context = || format!("{command}\n\nprints\n{}\n\nthe page has\n{}", shown.join("\n"), said.join("\n"));
            assert!(Instant::now() < deadline, "{}\n\nall of it:\n{}", context(), self.log.join("\n"));
            if ASK.contains(command) {
                std::thread::sleep(Duration::from_millis(50));
                shown = self.run(command).0;
            } else if let Some(line) = self.line(deadline) {
                // Of what runs in the background.
                shown.extend(Some(line).filter(|line| !line.is_empty()));
            }
        }
    }

    /// Starts a command that stays, and sees whether it begins as README says.
    pub(super) fn stay(&mut self, step: &Step, begins: &str) {
        let Step { command, printed } = step;
        self.type_in(command);
        let deadline = Instant::now() + PATIENCE;
        let next = |terminal: &mut Self| {
            let line = terminal.line(deadline);
            line.unwrap_or_else(|| panic!("{command} prints no more than\n{}", terminal.log.join("\n")))
        };
        let mut line = next(self);
        while !line.starts_with(begins) {
            line = next(self);
        }
        for (place, said) in printed.iter().flatten().enumerate() {
            if place > 0 {
                line = next(self);
            }
            assert_eq!(common(&line), common(said), "{command}:\n{}", self.log.join("\n"));
        }
    }
}

/// A few machines at which README is followed.
pub(super) struct Stage {
    pub(super) network: Network,
    pub(super) checkouts: Vec<TempDir>,
}

impl Stage {
    /// Sets up so many machines, 10.0.0.1 the first; or why that cannot be had here.
    pub(super) fn new(hosts: usize) -> Result<Self, String> {
        for tool in ["bash", "curl"] {
            let found = Command::new(tool).arg("--version").stdout(Stdio::null()).status();
            found.map_err(|error| format!("`{tool}` is needed: {error}"))?;
        }
        let stage = Self { network: Network::new(hosts)?, checkouts: (0..hosts).map(|_| checkout()).collect() };
        for host in 0..hosts {
            let address = format!("10.0.0.{}/24", host + 1);
            let added = stage.program(host, &["ip", "address", "add", &address, "dev", "eth0"]).status();
            assert!(added.is_ok_and(|status| status.success()), "{address}");
        }
        Ok(stage)
    }

    pub(super) fn path(&self, host: usize) -> &Path {
        self.checkouts[host].path()
    }

    pub(super) fn program(&self, host: usize, words: &[&str]) -> Command {
        program(&self.network.on(host), words, self.path(host))
    }

    pub(super) fn terminal(&self, host: usize) -> Terminal {
        Terminal::open(&self.network.on(host), self.path(host))
    }

    /// Waits until an agent of a host has such a line in its metrics.
    pub(super) fn wait_for_metric(&self, host: usize, port: u16, line: &str) {
        let address = format!("http://127.0.0.1:{port}/metrics");
        wait_for(&format!("{line} of {port}"), || {
            let Output { stdout, .. } = self.program(host, &["curl", "-s", &address]).output().expect("curl runs");
            String::from_utf8_lossy(&stdout).lines().any(|metric| metric == line).then_some(())
        });
    }
}

impl Drop for Stage {
    fn drop(&mut self) {
        for host in 0..self.checkouts.len() {
            let name = self.network.on(host).pop().expect("its name");
            let Ok(output) = Command::new("ip").args(["netns", "pids", &name]).output() else { continue };
            for pid in String::from_utf8_lossy(&output.stdout).lines().filter_map(|line| line.trim().parse().ok()) {
                let _ = kill(Pid::from_raw(pid), Signal::SIGKILL);
            }
        }
    }
}

/// Returns the words by which a command that stays is known to work; nothing for the others.
pub(super) fn stays(command: &str) -> Option<&'static str> {
    let is_in_background = command.ends_with('&');
    let known = STAY.iter().find(|(begin, _)| !is_in_background && command.starts_with(begin));
    known.map(|(_, works)| *works)
}

pub(super) fn likewise_bind(host: usize) -> (String, String) {
    ("--bind 10.0.0.1:".to_owned(), format!("--bind 10.0.0.{}:", host + 1))
}

/// The key file of a sealed cluster, which README has copied to all machines.
const KEY_FILE: &str = "cluster.key";

/// Follows a section on the first machine; agents that it starts are started on the other ones, too, with what README
/// says is each one's own in the place of the first one's. The terminal that commands were typed into.
pub(super) fn follow_on_all_machines(
    stage: &Stage,
    heading: &str,
    own: impl Fn(usize) -> Vec<(String, String)>,
) -> Terminal {
    for host in 0..stage.checkouts.len() {
        install(stage.path(host));
    }
    let mut typing = stage.terminal(0);
    let mut staying = Vec::new();
    for step in steps(heading) {
        let Some(works) = stays(step.command) else {
            typing.follow(&step, common);
            continue;
        };
        if step.command.contains(KEY_FILE) && !stage.path(0).join(KEY_FILE).exists() {
            // Made in an earlier section.
            assert_eq!(typing.run(&format!("headcount keys generate {KEY_FILE}")).1, 0);
        }
        let mut terminal = stage.terminal(0);
        terminal.stay(&step, works);
        staying.push(terminal);
        for host in (1..stage.checkouts.len()).filter(|_| step.command.starts_with("headcount agent ")) {
            if step.command.contains(KEY_FILE) {
                std::fs::copy(stage.path(0).join(KEY_FILE), stage.path(host).join(KEY_FILE))
                    .expect("copied, as it says");
            }
            let mut terminal = stage.terminal(host);
            let change = |command: String, (one, other): (String, String)| command.replace(&one, &other);
            terminal.type_in(&own(host).into_iter().fold(step.command.to_owned(), change));
            staying.push(terminal);
        }
    }
    typing
}
