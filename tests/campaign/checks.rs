//! Watches a world for the checks: what each of them is told, and in which order.
//!
//! Must not know: what is promised.

use std::collections::BTreeMap;
use std::time::Duration;

use headcount_contender::Token;
use headcount_core::election::Alarm;
use headcount_core::{Change, ChangeKind, Command, CoreInit, Input, NodeId, Notice, Output, Run, StopReason};
use headcount_sim::network::Nanos;
use headcount_sim::watch::{LeaseEvent, SealEvent, Stuck, Upheaval, Watch};
use headcount_sim::{Clock, World, nanos};

use crate::expect::Expectations;
use crate::invariants::{Checker, Invariant, Observation, Standing};
use crate::plant::Planted;
use crate::seals::SealWatch;

/// The time between two looks at all nodes.
const COMPARE_EVERY: Duration = Duration::from_millis(250);
/// The largest number of datagrams of one node in that time, for each node there is; more are a storm.
const MAX_PACKETS_PER_NODE: u64 = 120;

/// All checks of a world.
#[derive(Debug)]
pub(crate) struct Checks {
    pub(crate) checker: Checker,
    pub(crate) expectations: Expectations,
    /// True if the checks include how soon things are known.
    pub(crate) is_timely: bool,
    pub(crate) planted: Option<Planted>,
    seals: SealWatch,
    places: Vec<Place>,
    /// The node of each run.
    runs: BTreeMap<Run, usize>,
    /// Runs that said goodbye, and when they were told to.
    pub(crate) goodbyes: BTreeMap<Run, Nanos>,
    before: Before,
    /// The time at which the first packet came from one of two clusters to the other.
    pub(crate) first_across: Option<Duration>,
}

/// What is known of a node beside its core.
#[derive(Debug, Default, Clone)]
pub(crate) struct Place {
    /// True if its user asked its process to leave.
    pub(crate) leave_asked: bool,
    /// True if a node was asked to remove it.
    pub(crate) removal_asked: bool,
    /// Number of datagrams that it had sent at the last comparison of views.
    packets_before: u64,
    /// Its core's count of changes at the last look at its view.
    seen_changes: u64,
}

/// State from before an input, to see the effects of the input.
#[derive(Debug, Default)]
struct Before {
    suspicions_raised: u64,
    /// The sender of the page that the input is, if it is one.
    sponsor: Option<Run>,
}

impl Checks {
    pub(crate) fn new(is_timely: bool, planted: Option<Planted>) -> Self {
        Self {
            checker: Checker::default(),
            expectations: Expectations::default(),
            is_timely,
            planted,
            seals: SealWatch::default(),
            places: Vec::new(),
            runs: BTreeMap::new(),
            goodbyes: BTreeMap::new(),
            before: Before::default(),
            first_across: None,
        }
    }

    pub(crate) fn place(&mut self, node: usize) -> &mut Place {
        if self.places.len() <= node {
            self.places.resize(node + 1, Place::default());
        }
        &mut self.places[node]
    }

    pub(crate) fn report(&mut self, world: &World, node: Option<usize>, invariant: Invariant, detail: String) {
        let id = node.map(|node| world.id(node));
        self.checker.report(nanos(world.now()), id, invariant, detail);
    }

    fn observe(&self, world: &World, node: usize) -> Option<Observation> {
        let mut observation = Observation::of(world.core(node)?);
        if let Some(planted) = &self.planted {
            planted.bug().observation(node, &mut observation);
        }
        Some(observation)
    }

    fn hurries(&self, node: usize) -> bool {
        self.planted.as_ref().is_some_and(|planted| planted.bug().hurries(node))
    }

    fn look_at_leadership(&mut self, world: &World, node: usize) {
        let Some(core) = world.core(node) else { return };
        let (mut told, standing) = (core.leadership(), Standing::of(core));
        if let Some(planted) = &self.planted {
            planted.bug().leadership(node, &mut told);
        }
        self.checker.look_at_leadership(nanos(world.now()), node, &told, &standing);
    }

    /// Catches a storm while it grows, before it fills the memory.
    fn check_storm(&mut self, world: &World, node: usize) {
        let since = world.sent(node).packets - self.place(node).packets_before;
        if since > MAX_PACKETS_PER_NODE * (world.nodes() + 10) as u64 && self.checker.violations().is_empty() {
            let detail = format!("{since} datagrams since the last comparison of views");
            self.report(world, Some(node), Invariant::TrafficIsBounded, detail);
        }
    }

    fn changed(&mut self, world: &World, node: usize, change: &Change) {
        self.expectations.judged.suspicions += usize::from(change.kind == ChangeKind::Suspected);
        if !matches!(change.kind, ChangeKind::Suspected | ChangeKind::DetectedDown(_)) {
            return;
        }
        let (run, id) = (change.record.run, &change.record.id);
        let Some(subject) = self.runs.get(&run).copied() else { return };
        if matches!(change.kind, ChangeKind::DetectedDown(_)) {
            self.gone_missing(world, node, subject, run, id);
        }
        if let Some(healthy_for) = world.healthy_for(subject, run) {
            self.accused(world, node, subject, id, healthy_for);
        }
    }

