//! The agent's part, in virtual time: inputs are handed to a contender, and its outputs carried out.
//!
//! Must not know: what happens on the way to the database.

use std::time::Duration;

use super::super::{ElectionSighting, LeaderNews, World};
use super::{Contender, LeaseEvent};
use crate::happening::Happening;
use crate::network::Nanos;
use crate::random::nanos;
use crate::watch::LeaseEvent as Told;
use crate::world::{Event, Waiting};
use headcount_contender::{Answer, LeaseName, Output, Seen};
use headcount_core::election::Term;
use headcount_core::wire::LeaseUpdate;
use headcount_core::{Command, NodeId, Status, Time};

/// Within this time after word of a new leader all look who it is, as agents do.
const MOST_LOOK_SPREAD: Duration = Duration::from_secs(1);
/// The least time until a waking: a contender that is due at once, again and again, does not stop time.
const LEAST_NAP: Nanos = 1_000;

impl World {
    /// Takes what happens to the contender of a process that runs.
    pub(crate) fn happens(&mut self, node: usize, what: Happening) {
        if self.agent(node).is_none() {
            return;
        }
        let id = self.nodes[node].id.clone();
        if !matches!(what, Happening::Wake { .. }) {
            self.trace.note(self.now, node, &id, &what);
        }
        match what {
            Happening::Wake { epoch } => {
                if self.agent(node).is_none_or(|agent| agent.epoch != epoch) {
                    return;
                }
            }
            Happening::Answer { number, answer } => {
                let Some(names) = self.ends_round(node, number) else { return };
                self.deliver(node, &names, &answer);
            }
            Happening::Fail { number, is_known } => {
                if self.ends_round(node, number).is_none() {
                    return;
                }
                self.contend(node, |contender, now| contender.failed(now, is_known));
            }
            Happening::Heard { word, is_believed } => self.hear(node, &word, is_believed),
            Happening::Stored { lease, term } => self.store_term(node, lease, term),
            Happening::WorkEnded { lease, term } => {
                self.tell_of_lease(node, Told::WorkEnded(&lease, term));
                self.contend(node, |contender, now| contender.work_ended(now, &lease, term));
            }
            Happening::Resign => {
                let lease = self.lease_names().swap_remove(0);
                self.contend(node, |contender, now| contender.resign(now, &lease));
            }
            Happening::Stop => drop(self.contend(node, Contender::stop)),
            Happening::Farewell => self.say_goodbye(node),
        }
        self.turn(node);
    }

    /// Returns the names that the round asked about, if it is the one under way, and ends it.
    fn ends_round(&mut self, node: usize, number: u64) -> Option<Vec<LeaseName>> {
        let agent = self.agent(node)?;
        let (under_way, names) = agent.in_flight.take()?;
        if under_way != number {
            agent.in_flight = Some((under_way, names));
            return None;
        }
        Some(names)
    }

    /// Hands a contender one input, and carries out everything that comes of it.
    pub(super) fn contend<T>(&mut self, node: usize, act: impl FnOnce(&mut Contender, Time) -> T) -> Option<T> {
        let now = self.local(node)?;
        let result = act(&mut self.agent(node)?.contender, now);
        self.drain_contender(node, &[]);
        Some(result)
    }

    fn deliver(&mut self, node: usize, names: &[LeaseName], answer: &Answer) {
        let seen: Vec<(LeaseName, Seen)> = names.iter().cloned().zip(answer.steps.iter().cloned()).collect();
        self.tell_of_lease(node, Told::Answering(&seen));
        let Some(now) = self.local(node) else { return };
        let Some(agent) = self.agent(node) else { return };
        agent.contender.answered(now, answer);
        self.drain_contender(node, &seen);
        self.tell_of_lease(node, Told::Answered(&seen));
        for (lease, seen) in seen {
            let claim = self.agent(node).and_then(|agent| agent.contender.claims().find(|claim| claim.lease == lease));
            let known = claim.map_or(0, |claim| claim.term);
            if let (Some(nonce), Ok(lease)) = (seen.nonce().filter(|_| seen.term < known), NodeId::new(lease.as_str()))
            {
                let sender = self.nodes[node].id.clone();
                let word = LeaseUpdate { lease, node: sender, term: known, kind: LeaseUpdate::KNOWN, nonce };
                self.offer(node, Waiting::Command(Command::TellLease(word)));
            }
        }
        for lease in names {
            self.forget_the_gone(node, lease, now);
        }
    }

