//! Who leads, who votes, and what was agreed.
//!
//! Invariant: all keys are always there; what is not known is `null`.

use serde::{Deserialize, Serialize};

use super::time::millis;
use crate::agent::AgreedView;
use crate::config::LeadershipMode;
use crate::core::election::Electorate;

/// Who leads, as one node knows it at the moment it is asked.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Leader {
    /// Who.
    pub leader: Option<String>,
    /// The latest term known: the fencing token, if this node leads.
    pub term: u64,
    /// Whether the node that was asked leads.
    pub is_me: bool,
    /// `none` or `quorum`.
    pub mode: String,
    /// `disabled`, `vacant`, `led` or `unavailable`.
    pub state: String,
    /// For how long that holds without news.
    pub lease_remaining_ms: Option<u64>,
}

impl Leader {
    /// Judged by the clock, now.
    pub fn new(leadership: &crate::agent::Leadership, mode: LeadershipMode) -> Self {
        let now = leadership.clone().now();
        Self {
            leader: now.leader.as_ref().map(ToString::to_string),
            term: now.term,
            is_me: now.is_me,
            mode: mode.name().to_owned(),
            state: now.state.name().to_owned(),
            lease_remaining_ms: now.valid_until.map(|until| millis(until.remaining())),
        }
    }
}

/// The electorate, as one node knows it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Voters {
    /// Sorted by name; empty where there is no electorate yet.
    pub voters: Vec<Voter>,
    /// Which first electorate, or which recovery, it goes back to.
    pub lineage: Option<String>,
    /// How many of them are a majority.
    pub majority: Option<usize>,
    /// The latest term known.
    pub term: u64,
}

/// One voter.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Voter {
    /// Its name.
    pub id: String,
    /// What it drew at its first start: its data directory's.
    pub identity: String,
    /// Its status as a member; `null` if it is not listed.
    pub status: Option<String>,
}

impl Voters {
    /// `status` says how a member stands.
    pub fn new(electorate: Option<&Electorate>, term: u64, status: impl Fn(&crate::NodeId) -> Option<String>) -> Self {
        let voter = |voter: &crate::core::election::Voter| Voter {
            id: voter.id.to_string(),
            identity: format!("{:016x}", voter.identity.0),
            status: status(&voter.id),
        };
        Self {
            voters: electorate.map(|electorate| electorate.voters.iter().map(voter).collect()).unwrap_or_default(),
            lineage: electorate.map(|electorate| format!("{:016x}", electorate.lineage.0)),
            majority: electorate.map(Electorate::majority),
            term,
        }
    }
}

/// Asks for one more voter.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AddVoter {
    /// Its name.
    pub id: String,
}

/// Asks for a new generation of the electorate.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Recover {
    /// The names of those that are left; the node that is asked is always one of them.
    pub voters: Vec<String>,
    /// None of them has its data, and the node that is asked need not have been a voter.
    #[serde(default)]
    pub anew: bool,
}

/// What the voters agreed on last.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct View {
    /// In which term it was put to the voters, last.
    pub term: Option<u64>,
    /// Nobody ever sees other members under this number.
    pub number: Option<u64>,
    /// Sorted.
    pub members: Option<Vec<String>>,
}

impl From<Option<AgreedView>> for View {
    fn from(view: Option<AgreedView>) -> Self {
        let Some(AgreedView { term, number, members }) = view else {
            return Self { term: None, number: None, members: None };
        };
        let members = members.iter().map(ToString::to_string).collect();
        Self { term: Some(term), number: Some(number), members: Some(members) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::NodeId;
    use crate::core::election::Identity;

    fn json(value: &impl Serialize) -> String {
        serde_json::to_string(value).expect("JSON")
    }

    #[test]
    fn nobody_leading_has_all_keys() {
        let nobody = Leader::new(&crate::agent::Leadership::disabled(), LeadershipMode::None);
        let expected =
            r#"{"leader":null,"term":0,"is_me":false,"mode":"none","state":"disabled","lease_remaining_ms":null}"#;
        assert_eq!(json(&nobody), expected);
    }

    #[test]
    fn voters_are_named_with_identity_and_status() {
        let voter = crate::core::election::Voter { id: NodeId::new("a").expect("a name"), identity: Identity(0xab) };
        let electorate = Electorate::founded_by(vec![voter]);
        let lineage = format!("{:016x}", electorate.lineage.0);
        let expected = format!(
            r#"{{"voters":[{{"id":"a","identity":"00000000000000ab","status":"up"}}],"lineage":"{lineage}","majority":1,"term":3}}"#
        );
        assert_eq!(json(&Voters::new(Some(&electorate), 3, |_| Some("up".to_owned()))), expected);
        let nobody = Voters::new(None, 0, |_| None);
        assert_eq!(json(&nobody), r#"{"voters":[],"lineage":null,"majority":null,"term":0}"#);
    }

    #[test]
    fn a_view_that_nobody_agreed_on_is_null() {
        assert_eq!(json(&View::from(None)), r#"{"term":null,"number":null,"members":null}"#);
    }
}
