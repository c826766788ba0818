//! Travel in a world: requests to the database and their answers, words of the lease, and the wishes of a contender.

use super::*;

impl World {
    pub(super) fn later(&mut self, delay: Nanos, happening: Happening) {
        self.count += 1;
        self.queue.insert((self.now + delay, self.count), happening);
    }

    pub(super) fn delay(&mut self) -> Nanos {
        self.rng.random_range(self.network.delay.0..=self.network.delay.1)
    }

    fn is_drawn(&mut self, chance: f64) -> bool {
        chance > 0.0 && self.rng.random_bool(chance)
    }

    pub(super) fn send(&mut self, at: usize, round: Round) {
        let node = &mut self.nodes[at];
        node.number += 1;
        node.in_flight = Some(node.number);
        let (life, number, timeout) = (node.life, node.number, node.timing.statement_timeout.as_nanos() as Nanos);
        let lease = node.timing.lease_duration.as_nanos() as Nanos;
        self.later(timeout, Happening::Fail { node: at, life, number, is_known: false });
        let delay = self.delay();
        if self.nodes[at].is_cut || self.is_down {
            if self.rng.random_bool(0.5) {
                self.later(delay, Happening::Fail { node: at, life, number, is_known: true });
            }
        } else if !self.is_drawn(self.network.lost_requests) {
            let late = if self.is_drawn(self.network.late_requests) { self.rng.random_range(0..2 * lease) } else { 0 };
            self.later(delay + late, Happening::Arrive { node: at, life, number, round });
        }
    }

    pub(super) fn arrive(&mut self, at: usize, life: u64, number: u64, round: &Round) {
        if self.is_down {
            return;
        }
        let before: Vec<_> = round.steps.iter().map(|step| self.database.look(&step.lease).1).collect();
        let Ok(answer) = self.database.execute(Duration::from_nanos(self.now), round) else {
            let delay = self.delay();
            return self.later(delay, Happening::Fail { node: at, life, number, is_known: true });
        };
        self.rounds.push((self.now, at, answer.steps.iter().map(|seen| seen.outcome).collect()));
        let mut grants = 0;
        for ((step, seen), before) in round.steps.iter().zip(&answer.steps).zip(before) {
            if let (Outcome::Acquired | Outcome::Renewed, Some(holder)) = (seen.outcome, &seen.holder) {
                grants += 1;
                self.granted.insert(holder.token, seen.outcome == Outcome::Acquired);
                let term = (step.lease.clone(), seen.term);
                if seen.outcome == Outcome::Acquired && !self.given.insert(term.clone()) {
                    self.twice.insert(term);
                }
            }
            let is_over = matches!(step.request, StepRequest::Acquire { .. }) && before.is_some();
            self.reached.takeovers += u64::from(is_over && seen.outcome == Outcome::Acquired);
            if seen.outcome == Outcome::Released {
                self.reached.releases += 1;
                let is_at_work =
                    |node: &Node| node.life == life && node.work.contains(&(step.lease.clone(), seen.term));
                if is_at_work(&self.nodes[at]) {
                    self.violations.push(format!("{at} releases term {} while its work goes on", seen.term));
                }
            }
        }
        if self.nodes[at].life != life || self.nodes[at].in_flight != Some(number) {
            self.reached.late_grants += grants;
            return;
        }
        let delay = self.delay();
        let has_answered = std::mem::replace(&mut self.nodes[at].was_answered, false);
        if self.is_drawn(self.network.lost_answers) || (has_answered && self.network.loses_every_other) {
            self.reached.lost_grants += grants;
        } else if self.is_drawn(self.network.broken) {
            self.reached.lost_grants += grants;
            self.later(delay, Happening::Fail { node: at, life, number, is_known: false });
        } else {
            self.nodes[at].was_answered = true;
            let names = round.steps.iter().map(|step| step.lease.clone()).collect();
            self.later(delay, Happening::Answer { node: at, life, number, names, answer });
        }
    }

    pub(super) fn happen(&mut self, happening: Happening) {
        if let Some(node) = happening.node()
            && self.nodes[node].is_paused
        {
            return self.nodes[node].waiting.push(happening);
        }
        match happening {
            Happening::Wake { node, life, epoch } => {
                if (self.nodes[node].life, self.nodes[node].epoch) == (life, epoch) {
                    self.wake(node);
                }
            }
            Happening::Arrive { node, life, number, round } => self.arrive(node, life, number, &round),
            Happening::Answer { node, life, number, names, answer } => {
                if self.ends_flight(node, life, number) {
                    self.deliver(node, &names, &answer);
                }
            }
            Happening::Fail { node, life, number, is_known } => {
                if self.ends_flight(node, life, number) {
                    self.with(node, |contender, now| contender.failed(now, is_known));
                }
            }
            Happening::Heard { to, lease, by, term, is_released } => {
                let node = &mut self.nodes[to];
                if node.contender.is_some() {
                    node.knew.insert((lease.clone(), term));
                    self.with(to, |contender, now| contender.heard(now, &lease, &by, term, is_released));
                    if self.nodes[to].held.get(&lease).is_some_and(|held| held.term < term) {
                        self.violations.push(format!("{to} leads on although it has heard of term {term}"));
                    }
                }
            }
            Happening::WorkEnds { node, life, lease, term } => {
                if self.nodes[node].life == life {
                    self.end_work(node, &lease, term);
                }
            }
        }
    }

