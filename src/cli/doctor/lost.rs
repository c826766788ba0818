//! Judges voters whose data directories are lost: whether the others can elect anybody, and what an operator does.
//!
//! Must not know: how a voter finds out that its directory is lost.

use super::report::{Finding, names};
use crate::cli::human::{self, plain};
use crate::cli::leadership::lost_majority;
use crate::json::{Voter, Voters};

/// Judges voters of whom so many have lost their data directories that the others cannot elect anybody.
pub(super) fn majority(voters: &Voters) -> Option<Finding> {
    let lost = lost_majority(voters);
    if lost.is_empty() {
        return None;
    }
    let found = format!(
        "nobody leads, and nobody can: {} of {} lost the data directory ({}), votes needed: {}",
        lost.len(),
        human::count(voters.voters.len(), "voter"),
        names(&lost),
        voters.majority.unwrap_or_default()
    );
    Some(Finding::fail("leader", found, &what_to_do(voters)))
}

fn what_to_do(voters: &Voters) -> String {
    let of = |is: &dyn Fn(&Voter) -> bool| -> Vec<String> {
        voters.voters.iter().filter(|voter| is(voter)).map(|voter| plain(&voter.id)).collect()
    };
    let is_up = |voter: &Voter| voter.status.as_deref() == Some("up");
    let (up, left) = (of(&is_up), of(&|voter| is_up(voter) && !voter.lost_disk));
    let (named, silent) = (up.join(","), of(&|voter| !is_up(voter) && !voter.lost_disk));
    let first = "start them with their old data directories, if those are still there; if not";
    match (left.first(), silent.as_slice()) {
        (Some(left), _) => format!("{first}: `headcount recover --voters {named}` at {left}, which has its own"),
        (None, []) => format!("{first}: `headcount recover --anew --voters {named}` at any member"),
        (None, silent) => format!(
            "{first}: start {} with what it has, and give `headcount recover --voters …` there; only if that is lost as well: \
             `headcount recover --anew --voters {named}` at any member",
            names(silent)
        ),
    }
}

/// Returns the advice for voters that are lost while the others elect a leader.
pub(super) fn advice(lost: &[String]) -> Option<String> {
    let one = lost.first()?;
    let verb = if lost.len() == 1 { "has" } else { "have" };
    Some(format!(
        "{} {verb} lost the data directory: `headcount voters remove {one}`, then `headcount voters add {one}`",
        names(lost)
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::doctor::report::Level;
    use crate::cli::doctor::tests::{electorate, leader_of};
    use crate::cli::doctor::votes;

    /// Returns an electorate of a, b and c, of which some have lost their directories.
    fn with_lost(statuses: [&str; 3], lost: &[&str]) -> Voters {
        let [a, b, c] = statuses;
        let mut voters = electorate(&[("a", a), ("b", b), ("c", c)], None);
        for voter in voters.voters.iter_mut().filter(|voter| lost.contains(&voter.id.as_str())) {
            (voter.lost_disk, voter.votes) = (true, Some(false));
        }
        voters
    }

    #[test]
    fn a_majority_that_lost_its_data_is_told_with_the_command_that_ends_it() {
        let judged = |statuses, lost: &[&str], state: &str| {
            votes::leader(&leader_of(None, "quorum", state), Some(&with_lost(statuses, lost)), &[])
        };
        for state in ["vacant", "unavailable"] {
            let told = judged(["up"; 3], &["b", "c"], state);
            assert!(told.level == Level::Fail && told.found.contains("2 of 3 voters lost"), "{told:?}");
            assert!(told.found.contains("(b, c)"), "{told:?}");
            let advice = told.advice.expect("an advice");
            assert!(advice.contains("`headcount recover --voters a,b,c` at a"), "{advice}");
        }
        let advice = judged(["up"; 3], &["a", "b", "c"], "unavailable").advice.expect("an advice");
        assert!(advice.contains("--anew --voters a,b,c` at any member"), "{advice}");
        let advice = judged(["down", "up", "up"], &["b", "c"], "unavailable").advice.expect("an advice");
        assert!(advice.contains("start a with what it has") && advice.contains("--anew --voters b,c"), "{advice}");
        // Those that are left can elect somebody.
        let told = judged(["up"; 3], &["c"], "vacant");
        assert!(told.level == Level::Warn && !told.found.contains("lost"), "{told:?}");
    }

    #[test]
    fn a_voter_that_lost_its_data_beside_a_leader_is_removed_and_added() {
        let mut voters = with_lost(["up"; 3], &["c"]);
        voters.failure_tolerance = Some(0);
        let told = votes::voters(&leader_of(Some("a"), "quorum", "led"), &voters).expect("a finding");
        let advice = told.advice.expect("an advice");
        assert!(told.level == Level::Warn && advice.contains("`headcount voters remove c`, then"), "{advice}");
        assert!(!advice.contains("says why it does not vote"), "{advice}");
    }

    #[test]
    fn a_voter_is_not_told_to_be_removed_while_nobody_leads_who_could_remove_it() {
        let own = |voters: &Voters| votes::own_vote("c", voters, false);
        assert!(own(&with_lost(["up"; 3], &["c"])).is_some_and(|told| told.level == Level::Fail));
        assert_eq!(own(&with_lost(["up"; 3], &["b", "c"])), None, "what is said of the leader holds");
    }
}