    /// Checks a report of a member as Suspect or Down that has been well for this long. A node that raises the
    /// suspicion is to blame even if it just woke from a pause; one that only believes it is to blame only if it was
    /// well itself, because old messages may have waited for it.
    fn accused(&mut self, world: &World, node: usize, subject: usize, id: &NodeId, healthy_for: Duration) {
        let (Some(core), Some(untroubled_since)) = (world.last_core(node), world.untroubled_since(node)) else {
            return;
        };
        // Of two live processes of one name, members hear the one that they hold, and the other one hears nobody.
        let is_rival = |other: usize| {
            let is_elsewhere = world.address(other) != world.address(node);
            world.id(other) == world.id(node) && is_elsewhere && world.last_core(other).is_some()
        };
        if shares_name(world, subject) || (shares_name(world, node) && (0..world.nodes()).any(is_rival)) {
            return;
        }
        // What a planted bug says comes of no input.
        let raised_before = if self.planted.is_some() { 0 } else { self.before.suspicions_raised };
        let has_raised = core.counters().suspicions_raised > raised_before;
        let well_since = if has_raised { Some(untroubled_since) } else { world.undisturbed_since(node) };
        let Some(well_since) = well_since.map(|since| since.max(untroubled_since)) else { return };
        let well_for = Duration::from_nanos(nanos(world.now()) - well_since);
        self.checker.accused(nanos(world.now()), node, id, healthy_for.min(well_for));
    }
}

/// Returns true if another node has the same name.
fn shares_name(world: &World, node: usize) -> bool {
    (0..world.nodes()).any(|other| other != node && world.id(other) == world.id(node))
}

impl Watch for Checks {
    fn has_seen_enough(&self) -> bool {
        !self.checker.violations().is_empty()
    }

    fn looks_every(&self) -> Option<Duration> {
        Some(COMPARE_EVERY)
    }

    fn on_look(&mut self, world: &World) {
        let now = nanos(world.now());
        let mut all = Vec::with_capacity(world.nodes());
        for node in 0..world.nodes() {
            if let (Some(observation), Some(core)) = (self.observe(world, node), world.core(node)) {
                self.checker.look(now, node, &observation, None);
                let (stretch, well_since) = (core.health_score() + 1, world.undisturbed_since(node));
                self.checker.look_at_suspects(now, node, &observation, stretch, well_since);
                all.push((node, observation));
            }
        }
        // The time since which nothing has been wrong with anybody.
        let calm_since = world.network_calm_since().and_then(|calm_since| {
            (0..world.nodes()).try_fold(calm_since, |latest, node| {
                let latest = latest.max(world.untroubled_since(node)?);
                if world.core(node).is_some() { Some(latest.max(world.undisturbed_since(node)?)) } else { Some(latest) }
            })
        });
        self.checker.compare(now, &all, calm_since);
        self.checker.write_late(now);
        self.look_at_sizes(world);
        for node in 0..world.nodes() {
            self.place(node).packets_before = world.sent(node).packets;
        }
    }

    fn on_birth(&mut self, world: &World, node: usize, init: &CoreInit, clock: Clock) {
        self.checker.born(nanos(world.now()), node, init, clock);
        self.runs.insert(init.run, node);
        self.seals.born(node);
        let packets_before = self.place(node).packets_before;
        *self.place(node) = Place { packets_before, ..Place::default() };
        self.before = Before::default();
    }

    fn on_end(&mut self, world: &World, node: usize, reason: Option<&StopReason>) {
        self.checker.gone(node);
        let Some(reason) = reason else { return };
        let asked = match reason {
            StopReason::Left => self.place(node).leave_asked,
            StopReason::Removed => self.place(node).removal_asked,
            // Of two nodes with one name, one has to go.
            StopReason::NameInUse { .. } => shares_name(world, node),
            // Refused, copied, set back.
            _ => false,
        };
        if !asked {
            self.report(world, Some(node), Invariant::NoUnaskedStop, format!("it stopped by itself: {reason}"));
        }
    }

    fn on_disk_lost(&mut self, world: &World, node: usize) {
        self.checker.disk_lost(node, world.id(node));
    }

    fn on_stored(&mut self, _: &World, node: usize, incarnation_bound: u64) {
        self.checker.stored(node, incarnation_bound);
    }

