//! The state of one node in an answer: its record, its settings, and a summary of its view.

use std::net::SocketAddr;

#[cfg(test)]
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::time::millis;
use crate::core::{ProtocolRange, Settings};
#[cfg(test)]
use crate::seal::SealMode;

/// The state and the settings of one node, and a summary of its view.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(JsonSchema))]
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
    #[cfg_attr(test, schemars(extend("enum" = crate::core::Status::NAMES)))]
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
    /// What a node lacks that is joining, and one thing to try, in the words of its log; `null` once it is up, and while
    /// nothing is known to be missing.
    #[serde(default)]
    pub joining: Option<String>,
    /// The sealing of its packets; `null` in answers of older agents.
    #[serde(default)]
    pub sealing: Option<Sealing>,
    /// The caller's access: `read` for one that may look, `write` for one that may do all; `null` in answers of older
    /// agents.
    #[serde(default)]
    #[cfg_attr(test, schemars(extend("enum" = [Some("read"), Some("write"), None::<&str>])))]
    pub access: Option<String>,
}

/// The sealing of a node's packets.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(JsonSchema))]
#[non_exhaustive]
pub struct Sealing {
    /// The packets taken and sent: one of `off`, `permit`, `prefer`, `require`.
    #[cfg_attr(test, schemars(extend("enum" = SealMode::ALL.map(SealMode::name))))]
    pub mode: String,
    /// The id of the key that seals; `null` where nothing is sealed.
    pub key: Option<String>,
    /// True if the configuration says that packets that are not sealed are taken from other machines; without that they are
    /// taken from its own machine alone.
    pub consented: bool,
}

impl From<crate::agent::SealingInfo> for Sealing {
    fn from(sealing: crate::agent::SealingInfo) -> Self {
        let key = sealing.key.map(|key| key.to_string());
        Self { mode: sealing.mode.to_string(), key, consented: sealing.consented }
    }
}

/// The views of a node and of the live members that it hears.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(JsonSchema))]
#[non_exhaustive]
pub struct Agreement {
    /// The groups of the same fingerprint, the node's own first.
    pub fingerprints: Vec<SameView>,
    /// The number of live members of which nothing was heard lately.
    pub unheard: usize,
}

/// The members whose views have the same fingerprint.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(JsonSchema))]
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
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub struct Protocol {
    /// The oldest version.
    pub min: u8,
    /// The newest version.
    pub max: u8,
}

/// The number of members by status.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(JsonSchema))]
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
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(JsonSchema))]
#[non_exhaustive]
pub struct Pace {
    /// The longest time between two packets to a member that observes it, in milliseconds.
    pub heartbeat_interval_ms: u64,
    /// The silence after which others suspect it, in milliseconds.
    pub suspect_timeout_ms: u64,
    /// The silence after which others hold it as Down, in milliseconds.
    pub down_timeout_ms: u64,
    /// The silence after which it holds others as Down whose hosts are silent, too, in milliseconds; 0 in answers of older agents.
    #[serde(default)]
    pub host_down_timeout_ms: u64,
    /// The time in which `gossip_fanout` heartbeats are sent, if not more, in milliseconds.
    pub gossip_interval_ms: u64,
    /// The number of heartbeats sent in each `gossip_interval_ms`, if not more.
    pub gossip_fanout: usize,
    /// The time within which a probe is to be answered, in milliseconds.
    pub probe_timeout_ms: u64,
    /// The time between two tries to join or to find lost members again, in milliseconds.
    pub retry_interval_ms: u64,
    /// The age at which members that are Down or left are forgotten, in milliseconds.
    pub reap_after_ms: u64,
    /// The time without a frame after which a link shows firewalls that it is in use, in milliseconds; 0 in answers of older
    /// agents.
    #[serde(default)]
    pub link_keepalive_ms: u64,
}

impl From<&Settings> for Pace {
    fn from(settings: &Settings) -> Self {
        // Each by its name, so that none is forgotten that comes to be.
        let &Settings {
            heartbeat_interval,
            suspect_timeout,
            down_timeout,
            host_down_timeout,
            gossip_interval,
            gossip_fanout,
            probe_timeout,
            retry_interval,
            reap_after,
            link_keepalive,
            mtu: _,
            observers: _,
        } = settings;
        Self {
            heartbeat_interval_ms: millis(heartbeat_interval),
            suspect_timeout_ms: millis(suspect_timeout),
            down_timeout_ms: millis(down_timeout),
            host_down_timeout_ms: millis(host_down_timeout.unwrap_or(down_timeout)),
            gossip_interval_ms: millis(gossip_interval),
            gossip_fanout,
            probe_timeout_ms: millis(probe_timeout),
            retry_interval_ms: millis(retry_interval),
            reap_after_ms: millis(reap_after),
            link_keepalive_ms: millis(link_keepalive),
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
            joining: None,
            sealing: Some(info.sealing.into()),
            access: None,
        }
    }

    /// Adds what the node lacks to join.
    #[must_use]
    pub fn lacking(mut self, missing: Option<String>) -> Self {
        self.joining = missing;
        self
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::core::Profile;

    #[test]
    fn counts_follow_the_order_of_the_statuses() {
        let json = serde_json::to_string(&Counts::from([0, 5, 0, 0, 1, 2])).expect("JSON");
        assert_eq!(json, r#"{"joining":0,"up":5,"suspect":0,"leaving":0,"down":1,"left":2}"#);
    }

    #[test]
    fn the_pace_is_in_milliseconds() {
        let json = serde_json::to_string(&Pace::from(&Profile::Local.settings())).expect("JSON");
        let expected = r#"{"heartbeat_interval_ms":200,"suspect_timeout_ms":1000,"down_timeout_ms":2000,"host_down_timeout_ms":2000,"gossip_interval_ms":500,"gossip_fanout":3,"probe_timeout_ms":50,"retry_interval_ms":1000,"reap_after_ms":86400000,"link_keepalive_ms":30000}"#;
        assert_eq!(json, expected);
    }
}
