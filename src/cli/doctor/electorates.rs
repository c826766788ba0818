//! Judges whether there is one electorate: each one alone finds nothing wrong with itself, and yet two lead.
//!
//! Must not know: how the second one came about.

use super::judge::same;
use super::report::{Finding, Level};
use crate::cli::human::plain;
use crate::json::{Leader, Voters};

/// What becomes of two electorates, and what keeps them from it.
const ONE_ENDS: &str = "one of the two ends by itself, within seconds: of the lower generation, or else the one that began at \
    the lower term or was founded later; if both still lead in a minute, mend the network between the two sides";

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
    Some(Finding::fail("electorates", found, ONE_ENDS))
}

/// Judges the lineages that several agents follow, each with the node's name.
pub(super) fn lineages(lineages: &[(String, String)]) -> Option<Finding> {
    let mut told = (lineages.len() > 1).then(|| same("electorates", lineages, ONE_ENDS))?;
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
        let mut voters = electorate(&[("a", "up"), ("b", "up"), ("c", "up")], None);
        let (leader, root) = (leads.map(str::to_owned), "00000000000000ef".to_owned());
        let (reported_by, recovered) = ("x".to_owned(), false);
        voters.other_electorate = Some(OtherElectorate { reported_by, root, leader, term, recovered });
        other(&leader_of(Some("a"), "quorum", "led"), &voters)
    }

    #[test]
    fn a_second_electorate_fails_and_is_nothing_to_wipe_a_disk_for() {
        let found = told(Some("y"), 9).expect("a finding");
        assert!(found.level == Level::Fail && found.found.contains("two electorates"), "{found:?}");
        assert!(found.found.contains("word of x, y leads in term 9"), "{found:?}");
        let advice = found.advice.expect("an advice");
        assert!(advice.contains("by itself") && !advice.contains("empty"), "{advice}");
        assert!(told(None, 0).is_some_and(|told| told.found.contains("nobody leads of the other one")));
        let own = leader_of(Some("a"), "quorum", "led");
        assert_eq!(other(&own, &electorate(&[("a", "up")], None)), None);
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
