//! The client commands that ask once and print the answer.
//!
//! Invariant: with `--format json` the answer is printed with the keys of the contract alone, without any that the
//! agent added; tables may change from version to version.

use std::io::Write;
use std::thread::sleep;
use std::time::{Duration, Instant, SystemTime};

use serde::Serialize;
use serde_json::json;

use super::args::{DoubtArgs, Format, JoinArgs, MembersArgs, RemoveArgs, TagsArgs, TargetArgs, WaitArgs};
use super::client::connect;
use super::failure::{Exit, Failure};
use super::human::{self, plain};
use super::paint::Paint;
use super::table;
use crate::client::{Client, ClientError, DEFAULT_TIMEOUT, MemberQuery, RetryOutlook};
use crate::json::{Info, JoinResults, SetTags};

/// Interval between two polls of an agent.
const LOOK_AGAIN: Duration = Duration::from_millis(200);
/// Time limit for one poll while the end of an agent is awaited.
const LOOK_TIMEOUT: Duration = Duration::from_secs(2);
/// The shortest time limit for a poll, however little time the caller has left.
const LEAST_PATIENCE: Duration = Duration::from_millis(500);
/// Time for which `leave` waits for the agent to be gone.
const LEAVE_TIMEOUT: Duration = Duration::from_secs(10);

pub(super) fn members(args: &MembersArgs, out: &mut impl Write) -> Result<Exit, Failure> {
    let query = MemberQuery::all().statuses(&args.status).tags(&args.tags);
    let client = connect(&args.target.agent)?;
    let members = client.members_where(&query)?;
    match args.target.format {
        Format::Json => json_line(out, &members)?,
        Format::Table => {
            table::members(out, &members, SystemTime::now(), Paint::of_stdout())?;
            // An older agent makes none.
            if let (true, Ok(verdict)) = (query == MemberQuery::all(), client.verdict()) {
                table::verdict(out, &verdict, Paint::of_stdout())?;
            }
        }
    }
    Ok(Exit::DONE)
}

pub(super) fn info(args: &TargetArgs, out: &mut impl Write) -> Result<Exit, Failure> {
    let info = connect(&args.agent)?.info()?;
    match args.format {
        Format::Json => json_line(out, &info)?,
        Format::Table => table::info(out, &info)?,
    }
    Ok(Exit::DONE)
}

pub(super) fn join(args: &JoinArgs, out: &mut impl Write) -> Result<Exit, Failure> {
    let results = connect(&args.target.agent)?.join(&args.addresses)?;
    match args.target.format {
        Format::Json => json_line(out, &JoinResults { results })?,
        Format::Table => table::join_results(out, &results)?,
    }
    Ok(Exit::DONE)
}

pub(super) fn leave(args: &TargetArgs, out: &mut impl Write) -> Result<Exit, Failure> {
    let client = connect(&args.agent)?;
    let info = client.info()?;
    client.leave()?;
    until_gone(&client, &info)?;
    match args.format {
        Format::Json => json_line(out, &json!({ "node": info.node, "status": "left" }))?,
        Format::Table => writeln!(out, "{} has left", plain(&info.node))?,
    }
    Ok(Exit::DONE)
}

/// Waits for the end of a process that was asked to leave. Silence is no end: only a port without a listener is, or
/// another process at the same address.
fn until_gone(client: &Client, info: &Info) -> Result<(), Failure> {
    let client = client.clone().with_timeout(LOOK_TIMEOUT);
    let deadline = Instant::now() + LEAVE_TIMEOUT;
    let mut hung_up = false;
    loop {
        let seen = client.info();
        let retry_outlook = seen.as_ref().map_or_else(ClientError::retry_outlook, |_| RetryOutlook::Fails);
        match &seen {
            Ok(now) if now.run == info.run => {}
            Ok(_) => return Ok(()),
            Err(_) if retry_outlook == RetryOutlook::NobodyListens => return Ok(()),
            // A single one may be a connection above the server's limit.
            Err(_) if retry_outlook == RetryOutlook::HungUp && hung_up => return Ok(()),
            Err(_) => {}
        }
        hung_up = retry_outlook == RetryOutlook::HungUp;
        if Instant::now() >= deadline {
            let (node, seconds) = (plain(&info.node), LEAVE_TIMEOUT.as_secs());
            return Err(match seen {
                Ok(_) => Failure::failed(format!("{node} was asked to leave and is still there after {seconds} s"))
                    .hint("look at its log, or send its process a second signal"),
                Err(error) => Failure::failed(format!(
                    "{node} was asked to leave {seconds} s ago, and whether it has is not known; {error}"
                ))
                .hint("`headcount members` at another node shows it"),
            });
        }
        sleep(LOOK_AGAIN);
    }
}

