//! The task: owns the contender, feeds it with time, answers and words, and carries out what it wants.
//!
//! The words that come from others and go to them, and the lines for the operator, are in `talk`.
//!
//! Invariants:
//! - After every input the contender's outputs are carried out, and the clock is read once for each.
//! - A round is handed to the worker in the moment in which it begins; one is under way at a time.
//! - `AwaitWork` is always answered: when the last piece of led work of that lease is gone.
//! - What the contender tells others goes to gossip at once; what others tell goes to the contender, if their word counts.
//!
//! Must not know: what a lease is worth, how a database is asked.

mod talk;

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::sync::{Arc, PoisonError};
use std::time::{Duration, SystemTime};

use tokio::sync::{mpsc, oneshot, watch};
use tokio::time::Instant;
use tracing::Level;

use super::store_worker::{Brought, StoreRequest, StoreWorker};
use super::terms::Terms;
use super::waiting::Waiting;
use crate::agent::clock::Clock;
use crate::agent::leadership::{Leadership, LeaseInstant};
use crate::agent::lease_state::{Ask, LeaseNodes, LeaseNodesError, Leases, Receivers};
use crate::agent::request::Request;
use crate::agent::shared::Shared;
use crate::core::wire::LeaseUpdate;
use crate::core::{NodeId, Status, Time};
use crate::event::EventKind;
use crate::lease::store::StoreError;
use crate::lease::{Answer, Claim, Contender, ContenderTiming, LeaseName, Output, Round, Step, StepRequest};
use talk::{Told, awaited};

/// The longest sleep before the clock is looked at again: timers stand still while the machine is suspended.
const MAX_NAP: Duration = Duration::from_secs(1);
/// The number of tries of a node that leaves to release what it holds, where the database does not answer.
const MAX_FAREWELLS: u32 = 2;
/// Led work that ends sooner than this after its leadership is not reported as awaited.
const WORK_ENDS_WITHIN: Duration = Duration::from_secs(1);
/// The shortest time between two sweeps of the node that leads.
const MIN_SWEEP_INTERVAL: Duration = Duration::from_secs(1);

/// The parts that the task is made of.
pub(super) struct Parts {
    pub(super) contender: Contender,
    pub(super) clock: Clock,
    pub(super) shared: Arc<Shared>,
    pub(super) leases: Arc<Leases>,
    pub(super) receivers: Receivers,
    pub(super) worker: StoreWorker,
    /// Weak: an agent does not live for its leases.
    pub(super) driver: mpsc::WeakSender<Request>,
    pub(super) terms: Terms,
    pub(super) node: NodeId,
    /// The address that this node's row says; `None`: the one that it advertises.
    pub(super) rpc_address: Option<SocketAddr>,
    pub(super) timing: ContenderTiming,
}

/// The task's state.
pub(super) struct Task {
    parts: Parts,
    /// The round under way, and when it began.
    flight: Option<(Round, Time)>,
    waiting: Waiting,
    /// This node's own status: who is no member yet leads nothing.
    status: watch::Receiver<Status>,
    is_member: bool,
    /// The time at which old rows are looked for next, if this node leads then.
    sweep_at: Instant,
    /// The kinds of trouble that operators were told of, with the times; bounded by the number of kinds.
    told: Vec<(Told, Instant)>,
    /// The tries to take a lease in vain that were told, by reason: the term of the node that was faster.
    lost_races: BTreeMap<(LeaseName, &'static str), u64>,
    /// Leases whose led work is to end, and has not yet.
    ending: usize,
    /// Leases that nobody wants any more, and of which something may still be held.
    going: BTreeSet<LeaseName>,
    /// Answered when nothing is held any more.
    stopping: Vec<oneshot::Sender<()>>,
    /// Rounds that failed since then.
    failed_farewells: u32,
    is_over: bool,
    /// An operator wants this node to lead nothing.
    is_draining: bool,
}

impl Task {
    pub(super) fn new(parts: Parts) -> Self {
        let mut task = Self {
            status: parts.shared.status(),
            flight: None,
            waiting: Waiting::default(),
            is_member: false,
            sweep_at: Instant::now() + sweep_interval(&parts.timing),
            told: Vec::new(),
            lost_races: BTreeMap::new(),
            ending: 0,
            going: BTreeSet::new(),
            stopping: Vec::new(),
            failed_farewells: 0,
            is_over: false,
            is_draining: false,
            parts,
        };
        let now = task.parts.clock.now();
        task.parts.contender.set_draining(now, true);
        for (lease, term) in task.parts.terms.known.clone() {
            task.keep_term(&lease, term);
        }
        task.carry_out();
        task
    }

