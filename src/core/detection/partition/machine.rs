//! Members that fell silent together, as a machine: input are silences, deaths and returns, output are reports.
//!
//! Invariants:
//! - Reports alternate, but for repeated suspicions that grow; every one is followed by its end in the end.
//! - All that is silent is within one window of the latest silence; all that is missing was reported.
//! - Each transition costs O(log members), a report O(members).
//!
//! Must not know: records, views, timers of the core. Whoever drives it says how many members are live, and asks again
//! at its deadlines.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use crate::core::limits::MIN_PARTITION;
use crate::core::member::{NodeId, Run};
use crate::core::settings::Settings;
use crate::core::time::Time;

/// Members that fell silent lately, and what was reported about them.
#[derive(Debug)]
pub(in crate::core) struct Partition {
    pace: Pace,
    /// Suspect or Down by silence: last heard of within a window of the latest of them.
    silent: BTreeMap<Run, Silent>,
    by_time: BTreeSet<(Time, Run)>,
    /// How many of them are Down.
    down: usize,
    cut: Option<Cut>,
    /// When the accusations of one cut have gathered.
    gathered_at: Option<Time>,
    /// When the reported partition is over, unless more go missing.
    over_at: Option<Time>,
}

#[derive(Debug, Clone, Copy)]
struct Pace {
    /// Silences that began within this time of each other belong together.
    window: Duration,
    /// Accusations of one cut arrive within this time of each other.
    gathering: Duration,
    /// Views agree within this time after a cut has healed.
    agreement: Duration,
}

#[derive(Debug)]
struct Silent {
    id: NodeId,
    since: Time,
    is_down: bool,
}

/// A reported partition.
#[derive(Debug)]
struct Cut {
    far: Far,
    /// How many were live before.
    live: usize,
}

/// The far side of a partition.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Far {
    /// Reported as unreachable, and still Suspect or Down.
    missing: BTreeMap<Run, NodeId>,
    /// Reported as unreachable, and gone for good.
    lost: BTreeSet<NodeId>,
}

impl Far {
    /// Both sides, each in the order of names: unreachable, and those of the live ones that are not.
    pub(super) fn beside(&self, mut reachable: BTreeSet<NodeId>) -> (Vec<NodeId>, Vec<NodeId>) {
        // A name that was given up may have come back as somebody else.
        let mut unreachable: BTreeSet<NodeId> = self.lost.difference(&reachable).cloned().collect();
        unreachable.extend(self.missing.values().cloned());
        reachable.retain(|id| !unreachable.contains(id));
        (unreachable.into_iter().collect(), reachable.into_iter().collect())
    }
}

/// News for subscribers.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Report {
    /// It looks like a cut.
    Suspected(Far),
    /// It is over.
    Healed(Far),
}

impl Partition {
    pub(in crate::core) fn new(settings: &Settings) -> Self {
        let pace = Pace {
            window: settings.suspect_timeout,
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
        }
    }

    /// A member that was Up is accused of silence since then; so many others are `live`.
    pub(super) fn fell_silent(&mut self, now: Time, run: Run, id: NodeId, since: Time, live: usize) {
        if let Entry::Vacant(place) = self.silent.entry(run) {
            place.insert(Silent { id, since, is_down: false });
            self.by_time.insert((since, run));
            self.drop_old();
        }
        if self.gathered_at.is_none() && self.is_enough(live) {
            self.gathered_at = Some(now + self.pace.gathering);
        }
    }

    /// Silences that began long before the latest are another story.
    fn drop_old(&mut self) {
        while let (Some((first, old)), Some((last, _))) = (self.by_time.first().copied(), self.by_time.last().copied())
        {
            if last.since(first) <= self.pace.window {
                break;
            }
            self.remove(old);
        }
    }

    /// Before the first death all are named that are silent by then. What is said holds for stragglers, too; a member
    /// that was never seen as Suspect is listed later, since a view may learn of many such deaths at once.
    pub(super) fn is_due_before_death(&self, run: Run, was_suspect: bool) -> bool {
        let is_listed = self.cut.as_ref().is_some_and(|cut| cut.far.missing.contains_key(&run));
        let is_first = self.cut.is_none() || self.down == 0;
        self.gathered_at.is_some() && (is_first || (was_suspect && !is_listed))
    }

