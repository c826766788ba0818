//! The way to the database, and what goes wrong on it and in it: requests and answers that are lost, late, or broken
//! off in the middle of a commit; a database that is down, read-only, empty, behind, or of another time.
//!
//! Must not know: what is asked, and what an answer is worth.

use std::time::Duration;

use super::super::{Event, World};
use super::LeaseEvent;
use crate::happening::Happening;
use crate::network::Nanos;
use crate::random::{Random, nanos};
use crate::watch::LeaseEvent as Told;
use headcount_contender::{Outcome, Round, StepRequest};

/// The least time that something is under way.
const LEAST_DELAY: Duration = Duration::from_micros(200);
/// The most time that something is under way, usually.
const MOST_DELAY: Duration = Duration::from_millis(2);

/// A bad way to the database: chances, and the longest delay.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct WayFault {
    /// Requests that never arrive.
    pub lost_requests: f64,
    /// Answers that never do: the commit is made.
    pub lost_answers: f64,
    /// Requests that arrive up to two leases later.
    pub late_requests: f64,
    /// Connections that break in mid-commit, which is noticed at once: the commit is made.
    pub broken: f64,
    /// The longest time that something is under way.
    pub slowest: Duration,
}

/// The state of the way and of the database.
#[derive(Debug, Default)]
pub(super) struct Way {
    fault: Option<WayFault>,
    until: Nanos,
    down_until: Nanos,
    read_only_until: Nanos,
    /// The time of the last healing: requests sent before it arrive no more.
    healed_at: Nanos,
}

impl Way {
    fn fault(&self, now: Nanos) -> Option<&WayFault> {
        self.fault.as_ref().filter(|_| now < self.until)
    }

    pub(super) fn delay(&self, now: Nanos, random: &mut Random) -> Nanos {
        let most = self.fault(now).map_or(MOST_DELAY, |fault| fault.slowest);
        nanos(random.duration(LEAST_DELAY, most.max(MOST_DELAY)))
    }

    fn draw(&self, now: Nanos, random: &mut Random, chance: impl Fn(&WayFault) -> f64) -> bool {
        self.fault(now).is_some_and(|fault| random.chance(chance(fault)))
    }
}

impl World {
    /// Sends a round on its way.
    pub(super) fn send_round(&mut self, node: usize, round: Round) {
        let now = self.now;
        let lateness = nanos(self.lateness(node));
        let Some(leases) = &mut self.leases else { return };
        let timing = leases.options.timing;
        let place = &mut leases.places[node];
        let Some(agent) = place.agent.as_mut() else { return };
        agent.rounds += 1;
        let (process, number) = (agent.process, agent.rounds);
        agent.in_flight = Some((number, round.steps.iter().map(|step| step.lease.clone()).collect()));
        let fail =
            |is_known| Event::Lease(LeaseEvent::Happens { node, process, what: Happening::Fail { number, is_known } });
        let (way, random) = (&leases.way, &mut leases.random);
        let delay = way.delay(now, random);
        let mut events = vec![(nanos(timing.statement_timeout) + lateness, fail(false))];
        if now < place.cut_until || now < way.down_until {
            // Refused, or no answer at all.
            if random.chance(0.5) {
                events.push((delay, fail(true)));
            }
        } else if !way.draw(now, random, |fault| fault.lost_requests) {
            let is_late = way.draw(now, random, |fault| fault.late_requests);
            let late = if is_late { random.below(2 * nanos(timing.lease_duration)) } else { 0 };
            let arrive = LeaseEvent::Arrive { node, process, number, round, sent: now };
            events.push((delay + late, Event::Lease(arrive)));
        }
        for (after, event) in events {
            self.push(now + after, event);
        }
    }

    /// Has a round reach the database, whether or not anybody waits for the answer.
    pub(super) fn reaches_database(&mut self, node: usize, process: u64, number: u64, round: &Round, sent: Nanos) {
        let now = self.now;
        let late = nanos(self.lateness(node));
        let Some(leases) = &mut self.leases else { return };
        if now < leases.way.down_until || sent < leases.way.healed_at {
            return;
        }
        let delay = leases.way.delay(now, &mut leases.random);
        let happens = |what| Event::Lease(LeaseEvent::Happens { node, process, what });
        let place = leases.places[node].database;
        let database = &mut leases.databases[place];
        let before: Vec<_> = round.steps.iter().map(|step| database.look(&step.lease).1).collect();
        database.set_read_only(now < leases.way.read_only_until);
        let Ok(answer) = database.execute(Duration::from_nanos(now), round) else {
            return self.push(now + delay, happens(Happening::Fail { number, is_known: true }));
        };
        let is_grant = |outcome| matches!(outcome, Outcome::Acquired | Outcome::Renewed);
        let grants = answer.steps.iter().filter(|seen| is_grant(seen.outcome)).count() as u64;
        let is_cut = now < leases.places[node].cut_until;
        let is_lost = is_cut || leases.way.draw(now, &mut leases.random, |fault| fault.lost_answers);
        let is_broken = !is_lost && leases.way.draw(now, &mut leases.random, |fault| fault.broken);
        for ((step, seen), before) in round.steps.iter().zip(&answer.steps).zip(before) {
            let (lease, is_takeover) = (&step.lease, matches!(step.request, StepRequest::Acquire { .. }));
            let granted = Told::Granted { process, database: place, lease, before, is_takeover, seen };
            self.tell_of_lease(node, granted);
        }
        if is_lost || is_broken {
            self.tell_of_lease(node, Told::LostAnswers(grants));
        }
        if is_broken {
            self.push(now + delay, happens(Happening::Fail { number, is_known: false }));
        } else if !is_lost {
            self.push(now + delay + late, happens(Happening::Answer { number, answer }));
        }
    }

