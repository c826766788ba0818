//! The order of rooms: which may name which.
//!
//! An idea is a folder of `src`, a room is a file or folder in it. Imports between the rooms of one idea point one way. They
//! are read from the source; so are, in `core`, the calls from one room's methods to another's (see `calls`). Tests may name
//! anything (but in `core`).
//!
//! | idea | file |
//! |---|---|
//! | calls in the core; the list of those that point up | `calls`, `upward` |
//! | files that import each other in a loop | `circles` |
//! | the orders of the rooms | `houses` |
//! | pages that name their files | `pages` |

mod calls;
mod circles;
mod houses;
mod pages;
mod upward;

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use houses::HOUSES;

/// An idea, and the order of its rooms.
struct House {
    idea: &'static str,
    /// Rooms, from the ground up: each may name those before it.
    order: &'static [&'static str],
    /// Names of the idea's own page that any room may use: its state, which rooms extend by methods of their own.
    state: &'static [&'static str],
    /// True if rooms name each other in full, as `crate::IDEA::ROOM`, their tests included.
    in_full: bool,
    /// The number of imports between rooms that there are at least: fewer mean that the wrong files are read.
    least: usize,
}

/// The names that an idea's own page passes on, each with its room.
type PassedOn = BTreeMap<String, &'static str>;

impl House {
    fn rank(&self, room: &str) -> Option<usize> {
        self.order.iter().position(|known| *known == room)
    }

    fn folder(&self) -> PathBuf {
        Path::new(env!("CARGO_MANIFEST_DIR")).join("src").join(self.idea)
    }

    /// Reads the names that this page passes on from its rooms.
    fn passed_on(&self, page: &str) -> PassedOn {
        let mut names = PassedOn::new();
        for room in self.order {
            for prefix in [format!("use {room}::"), format!("use self::{room}::")] {
                names.extend(named(page, &prefix).into_iter().map(|name| (name.to_owned(), *room)));
            }
        }
        names
    }

    /// Returns the first flaw of an import in `room`, or the number of other rooms that it names.
    fn judge(&self, room: &str, depth: usize, code: &str, passed_on: &PassedOn) -> Result<usize, String> {
        let House { idea, .. } = self;
        let own = self.rank(room).ok_or_else(|| format!("room {room:?} has no place in its order"))?;
        let out_of_the_room = "super::".repeat(depth);
        if self.in_full && code.contains(&format!("use {out_of_the_room}")) {
            return Err(format!("leaves its room by {out_of_the_room}: name the other one as crate::{idea}::ROOM"));
        }
        let mut names = named(code, &format!("crate::{idea}::"));
        names.extend(named(code, &out_of_the_room));
        let mut named_rooms = 0;
        for name in names {
            if name == room || self.state.contains(&name) {
                continue;
            }
            // A path that goes on upwards leaves the idea.
            if name == "super" {
                return Err(format!("leaves {idea} by super: name what is outside as crate::IDEA"));
            }
            let is_passed_on = || passed_on.get(name).filter(|_| !self.in_full).and_then(|room| self.rank(room));
            let other = self
                .rank(name)
                .or_else(is_passed_on)
                .ok_or_else(|| format!("names crate::{idea}::{name}, which is no room: take it from its own"))?;
            if other > own {
                return Err(format!("{room} names {name}, which stands above it"));
            }
            named_rooms += usize::from(other != own);
        }
        Ok(named_rooms)
    }
}

/// Finds the source files below a folder, but for folders of tests; `and_tests` are files of them beside what they test.
pub(crate) fn sources(folder: &Path, and_tests: bool, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).expect("the source is there") {
        let path = entry.expect("an entry").path();
        let name = path.file_stem().and_then(|name| name.to_str()).unwrap_or_default();
        let is_test = name.starts_with("tests");
        if path.is_dir() && !is_test {
            sources(&path, and_tests, found);
        } else if (and_tests || !is_test) && path.extension().is_some_and(|extension| extension == "rs") {
            found.push(path);
        }
    }
}

/// Returns the code of a file without comments and without its unit tests.
fn code(text: &str) -> String {
    let is_end =
        |line: &&str| line.starts_with("mod tests {") || line.starts_with("pub") && line.ends_with(" mod tests {");
    let code = text.lines().take_while(|line| !is_end(line));
    code.map(|line| line.split("//").next().unwrap_or_default()).collect::<Vec<_>>().join("\n")
}

