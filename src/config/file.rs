//! The file layer: turns TOML text into values with their lines.
//!
//! Refuses bad syntax, unknown keys and unknown sections, each with its line; values are checked by the table of keys.
//! Never prints the value of an unknown key: it may be a secret in the wrong place.

use std::io;
use std::ops::Range;
use std::path::Path;

use toml::Spanned;
use toml::de::{DeInteger, DeString, DeTable, DeValue};

use super::given::{Item, Value};
use super::keys::{Key, SECTIONS, UNAVAILABLE, find, keys, nearest};
use super::problem::{Problem, Source, printable};
use super::read::regular_file;

/// The largest file that is read. The longest sensible configuration is a hundredth of it.
const MAX_FILE_BYTES: u64 = 1 << 20;

/// Reads the bytes of a configuration file.
pub(super) fn read(path: &Path) -> io::Result<Vec<u8>> {
    match regular_file(path, MAX_FILE_BYTES) {
        Ok((bytes, _)) => Ok(bytes),
        Err(error) if error.kind() == io::ErrorKind::FileTooLarge => {
            Err(io::Error::new(io::ErrorKind::FileTooLarge, "it has more than 1 MiB"))
        }
        Err(error) => Err(error),
    }
}

/// Returns the file's keys and values in its order, and the problems found before any value is checked.
pub(super) fn parse(path: &Path, bytes: &[u8]) -> (Vec<(&'static Key, Item)>, Vec<Problem>) {
    match std::str::from_utf8(bytes) {
        Ok(text) => parse_text(path, text),
        Err(error) => (Vec::new(), vec![not_utf8(path, bytes, error.valid_up_to())]),
    }
}

/// Builds the problem of a file that is not UTF-8, with the line of the first byte that is wrong.
fn not_utf8(path: &Path, bytes: &[u8], at: usize) -> Problem {
    let line = bytes[..at].split(|byte| *byte == b'\n').count();
    let source = Source::File { path: path.to_path_buf(), line };
    if bytes.starts_with(&[0xff, 0xfe]) || bytes.starts_with(&[0xfe, 0xff]) {
        return Problem::new(source, "the file is UTF-16, not UTF-8").hint("save it as UTF-8");
    }
    let reason = format!("the file is not UTF-8: the byte 0x{:02x} stands in this line", bytes[at]);
    Problem::new(source, reason).hint("save it as UTF-8; a text in Latin-1 or Windows-1252 looks like this")
}

fn parse_text(path: &Path, text: &str) -> (Vec<(&'static Key, Item)>, Vec<Problem>) {
    // Editors on some systems begin a file with a byte order mark.
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let mut reader = Reader { path, text, given: Vec::new(), problems: Vec::new() };
    match DeTable::parse(text) {
        Ok(table) => reader.top(table.get_ref()),
        Err(error) => {
            let span = error.span().unwrap_or_default();
            let name = duplicate(text, error.message(), &span);
            let reason = format!("not valid TOML: {}{name}", printable(error.message()));
            reader.problems.push(Problem::new(reader.source(&span), reason));
        }
    }
    reader.given.sort_by_key(|(_, item)| line_of(item));
    reader.problems.sort_by_key(Problem::line);
    (reader.given, reader.problems)
}

/// Returns the name of a key that stands there twice; nothing of any other error, whose text may be a secret.
fn duplicate(text: &str, message: &str, span: &Range<usize>) -> String {
    let name = text.get(span.clone()).filter(|name| message == "duplicate key" && !name.trim().is_empty());
    name.map_or_else(String::new, |name| format!(" {}", printable(name)))
}

fn line_of(item: &Item) -> usize {
    if let Source::File { line, .. } = item.source { line } else { 0 }
}

struct Reader<'a> {
    path: &'a Path,
    text: &'a str,
    given: Vec<(&'static Key, Item)>,
    problems: Vec<Problem>,
}

type Name<'a> = Spanned<DeString<'a>>;

impl Reader<'_> {
    fn top(&mut self, table: &DeTable<'_>) {
        for (name, value) in table {
            let text = name.get_ref().as_ref();
            if UNAVAILABLE.contains(&text) {
                self.refuse(name, format!("section [{text}] is not available in this version"), "remove it".into());
            } else if !SECTIONS.contains(&text) {
                self.key(text, name, value);
            } else if let DeValue::Table(section) = value.get_ref() {
                self.section(text, section);
            } else {
                let reason = format!("[{text}] is a section, not a single value");
                self.refuse(name, reason, format!("write [{text}] on a line of its own and its keys below"));
            }
        }
    }

    /// Reads a section, and the sections in it.
    fn section(&mut self, path: &str, section: &DeTable<'_>) {
        for (name, value) in section {
            let full = format!("{path}.{}", name.get_ref());
            match value.get_ref() {
                DeValue::Table(inner) if SECTIONS.contains(&full.as_str()) => self.section(&full, inner),
                _ => self.key(&full, name, value),
            }
        }
    }

    fn key(&mut self, full: &str, name: &Name<'_>, value: &Spanned<DeValue<'_>>) {
        if let Some(key) = find(full) {
            // The line of the key, where a value of several lines begins.
            let item = Item { source: self.source(&name.span()), ..self.item(value) };
            self.given.push((key, item));
        } else if UNAVAILABLE.contains(&full) {
            self.refuse(name, format!("section [{full}] is not available in this version"), "remove it".into());
        } else if value.get_ref().is_table() && (!full.contains('.') || is_like_inner_section(full)) {
            let likeness = |section: &&str| strsim::jaro_winkler(section, full);
            let nearest = SECTIONS.into_iter().filter(|section| likeness(section) >= 0.8);
            let nearest = nearest.max_by(|one, other| likeness(one).total_cmp(&likeness(other)));
            let hint = match nearest {
                Some(section) => format!("did you mean [{section}]?"),
                None => format!("sections are [{}]", SECTIONS.join("], [")),
            };
            self.refuse(name, format!("unknown section [{}]", printable(full)), hint);
        } else {
            self.refuse(name, format!("unknown key {}", printable(full)), hint_for(full));
        }
    }

    fn refuse(&mut self, name: &Name<'_>, reason: String, hint: String) {
        let problem = Problem::new(self.source(&name.span()), reason).hint(hint);
        self.problems.push(problem);
    }

    fn item(&self, value: &Spanned<DeValue<'_>>) -> Item {
        let written = self.text.get(value.span()).unwrap_or_default();
        let (value_of_item, found) = match value.get_ref() {
            DeValue::String(text) => (Value::Text(text.clone().into_owned()), written),
            DeValue::Integer(number) => (Value::Integer(integer(number)), written),
            DeValue::Boolean(on) => (Value::Boolean(*on), written),
            DeValue::Float(_) => (Value::Other("a number with a fraction"), written),
            DeValue::Datetime(_) => (Value::Other("a date or time"), written),
            DeValue::Array(items) => (Value::List(items.iter().map(|item| self.item(item)).collect()), written),
            DeValue::Table(entries) => {
                let entry = |(name, value): (&Name<'_>, &Spanned<DeValue<'_>>)| {
                    (name.get_ref().clone().into_owned(), self.item(value))
                };
                // A table written under a header is not one piece of text that could be shown.
                let found = if written.starts_with('{') { written } else { "{…}" };
                (Value::Table(entries.iter().map(entry).collect()), found)
            }
        };
        Item::new(self.source(&value.span()), value_of_item, found)
    }

    fn source(&self, span: &Range<usize>) -> Source {
        let before = self.text.get(..span.start).unwrap_or(self.text);
        let line = 1 + before.matches('\n').count();
        Source::File { path: self.path.to_path_buf(), line }
    }
}

/// Returns true if an unknown name was probably meant to be a section within a section.
fn is_like_inner_section(full: &str) -> bool {
    let mut inner = SECTIONS.into_iter().filter(|section| section.contains('.'));
    inner.any(|section| strsim::jaro_winkler(section, full) >= 0.9)
}

fn integer(number: &DeInteger<'_>) -> i128 {
    let digits = number.as_str();
    i128::from_str_radix(digits, number.radix()).unwrap_or(if digits.starts_with('-') { i128::MIN } else { i128::MAX })
}

/// Returns the key that an unknown one was probably meant to be, or else the list of known keys.
fn hint_for(unknown: &str) -> String {
    let section = unknown.rsplit_once('.').map(|(section, _)| section);
    if matches!(unknown, "insecure" | "seal.insecure") {
        // Not that of HTTP, which opens another door.
        return "did you mean mode = \"off\", in section [seal]?".to_owned();
    }
    if let Some(key) = nearest(unknown) {
        return match key.section() {
            there if there == section => format!("did you mean {}?", key.name()),
            Some(section) => format!("did you mean {}, in section [{section}]?", key.short()),
            None => format!("did you mean {}, at the top, before any section?", key.name()),
        };
    }
    let known: Vec<_> = keys().filter(|key| key.section() == section).map(Key::short).collect();
    format!("keys here are {}", known.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(text: &str) -> (Vec<(&'static str, usize)>, Vec<String>) {
        let (given, problems) = parse(Path::new("c.toml"), text.as_bytes());
        let given = given.iter().map(|(key, item)| (key.name(), line_of(item))).collect();
        (given, problems.iter().map(ToString::to_string).collect())
    }

    #[test]
    fn every_key_comes_with_its_line_in_the_order_of_the_file() {
        let text = "# first\nseeds = [\n  \"a:1\",\n]\nmtu = 0x500\ntags.b = \"1\"\n[timing]\nreap_after = \"1h\"\n";
        let expected = vec![("seeds", 2), ("mtu", 5), ("tags", 6), ("timing.reap_after", 8)];
        assert_eq!(lines(text), (expected, vec![]));
        assert_eq!(lines("\u{feff}mtu = 1\r\nname = 'a'\r\n").0, [("mtu", 1), ("name", 2)]);
    }

    #[test]
    fn a_list_keeps_the_line_of_each_entry() {
        let (given, _) = parse(Path::new("c.toml"), b"seeds = [\n  \"a:1\",\n  \"b:1\",\n]");
        let Value::List(items) = &given[0].1.value else { panic!("a list") };
        assert_eq!(items.iter().map(line_of).collect::<Vec<_>>(), [2, 3]);
        assert_eq!(items[1].found, "\"b:1\"");
    }

    #[test]
    fn an_integer_beyond_all_bounds_is_still_an_integer() {
        let (given, problems) = parse(Path::new("c.toml"), b"mtu = 99999999999999999999999999999999999999999999");
        assert!(problems.is_empty(), "{problems:?}");
        assert_eq!(given[0].1.value, Value::Integer(i128::MAX));
    }

    #[test]
    fn the_value_of_an_unknown_key_is_not_repeated() {
        let (_, problems) = lines("[http]\ntoken = \"hunter2\"\n[seal]\nsecret = [\"hunter2\"]\n");
        assert_eq!(problems.len(), 2);
        assert!(problems.iter().all(|problem| !problem.contains("hunter2")), "{problems:?}");
    }

    #[test]
    fn text_that_is_not_utf8_is_told_with_its_line() {
        let told = |bytes: &[u8]| {
            let (given, problems) = parse(Path::new("c.toml"), bytes);
            assert!(given.is_empty() && problems.len() == 1, "{problems:?}");
            problems[0].to_string()
        };
        let latin = told(b"name = \"a\"\n# caf\xe9\nmtu = 1400\n");
        assert!(
            latin.starts_with("c.toml:2: the file is not UTF-8: the byte 0xe9") && latin.contains("save it as"),
            "{latin}"
        );
        let utf16 = told(b"\xff\xfen\0a\0");
        assert!(utf16.starts_with("c.toml:1: the file is UTF-16"), "{utf16}");
        let twice = told(b"name = \"a\"\nmtu = 1200\n[timing]\nreap_after = \"1h\"\nreap_after = \"2h\"\n");
        assert_eq!(twice, "c.toml:5: not valid TOML: duplicate key reap_after");
        let section = told(b"name = \"a\"\n[timing]\nreap_after = \"1h\"\n[log]\n[timing]\n");
        assert_eq!(section, "c.toml:5: not valid TOML: duplicate key timing");
        assert!(told(b"name = \"a").starts_with("c.toml:1: not valid TOML"), "a file that was cut off");
    }
}
