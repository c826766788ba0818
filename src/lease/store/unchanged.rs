//! Expired leaders' rows that a sweep came upon, and the time for which they stand still.
//!
//! Purpose: a leader's row may be deleted when it has expired and is old. By the database's clock alone a living
//! leader's row is both, when that clock steps far ahead; if it were deleted, its lease would be free at once, and two
//! would lead. So a row is deleted only after it was seen unchanged, under the same token, for the length of its lease,
//! by a clock that does not step. That clock may stand still in suspend: then the row stays longer.
//!
//! Invariants: at most [`MAX_UNCHANGED`] rows are remembered, each only while every sweep meets it.
//!
//! Must not know: how rows are found or deleted.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// The largest number of expired leaders' rows that one sweep looks at. The rest waits for the next.
pub(super) const MAX_UNCHANGED: usize = 256;

/// A leader's row that has expired and is old.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Expired {
    pub(super) lease: String,
    pub(super) token: String,
    pub(super) lease_ms: i64,
}

/// The rows met by the last sweep, and the times at which they were first met.
#[derive(Debug, Default)]
pub(super) struct UnchangedRows(BTreeMap<Expired, Instant>);

impl UnchangedRows {
    /// Notes the rows that a sweep met; returns those that may be deleted.
    pub(super) fn meet(&mut self, met: Vec<Expired>, now: Instant) -> Vec<Expired> {
        let mut noted = BTreeMap::new();
        for row in met.into_iter().take(MAX_UNCHANGED) {
            let since = self.0.get(&row).copied().unwrap_or(now);
            noted.insert(row, since);
        }
        self.0 = noted;
        let stands_long = |(row, since): (&Expired, &Instant)| {
            let lease = Duration::from_millis(u64::try_from(row.lease_ms).unwrap_or(u64::MAX));
            (now.saturating_duration_since(*since) >= lease).then(|| row.clone())
        };
        self.0.iter().filter_map(stands_long).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(lease: &str, token: &str) -> Expired {
        Expired { lease: lease.into(), token: token.into(), lease_ms: 1_000 }
    }

    #[test]
    fn a_row_goes_after_it_was_met_unchanged_for_its_lease() {
        let (mut unchanged, begin) = (UnchangedRows::default(), Instant::now());
        let at = |millis| begin + Duration::from_millis(millis);
        assert_eq!(unchanged.meet(vec![row("x", "1")], begin), []);
        assert_eq!(unchanged.meet(vec![row("x", "1")], at(999)), []);
        assert_eq!(unchanged.meet(vec![row("x", "1")], at(1_000)), [row("x", "1")]);
    }

    #[test]
    fn a_renewal_or_a_sweep_that_does_not_meet_it_begins_anew() {
        let (mut unchanged, begin) = (UnchangedRows::default(), Instant::now());
        let at = |millis| begin + Duration::from_millis(millis);
        assert_eq!(unchanged.meet(vec![row("x", "1"), row("y", "1")], begin), []);
        assert_eq!(unchanged.meet(vec![row("x", "2")], at(1_000)), [], "another token");
        assert_eq!(unchanged.meet(vec![row("x", "2"), row("y", "1")], at(1_500)), [], "not met in between");
        assert_eq!(unchanged.meet(vec![row("x", "2"), row("y", "1")], at(2_000)), [row("x", "2")]);
    }

    #[test]
    fn what_is_remembered_has_a_limit() {
        let (mut unchanged, begin) = (UnchangedRows::default(), Instant::now());
        let many = (0..=MAX_UNCHANGED).map(|number| row(&number.to_string(), "1"));
        assert_eq!(unchanged.meet(many.collect(), begin), []);
        assert_eq!(unchanged.0.len(), MAX_UNCHANGED);
    }
}
