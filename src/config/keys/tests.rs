//! The table agrees with itself, and recognises what was meant.

use super::*;
use crate::config::Config;

#[test]
fn the_defaults_in_words_are_the_defaults() {
    let agent = AgentConfig::new(Config::new("a").expect("a good name"));
    for key in keys().filter(|key| key.name != "name") {
        let shown = match (key.get)(&agent) {
            Json::String(text) => text,
            Json::Null => continue,
            Json::Array(list) if list.is_empty() => "none".to_owned(),
            Json::Array(list) => list.iter().filter_map(Json::as_str).collect::<Vec<_>>().join(", "),
            Json::Object(map) if map.is_empty() => "none".to_owned(),
            other => other.to_string(),
        };
        if key.form() == Form::Duration {
            let parse = |text: &str| humantime::parse_duration(text).expect("a duration");
            assert_eq!(parse(&shown), parse(key.default), "{}", key.name);
        } else {
            assert_eq!(shown, key.default, "{}", key.name);
        }
    }
}

#[test]
fn names_are_unique_and_sections_known() {
    for (at, key) in keys().enumerate() {
        assert!(keys().take(at).all(|other| other.name != key.name), "{}", key.name);
        assert!(key.section().is_none_or(|section| SECTIONS.contains(&section)), "{}", key.name);
        assert!(!key.range.is_empty() && !key.doc.is_empty());
        assert_eq!(key.follows().map(Key::name), key.special.follows, "{}", key.name);
    }
    let live: Vec<_> = keys().filter(|key| key.live_part().is_some()).map(Key::name).collect();
    assert_eq!(live, ["tags", "seal.mode", "seal.key_file", "seal.keys", "handlers", "log.level"]);
    assert_eq!(variable_of("timing.reap_after"), "HEADCOUNT_TIMING__REAP_AFTER");
}

#[test]
fn a_mistyped_or_misplaced_key_is_recognised() {
    for (unknown, meant) in [
        ("nmae", "name"),
        ("heartbeat_interval", "timing.heartbeat_interval"),
        ("timing.hartbeat_intervall", "timing.heartbeat_interval"),
        ("timing.heartbeat", "timing.heartbeat_interval"),
        ("timing_heartbeat_interval", "timing.heartbeat_interval"),
        ("timing.observers", "observers"),
        ("http.token", "http.token_file"),
        ("log.formt", "log.format"),
        ("tag", "tags"),
    ] {
        assert_eq!(nearest(unknown).map(Key::name), Some(meant), "{unknown}");
    }
    assert_eq!(nearest("zzz").map(Key::name), None);
}
