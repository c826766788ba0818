//! Partitions: many members silent at once, which looks like a cut, and the end of it.
//!
//! **Suspected.** When at least [`MIN_PARTITION`] members, and at least a third of those that were live before (oneself
//! included), fell silent within one `suspect_timeout` of each other, a
//! [partition](crate::doors::Output::PartitionSuspected) is reported: the members that are unreachable, and those
//! that are still here. The times that count are those at which they were last heard of, not those at which that was
//! found out, so that a node which wakes up to a list of old deaths reports nothing. The report waits until the
//! accusations have gathered (a heartbeat interval, or the first death), and is repeated, with the whole list, if more
//! join them. Since a report lists both sides, those that follow it keep a pause ([`PARTITION_PAUSE_PER_NAME`]): what
//! joins a partition of thousands meanwhile is told together at its end, or before the first death. From then on the
//! deaths of those members by silence are reported as
//! [`DetectionMethod::NetworkPartition`].
//!
//! **Healed.** It is over when all of them are accounted for: back, or gone for good (they left, were removed, or were
//! forgotten). It is also over when so few are missing that they would not be a partition, and stayed so few for as
//! long as views may take to agree: then the cut has healed, and the members that are still missing have died
//! meanwhile. The report names as unreachable those that did not come back ([`MAX_PARTITION_LOST`] of those that are
//! gone for good).
//!
//! It cannot know everything: hosts that lose power together look exactly like a cut; a process that dies on a host
//! that lives is told apart where connections prove it (`connection_lost` never counts). The smaller side may be too
//! small to report anything (of three nodes, one that is cut off sees two others silent and says so; the two see one
//! member go); two nodes never report a partition; and a node that joins during a cut has lost nobody.
//!
//! | idea | file |
//! |---|---|
//! | the silent members, the reports, the end: a machine of its own | `machine` |
//! | the machine's inputs from the core, and its reports as events | here |
//!
//! [`MIN_PARTITION`]: crate::limits::MIN_PARTITION
//! [`PARTITION_PAUSE_PER_NAME`]: crate::limits::PARTITION_PAUSE_PER_NAME
//! [`MAX_PARTITION_LOST`]: crate::limits::MAX_PARTITION_LOST
//!
//! Must not know: why a member fell silent, or how it came back.

mod machine;
#[cfg(test)]
mod tests;

use std::collections::BTreeSet;

use crate::Core;
use crate::doors::Output;
use crate::member::{DetectionMethod, NodeId, Record, Run, Status};
use crate::timers::Timer;
use crate::view::{Slot, View};

pub(crate) use machine::Partition;
use machine::Report;

impl Core {
    /// Notes that a member's record is about to become another one, found out by `method`. Returns the method to
    /// report.
    pub(crate) fn note_silence(
        &mut self,
        slot: Slot,
        record: &Record,
        method: Option<DetectionMethod>,
    ) -> Option<DetectionMethod> {
        let held = self.view.record(slot);
        let (run, before) = (held.run, held.status);
        let is_accused = run == record.run && matches!(record.status, Status::Suspect | Status::Down);
        let is_silent =
            is_accused && matches!(method, Some(DetectionMethod::HeartbeatTimeout | DetectionMethod::NetworkPartition));
        if !is_silent {
            let is_gone = is_accused || matches!(record.status, Status::Left(_));
            self.account_for(run, is_gone);
            return method;
        }
        if !self.cx.phase.is_up() {
            return method;
        }
        let live = self.living();
        if before == Status::Up {
            let (id, since) = (held.id.clone(), self.view.entry(slot).peer.last_sign());
            self.partition.fell_silent(self.cx.now, run, id, since, live);
        }
        let mut is_cut_off = false;
        if record.status == Status::Down {
            if self.partition.is_due_before_death(self.cx.now, run, before == Status::Suspect) {
                let report = self.partition.gathered_before_death(self.cx.now, live);
                self.tell_of_partition(report);
            }
            is_cut_off = self.partition.died(run, live);
        }
        self.set_partition_timers();
        if is_cut_off { Some(DetectionMethod::NetworkPartition) } else { method }
    }

    /// Notes that a silent member is back, or `is_gone` for good.
    pub(crate) fn account_for(&mut self, run: Run, is_gone: bool) {
        if self.partition.is_idle() {
            return;
        }
        self.partition.accounted_for(self.cx.now, run, is_gone);
        self.set_partition_timers();
    }

    /// Reports a partition, since the accusations have gathered.
    pub(crate) fn suspect_partition(&mut self) {
        let live = self.living();
        let report =
            if self.cx.phase.is_up() { self.partition.gathered(self.cx.now, live) } else { self.partition.held_back() };
        self.tell_of_partition(report);
    }

    /// Ends a partition: the members that are still missing had long enough to come back.
    pub(crate) fn partition_over(&mut self) {
        let report = self.partition.over(self.cx.now);
        self.tell_of_partition(report);
    }

    /// Ends a partition, since all members are being forgotten: that accounts for them.
    pub(crate) fn forget_partition(&mut self) {
        if let Some(far) = self.partition.forget() {
            let (unreachable, _) = far.beside(self.reachable());
            let reachable = vec![self.me().id.clone()];
            self.cx.output(Output::PartitionHealed { unreachable, reachable });
        }
        self.set_partition_timers();
    }

    /// Returns true if a partition is reported, or over since a moment, this member is on this side of it, and what is told of
    /// it may come from the far side.
    pub(crate) fn is_spoken_of_from_afar(&self, run: Run, teller: Option<Slot>) -> bool {
        let teller = teller.map(|slot| self.view.record(slot).run);
        self.partition.is_spoken_of_from_afar(self.cx.now, run, teller)
    }

    /// Returns the number of members of a suspected partition that are missing; 0 if none is suspected.
    pub fn unreachable(&self) -> usize {
        self.partition.missing()
    }

    fn tell_of_partition(&mut self, report: Option<Report>) {
        self.set_partition_timers();
        let Some(report) = report else { return };
        let (far, is_over) = match report {
            Report::Suspected(far) => (far, false),
            Report::Healed(far) => (far, true),
        };
        let (unreachable, reachable) = far.beside(self.reachable());
        self.cx.output(if is_over {
            Output::PartitionHealed { unreachable, reachable }
        } else {
            Output::PartitionSuspected { unreachable, reachable }
        });
    }

    fn set_partition_timers(&mut self) {
        let (gathered, over) = self.partition.deadlines();
        for (timer, at) in [(Timer::Partition, gathered), (Timer::PartitionOver, over)] {
            match at {
                Some(at) => self.cx.timers.set(timer, at),
                None => self.cx.timers.cancel(timer),
            }
        }
    }

    /// Returns the number of live members, this node included.
    fn living(&self) -> usize {
        1 + self.view.live().len()
    }

    fn reachable(&self) -> BTreeSet<NodeId> {
        let live = [View::ME].into_iter().chain(self.view.live().iter().copied());
        live.map(|slot| self.view.record(slot).id.clone()).collect()
    }
}
