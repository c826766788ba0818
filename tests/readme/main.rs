//! README.md, and the pages for programmers and on simulations, keep their word: their commands run as they stand, and print
//! what the pages say.
//!
//! They are read like this:
//! - `sh`: commands, one a line. Commands that go on for ever get a terminal of their own and stay. Their output is the
//!   `text` block right below, or begins with it if they stay.
//! - `console`: a session, `$ ` before each command and what it prints below.
//! - `toml`: a configuration, or what goes into a Cargo.toml. `rust`: compiled by the tests of the documentation.
//! - any other `text`: a picture.
//!
//! Each section under a heading is one story, in a little network of its own: ports that a page names are free there.
//! Words that differ from run to run are made equal on both sides, see [`common`]; everything else has to be the same.
#![cfg(all(feature = "agent", unix))]

mod page;
mod stage;
#[path = "../support/mod.rs"]
mod support;

use std::fs;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;
use support::netns::Network;
use support::page::{Block, assert_is_understood, named_in_prose};
use support::terminal::{Terminal, program};
use support::{HEADCOUNT, PATIENCE, skip, wait_for};
use tempfile::TempDir;

use page::{Step, agree, blocks, common, exactly, is_not_run, steps};
use stage::{Stage, checkout, follow_on_all_machines, install, likewise_bind, stays};

const README: &str = include_str!("../../README.md");
const PROGRAMS: &str = include_str!("../../src/programs.md");
const SIMULATE: &str = include_str!("../../src/simulate.md");
const OPERATIONS: &str = include_str!("../../src/operations.md");
const CONFIG: &str = include_str!("../../config.toml");
const GUARANTEES: &str = include_str!("../../src/guarantees.md");
const REQUIREMENTS: &str = include_str!("../../src/requirements.md");

/// Pages of which every block is run here, or compiled. No two of them have a heading in common that commands stand under.
const PAGES: [&str; 3] = [README, PROGRAMS, SIMULATE];

/// Blocks of commands that no test runs, and why.
const NOT_RUN: [(&str, &str); 4] = [
    ("headcount listen --http :7128 cache.changed jobs", "it listens, for ever"),
    ("cargo install --locked --path .", "it builds for minutes, and leaves a program behind"),
    ("cargo test", "it would run itself"),
    (
        "headcount lead --keep -- sh -c 'echo lead in term $HEADCOUNT_TERM; sleep 1000'",
        "another node may lead, for ever",
    ),
];

const FIVE_MINUTES: &str = "## Five minutes";
const BESIDE_A_SERVICE: &str = "## Beside your service";
const BY_VOTERS: &str = "### By voters";
const BY_A_DATABASE: &str = "### By a database";
const MESSAGES: &str = "## Messages";
const TO_SIMULATE: &str = "## Simulate";
const TO_TUNE: &str = "## Tune";

/// Sections whose commands are run by a test here.
const RUN: [&str; 7] = [FIVE_MINUTES, BESIDE_A_SERVICE, BY_VOTERS, BY_A_DATABASE, MESSAGES, TO_SIMULATE, TO_TUNE];

/// Commands that go on until they are stopped, and how the line begins by which they are known to work.
const STAY: [(&str, &str); 3] =
    [("cargo run -- dev", "NODE "), ("headcount agent ", "headcount: node="), ("curl -N ", "data:")];

/// Commands that only ask: what they show may still be on its way, so they are asked again.
const ASK: [&str; 6] = [
    "headcount members",
    "headcount leader",
    "headcount leader --http :7228",
    "headcount leader --nodes --http :7228",
    "headcount voters list",
    "headcount view",
];

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
    follow_on_all_machines(&stage, BY_VOTERS, |host| {
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
    for step in steps(BY_A_DATABASE) {
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
fn messages_are_sent_as_the_page_for_programmers_says() {
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

#[test]
fn simulations_print_to_the_letter_what_their_page_says() {
    let checkout = checkout();
    install(checkout.path());
    let mut terminal = Terminal::open(&[], checkout.path());
    for step in steps(TO_SIMULATE).iter().chain(&steps(TO_TUNE)) {
        terminal.follow(step, exactly);
    }
    let page = fs::read_to_string(checkout.path().join("report.html")).expect("the page that --html names");
    assert!(page.contains("<svg"), "with charts");
    // The lines that tune prints may be pasted into a configuration.
    let steps = steps(TO_TUNE);
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
fn every_configuration_on_a_page_is_a_good_one() {
    let pages = blocks().into_iter().chain(support::page::blocks(OPERATIONS));
    for block in pages.filter(|block| block.language == "toml") {
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

/// Returns the keys of `config.toml` that differ between profiles: their names, and their values in `default`, `local`, `lan`,
/// `wan` and `fast`, as the comment above each says.
fn values_by_profile() -> Vec<(String, [&'static str; 5])> {
    let (mut section, mut said, mut keys) = ("", None, Vec::new());
    for line in CONFIG.lines() {
        if let Some(name) = line.strip_prefix('[') {
            section = name.trim_end_matches(']');
        } else if let Some((_, default)) = line.split_once("Default: \"") {
            let (value, rest) = default.split_once('"').expect("its end");
            let others = rest.strip_prefix(" (").and_then(|rest| rest.split_once(')')).map(|(others, _)| others);
            said = others.map(|others| {
                let of = |profile| others.split(", ").find_map(|other| other.strip_prefix(profile)?.strip_prefix(' '));
                ["default", "local", "lan", "wan", "fast"].map(|profile| of(profile).unwrap_or(value))
            });
        } else if let Some((key, _)) = line.strip_prefix('#').and_then(|line| line.split_once(" = ")) {
            let is_key = key.chars().all(|character| character.is_ascii_lowercase() || character == '_');
            keys.extend(said.take().filter(|_| is_key).map(|values| (format!("{section}.{key}"), values)));
        }
    }
    keys
}

#[test]
fn config_toml_has_the_values_of_the_profiles() {
    let keys = values_by_profile();
    assert!(keys.len() >= 8, "{keys:?}");
    for (place, profile) in ["default", "local", "lan", "wan", "fast"].into_iter().enumerate() {
        let directory = tempfile::tempdir().expect("a directory");
        let words = [HEADCOUNT, "config", "show", "--profile", profile, "--format", "json"];
        let output = program(&[], &words, directory.path()).output().expect("it runs");
        let shown: Value = serde_json::from_slice(&output.stdout).expect("JSON");
        let settings = shown["settings"].as_array().expect("a list");
        for (key, values) in &keys {
            let setting = settings.iter().find(|setting| setting["key"] == *key).expect(key);
            let shown = setting["value"].as_str().map(humantime::parse_duration).expect("text").expect("a duration");
            let said = humantime::parse_duration(values[place]).expect("a duration");
            assert_eq!(shown, said, "{key} of {profile}");
        }
    }
}

#[test]
fn every_command_named_between_the_lines_is_understood() {
    let commands: Vec<String> = [README, PROGRAMS, SIMULATE, OPERATIONS, GUARANTEES, REQUIREMENTS]
        .into_iter()
        .flat_map(named_in_prose)
        .filter(|code| code.starts_with("headcount "))
        .collect();
    assert!(commands.len() >= 10, "{commands:?}");
    for command in commands {
        assert_is_understood(&command);
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
        assert!(blocks().iter().any(|block| block.lines == [text]), "no page has {text} any more, not run as {reason}");
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
