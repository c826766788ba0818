//! The page on security as it is followed: its recipes, and nodes on which their commands are typed.
//!
//! A recipe begins with its title in bold, under `## Recipes`. Its commands are the lines of its `sh` blocks, and what
//! follows them behind a `#` begins with where they are typed, see [`Place`]. Each node has a directory of its own with
//! its files (`cluster.key`, `config.toml`, `token`) and a shell there; `scp` copies from one to another. Words that
//! stand for something of the reader's own are filled in, see [`Nodes::filled`]. Every command has to succeed.

use std::fs;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::PathBuf;

use tempfile::TempDir;

use super::cluster::{TOKEN, only_key, other_key};
use crate::support::page::blocks;
use crate::support::terminal::Terminal;
use crate::support::{Agent, HEADCOUNT, own_address, wait_for};

pub(crate) const PAGE: &str = include_str!("../../../src/security.md");

pub(crate) struct Recipe {
    pub(crate) title: &'static str,
    pub(crate) text: &'static str,
}

pub(crate) fn recipes() -> Vec<Recipe> {
    let (_, section) = PAGE.split_once("\n## Recipes\n").expect("recipes");
    let section = section.split_once("\n## ").map_or(section, |(section, _)| section);
    let recipe = |text: &'static str| {
        let (title, text) = text.split_once("**").expect("the end of a title");
        Recipe { title: title.trim_end_matches('.'), text }
    };
    section.split("\n\n**").skip(1).map(recipe).collect()
}

/// Where a command is typed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Place {
    /// `once`: at the first node; what it makes is brought to the others.
    Once,
    /// `on every node`, `wherever you type`: at each, one after the other.
    Everywhere,
    /// At one node, the next one each time.
    Anywhere,
}

#[derive(Debug)]
pub(crate) struct Step {
    pub(crate) command: &'static str,
    place: Place,
}

impl Recipe {
    pub(crate) fn of(title: &str) -> Self {
        let found = recipes().into_iter().find(|recipe| recipe.title == title);
        found.unwrap_or_else(|| panic!("the page has no recipe {title:?}"))
    }

