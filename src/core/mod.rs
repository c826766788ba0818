//! The pure core: membership as a state machine without sockets, clocks, threads or global randomness.

mod change;
mod counters;
mod doors;
mod id;
pub mod limits;
mod record;
mod settings;
mod time;
pub mod wire;

pub use change::{Change, ChangeKind};
pub use counters::{Counters, Drop};
pub use doors::{Birth, Command, CommandError, Durable, Input, Notice, Output, Reply, StopReason, Ticket};
pub use id::{InvalidName, NodeId, Run, check_name};
pub use record::{DetectionMethod, InvalidTags, LeaveReason, ProtocolRange, Record, Status, Tags, is_reachable};
pub use settings::{OutOfRange, Profile, Settings, Timing};
pub use time::Time;

use std::sync::Arc;
use std::time::Duration;

/// One node's membership. (Under construction.)
#[derive(Debug)]
pub struct Core {}

impl Core {
    /// Starts a node.
    pub fn new(birth: Birth, now: Time) -> Self {
        let _ = (birth, now);
        Self {}
    }
    /// The way in.
    pub fn handle(&mut self, now: Time, input: Input<'_>) {
        let _ = (now, input);
    }
    /// The way out: to be drained until `None` after every [`Core::handle`] (and after [`Core::new`]).
    pub fn poll(&mut self) -> Option<Output> {
        None
    }
    /// When to hand in [`Input::Tick`] at the latest.
    pub fn next_deadline(&self) -> Option<Time> {
        None
    }
    /// This node's own record.
    pub fn me(&self) -> &Arc<Record> {
        unreachable!()
    }
    /// Order-independent sum of the hashes of all records in the view.
    pub fn fingerprint(&self) -> u64 {
        0
    }
    /// Local count of changes of the view.
    pub fn changes(&self) -> u64 {
        0
    }
    /// What was counted.
    pub fn counters(&self) -> &Counters {
        unreachable!()
    }
    /// Smoothed round trip time to a member, if it was ever measured.
    pub fn rtt(&self, id: &NodeId) -> Option<Duration> {
        let _ = id;
        None
    }
}
