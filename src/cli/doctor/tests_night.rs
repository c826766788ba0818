//! Judgements that an operator reads while something is broken: no claim is made of what the agent does not know.

use super::probe::Udp;
use super::report::Level;
use super::tests::{electorate, leader_of, member, one, reach_of};
use super::*;
use crate::json::{Leader, Voters};

fn voter<'a>(voters: &'a mut Voters, id: &str) -> &'a mut crate::json::Voter {
    voters.voters.iter_mut().find(|voter| voter.id == id).expect("a voter")
}

const THREE_UP: [(&str, &str); 3] = [("a", "up"), ("b", "up"), ("c", "up")];

#[test]
fn a_node_that_does_not_lead_claims_nothing_of_who_votes() {
    let led = leader_of(Some("b"), "quorum", "led");
    let told = votes::voters(&led, &electorate(&THREE_UP, None)).expect("a finding");
    assert!(
        told.level == Level::Ok && told.found.contains("b knows who of them votes: `headcount voters list"),
        "{told:?}"
    );
    assert!(!told.found.contains("may fail"), "{told:?}");
    let told = votes::voters(&led, &electorate(&THREE_UP, Some(1))).expect("a finding");
    assert_eq!(told.found, "3 of 3 vote: 1 more may fail", "the leader knows");
    let mut idle = electorate(&THREE_UP, Some(0));
    voter(&mut idle, "c").votes = Some(false);
    let advice = votes::voters(&led, &idle).and_then(|told| told.advice).expect("an advice");
    assert!(advice.contains("doctor` at c") && !advice.contains("replace"), "{advice}");
}

#[test]
fn a_voter_that_lost_its_identity_is_told_how_to_vote_again() {
    let mut voters = electorate(&THREE_UP, None);
    assert_eq!(votes::own_vote("a", &voters, false), None);
    voter(&mut voters, "a").votes = Some(false);
    let told = votes::own_vote("a", &voters, false).expect("a finding");
    let advice = told.advice.clone().unwrap_or_default();
    assert!(told.level == Level::Fail && advice.contains("voters remove a") && advice.contains("add a"), "{told:?}");
    assert_eq!(votes::own_vote("b", &voters, false), None);
    assert_eq!(votes::own_vote("a", &voters, true), None, "its disk is told of");
}

#[test]
fn a_lost_majority_is_told_of_recovery_and_of_no_change_that_needs_a_leader() {
    let missing = electorate(&[("a", "up"), ("b", "down"), ("c", "down")], None);
    let nobody = leader_of(None, "quorum", "unavailable");
    let told = votes::leader(&nobody, Some(&missing), &[]);
    let advice = told.advice.clone().unwrap_or_default();
    assert!(told.level == Level::Fail && told.found.contains("1 of 3") && told.found.ends_with("b, c)"), "{told:?}");
    assert!(advice.contains("headcount recover`") && advice.contains("never while"), "{told:?}");
    assert!(!advice.contains("replace"), "{told:?}");
    // For the rest of a lease a node may still hold somebody for its leader.
    let led = leader_of(Some("b"), "quorum", "led");
    let told = votes::voters(&led, &missing).expect("a finding");
    let advice = told.advice.clone().unwrap_or_default();
    assert!(told.level == Level::Fail && advice.contains("recover") && !advice.contains("replace"), "{told:?}");
}

#[test]
fn a_leader_that_is_gone_is_not_well_although_its_lease_goes_on() {
    let led = leader_of(Some("b"), "quorum", "led");
    for (status, level) in [("up", Level::Ok), ("suspect", Level::Ok), ("down", Level::Warn), ("left", Level::Warn)] {
        let told = votes::leader(&led, None, &[member("a", "up"), member("b", status)]);
        assert!(told.level == level && told.found.starts_with("b leads in term 3"), "{told:?}");
    }
    let ending = Leader { lease_remaining_ms: Some(2_000), ..led };
    let told = votes::leader(&ending, None, &[member("b", "down")]);
    assert!(told.found.ends_with("until its lease ends, in 2s, and is down"), "{told:?}");
}

#[test]
fn a_process_that_stands_still_is_not_said_to_be_reached() {
    for udp in [Udp::Untried, Udp::Silent] {
        let mut hung = one("c", "10.0.0.2:7117", udp, Ok(()));
        hung.target.is_down = true;
        let findings = reach_of("members", &[hung], 1);
        assert!(findings.len() == 1 && findings[0].level != Level::Ok, "{findings:?}");
        assert!(!findings[0].found.contains("reached"), "{findings:?}");
        let advice = findings[0].advice.clone().unwrap_or_default();
        assert!(advice.contains("may hang") && advice.contains("restart"), "{advice}");
    }
}