    /// Runs until all leases are given up, or until the runtime ends.
    pub(super) async fn run(mut self) {
        loop {
            self.turn();
            if self.is_over {
                break;
            }
            let deadline = [self.parts.contender.next_deadline(), self.waiting.deadline()].into_iter().flatten().min();
            let Parts { receivers, worker, clock, .. } = &mut self.parts;
            tokio::select! {
                brought = worker.brought() => match brought {
                    Some(brought) => self.brought(brought),
                    None => break,
                },
                ask = receivers.asks.recv() => match ask {
                    Some(ask) => self.ask(ask),
                    None => break,
                },
                Some(heard) = receivers.words.recv() => self.hear(&heard),
                changed = self.status.changed(), if !self.is_member => {
                    if changed.is_err() {
                        break;
                    }
                    self.look_at_status();
                }
                () = due(*clock, deadline) => {}
            }
        }
        for answer in self.stopping.drain(..) {
            let _ = answer.send(());
        }
    }

    /// Lets time pass, and begins what is due.
    fn turn(&mut self) {
        let now = self.parts.clock.now();
        self.parts.contender.tick(now);
        self.carry_out();
        self.close_publishers(now);
        if self.flight.is_none()
            && let Some(mut round) = self.parts.contender.begin(now)
        {
            round.rpc_address = self.rpc_address();
            self.carry_out();
            self.flight = Some((round.clone(), now));
            // There is room: nothing else is under way.
            self.is_over |= !self.parts.worker.carry(round);
        }
        if !self.waiting.is_empty() {
            let claims = self.claims();
            self.waiting.look(now, &claims);
        }
        self.sweep();
    }

    /// Returns the address for this node's row.
    fn rpc_address(&self) -> Option<SocketAddr> {
        let me = || self.parts.shared.directory().member(&self.parts.node);
        self.parts.rpc_address.or_else(|| me().map(|me| me.address))
    }

    /// Has old rows deleted from time to time, by whoever leads.
    fn sweep(&mut self) {
        let now = Instant::now();
        if now < self.sweep_at || !self.parts.contender.claims().any(|claim| claim.is_me) {
            return;
        }
        self.sweep_at = now + sweep_interval(&self.parts.timing);
        // If there is no room, the next one does.
        let _ = self.parts.worker.run(StoreRequest::Sweep { row_ttl: self.parts.timing.row_ttl });
    }

    fn claims(&self) -> Vec<Claim> {
        self.parts.contender.claims().cloned().collect()
    }

    fn claim(&self, lease: &LeaseName) -> Option<&Claim> {
        self.parts.contender.claims().find(|claim| claim.lease == *lease)
    }

    pub(super) fn is_leader(&self, lease: &LeaseName, node: &NodeId) -> bool {
        self.claim(lease).is_some_and(|claim| claim.leader.as_ref() == Some(node))
    }

    fn look_at_status(&mut self) {
        let status = *self.status.borrow_and_update();
        if status.is_here() {
            // Words that came while this node joined are heard first.
            while let Ok(heard) = self.parts.receivers.words.try_recv() {
                self.hear(&heard);
            }
            self.is_member = true;
            let now = self.parts.clock.now();
            if !self.parts.shared.has_begun_alone() {
                self.parts.contender.arrive(now);
            }
            self.parts.contender.set_draining(now, self.is_draining);
            for claim in self.claims() {
                self.parts.contender.hurry(now, &claim.lease, now);
            }
            self.carry_out();
        }
    }

    fn brought(&mut self, brought: Brought) {
        match brought {
            Brought::Round(answer) => self.answered(answer),
            Brought::Swept(Ok(count)) => self.counted().swept += count as u64,
            Brought::Swept(Err(error)) => self.tell_error(&error),
        }
    }

