//! Calls in the core: rooms extend one state by methods, so that a room can call another one, or use its part of the state,
//! without an import. They call those below them; what they call above them is listed in `upward`, and nothing else.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;

use super::houses::HOUSES;
use super::upward::{UPWARD, Upward};
use super::{code, sources};

/// Returns what stands in the blocks `impl Core` of a file.
fn methods_of_the_state(code: &str) -> String {
    let mut is_inside = false;
    let mut inside = String::new();
    for line in code.lines() {
        is_inside = (is_inside || line == "impl Core {") && line != "}";
        if is_inside {
            inside.extend([line, "\n"]);
        }
    }
    inside
}

/// Returns true if a line begins a block for the state in a form that is not read.
fn is_odd_head(line: &str) -> bool {
    let is_state = |word: &str| word == "Core";
    let head = line.trim_start();
    head.starts_with("impl") && line != "impl Core {" && {
        head.split(|letter: char| !letter.is_alphanumeric() && letter != '_').any(is_state)
    }
}

/// Returns the word that begins a text.
fn word(text: &str) -> &str {
    text.split(|letter: char| !letter.is_alphanumeric() && letter != '_').next().unwrap_or_default()
}

/// Returns the names of the methods that some code has.
fn defined(code: &str) -> impl Iterator<Item = &str> {
    code.match_indices("fn ").map(|(at, found)| word(&code[at + found.len()..])).filter(|name| !name.is_empty())
}

/// Returns the parts of the state, each with the room whose type it has; `page` has both, and `passed_on` the types.
fn parts<'a>(page: &'a str, passed_on: &BTreeMap<String, &'static str>) -> BTreeMap<&'a str, &'static str> {
    let state = page.split_once("pub struct Core {").and_then(|(_, rest)| rest.split_once("\n}")).expect("the state").0;
    let fields = state.lines().filter_map(|line| line.trim().split_once(": "));
    let with_a_room = fields.filter_map(|(name, of)| {
        let mut words = of.split(|letter: char| !letter.is_alphanumeric());
        words.find_map(|word| passed_on.get(word)).map(|room| (name, *room))
    });
    with_a_room.collect()
}

/// Returns the names that some code uses of the state, each as often as it does: methods, and parts with a dot before them.
/// `receivers` stand for the state there.
fn used(code: &str, receivers: &[&str]) -> Vec<String> {
    let mut names = Vec::new();
    for receiver in receivers {
        for (at, _) in code.match_indices(receiver) {
            if code[..at].ends_with(|letter: char| letter.is_alphanumeric() || letter == '_' || letter == '.') {
                continue;
            }
            let rest = &code[at + receiver.len()..];
            if receiver.ends_with(':') {
                // Called, or handed over to be called.
                names.push(word(rest).to_owned());
            } else if let Some(rest) = rest.trim_start().strip_prefix('.') {
                let name = word(rest);
                let is_called = ["(", "::<"].iter().any(|end| rest[name.len()..].starts_with(end));
                names.push(if is_called { name.to_owned() } else { format!(".{name}") });
            }
        }
    }
    names
}

/// The upward calls of the rooms, by the two rooms, and the number of all calls between rooms.
type Found = (BTreeMap<(String, String), BTreeSet<String>>, usize);

/// Finds the calls between rooms, each given with its code. The page, `mod`, stands above all.
fn upward(order: &[&str], rooms: &[(String, String)], parts: &BTreeMap<&str, &str>) -> Found {
    let rank = |room: &str| order.iter().chain(&["mod"]).position(|known| *known == room);
    let methods: Vec<(&str, String)> = rooms.iter().map(|(room, code)| (&**room, methods_of_the_state(code))).collect();
    let mut homes: BTreeMap<String, &str> = parts.iter().map(|(part, room)| (format!(".{part}"), *room)).collect();
    for (room, code) in &methods {
        for name in defined(code) {
            let before = homes.insert(name.to_owned(), room);
            assert!(
                before.is_none_or(|before| before == *room),
                "{name} is defined in two rooms: {before:?} and {room}"
            );
        }
    }
    let (mut found, mut all) = (BTreeMap::<_, BTreeSet<String>>::new(), 0);
    for ((room, code), (_, methods)) in rooms.iter().zip(&methods) {
        let by_name = used(code, &["core", "Core::"]);
        for name in used(methods, &["self", "Self::"]).into_iter().chain(by_name) {
            let Some(home) = homes.get(&name).filter(|home| *home != room) else { continue };
            all += 1;
            if rank(home) > rank(room) {
                found.entry((room.clone(), (*home).to_owned())).or_default().insert(name);
            }
        }
    }
    (found, all)
}

/// Returns where the calls found and those listed differ.
fn flaws(mut found: BTreeMap<(String, String), BTreeSet<String>>, listed: &[Upward]) -> Vec<String> {
    let mut flaws = Vec::new();
    for Upward { room, above, calls, why } in listed {
        let mut found = found.remove(&((*room).to_owned(), (*above).to_owned())).unwrap_or_default();
        let gone = calls.iter().filter(|name| !found.remove(**name));
        flaws.extend(gone.map(|name| format!("{room} calls {above} by {name} no more: take it from the list")));
        flaws.extend(found.iter().map(|name| format!("{room} calls {name} of {above}, which stands above it ({why})")));
    }
    for ((room, above), names) in found {
        flaws.push(format!("{room} calls {names:?} of {above}, which stands above it"));
    }
    flaws
}