    pub(super) fn sweep_reaches_database(&mut self, node: usize, sent: Nanos) {
        let now = self.now;
        let Some(leases) = &mut self.leases else { return };
        let is_open = now >= leases.way.down_until.max(leases.way.read_only_until).max(leases.places[node].cut_until);
        if is_open && sent >= leases.way.healed_at {
            let row_ttl = leases.options.timing.row_ttl;
            let place = leases.places[node].database;
            leases.databases[place].sweep(Duration::from_nanos(now), row_ttl);
        }
    }

    /// Disturbs the way to the database like this for a while; returns false if there is none.
    pub fn disturb_store(&mut self, fault: WayFault, lasting: Duration) -> bool {
        let until = self.now + nanos(lasting);
        self.leases.as_mut().is_some_and(|leases| {
            (leases.way.fault, leases.way.until) = (Some(fault), until);
            true
        })
    }

    /// Stops the database for a while, so that it answers nobody; returns false if there is none.
    pub fn stop_store(&mut self, lasting: Duration) -> bool {
        let until = self.now + nanos(lasting);
        self.leases.as_mut().is_some_and(|leases| {
            leases.way.down_until = until;
            true
        })
    }

    /// Locks the database for a while, so that it takes no writes; returns false if there is none.
    pub fn lock_store(&mut self, lasting: Duration) -> bool {
        let until = self.now + nanos(lasting);
        self.leases.as_mut().is_some_and(|leases| {
            leases.way.read_only_until = until;
            true
        })
    }

    /// Cuts a node from the database for a while, in both directions; returns false if the node does not contend.
    pub fn cut_from_store(&mut self, node: usize, lasting: Duration) -> bool {
        let until = self.now + nanos(lasting);
        self.leases.as_mut().and_then(|leases| leases.places.get_mut(node)).is_some_and(|place| {
            place.cut_until = until;
            true
        })
    }

    /// Puts the database's clock forward or back; returns false if there is none.
    pub fn step_stores_clock(&mut self, by: Duration, is_forward: bool) -> bool {
        self.leases.as_mut().is_some_and(|leases| {
            if is_forward {
                leases.databases[0].step_forward(by);
            } else {
                leases.databases[0].step_back(by);
            }
            true
        })
    }

    /// Fails over to a replica that lacks the last so many commits, or to an empty database if their number is not
    /// given; returns false if there is no database.
    pub fn fail_store_over(&mut self, commits: Option<usize>) -> bool {
        let Some(leases) = &mut self.leases else { return false };
        let lost = match commits {
            Some(commits) => leases.databases[0].fail_over(commits),
            None => leases.databases[0].replace(),
        };
        leases.way.read_only_until = 0;
        let lost: Vec<_> = lost.into_iter().map(|lost| (lost.token, lost.is_acquisition)).collect();
        self.tell(|watch, world| watch.on_lost_grants(world, &lost, commits.is_none()));
        true
    }

    /// Has a node ask this one of two databases from now on, as if its configuration were another one: to be called
    /// before it is started. Returns true if it contends.
    pub fn ask_database(&mut self, node: usize, database: usize) -> bool {
        self.leases.as_mut().and_then(|leases| leases.places.get_mut(node)).is_some_and(|place| {
            place.database = database;
            true
        })
    }

    /// Deletes the terms row of a lease by hand. Returns true if there is one, and a row that shows the term all the
    /// same.
    pub fn delete_terms(&mut self) -> bool {
        self.leases.as_mut().is_some_and(|leases| leases.databases[0].delete_term(&leases.options.leases[0]))
    }

    /// Makes the database and the way to it well from now on; what was under way is lost.
    pub(crate) fn heal_store(&mut self) {
        let now = self.now;
        let Some(leases) = &mut self.leases else { return };
        leases.way = Way { healed_at: now, ..Way::default() };
        for place in &mut leases.places {
            place.cut_until = 0;
        }
    }
}
