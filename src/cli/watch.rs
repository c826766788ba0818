//! `headcount watch`: events as they happen, across broken connections.
//!
//! Invariant: nothing is lost silently. A stream that breaks is resumed after the last event seen; events that the
//! agent no longer keeps are reported (`lagged`), followed by all members.

use std::io::{self, Write};
use std::thread::sleep;
use std::time::{Duration, SystemTime};

use serde_json::json;

use super::args::{LineFormat, WatchArgs};
use super::client::{Client, Stream};
use super::commands::{json_line, with_query};
use super::failure::{Exit, Failure};
use super::human::{self, plain};
use super::sse::Frame;
use super::table;
use crate::json::{Event, Lagged, Snapshot};
use crate::lease::LeaseName;

/// Pause before the agent is tried again.
const TRY_AGAIN: Duration = Duration::from_secs(1);

pub(super) fn run(args: &WatchArgs, out: &mut impl Write) -> Result<Exit, Failure> {
    let client = Client::new(&args.agent)?;
    let nodes: Vec<_> = args.node.iter().map(ToString::to_string).collect();
    let flag: &[String] = if args.snapshot { &["true".to_owned()] } else { &[] };
    let leases: Vec<_> = args.lease.iter().map(ToString::to_string).collect();
    let asked = [("kind", &*args.kind), ("node", &*nodes), ("lease", &*leases), ("snapshot", flag)];
    let path = with_query("/v1/events", &asked);
    let last = args.after.map(|id| id.to_string());
    let mut printer = Printer { out, format: args.format, ids: args.ids, last };
    #[cfg(unix)]
    end_with_the_reader();

    // An agent that cannot be reached at all is a failure; one that was reached before is worth waiting for.
    let mut stream = client.stream(&path, printer.last.as_deref())?;
    loop {
        let why = printer.follow(&mut stream)?;
        let place = printer.last.as_deref().map_or_else(String::new, |id| format!(" after event {}", plain(id)));
        tell(&format!("the event stream of {} {why}: trying again every second{place}", client.address()));
        stream = loop {
            sleep(TRY_AGAIN);
            match client.stream(&path, printer.last.as_deref()) {
                Ok(stream) => break stream,
                Err(failure) if failure.is_transient() => {}
                Err(failure) => return Err(failure),
            }
        };
        tell(&format!("the event stream of {} goes on", client.address()));
    }
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
                Ok(_) => sleep(TRY_AGAIN),
                Err(Errno::EINTR) => {}
                // The next write finds out.
                Err(_) => return,
            }
        }
    };
    // Without this thread the next write finds out.
    let _ = std::thread::Builder::new().name("reader".to_owned()).spawn(watched);
}

pub(super) fn tell(text: &str) {
    // Events still have a reader, even if standard error has none.
    let _ = writeln!(io::stderr(), "headcount: {text}");
}

/// Prints frames and remembers the id of the last one.
struct Printer<'a, W> {
    out: &'a mut W,
    format: LineFormat,
    /// True if text output shows the events' ids.
    ids: bool,
    last: Option<String>,
}

impl<W: Write> Printer<'_, W> {
    /// Prints events until the stream ends; returns the reason for the end.
    fn follow(&mut self, stream: &mut Stream) -> Result<String, Failure> {
        if self.last.is_none() {
            self.last.clone_from(&stream.start);
        }
        loop {
            match stream.frames.next() {
                Ok(Some(frame)) => self.print(frame)?,
                Ok(None) => return Ok("ended".to_owned()),
                Err(error) => return Ok(format!("broke ({error})")),
            }
        }
    }

    fn print(&mut self, frame: Frame) -> Result<(), Failure> {
        match (frame.event.as_str(), self.format) {
            ("snapshot", LineFormat::Json) => {
                let Snapshot { id, members, .. } = read(&frame)?;
                json_line(self.out, &json!({ "event": "snapshot", "id": id, "members": members }))?;
            }
            ("snapshot", LineFormat::Text) => {
                let snapshot: Snapshot = read(&frame)?;
                table::members(self.out, &snapshot.members, SystemTime::now())?;
            }
            ("lagged", LineFormat::Json) => {
                let Lagged { missed } = read(&frame)?;
                json_line(self.out, &json!({ "event": "lagged", "missed": missed }))?;
            }
            ("lagged", LineFormat::Text) => {
                let missed = read::<Lagged>(&frame)?.missed;
                let missed = missed.map_or_else(|| "some".to_owned(), |missed| missed.to_string());
                writeln!(self.out, "{missed} events were missed; the members are now:")?;
            }
            (_, LineFormat::Json) => json_line(self.out, &read::<Event>(&frame)?)?,
            (_, LineFormat::Text) => {
                let event: Event = read(&frame)?;
                let id = if self.ids { format!("  {}", plain(&event.id)) } else { String::new() };
                writeln!(self.out, "{}{id}", line(&event))?;
            }
        }
        self.out.flush()?;
        if frame.id.is_some() {
            self.last = frame.id;
        }
        Ok(())
    }
}

fn read<T: serde::de::DeserializeOwned>(frame: &Frame) -> Result<T, Failure> {
    serde_json::from_str(&frame.data).map_err(|error| {
        Failure::failed(format!("cannot read event \"{}\": {error}", plain(&frame.event)))
            .hint("is the agent much newer or older than this command?")
    })
}

