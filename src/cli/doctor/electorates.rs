//! Judges whether there is one electorate: each one alone finds nothing wrong with itself, and yet two lead.
//!
//! Must not know: how the second one came about.

use super::judge::same;
use super::report::{Finding, Level};
use crate::cli::human::plain;
use crate::json::{Leader, Voters};

/// A way out that does not make the next one.
const END_ONE: &str = "stop its voters, and start them with empty data directories and a member of the electorate that stays \
    among their seeds (with no other seeds than each other they may form one of their own again)";

/// Judges what members of another electorate told the agent.
pub(super) fn other(leader: &Leader, voters: &Voters) -> Option<Finding> {
    let other = voters.other_electorate.as_ref()?;
    let led = |name: Option<&String>, term: u64| {
        name.map_or_else(|| "nobody leads".to_owned(), |name| format!("{} leads in term {term}", plain(name)))
    };
    let here = led(leader.leader.as_ref(), leader.term);
    let there = led(other.leader.as_ref(), other.term);
    let found = format!(
        "there are two electorates in this cluster: here {here}; by the word of {}, {there} of the other one",
        plain(&other.reported_by)
    );
    if other.recovered {
        let advice = "both were recovered, apart; the one that began at the lower term gives way by itself, within a minute: if it \
            does not, mend the network between the two leaders";
        return Some(Finding::fail("electorates", found, advice));
    }
    let younger = match &other.leader {
        Some(_) if other.term < leader.term => "one has to end, most often the other one, whose terms are lower",
        Some(_) if other.term > leader.term => "one has to end, most often that of this agent, whose terms are lower",
        _ => "one has to end, most often the younger one",
    };
    Some(Finding::fail("electorates", found, &format!("{younger}: {END_ONE}")))
}

/// Judges the lineages that several agents follow, each with the node's name.
pub(super) fn lineages(lineages: &[(String, String)]) -> Option<Finding> {
    let advice = format!(
        "normal for seconds after `headcount recover`; if it stays, there are two electorates, and one has to end, most often \
         that with the lower terms: {END_ONE}"
    );
    let mut told = (lineages.len() > 1).then(|| same("electorates", lineages, &advice))?;
    if told.level == Level::Warn {
        told.level = Level::Fail;
    }
    Some(told)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::doctor::tests::{electorate, leader_of};
    use crate::json::OtherElectorate;

    /// Returns what is told of another electorate that this node leads in this term.
    fn told(leads: Option<&str>, term: u64) -> Option<Finding> {
        told_of(leads, term, false)
    }

    fn told_of(leads: Option<&str>, term: u64, recovered: bool) -> Option<Finding> {
        let mut voters = electorate(&[("a", "up"), ("b", "up"), ("c", "up")], None);
        let (leader, root) = (leads.map(str::to_owned), "00000000000000ef".to_owned());
        voters.other_electorate = Some(OtherElectorate { reported_by: "x".to_owned(), root, leader, term, recovered });
        other(&leader_of(Some("a"), "quorum", "led"), &voters)
    }

    #[test]
    fn a_second_electorate_fails_and_the_one_with_the_lower_terms_is_to_end() {
        let own = leader_of(Some("a"), "quorum", "led");
        for (term, which) in [(own.term + 1, "of this agent"), (own.term.saturating_sub(1), "the other one")] {
            let told = told(Some("y"), term).expect("a finding");
            assert!(told.level == Level::Fail && told.found.contains("two electorates"), "{told:?}");
            assert!(told.found.contains(&format!("word of x, y leads in term {term}")), "{told:?}");
            let advice = told.advice.expect("an advice");
            assert!(advice.contains(which) && advice.contains("among their seeds"), "{advice}");
        }
        assert!(told(None, 0).is_some_and(|told| told.found.contains("nobody leads of the other one")));
        assert_eq!(other(&own, &electorate(&[("a", "up")], None)), None);
    }

    #[test]
    fn a_recovery_that_gives_way_by_itself_is_nothing_to_wipe_a_disk_for() {
        let told = told_of(Some("y"), 9, true).expect("a finding");
        let advice = told.advice.expect("an advice");
        assert!(told.level == Level::Fail && advice.contains("by itself") && !advice.contains("empty"), "{advice}");
    }

    #[test]
    fn agents_of_different_lineages_fail() {
        let of = |lineages: &[(&str, &str)]| {
            let of: Vec<_> = lineages.iter().map(|(name, held)| (name.to_string(), held.to_string())).collect();
            super::lineages(&of).map(|told| told.level)
        };
        assert_eq!(of(&[("a", "1"), ("b", "1")]), Some(Level::Ok));
        assert_eq!(of(&[("a", "1"), ("b", "2")]), Some(Level::Fail));
        assert_eq!(of(&[("a", "1")]), None);
    }
}