    fn answered(&mut self, answer: Result<Answer, StoreError>) {
        let now = self.parts.clock.now();
        let Some((round, sent)) = self.flight.take() else { return };
        self.counted().round(&round, answer.as_ref(), now.since(sent));
        match answer {
            Ok(answer) => {
                self.parts.contender.answered(now, &answer);
                self.carry_out();
                self.tell_lost_race(&round, &answer);
                self.correct(&round, &answer);
                self.compare_leases(&answer);
                self.forget_the_gone(now);
                let claims = self.claims();
                for lease in self.waiting.answered(sent, &claims) {
                    self.parts.contender.hurry(now, &lease, now);
                }
            }
            Err(error) => {
                self.tell_error(&error);
                self.parts.contender.failed(now, error.is_outcome_known());
                if !self.stopping.is_empty() && self.ending == 0 {
                    // A lease that cannot be released runs out.
                    self.failed_farewells += 1;
                    self.is_over |= self.failed_farewells >= MAX_FAREWELLS || error.needs_people();
                }
            }
        }
        self.carry_out();
    }

    fn ask(&mut self, ask: Ask) {
        let now = self.parts.clock.now();
        match ask {
            Ask::Handles(lease) => self.look_at_handles(now, lease),
            Ask::Resign(lease) => self.parts.contender.resign(now, &lease),
            Ask::Confirm(lease, answer) => {
                let claim = self.claim(&lease).cloned();
                if self.waiting.ask(now, lease.clone(), claim.as_ref(), answer) {
                    self.parts.contender.hurry(now, &lease, now);
                }
            }
            Ask::Nodes(lease, answer) => self.list_nodes(lease, answer),
            Ask::Drain(is_draining) => {
                self.is_draining = is_draining;
                if self.is_member {
                    self.parts.contender.set_draining(now, is_draining);
                }
            }
            Ask::Stop(answer) => {
                self.stopping.push(answer);
                self.parts.contender.stop(now);
            }
            Ask::WorkEnded(lease, term) => {
                self.ending = self.ending.saturating_sub(1);
                self.parts.contender.work_ended(now, &lease, term);
            }
        }
        self.carry_out();
    }

    /// Begins to contend for a lease that is wanted, or ends it.
    fn look_at_handles(&mut self, now: Time, lease: LeaseName) {
        if self.parts.leases.is_wanted(&lease) {
            self.going.remove(&lease);
            // Publishers are as few as leases: there is room.
            let _ = self.parts.contender.add_lease(now, lease);
        } else {
            self.parts.contender.remove_lease(now, &lease);
            self.going.insert(lease);
        }
    }

    /// Closes the publishers of leases of which nothing is held any more.
    fn close_publishers(&mut self, now: Time) {
        let is_gone = |lease: &LeaseName| !self.parts.contender.claims().any(|claim| claim.lease == *lease);
        for lease in self.going.iter().filter(|lease| is_gone(lease)).cloned().collect::<Vec<_>>() {
            self.going.remove(&lease);
            self.lost_races.retain(|(of, _), _| *of != lease);
            if !self.parts.leases.forget(&lease) {
                // Somebody wants it again, and its word is on the way.
                let _ = self.parts.contender.add_lease(now, lease);
            }
        }
    }

    fn list_nodes(&mut self, lease: LeaseName, answer: oneshot::Sender<Result<LeaseNodes, LeaseNodesError>>) {
        let Parts { node, timing, worker, .. } = &self.parts;
        let look = Round {
            node: node.clone(),
            rpc_address: self.rpc_address(),
            lease_duration: timing.lease_duration,
            steps: vec![Step { lease: lease.clone(), request: StepRequest::Watch }],
        };
        let (brought, listed) = oneshot::channel();
        if worker.run(StoreRequest::Nodes(look, brought)).is_err() {
            let _ = answer.send(Err(LeaseNodesError::Busy));
            return;
        }
        let window = timing.liveness_window;
        let mut answer = answer;
        tokio::spawn(async move {
            let brought = tokio::select! {
                brought = listed => brought,
                // Nobody waits any more: the worker need not ask.
                () = answer.closed() => return,
            };
            let nodes = match brought {
                Ok(Ok((seen, rows))) => {
                    let holder = seen.steps.first().and_then(|seen| seen.holder.as_ref());
                    Ok(LeaseNodes::new(lease, rows, holder, window))
                }
                Ok(Err(error)) => Err(error.into()),
                Err(_) => Err(LeaseNodesError::Stopped),
            };
            let _ = answer.send(nodes);
        });
    }

