//! The shapes of leaders, voters and electorates in JSON.

use super::*;
use crate::NodeId;
use crate::core::election::Identity;
use crate::core::limits::EARLIEST_FOUNDING;
use std::time::Duration;

fn json(value: &impl Serialize) -> String {
    serde_json::to_string(value).expect("JSON")
}

#[test]
fn nobody_leading_has_all_keys() {
    let nobody = Leader::new(&crate::agent::Leadership::disabled(), LeadershipMode::None);
    let expected = r#"{"leader":null,"term":0,"is_me":false,"mode":"none","state":"disabled","lease_remaining_ms":null,"contends":null}"#;
    assert_eq!(json(&nobody), expected);
}

#[test]
fn requests_with_a_key_that_is_not_known_are_refused() {
    let refused = |said: serde_json::Error| said.to_string().contains("unknown field `lease`");
    assert!(serde_json::from_str::<Resign>(r#"{"lease":"billing"}"#).is_err_and(refused));
    assert!(serde_json::from_str::<AddVoter>(r#"{"id":"a","lease":"billing"}"#).is_err_and(refused));
    assert!(serde_json::from_str::<Recover>(r#"{"voters":["a"],"lease":"billing"}"#).is_err_and(refused));
    assert_eq!(serde_json::from_str::<Resign>("{}").ok(), Some(Resign { to: None }));
}

#[test]
fn voters_are_named_with_identity_and_status() {
    let voter = crate::core::election::Voter { id: NodeId::new("a").expect("a name"), identity: Identity(0xab) };
    let electorate = Electorate::founded_by(vec![voter], EARLIEST_FOUNDING);
    let lineage = format!("{:016x}", electorate.lineage.0);
    let expected = format!(
        r#"{{"voters":[{{"id":"a","identity":"00000000000000ab","status":"up","role":"leader","last_ack_ms":null,"lag":null,"votes":null,"lost_disk":false,"disk_refused":false}}],"lineage":"{lineage}","majority":1,"term":3,"failure_tolerance":null,"acknowledging":null,"other_electorate":null,"ended_electorate":null}}"#
    );
    let leader = NodeId::new("a").expect("a name");
    let voters = Voters::new(Some(&electorate), Some(&leader), 3, |_| Some("up".to_owned()));
    assert_eq!(json(&voters), expected);
    let nobody = Voters::new(None, None, 0, |_| None);
    let expected = r#"{"voters":[],"lineage":null,"majority":null,"term":0,"failure_tolerance":null,"acknowledging":null,"other_electorate":null,"ended_electorate":null}"#;
    assert_eq!(json(&nobody), expected);
}

#[test]
fn a_leader_says_how_its_voters_stand() {
    let voter = |name: &str, identity| crate::core::election::Voter {
        id: NodeId::new(name).expect("a name"),
        identity: Identity(identity),
    };
    let electorate = Electorate::founded_by(vec![voter("a", 1), voter("b", 2), voter("c", 3)], EARLIEST_FOUNDING);
    let now = Time::ORIGIN + Duration::from_secs(100);
    let all = [("a", 1), ("b", 2), ("c", 3), ("d", 4)].map(|(name, identity)| voter(name, identity));
    let mut standings = VoterStandings::unknown(Duration::from_secs(2), all);
    standings.are_heard = true;
    (standings.voters[0].is_leader, standings.voters[0].votes) = (true, Some(true));
    for (standing, heard_ms) in standings.voters[1..].iter_mut().zip([300, 2_500, 10]) {
        (standing.acknowledged, standing.lag) = (Some(now - Duration::from_millis(heard_ms)), Some(0));
    }
    standings.voters[3].is_learner = true;
    let voters = Voters::new(Some(&electorate), None, 3, |_| None).standing(&standings, now, |_| None);
    let said: Vec<_> = voters.voters.iter().map(|voter| (voter.role.as_deref(), voter.votes)).collect();
    let expected = [("leader", true), ("follower", true), ("unreachable", false), ("learner", false)];
    assert_eq!(said, expected.map(|(role, votes)| (Some(role), Some(votes))));
    assert_eq!((voters.acknowledging, voters.failure_tolerance), (Some(2), Some(0)));
    assert_eq!(voters.voters[2].last_ack_ms, Some(2_500));
}

#[test]
fn a_node_that_does_not_lead_knows_of_its_own_vote_alone() {
    let voter = |name: &str, identity| crate::core::election::Voter {
        id: NodeId::new(name).expect("a name"),
        identity: Identity(identity),
    };
    let electorate = Electorate::founded_by(vec![voter("a", 1), voter("b", 2), voter("c", 3)], EARLIEST_FOUNDING);
    let mut standings = VoterStandings::unknown(Duration::from_secs(2), electorate.voters.clone());
    // A stranger to the voters.
    (standings.voters[2].has_lost_disk, standings.voters[2].votes) = (true, Some(false));
    let voters = Voters::new(Some(&electorate), None, 3, |_| None).standing(&standings, Time::ORIGIN, |_| None);
    let said: Vec<_> = voters.voters.iter().map(|voter| (voter.votes, voter.lost_disk)).collect();
    assert_eq!((said, voters.failure_tolerance), (vec![(None, false), (None, false), (Some(false), true)], None));
}

#[test]
fn a_view_that_nobody_agreed_on_is_null() {
    assert_eq!(json(&View::from(None)), r#"{"term":null,"number":null,"members":null}"#);
}

#[cfg(feature = "agent")]
#[test]
fn voters_are_heard_that_are_up_or_suspect() {
    let voter = |id: &str| crate::core::election::Voter { id: NodeId::new(id).expect("a name"), identity: Identity(1) };
    let electorate = Electorate::founded_by(["up", "suspect", "down"].map(voter).to_vec(), EARLIEST_FOUNDING);
    let voters = |status: fn(&NodeId) -> Option<String>| Voters::new(Some(&electorate), None, 3, status);
    assert_eq!(voters(|id| Some(id.to_string())).unheard().as_deref(), Some("down"));
    assert_eq!(voters(|_| Some("suspect".to_owned())).unheard(), None);
    assert_eq!(Voters::new(None, None, 3, |_| None).unheard().as_deref(), Some("all (their names are not known)"));
}
