//! The client commands about leaders: the leader, the voters, the agreed view, and the recovery from a lost majority.
//!
//! Invariants: a step that cannot be undone needs a confirmation first, and is refused if it cannot be asked for. The
//! exit code is the same for people and for programs: `leader` always has an answer, `voters list` and `view` fail if
//! there is none.

use std::io::{self, IsTerminal as _, Write};
use std::time::{Duration, Instant};

use super::args::{
    Format, LeaderArgs, LeaderCommand, RecoverArgs, ReplaceArgs, ResignArgs, TargetArgs, VoterArgs, VotersCommand,
};
use super::client::connect;
use super::commands::json_line;
use super::failure::{Exit, Failure};
use super::human::{self, NOTHING, plain};
use super::table;
use crate::client::{Client, ClientError};
use crate::core::NodeId;
use crate::json::{EndedElectorate, Leader, Reason, Recover, Voters};
use crate::lease::LeaseName;

/// Time for which a leader is awaited after another one resigned, or after a recovery: longer than the leases of most clusters.
const SUCCESSION_PATIENCE: Duration = Duration::from_secs(20);
/// Interval at which it is looked for.
const SUCCESSION_PAUSE: Duration = Duration::from_millis(50);

/// The reasons of a verdict that are about the leader.
const LEADERSHIP: [&str; 7] =
    ["joining", "leader_down", "no_leader", "no_majority", "no_voters", "voters_drain", "voters_lost_data"];

pub(super) fn leader(args: &LeaderArgs, out: &mut impl Write) -> Result<Exit, Failure> {
    if let Some(LeaderCommand::Resign(args)) = &args.command {
        return resign(args, out);
    }
    if args.nodes {
        return super::lease::nodes(args, out);
    }
    let (client, lease) = (connect(&args.target.agent)?, args.lease.as_ref());
    let leader = if args.confirm { client.confirm_leader(lease)? } else { client.leader(lease)? };
    show_leader(&client, &leader, args.target.format, out)
}

fn show_leader(client: &Client, leader: &Leader, format: Format, out: &mut impl Write) -> Result<Exit, Failure> {
    match format {
        Format::Json => json_line(out, leader)?,
        Format::Table => {
            // The agent's verdict is about the leader of the cluster, and not about those of further leases.
            let verdict = if leader.mode == "quorum" { client.verdict().ok() } else { None };
            let mut reasons = verdict.iter().flat_map(|verdict| &verdict.reasons);
            let reason = reasons.find(|reason| LEADERSHIP.contains(&reason.code.as_str()));
            table::write(out, ["WHAT", "VALUE"], leader_rows(leader, reason))?;
        }
    }
    Ok(Exit::DONE)
}

/// Asks the leader to resign and shows the next leader; fails if there is none yet, or a different one than asked for.
fn resign(args: &ResignArgs, out: &mut impl Write) -> Result<Exit, Failure> {
    let (client, lease) = (connect(&args.target.agent)?, args.lease.as_ref());
    let before = client.leader(lease)?;
    let to = args.to.as_ref().map(NodeId::as_str);
    let leader = client.resign(to, lease)?;
    let leader = await_leader(&client, lease, leader, before.term)?;
    show_leader(&client, &leader, args.target.format, out)?;
    let hint = if leader.mode == "lease" { "see `headcount leader --nodes`" } else { "see `headcount voters list`" };
    match (leader.leader.as_deref(), to) {
        (None, _) => Err(Failure::failed(format!("{} resigned, and nobody leads yet", leader_of(&before))).hint(hint)),
        (Some(now), Some(to)) if now != to => {
            let (now, to) = (plain(now), plain(to));
            Err(Failure::failed(format!("leadership was handed over, and {now} leads: {to} did not stand in time"))
                .hint(hint))
        }
        _ => Ok(Exit::DONE),
    }
}

/// Waits for a while until somebody leads in a later term than this one. Returns what was seen last; `leader` was seen first.
fn await_leader(
    client: &Client,
    lease: Option<&LeaseName>,
    mut leader: Leader,
    term: u64,
) -> Result<Leader, ClientError> {
    let deadline = Instant::now() + SUCCESSION_PATIENCE;
    while (leader.leader.is_none() || leader.term <= term) && Instant::now() < deadline {
        std::thread::sleep(SUCCESSION_PAUSE);
        leader = client.leader(lease)?;
    }
    Ok(leader)
}

fn leader_of(seen: &Leader) -> String {
    seen.leader.as_deref().map_or_else(|| "the leader".to_owned(), plain)
}

