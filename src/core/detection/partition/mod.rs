//! Partitions: many members silent at once, which looks like a cut, and the end of it.
//!
//! **Suspected.** When at least [`MIN_PARTITION`] members, and at least a third of those that were live before (oneself
//! included), fell silent within one `suspect_timeout` of each other, a
//! [partition](crate::io::Output::PartitionSuspected) is reported: the members that are unreachable, and those
//! that are still here. The times that count are those at which they were last heard of, not those at which that was
//! found out, so that a node which wakes up to a list of old deaths reports nothing. The report waits until the
//! accusations have gathered (a heartbeat interval, or the first death), and is repeated, with the whole list, if more
//! join them, as soon as they have gathered. From then on the deaths of those members by silence are reported as
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
//! | the machine's inputs, and its reports as events | here |
//!
//! [`MIN_PARTITION`]: crate::limits::MIN_PARTITION
//! [`MAX_PARTITION_LOST`]: crate::limits::MAX_PARTITION_LOST
//!
//! Must not know: why a member fell silent, or how it came back.

mod machine;
#[cfg(test)]
mod tests;

use std::collections::BTreeSet;

use crate::context::Context;
use crate::io::Output;
use crate::member::{DetectionMethod, NodeId, Record, Run, Status};
use crate::timers::Timer;
use crate::view::{Slot, View};

pub(crate) use machine::Partition;
use machine::Report;

impl Partition {
    /// Notes that a member's record is about to become another one, found out by `method`. Returns the method to
    /// report.
    pub(crate) fn note_silence(
        &mut self,
        cx: &mut Context,
        view: &View,
        slot: Slot,
        record: &Record,
        method: Option<DetectionMethod>,
    ) -> Option<DetectionMethod> {
        let held = view.record(slot);
        let (run, before) = (held.run, held.status);
        let is_accused = run == record.run && record.status.is_accused();
        let is_silent =
            is_accused && matches!(method, Some(DetectionMethod::HeartbeatTimeout | DetectionMethod::NetworkPartition));
        if !is_silent {
            let is_gone = is_accused || matches!(record.status, Status::Left(_));
            self.account_for(cx, run, is_gone);
            return method;
        }
        if !cx.phase.is_up() {
            return method;
        }
        let live = living(view);
        if before == Status::Up {
            let (id, since) = (held.id.clone(), view.entry(slot).peer.last_sign());
            self.fell_silent(cx.now, run, id, since, live);
        }
        let mut is_cut_off = false;
        if record.status == Status::Down {
            if self.is_due_before_death() {
                let report = self.gathered(live);
                self.report(cx, view, report);
            }
            is_cut_off = self.died(run, live);
        }
        self.set_timers(cx);
        if is_cut_off { Some(DetectionMethod::NetworkPartition) } else { method }
    }

    /// Notes that a silent member is back, or `is_gone` for good.
    pub(crate) fn account_for(&mut self, cx: &mut Context, run: Run, is_gone: bool) {
        if self.is_idle() {
            return;
        }
        self.accounted_for(cx.now, run, is_gone);
        self.set_timers(cx);
    }

    /// Reports a partition, since the accusations have gathered.
    pub(crate) fn suspect(&mut self, cx: &mut Context, view: &View) {
        let live = living(view);
        let report = if cx.phase.is_up() { self.gathered(live) } else { self.held_back() };
        self.report(cx, view, report);
    }

    /// Ends a partition: the members that are still missing had long enough to come back.
    pub(crate) fn end(&mut self, cx: &mut Context, view: &View) {
        let report = self.over(cx.now);
        self.report(cx, view, report);
    }

    /// Ends a partition, since all members are being forgotten: that accounts for them.
    pub(crate) fn forget_everybody(&mut self, cx: &mut Context, view: &View) {
        if let Some(far) = self.forget() {
            let (unreachable, _) = far.beside(reachable(view));
            let reachable = vec![view.me().id.clone()];
            cx.output(Output::PartitionHealed { unreachable, reachable });
        }
        self.set_timers(cx);
    }

    fn report(&mut self, cx: &mut Context, view: &View, report: Option<Report>) {
        self.set_timers(cx);
        let Some(report) = report else { return };
        let (far, is_over) = match report {
            Report::Suspected(far) => (far, false),
            Report::Healed(far) => (far, true),
        };
        let (unreachable, reachable) = far.beside(reachable(view));
        cx.output(if is_over {
            Output::PartitionHealed { unreachable, reachable }
        } else {
            Output::PartitionSuspected { unreachable, reachable }
        });
    }

    fn set_timers(&mut self, cx: &mut Context) {
        let (gathered, over) = self.deadlines();
        for (timer, at) in [(Timer::Partition, gathered), (Timer::PartitionOver, over)] {
            match at {
                Some(at) => cx.timers.set(timer, at),
                None => cx.timers.cancel(timer),
            }
        }
    }
}

/// Returns the number of live members, this node included.
fn living(view: &View) -> usize {
    1 + view.live().len()
}

fn reachable(view: &View) -> BTreeSet<NodeId> {
    let live = [View::ME].into_iter().chain(view.live().iter().copied());
    live.map(|slot| view.record(slot).id.clone()).collect()
}
