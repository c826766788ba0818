//! [`Member`]: one member as a user sees it.

use std::net::SocketAddr;
use std::time::{Duration, SystemTime};

use crate::core::{DetectionMethod, LeaveReason, NodeId, Record, Run, Status, Tags, Timing};

/// One member, as this node sees it: the record that all nodes share, and the observations of this node.
///
/// Its JSON, as HTTP has it, is `json::Member::from(&member)` (feature `client`). What `serde` makes of its parts is the wire's form.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Member {
    /// The member's name.
    pub id: NodeId,
    /// The run of the member's process.
    pub run: Run,
    /// The incarnation of its record; only the member itself raises it.
    pub incarnation: u64,
    /// Its status.
    pub status: Status,
    /// The address of its gossip.
    pub address: SocketAddr,
    /// The address at which its users reach it; `None` if it advertises none.
    pub api_address: Option<String>,
    /// The tags in its record.
    pub tags: Tags,
    /// True if it drains: it is to get no new work, and leads nothing. It is Up all the same.
    pub draining: bool,
    /// Its heartbeat interval and timeouts, by which every observer judges it.
    pub timing: Timing,
    /// Its software version.
    pub version: String,
    /// Time at which this node first saw it in this status.
    pub since: SystemTime,
    /// The time since this node last heard it; `None` if never, and for the node itself.
    pub last_heard: Option<Duration>,
    /// The time between the last two packets heard of it; `None` if there were not two.
    pub heard_interval: Option<Duration>,
    /// The time since this node last sent it a heartbeat, which is any packet to an observer of this node; `None` if never.
    pub last_sent: Option<Duration>,
    /// The time between the last two heartbeats sent to it; `None` if there were not two.
    pub sent_interval: Option<Duration>,
    /// The smoothed round-trip time to it.
    pub rtt: Option<Duration>,
    /// True if the member is this node.
    pub is_me: bool,
    /// The way in which its silence or death was detected, while it is Suspect or Down.
    pub method: Option<DetectionMethod>,
}

impl Member {
    /// Returns true if it is listed as live: Joining, Up, Suspect or Leaving.
    pub fn is_live(&self) -> bool {
        self.status.is_live()
    }

    /// Returns true if it may be given work: it is Up, or Suspect and not yet known to be gone, and does not drain.
    pub fn may_work(&self) -> bool {
        self.is_here() && !self.draining
    }

    /// Returns true if it is Up or Suspect.
    pub(crate) fn is_here(&self) -> bool {
        matches!(self.status, Status::Up | Status::Suspect)
    }

    /// Returns the reason why it left, if it did.
    pub fn reason(&self) -> Option<LeaveReason> {
        match self.status {
            Status::Left(reason) => Some(reason),
            _ => None,
        }
    }

    /// Builds a member from its record, in this status since `since`.
    pub(crate) fn from_record(
        record: &Record,
        method: Option<DetectionMethod>,
        since: SystemTime,
        is_me: bool,
    ) -> Self {
        Self {
            id: record.id.clone(),
            run: record.run,
            incarnation: record.incarnation,
            status: record.status,
            address: record.address,
            api_address: record.api_address.as_deref().map(str::to_owned),
            tags: record.tags.of_the_operator(),
            draining: record.is_draining(),
            timing: record.timing,
            version: record.version.to_string(),
            since,
            last_heard: None,
            heard_interval: None,
            last_sent: None,
            sent_interval: None,
            rtt: None,
            is_me,
            method,
        }
    }
}

#[cfg(test)]
impl Member {
    /// Returns another node in its first run.
    pub(crate) fn for_tests(name: &str, status: Status) -> Self {
        let record = Record {
            id: NodeId::new(name).expect("a name"),
            run: Run(1),
            incarnation: 1,
            status,
            address: "10.0.0.1:7117".parse().expect("an address"),
            api_address: None,
            tags: Tags::default(),
            timing: crate::core::Settings::default().timing().expect("the default"),
            version: "0".into(),
            protocol: crate::core::ProtocolRange::OURS,
        };
        Self::from_record(&record, None, SystemTime::UNIX_EPOCH, false)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn work_is_for_those_that_are_here_and_mean_to_stay() {
        let may_work = |status| Member::for_tests("a", status).may_work();
        assert!(may_work(Status::Up) && may_work(Status::Suspect));
        for status in [Status::Joining, Status::Leaving, Status::Down, Status::Left(LeaveReason::Graceful)] {
            assert!(!may_work(status), "{status}");
        }
        let draining = Member { draining: true, ..Member::for_tests("a", Status::Up) };
        assert!(!draining.may_work() && draining.is_here(), "it is here, and does not mean to stay");
    }
}
