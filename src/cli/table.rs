//! Tables for people.
//!
//! Invariant: a table is aligned as a whole and ends with a line end; its first line names the columns, in capitals.

use std::io::{self, Write};
use std::time::{Duration, SystemTime};

use tabwriter::TabWriter;

use super::human::{self, NOTHING};
use super::paint::{Paint, Tone, worst_first};
use crate::json::{Info, JoinResult, Member, Sealing, Verdict};

/// Writes rows of cells, in aligned columns.
pub(super) fn write<const N: usize>(
    out: &mut impl Write,
    head: [&str; N],
    rows: impl IntoIterator<Item = [String; N]>,
) -> io::Result<()> {
    let mut table = TabWriter::new(Vec::new()).padding(3);
    writeln!(table, "{}", head.join("\t"))?;
    for row in rows {
        writeln!(table, "{}", row.join("\t"))?;
    }
    let bytes = table.into_inner().map_err(|error| io::Error::other(error.to_string()))?;
    out.write_all(&bytes)?;
    out.flush()
}

/// Writes members as `headcount members` shows them: at a terminal in colour, the worst first, elsewhere in the order
/// given.
pub(super) fn members(out: &mut impl Write, members: &[Member], now: SystemTime, paint: Paint) -> io::Result<()> {
    let mut members = members.to_vec();
    if paint != Paint::OFF {
        members.sort_by(worst_first);
    }
    let row = |member: &Member| {
        let or_nothing = |text: Option<String>| text.unwrap_or_else(|| NOTHING.to_owned());
        let name = if member.is_me { format!("{} (me)", member.id) } else { member.id.clone() };
        let why = member.reason.as_ref().or(member.method.as_ref());
        let why = why.map(String::as_str).or(member.draining.then_some("draining"));
        let status = why.map_or_else(|| member.status.clone(), |why| format!("{} ({why})", member.status));
        [
            human::plain(&name),
            paint.tone(Tone::of_status(&member.status), &human::plain(&status)),
            human::plain(&member.address),
            human::ago(member.since, now),
            or_nothing(member.last_heard_ms.map(|ms| human::duration(Duration::from_millis(ms)))),
            or_nothing(member.rtt_ms.map(|ms| format!("{ms:.1}ms"))),
            human::tags(&member.tags),
        ]
    };
    write(out, ["NODE", "STATUS", "ADDRESS", "SINCE", "HEARD", "RTT", "TAGS"], members.iter().map(row))
}

/// Writes the reasons why a cluster is not well, below its members; nothing of one that is.
pub(super) fn verdict(out: &mut impl Write, verdict: &Verdict, paint: Paint) -> io::Result<()> {
    let reasons = verdict.reasons.iter().filter(|reason| reason.state != "well");
    for (place, reason) in reasons.enumerate() {
        let state = paint.tone(Tone::of_state(&reason.state), &human::plain(&reason.state));
        writeln!(out, "{}{state}: {}", if place == 0 { "\n" } else { "" }, human::plain(&reason.text))?;
        if let Some(hint) = &reason.hint {
            writeln!(out, "{}", paint.tone(Tone::Faint, &format!("  → {}", human::plain(hint))))?;
        }
    }
    out.flush()
}

/// Writes the outcome for each address of a join.
pub(super) fn join_results(out: &mut impl Write, results: &[JoinResult]) -> io::Result<()> {
    let row = |result: &JoinResult| {
        let or_nothing = |text: Option<&String>| text.map_or_else(|| NOTHING.to_owned(), |text| human::plain(text));
        [human::plain(&result.address), or_nothing(result.node.as_ref()), or_nothing(result.error.as_ref())]
    };
    write(out, ["ADDRESS", "NODE", "ERROR"], results.iter().map(row))
}

