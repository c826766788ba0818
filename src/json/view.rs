//! Members, events and snapshots.
//!
//! Invariant: an [`Event`] is self-contained. A reader that looks at its `event`, `node` and `member` only can keep a
//! view.

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;
use std::time::SystemTime;

#[cfg(test)]
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::time::{fine_millis, instant, millis};
#[cfg(test)]
use crate::core::Status;
use crate::core::{NodeId, Run};
use crate::event::EventKind;

/// One member.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(JsonSchema))]
#[non_exhaustive]
pub struct Member {
    /// The member's name.
    pub id: String,
    /// The run of the member's process.
    pub run: String,
    /// The address of its gossip.
    pub address: String,
    /// The address at which its users reach it; `null` if it advertises none.
    pub api_address: Option<String>,
    /// Its status: one of [`Status::NAMES`](crate::Status::NAMES).
    #[cfg_attr(test, schemars(extend("enum" = Status::NAMES)))]
    pub status: String,
    /// The incarnation of its record.
    pub incarnation: u64,
    /// Time at which the observer first saw it in this status.
    #[serde(with = "instant")]
    #[cfg_attr(test, schemars(with = "String", extend("format" = "date-time")))]
    pub since: SystemTime,
    /// The time since the observer last heard it, in milliseconds.
    pub last_heard_ms: Option<u64>,
    /// The time between the last two packets of it that the observer heard, in milliseconds.
    pub heard_interval_ms: Option<u64>,
    /// The time since the observer last sent it a heartbeat, in milliseconds: any packet to a member that observes the
    /// sender is one.
    pub last_sent_ms: Option<u64>,
    /// The time between the last two heartbeats that the observer sent to it, in milliseconds.
    pub sent_interval_ms: Option<u64>,
    /// The smoothed round-trip time, in milliseconds.
    pub rtt_ms: Option<f64>,
    /// The tags in its record.
    pub tags: BTreeMap<String, String>,
    /// Its software version.
    pub version: String,
    /// True if it drains: it is up, is to get no new work, and leads nothing.
    #[serde(default)]
    pub draining: bool,
    /// True if the member is the observer itself.
    pub is_me: bool,
    /// The way in which its silence or death was detected; `null` unless it is Suspect or Down.
    pub method: Option<String>,
    /// The reason why it left; `null` if it did not leave.
    pub reason: Option<String>,
}

impl From<&crate::Member> for Member {
    fn from(member: &crate::Member) -> Self {
        Self {
            id: member.id.to_string(),
            run: member.run.to_string(),
            address: member.address.to_string(),
            api_address: member.api_address.clone(),
            status: member.status.name().to_owned(),
            incarnation: member.incarnation,
            since: member.since,
            last_heard_ms: member.last_heard.map(millis),
            heard_interval_ms: member.heard_interval.map(millis),
            last_sent_ms: member.last_sent.map(millis),
            sent_interval_ms: member.sent_interval.map(millis),
            rtt_ms: member.rtt.map(fine_millis),
            tags: member.tags.to_map(),
            version: member.version.clone(),
            draining: member.draining,
            is_me: member.is_me,
            method: member.method.map(|method| method.name().to_owned()),
            reason: member.reason().map(|reason| reason.name().to_owned()),
        }
    }
}

/// One event. The last seven keys are present only for the kinds they belong to.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(JsonSchema))]
#[non_exhaustive]
pub struct Event {
    /// The event's id, `run-sequence`, see [`EventId`].
    pub id: String,
    /// The event's number in the observer's run.
    pub sequence: u64,
    /// Time of observation.
    #[serde(with = "instant")]
    #[cfg_attr(test, schemars(with = "String", extend("format" = "date-time")))]
    pub at: SystemTime,
    /// The kind of event: one of [`EventKind::NAMES`].
    #[cfg_attr(test, schemars(extend("enum" = EventKind::NAMES)))]
    pub event: String,
    /// The member's name; `null` for events that are about no single member.
    pub node: Option<String>,
    /// The member's address.
    pub address: Option<String>,
    /// The member after the event.
    pub member: Option<Member>,
    /// The number of members that are `up` or `suspect` after the event, the observer included.
    pub live_members: Option<u64>,
    /// For `node_left`: `graceful` or `forced`. For `leader_lost`: `expired`, `resigned`, `superseded`, `rejected` or
    /// `quorum_lost`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// For `node_detected_down`: the way in which the death was detected.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub method: Option<String>,
    /// For `node_updated`: the member before the event.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub previous: Option<Box<Member>>,
    /// For `partition_suspected` and `partition_healed`: the names of the unreachable members, sorted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unreachable: Option<Vec<String>>,
    /// For `partition_suspected` and `partition_healed`: the names of the reachable members, sorted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reachable: Option<Vec<String>>,
    /// For all events about leaders: the term.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub term: Option<u64>,
    /// For `leader_elected` and `leader_lost` in lease mode: the lease's name; the holder of `default` leads the
    /// cluster.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lease: Option<String>,
    /// For `view_agreed`: the view's number.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub number: Option<u64>,
}

