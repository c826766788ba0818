//! `config show`: the effective values and their sources, for people and for programs.
//!
//! Values look as they would be written in the file, durations included: `"5s"`, not a number of milliseconds. There is
//! no secret among them, only the names of files that hold some.

use serde_json::{Value as Json, json};

use super::keys::{Key, keys};
use super::layers::Loaded;
use super::problem::Source;
use crate::text::visible;

/// The lines above the table: what it shows, and what it does not.
const HEADLINE: &str = "What `headcount agent` would start with here, given the same flags.\n\
    A running agent may have others: `headcount info` asks it.";
/// The space between two columns.
const SPACE: &str = "  ";
/// The widest value that widens its column; a longer one sticks out of its own line alone.
const MOST_VALUE_WIDTH: usize = 28;

impl Loaded {
    /// Returns a headline and an aligned table: key, value, source. Keys that are not set show their default in
    /// parentheses. A value that is longer than most does not push the others out of the window: only its own line is
    /// longer.
    pub fn table(&self) -> String {
        let rows = keys().map(|key| {
            let value = self.shown(key);
            let source = self.source(key.name()).unwrap_or(&Source::Default).to_string();
            [key.name().to_owned(), value, source]
        });
        let rows: Vec<_> = std::iter::once(["KEY", "VALUE", "FROM"].map(str::to_owned)).chain(rows).collect();
        let width = |column: usize, most: usize| {
            let widths = rows.iter().map(|row| row[column].chars().count()).filter(|width| *width <= most);
            widths.max().unwrap_or_default()
        };
        let (key_width, value_width) = (width(0, usize::MAX), width(1, MOST_VALUE_WIDTH));
        let line = |[key, value, source]: &[String; 3]| {
            format!("{key:<key_width$}{SPACE}{value:<value_width$}{SPACE}{source}\n")
        };
        let table: String = rows.iter().map(line).collect();
        format!("{HEADLINE}\n\n{table}")
    }

    /// Returns a value as the table shows it.
    pub(super) fn shown(&self, key: &Key) -> String {
        let value = key.cell(&self.agent).unwrap_or_else(|| format!("({})", key.default()));
        visible(&value, usize::MAX)
    }

    /// Returns `{"settings":[{"key","value","layer","source"}]}`, one entry for each key, in the order of the table.
    /// `value` is `null` if nothing is set; `layer` is flag, environment, file, profile or default.
    pub fn json(&self) -> Json {
        let settings: Vec<_> = keys()
            .map(|key| {
                let source = self.source(key.name()).unwrap_or(&Source::Default);
                json!({
                    "key": key.name(),
                    "value": (key.get)(&self.agent),
                    "layer": source.layer(),
                    "source": source.to_string(),
                })
            })
            .collect();
        json!({ "settings": settings })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Loader;

    fn loaded() -> Loaded {
        let loader = Loader::new().host_name("h").flag("tags", "--tag", "zone=eu-1").flag("tags", "--tag", "a=b c");
        loader.flag("profile", "--profile", "lan").load().expect("a good configuration")
    }

    #[test]
    fn the_table_has_one_aligned_line_for_each_key() {
        let table = loaded().table();
        assert!(table.starts_with("What `headcount agent` would start with") && table.contains("`headcount info`"));
        let lines: Vec<_> = table.lines().skip(3).collect();
        assert_eq!(lines.len(), 1 + keys().count());
        let from = lines[0].find("FROM").expect("a heading");
        assert!(lines[0].starts_with("KEY   "), "{table}");
        for line in &lines {
            assert!(line.chars().nth(from - 1) == Some(' ') && line.chars().nth(from) != Some(' '), "{table}");
        }
        for (key, value, source) in [
            ("name", "h", "default"),
            ("tags", "a=b c, zone=eu-1", "flag --tag"),
            ("bind", "127.0.0.1:7117", "default"),
            ("advertise", "(automatic)", "default"),
            ("timing.heartbeat_interval", "2s", "profile lan"),
        ] {
            let line = lines.iter().find(|line| line.starts_with(&format!("{key} "))).expect(key);
            assert!(line.contains(value) && line.ends_with(source), "{line}");
        }
    }

    #[test]
    fn the_json_has_every_key_with_value_layer_and_source() {
        let json = loaded().json();
        let settings = json["settings"].as_array().expect("a list");
        assert_eq!(settings.len(), keys().count());
        let of = |key: &str| settings.iter().find(|setting| setting["key"] == key).expect("every key").clone();
        assert_eq!(
            of("timing.suspect_timeout"),
            json!({"key": "timing.suspect_timeout", "value": "6s", "layer": "profile", "source": "profile lan"})
        );
        assert_eq!(of("tags")["value"], json!({"a": "b c", "zone": "eu-1"}));
        assert_eq!(of("advertise")["value"], Json::Null);
        assert_eq!(of("mtu")["value"], json!(1400));
    }

    #[test]
    fn the_mode_of_sealing_is_the_one_that_counts() {
        let line = |loaded: &Loaded| {
            loaded.table().lines().find(|line| line.starts_with("seal.mode")).expect("a line").to_owned()
        };
        assert!(line(&loaded()).contains(" off "), "{}", line(&loaded()));
        let key = "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=";
        let sealed = Loader::new().host_name("h").environment([("HEADCOUNT_SEAL__KEYS".to_owned(), key.to_owned())]);
        let sealed = sealed.load().expect("a key");
        assert!(line(&sealed).contains(" require "), "{}", line(&sealed));
    }

    #[test]
    fn lines_fit_a_narrow_terminal_beside_one_long_value() {
        let seed = format!("{}.{}.localhost:7117", "x".repeat(40), "y".repeat(28));
        let loaded = Loader::new().host_name("h").flag("seeds", "--seed", &seed).load().expect("a good configuration");
        let table = loaded.table();
        let wide: Vec<_> = table.lines().filter(|line| line.chars().count() > 80).collect();
        assert!(wide.len() == 1 && wide[0].contains(&seed) && wide[0].ends_with("  flag --seed"), "{table}");
    }

    #[test]
    fn a_value_shows_nothing_invisible() {
        let loaded = Loader::new().host_name("h").flag("tags", "--tag", "a=b\u{202e}c").load().expect("a tag");
        assert!(loaded.table().contains("a=b\\u{202e}c"));
    }
}
