//! The texts of a configuration that mean something else: durations, addresses, paths, directives of the log.
//!
//! Knows the syntax of each, no key and no layer.

use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

use tracing_subscriber::filter::LevelFilter;

use super::addresses::{literal, names_a_zone};
use super::error::SeedFault;
use crate::text::{MAX_SHOWN, visible};

/// Parses a number with its unit, in whole milliseconds: a finer fraction would be lost on the wire without a word.
pub(super) fn duration(text: &str) -> Result<Duration, String> {
    let trimmed = text.trim();
    if !trimmed.is_empty() && trimmed.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.') {
        return Err(format!("has no unit; write \"{trimmed}s\" or \"{trimmed}ms\""));
    }
    let duration = humantime::parse_duration(trimmed).map_err(|error| {
        format!("is not a valid duration ({error}); write a number and its unit, as in \"5s\" or \"500ms\"")
    })?;
    if duration.subsec_nanos() % 1_000_000 != 0 {
        return Err("is not a whole number of milliseconds".to_owned());
    }
    Ok(duration)
}

/// Parses an address to bind or to advertise. Host names are refused: a name may stand for several addresses.
pub(super) fn address(text: &str) -> Result<SocketAddr, String> {
    literal(text).ok_or_else(|| {
        if names_a_zone(text) {
            SeedFault::Zone.to_string()
        } else if text.parse::<IpAddr>().is_ok() {
            "has no port; write it as in \"10.0.0.1:7117\" or \"[2001:db8::1]:7117\"".to_owned()
        } else {
            "is not an IP address with a port; write it as in \"10.0.0.1:7117\" or \"[2001:db8::1]:7117\"".to_owned()
        }
    })
}

/// Parses a path. Relative paths are relative to the directory in which the process was started.
pub(super) fn path(text: &str) -> Result<PathBuf, String> {
    match text {
        "" => Err("is empty; leave the key out instead".to_owned()),
        text if text.contains('\0') => Err("contains a NUL byte".to_owned()),
        text => Ok(PathBuf::from(text)),
    }
}

/// Checks log directives, and returns them without spaces around them, which `Targets` would take as part of a name. A single
/// word must be a level: `Targets` would take any other word as the name of a target and then log nothing else, which is
/// never what `level = "verbose"` meant.
pub(super) fn directives(text: &str) -> Result<String, String> {
    if text.trim().is_empty() {
        return Err("is empty; to log nothing write \"off\"".to_owned());
    }
    let directives: Vec<&str> = text.split(',').map(str::trim).collect();
    for directive in &directives {
        let (target, level) = directive.split_once('=').unwrap_or(("all", directive));
        let is_target = |byte: u8| byte.is_ascii_alphanumeric() || b"_-:.".contains(&byte);
        // An empty text parses as a level, too.
        let is_level = !level.is_empty() && level.parse::<LevelFilter>().is_ok();
        if !is_level || target.is_empty() || !target.bytes().all(is_target) {
            let directive = visible(directive, MAX_SHOWN);
            return Err(format!("contains \"{directive}\", which is not a valid level"));
        }
    }
    Ok(directives.join(","))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_duration_has_a_unit_and_is_whole_milliseconds() {
        for (text, milliseconds) in [("5s", 5_000), ("500ms", 500), ("1m 30s", 90_000), (" 24h ", 86_400_000)] {
            assert_eq!(duration(text), Ok(Duration::from_millis(milliseconds)), "{text}");
        }
        for (text, reason) in [
            ("5", "has no unit; write \"5s\" or \"5ms\""),
            ("0.5", "has no unit"),
            ("", "is not a valid duration"),
            ("-5s", "is not a valid duration"),
            ("5 parsecs", "is not a valid duration"),
            ("1500us", "is not a whole number of milliseconds"),
            ("99999999999999999999s", "is not a valid duration"),
        ] {
            let refused = duration(text).expect_err(text);
            assert!(refused.contains(reason), "{text}: {refused}");
        }
    }

    #[test]
    fn log_directives_are_levels_or_targets_with_levels() {
        for good in ["info", "WARN", "off", "headcount=debug", "warn,headcount::core=trace"] {
            assert_eq!(directives(good).as_deref(), Ok(good));
        }
        assert_eq!(directives(" warn, headcount=debug").as_deref(), Ok("warn,headcount=debug"));
        for bad in [
            "",
            "verbose",
            "info,",
            "headcount=loud",
            "headcount=",
            "headcount = info",
            "=info",
            "info,headcount",
            "[span]=info",
        ] {
            assert!(directives(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn an_address_has_a_port_and_no_name() {
        assert!(address("[::1]:0").is_ok());
        assert_eq!(address("[::ffff:10.0.0.1]:1"), address("10.0.0.1:1"), "it has one form");
        for zoned in ["[fe80::1%eth0]:7117", "[fe80::1%2]:7117", "fe80::1%eth0"] {
            assert!(address(zoned).is_err_and(|reason| reason.contains("unique local")), "{zoned}");
        }
        assert!(address("10.0.0.1").is_err_and(|reason| reason.contains("has no port")));
        assert!(address("localhost:7117").is_err_and(|reason| reason.contains("is not an IP address")));
    }
}