/// Writes one node's figures.
pub(super) fn info(out: &mut impl Write, info: &Info) -> io::Result<()> {
    let ms = |ms| human::duration(Duration::from_millis(ms));
    let counts = info.members;
    let by_status = [
        ("joining", counts.joining),
        ("up", counts.up),
        ("suspect", counts.suspect),
        ("leaving", counts.leaving),
        ("down", counts.down),
        ("left", counts.left),
    ];
    let some = by_status.iter().filter(|(_, count)| *count > 0);
    let members = some.map(|(status, count)| format!("{count} {status}")).collect::<Vec<_>>().join(", ");
    let timing = &info.timing;
    let rows = [
        ("node", info.node.clone()),
        ("cluster", info.cluster.clone()),
        ("status", info.status.clone()),
        ("members", members),
        ("gossip", info.address.clone()),
        ("http", info.http.clone().unwrap_or_else(|| NOTHING.to_owned())),
        ("run", info.run.clone()),
        ("incarnation", info.incarnation.to_string()),
        ("view", format!("{} after {}", info.fingerprint, human::count(count_of(info.changes), "change"))),
        ("profile", info.profile.clone()),
        (
            "timing",
            format!(
                "heartbeat {}, suspect {}, down {}",
                ms(timing.heartbeat_interval_ms),
                ms(timing.suspect_timeout_ms),
                ms(timing.down_timeout_ms)
            ),
        ),
        ("sealing", info.sealing.as_ref().map_or_else(|| NOTHING.to_owned(), sealing)),
        ("uptime", ms(info.uptime_ms)),
        ("tasks", info.tasks.clone()),
        ("version", format!("{} (protocol {} to {})", info.version, info.protocol.min, info.protocol.max)),
    ];
    // No row where leaders do not come by a lease.
    let leases = info.leases.iter().map(|leases| ("leases", leases.join(", ")));
    let missing = info.joining.iter().map(|missing| ("joining", missing.clone()));
    let cell = |(key, value): (&str, String)| [key.to_owned(), human::plain(&value)];
    write(out, ["WHAT", "VALUE"], rows.into_iter().chain(leases).chain(missing).map(cell))
}

/// Returns the mode and the key, and who is heard without a seal.
fn sealing(Sealing { mode, key, consented }: &Sealing) -> String {
    let key = key.as_ref().map(|key| format!(", key {key}")).unwrap_or_default();
    let clear = match (mode.as_str(), consented) {
        ("require", _) => "",
        (_, true) => ", takes packets of other machines that are not sealed",
        (_, false) => ", hears this machine alone",
    };
    format!("{mode}{key}{clear}")
}

fn count_of(number: u64) -> usize {
    usize::try_from(number).unwrap_or(usize::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn members_are_shown_in_aligned_columns() {
        let json = r#"[
            {"id":"a","run":"01","address":"10.0.0.1:7117","api_address":null,"status":"up","incarnation":1,
             "since":"2026-01-01T00:00:00.000Z","last_heard_ms":null,"rtt_ms":null,"tags":{"zone":"eu-1","role":"x"},
             "version":"0.1.0","is_me":true,"method":null,"reason":null},
            {"id":"b","run":"02","address":"10.0.0.2:7117","api_address":null,"status":"down","incarnation":1,
             "since":"2026-01-01T00:02:00.000Z","last_heard_ms":12000,"rtt_ms":0.44,"tags":{},
             "version":"0.1.0","is_me":false,"method":"connection_lost","reason":null}]"#;
        let list: Vec<Member> = serde_json::from_str(json).expect("members");
        let mut out = Vec::new();
        let now = crate::json::parse_rfc3339("2026-01-01T00:03:12Z").expect("a time");
        members(&mut out, &list, now, Paint::OFF).expect("written");
        let expected = "\
NODE     STATUS                   ADDRESS         SINCE   HEARD   RTT     TAGS
a (me)   up                       10.0.0.1:7117   3m12s   -       -       role=x,zone=eu-1
b        down (connection_lost)   10.0.0.2:7117   1m12s   12s     0.4ms   -
";
        assert_eq!(String::from_utf8(out).expect("text"), expected);
        let mut out = Vec::new();
        members(&mut out, &list, now, Paint::ON).expect("written");
        let expected = "\
NODE     STATUS                   ADDRESS         SINCE   HEARD   RTT     TAGS
b        \u{1b}[1;31mdown (connection_lost)\u{1b}[0m   10.0.0.2:7117   1m12s   12s     0.4ms   -
a (me)   \u{1b}[32mup\u{1b}[0m                       10.0.0.1:7117   3m12s   -       -       role=x,zone=eu-1
";
        assert_eq!(String::from_utf8(out).expect("text"), expected, "at a terminal");
    }

    #[test]
    fn an_empty_list_still_names_the_columns() {
        let mut out = Vec::new();
        members(&mut out, &[], SystemTime::UNIX_EPOCH, Paint::OFF).expect("written");
        assert_eq!(String::from_utf8(out).expect("text").lines().count(), 1);
    }
}
