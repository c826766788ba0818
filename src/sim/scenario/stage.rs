//! The stage of a scenario: the world, the clock, and the samples taken while time passes.
//!
//! Invariant: looking at a world changes nothing in it, so a run has the same trace however often it is looked at. Must
//! not know: the events of the scenario.

use std::time::Duration;

use crate::World;
use crate::network::Traffic;
use crate::report::Sample;
use headcount_core::Settings;

/// The phases of a scenario.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Phase {
    /// The cluster is formed.
    Forming,
    /// Nothing happens.
    Idling,
    /// The event happens, and is got over.
    Acting,
}

impl Phase {
    /// Returns a few words about the phase, for people.
    pub const fn name(self) -> &'static str {
        match self {
            Phase::Forming => "forming the cluster",
            Phase::Idling => "watching it idle",
            Phase::Acting => "letting it happen",
        }
    }
}

/// Progress of a run, for those who wait for its end.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Progress {
    /// The present phase.
    pub phase: Phase,
    /// Virtual time since the start.
    pub now: Duration,
    /// Approximate share of the run that is done, 0–1.
    pub done: f64,
}

/// Returns the time after which waiting for an agreement is given up.
pub(super) fn patience(settings: &Settings) -> Duration {
    settings.retry_interval * 20 + settings.down_timeout * 4 + Duration::from_secs(30)
}

/// The world of a scenario, sampled while it runs.
pub(super) struct Stage<'a> {
    pub(super) world: World,
    pub(super) samples: Vec<Sample>,
    interval: Duration,
    next: Duration,
    phase: Phase,
    /// Beginning of the phase, and its approximate end.
    spans: (Duration, Duration),
    tell: &'a mut dyn FnMut(Progress),
}

impl<'a> Stage<'a> {
    /// The number of samples beyond which every other one is dropped.
    const MOST_SAMPLES: usize = 4_000;

    pub(super) fn new(world: World, tell: &'a mut dyn FnMut(Progress)) -> Self {
        let now = world.now();
        Self {
            world,
            samples: Vec::new(),
            interval: Duration::from_millis(50),
            next: now,
            phase: Phase::Forming,
            spans: (now, now),
            tell,
        }
    }

    /// Enters a phase, which is going to take about this long.
    pub(super) fn enter(&mut self, phase: Phase, about: Duration) {
        self.phase = phase;
        self.spans = (self.world.now(), self.world.now() + about);
    }

    pub(super) fn run_for(&mut self, duration: Duration) {
        let until = self.world.now() + duration;
        while self.world.now() < until {
            self.world.run_until(until.min(self.next.max(self.world.now())));
            if self.world.now() >= self.next {
                self.sample();
            }
        }
    }

    /// Runs until all nodes agree; returns the time that took.
    pub(super) fn agreement(&mut self, patience: Duration) -> Option<Duration> {
        const STEP: Duration = Duration::from_millis(10);
        let began = self.world.now();
        while self.world.divergence().is_some() {
            if self.world.now() >= began + patience {
                return None;
            }
            self.run_for(STEP);
        }
        Some(self.world.now().saturating_sub(began))
    }

    /// Returns the traffic that all nodes have sent so far.
    pub(super) fn sent(&self) -> Traffic {
        (0..self.world.nodes()).map(|node| self.world.sent(node)).fold(Traffic::default(), |sum, sent| Traffic {
            packets: sum.packets + sent.packets,
            bytes: sum.bytes + sent.bytes,
        })
    }

    fn sample(&mut self) {
        let now = self.world.now();
        let (running, agreeing) = self.world.agreement_counts();
        self.samples.push(Sample { at: now, bytes: self.sent().bytes, running, agreeing });
        if self.samples.len() >= Self::MOST_SAMPLES {
            let mut nth = 0;
            self.samples.retain(|_| {
                nth += 1;
                nth % 2 == 1
            });
            self.interval *= 2;
        }
        self.next = now + self.interval;
        let (from, to) = self.spans;
        let passed = now.saturating_sub(from).as_secs_f64() / to.saturating_sub(from).as_secs_f64().max(0.001);
        let (begins, share) = match self.phase {
            Phase::Forming => (0.0, 0.2),
            Phase::Idling => (0.2, 0.3),
            Phase::Acting => (0.5, 0.5),
        };
        (self.tell)(Progress { phase: self.phase, now, done: begins + share * passed.min(1.0) });
    }
}
