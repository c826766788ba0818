//! Pages: the head of a folder names every file in it, so that a reader finds an idea without opening them. A head that is
//! shown in the public documentation names them in a plain comment below it.

use std::fs;
use std::path::{Path, PathBuf};

/// Finds the files below a folder whose module is the head of others.
fn heads(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).expect("the source is there") {
        let path = entry.expect("an entry").path();
        if path.is_dir() && path.file_name().is_some_and(|name| name != "tests") {
            found.push(path.join("mod.rs"));
            found.push(path.with_extension("rs"));
            heads(&path, found);
        }
    }
    found.retain(|path| path.is_file());
}

/// Returns the modules that a head has and does not name in its page, or beside it; those of tests need no name.
fn unnamed(text: &str) -> Vec<&str> {
    let page: Vec<&str> = text.lines().filter(|line| line.starts_with("//!") || line.starts_with("// ")).collect();
    let page = page.join("\n");
    let mut before = "";
    let mut unnamed = Vec::new();
    for line in text.lines() {
        let module =
            line.split("mod ").nth(1).filter(|_| !line.starts_with("//")).and_then(|rest| rest.strip_suffix(';'));
        if let Some(module) = module.filter(|module| before != "#[cfg(test)]" && !module.starts_with("tests")) {
            let is_named = ["`", "/`"].iter().any(|end| {
                page.match_indices(&format!("{module}{end}")).any(|(at, _)| page[..at].ends_with(['`', '/']))
            });
            if !is_named {
                unnamed.push(module);
            }
        }
        before = line;
    }
    unnamed
}

/// Returns the names in the last column of a head's tables of files.
fn listed(text: &str) -> Vec<&str> {
    let mut is_of_files = false;
    let mut listed = Vec::new();
    for line in text.lines().filter(|line| line.starts_with("//! ") || line.starts_with("// ")) {
        let Some(row) = line.trim_end().strip_suffix('|').filter(|_| line.contains(" |")) else {
            is_of_files = false;
            continue;
        };
        let last = row.rsplit("| ").next().unwrap_or_default().trim();
        if ["file", "room"].contains(&last) {
            is_of_files = true;
        } else if is_of_files {
            listed.extend(last.split('`').skip(1).step_by(2).map(|name| name.trim_end_matches('/')));
        }
    }
    listed
}

#[test]
fn pages_name_their_files() {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut found = vec![source.join("lib.rs")];
    heads(&source, &mut found);
    assert!(found.len() >= 90, "only {} pages were read", found.len());
    for path in found {
        let text = fs::read_to_string(&path).expect("a source file");
        assert_eq!(unnamed(&text), <[&str; 0]>::default(), "{}", path.display());
        let is_apart = path.file_name().is_some_and(|name| name != "mod.rs" && name != "lib.rs");
        let folder = if is_apart { path.with_extension("") } else { path.with_file_name("") };
        let is_there = |name: &&str| folder.join(format!("{name}.rs")).is_file() || folder.join(name).is_dir();
        // A file of another folder is named with its room, as `ROOM::FILE`.
        let gone: Vec<&str> =
            listed(&text).into_iter().filter(|name| !name.contains("::") && !is_there(name)).collect();
        assert_eq!(gone, <[&str; 0]>::default(), "{} names what is not there", path.display());
    }
}

#[test]
fn a_file_that_its_page_does_not_name_is_found() {
    let page = |modules: &str| format!("//! | one | `one`, `rooms/` |\n//! two\n\n{modules}");
    assert_eq!(unnamed(&page("mod one;\npub(super) mod rooms;\n#[cfg(test)]\nmod tests;")), <[&str; 0]>::default());
    assert_eq!(unnamed(&page("mod one;\nmod two;\npub mod on;")), ["two", "on"]);
}

#[test]
fn the_names_in_tables_of_files_are_read() {
    let page = "//! | rule | found by |\n//! |---|---|\n//! | a | `x` |\n//!\n//! | idea | file |\n//! |---|---|\n\
        //! | one `y` | `one`, `rooms/` |\n//! text\n";
    assert_eq!(listed(page), ["one", "rooms"]);
}
