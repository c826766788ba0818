//! Rate limits for what strangers provoke, bounded in memory by construction.

use std::collections::BTreeMap;
use std::net::SocketAddr;

use super::limits::{MAX_QUESTIONS_PER_INTERVAL, NOTICE_INTERVAL, QUESTION_INTERVAL};
use super::time::Time;

/// At most one packet per address and [`QUESTION_INTERVAL`], and [`MAX_QUESTIONS_PER_INTERVAL`] in all.
#[derive(Debug, Default)]
pub(super) struct Questions {
    began: Option<Time>,
    asked: BTreeMap<SocketAddr, Time>,
    before: BTreeMap<SocketAddr, Time>,
}

impl Questions {
    /// How much is kept.
    pub(super) fn size(&self) -> usize {
        self.asked.len() + self.before.len()
    }

    /// Whether this address may be answered or asked now; counts it if so.
    pub(super) fn allow(&mut self, now: Time, address: SocketAddr) -> bool {
        if self.began.is_none_or(|began| now.since(began) >= QUESTION_INTERVAL) {
            self.before = std::mem::take(&mut self.asked);
            self.began = Some(now);
        }
        let recently = |table: &BTreeMap<SocketAddr, Time>| {
            table.get(&address).is_some_and(|at| now.since(*at) < QUESTION_INTERVAL)
        };
        if self.asked.len() >= MAX_QUESTIONS_PER_INTERVAL || recently(&self.asked) || recently(&self.before) {
            return false;
        }
        self.asked.insert(address, now);
        true
    }
}

/// At most one notice of a kind per [`NOTICE_INTERVAL`].
#[derive(Debug, Default)]
pub(super) struct NoticeRate {
    last: BTreeMap<&'static str, Time>,
}

impl NoticeRate {
    /// Whether a notice of this kind may be given now; counts it if so.
    pub(super) fn allow(&mut self, now: Time, kind: &'static str) -> bool {
        if self.last.get(kind).is_some_and(|last| now.since(*last) < NOTICE_INTERVAL) {
            return false;
        }
        self.last.insert(kind, now);
        true
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn address(port: u16) -> SocketAddr {
        SocketAddr::from(([10, 0, 0, 1], port))
    }

    #[test]
    fn one_address_is_asked_once_a_second_across_intervals() {
        let mut questions = Questions::default();
        let at = |ms| Time::ORIGIN + Duration::from_millis(ms);
        assert!(questions.allow(at(0), address(2)));
        assert!(questions.allow(at(900), address(1)));
        assert!(!questions.allow(at(1_100), address(1)));
        assert!(questions.allow(at(1_900), address(1)));
    }

    #[test]
    fn all_addresses_together_are_bounded() {
        let mut questions = Questions::default();
        let allowed = (1..=1_000).filter(|port| questions.allow(Time::ORIGIN, address(*port))).count();
        assert_eq!(allowed, MAX_QUESTIONS_PER_INTERVAL);
    }
}