    /// Tells a contender of a leader that it waits for, and that is a member no more, as an agent does.
    fn forget_the_gone(&mut self, node: usize, lease: &LeaseName, now: Time) {
        let Some(leader) = self.agent(node).and_then(|agent| agent.contender.waits_for(now, lease).cloned()) else {
            return;
        };
        let is_gone = self.core(node).is_some_and(|core| {
            core.record(&leader).is_none_or(|record| matches!(record.status, Status::Down | Status::Left(_)))
        });
        if is_gone {
            self.contend(node, |contender, now| contender.gone(now, lease, &leader));
        }
    }

    fn drain_contender(&mut self, node: usize, seen: &[(LeaseName, Seen)]) {
        while let Some(output) = self.agent(node).and_then(|agent| agent.contender.poll()) {
            for output in self.intercept.contender(node, output) {
                let id = self.nodes[node].id.clone();
                self.trace.note(self.now, node, &id, &output);
                self.contender_says(node, output, seen);
            }
        }
        self.tell_of_lease(node, Told::Drained);
    }

    fn contender_says(&mut self, node: usize, output: Output, seen: &[(LeaseName, Seen)]) {
        let now = self.now;
        match output {
            Output::Persist { lease, term } => {
                self.keep_lease_term(node, &lease, term);
                let Some(leases) = &mut self.leases else { return };
                let after = leases.random.duration(Duration::from_micros(500), Duration::from_millis(5));
                self.happens_after(node, after, Happening::Stored { lease, term });
            }
            Output::Tell { lease, term, is_released } => {
                let kind = if is_released { LeaseUpdate::RELEASED } else { LeaseUpdate::LED };
                if let Ok(lease) = NodeId::new(lease.as_str()) {
                    // A leader says the same again and again.
                    let word = LeaseUpdate { lease, node: self.nodes[node].id.clone(), term, kind, nonce: now };
                    self.offer(node, Waiting::Command(Command::TellLease(word)));
                }
            }
            Output::Claim(claim) => {
                let seen = seen.iter().find(|(lease, _)| *lease == claim.lease).map(|(_, seen)| seen);
                self.tell_of_lease(node, Told::Claimed(&claim, seen));
            }
            Output::Elected { lease, term, leader, .. } => {
                self.saw_lease(node, &lease, leader, term, LeaderNews::Elected);
            }
            Output::Lost { lease, term, leader, was_me, reason } => {
                if was_me {
                    self.tell_of_lease(node, Told::Lost(reason));
                }
                self.saw_lease(node, &lease, leader, term, LeaderNews::Lost(reason));
            }
            Output::AwaitWork { lease, term } => self.await_lease_work(node, lease, term),
            Output::Stopped => self.say_goodbye(node),
            Output::Alarm(_) => {}
        }
    }

    /// Keeps events of the first lease for the measurement of successions.
    fn saw_lease(&mut self, observer: usize, lease: &LeaseName, leader: NodeId, term: u64, news: LeaderNews) {
        let is_first = self.leases.as_ref().is_some_and(|leases| leases.options.leases[0] == *lease);
        if let Some(seen) = self.elections_seen.as_mut().filter(|_| is_first) {
            seen.push(ElectionSighting { at: self.now, observer, leader, term: Term(term), news });
        }
    }

    fn await_lease_work(&mut self, node: usize, lease: LeaseName, term: u64) {
        let Some(leases) = &mut self.leases else { return };
        let hangs = leases.random.chance(self.options.hanging_work);
        let most = if hangs { leases.options.timing.lease_duration * 2 } else { self.options.led_work };
        let after = leases.random.duration(Duration::ZERO, most);
        let until = self.now + nanos(after);
        if let Some(agent) = self.agent(node) {
            agent.works_until = agent.works_until.max(until);
        }
        self.happens_after(node, after, Happening::WorkEnded { lease, term });
    }

    /// Gives a term to the core, for the newcomers that it brings in.
    pub(super) fn keep_lease_term(&mut self, node: usize, lease: &LeaseName, term: u64) {
        if let Ok(lease) = NodeId::new(lease.as_str()) {
            self.offer(node, Waiting::Command(Command::KeepLeaseTerm { lease, term }));
        }
    }