/// Formats one event for people.
pub(super) fn line(event: &Event) -> String {
    let kind = format!("{:<18}", plain(&event.event));
    let mut parts = vec![human::date_and_time(event.at), kind];
    parts.extend([&event.node, &event.address].into_iter().flatten().map(|text| plain(text)));
    if let Some(why) = event.reason.as_ref().or(event.method.as_ref()) {
        parts.push(format!("({})", plain(why)));
    }
    for (what, number) in [("term", event.term), ("view", event.number)] {
        parts.extend(number.map(|number| format!("{what} {number}")));
    }
    // That by which the cluster is led is not named, as in the log.
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
            parts.push(if now.draining { "drains" } else { "drains no more" }.to_owned());
        }
        if previous.tags != now.tags {
            parts.push(format!("tags {}", human::tags(&now.tags)));
        }
        if previous.incarnation != now.incarnation {
            parts.push(format!("incarnation {}", now.incarnation));
        }
    }
    parts.join("  ")
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
    use crate::cli::sse::Frames;

    const JOINED: &str = concat!(
        r#"{"id":"0000000000000001-7","sequence":7,"at":"2026-01-01T00:00:00.000Z","event":"node_joined","node":"b","#,
        r#""address":"10.0.0.2:7117","member":{"id":"b","run":"0000000000000002","address":"10.0.0.2:7117","#,
        r#""api_address":null,"status":"up","incarnation":1,"since":"2026-01-01T00:00:00.000Z","last_heard_ms":null,"#,
        r#""rtt_ms":null,"tags":{},"version":"0.1.0","draining":false,"is_me":false,"method":null,"reason":null}}"#
    );

    fn printed(format: LineFormat, stream: &str) -> (String, Option<String>) {
        let mut out = Vec::new();
        let mut printer = Printer { out: &mut out, format, ids: false, last: None };
        let mut frames = Frames::new(stream.as_bytes());
        while let Some(frame) = frames.next().expect("readable") {
            printer.print(frame).expect("printed");
        }
        let last = printer.last;
        (String::from_utf8(out).expect("text"), last)
    }

    #[test]
    fn json_is_one_event_object_a_line() {
        let stream = format!(
            "event: lagged\ndata: {{\"missed\":null}}\n\nid: 0000000000000001-6\nevent: snapshot\ndata: {{\"id\":\"0000000000000001-6\",\"members\":[]}}\n\nid: 0000000000000001-7\nevent: node_joined\ndata: {JOINED}\n\n"
        );
        let (text, last) = printed(LineFormat::Json, &stream);
        let expected = format!(
            "{}\n{}\n{JOINED}\n",
            r#"{"event":"lagged","missed":null}"#, r#"{"event":"snapshot","id":"0000000000000001-6","members":[]}"#
        );
        assert_eq!(text, expected);
        assert_eq!(last.as_deref(), Some("0000000000000001-7"));
    }

    #[test]
    fn text_names_kind_node_and_address() {
        let (text, _) = printed(LineFormat::Text, &format!("event: node_joined\ndata: {JOINED}\n\n"));
        assert!(text.ends_with("  node_joined         b  10.0.0.2:7117\n"), "{text}");
        // The local date may be a different one.
        assert!(text.starts_with("202") && text.get(4..5) == Some("-") && text.get(10..11) == Some(" "), "{text}");
    }

    #[test]
    fn text_shows_the_id_after_which_to_go_on_if_it_is_asked_for() {
        let mut out = Vec::new();
        let mut printer = Printer { out: &mut out, format: LineFormat::Text, ids: true, last: None };
        let frame = Frame { id: None, event: "node_joined".to_owned(), data: JOINED.to_owned() };
        printer.print(frame).expect("printed");
        let text = String::from_utf8(out).expect("text");
        let id = text.split_whitespace().last().expect("an id");
        assert!(id.parse::<crate::json::EventId>().is_ok_and(|id| id.sequence == 7), "{text}");
    }

    #[test]
    fn text_about_leaders_names_reason_and_term() {
        let data = concat!(
            r#"{"id":"0000000000000001-7","sequence":7,"at":"2026-01-01T00:00:00.000Z","event":"leader_lost","node":"b","#,
            r#""address":"10.0.0.2:7117","member":null,"reason":"expired","term":4}"#
        );
        let (text, _) = printed(LineFormat::Text, &format!("event: leader_lost\ndata: {data}\n\n"));
        assert!(text.ends_with("  leader_lost         b  10.0.0.2:7117  (expired)  term 4\n"), "{text}");
        for (lease, end) in [("billing", "  term 4  lease billing\n"), ("default", "  term 4\n")] {
            let data = data.replace(r#""term":4"#, &format!(r#""term":4,"lease":"{lease}""#));
            let (text, _) = printed(LineFormat::Text, &format!("event: leader_lost\ndata: {data}\n\n"));
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
        let (text, _) = printed(LineFormat::Text, &format!("event: partition_healed\ndata: {data}\n\n"));
        let line =
            "  partition_healed    0 unreachable  10 reachable (n10, n11, n12, n13, n14, n15, n16, n17 and 2 more)\n";
        assert!(text.ends_with(line), "{text}");
    }

    #[test]
    fn an_event_that_cannot_be_read_is_a_failure_with_a_hint() {
        let mut out = Vec::new();
        let mut printer = Printer { out: &mut out, format: LineFormat::Text, ids: false, last: None };
        let frame = Frame { id: None, event: "node_joined".to_owned(), data: "{}".to_owned() };
        let failure = printer.print(frame).expect_err("no event");
        assert!(failure.to_string().contains("newer or older"), "{failure}");
    }
}