/// Returns the rows of the table; `reason`: that of the agent's verdict which is about the leader, if there is one.
fn leader_rows(leader: &Leader, reason: Option<&Reason>) -> Vec<[String; 2]> {
    let why = reason.map(|reason| format!(" ({})", plain(&reason.text)));
    let meaning = match leader.state.as_str() {
        _ if why.is_some() => why.as_deref().unwrap_or_default(),
        "vacant" if leader.contends == Some(false) => {
            " (this node does not contend for this lease: see `headcount info`)"
        }
        "vacant" if leader.mode == "lease" => " (nobody holds the lease)",
        "unavailable" if leader.mode == "lease" => {
            " (the database cannot be used: `headcount leader --nodes` says why)"
        }
        "disabled" => " (nobody is elected here: leadership.mode = \"none\")",
        _ => "",
    };
    let who = leader.leader.as_deref().map_or_else(|| NOTHING.to_owned(), plain);
    let lease = leader.lease_remaining_ms.map(|ms| match Duration::from_millis(ms) {
        short if short < Duration::from_secs(10) => format!("{:.1}s left", short.as_secs_f64()),
        long => format!("{} left", human::duration(long)),
    });
    [
        ("leader", if leader.is_me { format!("{who} (the agent asked)") } else { who }),
        ("term", leader.term.to_string()),
        ("state", format!("{}{meaning}", plain(&leader.state))),
        ("lease", lease.unwrap_or_else(|| NOTHING.to_owned())),
    ]
    .into_iter()
    .chain(reason.and_then(|reason| reason.hint.as_deref()).map(|hint| ("to do", plain(hint))))
    .map(|(what, value)| [what.to_owned(), value])
    .collect()
}

pub(super) fn voters(command: &VotersCommand, out: &mut impl Write) -> Result<Exit, Failure> {
    match command {
        VotersCommand::List(target) => {
            let client = connect(&target.agent)?;
            let voters = client.voters()?;
            let is_known = !voters.voters.is_empty();
            if is_known || target.format == Format::Json {
                show(&voters, target.format, out)?;
            }
            if let Some(ended) = voters.ended_electorate.as_ref().filter(|_| target.format == Format::Table) {
                show_ended(ended, out)?;
            }
            if !is_known {
                return Err(no_voters(&client.leader(None)?, voters.lineage.is_some()));
            }
        }
        VotersCommand::Add(VoterArgs { target, node }) => {
            let voters = connect(&target.agent)?.add_voter(node.as_str())?;
            show(&voters, target.format, out)?;
        }
        VotersCommand::Replace(ReplaceArgs { target, old, new }) => {
            if old == new {
                return Err(Failure::usage(format!("{old} is named twice")).hint(format!(
                    "for a voter that comes back with an empty data directory: `headcount voters remove {old}`, then \
                     `headcount voters add {old}`"
                )));
            }
            let voters = connect(&target.agent)?.replace_voter(old.as_str(), new.as_str())?;
            show(&voters, target.format, out)?;
        }
        VotersCommand::Remove(VoterArgs { target, node }) => {
            let voters = connect(&target.agent)?.remove_voter(node.as_str())?;
            show(&voters, target.format, out)?;
        }
    }
    Ok(Exit::DONE)
}

/// Refuses a list that names a node twice, before any request is sent.
fn refuse_twins(nodes: &[NodeId]) -> Result<(), Failure> {
    let mut sorted = nodes.to_vec();
    sorted.sort_unstable();
    match sorted.windows(2).find(|pair| pair[0] == pair[1]) {
        Some(pair) => Err(Failure::usage(format!("{} is named twice", pair[0])).hint("name each node once")),
        None => Ok(()),
    }
}

/// Returns the failure that explains why there are no voters to list; `is_one_known`: the agent knows that there is an
/// electorate.
fn no_voters(leader: &Leader, is_one_known: bool) -> Failure {
    if leader.mode == "lease" {
        return Failure::failed("there are no voters here: this agent runs with leadership.mode = \"lease\"")
            .hint("`headcount leader --nodes` lists the nodes in the database");
    }
    if leader.state == "disabled" {
        return Failure::failed("leaders are not elected here: this agent runs with leadership.mode = \"none\"")
            .hint("start it with --voters (leadership.voters and mode = \"quorum\") to have one elected");
    }
    if is_one_known {
        return Failure::failed(
            "this cluster has voters, and this agent does not know which: nobody has led, or told it, since it started",
        )
        .hint(
            "start the voters that are missing; if all of them have lost their data directories: `headcount recover --anew \
             --voters …` at any member",
        );
    }
    Failure::failed("this agent knows no voters yet")
        .hint("they are named by leadership.voters (--voters), and must all have met once")
}

