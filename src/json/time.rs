//! Instants and durations as text and numbers.
//!
//! Invariant: texts from [`rfc3339`] always have the same width and the letter `Z`, so that texts sort as times do.

use std::time::{Duration, SystemTime};

use jiff::Timestamp;
use jiff::fmt::temporal::DateTimePrinter;
use serde::{Deserialize, Deserializer, Serializer};

/// Prints milliseconds, always three digits.
const PRINTER: DateTimePrinter = DateTimePrinter::new().precision(Some(3));

/// Formats an instant as in `2026-01-01T00:00:00.000Z`. Instants outside of years that have four digits become the
/// epoch.
pub fn rfc3339(at: SystemTime) -> String {
    let timestamp = Timestamp::try_from(at).unwrap_or(Timestamp::UNIX_EPOCH);
    PRINTER.timestamp_to_string(&timestamp)
}

/// Parses any RFC 3339 text; the reverse of [`rfc3339`].
pub fn parse_rfc3339(text: &str) -> Option<SystemTime> {
    text.parse::<Timestamp>().ok().map(SystemTime::from)
}

/// Returns the whole milliseconds of a duration.
pub(super) fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

/// Returns milliseconds with microseconds behind the point; written with at least one decimal.
pub(super) fn fine_millis(duration: Duration) -> f64 {
    duration.as_micros() as f64 / 1_000.0
}

/// Reads and writes a [`SystemTime`], for `#[serde(with)]`.
pub(super) mod instant {
    use super::{Deserialize, Deserializer, Serializer, SystemTime, parse_rfc3339, rfc3339};

    pub(crate) fn serialize<S: Serializer>(at: &SystemTime, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&rfc3339(*at))
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<SystemTime, D::Error> {
        let text = String::deserialize(deserializer)?;
        parse_rfc3339(&text).ok_or_else(|| serde::de::Error::custom(format!("{text:?} is not an RFC 3339 time")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn instants_have_three_decimals_and_a_z() {
        let second = SystemTime::UNIX_EPOCH + Duration::from_secs(1_767_225_600);
        assert_eq!(rfc3339(second), "2026-01-01T00:00:00.000Z");
        assert_eq!(rfc3339(second + Duration::from_micros(1_999)), "2026-01-01T00:00:00.001Z");
    }

    #[test]
    fn instants_survive_a_round_trip() {
        let at = SystemTime::UNIX_EPOCH + Duration::from_millis(1_767_225_600_123);
        assert_eq!(parse_rfc3339(&rfc3339(at)), Some(at));
        assert_eq!(parse_rfc3339("yesterday"), None);
    }

    #[test]
    fn round_trips_keep_a_decimal() {
        let text = |duration| serde_json::to_string(&fine_millis(duration)).expect("a number");
        assert_eq!(text(Duration::from_micros(400)), "0.4");
        assert_eq!(text(Duration::from_millis(2)), "2.0");
        assert_eq!(text(Duration::from_nanos(12_345_678)), "12.345");
    }
}