impl Event {
    /// Returns an event as the observer of this run saw it.
    pub fn new(run: Run, event: &crate::Event) -> Self {
        let member = event.kind.member();
        let mut json = Self {
            id: EventId { run, sequence: event.sequence }.to_string(),
            sequence: event.sequence,
            at: event.at,
            event: event.kind.name().to_owned(),
            node: event.kind.node().map(ToString::to_string),
            address: member.map(|member| member.address.to_string()),
            member: member.map(Member::from),
            live_members: Some(event.live_members as u64),
            reason: None,
            method: None,
            previous: None,
            unreachable: None,
            reachable: None,
            term: None,
            lease: None,
            number: None,
        };
        match &event.kind {
            EventKind::NodeLeft { reason, .. } => json.reason = Some(reason.name().to_owned()),
            EventKind::NodeDetectedDown { method, .. } => json.method = Some(method.name().to_owned()),
            EventKind::NodeUpdated { previous, .. } => json.previous = Some(Box::new(Member::from(previous))),
            EventKind::PartitionSuspected { unreachable, reachable }
            | EventKind::PartitionHealed { unreachable, reachable } => {
                json.unreachable = Some(names(unreachable));
                json.reachable = Some(names(reachable));
            }
            EventKind::LeaderElected { term, lease, .. } => {
                json.term = Some(*term);
                json.lease = lease.as_ref().map(ToString::to_string);
            }
            EventKind::QuorumLost { term } | EventKind::QuorumRegained { term } => json.term = Some(*term),
            EventKind::LeaderLost { term, reason, lease, .. } => {
                json.reason = Some(reason.name().to_owned());
                json.term = Some(*term);
                json.lease = lease.as_ref().map(ToString::to_string);
            }
            EventKind::ViewAgreed { term, number } => {
                json.term = Some(*term);
                json.number = Some(*number);
            }
            _ => {}
        }
        json
    }
}

fn names(ids: &[NodeId]) -> Vec<String> {
    ids.iter().map(ToString::to_string).collect()
}

/// All members at one point of the event stream.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(JsonSchema))]
#[non_exhaustive]
pub struct Snapshot {
    /// The [`EventId`] after which the stream goes on.
    pub id: String,
    /// The members, sorted by name.
    pub members: Vec<Member>,
}

impl Snapshot {
    /// Returns a snapshot taken after this event.
    pub fn new(id: EventId, members: Vec<Member>) -> Self {
        Self { id: id.to_string(), members }
    }
}

/// The report of events that were lost on the way.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub struct Lagged {
    /// The number of events missed; `null` if it is not known.
    pub missed: Option<u64>,
}

/// A position in the event stream of one process.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct EventId {
    /// The observer's run.
    pub run: Run,
    /// The event's number in the observer's run.
    pub sequence: u64,
}

impl fmt::Display for EventId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}", self.run, self.sequence)
    }
}

/// The error for a text that is not an [`EventId`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("an event id is 16 hex digits, a dash and a number, as in 8f00000000000000-7")]
pub struct BadEventId;

impl FromStr for EventId {
    type Err = BadEventId;

    fn from_str(text: &str) -> Result<Self, BadEventId> {
        let (run, sequence) = text.split_once('-').ok_or(BadEventId)?;
        // `from_str_radix` and `parse` would accept a sign.
        let is_hex = run.len() == 16 && run.bytes().all(|byte| byte.is_ascii_hexdigit());
        let is_number = sequence.bytes().all(|byte| byte.is_ascii_digit());
        if !is_hex || !is_number {
            return Err(BadEventId);
        }
        let run = u64::from_str_radix(run, 16).map_err(|_| BadEventId)?;
        Ok(Self { run: Run(run), sequence: sequence.parse().map_err(|_| BadEventId)? })
    }
}
