//! Kinds of operations, as a campaign counts those that it reached.
//!
//! Must not know: how operations are drawn, or carried out.

use std::time::Duration;

use super::Operation;
use crate::sim::network::{Conditions, CutTraffic};

/// The shortest pause that is counted as a long one: by then the others have forgotten whoever stood still.
const LONG_PAUSE: Duration = Duration::from_secs(60);

impl Operation {
    /// Returns the kind of an operation. What differs for the protocol is of another kind: a pause after which a node
    /// is forgotten, each traffic between pairs, and packets that come late or twice.
    pub fn kind(&self) -> &'static str {
        match self {
            Operation::Crash(_) => "crash",
            Operation::PowerOff(_) => "power off",
            Operation::ResetLinks(_) => "links reset",
            Operation::Firewall(..) => "firewall",
            Operation::Restart(..) => "restart",
            Operation::MassRestart(..) => "restart of many",
            Operation::MassCrash(_) => "crash of many",
            Operation::StaggeredRestart(..) => "staggered restart",
            Operation::Pause(_, lasting) if *lasting >= LONG_PAUSE => "long pause",
            Operation::Pause(..) => "pause",
            Operation::Slow(..) => "slow node",
            Operation::Partition(..) => "cut",
            Operation::OneWayCut(..) => "one-way cut",
            Operation::FlipFlop(..) => "flip-flop",
            Operation::Lossy(..) => "lossy node",
            Operation::SetConditions(Conditions { late: Some(_), .. }, _) => "late packets",
            Operation::SetConditions(Conditions { duplicate, .. }, _) if *duplicate > 0.0 => "duplicates",
            Operation::SetConditions(..) => "weather",
            Operation::Leave(_) => "departure",
            Operation::Remove { .. } => "removal",
            Operation::SetTags(..) => "tags",
            Operation::Contact(..) => "join command",
            Operation::Join => "newcomer",
            Operation::Voters(_) => "voters",
            Operation::StartAll(..) => "start of many",
            Operation::MassPowerOff(_) => "power off of many",
            Operation::MassLeave(_) => "departure of many",
            Operation::Pairs(_, CutTraffic::Everything, _) => "pairs",
            Operation::Pairs(_, CutTraffic::Datagrams, _) => "datagrams of pairs",
            Operation::Pairs(_, CutTraffic::Connections, _) => "connections of pairs",
            Operation::NoDatagrams(_) => "no datagrams",
            Operation::Deafen(..) => "deaf node",
            Operation::JoinAndDie(_) => "crash after joining",
            Operation::Inherit { named_alike: true, .. } => "name and address used again",
            Operation::Inherit { named_alike: false, .. } => "address used again",
            Operation::Twin(_) => "name shared",
            Operation::Talk(_) => "talk",
            Operation::Lease(_) => "lease",
        }
    }
}
