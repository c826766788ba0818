//! `config show`: the values that count and where each came from, for people and for programs.
//!
//! Values look as they would be written in the file, durations included: `"5s"`, not a number of milliseconds. There is
//! no secret among them, only the names of files that hold some.

use std::io::Write;

use serde_json::{Value as Json, json};
use tabwriter::TabWriter;

use super::keys::keys;
use super::layers::Loaded;
use super::problem::Source;

impl Loaded {
    /// An aligned table: key, value, source. What is not set shows its default in parentheses.
    pub fn table(&self) -> String {
        let mut table = TabWriter::new(Vec::new()).padding(3);
        let rows = keys().map(|key| {
            let value = cell(&(key.get)(&self.agent)).unwrap_or_else(|| format!("({})", key.default()));
            let source = self.source(key.name()).unwrap_or(&Source::Default);
            format!("{}\t{value}\t{source}\n", key.name())
        });
        let text: String = std::iter::once("KEY\tVALUE\tFROM\n".to_owned()).chain(rows).collect();
        // Writing into memory does not fail; a table without alignment would still be right.
        let aligned = table.write_all(text.as_bytes()).and_then(|()| table.flush());
        let bytes = aligned.ok().and_then(|()| table.into_inner().ok()).unwrap_or_default();
        String::from_utf8(bytes).unwrap_or(text)
    }

    /// `{"settings":[{"key","value","layer","source"}]}`, one entry for each key, in the order of the table. `value` is
    /// `null` where nothing is set; `layer` is flag, environment, file, profile or default.
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

/// A value in a table; nothing for what is not set.
pub(super) fn cell(value: &Json) -> Option<String> {
    match value {
        Json::Null => None,
        Json::String(text) => Some(text.clone()),
        Json::Array(items) if items.is_empty() => None,
        Json::Array(items) => Some(items.iter().filter_map(cell).collect::<Vec<_>>().join(", ")),
        Json::Object(entries) if entries.is_empty() => None,
        Json::Object(entries) => {
            let pair = |(key, value): (&String, &Json)| format!("{key}={}", cell(value).unwrap_or_default());
            Some(entries.iter().map(pair).collect::<Vec<_>>().join(", "))
        }
        other => Some(other.to_string()),
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
        let lines: Vec<_> = table.lines().collect();
        assert_eq!(lines.len(), 1 + keys().count());
        let from = lines[0].find("FROM").expect("a heading");
        assert!(lines[0].starts_with("KEY   "), "{table}");
        for line in &lines {
            assert!(line.chars().nth(from - 1) == Some(' ') && line.chars().nth(from) != Some(' '), "{table}");
        }
        for (key, value, source) in [
            ("name", "h", "default"),
            ("tags", "a=b c, zone=eu-1", "flag --tag"),
            ("bind", "([::]:7117, IPv6 and IPv4)", "default"),
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
}
