//! Limits on answers to joiners: none is told more than a few times a second that it is not let in, and none is answered more
//! often than an honest one asks.
//!
//! Invariant: bounded memory, and nobody waits because of others.
//!
//! Must not know: what a joiner says of itself.

use std::collections::BTreeMap;
use std::net::SocketAddr;

use crate::core::limits::{DENIAL_INTERVAL, JOIN_ANSWER_INTERVAL, JOIN_ANSWERS_AT_ONCE, MAX_DENIALS, MAX_JOIN_ASKERS};
use crate::core::member::Run;
use crate::core::time::Time;

/// The joiners that were told lately that they are not let in, by address: each is told so once in [`DENIAL_INTERVAL`].
///
/// Invariant: at most [`MAX_DENIALS`] are remembered, and as many before. If there are more, the first ones are forgotten,
/// and may be told once more: nobody remains without an answer because of others. [`AnsweredJoins`] limits them all the
/// same.
#[derive(Debug, Default)]
pub(super) struct Denials {
    began: Option<Time>,
    lately: BTreeMap<SocketAddr, Time>,
    before: BTreeMap<SocketAddr, Time>,
}

impl Denials {
    /// Returns true if a joiner at this address may be told so now; counts it if so.
    pub(super) fn take(&mut self, now: Time, address: SocketAddr) -> bool {
        let is_recent =
            |table: &BTreeMap<SocketAddr, Time>| table.get(&address).is_some_and(|at| now.since(*at) < DENIAL_INTERVAL);
        if is_recent(&self.lately) || is_recent(&self.before) {
            return false;
        }
        if self.lately.len() >= MAX_DENIALS || self.began.is_none_or(|began| now.since(began) >= DENIAL_INTERVAL) {
            self.before = std::mem::take(&mut self.lately);
            self.began = Some(now);
        }
        self.lately.insert(address, now);
        true
    }
}

/// The questions of joiners that were answered lately, by the run and the address that asked: [`JOIN_ANSWERS_AT_ONCE`] at
/// once, and one more in each [`JOIN_ANSWER_INTERVAL`].
///
/// That ends what a joiner and its sponsor might otherwise do to each other for ever.
///
/// Invariant: at most [`MAX_JOIN_ASKERS`] are remembered, and as many before. If there are more, the first ones are
/// forgotten; nobody waits because of others.
#[derive(Debug, Default)]
pub(in crate::core) struct AnsweredJoins {
    began: Option<Time>,
    lately: BTreeMap<(Run, SocketAddr), Time>,
    before: BTreeMap<(Run, SocketAddr), Time>,
}

impl AnsweredJoins {
    /// Returns the number of entries.
    pub(in crate::core) fn size(&self) -> usize {
        self.lately.len() + self.before.len()
    }

    /// Returns true if a joiner is to be answered now; counts it if so (the generic cell rate algorithm: ITU-T I.371).
    pub(super) fn take(&mut self, now: Time, run: Run, address: SocketAddr) -> bool {
        let most = JOIN_ANSWER_INTERVAL * JOIN_ANSWERS_AT_ONCE;
        if self.lately.len() >= MAX_JOIN_ASKERS || self.began.is_none_or(|began| now.since(began) >= most) {
            self.before = std::mem::take(&mut self.lately);
            self.began = Some(now);
        }
        let key = (run, address);
        let spent_until = self.lately.get(&key).or_else(|| self.before.get(&key)).map_or(now, |until| now.max(*until));
        let next = spent_until + JOIN_ANSWER_INTERVAL;
        let is_allowed = next.since(now) <= most;
        self.lately.insert(key, if is_allowed { next } else { spent_until });
        is_allowed
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_joiner_is_told_once_in_an_interval_that_it_is_not_let_in_however_many_there_are() {
        let mut denials = Denials::default();
        let address = |port: usize| SocketAddr::from(([10, 0, 0, 1], port as u16));
        let mut now = Time::ORIGIN;
        for _ in 0..2 {
            assert!((0..2 * MAX_DENIALS).all(|port| denials.take(now, address(port))));
            assert!((0..2 * MAX_DENIALS).all(|port| !denials.take(now, address(port))));
            assert!((0..5 * MAX_DENIALS).all(|port| denials.take(now, address(10_000 + port))));
            assert!(denials.lately.len() + denials.before.len() <= 2 * MAX_DENIALS);
            now = now + DENIAL_INTERVAL;
        }
    }

    #[test]
    fn a_joiner_is_answered_so_often_at_once_and_so_often_after_that() {
        let (mut answered, address) = (AnsweredJoins::default(), SocketAddr::from(([10, 0, 0, 1], 7117)));
        let mut count = 0;
        for ms in 0..10_000 {
            let now = Time::ORIGIN + std::time::Duration::from_millis(ms);
            count += u32::from(answered.take(now, Run(1), address));
            assert!(answered.take(now, Run(2 + ms), address), "another run: {ms}");
        }
        let most = JOIN_ANSWERS_AT_ONCE + 10_000 / JOIN_ANSWER_INTERVAL.as_millis() as u32;
        assert!((most - 2..=most).contains(&count), "{count} of {most}");
    }

    #[test]
    fn a_crowd_of_joiners_fills_no_table_and_keeps_nobody_waiting() {
        let mut answered = AnsweredJoins::default();
        for run in 0..5 * MAX_JOIN_ASKERS as u64 {
            let address = SocketAddr::from(([10, 0, 0, 1], run as u16));
            assert!(answered.take(Time::ORIGIN, Run(run), address), "{run}");
            assert!(answered.size() <= 2 * MAX_JOIN_ASKERS);
        }
    }
}
