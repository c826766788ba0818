//! `headcount watch`: events as they happen, across broken connections.
//!
//! Invariant: nothing is lost silently. A stream that breaks is resumed after the last event seen; events that the
//! agent no longer keeps are reported (`lagged`), followed by all members.

use std::io::{self, Write};
use std::thread::sleep;
use std::time::{Duration, SystemTime};

use serde_json::json;

use super::args::{LineFormat, WatchArgs};
use super::client::connect;
use super::commands::json_line;
use super::failure::{Exit, Failure};
use super::human::{self, plain};
use super::paint::{Paint, Tone};
use super::table;
use crate::client::{EventQuery, EventUpdate};
use crate::json::Event;
use crate::lease::LeaseName;

/// Pause before the reader of standard output is looked for again.
const LOOK_AGAIN: Duration = Duration::from_secs(1);

pub(super) fn run(args: &WatchArgs, out: &mut impl Write) -> Result<Exit, Failure> {
    let client = connect(&args.agent)?;
    let names = |names: &[LeaseName]| names.iter().map(ToString::to_string).collect::<Vec<_>>();
    let nodes = args.node.iter().map(ToString::to_string);
    let mut query = EventQuery::all().kinds(&args.kind).nodes(nodes).leases(names(&args.lease));
    if args.snapshot {
        query = query.from_snapshot();
    }
    if let Some(id) = args.after {
        query = query.after(id.to_string());
    }
    if args.lease.iter().any(|lease| lease.as_str() != LeaseName::DEFAULT)
        && let Ok(info) = client.info()
        && let Some(told) = unheard(&info.node, info.leases.as_deref(), &args.lease)
    {
        tell(&told);
    }
    let mut printer = Printer { out, format: args.format, ids: args.ids, paint: Paint::of_stdout() };
    #[cfg(unix)]
    end_with_the_reader();

    // An agent that cannot be reached at all is a failure; one that was reached before is worth waiting for.
    let mut events = client.events(&query)?;
    while let Some(update) = events.next() {
        match update? {
            EventUpdate::Lost { reason } => {
                let place = events.last_id().map_or_else(String::new, |id| format!(" after event {}", plain(id)));
                tell(&format!("the event stream of {} {reason}: trying again every second{place}", client.address()));
            }
            EventUpdate::Resumed => tell(&format!("the event stream of {} goes on", client.address())),
            update => printer.print(update)?,
        }
    }
    // The iterator ends after an error alone.
    Ok(Exit::FAILED)
}

/// Ends this process when the reader of its standard output is gone (`headcount watch | head -2`), as a write would:
/// the next event may be hours away. There is nothing to clean up.
#[cfg(unix)]
pub(super) fn end_with_the_reader() {
    use std::os::fd::AsFd as _;

    use nix::errno::Errno;
    use nix::poll::{PollFd, PollFlags, PollTimeout, poll};

    // Waits only for the end of the reader; files and terminals never report one.
    let watched = || {
        let out = io::stdout();
        let gone = PollFlags::POLLERR | PollFlags::POLLHUP | PollFlags::POLLNVAL;
        loop {
            let mut place = [PollFd::new(out.as_fd(), PollFlags::empty())];
            match poll(&mut place, PollTimeout::NONE) {
                Ok(_) if place[0].revents().is_some_and(|events| events.intersects(gone)) => {
                    std::process::exit(i32::from(Exit::DONE.code()));
                }
                Ok(_) => sleep(LOOK_AGAIN),
                Err(Errno::EINTR) => {}
                // The next write finds out.
                Err(_) => return,
            }
        }
    };
    // Without this thread the next write finds out.
    let _ = std::thread::Builder::new().name("reader".to_owned()).spawn(watched);
}

/// Says of which leases a node never hears, since it contends for others alone; `None` if there are none. The program of
/// an agent may ask for a lease at any time, so that this is no error.
fn unheard(node: &str, contended: Option<&[String]>, asked: &[LeaseName]) -> Option<String> {
    let is_contended = |lease: &str| contended.into_iter().flatten().any(|other| other == lease);
    let those =
        asked.iter().map(LeaseName::as_str).filter(|lease| *lease != LeaseName::DEFAULT && !is_contended(lease));
    let those: Vec<String> = those.map(plain).collect();
    if those.is_empty() {
        return None;
    }
    let (node, those) = (plain(node), those.join(", "));
    Some(match contended {
        Some(_) => format!(
            "{node} does not contend for {those}, and hears of no leader by that lease: name it in leadership.lease.leases \
             there, or ask a node that contends for it (`headcount info` lists its leases)"
        ),
        None => format!(
            "{node} hears of no leader by {those}: leaders do not come by leases in a database there (leadership.mode is not \
             \"lease\")"
        ),
    })
}

pub(super) fn tell(text: &str) {
    // Events still have a reader, even if standard error has none.
    let _ = writeln!(io::stderr(), "headcount: {text}");
}