/// Returns the names that follow each `prefix` in the code: one word, or the first words of a group in braces.
fn named<'a>(code: &'a str, prefix: &str) -> Vec<&'a str> {
    let is_word = |letter: char| letter.is_alphanumeric() || letter == '_';
    let is_end = |letter: char| !is_word(letter);
    let mut names = Vec::new();
    for (at, _) in code.match_indices(prefix) {
        // The end of a longer path or word is another one.
        if code[..at].ends_with(|letter: char| is_word(letter) || letter == ':') {
            continue;
        }
        let rest = &code[at + prefix.len()..];
        let Some(group) = rest.strip_prefix('{') else {
            names.push(rest.split(is_end).next().unwrap_or_default());
            continue;
        };
        let mut depth = 0;
        let mut is_first = true;
        for (at, letter) in group.char_indices() {
            match letter {
                '{' => depth += 1,
                '}' if depth == 0 => break,
                '}' => depth -= 1,
                ',' if depth == 0 => is_first = true,
                _ if depth == 0 && is_first && !letter.is_whitespace() => {
                    is_first = false;
                    names.push(group[at..].split(is_end).next().unwrap_or_default());
                }
                _ => {}
            }
        }
    }
    names
}

#[test]
fn imports_between_rooms_point_down() {
    let mut flaws = Vec::new();
    for house in &HOUSES {
        let folder = house.folder();
        let page = fs::read_to_string(folder.join("mod.rs")).expect("the idea's page");
        let passed_on = house.passed_on(&code(&page));
        let (mut files, mut arrows) = (Vec::new(), 0);
        sources(&folder, house.in_full, &mut files);
        for path in files {
            let inside = path.strip_prefix(&folder).expect("below it").with_extension("");
            let parts: Vec<&str> =
                inside.iter().filter_map(|part| part.to_str()).filter(|part| *part != "mod").collect();
            // The idea's own page knows all rooms.
            let Some(room) = parts.first() else { continue };
            let text = fs::read_to_string(&path).expect("a source file");
            match house.judge(room, parts.len(), &code(&text), &passed_on) {
                Ok(named) => arrows += named,
                Err(flaw) => flaws.push(format!("{}/{}: {flaw}", house.idea, inside.display())),
            }
        }
        assert!(arrows >= house.least, "only {arrows} imports were seen in {}: the wrong files are read", house.idea);
    }
    assert!(flaws.is_empty(), "{}", flaws.join("\n"));
}

#[test]
fn every_room_of_an_order_is_there() {
    for house in &HOUSES {
        for room in house.order {
            let (file, folder) = (house.folder().join(format!("{room}.rs")), house.folder().join(room));
            assert!(file.is_file() || folder.is_dir(), "{}/{room}", house.idea);
        }
    }
}

#[test]
fn an_import_that_points_up_or_out_is_named() {
    let [core, agent, ..] = &HOUSES;
    let none = PassedOn::new();
    let judge = |wrong: &str| core.judge("view", 2, wrong, &none);
    assert_eq!(judge("use super::Peer; use crate::core::{Core, member::Run, time::Time};"), Ok(2));
    for (wrong, word) in [
        ("use crate::core::detection::Crashes;", "stands above"),
        ("use crate::core::{Core, wire::{Note, Echo}, joining::Joiners};", "stands above"),
        ("fn x() { crate::core::leadership::ask() }", "stands above"),
        ("use crate::core::Record;", "no room"),
        ("use super::super::joining::Joiners;", "leaves its room"),
    ] {
        assert!(judge(wrong).is_err_and(|flaw| flaw.contains(word)), "{wrong}");
    }
    assert!(core.judge("attic", 1, "", &none).is_err());
    assert_eq!(
        judge(&code("// use crate::core::joining::X;\n#[cfg(test)]\nmod tests { crate::core::joining }")),
        Ok(0)
    );
    let passed_on = agent.passed_on("pub use self::lease::{Lease, LeaseError};\nuse bus::Bus;");
    let judge = |depth, wrong: &str| agent.judge("shared", depth, wrong, &passed_on);
    assert_eq!(judge(1, "use super::bus::Bus; use super::{Agent, Bus, error::Stop};"), Ok(3));
    assert_eq!(judge(2, "use super::driver; use super::super::bus; use super::super::shared::X;"), Ok(1));
    for (depth, wrong, word) in [
        (1, "use super::lease::Leases;", "lease, which stands above"),
        (1, "use crate::agent::driver::Request;", "driver, which stands above"),
        (1, "use super::{Agent, Lease};", "Lease, which stands above"),
        (2, "fn x() { super::super::driver::ask() }", "driver, which stands above"),
        (1, "use super::Nothing;", "no room"),
        (1, "use super::super::config;", "leaves agent"),
    ] {
        assert!(judge(depth, wrong).is_err_and(|flaw| flaw.contains(word)), "{wrong}");
    }
}