    fn store_term(&mut self, node: usize, lease: LeaseName, term: u64) {
        if self.nodes[node].disk_full_until > self.now {
            return self.happens_after(node, Duration::from_millis(100), Happening::Stored { lease, term });
        }
        let is_durable = self.nodes[node].is_durable;
        if let Some(place) = self.leases.as_mut().and_then(|leases| leases.places.get_mut(node)).filter(|_| is_durable)
        {
            let kept = place.disk.entry(lease).or_default();
            *kept = term.max(*kept);
        }
    }

    /// Takes word of another node, as an agent does.
    fn hear(&mut self, node: usize, word: &LeaseUpdate, is_believed: bool) {
        let Ok(lease) = LeaseName::new(word.lease.as_str()) else { return };
        let Some(agent) = self.agent(node) else { return };
        let known = agent.contender.claims().find(|claim| claim.lease == lease).map(|claim| claim.term);
        let is_released = word.kind == LeaseUpdate::RELEASED;
        let is_believed = is_believed || is_released && known == Some(word.term);
        if word.kind == LeaseUpdate::LED && !is_believed {
            self.contend(node, |contender, now| contender.doubted(now, &lease, &word.node, word.term));
        }
        let is_about_terms = matches!(word.kind, LeaseUpdate::LED | LeaseUpdate::KNOWN | LeaseUpdate::TAUGHT);
        if !is_believed || !(is_about_terms || is_released) {
            return;
        }
        self.tell_of_lease(node, Told::Hearing(&lease, word.term));
        // Whoever merely knows of a term is no rival of its leader.
        let is_leaders = matches!(word.kind, LeaseUpdate::LED | LeaseUpdate::RELEASED);
        let by = if is_leaders { word.node.clone() } else { self.nodes[node].id.clone() };
        self.contend(node, |contender, now| contender.heard(now, &lease, &by, word.term, is_released));
        self.tell_of_lease(node, Told::Heard(&lease, word.term));
        if !is_released && known.is_some_and(|known| known < word.term) {
            let Some(leases) = &mut self.leases else { return };
            let spread = (leases.options.timing.renewal_interval / 4).min(MOST_LOOK_SPREAD);
            let by = leases.random.duration(Duration::ZERO, spread);
            self.contend(node, |contender, now| contender.hurry(now, &lease, now + by));
        }
    }

    /// Lets time pass, and begins what is due.
    pub(super) fn turn(&mut self, node: usize) {
        self.contend(node, Contender::tick);
        if self.agent(node).is_some_and(|agent| agent.in_flight.is_none())
            && let Some(Some(round)) = self.contend(node, Contender::begin)
        {
            self.send_round(node, round);
        }
        self.sweep_if_due(node);
        self.set_contenders_alarm(node);
    }

    fn sweep_if_due(&mut self, node: usize) {
        let now = self.now;
        let Some(leases) = &mut self.leases else { return };
        let pause = nanos((leases.options.timing.row_ttl / 2).max(Duration::from_secs(1)));
        let Some(agent) = leases.places.get_mut(node).and_then(|place| place.agent.as_mut()) else { return };
        if now >= agent.sweep_at && agent.contender.claims().any(|claim| claim.is_me) {
            agent.sweep_at = now + pause;
            let delay = leases.way.delay(now, &mut leases.random);
            self.push(now + delay, Event::Lease(LeaseEvent::Sweep { node, sent: now }));
        }
    }

    /// Makes sure that a contender is woken at its next deadline.
    fn set_contenders_alarm(&mut self, node: usize) {
        let Some(process) = self.nodes[node].process.as_ref() else { return };
        let (clock, late) = (process.clock, self.lateness(node));
        let now = self.now;
        let Some(agent) = self.agent(node) else { return };
        let Some(deadline) = agent.contender.next_deadline() else { return };
        agent.epoch += 1;
        let (process, epoch) = (agent.process, agent.epoch);
        let at = clock.true_time(deadline).max(now + LEAST_NAP) + nanos(late);
        let what = Happening::Wake { epoch };
        self.push(at, Event::Lease(LeaseEvent::Happens { node, process, what }));
    }
}