    /// Carries out everything that the contender wants done.
    fn carry_out(&mut self) {
        while let Some(output) = self.parts.contender.poll() {
            match output {
                Output::Persist { lease, term } => {
                    self.keep_term(&lease, term);
                    self.parts.terms.keep(lease, term);
                }
                Output::Tell { lease, term, is_released } => {
                    let kind = if is_released { LeaseUpdate::RELEASED } else { LeaseUpdate::LED };
                    self.tell_others(&lease, term, kind);
                }
                Output::Claim(claim) => self.publish(claim),
                Output::Elected { lease, term, leader, is_me: _ } => {
                    self.counted().elected(&lease);
                    let member = self.parts.shared.directory().member(&leader);
                    self.announce(EventKind::LeaderElected { leader, member, term, lease: Some(lease) });
                }
                Output::Lost { lease, term, leader, reason, was_me: _ } => {
                    let member = self.parts.shared.directory().member(&leader);
                    self.announce(EventKind::LeaderLost { leader, member, term, reason, lease: Some(lease) });
                }
                Output::AwaitWork { lease, term } => self.await_work(lease, term),
                Output::Alarm(alarm) => self.tell_alarm(&alarm),
                Output::Stopped => self.is_over = true,
            }
        }
    }

    fn publish(&self, claim: Claim) {
        let Claim { lease, state, leader, term, is_me, valid_until } = claim;
        let Some(publisher) = self.parts.leases.publisher(&lease) else { return };
        // Terms that voters gave count as well: the next leader's is above them.
        let term = if leader.is_none() { term.max(self.parts.leases.least_term(&lease)) } else { term };
        let valid_until = valid_until.map(|at| LeaseInstant::new(self.parts.clock, at));
        publisher.publish(Leadership { state, leader, term, is_me, valid_until });
    }

    /// Leadership was published as ended before: no work begins any more, and what runs is told by that.
    fn await_work(&mut self, lease: LeaseName, term: u64) {
        self.ending += 1;
        let asker = self.parts.leases.asker();
        let publisher = self.parts.leases.publisher(&lease);
        let (journal, within) = (self.parts.shared.journal.clone(), self.parts.timing.lease_duration);
        tokio::spawn(async move {
            if let Some(publisher) = publisher {
                let mut running = publisher.running();
                // Work that ends at once is not worth a word.
                if tokio::time::timeout(WORK_ENDS_WITHIN, running.wait_for(|running| *running == 0)).await.is_err() {
                    let text = awaited(&lease, term, *running.borrow(), within);
                    journal.say(Level::INFO, text);
                    let _ = running.wait_for(|running| *running == 0).await;
                }
            }
            let _ = asker.send(Ask::WorkEnded(lease, term)).await;
        });
    }

    fn announce(&self, kind: EventKind) {
        let shared = &self.parts.shared;
        shared.journal.event(&shared.announce(kind, SystemTime::now()));
    }

    fn counted(&self) -> std::sync::MutexGuard<'_, crate::agent::lease_state::Counted> {
        self.parts.leases.counted.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn sweep_interval(timing: &ContenderTiming) -> Duration {
    (timing.row_ttl / 2).max(MIN_SWEEP_INTERVAL)
}

/// Waits until then, for ever if there is no such time.
async fn due(clock: Clock, deadline: Option<Time>) {
    let Some(deadline) = deadline else { return std::future::pending().await };
    loop {
        let remaining = deadline.since(clock.now());
        if remaining.is_zero() {
            return;
        }
        tokio::time::sleep(remaining.min(MAX_NAP)).await;
    }
}

#[cfg(all(test, feature = "sim"))]
mod tests;