/// Prints events.
struct Printer<'a, W> {
    out: &'a mut W,
    format: LineFormat,
    /// True if text output shows the events' ids.
    ids: bool,
    paint: Paint,
}

impl<W: Write> Printer<'_, W> {
    fn print(&mut self, update: EventUpdate) -> Result<(), Failure> {
        match (update, self.format) {
            (EventUpdate::Snapshot(snapshot), LineFormat::Json) => {
                let object = json!({ "event": "snapshot", "id": snapshot.id, "members": snapshot.members });
                json_line(self.out, &object)?;
            }
            (EventUpdate::Snapshot(snapshot), LineFormat::Text) => {
                table::members(self.out, &snapshot.members, SystemTime::now(), self.paint)?;
            }
            (EventUpdate::Lagged(lagged), LineFormat::Json) => {
                json_line(self.out, &json!({ "event": "lagged", "missed": lagged.missed }))?;
            }
            (EventUpdate::Lagged(lagged), LineFormat::Text) => {
                let missed = lagged.missed.map_or_else(|| "some".to_owned(), |missed| missed.to_string());
                writeln!(self.out, "events were missed: {missed}; the members are now:")?;
            }
            (EventUpdate::Event(event), LineFormat::Json) => json_line(self.out, &event)?,
            (EventUpdate::Event(event), LineFormat::Text) => {
                let id = if self.ids { format!("  {}", plain(&event.id)) } else { String::new() };
                writeln!(self.out, "{}{}", line(&event, self.paint), self.paint.tone(Tone::Faint, &id))?;
            }
            _ => {}
        }
        self.out.flush()?;
        Ok(())
    }
}

/// Formats one event for people: date, kind, node and address, and what else there is to say.
pub(super) fn line(event: &Event, paint: Paint) -> String {
    let kind = format!("{:<18}", plain(&event.event));
    let tone = Tone::of_event(&event.event);
    let mut parts = vec![paint.tone(Tone::Faint, &human::date_and_time(event.at)), paint.tone(tone, &kind)];
    parts.extend(event.node.as_deref().map(plain));
    parts.extend(event.address.as_deref().map(|address| paint.tone(Tone::Faint, &plain(address))));
    parts.extend(details(event));
    parts.join("  ")
}

/// Returns what an event says besides its kind and its node: causes, terms, sides of a cut, changes.
pub(super) fn details(event: &Event) -> Vec<String> {
    let mut parts = Vec::new();
    if let Some(why) = event.reason.as_ref().or(event.method.as_ref()) {
        parts.push(format!("({})", plain(why)));
    }
    for (what, number) in [("term", event.term), ("view", event.number)] {
        parts.extend(number.map(|number| format!("{what} {number}")));
    }
    // The lease by which the cluster is led is not named, as in the log.
    let further = event.lease.as_deref().filter(|lease| *lease != LeaseName::DEFAULT);
    parts.extend(further.map(|lease| format!("lease {}", plain(lease))));
    for (what, names) in [("unreachable", &event.unreachable), ("reachable", &event.reachable)] {
        if let Some(names) = names {
            parts.push(format!("{} {what}{}", names.len(), some_of(names)));
        }
    }
    if let (Some(previous), Some(now)) = (&event.previous, &event.member) {
        if previous.status != now.status {
            parts.push(format!("{} → {}", plain(&previous.status), plain(&now.status)));
        }
        if previous.draining != now.draining {
            parts.push(if now.draining { "draining" } else { "no longer draining" }.to_owned());
        }
        if previous.tags != now.tags {
            parts.push(format!("tags {}", human::tags(&now.tags)));
        }
        if previous.incarnation != now.incarnation {
            parts.push(format!("incarnation {}", now.incarnation));
        }
    }
    parts
}

