//! Many silent at once: saying that this looks like a cut, and when it is over.
//!
//! **Suspected.** When at least [`MIN_PARTITION`] members, and at least a third of those that were live before (oneself
//! included), fell silent within one `suspect_timeout` of each other, a [partition](crate::core::doors::Output::PartitionSuspected) is
//! reported: who is unreachable, and who is still here. What counts is when they were last heard of, not when that was
//! found out, so that a node which wakes up to a list of old deaths reports nothing. It waits until the accusations have
//! gathered (a heartbeat interval, or the first death), and says so again, with the whole list, if more join them. From then on the deaths of
//! those members by silence are reported as [`DetectionMethod::NetworkPartition`].
//!
//! **Healed.** It is over when all of them are accounted for: back, or gone for good (they left, were removed, or were
//! forgotten). It is also over when so few are missing that they would not be a partition, and stayed so few for as long
//! as views may take to agree: then the cut has healed, and who is still missing has died meanwhile. The report names as
//! unreachable those that did not come back.
//!
//! What it cannot know: hosts that lose power together look exactly like a cut; a process that dies on a host that lives
//! is told apart where connections prove it (`connection_lost` never counts). The smaller side may be too small to report
//! anything (of three nodes, one cut off sees two others silent and says so; the two see one member go); two nodes never
//! report a partition; and who joins during a cut has lost nobody.
//!
//! Invariants:
//! - Reports alternate, but for repeated suspicions that grow; every one is followed by its end in the end.
//! - Nothing here changes a record, a deadline or a view. Each transition costs O(log members), a report O(members).

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use crate::core::doors::Output;
use crate::core::limits::MIN_PARTITION;
use crate::core::member::{DetectionMethod, NodeId, Record, Run, Status};
use crate::core::time::Time;
use crate::core::timers::Timer;
use crate::core::view::{Slot, View};
use crate::core::{Core, Phase};

/// Who fell silent lately, and what was reported about it. Both tables hold members of the view only.
#[derive(Debug, Default)]
pub(in crate::core) struct Partition {
    /// Suspect or Down by silence: last heard of within a suspect timeout of the latest of them.
    silent: BTreeMap<Run, Silent>,
    by_time: BTreeSet<(Time, Run)>,
    /// How many of them are Down.
    down: usize,
    cut: Option<Cut>,
}

#[derive(Debug)]
struct Silent {
    since: Time,
    is_down: bool,
}

/// A reported partition.
#[derive(Debug)]
struct Cut {
    /// Reported as unreachable, and still Suspect or Down.
    missing: BTreeMap<Run, NodeId>,
    /// Reported as unreachable, and gone for good.
    lost: BTreeSet<NodeId>,
    /// How many were live before.
    live: usize,
}

impl Partition {
    fn remove(&mut self, run: Run) {
        if let Some(silent) = self.silent.remove(&run) {
            self.by_time.remove(&(silent.since, run));
            self.down -= usize::from(silent.is_down);
        }
    }

    /// Takes in a silent member; who was silent long before the latest is another story.
    fn add(&mut self, run: Run, since: Time, window: Duration) {
        if self.silent.contains_key(&run) {
            return;
        }
        self.silent.insert(run, Silent { since, is_down: false });
        self.by_time.insert((since, run));
        while let (Some((first, old)), Some((last, _))) = (self.by_time.first().copied(), self.by_time.last().copied())
        {
            if last.since(first) <= window {
                break;
            }
            self.remove(old);
        }
    }

    fn is_down(&mut self, run: Run) {
        if let Some(silent) = self.silent.get_mut(&run).filter(|silent| !silent.is_down) {
            silent.is_down = true;
            self.down += 1;
        }
    }

    /// Whether this many of that many are a partition.
    fn is_enough(silent: usize, live: usize) -> bool {
        silent >= MIN_PARTITION && silent * 3 >= live
    }

    /// Members of the reported partition that are still missing.
    pub(super) fn missing(&self) -> usize {
        self.cut.as_ref().map_or(0, |cut| cut.missing.len())
    }
}

