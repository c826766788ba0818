//! Circles: files that import each other in a loop, in any idea and between ideas.
//!
//! A file may name the pages of the folders that it lies in, whose state it extends; that arrow is not counted. Nor are
//! the names that a page passes on, tests, and what stands in comments.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use super::{code, sources};

/// A module's path below the crate.
type ModulePath = Vec<String>;

/// The code of all modules.
type Code = BTreeMap<ModulePath, String>;

/// The imports and public names of one module, as its code has them.
#[derive(Default)]
struct Said {
    /// The paths that it names.
    named: Vec<ModulePath>,
    /// The path behind each name that it brings in, by which others may come to the same.
    brought: BTreeMap<String, ModulePath>,
}

fn is_word(letter: char) -> bool {
    letter.is_alphanumeric() || letter == '_'
}

/// Returns all paths in a tree of imports: `a::{b, c as d}` are `a::b` and `a::c as d`.
fn expand(tree: &str) -> Vec<String> {
    let tree = tree.trim();
    let Some((before, group)) = tree.split_once('{') else { return vec![tree.to_owned()] };
    let group = group.strip_suffix('}').unwrap_or(group);
    let (mut paths, mut depth, mut start) = (Vec::new(), 0, 0);
    for (at, letter) in group.char_indices().chain([(group.len(), ',')]) {
        match letter {
            '{' => depth += 1,
            '}' => depth -= 1,
            ',' if depth == 0 => {
                let part = group[start..at].trim();
                paths.extend(
                    expand(part).into_iter().filter(|part| !part.is_empty()).map(|part| format!("{before}{part}")),
                );
                start = at + 1;
            }
            _ => {}
        }
    }
    paths
}

/// Returns the path from the crate's root; `None` if it leads to another crate.
fn absolute(module: &[String], path: &str, all: &Code) -> Option<ModulePath> {
    let path = path.split(" as ").next().unwrap_or_default();
    let mut words = path.split("::").map(|word| word.trim().to_owned()).peekable();
    let mut from = match words.peek()?.as_str() {
        "crate" => Vec::new(),
        "self" | "super" => module.to_vec(),
        child => {
            let child: ModulePath = module.iter().cloned().chain([child.to_owned()]).collect();
            return all.contains_key(&child).then(|| module.iter().cloned().chain(words).collect());
        }
    };
    while let Some(word) = words.next_if(|word| ["crate", "self", "super"].contains(&word.as_str())) {
        if word == "super" {
            from.pop()?;
        }
    }
    from.extend(words);
    Some(from)
}

/// Reads one module.
fn read(module: &[String], code: &str, all: &Code) -> Said {
    let mut said = Said::default();
    // What is imported for links in comments alone is no arrow.
    let mut code = code.to_owned();
    while let Some((before, after)) = code.split_once("#[cfg(doc)]\nuse ") {
        code = format!("{before}{}", after.split_once(';').map_or("", |(_, after)| after));
    }
    let mut rest = String::new();
    let mut statements = code.split("use ");
    let mut before = statements.next().unwrap_or_default();
    rest.push_str(before);
    for statement in statements {
        let Some((tree, after)) = statement.split_once(';').filter(|_| !before.ends_with(is_word)) else {
            rest.push_str(statement);
            before = statement;
            continue;
        };
        let is_passed_on = before.trim_end().ends_with([')', 'b'])
            && before.rsplit('\n').next().is_some_and(|line| line.contains("pub"));
        for path in expand(&tree.replace('\n', " ")) {
            let Some(whole) = absolute(module, &path, all) else { continue };
            let name = path.rsplit([':', ' ']).next().unwrap_or_default();
            said.brought.insert(name.to_owned(), whole.clone());
            if !is_passed_on {
                said.named.push(whole);
            }
        }
        rest.push_str(after);
        before = after;
    }
    let is_in_path = |letter: char| is_word(letter) || letter == ':';
    for path in rest.split(|letter| !is_in_path(letter)).filter(|path| path.contains("::") && !path.starts_with(':')) {
        said.named.extend(absolute(module, path.trim_end_matches(':'), all));
    }
    said
}

