//! Deadlines of knowledge: the times by which crashes, silences and cuts must be known to all nodes they concern.
//!
//! Such a time is promised if nothing else goes wrong meanwhile. So each operation on the world counts as an upheaval;
//! one that comes after a time of peace is *expected* to be known by its deadline, and judged then if no other upheaval
//! came since. Judgements are counted, so that a campaign can show that it made any.
//!
//! Must not know: how nodes find out.

use std::collections::BTreeMap;
use std::time::Duration;

use super::{Event, Nanos, World};
use crate::core::limits::{MAX_LINK_BACKOFF, MIN_PARTITION};
use crate::core::{ChangeKind, DetectionMethod, NodeId, Output, Run, StopReason};
use crate::sim::adversary::Attack;
use crate::sim::invariants::Invariant;
use crate::sim::node::PlannedDeath;
use crate::sim::random::nanos;
use crate::sim::upheaval::UpheavalContext;

/// Time without an upheaval after which all nodes have learnt all there is to learn.
const PEACE: Duration = Duration::from_secs(10);
/// Time after which links that broke for any reason have been tried again.
const LINKS_PEACE: Duration = Duration::from_secs(MAX_LINK_BACKOFF.as_secs() + 10);
/// "A crash is known within a second".
const CRASH_KNOWN: Duration = Duration::from_secs(1);
/// "Two seconds when most die at once".
const MASS_CRASH_KNOWN: Duration = Duration::from_secs(2);
/// Tolerance beyond the down timeout for a silence: the last packet may have been sent late, and the news travels.
const SILENCE_TOLERANCE: Duration = Duration::from_secs(1);
/// Share of a timeout, as a divisor, that is added for clocks that are slow by one percent at both ends.
const CLOCK_SHARE: u32 = 50;

/// Numbers of judged expectations.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Judged {
    /// Processes whose crash had to be known to all soon.
    pub crashes: usize,
    /// Crashed processes, of these, that had just joined.
    pub newborn: usize,
    /// Instants at which most nodes died.
    pub mass_crashes: usize,
    /// Hosts that lost their power.
    pub silences: usize,
    /// Cuts that both sides had to know completely.
    pub cuts: usize,
    /// Reports of cuts that had to be complete.
    pub reports: usize,
    /// Suspicions, each at one observer.
    pub suspicions: usize,
}

impl std::ops::AddAssign for Judged {
    fn add_assign(&mut self, other: Self) {
        self.crashes += other.crashes;
        self.newborn += other.newborn;
        self.mass_crashes += other.mass_crashes;
        self.silences += other.silences;
        self.cuts += other.cuts;
        self.reports += other.reports;
        self.suspicions += other.suspicions;
    }
}

#[derive(Debug, Default)]
pub(super) struct Expectations {
    upheavals: u64,
    last: Nanos,
    peace: Nanos,
    /// Time of the last upheaval that may break links; `None` if there was none.
    last_for_links: Option<Nanos>,
    links_peace: Nanos,
    deaths: Vec<Death>,
    cut: Option<CutWatch>,
    pub(super) judged: Judged,
}

#[derive(Debug, Clone)]
struct Death {
    node: usize,
    run: Run,
    at: Nanos,
    due: Nanos,
    upheavals: u64,
    kind: DeathKind,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum DeathKind {
    Crash,
    Newborn,
    Silence,
}

/// A cut whose reports are being collected.
#[derive(Debug)]
struct CutWatch {
    side: Vec<usize>,
    /// The nodes that ran when the cut began.
    there: Vec<usize>,
    upheavals: u64,
    at: Nanos,
    /// The last report of each node.
    reported: BTreeMap<usize, (Vec<NodeId>, Vec<NodeId>)>,
    /// Nodes that have reported a first death by silence, and were judged then.
    judged: Vec<usize>,
}

/// A judgement that is due.
#[derive(Debug, Clone, Copy)]
pub(super) enum Due {
    Deaths,
    Cut { upheavals: u64 },
}

impl Expectations {
    /// Takes note of an operation on the world.
    pub(super) fn upheaval(&mut self, now: Nanos, breaks_links: bool) {
        if now != self.last || self.upheavals == 0 {
            self.upheavals += 1;
            self.peace = now - self.last;
            self.links_peace = self.last_for_links.map_or(Nanos::MAX, |last| now - last);
            self.last = now;
        }
        if breaks_links {
            self.last_for_links = Some(now);
        }
    }
}

impl World {
    /// Returns the numbers of judged expectations so far, see [`WorldOptions::timely`](super::WorldOptions::timely).
    pub fn judged(&self) -> Judged {
        self.expectations.judged
    }

    pub(super) fn upheaval(&mut self, breaks_links: bool) {
        self.expectations.upheaval(self.now, breaks_links);
    }

