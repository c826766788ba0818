//! Partitions: many members silent at once, which looks like a cut, and the end of it.
//!
//! **Suspected.** When at least [`MIN_PARTITION`] members, and at least a third of those that were live before (oneself
//! included), fell silent within one `suspect_timeout` of each other, or two heartbeat intervals if that is longer, a
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
//! Invariants:
//! - Reports alternate, but for repeated suspicions that grow; every one is followed by its end in the end.
//! - All silent members fell silent within one window of the latest silence; all missing members were reported.
//! - There is one report in a gathering at most, but for the first of a partition, which comes before the first death.
//! - At most [`MAX_PARTITION_LOST`] names are kept of members that are gone for good.
//! - Each transition costs O(log members), a report O(members).
//!
//! Must not know: why a member fell silent, or how it came back.

#[cfg(test)]
mod tests;

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use crate::context::Context;
use crate::io::Output;
use crate::limits::{MAX_PARTITION_LOST, MIN_PARTITION};
use crate::member::{DetectionMethod, NodeId, Record, Run, Status};
use crate::settings::Settings;
use crate::time::Time;
use crate::timers::Timer;
use crate::view::{Slot, View};

/// The members that fell silent lately, and the report about them.
#[derive(Debug, Clone)]
pub(crate) struct Partition {
    pace: Pace,
    /// The members that are Suspect or Down by silence: last heard of within a window of the latest of them.
    silent: BTreeMap<Run, Silent>,
    by_time: BTreeSet<(Time, Run)>,
    /// The number of them that are Down.
    down: usize,
    cut: Option<Cut>,
    /// The time at which the accusations of one cut have gathered.
    gathered_at: Option<Time>,
    /// The time at which the reported partition is over, unless more members go missing.
    over_at: Option<Time>,
    /// The time until which the far side of the last partition may not have corrected itself yet.
    far_until: Option<Time>,
}

#[derive(Debug, Clone, Copy)]
struct Pace {
    /// The time within which silences begin that belong together.
    window: Duration,
    /// The time within which the accusations of one cut arrive.
    gathering: Duration,
    /// The time within which views agree after a cut has healed.
    agreement: Duration,
}

#[derive(Debug, Clone)]
struct Silent {
    id: NodeId,
    since: Time,
    is_down: bool,
}

/// A reported partition.
#[derive(Debug, Clone, Default)]
struct Cut {
    far: Far,
    /// The number of members that were live before.
    live: usize,
    /// True if one of its members came back: the cut may be healing, and news of its far side comes from anywhere.
    has_returns: bool,
}

/// The far side of a partition.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct Far {
    /// The members reported as unreachable, and still Suspect or Down.
    missing: BTreeMap<Run, NodeId>,
    /// The members reported as unreachable, and gone for good.
    lost: BTreeSet<NodeId>,
}

impl Far {
    /// Returns both sides, each in the order of names: the unreachable members, and those live ones that are not among
    /// them.
    fn beside(&self, mut reachable: BTreeSet<NodeId>) -> (Vec<NodeId>, Vec<NodeId>) {
        // A name that was given up may have come back under another run.
        let mut unreachable: BTreeSet<NodeId> = self.lost.difference(&reachable).cloned().collect();
        unreachable.extend(self.missing.values().cloned());
        reachable.retain(|id| !unreachable.contains(id));
        (unreachable.into_iter().collect(), reachable.into_iter().collect())
    }
}

/// A report for subscribers.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Report {
    /// The silence looks like a cut.
    Suspected(Far),
    /// The cut is over.
    Healed(Far),
}

/// Changes of records, deadlines, and reports.
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
        let is_silent = is_accused && method.is_some_and(DetectionMethod::is_silence);
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

/// The machine alone: members by their runs, and how many of them are live.
impl Partition {
    pub(crate) fn new(settings: &Settings) -> Self {
        let pace = Pace {
            window: settings.longest_quiet(),
            gathering: settings.heartbeat_interval,
            agreement: settings.retry_interval * 2 + Duration::from_secs(2),
        };
        Self {
            pace,
            silent: BTreeMap::new(),
            by_time: BTreeSet::new(),
            down: 0,
            cut: None,
            gathered_at: None,
            over_at: None,
            far_until: None,
        }
    }

    /// Notes that a member that was Up is accused of silence since then; `live` counts the live members, this node
    /// included.
    fn fell_silent(&mut self, now: Time, run: Run, id: NodeId, since: Time, live: usize) {
        if let Entry::Vacant(place) = self.silent.entry(run) {
            place.insert(Silent { id, since, is_down: false });
            self.by_time.insert((since, run));
            self.drop_old();
        }
        if self.gathered_at.is_none() && self.is_enough(live) {
            self.gathered_at = Some(now + self.pace.gathering);
        }
    }

    /// Forgets silences that began long before the latest one: they belong to another event.
    fn drop_old(&mut self) {
        while let (Some((first, old)), Some((last, _))) = (self.by_time.first().copied(), self.by_time.last().copied())
        {
            if last.since(first) <= self.pace.window {
                break;
            }
            self.remove(old);
        }
    }

