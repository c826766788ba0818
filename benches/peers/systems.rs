//! The systems under comparison, each with its settings: how a cluster of one is formed, and what it is called.

use std::fmt;
use std::time::Duration;

use headcount::Profile;

use super::cluster::{Cluster, Conditions};
use super::{chitchat, foca, headcount as ours, swim};

/// A system with its settings.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum System {
    HeadcountLan,
    HeadcountFast,
    HeadcountDefault,
    HeadcountWan,
    FocaLan,
    FocaWan,
    Chitchat,
    Swim,
}

impl System {
    /// Creates a cluster in which all nodes know each other, a while after it was formed.
    ///
    /// # Panics
    /// Panics if it is not formed within ten minutes.
    pub(crate) fn form(self, nodes: usize, seed: u64, conditions: Conditions) -> Box<dyn Cluster> {
        let mut cluster: Box<dyn Cluster> = match self {
            System::HeadcountLan => Box::new(ours::Nodes::new(nodes, seed, conditions, Profile::Lan)),
            System::HeadcountFast => Box::new(ours::Nodes::new(nodes, seed, conditions, Profile::Fast)),
            System::HeadcountDefault => Box::new(ours::Nodes::new(nodes, seed, conditions, Profile::Default)),
            System::HeadcountWan => Box::new(ours::Nodes::new(nodes, seed, conditions, Profile::Wan)),
            System::FocaLan => Box::new(foca::cluster(nodes, seed, conditions, foca::Pace::Lan)),
            System::FocaWan => Box::new(foca::cluster(nodes, seed, conditions, foca::Pace::Wan)),
            System::Chitchat => Box::new(chitchat::Nodes::new(nodes, conditions)),
            System::Swim => Box::new(swim::cluster(nodes, seed, conditions)),
        };
        let deadline = Duration::from_secs(600);
        while !is_formed(cluster.as_ref(), nodes) {
            assert!(cluster.now() < deadline, "{self} has not formed a cluster of {nodes} within ten minutes");
            cluster.advance(Duration::from_secs(1));
        }
        cluster.advance(SETTLING);
        cluster.sightings();
        cluster
    }

    /// Returns the system to which its ratios refer.
    pub(crate) fn yardstick(self) -> System {
        match self {
            System::FocaWan | System::HeadcountWan => System::HeadcountWan,
            _ => System::HeadcountLan,
        }
    }

    /// Describes the settings.
    pub(crate) fn settings(self) -> &'static str {
        match self {
            System::HeadcountLan => "profile `lan`: heartbeat 2 s, Suspect 6 s, Down 10 s",
            System::HeadcountFast => "profile `fast`: a heartbeat every 320 ms in turn, Suspect 1.5 s, Down 4.2 s",
            System::HeadcountDefault => "profile `default`: heartbeat 5 s, Suspect 10 s, Down 15 s",
            System::HeadcountWan => "profile `wan`: heartbeat 10 s, Suspect 30 s, Down 60 s",
            System::FocaLan => "`Config::new_lan(N)`, identity of 8 bytes without a name",
            System::FocaWan => "`Config::new_wan(N)`, identity of 8 bytes without a name",
            System::Chitchat => "gossip every 1 s, `FailureDetectorConfig::default()`, protocol V1",
            System::Swim => "period 1 s, timeout 500 ms, k = 3, suspicion 5·lg N s, gossip 200 ms × 3",
        }
    }
}

/// Time for which a cluster is left alone after all nodes know each other.
const SETTLING: Duration = Duration::from_secs(30);

fn is_formed(cluster: &dyn Cluster, nodes: usize) -> bool {
    (0..nodes).all(|observer| (0..nodes).all(|subject| observer == subject || cluster.lists(observer, subject)))
}

impl fmt::Display for System {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            System::HeadcountLan => "headcount lan",
            System::HeadcountFast => "headcount fast",
            System::HeadcountDefault => "headcount default",
            System::HeadcountWan => "headcount wan",
            System::FocaLan => "foca new_lan",
            System::FocaWan => "foca new_wan",
            System::Chitchat => "chitchat 1 s",
            System::Swim => "plain SWIM",
        })
    }
}