    /// Returns the state of the world, after an upheaval was noted.
    fn began(&self) -> UpheavalContext {
        let Self { expectations, .. } = self;
        let is_well = |node: &super::Node| {
            node.troubles == 0 && node.running().is_none_or(|process| process.undisturbed_since.is_some())
        };
        UpheavalContext {
            upheavals: expectations.upheavals,
            peace: expectations.peace,
            links_peace: expectations.links_peace,
            is_calm: self.network.is_calm() && self.tcp == super::Tcp::Open && self.nodes.iter().all(is_well),
        }
    }

    /// Returns true if all nodes that observe each other have links by now.
    pub fn are_links_up(&self) -> bool {
        let peace = self.expectations.last_for_links.map_or(Nanos::MAX, |last| self.now - last);
        self.tcp == super::Tcp::Open && peace >= nanos(LINKS_PEACE)
    }

    /// Returns the time within which a silence of this node must be known.
    fn silence_bound(&self, node: usize) -> Duration {
        let down_timeout = self.nodes[node].settings.down_timeout;
        down_timeout + down_timeout / CLOCK_SHARE + SILENCE_TOLERANCE
    }

    /// Expects the death of a process, by a crash or with its host, to be known in time.
    pub(super) fn expect_death(&mut self, node: usize, is_silent: bool) {
        let Some(process) = self.nodes[node].process.as_ref() else { return };
        let (run, is_up) = (process.run, process.core.is_up());
        self.upheaval(false);
        if !self.options.timely || !is_up {
            return;
        }
        let began = self.began();
        let is_promised =
            began.is_calm && began.peace >= nanos(PEACE) && (is_silent || began.links_peace >= nanos(LINKS_PEACE));
        if is_promised {
            let kind = if is_silent { DeathKind::Silence } else { DeathKind::Crash };
            let bound = if is_silent { self.silence_bound(node) } else { CRASH_KNOWN };
            self.add_death(node, run, kind, bound);
        }
    }

    fn add_death(&mut self, node: usize, run: Run, kind: DeathKind, bound: Duration) {
        let (at, due, upheavals) = (self.now, self.now + nanos(bound), self.expectations.upheavals);
        self.expectations.deaths.push(Death { node, run, at, due, upheavals, kind });
        self.push_after(bound, Event::Expect(Due::Deaths));
    }

    /// Adds a node whose process dies this long after it became Up.
    pub fn add_doomed_node(&mut self, after: Duration) -> usize {
        self.upheaval(false);
        let began = self.began();
        let node = self.add_node();
        self.nodes[node].doomed = Some(PlannedDeath { after, began });
        node
    }

    /// Takes note that a node is Up or not.
    pub(super) fn note_up(&mut self, node: usize) {
        let now = self.now;
        let place = &mut self.nodes[node];
        let Some(process) = place.process.as_mut() else { return };
        if !process.core.is_up() {
            process.up_since = None;
        } else if process.up_since.is_none() {
            process.up_since = Some(now);
            let number = process.number;
            if let Some(doom) = place.doomed {
                self.push_after(doom.after, Event::Perish { node, process: number });
            }
        }
    }

    /// Kills a process that was to die soon after it became Up.
    pub(super) fn perish(&mut self, node: usize) {
        let Some(PlannedDeath { began, .. }) = self.nodes[node].doomed.take() else { return };
        let Some(run) = self.nodes[node].running().map(|process| process.run) else { return };
        let is_alone = self.expectations.upheavals == began.upheavals;
        let is_peace = began.peace >= nanos(PEACE) && began.links_peace >= nanos(LINKS_PEACE);
        self.crash(node);
        if self.options.timely && is_alone && began.is_calm && is_peace {
            self.add_death(node, run, DeathKind::Newborn, CRASH_KNOWN);
        }
    }

    /// Expects that a cut of some nodes from all others is known and reported in time.
    pub(super) fn expect_partition(&mut self, side: &[usize], lasting: Option<Duration>) {
        self.upheaval(true);
        if !self.options.timely {
            return;
        }
        // The name of an unreachable member can be taken over by the first node to ask for it.
        if self.attack() == Some(Attack::SecondOwner) {
            return;
        }
        let began = self.began();
        let bound = (0..self.nodes.len()).map(|node| self.silence_bound(node)).max().unwrap_or_default();
        let is_promised = began.is_calm && began.peace >= nanos(PEACE) && lasting.is_none_or(|lasting| lasting > bound);
        if !is_promised || self.divergence().is_some() {
            return;
        }
        let there = (0..self.nodes.len()).filter(|node| self.core(*node).is_some()).collect();
        let (side, at, upheavals) = (side.to_vec(), self.now, self.expectations.upheavals);
        let (reported, judged) = (BTreeMap::new(), Vec::new());
        self.expectations.cut = Some(CutWatch { side, there, upheavals, at, reported, judged });
        self.push_after(bound, Event::Expect(Due::Cut { upheavals }));
    }