impl Core {
    /// A member's record is about to become another one, found out by `method`. Gives back the method to report.
    pub(in crate::core) fn note_silence(
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
            if !self.partition.silent.is_empty() || self.partition.cut.is_some() {
                let id = held.id.clone();
                let is_gone = matches!(record.status, Status::Left(_));
                self.is_accounted_for(run, &id, is_gone || is_accused);
            }
            return method;
        }
        if !matches!(self.phase, Phase::Up) {
            return method;
        }
        if before == Status::Up {
            let since = self.view.entry(slot).peer.last_sign;
            self.partition.add(run, since, self.settings.suspect_timeout);
            self.gather();
        }
        if record.status != Status::Down {
            return method;
        }
        // Before the first death all are named that are silent by then. What is said holds for stragglers, too; who was never seen as Suspect is listed later, since
        // a view may learn of many such deaths at once.
        let is_listed = self.partition.cut.as_ref().is_some_and(|cut| cut.missing.contains_key(&run));
        let is_first = self.partition.cut.is_none() || self.partition.down == 0;
        let comes_first = is_first || before == Status::Suspect && !is_listed;
        if comes_first && self.timers.is_set(Timer::Partition) {
            self.suspect_partition();
        }
        let is_cut_off = self.is_cut_off(run);
        self.partition.is_down(run);
        if is_cut_off { Some(DetectionMethod::NetworkPartition) } else { method }
    }

    /// Whether a silent member belongs to the partition that was reported, or is about to be.
    fn is_cut_off(&self, run: Run) -> bool {
        let is_listed = |cut: &Cut| cut.missing.contains_key(&run);
        let is_next = || self.partition.silent.contains_key(&run) && self.is_partition();
        self.partition.cut.as_ref().is_some_and(|cut| is_listed(cut) || is_next())
    }

    /// Whether a partition is reported, and this member is not on its far side.
    pub(in crate::core) fn is_on_this_side(&self, run: Run) -> bool {
        let is_far = |cut: &Cut| cut.missing.contains_key(&run) || self.partition.silent.contains_key(&run);
        self.partition.cut.as_ref().is_some_and(|cut| !is_far(cut))
    }

    /// Whether those that are silent now are enough, of those that were live before.
    fn is_partition(&self) -> bool {
        let live = 1 + self.view.live().len() + self.partition.down;
        Partition::is_enough(self.partition.silent.len(), live)
    }

    /// Waits for the other accusations of the same cut.
    fn gather(&mut self) {
        if !self.is_partition() || self.timers.is_set(Timer::Partition) {
            return;
        }
        self.timers.set(Timer::Partition, self.now + self.settings.heartbeat_interval);
    }

    /// The accusations have gathered.
    pub(in crate::core) fn suspect_partition(&mut self) {
        self.timers.cancel(Timer::Partition);
        if !self.is_partition() || !matches!(self.phase, Phase::Up) {
            return;
        }
        let silent: Vec<Run> = self.partition.silent.keys().copied().collect();
        let names = silent.into_iter().filter_map(|run| {
            let slot = self.view.slot_of_run(run)?;
            Some((run, self.view.record(slot).id.clone()))
        });
        let names: BTreeMap<Run, NodeId> = names.collect();
        let live = 1 + self.view.live().len() + self.partition.down;
        let cut =
            self.partition.cut.get_or_insert_with(|| Cut { missing: BTreeMap::new(), lost: BTreeSet::new(), live });
        let known = cut.missing.len();
        cut.missing.extend(names);
        if cut.missing.len() == known {
            return;
        }
        cut.live = cut.live.max(live);
        self.timers.cancel(Timer::PartitionOver);
        let (unreachable, reachable) = self.sides();
        self.outputs.push_back(Output::PartitionSuspected { unreachable, reachable });
    }

    /// Members of the partition that are missing or gone, and live ones that are neither, this node included; each in
    /// the order of names.
    fn sides(&self) -> (Vec<NodeId>, Vec<NodeId>) {
        let live = [View::ME].into_iter().chain(self.view.live().iter().copied());
        let mut reachable: BTreeSet<NodeId> = live.map(|slot| self.view.record(slot).id.clone()).collect();
        let mut unreachable = BTreeSet::new();
        if let Some(cut) = &self.partition.cut {
            // A name that was given up may have come back as somebody else.
            unreachable.extend(cut.lost.difference(&reachable).cloned());
            unreachable.extend(cut.missing.values().cloned());
        }
        reachable.retain(|id| !unreachable.contains(id));
        (unreachable.into_iter().collect(), reachable.into_iter().collect())
    }

    /// A silent member is back, or `is_gone` for good.
    pub(in crate::core) fn is_accounted_for(&mut self, run: Run, id: &NodeId, is_gone: bool) {
        self.partition.remove(run);
        let Some(cut) = &mut self.partition.cut else { return };
        if cut.missing.remove(&run).is_none() {
            return;
        }
        if is_gone {
            cut.lost.insert(id.clone());
        }
        if cut.missing.is_empty() {
            self.timers.set(Timer::PartitionOver, self.now);
        } else if !Partition::is_enough(cut.missing.len(), cut.live) {
            let patience = self.settings.retry_interval * 2 + Duration::from_secs(2);
            self.timers.set_by(Timer::PartitionOver, self.now + patience);
        }
    }

    /// It is over, unless more have gone missing meanwhile.
    pub(in crate::core) fn partition_over(&mut self) {
        let is_over = self.partition.cut.as_ref().is_some_and(|cut| !Partition::is_enough(cut.missing.len(), cut.live));
        if is_over {
            let (unreachable, reachable) = self.sides();
            self.partition.cut = None;
            self.outputs.push_back(Output::PartitionHealed { unreachable, reachable });
        }
    }

    /// All members are being forgotten: that accounts for them.
    pub(in crate::core) fn forget_partition(&mut self) {
        if self.partition.cut.is_some() {
            let (unreachable, _) = self.sides();
            let reachable = vec![self.me().id.clone()];
            self.outputs.push_back(Output::PartitionHealed { unreachable, reachable });
        }
        self.partition = Partition::default();
    }

    /// How many members of a suspected partition are missing; 0 if none is suspected.
    pub fn unreachable(&self) -> usize {
        self.partition.missing()
    }
}
