//! The context: what every machine is lent beside its own state. It holds facts of this node and of the moment, and the two
//! ways by which anything comes of a step without a packet: a deadline, and an output.
//!
//! Invariant: outputs keep the order in which they came about.
//!
//! Must not know: the machines, or who waits for an output.

use std::collections::VecDeque;
use std::sync::Arc;

use crate::counters::Counters;
use crate::io::{LinkId, Notice, Output, Reply, Ticket};
use crate::limits::NOTICE_INTERVAL;
use crate::member::{Change, ChangeKind, DetectionMethod, Record, Run, Status};
use crate::recent::Recent;
use crate::settings::Settings;
use crate::time::Time;
use crate::timers::Timers;

/// The stages of a node's own life.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Phase {
    /// Looking for a cluster, or pulling its view.
    Joining,
    /// A member.
    Up,
    /// Leaving.
    Leaving,
    /// Stopped: nothing goes in or comes out any more.
    Stopped,
}

impl Phase {
    pub(crate) fn is_joining(self) -> bool {
        self == Phase::Joining
    }

    pub(crate) fn is_up(self) -> bool {
        self == Phase::Up
    }

    pub(crate) fn is_leaving(self) -> bool {
        self == Phase::Leaving
    }

    pub(crate) fn is_stopped(self) -> bool {
        self == Phase::Stopped
    }
}

/// The context that every machine is lent.
#[derive(Debug, Clone)]
pub(crate) struct Context {
    /// The latest time handed in.
    pub(crate) now: Time,
    /// The latest time at which the input at hand can have arrived: it may have waited while this process stood still, and must
    /// not seem fresher than it is to members that ask this node when it heard somebody.
    pub(crate) arrived: Time,
    pub(crate) run: Run,
    /// The hash of the cluster's name.
    pub(crate) cluster: u32,
    pub(crate) settings: Settings,
    /// This node's own stage.
    pub(crate) phase: Phase,
    pub(crate) timers: Timers,
    pub(crate) counters: Counters,
    outputs: VecDeque<Output>,
    /// The kinds of notices that were given lately.
    notices: Recent<&'static str>,
}

impl Context {
    /// Returns the context of a node that was not brought to life yet. `key` hides the order of its tables from others.
    pub(crate) fn new(now: Time, run: Run, cluster: u32, settings: Settings, key: u64) -> Self {
        Self {
            now,
            arrived: now,
            run,
            cluster,
            settings,
            phase: Phase::Stopped,
            timers: Timers::new(key),
            counters: Counters::default(),
            outputs: VecDeque::new(),
            notices: Recent::new(NOTICE_INTERVAL, usize::MAX),
        }
    }

    /// Returns true if the input at hand may have waited while this process stood still.
    pub(crate) fn may_be_delayed(&self) -> bool {
        self.arrived < self.now
    }

    /// Gives something to the driver.
    pub(crate) fn output(&mut self, output: Output) {
        self.outputs.push_back(output);
    }

    /// Sends a frame over a connection.
    pub(crate) fn send_frame(&mut self, link: LinkId, bytes: Vec<u8>) {
        self.counters.frames_sent += 1;
        self.counters.frame_bytes_sent += bytes.len() as u64;
        self.output(Output::SendFrame { link, bytes });
    }

    /// Takes out what comes next to the driver.
    pub(crate) fn next_output(&mut self) -> Option<Output> {
        self.outputs.pop_front()
    }

    /// Returns what was not taken out yet.
    pub(crate) fn outputs(&self) -> &VecDeque<Output> {
        &self.outputs
    }

    /// Reports one transition as the changes that fold to it.
    pub(crate) fn report(&mut self, held: Option<&Arc<Record>>, new: &Arc<Record>, method: Option<DetectionMethod>) {
        for change in Change::between(held, new, method) {
            self.output(Output::Change(change));
        }
    }

    /// Reports that a member is not listed any more.
    pub(crate) fn report_forgotten(&mut self, held: &Arc<Record>) {
        if held.status.is_live() {
            // A reader that counts live members by joined, left and down must not keep it among them.
            let down = Arc::new(held.with_status(Status::Down));
            self.report(Some(held), &down, Some(DetectionMethod::HeartbeatTimeout));
        }
        let (record, previous) = (Arc::clone(held), Some(Arc::clone(held)));
        self.output(Output::Change(Change { kind: ChangeKind::Removed, record, method: None, previous }));
    }

    /// Gives a notice, at most one of its kind in a while; returns true if it was given.
    pub(crate) fn notice(&mut self, kind: &'static str, notice: Notice) -> bool {
        let is_allowed = self.notices.take(self.now, kind);
        if is_allowed {
            self.output(Output::Notice(notice));
        }
        is_allowed
    }

    /// Answers a command.
    pub(crate) fn reply(&mut self, ticket: Ticket, reply: Reply) {
        self.output(Output::Reply { ticket, reply });
    }
}