    /// Returns true if a report is due before a death: the first one, which names all members that are silent by then.
    fn is_due_before_death(&self) -> bool {
        self.cut.is_none() && self.gathered_at.is_some()
    }

    /// Notes that a silent member is Down. Returns true if it belongs to the partition that was reported, or is about
    /// to be.
    fn died(&mut self, run: Run, live: usize) -> bool {
        let is_next = self.silent.contains_key(&run) && self.is_enough(live);
        let is_cut_off = self.cut.as_ref().is_some_and(|cut| cut.far.missing.contains_key(&run) || is_next);
        if let Some(silent) = self.silent.get_mut(&run).filter(|silent| !silent.is_down) {
            silent.is_down = true;
            self.down += 1;
        }
        is_cut_off
    }

    /// Notes that a member is back, or `is_gone` for good.
    fn accounted_for(&mut self, now: Time, run: Run, is_gone: bool) {
        let was_silent = self.remove(run);
        let Some(cut) = &mut self.cut else { return };
        let missing = cut.far.missing.remove(&run);
        cut.has_returns |= !is_gone && (was_silent || missing.is_some());
        let Some(id) = missing else { return };
        if is_gone && cut.far.lost.len() < MAX_PARTITION_LOST {
            cut.far.lost.insert(id);
        }
        let left = cut.far.missing.len();
        if left == 0 {
            self.over_at = Some(now);
        } else if !are_enough(left, cut.live) {
            let at = now + self.pace.agreement;
            self.over_at = Some(self.over_at.map_or(at, |before| before.min(at)));
        }
    }

    /// Reports the members that are silent now, and all that were reported before, since the accusations have gathered; unless
    /// they are too few, or all of them were reported before.
    fn gathered(&mut self, live: usize) -> Option<Report> {
        self.gathered_at = None;
        if !self.is_enough(live) {
            return None;
        }
        let live = live + self.down;
        let cut = self.cut.get_or_insert_default();
        let known = cut.far.missing.len();
        cut.far.missing.extend(self.silent.iter().map(|(run, silent)| (*run, silent.id.clone())));
        if cut.far.missing.len() == known {
            return None;
        }
        cut.live = cut.live.max(live);
        self.over_at = None;
        Some(Report::Suspected(cut.far.clone()))
    }

    /// Reports nothing, although the accusations have gathered: this node is in no position to report them.
    fn held_back(&mut self) -> Option<Report> {
        self.gathered_at = None;
        None
    }

    /// Ends the partition, unless more members have gone missing meanwhile.
    fn over(&mut self, now: Time) -> Option<Report> {
        self.over_at = None;
        let over = self.cut.take_if(|cut| !are_enough(cut.far.missing.len(), cut.live))?;
        self.far_until = Some(now + self.pace.window);
        Some(Report::Healed(over.far))
    }

    /// Forgets all members. Returns the far side of the reported partition.
    fn forget(&mut self) -> Option<Far> {
        self.silent.clear();
        self.by_time.clear();
        self.down = 0;
        (self.gathered_at, self.over_at) = (None, None);
        self.cut.take().map(|cut| cut.far)
    }

    /// Returns the times at which `gathered` and `over` are to be called.
    fn deadlines(&self) -> (Option<Time>, Option<Time>) {
        (self.gathered_at, self.over_at)
    }

    /// Returns true if nobody is silent and nothing is reported.
    fn is_idle(&self) -> bool {
        self.silent.is_empty() && self.cut.is_none()
    }

    /// Returns true if a partition is reported, this member is not on its far side, and what is told of it may come from
    /// there: the teller is on the far side itself, or not all of that is silent any more. Or if one ended a moment ago:
    /// those who are back may not have heard yet that this side lives.
    pub(crate) fn is_spoken_of_from_afar(&self, now: Time, run: Run, teller: Option<Run>) -> bool {
        let is_far = |cut: &Cut, run| cut.far.missing.contains_key(&run) || self.silent.contains_key(&run);
        let may_tell = |cut: &Cut| cut.has_returns || teller.is_none_or(|teller| is_far(cut, teller));
        let is_healed = self.far_until.is_some_and(|until| now < until) && !self.silent.contains_key(&run);
        is_healed || self.cut.as_ref().is_some_and(|cut| !is_far(cut, run) && may_tell(cut))
    }

    /// Returns the members of the reported partition that are still missing.
    pub(crate) fn missing(&self) -> impl Iterator<Item = &NodeId> {
        self.cut.iter().flat_map(|cut| cut.far.missing.values())
    }

    /// Returns true if the members that are silent now are enough, of those that were live before.
    fn is_enough(&self, live: usize) -> bool {
        are_enough(self.silent.len(), live + self.down)
    }

    /// Forgets a silence; returns true if there was one.
    fn remove(&mut self, run: Run) -> bool {
        let Some(silent) = self.silent.remove(&run) else { return false };
        self.by_time.remove(&(silent.since, run));
        self.down -= usize::from(silent.is_down);
        true
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

/// Returns true if this many silent members, of this many live ones, are a partition.
fn are_enough(silent: usize, live: usize) -> bool {
    silent >= MIN_PARTITION && silent * 3 >= live
}