fn show(voters: &Voters, format: Format, out: &mut impl Write) -> Result<(), Failure> {
    if format == Format::Json {
        return json_line(out, voters);
    }
    let rows = voters.voters.iter().map(|voter| {
        let status = voter.status.as_deref().unwrap_or("not listed");
        let role = voter.role.as_deref().map_or_else(|| NOTHING.to_owned(), plain);
        let is_voting = match voter.votes {
            _ if voter.disk_refused => "no (disk)",
            Some(true) => "yes",
            Some(false) if voter.lost_disk => "no (data lost)",
            Some(false) => "no",
            None => NOTHING,
        };
        let heard = voter.last_ack_ms.map(|ms| format!("{:.1}s", Duration::from_millis(ms).as_secs_f64()));
        let lag = voter.lag.map_or_else(|| NOTHING.to_owned(), |lag| lag.to_string());
        let heard = heard.unwrap_or_else(|| NOTHING.to_owned());
        [plain(&voter.id), plain(status), role, is_voting.to_owned(), heard, lag, plain(&voter.identity)]
    });
    Ok(table::write(out, ["VOTER", "STATUS", "ROLE", "VOTES", "ACKNOWLEDGED", "LAG", "IDENTITY"], rows)?)
}

/// Says which electorate of this node has ended, and how to have it back.
fn show_ended(ended: &EndedElectorate, out: &mut impl Write) -> Result<(), Failure> {
    let names = ended.voters.iter().map(|id| plain(id)).collect::<Vec<_>>();
    writeln!(
        out,
        "\nThis node voted in another electorate until that ended for this one: lineage {}, led up to term {}, voters {}.\n\
         It votes in this one after `headcount voters add` with its name. If two clusters met by mistake, part them (a name and a \
         key of their own), and have the other back at one of its nodes:\n  \
         headcount recover --anew --voters {}",
        plain(&ended.lineage),
        ended.term,
        names.join(", "),
        names.join(",")
    )?;
    Ok(())
}

pub(super) fn view(args: &TargetArgs, out: &mut impl Write) -> Result<Exit, Failure> {
    let view = connect(&args.agent)?.view()?;
    if args.format == Format::Json {
        json_line(out, &view)?;
    }
    let (Some(number), Some(term), Some(members)) = (view.number, view.term, &view.members) else {
        let hint = "views are agreed by voters (leadership.mode = \"quorum\"), once they have elected a leader";
        return Err(Failure::failed("this agent knows no agreed view").hint(hint));
    };
    if args.format == Format::Table {
        let names = members.iter().map(|id| plain(id)).collect::<Vec<_>>().join(", ");
        table::write(out, ["VIEW", "TERM", "MEMBERS"], [[number.to_string(), term.to_string(), names]])?;
    }
    Ok(Exit::DONE)
}

pub(super) fn recover(args: &RecoverArgs, out: &mut impl Write) -> Result<Exit, Failure> {
    refuse_twins(&args.voters)?;
    let client = connect(&args.target.agent)?;
    // Not asked about what would be refused.
    let leader = client.leader(None)?;
    if leader.mode == "lease" {
        return Err(no_voters(&leader, false));
    }
    let mut end_unheard = args.end_unheard;
    if !args.yes {
        let old = client.voters()?;
        confirm(&client.info()?.node, &old, args)?;
        if let Some(unheard) = old.unheard().filter(|_| args.anew && !end_unheard && leader.leader.is_none()) {
            confirm_end(&unheard)?;
            end_unheard = true;
        }
    }
    let voters = args.voters.iter().map(ToString::to_string).collect();
    let request = Recover { voters, anew: args.anew, end_unheard };
    let (voters, before) = (client.recover(&request)?, leader.term);
    show(&voters, args.target.format, out)?;
    out.flush()?;
    // Whatever comes next, such as further voters, needs a leader.
    let leader = await_leader(&client, None, client.leader(None)?, before)?;
    match leader.leader.as_deref().filter(|_| leader.term > before) {
        Some(name) => {
            if args.target.format == Format::Table {
                writeln!(out, "{} leads in term {}", plain(name), leader.term)?;
            }
            Ok(Exit::DONE)
        }
        None => Err(Failure::failed("the new electorate has begun, and nobody leads it yet")
            .hint("see that its voters are up (`headcount voters list`); do not recover again while they are")),
    }
}

