//! Judgements on leaders and voters: values in, findings out.
//!
//! Invariant: what only a leader knows, of who acknowledges it, is claimed of no other node's listing.

use std::time::Duration;

use super::lost;
use super::report::{Finding, names};
use crate::cli::human::{self, plain};
use crate::cli::leadership::{draining_voters, lost_majority};
use crate::json::{Leader, Member, Voter, Voters};

/// A thing to try where a majority of the voters is missing: the last one of all is to be taken by people alone.
const RECOVER_ADVICE: &str = "start the voters that are missing (`headcount voters list`); only if a majority of them is lost \
    for good, disks and all: `headcount recover` at one that is left, and never while they may be alive behind a cut";

/// Judges the presence of a leader, where there should be one.
pub(super) fn leader(leader: &Leader, voters: Option<&Voters>, members: &[Member]) -> Finding {
    let is_quorum = leader.mode == "quorum";
    let drained = voters.map(|voters| draining_voters(voters, members)).unwrap_or_default();
    if let Some(lost) = voters.and_then(lost::majority).filter(|_| leader.leader.is_none()) {
        return lost;
    }
    match (leader.state.as_str(), &leader.leader) {
        ("disabled", _) => Finding::ok("leader", "nobody is elected here (leadership.mode = \"none\")"),
        (_, Some(name)) => {
            let led = format!("{} leads in term {}", plain(name), leader.term);
            let gone = members.iter().find(|member| member.id == *name && matches!(&*member.status, "down" | "left"));
            let Some(gone) = gone else { return Finding::ok("leader", led) };
            let end =
                leader.lease_remaining_ms.map(|left| format!(", in {}", human::duration(Duration::from_millis(left))));
            let end = end.unwrap_or_default();
            Finding::warn(
                "leader",
                format!("{led} until its lease ends{end}, and is {}", plain(&gone.status)),
                Some("another one leads then, if a majority of the voters, or the database, answers: look again"),
            )
        }
        (_, None) if !drained.is_empty() => Finding::fail(
            "leader",
            format!("nobody leads, and no election is due: all voters that are up drain ({})", names(&drained)),
            "`headcount undrain` at one of them",
        ),
        ("unavailable", None) if is_quorum => Finding::fail("leader", nobody_can_lead(voters), RECOVER_ADVICE),
        ("unavailable", None) => {
            Finding::fail("leader", "nobody can lead", "`headcount leader --nodes` says what the database answers")
        }
        (_, None) if is_quorum && voters.is_some_and(|voters| voters.voters.is_empty()) => Finding::warn(
            "leader",
            "nobody leads, and this agent knows no voters",
            Some(
                "leadership.voters (--voters) names them, and all of them must have met once; if this cluster had voters, and \
                 all have lost their data directories: `headcount recover --anew`",
            ),
        ),
        (state, None) => Finding::warn(
            "leader",
            format!("nobody leads ({})", plain(state)),
            Some(
                "normal for a lease after a leader is gone; if it stays, too few voters vote: `headcount doctor` at each of \
                 them says whether it does",
            ),
        ),
    }
}

/// Returns true if a voter may vote, as far as the agent knows: one that does not lead knows the statuses alone.
fn may_vote(voter: &Voter) -> bool {
    voter.votes != Some(false) && voter.status.as_deref() == Some("up")
}

/// Returns the names of the voters of which it is known that they do not vote.
fn missing(voters: &Voters, is: impl Fn(&Voter) -> bool) -> Vec<String> {
    voters.voters.iter().filter(|voter| !may_vote(voter) && is(voter)).map(|voter| plain(&voter.id)).collect()
}

fn nobody_can_lead(voters: Option<&Voters>) -> String {
    let Some((voters, majority)) = voters.and_then(|voters| Some((voters, voters.majority?))) else {
        return "nobody can lead".to_owned();
    };
    let (all, missing) = (voters.voters.len(), missing(voters, |_| true));
    let up = all - missing.len();
    let all = human::count(all, "voter");
    if up >= majority {
        return format!("nobody can lead: {up} of {all} up, and too few of them are reached or vote");
    }
    format!("nobody can lead: {up} of {all} can vote, needed: {majority} (missing: {})", names(&missing))
}

/// Judges what the loss of one more voter would do. Of fewer than three voters none can be lost in any case.
pub(super) fn voters(leader: &Leader, voters: &Voters) -> Option<Finding> {
    let (Some(majority), Some(leads), true) = (voters.majority, &leader.leader, voters.voters.len() > 2) else {
        return None;
    };
    let all = voters.voters.len();
    let left = voters.voters.iter().filter(|voter| may_vote(voter)).count();
    let tolerance = voters.failure_tolerance.unwrap_or_else(|| left.saturating_sub(majority));
    if tolerance > 0 {
        let found = match voters.failure_tolerance {
            Some(_) => format!("{left} of {all} vote: {tolerance} more may fail"),
            None => format!(
                "{left} of {all} are up; {} knows who of them votes: `headcount voters list` on its machine",
                plain(leads)
            ),
        };
        if !all.is_multiple_of(2) {
            return Some(Finding::ok("voters", found));
        }
        let fewer = all - 1;
        return Some(Finding::ok(
            "voters",
            format!("{found}; {all} voters tolerate no more failures than {fewer} would"),
        ));
    }
    if left < majority {
        return Some(Finding::fail("voters", nobody_can_lead(Some(voters)), RECOVER_ADVICE));
    }
    let is_up = |voter: &Voter| voter.status.as_deref() == Some("up");
    let silent = missing(voters, |voter| !is_up(voter) && !voter.lost_disk);
    let idle = missing(voters, |voter| is_up(voter) && !voter.lost_disk);
    let mut advice = Vec::new();
    if !silent.is_empty() {
        advice.push(
            "start those that are not up; put another member in the place of one that is gone for good: `headcount voters \
             replace OLD NEW`"
                .to_owned(),
        );
    }
    if !idle.is_empty() {
        advice.push(format!("`headcount doctor` at {} says why it does not vote, though it is up", names(&idle)));
    }
    advice.extend(lost::advice(&missing(voters, |voter| voter.lost_disk)));
    let missing = missing(voters, |_| true);
    let found =
        format!("if one more voter fails, nobody leads: {} of {all} do not vote ({})", missing.len(), names(&missing));
    Some(Finding::warn("voters", found, Some(advice.join("; ")).as_deref().filter(|advice| !advice.is_empty())))
}

/// Judges the vote of the agent's own node; `is_aside`: it stands aside, which is told with its disk.
pub(super) fn own_vote(me: &str, voters: &Voters, is_aside: bool) -> Option<Finding> {
    let own = voters.voters.iter().find(|voter| voter.id == me && voter.votes == Some(false))?;
    // Without a majority there is nobody who could remove it, and more is said of that.
    if is_aside || own.role.as_deref() == Some("learner") || !lost_majority(voters).is_empty() {
        return None;
    }
    let me = plain(me);
    Some(Finding::fail(
        "voters",
        format!("{me} does not vote: the voters know its name with another identity than its data directory has"),
        &format!(
            "its old data directory is lost, or another one was given: `headcount voters remove {me}`, then `headcount voters \
             add {me}`; or start it with the old one, if that is still there"
        ),
    ))
}