    fn on_command(&mut self, world: &World, node: usize, command: &Command) {
        match command {
            Command::Leave => {
                self.place(node).leave_asked = true;
                let run = world.core(node).map(|core| core.me().run);
                self.goodbyes.extend(run.map(|run| (run, nanos(world.now()))));
            }
            Command::Remove { id, .. } => {
                for place in (0..world.nodes()).filter(|place| world.id(*place) == id) {
                    self.place(place).removal_asked = true;
                }
            }
            Command::SetAddress { address, .. } => self.checker.given_address(node, *address),
            _ => {}
        }
    }

    fn on_input(&mut self, world: &World, node: usize, input: &Input<'_>) {
        let Some(core) = world.last_core(node) else { return };
        if let (Input::Packet { from, .. }, None, Some(second)) = (input, self.first_across, &world.options().second) {
            let is_of_second = |node: usize| second.nodes.contains(&node);
            let is_across = world.place_at(*from).is_some_and(|from| is_of_second(from) != is_of_second(node));
            self.first_across = is_across.then(|| world.now());
        }
        self.before = Before { suspicions_raised: core.counters().suspicions_raised, sponsor: None };
        match input {
            Input::Packet { bytes, .. } | Input::UnboundPacket { bytes, .. } if !self.checker.was_up(node) => {
                self.before.sponsor = self.checker.handed_to_joiner(node, bytes);
            }
            Input::Command(Command::SetTags { tags, .. }) => self.checker.given_tags(node, tags),
            Input::WorkEnded { term } if !self.hurries(node) => self.checker.work_ended(node, *term),
            _ => {}
        }
    }

    fn on_output(&mut self, world: &World, node: usize, output: &Output) {
        let now = nanos(world.now());
        self.checker.output(now, node, output);
        self.compare_with_expectations(world, node, output);
        match output {
            Output::Transmit { to, bytes, .. } => {
                let Some(receiver) = world.place_at(*to) else { return };
                if !self.checker.was_up(receiver) {
                    self.checker.sent_to_joiner(now, bytes, || listed_up(world, node));
                }
                self.check_storm(world, node);
            }
            Output::Change(change) => self.changed(world, node, change),
            Output::LeaderLost { .. } => self.judge_loss(world, node, output),
            Output::Notice(Notice::Election(Alarm::ElectorateEnded { .. })) => {
                let election = world.last_core(node).and_then(headcount_core::Core::election);
                if let Some(election) = election {
                    self.checker.electorate_ended(now, node, election.ballot());
                }
            }
            _ => {}
        }
    }

    fn after_step(&mut self, world: &World, node: usize, has_changed: bool) {
        let before = std::mem::take(&mut self.before);
        let Some(core) = world.core(node) else { return };
        if world.options().voters > 0 {
            self.look_at_leadership(world, node);
        }
        let changes = core.changes();
        let counted = std::mem::replace(&mut self.place(node).seen_changes, changes) != changes;
        // Besides, all views are looked at in regular comparisons.
        if (has_changed || counted || core.is_up() != self.checker.was_up(node))
            && let Some(observation) = self.observe(world, node)
        {
            self.checker.look(nanos(world.now()), node, &observation, before.sponsor);
        }
    }

    fn on_upheaval(&mut self, world: &World, upheaval: Upheaval<'_>) -> Option<Duration> {
        self.undergo(world, upheaval)
    }

    fn on_due(&mut self, world: &World) -> Option<Duration> {
        self.judge_cut(world);
        self.judge_deaths(world)
    }

    fn on_lease(&mut self, world: &World, node: usize, event: LeaseEvent<'_>) {
        let now = nanos(world.now());
        let hurries = matches!(event, LeaseEvent::WorkEnded(..)) && self.hurries(node);
        let finding = if hurries { None } else { self.checker.leases.judge(now, node, event) };
        self.checker.found(now, node, finding);
    }

    fn on_lost_grants(&mut self, _: &World, lost: &[(Token, bool)], is_replaced: bool) {
        self.checker.leases.loses(lost.iter().copied(), is_replaced);
    }

    fn on_seal(&mut self, world: &World, event: SealEvent<'_>) {
        if let Some((node, (invariant, detail))) = self.seals.judge(world, event) {
            self.report(world, node, invariant, detail);
        }
    }

    fn on_stuck(&mut self, world: &World, node: usize, stuck: &Stuck) {
        let (invariant, detail) = match stuck {
            Stuck::Outputs(count) => (Invariant::TrafficIsBounded, format!("{count} outputs and no end")),
            Stuck::Wakings(count) => (Invariant::TimePasses, format!("still wants to be woken after {count} ticks")),
        };
        self.report(world, Some(node), invariant, detail);
    }
}

/// Returns the names that a node's core lists as Up.
fn listed_up(world: &World, node: usize) -> Vec<NodeId> {
    let records = world.last_core(node).into_iter().flat_map(headcount_core::Core::records);
    records
        .filter(|(record, _)| record.status == headcount_core::Status::Up)
        .map(|(record, _)| record.id.clone())
        .collect()
}