#[test]
fn a_death_that_its_connection_told_of_is_no_cut() {
    let down = |id: &str, method: &str| Member { method: Some(method.to_owned()), ..member(id, "down") };
    let members = [
        member("a", "up"),
        down("b", "connection_lost"),
        down("c", "heartbeat_timeout"),
        down("d", "network_partition"),
    ];
    let told =
        |is_cut| -> Vec<String> { judge::members(&members, is_cut).into_iter().map(|finding| finding.found).collect() };
    let cut = told(true);
    assert!(cut.len() == 2 && cut[0].ends_with("partition: c, d") && cut[1].ends_with("down: b"), "{cut:?}");
    let no_cut = told(false);
    assert!(no_cut[0].ends_with("partition: d") && no_cut[1].ends_with("down: b, c"), "{no_cut:?}");
}

#[test]
fn modes_of_leadership_that_differ_are_told() {
    let modes = |all: &[(&str, &str)]| {
        let all: Vec<_> = all.iter().map(|(node, mode)| ((*node).to_owned(), (*mode).to_owned())).collect();
        judge::modes(&all).map(|finding| (finding.level, finding.found))
    };
    assert_eq!(modes(&[("a", "quorum")]), None);
    assert_eq!(modes(&[("a", "quorum"), ("b", "quorum")]).map(|(level, _)| level), Some(Level::Ok));
    let (level, found) = modes(&[("a", "quorum"), ("b", "none"), ("c", "quorum")]).expect("a finding");
    assert!(level == Level::Warn && found.ends_with("none at b"), "{found}");
}

#[test]
fn the_last_voter_that_can_be_spared_is_missed() {
    let led = leader_of(Some("a"), "quorum", "led");
    let level = |statuses: &[(&str, &str)], tolerance| {
        votes::voters(&led, &electorate(statuses, tolerance)).map(|finding| finding.level)
    };
    let well = [("a", "up"), ("b", "up"), ("c", "up")];
    let missing = [("a", "up"), ("b", "up"), ("c", "down")];
    assert_eq!((level(&well, Some(1)), level(&well, None)), (Some(Level::Ok), Some(Level::Ok)));
    assert_eq!((level(&missing, Some(0)), level(&missing, None)), (Some(Level::Warn), Some(Level::Warn)));
    assert_eq!(level(&well[..1], Some(0)), None, "one voter alone never tolerates a failure");
    let told = votes::voters(&led, &electorate(&missing, Some(0))).expect("a finding");
    assert!(told.found.contains("1 of 3 do not vote (c)"), "{told:?}");
    // A leader whose lease is about to end.
    let lost = [("a", "up"), ("b", "down"), ("c", "down")];
    assert_eq!((level(&lost, Some(0)), level(&lost, None)), (Some(Level::Fail), Some(Level::Fail)));
}

#[test]
fn an_even_number_of_voters_is_told_to_tolerate_no_more_failures() {
    let led = leader_of(Some("a"), "quorum", "led");
    let all = ["a", "b", "c", "d"].map(|id| (id, "up"));
    let found = |voters: &[(&str, &str)]| {
        votes::voters(&led, &electorate(voters, Some(1))).map(|finding| finding.found).unwrap_or_default()
    };
    assert_eq!(found(&all), "4 of 4 vote: 1 more may fail; 4 voters tolerate no more failures than 3 would");
    assert_eq!(found(&all[..3]), "3 of 3 vote: 1 more may fail");
}

#[test]
fn nobody_leads_for_a_reason_and_the_command_that_shows_it_fits_the_mode() {
    let advice = |mode: &str| {
        let nobody = leader_of(None, mode, "unavailable");
        votes::leader(&nobody, None, &[]).advice.unwrap_or_default()
    };
    assert!(advice("quorum").contains("voters list") && !advice("quorum").contains("--nodes"));
    assert!(advice("lease").contains("--nodes") && !advice("lease").contains("voters list"));
    let vacant = leader_of(None, "quorum", "vacant");
    let voters = electorate(&[("a", "up"), ("b", "up"), ("c", "down")], None);
    let drains = |id: &str, draining| Member { draining, ..member(id, "up") };
    let all = [drains("a", true), drains("b", true), member("c", "down"), drains("x", false)];
    let told = votes::leader(&vacant, Some(&voters), &all);
    assert!(told.level == Level::Fail && told.found.contains("drain (a, b)"), "{told:?}");
    let some = [drains("a", true), drains("b", false), member("c", "down")];
    assert_eq!(votes::leader(&vacant, Some(&voters), &some).level, Level::Warn);
    assert!(judge::members(&some, false).iter().any(|finding| finding.found == "drains, and get no new work: a"));
}
