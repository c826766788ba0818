//! Questions and answers of the other calls: info, join, remove, tags, problems.
//!
//! Invariant: a [`Problem`] always says what failed (`detail`) and, where there is something to try, what (`hint`).

use std::collections::BTreeMap;
use std::net::SocketAddr;

use serde::{Deserialize, Serialize};

use super::time::millis;
use crate::core::{ProtocolRange, Settings};

/// Figures about one node and its view.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Info {
    /// Its name.
    pub node: String,
    /// Its process.
    pub run: String,
    /// Its cluster.
    pub cluster: String,
    /// Its software version.
    pub version: String,
    /// Wire protocol versions it speaks.
    pub protocol: Protocol,
    /// Where it stands.
    pub status: String,
    /// Its record's version.
    pub incarnation: u64,
    /// Where its gossip goes.
    pub address: String,
    /// Where its HTTP interface listens.
    pub http: Option<String>,
    /// Local count of changes of its view.
    pub changes: u64,
    /// Order-independent hash of its view.
    pub fingerprint: String,
    /// Members by status, itself included.
    pub members: Counts,
    /// Where its figures come from.
    pub profile: String,
    /// Its pace.
    pub timing: Pace,
    /// Time since its start.
    pub uptime_ms: u64,
    /// `ok`, or which task died.
    pub tasks: String,
}

/// Both ends included.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Protocol {
    /// The oldest.
    pub min: u8,
    /// The newest.
    pub max: u8,
}

/// Members by status.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[allow(missing_docs)] // The statuses, by name.
pub struct Counts {
    pub joining: usize,
    pub up: usize,
    pub suspect: usize,
    pub leaving: usize,
    pub down: usize,
    pub left: usize,
}

impl From<[usize; 6]> for Counts {
    /// In the order of [`Status::NAMES`](crate::Status::NAMES).
    fn from([joining, up, suspect, leaving, down, left]: [usize; 6]) -> Self {
        Self { joining, up, suspect, leaving, down, left }
    }
}

/// A node's pace, as configured.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
#[allow(missing_docs)] // The keys of the configuration's `timing`.
pub struct Pace {
    pub heartbeat_interval_ms: u64,
    pub suspect_timeout_ms: u64,
    pub down_timeout_ms: u64,
    pub gossip_interval_ms: u64,
    pub gossip_fanout: usize,
    pub probe_timeout_ms: u64,
    pub retry_interval_ms: u64,
    pub reap_after_ms: u64,
}

impl From<&Settings> for Pace {
    fn from(settings: &Settings) -> Self {
        Self {
            heartbeat_interval_ms: millis(settings.heartbeat_interval),
            suspect_timeout_ms: millis(settings.suspect_timeout),
            down_timeout_ms: millis(settings.down_timeout),
            gossip_interval_ms: millis(settings.gossip_interval),
            gossip_fanout: settings.gossip_fanout,
            probe_timeout_ms: millis(settings.probe_timeout),
            retry_interval_ms: millis(settings.retry_interval),
            reap_after_ms: millis(settings.reap_after),
        }
    }
}

impl Info {
    /// The agent's figures, where its HTTP interface listens, and whether all tasks live.
    pub fn new(info: &crate::agent::Info, http: Option<SocketAddr>, tasks: String) -> Self {
        let ProtocolRange { min, max } = ProtocolRange::OURS;
        Self {
            node: info.me.id.to_string(),
            run: info.me.run.to_string(),
            cluster: info.cluster.to_string(),
            version: info.me.version.clone(),
            protocol: Protocol { min, max },
            status: info.me.status.name().to_owned(),
            incarnation: info.me.incarnation,
            address: info.me.address.to_string(),
            http: http.map(|address| address.to_string()),
            changes: info.changes,
            fingerprint: format!("{:016x}", info.fingerprint),
            members: info.members.into(),
            profile: info.profile.name().to_owned(),
            timing: Pace::from(&info.settings),
            uptime_ms: millis(info.uptime),
            tasks,
        }
    }
}

/// Asks a node to contact others.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct JoinRequest {
    /// `host:port` each.
    pub addresses: Vec<String>,
}

/// What became of one address.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct JoinResult {
    /// As asked.
    pub address: String,
    /// The member that answered.
    pub node: Option<String>,
    /// Why none did.
    pub error: Option<String>,
    /// In one word: `answered`, `not_up` (a node answered that is joining itself), `refused`, `silent` or `not_asked`.
    #[serde(default)]
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

/// What became of all addresses, in the order asked.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct JoinResults {
    /// One each.
    pub results: Vec<JoinResult>,
}

/// What a removal achieved.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Removed {
    /// The member.
    pub id: String,
    /// `left`.
    pub status: String,
    /// Peers known to hold the record.
    pub held_by: usize,
    /// Whether those are enough; else it spreads further. Agents of the first version do not say.
    #[serde(default)]
    pub confirmed: bool,
}

impl Removed {
    /// A removal that this many peers hold, and whether those are enough.
    pub fn new(id: &crate::NodeId, held_by: usize, confirmed: bool) -> Self {
        Self { id: id.to_string(), status: "left".to_owned(), held_by, confirmed }
    }
}

/// All tags of a node: question and answer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SetTags {
    /// Replace all that there are.
    pub tags: BTreeMap<String, String>,
}

/// Why a request was not carried out (RFC 9457).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Problem {
    /// `urn:headcount:problem:` and a word for programs.
    #[serde(rename = "type")]
    pub kind: String,
    /// The same for people, whatever the occasion.
    pub title: String,
    /// The HTTP status.
    pub status: u16,
    /// What failed this time.
    pub detail: String,
    /// What to try.
    pub hint: Option<String>,
    /// Of a join that nobody answered: what became of each address.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub results: Option<Vec<JoinResult>>,
    /// Where only the leader could do what was asked: who leads, if somebody does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub leader: Option<LeaderAddress>,
}

/// Where the leader is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct LeaderAddress {
    /// Its name.
    pub id: String,
    /// Where its gossip goes; `null` if it is not listed.
    pub address: Option<String>,
    /// Where its users reach it, if it says so.
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
    use crate::core::Profile;

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
        assert_eq!(json, r#"{"id":"b","status":"left","held_by":3,"confirmed":true}"#);
        let older = r#"{"id":"b","status":"left","held_by":3}"#;
        assert!(!serde_json::from_str::<Removed>(older).expect("readable").confirmed);
    }

    #[test]
    fn counts_follow_the_order_of_the_statuses() {
        let json = serde_json::to_string(&Counts::from([0, 5, 0, 0, 1, 2])).expect("JSON");
        assert_eq!(json, r#"{"joining":0,"up":5,"suspect":0,"leaving":0,"down":1,"left":2}"#);
    }

    #[test]
    fn the_pace_is_in_milliseconds() {
        let json = serde_json::to_string(&Pace::from(&Profile::Local.settings())).expect("JSON");
        let expected = r#"{"heartbeat_interval_ms":200,"suspect_timeout_ms":1000,"down_timeout_ms":2000,"gossip_interval_ms":500,"gossip_fanout":3,"probe_timeout_ms":50,"retry_interval_ms":1000,"reap_after_ms":86400000}"#;
        assert_eq!(json, expected);
    }
}