    pub(super) fn is_due(&mut self, due: Due) {
        match due {
            Due::Deaths => self.judge_deaths(),
            Due::Cut { upheavals } => self.judge_cut(upheavals),
        }
    }

    fn judge_deaths(&mut self) {
        let now = self.now;
        let mut deaths = std::mem::take(&mut self.expectations.deaths);
        deaths.retain(|death| death.upheavals == self.expectations.upheavals);
        let (due, later): (Vec<Death>, Vec<Death>) = deaths.into_iter().partition(|death| death.due <= now);
        self.expectations.deaths = later;
        let Some(at) = due.first().map(|death| death.at) else { return };
        let left = (0..self.nodes.len()).filter(|node| self.core(*node).is_some()).count();
        let fast = due.iter().filter(|death| death.kind != DeathKind::Silence).count();
        if fast > left && now < at + nanos(MASS_CRASH_KNOWN) {
            let later = due.into_iter().map(|death| Death { due: at + nanos(MASS_CRASH_KNOWN), ..death });
            self.expectations.deaths.extend(later);
            return self.push(at + nanos(MASS_CRASH_KNOWN), Event::Expect(Due::Deaths));
        }
        self.expectations.judged.mass_crashes += usize::from(fast > left);
        for death in due {
            let judged = &mut self.expectations.judged;
            match death.kind {
                DeathKind::Silence => judged.silences += 1,
                DeathKind::Newborn => (judged.newborn, judged.crashes) = (judged.newborn + 1, judged.crashes + 1),
                DeathKind::Crash => judged.crashes += 1,
            }
            let late = self.who_lists(death.run, &self.nodes[death.node].id, death.at);
            if !late.is_empty() {
                let after = Duration::from_nanos(now - death.at);
                let Death { node, kind, .. } = death;
                let detail =
                    format!("{after:.1?} after the end ({kind:?}) of {} it is listed by {late:?}", self.id(node));
                self.report(Some(node), Invariant::DeathIsKnown, detail);
            }
        }
    }

    /// Returns the names of the nodes that have been Up since before then and list this run as live.
    fn who_lists(&self, run: Run, id: &NodeId, since: Nanos) -> Vec<String> {
        let lists = |node: &usize| {
            let process = self.nodes[*node].running()?;
            let held = process.core.record(id).filter(|held| held.run == run && held.status.is_live())?;
            let is_settled = process.up_since.is_some_and(|up| up < since);
            is_settled.then(|| format!("{} as {}", self.nodes[*node].id, held.status))
        };
        (0..self.nodes.len()).filter_map(|node| lists(&node)).collect()
    }

    fn judge_cut(&mut self, upheavals: u64) {
        if upheavals != self.expectations.upheavals {
            return;
        }
        let Some(watch) = self.expectations.cut.take_if(|watch| watch.upheavals == upheavals) else { return };
        self.expectations.judged.cuts += 1;
        let after = Duration::from_nanos(self.now - watch.at);
        for &node in &watch.there {
            let is_inside = watch.side.contains(&node);
            let Some(process) = self.nodes[node].running() else { continue };
            let across = watch.there.iter().filter(|other| watch.side.contains(other) != is_inside);
            let listed: Vec<String> = across
                .filter_map(|other| process.core.record(&self.nodes[*other].id).filter(|held| held.status.is_live()))
                .map(|held| format!("{} {}", held.id, held.status))
                .collect();
            if !listed.is_empty() {
                let detail = format!("{after:.1?} after the cut it still lists {}", listed.join(", "));
                return self.report(Some(node), Invariant::CutIsKnown, detail);
            }
        }
    }

    /// Takes note of a node's reports about a cut that is being watched.
    pub(super) fn compare_with_expectations(&mut self, node: usize, output: &Output) {
        let upheavals = self.expectations.upheavals;
        let Some(watch) = self.expectations.cut.as_mut().filter(|watch| watch.upheavals == upheavals) else { return };
        match output {
            Output::PartitionSuspected { unreachable, reachable } => {
                // Nodes that were gone before may still be named as missing.
                let there: Vec<&NodeId> = watch.there.iter().map(|there| &self.nodes[*there].id).collect();
                let honest = |ids: &[NodeId]| ids.iter().filter(|id| there.contains(id)).cloned().collect();
                watch.reported.insert(node, (honest(unreachable), honest(reachable)));
            }
            Output::Change(change)
                if matches!(
                    change.kind,
                    ChangeKind::DetectedDown(DetectionMethod::HeartbeatTimeout | DetectionMethod::NetworkPartition)
                ) && !watch.judged.contains(&node)
                    // Members invented by an adversary die for other reasons.
                    && watch.there.iter().any(|there| self.nodes[*there].id == change.record.id) =>
            {
                watch.judged.push(node);
                self.judge_report(node);
            }
            _ => {}
        }
    }