    /// A silent member is Down. Says whether it belongs to the partition that was reported, or is about to be.
    pub(super) fn died(&mut self, run: Run, live: usize) -> bool {
        let is_next = self.silent.contains_key(&run) && self.is_enough(live);
        let is_cut_off = self.cut.as_ref().is_some_and(|cut| cut.far.missing.contains_key(&run) || is_next);
        if let Some(silent) = self.silent.get_mut(&run).filter(|silent| !silent.is_down) {
            silent.is_down = true;
            self.down += 1;
        }
        is_cut_off
    }

    /// A member is back, or `is_gone` for good.
    pub(super) fn accounted_for(&mut self, now: Time, run: Run, is_gone: bool) {
        self.remove(run);
        let Some(cut) = &mut self.cut else { return };
        let Some(id) = cut.far.missing.remove(&run) else { return };
        if is_gone {
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

    /// The accusations have gathered: those that are silent now are reported, unless all of them were before.
    pub(super) fn gathered(&mut self, live: usize) -> Option<Report> {
        self.gathered_at = None;
        if !self.is_enough(live) {
            return None;
        }
        let live = live + self.down;
        let cut = self.cut.get_or_insert_with(|| Cut { far: Far::default(), live });
        let known = cut.far.missing.len();
        cut.far.missing.extend(self.silent.iter().map(|(run, silent)| (*run, silent.id.clone())));
        if cut.far.missing.len() == known {
            return None;
        }
        cut.live = cut.live.max(live);
        self.over_at = None;
        Some(Report::Suspected(cut.far.clone()))
    }

    /// The accusations have gathered at a node that is in no position to report them.
    pub(super) fn held_back(&mut self) -> Option<Report> {
        self.gathered_at = None;
        None
    }

    /// It is over, unless more have gone missing meanwhile.
    pub(super) fn over(&mut self) -> Option<Report> {
        self.over_at = None;
        let over = self.cut.take_if(|cut| !are_enough(cut.far.missing.len(), cut.live))?;
        Some(Report::Healed(over.far))
    }

    /// All members are forgotten. Gives back the far side of what was reported.
    pub(super) fn forget(&mut self) -> Option<Far> {
        self.silent.clear();
        self.by_time.clear();
        self.down = 0;
        (self.gathered_at, self.over_at) = (None, None);
        self.cut.take().map(|cut| cut.far)
    }

    /// When `gathered` and `over` are to be called.
    pub(super) fn deadlines(&self) -> (Option<Time>, Option<Time>) {
        (self.gathered_at, self.over_at)
    }

    /// Nobody is silent and nothing is reported.
    pub(super) fn is_idle(&self) -> bool {
        self.silent.is_empty() && self.cut.is_none()
    }

    /// A partition is reported, and this member is not on its far side.
    pub(super) fn is_on_this_side(&self, run: Run) -> bool {
        let is_far = |cut: &Cut| cut.far.missing.contains_key(&run) || self.silent.contains_key(&run);
        self.cut.as_ref().is_some_and(|cut| !is_far(cut))
    }

    /// Members of the reported partition that are still missing.
    pub(super) fn missing(&self) -> usize {
        self.cut.as_ref().map_or(0, |cut| cut.far.missing.len())
    }

    /// Those that are silent now are enough, of those that were live before.
    fn is_enough(&self, live: usize) -> bool {
        are_enough(self.silent.len(), live + self.down)
    }

    fn remove(&mut self, run: Run) {
        if let Some(silent) = self.silent.remove(&run) {
            self.by_time.remove(&(silent.since, run));
            self.down -= usize::from(silent.is_down);
        }
    }
}

/// So many of so many are a partition.
fn are_enough(silent: usize, live: usize) -> bool {
    silent >= MIN_PARTITION && silent * 3 >= live
}
