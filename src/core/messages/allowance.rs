//! Allowances: the messages and bytes that one member may relay as new broadcasts, send in direct messages, and
//! fetch; over datagrams, whose source can be forged, it fetches less.
//!
//! Each member has a budget of messages and of bytes per [`ALLOWANCE_INTERVAL`]; what goes beyond it is dropped and
//! counted. An honest origin is slower than that by its own pace (see `broadcast`), so a member that exceeds its budget
//! floods.
//!
//! Must not know: the contents of messages.

use std::collections::BTreeMap;

use crate::limits::{
    ALLOWANCE_INTERVAL, MAX_ALLOWANCES, MAX_BYTES_PER_MEMBER, MAX_FETCHED_BYTES, MAX_MESSAGES_PER_MEMBER,
};
use crate::member::Run;
use crate::recent::PerInterval;
use crate::time::Time;

/// The messages and bytes that each member has spent in its present interval, by run.
#[derive(Debug, Clone, Default)]
pub(super) struct Allowances {
    spent: BTreeMap<Run, Spent>,
}

#[derive(Debug, Clone, Default)]
struct Spent {
    messages: PerInterval,
    bytes: usize,
    /// The bytes of these that it fetched in datagrams.
    fetched: usize,
}

impl Allowances {
    pub(super) fn size(&self) -> usize {
        self.spent.len()
    }

    /// Spends one message of `bytes` bytes; returns false if that is more than the member has left in this interval, or
    /// if the table has no room for the member.
    pub(super) fn spend(&mut self, now: Time, run: Run, bytes: usize) -> bool {
        if self.spent.len() >= MAX_ALLOWANCES && !self.spent.contains_key(&run) {
            self.spent.retain(|_, spent| !spent.messages.is_over(now, ALLOWANCE_INTERVAL));
            if self.spent.len() >= MAX_ALLOWANCES {
                return false;
            }
        }
        let spent = self.spent.entry(run).or_default();
        if spent.messages.begins_anew(now, ALLOWANCE_INTERVAL) {
            (spent.bytes, spent.fetched) = (0, 0);
        }
        let is_left = spent.bytes + bytes <= MAX_BYTES_PER_MEMBER
            && spent.messages.take(now, ALLOWANCE_INTERVAL, MAX_MESSAGES_PER_MEMBER);
        spent.bytes += if is_left { bytes } else { 0 };
        is_left
    }

    /// Spends one message that the member fetches in datagrams; returns false if that is more than it has left.
    pub(super) fn fetch(&mut self, now: Time, run: Run, bytes: usize) -> bool {
        let fetched = self.spent.get(&run).filter(|spent| !spent.messages.is_over(now, ALLOWANCE_INTERVAL));
        if fetched.is_some_and(|spent| spent.fetched + bytes > MAX_FETCHED_BYTES) || !self.spend(now, run, bytes) {
            return false;
        }
        if let Some(spent) = self.spent.get_mut(&run) {
            spent.fetched += bytes;
        }
        true
    }

    /// Forgets everything, when no broadcast is remembered any more.
    pub(super) fn clear(&mut self) {
        self.spent.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_member_spends_its_allowance_and_has_a_new_one_after_the_interval() {
        let mut allowances = Allowances::default();
        let now = Time::ORIGIN;
        for _ in 0..MAX_MESSAGES_PER_MEMBER {
            assert!(allowances.spend(now, Run(1), 1));
        }
        assert!(!allowances.spend(now, Run(1), 1), "one message more");
        assert!(allowances.spend(now, Run(2), MAX_BYTES_PER_MEMBER));
        assert!(!allowances.spend(now, Run(2), 1), "one byte more");
        assert!(allowances.spend(now + ALLOWANCE_INTERVAL, Run(1), 1));
        assert!(allowances.fetch(now, Run(3), MAX_FETCHED_BYTES));
        assert!(!allowances.fetch(now, Run(3), 1), "one byte more in datagrams");
        assert!(allowances.spend(now, Run(3), 1), "but over a link");
        assert!(allowances.fetch(now + ALLOWANCE_INTERVAL, Run(3), 1));
    }

    #[test]
    fn so_many_members_are_counted_and_those_of_before_give_way() {
        let mut allowances = Allowances::default();
        for run in 1..=MAX_ALLOWANCES as u64 {
            assert!(allowances.spend(Time::ORIGIN, Run(run), 1));
        }
        assert!(!allowances.spend(Time::ORIGIN, Run(0), 1));
        assert!(allowances.spend(Time::ORIGIN, Run(1), 1));
        assert!(allowances.spend(Time::ORIGIN + ALLOWANCE_INTERVAL, Run(0), 1));
        assert_eq!(allowances.size(), 1);
    }
}