/// Formats names for a line of text: all of them, if they are few.
fn some_of(names: &[String]) -> String {
    const MOST: usize = 8;
    let listed: Vec<String> = names.iter().take(MOST).map(|name| plain(name)).collect();
    let more = names.len().saturating_sub(MOST);
    match (listed.is_empty(), more) {
        (true, _) => String::new(),
        (false, 0) => format!(" ({})", listed.join(", ")),
        (false, more) => format!(" ({} and {more} more)", listed.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const JOINED: &str = concat!(
        r#"{"id":"0000000000000001-7","sequence":7,"at":"2026-01-01T00:00:00.000Z","event":"node_joined","node":"b","#,
        r#""address":"10.0.0.2:7117","member":{"id":"b","run":"0000000000000002","address":"10.0.0.2:7117","#,
        r#""api_address":null,"status":"up","incarnation":1,"since":"2026-01-01T00:00:00.000Z","last_heard_ms":null,"#,
        r#""heard_interval_ms":null,"last_sent_ms":null,"sent_interval_ms":null,"rtt_ms":null,"tags":{},"#,
        r#""version":"0.1.0","draining":false,"is_me":false,"method":null,"reason":null},"live_members":2}"#
    );

    fn event(data: &str) -> EventUpdate {
        EventUpdate::Event(Box::new(serde_json::from_str(data).expect("an event")))
    }

    fn print(updates: impl IntoIterator<Item = EventUpdate>, format: LineFormat, ids: bool, paint: Paint) -> String {
        let mut out = Vec::new();
        let mut printer = Printer { out: &mut out, format, ids, paint };
        for update in updates {
            printer.print(update).expect("printed");
        }
        String::from_utf8(out).expect("text")
    }

    fn text_of(data: &str) -> String {
        print([event(data)], LineFormat::Text, false, Paint::OFF)
    }

    #[test]
    fn json_is_one_event_object_a_line() {
        let snapshot = r#"{"id":"0000000000000001-6","members":[]}"#;
        let updates = [
            EventUpdate::Lagged(crate::json::Lagged { missed: None }),
            EventUpdate::Snapshot(serde_json::from_str(snapshot).expect("a snapshot")),
            event(JOINED),
        ];
        let expected = format!(
            "{}\n{}\n{JOINED}\n",
            r#"{"event":"lagged","missed":null}"#, r#"{"event":"snapshot","id":"0000000000000001-6","members":[]}"#
        );
        assert_eq!(print(updates, LineFormat::Json, false, Paint::ON), expected);
    }

    #[test]
    fn colours_are_around_the_words_of_a_line_and_change_none_of_them() {
        let plain = text_of(JOINED);
        let coloured = print([event(JOINED)], LineFormat::Text, false, Paint::ON);
        assert!(coloured.contains("\u{1b}[32mnode_joined       \u{1b}[0m  b  "), "{coloured:?}");
        let bare = ["\u{1b}[32m", "\u{1b}[2m", "\u{1b}[0m"].iter().fold(coloured, |text, code| text.replace(code, ""));
        assert_eq!(bare, plain);
    }

    #[test]
    fn text_names_kind_node_and_address() {
        let text = text_of(JOINED);
        assert!(text.ends_with("  node_joined         b  10.0.0.2:7117\n"), "{text}");
        // The local date may be a different one.
        assert!(text.starts_with("202") && text.get(4..5) == Some("-") && text.get(10..11) == Some(" "), "{text}");
    }

    #[test]
    fn text_shows_the_id_after_which_to_go_on_if_it_is_asked_for() {
        let text = print([event(JOINED)], LineFormat::Text, true, Paint::OFF);
        let id = text.split_whitespace().last().expect("an id");
        assert!(id.parse::<crate::json::EventId>().is_ok_and(|id| id.sequence == 7), "{text}");
    }

    #[test]
    fn leases_that_a_node_never_hears_of_are_named() {
        let asked = ["default", "billing", "stock"].map(|name| LeaseName::new(name).expect("a name"));
        let told = |contended: Option<&[&str]>| {
            let contended: Option<Vec<String>> =
                contended.map(|names| names.iter().map(|name| (*name).to_owned()).collect());
            unheard("n1", contended.as_deref(), &asked)
        };
        assert_eq!(told(Some(&["billing", "stock"])), None, "that of the cluster is heard of by everybody");
        let one = told(Some(&["default", "billing"])).expect("one is not contended for");
        assert!(one.contains("n1 does not contend for stock, "), "{one}");
        let all = told(None).expect("there are none");
        assert!(all.contains("by billing, stock: ") && all.contains("leadership.mode is not"), "{all}");
    }

    #[test]
    fn text_about_leaders_names_reason_and_term() {
        let data = concat!(
            r#"{"id":"0000000000000001-7","sequence":7,"at":"2026-01-01T00:00:00.000Z","event":"leader_lost","node":"b","#,
            r#""address":"10.0.0.2:7117","member":null,"reason":"expired","term":4}"#
        );
        let text = text_of(data);
        assert!(text.ends_with("  leader_lost         b  10.0.0.2:7117  (expired)  term 4\n"), "{text}");
        for (lease, end) in [("billing", "  term 4  lease billing\n"), ("default", "  term 4\n")] {
            let data = data.replace(r#""term":4"#, &format!(r#""term":4,"lease":"{lease}""#));
            let text = text_of(&data);
            assert!(text.ends_with(end), "{text}");
        }
    }

    #[test]
    fn text_of_a_partition_names_both_sides_and_cuts_long_lists() {
        let names: Vec<String> = (10..20).map(|i| format!("\"n{i}\"")).collect();
        let data = format!(
            r#"{{"id":"0000000000000001-7","sequence":7,"at":"2026-01-01T00:00:00.000Z","event":"partition_healed","node":null,"address":null,"member":null,"unreachable":[],"reachable":[{}]}}"#,
            names.join(",")
        );
        let text = text_of(&data);
        let line =
            "  partition_healed    0 unreachable  10 reachable (n10, n11, n12, n13, n14, n15, n16, n17 and 2 more)\n";
        assert!(text.ends_with(line), "{text}");
    }
}
