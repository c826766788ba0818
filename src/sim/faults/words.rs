//! Operations in words, one line each, as a replay prints them.

use std::fmt;

use super::{DiskFate, Operation};
use crate::sim::network::{Conditions, NodeLoss};

impl fmt::Display for DiskFate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            DiskFate::Kept => f.write_str("disk kept"),
            DiskFate::Lost => f.write_str("disk lost"),
            DiskFate::LostAndClockBack(by) => write!(f, "disk lost, clock {by:?} back"),
        }
    }
}

impl fmt::Display for Operation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Operation::Crash(node) => write!(f, "crash {node}"),
            Operation::PowerOff(node) => write!(f, "power off {node}"),
            Operation::ResetLinks(node) => write!(f, "reset the links of {node}"),
            Operation::Firewall(tcp, lasting) => write!(f, "TCP {tcp:?} for {lasting:.1?}"),
            Operation::Restart(node, disk) => write!(f, "restart {node} ({disk})"),
            Operation::MassRestart(nodes, disk) => write!(f, "restart all of {nodes:?} ({disk})"),
            Operation::MassCrash(nodes) => write!(f, "crash all of {nodes:?}"),
            Operation::StaggeredRestart(nodes, disk, within) => {
                write!(f, "restart all of {nodes:?} within {within:.1?} ({disk})")
            }
            Operation::Pause(node, lasting) => write!(f, "pause {node} for {lasting:.1?}"),
            Operation::Slow(node, by, lasting) => write!(f, "slow {node} by up to {by:.0?} for {lasting:.1?}"),
            Operation::Partition(side, lasting) => write!(f, "cut {side:?} off for {lasting:.1?}"),
            Operation::OneWayCut(from, to, lasting) => write!(f, "cut {from:?} -> {to:?} for {lasting:.1?}"),
            Operation::FlipFlop(deaf, period, lasting) => {
                write!(f, "deafen {deaf:?} every other {period:.1?} for {lasting:.1?}")
            }
            Operation::Lossy(node, NodeLoss { outgoing, incoming }, lasting) => {
                write!(f, "lose {outgoing:.2} from and {incoming:.2} to {node} for {lasting:.1?}")
            }
            Operation::SetConditions(conditions, lasting) => {
                let Conditions { latency, loss, burst, duplicate, corrupt, late } = conditions;
                write!(f, "network for {lasting:.1?}: latency {:?}+{:?}", latency.base, latency.jitter)?;
                write!(f, " loss {loss:.2} burst {} dup {duplicate:.2} corrupt {corrupt:.2}", burst.is_some())?;
                late.map_or(Ok(()), |late| write!(f, " late {:.3} by up to {:.0?}", late.chance, late.most))
            }
            Operation::Leave(node) => write!(f, "leave {node}"),
            Operation::Remove { by, node, force } => write!(f, "remove {node} by {by}, force {force}"),
            Operation::SetTags(node, value) => write!(f, "tags of {node} = {value}"),
            Operation::Contact(node, other) => write!(f, "{node} is told to join {other}"),
            Operation::Join => write!(f, "join"),
            Operation::Voters(fault) => fault.fmt(f),
            Operation::StartAll(nodes, disk, within) => {
                write!(f, "start all of {nodes:?} within {within:.1?} ({disk})")
            }
            Operation::MassPowerOff(nodes) => write!(f, "power off {nodes:?}"),
            Operation::MassLeave(nodes) => write!(f, "leave: {nodes:?}"),
            Operation::Pairs(pairs, stops, lasting) => write!(f, "stop {stops:?} of pairs {pairs:?} for {lasting:.1?}"),
            Operation::NoDatagrams(lasting) => write!(f, "no datagrams anywhere for {lasting:.1?}"),
            Operation::Deafen(node, lasting) => write!(f, "deafen {node} for {lasting:.1?}"),
            Operation::JoinAndDie(after) => write!(f, "join, and die {after:.0?} later"),
            Operation::Inherit { of, named_alike } => write!(f, "join at the address of {of}, same name {named_alike}"),
            Operation::Talk(talk) => talk.fmt(f),
            Operation::Lease(fault) => fault.fmt(f),
            Operation::Twin(of) => write!(f, "join under the name of {of}"),
        }
    }
}
