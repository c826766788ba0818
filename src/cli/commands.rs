//! The client commands that ask once and print the answer.
//!
//! Invariant: with `--format json` the answer's JSON is printed as the contract says, whatever the agent added to it is
//! left out; tables may change from version to version.

use std::io::Write;
use std::thread::sleep;
use std::time::{Duration, Instant, SystemTime};

use serde::Serialize;
use serde_json::json;

use super::args::{Format, JoinArgs, MembersArgs, RemoveArgs, TagsArgs, TargetArgs, WaitArgs};
use super::client::Client;
use super::failure::{Exit, Failure};
use super::human::{self, plain};
use super::table;
use crate::json::{Info, JoinRequest, JoinResults, Member, Removed, SetTags};

/// Pause between two looks while waiting.
const LOOK_AGAIN: Duration = Duration::from_millis(200);
/// How long `leave` waits for the agent to be gone.
const LEAVE_TIMEOUT: Duration = Duration::from_secs(10);

pub(super) fn members(args: &MembersArgs, out: &mut impl Write) -> Result<Exit, Failure> {
    let client = Client::new(&args.target.agent)?;
    let path = with_query("/v1/members", &[("status", &args.status), ("tag", &args.tags)]);
    let members: Vec<Member> = client.get(&path)?;
    match args.target.format {
        Format::Json => json_line(out, &members)?,
        Format::Table => table::members(out, &members, SystemTime::now())?,
    }
    Ok(Exit::DONE)
}

pub(super) fn info(args: &TargetArgs, out: &mut impl Write) -> Result<Exit, Failure> {
    let info: Info = Client::new(&args.agent)?.get("/v1/info")?;
    match args.format {
        Format::Json => json_line(out, &info)?,
        Format::Table => table::info(out, &info)?,
    }
    Ok(Exit::DONE)
}

pub(super) fn join(args: &JoinArgs, out: &mut impl Write) -> Result<Exit, Failure> {
    let client = Client::new(&args.target.agent)?;
    let request = JoinRequest { addresses: args.addresses.clone() };
    let answer: JoinResults = client.send("POST", "/v1/join", &request)?;
    match args.target.format {
        Format::Json => json_line(out, &answer)?,
        Format::Table => table::join_results(out, &answer.results)?,
    }
    Ok(Exit::DONE)
}

pub(super) fn leave(args: &TargetArgs, out: &mut impl Write) -> Result<Exit, Failure> {
    let client = Client::new(&args.agent)?;
    let info: Info = client.get("/v1/info")?;
    client.post_nothing("/v1/leave")?;
    let deadline = Instant::now() + LEAVE_TIMEOUT;
    // Another process may have taken over the address: that is a farewell, too.
    while client.get::<Info>("/v1/info").is_ok_and(|now| now.run == info.run) {
        if Instant::now() >= deadline {
            let seconds = LEAVE_TIMEOUT.as_secs();
            return Err(Failure::failed(format!(
                "{} was asked to leave and is still there after {seconds} s",
                info.node
            ))
            .hint("look at its log, or send its process a second signal"));
        }
        sleep(LOOK_AGAIN);
    }
    match args.format {
        Format::Json => json_line(out, &json!({ "node": info.node, "status": "left" }))?,
        Format::Table => writeln!(out, "{} has left", plain(&info.node))?,
    }
    Ok(Exit::DONE)
}

pub(super) fn remove(args: &RemoveArgs, out: &mut impl Write) -> Result<Exit, Failure> {
    const CONFIRMED: u16 = 200;
    let client = Client::new(&args.target.agent)?;
    let force = if args.force { "?force=true" } else { "" };
    let (status, removed): (_, Removed) = client.delete(&format!("/v1/members/{}{force}", args.node))?;
    match args.target.format {
        Format::Json => json_line(out, &removed)?,
        Format::Table => {
            let peers = human::count(removed.held_by, "peer");
            let doubt = if status == CONFIRMED { "" } else { "; not confirmed yet, it spreads further" };
            writeln!(out, "{} is removed, known to {peers}{doubt}", args.node)?;
        }
    }
    Ok(Exit::DONE)
}

