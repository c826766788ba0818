//! Requests and answers of the other calls: info, join, remove, tags, problems.
//!
//! Invariant: a [`Problem`] always names the failure (`detail`) and, if there is something to try, the remedy (`hint`).

use std::collections::BTreeMap;
use std::net::SocketAddr;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::patterns;
use super::time::millis;
use crate::core::{NodeId, ProtocolRange, Settings};

/// The state and the settings of one node, and a summary of its view.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[non_exhaustive]
pub struct Info {
    /// The node's name.
    pub node: String,
    /// The run of its process.
    pub run: String,
    /// The name of its cluster.
    pub cluster: String,
    /// Its software version.
    pub version: String,
    /// The wire protocol versions that it speaks.
    pub protocol: Protocol,
    /// Its status: one of [`Status::NAMES`](crate::Status::NAMES).
    #[schemars(extend("enum" = crate::core::Status::NAMES))]
    pub status: String,
    /// The incarnation of its record.
    pub incarnation: u64,
    /// The address of its gossip.
    pub address: String,
    /// The address of its HTTP interface; `null` if HTTP is off.
    pub http: Option<String>,
    /// The number of changes of its view since its start.
    pub changes: u64,
    /// The fingerprint of its view: a hash that does not depend on the order of members.
    pub fingerprint: String,
    /// The number of members by status, itself included.
    pub members: Counts,
    /// The profile that its settings started from.
    pub profile: String,
    /// Its intervals and timeouts.
    pub timing: Pace,
    /// The time since its start, in milliseconds.
    pub uptime_ms: u64,
    /// `ok`, or the task that died.
    pub tasks: String,
    /// The views of the members that it hears, compared with its own; `null` if they were not compared.
    #[serde(default)]
    pub agreement: Option<Agreement>,
    /// The leases in a database that it contends for, sorted; `null` where none leads.
    #[serde(default)]
    pub leases: Option<Vec<String>>,
    /// The caller's access: `read` for one that may look, `write` for one that may do all; `null` in answers of older
    /// agents.
    #[serde(default)]
    #[schemars(extend("enum" = [Some("read"), Some("write"), None::<&str>]))]
    pub access: Option<String>,
}

/// The views of a node and of the live members that it hears.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[non_exhaustive]
pub struct Agreement {
    /// The groups of the same fingerprint, the node's own first.
    pub fingerprints: Vec<SameView>,
    /// The number of live members of which nothing was heard lately.
    pub unheard: usize,
}

/// The members whose views have the same fingerprint.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[non_exhaustive]
pub struct SameView {
    /// The fingerprint of the view.
    pub fingerprint: String,
    /// The number of members.
    pub count: usize,
    /// Their names, the first 16 of them.
    pub members: Vec<String>,
}

impl From<&crate::agent::Agreement> for Agreement {
    fn from(agreement: &crate::agent::Agreement) -> Self {
        let same_view = |group: &crate::agent::SameView| SameView {
            fingerprint: format!("{:016x}", group.fingerprint),
            count: group.count,
            members: group.members.iter().map(ToString::to_string).collect(),
        };
        Self { fingerprints: agreement.groups.iter().map(same_view).collect(), unheard: agreement.unheard }
    }
}

/// A range of wire protocol versions, both ends included.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Protocol {
    /// The oldest version.
    pub min: u8,
    /// The newest version.
    pub max: u8,
}

/// The number of members by status.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Counts {
    /// Members that do not hold the whole view yet.
    pub joining: usize,
    /// Members that are well.
    pub up: usize,
    /// Members that have been silent for their suspect timeout, and may refute it.
    pub suspect: usize,
    /// Members that are saying goodbye.
    pub leaving: usize,
    /// Members that are held as dead.
    pub down: usize,
    /// Members that left, or were removed.
    pub left: usize,
}

impl From<[usize; 6]> for Counts {
    /// Takes the numbers in the order of [`Status::NAMES`](crate::Status::NAMES).
    fn from([joining, up, suspect, leaving, down, left]: [usize; 6]) -> Self {
        Self { joining, up, suspect, leaving, down, left }
    }
}

/// A node's intervals and timeouts, as configured.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[non_exhaustive]
pub struct Pace {
    /// The longest time between two packets to a member that observes it, in milliseconds.
    pub heartbeat_interval_ms: u64,
    /// The silence after which others suspect it, in milliseconds.
    pub suspect_timeout_ms: u64,
    /// The silence after which others hold it as Down, in milliseconds.
    pub down_timeout_ms: u64,
    /// The time between two rounds of gossip, in milliseconds.
    pub gossip_interval_ms: u64,
    /// The number of members that each round goes to.
    pub gossip_fanout: usize,
    /// The time within which a probe is to be answered, in milliseconds.
    pub probe_timeout_ms: u64,
    /// The time between two tries to join or to find lost members again, in milliseconds.
    pub retry_interval_ms: u64,
    /// The age at which members that are Down or left are forgotten, in milliseconds.
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
    /// Takes the agent's figures, the address of its HTTP interface, and the state of its tasks.
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
            agreement: None,
            leases: None,
            access: None,
        }
    }

    /// Adds the leases that the node contends for.
    #[must_use]
    pub fn contending_for(mut self, leases: Option<Vec<String>>) -> Self {
        self.leases = leases;
        self
    }

    /// Adds the access of the caller.
    #[must_use]
    pub fn with_access(mut self, access: &str) -> Self {
        self.access = Some(access.to_owned());
        self
    }

    /// Adds what a comparison of views found.
    #[must_use]
    pub fn with_agreement(mut self, agreement: &crate::agent::Agreement) -> Self {
        self.agreement = Some(agreement.into());
        self
    }
}

/// The request that a node contact others.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct JoinRequest {
    /// The addresses, each `host:port`.
    #[schemars(length(min = 1, max = 64))]
    pub addresses: Vec<String>,
}

/// The outcome for one address.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
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
    #[schemars(extend("enum" = ["answered", "not_up", "refused", "silent", "not_asked"]))]
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
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct JoinResults {
    /// One outcome for each address.
    pub results: Vec<JoinResult>,
}

/// The outcome of a removal.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
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
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
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
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SetTags {
    /// The tags that replace all existing ones: at most 32, keys of at most 63 bytes, and 512 bytes in all.
    #[schemars(extend(
        "maxProperties" = 32,
        "propertyNames" = { "pattern": patterns::TAG },
        "additionalProperties" = { "type": "string", "pattern": patterns::TAG_VALUE }
    ))]
    pub tags: BTreeMap<String, String>,
}

/// The reason why a request was not carried out (RFC 9457).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
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
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
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
        assert_eq!(json, r#"{"id":"b","status":"left","held_by":3,"confirmed":true,"warnings":[]}"#);
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