/// Returns the module that a path leads to, through the pages that pass its name on.
fn resolve(path: &[String], said: &BTreeMap<ModulePath, Said>, steps: usize) -> Option<ModulePath> {
    let depth = (0..=path.len()).rev().find(|depth| said.contains_key(&path[..*depth]))?;
    let (module, rest) = path.split_at(depth);
    let further =
        rest.first().and_then(|name| said[module].brought.get(name)).filter(|further| further.as_slice() != path);
    match further {
        Some(further) if steps > 0 => {
            let whole: ModulePath = further.iter().chain(&rest[1..]).cloned().collect();
            resolve(&whole, said, steps - 1)
        }
        _ => Some(module.to_vec()),
    }
}

/// Returns the arrows that lie on circles, or between two of them: none if there is no circle.
fn circles(all: &Code) -> BTreeSet<(String, String)> {
    let said: BTreeMap<ModulePath, Said> =
        all.iter().map(|(module, code)| (module.clone(), read(module, code, all))).collect();
    let mut arrows = BTreeSet::new();
    for (module, Said { named, .. }) in &said {
        let named = named.iter().filter_map(|path| resolve(path, &said, 10));
        arrows.extend(
            named.filter(|other| !module.starts_with(other)).map(|other| (module.join("::"), other.join("::"))),
        );
    }
    loop {
        let from: BTreeSet<String> = arrows.iter().map(|(from, _)| from.clone()).collect();
        let to: BTreeSet<String> = arrows.iter().map(|(_, to)| to.clone()).collect();
        let before = arrows.len();
        arrows.retain(|arrow| from.contains(&arrow.1) && to.contains(&arrow.0));
        if arrows.len() == before {
            return arrows;
        }
    }
}

#[test]
fn no_files_import_each_other_in_a_circle() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut files = Vec::new();
    sources(&root, false, &mut files);
    let mut all = Code::new();
    for path in files {
        let inside = path.strip_prefix(&root).expect("below it").with_extension("");
        let words = inside.iter().filter_map(|word| word.to_str());
        let module: ModulePath = words.filter(|word| !["mod", "lib"].contains(word)).map(str::to_owned).collect();
        all.insert(module, code(&fs::read_to_string(&path).expect("a source file")));
    }
    assert!(all.len() > 400, "only {} files were seen", all.len());
    let found: Vec<_> = circles(&all).into_iter().map(|(from, to)| format!("{from} imports {to}")).collect();
    assert!(found.is_empty(), "in circles:\n{}", found.join("\n"));
}

#[test]
fn a_circle_is_found_through_whatever_passes_its_names_on() {
    let all = |files: &[(&str, &str)]| -> Code {
        let module = |path: &str| path.split("::").filter(|word| !word.is_empty()).map(str::to_owned).collect();
        files.iter().map(|(path, code)| (module(path), (*code).to_owned())).collect()
    };
    let page = ("a", "mod b;\nmod c;\npub use b::{B, Other as Renamed};\nuse c::C;\n");
    let down = all(&[("", "mod a;"), page, ("a::b", "use super::State;"), ("a::c", "use crate::a::b::B;\n")]);
    assert_eq!(circles(&down), BTreeSet::new(), "a page's own arrows, and those to it, are none");
    for back in [
        "use super::c::C;",
        "use crate::a::{\n    c::{self, C},\n    State,\n};",
        "fn x() -> super::c::C { todo!() }",
        "use crate::a::C;",
    ] {
        let circle = all(&[("", "mod a;"), page, ("a::b", back), ("a::c", "use crate::a::{Renamed};\n")]);
        assert_eq!(circles(&circle).len(), 2, "{back}");
    }
    let documented = all(&[("", ""), page, ("a::b", "#[cfg(doc)]\nuse super::c::C;"), ("a::c", "use super::b::B;")]);
    assert_eq!(circles(&documented), BTreeSet::new());
}
