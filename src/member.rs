//! [`Member`]: one member as a user sees it.

use std::net::SocketAddr;
use std::time::{Duration, SystemTime};

use crate::core::{DetectionMethod, LeaveReason, NodeId, Record, Run, Status, Tags, Timing};

/// One member, as this node sees it: the record that all share, and what is local to this observer.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Member {
    /// Its name.
    pub id: NodeId,
    /// The process behind the name.
    pub run: Run,
    /// Its record's version; only the member itself raises it.
    pub incarnation: u64,
    /// Where it stands.
    pub status: Status,
    /// Where its gossip goes.
    pub address: SocketAddr,
    /// Where its users reach it.
    pub api_address: Option<String>,
    /// What it tells about itself.
    pub tags: Tags,
    /// The pace by which everybody judges it.
    pub timing: Timing,
    /// Its software version.
    pub version: String,
    /// Since when this node has seen it in this status.
    pub since: SystemTime,
    /// How long ago this node last heard it; `None` if never, and for the node itself.
    pub last_heard: Option<Duration>,
    /// Smoothed round trip time to it.
    pub rtt: Option<Duration>,
    /// Whether it is this node.
    pub is_me: bool,
    /// How its silence or death was found out, while it is Suspect or Down.
    pub method: Option<DetectionMethod>,
}

impl Member {
    /// Whether it is listed among the living: Joining, Up, Suspect or Leaving.
    pub fn is_live(&self) -> bool {
        self.status.is_live()
    }

    /// Whether it may be given work: it is Up, or Suspect and not yet known to be gone.
    pub fn may_work(&self) -> bool {
        matches!(self.status, Status::Up | Status::Suspect)
    }

    /// Why it left, if it has.
    pub fn reason(&self) -> Option<LeaveReason> {
        match self.status {
            Status::Left(reason) => Some(reason),
            _ => None,
        }
    }

    /// A member from its record, seen in this status since `since`.
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
            tags: record.tags.clone(),
            timing: record.timing,
            version: record.version.to_string(),
            since,
            last_heard: None,
            rtt: None,
            is_me,
            method,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::core::{ProtocolRange, Settings};

    #[test]
    fn work_is_for_those_that_are_here_and_mean_to_stay() {
        let may_work = |status| {
            let record = Record {
                id: NodeId::new("a").expect("a name"),
                run: Run(1),
                incarnation: 1,
                status,
                address: "10.0.0.1:7117".parse().expect("an address"),
                api_address: None,
                tags: Tags::default(),
                timing: Settings::default().timing().expect("the default"),
                version: "0".into(),
                protocol: ProtocolRange::OURS,
            };
            Member::from_record(&record, None, SystemTime::UNIX_EPOCH, false).may_work()
        };
        assert!(may_work(Status::Up) && may_work(Status::Suspect));
        for status in [Status::Joining, Status::Leaving, Status::Down, Status::Left(LeaveReason::Graceful)] {
            assert!(!may_work(status), "{status}");
        }
    }
}