#[test]
fn what_a_room_of_the_core_calls_above_it_is_listed_and_nothing_else() {
    let core = &HOUSES[0];
    assert_eq!(core.idea, "core");
    let folder = core.folder();
    let mut files = Vec::new();
    sources(&folder, false, &mut files);
    let rooms: Vec<(String, String)> = files
        .iter()
        .filter_map(|path| {
            let inside = path.strip_prefix(&folder).expect("below it").with_extension("");
            let room = inside.iter().next()?.to_str()?.to_owned();
            Some((room, code(&fs::read_to_string(path).expect("a source file"))))
        })
        .collect();
    let page = &rooms.iter().find(|(room, _)| room == "mod").expect("the idea's page").1;
    let parts = parts(page, &core.passed_on(page));
    assert!(parts.len() > 30, "only {} parts of the state are known", parts.len());
    let odd = rooms.iter().flat_map(|(_, code)| code.lines()).find(|line| is_odd_head(line));
    assert_eq!(odd, None, "methods of the state stand in blocks that begin with \"impl Core {{\", where they are seen");
    let (found, all) = upward(core.order, &rooms, &parts);
    assert!(all > 700, "only {all} calls were seen: the wrong files are read");
    let flaws = flaws(found, &UPWARD);
    assert!(flaws.is_empty(), "{}", flaws.join("\n"));
}

#[test]
fn a_call_that_points_up_is_found() {
    let file = |room: &str, code: &str| (room.to_owned(), format!("impl Core {{\n{code}\n}}\n"));
    let parts =
        parts("pub struct Core {\n    wings: Option<Wing>,\n    rest: u8,\n}", &[("Wing".to_owned(), "above")].into());
    let above = file("above", "    pub(in crate::core) fn tell(&mut self) {}\n    fn ask() {}");
    for call in [
        "self.tell()",
        "self\n        .tell()",
        "self.tell::<u8>()",
        "each(|core| core.tell())",
        "each(Self::tell)",
        "Core::tell(self)",
        "Self::ask()",
        "self.wings.len()",
        "self\n        .wings = None",
    ] {
        let below = file("below", &format!("    fn act(&mut self) {{\n        {call};\n    }}"));
        let (found, all) = upward(&["below", "above"], &[below.clone(), above.clone()], &parts);
        assert_eq!((found.len(), all), (1, 1), "{call}");
        let (found, all) = upward(&["above", "below"], &[below, above.clone()], &parts);
        assert_eq!((found.len(), all), (0, 1), "{call}");
    }
    for other in ["self.above.tell()", "myself.tell()", "self.tell", "core_of.tell()", "self.rest"] {
        let below = file("below", &format!("    fn act(&mut self) {{\n        {other};\n    }}"));
        assert_eq!(upward(&["below", "above"], &[below, above.clone()], &parts).1, 0, "{other}");
    }
    let elsewhere = |code: &str| {
        ("below".to_owned(), format!("impl Other {{\n    fn act(&mut self) {{\n        {code};\n    }}\n}}\n"))
    };
    assert_eq!(
        upward(&["below", "above"], &[elsewhere("self.tell()"), above.clone()], &parts).1,
        0,
        "another type's method"
    );
    assert_eq!(
        upward(&["below", "above"], &[elsewhere("core.tell()"), above], &parts).1,
        1,
        "a function that is given the state"
    );
    let page = file("mod", "    fn stop(&mut self) {}");
    let below = file("below", "    fn act(&mut self) {\n        self.stop();\n    }");
    assert_eq!(upward(&["below"], &[below, page], &parts).0.len(), 1, "the page stands above all");
}

#[test]
fn a_block_of_methods_that_would_not_be_read_is_named() {
    for odd in [
        "impl super::Core {",
        "    impl Core {",
        "impl fmt::Display for Core {",
        "impl<T> From<T> for Core where T: X {",
    ] {
        assert!(is_odd_head(odd), "{odd}");
    }
    for read in ["impl Core {", "impl CoreInit {", "fn x(core: &Core) {"] {
        assert!(!is_odd_head(read), "{read}");
    }
}

#[test]
fn a_call_that_is_not_listed_and_one_that_is_no_more_are_named() {
    let listed = [Upward { room: "below", above: "above", calls: &["ask", "tell"], why: "reasons" }];
    let found = |above: &str, names: &[&str]| {
        let names = names.iter().map(|name| (*name).to_owned()).collect();
        BTreeMap::from([(("below".to_owned(), above.to_owned()), names)])
    };
    assert_eq!(flaws(found("above", &["ask", "tell"]), &listed), <[&str; 0]>::default());
    let told = flaws(found("above", &["tell", "order"]), &listed).join("\n");
    assert!(
        told.contains("by ask no more") && told.contains("calls order of above") && !told.contains("tell"),
        "{told}"
    );
    assert!(flaws(found("attic", &["tell"]), &[]).join("").contains("{\"tell\"} of attic"));
}