pub(super) fn drain(args: &TargetArgs, is_draining: bool, out: &mut impl Write) -> Result<Exit, Failure> {
    let client = connect(&args.agent)?;
    let drained = if is_draining { client.drain()? } else { client.undrain()? };
    match args.format {
        Format::Json => json_line(out, &drained)?,
        Format::Table => {
            let verb = if drained.draining { "is draining" } else { "is no longer draining" };
            let warning = match drained.may_lead {
                Some(0) => "; no voter is left that may lead, and nobody leads until one is undrained",
                _ => "",
            };
            writeln!(out, "{} {verb}{warning}", plain(&drained.node))?;
        }
    }
    Ok(Exit::DONE)
}

pub(super) fn doubt(args: &DoubtArgs, out: &mut impl Write) -> Result<Exit, Failure> {
    connect(&args.target.agent)?.doubt(args.node.as_str())?;
    match args.target.format {
        Format::Json => json_line(out, &json!({ "node": args.node, "status": "asked" }))?,
        Format::Table => writeln!(out, "{} is asked; `headcount members` shows what comes of it", args.node)?,
    }
    Ok(Exit::DONE)
}

pub(super) fn remove(args: &RemoveArgs, out: &mut impl Write) -> Result<Exit, Failure> {
    let removed = connect(&args.target.agent)?.remove(args.node.as_str(), args.force)?;
    match args.target.format {
        Format::Json => json_line(out, &removed)?,
        Format::Table => {
            let peers = human::count(removed.held_by, "peer");
            let doubt = if removed.confirmed { "" } else { "; not confirmed yet, it spreads further" };
            writeln!(out, "{} is removed, known to {peers}{doubt}", args.node)?;
            for warning in &removed.warnings {
                writeln!(out, "warning: {}", plain(warning))?;
            }
        }
    }
    Ok(Exit::DONE)
}

pub(super) fn tags(args: &TagsArgs, out: &mut impl Write) -> Result<Exit, Failure> {
    let client = connect(&args.target.agent)?;
    let info = client.info()?;
    let me =
        client.member(&info.node)?.ok_or_else(|| Failure::failed(format!("{} is not listed", plain(&info.node))))?;
    let mut tags = me.tags.clone();
    for key in &args.unset {
        if tags.remove(key).is_none() {
            return Err(Failure::failed(format!("{} has no tag \"{}\"", info.node, plain(key)))
                .hint("nothing was changed; `headcount tags` shows those there are"));
        }
    }
    tags.extend(args.set.iter().cloned());
    if tags != me.tags {
        tags = client.set_tags(tags)?;
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
    let client = connect(&args.target.agent)?;
    let wanted = args.wanted();
    // Without a deadline: longer than the clock counts.
    let deadline = Instant::now().checked_add(args.timeout);
    let remaining = || deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()));
    loop {
        // An agent that does not answer must not outlast the caller's timeout.
        let patience = remaining().unwrap_or(Duration::MAX).max(LEAST_PATIENCE);
        let patient = client.clone().with_timeout(patience.min(DEFAULT_TIMEOUT));
        let seen = patient.info().map(|info| info.members.up);
        match &seen {
            Ok(up) if *up >= wanted => {
                match args.target.format {
                    Format::Json => json_line(out, &json!({ "up": up }))?,
                    Format::Table => writeln!(out, "{up} up")?,
                }
                return Ok(Exit::DONE);
            }
            // Scripts also wait for an agent that does not run yet.
            Ok(_) => {}
            Err(error) if error.is_transient() => {}
            Err(_) => return Ok(seen.map(|_| Exit::FAILED)?),
        }
        let left = remaining();
        if left == Some(Duration::ZERO) {
            let up = seen?;
            let time = human::duration(args.timeout);
            return Err(Failure::failed(format!("after {time} {up} of {} up", human::count(wanted, "member")))
                .hint("`headcount members` shows them, --timeout waits longer"));
        }
        sleep(left.map_or(LOOK_AGAIN, |left| left.min(LOOK_AGAIN)));
    }
}

/// Writes one line of JSON.
pub(super) fn json_line(out: &mut impl Write, value: &impl Serialize) -> Result<(), Failure> {
    let text = serde_json::to_string(value).map_err(|error| Failure::failed(format!("cannot write JSON: {error}")))?;
    writeln!(out, "{text}")?;
    out.flush()?;
    Ok(())
}
