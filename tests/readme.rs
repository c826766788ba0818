//! README.md keeps its word: its commands run as they stand, and print what it says.
//!
//! How README is read:
//! - `sh`: commands, one a line. Those that go on for ever get a terminal of their own and stay. What they print is the
//!   `text` block right below, or the beginning of that for those that stay.
//! - `console`: a session, `$ ` before each command and what it prints below.
//! - `toml`: a configuration, or what goes into a Cargo.toml. `rust`: compiled by the tests of the documentation.
//! - any other `text`: a picture.
//!
//! Each section under a heading is one story, in a little network of its own: ports that README names are free there. What
//! differs from run to run is made equal on both sides, see [`common`]; everything else has to be the same.
#![cfg(all(feature = "agent", unix))]

mod support;

use std::fs;
use std::io::{BufRead as _, BufReader, Write as _};
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::Path;
use std::process::{Child, ChildStdin, Command, Output, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;
use support::netns::Network;
use support::{HEADCOUNT, PATIENCE, skip, wait_for};
use tempfile::TempDir;

const README: &str = include_str!("../README.md");

/// Blocks of commands that no test runs, and why.
const NOT_RUN: [(&str, &str); 4] = [
    ("headcount listen cache.changed jobs", "it listens, for ever"),
    ("cargo install --locked --path .", "it builds for minutes, and leaves a program behind"),
    ("cargo test", "it would run itself"),
    (
        "headcount lead --keep -- sh -c 'echo lead in term $HEADCOUNT_TERM; sleep 1000'",
        "another node may lead, for ever",
    ),
];

const FIVE_MINUTES: &str = "## Five minutes";
const BESIDE_A_SERVICE: &str = "## Beside your service";
const A_LEADER: &str = "### A leader";
const A_DATABASE: &str = "## Leadership by a database you already have";
const MESSAGES: &str = "### Messages";
const SIMULATE: &str = "## Before you build it: simulate and tune";

/// Sections whose commands are run by a test here.
const RUN: [&str; 6] = [FIVE_MINUTES, BESIDE_A_SERVICE, A_LEADER, MESSAGES, A_DATABASE, SIMULATE];

/// Commands that go on until they are stopped, and how the line begins by which they are known to work.
const STAY: [(&str, &str); 3] =
    [("cargo run --release -- dev", "NODE "), ("headcount agent ", "headcount: node="), ("curl -N ", "data:")];

/// Commands that only ask: what they show may still be on its way, so they are asked again.
const ASK: [&str; 6] = [
    "headcount members",
    "headcount leader",
    "headcount leader --http :7228",
    "headcount leader --nodes --http :7228",
    "headcount voters list",
    "headcount view",
];

/// A fenced block of README.
#[derive(Debug)]
struct Block {
    heading: &'static str,
    language: &'static str,
    lines: Vec<&'static str>,
    /// Whether nothing but an empty line stands between this block and the one before it.
    is_right_below: bool,
}

fn blocks() -> Vec<Block> {
    let mut blocks: Vec<Block> = Vec::new();
    let (mut heading, mut is_inside, mut is_right_below) = ("", false, false);
    for line in README.lines() {
        match (is_inside, line.strip_prefix("```")) {
            (false, Some(language)) => {
                blocks.push(Block { heading, language, lines: Vec::new(), is_right_below });
                is_inside = true;
            }
            (true, Some(_)) => (is_inside, is_right_below) = (false, true),
            (true, None) => blocks.last_mut().expect("a block is open").lines.push(line),
            (false, None) => {
                is_right_below &= line.is_empty();
                if line.starts_with('#') {
                    heading = line;
                }
            }
        }
    }
    assert!(!is_inside, "the last block has an end");
    blocks
}

/// What a reader types, and what README says comes of it.
#[derive(Debug)]
struct Step {
    command: &'static str,
    printed: Option<Vec<&'static str>>,
}

/// The commands of one section, in order.
fn steps(heading: &str) -> Vec<Step> {
    let blocks = blocks();
    let mut steps: Vec<Step> = Vec::new();
    for (index, block) in blocks.iter().enumerate().filter(|(_, block)| block.heading == heading) {
        match block.language {
            "sh" if !is_not_run(block) => {
                let run = block.lines.iter().map(|command| Step { command, printed: None });
                steps.extend(run);
                let below = blocks.get(index + 1).filter(|next| next.language == "text" && next.is_right_below);
                steps.last_mut().expect("a command").printed = below.map(|below| below.lines.clone());
            }
            "console" => {
                for line in &block.lines {
                    match line.strip_prefix("$ ") {
                        Some(command) => steps.push(Step { command, printed: Some(Vec::new()) }),
                        None => steps.last_mut().and_then(|step| step.printed.as_mut()).expect("a command").push(line),
                    }
                }
            }
            _ => {}
        }
    }
    assert!(!steps.is_empty(), "README has commands under {heading:?}");
    steps
}

fn is_not_run(block: &Block) -> bool {
    NOT_RUN.iter().any(|(text, _)| block.lines == [*text])
}

fn is_identity(word: &str) -> bool {
    word.len() == 16 && word.chars().all(|c| "0123456789abcdef".contains(c))
}

/// A line with what differs from run to run made equal: days, times, durations, ports that the system chose, identities,
/// numbers of terms and views, and which of the voters leads.
fn common(line: &str) -> String {
    let mut words: Vec<String> = line.split_whitespace().map(str::to_owned).collect();
    if words.first().is_some_and(|word| word == "leader") {
        words.splice(1.., ["NODE".to_owned()]);
    }
    if words.len() == 7 && is_identity(&words[6]) {
        // Which of the voters leads, and when the others were heard.
        words.splice(2..6, ["STANDING".to_owned()]);
    }
    for (place, word) in words.iter_mut().enumerate() {
        let is_made_of = |characters: &str| word.chars().all(|c| characters.contains(c));
        let is_time = word.len() == 8 && word.matches(':').count() == 2 && is_made_of("0123456789:");
        let digits = word.trim_start_matches(|c: char| c.is_ascii_digit() || c == '.');
        let is_duration = digits.len() < word.len() && ["ms", "s", "m", "h"].contains(&digits);
        let port = word.rsplit_once(':').and_then(|(_, port)| port.parse::<u16>().ok());
        if is_day(word) {
            "DAY".clone_into(word);
        } else if is_time {
            "TIME".clone_into(word);
        } else if is_duration {
            "DURATION".clone_into(word);
        } else if is_identity(word) {
            "IDENTITY".clone_into(word);
        } else if place < 2 && is_made_of("0123456789") {
            "NUMBER".clone_into(word);
        } else if port.is_some_and(|port| port >= 10_000) {
            let host = word.rsplit_once(':').expect("a port").0;
            *word = format!("{host}:PORT");
        }
    }
    words.join(" ")
}

fn is_day(word: &str) -> bool {
    word.len() == 10 && word.matches('-').count() == 2 && word.chars().all(|c| c.is_ascii_digit() || c == '-')
}

/// The line of an event, which comes when it comes.
fn is_event(line: &str) -> bool {
    line.split_whitespace().next().is_some_and(is_day)
}

/// Whether this is what README says: the same lines in the same order. Events are a matter of their own: those that it
/// shows come in that order, others may come between them, and none has its place among the other lines.
fn agree(printed: &[String], said: &[&str], by: fn(&str) -> String) -> bool {
    let of = |lines: &mut dyn Iterator<Item = &str>, events: bool| -> Vec<String> {
        lines.filter(|line| is_event(line) == events).map(by).collect()
    };
    let printed_lines = || printed.iter().map(String::as_str);
    let lines = of(&mut printed_lines(), false) == of(&mut said.iter().copied(), false);
    let events = of(&mut printed_lines(), true);
    let mut events = events.iter();
    lines && of(&mut said.iter().copied(), true).iter().all(|said| events.any(|event| event == said))
}

fn exactly(line: &str) -> String {
    line.trim_end().to_owned()
}

/// A directory as a reader has it: config.toml, and the program where cargo builds it.
fn checkout() -> TempDir {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path();
    fs::copy("config.toml", path.join("config.toml")).expect("config.toml");
    fs::create_dir_all(path.join("target/release")).expect("a directory");
    symlink(HEADCOUNT, path.join("target/release/headcount")).expect("a link");
    fs::create_dir(path.join("bin")).expect("a directory");
    let cargo = path.join("bin/cargo");
    let script = format!("#!/bin/sh\n[ \"$1 $2 $3\" = 'run --release --' ] && shift 3 && exec {HEADCOUNT} \"$@\"\n");
    fs::write(&cargo, script).expect("a script");
    fs::set_permissions(&cargo, fs::Permissions::from_mode(0o755)).expect("executable");
    directory
}

/// Has `headcount` in the path, as after an installation.
fn install(checkout: &Path) {
    symlink(HEADCOUNT, checkout.join("bin/headcount")).expect("a link");
}

/// A program with these words before it, in this directory, with nothing of the tester's own settings.
fn program(prefix: &[String], words: &[&str], checkout: &Path) -> Command {
    let mut all = prefix.iter().map(String::as_str).chain(words.iter().copied());
    let mut command = Command::new(all.next().expect("a program"));
    command.args(all).current_dir(checkout);
    for (name, _) in std::env::vars_os().filter(|(name, _)| name.to_string_lossy().starts_with("HEADCOUNT_")) {
        command.env_remove(name);
    }
    let path = std::env::var("PATH").unwrap_or_default();
    command.env("PATH", format!("{}:{path}", checkout.join("bin").display()));
    command
}

/// A shell that a reader types into.
struct Terminal {
    shell: Child,
    input: ChildStdin,
    lines: Receiver<String>,
    /// Everything it showed.
    log: Vec<String>,
}

impl Terminal {
    const MARK: &'static str = "@@@";

    fn open(prefix: &[String], checkout: &Path) -> Self {
        let mut command = program(prefix, &["bash", "--norc", "--noprofile"], checkout);
        let mut shell = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("bash runs");
        let mut input = shell.stdin.take().expect("piped");
        writeln!(input, "exec 2>&1; set -m; shopt -s expand_aliases").expect("it reads");
        let (sender, lines) = channel();
        let output = BufReader::new(shell.stdout.take().expect("piped"));
        std::thread::spawn(move || output.lines().map_while(Result::ok).all(|line| sender.send(line).is_ok()));
        Self { shell, input, lines, log: Vec::new() }
    }

    fn type_in(&mut self, line: &str) {
        writeln!(self.input, "{line}").expect("the shell reads");
    }

    /// The next line, unless it takes too long. What the shell says about its jobs is passed over.
    fn line(&mut self, deadline: Instant) -> Option<String> {
        loop {
            match self.lines.recv_timeout(deadline.saturating_duration_since(Instant::now())) {
                Ok(line) => {
                    self.log.push(line.clone());
                    if !is_about_jobs(&line) {
                        return Some(line);
                    }
                }
                Err(RecvTimeoutError::Timeout) => return None,
                Err(RecvTimeoutError::Disconnected) => panic!("the shell has ended:\n{}", self.log.join("\n")),
            }
        }
    }

    /// Runs a command to its end, or into the background; what is shown until then, and its exit code.
    fn run(&mut self, command: &str) -> (Vec<String>, i32) {
        self.type_in(command);
        // What is printed may have no end of line.
        self.type_in(&format!("printf '\\n{} %s\\n' $?", Self::MARK));
        let deadline = Instant::now() + PATIENCE;
        let mut lines = Vec::new();
        loop {
            let line = self.line(deadline);
            let line = line.unwrap_or_else(|| panic!("{command} does not end:\n{}", self.log.join("\n")));
            match line.strip_prefix(Self::MARK) {
                Some(code) => return (lines, code.trim().parse().expect("an exit code")),
                None if line.is_empty() => {}
                None => lines.push(line),
            }
        }
    }

    /// Does what README says, and sees whether that comes of it.
    fn follow(&mut self, step: &Step, by: fn(&str) -> String) {
        let Step { command, printed } = step;
        let said: Vec<&str> = printed.iter().flatten().copied().filter(|line| !line.is_empty()).collect();
        // An error is one line that begins with the program's name; an agent's line names its node there.
        let is_error = said.iter().any(|line| line.starts_with("headcount: ") && !line.contains(": node="));
        let deadline = Instant::now() + PATIENCE;
        let (mut shown, code) = self.run(command);
        assert_eq!(code, i32::from(is_error), "{command}:\n{}", self.log.join("\n"));
        while printed.is_some() && !agree(&shown, &said, by) {
            let context = || format!("{command}\n\nprints\n{}\n\nREADME has\n{}", shown.join("\n"), said.join("\n"));
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
    fn stay(&mut self, step: &Step, begins: &str) {
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

/// Whether the shell says how a job of its own fares.
fn is_about_jobs(line: &str) -> bool {
    let number = line.strip_prefix('[').map(|rest| rest.trim_start_matches(|c: char| c.is_ascii_digit()));
    line.starts_with("bash: line ") || number.is_some_and(|rest| rest.starts_with(']'))
}

impl Drop for Terminal {
    fn drop(&mut self) {
        let _ = self.shell.kill();
        let _ = self.shell.wait();
    }
}

/// A few machines at which README is followed.
struct Stage {
    network: Network,
    checkouts: Vec<TempDir>,
}

impl Stage {
    /// So many machines, 10.0.0.1 the first; or why that cannot be had here.
    fn new(hosts: usize) -> Result<Self, String> {
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

    fn path(&self, host: usize) -> &Path {
        self.checkouts[host].path()
    }

    fn program(&self, host: usize, words: &[&str]) -> Command {
        program(&self.network.on(host), words, self.path(host))
    }

    fn terminal(&self, host: usize) -> Terminal {
        Terminal::open(&self.network.on(host), self.path(host))
    }

    /// Waits until an agent of a host has such a line in its metrics.
    fn wait_for_metric(&self, host: usize, port: u16, line: &str) {
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

/// How a command that stays is known to work; nothing for the others.
fn stays(command: &str) -> Option<&'static str> {
    let is_in_background = command.ends_with('&');
    let known = STAY.iter().find(|(begin, _)| !is_in_background && command.starts_with(begin));
    known.map(|(_, works)| *works)
}

#[test]
fn five_minutes_go_as_readme_says() {
    let stage = match Stage::new(1) {
        Ok(stage) => stage,
        Err(reason) => return skip(&reason),
    };
    let (mut first, mut second) = (stage.terminal(0), stage.terminal(0));
    for step in steps(FIVE_MINUTES) {
        if let Some(works) = stays(step.command) {
            first.stay(&step, works);
            continue;
        }
        if step.command.starts_with("kill -9") {
            // A person takes longer than all of the links need to open.
            for port in [7118, 7128, 7138] {
                stage.wait_for_metric(0, port, "headcount_links 3");
            }
        }
        second.follow(&step, common);
        if step.command.starts_with("headcount watch") {
            stage.wait_for_metric(0, 7118, "headcount_http_streams 1");
        }
    }
    stage.wait_for_metric(0, 7118, "headcount_http_streams 0");
}

#[test]
fn an_agent_beside_a_service_is_started_and_asked_as_readme_says() {
    let stage = match Stage::new(2) {
        Ok(stage) => stage,
        Err(reason) => return skip(&reason),
    };
    let mut terminal = follow_on_all_machines(&stage, BESIDE_A_SERVICE, |host| {
        let names = ["a", "b"];
        vec![("--name a".to_owned(), format!("--name {}", names[host])), likewise_bind(host)]
    });
    let (members, code) = terminal.run("headcount wait 2");
    assert_eq!(code, 0, "they are one cluster: {members:?}");
}

#[test]
fn voters_elect_a_leader_as_readme_says() {
    let stage = match Stage::new(3) {
        Ok(stage) => stage,
        Err(reason) => return skip(&reason),
    };
    follow_on_all_machines(&stage, A_LEADER, |host| {
        let names = ["a", "b", "c"];
        vec![("--name a".to_owned(), format!("--name {}", names[host]))]
    });
}

#[test]
fn two_agents_on_one_file_are_led_as_readme_says() {
    let stage = match Stage::new(1) {
        Ok(stage) => stage,
        Err(reason) => return skip(&reason),
    };
    install(stage.path(0));
    let (mut agents, mut typing) = (Vec::new(), stage.terminal(0));
    for step in steps(A_DATABASE) {
        match stays(step.command) {
            Some(works) => {
                let mut agent = stage.terminal(0);
                agent.stay(&step, works);
                agents.push(agent);
            }
            None => typing.follow(&step, common),
        }
    }
    assert_eq!(agents.len(), 2);
}

#[test]
fn messages_are_sent_as_readme_says() {
    let stage = match Stage::new(1) {
        Ok(stage) => stage,
        Err(reason) => return skip(&reason),
    };
    install(stage.path(0));
    let (mut first, mut second) = (stage.terminal(0), stage.terminal(0));
    let dev = steps(FIVE_MINUTES).into_iter().find_map(|step| stays(step.command).map(|works| (step, works)));
    let (dev, works) = dev.expect("a cluster to talk in");
    first.stay(&dev, works);
    let (waited, code) = second.run("headcount wait 3");
    assert_eq!(code, 0, "{waited:?}");
    for step in steps(MESSAGES) {
        second.follow(&step, exactly);
    }
}

fn likewise_bind(host: usize) -> (String, String) {
    ("--bind 10.0.0.1:".to_owned(), format!("--bind 10.0.0.{}:", host + 1))
}

/// Follows a section on the first machine; agents that it starts are started on the other ones, too, with what README says
/// is each one's own in the place of the first one's. The terminal that commands were typed into.
fn follow_on_all_machines(stage: &Stage, heading: &str, own: impl Fn(usize) -> Vec<(String, String)>) -> Terminal {
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
        let mut terminal = stage.terminal(0);
        terminal.stay(&step, works);
        staying.push(terminal);
        for host in (1..stage.checkouts.len()).filter(|_| step.command.starts_with("headcount agent ")) {
            let mut terminal = stage.terminal(host);
            let change = |command: String, (one, other): (String, String)| command.replace(&one, &other);
            terminal.type_in(&own(host).into_iter().fold(step.command.to_owned(), change));
            staying.push(terminal);
        }
    }
    typing
}

#[test]
fn simulations_print_to_the_letter_what_readme_says() {
    let checkout = checkout();
    install(checkout.path());
    let mut terminal = Terminal::open(&[], checkout.path());
    for step in steps(SIMULATE) {
        terminal.follow(&step, exactly);
    }
    let page = fs::read_to_string(checkout.path().join("report.html")).expect("the page that --html names");
    assert!(page.contains("<svg"), "with charts");
    // What tune prints may be pasted into a configuration.
    let steps = steps(SIMULATE);
    let tuned = steps.iter().find(|step| step.command.starts_with("headcount tune")).expect("tune");
    check_config(&tuned.printed.as_ref().expect("what it prints").join("\n"));
}

/// Has the program judge a configuration.
fn check_config(text: &str) {
    let directory = tempfile::tempdir().expect("a directory");
    fs::write(directory.path().join("config.toml"), text).expect("written");
    let mut command = program(&[], &[HEADCOUNT, "config", "check", "config.toml"], directory.path());
    let output = command.output().expect("it runs");
    assert!(output.status.success(), "{text}\n{}", String::from_utf8_lossy(&output.stderr));
}

#[test]
fn every_configuration_in_readme_is_a_good_one() {
    for block in blocks().iter().filter(|block| block.language == "toml") {
        let text = block.lines.join("\n");
        let table: toml::Table = text.parse().expect("TOML");
        match table.get("dependencies") {
            None => check_config(&text),
            Some(dependencies) => {
                let headcount = dependencies.get("headcount").expect("this crate");
                assert_eq!(headcount.get("default-features"), Some(&toml::Value::Boolean(false)), "{text}");
                let uses_tokio = |block: &Block| block.lines.iter().any(|line| line.contains("tokio::"));
                let is_needed = blocks().iter().any(|block| block.language.starts_with("rust") && uses_tokio(block));
                assert_eq!(dependencies.get("tokio").is_some(), is_needed, "what the code below it needs:\n{text}");
            }
        }
    }
}

#[test]
fn the_table_of_keys_in_readme_has_the_values_of_the_profiles() {
    let rows = README
        .lines()
        .filter_map(|line| line.strip_prefix("| `"))
        .filter(|row| ["timing.", "leadership."].iter().any(|section| row.starts_with(section)));
    let rows: Vec<Vec<&str>> =
        rows.map(|row| row.split('|').map(|cell| cell.trim().trim_matches('`')).collect()).collect();
    assert!(rows.len() >= 10, "{rows:?}");
    for (column, profile) in ["default", "local", "lan", "wan"].into_iter().enumerate() {
        let directory = tempfile::tempdir().expect("a directory");
        let words = [HEADCOUNT, "config", "show", "--profile", profile, "--format", "json"];
        let output = program(&[], &words, directory.path()).output().expect("it runs");
        let shown: Value = serde_json::from_slice(&output.stdout).expect("JSON");
        let settings = shown["settings"].as_array().expect("a list");
        for row in &rows {
            let setting = settings.iter().find(|setting| setting["key"] == row[0]).expect(row[0]);
            let (value, said) = (&setting["value"], row[column + 1]);
            let shown = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
            let is_said = match (humantime::parse_duration(&shown), humantime::parse_duration(said)) {
                (Ok(shown), Ok(said)) => shown == said,
                _ => shown == said,
            };
            assert!(is_said, "{} of {profile}: {value}, README has {said}", row[0]);
        }
    }
}

#[test]
fn every_command_named_between_the_lines_is_understood() {
    let is_fence = |line: &&str| line.starts_with("```");
    let mut is_prose = true;
    let prose: Vec<&str> = README
        .lines()
        .filter(|line| {
            is_prose ^= is_fence(line);
            is_prose && !is_fence(line)
        })
        .collect();
    let prose = prose.join(" ");
    let commands: Vec<&str> =
        prose.split('`').skip(1).step_by(2).filter(|code| code.starts_with("headcount ")).collect();
    assert!(commands.len() >= 10, "{commands:?}");
    for command in commands {
        let mut words = vec![HEADCOUNT];
        words.extend(command.split_whitespace().skip(1));
        words.push("--help");
        let output = program(&[], &words, Path::new(".")).output().expect("it runs");
        assert!(output.status.success(), "{command}: {}", String::from_utf8_lossy(&output.stderr));
    }
}

#[test]
fn every_block_is_run_or_there_is_a_reason() {
    assert!(README.lines().any(|line| line == "cargo test"), "README names the command that tests everything");
    for block in blocks() {
        let Block { heading, language, lines, .. } = &block;
        let text = lines.join("\n");
        match *language {
            "sh" | "console" => {
                assert!(RUN.contains(heading) || is_not_run(&block), "under {heading:?} nobody runs\n{text}");
            }
            "rust,no_run" => assert!(!text.contains("\n# "), "a page shows hidden lines, too:\n{text}"),
            "toml" => {}
            "text" => assert!(!text.starts_with("$ "), "a session is a console:\n{text}"),
            other => panic!("{other:?} says neither what this is nor how it is checked:\n{text}"),
        }
    }
    for (text, reason) in NOT_RUN {
        assert!(
            blocks().iter().any(|block| block.lines == [text]),
            "README has no {text} any more, not run as {reason}"
        );
    }
}

#[test]
fn what_differs_from_run_to_run_is_made_equal_and_nothing_else() {
    let equal = [
        ("extra     up       127.0.0.1:44350   1s      15ms    0.7ms   -", "extra up 127.0.0.1:50001 12s 2ms 0.2ms -"),
        ("2026-11-21 14:10:45  node_left  extra", "2027-01-02 00:00:00  node_left  extra"),
        ("leader   b", "leader   a (the agent asked)"),
        ("1      1      a, b, c", "12     3      a, b, c"),
        ("a       up       a53ce95d85306350", "a       up       2ce981743d63d84a"),
    ];
    for (one, other) in equal {
        assert_eq!(common(one), common(other));
    }
    let different = [
        ("extra is removed, known to 2 peers", "extra is removed, known to 3 peers"),
        ("n1     127.0.0.1:7117   127.0.0.1:7118", "n1     127.0.0.1:7117   127.0.0.1:7128"),
        ("NODE      STATUS   ADDRESS", "NODE      ADDRESS   STATUS"),
        ("2026-11-21 14:10:45  node_left  extra", "2026-11-21 14:10:45  node_left  extra  (forced)"),
        ("n2        up       127.0.0.1:7127    3s      7ms", "n2        up       127.0.0.1:7127    3s      -"),
    ];
    for (one, other) in different {
        assert_ne!(common(one), common(other));
    }
    let owned = |lines: &[&str]| lines.iter().map(|line| (*line).to_owned()).collect::<Vec<_>>();
    let said = ["2026-11-21 14:10:45  node_left  extra", "it is gone"];
    let late =
        owned(&["it is gone", "2026-11-21 14:10:44  node_leaving  extra", "2026-11-21 14:10:44  node_left  extra"]);
    assert!(agree(&late, &said, common) && !agree(&late[..2], &said, common));
    assert!(!agree(&owned(&["it is gone", "or so", said[0]]), &said, common));
    assert!(!agree(&owned(&["trace 2"]), &["trace 1"], exactly));
}
