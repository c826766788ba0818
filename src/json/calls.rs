//! Requests and answers of single calls: join, remove, drain, tags; and problems.
//!
//! Invariant: a [`Problem`] always names the failure (`detail`) and, if there is something to try, the remedy (`hint`).

use std::collections::BTreeMap;

#[cfg(test)]
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

#[cfg(test)]
use super::patterns;
use crate::core::NodeId;

/// The request that a node contact others.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub struct JoinRequest {
    /// The addresses, each `host:port`.
    #[cfg_attr(test, schemars(length(min = 1, max = 64)))]
    pub addresses: Vec<String>,
}

/// The outcome for one address.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(JsonSchema))]
#[non_exhaustive]
pub struct JoinResult {
    /// The address as requested.
    pub address: String,
    /// The name of the member that answered.
    pub node: Option<String>,
    /// The reason why no member answered.
    pub error: Option<String>,
    /// The outcome in one word: `answered`, `not_up` (a node answered that is joining itself), `refused`, `silent` or
    /// `not_asked`.
    #[serde(default)]
    #[cfg_attr(test, schemars(extend("enum" = ["answered", "not_up", "refused", "silent", "not_asked"])))]
    pub outcome: String,
}

impl From<crate::agent::JoinResult> for JoinResult {
    fn from(result: crate::agent::JoinResult) -> Self {
        let (node, error, outcome) = match result.outcome {
            Ok(node) => (Some(node.to_string()), None, "answered"),
            Err(failure) => (None, Some(failure.to_string()), failure.kind()),
        };
        Self { address: result.address, node, error, outcome: outcome.to_owned() }
    }
}

/// The outcomes for all addresses, in the order requested.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub struct JoinResults {
    /// One outcome for each address.
    pub results: Vec<JoinResult>,
}

/// The outcome of a removal.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(JsonSchema))]
#[non_exhaustive]
pub struct Removed {
    /// The member's name.
    pub id: String,
    /// The member's status: `left`.
    pub status: String,
    /// The number of peers known to hold the record of the removal.
    pub held_by: usize,
    /// True if those peers are enough; otherwise the record spreads further. Missing in answers of agents of the first
    /// version.
    #[serde(default)]
    pub confirmed: bool,
    /// The consequences that were perhaps not meant, each a sentence: of the removal of a voter, or of a member that may
    /// be alive on the other side of a suspected network partition.
    #[serde(default)]
    pub warnings: Vec<String>,
}

impl Removed {
    /// Returns the outcome of a removal that `held_by` peers hold; `confirmed` is true if those are enough.
    pub fn new(id: &crate::NodeId, held_by: usize, confirmed: bool) -> Self {
        Self { id: id.to_string(), status: "left".to_owned(), held_by, confirmed, warnings: Vec::new() }
    }

    /// Adds consequences that were perhaps not meant.
    #[must_use]
    pub fn with_warnings(mut self, warnings: Vec<String>) -> Self {
        self.warnings = warnings;
        self
    }
}

/// The answer to `POST /v1/drain` and `/v1/undrain`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(JsonSchema))]
#[non_exhaustive]
pub struct Drained {
    /// The node that was asked.
    pub node: String,
    /// True if it drains now.
    pub draining: bool,
    /// The number of voters that may lead: those that are there, have their data and do not drain; `null` where no voters
    /// elect leaders.
    pub may_lead: Option<usize>,
}

impl Drained {
    /// Returns the answer of this node.
    pub fn new(node: &NodeId, draining: bool, may_lead: Option<usize>) -> Self {
        Self { node: node.to_string(), draining, may_lead }
    }
}

/// All tags of a node: request and answer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub struct SetTags {
    /// The tags that replace all existing ones: at most 32, keys of at most 63 bytes, and 512 bytes in all.
    #[cfg_attr(test, schemars(extend(
        "maxProperties" = 32,
        "propertyNames" = { "pattern": patterns::TAG },
        "additionalProperties" = { "type": "string", "pattern": patterns::TAG_VALUE }
    )))]
    pub tags: BTreeMap<String, String>,
}

/// The reason why a request was not carried out (RFC 9457).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub struct Problem {
    /// The kind of problem for programs: `urn:headcount:problem:` and a word.
    #[serde(rename = "type")]
    pub kind: String,
    /// The kind of problem for people, the same at every occurrence.
    pub title: String,
    /// The HTTP status.
    pub status: u16,
    /// The failure of this request.
    pub detail: String,
    /// One thing to try.
    pub hint: Option<String>,
    /// For a join that no member answered: the outcome for each address.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub results: Option<Vec<JoinResult>>,
    /// For a refusal in which a leader matters, such as that of a request which only the leader can carry out: the
    /// leader, if there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub leader: Option<LeaderAddress>,
}

/// The name and the addresses of the leader.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(JsonSchema))]
#[non_exhaustive]
pub struct LeaderAddress {
    /// The leader's name.
    pub id: String,
    /// The address of its gossip; `null` if it is not listed as a member.
    pub address: Option<String>,
    /// The address at which its users reach it; `null` if it advertises none.
    pub api_address: Option<String>,
}

impl From<&crate::agent::LeaderAddress> for LeaderAddress {
    fn from(leader: &crate::agent::LeaderAddress) -> Self {
        let address = leader.address.map(|address| address.to_string());
        Self { id: leader.id.to_string(), address, api_address: leader.api_address.clone() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_problem_is_written_as_the_contract_says() {
        let problem = Problem {
            kind: "urn:headcount:problem:no-such-member".to_owned(),
            title: "No such member".to_owned(),
            status: 404,
            detail: "no member is named \"z\"".to_owned(),
            hint: None,
            results: None,
            leader: None,
        };
        let expected = r#"{"type":"urn:headcount:problem:no-such-member","title":"No such member","status":404,"detail":"no member is named \"z\"","hint":null}"#;
        assert_eq!(serde_json::to_string(&problem).expect("JSON"), expected);
        let leader = LeaderAddress { id: "a".to_owned(), address: None, api_address: None };
        let json = serde_json::to_value(Problem { leader: Some(leader), ..problem }).expect("JSON");
        assert_eq!(json["leader"], serde_json::json!({"id": "a", "address": null, "api_address": null}));
    }

    #[test]
    fn join_results_have_all_keys() {
        use crate::agent::JoinFailure;
        use crate::core::NodeId;

        let result = |address: &str, outcome| {
            JoinResult::from(crate::agent::JoinResult { address: address.to_owned(), outcome })
        };
        let results = JoinResults {
            results: vec![
                result("10.0.0.1:7117", Ok(NodeId::new("a").expect("a name"))),
                result("x:1", Err(JoinFailure::NotUp { node: None })),
            ],
        };
        let words = JoinFailure::NotUp { node: None }.to_string();
        let expected = format!(
            r#"{{"results":[{{"address":"10.0.0.1:7117","node":"a","error":null,"outcome":"answered"}},{{"address":"x:1","node":null,"error":"{words}","outcome":"not_up"}}]}}"#
        );
        assert_eq!(serde_json::to_string(&results).expect("JSON"), expected);
    }

    #[test]
    fn a_removal_is_written_as_the_contract_says() {
        let removed = Removed::new(&crate::NodeId::new("b").expect("a name"), 3, true);
        let json = serde_json::to_string(&removed).expect("JSON");
        assert_eq!(json, r#"{"id":"b","status":"left","held_by":3,"confirmed":true,"warnings":[]}"#);
        let older = r#"{"id":"b","status":"left","held_by":3}"#;
        assert!(!serde_json::from_str::<Removed>(older).expect("readable").confirmed);
    }
}