    /// Returns its commands, in order.
    pub(crate) fn steps(&self) -> Vec<Step> {
        let step = |line: &'static str| {
            let (command, comment) = line.split_once(" # ").unwrap_or((line, ""));
            let place = match comment {
                "once" => Place::Once,
                "on every node" | "wherever you type" => Place::Everywhere,
                _ => Place::Anywhere,
            };
            Step { command: command.trim(), place }
        };
        let steps: Vec<Step> = self.lines("sh").into_iter().map(step).collect();
        assert!(!steps.is_empty(), "{:?} has commands", self.title);
        steps
    }

    /// Returns the lines of all of its blocks in one language.
    pub(crate) fn lines(&self, language: &str) -> Vec<&'static str> {
        blocks(self.text).into_iter().filter(|block| block.language == language).flat_map(|block| block.lines).collect()
    }

    /// Returns the rows of its table, without the head.
    pub(crate) fn rows(&self) -> Vec<Vec<&'static str>> {
        let cells = |row: &'static str| row.split('|').map(|cell| cell.trim().trim_matches('`')).collect::<Vec<_>>();
        let rows = self.text.lines().filter(|line| line.starts_with("| ")).skip(1).map(cells);
        rows.map(|cells| cells[1..cells.len() - 1].to_vec()).collect()
    }
}

struct Node {
    name: &'static str,
    directory: PathBuf,
    terminal: Terminal,
    agent: Option<Agent>,
    /// Where its agent listens, or any port before it is started.
    gossip: String,
}

/// Nodes on which a recipe is followed.
pub(crate) struct Nodes {
    all: Vec<Node>,
    /// The commands that were typed at one node so far.
    typed: usize,
    /// The key that the cluster had before the recipe was followed.
    old: Option<String>,
    /// The mode of the present step.
    pub(crate) mode: &'static str,
    _root: TempDir,
}

impl Nodes {
    pub(crate) fn new(names: &[&'static str]) -> Self {
        let root = tempfile::tempdir().expect("a directory");
        let programs = root.path().join("bin");
        fs::create_dir(&programs).expect("a directory");
        symlink(HEADCOUNT, programs.join("headcount")).expect("a link");
        let scp = programs.join("scp");
        fs::write(&scp, format!("#!/bin/sh\nexec cp \"{}/${{1%%:*}}/${{1#*:}}\" \"$2\"\n", root.path().display()))
            .expect("written");
        fs::set_permissions(&scp, fs::Permissions::from_mode(0o755)).expect("executable");
        let bind = own_address();
        let node = |name: &&'static str| {
            let directory = root.path().join(name);
            fs::create_dir(&directory).expect("a directory");
            symlink(&programs, directory.join("bin")).expect("a link");
            let gossip = bind.clone();
            Node { name, terminal: Terminal::open(&[], &directory), directory, agent: None, gossip }
        };
        Self { all: names.iter().map(node).collect(), typed: 0, old: None, mode: "", _root: root }
    }

    /// Gives every node a token, as in the recipe for rotations.
    pub(crate) fn have_token(&mut self) {
        for node in &mut self.all {
            let path = node.directory.join("token");
            fs::write(&path, TOKEN).expect("written");
            fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).expect("changed");
            node.terminal.type_in("export HEADCOUNT_TOKEN_FILE=token");
        }
    }

    /// Has every node sealed with a key file of its own that holds one key, and its agent started.
    pub(crate) fn are_a_sealed_cluster(&mut self) {
        self.run(0, "headcount keys generate cluster.key");
        self.bring(&["cluster.key".into()]);
        self.start_all(&["--key-file", "cluster.key"]);
        self.old = Some(only_key(self.agent(0), &self.names()));
    }

    pub(crate) fn start_all(&mut self, arguments: &[&str]) {
        (0..self.all.len()).for_each(|at| self.start(at, arguments));
        self.are_up();
    }

    /// Starts a node's agent; again where it was, if it had one before.
    pub(crate) fn start(&mut self, at: usize, arguments: &[&str]) {
        let Node { name, directory, gossip, .. } = &self.all[at];
        let prefix = ["env".to_owned(), format!("--chdir={}", directory.display())];
        let token = Some(directory.join("token")).filter(|token| token.exists());
        let own = ["--name", name, "--profile", "local", "--bind", gossip, "--http", "127.0.0.1:0"];
        let seeds: Vec<&str> = self.agents().flat_map(|agent| ["--seed", &agent.gossip]).collect();
        let agent = Agent::start_with_asking(&prefix, token.as_deref(), &[&own, arguments, &seeds].concat());
        let node = &mut self.all[at];
        node.terminal.type_in(&format!("export HEADCOUNT_AGENT={}", agent.http));
        node.gossip.clone_from(&agent.gossip);
        node.agent = Some(agent);
    }

    pub(crate) fn names(&self) -> Vec<&'static str> {
        self.all.iter().map(|node| node.name).collect()
    }

    pub(crate) fn path(&self, at: usize, file: &str) -> PathBuf {
        self.all[at].directory.join(file)
    }

    pub(crate) fn agent(&self, at: usize) -> &Agent {
        self.all[at].agent.as_ref().expect("started")
    }

    pub(crate) fn agents(&self) -> impl Iterator<Item = &Agent> {
        self.all.iter().filter_map(|node| node.agent.as_ref())
    }

    /// Takes a node's agent away.
    pub(crate) fn take(&mut self, at: usize) -> Agent {
        self.all[at].agent.take().expect("started")
    }

    /// Waits until all agents list all nodes as up.
    pub(crate) fn are_up(&self) {
        self.agents().for_each(|agent| agent.wait_for_up(&self.names()));
    }

    /// Returns the key that the cluster had before.
    pub(crate) fn old(&self) -> &str {
        self.old.as_deref().expect("a cluster with a key")
    }

    /// Does what the page says; returns what was printed.
    pub(crate) fn follow(&mut self, step: &Step) -> Vec<String> {
        match step.place {
            Place::Once => {
                let before = self.files();
                let printed = self.run(0, step.command);
                let made: Vec<PathBuf> = self.files().into_iter().filter(|file| !before.contains(file)).collect();
                self.bring(&made);
                printed
            }
            Place::Everywhere => (0..self.all.len()).flat_map(|at| self.run(at, step.command)).collect(),
            Place::Anywhere => {
                self.typed += 1;
                self.run(self.typed % self.all.len(), step.command)
            }
        }
    }

    /// Runs a command of the page at this node; returns what was printed.
    pub(crate) fn run(&mut self, at: usize, command: &str) -> Vec<String> {
        if let Some(arguments) = command.strip_prefix("headcount agent ") {
            let arguments = arguments.strip_suffix('…').expect("what an agent is started with anyway");
            self.start(at, &arguments.split_whitespace().collect::<Vec<_>>());
            return Vec::new();
        }
        let filled = self.filled(at, command);
        let reloads = |agent: &Agent| agent.log().matches("reloaded keys: ").count();
        let reloaded = self.all[at].agent.as_ref().map(reloads);
        let terminal = &mut self.all[at].terminal;
        let (printed, code) = terminal.run(&filled);
        assert_eq!(code, 0, "{command}:\n{}", terminal.log.join("\n"));
        if command.starts_with("kill -HUP ") {
            let agent = self.agent(at);
            wait_for(&format!("{} reads its keys:\n{}", agent.name, agent.log()), || {
                (Some(reloads(agent)) > reloaded).then_some(())
            });
        }
        printed
    }

    /// Fills in what is the reader's own: NEW and OLD are the ids of the keys, the later one and the one that was there
    /// before; PID is the process of this node's agent; MEMBER is another node; MODE is the mode of the present step.
    fn filled(&self, at: usize, command: &str) -> String {
        let words: [(&str, &dyn Fn() -> String); 5] = [
            ("NEW", &|| other_key(self.agent(at), self.old())),
            ("OLD", &|| self.old().to_owned()),
            ("PID", &|| self.agent(at).id().to_string()),
            ("MEMBER", &|| self.all[(at + 1) % self.all.len()].name.to_owned()),
            ("MODE", &|| self.mode.to_owned()),
        ];
        let fill = |text: String, (word, own): (&str, &dyn Fn() -> String)| {
            if text.contains(word) { text.replace(word, &own()) } else { text }
        };
        words.into_iter().fold(command.to_owned(), fill)
    }

    /// Returns the names of the first node's files.
    fn files(&self) -> Vec<PathBuf> {
        let entries = fs::read_dir(&self.all[0].directory).expect("readable");
        entries.map(|entry| entry.expect("readable").file_name().into()).collect()
    }

    /// Brings files of the first node to the others.
    fn bring(&self, files: &[PathBuf]) {
        let (first, others) = self.all.split_first().expect("nodes");
        for (file, node) in files.iter().flat_map(|file| others.iter().map(move |node| (file, node))) {
            fs::copy(first.directory.join(file), node.directory.join(file)).expect("copied");
        }
    }
}
