//! The shapes of leaders, voters and electorates in JSON.

use super::*;
use crate::NodeId;
use crate::core::election::{Identity, VoterStanding};
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
        r#"{{"voters":[{{"id":"a","identity":"00000000000000ab","status":"up","role":"leader","last_ack_ms":null,"lag":null,"votes":null,"lost_disk":false}}],"lineage":"{lineage}","majority":1,"term":3,"failure_tolerance":null,"acknowledging":null,"other_electorate":null,"ended_electorate":null}}"#
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
    let standing = |name, identity, heard_ms: Option<u64>| VoterStanding {
        voter: voter(name, identity),
        is_learner: identity == 4,
        is_leader: identity == 1,
        acknowledged: heard_ms.map(|ms| now - Duration::from_millis(ms)),
        lag: heard_ms.map(|_| 0),
        has_lost_disk: false,
        votes: (identity == 1).then_some(true),
    };
    let standings = VoterStandings {
        are_heard: true,
        lease: Duration::from_secs(2),
        voters: vec![
            standing("a", 1, None),
            standing("b", 2, Some(300)),
            standing("c", 3, Some(2_500)),
            standing("d", 4, Some(10)),
        ],
    };
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
    let standing = |(name, identity): (&str, u64)| VoterStanding {
        voter: voter(name, identity),
        is_learner: false,
        is_leader: false,
        acknowledged: None,
        lag: None,
        // A stranger to the voters.
        has_lost_disk: identity == 3,
        votes: (identity == 3).then_some(false),
    };
    let voters = [("a", 1), ("b", 2), ("c", 3)].map(standing).into();
    let standings = VoterStandings { are_heard: false, lease: Duration::from_secs(2), voters };
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
