//! Formats figures and texts for people.
//!
//! Invariant: no text from the network reaches the terminal with control characters in it.

use std::time::{Duration, SystemTime};

use jiff::Timestamp;
use jiff::tz::TimeZone;

use crate::text::visible;

/// Text in place of an unknown value.
pub(super) const NOTHING: &str = "-";

const MINUTE: u64 = 60;
const HOUR: u64 = 60 * MINUTE;
const DAY: u64 = 24 * HOUR;

/// Formats a duration in at most two units: `120ms`, `12s`, `3m12s`, `2h5m`, `3d4h`.
pub(super) fn duration(duration: Duration) -> String {
    let seconds = duration.as_secs();
    let two = |larger: u64, unit: char, smaller: u64, subunit: char| match smaller {
        0 => format!("{larger}{unit}"),
        _ => format!("{larger}{unit}{smaller}{subunit}"),
    };
    match seconds {
        0 => format!("{}ms", duration.as_millis()),
        1..MINUTE => format!("{seconds}s"),
        MINUTE..HOUR => two(seconds / MINUTE, 'm', seconds % MINUTE, 's'),
        HOUR..DAY => two(seconds / HOUR, 'h', seconds % HOUR / MINUTE, 'm'),
        _ => two(seconds / DAY, 'd', seconds % DAY / HOUR, 'h'),
    }
}

/// Formats a duration as it is written in the configuration, without loss: `200ms`, `5s`, `1m30s`.
pub(super) fn setting(duration: Duration) -> String {
    let text = if (1_000..60_000).contains(&duration.as_millis()) && duration.subsec_millis() != 0 {
        format!("{}ms", duration.as_millis())
    } else {
        humantime::format_duration(duration).to_string()
    };
    text.replace(' ', "")
}

/// Formats the time since an instant; zero for one in the future, which other machines' clocks may show.
pub(super) fn ago(at: SystemTime, now: SystemTime) -> String {
    duration(now.duration_since(at).unwrap_or_default())
}

/// Formats date and time of day in this machine's time zone, since output of the night is read days later.
pub(super) fn date_and_time(at: SystemTime) -> String {
    let timestamp = Timestamp::try_from(at).unwrap_or(Timestamp::UNIX_EPOCH);
    timestamp.to_zoned(TimeZone::system()).strftime("%Y-%m-%d %H:%M:%S").to_string()
}

/// Makes a text from elsewhere safe to print: on one line, without control or invisible characters.
pub(super) fn plain(text: &str) -> String {
    visible(text, usize::MAX)
}

/// Formats tags as `key=value` with commas between; a text with a comma, a space or a quote in it is quoted.
pub(super) fn tags<'a>(tags: impl IntoIterator<Item = (&'a String, &'a String)>) -> String {
    let word = |text: &str| {
        let is_plain = !text.contains([',', ' ', '"', '=']);
        if is_plain { plain(text) } else { format!("\"{}\"", plain(&text.replace('"', "\\\""))) }
    };
    let pair = |(key, value): (&String, &String)| format!("{}={}", word(key), word(value));
    let text = tags.into_iter().map(pair).collect::<Vec<_>>().join(",");
    if text.is_empty() { NOTHING.to_owned() } else { text }
}

/// Formats a count: `1 member`, `2 members`.
pub(super) fn count(number: usize, noun: &str) -> String {
    if number == 1 { format!("1 {noun}") } else { format!("{number} {noun}s") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_have_at_most_two_units() {
        for (millis, text) in [
            (0, "0ms"),
            (120, "120ms"),
            (1_000, "1s"),
            (59_999, "59s"),
            (60_000, "1m"),
            (192_000, "3m12s"),
            (7_500_000, "2h5m"),
            (86_400_000, "1d"),
            (273_600_000, "3d4h"),
        ] {
            assert_eq!(duration(Duration::from_millis(millis)), text);
        }
    }

    #[test]
    fn settings_are_written_as_they_are_read() {
        for (millis, text) in
            [(200, "200ms"), (5_000, "5s"), (5_900, "5900ms"), (90_000, "1m30s"), (86_400_000, "1day")]
        {
            let written = setting(Duration::from_millis(millis));
            assert_eq!(written, text);
            assert_eq!(humantime::parse_duration(&written), Ok(Duration::from_millis(millis)));
        }
    }

    #[test]
    fn the_future_is_no_time_ago() {
        let now = SystemTime::UNIX_EPOCH;
        assert_eq!(ago(now + Duration::from_secs(5), now), "0ms");
    }

    #[test]
    fn tags_are_told_apart_whatever_is_in_them() {
        let shown = |pairs: &[(&str, &str)]| {
            let pairs: Vec<_> = pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
            tags(pairs.iter().map(|(key, value)| (key, value)))
        };
        assert_eq!(shown(&[]), "-");
        assert_eq!(shown(&[("role", "x"), ("zone", "eu-1")]), "role=x,zone=eu-1");
        assert_eq!(shown(&[("zone", "eu-west-1a,rack7")]), "zone=\"eu-west-1a,rack7\"");
        assert_eq!(shown(&[("a", "say \"b\"")]), "a=\"say \\\"b\\\"\"");
    }

    #[test]
    fn control_characters_do_not_reach_the_terminal() {
        assert_eq!(plain("a\u{1b}[31mb\nä\u{202e}"), "a\\u{1b}[31mb\\nä\\u{202e}");
    }
}