pub(super) fn tags(args: &TagsArgs, out: &mut impl Write) -> Result<Exit, Failure> {
    let client = Client::new(&args.target.agent)?;
    let info: Info = client.get("/v1/info")?;
    let me: Member = client.get(&format!("/v1/members/{}", info.node))?;
    let mut tags = me.tags.clone();
    for key in &args.unset {
        if tags.remove(key).is_none() {
            return Err(Failure::failed(format!("{} has no tag \"{}\"", info.node, plain(key)))
                .hint("nothing was changed; `headcount tags` shows those there are"));
        }
    }
    tags.extend(args.set.iter().cloned());
    if tags != me.tags {
        tags = client.send::<SetTags>("PUT", "/v1/tags", &SetTags { tags })?.tags;
    }
    match args.target.format {
        Format::Json => json_line(out, &SetTags { tags })?,
        Format::Table => {
            table::write(out, ["TAG", "VALUE"], tags.iter().map(|(key, value)| [plain(key), plain(value)]))?;
        }
    }
    Ok(Exit::DONE)
}

pub(super) fn wait(args: &WaitArgs, out: &mut impl Write) -> Result<Exit, Failure> {
    let client = Client::new(&args.target.agent)?;
    let deadline = Instant::now().checked_add(args.timeout);
    loop {
        let seen = client.get::<Info>("/v1/info").map(|info| info.members.up);
        match &seen {
            Ok(up) if *up >= args.members => {
                match args.target.format {
                    Format::Json => json_line(out, &json!({ "up": up }))?,
                    Format::Table => writeln!(out, "{up} up")?,
                }
                return Ok(Exit::DONE);
            }
            // An agent that is not there yet is what scripts wait for as well.
            Ok(_) => {}
            Err(failure) if failure.is_passing() => {}
            Err(_) => return seen.map(|_| Exit::FAILED),
        }
        if deadline.is_some_and(|deadline| Instant::now() >= deadline) {
            let up = seen?;
            let waited = human::duration(args.timeout);
            return Err(Failure::failed(format!("after {waited} {up} of {} members are up", args.members))
                .hint("`headcount members` shows them, --timeout waits longer"));
        }
        sleep(LOOK_AGAIN);
    }
}

/// One line of JSON.
pub(super) fn json_line(out: &mut impl Write, value: &impl Serialize) -> Result<(), Failure> {
    let text = serde_json::to_string(value).map_err(|error| Failure::failed(format!("cannot write JSON: {error}")))?;
    writeln!(out, "{text}")?;
    out.flush()?;
    Ok(())
}

/// A path with lists in its query; empty ones are left out.
pub(super) fn with_query(path: &str, lists: &[(&str, &[String])]) -> String {
    let list = |(key, items): &(&str, &[String])| {
        format!("{key}={}", items.iter().map(|item| percent(item)).collect::<Vec<_>>().join(","))
    };
    let query: Vec<_> = lists.iter().filter(|(_, items)| !items.is_empty()).map(list).collect();
    if query.is_empty() { path.to_owned() } else { format!("{path}?{}", query.join("&")) }
}

/// A text as it stands in a query (RFC 3986: all but unreserved characters in hex).
fn percent(text: &str) -> String {
    let byte = |byte: u8| match byte {
        b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => char::from(byte).to_string(),
        _ => format!("%{byte:02X}"),
    };
    text.bytes().map(byte).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn queries_are_escaped_and_empty_lists_left_out() {
        let status = ["up".to_owned(), "left".to_owned()];
        let tags = ["zone=eu 1&x".to_owned()];
        assert_eq!(with_query("/v1/members", &[("status", &[]), ("tag", &[])]), "/v1/members");
        assert_eq!(
            with_query("/v1/members", &[("status", &status), ("tag", &tags)]),
            "/v1/members?status=up,left&tag=zone%3Deu%201%26x"
        );
    }
}