    /// Judges a node's report of a cut at its first report of a death by silence.
    fn judge_report(&mut self, node: usize) {
        let Some(watch) = &self.expectations.cut else { return };
        let is_inside = watch.side.contains(&node);
        let names = |is_near: bool| {
            let nodes = watch.there.iter().filter(|other| (watch.side.contains(other) == is_inside) == is_near);
            let mut names: Vec<NodeId> = nodes.map(|other| self.nodes[*other].id.clone()).collect();
            names.sort();
            names
        };
        let (far, near) = (names(false), names(true));
        // A member invented by an adversary counts as a member until it is found out.
        let lists = |core: &crate::core::Core| {
            core.records().filter(|(held, _)| held.status.is_live() && !self.is_honest(&held.id)).count()
        };
        let members = watch.there.len() + self.core(node).map_or(0, lists);
        // Fewer are no cut; and if timings differ, nodes with short timeouts are gone before those with long ones are
        // missed.
        if far.len() < MIN_PARTITION || far.len() * 3 < members || !self.has_one_pace() {
            return;
        }
        let reported = watch.reported.get(&node);
        self.expectations.judged.reports += 1;
        let is_whole = reported.is_some_and(|(unreachable, reachable)| *unreachable == far && *reachable == near);
        if !is_whole {
            let short = |ids: &[NodeId]| ids.iter().map(NodeId::as_str).collect::<Vec<_>>().join(" ");
            let told = reported.map_or_else(
                || "nothing".to_owned(),
                |(unreachable, reachable)| {
                    format!("{} unreachable ({}), {} reachable", unreachable.len(), short(unreachable), reachable.len())
                },
            );
            let detail =
                format!("first Down, and it reported {told}; cut off are {} of {}", far.len(), watch.there.len());
            self.report(Some(node), Invariant::CutIsReportedWhole, detail);
        }
    }

    /// Returns true if nothing was wrong with a node, or the network, since then.
    fn is_well_since(&self, node: usize, since: Nanos) -> bool {
        let is_calm = |at: Option<Nanos>| at.is_some_and(|at| at < since);
        let place = &self.nodes[node];
        let undisturbed = place.process.as_ref().and_then(|process| process.undisturbed_since);
        is_calm(self.network_calm_since) && is_calm(place.untroubled()) && is_calm(undisturbed)
    }

    /// Checks a report of a run as Down: it must not have said goodbye.
    pub(super) fn gone_missing(&mut self, node: usize, subject: usize, run: Run, id: &NodeId) {
        let Some(at) = self.goodbyes.get(&run).copied().filter(|_| self.options.timely) else { return };
        let was_well = self.nodes[subject].untroubled().is_some_and(|since| since < at);
        // A process that died before it had said goodbye did not leave.
        let has_left = !matches!(self.nodes[subject].ended, None | Some(StopReason::Removed));
        let peace = at.saturating_sub(nanos(PEACE));
        if was_well && has_left && self.is_well_since(node, peace) {
            let detail = format!("reports {id} as Down, which said goodbye at {:.1?}", Duration::from_nanos(at));
            self.report(Some(node), Invariant::LeaversHaveLeft, detail);
        }
    }

    /// Checks a report of a lost leader: a leader that loses itself must have a reason.
    pub(super) fn judge_loss(&mut self, node: usize, output: &Output) {
        let Output::LeaderLost { leader, term, reason } = output else { return };
        let place = &self.nodes[node];
        let was_asked = place.leave_asked || place.removal_asked;
        if !self.options.timely || *leader != place.id || was_asked {
            return;
        }
        let lease = self.options.lease.lease_duration;
        let since = self.now.saturating_sub(nanos(lease * 3 + PEACE));
        let well = (0..self.options.voters).filter(|voter| {
            let is_up =
                self.nodes[*voter].running().is_some_and(|process| process.up_since.is_some_and(|up| up < since));
            is_up && self.is_well_since(*voter, since)
        });
        if well.count() * 2 > self.options.voters && self.is_well_since(node, since) {
            let detail = format!("lost term {term} ({reason:?}), and nothing was wrong with it or most voters");
            self.report(Some(node), Invariant::HealthyLeaderStays, detail);
        }
    }

    fn has_one_pace(&self) -> bool {
        self.nodes.windows(2).all(|pair| pair[0].settings.timing() == pair[1].settings.timing())
    }
}
