//! The house's order: which room of `core` may name which.
//!
//! It is read from the source. Calls from one `impl Core` to another are no imports, and are not seen here.

use std::fs;
use std::path::{Path, PathBuf};

/// Rooms, from the ground up: each may name those before it, and the state machine itself (`Core`, `Phase`).
const ORDER: [&str; 25] = [
    "time",
    "limits",
    "window",
    "settings",
    "member",
    "envelope",
    "election",
    "wire",
    "view",
    "counters",
    "doors",
    "timers",
    "packet",
    "dissemination",
    "membership",
    "connectivity",
    "detection",
    "joining",
    "discovery",
    "leadership",
    "messaging",
    "sizes",
    "ahead",
    "look",
    "inputs",
];

fn rank(room: &str) -> Option<usize> {
    ORDER.iter().position(|known| *known == room)
}

fn sources(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).expect("the source is there") {
        let path = entry.expect("an entry").path();
        if path.is_dir() && path.file_name().is_some_and(|name| name != "tests") {
            sources(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            found.push(path);
        }
    }
}

/// Returns the code of a file without comments and without its unit tests.
fn code(text: &str) -> String {
    let code = text.split("#[cfg(test)]\nmod tests {").next().unwrap_or_default();
    code.lines().map(|line| line.split("//").next().unwrap_or_default()).collect::<Vec<_>>().join("\n")
}

/// Returns the names that follow each `prefix` in the code: one word, or the first words of a group in braces.
fn named<'a>(code: &'a str, prefix: &str) -> Vec<&'a str> {
    let is_end = |letter: char| !(letter.is_alphanumeric() || letter == '_');
    let mut names = Vec::new();
    for (at, _) in code.match_indices(prefix) {
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

/// Returns the first flaw of an import in `room`, or the number of other rooms that it names.
fn judge(room: &str, depth: usize, code: &str) -> Result<usize, String> {
    let own = rank(room).ok_or_else(|| format!("room {room:?} has no place in ORDER"))?;
    let out_of_the_room = "super::".repeat(depth);
    if code.contains(&format!("use {out_of_the_room}")) {
        return Err(format!("leaves its room by {out_of_the_room}: name the other one as crate::core::ROOM"));
    }
    let mut named_rooms = 0;
    for name in named(code, "crate::core::") {
        if matches!(name, "Core" | "Phase") || name == room {
            continue;
        }
        let other =
            rank(name).ok_or_else(|| format!("names crate::core::{name}, which is no room: take it from its own"))?;
        if other > own {
            return Err(format!("{room} names {name}, which stands above it"));
        }
        named_rooms += 1;
    }
    Ok(named_rooms)
}

#[test]
fn imports_between_rooms_point_down() {
    let core = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/core");
    let mut files = Vec::new();
    sources(&core, &mut files);
    let (mut flaws, mut arrows) = (Vec::new(), 0);
    for path in files {
        let inside = path.strip_prefix(&core).expect("below it").with_extension("");
        let parts: Vec<&str> = inside.iter().filter_map(|part| part.to_str()).filter(|part| *part != "mod").collect();
        // The state machine itself knows all rooms.
        let Some(room) = parts.first() else { continue };
        let text = fs::read_to_string(&path).expect("a source file");
        match judge(room, parts.len(), &code(&text)) {
            Ok(named) => arrows += named,
            Err(flaw) => flaws.push(format!("{}: {flaw}", inside.display())),
        }
    }
    assert!(flaws.is_empty(), "{}", flaws.join("\n"));
    assert!(arrows > 200, "only {arrows} imports were seen: this test reads the wrong files");
}

#[test]
fn an_import_that_points_up_or_out_is_named() {
    assert_eq!(judge("view", 2, "use super::Peer; use crate::core::{Core, member::Run, time::Time};"), Ok(2));
    for (wrong, word) in [
        ("use crate::core::detection::Crashes;", "stands above"),
        ("use crate::core::{Core, wire::{Note, Echo}, joining::Joiners};", "stands above"),
        ("fn x() { crate::core::leadership::ask() }", "stands above"),
        ("use crate::core::Record;", "no room"),
        ("use super::super::joining::Joiners;", "leaves its room"),
    ] {
        assert!(judge("view", 2, wrong).is_err_and(|flaw| flaw.contains(word)), "{wrong}");
    }
    assert!(judge("attic", 1, "").is_err());
    assert_eq!(
        judge("view", 2, &code("// use crate::core::joining::X;\n#[cfg(test)]\nmod tests { crate::core::joining }")),
        Ok(0)
    );
}