/// Explains the consequences, and asks for confirmation.
fn confirm(node: &str, old: &Voters, args: &RecoverArgs) -> Result<(), Failure> {
    let old = old.voters.iter().map(|voter| plain(&voter.id)).collect::<Vec<_>>().join(", ");
    let old = if old.is_empty() { "before".to_owned() } else { old };
    let named = named(node, &args.voters);
    let mut terminal = io::stderr();
    if args.anew {
        writeln!(
            terminal,
            "The electorate of {old} is founded anew, of {named}, without a voter of the old one.
It is for when the data of all voters is lost: all that they had agreed to is gone; terms go on above the old ones.
If a voter is left with its data, run the recovery there, without --anew. While anybody hears a leader it is refused."
        )?;
        return ask("Begin a new electorate?", "yes");
    }
    writeln!(
        terminal,
        "A recovery ends the electorate of {old} and begins a new one of {named}.
It is for a majority of voters that is lost for good, disks and all: what only the lost ones had agreed to is gone.
Voters that are not named, and come back later, count no more; never recover on both sides of a cut.
While a majority of the old electorate answers it is refused."
    )?;
    ask("Begin a new electorate?", "yes")
}

/// Asks for a second word where voters of the old electorate may live behind a cut.
fn confirm_end(unheard: &str) -> Result<(), Failure> {
    writeln!(
        io::stderr(),
        "Voters of the old electorate that are not heard from here: {}. If they live behind a cut, they and all who follow
them give way to the new electorate as soon as they hear of it, however many they are.",
        plain(unheard)
    )?;
    ask("End the old electorate all the same?", "end it")
}

/// Returns the names as they were given, and the agent's own behind them if it was left out.
fn named(node: &str, voters: &[NodeId]) -> String {
    let own = (!voters.iter().any(|voter| voter.as_str() == node)).then(|| plain(node));
    voters.iter().map(ToString::to_string).chain(own).collect::<Vec<_>>().join(", ")
}

fn ask(question: &str, word: &str) -> Result<(), Failure> {
    let mut terminal = io::stderr();
    if !io::stdin().is_terminal() {
        return Err(Failure::usage("not a terminal, so that nobody can be asked").hint("pass --yes to confirm"));
    }
    write!(terminal, "{question} Type {word}: ")?;
    terminal.flush()?;
    let mut answer = String::new();
    io::stdin().read_line(&mut answer)?;
    if answer.trim() == word { Ok(()) } else { Err(Failure::failed("nothing was changed")) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cluster_without_a_leader_says_why() {
        let reason: Reason = serde_json::from_str(
            r#"{"code":"no_leader","state":"broken","text":"an election is due","nodes":[],"hint":"wait"}"#,
        )
        .expect("a reason");
        for (state, reason, why) in [("vacant", Some(&reason), "(an election is due)"), ("disabled", None, "mode")] {
            let json = format!(
                r#"{{"leader":null,"term":3,"is_me":false,"mode":"quorum","state":"{state}","lease_remaining_ms":null}}"#
            );
            let rows = leader_rows(&serde_json::from_str(&json).expect("a leader"), reason);
            assert_eq!(rows[0], ["leader", "-"]);
            assert!(rows[2][1].contains(why), "{rows:?}");
            assert_eq!(rows.get(4), reason.map(|_| ["to do", "wait"].map(str::to_owned)).as_ref());
        }
        for (state, contends, why) in [
            ("vacant", "false", "does not contend for this lease"),
            ("vacant", "true", "nobody holds the lease"),
            ("unavailable", "true", "`headcount leader --nodes` says why"),
        ] {
            let json = format!(
                r#"{{"leader":null,"term":3,"is_me":false,"mode":"lease","state":"{state}","lease_remaining_ms":null,"contends":{contends}}}"#
            );
            let rows = leader_rows(&serde_json::from_str(&json).expect("a leader"), None);
            assert!(rows[2][1].contains(why), "{rows:?}");
        }
    }

    #[test]
    fn no_voters_is_told_apart_from_no_elections() {
        let json = |state: &str| {
            format!(
                r#"{{"leader":null,"term":0,"is_me":false,"mode":"none","state":"{state}","lease_remaining_ms":null}}"#
            )
        };
        let of = |state: &str| -> Leader { serde_json::from_str(&json(state)).expect("a leader") };
        let leader = |state: &str| no_voters(&of(state), false).to_string();
        assert!(no_voters(&of("vacant"), true).to_string().contains("does not know which"));
        assert!(leader("disabled").contains("not elected here") && leader("disabled").contains("--voters"));
        assert!(leader("vacant").contains("no voters yet"));
        let leased = Leader { mode: "lease".to_owned(), ..serde_json::from_str(&json("vacant")).expect("a leader") };
        assert!(
            no_voters(&leased, false).to_string().contains("headcount leader --nodes"),
            "{}",
            no_voters(&leased, false)
        );
    }

    #[test]
    fn the_voters_of_a_recovery_are_listed_in_the_order_given() {
        let voters = ["a", "b"].map(|name| NodeId::new(name).expect("a name"));
        assert_eq!(named("b", &voters), "a, b");
        assert_eq!(named("c", &voters), "a, b, c");
    }
}