    fn ends_flight(&mut self, at: usize, life: u64, number: u64) -> bool {
        let node = &mut self.nodes[at];
        let is_it = node.life == life && node.in_flight == Some(number);
        if is_it {
            node.in_flight = None;
        }
        is_it
    }

    fn deliver(&mut self, at: usize, names: &[LeaseName], answer: &Answer) {
        let before: Vec<_> = names.iter().map(|name| self.nodes[at].held.get(name).map(|held| held.term)).collect();
        let now = self.local(at);
        let Some(contender) = self.nodes[at].contender.as_mut() else { return };
        contender.answered(now, answer);
        self.drain(at, Some((names, answer)));
        let node = &mut self.nodes[at];
        for ((name, seen), before) in names.iter().zip(&answer.steps).zip(before) {
            if seen.term > 0 {
                node.knew.insert((name.clone(), seen.term));
            }
            if let Some(holder) = &seen.holder {
                node.knew.insert((name.clone(), holder.term));
                node.sighted.insert(holder.token);
            }
            let is_rejected = seen.outcome == Outcome::Rejected && before.is_some();
            if is_rejected && node.held.get(name).map(|held| held.term) == before {
                self.violations.push(format!("{at} leads on although it was rejected"));
            }
        }
    }

    pub(crate) fn end_work(&mut self, at: usize, lease: &LeaseName, term: u64) {
        if self.nodes[at].work.remove(&(lease.clone(), term)) {
            self.with(at, |contender, now| contender.work_ended(now, lease, term));
        }
    }

    /// Ends all led work that should have ended.
    pub(crate) fn end_all_work(&mut self, at: usize) {
        self.nodes[at].works_on = false;
        for (lease, term) in self.nodes[at].work.clone() {
            if self.nodes[at].held.get(&lease).is_none_or(|held| held.term != term) {
                self.end_work(at, &lease, term);
            }
        }
    }

    pub(super) fn drain(&mut self, at: usize, answer: Option<(&[LeaseName], &Answer)>) {
        while let Some(output) = self.nodes[at].contender.as_mut().and_then(Contender::poll) {
            self.carry_out(at, output, answer);
        }
        self.set_alarm(at);
        self.check();
    }

    pub(super) fn set_alarm(&mut self, at: usize) {
        let node = &mut self.nodes[at];
        let Some(deadline) = node.contender.as_ref().and_then(Contender::next_deadline) else {
            return;
        };
        let shown = i128::from(deadline.since(Time::ORIGIN).as_nanos() as u64);
        let elapsed = shown * 1_000_000 / (1_000_000 + i128::from(node.rate_ppm)) + 1;
        // Whoever asks to be woken at once, again and again, does not stop time.
        let due = (node.clock_began + elapsed as Nanos).max(self.now + MS / 1_000);
        node.epoch += 1;
        let (life, epoch) = (node.life, node.epoch);
        self.later(due - self.now, Happening::Wake { node: at, life, epoch });
    }

    fn carry_out(&mut self, at: usize, output: Output, answer: Option<(&[LeaseName], &Answer)>) {
        match output {
            Output::Persist { lease, term } => {
                let before = self.nodes[at].disk.insert(lease, term);
                if before.is_some_and(|before| before >= term) {
                    self.violations.push(format!("the term on {at}'s disk falls"));
                }
            }
            Output::Tell { lease, term, is_released } => self.tell(at, &lease, term, is_released),
            Output::Claim(claim) => self.claim(at, &claim, answer),
            Output::Elected { .. } | Output::Lost { was_me: false, .. } => {}
            Output::Lost { lease, term, reason, .. } => self.lost(at, &lease, term, reason),
            Output::AwaitWork { lease, term } => {
                if !self.nodes[at].works_on {
                    let lease_nanos = self.nodes[at].timing.lease_duration.as_nanos() as Nanos;
                    let most = if self.rng.random_bool(0.1) { 2 * lease_nanos } else { 20 * MS };
                    let (delay, life) = (self.rng.random_range(0..most), self.nodes[at].life);
                    self.later(delay, Happening::WorkEnds { node: at, life, lease, term });
                }
            }
            Output::Alarm(alarm) => {
                match alarm {
                    ContenderAlarm::NameTwice { .. } => self.reached.namesakes += 1,
                    ContenderAlarm::ClockStepped { .. } => self.reached.clock_steps += 1,
                    ContenderAlarm::TermFell { .. } => self.reached.fallen_terms += 1,
                    _ => {}
                }
                self.alarms.push((at, alarm));
            }
            Output::Stopped => {
                self.nodes[at].is_stopped = true;
                if !self.nodes[at].work.is_empty() {
                    self.violations.push(format!("{at} has stopped while work goes on"));
                }
            }
        }
    }

    fn tell(&mut self, at: usize, lease: &LeaseName, term: u64, is_released: bool) {
        for to in 0..self.nodes.len() {
            let is_silent = to == at || self.nodes[at].is_mute || self.nodes[to].is_mute;
            if !is_silent && !self.is_drawn(self.network.lost_gossip) {
                let delay = self.delay();
                let by = self.nodes[at].name.clone();
                self.later(delay, Happening::Heard { to, lease: lease.clone(), by, term, is_released });
            }
        }
    }
}
